// Deferred commit, op by op: m tentative rows leave the slab alone and give the outputs of a plain run; committing the first n
// of them gives the slab of a plain run of n rows, bit for bit. Two sequences, one tentative and one plain, share every call.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/op.h"

enum { PAST = 5, DRAFT = 9, PLAIN = 4, N_ROW = DRAFT + PLAIN, JOURNAL_ROWS = 11, SLAB_OFF = 64, JOURNAL_OFF = 3 };
static const char *const tiers[] = {"ref", "avx2", "avx512", "amx"};
static const float unset = -12345.0f;

typedef struct op_case {
    const char *name;
    size_t slab_bytes, journal_row, n_y; // n_y: floats of an output row
    size_t n_in;                          // floats of an input row, all inputs side by side
    // Runs rows of x ([n_row][n_in]) on seg; commit: the rows come from the journal. work: scratch for the inputs taken apart.
    void (*run)(ch_op *op, const struct op_case *c, const ch_op_seg *seg, size_t n_seg, size_t n_row, const float *x, float *y, bool commit);
    int variant;
    const float *w; // random weights, plenty
} op_case;

// Column block `at .. at + n` of the rows, as a matrix of its own (freed by the caller).
static float *columns(const op_case *c, const float *x, size_t n_row, size_t at, size_t n) {
    float *p = ch_alloc_aligned(n_row * n * sizeof *p, 64);
    assert_non_null(p);
    for (size_t i = 0; i < n_row && x; i++) memcpy(p + i * n, x + i * c->n_in + at, n * sizeof *p);
    return p;
}

// ---- the ops --------------------------------------------------------------------------------------------------------------
enum { HK = 2, HV = 6, DK = 16, DV = 24, TAP = 4, GDN_CHANNEL = 2 * HK * DK + HV * DV };
enum { KDA_H = 3, KDA_D = 16, KDA_CHANNEL = 3 * KDA_H * KDA_D };

static void run_gdn(ch_op *op, const op_case *c, const ch_op_seg *seg, size_t n_seg, size_t n_row, const float *x, float *y, bool commit) {
    bool kda = c->variant == 2;
    size_t hk = kda ? KDA_H : HK, hv = kda ? KDA_H : HV, dk = kda ? KDA_D : DK, dv = kda ? KDA_D : DV, nc = 2 * hk * dk + hv * dv;
    size_t n_alpha = kda ? hk * dk : hv, vd = hv * dv;
    float *qkv = columns(c, x, n_row, 0, nc), *beta = columns(c, x, n_row, nc, hv), *alpha = columns(c, x, n_row, nc + hv, n_alpha);
    float *z = columns(c, x, n_row, nc + hv + n_alpha, vd), *raw = columns(c, NULL, n_row, 0, vd);
    float a[HV];
    for (size_t i = 0; i < HV; i++) a[i] = -0.1f - 0.05f * (float)i;
    ch_op_gdn_args g = {.n_seg = n_seg, .seg = seg, .n_row = n_row, .n_head_k = hk, .n_head_v = hv, .d_k = dk, .d_v = dv, .n_tap = TAP,
                        .tiled = c->variant > 0, .kda = kda, .eps = 1e-6f, .qkv = qkv, .z = z, .beta = beta, .alpha = alpha,
                        .conv_w = c->w, .a = a, .dt_bias = c->w + TAP * nc, .norm = c->w + TAP * nc + n_alpha, .slab_off = SLAB_OFF,
                        .journal_off = JOURNAL_OFF, .o_raw = raw, .y = y};
    (commit ? ch_op_commit_gdn : ch_op_gdn)(op, &g);
    ch_free(qkv), ch_free(beta), ch_free(alpha), ch_free(z), ch_free(raw);
}

enum { CONV_CHANNEL = 37 };
static void run_conv(ch_op *op, const op_case *c, const ch_op_seg *seg, size_t n_seg, size_t n_row, const float *x, float *y, bool commit) {
    ch_op_conv_args a = {.n_seg = n_seg, .seg = seg, .n_row = n_row, .n_channel = CONV_CHANNEL, .n_tap = c->variant ? 4 : 3,
                         .silu = c->variant, .x = x, .w = c->w, .bias = c->variant ? c->w + 4 * CONV_CHANNEL : NULL,
                         .slab_off = SLAB_OFF, .journal_off = JOURNAL_OFF, .y = y};
    (commit ? ch_op_commit_conv : ch_op_conv)(op, &a);
}

