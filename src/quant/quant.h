// quant: the table of tensor types: block layout, size, reference decode and encode.
// It knows bytes of blocks, nothing of files, of instruction sets or of what a tensor means.
// Source of every layout: the GGUF/ggml tensor types; bit-equality with the reference library is tested.
#ifndef CH_QUANT_H
#define CH_QUANT_H

#include "base/base.h"

// GGUF type ids, from quant/list.h: CH_TYPE_F32, CH_TYPE_F16, CH_TYPE_Q4_0, ...
typedef enum ch_type {
#define CH_TYPE_ROW(name, NAME, id, block, bytes, decode, encode) CH_TYPE_##NAME = id,
#include "quant/list.h"
#undef CH_TYPE_ROW
    CH_TYPE_TQ4 = 1 << 16, // cache types (below): in no file, found by no id
    CH_TYPE_TQ3,
} ch_type;

typedef struct ch_type_info {
    ch_type id;
    const char *name;  // as users write it: "q4_k", "iq4_xs", "f16"
    uint32_t n_block;  // values per block
    uint32_t n_bytes;  // bytes per block
    // n values (multiple of n_block) from src to dst. NULL for the integer types and f64, which hold no weights.
    void (*decode)(const void *src, float *dst, size_t n); // src: n/n_block blocks, no alignment; dst: [n]
    // Any bytes are valid blocks: damaged ones give wrong, infinite or NaN values, nothing worse.
    // Deterministic nearest encoding without importance weights; NULL where not written yet. Values whose block scale is
    // past the range of f16 (65504) get an infinite scale; a NaN becomes 0 (plain types keep NaN).
    void (*encode)(const float *src, void *dst, size_t n); // src: [n]; dst: n/n_block blocks
} ch_type_info;

const ch_type_info *ch_quant_type(uint32_t id);              // NULL: unknown or retired id
const ch_type_info *ch_quant_type_by_name(const char *name); // any case; NULL: unknown
const ch_type_info *ch_quant_type_at(size_t i);              // i-th row of the table, NULL past the end
// Bytes of a row of n values; false when n is no multiple of the block or the size overflows.
bool ch_quant_row_bytes(const ch_type_info *t, uint64_t n, size_t *out);

// ---- types of the key/value cache -----------------------------------------------------------------------------------------
// f32, f16, bf16, q8_0, q4_0, and two that no file holds: tq4 and tq3 (4 and 3 bits a value; docs/FORMATS.md). A block of
// these is a whole rotated vector, so their rows come in blocks of 32, 64, 128 or 256 values.
const ch_type_info *ch_quant_cache_type(const char *name); // any case; tq types with blocks of 256; NULL: none of these
const ch_type_info *ch_quant_cache_fit(const ch_type_info *t, size_t n); // its form for rows of n values; NULL: no whole blocks
// Values that are rotated together in rows of n: the largest of 256, 128, 64, 32 that divides n; 0: none does.
size_t ch_quant_rotation(size_t n);
void ch_quant_turbo_levels(ch_type id, size_t block, float *level); // [16] or [8], ascending, for vectors of length 1

// Value tables, for code that repacks blocks without decoding them. Grid entries are packed codes, first value in the
// lowest bits: 8 values of 2 bits (iq1, iq2), 4 values of 3 bits (iq3).
extern const uint16_t ch_quant_grid_iq2_xxs[256]; // codes of ch_quant_levels_iq2
extern const uint16_t ch_quant_grid_iq2_xs[512];
extern const uint16_t ch_quant_grid_iq2_s[1024];
extern const uint16_t ch_quant_grid_iq3_xxs[256]; // codes of ch_quant_levels_iq3_xxs
extern const uint16_t ch_quant_grid_iq3_s[512];   // code c stands for 2c + 1
extern const uint16_t ch_quant_grid_iq1[2048];    // code c stands for c - 1; iq1_s and iq1_m
extern const uint8_t ch_quant_levels_iq2[4];      // the fourth is never used
extern const uint8_t ch_quant_levels_iq3_xxs[8];
extern const int8_t ch_quant_values_iq4[16];  // iq4_nl, iq4_xs
extern const int8_t ch_quant_values_e2m1[16]; // mxfp4, nvfp4: FP4 values doubled, so their scales are halved
float ch_quant_scale_e8m0_half(uint8_t e);    // mxfp4: 2^(e - 128)
float ch_quant_scale_ue4m3_half(uint8_t e);   // nvfp4: half of the unsigned E4M3 number
// Scale and min (6 bits each) of sub-block j, 0..7, from the 12 packed bytes of q4_k and q5_k.
void ch_quant_scale_min_k4(const uint8_t *packed, int j, int *scale, int *min);

#endif
