// The trained mini model against greedy completions of an independent engine (mini-eval.json): same tokens, same
// log-probabilities, computed the way a server does it: several sequences of unequal length in one batch, prompts in
// chunks beside sequences that already generate. Needs CHIMERE_TESTDATA; time limit: 300 s.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/base.h"
#include "model/model.h"
#include "seq/seq.h"

#define N_SLOT 4
#define N_BATCH 96 // less than four prompts, so that prefill is cut at odd places
#define NEAR_TIE 0.02
#define LOGPROB_BOUND 0.01

// Where the stored value is off because the reference rounds activations to f16 for F16 weights, which made the router choose
// another expert: the reference's own value for the same weights widened to F32 (F32 key/value cache).
static const struct {
    int item, step;
    double logprob;
} f32_value[] = {{32, 6, -0.42300}, {125, 4, -0.11050}};

// Items taken: every n-th.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ALL_STRIDE = 23, SOME_STRIDE = 151 };
#else
enum { ALL_STRIDE = 1, SOME_STRIDE = 13 };
#endif

typedef struct eval_item {
    int32_t *token; // [n_prompt + n_new], the reference's own continuation after the prompt
    double *logprob; // [n_new]
    int32_t n_prompt, n_new;
} eval_item;

typedef struct slot {
    ch_seq *seq;
    const eval_item *item; // NULL: idle
    int32_t n_fed;         // tokens of item->token already in seq
    int32_t n_now;         // of those, in this step
    bool wants;            // logits asked for in this step
} slot;

typedef struct score {
    int n_item, n_same, n_tie, n_wrong, n_far, n_logprob; // n_far: log-probabilities off by more than the bound
    double max_diff;
} score;

static int32_t *read_ids(const json_t *a, int32_t *out) {
    for (size_t i = 0; i < json_array_size(a); i++) out[i] = (int32_t)json_integer_value(json_array_get(a, i));
    return out + json_array_size(a);
}

static eval_item *load_items(const char *path, size_t *n) {
    json_error_t je;
    json_t *root = json_load_file(path, 0, &je);
    if (!root) fail_msg("%s: %s", path, je.text);
    *n = json_array_size(root);
    eval_item *items = ch_alloc_array(*n, sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < *n; i++) {
        const json_t *o = json_array_get(root, i);
        const json_t *prompt = json_object_get(o, "prompt_tokens"), *next = json_object_get(o, "tokens");
        const json_t *lp = json_object_get(o, "logprobs");
        eval_item *it = &items[i];
        it->n_prompt = (int32_t)json_array_size(prompt);
        it->n_new = (int32_t)json_array_size(next);
        assert_int_equal(json_array_size(lp), it->n_new);
        assert_true(it->n_prompt > 0 && it->n_new > 0);
        it->token = ch_alloc_array((size_t)(it->n_prompt + it->n_new), sizeof *it->token);
        it->logprob = ch_alloc_array((size_t)it->n_new, sizeof *it->logprob);
        assert_true(it->token && it->logprob);
        read_ids(next, read_ids(prompt, it->token));
        for (int32_t k = 0; k < it->n_new; k++) it->logprob[k] = json_number_value(json_array_get(lp, (size_t)k));
    }
    json_decref(root);
    for (size_t i = 0; i < sizeof f32_value / sizeof f32_value[0]; i++)
        items[f32_value[i].item].logprob[f32_value[i].step] = f32_value[i].logprob;
    return items;
}

static void free_items(eval_item *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ch_free(items[i].token);
        ch_free(items[i].logprob);
    }
    ch_free(items);
}

// Scores one row: returns false when this item is finished (its end reached, or the first different token).
static bool judge_row(slot *s, const float *logits, int32_t n_vocab, score *sc) {
    const eval_item *it = s->item;
    int32_t k = s->n_fed - it->n_prompt, want = it->token[s->n_fed], best = 0;
    double sum = 0;
    for (int32_t t = 0; t < n_vocab; t++)
        if (logits[t] > logits[best]) best = t;
    for (int32_t t = 0; t < n_vocab; t++) sum += exp((double)logits[t] - logits[best]);
    if (!isfinite(sum)) fail_msg("a score is not finite (item of %d prompt tokens, step %d)", it->n_prompt, k);
    double lp = (double)logits[want] - logits[best] - log(sum), diff = fabs(lp - it->logprob[k]);
    sc->n_logprob++;
    if (diff > sc->max_diff) sc->max_diff = diff;
    if (diff > LOGPROB_BOUND) {
        sc->n_far++;
        print_message("step %d token %d: log-probability %.5f, reference %.5f\n", k, want, lp, it->logprob[k]);
    }
    if (best != want) {
        double gap = (double)logits[best] - logits[want];
        if (gap < NEAR_TIE) sc->n_tie++;
        else sc->n_wrong++;
        print_message("step %d: token %d where the reference has %d, %.5f apart%s\n", k, best, want, gap,
                      gap < NEAR_TIE ? " (near-tie)" : "");
        return false;
    }
    if (k + 1 == it->n_new) sc->n_same++;
    return k + 1 < it->n_new;
}

