// Families that can be trained: which tensors a shape has, in which blocks they meet, which keys the file gets.
//
// Matrices that read the same rows lie side by side in the parameter vector, so that one product serves them all.
#include <stdarg.h>
#include <stdio.h>

#include "train/model.h"

const char *ch_train_kind_name(ch_train_kind k) {
    static const char *const name[] = {"attention", "gated delta net", "state-space mixer", "feed-forward", "experts"};
    return name[k];
}

// ---- building -----------------------------------------------------------------------------------------------------------------
static void *grow(ch_train_model *m, void *list, size_t n, size_t *cap, size_t size) {
    if (n < *cap) return list;
    size_t want = *cap ? 2 * *cap : 64;
    void *p = ch_realloc(list, want * size);
    if (!p) {
        m->failed = true;
        return list;
    }
    *cap = want;
    return p;
}

static void align(ch_train_model *m) { m->n_param = (m->n_param + 15) & ~(size_t)15; }

typedef struct spec {
    uint64_t ne[3]; // 0: no such dimension
    ch_train_init init;
    float std;
    bool keep_f32;
} spec;

size_t ch_train_add_tensor(ch_train_model *m, const ch_train_tensor *from) {
    m->tensor = grow(m, m->tensor, m->n_tensor, &m->cap_tensor, sizeof *m->tensor);
    if (m->failed) return 0;
    ch_train_tensor *t = &m->tensor[m->n_tensor++];
    *t = *from, t->off = m->n_param, t->n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) t->n *= (size_t)t->ne[i];
    m->n_param += t->n;
    return t->off;
}

static size_t put(ch_train_model *m, spec s, const char *fmt, ...) CH_PRINTF(3, 4);
static size_t put(ch_train_model *m, spec s, const char *fmt, ...) {
    ch_train_tensor t = {.init = s.init, .std = s.std, .ne = {1, 1, 1, 1}};
    for (; t.n_dims < 3 && s.ne[t.n_dims]; t.n_dims++) t.ne[t.n_dims] = s.ne[t.n_dims];
    t.decay = s.init == CH_TRAIN_NORMAL;
    t.keep_f32 = s.keep_f32 || t.n_dims == 1 || s.init != CH_TRAIN_NORMAL;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t.name, sizeof t.name, fmt, ap);
    va_end(ap);
    return ch_train_add_tensor(m, &t);
}

// A matrix that products read, as one from `off` on: maybe several tensors side by side.
static ch_train_mat join(ch_train_model *m, size_t off, size_t n_in) {
    ch_train_mat w = {off, (m->n_param - off) / n_in, n_in};
    m->mat = grow(m, m->mat, m->n_mat, &m->cap_mat, sizeof *m->mat);
    if (!m->failed) m->mat[m->n_mat++] = w;
    align(m);
    return w;
}

void ch_train_add_mats(ch_train_model *m, size_t off, size_t n_out, size_t n_in, size_t n_mat) {
    for (size_t i = 0; i < n_mat; i++) {
        m->mat = grow(m, m->mat, m->n_mat, &m->cap_mat, sizeof *m->mat);
        if (!m->failed) m->mat[m->n_mat++] = (ch_train_mat){off + i * n_out * n_in, n_out, n_in};
    }
    align(m);
}

// name holds one %u, for the layer.
static size_t vec(ch_train_model *m, size_t n, ch_train_init init, const char *name, uint32_t i) {
    align(m);
    size_t off = put(m, (spec){{n}, init}, name, i);
    align(m);
    return off;
}

static ch_train_sub *add_sub(ch_train_model *m, ch_train_kind kind, uint32_t layer, const char *norm) {
    ch_train_sub *b = &m->sub[m->n_sub++]; // sized before: at most two per layer
    *b = (ch_train_sub){.kind = kind, .layer = layer, .norm = {vec(m, (size_t)m->shape.n_embd, CH_TRAIN_ONES, norm, layer),
                                                              (size_t)m->shape.n_embd, m->shape.eps}};
    return b;
}

// Deviation of the weights: inner matrices, and those that write to the residual stream.
static float inner_std(const ch_train_model *m) { return (float)(0.5 / sqrt(m->shape.n_embd)); }
static float outer_std(const ch_train_model *m) { return inner_std(m) / sqrtf(2.0f * (float)m->shape.n_layer); }


