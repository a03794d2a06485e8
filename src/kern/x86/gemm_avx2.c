// AVX2 tier of the product of float matrices: tiles of 6 rows by 16 columns; and transposition, for both tiers.
#include <immintrin.h>

#include "kern/x86/gemm.h"
#include "kern/x86/x86.h"

enum { ROWS = 6, LANES = 8 };

CH_FORCE_INLINE void tile_of(const size_t n_row, const size_t n_vec, size_t k, const float *a, size_t ra, size_t ca,
                             const float *b, size_t ld_b, bool add, float *c, size_t ld_c) {
    __m256 acc[ROWS][2];
    const float *base[2] = {a, a + 3 * ra};
#pragma GCC unroll 6
    for (size_t r = 0; r < n_row; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < n_vec; v++) acc[r][v] = _mm256_setzero_ps();
    for (size_t p = 0; p < k; p++) {
        __m256 w[2];
#pragma GCC unroll 2
        for (size_t v = 0; v < n_vec; v++) w[v] = _mm256_loadu_ps(b + v * LANES);
#pragma GCC unroll 6
        for (size_t r = 0; r < n_row; r++) {
            const __m256 x = _mm256_broadcast_ss(&base[r / 3][r % 3 * ra]);
#pragma GCC unroll 2
            for (size_t v = 0; v < n_vec; v++) acc[r][v] = _mm256_fmadd_ps(x, w[v], acc[r][v]);
        }
        b += ld_b;
#pragma GCC unroll 2
        for (size_t i = 0; i < (n_row + 2) / 3; i++) base[i] += ca;
    }
#pragma GCC unroll 6
    for (size_t r = 0; r < n_row; r++)
#pragma GCC unroll 2
        for (size_t v = 0; v < n_vec; v++) {
            float *to = c + r * ld_c + v * LANES;
            _mm256_storeu_ps(to, add ? _mm256_add_ps(acc[r][v], _mm256_loadu_ps(to)) : acc[r][v]);
        }
}

CH_FORCE_INLINE void tile_rows(size_t n_row, const size_t n_vec, size_t k, const float *a, size_t ra, size_t ca, const float *b,
                               size_t ld_b, bool add, float *c, size_t ld_c) {
    if (n_row == 6) {
        tile_of(6, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c);
        return;
    }
    if (n_row >= 3) tile_of(3, n_vec, k, a, ra, ca, b, ld_b, add, c, ld_c);
    for (size_t r = n_row / 3 * 3; r < n_row; r++) tile_of(1, n_vec, k, a + r * ra, ra, ca, b, ld_b, add, c + r * ld_c, ld_c);
}

static void tile(size_t n_row, size_t n_vec, size_t k, const float *a, size_t ra, size_t ca, const float *b, size_t ld_b,
                 bool add, float *c, size_t ld_c) {
    if (n_vec == 2)
        tile_rows(n_row, 2, k, a, ra, ca, b, ld_b, add, c, ld_c);
    else
        tile_rows(n_row, 1, k, a, ra, ca, b, ld_b, add, c, ld_c);
}

static void gemm(const ch_gemm_args *g) { ch_gemm_walk(g, tile, ROWS, 2 * LANES, LANES); }

// ---- transposition ----------------------------------------------------------------------------------------------------------
// Eight by eight: pairs of rows interleaved, then pairs of those, then halves swapped.
CH_FORCE_INLINE void transpose8(const float *x, size_t ld_x, float *y, size_t ld_y) {
    __m256 r[8], s[8];
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(x + i * ld_x);
#pragma GCC unroll 4
    for (size_t i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (size_t i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(s[i + j], s[i + j + 2], 0xee);
        }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(y + i * ld_y, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(y + (i + 4) * ld_y, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

static void transpose(const float *x, size_t n_row, size_t n_col, size_t ld_x, float *y, size_t ld_y) {
    size_t i = 0;
    for (; i + 8 <= n_row; i += 8) {
        size_t j = 0;
        for (; j + 8 <= n_col; j += 8) transpose8(x + i * ld_x + j, ld_x, y + j * ld_y + i, ld_y);
        for (; j < n_col; j++)
            for (size_t r = i; r < i + 8; r++) y[j * ld_y + r] = x[r * ld_x + j];
    }
    for (; i < n_row; i++)
        for (size_t j = 0; j < n_col; j++) y[j * ld_y + i] = x[i * ld_x + j];
}

void ch_kern_set_gemm_avx2(ch_kern *k) {
    k->gemm = gemm;
    k->transpose = transpose;
}
