// What a sequence remembers must not depend on how it got there: chunks of prefill, batches, forks, rollbacks, snapshots and
// threads all give the same logits, bit for bit, on every tier this processor has. Models are small and random. time limit: 600 s
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

enum { N_TOK = 150, N_VOCAB = 320 };

typedef struct fixture {
    const char *arch, *tier;
    char k_type[8], v_type[8]; // of the cache
    char path[128];
    ch_model *m;
    ch_seq_pool *pool;
    int32_t token[4][N_TOK];
    float *full[4]; // [N_TOK][N_VOCAB] of each token list, in one step
} fixture;

// Architecture, and a preset where it is not "tiny"; "+mtp": with the multi-token prediction block; ":tq4,tq3": types of cached
// keys and values; "@bf16": states kept in bf16.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Each kind of state once; the others differ in weights alone, and tiers in kernels, which tests/checkkern runs.
static const char *const archs[] = {"qwen3next", "mamba/tiny-norms", "nemotron_h_moe/tiny-latent", "falcon-h1", "plamo2/tiny-arrays@bf16", "lfm2moe",
                                    "kimi-linear:tq4,tq4", "qwen35+mtp"};
static const char *const tiers[] = {"avx2"};
#else
static const char *const archs[] = {"llama", "qwen35", "qwen35moe", "qwen3next", "mamba", "mamba/tiny-norms", "mamba2", "nemotron_h",
                                    "nemotron_h_moe", "nemotron_h_moe/tiny-latent", "granitehybrid", "granitehybrid/tiny-moe",
                                    "falcon-h1", "jamba", "plamo2/tiny-arrays", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "granite",
                                    "granitemoe/tiny-shared", "lfm2", "lfm2moe", "kimi-linear", "qwen35+mtp",
                                    "qwen35:tq4,tq3", "qwen35:tq3,q8_0", "llama:q4_0,tq4", "kimi-linear:tq4,tq4",
                                    "qwen35@bf16", "kimi-linear@bf16", "mamba@bf16", "mamba2@bf16", "plamo2/tiny-arrays@bf16"};
static const char *const tiers[] = {"ref", "avx2", "avx512", "amx"};
#endif
enum { N_ARCH = sizeof archs / sizeof *archs, N_TIER = sizeof tiers / sizeof *tiers };

static ch_model *open_other(const fixture *f, int n_threads, bool bf16) {
    ch_error e = {0};
    ch_model *m = NULL;
    int rc = ch_model_open(&m, f->path, &(ch_model_params){.tier = f->tier, .k_type = f->k_type, .v_type = f->v_type, .n_threads = n_threads, .n_batch = N_TOK, .n_seq = 4, .mtp = true,
                                                     .state_type = bf16 ? "bf16" : "f32"}, &e);
    if (rc) fail_msg("%s", e.msg);
    return m;
}

static ch_model *open_model(const fixture *f, int n_threads) { return open_other(f, n_threads, strchr(f->arch, '@') != NULL); }

static ch_seq_pool *open_pool(const ch_model *m, size_t n_page, size_t max_tokens) {
    ch_error e = {0};
    ch_seq_pool *p = NULL;
    if (ch_seq_pool_create(&p, ch_model_plan(m), &(ch_seq_limits){6, 4, n_page, max_tokens}, &e)) fail_msg("%s", e.msg);
    return p;
}

static ch_seq *open_seq(ch_seq_pool *p) {
    ch_error e = {0};
    ch_seq *s = NULL;
    if (ch_seq_create(&s, p, &e)) fail_msg("%s", e.msg);
    return s;
}

// Runs token[from..to) in steps of at most chunk rows; logits of every row to out (at its own place).
static void run(ch_model *m, ch_seq *s, const int32_t *token, int from, int to, int chunk, float *out) {
    static int32_t rows[N_TOK];
    ch_error e = {0};
    for (int i = 0; i < N_TOK; i++) rows[i] = i;
    for (int at = from; at < to; at += chunk) {
        int n = to - at < chunk ? to - at : chunk;
        ch_segment seg = {s, n};
        if (ch_model_forward(m, &(ch_batch){token + at, n, &seg, 1, rows, n}, out + (size_t)at * N_VOCAB, &e))
            fail_msg("%s", e.msg);
    }
}

static float *new_logits(void) {
    float *p = calloc((size_t)N_TOK * N_VOCAB, sizeof *p);
    assert_non_null(p);
    return p;
}

