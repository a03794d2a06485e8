// Tokenises all documents of all sources once, and keeps the result in a cache file.
//
// Cache file, little-endian: magic "CHTOKEN1", key, n_doc, n_token, hash of the rest (u64 each); then begin u64[n_doc + 1],
// token i32[n_token], weight u16[n_token], source u8[n_doc].
#include <string.h>
#include <unistd.h>

#include "train/record.h"
#include "train/store.h"

enum { HEAD = 40 };
static const char magic[8] = "CHTOKEN1";

typedef struct store_build {
    const ch_train_data_params *p;
    ch_store *s;
    uint64_t *begin;
    size_t cap_doc;
    uint16_t *weight;
    size_t cap_weight;
    uint8_t *source;
    ch_tokens tokens;
    int32_t end; // token after a plain text; -1: none
    ch_error *e;
} store_build;

static int no_memory(ch_error *e) { return ch_error_set(e, CH_ENOMEM, "no memory for tokenised documents"); }

static uint64_t hash_vocab(const ch_vocab *v, uint64_t h) {
    for (int32_t i = 0; i < ch_vocab_n(v); i++) {
        size_t n;
        const char *s = ch_vocab_text(v, i, &n);
        h = ch_hash64(s, n, h + (uint64_t)ch_vocab_type(v, i));
    }
    return h;
}

static bool grow_docs(store_build *b) {
    if (b->s->n_doc + 1 < b->cap_doc)
        return true;
    size_t cap = b->cap_doc ? 2 * b->cap_doc : 1024;
    uint64_t *begin = ch_realloc(b->begin, cap * sizeof *begin);
    if (begin)
        b->begin = begin;
    uint8_t *source = begin ? ch_realloc(b->source, cap) : NULL;
    if (!source)
        return false;
    b->source = source;
    b->cap_doc = cap;
    return true;
}

static bool grow_weights(store_build *b, size_t n) {
    size_t cap = b->cap_weight ? b->cap_weight : 65536;
    while (cap < n)
        cap *= 2;
    if (cap == b->cap_weight)
        return true;
    uint16_t *more = ch_realloc(b->weight, cap * sizeof *more);
    if (!more)
        return false;
    b->weight = more;
    b->cap_weight = cap;
    return true;
}

// Weights of the tokens from first on, by the place of their first byte in the document.
static int weigh_tokens(store_build *b, const ch_record *d, size_t first, float factor) {
    size_t at = 0, k = 0;
    if (!grow_weights(b, b->tokens.n))
        return no_memory(b->e);
    for (size_t i = first; i < b->tokens.n; i++) {
        const char *p;
        int32_t id = b->tokens.id[i];
        size_t n = ch_vocab_piece(b->p->vocab, id, true, &p);
        bool put_in_front = i == first && id == ch_vocab_bos(b->p->vocab) && (n > d->n || memcmp(p, d->text, n) != 0);
        bool put_behind = i + 1 == b->tokens.n && at == d->n; // an end token that the file asks for
        while (k + 1 < d->n_part && d->part[k].end <= at)
            k++;
        float w = put_in_front ? 0 : put_behind ? b->p->weights.end : d->n_part ? d->part[k].weight : 0;
        w *= factor;
        b->weight[i] = ch_f32_to_f16(w < 60000 ? w : 60000);
        at += put_in_front || put_behind ? 0 : n;
    }
    if (at != d->n && d->n_part > 1)
        return ch_error_set(b->e, CH_EUNSUPPORTED, "line %zu: the tokenizer changes this text (%zu bytes became %zu), so weights "
                                                   "cannot be placed; is it in Unicode's normal form C?", d->line, d->n, at);
    return 0;
}

