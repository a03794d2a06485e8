// Row kernels and sequence mixers of every tier against the reference tier; bounds follow from the data, outputs sit between
// guard bytes, and splitting the work (tokens, channels, query rows) must not change a bit. test_kern_rows --bench times some of
// them; --seed N repeats a run.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "checkkern/checkkern.h"
#include "checkkern/weights.h"

enum { GUARD = 64, FILL = 0xa5 };

static uint64_t seed = 20260102;
static const double EPS = FLT_EPSILON;

static float *floats(size_t n) {
    uint8_t *p = ch_alloc_aligned(n * sizeof(float) + GUARD, 64);
    assert_non_null(p);
    memset(p, FILL, n * sizeof(float) + GUARD);
    return (float *)p;
}

static float *randoms(ch_rng *g, size_t n, float size) {
    float *x = floats(n);
    for (size_t i = 0; i < n; i++) x[i] = ch_rng_normal(g) * size;
    return x;
}

static void check_guard(const float *p, size_t n) {
    const uint8_t *b = (const uint8_t *)(p + n);
    for (int i = 0; i < GUARD; i++) assert_int_equal(b[i], FILL);
}

static void check_near(const ch_kern *k, const char *what, double a, double b, double most) {
    if (!(fabs(a - b) <= most) && !(isnan(a) && isnan(b)) && !(isinf(b) && a == b))
        fail_msg("%s %s: %.9g, reference %.9g, off by %.3g, allowed %.3g", k->name, what, a, b, fabs(a - b), most);
}

// ---- rows

typedef struct rows {
    const ch_kern *k, *ref;
    size_t n;
    float *x, *z, *w, *a, *b; // a: tier's result, b: reference's
} rows;

static void check_rows(const rows *r, const char *what, double ulps, double floor) {
    for (size_t i = 0; i < r->n; i++) check_near(r->k, what, r->a[i], r->b[i], ulps * EPS * fabs(r->b[i]) + floor);
    check_guard(r->a, r->n);
}

static double max_abs(const float *x, size_t n) {
    double m = 0;
    for (size_t i = 0; i < n; i++) m = fmax(m, fabs(x[i]));
    return m;
}

static void check_sums(const rows *r) {
    double mass = 0;
    for (size_t i = 0; i < r->n; i++) mass += fabs((double)r->x[i] * r->z[i]);
    if (mass < 1e38)
        check_near(r->k, "dot", r->k->dot(r->x, r->z, r->n), r->ref->dot(r->x, r->z, r->n),
                   mass * EPS * ((double)r->n / 32 + 8) + 1e-37);
    memcpy(r->a, r->x, r->n * sizeof(float));
    memcpy(r->b, r->x, r->n * sizeof(float));
    r->k->add(r->z, r->n, r->a);
    r->ref->add(r->z, r->n, r->b);
    check_rows(r, "add", 0, 0);
    memcpy(r->a, r->x, r->n * sizeof(float));
    memcpy(r->b, r->x, r->n * sizeof(float));
    r->k->axpy(0.3f, r->z, r->n, r->a);
    r->ref->axpy(0.3f, r->z, r->n, r->b);
    check_rows(r, "axpy", 1, 1e-44);
}

static void check_rope(const rows *r) {
    for (int neox = 0; neox < 2; neox++) {
        const size_t n = r->n & ~(size_t)1;
        float *cs = floats(n);
        for (size_t i = 0; i < n / 2; i++) cs[2 * i] = cosf((float)i), cs[2 * i + 1] = sinf((float)i);
        memcpy(r->a, r->x, r->n * sizeof(float));
        memcpy(r->b, r->x, r->n * sizeof(float));
        r->k->rope(r->a, n, cs, neox);
        r->ref->rope(r->b, n, cs, neox);
        check_rows(r, neox ? "rope neox" : "rope", 0, 2 * EPS * max_abs(r->x, r->n) + 3e-45);
        ch_free(cs);
    }
}

