// One vector out of the hidden rows of a text, for embeddings.
#include <math.h>
#include <string.h>

#include "model/model.h"

void ch_pooling_begin(ch_pooling *p, ch_pooling_kind kind, float *sum, size_t n_embd) {
    *p = (ch_pooling){.kind = kind, .n_embd = n_embd, .sum = sum};
    memset(sum, 0, n_embd * sizeof *sum);
}

void ch_pooling_push(ch_pooling *p, const float *hidden, size_t n_row) {
    if (!n_row) return;
    size_t n = p->n_embd;
    if (p->kind == CH_POOLING_LAST) memcpy(p->sum, hidden + (n_row - 1) * n, n * sizeof *p->sum);
    if (p->kind == CH_POOLING_CLS && !p->n_row) memcpy(p->sum, hidden, n * sizeof *p->sum);
    if (p->kind == CH_POOLING_MEAN) // row by row, so that the sum does not depend on how the text was cut
        for (size_t i = 0; i < n_row; i++)
            for (size_t k = 0; k < n; k++) p->sum[k] += hidden[i * n + k];
    p->n_row += n_row;
}

int ch_pooling_finish(ch_pooling *p, ch_error *e) {
    if (!p->n_row) return ch_error_set(e, CH_ERANGE, "embedding of no tokens");
    double norm = 0;
    for (size_t k = 0; k < p->n_embd; k++) {
        if (p->kind == CH_POOLING_MEAN) p->sum[k] /= (float)p->n_row;
        norm += (double)p->sum[k] * p->sum[k];
    }
    if (!isfinite(norm) || norm == 0) return ch_error_set(e, CH_EINTERNAL, "the embedding has no length (%g)", norm);
    for (size_t k = 0; k < p->n_embd; k++) p->sum[k] = (float)(p->sum[k] / sqrt(norm));
    return CH_OK;
}
