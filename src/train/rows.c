// Products and row operations of the blocks, forward and backward.
#include "train/part.h"

// ---- stack ------------------------------------------------------------------------------------------------------------------
static void *take(ch_train_ctx *c, size_t bytes) {
    void *p = (void *)((c->dry ? 4096 : (uintptr_t)c->base) + c->used);
    c->used += (bytes + 63) & ~(size_t)63;
    if (c->used > c->peak) c->peak = c->used;
    return p;
}

real *ch_train_take(ch_train_ctx *c, size_t n) { return take(c, n * sizeof(real)); }
int32_t *ch_train_take_int(ch_train_ctx *c, size_t n) { return take(c, n * sizeof(int32_t)); }

// ---- products -----------------------------------------------------------------------------------------------------------------
void ch_train_gemm(const ch_train_ctx *c, ch_train_mul m) {
#ifdef CH_TRAIN_DOUBLE
    (void)c;
    for (size_t i = 0; i < m.m; i++)
        for (size_t j = 0; j < m.n; j++) {
            real s = m.add ? m.c[i * m.ld_c + j] : 0;
            for (size_t p = 0; p < m.k; p++) s += m.a[i * m.ra + p * m.ca] * m.b[p * m.ld_b + j];
            m.c[i * m.ld_c + j] = s;
        }
#else
    c->kern->gemm(&m);
#endif
}

void ch_train_gemm_half(const ch_train_ctx *c, ch_train_mul m) {
#ifndef CH_TRAIN_DOUBLE
    if (c->half) {
        c->kern->gemm_half(&m);
        return;
    }
#endif
    ch_train_gemm(c, m);
}

void ch_train_transpose(const ch_train_ctx *c, const real *x, size_t n_row, size_t n_col, size_t ld_x, real *y, size_t ld_y) {
#ifdef CH_TRAIN_DOUBLE
    (void)c;
    for (size_t i = 0; i < n_row; i++)
        for (size_t j = 0; j < n_col; j++) y[j * ld_y + i] = x[i * ld_x + j];
#else
    c->kern->transpose(x, n_row, n_col, ld_x, y, ld_y);
#endif
}

void ch_train_linear(const ch_train_ctx *c, const ch_train_mat *w, const real *x, size_t n, real *y, size_t ld_y, bool add) {
    if (c->dry) return;
    if (c->wt)
        ch_train_gemm_half(c, (ch_train_mul){.m = n, .n = w->n_out, .k = w->n_in, .a = x, .ra = w->n_in, .ca = 1, .b = c->wt + w->off,
                                             .ld_b = w->n_out, .c = y, .ld_c = ld_y, .add = add});
    else
        ch_train_turned(c, w, x, n, y, ld_y, add);
    if (c->lora) ch_train_lora_add(c, w, x, n, y, ld_y);
}

void ch_train_linear_back(const ch_train_ctx *c, const ch_train_mat *w, const real *x, const real *dy, size_t ld_dy, size_t n,
                          real *dx, bool add) {
    if (c->dry) return;
    if (dx)
        ch_train_gemm_half(c, (ch_train_mul){.m = n, .n = w->n_in, .k = w->n_out, .a = dy, .ra = ld_dy, .ca = 1, .b = c->w + w->off,
                                             .ld_b = w->n_in, .c = dx, .ld_c = w->n_in, .add = add});
    if (c->lora) ch_train_lora_back(c, w, x, dy, ld_dy, n, dx);
    if (w->off < c->frozen) return;
    ch_train_gemm_half(c, (ch_train_mul){.m = w->n_out, .n = w->n_in, .k = n, .a = dy, .ra = 1, .ca = ld_dy, .b = x, .ld_b = w->n_in,
                                         .c = ch_train_grad(c, w->off), .ld_c = w->n_in, .add = true});
}

// ---- rows -----------------------------------------------------------------------------------------------------------------------
CH_TIERS real ch_train_dot(const real *x, const real *y, size_t n) {
    real s = 0;
    for (size_t i = 0; i < n; i++) s += x[i] * y[i];
    return s;
}

