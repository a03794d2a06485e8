// gguf: the container, versions 2 and 3, little-endian: reading (mapped) and writing (atomic). No semantics: what a key or
// tensor means is known elsewhere. Every count, offset, length, type and string is checked against the file's size before
// anything is allocated, so memory is bounded by a small multiple of the metadata present in the file.
//
// Threading: a ch_gguf is read-only once open and may be shared. Strings and tensor data point into the map and live until
// close; strings are not NUL-terminated (ch_gguf_str), names of keys and tensors are (copied).
#ifndef CH_GGUF_H
#define CH_GGUF_H

#include "base/base.h"
#include "quant/quant.h"

typedef enum ch_gguf_vtype {
    CH_GGUF_U8, CH_GGUF_I8, CH_GGUF_U16, CH_GGUF_I16, CH_GGUF_U32, CH_GGUF_I32, CH_GGUF_F32, CH_GGUF_BOOL,
    CH_GGUF_STR, CH_GGUF_ARR, CH_GGUF_U64, CH_GGUF_I64, CH_GGUF_F64
} ch_gguf_vtype;

typedef struct ch_gguf_str {
    const char *p; // UTF-8 by convention, not checked, not NUL-terminated
    size_t n;      // bytes
} ch_gguf_str;

typedef struct ch_gguf_kv {
    const char *key;
    ch_gguf_vtype type; // CH_GGUF_ARR for arrays
    ch_gguf_vtype elem; // element type; = type for scalars
    uint64_t n;         // elements; 1 for scalars
    const uint8_t *raw; // first element in the map, unaligned
} ch_gguf_kv;

typedef struct ch_gguf_tensor {
    const char *name;
    const ch_type_info *type;
    uint32_t n_dims; // 1..4
    uint64_t ne[4];  // ne[0] contiguous; missing dimensions are 1
    const void *data; // in the map, aligned by general.alignment
    size_t size;      // bytes
    int shard;        // file it lies in, 0-based
} ch_gguf_tensor;

typedef struct ch_gguf ch_gguf;

// Opens path; when the file says split.count > 1 (whichever part is given) all parts are opened and their tensors merged.
int ch_gguf_open(ch_gguf **g, const char *path, ch_error *e);
// Same from memory that outlives g (tests, fuzzing); no splits.
int ch_gguf_open_memory(ch_gguf **g, const void *data, size_t size, const char *name, ch_error *e);
void ch_gguf_close(ch_gguf **g);
const char *ch_gguf_path(const ch_gguf *g);
uint32_t ch_gguf_version(const ch_gguf *g);
int ch_gguf_n_shards(const ch_gguf *g);
const char *ch_gguf_shard_path(const ch_gguf *g, int shard); // NULL: no such shard
uint64_t ch_gguf_file_bytes(const ch_gguf *g); // all shards
uint64_t ch_gguf_fingerprint(const ch_gguf *g); // hash of metadata, tensor table and sizes; ties snapshots to a model

size_t ch_gguf_n_kv(const ch_gguf *g);
const ch_gguf_kv *ch_gguf_kv_at(const ch_gguf *g, size_t i);
const ch_gguf_kv *ch_gguf_find(const ch_gguf *g, const char *key); // NULL: absent

// Typed reads. Return 1: found, *out set; 0: absent, *out untouched (so it may hold the default); negative: the key has
// another type or a value that does not fit, e names the key, expected and found. Integers of any width and sign convert
// when the value fits; a bool is accepted for integers; floats accept f32 and f64.
int ch_gguf_get_u32(const ch_gguf *g, const char *key, uint32_t *out, ch_error *e);
int ch_gguf_get_u64(const ch_gguf *g, const char *key, uint64_t *out, ch_error *e);
int ch_gguf_get_f32(const ch_gguf *g, const char *key, float *out, ch_error *e);
int ch_gguf_get_bool(const ch_gguf *g, const char *key, bool *out, ch_error *e);
int ch_gguf_get_str(const ch_gguf *g, const char *key, ch_gguf_str *out, ch_error *e);
// Per-layer values: a scalar fills all n, an array must have at least n elements (extra ones are ignored).
int ch_gguf_get_u32_n(const ch_gguf *g, const char *key, uint32_t *out, size_t n, ch_error *e); // out: [n]
// Element i of an array, converted as above. The caller has checked kv->elem and i < kv->n.
int64_t ch_gguf_arr_int(const ch_gguf_kv *kv, uint64_t i);
double ch_gguf_arr_num(const ch_gguf_kv *kv, uint64_t i); // ints, floats, bools
ch_gguf_str ch_gguf_arr_str(const ch_gguf *g, const ch_gguf_kv *kv, uint64_t i); // constant time

size_t ch_gguf_n_tensors(const ch_gguf *g);
const ch_gguf_tensor *ch_gguf_tensor_at(const ch_gguf *g, size_t i);
const ch_gguf_tensor *ch_gguf_find_tensor(const ch_gguf *g, const char *name); // NULL: absent; hashed

// ---- writing ------------------------------------------------------------------------------------------------------------
// First all keys and tensor infos, then the data in the order of the infos, then commit. Nothing appears at path before
// commit (temporary file, fsync, rename).
typedef struct ch_gguf_writer ch_gguf_writer;
int ch_gguf_writer_open(ch_gguf_writer **w, const char *path, ch_error *e);
void ch_gguf_writer_abort(ch_gguf_writer **w);
int ch_gguf_put_u32(ch_gguf_writer *w, const char *key, uint32_t v);
int ch_gguf_put_u64(ch_gguf_writer *w, const char *key, uint64_t v);
int ch_gguf_put_f32(ch_gguf_writer *w, const char *key, float v);
int ch_gguf_put_bool(ch_gguf_writer *w, const char *key, bool v);
int ch_gguf_put_str(ch_gguf_writer *w, const char *key, const char *s, size_t n);
int ch_gguf_put_arr(ch_gguf_writer *w, const char *key, ch_gguf_vtype elem, const void *data, uint64_t n); // fixed-size elem
int ch_gguf_put_arr_str(ch_gguf_writer *w, const char *key, const ch_gguf_str *s, uint64_t n);
int ch_gguf_put_kv(ch_gguf_writer *w, const ch_gguf *from, const ch_gguf_kv *kv); // verbatim copy of a read key
int ch_gguf_put_tensor(ch_gguf_writer *w, const char *name, ch_type type, uint32_t n_dims, const uint64_t *ne);
// Data of the next tensors; may come in pieces of any size; padding is added at tensor ends.
int ch_gguf_write_data(ch_gguf_writer *w, const void *data, size_t n, ch_error *e);
int ch_gguf_writer_commit(ch_gguf_writer **w, ch_error *e); // fails when data is missing or too much

#endif
