// Falcon-H1 (falcon-h1): attention and Mamba-2 side by side in every layer, on the same normed input.
//
//   x = embed(token)
//   per layer:  x += attn(h) + mamba2(h), h = rms(x, attn_norm);  x += swiglu(rms(x, ffn_norm))
//   logits = output * rms(x, output_norm)
//
// The model's many multipliers are folded into the weights by the conversion. Files made before that was settled keep them
// as keys; they are refused, since their weights mean something else.
#include <string.h>

#include "arch/arch.h"
#include "arch/mixers.h"

typedef struct layer {
    const float *attn_norm, *ffn_norm; // [n_embd]
    ch_attn attn;
    ch_ssm2 ssm;
    ch_ffn ffn;
} layer;

typedef struct falcon {
    ch_hparams hp;
    ch_ends ends;
    ch_ssm_keys ssm;
    ch_rope rope;
    layer *layers; // [n_layer]
} falcon;

static int refuse_multipliers(const ch_gguf *g, ch_error *e) {
    for (size_t i = 0; i < ch_gguf_n_kv(g); i++) {
        const char *key = ch_gguf_kv_at(g, i)->key;
        if (!strncmp(key, "falcon-h1.", 10) && strstr(key, "multiplier"))
            return ch_error_set(e, CH_EUNSUPPORTED,
                                "%s: key %s: expected a conversion with the multipliers folded into the weights, found an older one",
                                ch_gguf_path(g), key);
    }
    return CH_OK;
}

static int bind_layer(ch_model *m, falcon *a, const ch_head_counts *heads, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    layer *l = &a->layers[i];
    int rc;
    l->attn = ch_arch_attn(hp, heads, i, &a->rope);
    if ((rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
        (rc = ch_model_bind_attn(m, &l->attn, hp->n_embd, i, e)) || (rc = ch_arch_bind_ssm2(m, hp, &a->ssm, &l->ssm, i, e)) ||
        (rc = ch_model_bind_vec(m, &l->ffn_norm, hp->n_embd, CH_BIND_OPTIONAL, e, "blk.%u.ffn_norm", i)) ||
        (!l->ffn_norm && (rc = ch_model_bind_vec(m, &l->ffn_norm, hp->n_embd, 0, e, "blk.%u.ffn_norm.weight", i))))
        return rc;
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "attention + mamba2", info->ffn = "dense";
    return ch_arch_bind_swiglu(m, &l->ffn, hp->n_embd, hp->n_ff, "", i, e);
}

static int bind(ch_model *m, void **data, ch_error *e) {
    falcon *a = ch_model_alloc(m, 1, sizeof *a);
    ch_head_counts *heads = ch_model_alloc(m, 1, sizeof *heads);
    if (!a || !heads) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    int rc = refuse_multipliers(ch_model_gguf(m), e);
    if (rc || (rc = ch_model_read_hparams(m, hp, e)) || (rc = ch_arch_read_ssm_keys(m, true, &a->ssm, e)) ||
        (rc = ch_arch_read_head_counts(m, hp, heads, e)) || (rc = ch_model_read_rope(m, hp, true, &a->rope, e)) ||
        (rc = ch_model_set_layers(m, hp->n_layer, heads->max_kv, e)) || (rc = ch_arch_bind_ends(m, hp, &a->ends, e)))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((rc = bind_layer(m, a, heads, i, e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const falcon *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    float *y2 = ch_op_scratch(op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    ch_op_get_rows(op, &a->ends.embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        ch_block_attn(&l->attn, st, (int)i, rope, h, y);
        ch_block_ssm2(&l->ssm, st, (int)i, h, y2);
        ch_op_add_rmsnorm(op, y2, NULL, st->n_row, d, 0, y, NULL);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        ch_block_ffn(&l->ffn, st, h, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->ends.output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(ch_arch_head(&a->ends), st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_falcon_h1 = {"falcon-h1", bind, forward};
