#include "block/part.h"

// Sizes, weights and places: all that a commit needs.
static ch_op_gdn_args op_args(const ch_gdn *b, const ch_step *st) {
    return (ch_op_gdn_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_head_k = b->n_head_k, .n_head_v = b->n_head_v,
        .d_k = b->d_k, .d_v = b->d_v, .n_tap = b->n_tap, .tiled = b->tiled, .interleaved = !b->alpha.type, .eps = b->eps,
        .conv_w = b->conv_w, .a = b->a, .dt_bias = b->dt_bias, .norm = b->norm, .slab_off = b->slab_off,
        .journal_off = b->journal_off, .form = b->form};
}

static void commit(const void *block, ch_step *st) {
    ch_op_gdn_args a = op_args(block, st);
    ch_op_commit_gdn(st->op, &a);
}

void ch_block_gdn_place(ch_gdn *b, ch_layout *l) {
    b->form = l->form;
    ch_block_place p = {ch_op_gdn_state_bytes(b->n_head_k, b->n_head_v, b->d_k, b->d_v, b->n_tap, l->form.bf16),
                        ch_op_gdn_journal_row(b->n_head_k, b->n_head_v, b->d_k, b->d_v, false), commit, b};
    ch_block_place_state(l, &p, &b->slab_off, &b->journal_off, &b->rec);
}

void ch_block_gdn(const ch_gdn *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), vd = b->n_head_v * b->d_v;
    bool split = b->alpha.type != NULL;
    float *qkv = ch_op_scratch(op, st->n_row, b->qkv.n_out), *z = ch_op_scratch(op, st->n_row, vd);
    float *beta = ch_op_scratch(op, st->n_row, b->beta.n_out);
    float *alpha = split ? ch_op_scratch(op, st->n_row, b->alpha.n_out) : NULL;
    float *o_raw = ch_op_scratch(op, st->n_row, vd), *o = ch_op_scratch(op, st->n_row, vd);
    ch_op_matmul(op, (ch_op_mul[]){{&b->qkv, qkv}, {&b->z, z}, {&b->beta, beta}, {&b->alpha, alpha}}, split ? 4 : 3, h,
                 st->n_row);
    ch_op_gdn_args a = op_args(b, st);
    a.qkv = qkv, a.z = z, a.beta = beta, a.alpha = alpha, a.o_raw = o_raw, a.y = o;
    ch_op_gdn(op, &a);
    ch_step_trace(st, "gdn_core", layer, o_raw, vd);
    ch_step_trace(st, "gdn_gated", layer, o, vd);
    ch_op_matmul(op, &(ch_op_mul){&b->out, y}, 1, o, st->n_row);
    ch_op_scratch_reset(op, mark);
}
