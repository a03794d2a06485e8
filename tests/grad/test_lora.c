// Training that begins with a model file: its weights as they were written; low-rank adapters beside them, which alone change; the
// engine with them, and with the merged model, gives the trainer's logits.
// time limit: 240 s
#include "grad/cases.h"
#include "grad/fixture.h"

typedef struct files {
    char vocab[512], model[512], adapter[512], checkpoint[512];
    int32_t n_vocab;
    ch_gguf *base;
} files;

// A model trained for three steps, as a file.
static void open_files(files *p, int kind) {
    fixture f;
    ch_error e;
    ch_gguf *vocab;
    p->n_vocab = write_vocab(p->vocab);
    snprintf(p->model, sizeof p->model, "%s", temp_path("base"));
    snprintf(p->adapter, sizeof p->adapter, "%s", temp_path("adapter"));
    snprintf(p->checkpoint, sizeof p->checkpoint, "%s", temp_path("checkpoint"));
    if (ch_gguf_open(&vocab, p->vocab, &e)) fail_msg("%s", e.msg);
    open_fixture(&f, kind, p->n_vocab, 1, "");
    steps(&f, 3);
    if (ch_trainer_export(f.t, p->model, CH_TYPE_F32, false, vocab, NULL, 0, &e) || ch_gguf_open(&p->base, p->model, &e)) fail_msg("%s", e.msg);
    ch_gguf_close(&vocab);
    close_fixture(&f);
}

static void close_files(files *p) {
    ch_gguf_close(&p->base);
    unlink(p->vocab), unlink(p->model), unlink(p->adapter), unlink(p->checkpoint);
}

static void open_from(fixture *f, const files *p, const char *lora, int n_threads, const char *train) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"model\": {\"from\": \"%s\"}, %s \"data\": {\"sources\": [{\"path\": \"x\"}], \"n_row\": %d, \"n_ctx\": %d},"
             "\"train\": {\"steps\": 20, \"rate\": 1e-2, \"warmup\": 3%s}}", p->model, lora, N_ROW, N_CTX, train);
    open_text(f, text, p->base, p->n_vocab, n_threads);
}

static const char every[] = "\"lora\": {\"rank\": 4, \"alpha\": 6},";

// Every weight comes back bit for bit, but for decays, which go through an exponential and a logarithm; the first loss is that
// of the trainer that wrote the file.
static void test_from(void **state) {
    const int kind = (int)(intptr_t)*state;
    files p;
    fixture a, b, c;
    open_files(&p, kind);
    open_fixture(&a, kind, p.n_vocab, 1, "");
    steps(&a, 3);
    open_from(&b, &p, "", 1, ", \"average\": 0.5");
    assert_int_equal(a.t->model.n_param, b.t->model.n_param);
    for (size_t i = 0; i < a.t->model.n_tensor; i++) {
        const ch_train_tensor *t = &a.t->model.tensor[i];
        for (size_t k = t->off; k < t->off + t->n; k++) {
            const double most = t->init == CH_TRAIN_DECAY ? 4 * FLT_EPSILON * (1 + fabs((double)a.t->w[k])) : 0;
            if (!(fabs((double)a.t->w[k] - (double)b.t->w[k]) <= most)) fail_msg("%s: value %zu is %g, expected %g", t->name, k - t->off, (double)b.t->w[k], (double)a.t->w[k]);
        }
    }
    assert_memory_equal(b.t->mean, b.t->w, b.t->n_trained * sizeof(float));
    b.src.at = a.src.at;
    open_from(&c, &p, every, 1, ""); // B is zero: the same model
    c.src.at = a.src.at;
    const ch_train_step x = steps(&a, 1), y = steps(&b, 1), z = steps(&c, 1);
    assert_true(fabs(x.loss - y.loss) <= 1e-5 * x.loss);
    assert_true(fabs(z.loss - y.loss) <= 1e-6 * x.loss);
    close_fixture(&a), close_fixture(&b), close_fixture(&c);
    close_files(&p);
}

