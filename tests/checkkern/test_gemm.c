// Products of float matrices and transposition, every tier against the reference, edges of every tile.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkkern/checkkern.h"

enum { PAD = 3 }; // columns behind each row, that must stay
enum { ALONG, ACROSS, APART }; // how A lies: rows together, columns together, neither

static float *randoms(ch_rng *g, size_t n) {
    float *x = ch_alloc_array(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) x[i] = ch_rng_normal(g);
    return x;
}

static void round_to_bf16(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = ch_bf16_to_f32(ch_f32_to_bf16(x[i]));
}

// The sum of k products in floats is off by at most k eps sum |a b|; the reference rounds once more. half: what a tier that rounds
// factors gives is held against the reference on rounded ones, so that the bound is the same.
static void check_product(const ch_kern *k, const ch_kern *ref, ch_rng *g, size_t m, size_t n, size_t depth, int lie, bool add, bool half) {
    const size_t apart = lie == APART ? 2 : 1, n_a = m * depth * apart, ld_b = n + PAD, ld_c = n + PAD;
    float *a = randoms(g, n_a), *b = randoms(g, depth * ld_b), *c = randoms(g, m * ld_c), *d = randoms(g, m * ld_c);
    memcpy(d, c, m * ld_c * sizeof *c);
    ch_gemm_args p = {m, n, depth, a, lie == ALONG ? depth : apart, lie == ALONG ? 1 : m * apart, b, ld_b, c, ld_c, add};
    if (half)
        k->gemm_half(&p), round_to_bf16(a, n_a), round_to_bf16(b, depth * ld_b);
    else
        k->gemm(&p);
    p.c = d;
    ref->gemm(&p);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < ld_c; j++) {
            double mass = add ? fabs((double)d[i * ld_c + j]) : 0;
            for (size_t q = 0; q < depth && j < n; q++) mass += fabs((double)a[i * p.ra + q * p.ca] * b[q * ld_b + j]);
            const double most = j < n ? FLT_EPSILON * (double)(depth + 2) * mass : 0;
            if (!(fabs((double)c[i * ld_c + j] - d[i * ld_c + j]) <= most))
                fail_msg("%s %zu x %zu x %zu: element %zu, %zu is %.9g, reference %.9g, allowed %.3g", k->name, m, n, depth, i, j,
                         (double)c[i * ld_c + j], (double)d[i * ld_c + j], most);
        }
    ch_free(a), ch_free(b), ch_free(c), ch_free(d);
}

static void test_gemm(void **state) {
    (void)state;
    static const size_t rows[] = {1, 2, 3, 5, 6, 7, 11, 12, 13, 24, 25, 41}, cols[] = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 70};
    static const size_t depths[] = {0, 1, 2, 31, 255, 256, 257};
    checkkern_tiers t;
    checkkern_init(&t);
    ch_rng g;
    ch_rng_seed(&g, 3);
    for (int i = 1; i < t.n; i++)
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            for (size_t n = 0; n < sizeof cols / sizeof *cols; n++)
                for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
                    check_product(&t.k[i], &t.k[0], &g, rows[m], cols[n], depths[d], (int)(m + n) % 3, (n + d) % 2, false);
}

// Tiers without faster products of bf16 have one function for both.
static void test_gemm_half(void **state) {
    (void)state;
    static const size_t rows[] = {1, 15, 16, 17, 31, 32, 33, 47, 544, 545}, cols[] = {1, 15, 16, 17, 31, 32, 33, 49, 70};
    static const size_t depths[] = {0, 1, 2, 16, 17, 31, 32, 33, 255, 256, 257};
    checkkern_tiers t;
    checkkern_init(&t);
    ch_rng g;
    ch_rng_seed(&g, 5);
    size_t n_case = 0;
    for (int i = 0; i < t.n; i++) {
        if (t.k[i].gemm_half == t.k[i].gemm || t.k[i].gemm_half == t.k[0].gemm_half) continue;
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            for (size_t n = 0; n < sizeof cols / sizeof *cols; n++)
                for (size_t d = 0; d < sizeof depths / sizeof *depths; d++, n_case++) {
                    if (rows[m] > 500 && n != d % 9) continue; // slow in the reference
                    check_product(&t.k[i], &t.k[0], &g, rows[m], cols[n], depths[d], (int)(m + n + d) % 3, (n + d) % 2, true);
                }
    }
#if defined(__x86_64__)
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    assert_true(n_case > 0 || !cpu.avx2_fma_f16c); // at least as emulated
#endif
}

static void test_transpose(void **state) {
    (void)state;
    checkkern_tiers t;
    checkkern_init(&t);
    ch_rng g;
    ch_rng_seed(&g, 4);
    for (int i = 0; i < t.n; i++)
        for (size_t m = 1; m < 20; m++)
            for (size_t n = 1; n < 20; n++) {
                float *x = randoms(&g, m * (n + PAD)), *y = randoms(&g, n * (m + PAD)), *z = randoms(&g, n * (m + PAD));
                memcpy(z, y, n * (m + PAD) * sizeof *z);
                t.k[i].transpose(x, m, n, n + PAD, y, m + PAD);
                for (size_t r = 0; r < n; r++)
                    for (size_t c = 0; c < m + PAD; c++)
                        if (y[r * (m + PAD) + c] != (c < m ? x[c * (n + PAD) + r] : z[r * (m + PAD) + c]))
                            fail_msg("%s %zu x %zu: row %zu, column %zu", t.k[i].name, m, n, r, c);
                ch_free(x), ch_free(y), ch_free(z);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gemm), cmocka_unit_test(test_gemm_half), cmocka_unit_test(test_transpose)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
