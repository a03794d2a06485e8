// Finds the merges: pairs of neighbouring symbols are counted once over the distinct words, and after every merge only the words
// that hold the merged pair are touched. A heap gives the most frequent pair; its counts may be outdated and are then put right
// when they come up.
#include <string.h>

#include "train/bpe.h"

typedef struct bpe_pair {
    uint64_t key; // left << 32 | right
    uint64_t count;
    uint32_t *word; // [n] words that held it once, possibly several times
    uint32_t n, cap;
} bpe_pair;

typedef struct heap_entry {
    uint64_t count;
    uint32_t pair;
} heap_entry;

typedef struct merger {
    ch_bpe_merges *m;
    const ch_bpe_words *w;
    int32_t *sym;   // symbols of word i at [word[i].at, + length[i])
    uint32_t *length;
    bpe_pair *pair; // [n_pair]
    size_t n_pair, cap_pair;
    uint32_t *map; // [mask + 1] pair + 1, 0: free
    size_t mask;
    heap_entry *heap;
    size_t n_heap, cap_heap;
    uint32_t *changed; // pairs whose count rose in the present merge
    size_t n_changed, cap_changed;
} merger;

static int no_memory(ch_error *e) { return ch_error_set(e, CH_ENOMEM, "no memory for the pairs of the text"); }

static int compare_spelling(const ch_bpe_merges *m, int32_t a, int32_t b) {
    const ch_bpe_symbol *x = &m->symbol[a], *y = &m->symbol[b];
    size_t n = x->n < y->n ? x->n : y->n;
    int c = memcmp(m->spelling.data + x->at, m->spelling.data + y->at, n);
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

// Whether entry x comes before y.
static bool before(const merger *g, heap_entry x, heap_entry y) {
    if (x.count != y.count || x.pair == y.pair)
        return x.count > y.count;
    uint64_t a = g->pair[x.pair].key, b = g->pair[y.pair].key;
    int c = compare_spelling(g->m, (int32_t)(a >> 32), (int32_t)(b >> 32));
    return c ? c < 0 : compare_spelling(g->m, (int32_t)(uint32_t)a, (int32_t)(uint32_t)b) < 0;
}

static bool heap_push(merger *g, heap_entry x) {
    if (g->n_heap == g->cap_heap) {
        size_t cap = g->cap_heap ? 2 * g->cap_heap : 4096;
        heap_entry *more = ch_realloc(g->heap, cap * sizeof *more);
        if (!more)
            return false;
        g->heap = more;
        g->cap_heap = cap;
    }
    size_t i = g->n_heap++;
    while (i > 0 && before(g, x, g->heap[(i - 1) / 2])) {
        g->heap[i] = g->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    g->heap[i] = x;
    return true;
}

static heap_entry heap_pop(merger *g) {
    heap_entry top = g->heap[0], x = g->heap[--g->n_heap];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < g->n_heap; i = c) {
        if (c + 1 < g->n_heap && before(g, g->heap[c + 1], g->heap[c]))
            c++;
        if (!before(g, g->heap[c], x))
            break;
        g->heap[i] = g->heap[c];
    }
    g->heap[i] = x;
    return top;
}

static size_t pair_hash(uint64_t key) { return (size_t)(key * 0x9e3779b97f4a7c15u >> 20); }

static bool grow_map(merger *g) {
    size_t mask = g->mask ? 2 * g->mask + 1 : 16383;
    uint32_t *map = ch_alloc_array(mask + 1, sizeof *map);
    if (!map)
        return false;
    for (size_t i = 0; i < g->n_pair; i++) {
        size_t at = pair_hash(g->pair[i].key) & mask;
        while (map[at])
            at = (at + 1) & mask;
        map[at] = (uint32_t)i + 1;
    }
    ch_free(g->map);
    g->map = map;
    g->mask = mask;
    return true;
}

// Finds or adds; UINT32_MAX: no memory.
static uint32_t find_pair(merger *g, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    if ((g->n_pair + 1) * 2 > g->mask && !grow_map(g))
        return UINT32_MAX;
    size_t at = pair_hash(key) & g->mask;
    for (; g->map[at]; at = (at + 1) & g->mask)
        if (g->pair[g->map[at] - 1].key == key)
            return g->map[at] - 1;
    if (g->n_pair == g->cap_pair) {
        size_t cap = g->cap_pair ? 2 * g->cap_pair : 4096;
        bpe_pair *more = cap < UINT32_MAX ? ch_realloc(g->pair, cap * sizeof *more) : NULL;
        if (!more)
            return UINT32_MAX;
        g->pair = more;
        g->cap_pair = cap;
    }
    g->pair[g->n_pair] = (bpe_pair){.key = key};
    g->map[at] = (uint32_t)++g->n_pair;
    return (uint32_t)g->n_pair - 1;
}

static bool note_changed(merger *g, uint32_t pair) {
    if (g->n_changed == g->cap_changed) {
        size_t cap = g->cap_changed ? 2 * g->cap_changed : 1024;
        uint32_t *more = ch_realloc(g->changed, cap * sizeof *more);
        if (!more)
            return false;
        g->changed = more;
        g->cap_changed = cap;
    }
    g->changed[g->n_changed++] = pair;
    return true;
}

static bool add_pair(merger *g, int32_t left, int32_t right, uint32_t word) {
    uint32_t i = find_pair(g, left, right);
    if (i == UINT32_MAX)
        return false;
    bpe_pair *p = &g->pair[i];
    p->count += g->w->word[word].count;
    if (p->n && p->word[p->n - 1] == word) // a word's pairs are added one after the other
        return true;
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 4;
        uint32_t *more = ch_realloc(p->word, cap * sizeof *more);
        if (!more)
            return false;
        p->word = more;
        p->cap = cap;
    }
    p->word[p->n++] = word;
    return note_changed(g, i);
}

