#include "block/block.h"

void ch_block_ffn(const ch_ffn *b, ch_step *st, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n_ff = b->down.n_in;
    float *gate = ch_op_scratch(op, st->n_row, n_ff), *up = ch_op_scratch(op, st->n_row, n_ff);
    if (!b->gate.type) {
        ch_op_matmul(op, &(ch_op_mul){&b->up, gate}, 1, h, st->n_row);
        ch_op_relu2(op, st->n_row, n_ff, gate);
    } else {
        ch_op_matmul(op, (ch_op_mul[]){{&b->gate, gate}, {&b->up, up}}, 2, h, st->n_row);
        ch_op_swiglu(op, gate, up, st->n_row, n_ff, gate);
    }
    ch_op_matmul(op, &(ch_op_mul){&b->down, y}, 1, gate, st->n_row);
    ch_op_scratch_reset(op, mark);
}

void ch_block_moe(const ch_moe *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n_embd = b->latent_up.type ? b->latent_up.n_out : b->down.n_out;
    float *router = ch_op_scratch(op, st->n_row, b->router.n_out), *shared = NULL, *shared_gate = NULL;
    ch_op_mul mul[2] = {{&b->router, router}};
    size_t n_mul = 1;
    if (b->shared_gate.type) {
        shared_gate = ch_op_scratch(op, st->n_row, 1);
        mul[n_mul++] = (ch_op_mul){&b->shared_gate, shared_gate, 0};
    }
    ch_op_matmul(op, mul, n_mul, h, st->n_row);
    ch_step_trace(st, "moe_router", layer, router, b->router.n_out);
    if (b->shared.up.type) {
        shared = ch_op_scratch(op, st->n_row, n_embd);
        ch_block_ffn(&b->shared, st, h, shared);
    }
    bool latent = b->latent_up.type != NULL;
    const float *x = h;
    float *routed = y;
    if (latent) {
        float *low = ch_op_scratch(op, st->n_row, b->latent_down.n_out);
        routed = ch_op_scratch(op, st->n_row, b->latent_up.n_in);
        ch_op_matmul(op, &(ch_op_mul){&b->latent_down, low}, 1, h, st->n_row);
        x = low;
    }
    ch_op_moe(op, &(ch_op_moe_args){
        .n_row = st->n_row, .n_used = b->n_used, .gating = b->gating, .renormalise = b->renormalise, .scale = b->scale,
        .n_group = b->n_group, .n_group_used = b->n_group_used, .bias = b->bias, .gate = b->gate.type ? &b->gate : NULL,
        .up = b->up.type ? &b->up : NULL, .down = &b->down, .x = x, .router = router, .shared = latent ? NULL : shared,
        .shared_gate = shared_gate, .y = routed});
    if (latent) {
        ch_op_matmul(op, &(ch_op_mul){&b->latent_up, y}, 1, routed, st->n_row);
        if (shared) ch_op_add_rmsnorm(op, shared, NULL, st->n_row, n_embd, 0, y, NULL);
    }
    ch_op_scratch_reset(op, mark);
}
