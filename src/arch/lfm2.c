// LFM2 (lfm2, lfm2moe): short gated convolutions and attention with QK norm.
//
//   per layer:  x += mixer(rms(x, attn_norm));  x += ffn(rms(x, ffn_norm))
//   mixer, convolution: [b | c | u] = in_proj h;  y = out_proj(c * conv(b * u))       no activation, no bias
//   mixer, attention (where head_count_kv > 0): per-head norms of q and k, rotation of all dimensions in pairs (i, i + d/2)
//   ffn: dense in the first leading_dense_block_count layers of lfm2moe, else experts chosen by sigmoid + bias
#include "arch/arch.h"

typedef struct layer {
    const float *attn_norm, *ffn_norm; // [n_embd]
    bool conv;
    ch_shortconv sc;
    ch_attn attn;
    ch_ffn ffn;
    ch_moe moe; // moe.router.type NULL: dense
} layer;

typedef struct lfm2 {
    ch_hparams hp;
    ch_rope rope;
    uint32_t n_tap, n_dense;
    ch_weight embd, head;
    const float *output_norm; // [n_embd]
    layer *layers;            // [n_layer]
} lfm2;

static int bind_conv(ch_model *m, const lfm2 *a, ch_shortconv *b, uint32_t i, ch_error *e) {
    size_t d = a->hp.n_embd;
    int rc;
    b->n_channel = d, b->n_tap = a->n_tap;
    if ((rc = ch_model_bind_part(m, &b->b, &(ch_bind_part){d, 3 * d, 0, d, 0}, e, "blk.%u.shortconv.in_proj", i)) ||
        (rc = ch_model_bind_part(m, &b->c, &(ch_bind_part){d, 3 * d, d, d, 0}, e, "blk.%u.shortconv.in_proj", i)) ||
        (rc = ch_model_bind_part(m, &b->u, &(ch_bind_part){d, 3 * d, 2 * d, d, 0}, e, "blk.%u.shortconv.in_proj", i)) ||
        (rc = ch_model_bind_mat(m, &b->out, d, d, 1, 0, e, "blk.%u.shortconv.out_proj", i)) ||
        (rc = ch_model_bind_conv(m, &b->conv_w, a->n_tap, d, e, "blk.%u.shortconv.conv.weight", i)))
        return rc;
    ch_block_shortconv_place(b, ch_model_layout(m));
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "short convolution", info->state_bytes = ch_op_conv_state_bytes(d, a->n_tap);
    return CH_OK;
}

static int bind_attention(ch_model *m, const lfm2 *a, ch_attn *b, uint32_t n_head_kv, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    *b = (ch_attn){.n_head = hp->n_head, .n_head_kv = n_head_kv, .d_head = hp->d_head, .n_rot = a->rope.n_rot, .neox = true,
                   .eps = hp->eps, .scale = hp->attn_scale};
    int rc = ch_model_bind_attn(m, b, hp->n_embd, i, e);
    if (rc || (rc = ch_model_bind_vec(m, &b->q_norm, hp->d_head, 0, e, "blk.%u.attn_q_norm.weight", i))) return rc;
    return ch_model_bind_vec(m, &b->k_norm, hp->d_head, 0, e, "blk.%u.attn_k_norm.weight", i);
}

static int bind_ffn(ch_model *m, const lfm2 *a, layer *l, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    size_t d = hp->n_embd, ff = hp->n_ff, ffe = hp->n_ff_exp, n = hp->n_expert;
    int rc;
    if (!n || i < a->n_dense) {
        ch_model_layer(m, i)->ffn = "dense";
        if (!ff) return ch_error_set(e, CH_EFORMAT, "key %s.feed_forward_length is missing", ch_model_arch(m));
        if ((rc = ch_model_bind_mat(m, &l->ffn.gate, d, ff, 1, 0, e, "blk.%u.ffn_gate", i)) ||
            (rc = ch_model_bind_mat(m, &l->ffn.up, d, ff, 1, 0, e, "blk.%u.ffn_up", i)))
            return rc;
        return ch_model_bind_mat(m, &l->ffn.down, ff, d, 1, 0, e, "blk.%u.ffn_down", i);
    }
    ch_model_layer(m, i)->ffn = "moe";
    if (!ffe) return ch_error_set(e, CH_EFORMAT, "key %s.expert_feed_forward_length is missing", ch_model_arch(m));
    l->moe = (ch_moe){.n_used = hp->n_expert_used, .gating = CH_GATE_SIGMOID, .renormalise = true};
    if ((rc = ch_model_bind_mat(m, &l->moe.router, d, n, 1, 0, e, "blk.%u.ffn_gate_inp", i)) ||
        (rc = ch_model_bind_vec(m, &l->moe.bias, n, 0, e, "blk.%u.exp_probs_b.bias", i)) ||
        (rc = ch_model_bind_mat(m, &l->moe.gate, d, ffe, n, 0, e, "blk.%u.ffn_gate_exps", i)) ||
        (rc = ch_model_bind_mat(m, &l->moe.up, d, ffe, n, 0, e, "blk.%u.ffn_up_exps", i)))
        return rc;
    return ch_model_bind_mat(m, &l->moe.down, ffe, d, n, 0, e, "blk.%u.ffn_down_exps", i);
}