static void add_attention(ch_train_model *m, ch_train_sub *b, bool gated, bool normed) {
    const ch_train_shape *s = &m->shape;
    const uint64_t d = (uint64_t)s->n_embd, hd = (uint64_t)s->d_head, q = (uint64_t)s->n_head * hd, kv = (uint64_t)s->n_head_kv * hd;
    const uint32_t i = b->layer;
    const float in = inner_std(m);
    ch_train_attn *a = &b->u.attn;
    *a = (ch_train_attn){.q_norm = CH_TRAIN_NONE, .k_norm = CH_TRAIN_NONE, .n_head = (size_t)s->n_head, .n_head_kv = (size_t)s->n_head_kv,
                         .d_head = (size_t)hd, .n_rot = (size_t)s->n_rot, .gated = gated, .eps = s->eps, .scale = 1 / sqrt((double)hd)};
    size_t off = put(m, (spec){{d, gated ? 2 * q : q}, .std = in}, "blk.%u.attn_q.weight", i);
    put(m, (spec){{d, kv}, .std = in}, "blk.%u.attn_k.weight", i);
    put(m, (spec){{d, kv}, .std = in}, "blk.%u.attn_v.weight", i);
    a->in = join(m, off, (size_t)d);
    if (normed) {
        a->q_norm = vec(m, (size_t)hd, CH_TRAIN_ONES, "blk.%u.attn_q_norm.weight", i);
        a->k_norm = vec(m, (size_t)hd, CH_TRAIN_ONES, "blk.%u.attn_k_norm.weight", i);
    }
    off = put(m, (spec){{q, d}, .std = outer_std(m)}, "blk.%u.attn_output.weight", i);
    a->out = join(m, off, (size_t)q);
}

static void add_delta(ch_train_model *m, ch_train_sub *b) {
    const ch_train_shape *s = &m->shape;
    const uint64_t d = (uint64_t)s->n_embd, hk = (uint64_t)s->ssm_heads_k, hv = (uint64_t)s->ssm_heads_v, ds = (uint64_t)s->ssm_d_state;
    const uint64_t n_ch = (2 * hk + hv) * ds;
    const uint32_t i = b->layer;
    const float in = inner_std(m);
    ch_train_gdn *a = &b->u.gdn;
    *a = (ch_train_gdn){.n_head_k = (size_t)hk, .n_head_v = (size_t)hv, .d_k = (size_t)ds, .d_v = (size_t)ds};
    size_t off = put(m, (spec){{d, n_ch}, .std = in}, "blk.%u.attn_qkv.weight", i);
    put(m, (spec){{d, hv * ds}, .std = in}, "blk.%u.attn_gate.weight", i);
    put(m, (spec){{d, hv}, .std = in}, "blk.%u.ssm_beta.weight", i);
    put(m, (spec){{d, hv}, .std = in}, "blk.%u.ssm_alpha.weight", i);
    a->in = join(m, off, (size_t)d);
    a->conv = (ch_train_conv){.w = put(m, (spec){{(uint64_t)s->ssm_conv, n_ch}, CH_TRAIN_CONV}, "blk.%u.ssm_conv1d.weight", i),
                              .bias = CH_TRAIN_NONE, .n_channel = (size_t)n_ch, .n_tap = (size_t)s->ssm_conv};
    a->dt_bias = vec(m, (size_t)hv, CH_TRAIN_DT_BIAS, "blk.%u.ssm_dt.bias", i);
    a->a_log = vec(m, (size_t)hv, CH_TRAIN_DECAY, "blk.%u.ssm_a", i);
    a->norm = (ch_train_norm){vec(m, (size_t)ds, CH_TRAIN_ONES, "blk.%u.ssm_norm.weight", i), (size_t)ds, s->eps};
    off = put(m, (spec){{hv * ds, d}, .std = outer_std(m)}, "blk.%u.ssm_out.weight", i);
    a->out = join(m, off, (size_t)(hv * ds));
}

