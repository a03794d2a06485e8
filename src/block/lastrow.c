#include "block/part.h"

static ch_op_shift_args op_args(const ch_lastrow *b, const ch_step *st) {
    return (ch_op_shift_args){.n_seg = st->n_seg, .seg = st->seg, .n = b->n, .slab_off = b->slab_off, .journal_off = b->journal_off};
}

static void commit(const void *block, ch_step *st) {
    ch_op_shift_args a = op_args(block, st);
    ch_op_commit_shift(st->op, &a);
}

size_t ch_block_lastrow_state_bytes(const ch_lastrow *b) { return (b->n * sizeof(float) + 63) / 64 * 64; }

void ch_block_lastrow_place(ch_lastrow *b, ch_layout *l) {
    ch_block_place p = {ch_block_lastrow_state_bytes(b), b->n, commit, b};
    ch_block_place_state(l, &p, &b->slab_off, &b->journal_off, &b->rec);
}

void ch_block_lastrow_shift(const ch_lastrow *b, ch_step *st, const float *x, float *y) {
    ch_op_shift_args a = op_args(b, st);
    a.x = x, a.y = y;
    ch_op_shift_rows(st->op, &a);
}

void ch_block_lastrow_get(const ch_lastrow *b, ch_step *st, float *y) {
    ch_op_slab_rows(st->op, st->seg, st->n_seg, b->slab_off, b->n, y);
}
