// AVX-512 causal convolution.
#include "kern/x86/lanes_avx512.h"
#include "kern/x86/conv_body.h"

void ch_kern_set_conv_avx512(ch_kern *k) { k->conv = conv; }
