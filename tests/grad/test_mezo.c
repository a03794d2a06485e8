// MeZO: its noise, losses without transposed copies, the slope against the gradient, a loss that falls, going on from a checkpoint,
// adapters, memory beside that of the inference engine.
// time limit: 240 s
#include <sys/wait.h>

#include "grad/cases.h"
#include "grad/fixture.h"

static const char gaussian[] = ", \"method\": \"mezo\"", rademacher[] = ", \"method\": \"mezo\", \"mezo_noise\": \"rademacher\"";

// ---- noise ------------------------------------------------------------------------------------------------------------------------
// Moments of n independent values: each mean lies within five deviations of its estimate.
static void test_noise(void **state) {
    (void)state;
    enum { N = 4096, KEYS = 256 };
    static float w[N], again[N], next[N];
    static uint8_t decay[N / CH_TRAIN_GRAIN];
    for (int signs = 0; signs < 2; signs++) {
        const ch_train_move_args a = {.along = 1, .signs = signs};
        double s1 = 0, s2 = 0, s4 = 0, near = 0, over = 0, tail = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            const uint64_t k = ch_hash64(&key, sizeof key, 7), l = k + 1;
            memset(w, 0, sizeof w), memset(again, 0, sizeof again), memset(next, 0, sizeof next);
            ch_train_move(&a, k, N, decay, w), ch_train_move(&a, k, N, decay, again), ch_train_move(&a, l, N, decay, next);
            assert_memory_equal(w, again, sizeof w);
            for (int i = 0; i < N; i++) {
                const double z = (double)w[i];
                s1 += z, s2 += z * z, s4 += z * z * z * z, tail += fabs(z) > 3;
                near += z * (double)w[(i + 1) % N], over += z * (double)next[i];
                if (signs) assert_true(z == 1 || z == -1);
            }
        }
        const double n = (double)N * KEYS, five = 5 / sqrt(n);
        assert_true(fabs(s1 / n) <= five && fabs(near / n) <= five && fabs(over / n) <= five);
        if (signs) continue;
        assert_true(fabs(s2 / n - 1) <= five * sqrt(2));
        assert_true(fabs(s4 / n - 3) <= five * sqrt(96));
        assert_true(fabs(tail / n - 0.0026998) <= five * sqrt(0.0027));
    }
    // Decay, and a step down.
    memset(w, 0, sizeof w), memset(again, 0, sizeof again);
    decay[1] = 1;
    ch_train_move(&(ch_train_move_args){.along = 1}, 5, N, decay, w);
    for (int i = 0; i < N; i++) again[i] = 2;
    ch_train_move(&(ch_train_move_args){.along = 0.5, .down = 0.125, .decay = 0.25}, 5, N, decay, again);
    for (int i = 0; i < N; i++) {
        const double z = (double)w[i], keep = i / CH_TRAIN_GRAIN == 1 ? 0.75 : 1;
        assert_true(fabs((double)again[i] - ((2 + 0.5 * z) * keep - 0.125 * z)) <= 8 * FLT_EPSILON * (2 + fabs(z)));
    }
    decay[1] = 0;
}

// ---- losses and slope ---------------------------------------------------------------------------------------------------------------
static void eval(fixture *f, uint64_t from, int n, double *loss, double *mtp) {
    ch_error e;
    source s = {.n_vocab = f->src.n_vocab, .at.index = from};
    const ch_train_feed feed = {&s, next_batch, get_state, set_state};
    if (ch_trainer_eval(f->t, &feed, n, loss, mtp, &e)) fail_msg("%s", e.msg);
}

// Turned products sum in the same order.
static void test_losses(void **state) {
    const int kind = (int)(intptr_t)*state;
    fixture a, b;
    double la, lb, ma, mb;
    open_fixture(&a, kind, 50, 1, ""), open_fixture(&b, kind, 50, 2, gaussian);
    assert_null(b.t->wt), assert_null(b.t->moment), assert_null(b.t->worker[0].grad);
    eval(&a, 3, 2, &la, &ma), eval(&b, 3, 2, &lb, &mb);
    assert_true(la == lb && (ma == mb || !a.t->model.mtp.on));
    close_fixture(&a), close_fixture(&b);
}

