// A GGUF model into the trainer: its shape from the keys, its weights from the tensors, decoded to floats.
//
// What the trainer would compute in another way than the file asks for is refused by name: keys that change the computation, tensors
// that no block has a place for, shapes that differ.
#include <stdarg.h>
#include <stdio.h>

#include "train/model.h"

enum { MAX_BLOCKS = 127 };

// An error of this file.
static int fail(const ch_gguf *g, ch_error *e, int code, const char *fmt, ...) CH_PRINTF(4, 5);
static int fail(const ch_gguf *g, ch_error *e, int code, const char *fmt, ...) {
    char text[240];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ch_error_set(e, code, "%s: %s", ch_gguf_path(g), text);
}

typedef struct reader {
    const ch_gguf *g;
    const char *arch;
    ch_error *e;
    int rc; // of the first failure
} reader;

static const char *key_of(const reader *r, const char *name, char key[96]) {
    snprintf(key, 96, "%s.%s", r->arch, name);
    return key;
}

// Absent: def; def negative: an error.
static int32_t get_int(reader *r, const char *name, int64_t def) {
    char key[96];
    uint32_t v = 0;
    if (r->rc) return 0;
    int rc = ch_gguf_get_u32(r->g, key_of(r, name, key), &v, r->e);
    if (rc == 0 && def >= 0) return (int32_t)def;
    if (rc == 0) rc = fail(r->g, r->e, CH_EFORMAT, "key %s is missing", key);
    else if (rc > 0 && v > INT32_MAX) rc = fail(r->g, r->e, CH_ERANGE, "key %s is %u", key, v);
    if (rc < 0) r->rc = rc;
    return r->rc ? 0 : (int32_t)v;
}

static double get_num(reader *r, const char *name, double def) {
    char key[96];
    float v = (float)def;
    if (r->rc) return 0;
    int rc = ch_gguf_get_f32(r->g, key_of(r, name, key), &v, r->e);
    if (rc < 0) r->rc = rc;
    return rc > 0 ? (double)v : def;
}

// One value per block, or one for all. Returns the largest.
static int32_t get_per_block(reader *r, const char *name, uint32_t v[MAX_BLOCKS], int32_t n) {
    char key[96];
    uint32_t most = 0;
    memset(v, 0, MAX_BLOCKS * sizeof *v);
    if (r->rc || n < 1 || n > MAX_BLOCKS) return 0; // checked with the shape
    int rc = ch_gguf_get_u32_n(r->g, key_of(r, name, key), v, (size_t)n, r->e);
    if (rc < 0) r->rc = rc;
    for (int32_t i = 0; i < n; i++) most = v[i] > most ? v[i] : most;
    return most <= INT32_MAX ? (int32_t)most : 0;
}

static void refuse(reader *r, const char *name, const char *why) {
    if (r->rc == 0) r->rc = fail(r->g, r->e, CH_EUNSUPPORTED, "key %s.%s: %s", r->arch, name, why);
}

// Keys that would change the computation in a way that the trainer has not.
static void check_common(reader *r, const ch_train_shape *s) {
    char key[96];
    ch_gguf_str type;
    const int rc = r->rc ? 0 : ch_gguf_get_str(r->g, key_of(r, "rope.scaling.type", key), &type, r->e);
    if (rc < 0) r->rc = rc;
    if (rc > 0 && !(type.n == 4 && memcmp(type.p, "none", 4) == 0)) refuse(r, "rope.scaling.type", "positions are scaled, which cannot be trained");
    const double scale = get_num(r, "attention.scale", 0);
    if (scale != 0 && fabs(scale * sqrt(s->d_head) - 1) > 1e-5) refuse(r, "attention.scale", "not one over the root of the heads' width");
    if (get_int(r, "attention.value_length", s->d_head) != s->d_head) refuse(r, "attention.value_length", "not the width of keys");
    if (get_int(r, "expert_group_used_count", 1) != get_int(r, "expert_group_count", 1)) refuse(r, "expert_group_used_count", "experts are chosen by group");
}

static void read_attention(reader *r, ch_train_shape *s, int32_t n_block) {
    uint32_t v[MAX_BLOCKS];
    s->n_head = get_per_block(r, "attention.head_count", v, n_block);
    s->n_head_kv = get_per_block(r, "attention.head_count_kv", v, n_block);
    if (!s->n_head_kv) s->n_head_kv = s->n_head;
    s->d_head = get_int(r, "attention.key_length", s->n_head ? s->n_embd / s->n_head : 0);
}

