// kern/x86, private: the walk over tiles of a matrix product of floats, shared by the tiers. A tile is up to `rows` rows of C
// and one panel of columns; the panel's part of B is copied together once for all rows, in steps of CH_GEMM_DEPTH inputs. Where A
// lies across (ca != 1), a strip of its rows is copied together too, for CH_GEMM_PANELS panels.
#ifndef CH_KERN_X86_GEMM_H
#define CH_KERN_X86_GEMM_H

#include <string.h>

#include "kern/kern.h"

enum { CH_GEMM_DEPTH = 256, CH_GEMM_COLS = 32, CH_GEMM_PANELS = 4, CH_GEMM_STRIP = 16 };

// n_row (1..rows) rows, n_vec vectors of columns, k inputs: c (+)= a b. b rows ld_b apart.
typedef void (*ch_gemm_tile_fn)(size_t n_row, size_t n_vec, size_t k, const float *a, size_t ra, size_t ca, const float *b,
                                size_t ld_b, bool add, float *c, size_t ld_c);

// Columns past the edge: into a whole tile, then the ones that are there.
static inline void ch_gemm_edge(ch_gemm_tile_fn tile, size_t n_row, size_t n_vec, size_t k, const float *a, size_t ra, size_t ca,
                                const float *b, size_t n_col, bool add, float *c, size_t ld_c) {
    CH_ALIGNED(64) float whole[CH_GEMM_STRIP * CH_GEMM_COLS];
    if (add)
        for (size_t r = 0; r < n_row; r++) {
            memset(whole + r * CH_GEMM_COLS, 0, CH_GEMM_COLS * sizeof *whole);
            memcpy(whole + r * CH_GEMM_COLS, c + r * ld_c, n_col * sizeof *c);
        }
    tile(n_row, n_vec, k, a, ra, ca, b, CH_GEMM_COLS, add, whole, CH_GEMM_COLS);
    for (size_t r = 0; r < n_row; r++) memcpy(c + r * ld_c, whole + r * CH_GEMM_COLS, n_col * sizeof *c);
}

// k rows of n_col (at most cols) floats, ld_b apart, to rows of CH_GEMM_COLS, filled up with zeros.
CH_FORCE_INLINE void ch_gemm_pack(const float *b, size_t ld_b, size_t k, size_t n_col, size_t cols, float *to) {
    if (n_col == cols)
        for (size_t r = 0; r < k; r++) memcpy(to + r * CH_GEMM_COLS, b + r * ld_b, cols * sizeof *to);
    else
        for (size_t r = 0; r < k; r++) {
            memset(to + r * CH_GEMM_COLS, 0, cols * sizeof *to);
            memcpy(to + r * CH_GEMM_COLS, b + r * ld_b, n_col * sizeof *to);
        }
}

typedef struct ch_gemm_panel {
    const float *b;
    size_t ld_b, n_col, n_vec;
    float *c; // first row
} ch_gemm_panel;

CH_FORCE_INLINE void ch_gemm_run(const ch_gemm_panel *q, ch_gemm_tile_fn tile, size_t lanes, size_t i, size_t n_row, size_t k, const float *a,
                                 size_t ra, size_t ca, bool add, size_t ld_c) {
    if (q->n_col == q->n_vec * lanes)
        tile(n_row, q->n_vec, k, a, ra, ca, q->b, q->ld_b, add, q->c + i * ld_c, ld_c);
    else
        ch_gemm_edge(tile, n_row, q->n_vec, k, a, ra, ca, q->b, q->n_col, add, q->c + i * ld_c, ld_c);
}

// rows: of a whole tile; cols: of a whole panel; lanes: of a vector. All compile-time constants.
CH_FORCE_INLINE void ch_gemm_walk(const ch_gemm_args *g, ch_gemm_tile_fn tile, size_t rows, size_t cols, size_t lanes) {
    CH_ALIGNED(64) float packed[CH_GEMM_PANELS][CH_GEMM_DEPTH * CH_GEMM_COLS], strip[CH_GEMM_DEPTH * CH_GEMM_STRIP];
    const bool across = g->ca != 1 && g->ra == 1 && g->n > cols;
    if (!g->k && !g->add)
        for (size_t i = 0; i < g->m; i++) memset(g->c + i * g->ld_c, 0, g->n * sizeof *g->c);
    for (size_t p = 0; p < g->k; p += CH_GEMM_DEPTH) {
        const size_t k = g->k - p < CH_GEMM_DEPTH ? g->k - p : CH_GEMM_DEPTH;
        const bool add = g->add || p > 0;
        for (size_t j = 0; j < g->n;) {
            ch_gemm_panel q[CH_GEMM_PANELS];
            size_t n_panel = 0;
            do {
                const size_t n_col = g->n - j < cols ? g->n - j : cols, n_vec = (n_col + lanes - 1) / lanes;
                q[n_panel] = (ch_gemm_panel){g->b + p * g->ld_b + j, g->ld_b, n_col, n_vec, g->c + j};
                if (n_col != n_vec * lanes || g->m > 2 * rows) {
                    ch_gemm_pack(q[n_panel].b, g->ld_b, k, n_col, cols, packed[n_panel]);
                    q[n_panel].b = packed[n_panel], q[n_panel].ld_b = CH_GEMM_COLS;
                }
                n_panel++, j += cols;
            } while (across && n_panel < CH_GEMM_PANELS && j < g->n);
            for (size_t i = 0; i < g->m; i += rows) {
                const size_t n_row = g->m - i < rows ? g->m - i : rows;
                const float *a = g->a + i * g->ra + p * g->ca;
                if (!across) {
                    ch_gemm_run(q, tile, lanes, i, n_row, k, a, g->ra, g->ca, add, g->ld_c);
                    continue;
                }
                for (size_t r = 0; r < k; r++) {
                    if (n_row == rows) memcpy(strip + r * CH_GEMM_STRIP, a + r * g->ca, rows * sizeof *a);
                    else memcpy(strip + r * CH_GEMM_STRIP, a + r * g->ca, n_row * sizeof *a);
                }
                for (size_t l = 0; l < n_panel; l++) ch_gemm_run(&q[l], tile, lanes, i, n_row, k, strip, 1, CH_GEMM_STRIP, add, g->ld_c);
            }
        }
    }
}

#endif