enum { CH1 = 50, DS1 = 16 };
static void run_ssm1(ch_op *op, const op_case *c, const ch_op_seg *seg, size_t n_seg, size_t n_row, const float *x, float *y, bool commit) {
    float *xs = columns(c, x, n_row, 0, CH1), *z = columns(c, x, n_row, CH1, CH1), *dt = columns(c, x, n_row, 2 * CH1, CH1);
    float *b = columns(c, x, n_row, 3 * CH1, DS1), *cc = columns(c, x, n_row, 3 * CH1 + DS1, DS1), *raw = columns(c, NULL, n_row, 0, CH1);
    float *decay = columns(c, NULL, DS1, 0, CH1);
    for (size_t i = 0; i < CH1 * DS1; i++) decay[i] = -fabsf(c->w[i]) - 0.01f;
    ch_op_ssm1_args a = {.n_seg = n_seg, .seg = seg, .n_row = n_row, .n_channel = CH1, .d_state = DS1, .x = xs, .z = z, .dt = dt, .b = b,
                         .c = cc, .a = decay, .skip = c->w + CH1 * DS1, .slab_off = SLAB_OFF, .journal_off = JOURNAL_OFF, .y_raw = raw,
                         .y = c->variant ? xs : y};
    (commit ? ch_op_commit_ssm1 : ch_op_ssm1)(op, &a);
    if (c->variant && !commit && !ch_op_is_dry(op)) memcpy(y, xs, n_row * CH1 * sizeof *y); // in place
    ch_free(xs), ch_free(z), ch_free(dt), ch_free(b), ch_free(cc), ch_free(raw), ch_free(decay);
}

enum { H2 = 6, P2 = 12, G2 = 2, DS2 = 20, DI2 = H2 * P2, BC2 = G2 * DS2 };
static void run_ssm2(ch_op *op, const op_case *c, const ch_op_seg *seg, size_t n_seg, size_t n_row, const float *x, float *y, bool commit) {
    bool conv = c->variant == 0;
    float *xbc = columns(c, x, n_row, 0, DI2 + 2 * BC2), *xs = columns(c, x, n_row, 0, DI2), *b = columns(c, x, n_row, DI2, BC2);
    float *cc = columns(c, x, n_row, DI2 + BC2, BC2), *z = columns(c, x, n_row, DI2 + 2 * BC2, DI2);
    float *dt = columns(c, x, n_row, 2 * DI2 + 2 * BC2, H2), *raw = columns(c, NULL, n_row, 0, DI2), decay[H2];
    for (size_t i = 0; i < H2; i++) decay[i] = -0.2f - 0.1f * (float)i;
    ch_op_ssm2_args a = {.n_seg = n_seg, .seg = seg, .n_row = n_row, .n_head = H2, .d_head = P2, .n_group = G2, .d_state = DS2, .n_tap = TAP,
                         .eps = 1e-6f, .xbc = xbc, .conv_w = conv ? c->w : NULL, .conv_b = conv ? c->w + 1000 : NULL, .x = xs, .b = b,
                         .c = cc, .z = z, .dt = dt, .dt_bias = conv ? c->w + 2000 : NULL, .a = decay, .skip = c->w + 2100,
                         .norm = conv ? c->w + 2200 : NULL, .slab_off = SLAB_OFF, .journal_off = JOURNAL_OFF, .y_raw = raw, .y = y};
    (commit ? ch_op_commit_ssm2 : ch_op_ssm2)(op, &a);
    ch_free(xbc), ch_free(xs), ch_free(b), ch_free(cc), ch_free(z), ch_free(dt), ch_free(raw);
}

enum { SHIFT = 19 };
static void run_shift(ch_op *op, const op_case *c, const ch_op_seg *seg, size_t n_seg, size_t n_row, const float *x, float *y, bool commit) {
    (void)c, (void)n_row;
    ch_op_shift_args a = {.n_seg = n_seg, .seg = seg, .n = SHIFT, .slab_off = SLAB_OFF, .journal_off = JOURNAL_OFF, .x = x, .y = y};
    (commit ? ch_op_commit_shift : ch_op_shift_rows)(op, &a);
}

// ---- the check ------------------------------------------------------------------------------------------------------------
typedef struct fixture {
    ch_op *op;
    const op_case *c;
    float *x; // [PAST + N_ROW + PAST][n_in]
    float *y;
} fixture;

