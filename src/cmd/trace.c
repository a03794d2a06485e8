// chimere trace: sums of intermediate tensors, for finding where two engines part.
#include <math.h>
#include <string.h>

#include "cmd/open_model.h"

static const int options[] = {CH_OPT_PROMPT, CH_OPT_TOKENS, CH_OPT_JSON, CH_CMD_MODEL_OPTIONS};

static const ch_cmd_spec spec = {
    .name = "trace",
    .usage = "-m FILE -p TEXT [--json]",
    .about = "Runs the prompt through the model and prints, for every named intermediate tensor, its sum, the sum of its\n"
             "magnitudes and its extremes over ALL its elements (every token). Two engines that agree up to a line and differ\n"
             "after it part in between. A prompt longer than one step (--batch) is printed step by step.",
    .examples = "  chimere trace -m model.gguf -p \"Hello\"\n"
                "  chimere trace -m model.gguf --tokens 1,2,3 --tier ref --json",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
};

typedef struct tracer {
    bool json;
    int step, n_lines;
} tracer;

static void print_tensor(void *user, const char *name, int layer, const float *x, size_t n_row, size_t n_col) {
    tracer *t = user;
    double sum = 0, mag = 0;
    float lo = INFINITY, hi = -INFINITY;
    size_t n_bad = 0;
    for (size_t i = 0; i < n_row * n_col; i++) {
        if (!isfinite(x[i])) {
            n_bad++;
            continue;
        }
        sum += x[i];
        mag += fabsf(x[i]);
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    if (n_bad == n_row * n_col)
        lo = hi = 0;
    if (t->json)
        printf("%s{\"step\":%d,\"name\":\"%s\",\"layer\":%d,\"rows\":%zu,\"cols\":%zu,\"sum\":%.9g,\"abs_sum\":%.9g,\"min\":%.9g,"
               "\"max\":%.9g,\"non_finite\":%zu}", t->n_lines ? ",\n " : "[", t->step, name, layer, n_row, n_col, sum, mag, (double)lo,
               (double)hi, n_bad);
    else
        printf("%4d %5d %-16s %6zu x %-6zu %+.8e  %.8e  [%+.5e, %+.5e]%s\n", t->step, layer, name, n_row, n_col, sum, mag,
               (double)lo, (double)hi, n_bad ? "  NOT FINITE" : "");
    t->n_lines++;
}

int ch_cmd_trace(int argc, char **argv) {
    ch_cmd_options o;
    ch_model *m = NULL;
    ch_seq_pool *pool = NULL;
    ch_seq *seq = NULL;
    float *logits = NULL; // [1][n_vocab]
    ch_tokens t = {0};
    ch_error e = {0};
    int code, rc;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    code = CH_EXIT_FAILED;
    m = ch_cmd_open_model(&o, 1);
    if (!m || !ch_cmd_read_tokens(&o, m, &t, &code))
        goto done;
    const ch_seq_plan *plan = ch_model_plan(m);
    const ch_model_info *i = ch_model_get_info(m);
    ch_seq_limits lim = {.n_seq = 1, .max_tokens = t.n, .n_page = t.n / (plan->page_tokens ? plan->page_tokens : 1) + 1};
    tracer tr = {.json = ch_opt_bool(&o, CH_OPT_JSON)};
    logits = ch_alloc_array((size_t)i->n_vocab, sizeof *logits);
    rc = logits ? ch_seq_pool_create(&pool, plan, &lim, &e) : ch_error_set(&e, CH_ENOMEM, "out of memory");
    if (rc == 0)
        rc = ch_seq_create(&seq, pool, &e);
    if (!tr.json)
        printf("step layer tensor             rows x cols    sum              magnitudes      [least, most]\n");
    ch_model_set_trace(m, print_tensor, &tr);
    for (size_t at = 0; rc == 0 && at < t.n; at += (size_t)i->n_batch) {
        int32_t n = t.n - at < (size_t)i->n_batch ? (int32_t)(t.n - at) : i->n_batch, last = n - 1;
        ch_segment seg = {seq, n};
        ch_batch b = {.token = t.id + at, .n_row = n, .seg = &seg, .n_seg = 1, .out_row = &last, .n_out = 1};
        rc = ch_model_forward(m, &b, logits, &e);
        if (rc == 0)
            print_tensor(&tr, "logits", -1, logits, 1, (size_t)i->n_vocab);
        tr.step++;
    }
    if (tr.json)
        printf("%s]\n", tr.n_lines ? "" : "[");
    code = rc == 0 ? CH_EXIT_OK : ch_cmd_fail_error("trace", &e);
done:
    ch_free(logits);
    ch_seq_free(&seq);
    ch_seq_pool_free(&pool);
    ch_tokens_free(&t);
    ch_model_close(&m);
    ch_cmd_options_free(&o);
    return code;
}