// The slope along z is z times the gradient. Its error: third derivatives, by eps^2; rounding of the losses, by 1 / eps.
static void test_slope(void **state) {
    const int kind = (int)(intptr_t)*state;
    for (int noise = 0; noise < 2; noise++) {
        fixture a, b;
        char train[160];
        open_fixture(&a, kind, 50, 1, ", \"clip\": 0");
        snprintf(train, sizeof train, "%s, \"clip\": 0, \"mezo_eps\": 3e-4, \"weight_decay\": 0", noise ? rademacher : gaussian);
        open_fixture(&b, kind, 50, 1, train);
        const size_t n = b.t->n_trained;
        float *w = ch_alloc_array(n, sizeof *w);
        assert_non_null(w);
        steps(&b, 1); // away from the first values
        memcpy(a.t->w, b.t->w, n * sizeof *w), memcpy(w, b.t->w, n * sizeof *w);
        a.src.at = b.src.at;
        const ch_train_step x = steps(&a, 1), y = steps(&b, 1);
        double product = 0, length = 0; // of the change, which is - rate * slope * z, and the gradient
        for (size_t i = 0; i < n; i++) {
            const double d = (double)b.t->w[i] - (double)w[i];
            product += d * (double)a.t->worker[0].grad[i], length += d * d;
        }
        const double slope = y.norm, want = -product / (y.rate * slope); // the sign of z is lost in the norm, and in the product too
        if (!(fabs(slope - want) <= 0.02 * x.norm)) fail_msg("%s: slope %.6g, gradient along z %.6g (length %.4g)", kinds[kind].name, slope, want, x.norm);
        if (!(fabs(sqrt(length) / (y.rate * slope) / sqrt((double)n) - 1) <= 0.1)) fail_msg("a direction of length %g", sqrt(length) / (y.rate * slope));
        assert_true(fabs(x.loss - y.loss) <= 0.01 * x.loss);
        ch_free(w);
        close_fixture(&a), close_fixture(&b);
    }
}

// ---- learning -----------------------------------------------------------------------------------------------------------------------
// On batches that were not trained on; both kinds of directions.
static void test_falls(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); // many steps like those of the other tests
#endif
    for (int noise = 0; noise < 2; noise++) {
        fixture f;
        char train[200];
        double before, after, mtp;
        snprintf(train, sizeof train, "%s, \"clip\": 0, \"schedule\": \"constant\"", noise ? rademacher : gaussian);
        open_fixture(&f, 2, 50, 2, train);
        f.cfg.rate = 3e-4;
        eval(&f, 1000000, 8, &before, &mtp);
        steps(&f, 700);
        eval(&f, 1000000, 8, &after, &mtp);
        print_message("%s: loss %.4f, after 700 steps %.4f\n", noise ? "rademacher" : "gaussian", before, after);
        if (!(after < before - 0.03)) fail_msg("the loss went from %.4f to %.4f", before, after);
        close_fixture(&f);
    }
}

static void test_resume(void **state) {
    (void)state;
    fixture a, b, c;
    ch_error e;
    ch_buf file = {0};
    const char *path = temp_path("checkpoint");
    open_fixture(&a, 0, 50, 2, gaussian);
    steps(&a, 3);
    if (ch_trainer_save(a.t, path, &e)) fail_msg("%s", e.msg);
    steps(&a, 4);
    open_fixture(&b, 0, 50, 2, gaussian);
    if (ch_trainer_load(b.t, path, &e)) fail_msg("%s", e.msg);
    steps(&b, 4);
    assert_memory_equal(a.t->w, b.t->w, a.t->n_trained * sizeof(float));
    if (ch_read_file(&file, path, &e)) fail_msg("%s", e.msg);
    assert_true(file.len < a.t->n_trained * sizeof(float) + 200); // weights, and nothing of that size
    ch_buf_free(&file);
    // Another step has another direction; another method does not read the checkpoint.
    open_fixture(&c, 0, 50, 2, "");
    assert_int_equal(ch_trainer_load(c.t, path, &e), CH_ESTATE);
    // The directions do not depend on the threads, and the losses hardly.
    fixture d;
    open_fixture(&d, 0, 50, 1, gaussian);
    steps(&d, 7);
    double off = 0, size = 0;
    for (size_t i = 0; i < d.t->n_trained; i++) off = fmax(off, fabs((double)d.t->w[i] - (double)a.t->w[i])), size = fmax(size, fabs((double)a.t->w[i]));
    assert_true(off <= 1e-3 * size);
    close_fixture(&a), close_fixture(&b), close_fixture(&c), close_fixture(&d);
    unlink(path);
}

static void test_no_number(void **state) {
    (void)state;
    fixture f;
    ch_error e;
    ch_train_step s;
    open_fixture(&f, 0, 50, 2, gaussian);
    steps(&f, 1);
    const size_t at = f.t->model.sub[3].u.moe.down;
    for (size_t i = 0; i < f.t->model.sub[3].u.moe.n_expert; i++) f.t->w[at + i * 48 * 24] = NAN;
    assert_int_equal(ch_trainer_step(f.t, &s, &e), CH_ESTATE);
    assert_string_equal(e.msg, "step 2: layer 1, experts: a value that is no number");
    close_fixture(&f);
}

