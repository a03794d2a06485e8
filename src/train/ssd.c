// Mamba-2 mixer: projection, convolution, scan in chunks, gate, grouped norm, projection.
//
// In a chunk (terms of delta.c: D, e, f, F from the log decays g = dt A), with X = dt x, state S [d_state][d_head] per head:
//   P[t][s] = (C_t B_s) D[t][s], s <= t       Y = e C S + P X + skip x       S' = F S + B^T (f X)
// Backward:
//   dX = P^T dY + f B dS'      dP = dY X^T      dC = (dP D) B + e dY S^T      dB = (dP D)^T C + f X dS'^T
//   dS = F dS' + C^T (e dY)
//   dG_t = sum_s Z[t][s] - sum_s Z[s][t] + e_t (C_t dY_t S^T) - f_t (B_t X_t dS'^T),  Z = dP P;  and dG_last as there
#include "train/part.h"

enum { CHUNK = CH_TRAIN_CHUNK };

typedef struct sizes {
    size_t n, di, gs, n_ch, n_in; // tokens, n_head * d_head, n_group * d_state, columns of the convolution, of the projection
} sizes;

static sizes sizes_of(const ch_train_ctx *c, const ch_train_ssd *b) {
    const size_t di = b->n_head * b->d_head, gs = b->n_group * b->d_state;
    return (sizes){c->n_tok, di, gs, di + 2 * gs, 2 * di + 2 * gs + b->n_head};
}

typedef struct work {
    real *bt, *cb, *p, *d;   // [d_state][CHUNK], [CHUNK][CHUNK] three times
    real *x, *fx, *cs;       // [CHUNK][d_head]
    real *state;             // [d_state][d_head]
    real *dx, *xt, *dp, *dcb; // [CHUNK][d_head], [d_head][CHUNK], [CHUNK][CHUNK] twice
    real *st, *z;            // [d_head][d_state], [CHUNK][d_state]
} work;

static void take_work(ch_train_ctx *c, const ch_train_ssd *b, work *w) {
    const size_t cc = CHUNK * CHUNK, ch = CHUNK * b->d_head, cs = CHUNK * b->d_state, hs = b->d_head * b->d_state;
    *w = (work){ch_train_take(c, cs), ch_train_take(c, cc), ch_train_take(c, cc), ch_train_take(c, cc), ch_train_take(c, ch),
                ch_train_take(c, ch), ch_train_take(c, ch), ch_train_take(c, hs), ch_train_take(c, ch), ch_train_take(c, ch),
                ch_train_take(c, cc), ch_train_take(c, cc), ch_train_take(c, hs), ch_train_take(c, cs)};
}

// D and P of a chunk of a head.
static void set_matrices(const ch_train_ctx *c, const ch_train_chunk *u, const work *w, const real *cm, const real *bm, size_t ld, size_t ds) {
    ch_train_transpose(c, bm, u->n, ds, ld, w->bt, CHUNK);
    ch_train_gemm(c, (ch_train_mul){.m = u->n, .n = u->n, .k = ds, .a = cm, .ra = ld, .ca = 1, .b = w->bt, .ld_b = CHUNK, .c = w->cb, .ld_c = CHUNK});
    for (size_t t = 0; t < u->n; t++) {
        ch_train_decay_row(u->g, t, u->first[t], u->n, w->d + t * CHUNK);
        ch_train_weigh(w->cb + t * CHUNK, w->d + t * CHUNK, 1, u->n, w->p + t * CHUNK);
    }
}

