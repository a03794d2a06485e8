// The choice of tier: reference first, then what the processor and the caller's ceiling allow on top.
#include "kern/kern.h"

#include <string.h>

#include "kern/tier.h"

#if defined(__aarch64__)
static const char *const tier_names[] = {"ref", "neon"};
#define TIER_NAMES "ref or neon"
#else
static const char *const tier_names[] = {"ref", "avx2", "avx512", "amx"};
#define TIER_NAMES "ref, avx2, avx512 or amx"
#endif
enum { N_TIERS = sizeof tier_names / sizeof *tier_names };

int ch_kern_init(ch_kern *k, const ch_cpu *cpu, const char *max_tier, ch_error *e) {
    int tier = N_TIERS - 1;
    if (max_tier) {
        for (tier = 0; tier < N_TIERS; tier++)
            if (!strcmp(max_tier, tier_names[tier])) break;
        if (tier == N_TIERS)
            return ch_error_set(e, CH_ERANGE, "kernel tier: expected " TIER_NAMES ", found \"%.32s\"", max_tier);
    }
    memset(k, 0, sizeof *k);
    k->name = tier_names[CH_TIER_REF];
    ch_kern_set_mat_ref(k);
    ch_kern_set_rows_ref(k);
    ch_kern_set_mixers_ref(k);
    ch_kern_set_scan_ref(k);
    ch_kern_set_gemm_ref(k);
    ch_kern_set_attn_ref(k);
    ch_kern_set_chunk_ref(k);
#if defined(__x86_64__)
    ch_kern_set_x86(k, cpu, tier);
#elif defined(__aarch64__)
    ch_kern_set_arm(k, cpu, tier);
#else
    (void)cpu;
#endif
    if (!k->gemm_half) k->gemm_half = k->gemm;
    return CH_OK;
}
