// mamba2: Mamba-2 in every layer, with one or more groups of B and C (Mamba-Codestral: 8).
//
//   x = embed(token)
//   per layer:  x += mamba2(rms(x, attn_norm))
//   logits = output * rms(x, output_norm)
#include "arch/arch.h"
#include "arch/mixers.h"

typedef struct layer {
    const float *attn_norm; // [n_embd]
    ch_ssm2 ssm;
} layer;

typedef struct mamba2 {
    ch_hparams hp;
    ch_ends ends;
    layer *layers; // [n_layer]
} mamba2;

static int bind(ch_model *m, void **data, ch_error *e) {
    mamba2 *a = ch_model_alloc(m, 1, sizeof *a);
    if (!a) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    ch_ssm_keys k;
    int rc = ch_model_read_hparams_headless(m, hp, e);
    if (rc || (rc = ch_arch_read_ssm_keys(m, true, &k, e)) || (rc = ch_model_set_layers(m, hp->n_layer, 0, e)) ||
        (rc = ch_arch_bind_ends(m, hp, &a->ends, e)))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        layer *l = &a->layers[i];
        if ((rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
            (rc = ch_arch_bind_ssm2(m, hp, &k, &l->ssm, i, e)))
            return rc;
        ch_model_layer(m, i)->ffn = "none";
    }
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const mamba2 *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    ch_op_get_rows(op, &a->ends.embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        ch_block_ssm2(&a->layers[i].ssm, st, (int)i, h, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->ends.output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(ch_arch_head(&a->ends), st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_mamba2 = {"mamba2", bind, forward};
