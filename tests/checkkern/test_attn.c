// Attention and rotation of every tier against the reference tier; bounds follow from the data, outputs sit between guard bytes,
// and neither the number of rows of a call nor that of threads may change a bit.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "checkkern/checkkern.h"
#include "checkkern/weights.h"

enum { GUARD = 64, FILL = 0xa5, N_TYPES = 7 };

static uint64_t seed = 20260102;
static const double EPS = FLT_EPSILON;
static const char *const types[N_TYPES] = {"f32", "f16", "bf16", "q8_0", "q4_0", "tq4", "tq3"};

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
    if (!(fabs(a - b) <= most)) fail_msg("%s %s: %.9g, reference %.9g, off by %.3g, allowed %.3g", k->name, what, a, b, fabs(a - b), most);
}

// All ranges of each row, a few tokens at a time, as op does it. range 0: ch_attn_range_size's.
static void run_attn(const ch_kern *k, ch_attn_args a, size_t step, size_t range, float *out, size_t ld_out) {
    const size_t n = a.n_tok, pos0 = a.pos0, ld = ch_attn_part_floats(a.d_v);
    const float *q = a.q;
    for (size_t t = 0; t < n; t += step) {
        a.n_tok = n - t < step ? n - t : step, a.pos0 = pos0 + t, a.q = q + t * a.ld_q;
        const size_t n_row = a.n_tok * a.n_q, n_scratch = k->attn_scratch(a.n_tok, a.n_q, a.d_k, a.d_v);
        const size_t size = range ? range : ch_attn_range_size(a.pos0 + a.n_tok);
        float *total = floats(n_row * ld);
        a.scratch = floats(n_scratch), a.part = floats(n_row * ld);
        for (a.begin = 0; a.begin < a.pos0 + a.n_tok; a.begin += size) {
            a.end = a.begin + size;
            k->attn(&a);
            check_guard(a.part, n_row * ld);
            check_guard(a.scratch, n_scratch);
            if (!a.begin) memcpy(total, a.part, n_row * ld * sizeof *total);
            else
                for (size_t r = 0; r < n_row; r++) ch_kern_attn_fold(total + r * ld, a.part + r * ld, a.d_v);
        }
        for (size_t r = 0; r < n_row; r++)
            ch_kern_attn_finish(total + r * ld, a.d_v, out + (t + r / a.n_q) * ld_out + r % a.n_q * a.d_v);
        ch_free(a.scratch), ch_free(a.part), ch_free(total);
    }
}

typedef struct attn_case {
    size_t n_tok, n_q, d_k, d_v, pos0;
} attn_case;

