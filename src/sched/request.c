// Requests: submit, read, cancel, close on the caller's side; start, deliver, finish on the engine's.
//
// Events wait in one bounded delta per request. The driver appends to pend, the reader swaps it with cur, so text and
// tokens are handed over without copying and neither side waits for the other. A reader too far behind pauses its own slot.
#include <limits.h>
#include <string.h>
#include <time.h>

#include "sched/engine.h"

#define MS 1000000ull

static void free_request(chimere_request *r) {
    ch_sched_close_output(&r->out);
    ch_tokens_free(&r->prompt);
    ch_arena_free(&r->arena);
    ch_sched_free_delta(&r->pend);
    ch_sched_free_delta(&r->cur);
    ch_sched_free_delta(&r->all);
    pthread_cond_destroy(&r->cond);
    pthread_mutex_destroy(&r->lock);
    ch_free(r);
}

bool ch_sched_expired(const chimere_request *r, uint64_t now) {
    return r->t_deadline && now >= r->t_deadline;
}

// ---- engine's side ------------------------------------------------------------------------------------------------------

// Called and left with the lock held. The callback itself runs without it.
static void tell_reader(chimere_request *r) {
    pthread_cond_broadcast(&r->cond);
    if (!r->p.ready || r->closing)
        return;
    r->in_ready++;
    pthread_mutex_unlock(&r->lock);
    r->p.ready(r->p.ready_user);
    pthread_mutex_lock(&r->lock);
    r->in_ready--;
    pthread_cond_broadcast(&r->cond);
}

void ch_sched_start_request(chimere_request *r, int32_t cached) {
    r->t_slot = ch_clock_ns();
    pthread_mutex_lock(&r->lock);
    r->start = true;
    r->usage.prompt_tokens = (int32_t)r->prompt.n;
    r->usage.cached_tokens = r->prompt_done = cached;
    r->timings.queue_ms = (double)(r->t_slot - r->t_submit) / (double)MS;
    tell_reader(r);
    pthread_mutex_unlock(&r->lock);
}

void ch_sched_note_progress(chimere_request *r, int32_t done) {
    if (!r->p.progress)
        return;
    pthread_mutex_lock(&r->lock);
    r->progress = true;
    r->prompt_done = done;
    tell_reader(r);
    pthread_mutex_unlock(&r->lock);
}

int ch_sched_deliver_token(chimere_request *r, const chimere_token *t, bool show) {
    uint64_t now = ch_clock_ns();
    chimere_token mine = *t;
    pthread_mutex_lock(&r->lock);
    if (!r->t_first) {
        r->t_first = now;
        r->timings.prompt_ms = (double)(now - r->t_slot) / (double)MS;
    }
    r->timings.answer_ms = (double)(now - r->t_first) / (double)MS;
    bool ok = !show || ch_sched_push_output(&r->out, t->id, &r->pend);
    mine.reasoning = r->out.in_reasoning;
    ok = ok && ch_sched_push_token(&r->pend, &mine);
    r->usage.completion_tokens++;
    r->usage.reasoning_tokens += mine.reasoning;
    if (r->pend.n_token >= CH_DELTA_TOKENS || r->pend.answer.len + r->pend.reasoning.len >= CH_DELTA_BYTES)
        atomic_store(&r->paused, true);
    tell_reader(r);
    pthread_mutex_unlock(&r->lock);
    return ok ? CH_OK : CH_ENOMEM;
}

void ch_sched_finish_request(chimere_request *r, chimere_reason reason, const ch_error *error) {
    chimere_engine *eng = r->engine;
    ch_counters *c = &eng->count;
    atomic_fetch_add(reason == CHIMERE_REASON_STOP        ? &c->stopped
                     : reason == CHIMERE_REASON_LENGTH    ? &c->length
                     : reason == CHIMERE_REASON_CANCELLED ? &c->cancelled
                                                          : &c->failed, 1);
    pthread_mutex_lock(&eng->lock); // the place is free before DONE is seen, so that a reader may submit at once
    eng->n_live--;
    pthread_mutex_unlock(&eng->lock);
    pthread_mutex_lock(&r->lock);
    if (r->out.vocab && !ch_sched_finish_output(&r->out, &r->pend) && reason != CHIMERE_REASON_ERROR) {
        reason = CHIMERE_REASON_ERROR;
        ch_error_set(&r->error, CH_ENOMEM, "no memory for the end of the answer");
    } else if (error)
        r->error = *error;
    r->reason = reason;
    r->done = true;
    tell_reader(r);
    r->engine_owned = false;
    r->engine = NULL;
    bool gone = !r->user_owned;
    pthread_mutex_unlock(&r->lock);
    if (gone)
        free_request(r);
}

