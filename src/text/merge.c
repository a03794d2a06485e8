// Merging of one piece: short pieces by scanning for the smallest rank, long ones with a heap, so that a megabyte without
// a space costs n log n. Equal ranks: leftmost first.
#include <string.h>

#include "text/vocab.h"

enum { SHORT_PIECE = 40 };
#define NO_RANK UINT32_MAX
#define NO_POS UINT32_MAX

bool ch_text_merger_reserve(ch_text_merger *m, size_t n) {
    if (n <= m->cap) return true;
    size_t cap = m->cap ? m->cap : 256;
    while (cap < n) cap *= 2;
    int32_t *sym = ch_realloc(m->sym, cap * sizeof *sym);
    if (sym) m->sym = sym;
    uint32_t *rank = sym ? ch_realloc(m->rank, cap * sizeof *rank) : NULL;
    if (rank) m->rank = rank;
    int32_t *to = rank ? ch_realloc(m->to, cap * sizeof *to) : NULL;
    if (!to) return false;
    m->to = to;
    m->cap = cap;
    return true;
}

void ch_text_merger_free(ch_text_merger *m) {
    ch_free(m->sym);
    ch_free(m->rank);
    ch_free(m->to);
    ch_free(m->prev);
    ch_free(m->next);
    ch_free(m->heap);
    memset(m, 0, sizeof *m);
}

static uint32_t look_up(const ch_vocab *v, int32_t left, int32_t right, int32_t *to) {
    const ch_vocab_pair *p = ch_vocab_pair_find(v, left, right);
    if (!p) return NO_RANK;
    *to = p->merged;
    return p->rank;
}

static size_t merge_short(const ch_vocab *v, ch_text_merger *m, size_t n) {
    int32_t *sym = m->sym, *to = m->to;
    uint32_t *rank = m->rank; // [i]: of the pair i, i + 1
    for (size_t i = 0; i + 1 < n; i++) rank[i] = look_up(v, sym[i], sym[i + 1], &to[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == NO_RANK) break;
        sym[best] = to[best];
        size_t behind = n - best - 2;
        memmove(sym + best + 1, sym + best + 2, behind * sizeof *sym);
        memmove(to + best, to + best + 1, behind * sizeof *to);
        memmove(rank + best, rank + best + 1, behind * sizeof *rank);
        n--;
        if (best > 0) rank[best - 1] = look_up(v, sym[best - 1], sym[best], &to[best - 1]);
        if (best + 1 < n) rank[best] = look_up(v, sym[best], sym[best + 1], &to[best]);
    }
    return n;
}

static void heap_down(uint64_t *h, size_t n, size_t i) {
    uint64_t x = h[i];
    for (size_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && h[c + 1] < h[c]) c++;
        if (h[c] >= x) break;
        h[i] = h[c];
    }
    h[i] = x;
}

static void heap_push(uint64_t *h, size_t *n, uint64_t x) {
    size_t i = (*n)++;
    while (i > 0 && h[(i - 1) / 2] > x) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = x;
}

static bool reserve_list(ch_text_merger *m) {
    if (m->cap_list == m->cap) return true;
    uint32_t *prev = ch_realloc(m->prev, m->cap * sizeof *prev);
    if (prev) m->prev = prev;
    uint32_t *next = prev ? ch_realloc(m->next, m->cap * sizeof *next) : NULL;
    if (next) m->next = next;
    // One entry per pair at first; a merge takes one out and puts at most two in, and there are at most n - 1 merges.
    uint64_t *heap = next ? ch_realloc(m->heap, 2 * m->cap * sizeof *heap) : NULL;
    if (!heap) return false;
    m->heap = heap;
    m->cap_list = m->cap;
    return true;
}

// Sets the pair that begins at pos, and queues it when it merges.
static void set_pair(const ch_vocab *v, ch_text_merger *m, uint32_t pos, uint32_t right) {
    m->rank[pos] = right == NO_POS ? NO_RANK : look_up(v, m->sym[pos], m->sym[right], &m->to[pos]);
    if (m->rank[pos] != NO_RANK) heap_push(m->heap, &m->n_heap, (uint64_t)m->rank[pos] << 32 | pos);
}

static size_t merge_long(const ch_vocab *v, ch_text_merger *m, size_t n) {
    m->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        m->prev[i] = i ? (uint32_t)(i - 1) : NO_POS;
        m->next[i] = i + 1 < n ? (uint32_t)(i + 1) : NO_POS;
        m->rank[i] = i + 1 < n ? look_up(v, m->sym[i], m->sym[i + 1], &m->to[i]) : NO_RANK;
        if (m->rank[i] != NO_RANK) m->heap[m->n_heap++] = (uint64_t)m->rank[i] << 32 | i;
    }
    for (size_t i = m->n_heap / 2; i-- > 0;) heap_down(m->heap, m->n_heap, i);
    while (m->n_heap) {
        uint64_t top = m->heap[0];
        m->heap[0] = m->heap[--m->n_heap];
        if (m->n_heap) heap_down(m->heap, m->n_heap, 0);
        uint32_t pos = (uint32_t)top;
        if (m->rank[pos] != top >> 32) continue; // the pair has changed since it was queued
        uint32_t gone = m->next[pos], after = m->next[gone];
        m->sym[pos] = m->to[pos];
        m->rank[gone] = NO_RANK;
        m->next[pos] = after;
        if (after != NO_POS) m->prev[after] = pos;
        set_pair(v, m, pos, after);
        if (m->prev[pos] != NO_POS) set_pair(v, m, m->prev[pos], pos);
    }
    size_t k = 0;
    for (uint32_t i = 0; i != NO_POS; i = m->next[i]) m->sym[k++] = m->sym[i]; // k <= i
    return k;
}

size_t ch_text_merge(const ch_vocab *v, ch_text_merger *m, size_t n) {
    if (n < 2) return n;
    if (n <= SHORT_PIECE) return merge_short(v, m, n);
    return reserve_list(m) ? merge_long(v, m, n) : SIZE_MAX;
}
