// kern/x86, private: the chunk forms of the delta rules and of Mamba-2's scan, over the vectors of lanes_avx2.h or lanes_avx512.h, one
// of which is included before this; vec_sums4 (sums of four vectors) too.
//
// All three have one shape. Within SUB tokens, with S the state before them as [d_k][d_v]:
//   V_t = beta_t (v_t - kt_t S) - sum_{s<t} A[t][s] V_s        delta rules; Mamba-2: V_t = dt_t x_t
//   o_t = qt_t S + sum_{s<=t} P[t][s] V_s
//   S   = end S + sum_s w_s V_s
// kt, qt: keys and queries times the decay since S; w: keys times the decay until the end; A and P: products of keys and queries with
// the decay between their tokens. Decays are products of factors <= 1, so nothing overflows, however strong they are.
// The state lies transposed in scratch, a lane is a column of v; tokens past the end are zero rows, which change nothing.
#include <math.h>
#include <string.h>

#include "kern/x86/x86.h"

enum { SUB = 16, N_SUB = CH_CHUNK / SUB, WIDE = 2 * LANES };

typedef struct sub_chunk {
    float *kt, *qt, *w; // [SUB][ld_k]; kt NULL: no delta rule
    float *end;         // [ld_k]
    float *a, *p;       // [SUB][SUB]
    float *beta;        // [SUB]
} sub_chunk;

typedef struct chunk_work {
    size_t ld_k, ld_v; // d_k, d_v rounded up to whole tiles; what is past them is zero
    sub_chunk sub[N_SUB];
    float *state;   // [ld_k][ld_v]
    float *k, *q, *e; // [SUB][ld_k] of the sub-chunk being packed
    float *key;       // [ld_k]
} chunk_work;

static size_t round_to(size_t n, size_t step) { return (n + step - 1) / step * step; }

static size_t chunk_scratch(size_t d_k, size_t d_v) {
    const size_t ld_k = round_to(d_k, 16), ld_v = round_to(d_v, WIDE);
    return N_SUB * ((3 * SUB + 1) * ld_k + 2 * SUB * SUB + SUB) + ld_k * ld_v + (3 * SUB + 1) * ld_k + 16;
}

static float *take(float **at, size_t n) {
    float *p = *at;
    *at += n;
    return p;
}

static chunk_work lay_out(float *scratch, size_t d_k, size_t d_v, bool delta) {
    chunk_work w = {.ld_k = round_to(d_k, 16), .ld_v = round_to(d_v, WIDE)};
    float *at = (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    const size_t n = SUB * w.ld_k;
    w.state = take(&at, w.ld_k * w.ld_v);
    w.k = take(&at, n), w.q = take(&at, n), w.e = take(&at, n), w.key = take(&at, w.ld_k);
    for (int i = 0; i < N_SUB; i++) {
        sub_chunk *s = &w.sub[i];
        s->kt = take(&at, n), s->qt = take(&at, n), s->w = take(&at, n), s->end = take(&at, w.ld_k);
        s->a = take(&at, SUB * SUB), s->p = take(&at, SUB * SUB), s->beta = take(&at, SUB);
        if (!delta) s->kt = NULL;
    }
    return w;
}

// state: [d_v][d_k], as kept between calls.
static void load_state(const float *state, size_t d_k, size_t d_v, chunk_work *w) {
    memset(w->state, 0, w->ld_k * w->ld_v * sizeof *w->state);
    size_t j = 0;
    for (; j + 4 <= d_v; j += 4) {
        size_t i = 0;
        for (; i + 4 <= d_k; i += 4) {
            __m128 r0 = _mm_loadu_ps(state + j * d_k + i), r1 = _mm_loadu_ps(state + (j + 1) * d_k + i);
            __m128 r2 = _mm_loadu_ps(state + (j + 2) * d_k + i), r3 = _mm_loadu_ps(state + (j + 3) * d_k + i);
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            float *to = w->state + i * w->ld_v + j;
            _mm_storeu_ps(to, r0), _mm_storeu_ps(to + w->ld_v, r1), _mm_storeu_ps(to + 2 * w->ld_v, r2), _mm_storeu_ps(to + 3 * w->ld_v, r3);
        }
        for (; i < d_k; i++)
            for (size_t r = 0; r < 4; r++) w->state[i * w->ld_v + j + r] = state[(j + r) * d_k + i];
    }
    for (; j < d_v; j++)
        for (size_t i = 0; i < d_k; i++) w->state[i * w->ld_v + j] = state[j * d_k + i];
}

static void store_state(const chunk_work *w, size_t d_k, size_t d_v, float *state) {
    size_t j = 0;
    for (; j + 4 <= d_v; j += 4) {
        size_t i = 0;
        for (; i + 4 <= d_k; i += 4) {
            const float *from = w->state + i * w->ld_v + j;
            __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + w->ld_v);
            __m128 r2 = _mm_loadu_ps(from + 2 * w->ld_v), r3 = _mm_loadu_ps(from + 3 * w->ld_v);
            _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
            _mm_storeu_ps(state + j * d_k + i, r0), _mm_storeu_ps(state + (j + 1) * d_k + i, r1);
            _mm_storeu_ps(state + (j + 2) * d_k + i, r2), _mm_storeu_ps(state + (j + 3) * d_k + i, r3);
        }
        for (; i < d_k; i++)
            for (size_t r = 0; r < 4; r++) state[(j + r) * d_k + i] = w->state[i * w->ld_v + j + r];
    }
    for (; j < d_v; j++)
        for (size_t i = 0; i < d_k; i++) state[j * d_k + i] = w->state[i * w->ld_v + j];
}

