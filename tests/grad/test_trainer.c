// The trainer: its forward pass against the inference engine on the exported file; steps against the same steps in double; going
// on from a checkpoint, bit for bit; threads; recomputation; values that are no numbers; damaged checkpoints.
// time limit: 240 s
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "grad/cases.h"
#include "model/model.h"
#include "synth/synth.h"
#include "train/trainer.h"

enum { N_ROW = 3, N_CTX = 75 };

// ---- a source of batches ----------------------------------------------------------------------------------------------------------
typedef struct source {
    ch_train_data_state at;
    int32_t n_vocab;
    int32_t token[N_ROW * (N_CTX + 2)], doc[N_ROW * (N_CTX + 2)];
    float weight[N_ROW * N_CTX];
} source;

static int next_batch(void *user, ch_train_batch *b, ch_error *e) {
    (void)e;
    source *s = user;
    for (int r = 0; r < N_ROW; r++) {
        ch_rng g;
        ch_rng_seed(&g, s->at.index * N_ROW + (uint64_t)r);
        const int border = 20 + (int)(ch_rng_u64(&g) % 40);
        int32_t last = 0;
        for (int i = 0; i < N_CTX + 2; i++) { // a walk with short strides, so that there is something to learn
            last = (last + (int32_t)(ch_rng_u64(&g) % 4)) % s->n_vocab;
            s->token[r * (N_CTX + 2) + i] = last;
            s->doc[r * (N_CTX + 2) + i] = i >= border;
            if (i < N_CTX) s->weight[r * N_CTX + i] = i % 7 ? 1 : 0.25f;
        }
    }
    s->at.index++;
    *b = (ch_train_batch){N_ROW, N_CTX, s->token, s->weight, s->doc};
    return 0;
}
static void get_state(void *user, ch_train_data_state *at) { *at = ((source *)user)->at; }
static int set_state(void *user, const ch_train_data_state *at, ch_error *e) {
    (void)e;
    ((source *)user)->at = *at;
    return 0;
}

