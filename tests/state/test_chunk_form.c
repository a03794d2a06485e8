// Prompts in the chunk form (ch_model_params.chunk_form): within rounding of the sequential form however they are cut, and the same
// bits where cuts fall on whole chunks: steps of 64 and 128, batches, forks, marks and snapshots. Tentative rows never go in chunks,
// so what is committed equals a plain run. Models are small, random and F32, so that nothing but the form differs. time limit: 300 s
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "synth/synth.h"

enum { N_TOK = 150, N_VOCAB = 320, CHUNK = 64 };

typedef struct fixture {
    const char *arch, *tier;
    char path[128];
    ch_model *m; // chunk form
    ch_seq_pool *pool;
    int32_t token[2][N_TOK];
    float *full[2], *sequential, *out; // [N_TOK][N_VOCAB]: chunk form in one step; sequential form of list 0
    double most;                       // that two forms may differ by
} fixture;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Each form once; state is handled alike on the other tiers, and tests/checkkern runs their kernels.
static const char *const archs[] = {"qwen35", "kimi-linear", "mamba2@bf16"}, *const tiers[] = {"avx2"};
#else
static const char *const archs[] = {"qwen35", "qwen3next", "kimi-linear", "mamba2", "nemotron_h", "plamo2", "falcon-h1", "qwen35@bf16", "mamba2@bf16"};
static const char *const tiers[] = {"ref", "avx2", "avx512", "amx"};
#endif
enum { N_ARCH = sizeof archs / sizeof *archs, N_TIER = sizeof tiers / sizeof *tiers };

static ch_model *open_model(const fixture *f, const char *tier, bool chunk) {
    ch_error e = {0};
    ch_model *m = NULL;
    if (ch_model_open(&m, f->path, &(ch_model_params){.tier = tier, .n_threads = 2, .n_batch = 2 * N_TOK, .n_seq = 2, .chunk_form = chunk,
                                                      .state_type = strchr(f->arch, '@') ? "bf16" : "f32"}, &e))
        fail_msg("%s", e.msg);
    return m;
}

static ch_seq_pool *open_pool(const ch_model *m) {
    ch_error e = {0};
    ch_seq_pool *p = NULL;
    if (ch_seq_pool_create(&p, ch_model_plan(m), &(ch_seq_limits){.n_seq = 4, .n_mark = 2, .n_page = 24, .max_tokens = 512, .n_draft = CHUNK}, &e))
        fail_msg("%s", e.msg);
    return p;
}

static ch_seq *open_seq(ch_seq_pool *p) {
    ch_error e = {0};
    ch_seq *s = NULL;
    if (ch_seq_create(&s, p, &e)) fail_msg("%s", e.msg);
    return s;
}

// Tokens [from, to) in steps of at most n; logits of every row to their place in out.
static void run(ch_model *m, ch_seq *s, const int32_t *token, int from, int to, int n, bool tentative, float *out) {
    static int32_t rows[N_TOK];
    ch_error e = {0};
    for (int i = 0; i < N_TOK; i++) rows[i] = i;
    for (int at = from; at < to; at += n) {
        const int k = to - at < n ? to - at : n;
        ch_segment seg = {s, k, tentative};
        if (ch_model_forward(m, &(ch_batch){token + at, k, &seg, 1, rows, k}, out + (size_t)at * N_VOCAB, &e)) fail_msg("%s", e.msg);
    }
}

static float *new_logits(void) {
    float *p = calloc((size_t)N_TOK * N_VOCAB, sizeof *p);
    assert_non_null(p);
    return p;
}

static double largest(const float *a, const float *b, int from, int to) { // difference; b NULL: value
    double most = 0;
    for (size_t i = (size_t)from * N_VOCAB; i < (size_t)to * N_VOCAB; i++) {
        assert_true(isfinite(a[i]));
        most = fmax(most, fabs((double)a[i] - (b ? b[i] : 0)));
    }
    return most;
}

static void assert_same(const fixture *f, const char *what, const float *want, int from, int to) {
    if (memcmp(f->out + (size_t)from * N_VOCAB, want + (size_t)from * N_VOCAB, (size_t)(to - from) * N_VOCAB * sizeof *want))
        fail_msg("%s %s: %s: logits differ by %.3g", f->arch, f->tier, what, largest(f->out, want, from, to));
}

static void assert_near(const fixture *f, const char *what, const float *want, int from, int to) {
    const double d = largest(f->out, want, from, to);
    if (!(d <= f->most)) fail_msg("%s %s: %s: logits differ by %.3g, allowed %.3g", f->arch, f->tier, what, d, f->most);
}

