// Tokenised documents: in memory, or mapped from a cache file. Private to src/train.
#ifndef CH_TRAIN_STORE_H
#define CH_TRAIN_STORE_H

#include "train/data.h"

// Documents follow each other: document d has tokens [begin[d], begin[d + 1]).
typedef struct ch_store {
    size_t n_doc;
    uint64_t n_token;
    const uint64_t *begin;  // [n_doc + 1]
    const int32_t *token;   // [n_token]
    const uint16_t *weight; // [n_token] f16: loss weight of this token as a target
    const uint8_t *source;  // [n_doc]
    uint64_t key;           // of files, vocabulary, template and weights
    bool from_cache;
    ch_map map; // of the cache file; else the arrays are the store's own
} ch_store;

// key: what the content depends on. Loads p->cache when it holds this key, else tokenises, and writes it where a path is given.
int ch_store_open(ch_store *s, const ch_train_data_params *p, ch_error *e);
// A cache file's bytes, 8-byte aligned, which s then points into and does not own; false: of something else, cut or damaged.
bool ch_store_read(ch_store *s, const ch_train_data_params *p, uint64_t key, const uint8_t *data, size_t size);
void ch_store_close(ch_store *s);

#endif
