// Typed reads of metadata.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "gguf/part.h"

// A scalar or array element, widened. Integers and bools: negative ones in i, others in u.
typedef struct number {
    enum { NUM_NONE, NUM_UINT, NUM_NEG, NUM_FLOAT } kind;
    uint64_t u;
    int64_t i;
    double f;
} number;

static number from_signed(int64_t v) {
    return v < 0 ? (number){.kind = NUM_NEG, .i = v} : (number){.kind = NUM_UINT, .u = (uint64_t)v};
}

static number read_number(const ch_gguf_kv *kv, uint64_t index) {
    const uint8_t *p = kv->raw + (size_t)index * ch_gguf_vtype_size(kv->elem);
    switch (kv->elem) {
    case CH_GGUF_U8: return (number){.kind = NUM_UINT, .u = *p};
    case CH_GGUF_BOOL: return (number){.kind = NUM_UINT, .u = *p != 0};
    case CH_GGUF_I8: return from_signed((int8_t)*p);
    case CH_GGUF_U16: {
        uint16_t v;
        memcpy(&v, p, sizeof v);
        return (number){.kind = NUM_UINT, .u = v};
    }
    case CH_GGUF_I16: {
        int16_t v;
        memcpy(&v, p, sizeof v);
        return from_signed(v);
    }
    case CH_GGUF_U32: {
        uint32_t v;
        memcpy(&v, p, sizeof v);
        return (number){.kind = NUM_UINT, .u = v};
    }
    case CH_GGUF_I32: {
        int32_t v;
        memcpy(&v, p, sizeof v);
        return from_signed(v);
    }
    case CH_GGUF_U64: {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        return (number){.kind = NUM_UINT, .u = v};
    }
    case CH_GGUF_I64: {
        int64_t v;
        memcpy(&v, p, sizeof v);
        return from_signed(v);
    }
    case CH_GGUF_F32: {
        float v;
        memcpy(&v, p, sizeof v);
        return (number){.kind = NUM_FLOAT, .f = (double)v};
    }
    case CH_GGUF_F64: {
        double v;
        memcpy(&v, p, sizeof v);
        return (number){.kind = NUM_FLOAT, .f = v};
    }
    default: return (number){.kind = NUM_NONE};
    }
}

static int wrong_type(const ch_gguf_part *p, const ch_gguf_kv *kv, const char *expected, ch_error *e) {
    if (kv->type == CH_GGUF_ARR)
        return ch_error_set(e, CH_EFORMAT, "%s: key %.80s has the wrong type: expected %s, found an array of %" PRIu64 " x %s", p->label,
                            kv->key, expected, kv->n, ch_gguf_vtype_name(kv->elem));
    return ch_error_set(e, CH_EFORMAT, "%s: key %.80s has the wrong type: expected %s, found %s", p->label, kv->key, expected,
                        ch_gguf_vtype_name(kv->type));
}

// The i-th value as an integer in [0, max].
static int read_uint(const ch_gguf_part *p, const ch_gguf_kv *kv, uint64_t i, uint64_t max, uint64_t *out, ch_error *e) {
    number v = read_number(kv, i);
    if (v.kind == NUM_NONE || v.kind == NUM_FLOAT) return wrong_type(p, kv, "an integer", e);
    if (v.kind == NUM_NEG)
        return ch_error_set(e, CH_ERANGE, "%s: key %.80s: expected 0 to %" PRIu64 ", found %" PRId64, p->label, kv->key, max, v.i);
    if (v.u > max)
        return ch_error_set(e, CH_ERANGE, "%s: key %.80s: expected 0 to %" PRIu64 ", found %" PRIu64, p->label, kv->key, max, v.u);
    *out = v.u;
    return 1;
}

const ch_gguf_kv *ch_gguf_part_find(const ch_gguf_part *p, const char *key) {
    size_t i;
    return ch_gguf_table_find(&p->keys, key, &i) ? &p->kv[i] : NULL;
}

int ch_gguf_part_u64(const ch_gguf_part *p, const char *key, uint64_t max, uint64_t *out, ch_error *e) {
    const ch_gguf_kv *kv = ch_gguf_part_find(p, key);
    if (!kv) return 0;
    if (kv->type == CH_GGUF_ARR) return wrong_type(p, kv, "an integer", e);
    return read_uint(p, kv, 0, max, out, e);
}

const ch_gguf_kv *ch_gguf_find(const ch_gguf *g, const char *key) { return ch_gguf_part_find(&g->part[0], key); }

