// Requests over a fake model: limits, stop strings, characters, cancelling, slow readers, failures, many at once.
#include "unit/sched_help.h"

static int reset(void **state) {
    (void)state;
    fake_reset();
    return 0;
}

// The fake answers with this text, wherever its prompt ends at position script_at.
static const char *script;
static size_t script_at;

static int32_t by_script(uint64_t h, uint64_t n) {
    (void)h;
    size_t k = n - script_at, len = strlen(script);
    return n < script_at || k >= len ? FAKE_IM_END : (unsigned char)script[k];
}

static void set_script(const char *text, size_t n_prompt) {
    script = text;
    script_at = n_prompt;
    fake.next = by_script;
}

static const int32_t three[] = {'a', 'b', 'c'};

static void test_answer(void **state) {
    (void)state;
    set_script("Hello, world", 3);
    chimere_engine *eng = open_engine(64, 2, 16);
    chimere_request_params q = ids(eng, three, 3);
    outcome o = run(eng, &q);
    assert_string_equal(o.answer, "Hello, world");
    assert_string_equal(o.reasoning, "");
    assert_int_equal(o.ev.reason, CHIMERE_REASON_STOP);
    assert_int_equal(o.ev.stop_index, -1);
    assert_int_equal(o.ev.usage.prompt_tokens, 3);
    assert_int_equal(o.ev.usage.completion_tokens, 13);
    assert_int_equal(o.tok[12], FAKE_IM_END);
    assert_int_equal(o.ev.error.code, 0);
    // Raw text gives the same ids here.
    q.tokens = NULL;
    q.prompt = "abc";
    q.n_prompt = 3;
    o = run(eng, &q);
    assert_string_equal(o.answer, "Hello, world");
    q.ignore_eos = q.show_special = true;
    q.max_tokens = 14;
    o = run(eng, &q);
    assert_string_equal(o.answer, "Hello, world<|im_end|><|im_end|>");
    assert_int_equal(o.ev.reason, CHIMERE_REASON_LENGTH);
    chimere_engine_close(&eng);
    assert_null(eng);
}

static void test_events(void **state) {
    (void)state;
    set_script("xyz", 40);
    int32_t tok[40];
    random_ids(tok, 40, 1);
    chimere_engine *eng = open_engine(64, 1, 8);
    chimere_request_params q = ids(eng, tok, 40);
    q.progress = true;
    q.n_logprobs = 3;
    chimere_request *r = submit(eng, &q);
    chimere_event ev;
    int n_start = 0, n_done = 0, n_token = 0;
    char text[16] = "";
    while (chimere_request_next(r, WAIT_MS, &ev) == 1) {
        n_start += ev.kind == CHIMERE_EVENT_START;
        n_done += ev.kind == CHIMERE_EVENT_DONE;
        assert_int_equal(n_start, 1); // START is the first
        if (ev.kind == CHIMERE_EVENT_PROGRESS)
            assert_in_range(ev.prompt_done, 1, 40);
        if (ev.kind == CHIMERE_EVENT_DONE)
            assert_int_equal(ev.n_answer + ev.n_reasoning + ev.n_tokens, 0);
        for (size_t i = 0; i < ev.n_tokens; i++, n_token++) {
            const chimere_token *t = &ev.tokens[i];
            assert_int_equal(t->n_top, 3);
            assert_int_equal(t->top[0].id, t->top[0].logprob > t->logprob ? t->top[0].id : t->id);
            assert_true(t->top[0].logprob >= t->top[1].logprob && t->top[1].logprob >= t->top[2].logprob);
            assert_true(t->logprob < 0);
        }
        strncat(text, ev.answer, ev.n_answer);
    }
    assert_int_equal(n_done, 1);
    assert_int_equal(n_token, 4);
    assert_string_equal(text, "xyz");
    chimere_request_close(&r);
    chimere_engine_close(&eng);
}

