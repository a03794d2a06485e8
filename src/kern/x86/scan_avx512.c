// AVX-512 softplus and state-space scans.
#include "kern/x86/lanes_avx512.h"
#include "kern/x86/scan_body.h"

void ch_kern_set_scan_avx512(ch_kern *k) { set_scan(k); }
