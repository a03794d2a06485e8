// Ranks without MPI: trainers in threads of this process, which share the rows of a batch, against one that has them all. What they
// agree on; errors of one.
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/trainer.h"

enum { N_ROW = 4, N_CTX = 40, N_VOCAB = 50, STEPS = 3 };

// ---- ranks as threads --------------------------------------------------------------------------------------------------------------
typedef struct world {
    int n;
    pthread_barrier_t meet;
    void *x[N_ROW];
    double *sum; // of the last f32 sum: of the parts' absolute values
    size_t n_sum;
} world;

typedef struct member {
    world *w;
    int rank;
} member;

// Everybody shows its array, the first one adds up, everybody copies.
static void reduce(void *user, int op, void *x, size_t n) {
    const member *m = user;
    world *w = m->w;
    w->x[m->rank] = x;
    pthread_barrier_wait(&w->meet);
    if (m->rank == 0 && op == CH_RANKS_SUM_F32) {
        free(w->sum);
        w->sum = calloc(n, sizeof *w->sum), w->n_sum = n;
        float *to = x;
        for (size_t i = 0; i < n; i++) w->sum[i] = fabs((double)to[i]);
        for (int r = 1; r < w->n; r++)
            for (size_t i = 0; i < n; i++) to[i] += ((const float *)w->x[r])[i], w->sum[i] += fabs((double)((const float *)w->x[r])[i]);
    } else if (m->rank == 0) {
        double *to = x;
        for (int r = 1; r < w->n; r++)
            for (size_t i = 0; i < n; i++) {
                const double y = ((const double *)w->x[r])[i];
                to[i] = op == CH_RANKS_SUM_F64 ? to[i] + y : fmax(to[i], y);
            }
    }
    pthread_barrier_wait(&w->meet);
    if (m->rank) memcpy(x, w->x[0], n * (op == CH_RANKS_SUM_F32 ? sizeof(float) : sizeof(double)));
    pthread_barrier_wait(&w->meet);
}

// ---- batches -----------------------------------------------------------------------------------------------------------------------
typedef struct source {
    int rank, n_row;
    uint64_t index;
    int fail_at; // batch that cannot be read; -1: none
    int32_t token[N_ROW * (N_CTX + 2)], doc[N_ROW * (N_CTX + 2)];
    float weight[N_ROW * N_CTX];
} source;

static int next_batch(void *user, ch_train_batch *b, ch_error *e) {
    source *s = user;
    if ((int)s->index == s->fail_at) return ch_error_set(e, CH_EIO, "batch %d is gone", s->fail_at);
    for (int i = 0; i < s->n_row; i++) {
        ch_rng g;
        const int row = s->rank * s->n_row + i;
        ch_rng_seed(&g, s->index * N_ROW + (uint64_t)row);
        int32_t last = 0;
        for (int t = 0; t < N_CTX + 2; t++) {
            last = (last + (int32_t)(ch_rng_u64(&g) % 4)) % N_VOCAB;
            s->token[i * (N_CTX + 2) + t] = last, s->doc[i * (N_CTX + 2) + t] = t >= 9 + row;
            if (t < N_CTX) s->weight[i * N_CTX + t] = t % (3 + row) ? 1 : 0.25f; // rows weigh differently
        }
    }
    s->index++;
    *b = (ch_train_batch){(size_t)s->n_row, N_CTX, s->token, s->weight, s->doc};
    return 0;
}

static void read_config(ch_train_config *c) {
    char text[1024];
    ch_error e;
    snprintf(text, sizeof text,
             "{\"model\": {\"arch\": \"qwen35moe\", \"n_layer\": 2, \"n_embd\": 32, \"n_head\": 2, \"n_head_kv\": 1, \"d_head\": 16, \"n_rot\": 8,"
             "\"attn_interval\": 2, \"ssm_heads_k\": 1, \"ssm_heads_v\": 2, \"ssm_d_state\": 16, \"n_expert\": 4, \"n_expert_used\": 2, \"n_ff_exp\": 16,"
             "\"n_ff_shexp\": 16, \"n_mtp\": 1}, \"data\": {\"tokenizer\": \"x\", \"sources\": [{\"path\": \"x\"}], \"n_row\": %d, \"n_ctx\": %d},"
             "\"train\": {\"steps\": 20, \"rate\": 1e-2, \"warmup\": 1, \"eps\": 1e-4, \"average\": 0.9}}", N_ROW, N_CTX);
    if (ch_train_config_parse(c, text, strlen(text), "test", &e)) fail_msg("%s", e.msg);
}