static void test_limits(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(32, 1, 8);
    int32_t tok[320];
    random_ids(tok, 320, 2);
    chimere_request *r = NULL;
    chimere_error e;
    static const size_t size[] = {31, 32, 33, 320};
    static const int64_t bad_max[] = {0, -2, INT64_MIN};
    for (size_t k = 0; k < 4; k++) {
        chimere_request_params q = ids(eng, tok, size[k]);
        q.max_tokens = INT64_MAX;
        q.ignore_eos = true;
        if (size[k] < 32) {
            outcome o = run(eng, &q);
            assert_int_equal(o.ev.reason, CHIMERE_REASON_LENGTH);
            assert_int_equal(o.n_tok, 1);
        } else {
            assert_int_equal(chimere_request_submit(eng, &r, &q, &e), CHIMERE_ELIMIT);
            assert_non_null(strstr(e.msg, "32"));
            char text[321], found[24];
            memset(text, 'x', 320);
            q.tokens = NULL; // as text it is known too long only once it is tokenised
            q.prompt = text;
            q.n_prompt = size[k];
            outcome o = run(eng, &q);
            assert_int_equal(o.ev.reason, CHIMERE_REASON_ERROR);
            assert_int_equal(o.ev.error.code, CHIMERE_ELIMIT);
            snprintf(found, sizeof found, "%zu", size[k]);
            assert_non_null(strstr(o.ev.error.msg, found));
        }
    }
    chimere_request_params q = ids(eng, tok, 10);
    q.ignore_eos = true;
    for (size_t k = 0; k < 3; k++) {
        q.max_tokens = bad_max[k];
        assert_int_equal(chimere_request_submit(eng, &r, &q, &e), CHIMERE_ERANGE);
        assert_null(r);
        assert_non_null(strstr(e.msg, "max_tokens"));
    }
    for (int64_t n = 1; n <= 3; n++) {
        q.max_tokens = n;
        assert_int_equal(run(eng, &q).n_tok, n);
    }
    for (q.max_tokens = 21; q.max_tokens <= 23; q.max_tokens++)
        assert_int_equal(run(eng, &q).n_tok, q.max_tokens < 22 ? q.max_tokens : 22);
    q.max_tokens = -1;
    assert_int_equal(run(eng, &q).n_tok, 22);
    chimere_engine_close(&eng);
}

static void test_bad_params(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(32, 1, 8);
    chimere_request *r = NULL;
    chimere_error e;
    chimere_request_params q = ids(eng, three, 3), good = q;
#define REFUSED(code, change)                                                                                               \
    do {                                                                                                                    \
        q = good;                                                                                                           \
        change;                                                                                                             \
        e.msg[0] = 0;                                                                                                       \
        assert_int_equal(chimere_request_submit(eng, &r, &q, &e), code);                                                    \
        assert_null(r);                                                                                                     \
        assert_true(strlen(e.msg) > 10);                                                                                    \
    } while (0)
    int32_t high = FAKE_N_VOCAB, low = -1;
    char long_stop[CHIMERE_STOP_BYTES_MAX + 2];
    memset(long_stop, 'x', sizeof long_stop - 1);
    long_stop[sizeof long_stop - 1] = 0;
    const char *stops[CHIMERE_STOP_MAX + 1], *empty = "", *invalid = "\xff", *too_long = long_stop;
    for (int i = 0; i <= CHIMERE_STOP_MAX; i++)
        stops[i] = "x";
    REFUSED(CHIMERE_ERANGE, q.tokens = NULL);
    REFUSED(CHIMERE_ERANGE, q.prompt = "x");
    REFUSED(CHIMERE_ERANGE, q.n_tokens = 0);
    REFUSED(CHIMERE_ERANGE, (q.tokens = &high, q.n_tokens = 1));
    REFUSED(CHIMERE_ERANGE, (q.tokens = &low, q.n_tokens = 1));
    REFUSED(CHIMERE_ERANGE, q.n_logprobs = -2);
    REFUSED(CHIMERE_ERANGE, q.n_logprobs = 21);
    REFUSED(CHIMERE_ERANGE, q.enable_thinking = 2);
    REFUSED(CHIMERE_ERANGE, q.timeout_ms = -1);
    REFUSED(CHIMERE_ERANGE, q.sampling.value[0] = NAN);
    REFUSED(CHIMERE_ELIMIT, (q.stop = stops, q.n_stop = CHIMERE_STOP_MAX + 1));
    REFUSED(CHIMERE_ERANGE, (q.stop = &empty, q.n_stop = 1));
    REFUSED(CHIMERE_EFORMAT, (q.stop = &invalid, q.n_stop = 1));
    REFUSED(CHIMERE_ELIMIT, (q.stop = &too_long, q.n_stop = 1));
    REFUSED(CHIMERE_EUNSUPPORTED, (q.tokens = NULL, q.messages_json = "[]")); // this file has no chat template
    q = good;
    q.stop = stops;
    q.n_stop = CHIMERE_STOP_MAX;
    long_stop[CHIMERE_STOP_BYTES_MAX] = 0;
    stops[3] = long_stop;
    run(eng, &q);
    chimere_sampling s;
    chimere_sampling_init(&s, NULL);
    assert_int_equal(chimere_sampling_set(&s, "temperature", 2.01, &e), CHIMERE_ERANGE);
    assert_int_equal(chimere_sampling_set(&s, "top_k", 1.5, &e), CHIMERE_ERANGE);
    assert_int_equal(chimere_sampling_set(&s, "nosuch", 1, &e), CHIMERE_EUNSUPPORTED);
    assert_int_equal(chimere_sampling_set(&s, "top_k", 7, &e), CHIMERE_OK);
    assert_true(chimere_sampling_get(&s, "top_k") == 7);
    assert_true(isnan(chimere_sampling_get(&s, "nosuch")));
    chimere_engine_close(&eng);
}

