// Causal softmax attention, grouped heads, with optional QK norm, rotation and output gate.
//
// Queries go in tiles of rows over the keys of their documents. With p = softmax(scale q k^T) row by row (its logarithmic sum is
// kept, p is computed again):  dv = p^T do;  dp = do v^T;  ds = p (dp - sum p dp);  dq = scale ds k;  dk = scale ds^T q.
#include "train/part.h"

enum { TILE = 64 };

typedef struct tile {
    size_t t0, n;     // queries [t0, t0 + n)
    size_t k0, n_key; // keys [k0, k0 + n_key)
} tile;

static tile tile_at(const ch_train_ctx *c, size_t t0) {
    const size_t n = c->n_tok - t0 < TILE ? c->n_tok - t0 : TILE, k0 = (size_t)c->start[t0];
    return (tile){t0, n, k0, t0 + n - k0};
}

CH_TIERS static void rotate(real *x, const real *cs, size_t half, bool back) {
    for (size_t i = 0; i < half; i++) {
        const real a = x[i], b = x[i + half], co = cs[2 * i], si = back ? -cs[2 * i + 1] : cs[2 * i + 1];
        x[i] = a * co - b * si;
        x[i + half] = a * si + b * co;
    }
}

// Rows of heads out of the projection, normalised and rotated: head h of token t at in + t * ld + h * step.
static void prepare(const ch_train_ctx *c, const ch_train_attn *b, const real *in, size_t step, size_t n_head, size_t norm, real *y) {
    const size_t d = b->d_head, half = b->n_rot / 2;
    const ch_train_norm rms = {norm, d, b->eps};
    for (size_t t = 0; t < c->n_tok; t++) {
        real *row = y + t * n_head * d;
        const real *from = in + t * b->in.n_out;
        if (norm != CH_TRAIN_NONE)
            ch_train_rmsnorm(c, &rms, from, step, n_head, row, d);
        else
            for (size_t h = 0; h < n_head; h++) memcpy(row + h * d, from + h * step, d * sizeof *row);
        for (size_t h = 0; h < n_head && half; h++) rotate(row + h * d, c->rope + (t - (size_t)c->start[t]) * 2 * half, half, false);
    }
}

// Back through it; dy is rotated in place. din is set.
static void prepare_back(const ch_train_ctx *c, const ch_train_attn *b, const real *in, size_t step, size_t n_head, size_t norm, real *dy,
                         real *din) {
    const size_t d = b->d_head, half = b->n_rot / 2;
    const ch_train_norm rms = {norm, d, b->eps};
    for (size_t t = 0; t < c->n_tok; t++)
        for (size_t h = 0; h < n_head; h++) {
            real *row = dy + (t * n_head + h) * d, *to = din + t * b->in.n_out + h * step;
            if (half) rotate(row, c->rope + (t - (size_t)c->start[t]) * 2 * half, half, true);
            if (norm != CH_TRAIN_NONE)
                ch_train_rmsnorm_back(c, &rms, in + t * b->in.n_out + h * step, 0, 1, row, to, 0, false);
            else
                memcpy(to, row, d * sizeof *row);
        }
}

// exp(scale s - lse) where the key is seen, 0 elsewhere.
CH_TIERS static void probabilities(real *s, size_t lo, size_t hi, size_t n, real scale, real lse) {
    for (size_t i = 0; i < lo; i++) s[i] = 0;
    for (size_t i = lo; i < hi; i++) s[i] = real_exp(scale * s[i] - lse);
    for (size_t i = hi; i < n; i++) s[i] = 0;
}

CH_TIERS static real row_max(const real *s, size_t n) {
    real m = s[0];
    for (size_t i = 1; i < n; i++) m = s[i] > m ? s[i] : m;
    return m;
}

// Returns the logarithmic sum of the row; s becomes probabilities.
CH_TIERS static real softmax_row(real *s, size_t lo, size_t hi, size_t n, real scale) {
    const real m = scale * row_max(s + lo, hi - lo);
    real sum = 0;
    for (size_t i = 0; i < lo; i++) s[i] = 0;
    for (size_t i = lo; i < hi; i++) {
        s[i] = real_exp(scale * s[i] - m);
        sum += s[i];
    }
    const real r = 1 / sum;
    for (size_t i = lo; i < hi; i++) s[i] *= r;
    for (size_t i = hi; i < n; i++) s[i] = 0;
    return m + real_log(sum);
}

