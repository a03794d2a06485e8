// 20 training steps of a tiny model against the losses of an independent implementation: PyTorch's automatic differentiation in
// double, the delta rule token by token (tools/make_train_golden.py, which states the same sizes and formulas).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/trainer.h"

enum { N_VOCAB = 23, N_CTX = 21, N_ROW = 2, BORDER = 9, N_STEPS = 20 };

static const double expected[N_STEPS] = {
    3.451915326, 3.404507910, 3.416874373, 3.401560812, 3.524234420, 3.143016886, 3.319316925, 3.328784595, 3.517873824, 3.433618724,
    3.282837429, 3.297032189, 3.256243283, 3.447088822, 3.242129512, 3.245814549, 3.158465268, 3.456477577, 3.300870367, 3.200310488};

static const char config[] =
    "{\"model\": {\"arch\": \"qwen35moe\", \"n_layer\": 2, \"n_embd\": 16, \"n_head\": 2, \"n_head_kv\": 1, \"d_head\": 8, \"n_rot\": 4, \"rope_base\": 100,"
    " \"attn_interval\": 2, \"ssm_heads_k\": 1, \"ssm_heads_v\": 3, \"ssm_d_state\": 4, \"n_expert\": 4, \"n_expert_used\": 2, \"n_ff_exp\": 6,"
    " \"n_ff_shexp\": 10, \"n_mtp\": 1},"
    " \"data\": {\"tokenizer\": \"x\", \"sources\": [{\"path\": \"x\"}], \"n_row\": 2, \"n_ctx\": 21},"
    " \"train\": {\"steps\": 20, \"rate\": 1e-3, \"warmup\": 0, \"schedule\": \"constant\", \"beta2\": 0.98, \"eps\": 1e-4, \"weight_decay\": 0.1, \"balance\": 0.02,"
    " \"mtp_weight\": 0.3}}";

typedef struct source {
    int step;
    int32_t token[N_ROW * (N_CTX + 2)], doc[N_ROW * (N_CTX + 2)];
    float weight[N_ROW * N_CTX];
} source;

static int next_batch(void *user, ch_train_batch *b, ch_error *e) {
    (void)e;
    source *s = user;
    for (int r = 0; r < N_ROW; r++)
        for (int t = 0; t < N_CTX + 2; t++) {
            s->token[r * (N_CTX + 2) + t] = (s->step * 5 + r * 3 + t * (t + 2 + r)) % N_VOCAB;
            s->doc[r * (N_CTX + 2) + t] = r == 1 && t >= BORDER;
            if (t < N_CTX) s->weight[r * N_CTX + t] = t % 4 == 3 ? 0 : t % 3 ? 1 : 0.5f;
        }
    s->step++;
    *b = (ch_train_batch){N_ROW, N_CTX, s->token, s->weight, s->doc};
    return 0;
}

static void test_steps(void **state) {
    (void)state;
    ch_train_config cfg;
    ch_trainer *t;
    ch_error e;
    source src = {0};
    const ch_train_feed feed = {.user = &src, .next = next_batch};
    if (ch_train_config_parse(&cfg, config, strlen(config), "test", &e) || ch_trainer_open(&t, &cfg, N_VOCAB, &feed, 2, &e)) fail_msg("%s", e.msg);
    for (size_t n = 0; n < t->model.n_tensor; n++) {
        const ch_train_tensor *x = &t->model.tensor[n];
        for (size_t i = 0; i < x->n; i++) {
            const double v = sin(12.9898 * (double)i + 78.233 * (double)n) * 0.5;
            t->w[x->off + i] = (float)(x->init == CH_TRAIN_ONES ? 1 + 0.2 * v : v);
        }
    }
    for (int i = 0; i < N_STEPS; i++) {
        ch_train_step s;
        if (ch_trainer_step(t, &s, &e)) fail_msg("%s", e.msg);
        if (!(fabs(s.loss - expected[i]) <= 1e-4)) fail_msg("step %d: loss %.9f, expected %.9f", i + 1, s.loss, expected[i]);
    }
    ch_trainer_close(&t);
    ch_train_config_free(&cfg);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
