// Taking file blocks apart into codes and scales, type by type, and the table of panel types. Layouts: quantization notes
// of GGUF types; the values must multiply back to what ch_type_info.decode gives (tests/checkkern compares).
#include <math.h>
#include <string.h>

#include "kern/x86/panel.h"

static uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

// 16 bytes to 32 codes: low nibbles first, then high nibbles.
static void nibbles32(const uint8_t *restrict q, uint8_t *restrict c) {
    for (int i = 0; i < 16; i++) c[i] = q[i] & 15;
    for (int i = 0; i < 16; i++) c[16 + i] = q[i] >> 4;
}

// 32 bytes to 64 codes: low nibbles first, then high nibbles.
static void nibbles64(const uint8_t *restrict q, uint8_t *restrict c) {
    for (int i = 0; i < 32; i++) c[i] = q[i] & 15;
    for (int i = 0; i < 32; i++) c[32 + i] = q[i] >> 4;
}

// 32 bytes to 128 codes of 2 bits: each plane of bits gives 32 consecutive values.
static void pairs128(const uint8_t *restrict q, uint8_t *restrict c) {
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 32; i++) c[32 * k + i] = q[i] >> 2 * k & 3;
}

static void split_q4_0(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    nibbles32(b + 2, c->q);
}

static void split_q4_1(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    nibbles32(b + 4, c->q);
}

// Spreads eight bits over the low bits of eight bytes, first bit first.
static uint64_t spread8(uint8_t b) {
    const uint64_t bits = b * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
    return (bits + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
}

static void fifth_bits(const uint8_t *qh, uint8_t *c) {
    for (int i = 0; i < 4; i++) {
        uint64_t x;
        memcpy(&x, c + 8 * i, 8);
        x |= spread8(qh[i]) << 4;
        memcpy(c + 8 * i, &x, 8);
    }
}

// Adds bit `from` of every byte as bit `to` of the codes.
static void bit_plane32(const uint8_t *restrict bits, int from, int to, uint8_t *restrict c) {
    for (int i = 0; i < 32; i++) c[i] = (uint8_t)(c[i] | (bits[i] >> from & 1) << to);
}

// 32 codes of 4 + 2 bits.
static void nibbles_and_pairs(const uint8_t *restrict low, int low_at, const uint8_t *restrict high, int high_at,
                              uint8_t *restrict c) {
    for (int i = 0; i < 32; i++) c[i] = (uint8_t)((low[i] >> low_at & 15) | (high[i] >> high_at & 3) << 4);
}

static void split_q5_0(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    nibbles32(b + 6, c->q);
    fifth_bits(b + 2, c->q);
}

static void split_q5_1(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    nibbles32(b + 8, c->q);
    fifth_bits(b + 4, c->q);
}

static void split_q8_0(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    for (int i = 0; i < 4; i++) {
        uint64_t x;
        memcpy(&x, b + 2 + 8 * i, 8);
        x ^= UINT64_C(0x8080808080808080);
        memcpy(c->q + 8 * i, &x, 8);
    }
}

static void split_mxfp4(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    // 2^(e-128) as bf16; the two smallest are subnormal.
    c->d[0] = (uint16_t)(b[0] >= 2 ? (b[0] - 1) << 7 : 0x20 << b[0]);
    nibbles32(b + 1, c->q);
}

// Unsigned E4M3, halved, as f16: every value is exact there.
static uint16_t f16_of_ue4m3_half(uint8_t x) {
    const int e = x >> 3 & 15, m = x & 7;
    if (x == 0 || x == 0x7f) return 0;
    return ch_f32_to_f16(e ? ldexpf((float)(8 + m), e - 11) : ldexpf((float)m, -10));
}

static void split_nvfp4(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    for (int s = 0; s < 4; s++) {
        c->d[s] = f16_of_ue4m3_half(b[s]);
        for (int i = 0; i < 8; i++) {
            c->q[16 * s + i] = b[4 + 8 * s + i] & 15;
            c->q[16 * s + 8 + i] = b[4 + 8 * s + i] >> 4;
        }
    }
}

static void split_q1_0(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    for (int i = 0; i < 16; i++) {
        const uint64_t x = spread8(b[2 + i]) << 1;
        memcpy(c->q + 8 * i, &x, 8);
    }
}

static void split_q2_0(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    for (int i = 0; i < 64; i++) c->q[i] = b[2 + i / 4] >> 2 * (i % 4) & 3;
}

static void split_tq2_0(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b + 64);
    pairs128(b, c->q);
    pairs128(b + 32, c->q + 128);
}

