// arch: one file per model family: hyper-parameters, strict binding, and the forward pass as a loop over layers that a
// reader can follow. The maths is in the cited sections of the model papers and of the GGUF conversions.
#ifndef CH_ARCH_H
#define CH_ARCH_H

#include "model/model.h"

#define CH_ARCH_ROW(symbol) extern const ch_arch symbol;
#include "arch/list.h"
#undef CH_ARCH_ROW

#endif
