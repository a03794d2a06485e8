// Families with state-space mixers: presets, tensors and keys. A preset's pattern says what each layer is.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "synth/part.h"

// Tiny: shapes that differ wherever two sizes might be mixed up: groups (2) and heads per group (3), head width and state
// size, query heads per key head (3), an inner size that is not twice the width where the family allows it.
#define TINY .n_embd = 96, .n_vocab = 512, .n_ctx = 2048, .n_ff = 160, .ssm_conv = 4, .ssm_d_state = 24, .rms_eps = 1e-5f
#define TINY_HEADS .n_head = 6, .n_head_kv = 2, .d_head = 16, .rope_base = 100000
#define TINY_SSM2(inner) .ssm_inner = inner, .ssm_heads = 6, .ssm_groups = 2
#define TINY_MOE .n_expert = 5, .n_expert_used = 2, .n_ff_exp = 48
#define SSM2 .ssm_conv = 4, .ssm_d_state = 128, .rms_eps = 1e-5f, .n_ctx = 131072
#define SSM1 .ssm_conv = 4, .ssm_d_state = 16, .rms_eps = 1e-5f, .n_ctx = 1 << 20

static const ch_synth_preset_row mamba[] = {
    {"tiny", {TINY, .pattern = "m", .n_layer = 3, .ssm_inner = 192, .ssm_rank = 7}},
    {"tiny-norms", {TINY, .pattern = "m", .n_layer = 3, .ssm_inner = 192, .ssm_rank = 7, .bare_norms = true, .tied = true}},
    {"bench", {SSM1, .pattern = "m", .n_layer = 48, .n_embd = 1024, .n_vocab = 50280, .ssm_inner = 2048, .ssm_rank = 64, .tied = true}},
    {"130m", {SSM1, .pattern = "m", .n_layer = 24, .n_embd = 768, .n_vocab = 50280, .ssm_inner = 1536, .ssm_rank = 48, .tied = true}},
    {"2.8b", {SSM1, .pattern = "m", .n_layer = 64, .n_embd = 2560, .n_vocab = 50280, .ssm_inner = 5120, .ssm_rank = 160, .tied = true}},
    {"falcon-7b", {SSM1, .pattern = "m", .n_layer = 64, .n_embd = 4096, .n_vocab = 65024, .ssm_inner = 8192, .ssm_rank = 256, .bare_norms = true}},
    {NULL, {0}},
};
static const ch_synth_preset_row mamba2[] = {
    {"tiny", {TINY, TINY_SSM2(192), .pattern = "m", .n_layer = 3}},
    {"tiny-wide", {TINY, TINY_SSM2(120), .pattern = "m", .n_layer = 3, .tied = true}},
    {"bench", {SSM2, .pattern = "m", .n_layer = 48, .n_embd = 1024, .n_vocab = 50288, .ssm_inner = 2048, .ssm_heads = 32, .ssm_groups = 1, .tied = true}},
    {"130m", {SSM2, .pattern = "m", .n_layer = 24, .n_embd = 768, .n_vocab = 50288, .ssm_inner = 1536, .ssm_heads = 24, .ssm_groups = 1, .tied = true}},
    {"2.7b", {SSM2, .pattern = "m", .n_layer = 64, .n_embd = 2560, .n_vocab = 50288, .ssm_inner = 5120, .ssm_heads = 80, .ssm_groups = 1, .tied = true}},
    {"codestral-7b", {SSM2, .pattern = "m", .n_layer = 64, .n_embd = 4096, .n_vocab = 32768, .ssm_inner = 8192, .ssm_heads = 128, .ssm_groups = 8}},
    {NULL, {0}},
};
#define NEMOTRON SSM2, .d_head = 128, .ssm_groups = 8, .n_vocab = 131072
#define NANO_9B .n_embd = 4480, .n_head = 40, .n_head_kv = 8, .n_ff = 15680, .ssm_inner = 10240, .ssm_heads = 128
#define NANO_30B .n_embd = 2688, .n_head = 32, .n_head_kv = 2, .ssm_inner = 4096, .ssm_heads = 64, .n_expert = 128, .n_expert_used = 6, .n_ff_exp = 1856, .n_ff_shexp = 3712, .expert_scale = 2.5f
static const ch_synth_preset_row nemotron_h[] = {
    {"tiny", {TINY, TINY_HEADS, TINY_SSM2(120), .pattern = "mfmaf", .n_layer = 5}},
    {"bench", {NEMOTRON, NANO_9B, .pattern = "mfmfmafm", .n_layer = 8}},
    {"9b-v2", {NEMOTRON, NANO_9B, .pattern = "mfmfmfmmfmfmfmafmfmfmafmfmfmfmafmfmfmfmafmfmmfmfmfmfmfmf", .n_layer = 56}},
    {NULL, {0}},
};
static const ch_synth_preset_row nemotron_h_moe[] = {
    {"tiny", {TINY, TINY_HEADS, TINY_SSM2(120), TINY_MOE, .n_ff_shexp = 80, .expert_scale = 2.5f, .pattern = "mema", .n_layer = 6}},
    {"tiny-latent", {TINY, TINY_HEADS, TINY_SSM2(120), TINY_MOE, .n_ff_shexp = 80, .expert_scale = 2.5f, .n_latent = 40, .pattern = "mema", .n_layer = 6}},
    {"bench", {NEMOTRON, NANO_30B, .pattern = "memema", .n_layer = 6}},
    {"30b-a3b", {NEMOTRON, NANO_30B, .pattern = "mememaemememaemememaemememaemememaememememaememememe", .n_layer = 52}},
    {NULL, {0}},
};
#define GRANITE SSM2, .n_vocab = 100352, .ssm_groups = 1, .embd_scale = 12, .residual_scale = 0.22f, .rope_base = 10000, .tied = true
static const ch_synth_preset_row granitehybrid[] = {
    {"tiny", {TINY, TINY_HEADS, TINY_SSM2(192), .pattern = "mam", .n_layer = 4, .embd_scale = 3, .residual_scale = 0.6f, .logit_scale = 1.7f, .attn_scale = 0.17f, .tied = true}},
    {"tiny-moe", {TINY, TINY_HEADS, TINY_SSM2(192), TINY_MOE, .n_ff_shexp = 80, .pattern = "mam", .n_layer = 4, .embd_scale = 3, .residual_scale = 0.6f, .logit_scale = 1.7f, .attn_scale = 0.17f, .rotate = true}},
    {"bench", {GRANITE, .pattern = "mmmmmmmmmmammammmammmmmmmmmammmm", .n_layer = 32, .n_embd = 768, .n_head = 12, .n_head_kv = 4, .d_head = 64, .ssm_inner = 1536, .ssm_heads = 48, .n_ff = 2048, .logit_scale = 3, .attn_scale = 0.015625f}},
    {"350m", {GRANITE, .pattern = "mmmmmmmmmmammammmammmmmmmmmammmm", .n_layer = 32, .n_embd = 768, .n_head = 12, .n_head_kv = 4, .d_head = 64, .ssm_inner = 1536, .ssm_heads = 48, .n_ff = 2048, .logit_scale = 3, .attn_scale = 0.015625f}},
    {"1b", {GRANITE, .pattern = "mmmmmammmm", .n_layer = 40, .n_embd = 1536, .n_head = 12, .n_head_kv = 4, .d_head = 128, .ssm_inner = 3072, .ssm_heads = 48, .n_ff = 4096, .logit_scale = 6, .attn_scale = 0.0078125f}},
    {"tiny-7b-a1b", {GRANITE, .pattern = "mmmmmammmm", .n_layer = 40, .n_embd = 1536, .n_head = 12, .n_head_kv = 4, .d_head = 128, .ssm_inner = 3072, .ssm_heads = 48, .n_ff = 512, .n_ff_exp = 512, .n_ff_shexp = 1024, .n_expert = 64, .n_expert_used = 6, .logit_scale = 6, .attn_scale = 0.0078125f}},
    {NULL, {0}},
};
static const ch_synth_preset_row falcon_h1[] = {
    {"tiny", {TINY, TINY_HEADS, TINY_SSM2(120), .pattern = "p", .n_layer = 3}},
    {"tiny-gate", {TINY, TINY_HEADS, TINY_SSM2(120), .pattern = "p", .n_layer = 3, .gate_only = true}},
    {"bench", {SSM2, .pattern = "p", .n_layer = 36, .n_embd = 1024, .n_vocab = 32784, .n_head = 8, .n_head_kv = 2, .d_head = 64, .n_ff = 2048, .ssm_inner = 1536, .ssm_heads = 24, .ssm_groups = 1, .rope_base = 1e11f, .gate_only = true}},
    {"0.5b", {SSM2, .pattern = "p", .n_layer = 36, .n_embd = 1024, .n_vocab = 32784, .n_head = 8, .n_head_kv = 2, .d_head = 64, .n_ff = 2048, .ssm_inner = 1536, .ssm_heads = 24, .ssm_groups = 1, .rope_base = 1e11f, .gate_only = true}},
    {"7b", {SSM2, .pattern = "p", .n_layer = 44, .n_embd = 3072, .n_vocab = 130048, .n_head = 12, .n_head_kv = 2, .d_head = 128, .n_ff = 12288, .ssm_inner = 3072, .ssm_heads = 24, .ssm_groups = 1, .rope_base = 1e11f}},
    {NULL, {0}},
};
#define JAMBA SSM1, .n_embd = 4096, .n_vocab = 65536, .n_head = 32, .n_head_kv = 8, .d_head = 128, .n_ff = 14336, .n_ff_exp = 14336, .n_expert = 16, .n_expert_used = 2, .ssm_inner = 8192, .ssm_rank = 256
static const ch_synth_preset_row jamba[] = {
    {"tiny", {TINY, TINY_HEADS, TINY_MOE, .pattern = "mam", .n_layer = 4, .ssm_inner = 192, .ssm_rank = 7, .tied = true}},
    {"bench", {JAMBA, .pattern = "ma", .n_layer = 2}},
    {"mini-52b", {JAMBA, .pattern = "mmmmammm", .n_layer = 32}},
    {NULL, {0}},
};
#define PLAMO .ssm_conv = 4, .ssm_d_state = 64, .rms_eps = 1e-6f, .n_ctx = 1 << 20, .n_embd = 2048, .n_vocab = 100000, .n_head = 16, .n_head_kv = 4, .d_head = 128, .rope_base = 10000, .n_ff = 8192, .ssm_inner = 4096, .ssm_heads = 32, .ssm_groups = 1, .tied = true
static const ch_synth_preset_row plamo2[] = {
    {"tiny", {TINY, TINY_HEADS, .ssm_inner = 120, .ssm_heads = 6, .ssm_groups = 1, .pattern = "ma", .n_layer = 4}},
    {"tiny-arrays", {TINY, TINY_HEADS, .ssm_inner = 120, .ssm_heads = 6, .ssm_groups = 1, .pattern = "ma", .n_layer = 4, .head_arrays = true}},
    {"bench", {PLAMO, .pattern = "ma", .n_layer = 8}},
    {"1b", {PLAMO, .pattern = "ma", .n_layer = 16}},
    {NULL, {0}},
};

