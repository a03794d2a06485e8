// sample: from one row of scores to one token: a mask of tokens that can never be chosen, a chain of filters, a draw.
// It knows nothing of models, requests or threads.
//
// Refuses: rows with NaN or +infinity (CH_EINTERNAL, named), rows that leave nothing to choose. Whatever the parameters, at
// least one candidate survives every filter. -infinity bans a token.
//
// Determinism: equal scores are ordered by id and each draw takes exactly one random number, so a seed gives the same
// tokens whatever else runs.
//
// Threading: a ch_sample_work belongs to one thread at a time; it holds no state between calls, so all slots of one driver
// share it. Ownership: whoever creates frees; nothing allocates in pick and logprobs.
#ifndef CH_SAMPLE_H
#define CH_SAMPLE_H

#include "base/base.h"
#include "text/text.h"

// Parameters by row: CH_SAMPLE_temperature, CH_SAMPLE_top_k, ...
enum {
#define CH_SAMPLE_PARAM(name, is_int, min, max, def, key, help) CH_SAMPLE_##name,
#include "sample/list.h"
    CH_SAMPLE_N_PARAM
};

typedef struct ch_sample_param {
    const char *name;
    bool is_int;
    double min, max, def;
    const char *gguf_key; // NULL: none
    const char *help;
} ch_sample_param;
const ch_sample_param *ch_sample_param_at(size_t i); // NULL: past the last

typedef struct ch_sample_params {
    double v[CH_SAMPLE_N_PARAM];
} ch_sample_params;
void ch_sample_params_init(ch_sample_params *p); // table defaults
// Checks that value may be given to row i: CH_ERANGE names the parameter, the range and the value.
int ch_sample_check_param(size_t i, double value, ch_error *e);

// Which of the n_vocab scores belong to tokens that may be chosen: ids the vocabulary does not have (models pad their
// score rows) and ids of type unused may not.
typedef struct ch_sample_mask {
    uint8_t *allow; // [n_vocab] 1: may be chosen
    int32_t n_vocab, n_banned;
} ch_sample_mask;
// v NULL: all allowed. CH_EFORMAT when nothing is left.
int ch_sample_mask_init(ch_sample_mask *m, const ch_vocab *v, int32_t n_vocab, ch_error *e);
void ch_sample_mask_free(ch_sample_mask *m);

typedef struct ch_candidate {
    int32_t id;
    float logit;
} ch_candidate;

typedef struct ch_sample_work ch_sample_work;
int ch_sample_work_create(ch_sample_work **w, int32_t n_vocab, ch_error *e); // 8 bytes per token of the vocabulary
void ch_sample_work_free(ch_sample_work **w);

// logits: [n_vocab]. *id is a token allowed by m (NULL: all).
int ch_sample_pick(ch_sample_work *w, const ch_sample_params *p, const ch_sample_mask *m, ch_rng *rng, const float *logits,
                   int32_t *id, ch_error *e);
// Natural logarithms of probability in the model's own distribution (all n_vocab scores, temperature 1): of id, and of the
// n_top best tokens, best first. top[i].logit holds the logarithm. logits were accepted by ch_sample_pick.
// n_top <= n_vocab; returns how many were written.
int32_t ch_sample_logprobs(ch_sample_work *w, const float *logits, int32_t id, float *logprob, ch_candidate *top,
                           int32_t n_top);

#endif
