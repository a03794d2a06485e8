// Reference state-space scans: token after token, the formulas as written, sums in double.
#include <math.h>

#include "kern/tier.h"

// log1p keeps the small values that log(1 + exp(x)) would flush; past 20 the sum is x to every bit of a float.
static void softplus(const float *x, const float *bias, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i] + (bias ? bias[i] : 0.0f);
        y[i] = (float)(v > 20 ? v : log1p(exp(v)));
    }
}

static void ssm1(const ch_ssm1_args *a) {
    for (size_t t = 0; t < a->n_tok; t++) {
        const float *b = a->b + t * a->ld_bc, *c = a->c + t * a->ld_bc;
        for (size_t i = a->c0; i < a->c1; i++) {
            const double dt = a->dt[t * a->ld_dt + i], x = a->x[t * a->ld_x + i];
            double y = a->skip[i] * x;
            for (size_t n = 0; n < a->d_state; n++) {
                float *h = &a->state[n * a->n_channel + i];
                const double now = exp(dt * a->a[n * a->n_channel + i]) * *h + dt * x * b[n];
                y += now * c[n];
                *h = (float)now;
            }
            a->y[t * a->ld_y + i] = (float)y;
        }
    }
}

static void ssm2(const ch_ssm2_args *a) {
    for (size_t t = 0; t < a->n_tok; t++) {
        const float *b = a->b + t * a->ld_bc, *c = a->c + t * a->ld_bc;
        const double dt = a->dt[t * a->ld_dt], decay = exp(dt * a->a);
        for (size_t p = 0; p < a->d_head; p++) {
            const double x = a->x[t * a->ld_x + p];
            float *s = a->state + p * a->d_state; // [d_state]
            double y = a->skip * x;
            for (size_t n = 0; n < a->d_state; n++) {
                const double now = decay * s[n] + dt * x * b[n];
                y += now * c[n];
                s[n] = (float)now;
            }
            a->y[t * a->ld_y + p] = (float)y;
        }
    }
}

void ch_kern_set_scan_ref(ch_kern *k) {
    k->softplus = softplus;
    k->ssm1 = ssm1;
    k->ssm2 = ssm2;
}
