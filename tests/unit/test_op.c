// Ops against independent plain implementations in double: gated delta net, attention, mixture of experts. Logits hide
// mistakes of scale in the delta net (a gated norm follows), so its core output is compared itself.
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

// Every sum here has at most a few hundred terms of size 1, the recurrence a few dozen steps: f32 keeps 1e-5 of the largest.
static const double tolerance = 1e-5;

static const char *const tiers[] = {"ref", "avx2", "avx512", "amx"};

static ch_op *open_op(const char *tier, int n_threads) {
    ch_error e = {0};
    ch_op *op = NULL;
    if (ch_op_create(&op, tier, n_threads, &e)) fail_msg("%s", e.msg);
    return op;
}

static float *randoms(ch_rng *r, size_t n, float scale) {
    float *p = ch_alloc_aligned(n * sizeof *p, 64);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) p[i] = scale * ch_rng_normal(r);
    return p;
}

static void assert_close(const char *what, const float *got, const double *want, size_t n) {
    double top = 0;
    for (size_t i = 0; i < n; i++) top = fmax(top, fabs(want[i]));
    assert_true(top > 0);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * top))
            fail_msg("%s: value %zu is %.9g, expected %.9g (largest %.3g)", what, i, (double)got[i], want[i], top);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// ---- gated delta net ------------------------------------------------------------------------------------------------------
typedef struct gdn_case {
    size_t hk, hv, dk, dv, tap, n;
    bool tiled, interleaved;
} gdn_case;

// Q4-Q8 as written, state S[i][j], one sequence from nothing.
static void gdn_plain(const gdn_case *c, const ch_op_gdn_args *a, double *core, double *gated) {
    size_t kd = c->hk * c->dk, vd = c->hv * c->dv, nc = 2 * kd + vd, r = c->hv / c->hk;
    double *s = calloc(c->hv * c->dk * c->dv, sizeof *s), *u = malloc(nc * sizeof *u), *kn = malloc(c->dk * sizeof *kn), *qn = malloc(c->dk * sizeof *qn);
    for (size_t t = 0; t < c->n; t++) {
        for (size_t x = 0; x < nc; x++) {
            double y = 0;
            for (size_t j = 0; j < c->tap; j++)
                if (t + j + 1 >= c->tap) y += (double)a->conv_w[j * nc + x] * a->qkv[(t + j + 1 - c->tap) * nc + x];
            u[x] = y * sigmoid(y);
        }
        for (size_t h = 0; h < c->hv; h++) {
            size_t kh = c->tiled ? h % c->hk : h / r;
            double qq = 0, kk = 0, b, al, norm = 0;
            for (size_t i = 0; i < c->dk; i++) qq += u[kh * c->dk + i] * u[kh * c->dk + i], kk += u[kd + kh * c->dk + i] * u[kd + kh * c->dk + i];
            for (size_t i = 0; i < c->dk; i++) {
                qn[i] = u[kh * c->dk + i] / sqrt(qq + 1e-6) / sqrt((double)c->dk);
                kn[i] = u[kd + kh * c->dk + i] / sqrt(kk + 1e-6);
            }
            if (c->interleaved) b = a->beta[t * 2 * c->hv + h / r * 2 * r + h % r], al = a->beta[t * 2 * c->hv + h / r * 2 * r + r + h % r];
            else b = a->beta[t * c->hv + h], al = a->alpha[t * c->hv + h];
            double decay = exp(a->a[h] * log1p(exp(al + a->dt_bias[h])));
            double *sh = s + h * c->dk * c->dv, *o = core + (t * c->hv + h) * c->dv;
            for (size_t j = 0; j < c->dv; j++) {
                double p = 0;
                for (size_t i = 0; i < c->dk; i++) sh[i * c->dv + j] *= decay, p += sh[i * c->dv + j] * kn[i];
                double w = sigmoid(b) * (u[2 * kd + h * c->dv + j] - p);
                o[j] = 0;
                for (size_t i = 0; i < c->dk; i++) sh[i * c->dv + j] += kn[i] * w, o[j] += sh[i * c->dv + j] * qn[i];
                norm += o[j] * o[j];
            }
            for (size_t j = 0; j < c->dv; j++) {
                double z = a->z[(t * c->hv + h) * c->dv + j];
                gated[(t * c->hv + h) * c->dv + j] = o[j] / sqrt(norm / (double)c->dv + a->eps) * a->norm[j] * z * sigmoid(z);
            }
        }
    }
    free(s), free(u), free(kn), free(qn);
}

