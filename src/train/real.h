// train, private: the number that the blocks are written in. float in the library; tests/grad builds the same sources once
// more with double (CH_TRAIN_DOUBLE, every global name with 64), where central differences are exact enough to judge them.
#ifndef CH_TRAIN_REAL_H
#define CH_TRAIN_REAL_H

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "kern/kern.h"

#ifdef CH_TRAIN_DOUBLE
#include "train/real64.h"
typedef double real;

typedef struct ch_train_mul {
    size_t m, n, k;
    const real *a;
    size_t ra, ca;
    const real *b;
    size_t ld_b;
    real *c;
    size_t ld_c;
    bool add;
} ch_train_mul; // as ch_gemm_args

CH_FORCE_INLINE real real_exp(real x) { return exp(x); }
CH_FORCE_INLINE real real_log1p(real x) { return log1p(x); }
CH_FORCE_INLINE real real_log(real x) { return log(x); }
CH_FORCE_INLINE real real_sqrt(real x) { return sqrt(x); }
#else
typedef float real;
typedef ch_gemm_args ch_train_mul;

// 2^(x log2 e): a polynomial on [-1/2, 1/2] and an exponent put together, without branches, so that compilers turn it into
// vectors. Within 2^-22 (1 + |x| / 8) of the value; neither 0 nor infinite for numbers, so that quotients stay finite.
CH_FORCE_INLINE real real_exp(real x) {
    const real t = x * 1.44269504f;
    const int32_t n = (int32_t)(t + __builtin_copysignf(0.5f, t));
    const real f = t - (real)n;
    real p = 1.52527e-5f;
    p = p * f + 1.540353e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 0.24022651f;
    p = p * f + 0.69314718f;
    p = p * f + 1.0f;
    const int32_t low = n < -126 ? -126 : n, bits = ((low > 126 ? 126 : low) + 127) << 23;
    real scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}
CH_FORCE_INLINE real real_log1p(real x) { return log1pf(x); }
CH_FORCE_INLINE real real_log(real x) { return logf(x); }
CH_FORCE_INLINE real real_sqrt(real x) { return sqrtf(x); }
#endif

CH_FORCE_INLINE real real_sigmoid(real x) { return 1 / (1 + real_exp(-x)); }
CH_FORCE_INLINE real real_softplus(real x) { return (x > 0 ? x : 0) + real_log1p(real_exp(x > 0 ? -x : x)); }

#endif
