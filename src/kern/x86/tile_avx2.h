// kern/x86, private: the AVX2 panel product, written once over a family of panel types. Included by *_avx2.c files, each of
// which instantiates some families; every test on a family member is decided at compile time.
//
// Unsigned codes times int8 activations go through pair sums of 16 bits. `group` steps are summed there before they widen:
// group * 2 * max_code * 127 < 32768. Codes above 127 take 16-bit products with 16-bit activations instead (wide).
#ifndef CH_KERN_X86_TILE_AVX2_H
#define CH_KERN_X86_TILE_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/panel.h"
#include "kern/x86/x86.h"

typedef struct family {
    int planes, group, scale, sub, zero; // zero: only for sub = 16
    bool affine, table, wide;
} family;

CH_FORCE_INLINE __m256i load256(const uint8_t *p) {
    return _mm256_load_si256((const __m256i *)p);
}

CH_FORCE_INLINE __m256i splat32(const void *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}

// Moves bits up (n > 0) or down within 16-bit lanes; the caller masks.
CH_FORCE_INLINE __m256i shift16(__m256i x, int n) {
    return n > 0 ? _mm256_slli_epi16(x, n) : n < 0 ? _mm256_srli_epi16(x, -n) : x;
}

// Codes of step s of 8 rows; c: the block's codes plus 32 bytes for the upper rows.
CH_FORCE_INLINE __m256i step_codes(int planes, const uint8_t *c, int s) {
    if (planes == CH_P8) return load256(c + 64 * s);
    if (planes <= CH_P3) {
        __m256i x = _mm256_and_si256(shift16(load256(c + 64 * (s / 4)), -2 * (s % 4)), _mm256_set1_epi8(3));
        if (planes == CH_P3)
            x = _mm256_or_si256(x, _mm256_and_si256(shift16(load256(c + 128), 2 - s), _mm256_set1_epi8(4)));
        return x;
    }
    __m256i x = _mm256_and_si256(shift16(load256(c + 64 * (s / 2)), -4 * (s % 2)), _mm256_set1_epi8(15));
    if (planes == CH_P5)
        x = _mm256_or_si256(x, _mm256_and_si256(shift16(load256(c + 256), 4 - s), _mm256_set1_epi8(16)));
    if (planes == CH_P6)
        x = _mm256_or_si256(
            x, _mm256_and_si256(shift16(load256(c + 256 + 64 * (s / 4)), 4 - 2 * (s % 4)), _mm256_set1_epi8(48)));
    return x;
}

// sum[sub][2 * t + v] of one block; mul: what pair sums are multiplied by, ones or sub-scales.
CH_FORCE_INLINE void block_sums(const family f, const uint8_t *c, const uint8_t *const *act, size_t at, int n_tok,
                                __m256i table, const __m256i mul[2][2], __m256i sum[2][8]) {
    const bool apart = f.sub == 16 && f.scale != CH_SC_I8; // sums of sub-blocks are kept apart
    const int n_group = 8 / f.group; // not in the loop's head: a sanitizer's check there stops the unrolling
#pragma GCC unroll 8
    for (int g = 0; g < n_group; g++) {
        const int sub = f.sub == 16 ? g * f.group / 4 : 0, to = apart ? sub : 0;
        const bool first = g == 0 || (apart && g * f.group % 4 == 0);
        __m256i part[8];
#pragma GCC unroll 8
        for (int j = 0; j < f.group; j++) {
            const int s = g * f.group + j;
            __m256i w0 = step_codes(f.planes, c, s), w1 = step_codes(f.planes, c + 32, s);
            if (f.table) w0 = _mm256_shuffle_epi8(table, w0), w1 = _mm256_shuffle_epi8(table, w1);
#pragma GCC unroll 4
            for (int t = 0; t < n_tok; t++) {
                const __m256i a = splat32(act[t] + at + 4 * s);
                const __m256i p0 = _mm256_maddubs_epi16(w0, a), p1 = _mm256_maddubs_epi16(w1, a);
                part[2 * t] = j ? _mm256_add_epi16(part[2 * t], p0) : p0;
                part[2 * t + 1] = j ? _mm256_add_epi16(part[2 * t + 1], p1) : p1;
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < 2 * n_tok; i++) {
            const __m256i x = _mm256_madd_epi16(part[i], mul[sub][i % 2]);
            sum[to][i] = first ? x : _mm256_add_epi32(sum[to][i], x);
        }
    }
}

// The same for codes of 8 bits and wide activations.
CH_FORCE_INLINE void block_sums_wide(const family f, const uint8_t *c, const uint8_t *const *act, size_t at, int n_tok,
                                     __m256i table, __m256i sum[8]) {
    const __m256i low = _mm256_set1_epi16(255);
#pragma GCC unroll 8
    for (int s = 0; s < 8; s++) {
        __m256i w0 = step_codes(f.planes, c, s), w1 = step_codes(f.planes, c + 32, s);
        if (f.table) w0 = _mm256_shuffle_epi8(table, w0), w1 = _mm256_shuffle_epi8(table, w1);
        const __m256i e0 = _mm256_and_si256(w0, low), o0 = _mm256_srli_epi16(w0, 8);
        const __m256i e1 = _mm256_and_si256(w1, low), o1 = _mm256_srli_epi16(w1, 8);
#pragma GCC unroll 4
        for (int t = 0; t < n_tok; t++) {
            const __m256i ae = splat32(act[t] + at + 8 * s), ao = splat32(act[t] + at + 8 * s + 4);
            __m256i x0 = _mm256_madd_epi16(e0, ae), x1 = _mm256_madd_epi16(e1, ae);
            if (s) x0 = _mm256_add_epi32(x0, sum[2 * t]), x1 = _mm256_add_epi32(x1, sum[2 * t + 1]);
            sum[2 * t] = _mm256_add_epi32(x0, _mm256_madd_epi16(o0, ao));
            sum[2 * t + 1] = _mm256_add_epi32(x1, _mm256_madd_epi16(o1, ao));
        }
    }
}

CH_FORCE_INLINE __m256 half_scale(int scale, const uint8_t *p) {
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    if (scale == CH_SC_BF16) return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
    return _mm256_cvtph_ps(x);
}

CH_FORCE_INLINE __m256i bytes_i32(const uint8_t *p, bool is_signed) {
    const __m128i x = _mm_loadl_epi64((const __m128i *)p);
    return is_signed ? _mm256_cvtepi8_epi32(x) : _mm256_cvtepu8_epi32(x);
}

// 16-bit pairs (low, high) of two vectors of small 32-bit numbers.
CH_FORCE_INLINE __m256i pairs16(__m256i low, __m256i high) {
    return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa);
}

