// AMX tier of the product of float matrices: factors rounded to bf16, sums in float. C goes in blocks of 32 x 32, four tiles, and
// a step adds 32 inputs; factors are rounded and laid into tiles once per CH_DEPTH inputs and ROWS rows.
//
// Tiles: 0 to 3 sums, 4 and 5 rows of A (32 inputs each), 6 and 7 columns of B (pairs of inputs side by side).
#include <immintrin.h>
#include <string.h>

#include "kern/x86/tiles_amx.h"
#include "kern/x86/x86.h"

enum { SIDE = 16, STEP = 32, DEPTH = 256, ROWS = 512, TILE = SIDE * STEP };

// The compiler does not know what tiles read and write.
#define FENCE() __asm__ volatile("" ::: "memory")

// Both rounded to bf16: lo's 16 values, then hi's.
CH_FORCE_INLINE __m512i to_bf16(__m512 lo, __m512 hi) {
    const __m512bh both = _mm512_cvtne2ps_pbh(hi, lo);
    __m512i bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

CH_FORCE_INLINE __mmask16 first(size_t n) { return n >= SIDE ? 0xffff : (__mmask16)((1u << n) - 1); }

// Rows of n_k (at most 32) floats, ld apart, to a tile; zeros where there is nothing.
CH_FORCE_INLINE void pack_along(const float *x, size_t ld, size_t n_row, size_t n_k, uint16_t *to) {
    const __mmask16 lo = first(n_k), hi = first(n_k > SIDE ? n_k - SIDE : 0);
    for (size_t r = 0; r < SIDE; r++) {
        const bool there = r < n_row;
        const __m512 a = _mm512_maskz_loadu_ps(there ? lo : 0, x + (there ? r * ld : 0));
        const __m512 b = _mm512_maskz_loadu_ps(there ? hi : 0, x + (there ? r * ld : 0) + (n_k > SIDE ? SIDE : 0));
        _mm512_store_si512((void *)(to + r * STEP), to_bf16(a, b));
    }
}

// n_k (at most 32) inputs of n_col (at most 16) columns, inputs ld apart: pair q as 16 pairs of halves, the even input first.
CH_FORCE_INLINE void pack_pairs(const float *x, size_t ld, size_t n_k, size_t n_col, __m512i *pair) {
    CH_ALIGNED(64) static const uint16_t order[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8,  24, 9,  25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i places = _mm512_load_si512((const void *)order);
    const __mmask16 m = first(n_col);
    for (size_t q = 0; q < SIDE; q++) {
        const bool even = 2 * q < n_k, odd = 2 * q + 1 < n_k;
        const __m512 a = _mm512_maskz_loadu_ps(even ? m : 0, x + (even ? 2 * q * ld : 0));
        const __m512 b = _mm512_maskz_loadu_ps(odd ? m : 0, x + (odd ? (2 * q + 1) * ld : 0));
        pair[q] = _mm512_permutexvar_epi16(places, to_bf16(a, b));
    }
}

// 16 rows of 16 words of 32 bits, in place.
CH_FORCE_INLINE void transpose(__m512 *x) {
    __m512 y[SIDE];
#pragma GCC unroll 4
    for (int g = 0; g < SIDE; g += 4) { // within lanes: lane l of y[g + i] holds column 4 l + i of rows g .. g + 3
        const __m512 a = _mm512_shuffle_ps(x[g], x[g + 1], 0x44), b = _mm512_shuffle_ps(x[g], x[g + 1], 0xee);
        const __m512 c = _mm512_shuffle_ps(x[g + 2], x[g + 3], 0x44), d = _mm512_shuffle_ps(x[g + 2], x[g + 3], 0xee);
        y[g] = _mm512_shuffle_ps(a, c, 0x88), y[g + 1] = _mm512_shuffle_ps(a, c, 0xdd);
        y[g + 2] = _mm512_shuffle_ps(b, d, 0x88), y[g + 3] = _mm512_shuffle_ps(b, d, 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(y[i], y[4 + i], 0x44), b = _mm512_shuffle_f32x4(y[i], y[4 + i], 0xee);
        const __m512 c = _mm512_shuffle_f32x4(y[8 + i], y[12 + i], 0x44), d = _mm512_shuffle_f32x4(y[8 + i], y[12 + i], 0xee);
        x[i] = _mm512_shuffle_f32x4(a, c, 0x88), x[4 + i] = _mm512_shuffle_f32x4(a, c, 0xdd);
        x[8 + i] = _mm512_shuffle_f32x4(b, d, 0x88), x[12 + i] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

CH_FORCE_INLINE void pack_across(const float *x, size_t ld, size_t n_row, size_t n_k, uint16_t *to) {
    __m512i pair[SIDE];
    __m512 row[SIDE];
    pack_pairs(x, ld, n_k, n_row, pair);
    memcpy(row, pair, sizeof row);
    transpose(row);
    memcpy(to, row, sizeof row);
}

// Neither rows nor inputs lie together.
static void pack_apart(const float *x, size_t ra, size_t ca, size_t n_row, size_t n_k, uint16_t *to) {
    CH_ALIGNED(64) float flat[SIDE * STEP];
    for (size_t r = 0; r < n_row; r++)
        for (size_t p = 0; p < n_k; p++) flat[r * STEP + p] = x[r * ra + p * ca];
    pack_along(flat, STEP, n_row, n_k, to);
}

// Rows [0, n_row) and inputs [0, n_k) of A, by tiles: [row / 16][input / 32].
static void pack_a(const ch_gemm_args *g, size_t row, size_t n_row, size_t at, size_t n_k, uint16_t *to) {
    const size_t n_step = (n_k + STEP - 1) / STEP;
    for (size_t i = 0; i < n_row; i += SIDE)
        for (size_t s = 0; s < n_step; s++) {
            const float *x = g->a + (row + i) * g->ra + (at + s * STEP) * g->ca;
            const size_t rows = n_row - i < SIDE ? n_row - i : SIDE, inputs = n_k - s * STEP < STEP ? n_k - s * STEP : STEP;
            const bool whole = rows == SIDE && inputs == STEP; // constants make straight code
            if (g->ca == 1 && whole)
                pack_along(x, g->ra, SIDE, STEP, to);
            else if (g->ca == 1)
                pack_along(x, g->ra, rows, inputs, to);
            else if (g->ra != 1)
                pack_apart(x, g->ra, g->ca, rows, inputs, to);
            else if (whole)
                pack_across(x, g->ca, SIDE, STEP, to);
            else
                pack_across(x, g->ca, rows, inputs, to);
            to += TILE;
        }
}

// 32 columns: [input / 32][column / 16].
static void pack_b(const ch_gemm_args *g, size_t at, size_t n_k, size_t col, size_t n_col, uint16_t *to) {
    for (size_t p = 0; p < n_k; p += STEP)
        for (size_t j = 0; j < 2; j++, to += TILE) {
            if (j * SIDE >= n_col) continue;
            const size_t cols = n_col - j * SIDE;
            const float *x = g->b + (at + p) * g->ld_b + col + j * SIDE;
            if (cols >= SIDE && n_k - p >= STEP)
                pack_pairs(x, g->ld_b, STEP, SIDE, (__m512i *)(void *)to);
            else
                pack_pairs(x, g->ld_b, n_k - p, cols < SIDE ? cols : SIDE, (__m512i *)(void *)to);
        }
}

// Sums of n_step steps into a block of 16 n_m rows and 16 n_n columns.
CH_FORCE_INLINE void block(const int n_m, const int n_n, const uint16_t *a, const uint16_t *b, size_t n_step, bool add, float *c, size_t ld_c) {
    const size_t ld = ld_c * sizeof *c;
    FENCE();
    for (size_t r = 0; r < 2 * SIDE; r++) { // of the block below, which comes next
        __builtin_prefetch(c + (2 * SIDE + r) * ld_c, 1);
        if (n_n == 2) __builtin_prefetch(c + (2 * SIDE + r) * ld_c + 2 * SIDE - 1, 1);
    }
    if (add) {
        _tile_loadd(0, c, ld);
        if (n_n == 2) _tile_loadd(1, c + SIDE, ld);
        if (n_m == 2) _tile_loadd(2, c + SIDE * ld_c, ld);
        if (n_m == 2 && n_n == 2) _tile_loadd(3, c + SIDE * ld_c + SIDE, ld);
    } else {
        _tile_zero(0);
        if (n_n == 2) _tile_zero(1);
        if (n_m == 2) _tile_zero(2);
        if (n_m == 2 && n_n == 2) _tile_zero(3);
    }
    for (size_t s = 0; s < n_step; s++) {
        _tile_loadd(4, a + s * TILE, 64);
        _tile_loadd(6, b + 2 * s * TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (n_n == 2) {
            _tile_loadd(7, b + (2 * s + 1) * TILE, 64);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (n_m == 2) {
            _tile_loadd(5, a + (n_step + s) * TILE, 64);
            _tile_dpbf16ps(2, 5, 6);
            if (n_n == 2) _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, c, ld);
    if (n_n == 2) _tile_stored(1, c + SIDE, ld);
    if (n_m == 2) _tile_stored(2, c + SIDE * ld_c, ld);
    if (n_m == 2 && n_n == 2) _tile_stored(3, c + SIDE * ld_c + SIDE, ld);
    FENCE();
}

static void any_block(int n_m, int n_n, const uint16_t *a, const uint16_t *b, size_t n_step, bool add, float *c, size_t ld_c) {
    if (n_m == 2 && n_n == 2) block(2, 2, a, b, n_step, add, c, ld_c);
    else if (n_m == 2) block(2, 1, a, b, n_step, add, c, ld_c);
    else if (n_n == 2) block(1, 2, a, b, n_step, add, c, ld_c);
    else block(1, 1, a, b, n_step, add, c, ld_c);
}

// A block that hangs over an edge goes through a whole one.
static void put_block(const uint16_t *a, const uint16_t *b, size_t n_step, size_t n_row, size_t n_col, bool add, float *c, size_t ld_c) {
    CH_ALIGNED(64) float whole[2 * SIDE * 2 * SIDE];
    const int n_m = n_row > SIDE ? 2 : 1, n_n = n_col > SIDE ? 2 : 1;
    if (n_row == (size_t)n_m * SIDE && n_col == (size_t)n_n * SIDE) {
        any_block(n_m, n_n, a, b, n_step, add, c, ld_c);
        return;
    }
    if (add) memset(whole, 0, sizeof whole);
    for (size_t r = 0; add && r < n_row; r++) memcpy(whole + r * 2 * SIDE, c + r * ld_c, n_col * sizeof *c);
    any_block(n_m, n_n, a, b, n_step, add, whole, 2 * SIDE);
    for (size_t r = 0; r < n_row; r++) memcpy(c + r * ld_c, whole + r * 2 * SIDE, n_col * sizeof *c);
}

static void gemm_half(const ch_gemm_args *g) {
    CH_ALIGNED(64) uint16_t a[ROWS * DEPTH], b[2 * SIDE * DEPTH];
    if (!g->k && !g->add)
        for (size_t i = 0; i < g->m; i++) memset(g->c + i * g->ld_c, 0, g->n * sizeof *g->c);
    const ch_tile_config config = ch_tiles_whole();
    ch_tiles_begin(&config);
    for (size_t p = 0; p < g->k; p += DEPTH) {
        const size_t n_k = g->k - p < DEPTH ? g->k - p : DEPTH, n_step = (n_k + STEP - 1) / STEP;
        for (size_t i = 0; i < g->m; i += ROWS) {
            const size_t n_row = g->m - i < ROWS ? g->m - i : ROWS;
            pack_a(g, i, n_row, p, n_k, a);
            for (size_t j = 0; j < g->n; j += 2 * SIDE) {
                const size_t n_col = g->n - j < 2 * SIDE ? g->n - j : 2 * SIDE;
                pack_b(g, p, n_k, j, n_col, b);
                for (size_t r = 0; r < n_row; r += 2 * SIDE)
                    put_block(a + r / SIDE * n_step * TILE, b, n_step, n_row - r < 2 * SIDE ? n_row - r : 2 * SIDE, n_col, g->add || p > 0,
                              g->c + (i + r) * g->ld_c + j, g->ld_c);
            }
        }
    }
    _tile_release();
}

void ch_kern_set_gemm_amx(ch_kern *k) { k->gemm_half = gemm_half; }
