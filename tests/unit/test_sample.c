// Sampling: every filter against a brute-force reference, degenerate parameters, masks, bad scores, draws against their
// distribution, seeds.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/sample.h"

#define N 4000

static ch_sample_params params(double t, double k, double p, double m) {
    ch_sample_params s;
    ch_sample_params_init(&s);
    s.v[CH_SAMPLE_temperature] = t;
    s.v[CH_SAMPLE_top_k] = k;
    s.v[CH_SAMPLE_top_p] = p;
    s.v[CH_SAMPLE_min_p] = m;
    return s;
}

static int by_score(const void *a, const void *b) {
    const ch_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

// Probabilities after the filters, the plain way: a full sort, then cuts. prob: [n].
static void reference(const float *x, int32_t n, const ch_sample_params *p, double *prob) {
    ch_candidate *c = malloc((size_t)n * sizeof *c);
    for (int32_t i = 0; i < n; i++)
        c[i] = (ch_candidate){i, x[i]}, prob[i] = 0;
    qsort(c, (size_t)n, sizeof *c, by_score);
    size_t keep = (size_t)n;
    if (p->v[CH_SAMPLE_top_k] >= 1 && p->v[CH_SAMPLE_top_k] < keep)
        keep = (size_t)p->v[CH_SAMPLE_top_k];
    if (p->v[CH_SAMPLE_top_p] < 1) {
        double sum = 0, part = 0;
        size_t i = 0;
        for (size_t j = 0; j < keep; j++)
            sum += exp((double)c[j].logit - (double)c[0].logit);
        while (i < keep && (i == 0 || part < p->v[CH_SAMPLE_top_p] * sum))
            part += exp((double)c[i++].logit - (double)c[0].logit);
        keep = i;
    }
    if (p->v[CH_SAMPLE_min_p] > 0) {
        size_t i = 1;
        while (i < keep && exp((double)c[i].logit - (double)c[0].logit) >= p->v[CH_SAMPLE_min_p])
            i++;
        keep = i;
    }
    double sum = 0;
    for (size_t j = 0; j < keep; j++)
        sum += prob[c[j].id] = exp(((double)c[j].logit - (double)c[0].logit) / p->v[CH_SAMPLE_temperature]);
    for (int32_t i = 0; i < n; i++)
        prob[i] /= sum;
    free(c);
}

static ch_sample_work *work(int32_t n) {
    ch_sample_work *w = NULL;
    assert_int_equal(ch_sample_work_create(&w, n, NULL), CH_OK);
    return w;
}

// Draws n_draw tokens and compares the counts with the reference by chi-squared over cells of expected count >= 8. For f
// degrees of freedom the statistic has mean f and variance 2 f; f + 6 sqrt(2 f) + 20 is passed by chance less than once in
// a million (the tail of chi-squared is below exp(-(s^2)/4) at s deviations, plus room for small f). A token of
// probability 0 must never come.
static void check_distribution(const float *x, int32_t n, ch_sample_params p, int n_draw, uint64_t seed) {
    double *prob = malloc((size_t)n * sizeof *prob);
    int *count = calloc((size_t)n, sizeof *count);
    reference(x, n, &p, prob);
    ch_sample_work *w = work(n);
    ch_rng rng;
    ch_rng_seed(&rng, seed);
    for (int i = 0; i < n_draw; i++) {
        int32_t id = -1;
        assert_int_equal(ch_sample_pick(w, &p, NULL, &rng, x, &id, NULL), CH_OK);
        assert_in_range(id, 0, n - 1);
        assert_true(prob[id] > 0);
        count[id]++;
    }
    double stat = 0, rest_p = 0;
    int cells = 0, rest = 0;
    for (int32_t i = 0; i < n; i++) {
        double want = prob[i] * n_draw;
        if (want < 8) {
            rest_p += prob[i], rest += count[i];
            continue;
        }
        stat += (count[i] - want) * (count[i] - want) / want;
        cells++;
    }
    if (rest_p * n_draw >= 8)
        stat += (rest - rest_p * n_draw) * (rest - rest_p * n_draw) / (rest_p * n_draw), cells++;
    double f = cells > 1 ? cells - 1 : 1, bound = f + 6 * sqrt(2 * f) + 20;
    if (stat > bound)
        fail_msg("chi-squared %g over %d cells, bound %g", stat, cells, bound);
    ch_sample_work_free(&w);
    free(prob);
    free(count);
}

static void random_scores(float *x, int32_t n, uint64_t seed, float spread) {
    ch_rng r;
    ch_rng_seed(&r, seed);
    for (int32_t i = 0; i < n; i++)
        x[i] = spread * ch_rng_normal(&r);
}

static void test_distribution(void **state) {
    (void)state;
    float x[300];
    random_scores(x, 300, 1, 2.0f);
    check_distribution(x, 300, params(1.0, 0, 1, 0), 50000, 1);
    check_distribution(x, 300, params(0.6, 0, 1, 0), 50000, 2);
    check_distribution(x, 300, params(1.5, 20, 1, 0), 50000, 3);
    check_distribution(x, 300, params(1.0, 0, 0.7, 0), 50000, 4);
    check_distribution(x, 300, params(2.0, 0, 1, 0.05), 50000, 5);
    check_distribution(x, 300, params(0.8, 40, 0.95, 0.05), 50000, 6);
    for (int i = 0; i < 300; i++)
        x[i] = (float)(i % 3); // many ties
    check_distribution(x, 300, params(1.0, 50, 1, 0), 50000, 7);
    check_distribution(x, 300, params(1.0, 150, 0.5, 0), 50000, 8);
}

// The set that can be drawn is exactly the reference's, for many random rows and parameters: checked by making the draw
// almost flat (temperature at its maximum on narrow scores) and seeing every kept token come, none other.
static void test_sets(void **state) {
    (void)state;
    ch_rng r;
    ch_rng_seed(&r, 99);
    float x[64];
    double prob[64];
    ch_sample_work *w = work(64);
    for (int round = 0; round < 300; round++) {
        random_scores(x, 64, (uint64_t)round, 0.5f);
        if (round % 3 == 0)
            for (int i = 0; i < 64; i++)
                x[i] = roundf(x[i] * 4) / 4;
        ch_sample_params p = params(2.0, (double)(ch_rng_u64(&r) % 66), ch_rng_f64(&r) * 1.1, ch_rng_f64(&r) * 0.8);
        if (p.v[CH_SAMPLE_top_p] > 1)
            p.v[CH_SAMPLE_top_p] = 1;
        reference(x, 64, &p, prob);
        bool seen[64] = {false};
        for (int i = 0; i < 3000; i++) {
            int32_t id = -1;
            assert_int_equal(ch_sample_pick(w, &p, NULL, &r, x, &id, NULL), CH_OK);
            seen[id] = true;
        }
        if (p.v[CH_SAMPLE_top_k] == 1)
            continue;
        // A kept token has at least probability e^-2/64 (scores within about 4, halved): missing in 3000 draws with e^-8
        // at worst; only tokens above 1 % are asked for, which are missed once in e^30.
        for (int i = 0; i < 64; i++)
            if (prob[i] == 0 ? seen[i] : prob[i] > 0.01 && !seen[i])
                fail_msg("round %d token %d probability %g seen %d", round, i, prob[i], seen[i]);
    }
    ch_sample_work_free(&w);
}

static void test_greedy(void **state) {
    (void)state;
    static float x[N];
    ch_sample_work *w = work(N);
    ch_rng rng;
    ch_rng_seed(&rng, 1);
    for (int round = 0; round < 100; round++) {
        random_scores(x, N, (uint64_t)round, 3.0f);
        if (round % 2)
            for (int i = 0; i < N; i++)
                x[i] = roundf(x[i]); // the lowest id of equals wins
        int32_t want = 0, id;
        for (int32_t i = 1; i < N; i++)
            if (x[i] > x[want])
                want = i;
        ch_sample_params p = params(0, 20, 0.9, 0.1), one = params(1.5, 1, 1, 0), none = params(1, 0, 0, 0);
        assert_int_equal(ch_sample_pick(w, &p, NULL, &rng, x, &id, NULL), CH_OK);
        assert_int_equal(id, want);
        assert_int_equal(ch_sample_pick(w, &one, NULL, &rng, x, &id, NULL), CH_OK);
        assert_int_equal(id, want);
        assert_int_equal(ch_sample_pick(w, &none, NULL, &rng, x, &id, NULL), CH_OK); // top_p 0 keeps the best
        assert_int_equal(id, want);
    }
    ch_sample_work_free(&w);
}

// Whatever is banned, one token survives; bad scores are an error that names the token.
static void test_degenerate(void **state) {
    (void)state;
    float x[10];
    ch_sample_work *w = work(10);
    ch_rng rng;
    ch_rng_seed(&rng, 5);
    ch_sample_params all[] = {params(0, 0, 1, 0), params(1, 0, 0, 1), params(1e-300, 0, 1, 0), params(2, 3, 0.5, 0.5),
                              params(1, 2147483647, 1, 1), params(2, 0, 1, 0)};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        int32_t id = -1;
        for (int i = 0; i < 10; i++)
            x[i] = -INFINITY;
        ch_error e = {0};
        assert_int_equal(ch_sample_pick(w, &all[k], NULL, &rng, x, &id, &e), CH_EINTERNAL);
        assert_non_null(strstr(e.msg, "found none"));
        x[7] = -3e38f;
        assert_int_equal(ch_sample_pick(w, &all[k], NULL, &rng, x, &id, NULL), CH_OK);
        assert_int_equal(id, 7);
        x[3] = 3e38f; // the difference overflows a float
        assert_int_equal(ch_sample_pick(w, &all[k], NULL, &rng, x, &id, NULL), CH_OK);
        assert_int_equal(id, 3);
        for (int i = 0; i < 10; i++)
            x[i] = 1.0f;
        for (int bad = 0; bad < 10; bad++) {
            x[bad] = bad % 2 ? NAN : INFINITY;
            assert_int_equal(ch_sample_pick(w, &all[k], NULL, &rng, x, &id, &e), CH_EINTERNAL);
            char want[32];
            snprintf(want, sizeof want, "token %d is", bad);
            assert_non_null(strstr(e.msg, want));
            x[bad] = 1.0f;
        }
    }
    ch_sample_work_free(&w);
    float one = -5.0f;
    int32_t id = -1;
    w = work(1);
    assert_int_equal(ch_sample_pick(w, &all[3], NULL, &rng, &one, &id, NULL), CH_OK);
    assert_int_equal(id, 0);
    ch_sample_work_free(&w);
}

