// Adapters beside products: a row is projected by A once, then every worker adds its outputs of B.
//
// Both steps go in an order of their own per output, so results depend neither on the batch nor on the number of workers.
#include "op/cpu/cpu.h"

enum { COLUMNS = 1024 }; // outputs that stay in the first cache while the ranks are added up

void ch_op_lora_refuse(ch_op *op, const ch_weight *w) {
    if (op->dry && w->lora && !op->refused) op->refused = w;
}

void ch_op_lora_project(const ch_op *op, const ch_weight *w, size_t mat, size_t k0, size_t k1, const float *x, float *low) {
    const float *a = w->lora->a + mat * w->lora->rank * w->n_in;
    for (size_t k = k0; k < k1; k++) low[k] = op->kern.dot(a + k * w->n_in, x, w->n_in);
}

void ch_op_lora_add(const ch_op *op, const ch_weight *w, const ch_op_lora_rows *a) {
    const size_t rank = w->lora->rank, n = w->n_out;
    const float *b = w->lora->b + a->mat * rank * n;
    for (size_t c0 = a->r0; c0 < a->r1; c0 += COLUMNS) {
        const size_t c1 = a->r1 - c0 < COLUMNS ? a->r1 : c0 + COLUMNS;
        for (size_t t = 0; t < a->n_row; t++)
            for (size_t k = 0; k < rank; k++) op->kern.axpy(a->low[t * a->ld_low + k], b + k * n + c0, c1 - c0, a->y + t * a->ld_y + c0);
    }
}
