// The two threads of the engine. The prep thread turns requests into tokens; the driver thread owns the model: it runs
// jobs of sessions, ends what was cancelled, admits requests to slots and steps.
#include <limits.h>
#include <time.h>

#include "sched/engine.h"

// ---- queues -------------------------------------------------------------------------------------------------------------

void ch_sched_push_queue(ch_queue *q, chimere_request *r) {
    r->next = NULL;
    if (q->tail)
        q->tail->next = r;
    else
        q->head = r;
    q->tail = r;
    q->n++;
}

chimere_request *ch_sched_pop_queue(ch_queue *q) {
    chimere_request *r = q->head;
    if (r) {
        q->head = r->next;
        q->tail = q->head ? q->tail : NULL;
        q->n--;
    }
    return r;
}

void ch_sched_wake(chimere_engine *eng) {
    pthread_mutex_lock(&eng->lock);
    eng->wake = true;
    pthread_cond_signal(&eng->driver_cond);
    pthread_mutex_unlock(&eng->lock);
}

void ch_sched_run_job(chimere_engine *eng, void (*run)(void *arg), void *arg) {
    ch_job job = {run, arg, false, NULL};
    pthread_mutex_lock(&eng->lock);
    ch_job **at = &eng->jobs;
    while (*at)
        at = &(*at)->next;
    *at = &job;
    eng->wake = true;
    pthread_cond_signal(&eng->driver_cond);
    while (!job.done)
        pthread_cond_wait(&eng->job_cond, &eng->lock);
    pthread_mutex_unlock(&eng->lock);
}

// ---- ends of requests that do not run -----------------------------------------------------------------------------------

// Whether r is to end now without being run further, and as what.
static bool ends_early(const chimere_request *r, uint64_t now, chimere_reason *reason, ch_error *why) {
    if (atomic_load(&r->cancel)) {
        *reason = CHIMERE_REASON_CANCELLED;
        ch_error_set(why, CH_ECANCELLED, "cancelled by the caller");
        return true;
    }
    if (ch_sched_expired(r, now)) {
        *reason = CHIMERE_REASON_ERROR;
        ch_error_set(why, CH_ELIMIT, "the request's time limit of %lld ms has passed", (long long)r->p.timeout_ms);
        return true;
    }
    return false;
}

void *ch_sched_prep_main(void *engine) {
    chimere_engine *eng = engine;
    pthread_mutex_lock(&eng->lock);
    for (;;) {
        while (!eng->quit && !eng->prep_q.head)
            pthread_cond_wait(&eng->prep_cond, &eng->lock);
        if (eng->quit)
            break;
        chimere_request *r = ch_sched_pop_queue(&eng->prep_q);
        pthread_mutex_unlock(&eng->lock);
        chimere_reason reason = CHIMERE_REASON_NONE;
        ch_error why = {0};
        if (!ends_early(r, ch_clock_ns(), &reason, &why) && ch_sched_build_prompt(eng, r, &why) != CH_OK)
            reason = CHIMERE_REASON_ERROR;
        if (reason != CHIMERE_REASON_NONE)
            ch_sched_finish_request(r, reason, &why);
        pthread_mutex_lock(&eng->lock);
        if (reason == CHIMERE_REASON_NONE) {
            ch_sched_push_queue(&eng->ready_q, r);
            eng->wake = true;
            pthread_cond_signal(&eng->driver_cond);
        }
    }
    pthread_mutex_unlock(&eng->lock);
    return NULL;
}

// Takes one request that is to end out of the queue; NULL: none left.
static chimere_request *take_ended(ch_queue *q, uint64_t now, chimere_reason *reason, ch_error *why) {
    chimere_request *before = NULL;
    for (chimere_request *r = q->head; r; before = r, r = r->next) {
        if (!ends_early(r, now, reason, why))
            continue;
        if (before)
            before->next = r->next;
        else
            q->head = r->next;
        if (q->tail == r)
            q->tail = before;
        q->n--;
        return r;
    }
    return NULL;
}