static void run_step(ch_model *m, slot *slots, float *logits, score *sc) {
    int32_t token[N_BATCH], out_row[N_SLOT], n_row = 0, n_out = 0, n_seg = 0;
    ch_segment seg[N_SLOT];
    // Generating slots first, so that a long prompt cannot starve them: it gets what is left of the batch.
    for (int pass = 0; pass < 2; pass++) {
        for (slot *s = slots; s < slots + N_SLOT; s++) {
            if (pass == 0) s->n_now = 0;
            bool generating = s->item && s->n_fed >= s->item->n_prompt;
            if (!s->item || generating != (pass == 0) || n_row == N_BATCH) continue;
            int32_t end = generating ? s->n_fed + 1 : s->item->n_prompt;
            s->n_now = end - s->n_fed < N_BATCH - n_row ? end - s->n_fed : N_BATCH - n_row;
            memcpy(token + n_row, s->item->token + s->n_fed, (size_t)s->n_now * sizeof *token);
            n_row += s->n_now;
            seg[n_seg].seq = s->seq;
            seg[n_seg++].n_tok = s->n_now;
            s->wants = s->n_fed + s->n_now >= s->item->n_prompt;
            if (s->wants) out_row[n_out++] = n_row - 1;
        }
    }
    ch_error e = {0};
    ch_batch b = {.token = token, .n_row = n_row, .seg = seg, .n_seg = n_seg, .out_row = out_row, .n_out = n_out};
    if (ch_model_forward(m, &b, logits, &e) != 0) fail_msg("forward: %s", e.msg);
    int32_t n_vocab = ch_model_get_info(m)->n_vocab;
    for (int32_t g = 0, o = 0; g < n_seg; g++) {
        slot *s = slots;
        while (s->seq != seg[g].seq) s++;
        s->n_fed += s->n_now;
        if (s->wants && !judge_row(s, logits + (size_t)o++ * (size_t)n_vocab, n_vocab, sc)) {
            ch_seq_reset(s->seq);
            s->item = NULL;
        }
    }
}

// Every stride-th item of the file, N_SLOT at a time.
static score run_eval(const char *tier, const eval_item *items, size_t n, size_t stride) {
    char path[4096];
    snprintf(path, sizeof path, "%s/models/mini-qwen35moe-f16.gguf", getenv("CHIMERE_TESTDATA"));
    ch_error e = {0};
    ch_model *m = NULL;
    ch_model_params mp = {.tier = tier, .n_batch = N_BATCH, .n_seq = N_SLOT};
    if (ch_model_open(&m, path, &mp, &e) != 0) fail_msg("%s", e.msg);
    const ch_model_info *info = ch_model_get_info(m);
    if (strcmp(info->tier, "ref") == 0 && stride < SOME_STRIDE) stride = SOME_STRIDE; // slow
    const ch_seq_plan *plan = ch_model_plan(m);
    ch_seq_limits lim = {.n_seq = N_SLOT, .n_mark = 1, .n_page = N_SLOT * (512 / plan->page_tokens + 1), .max_tokens = 512};
    ch_seq_pool *pool = NULL;
    if (ch_seq_pool_create(&pool, plan, &lim, &e) != 0) fail_msg("%s", e.msg);
    slot slots[N_SLOT] = {{0}};
    for (int i = 0; i < N_SLOT; i++)
        if (ch_seq_create(&slots[i].seq, pool, &e) != 0) fail_msg("%s", e.msg);
    float *logits = ch_alloc_array((size_t)N_SLOT * (size_t)info->n_vocab, sizeof *logits);
    assert_non_null(logits);

    score sc = {0};
    size_t next = 0;
    for (;;) {
        int n_busy = 0;
        for (slot *s = slots; s < slots + N_SLOT; s++) {
            if (!s->item && next < n) {
                s->item = &items[next];
                s->n_fed = 0;
                next += stride;
                sc.n_item++;
            }
            n_busy += s->item != NULL;
        }
        if (!n_busy) break;
        run_step(m, slots, logits, &sc);
    }
    print_message("tier %s: %d completions: %d the same, %d end in a near-tie, %d differ; %d log-probabilities, largest "
                  "difference %.5f\n", info->tier, sc.n_item, sc.n_same, sc.n_tie, sc.n_wrong, sc.n_logprob, sc.max_diff);
    ch_free(logits);
    for (int i = 0; i < N_SLOT; i++) ch_seq_free(&slots[i].seq);
    ch_seq_pool_free(&pool);
    ch_model_close(&m);
    return sc;
}

static void check_tier(const char *tier, size_t stride) {
    const char *data = getenv("CHIMERE_TESTDATA");
    if (!data) {
        print_message("CHIMERE_TESTDATA is not set\n");
        skip();
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/models/mini-eval.json", data);
    size_t n;
    eval_item *items = load_items(path, &n);
    assert_int_equal(n, 326);
    score sc = run_eval(tier, items, n, stride);
    free_items(items, n);
    assert_true(sc.n_item > 0);
    assert_int_equal(sc.n_wrong, 0);
    assert_int_equal(sc.n_far, 0);
    assert_true(sc.n_same * 100 >= sc.n_item * 97);
}

static void test_best_tier(void **state) {
    (void)state;
    check_tier(NULL, ALL_STRIDE);
}

static void test_ref_tier(void **state) {
    (void)state;
    check_tier("ref", SOME_STRIDE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best_tier), cmocka_unit_test(test_ref_tier)};
    return cmocka_run_group_tests_name("mini_eval", tests, NULL, NULL);
}