static void head_forward(const ch_train_ctx *c, const ch_train_ssd *b, const ch_train_ssd_saves *s, size_t h, size_t t0, const work *w) {
    const sizes z = sizes_of(c, b);
    const size_t hd = b->d_head, ds = b->d_state, g = h * b->n_group / b->n_head;
    const real *x = s->u + t0 * z.n_ch + h * hd, *bm = s->u + t0 * z.n_ch + z.di + g * ds, *cm = bm + z.gs, *dt = s->dt + h * z.n + t0;
    real *o = s->o + t0 * z.di + h * hd;
    ch_train_chunk u;
    ch_train_set_chunk(c, &u, t0, s->g + h * z.n);
    set_matrices(c, &u, w, cm, bm, z.n_ch, ds);
    memcpy(s->state + (t0 / CHUNK * b->n_head + h) * ds * hd, w->state, ds * hd * sizeof *w->state);
    for (size_t t = 0; t < u.n; t++) {
        ch_train_scale(dt[t], x + t * z.n_ch, hd, w->x + t * hd);
        ch_train_scale(u.f[t], w->x + t * hd, hd, w->fx + t * hd);
        ch_train_scale(c->w[b->skip + h], x + t * z.n_ch, hd, o + t * z.di);
    }
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = hd, .k = u.n, .a = w->p, .ra = CHUNK, .ca = 1, .b = w->x, .ld_b = hd, .c = o, .ld_c = z.di,
                                    .add = true});
    if (u.enters) {
        ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = hd, .k = ds, .a = cm, .ra = z.n_ch, .ca = 1, .b = w->state, .ld_b = hd, .c = w->cs, .ld_c = hd});
        for (size_t t = 0; t < u.n; t++) ch_train_axpy(u.e[t], w->cs + t * hd, hd, o + t * z.di);
    }
    for (size_t i = 0; i < ds * hd; i++) w->state[i] = u.leaves ? u.all * w->state[i] : 0;
    ch_train_gemm(c, (ch_train_mul){.m = ds, .n = hd, .k = u.n, .a = bm, .ra = 1, .ca = z.n_ch, .b = w->fx, .ld_b = hd, .c = w->state, .ld_c = hd,
                                    .add = true});
}

void ch_train_ssd_forward(ch_train_ctx *c, const ch_train_ssd *b, const real *h, real *y, ch_train_ssd_saves *s) {
    const sizes z = sizes_of(c, b);
    const size_t n = z.n, group = z.di / b->n_group;
    s->in = ch_train_take(c, n * z.n_in), s->pre = ch_train_take(c, n * z.n_ch), s->u = ch_train_take(c, n * z.n_ch);
    s->dt = ch_train_take(c, n * b->n_head), s->g = ch_train_take(c, n * b->n_head);
    s->state = ch_train_take(c, (n + CHUNK - 1) / CHUNK * b->n_head * b->d_state * b->d_head);
    s->o = ch_train_take(c, n * z.di), s->m = ch_train_take(c, n * z.di), s->y = ch_train_take(c, n * z.di);
    ch_train_linear(c, &b->in, h, n, s->in, z.n_in, false);
    ch_train_conv_silu(c, &b->conv, c->dry ? NULL : s->in + z.di, z.n_in, s->pre, s->u);
    const size_t mark = c->used;
    work w;
    take_work(c, b, &w);
    for (size_t i = 0; i < b->n_head && !c->dry; i++) {
        for (size_t t = 0; t < n; t++) {
            s->dt[i * n + t] = real_softplus(s->in[t * z.n_in + z.di + z.n_ch + i] + c->w[b->dt_bias + i]);
            s->g[i * n + t] = -real_exp(c->w[b->a_log + i]) * s->dt[i * n + t];
        }
        memset(w.state, 0, b->d_state * b->d_head * sizeof *w.state);
        for (size_t t0 = 0; t0 < n; t0 += CHUNK) head_forward(c, b, s, i, t0, &w);
    }
    c->used = mark;
    for (size_t t = 0; t < n && !c->dry; t++) {
        ch_train_silu_gate(s->o + t * z.di, s->in + t * z.n_in, z.di, s->m + t * z.di);
        for (size_t g = 0; g < b->n_group; g++)
            ch_train_rmsnorm(c, &(ch_train_norm){b->norm + g * group, group, b->eps}, s->m + t * z.di + g * group, 0, 1, s->y + t * z.di + g * group, 0);
    }
    ch_train_linear(c, &b->out, s->y, n, y, b->out.n_out, false);
}

typedef struct grads {
    const real *d_o; // [n_tok][di]
    real *du;        // [n_tok][n_ch], B and C added to, x set
    real *ddt, *dg;  // [n_tok] of the head
} grads;

