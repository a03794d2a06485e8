// Every tier this machine can run (AVX-512 emulated if need be) against the reference tier: matrix products of every type.
// The allowed error is computed per element from the data: half a step of the activations' rounding, and the rounding of
// float sums. test_kern --bench times the same calls; --seed N repeats a run.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "checkkern/checkkern.h"
#include "checkkern/weights.h"

enum { X_NORMAL, X_EXACT, X_LARGE, X_TINY, X_ZERO, X_OUTLIER, N_X };
enum { GUARD = 64, FILL = 0xa5 };

static uint64_t seed = 20260101;

static void random_x(ch_rng *g, int mode, size_t n, float *x) {
    for (size_t i = 0; i < n; i++) {
        const float v = ch_rng_normal(g);
        x[i] = mode == X_LARGE ? v * 1e20f : mode == X_TINY ? v * 1e-39f : mode == X_ZERO ? 0.0f : v;
        if (mode == X_OUTLIER && ch_rng_u64(g) % 16 == 0) x[i] *= 1e4f;
        // Whole numbers up to 127 with 127 in each 32, times a power of two: 8 bits hold them exactly.
        if (mode == X_EXACT) x[i] = (float)(i % 32 == 5 ? 127 : (int)(ch_rng_u64(g) % 255) - 127) * 0.25f;
    }
}

// One matrix in one tier, with everything around it.
typedef struct fixture {
    const ch_kern *k;
    ch_mat m;
    size_t n_tok, ld_act, ld_y;
    float *x, *y; // [n_tok][n_in]; [n_tok][ld_y]
    uint8_t *act, *work;
    size_t packed, work_bytes;
} fixture;

static void *guarded(size_t n) {
    uint8_t *p = ch_alloc_aligned(n + GUARD, 64);
    assert_non_null(p);
    memset(p, FILL, n + GUARD);
    return p;
}

static void check_guard(const void *p, size_t n) {
    const uint8_t *b = (const uint8_t *)p + n;
    for (int i = 0; i < GUARD; i++) assert_int_equal(b[i], FILL);
}

static void set_up(fixture *f, const ch_kern *k, const ch_type_info *t, size_t n_in, size_t n_out, const uint8_t *raw,
                   const float *x, size_t n_tok) {
    memset(f, 0, sizeof *f);
    f->k = k;
    f->m = (ch_mat){.type = t, .n_in = n_in, .n_out = n_out, .raw = raw};
    f->n_tok = n_tok;
    f->x = (float *)(uintptr_t)x;
    const int kind = k->act_kind(t, n_in);
    f->ld_act = k->act_bytes(kind, n_in);
    assert_int_equal(f->ld_act % 64, 0);
    f->act = guarded(f->ld_act * n_tok);
    for (size_t i = 0; i < n_tok; i++) k->act_pack(kind, x + i * n_in, n_in, f->act + i * f->ld_act);
    check_guard(f->act, f->ld_act * n_tok);
    f->ld_y = n_out + 3;
    f->y = guarded(n_tok * f->ld_y * sizeof(float));
    f->work_bytes = k->mat_work_bytes(t, n_in);
    f->work = guarded(f->work_bytes);
    f->packed = k->mat_packed_bytes(t, n_in, n_out);
    if (f->packed) {
        f->m.packed = guarded(f->packed);
        k->mat_pack(&f->m, 0, n_out);
        check_guard(f->m.packed, f->packed);
    }
}

static void tear_down(fixture *f) {
    ch_free(f->act);
    ch_free(f->y);
    ch_free(f->work);
    ch_free(f->m.packed);
}

static void multiply(fixture *f, size_t r0, size_t r1, size_t t0, size_t n_tok) {
    f->k->matmul(&f->m, r0, r1, f->act + t0 * f->ld_act, f->ld_act, n_tok, f->y + t0 * f->ld_y, f->ld_y, f->work);
}

// Everything between rows and past the end is as it was.
static void check_padding(const fixture *f) {
    for (size_t t = 0; t < f->n_tok; t++) {
        const uint8_t *b = (const uint8_t *)(f->y + t * f->ld_y + f->m.n_out);
        for (size_t i = 0; i < 3 * sizeof(float); i++) assert_int_equal(b[i], FILL);
    }
    check_guard(f->y, f->n_tok * f->ld_y * sizeof(float));
    check_guard(f->work, f->work_bytes);
}