int ch_gguf_get_u32(const ch_gguf *g, const char *key, uint32_t *out, ch_error *e) {
    uint64_t v;
    int rc = ch_gguf_part_u64(&g->part[0], key, UINT32_MAX, &v, e);
    if (rc > 0) *out = (uint32_t)v;
    return rc;
}

int ch_gguf_get_u64(const ch_gguf *g, const char *key, uint64_t *out, ch_error *e) {
    return ch_gguf_part_u64(&g->part[0], key, UINT64_MAX, out, e);
}

int ch_gguf_get_f32(const ch_gguf *g, const char *key, float *out, ch_error *e) {
    const ch_gguf_part *p = &g->part[0];
    const ch_gguf_kv *kv = ch_gguf_part_find(p, key);
    if (!kv) return 0;
    number v = kv->type == CH_GGUF_ARR ? (number){.kind = NUM_NONE} : read_number(kv, 0);
    if (v.kind != NUM_FLOAT) return wrong_type(p, kv, "a float", e);
    if (!(fabs(v.f) <= 3.4028234663852886e38))
        return ch_error_set(e, CH_ERANGE, "%s: key %.80s: expected a finite 32-bit float, found %g", p->label, kv->key, v.f);
    *out = (float)v.f;
    return 1;
}

int ch_gguf_get_bool(const ch_gguf *g, const char *key, bool *out, ch_error *e) {
    const ch_gguf_part *p = &g->part[0];
    const ch_gguf_kv *kv = ch_gguf_part_find(p, key);
    if (!kv) return 0;
    if (kv->type == CH_GGUF_ARR) return wrong_type(p, kv, "a bool", e);
    if (kv->type == CH_GGUF_STR || kv->type == CH_GGUF_F32 || kv->type == CH_GGUF_F64) return wrong_type(p, kv, "a bool", e);
    uint64_t v;
    int rc = read_uint(p, kv, 0, 1, &v, e);
    if (rc > 0) *out = v != 0;
    return rc;
}

// The string whose length field is at p; bounds were checked when the file was parsed.
static ch_gguf_str string_at(const uint8_t *p) {
    uint64_t n;
    memcpy(&n, p, sizeof n);
    return (ch_gguf_str){(const char *)p + sizeof n, (size_t)n};
}

int ch_gguf_get_str(const ch_gguf *g, const char *key, ch_gguf_str *out, ch_error *e) {
    const ch_gguf_kv *kv = ch_gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != CH_GGUF_STR) return wrong_type(&g->part[0], kv, "a string", e);
    *out = string_at(kv->raw);
    return 1;
}

int ch_gguf_get_u32_n(const ch_gguf *g, const char *key, uint32_t *out, size_t n, ch_error *e) {
    const ch_gguf_part *p = &g->part[0];
    const ch_gguf_kv *kv = ch_gguf_part_find(p, key);
    if (!kv) return 0;
    bool is_array = kv->type == CH_GGUF_ARR;
    if (is_array && kv->n < n)
        return ch_error_set(e, CH_EFORMAT, "%s: key %.80s: expected %zu values, found %" PRIu64, p->label, kv->key, n, kv->n);
    // Two passes, so that out stays untouched when any value is wrong.
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            uint64_t v;
            int rc = read_uint(p, kv, is_array ? i : 0, UINT32_MAX, &v, e);
            if (rc < 0) return rc;
            if (pass == 1) out[i] = (uint32_t)v;
        }
    }
    if (n == 0 && ch_gguf_vtype_size(kv->elem) == 0) return wrong_type(p, kv, "integers", e);
    return 1;
}

int64_t ch_gguf_arr_int(const ch_gguf_kv *kv, uint64_t i) {
    number v = read_number(kv, i);
    switch (v.kind) {
    case NUM_UINT: return v.u > INT64_MAX ? INT64_MAX : (int64_t)v.u;
    case NUM_NEG: return v.i;
    case NUM_FLOAT: return fabs(v.f) < 9.2e18 ? (int64_t)v.f : 0;
    default: return 0;
    }
}

double ch_gguf_arr_num(const ch_gguf_kv *kv, uint64_t i) {
    number v = read_number(kv, i);
    switch (v.kind) {
    case NUM_UINT: return (double)v.u;
    case NUM_NEG: return (double)v.i;
    case NUM_FLOAT: return v.f;
    default: return 0;
    }
}

ch_gguf_str ch_gguf_arr_str(const ch_gguf *g, const ch_gguf_kv *kv, uint64_t i) {
    const ch_gguf_part *p = &g->part[0];
    if (kv->elem != CH_GGUF_STR) return (ch_gguf_str){"", 0};
    const uint32_t *at = p->str_at[kv - p->kv];
    return string_at(at ? kv->raw + at[i] : kv->raw);
}
