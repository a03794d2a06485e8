// The rows of quant/list.h as a table, and look-ups in it.
#include <strings.h>

#include "quant/codecs.h"

static const ch_type_info types[] = {
#define CH_TYPE_ROW(name, NAME, id, block, bytes, decode, encode) {CH_TYPE_##NAME, name, block, bytes, decode, encode},
#include "quant/list.h"
#undef CH_TYPE_ROW
};
enum { N_TYPES = sizeof types / sizeof types[0] };

const ch_type_info *ch_quant_type(uint32_t id) {
    for (size_t i = 0; i < N_TYPES; i++)
        if ((uint32_t)types[i].id == id) return &types[i];
    return NULL;
}

const ch_type_info *ch_quant_type_by_name(const char *name) {
    for (size_t i = 0; name && i < N_TYPES; i++)
        if (!strcasecmp(types[i].name, name)) return &types[i];
    return NULL;
}

const ch_type_info *ch_quant_type_at(size_t i) {
    return i < N_TYPES ? &types[i] : NULL;
}

bool ch_quant_row_bytes(const ch_type_info *t, uint64_t n, size_t *out) {
    if (n % t->n_block) return false;
    uint64_t n_blocks = n / t->n_block;
    if (n_blocks > SIZE_MAX / t->n_bytes) return false;
    *out = (size_t)n_blocks * t->n_bytes;
    return true;
}
