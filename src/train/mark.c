// Loss weights of rendered chats.
#include <string.h>

#include "train/mark.h"

enum { MAX_END = 8 };

struct ch_mark {
    ch_train_weights w;
    ch_buf tail[2];      // what generation is given after the question: [0] thinking off, [1] on
    size_t n_open;       // bytes of it that open an answer of any kind
    struct {
        const char *p; // in the vocabulary
        size_t n;
    } end[MAX_END];
    int n_end;
    ch_record_part *part;
    size_t n_part, cap;
};

int ch_mark_set_tokens(json_t *vars, const ch_vocab *v, ch_error *e) {
    static const char *const name[] = {"bos_token", "eos_token"};
    const int32_t id[] = {ch_vocab_bos(v), ch_vocab_eos(v)};
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        const char *text = id[i] >= 0 ? ch_vocab_text(v, id[i], &n) : NULL;
        if (!text || !ch_utf8_valid(text, n))
            (void)json_object_del(vars, name[i]);
        else if (json_object_set_new(vars, name[i], json_stringn(text, n)) != 0)
            return ch_error_set(e, CH_ENOMEM, "no memory for the variables of a template");
    }
    return 0;
}

static int render_question(const ch_template *t, const ch_vocab *v, bool think, bool answer, ch_buf *out, ch_error *e) {
    json_t *vars = json_pack("{s:[{s:s,s:s}],s:b,s:b}", "messages", "role", "user", "content", "x", "enable_thinking", think,
                             "add_generation_prompt", answer);
    int rc = vars ? ch_mark_set_tokens(vars, v, e) : ch_error_set(e, CH_ENOMEM, "no memory for a question");
    ch_span *span = NULL;
    size_t n_span;
    const ch_template_limits lim = {.now = 1735689600};
    if (!rc)
        rc = ch_template_render(t, vars, &lim, out, &span, &n_span, e);
    ch_free(span);
    json_decref(vars);
    return rc;
}

static int find_tail(ch_mark *m, const ch_template *t, const ch_vocab *v, bool think, ch_error *e) {
    ch_buf plain = {0}, asked = {0};
    int rc = render_question(t, v, think, false, &plain, e);
    if (!rc)
        rc = render_question(t, v, think, true, &asked, e);
    if (!rc && (asked.len <= plain.len || memcmp(asked.data, plain.data ? plain.data : "", plain.len) != 0))
        rc = ch_error_set(e, CH_EUNSUPPORTED, "the chat template begins no answer (add_generation_prompt), so answers cannot be told");
    if (!rc && !ch_buf_append(&m->tail[think], asked.data + plain.len, asked.len - plain.len))
        rc = ch_error_set(e, CH_ENOMEM, "no memory for the beginning of an answer");
    ch_buf_free(&plain);
    ch_buf_free(&asked);
    return rc;
}

int ch_mark_open(ch_mark **out, const ch_template *t, const ch_vocab *v, const ch_train_weights *w, ch_error *e) {
    ch_mark *m = ch_alloc(sizeof *m);
    if (!m)
        return ch_error_set(e, CH_ENOMEM, "no memory for loss weights");
    m->w = *w;
    int rc = find_tail(m, t, v, false, e);
    if (!rc)
        rc = find_tail(m, t, v, true, e);
    for (int32_t id = 0; !rc && id < ch_vocab_n(v) && m->n_end < MAX_END; id++) {
        if (!ch_vocab_is_eog(v, id) || ch_vocab_type(v, id) == CH_TOKEN_NORMAL)
            continue;
        m->end[m->n_end].p = ch_vocab_text(v, id, &m->end[m->n_end].n);
        m->n_end += m->end[m->n_end].n > 0;
    }
    if (!rc) {
        const ch_buf *a = &m->tail[0], *b = &m->tail[1];
        while (m->n_open < a->len && m->n_open < b->len && a->data[m->n_open] == b->data[m->n_open])
            m->n_open++;
        // Answers without a think block (earlier turns) begin without its tag.
        const char *tag = memmem(a->data, m->n_open, "<think", 6);
        if (tag)
            m->n_open = (size_t)(tag - a->data);
        if (!m->n_open || !m->n_end)
            rc = ch_error_set(e, CH_EUNSUPPORTED, "the chat template or the vocabulary does not tell where answers begin and end");
    }
    if (rc) {
        ch_mark_free(&m);
        return rc;
    }
    *out = m;
    return 0;
}

void ch_mark_free(ch_mark **p) {
    if (!*p)
        return;
    ch_buf_free(&(*p)->tail[0]);
    ch_buf_free(&(*p)->tail[1]);
    ch_free((*p)->part);
    ch_free(*p);
    *p = NULL;
}

// ---- one chat ---------------------------------------------------------------------------------------------------------------
typedef struct mark_run {
    ch_mark *m;
    const char *text;
    size_t n;
    const ch_span *span;
    size_t n_span;
    size_t at_span; // the span that holds the place looked at last
    bool ok;
} mark_run;

// Whether the template wrote this byte. Places must come in rising order.
static bool is_literal(mark_run *r, size_t at) {
    while (r->at_span < r->n_span && r->span[r->at_span].end <= at)
        r->at_span++;
    return r->at_span < r->n_span && r->span[r->at_span].literal;
}

