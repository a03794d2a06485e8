// bf16 to f32 and back.
#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

static void bf16_load(const uint16_t *x, size_t n, float *y) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(x + i)));
        _mm256_storeu_si256((__m256i *)(y + i), _mm256_slli_epi32(u, 16));
    }
    for (; i < n; i++) y[i] = ch_bf16_to_f32(x[i]);
}

// To the nearest, ties to even; a NaN is made quiet.
static void bf16_store(const float *x, size_t n, uint16_t *y) {
    const __m256i half = _mm256_set1_epi32(0x7fff), one = _mm256_set1_epi32(1), quiet = _mm256_set1_epi32(64);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m256i u = _mm256_castps_si256(v), top = _mm256_srli_epi32(u, 16);
        const __m256i near = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, half), _mm256_and_si256(top, one)), 16);
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        const __m256i r = _mm256_blendv_epi8(near, _mm256_or_si256(top, quiet), nan);
        _mm_storeu_si128((__m128i *)(y + i), _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
    }
    for (; i < n; i++) y[i] = ch_f32_to_bf16(x[i]);
}

void ch_kern_set_bf16_avx2(ch_kern *k) {
    k->bf16_load = bf16_load;
    k->bf16_store = bf16_store;
}