static void run_gdn(const char *tier, const gdn_case *c, uint64_t seed) {
    ch_op *op = open_op(tier, 2);
    ch_rng r;
    ch_rng_seed(&r, seed);
    size_t nc = 2 * c->hk * c->dk + c->hv * c->dv, vd = c->hv * c->dv;
    float *qkv = randoms(&r, c->n * nc, 1), *z = randoms(&r, c->n * vd, 1), *beta = randoms(&r, c->n * 2 * c->hv, 1);
    float *alpha = randoms(&r, c->n * c->hv, 1), *conv = randoms(&r, c->tap * nc, 0.5f), *dec = randoms(&r, c->hv, 1);
    float *dt = randoms(&r, c->hv, 1), *norm = randoms(&r, c->dv, 1), *o = randoms(&r, c->n * vd, 1), *y = randoms(&r, c->n * vd, 1);
    for (size_t h = 0; h < c->hv; h++) dec[h] = -0.05f - fabsf(dec[h]) * 0.2f;
    uint8_t *slab = ch_alloc_aligned(64 + ch_op_gdn_state_bytes(c->hk, c->hv, c->dk, c->dv, c->tap, false), 64);
    ch_op_seg seg[1] = {{.slab = slab}};
    ch_op_gdn_args a = {.n_seg = 1, .seg = seg, .n_row = c->n, .n_head_k = c->hk, .n_head_v = c->hv, .d_k = c->dk, .d_v = c->dv,
                        .n_tap = c->tap, .tiled = c->tiled, .interleaved = c->interleaved, .eps = 1e-6f, .qkv = qkv, .z = z,
                        .beta = beta, .alpha = c->interleaved ? NULL : alpha, .conv_w = conv, .a = dec, .dt_bias = dt, .norm = norm,
                        .slab_off = 64, .o_raw = o, .y = y};
    ch_op_dry_begin(op), ch_op_gdn(op, &a);
    assert_int_equal(ch_op_dry_end(op, NULL), 0);
    for (size_t at = 0, n = 1; at < c->n; at += n, n++) { // growing pieces: 1, 2, 3 ... rows, so the window wraps in every way
        if (n > c->n - at) n = c->n - at;
        ch_op_gdn_args part = a;
        seg[0] = (ch_op_seg){.n_row = n, .pos0 = at, .slab = slab};
        part.n_row = n, part.qkv += at * nc, part.z += at * vd, part.o_raw += at * vd, part.y += at * vd;
        part.beta += at * (c->interleaved ? 2 * c->hv : c->hv);
        if (part.alpha) part.alpha += at * c->hv;
        ch_op_gdn(op, &part);
    }
    double *core = malloc(c->n * vd * sizeof *core), *gated = malloc(c->n * vd * sizeof *gated);
    gdn_plain(c, &a, core, gated);
    char what[96];
    snprintf(what, sizeof what, "%s gdn hk %zu hv %zu dk %zu dv %zu core", tier, c->hk, c->hv, c->dk, c->dv);
    assert_close(what, o, core, c->n * vd);
    assert_close(what, y, gated, c->n * vd);
    for (size_t i = 0; i < 64; i++) assert_int_equal(slab[i], 0); // what lies before this layer
    free(core), free(gated);
    float *all[] = {qkv, z, beta, alpha, conv, dec, dt, norm, o, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ch_free(all[i]);
    ch_free(slab), ch_op_free(&op);
}

static void test_gdn(void **state) {
    (void)state;
    static const gdn_case cases[] = {
        {2, 2, 16, 16, 4, 30, true, false}, {2, 6, 16, 24, 4, 40, true, false}, {3, 6, 24, 16, 2, 20, true, false},
        {2, 6, 16, 24, 4, 40, false, true}, {2, 4, 32, 32, 4, 40, false, false}, {1, 3, 128, 128, 4, 25, true, false},
        {4, 4, 8, 40, 5, 17, false, true}, {1, 1, 5, 7, 3, 9, true, false}};
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_gdn(tiers[t], &cases[i], 100 + i);
}

// ---- attention ------------------------------------------------------------------------------------------------------------
static void norm_rope_plain(double *x, size_t d, const float *w, double eps, const float *rope, size_t n_rot, bool neox) {
    double s = 0;
    for (size_t i = 0; i < d; i++) s += x[i] * x[i];
    if (w)
        for (size_t i = 0; i < d; i++) x[i] *= w[i] / sqrt(s / (double)d + eps);
    for (size_t i = 0; i < n_rot / 2; i++) {
        size_t p = neox ? i : 2 * i, q = neox ? i + n_rot / 2 : 2 * i + 1;
        double a = x[p], b = x[q], co = rope[2 * i], si = rope[2 * i + 1];
        x[p] = a * co - b * si, x[q] = a * si + b * co;
    }
}

static void run_attn(const char *tier, size_t hq, size_t hkv, size_t d, size_t n_rot, bool gated, bool neox, bool norms, size_t n) {
    ch_op *op = open_op(tier, 2);
    ch_rng r;
    ch_rng_seed(&r, hq * 100 + d);
    size_t step = gated ? 2 * d : d, page_tokens = ch_op_page_tokens(op), n_page = n / page_tokens + 1, off = 128;
    float *q = randoms(&r, n * hq * step, 1), *k = randoms(&r, n * hkv * d, 1), *v = randoms(&r, n * hkv * d, 1);
    float *qn = randoms(&r, d, 1), *kn = randoms(&r, d, 1), *rope = randoms(&r, n * (n_rot ? n_rot : 1), 1), *y = randoms(&r, n * hq * d, 1);
    const ch_type_info *f32 = ch_quant_type(CH_TYPE_F32);
    uint8_t **page = calloc(n_page, sizeof *page);
    for (size_t i = 0; i < n_page; i++) page[i] = ch_alloc_aligned(off + ch_op_attn_kv_bytes(hkv, d, f32, f32) * page_tokens, 64);
    ch_op_seg seg = {.n_row = n, .page = page};
    ch_op_attn_args a = {.n_seg = 1, .seg = &seg, .n_row = n, .n_head = hq, .n_head_kv = hkv, .d_head = d, .n_rot = n_rot, .gated = gated,
                         .neox = neox, .eps = 1e-6f, .scale = 0.3f, .q = q, .k = k, .v = v, .q_norm = norms ? qn : NULL,
                         .k_norm = norms ? kn : NULL, .rope = n_rot ? rope : NULL, .k_type = f32, .v_type = f32, .page_off = off, .y = y};
    ch_op_dry_begin(op), ch_op_attn(op, &a);
    assert_int_equal(ch_op_dry_end(op, NULL), 0);
    ch_op_attn(op, &a);
    double *want = malloc(n * hq * d * sizeof *want), *kr = malloc(n * hkv * d * sizeof *kr), *x = malloc(d * sizeof *x), *p = malloc(n * sizeof *p);
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < hkv; h++) {
            double *kt = kr + (t * hkv + h) * d;
            for (size_t i = 0; i < d; i++) kt[i] = k[(t * hkv + h) * d + i];
            norm_rope_plain(kt, d, a.k_norm, a.eps, rope + t * n_rot, n_rot, neox);
        }
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < hq; h++) {
            size_t g = h / (hq / hkv);
            double sum = 0, *o = want + (t * hq + h) * d;
            for (size_t i = 0; i < d; i++) x[i] = q[(t * hq + h) * step + i], o[i] = 0;
            norm_rope_plain(x, d, a.q_norm, a.eps, rope + t * n_rot, n_rot, neox);
            for (size_t j = 0; j <= t; j++) {
                double dot = 0;
                for (size_t i = 0; i < d; i++) dot += x[i] * kr[(j * hkv + g) * d + i];
                sum += p[j] = exp(dot * a.scale);
            }
            for (size_t j = 0; j <= t; j++)
                for (size_t i = 0; i < d; i++) o[i] += p[j] / sum * v[(j * hkv + g) * d + i];
            if (gated)
                for (size_t i = 0; i < d; i++) o[i] *= sigmoid(q[(t * hq + h) * step + d + i]);
        }
    char what[96];
    snprintf(what, sizeof what, "%s attention %zu/%zu d %zu rot %zu", tier, hq, hkv, d, n_rot);
    assert_close(what, y, want, n * hq * d);
    for (size_t i = 0; i < n_page; i++) ch_free(page[i]);
    free(page), free(want), free(kr), free(x), free(p);
    float *all[] = {q, k, v, qn, kn, rope, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ch_free(all[i]);
    ch_op_free(&op);
}

