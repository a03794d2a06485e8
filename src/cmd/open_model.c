// Model and tokens for the commands that drive a model step by step.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/open_model.h"

ch_model *ch_cmd_open_model(const ch_cmd_options *o, int n_seq) {
    ch_cmd_progress bar = {.quiet = ch_opt_bool(o, CH_OPT_QUIET)};
    ch_model *m = NULL;
    ch_error e = {0};
    const char *path = ch_cmd_model_path(o, NULL);
    if (!path)
        return NULL;
    ch_model_params p = {
        .tier = ch_opt_text(o, CH_OPT_TIER),
        .n_threads = (int)ch_opt_int(o, CH_OPT_THREADS),
        .n_batch = (int)ch_opt_int(o, CH_OPT_BATCH),
        .n_seq = n_seq,
        .mtp = ch_opt_bool(o, CH_OPT_DRAFTS),
        .k_type = ch_opt_text(o, CH_OPT_KV_TYPE_K),
        .v_type = ch_opt_text(o, CH_OPT_KV_TYPE_V),
        .no_kv_hadamard = !ch_opt_bool(o, CH_OPT_KV_HADAMARD),
        .state_type = ch_opt_text(o, CH_OPT_STATE_TYPE),
        .chunk_form = strcmp(ch_opt_text(o, CH_OPT_PREFILL_FORM), "chunk") == 0,
        .no_repack = !ch_opt_bool(o, CH_OPT_REPACK),
        .panel_cache = ch_opt_text(o, CH_OPT_PANEL_CACHE),
        .panel_cache_bytes = (uint64_t)ch_opt_int(o, CH_OPT_PANEL_CACHE_SIZE),
        .progress = ch_cmd_show_progress,
        .progress_user = &bar,
    };
    ch_cmd_loras l;
    if (!ch_opt_read_loras(o, &l))
        return NULL;
    for (int i = 0; i < l.n; i++)
        p.lora[i] = (ch_model_lora){l.path[i], l.scale[i]};
    p.n_lora = (size_t)l.n;
    int rc = ch_model_open(&m, path, &p, &e);
    ch_cmd_end_progress(&bar);
    if (rc != 0)
        ch_cmd_fail_error(o->spec->name, &e);
    return m;
}

static bool read_ids(const ch_cmd_options *o, const char *s, int32_t n_vocab, ch_tokens *out, int *code) {
    while (*s) {
        char *end;
        errno = 0;
        long v = strtol(s, &end, 10);
        bool ok = end != s && errno == 0 && v >= 0 && v < n_vocab && (*end == ',' || !*end);
        if (!ok) {
            *code = ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--tokens: expected ids from 0 to %d with commas, found \"%.20s\"",
                                n_vocab - 1, s);
            return false;
        }
        if (!ch_tokens_push(out, (int32_t)v)) {
            *code = ch_cmd_fail(o->spec->name, CH_EXIT_FAILED, "out of memory");
            return false;
        }
        s = *end ? end + 1 : end;
    }
    return true;
}

bool ch_cmd_read_tokens(const ch_cmd_options *o, const ch_model *m, ch_tokens *out, int *exit_code) {
    const char *ids = ch_opt_text(o, CH_OPT_TOKENS), *text = ch_opt_text(o, CH_OPT_PROMPT);
    ch_error e = {0};
    ch_vocab *v = NULL;
    if ((ids != NULL) == (text != NULL)) {
        *exit_code = ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "give --tokens 1,2,3 or -p TEXT%s", ids ? ", not both" : "");
        return false;
    }
    if (ids && !read_ids(o, ids, ch_model_get_info(m)->n_vocab, out, exit_code))
        return false;
    if (text) {
        int rc = ch_vocab_open(&v, ch_model_gguf(m), &e);
        if (rc == 0)
            rc = ch_tokenize(v, text, strlen(text), CH_TOK_SPECIAL | CH_TOK_BOS_EOS, out, &e);
        ch_vocab_free(&v);
        if (rc != 0) {
            *exit_code = ch_cmd_fail_error(o->spec->name, &e);
            return false;
        }
    }
    if (out->n == 0) {
        *exit_code = ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "no tokens");
        return false;
    }
    return true;
}
