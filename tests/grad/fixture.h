// Trainers of small models of all families over made-up batches, for tests; and the engine on files that they write.
#ifndef GRAD_FIXTURE_H
#define GRAD_FIXTURE_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "synth/synth.h"
#include "train/trainer.h"

enum { N_ROW = 3, N_CTX = 75 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { N_STEPS = 5 }; // of a curve: the arithmetic is the same at every step
#else
enum { N_STEPS = 20 };
#endif

// ---- a source of batches ----------------------------------------------------------------------------------------------------------
typedef struct source {
    ch_train_data_state at;
    int32_t n_vocab;
    int32_t token[N_ROW * (N_CTX + 2)], doc[N_ROW * (N_CTX + 2)];
    float weight[N_ROW * N_CTX];
} source;

static inline int next_batch(void *user, ch_train_batch *b, ch_error *e) {
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
static inline void get_state(void *user, ch_train_data_state *at) { *at = ((source *)user)->at; }
static inline int set_state(void *user, const ch_train_data_state *at, ch_error *e) {
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

// text: the configuration. base: the file that it speaks of in model.from, or NULL.
static inline void open_text(fixture *f, const char *text, const ch_gguf *base, int32_t n_vocab, int n_threads) {
    ch_error e;
    memset(f, 0, sizeof *f);
    if (ch_train_config_parse(&f->cfg, text, strlen(text), "test", &e)) fail_msg("%s", e.msg);
    if (base && ch_train_read_shape(&f->cfg.model, base, &e)) fail_msg("%s", e.msg);
    f->src.n_vocab = n_vocab;
    f->feed = (ch_train_feed){&f->src, next_batch, get_state, set_state};
    if (ch_trainer_open(&f->t, &f->cfg, n_vocab, &f->feed, n_threads, &e)) fail_msg("%s", e.msg);
    if (base && ch_trainer_set_base(f->t, base, &e)) fail_msg("%s", e.msg);
}

static inline void open_fixture(fixture *f, int kind, int32_t n_vocab, int n_threads, const char *train) {
    char text[2048];
    snprintf(text, sizeof text,
             "{\"model\": {\"arch\": \"%s\", %s}, \"data\": {\"tokenizer\": \"x\", \"sources\": [{\"path\": \"x\"}], \"n_row\": %d, \"n_ctx\": %d},"
             "\"train\": {\"steps\": 20, \"rate\": 1e-2, \"warmup\": 3%s}}",
             kinds[kind].name, kinds[kind].model, N_ROW, N_CTX, train);
    open_text(f, text, NULL, n_vocab, n_threads);
}

static inline void close_fixture(fixture *f) {
    ch_trainer_close(&f->t);
    ch_train_config_free(&f->cfg);
}

static inline ch_train_step steps(fixture *f, int n) {
    ch_train_step s = {0};
    ch_error e;
    for (int i = 0; i < n; i++)
        if (ch_trainer_step(f->t, &s, &e)) fail_msg("%s", e.msg);
    return s;
}

static inline const char *temp_path(const char *name) {
    static char path[512];
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/%s-%d", dir ? dir : "/tmp", name, (int)getpid());
    return path;
}

// ---- the engine on an exported file -----------------------------------------------------------------------------------------------
static inline void own_logits(fixture *f, const int32_t *token, const int32_t *start, size_t n, float *logits, float *mtp) {
    ch_trainer *t = f->t;
    ch_train_ctx c = {.kern = &t->kern, .w = t->w, .wt = t->wt, .rope = t->rope, .n_tok = n, .start = start, .dry = true};
    c.lora = t->model.lora.n ? &t->model.lora : NULL;
    c.low = ch_alloc_array(2 * n * t->model.lora.rank, sizeof *c.low);
    const float none[N_CTX] = {0};
    const ch_train_row_args a = {.token = token, .weight = none, .mtp_weight = 1, .logits = logits, .mtp_logits = t->model.mtp.on ? mtp : NULL};
    ch_train_row_result r;
    ch_train_transpose_all(&c, &t->model, t->w, t->wt, 0, t->model.n_mat);
    ch_train_row(&c, &t->model, &a, &r);
    uint8_t *stack = ch_alloc_aligned(c.peak, 64);
    assert_non_null(stack);
    c.base = stack, c.dry = false, c.used = 0;
    ch_train_row(&c, &t->model, &a, &r);
    ch_free(stack), ch_free(c.low);
}

static inline double worst(const float *a, const float *b, size_t n) {
    double m = 0;
    for (size_t i = 0; i < n; i++) m = fmax(m, fabs((double)a[i] - (double)b[i]));
    return m;
}

// Rows of a document through the engine; with drafts, those of the MTP block too, at every position but the first.
static inline void engine_logits(ch_model *m, const int32_t *token, size_t n, size_t v, float *logits, float *mtp) {
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

// The trainer's logits against those of the engine with the model, over two documents; drafts of the MTP block too.
static inline void check_engine(fixture *f, ch_model *m, size_t v, const char *name) {
    int32_t token[N_CTX + 1], start[N_CTX];
    const size_t border = 31;
    for (size_t i = 0; i < N_CTX; i++) token[i] = (int32_t)((i * i + 3 * i) % v), start[i] = i < border ? 0 : (int32_t)border;
    token[N_CTX] = 0;
    float *own = ch_alloc_array(4 * N_CTX * v, sizeof *own), *own_mtp = own + N_CTX * v, *ref = own_mtp + N_CTX * v, *ref_mtp = ref + N_CTX * v;
    assert_non_null(own);
    own_logits(f, token, start, N_CTX, own, own_mtp);
    const bool mtp = f->t->model.mtp.on;
    engine_logits(m, token, border, v, ref, mtp ? ref_mtp : NULL);
    engine_logits(m, token + border, N_CTX - border, v, ref + border * v, mtp ? ref_mtp + border * v : NULL);
    double size = 0;
    for (size_t i = 0; i < N_CTX * v; i++) size = fmax(size, fabs((double)ref[i]));
    // Every sub-layer rounds its rows of some 50 sums a few times: eps sqrt(50) each, on values of the size of the logits.
    const double most = 8 * FLT_EPSILON * sqrt(50) * (double)f->t->model.n_sub * size;
    const double off = worst(own, ref, N_CTX * v);
    if (!(off <= most)) fail_msg("%s: logits off by %.3g, allowed %.3g (size %.3g)", name, off, most, size);
    for (size_t i = 0; i < N_CTX && mtp; i++) {
        if (i == 0 || i == border) continue;
        const double d = worst(own_mtp + i * v, ref_mtp + i * v, v);
        if (!(d <= most)) fail_msg("%s: position %zu: draft off by %.3g, allowed %.3g", name, i, d, most);
    }
    ch_free(own);
}

// A file with a vocabulary. Returns its size; path: [512].
static inline int32_t write_vocab(char *path) {
    ch_error e;
    ch_synth_shape shape;
    snprintf(path, 512, "%s", temp_path("vocab"));
    if (ch_synth_preset(&shape, "qwen35", "tiny", &e) || ch_synth_write(path, &shape, CH_TYPE_F32, 1, NULL, NULL, &e)) fail_msg("%s", e.msg);
    return shape.n_vocab;
}

#endif
