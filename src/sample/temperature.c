// temperature: flattens (above 1) or sharpens (below 1) what is left. Temperature 0 never comes here (the best is taken).
#include "sample/chain.h"

void ch_sample_apply_temperature(ch_cands *cs, const double *v) {
    double t = v[CH_SAMPLE_temperature];
    if (t == 1.0)
        return;
    // Differences to the best are scaled, not the scores: however small t is, the best stays 0 and nothing becomes NaN.
    double best = (double)ch_sample_max_logit(cs);
    for (size_t i = 0; i < cs->n; i++) {
        double d = ((double)cs->c[i].logit - best) / t;
        cs->c[i].logit = d < -1e30 ? -1e30f : (float)d;
    }
}