static void test_attention(void **state) {
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        run_attn(tiers[t], 3, 1, 16, 8, true, true, true, 70);
        run_attn(tiers[t], 6, 2, 24, 24, false, false, false, 65);
        run_attn(tiers[t], 8, 2, 64, 16, true, true, true, 130);
        run_attn(tiers[t], 2, 2, 10, 4, false, true, true, 20);
        run_attn(tiers[t], 4, 4, 128, 0, false, false, false, 64);
    }
}

// ---- mixture of experts ---------------------------------------------------------------------------------------------------
typedef struct moe_case {
    int gating;
    bool renormalise, bias, merged, gateless, shared;
    float scale;
    size_t n_expert, n_used, n_group, n_group_used, n_row;
} moe_case;

static ch_weight f32_weight(ch_op *op, const char *name, const float *w, size_t n_in, size_t n_out, size_t n_mat) {
    ch_weight x = {.name = name, .type = ch_quant_type(CH_TYPE_F32), .n_in = n_in, .n_out = n_out, .n_mat = n_mat,
                   .raw = (const uint8_t *)w, .raw_bytes = n_in * n_out * n_mat * sizeof *w};
    assert_int_equal(ch_op_weight_prepare(op, &x, false, NULL), 0);
    return x;
}

// M1-M9 as written, one row.
static void moe_plain(const moe_case *c, const float *z, const float *bias, const float *x, const float *wg, const float *wu, const float *wd,
                      size_t d, size_t ff, double *y) {
    double p[64], s[64], sum = 0, w[64], max = -INFINITY;
    bool out[64] = {false}, taken[64] = {false};
    for (size_t e = 0; e < c->n_expert; e++) max = fmax(max, z[e]);
    for (size_t e = 0; e < c->n_expert; e++) {
        p[e] = c->gating == CH_GATE_SOFTMAX ? exp(z[e] - max) : c->gating == CH_GATE_SIGMOID ? sigmoid(z[e]) : c->gating == CH_GATE_SQRT_SOFTPLUS ? sqrt(log1p(exp(z[e]))) : z[e];
        sum += p[e];
    }
    for (size_t e = 0; e < c->n_expert; e++) {
        if (c->gating == CH_GATE_SOFTMAX) p[e] /= sum;
        s[e] = p[e] + (c->bias ? bias[e] : 0);
    }
    if (c->n_group > 1) {
        size_t per = c->n_expert / c->n_group;
        bool keep[64] = {false};
        for (size_t n = 0; n < c->n_group_used; n++) {
            double best = -INFINITY;
            size_t at = 0;
            for (size_t g = 0; g < c->n_group; g++) {
                double a = -INFINITY, b = -INFINITY;
                for (size_t e = g * per; e < (g + 1) * per; e++)
                    if (s[e] > a) b = a, a = s[e];
                    else if (s[e] > b) b = s[e];
                if (!keep[g] && a + b > best) best = a + b, at = g;
            }
            keep[at] = true;
        }
        for (size_t e = 0; e < c->n_expert; e++) out[e] = !keep[e / per];
    }
    size_t idx[64];
    double total = 0;
    for (size_t n = 0; n < c->n_used; n++) {
        idx[n] = SIZE_MAX;
        for (size_t e = 0; e < c->n_expert; e++)
            if (!out[e] && !taken[e] && (idx[n] == SIZE_MAX || s[e] > s[idx[n]])) idx[n] = e;
        taken[idx[n]] = true;
        w[n] = c->gating == CH_GATE_SOFTMAX_AFTER ? exp(z[idx[n]] - max) : p[idx[n]];
        total += w[n];
    }
    for (size_t i = 0; i < d; i++) y[i] = 0;
    double h[64];
    for (size_t n = 0; n < c->n_used; n++) {
        double f = w[n] * (c->scale != 0 ? c->scale : 1) / (c->renormalise || c->gating == CH_GATE_SOFTMAX_AFTER ? total : 1);
        for (size_t r = 0; r < ff; r++) {
            double g = 0, u = 0;
            for (size_t i = 0; i < d; i++) {
                if (!c->gateless) g += (double)wg[(idx[n] * ff + r) * d + i] * x[i];
                u += (double)wu[(idx[n] * ff + r) * d + i] * x[i];
            }
            h[r] = c->gateless ? (u > 0 ? u * u : 0) : g * sigmoid(g) * u;
        }
        for (size_t i = 0; i < d; i++)
            for (size_t r = 0; r < ff; r++) y[i] += f * wd[(idx[n] * d + i) * ff + r] * h[r];
    }
}

