// AVX2 attention: online softmax over whole pages. A row is one query head of one token. Blocks of rows go through the pages
// together, so that a page is read from memory once per block; tiles of four rows share each load of keys and values.
// A row's own arithmetic depends on its query and its position only: single accumulators along d_k, pages in order,
// positions in order.
#include <float.h>
#include <math.h>
#include <string.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

enum { BLOCK = 32, TILE = 4, PAGE = CH_KV_PAGE };

static size_t round8(size_t n) {
    return (n + 7) & ~(size_t)7;
}

// A page's keys and values in f32; per row of a block: d_v sums (rounded up to 8), maximum, sum of weights.
static size_t attn_scratch(size_t n_tok, size_t n_q, size_t d_k, size_t d_v) {
    const size_t n = n_tok * n_q;
    return PAGE * (round8(d_k) + round8(d_v)) + (n < BLOCK ? n : BLOCK) * (round8(d_v) + 8);
}

// Keys or values [0, n_pos) of a page as f32 rows: where they lie, or decoded to room. Every block of query rows decodes a page
// once, so the conversion is shared by its rows.
typedef struct f32_rows {
    const float *x;
    size_t ld; // floats
} f32_rows;
CH_FORCE_INLINE f32_rows page_rows(const ch_type_info *t, const uint8_t *p, size_t ld, size_t n_pos, size_t d, float *room) {
    if (t->id == CH_TYPE_F32) return (f32_rows){(const float *)p, ld / sizeof(float)};
    const size_t n = round8(d);
    for (size_t i = 0; i < n_pos; i++) {
        if (t->id != CH_TYPE_F16 || d % 8) {
            t->decode(p + i * ld, room + i * n, d);
            continue;
        }
        for (size_t k = 0; k < d; k += 8)
            _mm256_storeu_ps(room + i * n + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + i * ld + 2 * k))));
    }
    return (f32_rows){room, n};
}

// Scores of positions [0, n_pos) of a page for n_row queries, unscaled. n_pos may be rounded up by the caller to no more
// than PAGE only where those keys exist.
CH_FORCE_INLINE void scores(const float *const *q, int n_row, size_t d, const float *k, size_t k_ld, size_t n_pos,
                            float s[TILE][PAGE]) {
    size_t p = 0;
    if (n_row == TILE) {
        for (; p + 2 <= n_pos; p += 2) {
            const float *k0 = k + p * k_ld, *k1 = k0 + k_ld;
            __m256 acc[8];
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) acc[i] = _mm256_setzero_ps();
            for (size_t i = 0; i < d; i += 8) {
                const __m256 x0 = load_part(k0, i, d), x1 = load_part(k1, i, d);
#pragma GCC unroll 4
                for (int r = 0; r < TILE; r++) {
                    const __m256 y = load_part(q[r], i, d);
                    acc[2 * r] = _mm256_fmadd_ps(x0, y, acc[2 * r]);
                    acc[2 * r + 1] = _mm256_fmadd_ps(x1, y, acc[2 * r + 1]);
                }
            }
            const __m128 a = sums4(acc[0], acc[1], acc[2], acc[3]), b = sums4(acc[4], acc[5], acc[6], acc[7]);
            _mm_storel_pi((__m64 *)&s[0][p], a);
            _mm_storeh_pi((__m64 *)&s[1][p], a);
            _mm_storel_pi((__m64 *)&s[2][p], b);
            _mm_storeh_pi((__m64 *)&s[3][p], b);
        }
    } else {
        for (; p + 4 <= n_pos; p += 4)
            for (int r = 0; r < n_row; r++) {
                __m256 acc[4];
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) acc[i] = _mm256_setzero_ps();
                for (size_t i = 0; i < d; i += 8) {
                    const __m256 y = load_part(q[r], i, d);
#pragma GCC unroll 4
                    for (int j = 0; j < 4; j++)
                        acc[j] = _mm256_fmadd_ps(load_part(k + (p + (size_t)j) * k_ld, i, d), y, acc[j]);
                }
                _mm_storeu_ps(&s[r][p], sums4(acc[0], acc[1], acc[2], acc[3]));
            }
    }
    for (; p < n_pos; p++)
        for (int r = 0; r < n_row; r++) {
            __m256 acc = _mm256_setzero_ps();
            for (size_t i = 0; i < d; i += 8)
                acc = _mm256_fmadd_ps(load_part(k + p * k_ld, i, d), load_part(q[r], i, d), acc);
            s[r][p] = _mm_cvtss_f32(sums4(acc, acc, acc, acc));
        }
}

