// The tensors of each architecture, with types and the distribution of their values.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "synth/part.h"

#define HEAD_GAIN 2.5f   // deviation of the logits: far from uniform, far from one-hot

ch_type ch_synth_fallback_type(ch_type type, uint64_t n) {
    const ch_type_info *t = ch_quant_type((uint32_t)type);
    if (n % t->n_block == 0) return type;
    ch_type small;
    switch (type) {
    case CH_TYPE_Q4_K: small = CH_TYPE_Q5_0; break;
    case CH_TYPE_Q5_K: small = CH_TYPE_Q5_1; break;
    case CH_TYPE_Q6_K: small = CH_TYPE_Q8_0; break;
    case CH_TYPE_IQ1_S: case CH_TYPE_IQ1_M: case CH_TYPE_IQ2_XXS: case CH_TYPE_IQ2_XS: case CH_TYPE_IQ2_S: case CH_TYPE_IQ3_XXS:
    case CH_TYPE_IQ3_S: case CH_TYPE_IQ4_XS: case CH_TYPE_NVFP4: small = CH_TYPE_IQ4_NL; break;
    default: small = CH_TYPE_Q4_0; break;
    }
    return n % 32 == 0 ? small : CH_TYPE_F16;
}

// Head (or tied embedding) and embedding keep more bits than the rest of a low-bit model, as in released files.
static ch_type head_type(ch_type type) {
    switch (type) {
    case CH_TYPE_F32: case CH_TYPE_F16: case CH_TYPE_BF16: case CH_TYPE_Q8_0: return type;
    case CH_TYPE_MXFP4: case CH_TYPE_NVFP4: return CH_TYPE_Q8_0;
    default: return CH_TYPE_Q6_K;
    }
}

static ch_type embed_type(ch_type type) {
    const ch_type_info *t = ch_quant_type((uint32_t)type);
    switch (type) {
    case CH_TYPE_MXFP4: case CH_TYPE_NVFP4: return CH_TYPE_Q8_0;
    case CH_TYPE_IQ4_XS: case CH_TYPE_IQ4_NL: case CH_TYPE_IQ3_S: return type;
    case CH_TYPE_Q2_K: case CH_TYPE_Q3_K: return type;
    default: return t->n_bytes * 8 < t->n_block * 4 ? CH_TYPE_Q4_K : type;
    }
}

// ---- list -------------------------------------------------------------------------------------------------------------
ch_synth_tensor *ch_synth_add(ch_synth_builder *b, const char *name) {
    ch_synth_list *l = b->l;
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        ch_synth_tensor *more = ch_realloc(l->tensor, cap * sizeof *more);
        if (!more) {
            l->failed = true;
            return NULL;
        }
        l->tensor = more;
        l->cap = cap;
    }
    ch_synth_tensor *t = &l->tensor[l->n++];
    *t = (ch_synth_tensor){.type = CH_TYPE_F32};
    if (b->layer < 0) snprintf(t->name, sizeof t->name, "%s", name);
    else snprintf(t->name, sizeof t->name, "blk.%d.%s", b->layer, name);
    return t;
}

// Vector of n values, always f32.
void ch_synth_add_vector(ch_synth_builder *b, const char *name, int32_t n, ch_synth_kind kind, float scale) {
    ch_synth_tensor *t = ch_synth_add(b, name);
    if (!t) return;
    t->n_dims = 1;
    t->ne[0] = (uint64_t)n;
    t->kind = kind;
    t->scale = scale;
}

// Matrix of n_out rows of n_in weights, `n` of them when n > 0; deviation gain / sqrt(n_in).
void ch_synth_add_matrix_as(ch_synth_builder *b, const char *name, ch_type type, int32_t n_in, int32_t n_out, int32_t n, float gain) {
    ch_synth_tensor *t = ch_synth_add(b, name);
    if (!t) return;
    t->n_dims = n > 0 ? 3 : 2;
    t->ne[0] = (uint64_t)n_in;
    t->ne[1] = (uint64_t)n_out;
    if (n > 0) t->ne[2] = (uint64_t)n;
    t->type = ch_synth_fallback_type(type, (uint64_t)n_in);
    t->scale = gain / sqrtf((float)n_in);
}