static void add_ssd(ch_train_model *m, ch_train_sub *b) {
    const ch_train_shape *s = &m->shape;
    const uint64_t d = (uint64_t)s->n_embd, nh = (uint64_t)s->ssm_heads_v, ng = (uint64_t)s->ssm_heads_k, ds = (uint64_t)s->ssm_d_state;
    const uint64_t di = nh * (uint64_t)s->ssm_d_head, n_ch = di + 2 * ng * ds;
    const uint32_t i = b->layer;
    ch_train_ssd *a = &b->u.ssd;
    *a = (ch_train_ssd){.n_head = (size_t)nh, .d_head = (size_t)s->ssm_d_head, .n_group = (size_t)ng, .d_state = (size_t)ds, .eps = s->eps};
    size_t off = put(m, (spec){{d, di + n_ch + nh}, .std = inner_std(m)}, "blk.%u.ssm_in.weight", i);
    a->in = join(m, off, (size_t)d);
    a->conv = (ch_train_conv){.w = put(m, (spec){{(uint64_t)s->ssm_conv, n_ch}, CH_TRAIN_CONV}, "blk.%u.ssm_conv1d.weight", i),
                              .n_channel = (size_t)n_ch, .n_tap = (size_t)s->ssm_conv};
    a->conv.bias = vec(m, (size_t)n_ch, CH_TRAIN_ZEROS, "blk.%u.ssm_conv1d.bias", i);
    a->dt_bias = vec(m, (size_t)nh, CH_TRAIN_DT_BIAS, "blk.%u.ssm_dt.bias", i);
    a->a_log = put(m, (spec){{1, nh}, CH_TRAIN_DECAY}, "blk.%u.ssm_a", i);
    align(m);
    a->skip = put(m, (spec){{1, nh}, CH_TRAIN_ONES}, "blk.%u.ssm_d", i);
    align(m);
    a->norm = put(m, (spec){{di / ng, ng}, CH_TRAIN_ONES}, "blk.%u.ssm_norm.weight", i);
    align(m);
    off = put(m, (spec){{di, d}, .std = outer_std(m)}, "blk.%u.ssm_out.weight", i);
    a->out = join(m, off, (size_t)di);
}

static void add_dense(ch_train_model *m, ch_train_sub *b, bool gated) {
    const uint64_t d = (uint64_t)m->shape.n_embd, ff = (uint64_t)m->shape.n_ff;
    const uint32_t i = b->layer;
    b->u.ffn = (ch_train_ffn){.n_ff = (size_t)ff, .gated = gated};
    const size_t off = m->n_param;
    if (gated) put(m, (spec){{d, ff}, .std = inner_std(m)}, "blk.%u.ffn_gate.weight", i);
    put(m, (spec){{d, ff}, .std = inner_std(m)}, "blk.%u.ffn_up.weight", i);
    b->u.ffn.in = join(m, off, (size_t)d);
    const size_t down = put(m, (spec){{ff, d}, .std = outer_std(m)}, "blk.%u.ffn_down.weight", i);
    b->u.ffn.out = join(m, down, (size_t)ff);
}

// gated: SwiGLU experts, softmax router, gated shared expert; else relu^2, sigmoid, a shared expert without gate.
static void add_experts(ch_train_model *m, ch_train_sub *b, bool gated) {
    const ch_train_shape *s = &m->shape;
    const uint64_t d = (uint64_t)s->n_embd, ff = (uint64_t)s->n_ff_exp, ffs = (uint64_t)s->n_ff_shexp, n = (uint64_t)s->n_expert;
    const uint32_t i = b->layer;
    const float in = inner_std(m), out = outer_std(m);
    ch_train_moe *a = &b->u.moe;
    *a = (ch_train_moe){.bias = CH_TRAIN_NONE, .n_expert = (size_t)n, .n_used = (size_t)s->n_expert_used, .n_ff = (size_t)ff,
                        .n_shared = (size_t)ffs, .gated = gated, .sigmoid = !gated, .shared_gated = gated && ffs,
                        .scale = s->expert_scale};
    size_t off = put(m, (spec){{d, n}, .std = in, .keep_f32 = true}, "blk.%u.ffn_gate_inp.weight", i);
    if (a->shared_gated) put(m, (spec){{d}, .std = in}, "blk.%u.ffn_gate_inp_shexp.weight", i);
    if (ffs && gated) put(m, (spec){{d, ffs}, .std = in}, "blk.%u.ffn_gate_shexp.weight", i);
    if (ffs) put(m, (spec){{d, ffs}, .std = in}, "blk.%u.ffn_up_shexp.weight", i);
    a->in = join(m, off, (size_t)d);
    if (gated) {
        a->gate = put(m, (spec){{d, ff, n}, .std = in}, "blk.%u.ffn_gate_exps.weight", i);
        ch_train_add_mats(m, a->gate, (size_t)ff, (size_t)d, (size_t)n);
    }
    a->up = put(m, (spec){{d, ff, n}, .std = in}, "blk.%u.ffn_up_exps.weight", i);
    ch_train_add_mats(m, a->up, (size_t)ff, (size_t)d, (size_t)n);
    a->down = put(m, (spec){{ff, d, n}, .std = out}, "blk.%u.ffn_down_exps.weight", i);
    ch_train_add_mats(m, a->down, (size_t)d, (size_t)ff, (size_t)n);
    if (!ffs) return;
    off = put(m, (spec){{ffs, d}, .std = out}, "blk.%u.ffn_down_shexp.weight", i);
    a->shared_down = join(m, off, (size_t)ffs);
}

