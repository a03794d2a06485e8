// kern/x86, private: gated delta rule with one decay per token (GDN) or one per key channel (KDA), over the vectors of lanes_avx2.h
// or lanes_avx512.h, one of which is included before this.
//
// One pass over the state does two things: it finishes a token (S += u k) and begins the next one (S = e S; S k; S q), so that a
// row is loaded and stored once a token. Tiles of a few tokens are packed first, since rows of a head lie a power of two apart
// and would push each other out of the caches. The order of every sum depends on neither tile nor cut: the state between two
// tokens is f32 in a register or in memory alike.
#ifndef CH_KERN_X86_DELTA_BODY_H
#define CH_KERN_X86_DELTA_BODY_H

#include <math.h>

#include "kern/x86/x86.h"

// Tokens of a tile at most, state rows that go through a tile before the next ones (they stay in the first-level cache).
enum { TILE = 16, BLOCK = 16, ROOM = 4096 };

typedef struct tile {
    size_t n_tok, ld;                // ld: d_k rounded up to whole vectors, the rest zero
    float k[ROOM], q[ROOM], e[ROOM]; // [n_tok][ld]; e: decays, per channel only
    float decay[TILE], kq[TILE], beta[TILE];
} tile;

typedef struct delta_call {
    const ch_gdn_args *a;
    const tile *w;
    bool whole, per_channel; // d_k is a multiple of LANES; decays in w->e instead of w->decay
} delta_call;

static void pack(const ch_gdn_args *a, size_t t0, bool per_channel, tile *w) {
    const size_t n = a->d_k;
    for (size_t t = 0; t < w->n_tok; t++) {
        const float *k = a->k + (t0 + t) * a->ld_qk, *q = a->q + (t0 + t) * a->ld_qk,
                    *g = a->g + (t0 + t) * (per_channel ? a->ld_g : a->ld_bg);
        vec s = vec_zero();
        for (size_t i = 0; i < n; i += LANES) {
            const vec kv = vec_load_part(k, i, n), qv = vec_load_part(q, i, n);
            vec_store(w->k + t * w->ld + i, kv);
            vec_store(w->q + t * w->ld + i, qv);
            if (per_channel) vec_store(w->e + t * w->ld + i, vec_exp(vec_load_part(g, i, n)));
            s = vec_fma(kv, qv, s);
        }
        w->kq[t] = vec_sum(s);
        w->decay[t] = per_channel ? 0 : expf(*g);
        w->beta[t] = a->beta[(t0 + t) * a->ld_bg];
    }
}

enum { BEGIN = 1, FINISH = 2 }; // a token: what a pass over state rows does

// n_row (ROWS or 1) state rows from j on. t: token to finish (u: [n_row]); t1: token to begin: its products with k and q go to sk
// and sq, [n_row].
CH_FORCE_INLINE void step(const delta_call *c, size_t j, int n_row, int pass, size_t t, size_t t1, const float *u, float *sk, float *sq) {
    const tile *w = c->w;
    const size_t n = c->a->d_k;
    const float *k0 = w->k + t * w->ld, *k1 = w->k + t1 * w->ld, *q1 = w->q + t1 * w->ld, *e1 = w->e + t1 * w->ld;
    float *s = c->a->state + j * n;
    const vec decay = vec_set1(w->decay[t1]);
    vec u8[ROWS], k8[ROWS], q8[ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
        u8[r] = vec_set1(pass & FINISH && r < n_row ? u[r] : 0);
        k8[r] = q8[r] = vec_zero();
    }
    for (size_t i = 0; i < n; i += LANES) {
        const vec k0v = vec_load(k0 + i), k1v = vec_load(k1 + i), q1v = vec_load(q1 + i);
        const vec ev = c->per_channel ? vec_load(e1 + i) : decay;
#pragma GCC unroll 8
        for (int r = 0; r < n_row; r++) {
            float *row = s + (size_t)r * n;
            vec v = c->whole ? vec_load(row + i) : vec_load_part(row, i, n);
            if (pass & FINISH) v = vec_fma(u8[r], k0v, v);
            if (pass & BEGIN) {
                v = vec_mul(ev, v);
                k8[r] = vec_fma(v, k1v, k8[r]);
                q8[r] = vec_fma(v, q1v, q8[r]);
            }
            if (c->whole)
                vec_store(row + i, v);
            else
                vec_store_part(row, i, n, v);
        }
    }
    if (!(pass & BEGIN)) return;
    const sums ks = sums_of(k8), qs = sums_of(q8);
    if (n_row == ROWS)
        sums_store(sk, ks), sums_store(sq, qs);
    else
        *sk = sums_first(ks), *sq = sums_first(qs);
}

