// Architectures and their presets.
#include <stdio.h>
#include <string.h>

#include "synth/part.h"

typedef ch_synth_preset_row preset;

// Tiny: every part present, wide enough for blocks of 256 in most matrices, and unlike every default where a default would
// hide a mistake (rope base, rotated part, tied head).
#define TINY .n_layer = 4, .n_embd = 256, .n_vocab = 512, .n_ctx = 2048, .n_head = 4, .n_head_kv = 2, .d_head = 64, .rope_base = 100000
#define TINY_GDN .n_rot = 16, .ssm_heads_k = 2, .ssm_heads_v = 4, .ssm_d_state = 64, .ssm_conv = 4, .attn_interval = 4, .rms_eps = 1e-6f
#define TINY_MOE .n_expert = 8, .n_expert_used = 2, .n_ff_exp = 64, .n_ff_shexp = 256
// Common to the released hybrids.
#define GDN .d_head = 256, .n_rot = 64, .ssm_heads_k = 16, .ssm_d_state = 128, .ssm_conv = 4, .attn_interval = 4, .rope_base = 1e7f, .rms_eps = 1e-6f, .n_ctx = 262144
#define MOE_35B .n_embd = 2048, .n_head = 16, .n_head_kv = 2, .ssm_heads_v = 32, .n_expert = 256, .n_expert_used = 8, .n_ff_exp = 512, .n_ff_shexp = 512
#define MOE_80B .n_embd = 2048, .n_head = 16, .n_head_kv = 2, .ssm_heads_v = 32, .n_expert = 512, .n_expert_used = 10, .n_ff_exp = 512, .n_ff_shexp = 512
#define DENSE_08B .n_layer = 24, .n_embd = 1024, .n_head = 8, .n_head_kv = 2, .ssm_heads_v = 16, .n_ff = 3584, .tied = true
#define LLAMA_1B .n_layer = 16, .n_embd = 2048, .n_vocab = 128256, .n_ctx = 131072, .n_head = 32, .n_head_kv = 8, .d_head = 64, .n_rot = 64, .n_ff = 8192, .rope_base = 500000, .rms_eps = 1e-5f, .tied = true

static const preset qwen35[] = {
    {"tiny", {TINY, TINY_GDN, .n_ff = 512, .tied = true}},
    {"bench", {GDN, DENSE_08B, .n_vocab = 248320}},
    {"0.8b", {GDN, DENSE_08B, .n_vocab = 248320}},
    {"2b", {GDN, .n_vocab = 248320, .n_layer = 24, .n_embd = 2048, .n_head = 8, .n_head_kv = 2, .ssm_heads_v = 16, .n_ff = 6144, .tied = true}},
    {"4b", {GDN, .n_vocab = 248320, .n_layer = 32, .n_embd = 2560, .n_head = 16, .n_head_kv = 4, .ssm_heads_v = 32, .n_ff = 9216, .tied = true}},
    {"9b", {GDN, .n_vocab = 248320, .n_layer = 32, .n_embd = 4096, .n_head = 16, .n_head_kv = 4, .ssm_heads_v = 32, .n_ff = 12288}},
    {"27b", {GDN, .n_vocab = 248320, .n_layer = 64, .n_embd = 5120, .n_head = 24, .n_head_kv = 4, .ssm_heads_v = 48, .n_ff = 17408}},
    {NULL, {0}},
};
static const preset qwen35moe[] = {
    {"tiny", {TINY, TINY_GDN, TINY_MOE}},
    {"bench", {GDN, MOE_35B, .n_vocab = 248320, .n_layer = 8}},
    {"35b-a3b", {GDN, MOE_35B, .n_vocab = 248320, .n_layer = 40}},
    {NULL, {0}},
};
static const preset qwen3next[] = {
    {"tiny", {TINY, TINY_GDN, TINY_MOE}},
    {"bench", {GDN, MOE_80B, .n_vocab = 151936, .n_layer = 4}},
    {"80b-a3b", {GDN, MOE_80B, .n_vocab = 151936, .n_layer = 48}},
    {NULL, {0}},
};
static const preset llama[] = {
    {"tiny", {TINY, .n_rot = 64, .n_ff = 512, .rms_eps = 1e-5f}},
    {"tiny-moe", {TINY, .n_rot = 64, .n_ff = 96, .n_ff_exp = 96, .n_expert = 5, .n_expert_used = 2, .rms_eps = 1e-5f}},
    {"bench", {LLAMA_1B}},
    {"1b", {LLAMA_1B}},
    {NULL, {0}},
};

static const ch_synth_arch_row archs[] = {{"llama", llama}, {"qwen35", qwen35}, {"qwen35moe", qwen35moe}, {"qwen3next", qwen3next}};
#define N_OWN (sizeof archs / sizeof *archs)
#define N_ARCHS (N_OWN + CH_SYNTH_N_SSM + CH_SYNTH_N_FAMILIES)

