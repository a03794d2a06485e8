// Kimi-Linear (kimi-linear): Kimi delta attention (a decay per key channel) and attention over a compressed cache without
// positions, 3 to 1; experts chosen by sigmoid + bias, with an ungated shared expert, behind a few dense layers.
//
//   per layer:  x += mixer(rms(x, attn_norm));  x += ffn(rms(x, ffn_norm))
//   mixer: compressed attention where head_count_kv > 0, else delta attention
//
// Files made before the absorbed form (attn_kv_b instead of attn_k_b and attn_v_b) are refused.
#include <math.h>
#include <string.h>

#include "arch/arch.h"

typedef struct layer {
    const float *attn_norm, *ffn_norm; // [n_embd]
    bool recurrent;
    ch_kda kda;
    ch_mla mla;
    ch_ffn ffn;
    ch_moe moe; // moe.router.type NULL: dense
} layer;

typedef struct kimi {
    ch_hparams hp;
    uint32_t d_kda, n_tap, d_latent, d_pe, d_qk, d_v, n_dense;
    float expert_scale;
    ch_weight embd, head;
    const float *output_norm; // [n_embd]
    layer *layers;            // [n_layer]
} kimi;

// The three convolutions (q, k, v) as one over 3 * n channels: [n_tap][3 * n].
static int bind_convs(ch_model *m, ch_kda *b, size_t n, uint32_t i, ch_error *e) {
    static const char *const part = "qkv";
    float *w = ch_model_alloc(m, b->n_tap * 3 * n, sizeof *w);
    if (!w) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (size_t p = 0; p < 3; p++) {
        const float *one;
        int rc = ch_model_bind_conv(m, &one, b->n_tap, n, e, "blk.%u.ssm_conv1d_%c.weight", i, part[p]);
        if (rc) return rc;
        for (size_t k = 0; k < b->n_tap; k++) memcpy(w + (k * 3 + p) * n, one + k * n, n * sizeof *w);
    }
    b->conv_w = w;
    return CH_OK;
}

static int bind_kda(ch_model *m, const kimi *a, ch_kda *b, uint32_t i, ch_error *e) {
    size_t d = a->hp.n_embd, n = (size_t)a->hp.n_head * a->d_kda, low = a->d_kda;
    int rc;
    *b = (ch_kda){.n_head = a->hp.n_head, .d_head = a->d_kda, .n_tap = a->n_tap, .eps = a->hp.eps};
    if ((rc = ch_model_bind_mat(m, &b->q, d, n, 1, 0, e, "blk.%u.attn_q", i)) ||
        (rc = ch_model_bind_mat(m, &b->k, d, n, 1, 0, e, "blk.%u.attn_k", i)) ||
        (rc = ch_model_bind_mat(m, &b->v, d, n, 1, 0, e, "blk.%u.attn_v", i)) || (rc = bind_convs(m, b, n, i, e)) ||
        (rc = ch_model_bind_mat(m, &b->f_a, d, low, 1, 0, e, "blk.%u.ssm_f_a", i)) ||
        (rc = ch_model_bind_mat(m, &b->f_b, low, n, 1, 0, e, "blk.%u.ssm_f_b", i)) ||
        (rc = ch_model_bind_mat(m, &b->g_a, d, low, 1, 0, e, "blk.%u.ssm_g_a", i)) ||
        (rc = ch_model_bind_mat(m, &b->g_b, low, n, 1, 0, e, "blk.%u.ssm_g_b", i)) ||
        (rc = ch_model_bind_mat(m, &b->beta, d, b->n_head, 1, 0, e, "blk.%u.ssm_beta", i)) ||
        (rc = ch_model_bind_vec(m, &b->a, b->n_head, 0, e, "blk.%u.ssm_a", i)) ||
        (rc = ch_model_bind_vec(m, &b->dt_bias, n, 0, e, "blk.%u.ssm_dt.bias", i)) ||
        (rc = ch_model_bind_vec(m, &b->norm, a->d_kda, 0, e, "blk.%u.ssm_norm.weight", i)) ||
        (rc = ch_model_bind_mat(m, &b->out, n, d, 1, 0, e, "blk.%u.attn_output", i)))
        return rc;
    for (size_t h = 0; h < b->n_head; h++)
        if (!(b->a[h] <= 0))
            return ch_error_set(e, CH_EFORMAT, "tensor blk.%u.ssm_a: value %zu is %g, expected -exp(A_log) <= 0", i, h, (double)b->a[h]);
    ch_block_kda_place(b, ch_model_layout(m));
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "kimi delta attention";
    info->state_bytes = ch_op_gdn_state_bytes(b->n_head, b->n_head, b->d_head, b->d_head, b->n_tap, b->form.bf16);
    return CH_OK;
}