static void test_open(void **state) {
    (void)state;
    chimere_engine *eng = NULL;
    chimere_error e;
    chimere_engine_params p, good;
    chimere_engine_params_init(&good);
    good.model_path = "fake";
#define NOT_OPENED(code, change)                                                                                            \
    do {                                                                                                                    \
        p = good;                                                                                                           \
        change;                                                                                                             \
        assert_int_equal(chimere_engine_open(&eng, &p, &e), code);                                                          \
        assert_null(eng);                                                                                                   \
    } while (0)
    NOT_OPENED(CHIMERE_ERANGE, p.model_path = NULL);
    NOT_OPENED(CHIMERE_EIO, p.model_path = "no such file");
    NOT_OPENED(CHIMERE_ERANGE, p.n_ctx = 7);
    NOT_OPENED(CHIMERE_ERANGE, p.n_ctx = (1 << 24) + 1);
    NOT_OPENED(CHIMERE_ERANGE, p.n_slots = 65);
    NOT_OPENED(CHIMERE_ERANGE, p.n_slots = -1);
    NOT_OPENED(CHIMERE_ERANGE, p.n_batch = -1);
    NOT_OPENED(CHIMERE_ERANGE, p.n_queue = 4097);
    chimere_memory small, large;
    p = good;
    p.n_ctx = 8;
    p.n_slots = 1;
    assert_int_equal(chimere_estimate(&p, &small, &e), CHIMERE_OK);
    p.n_ctx = 4096;
    p.n_slots = 64;
    assert_int_equal(chimere_estimate(&p, &large, &e), CHIMERE_OK);
    assert_true(large.context > 1000 * small.context && large.state == 64 * small.state);
    assert_true(large.total > large.context + large.state && small.total < large.total);
    p = good;
    assert_int_equal(chimere_engine_open(&eng, &p, &e), CHIMERE_OK);
    const chimere_engine_info *info = chimere_engine_get_info(eng);
    assert_int_equal(info->n_ctx, 256); // what the model was trained for
    assert_int_equal(info->n_slots, 4);
    assert_int_equal(info->eos, FAKE_IM_END);
    assert_null(info->chat_template);
    assert_string_equal(info->name, "fake");
    chimere_engine_close(&eng);
}

// ---- stop strings and characters ----------------------------------------------------------------------------------------

// The definition: at the first byte where some string is complete the text ends, before the longest one complete there.
static size_t naive_stop(const char *text, const char *const *stop, size_t n, int *which) {
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t longest = 0;
        for (size_t k = 0; k < n; k++) {
            size_t len = strlen(stop[k]);
            if (len <= end && len > longest && memcmp(text + end - len, stop[k], len) == 0)
                longest = len, *which = (int)k;
        }
        if (longest)
            return end - longest;
    }
    *which = -1;
    return strlen(text);
}

