// Prefix reuse across requests, and sessions, over the fake model: what is computed again, and that it never shows.
#include "unit/sched_help.h"

static int reset(void **state) {
    (void)state;
    fake_reset();
    return 0;
}

// Runs q and returns how many rows the model computed for it.
static long rows_of(chimere_engine *eng, const chimere_request_params *q, outcome *o) {
    long before = atomic_load(&fake.rows);
    *o = run(eng, q);
    return atomic_load(&fake.rows) - before;
}

static void expect_answer(const int32_t *tok, size_t n, const outcome *o, size_t max) {
    int32_t want[512];
    size_t k = fake_answer(tok, n, want, max);
    assert_int_equal(o->n_tok, k);
    assert_memory_equal(o->tok, want, k * sizeof want[0]);
}

// One turn in the manner of chat templates: opener, text, closer.
static size_t add_turn(int32_t *tok, size_t n, size_t n_text, uint64_t seed) {
    tok[n++] = FAKE_IM_START;
    random_ids(tok + n, n_text, seed);
    n += n_text;
    tok[n++] = FAKE_IM_END;
    return n;
}

// Second turns compute only what is new after the last opening of a turn, for short prompts too, on one slot or many, with
// other conversations in between.
static void test_second_turn(void **state) {
    (void)state;
    static const size_t first[] = {3, 20, 500, 3000};
    for (int32_t n_slots = 1; n_slots <= 3; n_slots += 2)
        for (size_t k = 0; k < 4; k++) {
            static int32_t tok[4000];
            chimere_engine *eng = open_engine(4000, n_slots, 64);
            size_t n = add_turn(tok, 0, 5, 1), head;
            n = add_turn(tok, n, first[k], 2);
            head = n;
            tok[n++] = FAKE_IM_START;
            tok[n++] = 'A';
            chimere_request_params q = ids(eng, tok, n);
            q.max_tokens = 30;
            outcome o;
            assert_true(rows_of(eng, &q, &o) >= (long)n);
            expect_answer(tok, n, &o, 30);
            assert_int_equal(o.ev.usage.cached_tokens, 0);
            int32_t other[50];
            random_ids(other, 50, 3);
            chimere_request_params p = ids(eng, other, 50);
            run(eng, &p);
            n = add_turn(tok, head, 12, 4); // the answer as the client sends it back: other tokens than were generated
            n = add_turn(tok, n, 30, 5);
            tok[n++] = FAKE_IM_START;
            q = ids(eng, tok, n);
            q.max_tokens = 30;
            long rows = rows_of(eng, &q, &o);
            assert_int_equal(o.ev.usage.cached_tokens, head);
            assert_in_range(rows, (long)(n - head), (long)(n - head) + 29);
            expect_answer(tok, n, &o, 30);
            // The same request again: all but the last few tokens are there.
            rows_of(eng, &q, &o);
            assert_true(o.ev.usage.cached_tokens >= (int32_t)n - 2);
            expect_answer(tok, n, &o, 30);
            chimere_engine_close(&eng);
        }
}

// Many prompts with one long beginning and different ends, without turns: from the third on the beginning is there.
static void test_family(void **state) {
    (void)state;
    static int32_t tok[2100];
    chimere_engine *eng = open_engine(2200, 2, 128);
    random_ids(tok, 2000, 1);
    for (int i = 0; i < 20; i++) {
        random_ids(tok + 2000, 20, 100 + (uint64_t)i);
        tok[2000] = i; // the ends differ from their first token on
        chimere_request_params q = ids(eng, tok, 2020);
        q.max_tokens = 10;
        outcome o;
        rows_of(eng, &q, &o);
        expect_answer(tok, 2020, &o, 10);
        if (i >= 2)
            assert_int_equal(o.ev.usage.cached_tokens, 2000);
    }
    chimere_engine_close(&eng);
}

// A prompt that continues the whole of an earlier exchange starts at its very end.
static void test_continue(void **state) {
    (void)state;
    int32_t tok[200];
    chimere_engine *eng = open_engine(200, 2, 32);
    random_ids(tok, 40, 1);
    chimere_request_params q = ids(eng, tok, 40);
    q.ignore_eos = true;
    q.max_tokens = 20;
    outcome o = run(eng, &q);
    memcpy(tok + 40, o.tok, 20 * sizeof tok[0]);
    random_ids(tok + 60, 10, 2);
    q = ids(eng, tok, 70);
    o = run(eng, &q);
    assert_int_equal(o.ev.usage.cached_tokens, 59); // the last sampled token was never fed
    expect_answer(tok, 70, &o, 200);
    chimere_engine_close(&eng);
}

