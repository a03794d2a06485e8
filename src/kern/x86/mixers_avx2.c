// AVX2 causal convolution and gated delta rule.
#include <math.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

// Input of history place h, channels c..c+7: the state first, then x.
CH_FORCE_INLINE __m256 history(const ch_conv_args *a, size_t h, size_t c, size_t n_past) {
    return h < n_past ? load_part(a->state + h * a->n_channel, c, a->c1)
                      : load_part(a->x + (h - n_past) * a->ld_x, c, a->c1);
}

static void conv(const ch_conv_args *a) {
    const size_t n_past = a->n_tap - 1;
    if (!a->n_tok) return;
    for (size_t c = a->c0; c < a->c1; c += 8) {
        const __m256 bias = a->bias ? load_part(a->bias, c, a->c1) : _mm256_setzero_ps();
        for (size_t t = 0; t < a->n_tok; t++) {
            __m256 s = bias;
            for (size_t j = 0; j <= n_past; j++)
                s = _mm256_fmadd_ps(load_part(a->w + j * a->n_channel, c, a->c1), history(a, t + j, c, n_past), s);
            if (a->silu) s = _mm256_mul_ps(s, sigmoid8(s));
            store_part(a->y + t * a->ld_y, c, a->c1, s);
        }
        for (size_t i = 0; i < n_past; i++)
            store_part(a->state + i * a->n_channel, c, a->c1, history(a, i + a->n_tok, c, n_past));
    }
}

// One token for n_row (4 or 1) state rows, in the one-pass form: both products are taken with the old state, and the new
// output follows from them: u = beta (v - e S k), o = e S q + (k.q) u, S = e S + u k.
CH_FORCE_INLINE void gdn_rows(const ch_gdn_args *a, size_t t, size_t j, int n_row, float decay, float kq) {
    const float *q = a->q + t * a->ld_qk, *k = a->k + t * a->ld_qk;
    const size_t n = a->d_k;
    float *s = a->state + j * n;
    __m256 sk[4], sq[4];
    for (int r = 0; r < 4; r++) sk[r] = sq[r] = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 8) {
        const __m256 kv = load_part(k, i, n), qv = load_part(q, i, n);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            const __m256 v = load_part(s + (size_t)r * n, i, n);
            sk[r] = _mm256_fmadd_ps(v, kv, sk[r]);
            sq[r] = _mm256_fmadd_ps(v, qv, sq[r]);
        }
    }
    const __m128 e = _mm_set1_ps(decay), beta = _mm_set1_ps(a->beta[t * a->ld_bg]);
    const float *v = a->v + t * a->ld_v + j;
    const __m128 vv = n_row == 4 ? _mm_loadu_ps(v) : _mm_set_ss(*v);
    const __m128 u = _mm_mul_ps(beta, _mm_fnmadd_ps(e, sums4(sk[0], sk[1], sk[2], sk[3]), vv));
    const __m128 o = _mm_fmadd_ps(_mm_set1_ps(kq), u, _mm_mul_ps(e, sums4(sq[0], sq[1], sq[2], sq[3])));
    float *out = a->out + t * a->ld_out + j, us[4];
    if (n_row == 4)
        _mm_storeu_ps(out, o);
    else
        _mm_store_ss(out, o);
    _mm_storeu_ps(us, u);
    const __m256 decay8 = _mm256_set1_ps(decay);
    __m256 u8[4];
#pragma GCC unroll 4
    for (int r = 0; r < n_row; r++) u8[r] = _mm256_set1_ps(us[r]);
    for (size_t i = 0; i < n; i += 8) {
        const __m256 kv = load_part(k, i, n);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            float *row = s + (size_t)r * n;
            store_part(row, i, n, _mm256_fmadd_ps(u8[r], kv, _mm256_mul_ps(decay8, load_part(row, i, n))));
        }
    }
}

CH_FORCE_INLINE float dot_kq(const ch_gdn_args *a, size_t t) {
    __m256 s = _mm256_setzero_ps();
    for (size_t i = 0; i < a->d_k; i += 8)
        s = _mm256_fmadd_ps(load_part(a->k + t * a->ld_qk, i, a->d_k), load_part(a->q + t * a->ld_qk, i, a->d_k), s);
    return sum8(s);
}

// A few rows of the state go through all tokens before the next ones, so that they stay in the first-level cache.
static void gdn(const ch_gdn_args *a) {
    enum { BLOCK = 16 };
    for (size_t j0 = 0; j0 < a->d_v; j0 += BLOCK) {
        const size_t j1 = a->d_v - j0 < BLOCK ? a->d_v : j0 + BLOCK;
        for (size_t t = 0; t < a->n_tok; t++) {
            const float decay = expf(a->g[t * a->ld_bg]), kq = dot_kq(a, t);
            size_t j = j0;
            for (; j + 4 <= j1; j += 4) gdn_rows(a, t, j, 4, decay, kq);
            for (; j < j1; j++) gdn_rows(a, t, j, 1, decay, kq);
        }
    }
}

// One token for one state row with a decay per channel. ek, eq: decay times k and q, so that both products are taken with the
// old state.
CH_FORCE_INLINE void kda_row(const ch_gdn_args *a, size_t t, size_t j, const float *decay, const float *ek, const float *eq,
                             float kq) {
    const float *k = a->k + t * a->ld_qk;
    const size_t n = a->d_k;
    float *s = a->state + j * n;
    __m256 sk = _mm256_setzero_ps(), sq = sk;
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = load_part(s, i, n);
        sk = _mm256_fmadd_ps(v, load_part(ek, i, n), sk);
        sq = _mm256_fmadd_ps(v, load_part(eq, i, n), sq);
    }
    const float u = a->beta[t * a->ld_bg] * (a->v[t * a->ld_v + j] - sum8(sk));
    a->out[t * a->ld_out + j] = sum8(sq) + kq * u;
    const __m256 u8 = _mm256_set1_ps(u);
    for (size_t i = 0; i < n; i += 8)
        store_part(s, i, n, _mm256_fmadd_ps(u8, load_part(k, i, n), _mm256_mul_ps(load_part(decay, i, n), load_part(s, i, n))));
}

static void kda(const ch_gdn_args *a) {
    enum { BLOCK = 16, MAX_D = 1024 };
    float decay[MAX_D], ek[MAX_D], eq[MAX_D];
    CH_ASSERT(a->d_k <= MAX_D);
    for (size_t j0 = 0; j0 < a->d_v; j0 += BLOCK) {
        const size_t j1 = a->d_v - j0 < BLOCK ? a->d_v : j0 + BLOCK, n = a->d_k;
        for (size_t t = 0; t < a->n_tok; t++) {
            const float *k = a->k + t * a->ld_qk, *q = a->q + t * a->ld_qk;
            for (size_t i = 0; i < n; i += 8) {
                const __m256 e = exp8(load_part(a->g + t * a->ld_g, i, n));
                store_part(decay, i, n, e);
                store_part(ek, i, n, _mm256_mul_ps(e, load_part(k, i, n)));
                store_part(eq, i, n, _mm256_mul_ps(e, load_part(q, i, n)));
            }
            const float kq = dot_kq(a, t);
            for (size_t j = j0; j < j1; j++) kda_row(a, t, j, decay, ek, eq, kq);
        }
    }
}

void ch_kern_set_mixers_avx2(ch_kern *k) {
    k->conv = conv;
    k->gdn = gdn;
    k->kda = kda;
    ch_kern_set_attn_avx2(k);
}
