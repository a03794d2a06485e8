// Times the matrix products next to what the machine can do: bytes read per second, and int8 operations per second of a loop
// that touches registers only.
#include "checkkern/checkkern.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "checkkern/weights.h"

enum { N_IN = 4096, BIG = 16384, SMALL = 1024 }; // rows: more than caches hold, and what the nearer ones do

// Time this thread had, so that a busy machine disturbs less.
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double seconds_since(uint64_t t0) {
    return (double)(cpu_ns() - t0) * 1e-9;
}

// What the machine does at best on one thread: the loops that `chimere bench` compares with.
static void print_limits(const ch_cpu *cpu, const char *tier) {
    enum { ROUNDS = 2000000, REPEATS = 5 };
    const size_t n = (size_t)256 << 20;
    ch_kern_peak peak;
    double gbps = 0, gops = 0;
    uint32_t sink = 1;
    uint8_t *p = ch_alloc_aligned(n, 64);
    if (!p) return;
    memset(p, 1, n);
    ch_kern_peak_init(&peak, cpu, tier);
    for (int rep = 0; rep < REPEATS; rep++) {
        for (int way = 0; way < CH_PEAK_READS; way++) {
            const uint64_t t0 = cpu_ns();
            peak.read[way](p, n, &sink);
            gbps = fmax(gbps, (double)n / seconds_since(t0) * 1e-9);
        }
        const uint64_t t0 = cpu_ns();
        const uint64_t ops = peak.int8(ROUNDS, &sink);
        gops = fmax(gops, (double)ops / seconds_since(t0) * 1e-9);
    }
    printf("one thread: read %.1f GB/s, int8 %.0f Gop/s%s\n", gbps, gops, sink ? "" : " "); // the result is used
    ch_free(p);
}

// Seconds of the best of a few calls.
static double time_matmul(const ch_kern *k, const ch_mat *m, const uint8_t *act, size_t ld_act, size_t n_tok, float *y,
                          void *work) {
    double best = 1e9, total = 0;
    for (int rep = 0; rep < 12 && total < 0.5; rep++) {
        const uint64_t t0 = cpu_ns();
        k->matmul(m, 0, m->n_out, act, ld_act, n_tok, y, m->n_out, work);
        const double s = seconds_since(t0);
        best = fmin(best, s);
        total += s;
    }
    return best;
}

static void bench_type(const ch_kern *k, const ch_type_info *t) {
    static const size_t n_tok[] = {8, 64, 512};
    size_t row;
    if (!t->decode || !ch_quant_row_bytes(t, N_IN, &row)) return;
    ch_mat m = {.type = t, .n_in = N_IN, .n_out = BIG};
    const size_t packed = k->mat_packed_bytes(t, N_IN, BIG), ld = k->act_bytes(k->act_kind(t, N_IN), N_IN);
    ch_rng g;
    ch_rng_seed(&g, 1);
    uint8_t *raw = ch_alloc_aligned(row * BIG, 64), *act = ch_alloc_aligned(512 * ld, 64);
    float *x = ch_alloc_array(N_IN, sizeof *x), *y = ch_alloc_array(BIG * 512, sizeof *y);
    void *work = ch_alloc_aligned(k->mat_work_bytes(t, N_IN), 64);
    random_rows(t, &g, SCALE_NORMAL, 16, N_IN, raw);
    for (size_t r = 16; r < BIG; r++) memcpy(raw + r * row, raw + r % 16 * row, row);
    for (size_t i = 0; i < 512; i++) {
        for (size_t j = 0; j < N_IN; j++) x[j] = ch_rng_normal(&g);
        k->act_pack(k->act_kind(t, N_IN), x, N_IN, act + i * ld);
    }
    m.raw = raw;
    double pack_s = 0;
    if (packed) {
        m.packed = ch_alloc_aligned(packed, 64);
        memset(m.packed, 0, packed);
        const uint64_t t0 = cpu_ns();
        k->mat_pack(&m, 0, BIG);
        pack_s = seconds_since(t0);
    }
    const double bytes = (double)(packed ? packed : row * BIG);
    printf("%-7s %-8s %6.1f", k->name, t->name, bytes / time_matmul(k, &m, act, ld, 1, y, work) * 1e-9);
    printf(" %6.2f", packed ? (double)(row * BIG) / pack_s * 1e-9 : 0.0);
    m.n_out = SMALL;
    const double small = (double)(packed ? packed : row * BIG) / BIG * SMALL;
    printf(" %6.1f", small / time_matmul(k, &m, act, ld, 1, y, work) * 1e-9);
    for (size_t i = 0; i < 3; i++)
        printf(" %7.1f", 2.0 * N_IN * SMALL * (double)n_tok[i] / time_matmul(k, &m, act, ld, n_tok[i], y, work) * 1e-9);
    printf("\n");
    fflush(stdout);
    ch_free(raw), ch_free(act), ch_free(x), ch_free(y), ch_free(work), ch_free(m.packed);
}

int checkkern_bench(int n_types, char **types) {
    ch_cpu cpu;
    ch_kern k;
    ch_cpu_detect(&cpu);
    const char *tier = n_types && ch_kern_init(&k, &cpu, types[0], NULL) == CH_OK ? types[0] : NULL;
    if (ch_kern_init(&k, &cpu, tier, NULL)) return 1;
    print_limits(&cpu, tier);
    printf("%-7s %-8s %6s %6s %6s %7s %7s %7s\n", "tier", "type", "1:GB/s", "pack", "cached", "8:Gop/s", "64", "512");
    const ch_type_info *t;
    for (size_t i = 0; (t = ch_quant_type_at(i)); i++) {
        bool wanted = n_types == (tier ? 1 : 0);
        for (int j = 0; j < n_types; j++) wanted |= ch_quant_type_by_name(types[j]) == t;
        if (wanted) bench_type(&k, t);
    }
    return 0;
}
