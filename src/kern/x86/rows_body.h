// kern/x86, private: row kernels over the vectors of lanes_avx2.h or lanes_avx512.h, one of which is included before this. Tails go
// through masked loads and stores, so that a value does not depend on its place in the row.
#ifndef CH_KERN_X86_ROWS_BODY_H
#define CH_KERN_X86_ROWS_BODY_H

#include <float.h>
#include <math.h>

#include "kern/x86/x86.h"

static void rmsnorm(const float *x, const float *w, size_t n, float eps, float *y) {
    if (!n) return;
    const vec r = vec_set1((float)(1.0 / sqrt(vec_sum_squares(x, n) / (double)n + eps)));
    for (size_t i = 0; i < n; i += LANES) {
        vec v = vec_mul(vec_load_part(x, i, n), r);
        if (w) v = vec_mul(v, vec_load_part(w, i, n));
        vec_store_part(y, i, n, v);
    }
}

static void l2norm(const float *x, size_t n, float eps, float scale, float *y) {
    const vec r = vec_set1((float)(scale / sqrt(vec_sum_squares(x, n) + eps)));
    for (size_t i = 0; i < n; i += LANES) vec_store_part(y, i, n, vec_mul(vec_load_part(x, i, n), r));
}

static void swiglu(const float *gate, const float *up, size_t n, float *y) {
    for (size_t i = 0; i < n; i += LANES) {
        const vec g = vec_load_part(gate, i, n), u = vec_load_part(up, i, n);
        vec_store_part(y, i, n, vec_mul(vec_mul(g, vec_sigmoid(g)), u));
    }
}

static void silu_mul(const float *x, const float *z, size_t n, float *y) {
    swiglu(z, x, n, y);
}

static void sigmoid_mul(const float *x, const float *z, size_t n, float *y) {
    for (size_t i = 0; i < n; i += LANES)
        vec_store_part(y, i, n, vec_mul(vec_load_part(x, i, n), vec_sigmoid(vec_load_part(z, i, n))));
}

static void add(const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i += LANES) vec_store_part(y, i, n, vec_add(vec_load_part(y, i, n), vec_load_part(x, i, n)));
}

static void axpy(float a, const float *x, size_t n, float *y) {
    const vec k = vec_set1(a);
    for (size_t i = 0; i < n; i += LANES) vec_store_part(y, i, n, vec_fma(k, vec_load_part(x, i, n), vec_load_part(y, i, n)));
}

static float dot(const float *x, const float *y, size_t n) {
    vec acc[4];
    size_t i = 0;
    for (int j = 0; j < 4; j++) acc[j] = vec_zero();
    for (; i + 4 * LANES <= n; i += 4 * LANES)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) acc[j] = vec_fma(vec_load(x + i + LANES * j), vec_load(y + i + LANES * j), acc[j]);
    for (; i < n; i += LANES) acc[0] = vec_fma(vec_load_part(x, i, n), vec_load_part(y, i, n), acc[0]);
    return vec_sum(vec_add(vec_add(acc[0], acc[1]), vec_add(acc[2], acc[3])));
}

static void rope_neox(float *x, size_t half, const float *cs) {
    size_t i = 0;
    for (; i + LANES <= half; i += LANES) {
        vec c, s;
        vec_load_pairs(cs + 2 * i, &c, &s);
        const vec a = vec_load(x + i), b = vec_load(x + i + half);
        vec_store(x + i, vec_fms(a, c, vec_mul(b, s)));
        vec_store(x + i + half, vec_fma(b, c, vec_mul(a, s)));
    }
    for (; i < half; i++) {
        const float a = x[i], b = x[i + half], c = cs[2 * i], s = cs[2 * i + 1];
        x[i] = fmaf(a, c, -(b * s));
        x[i + half] = fmaf(b, c, a * s);
    }
}

static void rope(float *x, size_t n_rot, const float *cs, bool neox) {
    const size_t n = n_rot & ~(size_t)1;
    if (neox)
        rope_neox(x, n / 2, cs);
    else
        for (size_t i = 0; i < n; i += LANES) vec_store_part(x, i, n, vec_turn(vec_load_part(x, i, n), vec_load_part(cs, i, n)));
}

static void softmax(float *x, size_t n) {
    const vec low = vec_set1(-FLT_MAX);
    vec top = low, sum = vec_zero();
    for (size_t i = 0; i < n; i += LANES) {
        vec v = vec_load_part(x, i, n);
        if (n - i < LANES) v = vec_first(n - i, v, low);
        top = vec_max(top, v);
    }
    const vec max = vec_set1(vec_largest(top));
    for (size_t i = 0; i < n; i += LANES) {
        vec e = vec_exp(vec_sub(vec_load_part(x, i, n), max));
        vec_store_part(x, i, n, e);
        if (n - i < LANES) e = vec_first(n - i, e, vec_zero());
        sum = vec_add(sum, e);
    }
    const vec r = vec_set1(1.0f / vec_sum(sum));
    for (size_t i = 0; i < n; i += LANES) vec_store_part(x, i, n, vec_mul(vec_load_part(x, i, n), r));
}

static void set_rows(ch_kern *k) {
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

#endif