// ---- configurations -----------------------------------------------------------------------------------------------------------------
typedef struct family {
    const char *name, *model;
} family;
static const family kinds[] = {
    {"qwen35moe", "\"n_layer\": 4, \"n_embd\": 48, \"n_head\": 4, \"n_head_kv\": 2, \"d_head\": 24, \"n_rot\": 12, \"attn_interval\": 2, \"ssm_heads_k\": 2,"
                  "\"ssm_heads_v\": 6, \"ssm_d_state\": 16, \"n_expert\": 5, \"n_expert_used\": 2, \"n_ff_exp\": 24, \"n_ff_shexp\": 40, \"n_mtp\": 1"},
    {"qwen35", "\"n_layer\": 3, \"n_embd\": 48, \"n_head\": 4, \"n_head_kv\": 2, \"d_head\": 24, \"n_rot\": 12, \"attn_interval\": 3, \"ssm_heads_k\": 2,"
               "\"ssm_heads_v\": 6, \"ssm_d_state\": 16, \"n_ff\": 56, \"tied\": false, \"rope_base\": 1000"},
    {"mamba2", "\"n_layer\": 3, \"n_embd\": 48, \"ssm_heads_k\": 2, \"ssm_heads_v\": 6, \"ssm_d_state\": 16, \"ssm_d_head\": 16"},
    {"nemotron_h_moe", "\"n_layer\": 5, \"n_embd\": 48, \"n_head\": 4, \"n_head_kv\": 2, \"d_head\": 24, \"ssm_heads_k\": 2, \"ssm_heads_v\": 6,"
                       "\"ssm_d_state\": 16, \"ssm_d_head\": 16, \"n_expert\": 5, \"n_expert_used\": 2, \"n_ff_exp\": 24, \"n_ff_shexp\": 40,"
                       "\"expert_scale\": 2.5, \"pattern\": \"ME*ME\""},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct fixture {
    ch_train_config cfg;
    source src;
    ch_train_feed feed;
    ch_trainer *t;
} fixture;

static void open_fixture(fixture *f, int kind, int32_t n_vocab, int n_threads, const char *train) {
    char text[2048];
    ch_error e;
    memset(f, 0, sizeof *f);
    snprintf(text, sizeof text,
             "{\"model\": {\"arch\": \"%s\", %s}, \"data\": {\"tokenizer\": \"x\", \"sources\": [{\"path\": \"x\"}], \"n_row\": %d, \"n_ctx\": %d},"
             "\"train\": {\"steps\": 20, \"rate\": 1e-2, \"warmup\": 3%s}}",
             kinds[kind].name, kinds[kind].model, N_ROW, N_CTX, train);
    if (ch_train_config_parse(&f->cfg, text, strlen(text), "test", &e)) fail_msg("%s", e.msg);
    f->src.n_vocab = n_vocab;
    f->feed = (ch_train_feed){&f->src, next_batch, get_state, set_state};
    if (ch_trainer_open(&f->t, &f->cfg, n_vocab, &f->feed, n_threads, &e)) fail_msg("%s", e.msg);
}

static void close_fixture(fixture *f) {
    ch_trainer_close(&f->t);
    ch_train_config_free(&f->cfg);
}

static ch_train_step steps(fixture *f, int n) {
    ch_train_step s = {0};
    ch_error e;
    for (int i = 0; i < n; i++)
        if (ch_trainer_step(f->t, &s, &e)) fail_msg("%s", e.msg);
    return s;
}

static const char *temp_path(const char *name) {
    static char path[512];
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/%s-%d", dir ? dir : "/tmp", name, (int)getpid());
    return path;
}

// ---- the engine on the exported file --------------------------------------------------------------------------------------------------
static void own_logits(fixture *f, const int32_t *token, const int32_t *start, size_t n, float *logits, float *mtp) {
    ch_trainer *t = f->t;
    ch_train_ctx c = {.kern = &t->kern, .w = t->w, .wt = t->wt, .rope = t->rope, .n_tok = n, .start = start, .dry = true};
    const float none[N_CTX] = {0};
    const ch_train_row_args a = {.token = token, .weight = none, .mtp_weight = 1, .logits = logits, .mtp_logits = t->model.mtp.on ? mtp : NULL};
    ch_train_row_result r;
    ch_train_transpose_all(&c, &t->model, t->w, t->wt, 0, t->model.n_mat);
    ch_train_row(&c, &t->model, &a, &r);
    uint8_t *stack = ch_alloc_aligned(c.peak, 64);
    assert_non_null(stack);
    c.base = stack, c.dry = false, c.used = 0;
    ch_train_row(&c, &t->model, &a, &r);
    ch_free(stack);
}

static double worst(const float *a, const float *b, size_t n) {
    double m = 0;
    for (size_t i = 0; i < n; i++) m = fmax(m, fabs((double)a[i] - (double)b[i]));
    return m;
}

// Rows of a document through the engine; with drafts, those of the MTP block too, at every position but the first.
static void engine_logits(ch_model *m, const int32_t *token, size_t n, size_t v, float *logits, float *mtp) {
    ch_error e;
    ch_seq_pool *pool;
    ch_seq *s;
    float *hidden = ch_alloc_array((size_t)ch_model_get_info(m)->n_embd, sizeof *hidden);
    if (ch_seq_pool_create(&pool, ch_model_plan(m), &(ch_seq_limits){.n_seq = 1, .n_page = 4, .max_tokens = 128}, &e) || ch_seq_create(&s, pool, &e))
        fail_msg("%s", e.msg);
    for (size_t i = 0; i < n; i++) {
        const int32_t row = 0;
        if (mtp && i && ch_model_draft(m, &(ch_draft){&s, token + i, 1, 0, NULL, mtp + i * v, hidden}, &e)) fail_msg("%s", e.msg);
        const ch_segment seg = {.seq = s, .n_tok = 1};
        if (ch_model_forward(m, &(ch_batch){token + i, 1, &seg, 1, &row, 1}, logits + i * v, &e)) fail_msg("%s", e.msg);
    }
    ch_free(hidden);
    ch_seq_free(&s);
    ch_seq_pool_free(&pool);
}

static void test_engine(void **state) {
    const int kind = (int)(intptr_t)*state;
    ch_error e;
    ch_synth_shape shape;
    ch_gguf *vocab;
    char from[512], to[512];
    snprintf(from, sizeof from, "%s", temp_path("vocab")), snprintf(to, sizeof to, "%s", temp_path("model"));
    if (ch_synth_preset(&shape, "qwen35", "tiny", &e) || ch_synth_write(from, &shape, CH_TYPE_F32, 1, NULL, NULL, &e) || ch_gguf_open(&vocab, from, &e))
        fail_msg("%s", e.msg);
    const size_t v = (size_t)shape.n_vocab;
    fixture f;
    open_fixture(&f, kind, shape.n_vocab, 1, ", \"average\": 0.5");
    steps(&f, 3); // away from the first values: norms are not all 1
    if (ch_trainer_export(f.t, to, CH_TYPE_F32, false, vocab, NULL, 0, &e)) fail_msg("%s", e.msg);
    ch_model *m;
    if (ch_model_open(&m, to, &(ch_model_params){.tier = "ref", .n_threads = 1, .mtp = f.t->model.mtp.on}, &e)) fail_msg("%s", e.msg);
    int32_t token[N_CTX + 1], start[N_CTX];
    const size_t border = 31;
    for (size_t i = 0; i < N_CTX; i++) token[i] = (int32_t)((i * i + 3 * i) % v), start[i] = i < border ? 0 : (int32_t)border;
    token[N_CTX] = 0;
    float *own = ch_alloc_array(4 * N_CTX * v, sizeof *own), *own_mtp = own + N_CTX * v, *ref = own_mtp + N_CTX * v, *ref_mtp = ref + N_CTX * v;
    assert_non_null(own);
    own_logits(&f, token, start, N_CTX, own, own_mtp);
    const bool mtp = f.t->model.mtp.on;
    engine_logits(m, token, border, v, ref, mtp ? ref_mtp : NULL);
    engine_logits(m, token + border, N_CTX - border, v, ref + border * v, mtp ? ref_mtp + border * v : NULL);
    double size = 0;
    for (size_t i = 0; i < N_CTX * v; i++) size = fmax(size, fabs((double)ref[i]));
    // Every sub-layer rounds its rows of some 50 sums a few times: eps sqrt(50) each, on values of the size of the logits.
    const double most = 8 * FLT_EPSILON * sqrt(50) * (double)f.t->model.n_sub * size;
    const double off = worst(own, ref, N_CTX * v);
    if (!(off <= most)) fail_msg("%s: logits off by %.3g, allowed %.3g (size %.3g)", kinds[kind].name, off, most, size);
    for (size_t i = 0; i < N_CTX && mtp; i++) {
        if (i == 0 || i == border) continue;
        const double d = worst(own_mtp + i * v, ref_mtp + i * v, v);
        if (!(d <= most)) fail_msg("%s: position %zu: draft off by %.3g, allowed %.3g", kinds[kind].name, i, d, most);
    }
    ch_free(own);
    ch_model_close(&m);
    ch_gguf_close(&vocab);
    close_fixture(&f);
    unlink(from), unlink(to);
}

// ---- steps ------------------------------------------------------------------------------------------------------------------------------
// The loss falls; and 20 steps in float follow 20 steps of the double build.
static void test_curve(void **state) {
    const int kind = (int)(intptr_t)*state;
    fixture f;
    open_fixture(&f, kind, 50, 1, "");
    double exact[20], first = 0;
    grad_curve64(f.t, 20, exact);
    for (int i = 0; i < 20; i++) {
        const ch_train_step s = steps(&f, 1);
        if (i == 0) first = s.loss;
        if (!(fabs(s.loss - exact[i]) <= 1e-4 * exact[i]))
            fail_msg("%s: step %d: loss %.9g, in double %.9g", kinds[kind].name, i + 1, s.loss, exact[i]);
        if (i == 19 && !(s.loss < 0.8 * first)) fail_msg("%s: loss %.4g after 20 steps, %.4g at first", kinds[kind].name, s.loss, first);
    }
    close_fixture(&f);
}

static void assert_same(const ch_trainer *a, const ch_trainer *b) {
    const size_t bytes = a->model.n_param * sizeof(float);
    assert_memory_equal(a->w, b->w, bytes);
    assert_memory_equal(a->moment, b->moment, bytes);
    assert_memory_equal(a->square, b->square, bytes);
    if (a->mean) assert_memory_equal(a->mean, b->mean, bytes);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->n_tokens, b->n_tokens);
}