static int bind_layer(ch_model *m, lfm2 *a, uint32_t i, uint32_t n_head_kv, ch_error *e) {
    layer *l = &a->layers[i];
    int rc;
    l->conv = n_head_kv == 0;
    if ((rc = ch_model_bind_vec(m, &l->attn_norm, a->hp.n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
        (rc = l->conv ? bind_conv(m, a, &l->sc, i, e) : bind_attention(m, a, &l->attn, n_head_kv, i, e)) ||
        (rc = ch_model_bind_vec(m, &l->ffn_norm, a->hp.n_embd, 0, e, "blk.%u.ffn_norm.weight", i)))
        return rc;
    return bind_ffn(m, a, l, i, e);
}

static int read_keys(ch_model *m, lfm2 *a, ch_error *e) {
    uint32_t window = 0, gating = 2;
    int rc;
    if ((rc = ch_model_read_hparams(m, &a->hp, e)) || (rc = ch_model_read_rope(m, &a->hp, true, &a->rope, e)) ||
        (rc = ch_model_hp_u32(m, "shortconv.l_cache", true, 2, 16, &a->n_tap, e)) ||
        (rc = ch_model_hp_u32(m, "leading_dense_block_count", false, 0, a->hp.n_layer, &a->n_dense, e)) ||
        (rc = ch_model_hp_u32(m, "attention.sliding_window", false, 0, INT32_MAX, &window, e)))
        return rc;
    if (window && window < a->hp.n_ctx_train)
        return ch_error_set(e, CH_EUNSUPPORTED, "key %s.attention.sliding_window is %u: attention windows shorter than the context (%u) are not supported",
                            ch_model_arch(m), window, a->hp.n_ctx_train);
    return ch_model_hp_u32(m, "expert_gating_func", a->hp.n_expert > 0, 2, 2, &gating, e); // sigmoid
}

static int bind(ch_model *m, void **data, ch_error *e) {
    lfm2 *a = ch_model_alloc(m, 1, sizeof *a);
    if (!a) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    uint32_t n_head_kv[1024], max_kv = 0; // at most 1024 layers
    int rc = read_keys(m, a, e);
    if (rc) return rc;
    const ch_hparams *hp = &a->hp;
    for (uint32_t i = 0; i < hp->n_layer; i++) n_head_kv[i] = hp->n_head;
    if ((rc = ch_model_hp_u32_n(m, "attention.head_count_kv", n_head_kv, hp->n_layer, e)) < 0) return rc;
    for (uint32_t i = 0; i < hp->n_layer; i++) max_kv = n_head_kv[i] > max_kv ? n_head_kv[i] : max_kv;
    if ((rc = ch_model_set_layers(m, hp->n_layer, max_kv, e)) ||
        (rc = ch_model_bind_mat(m, &a->embd, hp->n_embd, hp->n_vocab, 1, 0, e, "token_embd")) ||
        (rc = ch_model_bind_mat(m, &a->head, hp->n_embd, hp->n_vocab, 1, CH_BIND_OPTIONAL, e, "output")) ||
        (rc = ch_model_bind_vec(m, &a->output_norm, hp->n_embd, CH_BIND_OPTIONAL, e, "token_embd_norm.weight")) ||
        (!a->output_norm && (rc = ch_model_bind_vec(m, &a->output_norm, hp->n_embd, 0, e, "output_norm.weight"))))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((rc = bind_layer(m, a, i, n_head_kv[i], e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const lfm2 *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    ch_op_get_rows(op, &a->embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        if (l->conv)
            ch_block_shortconv(&l->sc, st, (int)i, h, y);
        else
            ch_block_attn(&l->attn, st, (int)i, rope, h, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        if (l->moe.router.type)
            ch_block_moe(&l->moe, st, (int)i, h, y);
        else
            ch_block_ffn(&l->ffn, st, h, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(a->head.type ? &a->head : &a->embd, st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_lfm2 = {"lfm2", bind, forward};
const ch_arch ch_arch_lfm2moe = {"lfm2moe", bind, forward};
