// The gated delta rule in chunks of CHUNK tokens, forward and backward, one key head with its value heads after the other.
//
// In a chunk, rows are tokens; S is the state [d_k][d_v] before it, G_t the sum of log decays up to t. Where s and t are of one
// document, D[t][s] = exp(G_t - G_s) (s <= t), else 0; e_t = exp(G_t) where t's document began before the chunk, else 0; and
// f_s, F likewise for what the chunk leaves behind: f_s = exp(G_last - G_s), F = exp(G_last).
//   A[t][s] = beta_t (k_t k_s) D[t][s], s < t          (I + A) N = beta (V - e K S)
//   P[t][s] = (q_t k_s) D[t][s], s <= t                O = e Q S + P N
//   S' = F S + K^T (f N)
// Backward, from dO and dS':
//   dN = P^T dO + f K dS'      (I + A)^T dR = dN      dA = -dR N^T      dP = dO N^T
//   dV = beta dR               dbeta_t = sum_s dA (k_t k_s) D + dR_t (v_t - e_t S^T k_t)
//   dS = F dS' + Q^T (e dO) - K^T (beta e dR)
//   dQ = (dP D) K + e dO S^T
//   dK = (dP D)^T Q + (M + M^T) K - beta e dR S^T + f N dS'^T,   M = dA beta D
// The log decays enter through D, e, f, F alone: with Z = dP P + dA A,
//   dG_t = sum_s Z[t][s] - sum_s Z[s][t] + e_t (q_t dO_t S^T - beta_t k_t dR_t S^T) - f_t (k_t N_t dS'^T)
//   dG_last += F <dS', S> + sum_s f_s (k_s N_s dS'^T);     dg = sums of dG from behind
#include "train/part.h"

enum { CHUNK = CH_TRAIN_CHUNK };

typedef struct work {
    real *kt, *kk, *qk;     // [d_k][CHUNK], [CHUNK][CHUNK] twice
    real *d, *a, *p;        // [CHUNK][CHUNK]
    real *ks, *n;           // [CHUNK][d_v]
    real *state;            // [r][d_k][d_v]
    // backward
    real *dr, *nt, *da, *dp, *dqk, *dkk; // [CHUNK][d_v], [d_v][CHUNK], [CHUNK][CHUNK]
    real *st, *x, *y, *z, *tmp;         // [d_v][d_k], [CHUNK][d_k] three times, [CHUNK][d_v]
} work;

// D, A (strictly lower) and P.
static void set_matrices(const ch_train_chunk *w, const work *k, const real *beta) {
    for (size_t t = 0; t < w->n; t++) {
        real *d = k->d + t * CHUNK;
        ch_train_decay_row(w->g, t, w->first[t], w->n, d);
        ch_train_weigh(k->kk + t * CHUNK, d, beta[w->t0 + t], w->n, k->a + t * CHUNK);
        ch_train_weigh(k->qk + t * CHUNK, d, 1, w->n, k->p + t * CHUNK);
        k->a[t * CHUNK + t] = 0;
    }
}

// x := (I + A)^-1 x, and with the transpose.
CH_TIERS static void solve(const real *restrict a, size_t n, size_t d, real *restrict x) {
    for (size_t t = 1; t < n; t++)
        for (size_t s = 0; s < t; s++) {
            const real f = a[t * CHUNK + s];
            for (size_t i = 0; i < d; i++) x[t * d + i] -= f * x[s * d + i];
        }
}

CH_TIERS static void solve_back(const real *restrict a, size_t n, size_t d, real *restrict x) {
    for (size_t t = n; t-- > 1;)
        for (size_t s = 0; s < t; s++) {
            const real f = a[t * CHUNK + s];
            for (size_t i = 0; i < d; i++) x[s * d + i] -= f * x[t * d + i];
        }
}

// Products of keys with keys, queries with keys, for one key head.
static void set_products(const ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s, size_t kh, size_t t0, size_t n,
                         const work *w) {
    const size_t kd = b->n_head_k * b->d_k;
    const real *q = s->q + t0 * kd + kh * b->d_k, *k = s->k + t0 * kd + kh * b->d_k;
    ch_train_transpose(c, k, n, b->d_k, kd, w->kt, CHUNK);
    ch_train_gemm(c, (ch_train_mul){.m = n, .n = n, .k = b->d_k, .a = k, .ra = kd, .ca = 1, .b = w->kt, .ld_b = CHUNK, .c = w->kk,
                                    .ld_c = CHUNK});
    ch_train_gemm(c, (ch_train_mul){.m = n, .n = n, .k = b->d_k, .a = q, .ra = kd, .ca = 1, .b = w->kt, .ld_b = CHUNK, .c = w->qk,
                                    .ld_c = CHUNK});
}