static void test_resume(void **state) {
    (void)state;
    fixture a, b;
    ch_error e;
    const char *path = temp_path("checkpoint");
    open_fixture(&a, 0, 50, 2, ", \"average\": 0.9");
    steps(&a, 3);
    if (ch_trainer_save(a.t, path, &e)) fail_msg("%s", e.msg);
    steps(&a, 4);
    open_fixture(&b, 0, 50, 2, ", \"average\": 0.9");
    if (ch_trainer_load(b.t, path, &e)) fail_msg("%s", e.msg);
    assert_int_equal(b.t->step, 3);
    steps(&b, 4);
    assert_same(a.t, b.t);
    close_fixture(&a), close_fixture(&b);
    unlink(path);
}

// Threads change the order of one sum alone; recomputation changes nothing.
static void test_threads(void **state) {
    (void)state;
    fixture a, b, c;
    open_fixture(&a, 0, 50, 1, ""), open_fixture(&b, 0, 50, 3, ""), open_fixture(&c, 0, 50, 1, ", \"recompute\": true");
    const ch_train_step x = steps(&a, 2), y = steps(&b, 2), z = steps(&c, 2);
    assert_true(fabs(x.loss - y.loss) <= 1e-5 * x.loss);
    assert_true(fabs(x.norm - y.norm) <= 1e-4 * x.norm);
    assert_true(x.loss == z.loss && x.norm == z.norm);
    assert_same(a.t, c.t);
    assert_true(ch_trainer_bytes(c.t) < ch_trainer_bytes(a.t));
    close_fixture(&a), close_fixture(&b), close_fixture(&c);
}

