// AVX2 row kernels. Tails go through masked loads and stores, so that a value does not depend on its place in the row.
#include <float.h>
#include <math.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

// Sum of squares in double: no overflow, and norms are too small a share of the time to save on.
CH_FORCE_INLINE double sum_squares(const float *x, size_t n) {
    __m256d a = _mm256_setzero_pd(), b = a;
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = load_part(x, i, n);
        const __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(v)), hi = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        a = _mm256_fmadd_pd(lo, lo, a);
        b = _mm256_fmadd_pd(hi, hi, b);
    }
    return sum4d(_mm256_add_pd(a, b));
}

static void rmsnorm(const float *x, const float *w, size_t n, float eps, float *y) {
    if (!n) return;
    const __m256 r = _mm256_set1_ps((float)(1.0 / sqrt(sum_squares(x, n) / (double)n + eps)));
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(load_part(x, i, n), r);
        if (w) v = _mm256_mul_ps(v, load_part(w, i, n));
        store_part(y, i, n, v);
    }
}

static void l2norm(const float *x, size_t n, float eps, float scale, float *y) {
    const __m256 r = _mm256_set1_ps((float)(scale / sqrt(sum_squares(x, n) + eps)));
    for (size_t i = 0; i < n; i += 8) store_part(y, i, n, _mm256_mul_ps(load_part(x, i, n), r));
}

static void swiglu(const float *gate, const float *up, size_t n, float *y) {
    for (size_t i = 0; i < n; i += 8) {
        const __m256 g = load_part(gate, i, n), u = load_part(up, i, n);
        store_part(y, i, n, _mm256_mul_ps(_mm256_mul_ps(g, sigmoid8(g)), u));
    }
}

static void silu_mul(const float *x, const float *z, size_t n, float *y) {
    swiglu(z, x, n, y);
}

static void sigmoid_mul(const float *x, const float *z, size_t n, float *y) {
    for (size_t i = 0; i < n; i += 8)
        store_part(y, i, n, _mm256_mul_ps(load_part(x, i, n), sigmoid8(load_part(z, i, n))));
}

static void add(const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i += 8) store_part(y, i, n, _mm256_add_ps(load_part(y, i, n), load_part(x, i, n)));
}

static void axpy(float a, const float *x, size_t n, float *y) {
    const __m256 k = _mm256_set1_ps(a);
    for (size_t i = 0; i < n; i += 8) store_part(y, i, n, _mm256_fmadd_ps(k, load_part(x, i, n), load_part(y, i, n)));
}

static float dot(const float *x, const float *y, size_t n) {
    __m256 acc[4];
    size_t i = 0;
    for (int j = 0; j < 4; j++) acc[j] = _mm256_setzero_ps();
    for (; i + 32 <= n; i += 32)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            acc[j] = _mm256_fmadd_ps(_mm256_loadu_ps(x + i + 8 * j), _mm256_loadu_ps(y + i + 8 * j), acc[j]);
    for (; i < n; i += 8) acc[0] = _mm256_fmadd_ps(load_part(x, i, n), load_part(y, i, n), acc[0]);
    return sum8(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
}

static void rope_neox(float *x, size_t half, const float *cs) {
    size_t i = 0;
    for (; i + 8 <= half; i += 8) {
        const __m256 p = _mm256_loadu_ps(cs + 2 * i), q = _mm256_loadu_ps(cs + 2 * i + 8);
        const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(p, q, 0x88));
        const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(p, q, 0xdd));
        const __m256 c = _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8));
        const __m256 s = _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8));
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + half);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + i + half, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
    for (; i < half; i++) {
        const float a = x[i], b = x[i + half], c = cs[2 * i], s = cs[2 * i + 1];
        x[i] = fmaf(a, c, -(b * s));
        x[i + half] = fmaf(b, c, a * s);
    }
}

static void rope(float *x, size_t n_rot, const float *cs, bool neox) {
    if (neox) {
        rope_neox(x, n_rot / 2, cs);
        return;
    }
    const size_t n = n_rot & ~(size_t)1;
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = load_part(x, i, n), k = load_part(cs, i, n);
        const __m256 t = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), _mm256_movehdup_ps(k));
        store_part(x, i, n, _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(k), t));
    }
}

static void softmax(float *x, size_t n) {
    const __m256 low = _mm256_set1_ps(-FLT_MAX);
    __m256 top = low, sum = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = load_part(x, i, n);
        if (n - i < 8) v = _mm256_blendv_ps(low, v, _mm256_castsi256_ps(first_lanes(n - i)));
        top = _mm256_max_ps(top, v);
    }
    const __m256 max = _mm256_set1_ps(max8(top));
    for (size_t i = 0; i < n; i += 8) {
        __m256 e = exp8(_mm256_sub_ps(load_part(x, i, n), max));
        store_part(x, i, n, e);
        if (n - i < 8) e = _mm256_and_ps(e, _mm256_castsi256_ps(first_lanes(n - i)));
        sum = _mm256_add_ps(sum, e);
    }
    const __m256 r = _mm256_set1_ps(1.0f / sum8(sum));
    for (size_t i = 0; i < n; i += 8) store_part(x, i, n, _mm256_mul_ps(load_part(x, i, n), r));
}

void ch_kern_set_rows_avx2(ch_kern *k) {
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
