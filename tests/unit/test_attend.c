// Attention as an operation: what is cached, in which form, and who computes it may not change results.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/op.h"

static const char *const tiers[] = {"ref", "avx2", "avx512", "amx"};

static ch_op *open_op(const char *tier, int n_threads) {
    ch_op *op = NULL;
    ch_error e = {0};
    if (ch_op_create(&op, tier, n_threads, &e)) fail_msg("%s", e.msg);
    return op;
}

static float *randoms(ch_rng *g, size_t n, float size) {
    float *x = ch_alloc_array(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = ch_rng_normal(g) * size;
    return x;
}

// A sequence of n positions: rows to feed, pages to fill.
typedef struct field {
    size_t n, n_head, n_kv, d, n_page;
    const ch_type_info *kt, *vt;
    bool rotate, gated;
    float *q, *k, *v, *y;
    uint8_t **page;
} field;

static void make_field(field *f, uint64_t seed) {
    ch_rng g;
    ch_rng_seed(&g, seed);
    const size_t width = f->gated ? 2 * f->d : f->d, bytes = ch_op_attn_kv_bytes(f->n_kv, f->d, f->kt, f->vt);
    f->q = randoms(&g, f->n * f->n_head * width, 1), f->k = randoms(&g, f->n * f->n_kv * f->d, 1);
    f->v = randoms(&g, f->n * f->n_kv * f->d, 1), f->y = randoms(&g, f->n * f->n_head * f->d, 1);
    f->n_page = f->n / 64 + 1;
    f->page = ch_alloc_array(f->n_page, sizeof *f->page);
    assert_non_null(f->page);
    for (size_t i = 0; i < f->n_page; i++) {
        f->page[i] = ch_alloc_aligned(64 * bytes, 64);
        assert_non_null(f->page[i]);
        memset(f->page[i], 0xff, 64 * bytes); // NaN, or infinite scales
    }
}

static void free_field(field *f) {
    for (size_t i = 0; i < f->n_page; i++) ch_free(f->page[i]);
    ch_free(f->page), ch_free(f->q), ch_free(f->k), ch_free(f->v), ch_free(f->y);
}

// Rows [from, to) of f in one step; outputs to y, which is [n][n_head * d]. y NULL: only appended.
static void run(ch_op *op, const field *f, size_t from, size_t to, float *y) {
    const size_t width = f->n_head * (f->gated ? 2 * f->d : f->d), kv = f->n_kv * f->d;
    const ch_op_seg seg = {.n_row = to - from, .pos0 = from, .page = f->page};
    const ch_op_attn_args a = {.n_seg = 1, .seg = &seg, .n_row = to - from, .n_head = f->n_head, .n_head_kv = f->n_kv, .d_head = f->d,
                               .eps = 1e-6f, .scale = 1.5f / sqrtf((float)f->d), .gated = f->gated, .q = y ? f->q + from * width : NULL,
                               .k = f->k + from * kv, .v = f->v + from * kv, .k_type = f->kt, .v_type = f->vt,
                               .k_rot = f->rotate && f->kt->n_block > 1 ? ch_quant_rotation(f->d) : 0,
                               .v_rot = f->rotate && f->vt->n_block > 1 ? ch_quant_rotation(f->d) : 0, .y = y ? y + from * f->n_head * f->d : NULL};
    ch_op_attn(op, &a);
}

static void reserve(ch_op *op, const field *f, size_t n_row) {
    ch_op_dry_begin(op);
    run(op, f, 0, n_row, f->y);
    assert_int_equal(ch_op_dry_end(op, NULL), 0);
}

static const ch_type_info *type(const char *name, size_t d) { return ch_quant_cache_fit(ch_quant_cache_type(name), d); }

// Any number of threads and any cut of the rows: the same bits. Long enough for several ranges, with tiles cut at their borders.
static void check_shares(const char *tier, field *f, size_t first) {
    static const int threads[] = {1, 2, 3, 8};
    make_field(f, 3);
    const size_t n_out = f->n * f->n_head * f->d, skip = first * f->n_head * f->d;
    float *other = ch_alloc_array(n_out, sizeof *other);
    assert_non_null(other);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        ch_op *op = open_op(tier, threads[t]);
        reserve(op, f, f->n);
        float *y = t ? other : f->y;
        run(op, f, 0, first, NULL);
        if (t % 2 == 0) run(op, f, first, f->n, y);
        else
            for (size_t i = first; i < f->n; i += 1 + i % 3) run(op, f, i, i + 1 + i % 3 < f->n ? i + 1 + i % 3 : f->n, y);
        for (size_t i = skip; i < n_out && t; i++)
            if (memcmp(&other[i], &f->y[i], sizeof *other))
                fail_msg("%s, %d threads: row %zu, value %zu: %.9g, expected %.9g", tier, threads[t], i / (f->n_head * f->d),
                         i % (f->n_head * f->d), (double)other[i], (double)f->y[i]);
        ch_op_free(&op);
    }
    ch_free(other);
    free_field(f);
}