// u = beta (v - S k) and o = S q + (k.q) u of token t of the tile (t0 + t of the call), S decayed.
CH_FORCE_INLINE void outputs(const delta_call *c, size_t t0, size_t t, size_t j, int n_row, const float *sk, const float *sq, float *u) {
    const float *v = c->a->v + (t0 + t) * c->a->ld_v + j;
    float *out = c->a->out + (t0 + t) * c->a->ld_out + j;
    const float beta = c->w->beta[t], kq = c->w->kq[t];
    if (n_row == ROWS) {
        const sums x = sums_mul(sums_set1(beta), sums_sub(sums_load(v), sums_load(sk)));
        sums_store(out, sums_fma(sums_set1(kq), x, sums_load(sq)));
        sums_store(u, x);
    } else {
        *u = beta * (*v - *sk);
        *out = fmaf(kq, *u, *sq);
    }
}

// Rows [j, j + n_row) finish token t of the tile and begin the next one.
CH_FORCE_INLINE void advance(const delta_call *c, size_t t0, size_t t, size_t j, int n_row, float *sk, float *sq) {
    float u[ROWS];
    outputs(c, t0, t, j, n_row, sk, sq, u);
    if (t + 1 < c->w->n_tok)
        step(c, j, n_row, FINISH | BEGIN, t, t + 1, u, sk, sq);
    else
        step(c, j, n_row, FINISH, t, t, u, NULL, NULL);
}

// A line each of what token t of the call needs: rows of a head are too far apart for the processor to see them coming.
CH_FORCE_INLINE void fetch(const ch_gdn_args *a, size_t t, size_t j) {
    if (t >= a->n_tok) return;
    _mm_prefetch((const char *)(a->k + t * a->ld_qk + j), _MM_HINT_T0);
    _mm_prefetch((const char *)(a->q + t * a->ld_qk + j), _MM_HINT_T0);
    _mm_prefetch((const char *)(a->v + t * a->ld_v + j), _MM_HINT_T0);
    _mm_prefetch((const char *)(a->out + t * a->ld_out + j), _MM_HINT_T0);
}

// State rows [j0, j1) through the tile. Rows inside a token: their chains are independent of each other.
CH_FORCE_INLINE void run_block(const delta_call *c, size_t t0, size_t j0, size_t j1) {
    const size_t n_tok = c->w->n_tok, whole = j0 + (j1 - j0) / ROWS * ROWS;
    float sk[BLOCK], sq[BLOCK];
    for (size_t j = j0; j < whole; j += ROWS) step(c, j, ROWS, BEGIN, 0, 0, NULL, sk + (j - j0), sq + (j - j0));
    for (size_t j = whole; j < j1; j++) step(c, j, 1, BEGIN, 0, 0, NULL, sk + (j - j0), sq + (j - j0));
    for (size_t t = 0; t < n_tok; t++) {
        fetch(c->a, t0 + n_tok + t, j0);
        for (size_t j = j0; j < whole; j += ROWS) advance(c, t0, t, j, ROWS, sk + (j - j0), sq + (j - j0));
        for (size_t j = whole; j < j1; j++) advance(c, t0, t, j, 1, sk + (j - j0), sq + (j - j0));
    }
}

CH_FORCE_INLINE void run(const ch_gdn_args *a, bool whole, bool per_channel) {
    tile w;
    w.ld = (a->d_k + LANES - 1) / LANES * LANES;
    CH_ASSERT(w.ld <= ROOM);
    const size_t most = ROOM / w.ld < TILE ? ROOM / w.ld : TILE;
    const delta_call c = {a, &w, whole, per_channel};
    for (size_t t0 = 0; t0 < a->n_tok; t0 += w.n_tok) {
        w.n_tok = a->n_tok - t0 < most ? a->n_tok - t0 : most;
        pack(a, t0, per_channel, &w);
        for (size_t j = 0; j < a->d_v; j += BLOCK) run_block(&c, t0, j, a->d_v - j < BLOCK ? a->d_v : j + BLOCK);
    }
}

static void gdn(const ch_gdn_args *a) {
    if (a->d_k % LANES)
        run(a, false, false);
    else
        run(a, true, false);
}

static void kda(const ch_gdn_args *a) {
    if (a->d_k % LANES)
        run(a, false, true);
    else
        run(a, true, true);
}

static void set_delta(ch_kern *k) {
    k->gdn = gdn;
    k->kda = kda;
}

#endif
