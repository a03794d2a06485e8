// Writing a GGUF file, version 3: keys and tensor infos are collected, the data streams through.
#include <inttypes.h>
#include <string.h>

#include "gguf/part.h"

typedef struct planned {
    char name[CH_GGUF_MAX_NAME + 1];
    ch_type type;
    uint32_t n_dims;
    uint64_t ne[4];
    size_t size;
} planned;

struct ch_gguf_writer {
    ch_outfile *out;
    ch_arena *arena;  // names
    ch_buf kv;        // encoded keys
    uint64_t n_kv;
    ch_gguf_table keys, names;
    planned **tensor; // [n_tensors]
    size_t n_tensors, cap_tensors;
    size_t alignment;
    bool header_done;
    size_t current, written; // tensor being written, its bytes so far
};

int ch_gguf_writer_open(ch_gguf_writer **out, const char *path, ch_error *e) {
    *out = NULL;
    ch_gguf_writer *w = ch_alloc(sizeof *w);
    if (w) w->arena = ch_arena_create(0);
    if (!w || !w->arena) {
        ch_free(w);
        return ch_error_set(e, CH_ENOMEM, "%s: no memory", path);
    }
    w->alignment = CH_GGUF_DEFAULT_ALIGN;
    int rc = ch_outfile_open(&w->out, path, e);
    if (rc != 0) {
        ch_gguf_writer_abort(&w);
        return rc;
    }
    *out = w;
    return 0;
}

void ch_gguf_writer_abort(ch_gguf_writer **out) {
    ch_gguf_writer *w = *out;
    if (!w) return;
    ch_outfile_abort(&w->out);
    ch_gguf_table_free(&w->keys);
    ch_gguf_table_free(&w->names);
    ch_buf_free(&w->kv);
    ch_free(w->tensor);
    ch_arena_free(&w->arena);
    ch_free(w);
    *out = NULL;
}

// ---- keys -------------------------------------------------------------------------------------------------------------
static bool put_len_bytes(ch_buf *b, const char *s, size_t n) {
    uint64_t len = n;
    return ch_buf_append(b, &len, sizeof len) && ch_buf_append(b, s, n);
}

// Checks the key and writes it with its type; what follows is the value.
static int begin_kv(ch_gguf_writer *w, const char *key, ch_gguf_vtype type) {
    size_t n = strlen(key);
    if (w->header_done) return CH_ESTATE;
    if (n > CH_GGUF_MAX_KEY || !ch_gguf_name_ok(key, n)) return CH_EFORMAT;
    if (w->n_kv >= CH_GGUF_MAX_KEYS) return CH_ELIMIT;
    char *copy = ch_arena_strndup(w->arena, key, n);
    if (!copy) return CH_ENOMEM;
    int rc = ch_gguf_table_add(&w->keys, copy, (size_t)w->n_kv);
    if (rc != 0) return rc > 0 ? CH_ESTATE : rc;
    uint32_t t = type;
    put_len_bytes(&w->kv, key, n);
    ch_buf_append(&w->kv, &t, sizeof t);
    w->n_kv++;
    return 0;
}

static int put_scalar(ch_gguf_writer *w, const char *key, ch_gguf_vtype type, const void *v) {
    // The writer's own layout hangs on this one key.
    if (strcmp(key, "general.alignment") == 0) {
        uint32_t a;
        if (type != CH_GGUF_U32) return CH_EFORMAT;
        memcpy(&a, v, sizeof a);
        if (a < CH_GGUF_MIN_ALIGN || a > CH_GGUF_MAX_ALIGN || (a & (a - 1))) return CH_ERANGE;
        if (w->n_tensors > 0) return CH_ESTATE;
        w->alignment = a;
    }
    int rc = begin_kv(w, key, type);
    if (rc != 0) return rc;
    return ch_buf_append(&w->kv, v, ch_gguf_vtype_size(type)) ? 0 : CH_ENOMEM;
}

int ch_gguf_put_u32(ch_gguf_writer *w, const char *key, uint32_t v) { return put_scalar(w, key, CH_GGUF_U32, &v); }
int ch_gguf_put_u64(ch_gguf_writer *w, const char *key, uint64_t v) { return put_scalar(w, key, CH_GGUF_U64, &v); }
int ch_gguf_put_f32(ch_gguf_writer *w, const char *key, float v) { return put_scalar(w, key, CH_GGUF_F32, &v); }

