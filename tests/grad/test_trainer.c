// The trainer: its forward pass against the inference engine on the exported file; steps against the same steps in double; going
// on from a checkpoint, bit for bit; threads; recomputation; values that are no numbers; damaged checkpoints.
// time limit: 240 s
#include "grad/cases.h"
#include "grad/fixture.h"

// ---- the engine on the exported file --------------------------------------------------------------------------------------------------
static void test_engine(void **state) {
    const int kind = (int)(intptr_t)*state;
    ch_error e;
    ch_gguf *vocab;
    char from[512], to[512];
    snprintf(to, sizeof to, "%s", temp_path("model"));
    const int32_t n_vocab = write_vocab(from);
    if (ch_gguf_open(&vocab, from, &e)) fail_msg("%s", e.msg);
    fixture f;
    open_fixture(&f, kind, n_vocab, 1, ", \"average\": 0.5");
    steps(&f, 3); // away from the first values: norms are not all 1
    if (ch_trainer_export(f.t, to, CH_TYPE_F32, false, vocab, NULL, 0, &e)) fail_msg("%s", e.msg);
    ch_model *m;
    if (ch_model_open(&m, to, &(ch_model_params){.tier = "ref", .n_threads = 1, .mtp = f.t->model.mtp.on}, &e)) fail_msg("%s", e.msg);
    check_engine(&f, m, (size_t)n_vocab, kinds[kind].name);
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
    double exact[N_STEPS], first = 0;
    grad_curve64(f.t, N_STEPS, exact);
    for (int i = 0; i < N_STEPS; i++) {
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

// Factors rounded to bf16 are off by 2^-9 each. The first loss is that of nearly even guesses, which small errors of the logits hardly
// move; the gradient is a sum of products through 8 roundings or so in a row. Where the processor has no such products: equal bits.
static void test_half(void **state) {
    (void)state;
    fixture a, b;
    open_fixture(&a, 0, 50, 2, ""), open_fixture(&b, 0, 50, 2, ", \"half\": true");
    const ch_train_step x = steps(&a, 1), y = steps(&b, 1);
    if (a.t->kern.gemm_half == a.t->kern.gemm) {
        assert_true(x.loss == y.loss && x.norm == y.norm);
    } else {
        assert_true(x.norm != y.norm);
        assert_true(fabs(x.loss - y.loss) <= 0x1p-9 * x.loss);
        assert_true(fabs(x.norm - y.norm) <= 8 * 0x1p-8 * x.norm);
    }
    close_fixture(&a), close_fixture(&b);
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
    check_config("{" MODEL DATA "\"trein\": {}}", "file: \"trein\": expected model, lora, data, weights, eval, train or run");
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
    enum { N_MORE = 7 };
    struct CMUnitTest test[2 * N_KINDS + N_MORE];
    static char name[2 * N_KINDS][64];
    size_t n = 0;
    for (size_t i = 0; i < N_KINDS; i++) {
        snprintf(name[2 * i], sizeof *name, "engine: %s", kinds[i].name);
        snprintf(name[2 * i + 1], sizeof *name, "20 steps: %s", kinds[i].name);
        test[n++] = (struct CMUnitTest){.name = name[2 * i], .test_func = test_engine, .initial_state = (void *)(intptr_t)i};
        test[n++] = (struct CMUnitTest){.name = name[2 * i + 1], .test_func = test_curve, .initial_state = (void *)(intptr_t)i};
    }
    const struct CMUnitTest more[N_MORE] = {cmocka_unit_test(test_resume), cmocka_unit_test(test_threads),   cmocka_unit_test(test_half),
                                            cmocka_unit_test(test_no_number), cmocka_unit_test(test_adam), cmocka_unit_test(test_damage),
                                            cmocka_unit_test(test_config)};
    memcpy(test + n, more, sizeof more);
    return _cmocka_run_group_tests("trainer", test, n + N_MORE, NULL, NULL);
}