// More conversations than slots, marks and pages: everything stays right, some of it is reused.
static void test_pressure(void **state) {
    (void)state;
    for (int plan = 0; plan < 2; plan++) {
        fake.no_slab = plan == 1;
        static int32_t tok[12][120];
        size_t n[12];
        chimere_engine_params p;
        chimere_engine_params_init(&p);
        p.model_path = "fake";
        p.n_ctx = 120;
        p.n_slots = 2;
        p.n_batch = 16;
        p.n_marks = 5;
        chimere_engine *eng = NULL;
        assert_int_equal(chimere_engine_open(&eng, &p, NULL), CHIMERE_OK);
        ch_rng rng;
        ch_rng_seed(&rng, 5);
        for (int i = 0; i < 12; i++) {
            n[i] = add_turn(tok[i], 0, 20, 1); // one system text for all
            n[i] = add_turn(tok[i], n[i], 5, 10 + (uint64_t)i);
        }
        for (int round = 0; round < 300; round++) {
            int i = (int)(ch_rng_u64(&rng) % 12);
            if (n[i] > 90)
                n[i] = 29; // begins anew behind the system text and its first turn
            size_t m = n[i];
            tok[i][m++] = FAKE_IM_START;
            chimere_request_params q = ids(eng, tok[i], m);
            q.max_tokens = 1 + (int64_t)(ch_rng_u64(&rng) % 20);
            chimere_request *r = submit(eng, &q), *r2 = round % 3 ? NULL : submit(eng, &q);
            if (round % 7 == 0)
                chimere_request_cancel(r);
            outcome o = finish(r);
            if (o.ev.reason != CHIMERE_REASON_CANCELLED)
                expect_answer(tok[i], m, &o, (size_t)q.max_tokens);
            if (r2) {
                o = finish(r2);
                expect_answer(tok[i], m, &o, (size_t)q.max_tokens);
            }
            n[i] = add_turn(tok[i], n[i], 6, ch_rng_u64(&rng));
        }
        chimere_metrics m;
        chimere_engine_get_metrics(eng, &m);
        assert_true(m.tokens_reused * 3 > m.tokens_prompt); // a third at least, with 12 conversations on 5 marks
        chimere_engine_close(&eng);
    }
}

// ---- sessions -----------------------------------------------------------------------------------------------------------

static void expect_scores(chimere_session *s, const int32_t *tok, size_t n) {
    float want[FAKE_N_VOCAB];
    fake_state st = {0, n};
    size_t held = 0;
    const int32_t *have = chimere_session_tokens(s, &held);
    assert_int_equal(held, n);
    assert_memory_equal(have, tok, n * sizeof *tok);
    if (n == 0) {
        assert_null(chimere_session_logits(s));
        return;
    }
    for (size_t i = 0; i < n; i++)
        st.hash = fake_mix(st.hash, tok[i]);
    fake_scores(&st, tok[n - 1], want);
    assert_non_null(chimere_session_logits(s));
    assert_memory_equal(chimere_session_logits(s), want, sizeof want);
}

static chimere_session *open_session(chimere_engine *eng) {
    chimere_session *s = NULL;
    chimere_error e = {0};
    if (chimere_session_open(eng, &s, &e) != CHIMERE_OK)
        fail_msg("session: %s", e.msg);
    return s;
}

