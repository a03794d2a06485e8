// One GGUF file: header, keys, tensor infos. Nothing is trusted: counts are held against the bytes that are left before
// anything is allocated for them, and every read goes through take().
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "gguf/part.h"

#define MIN_KV_BYTES 14     // length, one byte of key, type, one byte of value
#define MIN_TENSOR_BYTES 33 // length, one byte of name, n_dims, one dimension, type, offset

typedef struct cursor {
    const ch_gguf_part *part;
    size_t at;
    ch_error *e;
} cursor;

static size_t left(const cursor *c) { return c->part->size - c->at; }

// The next n bytes, or NULL.
static const uint8_t *take(cursor *c, size_t n) {
    if (n > left(c)) return NULL;
    const uint8_t *p = c->part->data + c->at;
    c->at += n;
    return p;
}

static bool take_u32(cursor *c, uint32_t *out) {
    const uint8_t *p = take(c, 4);
    if (p) memcpy(out, p, 4);
    return p != NULL;
}

static bool take_u64(cursor *c, uint64_t *out) {
    const uint8_t *p = take(c, 8);
    if (p) memcpy(out, p, 8);
    return p != NULL;
}

static bool take_string(cursor *c, ch_gguf_str *out) {
    uint64_t n;
    if (!take_u64(c, &n) || n > left(c)) return false;
    out->n = (size_t)n;
    out->p = (const char *)take(c, out->n);
    return true;
}

static int cut_off(cursor *c, const char *where, size_t index) {
    return ch_error_set(c->e, CH_EFORMAT, "%s: file of %zu bytes ends inside %s %zu, or a length there is wrong (read up to byte %zu)",
                        c->part->label, c->part->size, where, index, c->at);
}

static int no_memory(cursor *c) { return ch_error_set(c->e, CH_ENOMEM, "%s: no memory for its tables", c->part->label); }

// ---- header -----------------------------------------------------------------------------------------------------------
static int parse_header(cursor *c, uint64_t *n_tensors, uint64_t *n_kv) {
    ch_gguf_part *p = (ch_gguf_part *)(uintptr_t)c->part;
    const uint8_t *m = take(c, 4);
    if (!m)
        return ch_error_set(c->e, CH_EFORMAT, "%s: not a GGUF file: only %zu bytes", p->label, p->size);
    if (memcmp(m, "GGUF", 4) != 0)
        return ch_error_set(c->e, CH_EFORMAT, "%s: not a GGUF file: expected it to begin with 47 47 55 46 (\"GGUF\"), found %02x %02x %02x %02x",
                            p->label, m[0], m[1], m[2], m[3]);
    if (!take_u32(c, &p->version)) return cut_off(c, "header field", 1);
    if ((p->version & 0xffff) == 0 && p->version != 0)
        return ch_error_set(c->e, CH_EUNSUPPORTED, "%s: big-endian GGUF file; expected little-endian", p->label);
    if (p->version == 1)
        return ch_error_set(c->e, CH_EUNSUPPORTED, "%s: GGUF version 1 is not supported (expected 2 or 3); convert the model again", p->label);
    if (p->version != 2 && p->version != 3)
        return ch_error_set(c->e, CH_EUNSUPPORTED, "%s: GGUF version %" PRIu32 " is not supported, expected 2 or 3", p->label, p->version);
    if (!take_u64(c, n_tensors) || !take_u64(c, n_kv)) return cut_off(c, "header field", 2);
    if (*n_kv > CH_GGUF_MAX_KEYS || *n_kv > left(c) / MIN_KV_BYTES)
        return ch_error_set(c->e, CH_EFORMAT, "%s: header says %" PRIu64 " keys; at most %zu fit in its %zu bytes (limit %zu)", p->label,
                            *n_kv, left(c) / MIN_KV_BYTES, p->size, CH_GGUF_MAX_KEYS);
    if (*n_tensors > CH_GGUF_MAX_TENSORS || *n_tensors > left(c) / MIN_TENSOR_BYTES)
        return ch_error_set(c->e, CH_EFORMAT, "%s: header says %" PRIu64 " tensors; at most %zu fit in its %zu bytes (limit %zu)", p->label,
                            *n_tensors, left(c) / MIN_TENSOR_BYTES, p->size, CH_GGUF_MAX_TENSORS);
    return 0;
}

