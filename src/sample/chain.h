// What the samplers of the chain share: the list of candidates they narrow. Private to sample/.
#ifndef CH_SAMPLE_CHAIN_H
#define CH_SAMPLE_CHAIN_H

#include "sample/sample.h"

// n >= 1 always, before and after each sampler. No score is NaN or +infinity, and at least one is finite.
typedef struct ch_cands {
    ch_candidate *c; // [n]
    size_t n;
    bool sorted; // best first
} ch_cands;

// Best first: higher score, then lower id. A total order, so results never depend on how a selection is done.
static inline bool ch_sample_before(const ch_candidate *a, const ch_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

float ch_sample_max_logit(const ch_cands *cs);
// Keeps the k best, sorted; 1 <= k <= n. Time n + m log k with m the candidates that beat the k-th so far.
void ch_sample_select_best(ch_cands *cs, size_t k);

#define CH_SAMPLER(name) void ch_sample_apply_##name(ch_cands *cs, const double *v); // v: [CH_SAMPLE_N_PARAM]
#include "sample/list.h"

#endif
