// Trace, rotation table and head.
#include <math.h>
#include <string.h>

#include "block/block.h"

void ch_step_trace(const ch_step *st, const char *name, int layer, const float *x, size_t n_col) {
    if (st->trace && !ch_op_is_dry(st->op)) st->trace(st->trace_user, name, layer, x, st->n_row, n_col);
}

const float *ch_block_rope_table(const ch_rope *r, ch_step *st) {
    if (!r->n_rot) return NULL;
    size_t half = r->n_rot / 2;
    float *t = ch_op_scratch(st->op, st->n_row, r->n_rot);
    if (ch_op_is_dry(st->op)) return t;
    for (size_t s = 0; s < st->n_seg; s++)
        for (size_t i = 0; i < st->seg[s].n_row; i++) {
            float *row = t + (st->seg[s].row0 + i) * r->n_rot;
            double pos = (double)(st->seg[s].pos0 + i);
            for (size_t p = 0; p < half; p++) {
                double angle = pos * r->freq[p];
                row[2 * p] = (float)cos(angle) * r->mscale, row[2 * p + 1] = (float)sin(angle) * r->mscale;
            }
        }
    return t;
}

void ch_block_commit(const ch_layout *l, ch_step *st) {
    for (const ch_recurrent *r = l->recurrent; r; r = r->next) r->commit(r->block, st);
}

void ch_block_head(const ch_weight *w, ch_step *st, const float *h, float *logits) {
    if (!st->n_out) return;
    size_t mark = ch_op_scratch_mark(st->op);
    float *rows = ch_op_scratch(st->op, st->n_out, w->n_in);
    ch_op_pick_rows(st->op, h, st->out_row, st->n_out, w->n_in, rows);
    if (st->hidden && !ch_op_is_dry(st->op)) memcpy(st->hidden, rows, st->n_out * w->n_in * sizeof *rows);
    if (logits || ch_op_is_dry(st->op)) ch_op_matmul(st->op, &(ch_op_mul){w, logits}, 1, rows, st->n_out);
    ch_op_scratch_reset(st->op, mark);
}
