// Nemotron-H (nemotron_h) and Nemotron-3 (nemotron_h_moe): one mixer per layer, of one of three kinds, and no second half.
//
//   x = embed(token)
//   per layer:  x += mixer(rms(x, attn_norm))
//   logits = output * rms(x, output_norm)
//   mixer:  Mamba-2 | attention without rotation | down(relu(up h)^2), or a mixture of such experts beside a shared one,
//           the experts optionally of a narrower latent vector
//   kind by per-layer keys:  head_count_kv 0 and feed_forward_length 0: Mamba-2;  feed_forward_length 0: attention;  else feed-forward
#include "arch/arch.h"
#include "arch/mixers.h"

typedef struct layer {
    const float *attn_norm; // [n_embd]
    enum { MAMBA, ATTENTION, DENSE, EXPERTS } kind;
    ch_ssm2 ssm;
    ch_attn attn;
    ch_ffn ffn;
    ch_moe moe;
} layer;

typedef struct nemotron {
    ch_hparams hp;
    ch_ends ends;
    ch_ssm_keys ssm;
    uint32_t n_group, n_group_used, n_latent;
    bool renormalise;
    float scale; // of the experts' weights
    layer *layers; // [n_layer]
} nemotron;

static int read_moe_keys(ch_model *m, nemotron *a, ch_error *e) {
    uint32_t n = a->hp.n_expert;
    int rc;
    if (!n) return ch_error_set(e, CH_ERANGE, "key nemotron_h_moe.expert_count is missing or 0");
    if (!a->hp.n_ff_exp) return ch_error_set(e, CH_EFORMAT, "key nemotron_h_moe.expert_feed_forward_length is missing or 0");
    if ((rc = ch_model_hp_bool(m, "expert_weights_norm", &a->renormalise, e)) ||
        (rc = ch_model_hp_f32(m, "expert_weights_scale", 0, 1e3, &a->scale, e)) ||
        (rc = ch_model_hp_u32(m, "expert_group_count", false, 0, n, &a->n_group, e)) ||
        (rc = ch_model_hp_u32(m, "expert_group_used_count", false, 0, a->n_group, &a->n_group_used, e)) ||
        (rc = ch_model_hp_u32(m, "moe_latent_size", false, 0, 1 << 17, &a->n_latent, e)))
        return rc;
    if (a->n_group > 1 && (n % a->n_group || !a->n_group_used || n / a->n_group * a->n_group_used < a->hp.n_expert_used))
        return ch_error_set(e, CH_ERANGE, "expert_group_count %u and expert_group_used_count %u do not fit %u experts, %u used",
                            a->n_group, a->n_group_used, n, a->hp.n_expert_used);
    return CH_OK;
}

static int bind_relu2(ch_model *m, ch_ffn *b, size_t d, size_t ff, const char *suffix, uint32_t i, ch_error *e) {
    int rc = ch_model_bind_mat(m, &b->up, d, ff, 1, 0, e, "blk.%u.ffn_up%s", i, suffix);
    return rc ? rc : ch_model_bind_mat(m, &b->down, ff, d, 1, 0, e, "blk.%u.ffn_down%s", i, suffix);
}

static int bind_experts(ch_model *m, const nemotron *a, ch_moe *b, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    size_t d = hp->n_embd, n = hp->n_expert, in = a->n_latent ? a->n_latent : d;
    int rc;
    b->n_used = hp->n_expert_used, b->gating = CH_GATE_SIGMOID, b->renormalise = a->renormalise, b->scale = a->scale;
    b->n_group = a->n_group, b->n_group_used = a->n_group_used;
    if ((rc = ch_model_bind_mat(m, &b->router, d, n, 1, 0, e, "blk.%u.ffn_gate_inp", i)) ||
        (rc = ch_model_bind_vec(m, &b->bias, n, CH_BIND_OPTIONAL, e, "blk.%u.exp_probs_b.bias", i)) ||
        (rc = ch_model_bind_mat(m, &b->up, in, hp->n_ff_exp, n, 0, e, "blk.%u.ffn_up_exps", i)) ||
        (rc = ch_model_bind_mat(m, &b->down, hp->n_ff_exp, in, n, 0, e, "blk.%u.ffn_down_exps", i)))
        return rc;
    if (a->n_latent && ((rc = ch_model_bind_mat(m, &b->latent_down, d, in, 1, 0, e, "blk.%u.ffn_latent_down", i)) ||
                        (rc = ch_model_bind_mat(m, &b->latent_up, in, d, 1, 0, e, "blk.%u.ffn_latent_up", i))))
        return rc;
    return hp->n_ff_shexp ? bind_relu2(m, &b->shared, d, hp->n_ff_shexp, "_shexp", i, e) : CH_OK;
}