static void test_stop(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(128, 1, 8);
    ch_rng rng;
    ch_rng_seed(&rng, 3);
    for (int round = 0; round < 300; round++) {
        static char text[64];
        static char word[4][8];
        const char *stop[4];
        size_t n_stop = 1 + ch_rng_u64(&rng) % 4, len = ch_rng_u64(&rng) % 60;
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + ch_rng_u64(&rng) % 2);
        text[len] = 0;
        for (size_t k = 0; k < n_stop; k++) {
            size_t w = 1 + ch_rng_u64(&rng) % 7;
            for (size_t i = 0; i < w; i++)
                word[k][i] = (char)('a' + ch_rng_u64(&rng) % 2);
            word[k][w] = 0;
            stop[k] = word[k];
        }
        set_script(text, 3);
        chimere_request_params q = ids(eng, three, 3);
        q.stop = stop;
        q.n_stop = n_stop;
        outcome o = run(eng, &q);
        int which = -1;
        size_t want = naive_stop(text, stop, n_stop, &which);
        assert_int_equal(o.ev.n_answer, want);
        assert_memory_equal(o.answer, text, want);
        if (which < 0)
            assert_int_equal(o.ev.stop_index, -1);
        else
            assert_string_equal(stop[o.ev.stop_index], stop[which]);
        assert_int_equal(o.ev.reason, CHIMERE_REASON_STOP);
    }
    chimere_engine_close(&eng);
}

// Text that may begin a stop string is held back, and never more than that.
static void test_hold_back(void **state) {
    (void)state;
    const char *stop[] = {"own fox", "\xe2\x82\xac\xe2\x82\xac"}; // two euro signs
    set_script("a brown f own fo\xe2\x82\xac." "brown fox jumps", 3);
    chimere_engine *eng = open_engine(128, 1, 8);
    chimere_request_params q = ids(eng, three, 3);
    q.stop = stop;
    q.n_stop = 2;
    chimere_request *r = submit(eng, &q);
    chimere_event ev;
    char text[128] = "";
    while (chimere_request_next(r, WAIT_MS, &ev) == 1) {
        assert_true(ch_utf8_valid(ev.answer, ev.n_answer));
        strncat(text, ev.answer, ev.n_answer);
        if (ev.kind == CHIMERE_EVENT_DONE)
            assert_int_equal(ev.stop_index, 0);
    }
    assert_string_equal(text, "a brown f own fo\xe2\x82\xac.br");
    chimere_request_close(&r);
    chimere_engine_close(&eng);
}

static void test_characters(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(64, 1, 8);
    chimere_request_params q = ids(eng, three, 3);
    set_script("\xf0\x9f\x98\x80 \xc3\xa9 \xe4\xb8\xad", 3); // each byte is one token
    chimere_request *r = submit(eng, &q);
    chimere_event ev;
    char text[64] = "";
    while (chimere_request_next(r, WAIT_MS, &ev) == 1) {
        assert_true(ch_utf8_valid(ev.answer, ev.n_answer));
        strncat(text, ev.answer, ev.n_answer);
    }
    assert_string_equal(text, script);
    chimere_request_close(&r);
    set_script("ok \xf0\x9f\x98", 3); // cut short: one replacement character at the end
    outcome o = run(eng, &q);
    assert_true(ch_utf8_valid(o.answer, strlen(o.answer)));
    assert_memory_equal(o.answer, "ok \xef\xbf\xbd", 6);
    chimere_engine_close(&eng);
}

// ---- many at once -------------------------------------------------------------------------------------------------------

#define MANY 24

typedef struct task {
    int32_t tok[100];
    size_t n;
    chimere_request_params q;
} task;

static void make_tasks(const chimere_engine *eng, task *t, uint64_t seed) {
    ch_rng rng;
    ch_rng_seed(&rng, seed);
    for (int i = 0; i < MANY; i++) {
        t[i].n = 1 + ch_rng_u64(&rng) % 100;
        random_ids(t[i].tok, t[i].n, i % 3 ? seed + (uint64_t)i : seed); // some share their beginnings
        t[i].q = ids(eng, t[i].tok, t[i].n);
        t[i].q.max_tokens = 1 + (int64_t)(ch_rng_u64(&rng) % 60);
        if (i % 2) {
            chimere_sampling_set(&t[i].q.sampling, "temperature", 1.2, NULL);
            t[i].q.sampling.seed = i;
        }
    }
}

