// The cache of packed weights: what is written is found again and gives the same numbers; anything wrong with a file, the
// folder or the disk leaves a working model; limits and removal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/model.h"
#include "synth/synth.h"

enum { N_TOKEN = 5, MAX_VOCAB = 4096 };

typedef struct place {
    char dir[64], cache[96], model[96]; // a scratch folder, the cache in it, a model
    float logits[MAX_VOCAB];            // of that model, packed in memory
    int32_t n_vocab;
    char log[4096]; // lines since the last opening
} place;

static void keep_line(void *user, int level, const char *line) {
    place *t = user;
    size_t n = strlen(t->log);
    (void)level;
    snprintf(t->log + n, sizeof t->log - n, "%s\n", line);
}

// Last scores of a short prompt, read at once or (one_by_one) token by token, and whether the panels were mapped.
static int scores_with(place *t, ch_model_params p, bool one_by_one, float *out, bool *mapped) {
    static const int32_t token[N_TOKEN] = {1, 7, 3, 9, 2};
    ch_error e = {0};
    ch_model *m;
    t->log[0] = 0;
    p.n_threads = 2, p.n_batch = 8, p.n_seq = 1;
    int rc = ch_model_open(&m, t->model, &p, &e);
    if (rc) return rc;
    const ch_model_info *info = ch_model_get_info(m);
    assert_true(info->n_vocab <= MAX_VOCAB);
    t->n_vocab = info->n_vocab;
    *mapped = info->packed_mapped;
    ch_seq_pool *pool = NULL;
    ch_seq *seq = NULL;
    ch_seq_limits limits = {.n_seq = 1, .n_page = 2, .max_tokens = 64};
    rc = ch_seq_pool_create(&pool, ch_model_plan(m), &limits, &e);
    if (!rc) rc = ch_seq_create(&seq, pool, &e);
    int32_t n = one_by_one ? 1 : N_TOKEN, last = n - 1;
    for (int32_t i = 0; i < N_TOKEN && !rc; i += n) {
        ch_segment seg = {seq, n};
        ch_batch b = {token + i, n, &seg, 1, &last, 1, NULL};
        rc = ch_model_forward(m, &b, out, &e);
    }
    if (seq) ch_seq_free(&seq);
    if (pool) ch_seq_pool_free(&pool);
    ch_model_close(&m);
    return rc;
}

static int scores(place *t, const char *cache, uint64_t limit, float *out, bool *mapped) {
    return scores_with(t, (ch_model_params){.panel_cache = cache, .panel_cache_bytes = limit}, false, out, mapped);
}

static void expect(place *t, const char *cache, uint64_t limit, bool mapped, const char *said) {
    float out[MAX_VOCAB];
    bool was;
    assert_int_equal(scores(t, cache, limit, out, &was), 0);
    assert_memory_equal(out, t->logits, (size_t)t->n_vocab * sizeof *out);
    assert_int_equal(was, mapped);
    if (!strstr(t->log, said)) fail_msg("expected \"%s\" in: %s", said, t->log);
}

static int set_up(void **state) {
    place *t = calloc(1, sizeof *t);
    ch_synth_shape s;
    ch_error e = {0};
    bool mapped;
    snprintf(t->dir, sizeof t->dir, "/tmp/test_panels_XXXXXX");
    if (!mkdtemp(t->dir)) return -1;
    snprintf(t->cache, sizeof t->cache, "%s/a/cache", t->dir);
    snprintf(t->model, sizeof t->model, "%s/model.gguf", t->dir);
    if (ch_synth_preset(&s, "qwen35", "tiny", &e) || ch_synth_write(t->model, &s, CH_TYPE_Q4_0, 5, NULL, NULL, &e)) return -1;
    ch_log_set_sink(keep_line, t);
    *state = t;
    return scores(t, NULL, 0, t->logits, &mapped) || mapped ? -1 : 0;
}

static int tear_down(void **state) {
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", ((place *)*state)->dir);
    ch_log_set_sink(NULL, NULL);
    free(*state);
    return system(cmd);
}

// Number of files in the cache; *path (NULL allowed): of the last panel file.
static int n_files(const place *t, char *path) {
    DIR *d = opendir(t->cache);
    int n = 0;
    for (struct dirent *x; d && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        n++;
        if (path) snprintf(path, 512, "%s/%s", t->cache, x->d_name);
    }
    if (d) closedir(d);
    return n;
}

