// Panel kernels on NEON with dot products (panel.h has the form of a panel). A vector is one step (4 inputs) of 4 rows; one
// instruction multiplies it by 4 activations, which it takes as a lane of a vector of 16, and adds four products in 32 bits.
// Both sides are signed there: codes reach 63, table values 86, and what goes past 127 has its offset of 128 taken off first.
#include <arm_neon.h>
#include <string.h>

#include "base/attr.h"
#include "kern/arm/arm.h"

typedef struct family {
    int planes, scale, sub;
    bool affine, table, wide; // wide: codes past 127, zero is 128
} family;

enum { TOKENS = 4, VECTORS = 2 }; // of a tile: 8 rows, so that sums, results and scales fit 32 registers

CH_FORCE_INLINE uint8x16_t field(const uint8_t *p, int shift, int mask) {
    return vandq_u8(vshlq_u8(vld1q_u8(p), vdupq_n_s8((int8_t)shift)), vdupq_n_u8((uint8_t)mask));
}

// Codes of step s of 4 rows; c: the block's codes plus 16 bytes per 4 rows before.
CH_FORCE_INLINE int8x16_t step_codes(const family f, const uint8_t *c, int s, uint8x16_t table) {
    uint8x16_t x;
    if (f.planes == CH_P8) {
        x = vld1q_u8(c + 64 * s);
    } else if (f.planes <= CH_P3) {
        x = field(c + 64 * (s / 4), -2 * (s % 4), 3);
        if (f.planes == CH_P3) x = vorrq_u8(x, field(c + 128, 2 - s, 4));
    } else {
        x = field(c + 64 * (s / 2), -4 * (s % 2), 15);
        if (f.planes == CH_P5) x = vorrq_u8(x, field(c + 256, 4 - s, 16));
        if (f.planes == CH_P6) x = vorrq_u8(x, field(c + 256 + 64 * (s / 4), 4 - 2 * (s % 4), 48));
    }
    if (f.table) x = vqtbl1q_u8(table, x);
    if (f.wide) x = veorq_u8(x, vdupq_n_u8(0x80));
    return vreinterpretq_s8_u8(x);
}

CH_FORCE_INLINE float32x4_t half_scale(int scale, const uint8_t *p) {
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    const uint16x4_t x = vld1_u16(h);
    if (scale == CH_SC_BF16) return vreinterpretq_f32_u32(vshll_n_u16(x, 16));
    return vcvt_f32_f16(vreinterpret_f16_u16(x));
}

// Four bytes as floats.
CH_FORCE_INLINE float32x4_t bytes_f32(const uint8_t *p, bool is_signed) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const uint8x8_t x = vreinterpret_u8_u32(vdup_n_u32(four));
    if (!is_signed) return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(x))));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(x)))));
}

// Scales of one block and 4 rows from row r on: what sums and activation sums are multiplied by, per sub-block.
typedef struct scales {
    float32x4_t w[2], min[2];
} scales;

CH_FORCE_INLINE void block_scales(const family f, const ch_panel_view *p, size_t b, size_t r, scales *s) {
    const size_t n_sub = CH_PANEL_BLOCK / (size_t)f.sub;
    const uint8_t *ds = p->ds + (b >> p->d_shift) * p->d_block + 2 * r;
    if (f.scale != CH_SC_I8) {
        s->w[0] = half_scale(f.scale, ds);
        if (n_sub == 2) s->w[1] = half_scale(f.scale, ds + 32);
        if (f.affine) s->min[0] = half_scale(f.scale, ds + 32);
        return;
    }
    const uint8_t *subs = p->subs + b * p->sub_block + r;
    const float32x4_t d = vmulq_n_f32(half_scale(f.scale, ds), p->factor);
    const float32x4_t dm = f.affine ? vmulq_n_f32(half_scale(f.scale, ds + 32), -p->min_factor) : d;
#pragma GCC unroll 2
    for (size_t j = 0; j < n_sub; j++) {
        s->w[j] = vmulq_f32(d, bytes_f32(subs + 16 * j, true));
        if (f.affine) s->min[j] = vmulq_f32(dm, bytes_f32(subs + 16 * (n_sub + j), false));
    }
}