int ch_gguf_put_bool(ch_gguf_writer *w, const char *key, bool v) {
    uint8_t byte = v;
    return put_scalar(w, key, CH_GGUF_BOOL, &byte);
}

int ch_gguf_put_str(ch_gguf_writer *w, const char *key, const char *s, size_t n) {
    if (strcmp(key, "general.alignment") == 0) return CH_EFORMAT;
    int rc = begin_kv(w, key, CH_GGUF_STR);
    if (rc != 0) return rc;
    put_len_bytes(&w->kv, s, n);
    return w->kv.failed ? CH_ENOMEM : 0;
}

static int begin_arr(ch_gguf_writer *w, const char *key, ch_gguf_vtype elem, uint64_t n) {
    if (strcmp(key, "general.alignment") == 0) return CH_EFORMAT;
    int rc = begin_kv(w, key, CH_GGUF_ARR);
    if (rc != 0) return rc;
    uint32_t t = elem;
    ch_buf_append(&w->kv, &t, sizeof t);
    ch_buf_append(&w->kv, &n, sizeof n);
    return 0;
}

int ch_gguf_put_arr(ch_gguf_writer *w, const char *key, ch_gguf_vtype elem, const void *data, uint64_t n) {
    size_t bytes, size = ch_gguf_vtype_size(elem);
    if (size == 0) return CH_EFORMAT;
    if (!ch_mul_size((size_t)n, size, &bytes)) return CH_ERANGE;
    int rc = begin_arr(w, key, elem, n);
    if (rc != 0) return rc;
    ch_buf_append(&w->kv, data, bytes);
    return w->kv.failed ? CH_ENOMEM : 0;
}

int ch_gguf_put_arr_str(ch_gguf_writer *w, const char *key, const ch_gguf_str *s, uint64_t n) {
    int rc = begin_arr(w, key, CH_GGUF_STR, n);
    if (rc != 0) return rc;
    for (uint64_t i = 0; i < n; i++) put_len_bytes(&w->kv, s[i].p, s[i].n);
    return w->kv.failed ? CH_ENOMEM : 0;
}

int ch_gguf_put_kv(ch_gguf_writer *w, const ch_gguf *from, const ch_gguf_kv *kv) {
    if (kv->type != CH_GGUF_ARR && kv->type != CH_GGUF_STR) return put_scalar(w, kv->key, kv->type, kv->raw);
    if (kv->type == CH_GGUF_STR) {
        ch_gguf_str s = ch_gguf_arr_str(from, kv, 0);
        return ch_gguf_put_str(w, kv->key, s.p, s.n);
    }
    if (kv->elem != CH_GGUF_STR) return ch_gguf_put_arr(w, kv->key, kv->elem, kv->raw, kv->n);
    int rc = begin_arr(w, kv->key, CH_GGUF_STR, kv->n);
    if (rc != 0) return rc;
    for (uint64_t i = 0; i < kv->n; i++) {
        ch_gguf_str s = ch_gguf_arr_str(from, kv, i);
        put_len_bytes(&w->kv, s.p, s.n);
    }
    return w->kv.failed ? CH_ENOMEM : 0;
}

// ---- tensors ----------------------------------------------------------------------------------------------------------
int ch_gguf_put_tensor(ch_gguf_writer *w, const char *name, ch_type type, uint32_t n_dims, const uint64_t *ne) {
    size_t n = strlen(name);
    const ch_type_info *info = ch_quant_type((uint32_t)type);
    if (w->header_done) return CH_ESTATE;
    if (!info) return CH_EUNSUPPORTED;
    if (n > CH_GGUF_MAX_NAME || !ch_gguf_name_ok(name, n) || n_dims < 1 || n_dims > 4) return CH_EFORMAT;
    if (w->n_tensors >= CH_GGUF_MAX_TENSORS) return CH_ELIMIT;
    const char *why;
    size_t size = ch_gguf_tensor_bytes(info, n_dims, ne, &why);
    if (size == 0) return CH_ERANGE;
    if (w->n_tensors == w->cap_tensors) {
        size_t cap = w->cap_tensors ? w->cap_tensors * 2 : 64;
        planned **more = ch_realloc(w->tensor, cap * sizeof *more);
        if (!more) return CH_ENOMEM;
        w->tensor = more;
        w->cap_tensors = cap;
    }
    planned *t = ch_arena_alloc(w->arena, sizeof *t);
    if (!t) return CH_ENOMEM;
    memcpy(t->name, name, n);
    t->type = type;
    t->n_dims = n_dims;
    memcpy(t->ne, ne, n_dims * sizeof *ne);
    t->size = size;
    int rc = ch_gguf_table_add(&w->names, t->name, w->n_tensors);
    if (rc != 0) return rc > 0 ? CH_ESTATE : rc;
    w->tensor[w->n_tensors++] = t;
    return 0;
}