const ch_synth_arch_row ch_synth_ssm_archs[CH_SYNTH_N_SSM] = {
    {"mamba", mamba, &ch_synth_ssm_maker},
    {"mamba2", mamba2, &ch_synth_ssm_maker},
    {"nemotron_h", nemotron_h, &ch_synth_ssm_maker},
    {"nemotron_h_moe", nemotron_h_moe, &ch_synth_ssm_maker},
    {"granitehybrid", granitehybrid, &ch_synth_ssm_maker},
    {"falcon-h1", falcon_h1, &ch_synth_ssm_maker},
    {"jamba", jamba, &ch_synth_ssm_maker},
    {"plamo2", plamo2, &ch_synth_ssm_maker},
};


// ---- tensors ----------------------------------------------------------------------------------------------------------
static void add_conv(ch_synth_builder *b, int32_t n_channel, bool bias) {
    ch_synth_add_matrix_as(b, "ssm_conv1d.weight", CH_TYPE_F32, b->s->ssm_conv, n_channel, 0, 1);
    if (bias) ch_synth_add_vector(b, "ssm_conv1d.bias", n_channel, CH_SYNTH_NORMAL, 0.2f);
}

static void add_mamba1(ch_synth_builder *b, bool norms) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, di = s->ssm_inner, ds = s->ssm_d_state, r = s->ssm_rank;
    ch_synth_add_matrix(b, "ssm_in.weight", d, 2 * di);
    add_conv(b, di, true);
    ch_synth_add_matrix_as(b, "ssm_x.weight", b->type, di, r + 2 * ds, 0, 2);
    ch_synth_add_matrix(b, "ssm_dt.weight", r, di);
    ch_synth_add_vector(b, "ssm_dt.bias", di, CH_SYNTH_DT_BIAS, 1);
    ch_synth_add_plane(b, "ssm_a", ds, di, CH_SYNTH_DECAY, 1);
    ch_synth_add_vector(b, "ssm_d", di, CH_SYNTH_NEAR, 1);
    ch_synth_add_matrix(b, "ssm_out.weight", di, d);
    if (!norms) return;
    ch_synth_add_norm(b, "ssm_dt_norm.weight", r);
    ch_synth_add_norm(b, "ssm_b_norm.weight", ds);
    ch_synth_add_norm(b, "ssm_c_norm.weight", ds);
}