// Weights of one row's page in place (0 past n_vis, up to n_pos), and the row's running maximum and sum. Returns what the
// sums so far must be multiplied by.
CH_FORCE_INLINE float weights(float *s, size_t n_vis, size_t n_pos, float scale, float *max, float *sum) {
    const __m256 low = _mm256_set1_ps(-FLT_MAX);
    __m256 top = low;
    if (!n_vis) {
        memset(s, 0, n_pos * sizeof *s);
        return 1.0f;
    }
    for (size_t i = 0; i < n_vis; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(s + i), _mm256_set1_ps(scale));
        if (n_vis - i < 8) v = _mm256_blendv_ps(low, v, _mm256_castsi256_ps(first_lanes(n_vis - i)));
        _mm256_storeu_ps(s + i, v);
        top = _mm256_max_ps(top, v);
    }
    const float page_max = max8(top), now = page_max > *max ? page_max : *max;
    __m256 total = _mm256_setzero_ps();
    for (size_t i = 0; i < n_vis; i += 8) {
        __m256 e = exp8(_mm256_sub_ps(_mm256_loadu_ps(s + i), _mm256_set1_ps(now)));
        if (n_vis - i < 8) e = _mm256_and_ps(e, _mm256_castsi256_ps(first_lanes(n_vis - i)));
        _mm256_storeu_ps(s + i, e);
        total = _mm256_add_ps(total, e);
    }
    if (n_pos > round8(n_vis)) memset(s + round8(n_vis), 0, (n_pos - round8(n_vis)) * sizeof *s);
    const float shrink = expf(*max - now);
    *sum = *sum * shrink + sum8(total);
    *max = now;
    return shrink;
}

