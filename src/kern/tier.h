// kern, private: how the tiers stack. Every function below writes entries of a table that is already complete for the tier
// under it, so a tier may leave out what it cannot do better. None looks at the processor: the caller has checked it.
#ifndef CH_KERN_TIER_H
#define CH_KERN_TIER_H

#include "kern/kern.h"

enum { CH_TIER_REF, CH_TIER_AVX2, CH_TIER_AVX512, CH_TIER_AMX, CH_TIER_NEON = CH_TIER_AVX2 };

// ref: a file each, all entries.
void ch_kern_set_mat_ref(ch_kern *k);
void ch_kern_set_rows_ref(ch_kern *k);
void ch_kern_set_mixers_ref(ch_kern *k);
void ch_kern_set_scan_ref(ch_kern *k);
void ch_kern_set_gemm_ref(ch_kern *k);
void ch_kern_set_attn_ref(ch_kern *k);

extern const uint32_t ch_kern_rotate_signs[8]; // bit i % 32 of word i / 32: value i of a block changes its sign
float ch_kern_rotate_scale(size_t block);      // 1 / sqrt(block)
void ch_kern_set_chunk_ref(ch_kern *k);

// x86 and arm: entries up to `tier`, as far as the processor has what they need.
void ch_kern_set_x86(ch_kern *k, const ch_cpu *cpu, int tier);
void ch_kern_set_arm(ch_kern *k, const ch_cpu *cpu, int tier);

#endif
