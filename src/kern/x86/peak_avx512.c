// Measuring loops in AVX-512 with VNNI: sixteen independent chains hide the latency of every instruction.
#include <immintrin.h>

#include "kern/peak.h"

enum { CHAINS = 16 };

static uint64_t int8_avx512(uint64_t rounds, uint32_t *sink)
{
    const __m512i a = _mm512_set1_epi8((char)(*sink & 15)), b = _mm512_set1_epi8(1);
    __m512i acc[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm512_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_dpbusd_epi32(acc[i], a, b);
    for (int i = 0; i < CHAINS; i++)
        *sink += (uint32_t)_mm512_reduce_add_epi32(acc[i]);
    return rounds * CHAINS * 128;
}

static uint64_t f32_avx512(uint64_t rounds, uint32_t *sink)
{
    const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps((float)(*sink & 1));
    __m512 acc[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        acc[i] = _mm512_set1_ps((float)i);
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], a, b);
    for (int i = 0; i < CHAINS; i++)
        *sink += (uint32_t)_mm512_cvtss_f32(acc[i]);
    return rounds * CHAINS * 32;
}

static void read_avx512(const void *p, size_t n, uint32_t *sink)
{
    const char *b = p;
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i < n; i += 256) {
        s0 = _mm512_add_epi32(s0, _mm512_load_si512(b + i));
        s1 = _mm512_add_epi32(s1, _mm512_load_si512(b + i + 64));
        s2 = _mm512_add_epi32(s2, _mm512_load_si512(b + i + 128));
        s3 = _mm512_add_epi32(s3, _mm512_load_si512(b + i + 192));
    }
    s0 = _mm512_add_epi32(_mm512_add_epi32(s0, s1), _mm512_add_epi32(s2, s3));
    *sink += (uint32_t)_mm512_reduce_add_epi32(s0);
}

void ch_kern_peak_set_avx512(ch_kern_peak *k)
{
    *k = (ch_kern_peak){int8_avx512, f32_avx512, read_avx512};
}
