// Tests of base: errors, memory, buffers, numbers, UTF-8, files, pool.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

static void test_error(void **state) {
    (void)state;
    ch_error e;
    assert_int_equal(ch_error_set(&e, CH_EFORMAT, "key %s: found %d", "a.b", 7), CH_EFORMAT);
    assert_int_equal(e.code, CH_EFORMAT);
    assert_string_equal(e.msg, "key a.b: found 7");
    assert_int_equal(ch_error_prefix(&e, "file %d", 3), CH_EFORMAT);
    assert_string_equal(e.msg, "file 3: key a.b: found 7");
    assert_int_equal(ch_error_set(NULL, CH_EIO, "x"), CH_EIO);
    assert_int_equal(ch_error_prefix(NULL, "x"), CH_EINTERNAL);
    assert_string_equal(ch_error_name(CH_ELIMIT), "limit");

    // 239 bytes fit, 240 are cut; never inside a character.
    char text[400];
    memset(text, 'x', sizeof text);
    text[239] = 0;
    ch_error_set(&e, CH_EIO, "%s", text);
    assert_int_equal(strlen(e.msg), 239);
    assert_int_equal(e.msg[238], 'x');
    text[239] = 'x', text[240] = 0;
    ch_error_set(&e, CH_EIO, "%s", text);
    assert_string_equal(e.msg + 236, "...");
    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof text);
        for (size_t i = (size_t)shift; i + 3 < 300; i += 3) memcpy(text + i, "\xe2\x82\xac", 3);
        text[299] = 0;
        ch_error_set(&e, CH_EIO, "%s", text);
        assert_true(ch_utf8_valid(e.msg, strlen(e.msg)));
        assert_string_equal(e.msg + strlen(e.msg) - 3, "...");
        ch_error_set(&e, CH_EIO, "short");
        ch_error_prefix(&e, "%s", text);
        assert_true(ch_utf8_valid(e.msg, strlen(e.msg)));
    }
}

static void collect(void *user, int level, const char *line) { snprintf(user, 100, "%d %s", level, line); }

static void test_log(void **state) {
    (void)state;
    char got[100] = "";
    ch_log(CH_LOG_INFO, "nobody hears this");
    ch_log_set_sink(collect, got);
    ch_log(CH_LOG_WARN, "n = %d", 5);
    ch_log_set_sink(NULL, NULL);
    assert_string_equal(got, "2 n = 5");
}

static void test_checked_sizes(void **state) {
    (void)state;
    size_t v = 7;
    assert_false(ch_add_size(SIZE_MAX, 1, &v));
    assert_int_equal(v, 7);
    assert_true(ch_add_size(SIZE_MAX - 1, 1, &v) && v == SIZE_MAX);
    assert_false(ch_mul_size(SIZE_MAX / 2 + 1, 2, &v));
    assert_true(ch_mul_size(SIZE_MAX / 2, 2, &v) && v == SIZE_MAX - 1);
    assert_true(ch_mul_size(SIZE_MAX, 0, &v) && v == 0);
    assert_false(ch_round_up_size(SIZE_MAX - 6, 8, &v));
    assert_true(ch_round_up_size(SIZE_MAX - 7, 8, &v) && v == SIZE_MAX - 7);
    assert_true(ch_round_up_size(9, 8, &v) && v == 16);
    assert_true(ch_round_up_size(0, 8, &v) && v == 0);
}