static void test_mask(void **state) {
    (void)state;
    ch_sample_mask m;
    assert_int_equal(ch_sample_mask_init(&m, NULL, 0, NULL), CH_ERANGE);
    assert_int_equal(ch_sample_mask_init(&m, NULL, 20, NULL), CH_OK);
    assert_int_equal(m.n_banned, 0);
    float x[20];
    for (int i = 0; i < 20; i++)
        x[i] = (float)i;
    for (int i = 12; i < 20; i++)
        m.allow[i] = 0;
    m.allow[11] = 0;
    ch_sample_work *w = work(20);
    ch_rng rng;
    ch_rng_seed(&rng, 7);
    int32_t id;
    ch_sample_params greedy = params(0, 0, 1, 0), flat = params(2, 0, 1, 0), top = params(2, 5, 1, 0);
    assert_int_equal(ch_sample_pick(w, &greedy, &m, &rng, x, &id, NULL), CH_OK);
    assert_int_equal(id, 10);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(ch_sample_pick(w, &flat, &m, &rng, x, &id, NULL), CH_OK);
        assert_in_range(id, 0, 10);
        assert_int_equal(ch_sample_pick(w, &top, &m, &rng, x, &id, NULL), CH_OK);
        assert_in_range(id, 6, 10);
    }
    for (int i = 0; i < 20; i++)
        m.allow[i] = 0; // all banned: an error, not a token
    assert_int_equal(ch_sample_pick(w, &flat, &m, &rng, x, &id, NULL), CH_EINTERNAL);
    ch_sample_mask_free(&m);
    ch_sample_work_free(&w);
}

