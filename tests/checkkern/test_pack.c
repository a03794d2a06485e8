// Packed panels of every type, taken apart again bit by bit in plain C, against the reference decoder: the weights must be the
// same numbers. Missing rows must be zero codes with zero scales. --seed N repeats a run.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "checkkern/weights.h"
#include "kern/x86/x86.h"

static uint64_t seed = 20260401;

static unsigned bits(const uint8_t *vector, size_t row, size_t i, unsigned at, unsigned width) {
    return vector[4 * row + i % 4] >> at & ((1u << width) - 1);
}

// Code of input i (0..31) of a row, as panel.h lays the planes out.
static unsigned code_of(int planes, const uint8_t *c, size_t row, size_t i) {
    const unsigned s = (unsigned)(i / 4);
    switch (planes) {
    case CH_P2: return bits(c + 64 * (s / 4), row, i, 2 * (s % 4), 2);
    case CH_P3: return bits(c + 64 * (s / 4), row, i, 2 * (s % 4), 2) | bits(c + 128, row, i, s, 1) << 2;
    case CH_P4: return bits(c + 64 * (s / 2), row, i, 4 * (s % 2), 4);
    case CH_P5: return bits(c + 64 * (s / 2), row, i, 4 * (s % 2), 4) | bits(c + 256, row, i, s, 1) << 4;
    case CH_P6: return bits(c + 64 * (s / 2), row, i, 4 * (s % 2), 4) | bits(c + 256 + 64 * (s / 4), row, i, 2 * (s % 4), 2) << 4;
    default: return bits(c + 64 * s, row, i, 0, 8);
    }
}

static double scale_at(const ch_panel_spec *s, const uint8_t *ds, size_t place) {
    uint16_t h;
    memcpy(&h, ds + 2 * place, 2);
    return s->scale == CH_SC_BF16 ? ch_bf16_to_f32(h) : ch_f16_to_f32(h);
}

// Weight i of a row, and in *mass the size of the terms it is made of.
static double weight_of(const ch_panel_spec *s, const uint8_t *panel, size_t n_in, size_t row, size_t i, double *mass) {
    const ch_panel_size z = ch_panel_sizes(s, n_in);
    const size_t b = i / CH_PANEL_BLOCK, j = i % CH_PANEL_BLOCK / s->sub, n_sub = CH_PANEL_BLOCK / s->sub;
    const uint8_t *subs = panel + z.codes + b * z.sub_block, *ds = panel + z.codes + z.subs + (b >> s->d_shift) * z.d_block;
    const unsigned code = code_of(s->planes, panel + b * z.code_block, row, i % CH_PANEL_BLOCK);
    const bool i8 = s->scale == CH_SC_I8;
    const double d = scale_at(s, ds, row + (i8 ? 0 : j * CH_PANEL_ROWS));
    const double sub = i8 ? (int8_t)subs[j * CH_PANEL_ROWS + row] : 1;
    const double level = s->table ? s->table[code & 15] : code;
    double w = s->factor * d * sub * (level - s->zero), min = 0;
    if (s->affine) min = s->min_factor * scale_at(s, ds, CH_PANEL_ROWS + row) * (i8 ? subs[(n_sub + j) * CH_PANEL_ROWS + row] : 1);
    *mass = fabs(w) + fabs(min);
    return w - min;
}

static void check_type(const ch_type_info *t, ch_rng *g, int scale, size_t n_rows) {
    const size_t n_in = 64 * (t->n_block < 64 ? 64 : t->n_block);
    const ch_panel_spec *s = ch_kern_panel_spec(t, n_in);
    size_t row;
    if (!s || !t->decode) return;
    assert_true(ch_quant_row_bytes(t, n_in, &row));
    uint8_t *raw = ch_alloc_aligned(n_rows * row, 64), *panel = ch_alloc_aligned(ch_panel_bytes(s, n_in), 64);
    float *want = ch_alloc_array(n_in, sizeof *want);
    random_rows(t, g, scale, n_rows, n_in, raw);
    memset(panel, 0xa5, ch_panel_bytes(s, n_in));
    ch_kern_pack_panel_avx2(s, t, raw, row, n_rows, n_in, panel);
    for (size_t r = 0; r < CH_PANEL_ROWS; r++) {
        if (r < n_rows) t->decode(raw + r * row, want, n_in);
        for (size_t i = 0; i < n_in; i++) {
            double mass;
            const double got = weight_of(s, panel, n_in, r, i, &mass), expected = r < n_rows ? want[i] : 0;
            // The decoder rounds each term and their sum to a float; a code or scale that is off by one moves far more.
            if (!(fabs(got - expected) <= 3 * ldexp(mass, -24) + ldexp(1, -149)))
                fail_msg("%s row %zu of %zu, value %zu: packed %.9g, reference %.9g", t->name, r, n_rows, i, got, expected);
        }
    }
    ch_free(raw), ch_free(panel), ch_free(want);
}

static void test_values(void **state) {
    const ch_type_info *t;
    ch_rng g;
    (void)state;
    ch_rng_seed(&g, seed);
    for (size_t i = 0; (t = ch_quant_type_at(i)); i++)
        for (int scale = 0; scale < N_SCALES; scale++)
            for (size_t n = 16; n; n = n / 3) check_type(t, &g, scale, n);
}

int main(int argc, char **argv) {
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    if (!cpu.avx2_fma_f16c && !cpu.neon_dotprod) {
        print_message("no panels here: nothing to check\n");
        return 0;
    }
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
    print_message("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
