// chimere bench: prefill and decode speed, beside the limits of the machine measured in the same run.
#include <sys/resource.h>

#include "cmd/bench.h"

static const int options[] = {CH_OPT_BENCH_PREFILL, CH_OPT_BENCH_DECODE,  CH_OPT_BENCH_SLOTS, CH_OPT_BENCH_DEPTH,
                              CH_OPT_BENCH_SUBSETS, CH_OPT_BENCH_FILL, CH_OPT_REPEATS,       CH_OPT_JSON,        CH_OPT_CSV,
                              CH_CMD_MODEL_OPTIONS};

static const ch_cmd_spec spec = {
    .name = "bench",
    .usage = "-m FILE [-p 512] [-n 128] [-t 2] [--slots 1,4] [--depth 0,4096] [--json|--csv]",
    .about = "Measures the model: prefill (reading a prompt) and decode (making tokens), as medians of several repeats; the share\n"
             "of what this machine can do, measured in the same run by the same number of threads: decode is bound by the memory\n"
             "read bandwidth (of the model's own weights), prefill by the peak of 8-bit dot products. The hash covers every score\n"
             "computed by the first sequence: equal hashes mean bit-equal results. Several values after -p, --slots or --depth\n"
             "make several rows. Of a mixture of experts, bytes are those of the experts really touched.",
    .examples = "  chimere bench -m model.gguf\n"
                "  chimere bench -m model.gguf -p 128,512 -n 64 --slots 1,4 --json > bench.json\n"
                "  chimere bench -m model.gguf -p 64 -n 32 --depth 0,1024,4096 --csv > depth.csv",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
};

enum { MAX_VALUES = 16 };

// Rows from the lists of the options; false after explaining.
static bool plan_rows(ch_bench *b) {
    int64_t pre[MAX_VALUES], depth[MAX_VALUES], slots[MAX_VALUES];
    int n_pre = ch_opt_int_list(b->o, CH_OPT_BENCH_PREFILL, pre, MAX_VALUES);
    int n_depth = n_pre < 0 ? -1 : ch_opt_int_list(b->o, CH_OPT_BENCH_DEPTH, depth, MAX_VALUES);
    int n_slots = n_depth < 0 ? -1 : ch_opt_int_list(b->o, CH_OPT_BENCH_SLOTS, slots, MAX_VALUES);
    int64_t decode_n = ch_opt_int(b->o, CH_OPT_BENCH_DECODE);
    if (n_slots < 0)
        return false;
    if ((int64_t)n_pre * n_depth * n_slots > CH_BENCH_MAX_ROWS || n_pre * n_depth * n_slots == 0) {
        ch_cmd_fail("bench", CH_EXIT_USAGE, "expected 1 to %d rows, found %d", CH_BENCH_MAX_ROWS, n_pre * n_depth * n_slots);
        return false;
    }
    if (ch_opt_bool(b->o, CH_OPT_JSON) && ch_opt_bool(b->o, CH_OPT_CSV)) {
        ch_cmd_fail("bench", CH_EXIT_USAGE, "give --json or --csv, not both");
        return false;
    }
    for (int d = 0; d < n_depth; d++)
        for (int s = 0; s < n_slots; s++)
            for (int p = 0; p < n_pre; p++) {
                if (pre[p] < 1) {
                    ch_cmd_fail("bench", CH_EXIT_USAGE, "-p (--prefill): expected at least 1");
                    return false;
                }
                b->rows[b->n_rows++] = (ch_bench_row){.prefill = (int32_t)pre[p], .depth = (int32_t)depth[d],
                                                      .decode = (int32_t)decode_n, .slots = (int32_t)slots[s]};
            }
    return true;
}

static int measure_all(ch_bench *b, ch_error *e) {
    int rc = ch_bench_limits_open(&b->limits, b->m, e);
    for (int k = 0; rc == 0 && k < b->n_rows; k++)
        rc = ch_bench_measure(b, &b->rows[k], e);
    ch_cmd_end_progress(&b->bar);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    b->peak_bytes = (uint64_t)use.ru_maxrss * 1024;
    ch_bench_limits_close(&b->limits);
    return rc;
}

int ch_cmd_bench(int argc, char **argv) {
    ch_cmd_options o;
    ch_bench b = {.o = &o};
    ch_error e = {0};
    int code, n_seq = 1;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    b.repeats = ch_opt_int(&o, CH_OPT_REPEATS);
    b.subsets = ch_opt_bool(&o, CH_OPT_BENCH_SUBSETS);
    b.bar.quiet = ch_opt_bool(&o, CH_OPT_QUIET);
    code = CH_EXIT_USAGE;
    if (!plan_rows(&b))
        goto done;
    for (int k = 0; k < b.n_rows; k++)
        n_seq = b.rows[k].slots > n_seq ? b.rows[k].slots : n_seq;
    code = CH_EXIT_FAILED;
    b.m = ch_cmd_open_model(&o, n_seq);
    if (!b.m)
        goto done;
    b.info = ch_model_get_info(b.m);
    if (measure_all(&b, &e) != 0) {
        ch_cmd_fail_error("bench", &e);
        goto done;
    }
    if (ch_opt_bool(&o, CH_OPT_JSON))
        ch_bench_print_json(&b);
    else if (ch_opt_bool(&o, CH_OPT_CSV))
        ch_bench_print_csv(&b);
    else
        ch_bench_print_text(&b);
    code = CH_EXIT_OK;
done:
    ch_model_close(&b.m);
    ch_cmd_options_free(&o);
    return code;
}
