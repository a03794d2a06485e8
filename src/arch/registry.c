#include "arch/arch.h"

const ch_arch *ch_arch_at(size_t i) {
    static const ch_arch *const table[] = {
#define CH_ARCH_ROW(symbol) &symbol,
#include "arch/list.h"
#undef CH_ARCH_ROW
    };
    return i < sizeof table / sizeof *table ? table[i] : NULL;
}
