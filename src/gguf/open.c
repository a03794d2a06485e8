// Opening a model: one file or all its shards, merged.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "gguf/part.h"

// Path for messages: long ones lose their head, so that what is wrong still fits after them.
static const char *make_label(ch_arena *a, const char *path) {
    size_t n = strlen(path), keep = 90;
    if (n <= keep) return path;
    const char *tail = path + n - keep;
    while (((uint8_t)*tail & 0xc0) == 0x80) tail++; // not inside a character
    char text[100];
    snprintf(text, sizeof text, "...%s", tail);
    return ch_arena_strndup(a, text, strlen(text));
}

static int set_path(ch_gguf *g, ch_gguf_part *p, const char *path, ch_error *e) {
    p->path = ch_arena_strndup(g->arena, path, strlen(path));
    p->label = p->path ? make_label(g->arena, p->path) : NULL;
    return p->label ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for a path");
}

static int open_part(ch_gguf *g, ch_gguf_part *p, const char *path, ch_error *e) {
    int rc = set_path(g, p, path, e);
    if (rc == 0) rc = ch_map_open(&p->map, path, e);
    if (rc != 0) return rc;
    p->data = p->map.data;
    p->size = p->map.size;
    return ch_gguf_parse_part(p, g->arena, e);
}

static void close_part(ch_gguf_part *p) {
    ch_gguf_table_free(&p->keys);
    ch_map_close(&p->map);
}

// ---- shards -----------------------------------------------------------------------------------------------------------
#define SUFFIX_BYTES 20 // "-00001-of-00003.gguf"

typedef struct split_info {
    uint64_t no, count, n_tensors; // as the file says; no 0-based; n_tensors UINT64_MAX when absent
} split_info;

static int read_split(const ch_gguf_part *p, split_info *s, ch_error *e) {
    *s = (split_info){.n_tensors = UINT64_MAX};
    int rc = ch_gguf_part_u64(p, "split.count", 65535, &s->count, e);
    if (rc >= 0) rc = ch_gguf_part_u64(p, "split.no", 65535, &s->no, e);
    if (rc >= 0) rc = ch_gguf_part_u64(p, "split.tensors.count", UINT64_MAX - 1, &s->n_tensors, e);
    if (rc < 0) return rc;
    if (s->count > CH_GGUF_MAX_SHARDS)
        return ch_error_set(e, CH_ELIMIT, "%s: split.count: at most %d shards are supported, found %" PRIu64, p->label, CH_GGUF_MAX_SHARDS,
                            s->count);
    if (s->count > 1 && s->no >= s->count)
        return ch_error_set(e, CH_EFORMAT, "%s: split.no %" PRIu64 " is not below split.count %" PRIu64, p->label, s->no, s->count);
    return 0;
}

// Shards hold nothing after their tensors, so more bytes mean that other shards were appended. The last tensor's padding is
// optional.
static int check_not_joined(const ch_gguf_part *p, uint64_t no, uint64_t count, ch_error *e) {
    size_t end;
    if (!ch_round_up_size(p->data_end, p->alignment, &end) || p->size <= end) return 0;
    return ch_error_set(e, CH_EFORMAT,
                        "%s: shard %" PRIu64 " of %" PRIu64 ": expected %zu bytes, found %zu; if shards were joined into this file, "
                        "keep them as separate files instead",
                        p->label, no + 1, count, end, p->size);
}

static int check_split(const ch_gguf_part *p, uint64_t no, const split_info *first, ch_error *e) {
    split_info s;
    int rc = read_split(p, &s, e);
    if (rc != 0) return rc;
    if (s.count != first->count)
        return ch_error_set(e, CH_EFORMAT, "%s: shard %" PRIu64 ": expected split.count %" PRIu64 ", found %" PRIu64, p->label, no + 1,
                            first->count, s.count);
    if (s.no != no)
        return ch_error_set(e, CH_EFORMAT, "%s: shard %" PRIu64 " of %" PRIu64 ": expected split.no %" PRIu64 ", found %" PRIu64 " (renamed or copied?)",
                            p->label, no + 1, s.count, no, s.no);
    if (s.n_tensors != first->n_tensors)
        return ch_error_set(e, CH_EFORMAT, "%s: shard %" PRIu64 " of %" PRIu64 ": its split.tensors.count differs from the first opened shard's",
                            p->label, no + 1, s.count);
    return check_not_joined(p, no, s.count, e);
}

