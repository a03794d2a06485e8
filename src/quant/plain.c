// f32, f16 and bf16: one value per block, stored little-endian.
#include "quant/codecs.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little-endian and floats are copied as they are");

void ch_quant_decode_f32(const void *src, float *dst, size_t n) {
    memcpy(dst, src, n * sizeof *dst);
}

void ch_quant_encode_f32(const float *src, void *dst, size_t n) {
    memcpy(dst, src, n * sizeof *src);
}

void ch_quant_decode_f16(const void *src, float *dst, size_t n) {
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = load_f16(p + 2 * i);
}

void ch_quant_encode_f16(const float *src, void *dst, size_t n) {
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++) store_u16(p + 2 * i, ch_f32_to_f16(src[i]));
}

void ch_quant_decode_bf16(const void *src, float *dst, size_t n) {
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = ch_bf16_to_f32(load_u16(p + 2 * i));
}

void ch_quant_encode_bf16(const float *src, void *dst, size_t n) {
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++) store_u16(p + 2 * i, ch_f32_to_bf16(src[i]));
}