static void sweep(chimere_engine *eng) {
    uint64_t now = ch_clock_ns();
    chimere_reason reason = CHIMERE_REASON_NONE;
    ch_error why = {0};
    for (int32_t i = 0; i < eng->info.n_slots; i++)
        if (eng->slot[i].req && ends_early(eng->slot[i].req, now, &reason, &why))
            ch_sched_release_slot(eng, &eng->slot[i], reason, &why);
    ch_queue *both[] = {&eng->ready_q, &eng->prep_q};
    for (int k = 0; k < 2; k++)
        for (;;) {
            pthread_mutex_lock(&eng->lock);
            chimere_request *r = take_ended(both[k], now, &reason, &why);
            pthread_mutex_unlock(&eng->lock);
            if (!r)
                break;
            ch_sched_finish_request(r, reason, &why);
        }
}

// ---- admission ----------------------------------------------------------------------------------------------------------

static void start(chimere_engine *eng, ch_slot *s, chimere_request *r) {
    size_t n = r->prompt.n, cached = ch_sched_restart_slot(eng, s, r->prompt.id, n, n - 1);
    ch_sched_plan_marks(eng, s, r->prompt.id, n, cached);
    s->req = r;
    s->phase = CH_SLOT_PREFILL;
    atomic_fetch_add(&eng->count.slots_busy, 1);
    atomic_fetch_add(&eng->count.tokens_prompt, n);
    atomic_fetch_add(&eng->count.tokens_reused, cached);
    ch_sched_start_request(r, (int32_t)cached);
}

// First come, first served.
static void admit(chimere_engine *eng) {
    for (;;) {
        pthread_mutex_lock(&eng->lock);
        chimere_request *r = eng->ready_q.head; // only this thread takes from the queue
        pthread_mutex_unlock(&eng->lock);
        ch_slot *s = r ? ch_sched_choose_slot(eng, r->prompt.id, r->prompt.n) : NULL;
        if (!s)
            return;
        pthread_mutex_lock(&eng->lock);
        ch_sched_pop_queue(&eng->ready_q);
        pthread_mutex_unlock(&eng->lock);
        start(eng, s, r);
    }
}

// ---- driver -------------------------------------------------------------------------------------------------------------

static void run_jobs(chimere_engine *eng) {
    for (;;) {
        pthread_mutex_lock(&eng->lock);
        ch_job *job = eng->jobs;
        if (job)
            eng->jobs = job->next;
        pthread_mutex_unlock(&eng->lock);
        if (!job)
            return;
        job->run(job->arg);
        pthread_mutex_lock(&eng->lock);
        job->done = true; // its owner may return and drop it as soon as the lock is free
        pthread_cond_broadcast(&eng->job_cond);
        pthread_mutex_unlock(&eng->lock);
    }
}

// Sleeps until woken; while requests live it looks round now and then, for those whose time runs out.
static void wait_for_work(chimere_engine *eng) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    if (eng->n_live)
        pthread_cond_timedwait(&eng->driver_cond, &eng->lock, &until);
    else
        pthread_cond_wait(&eng->driver_cond, &eng->lock);
}

void *ch_sched_driver_main(void *engine) {
    chimere_engine *eng = engine;
    bool busy = false;
    for (;;) {
        pthread_mutex_lock(&eng->lock);
        if (!busy && !eng->wake && !eng->quit) {
            atomic_store(&eng->count.last_step_ns, 0);
            wait_for_work(eng);
        }
        bool quit = eng->quit;
        eng->wake = false;
        pthread_mutex_unlock(&eng->lock);
        if (quit)
            return NULL;
        uint64_t idle = 0; // a stall is measured from when there was something to do
        atomic_compare_exchange_strong(&eng->count.last_step_ns, &idle, ch_clock_ns());
        run_jobs(eng);
        sweep(eng);
        admit(eng);
        busy = ch_sched_step(eng);
    }
}