static int bind_mla(ch_model *m, const kimi *a, ch_mla *b, uint32_t i, ch_error *e) {
    size_t d = a->hp.n_embd, h = a->hp.n_head;
    int rc;
    *b = (ch_mla){.n_head = h, .d_nope = a->d_qk - a->d_pe, .d_pe = a->d_pe, .d_latent = a->d_latent, .d_v = a->d_v, .eps = a->hp.eps,
                  .scale = 1.0f / sqrtf((float)a->d_qk)};
    if (ch_model_find(m, "blk.%u.attn_kv_b.weight", i) && !ch_model_find(m, "blk.%u.attn_k_b.weight", i))
        return ch_error_set(e, CH_EUNSUPPORTED, "tensor blk.%u.attn_kv_b: this file keeps the attention unabsorbed; expected attn_k_b and attn_v_b (convert the model again)", i);
    if ((rc = ch_model_bind_mat(m, &b->q, d, h * a->d_qk, 1, 0, e, "blk.%u.attn_q", i)) ||
        (rc = ch_model_bind_mat(m, &b->kv, d, b->d_latent + b->d_pe, 1, 0, e, "blk.%u.attn_kv_a_mqa", i)) ||
        (rc = ch_model_bind_vec(m, &b->norm, b->d_latent, 0, e, "blk.%u.attn_kv_a_norm.weight", i)) ||
        (rc = ch_model_bind_mat(m, &b->k_b, b->d_nope, b->d_latent, h, 0, e, "blk.%u.attn_k_b", i)) ||
        (rc = ch_model_bind_mat(m, &b->v_b, b->d_latent, b->d_v, h, 0, e, "blk.%u.attn_v_b", i)) ||
        (rc = ch_model_bind_mat(m, &b->o, h * b->d_v, d, 1, 0, e, "blk.%u.attn_output", i)))
        return rc;
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "compressed attention", info->kv_bytes_per_token = ch_block_mla_place(b, ch_model_layout(m));
    return info->kv_bytes_per_token ? CH_OK : ch_model_refuse_kv(m, b->d_latent + b->d_pe, e);
}

static int bind_swiglu(ch_model *m, ch_ffn *b, size_t d, size_t ff, const char *suffix, uint32_t i, ch_error *e) {
    int rc;
    if ((rc = ch_model_bind_mat(m, &b->gate, d, ff, 1, 0, e, "blk.%u.ffn_gate%s", i, suffix)) ||
        (rc = ch_model_bind_mat(m, &b->up, d, ff, 1, 0, e, "blk.%u.ffn_up%s", i, suffix)))
        return rc;
    return ch_model_bind_mat(m, &b->down, ff, d, 1, 0, e, "blk.%u.ffn_down%s", i, suffix);
}

static int bind_ffn(ch_model *m, const kimi *a, layer *l, uint32_t n_shared, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    size_t d = hp->n_embd, ff = hp->n_ff_exp, n = hp->n_expert;
    int rc;
    if (!n || i < a->n_dense) {
        ch_model_layer(m, i)->ffn = "dense";
        if (!hp->n_ff) return ch_error_set(e, CH_EFORMAT, "key %s.feed_forward_length is missing", ch_model_arch(m));
        return bind_swiglu(m, &l->ffn, d, hp->n_ff, "", i, e);
    }
    ch_model_layer(m, i)->ffn = n_shared ? "moe + shared" : "moe";
    if (!ff) return ch_error_set(e, CH_EFORMAT, "key %s.expert_feed_forward_length is missing", ch_model_arch(m));
    l->moe = (ch_moe){.n_used = hp->n_expert_used, .gating = CH_GATE_SIGMOID, .renormalise = true, .scale = a->expert_scale};
    if ((rc = ch_model_bind_mat(m, &l->moe.router, d, n, 1, 0, e, "blk.%u.ffn_gate_inp", i)) ||
        (rc = ch_model_bind_vec(m, &l->moe.bias, n, CH_BIND_OPTIONAL, e, "blk.%u.exp_probs_b.bias", i)) ||
        (rc = ch_model_bind_mat(m, &l->moe.gate, d, ff, n, 0, e, "blk.%u.ffn_gate_exps", i)) ||
        (rc = ch_model_bind_mat(m, &l->moe.up, d, ff, n, 0, e, "blk.%u.ffn_up_exps", i)) ||
        (rc = ch_model_bind_mat(m, &l->moe.down, ff, d, n, 0, e, "blk.%u.ffn_down_exps", i)))
        return rc;
    return n_shared ? bind_swiglu(m, &l->moe.shared, d, ff * n_shared, "_shexp", i, e) : CH_OK;
}

