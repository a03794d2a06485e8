// kern/x86, private: exp and reductions of eight floats, inline.
#ifndef CH_KERN_X86_MATH_AVX2_H
#define CH_KERN_X86_MATH_AVX2_H

#include <immintrin.h>

#include "base/attr.h"

// exp within 2 ulp: 2^n times a polynomial on |r| <= ln 2 / 2 (Taylor terms to r^7: truncation 5e-9). Gradual underflow,
// inf above 88.8, NaN stays NaN (min and max return their second operand then), exp(0) is exactly 1.
CH_FORCE_INLINE __m256 exp8(__m256 x) {
    x = _mm256_min_ps(_mm256_set1_ps(90.0f), x);
    x = _mm256_max_ps(_mm256_set1_ps(-105.0f), x);
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    // ln 2 in two parts; the first has few enough bits for n times it to be exact.
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.0f / 5040);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
    // Two factors, since 2^n alone may lie outside the normal numbers.
    const __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1), bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(i, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

CH_FORCE_INLINE __m256 sigmoid8(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), x));
    return _mm256_div_ps(one, _mm256_add_ps(one, e));
}

// Sums of four vectors, as one vector of four.
CH_FORCE_INLINE __m128 sums4(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 x = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
}

CH_FORCE_INLINE float sum8(__m256 x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_shuffle_ps(y, y, 1)));
}

CH_FORCE_INLINE double sum4d(__m256d x) {
    const __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(y, _mm_unpackhi_pd(y, y)));
}

CH_FORCE_INLINE float max8(__m256 x) {
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
}

// Lanes [0, n) set, n <= 8.
CH_FORCE_INLINE __m256i first_lanes(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Lanes [i, n) of a row; past n: 0, never read. A whole vector where it fits.
CH_FORCE_INLINE __m256 load_part(const float *x, size_t i, size_t n) {
    return n - i >= 8 ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, first_lanes(n - i));
}

CH_FORCE_INLINE void store_part(float *y, size_t i, size_t n, __m256 v) {
    if (n - i >= 8)
        _mm256_storeu_ps(y + i, v);
    else
        _mm256_maskstore_ps(y + i, first_lanes(n - i), v);
}

#endif