// Decays in D: Z = dP P; and dcb = dP D.
static void decays_back(const ch_train_chunk *u, const work *w, real *dg) {
    for (size_t t = 0; t < u->n; t++)
        for (size_t s = 0; s <= t; s++) {
            const real z = w->dp[t * CHUNK + s] * w->p[t * CHUNK + s];
            dg[t] += z, dg[s] -= z; // nothing where s is t
            w->dcb[t * CHUNK + s] = w->dp[t * CHUNK + s] * w->d[t * CHUNK + s];
        }
    for (size_t t = 0; t < u->n; t++)
        for (size_t s = t + 1; s < u->n; s++) w->dcb[t * CHUNK + s] = 0;
}

static void head_backward(const ch_train_ctx *c, const ch_train_ssd *b, const ch_train_ssd_saves *s, const grads *g, size_t h, size_t t0, const work *w) {
    const sizes z = sizes_of(c, b);
    const size_t hd = b->d_head, ds = b->d_state, gr = h * b->n_group / b->n_head, at_b = t0 * z.n_ch + z.di + gr * ds, at_c = at_b + z.gs;
    const real *x = s->u + t0 * z.n_ch + h * hd, *bm = s->u + at_b, *cm = s->u + at_c, *dt = s->dt + h * z.n + t0;
    const real *state = s->state + (t0 / CHUNK * b->n_head + h) * ds * hd, *d_o = g->d_o + t0 * z.di + h * hd;
    real dg[CHUNK] = {0}, *dsn = w->state;
    ch_train_chunk u;
    ch_train_set_chunk(c, &u, t0, s->g + h * z.n);
    set_matrices(c, &u, w, cm, bm, z.n_ch, ds);
    for (size_t t = 0; t < u.n; t++) ch_train_scale(dt[t], x + t * z.n_ch, hd, w->x + t * hd);
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = hd, .k = ds, .a = bm, .ra = z.n_ch, .ca = 1, .b = dsn, .ld_b = hd, .c = w->dx, .ld_c = hd});
    for (size_t t = 0; t < u.n; t++)
        for (size_t i = 0; i < hd; i++) w->dx[t * hd + i] *= u.f[t];
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = hd, .k = u.n, .a = w->p, .ra = 1, .ca = CHUNK, .b = d_o, .ld_b = z.di, .c = w->dx, .ld_c = hd,
                                    .add = true});
    ch_train_transpose(c, w->x, u.n, hd, hd, w->xt, CHUNK);
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = u.n, .k = hd, .a = d_o, .ra = z.di, .ca = 1, .b = w->xt, .ld_b = CHUNK, .c = w->dp, .ld_c = CHUNK});
    decays_back(&u, w, dg);
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = ds, .k = u.n, .a = w->dcb, .ra = CHUNK, .ca = 1, .b = bm, .ld_b = z.n_ch, .c = g->du + at_c,
                                    .ld_c = z.n_ch, .add = true});
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = ds, .k = u.n, .a = w->dcb, .ra = 1, .ca = CHUNK, .b = cm, .ld_b = z.n_ch, .c = g->du + at_b,
                                    .ld_c = z.n_ch, .add = true});
    ch_train_transpose(c, dsn, ds, hd, hd, w->st, ds);
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = ds, .k = hd, .a = w->x, .ra = hd, .ca = 1, .b = w->st, .ld_b = ds, .c = w->z, .ld_c = ds});
    for (size_t t = u.last_first; t < u.n; t++) {
        const real to = u.f[t] * ch_train_dot(bm + t * z.n_ch, w->z + t * ds, ds);
        dg[t] -= to, dg[u.n - 1] += to;
        ch_train_axpy(u.f[t], w->z + t * ds, ds, g->du + at_b + t * z.n_ch);
    }
    if (u.leaves) dg[u.n - 1] += u.all * ch_train_dot(dsn, state, ds * hd);
    for (size_t i = 0; i < ds * hd; i++) dsn[i] = u.leaves ? u.all * dsn[i] : 0;
    if (u.enters) {
        ch_train_transpose(c, state, ds, hd, hd, w->st, ds);
        ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = ds, .k = hd, .a = d_o, .ra = z.di, .ca = 1, .b = w->st, .ld_b = ds, .c = w->z, .ld_c = ds});
        for (size_t t = 0; t < u.n; t++) {
            dg[t] += u.e[t] * ch_train_dot(cm + t * z.n_ch, w->z + t * ds, ds);
            ch_train_axpy(u.e[t], w->z + t * ds, ds, g->du + at_c + t * z.n_ch);
            ch_train_scale(u.e[t], d_o + t * z.di, hd, w->cs + t * hd);
        }
        ch_train_gemm(c, (ch_train_mul){.m = ds, .n = hd, .k = u.n, .a = cm, .ra = 1, .ca = z.n_ch, .b = w->cs, .ld_b = hd, .c = dsn, .ld_c = hd,
                                        .add = true});
    }
    const real skip = c->w[b->skip + h];
    real to_skip = 0, sum = 0;
    for (size_t t = 0; t < u.n; t++) {
        real *to = g->du + (t0 + t) * z.n_ch + h * hd;
        ch_train_scale(dt[t], w->dx + t * hd, hd, to);
        ch_train_axpy(skip, d_o + t * z.di, hd, to);
        to_skip += ch_train_dot(d_o + t * z.di, x + t * z.n_ch, hd);
        g->ddt[t0 + t] = ch_train_dot(w->dx + t * hd, x + t * z.n_ch, hd);
    }
    for (size_t t = u.n; t-- > 0;) g->dg[t0 + t] = sum += dg[t];
    *ch_train_grad(c, b->skip + h) += to_skip;
}