static uint64_t bytes_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static void poke(const char *path, long at, uint8_t flip, bool keep_time) {
    struct stat st;
    int fd = open(path, O_RDWR);
    uint8_t b;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pread(fd, &b, 1, at), 1);
    b ^= flip;
    assert_int_equal(pwrite(fd, &b, 1, at), 1);
    if (keep_time) assert_int_equal(futimens(fd, (struct timespec[2]){{.tv_nsec = UTIME_OMIT}, st.st_mtim}), 0);
    close(fd);
}

// Tests of a tier that packs nothing would show nothing.
static bool packs(place *t) {
    bool mapped;
    float out[MAX_VOCAB];
    assert_int_equal(scores(t, t->cache, 0, out, &mapped), 0);
    return mapped;
}
#define NEED_PACKING(t) \
    if (!packs(t)) skip()

static void test_second_start(void **state) {
    place *t = *state;
    char path[512];
    NEED_PACKING(t);
    assert_non_null(strstr(t->log, "written to"));
    expect(t, t->cache, 0, true, "found in");
    assert_int_equal(n_files(t, path), 1);
    assert_non_null(strstr(path, "/model-"));
    expect(t, NULL, 0, false, "");
}

static void test_damage(void **state) {
    place *t = *state;
    char path[512];
    NEED_PACKING(t);
    assert_int_equal(n_files(t, path), 1);
    uint64_t n = bytes_of(path);
    const long at[] = {0, 8, 16, 40, 60, 127, 128, 200, 4096, (long)n / 2, (long)n - 9, (long)n - 17};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        poke(path, at[i], 0x10, false);
        expect(t, t->cache, 0, true, "is made anew");
        expect(t, t->cache, 0, true, "found in");
        assert_int_equal(bytes_of(path), n);
    }
    const long size[] = {0, 7, 8, 127, 128, 4096, (long)n - 1, (long)n + 1};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        assert_int_equal(truncate(path, size[i]), 0);
        expect(t, t->cache, 0, true, "is made anew");
        assert_int_equal(bytes_of(path), n);
    }
    assert_int_equal(n_files(t, NULL), 1);
    assert_int_equal(unlink(path) || mkdir(path, 0777), 0); // a folder in its place: neither read nor replaced
    expect(t, t->cache, 0, false, "not used");
}

// Sums are checked once, and again when something wrote to the file; verify always checks.
static void test_checked_once(void **state) {
    place *t = *state;
    char path[512];
    ch_error e = {0};
    ch_map map;
    float out[MAX_VOCAB];
    bool mapped;
    NEED_PACKING(t);
    assert_int_equal(n_files(t, path), 1);
    assert_int_equal(ch_map_open(&map, path, &e), 0);
    assert_true(ch_panels_is_file(map.data, map.size));
    assert_int_equal(ch_panels_verify(map.data, map.size, 2, NULL, NULL, &e), 0);
    poke(path, (long)map.size / 2, 1, true); // behind the time of change: the start trusts it
    assert_int_equal(ch_panels_verify(map.data, map.size, 2, NULL, NULL, &e), CH_EFORMAT);
    assert_non_null(strstr(e.msg, "the checksum of "));
    ch_map_close(&map);
    assert_int_equal(scores(t, t->cache, 0, out, &mapped), 0);
    assert_non_null(strstr(t->log, "found in"));
    poke(path, (long)bytes_of(path) - 1, 1, true); // the note is gone
    expect(t, t->cache, 0, true, "is made anew");
}

static void test_other_model(void **state) {
    place *t = *state;
    struct stat st;
    char path[512];
    NEED_PACKING(t);
    assert_int_equal(stat(t->model, &st), 0);
    // A copy elsewhere with the same time is the same model; a touched one is not, nor is one whose values were changed.
    snprintf(path, sizeof path, "cp -p %s %s/model2.gguf && mv %s/model2.gguf %s", t->model, t->dir, t->dir, t->model);
    assert_int_equal(system(path), 0);
    expect(t, t->cache, 0, true, "found in");
    assert_int_equal(utimensat(AT_FDCWD, t->model, NULL, 0), 0);
    expect(t, t->cache, 0, true, "written to");
    poke(t->model, (long)st.st_size - 1, 2, true); // last byte of the last tensor
    float out[MAX_VOCAB];
    bool mapped;
    assert_int_equal(scores(t, t->cache, 0, out, &mapped), 0);
    assert_non_null(strstr(t->log, "written to"));
    assert_int_equal(n_files(t, NULL), 3);
}

