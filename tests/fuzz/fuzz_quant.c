// Fuzz target of the tensor types. Input: a byte that chooses the row of the type table, then bytes that are decoded as
// blocks and, where the type has an encoder, taken as floats, encoded and decoded. No bytes may harm; q8_0 and q4_0 turn
// finite values of moderate size into finite values.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quant/quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BYTES = 1 << 16 };

static void decode_bytes(const ch_type_info *t, const uint8_t *data, size_t size) {
    size_t n = size / t->n_bytes * t->n_block;
    float *y = malloc(n * sizeof *y + 1);
    if (!y) return;
    t->decode(data, y, n);
    free(y);
}

static void encode_bytes(const ch_type_info *t, const uint8_t *data, size_t size) {
    size_t n = size / sizeof(float) / t->n_block * t->n_block, bytes;
    if (!ch_quant_row_bytes(t, n, &bytes)) abort();
    float *x = malloc(n * sizeof *x + 1), *y = malloc(n * sizeof *y + 1);
    uint8_t *blocks = malloc(bytes + 1);
    if (x && y && blocks) {
        memcpy(x, data, n * sizeof *x);
        t->encode(x, blocks, n);
        t->decode(blocks, y, n);
        bool moderate = t->n_block > 1;
        for (size_t i = 0; i < n; i++) moderate = moderate && fabsf(x[i]) < 1e5f;
        for (size_t i = 0; moderate && i < n; i++)
            if (!isfinite(y[i])) abort();
    }
    free(x), free(y), free(blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    if (size > MAX_BYTES) size = MAX_BYTES;
    size_t n_types = 0;
    while (ch_quant_type_at(n_types)) n_types++;
    const ch_type_info *t = ch_quant_type_at(data[0] % n_types);
    if (t->decode) decode_bytes(t, data + 1, size - 1);
    if (t->encode) encode_bytes(t, data + 1, size - 1);
    return 0;
}
