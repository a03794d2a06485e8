// Plain transformers (qwen2, qwen3, granite and their mixtures of experts), LFM2 and Kimi-Linear: presets, tensors and keys.
#include <math.h>
#include <string.h>

#include "synth/part.h"

// Tiny: shapes that differ wherever two sizes might be mixed up: three query heads per key head, a head that is not the width
// over the heads where the family allows it, experts of another width than the shared ones.
#define TINY .n_embd = 96, .n_vocab = 512, .n_ctx = 2048, .n_ff = 160, .n_head = 6, .n_head_kv = 2, .rope_base = 100000
#define TINY_NARROW TINY, .d_head = 16, .n_rot = 16
#define TINY_WIDE TINY, .d_head = 24, .n_rot = 24
#define TINY_LAYERS .pattern = "a", .n_layer = 3
#define TINY_MOE .n_expert = 5, .n_expert_used = 2, .n_ff_exp = 48
#define TINY_SCALES .embd_scale = 3, .residual_scale = 0.6f, .logit_scale = 1.7f, .attn_scale = 0.17f, .rms_eps = 1e-5f

#define QWEN .pattern = "a", .n_vocab = 151936, .rope_base = 1e6f, .rms_eps = 1e-6f
#define QWEN2_05B QWEN, .n_ctx = 32768, .n_layer = 24, .n_embd = 896, .n_head = 14, .n_head_kv = 2, .d_head = 64, .n_rot = 64, .n_ff = 4864, .head_bias = true, .tied = true
static const ch_synth_preset_row qwen2[] = {
    {"tiny", {TINY_NARROW, TINY_LAYERS, .head_bias = true, .rms_eps = 1e-6f, .tied = true}},
    {"bench", {QWEN2_05B}},
    {"0.5b", {QWEN2_05B}},
    {NULL, {0}},
};
#define QWEN2_MOE QWEN, .n_ctx = 32768, .n_embd = 2048, .n_head = 16, .n_head_kv = 16, .d_head = 128, .n_rot = 128, .n_ff = 5632, .n_expert = 60, .n_expert_used = 4, .n_ff_exp = 1408, .n_ff_shexp = 5632, .head_bias = true
static const ch_synth_preset_row qwen2moe[] = {
    {"tiny", {TINY_NARROW, TINY_LAYERS, TINY_MOE, .n_ff_shexp = 80, .head_bias = true, .rms_eps = 1e-6f}},
    {"bench", {QWEN2_MOE, .n_layer = 6}},
    {"14b-a2.7b", {QWEN2_MOE, .n_layer = 24}},
    {NULL, {0}},
};
#define QWEN3_06B QWEN, .n_ctx = 40960, .n_layer = 28, .n_embd = 1024, .n_head = 16, .n_head_kv = 8, .d_head = 128, .n_rot = 128, .n_ff = 3072, .tied = true
static const ch_synth_preset_row qwen3[] = {
    {"tiny", {TINY_WIDE, TINY_LAYERS, .rms_eps = 1e-6f, .tied = true}},
    {"bench", {QWEN3_06B}},
    {"0.6b", {QWEN3_06B}},
    {NULL, {0}},
};
#define QWEN3_MOE QWEN, .n_ctx = 40960, .n_embd = 2048, .n_head = 32, .n_head_kv = 4, .d_head = 128, .n_rot = 128, .n_ff = 6144, .n_expert = 128, .n_expert_used = 8, .n_ff_exp = 768
static const ch_synth_preset_row qwen3moe[] = {
    {"tiny", {TINY_WIDE, TINY_LAYERS, TINY_MOE, .rms_eps = 1e-6f}},
    {"bench", {QWEN3_MOE, .n_layer = 6}},
    {"30b-a3b", {QWEN3_MOE, .n_layer = 48}},
    {NULL, {0}},
};
#define GRANITE .pattern = "a", .n_vocab = 49155, .n_head_kv = 8, .d_head = 64, .n_rot = 64, .embd_scale = 12, .residual_scale = 0.22f, .attn_scale = 0.015625f, .rotate = true, .tied = true
#define GRANITE_2B GRANITE, .n_ctx = 131072, .n_layer = 40, .n_embd = 2048, .n_head = 32, .n_ff = 8192, .logit_scale = 8, .rope_base = 1e7f, .rms_eps = 1e-5f
static const ch_synth_preset_row granite[] = {
    {"tiny", {TINY_NARROW, TINY_LAYERS, TINY_SCALES, .rotate = true, .tied = true}},
    {"tiny-nope", {TINY_NARROW, TINY_LAYERS, TINY_SCALES}},
    {"bench", {GRANITE_2B}},
    {"2b", {GRANITE_2B}},
    {NULL, {0}},
};
#define GRANITE_1B GRANITE, .n_ctx = 4096, .n_layer = 24, .n_embd = 1024, .n_head = 16, .n_ff = 512, .n_expert = 32, .n_expert_used = 8, .n_ff_exp = 512, .logit_scale = 6, .rope_base = 10000, .rms_eps = 1e-6f
static const ch_synth_preset_row granitemoe[] = {
    {"tiny", {TINY_NARROW, TINY_LAYERS, TINY_SCALES, TINY_MOE, .rotate = true}},
    {"tiny-shared", {TINY_NARROW, TINY_LAYERS, TINY_SCALES, TINY_MOE, .n_ff_shexp = 80, .rotate = true}},
    {"bench", {GRANITE_1B}},
    {"1b-a400m", {GRANITE_1B}},
    {NULL, {0}},
};
#define LFM2 .n_ctx = 128000, .n_embd = 2048, .n_vocab = 65536, .n_head = 32, .n_head_kv = 8, .d_head = 64, .n_rot = 64, .ssm_conv = 3, .rope_base = 1e6f, .rms_eps = 1e-5f, .tied = true
#define LFM2_12B LFM2, .pattern = "ccaccaccacacacac", .n_layer = 16, .n_ff = 8192
static const ch_synth_preset_row lfm2[] = {
    {"tiny", {TINY_NARROW, .pattern = "cac", .n_layer = 3, .ssm_conv = 3, .rms_eps = 1e-5f, .tied = true}},
    {"bench", {LFM2_12B}},
    {"1.2b", {LFM2_12B}},
    {NULL, {0}},
};
#define LFM2_8B LFM2, .pattern = "ccacccacccacccacccaccacc", .n_ff = 7168, .n_expert = 32, .n_expert_used = 4, .n_ff_exp = 1792, .n_dense = 2
static const ch_synth_preset_row lfm2moe[] = {
    {"tiny", {TINY_NARROW, TINY_MOE, .pattern = "cacc", .n_layer = 4, .n_dense = 1, .ssm_conv = 3, .rms_eps = 1e-5f, .tied = true}},
    {"bench", {LFM2_8B, .n_layer = 8}},
    {"8b-a1b", {LFM2_8B, .n_layer = 24}},
    {NULL, {0}},
};
#define KIMI .pattern = "kkklkkklkkklkkklkkklkkklkkl", .n_ctx = 1 << 20, .n_embd = 2304, .n_vocab = 163840, .n_head = 32, .n_head_kv = 1, .d_head = 192, .n_rot = 64, .d_latent = 512, .d_value = 128, .ssm_d_state = 128, .ssm_conv = 4, .n_ff = 9216, .n_dense = 1, .n_expert = 256, .n_expert_used = 8, .n_ff_exp = 1024, .n_shared = 1, .expert_scale = 2.446f, .rms_eps = 1e-5f
static const ch_synth_preset_row kimi_linear[] = {
    {"tiny", {.pattern = "kkl", .n_layer = 4, .n_embd = 96, .n_vocab = 512, .n_ctx = 2048, .n_head = 6, .n_head_kv = 1, .d_head = 28, .n_rot = 8, .d_latent = 40, .d_value = 16, .ssm_d_state = 24, .ssm_conv = 4, .n_ff = 160, .n_dense = 1, TINY_MOE, .n_shared = 1, .expert_scale = 2.446f, .rms_eps = 1e-5f}},
    {"tiny-wide", {.pattern = "kkl", .n_layer = 4, .n_embd = 96, .n_vocab = 512, .n_ctx = 2048, .n_head = 6, .n_head_kv = 1, .d_head = 40, .n_rot = 16, .d_latent = 48, .d_value = 16, .ssm_d_state = 24, .ssm_conv = 4, .n_ff = 160, .n_dense = 1, TINY_MOE, .n_shared = 1, .expert_scale = 2.446f, .rms_eps = 1e-5f}},
    {"bench", {KIMI, .n_layer = 4}},
    {"48b-a3b", {KIMI, .n_layer = 27}},
    {NULL, {0}},
};

