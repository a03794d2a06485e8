// Measuring loops in AVX2: ten independent chains hide the latency of every instruction.
#include <immintrin.h>

#include "kern/peak.h"

enum { CHAINS = 10 };

static uint64_t int8_avx2(uint64_t rounds, uint32_t *sink)
{
    const __m256i a = _mm256_set1_epi8((char)(*sink & 15)), b = _mm256_set1_epi8(1), one = _mm256_set1_epi16(1);
    __m256i acc[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm256_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) // the first operand depends on the chain, so that no product is computed once only
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_xor_si256(a, acc[i]), b), one));
    for (int i = 0; i < CHAINS; i++)
        *sink += (uint32_t)_mm256_extract_epi32(acc[i], 0);
    return rounds * CHAINS * 64;
}

static uint64_t f32_avx2(uint64_t rounds, uint32_t *sink)
{
    const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps((float)(*sink & 1));
    __m256 acc[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm256_set1_ps((float)i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm256_fmadd_ps(acc[i], a, b);
    for (int i = 0; i < CHAINS; i++)
        *sink += (uint32_t)_mm256_cvtss_f32(acc[i]);
    return rounds * CHAINS * 16;
}

static void read_avx2(const void *p, size_t n, uint32_t *sink)
{
    const char *b = p;
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < n; i += 128) {
        s0 = _mm256_add_epi32(s0, _mm256_load_si256((const __m256i *)(b + i)));
        s1 = _mm256_add_epi32(s1, _mm256_load_si256((const __m256i *)(b + i + 32)));
        s2 = _mm256_add_epi32(s2, _mm256_load_si256((const __m256i *)(b + i + 64)));
        s3 = _mm256_add_epi32(s3, _mm256_load_si256((const __m256i *)(b + i + 96)));
    }
    s0 = _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_add_epi32(s2, s3));
    *sink += (uint32_t)_mm256_extract_epi32(s0, 0);
}

void ch_kern_peak_set_avx2(ch_kern_peak *k)
{
    *k = (ch_kern_peak){int8_avx2, f32_avx2, read_avx2};
}
