// Splits generated text into reasoning and answer at <think> ... </think>. A small state machine over single bytes: what may
// still become a tag, and line breaks that may still turn out to stand before a tag, are held back.
#include <string.h>

#include "text/text.h"

enum { IN_ANSWER, IN_REASONING };

static const char open_tag[] = "<think>", close_tag[] = "</think>";

void ch_think_init(ch_think *t, bool inside) {
    *t = (ch_think){.state = inside ? IN_REASONING : IN_ANSWER, .trim = inside, .reopen = inside};
}

// One byte of text of the present kind.
static void emit(ch_think *t, char c, ch_buf *reasoning, ch_buf *answer) {
    ch_buf *out = t->state == IN_REASONING ? reasoning : answer;
    bool *any = t->state == IN_REASONING ? &t->any_reasoning : &t->any_answer;
    if (c == '\n' && t->trim) return;
    if (c == '\n') {
        t->n_breaks++;
        return;
    }
    if (t->trim && *any && t->joined) ch_buf_append(out, "\n", 1); // a further block of the same kind
    for (; t->n_breaks > 0; t->n_breaks--) ch_buf_append(out, "\n", 1);
    ch_buf_append(out, &c, 1);
    *any = true;
    t->trim = t->joined = t->reopen = false;
}

static void flush_held(ch_think *t, ch_buf *reasoning, ch_buf *answer) {
    for (int i = 0; i < t->n_held; i++) emit(t, t->held[i], reasoning, answer);
    t->n_held = 0;
}

static void switch_state(ch_think *t) {
    t->state = t->state == IN_REASONING ? IN_ANSWER : IN_REASONING;
    t->n_held = 0;
    t->n_breaks = 0;
    t->trim = t->joined = true;
}

// The tag that matters now: the closing one inside; the opening one outside, and at the very start of a block that the
// prompt opened already (models repeat it).
static bool is_prefix(const ch_think *t, const char *tag) { return strncmp(t->held, tag, (size_t)t->n_held) == 0; }

static void push_byte(ch_think *t, char c, ch_buf *reasoning, ch_buf *answer) {
    t->held[t->n_held++] = c;
    const char *tag = t->state == IN_REASONING ? close_tag : open_tag;
    bool repeat = t->state == IN_REASONING && t->reopen;
    if (is_prefix(t, tag)) {
        if ((size_t)t->n_held == strlen(tag)) switch_state(t);
        return;
    }
    if (repeat && is_prefix(t, open_tag)) {
        if ((size_t)t->n_held == strlen(open_tag)) {
            t->n_held = 0;
            t->reopen = false;
        }
        return;
    }
    // Neither: everything but the last byte is text (no tag begins inside another), the last one may begin a tag.
    t->n_held--;
    flush_held(t, reasoning, answer);
    if (c == '<') t->held[t->n_held++] = c;
    else emit(t, c, reasoning, answer);
}

bool ch_think_push(ch_think *t, const char *text, size_t n, ch_buf *reasoning, ch_buf *answer) {
    for (size_t i = 0; i < n; i++) push_byte(t, text[i], reasoning, answer);
    return !reasoning->failed && !answer->failed;
}

bool ch_think_finish(ch_think *t, ch_buf *reasoning, ch_buf *answer) {
    flush_held(t, reasoning, answer);
    ch_buf *out = t->state == IN_REASONING ? reasoning : answer;
    for (; t->n_breaks > 0; t->n_breaks--) ch_buf_append(out, "\n", 1);
    return !reasoning->failed && !answer->failed;
}
