// kern/x86, private: causal convolution over the vectors of lanes_avx2.h or lanes_avx512.h, one of which is included before this.
// A lane is a channel.
//
// A few tokens go through all channels before the next ones: rows are tens of kilobytes apart, and a few of them side by side are
// streams that the processor fetches ahead, where one channel's way down all rows would meet a new page with every token.
#ifndef CH_KERN_X86_CONV_BODY_H
#define CH_KERN_X86_CONV_BODY_H

#include "kern/x86/x86.h"

enum { CONV_TOKENS = 8, CONV_TAPS = 4 }; // CONV_TAPS: weights that stay in registers

// History place h: the state first, then x.
CH_FORCE_INLINE const float *history(const ch_conv_args *a, size_t h, size_t n_past) {
    return h < n_past ? a->state + h * a->n_channel : a->x + (h - n_past) * a->ld_x;
}

CH_FORCE_INLINE vec conv_load(bool whole, const float *x, size_t c, size_t n) {
    return whole ? vec_load(x + c) : vec_load_part(x, c, n);
}

// Channels [c, c + LANES), or up to c1 if not whole, of tokens [t0, t1).
CH_FORCE_INLINE void conv_lanes(const ch_conv_args *a, size_t t0, size_t t1, size_t c, size_t n_tap, bool whole) {
    const size_t n_past = n_tap - 1;
    const vec bias = a->bias ? conv_load(whole, a->bias, c, a->c1) : vec_zero();
    vec w[CONV_TAPS];
#pragma GCC unroll 4
    for (size_t j = 0; j < CONV_TAPS; j++) w[j] = j < n_tap ? conv_load(whole, a->w + j * a->n_channel, c, a->c1) : vec_zero();
    for (size_t t = t0; t < t1; t++) {
        vec s = bias;
#pragma GCC unroll 4
        for (size_t j = 0; j < CONV_TAPS; j++)
            if (j < n_tap) s = vec_fma(w[j], conv_load(whole, history(a, t + j, n_past), c, a->c1), s);
        for (size_t j = CONV_TAPS; j < n_tap; j++)
            s = vec_fma(conv_load(whole, a->w + j * a->n_channel, c, a->c1), conv_load(whole, history(a, t + j, n_past), c, a->c1), s);
        if (a->silu) s = vec_mul(s, vec_sigmoid(s));
        if (whole)
            vec_store(a->y + t * a->ld_y + c, s);
        else
            vec_store_part(a->y + t * a->ld_y, c, a->c1, s);
    }
}

CH_FORCE_INLINE void conv_tokens(const ch_conv_args *a, size_t n_tap) {
    const size_t whole = a->c0 + (a->c1 - a->c0) / LANES * LANES;
    for (size_t t = 0; t < a->n_tok; t += CONV_TOKENS) {
        const size_t end = a->n_tok - t < CONV_TOKENS ? a->n_tok : t + CONV_TOKENS;
        for (size_t c = a->c0; c < whole; c += LANES) conv_lanes(a, t, end, c, n_tap, true);
        if (whole < a->c1) conv_lanes(a, t, end, whole, n_tap, false);
    }
}

static void conv(const ch_conv_args *a) {
    const size_t n_past = a->n_tap - 1;
    if (!a->n_tok) return;
    if (a->n_tap == 4)
        conv_tokens(a, 4);
    else
        conv_tokens(a, a->n_tap);
    for (size_t i = 0; i < n_past; i++) // upwards: where tokens are few, its younger part moves down
        for (size_t c = a->c0; c < a->c1; c += LANES)
            vec_store_part(a->state + i * a->n_channel, c, a->c1, vec_load_part(history(a, i + a->n_tok, n_past), c, a->c1));
}

#endif
