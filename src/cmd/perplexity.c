// chimere perplexity: how well a model predicts texts, and how often drafts of its multi-token prediction block hold.
//
// Several texts run side by side. Without drafts a step takes what fits; with drafts a segment ends where a draft is due, since the
// block can look ahead only from the end of a sequence.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cmd/open_model.h"
#include "train/train.h"

static const int options[] = {CH_OPT_CTX, CH_OPT_SLOTS, CH_OPT_DRAFTS, CH_OPT_LIMIT, CH_OPT_JSON, CH_CMD_MODEL_OPTIONS};

static const ch_cmd_spec spec = {
    .name = "perplexity",
    .usage = "-m FILE TEXT...",
    .about = "For each file: nats per token, perplexity, bits per byte (which can be compared between models of different vocabularies),\n"
             "how often the likeliest token is the right one, and, where the model has a multi-token prediction block, how many of its\n"
             "drafts hold. Files are read as for training (docs/DATA.md): *.jsonl holds chats, of which only what the model writes\n"
             "counts, or texts; any other file is plain text, cut at two empty lines. A text longer than the context begins anew there.\n"
             "A draft is tried wherever the text goes on with the model's own likeliest token, as a greedy decoder would go on: it holds\n"
             "when it is the token that the model then finds likeliest.",
    .examples = "  chimere perplexity -m model.gguf valid.jsonl story.txt\n"
                "  chimere perplexity -m model.gguf --limit 20000 --json valid.jsonl",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
    .min_args = 1,
    .max_args = 4096,
};

enum { MAX_SCORES = 1 << 25 }; // floats of scores at a time: 128 MiB

typedef struct result {
    const char *file;
    uint64_t n_texts, n_tokens, n_bytes, n_best; // n_best: the likeliest token was right
    uint64_t n_drafts, n_held;
    double nats;
} result;

typedef struct slot {
    ch_seq *seq;
    ch_train_text text; // a text, or as much of a long one as fits; n 0: idle
    size_t at;          // tokens in seq
    size_t n_now;       // of this step
    int32_t guess;      // draft for the token after the next one; -1: none
} slot;

typedef struct scorer {
    ch_model *m;
    const ch_model_info *info;
    ch_vocab *vocab;
    ch_seq_pool *pool;
    slot *slot;
    int n_slot;
    size_t n_ctx, n_row; // n_row: most rows of a step
    bool drafts;
    float *logits; // [n_row][n_vocab]
    float *hidden; // [n_slot][n_embd]
    int32_t *token, *out_row; // [n_row]
    ch_segment *seg; // [n_slot]
    ch_seq **draft_seq; // [n_slot]
    int32_t *draft_token, *draft_slot; // [n_slot]
} scorer;

