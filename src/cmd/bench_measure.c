// Measures one row of bench: prompts and answers of some sequences side by side, several times, between samples of the limits.
#include <stdlib.h>

#include "cmd/bench.h"

// Sequences of one row and what they need.
typedef struct field {
    ch_seq_pool *pool;
    ch_seq *seq[CH_BENCH_MAX_SLOTS];
    ch_seq_mark *mark[CH_BENCH_MAX_SLOTS];  // at depth
    ch_seq_mark *ready[CH_BENCH_MAX_SLOTS]; // behind the prompt, for subsets
    int32_t *prompt; // [slots][depth + prefill]
    float *logits;   // [slots][n_vocab]
} field;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
    qsort(v, n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double seconds(uint64_t t0, uint64_t t1) {
    return (double)(t1 > t0 ? t1 - t0 : 1) * 1e-9;
}

// Index of the largest score, the first of equals. Eight lanes find the value, so that choosing among a quarter of a million
// tokens for every slot does not show beside the step.
static int32_t best_token(const float *logits, int32_t n) {
    float lane[8], best;
    int32_t i = 0;
    for (int k = 0; k < 8; k++)
        lane[k] = logits[0];
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            lane[k] = logits[i + k] > lane[k] ? logits[i + k] : lane[k];
    best = lane[0];
    for (int k = 1; k < 8; k++)
        best = lane[k] > best ? lane[k] : best;
    for (; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    for (i = 0; i < n - 1 && logits[i] != best;)
        i++;
    return i;
}

static void free_field(field *f) {
    for (int k = 0; k < CH_BENCH_MAX_SLOTS; k++) {
        ch_seq_mark_free(&f->mark[k]);
        ch_seq_mark_free(&f->ready[k]);
        ch_seq_free(&f->seq[k]);
    }
    ch_seq_pool_free(&f->pool);
    ch_free(f->prompt);
    ch_free(f->logits);
}

// Tokens [from, to) of slot k into its sequence, in steps of the model's batch; scores of the last one to logits.
static int feed(ch_bench *b, field *f, const ch_bench_row *r, int32_t k, int32_t from, int32_t to, ch_error *e) {
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

// n tokens for each of n_slot slots; the likeliest ones of the first n_slot rows of scores. hash (or NULL): of the first row.
static int decode(ch_bench *b, field *f, const int32_t *slot, int32_t n_slot, int32_t n, uint64_t *hash, ch_error *e) {
    int32_t token[CH_BENCH_MAX_SLOTS], out_row[CH_BENCH_MAX_SLOTS];
    ch_segment seg[CH_BENCH_MAX_SLOTS];
    size_t n_vocab = (size_t)b->info->n_vocab;
    int rc = 0;
    for (int32_t t = 0; rc == 0 && t < n; t++) {
        for (int32_t k = 0; k < n_slot; k++) {
            token[k] = best_token(f->logits + (size_t)k * n_vocab, b->info->n_vocab);
            out_row[k] = k;
            seg[k] = (ch_segment){f->seq[slot[k]], 1};
        }
        ch_batch step = {.token = token, .n_row = n_slot, .seg = seg, .n_seg = n_slot, .out_row = out_row, .n_out = n_slot};
        rc = ch_model_forward(b->m, &step, f->logits, e);
        if (hash)
            *hash = ch_hash64(f->logits, n_vocab * sizeof *f->logits, *hash);
    }
    return rc;
}

static int prepare_field(ch_bench *b, field *f, const ch_bench_row *r, ch_error *e) {
    const ch_seq_plan *plan = ch_model_plan(b->m);
    size_t total = (size_t)(r->depth + r->prefill + r->decode) + 1, n_prompt = (size_t)(r->depth + r->prefill);
    size_t per_page = plan->page_tokens ? plan->page_tokens : 1;
    int32_t real = ch_opt_bool(b->o, CH_OPT_BENCH_FILL) && r->depth > 512 ? 512 : r->depth; // computed; the rest is filled
    ch_seq_limits lim = {.n_seq = (size_t)r->slots, .n_mark = 2 * (size_t)r->slots, .max_tokens = total,
                         .n_page = (size_t)r->slots * (total / per_page + 4)};
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
            rc = feed(b, f, r, k, 0, real, e);
        if (rc == 0 && real < r->depth)
            rc = ch_bench_fill(f->seq[k], plan, (size_t)(r->depth - real), e);
        if (rc == 0 && r->depth > 0)
            rc = ch_seq_mark_create(&f->mark[k], f->seq[k], e);
    }
    return rc;
}

static int back_to_depth(field *f, const ch_bench_row *r, ch_error *e) {
    int rc = 0;
    for (int32_t k = 0; rc == 0 && k < r->slots; k++) {
        if (r->depth == 0)
            ch_seq_reset(f->seq[k]);
        else
            rc = ch_seq_rollback(f->seq[k], f->mark[k], e);
    }
    return rc;
}

// What a step reads and computes, from the model's own counts around it.
static void note_work(const ch_bench *b, ch_bench_row *r, const ch_op_counts c[3]) {
    double steps = r->decode > 0 ? r->decode : 1, calls = (double)(c[2].moe_calls - c[1].moe_calls);
    double len = r->depth + r->prefill + r->decode / 2.0, kv = len * (double)b->info->kv_bytes_per_token;
    r->prefill_macs = (double)(c[1].mul_adds - c[0].mul_adds) / ((double)r->prefill * r->slots);
    r->decode_bytes = (double)(c[2].weight_bytes - c[1].weight_bytes) / steps + r->slots * ((double)b->info->state_bytes + kv);
    r->experts = calls > 0 ? (double)(c[2].experts - c[1].experts) / calls : 0;
}

// One round: back to the depth, prompts, answers; seconds of both.
static int run_once(ch_bench *b, field *f, ch_bench_row *r, double *pre_s, double *dec_s, uint64_t *hash, ch_error *e) {
    ch_op_counts c[3] = {ch_model_counts(b->m)};
    int32_t slot[CH_BENCH_MAX_SLOTS];
    int rc = back_to_depth(f, r, e);
    uint64_t t0 = ch_clock_ns();
    for (int32_t k = 0; rc == 0 && k < r->slots; k++) {
        slot[k] = k;
        rc = feed(b, f, r, k, r->depth, r->depth + r->prefill, e);
    }
    *pre_s = seconds(t0, ch_clock_ns());
    c[1] = ch_model_counts(b->m);
    for (int32_t k = 0; rc == 0 && b->subsets && k < r->slots && !f->ready[k]; k++)
        rc = ch_seq_mark_create(&f->ready[k], f->seq[k], e);
    *hash = ch_hash64(f->logits, (size_t)b->info->n_vocab * sizeof *f->logits, 0);
    t0 = ch_clock_ns();
    if (rc == 0)
        rc = decode(b, f, slot, r->slots, r->decode, hash, e);
    *dec_s = seconds(t0, ch_clock_ns());
    c[2] = ch_model_counts(b->m);
    note_work(b, r, c);
    return rc;
}

// Tokens per second of one choice of slots.
static int time_choice(ch_bench *b, field *f, const ch_bench_row *r, const int32_t *slot, int32_t n, double *tps, ch_error *e) {
    int rc = 0;
    for (int32_t k = 0; rc == 0 && k < n; k++)
        rc = ch_seq_rollback(f->seq[slot[k]], f->ready[slot[k]], e);
    uint64_t t0 = ch_clock_ns();
    if (rc == 0)
        rc = decode(b, f, slot, n, r->decode, NULL, e);
    *tps = (double)n * r->decode / seconds(t0, ch_clock_ns());
    return rc;
}

enum { MAX_SUBSET_SLOTS = 8, MAX_CHOICES = 56 }; // 8 over 3

// Every choice of n of the slots, in turns; the best of each over the repeats, so that a disturbed moment counts for none.
static int measure_choices(ch_bench *b, field *f, const ch_bench_row *r, int32_t n, ch_bench_spread *out, ch_error *e) {
    double best[MAX_CHOICES] = {0};
    int rc = 0, n_slots = r->slots < MAX_SUBSET_SLOTS ? r->slots : MAX_SUBSET_SLOTS, c = 0;
    for (int64_t i = 0; rc == 0 && i < b->repeats; i++) {
        c = 0;
        for (unsigned set = 0; rc == 0 && set < 1u << n_slots; set++) {
            int32_t slot[MAX_SUBSET_SLOTS], k = 0;
            for (int32_t s = 0; s < n_slots; s++)
                if (set >> s & 1)
                    slot[k++] = s;
            if (k != n)
                continue;
            double tps = 0;
            rc = time_choice(b, f, r, slot, n, &tps, e);
            best[c] = tps > best[c] ? tps : best[c];
            c++;
        }
        ch_cmd_show_progress(&b->bar, n == 2 ? "pairs of slots" : "triples of slots", (uint64_t)i + 1, (uint64_t)b->repeats);
    }
    for (int k = 0; rc == 0 && k < c; k++) {
        out->slowest = k == 0 || best[k] < out->slowest ? best[k] : out->slowest;
        out->fastest = best[k] > out->fastest ? best[k] : out->fastest;
    }
    out->n_choices = rc == 0 ? c : 0;
    return rc;
}

int ch_bench_measure(ch_bench *b, ch_bench_row *r, ch_error *e) {
    field f = {0};
    double pre[CH_BENCH_MAX_REPEATS], dec[CH_BENCH_MAX_REPEATS];
    char what[64];
    snprintf(what, sizeof what, "prompt %d, answer %d, slots %d", r->prefill, r->decode, r->slots);
    int rc = prepare_field(b, &f, r, e);
    for (int64_t i = -1; rc == 0 && i < b->repeats; i++) { // round -1 warms up
        double pre_s = 1, dec_s = 1;
        uint64_t hash = 0;
        rc = run_once(b, &f, r, &pre_s, &dec_s, &hash, e);
        if (rc == 0 && i >= 0 && hash != r->hash)
            rc = ch_error_set(e, CH_EINTERNAL, "two runs of the same tokens gave different scores");
        r->hash = hash;
        if (i >= 0) {
            pre[i] = (double)r->prefill * r->slots / pre_s;
            dec[i] = (double)r->decode * r->slots / dec_s;
        }
        ch_bench_limits_sample(b->limits, &r->limit);
        ch_cmd_show_progress(&b->bar, what, (uint64_t)(i + 2), (uint64_t)b->repeats + 1);
    }
    if (rc == 0) {
        r->prefill_tps = median(pre, (size_t)b->repeats);
        r->decode_tps = r->decode > 0 ? median(dec, (size_t)b->repeats) : 0;
    }
    if (rc == 0 && b->subsets && r->slots > 2 && r->decode > 0)
        rc = measure_choices(b, &f, r, 2, &r->pairs, e);
    if (rc == 0 && b->subsets && r->slots > 3 && r->decode > 0)
        rc = measure_choices(b, &f, r, 3, &r->triples, e);
    free_field(&f);
    return rc;
}
