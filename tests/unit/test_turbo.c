// tq4 and tq3: the levels made again from their definition, packing, errors of rotated vectors, look-ups.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "quant/quant.h"

enum { GRID = 20000 };

// Integrals of the density (1 - x^2)^((n-3)/2) and of x times it, over [0, i / GRID * end].
typedef struct density {
    double mass[GRID + 1], moment[GRID + 1], end;
} density;

static void density_of(density *d, size_t n) {
    d->end = fmin(1.0, 8 / sqrt((double)n));
    const double h = d->end / GRID;
    d->mass[0] = d->moment[0] = 0;
    for (int i = 0; i < GRID; i++) {
        const double x = (i + 0.5) * h, f = pow(1 - x * x, ((double)n - 3) / 2);
        d->mass[i + 1] = d->mass[i] + f * h, d->moment[i + 1] = d->moment[i] + f * x * h;
    }
}

static double at(const double *sum, const density *d, double x) {
    const double t = fmin(x, d->end) / d->end * GRID;
    const int i = t >= GRID ? GRID - 1 : (int)t;
    return sum[i] + (sum[i + 1] - sum[i]) * (t - i);
}

// Lloyd-Max: every level is the mean of its cell, whose borders are the middles between levels.
static void test_levels(void **state) {
    (void)state;
    static density d;
    for (size_t n = 32; n <= 256; n *= 2) {
        density_of(&d, n);
        for (int bits = 3; bits <= 4; bits++) {
            float level[16];
            const int half = 1 << (bits - 1);
            ch_quant_turbo_levels(bits == 4 ? CH_TYPE_TQ4 : CH_TYPE_TQ3, n, level);
            for (int k = 0; k < half; k++) {
                const double lo = k ? (level[half + k - 1] + (double)level[half + k]) / 2 : 0;
                const double hi = k + 1 < half ? (level[half + k] + (double)level[half + k + 1]) / 2 : d.end;
                const double mean = (at(d.moment, &d, hi) - at(d.moment, &d, lo)) / (at(d.mass, &d, hi) - at(d.mass, &d, lo));
                assert_true(fabs(mean - level[half + k]) < 2e-6 * mean);
                assert_true(level[half - 1 - k] == -level[half + k]);
            }
        }
    }
}

static const ch_type_info *form(int bits, size_t n) { return ch_quant_cache_fit(ch_quant_cache_type(bits == 4 ? "tq4" : "TQ3"), n); }

static void test_lookups(void **state) {
    (void)state;
    for (int bits = 3; bits <= 4; bits++)
        for (size_t n = 32; n <= 256; n *= 2) {
            const ch_type_info *t = form(bits, n);
            assert_int_equal(t->n_block, n);
            assert_int_equal(t->n_bytes, 2 + n * (size_t)bits / 8);
        }
    assert_int_equal(form(4, 576)->n_block, 64);
    assert_int_equal(form(4, 512)->n_block, 256);
    assert_int_equal(form(3, 96)->n_block, 32);
    assert_null(form(3, 80));
    assert_null(form(4, 16));
    assert_null(form(4, 0));
    assert_null(ch_quant_cache_fit(ch_quant_cache_type("q8_0"), 80));
    assert_non_null(ch_quant_cache_fit(ch_quant_cache_type("f16"), 80));
    assert_null(ch_quant_cache_type("q4_k"));
    assert_null(ch_quant_cache_type("tq2"));
    assert_null(ch_quant_cache_type(NULL));
    assert_null(ch_quant_type_by_name("tq4")); // in no file
    assert_null(ch_quant_type(CH_TYPE_TQ4));
    static const size_t n[] = {0, 16, 31, 32, 48, 64, 80, 96, 128, 192, 256, 320, 512, 576};
    static const size_t block[] = {0, 0, 0, 32, 0, 64, 0, 32, 128, 64, 256, 64, 256, 64};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) assert_int_equal(ch_quant_rotation(n[i]), block[i]);
}

// Low bits first; low index = lowest level; factors past f16 are cut.
static void test_packing(void **state) {
    (void)state;
    for (int bits = 3; bits <= 4; bits++) {
        const ch_type_info *t = form(bits, 32);
        const int n_level = 1 << bits;
        float level[16], x[32] = {0}, y[32];
        uint8_t b[18];
        ch_quant_turbo_levels(t->id, 32, level);
        for (int code = 0; code < n_level; code++) {
            memset(b, 0, sizeof b);
            b[1] = 0x3c; // factor 1
            for (int k = 0; k < bits; k++)
                if (code >> k & 1) b[2 + (bits * 9 + k) / 8] |= (uint8_t)(1 << (bits * 9 + k) % 8); // value 9
            t->decode(b, y, 32);
            for (int i = 0; i < 32; i++) assert_true(y[i] == level[i == 9 ? code : 0]);
        }
        t->encode(x, b, 32); // zeros
        assert_true(b[0] == 0 && b[1] == 0);
        t->decode(b, y, 32);
        for (int i = 0; i < 32; i++) assert_true(y[i] == 0);
        x[3] = 1e30f, x[4] = -1e30f;
        t->encode(x, b, 32);
        assert_true(b[0] == 0xff && b[1] == 0x7b); // 65504
        t->decode(b, y, 32);
        for (int i = 0; i < 32; i++) assert_true(isfinite(y[i]));
        assert_true(y[3] > 0 && y[4] == -y[3]);
        x[3] = NAN;
        t->encode(x, b, 32); // a NaN stays visible
        t->decode(b, y, 32);
        assert_true(isnan(y[0]));
    }
}

// The mean squared error of normal vectors is that of the quantiser, 0.0323 to 0.0346 (3 bits), 0.0088 to 0.0095 (4 bits) of
// the squared length, and as much more as the factor widens it; over 200 vectors its estimate is good to a few per cent. The
// product of a vector with its decoded form is its squared length, but for the factor's rounding to f16.
static void test_error(void **state) {
    (void)state;
    ch_rng g;
    ch_rng_seed(&g, 4);
    for (int bits = 3; bits <= 4; bits++)
        for (size_t n = 32; n <= 256; n *= 2) {
            const ch_type_info *t = form(bits, n);
            float x[256], y[256];
            uint8_t b[130];
            double error = 0, size = 0;
            for (int k = 0; k < 200; k++) {
                for (size_t i = 0; i < n; i++) x[i] = ch_rng_normal(&g);
                t->encode(x, b, n);
                t->decode(b, y, n);
                double length = 0, product = 0;
                for (size_t i = 0; i < n; i++) length += (double)x[i] * x[i], product += (double)x[i] * y[i];
                for (size_t i = 0; i < n; i++) error += (double)(x[i] - y[i]) * (x[i] - y[i]);
                size += length;
                assert_true(fabs(product - length) <= length * (1.0 / 2048 + 1e-6));
            }
            assert_true(error / size < (bits == 4 ? 0.0102 : 0.0365));
            assert_true(error / size > (bits == 4 ? 0.0080 : 0.0295));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_lookups), cmocka_unit_test(test_packing),
                                       cmocka_unit_test(test_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
