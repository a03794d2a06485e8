// top_p: keep the smallest set of best candidates whose probability together reaches p.
#include <math.h>

#include "sample/chain.h"

// In-place heap, best at the root. Only as many candidates as are kept are ever put in order: with 248k candidates and a
// few hundred kept this is far cheaper than sorting them all.
static void sift_down(ch_candidate *c, size_t n, size_t i) {
    for (;;) {
        size_t best = i, l = 2 * i + 1, r = l + 1;
        if (l < n && ch_sample_before(&c[l], &c[best]))
            best = l;
        if (r < n && ch_sample_before(&c[r], &c[best]))
            best = r;
        if (best == i)
            return;
        ch_candidate t = c[i];
        c[i] = c[best];
        c[best] = t;
        i = best;
    }
}

static size_t keep_sorted(const ch_cands *cs, double best, double need) {
    double sum = 0.0;
    size_t i = 0;
    while (i < cs->n) {
        sum += exp((double)cs->c[i++].logit - best);
        if (sum >= need)
            break;
    }
    return i;
}

// Pops the best ones to the end of the array, then brings them to the front in order.
static size_t keep_heap(ch_cands *cs, double best, double need) {
    ch_candidate *c = cs->c;
    size_t left = cs->n;
    for (size_t i = left / 2; i-- > 0;)
        sift_down(c, left, i);
    double sum = 0.0;
    while (left > 0) {
        ch_candidate top = c[0];
        c[0] = c[--left];
        c[left] = top;
        sift_down(c, left, 0);
        sum += exp((double)top.logit - best);
        if (sum >= need)
            break;
    }
    size_t kept = cs->n - left;
    for (size_t i = 0, j = cs->n - 1; i < j; i++, j--) {
        ch_candidate t = c[i];
        c[i] = c[j];
        c[j] = t;
    }
    return kept;
}

void ch_sample_apply_top_p(ch_cands *cs, const double *v) {
    double p = v[CH_SAMPLE_top_p];
    if (p >= 1.0 || cs->n < 2)
        return;
    double best = (double)ch_sample_max_logit(cs), sum = 0.0;
    for (size_t i = 0; i < cs->n; i++)
        sum += exp((double)cs->c[i].logit - best);
    cs->n = cs->sorted ? keep_sorted(cs, best, p * sum) : keep_heap(cs, best, p * sum);
    cs->sorted = true;
}
