// The chain: parameters, mask, the fast greedy path, selection and the draw.
#include <float.h>
#include <math.h>
#include <string.h>

#include "sample/chain.h"

static const ch_sample_param param_table[] = {
#define CH_SAMPLE_PARAM(name, is_int, min, max, def, key, help) {#name, is_int, min, max, def, key, help},
#include "sample/list.h"
};

typedef void (*apply_fn)(ch_cands *cs, const double *v);
static const apply_fn chain[] = {
#define CH_SAMPLER(name) ch_sample_apply_##name,
#include "sample/list.h"
};

struct ch_sample_work {
    ch_candidate *cand; // [n_vocab]
    int32_t n_vocab;
};

// ---- parameters ---------------------------------------------------------------------------------------------------------

const ch_sample_param *ch_sample_param_at(size_t i) {
    return i < CH_SAMPLE_N_PARAM ? &param_table[i] : NULL;
}

void ch_sample_params_init(ch_sample_params *p) {
    for (size_t i = 0; i < CH_SAMPLE_N_PARAM; i++)
        p->v[i] = param_table[i].def;
}

int ch_sample_check_param(size_t i, double value, ch_error *e) {
    if (i >= CH_SAMPLE_N_PARAM)
        return ch_error_set(e, CH_ERANGE, "sampling parameter %zu: there are %d", i, CH_SAMPLE_N_PARAM);
    const ch_sample_param *p = &param_table[i];
    if (!(value >= p->min && value <= p->max)) // NaN fails too
        return ch_error_set(e, CH_ERANGE, "%s: expected %g to %g, found %g", p->name, p->min, p->max, value);
    if (p->is_int && value != floor(value))
        return ch_error_set(e, CH_ERANGE, "%s: expected a whole number, found %g", p->name, value);
    return CH_OK;
}

// ---- mask ---------------------------------------------------------------------------------------------------------------

int ch_sample_mask_init(ch_sample_mask *m, const ch_vocab *v, int32_t n_vocab, ch_error *e) {
    *m = (ch_sample_mask){0};
    if (n_vocab < 1)
        return ch_error_set(e, CH_ERANGE, "sampling: expected at least one token, found %d", (int)n_vocab);
    m->allow = ch_alloc((size_t)n_vocab);
    if (!m->allow)
        return ch_error_set(e, CH_ENOMEM, "sampling: no memory for a mask of %d tokens", (int)n_vocab);
    m->n_vocab = n_vocab;
    int32_t n_known = v ? ch_vocab_n(v) : n_vocab;
    for (int32_t i = 0; i < n_vocab; i++) {
        m->allow[i] = i < n_known && (!v || ch_vocab_type(v, i) != CH_TOKEN_UNUSED);
        m->n_banned += !m->allow[i];
    }
    if (m->n_banned == n_vocab) {
        ch_sample_mask_free(m);
        return ch_error_set(e, CH_EFORMAT, "vocabulary: none of %d tokens may be generated", (int)n_vocab);
    }
    return CH_OK;
}

void ch_sample_mask_free(ch_sample_mask *m) {
    ch_free(m->allow);
    *m = (ch_sample_mask){0};
}

// ---- work ---------------------------------------------------------------------------------------------------------------

int ch_sample_work_create(ch_sample_work **w, int32_t n_vocab, ch_error *e) {
    *w = NULL;
    if (n_vocab < 1)
        return ch_error_set(e, CH_ERANGE, "sampling: expected at least one token, found %d", (int)n_vocab);
    ch_sample_work *s = ch_alloc(sizeof *s);
    if (s)
        s->cand = ch_alloc_array((size_t)n_vocab, sizeof *s->cand);
    if (!s || !s->cand) {
        ch_free(s);
        return ch_error_set(e, CH_ENOMEM, "sampling: no memory for %d candidates", (int)n_vocab);
    }
    s->n_vocab = n_vocab;
    *w = s;
    return CH_OK;
}

void ch_sample_work_free(ch_sample_work **w) {
    if (!*w)
        return;
    ch_free((*w)->cand);
    ch_free(*w);
    *w = NULL;
}

// ---- selection ----------------------------------------------------------------------------------------------------------

float ch_sample_max_logit(const ch_cands *cs) {
    if (cs->sorted)
        return cs->c[0].logit;
    float best = cs->c[0].logit;
    for (size_t i = 1; i < cs->n; i++)
        best = cs->c[i].logit > best ? cs->c[i].logit : best;
    return best;
}

// Heap of the k best so far with the worst of them at the root.
static void sift_down_worst(ch_candidate *c, size_t n, size_t i) {
    for (;;) {
        size_t worst = i, l = 2 * i + 1, r = l + 1;
        if (l < n && ch_sample_before(&c[worst], &c[l]))
            worst = l;
        if (r < n && ch_sample_before(&c[worst], &c[r]))
            worst = r;
        if (worst == i)
            return;
        ch_candidate t = c[i];
        c[i] = c[worst];
        c[worst] = t;
        i = worst;
    }
}

void ch_sample_select_best(ch_cands *cs, size_t k) {
    ch_candidate *c = cs->c;
    if (!cs->sorted) {
        for (size_t i = k / 2; i-- > 0;)
            sift_down_worst(c, k, i);
        for (size_t i = k; i < cs->n; i++)
            if (ch_sample_before(&c[i], &c[0])) {
                c[0] = c[i];
                sift_down_worst(c, k, 0);
            }
        for (size_t n = k; n > 1;) { // heap sort: the worst goes to the end each time
            ch_candidate t = c[0];
            c[0] = c[--n];
            c[n] = t;
            sift_down_worst(c, n, 0);
        }
    }
    cs->n = k;
    cs->sorted = true;
}