// ---- families -------------------------------------------------------------------------------------------------------------------
static void add_ends(ch_train_model *m) {
    const uint64_t d = (uint64_t)m->shape.n_embd, v = (uint64_t)m->shape.n_vocab;
    size_t off = put(m, (spec){{d, v}, .std = inner_std(m)}, "token_embd.weight");
    m->embd = m->head = join(m, off, (size_t)d);
    if (!m->shape.tied) {
        off = put(m, (spec){{d, v}, .std = inner_std(m)}, "output.weight");
        m->head = join(m, off, (size_t)d);
    }
    m->norm = (ch_train_norm){put(m, (spec){{d}, CH_TRAIN_ONES}, "output_norm.weight"), (size_t)d, m->shape.eps};
    align(m);
}

static void add_qwen_layer(ch_train_model *m, uint32_t i, bool attention) {
    ch_train_sub *b = add_sub(m, attention ? CH_TRAIN_ATTN : CH_TRAIN_GDN, i, "blk.%u.attn_norm.weight");
    if (attention) add_attention(m, b, true, true);
    else add_delta(m, b);
    b = add_sub(m, m->shape.n_expert ? CH_TRAIN_MOE : CH_TRAIN_FFN, i, "blk.%u.post_attention_norm.weight");
    if (m->shape.n_expert) add_experts(m, b, true);
    else add_dense(m, b, true);
}

static void build_qwen(ch_train_model *m) {
    const uint32_t n = (uint32_t)m->shape.n_layer;
    const size_t d = (size_t)m->shape.n_embd;
    for (uint32_t i = 0; i < n; i++) add_qwen_layer(m, i, (i + 1) % (uint32_t)m->shape.attn_interval == 0);
    m->n_trunk = m->n_sub;
    if (!m->shape.n_mtp) return;
    m->mtp.on = true;
    m->mtp.first = m->n_sub;
    add_qwen_layer(m, n, true);
    const size_t off = put(m, (spec){{2 * d, d}, .std = inner_std(m)}, "blk.%u.nextn.eh_proj.weight", n);
    m->mtp.eh_proj = join(m, off, 2 * d);
    m->mtp.enorm = (ch_train_norm){vec(m, d, CH_TRAIN_ONES, "blk.%u.nextn.enorm.weight", n), d, m->shape.eps};
    m->mtp.hnorm = (ch_train_norm){vec(m, d, CH_TRAIN_ONES, "blk.%u.nextn.hnorm.weight", n), d, m->shape.eps};
    m->mtp.head_norm = (ch_train_norm){vec(m, d, CH_TRAIN_ONES, "blk.%u.nextn.shared_head_norm.weight", n), d, m->shape.eps};
}

static void build_mamba2(ch_train_model *m) {
    for (uint32_t i = 0; i < (uint32_t)m->shape.n_layer; i++) add_ssd(m, add_sub(m, CH_TRAIN_SSD, i, "blk.%u.attn_norm.weight"));
    m->n_trunk = m->n_sub;
}

