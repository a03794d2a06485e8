// Reference sequence mixers: the formulas as written, sums in double.
#include <math.h>

#include "kern/tier.h"

static void conv(const ch_conv_args *a) {
    const size_t n_past = a->n_tap - 1;
    if (!a->n_tok) return;
    for (size_t c = a->c0; c < a->c1; c++) {
        for (size_t t = 0; t < a->n_tok; t++) {
            double s = a->bias ? a->bias[c] : 0;
            for (size_t j = 0; j <= n_past; j++) {
                const size_t h = t + j; // place in the history: state first, then x
                const double u = h < n_past ? a->state[h * a->n_channel + c] : a->x[(h - n_past) * a->ld_x + c];
                s += a->w[j * a->n_channel + c] * u;
            }
            a->y[t * a->ld_y + c] = (float)(a->silu ? s / (1.0 + exp(-s)) : s);
        }
        // With fewer tokens than the state is long, its younger part moves down; i < i + n_tok, so upwards is safe.
        for (size_t i = 0; i < n_past; i++) {
            const size_t h = i + a->n_tok;
            a->state[i * a->n_channel + c] =
                h < n_past ? a->state[h * a->n_channel + c] : a->x[(h - n_past) * a->ld_x + c];
        }
    }
}

static void gdn(const ch_gdn_args *a) {
    for (size_t t = 0; t < a->n_tok; t++) {
        const float *q = a->q + t * a->ld_qk, *k = a->k + t * a->ld_qk;
        const double decay = exp(a->g[t * a->ld_bg]), beta = a->beta[t * a->ld_bg];
        for (size_t j = 0; j < a->d_v; j++) {
            float *s = a->state + j * a->d_k; // [d_k]
            double sk = 0, o = 0;
            for (size_t i = 0; i < a->d_k; i++) sk += decay * s[i] * k[i];
            const double u = beta * (a->v[t * a->ld_v + j] - sk);
            for (size_t i = 0; i < a->d_k; i++) {
                const double now = decay * s[i] + k[i] * u;
                o += now * q[i];
                s[i] = (float)now;
            }
            a->out[t * a->ld_out + j] = (float)o;
        }
    }
}

// As gdn, with a decay of its own for every key channel. Decay first, so that the products see decayed values.
static void kda(const ch_gdn_args *a) {
    for (size_t t = 0; t < a->n_tok; t++) {
        const float *q = a->q + t * a->ld_qk, *k = a->k + t * a->ld_qk, *g = a->g + t * a->ld_g;
        const double beta = a->beta[t * a->ld_bg];
        for (size_t j = 0; j < a->d_v; j++) {
            float *s = a->state + j * a->d_k; // [d_k]
            double sk = 0, o = 0;
            for (size_t i = 0; i < a->d_k; i++) sk += exp(g[i]) * s[i] * k[i];
            const double u = beta * (a->v[t * a->ld_v + j] - sk);
            for (size_t i = 0; i < a->d_k; i++) {
                const double now = exp(g[i]) * s[i] + k[i] * u;
                o += now * q[i];
                s[i] = (float)now;
            }
            a->out[t * a->ld_out + j] = (float)o;
        }
    }
}

void ch_kern_set_mixers_ref(ch_kern *k) {
    k->conv = conv;
    k->gdn = gdn;
    k->kda = kda;
}