// Adapters learn, in float as in double, and nothing else changes; with less memory than training all.
static void test_curve(void **state) {
    const int kind = (int)(intptr_t)*state;
    files p;
    fixture f, g, all;
    open_files(&p, kind);
    open_from(&f, &p, every, 2, ""), open_from(&g, &p, every, 2, ", \"recompute\": true"), open_from(&all, &p, "", 2, "");
    const size_t frozen = f.t->model.n_frozen, n = f.t->n_trained;
    assert_true(frozen == all.t->n_trained && n < frozen / 2);
    assert_true(ch_trainer_bytes(f.t) < ch_trainer_bytes(all.t));
    float *w = ch_alloc_array(frozen, sizeof *w);
    assert_non_null(w);
    memcpy(w, f.t->w, frozen * sizeof *w);
    double exact[N_STEPS];
    all.src.at.index = N_STEPS - 1;
    const double before = steps(&all, 1).loss; // of the base on the last batch
    grad_curve64(f.t, N_STEPS, exact);
    for (int i = 0; i < N_STEPS; i++) {
        const ch_train_step s = steps(&f, 1);
        if (!(fabs(s.loss - exact[i]) <= 1e-4 * exact[i])) fail_msg("%s: step %d: loss %.9g, in double %.9g", kinds[kind].name, i + 1, s.loss, exact[i]);
        if (i == 19 && !(s.loss < 0.99 * before)) // not reached under a sanitizer
            fail_msg("%s: loss %.4g after 20 steps, %.4g before", kinds[kind].name, s.loss, before);
    }
    assert_memory_equal(w, f.t->w, frozen * sizeof *w);
    steps(&g, N_STEPS);
    assert_memory_equal(f.t->w, g.t->w, f.t->model.n_param * sizeof *w);
    ch_free(w);
    close_fixture(&f), close_fixture(&g), close_fixture(&all);
    close_files(&p);
}

// ---- the engine with the exported adapter, and with the merged model ------------------------------------------------------------------
static const char *const subsets[] = {
    "\"lora\": {\"rank\": 4, \"alpha\": 6},",
    "\"lora\": {\"rank\": 3, \"alpha\": 6, \"targets\": [\"attn_k\", \"ffn_gate_inp\", \"ffn_gate_exps\", \"ffn_up_exps\", \"ffn_down_exps\", \"ssm_alpha\", \"ssm_beta\", "
    "\"ffn_down_shexp\", \"nextn.eh_proj\"]},",
    "\"lora\": {\"rank\": 2, \"alpha\": 6, \"targets\": [\"output\", \"attn_qkv\", \"attn_output\", \"ffn_up\"]},",
    "\"lora\": {\"rank\": 5, \"alpha\": 6, \"targets\": [\"ssm_in\"]},",
    "\"lora\": {\"rank\": 1, \"alpha\": 6, \"targets\": [\"ssm_out\", \"attn_v\", \"ffn_down_exps\", \"ffn_gate_inp\", \"ffn_up_shexp\"]},",
};
typedef struct engine_case {
    int kind, subset;
} engine_case;
static const engine_case engines[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}};
enum { N_ENGINES = sizeof engines / sizeof *engines };

static ch_model *open_engine(const char *path, const char *adapter, bool mtp) {
    ch_error e;
    ch_model *m;
    if (ch_model_open(&m, path, &(ch_model_params){.tier = "ref", .n_threads = 1, .mtp = mtp, .lora = {{adapter, 1}}, .n_lora = adapter != NULL}, &e)) fail_msg("%s", e.msg);
    return m;
}