static void take_work(ch_train_ctx *c, const ch_train_gdn *b, work *w, bool back) {
    const size_t cc = CHUNK * CHUNK, ck = CHUNK * b->d_k, cv = CHUNK * b->d_v, r = b->n_head_v / b->n_head_k;
    *w = (work){ch_train_take(c, ck), ch_train_take(c, cc), ch_train_take(c, cc), ch_train_take(c, cc), ch_train_take(c, cc),
                ch_train_take(c, cc), ch_train_take(c, cv), ch_train_take(c, cv), ch_train_take(c, r * b->d_k * b->d_v)};
    if (!back) return;
    w->dr = ch_train_take(c, cv), w->nt = ch_train_take(c, cv), w->da = ch_train_take(c, cc), w->dp = ch_train_take(c, cc);
    w->dqk = ch_train_take(c, cc), w->dkk = ch_train_take(c, cc), w->st = ch_train_take(c, b->d_k * b->d_v);
    w->x = ch_train_take(c, ck), w->y = ch_train_take(c, ck), w->z = ch_train_take(c, ck), w->tmp = ch_train_take(c, cv);
}

// One value head, one chunk: o, and the state moves on.
static void head_forward(const ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s, size_t h, size_t t0, const work *w) {
    const size_t kd = b->n_head_k * b->d_k, vd = b->n_head_v * b->d_v, dk = b->d_k, dv = b->d_v, n_ch = b->conv.n_channel;
    const size_t kh = h % b->n_head_k;
    const real *q = s->q + t0 * kd + kh * dk, *k = s->k + t0 * kd + kh * dk, *v = s->u + t0 * n_ch + 2 * kd + h * dv;
    const real *beta = s->beta + h * c->n_tok;
    real *state = w->state + h / b->n_head_k * dk * dv, *o = s->o + t0 * vd + h * dv, *vn = s->vn + t0 * vd + h * dv;
    ch_train_chunk u;
    ch_train_set_chunk(c, &u, t0, s->g + h * c->n_tok);
    set_matrices(&u, w, beta);
    memcpy(s->state + (t0 / CHUNK * b->n_head_v + h) * dk * dv, state, dk * dv * sizeof *state);
    for (size_t t = 0; t < u.n; t++) ch_train_scale(beta[t0 + t], v + t * n_ch, dv, w->n + t * dv);
    if (u.enters) {
        ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dv, .k = dk, .a = k, .ra = kd, .ca = 1, .b = state, .ld_b = dv, .c = w->ks, .ld_c = dv});
        for (size_t t = 0; t < u.n; t++) ch_train_axpy(-beta[t0 + t] * u.e[t], w->ks + t * dv, dv, w->n + t * dv);
        ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dv, .k = dk, .a = q, .ra = kd, .ca = 1, .b = state, .ld_b = dv, .c = w->ks, .ld_c = dv});
    }
    for (size_t t = 0; t < u.n; t++)
        if (u.enters)
            ch_train_scale(u.e[t], w->ks + t * dv, dv, o + t * vd);
        else
            memset(o + t * vd, 0, dv * sizeof *o);
    solve(w->a, u.n, dv, w->n);
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dv, .k = u.n, .a = w->p, .ra = CHUNK, .ca = 1, .b = w->n, .ld_b = dv, .c = o, .ld_c = vd,
                                    .add = true});
    for (size_t t = 0; t < u.n; t++) {
        memcpy(vn + t * vd, w->n + t * dv, dv * sizeof *vn);
        ch_train_scale(u.f[t], vn + t * vd, dv, w->n + t * dv);
    }
    for (size_t i = 0; i < dk * dv; i++) state[i] = u.leaves ? u.all * state[i] : 0;
    ch_train_gemm(c, (ch_train_mul){.m = dk, .n = dv, .k = u.n, .a = k, .ra = 1, .ca = kd, .b = w->n, .ld_b = dv, .c = state, .ld_c = dv,
                                    .add = true});
}

void ch_train_delta(ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s) {
    const size_t mark = c->used, r = b->n_head_v / b->n_head_k;
    work w;
    take_work(c, b, &w, false);
    for (size_t kh = 0; kh < b->n_head_k && !c->dry; kh++) {
        memset(w.state, 0, r * b->d_k * b->d_v * sizeof *w.state);
        for (size_t t0 = 0; t0 < c->n_tok; t0 += CHUNK) {
            set_products(c, b, s, kh, t0, c->n_tok - t0 < CHUNK ? c->n_tok - t0 : CHUNK, &w);
            for (size_t j = 0; j < r; j++) head_forward(c, b, s, kh + j * b->n_head_k, t0, &w);
        }
    }
    c->used = mark;
}