// ---- a run -------------------------------------------------------------------------------------------------------------------------
typedef struct part {
    member m;
    ch_train_config cfg;
    source src;
    ch_trainer *t;
    int rc, bad_step; // bad_step: before it a weight of this rank is no number; -1: never
    ch_error e;
    ch_train_step step[STEPS];
    int n_step;
    double eval;
} part;

static void *run_part(void *user) {
    part *p = user;
    const int n = p->m.w->n;
    p->src.rank = p->m.rank, p->src.n_row = N_ROW / n;
    const ch_train_feed f = {.user = &p->src, .next = next_batch, .ranks = {.rank = p->m.rank, .n = n, .user = &p->m, .reduce = reduce}};
    p->rc = ch_trainer_open(&p->t, &p->cfg, N_VOCAB, &f, 1, &p->e);
    for (p->n_step = 0; p->rc == 0 && p->n_step < STEPS; p->n_step++) {
        if (p->n_step == p->bad_step) p->t->w[p->t->model.sub[1].norm.off] = NAN;
        p->rc = ch_trainer_step(p->t, &p->step[p->n_step], &p->e);
        if (p->rc) break;
    }
    double mtp;
    if (p->rc == 0) p->rc = ch_trainer_eval(p->t, &f, 2, &p->eval, &mtp, &p->e);
    return NULL;
}

// change: of one rank, before the run. The parts are the caller's to close.
static void run_world(world *w, part *p, int n, void (*change)(part *p)) {
    pthread_t thread[N_ROW];
    memset(w, 0, sizeof *w);
    w->n = n;
    assert_int_equal(pthread_barrier_init(&w->meet, NULL, (unsigned)n), 0);
    for (int i = 0; i < n; i++) {
        memset(&p[i], 0, sizeof p[i]);
        p[i].m = (member){w, i}, p[i].bad_step = p[i].src.fail_at = -1;
        read_config(&p[i].cfg);
        if (change) change(&p[i]);
        assert_int_equal(pthread_create(&thread[i], NULL, run_part, &p[i]), 0);
    }
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&w->meet);
}

static void close_world(world *w, part *p) {
    for (int i = 0; i < w->n; i++) ch_trainer_close(&p[i].t), ch_train_config_free(&p[i].cfg);
    free(w->sum);
}

static part one[N_ROW], many[N_ROW];

// One step: the same per-row gradients, added in another order, so that each addition may round another way. Afterwards weights
// differ by roundings too, and losses follow within the bound that other threads have.
static void test_equal(void **state) {
    const int n = (int)(intptr_t)*state;
    world w1, wn;
    run_world(&w1, one, 1, NULL), run_world(&wn, many, n, NULL);
    for (int r = 0; r < n; r++) {
        if (many[r].rc) fail_msg("%s", many[r].e.msg);
        const size_t bytes = many[0].t->model.n_param * sizeof(float);
        assert_memory_equal(many[r].t->w, many[0].t->w, bytes);
        assert_memory_equal(many[r].t->mean, many[0].t->mean, bytes);
        assert_memory_equal(many[r].step, many[0].step, sizeof many[0].step);
        assert_true(many[r].eval == many[0].eval);
        assert_int_equal(many[r].t->n_tokens, STEPS * N_ROW * N_CTX);
    }
    for (int i = 0; i < STEPS; i++) {
        const ch_train_step *a = &one[0].step[i], *b = &many[0].step[i];
        const double most = i ? 1e-5 : 4 * DBL_EPSILON;
        if (!(fabs(a->loss - b->loss) <= most * a->loss && fabs(a->mtp_loss - b->mtp_loss) <= most * a->mtp_loss && fabs(a->balance - b->balance) <= most * a->balance))
            fail_msg("step %d: losses %.9g %.9g, balance %.9g; alone %.9g %.9g, %.9g", i + 1, b->loss, b->mtp_loss, b->balance, a->loss, a->mtp_loss, a->balance);
        assert_true(fabs(a->norm - b->norm) <= 1e-4 * a->norm);
        assert_true(a->rate == b->rate);
    }
    assert_true(fabs(one[0].eval - many[0].eval) <= 1e-5 * one[0].eval);
    assert_true(one[0].eval < one[0].step[0].loss);
    close_world(&w1, one), close_world(&wn, many);
}

static void only_first_step(part *p) { p->src.fail_at = 1; }

static void test_gradient(void **state) {
    const int n = (int)(intptr_t)*state;
    world w1, wn;
    run_world(&w1, one, 1, only_first_step), run_world(&wn, many, n, only_first_step);
    const float *a = one[0].t->worker[0].grad, *b = many[0].t->worker[0].grad;
    assert_int_equal(wn.n_sum, one[0].t->n_trained);
    double size = 0, off = 0, parts = 0;
    for (size_t i = 0; i < wn.n_sum; i++) {
        size += (double)a[i] * (double)a[i], off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        parts += wn.sum[i] * wn.sum[i];
    }
    // A value is a sum over the tokens of all rows, in one of two orders: each addition rounds by eps / 2 of what the parts may reach.
    const double most = FLT_EPSILON * sqrt(N_ROW * N_CTX) * sqrt(parts);
    if (!(sqrt(off) <= most)) fail_msg("gradients of length %.4g differ by %.3g, allowed %.3g", sqrt(size), sqrt(off), most);
    close_world(&w1, one), close_world(&wn, many);
}

