// The tiers a machine can run.
#include "checkkern/checkkern.h"

#include <string.h>

#include "kern/x86/x86.h"

void checkkern_init(checkkern_tiers *t) {
#if defined(__aarch64__)
    static const char *const names[] = {"ref", "neon"};
#else
    static const char *const names[] = {"ref", "avx2", "avx512", "amx"};
#endif
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    t->n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ch_kern *k = &t->k[t->n];
        if (ch_kern_init(k, &cpu, names[i], NULL) || (t->n && k->name == t->k[t->n - 1].name)) continue;
        t->n++;
    }
#if defined(__x86_64__)
    if (!cpu.avx2_fma_f16c) return;
    if (!cpu.avx512 || !cpu.avx512_vnni) {
        t->k[t->n] = t->k[t->n - 1];
        t->k[t->n].name = "avx512 emulated";
        ch_kern_set_attn_emulated(&t->k[t->n]);
        ch_kern_set_gemm_emulated(&t->k[t->n]);
        ch_kern_set_mat_emulated(&t->k[t->n++]);
    }
    if (strcmp(t->k[t->n - 1].name, "amx") != 0) {
        t->k[t->n] = t->k[t->n - 1];
        t->k[t->n].name = "amx emulated";
        ch_kern_set_mat_emulated(&t->k[t->n]);
        ch_kern_set_gemm_amx_emulated(&t->k[t->n]);
        ch_kern_set_mat_amx_emulated(&t->k[t->n++]);
    }
#endif
}
