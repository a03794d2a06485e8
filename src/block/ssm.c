// State-space mixers: Mamba-1 and Mamba-2 with their projections.
#include "block/part.h"

// ---- Mamba-1 --------------------------------------------------------------------------------------------------------------
size_t ch_block_ssm1_state_bytes(const ch_ssm1 *b) {
    return ch_op_conv_state_bytes(b->n_channel, b->n_tap) + ch_op_ssm1_state_bytes(b->n_channel, b->d_state, b->form.bf16);
}

// Sizes, weights and places: all that a commit needs.
static ch_op_conv_args ssm1_conv_args(const ch_ssm1 *b, const ch_step *st) {
    return (ch_op_conv_args){.n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_channel = b->n_channel, .n_tap = b->n_tap,
                             .silu = true, .w = b->conv_w, .bias = b->conv_b, .slab_off = b->slab_off,
                             .journal_off = b->journal_off};
}

static ch_op_ssm1_args ssm1_args(const ch_ssm1 *b, const ch_step *st) {
    return (ch_op_ssm1_args){.n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_channel = b->n_channel, .d_state = b->d_state,
                             .a = b->a, .skip = b->skip, .slab_off = b->slab_off + ch_op_conv_state_bytes(b->n_channel, b->n_tap),
                             .journal_off = b->journal_off + b->n_channel, .form = b->form};
}

static void ssm1_commit(const void *block, ch_step *st) {
    ch_op_conv_args c = ssm1_conv_args(block, st);
    ch_op_ssm1_args a = ssm1_args(block, st);
    ch_op_commit_conv(st->op, &c);
    ch_op_commit_ssm1(st->op, &a);
}

void ch_block_ssm1_place(ch_ssm1 *b, ch_layout *l) {
    b->form = l->form;
    ch_block_place p = {ch_block_ssm1_state_bytes(b), b->n_channel + ch_op_ssm1_journal_row(b->n_channel, b->d_state), ssm1_commit, b};
    ch_block_place_state(l, &p, &b->slab_off, &b->journal_off, &b->rec);
}

void ch_block_ssm1(const ch_ssm1 *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n = st->n_row, nc = b->n_channel;
    float *in = ch_op_scratch(op, n, nc), *z = ch_op_scratch(op, n, nc), *x = ch_op_scratch(op, n, nc);
    float *low = ch_op_scratch(op, n, b->dt_low.n_out), *dt = ch_op_scratch(op, n, nc);
    float *B = ch_op_scratch(op, n, b->d_state), *C = ch_op_scratch(op, n, b->d_state);
    ch_op_matmul(op, (ch_op_mul[]){{&b->x, in}, {&b->z, z}}, 2, h, n);
    ch_op_conv_args c = ssm1_conv_args(b, st);
    c.x = in, c.y = x;
    ch_op_conv(op, &c);
    ch_op_matmul(op, (ch_op_mul[]){{&b->dt_low, low}, {&b->b, B}, {&b->c, C}}, 3, x, n);
    if (b->norms) {
        ch_op_rmsnorm(op, low, b->dt_norm, n, b->dt_low.n_out, b->eps, low);
        ch_op_rmsnorm(op, B, b->b_norm, n, b->d_state, b->eps, B);
        ch_op_rmsnorm(op, C, b->c_norm, n, b->d_state, b->eps, C);
    }
    ch_op_matmul(op, &(ch_op_mul){&b->dt, dt}, 1, low, n);
    float *raw = in, *o = x; // both have been read by then
    ch_op_ssm1_args a = ssm1_args(b, st);
    a.x = x, a.z = z, a.dt = dt, a.b = B, a.c = C, a.y_raw = raw, a.y = o;
    ch_op_ssm1(op, &a);
    ch_step_trace(st, "ssm_core", layer, raw, nc);
    ch_step_trace(st, "ssm_gated", layer, o, nc);
    ch_op_matmul(op, &(ch_op_mul){&b->out, y}, 1, o, n);
    ch_op_scratch_reset(op, mark);
}

// ---- Mamba-2 --------------------------------------------------------------------------------------------------------------
// PLaMo-2: steps, B and C come from x, so the convolution is a call of its own.
static bool low_rank(const ch_ssm2 *b) { return b->dt_low.type != NULL; }
static size_t conv_channels(const ch_ssm2 *b) {
    return b->n_head * b->d_head + (low_rank(b) ? 0 : 2 * b->n_group * b->d_state);
}

size_t ch_block_ssm2_state_bytes(const ch_ssm2 *b) {
    return ch_op_conv_state_bytes(conv_channels(b), b->n_tap) + ch_op_ssm2_state_bytes(b->n_head, b->d_head, b->d_state, b->form.bf16);
}