CH_TIERS void ch_train_add(const real *restrict x, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

CH_TIERS void ch_train_axpy(real a, const real *restrict x, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

CH_TIERS static void rms_row(const real *restrict x, const real *restrict w, size_t n, real eps, real *restrict y) {
    real s = 0;
    for (size_t i = 0; i < n; i++) s += x[i] * x[i];
    const real r = 1 / real_sqrt(s / (real)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * r * w[i];
}

// With r = 1 / rms: dx = r (dy w - x r^2 mean(dy w x)).
CH_TIERS static void rms_row_back(const real *restrict x, const real *restrict w, size_t n, real eps, const real *restrict dy,
                                  real *restrict dx, real *restrict dw, bool add) {
    real s = 0, t = 0;
    for (size_t i = 0; i < n; i++) {
        s += x[i] * x[i];
        t += dy[i] * w[i] * x[i];
    }
    const real r = 1 / real_sqrt(s / (real)n + eps), k = r * r * r * t / (real)n;
    if (add)
        for (size_t i = 0; i < n; i++) {
            dw[i] += dy[i] * x[i] * r;
            dx[i] += dy[i] * w[i] * r - x[i] * k;
        }
    else
        for (size_t i = 0; i < n; i++) {
            const real d = dy[i] * w[i] * r - x[i] * k;
            dw[i] += dy[i] * x[i] * r;
            dx[i] = d;
        }
}

void ch_train_rmsnorm(const ch_train_ctx *c, const ch_train_norm *b, const real *x, size_t ld_x, size_t n, real *y, size_t ld_y) {
    if (c->dry) return;
    for (size_t i = 0; i < n; i++) rms_row(x + i * ld_x, c->w + b->off, b->d, (real)b->eps, y + i * ld_y);
}

void ch_train_rmsnorm_back(const ch_train_ctx *c, const ch_train_norm *b, const real *x, size_t ld_x, size_t n, const real *dy,
                           real *dx, size_t ld_d, bool add) {
    if (c->dry) return;
    for (size_t i = 0; i < n; i++)
        rms_row_back(x + i * ld_x, c->w + b->off, b->d, (real)b->eps, dy + i * ld_d, dx + i * ld_d, ch_train_grad(c, b->off), add);
}

CH_TIERS void ch_train_glu(const real *restrict gate, const real *restrict up, size_t n, real *restrict y) {
    if (!up)
        for (size_t i = 0; i < n; i++) {
            const real x = gate[i] > 0 ? gate[i] : 0;
            y[i] = x * x;
        }
    else
        for (size_t i = 0; i < n; i++) y[i] = gate[i] * real_sigmoid(gate[i]) * up[i];
}

CH_TIERS void ch_train_glu_back(const real *restrict gate, const real *restrict up, const real *restrict dy, size_t n,
                                real *restrict dgate, real *restrict dup) {
    if (!up)
        for (size_t i = 0; i < n; i++) dgate[i] = 2 * dy[i] * (gate[i] > 0 ? gate[i] : 0);
    else
        for (size_t i = 0; i < n; i++) {
            const real s = real_sigmoid(gate[i]), d = dy[i];
            dgate[i] = d * up[i] * s * (1 + gate[i] * (1 - s));
            dup[i] = d * gate[i] * s;
        }
}

CH_TIERS void ch_train_silu_gate(const real *restrict x, const real *restrict z, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] * z[i] * real_sigmoid(z[i]);
}

CH_TIERS void ch_train_silu_gate_back(const real *restrict x, const real *restrict z, const real *restrict dy, size_t n,
                                      real *restrict dx, real *restrict dz) {
    for (size_t i = 0; i < n; i++) {
        const real s = real_sigmoid(z[i]), d = dy[i];
        dz[i] = d * x[i] * s * (1 + z[i] * (1 - s));
        dx[i] = d * z[i] * s;
    }
}

CH_TIERS void ch_train_l2norm(const real *restrict x, size_t d, real eps, real scale, real *restrict y) {
    real s = 0;
    for (size_t i = 0; i < d; i++) s += x[i] * x[i];
    const real r = scale / real_sqrt(s + eps);
    for (size_t i = 0; i < d; i++) y[i] = x[i] * r;
}

CH_TIERS void ch_train_l2norm_back(const real *restrict x, const real *restrict dy, size_t d, real eps, real scale,
                                   real *restrict dx) {
    real s = 0, t = 0;
    for (size_t i = 0; i < d; i++) {
        s += x[i] * x[i];
        t += dy[i] * x[i];
    }
    const real r = 1 / real_sqrt(s + eps), k = scale * r * r * r * t;
    for (size_t i = 0; i < d; i++) dx[i] = scale * r * dy[i] - x[i] * k;
}

// ---- convolution ------------------------------------------------------------------------------------------------------------------
CH_TIERS static void mul_add(const real *restrict a, const real *restrict b, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] += a[i] * b[i];
}

CH_TIERS static void silu_row(const real *restrict x, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] * real_sigmoid(x[i]);
}