static void assert_rows(const fixture *f, const char *what, const float *got, const float *want, int from, int to) {
    for (int i = from; i < to; i++)
        for (int v = 0; v < N_VOCAB; v++) {
            float a = got[(size_t)i * N_VOCAB + (size_t)v], b = want[(size_t)i * N_VOCAB + (size_t)v];
            if (memcmp(&a, &b, sizeof a) || !isfinite(a))
                fail_msg("%s %s: %s: position %d token %d: %.9g, expected %.9g", f->arch, f->tier, what, i, v, (double)a, (double)b);
        }
}

// False: this processor lacks the tier.
static bool setup(fixture *f, const char *arch, const char *tier) {
    *f = (fixture){.arch = arch, .tier = tier, .k_type = "f32", .v_type = "f32"};
    if (strchr(arch, ':')) assert_int_equal(sscanf(strchr(arch, ':'), ":%7[^,],%7s", f->k_type, f->v_type), 2);
    ch_error e = {0};
    ch_synth_shape shape;
    const char *preset = strchr(arch, '/');
    char name[32], preset_name[32] = "tiny";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arch, "/+:@"), arch);
    if (preset) snprintf(preset_name, sizeof preset_name, "%.*s", (int)strcspn(preset + 1, "+:@"), preset + 1);
    if (ch_synth_preset(&shape, name, preset_name, &e)) fail_msg("%s", e.msg);
    shape.n_vocab = N_VOCAB, shape.n_embd = 96; // small: the oracle is slow
    if (shape.n_ff) shape.n_ff = 160;
    if (shape.n_ff_exp) shape.n_ff_exp = 32;
    if (shape.n_ff_shexp) shape.n_ff_shexp = 64;
    if (strchr(arch, ':') && shape.d_latent) shape.d_latent = 96, shape.n_rot = 32, shape.d_head = 52; // whole blocks
    if (strchr(arch, '+')) shape.n_nextn = 1;
    snprintf(f->path, sizeof f->path, "/tmp/chimere_state_%d_%s.gguf", (int)getpid(), name);
    if (ch_synth_write(f->path, &shape, CH_TYPE_Q8_0, 7, NULL, NULL, &e)) fail_msg("%s", e.msg);
    f->m = open_model(f, 2);
    if (strcmp(ch_model_get_info(f->m)->tier, tier)) return false;
    f->pool = open_pool(f->m, 24, 512);
    ch_rng r;
    ch_rng_seed(&r, 11);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < N_TOK; i++) f->token[k][i] = (int32_t)(ch_rng_u64(&r) % 256);
        f->full[k] = new_logits();
        ch_seq *s = open_seq(f->pool);
        run(f->m, s, f->token[k], 0, N_TOK, N_TOK, f->full[k]);
        ch_seq_free(&s);
    }
    return true;
}

static void teardown(fixture *f) {
    for (int k = 0; k < 4; k++) free(f->full[k]);
    ch_seq_pool_free(&f->pool);
    ch_model_close(&f->m);
    unlink(f->path);
}

// Prompts are not all alike and positions matter, else every equality below would be empty.
static void check_sense(const fixture *f) {
    assert_memory_not_equal(f->full[0] + N_VOCAB, f->full[1] + N_VOCAB, N_VOCAB * sizeof(float));
    float spread = 0;
    for (int v = 0; v < N_VOCAB; v++) spread = fmaxf(spread, fabsf(f->full[0][(N_TOK - 1) * N_VOCAB + v] - f->full[0][(N_TOK - 1) * N_VOCAB]));
    assert_true(spread > 0.1f);
}

// A step for hidden rows alone, as embeddings ask for it, advances the sequence like any other.
static void check_hidden(fixture *f, float *out) {
    enum { CUT = 20 };
    ch_error e = {0};
    ch_seq *s = open_seq(f->pool);
    ch_segment seg = {s, CUT};
    int32_t row[2] = {0, CUT - 1};
    float hidden[2 * 96] = {0}, sum = 0;
    if (ch_model_forward(f->m, &(ch_batch){f->token[0], CUT, &seg, 1, row, 2, hidden}, NULL, &e)) fail_msg("%s", e.msg);
    for (int i = 0; i < 2 * 96; i++) sum += fabsf(hidden[i]);
    assert_true(isfinite(sum) && sum > 1);
    assert_memory_not_equal(hidden, hidden + 96, 96 * sizeof *hidden);
    run(f->m, s, f->token[0], CUT, CUT + 5, 5, out);
    assert_rows(f, "after a step without logits", out, f->full[0], CUT, CUT + 5);
    ch_seq_free(&s);
}