const ch_synth_arch_row ch_synth_family_archs[CH_SYNTH_N_FAMILIES] = {
    {"qwen2", qwen2, &ch_synth_family_maker},
    {"qwen2moe", qwen2moe, &ch_synth_family_maker},
    {"qwen3", qwen3, &ch_synth_family_maker},
    {"qwen3moe", qwen3moe, &ch_synth_family_maker},
    {"granite", granite, &ch_synth_family_maker},
    {"granitemoe", granitemoe, &ch_synth_family_maker},
    {"lfm2", lfm2, &ch_synth_family_maker},
    {"lfm2moe", lfm2moe, &ch_synth_family_maker},
    {"kimi-linear", kimi_linear, &ch_synth_family_maker},
};

static bool is_kimi(const ch_synth_shape *s) { return ch_synth_is_arch(s, "kimi-linear"); }
static bool is_lfm2(const ch_synth_shape *s) { return strncmp(s->arch, "lfm2", 4) == 0; }
static bool is_granite(const ch_synth_shape *s) { return strncmp(s->arch, "granite", 7) == 0; }

// ---- tensors ----------------------------------------------------------------------------------------------------------
static void add_attention(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, q = s->d_head * s->n_head, kv = s->d_head * s->n_head_kv;
    const struct {
        const char *weight, *bias;
        int32_t n;
    } part[] = {{"attn_q.weight", "attn_q.bias", q}, {"attn_k.weight", "attn_k.bias", kv}, {"attn_v.weight", "attn_v.bias", kv}};
    for (size_t i = 0; i < 3; i++) {
        ch_synth_add_matrix(b, part[i].weight, d, part[i].n);
        if (s->head_bias) ch_synth_add_vector(b, part[i].bias, part[i].n, CH_SYNTH_NORMAL, 0.5f);
    }
    ch_synth_add_matrix(b, "attn_output.weight", q, d);
    if (!is_lfm2(s) && strncmp(s->arch, "qwen3", 5) != 0) return;
    ch_synth_add_vector(b, "attn_q_norm.weight", s->d_head, CH_SYNTH_NEAR, 1.5f);
    ch_synth_add_norm(b, "attn_k_norm.weight", s->d_head);
}