static void add_mamba2(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, di = s->ssm_inner, nh = s->ssm_heads, xbc = di + 2 * s->ssm_groups * s->ssm_d_state;
    ch_synth_add_matrix(b, "ssm_in.weight", d, di + xbc + nh);
    add_conv(b, xbc, true);
    ch_synth_add_vector(b, "ssm_dt.bias", nh, CH_SYNTH_DT_BIAS, 1);
    ch_synth_add_plane(b, "ssm_a", 1, nh, CH_SYNTH_DECAY, 1);
    ch_synth_add_plane(b, "ssm_d", 1, nh, CH_SYNTH_NEAR, 1);
    if (!s->gate_only) ch_synth_add_plane(b, "ssm_norm.weight", di / s->ssm_groups, s->ssm_groups, CH_SYNTH_NEAR, 1);
    ch_synth_add_matrix(b, "ssm_out.weight", di, d);
}

static void add_plamo_mamba(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, di = s->ssm_inner, ds = s->ssm_d_state, nh = s->ssm_heads, r = d / 16 > 64 ? d / 16 : 64;
    ch_synth_add_matrix(b, "ssm_in.weight", d, 2 * di);
    add_conv(b, di, false);
    ch_synth_add_matrix_as(b, "ssm_x.weight", b->type, di, r + 2 * ds, 0, 2);
    ch_synth_add_matrix(b, "ssm_dt.weight", r, nh);
    ch_synth_add_vector(b, "ssm_dt.bias", nh, CH_SYNTH_DT_BIAS, 1);
    ch_synth_add_vector(b, "ssm_a", nh, CH_SYNTH_DECAY, 1);
    ch_synth_add_vector(b, "ssm_d", nh, CH_SYNTH_NEAR, 1);
    ch_synth_add_norm(b, "ssm_dt_norm", r);
    ch_synth_add_norm(b, "ssm_b_norm", ds);
    ch_synth_add_norm(b, "ssm_c_norm", ds);
    ch_synth_add_matrix(b, "ssm_out.weight", di, d);
}

