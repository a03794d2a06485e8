// Private to seq: what a pool, a sequence and a mark look like.
#ifndef CH_SEQ_POOL_H
#define CH_SEQ_POOL_H

#include "seq/seq.h"

struct ch_seq {
    ch_seq_pool *pool; // NULL: this place is free
    uint8_t **page;    // [n_page], room for max_pages
    uint8_t *slab;     // [slab_bytes]
    uint8_t *journal;  // [n_draft * journal_bytes], or NULL
    size_t n_page, len;
    size_t n_pending;  // tentative rows that wait to be settled
};

struct ch_seq_mark {
    ch_seq_pool *pool; // NULL: this place is free
    uint8_t **page;    // shared with the sequence; the last one is copied by whoever writes first
    uint8_t *slab;
    size_t n_page, len;
};

struct ch_seq_pool {
    ch_seq_plan plan;
    ch_seq_limits lim;
    size_t slab_stride, max_pages;
    uint8_t *page_mem, *slab_mem, *journal_mem;
    int32_t *page_refs;                // [n_page]
    int32_t *page_stack, *slab_stack;  // free ones
    size_t n_free_page, n_free_slab;
    ch_seq *seqs;       // [n_seq]
    ch_seq_mark *marks; // [n_mark]
    uint8_t **tables;   // page tables of all of them
};

// CH_ESTATE while tentative rows wait.
int ch_seq_check_settled(const ch_seq *s, const char *what, ch_error *e);

#endif