// Random arrivals over few slots: every answer, greedy or drawn with a seed, equals the one of the request alone.
static void test_concurrent(void **state) {
    (void)state;
    static task t[MANY];
    static outcome alone[MANY];
    for (int plan = 0; plan < 2; plan++) {
        fake.no_slab = plan == 1;
        for (int i = 0; i < MANY; i++) {
            chimere_engine *eng = open_engine(200, 1, 512);
            make_tasks(eng, t, 7);
            alone[i] = run(eng, &t[i].q);
            chimere_engine_close(&eng);
            if (i % 2 == 0) {
                int32_t want[512];
                size_t n = fake_answer(t[i].tok, t[i].n, want, (size_t)t[i].q.max_tokens);
                assert_int_equal(alone[i].n_tok, n);
                assert_memory_equal(alone[i].tok, want, n * sizeof want[0]);
            }
        }
        static const int32_t shape[][2] = {{3, 16}, {4, 4}, {1, 7}, {8, 512}};
        for (size_t s = 0; s < 4; s++) {
            atomic_store(&fake.max_segments, 0);
            chimere_engine *eng = open_engine(200, shape[s][0], shape[s][1]);
            make_tasks(eng, t, 7);
            for (int round = 0; round < 3; round++) {
                chimere_request *r[MANY];
                for (int i = 0; i < MANY; i++) {
                    r[i] = submit(eng, &t[i].q);
                    if ((i + round) % 5 == 0)
                        usleep(300);
                }
                for (int k = 0; k < MANY; k++) {
                    int i = (k * 7 + round) % MANY; // in any order
                    outcome o = finish(r[i]);
                    assert_int_equal(o.n_tok, alone[i].n_tok);
                    assert_memory_equal(o.tok, alone[i].tok, o.n_tok * sizeof o.tok[0]);
                    assert_string_equal(o.answer, alone[i].answer);
                }
            }
            if (shape[s][0] > 1)
                assert_true(atomic_load(&fake.max_segments) > 1); // they did share steps
            wait_idle(eng);
            chimere_metrics m;
            chimere_engine_get_metrics(eng, &m);
            assert_int_equal(m.requests, 3 * MANY);
            assert_int_equal(m.requests_stopped + m.requests_length, 3 * MANY);
            assert_true(m.tokens_reused > 0 && m.tokens_reused < m.tokens_prompt);
            chimere_engine_close(&eng);
        }
    }
}

static void test_seed(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(200, 4, 32);
    chimere_request_params q = ids(eng, three, 3);
    chimere_sampling_set(&q.sampling, "temperature", 1.5, NULL);
    q.ignore_eos = true;
    q.max_tokens = 60;
    q.sampling.seed = 1;
    outcome a = run(eng, &q), b = run(eng, &q);
    assert_int_equal(a.ev.seed, 1);
    assert_memory_equal(a.tok, b.tok, 60 * sizeof a.tok[0]);
    q.sampling.seed = 2;
    b = run(eng, &q);
    assert_memory_not_equal(a.tok, b.tok, 60 * sizeof a.tok[0]);
    q.sampling.seed = -1;
    a = run(eng, &q), b = run(eng, &q);
    assert_true(a.ev.seed != b.ev.seed && a.ev.seed >= 0);
    q.sampling.seed = a.ev.seed; // the seed in use is told, so that a run can be repeated
    b = run(eng, &q);
    assert_memory_equal(a.tok, b.tok, 60 * sizeof a.tok[0]);
    chimere_engine_close(&eng);
}

// ---- cancel, slow readers, failures -------------------------------------------------------------------------------------

static void hold_in_step(void) {
    atomic_store(&fake.hold, 1);
}

static void wait_in_step(void) {
    for (int i = 0; i < 100000 && !atomic_load(&fake.waiting); i++)
        usleep(100);
    assert_true(atomic_load(&fake.waiting));
}