static void build_nemotron(ch_train_model *m) {
    for (uint32_t i = 0; i < (uint32_t)m->shape.n_layer; i++) {
        const char kind = m->shape.pattern[i];
        const ch_train_kind k = kind == 'M' ? CH_TRAIN_SSD : kind == '*' ? CH_TRAIN_ATTN : kind == 'E' ? CH_TRAIN_MOE : CH_TRAIN_FFN;
        ch_train_sub *b = add_sub(m, k, i, "blk.%u.attn_norm.weight");
        if (k == CH_TRAIN_SSD) add_ssd(m, b);
        else if (k == CH_TRAIN_ATTN) add_attention(m, b, false, false);
        else if (k == CH_TRAIN_MOE) add_experts(m, b, false);
        else add_dense(m, b, false);
    }
    m->n_trunk = m->n_sub;
}

// ---- keys -----------------------------------------------------------------------------------------------------------------------
typedef struct key_row {
    const char *name;
    int32_t value;
} key_row;

static int put_u32(const ch_train_model *m, ch_gguf_writer *w, const char *name, int32_t v) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", m->shape.arch, name);
    return ch_gguf_put_u32(w, key, (uint32_t)v);
}

static int put_f32(const ch_train_model *m, ch_gguf_writer *w, const char *name, double v) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", m->shape.arch, name);
    return ch_gguf_put_f32(w, key, (float)v);
}

static int put_i32_arr(const ch_train_model *m, ch_gguf_writer *w, const char *name, const int32_t *v, uint64_t n) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", m->shape.arch, name);
    return ch_gguf_put_arr(w, key, CH_GGUF_I32, v, n);
}

static int put_rows(const ch_train_model *m, ch_gguf_writer *w, const key_row *row, size_t n) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (row[i].value) rc = put_u32(m, w, row[i].name, row[i].value);
    return rc;
}

static int keys_of_qwen(const ch_train_model *m, ch_gguf_writer *w) {
    const ch_train_shape *s = &m->shape;
    const key_row row[] = {{"attention.head_count", s->n_head}, {"attention.head_count_kv", s->n_head_kv}, {"attention.key_length", s->d_head},
                           {"attention.value_length", s->d_head}, {"rope.dimension_count", s->n_rot},
                           {"full_attention_interval", s->attn_interval}, {"nextn_predict_layers", s->n_mtp},
                           {"feed_forward_length", s->n_expert ? s->n_ff_shexp : s->n_ff}, {"expert_count", s->n_expert},
                           {"expert_used_count", s->n_expert ? s->n_expert_used : 0},
                           {"expert_feed_forward_length", s->n_expert ? s->n_ff_exp : 0},
                           {"expert_shared_feed_forward_length", s->n_expert ? s->n_ff_shexp : 0}, {"ssm.conv_kernel", s->ssm_conv},
                           {"ssm.state_size", s->ssm_d_state}, {"ssm.group_count", s->ssm_heads_k},
                           {"ssm.time_step_rank", s->ssm_heads_v}, {"ssm.inner_size", s->ssm_heads_v * s->ssm_d_state}};
    const int32_t pairs = s->n_rot / 2, sections[4] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    int rc = put_rows(m, w, row, sizeof row / sizeof *row);
    if (rc == 0) rc = put_f32(m, w, "rope.freq_base", s->rope_base);
    return rc ? rc : put_i32_arr(m, w, "rope.dimension_sections", sections, 4);
}

static int keys_of_ssm(const ch_train_model *m, ch_gguf_writer *w) {
    const ch_train_shape *s = &m->shape;
    const key_row row[] = {{"ssm.conv_kernel", s->ssm_conv}, {"ssm.state_size", s->ssm_d_state}, {"ssm.group_count", s->ssm_heads_k},
                           {"ssm.time_step_rank", s->ssm_heads_v}, {"ssm.inner_size", s->ssm_heads_v * s->ssm_d_head}};
    return put_rows(m, w, row, sizeof row / sizeof *row);
}

static int keys_of_mamba2(const ch_train_model *m, ch_gguf_writer *w) {
    int rc = keys_of_ssm(m, w);
    if (rc == 0) rc = put_u32(m, w, "attention.head_count", 0);
    return rc ? rc : put_u32(m, w, "feed_forward_length", 0);
}

