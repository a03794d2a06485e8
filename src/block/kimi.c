#include "block/part.h"

// Sizes, weights and places: all that a commit needs.
static ch_op_gdn_args op_args(const ch_kda *b, const ch_step *st) {
    return (ch_op_gdn_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_head_k = b->n_head, .n_head_v = b->n_head, .d_k = b->d_head,
        .d_v = b->d_head, .n_tap = b->n_tap, .tiled = true, .kda = true, .eps = b->eps, .conv_w = b->conv_w, .a = b->a,
        .dt_bias = b->dt_bias, .norm = b->norm, .slab_off = b->slab_off, .journal_off = b->journal_off, .form = b->form};
}

static void commit(const void *block, ch_step *st) {
    ch_op_gdn_args a = op_args(block, st);
    ch_op_commit_gdn(st->op, &a);
}

void ch_block_kda_place(ch_kda *b, ch_layout *l) {
    b->form = l->form;
    ch_block_place p = {ch_op_gdn_state_bytes(b->n_head, b->n_head, b->d_head, b->d_head, b->n_tap, l->form.bf16),
                        ch_op_gdn_journal_row(b->n_head, b->n_head, b->d_head, b->d_head, true), commit, b};
    ch_block_place_state(l, &p, &b->slab_off, &b->journal_off, &b->rec);
}

void ch_block_kda(const ch_kda *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), n = b->n_head * b->d_head;
    float *qkv = ch_op_scratch(op, st->n_row, 3 * n), *f_low = ch_op_scratch(op, st->n_row, b->f_a.n_out);
    float *g_low = ch_op_scratch(op, st->n_row, b->g_a.n_out), *beta = ch_op_scratch(op, st->n_row, b->n_head);
    float *f = ch_op_scratch(op, st->n_row, n), *g = ch_op_scratch(op, st->n_row, n);
    float *o_raw = ch_op_scratch(op, st->n_row, n), *o = ch_op_scratch(op, st->n_row, n);
    ch_op_matmul(op, (ch_op_mul[]){{&b->q, qkv, 3 * n}, {&b->k, qkv + n, 3 * n}, {&b->v, qkv + 2 * n, 3 * n}, {&b->f_a, f_low, 0},
                                   {&b->g_a, g_low}, {&b->beta, beta}}, 6, h, st->n_row);
    ch_op_matmul(op, &(ch_op_mul){&b->f_b, f}, 1, f_low, st->n_row);
    ch_op_matmul(op, &(ch_op_mul){&b->g_b, g}, 1, g_low, st->n_row);
    ch_op_gdn_args a = op_args(b, st);
    a.qkv = qkv, a.z = g, a.beta = beta, a.alpha = f, a.o_raw = o_raw, a.y = o;
    ch_op_gdn(op, &a);
    ch_step_trace(st, "kda_core", layer, o_raw, n);
    ch_op_matmul(op, &(ch_op_mul){&b->out, y}, 1, o, st->n_row);
    ch_op_scratch_reset(op, mark);
}

size_t ch_block_mla_place(ch_mla *b, ch_layout *l) {
    // The first d_latent values of a row are a value: blocks must end there too.
    size_t unit = b->d_latent, rest = b->d_pe;
    while (rest) {
        size_t r = unit % rest;
        unit = rest, rest = r;
    }
    b->type = ch_quant_cache_fit(l->k_type, unit);
    if (!b->type) return 0;
    size_t bytes = ch_op_mla_kv_bytes(b->d_latent, b->d_pe, b->type);
    b->rot = ch_block_kv_rotation(l, b->type, unit);
    b->kv_off = l->kv_token_bytes;
    l->kv_token_bytes += bytes;
    return bytes;
}

void ch_block_mla(const ch_mla *b, ch_step *st, int layer, const float *h, float *y) {
    ch_op *op = st->op;
    size_t mark = ch_op_scratch_mark(op), d_q = b->d_nope + b->d_pe, d = b->d_latent + b->d_pe;
    float *q = ch_op_scratch(op, st->n_row, b->n_head * d_q), *kv = ch_op_scratch(op, st->n_row, d);
    float *absorbed = ch_op_scratch(op, st->n_row, b->n_head * d), *ctx = ch_op_scratch(op, st->n_row, b->n_head * b->d_latent);
    float *o = ch_op_scratch(op, st->n_row, b->n_head * b->d_v);
    ch_op_matmul(op, (ch_op_mul[]){{&b->q, q}, {&b->kv, kv}}, 2, h, st->n_row);
    ch_op_matmul_heads(op, &(ch_op_heads){&b->k_b, q, b->n_head * d_q, d_q, absorbed, b->n_head * d, d}, st->n_row);
    ch_op_copy_heads(op, q + b->d_nope, d_q, st->n_row * b->n_head, b->d_pe, d, absorbed + b->d_latent);
    ch_op_mla(op, &(ch_op_mla_args){
        .n_seg = st->n_seg, .seg = st->seg, .n_row = st->n_row, .n_head = b->n_head, .d_latent = b->d_latent, .d_pe = b->d_pe,
        .eps = b->eps, .scale = b->scale, .q = absorbed, .kv = kv, .norm = b->norm,
        .type = b->type, .rot = b->rot, .page_off = b->kv_off * ch_op_page_tokens(op), .y = ctx});
    ch_op_matmul_heads(op, &(ch_op_heads){&b->v_b, ctx, b->n_head * b->d_latent, b->d_latent, o, b->n_head * b->d_v, b->d_v},
                       st->n_row);
    ch_step_trace(st, "attn_core", layer, o, b->n_head * b->d_v);
    ch_op_matmul(op, &(ch_op_mul){&b->o, y}, 1, o, st->n_row);
    ch_op_scratch_reset(op, mark);
}
