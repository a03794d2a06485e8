// Inside of the tokenizer's trainer: distinct words with their counts, and the merges found among them. Private to src/train.
#ifndef CH_TRAIN_BPE_H
#define CH_TRAIN_BPE_H

#include "train/train.h"

#define CH_BPE_MAX_WORD 1024 // bytes; of longer pieces (data, not language) only so many take part, each stretch a word of its own

typedef struct ch_bpe_word {
    uint64_t count;
    size_t at;  // first byte, in ch_bpe_words.byte; the symbols of the word lie at the same place of ch_bpe_merger.sym
    uint32_t n; // bytes
} ch_bpe_word;

typedef struct ch_bpe_words {
    ch_bpe_word *word; // [n], in the order they were first seen
    size_t n, cap;
    ch_buf byte;
    uint32_t *map; // [mask + 1] word + 1, 0: free
    size_t mask;
    uint64_t n_bytes; // of all text read
} ch_bpe_words;
int ch_bpe_count_words(ch_bpe_words *w, const ch_train_bpe_params *p, ch_error *e);
void ch_bpe_words_free(ch_bpe_words *w);

// A symbol: one of the 256 bytes, or a merge of two smaller ones.
typedef struct ch_bpe_symbol {
    size_t at; // spelling, in ch_bpe_merges.spelling
    uint32_t n;
    int32_t left, right; // -1: a byte
} ch_bpe_symbol;
typedef struct ch_bpe_merges {
    ch_bpe_symbol *symbol; // [n]
    int32_t n;
    ch_buf spelling; // raw bytes
    uint64_t n_tokens; // of all text, in the end
} ch_bpe_merges;
// Merges the most frequent pair again and again, up to n_symbol symbols or while a pair occurs twice.
int ch_bpe_merge(ch_bpe_merges *m, const ch_bpe_words *w, int32_t n_symbol, const ch_train_bpe_params *p, ch_error *e);
void ch_bpe_merges_free(ch_bpe_merges *m);

#endif
