// A model in training as a GGUF file: keys of the family, the tokenizer's keys, tensors.
#include "train/trainer.h"

#include <stdio.h>

static ch_type type_of(const ch_train_tensor *t, ch_type type) {
    if (t->keep_f32) return CH_TYPE_F32;
    const ch_type_info *info = ch_quant_type((uint32_t)type);
    return t->ne[0] % info->n_block ? CH_TYPE_F16 : type;
}

// tokenizer.* of another file; the template may be replaced.
static int put_tokenizer(ch_gguf_writer *w, const ch_gguf *g, const char *tpl, size_t n_tpl) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ch_gguf_n_kv(g); i++) {
        const ch_gguf_kv *kv = ch_gguf_kv_at(g, i);
        if (strncmp(kv->key, "tokenizer.", 10) != 0 || (tpl && strcmp(kv->key, "tokenizer.chat_template") == 0)) continue;
        rc = ch_gguf_put_kv(w, g, kv);
    }
    return rc || !tpl ? rc : ch_gguf_put_str(w, "tokenizer.chat_template", tpl, n_tpl);
}

static int put_general(ch_gguf_writer *w, const ch_trainer *t, ch_type type) {
    const char *name = t->cfg->name ? t->cfg->name : t->model.shape.arch;
    char about[96];
    const int n = snprintf(about, sizeof about, "Trained by chimere: %llu steps, %llu tokens", (unsigned long long)t->step,
                           (unsigned long long)t->n_tokens);
    const uint32_t file_type = type == CH_TYPE_F32 ? 0 : type == CH_TYPE_F16 ? 1 : type == CH_TYPE_BF16 ? 32 : 7;
    int rc = ch_gguf_put_str(w, "general.name", name, strlen(name));
    if (rc == 0) rc = ch_gguf_put_str(w, "general.description", about, (size_t)n);
    if (rc == 0) rc = ch_gguf_put_u32(w, "general.file_type", file_type);
    return rc ? rc : ch_gguf_put_u32(w, "general.quantization_version", 2);
}

static int write_tensor(ch_gguf_writer *w, const ch_train_tensor *t, const float *v, ch_type type, ch_error *e) {
    const ch_type_info *info = ch_quant_type((uint32_t)type_of(t, type));
    const size_t row = (size_t)t->ne[0];
    size_t bytes = 0;
    if (!ch_quant_row_bytes(info, row, &bytes)) return ch_error_set(e, CH_EINTERNAL, "tensor %s", t->name);
    uint8_t *out = ch_alloc(bytes);
    float *x = ch_alloc_array(row, sizeof *x);
    int rc = out && x ? 0 : ch_error_set(e, CH_ENOMEM, "no memory");
    for (size_t i = 0; rc == 0 && i < t->n; i += row) {
        for (size_t j = 0; j < row; j++) x[j] = t->init == CH_TRAIN_DECAY ? -expf(v[t->off + i + j]) : v[t->off + i + j];
        info->encode(x, out, row);
        rc = ch_gguf_write_data(w, out, bytes, e);
    }
    ch_free(out), ch_free(x);
    return rc;
}

int ch_trainer_export(const ch_trainer *t, const char *path, ch_type type, bool average, const ch_gguf *tokenizer, const char *tpl,
                      size_t n_tpl, ch_error *e) {
    if (average && !t->mean) return ch_error_set(e, CH_ESTATE, "the run keeps no running average (train.average is 0)");
    const ch_train_model *m = &t->model;
    const float *v = average ? t->mean : t->w;
    ch_gguf_writer *w = NULL;
    int rc = ch_gguf_writer_open(&w, path, e);
    if (rc) return rc;
    rc = ch_train_put_keys(m, w);
    if (rc == 0) rc = put_general(w, t, type);
    if (rc == 0) rc = put_tokenizer(w, tokenizer, tpl, n_tpl);
    for (size_t i = 0; rc == 0 && i < m->n_tensor; i++)
        rc = ch_gguf_put_tensor(w, m->tensor[i].name, type_of(&m->tensor[i], type), m->tensor[i].n_dims, m->tensor[i].ne);
    if (rc) ch_error_set(e, rc, "%s: cannot write keys: %s", path, ch_error_name(rc));
    for (size_t i = 0; rc == 0 && i < m->n_tensor; i++) rc = write_tensor(w, &m->tensor[i], v, type, e);
    if (rc == 0) rc = ch_gguf_writer_commit(&w, e);
    ch_gguf_writer_abort(&w);
    return rc;
}