// ---- backward -----------------------------------------------------------------------------------------------------------------------
// dA to M = dA beta D (in place, onto dkk), dP D onto dqk; gradients of beta and of the decays in D.
CH_TIERS static void matrices_back(const ch_train_chunk *w, const work *k, const real *restrict beta, real *restrict dbeta, real *restrict dg) {
    for (size_t t = 0; t < w->n; t++) {
        const real *restrict d = k->d + t * CHUNK, *restrict a = k->a + t * CHUNK, *restrict p = k->p + t * CHUNK;
        const real *restrict da = k->da + t * CHUNK, *restrict dp = k->dp + t * CHUNK, *restrict kk = k->kk + t * CHUNK;
        real *restrict dqk = k->dqk + t * CHUNK, *restrict dkk = k->dkk + t * CHUNK;
        real sum = 0, to_beta = 0;
        for (size_t s = 0; s < t; s++) {
            const real z = dp[s] * p[s] - da[s] * a[s], m = -da[s] * d[s];
            sum += z;
            dg[s] -= z;
            to_beta += m * kk[s];
            dkk[s] += m * beta[t];
            dqk[s] += dp[s] * d[s];
        }
        dqk[t] += dp[t] * d[t]; // D[t][t] = 1 whatever the decays
        dg[t] += sum;
        dbeta[t] = to_beta;
    }
}

static void head_backward(const ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s, const ch_train_delta_grads *g, size_t h,
                          size_t t0, const work *w) {
    const size_t kd = b->n_head_k * b->d_k, vd = b->n_head_v * b->d_v, dk = b->d_k, dv = b->d_v, n_ch = b->conv.n_channel;
    const size_t kh = h % b->n_head_k;
    const real *q = s->q + t0 * kd + kh * dk, *k = s->k + t0 * kd + kh * dk, *v = s->u + t0 * n_ch + 2 * kd + h * dv;
    const real *beta = s->beta + h * c->n_tok + t0, *d_o = g->d_o + t0 * vd + h * dv, *vn = s->vn + t0 * vd + h * dv;
    const real *state = s->state + (t0 / CHUNK * b->n_head_v + h) * dk * dv;
    real *ds = w->state + h / b->n_head_k * dk * dv, *dbeta = g->dbeta + h * c->n_tok + t0, *dq = g->dq + t0 * kd + kh * dk;
    real *dkey = g->dk + t0 * kd + kh * dk, dg[CHUNK] = {0};
    ch_train_chunk u;
    ch_train_set_chunk(c, &u, t0, s->g + h * c->n_tok);
    set_matrices(&u, w, beta - t0);
    // dN, from the outputs and from the state left behind
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dv, .k = dk, .a = k, .ra = kd, .ca = 1, .b = ds, .ld_b = dv, .c = w->dr, .ld_c = dv});
    for (size_t t = 0; t < u.n; t++)
        for (size_t i = 0; i < dv; i++) w->dr[t * dv + i] *= u.f[t];
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dv, .k = u.n, .a = w->p, .ra = 1, .ca = CHUNK, .b = d_o, .ld_b = vd, .c = w->dr, .ld_c = dv,
                                    .add = true});
    solve_back(w->a, u.n, dv, w->dr);
    // A and P; da holds dR N^T, that is -dA
    ch_train_transpose(c, vn, u.n, dv, vd, w->nt, CHUNK);
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = u.n, .k = dv, .a = w->dr, .ra = dv, .ca = 1, .b = w->nt, .ld_b = CHUNK, .c = w->da,
                                    .ld_c = CHUNK});
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = u.n, .k = dv, .a = d_o, .ra = vd, .ca = 1, .b = w->nt, .ld_b = CHUNK, .c = w->dp,
                                    .ld_c = CHUNK});
    matrices_back(&u, w, beta, dbeta, dg);
    // what the state behind gives to the keys
    ch_train_transpose(c, ds, dk, dv, dv, w->st, dk);
    ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dk, .k = dv, .a = vn, .ra = vd, .ca = 1, .b = w->st, .ld_b = dk, .c = w->z, .ld_c = dk});
    for (size_t t = u.last_first; t < u.n; t++) {
        const real to = u.f[t] * ch_train_dot(k + t * kd, w->z + t * dk, dk);
        dg[t] -= to, dg[u.n - 1] += to;
        ch_train_axpy(u.f[t], w->z + t * dk, dk, dkey + t * kd);
    }
    if (u.leaves) dg[u.n - 1] += u.all * ch_train_dot(ds, state, dk * dv);
    // the state before: through queries and keys
    if (u.enters) {
        ch_train_transpose(c, state, dk, dv, dv, w->st, dk);
        ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dk, .k = dv, .a = d_o, .ra = vd, .ca = 1, .b = w->st, .ld_b = dk, .c = w->x, .ld_c = dk});
        ch_train_gemm(c, (ch_train_mul){.m = u.n, .n = dk, .k = dv, .a = w->dr, .ra = dv, .ca = 1, .b = w->st, .ld_b = dk, .c = w->y, .ld_c = dk});
    }
    for (size_t t = 0; t < u.n; t++) {
        const real *dr = w->dr + t * dv, e = u.e[t];
        dbeta[t] += ch_train_dot(dr, v + t * n_ch, dv);
        ch_train_scale(beta[t], dr, dv, g->dv + (t0 + t) * g->ld_v + h * dv);
        if (!u.enters || e == 0) continue;
        const real ky = ch_train_dot(k + t * kd, w->y + t * dk, dk);
        dbeta[t] -= e * ky;
        dg[t] += e * (ch_train_dot(q + t * kd, w->x + t * dk, dk) - beta[t] * ky);
        ch_train_axpy(e, w->x + t * dk, dk, dq + t * kd);
        ch_train_axpy(-beta[t] * e, w->y + t * dk, dk, dkey + t * kd);
    }
    // the state before itself
    for (size_t i = 0; i < dk * dv; i++) ds[i] = u.leaves ? u.all * ds[i] : 0;
    if (u.enters) {
        for (size_t t = 0; t < u.n; t++) ch_train_scale(u.e[t], d_o + t * vd, dv, w->tmp + t * dv);
        ch_train_gemm(c, (ch_train_mul){.m = dk, .n = dv, .k = u.n, .a = q, .ra = 1, .ca = kd, .b = w->tmp, .ld_b = dv, .c = ds, .ld_c = dv,
                                        .add = true});
        for (size_t t = 0; t < u.n; t++) ch_train_scale(-beta[t] * u.e[t], w->dr + t * dv, dv, w->tmp + t * dv);
        ch_train_gemm(c, (ch_train_mul){.m = dk, .n = dv, .k = u.n, .a = k, .ra = 1, .ca = kd, .b = w->tmp, .ld_b = dv, .c = ds, .ld_c = dv,
                                        .add = true});
    }
    real sum = 0;
    for (size_t t = u.n; t-- > 0;) g->dg[h * c->n_tok + t0 + t] = sum += dg[t];
}