static void check_chunks(fixture *f, float *out) {
    static const int chunk[] = {1, 2, 3, 5, 7, 64};
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++) {
        char what[32];
        snprintf(what, sizeof what, "chunks of %d", chunk[i]);
        ch_seq *s = open_seq(f->pool);
        int to = chunk[i] > 1 && chunk[i] < 7 ? 40 : N_TOK; // what matters there is the window of the convolution
        run(f->m, s, f->token[0], 0, to, chunk[i], out);
        assert_rows(f, what, out, f->full[0], 0, to);
        ch_seq_free(&s);
    }
}

// Four sequences of unequal length, prefill and decode mixed in the same steps.
static void check_batch(fixture *f, float *const out[4]) {
    static const int step[4][4] = {{40, 1, 90, 0}, {1, 64, 1, 3}, {5, 1, 50, 100}, {104, 1, 1, 1}};
    ch_seq *s[4];
    int at[4] = {0};
    for (int k = 0; k < 4; k++) s[k] = open_seq(f->pool);
    float *rows = new_logits();
    for (int i = 0; i < 4; i++) {
        int32_t token[4 * N_TOK], want[N_TOK], n_row = 0, n_seg = 0;
        ch_segment seg[4];
        int owner[4];
        for (int k = 0; k < 4; k++) {
            int n = step[i][k];
            if (!n) continue;
            if (n_row + n > N_TOK) n = N_TOK - n_row; // the step is full: the rest comes later
            memcpy(token + n_row, f->token[k] + at[k], (size_t)n * sizeof *token);
            owner[n_seg] = k, seg[n_seg++] = (ch_segment){s[k], n};
            n_row += n;
        }
        for (int r = 0; r < n_row; r++) want[r] = r;
        ch_error e = {0};
        if (ch_model_forward(f->m, &(ch_batch){token, n_row, seg, n_seg, want, n_row}, rows, &e)) fail_msg("%s", e.msg);
        const float *p = rows;
        for (int g = 0; g < n_seg; g++) {
            int k = owner[g];
            memcpy(out[k] + (size_t)at[k] * N_VOCAB, p, (size_t)seg[g].n_tok * N_VOCAB * sizeof *p);
            p += (size_t)seg[g].n_tok * N_VOCAB, at[k] += seg[g].n_tok;
        }
    }
    for (int k = 0; k < 4; k++) {
        assert_true(at[k] > 3);
        assert_rows(f, "batch of 4", out[k], f->full[k], 0, at[k]);
        ch_seq_free(&s[k]);
    }
    free(rows);
}

// Follows token list 0 to position `cut`, then list 1; the expectation for that is run alone.
static void mixed_tokens(const fixture *f, int cut, int32_t out[N_TOK]) {
    memcpy(out, f->token[0], (size_t)cut * sizeof *out);
    memcpy(out + cut, f->token[1] + cut, (size_t)(N_TOK - cut) * sizeof *out);
}

static void check_fork(fixture *f, float *out, float *want) {
    enum { CUT = 70 }; // inside a page, so that the shared page must be copied
    int32_t other[N_TOK];
    ch_error e = {0};
    mixed_tokens(f, CUT, other);
    ch_seq *alone = open_seq(f->pool), *a = open_seq(f->pool), *b = NULL;
    run(f->m, alone, other, 0, N_TOK, N_TOK, want);
    run(f->m, a, f->token[0], 0, CUT, CUT, out);
    assert_int_equal(ch_seq_fork(&b, a, &e), 0);
    for (int i = CUT; i < N_TOK; i += 10) { // in turns, so that each could spoil the other
        int to = i + 10 < N_TOK ? i + 10 : N_TOK;
        run(f->m, a, f->token[0], i, to, 4, out);
        assert_rows(f, "fork, the original", out, f->full[0], i, to);
        run(f->m, b, other, i, to, 3, out);
        assert_rows(f, "fork, the copy", out, want, i, to);
    }
    ch_seq_free(&alone), ch_seq_free(&a), ch_seq_free(&b);
}

