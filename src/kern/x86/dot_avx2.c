// Products with f32, f16 and bf16 rows as they lie in the file, and with any other type row by decoded row. Activations are
// f32. Each (row, token) has one vector accumulator that walks the inputs in order, so that tiles of any shape give the same.
#include <immintrin.h>
#include <string.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

// Eight weights from position i on.
CH_FORCE_INLINE __m256 weights8(int type, const uint8_t *row, size_t i) {
    if (type == CH_TYPE_F32) return _mm256_loadu_ps((const float *)row + i);
    const __m128i x = _mm_loadu_si128((const __m128i *)((const uint16_t *)row + i));
    if (type == CH_TYPE_F16) return _mm256_cvtph_ps(x);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}


// n_row rows (row_bytes apart) times n_tok tokens (ld floats apart).
CH_FORCE_INLINE void dot_tile(int type, const uint8_t *w, size_t row_bytes, int n_row, const float *x, size_t ld, int n_tok,
                              size_t n, float *y, size_t ld_y) {
    const size_t size = type == CH_TYPE_F32 ? 4 : 2, n8 = n & ~(size_t)7;
    __m256 acc[12];
#pragma GCC unroll 12
    for (int i = 0; i < n_row * n_tok; i++) acc[i] = _mm256_setzero_ps();
    for (size_t i = 0; i < n8; i += 8) {
        __m256 a[3];
#pragma GCC unroll 3
        for (int t = 0; t < n_tok; t++) a[t] = _mm256_loadu_ps(x + (size_t)t * ld + i);
#pragma GCC unroll 8
        for (int r = 0; r < n_row; r++) {
            const __m256 v = weights8(type, w + (size_t)r * row_bytes, i);
#pragma GCC unroll 3
            for (int t = 0; t < n_tok; t++) acc[r * n_tok + t] = _mm256_fmadd_ps(v, a[t], acc[r * n_tok + t]);
        }
    }
    if (n8 < n) {
        float wt[8] = {0}, at[8] = {0};
#pragma GCC unroll 3
        for (int t = 0; t < n_tok; t++) {
            memcpy(at, x + (size_t)t * ld + n8, (n - n8) * sizeof *at);
#pragma GCC unroll 8
            for (int r = 0; r < n_row; r++) {
                memcpy(wt, w + (size_t)r * row_bytes + n8 * size, (n - n8) * size);
                acc[r * n_tok + t] = _mm256_fmadd_ps(weights8(type, (const uint8_t *)wt, 0), _mm256_loadu_ps(at),
                                                     acc[r * n_tok + t]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < n_row; r++)
#pragma GCC unroll 3
        for (int t = 0; t < n_tok; t++) y[(size_t)t * ld_y + (size_t)r] = sum8(acc[r * n_tok + t]);
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

// Up to three tokens: eight rows at a time for one, else four, else single ones.
CH_FORCE_INLINE void few_tokens(int type, const float_args *a, size_t r, size_t t, int n_tok) {
    for (; r + 8 <= a->n_row && n_tok == 1; r += 8)
        dot_tile(type, a->w + r * a->row_bytes, a->row_bytes, 8, a->x + t * a->ld, a->ld, 1, a->n, a->y + t * a->ld_y + r,
                 a->ld_y);
    for (; r + CH_FLOAT_ROWS <= a->n_row; r += CH_FLOAT_ROWS)
        dot_tile(type, a->w + r * a->row_bytes, a->row_bytes, CH_FLOAT_ROWS, a->x + t * a->ld, a->ld, n_tok, a->n,
                 a->y + t * a->ld_y + r, a->ld_y);
    for (; r < a->n_row; r++)
        dot_tile(type, a->w + r * a->row_bytes, a->row_bytes, 1, a->x + t * a->ld, a->ld, n_tok, a->n,
                 a->y + t * a->ld_y + r, a->ld_y);
}

CH_FORCE_INLINE void all_tokens(int type, const float_args *a) {
    size_t t = 0;
    for (; t + 3 <= a->n_tok; t += 3) few_tokens(type, a, 0, t, 3);
    if (a->n_tok - t == 2) few_tokens(type, a, 0, t, 2);
    if (a->n_tok - t == 1) few_tokens(type, a, 0, t, 1);
}

static void tokens_f32(const float_args *a) {
    all_tokens(CH_TYPE_F32, a);
}

static void tokens_f16(const float_args *a) {
    all_tokens(CH_TYPE_F16, a);
}

static void tokens_bf16(const float_args *a) {
    all_tokens(CH_TYPE_BF16, a);
}

CH_FORCE_INLINE void widen(int type, const uint8_t *row, size_t n, float *dst) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, weights8(type, row, i));
    if (i < n) {
        uint16_t tail[8] = {0};
        float all[8];
        memcpy(tail, (const uint16_t *)row + i, (n - i) * 2);
        _mm256_storeu_ps(all, weights8(type, (const uint8_t *)tail, 0));
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

void ch_kern_matmul_float_avx2(const ch_mat_call *c) {
    const ch_mat *m = c->m;
    const int type = (int)m->type->id;
    const size_t n = m->n_in, row = n / m->type->n_block * m->type->n_bytes, ld_w = ch_kern_float_row(n);
    const bool plain = type == CH_TYPE_F32 || ((type == CH_TYPE_F16 || type == CH_TYPE_BF16) && c->n_tok <= 3);
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
        if (plain && c->n_tok <= 3) {
            if (type == CH_TYPE_F32)
                tokens_f32(&a);
            else if (type == CH_TYPE_F16)
                tokens_f16(&a);
            else
                tokens_bf16(&a);
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
            tokens_f32(&a);
        }
    }
}
