// AVX2 causal convolution.
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

void ch_kern_set_mixers_avx2(ch_kern *k) {
    k->conv = conv;
    ch_kern_set_delta_avx2(k);
    ch_kern_set_attn_avx2(k);
}