static void check_rollback(fixture *f, float *out, float *want) {
    ch_error e = {0};
    int32_t other[N_TOK];
    for (int back = 1; back <= 16; back += back < 4 ? 1 : 6) {
        int mark_at = 60 + back, end = mark_at + back; // over a page border for some
        mixed_tokens(f, mark_at, other);
        ch_seq *s = open_seq(f->pool), *alone = open_seq(f->pool);
        ch_seq_mark *m = NULL;
        run(f->m, alone, other, 0, end, end, want);
        run(f->m, s, f->token[0], 0, mark_at, mark_at, out);
        assert_int_equal(ch_seq_mark_create(&m, s, &e), 0);
        for (int again = 0; again < 2; again++) { // a mark serves more than once
            run(f->m, s, f->token[0], mark_at, end, 16, out);
            assert_rows(f, "before rollback", out, f->full[0], mark_at, end);
            assert_int_equal(ch_seq_rollback(s, m, &e), 0);
            assert_int_equal(ch_seq_len(s), mark_at);
        }
        run(f->m, s, other, mark_at, end, back, out);
        assert_rows(f, "after rollback", out, want, mark_at, end);
        ch_seq_mark_free(&m), ch_seq_free(&s), ch_seq_free(&alone);
    }
}

static void check_truncate(fixture *f, float *out) {
    ch_error e = {0};
    ch_seq *s = open_seq(f->pool);
    run(f->m, s, f->token[0], 0, 100, 100, out);
    bool recurrent = ch_model_plan(f->m)->slab_bytes > 0;
    assert_int_equal(ch_seq_truncate(s, 30, &e), recurrent ? CH_ESTATE : CH_OK);
    assert_int_equal(ch_seq_truncate(s, 101, &e), CH_ERANGE);
    if (!recurrent) {
        run(f->m, s, f->token[0], 30, N_TOK, 50, out);
        assert_rows(f, "after truncate", out, f->full[0], 30, N_TOK);
    }
    assert_int_equal(ch_seq_truncate(s, 0, &e), 0);
    run(f->m, s, f->token[1], 0, N_TOK, N_TOK, out);
    assert_rows(f, "after truncate to nothing", out, f->full[1], 0, N_TOK);
    ch_seq_free(&s);
}

// Saved, restored by another model object with other threads, continued; damaged copies are refused and change nothing.
static void check_snapshot(fixture *f, float *out) {
    enum { CUT = 77 };
    ch_error e = {0};
    ch_buf b = {0};
    ch_seq *s = open_seq(f->pool);
    run(f->m, s, f->token[0], 0, CUT, CUT, out);
    assert_int_equal(ch_seq_snapshot(s, f->token[0], CUT - 1, &b, &e), CH_ERANGE);
    assert_int_equal(ch_seq_snapshot(s, f->token[0], CUT, &b, &e), 0);
    ch_model *m = open_model(f, 1);
    ch_seq_pool *pool = open_pool(m, 24, 512);
    ch_seq *t = open_seq(pool);
    int32_t token[N_TOK];
    size_t n = 0;
    run(m, t, f->token[2], 0, 33, 33, out); // what was there before must not matter
    for (size_t at = 0; at < b.len; at += b.len / 97 + 1) {
        b.data[at] ^= 0x40;
        assert_int_not_equal(ch_seq_restore(t, b.data, b.len, token, N_TOK, &n, &e), 0);
        b.data[at] ^= 0x40;
    }
    assert_int_not_equal(ch_seq_restore(t, b.data, b.len - 1, token, N_TOK, &n, &e), 0);
    assert_int_equal(ch_seq_restore(t, b.data, b.len, token, CUT - 1, &n, &e), CH_ELIMIT);
    run(m, t, f->token[2], 33, 60, 27, out);
    assert_rows(f, "after refused snapshots", out, f->full[2], 33, 60);
    if (ch_seq_restore(t, b.data, b.len, token, CUT, &n, &e)) fail_msg("%s", e.msg);
    assert_int_equal(n, CUT);
    assert_memory_equal(token, f->token[0], CUT * sizeof *token);
    run(m, t, f->token[0], CUT, N_TOK, 9, out);
    assert_rows(f, "after restore", out, f->full[0], CUT, N_TOK);
    ch_seq_free(&t), ch_seq_free(&s);
    ch_seq_pool_free(&pool), ch_model_close(&m);
    ch_buf_free(&b);
}

// A snapshot belongs to the type of the states, and bf16 halves them (the windows of the convolutions stay f32).
static void check_other_type(fixture *f, float *out) {
    if (!strchr(f->arch, '@')) return;
    ch_error e = {0};
    ch_buf b = {0};
    ch_model *m = open_other(f, 1, false);
    ch_seq_pool *pool = open_pool(m, 24, 512);
    ch_seq *s = open_seq(f->pool), *t = open_seq(pool);
    size_t n = 0, half = ch_model_plan(f->m)->slab_bytes, whole = ch_model_plan(m)->slab_bytes;
    int32_t token[N_TOK];
    run(f->m, s, f->token[0], 0, 20, 20, out);
    assert_int_equal(ch_seq_snapshot(s, f->token[0], 20, &b, &e), 0);
    assert_int_equal(ch_seq_restore(t, b.data, b.len, token, N_TOK, &n, &e), CH_EFORMAT);
    assert_true(half < whole && 2 * half > whole);
    assert_int_equal(ch_model_get_info(f->m)->state_bytes, half);
    ch_seq_free(&t), ch_seq_free(&s), ch_buf_free(&b);
    ch_seq_pool_free(&pool), ch_model_close(&m);
}

