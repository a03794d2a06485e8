// Reference row kernels: libm and double sums.
#include <math.h>

#include "kern/tier.h"

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static void rmsnorm(const float *x, const float *w, size_t n, float eps, float *y) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)x[i] * x[i];
    const double r = n ? 1.0 / sqrt(s / (double)n + eps) : 0;
    for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] * r * (w ? w[i] : 1.0f));
}

static void l2norm(const float *x, size_t n, float eps, float scale, float *y) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)x[i] * x[i];
    const double r = scale / sqrt(s + eps);
    for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] * r);
}

static void swiglu(const float *gate, const float *up, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = (float)(gate[i] * sigmoid(gate[i]) * up[i]);
}

static void silu_mul(const float *x, const float *z, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] * (z[i] * sigmoid(z[i])));
}

static void sigmoid_mul(const float *x, const float *z, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] * sigmoid(z[i]));
}

static void add(const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void axpy(float a, const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = (float)(y[i] + (double)a * x[i]);
}

static float dot(const float *x, const float *y, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)x[i] * y[i];
    return (float)s;
}

static void rope(float *x, size_t n_rot, const float *cs, bool neox) {
    const size_t half = n_rot / 2;
    for (size_t i = 0; i < half; i++) {
        float *a = neox ? x + i : x + 2 * i, *b = neox ? x + i + half : x + 2 * i + 1;
        const double c = cs[2 * i], s = cs[2 * i + 1], u = *a, v = *b;
        *a = (float)(u * c - v * s);
        *b = (float)(u * s + v * c);
    }
}

static void softmax(float *x, size_t n) {
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    double s = 0;
    for (size_t i = 0; i < n; i++) s += exp((double)x[i] - max);
    for (size_t i = 0; i < n; i++) x[i] = (float)(exp((double)x[i] - max) / s);
}

static void bf16_load(const uint16_t *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) y[i] = ch_bf16_to_f32(x[i]);
}

static void bf16_store(const float *x, size_t n, uint16_t *y) {
    for (size_t i = 0; i < n; i++) y[i] = ch_f32_to_bf16(x[i]);
}

void ch_kern_set_rows_ref(ch_kern *k) {
    k->bf16_load = bf16_load;
    k->bf16_store = bf16_store;
    k->rmsnorm = rmsnorm;
    k->l2norm = l2norm;
    k->swiglu = swiglu;
    k->silu_mul = silu_mul;
    k->sigmoid_mul = sigmoid_mul;
    k->add = add;
    k->axpy = axpy;
    k->dot = dot;
    k->rope = rope;
    k->softmax = softmax;
}