// ---- packing --------------------------------------------------------------------------------------------------------------
static void copy_rows(const float *x, size_t ld_x, size_t n_tok, size_t n, size_t ld, float *y) {
    if (n_tok < SUB || n < ld) memset(y, 0, SUB * ld * sizeof *y);
    for (size_t t = 0; t < n_tok; t++) memcpy(y + t * ld, x + t * ld_x, n * sizeof *y);
}

static void scale_row(const float *x, float f, size_t n, float *y) {
    const vec f8 = vec_set1(f);
    for (size_t i = 0; i < n; i += LANES) vec_store(y + i, vec_mul(f8, vec_load(x + i)));
}

// y[s] = x . k_s for four rows.
CH_FORCE_INLINE void dots4(const float *x, const float *k, size_t ld, float *y) {
    vec s0 = vec_set1(0), s1 = vec_set1(0), s2 = vec_set1(0), s3 = vec_set1(0);
    for (size_t i = 0; i < ld; i += LANES) {
        const vec v = vec_load(x + i);
        s0 = vec_fma(v, vec_load(k + i), s0), s1 = vec_fma(v, vec_load(k + ld + i), s1);
        s2 = vec_fma(v, vec_load(k + 2 * ld + i), s2), s3 = vec_fma(v, vec_load(k + 3 * ld + i), s3);
    }
    _mm_storeu_ps(y, vec_sums4(s0, s1, s2, s3));
}

// One decay per token: e[SUB] (1 past the end), keys in w->k, queries in w->q, c->beta set for a delta rule.
static void pack_shared(const chunk_work *w, const float *e, sub_chunk *c) {
    const size_t ld = w->ld_k;
    float since = 1, until = 1;
    for (size_t t = 0; t < SUB; t++) {
        since *= e[t];
        if (c->kt) scale_row(w->k + t * ld, since, ld, c->kt + t * ld);
        scale_row(w->q + t * ld, since, ld, c->qt + t * ld);
    }
    for (size_t i = 0; i < ld; i++) c->end[i] = since;
    for (size_t t = SUB; t-- > 0; until *= e[t]) scale_row(w->k + t * ld, until, ld, c->w + t * ld);
    for (size_t t = 0; t < SUB; t++) {
        float *a = c->a + t * SUB, *p = c->p + t * SUB, between = 1;
        for (size_t s = 0; s <= t; s += 4) {
            dots4(w->q + t * ld, w->k + s * ld, ld, p + s);
            if (c->kt) dots4(w->k + t * ld, w->k + s * ld, ld, a + s);
        }
        for (size_t n = t + 1; n-- > 0; between *= e[n]) p[n] *= between, a[n] = c->kt && n < t ? a[n] * c->beta[t] * between : 0;
        for (size_t s = t + 1; s < SUB; s++) a[s] = p[s] = 0;
    }
}

