// Spellings, symbols and the table of pairs that merge: from a merge list (byte-level BPE), or from the spellings of the
// tokens themselves where the file has none (SentencePiece scores; tiktoken ranks).
#include <string.h>

#include "text/vocab.h"

#define PAIR_FREE UINT64_MAX

// Finaliser of a 64-bit hash (Stafford's variant 13 of murmur3's), seeded.
uint64_t ch_vocab_mix(uint64_t key, uint64_t seed) {
    uint64_t x = key ^ seed;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

// ---- symbols ------------------------------------------------------------------------------------------------------------
static uint32_t map_slot(const ch_vocab *v, const char *text, size_t n) {
    uint32_t i = (uint32_t)ch_hash64(text, n, v->seed) & v->map_mask;
    for (; v->map[i] >= 0; i = (i + 1) & v->map_mask) {
        int32_t s = v->map[i];
        size_t len = v->off[s + 1] - v->off[s];
        if (len == n && memcmp(v->pool + v->off[s], text, n) == 0) break;
    }
    return i;
}

int32_t ch_vocab_symbol(const ch_vocab *v, const char *text, size_t n) {
    return n && v->map ? v->map[map_slot(v, text, n)] : -1;
}

static bool grow_map(ch_vocab *v) {
    uint32_t slots = v->map ? 2 * (v->map_mask + 1) : 1024;
    int32_t *map = ch_alloc_array(slots, sizeof *map);
    if (!map) return false;
    memset(map, 0xFF, slots * sizeof *map);
    ch_free(v->map);
    v->map = map;
    v->map_mask = slots - 1;
    for (int32_t s = 0; s < v->n_sym; s++) {
        size_t n = v->off[s + 1] - v->off[s];
        if (n) map[map_slot(v, v->pool + v->off[s], n)] = s; // of equal spellings the last one counts
    }
    return true;
}

// Adds the spelling as symbol n_sym.
static bool add_symbol(ch_vocab *v, const char *text, size_t n) {
    if (n > CH_VOCAB_MAX_POOL - v->n_pool || v->n_sym >= INT32_MAX / 2) return false;
    if (!v->pool || v->n_pool + n > v->cap_pool) {
        size_t cap = 2 * (v->n_pool + n) + 4096;
        char *pool = ch_realloc(v->pool, cap);
        if (!pool) return false;
        v->pool = pool;
        v->cap_pool = cap;
    }
    if ((size_t)v->n_sym + 2 > v->cap_sym) {
        size_t cap = 2 * v->cap_sym + 1024;
        uint32_t *off = ch_realloc(v->off, cap * sizeof *off);
        if (!off) return false;
        v->off = off;
        v->cap_sym = cap;
        if (!v->n_sym) off[0] = 0;
    }
    if ((!v->map || (uint32_t)v->n_sym >= v->map_mask / 2) && !grow_map(v)) return false;
    memcpy(v->pool + v->n_pool, text, n);
    v->n_pool += n;
    v->off[v->n_sym + 1] = (uint32_t)v->n_pool;
    if (n) v->map[map_slot(v, text, n)] = v->n_sym;
    v->n_sym++;
    return true;
}

int32_t ch_vocab_intern(ch_vocab *v, const char *text, size_t n) {
    int32_t s = ch_vocab_symbol(v, text, n);
    if (s >= 0) return s;
    return add_symbol(v, text, n) ? v->n_sym - 1 : -1;
}

int ch_vocab_load_tokens(ch_vocab *v, const ch_gguf *g, const ch_gguf_kv *tokens, ch_error *e) {
    for (uint64_t i = 0; i < tokens->n; i++) {
        ch_gguf_str s = ch_gguf_arr_str(g, tokens, i);
        if (s.n > CH_VOCAB_MAX_POOL - v->n_pool)
            return ch_error_set(e, CH_ELIMIT, "tokenizer.ggml.tokens: more than %u bytes of text", CH_VOCAB_MAX_POOL);
        if (!add_symbol(v, s.p, s.n))
            return ch_error_set(e, CH_ENOMEM, "no memory for %llu tokens", (unsigned long long)tokens->n);
    }
    v->n = v->n_sym;
    return 0;
}

// ---- pairs --------------------------------------------------------------------------------------------------------------
static uint64_t pair_key(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

static uint32_t pair_slot(const ch_vocab *v, uint64_t key) {
    uint32_t i = (uint32_t)ch_vocab_mix(key, v->seed) & v->pair_mask;
    while (v->pair[i].key != key && v->pair[i].key != PAIR_FREE) i = (i + 1) & v->pair_mask;
    return i;
}

const ch_vocab_pair *ch_vocab_pair_find(const ch_vocab *v, int32_t left, int32_t right) {
    if ((left | right) < 0) return NULL;
    uint64_t key = pair_key(left, right);
    const ch_vocab_pair *p = &v->pair[pair_slot(v, key)];
    return p->key == key ? p : NULL;
}

static bool grow_pairs(ch_vocab *v) {
    uint32_t old_slots = v->pair ? v->pair_mask + 1 : 0, slots = old_slots ? 2 * old_slots : 1024;
    ch_vocab_pair *old = v->pair, *grown = slots ? ch_alloc_array(slots, sizeof *grown) : NULL;
    if (!grown) return false;
    for (uint32_t i = 0; i < slots; i++) grown[i].key = PAIR_FREE;
    v->pair = grown;
    v->pair_mask = slots - 1;
    for (uint32_t i = 0; i < old_slots; i++)
        if (old[i].key != PAIR_FREE) grown[pair_slot(v, old[i].key)] = old[i];
    ch_free(old);
    return true;
}

bool ch_vocab_pair_add(ch_vocab *v, int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    if ((!v->pair || v->n_pair >= v->pair_mask / 2) && !grow_pairs(v)) return false;
    uint64_t key = pair_key(left, right);
    ch_vocab_pair *p = &v->pair[pair_slot(v, key)];
    if (p->key == key) return true;
    *p = (ch_vocab_pair){key, rank, merged};
    v->n_pair++;
    return true;
}

static bool from_text(const ch_vocab *v, int32_t sym) { return sym >= v->n || !(v->flag[sym] & CH_VOCAB_NO_TEXT); }

// "left right" becomes the pair; the spelling of the merged symbol is put together in join.
static int load_merge(ch_vocab *v, ch_gguf_str m, uint64_t i, ch_buf *join, uint8_t *produced, ch_error *e) {
    const char *space = m.n > 2 ? memchr(m.p + 1, ' ', m.n - 1) : NULL;
    size_t n_left = space ? (size_t)(space - m.p) : 0;
    if (!space || n_left + 1 == m.n)
        return ch_error_set(e, CH_EFORMAT, "tokenizer.ggml.merges[%llu]: expected two strings and a space, found \"%.*s\"",
                            (unsigned long long)i, m.n > 60 ? 60 : (int)m.n, m.p);
    ch_buf_reset(join);
    bool ok = ch_buf_append(join, m.p, n_left) && ch_buf_append(join, space + 1, m.n - n_left - 1);
    int32_t left = ok ? ch_vocab_intern(v, m.p, n_left) : -1;
    int32_t right = left >= 0 ? ch_vocab_intern(v, space + 1, m.n - n_left - 1) : -1;
    int32_t merged = right >= 0 ? ch_vocab_intern(v, join->data, join->len) : -1;
    if (merged < 0) return ch_error_set(e, CH_ENOMEM, "no memory for merge %llu", (unsigned long long)i);
    if (merged < v->n) produced[merged] = 1;
    if (from_text(v, merged) && !ch_vocab_pair_add(v, left, right, (uint32_t)i, merged))
        return ch_error_set(e, CH_ENOMEM, "no memory for merge %llu", (unsigned long long)i);
    return 0;
}

int ch_vocab_load_merges(ch_vocab *v, const ch_gguf *g, uint8_t *produced, ch_error *e) {
    const ch_gguf_kv *kv = ch_gguf_find(g, "tokenizer.ggml.merges");
    if (kv->type != CH_GGUF_ARR || kv->elem != CH_GGUF_STR)
        return ch_error_set(e, CH_EFORMAT, "tokenizer.ggml.merges: expected an array of strings");
    if (kv->n > INT32_MAX / 4) return ch_error_set(e, CH_ELIMIT, "tokenizer.ggml.merges: more than %d merges", INT32_MAX / 4);
    ch_buf join = {0};
    int rc = 0;
    for (uint64_t i = 0; !rc && i < kv->n; i++) rc = load_merge(v, ch_gguf_arr_str(g, kv, i), i, &join, produced, e);
    ch_buf_free(&join);
    return rc;
}

// Every way to cut token id in two symbols is a pair that becomes id.
static bool add_splits(ch_vocab *v, int32_t id, uint32_t rank) {
    char text[CH_VOCAB_MAX_MERGED]; // a copy: interning moves the pool
    size_t n = v->off[id + 1] - v->off[id], n_first, len;
    uint32_t cp;
    memcpy(text, v->pool + v->off[id], n);
    n_first = ch_utf8_decode(text, n, &cp);
    for (size_t cut = n_first; cut < n; cut += len) {
        len = ch_utf8_decode(text + cut, n - cut, &cp);
        // One character is always a symbol, in the vocabulary or not.
        int32_t left = cut == n_first ? ch_vocab_intern(v, text, cut) : ch_vocab_symbol(v, text, cut);
        int32_t right = n - cut == len ? ch_vocab_intern(v, text + cut, n - cut) : ch_vocab_symbol(v, text + cut, n - cut);
        if ((cut == n_first && left < 0) || (n - cut == len && right < 0)) return false;
        bool usable = left >= 0 && (from_text(v, left) || cut == n_first);
        usable = usable && right >= 0 && (from_text(v, right) || n - cut == len);
        if (usable && !ch_vocab_pair_add(v, left, right, rank, id)) return false;
    }
    return true;
}

int ch_vocab_build_merges(ch_vocab *v, const uint32_t *rank, ch_error *e) {
    for (int32_t id = 0; id < v->n; id++) {
        size_t n = v->off[id + 1] - v->off[id];
        if (n < 2 || n > CH_VOCAB_MAX_MERGED || !from_text(v, id)) continue;
        if (ch_vocab_symbol(v, v->pool + v->off[id], n) != id) continue; // a later token has the same spelling
        if (!add_splits(v, id, rank[id])) return ch_error_set(e, CH_ENOMEM, "no memory for the merges of %d tokens", v->n);
    }
    return 0;
}