static int read_keys(ch_model *m, kimi *a, uint32_t *n_shared, ch_error *e) {
    uint32_t gating = 2, n_group = 0;
    bool norm = true;
    int rc;
    if ((rc = ch_model_read_hparams(m, &a->hp, e)) || (rc = ch_model_hp_u32(m, "kda.head_dim", true, 1, 1024, &a->d_kda, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.conv_kernel", true, 2, 16, &a->n_tap, e)) ||
        (rc = ch_model_hp_u32(m, "attention.kv_lora_rank", true, 1, 8192, &a->d_latent, e)) ||
        (rc = ch_model_hp_u32(m, "rope.dimension_count", true, 1, 1024, &a->d_pe, e)) ||
        (rc = ch_model_hp_u32(m, "attention.key_length_mla", true, a->d_pe + 1, 8192, &a->d_qk, e)) ||
        (rc = ch_model_hp_u32(m, "attention.value_length_mla", true, 1, 8192, &a->d_v, e)) ||
        (rc = ch_model_hp_u32(m, "leading_dense_block_count", false, 0, a->hp.n_layer, &a->n_dense, e)) ||
        (rc = ch_model_hp_u32(m, "expert_shared_count", false, 0, 64, n_shared, e)) ||
        (rc = ch_model_hp_u32(m, "expert_gating_func", false, 2, 2, &gating, e)) || // sigmoid
        (rc = ch_model_hp_u32(m, "expert_group_count", false, 0, 1, &n_group, e)) || // no released file has groups
        (rc = ch_model_hp_f32(m, "expert_weights_scale", 0, 1e3, &a->expert_scale, e)))
        return rc;
    if ((rc = ch_model_hp_bool(m, "expert_weights_norm", &norm, e))) return rc;
    if (!norm) return ch_error_set(e, CH_EUNSUPPORTED, "key %s.expert_weights_norm is false, expected true", ch_model_arch(m));
    return CH_OK;
}

static int bind(ch_model *m, void **data, ch_error *e) {
    kimi *a = ch_model_alloc(m, 1, sizeof *a);
    if (!a) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    uint32_t n_head_kv[1024] = {0}, n_shared = 0; // at most 1024 layers
    int rc = read_keys(m, a, &n_shared, e);
    if (rc) return rc;
    const ch_hparams *hp = &a->hp;
    if ((rc = ch_model_hp_u32_n(m, "attention.head_count_kv", n_head_kv, hp->n_layer, e)) < 0) return rc;
    if (rc == 0) return ch_error_set(e, CH_EFORMAT, "key %s.attention.head_count_kv is missing (0 marks delta attention)", ch_model_arch(m));
    if ((rc = ch_model_set_layers(m, hp->n_layer, 1, e)) ||
        (rc = ch_model_bind_mat(m, &a->embd, hp->n_embd, hp->n_vocab, 1, 0, e, "token_embd")) ||
        (rc = ch_model_bind_mat(m, &a->head, hp->n_embd, hp->n_vocab, 1, CH_BIND_OPTIONAL, e, "output")) ||
        (rc = ch_model_bind_vec(m, &a->output_norm, hp->n_embd, 0, e, "output_norm.weight")))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        layer *l = &a->layers[i];
        l->recurrent = n_head_kv[i] == 0;
        if ((rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
            (rc = l->recurrent ? bind_kda(m, a, &l->kda, i, e) : bind_mla(m, a, &l->mla, i, e)) ||
            (rc = ch_model_bind_vec(m, &l->ffn_norm, hp->n_embd, 0, e, "blk.%u.ffn_norm.weight", i)) ||
            (rc = bind_ffn(m, a, l, n_shared, i, e)))
            return rc;
    }
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const kimi *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    ch_op_get_rows(op, &a->embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        if (l->recurrent)
            ch_block_kda(&l->kda, st, (int)i, h, y);
        else
            ch_block_mla(&l->mla, st, (int)i, h, y);
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

const ch_arch ch_arch_kimi_linear = {"kimi-linear", bind, forward};
