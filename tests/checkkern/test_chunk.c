// Chunk forms of the delta rules and of Mamba-2's scan, every tier, against the recurrence of the reference tier: every length over
// two chunks, odd sizes, decays from none to underflow, cuts at whole chunks. Outputs, states and scratch end in guard values.
// test_chunk --bench times both forms of every tier; --seed N repeats a run.
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
static uint64_t seed = 20260301;
static const float GUARD_VALUE = -12345.5f;
static const double EPS = FLT_EPSILON;

typedef enum mixer { GDN, KDA, SSM2, N_KIND } mixer;
static const char *const kind_name[] = {"gdn", "kda", "ssm2"};
typedef enum decay_kind { DECAY_MIXED, DECAY_NONE, DECAY_STRONG, DECAY_UNDERFLOW } decay_kind; // -1..0 with jumps of -200; 0; -30; -200

typedef struct chunk_case {
    mixer kind;
    size_t n_tok, d_k, d_v; // ssm2: d_state, d_head
    decay_kind decay;
} chunk_case;

// Inputs of one case, in the terms of the delta rules; for ssm2: b, c, x, dt.
typedef struct data {
    size_t ld_k, ld_v, ld_b, ld_g, ld_out, n_out, n_state;
    float *k, *q, *v, *beta, *g, *state;
} data;

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

static data make(const ch_kern *ref, const chunk_case *c, ch_rng *g) {
    data d = {.ld_k = c->d_k + 1, .ld_v = c->d_v + 2, .ld_b = 3, .ld_g = c->kind == KDA ? c->d_k + 3 : 3, .ld_out = c->d_v + 1,
              .n_state = c->d_k * c->d_v};
    d.n_out = c->n_tok * d.ld_out;
    d.k = randoms(g, c->n_tok * d.ld_k), d.q = randoms(g, c->n_tok * d.ld_k), d.v = randoms(g, c->n_tok * d.ld_v);
    d.beta = floats(c->n_tok * d.ld_b), d.g = floats(c->n_tok * d.ld_g), d.state = randoms(g, d.n_state);
    for (size_t t = 0; t < c->n_tok; t++) {
        // ssm2: the step; a is -2, so that the decay is that of the other two.
        d.beta[t * d.ld_b] = c->kind == SSM2 ? -decay_of(g, c->decay, t) / 2 : (float)ch_rng_f64(g);
        for (size_t i = 0; i < (c->kind == KDA ? c->d_k : 1); i++) d.g[t * d.ld_g + i] = decay_of(g, c->decay, c->kind == KDA ? t + i : t);
        if (c->kind == SSM2) continue;
        ref->l2norm(d.k + t * d.ld_k, c->d_k, 1e-6f, 1, d.k + t * d.ld_k);
        ref->l2norm(d.q + t * d.ld_k, c->d_k, 1e-6f, 1 / sqrtf((float)c->d_k), d.q + t * d.ld_k);
    }
    return d;
}

static void free_data(data *d) {
    ch_free(d->k), ch_free(d->q), ch_free(d->v), ch_free(d->beta), ch_free(d->g), ch_free(d->state);
}

// Tokens [t0, t1); scratch NULL: the recurrence.
static void run(const ch_kern *k, const chunk_case *c, const data *d, size_t t0, size_t t1, float *state, float *out, float *scratch) {
    if (c->kind == SSM2) {
        const ch_ssm2_args a = {.n_tok = t1 - t0, .d_head = c->d_v, .d_state = c->d_k, .x = d->v + t0 * d->ld_v, .dt = d->beta + t0 * d->ld_b,
                                .b = d->k + t0 * d->ld_k, .c = d->q + t0 * d->ld_k, .ld_x = d->ld_v, .ld_dt = d->ld_b, .ld_bc = d->ld_k,
                                .a = -2, .skip = 1.3f, .state = state, .y = out + t0 * d->ld_out, .ld_y = d->ld_out, .scratch = scratch};
        (scratch ? k->ssm2_chunk : k->ssm2)(&a);
        return;
    }
    const ch_gdn_args a = {.n_tok = t1 - t0, .d_k = c->d_k, .d_v = c->d_v, .q = d->q + t0 * d->ld_k, .k = d->k + t0 * d->ld_k,
                           .v = d->v + t0 * d->ld_v, .beta = d->beta + t0 * d->ld_b, .g = d->g + t0 * d->ld_g, .ld_qk = d->ld_k,
                           .ld_v = d->ld_v, .ld_bg = 3, .ld_g = d->ld_g, .state = state, .out = out + t0 * d->ld_out,
                           .ld_out = d->ld_out, .scratch = scratch};
    if (c->kind == KDA) (scratch ? k->kda_chunk : k->kda)(&a);
    else (scratch ? k->gdn_chunk : k->gdn)(&a);
}

static void check_near(const ch_kern *k, const chunk_case *c, const char *what, const float *got, const float *want, const float *mass,
                       size_t n, double most) {
    for (size_t i = 0; i < n; i++) {
        const double allowed = mass ? most * (double)mass[i] + 1e-37 : most;
        if (got[i] != want[i] && !(fabs((double)got[i] - want[i]) <= allowed))
            fail_msg("%s %s %zu tokens %zu x %zu, %s: value %zu is %.9g, recurrence %.9g, allowed %.3g", k->name, kind_name[c->kind], c->n_tok,
                     c->d_k, c->d_v, what, i, got[i], want[i], allowed);
    }
    check_guard(got, n);
}