static int bind_layer(ch_model *m, nemotron *a, const ch_head_counts *heads, uint32_t ff, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    layer *l = &a->layers[i];
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = info->ffn = "none";
    int rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i);
    if (rc) return rc;
    l->kind = ff ? (hp->n_expert ? EXPERTS : DENSE) : heads->n_kv[i] ? ATTENTION : MAMBA;
    if (l->kind == MAMBA) return ch_arch_bind_ssm2(m, hp, &a->ssm, &l->ssm, i, e);
    if (l->kind == ATTENTION) {
        l->attn = ch_arch_attn(hp, heads, i, NULL);
        return ch_model_bind_attn(m, &l->attn, hp->n_embd, i, e);
    }
    info->ffn = l->kind == DENSE ? "dense" : hp->n_ff_shexp ? "moe + shared" : "moe";
    return l->kind == DENSE ? bind_relu2(m, &l->ffn, hp->n_embd, ff, "", i, e) : bind_experts(m, a, &l->moe, i, e);
}

static int bind_family(ch_model *m, void **data, bool moe, ch_error *e) {
    nemotron *a = ch_model_alloc(m, 1, sizeof *a);
    ch_head_counts *heads = ch_model_alloc(m, 1, sizeof *heads);
    if (!a || !heads) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    uint32_t ff[1024] = {0};
    int rc = ch_model_read_hparams(m, hp, e); // at most 1024 layers
    if (rc || (rc = ch_arch_read_ssm_keys(m, true, &a->ssm, e)) || (rc = ch_arch_read_head_counts(m, hp, heads, e)) ||
        (moe && (rc = read_moe_keys(m, a, e))))
        return rc;
    if (!moe && hp->n_expert)
        return ch_error_set(e, CH_ERANGE, "key nemotron_h.expert_count is %u, expected 0 (experts: nemotron_h_moe)", hp->n_expert);
    if ((rc = ch_model_hp_u32_n(m, "feed_forward_length", ff, hp->n_layer, e)) < 0 ||
        (rc = ch_model_set_layers(m, hp->n_layer, heads->max_kv, e)) || (rc = ch_arch_bind_ends(m, hp, &a->ends, e)))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        if (ff[i] > 1 << 20) return ch_error_set(e, CH_ERANGE, "layer %u: feed_forward_length %u is too large", i, ff[i]);
        if ((rc = bind_layer(m, a, heads, ff[i], i, e))) return rc;
    }
    for (uint32_t i = 0; i < hp->n_nextn; i++) ch_model_ignore_prefix(m, "blk.%u.", hp->n_layer + i);
    return CH_OK;
}

static int bind_dense(ch_model *m, void **data, ch_error *e) { return bind_family(m, data, false, e); }
static int bind_moe(ch_model *m, void **data, ch_error *e) { return bind_family(m, data, true, e); }

static void forward(const void *data, ch_step *st, float *logits) {
    const nemotron *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    ch_op_get_rows(op, &a->ends.embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        switch (l->kind) {
        case MAMBA: ch_block_ssm2(&l->ssm, st, (int)i, h, y); break;
        case ATTENTION: ch_block_attn(&l->attn, st, (int)i, NULL, h, y); break;
        case DENSE: ch_block_ffn(&l->ffn, st, h, y); break;
        case EXPERTS: ch_block_moe(&l->moe, st, (int)i, h, y); break;
        }
        ch_step_trace(st, l->kind == DENSE || l->kind == EXPERTS ? "ffn_out" : "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->ends.output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(ch_arch_head(&a->ends), st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_nemotron_h = {"nemotron_h", bind_dense, forward};
const ch_arch ch_arch_nemotron_h_moe = {"nemotron_h_moe", bind_moe, forward};
