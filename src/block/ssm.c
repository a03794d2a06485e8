// State-space mixers: Mamba-1 and Mamba-2 with their projections.
#include "block/block.h"

// ---- Mamba-1 --------------------------------------------------------------------------------------------------------------
size_t ch_block_ssm1_state_bytes(const ch_ssm1 *b) {
    return ch_op_conv_state_bytes(b->n_channel, b->n_tap) + ch_op_ssm1_state_bytes(b->n_channel, b->d_state);
}

void ch_block_ssm1_place(ch_ssm1 *b, ch_layout *l) {
    b->slab_off = l->slab_bytes;
    l->slab_bytes += ch_block_ssm1_state_bytes(b);
}

void ch_block_ssm1(const ch_ssm1 *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n = st->n_row, nc = b->n_channel;
    float *in = ch_op_scratch(op, n, nc), *z = ch_op_scratch(op, n, nc), *x = ch_op_scratch(op, n, nc);
    float *low = ch_op_scratch(op, n, b->dt_low.n_out), *dt = ch_op_scratch(op, n, nc);
    float *B = ch_op_scratch(op, n, b->d_state), *C = ch_op_scratch(op, n, b->d_state);
    ch_op_matmul(op, (ch_op_mul[]){{&b->x, in}, {&b->z, z}}, 2, h, n);
    ch_op_conv(op, &(ch_op_conv_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = n, .n_channel = nc, .n_tap = b->n_tap, .silu = true, .x = in,
        .w = b->conv_w, .bias = b->conv_b, .slab_off = b->slab_off, .y = x});
    ch_op_matmul(op, (ch_op_mul[]){{&b->dt_low, low}, {&b->b, B}, {&b->c, C}}, 3, x, n);
    if (b->norms) {
        ch_op_rmsnorm(op, low, b->dt_norm, n, b->dt_low.n_out, b->eps, low);
        ch_op_rmsnorm(op, B, b->b_norm, n, b->d_state, b->eps, B);
        ch_op_rmsnorm(op, C, b->c_norm, n, b->d_state, b->eps, C);
    }
    ch_op_matmul(op, &(ch_op_mul){&b->dt, dt}, 1, low, n);
    float *raw = in, *o = x; // both have been read by then
    ch_op_ssm1(op, &(ch_op_ssm1_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = n, .n_channel = nc, .d_state = b->d_state, .x = x, .z = z, .dt = dt, .b = B,
        .c = C, .a = b->a, .skip = b->skip, .slab_off = b->slab_off + ch_op_conv_state_bytes(nc, b->n_tap), .y_raw = raw,
        .y = o});
    ch_step_trace(st, "ssm_core", layer, raw, nc);
    ch_step_trace(st, "ssm_gated", layer, o, nc);
    ch_op_matmul(op, &(ch_op_mul){&b->out, y}, 1, o, n);
    ch_op_scratch_reset(op, mark);
}

// ---- Mamba-2 --------------------------------------------------------------------------------------------------------------
size_t ch_block_ssm2_state_bytes(const ch_ssm2 *b) {
    size_t di = b->n_head * b->d_head, n_channel = b->dt_low.type ? di : di + 2 * b->n_group * b->d_state;
    return ch_op_conv_state_bytes(n_channel, b->n_tap) + ch_op_ssm2_state_bytes(b->n_head, b->d_head, b->d_state);
}

void ch_block_ssm2_place(ch_ssm2 *b, ch_layout *l) {
    b->slab_off = l->slab_bytes;
    l->slab_bytes += ch_block_ssm2_state_bytes(b);
}

// PLaMo-2: convolution of x, then steps, B and C from it through low-rank projections and norms. Fills the op's inputs;
// scratch stays taken.
static void low_rank_inputs(const ch_ssm2 *b, ch_step *st, const float *in, ch_op_ssm2_args *a) {
    ch_op *op = st->op;
    size_t n = st->n_row, di = b->n_head * b->d_head;
    float *x = ch_op_scratch(op, n, di), *low = ch_op_scratch(op, n, b->dt_low.n_out), *dt = ch_op_scratch(op, n, b->n_head);
    float *B = ch_op_scratch(op, n, b->d_state), *C = ch_op_scratch(op, n, b->d_state);
    ch_op_conv(op, &(ch_op_conv_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = n, .n_channel = di, .n_tap = b->n_tap, .silu = true, .x = in, .w = b->conv_w,
        .bias = b->conv_b, .slab_off = b->slab_off, .y = x});
    ch_op_matmul(op, (ch_op_mul[]){{&b->dt_low, low}, {&b->b, B}, {&b->c, C}}, 3, x, n);
    ch_op_rmsnorm(op, low, b->dt_norm, n, b->dt_low.n_out, b->eps, low);
    ch_op_rmsnorm(op, B, b->b_norm, n, b->d_state, b->eps, B);
    ch_op_rmsnorm(op, C, b->c_norm, n, b->d_state, b->eps, C);
    ch_op_matmul(op, &(ch_op_mul){&b->dt, dt}, 1, low, n);
    a->x = x, a->b = B, a->c = C, a->dt = dt;
    a->slab_off = b->slab_off + ch_op_conv_state_bytes(di, b->n_tap);
}

void ch_block_ssm2(const ch_ssm2 *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n = st->n_row, di = b->n_head * b->d_head;
    float *z = ch_op_scratch(op, n, di), *in = ch_op_scratch(op, n, b->xbc.n_out);
    float *raw = ch_op_scratch(op, n, di), *o = ch_op_scratch(op, n, di);
    ch_op_ssm2_args a = {
        .n_seg = st->n_seg, .seg = st->seg, .n_row = n, .n_head = b->n_head, .d_head = b->d_head, .n_group = b->n_group,
        .d_state = b->d_state, .n_tap = b->n_tap, .eps = b->eps, .z = z, .dt_bias = b->dt_bias, .a = b->a, .skip = b->skip,
        .norm = b->norm, .y_raw = raw, .y = o};
    if (b->dt_low.type) {
        ch_op_matmul(op, (ch_op_mul[]){{&b->z, z}, {&b->xbc, in}}, 2, h, n);
        low_rank_inputs(b, st, in, &a);
    } else {
        float *dt = ch_op_scratch(op, n, b->n_head);
        ch_op_matmul(op, (ch_op_mul[]){{&b->z, z}, {&b->xbc, in}, {&b->dt, dt}}, 3, h, n);
        a.xbc = in, a.dt = dt, a.conv_w = b->conv_w, a.conv_b = b->conv_b, a.slab_off = b->slab_off;
    }
    ch_op_ssm2(op, &a);
    ch_step_trace(st, "ssm_core", layer, raw, di);
    ch_step_trace(st, "ssm_gated", layer, o, di);
    ch_op_matmul(op, &(ch_op_mul){&b->out, y}, 1, o, n);
    ch_op_scratch_reset(op, mark);
}
