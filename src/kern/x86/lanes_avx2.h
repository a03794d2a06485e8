// kern/x86, private: eight floats, in the words that rows_body.h, conv_body.h, scan_body.h and delta_body.h are written in.
// lanes_avx512.h has the same words for sixteen.
#ifndef CH_KERN_X86_LANES_AVX2_H
#define CH_KERN_X86_LANES_AVX2_H

#include "kern/x86/math_avx2.h"

// LANES floats; ROWS: rows that the mixers carry side by side, as many sums as a `sums` holds.
enum { LANES = 8, ROWS = 4 };
typedef __m256 vec;
typedef __m128 sums;

CH_FORCE_INLINE vec vec_zero(void) { return _mm256_setzero_ps(); }
CH_FORCE_INLINE vec vec_set1(float x) { return _mm256_set1_ps(x); }
CH_FORCE_INLINE vec vec_load(const float *x) { return _mm256_loadu_ps(x); }
CH_FORCE_INLINE void vec_store(float *y, vec x) { _mm256_storeu_ps(y, x); }
// Lanes [i, n) of a row; past n: 0, never read or written.
CH_FORCE_INLINE vec vec_load_part(const float *x, size_t i, size_t n) { return load_part(x, i, n); }
CH_FORCE_INLINE void vec_store_part(float *y, size_t i, size_t n, vec x) { store_part(y, i, n, x); }
// Lanes [0, n) of a, the others of b; n <= LANES.
CH_FORCE_INLINE vec vec_first(size_t n, vec a, vec b) { return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(first_lanes(n))); }
CH_FORCE_INLINE vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
CH_FORCE_INLINE vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
CH_FORCE_INLINE vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
CH_FORCE_INLINE vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
CH_FORCE_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); } // a b + c
CH_FORCE_INLINE vec vec_fms(vec a, vec b, vec c) { return _mm256_fmsub_ps(a, b, c); } // a b - c
CH_FORCE_INLINE vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
CH_FORCE_INLINE vec vec_exp(vec x) { return exp8(x); }
CH_FORCE_INLINE vec vec_sigmoid(vec x) { return sigmoid8(x); }
CH_FORCE_INLINE float vec_sum(vec x) { return sum8(x); }
CH_FORCE_INLINE float vec_largest(vec x) { return max8(x); }
// x where it is above limit, else y.
CH_FORCE_INLINE vec vec_above(vec x, float limit, vec y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_GT_OQ));
}

// w = m 2^k with m in [sqrt(1/2), sqrt(2)), w normal and positive.
CH_FORCE_INLINE void vec_split_power(vec w, vec *m, vec *k) {
    const __m256i half_root = _mm256_set1_epi32(0x3f3504f3); // sqrt(1/2)
    const __m256i i = _mm256_sub_epi32(_mm256_castps_si256(w), half_root);
    *k = _mm256_cvtepi32_ps(_mm256_srai_epi32(i, 23));
    *m = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(i, _mm256_set1_epi32(0x7fffff)), half_root));
}

// Pairs (a, b) of 2 * LANES floats, taken apart.
CH_FORCE_INLINE void vec_load_pairs(const float *p, vec *a, vec *b) {
    const vec x = _mm256_loadu_ps(p), y = _mm256_loadu_ps(p + 8);
    *a = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(x, y, 0x88)), 0xd8));
    *b = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(x, y, 0xdd)), 0xd8));
}
// Neighbours (u, v) turned by neighbours (cos, sin): u c - v s, v c + u s.
CH_FORCE_INLINE vec vec_turn(vec x, vec cs) {
    const vec t = _mm256_mul_ps(_mm256_permute_ps(x, 0xb1), _mm256_movehdup_ps(cs));
    return _mm256_fmaddsub_ps(x, _mm256_moveldup_ps(cs), t);
}

// Sum of squares in double: no overflow, and norms are too small a share of the time to save on.
CH_FORCE_INLINE double vec_sum_squares(const float *x, size_t n) {
    __m256d a = _mm256_setzero_pd(), b = a;
    for (size_t i = 0; i < n; i += 8) {
        const vec v = load_part(x, i, n);
        const __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(v)), hi = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        a = _mm256_fmadd_pd(lo, lo, a);
        b = _mm256_fmadd_pd(hi, hi, b);
    }
    return sum4d(_mm256_add_pd(a, b));
}

// ---- a number for each of ROWS rows
CH_FORCE_INLINE sums sums_of(const vec x[ROWS]) { return sums4(x[0], x[1], x[2], x[3]); } // each in the same order
CH_FORCE_INLINE sums sums_set1(float x) { return _mm_set1_ps(x); }
CH_FORCE_INLINE sums sums_load(const float *x) { return _mm_loadu_ps(x); }
CH_FORCE_INLINE void sums_store(float *y, sums x) { _mm_storeu_ps(y, x); }
CH_FORCE_INLINE float sums_first(sums x) { return _mm_cvtss_f32(x); }
CH_FORCE_INLINE sums sums_sub(sums a, sums b) { return _mm_sub_ps(a, b); }
CH_FORCE_INLINE sums sums_mul(sums a, sums b) { return _mm_mul_ps(a, b); }
CH_FORCE_INLINE sums sums_fma(sums a, sums b, sums c) { return _mm_fmadd_ps(a, b, c); }

#endif
