// toy: the smallest family worth the name, for docs/ADD-A-MODEL.md and its test: short convolutions and a dense feed-forward.
//
//   x = embed(token)
//   per layer:  x += out(c * conv(b * u)), [b, c, u] = projections of rms(x, norm);  x += ffn(rms(x, ffn_norm))
//   logits = embed^T rms(x, output_norm)
#include "arch/arch.h"

typedef struct layer {
    const float *norm, *ffn_norm; // [n_embd]
    ch_shortconv conv;
    ch_ffn ffn;
} layer;

typedef struct toy {
    ch_hparams hp;
    ch_weight embd;
    const float *output_norm; // [n_embd]
    layer *layers;            // [n_layer]
} toy;

static int bind_layer(ch_model *m, const ch_hparams *hp, uint32_t n_tap, layer *l, uint32_t i, ch_error *e) {
    size_t d = hp->n_embd, ff = hp->n_ff;
    int rc;
    l->conv.n_channel = d, l->conv.n_tap = n_tap;
    if ((rc = ch_model_bind_vec(m, &l->norm, d, 0, e, "blk.%u.norm.weight", i)) ||
        (rc = ch_model_bind_mat(m, &l->conv.b, d, d, 1, 0, e, "blk.%u.conv_b", i)) ||
        (rc = ch_model_bind_mat(m, &l->conv.c, d, d, 1, 0, e, "blk.%u.conv_c", i)) ||
        (rc = ch_model_bind_mat(m, &l->conv.u, d, d, 1, 0, e, "blk.%u.conv_u", i)) ||
        (rc = ch_model_bind_mat(m, &l->conv.out, d, d, 1, 0, e, "blk.%u.conv_out", i)) ||
        (rc = ch_model_bind_conv(m, &l->conv.conv_w, n_tap, d, e, "blk.%u.conv.weight", i)) ||
        (rc = ch_model_bind_vec(m, &l->ffn_norm, d, 0, e, "blk.%u.ffn_norm.weight", i)) ||
        (rc = ch_model_bind_mat(m, &l->ffn.gate, d, ff, 1, 0, e, "blk.%u.ffn_gate", i)) ||
        (rc = ch_model_bind_mat(m, &l->ffn.up, d, ff, 1, 0, e, "blk.%u.ffn_up", i)) ||
        (rc = ch_model_bind_mat(m, &l->ffn.down, ff, d, 1, 0, e, "blk.%u.ffn_down", i)))
        return rc;
    ch_block_shortconv_place(&l->conv, ch_model_layout(m));
    *ch_model_layer(m, i) = (ch_layer_info){.mixer = "short convolution", .ffn = "dense", .state_bytes = ch_op_conv_state_bytes(d, n_tap)};
    return CH_OK;
}

static int bind(ch_model *m, void **data, ch_error *e) {
    toy *a = ch_model_alloc(m, 1, sizeof *a);
    if (!a) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    uint32_t n_tap = 0;
    int rc = ch_model_read_hparams_headless(m, &a->hp, e);
    if (rc || (rc = ch_model_hp_u32(m, "conv_kernel", true, 2, 16, &n_tap, e)) || (rc = ch_model_set_layers(m, a->hp.n_layer, 0, e)) ||
        (rc = ch_model_bind_mat(m, &a->embd, a->hp.n_embd, a->hp.n_vocab, 1, 0, e, "token_embd")) ||
        (rc = ch_model_bind_vec(m, &a->output_norm, a->hp.n_embd, 0, e, "output_norm.weight")))
        return rc;
    a->layers = ch_model_alloc(m, a->hp.n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < a->hp.n_layer; i++)
        if ((rc = bind_layer(m, &a->hp, n_tap, &a->layers[i], i, e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const toy *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    ch_op_get_rows(op, &a->embd, st->token, st->n_row, x);
    ch_op_rmsnorm(op, x, a->layers[0].norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        ch_block_shortconv(&l->conv, st, (int)i, h, y);
        ch_op_add_rmsnorm(op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        ch_block_ffn(&l->ffn, st, h, y);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].norm : a->output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(&a->embd, st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_toy = {"toy", bind, forward};
