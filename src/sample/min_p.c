// min_p: keep candidates whose probability is at least this share of the best one's. Order is kept.
#include <math.h>

#include "sample/chain.h"

void ch_sample_apply_min_p(ch_cands *cs, const double *v) {
    double share = v[CH_SAMPLE_min_p];
    if (!(share > 0.0))
        return;
    // p_i >= share * p_max is logit_i >= logit_max + ln(share). With share 1 only equals of the best stay: never none.
    double least = (double)ch_sample_max_logit(cs) + log(share);
    size_t n = 0;
    for (size_t i = 0; i < cs->n; i++)
        if ((double)cs->c[i].logit >= least)
            cs->c[n++] = cs->c[i];
    cs->n = n;
}
