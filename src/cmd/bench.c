// chimere bench: prefill and decode speed, beside the limits of the machine measured in the same run.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cmd/bench.h"
#include "cmd/open_model.h"

static const int options[] = {CH_OPT_BENCH_PREFILL, CH_OPT_BENCH_DECODE, CH_OPT_BENCH_SLOTS, CH_OPT_BENCH_DEPTH,
                              CH_OPT_REPEATS,       CH_OPT_JSON,         CH_CMD_MODEL_OPTIONS};

static const ch_cmd_spec spec = {
    .name = "bench",
    .usage = "-m FILE [-p 512] [-n 128] [-t 2] [--slots 1,4] [--depth 0,4096] [--json]",
    .about = "Measures the model: prefill (reading a prompt) and decode (making tokens), as medians of several repeats; the share\n"
             "of what this machine can do, measured in the same run by the same number of threads: decode is bound by the memory\n"
             "read bandwidth, prefill by the peak of 8-bit dot products. The hash covers every score computed by the first\n"
             "sequence: equal hashes mean bit-equal results. Several values after -p, --slots or --depth make several rows.",
    .examples = "  chimere bench -m model.gguf\n"
                "  chimere bench -m model.gguf -p 128,512 -n 64 --slots 1,4 --json > bench.json",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
};

enum { MAX_VALUES = 16, MAX_ROWS = 256, MAX_REPEATS = 1000, MAX_SLOTS = 64 };

typedef struct row {
    int32_t prefill, depth, decode, slots;
    double prefill_tps, decode_tps; // all slots together
    uint64_t hash;
} row;

typedef struct bench {
    const ch_cmd_options *o;
    ch_model *m;
    const ch_model_info *info;
    ch_cmd_progress bar;
    int64_t repeats;
    double macs; // multiply-adds of the matrices for one token of a prompt (the head not counted)
    ch_bench_limits limits;
    size_t context_bytes; // of the last row's sequences
    uint64_t peak_bytes;  // resident, before the limits are measured
    row rows[MAX_ROWS];
    int n_rows;
} bench;

// Sequences of one row and what they need.
typedef struct field {
    ch_seq_pool *pool;
    ch_seq *seq[MAX_SLOTS];
    ch_seq_mark *mark[MAX_SLOTS]; // at depth
    int32_t *prompt; // [slots][depth + prefill]
    float *logits;   // [slots][n_vocab]
} field;