// ---- keys -------------------------------------------------------------------------------------------------------------
// Walks a string array and records where each element starts.
static int parse_string_array(cursor *c, ch_arena *a, ch_gguf_kv *kv, uint32_t **str_at) {
    if (kv->n > left(c) / 8) // each element has a length of 8 bytes
        return ch_error_set(c->e, CH_EFORMAT, "%s: key %.80s: array of %" PRIu64 " strings does not fit in the %zu bytes left",
                            c->part->label, kv->key, kv->n, left(c));
    size_t n = (size_t)kv->n, start = c->at;
    uint32_t *at = ch_arena_alloc(a, n * sizeof *at);
    if (!at) return no_memory(c);
    for (size_t i = 0; i < n; i++) {
        ch_gguf_str s;
        if (c->at - start > UINT32_MAX)
            return ch_error_set(c->e, CH_ELIMIT, "%s: key %.80s: string array of more than 4 GiB", c->part->label, kv->key);
        at[i] = (uint32_t)(c->at - start);
        if (!take_string(c, &s))
            return ch_error_set(c->e, CH_EFORMAT, "%s: key %.80s: string %zu of %zu runs past the end of the file (%zu bytes)",
                                c->part->label, kv->key, i, n, c->part->size);
    }
    *str_at = at;
    return 0;
}

static int parse_value(cursor *c, ch_arena *a, ch_gguf_kv *kv, uint32_t **str_at, size_t index) {
    uint32_t type;
    if (!take_u32(c, &type)) return cut_off(c, "key", index);
    if (type > CH_GGUF_F64)
        return ch_error_set(c->e, CH_EFORMAT, "%s: key %.80s: unknown value type %" PRIu32 ", expected 0 to 12", c->part->label, kv->key, type);
    kv->type = kv->elem = (ch_gguf_vtype)type;
    kv->n = 1;
    if (kv->type == CH_GGUF_ARR) {
        if (!take_u32(c, &type) || !take_u64(c, &kv->n)) return cut_off(c, "key", index);
        if (type > CH_GGUF_F64 || type == CH_GGUF_ARR)
            return ch_error_set(c->e, CH_EFORMAT, "%s: key %.80s: array of element type %" PRIu32 " (%s), expected a scalar or string type",
                                c->part->label, kv->key, type, type == CH_GGUF_ARR ? "array" : "unknown");
        kv->elem = (ch_gguf_vtype)type;
    }
    kv->raw = c->part->data + c->at;
    if (kv->elem == CH_GGUF_STR && kv->type == CH_GGUF_ARR) return parse_string_array(c, a, kv, str_at);
    if (kv->elem == CH_GGUF_STR) {
        ch_gguf_str s;
        if (take_string(c, &s)) return 0;
        return ch_error_set(c->e, CH_EFORMAT, "%s: key %.80s: string runs past the end of the file (%zu bytes)", c->part->label, kv->key,
                            c->part->size);
    }
    size_t size = ch_gguf_vtype_size(kv->elem);
    if (kv->n > left(c) / size)
        return ch_error_set(c->e, CH_EFORMAT, "%s: key %.80s: %" PRIu64 " values of %s do not fit in the %zu bytes left", c->part->label,
                            kv->key, kv->n, ch_gguf_vtype_name(kv->elem), left(c));
    take(c, (size_t)kv->n * size);
    return 0;
}

static int parse_keys(cursor *c, ch_gguf_part *p, ch_arena *a, size_t n_kv) {
    p->kv = ch_arena_alloc(a, n_kv * sizeof *p->kv);
    p->str_at = ch_arena_alloc(a, n_kv * sizeof *p->str_at);
    if (!p->kv || !p->str_at || ch_gguf_table_reserve(&p->keys, n_kv) != 0) return no_memory(c);
    for (size_t i = 0; i < n_kv; i++) {
        ch_gguf_str key;
        if (!take_string(c, &key)) return cut_off(c, "key", i);
        if (key.n > CH_GGUF_MAX_KEY || !ch_gguf_name_ok(key.p, key.n))
            return ch_error_set(c->e, CH_EFORMAT, "%s: name of key %zu (%zu bytes): expected 1 to %d bytes of UTF-8 without control characters",
                                p->label, i, key.n, CH_GGUF_MAX_KEY);
        ch_gguf_kv *kv = &p->kv[i];
        kv->key = ch_arena_strndup(a, key.p, key.n);
        if (!kv->key) return no_memory(c);
        int rc = parse_value(c, a, kv, &p->str_at[i], i);
        if (rc != 0) return rc;
        rc = ch_gguf_table_add(&p->keys, kv->key, i);
        if (rc > 0) return ch_error_set(c->e, CH_EFORMAT, "%s: key %.80s occurs twice", p->label, kv->key);
        if (rc < 0) return no_memory(c);
        p->n_kv = i + 1;
    }
    return 0;
}

// ---- tensors ----------------------------------------------------------------------------------------------------------
static void print_shape(char *text, size_t cap, const ch_gguf_tensor *t) {
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < t->n_dims && at + 24 < cap; i++)
        at += (size_t)snprintf(text + at, cap - at, "%s%" PRIu64, i ? ", " : "", t->ne[i]);
}

