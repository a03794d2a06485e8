// Chunk kernels with VNNI: eight tokens at a time, codes unsigned.
#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/many.h"

CH_FORCE_INLINE __m512i splat32(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

// Tokens [t0, t0 + n) of the group; those past n_tok are computed and not stored.
CH_FORCE_INLINE void tokens(int n_sub, bool affine, const ch_many_args *a, size_t t0, int n) {
    const __mmask16 rows = (__mmask16)((1u << a->n_row) - 1);
    __m512 acc[8];
    float *y = a->y + t0 * a->ld_y;
#pragma GCC unroll 8
    for (int t = 0; t < n; t++) {
        acc[t] = _mm512_setzero_ps();
        if (!a->first && t0 + (size_t)t < a->n_tok) acc[t] = _mm512_maskz_loadu_ps(rows, y + (size_t)t * a->ld_y);
    }
    const bool sums = !affine && a->ld_group > CH_GROUP_SUMS;
    for (size_t b = 0; b < a->n_blk; b++) {
        const uint8_t *g = a->group + b * a->ld_group, *q = g + t0 * CH_PANEL_BLOCK, *codes = a->chunk->codes[b];
        const float *d = (const float *)(g + CH_GROUP_D) + t0, *extra = (const float *)(g + CH_GROUP_SUMS) + t0;
        __m512 part[8];
#pragma GCC unroll 2
        for (int j = 0; j < n_sub; j++) {
            const __m512 w = _mm512_load_ps(a->chunk->w[b][j]);
            __m512i sum[8];
#pragma GCC unroll 8
            for (int t = 0; t < n; t++) sum[t] = sums ? splat32(extra + CH_GROUP_TOKENS * j + t) : _mm512_setzero_si512();
#pragma GCC unroll 8
            for (int k = 0; k < 8 / n_sub; k++) {
                const int step = 8 / n_sub * j + k;
                const __m512i c = _mm512_load_si512((const void *)(codes + 64 * step));
#pragma GCC unroll 8
                for (int t = 0; t < n; t++)
                    sum[t] = _mm512_dpbusd_epi32(sum[t], c, splat32(q + CH_PANEL_BLOCK * t + 4 * step));
            }
#pragma GCC unroll 8
            for (int t = 0; t < n; t++) {
                const __m512 s = _mm512_cvtepi32_ps(sum[t]);
                part[t] = j ? _mm512_fmadd_ps(s, w, part[t]) : _mm512_mul_ps(s, w);
            }
        }
#pragma GCC unroll 8
        for (int t = 0; t < n; t++) acc[t] = _mm512_fmadd_ps(part[t], _mm512_set1_ps(d[t]), acc[t]);
        if (!affine) continue;
#pragma GCC unroll 2
        for (int j = 0; j < n_sub; j++) {
            const __m512 min = _mm512_load_ps(a->chunk->min[b][j]);
#pragma GCC unroll 8
            for (int t = 0; t < n; t++)
                acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(extra[CH_GROUP_TOKENS * j + t]), acc[t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < n; t++)
        if (t0 + (size_t)t < a->n_tok) _mm512_mask_storeu_ps(y + (size_t)t * a->ld_y, rows, acc[t]);
}

CH_FORCE_INLINE void group(int n_sub, bool affine, const ch_many_args *a) {
    for (size_t t = 0; t < a->n_tok; t += 8) {
        if (a->n_tok - t > 4)
            tokens(n_sub, affine, a, t, 8);
        else
            tokens(n_sub, affine, a, t, 4);
    }
}

static void sub32(const ch_many_args *a) {
    group(1, false, a);
}

static void sub32_affine(const ch_many_args *a) {
    group(1, true, a);
}

static void sub16(const ch_many_args *a) {
    group(2, false, a);
}

static void sub16_affine(const ch_many_args *a) {
    group(2, true, a);
}

const ch_many_kernel *ch_kern_many_avx512(void) {
    static const ch_many_kernel k = {
        .n_blk = 16, .min_rest = 4, .fn = {{sub32, sub32_affine}, {sub16, sub16_affine}}};
    return &k;
}
