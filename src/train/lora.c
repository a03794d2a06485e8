// Products of low-rank adapters, beside those of the matrices that they adapt.
//
// Matrices that read the same rows are one product here, and several tensors in a file; an adapter belongs to a tensor. So a
// matrix has the adapters of all tensors inside it.
#include "train/part.h"

static const ch_train_lora_part *first_part(const ch_train_lora *l, const ch_train_mat *w) {
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (l->part[mid].off < w->off) lo = mid + 1;
        else hi = mid;
    }
    return l->part + lo;
}

static bool is_inside(const ch_train_lora *l, const ch_train_lora_part *p, const ch_train_mat *w) {
    return p < l->part + l->n && p->off < w->off + w->n_out * w->n_in;
}

static void product(const ch_train_ctx *c, const ch_train_mat *w, const real *x, size_t n, real *y, size_t ld_y, bool add) {
    if (c->wt)
        ch_train_gemm(c, (ch_train_mul){.m = n, .n = w->n_out, .k = w->n_in, .a = x, .ra = w->n_in, .ca = 1, .b = c->wt + w->off, .ld_b = w->n_out,
                                        .c = y, .ld_c = ld_y, .add = add});
    else
        ch_train_turned(c, w, x, n, y, ld_y, add);
}

// low: [n][rank] = scale x A^T
static void project(const ch_train_ctx *c, const ch_train_lora_part *p, const real *x, size_t n, real *low) {
    const size_t rank = c->lora->rank;
    product(c, &p->a, x, n, low, rank, false);
    for (size_t i = 0; i < n * rank; i++) low[i] *= (real)c->lora->scale;
}

void ch_train_lora_add(const ch_train_ctx *c, const ch_train_mat *w, const real *x, size_t n, real *y, size_t ld_y) {
    for (const ch_train_lora_part *p = first_part(c->lora, w); is_inside(c->lora, p, w); p++) {
        project(c, p, x, n, c->low);
        product(c, &p->b, c->low, n, y + (p->off - w->off) / w->n_in, ld_y, true);
    }
}

// With t = scale A x and u = scale B^T dy:  dB += dy^T t,  dA += u^T x,  dx += A^T u.
void ch_train_lora_back(const ch_train_ctx *c, const ch_train_mat *w, const real *x, const real *dy, size_t ld_dy, size_t n, real *dx) {
    const size_t rank = c->lora->rank;
    real *t = c->low, *u = c->low + c->n_tok * rank;
    for (const ch_train_lora_part *p = first_part(c->lora, w); is_inside(c->lora, p, w); p++) {
        const real *d = dy + (p->off - w->off) / w->n_in;
        project(c, p, x, n, t);
        ch_train_gemm(c, (ch_train_mul){.m = p->n_out, .n = rank, .k = n, .a = d, .ra = 1, .ca = ld_dy, .b = t, .ld_b = rank,
                                        .c = ch_train_grad(c, p->b.off), .ld_c = rank, .add = true});
        ch_train_gemm(c, (ch_train_mul){.m = n, .n = rank, .k = p->n_out, .a = d, .ra = ld_dy, .ca = 1, .b = c->w + p->b.off, .ld_b = rank, .c = u,
                                        .ld_c = rank});
        for (size_t i = 0; i < n * rank; i++) u[i] *= (real)c->lora->scale;
        ch_train_gemm(c, (ch_train_mul){.m = rank, .n = p->n_in, .k = n, .a = u, .ra = 1, .ca = rank, .b = x, .ld_b = p->n_in,
                                        .c = ch_train_grad(c, p->a.off), .ld_c = p->n_in, .add = true});
        if (dx)
            ch_train_gemm(c, (ch_train_mul){.m = n, .n = p->n_in, .k = rank, .a = u, .ra = rank, .ca = 1, .b = c->w + p->a.off, .ld_b = p->n_in,
                                            .c = dx, .ld_c = p->n_in, .add = true});
    }
}