static void read_experts(reader *r, ch_train_shape *s) {
    s->n_expert = get_int(r, "expert_count", 0);
    if (!s->n_expert) return;
    s->n_expert_used = get_int(r, "expert_used_count", -1);
    s->n_ff_exp = get_int(r, "expert_feed_forward_length", -1);
    s->n_ff_shexp = get_int(r, "expert_shared_feed_forward_length", 0);
}

static void read_ssm(reader *r, ch_train_shape *s) {
    s->ssm_conv = get_int(r, "ssm.conv_kernel", -1), s->ssm_d_state = get_int(r, "ssm.state_size", -1);
    s->ssm_heads_k = get_int(r, "ssm.group_count", 1), s->ssm_heads_v = get_int(r, "ssm.time_step_rank", -1);
    const int32_t inner = get_int(r, "ssm.inner_size", -1);
    s->ssm_d_head = s->ssm_heads_v ? inner / s->ssm_heads_v : 0;
    if (inner != s->ssm_d_head * s->ssm_heads_v) refuse(r, "ssm.inner_size", "no multiple of ssm.time_step_rank");
}

static void read_qwen(reader *r, ch_train_shape *s, int32_t n_block) {
    uint32_t v[MAX_BLOCKS];
    bool tiled = true;
    char key[96];
    read_attention(r, s, n_block), read_experts(r, s), read_ssm(r, s);
    if (!s->n_expert) s->n_ff = get_per_block(r, "feed_forward_length", v, n_block);
    if (s->ssm_d_head != s->ssm_d_state) refuse(r, "ssm.inner_size", "heads of the delta net are not square");
    s->attn_interval = get_int(r, "full_attention_interval", 4);
    s->n_rot = get_int(r, "rope.dimension_count", s->d_head);
    s->rope_base = get_num(r, "rope.freq_base", 10000);
    if (ch_gguf_find(r->g, key_of(r, "attention.recurrent_layers", key))) refuse(r, "attention.recurrent_layers", "only every n-th layer may be attention");
    const int rc = ch_gguf_get_bool(r->g, key_of(r, "ssm.v_head_reordered", key), &tiled, r->e);
    if (rc < 0 && !r->rc) r->rc = rc;
    if (!tiled) refuse(r, "ssm.v_head_reordered", "value heads in this order cannot be trained");
    char name[64];
    snprintf(name, sizeof name, "blk.%d.nextn.eh_proj.weight", s->n_layer);
    if (s->n_mtp && !ch_gguf_find_tensor(r->g, name)) s->n_mtp = 0; // a file without the blocks that its keys speak of
    s->ssm_d_head = 0;
}

static void read_nemotron(reader *r, ch_train_shape *s, int32_t n_block) {
    uint32_t kv[MAX_BLOCKS], ff[MAX_BLOCKS];
    bool norm = true;
    char key[96];
    read_attention(r, s, n_block), read_experts(r, s), read_ssm(r, s);
    get_per_block(r, "attention.head_count_kv", kv, n_block);
    get_per_block(r, "feed_forward_length", ff, n_block);
    for (int32_t i = 0; i < n_block && i < MAX_BLOCKS; i++) s->pattern[i] = kv[i] ? '*' : !ff[i] ? 'M' : s->n_expert ? 'E' : '-';
    s->expert_scale = get_num(r, "expert_weights_scale", 1);
    if (s->n_expert && get_int(r, "expert_gating_func", 2) != 2) refuse(r, "expert_gating_func", "only a sigmoid can be trained here");
    const int rc = ch_gguf_get_bool(r->g, key_of(r, "expert_weights_norm", key), &norm, r->e);
    if (rc < 0 && !r->rc) r->rc = rc;
    if (!norm) refuse(r, "expert_weights_norm", "weights of the chosen experts must sum to one");
}