static void add_short_conv(ch_synth_builder *b) {
    int32_t d = b->s->n_embd;
    ch_synth_add_matrix(b, "shortconv.in_proj.weight", d, 3 * d);
    ch_synth_add_matrix_as(b, "shortconv.conv.weight", CH_TYPE_F32, b->s->ssm_conv, d, 0, 1);
    ch_synth_add_matrix(b, "shortconv.out_proj.weight", d, d);
}

// Convolutions have a unit dimension in the middle, as its converter writes them.
static void add_kda(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, low = s->ssm_d_state, n = s->n_head * low;
    static const char *const name[3][2] = {{"attn_q.weight", "ssm_conv1d_q.weight"},
                                           {"attn_k.weight", "ssm_conv1d_k.weight"},
                                           {"attn_v.weight", "ssm_conv1d_v.weight"}};
    for (size_t i = 0; i < 3; i++) {
        ch_synth_add_matrix(b, name[i][0], d, n);
        ch_synth_add_matrix_as(b, name[i][1], CH_TYPE_F32, s->ssm_conv, 1, n, 1);
    }
    ch_synth_add_matrix(b, "ssm_f_a.weight", d, low);
    ch_synth_add_matrix(b, "ssm_f_b.weight", low, n);
    ch_synth_add_vector(b, "ssm_dt.bias", n, CH_SYNTH_DT_BIAS, 1);
    ch_synth_add_plane(b, "ssm_a", 1, s->n_head, CH_SYNTH_DECAY, 1);
    ch_synth_add_matrix(b, "ssm_beta.weight", d, s->n_head);
    ch_synth_add_matrix(b, "ssm_g_a.weight", d, low);
    ch_synth_add_matrix(b, "ssm_g_b.weight", low, n);
    ch_synth_add_norm(b, "ssm_norm.weight", low);
    ch_synth_add_matrix(b, "attn_output.weight", n, d);
}