// acc += w * (d * sum - zero * d * sum of activations), or with the min in the affine case.
CH_FORCE_INLINE float32x4_t add_sub_block(const family f, const ch_act8 *a, const scales *s, int j, float neg_zero, int32x4_t sum,
                                          float32x4_t acc) {
    const float asum = f.sub == 16 ? a->dsum16[j] : a->dsum;
    float32x4_t x = vmulq_n_f32(vcvtq_f32_s32(sum), a->d);
    if (!f.affine && !f.wide) x = vaddq_f32(x, vdupq_n_f32(neg_zero * asum));
    acc = vfmaq_f32(acc, x, s->w[j]);
    return f.affine ? vfmaq_n_f32(acc, s->min[j], asum) : acc;
}

// Rows [r, r + 8) of a panel, n_tok (1..4) tokens from t0 on.
CH_FORCE_INLINE void tile(const family f, const ch_panel_view *p, const ch_panel_rows *rows, size_t r, size_t t0, int n_tok) {
    const uint8_t *act = rows->act + t0 * rows->ld_act;
    const uint8x16_t table = f.table ? vld1q_u8(p->table) : vdupq_n_u8(0);
    float32x4_t acc[TOKENS][VECTORS];
#pragma GCC unroll 4
    for (int t = 0; t < n_tok; t++) acc[t][0] = acc[t][1] = vdupq_n_f32(0);
    for (size_t b = 0; b < p->n_blk; b++) {
        const uint8_t *c = p->codes + b * 64 * (size_t)f.planes + 4 * r, *a = act + b * sizeof(ch_act8);
        scales s[VECTORS];
        if (t0 == 0 && r == 0 && p->fetch) ch_panel_fetch_ahead(p, b, f.planes);
#pragma GCC unroll 2
        for (size_t v = 0; v < VECTORS; v++) block_scales(f, p, b, r + 4 * v, &s[v]);
        const int n_sub = CH_PANEL_BLOCK / f.sub;
#pragma GCC unroll 2
        for (int j = 0; j < n_sub; j++) {
            int32x4_t sum[TOKENS][VECTORS];
#pragma GCC unroll 4
            for (int t = 0; t < n_tok; t++) sum[t][0] = sum[t][1] = vdupq_n_s32(0);
#pragma GCC unroll 2
            for (int g = 0; g < f.sub / 16; g++) { // 16 activations at a time
                int8x16_t x[TOKENS];
#pragma GCC unroll 4
                for (int t = 0; t < n_tok; t++) x[t] = vld1q_s8(((const ch_act8 *)(a + (size_t)t * rows->ld_act))->q + j * f.sub + 16 * g);
#pragma GCC unroll 4
                for (int lane = 0; lane < 4; lane++)
#pragma GCC unroll 2
                    for (int v = 0; v < VECTORS; v++) {
                        const int8x16_t w = step_codes(f, c + 16 * v, (j * f.sub + 16 * g) / 4 + lane, table);
#pragma GCC unroll 4
                        for (int t = 0; t < n_tok; t++) sum[t][v] = vdotq_laneq_s32(sum[t][v], w, x[t], lane);
                    }
            }
#pragma GCC unroll 4
            for (int t = 0; t < n_tok; t++)
#pragma GCC unroll 2
                for (int v = 0; v < VECTORS; v++)
                    acc[t][v] = add_sub_block(f, (const ch_act8 *)(a + (size_t)t * rows->ld_act), &s[v], j, -p->zero, sum[t][v],
                                              acc[t][v]);
        }
    }
    const size_t n_row = rows->n_row > r ? rows->n_row - r : 0;
    for (int t = 0; t < n_tok && n_row; t++) {
        float all[8];
        vst1q_f32(all, acc[t][0]);
        vst1q_f32(all + 4, acc[t][1]);
        memcpy(rows->y + (t0 + (size_t)t) * rows->ld_y + r, all, (n_row < 8 ? n_row : 8) * sizeof *all);
    }
}

