// Which ARM entries stand above the reference. Plain C: runs on any ARMv8.
#include "kern/arm/arm.h"

void ch_kern_set_arm(ch_kern *k, const ch_cpu *cpu, int tier) {
    if (tier < CH_TIER_NEON || !cpu->neon_dotprod) return;
    k->name = "neon";
    ch_kern_set_act_avx2(k);
    ch_kern_set_rows_avx2(k);
    ch_kern_set_conv_avx2(k);
    ch_kern_set_delta_avx2(k);
    ch_kern_set_scan_avx2(k);
    ch_kern_set_attn_avx2(k);
    ch_kern_set_gemm_avx2(k);
    ch_kern_set_mat_neon(k);
}