static void scores(const ch_train_ctx *c, const tile *w, size_t d, const real *q, size_t ld_q, const real *kt, real *s) {
    ch_train_gemm_half(c, (ch_train_mul){.m = w->n, .n = w->n_key, .k = d, .a = q + w->t0 * ld_q, .ra = ld_q, .ca = 1, .b = kt + w->k0,
                                    .ld_b = c->n_tok, .c = s, .ld_c = c->n_tok});
}

static void head_forward(const ch_train_ctx *c, const ch_train_attn *b, const ch_train_attn_saves *s, size_t h, const real *kt, real *p) {
    const size_t d = b->d_head, ld_q = b->n_head * d, ld_v = b->in.n_out;
    const real *v = s->in + b->in.n_out - (b->n_head_kv - h / (b->n_head / b->n_head_kv)) * d;
    for (size_t t0 = 0; t0 < c->n_tok; t0 += TILE) {
        const tile w = tile_at(c, t0);
        scores(c, &w, d, s->q + h * d, ld_q, kt, p);
        for (size_t i = 0; i < w.n; i++)
            s->lse[h * c->n_tok + t0 + i] = softmax_row(p + i * c->n_tok, (size_t)c->start[t0 + i] - w.k0, t0 + i + 1 - w.k0, w.n_key,
                                                        (real)b->scale);
        ch_train_gemm_half(c, (ch_train_mul){.m = w.n, .n = d, .k = w.n_key, .a = p, .ra = c->n_tok, .ca = 1, .b = v + w.k0 * ld_v,
                                        .ld_b = ld_v, .c = s->o + t0 * ld_q + h * d, .ld_c = ld_q});
    }
}

CH_TIERS static void gate_row(const real *restrict o, const real *restrict g, size_t n, real *restrict y) {
    for (size_t i = 0; i < n; i++) y[i] = o[i] * real_sigmoid(g[i]);
}

CH_TIERS static void gate_row_back(const real *restrict o, const real *restrict g, size_t n, real *restrict d, real *restrict dg) {
    for (size_t i = 0; i < n; i++) {
        const real s = real_sigmoid(g[i]);
        dg[i] = d[i] * o[i] * s * (1 - s);
        d[i] *= s;
    }
}

void ch_train_attn_forward(ch_train_ctx *c, const ch_train_attn *b, const real *h, real *y, ch_train_attn_saves *s) {
    const size_t n = c->n_tok, d = b->d_head, step = b->gated ? 2 * d : d, group = b->n_head / b->n_head_kv;
    s->in = ch_train_take(c, n * b->in.n_out);
    s->q = ch_train_take(c, n * b->n_head * d), s->k = ch_train_take(c, n * b->n_head_kv * d);
    s->o = ch_train_take(c, n * b->n_head * d), s->y = b->gated ? ch_train_take(c, n * b->n_head * d) : s->o;
    s->lse = ch_train_take(c, n * b->n_head);
    const size_t mark = c->used;
    real *kt = ch_train_take(c, d * n), *p = ch_train_take(c, TILE * n);
    if (!c->dry) {
        ch_train_linear(c, &b->in, h, n, s->in, b->in.n_out, false);
        prepare(c, b, s->in, step, b->n_head, b->q_norm, s->q);
        prepare(c, b, s->in + b->n_head * step, d, b->n_head_kv, b->k_norm, s->k);
        for (size_t i = 0; i < b->n_head; i++) {
            if (i % group == 0) ch_train_transpose(c, s->k + i / group * d, n, d, b->n_head_kv * d, kt, n);
            head_forward(c, b, s, i, kt, p);
        }
        for (size_t i = 0; i < n * b->n_head && b->gated; i++)
            gate_row(s->o + i * d, s->in + i / b->n_head * b->in.n_out + i % b->n_head * step + d, d, s->y + i * d);
        ch_train_linear(c, &b->out, s->y, n, y, b->out.n_out, false);
    }
    c->used = mark;
}

typedef struct head_back {
    real *kt, *vt; // [d][n_tok]
    real *p, *dp;  // [TILE][n_tok]
    real *d_o;     // [n_tok][n_head * d]
    real *dq, *dk, *din;
} head_back;

CH_TIERS static void softmax_back(const real *restrict p, size_t n, real scale, real *restrict dp) {
    real s = 0;
    for (size_t i = 0; i < n; i++) s += p[i] * dp[i];
    for (size_t i = 0; i < n; i++) dp[i] = scale * p[i] * (dp[i] - s);
}

