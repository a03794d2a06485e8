// AVX2 gated delta rule, with one decay per token (GDN) or one per key channel (KDA).
//
// One pass over the state does two things: it finishes a token (S += u k) and begins the next one (S = e S; S k; S q), so that a
// row is loaded and stored once a token. Tiles of a few tokens are packed first, since rows of a head lie a power of two apart
// and would push each other out of the caches. The order of every sum depends on neither tile nor cut: the state between two
// tokens is f32 in a register or in memory alike.
#include <math.h>
#include <string.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

// Tokens of a tile at most, state rows that go through a tile before the next ones (they stay in the first-level cache).
enum { TILE = 16, BLOCK = 16, ROOM = 4096 };

typedef struct tile {
    size_t n_tok, ld;               // ld: d_k rounded up to 8, the rest zero
    float k[ROOM], q[ROOM], e[ROOM]; // [n_tok][ld]; e: decays, per channel only
    float decay[TILE], kq[TILE], beta[TILE];
} tile;

typedef struct delta_call {
    const ch_gdn_args *a;
    const tile *w;
    bool whole, per_channel; // d_k is a multiple of 8; decays in w->e instead of w->decay
} delta_call;

static void pack(const ch_gdn_args *a, size_t t0, bool per_channel, tile *w) {
    const size_t n = a->d_k;
    for (size_t t = 0; t < w->n_tok; t++) {
        const float *k = a->k + (t0 + t) * a->ld_qk, *q = a->q + (t0 + t) * a->ld_qk, *g = a->g + (t0 + t) * (per_channel ? a->ld_g : a->ld_bg);
        __m256 s = _mm256_setzero_ps();
        for (size_t i = 0; i < n; i += 8) {
            const __m256 kv = load_part(k, i, n), qv = load_part(q, i, n);
            _mm256_storeu_ps(w->k + t * w->ld + i, kv);
            _mm256_storeu_ps(w->q + t * w->ld + i, qv);
            if (per_channel) _mm256_storeu_ps(w->e + t * w->ld + i, exp8(load_part(g, i, n)));
            s = _mm256_fmadd_ps(kv, qv, s);
        }
        w->kq[t] = sum8(s);
        w->decay[t] = per_channel ? 0 : expf(*g);
        w->beta[t] = a->beta[(t0 + t) * a->ld_bg];
    }
}

// n_row (4 or 1) state rows from j on. add: finishes token t (u: [n_row]). next: decays for token t1 and multiplies with its k
// and q; the products go to sk and sq, [n_row].
CH_FORCE_INLINE void step(const delta_call *c, size_t j, int n_row, bool add, size_t t, bool next, size_t t1, const float *u, float *sk,
                          float *sq) {
    const tile *w = c->w;
    const size_t n = c->a->d_k;
    const float *k0 = w->k + t * w->ld, *k1 = w->k + t1 * w->ld, *q1 = w->q + t1 * w->ld, *e1 = w->e + t1 * w->ld;
    float *s = c->a->state + j * n;
    const __m256 decay = _mm256_set1_ps(next ? w->decay[t1] : 0);
    __m256 u8[4], k8[4], q8[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        u8[r] = _mm256_set1_ps(add && r < n_row ? u[r] : 0);
        k8[r] = q8[r] = _mm256_setzero_ps();
    }
    for (size_t i = 0; i < n; i += 8) {
        const __m256 k0v = _mm256_loadu_ps(k0 + i), k1v = _mm256_loadu_ps(k1 + i), q1v = _mm256_loadu_ps(q1 + i);
        const __m256 ev = c->per_channel ? _mm256_loadu_ps(e1 + i) : decay;
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            float *row = s + (size_t)r * n;
            __m256 v = c->whole ? _mm256_loadu_ps(row + i) : load_part(row, i, n);
            if (add) v = _mm256_fmadd_ps(u8[r], k0v, v);
            if (next) {
                v = _mm256_mul_ps(ev, v);
                k8[r] = _mm256_fmadd_ps(v, k1v, k8[r]);
                q8[r] = _mm256_fmadd_ps(v, q1v, q8[r]);
            }
            if (c->whole)
                _mm256_storeu_ps(row + i, v);
            else
                store_part(row, i, n, v);
        }
    }
    if (!next) return;
    const __m128 ks = sums4(k8[0], k8[1], k8[2], k8[3]), qs = sums4(q8[0], q8[1], q8[2], q8[3]);
    if (n_row == 4) {
        _mm_storeu_ps(sk, ks), _mm_storeu_ps(sq, qs);
    } else {
        _mm_store_ss(sk, ks), _mm_store_ss(sq, qs);
    }
}

