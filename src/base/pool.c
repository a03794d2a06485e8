// Worker pool: persistent threads that spin for a moment, then sleep on a futex.
//
// run: the caller writes the job, then bumps `round`; workers wait for `round` to change, do the job and count `pending`
// down; the caller waits for zero. A sleeper announces itself before it asks the kernel to wait, and a waker looks for
// sleepers after it changed the word, both sequentially consistent, so no wake-up is lost.
//
// How long to spin: alone on the machine, the others arrive within microseconds, and sleeping costs more than waiting. When
// threads outnumber processors, the one waited for is often not running, and a spinning thread may well hold the processor it
// needs. So the pool watches its own waits: of those that are not over at once, when many outlast the long spin, it spins
// briefly for some time, then looks again.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

enum {
    BRIEF_SPIN_NS = 3000,       // a wait that ends within it says nothing
    SPIN_NS = 30000,            // longer than the gap between two jobs of a decode step, shorter than a time slice
    PROBE = 16,                 // longer waits to judge by
    PROBE_MISSES = 4,           // so many of them past SPIN_NS: crowded
    CROWDED_MIN_NS = 1000000,   // for how long to spin briefly then: at first, and after
    CROWDED_MAX_NS = 16000000,  // several such findings in a row
    PAUSES = 16                 // between two looks at the clock
};
#define CACHE_LINE 64

