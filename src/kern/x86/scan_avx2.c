// AVX2 softplus and state-space scans.
#include "kern/x86/lanes_avx2.h"
#include "kern/x86/scan_body.h"

void ch_kern_set_scan_avx2(ch_kern *k) { set_scan(k); }