static void check_row_kernels(const rows *r, float size) {
    // Below 1 / FLT_MAX a sigmoid may be 0.
    const double big = max_abs(r->x, r->n), lost = 3e-39 * (1 + big) * (1 + max_abs(r->z, r->n));
    r->k->rmsnorm(r->x, r->w, r->n, 1e-6f, r->a);
    r->ref->rmsnorm(r->x, r->w, r->n, 1e-6f, r->b);
    check_rows(r, "rmsnorm", 4, 1e-44);
    r->k->rmsnorm(r->x, NULL, r->n, 1e-6f, r->a);
    r->ref->rmsnorm(r->x, NULL, r->n, 1e-6f, r->b);
    check_rows(r, "rmsnorm without weights", 4, 1e-44);
    r->k->l2norm(r->x, r->n, 1e-12f, 0.125f, r->a);
    r->ref->l2norm(r->x, r->n, 1e-12f, 0.125f, r->b);
    check_rows(r, "l2norm", 4, 1e-44);
    memcpy(r->a, r->x, r->n * sizeof(float));
    r->k->l2norm(r->a, r->n, 1e-12f, 0.125f, r->a);
    check_rows(r, "l2norm in place", 4, 1e-44);
    if (size < 1e15f) { // products stay finite
        r->k->swiglu(r->x, r->z, r->n, r->a);
        r->ref->swiglu(r->x, r->z, r->n, r->b);
        check_rows(r, "swiglu", 6, lost);
        r->k->silu_mul(r->x, r->z, r->n, r->a);
        r->ref->silu_mul(r->x, r->z, r->n, r->b);
        check_rows(r, "silu_mul", 6, lost);
    }
    r->k->sigmoid_mul(r->x, r->z, r->n, r->a);
    r->ref->sigmoid_mul(r->x, r->z, r->n, r->b);
    check_rows(r, "sigmoid_mul", 6, lost);
    check_sums(r);
    check_rope(r);
    memcpy(r->a, r->x, r->n * sizeof(float));
    memcpy(r->b, r->x, r->n * sizeof(float));
    r->k->softmax(r->a, r->n);
    r->ref->softmax(r->b, r->n);
    check_rows(r, "softmax", (double)r->n / 8 + 8 + 2 * fmin(big, 120), 1e-38);
}

static void test_rows(void **state) {
    static const float sizes[] = {1.0f, 30.0f, 1e-20f, 1e-41f, 1e18f, 0.0f};
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (size_t n = 1; n <= 1030; n += n < 40 ? 1 : 165)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                rows r = {&tiers->k[i], &tiers->k[0], n, NULL, NULL, NULL, NULL, NULL};
                r.x = randoms(&g, n, sizes[s]), r.z = randoms(&g, n, sizes[s]), r.w = randoms(&g, n, 1.0f);
                r.a = floats(n), r.b = floats(n);
                check_row_kernels(&r, sizes[s]);
                check_guard(r.x, n);
                ch_free(r.x), ch_free(r.z), ch_free(r.w), ch_free(r.a), ch_free(r.b);
            }
}

// Every upper half of a float, with lower halves on both sides of a tie; then back. Exact on every tier.
static void test_bf16(void **state) {
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    const checkkern_tiers *tiers = *state;
    enum { N = 1 << 16 };
    float *x = floats(N), *back = floats(N);
    uint16_t *h = (uint16_t *)floats(N / 2);
    for (int i = 0; i < tiers->n; i++)
        for (size_t l = 0; l < sizeof low / sizeof *low; l++)
            for (size_t at = 0; at < 9; at += 8) { // whole vectors, and some left over
                for (uint32_t u = 0; u < N; u++) {
                    const uint32_t bits = u << 16 | low[l];
                    memcpy(x + u, &bits, sizeof bits);
                }
                tiers->k[i].bf16_store(x + at, N - at, h + at);
                tiers->k[i].bf16_load(h + at, N - at, back + at);
                for (size_t u = at; u < N; u++) {
                    const float want = ch_bf16_to_f32(h[u]);
                    if (h[u] != ch_f32_to_bf16(x[u]) || memcmp(&want, back + u, sizeof want))
                        fail_msg("%s bf16 of %08zx: %04x", tiers->k[i].name, u << 16 | low[l], h[u]);
                }
                check_guard((float *)h, N / 2), check_guard(back, N);
            }
    ch_free(x), ch_free(back), ch_free(h);
}

