// kern/x86, private: the AVX-512 (VNNI) panel product over families of panel types; see tile_avx2.h for the idea. One vector
// is one step of all 16 rows, and one instruction multiplies unsigned codes of any width by int8 activations and adds four
// products in 32 bits, so nothing can saturate and every family takes 8-bit activations.
#ifndef CH_KERN_X86_TILE_AVX512_H
#define CH_KERN_X86_TILE_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/many.h"
#include "kern/x86/x86.h"

typedef struct family {
    int planes, scale, sub;
    bool affine, table;
    bool twice; // codes count half: read doubled (planes of 4 bits)
} family;

CH_FORCE_INLINE __m512i load512(const uint8_t *p) {
    return _mm512_load_si512((const void *)p);
}

CH_FORCE_INLINE __m512i splat32(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

#define SHIFT16(x, n) ((n) > 0 ? _mm512_slli_epi16(x, (n) > 0 ? (n) : 0) : _mm512_srli_epi16(x, (n) < 0 ? -(n) : 0))

CH_FORCE_INLINE __m512i masked(__m512i x, int mask) {
    return _mm512_and_si512(x, _mm512_set1_epi8((char)mask));
}

// Codes of step s of 16 rows, as bit planes give them.
CH_FORCE_INLINE __m512i plane_codes(int planes, bool twice, const uint8_t *c, int s) {
    if (planes == CH_P8) return load512(c + 64 * s);
    if (planes <= CH_P3) {
        __m512i x = masked(SHIFT16(load512(c + 64 * (s / 4)), -2 * (s % 4)), 3);
        if (planes == CH_P3) x = _mm512_or_si512(x, masked(SHIFT16(load512(c + 128), 2 - s), 4));
        return x;
    }
    __m512i x = masked(SHIFT16(load512(c + 64 * (s / 2)), twice - 4 * (s % 2)), twice ? 30 : 15);
    if (planes == CH_P5) x = _mm512_or_si512(x, masked(SHIFT16(load512(c + 256), 4 - s), 16));
    if (planes == CH_P6) x = _mm512_or_si512(x, masked(SHIFT16(load512(c + 256 + 64 * (s / 4)), 4 - 2 * (s % 4)), 48));
    return x;
}

CH_FORCE_INLINE __m512i step_codes(const family f, __m512i table, const uint8_t *c, int s) {
    const __m512i x = plane_codes(f.planes, f.twice, c, s);
    return f.table ? _mm512_shuffle_epi8(table, x) : x;
}

CH_FORCE_INLINE __m512i code_table(const family f, const ch_panel_view *p) {
    return f.table ? _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p->table)) : _mm512_setzero_si512();
}

CH_FORCE_INLINE __m512 half_scale(int scale, const uint8_t *p) {
    const __m256i x = _mm256_loadu_si256((const __m256i *)p);
    if (scale == CH_SC_BF16) return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
    return _mm512_cvtph_ps(x);
}

// Scales of one block: what sums and activation sums are multiplied by, per sub-block.
typedef struct scales {
    __m512 w[2], min[2];
} scales;

CH_FORCE_INLINE void block_scales(const family f, const ch_panel_view *p, size_t b, scales *s) {
    const size_t n_sub = 32 / (size_t)f.sub, two = f.affine ? 2 : 1;
    const uint8_t *ds = p->ds + (b >> p->d_shift) * (32 * two * (f.scale == CH_SC_I8 ? 1 : n_sub));
    if (f.scale != CH_SC_I8) {
        s->w[0] = half_scale(f.scale, ds);
        if (n_sub == 2) s->w[1] = half_scale(f.scale, ds + 32);
        if (f.affine) s->min[0] = half_scale(f.scale, ds + 32);
        return;
    }
    const uint8_t *subs = p->subs + b * (16 * n_sub * two);
    const __m512 d = _mm512_mul_ps(half_scale(f.scale, ds), _mm512_set1_ps(f.twice ? 0.5f * p->factor : p->factor));
    __m512 dm = d;
    if (f.affine) dm = _mm512_mul_ps(half_scale(f.scale, ds + 32), _mm512_set1_ps(-p->min_factor));
#pragma GCC unroll 2
    for (size_t j = 0; j < n_sub; j++) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(subs + 16 * j));
        s->w[j] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)));
        if (!f.affine) continue;
        const __m128i m = _mm_loadu_si128((const __m128i *)(subs + 16 * (n_sub + (size_t)j)));
        s->min[j] = _mm512_mul_ps(dm, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(m)));
    }
}

// -zero twice in 16 bits, for the sums of a whole block's halves, or once and 0, for one half.
CH_FORCE_INLINE __m512i minus_zero(const family f, const ch_panel_view *p, int j) {
    const uint32_t z = (uint16_t)-p->int_zero;
    return _mm512_set1_epi32((int)(f.sub == 32 ? z | z << 16 : z << 16 * j));
}

