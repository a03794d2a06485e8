// kern/arm, private: the NEON tier. Its matrix product uses the dot-product instructions (ARMv8.2 and later); packing, rows and
// mixers are the AVX2 files, compiled through SIMDe (simde/immintrin.h), which makes a 256-bit vector out of two of NEON's.
#ifndef CH_KERN_ARM_ARM_H
#define CH_KERN_ARM_ARM_H

#include "kern/tier.h"
#include "kern/x86/panel.h"
#include "kern/x86/x86.h"

void ch_kern_set_mat_neon(ch_kern *k);
ch_panel_fn ch_kern_panel_neon(int type); // NULL: no panel of that type

#endif