static void test_sigmoid_points(void **state) {
    const checkkern_tiers *tiers = *state;
    for (int i = 0; i < tiers->n; i++) {
        const float z[9] = {0, -0.0f, 1000, -1000, 88, -88, INFINITY, -INFINITY, NAN};
        float x[9], y[9];
        for (int j = 0; j < 9; j++) x[j] = 1;
        tiers->k[i].sigmoid_mul(x, z, 9, y);
        assert_true(y[0] == 0.5f && y[1] == 0.5f && y[2] == 1 && y[3] == 0 && y[4] == 1 && y[6] == 1 && y[7] == 0);
        assert_true(y[5] > 0 && y[5] < 1e-37f && isnan(y[8]));
    }
}

// ---- convolution

typedef struct conv_case {
    size_t n_tok, n_tap, n_ch;
    bool bias, silu;
} conv_case;

static void run_conv(const ch_kern *k, const conv_case *c, const float *x, const float *w, const float *bias, float *state,
                     float *y, size_t cut_tok, size_t cut_ch) {
    ch_conv_args a = {.n_tap = c->n_tap, .ld_x = c->n_ch + 2, .w = w, .bias = bias, .n_channel = c->n_ch, .state = state,
                      .ld_y = c->n_ch + 1, .silu = c->silu};
    for (int part = 0; part < 2; part++)
        for (int side = 0; side < 2; side++) {
            const size_t t0 = part ? cut_tok : 0;
            a.n_tok = part ? c->n_tok - cut_tok : cut_tok;
            a.c0 = side ? cut_ch : 0;
            a.c1 = side ? c->n_ch : cut_ch;
            a.x = x + t0 * a.ld_x;
            a.y = y + t0 * a.ld_y;
            k->conv(&a);
        }
}

static void check_conv(const ch_kern *k, const ch_kern *ref, ch_rng *g, const conv_case *c) {
    const size_t n_x = c->n_tok * (c->n_ch + 2), n_y = c->n_tok * (c->n_ch + 1), n_state = (c->n_tap - 1) * c->n_ch;
    float *x = randoms(g, n_x, 1), *w = randoms(g, c->n_tap * c->n_ch, 1), *b = randoms(g, c->n_ch, 1);
    float *s0 = randoms(g, n_state, 1), *s1 = floats(n_state), *s2 = floats(n_state), *bias = c->bias ? b : NULL;
    float *y0 = floats(n_y), *y1 = floats(n_y), *y2 = floats(n_y);
    memcpy(s1, s0, n_state * sizeof *s0);
    memcpy(s2, s0, n_state * sizeof *s0);
    run_conv(ref, c, x, w, bias, s0, y0, c->n_tok, c->n_ch);
    run_conv(k, c, x, w, bias, s1, y1, c->n_tok, c->n_ch);
    run_conv(k, c, x, w, bias, s2, y2, c->n_tok / 2, c->n_ch / 3);
    for (size_t t = 0; t < c->n_tok; t++)
        for (size_t i = 0; i < c->n_ch; i++) {
            const size_t at = t * (c->n_ch + 1) + i;
            check_near(k, "conv", y1[at], y0[at], EPS * 8 * (double)(c->n_tap + 2) * (1 + fabs(y0[at])));
        }
    assert_memory_equal(s0, s1, n_state * sizeof *s0);
    assert_memory_equal(s2, s1, n_state * sizeof *s0);
    assert_memory_equal(y2, y1, n_y * sizeof *y1);
    check_guard(y1, n_y);
    check_guard(s1, n_state);
    ch_free(x), ch_free(w), ch_free(b), ch_free(s0), ch_free(s1), ch_free(s2), ch_free(y0), ch_free(y1), ch_free(y2);
}