static double count_macs(const ch_model *m) {
    const ch_gguf *g = ch_model_gguf(m);
    const ch_model_info *i = ch_model_get_info(m);
    double sum = 0;
    for (size_t k = 0; k < ch_gguf_n_tensors(g); k++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, k);
        bool table = (int64_t)t->ne[1] == i->n_vocab || (int64_t)t->ne[0] == i->n_vocab; // embedding, head
        if (t->n_dims < 2 || table)
            continue;
        double n = (double)t->ne[0] * (double)t->ne[1] * (double)t->ne[2];
        if (i->n_expert > 0 && t->n_dims == 3 && (int64_t)t->ne[2] == i->n_expert)
            n *= (double)i->n_expert_used / (double)i->n_expert;
        sum += n;
    }
    return sum;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
    qsort(v, n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int32_t best_token(const float *logits, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void free_field(field *f) {
    for (int k = 0; k < MAX_SLOTS; k++) {
        ch_seq_mark_free(&f->mark[k]);
        ch_seq_free(&f->seq[k]);
    }
    ch_seq_pool_free(&f->pool);
    ch_free(f->prompt);
    ch_free(f->logits);
}

// Tokens [from, to) of slot k into its sequence, in steps of the model's batch; scores of the last one to logits.
static int feed(bench *b, field *f, const row *r, int32_t k, int32_t from, int32_t to, ch_error *e) {
    const int32_t *token = f->prompt + (size_t)k * (size_t)(r->depth + r->prefill);
    int rc = 0;
    for (int32_t at = from; rc == 0 && at < to; at += b->info->n_batch) {
        int32_t n = to - at < b->info->n_batch ? to - at : b->info->n_batch, last = n - 1;
        ch_segment seg = {f->seq[k], n};
        ch_batch step = {.token = token + at, .n_row = n, .seg = &seg, .n_seg = 1, .out_row = &last, .n_out = at + n == to};
        rc = ch_model_forward(b->m, &step, f->logits + (size_t)k * (size_t)b->info->n_vocab, e);
    }
    return rc;
}

static int decode(bench *b, field *f, const row *r, uint64_t *hash, ch_error *e) {
    int32_t token[MAX_SLOTS], out_row[MAX_SLOTS];
    ch_segment seg[MAX_SLOTS];
    size_t n_vocab = (size_t)b->info->n_vocab;
    int rc = 0;
    for (int32_t t = 0; rc == 0 && t < r->decode; t++) {
        for (int32_t k = 0; k < r->slots; k++) {
            token[k] = best_token(f->logits + (size_t)k * n_vocab, b->info->n_vocab);
            out_row[k] = k;
            seg[k] = (ch_segment){f->seq[k], 1};
        }
        ch_batch step = {.token = token, .n_row = r->slots, .seg = seg, .n_seg = r->slots, .out_row = out_row, .n_out = r->slots};
        rc = ch_model_forward(b->m, &step, f->logits, e);
        *hash = ch_hash64(f->logits, n_vocab * sizeof *f->logits, *hash);
    }
    return rc;
}

static int back_to_depth(field *f, const row *r, ch_error *e) {
    int rc = 0;
    for (int32_t k = 0; rc == 0 && k < r->slots; k++) {
        if (r->depth == 0)
            ch_seq_reset(f->seq[k]);
        else
            rc = ch_seq_rollback(f->seq[k], f->mark[k], e);
    }
    return rc;
}

static int prepare_field(bench *b, field *f, const row *r, ch_error *e) {
    const ch_seq_plan *plan = ch_model_plan(b->m);
    size_t total = (size_t)(r->depth + r->prefill + r->decode) + 1, n_prompt = (size_t)(r->depth + r->prefill);
    size_t per_page = plan->page_tokens ? plan->page_tokens : 1;
    ch_seq_limits lim = {.n_seq = (size_t)r->slots, .n_mark = (size_t)r->slots, .max_tokens = total,
                         .n_page = (size_t)r->slots * (total / per_page + 3)};
    int rc = ch_seq_pool_create(&f->pool, plan, &lim, e);
    b->context_bytes = ch_seq_pool_bytes(plan, &lim);
    f->prompt = ch_alloc_array((size_t)r->slots * (n_prompt + 1), sizeof *f->prompt);
    f->logits = ch_alloc_array((size_t)r->slots * (size_t)b->info->n_vocab, sizeof *f->logits);
    if (rc == 0 && (!f->prompt || !f->logits))
        rc = ch_error_set(e, CH_ENOMEM, "no memory for the prompts");
    for (int32_t k = 0; rc == 0 && k < r->slots; k++) {
        ch_rng rng;
        ch_rng_seed(&rng, (uint64_t)k + 1); // slot 0 sees the same prompt whatever the number of slots
        for (size_t t = 0; t < n_prompt; t++)
            f->prompt[(size_t)k * n_prompt + t] = (int32_t)(ch_rng_u64(&rng) % (uint64_t)b->info->n_vocab);
        rc = ch_seq_create(&f->seq[k], f->pool, e);
        if (rc == 0 && r->depth > 0)
            rc = feed(b, f, r, k, 0, r->depth, e);
        if (rc == 0 && r->depth > 0)
            rc = ch_seq_mark_create(&f->mark[k], f->seq[k], e);
    }
    return rc;
}

static int measure_row(bench *b, row *r, ch_error *e) {
    field f = {0};
    double pre[MAX_REPEATS], dec[MAX_REPEATS];
    char what[64];
    snprintf(what, sizeof what, "prompt %d, answer %d, slots %d", r->prefill, r->decode, r->slots);
    int rc = prepare_field(b, &f, r, e);
    for (int64_t i = -1; rc == 0 && i < b->repeats; i++) { // round -1 warms up
        uint64_t hash = 0, t0, t1, t2;
        rc = back_to_depth(&f, r, e);
        t0 = ch_clock_ns();
        for (int32_t k = 0; rc == 0 && k < r->slots; k++)
            rc = feed(b, &f, r, k, r->depth, r->depth + r->prefill, e);
        t1 = ch_clock_ns();
        hash = ch_hash64(f.logits, (size_t)b->info->n_vocab * sizeof *f.logits, 0);
        uint64_t t_hash = ch_clock_ns();
        if (rc == 0)
            rc = decode(b, &f, r, &hash, e);
        t2 = ch_clock_ns();
        if (rc == 0 && i >= 0 && hash != r->hash)
            rc = ch_error_set(e, CH_EINTERNAL, "two runs of the same tokens gave different scores");
        r->hash = hash;
        if (i >= 0) {
            pre[i] = (double)r->prefill * r->slots / ((double)(t1 - t0) * 1e-9);
            dec[i] = (double)r->decode * r->slots / ((double)(t2 - t_hash) * 1e-9);
        }
        ch_cmd_show_progress(&b->bar, what, (uint64_t)(i + 2), (uint64_t)b->repeats + 1);
    }
    if (rc == 0) {
        r->prefill_tps = r->prefill > 0 ? median(pre, (size_t)b->repeats) : 0;
        r->decode_tps = r->decode > 0 ? median(dec, (size_t)b->repeats) : 0;
    }
    free_field(&f);
    return rc;
}

// ---- report ---------------------------------------------------------------------------------------------------------------
// Bytes a decode step of one sequence reads: active weights, its recurrent state, and its keys and values at mid-answer.
static double step_bytes(const bench *b, const row *r) {
    double len = r->depth + r->prefill + r->decode / 2.0;
    return (double)b->info->active_bytes + (double)b->info->state_bytes + len * (double)b->info->kv_bytes_per_token;
}

static json_t *describe_row(const bench *b, const row *r) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, r->hash);
    double gops = 2e-9 * b->macs * r->prefill_tps;
    json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:s}", "prefill", (int)r->prefill, "decode", (int)r->decode,
                          "depth", (int)r->depth, "slots", (int)r->slots, "prefill_tps", r->prefill_tps, "decode_tps",
                          r->decode_tps, "prefill_gops", gops, "prefill_share",
                          b->limits.int8_gops > 0 ? gops / b->limits.int8_gops : 0.0, "logits_hash", hash);
    // With several sequences the experts they share are read once: the bytes are not known, so nothing is claimed.
    if (r->slots == 1) {
        double gbps = 1e-9 * step_bytes(b, r) * r->decode_tps;
        json_object_set_new(o, "decode_gbps", json_real(gbps));
        json_object_set_new(o, "decode_share", json_real(b->limits.read_gbps > 0 ? gbps / b->limits.read_gbps : 0.0));
    }
    return o;
}

