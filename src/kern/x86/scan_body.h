// kern/x86, private: softplus and state-space scans over the vectors of lanes_avx2.h or lanes_avx512.h, one of which is included
// before this.
#ifndef CH_KERN_X86_SCAN_BODY_H
#define CH_KERN_X86_SCAN_BODY_H

#include <math.h>

#include "kern/x86/x86.h"

// Natural logarithm of normal numbers >= 1: w = m 2^k with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m-1)/(m+1),
// |s| <= 0.1716 (series to s^9: truncation 2e-9 of the value).
CH_FORCE_INLINE vec vec_log(vec w) {
    vec m, k;
    vec_split_power(w, &m, &k);
    const vec f = vec_sub(m, vec_set1(1.0f)), s = vec_div(f, vec_add(f, vec_set1(2.0f)));
    const vec s2 = vec_mul(s, s);
    vec p = vec_set1(2.0f / 9);
    p = vec_fma(p, s2, vec_set1(2.0f / 7));
    p = vec_fma(p, s2, vec_set1(2.0f / 5));
    p = vec_fma(p, s2, vec_set1(2.0f / 3));
    p = vec_fma(p, vec_mul(s2, s), vec_add(s, s));
    return vec_fma(k, vec_set1(0.69314718f), p);
}

// log(1 + e) of e = exp(x), with what rounding took from 1 + e put back; x itself past 20.
CH_FORCE_INLINE vec vec_softplus(vec x) {
    const vec one = vec_set1(1.0f), e = vec_exp(x), w = vec_add(one, e);
    const vec lost = vec_div(vec_sub(e, vec_sub(w, one)), w);
    const vec y = vec_add(vec_log(w), lost);
    return vec_above(x, 20.0f, y);
}

static void softplus(const float *x, const float *bias, size_t n, float *y) {
    for (size_t i = 0; i < n; i += LANES) {
        vec v = vec_load_part(x, i, n);
        if (bias) v = vec_add(v, vec_load_part(bias, i, n));
        vec_store_part(y, i, n, vec_softplus(v));
    }
}

// A lane is a channel. Up to STATES states of LANES channels are gathered into a contiguous block first: their rows lie a power of
// two apart in most models, where they would push each other out of the first-level cache.
enum { STATES = 16 };

CH_FORCE_INLINE void ssm1_tile(const ch_ssm1_args *g, size_t c, size_t n0, size_t n_state) {
    vec h[STATES], a[STATES];
    const vec skip = vec_load_part(g->skip, c, g->c1);
    for (size_t n = 0; n < n_state; n++) {
        h[n] = vec_load_part(g->state + (n0 + n) * g->n_channel, c, g->c1);
        a[n] = vec_load_part(g->a + (n0 + n) * g->n_channel, c, g->c1);
    }
    for (size_t t = 0; t < g->n_tok; t++) {
        const vec x = vec_load_part(g->x + t * g->ld_x, c, g->c1), dt = vec_load_part(g->dt + t * g->ld_dt, c, g->c1);
        const float *b = g->b + t * g->ld_bc + n0, *cc = g->c + t * g->ld_bc + n0;
        const vec in = vec_mul(dt, x);
        float *out = g->y + t * g->ld_y;
        vec y = n0 ? vec_load_part(out, c, g->c1) : vec_mul(skip, x);
        for (size_t n = 0; n < n_state; n++) {
            const vec decay = vec_exp(vec_mul(dt, a[n]));
            h[n] = vec_fma(in, vec_set1(b[n]), vec_mul(decay, h[n]));
            y = vec_fma(h[n], vec_set1(cc[n]), y);
        }
        vec_store_part(out, c, g->c1, y);
    }
    for (size_t n = 0; n < n_state; n++) vec_store_part(g->state + (n0 + n) * g->n_channel, c, g->c1, h[n]);
}

static void ssm1(const ch_ssm1_args *g) {
    for (size_t c = g->c0; c < g->c1; c += LANES)
        for (size_t n = 0; n < g->d_state; n += STATES)
            ssm1_tile(g, c, n, g->d_state - n < STATES ? g->d_state - n : STATES);
}

// One token for n_row (ROWS or 1) state rows. A lane is a state. whole: d_state is a multiple of LANES.
CH_FORCE_INLINE void ssm2_rows(const ch_ssm2_args *g, size_t t, size_t p, int n_row, bool whole, float dt, float decay) {
    const float *b = g->b + t * g->ld_bc, *c = g->c + t * g->ld_bc, *x = g->x + t * g->ld_x + p;
    const size_t n = g->d_state;
    float *s = g->state + p * n, *out = g->y + t * g->ld_y + p;
    const vec shrink = vec_set1(decay);
    vec in[ROWS], y[ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) in[r] = vec_set1(r < n_row ? dt * x[r] : 0), y[r] = vec_zero();
    for (size_t i = 0; i < n; i += LANES) {
        const vec bv = whole ? vec_load(b + i) : vec_load_part(b, i, n), cv = whole ? vec_load(c + i) : vec_load_part(c, i, n);
#pragma GCC unroll 8
        for (int r = 0; r < n_row; r++) {
            float *row = s + (size_t)r * n;
            const vec now = vec_fma(in[r], bv, vec_mul(shrink, whole ? vec_load(row + i) : vec_load_part(row, i, n)));
            if (whole)
                vec_store(row + i, now);
            else
                vec_store_part(row, i, n, now);
            y[r] = vec_fma(now, cv, y[r]);
        }
    }
    if (n_row == ROWS)
        sums_store(out, sums_fma(sums_set1(g->skip), sums_load(x), sums_of(y)));
    else
        *out = fmaf(g->skip, *x, sums_first(sums_of(y)));
}

CH_FORCE_INLINE void ssm2_block(const ch_ssm2_args *g, size_t p0, size_t p1, bool whole) {
    for (size_t t = 0; t < g->n_tok; t++) {
        const float dt = g->dt[t * g->ld_dt], decay = expf(dt * g->a);
        size_t p = p0;
        for (; p + ROWS <= p1; p += ROWS) ssm2_rows(g, t, p, ROWS, whole, dt, decay);
        for (; p < p1; p++) ssm2_rows(g, t, p, 1, whole, dt, decay);
    }
}

// A few rows of the state go through all tokens before the next ones, so that they stay in the first-level cache.
static void ssm2(const ch_ssm2_args *g) {
    enum { BLOCK = 16 };
    for (size_t p = 0; p < g->d_head; p += BLOCK) {
        const size_t end = g->d_head - p < BLOCK ? g->d_head : p + BLOCK;
        if (g->d_state % LANES)
            ssm2_block(g, p, end, false);
        else
            ssm2_block(g, p, end, true);
    }
}

static void set_scan(ch_kern *k) {
    k->softplus = softplus;
    k->ssm1 = ssm1;
    k->ssm2 = ssm2;
}

#endif
