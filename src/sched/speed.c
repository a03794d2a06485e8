// Whether decoding is as fast as memory allows; if not, why. Bandwidth is measured once at the start (some 15 ms), the bytes of
// a step are counted anyway, so watching costs a few additions a step.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sched/engine.h"

enum { MIN_STEPS = 16, COLD_WINDOWS = 10 };
static const uint64_t min_window_ns = 1000000000, min_step_bytes = 64u << 20;
static const double low_share = 0.4; // every tensor type reaches 0.6 on a quiet machine

// ---- judgement --------------------------------------------------------------------------------------------------------------
static bool swaps(const ch_speed_facts *f) { return f->swap_bytes > 16u << 20; }
static bool reads_disk(const ch_speed_facts *f) { return f->disk_reads > 100; }

static int say_memory(const ch_speed_facts *f, char *s, size_t n) {
    if (swaps(f))
        return snprintf(s, n, "%llu MiB of this process are in swap; close other programs or take a smaller model, context or number of slots",
                        (unsigned long long)(f->swap_bytes >> 20));
    if (reads_disk(f))
        return snprintf(s, n, "weights are still read from disk (%.1f GB of them, %.1f GB of memory); take a smaller type or model, or give it more memory",
                        (double)f->weight_bytes * 1e-9, (double)f->memory_bytes * 1e-9);
    return 0;
}

static int say_setting(const ch_speed_facts *f, char *s, size_t n) {
    int best = f->n_core;
    if (f->quota > 0 && f->n_threads > f->quota + 0.5) {
        if (f->quota < best) best = f->quota < 1 ? 1 : (int)f->quota;
        return snprintf(s, n, "%d threads share the time of %.3g processors that the control group grants; try --threads %d", f->n_threads,
                        f->quota, best);
    }
    if (f->n_core && f->n_threads > f->n_core)
        return snprintf(s, n, "%d threads run on %d cores; try --threads %d", f->n_threads, f->n_core, f->n_core);
    if (strcmp(f->tier, f->best_tier) != 0)
        return snprintf(s, n, "kernel tier %s is in use where the processor has %s; leave --tier out", f->tier, f->best_tier);
    if (f->no_repack) return snprintf(s, n, "--no-repack takes the weights apart anew for every token");
    return 0;
}

bool ch_sched_judge_speed(const ch_speed_facts *f, char *out, size_t size) {
    double share = f->read_gbps > 0 ? f->decode_gbps / f->read_gbps : 0;
    if (!(share < low_share) || !strcmp(f->best_tier, "ref")) return false; // plain C is never limited by memory
    // The first answers after a cold start read from disk what then stays.
    if (reads_disk(f) && !swaps(f) && f->weight_bytes <= f->memory_bytes && f->n_window < COLD_WINDOWS) return false;
    if (f->read_gbps <= 0 && !swaps(f) && !reads_disk(f)) return false;
    int n = f->read_gbps > 0
                ? snprintf(out, size, "decoding reads %.1f GB/s, %.0f %% of the %.1f GB/s that memory gives: ", f->decode_gbps, 100 * share, f->read_gbps)
                : snprintf(out, size, "decoding reads %.1f GB/s: ", f->decode_gbps);
    if (n < 0 || (size_t)n >= size) return true;
    char *s = out + n;
    size_t left = size - (size_t)n;
    if (say_memory(f, s, left) || say_setting(f, s, left)) return true;
    if (f->others > 0.25 * f->n_cpu)
        snprintf(s, left, "other programs keep %.1f of %d processors busy", f->others, f->n_cpu);
    else if (f->read_now_gbps > 0 && f->decode_gbps >= low_share * f->read_now_gbps)
        snprintf(s, left, "memory gives %.1f GB/s now; other programs, or neighbours of this virtual machine, are using it", f->read_now_gbps);
    else
        snprintf(s, left, "no cause found; `chimere bench` compares with what this machine can do");
    return true;
}

