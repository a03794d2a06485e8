// Opening a model: a small synthetic file of any architecture, with keys and tensors changed as the input says. Whatever it
// says, the loader takes the file or names what is wrong; what it takes must also run.
//   byte 0: architecture and preset; then four bytes per change: what, which (two bytes), value
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/gguf.h"
#include "model/model.h"
#include "synth/synth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SET_U32, SET_F32, DROP_KEY, SHORTEN, DROP_TENSOR, RESIZE, FILL, N_KIND };
enum { MAX_EDITS = 8, MAX_TENSOR = 1 << 22 };

static const uint32_t whole[] = {0, 1, 2, 3, 4, 5, 7, 16, 17, 24, 96, 255, 1024, 1025, 65536, 1u << 20, INT32_MAX, UINT32_MAX};
static const float broken[] = {0, 1, -1, 1e-30f, 1e30f, -1e30f, NAN, INFINITY};
#define N_WHOLE (sizeof whole / sizeof *whole)
#define N_BROKEN (sizeof broken / sizeof *broken)

typedef struct edit {
    unsigned kind, which, value;
} edit;

typedef struct edits {
    edit e[MAX_EDITS];
    size_t n;
} edits;

static const edit *find(const edits *l, unsigned first, unsigned last, size_t at, size_t n) {
    for (size_t i = 0; i < l->n; i++)
        if (l->e[i].kind >= first && l->e[i].kind <= last && l->e[i].which % n == at) return &l->e[i];
    return NULL;
}

static void copy_keys(ch_gguf_writer *w, const ch_gguf *g, const edits *l) {
    size_t n = ch_gguf_n_kv(g);
    for (size_t i = 0; i < n; i++) {
        const ch_gguf_kv *kv = ch_gguf_kv_at(g, i);
        const edit *e = strcmp(kv->key, "general.architecture") ? find(l, SET_U32, SHORTEN, i, n) : NULL;
        if (!e) ch_gguf_put_kv(w, g, kv);
        else if (e->kind == SET_U32) ch_gguf_put_u32(w, kv->key, whole[e->value % N_WHOLE]);
        else if (e->kind == SET_F32) ch_gguf_put_f32(w, kv->key, broken[e->value % N_BROKEN]);
        else if (e->kind == SHORTEN && kv->type == CH_GGUF_ARR && kv->elem != CH_GGUF_STR) ch_gguf_put_arr(w, kv->key, kv->elem, kv->raw, kv->n / 2);
    }
}

// New shape of a tensor; false: too large, keep the old one.
static bool resize(const ch_gguf_tensor *t, const edit *e, uint64_t ne[4]) {
    memcpy(ne, t->ne, 4 * sizeof *ne);
    if (!e || e->kind != RESIZE) return false;
    uint64_t v = whole[e->value % N_WHOLE], n = 1;
    ne[e->value / 64] = v ? v : 1;
    for (int i = 0; i < 4; i++) {
        if (ne[i] > MAX_TENSOR || n * ne[i] > MAX_TENSOR) return false;
        n *= ne[i];
    }
    return true;
}

static bool copy_tensors(ch_gguf_writer *w, const ch_gguf *g, const edits *l) {
    size_t n = ch_gguf_n_tensors(g);
    ch_error e;
    float *x = calloc(MAX_TENSOR, sizeof *x);
    for (int pass = 0; x && pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
            const edit *d = find(l, DROP_TENSOR, FILL, i, n);
            if (d && d->kind == DROP_TENSOR) continue;
            uint64_t ne[4];
            if (!resize(t, d, ne)) memcpy(ne, t->ne, sizeof ne);
            size_t count = (size_t)(ne[0] * ne[1] * ne[2] * ne[3]);
            if (!pass && ch_gguf_put_tensor(w, t->name, CH_TYPE_F32, 4, ne)) goto fail;
            if (!pass) continue;
            memset(x, 0, count * sizeof *x);
            memcpy(x, t->data, t->size < count * sizeof *x ? t->size : count * sizeof *x);
            if (d && d->kind == FILL)
                for (size_t k = 0; k < count; k++) x[k] = broken[d->value % N_BROKEN];
            if (ch_gguf_write_data(w, x, count * sizeof *x, &e)) goto fail;
        }
    free(x);
    return x != NULL;
fail:
    free(x);
    return false;
}