static void add_attention(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, q = s->d_head * s->n_head, kv = s->d_head * s->n_head_kv;
    if (ch_synth_is_arch(s, "plamo2")) {
        ch_synth_add_matrix(b, "attn_qkv.weight", d, q + 2 * kv);
        ch_synth_add_plane(b, "attn_q_norm.weight", s->d_head, s->n_head, CH_SYNTH_NEAR, 1.5f);
        ch_synth_add_plane(b, "attn_k_norm.weight", s->d_head, s->n_head_kv, CH_SYNTH_NEAR, 1);
    } else {
        ch_synth_add_matrix(b, "attn_q.weight", d, q);
        ch_synth_add_matrix(b, "attn_k.weight", d, kv);
        ch_synth_add_matrix(b, "attn_v.weight", d, kv);
    }
    ch_synth_add_matrix(b, "attn_output.weight", q, d);
}

static void add_experts(ch_synth_builder *b, bool gate) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, in = s->n_latent ? s->n_latent : d, ff = ch_synth_is_arch(s, "jamba") ? s->n_ff : s->n_ff_exp;
    ch_synth_add_matrix_as(b, "ffn_gate_inp.weight", CH_TYPE_F32, d, s->n_expert, 0, CH_SYNTH_ROUTER_GAIN);
    if (!gate) ch_synth_add_vector(b, "exp_probs_b.bias", s->n_expert, CH_SYNTH_NORMAL, 0.3f);
    if (s->n_latent) {
        ch_synth_add_matrix(b, "ffn_latent_down.weight", d, in);
        ch_synth_add_matrix(b, "ffn_latent_up.weight", in, d);
    }
    if (gate) ch_synth_add_matrix_as(b, "ffn_gate_exps.weight", b->type, in, ff, s->n_expert, 1);
    ch_synth_add_matrix_as(b, "ffn_up_exps.weight", b->type, in, ff, s->n_expert, 1);
    ch_synth_add_matrix_as(b, "ffn_down_exps.weight", b->type, ff, in, s->n_expert, 1);
    if (s->n_ff_shexp) ch_synth_add_swiglu(b, "_shexp", s->n_ff_shexp, gate);
}