// ---- pick ---------------------------------------------------------------------------------------------------------------

// Greatest score in eight independent lanes, so that the compiler can keep them in a vector register. *bad counts NaN and
// +infinity (a comparison that is false for both).
static float scan_max(const float *x, int32_t n, int32_t *bad) {
    float m[8];
    int32_t b[8] = {0}, i = 0;
    for (int j = 0; j < 8; j++)
        m[j] = -INFINITY;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) {
            float v = x[i + j];
            b[j] += !(v <= FLT_MAX);
            m[j] = v > m[j] ? v : m[j];
        }
    for (; i < n; i++) {
        b[0] += !(x[i] <= FLT_MAX);
        m[0] = x[i] > m[0] ? x[i] : m[0];
    }
    float best = -INFINITY;
    *bad = 0;
    for (int j = 0; j < 8; j++) {
        best = m[j] > best ? m[j] : best;
        *bad += b[j];
    }
    return best;
}

static int report_non_finite(const float *x, int32_t n, int32_t bad, ch_error *e) {
    int32_t i = 0;
    while (i < n && x[i] <= FLT_MAX)
        i++;
    return ch_error_set(e, CH_EINTERNAL, "scores of the model: expected finite numbers, found %d of %d that are not "
                        "(first: token %d is %g)", (int)bad, (int)n, (int)i, (double)x[i]);
}

// First id with the greatest score among allowed ones; -1: all are -infinity.
static int32_t best_allowed(const float *x, int32_t n, const ch_sample_mask *m, float best) {
    if (best > -INFINITY)
        for (int32_t i = 0; i < n; i++)
            if (x[i] == best && (!m || m->allow[i]))
                return i;
    int32_t id = -1; // rare: the greatest score belongs to a token that may not be chosen
    for (int32_t i = 0; i < n; i++)
        if ((!m || m->allow[i]) && x[i] > -INFINITY && (id < 0 || x[i] > x[id]))
            id = i;
    return id;
}

static int32_t draw(const ch_cands *cs, ch_rng *rng) {
    double best = (double)ch_sample_max_logit(cs), sum = 0.0;
    for (size_t i = 0; i < cs->n; i++)
        sum += exp((double)cs->c[i].logit - best);
    double left = ch_rng_f64(rng) * sum; // in [0, sum)
    int32_t id = cs->c[0].id;
    for (size_t i = 0; i < cs->n; i++) {
        double w = exp((double)cs->c[i].logit - best);
        if (w > 0.0)
            id = cs->c[i].id; // the last one possible, should rounding carry past the end
        if (left < w)
            break;
        left -= w;
    }
    return id;
}

int ch_sample_pick(ch_sample_work *w, const ch_sample_params *p, const ch_sample_mask *m, ch_rng *rng, const float *logits,
                   int32_t *id, ch_error *e) {
    CH_ASSERT(!m || m->n_vocab == w->n_vocab);
    int32_t n = w->n_vocab, bad;
    float best = scan_max(logits, n, &bad);
    if (bad)
        return report_non_finite(logits, n, bad, e);
    int32_t first = best_allowed(logits, n, m, best);
    if (first < 0)
        return ch_error_set(e, CH_EINTERNAL, "scores of the model: expected at least one token that may be chosen, "
                            "found none in %d", (int)n);
    // One number per token on every path, so that a change of parameters does not shift the later draws.
    if (p->v[CH_SAMPLE_temperature] <= 0.0 || p->v[CH_SAMPLE_top_k] == 1.0) {
        (void)ch_rng_u64(rng);
        *id = first;
        return CH_OK;
    }
    ch_cands cs = {w->cand, 0, false};
    for (int32_t i = 0; i < n; i++)
        if ((!m || m->allow[i]) && logits[i] > -INFINITY)
            cs.c[cs.n++] = (ch_candidate){i, logits[i]};
    for (size_t i = 0; i < sizeof chain / sizeof chain[0]; i++) {
        chain[i](&cs, p->v);
        CH_ASSERT(cs.n >= 1);
    }
    *id = draw(&cs, rng);
    return CH_OK;
}

int32_t ch_sample_logprobs(ch_sample_work *w, const float *logits, int32_t id, float *logprob, ch_candidate *top,
                           int32_t n_top) {
    int32_t n = w->n_vocab, bad;
    double best = (double)scan_max(logits, n, &bad), sum = 0.0;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - best);
    double log_sum = best + log(sum);
    if (logprob)
        *logprob = (float)((double)logits[id] - log_sum);
    if (n_top <= 0)
        return 0;
    n_top = n_top < n ? n_top : n;
    ch_cands cs = {w->cand, (size_t)n, false};
    for (int32_t i = 0; i < n; i++)
        cs.c[i] = (ch_candidate){i, logits[i]};
    ch_sample_select_best(&cs, (size_t)n_top);
    for (int32_t i = 0; i < n_top; i++)
        top[i] = (ch_candidate){cs.c[i].id, (float)((double)cs.c[i].logit - log_sum)};
    return n_top;
}