// ---- errors of one -------------------------------------------------------------------------------------------------------------------
static void third_loses_batch(part *p) {
    if (p->m.rank == 2) p->src.fail_at = 1;
}
static void second_gets_nan(part *p) {
    if (p->m.rank == 1) p->bad_step = 2;
}

static void test_errors(void **state) {
    (void)state;
    world w;
    run_world(&w, many, 4, third_loses_batch);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(many[r].rc, CH_EIO);
        assert_int_equal(many[r].n_step, 1);
        assert_string_equal(many[r].e.msg, r == 2 ? "batch 1 is gone" : "");
    }
    close_world(&w, many);
    run_world(&w, many, 2, second_gets_nan);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(many[r].rc, CH_ESTATE);
        assert_int_equal(many[r].n_step, 2);
        assert_string_equal(many[r].e.msg, "step 3: layer 0, experts: a value that is no number");
    }
    close_world(&w, many);
}

typedef struct vote {
    member m;
    int rc, agreed, twice;
    bool said, any, same, equal;
    uint64_t x;
    ch_error e;
} vote;

static void *run_vote(void *user) {
    vote *v = user;
    const ch_train_ranks r = {.rank = v->m.rank, .n = v->m.w->n, .user = &v->m, .reduce = reduce};
    v->agreed = ch_ranks_agree(&r, v->rc, &v->e);
    v->twice = ch_ranks_agree(&r, v->agreed, &v->e); // the message stays where it is
    v->any = ch_ranks_any(&r, v->said);
    v->same = ch_ranks_same(&r, v->x);
    v->equal = ch_ranks_same(&r, UINT64_MAX);
    return NULL;
}

// rc, message of three ranks; the code that all get, and who keeps its message.
static void check_votes(const int rc[3], const char *const msg[3], int code, int speaker, const bool said[3], const uint64_t x[3]) {
    world w = {.n = 3};
    vote v[3];
    pthread_t thread[3];
    pthread_barrier_init(&w.meet, NULL, 3);
    for (int i = 0; i < 3; i++) {
        v[i] = (vote){.m = {&w, i}, .rc = rc[i], .said = said[i], .x = x[i]};
        snprintf(v[i].e.msg, sizeof v[i].e.msg, "%s", msg[i]);
        pthread_create(&thread[i], NULL, run_vote, &v[i]);
    }
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&w.meet);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(v[i].agreed, code);
        assert_int_equal(v[i].twice, code);
        assert_string_equal(v[i].e.msg, i == speaker ? msg[i] : "");
        assert_int_equal(v[i].any, said[0] || said[1] || said[2]);
        assert_int_equal(v[i].same, x[0] == x[1] && x[1] == x[2]);
        assert_true(v[i].equal);
    }
}

static void test_agree(void **state) {
    (void)state;
    const char *const none[3] = {"", "", ""}, *const all[3] = {"a", "b", "c"}, *const last[3] = {"", "", "c"};
    const bool no[3] = {false}, yes[3] = {false, false, true};
    const uint64_t same[3] = {1, 1, 1}, high[3] = {1, 1, 1 + (UINT64_C(1) << 63)}, low[3] = {7, 8, 7};
    check_votes((int[3]){0, 0, 0}, none, 0, -1, no, same);
    check_votes((int[3]){-1, -2, -3}, all, -1, 0, yes, high);
    check_votes((int[3]){-10, -10, -4}, last, -4, 2, no, low);
    check_votes((int[3]){0, -9, 0}, (const char *const[3]){"", "b", ""}, -9, 1, yes, same);
    ch_error e = {.msg = "own"};
    assert_int_equal(ch_ranks_agree(&(ch_train_ranks){0}, CH_EIO, &e), CH_EIO); // alone
    assert_string_equal(e.msg, "own");
    assert_true(ch_ranks_same(&(ch_train_ranks){0}, 5) && !ch_ranks_any(&(ch_train_ranks){0}, false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_equal, (void *)2),    cmocka_unit_test_prestate(test_equal, (void *)4),
        cmocka_unit_test_prestate(test_gradient, (void *)2), cmocka_unit_test_prestate(test_gradient, (void *)4),
        cmocka_unit_test(test_errors),                       cmocka_unit_test(test_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