typedef struct wait_word {
    CH_ALIGNED(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} wait_word;

typedef struct pool_worker {
    ch_pool *pool;
    pthread_t thread;
    int index;
} pool_worker;

struct ch_pool {
    wait_word round;   // bumped for every job
    wait_word pending; // workers still at the job
    wait_word gate;    // bumped when a barrier opens
    CH_ALIGNED(CACHE_LINE) _Atomic uint32_t arrived; // at the barrier
    // How crowded the machine is. Relaxed: a lost update delays a finding.
    CH_ALIGNED(CACHE_LINE) _Atomic uint32_t probes;
    _Atomic uint32_t misses, crowded_ns;
    _Atomic uint64_t crowded_until;
    int n_workers, n_threads;
    bool quit; // published by round
    ch_pool_fn fn;
    void *arg;
    pool_worker *workers; // [n_workers], 0 unused
};

static void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void wake(wait_word *w) {
    if (atomic_load(&w->sleepers) > 0) syscall(SYS_futex, &w->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// One wait of a running job that lasted past the brief spin.
static void note_wait(ch_pool *p, bool missed, uint64_t now) {
    const memory_order relaxed = memory_order_relaxed;
    if (missed) atomic_fetch_add_explicit(&p->misses, 1, relaxed);
    if (atomic_fetch_add_explicit(&p->probes, 1, relaxed) + 1 < PROBE) return;
    uint32_t ns = 0, before = atomic_load_explicit(&p->crowded_ns, relaxed);
    if (atomic_load_explicit(&p->misses, relaxed) >= PROBE_MISSES)
        ns = !before ? CROWDED_MIN_NS : before < CROWDED_MAX_NS ? 2 * before : before;
    atomic_store_explicit(&p->misses, 0, relaxed);
    atomic_store_explicit(&p->probes, 0, relaxed);
    atomic_store_explicit(&p->crowded_ns, ns, relaxed);
    atomic_store_explicit(&p->crowded_until, now + ns, relaxed);
}

// Waits while *w is `old` and returns what it has become. in_job: for workers of a running job, not for the next job.
static uint32_t wait_while(ch_pool *p, wait_word *w, uint32_t old, bool in_job) {
    uint32_t now;
    uint64_t start = 0, waited = 0;
    bool crowded = false;
    for (unsigned i = 0;; i++) {
        now = atomic_load_explicit(&w->value, memory_order_acquire);
        if (now != old) break;
        cpu_pause();
        if (i % PAUSES != PAUSES - 1) continue;
        uint64_t t = ch_clock_ns();
        if (!start) {
            start = t;
            crowded = t < atomic_load_explicit(&p->crowded_until, memory_order_relaxed);
        }
        waited = t - start;
        if (waited > (crowded ? BRIEF_SPIN_NS : SPIN_NS)) break;
    }
    if (in_job && !crowded && waited > BRIEF_SPIN_NS) note_wait(p, now == old, start + waited);
    if (now != old) return now;
    atomic_fetch_add(&w->sleepers, 1);
    while ((now = atomic_load(&w->value)) == old)
        syscall(SYS_futex, &w->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&w->sleepers, 1);
    return now;
}

static void *worker_main(void *arg) {
    pool_worker *me = arg;
    ch_pool *p = me->pool;
    uint32_t seen = 0;
    for (;;) {
        seen = wait_while(p, &p->round, seen, false);
        if (p->quit) return NULL;
        p->fn(p->arg, me->index, p->n_workers);
        if (atomic_fetch_sub(&p->pending.value, 1) == 1) wake(&p->pending);
    }
}

int ch_pool_create(ch_pool **out, int n_workers, ch_error *e) {
    *out = NULL;
    if (n_workers < 1 || n_workers > 256)
        return ch_error_set(e, CH_ERANGE, "threads: expected 1 to 256, found %d", n_workers);
    ch_pool *p = ch_alloc_aligned(sizeof *p, CACHE_LINE);
    if (p) p->workers = ch_alloc_array((size_t)n_workers, sizeof *p->workers);
    if (!p || !p->workers) {
        ch_free(p);
        return ch_error_set(e, CH_ENOMEM, "no memory for a pool of %d threads", n_workers);
    }
    p->n_workers = n_workers;
    for (int i = 1; i < n_workers; i++) {
        p->workers[i] = (pool_worker){.pool = p, .index = i};
        int rc = pthread_create(&p->workers[i].thread, NULL, worker_main, &p->workers[i]);
        if (rc != 0) {
            ch_pool_free(&p);
            return ch_error_set(e, CH_EIO, "cannot start thread %d of %d: %s", i + 1, n_workers, strerror(rc));
        }
        p->n_threads++;
    }
    *out = p;
    return 0;
}

void ch_pool_free(ch_pool **out) {
    ch_pool *p = *out;
    if (!p) return;
    p->quit = true;
    atomic_fetch_add(&p->round.value, 1);
    wake(&p->round);
    for (int i = 1; i <= p->n_threads; i++) pthread_join(p->workers[i].thread, NULL);
    ch_free(p->workers);
    ch_free(p);
    *out = NULL;
}

int ch_pool_size(const ch_pool *p) { return p->n_workers; }

void ch_pool_run(ch_pool *p, ch_pool_fn fn, void *arg) {
    if (p->n_workers == 1) {
        fn(arg, 0, 1);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    atomic_store_explicit(&p->pending.value, (uint32_t)p->n_workers - 1, memory_order_relaxed);
    atomic_fetch_add(&p->round.value, 1);
    wake(&p->round);
    fn(arg, 0, p->n_workers);
    for (uint32_t left = atomic_load(&p->pending.value); left > 0;) left = wait_while(p, &p->pending, left, true);
}

void ch_pool_barrier(ch_pool *p) {
    if (p->n_workers == 1) return;
    uint32_t gate = atomic_load_explicit(&p->gate.value, memory_order_acquire);
    if (atomic_fetch_add(&p->arrived, 1) + 1 == (uint32_t)p->n_workers) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed); // published by the gate
        atomic_fetch_add(&p->gate.value, 1);
        wake(&p->gate);
    } else {
        wait_while(p, &p->gate, gate, true);
    }
}

void ch_pool_split(size_t n, size_t grain, int worker, int n_workers, size_t *begin, size_t *end) {
    if (grain == 0) grain = 1;
    size_t units = n / grain + (n % grain != 0), k = (size_t)n_workers, w = (size_t)worker;
    size_t each = units / k, extra = units % k; // the first `extra` workers take one unit more
    size_t first = w * each + (w < extra ? w : extra);
    size_t last = first + each + (w < extra);
    *begin = first >= units ? n : first * grain;
    *end = last >= units ? n : last * grain;
}
