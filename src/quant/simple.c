// The types of 32 values with one scale: q4_0, q4_1, q5_0, q5_1, q8_0 and the activation type q8_1.
// Four-bit codes are split by halves: byte j holds value j in its low nibble and value j + 16 in its high one.
#include <math.h>

#include "quant/codecs.h"

enum { N = 32 }; // values per block

void ch_quant_decode_q4_0(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u8 qs[16]
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q4_0, dst += N) {
        float d = load_f16(b);
        for (int j = 0; j < 16; j++) {
            dst[j] = (float)((b[2 + j] & 15) - 8) * d;
            dst[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
        }
    }
}

void ch_quant_decode_q4_1(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; f16 m; u8 qs[16]
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q4_1, dst += N) {
        float d = load_f16(b), m = load_f16(b + 2);
        for (int j = 0; j < 16; j++) {
            dst[j] = (float)(b[4 + j] & 15) * d + m;
            dst[j + 16] = (float)(b[4 + j] >> 4) * d + m;
        }
    }
}

void ch_quant_decode_q5_0(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; u32 qh, bit j = bit 4 of value j; u8 qs[16]
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q5_0, dst += N) {
        float d = load_f16(b);
        uint32_t qh = load_u32(b + 2);
        for (int j = 0; j < 16; j++) {
            int lo = (b[6 + j] & 15) | (int)(qh >> j & 1) << 4;
            int hi = (b[6 + j] >> 4) | (int)(qh >> (j + 16) & 1) << 4;
            dst[j] = (float)(lo - 16) * d;
            dst[j + 16] = (float)(hi - 16) * d;
        }
    }
}

void ch_quant_decode_q5_1(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; f16 m; u32 qh; u8 qs[16]
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q5_1, dst += N) {
        float d = load_f16(b), m = load_f16(b + 2);
        uint32_t qh = load_u32(b + 4);
        for (int j = 0; j < 16; j++) {
            int lo = (b[8 + j] & 15) | (int)(qh >> j & 1) << 4;
            int hi = (b[8 + j] >> 4) | (int)(qh >> (j + 16) & 1) << 4;
            dst[j] = (float)lo * d + m;
            dst[j + 16] = (float)hi * d + m;
        }
    }
}

void ch_quant_decode_q8_0(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; i8 qs[32]
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q8_0, dst += N) {
        float d = load_f16(b);
        for (int j = 0; j < N; j++) dst[j] = (float)(int8_t)b[2 + j] * d;
    }
}

void ch_quant_decode_q8_1(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; f16 s = d * sum of codes, not needed here; i8 qs[32]
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q8_1, dst += N) {
        float d = load_f16(b);
        for (int j = 0; j < N; j++) dst[j] = (float)(int8_t)b[4 + j] * d;
    }
}

// 1/d, and 0 where that is no finite number: d = 0, or so small that f16 holds it as 0 anyway.
static float inverse_scale(float d) {
    float id = d != 0 ? 1.0f / d : 0.0f;
    return isfinite(id) ? id : 0.0f;
}

// Integer part of x within [lo, hi]; NaN (an infinite or NaN input) gives nan.
static int clamp_code(float x, int lo, int hi, int nan) {
    if (isnan(x)) return nan;
    if (x <= (float)lo) return lo;
    if (x >= (float)hi) return hi;
    return (int)x;
}

// The value of largest magnitude maps to code 0 (-8 steps), so the scale carries its negated sign.
void ch_quant_encode_q4_0(const float *src, void *dst, size_t n) {
    uint8_t *b = dst;
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q4_0, src += N) {
        float amax = 0, extreme = 0;
        for (int j = 0; j < N; j++)
            if (amax < fabsf(src[j])) {
                amax = fabsf(src[j]);
                extreme = src[j];
            }
        float d = extreme / -8, id = inverse_scale(d);
        store_u16(b, ch_f32_to_f16(d));
        for (int j = 0; j < 16; j++) {
            int lo = clamp_code(src[j] * id + 8.5f, 0, 15, 8);
            int hi = clamp_code(src[j + 16] * id + 8.5f, 0, 15, 8);
            b[2 + j] = (uint8_t)(lo | hi << 4);
        }
    }
}

void ch_quant_encode_q8_0(const float *src, void *dst, size_t n) {
    uint8_t *b = dst;
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q8_0, src += N) {
        float amax = 0;
        for (int j = 0; j < N; j++)
            if (amax < fabsf(src[j])) amax = fabsf(src[j]);
        float d = amax / 127, id = inverse_scale(d);
        store_u16(b, ch_f32_to_f16(d));
        for (int j = 0; j < N; j++) b[2 + j] = (uint8_t)(int8_t)clamp_code(roundf(src[j] * id), -127, 127, 0);
    }
}