// A decay per key channel: rows of w->e (1 past the end).
static void pack_channels(const chunk_work *w, sub_chunk *c) {
    const size_t ld = w->ld_k;
    for (size_t i = 0; i < ld; i += LANES) {
        vec since = vec_set1(1), until = vec_set1(1);
        for (size_t t = 0; t < SUB; t++) {
            since = vec_mul(since, vec_load(w->e + t * ld + i));
            vec_store(c->kt + t * ld + i, vec_mul(since, vec_load(w->k + t * ld + i)));
            vec_store(c->qt + t * ld + i, vec_mul(since, vec_load(w->q + t * ld + i)));
        }
        vec_store(c->end + i, since);
        for (size_t t = SUB; t-- > 0; until = vec_mul(until, vec_load(w->e + t * ld + i)))
            vec_store(c->w + t * ld + i, vec_mul(until, vec_load(w->k + t * ld + i)));
    }
    memset(c->a, 0, SUB * SUB * sizeof *c->a), memset(c->p, 0, SUB * SUB * sizeof *c->p);
    for (size_t s = 0; s < SUB; s++) {
        memcpy(w->key, w->k + s * ld, ld * sizeof *w->key); // decays on its way down the tokens
        for (size_t t = s; t < SUB; t++) {
            vec ks = vec_set1(0), qs = vec_set1(0);
            for (size_t i = 0; i < ld; i += LANES) {
                vec v = vec_load(w->key + i);
                if (t > s) v = vec_mul(v, vec_load(w->e + t * ld + i)), vec_store(w->key + i, v);
                ks = vec_fma(v, vec_load(w->k + t * ld + i), ks), qs = vec_fma(v, vec_load(w->q + t * ld + i), qs);
            }
            float both[4];
            _mm_storeu_ps(both, vec_sums4(ks, qs, ks, qs));
            if (t > s) c->a[t * SUB + s] = c->beta[t] * both[0];
            c->p[t * SUB + s] = both[1];
        }
    }
}

