// AVX-512 tier of the product of float matrices: tiles of 12 rows by 32 columns.
#include <immintrin.h>

#include "kern/x86/gemm.h"
#include "kern/x86/x86.h"

enum { ROWS = 12, LANES = 16 };

// One tile; n_row and n_vec are constants here. Rows go in threes: a base and two offsets each.
CH_FORCE_INLINE void tile_of(const size_t n_row, const size_t n_vec, size_t k, const float *a, size_t ra, size_t ca,
                             const float *b, size_t ld_b, bool add, float *c, size_t ld_c) {
    __m512 acc[ROWS][2];
    const float *base[4] = {a, a + 3 * ra, a + 6 * ra, a + 9 * ra};
#pragma GCC unroll 12
    for (size_t r = 0; r < n_row; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < n_vec; v++) acc[r][v] = _mm512_setzero_ps();
    for (size_t p = 0; p < k; p++) {
        __m512 w[2];
#pragma GCC unroll 2
        for (size_t v = 0; v < n_vec; v++) w[v] = _mm512_loadu_ps(b + v * LANES);
#pragma GCC unroll 12
        for (size_t r = 0; r < n_row; r++) {
            const __m512 x = _mm512_set1_ps(base[r / 3][r % 3 * ra]);
#pragma GCC unroll 2
            for (size_t v = 0; v < n_vec; v++) acc[r][v] = _mm512_fmadd_ps(x, w[v], acc[r][v]);
        }
        b += ld_b;
#pragma GCC unroll 4
        for (size_t i = 0; i < (n_row + 2) / 3; i++) base[i] += ca;
    }
    const __m512 one = _mm512_set1_ps(1.0f);
#pragma GCC unroll 12
    for (size_t r = 0; r < n_row; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < n_vec; v++) {
            float *to = c + r * ld_c + v * LANES;
            _mm512_storeu_ps(to, add ? _mm512_fmadd_ps(acc[r][v], one, _mm512_loadu_ps(to)) : acc[r][v]);
        }
}

CH_FORCE_INLINE void tile_rows(size_t n_row, const size_t n_vec, size_t k, const float *a, size_t ra, size_t ca, const float *b,
                               size_t ld_b, bool add, float *c, size_t ld_c) {
    switch (n_row) {
    case 1: tile_of(1, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 2: tile_of(2, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 3: tile_of(3, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 4: tile_of(4, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 5: tile_of(5, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 6: tile_of(6, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 7: tile_of(7, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 8: tile_of(8, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 9: tile_of(9, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 10: tile_of(10, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    case 11: tile_of(11, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    default: tile_of(12, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c); break;
    }
}

static void tile(size_t n_row, size_t n_vec, size_t k, const float *a, size_t ra, size_t ca, const float *b, size_t ld_b,
                 bool add, float *c, size_t ld_c) {
    if (n_vec == 2)
        tile_rows(n_row, 2, k, a, ra, ca, b, ld_b, add, c, ld_c);
    else
        tile_rows(n_row, 1, k, a, ra, ca, b, ld_b, add, c, ld_c);
}

static void gemm(const ch_gemm_args *g) { ch_gemm_walk(g, tile, ROWS, 2 * LANES, LANES); }

void ch_kern_set_gemm_avx512(ch_kern *k) { k->gemm = gemm; }
