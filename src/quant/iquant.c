// The i-quants: groups of 8 (or 4) values taken from a codebook, with signs and small scales stored apart; and the two
// types with 16 uneven levels. Super-blocks of 256 values except iq4_nl (32). Codebooks: grids.c.
#include "quant/codecs.h"

enum { N = 256 };

const uint8_t ch_quant_levels_iq2[4] = {8, 25, 43, 0};
const uint8_t ch_quant_levels_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
const int8_t ch_quant_values_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Seven sign bits are stored; the eighth makes the number of negative values even.
static unsigned expand_signs(unsigned index) {
    unsigned parity = index ^ index >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return index | (parity & 1) << 7;
}

static float signed_value(float magnitude, unsigned signs, int bit) {
    return signs >> bit & 1 ? -magnitude : magnitude;
}

// Eight values of an iq2 entry; bit j of signs negates value j.
static void write_iq2(float *dst, float scale, unsigned entry, unsigned signs) {
    for (int j = 0; j < 8; j++)
        dst[j] = signed_value(scale * (float)ch_quant_levels_iq2[entry >> (2 * j) & 3], signs, j);
}

// Scale of the iq2 types from d and a four-bit code.
static float scale_iq2(float d, unsigned code) {
    return d * (0.5f + (float)code) * 0.25f;
}

void ch_quant_decode_iq2_xxs(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; per 32 values: u8 index[4], u32 of four 7-bit sign indices and a scale on top
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ2_XXS, dst += N) {
        float d = load_f16(b);
        for (int k = 0; k < 8; k++) {
            const uint8_t *q = b + 2 + 8 * k;
            uint32_t word = load_u32(q + 4);
            float scale = scale_iq2(d, word >> 28);
            for (int l = 0; l < 4; l++)
                write_iq2(dst + 32 * k + 8 * l, scale, ch_quant_grid_iq2_xxs[q[l]], expand_signs(word >> (7 * l) & 127));
        }
    }
}

void ch_quant_decode_iq2_xs(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u16 qs[32], 9 bits index and 7 bits sign index; u8 scales[8], nibble per 16 values
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ2_XS, dst += N) {
        float d = load_f16(b);
        for (int g = 0; g < 32; g++) {
            unsigned q = load_u16(b + 2 + 2 * g);
            float scale = scale_iq2(d, b[66 + g / 4] >> (g % 4 / 2 * 4) & 15);
            write_iq2(dst + 8 * g, scale, ch_quant_grid_iq2_xs[q & 511], expand_signs(q >> 9));
        }
    }
}

void ch_quant_decode_iq2_s(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 index[32]; u8 signs[32]; u8 qh[8], two index bits per group; u8 scales[8]
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ2_S, dst += N) {
        float d = load_f16(b);
        for (int g = 0; g < 32; g++) {
            unsigned index = b[2 + g] | (b[66 + g / 4] >> (g % 4 * 2) & 3u) << 8;
            float scale = scale_iq2(d, b[74 + g / 4] >> (g % 4 / 2 * 4) & 15);
            write_iq2(dst + 8 * g, scale, ch_quant_grid_iq2_s[index], b[34 + g]);
        }
    }
}

void ch_quant_decode_iq3_xxs(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 index[64], one per 4 values; per 32 values a u32 as in iq2_xxs
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ3_XXS, dst += N) {
        float d = load_f16(b);
        for (int k = 0; k < 8; k++) {
            uint32_t word = load_u32(b + 66 + 4 * k);
            float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
            for (int j = 0; j < 32; j++) {
                unsigned entry = ch_quant_grid_iq3_xxs[b[2 + 8 * k + j / 4]];
                unsigned signs = expand_signs(word >> (j / 8 * 7) & 127);
                float level = (float)ch_quant_levels_iq3_xxs[entry >> (j % 4 * 3) & 7];
                dst[32 * k + j] = signed_value(scale * level, signs, j % 8);
            }
        }
    }
}

