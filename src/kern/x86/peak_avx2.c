// Measuring loops in AVX2. The chains are written out, since arrays of accumulators would live in memory.
#include <immintrin.h>

#include "base/attr.h"
#include "kern/peak.h"

static uint64_t int8_avx2(uint64_t rounds, uint32_t *sink) {
    const __m256i x = _mm256_set1_epi8((char)(*sink & 15));
    const __m256i one = _mm256_set1_epi16(1);
    __m256i a0 = _mm256_set1_epi32(0), a1 = _mm256_set1_epi32(1), a2 = _mm256_set1_epi32(2),
            a3 = _mm256_set1_epi32(3), a4 = _mm256_set1_epi32(4), a5 = _mm256_set1_epi32(5),
            a6 = _mm256_set1_epi32(6), a7 = _mm256_set1_epi32(7), a8 = _mm256_set1_epi32(8),
            a9 = _mm256_set1_epi32(9);
    // The second operand is the chain itself, or its product would be computed once only.
    for (uint64_t r = 0; r < rounds; r++) {
        a0 = _mm256_add_epi32(a0, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a0), one));
        a1 = _mm256_add_epi32(a1, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a1), one));
        a2 = _mm256_add_epi32(a2, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a2), one));
        a3 = _mm256_add_epi32(a3, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a3), one));
        a4 = _mm256_add_epi32(a4, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a4), one));
        a5 = _mm256_add_epi32(a5, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a5), one));
        a6 = _mm256_add_epi32(a6, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a6), one));
        a7 = _mm256_add_epi32(a7, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a7), one));
        a8 = _mm256_add_epi32(a8, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a8), one));
        a9 = _mm256_add_epi32(a9, _mm256_madd_epi16(_mm256_maddubs_epi16(x, a9), one));
    }
    a0 = _mm256_add_epi32(a0, a1);
    a0 = _mm256_add_epi32(a0, a2);
    a0 = _mm256_add_epi32(a0, a3);
    a0 = _mm256_add_epi32(a0, a4);
    a0 = _mm256_add_epi32(a0, a5);
    a0 = _mm256_add_epi32(a0, a6);
    a0 = _mm256_add_epi32(a0, a7);
    a0 = _mm256_add_epi32(a0, a8);
    a0 = _mm256_add_epi32(a0, a9);
    *sink += (uint32_t)_mm256_extract_epi32(a0, 0);
    return rounds * 10 * 64;
}

static uint64_t f32_avx2(uint64_t rounds, uint32_t *sink) {
    const __m256 x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps((float)(*sink & 1));
    __m256 a0 = _mm256_set1_ps(0), a1 = _mm256_set1_ps(1), a2 = _mm256_set1_ps(2), a3 = _mm256_set1_ps(3),
            a4 = _mm256_set1_ps(4), a5 = _mm256_set1_ps(5), a6 = _mm256_set1_ps(6), a7 = _mm256_set1_ps(7),
            a8 = _mm256_set1_ps(8), a9 = _mm256_set1_ps(9);
    for (uint64_t r = 0; r < rounds; r++) {
        a0 = _mm256_fmadd_ps(a0, x, y);
        a1 = _mm256_fmadd_ps(a1, x, y);
        a2 = _mm256_fmadd_ps(a2, x, y);
        a3 = _mm256_fmadd_ps(a3, x, y);
        a4 = _mm256_fmadd_ps(a4, x, y);
        a5 = _mm256_fmadd_ps(a5, x, y);
        a6 = _mm256_fmadd_ps(a6, x, y);
        a7 = _mm256_fmadd_ps(a7, x, y);
        a8 = _mm256_fmadd_ps(a8, x, y);
        a9 = _mm256_fmadd_ps(a9, x, y);
    }
    a0 = _mm256_add_ps(a0, a1);
    a0 = _mm256_add_ps(a0, a2);
    a0 = _mm256_add_ps(a0, a3);
    a0 = _mm256_add_ps(a0, a4);
    a0 = _mm256_add_ps(a0, a5);
    a0 = _mm256_add_ps(a0, a6);
    a0 = _mm256_add_ps(a0, a7);
    a0 = _mm256_add_ps(a0, a8);
    a0 = _mm256_add_ps(a0, a9);
    *sink += (uint32_t)_mm256_cvtss_f32(a0);
    return rounds * 10 * 16;
}

// Reads n bytes from `front` places at once. A core has only so many loads under way; several fronts, each asked for
// ahead, keep more of them busy than one does where memory is far away, and fewer memory pages open at a time where it is near.
CH_FORCE_INLINE void read_fronts(const char *b, size_t n, size_t front, size_t ahead, uint32_t *sink) {
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    const size_t part = n / front;
    for (size_t i = 0; i < part; i += 128) {
#pragma GCC unroll 8
        for (size_t k = 0; k < front; k++) {
            const char *p = b + k * part + i;
            _mm_prefetch(p + ahead, _MM_HINT_T0);
            _mm_prefetch(p + ahead + 64, _MM_HINT_T0);
            s0 = _mm256_add_epi32(s0, _mm256_load_si256((const __m256i *)p));
            s1 = _mm256_add_epi32(s1, _mm256_load_si256((const __m256i *)(p + 32)));
            s2 = _mm256_add_epi32(s2, _mm256_load_si256((const __m256i *)(p + 64)));
            s3 = _mm256_add_epi32(s3, _mm256_load_si256((const __m256i *)(p + 96)));
        }
    }
    s0 = _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_add_epi32(s2, s3));
    *sink += (uint32_t)_mm256_extract_epi32(s0, 0);
}

static void read1_avx2(const void *p, size_t n, uint32_t *sink) {
    read_fronts(p, n, 1, 4096, sink);
}

static void read8_avx2(const void *p, size_t n, uint32_t *sink) {
    read_fronts(p, n, 8, 512, sink);
}

void ch_kern_peak_set_avx2(ch_kern_peak *k) {
    *k = (ch_kern_peak){int8_avx2, f32_avx2, {read1_avx2, read8_avx2}};
}
