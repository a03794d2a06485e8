// The AVX2 tier's matrix product: the form of the activations and the kernel, per type.
#include "kern/x86/tile_avx2.h"

static int act_kind(const ch_type_info *t, size_t n_in) {
    const ch_panel_spec *s = ch_kern_panel_spec(t, n_in);
    return !s ? CH_ACT_F32 : s->max_code > 127 ? CH_ACT_Q16 : CH_ACT_Q8;
}

static ch_panel_fn panel_kernel(int type) {
    ch_panel_fn fn = ch_kern_panel_simple_avx2(type);
    if (!fn) fn = ch_kern_panel_k_avx2(type);
    return fn ? fn : ch_kern_panel_grid_avx2(type);
}

static void matmul(const ch_mat *m, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_tok, float *y,
                   size_t ld_y, void *work) {
    const ch_panel_spec *s = ch_kern_panel_spec(m->type, m->n_in);
    const ch_mat_call c = {m, r0, r1, act, ld_act, n_tok, y, ld_y, work};
    if (s)
        ch_kern_matmul_panels(&c, s, panel_kernel(s->type));
    else
        ch_kern_matmul_float_avx2(&c);
}

void ch_kern_set_mat_avx2(ch_kern *k) {
    k->act_kind = act_kind;
    k->matmul = matmul;
}