static int keys_of_nemotron(const ch_train_model *m, ch_gguf_writer *w) {
    const ch_train_shape *s = &m->shape;
    int32_t kv[sizeof s->pattern] = {0}, ff[sizeof s->pattern] = {0};
    for (int32_t i = 0; i < s->n_layer; i++) {
        kv[i] = s->pattern[i] == '*' ? s->n_head_kv : 0;
        ff[i] = s->pattern[i] == '-' ? s->n_ff : s->pattern[i] == 'E' ? s->n_ff_exp : 0;
    }
    const bool moe = s->n_expert > 0;
    const key_row row[] = {{"attention.head_count", s->n_head}, {"attention.key_length", s->d_head}, {"attention.value_length", s->d_head},
                           {"expert_count", s->n_expert}, {"expert_used_count", moe ? s->n_expert_used : 0},
                           {"expert_feed_forward_length", moe ? s->n_ff_exp : 0},
                           {"expert_shared_feed_forward_length", moe ? s->n_ff_shexp : 0}, {"expert_shared_count", moe && s->n_ff_shexp},
                           {"expert_group_count", moe}, {"expert_group_used_count", moe}, {"expert_gating_func", moe ? 2 : 0}};
    char key[96];
    int rc = keys_of_ssm(m, w);
    if (rc == 0) rc = put_rows(m, w, row, sizeof row / sizeof *row);
    if (rc == 0) rc = put_i32_arr(m, w, "attention.head_count_kv", kv, (uint64_t)s->n_layer);
    if (rc == 0) rc = put_i32_arr(m, w, "feed_forward_length", ff, (uint64_t)s->n_layer);
    if (rc || !moe) return rc;
    snprintf(key, sizeof key, "%s.expert_weights_norm", s->arch);
    rc = ch_gguf_put_bool(w, key, true);
    return rc ? rc : put_f32(m, w, "expert_weights_scale", s->expert_scale);
}

// ---- table --------------------------------------------------------------------------------------------------------------------------
enum { NEEDS_ATTN = 1, NEEDS_DELTA = 2, NEEDS_SSD = 4, NEEDS_EXPERTS = 8, NEEDS_DENSE = 16, NEEDS_PATTERN = 32, MAY_MTP = 64 };
typedef struct family {
    const char *arch;
    unsigned needs;
    void (*build)(ch_train_model *m);
    int (*keys)(const ch_train_model *m, ch_gguf_writer *w);
} family;
static const family families[] = {
    {"qwen35", NEEDS_ATTN | NEEDS_DELTA | NEEDS_DENSE | MAY_MTP, build_qwen, keys_of_qwen},
    {"qwen35moe", NEEDS_ATTN | NEEDS_DELTA | NEEDS_EXPERTS | MAY_MTP, build_qwen, keys_of_qwen},
    {"mamba2", NEEDS_SSD, build_mamba2, keys_of_mamba2},
    {"nemotron_h_moe", NEEDS_SSD | NEEDS_ATTN | NEEDS_EXPERTS | NEEDS_PATTERN, build_nemotron, keys_of_nemotron},
};

static const family *find(const char *arch) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(arch, families[i].arch) == 0) return &families[i];
    return NULL;
}

typedef struct limit {
    const char *name;
    int32_t value, min, max;
    unsigned when; // needs of the family; 0: always
} limit;

