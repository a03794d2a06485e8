// Granite 4.0 H (granitehybrid; Bamba converts to it too): Mamba-2 or attention, then SwiGLU or experts, four scales.
//
//   x = embed(token) * embedding_scale
//   per layer:  x += residual_scale * mixer(rms(x, attn_norm));  x += residual_scale * ffn(rms(x, ffn_norm))
//   logits = output * rms(x, output_norm) / logit_scale
//   mixer: Mamba-2 where head_count_kv is 0, else attention with scale attention.scale; rotated (pairs 2i, 2i+1) only when
//          rope.scaling.finetuned says so (default yes)
//   ffn:   SwiGLU, or softmax-routed experts with renormalised weights and an ungated shared expert
#include "arch/arch.h"
#include "arch/mixers.h"

typedef struct layer {
    const float *attn_norm, *ffn_norm; // [n_embd]
    ch_ssm2 ssm;                       // where attn.n_head is 0
    ch_attn attn;
    ch_ffn ffn;
    ch_moe moe; // moe.router.type NULL: dense
} layer;

typedef struct granite {
    ch_hparams hp;
    ch_ends ends;
    ch_ssm_keys ssm;
    ch_rope rope; // n_rot 0: none
    float embd_scale, residual_scale, logit_scale;
    layer *layers; // [n_layer]
} granite;

static int read_scale(ch_model *m, const char *key, float *v, ch_error *e) {
    *v = 0;
    int rc = ch_model_hp_f32(m, key, 0, 1e6, v, e);
    if (*v == 0) *v = 1; // absent and 0 mean none
    return rc;
}

static int bind_layer(ch_model *m, granite *a, const ch_head_counts *heads, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    layer *l = &a->layers[i];
    int rc;
    if ((rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
        (rc = ch_model_bind_vec(m, &l->ffn_norm, hp->n_embd, 0, e, "blk.%u.ffn_norm.weight", i)))
        return rc;
    if (heads->n_kv[i]) {
        l->attn = ch_arch_attn(hp, heads, i, &a->rope);
        rc = ch_model_bind_attn(m, &l->attn, hp->n_embd, i, e);
    } else {
        rc = ch_arch_bind_ssm2(m, hp, &a->ssm, &l->ssm, i, e);
    }
    if (rc) return rc;
    ch_model_layer(m, i)->ffn = !hp->n_expert ? "dense" : hp->n_ff_shexp ? "moe + shared" : "moe";
    if (!hp->n_expert) return ch_arch_bind_swiglu(m, &l->ffn, hp->n_embd, hp->n_ff, "", i, e);
    l->moe.renormalise = true;
    if ((rc = ch_arch_bind_experts(m, hp, &l->moe, hp->n_ff_exp ? hp->n_ff_exp : hp->n_ff, i, e))) return rc;
    return hp->n_ff_shexp ? ch_arch_bind_swiglu(m, &l->moe.shared, hp->n_embd, hp->n_ff_shexp, "_shexp", i, e) : CH_OK;
}

static int bind(ch_model *m, void **data, ch_error *e) {
    granite *a = ch_model_alloc(m, 1, sizeof *a);
    ch_head_counts *heads = ch_model_alloc(m, 1, sizeof *heads);
    if (!a || !heads) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    bool rotate = true;
    int rc = ch_model_read_hparams(m, hp, e);
    if (rc || (rc = ch_arch_read_ssm_keys(m, true, &a->ssm, e)) || (rc = ch_arch_need_double_inner(m, hp, &a->ssm, e)) ||
        (rc = ch_arch_read_head_counts(m, hp, heads, e)) || (rc = ch_model_hp_bool(m, "rope.scaling.finetuned", &rotate, e)) ||
        (rc = ch_model_read_rope(m, hp, false, &a->rope, e)) || (rc = read_scale(m, "embedding_scale", &a->embd_scale, e)) ||
        (rc = read_scale(m, "residual_scale", &a->residual_scale, e)) || (rc = read_scale(m, "logit_scale", &a->logit_scale, e)))
        return rc;
    if (!rotate) a->rope.n_rot = 0;
    if ((rc = ch_model_set_layers(m, hp->n_layer, heads->max_kv, e)) || (rc = ch_arch_bind_ends(m, hp, &a->ends, e))) return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((rc = bind_layer(m, a, heads, i, e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const granite *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    ch_op_get_rows(op, &a->ends.embd, st->token, st->n_row, x);
    ch_op_scale(op, a->embd_scale, st->n_row, d, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        if (l->attn.n_head)
            ch_block_attn(&l->attn, st, (int)i, rope, h, y);
        else
            ch_block_ssm2(&l->ssm, st, (int)i, h, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_scale(op, a->residual_scale, st->n_row, d, y);
        ch_op_add_rmsnorm(op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        if (l->moe.router.type)
            ch_block_moe(&l->moe, st, (int)i, h, y);
        else
            ch_block_ffn(&l->ffn, st, h, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_scale(op, a->residual_scale, st->n_row, d, y);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->ends.output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(ch_arch_head(&a->ends), st, h, logits);
    if (logits) ch_op_scale(op, 1.0f / a->logit_scale, st->n_out, a->hp.n_vocab, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_granitehybrid = {"granitehybrid", bind, forward};