static const ch_synth_arch_row *arch_row(size_t i) {
    if (i < N_OWN) return &archs[i];
    i -= N_OWN;
    return i < CH_SYNTH_N_SSM ? &ch_synth_ssm_archs[i] : &ch_synth_family_archs[i - CH_SYNTH_N_SSM];
}

const ch_synth_maker *ch_synth_find_maker(const ch_synth_shape *s) {
    for (size_t i = 0; i < N_ARCHS; i++)
        if (strcmp(arch_row(i)->name, s->arch) == 0) return arch_row(i)->maker;
    return NULL;
}

const char *ch_synth_arch_at(size_t i) { return i < N_ARCHS ? arch_row(i)->name : NULL; }

static const preset *find_arch(const char *arch) {
    for (size_t i = 0; i < N_ARCHS; i++)
        if (strcmp(arch_row(i)->name, arch) == 0) return arch_row(i)->presets;
    return NULL;
}

const char *ch_synth_preset_at(const char *arch, size_t i) {
    const preset *p = find_arch(arch);
    for (; p && p->name && i > 0; i--) p++;
    return p ? p->name : NULL;
}

int ch_synth_preset(ch_synth_shape *s, const char *arch, const char *name, ch_error *e) {
    char known[400] = ""; // longer than an error
    size_t at = 0;
    for (size_t i = 0; i < N_ARCHS; i++) {
        if (at < sizeof known) at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", arch_row(i)->name);
        if (strcmp(arch_row(i)->name, arch) != 0) continue;
        char presets[160] = "";
        size_t to = 0;
        for (const preset *p = arch_row(i)->presets; p->name; p++) {
            if (strcmp(p->name, name) == 0) {
                *s = p->s;
                s->arch = arch_row(i)->name;
                return 0;
            }
            to += (size_t)snprintf(presets + to, sizeof presets - to, "%s%s", to ? ", " : "", p->name);
        }
        return ch_error_set(e, CH_ERANGE, "preset \"%.40s\" of %s is not known; there are: %s", name, arch, presets);
    }
    return ch_error_set(e, CH_EUNSUPPORTED, "\"%.16s\" is not known (%s)", arch, known);
}

// ---- check ------------------------------------------------------------------------------------------------------------
int ch_synth_check(const ch_synth_shape *s, ch_error *e) {
    const ch_synth_maker *maker = ch_synth_find_maker(s);
    if (maker) return maker->check(s, e);
    bool gdn = s->attn_interval > 0, moe = s->n_expert > 0;
    const ch_synth_limit row[] = {
        {"n-layer", s->n_layer, 1, 512},
        {"n-embd", s->n_embd, 8, 1 << 16},
        {"n-vocab", s->n_vocab, CH_SYNTH_MIN_VOCAB, 1 << 20},
        {"n-ctx", s->n_ctx, 1, 1 << 24},
        {"n-head", s->n_head, 1, 1024},
        {"n-head-kv", s->n_head_kv, 1, 1024},
        {"d-head", s->d_head, 4, 1024},
        {"n-rot", s->n_rot, 2, s->d_head},
        {"n-ff", moe ? 1 : s->n_ff, 1, 1 << 18},
        {"n-expert", s->n_expert, 0, 1024},
        {"n-expert-used", moe ? s->n_expert_used : 1, 1, moe ? s->n_expert : 1},
        {"n-ff-exp", moe ? s->n_ff_exp : 1, 1, 1 << 18},
        {"n-ff-shexp", s->n_ff_shexp, 0, 1 << 18},
        {"ssm-heads-k", gdn ? s->ssm_heads_k : 1, 1, 1024},
        {"ssm-heads-v", gdn ? s->ssm_heads_v : 1, 1, 1024},
        {"ssm-d-state", gdn ? s->ssm_d_state : 1, 1, 1024},
        {"ssm-conv", gdn ? s->ssm_conv : 2, 2, 16},
        {"attn-interval", s->attn_interval, 0, 512},
        {"nextn", s->n_nextn, 0, gdn ? 1 : 0},
    };
    int rc = ch_synth_check_limits(row, sizeof row / sizeof *row, e);
    if (rc) return rc;
    if (s->n_head % s->n_head_kv != 0)
        return ch_error_set(e, CH_ERANGE, "n-head: expected a multiple of n-head-kv (%d), found %d", s->n_head_kv, s->n_head);
    if (gdn && s->ssm_heads_v % s->ssm_heads_k != 0)
        return ch_error_set(e, CH_ERANGE, "ssm-heads-v: expected a multiple of ssm-heads-k (%d), found %d", s->ssm_heads_k, s->ssm_heads_v);
    if (s->n_rot % 2 != 0) return ch_error_set(e, CH_ERANGE, "n-rot: expected an even number, found %d", s->n_rot);
    return 0;
}
