// The start-up self-check: which facts give which message, and that an engine says it once.
#include "unit/sched_help.h"

#include "sched/engine.h"

// A quiet machine on which decoding is slow for no visible reason.
static ch_speed_facts slow(void) {
    return (ch_speed_facts){.read_gbps = 50, .read_now_gbps = 50, .decode_gbps = 5, .tier = "avx512", .best_tier = "avx512", .n_threads = 4,
                            .n_core = 4, .n_cpu = 8, .weight_bytes = 40000000000, .memory_bytes = 32000000000};
}

static void expect(const ch_speed_facts *f, const char *part) {
    char text[400] = "";
    assert_true(ch_sched_judge_speed(f, text, sizeof text));
    if (!strstr(text, part)) fail_msg("expected \"%s\" in \"%s\"", part, text);
    assert_non_null(strstr(text, "decoding reads 5.0 GB/s, 10 % of the 50.0 GB/s that memory gives: "));
    char cut[60]; // a small buffer is no harm
    assert_true(ch_sched_judge_speed(f, cut, sizeof cut));
}

static void test_causes(void **state) {
    (void)state;
    ch_speed_facts f = slow();
    expect(&f, "no cause found");
    f.read_now_gbps = 12.4; // 5 of them are 40.3 %
    expect(&f, "memory gives 12.4 GB/s now");
    f.read_now_gbps = 12.6; // 39.7 %: memory alone does not explain it
    expect(&f, "no cause found");
    f.others = 2; // of 8
    expect(&f, "no cause found");
    f.others = 2.1;
    expect(&f, "other programs keep 2.1 of 8 processors busy");
    f.no_repack = true;
    expect(&f, "--no-repack takes");
    f.tier = "avx2";
    expect(&f, "kernel tier avx2 is in use where the processor has avx512");
    f.n_threads = 5;
    expect(&f, "5 threads run on 4 cores; try --threads 4");
    f.quota = 2.5;
    expect(&f, "5 threads share the time of 2.5 processors that the control group grants; try --threads 2");
    f.quota = 0.5;
    expect(&f, "try --threads 1");
    f.quota = 4.5; // 5 threads within it, but not on 4 cores
    expect(&f, "5 threads run on 4 cores");
    f.disk_reads = 100;
    expect(&f, "5 threads run on 4 cores");
    f.disk_reads = 101;
    expect(&f, "weights are still read from disk (40.0 GB of them, 32.0 GB of memory)");
    f.swap_bytes = 16u << 20;
    expect(&f, "weights are still read from disk");
    f.swap_bytes = 17u << 20;
    expect(&f, "17 MiB of this process are in swap");
}

static void test_nothing_to_say(void **state) {
    (void)state;
    char text[400] = "";
    ch_speed_facts f = slow();
    f.n_threads = 64, f.tier = "ref";
    f.decode_gbps = 20; // 40 %
    assert_false(ch_sched_judge_speed(&f, text, sizeof text));
    f.decode_gbps = 19.9;
    assert_true(ch_sched_judge_speed(&f, text, sizeof text));
    f.read_gbps = 0; // not measured
    assert_false(ch_sched_judge_speed(&f, text, sizeof text));
    // A cold start: weights that fit into memory may come from disk for ten seconds.
    f = slow();
    f.disk_reads = 1000, f.weight_bytes = f.memory_bytes, f.n_window = 9;
    assert_false(ch_sched_judge_speed(&f, text, sizeof text));
    f.n_window = 10;
    expect(&f, "weights are still read from disk");
    f.n_window = 0, f.weight_bytes++;
    expect(&f, "weights are still read from disk");
    f.read_gbps = 0; // never in memory, so never measured
    assert_true(ch_sched_judge_speed(&f, text, sizeof text));
    assert_non_null(strstr(text, "decoding reads 5.0 GB/s: weights are still read from disk"));
    f = slow();
    f.best_tier = f.tier = "ref"; // no fast kernels for this processor
    assert_false(ch_sched_judge_speed(&f, text, sizeof text));
}

typedef struct heard {
    int n;
    char line[1024];
} heard;

static void listen(void *user, int level, const char *line) {
    heard *h = user;
    if (level != CH_LOG_WARN || !strstr(line, "decoding reads")) return;
    h->n++;
    snprintf(h->line, sizeof h->line, "%s", line);
}

static int32_t always_a(uint64_t h, uint64_t n) {
    (void)h, (void)n;
    return 'a';
}

// Steps of at least 70 ms, each said to read a gigabyte: at most 14.3 GB/s whatever else the machine does.
// A window takes 16 of them.
static void decode(double read_gbps, uint64_t step_bytes, int n_token, heard *h, chimere_metrics *m) {
    static const int32_t prompt[] = {65, 66};
    *h = (heard){0};
    ch_log_set_sink(listen, h);
    fake_reset();
    fake.next = always_a;
    fake.read_gbps = read_gbps, fake.step_bytes = step_bytes;
    atomic_store(&fake.delay_us, 70000);
    chimere_engine *eng = open_engine(200, 1, 16);
    chimere_request_params q = ids(eng, prompt, 2);
    q.max_tokens = n_token;
    assert_int_equal(run(eng, &q).n_tok, n_token);
    chimere_engine_get_metrics(eng, m);
    chimere_engine_close(&eng);
    ch_log_set_sink(NULL, NULL);
    fake_reset();
}

static void test_engine_warns_once(void **state) {
    (void)state;
    heard h;
    chimere_metrics m;
    decode(1000, 1000000000, 18, &h, &m); // one slow window may be anything
    assert_int_equal(h.n, 0);
    assert_int_equal(m.read_rate, 1000000000000);
    assert_in_range(m.decode_rate, 1, 14300000000);
    decode(1000, 1000000000, 54, &h, &m); // two, and a third
    assert_int_equal(h.n, 1);
    decode(1, 1000000000, 36, &h, &m); // more than memory gives, from a cache
    assert_int_equal(h.n, 0);
    assert_true(m.decode_rate > 0);
    decode(1000, 1000000, 36, &h, &m); // too small to be limited by memory
    assert_int_equal(h.n + (int)m.decode_rate, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_causes), cmocka_unit_test(test_nothing_to_say), cmocka_unit_test(test_engine_warns_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
