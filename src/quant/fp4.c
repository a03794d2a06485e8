// The four-bit float types: mxfp4 (OCP microscaling, one power-of-two scale per 32) and nvfp4 (one small float per 16).
// The table holds the E2M1 values doubled, as integers; the scales are halved to make up for it, which is exact.
#include "quant/codecs.h"

const int8_t ch_quant_values_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128) built from bits: e = 0 and 1 are subnormal. There is no NaN code: e = 255 is 2^127.
float ch_quant_scale_e8m0_half(uint8_t e) {
    uint32_t bits = e < 2 ? (uint32_t)0x00200000 << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// Exponent bits 3-6 with bias 7, mantissa bits 0-2, no sign. 0x7f, E4M3's NaN, counts as 0.
float ch_quant_scale_ue4m3_half(uint8_t e) {
    int exponent = e >> 3 & 15, mantissa = e & 7;
    if (e == 0x7f) return 0;
    if (exponent == 0) return (float)mantissa * 0x1p-10f;
    return (float)(8 + mantissa) * (float)(1 << exponent) * 0x1p-11f; // (1 + m/8) * 2^(exponent - 7) / 2
}

void ch_quant_decode_mxfp4(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // u8 e; u8 qs[16], split by halves
    for (size_t i = 0; i < n / 32; i++, b += CH_QUANT_BYTES_MXFP4, dst += 32) {
        float d = ch_quant_scale_e8m0_half(b[0]);
        for (int j = 0; j < 16; j++) {
            dst[j] = (float)ch_quant_values_e2m1[b[1 + j] & 15] * d;
            dst[j + 16] = (float)ch_quant_values_e2m1[b[1 + j] >> 4] * d;
        }
    }
}

void ch_quant_decode_nvfp4(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // u8 d[4]; u8 qs[32]: sub-block s of 16 values in bytes 8s .. 8s+7, split by halves
    for (size_t i = 0; i < n / 64; i++, b += CH_QUANT_BYTES_NVFP4, dst += 64)
        for (int s = 0; s < 4; s++) {
            float d = ch_quant_scale_ue4m3_half(b[s]);
            const uint8_t *q = b + 4 + 8 * s;
            for (int j = 0; j < 8; j++) {
                dst[16 * s + j] = (float)ch_quant_values_e2m1[q[j] & 15] * d;
                dst[16 * s + j + 8] = (float)ch_quant_values_e2m1[q[j] >> 4] * d;
            }
        }
}
