// Ranks over MPI, and what they agree on. The only file that knows MPI (CH_MPI: it is there; see the Makefile).
#include "train/ranks.h"

#include <math.h>

#ifdef CH_MPI
#include <mpi.h>
#endif

enum { CODES = 256 }; // error codes are above -CODES

// The rank with the largest key speaks: one with a message before one without, then the lower one.
int ch_ranks_agree(const ch_train_ranks *r, int rc, ch_error *e) {
    if (r->n < 2) return rc;
    const int key = !rc ? 0 : (e && e->msg[0] ? 2 : 1) * r->n - r->rank;
    double first = rc ? (double)key * CODES - rc : 0;
    r->reduce(r->user, CH_RANKS_MAX_F64, &first, 1);
    if (first <= 0) return 0;
    return (int)(first / CODES) == key ? rc : ch_error_set(e, -(int)fmod(first, CODES), "%s", "");
}

bool ch_ranks_any(const ch_train_ranks *r, bool x) {
    double v = x;
    if (r->n > 1) r->reduce(r->user, CH_RANKS_MAX_F64, &v, 1);
    return v > 0;
}

bool ch_ranks_same(const ch_train_ranks *r, uint64_t x) {
    const double high = (double)(x >> 32), low = (double)(x & 0xffffffffu);
    double v[4] = {high, -high, low, -low};
    if (r->n > 1) r->reduce(r->user, CH_RANKS_MAX_F64, v, 4);
    return v[0] == -v[1] && v[2] == -v[3];
}

#ifdef CH_MPI
enum { MOST = 1 << 22 }; // values of a call: MPI keeps a copy, and counts in int

static void reduce(void *user, int op, void *x, size_t n) {
    (void)user;
    const size_t size = op == CH_RANKS_SUM_F32 ? sizeof(float) : sizeof(double);
    for (size_t at = 0; at < n; at += MOST)
        MPI_Allreduce(MPI_IN_PLACE, (char *)x + at * size, (int)(n - at < MOST ? n - at : MOST), op == CH_RANKS_SUM_F32 ? MPI_FLOAT : MPI_DOUBLE,
                      op == CH_RANKS_MAX_F64 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

int ch_ranks_open(ch_train_ranks *r, ch_error *e) {
    int have, done;
    MPI_Initialized(&done);
    if (done) return ch_error_set(e, CH_ESTATE, "MPI can be joined once in a process");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &have) != MPI_SUCCESS || have < MPI_THREAD_FUNNELED)
        return ch_error_set(e, CH_EUNSUPPORTED, "this MPI cannot be used beside threads");
    *r = (ch_train_ranks){.reduce = reduce};
    MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->n);
    return 0;
}

void ch_ranks_close(ch_train_ranks *r) {
    if (r->reduce == reduce) MPI_Finalize();
    *r = (ch_train_ranks){0};
}
#else
int ch_ranks_open(ch_train_ranks *r, ch_error *e) {
    *r = (ch_train_ranks){0};
    return ch_error_set(e, CH_EUNSUPPORTED, "built without MPI: install libopenmpi-dev and openmpi-bin, and make again");
}

void ch_ranks_close(ch_train_ranks *r) { *r = (ch_train_ranks){0}; }
#endif
