// Private to quant: prototypes of the decoders and encoders that quant/list.h names, and byte loads.
// Every decoder takes n / n_block blocks without any alignment and writes n floats; products and sums are made in the order
// of the reference library, each rounded to f32, so that results are equal to the last bit.
#ifndef CH_QUANT_CODECS_H
#define CH_QUANT_CODECS_H

#include <string.h>

#include "quant/quant.h"

#define CH_TYPE_ROW(name, NAME, id, block, bytes, decode, encode) CH_QUANT_BYTES_##NAME = bytes,
enum {
#include "quant/list.h"
};
#undef CH_TYPE_ROW

static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline float load_f16(const uint8_t *p)
{
    return ch_f16_to_f32(load_u16(p));
}

static inline void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

// plain.c
void ch_quant_decode_f32(const void *src, float *dst, size_t n);
void ch_quant_decode_f16(const void *src, float *dst, size_t n);
void ch_quant_decode_bf16(const void *src, float *dst, size_t n);
void ch_quant_encode_f32(const float *src, void *dst, size_t n);
void ch_quant_encode_f16(const float *src, void *dst, size_t n);
void ch_quant_encode_bf16(const float *src, void *dst, size_t n);

// simple.c
void ch_quant_decode_q4_0(const void *src, float *dst, size_t n);
void ch_quant_decode_q4_1(const void *src, float *dst, size_t n);
void ch_quant_decode_q5_0(const void *src, float *dst, size_t n);
void ch_quant_decode_q5_1(const void *src, float *dst, size_t n);
void ch_quant_decode_q8_0(const void *src, float *dst, size_t n);
void ch_quant_decode_q8_1(const void *src, float *dst, size_t n);
void ch_quant_encode_q4_0(const float *src, void *dst, size_t n);
void ch_quant_encode_q8_0(const float *src, void *dst, size_t n);

// fp4.c
void ch_quant_decode_mxfp4(const void *src, float *dst, size_t n);
void ch_quant_decode_nvfp4(const void *src, float *dst, size_t n);

// kquant.c
void ch_quant_decode_q2_k(const void *src, float *dst, size_t n);
void ch_quant_decode_q3_k(const void *src, float *dst, size_t n);
void ch_quant_decode_q4_k(const void *src, float *dst, size_t n);
void ch_quant_decode_q5_k(const void *src, float *dst, size_t n);
void ch_quant_decode_q6_k(const void *src, float *dst, size_t n);
void ch_quant_decode_q8_k(const void *src, float *dst, size_t n);

// iquant.c
void ch_quant_decode_iq1_s(const void *src, float *dst, size_t n);
void ch_quant_decode_iq1_m(const void *src, float *dst, size_t n);
void ch_quant_decode_iq2_xxs(const void *src, float *dst, size_t n);
void ch_quant_decode_iq2_xs(const void *src, float *dst, size_t n);
void ch_quant_decode_iq2_s(const void *src, float *dst, size_t n);
void ch_quant_decode_iq3_xxs(const void *src, float *dst, size_t n);
void ch_quant_decode_iq3_s(const void *src, float *dst, size_t n);
void ch_quant_decode_iq4_nl(const void *src, float *dst, size_t n);
void ch_quant_decode_iq4_xs(const void *src, float *dst, size_t n);

// ternary.c
void ch_quant_decode_tq1_0(const void *src, float *dst, size_t n);
void ch_quant_decode_tq2_0(const void *src, float *dst, size_t n);
void ch_quant_decode_q1_0(const void *src, float *dst, size_t n);
void ch_quant_decode_q2_0(const void *src, float *dst, size_t n);

#endif