static void check_threads(fixture *f, float *out) {
    static const int n_threads[] = {1, 3, 5};
    for (size_t i = 0; i < 3; i++) {
        ch_model *m = open_model(f, n_threads[i]);
        ch_seq_pool *pool = open_pool(m, 24, 512);
        ch_seq *s = open_seq(pool);
        run(m, s, f->token[3], 0, N_TOK, 60, out);
        assert_rows(f, "other number of threads", out, f->full[3], 0, N_TOK);
        ch_seq_free(&s), ch_seq_pool_free(&pool), ch_model_close(&m);
    }
}

// Context full at n - 1, n, n + 1; pages exhausted; wrong batches. A refused step changes nothing.
static void check_limits(fixture *f, float *out) {
    ch_error e = {0};
    bool pages = ch_model_plan(f->m)->page_bytes > 0;
    ch_seq_pool *pool = open_pool(f->m, 3, 130);
    ch_seq *s = open_seq(pool), *t = open_seq(pool);
    run(f->m, s, f->token[0], 0, 129, 129, out);
    int32_t row = 0, bad = N_VOCAB, neg = -1;
    ch_segment two = {s, 2}, one = {s, 1}, other = {t, 1}, same[2] = {{s, 1}, {s, 1}};
    assert_int_equal(ch_model_forward(f->m, &(ch_batch){f->token[0] + 129, 2, &two, 1, &row, 1}, out, &e), CH_ELIMIT);
    if (pages) // all three pages are taken
        assert_int_equal(ch_model_forward(f->m, &(ch_batch){f->token[0], 1, &other, 1, &row, 1}, out, &e), CH_EBUSY);
    assert_int_equal(ch_model_forward(f->m, &(ch_batch){&bad, 1, &one, 1, &row, 1}, out, &e), CH_ERANGE);
    assert_int_equal(ch_model_forward(f->m, &(ch_batch){&neg, 1, &one, 1, &row, 1}, out, &e), CH_ERANGE);
    assert_int_equal(ch_model_forward(f->m, &(ch_batch){f->token[0], 2, same, 2, &row, 1}, out, &e), CH_ERANGE);
    assert_int_equal(ch_model_forward(f->m, &(ch_batch){f->token[0], 2, &one, 1, &row, 1}, out, &e), CH_ERANGE);
    assert_int_equal(ch_model_forward(f->m, &(ch_batch){f->token[0], 1, &one, 1, (int32_t[]){1}, 1}, out, &e), CH_ERANGE);
    run(f->m, s, f->token[0], 129, 130, 1, out);
    assert_rows(f, "last place of the context", out, f->full[0], 129, 130);
    assert_int_equal(ch_model_forward(f->m, &(ch_batch){f->token[0] + 130, 1, &one, 1, &row, 1}, out, &e), CH_ELIMIT);
    ch_seq_free(&s), ch_seq_free(&t);
    ch_seq_pool_free(&pool);
}

static void test_arch(void **state) {
    const char *arch = *state;
    float *out[4], *want = new_logits();
    for (int k = 0; k < 4; k++) out[k] = new_logits();
    for (size_t t = 0; t < N_TIER; t++) {
        fixture f;
        if (setup(&f, arch, tiers[t])) {
            check_sense(&f);
            check_hidden(&f, out[0]);
            check_chunks(&f, out[0]);
            check_batch(&f, out);
            check_fork(&f, out[0], want);
            check_rollback(&f, out[0], want);
            check_truncate(&f, out[0]);
            check_snapshot(&f, out[0]);
            check_other_type(&f, out[0]);
            check_threads(&f, out[0]);
            check_limits(&f, out[0]);
        }
        teardown(&f);
    }
    for (int k = 0; k < 4; k++) free(out[k]);
    free(want);
}

int main(void) {
    struct CMUnitTest tests[N_ARCH];
    for (size_t i = 0; i < N_ARCH; i++)
        tests[i] = (struct CMUnitTest){.name = archs[i], .test_func = test_arch, .initial_state = (void *)(uintptr_t)archs[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