static void add_layer(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    char kind = ch_synth_layer_letter(s, b->layer);
    bool plamo = ch_synth_is_arch(s, "plamo2"), nemotron = strncmp(s->arch, "nemotron", 8) == 0, one_half = nemotron || strncmp(s->arch, "mamba", 5) == 0;
    ch_synth_add_norm(b, "attn_norm.weight", s->n_embd);
    if (kind == 'a' || kind == 'p') add_attention(b);
    if (kind == 'm' || kind == 'p') {
        if (plamo) add_plamo_mamba(b);
        else if (s->ssm_heads) add_mamba2(b);
        else add_mamba1(b, ch_synth_is_arch(s, "jamba"));
    }
    if (kind == 'f') ch_synth_add_swiglu(b, "", s->n_ff, false);
    if (kind == 'e') add_experts(b, false);
    if (one_half) return;
    if (plamo) ch_synth_add_norm(b, "post_attention_norm", s->n_embd);
    ch_synth_add_norm(b, ch_synth_is_arch(s, "falcon-h1") ? "ffn_norm" : "ffn_norm.weight", s->n_embd);
    if (plamo) {
        ch_synth_add_matrix(b, "ffn_up.weight", s->n_embd, 2 * s->n_ff);
        ch_synth_add_matrix(b, "ffn_down.weight", s->n_ff, s->n_embd);
        ch_synth_add_norm(b, "post_ffw_norm", s->n_embd);
    } else if (s->n_expert && !(ch_synth_is_arch(s, "jamba") && b->layer % 2 == 0)) {
        add_experts(b, true);
    } else {
        ch_synth_add_swiglu(b, "", s->n_ff, true);
    }
}

// ---- keys -------------------------------------------------------------------------------------------------------------
static void put_moe_keys(ch_synth_keys *k) {
    const ch_synth_shape *s = k->s;
    bool nemotron = ch_synth_is_arch(s, "nemotron_h_moe");
    ch_synth_key_u32(k, "expert_count", s->n_expert);
    ch_synth_key_u32(k, "expert_used_count", s->n_expert_used);
    if (ch_synth_is_arch(s, "jamba")) return;
    ch_synth_key_u32(k, "expert_feed_forward_length", s->n_ff_exp);
    if (s->n_ff_shexp) ch_synth_key_u32(k, "expert_shared_feed_forward_length", s->n_ff_shexp);
    if (!nemotron) return;
    ch_synth_key_u32(k, "expert_shared_count", 1);
    ch_synth_key_bool(k, "expert_weights_norm", true);
    ch_synth_key_f32(k, "expert_weights_scale", s->expert_scale);
    ch_synth_key_u32(k, "expert_group_count", 1);
    ch_synth_key_u32(k, "expert_group_used_count", 1);
    if (s->n_latent) ch_synth_key_u32(k, "moe_latent_size", s->n_latent);
}

static void put_attention_keys(ch_synth_keys *k) {
    const ch_synth_shape *s = k->s;
    if (s->head_arrays) ch_synth_key_per_layer(k, "attention.head_count", "a", s->n_head);
    else ch_synth_key_u32(k, "attention.head_count", s->n_head); // the peers' tools take long over arrays with zeros
    if (ch_synth_is_arch(s, "falcon-h1")) ch_synth_key_u32(k, "attention.head_count_kv", s->n_head_kv);
    else ch_synth_key_per_layer(k, "attention.head_count_kv", "a", s->n_head_kv);
    ch_synth_key_u32(k, "attention.key_length", s->d_head);
    ch_synth_key_u32(k, "attention.value_length", s->d_head);
    ch_synth_key_u32(k, "rope.dimension_count", s->d_head);
    ch_synth_key_f32(k, "rope.freq_base", s->rope_base);
}

