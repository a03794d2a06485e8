// Verifying drafts without touching the state: tentative rows give the logits of a plain run, change nothing until they are
// settled, and what is kept of them equals a plain run bit for bit, on every architecture and tier. Drafts are wrong on purpose
// at every position. Models are small and random. time limit: 300 s (every family on every tier)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "synth/synth.h"

enum { N_TOK = 90, N_VOCAB = 320, MAX_DRAFT = 16, START = 61 }; // drafts cross the page border at 64

typedef struct fixture {
    const char *arch, *tier;
    char path[128];
    ch_model *m;
    ch_seq_pool *pool;
    int32_t token[3][N_TOK];
    float *full[3];                 // [N_TOK][N_VOCAB] of each token list, in one step
    float *out;                     // [N_TOK][N_VOCAB]
    uint8_t *slab[MAX_DRAFT + 1];   // of list 0 at START + i
} fixture;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const char *const tiers[] = {"avx2"}; // state is handled alike on the others, and tests/checkkern runs their kernels
#else
static const char *const tiers[] = {"ref", "avx2", "avx512", "amx"};
#endif
enum { N_TIER = sizeof tiers / sizeof *tiers };

static ch_seq_pool *open_pool(const ch_model *m, const ch_seq_limits *lim) {
    ch_error e = {0};
    ch_seq_pool *p = NULL;
    if (ch_seq_pool_create(&p, ch_model_plan(m), lim, &e)) fail_msg("%s", e.msg);
    return p;
}

static ch_seq *open_seq(ch_seq_pool *p) {
    ch_error e = {0};
    ch_seq *s = NULL;
    if (ch_seq_create(&s, p, &e)) fail_msg("%s", e.msg);
    return s;
}

// One step of n tokens; logits of every row to out.
static int step(const fixture *f, ch_seq *s, const int32_t *token, int n, bool tentative, float *out, ch_error *e) {
    int32_t rows[N_TOK];
    for (int i = 0; i < n; i++) rows[i] = i;
    ch_segment seg = {s, n, tentative};
    return ch_model_forward(f->m, &(ch_batch){token, n, &seg, 1, rows, n}, out, e);
}

static void run(const fixture *f, ch_seq *s, const int32_t *token, int n, bool tentative, float *out) {
    ch_error e = {0};
    if (step(f, s, token, n, tentative, out, &e)) fail_msg("%s %s: %s", f->arch, f->tier, e.msg);
}

static void commit(const fixture *f, ch_seq *s, int n) {
    ch_error e = {0};
    if (ch_model_commit(f->m, &(ch_segment){s, n, false}, 1, &e)) fail_msg("%s %s: %s", f->arch, f->tier, e.msg);
}

static void assert_rows(const fixture *f, const char *what, const float *got, const float *want, int n) {
    for (size_t i = 0; i < (size_t)n * N_VOCAB; i++)
        if (memcmp(got + i, want + i, sizeof *got) || !isfinite(got[i]))
            fail_msg("%s %s: %s: row %zu token %zu: %.9g, expected %.9g", f->arch, f->tier, what, i / N_VOCAB, i % N_VOCAB, (double)got[i],
                     (double)want[i]);
}

static const float *row(const float *logits, int i) { return logits + (size_t)i * N_VOCAB; }

static void assert_slab(const fixture *f, const char *what, const ch_seq *s, int at) {
    size_t n = ch_model_plan(f->m)->slab_bytes;
    if (ch_seq_len(s) != (size_t)at) fail_msg("%s %s: %s: length %zu, expected %d", f->arch, f->tier, what, ch_seq_len(s), at);
    if (n && memcmp(ch_seq_slab(s), f->slab[at - START], n)) fail_msg("%s %s: %s: state at %d differs", f->arch, f->tier, what, at);
}

// The smallest shape of the architecture that the generator takes.
static void shape_of(const char *arch, ch_synth_shape *shape) {
    ch_error e = {0};
    if (ch_synth_preset(shape, arch, "tiny", &e)) fail_msg("%s", e.msg);
    shape->n_vocab = N_VOCAB;
    ch_synth_shape small = *shape;
    small.n_embd = 96;
    if (small.n_ff) small.n_ff = 160;
    if (small.n_ff_exp) small.n_ff_exp = 32;
    if (small.n_ff_shexp) small.n_ff_shexp = 64;
    if (!ch_synth_check(&small, &e)) *shape = small;
}

