// chimere synth: writes a model file with random weights.
#include <string.h>

#include "cmd/cmd.h"
#include "synth/synth.h"

static const int options[] = {CH_OPT_SYNTH_PRESET,    CH_OPT_SYNTH_TYPE,    CH_OPT_SEED,          CH_OPT_N_LAYER,  CH_OPT_N_EMBD,
                              CH_OPT_N_HEAD,          CH_OPT_N_HEAD_KV,     CH_OPT_D_HEAD,        CH_OPT_N_ROT,    CH_OPT_N_VOCAB,
                              CH_OPT_N_CTX,           CH_OPT_N_FF,          CH_OPT_N_EXPERT,      CH_OPT_N_EXPERT_USED,
                              CH_OPT_N_FF_EXP,        CH_OPT_N_FF_SHEXP,    CH_OPT_SSM_HEADS_K,   CH_OPT_SSM_HEADS_V,
                              CH_OPT_SSM_D_STATE,     CH_OPT_SSM_CONV,      CH_OPT_ATTN_INTERVAL, CH_OPT_ROPE_BASE,
                              CH_OPT_TIED,             CH_OPT_N_NEXTN};
static const ch_cmd_spec spec = {
    .name = "synth",
    .usage = "ARCH OUT.gguf [--preset tiny|bench|...] [--type q4_k] [--seed N]",
    .about = "Writes a valid model with random weights: for tests (tiny) and measurements (bench and the released sizes,\n"
             "such as 0.8b, 2b, 4b, 9b, 27b of qwen35). What such a model says means nothing.\n"
             "Shape options change single values of the preset.",
    .examples = "  chimere synth qwen35 tiny.gguf\n"
                "  chimere synth qwen35 bench.gguf --preset bench --type q4_k\n"
                "  chimere synth qwen35moe odd.gguf --ssm-heads-v 6 --n-expert 16 --type f32 --seed 7\n",
    .option = options,
    .n_option = sizeof options / sizeof *options,
    .min_args = 2,
    .max_args = 2,
};

static void apply_overrides(const ch_cmd_options *o, ch_synth_shape *s) {
    const struct {
        int id;
        int32_t *value;
    } row[] = {
        {CH_OPT_N_LAYER, &s->n_layer},         {CH_OPT_N_EMBD, &s->n_embd},           {CH_OPT_N_HEAD, &s->n_head},
        {CH_OPT_N_HEAD_KV, &s->n_head_kv},     {CH_OPT_D_HEAD, &s->d_head},           {CH_OPT_N_ROT, &s->n_rot},
        {CH_OPT_N_VOCAB, &s->n_vocab},         {CH_OPT_N_CTX, &s->n_ctx},             {CH_OPT_N_FF, &s->n_ff},
        {CH_OPT_N_EXPERT, &s->n_expert},       {CH_OPT_N_EXPERT_USED, &s->n_expert_used}, {CH_OPT_N_FF_EXP, &s->n_ff_exp},
        {CH_OPT_N_FF_SHEXP, &s->n_ff_shexp},   {CH_OPT_SSM_HEADS_K, &s->ssm_heads_k}, {CH_OPT_SSM_HEADS_V, &s->ssm_heads_v},
        {CH_OPT_SSM_D_STATE, &s->ssm_d_state}, {CH_OPT_SSM_CONV, &s->ssm_conv},       {CH_OPT_ATTN_INTERVAL, &s->attn_interval},
        {CH_OPT_N_NEXTN, &s->n_nextn},
    };
    int32_t d_head = s->d_head, n_rot = s->n_rot;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (ch_opt_given(o, row[i].id)) *row[i].value = (int32_t)ch_opt_int(o, row[i].id);
    // The rotated part keeps its share of the head.
    if (ch_opt_given(o, CH_OPT_D_HEAD) && !ch_opt_given(o, CH_OPT_N_ROT)) s->n_rot = s->d_head * n_rot / d_head / 2 * 2;
    if (ch_opt_given(o, CH_OPT_ROPE_BASE)) s->rope_base = (float)ch_opt_num(o, CH_OPT_ROPE_BASE);
    if (ch_opt_given(o, CH_OPT_TIED)) s->tied = ch_opt_bool(o, CH_OPT_TIED);
}

// Experts and delta net belong to the architecture; without them the file would not be of that kind.
static int check_kind(const ch_synth_shape *s, const ch_synth_shape *preset, ch_error *e) {
    if ((s->n_expert > 0) != (preset->n_expert > 0))
        return ch_error_set(e, CH_ERANGE, "n-expert: %s has %s experts", s->arch, preset->n_expert > 0 ? "always" : "no");
    if ((s->attn_interval > 0) != (preset->attn_interval > 0))
        return ch_error_set(e, CH_ERANGE, "attn-interval: %s %s", s->arch, preset->attn_interval > 0 ? "needs 1 or more" : "has attention only");
    return 0;
}

int ch_cmd_synth(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code)) return code;
    ch_error e = {0};
    ch_synth_shape s, preset;
    code = CH_EXIT_USAGE;
    const char *type_name = ch_opt_text(&o, CH_OPT_SYNTH_TYPE);
    const ch_type_info *type = ch_quant_type_by_name(type_name);
    int rc = ch_synth_preset(&s, o.args[0], ch_opt_text(&o, CH_OPT_SYNTH_PRESET), &e);
    if (rc == 0) {
        preset = s;
        apply_overrides(&o, &s);
        rc = check_kind(&s, &preset, &e);
    }
    if (rc == 0) rc = ch_synth_check(&s, &e);
    if (rc == 0 && !type) rc = ch_error_set(&e, CH_ERANGE, "type: \"%.40s\" is no tensor type (f32, f16, q8_0, q4_k, ...)", type_name);
    if (rc == 0) {
        code = CH_EXIT_FAILED;
        uint64_t seed = ch_opt_given(&o, CH_OPT_SEED) ? (uint64_t)ch_opt_int(&o, CH_OPT_SEED) : 1;
        ch_cmd_progress bar = {.quiet = ch_opt_bool(&o, CH_OPT_QUIET)};
        rc = ch_synth_write(o.args[1], &s, type->id, seed, ch_cmd_show_progress, &bar, &e);
        ch_cmd_end_progress(&bar);
    }
    if (rc != 0) {
        ch_cmd_fail_error("synth", &e);
    } else {
        if (!ch_opt_bool(&o, CH_OPT_QUIET)) fprintf(stderr, "wrote %s\n", o.args[1]);
        code = CH_EXIT_OK;
    }
    ch_cmd_options_free(&o);
    return code;
}