int ch_train_read_shape(ch_train_shape *s, const ch_gguf *g, ch_error *e) {
    ch_gguf_str arch;
    *s = (ch_train_shape){0};
    int rc = ch_gguf_get_str(g, "general.architecture", &arch, e);
    if (rc == 0) rc = fail(g, e, CH_EFORMAT, "key general.architecture is missing");
    const ch_gguf_tensor *embd = ch_gguf_find_tensor(g, "token_embd.weight");
    if (rc > 0 && arch.n >= sizeof s->arch) rc = fail(g, e, CH_EUNSUPPORTED, "an architecture that cannot be trained");
    if (rc > 0 && !embd) rc = fail(g, e, CH_EFORMAT, "tensor token_embd.weight is missing");
    if (rc > 0) {
        memcpy(s->arch, arch.p, arch.n);
        reader r = {.g = g, .arch = s->arch, .e = e};
        s->n_vocab = embd->ne[1] <= INT32_MAX ? (int32_t)embd->ne[1] : 0;
        s->tied = !ch_gguf_find_tensor(g, "output.weight");
        s->n_embd = get_int(&r, "embedding_length", -1), s->n_ctx = get_int(&r, "context_length", -1);
        s->eps = get_num(&r, "attention.layer_norm_rms_epsilon", 1e-5);
        const int32_t n_block = get_int(&r, "block_count", -1);
        s->n_mtp = get_int(&r, "nextn_predict_layers", 0);
        s->n_layer = n_block - s->n_mtp;
        if (strncmp(s->arch, "qwen35", 6) == 0) read_qwen(&r, s, n_block);
        else if (strcmp(s->arch, "nemotron_h_moe") == 0) read_nemotron(&r, s, n_block);
        else read_ssm(&r, s); // an architecture that cannot be trained is told when the model is built
        check_common(&r, s);
        rc = r.rc;
    }
    return rc;
}

// ---- weights ----------------------------------------------------------------------------------------------------------------------
static bool same_shape(const ch_gguf_tensor *g, const ch_train_tensor *t) { // but for dimensions of 1
    uint64_t a[4] = {1, 1, 1, 1}, b[4] = {1, 1, 1, 1};
    size_t na = 0, nb = 0;
    for (int i = 0; i < 4; i++) {
        if (g->ne[i] != 1) a[na++] = g->ne[i];
        if (t->ne[i] > 1) b[nb++] = t->ne[i];
    }
    return memcmp(a, b, sizeof a) == 0;
}

static int read_tensor(const ch_gguf *file, const ch_gguf_tensor *g, const ch_train_tensor *t, float *w, ch_error *e) {
    if (!same_shape(g, t))
        return fail(file, e, CH_EFORMAT, "tensor %s has shape [%llu, %llu, %llu], expected [%llu, %llu, %llu]", g->name, (unsigned long long)g->ne[0],
                            (unsigned long long)g->ne[1], (unsigned long long)g->ne[2], (unsigned long long)t->ne[0],
                            (unsigned long long)(t->n_dims > 1 ? t->ne[1] : 1), (unsigned long long)(t->n_dims > 2 ? t->ne[2] : 1));
    if (!g->type->decode) return fail(file, e, CH_EUNSUPPORTED, "tensor %s has type %s, which holds no weights", g->name, g->type->name);
    g->type->decode(g->data, w, t->n);
    for (size_t i = 0; i < t->n; i++) {
        if (!isfinite(w[i]) || (t->init == CH_TRAIN_DECAY && !(w[i] < 0)))
            return fail(file, e, CH_EFORMAT, "tensor %s: value %zu is %g", g->name, i, (double)w[i]);
        if (t->init == CH_TRAIN_DECAY) w[i] = logf(-w[i]);
    }
    ch_map_drop(g->data, g->size); // the weights need not be in memory twice
    return 0;
}

int ch_train_read_weights(const ch_train_model *m, const ch_gguf *g, float *w, ch_error *e) {
    const size_t n = m->lora.n ? m->n_frozen_tensor : m->n_tensor, n_file = ch_gguf_n_tensors(g);
    bool *used = ch_alloc(n_file + 1);
    int rc = used ? 0 : fail(g, e, CH_ENOMEM, "no memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const ch_train_tensor *t = &m->tensor[i];
        const ch_gguf_tensor *x = ch_gguf_find_tensor(g, t->name);
        if (!x && strstr(t->name, ".nextn.shared_head_norm.")) x = ch_gguf_find_tensor(g, "output_norm.weight"); // the trunk's serves
        rc = x ? read_tensor(g, x, t, w + t->off, e) : fail(g, e, CH_EFORMAT, "tensor %s is missing", t->name);
        if (x) used[x - ch_gguf_tensor_at(g, 0)] = true;
    }
    for (size_t i = 0; rc == 0 && i < n_file; i++)
        if (!used[i]) rc = fail(g, e, CH_EUNSUPPORTED, "tensor %s has no place in a model that can be trained", ch_gguf_tensor_at(g, i)->name);
    ch_free(used);
    return rc;
}