static void test_seed(void **state) {
    (void)state;
    static float x[N];
    ch_sample_work *w = work(N);
    int32_t a[200], b[200], c[200];
    ch_rng ra, rb, rc, noise;
    ch_rng_seed(&ra, 1);
    ch_rng_seed(&rb, 1);
    ch_rng_seed(&rc, 2);
    ch_rng_seed(&noise, 3);
    ch_sample_params p = params(1, 40, 0.95, 0.02), q = params(2, 0, 1, 0);
    int differ = 0;
    for (int i = 0; i < 200; i++) {
        random_scores(x, N, (uint64_t)i, 2.0f);
        int32_t other;
        assert_int_equal(ch_sample_pick(w, &p, NULL, &ra, x, &a[i], NULL), CH_OK);
        assert_int_equal(ch_sample_pick(w, &q, NULL, &noise, x, &other, NULL), CH_OK); // a neighbour on the same work
        assert_int_equal(ch_sample_pick(w, &p, NULL, &rb, x, &b[i], NULL), CH_OK);
        assert_int_equal(ch_sample_pick(w, &p, NULL, &rc, x, &c[i], NULL), CH_OK);
        assert_int_equal(a[i], b[i]);
        differ += a[i] != c[i];
    }
    assert_true(differ > 20);
    ch_sample_work_free(&w);
}