static void test_no_number(void **state) {
    (void)state;
    fixture f;
    ch_error e;
    ch_train_step s;
    open_fixture(&f, 0, 50, 2, "");
    steps(&f, 1);
    const size_t at = f.t->model.sub[3].u.moe.down;
    for (size_t i = 0; i < f.t->model.sub[3].u.moe.n_expert; i++) f.t->w[at + i * 48 * 24] = NAN;
    assert_int_equal(ch_trainer_step(f.t, &s, &e), CH_ESTATE);
    assert_string_equal(e.msg, "step 2: layer 1, experts: a value that is no number");
    close_fixture(&f);
}

// AdamW and the running average, written out once more.
static void test_adam(void **state) {
    (void)state;
    enum { N = 2 * CH_TRAIN_GRAIN };
    const ch_train_adam_args first = {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-3, .decay = 0.5, .scale = 0.25};
    const uint8_t decay[2] = {1, 0};
    float g[N], w[N], m[N] = {0}, v[N] = {0}, mean[N];
    double ew[N], em[N] = {0}, ev[N] = {0}, emean[N];
    for (int i = 0; i < N; i++) ew[i] = emean[i] = w[i] = mean[i] = (float)(i - 11) / 7;
    for (int step = 1; step <= 4; step++) {
        ch_train_adam_args a = first;
        a.step = (uint64_t)step;
        for (int i = 0; i < N; i++) g[i] = (float)((i * 5 + step * 3) % 13 - 6);
        ch_train_adam(&a, N, decay, g, w, m, v);
        ch_train_average(0.75f, N, w, mean);
        for (int i = 0; i < N; i++) {
            const double x = 0.25 * (double)g[i];
            em[i] = 0.9 * em[i] + 0.1 * x, ev[i] = 0.98 * ev[i] + 0.02 * x * x;
            if (i < CH_TRAIN_GRAIN) ew[i] -= 0.01 * 0.5 * ew[i];
            ew[i] -= 0.01 * (em[i] / (1 - pow(0.9, step))) / (sqrt(ev[i] / (1 - pow(0.98, step))) + 1e-3);
            emean[i] = 0.75 * emean[i] + 0.25 * ew[i];
            assert_true(fabs((double)w[i] - ew[i]) <= 1e-6 * (1 + fabs(ew[i])));
            assert_true(fabs((double)mean[i] - emean[i]) <= 1e-6 * (1 + fabs(emean[i])));
        }
    }
    assert_true(fabs(ch_train_sum_squares(g, 5) - ((double)g[0] * (double)g[0] + (double)g[1] * (double)g[1] + (double)g[2] * (double)g[2] +
                                                   (double)g[3] * (double)g[3] + (double)g[4] * (double)g[4])) < 1e-9);
}