void ch_synth_add_matrix(ch_synth_builder *b, const char *name, int32_t n_in, int32_t n_out) {
    ch_synth_add_matrix_as(b, name, b->type, n_in, n_out, 0, 1);
}

void ch_synth_add_norm(ch_synth_builder *b, const char *name, int32_t n) { ch_synth_add_vector(b, name, n, CH_SYNTH_NEAR, 1); }

void ch_synth_add_plane(ch_synth_builder *b, const char *name, int32_t n0, int32_t n1, ch_synth_kind kind, float scale) {
    ch_synth_tensor *t = ch_synth_add(b, name);
    if (!t) return;
    t->n_dims = 2;
    t->ne[0] = (uint64_t)n0, t->ne[1] = (uint64_t)n1;
    t->kind = kind, t->scale = scale;
}

void ch_synth_add_swiglu(ch_synth_builder *b, const char *suffix, int32_t n_ff, bool gate) {
    char name[64];
    snprintf(name, sizeof name, "ffn_gate%s.weight", suffix);
    if (gate) ch_synth_add_matrix(b, name, b->s->n_embd, n_ff);
    snprintf(name, sizeof name, "ffn_up%s.weight", suffix);
    ch_synth_add_matrix(b, name, b->s->n_embd, n_ff);
    snprintf(name, sizeof name, "ffn_down%s.weight", suffix);
    ch_synth_add_matrix(b, name, n_ff, b->s->n_embd);
}

static void add_attention(ch_synth_builder *b, bool gated) {
    const ch_synth_shape *s = b->s;
    int32_t q = s->d_head * s->n_head, kv = s->d_head * s->n_head_kv;
    ch_synth_add_matrix(b, "attn_q.weight", s->n_embd, gated ? 2 * q : q);
    ch_synth_add_matrix(b, "attn_k.weight", s->n_embd, kv);
    ch_synth_add_matrix(b, "attn_v.weight", s->n_embd, kv);
    ch_synth_add_matrix(b, "attn_output.weight", q, s->n_embd);
    if (!gated) return;
    ch_synth_add_vector(b, "attn_q_norm.weight", s->d_head, CH_SYNTH_NEAR, 1.5f); // sharper than uniform attention
    ch_synth_add_vector(b, "attn_k_norm.weight", s->d_head, CH_SYNTH_NEAR, 1);
}

static void add_delta_net(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    int32_t k = s->ssm_heads_k * s->ssm_d_state, v = s->ssm_heads_v * s->ssm_d_state;
    ch_synth_add_matrix(b, "attn_qkv.weight", s->n_embd, 2 * k + v);
    ch_synth_add_matrix(b, "attn_gate.weight", s->n_embd, v);
    ch_synth_add_matrix_as(b, "ssm_conv1d.weight", CH_TYPE_F32, s->ssm_conv, 2 * k + v, 0, 1);
    ch_synth_add_vector(b, "ssm_dt.bias", s->ssm_heads_v, CH_SYNTH_DT_BIAS, 1);
    ch_synth_add_vector(b, "ssm_a", s->ssm_heads_v, CH_SYNTH_DECAY, 1);
    if (strcmp(s->arch, "qwen3next") == 0) {
        ch_synth_add_matrix(b, "ssm_ba.weight", s->n_embd, 2 * s->ssm_heads_v);
    } else {
        ch_synth_add_matrix(b, "ssm_beta.weight", s->n_embd, s->ssm_heads_v);
        ch_synth_add_matrix(b, "ssm_alpha.weight", s->n_embd, s->ssm_heads_v);
    }
    ch_synth_add_vector(b, "ssm_norm.weight", s->ssm_d_state, CH_SYNTH_NEAR, 1);
    ch_synth_add_matrix(b, "ssm_out.weight", v, s->n_embd);
}

