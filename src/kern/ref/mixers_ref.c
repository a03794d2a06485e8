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

// d_v doubles, room to align them, one key and one value in f32.
static size_t attn_scratch(size_t n_tok, size_t n_q, size_t d_k, size_t d_v) {
    (void)n_tok, (void)n_q;
    return 2 * d_v + 2 + d_k + d_v;
}

static void row_at(const ch_attn_args *a, const ch_type_info *t, size_t off, size_t ld, size_t pos, size_t d, float *row) {
    t->decode(a->page[pos / CH_KV_PAGE] + off + pos % CH_KV_PAGE * ld, row, d);
}

// One query row: online softmax, position by position.
static void attn_row(const ch_attn_args *a, const float *q, size_t n_pos, float *out, double *acc) {
    double max = -INFINITY, sum = 0;
    float *k = (float *)(acc + a->d_v), *v = k + a->d_k;
    for (size_t i = 0; i < a->d_v; i++) acc[i] = 0;
    for (size_t p = 0; p < n_pos; p++) {
        row_at(a, a->k_type, a->k_off, a->k_ld, p, a->d_k, k);
        row_at(a, a->v_type, a->v_off, a->v_ld, p, a->d_v, v);
        double s = 0;
        for (size_t i = 0; i < a->d_k; i++) s += (double)q[i] * k[i];
        s *= a->scale;
        if (s > max) {
            const double shrink = exp(max - s);
            for (size_t i = 0; i < a->d_v; i++) acc[i] *= shrink;
            sum *= shrink;
            max = s;
        }
        const double e = exp(s - max);
        sum += e;
        for (size_t i = 0; i < a->d_v; i++) acc[i] += e * v[i];
    }
    for (size_t i = 0; i < a->d_v; i++) out[i] = (float)(acc[i] / sum);
}

static void attn(const ch_attn_args *a) {
    double *acc = (double *)(((uintptr_t)a->scratch + 7) & ~(uintptr_t)7);
    for (size_t t = 0; t < a->n_tok; t++)
        for (size_t h = 0; h < a->n_q; h++)
            attn_row(a, a->q + t * a->ld_q + h * a->d_k, a->pos0 + t + 1, a->out + t * a->ld_out + h * a->d_v, acc);
}

void ch_kern_set_mixers_ref(ch_kern *k) {
    k->conv = conv;
    k->gdn = gdn;
    k->kda = kda;
    k->attn = attn;
    k->attn_scratch = attn_scratch;
}
