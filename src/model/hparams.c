// Hyper-parameters that every family reads alike, with ranges that no later size computation can overflow from.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

enum { MAX_KEY = 128 };

static const char *full_key(const ch_model *m, const char *key, char out[MAX_KEY]) {
    snprintf(out, MAX_KEY, "%s.%s", m->arch->name, key);
    return out;
}

int ch_model_hp_u32(ch_model *m, const char *key, bool required, uint32_t min, uint32_t max, uint32_t *v, ch_error *e) {
    char name[MAX_KEY];
    int rc = ch_gguf_get_u32(m->gguf, full_key(m, key, name), v, e);
    if (rc < 0) return rc;
    if (rc == 0 && required) return ch_error_set(e, CH_EFORMAT, "%s: key %s is missing", ch_gguf_path(m->gguf), name);
    if (*v < min || *v > max)
        return ch_error_set(e, CH_ERANGE, "%s: key %s is %u, expected %u..%u", ch_gguf_path(m->gguf), name, *v, min, max);
    return CH_OK;
}

int ch_model_hp_u32_n(ch_model *m, const char *key, uint32_t *v, size_t n, ch_error *e) {
    char name[MAX_KEY];
    return ch_gguf_get_u32_n(m->gguf, full_key(m, key, name), v, n, e);
}

int ch_model_hp_bool(ch_model *m, const char *key, bool *v, ch_error *e) {
    char name[MAX_KEY];
    int rc = ch_gguf_get_bool(m->gguf, full_key(m, key, name), v, e);
    return rc < 0 ? rc : CH_OK;
}

int ch_model_hp_f32(ch_model *m, const char *key, double min, double max, float *v, ch_error *e) {
    char name[MAX_KEY];
    int rc = ch_gguf_get_f32(m->gguf, full_key(m, key, name), v, e);
    if (rc < 0) return rc;
    if (!(*v >= min && *v <= max)) // NaN fails too
        return ch_error_set(e, CH_ERANGE, "%s: key %s is %g, expected %g..%g", ch_gguf_path(m->gguf), name, (double)*v, min, max);
    return CH_OK;
}

// The vocabulary is as large as the embedding says; the token list must not be longer.
static int read_vocab(ch_model *m, ch_hparams *hp, ch_error *e) {
    const ch_gguf_tensor *t = ch_gguf_find_tensor(m->gguf, "token_embd.weight");
    if (!t) return ch_error_set(e, CH_EFORMAT, "%s: tensor token_embd.weight is missing", ch_gguf_path(m->gguf));
    if (t->ne[1] < 1 || t->ne[1] > 1u << 24)
        return ch_error_set(e, CH_ERANGE, "%s: tensor token_embd.weight has %llu rows, expected 1..%u", ch_gguf_path(m->gguf),
                            (unsigned long long)t->ne[1], 1u << 24);
    hp->n_vocab = (uint32_t)t->ne[1];
    const ch_gguf_kv *kv = ch_gguf_find(m->gguf, "tokenizer.ggml.tokens");
    if (kv && kv->type == CH_GGUF_ARR && kv->n > hp->n_vocab)
        return ch_error_set(e, CH_EFORMAT, "%s: tokenizer.ggml.tokens lists %llu tokens, token_embd.weight has %u rows",
                            ch_gguf_path(m->gguf), (unsigned long long)kv->n, hp->n_vocab);
    return CH_OK;
}