static void add_compressed(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    ch_synth_add_matrix(b, "attn_q.weight", s->n_embd, s->n_head * s->d_head);
    ch_synth_add_matrix(b, "attn_kv_a_mqa.weight", s->n_embd, s->d_latent + s->n_rot);
    ch_synth_add_norm(b, "attn_kv_a_norm.weight", s->d_latent);
    ch_synth_add_matrix_as(b, "attn_k_b.weight", b->type, s->d_head - s->n_rot, s->d_latent, s->n_head, 1);
    ch_synth_add_matrix_as(b, "attn_v_b.weight", b->type, s->d_latent, s->d_value, s->n_head, 1);
    ch_synth_add_matrix(b, "attn_output.weight", s->n_head * s->d_value, s->n_embd);
}

static void add_experts(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    int32_t d = s->n_embd, ff = s->n_ff_exp, shared = s->n_shared ? s->n_shared * ff : s->n_ff_shexp;
    ch_synth_add_matrix_as(b, "ffn_gate_inp.weight", CH_TYPE_F32, d, s->n_expert, 0, CH_SYNTH_ROUTER_GAIN);
    if (is_lfm2(s) || is_kimi(s)) ch_synth_add_vector(b, "exp_probs_b.bias", s->n_expert, CH_SYNTH_NORMAL, 0.3f);
    ch_synth_add_matrix_as(b, "ffn_gate_exps.weight", b->type, d, ff, s->n_expert, 1);
    ch_synth_add_matrix_as(b, "ffn_up_exps.weight", b->type, d, ff, s->n_expert, 1);
    ch_synth_add_matrix_as(b, "ffn_down_exps.weight", b->type, ff, d, s->n_expert, 1);
    if (shared) ch_synth_add_swiglu(b, "_shexp", shared, true);
    if (ch_synth_is_arch(s, "qwen2moe")) ch_synth_add_vector(b, "ffn_gate_inp_shexp.weight", d, CH_SYNTH_NORMAL, 1 / sqrtf((float)d));
}

static void add_layer(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    ch_synth_add_norm(b, "attn_norm.weight", s->n_embd);
    switch (ch_synth_layer_letter(s, b->layer)) {
    case 'c': add_short_conv(b); break;
    case 'k': add_kda(b); break;
    case 'l': add_compressed(b); break;
    default: add_attention(b); break;
    }
    ch_synth_add_norm(b, "ffn_norm.weight", s->n_embd);
    if (s->n_expert && b->layer >= s->n_dense) add_experts(b);
    else ch_synth_add_swiglu(b, "", s->n_ff, true);
}

// ---- keys -------------------------------------------------------------------------------------------------------------
static void put_moe_keys(ch_synth_keys *k) {
    const ch_synth_shape *s = k->s;
    ch_synth_key_u32(k, "expert_count", s->n_expert);
    ch_synth_key_u32(k, "expert_used_count", s->n_expert_used);
    if (!is_granite(s)) ch_synth_key_u32(k, "expert_feed_forward_length", s->n_ff_exp);
    if (s->n_ff_shexp) ch_synth_key_u32(k, "expert_shared_feed_forward_length", s->n_ff_shexp);
    if (!is_lfm2(s) && !is_kimi(s)) return;
    ch_synth_key_u32(k, "leading_dense_block_count", s->n_dense);
    ch_synth_key_u32(k, "expert_gating_func", 2); // sigmoid
    if (!is_kimi(s)) return;
    ch_synth_key_u32(k, "expert_shared_count", s->n_shared);
    ch_synth_key_bool(k, "expert_weights_norm", true);
    ch_synth_key_f32(k, "expert_weights_scale", s->expert_scale);
}

