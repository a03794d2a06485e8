// Types of one or two bits with a single scale: tq1_0, tq2_0 (ternary, 256 values), q1_0 (signs, 128), q2_0 (64).
#include "quant/codecs.h"

// Digit k (0..4) of a byte holding five base-3 digits as a fixed-point fraction, most significant first: multiplying by
// 3^k drops the digits before it, and the carry of the next multiplication by 3 is the digit. Value = digit - 1.
static float ternary_digit(uint8_t byte, int k) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    unsigned fraction = (byte * power[k]) & 255u;
    return (float)((int)(fraction * 3 >> 8) - 1);
}

void ch_quant_decode_tq1_0(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // u8 qs[48]; u8 qh[4]; f16 d
    for (size_t i = 0; i < n / 256; i++, b += CH_QUANT_BYTES_TQ1_0, dst += 256) {
        float d = load_f16(b + 52);
        for (int k = 0; k < 5; k++) {
            for (int m = 0; m < 32; m++) dst[32 * k + m] = ternary_digit(b[m], k) * d;
            for (int m = 0; m < 16; m++) dst[160 + 16 * k + m] = ternary_digit(b[32 + m], k) * d;
        }
        for (int k = 0; k < 4; k++) // the last four bytes carry four digits each
            for (int m = 0; m < 4; m++) dst[240 + 4 * k + m] = ternary_digit(b[48 + m], k) * d;
    }
}

void ch_quant_decode_tq2_0(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // u8 qs[64], planes as in the k-quants; f16 d
    for (size_t i = 0; i < n / 256; i++, b += CH_QUANT_BYTES_TQ2_0, dst += 256) {
        float d = load_f16(b + 64);
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 32; j++) {
                int code = b[32 * (k / 4) + j] >> (k % 4 * 2) & 3;
                dst[32 * k + j] = (float)(code - 1) * d;
            }
    }
}

void ch_quant_decode_q1_0(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 bits[16], lowest first: set is +d, clear is -d
    for (size_t i = 0; i < n / 128; i++, b += CH_QUANT_BYTES_Q1_0, dst += 128) {
        float d = load_f16(b);
        for (int j = 0; j < 128; j++) dst[j] = b[2 + j / 8] >> (j % 8) & 1 ? d : -d;
    }
}

void ch_quant_decode_q2_0(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 qs[16], four codes a byte, lowest first, standing for -1, 0, 1, 2
    for (size_t i = 0; i < n / 64; i++, b += CH_QUANT_BYTES_Q2_0, dst += 64) {
        float d = load_f16(b);
        for (int j = 0; j < 64; j++) dst[j] = (float)((b[2 + j / 4] >> (j % 4 * 2) & 3) - 1) * d;
    }
}
