// State-space scans and softplus of every tier against the reference tier. The allowed error is computed per element: rounding
// steps times the mass, which is the same scan of absolute values. Outputs sit between guard bytes, and cutting the work (tokens,
// channels) must not change a bit. test_scan --bench times both scans; --seed N repeats a run.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "checkkern/checkkern.h"

enum { GUARD = 16 };
static uint64_t seed = 20260103;
static const double EPS = FLT_EPSILON;
static const float GUARD_VALUE = -12345.5f;

static float *floats(size_t n) {
    float *p = ch_alloc_aligned((n + GUARD) * sizeof *p, 64);
    assert_non_null(p);
    for (size_t i = 0; i < n + GUARD; i++) p[i] = GUARD_VALUE;
    return p;
}

static float *randoms(ch_rng *g, size_t n, float scale) {
    float *p = floats(n);
    for (size_t i = 0; i < n; i++) p[i] = scale * ch_rng_normal(g);
    return p;
}

static float *copy(const float *x, size_t n, bool absolute) {
    float *p = floats(n);
    for (size_t i = 0; i < n; i++) p[i] = absolute ? fabsf(x[i]) : x[i];
    return p;
}

static void check_guard(const float *p, size_t n) {
    for (int i = 0; i < GUARD; i++) assert_true(p[n + (size_t)i] == GUARD_VALUE);
}

static void check_all(const ch_kern *k, const char *what, const float *got, const float *want, const float *mass, size_t n, double steps) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= EPS * steps * mass[i] + 1e-37) && got[i] != want[i])
            fail_msg("%s %s: value %zu is %.9g, reference %.9g, allowed %.3g", k->name, what, i, got[i], want[i], EPS * steps * mass[i]);
    check_guard(got, n);
}

// ---- softplus
static void test_softplus(void **state) {
    const checkkern_tiers *tiers = *state;
    enum { N = 4099 };
    float *x = floats(N), *bias = floats(N), *y = floats(N), *want = floats(N);
    for (int i = 0; i < N; i++) x[i] = (float)(i - 2048) * 0.052f, bias[i] = (float)(i % 7) * 0.3f - 1;
    x[0] = -1e30f, x[1] = 1e30f, x[2] = -INFINITY, x[3] = INFINITY, x[4] = 0, x[5] = 20, x[6] = 20.00001f, x[7] = 1e-30f;
    for (int i = 1; i < tiers->n; i++)
        for (int b = 0; b < 2; b++) {
            const ch_kern *k = &tiers->k[i];
            tiers->k[0].softplus(x, b ? bias : NULL, N, want);
            k->softplus(x, b ? bias : NULL, N, y);
            for (int j = 0; j < N; j++)
                if (!(fabs((double)y[j] - want[j]) <= EPS * (b ? 8 + fabs(x[j]) : 6) * want[j] + 4e-45) && y[j] != want[j])
                    fail_msg("%s softplus(%.9g): %.9g, reference %.9g", k->name, x[j], y[j], want[j]);
            check_guard(y, N);
            const float nan = NAN;
            float out;
            k->softplus(&nan, NULL, 1, &out);
            assert_true(isnan(out));
            for (size_t cut = 0; cut < 20; cut++) { // a value does not depend on its place
                k->softplus(x + cut, NULL, 3, want);
                k->softplus(x, NULL, N, y);
                assert_memory_equal(want, y + cut, 3 * sizeof *y);
            }
        }
    ch_free(x), ch_free(bias), ch_free(y), ch_free(want);
}

// ---- Mamba-1
typedef struct ssm1_data {
    ch_ssm1_args a; // state and y unset
    float *x, *dt, *b, *c, *decay, *skip, *state;
    size_t n_y, n_state;
} ssm1_data;