static uint8_t *new_slab(const op_case *c) {
    uint8_t *p = ch_alloc_aligned(SLAB_OFF + c->slab_bytes, 64);
    assert_non_null(p);
    return memset(p, 0, SLAB_OFF + c->slab_bytes);
}

static void plain(const fixture *f, uint8_t *slab, size_t from, size_t n, float *y) {
    if (n) f->c->run(f->op, f->c, &(ch_op_seg){.n_row = n, .slab = slab}, 1, n, f->x + from * f->c->n_in, y, false);
}

static void check_accept(const fixture *f, size_t n_draft, size_t keep) {
    const op_case *c = f->c;
    size_t slab_bytes = SLAB_OFF + c->slab_bytes, n_journal = JOURNAL_ROWS * (JOURNAL_OFF + c->journal_row + JOURNAL_OFF);
    uint8_t *a = new_slab(c), *b = new_slab(c), *want = new_slab(c), *other = new_slab(c);
    float *journal = ch_alloc_aligned(n_journal * sizeof *journal, 64), *y = f->y, *y2 = f->y + N_ROW * c->n_y, *y3 = y2 + N_ROW * c->n_y;
    for (size_t i = 0; i < n_journal; i++) journal[i] = unset;
    plain(f, a, 0, PAST, y), plain(f, want, 0, PAST, y), plain(f, b, 1, PAST, y), plain(f, other, 1, PAST, y);

    // The plain segment first, so that rows of the step and rows of the journal have different numbers.
    ch_op_seg both[2] = {{.row0 = 0, .n_row = PLAIN, .slab = b},
                         {.row0 = PLAIN, .n_row = n_draft, .slab = a, .journal = journal, .n_journal = JOURNAL_ROWS}};
    float *rows = ch_alloc_aligned(N_ROW * c->n_in * sizeof *rows, 64);
    memcpy(rows, f->x + (PAST + DRAFT) * c->n_in, PLAIN * c->n_in * sizeof *rows);
    memcpy(rows + PLAIN * c->n_in, f->x + PAST * c->n_in, n_draft * c->n_in * sizeof *rows);
    c->run(f->op, c, both, 2, PLAIN + n_draft, rows, y, false);
    if (memcmp(a, want, slab_bytes)) fail_msg("%s: tentative rows changed the slab", c->name);
    plain(f, other, PAST + DRAFT, PLAIN, y2);
    assert_memory_equal(b, other, slab_bytes);
    assert_memory_equal(y, y2, PLAIN * c->n_y * sizeof *y);
    uint8_t *full = new_slab(c);
    memcpy(full, want, slab_bytes);
    plain(f, full, PAST, n_draft, y3);
    if (memcmp(y + PLAIN * c->n_y, y3, n_draft * c->n_y * sizeof *y)) fail_msg("%s: outputs of tentative rows differ", c->name);
    // Nothing but this layer's journal rows is written.
    for (size_t i = 0; i < n_journal; i++)
        if (i < JOURNAL_ROWS * JOURNAL_OFF || i >= JOURNAL_ROWS * JOURNAL_OFF + n_draft * c->journal_row) assert_true(journal[i] == unset);

    if (keep) { // the same sequence twice in a commit would be refused above this layer: the second one has a slab of its own
        uint8_t *copy = new_slab(c);
        memcpy(copy, a, slab_bytes);
        ch_op_seg seg[2] = {both[1], both[1]};
        seg[0].row0 = 0, seg[0].n_row = keep, seg[1].row0 = keep, seg[1].n_row = 1, seg[1].slab = copy;
        c->run(f->op, c, seg, 2, keep + 1, f->x, y, true);
        memcpy(full, want, slab_bytes);
        plain(f, full, PAST, 1, y3);
        assert_memory_equal(copy, full, slab_bytes);
        ch_free(copy);
    }
    plain(f, want, PAST, keep, y3);
    if (memcmp(a, want, slab_bytes)) fail_msg("%s: %zu of %zu kept: the slab is not that of a plain run", c->name, keep, n_draft);
    plain(f, a, PAST + N_ROW, PAST, y), plain(f, want, PAST + N_ROW, PAST, y2);
    assert_memory_equal(y, y2, PAST * c->n_y * sizeof *y);
    ch_free(a), ch_free(b), ch_free(want), ch_free(other), ch_free(full), ch_free(journal), ch_free(rows);
}