// How far rounding alone moves these logits: the sequential form on two tiers, of which one rounds at every operation and one sums
// in double; where there is one tier, 64 roundings of the largest logit. The chunk form takes up to (d / 8 + 76) / (d / 8 + 12) < 7
// times as many roundings a row as the recurrence (tests/checkkern/test_chunk.c). States in bf16 are rounded at other places: half a
// unit of 2^-8 at each, which these models turn into whole units of their logits, so there only bits are compared.
static double allowed(const fixture *f, const float *sequential) {
    double most = 64 * (double)FLT_EPSILON * largest(sequential, NULL, 0, N_TOK);
    float *other = new_logits();
    static const char *const two[] = {"ref", "avx2"};
    for (size_t t = 0; t < 2; t++) {
        ch_model *m = open_model(f, two[t], false);
        ch_seq_pool *pool = open_pool(m);
        ch_seq *s = open_seq(pool);
        run(m, s, f->token[0], 0, N_TOK, N_TOK, false, other);
        most = fmax(most, largest(other, sequential, 0, N_TOK));
        ch_seq_free(&s), ch_seq_pool_free(&pool), ch_model_close(&m);
    }
    free(other);
    return strchr(f->arch, '@') ? INFINITY : 7 * most;
}

static bool setup(fixture *f, const char *arch, const char *tier) {
    *f = (fixture){.arch = arch, .tier = tier, .full = {new_logits(), new_logits()}, .sequential = new_logits(), .out = new_logits()};
    ch_error e = {0};
    ch_synth_shape shape;
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arch, "@"), arch);
    if (ch_synth_preset(&shape, name, "tiny", &e)) fail_msg("%s", e.msg);
    shape.n_vocab = N_VOCAB, shape.n_embd = 96, shape.n_layer = shape.n_layer < 4 ? shape.n_layer : 4; // small: the oracle is slow
    if (shape.n_ff) shape.n_ff = 160;
    if (shape.n_ff_exp) shape.n_ff_exp = 32;
    if (shape.n_ff_shexp) shape.n_ff_shexp = 64;
    snprintf(f->path, sizeof f->path, "/tmp/chimere_chunk_form_%d_%s.gguf", (int)getpid(), name);
    if (ch_synth_write(f->path, &shape, CH_TYPE_F32, 7, NULL, NULL, &e)) fail_msg("%s", e.msg);
    f->m = open_model(f, tier, true);
    f->pool = open_pool(f->m);
    if (strcmp(ch_model_get_info(f->m)->tier, tier)) return false;
    ch_rng r;
    ch_rng_seed(&r, 17);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N_TOK; i++) f->token[k][i] = (int32_t)(ch_rng_u64(&r) % 256);
        ch_seq *s = open_seq(f->pool);
        run(f->m, s, f->token[k], 0, N_TOK, N_TOK, false, f->full[k]);
        ch_seq_free(&s);
    }
    ch_model *m = open_model(f, tier, false);
    ch_seq_pool *pool = open_pool(m);
    ch_seq *s = open_seq(pool);
    run(m, s, f->token[0], 0, N_TOK, N_TOK, false, f->sequential);
    ch_seq_free(&s), ch_seq_pool_free(&pool), ch_model_close(&m);
    f->most = allowed(f, f->sequential);
    return true;
}

static void teardown(fixture *f) {
    ch_seq_pool_free(&f->pool), ch_model_close(&f->m);
    free(f->full[0]), free(f->full[1]), free(f->sequential), free(f->out);
    unlink(f->path);
}

static void check_cuts(fixture *f) {
    static const int cut[] = {CHUNK, 2 * CHUNK, 7, 63, 100};
    memcpy(f->out, f->full[0], (size_t)N_TOK * N_VOCAB * sizeof *f->out);
    assert_near(f, "one step, against the sequential form", f->sequential, 0, N_TOK);
    assert_memory_not_equal(f->full[0], f->sequential, (size_t)N_TOK * N_VOCAB * sizeof *f->out); // chunks were really taken
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char what[48];
        snprintf(what, sizeof what, "steps of %d", cut[i]);
        ch_seq *s = open_seq(f->pool);
        run(f->m, s, f->token[0], 0, N_TOK, cut[i], false, f->out);
        if (cut[i] % CHUNK == 0) assert_same(f, what, f->full[0], 0, N_TOK);
        if (cut[i] < CHUNK) assert_same(f, what, f->sequential, 0, N_TOK); // no step holds a whole chunk
        assert_near(f, what, f->sequential, 0, N_TOK);
        ch_seq_free(&s);
    }
}

