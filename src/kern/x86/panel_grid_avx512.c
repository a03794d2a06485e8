// Panel kernels of the grid types, which are plain narrow types in a panel.
#include "kern/x86/tile_avx512.h"

static void iq3_s(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_I8, .sub = 32}, false, p, r);
}

static void iq3_xxs(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .table = true}, false, p, r);
}

static void iq2_xxs(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P3, .scale = CH_SC_I8, .sub = 32, .table = true}, false, p, r);
}

// IQ2_XS, IQ2_S
static void iq2_s(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P3, .scale = CH_SC_I8, .sub = 16, .table = true}, false, p, r);
}

static void iq1_s(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P2, .scale = CH_SC_I8, .sub = 32, .affine = true}, false, p, r);
}

static void iq1_m(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P3, .scale = CH_SC_I8, .sub = 16, .table = true}, false, p, r);
}

ch_panel_fn ch_kern_panel_grid_avx512(int type) {
    switch (type) {
    case CH_TYPE_IQ3_S: return iq3_s;
    case CH_TYPE_IQ3_XXS: return iq3_xxs;
    case CH_TYPE_IQ2_XXS: return iq2_xxs;
    case CH_TYPE_IQ2_XS:
    case CH_TYPE_IQ2_S: return iq2_s;
    case CH_TYPE_IQ1_S: return iq1_s;
    case CH_TYPE_IQ1_M: return iq1_m;
    default: return NULL;
    }
}
