// quant: the table of tensor types: block layout, size, reference decode and encode.
// It knows bytes of blocks, nothing of files, of instruction sets or of what a tensor means.
// Source of every layout: the GGUF/ggml tensor types; bit-equality with the reference library is tested.
#ifndef CH_QUANT_H
#define CH_QUANT_H

#include "base/base.h"

// GGUF type ids, from quant/list.h: CH_TYPE_F32, CH_TYPE_F16, CH_TYPE_Q4_0, ...
typedef enum ch_type {
#define CH_TYPE_ROW(name, NAME, id, block, bytes) CH_TYPE_##NAME = id,
#include "quant/list.h"
#undef CH_TYPE_ROW
} ch_type;

typedef struct ch_type_info {
    ch_type id;
    const char *name;  // as users write it: "q4_k", "iq4_xs", "f16"
    uint32_t n_block;  // values per block
    uint32_t n_bytes;  // bytes per block
    // n values (multiple of n_block) from src to dst. NULL for the integer types and f64, which hold no weights.
    void (*decode)(const void *src, float *dst, size_t n); // src: n/n_block blocks, no alignment; dst: [n]
    // Deterministic nearest encoding without importance weights; NULL where not written yet.
    void (*encode)(const float *src, void *dst, size_t n); // src: [n]; dst: n/n_block blocks
} ch_type_info;

const ch_type_info *ch_quant_type(uint32_t id);              // NULL: unknown or retired id
const ch_type_info *ch_quant_type_by_name(const char *name); // any case; NULL: unknown
const ch_type_info *ch_quant_type_at(size_t i);              // i-th row of the table, NULL past the end
// Bytes of a row of n values; false when n is no multiple of the block or the size overflows.
bool ch_quant_row_bytes(const ch_type_info *t, uint64_t n, size_t *out);

#endif
