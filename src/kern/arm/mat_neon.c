// The NEON tier's matrix product: panels with 8-bit activations, everything else as in the AVX2 files.
#include "kern/arm/arm.h"

static int act_kind(const ch_type_info *t, size_t n_in) {
    return ch_kern_panel_spec(t, n_in) ? CH_ACT_Q8 : CH_ACT_F32;
}

static void matmul(const ch_mat *m, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_tok, float *y,
                   size_t ld_y, void *work) {
    const ch_panel_spec *s = ch_kern_panel_spec(m->type, m->n_in);
    const ch_mat_call c = {m, r0, r1, act, ld_act, n_tok, y, ld_y, work};
    if (s)
        ch_kern_matmul_panels(&c, s, ch_kern_panel_neon(s->type));
    else
        ch_kern_matmul_float_avx2(&c);
}

void ch_kern_set_mat_neon(ch_kern *k) {
    k->act_kind = act_kind;
    k->matmul = matmul;
}