static int check(const ch_train_shape *s, const family *f, ch_error *e) {
    const limit row[] = {
        {"n_vocab", s->n_vocab, 2, 1 << 20, 0}, {"n_ctx", s->n_ctx, 8, 1 << 20, 0}, {"n_layer", s->n_layer, 1, 126, 0},
        {"n_embd", s->n_embd, 8, 16384, 0}, {"n_head", s->n_head, 1, 256, NEEDS_ATTN}, {"n_head_kv", s->n_head_kv, 1, 256, NEEDS_ATTN},
        {"d_head", s->d_head, 2, 512, NEEDS_ATTN}, {"attn_interval", s->attn_interval, 1, 126, NEEDS_DELTA},
        {"n_rot", s->n_rot, 2, s->d_head, NEEDS_DELTA}, {"ssm_heads_k", s->ssm_heads_k, 1, 256, NEEDS_DELTA | NEEDS_SSD},
        {"ssm_heads_v", s->ssm_heads_v, 1, 256, NEEDS_DELTA | NEEDS_SSD}, {"ssm_d_state", s->ssm_d_state, 1, 256, NEEDS_DELTA | NEEDS_SSD},
        {"ssm_conv", s->ssm_conv, 2, CH_TRAIN_MAX_TAP, NEEDS_DELTA | NEEDS_SSD}, {"ssm_d_head", s->ssm_d_head, 1, 256, NEEDS_SSD},
        {"n_ff", s->n_ff, 1, 1 << 17, NEEDS_DENSE}, {"n_expert", s->n_expert, 1, 1024, NEEDS_EXPERTS},
        {"n_expert_used", s->n_expert_used, 1, s->n_expert, NEEDS_EXPERTS}, {"n_ff_exp", s->n_ff_exp, 1, 1 << 17, NEEDS_EXPERTS},
        {"n_ff_shexp", s->n_ff_shexp, 0, 1 << 17, NEEDS_EXPERTS}, {"n_mtp", s->n_mtp, 0, f->needs & MAY_MTP ? 1 : 0, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if ((!row[i].when || (f->needs & row[i].when)) && (row[i].value < row[i].min || row[i].value > row[i].max))
            return ch_error_set(e, CH_ERANGE, "model.%s: expected %d to %d, found %d", row[i].name, row[i].min, row[i].max, row[i].value);
    if ((f->needs & NEEDS_ATTN) && s->n_head % s->n_head_kv)
        return ch_error_set(e, CH_ERANGE, "model.n_head %d is no multiple of n_head_kv %d", s->n_head, s->n_head_kv);
    if (s->n_rot % 2) return ch_error_set(e, CH_ERANGE, "model.n_rot %d is odd", s->n_rot);
    if ((f->needs & (NEEDS_DELTA | NEEDS_SSD)) && s->ssm_heads_v % s->ssm_heads_k)
        return ch_error_set(e, CH_ERANGE, "model.ssm_heads_v %d is no multiple of ssm_heads_k %d", s->ssm_heads_v, s->ssm_heads_k);
    if (f->needs & NEEDS_PATTERN) {
        if (strlen(s->pattern) != (size_t)s->n_layer || strspn(s->pattern, "M*E") != (size_t)s->n_layer)
            return ch_error_set(e, CH_ERANGE, "model.pattern \"%s\": expected %d letters M (state space), * (attention), E (experts)",
                                s->pattern, s->n_layer);
    }
    if (!(s->eps > 0 && s->eps < 1)) return ch_error_set(e, CH_ERANGE, "model.eps: expected more than 0 and less than 1, found %g", s->eps);
    if (s->n_rot && !(s->rope_base > 1)) return ch_error_set(e, CH_ERANGE, "model.rope_base: expected more than 1, found %g", s->rope_base);
    return 0;
}

int ch_train_build(ch_train_model *m, ch_error *e) {
    const family *f = find(m->shape.arch);
    if (!f)
        return ch_error_set(e, CH_EUNSUPPORTED, "model.arch \"%s\": only qwen35, qwen35moe, mamba2 and nemotron_h_moe can be trained", m->shape.arch);
    int rc = check(&m->shape, f, e);
    if (rc) return rc;
    if (!(f->needs & NEEDS_EXPERTS)) m->shape.n_expert = 0;
    if (m->shape.expert_scale == 0) m->shape.expert_scale = 1;
    m->sub = ch_alloc_array(2 * (size_t)m->shape.n_layer + 2, sizeof *m->sub);
    if (!m->sub) return ch_error_set(e, CH_ENOMEM, "no memory");
    add_ends(m);
    f->build(m);
    align(m);
    return m->failed ? ch_error_set(e, CH_ENOMEM, "no memory") : 0;
}

void ch_train_model_free(ch_train_model *m) {
    ch_free(m->tensor), ch_free(m->mat), ch_free(m->sub), ch_free(m->lora.part);
    m->tensor = NULL, m->mat = NULL, m->sub = NULL, m->lora.part = NULL;
}

int ch_train_put_keys(const ch_train_model *m, ch_gguf_writer *w) {
    const ch_train_shape *s = &m->shape;
    const key_row row[] = {{"block_count", s->n_layer + s->n_mtp}, {"context_length", s->n_ctx}, {"embedding_length", s->n_embd},
                           {"vocab_size", s->n_vocab}};
    int rc = ch_gguf_put_str(w, "general.architecture", s->arch, strlen(s->arch));
    if (rc == 0) rc = put_rows(m, w, row, sizeof row / sizeof *row);
    if (rc == 0) rc = put_f32(m, w, "attention.layer_norm_rms_epsilon", s->eps);
    return rc ? rc : find(s->arch)->keys(m, w);
}
