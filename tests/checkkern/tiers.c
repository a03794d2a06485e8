// The tiers a machine can run.
#include "checkkern/checkkern.h"

void checkkern_init(checkkern_tiers *t) {
    static const char *const names[] = {"ref", "avx2", "avx512"};
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    t->n = 0;
    for (int i = 0; i < 3; i++) {
        ch_kern *k = &t->k[t->n];
        if (ch_kern_init(k, &cpu, names[i], NULL) || (t->n && k->name == t->k[t->n - 1].name)) continue;
        t->n++;
    }
}
