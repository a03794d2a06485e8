// The limits that bench compares with, measured in the same run by all threads: memory read bandwidth and the peaks of
// register-only loops.
#include "cmd/bench.h"
#include "kern/kern.h"

typedef struct job {
    const ch_kern_peak *peak;
    const uint8_t *data; // n bytes, 64-byte aligned
    size_t n;
    uint64_t rounds; // 0: read
    bool f32;
    uint64_t ops[256];
} job;

enum { ALIGN = 1024, TRIES = 3 };

static void run_job(void *arg, int worker, int n_workers) {
    job *j = arg;
    uint32_t sink = 1;
    if (j->rounds) {
        j->ops[worker] = j->f32 ? j->peak->f32(j->rounds, &sink) : j->peak->int8(j->rounds, &sink);
    } else {
        size_t begin, end;
        ch_pool_split(j->n, ALIGN, worker, n_workers, &begin, &end);
        j->peak->read(j->data + begin, end - begin, &sink);
    }
    j->ops[worker] += sink == 0; // the result is used
}

static void touch(void *arg, int worker, int n_workers) {
    job *j = arg;
    size_t begin, end;
    ch_pool_split(j->n, ALIGN, worker, n_workers, &begin, &end);
    for (size_t i = begin; i < end; i += 64)
        ((uint8_t *)(uintptr_t)j->data)[i] = (uint8_t)i;
}

// Best of a few: the least disturbed one is nearest to what the machine can do.
static double best_rate(ch_pool *pool, job *j) {
    double best = 0;
    for (int t = 0; t < TRIES; t++) {
        uint64_t t0 = ch_clock_ns(), ops = 0;
        ch_pool_run(pool, run_job, j);
        double s = (double)(ch_clock_ns() - t0) * 1e-9;
        for (int w = 0; w < ch_pool_size(pool); w++)
            ops += j->ops[w];
        double rate = (j->rounds ? (double)ops : (double)j->n) / (s > 0 ? s : 1e-9) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

int ch_bench_measure_limits(ch_bench_limits *out, int n_threads, ch_error *e) {
    ch_pool *pool = NULL;
    ch_kern_peak peak;
    ch_cpu cpu;
    job j = {.peak = &peak};
    *out = (ch_bench_limits){0};
    int rc = ch_pool_create(&pool, n_threads, e);
    if (rc != 0)
        return rc;
    ch_cpu_detect(&cpu);
    ch_kern_peak_init(&peak, &cpu);
    // Well above every cache; less where memory is short.
    for (j.n = (size_t)512 << 20; j.n >= (size_t)64 << 20 && !j.data; j.n /= 2) {
        j.data = ch_alloc_aligned(j.n, ALIGN);
        if (j.data)
            break;
    }
    if (j.data) {
        ch_pool_run(pool, touch, &j);
        out->read_gbps = best_rate(pool, &j);
    }
    ch_free((void *)(uintptr_t)j.data);
    j.rounds = 3000000;
    out->int8_gops = best_rate(pool, &j);
    j.f32 = true;
    out->f32_gops = best_rate(pool, &j);
    ch_pool_free(&pool);
    return 0;
}