static void step(ch_model *m) {
    ch_error e;
    ch_seq_pool *pool = NULL;
    ch_seq *s = NULL;
    float *logits = calloc((size_t)ch_model_get_info(m)->n_vocab, sizeof *logits);
    float *hidden = calloc((size_t)ch_model_get_info(m)->n_embd, sizeof *hidden);
    const int32_t token[3] = {0, 1, 2}, row = 2;
    ch_segment seg = {.n_tok = 3};
    if (logits && !ch_seq_pool_create(&pool, ch_model_plan(m), &(ch_seq_limits){.n_seq = 1, .n_page = 2, .max_tokens = 8}, &e) &&
        !ch_seq_create(&s, pool, &e)) {
        seg.seq = s;
        ch_model_forward(m, &(ch_batch){.token = token, .n_row = 3, .seg = &seg, .n_seg = 1, .out_row = &row, .n_out = 1}, logits, &e);
        if (hidden) ch_model_draft(m, &(ch_draft){&s, token, 1, 0, NULL, logits, hidden}, &e);
    }
    free(hidden);
    ch_seq_free(&s);
    if (pool) ch_seq_pool_free(&pool);
    free(logits);
}

// Architecture and preset number `pick` of those that are tiny.
static bool pick_shape(ch_synth_shape *s, unsigned pick) {
    ch_error e;
    unsigned n = 0;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; ch_synth_arch_at(i); i++)
            for (size_t k = 0; ch_synth_preset_at(ch_synth_arch_at(i), k); k++) {
                if (strncmp(ch_synth_preset_at(ch_synth_arch_at(i), k), "tiny", 4)) continue;
                if (!round) n++;
                else if (pick % n == 0) {
                    if (ch_synth_preset(s, ch_synth_arch_at(i), ch_synth_preset_at(ch_synth_arch_at(i), k), &e)) return false;
                    s->n_vocab = 272;
                    s->n_nextn = s->attn_interval > 0; // the multi-token prediction block of the qwen35 families
                    return s->n_embd <= 256;
                } else pick--;
            }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    char path[64], changed[64];
    snprintf(path, sizeof path, "/tmp/fuzz_model_%d_a", (int)getpid());
    snprintf(changed, sizeof changed, "/tmp/fuzz_model_%d_b", (int)getpid());
    ch_synth_shape s;
    ch_error e;
    edits l = {.n = 0};
    for (size_t at = 1; at + 4 <= size && l.n < MAX_EDITS; at += 4)
        l.e[l.n++] = (edit){data[at] % N_KIND, data[at + 1] | (unsigned)data[at + 2] << 8, data[at + 3]};
    ch_gguf *g = NULL;
    ch_gguf_writer *w = NULL;
    ch_model *m = NULL;
    if (pick_shape(&s, data[0]) && !ch_synth_write(path, &s, CH_TYPE_F32, 1, NULL, NULL, &e) && !ch_gguf_open(&g, path, &e) &&
        !ch_gguf_writer_open(&w, changed, &e)) {
        copy_keys(w, g, &l);
        if (copy_tensors(w, g, &l) && !ch_gguf_writer_commit(&w, &e) &&
            !ch_model_open(&m, changed, &(ch_model_params){.tier = "ref", .n_threads = 1, .n_batch = 4, .n_seq = 1, .mtp = true}, &e))
            step(m);
    }
    ch_model_close(&m);
    if (w) ch_gguf_writer_abort(&w);
    if (g) ch_gguf_close(&g);
    unlink(path), unlink(changed);
    return 0;
}
