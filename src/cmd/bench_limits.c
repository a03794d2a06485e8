// The limits that bench compares with, measured by as many threads as the model uses: memory read bandwidth and the peaks of
// register-only loops.
#include "cmd/bench.h"
#include "kern/kern.h"

enum { MAX_THREADS = 256 };

typedef struct lane {
    CH_ALIGNED(64) uint64_t done; // bytes or operations of one worker
    uint32_t sink;
} lane;

struct ch_bench_limits {
    ch_pool *pool;
    ch_kern_peak peak;
    const ch_model *m;
    uint64_t total, at; // bytes of all weights; where the next pass begins
    lane lane[MAX_THREADS];
};

typedef struct job {
    ch_bench_limits *l;
    int way;         // 0..CH_PEAK_READS-1: read; then int8, f32
    uint64_t begin, n; // bytes of the weights' concatenation, or rounds
} job;

static const uint64_t max_pass = 1u << 30, min_sample = 64u << 20;
static const uint64_t peak_rounds = 2000000;

static void weight_span(const ch_weight *w, const uint8_t **p, uint64_t *n) {
    *p = w->packed ? w->packed : w->raw;
    *n = w->packed ? w->packed_bytes : w->raw_bytes;
}

// Bytes [b, e) of all weights one behind the other, in whole grains of each.
static uint64_t read_weights(const ch_bench_limits *l, int way, uint64_t b, uint64_t e, uint32_t *sink) {
    const ch_weight *w;
    uint64_t seen = 0, done = 0, n;
    const uint8_t *p;
    for (size_t i = 0; seen < e && (w = ch_model_weight_at(l->m, i)) != NULL; i++, seen += n) {
        weight_span(w, &p, &n);
        uint64_t from = b > seen ? b - seen : 0, to = e - seen < n ? e - seen : n;
        if (from >= to)
            continue;
        uintptr_t first = ((uintptr_t)(p + from) + 63) & ~(uintptr_t)63, last = (uintptr_t)(p + to);
        size_t part = last > first ? (last - first) / CH_PEAK_GRAIN * CH_PEAK_GRAIN : 0;
        if (part)
            l->peak.read[way]((const void *)first, part, sink);
        done += part;
    }
    return done;
}

static void run_job(void *arg, int worker, int n_workers) {
    const job *j = arg;
    lane *mine = &j->l->lane[worker];
    mine->sink = 1;
    if (j->way < CH_PEAK_READS) {
        size_t b, e;
        ch_pool_split(j->n, CH_PEAK_GRAIN, worker, n_workers, &b, &e);
        uint64_t from = j->begin + b, to = j->begin + e, end = j->l->total;
        mine->done = read_weights(j->l, j->way, from, to < end ? to : end, &mine->sink);
        if (to > end) // round the end
            mine->done += read_weights(j->l, j->way, from > end ? from - end : 0, to - end, &mine->sink);
    } else {
        mine->done = j->way == CH_PEAK_READS ? j->l->peak.int8(j->n, &mine->sink) : j->l->peak.f32(j->n, &mine->sink);
    }
    mine->done += mine->sink == 0; // the result is used
}

// 1e9 bytes or operations per second, of `times` runs in a row.
static double rate(job *j, uint64_t times) {
    uint64_t t0 = ch_clock_ns(), done = 0;
    for (uint64_t i = 0; i < times; i++) {
        ch_pool_run(j->l->pool, run_job, j);
        for (int w = 0; w < ch_pool_size(j->l->pool); w++)
            done += j->l->lane[w].done;
    }
    uint64_t t = ch_clock_ns() - t0;
    return t ? (double)done / (double)t : 0;
}

static void raise(double *best, double x) {
    *best = x > *best ? x : *best;
}

void ch_bench_limits_sample(ch_bench_limits *l, ch_bench_rates *best) {
    job j = {.l = l, .n = l->total < max_pass ? l->total : max_pass};
    for (; j.way < CH_PEAK_READS && l->total; j.way++) {
        j.begin = l->at;
        raise(&best->read_gbps, rate(&j, 1 + min_sample / j.n));
        l->at = (l->at + j.n) % l->total;
    }
    j = (job){.l = l, .way = CH_PEAK_READS, .n = peak_rounds};
    raise(&best->int8_gops, rate(&j, 1));
    j.way++;
    raise(&best->f32_gops, rate(&j, 1));
}

int ch_bench_limits_open(ch_bench_limits **out, const ch_model *m, ch_error *e) {
    *out = NULL;
    ch_bench_limits *l = ch_alloc_aligned(sizeof *l, 64);
    if (!l)
        return ch_error_set(e, CH_ENOMEM, "no memory for the limits");
    int rc = ch_pool_create(&l->pool, ch_model_get_info(m)->n_threads, e);
    if (rc != 0)
        return ch_free(l), rc;
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    ch_kern_peak_init(&l->peak, &cpu, ch_model_get_info(m)->tier);
    l->m = m;
    const ch_weight *w;
    const uint8_t *p;
    uint64_t n;
    for (size_t i = 0; (w = ch_model_weight_at(m, i)) != NULL; i++) {
        weight_span(w, &p, &n);
        l->total += n;
    }
    *out = l;
    return 0;
}

void ch_bench_limits_close(ch_bench_limits **l) {
    if (!*l)
        return;
    ch_pool_free(&(*l)->pool);
    ch_free(*l);
    *l = NULL;
}