static void test_shares(void **state) {
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        check_shares(tiers[t], &(field){.n = 1300, .n_head = 6, .n_kv = 2, .d = 32, .kt = type("q8_0", 32), .vt = type("tq4", 32), .rotate = true}, 1200);
        check_shares(tiers[t], &(field){.n = 1090, .n_head = 2, .n_kv = 1, .d = 20, .kt = type("f16", 20), .vt = type("f32", 20), .gated = true}, 1000);
    }
    // Where ranges double: rows on both sides of the border in one step.
    check_shares("avx512", &(field){.n = 32768 + 40, .n_head = 2, .n_kv = 1, .d = 8, .kt = type("f32", 8), .vt = type("f32", 8)}, 32750);
}

// A quantised, rotated cache gives what an f32 cache would give for the keys and values that it stands for. Those are not known
// outside, but bounded: every stored vector is off by at most `loss` of its length.
static void check_loss(const char *tier, const char *name, bool rotate, double loss) {
    field exact = {.n = 200, .n_head = 4, .n_kv = 2, .d = 64, .kt = type("f32", 64), .vt = type("f32", 64)};
    field coded = exact;
    coded.vt = type(name, 64), coded.rotate = rotate;
    make_field(&exact, 9), make_field(&coded, 9);
    ch_op *op = open_op(tier, 2);
    reserve(op, &exact, exact.n), run(op, &exact, 0, exact.n, exact.y);
    ch_op_free(&op);
    op = open_op(tier, 2);
    reserve(op, &coded, coded.n), run(op, &coded, 0, coded.n, coded.y);
    ch_op_free(&op);
    // Weights are those of the exact keys, so an output is off by at most the largest loss of a value's length.
    double longest = 0, worst = 0;
    for (size_t i = 0; i < exact.n * exact.n_kv; i++) {
        double s = 0;
        for (size_t k = 0; k < 64; k++) s += (double)exact.v[i * 64 + k] * exact.v[i * 64 + k];
        longest = fmax(longest, sqrt(s));
    }
    for (size_t i = 0; i < exact.n * exact.n_head; i++) {
        double s = 0;
        for (size_t k = 0; k < 64; k++) s += pow((double)coded.y[i * 64 + k] - exact.y[i * 64 + k], 2);
        worst = fmax(worst, sqrt(s));
    }
    if (!(worst <= loss * longest)) fail_msg("%s %s rotate %d: off by %.4g of %.4g", tier, name, rotate, worst, longest);
    assert_true(worst > 0);
    // The same for keys: scores are off by at most loss * |q| |k| * scale, weights by the exponential of twice that. Too wide
    // to prove anything but gross errors, such as a rotation of only one side: those give unrelated scores.
    free_field(&coded);
    coded.vt = type("f32", 64), coded.kt = type(name, 64);
    make_field(&coded, 9);
    op = open_op(tier, 2);
    reserve(op, &coded, coded.n), run(op, &coded, 0, coded.n, coded.y);
    ch_op_free(&op);
    double error = 0, size = 0;
    for (size_t i = 0; i < exact.n * exact.n_head * 64; i++) {
        error += pow((double)coded.y[i] - exact.y[i], 2);
        size += (double)exact.y[i] * exact.y[i];
    }
    // Scores of unit-normal vectors have a variance of 1.5^2; independent errors of loss^2 of it shift weights, and outputs
    // are differences of values of about their own size: a relative squared error of about (1.5 * loss)^2 * 2.
    if (!(error / size < 2 * pow(1.5 * loss, 2))) fail_msg("%s keys %s rotate %d: relative squared error %.4g", tier, name, rotate, error / size);
    free_field(&exact), free_field(&coded);
}

static void test_loss(void **state) {
    (void)state;
    for (size_t t = 0; t < 3; t++)
        for (int rotate = 0; rotate < 2; rotate++) {
            // Largest error of a value over the length of a vector: half a step of 1/127 or 1/8 of the largest of 32 values,
            // for all of them: at most sqrt(64) * max / 254, max below half of the length here. tq: twice the mean error.
            check_loss(tiers[t], "q8_0", rotate, 0.02);
            check_loss(tiers[t], "q4_0", rotate, 0.3);
            check_loss(tiers[t], "tq4", rotate, 2 * sqrt(0.0095));
            check_loss(tiers[t], "tq3", rotate, 2 * sqrt(0.0346));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
