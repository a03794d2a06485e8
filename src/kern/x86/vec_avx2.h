// kern/x86, private: eight floats as attention uses them. vec_avx512.h has the same words for sixteen.
#ifndef CH_KERN_X86_VEC_AVX2_H
#define CH_KERN_X86_VEC_AVX2_H

#include <string.h>

#include "kern/x86/math_avx2.h"
#include "quant/quant.h"

enum { LANES = 8 };
typedef __m256 vec;
typedef __m256i veci; // LANES codes of 32 bits

CH_FORCE_INLINE vec vec_zero(void) { return _mm256_setzero_ps(); }
CH_FORCE_INLINE vec vec_set1(float x) { return _mm256_set1_ps(x); }
CH_FORCE_INLINE vec vec_load(const float *x) { return _mm256_loadu_ps(x); }
CH_FORCE_INLINE void vec_store(float *y, vec x) { _mm256_storeu_ps(y, x); }
CH_FORCE_INLINE vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
CH_FORCE_INLINE vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
CH_FORCE_INLINE vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
CH_FORCE_INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
CH_FORCE_INLINE vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
CH_FORCE_INLINE vec vec_exp(vec x) { return exp8(x); }
CH_FORCE_INLINE float vec_largest(vec x) { return max8(x); }
CH_FORCE_INLINE float vec_sum(vec x) { return sum8(x); }
// Lanes [0, n) of a, the others of b; n <= LANES.
CH_FORCE_INLINE vec vec_first(size_t n, vec a, vec b) { return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(first_lanes(n))); }

// Sums of LANES vectors, as one vector. Every sum is made in the same order, whatever its place.
CH_FORCE_INLINE vec vec_sums(const vec *x) {
    return _mm256_set_m128(sums4(x[4], x[5], x[6], x[7]), sums4(x[0], x[1], x[2], x[3]));
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
CH_FORCE_INLINE vec vec_f16(const uint8_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
CH_FORCE_INLINE vec vec_bf16(const uint8_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
CH_FORCE_INLINE vec vec_i8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
// Nibbles of LANES bytes, low ones or high ones, less 8.
CH_FORCE_INLINE vec vec_nibbles(const uint8_t *p, bool high) {
    const veci x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    const veci code = high ? _mm256_srli_epi32(x, 4) : _mm256_and_si256(x, _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(8)));
}

// Levels of tq4 (16) or tq3 (8).
typedef struct vec_levels {
    vec low, high;
} vec_levels;
CH_FORCE_INLINE vec_levels vec_levels_of(const float *level, int bits) {
    return (vec_levels){_mm256_loadu_ps(level), _mm256_loadu_ps(level + (bits == 4 ? 8 : 0))};
}
// LANES codes from p on, low bits first.
CH_FORCE_INLINE vec vec_tq4(const uint8_t *p, vec_levels t) {
    const veci code = _mm256_srlv_epi32(_mm256_set1_epi32((int)u32_at(p)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t.low, code), _mm256_permutevar8x32_ps(t.high, code),
                            _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
}
// Reads from the byte before p, which is there: the block's factor or an earlier code.
CH_FORCE_INLINE vec vec_tq3(const uint8_t *p, vec_levels t) {
    const veci x = _mm256_set1_epi32((int)u32_at(p - 1));
    return _mm256_permutevar8x32_ps(t.low, _mm256_srlv_epi32(x, _mm256_setr_epi32(8, 11, 14, 17, 20, 23, 26, 29)));
}

#endif
