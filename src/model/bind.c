// Strict binding: a tensor is found by name, its shape and type must be right, and it is marked as used.
#include <stdio.h>
#include <string.h>

#include "model/internal.h"

enum { MAX_NAME = 160 };

void *ch_model_alloc(ch_model *m, size_t n, size_t size) {
    size_t bytes;
    return ch_mul_size(n, size, &bytes) ? ch_arena_alloc(m->arena, bytes) : NULL;
}

const char *ch_model_arch(const ch_model *m) { return m->arch->name; }
bool ch_model_wants_mtp(const ch_model *m) { return m->want_mtp; }
void ch_model_has_mtp(ch_model *m) { m->info.mtp = true; }
ch_layout *ch_model_layout(ch_model *m) { return &m->layout; }
ch_layer_info *ch_model_layer(ch_model *m, size_t i) { return i < (size_t)m->info.n_layer ? &m->layer[i] : NULL; }

int ch_model_set_layers(ch_model *m, size_t n_layer, size_t n_head_kv, ch_error *e) {
    m->layer = ch_model_alloc(m, n_layer, sizeof *m->layer);
    if (!m->layer) return ch_error_set(e, CH_ENOMEM, "no memory");
    m->info.n_layer = (int32_t)n_layer, m->info.n_head_kv = (int32_t)n_head_kv;
    return CH_OK;
}

static const ch_gguf_tensor *find_used(ch_model *m, const char *name) {
    const ch_gguf_tensor *t = ch_gguf_find_tensor(m->gguf, name);
    if (t) m->used[t - ch_gguf_tensor_at(m->gguf, 0)] = 1;
    return t;
}

const ch_gguf_tensor *ch_model_find(ch_model *m, const char *fmt, ...) {
    char name[MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return find_used(m, name);
}

void ch_model_ignore_prefix(ch_model *m, const char *fmt, ...) {
    char prefix[MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < ch_gguf_n_tensors(m->gguf); i++)
        if (!m->used[i] && !strncmp(ch_gguf_tensor_at(m->gguf, i)->name, prefix, strlen(prefix))) m->used[i] = 2;
}

static int missing(ch_model *m, const char *name, ch_error *e) {
    return ch_error_set(e, CH_EFORMAT, "%s: tensor %s is missing", ch_gguf_path(m->gguf), name);
}

// Shapes compare without unit dimensions behind the first: [4, 1, 96] is [4, 96].
static int check_shape(ch_model *m, const ch_gguf_tensor *t, const uint64_t *want, size_t n_want, ch_error *e) {
    uint64_t got[4] = {0}, exp[4] = {0};
    size_t n_got = 0, n_exp = 0;
    for (size_t i = 0; i < 4; i++)
        if (i == 0 || t->ne[i] != 1) got[n_got++] = t->ne[i];
    for (size_t i = 0; i < n_want; i++)
        if (i == 0 || want[i] != 1) exp[n_exp++] = want[i];
    bool equal = n_got == n_exp && !memcmp(got, exp, sizeof got);
    if (!equal && n_exp == 1) // [1, n] is a vector too (ssm_a of some files)
        equal = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] == want[0];
    if (equal) return CH_OK;
    char text[2][100] = {"", ""};
    for (size_t i = 0; i < n_want; i++)
        snprintf(text[0] + strlen(text[0]), 100 - strlen(text[0]), i ? ", %llu" : "%llu", (unsigned long long)want[i]);
    for (size_t i = 0; i < t->n_dims; i++)
        snprintf(text[1] + strlen(text[1]), 100 - strlen(text[1]), i ? ", %llu" : "%llu", (unsigned long long)t->ne[i]);
    return ch_error_set(e, CH_EFORMAT, "%s: tensor %s has shape [%s], expected [%s]", ch_gguf_path(m->gguf), t->name, text[1],
                        text[0]);
}

static int need_decode(ch_model *m, const ch_gguf_tensor *t, ch_error *e) {
    if (t->type->decode) return CH_OK;
    return ch_error_set(e, CH_EUNSUPPORTED, "%s: tensor %s has type %s, which holds no weights", ch_gguf_path(m->gguf), t->name,
                        t->type->name);
}

// Decodes all n values of a tensor whose shape was checked.
static int values_of(ch_model *m, const float **v, const ch_gguf_tensor *t, size_t n, ch_error *e) {
    int rc = need_decode(m, t, e);
    if (rc) return rc;
    float *out = ch_model_alloc(m, n, sizeof *out);
    if (!out) return ch_error_set(e, CH_ENOMEM, "no memory for tensor %s", t->name);
    t->type->decode(t->data, out, n);
    *v = out;
    return CH_OK;
}

