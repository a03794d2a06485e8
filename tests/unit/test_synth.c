// Tests of synth: every type has the wanted deviation and varied rows, every architecture binds, shapes are checked.
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

#include "gguf/gguf.h"
#include "model/model.h"
#include "synth/synth.h"

static int make_file(void **state) {
    char path[] = "/tmp/test_synth_XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    close(fd);
    *state = strdup(path);
    return 0;
}

static int remove_file(void **state) {
    unlink(*state);
    free(*state);
    return 0;
}

static ch_gguf *make(const char *path, const ch_synth_shape *s, ch_type type, uint64_t seed) {
    ch_error e = {0};
    ch_gguf *g;
    if (ch_synth_write(path, s, type, seed, NULL, NULL, &e) != 0) fail_msg("%s", e.msg);
    if (ch_gguf_open(&g, path, &e) != 0) fail_msg("%s", e.msg);
    return g;
}

// Deviation and mean of a matrix; fails on equal rows.
static void measure(const ch_gguf_tensor *t, double *mean, double *deviation) {
    size_t n_in = (size_t)t->ne[0], n_rows = (size_t)(t->ne[1] * t->ne[2]), row_bytes = t->size / n_rows;
    float *x = malloc(n_in * sizeof *x);
    double sum = 0, squares = 0, n = (double)n_in * (double)n_rows;
    for (size_t r = 0; r < n_rows; r++) {
        const uint8_t *row = (const uint8_t *)t->data + r * row_bytes;
        for (size_t k = 1; k <= 3 && k <= r; k++) assert_true(memcmp(row, row - k * row_bytes, row_bytes) != 0);
        t->type->decode(row, x, n_in);
        for (size_t i = 0; i < n_in; i++) {
            assert_true(isfinite(x[i]));
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
    }
    *mean = sum / n;
    *deviation = sqrt(squares / n);
    free(x);
}

static void test_types(void **state) {
    ch_synth_shape s;
    ch_error e = {0};
    assert_int_equal(ch_synth_preset(&s, "llama", "tiny", &e), 0);
    s.n_layer = 1;
    int n_types = 0;
    for (size_t i = 0; ch_quant_type_at(i); i++) {
        const ch_type_info *type = ch_quant_type_at(i);
        bool internal = type->id == CH_TYPE_Q8_1 || type->id == CH_TYPE_Q8_K;
        if (!type->decode || internal) {
            assert_int_equal(ch_synth_write(*state, &s, type->id, 1, NULL, NULL, &e), CH_EUNSUPPORTED);
            continue;
        }
        n_types++;
        ch_gguf *g = make(*state, &s, type->id, 1);
        const ch_gguf_tensor *t = ch_gguf_find_tensor(g, "blk.0.ffn_down.weight");
        assert_ptr_equal(t->type, type);
        double mean, deviation, wanted = 1 / sqrt(512.0);
        measure(t, &mean, &deviation);
        // nvfp4 has three bits for a scale that is small here.
        double slack = type->id == CH_TYPE_NVFP4 ? 0.15 : 0.06;
        if (fabs(deviation / wanted - 1) > slack) fail_msg("%s: deviation %g, wanted %g", type->name, deviation, wanted);
        if (fabs(mean) > 0.02 * wanted) fail_msg("%s: mean %g of deviation %g", type->name, mean, deviation);
        ch_gguf_close(&g);
    }
    assert_int_equal(n_types, 28);
}

// A matrix larger than the tile of random blocks: still the deviation, still no equal neighbours.
static void test_large(void **state) {
    ch_synth_shape s;
    ch_error e = {0};
    assert_int_equal(ch_synth_preset(&s, "qwen35moe", "tiny", &e), 0);
    s.n_layer = 1;
    s.n_expert = 64;
    s.n_ff_exp = 256;
    ch_gguf *g = make(*state, &s, CH_TYPE_Q4_K, 3);
    const char *names[] = {"blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"};
    for (int i = 0; i < 2; i++) {
        const ch_gguf_tensor *t = ch_gguf_find_tensor(g, names[i]);
        assert_true(t->size / t->type->n_bytes > 8192);
        double mean, deviation;
        measure(t, &mean, &deviation);
        assert_true(fabs(deviation * 16 - 1) < 0.05);
    }
    ch_gguf_close(&g);
}

static void test_fallback(void **state) {
    ch_synth_shape s;
    ch_error e = {0};
    assert_int_equal(ch_synth_preset(&s, "qwen35", "tiny", &e), 0);
    s.n_layer = 1;
    s.ssm_heads_k = 1;
    s.ssm_heads_v = 3; // ssm_out: rows of 192
    s.n_ff = 100;      // ffn_down: rows that fill no block at all
    const struct {
        ch_type type, wanted;
    } row[] = {{CH_TYPE_Q4_K, CH_TYPE_Q5_0},   {CH_TYPE_Q5_K, CH_TYPE_Q5_1},   {CH_TYPE_Q6_K, CH_TYPE_Q8_0},  {CH_TYPE_Q2_K, CH_TYPE_Q4_0},
               {CH_TYPE_Q3_K, CH_TYPE_Q4_0},   {CH_TYPE_IQ3_S, CH_TYPE_IQ4_NL}, {CH_TYPE_IQ4_XS, CH_TYPE_IQ4_NL}, {CH_TYPE_Q8_0, CH_TYPE_Q8_0},
               {CH_TYPE_F16, CH_TYPE_F16}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        ch_gguf *g = make(*state, &s, row[i].type, 1);
        assert_int_equal(ch_gguf_find_tensor(g, "blk.0.ssm_out.weight")->type->id, row[i].wanted);
        assert_int_equal(ch_gguf_find_tensor(g, "blk.0.ffn_down.weight")->type->id, CH_TYPE_F16);
        assert_int_equal(ch_gguf_find_tensor(g, "blk.0.ssm_conv1d.weight")->type->id, CH_TYPE_F32);
        ch_gguf_close(&g);
    }
}

static void test_architectures(void **state) {
    for (size_t i = 0; ch_synth_arch_at(i); i++) {
        const char *arch = ch_synth_arch_at(i);
        ch_error e = {0};
        ch_synth_shape s;
        for (size_t k = 0; ch_synth_preset_at(arch, k); k++) {
            assert_int_equal(ch_synth_preset(&s, arch, ch_synth_preset_at(arch, k), &e), 0);
            if (ch_synth_check(&s, &e) != 0) fail_msg("%s %s: %s", arch, ch_synth_preset_at(arch, k), e.msg);
        }
        for (int r = 1; r <= 3; r++) {
            assert_int_equal(ch_synth_preset(&s, arch, "tiny", &e), 0);
            if (s.ssm_heads_k) s.ssm_heads_v = s.ssm_heads_k * r;
            ch_gguf *g = make(*state, &s, CH_TYPE_Q8_0, (uint64_t)r);
            ch_gguf_close(&g);
            ch_model *m;
            ch_model_params p = {.meta_only = true};
            if (ch_model_open(&m, *state, &p, &e) != 0) fail_msg("%s, %d value heads per key head: %s", arch, r, e.msg);
            assert_int_equal(ch_model_get_info(m)->n_vocab, s.n_vocab);
            assert_int_equal(ch_model_get_info(m)->n_layer, s.n_layer);
            ch_model_close(&m);
        }
    }
}

static void test_checks(void **state) {
    (void)state;
    ch_synth_shape s, t;
    ch_error e = {0};
    assert_int_equal(ch_synth_preset(&s, "none", "tiny", &e), CH_EUNSUPPORTED);
    assert_int_equal(ch_synth_preset(&s, "qwen35", "none", &e), CH_ERANGE);
    assert_int_equal(ch_synth_preset(&s, "qwen35moe", "tiny", &e), 0);
    const struct {
        size_t at;
        int32_t least, most;
    } row[] = {
        {offsetof(ch_synth_shape, n_layer), 1, 512},
        {offsetof(ch_synth_shape, n_embd), 8, 65536},
        {offsetof(ch_synth_shape, n_vocab), 265, 1 << 20},
        {offsetof(ch_synth_shape, n_expert_used), 1, 8},
        {offsetof(ch_synth_shape, ssm_conv), 2, 16},
        {offsetof(ch_synth_shape, n_nextn), 0, 1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        for (int k = -1; k <= 1; k++) {
            t = s;
            *(int32_t *)((char *)&t + row[i].at) = row[i].least + k;
            assert_int_equal(ch_synth_check(&t, &e), k < 0 ? CH_ERANGE : 0);
            *(int32_t *)((char *)&t + row[i].at) = row[i].most + k;
            assert_int_equal(ch_synth_check(&t, &e), k > 0 ? CH_ERANGE : 0);
        }
    }
    t = s, t.n_head = 5;
    assert_int_equal(ch_synth_check(&t, &e), CH_ERANGE);
    t = s, t.ssm_heads_v = 5;
    assert_int_equal(ch_synth_check(&t, &e), CH_ERANGE);
}

static bool stop(void *user, const char *what, uint64_t done, uint64_t total) {
    (void)user, (void)what;
    return done < total / 2;
}

static void test_cancel(void **state) {
    ch_synth_shape s;
    ch_error e = {0};
    char path[200];
    snprintf(path, sizeof path, "%s.new", (char *)*state);
    assert_int_equal(ch_synth_preset(&s, "llama", "tiny", &e), 0);
    assert_int_equal(ch_synth_write(path, &s, CH_TYPE_F32, 1, stop, NULL, &e), CH_ECANCELLED);
    assert_int_equal(access(path, F_OK), -1);
    for (int nth = 0; nth < 200; nth += 7) { // no memory anywhere: a clean code and no file
        ch_alloc_fail_at(nth);
        int rc = ch_synth_write(path, &s, CH_TYPE_Q8_0, 1, NULL, NULL, &e);
        ch_alloc_fail_at(-1);
        assert_true(rc == 0 || rc == CH_ENOMEM);
        assert_int_equal(access(path, F_OK), rc == 0 ? 0 : -1);
        unlink(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_types, make_file, remove_file),
        cmocka_unit_test_setup_teardown(test_large, make_file, remove_file),
        cmocka_unit_test_setup_teardown(test_fallback, make_file, remove_file),
        cmocka_unit_test_setup_teardown(test_architectures, make_file, remove_file),
        cmocka_unit_test(test_checks),
        cmocka_unit_test_setup_teardown(test_cancel, make_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