static int32_t find_best(const float *x, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

// ---- one step -----------------------------------------------------------------------------------------------------------
// Position t can carry a draft: the model writes both the next token and the one after it.
static bool may_draft(const scorer *s, const slot *k, size_t t) {
    return s->drafts && t + 2 < k->text.n && k->text.weight[t + 1] && k->text.weight[t + 2];
}

// Rows of a slot's segment: up to the next position with a draft, at most room.
static size_t count_rows(const scorer *s, const slot *k, size_t room) {
    const size_t left = k->text.n - 1 - k->at;
    size_t n = 1;
    while (n < left && n < room && !may_draft(s, k, k->at + n - 1))
        n++;
    return n;
}

static int score_row(const scorer *s, slot *k, size_t t, const float *logits, result *r, int32_t *best, ch_error *e) {
    const int32_t n_vocab = s->info->n_vocab, want = k->text.token[t + 1];
    const char *piece;
    double sum = 0;
    *best = find_best(logits, n_vocab);
    for (int32_t i = 0; i < n_vocab; i++)
        sum += (double)expf(logits[i] - logits[*best]);
    if (!isfinite(sum) || !isfinite(logits[want]))
        return ch_error_set(e, CH_EINTERNAL, "%s: the model gives scores that are no numbers", r->file);
    r->nats += log(sum) + (double)logits[*best] - (double)logits[want];
    r->n_tokens++;
    r->n_best += *best == want;
    r->n_bytes += ch_vocab_piece(s->vocab, want, false, &piece);
    if (k->guess >= 0) {
        r->n_drafts++;
        r->n_held += k->guess == *best;
        k->guess = -1;
    }
    return 0;
}

static int draft(scorer *s, int n, ch_error *e) {
    if (n == 0)
        return 0;
    // Scores of the step are used up: their place takes the drafts'.
    ch_draft d = {.seq = s->draft_seq, .token = s->draft_token, .n_seq = n, .logits = s->logits, .hidden_out = s->hidden};
    int rc = ch_model_draft(s->m, &d, e);
    for (int i = 0; rc == 0 && i < n; i++)
        s->slot[s->draft_slot[i]].guess = find_best(s->logits + (size_t)i * (size_t)s->info->n_vocab, s->info->n_vocab);
    return rc;
}

static int step(scorer *s, result *r, ch_error *e) {
    int32_t n_row = 0, n_out = 0, n_seg = 0, n_draft = 0;
    for (slot *k = s->slot; k < s->slot + s->n_slot; k++) {
        k->n_now = 0;
        if (!k->text.n || (size_t)n_row == s->n_row)
            continue;
        k->n_now = count_rows(s, k, s->n_row - (size_t)n_row);
        for (size_t i = 0; i < k->n_now; i++, n_row++) {
            s->token[n_row] = k->text.token[k->at + i];
            if (k->text.weight[k->at + i + 1])
                s->out_row[n_out++] = n_row;
        }
        s->seg[n_seg++] = (ch_segment){.seq = k->seq, .n_tok = (int32_t)k->n_now};
    }
    ch_batch b = {.token = s->token, .n_row = n_row, .seg = s->seg, .n_seg = n_seg, .out_row = s->out_row, .n_out = n_out};
    int rc = ch_model_forward(s->m, &b, s->logits, e);
    const float *logits = s->logits;
    for (int i = 0; rc == 0 && i < s->n_slot; i++) {
        slot *k = &s->slot[i];
        for (size_t t = k->at; rc == 0 && t < k->at + k->n_now; t++) {
            int32_t best = -1;
            if (!k->text.weight[t + 1])
                continue;
            rc = score_row(s, k, t, logits, r, &best, e);
            logits += s->info->n_vocab;
            if (best == k->text.token[t + 1] && may_draft(s, k, t)) {
                s->draft_seq[n_draft] = k->seq;
                s->draft_token[n_draft] = best;
                s->draft_slot[n_draft++] = i;
            }
        }
        k->at += k->n_now;
        if (k->text.n && k->at + 1 == k->text.n) {
            ch_seq_reset(k->seq);
            k->text.n = 0;
        }
    }
    return rc == 0 ? draft(s, n_draft, e) : rc;
}

// ---- a file -------------------------------------------------------------------------------------------------------------
typedef struct place {
    size_t text, begin;
} place;

// The next piece of the texts; a long text's pieces overlap in one token, so that each token is predicted once.
static bool next_piece(const scorer *s, const ch_train_texts *t, place *p, slot *k, result *r) {
    if (p->text == ch_train_texts_n(t))
        return false;
    const ch_train_text x = ch_train_texts_get(t, p->text);
    const size_t left = x.n - p->begin, n = left > s->n_ctx + 1 ? s->n_ctx + 1 : left;
    k->text = (ch_train_text){.token = x.token + p->begin, .weight = x.weight + p->begin, .n = n};
    k->at = 0;
    k->guess = -1;
    r->n_texts += p->begin == 0;
    p->begin += n - 1;
    if (n == left)
        *p = (place){.text = p->text + 1};
    return true;
}

static int score_texts(scorer *s, const ch_train_texts *t, uint64_t limit, ch_cmd_progress *bar, result *r, ch_error *e) {
    uint64_t total = 0, done = 0;
    place p = {0};
    int rc = 0;
    for (size_t i = 0; i < ch_train_texts_n(t); i++)
        total += ch_train_texts_get(t, i).n;
    for (;;) {
        int n_busy = 0;
        for (slot *k = s->slot; k < s->slot + s->n_slot; k++) {
            if (!k->text.n && (limit == 0 || r->n_tokens < limit) && next_piece(s, t, &p, k, r))
                done += k->text.n;
            n_busy += k->text.n > 0;
        }
        if (n_busy == 0)
            break;
        rc = step(s, r, e);
        if (rc)
            return rc;
        ch_cmd_show_progress(bar, r->file, limit && limit < total ? r->n_tokens : done, limit && limit < total ? limit : total + 1);
    }
    ch_cmd_end_progress(bar);
    return r->n_tokens ? 0 : ch_error_set(e, CH_EFORMAT, "%s: nothing in it counts: no plain text, and no answer in a chat", r->file);
}

static int score_file(scorer *s, uint64_t limit, ch_cmd_progress *bar, result *r, ch_error *e) {
    ch_gguf_str tpl = {0};
    ch_train_texts *t;
    int rc = ch_gguf_get_str(ch_model_gguf(s->m), "tokenizer.chat_template", &tpl, e);
    if (rc >= 0)
        rc = ch_train_texts_open(&t, r->file, s->vocab, tpl.p, tpl.n, ch_cmd_show_progress, bar, e);
    if (rc)
        return rc;
    rc = score_texts(s, t, limit, bar, r, e);
    ch_train_texts_close(&t);
    return rc;
}

// ---- output -------------------------------------------------------------------------------------------------------------
static double share(uint64_t part, uint64_t of) { return of ? (double)part / (double)of : 0; }
static double bits_per_byte(const result *r) { return r->n_bytes ? r->nats / log(2) / (double)r->n_bytes : 0; }

static json_t *describe(const result *r, bool drafts) {
    const double mean = r->nats / (double)r->n_tokens;
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "file", r->file, "texts", (json_int_t)r->n_texts, "tokens",
                          (json_int_t)r->n_tokens, "bytes", (json_int_t)r->n_bytes, "nats_per_token", mean, "perplexity", exp(mean),
                          "bits_per_byte", bits_per_byte(r), "top1", share(r->n_best, r->n_tokens));
    if (o && drafts) {
        json_object_set_new(o, "drafts", json_integer((json_int_t)r->n_drafts));
        json_object_set_new(o, "drafts_held", json_integer((json_int_t)r->n_held));
        json_object_set_new(o, "draft_acceptance", json_real(share(r->n_held, r->n_drafts)));
    }
    return o;
}