static void test_cancel(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(200, 1, 4);
    int32_t tok[100];
    random_ids(tok, 100, 9);
    chimere_request_params q = ids(eng, tok, 100);
    q.ignore_eos = true;
    // While the prompt is computed: one more step at most.
    hold_in_step();
    chimere_request *r = submit(eng, &q);
    wait_in_step();
    chimere_request *queued = submit(eng, &q);
    chimere_request_cancel(queued);
    chimere_request_cancel(r);
    long before = atomic_load(&fake.steps);
    atomic_store(&fake.hold, 0);
    outcome o = finish(r);
    assert_int_equal(o.ev.reason, CHIMERE_REASON_CANCELLED);
    assert_true(atomic_load(&fake.steps) <= before + 1);
    assert_int_equal(finish(queued).ev.reason, CHIMERE_REASON_CANCELLED);
    // While it answers; the text so far is kept, and closing without reading is a cancel too.
    r = submit(eng, &q);
    chimere_event ev;
    do
        assert_int_equal(chimere_request_next(r, WAIT_MS, &ev), 1);
    while (ev.kind != CHIMERE_EVENT_DELTA);
    chimere_request_cancel(r);
    chimere_request_cancel(r);
    o = finish(r);
    assert_true(o.ev.reason == CHIMERE_REASON_CANCELLED || o.ev.reason == CHIMERE_REASON_LENGTH);
    r = submit(eng, &q);
    chimere_request_close(&r);
    r = submit(eng, &q);
    usleep(500);
    chimere_request_close(&r);
    wait_idle(eng);
    // The slot answers the next one as a fresh engine would.
    int32_t want[50];
    size_t n = fake_answer(tok, 100, want, 50);
    q.ignore_eos = false;
    q.max_tokens = 50;
    o = run(eng, &q);
    assert_int_equal(o.n_tok, n);
    assert_memory_equal(o.tok, want, n * sizeof want[0]);
    chimere_engine_close(&eng);
}

// Thousands of requests with random cancels: none hangs, every answer that ends by itself is right.
static void test_random_cancels(void **state) {
    (void)state;
    static task t[MANY];
    chimere_engine *eng = open_engine(200, 3, 16);
    make_tasks(eng, t, 11);
    ch_rng rng;
    ch_rng_seed(&rng, 12);
    int cancelled = 0;
    for (int round = 0; round < 60; round++) {
        chimere_request *r[MANY];
        for (int i = 0; i < MANY; i++)
            r[i] = submit(eng, &t[i].q);
        for (int i = 0; i < MANY; i++) {
            uint64_t what = ch_rng_u64(&rng) % 6;
            if (what == 0)
                chimere_request_close(&r[i]);
            else if (what == 1)
                chimere_request_cancel(r[i]);
            else if (what == 2)
                usleep(100);
        }
        for (int i = 0; i < MANY; i++) {
            if (!r[i])
                continue;
            outcome o = finish(r[i]);
            if (o.ev.reason == CHIMERE_REASON_CANCELLED) {
                cancelled++;
                continue;
            }
            if (i % 2)
                continue;
            int32_t want[512];
            size_t n = fake_answer(t[i].tok, t[i].n, want, (size_t)t[i].q.max_tokens);
            assert_int_equal(o.n_tok, n);
            assert_memory_equal(o.tok, want, n * sizeof want[0]);
        }
    }
    assert_true(cancelled > 10);
    wait_idle(eng);
    chimere_metrics m;
    chimere_engine_get_metrics(eng, &m);
    assert_int_equal(m.requests, m.requests_stopped + m.requests_length + m.requests_cancelled);
    chimere_engine_close(&eng);
}

static int32_t always_a(uint64_t h, uint64_t n) {
    (void)h, (void)n;
    return 'a';
}

