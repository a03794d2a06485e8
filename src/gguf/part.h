// Private to gguf: one parsed file of a (possibly split) model, and the name table reader and writer share.
#ifndef CH_GGUF_PART_H
#define CH_GGUF_PART_H

#include "gguf/gguf.h"

#define CH_GGUF_MAX_KEYS ((size_t)1 << 16)
#define CH_GGUF_MAX_TENSORS ((size_t)1 << 18)
#define CH_GGUF_MAX_NAME 63   // bytes of a tensor name
#define CH_GGUF_MAX_KEY 65535 // bytes of a key
#define CH_GGUF_MIN_ALIGN ((size_t)8)
#define CH_GGUF_MAX_ALIGN ((size_t)1 << 20)
#define CH_GGUF_DEFAULT_ALIGN ((size_t)32)
#define CH_GGUF_MAX_SHARDS 4096

// Names to indices, open addressing; names are borrowed.
typedef struct ch_gguf_slot {
    const char *name; // NULL: free
    size_t index;
} ch_gguf_slot;
typedef struct ch_gguf_table {
    ch_gguf_slot *slot; // [mask + 1]
    size_t mask, n;
} ch_gguf_table;
int ch_gguf_table_reserve(ch_gguf_table *t, size_t n_names);                   // 0 or CH_ENOMEM
int ch_gguf_table_add(ch_gguf_table *t, const char *name, size_t index);       // 0; 1: already there; CH_ENOMEM
bool ch_gguf_table_find(const ch_gguf_table *t, const char *name, size_t *out); // false: absent
void ch_gguf_table_free(ch_gguf_table *t);

typedef struct ch_gguf_part {
    const char *path;  // whole, NUL-terminated
    const char *label; // for messages: the path, its head cut off when long
    ch_map map;        // empty when opened from memory
    const uint8_t *data;
    size_t size;
    uint32_t version;
    ch_gguf_kv *kv; // [n_kv]
    size_t n_kv;
    uint32_t **str_at; // [n_kv]: for string arrays [n] offset of each element from raw; else NULL
    ch_gguf_table keys;
    ch_gguf_tensor *tensor; // [n_tensors]
    size_t n_tensors;
    size_t alignment;
    size_t header_end; // past the last tensor info
    size_t data_end;   // past the last byte of the last tensor; header_end when there are none
} ch_gguf_part;

// Reads header, keys and tensor infos of p->data; everything that lives on is taken from a.
int ch_gguf_parse_part(ch_gguf_part *p, ch_arena *a, ch_error *e);
// Typed reads on one part; as the public ones.
const ch_gguf_kv *ch_gguf_part_find(const ch_gguf_part *p, const char *key);
int ch_gguf_part_u64(const ch_gguf_part *p, const char *key, uint64_t max, uint64_t *out, ch_error *e);

size_t ch_gguf_vtype_size(ch_gguf_vtype t);        // bytes; 0 for strings and arrays
const char *ch_gguf_vtype_name(ch_gguf_vtype t);   // "u32"
bool ch_gguf_name_ok(const char *s, size_t n);     // valid UTF-8 without control characters, not empty
// Bytes of a tensor; 0 with *why filled (static text) when the shape does not fit the type or overflows.
size_t ch_gguf_tensor_bytes(const ch_type_info *t, uint32_t n_dims, const uint64_t *ne, const char **why);

struct ch_gguf {
    ch_arena *arena;
    ch_gguf_part *part; // [n_parts]
    int n_parts;
    ch_gguf_tensor *tensor; // [n_tensors], all parts merged
    size_t n_tensors;
    ch_gguf_table names;
};

#endif