static void test_adapter(void **state) {
    const engine_case *k = *state;
    files p;
    fixture f;
    ch_error e;
    ch_gguf *g;
    open_files(&p, k->kind);
    open_from(&f, &p, subsets[k->subset], 1, ", \"average\": 0.5, \"mtp_weight\": 1");
    steps(&f, 4);
    const bool mtp = f.t->model.mtp.on;
    if (ch_trainer_export_adapter(f.t, p.adapter, false, &e) || ch_gguf_open(&g, p.adapter, &e)) fail_msg("%s", e.msg);
    assert_int_equal(ch_gguf_n_tensors(g), f.t->model.n_tensor - f.t->model.n_frozen_tensor);
    ch_gguf_close(&g);
    ch_model *m = open_engine(p.model, p.adapter, mtp);
    check_engine(&f, m, (size_t)p.n_vocab, "adapter");
    ch_model_close(&m);
    ch_gguf *vocab;
    char merged[512];
    snprintf(merged, sizeof merged, "%s", temp_path("merged"));
    if (ch_gguf_open(&vocab, p.vocab, &e) || ch_trainer_export(f.t, merged, CH_TYPE_F32, false, vocab, NULL, 0, &e)) fail_msg("%s", e.msg);
    m = open_engine(merged, NULL, mtp);
    check_engine(&f, m, (size_t)p.n_vocab, "merged");
    ch_model_close(&m);
    // The average, in both files.
    if (ch_trainer_export_adapter(f.t, p.adapter, true, &e) || ch_trainer_export(f.t, merged, CH_TYPE_F32, true, vocab, NULL, 0, &e)) fail_msg("%s", e.msg);
    memcpy(f.t->w + f.t->model.n_frozen, f.t->mean, f.t->n_trained * sizeof(float));
    m = open_engine(p.model, p.adapter, mtp);
    check_engine(&f, m, (size_t)p.n_vocab, "adapter, average");
    ch_model_close(&m);
    m = open_engine(merged, NULL, mtp);
    check_engine(&f, m, (size_t)p.n_vocab, "merged, average");
    ch_model_close(&m);
    if (mtp) { // a part that is left out: its adapters too
        m = open_engine(p.model, p.adapter, false);
        ch_model_close(&m);
    }
    ch_gguf_close(&vocab);
    close_fixture(&f);
    close_files(&p);
    unlink(merged);
}

static void test_resume(void **state) {
    (void)state;
    files p, q;
    fixture a, b, other;
    ch_error e;
    open_files(&p, 0);
    open_from(&a, &p, every, 2, ", \"average\": 0.9");
    steps(&a, 3);
    if (ch_trainer_save(a.t, p.checkpoint, &e)) fail_msg("%s", e.msg);
    steps(&a, 4);
    open_from(&b, &p, every, 2, ", \"average\": 0.9");
    if (ch_trainer_load(b.t, p.checkpoint, &e)) fail_msg("%s", e.msg);
    steps(&b, 4);
    assert_memory_equal(a.t->w, b.t->w, a.t->model.n_param * sizeof(float));
    assert_memory_equal(a.t->moment, b.t->moment, a.t->n_trained * sizeof(float));
    assert_memory_equal(a.t->square, b.t->square, a.t->n_trained * sizeof(float));
    assert_memory_equal(a.t->mean, b.t->mean, a.t->n_trained * sizeof(float));
    close_fixture(&a);
    // Another factor, other targets, another base.
    static const char *const lora[] = {"\"lora\": {\"rank\": 4, \"alpha\": 5},", "\"lora\": {\"rank\": 4, \"alpha\": 6, \"targets\": [\"attn_q\"]},",
                                       "\"lora\": {\"rank\": 5, \"alpha\": 6},"};
    for (size_t i = 0; i < 3; i++) {
        open_from(&other, &p, lora[i], 1, ", \"average\": 0.9");
        assert_int_equal(ch_trainer_load(other.t, p.checkpoint, &e), CH_ESTATE);
        close_fixture(&other);
    }
    b.t->w[5] = 7;
    ch_gguf *vocab;
    q = p;
    snprintf(q.model, sizeof q.model, "%s", temp_path("base2"));
    if (ch_gguf_open(&vocab, p.vocab, &e) || ch_trainer_export(b.t, q.model, CH_TYPE_F32, false, vocab, NULL, 0, &e) || ch_gguf_open(&q.base, q.model, &e))
        fail_msg("%s", e.msg);
    open_from(&other, &q, every, 1, ", \"average\": 0.9");
    assert_int_equal(ch_trainer_load(other.t, p.checkpoint, &e), CH_ESTATE);
    close_fixture(&other), close_fixture(&b);
    ch_gguf_close(&vocab), ch_gguf_close(&q.base);
    unlink(q.model);
    close_files(&p);
}

