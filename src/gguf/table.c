// Names to indices; and the small tables of value types and shapes that reading and writing share.
#include <string.h>

#include "gguf/part.h"

int ch_gguf_table_reserve(ch_gguf_table *t, size_t n_names) {
    size_t cap = 16;
    while (cap < n_names * 2) cap *= 2;
    if (t->slot && cap <= t->mask + 1) return 0;
    ch_gguf_table bigger = {.slot = ch_alloc_array(cap, sizeof *bigger.slot), .mask = cap - 1};
    if (!bigger.slot) return CH_ENOMEM;
    for (size_t i = 0; t->slot && i <= t->mask; i++)
        if (t->slot[i].name) ch_gguf_table_add(&bigger, t->slot[i].name, t->slot[i].index);
    ch_free(t->slot);
    *t = bigger;
    return 0;
}

// The slot that holds name, or the free one where it would go. The table is never full.
static ch_gguf_slot *probe(const ch_gguf_table *t, const char *name) {
    size_t i = (size_t)ch_hash64(name, strlen(name), 0) & t->mask;
    while (t->slot[i].name && strcmp(t->slot[i].name, name) != 0) i = (i + 1) & t->mask;
    return &t->slot[i];
}

int ch_gguf_table_add(ch_gguf_table *t, const char *name, size_t index) {
    if ((!t->slot || t->n * 2 > t->mask) && ch_gguf_table_reserve(t, t->n * 2 + 8) != 0) return CH_ENOMEM;
    ch_gguf_slot *s = probe(t, name);
    if (s->name) return 1;
    *s = (ch_gguf_slot){name, index};
    t->n++;
    return 0;
}

bool ch_gguf_table_find(const ch_gguf_table *t, const char *name, size_t *out) {
    if (!t->slot) return false;
    const ch_gguf_slot *s = probe(t, name);
    if (!s->name) return false;
    *out = s->index;
    return true;
}

void ch_gguf_table_free(ch_gguf_table *t) {
    ch_free(t->slot);
    *t = (ch_gguf_table){0};
}

static const struct {
    const char *name;
    size_t size;
} vtypes[] = {
    [CH_GGUF_U8] = {"u8", 1},      [CH_GGUF_I8] = {"i8", 1},     [CH_GGUF_U16] = {"u16", 2},  [CH_GGUF_I16] = {"i16", 2},
    [CH_GGUF_U32] = {"u32", 4},    [CH_GGUF_I32] = {"i32", 4},   [CH_GGUF_F32] = {"f32", 4},  [CH_GGUF_BOOL] = {"bool", 1},
    [CH_GGUF_STR] = {"string", 0}, [CH_GGUF_ARR] = {"array", 0}, [CH_GGUF_U64] = {"u64", 8},  [CH_GGUF_I64] = {"i64", 8},
    [CH_GGUF_F64] = {"f64", 8},
};

size_t ch_gguf_vtype_size(ch_gguf_vtype t) { return (unsigned)t <= CH_GGUF_F64 ? vtypes[t].size : 0; }
const char *ch_gguf_vtype_name(ch_gguf_vtype t) { return (unsigned)t <= CH_GGUF_F64 ? vtypes[t].name : "unknown"; }

// Names end up in messages, JSON and terminals, so what could forge those is refused here, once.
bool ch_gguf_name_ok(const char *s, size_t n) {
    if (n == 0 || !ch_utf8_valid(s, n)) return false;
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)s[i] < 0x20 || s[i] == 0x7f) return false;
    return true;
}

size_t ch_gguf_tensor_bytes(const ch_type_info *t, uint32_t n_dims, const uint64_t *ne, const char **why) {
    size_t bytes;
    for (uint32_t i = 0; i < n_dims; i++) {
        if (ne[i] == 0) {
            *why = "a dimension is 0";
            return 0;
        }
    }
    if (ne[0] % t->n_block != 0) {
        *why = "the first dimension is no multiple of the type's block";
        return 0;
    }
    bool ok = ch_quant_row_bytes(t, ne[0], &bytes);
    // The number of values must fit too: row bytes can be fewer than values.
    size_t n = ok && ne[0] <= SIZE_MAX / 8 ? (size_t)ne[0] : 0;
    ok = ok && n > 0;
    for (uint32_t i = 1; ok && i < n_dims; i++)
        ok = ch_mul_size(bytes, ne[i], &bytes) && ch_mul_size(n, ne[i], &n) && n <= SIZE_MAX / 8;
    if (!ok || bytes == 0 || bytes > SIZE_MAX / 4) {
        *why = "the size overflows";
        return 0;
    }
    return bytes;
}
