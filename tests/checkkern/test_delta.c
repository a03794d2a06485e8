// Gated delta rule of every tier against the reference tier: one decay per token (GDN) and one per key channel (KDA), all
// lengths across tiles, odd sizes, strong decay. Outputs and states sit between guard values, and cutting the tokens must not
// change a bit. test_delta --bench times both; --seed N repeats a run.
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
static uint64_t seed = 20260201;
static const float GUARD_VALUE = -12345.5f;

typedef enum decay_kind { DECAY_MIXED, DECAY_NONE, DECAY_STRONG, DECAY_UNDERFLOW } decay_kind; // -1..0 with jumps of -200; 0; -30; -200

typedef struct delta_case {
    bool kda;
    size_t n_tok, d_k, d_v;
    decay_kind decay;
} delta_case;

static float *floats(size_t n) {
    float *p = ch_alloc_aligned((n + GUARD) * sizeof *p, 64);
    assert_non_null(p);
    for (size_t i = 0; i < n + GUARD; i++) p[i] = GUARD_VALUE;
    return p;
}

static float *randoms(ch_rng *g, size_t n) {
    float *p = floats(n);
    for (size_t i = 0; i < n; i++) p[i] = ch_rng_normal(g);
    return p;
}

static void check_guard(const float *p, size_t n) {
    for (int i = 0; i < GUARD; i++) assert_true(p[n + (size_t)i] == GUARD_VALUE);
}

static float decay_of(ch_rng *g, decay_kind kind, size_t i) {
    if (kind == DECAY_NONE) return 0;
    if (kind == DECAY_STRONG) return -30;
    if (kind == DECAY_UNDERFLOW) return -200;
    return i % 7 == 4 ? -200.0f : -(float)ch_rng_f64(g);
}

// Runs tokens [0, cut) and then the rest.
static void run(const ch_kern *k, const delta_case *c, ch_gdn_args a, size_t cut) {
    const size_t n = a.n_tok;
    a.n_tok = cut;
    (c->kda ? k->kda : k->gdn)(&a);
    a.n_tok = n - cut;
    a.q += cut * a.ld_qk, a.k += cut * a.ld_qk, a.v += cut * a.ld_v;
    a.beta += cut * a.ld_bg, a.g += cut * (c->kda ? a.ld_g : a.ld_bg), a.out += cut * a.ld_out;
    (c->kda ? k->kda : k->gdn)(&a);
}

static void check_near(const ch_kern *k, const delta_case *c, const char *what, const float *got, const float *want, size_t n, size_t n_col,
                       size_t ld, double most) {
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < n_col; i++) {
            const double x = got[t * ld + i], y = want[t * ld + i];
            if (!(fabs(x - y) <= most))
                fail_msg("%s %s %zu tokens %zu x %zu, %s: row %zu value %zu is %.9g, reference %.9g, allowed %.3g", k->name, c->kda ? "kda" : "gdn",
                         c->n_tok, c->d_k, c->d_v, what, t, i, x, y, most);
        }
}

static void check(const ch_kern *k, const ch_kern *ref, ch_rng *g, const delta_case *c) {
    ch_gdn_args a = {.n_tok = c->n_tok, .d_k = c->d_k, .d_v = c->d_v, .ld_qk = c->d_k + 1, .ld_v = c->d_v + 2, .ld_bg = 3,
                     .ld_out = c->d_v + 1, .ld_g = c->d_k + 3};
    const size_t n_out = c->n_tok * a.ld_out, n_state = c->d_k * c->d_v, n_g = c->n_tok * (c->kda ? a.ld_g : a.ld_bg);
    float *q = randoms(g, c->n_tok * a.ld_qk), *key = randoms(g, c->n_tok * a.ld_qk), *v = randoms(g, c->n_tok * a.ld_v);
    float *beta = floats(c->n_tok * 3), *decay = floats(n_g), *s[4], *out[4];
    for (size_t t = 0; t < c->n_tok; t++) {
        beta[3 * t] = (float)ch_rng_f64(g);
        ref->l2norm(key + t * a.ld_qk, c->d_k, 1e-6f, 1, key + t * a.ld_qk);
        ref->l2norm(q + t * a.ld_qk, c->d_k, 1e-6f, 1 / sqrtf((float)c->d_k), q + t * a.ld_qk);
        for (size_t i = 0; i < (c->kda ? c->d_k : 1); i++) decay[t * (c->kda ? a.ld_g : a.ld_bg) + i] = decay_of(g, c->decay, c->kda ? t + i : t);
    }
    a.q = q, a.k = key, a.v = v, a.beta = beta, a.g = decay;
    float *s0 = randoms(g, n_state);
    const size_t cut[4] = {c->n_tok, c->n_tok, c->n_tok / 2, c->n_tok > 5 ? 5 : 0};
    for (int i = 0; i < 4; i++) {
        s[i] = floats(n_state), out[i] = floats(n_out);
        memcpy(s[i], s0, n_state * sizeof *s0);
        a.state = s[i], a.out = out[i];
        run(i ? k : ref, c, a, cut[i]);
    }
    // |k| = 1 and beta < 1: a token shrinks the state along k and adds less than |v| to it, so no value passes |S0| + n |v|, and
    // in random directions none passes `size`; a product with k or q sums d_k terms of it. Each token rounds each value a few
    // times (decay, exp within 2 ulp, sum of d_k / 8 terms per lane, the update), and earlier errors never grow.
    const double size = 6 * sqrt((double)c->d_k) + 6, most = (double)FLT_EPSILON * ((double)c->d_k / 8 + 12) * size * (double)c->n_tok;
    check_near(k, c, "output", out[1], out[0], c->n_tok, c->d_v, a.ld_out, most);
    check_near(k, c, "state", s[1], s[0], 1, n_state, n_state, most);
    for (int i = 1; i < 4; i++) {
        check_guard(out[i], n_out), check_guard(s[i], n_state);
        assert_memory_equal(s[1], s[i], n_state * sizeof *s0);
        assert_memory_equal(out[1], out[i], n_out * sizeof *s0);
    }
    for (int i = 0; i < 4; i++) ch_free(s[i]), ch_free(out[i]);
    ch_free(q), ch_free(key), ch_free(v), ch_free(beta), ch_free(decay), ch_free(s0);
}