static void check_attn(const ch_kern *k, const ch_kern *ref, ch_rng *g, const attn_case *c, float size) {
    const size_t n_pos = c->pos0 + c->n_tok, n_page = (n_pos + CH_KV_PAGE - 1) / CH_KV_PAGE;
    const size_t k_ld = c->d_k + 3, v_ld = c->d_v + 1, page_floats = CH_KV_PAGE * (k_ld + v_ld);
    float *kv = randoms(g, n_page * page_floats, 1);
    const uint8_t **page = ch_alloc_array(n_page, sizeof *page);
    for (size_t i = 0; i < n_page; i++) page[i] = (const uint8_t *)(kv + (n_page - 1 - i) * page_floats);
    // What lies past the last position must not matter.
    for (size_t p = n_pos; p < n_page * CH_KV_PAGE; p++) {
        float *base = (float *)(uintptr_t)page[n_page - 1];
        for (size_t i = 0; i < c->d_k; i++) base[p % CH_KV_PAGE * k_ld + i] = NAN;
        for (size_t i = 0; i < c->d_v; i++) base[CH_KV_PAGE * k_ld + p % CH_KV_PAGE * v_ld + i] = NAN;
    }
    ch_attn_args a = {.n_tok = c->n_tok, .n_q = c->n_q, .d_k = c->d_k, .d_v = c->d_v, .pos0 = c->pos0, .page = page,
                      .v_off = CH_KV_PAGE * k_ld * sizeof(float), .k_ld = k_ld * sizeof(float), .v_ld = v_ld * sizeof(float),
                      .k_type = ch_quant_type(CH_TYPE_F32), .v_type = ch_quant_type(CH_TYPE_F32),
                      .scale = size / sqrtf((float)c->d_k), .ld_q = c->n_q * c->d_k + 2};
    const size_t ld_out = c->n_q * c->d_v + 1, n_out = c->n_tok * ld_out;
    float *q = randoms(g, c->n_tok * a.ld_q, 1), *out[6];
    a.q = q;
    // The last two: ranges of one page, in one call and row by row.
    for (int i = 0; i < 6; i++) {
        out[i] = floats(n_out);
        run_attn(i ? k : ref, a, i == 2 || i == 5 ? 1 : i == 3 ? 3 : c->n_tok, i >= 4 ? CH_KV_PAGE : 0, out[i], ld_out);
    }
    // A score is off by about its magnitude sum (below 6 * scale * d_k) times the roundings of d_k / 8 terms; weights by as
    // much, relatively; values are below 6. Each fold rounds a few times more.
    const double score = 6 * a.scale * (double)c->d_k * EPS * ((double)c->d_k / 8 + 8);
    const double most = 6 * (2 * score + EPS * ((double)n_pos / 8 + 16)), folds = 6 * EPS * 8 * (double)n_page;
    for (size_t t = 0; t < c->n_tok; t++)
        for (size_t i = 0; i < c->n_q * c->d_v; i++) {
            const size_t at = t * ld_out + i;
            check_near(k, "attention", out[1][at], out[0][at], most);
            check_near(k, "attention by pages", out[4][at], out[0][at], most + folds);
        }
    assert_memory_equal(out[1], out[2], n_out * sizeof(float));
    assert_memory_equal(out[1], out[3], n_out * sizeof(float));
    assert_memory_equal(out[4], out[5], n_out * sizeof(float));
    check_guard(out[1], n_out);
    for (int i = 0; i < 6; i++) ch_free(out[i]);
    ch_free(q), ch_free(page), ch_free(kv);
}

static void test_attn(void **state) {
    static const attn_case cases[] = {
        {1, 1, 16, 16, 0},    {1, 1, 64, 64, 63},   {1, 4, 128, 128, 200}, {1, 8, 256, 256, 130}, {5, 1, 33, 20, 60},
        {7, 3, 64, 48, 100},  {20, 2, 40, 7, 0},    {70, 6, 32, 32, 10},   {9, 5, 1, 1, 125},     {64, 1, 24, 64, 64},
        {3, 16, 128, 64, 300}, {2, 4, 64, 64, 511}, {3, 7, 96, 80, 1100}};
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 1; i < tiers->n; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            check_attn(&tiers->k[i], &tiers->k[0], &g, &cases[c], 1);
            check_attn(&tiers->k[i], &tiers->k[0], &g, &cases[c], 20); // one position takes nearly all the weight
            check_attn(&tiers->k[i], &tiers->k[0], &g, &cases[c], 0);
        }
}