static void make_ssm1(ssm1_data *d, ch_rng *g, size_t n_tok, size_t n_channel, size_t d_state) {
    size_t ld = n_channel + 3, ld_bc = d_state + 1;
    *d = (ssm1_data){.n_y = n_tok * (ld + 1), .n_state = d_state * n_channel};
    d->x = randoms(g, n_tok * ld, 1), d->dt = randoms(g, n_tok * ld, 1);
    for (size_t i = 0; i < n_tok * ld; i++) d->dt[i] = i % 31 ? 0.5f * fabsf(d->dt[i]) : 3.0f;
    d->b = randoms(g, n_tok * ld_bc, 1), d->c = randoms(g, n_tok * ld_bc, 1);
    d->decay = randoms(g, d->n_state, 2), d->skip = randoms(g, n_channel, 1), d->state = randoms(g, d->n_state, 1);
    for (size_t i = 0; i < d->n_state; i++) d->decay[i] = -fabsf(d->decay[i]);
    d->a = (ch_ssm1_args){.n_tok = n_tok, .d_state = d_state, .n_channel = n_channel, .c0 = 0, .c1 = n_channel, .x = d->x, .dt = d->dt,
                          .ld_x = ld, .ld_dt = ld, .b = d->b, .c = d->c, .ld_bc = ld_bc, .a = d->decay, .skip = d->skip, .ld_y = ld + 1};
}

static void free_ssm1(ssm1_data *d) {
    ch_free(d->x), ch_free(d->dt), ch_free(d->b), ch_free(d->c), ch_free(d->decay), ch_free(d->skip), ch_free(d->state);
}

// All channels in [0, split) and [split, n), tokens in [0, cut) and [cut, n).
static void run_ssm1(const ch_kern *k, ch_ssm1_args a, size_t split, size_t cut) {
    const size_t n = a.n_tok, end = a.c1;
    for (int part = 0; part < 2; part++) {
        a.n_tok = part ? n - cut : cut;
        a.c0 = 0, a.c1 = split;
        if (split && a.n_tok) k->ssm1(&a);
        a.c0 = split, a.c1 = end;
        if (split < end && a.n_tok) k->ssm1(&a);
        a.x += cut * a.ld_x, a.dt += cut * a.ld_dt, a.b += cut * a.ld_bc, a.c += cut * a.ld_bc, a.y += cut * a.ld_y;
    }
}

static void check_ssm1(const ch_kern *k, const ch_kern *ref, ch_rng *g, size_t n_tok, size_t n_channel, size_t d_state) {
    ssm1_data d;
    make_ssm1(&d, g, n_tok, n_channel, d_state);
    float *s[4], *y[4];
    for (int i = 0; i < 4; i++) s[i] = copy(d.state, d.n_state, i == 3), y[i] = floats(d.n_y);
    for (int i = 0; i < 3; i++) {
        ch_ssm1_args a = d.a;
        a.state = s[i], a.y = y[i];
        run_ssm1(i ? k : ref, a, i == 2 ? n_channel / 32 * 16 : 0, i == 2 ? n_tok / 3 : n_tok);
    }
    ch_ssm1_args mass = d.a;
    float *x = copy(d.x, n_tok * mass.ld_x, true), *b = copy(d.b, n_tok * mass.ld_bc, true), *c = copy(d.c, n_tok * mass.ld_bc, true);
    float *skip = copy(d.skip, n_channel, true);
    mass.x = x, mass.b = b, mass.c = c, mass.skip = skip, mass.state = s[3], mass.y = y[3];
    ref->ssm1(&mass);
    // A step: product, exp, two fused sums; the exponent itself is rounded, |exponent| < 30.
    const double steps = 36.0 * (double)n_tok + (double)d_state + 8;
    check_all(k, "ssm1 output", y[1], y[0], y[3], d.n_y - 3, steps); // gaps between rows hold the guard value
    check_all(k, "ssm1 state", s[1], s[0], s[3], d.n_state, steps);
    assert_memory_equal(y[1], y[2], d.n_y * sizeof(float));
    assert_memory_equal(s[1], s[2], d.n_state * sizeof(float));
    for (int i = 0; i < 4; i++) ch_free(s[i]), ch_free(y[i]);
    ch_free(x), ch_free(b), ch_free(c), ch_free(skip);
    free_ssm1(&d);
}

