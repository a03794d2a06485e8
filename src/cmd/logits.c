// chimere logits: raw scores for comparisons with other engines.
#include <stdlib.h>
#include <string.h>

#include "cmd/open_model.h"

static const int options[] = {CH_OPT_TOKENS, CH_OPT_PROMPT, CH_OPT_OUT, CH_OPT_ALL, CH_OPT_CHUNK, CH_OPT_JSON,
                              CH_CMD_MODEL_OPTIONS};

static const ch_cmd_spec spec = {
    .name = "logits",
    .usage = "-m FILE --tokens 1,2,3 -o OUT [--all]",
    .about = "Writes the scores (logits) after the last token, or with --all after every token: 32-bit floats, little-endian,\n"
             "positions x vocabulary. No token is added to those given.",
    .examples = "  chimere logits -m model.gguf --tokens 1,2,3 -o last.f32\n"
                "  chimere logits -m model.gguf -p \"Hello\" -o all.f32 --all",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
};

// Steps of at most chunk tokens; scores go to the file as they come.
static int compute(ch_model *m, ch_seq *seq, const ch_tokens *t, int32_t chunk, bool all, ch_outfile *out, ch_error *e) {
    const ch_model_info *i = ch_model_get_info(m);
    float *logits = ch_alloc_array((size_t)(all ? chunk : 1) * (size_t)i->n_vocab, sizeof *logits); // [n_out][n_vocab]
    int32_t *row = ch_alloc_array((size_t)chunk, sizeof *row);
    int rc = logits && row ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for %d rows of scores", all ? chunk : 1);
    for (size_t at = 0; rc == 0 && at < t->n; at += (size_t)chunk) {
        int32_t n = t->n - at < (size_t)chunk ? (int32_t)(t->n - at) : chunk;
        bool last = at + (size_t)n == t->n;
        ch_segment seg = {seq, n};
        ch_batch b = {.token = t->id + at, .n_row = n, .seg = &seg, .n_seg = 1, .out_row = row, .n_out = all ? n : last};
        for (int32_t k = 0; k < b.n_out; k++)
            row[k] = all ? k : n - 1;
        rc = ch_model_forward(m, &b, logits, e);
        if (rc == 0)
            rc = ch_outfile_write(out, logits, (size_t)b.n_out * (size_t)i->n_vocab * sizeof *logits, e);
    }
    ch_free(logits);
    ch_free(row);
    return rc;
}

int ch_cmd_logits(int argc, char **argv) {
    ch_cmd_options o;
    ch_model *m = NULL;
    ch_seq_pool *pool = NULL;
    ch_seq *seq = NULL;
    ch_outfile *out = NULL;
    ch_tokens t = {0};
    ch_error e = {0};
    int code, rc;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    const char *path = ch_opt_text(&o, CH_OPT_OUT);
    code = CH_EXIT_USAGE;
    if (!path) {
        ch_cmd_fail("logits", CH_EXIT_USAGE, "no output: give one with -o FILE");
        goto done;
    }
    code = CH_EXIT_FAILED;
    m = ch_cmd_open_model(&o, 1);
    if (!m || !ch_cmd_read_tokens(&o, m, &t, &code))
        goto done;
    const ch_seq_plan *plan = ch_model_plan(m);
    const ch_model_info *i = ch_model_get_info(m);
    ch_seq_limits lim = {.n_seq = 1, .n_mark = 0, .max_tokens = t.n, .n_page = t.n / (plan->page_tokens ? plan->page_tokens : 1) + 1};
    int32_t chunk = (int32_t)ch_opt_int(&o, CH_OPT_CHUNK);
    if (chunk == 0 || chunk > i->n_batch)
        chunk = i->n_batch;
    rc = ch_seq_pool_create(&pool, plan, &lim, &e);
    if (rc == 0)
        rc = ch_seq_create(&seq, pool, &e);
    if (rc == 0)
        rc = ch_outfile_open(&out, path, &e);
    if (rc == 0)
        rc = compute(m, seq, &t, chunk, ch_opt_bool(&o, CH_OPT_ALL), out, &e);
    if (rc == 0)
        rc = ch_outfile_commit(&out, &e);
    code = rc == 0 ? CH_EXIT_OK : ch_cmd_fail_error("logits", &e);
    if (rc == 0 && ch_opt_bool(&o, CH_OPT_JSON))
        printf("{\"n_positions\":%zu,\"n_vocab\":%d,\"tier\":\"%s\"}\n", ch_opt_bool(&o, CH_OPT_ALL) ? t.n : (size_t)1, i->n_vocab,
               i->tier);
done:
    ch_outfile_abort(&out);
    ch_seq_free(&seq);
    ch_seq_pool_free(&pool);
    ch_tokens_free(&t);
    ch_model_close(&m);
    ch_cmd_options_free(&o);
    return code;
}