static void put(mark_run *r, size_t end, float weight) {
    ch_mark *m = r->m;
    size_t begin = m->n_part ? m->part[m->n_part - 1].end : 0;
    if (end <= begin)
        return;
    if (m->n_part && m->part[m->n_part - 1].weight == weight) {
        m->part[m->n_part - 1].end = end;
        return;
    }
    if (m->n_part == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 64;
        ch_record_part *more = ch_realloc(m->part, cap * sizeof *more);
        if (!more) {
            r->ok = false;
            return;
        }
        m->part = more;
        m->cap = cap;
    }
    m->part[m->n_part++] = (ch_record_part){end, weight};
}

// Text of others from begin to end: system text, then the template's words and the users'.
static void put_others(mark_run *r, size_t begin, size_t end, size_t system_end) {
    if (begin < system_end) {
        size_t stop = end < system_end ? end : system_end;
        put(r, stop, r->m->w.system);
        begin = stop;
    }
    while (begin < end) {
        bool literal = is_literal(r, begin);
        size_t stop = r->at_span < r->n_span ? r->span[r->at_span].end : end;
        stop = stop < end ? stop : end;
        put(r, stop, literal ? r->m->w.role : r->m->w.user);
        begin = stop;
    }
}

static bool at_text(const mark_run *r, size_t at, const char *p, size_t n) {
    return n && r->n - at >= n && memcmp(r->text + at, p, n) == 0;
}

static size_t find_open(mark_run *r, size_t at) {
    const char *open = r->m->tail[0].data;
    for (size_t n = r->m->n_open; at + n <= r->n; at++) {
        const char *hit = memmem(r->text + at, r->n - at, open, n);
        if (!hit)
            break;
        at = (size_t)(hit - r->text);
        if (is_literal(r, at))
            return at;
    }
    return r->n;
}

// Where the end token that closes an answer ends; 0: nowhere.
static size_t find_end(mark_run *r, size_t at) {
    for (; at < r->n; at++) {
        for (int i = 0; i < r->m->n_end; i++)
            if (at_text(r, at, r->m->end[i].p, r->m->end[i].n) && is_literal(r, at))
                return at + r->m->end[i].n;
    }
    return 0;
}

static bool has_role(const json_t *message, const char *role) {
    const char *s = json_string_value(json_object_get(message, "role"));
    return s && strcmp(s, role) == 0;
}

// Everything up to the first user's message is system text. 0: there is none.
static size_t find_system_end(const mark_run *r, const json_t *messages) {
    size_t i = 0, n = json_array_size(messages);
    while (i < n && !has_role(json_array_get(messages, i), "user"))
        i++;
    const json_t *content = json_object_get(json_array_get(messages, i), "content");
    const char *s = json_string_value(content);
    size_t len = json_string_length(content);
    while (len && strchr(" \t\r\n", *s))
        s++, len--;
    while (len && strchr(" \t\r\n", s[len - 1]))
        len--;
    for (size_t k = 0; len && k < r->n_span; k++) {
        size_t end = r->span[k].end;
        if (r->span[k].literal)
            continue;
        const char *hit = memmem(r->text + r->span[k].begin, end - r->span[k].begin, s, len);
        if (hit)
            return (size_t)(hit - r->text);
    }
    return 0;
}

int ch_mark_chat(ch_mark *m, const json_t *chat, const char *text, size_t n, const ch_span *span, size_t n_span,
                 ch_mark_result *out, ch_error *e) {
    mark_run run = {.m = m, .text = text, .n = n, .span = span, .n_span = n_span, .ok = true}, *r = &run;
    const json_t *messages = json_object_get(chat, "messages");
    size_t n_message = json_array_size(messages), last_user = 0, n_found = 0, n_answer = 0, at = 0, next = 0;
    for (size_t i = 0; i < n_message; i++) {
        if (has_role(json_array_get(messages, i), "user"))
            last_user = i;
        n_answer += has_role(json_array_get(messages, i), "assistant");
    }
    bool think = !json_is_false(json_object_get(chat, "enable_thinking"));
    size_t system_end = find_system_end(r, messages);
    m->n_part = 0;
    for (size_t open; (open = find_open(r, at)) < n; n_found++) {
        while (next < n_message && !has_role(json_array_get(messages, next), "assistant"))
            next++;
        const json_t *own = json_object_get(json_array_get(messages, next), "weight");
        float w = next > last_user || last_user == 0 ? m->w.assistant : m->w.history;
        w *= own ? (float)json_number_value(own) : 1;
        next++;
        size_t given = open + m->n_open;
        for (int i = 0; i < 2; i++) { // the beginning that generation is given in this mode, else in the other
            const ch_buf *tail = &m->tail[i == 0 ? think : !think];
            if (at_text(r, open, tail->data, tail->len)) {
                given = open + tail->len;
                break;
            }
        }
        r->at_span = 0;
        put_others(r, at, open, system_end);
        put(r, given, m->w.role);
        size_t end = find_end(r, given);
        if (!end)
            return ch_error_set(e, CH_EFORMAT, "answer %zu ends with no end token in the rendered chat", n_found + 1);
        put(r, end, w);
        at = end;
    }
    if (n_found != n_answer)
        return ch_error_set(e, CH_EFORMAT, "expected %zu answers in the rendered chat, found %zu", n_answer, n_found);
    r->at_span = 0;
    put_others(r, at, n, system_end);
    *out = (ch_mark_result){m->part, m->n_part};
    return run.ok ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for loss weights");
}