static void test_ssm1(void **state) {
    static const size_t channels[] = {1, 7, 8, 16, 33, 96}, states[] = {1, 5, 15, 16, 17, 24, 33, 64}, tokens[] = {1, 2, 9, 40};
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (size_t c = 0; c < 6; c++)
            for (size_t s = 0; s < 8; s++)
                for (size_t t = 0; t < 4; t++) check_ssm1(&tiers->k[i], &tiers->k[0], &g, tokens[t], channels[c], states[s]);
}

// ---- Mamba-2
typedef struct ssm2_data {
    ch_ssm2_args a;
    float *x, *dt, *b, *c, *state;
    size_t n_y, n_state;
} ssm2_data;

static void make_ssm2(ssm2_data *d, ch_rng *g, size_t n_tok, size_t d_head, size_t d_state) {
    size_t ld_x = d_head + 3, ld_bc = d_state + 1, ld_dt = 3;
    *d = (ssm2_data){.n_y = n_tok * (d_head + 1), .n_state = d_head * d_state};
    d->x = randoms(g, n_tok * ld_x, 1), d->dt = randoms(g, n_tok * ld_dt, 1);
    for (size_t i = 0; i < n_tok * ld_dt; i++) d->dt[i] = i % 31 ? 0.2f * fabsf(d->dt[i]) : 5.0f;
    d->b = randoms(g, n_tok * ld_bc, 1), d->c = randoms(g, n_tok * ld_bc, 1), d->state = randoms(g, d->n_state, 1);
    d->a = (ch_ssm2_args){.n_tok = n_tok, .d_head = d_head, .d_state = d_state, .x = d->x, .dt = d->dt, .b = d->b, .c = d->c,
                          .ld_x = ld_x, .ld_dt = ld_dt, .ld_bc = ld_bc, .a = -0.7f, .skip = 1.3f, .ld_y = d_head + 1};
}

static void run_ssm2(const ch_kern *k, ch_ssm2_args a, size_t cut) {
    const size_t n = a.n_tok;
    for (int part = 0; part < 2; part++) {
        a.n_tok = part ? n - cut : cut;
        if (a.n_tok) k->ssm2(&a);
        a.x += cut * a.ld_x, a.dt += cut * a.ld_dt, a.b += cut * a.ld_bc, a.c += cut * a.ld_bc, a.y += cut * a.ld_y;
    }
}

static void check_ssm2(const ch_kern *k, const ch_kern *ref, ch_rng *g, size_t n_tok, size_t d_head, size_t d_state) {
    ssm2_data d;
    make_ssm2(&d, g, n_tok, d_head, d_state);
    float *s[4], *y[4];
    for (int i = 0; i < 4; i++) s[i] = copy(d.state, d.n_state, i == 3), y[i] = floats(d.n_y);
    for (int i = 0; i < 3; i++) {
        ch_ssm2_args a = d.a;
        a.state = s[i], a.y = y[i];
        run_ssm2(i ? k : ref, a, i == 2 ? n_tok / 3 : n_tok);
    }
    ch_ssm2_args mass = d.a;
    float *x = copy(d.x, n_tok * mass.ld_x, true), *b = copy(d.b, n_tok * mass.ld_bc, true), *c = copy(d.c, n_tok * mass.ld_bc, true);
    mass.x = x, mass.b = b, mass.c = c, mass.state = s[3], mass.y = y[3];
    ref->ssm2(&mass);
    const double steps = 12.0 * (double)n_tok + (double)d_state / 4 + 8;
    check_all(k, "ssm2 output", y[1], y[0], y[3], d.n_y - 1, steps);
    check_all(k, "ssm2 state", s[1], s[0], s[3], d.n_state, steps);
    assert_memory_equal(y[1], y[2], d.n_y * sizeof(float));
    assert_memory_equal(s[1], s[2], d.n_state * sizeof(float));
    for (int i = 0; i < 4; i++) ch_free(s[i]), ch_free(y[i]);
    ch_free(x), ch_free(b), ch_free(c), ch_free(d.x), ch_free(d.dt), ch_free(d.b), ch_free(d.c), ch_free(d.state);
}

