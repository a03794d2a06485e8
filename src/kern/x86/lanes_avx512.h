// kern/x86, private: sixteen floats, in the words that rows_body.h, conv_body.h, scan_body.h and delta_body.h are written in.
// lanes_avx2.h has the same words for eight.
#ifndef CH_KERN_X86_LANES_AVX512_H
#define CH_KERN_X86_LANES_AVX512_H

#include "kern/x86/math_avx2.h"

// LANES floats; ROWS: rows that the mixers carry side by side, as many sums as a `sums` holds.
enum { LANES = 16, ROWS = 8 };
typedef __m512 vec;
typedef __m256 sums;

CH_FORCE_INLINE __mmask16 lane_mask(size_t n) { return (__mmask16)((1u << n) - 1); } // n <= 16

CH_FORCE_INLINE vec vec_zero(void) { return _mm512_setzero_ps(); }
CH_FORCE_INLINE vec vec_set1(float x) { return _mm512_set1_ps(x); }
CH_FORCE_INLINE vec vec_load(const float *x) { return _mm512_loadu_ps(x); }
CH_FORCE_INLINE void vec_store(float *y, vec x) { _mm512_storeu_ps(y, x); }
// Lanes [i, n) of a row; past n: 0, never read or written.
CH_FORCE_INLINE vec vec_load_part(const float *x, size_t i, size_t n) {
    return n - i >= 16 ? _mm512_loadu_ps(x + i) : _mm512_maskz_loadu_ps(lane_mask(n - i), x + i);
}
CH_FORCE_INLINE void vec_store_part(float *y, size_t i, size_t n, vec x) {
    if (n - i >= 16)
        _mm512_storeu_ps(y + i, x);
    else
        _mm512_mask_storeu_ps(y + i, lane_mask(n - i), x);
}
// Lanes [0, n) of a, the others of b; n <= LANES.
CH_FORCE_INLINE vec vec_first(size_t n, vec a, vec b) { return _mm512_mask_blend_ps(lane_mask(n), b, a); }
CH_FORCE_INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
CH_FORCE_INLINE vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
CH_FORCE_INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
CH_FORCE_INLINE vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
CH_FORCE_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); } // a b + c
CH_FORCE_INLINE vec vec_fms(vec a, vec b, vec c) { return _mm512_fmsub_ps(a, b, c); } // a b - c
CH_FORCE_INLINE vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }

// As exp8 in math_avx2.h; the last step scales by 2^n in one go, gradual underflow included.
CH_FORCE_INLINE vec vec_exp(vec x) {
    x = _mm512_min_ps(_mm512_set1_ps(90.0f), x);
    x = _mm512_max_ps(_mm512_set1_ps(-105.0f), x);
    const vec n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vec r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    vec p = _mm512_set1_ps(1.0f / 5040);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
    return _mm512_scalef_ps(p, n);
}

// 1 / (1 + exp(-x)). The quotient is an estimate of 14 bits and one Newton step, within 2 ulp: a division of 16 lanes takes as
// long as the rest. Past the largest float it is 0; the step would make NaN of it.
CH_FORCE_INLINE vec vec_sigmoid(vec x) {
    const vec d = _mm512_add_ps(_mm512_set1_ps(1.0f), vec_exp(_mm512_sub_ps(_mm512_setzero_ps(), x)));
    const vec y = _mm512_rcp14_ps(d), step = _mm512_fnmadd_ps(d, y, _mm512_set1_ps(2.0f));
    return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(d, _mm512_set1_ps(__builtin_inff()), _CMP_NEQ_UQ), y, step);
}

CH_FORCE_INLINE vec vec_above(vec x, float limit, vec y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_GT_OQ), y, x);
}

CH_FORCE_INLINE __m256 vec_low(vec x) { return _mm512_castps512_ps256(x); }
CH_FORCE_INLINE __m256 vec_high(vec x) { return _mm512_extractf32x8_ps(x, 1); }
CH_FORCE_INLINE float vec_sum(vec x) { return sum8(_mm256_add_ps(vec_low(x), vec_high(x))); }
CH_FORCE_INLINE float vec_largest(vec x) { return max8(_mm256_max_ps(vec_low(x), vec_high(x))); }

