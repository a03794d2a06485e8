// seq: what a sequence remembers, by plan: key/value pages (grow with length, roll back by length, shared by forks) and one
// recurrent slab (fixed size, rolls back to a mark). seq stores bytes and never interprets them: which layer owns which
// bytes of a page or slab is the business of model and block.
//
//   page table   [p0][p1][p2]...      each page: page_tokens positions of every attention layer; reference counted, copied
//                                     when a shared page is about to be written
//   slab         [layer 0 | layer 1 | ...]   conv windows and delta-net states of every recurrent layer
//   journal      [layer 0 | layer 1 | ...]   what the layers need to advance the slab by the tentative rows that are kept
//
// Threading: one driver thread owns a pool and all its sequences. Ownership: sequences and marks borrow from their pool and
// must be freed before it. All memory is taken when the pool is made; nothing here allocates during a step.
#ifndef CH_SEQ_H
#define CH_SEQ_H

#include "base/base.h"

typedef struct ch_seq_plan {
    size_t page_tokens; // positions per page
    size_t page_bytes;  // all attention layers; 0: no attention layer
    size_t slab_bytes;  // all recurrent layers; 0: none
    size_t journal_bytes; // all recurrent layers, for one tentative row
    uint64_t fingerprint; // of model, layer layout and types: a snapshot restores only where it is equal
} ch_seq_plan;

typedef struct ch_seq_pool ch_seq_pool;
typedef struct ch_seq ch_seq;
typedef struct ch_seq_mark ch_seq_mark;

// n_seq sequences and n_mark marks at most at a time, n_page pages together, max_tokens positions per sequence.
enum { CH_SEQ_MAX_DRAFT = 64 };
typedef struct ch_seq_limits {
    size_t n_seq, n_mark, n_page, max_tokens;
    size_t n_draft; // tentative rows that a sequence can hold at a time, up to CH_SEQ_MAX_DRAFT; 0: none
} ch_seq_limits;
int ch_seq_pool_create(ch_seq_pool **p, const ch_seq_plan *plan, const ch_seq_limits *lim, ch_error *e);
void ch_seq_pool_free(ch_seq_pool **p);
size_t ch_seq_pool_bytes(const ch_seq_plan *plan, const ch_seq_limits *lim); // that a pool would take; SIZE_MAX: overflow
size_t ch_seq_pool_free_pages(const ch_seq_pool *p);

int ch_seq_create(ch_seq **s, ch_seq_pool *p, ch_error *e); // length 0, slab zeroed; CH_EBUSY when the pool is exhausted
void ch_seq_free(ch_seq **s);
size_t ch_seq_len(const ch_seq *s); // positions stored
void ch_seq_reset(ch_seq *s);       // as just created; pages given back
// Makes positions [len, len + n) writable. CH_ELIMIT past max_tokens, CH_EBUSY when no page is left (nothing changed).
int ch_seq_extend(ch_seq *s, size_t n, ch_error *e);
void ch_seq_commit(ch_seq *s, size_t n); // len += n, after the step has written them
// Tentative rows: a step has computed n positions past the length without touching slab or length, and left what is needed to
// keep them in the journal. Until they are settled the sequence refuses to extend, fork, truncate and to be marked or saved
// (CH_ESTATE); reset, rollback and restore drop them.
int ch_seq_check_hold(const ch_seq *s, size_t n, ch_error *e); // CH_ELIMIT: more than n_draft
void ch_seq_hold(ch_seq *s, size_t n);
size_t ch_seq_pending(const ch_seq *s);       // rows held, 0: none
void ch_seq_settle(ch_seq *s, size_t n);      // len += n: the first n are kept (their slab is up to date), the rest dropped
uint8_t *ch_seq_journal(const ch_seq *s);     // [layer][n_draft rows]; NULL without recurrent layers or when n_draft is 0
size_t ch_seq_journal_rows(const ch_seq *s);  // n_draft
uint8_t *const *ch_seq_pages(const ch_seq *s); // page p holds positions [p * page_tokens, ...)
uint8_t *ch_seq_slab(const ch_seq *s);         // 64-byte aligned; NULL when slab_bytes is 0

int ch_seq_fork(ch_seq **copy, ch_seq *s, ch_error *e); // slab copied, pages shared
// A mark keeps the slab of this moment. Rollback takes the sequence (or any sequence of the pool that shares the marked
// prefix: the caller vouches) back to it; the mark stays valid until freed.
int ch_seq_mark_create(ch_seq_mark **m, const ch_seq *s, ch_error *e);
size_t ch_seq_mark_len(const ch_seq_mark *m);
void ch_seq_mark_free(ch_seq_mark **m);
int ch_seq_rollback(ch_seq *s, const ch_seq_mark *m, ch_error *e);
// Back to n positions without a mark: only where there is no recurrent slab, or n is 0 or the length (else CH_ESTATE).
int ch_seq_truncate(ch_seq *s, size_t n, ch_error *e);

// Snapshot: versioned, checksummed, tied to plan fingerprint and to the token ids that led here (docs/FORMATS.md).
int ch_seq_snapshot(const ch_seq *s, const int32_t *token, size_t n_token, ch_buf *out, ch_error *e); // n_token = length
// Restores into s (reset first). Token ids are copied to token[0..max_token) and *n_token set.
int ch_seq_restore(ch_seq *s, const void *data, size_t size, int32_t *token, size_t max_token, size_t *n_token, ch_error *e);

#endif