static int print_json(const scorer *s, const result *r, int n, const result *all, ch_error *e) {
    json_t *o = describe(all, s->drafts), *list = json_array();
    int rc = o && list ? 0 : ch_error_set(e, CH_ENOMEM, "no memory");
    for (int i = 0; rc == 0 && i < n; i++)
        if (!ch_utf8_valid(r[i].file, strlen(r[i].file)) || json_array_append_new(list, describe(&r[i], s->drafts)))
            rc = ch_error_set(e, CH_EFORMAT, "file %d of %d: its name is not UTF-8 and cannot stand in JSON", i + 1, n);
    const char *model = ch_gguf_path(ch_model_gguf(s->m));
    if (rc == 0 && json_object_set_new(o, "file", json_string(model)))
        rc = ch_error_set(e, CH_EFORMAT, "the model's file: its name is not UTF-8 and cannot stand in JSON");
    if (rc == 0) {
        json_object_set_new(o, "ctx", json_integer((json_int_t)s->n_ctx));
        json_object_set_new(o, "tier", json_string(s->info->tier));
        json_object_set(o, "files", list);
        json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    }
    json_decref(list);
    json_decref(o);
    return rc;
}

static void print_row(const scorer *s, const result *r) {
    const double mean = r->nats / (double)r->n_tokens;
    printf("%-32s %7llu %9llu %10.4f %11.4f %9.4f %7.1f%%", r->file, (unsigned long long)r->n_texts, (unsigned long long)r->n_tokens, mean,
           exp(mean), bits_per_byte(r), 100 * share(r->n_best, r->n_tokens));
    if (s->drafts && r->n_drafts)
        printf(" %11.1f%% of %llu", 100 * share(r->n_held, r->n_drafts), (unsigned long long)r->n_drafts);
    putchar('\n');
}

static void print_head(const scorer *s) {
    printf("%-32s %7s %9s %10s %11s %9s %8s%s\n", "file", "texts", "tokens", "nats/token", "perplexity", "bits/byte", "top 1",
           s->drafts ? "  drafts held" : "");
}