static void setup(fixture *f, const char *arch, const char *tier) {
    *f = (fixture){.arch = arch, .tier = tier};
    ch_error e = {0};
    ch_synth_shape shape;
    char name[32]; // "@bf16": states kept in bf16
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arch, "@"), arch);
    shape_of(name, &shape);
    snprintf(f->path, sizeof f->path, "/tmp/chimere_deferred_%d_%s.gguf", (int)getpid(), name);
    if (ch_synth_write(f->path, &shape, CH_TYPE_Q8_0, 7, NULL, NULL, &e)) fail_msg("%s", e.msg);
    if (ch_model_open(&f->m, f->path, &(ch_model_params){.tier = tier, .n_threads = 2, .n_batch = N_TOK, .n_seq = 4,
                                                       .state_type = strchr(arch, '@') ? "bf16" : "f32"}, &e))
        fail_msg("%s", e.msg);
    f->pool = open_pool(f->m, &(ch_seq_limits){.n_seq = 5, .n_mark = 2, .n_page = 16, .max_tokens = 512, .n_draft = MAX_DRAFT});
    f->out = calloc((size_t)N_TOK * N_VOCAB, sizeof *f->out);
    ch_rng r;
    ch_rng_seed(&r, 13);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N_TOK; i++) f->token[k][i] = (int32_t)(ch_rng_u64(&r) % 256);
        f->full[k] = calloc((size_t)N_TOK * N_VOCAB, sizeof *f->full[k]);
        ch_seq *s = open_seq(f->pool);
        run(f, s, f->token[k], N_TOK, false, f->full[k]);
        ch_seq_free(&s);
    }
    ch_seq *s = open_seq(f->pool);
    run(f, s, f->token[0], START, false, f->out);
    for (int i = 0; i <= MAX_DRAFT; i++) {
        size_t n = ch_model_plan(f->m)->slab_bytes;
        f->slab[i] = malloc(n + 1);
        if (n) memcpy(f->slab[i], ch_seq_slab(s), n);
        run(f, s, f->token[0] + START + i, 1, false, f->out);
    }
    ch_seq_free(&s);
}

static void teardown(fixture *f) {
    for (int k = 0; k < 3; k++) free(f->full[k]);
    for (int i = 0; i <= MAX_DRAFT; i++) free(f->slab[i]);
    free(f->out);
    ch_seq_pool_free(&f->pool);
    ch_model_close(&f->m);
    unlink(f->path);
}

// The m tokens from `at` on, with the one at place `wrong` (and those behind it) replaced.
static void draft(const fixture *f, int at, int m, int wrong, int32_t *out) {
    for (int i = 0; i < m; i++) out[i] = i < wrong ? f->token[0][at + i] : (f->token[0][at + i] + 1 + i) % 256;
}

// All m, all numbers of kept rows; behind them the sequence goes on with what is true.
static void check_accept(const fixture *f, int m_step) {
    int32_t d[MAX_DRAFT];
    ch_error e = {0};
    ch_seq *s = open_seq(f->pool);
    ch_seq_mark *mark = NULL;
    run(f, s, f->token[0], START, false, f->out);
    assert_int_equal(ch_seq_mark_create(&mark, s, &e), 0);
    for (int m = 1; m <= MAX_DRAFT; m += m < 4 ? 1 : m_step)
        for (int keep = 0; keep <= m; keep++) {
            draft(f, START, m, keep, d);
            run(f, s, d, m, true, f->out);
            assert_int_equal(ch_seq_pending(s), m);
            assert_slab(f, "tentative", s, START);
            assert_rows(f, "tentative", f->out, row(f->full[0], START), keep);
            commit(f, s, keep);
            assert_int_equal(ch_seq_pending(s), 0);
            assert_slab(f, "commit", s, START + keep);
            run(f, s, f->token[0] + START + keep, 3, false, f->out);
            assert_rows(f, "after commit", f->out, row(f->full[0], START + keep), 3);
            assert_int_equal(ch_seq_rollback(s, mark, &e), 0);
        }
    ch_seq_mark_free(&mark), ch_seq_free(&s);
}

// A whole text in verification steps of 5 rows, the first one always true, wrong at every other place in turn.
static void check_loop(const fixture *f) {
    ch_seq *s = open_seq(f->pool);
    for (int at = 0, wrong = 1, n; at < N_TOK; at += n, wrong = wrong % 5 + 1) {
        int m = N_TOK - at < 5 ? N_TOK - at : 5;
        int32_t d[5];
        n = wrong < m ? wrong : m;
        draft(f, at, m, n, d);
        run(f, s, d, m, true, f->out);
        assert_rows(f, "verify loop", f->out, row(f->full[0], at), n);
        commit(f, s, n);
    }
    assert_int_equal(ch_seq_len(s), N_TOK);
    ch_seq_free(&s);
}

