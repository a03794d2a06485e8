// What the processor can do and how many of its cores this process may use.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
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
    read_brand(c->name);
#elif defined(__aarch64__)
    c->neon_dotprod = getauxval(AT_HWCAP) >> 20 & 1; // HWCAP_ASIMDDP
#endif
}

// ---- cores ----------------------------------------------------------------------------------------------------------
// First line of a small file of the system; false when it cannot be read.
static bool read_line(const char *path, char *line, size_t cap) {
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(line, (int)cap, f) != NULL;
    fclose(f);
    return ok;
}

// Physical cores within the affinity mask: processors that are the first allowed one of their sibling group.
static int count_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        return n < 1 ? 1 : n > 256 ? 256 : (int)n;
    }
    int n_cores = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        char path[96], line[256];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        bool first = true;
        if (read_line(path, line, sizeof line)) {
            // "0,8" or "0-1": any allowed sibling below this one stands for the core.
            for (char *p = line; *p >= '0' && *p <= '9';) {
                long lo = strtol(p, &p, 10), hi = lo;
                if (*p == '-') hi = strtol(p + 1, &p, 10);
                for (long s = lo; s <= hi && s < cpu && s < CPU_SETSIZE; s++)
                    if (CPU_ISSET((int)s, &set)) first = false;
                if (*p != ',') break;
                p++;
            }
        }
        n_cores += first;
    }
    return n_cores < 1 ? 1 : n_cores;
}

// Whole processors granted by one cgroup folder; 0: no bound there.
static long quota_of_folder(const char *dir, bool v2) {
    char path[600], line[64];
    long quota = 0, period = 0;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (!read_line(path, line, sizeof line) || sscanf(line, "%ld %ld", &quota, &period) != 2) return 0;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
        if (!read_line(path, line, sizeof line)) return 0;
        quota = strtol(line, NULL, 10);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        if (!read_line(path, line, sizeof line)) return 0;
        period = strtol(line, NULL, 10);
    }
    if (quota <= 0 || period <= 0) return 0;
    return quota < period ? 1 : quota / period;
}

// Smallest quota on the way from the process's cgroup up to the root.
static long smallest_quota(const char *root, const char *group, bool v2) {
    char dir[512];
    int n = snprintf(dir, sizeof dir, "%s%s", root, group);
    if (n < 0 || (size_t)n >= sizeof dir) return 0;
    long best = 0;
    for (size_t root_len = strlen(root);;) {
        long q = quota_of_folder(dir, v2);
        if (q > 0 && (best == 0 || q < best)) best = q;
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < root_len) return best;
        *slash = 0;
    }
}

static long cgroup_quota(void) {
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) return 0;
    char line[512];
    long best = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        controllers++;
        long q = 0;
        if (*controllers == 0) {
            q = smallest_quota("/sys/fs/cgroup", group, true);
        } else {
            // "cpu" as one of the names between commas
            bool cpu = false;
            for (const char *p = controllers; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
                cpu |= strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == 0);
            if (cpu) q = smallest_quota("/sys/fs/cgroup/cpu", group, false);
        }
        if (q > 0 && (best == 0 || q < best)) best = q;
    }
    fclose(f);
    return best;
}

int ch_cpu_default_threads(void) {
    long n = count_cores(), quota = cgroup_quota();
    if (quota > 0 && quota < n) n = quota;
    return n < 1 ? 1 : n > 256 ? 256 : (int)n;
}