static void print_json(const bench *b) {
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    const ch_model_info *i = b->info;
    json_t *o = describe_row(b, &b->rows[0]);
    json_t *more = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I}", "model",
                             ch_gguf_path(ch_model_gguf(b->m)), "arch", i->arch, "cpu", cpu.name, "tier", i->tier, "threads",
                             i->n_threads, "repeats", (int)b->repeats, "n_params", (json_int_t)i->n_params, "weight_bytes",
                             (json_int_t)i->weight_bytes, "packed_bytes", (json_int_t)i->packed_bytes, "active_bytes",
                             (json_int_t)i->active_bytes, "read_gbps", b->limits.read_gbps, "int8_peak_gops", b->limits.int8_gops,
                             "f32_peak_gops", b->limits.f32_gops, "peak_rss_bytes", (json_int_t)b->peak_bytes,
                             "context_bytes", (json_int_t)b->context_bytes);
    json_object_update(o, more);
    json_decref(more);
    if (b->n_rows > 1) {
        json_t *list = json_array();
        for (int k = 0; k < b->n_rows; k++)
            json_array_append_new(list, describe_row(b, &b->rows[k]));
        json_object_set_new(o, "rows", list);
    }
    json_dumpf(o, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(o);
}

static void print_text(const bench *b) {
    const ch_model_info *i = b->info;
    printf("%s: %s, %.1f M parameters, %.1f MB read per token, tier %s, %d threads\n", ch_gguf_path(ch_model_gguf(b->m)), i->arch,
           (double)i->n_params * 1e-6, (double)i->active_bytes * 1e-6, i->tier, i->n_threads);
    printf("this machine: reads %.1f GB/s, 8-bit peak %.0f GOP/s, f32 peak %.0f GFLOP/s\n", b->limits.read_gbps,
           b->limits.int8_gops, b->limits.f32_gops);
    printf("%6s %6s %6s %5s | %10s %6s %6s | %10s %7s %6s | %s\n", "depth", "prompt", "answer", "slots", "prefill/s", "GOP/s",
           "share", "decode/s", "GB/s", "share", "scores");
    for (int k = 0; k < b->n_rows; k++) {
        const row *r = &b->rows[k];
        double gops = 2e-9 * b->macs * r->prefill_tps, gbps = 1e-9 * step_bytes(b, r) * r->decode_tps;
        printf("%6d %6d %6d %5d | %10.1f %6.0f %5.0f%% | %10.1f ", r->depth, r->prefill, r->decode, r->slots, r->prefill_tps, gops,
               100 * gops / b->limits.int8_gops, r->decode_tps);
        if (r->slots == 1)
            printf("%7.2f %5.0f%% | ", gbps, 100 * gbps / b->limits.read_gbps);
        else
            printf("%7s %6s | ", "", "");
        printf("%016" PRIx64 "\n", r->hash);
    }
    printf("peak memory %.1f MB\n", (double)b->peak_bytes * 1e-6);
}