static void test_ssm2(void **state) {
    static const size_t heads[] = {1, 3, 4, 20, 64, 80}, states[] = {1, 7, 8, 24, 64, 128, 130, 256}, tokens[] = {1, 2, 33, 100};
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed + 1);
    for (int i = 1; i < tiers->n; i++)
        for (size_t h = 0; h < 6; h++)
            for (size_t s = 0; s < 8; s++)
                for (size_t t = 0; t < 4; t++) check_ssm2(&tiers->k[i], &tiers->k[0], &g, tokens[t], heads[h], states[s]);
}

// A state that strong decay empties and large steps fill stays finite; no step leaves it untouched.
static void test_extremes(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed + 2);
    for (int i = 0; i < tiers->n; i++) {
        const ch_kern *k = &tiers->k[i];
        ssm1_data d;
        make_ssm1(&d, &g, 5, 24, 16);
        float *y = floats(d.n_y), *s = copy(d.state, d.n_state, false);
        for (size_t j = 0; j < 5 * d.a.ld_dt; j++) d.dt[j] = 1e6f;
        d.a.state = s, d.a.y = y;
        k->ssm1(&d.a);
        for (size_t j = 0; j < d.n_state; j++) assert_true(isfinite(s[j]));
        memcpy(s, d.state, d.n_state * sizeof *s);
        for (size_t j = 0; j < 5 * d.a.ld_dt; j++) d.dt[j] = 0;
        k->ssm1(&d.a);
        assert_memory_equal(s, d.state, d.n_state * sizeof *s);
        ch_free(y), ch_free(s);
        free_ssm1(&d);
    }
}

// ---- bench: one thread, n_tok tokens of a layer of the given width
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int bench(const checkkern_tiers *tiers) {
    ch_rng g;
    ch_rng_seed(&g, 1);
    for (int i = 0; i < tiers->n; i++)
        for (size_t n = 1; n <= 64; n *= 64) {
            const ch_kern *k = &tiers->k[i];
            ssm1_data d1;
            ssm2_data d2;
            make_ssm1(&d1, &g, n, 1024, 16), make_ssm2(&d2, &g, n, 64, 128);
            float *y = floats(d1.n_y + d2.n_y);
            d1.a.state = d1.state, d1.a.y = y, d2.a.state = d2.state, d2.a.y = y;
            double best1 = 1e9, best2 = 1e9;
            for (int rep = 0; rep < (i ? 200 : 5); rep++) {
                double t0 = seconds();
                k->ssm1(&d1.a);
                double t1 = seconds();
                for (int h = 0; h < 16; h++) k->ssm2(&d2.a);
                double t2 = seconds();
                best1 = fmin(best1, t1 - t0), best2 = fmin(best2, t2 - t1);
            }
            printf("%-16s %2zu tokens: ssm1 %7.2f ns a channel and token (16 states), ssm2 %8.1f ns a head and token (64 x 128)\n", k->name, n,
                   best1 * 1e9 / (1024.0 * (double)n), best2 * 1e9 / (16.0 * (double)n));
            ch_free(y), free_ssm1(&d1), ch_free(d2.x), ch_free(d2.dt), ch_free(d2.b), ch_free(d2.c), ch_free(d2.state);
        }
    return 0;
}

int main(int argc, char **argv) {
    checkkern_tiers tiers;
    checkkern_init(&tiers);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench")) return bench(&tiers);
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = strtoull(argv[i + 1], NULL, 10);
    }
    print_message("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_softplus, &tiers), cmocka_unit_test_prestate(test_ssm1, &tiers),
        cmocka_unit_test_prestate(test_ssm2, &tiers), cmocka_unit_test_prestate(test_extremes, &tiers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