// ---- submit -------------------------------------------------------------------------------------------------------------

void chimere_request_params_init(chimere_request_params *q, const chimere_engine *engine) {
    *q = (chimere_request_params){.enable_thinking = -1, .max_tokens = -1, .n_logprobs = -1};
    chimere_sampling_init(&q->sampling, engine);
}

static int check_params(const chimere_engine *eng, const chimere_request_params *q, ch_error *e) {
    int kinds = (q->messages_json != NULL) + (q->prompt != NULL) + (q->tokens != NULL);
    if (kinds != 1)
        return ch_error_set(e, CH_ERANGE, "prompt: expected one of messages, text and tokens, found %d of them", kinds);
    if (q->max_tokens < 1 && q->max_tokens != -1)
        return ch_error_set(e, CH_ERANGE, "max_tokens: expected at least 1 (or -1: what the context leaves), found %lld",
                            (long long)q->max_tokens);
    if (q->n_logprobs < -1 || q->n_logprobs > CHIMERE_LOGPROBS_MAX)
        return ch_error_set(e, CH_ERANGE, "logprobs: expected -1 to %d, found %d", CHIMERE_LOGPROBS_MAX, q->n_logprobs);
    if (q->enable_thinking < -1 || q->enable_thinking > 1)
        return ch_error_set(e, CH_ERANGE, "enable_thinking: expected -1, 0 or 1, found %d", q->enable_thinking);
    if (q->timeout_ms < 0)
        return ch_error_set(e, CH_ERANGE, "timeout_ms: expected 0 or more, found %lld", (long long)q->timeout_ms);
    for (size_t i = 0; i < CH_SAMPLE_N_PARAM; i++) {
        int rc = ch_sample_check_param(i, q->sampling.value[i], e);
        if (rc)
            return rc;
    }
    if (q->tokens && (q->n_tokens < 1 || q->n_tokens >= (size_t)eng->info.n_ctx))
        return ch_error_set(e, q->n_tokens ? CH_ELIMIT : CH_ERANGE,
                            "prompt: expected 1 to %d tokens (the context holds %d), found %zu", (int)eng->info.n_ctx - 1,
                            (int)eng->info.n_ctx, q->n_tokens);
    for (size_t i = 0; q->tokens && i < q->n_tokens; i++)
        if (q->tokens[i] < 0 || q->tokens[i] >= eng->info.n_vocab)
            return ch_error_set(e, CH_ERANGE, "prompt: token %zu: expected an id from 0 to %d, found %d", i,
                                (int)eng->info.n_vocab - 1, (int)q->tokens[i]);
    if (q->messages_json && eng->chat_error.code) {
        if (e)
            *e = eng->chat_error;
        return eng->chat_error.code;
    }
    return CH_OK;
}

static void copy_text(ch_arena *a, const char **text, size_t n) {
    if (*text)
        *text = ch_arena_strndup(a, *text, n);
}

static int copy_params(chimere_request *r, ch_error *e) {
    chimere_request_params *p = &r->p;
    bool messages = p->messages_json, prompt = p->prompt, tools = p->tools_json, kwargs = p->template_kwargs_json;
    r->arena = ch_arena_create(0);
    if (!r->arena)
        return ch_error_set(e, CH_ENOMEM, "no memory for a request");
    copy_text(r->arena, &p->messages_json, messages ? strlen(p->messages_json) : 0);
    copy_text(r->arena, &p->prompt, p->n_prompt);
    copy_text(r->arena, &p->tools_json, tools ? strlen(p->tools_json) : 0);
    copy_text(r->arena, &p->template_kwargs_json, kwargs ? strlen(p->template_kwargs_json) : 0);
    bool ok = (!messages || p->messages_json) && (!prompt || p->prompt) && (!tools || p->tools_json) &&
              (!kwargs || p->template_kwargs_json);
    for (size_t i = 0; ok && p->tokens && i < p->n_tokens; i++)
        ok = ch_tokens_push(&r->prompt, p->tokens[i]);
    p->tokens = NULL;
    if (!ok)
        return ch_error_set(e, CH_ENOMEM, "no memory for the text of a request");
    int rc = ch_sched_open_stop(&r->out.stop, p->stop, p->n_stop, e);
    p->stop = NULL;
    return rc;
}

