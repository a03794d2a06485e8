// Inside of a vocabulary: symbols, the table of merges, the trie of tokens that are matched as whole strings, pieces.
// Private to src/text.
//
// A *symbol* is a token (id < n) or a string that only merges pass through (id >= n). Both tokenizer models are brought
// to one form at load: a pair of neighbouring symbols has a rank (smaller merges first) and the symbol it becomes.
#ifndef CH_TEXT_VOCAB_H
#define CH_TEXT_VOCAB_H

#include "text/pre.h"
#include "text/text.h"

#define CH_VOCAB_MAX_TOKENS (1u << 24)
#define CH_VOCAB_MAX_POOL (1u << 30) // bytes of all spellings
#define CH_VOCAB_MAX_MERGED 256      // longer spellings are never built by merging without a merge list (bounds the load)
#define CH_TRIE_MAX_TEXT 256         // longer spellings are never matched in text (bounds the work per byte)
#define CH_TEXT_MAX (64u << 20)      // bytes of one text to tokenise

enum {
    CH_VOCAB_EOG = 1,
    CH_VOCAB_NO_TEXT = 2, // never the result of merging plain text: control, unknown, byte and tag tokens
    CH_VOCAB_TAG = 4      // user-defined and shaped like a marker: matched in template literals only, when spans are given
};

typedef struct ch_vocab_pair {
    uint64_t key; // left << 32 | right; UINT64_MAX: free
    uint32_t rank;
    int32_t merged;
} ch_vocab_pair;

typedef struct ch_text_trie {
    uint64_t *key;   // [mask + 1] node << 8 | byte; UINT64_MAX: free
    uint32_t *child; // [mask + 1]
    uint32_t mask;
    int32_t *token;  // [n_node] lowest token id spelled by the node, -1: none
    uint32_t n_node; // node 0 is the root
    uint64_t seed;
    bool first[256]; // bytes with which any spelling begins
} ch_text_trie;

struct ch_vocab {
    bool spm;
    bool add_bos, add_eos, add_space_prefix, ignore_merges, nfc;
    bool word_split; // spm: no merge crosses from a non-space to a space, so words can be merged one by one
    int32_t n;       // tokens
    int32_t n_sym;   // tokens and merge-only strings
    int32_t bos, eos, pad, unk, eot, eom;
    uint64_t seed; // of all hash tables, so that a file cannot be built to collide

    char *pool;    // spellings as stored, one after the other
    size_t n_pool, cap_pool;
    uint32_t *off; // [n_sym + 1] into pool
    size_t cap_sym;
    int32_t *map; // [map_mask + 1] spelling -> symbol, -1: free
    uint32_t map_mask;
    uint8_t *type; // [n]
    uint8_t *flag; // [n] CH_VOCAB_*

    ch_vocab_pair *pair; // [pair_mask + 1]
    uint32_t pair_mask, n_pair;
    int32_t byte_sym[256];  // bpe: symbol of the byte; spm: byte token, -1: none
    int32_t ascii_sym[128]; // spm: symbol of an ASCII character (the space is U+2581), -1: none

    char *piece;         // printed bytes of all tokens
    uint32_t *piece_off; // [n + 1]
    ch_text_trie trie;
    ch_text_pre *pre; // bpe only
};

uint64_t ch_vocab_mix(uint64_t key, uint64_t seed);
int32_t ch_vocab_symbol(const ch_vocab *v, const char *text, size_t n); // -1: none
// Finds or adds; -1: out of memory or past a limit.
int32_t ch_vocab_intern(ch_vocab *v, const char *text, size_t n);
bool ch_vocab_pair_add(ch_vocab *v, int32_t left, int32_t right, uint32_t rank, int32_t merged); // first one wins
const ch_vocab_pair *ch_vocab_pair_find(const ch_vocab *v, int32_t left, int32_t right);         // NULL: does not merge
int ch_vocab_char_byte(uint32_t cp);                     // byte of a printable character (ch_text_byte_char); -1: not one of them
bool ch_vocab_is_tag(const char *text, size_t n);        // shaped like a marker: <think>, [INST], <|x|>

int ch_vocab_load_tokens(ch_vocab *v, const ch_gguf *g, const ch_gguf_kv *tokens, ch_error *e);
// Fills the table of pairs. produced: [n] set for tokens that some merge makes.
int ch_vocab_load_merges(ch_vocab *v, const ch_gguf *g, uint8_t *produced, ch_error *e);
int ch_vocab_build_merges(ch_vocab *v, const uint32_t *rank, ch_error *e); // rank: [n]; from spellings, no merge list

bool ch_text_trie_init(ch_text_trie *t, size_t total_bytes, uint64_t seed);
void ch_text_trie_add(ch_text_trie *t, const char *text, size_t n, int32_t token);
uint32_t ch_text_trie_step(const ch_text_trie *t, uint32_t node, uint8_t byte); // 0: no such child
void ch_text_trie_free(ch_text_trie *t);

// NFC of p[0..n): 1: appended to out; 0: it is p itself, out is untouched; negative: CH_ENOMEM. Bytes that are not UTF-8 stay.
int ch_text_nfc(const char *p, size_t n, ch_buf *out);

// Work space of merging one piece; grows, reused from piece to piece.
typedef struct ch_text_merger {
    int32_t *sym; // [cap] in: symbols, negative: unmergeable; out: the merged ones
    uint32_t *rank;
    int32_t *to;
    uint32_t *prev, *next;
    uint64_t *heap; // [2 * cap] rank << 32 | position
    size_t cap, cap_list, n_heap;
} ch_text_merger;
bool ch_text_merger_reserve(ch_text_merger *m, size_t n);
// Merges m->sym[0..n) to the end, in time n log n; returns the new count, SIZE_MAX when out of memory.
size_t ch_text_merge(const ch_vocab *v, ch_text_merger *m, size_t n);
void ch_text_merger_free(ch_text_merger *m);

#endif