// Opens every shard but `given`, which the caller opened already and which moves to its place.
static int open_shards(ch_gguf *g, ch_gguf_part given, const split_info *s, ch_error *e) {
    char suffix[64];
    snprintf(suffix, sizeof suffix, "-%05u-of-%05u.gguf", (unsigned)s->no + 1, (unsigned)s->count);
    size_t n = strlen(given.path), prefix = n > SUFFIX_BYTES ? n - SUFFIX_BYTES : 0;
    if (prefix == 0 || strcmp(given.path + prefix, suffix) != 0) {
        int rc = check_not_joined(&given, s->no, s->count, e);
        if (rc != 0) return rc;
        return ch_error_set(e, CH_EFORMAT, "%s: is shard %" PRIu64 " of %" PRIu64 "; expected its name to end in %s, so that the others can be found",
                            given.label, s->no + 1, s->count, suffix);
    }
    size_t count = (size_t)s->count;
    ch_gguf_part *parts = ch_arena_alloc(g->arena, count * sizeof *parts);
    char *path = ch_arena_alloc(g->arena, n + 1);
    if (!parts || !path) return ch_error_set(e, CH_ENOMEM, "%s: no memory for %zu shards", given.label, count);
    parts[s->no] = given;
    g->part = parts;
    g->n_parts = (int)count;
    memcpy(path, given.path, prefix);
    for (size_t i = 0; i < count; i++) {
        ch_gguf_part *p = &parts[i];
        if (i != s->no) {
            snprintf(path + prefix, n + 1 - prefix, "-%05u-of-%05u.gguf", (unsigned)i + 1, (unsigned)count);
            struct stat st;
            if (stat(path, &st) != 0)
                return ch_error_set(e, CH_EIO, "%s: shard %zu of %zu is missing or cannot be read", make_label(g->arena, path), i + 1, count);
            int rc = open_part(g, p, path, e);
            if (rc != 0) {
                ch_error_prefix(e, "shard %zu of %zu", i + 1, count);
                return rc;
            }
        }
        int rc = check_split(p, i, s, e);
        if (rc != 0) return rc;
    }
    return 0;
}

// ---- merging ----------------------------------------------------------------------------------------------------------
static int merge_tensors(ch_gguf *g, const split_info *s, ch_error *e) {
    size_t total = 0;
    for (int i = 0; i < g->n_parts; i++) total += g->part[i].n_tensors;
    if (total > CH_GGUF_MAX_TENSORS)
        return ch_error_set(e, CH_ELIMIT, "%s: %zu tensors over all shards, at most %zu are supported", g->part[0].label, total, CH_GGUF_MAX_TENSORS);
    if (s->count > 1 && s->n_tensors != UINT64_MAX && s->n_tensors != total)
        return ch_error_set(e, CH_EFORMAT, "%s: split.tensors.count: expected %" PRIu64 " tensors, the %d shards hold %zu", g->part[0].label,
                            s->n_tensors, g->n_parts, total);
    g->tensor = g->n_parts == 1 ? g->part[0].tensor : ch_arena_alloc(g->arena, total * sizeof *g->tensor);
    if (!g->tensor || ch_gguf_table_reserve(&g->names, total) != 0)
        return ch_error_set(e, CH_ENOMEM, "%s: no memory for %zu tensors", g->part[0].label, total);
    for (int i = 0; i < g->n_parts; i++) {
        for (size_t j = 0; j < g->part[i].n_tensors; j++) {
            ch_gguf_tensor *t = &g->tensor[g->n_tensors];
            if (g->n_parts > 1) *t = g->part[i].tensor[j];
            t->shard = i;
            int rc = ch_gguf_table_add(&g->names, t->name, g->n_tensors);
            if (rc > 0) return ch_error_set(e, CH_EFORMAT, "%s: tensor %s occurs twice", g->part[i].label, t->name);
            if (rc < 0) return ch_error_set(e, CH_ENOMEM, "%s: no memory for its tensors", g->part[i].label);
            g->n_tensors++;
        }
    }
    return 0;
}

