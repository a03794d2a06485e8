// AVX2 causal convolution.
#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

// History place h: the state first, then x.
CH_FORCE_INLINE const float *history(const ch_conv_args *a, size_t h, size_t n_past) {
    return h < n_past ? a->state + h * a->n_channel : a->x + (h - n_past) * a->ld_x;
}

// Channels [c0, c1) of token t. A lane is a channel.
CH_FORCE_INLINE void conv_token(const ch_conv_args *a, size_t t, size_t c0, size_t c1) {
    const size_t n_past = a->n_tap - 1;
    for (size_t c = c0; c < c1; c += 8) {
        __m256 s = a->bias ? load_part(a->bias, c, c1) : _mm256_setzero_ps();
        for (size_t j = 0; j <= n_past; j++)
            s = _mm256_fmadd_ps(load_part(a->w + j * a->n_channel, c, c1), load_part(history(a, t + j, n_past), c, c1), s);
        if (a->silu) s = _mm256_mul_ps(s, sigmoid8(s));
        store_part(a->y + t * a->ld_y, c, c1, s);
    }
}

// A block of channels goes through all tokens before the next one: its weights and last rows stay in the first-level cache, and
// whole lines of the rows are used.
static void conv(const ch_conv_args *a) {
    enum { BLOCK = 64 };
    const size_t n_past = a->n_tap - 1;
    if (!a->n_tok) return;
    for (size_t c0 = a->c0; c0 < a->c1; c0 += BLOCK) {
        const size_t c1 = a->c1 - c0 < BLOCK ? a->c1 : c0 + BLOCK;
        for (size_t t = 0; t < a->n_tok; t++) conv_token(a, t, c0, c1);
        for (size_t i = 0; i < n_past; i++) // upwards: where tokens are few, its younger part moves down
            for (size_t c = c0; c < c1; c += 8)
                store_part(a->state + i * a->n_channel, c, c1, load_part(history(a, i + a->n_tok, n_past), c, c1));
    }
}

void ch_kern_set_mixers_avx2(ch_kern *k) {
    k->conv = conv;
    ch_kern_set_delta_avx2(k);
    ch_kern_set_attn_avx2(k);
}
