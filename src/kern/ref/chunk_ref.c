// Reference chunk forms: the formulas as written (architectures.md G5-G11 and S4-S6), chunks of CH_CHUNK tokens, sums in double.
// Decays between two tokens are formed as differences of their logarithms, so nothing overflows.
#include <math.h>

#include "kern/tier.h"

typedef struct work {
    double *g;       // [CH_CHUNK][n_g] cumulative logarithms of the decay; n_g: d_k, or 1 where all channels share them
    double *a, *p;   // [CH_CHUNK][CH_CHUNK]
    double *v;       // [CH_CHUNK] of one column
    double *state;   // [d_k] of one column
} work;

static size_t chunk_scratch(size_t d_k, size_t d_v) {
    (void)d_v;
    return 2 * (CH_CHUNK * d_k + 2 * CH_CHUNK * CH_CHUNK + CH_CHUNK + d_k) + 2;
}

static work lay_out(float *scratch, size_t d_k) {
    work w;
    w.g = (double *)(((uintptr_t)scratch + 7) & ~(uintptr_t)7);
    w.a = w.g + CH_CHUNK * d_k;
    w.p = w.a + CH_CHUNK * CH_CHUNK;
    w.v = w.p + CH_CHUNK * CH_CHUNK;
    w.state = w.v + CH_CHUNK;
    return w;
}

// sum_i x[i] y[i] exp(G_t[i] - G_s[i])
static double decayed_dot(const float *x, const float *y, const double *gt, const double *gs, size_t n, size_t n_g) {
    double sum = 0, shared = exp(gt[0] - gs[0]);
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * y[i] * (n_g > 1 ? exp(gt[i] - gs[i]) : shared);
    return sum;
}

static double at(const double *g, size_t i, size_t n_g) { return exp(g[n_g > 1 ? i : 0]); }

// One chunk of n tokens; a points to its first token.
static void delta_chunk(const ch_gdn_args *a, size_t n, size_t n_g, size_t ld_g, const work *w) {
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < n_g; i++)
            w->g[t * n_g + i] = (t ? w->g[(t - 1) * n_g + i] : 0) + a->g[t * ld_g + i];
    for (size_t t = 0; t < n; t++)
        for (size_t s = 0; s <= t; s++) {
            const float *k = a->k + s * a->ld_qk;
            const double *gt = w->g + t * n_g, *gs = w->g + s * n_g;
            w->a[t * CH_CHUNK + s] = a->beta[t * a->ld_bg] * decayed_dot(a->k + t * a->ld_qk, k, gt, gs, a->d_k, n_g);
            w->p[t * CH_CHUNK + s] = decayed_dot(a->q + t * a->ld_qk, k, gt, gs, a->d_k, n_g);
        }
    const double *end = w->g + (n - 1) * n_g;
    for (size_t j = 0; j < a->d_v; j++) {
        float *state = a->state + j * a->d_k;
        for (size_t t = 0; t < n; t++) {
            const float *k = a->k + t * a->ld_qk, *q = a->q + t * a->ld_qk;
            const double *g = w->g + t * n_g;
            double sk = 0, sq = 0;
            for (size_t i = 0; i < a->d_k; i++) sk += at(g, i, n_g) * state[i] * k[i], sq += at(g, i, n_g) * state[i] * q[i];
            double v = a->beta[t * a->ld_bg] * (a->v[t * a->ld_v + j] - sk);
            for (size_t s = 0; s < t; s++) v -= w->a[t * CH_CHUNK + s] * w->v[s];
            w->v[t] = v;
            for (size_t s = 0; s <= t; s++) sq += w->p[t * CH_CHUNK + s] * w->v[s];
            a->out[t * a->ld_out + j] = (float)sq;
        }
        for (size_t i = 0; i < a->d_k; i++) {
            double now = at(end, i, n_g) * state[i];
            for (size_t s = 0; s < n; s++)
                now += exp(end[n_g > 1 ? i : 0] - w->g[s * n_g + (n_g > 1 ? i : 0)]) * a->k[s * a->ld_qk + i] * w->v[s];
            state[i] = (float)now;
        }
    }
}

static void delta(const ch_gdn_args *args, size_t n_g, size_t ld_g) {
    const work w = lay_out(args->scratch, args->d_k);
    ch_gdn_args a = *args;
    for (size_t t = 0; t < args->n_tok; t += CH_CHUNK) {
        delta_chunk(&a, args->n_tok - t < CH_CHUNK ? args->n_tok - t : CH_CHUNK, n_g, ld_g, &w);
        a.q += CH_CHUNK * a.ld_qk, a.k += CH_CHUNK * a.ld_qk, a.v += CH_CHUNK * a.ld_v, a.out += CH_CHUNK * a.ld_out;
        a.beta += CH_CHUNK * a.ld_bg, a.g += CH_CHUNK * ld_g;
    }
}

static void gdn_chunk(const ch_gdn_args *a) { delta(a, 1, a->ld_bg); }
static void kda_chunk(const ch_gdn_args *a) { delta(a, a->d_k, a->ld_g); }

static void ssm2_one(const ch_ssm2_args *a, size_t n, const work *w) {
    for (size_t t = 0; t < n; t++) w->g[t] = (t ? w->g[t - 1] : 0) + (double)a->dt[t * a->ld_dt] * a->a;
    for (size_t t = 0; t < n; t++)
        for (size_t s = 0; s <= t; s++)
            w->p[t * CH_CHUNK + s] = decayed_dot(a->c + t * a->ld_bc, a->b + s * a->ld_bc, w->g + t, w->g + s, a->d_state, 1);
    for (size_t p = 0; p < a->d_head; p++) {
        float *state = a->state + p * a->d_state;
        for (size_t t = 0; t < n; t++) {
            double y = 0;
            for (size_t i = 0; i < a->d_state; i++) y += (double)state[i] * a->c[t * a->ld_bc + i];
            y = exp(w->g[t]) * y + (double)a->skip * a->x[t * a->ld_x + p];
            for (size_t s = 0; s <= t; s++) y += w->p[t * CH_CHUNK + s] * a->dt[s * a->ld_dt] * a->x[s * a->ld_x + p];
            a->y[t * a->ld_y + p] = (float)y;
        }
        for (size_t i = 0; i < a->d_state; i++) {
            double now = exp(w->g[n - 1]) * state[i];
            for (size_t s = 0; s < n; s++)
                now += exp(w->g[n - 1] - w->g[s]) * a->dt[s * a->ld_dt] * a->x[s * a->ld_x + p] * a->b[s * a->ld_bc + i];
            state[i] = (float)now;
        }
    }
}

static void ssm2_chunk(const ch_ssm2_args *args) {
    const work w = lay_out(args->scratch, args->d_state);
    ch_ssm2_args a = *args;
    for (size_t t = 0; t < args->n_tok; t += CH_CHUNK) {
        ssm2_one(&a, args->n_tok - t < CH_CHUNK ? args->n_tok - t : CH_CHUNK, &w);
        a.x += CH_CHUNK * a.ld_x, a.dt += CH_CHUNK * a.ld_dt, a.b += CH_CHUNK * a.ld_bc, a.c += CH_CHUNK * a.ld_bc;
        a.y += CH_CHUNK * a.ld_y;
    }
}

void ch_kern_set_chunk_ref(ch_kern *k) {
    k->gdn_chunk = gdn_chunk;
    k->kda_chunk = kda_chunk;
    k->ssm2_chunk = ssm2_chunk;
    k->chunk_scratch = chunk_scratch;
}
