// Read bandwidth of memory, by all workers over a few pieces of the weights.
#include <stdatomic.h>

#include "op/cpu/cpu.h"

enum { PIECE = 64 << 20, PIECES = 3, PAGE = 4096 };

typedef struct read_job {
    const ch_op *op;
    const ch_weight *const *w;
    size_t n_w;
    uint64_t begin; // of the piece, in the weights laid end to end
    bool touch;     // one byte of each page, so that the pages are mapped; or all
    _Atomic uint64_t done;
} read_job;

static const uint8_t *bytes_of(const ch_weight *w, uint64_t *n) {
    *n = w->packed ? w->packed_bytes : w->raw_bytes;
    return w->packed ? w->packed : w->raw;
}

static void read_worker(void *arg, int worker, int n_workers) {
    read_job *j = arg;
    size_t b, e;
    uint64_t seen = 0, done = 0, n;
    uint32_t sink = 1;
    ch_pool_split(PIECE, CH_PEAK_GRAIN, worker, n_workers, &b, &e);
    for (size_t i = 0; i < j->n_w && seen < j->begin + e; i++, seen += n) {
        const uint8_t *p = bytes_of(j->w[i], &n);
        uint64_t from = j->begin + b > seen ? j->begin + b - seen : 0, to = j->begin + e - seen < n ? j->begin + e - seen : n;
        if (from >= to) continue;
        uintptr_t first = ((uintptr_t)(p + from) + 63) & ~(uintptr_t)63, last = (uintptr_t)(p + to);
        size_t part = last > first ? (last - first) / CH_PEAK_GRAIN * CH_PEAK_GRAIN : 0;
        if (j->touch)
            for (size_t at = 0; at < part; at += PAGE) sink += *(const volatile uint8_t *)(first + at);
        else if (part)
            j->op->peak.read[CH_PEAK_READS - 1]((const void *)first, part, &sink);
        done += part;
    }
    atomic_fetch_add(&j->done, done + (sink == 0)); // the result is used
}

// Whether the system has the piece in memory: reading it from the disk would take long and say nothing about memory.
static bool is_resident(const read_job *j) {
    uint64_t seen = 0, n, end = j->begin + PIECE;
    for (size_t i = 0; i < j->n_w && seen < end; i++, seen += n) {
        const uint8_t *p = bytes_of(j->w[i], &n);
        uint64_t from = j->begin > seen ? j->begin - seen : 0, to = end - seen < n ? end - seen : n;
        if (from < to && !ch_map_resident(p + from, to - from)) return false;
    }
    return true;
}

double ch_op_measure_read(ch_op *op, const ch_weight *const *w, size_t n_w) {
    double best = 0;
    uint64_t total = 0, n;
    for (size_t i = 0; i < n_w; i++) bytes_of(w[i], &n), total += n;
    if (total < PIECE) return 0;
    // Pieces far from each other and from the end, which was packed last: none comes from a cache.
    for (int k = 0; k < PIECES; k++) {
        read_job j = {.op = op, .w = w, .n_w = n_w, .begin = (total - PIECE) / (PIECES + 1) * (uint64_t)(k + 1)};
        if (!is_resident(&j)) continue;
        j.touch = true;
        ch_pool_run(op->pool, read_worker, &j);
        j.touch = false, atomic_store(&j.done, 0);
        uint64_t t0 = ch_clock_ns();
        ch_pool_run(op->pool, read_worker, &j);
        uint64_t t = ch_clock_ns() - t0;
        double rate = t ? (double)atomic_load(&j.done) / (double)t : 0;
        if (rate > best) best = rate;
    }
    return best;
}