// ---- files --------------------------------------------------------------------------------------------------------------------------------
static int load_changed(const char *path, size_t cut, size_t flip) {
    fixture f;
    ch_error e;
    ch_buf b = {0};
    assert_int_equal(ch_read_file(&b, path, &e), 0);
    if (flip < b.len) b.data[flip] ^= 4;
    const char *to = temp_path("changed");
    FILE *o = fopen(to, "wb");
    assert_non_null(o);
    assert_int_equal(fwrite(b.data, 1, b.len - cut, o), b.len - cut);
    fclose(o);
    open_fixture(&f, 2, 50, 1, "");
    const int rc = ch_trainer_load(f.t, to, &e);
    ch_buf_free(&b);
    close_fixture(&f);
    unlink(to);
    return rc;
}

static void test_damage(void **state) {
    (void)state;
    fixture f, other;
    ch_error e;
    char path[512];
    snprintf(path, sizeof path, "%s", temp_path("good"));
    open_fixture(&f, 2, 50, 1, "");
    if (ch_trainer_save(f.t, path, &e)) fail_msg("%s", e.msg);
    assert_int_equal(load_changed(path, 0, SIZE_MAX), 0);
    assert_int_equal(load_changed(path, 0, 0), CH_EFORMAT);     // magic
    assert_int_equal(load_changed(path, 0, 8), CH_ESTATE);      // hash of the tensors
    assert_int_equal(load_changed(path, 0, 17), CH_EFORMAT);    // step: the checksum tells
    assert_int_equal(load_changed(path, 0, 30000), CH_EFORMAT); // a weight
    for (size_t cut = 1; cut < 200; cut += 7) assert_int_equal(load_changed(path, cut, SIZE_MAX), CH_EFORMAT);
    open_fixture(&other, 2, 50, 1, ", \"average\": 0.8");
    assert_int_equal(ch_trainer_load(other.t, path, &e), CH_ESTATE);
    close_fixture(&other);
    open_fixture(&other, 2, 51, 1, "");
    assert_int_equal(ch_trainer_load(other.t, path, &e), CH_ESTATE);
    close_fixture(&f), close_fixture(&other);
    unlink(path);
}