static void check_op(op_case *c) {
    ch_rng r;
    ch_rng_seed(&r, 5);
    size_t n_w = 8192, n_x = (PAST + N_ROW + PAST) * c->n_in;
    float *w = ch_alloc_aligned(n_w * sizeof *w, 64), *x = ch_alloc_aligned(n_x * sizeof *x, 64);
    for (size_t i = 0; i < n_w; i++) w[i] = 0.5f * ch_rng_normal(&r);
    for (size_t i = 0; i < n_x; i++) x[i] = ch_rng_normal(&r);
    c->w = w;
    for (size_t t = 0; t < 3; t++)
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            ch_error e = {0};
            fixture f = {.c = c, .x = x, .y = ch_alloc_aligned(3 * N_ROW * c->n_y * sizeof(float), 64)};
            if (ch_op_create(&f.op, tiers[t], n_threads, &e)) fail_msg("%s", e.msg);
            ch_op_seg none[2] = {{0}, {0}};
            ch_op_dry_begin(f.op);
            c->run(f.op, c, none, 2, N_ROW, x, f.y, false), c->run(f.op, c, none, 2, N_ROW, x, f.y, true);
            assert_int_equal(ch_op_dry_end(f.op, &e), 0);
            for (size_t n = 1; n <= DRAFT; n++)
                for (size_t keep = 0; keep <= n; keep++) check_accept(&f, n, keep);
            ch_op_free(&f.op), ch_free(f.y);
        }
    ch_free(w), ch_free(x);
}

static void test_gdn(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++)
        check_op(&(op_case){.name = v ? "gdn tiled" : "gdn grouped", .slab_bytes = ch_op_gdn_state_bytes(HK, HV, DK, DV, TAP, false),
                            .journal_row = ch_op_gdn_journal_row(HK, HV, DK, DV, false), .n_y = HV * DV,
                            .n_in = GDN_CHANNEL + 2 * HV + HV * DV, .run = run_gdn, .variant = v});
}

static void test_kda(void **state) {
    (void)state;
    check_op(&(op_case){.name = "kda", .slab_bytes = ch_op_gdn_state_bytes(KDA_H, KDA_H, KDA_D, KDA_D, TAP, false),
                        .journal_row = ch_op_gdn_journal_row(KDA_H, KDA_H, KDA_D, KDA_D, true), .n_y = KDA_H * KDA_D,
                        .n_in = KDA_CHANNEL + KDA_H + 2 * KDA_H * KDA_D, .run = run_gdn, .variant = 2});
}

static void test_conv(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++)
        check_op(&(op_case){.name = "conv", .slab_bytes = ch_op_conv_state_bytes(CONV_CHANNEL, v ? 4 : 3), .journal_row = CONV_CHANNEL,
                            .n_y = CONV_CHANNEL, .n_in = CONV_CHANNEL, .run = run_conv, .variant = v});
}

static void test_ssm1(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++)
        check_op(&(op_case){.name = "ssm1", .slab_bytes = ch_op_ssm1_state_bytes(CH1, DS1, false), .journal_row = ch_op_ssm1_journal_row(CH1, DS1),
                            .n_y = CH1, .n_in = 3 * CH1 + 2 * DS1, .run = run_ssm1, .variant = v});
}

static void test_ssm2(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++) {
        size_t conv = v ? 0 : ch_op_conv_state_bytes(DI2 + 2 * BC2, TAP);
        check_op(&(op_case){.name = v ? "ssm2" : "ssm2 with convolution", .slab_bytes = conv + ch_op_ssm2_state_bytes(H2, P2, DS2, false),
                            .journal_row = ch_op_ssm2_journal_row(H2, P2, G2, DS2, !v), .n_y = DI2,
                            .n_in = 2 * DI2 + 2 * BC2 + H2, .run = run_ssm2, .variant = v});
    }
}

static void test_shift(void **state) {
    (void)state;
    check_op(&(op_case){.name = "shift", .slab_bytes = SHIFT * sizeof(float), .journal_row = SHIFT, .n_y = SHIFT, .n_in = SHIFT,
                        .run = run_shift});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gdn), cmocka_unit_test(test_kda), cmocka_unit_test(test_conv),
                                       cmocka_unit_test(test_ssm1), cmocka_unit_test(test_ssm2), cmocka_unit_test(test_shift)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