// Two sequences in the same steps, cut at whole chunks, unlike each other.
static void check_batch(fixture *f) {
    static const int step[3][2] = {{CHUNK, N_TOK - 8}, {CHUNK, 7}, {N_TOK - 2 * CHUNK, 1}};
    float *rows = calloc((size_t)2 * N_TOK * N_VOCAB, sizeof *rows);
    ch_seq *s[2] = {open_seq(f->pool), open_seq(f->pool)};
    int at[2] = {0};
    for (int i = 0; i < 3; i++) {
        int32_t token[2 * N_TOK], want[2 * N_TOK];
        const int n = step[i][0] + step[i][1];
        ch_error e = {0};
        for (int r = 0; r < n; r++) want[r] = r;
        memcpy(token, f->token[0] + at[0], (size_t)step[i][0] * sizeof *token);
        memcpy(token + step[i][0], f->token[1] + at[1], (size_t)step[i][1] * sizeof *token);
        ch_segment seg[2] = {{s[0], step[i][0]}, {s[1], step[i][1]}};
        if (ch_model_forward(f->m, &(ch_batch){token, n, seg, 2, want, n}, rows, &e)) fail_msg("%s", e.msg);
        for (int k = 0; k < 2; k++) {
            memcpy(f->out + (size_t)at[k] * N_VOCAB, rows + (size_t)(k ? step[i][0] : 0) * N_VOCAB, (size_t)step[i][k] * N_VOCAB * sizeof *rows);
            assert_same(f, "batch of 2", f->full[k], at[k], at[k] + step[i][k]);
            at[k] += step[i][k];
        }
    }
    ch_seq_free(&s[0]), ch_seq_free(&s[1]);
    free(rows);
}

// Fork, mark and snapshot in the middle of a chunk: what follows is cut there, so it is compared with a run that is cut there too.
static void check_state(fixture *f) {
    enum { CUT = 77 };
    ch_error e = {0};
    ch_buf b = {0};
    ch_seq *s = open_seq(f->pool), *plain = open_seq(f->pool), *copy = NULL;
    ch_seq_mark *mark = NULL;
    float *want = new_logits();
    int32_t token[N_TOK];
    size_t n = 0;
    run(f->m, plain, f->token[0], 0, CUT, CUT, false, want);
    run(f->m, plain, f->token[0], CUT, N_TOK, N_TOK, false, want);
    run(f->m, s, f->token[0], 0, CUT, CUT, false, f->out);
    assert_int_equal(ch_seq_fork(&copy, s, &e), 0);
    assert_int_equal(ch_seq_mark_create(&mark, s, &e), 0);
    assert_int_equal(ch_seq_snapshot(s, f->token[0], CUT, &b, &e), 0);
    run(f->m, s, f->token[1], CUT, N_TOK, N_TOK, false, f->out);
    assert_int_equal(ch_seq_rollback(s, mark, &e), 0);
    run(f->m, s, f->token[0], CUT, N_TOK, N_TOK, false, f->out);
    assert_same(f, "after rollback", want, CUT, N_TOK);
    run(f->m, copy, f->token[0], CUT, N_TOK, N_TOK, false, f->out);
    assert_same(f, "fork", want, CUT, N_TOK);
    if (ch_seq_restore(copy, b.data, b.len, token, N_TOK, &n, &e)) fail_msg("%s", e.msg);
    run(f->m, copy, f->token[0], CUT, N_TOK, N_TOK, false, f->out);
    assert_same(f, "after restore", want, CUT, N_TOK);
    ch_seq_mark_free(&mark), ch_seq_free(&s), ch_seq_free(&plain), ch_seq_free(&copy), ch_buf_free(&b);
    free(want);
}

// A whole chunk of tentative rows: the sequential form's bits, and a commit that leaves its state.
static void check_tentative(fixture *f) {
    ch_error e = {0};
    ch_seq *s = open_seq(f->pool);
    run(f->m, s, f->token[0], 0, CHUNK, CHUNK / 2, false, f->out);
    run(f->m, s, f->token[0], CHUNK, 2 * CHUNK, CHUNK, true, f->out);
    assert_same(f, "tentative rows", f->sequential, 0, 2 * CHUNK);
    if (ch_model_commit(f->m, &(ch_segment){s, CHUNK, false}, 1, &e)) fail_msg("%s", e.msg);
    run(f->m, s, f->token[0], 2 * CHUNK, N_TOK, 20, false, f->out);
    assert_same(f, "after commit", f->sequential, 2 * CHUNK, N_TOK);
    ch_seq_free(&s);
}

static void test_arch(void **state) {
    for (size_t t = 0; t < N_TIER; t++) {
        fixture f;
        if (setup(&f, *state, tiers[t])) {
            check_cuts(&f);
            check_batch(&f);
            check_state(&f);
            check_tentative(&f);
        }
        teardown(&f);
    }
}

int main(void) {
    struct CMUnitTest tests[N_ARCH];
    for (size_t i = 0; i < N_ARCH; i++)
        tests[i] = (struct CMUnitTest){.name = archs[i], .test_func = test_arch, .initial_state = (void *)(uintptr_t)archs[i]};
    return _cmocka_run_group_tests("chunk form", tests, N_ARCH, NULL, NULL);
}