static void test_alloc(void **state) {
    (void)state;
    uint8_t *p = ch_alloc(1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(p[i], 0);
    ch_free(p);
    void *z = ch_alloc(0);
    assert_non_null(z);
    ch_free(z);
    assert_null(ch_alloc_array(SIZE_MAX / 2, 3));
    p = ch_alloc_aligned(100, 64);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(p[99], 0);
    ch_free(p);
    char *s = ch_strndup("abcdef", 3);
    assert_string_equal(s, "abc");
    ch_free(s);
    ch_free(NULL);
    ch_alloc_fail_at(1);
    void *a = ch_alloc(1), *b = ch_alloc(1), *c = ch_alloc(1);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    ch_free(a);
    ch_free(c);
    ch_alloc_fail_at(-1);
}

static void test_arena(void **state) {
    (void)state;
    ch_arena *a = ch_arena_create(1 << 20);
    char *last = NULL;
    for (int i = 0; i < 2000; i++) {
        size_t n = (size_t)(i * 37 % 301);
        char *p = ch_arena_alloc(a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t k = 0; k < n; k++) assert_int_equal(p[k], 0);
        memset(p, 0xff, n);
        assert_ptr_not_equal(p, last);
        last = p;
    }
    assert_string_equal(ch_arena_strndup(a, "hello", 4), "hell");
    assert_null(ch_arena_alloc(a, 1 << 20));
    assert_null(ch_arena_alloc(a, SIZE_MAX - 3));
    ch_arena_free(&a);
    assert_null(a);
    ch_arena_free(&a);

    a = ch_arena_create(64); // limit at n-1, n, n+1
    assert_non_null(ch_arena_alloc(a, 48));
    assert_null(ch_arena_alloc(a, 17));
    assert_int_equal(ch_arena_bytes(a), 48);
    assert_non_null(ch_arena_alloc(a, 16));
    assert_null(ch_arena_alloc(a, 1));
    ch_arena_free(&a);
}

static void test_buf(void **state) {
    (void)state;
    ch_buf b = {.limit = 10};
    assert_true(ch_buf_puts(&b, "abc"));
    assert_true(ch_buf_printf(&b, "%d", 1234567));
    assert_int_equal(b.len, 10);
    assert_string_equal(b.data, "abc1234567");
    assert_false(ch_buf_puts(&b, "x"));
    assert_true(b.failed);
    assert_string_equal(b.data, "abc1234567");
    ch_buf_reset(&b);
    assert_false(b.failed);
    assert_false(ch_buf_printf(&b, "%s", "12345678901"));
    assert_string_equal(b.data, "");
    assert_int_equal(b.len, 0);
    ch_buf_free(&b);
    assert_int_equal(b.limit, 10);
    ch_buf big = {0};
    for (int i = 0; i < 5000; i++) assert_true(ch_buf_printf(&big, "%d,", i));
    assert_int_equal(strlen(big.data), big.len);
    ch_alloc_fail_at(0);
    size_t len = big.len;
    char *block = calloc(1, 1 << 20);
    assert_false(ch_buf_append(&big, block, 1 << 20));
    ch_alloc_fail_at(-1);
    free(block);
    assert_int_equal(big.len, len);
    ch_buf_free(&big);
}

static void test_rng(void **state) {
    (void)state;
    ch_rng r;
    ch_rng_seed(&r, 0);
    // First outputs of xoshiro256** seeded by splitmix64(0), from the authors' C code.
    assert_true(ch_rng_u64(&r) == 0x99ec5f36cb75f2b4u);
    assert_true(ch_rng_u64(&r) == 0xbf6e1f784956452au);
    double sum = 0, sq = 0, n = 100000;
    for (int i = 0; i < (int)n; i++) {
        double x = (double)ch_rng_normal(&r);
        sum += x;
        sq += x * x;
        double u = ch_rng_f64(&r);
        assert_true(u >= 0 && u < 1);
    }
    assert_true(fabs(sum / n) < 0.02);
    assert_true(fabs(sq / n - 1) < 0.03);
    assert_true(ch_hash64("abc", 3, 0) == 0x78af5f94892f3950u); // XXH3_64bits("abc")
    assert_true(ch_hash64("abc", 3, 1) != ch_hash64("abc", 3, 0));
}

static void test_half(void **state) {
    (void)state;
    // Every half goes through f32 and back unchanged; NaNs stay NaNs.
    for (uint32_t h = 0; h < 65536; h++) {
        float f = ch_f16_to_f32((uint16_t)h);
        uint16_t back = ch_f32_to_f16(f);
        if (isnan(f)) assert_true((back & 0x7fff) > 0x7c00);
        else assert_int_equal(back, h);
        float bf = ch_bf16_to_f32((uint16_t)h);
        back = ch_f32_to_bf16(bf);
        if (isnan(bf)) assert_true((back & 0x7fff) > 0x7f80);
        else assert_int_equal(back, h);
    }
    assert_int_equal(ch_f32_to_f16(1.0f), 0x3c00);
    assert_int_equal(ch_f32_to_f16(-2.0f), 0xc000);
    assert_int_equal(ch_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(ch_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ch_f32_to_f16(0x1p-25f), 0); // tie to even
    assert_int_equal(ch_f32_to_f16(0x1.000002p-25f), 1);
    // Between two neighbouring halves: below, at and above the middle, ties to even.
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float lo = ch_f16_to_f32((uint16_t)h), hi = ch_f16_to_f32((uint16_t)(h + 1)), mid = (lo + hi) / 2;
        assert_int_equal(ch_f32_to_f16(mid), (h & 1) ? h + 1 : h);
        assert_int_equal(ch_f32_to_f16(nextafterf(mid, -1)), h);
        assert_int_equal(ch_f32_to_f16(nextafterf(mid, 1e9f)), h + 1);
    }
    assert_int_equal(ch_f32_to_bf16(3.4e38f), 0x7f80);
    assert_int_equal(ch_f32_to_bf16(1.00390625f), 0x3f80); // tie to even
    assert_int_equal(ch_f32_to_bf16(1.01171875f), 0x3f82);
}

static void test_utf8(void **state) {
    (void)state;
    uint32_t cp;
    for (uint32_t c = 0; c <= 0x110010; c++) {
        char s[4];
        size_t n = ch_utf8_encode(c, s);
        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(ch_utf8_decode(s, n, &cp), n);
        assert_int_equal(cp, c);
        if (n > 1) {
            assert_int_equal(ch_utf8_decode(s, n - 1, &cp), 1);
            assert_true(cp == 0xFFFFFFFFu);
        }
    }
    const char *bad[] = {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                         "\xf5\x80\x80\x80", "\xff", "\xe2\x28\xa1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ch_utf8_decode(bad[i], strlen(bad[i]), &cp), 1);
        assert_true(cp == 0xFFFFFFFFu);
        assert_false(ch_utf8_valid(bad[i], strlen(bad[i])));
    }
    assert_true(ch_utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10));
    assert_true(ch_utf8_valid("", 0));
}

