// What bench found: a table, JSON or CSV.
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "cmd/bench.h"

// Derived figures of a row.
typedef struct figures {
    double prefill_gops, prefill_share, decode_gbps, decode_share;
} figures;

static double share(double x, double limit) {
    return limit > 0 ? x / limit : 0;
}

static figures figure(const ch_bench_row *r) {
    figures f = {.prefill_gops = 2e-9 * r->prefill_macs * r->prefill_tps,
                 .decode_gbps = 1e-9 * r->decode_bytes * r->decode_tps / r->slots};
    f.prefill_share = share(f.prefill_gops, r->limit.int8_gops);
    f.decode_share = share(f.decode_gbps, r->limit.read_gbps);
    return f;
}

static void add_spread(json_t *o, const char *name, const ch_bench_spread *s) {
    if (s->n_choices)
        json_object_set_new(o, name, json_pack("{s:i, s:f, s:f}", "choices", s->n_choices, "slowest_tps", s->slowest, "fastest_tps",
                                               s->fastest));
}

static json_t *describe_row(const ch_bench_row *r) {
    char hash[24];
    figures f = figure(r);
    snprintf(hash, sizeof hash, "%016" PRIx64, r->hash);
    json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "prefill", (int)r->prefill, "decode",
                          (int)r->decode, "depth", (int)r->depth, "slots", (int)r->slots, "prefill_tps", r->prefill_tps,
                          "prefill_gops", f.prefill_gops, "prefill_share", f.prefill_share, "decode_tps", r->decode_tps,
                          "decode_gbps", f.decode_gbps, "decode_share", f.decode_share, "read_gbps", r->limit.read_gbps,
                          "int8_peak_gops", r->limit.int8_gops, "logits_hash", hash);
    json_object_set_new(o, "decode_bytes", json_real(r->decode_bytes));
    if (r->experts > 0)
        json_object_set_new(o, "experts_touched", json_real(r->experts));
    add_spread(o, "pairs", &r->pairs);
    add_spread(o, "triples", &r->triples);
    return o;
}

void ch_bench_print_json(const ch_bench *b) {
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    const ch_model_info *i = b->info;
    json_t *o = describe_row(&b->rows[0]);
    json_t *more = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:f, s:I, s:I}", "model",
                             ch_gguf_path(ch_model_gguf(b->m)), "arch", i->arch, "cpu", cpu.name, "tier", i->tier, "threads",
                             i->n_threads, "repeats", (int)b->repeats, "n_params", (json_int_t)i->n_params, "weight_bytes",
                             (json_int_t)i->weight_bytes, "packed_bytes", (json_int_t)i->packed_bytes, "active_bytes",
                             (json_int_t)i->active_bytes, "f32_peak_gops", b->rows[0].limit.f32_gops, "peak_rss_bytes",
                             (json_int_t)b->peak_bytes, "context_bytes", (json_int_t)b->context_bytes);
    json_object_update(o, more);
    json_decref(more);
    if (b->n_rows > 1) {
        json_t *list = json_array();
        for (int k = 0; k < b->n_rows; k++)
            json_array_append_new(list, describe_row(&b->rows[k]));
        json_object_set_new(o, "rows", list);
    }
    json_dumpf(o, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(o);
}

// A text as a CSV field: quoted, quotes doubled.
static void print_field(const char *s) {
    putchar('"');
    for (; *s; s++) {
        if (*s == '"')
            putchar('"');
        putchar(*s);
    }
    putchar('"');
}

// The file's name alone: a table that is kept tells nothing about the machine's folders.
void ch_bench_print_csv(const ch_bench *b) {
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    const char *path = ch_gguf_path(ch_model_gguf(b->m)), *slash = strrchr(path, '/');
    printf("model,arch,cpu,tier,threads,depth,prefill,decode,slots,prefill_tps,prefill_gops,int8_peak_gops,prefill_share,"
           "decode_tps,decode_gbps,read_gbps,decode_share,experts_touched,logits_hash\n");
    for (int k = 0; k < b->n_rows; k++) {
        const ch_bench_row *r = &b->rows[k];
        figures f = figure(r);
        print_field(slash ? slash + 1 : path);
        printf(",%s,", b->info->arch);
        print_field(cpu.name);
        printf(",%s,%d,%d,%d,%d,%d,%.2f,%.1f,%.1f,%.4f,%.3f,%.3f,%.3f,%.4f,%.2f,%016" PRIx64 "\n", b->info->tier, b->info->n_threads,
               r->depth, r->prefill, r->decode, r->slots, r->prefill_tps, f.prefill_gops, r->limit.int8_gops, f.prefill_share,
               r->decode_tps, f.decode_gbps, r->limit.read_gbps, f.decode_share, r->experts, r->hash);
    }
}

static void print_spread(const ch_bench_row *r, const char *what, const ch_bench_spread *s) {
    if (s->n_choices)
        printf("%d %s of %d slots: %.1f to %.1f tokens/s, %.1f %% apart\n", s->n_choices, what, r->slots, s->slowest, s->fastest,
               100 * (s->fastest / s->slowest - 1));
}

void ch_bench_print_text(const ch_bench *b) {
    const ch_model_info *i = b->info;
    ch_bench_rates best = {0};
    for (int k = 0; k < b->n_rows; k++) {
        const ch_bench_rates *l = &b->rows[k].limit;
        best.read_gbps = l->read_gbps > best.read_gbps ? l->read_gbps : best.read_gbps;
        best.int8_gops = l->int8_gops > best.int8_gops ? l->int8_gops : best.int8_gops;
        best.f32_gops = l->f32_gops > best.f32_gops ? l->f32_gops : best.f32_gops;
    }
    printf("%s: %s, %.1f M parameters, tier %s, %d threads\n", ch_gguf_path(ch_model_gguf(b->m)), i->arch,
           (double)i->n_params * 1e-6, i->tier, i->n_threads);
    printf("this machine: reads %.1f GB/s, 8-bit peak %.0f GOP/s, f32 peak %.0f GFLOP/s (shares: of the best around each row)\n",
           best.read_gbps, best.int8_gops, best.f32_gops);
    printf("%6s %6s %6s %5s | %10s %6s %6s | %10s %8s %7s %6s %7s | %s\n", "depth", "prompt", "answer", "slots", "prefill/s",
           "GOP/s", "share", "decode/s", "MB/step", "GB/s", "share", "experts", "scores");
    for (int k = 0; k < b->n_rows; k++) {
        const ch_bench_row *r = &b->rows[k];
        figures f = figure(r);
        char experts[16] = "";
        if (r->experts > 0)
            snprintf(experts, sizeof experts, "%.1f", r->experts);
        printf("%6d %6d %6d %5d | %10.1f %6.0f %5.0f%% | %10.2f %8.1f %7.2f %5.0f%% %7s | %016" PRIx64 "\n", r->depth, r->prefill,
               r->decode, r->slots, r->prefill_tps, f.prefill_gops, 100 * f.prefill_share, r->decode_tps, 1e-6 * r->decode_bytes,
               f.decode_gbps, 100 * f.decode_share, experts, r->hash);
    }
    for (int k = 0; k < b->n_rows; k++) {
        print_spread(&b->rows[k], "pairs", &b->rows[k].pairs);
        print_spread(&b->rows[k], "triples", &b->rows[k].triples);
    }
    printf("peak memory %.1f MB\n", (double)b->peak_bytes * 1e-6);
}