// Rows from the lists of the options; false after explaining.
static bool plan_rows(bench *b) {
    int64_t pre[MAX_VALUES], depth[MAX_VALUES], slots[MAX_VALUES];
    int n_pre = ch_opt_int_list(b->o, CH_OPT_BENCH_PREFILL, pre, MAX_VALUES);
    int n_depth = n_pre < 0 ? -1 : ch_opt_int_list(b->o, CH_OPT_BENCH_DEPTH, depth, MAX_VALUES);
    int n_slots = n_depth < 0 ? -1 : ch_opt_int_list(b->o, CH_OPT_BENCH_SLOTS, slots, MAX_VALUES);
    int64_t decode_n = ch_opt_int(b->o, CH_OPT_BENCH_DECODE);
    if (n_slots < 0)
        return false;
    if ((int64_t)n_pre * n_depth * n_slots > MAX_ROWS || n_pre * n_depth * n_slots == 0) {
        ch_cmd_fail("bench", CH_EXIT_USAGE, "expected 1 to %d rows, found %d", MAX_ROWS, n_pre * n_depth * n_slots);
        return false;
    }
    for (int d = 0; d < n_depth; d++)
        for (int s = 0; s < n_slots; s++)
            for (int p = 0; p < n_pre; p++) {
                if (pre[p] < 1) {
                    ch_cmd_fail("bench", CH_EXIT_USAGE, "-p (--prefill): expected at least 1");
                    return false;
                }
                b->rows[b->n_rows++] = (row){.prefill = (int32_t)pre[p], .depth = (int32_t)depth[d], .decode = (int32_t)decode_n,
                                             .slots = (int32_t)slots[s]};
            }
    return true;
}

int ch_cmd_bench(int argc, char **argv) {
    ch_cmd_options o;
    bench b = {.o = &o};
    ch_error e = {0};
    int code, n_seq = 1;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    b.repeats = ch_opt_int(&o, CH_OPT_REPEATS);
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
    b.macs = count_macs(b.m);
    int rc = 0;
    for (int k = 0; rc == 0 && k < b.n_rows; k++)
        rc = measure_row(&b, &b.rows[k], &e);
    ch_cmd_end_progress(&b.bar);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    b.peak_bytes = (uint64_t)use.ru_maxrss * 1024;
    if (rc == 0)
        rc = ch_bench_measure_limits(&b.limits, b.info->n_threads, &e);
    if (rc != 0) {
        ch_cmd_fail_error("bench", &e);
        goto done;
    }
    if (ch_opt_bool(&o, CH_OPT_JSON))
        print_json(&b);
    else
        print_text(&b);
    code = CH_EXIT_OK;
done:
    ch_model_close(&b.m);
    ch_cmd_options_free(&o);
    return code;
}