// acc[r] = acc[r] * shrink[r] + sum over positions of weight * value.
CH_FORCE_INLINE void values(float s[TILE][PAGE], const float *shrink, int n_row, const float *v, size_t v_ld,
                            size_t n_pos, size_t d, float *acc, size_t ld_acc) {
    size_t i = 0;
    for (; i + 16 <= d; i += 16) {
        __m256 x[2 * TILE];
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            const __m256 k = _mm256_set1_ps(shrink[r]);
            x[2 * r] = _mm256_mul_ps(k, _mm256_loadu_ps(acc + (size_t)r * ld_acc + i));
            x[2 * r + 1] = _mm256_mul_ps(k, _mm256_loadu_ps(acc + (size_t)r * ld_acc + i + 8));
        }
        for (size_t p = 0; p < n_pos; p++) {
            const __m256 v0 = _mm256_loadu_ps(v + p * v_ld + i), v1 = _mm256_loadu_ps(v + p * v_ld + i + 8);
#pragma GCC unroll 4
            for (int r = 0; r < n_row; r++) {
                const __m256 w = _mm256_set1_ps(s[r][p]);
                x[2 * r] = _mm256_fmadd_ps(w, v0, x[2 * r]);
                x[2 * r + 1] = _mm256_fmadd_ps(w, v1, x[2 * r + 1]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            _mm256_storeu_ps(acc + (size_t)r * ld_acc + i, x[2 * r]);
            _mm256_storeu_ps(acc + (size_t)r * ld_acc + i + 8, x[2 * r + 1]);
        }
    }
    for (; i < d; i += 8)
        for (int r = 0; r < n_row; r++) {
            float *a = acc + (size_t)r * ld_acc + i;
            __m256 x = _mm256_mul_ps(_mm256_set1_ps(shrink[r]), _mm256_loadu_ps(a));
            for (size_t p = 0; p < n_pos; p++)
                x = _mm256_fmadd_ps(_mm256_set1_ps(s[r][p]), load_part(v + p * v_ld, i, d), x);
            _mm256_storeu_ps(a, x);
        }
}

// Rows [row, row + n_row) against one page. acc: the first row's d_v sums, then maximum and sum of weights.
CH_FORCE_INLINE void page_tile(const ch_attn_args *a, size_t page, f32_rows k, f32_rows v, size_t row, int n_row, float *acc,
                               size_t ld_acc) {
    const float *q[TILE];
    float s[TILE][PAGE], shrink[TILE];
    size_t n_vis[TILE], n_pos = 0;
#pragma GCC unroll 4
    for (int r = 0; r < n_row; r++) {
        const size_t at = row + (size_t)r, t = at / a->n_q, end = a->pos0 + t + 1, begin = page * PAGE;
        q[r] = a->q + t * a->ld_q + at % a->n_q * a->d_k;
        n_vis[r] = end <= begin ? 0 : end - begin < PAGE ? end - begin : PAGE;
        if (n_vis[r] > n_pos) n_pos = n_vis[r];
    }
    if (!n_pos) return;
    scores(q, n_row, a->d_k, k.x, k.ld, n_pos, s);
#pragma GCC unroll 4
    for (int r = 0; r < n_row; r++) {
        float *x = acc + (size_t)r * ld_acc + ld_acc - 8;
        shrink[r] = weights(s[r], n_vis[r], n_pos, a->scale, &x[0], &x[1]);
    }
    values(s, shrink, n_row, v.x, v.ld, n_pos, a->d_v, acc, ld_acc);
}

static void attn(const ch_attn_args *a) {
    const size_t n_row = a->n_tok * a->n_q, ld = round8(a->d_v) + 8;
    float *k_room = a->scratch, *v_room = k_room + PAGE * round8(a->d_k), *sums = v_room + PAGE * round8(a->d_v);
    for (size_t r0 = 0; r0 < n_row; r0 += BLOCK) {
        const size_t n = n_row - r0 < BLOCK ? n_row - r0 : BLOCK;
        const size_t last = a->pos0 + (r0 + n - 1) / a->n_q; // youngest position any row of the block sees
        for (size_t r = 0; r < n; r++) {
            memset(sums + r * ld, 0, ld * sizeof(float));
            sums[r * ld + ld - 8] = -FLT_MAX;
        }
        for (size_t page = 0; page <= last / PAGE; page++) {
            const size_t n_pos = last - page * PAGE < PAGE ? last - page * PAGE + 1 : PAGE;
            const f32_rows k = page_rows(a->k_type, a->page[page] + a->k_off, a->k_ld, n_pos, a->d_k, k_room);
            const f32_rows v = page_rows(a->v_type, a->page[page] + a->v_off, a->v_ld, n_pos, a->d_v, v_room);
            size_t r = 0;
            for (; r + TILE <= n; r += TILE) page_tile(a, page, k, v, r0 + r, TILE, sums + r * ld, ld);
            for (; r < n; r++) page_tile(a, page, k, v, r0 + r, 1, sums + r * ld, ld);
        }
        for (size_t r = 0; r < n; r++) {
            const float *acc = sums + r * ld;
            float *out = a->out + (r0 + r) / a->n_q * a->ld_out + (r0 + r) % a->n_q * a->d_v;
            const __m256 inverse = _mm256_set1_ps(1.0f / acc[ld - 7]);
            for (size_t i = 0; i < a->d_v; i += 8)
                store_part(out, i, a->d_v, _mm256_mul_ps(inverse, _mm256_loadu_ps(acc + i)));
        }
    }
}

void ch_kern_set_attn_avx2(ch_kern *k) {
    k->attn = attn;
    k->attn_scratch = attn_scratch;
}