// Two tentative sequences, a prompt and a decode in one step; both settled in one call.
static void check_mixed(const fixture *f) {
    enum { CUT = 20, A = 7, B = 33, C = 4, KEEP_A = 3, KEEP_C = 4 };
    int32_t token[A + B + C], rows[A + B + C];
    ch_error e = {0};
    ch_seq *a = open_seq(f->pool), *b = open_seq(f->pool), *c = open_seq(f->pool);
    run(f, a, f->token[0], CUT, false, f->out), run(f, c, f->token[2], CUT, false, f->out);
    draft(f, CUT, A, KEEP_A, token);
    memcpy(token + A, f->token[1], B * sizeof *token);
    memcpy(token + A + B, f->token[2] + CUT, C * sizeof *token);
    for (int i = 0; i < A + B + C; i++) rows[i] = i;
    ch_segment seg[3] = {{a, A, true}, {b, B, false}, {c, C, true}}, keep[2] = {{c, KEEP_C, false}, {a, KEEP_A, false}};
    if (ch_model_forward(f->m, &(ch_batch){token, A + B + C, seg, 3, rows, A + B + C}, f->out, &e)) fail_msg("%s", e.msg);
    assert_rows(f, "mixed, drafts", f->out, row(f->full[0], CUT), KEEP_A);
    assert_rows(f, "mixed, prompt", row(f->out, A), f->full[1], B);
    assert_rows(f, "mixed, drafts of another", row(f->out, A + B), row(f->full[2], CUT), C);
    run(f, b, f->token[1] + B, 10, false, f->out); // a plain step while others are pending
    assert_rows(f, "beside pending ones", f->out, row(f->full[1], B), 10);
    if (ch_model_commit(f->m, keep, 2, &e)) fail_msg("%s", e.msg);
    run(f, c, f->token[2] + CUT + KEEP_C, 20, false, f->out);
    assert_rows(f, "after a shared commit", f->out, row(f->full[2], CUT + KEEP_C), 20);
    run(f, a, f->token[0] + CUT + KEEP_A, 20, false, f->out);
    assert_rows(f, "after a shared commit", f->out, row(f->full[0], CUT + KEEP_A), 20);
    ch_seq_free(&a), ch_seq_free(&b), ch_seq_free(&c);
}

// Pending rows in a page that a fork shares: neither sees the other's.
static void check_fork(const fixture *f) {
    int32_t d[8];
    ch_error e = {0};
    ch_seq *a = open_seq(f->pool), *b = NULL;
    run(f, a, f->token[0], 30, false, f->out);
    assert_int_equal(ch_seq_fork(&b, a, &e), 0);
    draft(f, 30, 8, 2, d);
    run(f, a, d, 8, true, f->out);
    run(f, b, f->token[0] + 30, 20, false, f->out);
    assert_rows(f, "the fork of a pending sequence", f->out, row(f->full[0], 30), 20);
    commit(f, a, 2);
    run(f, a, f->token[0] + 32, 20, false, f->out);
    assert_rows(f, "a pending sequence with a fork", f->out, row(f->full[0], 32), 20);
    ch_seq_free(&a), ch_seq_free(&b);
}

// While rows are pending everything that would need a settled state says so and changes nothing.
static void check_misuse(const fixture *f) {
    ch_error e = {0};
    ch_buf buf = {0};
    ch_seq *s = open_seq(f->pool), *t = open_seq(f->pool), *copy = NULL;
    ch_seq_mark *mark = NULL, *before = NULL;
    ch_segment none = {s, 0}, two = {s, 2}, four = {s, 4}, minus = {s, -1}, same[2] = {{s, 1}, {s, 1}}, other = {t, 0};
    run(f, s, f->token[0], START, false, f->out);
    assert_int_equal(ch_model_commit(f->m, &none, 1, &e), CH_ESTATE); // nothing is pending
    assert_int_equal(ch_seq_mark_create(&before, s, &e), 0);
    assert_int_equal(step(f, s, f->token[0] + START, MAX_DRAFT + 1, true, f->out, &e), CH_ELIMIT);
    run(f, s, f->token[0] + START, 3, true, f->out);
    assert_int_equal(step(f, s, f->token[0] + START, 1, false, f->out, &e), CH_ESTATE);
    assert_int_equal(step(f, s, f->token[0] + START, 1, true, f->out, &e), CH_ESTATE);
    assert_int_equal(ch_seq_fork(&copy, s, &e), CH_ESTATE);
    assert_int_equal(ch_seq_mark_create(&mark, s, &e), CH_ESTATE);
    assert_int_equal(ch_seq_snapshot(s, f->token[0], START, &buf, &e), CH_ESTATE);
    assert_int_equal(ch_seq_truncate(s, START, &e), CH_ESTATE);
    assert_true(!copy && !mark && !buf.len);
    assert_int_equal(ch_model_commit(f->m, &four, 1, &e), CH_ERANGE);
    assert_int_equal(ch_model_commit(f->m, &minus, 1, &e), CH_ERANGE);
    assert_int_equal(ch_model_commit(f->m, same, 2, &e), CH_ERANGE);
    assert_int_equal(ch_model_commit(f->m, &two, 0, &e), CH_ERANGE);
    assert_int_equal(ch_model_commit(f->m, &other, 1, &e), CH_ESTATE);
    assert_int_equal(ch_seq_pending(s), 3);
    if (ch_model_commit(f->m, &two, 1, &e)) fail_msg("%s", e.msg);
    assert_slab(f, "after refused calls", s, START + 2);
    assert_int_equal(ch_model_commit(f->m, &none, 1, &e), CH_ESTATE);
    run(f, s, f->token[1], 5, true, f->out);
    ch_seq_settle(s, 0);
    assert_slab(f, "dropped", s, START + 2);
    run(f, s, f->token[1], 5, true, f->out);
    assert_int_equal(ch_seq_rollback(s, before, &e), 0); // drops them too
    assert_slab(f, "rolled back", s, START);
    run(f, s, f->token[1], 5, true, f->out);
    ch_seq_reset(s);
    run(f, s, f->token[0], START, false, f->out);
    assert_slab(f, "reset", s, START);
    ch_seq_mark_free(&before), ch_seq_free(&s), ch_seq_free(&t);
}