// Sizes, weights and places: all that a commit needs.
static ch_op_conv_args ssm2_conv_args(const ch_ssm2 *b, const ch_step *st) {
    return (ch_op_conv_args){.n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_channel = conv_channels(b), .n_tap = b->n_tap,
                             .silu = true, .w = b->conv_w, .bias = b->conv_b, .slab_off = b->slab_off,
                             .journal_off = b->journal_off};
}

static ch_op_ssm2_args ssm2_args(const ch_ssm2 *b, const ch_step *st) {
    ch_op_ssm2_args a = {
        .n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_head = b->n_head, .d_head = b->d_head, .n_group = b->n_group,
        .d_state = b->d_state, .n_tap = b->n_tap, .eps = b->eps, .dt_bias = b->dt_bias, .a = b->a, .skip = b->skip, .norm = b->norm,
        .slab_off = b->slab_off, .journal_off = b->journal_off, .form = b->form};
    if (low_rank(b)) {
        a.slab_off += ch_op_conv_state_bytes(conv_channels(b), b->n_tap), a.journal_off += conv_channels(b);
    } else {
        a.conv_w = b->conv_w, a.conv_b = b->conv_b;
    }
    return a;
}

static void ssm2_commit(const void *block, ch_step *st) {
    ch_op_conv_args c = ssm2_conv_args(block, st);
    ch_op_ssm2_args a = ssm2_args(block, st);
    if (low_rank(block)) ch_op_commit_conv(st->op, &c);
    ch_op_commit_ssm2(st->op, &a);
}

void ch_block_ssm2_place(ch_ssm2 *b, ch_layout *l) {
    b->form = l->form;
    ch_block_place p = {ch_block_ssm2_state_bytes(b), low_rank(b) ? conv_channels(b) : 0, ssm2_commit, b};
    p.journal_row += ch_op_ssm2_journal_row(b->n_head, b->d_head, b->n_group, b->d_state, !low_rank(b));
    ch_block_place_state(l, &p, &b->slab_off, &b->journal_off, &b->rec);
}

// PLaMo-2: convolution of x, then steps, B and C from it through low-rank projections and norms. Fills the op's inputs;
// scratch stays taken.
static void low_rank_inputs(const ch_ssm2 *b, ch_step *st, const float *in, ch_op_ssm2_args *a) {
    ch_op *op = st->op;
    size_t n = st->n_row, di = b->n_head * b->d_head;
    float *x = ch_op_scratch(op, n, di), *low = ch_op_scratch(op, n, b->dt_low.n_out), *dt = ch_op_scratch(op, n, b->n_head);
    float *B = ch_op_scratch(op, n, b->d_state), *C = ch_op_scratch(op, n, b->d_state);
    ch_op_conv_args c = ssm2_conv_args(b, st);
    c.x = in, c.y = x;
    ch_op_conv(op, &c);
    ch_op_matmul(op, (ch_op_mul[]){{&b->dt_low, low}, {&b->b, B}, {&b->c, C}}, 3, x, n);
    ch_op_rmsnorm(op, low, b->dt_norm, n, b->dt_low.n_out, b->eps, low);
    ch_op_rmsnorm(op, B, b->b_norm, n, b->d_state, b->eps, B);
    ch_op_rmsnorm(op, C, b->c_norm, n, b->d_state, b->eps, C);
    ch_op_matmul(op, &(ch_op_mul){&b->dt, dt}, 1, low, n);
    a->x = x, a->b = B, a->c = C, a->dt = dt;
}

void ch_block_ssm2(const ch_ssm2 *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n = st->n_row, di = b->n_head * b->d_head;
    float *z = ch_op_scratch(op, n, di), *in = ch_op_scratch(op, n, b->xbc.n_out);
    float *raw = ch_op_scratch(op, n, di), *o = ch_op_scratch(op, n, di);
    ch_op_ssm2_args a = ssm2_args(b, st);
    a.z = z, a.y_raw = raw, a.y = o;
    if (low_rank(b)) {
        ch_op_matmul(op, (ch_op_mul[]){{&b->z, z}, {&b->xbc, in}}, 2, h, n);
        low_rank_inputs(b, st, in, &a);
    } else {
        float *dt = ch_op_scratch(op, n, b->n_head);
        ch_op_matmul(op, (ch_op_mul[]){{&b->z, z}, {&b->xbc, in}, {&b->dt, dt}}, 3, h, n);
        a.xbc = in, a.dt = dt;
    }
    ch_op_ssm2(op, &a);
    ch_step_trace(st, "ssm_core", layer, raw, di);
    ch_step_trace(st, "ssm_gated", layer, o, di);
    ch_op_matmul(op, &(ch_op_mul){&b->out, y}, 1, o, n);
    ch_op_scratch_reset(op, mark);
}
