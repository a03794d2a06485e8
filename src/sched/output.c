// From token to text: detokenizer (whole characters), stop strings, split of thinking and answer.
#include <string.h>

#include "sched/engine.h"

void ch_sched_reset_delta(ch_delta *d) {
    ch_buf_reset(&d->reasoning);
    ch_buf_reset(&d->answer);
    d->n_token = d->n_top = 0;
}

void ch_sched_free_delta(ch_delta *d) {
    ch_buf_free(&d->reasoning);
    ch_buf_free(&d->answer);
    ch_free(d->token);
    ch_free(d->top);
    *d = (ch_delta){0};
}

static bool reserve(void **p, size_t *cap, size_t need, size_t size) {
    if (need <= *cap)
        return true;
    size_t n = *cap ? *cap : 16, bytes;
    while (n < need)
        n *= 2;
    if (!ch_mul_size(n, size, &bytes))
        return false;
    void *q = ch_realloc(*p, bytes);
    if (!q)
        return false;
    *p = q;
    *cap = n;
    return true;
}

bool ch_sched_push_token(ch_delta *d, const chimere_token *t) {
    void *tok = d->token, *top = d->top;
    bool ok = reserve(&tok, &d->cap_token, d->n_token + 1, sizeof *d->token);
    d->token = tok;
    ok = ok && reserve(&top, &d->cap_top, d->n_top + (size_t)t->n_top, sizeof *d->top);
    d->top = top;
    if (!ok)
        return false;
    d->token[d->n_token] = *t;
    d->token[d->n_token++].top = NULL; // set when read: the array may still move
    if (t->n_top)
        memcpy(d->top + d->n_top, t->top, (size_t)t->n_top * sizeof *t->top);
    d->n_top += (size_t)t->n_top;
    return true;
}

bool ch_sched_append_delta(ch_delta *to, const ch_delta *from) {
    bool ok = ch_buf_append(&to->reasoning, from->reasoning.data, from->reasoning.len) &&
              ch_buf_append(&to->answer, from->answer.data, from->answer.len);
    const chimere_logprob *top = from->top;
    for (size_t i = 0; ok && i < from->n_token; i++) {
        chimere_token t = from->token[i];
        t.top = top;
        top += t.n_top;
        ok = ch_sched_push_token(to, &t);
    }
    return ok;
}

void ch_sched_start_output(ch_output *o, const ch_vocab *v, bool raw, bool show_special, bool open) {
    o->vocab = v;
    o->raw = raw;
    o->show_special = show_special;
    o->in_reasoning = open && !raw;
    ch_detok_init(&o->detok, v, show_special);
    o->detok.start = false; // the answer continues a prompt: no leading space is dropped
    ch_think_init(&o->think, open);
}

void ch_sched_close_output(ch_output *o) {
    ch_sched_close_stop(&o->stop);
    ch_buf_free(&o->text);
    ch_buf_free(&o->plain);
}

// Tags that structure an answer are part of its text even where the file calls their tokens control tokens (they then
// print nothing): the splitter of thinking and readers of tool calls look for them in the text.
static bool is_tag(const ch_vocab *v, int32_t id) {
    static const char *const tag[] = {"<think>",      "</think>",       "<tool_call>",
                                      "</tool_call>", "<tool_response>", "</tool_response>"};
    size_t n = 0;
    if (ch_vocab_type(v, id) != CH_TOKEN_CONTROL)
        return false;
    const char *text = ch_vocab_text(v, id, &n);
    for (size_t i = 0; text && i < sizeof tag / sizeof tag[0]; i++)
        if (n == strlen(tag[i]) && memcmp(text, tag[i], n) == 0)
            return true;
    return false;
}

static bool split(ch_output *o, ch_delta *d, bool last) {
    bool ok = true;
    size_t reasoning = d->reasoning.len, answer = d->answer.len;
    if (o->raw)
        ok = ch_buf_append(&d->answer, o->plain.data, o->plain.len);
    else {
        if (o->plain.len)
            ok = ch_think_push(&o->think, o->plain.data, o->plain.len, &d->reasoning, &d->answer);
        if (last)
            ok = ok && ch_think_finish(&o->think, &d->reasoning, &d->answer);
    }
    if (d->answer.len > answer)
        o->in_reasoning = false;
    else if (d->reasoning.len > reasoning)
        o->in_reasoning = true;
    ch_buf_reset(&o->plain);
    return ok;
}

bool ch_sched_push_output(ch_output *o, int32_t id, ch_delta *d) {
    ch_buf_reset(&o->text);
    o->detok.special = o->show_special || is_tag(o->vocab, id);
    return ch_detok_push(&o->detok, id, &o->text) &&
           ch_sched_push_stop(&o->stop, o->text.data, o->text.len, &o->plain) && split(o, d, false);
}

bool ch_sched_finish_output(ch_output *o, ch_delta *d) {
    ch_buf_reset(&o->text);
    return ch_detok_finish(&o->detok, &o->text) && ch_sched_push_stop(&o->stop, o->text.data, o->text.len, &o->plain) &&
           ch_sched_finish_stop(&o->stop, &o->plain) && split(o, d, true);
}