// dQ += dqk K, dK += dqk^T Q + (dkk + dkk^T) K, for the value heads of one key head together.
static void products_back(const ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s, const ch_train_delta_grads *g,
                          size_t kh, size_t t0, size_t n, const work *w) {
    const size_t kd = b->n_head_k * b->d_k, at = t0 * kd + kh * b->d_k;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) w->dkk[j * CHUNK + i] = w->dkk[i * CHUNK + j];
    ch_train_mul m = {.m = n, .n = b->d_k, .k = n, .a = w->dqk, .ra = CHUNK, .ca = 1, .b = s->k + at, .ld_b = kd, .c = g->dq + at, .ld_c = kd,
                      .add = true};
    ch_train_gemm(c, m);
    m.a = w->dkk, m.c = g->dk + at;
    ch_train_gemm(c, m);
    m.a = w->dqk, m.ra = 1, m.ca = CHUNK, m.b = s->q + at;
    ch_train_gemm(c, m);
}

void ch_train_delta_back(ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s, const ch_train_delta_grads *g) {
    const size_t mark = c->used, r = b->n_head_v / b->n_head_k, kd = b->n_head_k * b->d_k;
    work w;
    take_work(c, b, &w, true);
    if (!c->dry) {
        memset(g->dq, 0, c->n_tok * kd * sizeof *g->dq);
        memset(g->dk, 0, c->n_tok * kd * sizeof *g->dk);
    }
    for (size_t kh = 0; kh < b->n_head_k && !c->dry; kh++) {
        memset(w.state, 0, r * b->d_k * b->d_v * sizeof *w.state); // gradient of the state
        for (size_t t0 = (c->n_tok - 1) / CHUNK * CHUNK;; t0 -= CHUNK) {
            const size_t n = c->n_tok - t0 < CHUNK ? c->n_tok - t0 : CHUNK;
            set_products(c, b, s, kh, t0, n, &w);
            memset(w.dqk, 0, CHUNK * CHUNK * sizeof *w.dqk);
            memset(w.dkk, 0, CHUNK * CHUNK * sizeof *w.dkk);
            for (size_t j = 0; j < r; j++) head_backward(c, b, s, g, kh + j * b->n_head_k, t0, &w);
            products_back(c, b, s, g, kh, t0, n, &w);
            if (!t0) break;
        }
    }
    c->used = mark;
}