// A reader that does not read stops its own slot, bounded, and no other; later it gets everything.
static void test_slow_reader(void **state) {
    (void)state;
    fake.next = always_a;
    chimere_engine *eng = open_engine(2000, 2, 16);
    chimere_request_params q = ids(eng, three, 3);
    chimere_request *slow = submit(eng, &q);
    chimere_metrics m = {0};
    for (int i = 0; i < 100000 && m.tokens_generated < 256; i++) { // until it has stopped by itself
        usleep(100);
        chimere_engine_get_metrics(eng, &m);
    }
    usleep(20000);
    chimere_engine_get_metrics(eng, &m);
    assert_int_equal(m.slots_busy, 1);
    assert_in_range(m.tokens_generated, 256, 300);
    for (int i = 0; i < 5; i++) {
        q.max_tokens = 20;
        assert_int_equal(run(eng, &q).n_tok, 20);
    }
    chimere_event ev;
    size_t n = 0, n_token = 0;
    while (chimere_request_next(slow, WAIT_MS, &ev) == 1) {
        n += ev.n_answer;
        n_token += ev.n_tokens;
    }
    assert_int_equal(n, 2000 - 3);
    assert_int_equal(n_token, 2000 - 3);
    chimere_request_close(&slow);
    slow = submit(eng, &q); // a paused request can be cancelled
    usleep(5000);
    chimere_request_cancel(slow);
    chimere_request_close(&slow);
    wait_idle(eng);
    chimere_engine_close(&eng);
}

// A request that fails ends alone; the same slot then answers as a fresh engine does.
static void test_failures(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(200, 3, 32);
    int32_t tok[60], want[40];
    static const int32_t poison[] = {FAKE_NAN, FAKE_BAD, FAKE_BROKEN};
    random_ids(tok, 60, 20);
    for (int k = 0; k < 9; k++) {
        int32_t bad[61];
        memcpy(bad, tok, sizeof tok);
        bad[60] = poison[k % 3]; // last: a failure at the scores
        if (k >= 3 && k % 3)
            bad[30] = poison[k % 3]; // in the middle of the prompt
        chimere_request_params q = ids(eng, tok, 60), b = ids(eng, bad, 61);
        q.max_tokens = b.max_tokens = 40;
        chimere_request *good = submit(eng, &q), *fails = submit(eng, &b), *good2 = submit(eng, &q);
        outcome o = finish(fails);
        assert_int_equal(o.ev.reason, CHIMERE_REASON_ERROR);
        assert_int_equal(o.ev.error.code, poison[k % 3] == FAKE_BAD ? CHIMERE_ERANGE : CHIMERE_EINTERNAL);
        size_t n = fake_answer(tok, 60, want, 40);
        for (int i = 0; i < 2; i++) {
            o = finish(i ? good2 : good);
            if (poison[k % 3] == FAKE_BROKEN && o.ev.reason == CHIMERE_REASON_ERROR)
                continue; // shared the step whose states are undefined
            assert_int_equal(o.n_tok, n);
            assert_memory_equal(o.tok, want, n * sizeof want[0]);
        }
        for (int i = 0; i < 4; i++) { // all slots, reused or not
            o = run(eng, &q);
            assert_int_equal(o.n_tok, n);
            assert_memory_equal(o.tok, want, n * sizeof want[0]);
        }
    }
    chimere_engine_close(&eng);
}

static void test_queue(void **state) {
    (void)state;
    chimere_engine_params p;
    chimere_engine_params_init(&p);
    p.model_path = "fake";
    p.n_ctx = 64;
    p.n_slots = 2;
    p.n_queue = 3;
    chimere_engine *eng = NULL;
    assert_int_equal(chimere_engine_open(&eng, &p, NULL), CHIMERE_OK);
    chimere_request_params q = ids(eng, three, 3);
    hold_in_step();
    chimere_request *r[6] = {0};
    chimere_error e;
    for (int i = 0; i < 5; i++)
        r[i] = submit(eng, &q);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chimere_request_submit(eng, &r[5], &q, &e), CHIMERE_EBUSY);
        assert_null(r[5]);
    }
    wait_in_step();
    chimere_metrics m;
    for (int i = 0; i < 10000; i++) {
        chimere_engine_get_metrics(eng, &m); // answers although the model hangs
        if (m.last_step_age_ms >= 20)
            break;
        usleep(1000);
    }
    assert_true(m.last_step_age_ms >= 20);
    assert_true(m.queue_length >= 3 && m.requests_refused == 3);
    chimere_request_cancel(r[4]);
    chimere_event ev;
    assert_int_equal(chimere_request_next(r[4], 20, &ev), 0); // nothing yet: the step still runs
    atomic_store(&fake.hold, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(finish(r[i]).ev.reason, i == 4 ? CHIMERE_REASON_CANCELLED : CHIMERE_REASON_STOP);
    r[5] = submit(eng, &q);
    finish(r[5]);
    wait_idle(eng);
    for (int i = 0; i < 10000 && m.last_step_age_ms; i++) {
        usleep(1000);
        chimere_engine_get_metrics(eng, &m);
    }
    assert_int_equal(m.last_step_age_ms, 0);
    chimere_engine_close(&eng);
}