// ---- files ------------------------------------------------------------------------------------------------------------
static int make_folder(void **state) {
    char dir[] = "/tmp/test_base_XXXXXX";
    *state = mkdtemp(dir) ? strdup(dir) : NULL;
    return *state ? 0 : -1;
}

static int remove_folder(void **state) {
    int rc = rmdir(*state); // fails, and with it the test, when a temporary file was left
    free(*state);
    return rc;
}

static void test_files(void **state) {
    char path[100], link[100];
    snprintf(path, sizeof path, "%s/f", (char *)*state);
    snprintf(link, sizeof link, "%s/l", (char *)*state);
    ch_error e;
    ch_map m;
    assert_int_equal(ch_map_open(&m, path, &e), CH_EIO);
    assert_non_null(strstr(e.msg, path));
    assert_int_equal(ch_map_open(&m, *state, &e), CH_EIO);
    assert_non_null(strstr(e.msg, "folder"));

    ch_outfile *o;
    assert_int_equal(ch_outfile_open(&o, path, &e), 0);
    assert_int_equal(ch_outfile_write(o, "old", 3, &e), 0);
    assert_int_equal(access(path, F_OK), -1); // not there before the commit
    assert_int_equal(ch_outfile_commit(&o, &e), 0);
    assert_null(o);

    // Large pieces around the buffer's size, then abort: the old content stays.
    size_t n = ((size_t)1 << 20) + 1;
    char *big = malloc(n);
    for (size_t i = 0; i < n; i++) big[i] = (char)(i * 31 >> 3);
    assert_int_equal(ch_outfile_open(&o, path, &e), 0);
    assert_int_equal(ch_outfile_write(o, big, n, &e), 0);
    ch_outfile_abort(&o);
    assert_int_equal(ch_map_open(&m, path, &e), 0);
    assert_int_equal(m.size, 3);
    assert_memory_equal(m.data, "old", 3);
    ch_map_close(&m);

    // Through a symbolic link: the target changes, the link stays.
    assert_int_equal(symlink("f", link), 0);
    assert_int_equal(ch_outfile_open(&o, link, &e), 0);
    assert_int_equal(ch_outfile_write(o, "x", 1, &e), 0);
    assert_int_equal(ch_outfile_write(o, big, n, &e), 0);
    assert_int_equal(ch_outfile_write(o, big, n - 2, &e), 0);
    assert_int_equal(ch_outfile_tell(o), 2 * n - 1);
    assert_int_equal(ch_outfile_commit(&o, &e), 0);
    struct stat st;
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    ch_buf b = {0};
    assert_int_equal(ch_read_file(&b, path, &e), 0);
    assert_int_equal(b.len, 2 * n - 1);
    assert_memory_equal(b.data + 1, big, n);
    assert_memory_equal(b.data + 1 + n, big, n - 2);
    ch_buf_free(&b);
    b.limit = 2 * n - 2;
    assert_int_equal(ch_read_file(&b, path, &e), CH_ELIMIT);
    ch_buf_free(&b);
    b.limit = 2 * n - 1;
    assert_int_equal(ch_read_file(&b, path, &e), 0);
    ch_buf_free(&b);
    free(big);

    // A device is written straight, never replaced.
    assert_int_equal(ch_outfile_open(&o, "/dev/null", &e), 0);
    assert_int_equal(ch_outfile_write(o, "x", 1, &e), 0);
    assert_int_equal(ch_outfile_commit(&o, &e), 0);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    assert_int_equal(ch_outfile_open(&o, *state, &e), CH_EIO);
    assert_null(o);

    // Empty file: a valid map of nothing.
    assert_int_equal(ch_outfile_open(&o, path, &e), 0);
    assert_int_equal(ch_outfile_commit(&o, &e), 0);
    assert_int_equal(ch_map_open(&m, path, &e), 0);
    assert_int_equal(m.size, 0);
    assert_non_null(m.data);
    ch_map_close(&m);
    unlink(link);
    unlink(path);
}