// ---- the chunk ------------------------------------------------------------------------------------------------------------
// r[ROWS][WIDE] = x S of ROWS rows x, WIDE columns of the state.
CH_FORCE_INLINE void times_state(const float *x, size_t ld_x, const float *state, size_t ld_s, size_t n, float *r) {
    vec acc[ROWS][2];
#pragma GCC unroll 8
    for (int t = 0; t < ROWS; t++) acc[t][0] = acc[t][1] = vec_set1(0);
    for (size_t i = 0; i < n; i++) {
        const vec s0 = vec_load(state + i * ld_s), s1 = vec_load(state + i * ld_s + LANES);
#pragma GCC unroll 8
        for (int t = 0; t < ROWS; t++) {
            const vec f = vec_set1(x[(size_t)t * ld_x + i]);
            acc[t][0] = vec_fma(f, s0, acc[t][0]), acc[t][1] = vec_fma(f, s1, acc[t][1]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < ROWS; t++) vec_store(r + t * WIDE, acc[t][0]), vec_store(r + t * WIDE + LANES, acc[t][1]);
}

// ROWS rows of the state: end S + w^T V.
CH_FORCE_INLINE void update_state(const float *w, size_t ld_w, const float *end, const float *v, float *state, size_t ld_s) {
    vec acc[ROWS][2];
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) {
        const vec f = vec_set1(end[i]);
        acc[i][0] = vec_mul(f, vec_load(state + (size_t)i * ld_s)), acc[i][1] = vec_mul(f, vec_load(state + (size_t)i * ld_s + LANES));
    }
    for (size_t t = 0; t < SUB; t++) {
        const vec v0 = vec_load(v + t * WIDE), v1 = vec_load(v + t * WIDE + LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const vec f = vec_set1(w[t * ld_w + (size_t)i]);
            acc[i][0] = vec_fma(f, v0, acc[i][0]), acc[i][1] = vec_fma(f, v1, acc[i][1]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) vec_store(state + (size_t)i * ld_s, acc[i][0]), vec_store(state + (size_t)i * ld_s + LANES, acc[i][1]);
}

// Four rows of r (+ or -)= m V, m: [4][SUB], over the first n tokens.
CH_FORCE_INLINE void add_tokens4(const float *m, const float *v, size_t n, bool minus, float *r) {
    vec acc[4][2];
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++) acc[t][0] = vec_load(r + t * WIDE), acc[t][1] = vec_load(r + t * WIDE + LANES);
    for (size_t s = 0; s < n; s++) {
        const vec v0 = vec_load(v + s * WIDE), v1 = vec_load(v + s * WIDE + LANES);
#pragma GCC unroll 4
        for (int t = 0; t < 4; t++) {
            const vec f = vec_set1(minus ? -m[(size_t)t * SUB + s] : m[(size_t)t * SUB + s]);
            acc[t][0] = vec_fma(f, v0, acc[t][0]), acc[t][1] = vec_fma(f, v1, acc[t][1]);
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++) vec_store(r + t * WIDE, acc[t][0]), vec_store(r + t * WIDE + LANES, acc[t][1]);
}

// Where the values of a sub-chunk come from and its outputs go to, WIDE columns (fewer at the edge).
typedef struct chunk_io {
    const float *v; // [n_tok] rows
    size_t ld_v, n_tok, n_col;
    float *out;
    size_t ld_out;
} chunk_io;

static void load_values(const chunk_io *io, size_t t, vec *v0, vec *v1) {
    *v0 = *v1 = vec_set1(0);
    if (t >= io->n_tok) return;
    const float *row = io->v + t * io->ld_v;
    *v0 = vec_load_part(row, 0, io->n_col);
    if (io->n_col > LANES) *v1 = vec_load_part(row, LANES, io->n_col);
}

CH_FORCE_INLINE void run_sub(const chunk_work *w, const sub_chunk *c, const chunk_io *io, float *state) {
    float v[SUB * WIDE], o[SUB * WIDE];
    for (size_t t = 0; t < SUB; t += ROWS) times_state(c->qt + t * w->ld_k, w->ld_k, state, w->ld_v, w->ld_k, o + t * WIDE);
    for (size_t t = 0; t < SUB && c->kt; t += ROWS) times_state(c->kt + t * w->ld_k, w->ld_k, state, w->ld_v, w->ld_k, v + t * WIDE);
    for (size_t t = 0; t < SUB; t++) {
        const vec f = vec_set1(c->beta[t]);
        vec v0, v1;
        load_values(io, t, &v0, &v1);
        if (c->kt) v0 = vec_sub(v0, vec_load(v + t * WIDE)), v1 = vec_sub(v1, vec_load(v + t * WIDE + LANES));
        vec_store(v + t * WIDE, vec_mul(f, v0)), vec_store(v + t * WIDE + LANES, vec_mul(f, v1));
    }
    for (size_t t = 0; t < SUB; t += 4) {
        if (c->kt) {
            add_tokens4(c->a + t * SUB, v, t, true, v + t * WIDE);
            for (size_t r = t + 1; r < t + 4; r++)
                for (size_t s = t; s < r; s++) {
                    const vec f = vec_set1(-c->a[r * SUB + s]);
                    vec_store(v + r * WIDE, vec_fma(f, vec_load(v + s * WIDE), vec_load(v + r * WIDE)));
                    vec_store(v + r * WIDE + LANES, vec_fma(f, vec_load(v + s * WIDE + LANES), vec_load(v + r * WIDE + LANES)));
                }
        }
        add_tokens4(c->p + t * SUB, v, t + 4, false, o + t * WIDE);
    }
    for (size_t i = 0; i < w->ld_k; i += ROWS)
        update_state(c->w + i, w->ld_k, c->end + i, v, state + i * w->ld_v, w->ld_v);
    for (size_t t = 0; t < io->n_tok; t++) {
        vec_store_part(io->out + t * io->ld_out, 0, io->n_col, vec_load(o + t * WIDE));
        if (io->n_col > LANES) vec_store_part(io->out + t * io->ld_out, LANES, io->n_col, vec_load(o + t * WIDE + LANES));
    }
}

// n_tok tokens (at most CH_CHUNK), packed: all their sub-chunks through a strip of the state before the next strip.
static void run_chunk(const chunk_work *w, const chunk_io *all, size_t d_v) {
    for (size_t j = 0; j < d_v; j += WIDE)
        for (size_t t = 0, i = 0; t < all->n_tok; t += SUB, i++) {
            const chunk_io io = {.v = all->v + t * all->ld_v + j, .ld_v = all->ld_v, .n_tok = all->n_tok - t < SUB ? all->n_tok - t : SUB,
                                 .n_col = d_v - j < WIDE ? d_v - j : WIDE, .out = all->out + t * all->ld_out + j, .ld_out = all->ld_out};
            run_sub(w, &w->sub[i], &io, w->state + j);
        }
}

static void delta(const ch_gdn_args *a, bool per_channel) {
    chunk_work w = lay_out(a->scratch, a->d_k, a->d_v, true);
    load_state(a->state, a->d_k, a->d_v, &w);
    for (size_t t0 = 0; t0 < a->n_tok; t0 += CH_CHUNK) {
        const size_t n = a->n_tok - t0 < CH_CHUNK ? a->n_tok - t0 : CH_CHUNK;
        for (size_t t = t0, i = 0; t < t0 + n; t += SUB, i++) {
            const size_t m = t0 + n - t < SUB ? t0 + n - t : SUB;
            copy_rows(a->k + t * a->ld_qk, a->ld_qk, m, a->d_k, w.ld_k, w.k);
            copy_rows(a->q + t * a->ld_qk, a->ld_qk, m, a->d_k, w.ld_k, w.q);
            for (size_t r = 0; r < SUB; r++) w.sub[i].beta[r] = r < m ? a->beta[(t + r) * a->ld_bg] : 0;
            if (per_channel) {
                copy_rows(a->g + t * a->ld_g, a->ld_g, m, a->d_k, w.ld_k, w.e);
                for (size_t r = 0; r < SUB * w.ld_k; r += LANES) vec_store(w.e + r, vec_exp(vec_load(w.e + r)));
                pack_channels(&w, &w.sub[i]);
            } else {
                float e[SUB];
                for (size_t r = 0; r < SUB; r++) e[r] = r < m ? expf(a->g[(t + r) * a->ld_bg]) : 1;
                pack_shared(&w, e, &w.sub[i]);
            }
        }
        run_chunk(&w, &(chunk_io){.v = a->v + t0 * a->ld_v, .ld_v = a->ld_v, .n_tok = n, .out = a->out + t0 * a->ld_out, .ld_out = a->ld_out},
                  a->d_v);
    }
    store_state(&w, a->d_k, a->d_v, a->state);
}

static void gdn_chunk(const ch_gdn_args *a) { delta(a, false); }
static void kda_chunk(const ch_gdn_args *a) { delta(a, true); }

static void ssm2_chunk(const ch_ssm2_args *a) {
    chunk_work w = lay_out(a->scratch, a->d_state, a->d_head, false);
    load_state(a->state, a->d_state, a->d_head, &w);
    for (size_t t0 = 0; t0 < a->n_tok; t0 += CH_CHUNK) {
        const size_t n = a->n_tok - t0 < CH_CHUNK ? a->n_tok - t0 : CH_CHUNK;
        for (size_t t = t0, i = 0; t < t0 + n; t += SUB, i++) {
            const size_t m = t0 + n - t < SUB ? t0 + n - t : SUB;
            float e[SUB];
            copy_rows(a->b + t * a->ld_bc, a->ld_bc, m, a->d_state, w.ld_k, w.k);
            copy_rows(a->c + t * a->ld_bc, a->ld_bc, m, a->d_state, w.ld_k, w.q);
            for (size_t r = 0; r < SUB; r++) {
                const float dt = r < m ? a->dt[(t + r) * a->ld_dt] : 0;
                w.sub[i].beta[r] = dt, e[r] = expf(dt * a->a);
            }
            pack_shared(&w, e, &w.sub[i]);
        }
        run_chunk(&w, &(chunk_io){.v = a->x + t0 * a->ld_x, .ld_v = a->ld_x, .n_tok = n, .out = a->y + t0 * a->ld_y, .ld_out = a->ld_y},
                  a->d_head);
    }
    store_state(&w, a->d_state, a->d_head, a->state);
    for (size_t t = 0; t < a->n_tok; t++) {
        const float *x = a->x + t * a->ld_x;
        float *y = a->y + t * a->ld_y;
        for (size_t i = 0; i < a->d_head; i += LANES)
            vec_store_part(y, i, a->d_head, vec_fma(vec_set1(a->skip), vec_load_part(x, i, a->d_head), vec_load_part(y, i, a->d_head)));
    }
}

static void set_chunk(ch_kern *k) {
    k->gdn_chunk = gdn_chunk;
    k->kda_chunk = kda_chunk;
    k->ssm2_chunk = ssm2_chunk;
    k->chunk_scratch = chunk_scratch;
}