// ---- what is refused ----------------------------------------------------------------------------------------------------------------
static void refused(const files *p, const char *lora, const char *error) {
    char text[1024];
    ch_train_config c;
    ch_trainer *t = NULL;
    ch_error e = {0};
    snprintf(text, sizeof text, "{\"model\": {\"from\": \"x\"}, %s \"data\": {\"sources\": [{\"path\": \"x\"}]}, \"train\": {\"steps\": 1}}", lora);
    int rc = ch_train_config_parse(&c, text, strlen(text), "file", &e);
    const bool parsed = rc == 0;
    if (rc == 0) rc = ch_train_read_shape(&c.model, p->base, &e);
    if (rc == 0) rc = ch_trainer_open(&t, &c, p->n_vocab, NULL, 1, &e);
    if (!error && rc) fail_msg("%s: %s", lora, e.msg);
    if (error && (!rc || strcmp(e.msg, error) != 0)) fail_msg("\"%s\", expected \"%s\"", e.msg, error);
    ch_trainer_close(&t);
    if (parsed) ch_train_config_free(&c);
}

static void test_refused(void **state) {
    (void)state;
    files p;
    open_files(&p, 0);
    refused(&p, "\"lora\": {\"rank\": 1},", NULL);
    refused(&p, "\"lora\": {\"rank\": 1024},", NULL);
    refused(&p, "\"lora\": {\"rank\": 1025},", "file: lora.rank: expected a whole number from 0 to 1024");
    refused(&p, "\"lora\": {\"rank\": -1},", "file: lora.rank: expected a whole number from 0 to 1024");
    refused(&p, "\"lora\": {\"rank\": 2, \"alpha\": 0},", "file: lora.alpha: expected a number from 0.001 to 1e+06");
    refused(&p, "\"lora\": {\"rank\": 2, \"targets\": []},", "file: lora.targets: expected an array of texts");
    refused(&p, "\"lora\": {\"rank\": 2, \"targets\": [1]},", "file: lora.targets[0]: expected a text");
    refused(&p, "\"lora\": {\"rank\": 2, \"targets\": [\"attn_q\", \"attn_x\"]},",
            "lora.targets \"attn_x\": no matrix of this model, or none that can be adapted");
    refused(&p, "\"lora\": {\"rank\": 2, \"targets\": [\"token_embd\"]},",
            "lora.targets \"token_embd\": no matrix of this model, or none that can be adapted");
    refused(&p, "\"lora\": {\"rank\": 2, \"targets\": [\"nextn.eh_proj\", \"ffn_gate_inp\"]},", NULL);
    char text[8192] = "\"lora\": {\"rank\": 2, \"targets\": [\"attn_q\"";
    for (int i = 1; i < CH_TRAIN_MAX_TARGETS; i++) strcat(text, ",\"a\"");
    assert_true(strlen(text) < 900);
    strcat(text, "]},");
    refused(&p, text, "lora.targets \"a\": no matrix of this model, or none that can be adapted");
    text[strlen(text) - 3] = 0;
    strcat(text, ",\"a\"]},");
    refused(&p, text, "file: lora.targets: more than 64");
    close_files(&p);
}

