// Panel kernels of the K-quants and IQ4_XS.
#include "kern/x86/tile_avx512.h"

PANEL_KERNEL(q2_k, .planes = CH_P2, .scale = CH_SC_I8, .sub = 16, .affine = true);
PANEL_KERNEL(q3_k, .planes = CH_P3, .scale = CH_SC_I8, .sub = 16);
PANEL_KERNEL(q4_k, .planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .affine = true);
PANEL_KERNEL(q5_k, .planes = CH_P5, .scale = CH_SC_I8, .sub = 32, .affine = true);
PANEL_KERNEL(q6_k, .planes = CH_P6, .scale = CH_SC_I8, .sub = 16);
PANEL_KERNEL(iq4_xs, .planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .table = true);

const ch_panel_kernel *ch_kern_panel_k_avx512(int type) {
    switch (type) {
    case CH_TYPE_Q2_K: return &q2_k;
    case CH_TYPE_Q3_K: return &q3_k;
    case CH_TYPE_Q4_K: return &q4_k;
    case CH_TYPE_Q5_K: return &q5_k;
    case CH_TYPE_Q6_K: return &q6_k;
    case CH_TYPE_IQ4_XS: return &iq4_xs;
    default: return NULL;
    }
}
