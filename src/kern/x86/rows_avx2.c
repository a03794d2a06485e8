// AVX2 row kernels.
#include "kern/x86/lanes_avx2.h"
#include "kern/x86/rows_body.h"

void ch_kern_set_rows_avx2(ch_kern *k) { set_rows(k); }