// Reads one tensor info; *offset is relative to the data section, whose start is not known yet.
static int parse_tensor(cursor *c, ch_arena *a, ch_gguf_tensor *t, uint64_t *offset, size_t index) {
    const char *label = c->part->label;
    ch_gguf_str name;
    uint32_t type;
    if (!take_string(c, &name) || !take_u32(c, &t->n_dims)) return cut_off(c, "the info of tensor", index);
    if (name.n > CH_GGUF_MAX_NAME || !ch_gguf_name_ok(name.p, name.n))
        return ch_error_set(c->e, CH_EFORMAT, "%s: name of tensor %zu (%zu bytes): expected 1 to %d bytes of UTF-8 without control characters",
                            label, index, name.n, CH_GGUF_MAX_NAME);
    t->name = ch_arena_strndup(a, name.p, name.n);
    if (!t->name) return no_memory(c);
    if (t->n_dims < 1 || t->n_dims > 4)
        return ch_error_set(c->e, CH_EFORMAT, "%s: tensor %s: expected 1 to 4 dimensions, found %" PRIu32, label, t->name, t->n_dims);
    for (uint32_t i = 0; i < 4; i++) {
        t->ne[i] = 1;
        if (i < t->n_dims && !take_u64(c, &t->ne[i])) return cut_off(c, "the info of tensor", index);
    }
    if (!take_u32(c, &type) || !take_u64(c, offset)) return cut_off(c, "the info of tensor", index);
    t->type = ch_quant_type(type);
    if (!t->type) return ch_error_set(c->e, CH_EUNSUPPORTED, "%s: unsupported tensor type %" PRIu32 " of tensor %s", label, type, t->name);
    const char *why = "";
    t->size = ch_gguf_tensor_bytes(t->type, t->n_dims, t->ne, &why);
    if (t->size == 0) {
        char shape[100];
        print_shape(shape, sizeof shape, t);
        return ch_error_set(c->e, CH_EFORMAT, "%s: tensor %s [%s] %s: %s", label, t->name, shape, t->type->name, why);
    }
    return 0;
}

// Turns offsets into pointers, once the start of the data section is known.
static int place_tensors(cursor *c, ch_gguf_part *p, const uint64_t *offset) {
    size_t start;
    p->header_end = p->data_end = c->at;
    if (!ch_round_up_size(c->at, p->alignment, &start)) return cut_off(c, "padding", 0);
    const ch_gguf_tensor *last = NULL;
    for (size_t i = 0; i < p->n_tensors; i++) {
        ch_gguf_tensor *t = &p->tensor[i];
        size_t begin, end;
        if (offset[i] % p->alignment != 0)
            return ch_error_set(c->e, CH_EFORMAT, "%s: tensor %s: offset %" PRIu64 " is no multiple of the alignment %zu", p->label, t->name,
                                offset[i], p->alignment);
        if (!ch_add_size(start, offset[i], &begin) || !ch_add_size(begin, t->size, &end))
            return ch_error_set(c->e, CH_EFORMAT, "%s: tensor %s: offset %" PRIu64 " overflows", p->label, t->name, offset[i]);
        if (end > p->data_end) {
            p->data_end = end;
            last = t;
        }
        if (end <= p->size) t->data = p->data + begin;
    }
    if (p->data_end > p->size)
        return ch_error_set(c->e, CH_EFORMAT, "%s: expected at least %zu bytes (end of tensor %s), found %zu: the file is cut off", p->label,
                            p->data_end, last ? last->name : "?", p->size);
    return 0;
}

static int parse_tensors(cursor *c, ch_gguf_part *p, ch_arena *a, size_t n) {
    p->tensor = ch_arena_alloc(a, n * sizeof *p->tensor);
    uint64_t *offset = ch_alloc_array(n, sizeof *offset);
    int rc = p->tensor && offset ? 0 : no_memory(c);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = parse_tensor(c, a, &p->tensor[i], &offset[i], i);
        if (rc == 0) p->n_tensors = i + 1;
    }
    if (rc == 0) rc = place_tensors(c, p, offset);
    ch_free(offset);
    return rc;
}

int ch_gguf_parse_part(ch_gguf_part *p, ch_arena *a, ch_error *e) {
    cursor c = {.part = p, .e = e};
    uint64_t n_tensors = 0, n_kv = 0, alignment = CH_GGUF_DEFAULT_ALIGN;
    int rc = parse_header(&c, &n_tensors, &n_kv);
    if (rc == 0) rc = parse_keys(&c, p, a, (size_t)n_kv);
    if (rc == 0) rc = ch_gguf_part_u64(p, "general.alignment", UINT32_MAX, &alignment, e);
    if (rc < 0) return rc;
    if (alignment < CH_GGUF_MIN_ALIGN || alignment > CH_GGUF_MAX_ALIGN || (alignment & (alignment - 1)))
        return ch_error_set(e, CH_EFORMAT, "%s: general.alignment: expected a power of two from %zu to %zu, found %" PRIu64, p->label,
                            CH_GGUF_MIN_ALIGN, CH_GGUF_MAX_ALIGN, alignment);
    p->alignment = (size_t)alignment;
    return parse_tensors(&c, p, a, (size_t)n_tensors);
}
