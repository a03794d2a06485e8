// Random weight rows of any type: random bytes with sane scales. Shared by the kernel tests and their benchmark.
#ifndef CHECKKERN_WEIGHTS_H
#define CHECKKERN_WEIGHTS_H

#include <string.h>

#include "kern/kern.h"

enum { SCALE_NORMAL, SCALE_LARGE, SCALE_TINY, SCALE_ZERO, N_SCALES };

// Byte places of the f16 scales of a block; -1 ends.
static inline const int *half_places(ch_type type) {
    static const int first[] = {0, -1}, two[] = {0, 2, -1}, q2_k[] = {80, 82, -1}, q3_k[] = {108, -1}, q6_k[] = {208, -1};
    static const int tq1[] = {52, -1}, tq2[] = {64, -1}, none[] = {-1};
    switch (type) {
    case CH_TYPE_Q4_1:
    case CH_TYPE_Q5_1:
    case CH_TYPE_Q8_1:
    case CH_TYPE_Q4_K:
    case CH_TYPE_Q5_K: return two;
    case CH_TYPE_Q2_K: return q2_k;
    case CH_TYPE_Q3_K: return q3_k;
    case CH_TYPE_Q6_K: return q6_k;
    case CH_TYPE_TQ1_0: return tq1;
    case CH_TYPE_TQ2_0: return tq2;
    case CH_TYPE_MXFP4:
    case CH_TYPE_NVFP4:
    case CH_TYPE_IQ1_M:
    case CH_TYPE_Q8_K: return none;
    default: return first;
    }
}

static inline uint16_t random_half(ch_rng *g, int mode) {
    const uint16_t sign = ch_rng_u64(g) & 1 ? 0x8000 : 0;
    if (mode == SCALE_ZERO) return sign;
    if (mode == SCALE_TINY) return sign | (uint16_t)(ch_rng_u64(g) % 0x400); // subnormal
    if (mode == SCALE_LARGE) return sign | (uint16_t)(0x7800 + ch_rng_u64(g) % 0x3ff);
    return sign | ch_f32_to_f16((float)(0.001 + 0.01 * ch_rng_f64(g)));
}

static inline void random_float_weight(const ch_type_info *t, ch_rng *g, int mode, uint8_t *p) {
    const float size = mode == SCALE_LARGE ? 1e4f : mode == SCALE_TINY ? 1e-6f : mode == SCALE_ZERO ? 0.0f : 1.0f;
    const float x = ch_rng_normal(g) * size;
    const uint16_t h = t->id == CH_TYPE_F16 ? ch_f32_to_f16(x) : ch_f32_to_bf16(x);
    memcpy(p, t->id == CH_TYPE_F32 ? (const void *)&x : &h, t->n_bytes);
}

static inline void random_block(const ch_type_info *t, ch_rng *g, int mode, uint8_t *b) {
    if (t->id == CH_TYPE_F32 || t->id == CH_TYPE_F16 || t->id == CH_TYPE_BF16) {
        random_float_weight(t, g, mode, b);
        return;
    }
    for (uint32_t i = 0; i < t->n_bytes; i++) b[i] = (uint8_t)(ch_rng_u64(g) >> 32);
    for (const int *p = half_places(t->id); *p >= 0; p++) {
        const uint16_t h = random_half(g, mode);
        memcpy(b + *p, &h, 2);
    }
    if (t->id == CH_TYPE_Q8_K) {
        const float d = ch_f16_to_f32(random_half(g, mode));
        memcpy(b, &d, sizeof d);
    }
    if (t->id == CH_TYPE_IQ1_M) b[55] &= 0xbf; // no infinity or NaN
    if (t->id == CH_TYPE_MXFP4)
        b[0] = (uint8_t)(mode == SCALE_LARGE ? 140 + b[0] % 8 : mode == SCALE_TINY ? b[0] % 8 : 110 + b[0] % 16);
    if (t->id == CH_TYPE_NVFP4)
        for (int i = 0; i < 4; i++) b[i] &= 0x7f;
}

static inline void random_rows(const ch_type_info *t, ch_rng *g, int mode, size_t n_rows, size_t n_in, uint8_t *w) {
    for (size_t i = 0; i < n_rows * (n_in / t->n_block); i++) random_block(t, g, mode, w + i * t->n_bytes);
}

#endif