static int add_document(store_build *b, const ch_record *d, int source) {
    const ch_train_data_params *p = b->p;
    size_t first = b->tokens.n;
    unsigned flags = CH_TOK_BOS_EOS;
    int rc = d->chat ? ch_tokenize_spans(p->vocab, d->text, d->n, d->span, d->n_span, flags | CH_TOK_SPECIAL, &b->tokens, b->e)
                     : ch_tokenize_spans(p->vocab, d->text, d->n, &(ch_span){0, d->n, false}, 1, flags, &b->tokens, b->e);
    if (!rc)
        rc = weigh_tokens(b, d, first, p->source[source].weight);
    if (!rc && !d->chat && b->end >= 0 && b->tokens.n > first && b->tokens.id[b->tokens.n - 1] != b->end) {
        if (!ch_tokens_push(&b->tokens, b->end) || !grow_weights(b, b->tokens.n))
            return no_memory(b->e);
        b->weight[b->tokens.n - 1] = ch_f32_to_f16(p->weights.end * p->source[source].weight);
    }
    if (rc)
        return rc;
    if (b->tokens.n - first < 2) { // nothing to predict
        b->tokens.n = first;
        return 0;
    }
    if (!grow_docs(b))
        return no_memory(b->e);
    b->begin[b->s->n_doc] = first;
    b->source[b->s->n_doc] = (uint8_t)source;
    b->s->n_doc++;
    return 0;
}

static int read_source(store_build *b, ch_record_reader *r, int source) {
    const char *path = b->p->source[source].path;
    int rc = ch_record_read_file(r, path, b->e);
    for (uint64_t i = 0; !rc; i++) {
        ch_record d;
        rc = ch_record_next(r, &d, b->e);
        if (rc <= 0)
            return rc;
        rc = add_document(b, &d, source);
        if (rc)
            ch_error_prefix(b->e, "%s", path);
        if (b->p->progress && i % 256 == 0 && !b->p->progress(b->p->progress_user, "tokenising", ch_record_offset(r), ch_record_size(r)))
            rc = ch_error_set(b->e, CH_ECANCELLED, "stopped while tokenising");
    }
    return rc;
}

static int build_store(ch_store *s, const ch_train_data_params *p, ch_record_reader *r, ch_error *e) {
    store_build b = {.p = p, .s = s, .e = e, .end = ch_vocab_find(p->vocab, "<|endoftext|>", 13)};
    if (b.end < 0)
        b.end = ch_vocab_eos(p->vocab);
    int rc = grow_docs(&b) && grow_weights(&b, 1) ? 0 : no_memory(e);
    for (size_t i = 0; !rc && i < p->n_source; i++)
        rc = read_source(&b, r, (int)i);
    if (!rc && !s->n_doc)
        rc = ch_error_set(e, CH_EFORMAT, "%s%s: no document of two tokens or more", p->source[0].path, p->n_source > 1 ? " and others" : "");
    if (!rc)
        b.begin[s->n_doc] = b.tokens.n;
    s->n_token = b.tokens.n;
    s->begin = b.begin;
    s->token = b.tokens.id;
    s->weight = b.weight;
    s->source = b.source;
    return rc;
}

// ---- cache file -----------------------------------------------------------------------------------------------------------
static uint64_t hash_content(const ch_store *s) {
    uint64_t h = ch_hash64(s->begin, (s->n_doc + 1) * sizeof *s->begin, s->key);
    h = ch_hash64(s->token, (size_t)s->n_token * sizeof *s->token, h);
    h = ch_hash64(s->weight, (size_t)s->n_token * sizeof *s->weight, h);
    return ch_hash64(s->source, s->n_doc, h);
}

static int write_cache(const ch_store *s, const char *path, ch_error *e) {
    ch_outfile *o = NULL;
    const uint64_t head[4] = {s->key, s->n_doc, s->n_token, hash_content(s)};
    int rc = ch_outfile_open(&o, path, e);
    if (rc)
        return rc;
    rc = ch_outfile_write(o, magic, sizeof magic, e);
    if (!rc)
        rc = ch_outfile_write(o, head, sizeof head, e);
    if (!rc)
        rc = ch_outfile_write(o, s->begin, (s->n_doc + 1) * sizeof *s->begin, e);
    if (!rc)
        rc = ch_outfile_write(o, s->token, (size_t)s->n_token * sizeof *s->token, e);
    if (!rc)
        rc = ch_outfile_write(o, s->weight, (size_t)s->n_token * sizeof *s->weight, e);
    if (!rc)
        rc = ch_outfile_write(o, s->source, s->n_doc, e);
    if (!rc)
        return ch_outfile_commit(&o, e);
    ch_outfile_abort(&o);
    return rc;
}

