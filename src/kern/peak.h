// Private to kern: measuring loops by instruction set.
#ifndef CH_KERN_PEAK_H
#define CH_KERN_PEAK_H

#include "kern/kern.h"

void ch_kern_peak_set_avx2(ch_kern_peak *k);
void ch_kern_peak_set_avx512(ch_kern_peak *k);
void ch_kern_peak_set_amx(ch_kern_peak *k);

#endif