static void test_conv(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (size_t tap = 1; tap <= 5; tap++)
            for (size_t tok = 1; tok <= 9; tok++)
                for (size_t ch = 1; ch <= 40; ch += 13) {
                    const conv_case c = {tok, tap, ch, tok % 2, tap % 2};
                    check_conv(&tiers->k[i], &tiers->k[0], &g, &c);
                }
}

// ---- bench: one thread

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Best time of the convolution of n_tok tokens, 6144 channels, 4 taps, in us a token.
static double time_conv(const ch_kern *k, ch_rng *g, size_t n_tok) {
    enum { N = 6144 };
    float *x = randoms(g, n_tok * N, 1), *y = floats(n_tok * N), *w = randoms(g, 4 * N, 1), *state = randoms(g, 3 * N, 1);
    const ch_conv_args a = {.n_tok = n_tok, .n_tap = 4, .c0 = 0, .c1 = N, .x = x, .ld_x = N, .w = w, .n_channel = N, .state = state,
                            .y = y, .ld_y = N, .silu = true};
    double best = 1e9;
    for (int rep = 0; rep < 30; rep++) {
        const double t0 = seconds();
        k->conv(&a);
        best = fmin(best, seconds() - t0);
    }
    ch_free(x), ch_free(y), ch_free(w), ch_free(state);
    return best * 1e6 / (double)n_tok;
}

static int bench(const checkkern_tiers *tiers) {
    enum { N = 4096, REP = 2000 };
    ch_rng g;
    ch_rng_seed(&g, seed);
    float *x = randoms(&g, N, 1), *w = randoms(&g, N, 1), *y = floats(N), *cs = floats(N);
    for (int i = 0; i < N / 2; i++) cs[2 * i] = cosf((float)i), cs[2 * i + 1] = sinf((float)i);
    for (int i = 1; i < tiers->n; i++) {
        const ch_kern *k = &tiers->k[i];
        double t[6];
        t[0] = seconds();
        for (int r = 0; r < REP; r++) k->rmsnorm(x, w, N, 1e-6f, y);
        t[1] = seconds();
        for (int r = 0; r < REP; r++) k->swiglu(x, w, N, y);
        t[2] = seconds();
        for (int r = 0; r < REP; r++) k->act_pack(CH_ACT_Q8, x, N, y);
        t[3] = seconds();
        for (int r = 0; r < REP; r++) k->softmax(y, N);
        t[4] = seconds();
        for (int r = 0; r < REP; r++) k->rope(x, N, cs, true);
        t[5] = seconds();
        printf("%-16s ns a value: rmsnorm %.3f, swiglu %.3f, act_pack %.3f, softmax %.3f, rope %.3f\n", k->name, (t[1] - t[0]) * 1e9 / N / REP,
               (t[2] - t[1]) * 1e9 / N / REP, (t[3] - t[2]) * 1e9 / N / REP, (t[4] - t[3]) * 1e9 / N / REP, (t[5] - t[4]) * 1e9 / N / REP);
        for (size_t n = 1; n <= 512; n *= 8)
            printf("%-16s conv %3zu tokens: %6.2f us a token (6144 channels, 4 taps)\n", k->name, n, time_conv(k, &g, n));
    }
    ch_free(x), ch_free(w), ch_free(y), ch_free(cs);
    return 0;
}

int main(int argc, char **argv) {
    checkkern_tiers tiers;
    checkkern_init(&tiers);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench")) return bench(&tiers);
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = strtoull(argv[i + 1], NULL, 10);
    }
    print_message("seed %llu, tiers:", (unsigned long long)seed);
    for (int i = 0; i < tiers.n; i++) print_message(" %s", tiers.k[i].name);
    print_message("\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_rows, &tiers), cmocka_unit_test_prestate(test_bf16, &tiers), cmocka_unit_test_prestate(test_sigmoid_points, &tiers),
        cmocka_unit_test_prestate(test_conv, &tiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
