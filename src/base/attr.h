// Compiler attributes used beyond plain C11, in one place.
#ifndef CH_BASE_ATTR_H
#define CH_BASE_ATTR_H

#if defined(__GNUC__) || defined(__clang__)
#define CH_PRINTF(fmt_arg, first_arg) __attribute__((format(printf, fmt_arg, first_arg)))
#define CH_UNUSED __attribute__((unused))
#define CH_LIKELY(x) __builtin_expect(!!(x), 1)
#define CH_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CH_ALIGNED(n) __attribute__((aligned(n)))
#define CH_FORCE_INLINE static inline __attribute__((always_inline))
#else
#define CH_PRINTF(fmt_arg, first_arg)
#define CH_UNUSED
#define CH_LIKELY(x) (x)
#define CH_UNLIKELY(x) (x)
#define CH_ALIGNED(n) _Alignas(n)
#define CH_FORCE_INLINE static inline
#endif

// A function of plain loops, built for several instruction sets; the loader picks one. For code that compilers vectorise
// well; kernels proper live in kern/. Sanitizers do not get on with the loader's choice.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define CH_TIERS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CH_TIERS
#endif

#endif