CH_TIERS static void silu_row_back(const real *restrict x, size_t n, real *restrict d) {
    for (size_t i = 0; i < n; i++) {
        const real s = real_sigmoid(x[i]);
        d[i] *= s * (1 + x[i] * (1 - s));
    }
}

// First tap that meets a token of the same document.
static size_t first_tap(const ch_train_ctx *c, size_t t, size_t n_tap) {
    const size_t past = t - (size_t)c->start[t];
    return past < n_tap - 1 ? n_tap - 1 - past : 0;
}

void ch_train_conv_silu(ch_train_ctx *c, const ch_train_conv *b, const real *x, size_t ld_x, real *pre, real *u) {
    const size_t n = b->n_channel, k = b->n_tap, mark = c->used;
    real *w = ch_train_take(c, n * k); // [k][n]
    if (!c->dry) {
        ch_train_transpose(c, c->w + b->w, n, k, k, w, n);
        for (size_t t = 0; t < c->n_tok; t++) {
            real *y = pre + t * n;
            if (b->bias == CH_TRAIN_NONE)
                memset(y, 0, n * sizeof *y);
            else
                memcpy(y, c->w + b->bias, n * sizeof *y);
            for (size_t j = first_tap(c, t, k); j < k; j++) mul_add(w + j * n, x + (t + j + 1 - k) * ld_x, n, y);
            silu_row(y, n, u + t * n);
        }
    }
    c->used = mark;
}

void ch_train_conv_silu_back(ch_train_ctx *c, const ch_train_conv *b, const real *x, size_t ld_x, const real *pre, real *du, real *dx) {
    const size_t n = b->n_channel, k = b->n_tap, mark = c->used;
    real *w = ch_train_take(c, n * k), *dw = ch_train_take(c, n * k); // [k][n]
    if (!c->dry) {
        ch_train_transpose(c, c->w + b->w, n, k, k, w, n);
        memset(dw, 0, n * k * sizeof *dw);
        for (size_t t = 0; t < c->n_tok; t++) memset(dx + t * ld_x, 0, n * sizeof *dx);
        for (size_t t = 0; t < c->n_tok; t++) {
            real *d = du + t * n;
            silu_row_back(pre + t * n, n, d);
            if (b->bias != CH_TRAIN_NONE) ch_train_add(d, n, ch_train_grad(c, b->bias));
            for (size_t j = first_tap(c, t, k); j < k; j++) {
                const size_t s = t + j + 1 - k;
                mul_add(w + j * n, d, n, dx + s * ld_x);
                mul_add(x + s * ld_x, d, n, dw + j * n);
            }
        }
        real *to = ch_train_grad(c, b->w);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < k; j++) to[i * k + j] += dw[j * n + i];
    }
    c->used = mark;
}

// ---- chunks -------------------------------------------------------------------------------------------------------------------------
void ch_train_set_chunk(const ch_train_ctx *c, ch_train_chunk *w, size_t t0, const real *g) {
    w->t0 = t0, w->n = c->n_tok - t0 < CH_TRAIN_CHUNK ? c->n_tok - t0 : CH_TRAIN_CHUNK;
    const size_t s0 = (size_t)c->start[t0 + w->n - 1];
    real sum = 0;
    for (size_t t = 0; t < w->n; t++) {
        const size_t s = (size_t)c->start[t0 + t];
        w->g[t] = sum += g[t0 + t];
        w->first[t] = s > t0 ? s - t0 : 0;
        w->e[t] = s < t0 ? real_exp(sum) : 0;
    }
    w->last_first = s0 > t0 ? s0 - t0 : 0;
    for (size_t t = 0; t < w->n; t++) w->f[t] = t >= w->last_first ? real_exp(sum - w->g[t]) : 0;
    w->all = s0 < t0 ? real_exp(sum) : 0;
    w->enters = (size_t)c->start[t0] < t0;
    w->leaves = s0 < t0;
}

CH_TIERS void ch_train_decay_row(const real *restrict g, size_t t, size_t lo, size_t n, real *restrict d) {
    for (size_t s = 0; s < lo; s++) d[s] = 0;
    for (size_t s = lo; s <= t; s++) d[s] = real_exp(g[t] - g[s]);
    for (size_t s = t + 1; s < n; s++) d[s] = 0;
}

CH_TIERS void ch_train_weigh(const real *restrict x, const real *restrict d, real f, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] = x[i] * d[i] * f;
}

CH_TIERS void ch_train_scale(real f, const real *restrict x, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] = f * x[i];
}