// A range that no row or not every row sees: parts of rows without a position are empty and change nothing when folded.
static void test_unseen_range(void **state) {
    enum { D = 32, N_TOK = 3, POS0 = CH_KV_PAGE - 1 };
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    float *kv = randoms(&g, 4 * CH_KV_PAGE * D, 1), *q = randoms(&g, N_TOK * D, 1);
    const uint8_t *page[2] = {(const uint8_t *)kv, (const uint8_t *)(kv + 2 * CH_KV_PAGE * D)};
    for (int i = 0; i < tiers->n; i++) {
        const size_t ld = ch_attn_part_floats(D), m = ch_attn_part_max(D);
        float *scratch = floats(tiers->k[i].attn_scratch(N_TOK, 1, D, D)), *part = floats(N_TOK * ld), total[64], before[64];
        ch_attn_args a = {.n_tok = N_TOK, .n_q = 1, .d_k = D, .d_v = D, .pos0 = POS0, .begin = CH_KV_PAGE, .end = 2 * CH_KV_PAGE, .q = q,
                          .ld_q = D, .page = page, .v_off = CH_KV_PAGE * D * sizeof(float), .k_ld = D * sizeof(float),
                          .v_ld = D * sizeof(float), .k_type = ch_quant_type(CH_TYPE_F32), .v_type = ch_quant_type(CH_TYPE_F32),
                          .scale = 1, .part = part, .scratch = scratch};
        tiers->k[i].attn(&a);
        assert_true(part[m] == -FLT_MAX && part[m + 1] == 0);
        for (size_t k = 0; k < D; k++) assert_true(part[k] == 0);
        // The second row sees the first position of the range alone; the reference rounds the score its weight is relative to.
        check_near(&tiers->k[i], "weight of one position", part[ld + m + 1], 1, EPS * (1 + fabs((double)part[ld + m])));
        for (size_t k = 0; k < m + 2; k++) before[k] = total[k] = part[2 * ld + k];
        ch_kern_attn_fold(total, part, D);
        assert_memory_equal(total, before, (m + 2) * sizeof *total);
        ch_free(scratch), ch_free(part);
    }
    ch_free(kv), ch_free(q);
}

// At most CH_ATTN_RANGES ranges of whole pages, and the size grows by doubling at the same positions for everyone.
static void test_ranges(void **state) {
    (void)state;
    const size_t most = CH_ATTN_RANGES * (size_t)CH_ATTN_RANGE_MIN;
    assert_int_equal(ch_attn_range_size(1), CH_ATTN_RANGE_MIN);
    assert_int_equal(ch_attn_range_size(most), CH_ATTN_RANGE_MIN);
    assert_int_equal(ch_attn_range_size(most + 1), 2 * CH_ATTN_RANGE_MIN);
    for (size_t n = 1; n <= 16777216; n += 12345) {
        assert_true(ch_attn_range_size(n) % CH_KV_PAGE == 0);
        assert_true((n + ch_attn_range_size(n) - 1) / ch_attn_range_size(n) <= CH_ATTN_RANGES);
    }
}

// A cache of another type gives, bit for bit, what its decoded values give as f32.
static void check_attn_type(const ch_kern *k, ch_rng *g, const char *k_name, const char *v_name, size_t n_tok, size_t d) {
    enum { N_Q = 3, POS0 = 90 };
    const ch_type_info *t[3] = {ch_quant_cache_fit(ch_quant_cache_type(k_name), d), ch_quant_cache_fit(ch_quant_cache_type(v_name), d),
                                ch_quant_type(CH_TYPE_F32)};
    const size_t n_pos = POS0 + n_tok, n_page = (n_pos + CH_KV_PAGE - 1) / CH_KV_PAGE;
    size_t row[3];
    for (int i = 0; i < 3; i++) assert_true(ch_quant_row_bytes(t[i], d, &row[i]));
    uint8_t *page[2][4];
    for (size_t p = 0; p < n_page; p++) {
        // No byte more than the positions take, so that reading past the end is seen by the address sanitizer.
        uint8_t *coded = ch_alloc(CH_KV_PAGE * (row[0] + row[1])), *plain = ch_alloc(CH_KV_PAGE * 2 * row[2]);
        page[0][p] = coded, page[1][p] = plain;
        float *x = randoms(g, 2 * CH_KV_PAGE * d, 1);
        for (size_t i = 0; i < 2 * CH_KV_PAGE; i++) {
            const ch_type_info *type = t[i / CH_KV_PAGE];
            uint8_t *at = coded + (i < CH_KV_PAGE ? i * row[0] : CH_KV_PAGE * row[0] + (i - CH_KV_PAGE) * row[1]);
            type->encode(x + i * d, at, d);
            type->decode(at, (float *)(plain + i * row[2]), d);
        }
        ch_free(x);
    }
    float *q = randoms(g, n_tok * N_Q * d, 1), *out[2];
    for (int i = 0; i < 2; i++) {
        out[i] = floats(n_tok * N_Q * d);
        ch_attn_args a = {.n_tok = n_tok, .n_q = N_Q, .d_k = d, .d_v = d, .pos0 = POS0, .q = q, .ld_q = N_Q * d,
                          .page = (const uint8_t *const *)page[i], .v_off = CH_KV_PAGE * row[i ? 2 : 0], .k_ld = row[i ? 2 : 0],
                          .v_ld = row[i ? 2 : 1], .k_type = t[i ? 2 : 0], .v_type = t[i ? 2 : 1], .scale = 0.2f};
        run_attn(k, a, n_tok, 0, out[i], N_Q * d);
    }
    assert_memory_equal(out[0], out[1], n_tok * N_Q * d * sizeof(float));
    for (int i = 0; i < 2; i++) {
        for (size_t p = 0; p < n_page; p++) ch_free(page[i][p]);
        ch_free(out[i]);
    }
    ch_free(q);
}

