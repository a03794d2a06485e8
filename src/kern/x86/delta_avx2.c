// AVX2 gated delta rule.
#include "kern/x86/lanes_avx2.h"
#include "kern/x86/delta_body.h"

void ch_kern_set_delta_avx2(ch_kern *k) { set_delta(k); }
