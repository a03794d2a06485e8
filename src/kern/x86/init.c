// Which x86 entries stand above the reference. Plain C: runs on any x86-64.
#include "kern/x86/x86.h"

void ch_kern_set_x86(ch_kern *k, const ch_cpu *cpu, int tier) {
    if (tier < CH_TIER_AVX2 || !cpu->avx2_fma_f16c) return;
    k->name = "avx2";
    ch_kern_set_act_avx2(k);
    ch_kern_set_mat_avx2(k);
    ch_kern_set_rows_avx2(k);
    ch_kern_set_conv_avx2(k);
    ch_kern_set_delta_avx2(k);
    ch_kern_set_scan_avx2(k);
    ch_kern_set_attn_avx2(k);
    ch_kern_set_gemm_avx2(k);
    ch_kern_set_chunk_avx2(k);
    ch_kern_set_bf16_avx2(k);
    if (tier < CH_TIER_AVX512 || !cpu->avx512 || !cpu->avx512_vnni) return;
    k->name = "avx512";
    ch_kern_set_mat_avx512(k);
    ch_kern_set_rows_avx512(k);
    ch_kern_set_conv_avx512(k);
    ch_kern_set_delta_avx512(k);
    ch_kern_set_scan_avx512(k);
    ch_kern_set_gemm_avx512(k);
    ch_kern_set_chunk_avx512(k);
    ch_kern_set_attn_avx512(k);
    if (tier < CH_TIER_AMX || !cpu->amx_int8 || !ch_cpu_enable_amx()) return;
    k->name = "amx";
    ch_kern_set_mat_amx(k);
    if (cpu->amx_bf16) ch_kern_set_gemm_amx(k);
}