static void put_attention_keys(ch_synth_keys *k) {
    const ch_synth_shape *s = k->s;
    bool kimi = is_kimi(s);
    ch_synth_key_u32(k, "attention.head_count", s->n_head);
    if (kimi || is_lfm2(s)) ch_synth_key_per_layer(k, "attention.head_count_kv", "al", s->n_head_kv);
    else ch_synth_key_u32(k, "attention.head_count_kv", s->n_head_kv);
    ch_synth_key_u32(k, "attention.key_length", kimi ? s->d_latent + s->n_rot : s->d_head);
    ch_synth_key_u32(k, "attention.value_length", kimi ? s->d_latent : s->d_head);
    ch_synth_key_u32(k, "rope.dimension_count", s->n_rot);
    ch_synth_key_f32(k, "rope.freq_base", s->rope_base);
    if (!kimi) return;
    ch_synth_key_u32(k, "attention.key_length_mla", s->d_head);
    ch_synth_key_u32(k, "attention.value_length_mla", s->d_value);
    ch_synth_key_u32(k, "attention.kv_lora_rank", s->d_latent);
    ch_synth_key_u32(k, "kda.head_dim", s->ssm_d_state);
    ch_synth_key_u32(k, "ssm.conv_kernel", s->ssm_conv);
}

static int put_keys(ch_gguf_writer *w, const ch_synth_shape *s) {
    ch_synth_keys k = {w, s, 0};
    ch_synth_key_u32(&k, "context_length", s->n_ctx);
    ch_synth_key_u32(&k, "embedding_length", s->n_embd);
    ch_synth_key_u32(&k, "block_count", s->n_layer);
    ch_synth_key_u32(&k, "vocab_size", s->n_vocab);
    ch_synth_key_f32(&k, "attention.layer_norm_rms_epsilon", s->rms_eps);
    ch_synth_key_u32(&k, "feed_forward_length", s->n_expert && is_granite(s) ? s->n_ff_exp : s->n_ff);
    put_attention_keys(&k);
    if (s->n_expert) put_moe_keys(&k);
    if (is_lfm2(s)) ch_synth_key_u32(&k, "shortconv.l_cache", s->ssm_conv);
    if (is_granite(s) && !s->rotate) ch_synth_key_bool(&k, "rope.scaling.finetuned", false); // absent: rotated
    ch_synth_key_f32(&k, "embedding_scale", s->embd_scale);
    ch_synth_key_f32(&k, "residual_scale", s->residual_scale);
    ch_synth_key_f32(&k, "logit_scale", s->logit_scale);
    ch_synth_key_f32(&k, "attention.scale", s->attn_scale);
    return k.rc;
}

// ---- check ------------------------------------------------------------------------------------------------------------
static int check_shape(const ch_synth_shape *s, ch_error *e) {
    bool moe = s->n_expert > 0, kimi = is_kimi(s), conv = is_lfm2(s) || kimi;
    const ch_synth_limit row[] = {
        {"n-layer", s->n_layer, 1, 512},
        {"n-embd", s->n_embd, 8, 1 << 16},
        {"n-vocab", s->n_vocab, CH_SYNTH_MIN_VOCAB, 1 << 20},
        {"n-ctx", s->n_ctx, 1, 1 << 24},
        {"n-head", s->n_head, 1, 1024},
        {"n-head-kv", s->n_head_kv, 1, 1024},
        {"d-head", s->d_head, 4, 1024},
        {"n-rot", s->n_rot, 2, kimi ? s->d_head - 1 : s->d_head},
        {"n-ff", s->n_ff, 1, 1 << 18},
        {"n-expert", s->n_expert, 0, 1024},
        {"n-expert-used", moe ? s->n_expert_used : 1, 1, moe ? s->n_expert : 1},
        {"n-ff-exp", moe ? s->n_ff_exp : 1, 1, 1 << 18},
        {"n-ff-shexp", s->n_ff_shexp, ch_synth_is_arch(s, "qwen2moe") ? 1 : 0, 1 << 18},
        {"ssm-conv", conv ? s->ssm_conv : 2, 2, 16},
        {"ssm-d-state", kimi ? s->ssm_d_state : 1, 1, 1024},
        {"nextn", s->n_nextn, 0, 0},
    };
    int rc = ch_synth_check_limits(row, sizeof row / sizeof *row, e);
    if (rc) return rc;
    if (s->n_head % s->n_head_kv != 0)
        return ch_error_set(e, CH_ERANGE, "n-head: expected a multiple of n-head-kv (%d), found %d", s->n_head_kv, s->n_head);
    if (s->n_rot % 2 != 0) return ch_error_set(e, CH_ERANGE, "n-rot: expected an even number, found %d", s->n_rot);
    return CH_OK;
}

const ch_synth_maker ch_synth_family_maker = {add_layer, put_keys, check_shape};
