// Trie of the spellings that are matched as whole strings (control and user-defined tokens).
#include <string.h>

#include "text/vocab.h"

#define TRIE_FREE UINT64_MAX

bool ch_text_trie_init(ch_text_trie *t, size_t total_bytes, uint64_t seed) {
    if (total_bytes >= (1u << 29)) return false;
    uint32_t slots = 16;
    while (slots < 2 * total_bytes) slots *= 2;
    t->seed = seed;
    t->mask = slots - 1;
    t->key = ch_alloc_array(slots, sizeof *t->key);
    t->child = ch_alloc_array(slots, sizeof *t->child);
    t->token = ch_alloc_array(total_bytes + 1, sizeof *t->token);
    if (!t->key || !t->child || !t->token) return false;
    memset(t->key, 0xFF, slots * sizeof *t->key);
    t->n_node = 1;
    t->token[0] = -1;
    return true;
}

static uint32_t slot_of(const ch_text_trie *t, uint64_t key) {
    uint32_t i = (uint32_t)ch_vocab_mix(key, t->seed) & t->mask;
    while (t->key[i] != key && t->key[i] != TRIE_FREE) i = (i + 1) & t->mask;
    return i;
}

uint32_t ch_text_trie_step(const ch_text_trie *t, uint32_t node, uint8_t byte) {
    uint64_t key = (uint64_t)node << 8 | byte;
    uint32_t i = slot_of(t, key);
    return t->key[i] == key ? t->child[i] : 0;
}

// The bytes of all texts together are at most the total_bytes given to init.
void ch_text_trie_add(ch_text_trie *t, const char *text, size_t n, int32_t token) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = (uint64_t)node << 8 | (uint8_t)text[i];
        uint32_t s = slot_of(t, key);
        if (t->key[s] != key) {
            t->key[s] = key;
            t->child[s] = t->n_node;
            t->token[t->n_node++] = -1;
        }
        node = t->child[s];
    }
    if (t->token[node] < 0) t->token[node] = token;
    t->first[(uint8_t)text[0]] = true;
}

void ch_text_trie_free(ch_text_trie *t) {
    ch_free(t->key);
    ch_free(t->child);
    ch_free(t->token);
    memset(t, 0, sizeof *t);
}