static int write_padding(ch_gguf_writer *w, ch_error *e) {
    static const uint8_t zeros[256];
    size_t n = (size_t)(-ch_outfile_tell(w->out)) & (w->alignment - 1);
    while (n > 0) {
        size_t k = n < sizeof zeros ? n : sizeof zeros;
        int rc = ch_outfile_write(w->out, zeros, k, e);
        if (rc != 0) return rc;
        n -= k;
    }
    return 0;
}

static int write_header(ch_gguf_writer *w, ch_error *e) {
    w->header_done = true;
    ch_buf b = {0};
    uint32_t version = 3;
    uint64_t n_tensors = w->n_tensors;
    ch_buf_append(&b, "GGUF", 4);
    ch_buf_append(&b, &version, sizeof version);
    ch_buf_append(&b, &n_tensors, sizeof n_tensors);
    ch_buf_append(&b, &w->n_kv, sizeof w->n_kv);
    ch_buf_append(&b, w->kv.data, w->kv.len);
    uint64_t offset = 0;
    bool fits = true;
    for (size_t i = 0; i < w->n_tensors; i++) {
        const planned *t = w->tensor[i];
        uint32_t type = t->type;
        put_len_bytes(&b, t->name, strlen(t->name));
        ch_buf_append(&b, &t->n_dims, sizeof t->n_dims);
        ch_buf_append(&b, t->ne, t->n_dims * sizeof *t->ne);
        ch_buf_append(&b, &type, sizeof type);
        ch_buf_append(&b, &offset, sizeof offset);
        size_t next;
        fits = fits && ch_add_size(offset, t->size, &next) && ch_round_up_size(next, w->alignment, &next) && next < SIZE_MAX / 4;
        offset = fits ? next : 0;
    }
    int rc;
    if (!fits) rc = ch_error_set(e, CH_ERANGE, "tensors are too large together for one file");
    else if (b.failed || w->kv.failed) rc = ch_error_set(e, CH_ENOMEM, "no memory for the header");
    else rc = ch_outfile_write(w->out, b.data, b.len, e);
    ch_buf_free(&b);
    ch_buf_free(&w->kv);
    return rc != 0 ? rc : write_padding(w, e);
}

int ch_gguf_write_data(ch_gguf_writer *w, const void *data, size_t n, ch_error *e) {
    int rc = w->header_done ? 0 : write_header(w, e);
    const uint8_t *p = data;
    while (rc == 0 && n > 0) {
        if (w->current == w->n_tensors)
            return ch_error_set(e, CH_ESTATE, "%zu bytes of data more than the %zu tensors hold", n, w->n_tensors);
        size_t left = w->tensor[w->current]->size - w->written, k = n < left ? n : left;
        rc = ch_outfile_write(w->out, p, k, e);
        if (rc != 0) return rc;
        p += k;
        n -= k;
        w->written += k;
        if (k == left) {
            rc = write_padding(w, e);
            w->current++;
            w->written = 0;
        }
    }
    return rc;
}

int ch_gguf_writer_commit(ch_gguf_writer **out, ch_error *e) {
    ch_gguf_writer *w = *out;
    int rc = w->header_done ? 0 : write_header(w, e);
    if (rc == 0 && w->current < w->n_tensors)
        rc = ch_error_set(e, CH_ESTATE, "tensor %s: expected %zu bytes of data, %zu were written", w->tensor[w->current]->name,
                          w->tensor[w->current]->size, w->written);
    if (rc == 0) rc = ch_outfile_commit(&w->out, e);
    ch_gguf_writer_abort(out);
    return rc;
}
