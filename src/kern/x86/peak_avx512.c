// Measuring loops in AVX-512 with VNNI. The chains are written out, since arrays of accumulators would live in memory.
#include <immintrin.h>

#include "kern/peak.h"

static uint64_t int8_avx512(uint64_t rounds, uint32_t *sink) {
    const __m512i x = _mm512_set1_epi8((char)(*sink & 15)), y = _mm512_set1_epi8(1);
    __m512i a0 = _mm512_set1_epi32(0), a1 = _mm512_set1_epi32(1), a2 = _mm512_set1_epi32(2),
            a3 = _mm512_set1_epi32(3), a4 = _mm512_set1_epi32(4), a5 = _mm512_set1_epi32(5),
            a6 = _mm512_set1_epi32(6), a7 = _mm512_set1_epi32(7), a8 = _mm512_set1_epi32(8),
            a9 = _mm512_set1_epi32(9), a10 = _mm512_set1_epi32(10), a11 = _mm512_set1_epi32(11);
    for (uint64_t r = 0; r < rounds; r++) {
        a0 = _mm512_dpbusd_epi32(a0, x, y);
        a1 = _mm512_dpbusd_epi32(a1, x, y);
        a2 = _mm512_dpbusd_epi32(a2, x, y);
        a3 = _mm512_dpbusd_epi32(a3, x, y);
        a4 = _mm512_dpbusd_epi32(a4, x, y);
        a5 = _mm512_dpbusd_epi32(a5, x, y);
        a6 = _mm512_dpbusd_epi32(a6, x, y);
        a7 = _mm512_dpbusd_epi32(a7, x, y);
        a8 = _mm512_dpbusd_epi32(a8, x, y);
        a9 = _mm512_dpbusd_epi32(a9, x, y);
        a10 = _mm512_dpbusd_epi32(a10, x, y);
        a11 = _mm512_dpbusd_epi32(a11, x, y);
    }
    a0 = _mm512_add_epi32(a0, a1);
    a0 = _mm512_add_epi32(a0, a2);
    a0 = _mm512_add_epi32(a0, a3);
    a0 = _mm512_add_epi32(a0, a4);
    a0 = _mm512_add_epi32(a0, a5);
    a0 = _mm512_add_epi32(a0, a6);
    a0 = _mm512_add_epi32(a0, a7);
    a0 = _mm512_add_epi32(a0, a8);
    a0 = _mm512_add_epi32(a0, a9);
    a0 = _mm512_add_epi32(a0, a10);
    a0 = _mm512_add_epi32(a0, a11);
    *sink += (uint32_t)_mm512_reduce_add_epi32(a0);
    return rounds * 12 * 128;
}

static uint64_t f32_avx512(uint64_t rounds, uint32_t *sink) {
    const __m512 x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps((float)(*sink & 1));
    __m512 a0 = _mm512_set1_ps(0), a1 = _mm512_set1_ps(1), a2 = _mm512_set1_ps(2), a3 = _mm512_set1_ps(3),
            a4 = _mm512_set1_ps(4), a5 = _mm512_set1_ps(5), a6 = _mm512_set1_ps(6), a7 = _mm512_set1_ps(7),
            a8 = _mm512_set1_ps(8), a9 = _mm512_set1_ps(9), a10 = _mm512_set1_ps(10),
            a11 = _mm512_set1_ps(11);
    for (uint64_t r = 0; r < rounds; r++) {
        a0 = _mm512_fmadd_ps(a0, x, y);
        a1 = _mm512_fmadd_ps(a1, x, y);
        a2 = _mm512_fmadd_ps(a2, x, y);
        a3 = _mm512_fmadd_ps(a3, x, y);
        a4 = _mm512_fmadd_ps(a4, x, y);
        a5 = _mm512_fmadd_ps(a5, x, y);
        a6 = _mm512_fmadd_ps(a6, x, y);
        a7 = _mm512_fmadd_ps(a7, x, y);
        a8 = _mm512_fmadd_ps(a8, x, y);
        a9 = _mm512_fmadd_ps(a9, x, y);
        a10 = _mm512_fmadd_ps(a10, x, y);
        a11 = _mm512_fmadd_ps(a11, x, y);
    }
    a0 = _mm512_add_ps(a0, a1);
    a0 = _mm512_add_ps(a0, a2);
    a0 = _mm512_add_ps(a0, a3);
    a0 = _mm512_add_ps(a0, a4);
    a0 = _mm512_add_ps(a0, a5);
    a0 = _mm512_add_ps(a0, a6);
    a0 = _mm512_add_ps(a0, a7);
    a0 = _mm512_add_ps(a0, a8);
    a0 = _mm512_add_ps(a0, a9);
    a0 = _mm512_add_ps(a0, a10);
    a0 = _mm512_add_ps(a0, a11);
    *sink += (uint32_t)_mm512_cvtss_f32(a0);
    return rounds * 12 * 32;
}

void ch_kern_peak_set_avx512(ch_kern_peak *k) {
    k->int8 = int8_avx512;
    k->f32 = f32_avx512;
}