static void drop_pair(merger *g, int32_t left, int32_t right, uint32_t word) {
    uint32_t i = find_pair(g, left, right); // it is there
    if (i != UINT32_MAX)
        g->pair[i].count -= g->w->word[word].count;
}

static void keep_pair(merger *g, int32_t left, int32_t right, uint32_t word) {
    uint32_t i = find_pair(g, left, right);
    if (i != UINT32_MAX)
        g->pair[i].count += g->w->word[word].count;
}

// Replaces the pair in one word: all its old pairs out, all its new pairs in.
static bool merge_word(merger *g, uint32_t word, int32_t left, int32_t right, int32_t merged) {
    int32_t *s = g->sym + g->w->word[word].at;
    uint32_t n = g->length[word], k = 0, found = 0;
    while (found + 1 < n && !(s[found] == left && s[found + 1] == right))
        found++;
    if (found + 1 >= n)
        return true; // merged away since
    for (uint32_t i = 0; i + 1 < n; i++)
        drop_pair(g, s[i], s[i + 1], word);
    for (uint32_t i = 0; i < n; k++) {
        bool hit = i + 1 < n && s[i] == left && s[i + 1] == right;
        s[k] = hit ? merged : s[i];
        i += hit ? 2 : 1;
    }
    g->length[word] = k;
    bool ok = true;
    for (uint32_t i = 0; ok && i + 1 < k; i++) {
        if (s[i] == merged || s[i + 1] == merged)
            ok = add_pair(g, s[i], s[i + 1], word);
        else // it was there before: counted again, and the word is in its list
            keep_pair(g, s[i], s[i + 1], word);
    }
    return ok;
}

static bool put_symbol(ch_bpe_merges *m, const char *a, size_t n_a, const char *b, size_t n_b, int32_t left, int32_t right) {
    size_t at = m->spelling.len;
    // The spellings may lie in the buffer that grows: they are copied first.
    char text[2 * CH_BPE_MAX_WORD];
    memcpy(text, a, n_a);
    memcpy(text + n_a, b, n_b);
    if (!ch_buf_append(&m->spelling, text, n_a + n_b))
        return false;
    m->symbol[m->n++] = (ch_bpe_symbol){at, (uint32_t)(n_a + n_b), left, right};
    return true;
}

