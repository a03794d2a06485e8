// Builds small GGUF files in memory that hold a vocabulary, right or wrong, for tests and fuzz targets.
#ifndef CH_TESTS_VOCAB_BUILDER_H
#define CH_TESTS_VOCAB_BUILDER_H

#include <string.h>

#include "text/text.h"

typedef struct vocab_builder {
    ch_buf kv;
    uint64_t n_kv;
    ch_buf file;
} vocab_builder;

static inline void vb_u32(ch_buf *b, uint32_t x) { ch_buf_append(b, &x, 4); }
static inline void vb_u64(ch_buf *b, uint64_t x) { ch_buf_append(b, &x, 8); }
static inline void vb_string(ch_buf *b, const char *s, size_t n) {
    vb_u64(b, n);
    ch_buf_append(b, s, n);
}
static inline void vb_key(vocab_builder *v, const char *key, uint32_t type) {
    vb_string(&v->kv, key, strlen(key));
    vb_u32(&v->kv, type);
    v->n_kv++;
}
static inline void vb_put_str(vocab_builder *v, const char *key, const char *s) {
    vb_key(v, key, CH_GGUF_STR);
    vb_string(&v->kv, s, strlen(s));
}
static inline void vb_put_u32(vocab_builder *v, const char *key, uint32_t x) {
    vb_key(v, key, CH_GGUF_U32);
    vb_u32(&v->kv, x);
}
static inline void vb_put_bool(vocab_builder *v, const char *key, bool x) {
    vb_key(v, key, CH_GGUF_BOOL);
    ch_buf_append(&v->kv, x ? "\1" : "\0", 1);
}
static inline void vb_put_arr(vocab_builder *v, const char *key, uint32_t elem, uint64_t n) { // elements follow
    vb_key(v, key, CH_GGUF_ARR);
    vb_u32(&v->kv, elem);
    vb_u64(&v->kv, n);
}
static inline void vb_put_strs(vocab_builder *v, const char *key, const char *const *s, size_t n) {
    vb_put_arr(v, key, CH_GGUF_STR, n);
    for (size_t i = 0; i < n; i++) vb_string(&v->kv, s[i], strlen(s[i]));
}
static inline void vb_put_i32s(vocab_builder *v, const char *key, const int32_t *x, size_t n) {
    vb_put_arr(v, key, CH_GGUF_I32, n);
    for (size_t i = 0; i < n; i++) vb_u32(&v->kv, (uint32_t)x[i]);
}
static inline void vb_put_f32s(vocab_builder *v, const char *key, const float *x, size_t n) {
    vb_put_arr(v, key, CH_GGUF_F32, n);
    for (size_t i = 0; i < n; i++) ch_buf_append(&v->kv, &x[i], 4);
}

// Opens what was built; the builder is freed. Returns ch_vocab_open's code (or ch_gguf_open_memory's).
static inline int vb_open(vocab_builder *b, ch_vocab **v, ch_error *e) {
    ch_buf_reset(&b->file);
    ch_buf_append(&b->file, "GGUF", 4);
    vb_u32(&b->file, 3);
    vb_u64(&b->file, 0);
    vb_u64(&b->file, b->n_kv);
    ch_buf_append(&b->file, b->kv.data, b->kv.len);
    ch_gguf *g = NULL;
    int rc = ch_gguf_open_memory(&g, b->file.data, b->file.len, "built", e);
    if (!rc) rc = ch_vocab_open(v, g, e);
    ch_gguf_close(&g);
    ch_buf_free(&b->kv);
    ch_buf_free(&b->file);
    b->n_kv = 0;
    return rc;
}

#endif
