// Hidden rows taken from a step, and their pooling to an embedding.
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

enum { N_TOK = 20 };

// Pooled vector of the rows, cut in pieces; checked for length 1 and, but for scale, against `want`.
static void check_pooled(ch_pooling_kind kind, const float *rows, size_t n, const double *want) {
    static const size_t cut[][3] = {{N_TOK, 0, 0}, {1, 18, 1}, {7, 0, 13}};
    float *v = calloc(n, sizeof *v), *first = calloc(n, sizeof *first);
    double norm = 0;
    for (size_t k = 0; k < n; k++) norm += want[k] * want[k];
    for (size_t c = 0; c < 3; c++) {
        ch_pooling p;
        ch_error e = {0};
        ch_pooling_begin(&p, kind, v, n);
        for (size_t i = 0, at = 0; i < 3; at += cut[c][i++]) ch_pooling_push(&p, rows + at * n, cut[c][i]);
        assert_int_equal(ch_pooling_finish(&p, &e), 0);
        double length = 0;
        for (size_t k = 0; k < n; k++) {
            length += (double)v[k] * v[k];
            assert_true(fabs(v[k] - want[k] / sqrt(norm)) < 1e-5); // 20 terms in f32
        }
        assert_true(fabs(length - 1) < 1e-5);
        if (c == 0) memcpy(first, v, n * sizeof *v);
        assert_memory_equal(first, v, n * sizeof *v);
    }
    free(v), free(first);
}

static void test_hidden_and_pooling(void **state) {
    (void)state;
    char path[64];
    ch_error e = {0};
    ch_synth_shape shape;
    snprintf(path, sizeof path, "/tmp/chimere_pooling_%d.gguf", (int)getpid());
    assert_int_equal(ch_synth_preset(&shape, "qwen35", "tiny", &e), 0);
    if (ch_synth_write(path, &shape, CH_TYPE_F32, 3, NULL, NULL, &e)) fail_msg("%s", e.msg);
    ch_model *m = NULL;
    if (ch_model_open(&m, path, &(ch_model_params){.tier = "ref", .n_batch = N_TOK}, &e)) fail_msg("%s", e.msg);
    const ch_model_info *info = ch_model_get_info(m);
    size_t d = (size_t)info->n_embd, v = (size_t)info->n_vocab;
    ch_seq_pool *pool = NULL;
    if (ch_seq_pool_create(&pool, ch_model_plan(m), &(ch_seq_limits){2, 0, 4, 64}, &e)) fail_msg("%s", e.msg);
    ch_seq *a = NULL, *b = NULL;
    assert_int_equal(ch_seq_create(&a, pool, &e) || ch_seq_create(&b, pool, &e), 0);
    int32_t token[N_TOK], all[N_TOK];
    for (int i = 0; i < N_TOK; i++) token[i] = 30 + 7 * i % 200, all[i] = i;
    float *hidden = calloc(N_TOK * d, 4), *other = calloc(N_TOK * d, 4), *logits = calloc(N_TOK * v, 4);
    ch_segment sa = {.seq = a, .n_tok = N_TOK}, sb = {.seq = b, .n_tok = N_TOK};
    ch_batch batch = {.token = token, .n_row = N_TOK, .seg = &sa, .n_seg = 1, .out_row = all, .n_out = N_TOK, .hidden = hidden};
    if (ch_model_forward(m, &batch, logits, &e)) fail_msg("%s", e.msg);
    batch.seg = &sb, batch.hidden = other; // rows alone, without the head
    if (ch_model_forward(m, &batch, NULL, &e)) fail_msg("%s", e.msg);
    assert_memory_equal(hidden, other, N_TOK * d * 4);

    // The rows are what the head is applied to: head times row gives the logits.
    const ch_gguf *g = ch_model_gguf(m);
    const ch_gguf_tensor *head = ch_gguf_find_tensor(g, "output.weight");
    if (!head) head = ch_gguf_find_tensor(g, "token_embd.weight");
    for (size_t i = 0; i < N_TOK; i += 6)
        for (size_t t = 0; t < v; t += 31) {
            double sum = 0;
            for (size_t k = 0; k < d; k++) sum += (double)((const float *)head->data)[t * d + k] * hidden[i * d + k];
            assert_true(fabs(sum - logits[i * v + t]) <= 1e-5 * (fabs(sum) + 1));
        }

    double *want = calloc(d, sizeof *want);
    for (size_t k = 0; k < d; k++) want[k] = hidden[k];
    check_pooled(CH_POOLING_CLS, hidden, d, want);
    for (size_t k = 0; k < d; k++) want[k] = hidden[(N_TOK - 1) * d + k];
    check_pooled(CH_POOLING_LAST, hidden, d, want);
    for (size_t k = 0; k < d; k++) {
        want[k] = 0;
        for (size_t i = 0; i < N_TOK; i++) want[k] += hidden[i * d + k];
    }
    check_pooled(CH_POOLING_MEAN, hidden, d, want);
    free(want), free(hidden), free(other), free(logits);
    ch_seq_free(&a), ch_seq_free(&b), ch_seq_pool_free(&pool), ch_model_close(&m);
    unlink(path);
}

static void test_refusals(void **state) {
    (void)state;
    float sum[4], zero[8] = {0}, bad[4] = {1, NAN, 0, 0};
    ch_pooling p;
    ch_error e = {0};
    ch_pooling_begin(&p, CH_POOLING_MEAN, sum, 4);
    assert_int_equal(ch_pooling_finish(&p, &e), CH_ERANGE);
    ch_pooling_push(&p, zero, 2);
    assert_int_equal(ch_pooling_finish(&p, &e), CH_EINTERNAL); // no direction, never NaN
    ch_pooling_begin(&p, CH_POOLING_LAST, sum, 4);
    ch_pooling_push(&p, bad, 1);
    assert_int_equal(ch_pooling_finish(&p, &e), CH_EINTERNAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hidden_and_pooling), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