// u = beta (v - S k) and o = S q + (k.q) u of token t of the tile (t0 + t of the call), S decayed.
CH_FORCE_INLINE void outputs(const delta_call *c, size_t t0, size_t t, size_t j, int n_row, const float *sk, const float *sq, float *u) {
    const float *v = c->a->v + (t0 + t) * c->a->ld_v + j;
    float *out = c->a->out + (t0 + t) * c->a->ld_out + j;
    const __m128 beta = _mm_set1_ps(c->w->beta[t]), kq = _mm_set1_ps(c->w->kq[t]);
    if (n_row == 4) {
        const __m128 u4 = _mm_mul_ps(beta, _mm_sub_ps(_mm_loadu_ps(v), _mm_loadu_ps(sk)));
        _mm_storeu_ps(out, _mm_fmadd_ps(kq, u4, _mm_loadu_ps(sq)));
        _mm_storeu_ps(u, u4);
    } else {
        const __m128 u1 = _mm_mul_ss(beta, _mm_sub_ss(_mm_load_ss(v), _mm_load_ss(sk)));
        _mm_store_ss(out, _mm_fmadd_ss(kq, u1, _mm_load_ss(sq)));
        _mm_store_ss(u, u1);
    }
}

// State rows [j0, j1) through the tile. Rows inside a token: their chains are independent of each other.
CH_FORCE_INLINE void run_block(const delta_call *c, size_t t0, size_t j0, size_t j1) {
    const size_t n_tok = c->w->n_tok, j4 = j0 + (j1 - j0) / 4 * 4;
    float sk[BLOCK], sq[BLOCK], u[4];
    for (size_t j = j0; j < j4; j += 4) step(c, j, 4, false, 0, true, 0, NULL, sk + (j - j0), sq + (j - j0));
    for (size_t j = j4; j < j1; j++) step(c, j, 1, false, 0, true, 0, NULL, sk + (j - j0), sq + (j - j0));
    for (size_t t = 0; t < n_tok; t++) {
        for (size_t j = j0; j < j4; j += 4) {
            outputs(c, t0, t, j, 4, sk + (j - j0), sq + (j - j0), u);
            if (t + 1 < n_tok)
                step(c, j, 4, true, t, true, t + 1, u, sk + (j - j0), sq + (j - j0));
            else
                step(c, j, 4, true, t, false, t, u, NULL, NULL);
        }
        for (size_t j = j4; j < j1; j++) {
            outputs(c, t0, t, j, 1, sk + (j - j0), sq + (j - j0), u);
            if (t + 1 < n_tok)
                step(c, j, 1, true, t, true, t + 1, u, sk + (j - j0), sq + (j - j0));
            else
                step(c, j, 1, true, t, false, t, u, NULL, NULL);
        }
    }
}

CH_FORCE_INLINE void run(const ch_gdn_args *a, bool whole, bool per_channel) {
    tile w;
    w.ld = (a->d_k + 7) / 8 * 8;
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
    if (a->d_k % 8)
        run(a, false, false);
    else
        run(a, true, false);
}

static void kda(const ch_gdn_args *a) {
    if (a->d_k % 8)
        run(a, false, true);
    else
        run(a, true, true);
}

void ch_kern_set_delta_avx2(ch_kern *k) {
    k->gdn = gdn;
    k->kda = kda;
}