static void test_config(void **state) {
    (void)state;
    static const struct {
        const char *train, *says;
    } bad[] = {{"\"method\": \"sgd\"", "expected adamw or mezo"}, {"\"method\": \"mezo\", \"mezo_noise\": \"pink\"", "expected gaussian or rademacher"},
               {"\"method\": \"mezo\", \"average\": 0.9", "train.average: not with method mezo"}, {"\"method\": \"mezo\", \"half\": true", "train.half: not with method mezo"}, {"\"mezo_eps\": 0", "train.mezo_eps: expected"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ch_train_config c;
        ch_error e;
        char text[1024];
        snprintf(text, sizeof text, "{\"model\": {\"arch\": \"mamba2\", %s}, \"data\": {\"tokenizer\": \"x\", \"sources\": [{\"path\": \"x\"}]}, \"train\": {\"steps\": 2, %s}}",
                 kinds[2].model, bad[i].train);
        assert_int_equal(ch_train_config_parse(&c, text, strlen(text), "test", &e), CH_ERANGE);
        if (!strstr(e.msg, bad[i].says)) fail_msg("%s", e.msg);
    }
}

// ---- beside a model file --------------------------------------------------------------------------------------------------------------
typedef struct files {
    char vocab[512], model[512];
    int32_t n_vocab;
    ch_gguf *base;
} files;

static void open_files(files *p, int kind, const char *model) {
    fixture f;
    ch_error e;
    ch_gguf *vocab;
    char text[1024];
    p->n_vocab = write_vocab(p->vocab);
    snprintf(p->model, sizeof p->model, "%s", temp_path("base"));
    if (ch_gguf_open(&vocab, p->vocab, &e)) fail_msg("%s", e.msg);
    snprintf(text, sizeof text, "{\"model\": {\"arch\": \"%s\", %s}, \"data\": {\"tokenizer\": \"x\", \"sources\": [{\"path\": \"x\"}], \"n_row\": %d, \"n_ctx\": %d},"
             "\"train\": {\"steps\": 20, \"method\": \"mezo\"}}", kinds[kind].name, model, N_ROW, N_CTX);
    open_text(&f, text, NULL, p->n_vocab, 1);
    if (ch_trainer_export(f.t, p->model, CH_TYPE_F32, false, vocab, NULL, 0, &e) || ch_gguf_open(&p->base, p->model, &e)) fail_msg("%s", e.msg);
    ch_gguf_close(&vocab);
    close_fixture(&f);
}

static void close_files(files *p) {
    ch_gguf_close(&p->base);
    unlink(p->vocab), unlink(p->model);
}

static void open_from(fixture *f, const files *p, const char *lora) {
    char text[1024];
    snprintf(text, sizeof text, "{\"model\": {\"from\": \"%s\"}, %s \"data\": {\"sources\": [{\"path\": \"x\"}], \"n_row\": %d, \"n_ctx\": %d},"
             "\"train\": {\"steps\": 20, \"method\": \"mezo\", \"rate\": 1e-3, \"warmup\": 0}}", p->model, lora, N_ROW, N_CTX);
    open_text(f, text, p->base, p->n_vocab, 2);
}

// Adapters alone move, and the loss with them.
static void test_adapters(void **state) {
    (void)state;
    files p;
    fixture f, g;
    double a, b, c, mtp;
    open_files(&p, 0, kinds[0].model);
    open_from(&f, &p, "\"lora\": {\"rank\": 4, \"alpha\": 6},"), open_from(&g, &p, "");
    eval(&f, 5, 1, &a, &mtp), eval(&g, 5, 1, &b, &mtp);
    assert_true(a == b); // B is zero
    const size_t n = f.t->model.n_frozen;
    float *w = ch_alloc_array(f.t->model.n_param, sizeof *w);
    assert_non_null(w);
    memcpy(w, f.t->w, f.t->model.n_param * sizeof *w);
    steps(&f, 3);
    assert_memory_equal(w, f.t->w, n * sizeof *w);
    size_t moved = 0;
    for (size_t i = 0; i < f.t->model.lora.n; i++) {
        const ch_train_mat *m = &f.t->model.lora.part[i].b;
        for (size_t k = m->off; k < m->off + m->n_out * m->n_in; k++) moved += f.t->w[k] != w[k];
    }
    assert_true(moved > 0);
    eval(&f, 5, 1, &c, &mtp);
    assert_true(c != a);
    ch_free(w);
    close_fixture(&f), close_fixture(&g);
    close_files(&p);
}

// Most memory of a child that runs fn, in KiB beyond what it begins with; 0: it cannot be measured here.
static size_t peak_of(void (*fn)(const files *), const files *p) {
    int end[2];
    size_t got = 0;
    assert_int_equal(pipe(end), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        size_t kib[2] = {0};
        for (int i = 0; i < 2; i++) {
            char line[256];
            FILE *s = fopen("/proc/self/status", "r");
            while (s && fgets(line, sizeof line, s))
                if (sscanf(line, i ? "VmHWM: %zu" : "VmRSS: %zu", &kib[i]) == 1) break;
            if (s) fclose(s);
            if (i == 0) fn(p);
        }
        const size_t more = kib[0] && kib[1] > kib[0] ? kib[1] - kib[0] : 0;
        _exit(write(end[1], &more, sizeof more) == (ssize_t)sizeof more ? 0 : 1);
    }
    close(end[1]);
    if (read(end[0], &got, sizeof got) != (ssize_t)sizeof got) got = 0;
    close(end[0]);
    int status;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("the child failed");
    return got;
}

static void run_train(const files *p) {
    fixture f;
    open_from(&f, p, "");
    steps(&f, 2);
    close_fixture(&f);
}

static void run_eval(const files *p) {
    fixture f;
    double loss, mtp;
    open_from(&f, p, "");
    eval(&f, 1, 2, &loss, &mtp);
    close_fixture(&f);
}

// The engine on the same rows, with no more than it needs: weights read where they lie in the file, a row's scores at a time.
static void run_engine(const files *p) {
    ch_error e;
    ch_model *m;
    ch_seq_pool *pool;
    ch_seq *s;
    source src = {.n_vocab = p->n_vocab};
    ch_train_batch b;
    if (ch_model_open(&m, p->model, &(ch_model_params){.n_threads = 2, .n_batch = N_CTX, .n_seq = 1, .no_repack = true}, &e)) fail_msg("%s", e.msg);
    float *logits = ch_alloc_array((size_t)N_CTX * (size_t)p->n_vocab, sizeof *logits);
    if (!logits || ch_seq_pool_create(&pool, ch_model_plan(m), &(ch_seq_limits){.n_seq = 1, .n_page = 4, .max_tokens = 128}, &e) || ch_seq_create(&s, pool, &e)) _exit(2);
    int32_t row[N_CTX];
    for (int32_t i = 0; i < N_CTX; i++) row[i] = i;
    next_batch(&src, &b, &e);
    for (int i = 0; i < N_ROW; i++) {
        const ch_segment seg = {.seq = s, .n_tok = N_CTX};
        if (ch_model_forward(m, &(ch_batch){b.token + i * (N_CTX + 2), N_CTX, &seg, 1, row, N_CTX}, logits, &e)) _exit(2);
        ch_seq_reset(s);
    }
    ch_free(logits);
    ch_seq_free(&s);
    ch_seq_pool_free(&pool);
    ch_model_close(&m);
}

static void test_memory(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    files p;
    open_files(&p, 1, "\"n_layer\": 12, \"n_embd\": 384, \"n_head\": 6, \"n_head_kv\": 2, \"d_head\": 64, \"n_rot\": 16, \"ssm_heads_k\": 4, \"ssm_heads_v\": 8, "
                      "\"ssm_d_state\": 48, \"n_ff\": 1152, \"tied\": false");
    const size_t train = peak_of(run_train, &p), own = peak_of(run_eval, &p), engine = peak_of(run_engine, &p);
    struct {
        fixture f;
    } *x = ch_alloc(sizeof *x);
    assert_non_null(x);
    open_from(&x->f, &p, "");
    print_message("%zu parameters, %zu KiB: MeZO takes %zu KiB, evaluation %zu, the engine %zu\n", x->f.t->model.n_param, x->f.t->model.n_param / 256, train, own, engine);
    assert_true(ch_trainer_bytes(x->f.t) < x->f.t->model.n_param * sizeof(float) * 11 / 10);
    close_fixture(&x->f);
    ch_free(x);
    close_files(&p);
    if (!train || !own || !engine) skip();
    assert_true(train * 10 <= own * 11);
    assert_true(train * 10 <= engine * 11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise),
        {"losses: qwen35moe", test_losses, NULL, NULL, (void *)0}, {"losses: qwen35", test_losses, NULL, NULL, (void *)1},
        {"losses: mamba2", test_losses, NULL, NULL, (void *)2}, {"losses: nemotron_h_moe", test_losses, NULL, NULL, (void *)3},
        {"slope: qwen35", test_slope, NULL, NULL, (void *)1}, {"slope: mamba2", test_slope, NULL, NULL, (void *)2},
        cmocka_unit_test(test_falls), cmocka_unit_test(test_resume), cmocka_unit_test(test_no_number), cmocka_unit_test(test_config),
        cmocka_unit_test(test_adapters), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests_name("mezo", tests, NULL, NULL);
}