static void add_feed_forward(ch_synth_builder *b) {
    const ch_synth_shape *s = b->s;
    if (s->n_expert == 0) {
        ch_synth_add_swiglu(b, "", s->n_ff, true);
        return;
    }
    ch_synth_add_matrix_as(b, "ffn_gate_inp.weight", CH_TYPE_F32, s->n_embd, s->n_expert, 0, CH_SYNTH_ROUTER_GAIN);
    ch_synth_add_matrix_as(b, "ffn_gate_exps.weight", b->type, s->n_embd, s->n_ff_exp, s->n_expert, 1);
    ch_synth_add_matrix_as(b, "ffn_up_exps.weight", b->type, s->n_embd, s->n_ff_exp, s->n_expert, 1);
    ch_synth_add_matrix_as(b, "ffn_down_exps.weight", b->type, s->n_ff_exp, s->n_embd, s->n_expert, 1);
    if (!s->n_ff_shexp) return;
    ch_synth_add_vector(b, "ffn_gate_inp_shexp.weight", s->n_embd, CH_SYNTH_NORMAL, 1 / sqrtf((float)s->n_embd));
    ch_synth_add_swiglu(b, "_shexp", s->n_ff_shexp, true);
}

// What the multi-token prediction block has beside a layer's tensors.
static void add_nextn(ch_synth_builder *b) {
    int32_t d = b->s->n_embd;
    ch_synth_add_matrix(b, "nextn.eh_proj.weight", 2 * d, d);
    ch_synth_add_norm(b, "nextn.enorm.weight", d);
    ch_synth_add_norm(b, "nextn.hnorm.weight", d);
    ch_synth_add_norm(b, "nextn.shared_head_norm.weight", d);
    if (!b->s->nextn_ends) return;
    ch_synth_add_matrix_as(b, "nextn.embed_tokens.weight", embed_type(b->type), d, b->s->n_vocab, 0, sqrtf((float)d) * 0.3f);
    ch_synth_add_matrix_as(b, "nextn.shared_head_head.weight", head_type(b->type), d, b->s->n_vocab, 0, HEAD_GAIN);
}

void ch_synth_list_tensors(ch_synth_list *l, const ch_synth_shape *s, ch_type type) {
    ch_synth_builder b = {.l = l, .s = s, .type = type, .layer = -1};
    bool hybrid = s->attn_interval > 0;
    // A tied embedding is also the head, so it takes the head's type and deviation.
    ch_synth_add_matrix_as(&b, "token_embd.weight", s->tied ? head_type(type) : embed_type(type), s->n_embd, s->n_vocab, 0,
              s->tied ? HEAD_GAIN : sqrtf((float)s->n_embd) * 0.3f);
    // LFM2 converters keep the final norm under the embedding's name.
    ch_synth_add_norm(&b, strncmp(s->arch, "lfm2", 4) == 0 ? "token_embd_norm.weight" : "output_norm.weight", s->n_embd);
    if (!s->tied) ch_synth_add_matrix_as(&b, "output.weight", head_type(type), s->n_embd, s->n_vocab, 0, HEAD_GAIN);
    const ch_synth_maker *maker = ch_synth_find_maker(s);
    for (int i = 0; i < s->n_layer + s->n_nextn; i++) {
        b.layer = i;
        if (maker) {
            maker->add_layer(&b);
            continue;
        }
        ch_synth_add_norm(&b, "attn_norm.weight", s->n_embd);
        if (hybrid && i < s->n_layer && (i + 1) % s->attn_interval != 0) add_delta_net(&b);
        else add_attention(&b, hybrid);
        ch_synth_add_norm(&b, hybrid ? "post_attention_norm.weight" : "ffn_norm.weight", s->n_embd);
        add_feed_forward(&b);
        if (i >= s->n_layer) add_nextn(&b);
    }
}