static int read_hparams(ch_model *m, ch_hparams *hp, uint32_t min_head, ch_error *e) {
    *hp = (ch_hparams){0};
    uint32_t n_block = 0, d_value, first[1024] = {0};
    char name[MAX_KEY];
    int rc = read_vocab(m, hp, e);
    if (rc || (rc = ch_model_hp_u32(m, "block_count", true, 1, 1024, &n_block, e)) ||
        (rc = ch_model_hp_u32(m, "context_length", true, 1, INT32_MAX, &hp->n_ctx_train, e)) ||
        (rc = ch_model_hp_u32(m, "embedding_length", true, 1, 1 << 17, &hp->n_embd, e)) ||
        (rc = ch_model_hp_u32(m, "nextn_predict_layers", false, 0, n_block - 1, &hp->n_nextn, e)) ||
        (rc = ch_model_hp_u32(m, "expert_count", false, 0, 4096, &hp->n_expert, e)) ||
        (rc = ch_model_hp_u32(m, "expert_used_count", hp->n_expert > 0, hp->n_expert ? 1 : 0, hp->n_expert ? hp->n_expert : 4096,
                              &hp->n_expert_used, e)) ||
        (rc = ch_model_hp_u32(m, "expert_feed_forward_length", false, 0, 1 << 20, &hp->n_ff_exp, e)) ||
        (rc = ch_model_hp_u32(m, "expert_shared_feed_forward_length", false, 0, 1 << 20, &hp->n_ff_shexp, e)))
        return rc;
    hp->n_layer = n_block - hp->n_nextn;
    if ((rc = ch_model_hp_u32_n(m, "feed_forward_length", first, 1, e)) < 0) return rc;
    hp->n_ff = first[0];
    if (hp->n_ff > 1 << 20) return ch_error_set(e, CH_ERANGE, "%s: feed_forward_length %u is too large", ch_gguf_path(m->gguf), hp->n_ff);
    memset(first, 0, sizeof first);
    if ((rc = ch_model_hp_u32_n(m, "attention.head_count", first, n_block, e)) < 0) return rc;
    for (uint32_t i = 0; i < n_block; i++)
        if (first[i] > hp->n_head) hp->n_head = first[i];
    if (hp->n_head < min_head || hp->n_head > 4096)
        return ch_error_set(e, CH_ERANGE, "%s: key %s.attention.head_count is %u, expected %u..4096", ch_gguf_path(m->gguf),
                            m->arch->name, hp->n_head, min_head);
    hp->d_head = hp->n_embd / (hp->n_head ? hp->n_head : 1);
    if ((rc = ch_model_hp_u32(m, "attention.key_length", false, 1, 4096, &hp->d_head, e))) return rc;
    d_value = hp->d_head;
    bool latent = ch_gguf_find(m->gguf, full_key(m, "attention.kv_lora_rank", name)) != NULL; // sizes of its own
    if (!latent && (rc = ch_model_hp_u32(m, "attention.value_length", false, hp->d_head, hp->d_head, &d_value, e))) return rc;
    if ((rc = ch_model_hp_f32(m, "attention.layer_norm_rms_epsilon", 1e-12, 1.0, (hp->eps = -1, &hp->eps), e))) {
        if (hp->eps == -1)
            return ch_error_set(e, CH_EFORMAT, "%s: key %s.attention.layer_norm_rms_epsilon is missing", ch_gguf_path(m->gguf),
                                m->arch->name);
        return rc;
    }
    if ((rc = ch_model_hp_f32(m, "attention.scale", 0, 1e3, &hp->attn_scale, e))) return rc;
    if (hp->attn_scale == 0) hp->attn_scale = 1.0f / sqrtf((float)hp->d_head);
    m->info.n_vocab = (int32_t)hp->n_vocab, m->info.n_embd = (int32_t)hp->n_embd, m->info.n_ctx_train = (int32_t)hp->n_ctx_train;
    m->info.n_head = (int32_t)hp->n_head, m->info.n_expert = (int32_t)hp->n_expert;
    m->info.n_expert_used = (int32_t)hp->n_expert_used;
    return CH_OK;
}

int ch_model_read_hparams(ch_model *m, ch_hparams *hp, ch_error *e) { return read_hparams(m, hp, 1, e); }
int ch_model_read_hparams_headless(ch_model *m, ch_hparams *hp, ch_error *e) { return read_hparams(m, hp, 0, e); }

// ---- rotation -------------------------------------------------------------------------------------------------------------
typedef struct scaling {
    enum { SCALE_NONE, SCALE_LINEAR, SCALE_YARN } kind;
    float base, factor, attn_factor, beta_fast, beta_slow;
    uint32_t n_orig;
} scaling;

