// Jamba (jamba): Mamba-1 with normed steps, B and C, attention without rotation in every eighth layer, experts in every second.
//
//   x = embed(token)
//   per layer:  x += mixer(rms(x, attn_norm));  x += ffn(rms(x, ffn_norm))
//   logits = output * rms(x, output_norm)
//   mixer: Mamba-1 where head_count_kv is 0, else attention;  ffn: experts where the layer has a router, else SwiGLU
#include "arch/arch.h"
#include "arch/mixers.h"

typedef struct layer {
    const float *attn_norm, *ffn_norm; // [n_embd]
    ch_ssm1 ssm;                       // where attn.n_head is 0
    ch_attn attn;
    ch_ffn ffn;
    ch_moe moe; // moe.router.type NULL: dense
} layer;

typedef struct jamba {
    ch_hparams hp;
    ch_ends ends;
    ch_ssm_keys ssm;
    layer *layers; // [n_layer]
} jamba;

static int bind_layer(ch_model *m, jamba *a, const ch_head_counts *heads, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    layer *l = &a->layers[i];
    int rc;
    if ((rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
        (rc = ch_model_bind_vec(m, &l->ffn_norm, hp->n_embd, 0, e, "blk.%u.ffn_norm.weight", i)))
        return rc;
    if (heads->n_kv[i]) {
        l->attn = ch_arch_attn(hp, heads, i, NULL);
        rc = ch_model_bind_attn(m, &l->attn, hp->n_embd, i, e);
    } else {
        rc = ch_arch_bind_ssm1(m, hp, &a->ssm, CH_SSM_NORM_WEIGHTS, &l->ssm, i, e);
    }
    if (rc) return rc;
    bool moe = ch_model_find(m, "blk.%u.ffn_gate_inp.weight", i) != NULL;
    ch_model_layer(m, i)->ffn = moe ? "moe" : "dense";
    return moe ? ch_arch_bind_experts(m, hp, &l->moe, hp->n_ff, i, e) : ch_arch_bind_swiglu(m, &l->ffn, hp->n_embd, hp->n_ff, "", i, e);
}

static int bind(ch_model *m, void **data, ch_error *e) {
    jamba *a = ch_model_alloc(m, 1, sizeof *a);
    ch_head_counts *heads = ch_model_alloc(m, 1, sizeof *heads);
    if (!a || !heads) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    int rc = ch_model_read_hparams(m, hp, e);
    if (rc || (rc = ch_arch_read_ssm_keys(m, false, &a->ssm, e)) || (rc = ch_arch_need_double_inner(m, hp, &a->ssm, e)) ||
        (rc = ch_arch_read_head_counts(m, hp, heads, e)) || (rc = ch_model_set_layers(m, hp->n_layer, heads->max_kv, e)) ||
        (rc = ch_arch_bind_ends(m, hp, &a->ends, e)))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((rc = bind_layer(m, a, heads, i, e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const jamba *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    ch_op_get_rows(op, &a->ends.embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        if (l->attn.n_head)
            ch_block_attn(&l->attn, st, (int)i, NULL, h, y);
        else
            ch_block_ssm1(&l->ssm, st, (int)i, h, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        if (l->moe.router.type)
            ch_block_moe(&l->moe, st, (int)i, h, y);
        else
            ch_block_ffn(&l->ffn, st, h, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->ends.output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(ch_arch_head(&a->ends), st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_jamba = {"jamba", bind, forward};