// A file with one thing changed.
static void check_changed(const files *p, const char *drop_key, const char *drop_tensor, const char *add_tensor, const char *nan_tensor, const char *error) {
    ch_gguf_writer *w;
    ch_gguf *g;
    ch_error e = {0};
    char path[512];
    const size_t n = ch_gguf_n_tensors(p->base);
    snprintf(path, sizeof path, "%s", temp_path("changed"));
    if (ch_gguf_writer_open(&w, path, &e)) fail_msg("%s", e.msg);
    for (size_t i = 0; i < ch_gguf_n_kv(p->base); i++) {
        const ch_gguf_kv *kv = ch_gguf_kv_at(p->base, i);
        if (!drop_key || strcmp(kv->key, drop_key) != 0) assert_int_equal(ch_gguf_put_kv(w, p->base, kv), 0);
    }
    for (size_t i = 0; i < n; i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(p->base, i);
        if (!drop_tensor || strcmp(t->name, drop_tensor) != 0) assert_int_equal(ch_gguf_put_tensor(w, t->name, t->type->id, t->n_dims, t->ne), 0);
    }
    if (add_tensor) assert_int_equal(ch_gguf_put_tensor(w, add_tensor, CH_TYPE_F32, 1, (uint64_t[]){4}), 0);
    for (size_t i = 0; i < n; i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(p->base, i);
        if (drop_tensor && strcmp(t->name, drop_tensor) == 0) continue;
        float *v = malloc(t->size);
        assert_non_null(v);
        memcpy(v, t->data, t->size);
        if (nan_tensor && strcmp(t->name, nan_tensor) == 0) v[1] = NAN;
        if (ch_gguf_write_data(w, v, t->size, &e)) fail_msg("%s", e.msg);
        free(v);
    }
    if ((add_tensor && ch_gguf_write_data(w, (float[4]){0}, 16, &e)) || ch_gguf_writer_commit(&w, &e) || ch_gguf_open(&g, path, &e)) fail_msg("%s", e.msg);
    ch_train_shape s;
    ch_train_model m = {0};
    int rc = ch_train_read_shape(&s, g, &e);
    m.shape = s;
    if (rc == 0) rc = ch_train_build(&m, &e);
    float *v = ch_alloc_array(m.n_param, sizeof *v);
    if (rc == 0) rc = ch_train_read_weights(&m, g, v, &e);
    if (!error && rc) fail_msg("%s", e.msg);
    if (error && (!rc || !strstr(e.msg, error))) fail_msg("\"%s\", expected \"%s\"", e.msg, error);
    ch_free(v);
    ch_train_model_free(&m);
    ch_gguf_close(&g);
    unlink(path);
}

static void test_files(void **state) {
    (void)state;
    files p;
    open_files(&p, 0);
    check_changed(&p, NULL, NULL, NULL, NULL, NULL);
    check_changed(&p, "qwen35moe.embedding_length", NULL, NULL, NULL, "key qwen35moe.embedding_length is missing");
    check_changed(&p, "qwen35moe.expert_used_count", NULL, NULL, NULL, "key qwen35moe.expert_used_count is missing");
    check_changed(&p, "qwen35moe.ssm.group_count", NULL, NULL, NULL, "tensor blk.0.attn_qkv.weight has shape [48, 160, 1], expected [48, 128, 1]");
    check_changed(&p, NULL, "blk.1.attn_k.weight", NULL, NULL, "tensor blk.1.attn_k.weight is missing");
    check_changed(&p, NULL, NULL, "blk.1.attn_k.bias", NULL, "tensor blk.1.attn_k.bias has no place in a model that can be trained");
    check_changed(&p, NULL, NULL, NULL, "blk.0.ssm_a", "tensor blk.0.ssm_a: value 1 is nan");
    check_changed(&p, NULL, NULL, NULL, "blk.3.ffn_up_exps.weight", "tensor blk.3.ffn_up_exps.weight: value 1 is");
    check_changed(&p, NULL, "blk.4.nextn.shared_head_norm.weight", NULL, NULL, NULL); // the trunk's serves
    close_files(&p);
}

int main(void) {
    struct CMUnitTest test[2 * N_KINDS + N_ENGINES + 3];
    static char name[2 * N_KINDS][64];
    size_t n = 0;
    for (size_t i = 0; i < N_KINDS; i++) {
        snprintf(name[2 * i], sizeof *name, "from a file: %s", kinds[i].name);
        snprintf(name[2 * i + 1], sizeof *name, "20 steps: %s", kinds[i].name);
        test[n++] = (struct CMUnitTest){.name = name[2 * i], .test_func = test_from, .initial_state = (void *)(intptr_t)i};
        test[n++] = (struct CMUnitTest){.name = name[2 * i + 1], .test_func = test_curve, .initial_state = (void *)(intptr_t)i};
    }
    for (size_t i = 0; i < N_ENGINES; i++)
        test[n++] = (struct CMUnitTest){.name = kinds[engines[i].kind].name, .test_func = test_adapter, .initial_state = (void *)(uintptr_t)&engines[i]};
    const struct CMUnitTest more[] = {cmocka_unit_test(test_resume), cmocka_unit_test(test_refused), cmocka_unit_test(test_files)};
    memcpy(test + n, more, sizeof more);
    return _cmocka_run_group_tests("lora", test, n + 3, NULL, NULL);
}
