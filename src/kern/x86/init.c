// Which x86 entries stand above the reference. Plain C: runs on any x86-64.
#include "kern/tier.h"

void ch_kern_set_x86(ch_kern *k, const ch_cpu *cpu, int tier) {
    (void)k, (void)cpu, (void)tier;
}