// Half a step of rounding per activation (none if 8 bits hold them), and for float sums one rounding per block and a few
// per product; products include the type's offset, which is at most a few times the block's largest weight.
static double allowed(const float *w, const float *x, size_t n, int kind, bool exact) {
    const double limit = kind == CH_ACT_Q16 ? 32767 : 127, eps = ldexp(1, -23);
    double err = 1e-37, mass = 0;
    for (size_t b = 0; b < n; b += 32) {
        const size_t end = b + 32 < n ? b + 32 : n;
        double max_x = 0, max_w = 0, sum_w = 0, sum_x = 0, dot = 0;
        for (size_t i = b; i < end; i++) {
            max_x = fmax(max_x, fabs(x[i]));
            max_w = fmax(max_w, fabs(w[i]));
            sum_w += fabs(w[i]);
            sum_x += fabs(x[i]);
            dot += fabs((double)w[i] * x[i]);
        }
        if (kind != CH_ACT_F32 && !(exact && kind == CH_ACT_Q8)) err += sum_w * max_x / limit / 2 * (1 + 4 * limit * eps);
        // Blocks whose activations are all below 2^-100 count as zero.
        if (kind != CH_ACT_F32 && max_x < ldexp(1, -100)) err += sum_w * max_x;
        mass += kind == CH_ACT_F32 ? dot : 4 * max_w * sum_x;
    }
    return err + mass * eps * (kind == CH_ACT_F32 ? (double)n / 8 + 8 : (double)n / 32 + 16);
}

static void compare(const fixture *f, const fixture *ref, bool exact) {
    const size_t n = f->m.n_in, row = n / f->m.type->n_block * f->m.type->n_bytes;
    float *w = ch_alloc_array(n, sizeof *w);
    for (size_t r = 0; r < f->m.n_out; r++) {
        f->m.type->decode(f->m.raw + r * row, w, n);
        for (size_t t = 0; t < f->n_tok; t++) {
            const double a = f->y[t * f->ld_y + r], b = ref->y[t * ref->ld_y + r];
            const double most = allowed(w, f->x + t * n, n, f->k->act_kind(f->m.type, n), exact);
            if (!(fabs(a - b) <= most))
                fail_msg("%s %s row %zu of %zu token %zu, %zu inputs: %.9g, reference %.9g, off by %.3g, allowed %.3g",
                         f->k->name, f->m.type->name, r, f->m.n_out, t, n, a, b, fabs(a - b), most);
        }
    }
    ch_free(w);
}

static void check_equal(const float *a, const float *b, size_t n, const char *what, const fixture *f) {
    if (memcmp(a, b, n * sizeof *a)) fail_msg("%s %s: %s gives other bits", f->k->name, f->m.type->name, what);
}

// Tokens alone, rows in two parts, packing in two parts and no packing at all: the same bits.
static void check_splits(fixture *f) {
    const size_t bytes = f->n_tok * f->ld_y * sizeof(float), cut = f->m.n_out > CH_MAT_GRAIN ? CH_MAT_GRAIN : 0;
    float *whole = guarded(bytes);
    memcpy(whole, f->y, bytes);
    memset(f->y, FILL, bytes);
    for (size_t t = 0; t < f->n_tok; t++) multiply(f, 0, f->m.n_out, t, 1);
    check_equal(f->y, whole, bytes / sizeof(float), "one token at a time", f);
    for (size_t n = 2; n < f->n_tok; n++) {
        memset(f->y, FILL, bytes);
        for (size_t t = 0; t < f->n_tok; t += n) multiply(f, 0, f->m.n_out, t, f->n_tok - t < n ? f->n_tok - t : n);
        check_equal(f->y, whole, bytes / sizeof(float), "another batch size", f);
    }
    memset(f->y, FILL, bytes);
    multiply(f, cut, f->m.n_out, 0, f->n_tok);
    if (cut) multiply(f, 0, cut, 0, f->n_tok);
    check_equal(f->y, whole, bytes / sizeof(float), "another split of rows", f);
    if (f->packed) {
        uint8_t *before = f->m.packed;
        f->m.packed = guarded(f->packed);
        memset(f->m.packed, 0, f->packed);
        f->k->mat_pack(&f->m, cut, f->m.n_out);
        if (cut) f->k->mat_pack(&f->m, 0, cut);
        assert_memory_equal(before, f->m.packed, f->packed);
        ch_free(f->m.packed);
        f->m.packed = NULL;
        multiply(f, 0, f->m.n_out, 0, f->n_tok);
        check_equal(f->y, whole, bytes / sizeof(float), "reading unpacked rows", f);
        f->m.packed = before;
    }
    check_padding(f);
    ch_free(whole);
}