// Whether the documents lie in the arrays as they should.
static bool is_sound(const ch_store *s, const ch_train_data_params *p) {
    if (s->begin[0] != 0 || s->begin[s->n_doc] != s->n_token)
        return false;
    for (size_t i = 0; i < s->n_doc; i++)
        if (s->begin[i + 1] < s->begin[i] || s->begin[i + 1] - s->begin[i] < 2 || s->source[i] >= p->n_source)
            return false;
    for (uint64_t i = 0; i < s->n_token; i++)
        if (s->token[i] < 0 || s->token[i] >= ch_vocab_n(p->vocab) || (s->weight[i] & 0x7fff) > 0x7bff || s->weight[i] >> 15)
            return false;
    return true;
}

bool ch_store_read(ch_store *s, const ch_train_data_params *p, uint64_t key, const uint8_t *data, size_t size) {
    uint64_t head[4];
    bool ok = size >= HEAD && memcmp(data, magic, sizeof magic) == 0;
    if (ok)
        memcpy(head, data + sizeof magic, sizeof head);
    // Counts are bounded by the size before they are multiplied.
    ok = ok && head[0] == key && head[1] >= 1 && head[1] <= size / 9 && head[2] <= size / 6 &&
         size == HEAD + 8 * (head[1] + 1) + 6 * head[2] + head[1];
    *s = (ch_store){0};
    if (!ok)
        return false;
    s->key = key;
    s->n_doc = (size_t)head[1];
    s->n_token = head[2];
    s->begin = (const uint64_t *)(const void *)(data + HEAD);
    s->token = (const int32_t *)(const void *)(s->begin + s->n_doc + 1);
    s->weight = (const uint16_t *)(const void *)(s->token + s->n_token);
    s->source = (const uint8_t *)(s->weight + s->n_token);
    s->from_cache = true;
    ok = hash_content(s) == head[3] && is_sound(s, p);
    if (!ok)
        *s = (ch_store){0};
    return ok;
}

// Maps the cache file; false: there is none, or it is of something else, cut or damaged (it is then made anew).
static bool load_cache(ch_store *s, const ch_train_data_params *p, uint64_t key) {
    ch_map map;
    if (ch_map_open(&map, p->cache, NULL) != 0)
        return false;
    if (!ch_store_read(s, p, key, map.data, map.size)) {
        ch_map_close(&map);
        return false;
    }
    s->map = map;
    return true;
}

static int find_key(const ch_train_data_params *p, ch_record_reader *r, uint64_t *key, ch_error *e) {
    uint64_t h = ch_hash64(magic, sizeof magic, 1);
    h = hash_vocab(p->vocab, h);
    h = ch_hash64(p->template_text ? p->template_text : "", p->template_text ? p->n_template : 0, h);
    const ch_train_weights *w = &p->weights;
    const float weights[] = {w->assistant, w->history, w->user, w->system, w->role, w->text, w->end};
    h = ch_hash64(weights, sizeof weights, h);
    for (size_t i = 0; i < p->n_source; i++) {
        int rc = ch_record_read_file(r, p->source[i].path, e);
        if (rc)
            return rc;
        h = ch_hash64(&p->source[i].weight, sizeof(float), h ^ ch_record_hash(r));
    }
    *key = h;
    return 0;
}

int ch_store_open(ch_store *s, const ch_train_data_params *p, ch_error *e) {
    *s = (ch_store){0};
    ch_record_reader *r = NULL;
    uint64_t key = 0;
    const ch_record_params rp = {p->template_text, p->n_template, p->vocab, p->weights};
    int rc = ch_record_reader_open(&r, &rp, e);
    if (!rc)
        rc = find_key(p, r, &key, e);
    if (!rc && !(p->cache && load_cache(s, p, key))) {
        s->key = key;
        rc = build_store(s, p, r, e);
        if (!rc && p->cache)
            rc = write_cache(s, p->cache, e);
    }
    ch_record_reader_free(&r);
    if (rc)
        ch_store_close(s);
    return rc;
}

void ch_store_close(ch_store *s) {
    if (s->from_cache) {
        ch_map_close(&s->map);
    } else {
        ch_free((void *)(uintptr_t)s->begin);
        ch_free((void *)(uintptr_t)s->token);
        ch_free((void *)(uintptr_t)s->weight);
        ch_free((void *)(uintptr_t)s->source);
    }
    *s = (ch_store){0};
}