// Queues r if there is room. The number of requests alive is bounded, wherever they are.
static int enqueue(chimere_engine *eng, chimere_request *r, ch_error *e) {
    int rc = CH_OK;
    int32_t limit = eng->info.n_slots + eng->info.n_queue;
    pthread_mutex_lock(&eng->lock);
    if (eng->quit)
        rc = ch_error_set(e, CH_EBUSY, "the engine is closing");
    else if (eng->n_live >= limit)
        rc = ch_error_set(e, CH_EBUSY, "the queue is full: %d requests running or waiting", (int)limit);
    else {
        eng->n_live++;
        r->serial = ++eng->serial;
        ch_sched_push_queue(&eng->prep_q, r);
        pthread_cond_signal(&eng->prep_cond);
    }
    pthread_mutex_unlock(&eng->lock);
    return rc;
}

int chimere_request_submit(chimere_engine *eng, chimere_request **request, const chimere_request_params *q,
                           chimere_error *e) {
    ch_error why = {0};
    *request = NULL;
    int rc = check_params(eng, q, &why);
    chimere_request *r = NULL;
    if (!rc && !(r = ch_alloc(sizeof *r)))
        rc = ch_error_set(&why, CH_ENOMEM, "no memory for a request");
    if (rc) {
        atomic_fetch_add(&eng->count.refused, 1);
        return ch_sched_give_error(e, &why, rc);
    }
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->lock, NULL);
    r->engine = eng;
    r->user_owned = r->engine_owned = true;
    r->p = *q;
    r->out.stop.found = -1;
    r->t_submit = ch_clock_ns();
    if (q->timeout_ms)
        r->t_deadline = (uint64_t)q->timeout_ms < UINT64_MAX / MS / 4 ? r->t_submit + (uint64_t)q->timeout_ms * MS : 0;
    memcpy(r->sampling.v, q->sampling.value, sizeof r->sampling.v);
    r->seed = q->sampling.seed;
    if (r->seed < 0) {
        struct timespec t = {0};
        clock_gettime(CLOCK_REALTIME, &t);
        uint64_t mix[4] = {(uint64_t)t.tv_sec, (uint64_t)t.tv_nsec, r->t_submit, (uint64_t)(uintptr_t)r};
        r->seed = (int64_t)(ch_hash64(mix, sizeof mix, 0) & 0x1fffffffffffffull); // exact in a JSON number
    }
    ch_rng_seed(&r->rng, (uint64_t)r->seed);
    rc = copy_params(r, &why);
    if (!rc)
        rc = enqueue(eng, r, &why);
    if (rc) {
        free_request(r);
        atomic_fetch_add(&eng->count.refused, 1);
        return ch_sched_give_error(e, &why, rc);
    }
    atomic_fetch_add(&eng->count.requests, 1);
    *request = r;
    return CHIMERE_OK;
}

// ---- reader's side ------------------------------------------------------------------------------------------------------

static void fill_event(chimere_request *r, chimere_event *ev, chimere_event_kind kind) {
    *ev = (chimere_event){.kind = kind, .reasoning = "", .answer = "", .prompt_done = r->prompt_done, .usage = r->usage,
                          .timings = r->timings, .reason = CHIMERE_REASON_NONE, .stop_index = -1, .seed = r->seed};
}

static void point_at(chimere_event *ev, ch_delta *d) {
    const chimere_logprob *top = d->top;
    for (size_t i = 0; i < d->n_token; i++) {
        d->token[i].top = top;
        top += d->token[i].n_top;
    }
    ev->reasoning = d->reasoning.len ? d->reasoning.data : "";
    ev->n_reasoning = d->reasoning.len;
    ev->answer = d->answer.len ? d->answer.data : "";
    ev->n_answer = d->answer.len;
    ev->tokens = d->token;
    ev->n_tokens = d->n_token;
}