// The rounding that both forms may differ by. Delta rules: as for the recurrence (test_delta.c), no value of the state or of an
// output passes `size`, and a token's rounding, which is never enlarged later, is that of a dot product of d_k terms in lanes of 8,
// of a sum over the 16 tokens of a sub-chunk, and of decays that are products of up to 16 factors, each twice. Mamba-2: steps times the
// mass, which is the scan of absolute values.
static double bound(const chunk_case *c) {
    const double steps = (double)c->d_k / 8 + 12 + 4 * 16;
    return EPS * steps * (double)c->n_tok * (c->kind == SSM2 ? 1 : 6 * sqrt((double)c->d_k) + 6);
}

static void absolute(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = fabsf(x[i]);
}

static void check(const ch_kern *k, const ch_kern *ref, ch_rng *g, const chunk_case *c) {
    data d = make(ref, c, g);
    const size_t n_scratch = k->chunk_scratch(c->d_k, c->d_v), n = c->n_tok, cut = n > CH_CHUNK ? CH_CHUNK : 0;
    float *scratch = floats(n_scratch), *s[4], *out[4];
    for (int i = 0; i < 4; i++) s[i] = floats(d.n_state), out[i] = floats(d.n_out), memcpy(s[i], d.state, d.n_state * sizeof *s[i]);
    run(ref, c, &d, 0, n, s[0], out[0], NULL);
    run(k, c, &d, 0, n, s[1], out[1], scratch);
    if (cut) run(k, c, &d, 0, cut, s[2], out[2], scratch);
    run(k, c, &d, cut, n, s[2], out[2], scratch);
    check_guard(scratch, n_scratch);
    if (c->kind == SSM2) {
        absolute(d.k, n * d.ld_k), absolute(d.q, n * d.ld_k), absolute(d.v, n * d.ld_v), absolute(s[3], d.n_state);
        run(ref, c, &d, 0, n, s[3], out[3], NULL);
    }
    check_near(k, c, "output", out[1], out[0], c->kind == SSM2 ? out[3] : NULL, d.n_out, bound(c)); // gaps between rows are guard values
    check_near(k, c, "state", s[1], s[0], c->kind == SSM2 ? s[3] : NULL, d.n_state, bound(c));
    assert_memory_equal(out[1], out[2], d.n_out * sizeof **out); // a cut at a whole chunk changes no bit
    assert_memory_equal(s[1], s[2], d.n_state * sizeof **s);
    for (int i = 0; i < 4; i++) ch_free(s[i]), ch_free(out[i]);
    ch_free(scratch), free_data(&d);
}

static void test_lengths(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 0; i < tiers->n; i++)
        for (size_t n = 1; n <= 130; n++)
            for (mixer k = 0; k < N_KIND; k++) check(&tiers->k[i], &tiers->k[0], &g, &(chunk_case){k, n, 24, 20, (decay_kind)(n % 2)});
}

static void test_sizes(void **state) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__aarch64__) // slow, as under an emulator
    static const size_t dims[] = {1, 16, 33, 128};
#else
    static const size_t dims[] = {1, 7, 16, 33, 64, 100, 128};
#endif
    enum { N_DIM = sizeof dims / sizeof *dims };
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed + 1);
    for (int i = 0; i < tiers->n; i++)
        for (size_t a = 0; a < N_DIM; a++)
            for (size_t b = 0; b < N_DIM; b += 1 + a % 3)
                for (mixer k = 0; k < N_KIND; k++)
                    check(&tiers->k[i], &tiers->k[0], &g, &(chunk_case){k, i ? 77 : 19, dims[a], dims[b], DECAY_MIXED});
}

// exp(-30) a token overflows where a decay is taken apart into exp(G_t) exp(-G_s); exp(-200) underflows.
static void test_decay(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed + 2);
    for (int i = 0; i < tiers->n; i++)
        for (mixer k = 0; k < N_KIND; k++)
            for (decay_kind kind = DECAY_MIXED; kind <= DECAY_UNDERFLOW; kind++)
                check(&tiers->k[i], &tiers->k[0], &g, &(chunk_case){k, 128, i ? 128 : 32, i ? 128 : 8, kind});
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// One head, 512 tokens: the delta rules at 128 x 128, Mamba-2 at 64 x 128.
static int bench(const checkkern_tiers *tiers) {
    for (mixer kd = 0; kd < N_KIND; kd++) {
        const chunk_case c = {kd, 512, 128, kd == SSM2 ? 64 : 128, DECAY_MIXED};
        ch_rng g;
        ch_rng_seed(&g, seed);
        data d = make(&tiers->k[0], &c, &g);
        for (size_t i = 0; i < c.n_tok * d.ld_g; i++) d.g[i] = -0.1f * (float)ch_rng_f64(&g);
        for (size_t i = 0; i < c.n_tok * d.ld_b && kd == SSM2; i++) d.beta[i] = 0.05f * (float)ch_rng_f64(&g);
        float *out = floats(d.n_out);
        for (int i = 1; i < tiers->n; i++)
            for (int chunk = 0; chunk < 2; chunk++) {
                float *scratch = floats(tiers->k[i].chunk_scratch(c.d_k, c.d_v));
                double best = 1e9;
                for (int rep = 0; rep < 50; rep++) {
                    const double t0 = seconds();
                    run(&tiers->k[i], &c, &d, 0, c.n_tok, d.state, out, chunk ? scratch : NULL);
                    best = fmin(best, seconds() - t0);
                }
                printf("%-16s %-4s %-10s: %7.3f us a head and token (%zu x %zu, 512 tokens)\n", tiers->k[i].name, kind_name[kd],
                       chunk ? "chunk" : "recurrence", best * 1e6 / 512, c.d_v, c.d_k);
                ch_free(scratch);
            }
        ch_free(out), free_data(&d);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_lengths, &tiers), cmocka_unit_test_prestate(test_sizes, &tiers),
                                       cmocka_unit_test_prestate(test_decay, &tiers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
