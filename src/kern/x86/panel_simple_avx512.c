// Panel kernels of the 32-value types, the four-bit float types and the ternary and one-bit types.
#include "kern/x86/tile_avx512.h"

PANEL_KERNEL(q4_0, .planes = CH_P4, .scale = CH_SC_F16, .sub = 32);
PANEL_KERNEL(q4_1, .planes = CH_P4, .scale = CH_SC_F16, .sub = 32, .affine = true);
PANEL_KERNEL(q5_0, .planes = CH_P5, .scale = CH_SC_F16, .sub = 32);
PANEL_KERNEL(q5_1, .planes = CH_P5, .scale = CH_SC_F16, .sub = 32, .affine = true);
PANEL_KERNEL(q8_0, .planes = CH_P8, .scale = CH_SC_F16, .sub = 32);
PANEL_KERNEL(iq4_nl, .planes = CH_P4, .scale = CH_SC_F16, .sub = 32, .table = true);
PANEL_KERNEL(mxfp4, .planes = CH_P4, .scale = CH_SC_BF16, .sub = 32, .table = true);
PANEL_KERNEL(nvfp4, .planes = CH_P4, .scale = CH_SC_F16, .sub = 16, .table = true);

// TQ1_0, TQ2_0, Q1_0, Q2_0
PANEL_KERNEL(ternary, .planes = CH_P2, .scale = CH_SC_F16, .sub = 32);

const ch_panel_kernel *ch_kern_panel_simple_avx512(int type) {
    switch (type) {
    case CH_TYPE_Q4_0: return &q4_0;
    case CH_TYPE_Q4_1: return &q4_1;
    case CH_TYPE_Q5_0: return &q5_0;
    case CH_TYPE_Q5_1: return &q5_1;
    case CH_TYPE_Q8_0: return &q8_0;
    case CH_TYPE_IQ4_NL: return &iq4_nl;
    case CH_TYPE_MXFP4: return &mxfp4;
    case CH_TYPE_NVFP4: return &nvfp4;
    case CH_TYPE_TQ1_0:
    case CH_TYPE_TQ2_0:
    case CH_TYPE_Q1_0:
    case CH_TYPE_Q2_0: return &ternary;
    default: return NULL;
    }
}