static int read_scaling(ch_model *m, const ch_hparams *hp, scaling *s, ch_error *e) {
    *s = (scaling){SCALE_LINEAR, 10000, 1, 1, 32, 1, hp->n_ctx_train};
    ch_gguf_str type = {"linear", 6};
    char name[MAX_KEY];
    int rc = ch_gguf_get_str(m->gguf, full_key(m, "rope.scaling.type", name), &type, e);
    if (rc < 0) return rc;
    if (type.n == 4 && !memcmp(type.p, "none", 4)) s->kind = SCALE_NONE;
    else if (type.n == 4 && !memcmp(type.p, "yarn", 4)) s->kind = SCALE_YARN;
    else if (type.n != 6 || memcmp(type.p, "linear", 6))
        return ch_error_set(e, CH_EUNSUPPORTED, "%s: key %s is \"%.*s\", expected none, linear or yarn", ch_gguf_path(m->gguf), name,
                            (int)(type.n < 40 ? type.n : 40), type.p);
    if ((rc = ch_model_hp_f32(m, "rope.freq_base", 1, 1e15, &s->base, e)) || (rc = ch_model_hp_f32(m, "rope.scaling.factor", 0, 1e6, &s->factor, e)) ||
        (rc = ch_model_hp_f32(m, "rope.scaling.attn_factor", 0, 1e3, &s->attn_factor, e)) ||
        (rc = ch_model_hp_f32(m, "rope.scaling.yarn_beta_fast", 1e-3, 1e4, &s->beta_fast, e)) ||
        (rc = ch_model_hp_f32(m, "rope.scaling.yarn_beta_slow", 1e-3, 1e4, &s->beta_slow, e)))
        return rc;
    if (s->factor == 0 || s->kind == SCALE_NONE) s->factor = 1;
    return ch_model_hp_u32(m, "rope.scaling.original_context_length", false, 1, INT32_MAX, &s->n_orig, e);
}

int ch_model_read_rope(ch_model *m, const ch_hparams *hp, bool neox, ch_rope *r, ch_error *e) {
    scaling s;
    uint32_t n_rot = hp->d_head;
    int rc = ch_model_hp_u32(m, "rope.dimension_count", false, 0, hp->d_head, &n_rot, e);
    if (rc || (rc = read_scaling(m, hp, &s, e))) return rc;
    if (n_rot % 2) return ch_error_set(e, CH_ERANGE, "%s: rope.dimension_count %u is odd", ch_gguf_path(m->gguf), n_rot);
    const float *factor = NULL;
    if ((rc = ch_model_bind_vec(m, &factor, n_rot / 2, CH_BIND_OPTIONAL, e, "rope_freqs.weight"))) return rc;
    *r = (ch_rope){.n_rot = n_rot, .neox = neox, .mscale = 1, .freq = ch_model_alloc(m, n_rot / 2 + 1, sizeof(double))};
    if (!r->freq) return ch_error_set(e, CH_ENOMEM, "no memory");
    double lo = 0, hi = 0, scale = 1.0 / s.factor;
    if (s.kind == SCALE_YARN) { // dimensions whose wave is short against the trained context keep their speed
        double f = n_rot / (2 * log(s.base));
        lo = fmax(0, floor(f * log(s.n_orig / (2 * M_PI * s.beta_fast))));
        hi = fmin(n_rot - 1.0, ceil(f * log(s.n_orig / (2 * M_PI * s.beta_slow))));
        r->mscale = s.attn_factor * (float)(1 + 0.1 * log(s.factor));
    }
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        double mix = 0;
        if (s.kind == SCALE_YARN) mix = 1 - fmin(1, fmax(0, (i - lo) / fmax(0.001, hi - lo)));
        if (factor && !(factor[i] > 0))
            return ch_error_set(e, CH_ERANGE, "%s: tensor rope_freqs.weight: value %u is %g, expected > 0", ch_gguf_path(m->gguf), i,
                                (double)factor[i]);
        r->freq[i] = pow(s.base, -2.0 * i / n_rot) * (scale * (1 - mix) + mix) / (factor ? factor[i] : 1.0f);
    }
    return CH_OK;
}
