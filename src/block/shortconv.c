#include "block/part.h"

// Sizes, weights and places: all that a commit needs.
static ch_op_conv_args op_args(const ch_shortconv *b, const ch_step *st) {
    return (ch_op_conv_args){.n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_channel = b->n_channel, .n_tap = b->n_tap,
                             .w = b->conv_w, .slab_off = b->slab_off, .journal_off = b->journal_off};
}

static void commit(const void *block, ch_step *st) {
    ch_op_conv_args a = op_args(block, st);
    ch_op_commit_conv(st->op, &a);
}

void ch_block_shortconv_place(ch_shortconv *b, ch_layout *l) {
    ch_block_place p = {ch_op_conv_state_bytes(b->n_channel, b->n_tap), b->n_channel, commit, b};
    ch_block_place_state(l, &p, &b->slab_off, &b->journal_off, &b->rec);
}

void ch_block_shortconv(const ch_shortconv *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n = b->n_channel;
    float *bb = ch_op_scratch(op, st->n_row, n), *c = ch_op_scratch(op, st->n_row, n), *u = ch_op_scratch(op, st->n_row, n);
    ch_op_matmul(op, (ch_op_mul[]){{&b->b, bb}, {&b->c, c}, {&b->u, u}}, 3, h, st->n_row);
    ch_op_multiply(op, bb, st->n_row, n, u); // the window remembers b * u
    ch_op_conv_args a = op_args(b, st);
    a.x = u, a.y = bb;
    ch_op_conv(op, &a);
    ch_step_trace(st, "shortconv", layer, bb, n);
    ch_op_multiply(op, c, st->n_row, n, bb);
    ch_op_matmul(op, &(ch_op_mul){&b->out, y}, 1, bb, st->n_row);
    ch_op_scratch_reset(op, mark);
}