static ch_gguf *create(ch_error *e) {
    ch_gguf *g = ch_alloc(sizeof *g);
    if (g) g->arena = ch_arena_create(0); // bounded by the file's own size, see part.h
    if (g && g->arena) g->part = ch_arena_alloc(g->arena, sizeof *g->part);
    if (g && g->part) {
        g->n_parts = 1;
        return g;
    }
    ch_gguf_close(&g);
    ch_error_set(e, CH_ENOMEM, "no memory to open a model file");
    return NULL;
}

int ch_gguf_open(ch_gguf **out, const char *path, ch_error *e) {
    *out = NULL;
    ch_gguf *g = create(e);
    if (!g) return CH_ENOMEM;
    split_info s = {0};
    int rc = open_part(g, &g->part[0], path, e);
    if (rc == 0) rc = read_split(&g->part[0], &s, e);
    if (rc == 0 && s.count > 1) rc = open_shards(g, g->part[0], &s, e);
    if (rc == 0) rc = merge_tensors(g, &s, e);
    if (rc != 0) {
        ch_gguf_close(&g);
        return rc;
    }
    *out = g;
    return 0;
}

int ch_gguf_open_memory(ch_gguf **out, const void *data, size_t size, const char *name, ch_error *e) {
    *out = NULL;
    ch_gguf *g = create(e);
    if (!g) return CH_ENOMEM;
    ch_gguf_part *p = &g->part[0];
    p->data = data;
    p->size = size;
    int rc = set_path(g, p, name, e);
    if (rc == 0) rc = ch_gguf_parse_part(p, g->arena, e);
    split_info s = {0};
    if (rc == 0) rc = merge_tensors(g, &s, e);
    if (rc != 0) {
        ch_gguf_close(&g);
        return rc;
    }
    *out = g;
    return 0;
}

void ch_gguf_close(ch_gguf **out) {
    ch_gguf *g = *out;
    if (!g) return;
    for (int i = 0; i < g->n_parts; i++) close_part(&g->part[i]);
    ch_gguf_table_free(&g->names);
    ch_arena_free(&g->arena);
    ch_free(g);
    *out = NULL;
}

// ---- what was opened --------------------------------------------------------------------------------------------------
const char *ch_gguf_path(const ch_gguf *g) { return g->part[0].path; }
uint32_t ch_gguf_version(const ch_gguf *g) { return g->part[0].version; }
int ch_gguf_n_shards(const ch_gguf *g) { return g->n_parts; }

uint64_t ch_gguf_file_bytes(const ch_gguf *g) {
    uint64_t n = 0;
    for (int i = 0; i < g->n_parts; i++) n += g->part[i].size;
    return n;
}

uint64_t ch_gguf_fingerprint(const ch_gguf *g) {
    uint64_t h = 0;
    for (int i = 0; i < g->n_parts; i++) {
        const ch_gguf_part *p = &g->part[i];
        h = ch_hash64(p->data, p->header_end, h ^ (uint64_t)p->size);
    }
    return h;
}

size_t ch_gguf_n_kv(const ch_gguf *g) { return g->part[0].n_kv; }
const ch_gguf_kv *ch_gguf_kv_at(const ch_gguf *g, size_t i) { return i < g->part[0].n_kv ? &g->part[0].kv[i] : NULL; }
size_t ch_gguf_n_tensors(const ch_gguf *g) { return g->n_tensors; }
const ch_gguf_tensor *ch_gguf_tensor_at(const ch_gguf *g, size_t i) { return i < g->n_tensors ? &g->tensor[i] : NULL; }

const ch_gguf_tensor *ch_gguf_find_tensor(const ch_gguf *g, const char *name) {
    size_t i;
    return ch_gguf_table_find(&g->names, name, &i) ? &g->tensor[i] : NULL;
}

const char *ch_gguf_shard_path(const ch_gguf *g, int shard) {
    return shard >= 0 && shard < g->n_parts ? g->part[shard].path : NULL;
}