// ---- facts ------------------------------------------------------------------------------------------------------------------
// Time units that all processors were busy, given away by the host included, and that they exist; from /proc/stat.
static bool read_stat(double *busy, double *all) {
    double v[8] = {0};
    FILE *f = fopen("/proc/stat", "re");
    if (!f) return false;
    int n = fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
    fclose(f);
    *busy = v[0] + v[1] + v[2] + v[5] + v[6] + v[7], *all = *busy + v[3] + v[4];
    return n >= 4;
}

static uint64_t read_swap(void) {
    char line[128];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmSwap: %llu kB", &kib) == 1) break;
    if (f) fclose(f);
    return kib << 10;
}

static double own_seconds(const struct rusage *u) {
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + 1e-6 * (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

static void begin_window(ch_speed *s) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    s->n = s->bytes = s->ns = 0;
    s->t0 = ch_clock_ns(), s->own0 = own_seconds(&u), s->disk0 = (uint64_t)u.ru_majflt;
    if (!read_stat(&s->busy0, &s->all0)) s->all0 = 0;
}

static double measure(chimere_engine *eng) {
    ch_speed *s = &eng->speed;
    s->read_gbps = ch_model_measure_read(eng->model);
    atomic_store(&eng->count.read_rate, (uint64_t)(s->read_gbps * 1e9));
    return s->read_gbps;
}

static void end_window(chimere_engine *eng) {
    ch_speed *s = &eng->speed;
    const ch_model_info *mi = ch_model_get_info(eng->model);
    double busy, all, seconds = (double)(ch_clock_ns() - s->t0) * 1e-9;
    struct rusage u;
    char text[400];
    ch_speed_facts f = {.read_gbps = s->read_gbps, .decode_gbps = (double)s->bytes / (double)s->ns, .tier = mi->tier, .best_tier = mi->best_tier,
                        .no_repack = s->no_repack, .n_window = s->n_window++, .n_threads = mi->n_threads, .weight_bytes = mi->weight_bytes};
    atomic_store(&eng->count.decode_rate, (uint64_t)(f.decode_gbps * 1e9));
    if (s->read_gbps <= 0) f.read_gbps = measure(eng); // not in memory at the start
    bool slow = f.read_gbps <= 0 || f.decode_gbps < low_share * f.read_gbps, again = slow && s->slow;
    s->slow = slow;
    if (!s->warned && again) { // one slow second may be anything
        ch_cpu_room room;
        ch_cpu_room_now(&room);
        getrusage(RUSAGE_SELF, &u);
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        f.n_cpu = online > 0 ? (int)online : room.n_cpu, f.n_core = room.n_core, f.quota = room.quota;
        f.disk_reads = (uint64_t)u.ru_majflt - s->disk0, f.swap_bytes = read_swap();
        f.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        if (s->all0 > 0 && read_stat(&busy, &all) && all > s->all0) {
            f.others = (busy - s->busy0) / (all - s->all0) * f.n_cpu - (own_seconds(&u) - s->own0) / seconds;
            if (f.others < 0) f.others = 0;
        }
        f.read_now_gbps = ch_model_measure_read(eng->model);
        if ((s->warned = ch_sched_judge_speed(&f, text, sizeof text))) ch_log(CH_LOG_WARN, "%s", text);
    }
    begin_window(s);
}

void ch_sched_open_speed(chimere_engine *eng, bool no_repack) {
    const ch_model_info *mi = ch_model_get_info(eng->model);
    ch_speed *s = &eng->speed;
    s->no_repack = no_repack;
    if (measure(eng) > 0)
        ch_log(CH_LOG_INFO, "memory: %.1f GB/s read by %d threads; at most %.1f tokens/s for one sequence", s->read_gbps, mi->n_threads,
               s->read_gbps * 1e9 / (double)(mi->active_bytes + mi->state_bytes));
}

void ch_sched_note_speed(chimere_engine *eng, uint64_t bytes, uint64_t ns) {
    ch_speed *s = &eng->speed;
    if (bytes < min_step_bytes) return; // smaller models wait for other things than memory
    if (s->n == 0) begin_window(s); // what was before was no decoding
    s->n++, s->bytes += bytes, s->ns += ns;
    if (s->n >= MIN_STEPS && s->ns >= min_window_ns) end_window(eng);
}
