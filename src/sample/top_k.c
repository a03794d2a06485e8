// top_k: keep the k best candidates.
#include "sample/chain.h"

void ch_sample_apply_top_k(ch_cands *cs, const double *v) {
    double k = v[CH_SAMPLE_top_k];
    if (k < 1.0 || k >= (double)cs->n)
        return;
    ch_sample_select_best(cs, (size_t)k);
}