CH_FORCE_INLINE __m256i times(__m256i x, int k) {
    return k == 32 ? _mm256_slli_epi32(x, 5) : k == 4 ? _mm256_slli_epi32(x, 2) : _mm256_mullo_epi32(x, _mm256_set1_epi32(k));
}

// What one block's scales come to, for both halves of the panel.
typedef struct scales {
    __m256 w[2][2], min[2];     // [sub][half] weight scale; affine: what dsum is multiplied by
    __m256i mul[2][2], corr[2]; // sub = 16: integer sub-scales for pair sums; pairs of sub-scales (mins) for block sums
} scales;

CH_FORCE_INLINE void block_scales(const family f, const ch_panel_view *p, size_t b, scales *s) {
    const size_t n_sub = 32 / f.sub, two = f.affine ? 2 : 1;
    const uint8_t *ds = p->ds + (b >> p->d_shift) * (32 * two * (f.scale == CH_SC_I8 ? 1 : n_sub));
    const uint8_t *subs = p->subs + b * (16 * n_sub * two);
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        __m256 d = half_scale(f.scale, ds + 16 * v);
        s->mul[0][v] = s->mul[1][v] = _mm256_set1_epi16(1);
        if (f.scale != CH_SC_I8) {
            s->w[0][v] = d;
            if (f.sub == 16) s->w[1][v] = half_scale(f.scale, ds + 32 + 16 * v);
            if (f.affine) s->min[v] = half_scale(f.scale, ds + 32 + 16 * v);
            continue;
        }
        d = _mm256_mul_ps(d, _mm256_set1_ps(p->factor));
        __m256 dm = d;
        if (f.affine) dm = _mm256_mul_ps(half_scale(f.scale, ds + 32 + 16 * v), _mm256_set1_ps(-p->min_factor));
        const __m256i x0 = bytes_i32(subs + 8 * v, true);
        if (f.sub == 32) {
            s->w[0][v] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(x0));
            if (f.affine) s->min[v] = _mm256_mul_ps(dm, _mm256_cvtepi32_ps(bytes_i32(subs + 16 + 8 * v, false)));
            continue;
        }
        const __m256i x1 = bytes_i32(subs + 16 + 8 * v, true);
        s->w[0][v] = d;
        s->min[v] = dm;
        s->mul[0][v] = pairs16(x0, x0);
        s->mul[1][v] = pairs16(x1, x1);
        s->corr[v] = f.affine ? pairs16(bytes_i32(subs + 32 + 8 * v, false), bytes_i32(subs + 48 + 8 * v, false))
                              : pairs16(x0, x1);
    }
}

