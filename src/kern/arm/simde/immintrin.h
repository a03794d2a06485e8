// On ARM the AVX2 files are compiled through SIMDe, which makes each 256-bit instruction out of NEON's.
#ifndef CH_KERN_ARM_IMMINTRIN_H
#define CH_KERN_ARM_IMMINTRIN_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#ifndef _MM_FROUND_NO_EXC
#define _MM_FROUND_NO_EXC SIMDE_MM_FROUND_NO_EXC
#endif

// Missing in SIMDe's f16c.h.
static inline float _cvtsh_ss(unsigned short h) {
    __fp16 x;
    __builtin_memcpy(&x, &h, sizeof x);
    return (float)x;
}

#endif