CH_FORCE_INLINE void panel_tokens(const family f, const ch_panel_view *p, const ch_panel_rows *rows) {
    for (size_t r = 0; r < CH_PANEL_ROWS; r += 4 * VECTORS) {
        size_t t = 0;
        for (; rows->n_tok - t >= TOKENS; t += TOKENS) tile(f, p, rows, r, t, TOKENS);
        for (; t < rows->n_tok; t++) tile(f, p, rows, r, t, 1);
    }
}

static void q4_0(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_F16, .sub = 32}, p, r);
}

static void q4_1(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_F16, .sub = 32, .affine = true}, p, r);
}

static void q5_0(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P5, .scale = CH_SC_F16, .sub = 32}, p, r);
}

static void q5_1(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P5, .scale = CH_SC_F16, .sub = 32, .affine = true}, p, r);
}

static void q8_0(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P8, .scale = CH_SC_F16, .sub = 32, .wide = true}, p, r);
}

static void iq4_nl(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_F16, .sub = 32, .table = true, .wide = true}, p, r);
}

static void mxfp4(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_BF16, .sub = 32, .table = true}, p, r);
}

static void nvfp4(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_F16, .sub = 16, .table = true}, p, r);
}

static void ternary(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P2, .scale = CH_SC_F16, .sub = 32}, p, r);
}

static void q2_k(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P2, .scale = CH_SC_I8, .sub = 16, .affine = true}, p, r);
}

static void q3_k(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P3, .scale = CH_SC_I8, .sub = 16}, p, r);
}

static void q4_k(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .affine = true}, p, r);
}

static void q5_k(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P5, .scale = CH_SC_I8, .sub = 32, .affine = true}, p, r);
}

static void q6_k(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P6, .scale = CH_SC_I8, .sub = 16}, p, r);
}

static void iq4_xs(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .table = true, .wide = true}, p, r);
}

static void iq3_s(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_I8, .sub = 32}, p, r);
}

static void iq3_xxs(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P4, .scale = CH_SC_I8, .sub = 32, .table = true}, p, r);
}

static void iq2_xxs(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P3, .scale = CH_SC_I8, .sub = 32, .table = true}, p, r);
}

// IQ2_S and IQ1_M too
static void iq2_xs(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P3, .scale = CH_SC_I8, .sub = 16, .table = true}, p, r);
}

static void iq1_s(const ch_panel_view *p, const ch_panel_rows *r) {
    panel_tokens((family){.planes = CH_P2, .scale = CH_SC_I8, .sub = 32, .affine = true}, p, r);
}


ch_panel_fn ch_kern_panel_neon(int type) {
    switch (type) {
    case CH_TYPE_Q4_0: return q4_0;
    case CH_TYPE_Q4_1: return q4_1;
    case CH_TYPE_Q5_0: return q5_0;
    case CH_TYPE_Q5_1: return q5_1;
    case CH_TYPE_Q8_0: return q8_0;
    case CH_TYPE_IQ4_NL: return iq4_nl;
    case CH_TYPE_MXFP4: return mxfp4;
    case CH_TYPE_NVFP4: return nvfp4;
    case CH_TYPE_TQ1_0:
    case CH_TYPE_TQ2_0:
    case CH_TYPE_Q1_0:
    case CH_TYPE_Q2_0: return ternary;
    case CH_TYPE_Q2_K: return q2_k;
    case CH_TYPE_Q3_K: return q3_k;
    case CH_TYPE_Q4_K: return q4_k;
    case CH_TYPE_Q5_K: return q5_k;
    case CH_TYPE_Q6_K: return q6_k;
    case CH_TYPE_IQ4_XS: return iq4_xs;
    case CH_TYPE_IQ3_S: return iq3_s;
    case CH_TYPE_IQ3_XXS: return iq3_xxs;
    case CH_TYPE_IQ2_XXS: return iq2_xxs;
    case CH_TYPE_IQ2_XS:
    case CH_TYPE_IQ2_S:
    case CH_TYPE_IQ1_M: return iq2_xs;
    case CH_TYPE_IQ1_S: return iq1_s;
    default: return NULL;
    }
}