// acc += scale * (sum - zero) of one block, one token, one half.
CH_FORCE_INLINE __m256 add_block(const family f, const ch_act8 *a, const scales *s, int v, __m256 neg_zero,
                                 const __m256i sum[2], __m256 acc) {
    const __m256 d = _mm256_set1_ps(a->d);
    if (f.sub == 16 && f.scale == CH_SC_I8) {
        const __m256i corr = _mm256_madd_epi16(s->corr[v], splat32(a->sum16));
        if (!f.affine) {
            const __m256i x = _mm256_sub_epi32(sum[0], times(corr, f.zero));
            return _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(x), d), s->w[0][v], acc);
        }
        acc = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum[0]), d), s->w[0][v], acc);
        return _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(corr), d), s->min[v], acc);
    }
    if (f.affine) {
        acc = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum[0]), d), s->w[0][v], acc);
        return _mm256_fmadd_ps(s->min[v], _mm256_set1_ps(a->dsum), acc);
    }
    const int n_sub = 32 / f.sub;
#pragma GCC unroll 2
    for (int j = 0; j < n_sub; j++) {
        const __m256 z = _mm256_mul_ps(neg_zero, _mm256_set1_ps(f.sub == 16 ? a->dsum16[j] : a->dsum));
        acc = _mm256_fmadd_ps(_mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[j]), d, z), s->w[j][v], acc);
    }
    return acc;
}

CH_FORCE_INLINE void store_tile(const ch_panel_rows *r, size_t t0, int n_tok, const __m256 acc[8]) {
#pragma GCC unroll 4
    for (int t = 0; t < n_tok; t++) {
        float *y = r->y + (t0 + (size_t)t) * r->ld_y;
        if (CH_LIKELY(r->n_row == CH_PANEL_ROWS)) {
            _mm256_storeu_ps(y, acc[2 * t]);
            _mm256_storeu_ps(y + 8, acc[2 * t + 1]);
        } else {
            float all[CH_PANEL_ROWS];
            _mm256_storeu_ps(all, acc[2 * t]);
            _mm256_storeu_ps(all + 8, acc[2 * t + 1]);
            memcpy(y, all, r->n_row * sizeof *y);
        }
    }
}

// One panel, n_tok (1..4) tokens from t0 on.
CH_FORCE_INLINE void tile(const family f, const ch_panel_view *p, const ch_panel_rows *r, size_t t0, int n_tok) {
    const uint8_t *act[4];
    __m256 acc[8];
    const __m256i table =
        f.table ? _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p->table)) : _mm256_setzero_si256();
    const __m256 neg_zero = _mm256_set1_ps(-p->zero);
    const bool fetch = t0 == 0 && p->fetch;
#pragma GCC unroll 4
    for (int t = 0; t < n_tok; t++) {
        act[t] = r->act + (t0 + (size_t)t) * r->ld_act;
        acc[2 * t] = acc[2 * t + 1] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < p->n_blk; b++) {
        const uint8_t *c = p->codes + b * (64u * (unsigned)f.planes);
        scales s;
        if (fetch) ch_panel_fetch_ahead(p, b, f.planes);
        block_scales(f, p, b, &s);
        if (f.wide) {
            __m256i sum[8];
            const size_t at = b * sizeof(ch_act16);
            block_sums_wide(f, c, act, at, n_tok, table, sum);
#pragma GCC unroll 8
            for (int i = 0; i < 2 * n_tok; i++) {
                const ch_act16 *a = (const ch_act16 *)(act[i / 2] + at);
                const __m256i x = _mm256_sub_epi32(sum[i], _mm256_slli_epi32(_mm256_set1_epi32(a->sum), 7));
                const __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(x), _mm256_set1_ps(a->d));
                acc[i] = _mm256_fmadd_ps(y, s.w[0][i % 2], acc[i]);
            }
        } else {
            __m256i sum[2][8];
            const size_t at = b * sizeof(ch_act8);
            block_sums(f, c, act, at, n_tok, table, (const __m256i(*)[2])s.mul, sum);
#pragma GCC unroll 8
            for (int i = 0; i < 2 * n_tok; i++) {
                const __m256i both[2] = {sum[0][i], sum[f.sub == 16 && f.scale != CH_SC_I8][i]};
                acc[i] = add_block(f, (const ch_act8 *)(act[i / 2] + at), &s, i % 2, neg_zero, both, acc[i]);
            }
        }
    }
    store_tile(r, t0, n_tok, acc);
}

// All tokens, at most four at a time; five are 3 + 2.
CH_FORCE_INLINE void panel_tokens(const family f, const ch_panel_view *p, const ch_panel_rows *r) {
    size_t t = 0;
    while (r->n_tok - t >= 6 || r->n_tok - t == 4) {
        tile(f, p, r, t, 4);
        t += 4;
    }
    if (r->n_tok - t >= 3) {
        tile(f, p, r, t, 3);
        t += 3;
    }
    if (r->n_tok - t == 2)
        tile(f, p, r, t, 2);
    else if (r->n_tok - t == 1)
        tile(f, p, r, t, 1);
}

// The kernels, by file.
ch_panel_fn ch_kern_panel_simple_avx2(int type); // NULL: not in this file
ch_panel_fn ch_kern_panel_k_avx2(int type);
ch_panel_fn ch_kern_panel_grid_avx2(int type);

#endif