static int vec_of(ch_model *m, const float **v, const ch_gguf_tensor *t, size_t n, ch_error *e) {
    int rc = check_shape(m, t, &(uint64_t){n}, 1, e);
    return rc ? rc : values_of(m, v, t, n, e);
}

int ch_model_bind_vec(ch_model *m, const float **v, size_t n, unsigned flags, ch_error *e, const char *fmt, ...) {
    char name[MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    *v = NULL;
    const ch_gguf_tensor *t = find_used(m, name);
    if (!t) return flags & CH_BIND_OPTIONAL ? CH_OK : missing(m, name, e);
    return vec_of(m, v, t, n, e);
}

int ch_model_bind_table(ch_model *m, const float **v, size_t n_col, size_t n_row, ch_error *e, const char *fmt, ...) {
    char name[MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    *v = NULL;
    const ch_gguf_tensor *t = find_used(m, name);
    if (!t) return missing(m, name, e);
    int rc = check_shape(m, t, (uint64_t[]){n_col, n_row}, 2, e);
    return rc ? rc : values_of(m, v, t, n_col * n_row, e);
}

int ch_model_bind_conv(ch_model *m, const float **v, size_t n_tap, size_t n_channel, ch_error *e, const char *fmt, ...) {
    char name[MAX_NAME];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    *v = NULL;
    const ch_gguf_tensor *t = find_used(m, name);
    if (!t) return missing(m, name, e);
    const float *w;
    int rc = check_shape(m, t, (uint64_t[]){n_tap, n_channel}, 2, e);
    if (rc || (rc = values_of(m, &w, t, n_tap * n_channel, e))) return rc;
    float *by_tap = ch_model_alloc(m, n_tap * n_channel, sizeof *by_tap);
    if (!by_tap) return ch_error_set(e, CH_ENOMEM, "no memory for tensor %s", t->name);
    for (size_t c = 0; c < n_channel; c++)
        for (size_t k = 0; k < n_tap; k++) by_tap[k * n_channel + c] = w[c * n_tap + k];
    *v = by_tap;
    return CH_OK;
}

static int keep_weight(ch_model *m, ch_weight *w, ch_error *e) {
    if (m->n_weight == m->cap_weight) {
        size_t cap = m->cap_weight ? 2 * m->cap_weight : 256;
        ch_weight **list = ch_realloc(m->weight, cap * sizeof *list);
        if (!list) return ch_error_set(e, CH_ENOMEM, "no memory");
        m->weight = list, m->cap_weight = cap;
    }
    m->weight[m->n_weight++] = w;
    return CH_OK;
}

// Matrix "<base>.weight" with its side tensors. w: all n_mat * n_out rows.
static int whole_matrix(ch_model *m, ch_weight *w, const char *base, const uint64_t shape[3], unsigned flags, ch_error *e) {
    char name[MAX_NAME];
    *w = (ch_weight){0};
    snprintf(name, sizeof name, "%s.weight", base);
    const ch_gguf_tensor *t = find_used(m, name);
    if (!t) return flags & CH_BIND_OPTIONAL ? CH_OK : missing(m, name, e);
    int rc = check_shape(m, t, shape, shape[2] > 1 ? 3 : 2, e);
    if (rc || (rc = need_decode(m, t, e))) return rc;
    *w = (ch_weight){.name = t->name, .type = t->type, .n_in = shape[0], .n_out = shape[1], .n_mat = shape[2], .raw = t->data,
                     .raw_bytes = t->size, .mapped = true};
    snprintf(name, sizeof name, "%s.bias", base);
    if ((t = find_used(m, name)) && (rc = vec_of(m, &w->bias, t, w->n_out * w->n_mat, e))) return rc;
    snprintf(name, sizeof name, "%s.scale", base);
    if (w->type->id == CH_TYPE_NVFP4 && (t = find_used(m, name)) && (rc = vec_of(m, &w->factor, t, w->n_mat, e))) return rc;
    return CH_OK;
}

int ch_model_bind_mat(ch_model *m, ch_weight *w, size_t n_in, size_t n_out, size_t n_mat, unsigned flags, ch_error *e,
                      const char *fmt, ...) {
    char base[MAX_NAME - 16];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(base, sizeof base, fmt, ap);
    va_end(ap);
    int rc = whole_matrix(m, w, base, (uint64_t[]){n_in, n_out, n_mat}, flags, e);
    return rc || !w->type ? rc : keep_weight(m, w, e);
}

int ch_model_bind_part(ch_model *m, ch_weight *w, const ch_bind_part *p, ch_error *e, const char *fmt, ...) {
    char base[MAX_NAME - 16];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(base, sizeof base, fmt, ap);
    va_end(ap);
    CH_ASSERT(p->row0 + p->n_row <= p->n_total);
    int rc = whole_matrix(m, w, base, (uint64_t[]){p->n_in, p->n_total, 1}, p->flags, e);
    if (rc || !w->type) return rc;
    size_t row = w->raw_bytes / p->n_total;
    w->n_out = p->n_row, w->raw += p->row0 * row, w->raw_bytes = p->n_row * row;
    if (w->bias) w->bias += p->row0;
    return keep_weight(m, w, e);
}

int ch_model_bind_rows(ch_model *m, ch_weight *w, const ch_gguf_tensor *t, const uint32_t *row, size_t n_row, ch_error *e) {
    size_t bytes, total;
    int rc = need_decode(m, t, e);
    if (rc) return rc;
    if (!ch_quant_row_bytes(t->type, t->ne[0], &bytes) || !ch_mul_size(bytes, n_row, &total))
        return ch_error_set(e, CH_EFORMAT, "%s: tensor %s: size overflows", ch_gguf_path(m->gguf), t->name);
    uint8_t *copy = ch_model_alloc(m, total, 1);
    if (!copy) return ch_error_set(e, CH_ENOMEM, "no memory for tensor %s", t->name);
    for (size_t i = 0; i < n_row; i++) memcpy(copy + i * bytes, (const uint8_t *)t->data + row[i] * bytes, bytes);
    *w = (ch_weight){.name = t->name, .type = t->type, .n_in = t->ne[0], .n_out = n_row, .n_mat = 1, .raw = copy,
                     .raw_bytes = total};
    return keep_weight(m, w, e);
}

int ch_model_refuse_kv(const ch_model *m, size_t width, ch_error *e) {
    return ch_error_set(e, CH_ERANGE, "%s: key/value types %s and %s need rows of whole blocks, and a head here has %zu values",
                        ch_gguf_path(m->gguf), m->layout.k_type->name, m->layout.v_type->name, width);
}

int ch_model_bind_attn(ch_model *m, ch_attn *b, size_t n_embd, uint32_t layer, ch_error *e) {
    size_t n_q = b->n_head * b->d_head, n_kv = b->n_head_kv * b->d_head, rows_q = b->gated ? 2 * n_q : n_q;
    if (!b->n_head_kv || b->n_head % b->n_head_kv)
        return ch_error_set(e, CH_ERANGE, "%s: layer %u: head_count %zu is no multiple of head_count_kv %zu", ch_gguf_path(m->gguf),
                            layer, b->n_head, b->n_head_kv);
    ch_bind_part q = {n_embd, rows_q + 2 * n_kv, 0, rows_q, CH_BIND_OPTIONAL}, k = {n_embd, rows_q + 2 * n_kv, rows_q, n_kv, 0};
    ch_bind_part v = {n_embd, rows_q + 2 * n_kv, rows_q + n_kv, n_kv, 0};
    int rc = ch_model_bind_part(m, &b->q, &q, e, "blk.%u.attn_qkv", layer);
    if (rc) return rc;
    if (b->q.type) {
        if ((rc = ch_model_bind_part(m, &b->k, &k, e, "blk.%u.attn_qkv", layer)) ||
            (rc = ch_model_bind_part(m, &b->v, &v, e, "blk.%u.attn_qkv", layer)))
            return rc;
    } else if ((rc = ch_model_bind_mat(m, &b->q, n_embd, rows_q, 1, 0, e, "blk.%u.attn_q", layer)) ||
               (rc = ch_model_bind_mat(m, &b->k, n_embd, n_kv, 1, 0, e, "blk.%u.attn_k", layer)) ||
               (rc = ch_model_bind_mat(m, &b->v, n_embd, n_kv, 1, 0, e, "blk.%u.attn_v", layer))) {
        return rc;
    }
    if ((rc = ch_model_bind_mat(m, &b->o, n_q, n_embd, 1, 0, e, "blk.%u.attn_output", layer))) return rc;
    ch_layer_info *info = ch_model_layer(m, layer);
    info->mixer = "attention", info->kv_bytes_per_token = ch_block_attn_place(b, &m->layout);
    return info->kv_bytes_per_token ? CH_OK : ch_model_refuse_kv(m, b->d_head, e);
}
