// kern/x86, private: sixteen floats as attention uses them. vec_avx2.h has the same words for eight.
#ifndef CH_KERN_X86_VEC_AVX512_H
#define CH_KERN_X86_VEC_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "quant/quant.h"

enum { LANES = 16 };
typedef __m512 vec;
typedef __m512i veci; // LANES codes of 32 bits

CH_FORCE_INLINE vec vec_zero(void) { return _mm512_setzero_ps(); }
CH_FORCE_INLINE vec vec_set1(float x) { return _mm512_set1_ps(x); }
CH_FORCE_INLINE vec vec_load(const float *x) { return _mm512_loadu_ps(x); }
CH_FORCE_INLINE void vec_store(float *y, vec x) { _mm512_storeu_ps(y, x); }
CH_FORCE_INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
CH_FORCE_INLINE vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
CH_FORCE_INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
CH_FORCE_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
CH_FORCE_INLINE vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
// Lanes [0, n) of a, the others of b; n <= LANES.
CH_FORCE_INLINE vec vec_first(size_t n, vec a, vec b) { return _mm512_mask_blend_ps((__mmask16)((1u << n) - 1), b, a); }

// As exp8 in math_avx2.h.
CH_FORCE_INLINE vec vec_exp(vec x) {
    x = _mm512_min_ps(_mm512_set1_ps(90.0f), x);
    x = _mm512_max_ps(_mm512_set1_ps(-105.0f), x);
    const veci n = _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f))); // to nearest
    const vec f = _mm512_cvtepi32_ps(n);
    vec r = _mm512_fmadd_ps(f, _mm512_set1_ps(-0.693359375f), x);
    r = _mm512_fmadd_ps(f, _mm512_set1_ps(2.12194440e-4f), r);
    vec p = _mm512_set1_ps(1.0f / 5040);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
    const veci half = _mm512_srai_epi32(n, 1), bias = _mm512_set1_epi32(127);
    const veci a = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
    const veci b = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(n, half), bias), 23);
    return _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(a)), _mm512_castsi512_ps(b));
}

// Halves of two vectors, then quarters, pairs and single lanes of two: each step halves the lanes that a sum is spread over.
CH_FORCE_INLINE vec fold8(vec a, vec b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}
CH_FORCE_INLINE vec fold4(vec a, vec b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
CH_FORCE_INLINE vec fold2(vec a, vec b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}
CH_FORCE_INLINE vec fold1(vec a, vec b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

// Sums of LANES vectors, as one vector. Every sum is made in the same order, whatever its place: lanes i and i + 8, then + 4,
// + 2, + 1. Vector 4i + j ends in lane 4i + j: fold4 puts four vectors into quarters, the last two steps work inside quarters.
CH_FORCE_INLINE vec vec_sums(const vec *x) {
    vec t[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) t[j] = fold4(fold8(x[j], x[4 + j]), fold8(x[8 + j], x[12 + j]));
    return fold1(fold2(t[0], t[1]), fold2(t[2], t[3]));
}

CH_FORCE_INLINE float vec_sum(vec x) {
    x = fold8(x, x), x = fold4(x, x), x = fold2(x, x);
    return _mm512_cvtss_f32(fold1(x, x));
}
CH_FORCE_INLINE float vec_largest(vec x) {
    x = _mm512_max_ps(x, _mm512_shuffle_f32x4(x, x, 0x4e));
    x = _mm512_max_ps(x, _mm512_shuffle_f32x4(x, x, 0xb1));
    x = _mm512_max_ps(x, _mm512_shuffle_ps(x, x, 0x4e));
    return _mm512_cvtss_f32(_mm512_max_ps(x, _mm512_shuffle_ps(x, x, 0xb1)));
}

// ---- decoding: LANES values each
CH_FORCE_INLINE float f16_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return _cvtsh_ss(h);
}
CH_FORCE_INLINE uint32_t u32_at(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
CH_FORCE_INLINE vec vec_f16(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
CH_FORCE_INLINE vec vec_bf16(const uint8_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
CH_FORCE_INLINE vec vec_i8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
// Nibbles of LANES bytes, low ones or high ones, less 8.
CH_FORCE_INLINE vec vec_nibbles(const uint8_t *p, bool high) {
    const veci x = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    const veci code = high ? _mm512_srli_epi32(x, 4) : _mm512_and_si512(x, _mm512_set1_epi32(15));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(code, _mm512_set1_epi32(8)));
}

// Levels of tq4, or of tq3 twice.
typedef struct vec_levels {
    vec all;
} vec_levels;
CH_FORCE_INLINE vec_levels vec_levels_of(const float *level, int bits) {
    float twice[16];
    memcpy(twice, level, 8 * sizeof *level);
    memcpy(twice + 8, level + (bits == 4 ? 8 : 0), 8 * sizeof *level);
    return (vec_levels){_mm512_loadu_ps(twice)};
}
// The first word in the lower eight lanes, the second in the upper ones.
CH_FORCE_INLINE veci two_words(uint32_t a, uint32_t b) {
    return _mm512_mask_blend_epi32(0xff00, _mm512_set1_epi32((int)a), _mm512_set1_epi32((int)b));
}
// LANES codes from p on, low bits first.
CH_FORCE_INLINE vec vec_tq4(const uint8_t *p, vec_levels t) {
    const veci shift = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(two_words(u32_at(p), u32_at(p + 4)), shift), t.all);
}
// Reads from the byte before p, which is there: the block's factor or an earlier code.
CH_FORCE_INLINE vec vec_tq3(const uint8_t *p, vec_levels t) {
    const veci shift = _mm512_setr_epi32(8, 11, 14, 17, 20, 23, 26, 29, 8, 11, 14, 17, 20, 23, 26, 29);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(two_words(u32_at(p - 1), u32_at(p + 2)), shift), t.all);
}

#endif
