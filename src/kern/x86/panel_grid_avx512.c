// Panel kernels of the grid types, which are plain narrow types in a panel.
#include "kern/x86/tile_avx512.h"

PANEL_KERNEL(iq3_s, .planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .twice = true);
PANEL_KERNEL(iq3_xxs, .planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .table = true);
PANEL_KERNEL(iq2_xxs, .planes = CH_P3, .scale = CH_SC_I8, .sub = 32, .table = true);

// IQ2_XS, IQ2_S
PANEL_KERNEL(iq2_s, .planes = CH_P3, .scale = CH_SC_I8, .sub = 16, .table = true);
PANEL_KERNEL(iq1_s, .planes = CH_P2, .scale = CH_SC_I8, .sub = 32, .affine = true);
PANEL_KERNEL(iq1_m, .planes = CH_P3, .scale = CH_SC_I8, .sub = 16, .table = true);

const ch_panel_kernel *ch_kern_panel_grid_avx512(int type) {
    switch (type) {
    case CH_TYPE_IQ3_S: return &iq3_s;
    case CH_TYPE_IQ3_XXS: return &iq3_xxs;
    case CH_TYPE_IQ2_XXS: return &iq2_xxs;
    case CH_TYPE_IQ2_XS:
    case CH_TYPE_IQ2_S: return &iq2_s;
    case CH_TYPE_IQ1_S: return &iq1_s;
    case CH_TYPE_IQ1_M: return &iq1_m;
    default: return NULL;
    }
}