static void test_limits(void **state) {
    place *t = *state;
    char first[512], second[512];
    NEED_PACKING(t);
    assert_int_equal(n_files(t, first), 1);
    uint64_t n = bytes_of(first);
    assert_int_equal(unlink(first), 0);
    expect(t, t->cache, n - 1, false, "more than its limit");
    assert_int_equal(n_files(t, NULL), 0);
    expect(t, t->cache, n, true, "written to");
    expect(t, t->cache, n - 1, true, "found in"); // what is there may be used
    // A second model: both fit, then not.
    for (int fits = 1; fits >= 0; fits--) {
        assert_int_equal(utimensat(AT_FDCWD, t->model, NULL, 0), 0);
        expect(t, t->cache, 2 * n - !fits, true, "written to");
        assert_int_equal(n_files(t, second), fits ? 2 : 1);
        if (!fits) assert_int_equal(n_files(t, NULL), 1);
    }
    expect(t, t->cache, n, true, "found in"); // the newest was kept
}

// Of three files the one used longest ago goes, though it was written last; what is no panel file stays.
static void test_least_used_goes(void **state) {
    place *t = *state;
    char path[512], file[3][512], other[160], temp[160], fresh[160];
    NEED_PACKING(t);
    struct timespec time[3];
    for (int i = 0; i < 3; i++) {
        struct stat st;
        time[i] = (struct timespec){.tv_sec = 1700000000 + i};
        assert_int_equal(utimensat(AT_FDCWD, t->model, (struct timespec[2]){time[i], time[i]}, 0), 0);
        if (i == 0) assert_int_equal(n_files(t, path) || 1, 1), unlink(path);
        expect(t, t->cache, 0, true, "written to");
        char *at = strstr(t->log, t->cache);
        assert_non_null(at);
        snprintf(file[i], sizeof file[i], "%.*s", (int)strcspn(at, " "), at);
        assert_int_equal(stat(file[i], &st), 0);
        st.st_atim.tv_sec = 1000000000 + (i == 2 ? 0 : 10 + i);
        assert_int_equal(utimensat(AT_FDCWD, file[i], (struct timespec[2]){st.st_atim, {.tv_nsec = UTIME_OMIT}}, 0), 0);
    }
    snprintf(other, sizeof other, "%s/mine.panels", t->cache);
    snprintf(temp, sizeof temp, "%s/x.panels.tmp0000abcd", t->cache);
    snprintf(fresh, sizeof fresh, "%s/y.panels.tmp0000abcd", t->cache);
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(i == 0 ? other : i == 1 ? temp : fresh, "w");
        assert_non_null(f);
        fputs("hello", f);
        fclose(f);
    }
    assert_int_equal(utimensat(AT_FDCWD, temp, (struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    uint64_t n = bytes_of(file[0]);
    assert_int_equal(utimensat(AT_FDCWD, t->model, NULL, 0), 0);
    expect(t, t->cache, 3 * n, true, "removed");
    assert_int_equal(access(file[2], F_OK), -1);
    assert_int_equal(access(file[0], F_OK) | access(file[1], F_OK) | access(other, F_OK) | access(fresh, F_OK), 0);
    assert_int_equal(access(temp, F_OK), -1); // left by a writer that was killed
    assert_int_equal(n_files(t, NULL), 5);
}

static void test_no_room(void **state) {
    place *t = *state;
    char path[512];
    NEED_PACKING(t);
    expect(t, t->model, 0, false, "not used"); // a file, no folder
    expect(t, "/dev/null/x", 0, false, "not used");
    expect(t, "", 0, false, "not used");
    // As on a full disk: the system refuses so large a file.
    assert_int_equal(n_files(t, path), 1);
    assert_int_equal(unlink(path), 0);
    struct rlimit old;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    struct rlimit less = {.rlim_cur = 100000, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    expect(t, t->cache, 0, false, "not used");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, before);
    assert_int_equal(n_files(t, NULL), 0); // no temporary file left
    expect(t, t->cache, 0, true, "written to");
}

static void test_writers_at_once(void **state) {
    place *t = *state;
    char path[512];
    enum { N = 4 };
    NEED_PACKING(t);
    assert_int_equal(n_files(t, path), 1);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(unlink(path), 0);
        pid_t child[N];
        for (int i = 0; i < N; i++)
            if ((child[i] = fork()) == 0) {
                float out[MAX_VOCAB];
                bool mapped = false;
                bool ok = scores(t, t->cache, 0, out, &mapped) == 0 && mapped && !memcmp(out, t->logits, (size_t)t->n_vocab * sizeof *out);
                _exit(ok ? 0 : 1);
            }
        for (int i = 0; i < N; i++) {
            int status;
            assert_int_equal(waitpid(child[i], &status, 0), child[i]);
            assert_int_equal(status, 0);
        }
        assert_int_equal(n_files(t, path), 1);
        expect(t, t->cache, 0, true, "found in");
    }
}

static void test_not_wanted(void **state) {
    place *t = *state;
    ch_error e = {0};
    ch_model *m;
    for (int i = 0; i < 3; i++) {
        ch_model_params p = {.tier = i == 0 ? "ref" : NULL, .no_repack = i == 1, .meta_only = i == 2, .n_threads = 1, .panel_cache = t->cache};
        t->log[0] = 0;
        assert_int_equal(ch_model_open(&m, t->model, &p, &e), 0);
        assert_false(ch_model_get_info(m)->packed_mapped);
        assert_int_equal(ch_model_get_info(m)->packed_bytes, 0);
        ch_model_close(&m);
        assert_null(strstr(t->log, "cache"));
        assert_int_equal(n_files(t, NULL), 0);
    }
}

// Without packing at load every tier gives the very same scores, for one token and for several, dense and with experts.
static void test_no_repack(void **state) {
    place *t = *state;
    static const char *const tiers[] = {"ref", "avx2", "avx512", "amx"}, *const archs[] = {"qwen35", "qwen35moe"};
    static const ch_type types[] = {CH_TYPE_Q4_0, CH_TYPE_Q8_0, CH_TYPE_Q6_K, CH_TYPE_IQ3_S, CH_TYPE_F16};
    float packed[MAX_VOCAB], raw[MAX_VOCAB];
    for (int a = 0; a < 2; a++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
            ch_synth_shape s;
            ch_error e = {0};
            bool mapped;
            if (ch_synth_preset(&s, archs[a], "tiny", &e) || ch_synth_write(t->model, &s, types[k], 3, NULL, NULL, &e)) fail_msg("%s", e.msg);
            for (int i = 0; i < 3; i++)
                for (int one = 0; one < 2; one++) {
                    assert_int_equal(scores_with(t, (ch_model_params){.tier = tiers[i]}, one, packed, &mapped), 0);
                    assert_int_equal(scores_with(t, (ch_model_params){.tier = tiers[i], .no_repack = true}, one, raw, &mapped), 0);
                    if (memcmp(packed, raw, (size_t)t->n_vocab * sizeof *raw) != 0)
                        fail_msg("%s, type %d, tier %s: other scores without packing", archs[a], (int)types[k], tiers[i]);
                }
        }
}

static bool stop_saving(void *user, const char *what, uint64_t done, uint64_t total) {
    (void)user;
    return strcmp(what, "saving panels") != 0 || done < total / 2;
}

static void test_stopped(void **state) {
    place *t = *state;
    ch_error e = {0};
    ch_model *m;
    char path[512];
    NEED_PACKING(t);
    assert_int_equal(n_files(t, path), 1);
    assert_int_equal(unlink(path), 0);
    ch_model_params p = {.n_threads = 2, .panel_cache = t->cache, .progress = stop_saving};
    assert_int_equal(ch_model_open(&m, t->model, &p, &e), CH_ECANCELLED);
    assert_null(m);
    assert_int_equal(n_files(t, NULL), 0);
}

// Each allocation fails once: the model opens, from the cache or not, or says so.
static void test_no_memory(void **state) {
    place *t = *state;
    ch_error e = {0};
    char path[512];
    NEED_PACKING(t);
    int n_open = 0, n_mapped = 0;
    for (int64_t nth = 0; n_open < 80 && nth < 3000; nth++) {
        ch_model *m;
        ch_model_params p = {.n_threads = 1, .n_batch = 1, .n_seq = 1, .panel_cache = t->cache};
        if (nth % 2 && n_files(t, path) == 1) unlink(path);
        ch_alloc_fail_at(nth);
        int rc = ch_model_open(&m, t->model, &p, &e);
        ch_alloc_fail_at(-1);
        if (rc) assert_int_equal(rc, CH_ENOMEM);
        if (rc) continue;
        n_open++;
        n_mapped += ch_model_get_info(m)->packed_mapped;
        ch_model_close(&m);
    }
    if (n_mapped == 0 || n_mapped == 80 || n_open < 80) fail_msg("%d opened, %d mapped", n_open, n_mapped);
}

// What a reader of untrusted bytes must refuse, on a copy of a good file with its sums made right again.
static void fix(uint8_t *b, size_t n) {
    uint32_t n_entry;
    uint64_t off, sum;
    memcpy(&n_entry, b + 12, 4);
    memcpy(&off, b + 32, 8);
    if (128 + (uint64_t)n_entry * 128 <= n) {
        sum = ch_hash64(b + 128, n_entry * (size_t)128, ch_hash64(b, 120, 0));
        memcpy(b + 120, &sum, 8);
    }
    if (off <= n && n_entry * (uint64_t)8 + 16 <= n - off) {
        sum = ch_hash64(b + off, n_entry * (size_t)8, 1);
        memcpy(b + off + n_entry * (size_t)8, &sum, 8);
    }
}

static void test_parser(void **state) {
    place *t = *state;
    char path[512];
    ch_error e = {0};
    ch_map map;
    NEED_PACKING(t);
    assert_int_equal(n_files(t, path), 1);
    assert_int_equal(ch_map_open(&map, path, &e), 0);
    size_t n = map.size;
    uint8_t *b = malloc(n + 8);
    assert_non_null(b);
    uint32_t n_entry;
    memcpy(&n_entry, map.data + 12, 4);
    const struct {
        size_t at, width;
        int64_t add; // to the field; INT64_MIN: sets it to `set`
        uint64_t set;
        int rc;
    } edits[] = {
        {8, 4, 1, 0, CH_EUNSUPPORTED}, {8, 4, -1, 0, CH_EUNSUPPORTED}, // version
        {12, 4, 1, 0, CH_EFORMAT}, {12, 4, -1, 0, CH_EFORMAT},         // matrices
        {12, 4, INT64_MIN, 0, CH_ELIMIT}, {12, 4, INT64_MIN, 1 << 18, CH_EFORMAT}, {12, 4, INT64_MIN, (1 << 18) + 1, CH_ELIMIT},
        {24, 8, 4096, 0, CH_EFORMAT}, {24, 8, -1, 0, CH_EFORMAT},      // first matrix
        {32, 8, 8, 0, CH_EFORMAT}, {32, 8, -8, 0, CH_EFORMAT}, {32, 8, INT64_MIN, UINT64_MAX, CH_EFORMAT}, // sums
        {40, 8, 1, 0, CH_EFORMAT}, {40, 8, -1, 0, CH_EFORMAT},         // file
        {128 + 8, 8, 64, 0, CH_EFORMAT},                               // offset of the first
        {128 + 16, 8, INT64_MIN, 0, CH_EFORMAT}, {128 + 16, 8, 4096, 0, CH_EFORMAT}, {128 + 16, 8, INT64_MIN, UINT64_MAX, CH_EFORMAT}, // its size
        {128 + 16, 8, INT64_MIN, UINT64_MAX - 4094, CH_EFORMAT}, {128 + 128 + 8, 8, -4096, 0, CH_EFORMAT},
        {0, 1, 1, 0, CH_EFORMAT}, {48, 4, 1, 0, CH_OK}, // any layout and tier is well-formed
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        memcpy(b, map.data, n);
        uint64_t v = 0;
        memcpy(&v, b + edits[i].at, edits[i].width);
        v = edits[i].add == INT64_MIN ? edits[i].set : v + (uint64_t)edits[i].add;
        memcpy(b + edits[i].at, &v, edits[i].width);
        fix(b, n);
        int rc = ch_panels_verify(b, n, 1, NULL, NULL, &e);
        if (rc != edits[i].rc) fail_msg("edit %zu: %d, expected %d: %s", i, rc, edits[i].rc, e.msg);
    }
    memcpy(b, map.data, n);
    memset(b + 128 + 56, 'x', 72); // a name without an end
    fix(b, n);
    assert_int_equal(ch_panels_verify(b, n, 1, NULL, NULL, &e), CH_EFORMAT);
    // Without making sums right: no byte of header, table or sums may change unseen.
    memcpy(b, map.data, n);
    for (size_t i = 0; i < n - 8; i = i + 1 == 128 + (size_t)n_entry * 128 ? n - 16 - 8 * (size_t)n_entry : i + 1) {
        b[i] ^= 0x40;
        assert_int_not_equal(ch_panels_verify(b, n, 1, NULL, NULL, &e), 0);
        b[i] ^= 0x40;
    }
    const size_t size[] = {0, 1, 7, 8, 9, 127, 128, 129, 4095, 4096, n - 1, n + 1};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) assert_int_not_equal(ch_panels_verify(b, size[i], 1, NULL, NULL, &e), 0);
    assert_int_equal(ch_panels_verify(b, n, 1, NULL, NULL, &e), 0);
    free(b);
    ch_map_close(&map);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_second_start), CASE(test_damage), CASE(test_checked_once), CASE(test_other_model), CASE(test_limits),
        CASE(test_least_used_goes), CASE(test_no_room), CASE(test_writers_at_once), CASE(test_not_wanted), CASE(test_no_repack), CASE(test_stopped),
        CASE(test_no_memory), CASE(test_parser)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