// ---- pool -------------------------------------------------------------------------------------------------------------
typedef struct pool_case {
    ch_pool *pool;
    long plain[16][8]; // one line per worker: unsynchronised on purpose
    _Atomic int calls;
    int n_phases;
    int bad;
} pool_case;

static void count_call(void *arg, int worker, int n_workers) {
    pool_case *c = arg;
    c->plain[worker][0]++;
    atomic_fetch_add(&c->calls, n_workers > 0);
}

// Each phase every worker reads what its neighbour wrote in the phase before; barriers keep them apart.
static void phases(void *arg, int worker, int n_workers) {
    pool_case *c = arg;
    for (int i = 1; i <= c->n_phases; i++) {
        c->plain[worker][1] = i;
        ch_pool_barrier(c->pool);
        if (c->plain[(worker + 1) % n_workers][1] != i) c->bad = 1;
        ch_pool_barrier(c->pool);
    }
}

static void test_pool(void **state) {
    (void)state;
    ch_error e;
    ch_pool *p;
    assert_int_equal(ch_pool_create(&p, 0, &e), CH_ERANGE);
    assert_int_equal(ch_pool_create(&p, 257, &e), CH_ERANGE);
    int sizes[] = {1, 2, 3, 5};
    for (int k = 0; k < 4; k++) {
        int n = sizes[k];
        pool_case c = {.n_phases = n > 2 ? 40 : 400};
        assert_int_equal(ch_pool_create(&p, n, &e), 0);
        assert_int_equal(ch_pool_size(p), n);
        c.pool = p;
        int rounds = n > 2 ? 100 : 3000;
        for (int i = 0; i < rounds; i++) {
            ch_pool_run(p, count_call, &c);
            if (i % 50 == 0) usleep(300); // long enough for the workers to fall asleep
        }
        assert_int_equal(c.calls, rounds * n);
        for (int w = 0; w < n; w++) assert_int_equal(c.plain[w][0], rounds);
        ch_pool_run(p, phases, &c);
        assert_int_equal(c.bad, 0);
        ch_pool_free(&p);
        assert_null(p);
    }
    assert_int_equal(ch_pool_create(&p, 4, &e), 0); // freed without a job
    ch_pool_free(&p);
    int n = ch_cpu_default_threads();
    assert_true(n >= 1 && n <= 256);
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Workers without a job, and workers at a barrier whose last one is late, burn no processor: of 3 x 0.4 s that they wait, the
// spins take well under a millisecond.
static void sleep_then_meet(void *arg, int worker, int n_workers) {
    (void)n_workers;
    if (worker == 0) usleep(400000);
    ch_pool_barrier(arg);
}

static void test_pool_idle(void **state) {
    (void)state;
    ch_pool *p;
    pool_case c = {0};
    assert_int_equal(ch_pool_create(&p, 4, NULL), 0);
    ch_pool_run(p, count_call, &c);
    double t0 = cpu_seconds();
    usleep(400000);
    double idle = cpu_seconds() - t0;
    ch_pool_run(p, sleep_then_meet, p);
    double late = cpu_seconds() - t0 - idle;
    assert_true(idle < 0.1);
    assert_true(late < 0.1);
    ch_pool_free(&p);
}

static void test_pool_split(void **state) {
    (void)state;
    size_t sizes[] = {0, 1, 15, 16, 17, 100, 1000, 1023};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t grain = 1; grain <= 32; grain = grain * 2 + (grain == 4))
            for (int w = 1; w <= 9; w++) {
                size_t at = 0, least = SIZE_MAX, most = 0;
                for (int i = 0; i < w; i++) {
                    size_t begin, end;
                    ch_pool_split(sizes[k], grain, i, w, &begin, &end);
                    assert_int_equal(begin, at);
                    assert_true(end >= begin && end <= sizes[k]);
                    if (end < sizes[k]) assert_int_equal(end % grain, 0);
                    size_t units = (end - begin + grain - 1) / grain;
                    if (units < least) least = units;
                    if (units > most) most = units;
                    at = end;
                }
                assert_int_equal(at, sizes[k]);
                assert_true(most - least <= 1);
            }
}

