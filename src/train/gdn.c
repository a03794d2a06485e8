// The gated delta net around its rule (delta.c): projections, convolution, norms of queries and keys, gates, gated norm.
#include "train/part.h"

// As the inference engine has it, inside the root.
static const double l2_eps = 1e-6;

static size_t state_reals(const ch_train_ctx *c, const ch_train_gdn *b) {
    return (c->n_tok + 31) / 32 * b->n_head_v * b->d_k * b->d_v;
}

void ch_train_gdn_forward(ch_train_ctx *c, const ch_train_gdn *b, const real *h, real *y, ch_train_gdn_saves *s) {
    const size_t n = c->n_tok, hv = b->n_head_v, kd = b->n_head_k * b->d_k, vd = hv * b->d_v, n_in = b->in.n_out, n_ch = 2 * kd + vd;
    s->in = ch_train_take(c, n * n_in);
    s->pre = ch_train_take(c, n * n_ch), s->u = ch_train_take(c, n * n_ch);
    s->q = ch_train_take(c, n * kd), s->k = ch_train_take(c, n * kd);
    s->beta = ch_train_take(c, n * hv), s->g = ch_train_take(c, n * hv);
    s->vn = ch_train_take(c, n * vd), s->state = ch_train_take(c, state_reals(c, b));
    s->o = ch_train_take(c, n * vd), s->y = ch_train_take(c, n * vd);
    const size_t mark = c->used;
    real *row = ch_train_take(c, vd);
    c->used = mark;
    ch_train_linear(c, &b->in, h, n, s->in, n_in, false);
    ch_train_conv_silu(c, &b->conv, s->in, n_in, s->pre, s->u);
    const real q_scale = 1 / real_sqrt((real)b->d_k);
    for (size_t t = 0; t < n && !c->dry; t++) {
        for (size_t i = 0; i < b->n_head_k; i++) {
            ch_train_l2norm(s->u + t * n_ch + i * b->d_k, b->d_k, (real)l2_eps, q_scale, s->q + t * kd + i * b->d_k);
            ch_train_l2norm(s->u + t * n_ch + kd + i * b->d_k, b->d_k, (real)l2_eps, 1, s->k + t * kd + i * b->d_k);
        }
        const real *gate = s->in + t * n_in + n_ch + vd; // [hv] beta, [hv] alpha
        for (size_t i = 0; i < hv; i++) {
            s->beta[i * n + t] = real_sigmoid(gate[i]);
            s->g[i * n + t] = -real_exp(c->w[b->a_log + i]) * real_softplus(gate[hv + i] + c->w[b->dt_bias + i]);
        }
    }
    ch_train_delta(c, b, s);
    for (size_t t = 0; t < n && !c->dry; t++) {
        ch_train_rmsnorm(c, &b->norm, s->o + t * vd, b->d_v, hv, row, b->d_v);
        ch_train_silu_gate(row, s->in + t * n_in + n_ch, vd, s->y + t * vd);
    }
    ch_train_linear(c, &b->out, s->y, n, y, b->out.n_out, false);
}

// Gradients of the gates of all tokens, out of those of beta and g.
static void gates_back(const ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s, const real *dbeta, const real *dg, real *din) {
    const size_t n = c->n_tok, hv = b->n_head_v, at = b->conv.n_channel + hv * b->d_v;
    for (size_t i = 0; i < hv; i++) {
        const real a = -real_exp(c->w[b->a_log + i]), bias = c->w[b->dt_bias + i];
        real to_a = 0, to_bias = 0;
        for (size_t t = 0; t < n; t++) {
            const real beta = s->beta[i * n + t], d = dg[i * n + t];
            const real to_alpha = d * a * real_sigmoid(s->in[t * b->in.n_out + at + hv + i] + bias);
            din[t * b->in.n_out + at + i] = dbeta[i * n + t] * beta * (1 - beta);
            din[t * b->in.n_out + at + hv + i] = to_alpha;
            to_bias += to_alpha;
            to_a += d * s->g[i * n + t]; // g is linear in exp(a_log)
        }
        *ch_train_grad(c, b->a_log + i) += to_a;
        *ch_train_grad(c, b->dt_bias + i) += to_bias;
    }
}

void ch_train_gdn_backward(ch_train_ctx *c, const ch_train_gdn *b, const real *h, const real *dy, real *dh, const ch_train_gdn_saves *s) {
    const size_t n = c->n_tok, hv = b->n_head_v, kd = b->n_head_k * b->d_k, vd = hv * b->d_v, n_in = b->in.n_out, n_ch = 2 * kd + vd;
    const size_t mark = c->used;
    real *din = ch_train_take(c, n * n_in), *d_o = ch_train_take(c, n * vd), *row = ch_train_take(c, 2 * vd);
    real *dq = ch_train_take(c, n * kd), *dk = ch_train_take(c, n * kd), *du = ch_train_take(c, n * n_ch);
    real *dbeta = ch_train_take(c, n * hv), *dg = ch_train_take(c, n * hv);
    ch_train_linear_back(c, &b->out, s->y, dy, b->out.n_out, n, d_o, false);
    for (size_t t = 0; t < n && !c->dry; t++) {
        real *d = d_o + t * vd;
        ch_train_rmsnorm(c, &b->norm, s->o + t * vd, b->d_v, hv, row, b->d_v);
        ch_train_silu_gate_back(row, s->in + t * n_in + n_ch, d, vd, row + vd, din + t * n_in + n_ch);
        ch_train_rmsnorm_back(c, &b->norm, s->o + t * vd, b->d_v, hv, row + vd, d, b->d_v, false);
    }
    ch_train_delta_back(c, b, s, &(ch_train_delta_grads){d_o, dq, dk, du + 2 * kd, dbeta, dg, n_ch});
    if (!c->dry) gates_back(c, b, s, dbeta, dg, din);
    const real q_scale = 1 / real_sqrt((real)b->d_k);
    for (size_t t = 0; t < n && !c->dry; t++)
        for (size_t i = 0; i < b->n_head_k; i++) {
            const size_t at = t * n_ch + i * b->d_k, from = t * kd + i * b->d_k;
            ch_train_l2norm_back(s->u + at, dq + from, b->d_k, (real)l2_eps, q_scale, du + at);
            ch_train_l2norm_back(s->u + at + kd, dk + from, b->d_k, (real)l2_eps, 1, du + at + kd);
        }
    ch_train_conv_silu_back(c, &b->conv, s->in, n_in, s->pre, du, din);
    ch_train_linear_back(c, &b->in, h, din, n_in, n, dh, false);
    c->used = mark;
}
