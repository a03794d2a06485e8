// Half and bfloat conversions in integer arithmetic: the same on every machine.
#include <string.h>

#include "base/base.h"

static uint32_t f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float f32_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

float ch_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exp = (h >> 10) & 31, man = h & 0x3ff;
    if (exp == 31) return f32_from_bits(sign | 0x7f800000u | man << 13);
    if (exp) return f32_from_bits(sign | (exp + 112) << 23 | man << 13);
    float f = (float)man * 0x1p-24f; // zero and subnormals: exact
    return f32_from_bits(sign | f32_bits(f));
}

uint16_t ch_f32_to_f16(float f) {
    uint32_t u = f32_bits(f);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x1ff)); // NaN stays NaN, made quiet
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);                    // rounds past 65504
    if (u >= 0x38800000u) {                                                    // normal half
        uint32_t r = u - (112u << 23);
        return (uint16_t)(sign | (r + 0xfff + (r >> 13 & 1)) >> 13);
    }
    if (u < 0x33000000u) return sign; // below half of the smallest subnormal
    // Subnormal: mantissa with its hidden bit, shifted to units of 2^-24, ties to even.
    uint32_t man = (u & 0x7fffffu) | 0x800000u;
    uint32_t shift = 126 - (u >> 23); // 14..24
    uint32_t q = man >> shift, rest = man & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (q & 1))) q++;
    return (uint16_t)(sign | q);
}

float ch_bf16_to_f32(uint16_t h) { return f32_from_bits((uint32_t)h << 16); }

uint16_t ch_f32_to_bf16(float f) {
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 64); // quiet NaN
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
