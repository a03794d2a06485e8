// train, private: processes that share the rows of each batch. One thread per process calls these.
//
// A step's own numbers go through `reduce`, which every rank calls in the same order with the same n. It cannot fail: a
// transport that breaks ends the process.
#ifndef CH_TRAIN_RANKS_H
#define CH_TRAIN_RANKS_H

#include "base/base.h"

enum { CH_RANKS_SUM_F32, CH_RANKS_SUM_F64, CH_RANKS_MAX_F64 };

typedef struct ch_train_ranks {
    int rank, n; // n 0 or 1: alone
    void *user;
    void (*reduce)(void *user, int op, void *x, size_t n); // over all ranks, in place; the same bits everywhere. Not called alone
} ch_train_ranks;

// Joins the other processes that the MPI launcher started. CH_EUNSUPPORTED: built without MPI.
int ch_ranks_open(ch_train_ranks *r, ch_error *e);
void ch_ranks_close(ch_train_ranks *r); // waits for all; not open: nothing

// On every rank: 0, or the code of the first rank with an error; that one keeps its message, the others get an empty one.
// e is as it was before the call that gave rc, or holds its error.
int ch_ranks_agree(const ch_train_ranks *r, int rc, ch_error *e);
bool ch_ranks_any(const ch_train_ranks *r, bool x);
bool ch_ranks_same(const ch_train_ranks *r, uint64_t x);

#endif
