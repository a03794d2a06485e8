// The AVX-512 tier's matrix product. Packing, activations and everything else come from the AVX2 tier.
#include "kern/x86/many.h"
#include "kern/x86/tile_avx512.h"

const ch_panel_kernel *ch_kern_panel_avx512(int type) {
    const ch_panel_kernel *k = ch_kern_panel_simple_avx512(type);
    if (!k) k = ch_kern_panel_k_avx512(type);
    return k ? k : ch_kern_panel_grid_avx512(type);
}

static int act_kind(const ch_type_info *t, size_t n_in) {
    return ch_kern_panel_spec(t, n_in) ? CH_ACT_Q8 : CH_ACT_F32;
}

static size_t work_bytes(const ch_type_info *t, size_t n_in) {
    const size_t few = ch_kern_panels_work_bytes(t, n_in);
    const size_t many = ch_kern_panel_spec(t, n_in) ? ch_kern_many_work_bytes(n_in) : 0;
    return few > many ? few : many;
}

void ch_kern_matmul_avx512(const ch_mat_call *c) {
    const ch_panel_spec *s = ch_kern_panel_spec(c->m->type, c->m->n_in);
    const ch_many_kernel *many = ch_kern_many_avx512();
    if (!s)
        ch_kern_matmul_float_avx512(c);
    else if (c->m->packed && c->n_tok >= CH_GROUP_TOKENS)
        ch_kern_matmul_many(c, s, ch_kern_panel_avx512(s->type), many);
    else
        ch_kern_matmul_panels(c, s, ch_kern_panel_avx512(s->type)->few);
}

static void matmul(const ch_mat *m, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_tok, float *y,
                   size_t ld_y, void *work) {
    const ch_mat_call c = {m, r0, r1, act, ld_act, n_tok, y, ld_y, work};
    ch_kern_matmul_avx512(&c);
}

void ch_kern_set_mat_avx512(ch_kern *k) {
    k->act_kind = act_kind;
    k->matmul = matmul;
    k->mat_work_bytes = work_bytes;
}