static void head_backward(const ch_train_ctx *c, const ch_train_attn *b, const ch_train_attn_saves *s, size_t h, const head_back *w) {
    const size_t d = b->d_head, n = c->n_tok, ld_q = b->n_head * d, ld_k = b->n_head_kv * d, ld_v = b->in.n_out;
    const size_t kv = h / (b->n_head / b->n_head_kv);
    const real *k = s->k + kv * d, *q = s->q + h * d, *d_o = w->d_o + h * d;
    real *dv = w->din + b->in.n_out - (b->n_head_kv - kv) * d, *dk = w->dk + kv * d;
    for (size_t t0 = 0; t0 < n; t0 += TILE) {
        const tile t = tile_at(c, t0);
        scores(c, &t, d, q, ld_q, w->kt, w->p);
        for (size_t i = 0; i < t.n; i++)
            probabilities(w->p + i * n, (size_t)c->start[t0 + i] - t.k0, t0 + i + 1 - t.k0, t.n_key, (real)b->scale,
                          s->lse[h * n + t0 + i]);
        ch_train_gemm_half(c, (ch_train_mul){.m = t.n_key, .n = d, .k = t.n, .a = w->p, .ra = 1, .ca = n, .b = d_o + t0 * ld_q, .ld_b = ld_q,
                                        .c = dv + t.k0 * ld_v, .ld_c = ld_v, .add = true});
        scores(c, &t, d, d_o, ld_q, w->vt, w->dp);
        for (size_t i = 0; i < t.n; i++) softmax_back(w->p + i * n, t.n_key, (real)b->scale, w->dp + i * n);
        ch_train_gemm_half(c, (ch_train_mul){.m = t.n, .n = d, .k = t.n_key, .a = w->dp, .ra = n, .ca = 1, .b = k + t.k0 * ld_k, .ld_b = ld_k,
                                        .c = w->dq + t0 * ld_q + h * d, .ld_c = ld_q});
        ch_train_gemm_half(c, (ch_train_mul){.m = t.n_key, .n = d, .k = t.n, .a = w->dp, .ra = 1, .ca = n, .b = q + t0 * ld_q, .ld_b = ld_q,
                                        .c = dk + t.k0 * ld_k, .ld_c = ld_k, .add = true});
    }
}

void ch_train_attn_backward(ch_train_ctx *c, const ch_train_attn *b, const real *h, const real *dy, real *dh,
                            const ch_train_attn_saves *s) {
    const size_t n = c->n_tok, d = b->d_head, step = b->gated ? 2 * d : d, group = b->n_head / b->n_head_kv, mark = c->used;
    const size_t nq = n * b->n_head * d, nk = n * b->n_head_kv * d;
    head_back w = {ch_train_take(c, d * n), ch_train_take(c, d * n), ch_train_take(c, TILE * n), ch_train_take(c, TILE * n),
                   ch_train_take(c, nq), ch_train_take(c, nq), ch_train_take(c, nk), ch_train_take(c, n * b->in.n_out)};
    if (!c->dry) {
        const size_t k_at = b->n_head * step, v_at = k_at + b->n_head_kv * d;
        memset(w.din, 0, n * b->in.n_out * sizeof *w.din);
        memset(w.dk, 0, nk * sizeof *w.dk);
        ch_train_linear_back(c, &b->out, s->y, dy, b->out.n_out, n, w.d_o, false);
        for (size_t i = 0; i < n * b->n_head && b->gated; i++) {
            const size_t at = i / b->n_head * b->in.n_out + i % b->n_head * step + d;
            gate_row_back(s->o + i * d, s->in + at, d, w.d_o + i * d, w.din + at);
        }
        for (size_t i = 0; i < b->n_head; i++) {
            if (i % group == 0) {
                ch_train_transpose(c, s->k + i / group * d, n, d, b->n_head_kv * d, w.kt, n);
                ch_train_transpose(c, s->in + v_at + i / group * d, n, d, b->in.n_out, w.vt, n);
            }
            head_backward(c, b, s, i, &w);
        }
        prepare_back(c, b, s->in, step, b->n_head, b->q_norm, w.dq, w.din);
        prepare_back(c, b, s->in + k_at, d, b->n_head_kv, b->k_norm, w.dk, w.din + k_at);
        ch_train_linear_back(c, &b->in, h, w.din, b->in.n_out, n, dh, false);
    }
    c->used = mark;
}
