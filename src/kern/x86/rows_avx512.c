// AVX-512 row kernels.
#include "kern/x86/lanes_avx512.h"
#include "kern/x86/rows_body.h"

void ch_kern_set_rows_avx512(ch_kern *k) { set_rows(k); }
