// What the tests of the scheduler share: opening an engine on the fake model, running one request to its end.
#ifndef CH_TEST_SCHED_HELP_H
#define CH_TEST_SCHED_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <chimere.h>

#include "unit/fake_model.h"

static CH_UNUSED void fake_reset(void)
{
    fake.next = NULL;
    fake.no_slab = false;
    fake.read_gbps = 0;
    fake.step_bytes = 0;
    fake.chat_template = fake.file = NULL;
    atomic_store(&fake.hold, 0);
    atomic_store(&fake.delay_us, 0);
    atomic_store(&fake.rows, 0);
    atomic_store(&fake.steps, 0);
    atomic_store(&fake.max_segments, 0);
    atomic_store(&fake.n_seen, 0);
}

static CH_UNUSED chimere_engine *open_engine(int32_t n_ctx, int32_t n_slots, int32_t n_batch)
{
    chimere_engine_params p;
    chimere_engine_params_init(&p);
    p.model_path = "fake";
    p.n_ctx = n_ctx;
    p.n_slots = n_slots;
    p.n_batch = n_batch;
    chimere_engine *eng = NULL;
    chimere_error e = {0};
    if (chimere_engine_open(&eng, &p, &e) != CHIMERE_OK)
        fail_msg("open: %s", e.msg);
    return eng;
}

// A greedy request with these ids.
static CH_UNUSED chimere_request_params ids(const chimere_engine *eng, const int32_t *tok, size_t n)
{
    chimere_request_params q;
    chimere_request_params_init(&q, eng);
    q.tokens = tok;
    q.n_tokens = n;
    assert_int_equal(chimere_sampling_set(&q.sampling, "temperature", 0, NULL), CHIMERE_OK);
    return q;
}

static CH_UNUSED chimere_request *submit(chimere_engine *eng, const chimere_request_params *q)
{
    chimere_request *r = NULL;
    chimere_error e = {0};
    if (chimere_request_submit(eng, &r, q, &e) != CHIMERE_OK)
        fail_msg("submit: %s", e.msg);
    return r;
}

#define WAIT_MS 60000 // far above what anything here takes: only a hang reaches it

// Copies of what a finished request gave.
typedef struct outcome {
    char reasoning[2048], answer[2048];
    int32_t tok[512];
    size_t n_tok;
    chimere_event ev; // pointers not to be followed
} outcome;

static CH_UNUSED outcome finish(chimere_request *r)
{
    static outcome o; // too large for a stack of nested calls
    memset(&o, 0, sizeof o);
    int rc = chimere_request_wait(r, WAIT_MS, &o.ev);
    if (rc != 1)
        fail_msg("request did not end: %d", rc);
    assert_int_equal(o.ev.kind, CHIMERE_EVENT_DONE);
    assert_true(o.ev.n_reasoning < sizeof o.reasoning && o.ev.n_answer < sizeof o.answer && o.ev.n_tokens <= 512);
    memcpy(o.reasoning, o.ev.reasoning, o.ev.n_reasoning);
    memcpy(o.answer, o.ev.answer, o.ev.n_answer);
    for (size_t i = 0; i < o.ev.n_tokens; i++)
        o.tok[i] = o.ev.tokens[i].id;
    o.n_tok = o.ev.n_tokens;
    assert_true(o.ev.usage.completion_tokens >= (int32_t)o.ev.n_tokens); // some may have been read before
    assert_int_equal(chimere_request_next(r, 0, &(chimere_event){0}), CHIMERE_ESTATE);
    chimere_request_close(&r);
    assert_null(r);
    return o;
}

static CH_UNUSED outcome run(chimere_engine *eng, const chimere_request_params *q)
{
    return finish(submit(eng, q));
}

static CH_UNUSED void wait_idle(chimere_engine *eng)
{
    chimere_metrics m;
    for (int i = 0; i < 100000; i++) {
        chimere_engine_get_metrics(eng, &m);
        if (m.slots_busy == 0 && m.queue_length == 0)
            return;
        usleep(100);
    }
    fail_msg("engine stays busy: %d slots, %d queued", m.slots_busy, m.queue_length);
}

static CH_UNUSED void random_ids(int32_t *tok, size_t n, uint64_t seed)
{
    ch_rng r;
    ch_rng_seed(&r, seed);
    for (size_t i = 0; i < n; i++)
        tok[i] = (int32_t)(ch_rng_u64(&r) % 256);
}

#endif
