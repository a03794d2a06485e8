// AdamW over stretches of the parameter vector.
#include "train/adam.h"

// Decay apart from the gradient, with the rate: w -= rate (m' / (sqrt(v') + eps) + decay w).
CH_TIERS void ch_train_adam(const ch_train_adam_args *a, size_t n, const uint8_t *decay, const real *restrict g, real *restrict w,
                            real *restrict m, real *restrict v) {
    const real b1 = (real)a->beta1, b2 = (real)a->beta2, f = (real)a->scale, eps = (real)a->eps;
    const real rate = (real)(a->rate / (1 - pow(a->beta1, (double)a->step))), root = (real)(1 / sqrt(1 - pow(a->beta2, (double)a->step)));
    for (size_t i = 0; i < n; i += CH_TRAIN_GRAIN) {
        const real keep = decay[i / CH_TRAIN_GRAIN] ? (real)(1 - a->rate * a->decay) : 1;
        for (size_t j = i; j < i + CH_TRAIN_GRAIN; j++) {
            const real x = g[j] * f;
            m[j] = b1 * m[j] + (1 - b1) * x;
            v[j] = b2 * v[j] + (1 - b2) * x * x;
            w[j] = w[j] * keep - rate * m[j] / (real_sqrt(v[j]) * root + eps);
        }
    }
}

CH_TIERS void ch_train_average(real keep, size_t n, const real *restrict w, real *restrict mean) {
    for (size_t i = 0; i < n; i++) mean[i] = keep * mean[i] + (1 - keep) * w[i];
}

double ch_train_sum_squares(const real *x, size_t n) {
    double s[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t j = 0; j < 4; j++) s[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++) s[0] += (double)x[i] * (double)x[i];
    return s[0] + s[1] + s[2] + s[3];
}
