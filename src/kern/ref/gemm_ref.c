// Reference product of float matrices and transposition: as written, sums in double.
#include "kern/tier.h"

static void gemm(const ch_gemm_args *g) {
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            double s = g->add ? g->c[i * g->ld_c + j] : 0;
            for (size_t p = 0; p < g->k; p++) s += (double)g->a[i * g->ra + p * g->ca] * g->b[p * g->ld_b + j];
            g->c[i * g->ld_c + j] = (float)s;
        }
}

static void transpose(const float *x, size_t n_row, size_t n_col, size_t ld_x, float *y, size_t ld_y) {
    for (size_t i = 0; i < n_row; i++)
        for (size_t j = 0; j < n_col; j++) y[j * ld_y + i] = x[i * ld_x + j];
}

void ch_kern_set_gemm_ref(ch_kern *k) {
    k->gemm = gemm;
    k->transpose = transpose;
}