static void step_back(const ch_train_ctx *c, const ch_train_ssd *b, const ch_train_ssd_saves *s, const grads *g, size_t h, real *din) {
    const sizes z = sizes_of(c, b);
    const real a = -real_exp(c->w[b->a_log + h]), bias = c->w[b->dt_bias + h];
    real to_a = 0, to_bias = 0;
    for (size_t t = 0; t < z.n; t++) {
        const size_t at = t * z.n_in + z.di + z.n_ch + h;
        const real d = (g->ddt[t] + g->dg[t] * a) * real_sigmoid(s->in[at] + bias);
        to_a += g->dg[t] * s->g[h * z.n + t];
        to_bias += d;
        din[at] = d;
    }
    *ch_train_grad(c, b->a_log + h) += to_a;
    *ch_train_grad(c, b->dt_bias + h) += to_bias;
}

void ch_train_ssd_backward(ch_train_ctx *c, const ch_train_ssd *b, const real *h, const real *dy, real *dh, const ch_train_ssd_saves *s) {
    const sizes z = sizes_of(c, b);
    const size_t n = z.n, group = z.di / b->n_group, mark = c->used;
    real *din = ch_train_take(c, n * z.n_in), *d_o = ch_train_take(c, n * z.di), *row = ch_train_take(c, z.di);
    grads g = {d_o, ch_train_take(c, n * z.n_ch), ch_train_take(c, n), ch_train_take(c, n)};
    ch_train_linear_back(c, &b->out, s->y, dy, b->out.n_out, n, d_o, false);
    for (size_t t = 0; t < n && !c->dry; t++) {
        for (size_t i = 0; i < b->n_group; i++)
            ch_train_rmsnorm_back(c, &(ch_train_norm){b->norm + i * group, group, b->eps}, s->m + t * z.di + i * group, 0, 1, d_o + t * z.di + i * group,
                                  row + i * group, 0, false);
        ch_train_silu_gate_back(s->o + t * z.di, s->in + t * z.n_in, row, z.di, d_o + t * z.di, din + t * z.n_in);
    }
    const size_t inner = c->used;
    work w;
    take_work(c, b, &w);
    if (!c->dry) memset(g.du, 0, n * z.n_ch * sizeof *g.du);
    for (size_t i = 0; i < b->n_head && !c->dry; i++) {
        memset(w.state, 0, b->d_state * b->d_head * sizeof *w.state);
        for (size_t t0 = (n - 1) / CHUNK * CHUNK;; t0 -= CHUNK) {
            head_backward(c, b, s, &g, i, t0, &w);
            if (!t0) break;
        }
        step_back(c, b, s, &g, i, din);
    }
    c->used = inner;
    ch_train_conv_silu_back(c, &b->conv, c->dry ? NULL : s->in + z.di, z.n_in, s->pre, g.du, c->dry ? NULL : din + z.di);
    ch_train_linear_back(c, &b->in, h, din, z.n_in, n, dh, false);
    c->used = mark;
}
