// Fuzz target: opens a GGUF file from memory, reads every key every way and touches the ends of every tensor.
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink; // keeps the reads

static void read_all_ways(const ch_gguf *g, const char *key) {
    ch_error e;
    uint32_t u, many[4];
    uint64_t w;
    float f;
    bool b;
    ch_gguf_str s;
    if (ch_gguf_get_u32(g, key, &u, &e) == 1) sink += u;
    if (ch_gguf_get_u64(g, key, &w, &e) == 1) sink += w;
    if (ch_gguf_get_f32(g, key, &f, &e) == 1) sink += f > 0;
    if (ch_gguf_get_bool(g, key, &b, &e) == 1) sink += b;
    if (ch_gguf_get_str(g, key, &s, &e) == 1 && s.n) sink += (uint8_t)s.p[0] + (uint8_t)s.p[s.n - 1];
    if (ch_gguf_get_u32_n(g, key, many, 4, &e) == 1) sink += many[3];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ch_gguf *g;
    ch_error e = {0};
    if (ch_gguf_open_memory(&g, data, size, "fuzz", &e) != 0) {
        if (g || e.code >= 0 || !e.msg[0] || !ch_utf8_valid(e.msg, strlen(e.msg))) abort();
        return 0;
    }
    for (size_t i = 0; i < ch_gguf_n_kv(g); i++) {
        const ch_gguf_kv *kv = ch_gguf_kv_at(g, i);
        if (ch_gguf_find(g, kv->key) != kv) abort();
        read_all_ways(g, kv->key);
        for (uint64_t k = 0; k < kv->n; k++) {
            sink += (uint64_t)ch_gguf_arr_int(kv, k);
            sink += ch_gguf_arr_num(kv, k) > 0;
            ch_gguf_str s = ch_gguf_arr_str(g, kv, k);
            if (s.n) sink += (uint8_t)s.p[0] + (uint8_t)s.p[s.n - 1];
        }
    }
    for (size_t i = 0; i < ch_gguf_n_tensors(g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        if (ch_gguf_find_tensor(g, t->name) != t || t->size == 0) abort();
        const uint8_t *p = t->data;
        sink += p[0] + p[t->size - 1];
        if (t->type->decode) {
            float x[256];
            t->type->decode(p, x, t->type->n_block);
        }
    }
    sink += ch_gguf_fingerprint(g);
    ch_gguf_close(&g);
    return 0;
}
