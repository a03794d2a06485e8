// kern/x86, private: the walk over tiles of a matrix product of floats, shared by the tiers. A tile is up to `rows` rows of C
// and one panel of columns; the panel's part of B is copied together once for all rows, in steps of CH_GEMM_DEPTH inputs.
#ifndef CH_KERN_X86_GEMM_H
#define CH_KERN_X86_GEMM_H

#include <string.h>

#include "kern/kern.h"

enum { CH_GEMM_DEPTH = 256, CH_GEMM_COLS = 32 };

// n_row (1..rows) rows, n_vec vectors of columns, k inputs: c (+)= a b. b rows ld_b apart.
typedef void (*ch_gemm_tile_fn)(size_t n_row, size_t n_vec, size_t k, const float *a, size_t ra, size_t ca, const float *b,
                                size_t ld_b, bool add, float *c, size_t ld_c);

// Columns past the edge: into a whole tile, then the ones that are there.
static inline void ch_gemm_edge(ch_gemm_tile_fn tile, const ch_gemm_args *g, size_t i, size_t n_row, size_t n_vec, size_t k,
                                const float *a, const float *b, size_t n_col, bool add, float *c) {
    CH_ALIGNED(64) float whole[16 * CH_GEMM_COLS];
    (void)i;
    if (add)
        for (size_t r = 0; r < n_row; r++) {
            memset(whole + r * CH_GEMM_COLS, 0, CH_GEMM_COLS * sizeof *whole);
            memcpy(whole + r * CH_GEMM_COLS, c + r * g->ld_c, n_col * sizeof *c);
        }
    tile(n_row, n_vec, k, a, g->ra, g->ca, b, CH_GEMM_COLS, add, whole, CH_GEMM_COLS);
    for (size_t r = 0; r < n_row; r++) memcpy(c + r * g->ld_c, whole + r * CH_GEMM_COLS, n_col * sizeof *c);
}

// rows: of a whole tile; cols: of a whole panel; lanes: of a vector. All compile-time constants.
CH_FORCE_INLINE void ch_gemm_walk(const ch_gemm_args *g, ch_gemm_tile_fn tile, size_t rows, size_t cols, size_t lanes) {
    CH_ALIGNED(64) float panel[CH_GEMM_DEPTH * CH_GEMM_COLS];
    if (!g->k && !g->add)
        for (size_t i = 0; i < g->m; i++) memset(g->c + i * g->ld_c, 0, g->n * sizeof *g->c);
    for (size_t p = 0; p < g->k; p += CH_GEMM_DEPTH) {
        const size_t k = g->k - p < CH_GEMM_DEPTH ? g->k - p : CH_GEMM_DEPTH;
        const bool add = g->add || p > 0;
        for (size_t j = 0; j < g->n; j += cols) {
            const size_t n_col = g->n - j < cols ? g->n - j : cols, n_vec = (n_col + lanes - 1) / lanes;
            const bool whole = n_col == n_vec * lanes;
            const float *b = g->b + p * g->ld_b + j;
            size_t ld_b = g->ld_b;
            if (!whole || g->m > 2 * rows) {
                for (size_t r = 0; r < k; r++) {
                    float *to = panel + r * CH_GEMM_COLS;
                    if (n_col == cols) {
                        memcpy(to, b + r * g->ld_b, cols * sizeof *to);
                    } else {
                        memset(to, 0, cols * sizeof *to);
                        memcpy(to, b + r * g->ld_b, n_col * sizeof *to);
                    }
                }
                b = panel, ld_b = CH_GEMM_COLS;
            }
            for (size_t i = 0; i < g->m; i += rows) {
                const size_t n_row = g->m - i < rows ? g->m - i : rows;
                const float *a = g->a + i * g->ra + p * g->ca;
                float *c = g->c + i * g->ld_c + j;
                if (whole)
                    tile(n_row, n_vec, k, a, g->ra, g->ca, b, ld_b, add, c, g->ld_c);
                else
                    ch_gemm_edge(tile, g, i, n_row, n_vec, k, a, b, n_col, add, c);
            }
        }
    }
}

#endif
