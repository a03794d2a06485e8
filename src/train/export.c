// A model in training as a GGUF file: keys of the family, the tokenizer's keys, tensors; or its adapters alone.
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

// Parameters from off on.
static const float *values_at(const ch_trainer *t, bool average, size_t off) {
    return average && off >= t->model.n_frozen ? t->mean + (off - t->model.n_frozen) : t->w + off;
}

// x += scale B A of the row of a matrix that lies at off.
static void merge_row(const ch_trainer *t, bool average, size_t off, float *x) {
    const ch_train_lora *l = &t->model.lora;
    size_t i = 0;
    while (i < l->n && l->part[i].off + l->part[i].n_out * l->part[i].n_in <= off) i++;
    if (i == l->n || l->part[i].off > off) return;
    const ch_train_lora_part *p = &l->part[i];
    const float *a = values_at(t, average, p->a.off), *b = values_at(t, average, p->b.off) + (off - p->off) / p->n_in * l->rank;
    for (size_t k = 0; k < l->rank; k++) ch_train_axpy((float)l->scale * b[k], a + k * p->n_in, p->n_in, x);
}

static int write_tensor(ch_gguf_writer *w, const ch_trainer *tr, const ch_train_tensor *t, bool average, ch_type type, ch_error *e) {
    const float *v = values_at(tr, average, t->off);
    const ch_type_info *info = ch_quant_type((uint32_t)type_of(t, type));
    const size_t row = (size_t)t->ne[0];
    size_t bytes = 0;
    if (!ch_quant_row_bytes(info, row, &bytes)) return ch_error_set(e, CH_EINTERNAL, "tensor %s", t->name);
    uint8_t *out = ch_alloc(bytes);
    float *x = ch_alloc_array(row, sizeof *x);
    int rc = out && x ? 0 : ch_error_set(e, CH_ENOMEM, "no memory");
    for (size_t i = 0; rc == 0 && i < t->n; i += row) {
        for (size_t j = 0; j < row; j++) x[j] = t->init == CH_TRAIN_DECAY ? -expf(v[i + j]) : v[i + j];
        merge_row(tr, average, t->off + i, x);
        info->encode(x, out, row);
        rc = ch_gguf_write_data(w, out, bytes, e);
    }
    ch_free(out), ch_free(x);
    return rc;
}

static int begin(ch_gguf_writer **w, const ch_trainer *t, const char *path, bool average, ch_error *e) {
    if (average && !t->mean) return ch_error_set(e, CH_ESTATE, "the run keeps no running average (train.average is 0)");
    return ch_gguf_writer_open(w, path, e);
}

typedef struct range {
    size_t begin, end; // tensors
} range;

// rc: of the keys. Tensors, and the end of the file.
static int finish(ch_gguf_writer **w, const ch_trainer *t, const char *path, range r, bool average, ch_type type, int rc, ch_error *e) {
    const ch_train_tensor *x = t->model.tensor;
    for (size_t i = r.begin; rc == 0 && i < r.end; i++) rc = ch_gguf_put_tensor(*w, x[i].name, type_of(&x[i], type), x[i].n_dims, x[i].ne);
    if (rc) ch_error_set(e, rc, "%s: cannot write keys: %s", path, ch_error_name(rc));
    for (size_t i = r.begin; rc == 0 && i < r.end; i++) rc = write_tensor(*w, t, &x[i], average, type, e);
    if (rc == 0) rc = ch_gguf_writer_commit(w, e);
    ch_gguf_writer_abort(w);
    return rc;
}

int ch_trainer_export(const ch_trainer *t, const char *path, ch_type type, bool average, const ch_gguf *tokenizer, const char *tpl,
                      size_t n_tpl, ch_error *e) {
    ch_gguf_writer *w = NULL;
    int rc = begin(&w, t, path, average, e);
    if (rc) return rc;
    rc = ch_train_put_keys(&t->model, w);
    if (rc == 0) rc = put_general(w, t, type);
    if (rc == 0) rc = put_tokenizer(w, tokenizer, tpl, n_tpl);
    return finish(&w, t, path, (range){0, t->model.lora.n ? t->model.n_frozen_tensor : t->model.n_tensor}, average, type, rc, e);
}

int ch_trainer_export_adapter(const ch_trainer *t, const char *path, bool average, ch_error *e) {
    const ch_train_model *m = &t->model;
    ch_gguf_writer *w = NULL;
    int rc = begin(&w, t, path, average, e);
    if (rc) return rc;
    rc = ch_gguf_put_str(w, "general.type", "adapter", 7);
    if (rc == 0) rc = ch_gguf_put_str(w, "general.architecture", m->shape.arch, strlen(m->shape.arch));
    if (rc == 0) rc = ch_gguf_put_str(w, "adapter.type", "lora", 4);
    if (rc == 0) rc = ch_gguf_put_f32(w, "adapter.lora.alpha", (float)t->cfg->adapters.alpha);
    if (rc == 0) rc = put_general(w, t, CH_TYPE_F32);
    return finish(&w, t, path, (range){m->n_frozen_tensor, m->n_tensor}, average, CH_TYPE_F32, rc, e);
}