static void test_logprobs(void **state) {
    (void)state;
    float x[100];
    random_scores(x, 100, 4, 3.0f);
    x[50] = -INFINITY;
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += exp((double)x[i]);
    ch_sample_work *w = work(100);
    ch_candidate top[100], sorted[100];
    float lp;
    for (int i = 0; i < 100; i++)
        sorted[i] = (ch_candidate){i, x[i]};
    qsort(sorted, 100, sizeof sorted[0], by_score);
    assert_int_equal(ch_sample_logprobs(w, x, 17, &lp, top, 20), 20);
    assert_true(fabs((double)lp - ((double)x[17] - log(sum))) < 1e-5);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(top[i].id, sorted[i].id);
        assert_true(fabs((double)top[i].logit - ((double)sorted[i].logit - log(sum))) < 1e-5);
    }
    assert_int_equal(ch_sample_logprobs(w, x, 17, NULL, top, 0), 0);
    assert_int_equal(ch_sample_logprobs(w, x, 17, NULL, top, 100), 100);
    ch_sample_work_free(&w);
}

static void test_params(void **state) {
    (void)state;
    size_t n = 0;
    while (ch_sample_param_at(n)) {
        const ch_sample_param *p = ch_sample_param_at(n);
        assert_int_equal(ch_sample_check_param(n, p->def, NULL), CH_OK);
        assert_int_equal(ch_sample_check_param(n, p->min, NULL), CH_OK);
        assert_int_equal(ch_sample_check_param(n, p->max, NULL), CH_OK);
        ch_error e = {0};
        assert_int_equal(ch_sample_check_param(n, p->min - 0.01, &e), CH_ERANGE);
        assert_non_null(strstr(e.msg, p->name));
        assert_int_equal(ch_sample_check_param(n, p->max + 1, NULL), CH_ERANGE);
        assert_int_equal(ch_sample_check_param(n, NAN, NULL), CH_ERANGE);
        assert_int_equal(ch_sample_check_param(n, INFINITY, NULL), CH_ERANGE);
        if (p->is_int)
            assert_int_equal(ch_sample_check_param(n, 1.5, NULL), CH_ERANGE);
        n++;
    }
    assert_int_equal(n, CH_SAMPLE_N_PARAM);
    assert_int_equal(ch_sample_check_param(n, 0, NULL), CH_ERANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),       cmocka_unit_test(test_greedy), cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_mask),         cmocka_unit_test(test_seed),   cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_distribution), cmocka_unit_test(test_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