static void test_attn_types(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (int i = 0; i < tiers->n; i++) {
        for (size_t k = 0; k < N_TYPES; k++)
            for (size_t v = 0; v < N_TYPES; v++) check_attn_type(&tiers->k[i], &g, types[k], types[v], 1 + k * 8 + v, 32 + 32 * (v % 5));
        for (size_t k = 3; k < N_TYPES; k++) check_attn_type(&tiers->k[i], &g, types[k], types[k], 2, 256);
        check_attn_type(&tiers->k[i], &g, "f16", "bf16", 3, 20); // no multiple of any vector
        check_attn_type(&tiers->k[i], &g, "f32", "f16", 3, 24);
    }
}

// Equal bits in every tier, inverse within rounding, lengths kept, and one large value spread over the block.
static void test_rotate(void **state) {
    const checkkern_tiers *tiers = *state;
    ch_rng g;
    ch_rng_seed(&g, seed);
    for (size_t block = 32; block <= 256; block *= 2) {
        const size_t n = 3 * block;
        float *x = randoms(&g, n, 1), *want = floats(n), *got = floats(n), spike[256] = {0};
        memcpy(want, x, n * sizeof *x);
        tiers->k[0].rotate(want, n, block, false);
        for (size_t b = 0; b < n; b += block) {
            double before = 0, after = 0;
            for (size_t i = b; i < b + block; i++) before += (double)x[i] * x[i], after += (double)want[i] * want[i];
            assert_true(fabs(before - after) <= before * EPS * 16);
        }
        for (int i = 0; i < tiers->n; i++) {
            memcpy(got, x, n * sizeof *x);
            tiers->k[i].rotate(got, n, block, false);
            assert_memory_equal(got, want, n * sizeof *x);
            tiers->k[i].rotate(got, n, block, true);
            // log2(block) <= 8 sums each way, each off by half an ulp of values up to sqrt(block) times the largest.
            for (size_t k = 0; k < n; k++) check_near(&tiers->k[i], "rotation there and back", got[k], x[k], 6 * EPS * 16);
            check_guard(got, n);
            memset(spike, 0, sizeof spike);
            spike[7] = 1;
            tiers->k[i].rotate(spike, block, block, false);
            for (size_t k = 0; k < block; k++) check_near(&tiers->k[i], "spike", fabs(spike[k]), 1 / sqrt((double)block), EPS);
            for (size_t k = 0; k < block; k++) spike[k] = 1; // without the signs all of it would go to one value
            tiers->k[i].rotate(spike, block, block, false);
            for (size_t k = 0; k < block; k++) assert_true(fabsf(spike[k]) < 0.75f * sqrtf((float)block));
        }
        ch_free(x), ch_free(want), ch_free(got);
    }
}

int main(int argc, char **argv) {
    checkkern_tiers tiers;
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
    checkkern_init(&tiers);
    print_message("seed %llu, tiers:", (unsigned long long)seed);
    for (int i = 0; i < tiers.n; i++) print_message(" %s", tiers.k[i].name);
    print_message("\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_attn, &tiers),       cmocka_unit_test_prestate(test_unseen_range, &tiers),
        cmocka_unit_test_prestate(test_attn_types, &tiers), cmocka_unit_test_prestate(test_rotate, &tiers),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