// One panel, n_tok (1..8) tokens from t0 on. Per block of 32 inputs and token:
//   acc += d * (w[0] * sum[0] + w[1] * sum[1]), and if affine, for each sub-block: acc += min[j] * dsum[j]
// with exact sums of (code - zero) * q.
CH_FORCE_INLINE void tile(const family f, const ch_panel_view *p, const ch_panel_rows *r, size_t t0, int n_tok) {
    const uint8_t *act = r->act + t0 * r->ld_act;
    const size_t ld = r->ld_act;
    __m512 acc[8];
    const __m512i table = code_table(f, p);
    const __m512i from[2] = {minus_zero(f, p, 0), minus_zero(f, p, 1)};
    const bool fetch = t0 == 0 && p->fetch;
#pragma GCC unroll 8
    for (int t = 0; t < n_tok; t++) acc[t] = _mm512_setzero_ps();
    for (size_t b = 0; b < p->n_blk; b++) {
        const uint8_t *c = p->codes + b * (64u * (unsigned)f.planes), *a = act + b * sizeof(ch_act8);
        scales s;
        if (fetch) ch_panel_fetch_ahead(p, b, f.planes);
        block_scales(f, p, b, &s);
        const int n_sub = 32 / f.sub;
        __m512 part[8];
#pragma GCC unroll 2
        for (int j = 0; j < n_sub; j++) {
            __m512i sum[8];
#pragma GCC unroll 8
            for (int t = 0; t < n_tok; t++) {
                sum[t] = _mm512_setzero_si512();
                if (!f.affine) sum[t] = _mm512_dpwssd_epi32(sum[t], from[j], splat32(((const ch_act8 *)(a + (size_t)t * ld))->sum16));
            }
#pragma GCC unroll 8
            for (int k = 0; k < f.sub / 4; k++) {
                const int step = j * f.sub / 4 + k;
                const __m512i w = step_codes(f, table, c, step);
#pragma GCC unroll 8
                for (int t = 0; t < n_tok; t++)
                    sum[t] = _mm512_dpbusd_epi32(sum[t], w, splat32(a + (size_t)t * ld + 4 * step));
            }
#pragma GCC unroll 8
            for (int t = 0; t < n_tok; t++) {
                const __m512 x = _mm512_cvtepi32_ps(sum[t]);
                part[t] = j ? _mm512_fmadd_ps(x, s.w[j], part[t]) : _mm512_mul_ps(x, s.w[j]);
            }
        }
#pragma GCC unroll 8
        for (int t = 0; t < n_tok; t++) {
            const ch_act8 *x = (const ch_act8 *)(a + (size_t)t * ld);
            acc[t] = _mm512_fmadd_ps(part[t], _mm512_set1_ps(x->d), acc[t]);
            if (!f.affine) continue;
#pragma GCC unroll 2
            for (int j = 0; j < n_sub; j++)
                acc[t] = _mm512_fmadd_ps(s.min[j], _mm512_set1_ps(f.sub == 16 ? x->dsum16[j] : x->dsum), acc[t]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < n_tok; t++) {
        float *y = r->y + (t0 + (size_t)t) * r->ld_y;
        if (CH_LIKELY(r->n_row == CH_PANEL_ROWS)) {
            _mm512_storeu_ps(y, acc[t]);
        } else {
            float all[CH_PANEL_ROWS];
            _mm512_storeu_ps(all, acc[t]);
            memcpy(y, all, r->n_row * sizeof *y);
        }
    }
}

CH_FORCE_INLINE void panel_tokens(const family f, const ch_panel_view *p, const ch_panel_rows *r) {
    size_t t = 0;
    for (; r->n_tok - t >= 8; t += 8) tile(f, p, r, t, 8);
    if (r->n_tok - t >= 4) {
        tile(f, p, r, t, 4);
        t += 4;
    }
    if (r->n_tok - t >= 2) {
        tile(f, p, r, t, 2);
        t += 2;
    }
    if (r->n_tok - t == 1) tile(f, p, r, t, 1);
}

// Blocks [b0, b0 + n) of a panel as a chunk.
CH_FORCE_INLINE void unpack_blocks(const family f, const ch_panel_view *p, size_t b0, size_t n, int offset, ch_many_chunk *dst) {
    const __m512i table = code_table(f, p), off = _mm512_set1_epi8((char)offset);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *c = p->codes + (b0 + i) * (64u * (unsigned)f.planes);
        scales s;
#pragma GCC unroll 8
        for (int step = 0; step < 8; step++)
            _mm512_store_si512((void *)(dst->codes[i] + 64 * step), _mm512_sub_epi8(step_codes(f, table, c, step), off));
        block_scales(f, p, b0 + i, &s);
#pragma GCC unroll 2
        for (int j = 0; j < 32 / f.sub; j++) {
            _mm512_store_ps(dst->w[i][j], s.w[j]);
            if (f.affine) _mm512_store_ps(dst->min[i][j], s.min[j]);
        }
    }
}

// Defines the kernels of a family.
#define PANEL_KERNEL(name, ...)                                                                                 \
    static void name##_few(const ch_panel_view *p, const ch_panel_rows *r) {                                    \
        panel_tokens((family){__VA_ARGS__}, p, r);                                                              \
    }                                                                                                           \
    static void name##_unpack(const ch_panel_view *p, size_t b0, size_t n, int offset, ch_many_chunk *dst) {   \
        unpack_blocks((family){__VA_ARGS__}, p, b0, n, offset, dst);                                            \
    }                                                                                                           \
    static const ch_panel_kernel name = {name##_few, name##_unpack}

// The kernels, by file; NULL: not in this file.
const ch_panel_kernel *ch_kern_panel_simple_avx512(int type);
const ch_panel_kernel *ch_kern_panel_k_avx512(int type);
const ch_panel_kernel *ch_kern_panel_grid_avx512(int type);

#endif