static void test_session(void **state) {
    (void)state;
    for (int plan = 0; plan < 2; plan++) {
        fake.no_slab = plan == 1;
        int32_t tok[300], other[300];
        random_ids(tok, 300, 1);
        random_ids(other, 300, 2);
        memcpy(other, tok, 100 * sizeof tok[0]);
        chimere_engine *eng = open_engine(300, 2, 32);
        chimere_session *s = open_session(eng);
        chimere_error e;
        size_t reused = 9;
        assert_null(chimere_session_logits(s));
        assert_int_equal(chimere_session_append(s, tok, 0, NULL, &e), CHIMERE_OK);
        static float all[200][FAKE_N_VOCAB];
        assert_int_equal(chimere_session_append(s, tok, 150, all[0], &e), CHIMERE_OK);
        expect_scores(s, tok, 150);
        fake_state st = {0};
        for (size_t i = 0; i < 150; i++) {
            float want[FAKE_N_VOCAB];
            st.hash = fake_mix(st.hash, tok[i]);
            st.n = i + 1;
            fake_scores(&st, tok[i], want);
            assert_memory_equal(all[i], want, sizeof want);
        }
        assert_int_equal(chimere_session_append(s, tok + 150, 100, NULL, &e), CHIMERE_OK);
        expect_scores(s, tok, 250);
        static const size_t back[] = {250, 249, 151, 150, 149, 33, 1, 0};
        for (size_t k = 0; k < 8; k++) {
            assert_int_equal(chimere_session_rewind(s, back[k], &e), CHIMERE_OK);
            expect_scores(s, tok, back[k]);
        }
        assert_int_equal(chimere_session_rewind(s, 1, &e), CHIMERE_ERANGE);
        assert_int_equal(chimere_session_sync(s, tok, 250, &reused, &e), CHIMERE_OK);
        expect_scores(s, tok, 250);
        assert_int_equal(chimere_session_sync(s, tok, 250, &reused, &e), CHIMERE_OK);
        assert_int_equal(reused, 250);
        assert_int_equal(chimere_session_sync(s, other, 200, &reused, &e), CHIMERE_OK);
        assert_in_range(reused, 64, 100); // marks lie at the batches
        expect_scores(s, other, 200);
        // Limits: the context exactly, one more; ids out of range; nothing changes on failure.
        assert_int_equal(chimere_session_append(s, tok, 101, NULL, &e), CHIMERE_ELIMIT);
        expect_scores(s, other, 200);
        int32_t high = FAKE_N_VOCAB, bad[40];
        assert_int_equal(chimere_session_append(s, &high, 1, NULL, &e), CHIMERE_ERANGE);
        memcpy(bad, tok, sizeof bad);
        bad[39] = FAKE_BAD; // fails in the second batch
        assert_int_equal(chimere_session_append(s, bad, 40, NULL, &e), CHIMERE_ERANGE);
        expect_scores(s, other, 200);
        assert_int_equal(chimere_session_append(s, other + 200, 100, NULL, &e), CHIMERE_OK);
        expect_scores(s, other, 300);
        assert_int_equal(chimere_session_append(s, tok, 1, NULL, &e), CHIMERE_ELIMIT);
        // Two sessions and a request: the third slot does not exist.
        chimere_session *s2 = open_session(eng), *s3 = NULL;
        assert_int_equal(chimere_session_open(eng, &s3, &e), CHIMERE_EBUSY);
        assert_int_equal(chimere_session_sync(s2, tok, 120, NULL, &e), CHIMERE_OK);
        expect_scores(s2, tok, 120);
        expect_scores(s, other, 300);
        chimere_session_close(&s2);
        chimere_request_params q = ids(eng, tok, 60);
        outcome o = run(eng, &q);
        expect_answer(tok, 60, &o, 300);
        expect_scores(s, other, 300);
        chimere_session_close(&s);
        chimere_engine_close(&eng);
    }
}

static void test_session_sample(void **state) {
    (void)state;
    int32_t tok[20], want[100];
    random_ids(tok, 20, 3);
    chimere_engine *eng = open_engine(200, 1, 32);
    chimere_session *s = open_session(eng);
    chimere_sampling p;
    chimere_sampling_init(&p, eng);
    int32_t id;
    chimere_error e;
    assert_int_equal(chimere_session_sample(s, &p, &id, &e), CHIMERE_ESTATE);
    chimere_sampling_set(&p, "temperature", 0, NULL);
    assert_int_equal(chimere_session_append(s, tok, 20, NULL, &e), CHIMERE_OK);
    size_t n = fake_answer(tok, 20, want, 100);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(chimere_session_sample(s, &p, &id, &e), CHIMERE_OK);
        assert_int_equal(id, want[i]);
        assert_int_equal(chimere_session_append(s, &id, 1, NULL, &e), CHIMERE_OK);
    }
    // A seed gives the same draws as a request with it.
    chimere_session_close(&s);
    chimere_request_params q = ids(eng, tok, 20);
    chimere_sampling_set(&q.sampling, "temperature", 1.3, NULL);
    q.sampling.seed = 77;
    q.max_tokens = 50;
    q.ignore_eos = true;
    outcome o = run(eng, &q);
    s = open_session(eng);
    assert_int_equal(chimere_session_append(s, tok, 20, NULL, &e), CHIMERE_OK);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(chimere_session_sample(s, &q.sampling, &id, &e), CHIMERE_OK);
        assert_int_equal(id, o.tok[i]);
        assert_int_equal(chimere_session_append(s, &id, 1, NULL, &e), CHIMERE_OK);
    }
    chimere_session_close(&s);
    chimere_engine_close(&eng);
}

