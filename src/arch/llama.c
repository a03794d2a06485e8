// llama: the plain transformer (RMSNorm, rotated attention, SwiGLU), and its mixture-of-experts variant.
// Rotation pairs (2i, 2i+1): the conversion to GGUF has permuted the rows of q and k for it.
//
//   x = embed(token)
//   per layer:  x += attn(rms(x, attn_norm));  x += ffn(rms(x, ffn_norm))
//   logits = output * rms(x, output_norm)
#include "arch/arch.h"

typedef struct layer {
    const float *attn_norm, *ffn_norm; // [n_embd]
    ch_attn attn;
    ch_ffn ffn;
    ch_moe moe; // moe.router.type NULL: dense
} layer;

typedef struct llama {
    ch_hparams hp;
    ch_rope rope;
    ch_weight embd, head;
    const float *output_norm; // [n_embd]
    layer *layers;            // [n_layer]
} llama;

static int bind_layer(ch_model *m, llama *a, uint32_t i, uint32_t n_head_kv, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    layer *l = &a->layers[i];
    size_t d = hp->n_embd, n_q = (size_t)hp->n_head * hp->d_head, n_kv = (size_t)n_head_kv * hp->d_head;
    l->attn = (ch_attn){.n_head = hp->n_head, .n_head_kv = n_head_kv, .d_head = hp->d_head, .n_rot = a->rope.n_rot,
                        .neox = a->rope.neox, .eps = hp->eps, .scale = hp->attn_scale};
    int rc;
    if ((rc = ch_model_bind_vec(m, &l->attn_norm, d, 0, e, "blk.%u.attn_norm.weight", i)) ||
        (rc = ch_model_bind_mat(m, &l->attn.q, d, n_q, 1, 0, e, "blk.%u.attn_q", i)) ||
        (rc = ch_model_bind_mat(m, &l->attn.k, d, n_kv, 1, 0, e, "blk.%u.attn_k", i)) ||
        (rc = ch_model_bind_mat(m, &l->attn.v, d, n_kv, 1, 0, e, "blk.%u.attn_v", i)) ||
        (rc = ch_model_bind_mat(m, &l->attn.o, n_q, d, 1, 0, e, "blk.%u.attn_output", i)) ||
        (rc = ch_model_bind_vec(m, &l->ffn_norm, d, 0, e, "blk.%u.ffn_norm.weight", i)))
        return rc;
    ch_layout *lay = ch_model_layout(m);
    ch_block_attn_place(&l->attn, lay);
    *ch_model_layer(m, i) = (ch_layer_info){"attention", hp->n_expert ? "moe" : "dense",
                                            ch_op_attn_kv_bytes(n_head_kv, hp->d_head), 0};
    if (!hp->n_expert) {
        if ((rc = ch_model_bind_mat(m, &l->ffn.gate, d, hp->n_ff, 1, 0, e, "blk.%u.ffn_gate", i)) ||
            (rc = ch_model_bind_mat(m, &l->ffn.up, d, hp->n_ff, 1, 0, e, "blk.%u.ffn_up", i)))
            return rc;
        return ch_model_bind_mat(m, &l->ffn.down, hp->n_ff, d, 1, 0, e, "blk.%u.ffn_down", i);
    }
    size_t ff = hp->n_ff_exp ? hp->n_ff_exp : hp->n_ff;
    l->moe.n_used = hp->n_expert_used, l->moe.renormalise = true;
    if ((rc = ch_model_bind_mat(m, &l->moe.router, d, hp->n_expert, 1, 0, e, "blk.%u.ffn_gate_inp", i)) ||
        (rc = ch_model_bind_mat(m, &l->moe.gate, d, ff, hp->n_expert, 0, e, "blk.%u.ffn_gate_exps", i)) ||
        (rc = ch_model_bind_mat(m, &l->moe.up, d, ff, hp->n_expert, 0, e, "blk.%u.ffn_up_exps", i)))
        return rc;
    return ch_model_bind_mat(m, &l->moe.down, ff, d, hp->n_expert, 0, e, "blk.%u.ffn_down_exps", i);
}

static int bind(ch_model *m, void **data, ch_error *e) {
    llama *a = ch_model_alloc(m, 1, sizeof *a);
    if (!a) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    int rc = ch_model_read_hparams(m, hp, e);
    if (rc || (rc = ch_model_read_rope(m, hp, false, &a->rope, e))) return rc;
    uint32_t n_head_kv = hp->n_head;
    if ((rc = ch_model_hp_u32(m, "attention.head_count_kv", false, 1, hp->n_head, &n_head_kv, e))) return rc;
    if (hp->n_head % n_head_kv)
        return ch_error_set(e, CH_ERANGE, "head_count %u is no multiple of head_count_kv %u", hp->n_head, n_head_kv);
    if (!hp->n_expert && !hp->n_ff) return ch_error_set(e, CH_EFORMAT, "key llama.feed_forward_length is missing");
    if (hp->n_expert && !hp->n_ff && !hp->n_ff_exp)
        return ch_error_set(e, CH_EFORMAT, "key llama.expert_feed_forward_length is missing");
    if ((rc = ch_model_set_layers(m, hp->n_layer, n_head_kv, e)) ||
        (rc = ch_model_bind_mat(m, &a->embd, hp->n_embd, hp->n_vocab, 1, 0, e, "token_embd")) ||
        (rc = ch_model_bind_mat(m, &a->head, hp->n_embd, hp->n_vocab, 1, CH_BIND_OPTIONAL, e, "output")) ||
        (rc = ch_model_bind_vec(m, &a->output_norm, hp->n_embd, 0, e, "output_norm.weight")))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((rc = bind_layer(m, a, i, n_head_kv, e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const llama *a = data;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(st->op);
    float *x = ch_op_scratch(st->op, st->n_row, d), *h = ch_op_scratch(st->op, st->n_row, d);
    float *y = ch_op_scratch(st->op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    ch_op_get_rows(st->op, &a->embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(st->op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        ch_block_attn(&l->attn, st, (int)i, rope, h, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(st->op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        if (l->moe.router.type)
            ch_block_moe(&l->moe, st, (int)i, h, y);
        else
            ch_block_ffn(&l->ffn, st, h, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_add_rmsnorm(st->op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(a->head.type ? &a->head : &a->embd, st, h, logits);
    ch_op_scratch_reset(st->op, mark);
}

const ch_arch ch_arch_llama = {"llama", bind, forward};
