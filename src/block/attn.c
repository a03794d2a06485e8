#include "block/part.h"

// What is stored exactly gains nothing from a rotation.
size_t ch_block_kv_rotation(const ch_layout *l, const ch_type_info *t, size_t n) {
    return l->rotate && t->n_block > 1 ? ch_quant_rotation(n) : 0;
}

size_t ch_block_attn_place(ch_attn *b, ch_layout *l) {
    b->k_type = ch_quant_cache_fit(l->k_type, b->d_head), b->v_type = ch_quant_cache_fit(l->v_type, b->d_head);
    if (!b->k_type || !b->v_type) return 0;
    size_t bytes = ch_op_attn_kv_bytes(b->n_head_kv, b->d_head, b->k_type, b->v_type);
    b->k_rot = ch_block_kv_rotation(l, b->k_type, b->d_head), b->v_rot = ch_block_kv_rotation(l, b->v_type, b->d_head);
    b->kv_off = l->kv_token_bytes;
    l->kv_token_bytes += bytes;
    return bytes;
}

void ch_block_attn(const ch_attn *b, ch_step *st, int layer, const float *rope, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n_q = b->n_head * b->d_head, n_kv = b->n_head_kv * b->d_head;
    float *q = ch_op_scratch(op, st->n_row, b->q.n_out);
    float *k = ch_op_scratch(op, st->n_row, n_kv), *v = ch_op_scratch(op, st->n_row, n_kv);
    float *o = ch_op_scratch(op, st->n_row, n_q);
    ch_op_matmul(op, (ch_op_mul[]){{&b->q, q}, {&b->k, k}, {&b->v, v}}, 3, h, st->n_row);
    ch_op_attn(op, &(ch_op_attn_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_head = b->n_head, .n_head_kv = b->n_head_kv,
        .d_head = b->d_head, .n_rot = b->n_rot, .gated = b->gated, .neox = b->neox, .eps = b->eps, .scale = b->scale, .q = q,
        .k = k, .v = v, .q_norm = b->q_norm, .k_norm = b->k_norm, .head_norms = b->head_norms, .rope = rope,
        .k_type = b->k_type, .v_type = b->v_type, .k_rot = b->k_rot, .v_rot = b->v_rot, .page_off = b->kv_off * ch_op_page_tokens(op), .y = o});
    ch_step_trace(st, "attn_core", layer, o, n_q);
    ch_op_matmul(op, &(ch_op_mul){&b->o, y}, 1, o, st->n_row);
    ch_op_scratch_reset(op, mark);
}

void ch_block_attn_append(const ch_attn *b, ch_step *st, const float *rope, const float *h) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n_kv = b->n_head_kv * b->d_head;
    float *k = ch_op_scratch(op, st->n_row, n_kv), *v = ch_op_scratch(op, st->n_row, n_kv);
    ch_op_matmul(op, (ch_op_mul[]){{&b->k, k}, {&b->v, v}}, 2, h, st->n_row);
    ch_op_attn(op, &(ch_op_attn_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_head = b->n_head, .n_head_kv = b->n_head_kv,
        .d_head = b->d_head, .n_rot = b->n_rot, .neox = b->neox, .eps = b->eps, .k = k, .v = v, .k_norm = b->k_norm, .rope = rope,
        .k_type = b->k_type, .v_type = b->v_type, .k_rot = b->k_rot, .v_rot = b->v_rot, .page_off = b->kv_off * ch_op_page_tokens(op)});
    ch_op_scratch_reset(op, mark);
}