static int remove_tree(void **state) {
    char cmd[120];
    snprintf(cmd, sizeof cmd, "rm -rf %s", (const char *)*state);
    free(*state);
    return system(cmd);
}

// ---- processors: folders as the system has them ---------------------------------------------------------------------------
static void put_text(const char *root, const char *path, const char *text) {
    char all[400];
    snprintf(all, sizeof all, "%s%s", root, path);
    for (char *s = all + strlen(root) + 1; *s; s++)
        if (*s == '/') *s = 0, mkdir(all, 0777), *s = '/';
    FILE *f = fopen(all, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_siblings(const char *root, int cpu, const char *list) {
    char path[100];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    put_text(root, path, list);
}

static void expect_room(const char *root, uint32_t mask, int n_cpu, int n_core, double quota, int n_threads) {
    ch_cpu_room r;
    uint8_t bits[4] = {(uint8_t)mask, (uint8_t)(mask >> 8), (uint8_t)(mask >> 16), (uint8_t)(mask >> 24)};
    ch_cpu_room_of(&r, root, bits, 32);
    assert_int_equal(r.n_cpu, n_cpu);
    assert_int_equal(r.n_core, n_core);
    assert_true(r.quota == quota);
    assert_int_equal(r.n_threads, n_threads);
}

static void test_cpu_room(void **state) {
    const char *top = *state;
    char root[300];
    // Nothing readable: every processor counts.
    snprintf(root, sizeof root, "%s/none", top);
    expect_room(root, 0xf, 4, 4, 0, 4);
    expect_room(root, 0, 0, 0, 0, 1);
    // 8 processors, 4 cores: siblings i and i + 4, written as a list or a range.
    snprintf(root, sizeof root, "%s/smt", top);
    mkdir(root, 0777);
    for (int i = 0; i < 8; i++) put_siblings(root, i, i % 4 == 0 ? "0,4\n" : i % 4 == 1 ? "1,5\n" : i % 4 == 2 ? "2,6\n" : "3,7\n");
    expect_room(root, 0xff, 8, 4, 0, 4);
    expect_room(root, 0xf0, 4, 4, 0, 4); // only second siblings are allowed
    expect_room(root, 0x33, 4, 2, 0, 2);
    expect_room(root, 0x01, 1, 1, 0, 1);
    put_siblings(root, 0, "0-1\n"), put_siblings(root, 1, "0-1\n");
    put_siblings(root, 2, "2-3,6-7\n"), put_siblings(root, 3, "2-3,6-7\n");
    expect_room(root, 0x0f, 4, 2, 0, 2);
    expect_room(root, 0x0e, 3, 2, 0, 2);
    put_siblings(root, 0, "garbage"), put_siblings(root, 1, "");
    expect_room(root, 0x03, 2, 2, 0, 2);
    // cgroup version 2: the smallest bound on the way up.
    put_text(root, "/proc/self/cgroup", "0::/a/b\n");
    put_text(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    expect_room(root, 0xf0, 4, 4, 0, 4);
    put_text(root, "/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    expect_room(root, 0xf0, 4, 4, 2.5, 2);
    put_text(root, "/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    expect_room(root, 0xf0, 4, 4, 0.5, 1);
    put_text(root, "/sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
    put_text(root, "/sys/fs/cgroup/a/cpu.max", "900000 100000\n");
    expect_room(root, 0xf0, 4, 4, 8, 4); // more than there are cores
    // In a container: the group's name is the host's, the folder's root is the container's own.
    put_text(root, "/proc/self/cgroup", "0::/elsewhere/x\n");
    put_text(root, "/sys/fs/cgroup/cpu.max", "300000 100000\n");
    expect_room(root, 0xf0, 4, 4, 3, 3);
    put_text(root, "/proc/self/cgroup", "0::/\n");
    expect_room(root, 0xf0, 4, 4, 3, 3);
    put_text(root, "/sys/fs/cgroup/cpu.max", "300000\n"); // broken: no bound
    expect_room(root, 0xf0, 4, 4, 0, 4);
    // Version 1, beside other controllers whose names begin alike.
    put_text(root, "/proc/self/cgroup", "5:cpuset:/c\n4:cpuacct,cpu:/c\n1:name=systemd:/c\nbroken\n0::/c\n");
    put_text(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "-1\n");
    put_text(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
    expect_room(root, 0xf0, 4, 4, 0, 4);
    put_text(root, "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "200000\n");
    expect_room(root, 0xf0, 4, 4, 2, 2);
    put_text(root, "/proc/self/cgroup", "5:cpuset:/c\n");
    expect_room(root, 0xf0, 4, 4, 0, 4);
}

static void test_cpu(void **state) {
    (void)state;
    ch_cpu c;
    ch_cpu_detect(&c);
    assert_true(!c.avx512_vnni || c.avx512);
    assert_true(memchr(c.name, 0, sizeof c.name) != NULL);
    uint64_t t = ch_clock_ns();
    assert_true(ch_clock_ns() >= t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error),     cmocka_unit_test(test_log),   cmocka_unit_test(test_checked_sizes),
        cmocka_unit_test(test_alloc),     cmocka_unit_test(test_arena), cmocka_unit_test(test_buf),
        cmocka_unit_test(test_rng),       cmocka_unit_test(test_half),  cmocka_unit_test(test_utf8),
        cmocka_unit_test_setup_teardown(test_files, make_folder, remove_folder),
        cmocka_unit_test(test_pool),      cmocka_unit_test(test_pool_idle), cmocka_unit_test(test_pool_split), cmocka_unit_test(test_cpu),
        cmocka_unit_test_setup_teardown(test_cpu_room, make_folder, remove_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