static void test_save(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/chimere_session_%ld", (long)getpid());
    int32_t tok[100];
    random_ids(tok, 100, 4);
    chimere_error e;
    chimere_engine *eng = open_engine(200, 1, 32);
    chimere_session *s = open_session(eng);
    assert_int_equal(chimere_session_append(s, tok, 77, NULL, &e), CHIMERE_OK);
    assert_int_equal(chimere_session_save(s, path, &e), CHIMERE_OK);
    chimere_session_close(&s);
    chimere_engine_close(&eng);
    eng = open_engine(200, 1, 32); // as after a restart
    s = open_session(eng);
    assert_int_equal(chimere_session_load(s, path, &e), CHIMERE_OK);
    long rows = atomic_load(&fake.rows);
    expect_scores(s, tok, 77); // the scores too, without computing
    assert_int_equal(atomic_load(&fake.rows), rows);
    assert_int_equal(chimere_session_append(s, tok + 77, 23, NULL, &e), CHIMERE_OK);
    expect_scores(s, tok, 100);
    // Damage anywhere, cuts and foreign files are errors; the session is usable afterwards.
    ch_buf b = {0};
    assert_int_equal(ch_read_file(&b, path, NULL), CH_OK);
    for (size_t at = 0; at <= b.len; at += at < 30 ? 1 : 37) {
        FILE *f = fopen(path, "wb");
        size_t n = at % 2 ? at : b.len; // cut, or one bit changed
        if (n == b.len && at < b.len)
            b.data[at] ^= 1;
        fwrite(b.data, 1, n, f);
        fclose(f);
        if (n == b.len && at < b.len)
            b.data[at] ^= 1;
        int rc = chimere_session_load(s, path, &e);
        if (at == b.len || (at >= 12 && at < 16 && n == b.len)) { // whole, or only the unused field changed
            assert_int_equal(rc, CHIMERE_OK);
            continue;
        }
        if (rc == CHIMERE_OK)
            fail_msg("damage at %zu (of %zu) was not seen", at, b.len);
        assert_true(strlen(e.msg) > 10);
    }
    assert_int_equal(chimere_session_load(s, "/nonexistent", &e), CHIMERE_EIO);
    assert_int_equal(chimere_session_sync(s, tok, 50, NULL, &e), CHIMERE_OK);
    expect_scores(s, tok, 50);
    unlink(path);
    ch_buf_free(&b);
    chimere_session_close(&s);
    chimere_engine_close(&eng);
}

// A session's long prompt goes batch by batch: requests beside it go on.
static void test_beside(void **state) {
    (void)state;
    int32_t tok[180];
    random_ids(tok, 180, 6);
    chimere_engine *eng = open_engine(200, 3, 8);
    chimere_session *s = open_session(eng);
    chimere_error e;
    for (int i = 0; i < 20; i++) {
        chimere_request_params q = ids(eng, tok, 10 + (size_t)i);
        chimere_request *r = submit(eng, &q), *r2 = submit(eng, &q);
        assert_int_equal(chimere_session_sync(s, tok, i % 2 ? 180 : 3, NULL, &e), CHIMERE_OK);
        expect_scores(s, tok, i % 2 ? 180 : 3);
        outcome o = finish(r);
        expect_answer(tok, 10 + (size_t)i, &o, 200);
        o = finish(r2);
        expect_answer(tok, 10 + (size_t)i, &o, 200);
    }
    chimere_session_close(&s);
    chimere_engine_close(&eng);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_second_turn, reset), cmocka_unit_test_setup(test_family, reset),
        cmocka_unit_test_setup(test_continue, reset),    cmocka_unit_test_setup(test_pressure, reset),
        cmocka_unit_test_setup(test_session, reset),     cmocka_unit_test_setup(test_session_sample, reset),
        cmocka_unit_test_setup(test_save, reset),        cmocka_unit_test_setup(test_beside, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