static void check_shape(const ch_kern *k, const ch_kern *ref, const ch_type_info *t, size_t n_in, size_t n_out,
                        size_t n_tok, int scale, int x_mode, bool splits) {
    ch_rng g;
    size_t row;
    assert_true(ch_quant_row_bytes(t, n_in, &row));
    ch_rng_seed(&g, seed + t->id);
    uint8_t *raw = guarded(n_out * row);
    float *x = ch_alloc_array(n_tok * n_in, sizeof *x);
    random_rows(t, &g, scale, n_out, n_in, raw);
    random_x(&g, x_mode, n_tok * n_in, x);
    fixture a, b;
    set_up(&a, k, t, n_in, n_out, raw, x, n_tok);
    set_up(&b, ref, t, n_in, n_out, raw, x, n_tok);
    multiply(&a, 0, n_out, 0, n_tok);
    multiply(&b, 0, n_out, 0, n_tok);
    check_padding(&a);
    check_padding(&b);
    compare(&a, &b, x_mode == X_EXACT);
    if (splits) check_splits(&a);
    tear_down(&a);
    tear_down(&b);
    ch_free(raw);
    ch_free(x);
}

static void check_tier(const ch_kern *k, const ch_kern *ref) {
    const ch_type_info *t;
    for (size_t i = 0; (t = ch_quant_type_at(i)); i++) {
        if (!t->decode) continue;
        const size_t unit = t->n_block > 1 ? t->n_block : 32;
        for (int scale = 0; scale < N_SCALES; scale++)
            for (int x = 0; x < N_X; x++) {
                if (x == X_LARGE && scale == SCALE_LARGE) continue; // leaves the range of floats
                check_shape(k, ref, t, 2 * unit, 18, 3, scale, x, false);
            }
        check_shape(k, ref, t, unit, 1, 1, SCALE_NORMAL, X_EXACT, true);
        check_shape(k, ref, t, 3 * unit, 16, 2, SCALE_NORMAL, X_NORMAL, true);
        check_shape(k, ref, t, 5 * unit, 41, 20, SCALE_NORMAL, X_EXACT, true);
        // Whole groups of tokens and every rest, over several chunks of inputs.
        check_shape(k, ref, t, 1280, 21, 37, SCALE_NORMAL, X_OUTLIER, true);
        if (t->n_block == 1)
            for (size_t n = 1; n < 20; n++) check_shape(k, ref, t, n, 11, 5, SCALE_NORMAL, X_NORMAL, true);
        // Enough activations for several passes.
        check_shape(k, ref, t, 2048, 19, 70, SCALE_NORMAL, X_NORMAL, false);
    }
}

static void test_matmul(void **state) {
    const checkkern_tiers *tiers = *state;
    for (int i = 1; i < tiers->n; i++) check_tier(&tiers->k[i], &tiers->k[0]);
}

// A NaN or infinity stays within its token.
static void test_not_finite(void **state) {
    const checkkern_tiers *tiers = *state;
    const ch_type_info *t;
    for (int i = 1; i < tiers->n; i++)
        for (size_t j = 0; (t = ch_quant_type_at(j)); j++) {
            if (!t->decode) continue;
            const size_t n_in = t->n_block > 1 ? t->n_block : 32;
            size_t row;
            ch_rng g;
            fixture f;
            float x[3 * 256] = {0};
            assert_true(ch_quant_row_bytes(t, n_in, &row));
            uint8_t *raw = guarded(row);
            ch_rng_seed(&g, seed);
            random_rows(t, &g, SCALE_NORMAL, 1, n_in, raw);
            x[n_in + 3] = i % 2 ? NAN : INFINITY;
            x[2 * n_in] = 1;
            set_up(&f, &tiers->k[i], t, n_in, 1, raw, x, 3);
            multiply(&f, 0, 1, 0, 3);
            assert_true(f.y[0] == 0.0f);
            assert_false(isfinite(f.y[f.ld_y]));
            assert_true(isfinite(f.y[2 * f.ld_y]));
            tear_down(&f);
            ch_free(raw);
        }
}

static void test_tier_names(void **state) {
    const ch_cpu none = {0};
    ch_kern k;
    ch_error e;
    (void)state;
    assert_int_equal(ch_kern_init(&k, &none, NULL, NULL), CH_OK);
    assert_string_equal(k.name, "ref");
    assert_int_equal(ch_kern_init(&k, &none, "avx1024", &e), CH_ERANGE);
    assert_non_null(strstr(e.msg, "avx1024"));
    assert_int_equal(ch_kern_init(&k, &none, "", &e), CH_ERANGE);
    assert_int_equal(ch_kern_init(&k, &none, "ref", &e), CH_OK);
}

int main(int argc, char **argv) {
    checkkern_tiers tiers;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench")) return checkkern_bench(argc - i - 1, argv + i + 1);
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = strtoull(argv[++i], NULL, 10);
    }
    checkkern_init(&tiers);
    print_message("seed %llu, tiers:", (unsigned long long)seed);
    for (int i = 0; i < tiers.n; i++) print_message(" %s", tiers.k[i].name);
    print_message("\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tier_names),
        cmocka_unit_test_prestate(test_matmul, &tiers),
        cmocka_unit_test_prestate(test_not_finite, &tiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