static void test_timeout(void **state) {
    (void)state;
    fake.next = always_a;
    atomic_store(&fake.delay_us, 1000);
    chimere_engine *eng = open_engine(20000, 1, 16);
    chimere_request_params q = ids(eng, three, 3);
    q.timeout_ms = 60;
    chimere_request *first = submit(eng, &q), *second = submit(eng, &q);
    outcome o = finish(first);
    assert_int_equal(o.ev.reason, CHIMERE_REASON_ERROR);
    assert_int_equal(o.ev.error.code, CHIMERE_ELIMIT);
    assert_non_null(strstr(o.ev.error.msg, "60 ms"));
    assert_int_equal(finish(second).ev.error.code, CHIMERE_ELIMIT);
    chimere_engine_close(&eng);
}

// Closing the engine ends what runs and waits; the handles stay good.
static void test_close(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        chimere_engine *eng = open_engine(200, 2, 8);
        chimere_request_params q = ids(eng, three, 3);
        q.ignore_eos = true;
        chimere_request *r[8];
        for (int i = 0; i < 8; i++)
            r[i] = submit(eng, &q);
        usleep((useconds_t)round * 50);
        chimere_request_close(&r[round % 8]);
        chimere_engine_close(&eng);
        for (int i = 0; i < 8; i++)
            if (r[i]) {
                chimere_request_cancel(r[i]);
                outcome o = finish(r[i]);
                assert_true(o.ev.reason == CHIMERE_REASON_CANCELLED || o.ev.reason == CHIMERE_REASON_LENGTH);
            }
    }
}

static atomic_int n_ready;

static void ready(void *user) {
    atomic_fetch_add((atomic_int *)user, 1);
    usleep(50);
}

static void test_ready(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(200, 2, 8);
    chimere_request_params q = ids(eng, three, 3);
    q.ready = ready;
    q.ready_user = &n_ready;
    for (int i = 0; i < 50; i++) {
        chimere_request *r = submit(eng, &q);
        chimere_event ev = {.kind = CHIMERE_EVENT_START};
        while (i % 2 && ev.kind != CHIMERE_EVENT_DONE) { // read only what is there, when told
            int seen = atomic_load(&n_ready);
            while (chimere_request_next(r, 0, &ev) == 1 && ev.kind != CHIMERE_EVENT_DONE)
                ;
            for (int k = 0; k < 100000 && ev.kind != CHIMERE_EVENT_DONE && atomic_load(&n_ready) == seen; k++)
                usleep(20);
        }
        chimere_request_close(&r);
        int after = atomic_load(&n_ready);
        usleep(200);
        assert_int_equal(atomic_load(&n_ready), after); // never after close
    }
    assert_true(atomic_load(&n_ready) > 50);
    chimere_engine_close(&eng);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_open, reset),       cmocka_unit_test_setup(test_answer, reset),
        cmocka_unit_test_setup(test_events, reset),     cmocka_unit_test_setup(test_limits, reset),
        cmocka_unit_test_setup(test_bad_params, reset), cmocka_unit_test_setup(test_stop, reset),
        cmocka_unit_test_setup(test_hold_back, reset),  cmocka_unit_test_setup(test_characters, reset),
        cmocka_unit_test_setup(test_concurrent, reset), cmocka_unit_test_setup(test_seed, reset),
        cmocka_unit_test_setup(test_cancel, reset),     cmocka_unit_test_setup(test_random_cancels, reset),
        cmocka_unit_test_setup(test_slow_reader, reset), cmocka_unit_test_setup(test_failures, reset),
        cmocka_unit_test_setup(test_queue, reset),      cmocka_unit_test_setup(test_timeout, reset),
        cmocka_unit_test_setup(test_close, reset),      cmocka_unit_test_setup(test_ready, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