static void test_sizes(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__aarch64__) // slow, as under an emulator
    static const size_t dims[] = {1, 16, 33, 128};
#else
    static const size_t dims[] = {1, 7, 16, 33, 64, 100, 128, 256};
#endif
    enum { N_DIM = sizeof dims / sizeof *dims };
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (size_t a = 0; a < N_DIM; a++)
            for (size_t b = 0; b < N_DIM; b += 1 + a % 3)
                for (size_t n = 1; n <= 40; n += 13)
                    for (int kda = 0; kda < 2; kda++) check(&tiers->k[i], &tiers->k[0], &g, &(delta_case){kda, n, dims[a], dims[b], DECAY_MIXED});
}

// Every length over several tiles and past a chunk of 64.
static void test_lengths(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (size_t n = 1; n <= 130; n++)
            for (int kda = 0; kda < 2; kda++) {
                check(&tiers->k[i], &tiers->k[0], &g, &(delta_case){kda, n, 24, 20, (decay_kind)(n % 2)});
                if (n % 32 < 2) check(&tiers->k[i], &tiers->k[0], &g, &(delta_case){kda, n, 128, 64, DECAY_MIXED});
            }
}

// A decay of exp(-30) for 64 tokens, and one that underflows: finite, and equal to the recurrent form.
static void test_decay(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (int kda = 0; kda < 2; kda++)
            for (int kind = DECAY_NONE; kind <= DECAY_UNDERFLOW; kind++)
                check(&tiers->k[i], &tiers->k[0], &g, &(delta_case){kda, 64, 128, 128, (decay_kind)kind});
}

// Rows wider than a tile has room for at its full length.
static void test_wide(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (int kda = 0; kda < 2; kda++) {
            check(&tiers->k[i], &tiers->k[0], &g, &(delta_case){kda, 9, 1024, 5, DECAY_MIXED});
            check(&tiers->k[i], &tiers->k[0], &g, &(delta_case){kda, 3, 4096, 3, DECAY_MIXED});
        }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Eight heads of 128 x 128 side by side, as a model has them.
static int bench(const checkkern_tiers *tiers) {
    enum { D = 128, H = 8, N = 512 };
    static const size_t lengths[] = {1, 16, 64, 512};
    ch_rng g;
    ch_rng_seed(&g, seed);
    float *q = randoms(&g, N * H * D), *k = randoms(&g, N * H * D), *v = randoms(&g, N * H * D), *out = floats(N * H * D);
    float *decay = floats(N * H * D), *beta = floats(N * H), *s = randoms(&g, H * D * D);
    for (size_t i = 0; i < N * H * D; i++) decay[i] = -0.1f * (float)ch_rng_f64(&g);
    for (size_t i = 0; i < N * H; i++) {
        beta[i] = (float)ch_rng_f64(&g);
        tiers->k[0].l2norm(k + i * D, D, 1e-6f, 1, k + i * D), tiers->k[0].l2norm(q + i * D, D, 1e-6f, 0.0884f, q + i * D);
    }
    for (int i = 0; i < tiers->n; i++)
        for (size_t l = 0; l < 4; l++)
            for (int kda = 0; kda < 2; kda++) {
                double best = 1e9;
                for (int rep = 0; rep < (i ? 30 : 2); rep++) {
                    const double t0 = seconds();
                    for (size_t h = 0; h < H; h++)
                        (kda ? tiers->k[i].kda : tiers->k[i].gdn)(&(ch_gdn_args){
                            .n_tok = lengths[l], .d_k = D, .d_v = D, .q = q + h * D, .k = k + h * D, .v = v + h * D, .beta = beta + h,
                            .g = kda ? decay + h * D : decay + h, .ld_qk = H * D, .ld_v = H * D, .ld_bg = H, .ld_g = H * D,
                            .state = s + h * D * D, .out = out + h * D, .ld_out = H * D});
                    best = fmin(best, seconds() - t0);
                }
                printf("%-16s %s %3zu tokens: %6.2f us a head and token (128 x 128)\n", tiers->k[i].name, kda ? "kda" : "gdn", lengths[l],
                       best * 1e6 / (double)(H * lengths[l]));
            }
    ch_free(q), ch_free(k), ch_free(v), ch_free(out), ch_free(decay), ch_free(beta), ch_free(s);
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
        cmocka_unit_test_prestate(test_sizes, &tiers), cmocka_unit_test_prestate(test_lengths, &tiers),
        cmocka_unit_test_prestate(test_decay, &tiers), cmocka_unit_test_prestate(test_wide, &tiers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
