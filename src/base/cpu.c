// What the processor can do and how many of its cores this process may use.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "base/base.h"

#if defined(__x86_64__) || defined(__i386__)
static void read_brand(char name[64]) {
    unsigned r[12] = {0}, top = __get_cpuid_max(0x80000000u, NULL);
    if (top < 0x80000004u) return;
    for (unsigned i = 0; i < 3; i++) __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    char text[49] = {0};
    memcpy(text, r, 48);
    const char *s = text;
    while (*s == ' ') s++;
    snprintf(name, 64, "%s", s);
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--) name[n - 1] = 0;
}

// XCR0; callers know that the processor has XGETBV.
static unsigned enabled_states(void) {
    unsigned a, d;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a;
}
#endif

void ch_cpu_detect(ch_cpu *c) {
    *c = (ch_cpu){0};
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, cx = 0, d;
    __builtin_cpu_init();
    // The builtin also asks whether the system saves the wide registers; F16C has no name there in every compiler.
    bool f16c = __get_cpuid(1, &a, &b, &cx, &d) && (cx >> 29 & 1);
    c->avx2_fma_f16c = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
    c->avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    c->avx512_vnni = c->avx512 && __builtin_cpu_supports("avx512vnni");
    c->avx512_vbmi = c->avx512 && __builtin_cpu_supports("avx512vbmi");
    // AMX-TILE and AMX-INT8, and both parts of the tile state enabled by the system.
    c->amx_int8 = c->avx512 && __get_cpuid_count(7, 0, &a, &b, &cx, &d) && (d >> 24 & 3) == 3 &&
                  (enabled_states() >> 17 & 3) == 3;
    c->amx_bf16 = c->amx_int8 && (d >> 22 & 1) && __get_cpuid_count(7, 1, &a, &b, &cx, &d) && (a >> 5 & 1);
    read_brand(c->name);
#elif defined(__aarch64__)
    c->neon_dotprod = getauxval(AT_HWCAP) >> 20 & 1; // HWCAP_ASIMDDP
#endif
}

bool ch_cpu_enable_amx(void) {
#if defined(__x86_64__)
    enum { REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 }; // arch_prctl's numbers; older headers lack them
    return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, TILE_DATA) == 0;
#else
    return false;
#endif
}

// ---- cores ----------------------------------------------------------------------------------------------------------
typedef char path_buf[640];

// First line of a small file of the system; false when it cannot be read.
static bool read_line(const char *path, char *line, size_t cap) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(line, (int)cap, f) != NULL;
    fclose(f);
    return ok;
}

static bool allowed(const uint8_t *mask, size_t n_cpu, size_t cpu) { return cpu < n_cpu && (mask[cpu / 8] >> cpu % 8 & 1); }

// Whether cpu is the first allowed one of its core, from a list such as "0,8" or "0-1".
static bool is_first(const char *list, const uint8_t *mask, size_t n_cpu, size_t cpu) {
    for (const char *p = list; *p >= '0' && *p <= '9'; p++) {
        char *end;
        unsigned long lo = strtoul(p, &end, 10), hi = lo;
        if (*end == '-') hi = strtoul(end + 1, &end, 10);
        for (unsigned long s = lo; s <= hi && s < cpu; s++)
            if (allowed(mask, n_cpu, s)) return false;
        if (*(p = end) != ',') break;
    }
    return true;
}

static void count_cores(ch_cpu_room *r, const char *root, const uint8_t *mask, size_t n_cpu) {
    for (size_t cpu = 0; cpu < n_cpu; cpu++) {
        if (!allowed(mask, n_cpu, cpu)) continue;
        path_buf path;
        char line[256];
        snprintf(path, sizeof path, "%.500s/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", root, cpu);
        r->n_cpu++;
        r->n_core += !read_line(path, line, sizeof line) || is_first(line, mask, n_cpu, cpu);
    }
}

// Processors granted by one cgroup folder; 0: no bound there.
static double quota_of_folder(const char *dir, bool v2) {
    path_buf path;
    char line[64];
    long quota = 0, period = 0;
    snprintf(path, sizeof path, "%.600s/%s", dir, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_line(path, line, sizeof line)) return 0;
    if (v2) {
        if (sscanf(line, "%ld %ld", &quota, &period) != 2) return 0; // "max 100000"
    } else {
        quota = strtol(line, NULL, 10); // -1: none
        snprintf(path, sizeof path, "%.600s/cpu.cfs_period_us", dir);
        if (!read_line(path, line, sizeof line)) return 0;
        period = strtol(line, NULL, 10);
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

// Smallest quota on the way from the process's cgroup up to the root. In a container the group's name may be the host's: the
// folders that are not there bound nothing.
static double smallest_quota(const char *base, const char *group, bool v2) {
    path_buf dir;
    int n = snprintf(dir, sizeof dir, "%s%s", base, strcmp(group, "/") ? group : "");
    if (n < 0 || (size_t)n >= sizeof dir) return 0;
    double best = 0;
    for (size_t base_len = strlen(base);;) {
        double q = quota_of_folder(dir, v2);
        if (q > 0 && (best == 0 || q < best)) best = q;
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < base_len) return best;
        *slash = 0;
    }
}

// Whether "cpu" is one of the names between commas.
static bool names_cpu(const char *controllers) {
    for (const char *p = controllers; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == 0)) return true;
    return false;
}

static double cgroup_quota(const char *root) {
    path_buf path;
    char line[512];
    double best = 0;
    snprintf(path, sizeof path, "%.600s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) { // "4:cpu,cpuacct:/group" or, version 2, "0::/group"
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        bool v2 = *controllers == 0;
        if (!v2 && !names_cpu(controllers)) continue;
        snprintf(path, sizeof path, "%.560s/sys/fs/cgroup%s", root, v2 ? "" : "/cpu");
        double q = smallest_quota(path, group, v2);
        if (q > 0 && (best == 0 || q < best)) best = q;
    }
    fclose(f);
    return best;
}

void ch_cpu_room_of(ch_cpu_room *r, const char *root, const uint8_t *mask, size_t n_cpu) {
    *r = (ch_cpu_room){0};
    count_cores(r, root, mask, n_cpu);
    r->quota = cgroup_quota(root);
    long n = r->n_core, quota = (long)(r->quota < 1024 ? r->quota : 1024);
    if (r->quota > 0 && quota < n) n = quota;
    r->n_threads = n < 1 ? 1 : n > 256 ? 256 : (int)n;
}

void ch_cpu_room_now(ch_cpu_room *r) {
    enum { MOST = 8192 };
    uint8_t mask[MOST / 8] = {0};
    // The kernel copies whole words, in the machine's byte order: x86 and ARM are little-endian, so bit i is processor i.
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)(void *)mask) != 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        for (long i = 0; i < n && i < MOST; i++) mask[i / 8] |= (uint8_t)(1u << i % 8);
    }
    ch_cpu_room_of(r, "", mask, MOST);
}

int ch_cpu_default_threads(void) {
    ch_cpu_room r;
    ch_cpu_room_now(&r);
    return r.n_threads;
}