// w = m 2^k with m in [sqrt(1/2), sqrt(2)), w normal and positive.
CH_FORCE_INLINE void vec_split_power(vec w, vec *m, vec *k) {
    const __m512i half_root = _mm512_set1_epi32(0x3f3504f3); // sqrt(1/2)
    const __m512i i = _mm512_sub_epi32(_mm512_castps_si512(w), half_root);
    *k = _mm512_cvtepi32_ps(_mm512_srai_epi32(i, 23));
    *m = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_and_si512(i, _mm512_set1_epi32(0x7fffff)), half_root));
}

// Pairs (a, b) of 2 * LANES floats, taken apart.
CH_FORCE_INLINE void vec_load_pairs(const float *p, vec *a, vec *b) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const vec x = _mm512_loadu_ps(p), y = _mm512_loadu_ps(p + 16);
    *a = _mm512_permutex2var_ps(x, even, y);
    *b = _mm512_permutex2var_ps(x, _mm512_add_epi32(even, _mm512_set1_epi32(1)), y);
}
// Neighbours (u, v) turned by neighbours (cos, sin): u c - v s, v c + u s.
CH_FORCE_INLINE vec vec_turn(vec x, vec cs) {
    const vec t = _mm512_mul_ps(_mm512_permute_ps(x, 0xb1), _mm512_movehdup_ps(cs));
    return _mm512_fmaddsub_ps(x, _mm512_moveldup_ps(cs), t);
}

// Sum of squares in double: no overflow, and norms are too small a share of the time to save on.
CH_FORCE_INLINE double vec_sum_squares(const float *x, size_t n) {
    __m512d a = _mm512_setzero_pd(), b = a;
    for (size_t i = 0; i < n; i += 16) {
        const vec v = vec_load_part(x, i, n);
        const __m512d lo = _mm512_cvtps_pd(vec_low(v)), hi = _mm512_cvtps_pd(vec_high(v));
        a = _mm512_fmadd_pd(lo, lo, a);
        b = _mm512_fmadd_pd(hi, hi, b);
    }
    a = _mm512_add_pd(a, b);
    return sum4d(_mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1)));
}

// ---- a number for each of ROWS rows

// Sums of eight vectors, each in the same order: lanes i and i + 8, then of each quarter i and i + 2, i and i + 1, then the
// two quarters. Vectors 0..3 end in the lower half, 4..7 in the upper one.
CH_FORCE_INLINE sums sums_of(const vec x[ROWS]) {
    vec t[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x[i], x[i + 4], 0x44), _mm512_shuffle_f32x4(x[i], x[i + 4], 0xee));
    const vec a = _mm512_add_ps(_mm512_shuffle_ps(t[0], t[1], 0x44), _mm512_shuffle_ps(t[0], t[1], 0xee));
    const vec b = _mm512_add_ps(_mm512_shuffle_ps(t[2], t[3], 0x44), _mm512_shuffle_ps(t[2], t[3], 0xee));
    const vec c = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    const vec d = _mm512_add_ps(c, _mm512_shuffle_f32x4(c, c, 0xb1)); // quarters 0 + 1 twice, 2 + 3 twice
    return vec_low(_mm512_shuffle_f32x4(d, d, 0x08));
}
CH_FORCE_INLINE sums sums_set1(float x) { return _mm256_set1_ps(x); }
CH_FORCE_INLINE sums sums_load(const float *x) { return _mm256_loadu_ps(x); }
CH_FORCE_INLINE void sums_store(float *y, sums x) { _mm256_storeu_ps(y, x); }
CH_FORCE_INLINE float sums_first(sums x) { return _mm256_cvtss_f32(x); }
CH_FORCE_INLINE sums sums_sub(sums a, sums b) { return _mm256_sub_ps(a, b); }
CH_FORCE_INLINE sums sums_mul(sums a, sums b) { return _mm256_mul_ps(a, b); }
CH_FORCE_INLINE sums sums_fma(sums a, sums b, sums c) { return _mm256_fmadd_ps(a, b, c); }

#endif