static void check_config(const char *text, const char *error) {
    ch_train_config c;
    ch_error e = {0};
    const int rc = ch_train_config_parse(&c, text, strlen(text), "file", &e);
    if (!error) assert_int_equal(rc, 0);
    else if (!rc || strcmp(e.msg, error) != 0) fail_msg("\"%s\", expected \"%s\"", e.msg, error);
    if (!rc) ch_train_config_free(&c);
}

static void test_config(void **state) {
    (void)state;
#define MODEL "\"model\": {\"arch\": \"mamba2\", \"n_layer\": 1, \"n_embd\": 16}, "
#define DATA "\"data\": {\"tokenizer\": \"t\", \"sources\": [{\"path\": \"p\"}]}, "
    check_config("{" MODEL DATA "\"train\": {\"steps\": 1}}", NULL);
    check_config("{" MODEL DATA "\"train\": {\"steps\": 0}}", "file: train.steps: expected a whole number from 1 to 1e+09");
    check_config("{" MODEL DATA "\"train\": {\"steps\": 1000000000}}", NULL);
    check_config("{" MODEL DATA "\"train\": {\"steps\": 1000000001}}", "file: train.steps: expected a whole number from 1 to 1e+09");
    check_config("{" MODEL DATA "\"train\": {\"steps\": 1.5}}", "file: train.steps: expected a whole number from 1 to 1e+09");
    check_config("{" MODEL DATA "\"train\": {\"stepz\": 1}}", "file: train.stepz: no such key");
    check_config("{" MODEL DATA "\"trein\": {}}", "file: \"trein\": expected model, data, weights, eval, train or run");
    check_config("{" MODEL DATA "\"train\": {\"steps\": 1, \"schedule\": \"linear\"}}",
                 "file: train.schedule \"linear\": expected cosine, wsd or constant");
    check_config("{" MODEL "\"data\": {\"tokenizer\": \"t\"}, \"train\": {\"steps\": 1}}", "file: data.sources is missing or empty");
    check_config("{" MODEL "\"data\": {\"tokenizer\": \"t\", \"sources\": [{\"share\": 1}]}}", "file: data.sources[0]: path is missing");
    check_config("{" DATA "\"train\": {\"steps\": 1}}", "file: model.arch is missing");
    check_config("[]", "file: expected an object");
    ch_train_config c = {.rate = 1, .rate_end = 0.1, .warmup = 10, .n_steps = 110, .schedule_kind = CH_TRAIN_COSINE};
    assert_true(fabs(ch_train_rate(&c, 0) - 0.1) < 1e-12 && fabs(ch_train_rate(&c, 9) - 1) < 1e-12 && fabs(ch_train_rate(&c, 60) - 0.55) < 1e-12);
    c.schedule_kind = CH_TRAIN_WSD, c.decay_steps = 20;
    assert_true(ch_train_rate(&c, 90) == 1 && fabs(ch_train_rate(&c, 100) - 0.55) < 1e-12);
}

int main(void) {
    struct CMUnitTest test[2 * N_KINDS + 6];
    static char name[2 * N_KINDS][64];
    size_t n = 0;
    for (size_t i = 0; i < N_KINDS; i++) {
        snprintf(name[2 * i], sizeof *name, "engine: %s", kinds[i].name);
        snprintf(name[2 * i + 1], sizeof *name, "20 steps: %s", kinds[i].name);
        test[n++] = (struct CMUnitTest){.name = name[2 * i], .test_func = test_engine, .initial_state = (void *)(intptr_t)i};
        test[n++] = (struct CMUnitTest){.name = name[2 * i + 1], .test_func = test_curve, .initial_state = (void *)(intptr_t)i};
    }
    const struct CMUnitTest more[] = {cmocka_unit_test(test_resume), cmocka_unit_test(test_threads), cmocka_unit_test(test_no_number), cmocka_unit_test(test_adam),
                                      cmocka_unit_test(test_damage), cmocka_unit_test(test_config)};
    memcpy(test + n, more, sizeof more);
    return _cmocka_run_group_tests("trainer", test, n + 6, NULL, NULL);
}
