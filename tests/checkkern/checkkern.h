// The tiers under test, and the benchmark of the kernel test program.
#ifndef CHECKKERN_H
#define CHECKKERN_H

#include "kern/kern.h"

typedef struct checkkern_tiers {
    ch_kern k[5]; // ref first, then what this machine has, then AVX-512 and AMX in emulation if it has not
    int n;
} checkkern_tiers;

void checkkern_init(checkkern_tiers *t);

// Times matrix products of the named types (none: all), one thread, and prints a table. The first name may be a tier.
int checkkern_bench(int n_types, char **types);

#endif