static void run_moe(const char *tier, const moe_case *c) {
    enum { D = 40, FF = 24 };
    ch_op *op = open_op(tier, 3);
    ch_rng r;
    ch_rng_seed(&r, c->n_expert * 7 + c->n_row);
    size_t e = c->n_expert, per = (size_t)FF * D;
    float *wg = randoms(&r, e * per, 0.2f), *wu = randoms(&r, e * per, 0.2f), *wd = randoms(&r, e * per, 0.2f), *merged = randoms(&r, 2 * e * per, 0);
    float *x = randoms(&r, c->n_row * D, 1), *z = randoms(&r, c->n_row * e, 2), *bias = randoms(&r, e, 0.3f), *sh = randoms(&r, c->n_row * D, 1);
    float *shg = randoms(&r, c->n_row, 1), *y = randoms(&r, c->n_row * D, 1);
    for (size_t i = 0; i < e; i++) memcpy(merged + 2 * i * per, wg + i * per, per * 4), memcpy(merged + (2 * i + 1) * per, wu + i * per, per * 4);
    ch_weight gate = c->merged ? f32_weight(op, "merged", merged, D, 2 * FF, e) : f32_weight(op, "gate", wg, D, FF, e);
    ch_weight up = f32_weight(op, "up", wu, D, FF, e), down = f32_weight(op, "down", wd, FF, D, e);
    ch_op_moe_args a = {.n_row = c->n_row, .n_used = c->n_used, .gating = c->gating, .renormalise = c->renormalise, .scale = c->scale,
                        .n_group = c->n_group, .n_group_used = c->n_group_used, .bias = c->bias ? bias : NULL,
                        .gate = c->gateless ? NULL : &gate, .up = c->merged ? NULL : &up, .down = &down, .x = x, .router = z,
                        .shared = c->shared ? sh : NULL, .shared_gate = c->shared ? shg : NULL, .y = y};
    ch_op_dry_begin(op), ch_op_moe(op, &a);
    assert_int_equal(ch_op_dry_end(op, NULL), 0);
    ch_op_moe(op, &a);
    ch_op_counts n = ch_op_get_counts(op);
    size_t mats = c->gateless ? 2 : 3;
    assert_int_equal(n.moe_calls, 1);
    assert_in_range(n.experts, c->n_used, e);
    assert_int_equal(n.weight_bytes, n.experts * mats * per * sizeof(float));
    assert_int_equal(n.mul_adds, c->n_row * c->n_used * mats * per);
    double *want = malloc(c->n_row * D * sizeof *want);
    for (size_t t = 0; t < c->n_row; t++) {
        moe_plain(c, z + t * e, bias, x + t * D, wg, wu, wd, D, FF, want + t * D);
        for (size_t i = 0; i < D && c->shared; i++) want[t * D + i] += sigmoid(shg[t]) * sh[t * D + i];
    }
    char what[64];
    snprintf(what, sizeof what, "%s moe gating %d experts %zu", tier, c->gating, e);
    assert_close(what, y, want, c->n_row * D);
    free(want);
    ch_op_weight_release(&gate), ch_op_weight_release(&up), ch_op_weight_release(&down);
    float *all[] = {wg, wu, wd, merged, x, z, bias, sh, shg, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ch_free(all[i]);
    ch_op_free(&op);
}

static void test_moe(void **state) {
    (void)state;
    static const moe_case cases[] = {
        {.gating = CH_GATE_SOFTMAX, .renormalise = true, .shared = true, .n_expert = 5, .n_used = 2, .n_row = 33},
        {.gating = CH_GATE_SOFTMAX, .merged = true, .n_expert = 5, .n_used = 2, .n_row = 7},
        {.gating = CH_GATE_SIGMOID, .renormalise = true, .bias = true, .scale = 2.5f, .gateless = true, .n_expert = 9, .n_used = 3, .n_row = 20},
        {.gating = CH_GATE_SIGMOID, .bias = true, .n_group = 4, .n_group_used = 2, .renormalise = true, .n_expert = 16, .n_used = 3, .n_row = 40},
        {.gating = CH_GATE_SOFTMAX_AFTER, .n_expert = 8, .n_used = 4, .n_row = 12},
        {.gating = CH_GATE_SQRT_SOFTPLUS, .renormalise = true, .n_expert = 7, .n_used = 7, .n_row = 3},
        {.gating = CH_GATE_SOFTMAX, .renormalise = true, .n_expert = 1, .n_used = 1, .n_row = 1},
        {.gating = CH_GATE_SIGMOID, .n_expert = 64, .n_used = 22, .renormalise = true, .n_row = 2}};
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_moe(tiers[t], &cases[i]);
}

// ---- packing --------------------------------------------------------------------------------------------------------------
// Whoever packs which rows, the bytes are the same: matrices alone or multiplied in one call, any number of workers.
static void test_pack_shares(void **state) {
    enum { N_IN = 256, N = 3 };
    static const size_t n_out[N] = {16 * 9 + 5, 16, 16 * 40};
    const ch_type_info *t = ch_quant_type_by_name("q8_0");
    (void)state;
    size_t row;
    assert_true(ch_quant_row_bytes(t, N_IN, &row));
    ch_weight w[N];
    uint8_t *raw[N], *want[N] = {0};
    ch_rng r;
    ch_rng_seed(&r, 4);
    for (int i = 0; i < N; i++) {
        raw[i] = ch_alloc(row * n_out[i]);
        for (size_t k = 0; k < row * n_out[i]; k++) raw[i][k] = (uint8_t)(ch_rng_u64(&r) >> 40);
    }
    for (int n_threads = 1; n_threads <= 9; n_threads += 2) {
        ch_error e = {0};
        ch_op *op = open_op(NULL, n_threads);
        ch_op_mul mul[N];
        for (int i = 0; i < N; i++) {
            w[i] = (ch_weight){.name = "w", .type = t, .n_in = N_IN, .n_out = n_out[i], .n_mat = 1, .raw = raw[i], .raw_bytes = row * n_out[i]};
            mul[i] = (ch_op_mul){.w = &w[i]};
        }
        if (n_threads > 1) {
            ch_op_dry_begin(op);
            ch_op_matmul(op, mul, N, NULL, 1);
            ch_op_matmul(op, mul + 2, 1, NULL, 1); // once more by itself: the first use counts
            assert_int_equal(ch_op_dry_end(op, &e), 0);
        }
        for (int i = 0; i < N; i++) {
            assert_int_equal(ch_op_weight_prepare(op, &w[i], false, &e), 0);
            if (!want[i] && w[i].packed_bytes) want[i] = ch_alloc(w[i].packed_bytes), memcpy(want[i], w[i].packed, w[i].packed_bytes);
            if (w[i].packed) assert_memory_equal(w[i].packed, want[i], w[i].packed_bytes);
            ch_op_weight_release(&w[i]);
        }
        ch_op_free(&op);
    }
    for (int i = 0; i < N; i++) ch_free(raw[i]), ch_free(want[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gdn), cmocka_unit_test(test_attention), cmocka_unit_test(test_moe), cmocka_unit_test(test_pack_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