void ch_quant_decode_iq3_s(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 index[64]; u8 qh[8], index bit 8; u8 signs[32]; u8 scales[4], nibble per 32 values
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ3_S, dst += N) {
        float d = load_f16(b);
        for (int g = 0; g < 64; g++) {
            unsigned index = b[2 + g] | (b[66 + g / 8] >> (g % 8) & 1u) << 8;
            unsigned entry = ch_quant_grid_iq3_s[index];
            int code = b[106 + g / 16] >> (g / 8 % 2 * 4) & 15;
            float scale = d * (float)(1 + 2 * code);
            for (int j = 0; j < 4; j++) {
                float level = (float)(2 * (entry >> (3 * j) & 7) + 1);
                dst[4 * g + j] = signed_value(scale * level, b[74 + g / 2], g % 2 * 4 + j);
            }
        }
    }
}

// Eight values of an iq1 entry, each shifted by an eighth of a step up or down.
static void write_iq1(float *dst, float scale, unsigned index, bool down) {
    unsigned entry = ch_quant_grid_iq1[index];
    float delta = down ? -0.125f : 0.125f;
    for (int j = 0; j < 8; j++) dst[j] = scale * ((float)((int)(entry >> (2 * j) & 3) - 1) + delta);
}

void ch_quant_decode_iq1_s(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 index[32]; u16 qh[8]: four times 3 index bits, 3 bits scale, 1 bit shift
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ1_S, dst += N) {
        float d = load_f16(b);
        for (int k = 0; k < 8; k++) {
            unsigned h = load_u16(b + 34 + 2 * k);
            float scale = d * (float)(2 * (h >> 12 & 7) + 1);
            for (int l = 0; l < 4; l++) {
                unsigned index = b[2 + 4 * k + l] | (h >> (3 * l) & 7) << 8;
                write_iq1(dst + 32 * k + 8 * l, scale, index, h >> 15);
            }
        }
    }
}

void ch_quant_decode_iq1_m(const void *src, float *dst, size_t n) {
    // u8 index[32]; u8 qh[16], nibble per group: 3 index bits and the shift; u16 sc[4]: four 3-bit scales each, and in
    // the top nibbles, lowest first, the f16 scale of the block
    const uint8_t *b = src;
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ1_M, dst += N) {
        unsigned bits = 0;
        for (int k = 0; k < 4; k++) bits |= (load_u16(b + 48 + 2 * k) >> 12 & 15u) << (4 * k);
        float d = ch_f16_to_f32((uint16_t)bits);
        for (int g = 0; g < 32; g++) {
            unsigned h = b[32 + g / 2] >> (g % 2 * 4) & 15;
            unsigned code = load_u16(b + 48 + g / 8 * 2) >> (g / 2 % 4 * 3) & 7;
            write_iq1(dst + 8 * g, d * (float)(2 * code + 1), b[g] | (h & 7) << 8, h >> 3);
        }
    }
}

void ch_quant_decode_iq4_nl(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 qs[16], split by halves
    for (size_t i = 0; i < n / 32; i++, b += CH_QUANT_BYTES_IQ4_NL, dst += 32) {
        float d = load_f16(b);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)ch_quant_values_iq4[b[2 + j] & 15];
            dst[j + 16] = d * (float)ch_quant_values_iq4[b[2 + j] >> 4];
        }
    }
}

void ch_quant_decode_iq4_xs(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u16 scales_h, 2 bits each; u8 scales_l[4], a nibble each; u8 qs[128], 16 per sub-block
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_IQ4_XS, dst += N) {
        float d = load_f16(b);
        unsigned high = load_u16(b + 2);
        for (int k = 0; k < 8; k++) {
            int code = (b[4 + k / 2] >> (k % 2 * 4) & 15) | (int)(high >> (2 * k) & 3) << 4;
            float scale = d * (float)(code - 32);
            const uint8_t *q = b + 8 + 16 * k;
            for (int j = 0; j < 16; j++) {
                dst[32 * k + j] = scale * (float)ch_quant_values_iq4[q[j] & 15];
                dst[32 * k + j + 16] = scale * (float)ch_quant_values_iq4[q[j] >> 4];
            }
        }
    }
}