static void split_q2_k(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b + 80);
    c->m = get16(b + 82);
    for (int i = 0; i < 16; i++) {
        c->sub[i] = (int8_t)(b[i] & 15);
        c->min[i] = b[i] >> 4;
    }
    pairs128(b + 16, c->q);
    pairs128(b + 48, c->q + 128);
}

static void split_q3_k(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    const uint8_t *s = b + 96;
    c->d[0] = get16(b + 108);
    pairs128(b + 32, c->q);
    pairs128(b + 64, c->q + 128);
    for (int k = 0; k < 8; k++) bit_plane32(b, k, 2, c->q + 32 * k);
    for (int j = 0; j < 16; j++) {
        const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
        c->sub[j] = (int8_t)((low | (s[8 + j % 4] >> 2 * (j / 4) & 3) << 4) - 32);
    }
}

// Eight 6-bit scales and mins from 12 bytes, as Q4_K and Q5_K have them.
static void scales_k(const uint8_t *s, ch_codes *c) {
    for (int j = 0; j < 4; j++) {
        c->sub[j] = (int8_t)(s[j] & 63);
        c->min[j] = s[j + 4] & 63;
        c->sub[j + 4] = (int8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        c->min[j + 4] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

static void split_q4_k(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    scales_k(b + 4, c);
    for (int p = 0; p < 4; p++) nibbles64(b + 16 + 32 * p, c->q + 64 * p);
}

static void split_q5_k(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    scales_k(b + 4, c);
    for (int p = 0; p < 4; p++) nibbles64(b + 48 + 32 * p, c->q + 64 * p);
    for (int j = 0; j < 8; j++) bit_plane32(b + 16, j, 4, c->q + 32 * j);
}

static void split_q6_k(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    c->d[0] = get16(b + 208);
    memcpy(c->sub, b + 192, 16);
    for (int h = 0; h < 2; h++) {
        const uint8_t *ql = b + 64 * h, *qh = b + 128 + 32 * h;
        uint8_t *q = c->q + 128 * h;
        for (int k = 0; k < 4; k++) nibbles_and_pairs(ql + 32 * (k & 1), k < 2 ? 0 : 4, qh, 2 * k, q + 32 * k);
    }
}

static void split_iq4_xs(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    (void)t;
    const unsigned high = get16(b + 2);
    c->d[0] = get16(b);
    for (int j = 0; j < 8; j++) {
        const unsigned low = b[4 + j / 2] >> 4 * (j % 2) & 15;
        c->sub[j] = (int8_t)((int)(low | (high >> 2 * j & 3) << 4) - 32);
        nibbles32(b + 8 + 16 * j, c->q + 32 * j);
    }
}

// The grid types come from the reference decoder: value / scale is an integer but for a rounding of 1e-7, so no grid has to
// be known here. v: [256] value / (unit * d * sub) with sub = 2s+1 of every 16 or 32 values. A zero scale gives zeros or
// NaN, for which any code will do.
static void grid_values(const ch_type_info *t, const uint8_t *b, const ch_codes *c, int per_sub, float unit, float *v) {
    const float d = ch_f16_to_f32(c->d[0]) * unit;
    t->decode(b, v, 256);
    for (int j = 0; j < 256 / per_sub; j++) {
        const float inverse = 1.0f / (d * c->sub[j]);
        for (int i = 0; i < per_sub; i++) v[per_sub * j + i] *= inverse;
    }
}

// code = magnitude step 0 (8), 1 (25), 2 (43), plus 4 when negative
static void codes_iq2(const float *v, uint8_t *q) {
    for (int i = 0; i < 256; i++) {
        const float m = fabsf(v[i]);
        q[i] = (uint8_t)((m > 16.0f) + (m > 34.0f) + 4 * (v[i] < 0));
    }
}

static void split_iq2_xxs(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    float v[256];
    c->d[0] = get16(b);
    for (int j = 0; j < 8; j++) c->sub[j] = (int8_t)(2 * (b[2 + 8 * j + 7] >> 4) + 1);
    grid_values(t, b, c, 32, 0.125f, v);
    codes_iq2(v, c->q);
}

// Both have one byte of two scales per 32 values; they end the block.
static void split_iq2_xs(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    float v[256];
    const uint8_t *s = b + t->n_bytes - 8;
    c->d[0] = get16(b);
    for (int j = 0; j < 16; j++) c->sub[j] = (int8_t)(2 * (s[j / 2] >> 4 * (j % 2) & 15) + 1);
    grid_values(t, b, c, 16, 0.125f, v);
    codes_iq2(v, c->q);
}

// code = magnitude step 0..7 of 4, 12, .. 52, 62, plus 8 when negative
static void split_iq3_xxs(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    float v[256];
    c->d[0] = get16(b);
    for (int j = 0; j < 8; j++) c->sub[j] = (int8_t)(2 * (b[66 + 4 * j + 3] >> 4) + 1);
    grid_values(t, b, c, 32, 0.25f, v);
    for (int i = 0; i < 256; i++) {
        const float m = fabsf(v[i]);
        c->q[i] = (uint8_t)((m < 63.5f ? (int)(m * 0.125f) : 0) + 8 * (v[i] < 0));
    }
}

// code = (value + 15) / 2 with values -15, -13, .. 15
static void split_iq3_s(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    float v[256];
    c->d[0] = get16(b);
    for (int j = 0; j < 8; j++) c->sub[j] = (int8_t)(2 * (b[106 + j / 2] >> 4 * (j % 2) & 15) + 1);
    grid_values(t, b, c, 32, 1.0f, v);
    for (int i = 0; i < 256; i++) c->q[i] = (uint8_t)(fabsf(v[i]) < 16.0f ? (int)(v[i] * 0.5f + 8.0f) : 0);
}

// code = value + 1 of -1, 0, 1. The shift of +-1/8 is a min: sub * (8 -+ 1) eighths.
static void split_iq1_s(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    float v[256];
    c->d[0] = c->m = get16(b);
    for (int j = 0; j < 8; j++) {
        const int h = get16(b + 34 + 2 * j);
        c->sub[j] = (int8_t)(2 * (h >> 12 & 7) + 1);
        c->min[j] = (uint8_t)(c->sub[j] * (h & 0x8000 ? 9 : 7));
    }
    grid_values(t, b, c, 32, 1.0f, v);
    for (int i = 0; i < 256; i++) c->q[i] = (uint8_t)((v[i] > -0.5f) + (v[i] > 0.5f));
}

// code = place of 8 * value +- 1 among -9, -7, -1, 1, 7, 9
static void split_iq1_m(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    float v[256];
    c->d[0] = (uint16_t)(b[49] >> 4 | (b[51] & 0xf0) | (b[53] & 0xf0) << 4 | (b[55] & 0xf0) << 8);
    for (int j = 0; j < 16; j++) c->sub[j] = (int8_t)(2 * (get16(b + 48 + 2 * (j / 4)) >> 3 * (j % 4) & 7) + 1);
    grid_values(t, b, c, 16, 0.125f, v);
    for (int i = 0; i < 256; i++) {
        const float x = v[i];
        c->q[i] = (uint8_t)((x > -8.0f) + (x > -4.0f) + (x > 0.0f) + (x > 4.0f) + (x > 8.0f));
    }
}

static void split_tq1_0(const ch_type_info *t, const uint8_t *b, ch_codes *c) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    (void)t;
    c->d[0] = get16(b + 52);
    for (int n = 0; n < 5; n++) {
        for (int i = 0; i < 32; i++) c->q[32 * n + i] = (uint8_t)((uint8_t)(b[i] * power[n]) * 3 >> 8);
        for (int i = 0; i < 16; i++) c->q[160 + 16 * n + i] = (uint8_t)((uint8_t)(b[32 + i] * power[n]) * 3 >> 8);
    }
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 4; i++) c->q[240 + 4 * n + i] = (uint8_t)((uint8_t)(b[48 + i] * power[n]) * 3 >> 8);
}

// Values plus 128.
static const uint8_t table_iq4[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
// Doubled E2M1 plus 12.
static const uint8_t table_fp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
// Half of the magnitudes plus 31.
static const uint8_t table_iq3_xxs[16] = {33, 37, 41, 45, 49, 53, 57, 62, 29, 25, 21, 17, 13, 9, 5, 0};
// Plus 43.
static const uint8_t table_iq2[16] = {51, 68, 86, 43, 35, 18, 0, 43};
// Plus 9.
static const uint8_t table_iq1_m[16] = {0, 2, 8, 10, 16, 18};

static const ch_panel_spec specs[] = {
    // type, planes, max, scale, sub, d_shift, affine, table, zero, factor, min_factor, split
    {CH_TYPE_Q4_0, CH_P4, 15, CH_SC_F16, 32, 0, false, NULL, 8, 1, 0, split_q4_0},
    {CH_TYPE_Q4_1, CH_P4, 15, CH_SC_F16, 32, 0, true, NULL, 0, 1, -1, split_q4_1},
    {CH_TYPE_Q5_0, CH_P5, 31, CH_SC_F16, 32, 0, false, NULL, 16, 1, 0, split_q5_0},
    {CH_TYPE_Q5_1, CH_P5, 31, CH_SC_F16, 32, 0, true, NULL, 0, 1, -1, split_q5_1},
    {CH_TYPE_Q8_0, CH_P8, 255, CH_SC_F16, 32, 0, false, NULL, 128, 1, 0, split_q8_0},
    {CH_TYPE_Q2_K, CH_P2, 3, CH_SC_I8, 16, 3, true, NULL, 0, 1, 1, split_q2_k},
    {CH_TYPE_Q3_K, CH_P3, 7, CH_SC_I8, 16, 3, false, NULL, 4, 1, 0, split_q3_k},
    {CH_TYPE_Q4_K, CH_P4, 15, CH_SC_I8, 32, 3, true, NULL, 0, 1, 1, split_q4_k},
    {CH_TYPE_Q5_K, CH_P5, 31, CH_SC_I8, 32, 3, true, NULL, 0, 1, 1, split_q5_k},
    {CH_TYPE_Q6_K, CH_P6, 63, CH_SC_I8, 16, 3, false, NULL, 32, 1, 0, split_q6_k},
    {CH_TYPE_IQ4_NL, CH_P4, 241, CH_SC_F16, 32, 0, false, table_iq4, 128, 1, 0, split_q4_0},
    {CH_TYPE_IQ4_XS, CH_P4, 241, CH_SC_I8, 32, 3, false, table_iq4, 128, 1, 0, split_iq4_xs},
    {CH_TYPE_MXFP4, CH_P4, 24, CH_SC_BF16, 32, 0, false, table_fp4, 12, 1, 0, split_mxfp4},
    {CH_TYPE_NVFP4, CH_P4, 24, CH_SC_F16, 16, 0, false, table_fp4, 12, 1, 0, split_nvfp4},
    {CH_TYPE_IQ3_S, CH_P4, 15, CH_SC_I8, 32, 3, false, NULL, 7.5f, 2, 0, split_iq3_s},
    {CH_TYPE_IQ3_XXS, CH_P4, 62, CH_SC_I8, 32, 3, false, table_iq3_xxs, 31, 0.5f, 0, split_iq3_xxs},
    {CH_TYPE_IQ2_XXS, CH_P3, 86, CH_SC_I8, 32, 3, false, table_iq2, 43, 0.125f, 0, split_iq2_xxs},
    {CH_TYPE_IQ2_XS, CH_P3, 86, CH_SC_I8, 16, 3, false, table_iq2, 43, 0.125f, 0, split_iq2_xs},
    {CH_TYPE_IQ2_S, CH_P3, 86, CH_SC_I8, 16, 3, false, table_iq2, 43, 0.125f, 0, split_iq2_xs},
    {CH_TYPE_IQ1_S, CH_P2, 3, CH_SC_I8, 32, 3, true, NULL, 0, 1, 0.125f, split_iq1_s},
    {CH_TYPE_IQ1_M, CH_P3, 18, CH_SC_I8, 16, 3, false, table_iq1_m, 9, 0.125f, 0, split_iq1_m},
    {CH_TYPE_TQ1_0, CH_P2, 3, CH_SC_F16, 32, 3, false, NULL, 1, 1, 0, split_tq1_0},
    {CH_TYPE_TQ2_0, CH_P2, 3, CH_SC_F16, 32, 3, false, NULL, 1, 1, 0, split_tq2_0},
    {CH_TYPE_Q1_0, CH_P2, 3, CH_SC_F16, 32, 2, false, NULL, 1, 1, 0, split_q1_0},
    {CH_TYPE_Q2_0, CH_P2, 3, CH_SC_F16, 32, 1, false, NULL, 1, 1, 0, split_q2_0},
};

const ch_panel_spec *ch_kern_panel_spec(const ch_type_info *t, size_t n_in) {
    if (!n_in || n_in % t->n_block) return NULL;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if (specs[i].type == (int)t->id) return &specs[i];
    return NULL;
}