// With the lock held: the next event if there is one. *resume: the driver had paused this request.
static bool take_event(chimere_request *r, chimere_event *ev, bool *resume) {
    *resume = false;
    if (r->start) {
        r->start = false;
        fill_event(r, ev, CHIMERE_EVENT_START);
    } else if (r->progress) {
        r->progress = false;
        fill_event(r, ev, CHIMERE_EVENT_PROGRESS);
    } else if (r->pend.n_token || r->pend.answer.len || r->pend.reasoning.len) {
        ch_delta d = r->cur;
        r->cur = r->pend;
        r->pend = d;
        ch_sched_reset_delta(&r->pend);
        fill_event(r, ev, CHIMERE_EVENT_DELTA);
        point_at(ev, &r->cur);
        *resume = atomic_exchange(&r->paused, false);
    } else if (r->done && !r->done_given) {
        r->done_given = true;
        fill_event(r, ev, CHIMERE_EVENT_DONE);
        ev->reason = r->reason;
        ev->stop_index = r->reason == CHIMERE_REASON_STOP ? r->out.stop.found : -1;
        if (r->reason == CHIMERE_REASON_ERROR)
            ch_sched_give_error(&ev->error, &r->error, r->error.code);
    } else
        return false;
    return true;
}

int chimere_request_next(chimere_request *r, int64_t timeout_ms, chimere_event *ev) {
    struct timespec until = {0};
    bool resume = false, got;
    int rc = CHIMERE_OK;
    if (timeout_ms > 0) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t ms = timeout_ms < 1000000000000 ? timeout_ms : 1000000000000, ns = until.tv_nsec + ms % 1000 * 1000000;
        until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
        until.tv_nsec = (long)(ns % 1000000000);
    }
    pthread_mutex_lock(&r->lock);
    while (!(got = take_event(r, ev, &resume))) {
        if (r->done_given) {
            rc = CHIMERE_ESTATE;
            break;
        }
        if (timeout_ms == 0)
            break;
        int w = timeout_ms < 0 ? pthread_cond_wait(&r->cond, &r->lock)
                               : pthread_cond_timedwait(&r->cond, &r->lock, &until);
        if (w != 0) { // time is up: one last look
            got = take_event(r, ev, &resume);
            break;
        }
    }
    if (resume && r->engine_owned)
        ch_sched_wake(r->engine);
    pthread_mutex_unlock(&r->lock);
    return rc ? rc : got;
}

int chimere_request_wait(chimere_request *r, int64_t timeout_ms, chimere_event *ev) {
    uint64_t end = timeout_ms > 0 ? ch_clock_ns() / MS + (uint64_t)timeout_ms : 0;
    for (;;) {
        int64_t left = timeout_ms;
        if (timeout_ms > 0) {
            uint64_t now = ch_clock_ns() / MS;
            left = now < end ? (int64_t)(end - now) : 0;
        }
        int rc = chimere_request_next(r, left, ev);
        if (rc != 1)
            return rc;
        if (ev->kind == CHIMERE_EVENT_DELTA && !ch_sched_append_delta(&r->all, &r->cur))
            return CHIMERE_ENOMEM;
        if (ev->kind == CHIMERE_EVENT_DONE) {
            point_at(ev, &r->all);
            return 1;
        }
    }
}

void chimere_request_cancel(chimere_request *r) {
    atomic_store(&r->cancel, true);
    pthread_mutex_lock(&r->lock);
    if (r->engine_owned)
        ch_sched_wake(r->engine);
    pthread_mutex_unlock(&r->lock);
}

void chimere_request_close(chimere_request **request) {
    chimere_request *r = *request;
    if (!r)
        return;
    *request = NULL;
    atomic_store(&r->cancel, true);
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    while (r->in_ready)
        pthread_cond_wait(&r->cond, &r->lock);
    r->user_owned = false; // only now: the engine frees what neither side owns
    bool gone = !r->engine_owned;
    if (!gone)
        ch_sched_wake(r->engine);
    pthread_mutex_unlock(&r->lock);
    if (gone)
        free_request(r);
}
