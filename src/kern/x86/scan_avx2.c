// AVX2 softplus and state-space scans.
#include <math.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

// Natural logarithm of normal numbers >= 1: w = m 2^k with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh(s), s = (m-1)/(m+1),
// |s| <= 0.1716 (series to s^9: truncation 2e-9 of the value).
CH_FORCE_INLINE __m256 log8(__m256 w) {
    const __m256i half_root = _mm256_set1_epi32(0x3f3504f3); // sqrt(1/2)
    const __m256i i = _mm256_sub_epi32(_mm256_castps_si256(w), half_root);
    const __m256 k = _mm256_cvtepi32_ps(_mm256_srai_epi32(i, 23));
    const __m256 m = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_and_si256(i, _mm256_set1_epi32(0x7fffff)), half_root));
    const __m256 f = _mm256_sub_ps(m, _mm256_set1_ps(1.0f)), s = _mm256_div_ps(f, _mm256_add_ps(f, _mm256_set1_ps(2.0f)));
    const __m256 s2 = _mm256_mul_ps(s, s);
    __m256 p = _mm256_set1_ps(2.0f / 9);
    p = _mm256_fmadd_ps(p, s2, _mm256_set1_ps(2.0f / 7));
    p = _mm256_fmadd_ps(p, s2, _mm256_set1_ps(2.0f / 5));
    p = _mm256_fmadd_ps(p, s2, _mm256_set1_ps(2.0f / 3));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(s2, s), _mm256_add_ps(s, s));
    return _mm256_fmadd_ps(k, _mm256_set1_ps(0.69314718f), p);
}

// log(1 + e) of e = exp(x), with what rounding took from 1 + e put back; x itself past 20.
CH_FORCE_INLINE __m256 softplus8(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), e = exp8(x), w = _mm256_add_ps(one, e);
    const __m256 lost = _mm256_div_ps(_mm256_sub_ps(e, _mm256_sub_ps(w, one)), w);
    const __m256 y = _mm256_add_ps(log8(w), lost);
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, _mm256_set1_ps(20.0f), _CMP_GT_OQ));
}

static void softplus(const float *x, const float *bias, size_t n, float *y) {
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = load_part(x, i, n);
        if (bias) v = _mm256_add_ps(v, load_part(bias, i, n));
        store_part(y, i, n, softplus8(v));
    }
}

// A lane is a channel. Up to STATES states of 8 channels are gathered into a contiguous block first: their rows lie a power of
// two apart in most models, where they would push each other out of the first-level cache.
enum { STATES = 16 };

CH_FORCE_INLINE void ssm1_tile(const ch_ssm1_args *g, size_t c, size_t n0, size_t n_state) {
    __m256 h[STATES], a[STATES];
    const __m256 skip = load_part(g->skip, c, g->c1);
    for (size_t n = 0; n < n_state; n++) {
        h[n] = load_part(g->state + (n0 + n) * g->n_channel, c, g->c1);
        a[n] = load_part(g->a + (n0 + n) * g->n_channel, c, g->c1);
    }
    for (size_t t = 0; t < g->n_tok; t++) {
        const __m256 x = load_part(g->x + t * g->ld_x, c, g->c1), dt = load_part(g->dt + t * g->ld_dt, c, g->c1);
        const float *b = g->b + t * g->ld_bc + n0, *cc = g->c + t * g->ld_bc + n0;
        const __m256 in = _mm256_mul_ps(dt, x);
        float *out = g->y + t * g->ld_y;
        __m256 y = n0 ? load_part(out, c, g->c1) : _mm256_mul_ps(skip, x);
        for (size_t n = 0; n < n_state; n++) {
            const __m256 decay = exp8(_mm256_mul_ps(dt, a[n]));
            h[n] = _mm256_fmadd_ps(in, _mm256_broadcast_ss(b + n), _mm256_mul_ps(decay, h[n]));
            y = _mm256_fmadd_ps(h[n], _mm256_broadcast_ss(cc + n), y);
        }
        store_part(out, c, g->c1, y);
    }
    for (size_t n = 0; n < n_state; n++) store_part(g->state + (n0 + n) * g->n_channel, c, g->c1, h[n]);
}

static void ssm1(const ch_ssm1_args *g) {
    for (size_t c = g->c0; c < g->c1; c += 8)
        for (size_t n = 0; n < g->d_state; n += STATES)
            ssm1_tile(g, c, n, g->d_state - n < STATES ? g->d_state - n : STATES);
}

// One token for n_row (4 or 1) state rows. A lane is a state.
CH_FORCE_INLINE void ssm2_rows(const ch_ssm2_args *g, size_t t, size_t p, int n_row, float dt, float decay) {
    const float *b = g->b + t * g->ld_bc, *c = g->c + t * g->ld_bc, *x = g->x + t * g->ld_x + p;
    const size_t n = g->d_state;
    float *s = g->state + p * n;
    const __m256 decay8 = _mm256_set1_ps(decay);
    const __m128 x4 = n_row == 4 ? _mm_loadu_ps(x) : _mm_set_ss(*x);
    float in[4];
    _mm_storeu_ps(in, _mm_mul_ps(_mm_set1_ps(dt), x4));
    __m256 in8[4], y[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) in8[r] = _mm256_set1_ps(in[r]), y[r] = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 8) {
        const __m256 bv = load_part(b, i, n), cv = load_part(c, i, n);
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) {
            float *row = s + (size_t)r * n;
            const __m256 now = _mm256_fmadd_ps(in8[r], bv, _mm256_mul_ps(decay8, load_part(row, i, n)));
            store_part(row, i, n, now);
            y[r] = _mm256_fmadd_ps(now, cv, y[r]);
        }
    }
    const __m128 out = _mm_fmadd_ps(_mm_set1_ps(g->skip), x4, sums4(y[0], y[1], y[2], y[3]));
    if (n_row == 4)
        _mm_storeu_ps(g->y + t * g->ld_y + p, out);
    else
        _mm_store_ss(g->y + t * g->ld_y + p, out);
}

// A few rows of the state go through all tokens before the next ones, so that they stay in the first-level cache.
static void ssm2(const ch_ssm2_args *g) {
    enum { BLOCK = 16 };
    for (size_t p0 = 0; p0 < g->d_head; p0 += BLOCK) {
        const size_t p1 = g->d_head - p0 < BLOCK ? g->d_head : p0 + BLOCK;
        for (size_t t = 0; t < g->n_tok; t++) {
            const float dt = g->dt[t * g->ld_dt], decay = expf(dt * g->a);
            size_t p = p0;
            for (; p + 4 <= p1; p += 4) ssm2_rows(g, t, p, 4, dt, decay);
            for (; p < p1; p++) ssm2_rows(g, t, p, 1, dt, decay);
        }
    }
}

void ch_kern_set_scan_avx2(ch_kern *k) {
    k->softplus = softplus;
    k->ssm1 = ssm1;
    k->ssm2 = ssm2;
}
