// The k-quants: super-blocks of 256 values with integer scales (and mins) per sub-block of 16 or 32.
// Two-bit codes lie in planes: value e is in byte 32 * (e / 128) + e % 32, at bit 2 * (e % 128 / 32).
#include "quant/codecs.h"

enum { N = 256 }; // values per block

void ch_quant_decode_q2_k(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // u8 scales[16], low nibble scale, high nibble min; u8 qs[64]; f16 d; f16 dmin
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q2_K, dst += N) {
        float d = load_f16(b + 80), dmin = load_f16(b + 82);
        for (int k = 0; k < 16; k++) {
            float scale = d * (float)(b[k] & 15), min = dmin * (float)(b[k] >> 4);
            const uint8_t *q = b + 16 + 32 * (k / 8) + 16 * (k % 2);
            int shift = k % 8 / 2 * 2;
            for (int j = 0; j < 16; j++) dst[16 * k + j] = scale * (float)(q[j] >> shift & 3) - min;
        }
    }
}

// Six-bit scale of sub-block k: its low nibble is in s[k % 8], its top two bits in s[8 + k % 4].
static int scale_q3_k(const uint8_t *s, int k) {
    int low = s[k % 8] >> (k / 8 * 4) & 15;
    int high = s[8 + k % 4] >> (k / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

void ch_quant_decode_q3_k(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // u8 hmask[32], bit e/32 of byte e%32; u8 qs[64]; u8 scales[12]; f16 d
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q3_K, dst += N) {
        float d = load_f16(b + 108);
        for (int k = 0; k < 16; k++) {
            float scale = d * (float)scale_q3_k(b + 96, k);
            const uint8_t *h = b + 16 * (k % 2);
            const uint8_t *q = b + 32 + 32 * (k / 8) + 16 * (k % 2);
            int shift = k % 8 / 2 * 2;
            for (int j = 0; j < 16; j++) { // a set high bit means that 4 is not subtracted
                int code = (q[j] >> shift & 3) - (h[j] >> (k / 2) & 1 ? 0 : 4);
                dst[16 * k + j] = scale * (float)code;
            }
        }
    }
}

void ch_quant_scale_min_k4(const uint8_t *packed, int j, int *scale, int *min) {
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
        *min = (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
    }
}

void ch_quant_decode_q4_k(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f16 d; f16 dmin; u8 scales[12]; u8 qs[128]: sub-blocks 2p, 2p+1 share bytes 32p .. 32p+31
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q4_K, dst += N) {
        float d = load_f16(b), dmin = load_f16(b + 2);
        for (int k = 0; k < 8; k++) {
            int sc, m;
            ch_quant_scale_min_k4(b + 4, k, &sc, &m);
            float scale = d * (float)sc, min = dmin * (float)m;
            const uint8_t *q = b + 16 + 32 * (k / 2);
            for (int j = 0; j < 32; j++) dst[32 * k + j] = scale * (float)(q[j] >> (k % 2 * 4) & 15) - min;
        }
    }
}

void ch_quant_decode_q5_k(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // as q4_k with u8 qh[32] before qs: bit k of qh[j] is bit 4 of value j of sub-block k
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q5_K, dst += N) {
        float d = load_f16(b), dmin = load_f16(b + 2);
        const uint8_t *h = b + 16;
        for (int k = 0; k < 8; k++) {
            int sc, m;
            ch_quant_scale_min_k4(b + 4, k, &sc, &m);
            float scale = d * (float)sc, min = dmin * (float)m;
            const uint8_t *q = b + 48 + 32 * (k / 2);
            for (int j = 0; j < 32; j++) {
                int code = (q[j] >> (k % 2 * 4) & 15) | (h[j] >> k & 1) << 4;
                dst[32 * k + j] = scale * (float)code - min;
            }
        }
    }
}

void ch_quant_decode_q6_k(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // u8 ql[128]; u8 qh[64]; i8 scales[16]; f16 d
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q6_K, dst += N) {
        float d = load_f16(b + 208);
        for (int k = 0; k < 8; k++) { // 32 values: quarter k % 4 of half k / 4
            const uint8_t *low = b + 64 * (k / 4) + 32 * (k % 2);
            const uint8_t *high = b + 128 + 32 * (k / 4);
            int shift = k % 4 / 2 * 4;
            for (int j = 0; j < 32; j++) {
                int code = (low[j] >> shift & 15) | (high[j] >> (k % 4 * 2) & 3) << 4;
                float scale = d * (float)(int8_t)b[192 + 2 * k + j / 16];
                dst[32 * k + j] = scale * (float)(code - 32);
            }
        }
    }
}

void ch_quant_decode_q8_k(const void *src, float *dst, size_t n) {
    const uint8_t *b = src; // f32 d; i8 qs[256]; i16 sums of 16 codes each, not needed here
    for (size_t i = 0; i < n / N; i++, b += CH_QUANT_BYTES_Q8_K, dst += N) {
        float d;
        memcpy(&d, b, sizeof d);
        for (int j = 0; j < N; j++) dst[j] = d * (float)(int8_t)b[4 + j];
    }
}