// Context and pages full; pools with room for no or few drafts.
static void check_limits(const fixture *f) {
    ch_error e = {0};
    ch_seq_pool *pool = NULL;
    assert_int_equal(ch_seq_pool_create(&pool, ch_model_plan(f->m), &(ch_seq_limits){2, 0, 2, 70, CH_SEQ_MAX_DRAFT + 1}, &e), CH_ERANGE);
    for (int n_draft = 0; n_draft <= 2; n_draft++) {
        pool = open_pool(f->m, &(ch_seq_limits){.n_seq = 2, .n_page = 2, .max_tokens = START + 3, .n_draft = (size_t)n_draft});
        ch_seq *s = open_seq(pool);
        run(f, s, f->token[0], START, false, f->out);
        for (int n = 1; n <= 3; n++) {
            int rc = step(f, s, f->token[0] + START, n, true, f->out, &e);
            assert_int_equal(rc, n <= n_draft ? CH_OK : CH_ELIMIT);
            if (!rc) assert_rows(f, "small pool", f->out, row(f->full[0], START), n), commit(f, s, 0);
        }
        run(f, s, f->token[0] + START, 2, false, f->out); // one place is left
        if (n_draft == 2) assert_int_equal(step(f, s, f->token[0] + START + 2, 2, true, f->out, &e), CH_ELIMIT);
        if (n_draft) {
            run(f, s, f->token[0] + START + 2, 1, true, f->out);
            assert_rows(f, "last place", f->out, row(f->full[0], START + 2), 1);
            commit(f, s, 1);
            assert_int_equal(ch_seq_len(s), START + 3);
            assert_int_equal(step(f, s, f->token[0], 1, true, f->out, &e), CH_ELIMIT);
        }
        ch_seq_free(&s), ch_seq_pool_free(&pool);
    }
    ch_seq_limits with = {1, 0, 1, 70, 8}, without = {1, 0, 1, 70, 0};
    const ch_seq_plan *plan = ch_model_plan(f->m);
    size_t more = ch_seq_pool_bytes(plan, &with) - ch_seq_pool_bytes(plan, &without);
    assert_in_range(more, 8 * plan->journal_bytes, 8 * plan->journal_bytes + 63);
    assert_int_equal(plan->journal_bytes > 0, plan->slab_bytes > 0);
}

static void test_arch(void **state) {
    const char *arch = *state;
    for (size_t t = 0; t < N_TIER; t++) {
        fixture f;
        setup(&f, arch, tiers[t]);
        if (!strcmp(ch_model_get_info(f.m)->tier, tiers[t])) { // else this processor lacks it
            check_accept(&f, t ? 1 : 6); // the oracle is slow
            check_loop(&f);
            check_mixed(&f);
            check_fork(&f);
            check_misuse(&f);
            check_limits(&f);
        }
        teardown(&f);
    }
}

int main(void) {
    struct CMUnitTest tests[64];
    size_t n = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    static const char *const more[] = {"qwen3next", "mamba", "nemotron_h_moe", "falcon-h1", "lfm2", "kimi-linear@bf16", "plamo2@bf16"}; // each kind once
#else
    static const char *const more[] = {"qwen35@bf16", "kimi-linear@bf16", "mamba@bf16", "mamba2@bf16", "plamo2@bf16"};
    for (const char *arch; n < 48 && (arch = ch_synth_arch_at(n)); n++)
        tests[n] = (struct CMUnitTest){.name = arch, .test_func = test_arch, .initial_state = (void *)(uintptr_t)arch};
#endif
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        tests[n++] = (struct CMUnitTest){.name = more[i], .test_func = test_arch, .initial_state = (void *)(uintptr_t)more[i]};
    return _cmocka_run_group_tests("deferred commit", tests, n, NULL, NULL);
}