// ---- whole --------------------------------------------------------------------------------------------------------------
static int open_scorer(scorer *s, const ch_cmd_options *o, ch_error *e) {
    s->info = ch_model_get_info(s->m);
    s->drafts = s->info->mtp && ch_opt_bool(o, CH_OPT_DRAFTS);
    const int32_t trained = s->info->n_ctx_train;
    const int64_t ctx = ch_opt_int(o, CH_OPT_CTX);
    s->n_ctx = ctx ? (size_t)ctx : trained > 0 && trained < 4096 ? (size_t)trained : 4096;
    const size_t n_slot = (size_t)s->n_slot, n_vocab = (size_t)s->info->n_vocab, fit = MAX_SCORES / n_vocab;
    s->n_row = fit < (size_t)s->info->n_batch ? fit : (size_t)s->info->n_batch;
    if (s->n_row < n_slot)
        s->n_row = n_slot;
    if (s->n_row > (size_t)s->info->n_batch)
        return ch_error_set(e, CH_ERANGE, "--slots %d is more than --batch %d", s->n_slot, s->info->n_batch);
    const ch_seq_plan *plan = ch_model_plan(s->m);
    // A draft looks at one position past the length.
    const ch_seq_limits lim = {.n_seq = n_slot, .max_tokens = s->n_ctx + 1,
                               .n_page = n_slot * (s->n_ctx / (plan->page_tokens ? plan->page_tokens : 1) + 1)};
    s->logits = ch_alloc_array(s->n_row * n_vocab, sizeof *s->logits);
    s->hidden = ch_alloc_array(n_slot * (size_t)s->info->n_embd, sizeof *s->hidden);
    s->token = ch_alloc_array(s->n_row, sizeof *s->token);
    s->out_row = ch_alloc_array(s->n_row, sizeof *s->out_row);
    s->seg = ch_alloc_array(n_slot, sizeof *s->seg);
    s->slot = ch_alloc_array(n_slot, sizeof *s->slot);
    s->draft_seq = ch_alloc_array(n_slot, sizeof *s->draft_seq);
    s->draft_token = ch_alloc_array(n_slot, sizeof *s->draft_token);
    s->draft_slot = ch_alloc_array(n_slot, sizeof *s->draft_slot);
    if (!s->logits || !s->hidden || !s->token || !s->out_row || !s->seg || !s->slot || !s->draft_seq || !s->draft_token || !s->draft_slot)
        return ch_error_set(e, CH_ENOMEM, "no memory for the scores of %zu tokens", s->n_row);
    int rc = ch_vocab_open(&s->vocab, ch_model_gguf(s->m), e);
    if (rc == 0)
        rc = ch_seq_pool_create(&s->pool, plan, &lim, e);
    for (int i = 0; rc == 0 && i < s->n_slot; i++)
        rc = ch_seq_create(&s->slot[i].seq, s->pool, e);
    return rc;
}

static void close_scorer(scorer *s) {
    for (int i = 0; s->slot && i < s->n_slot; i++)
        ch_seq_free(&s->slot[i].seq);
    ch_seq_pool_free(&s->pool);
    ch_vocab_free(&s->vocab);
    ch_model_close(&s->m);
    void *const all[] = {s->logits, s->hidden, s->token, s->out_row, s->seg, s->slot, s->draft_seq, s->draft_token, s->draft_slot};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ch_free(all[i]);
}

int ch_cmd_perplexity(int argc, char **argv) {
    ch_cmd_options o;
    ch_error e = {0};
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    const bool json = ch_opt_bool(&o, CH_OPT_JSON);
    ch_cmd_progress bar = {.quiet = ch_opt_bool(&o, CH_OPT_QUIET)};
    scorer s = {.n_slot = (int)ch_opt_int(&o, CH_OPT_SLOTS)};
    result *r = ch_alloc_array((size_t)o.n_args, sizeof *r), all = {.file = "all"};
    code = CH_EXIT_FAILED;
    s.m = r ? ch_cmd_open_model(&o, s.n_slot) : NULL;
    if (!s.m)
        goto done;
    int rc = open_scorer(&s, &o, &e);
    if (rc == 0 && !json)
        print_head(&s);
    for (int i = 0; rc == 0 && i < o.n_args; i++) {
        r[i].file = o.args[i];
        rc = score_file(&s, (uint64_t)ch_opt_int(&o, CH_OPT_LIMIT), &bar, &r[i], &e);
        if (rc)
            break;
        if (!json)
            print_row(&s, &r[i]), fflush(stdout);
        all.n_texts += r[i].n_texts, all.n_tokens += r[i].n_tokens, all.n_bytes += r[i].n_bytes, all.n_best += r[i].n_best;
        all.n_drafts += r[i].n_drafts, all.n_held += r[i].n_held, all.nats += r[i].nats;
    }
    ch_cmd_end_progress(&bar);
    if (rc == 0 && json)
        rc = print_json(&s, r, o.n_args, &all, &e);
    else if (rc == 0 && o.n_args > 1)
        print_row(&s, &all);
    code = rc == 0 ? CH_EXIT_OK : ch_cmd_fail_error("perplexity", &e);
done:
    close_scorer(&s);
    ch_free(r);
    ch_cmd_options_free(&o);
    return code;
}