static bool start(merger *g, int32_t n_symbol) {
    ch_bpe_merges *m = g->m;
    const ch_bpe_words *w = g->w;
    m->symbol = ch_alloc_array((size_t)n_symbol, sizeof *m->symbol);
    g->sym = ch_alloc_array(w->byte.len + 1, sizeof *g->sym);
    g->length = ch_alloc_array(w->n + 1, sizeof *g->length);
    bool ok = m->symbol && g->sym && g->length;
    for (int i = 0; ok && i < 256; i++)
        ok = put_symbol(m, &(char){(char)i}, 1, "", 0, -1, -1);
    for (size_t i = 0; ok && i < w->byte.len; i++)
        g->sym[i] = (uint8_t)w->byte.data[i];
    for (size_t i = 0; ok && i < w->n; i++) {
        const int32_t *s = g->sym + w->word[i].at;
        g->length[i] = w->word[i].n;
        for (uint32_t k = 0; ok && k + 1 < w->word[i].n; k++)
            ok = add_pair(g, s[k], s[k + 1], (uint32_t)i);
    }
    for (size_t i = 0; ok && i < g->n_pair; i++)
        ok = heap_push(g, (heap_entry){g->pair[i].count, (uint32_t)i});
    return ok;
}

// Takes the most frequent pair off the heap; false: none occurs twice.
static bool take_best(merger *g, uint32_t *pair, bool *ok) {
    while (g->n_heap) {
        heap_entry top = heap_pop(g);
        uint64_t count = g->pair[top.pair].count;
        if (count == top.count && count >= 2) {
            *pair = top.pair;
            return true;
        }
        if (count < top.count && count >= 2 && !heap_push(g, (heap_entry){count, top.pair})) {
            *ok = false;
            return false;
        }
    }
    return false;
}

static bool merge_pair(merger *g, uint32_t pair) {
    ch_bpe_merges *m = g->m;
    int32_t left = (int32_t)(g->pair[pair].key >> 32), right = (int32_t)(uint32_t)g->pair[pair].key, merged = m->n;
    const ch_bpe_symbol *a = &m->symbol[left], *b = &m->symbol[right];
    if (!put_symbol(m, m->spelling.data + a->at, a->n, m->spelling.data + b->at, b->n, left, right))
        return false;
    // The list is taken out: merging adds words to the lists of other pairs, and in a word like "aaa" to this one again.
    uint32_t *word = g->pair[pair].word, n = g->pair[pair].n;
    g->pair[pair].word = NULL;
    g->pair[pair].n = g->pair[pair].cap = 0;
    g->n_changed = 0;
    bool ok = true;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = merge_word(g, word[i], left, right, merged);
    ch_free(word);
    for (size_t i = 0; ok && i < g->n_changed; i++)
        ok = heap_push(g, (heap_entry){g->pair[g->changed[i]].count, g->changed[i]});
    return ok;
}

int ch_bpe_merge(ch_bpe_merges *m, const ch_bpe_words *w, int32_t n_symbol, const ch_train_bpe_params *p, ch_error *e) {
    merger g = {.m = m, .w = w};
    *m = (ch_bpe_merges){0};
    bool ok = start(&g, n_symbol), stopped = false;
    uint32_t pair;
    while (ok && !stopped && m->n < n_symbol && take_best(&g, &pair, &ok)) {
        ok = merge_pair(&g, pair);
        if (p->progress && m->n % 64 == 0)
            stopped = !p->progress(p->progress_user, "merging", (uint64_t)m->n, (uint64_t)n_symbol);
    }
    for (size_t i = 0; ok && i < w->n; i++)
        m->n_tokens += w->word[i].count * g.length[i];
    for (size_t i = 0; i < g.n_pair; i++)
        ch_free(g.pair[i].word);
    ch_free(g.pair);
    ch_free(g.sym);
    ch_free(g.length);
    ch_free(g.map);
    ch_free(g.heap);
    ch_free(g.changed);
    int rc = !ok ? no_memory(e) : stopped ? ch_error_set(e, CH_ECANCELLED, "stopped while merging") : 0;
    if (rc)
        ch_bpe_merges_free(m);
    return rc;
}

void ch_bpe_merges_free(ch_bpe_merges *m) {
    ch_free(m->symbol);
    ch_buf_free(&m->spelling);
    *m = (ch_bpe_merges){0};
}