static int put_keys(ch_gguf_writer *w, const ch_synth_shape *s) {
    ch_synth_keys k = {w, s, 0};
    bool attention = s->n_head > 0;
    ch_synth_key_u32(&k, "context_length", s->n_ctx);
    ch_synth_key_u32(&k, "embedding_length", s->n_embd);
    ch_synth_key_u32(&k, "block_count", s->n_layer);
    ch_synth_key_u32(&k, "vocab_size", s->n_vocab);
    ch_synth_key_f32(&k, "attention.layer_norm_rms_epsilon", s->rms_eps);
    if (strncmp(s->arch, "nemotron", 8) == 0) ch_synth_key_f32(&k, "attention.layer_norm_epsilon", s->rms_eps); // of its MTP head
    if (strncmp(s->arch, "nemotron", 8) == 0) ch_synth_key_per_layer(&k, "feed_forward_length", "fe", s->n_expert ? s->n_ff_exp : s->n_ff);
    else ch_synth_key_u32(&k, "feed_forward_length", !attention ? 0 : s->n_expert && !ch_synth_is_arch(s, "jamba") ? s->n_ff_exp : s->n_ff);
    if (attention) put_attention_keys(&k);
    else ch_synth_key_u32(&k, "attention.head_count", 0);
    ch_synth_key_u32(&k, "ssm.conv_kernel", s->ssm_conv);
    ch_synth_key_u32(&k, "ssm.state_size", s->ssm_d_state);
    ch_synth_key_u32(&k, "ssm.inner_size", s->ssm_inner);
    ch_synth_key_u32(&k, "ssm.time_step_rank", s->ssm_heads ? s->ssm_heads : s->ssm_rank);
    if (s->ssm_heads) ch_synth_key_u32(&k, "ssm.group_count", ch_synth_is_arch(s, "plamo2") ? 0 : s->ssm_groups); // as its converter writes it
    if (ch_synth_is_arch(s, "mamba")) ch_synth_key_bool(&k, "ssm.dt_b_c_rms", s->bare_norms);
    if (s->n_expert) put_moe_keys(&k);
    if (ch_synth_is_arch(s, "granitehybrid")) ch_synth_key_bool(&k, "rope.scaling.finetuned", s->rotate);
    ch_synth_key_f32(&k, "embedding_scale", s->embd_scale);
    ch_synth_key_f32(&k, "residual_scale", s->residual_scale);
    ch_synth_key_f32(&k, "logit_scale", s->logit_scale);
    ch_synth_key_f32(&k, "attention.scale", s->attn_scale);
    return k.rc;
}

// ---- check ------------------------------------------------------------------------------------------------------------
static int check_shape(const ch_synth_shape *s, ch_error *e) {
    bool attention = s->n_head > 0, moe = s->n_expert > 0;
    const ch_synth_limit row[] = {
        {"n-layer", s->n_layer, 1, 512},
        {"n-embd", s->n_embd, 8, 1 << 16},
        {"n-vocab", s->n_vocab, CH_SYNTH_MIN_VOCAB, 1 << 20},
        {"n-ctx", s->n_ctx, 1, 1 << 24},
        {"n-head", attention ? s->n_head : 1, 1, 1024},
        {"n-head-kv", attention ? s->n_head_kv : 1, 1, 1024},
        {"d-head", attention ? s->d_head : 4, 4, 1024},
        {"n-ff", attention ? s->n_ff : 1, moe ? 0 : 1, 1 << 18},
        {"n-expert-used", moe ? s->n_expert_used : 1, 1, moe ? s->n_expert : 1},
        {"n-ff-exp", moe ? s->n_ff_exp : 1, 1, 1 << 18},
        {"n-ff-shexp", s->n_ff_shexp, 0, 1 << 18},
        {"ssm-d-state", s->ssm_d_state, 1, 1024},
        {"ssm-conv", s->ssm_conv, 2, 16},
        {"nextn", s->n_nextn, 0, 0},
    };
    int rc = ch_synth_check_limits(row, sizeof row / sizeof *row, e);
    if (rc) return rc;
    if (attention && s->n_head % s->n_head_kv != 0)
        return ch_error_set(e, CH_ERANGE, "n-head: expected a multiple of n-head-kv (%d), found %d", s->n_head_kv, s->n_head);
    if (attention && s->d_head % 2 != 0) return ch_error_set(e, CH_ERANGE, "d-head: expected an even number, found %d", s->d_head);
    bool doubled = ch_synth_is_arch(s, "mamba") || ch_synth_is_arch(s, "jamba") || ch_synth_is_arch(s, "granitehybrid");
    if (doubled && s->ssm_inner != 2 * s->n_embd)
        return ch_error_set(e, CH_ERANGE, "n-embd: expected half the inner size (%d) of %s, found %d", s->ssm_inner, s->arch, s->n_embd);
    return 0;
}

const ch_synth_maker ch_synth_ssm_maker = {add_layer, put_keys, check_shape};
