// Ends of the model: embedding, and cross entropy over the vocabulary, a few rows of logits at a time.
#include "train/part.h"

enum { ROWS = 128 };

void ch_train_embed(const ch_train_ctx *c, size_t off, size_t d, const int32_t *token, real *x) {
    for (size_t t = 0; t < c->n_tok && !c->dry; t++) memcpy(x + t * d, c->w + off + (size_t)token[t] * d, d * sizeof *x);
}

void ch_train_embed_back(const ch_train_ctx *c, size_t off, size_t d, const int32_t *token, const real *dx) {
    if (off < c->frozen) return;
    for (size_t t = 0; t < c->n_tok && !c->dry; t++) ch_train_add(dx + t * d, d, ch_train_grad(c, off) + (size_t)token[t] * d);
}

// -log softmax(z)[target]; z becomes f times its gradient (f 0: left as exponentials).
CH_TIERS static real cross_entropy(real *z, size_t n, size_t target, real f) {
    real max = z[0], sum = 0;
    for (size_t i = 1; i < n; i++) max = z[i] > max ? z[i] : max;
    const real at = z[target] - max;
    for (size_t i = 0; i < n; i++) {
        z[i] = real_exp(z[i] - max);
        sum += z[i];
    }
    const real r = f / sum;
    for (size_t i = 0; i < n; i++) z[i] *= r;
    z[target] -= f;
    return real_log(sum) - at;
}

double ch_train_head(ch_train_ctx *c, const ch_train_mat *head, const real *h, const int32_t *target, const float *weight, double scale,
                     real *dh) {
    const size_t v = head->n_out, d = head->n_in, mark = c->used;
    real *z = ch_train_take(c, ROWS * v);
    double loss = 0;
    for (size_t t0 = 0; t0 < c->n_tok && !c->dry; t0 += ROWS) {
        const size_t n = c->n_tok - t0 < ROWS ? c->n_tok - t0 : ROWS;
        ch_train_linear(c, head, h + t0 * d, n, z, v, false);
        for (size_t i = 0; i < n; i++) {
            const float w = weight[t0 + i];
            if (w == 0)
                memset(z + i * v, 0, v * sizeof *z);
            else
                loss += (double)w * cross_entropy(z + i * v, v, (size_t)target[t0 + i], (real)((double)w * scale));
        }
        if (dh) ch_train_linear_back(c, head, h + t0 * d, z, v, n, dh + t0 * d, false);
    }
    c->used = mark;
    return loss;
}

void ch_train_logits(ch_train_ctx *c, const ch_train_mat *head, const real *h, real *logits) {
    ch_train_linear(c, head, h, c->n_tok, logits, head->n_out, false);
}
