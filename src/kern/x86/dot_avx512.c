// AVX-512 products with f32, f16 and bf16 rows as they lie in the file, and with any other type row by decoded row; as
// dot_avx2.c, with tiles of four rows and six tokens.
#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

CH_FORCE_INLINE __m512 weights16(int type, const uint8_t *row, size_t i) {
    if (type == CH_TYPE_F32) return _mm512_loadu_ps((const float *)row + i);
    const __m256i x = _mm256_loadu_si256((const __m256i *)((const uint16_t *)row + i));
    if (type == CH_TYPE_F16) return _mm512_cvtph_ps(x);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

CH_FORCE_INLINE float sum16(__m512 x) {
    return sum8(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}

// The shapes of the float product: rows w, activations x.
typedef struct float_args {
    const uint8_t *w;
    size_t row_bytes, n_row;
    const float *x;
    size_t ld, n_tok, n;
    float *y;
    size_t ld_y;
} float_args;

// Rows [r, r + n_row) times tokens [t, t + n_tok).
CH_FORCE_INLINE void dot_tile(int type, const float_args *a, size_t r0, int n_row, size_t t0, int n_tok) {
    const size_t size = type == CH_TYPE_F32 ? 4 : 2, n = a->n, n16 = n & ~(size_t)15;
    const uint8_t *w = a->w + r0 * a->row_bytes;
    const float *x = a->x + t0 * a->ld;
    __m512 acc[24];
#pragma GCC unroll 24
    for (int i = 0; i < n_row * n_tok; i++) acc[i] = _mm512_setzero_ps();
    for (size_t i = 0; i < n16; i += 16) {
        __m512 v[6];
#pragma GCC unroll 6
        for (int t = 0; t < n_tok; t++) v[t] = _mm512_loadu_ps(x + (size_t)t * a->ld + i);
#pragma GCC unroll 8
        for (int r = 0; r < n_row; r++) {
            const __m512 u = weights16(type, w + (size_t)r * a->row_bytes, i);
#pragma GCC unroll 6
            for (int t = 0; t < n_tok; t++) acc[r * n_tok + t] = _mm512_fmadd_ps(u, v[t], acc[r * n_tok + t]);
        }
    }
    if (n16 < n) {
        float wt[16] = {0}, xt[16] = {0};
#pragma GCC unroll 6
        for (int t = 0; t < n_tok; t++) {
            memcpy(xt, x + (size_t)t * a->ld + n16, (n - n16) * sizeof *xt);
#pragma GCC unroll 8
            for (int r = 0; r < n_row; r++) {
                memcpy(wt, w + (size_t)r * a->row_bytes + n16 * size, (n - n16) * size);
                acc[r * n_tok + t] =
                    _mm512_fmadd_ps(weights16(type, (const uint8_t *)wt, 0), _mm512_loadu_ps(xt), acc[r * n_tok + t]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < n_row; r++)
#pragma GCC unroll 6
        for (int t = 0; t < n_tok; t++)
            a->y[(t0 + (size_t)t) * a->ld_y + r0 + (size_t)r] = sum16(acc[r * n_tok + t]);
}

// n_tok tokens, all rows: eight rows at a time for one token, else four, else single ones.
CH_FORCE_INLINE void few_tokens(int type, const float_args *a, size_t t, int n_tok) {
    size_t r = 0;
    for (; n_tok == 1 && r + 8 <= a->n_row; r += 8) dot_tile(type, a, r, 8, t, 1);
    for (; r + CH_FLOAT_ROWS <= a->n_row; r += CH_FLOAT_ROWS) dot_tile(type, a, r, CH_FLOAT_ROWS, t, n_tok);
    for (; r < a->n_row; r++) dot_tile(type, a, r, 1, t, n_tok);
}

CH_FORCE_INLINE void all_tokens(int type, const float_args *a) {
    size_t t = 0;
    for (; a->n_tok - t >= 6; t += 6) few_tokens(type, a, t, 6);
    if (a->n_tok - t >= 3) {
        few_tokens(type, a, t, 3);
        t += 3;
    }
    if (a->n_tok - t == 2)
        few_tokens(type, a, t, 2);
    else if (a->n_tok - t == 1)
        few_tokens(type, a, t, 1);
}

static void tokens(ch_type type, const float_args *a) {
    if (type == CH_TYPE_F16)
        all_tokens(CH_TYPE_F16, a);
    else if (type == CH_TYPE_BF16)
        all_tokens(CH_TYPE_BF16, a);
    else
        all_tokens(CH_TYPE_F32, a);
}

CH_FORCE_INLINE void widen(int type, const uint8_t *row, size_t n, float *dst) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(dst + i, weights16(type, row, i));
    if (i < n) {
        uint16_t tail[16] = {0};
        float all[16];
        memcpy(tail, (const uint16_t *)row + i, (n - i) * 2);
        _mm512_storeu_ps(all, weights16(type, (const uint8_t *)tail, 0));
        memcpy(dst + i, all, (n - i) * sizeof *dst);
    }
}

static void decode_row(const ch_type_info *type, const uint8_t *row, size_t n, float *dst) {
    if (type->id == CH_TYPE_F16)
        widen(CH_TYPE_F16, row, n, dst);
    else if (type->id == CH_TYPE_BF16)
        widen(CH_TYPE_BF16, row, n, dst);
    else
        type->decode(row, dst, n);
}

void ch_kern_matmul_float_avx512(const ch_mat_call *c) {
    const ch_mat *m = c->m;
    const ch_type type = m->type->id;
    const size_t n = m->n_in, row = n / m->type->n_block * m->type->n_bytes, ld_w = ch_kern_float_row(n);
    const bool plain = type == CH_TYPE_F32 || ((type == CH_TYPE_F16 || type == CH_TYPE_BF16) && c->n_tok <= 6);
    const size_t step = ch_kern_float_step(c);
    for (size_t t = 0; t < c->n_tok; t += step) {
        float_args a = {.w = m->raw + c->r0 * row,
                        .row_bytes = row,
                        .n_row = c->r1 - c->r0,
                        .x = (const float *)((const uint8_t *)c->act + t * c->ld_act),
                        .ld = c->ld_act / sizeof(float),
                        .n_tok = c->n_tok - t < step ? c->n_tok - t : step,
                        .n = n,
                        .y = c->y + t * c->ld_y + c->r0,
                        .ld_y = c->ld_y};
        if (plain && c->n_tok <= 6) {
            tokens(type, &a);
            continue;
        }
        for (size_t r = c->r0; r < c->r1; r += CH_FLOAT_ROWS) {
            a.n_row = c->r1 - r < CH_FLOAT_ROWS ? c->r1 - r : CH_FLOAT_ROWS;
            a.w = m->raw + r * row;
            a.y = c->y + t * c->ld_y + r;
            if (!plain) {
                for (size_t i = 0; i < a.n_row; i++)
                    decode_row(m->type, m->raw + (r + i) * row, n, (float *)c->work + i * ld_w);
                a.w = c->work;
                a.row_bytes = ld_w * sizeof(float);
            }
            tokens(CH_TYPE_F32, &a);
        }
    }
}
