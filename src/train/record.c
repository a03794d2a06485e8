// Documents out of text and JSONL files.
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "train/mark.h"
#include "train/record.h"

enum { MAX_DEPTH = 128 };

struct ch_record_reader {
    ch_record_params p;
    ch_template *tpl; // NULL: none
    ch_mark *mark;    // NULL: no vocabulary or no template
    char path[120];   // of the file, cut for messages
    ch_map map;
    const char *data;
    size_t n, at, line; // line: number of the line at `at`, from 1
    bool jsonl;
    json_t *record; // the present one; texts point into it
    ch_buf text;
    ch_span *span;
    ch_record_part *part;
    size_t n_part, cap_part;
};

int ch_record_reader_open(ch_record_reader **out, const ch_record_params *p, ch_error *e) {
    ch_record_reader *r = ch_alloc(sizeof *r);
    if (!r)
        return ch_error_set(e, CH_ENOMEM, "no memory for a reader");
    r->p = *p;
    int rc = 0;
    if (p->template_text)
        rc = ch_template_parse(&r->tpl, p->template_text, p->n_template, e);
    if (!rc && p->template_text && p->vocab)
        rc = ch_mark_open(&r->mark, r->tpl, p->vocab, &p->weights, e);
    if (rc) {
        ch_record_reader_free(&r);
        return rc;
    }
    *out = r;
    return 0;
}

static void drop_record(ch_record_reader *r) {
    json_decref(r->record);
    r->record = NULL;
    ch_free(r->span);
    r->span = NULL;
}

void ch_record_reader_free(ch_record_reader **p) {
    ch_record_reader *r = *p;
    if (!r)
        return;
    drop_record(r);
    ch_map_close(&r->map);
    ch_buf_free(&r->text);
    ch_free(r->part);
    ch_mark_free(&r->mark);
    ch_template_free(&r->tpl);
    ch_free(r);
    *p = NULL;
}

static void begin(ch_record_reader *r, const char *path, const void *data, size_t n) {
    size_t len = strlen(path), cut = len >= sizeof r->path ? len - sizeof r->path + 1 : 0; // the end of a long path tells more
    memcpy(r->path, path + cut, len - cut + 1);
    r->jsonl = len >= 6 && strcmp(path + len - 6, ".jsonl") == 0;
    r->data = data;
    r->n = n;
    r->at = 0;
    r->line = 1;
}

int ch_record_read_memory(ch_record_reader *r, const char *path, const void *data, size_t n, ch_error *e) {
    (void)e;
    drop_record(r);
    ch_map_close(&r->map);
    begin(r, path, n ? data : "", n);
    return 0;
}

int ch_record_read_file(ch_record_reader *r, const char *path, ch_error *e) {
    drop_record(r);
    ch_map_close(&r->map);
    begin(r, path, "", 0);
    int rc = ch_map_open(&r->map, path, e);
    if (!rc)
        begin(r, path, r->map.size ? (const void *)r->map.data : "", r->map.size);
    return rc;
}

size_t ch_record_offset(const ch_record_reader *r) { return r->at; }
size_t ch_record_size(const ch_record_reader *r) { return r->n; }
uint64_t ch_record_hash(const ch_record_reader *r) { return ch_hash64(r->data, r->n, r->jsonl); }

// ---- parts ----------------------------------------------------------------------------------------------------------------
static int put_part(ch_record_reader *r, size_t end, float weight, ch_error *e) {
    if (end <= (r->n_part ? r->part[r->n_part - 1].end : 0))
        return 0; // empty
    if (r->n_part == r->cap_part) {
        size_t cap = r->cap_part ? 2 * r->cap_part : 64;
        ch_record_part *more = ch_realloc(r->part, cap * sizeof *more);
        if (!more)
            return ch_error_set(e, CH_ENOMEM, "no memory for the weights of a document");
        r->part = more;
        r->cap_part = cap;
    }
    r->part[r->n_part++] = (ch_record_part){end, weight};
    return 0;
}

// A number from 0 to the largest weight; absent: 1.
static int read_weight(const json_t *j, const char *what, float *out, ch_error *e) {
    double w = j ? json_number_value(j) : 1;
    if (j && !json_is_number(j))
        return ch_error_set(e, CH_EFORMAT, "%s: expected a number", what);
    if (!(w >= 0 && w <= CH_RECORD_MAX_WEIGHT))
        return ch_error_set(e, CH_ERANGE, "%s: expected 0 to %d, found %g", what, CH_RECORD_MAX_WEIGHT, w);
    *out = (float)w;
    return 0;
}

// ---- records --------------------------------------------------------------------------------------------------------------
static int text_record(ch_record_reader *r, const json_t *text, ch_error *e) {
    float whole;
    int rc = read_weight(json_object_get(r->record, "weight"), "weight", &whole, e);
    if (!rc && !json_is_string(text))
        rc = ch_error_set(e, CH_EFORMAT, "text: expected a string");
    if (rc)
        return rc;
    size_t n = json_string_length(text), at = 0;
    const json_t *spans = json_object_get(r->record, "spans");
    if (spans && !json_is_array(spans))
        return ch_error_set(e, CH_EFORMAT, "spans: expected an array of [begin, end, weight]");
    if (json_array_size(spans) > CH_RECORD_MAX_SPANS)
        return ch_error_set(e, CH_ELIMIT, "spans: expected at most %d, found %zu", CH_RECORD_MAX_SPANS, json_array_size(spans));
    float base = r->p.weights.text * whole;
    for (size_t i = 0; !rc && i < json_array_size(spans); i++) {
        const json_t *s = json_array_get(spans, i), *b = json_array_get(s, 0), *t = json_array_get(s, 1);
        float w;
        if (json_array_size(s) != 3 || !json_is_integer(b) || !json_is_integer(t))
            return ch_error_set(e, CH_EFORMAT, "spans[%zu]: expected [begin, end, weight]", i);
        json_int_t from = json_integer_value(b), to = json_integer_value(t);
        if (from < (json_int_t)at || to < from || to > (json_int_t)n)
            return ch_error_set(e, CH_ERANGE, "spans[%zu]: expected %zu <= begin <= end <= %zu, found %lld and %lld", i, at, n,
                                (long long)from, (long long)to);
        rc = read_weight(json_array_get(s, 2), "spans", &w, e);
        if (!rc)
            rc = put_part(r, (size_t)from, base, e);
        if (!rc)
            rc = put_part(r, (size_t)to, w * whole, e);
        at = (size_t)to;
    }
    return rc ? rc : put_part(r, n, base, e);
}

static int check_chat(const json_t *messages, ch_error *e) {
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return ch_error_set(e, CH_EFORMAT, "messages: expected an array of at least one message");
    if (json_array_size(messages) > CH_RECORD_MAX_MESSAGES)
        return ch_error_set(e, CH_ELIMIT, "messages: expected at most %d, found %zu", CH_RECORD_MAX_MESSAGES,
                            json_array_size(messages));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        float w;
        if (!json_is_object(m) || !json_is_string(json_object_get(m, "role")))
            return ch_error_set(e, CH_EFORMAT, "messages[%zu]: expected an object with a role", i);
        int rc = read_weight(json_object_get(m, "weight"), "weight of a message", &w, e);
        if (rc)
            return rc;
    }
    return 0;
}

static int chat_record(ch_record_reader *r, ch_record *out, ch_error *e) {
    if (!r->tpl)
        return ch_error_set(e, CH_EFORMAT, "a chat needs a chat template, and none is given");
    int rc = check_chat(json_object_get(r->record, "messages"), e);
    if (rc)
        return rc;
    if (json_object_set_new(r->record, "add_generation_prompt", json_false()) != 0)
        return ch_error_set(e, CH_ENOMEM, "no memory for a record");
    if (r->p.vocab && (rc = ch_mark_set_tokens(r->record, r->p.vocab, e)) != 0)
        return rc;
    ch_buf_reset(&r->text);
    const ch_template_limits lim = {.max_output = CH_RECORD_MAX_LINE, .now = 1735689600}; // one date for all: runs are equal
    rc = ch_template_render(r->tpl, r->record, &lim, &r->text, &r->span, &out->n_span, e);
    if (rc)
        return rc;
    out->chat = true;
    out->text = r->text.data ? r->text.data : "";
    out->n = r->text.len;
    out->span = r->span;
    if (!r->mark)
        return put_part(r, out->n, 1, e);
    ch_mark_result marks;
    rc = ch_mark_chat(r->mark, r->record, out->text, out->n, r->span, out->n_span, &marks, e);
    for (size_t i = 0; !rc && i < marks.n; i++)
        rc = put_part(r, marks.part[i].end, marks.part[i].weight, e);
    return rc;
}

// Nesting is checked before parsing: parser and renderer recurse.
static int check_depth(const char *s, size_t n, ch_error *e) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '[' || s[i] == '{') {
            if (++depth > MAX_DEPTH)
                return ch_error_set(e, CH_ELIMIT, "expected at most %d levels of nesting", MAX_DEPTH);
        } else if (s[i] == ']' || s[i] == '}') {
            depth--;
        }
    }
    return 0;
}

static int json_record(ch_record_reader *r, const char *s, size_t n, ch_record *out, ch_error *e) {
    int rc = check_depth(s, n, e);
    if (rc)
        return rc;
    json_error_t je;
    r->record = json_loadb(s, n, JSON_ALLOW_NUL, &je);
    if (!r->record)
        return ch_error_set(e, CH_EFORMAT, "not valid JSON: %s (column %d)", je.text, je.column);
    const json_t *text = json_object_get(r->record, "text");
    if (text) {
        out->text = json_string_value(text);
        out->n = json_string_length(text);
        return text_record(r, text, e);
    }
    if (!json_is_object(r->record) || !json_object_get(r->record, "messages"))
        return ch_error_set(e, CH_EFORMAT, "expected an object with \"messages\" or \"text\"");
    return chat_record(r, out, e);
}

static bool is_blank(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

static size_t line_end(const ch_record_reader *r, size_t at) {
    const char *stop = memchr(r->data + at, '\n', r->n - at);
    return stop ? (size_t)(stop - r->data) : r->n;
}

// A document of a plain file: up to two empty lines or more, without the line breaks around it.
static int next_plain(ch_record_reader *r, ch_record *out, ch_error *e) {
    size_t start = 0, stop = 0, empty = 0;
    bool any = false;
    while (r->at < r->n && !(any && empty >= 2)) {
        size_t end = line_end(r, r->at);
        if (is_blank(r->data + r->at, end - r->at)) {
            empty++;
        } else {
            if (!any) {
                start = r->at;
                out->line = r->line;
            }
            any = true;
            empty = 0;
            stop = end;
        }
        r->at = end < r->n ? end + 1 : r->n;
        r->line++;
        if (any && stop - start > CH_RECORD_MAX_LINE)
            return ch_error_set(e, CH_ELIMIT, "a document of more than %u bytes; two empty lines end one", CH_RECORD_MAX_LINE);
    }
    if (!any)
        return 0;
    out->text = r->data + start;
    out->n = stop - start;
    int rc = put_part(r, out->n, r->p.weights.text, e);
    return rc ? rc : 1;
}

static int next_json(ch_record_reader *r, ch_record *out, ch_error *e) {
    while (r->at < r->n) {
        size_t from = r->at, end = line_end(r, from);
        out->line = r->line;
        r->at = end < r->n ? end + 1 : r->n;
        r->line++;
        if (is_blank(r->data + from, end - from))
            continue;
        if (end - from > CH_RECORD_MAX_LINE)
            return ch_error_set(e, CH_ELIMIT, "expected at most %u bytes in a line, found %zu", CH_RECORD_MAX_LINE, end - from);
        int rc = json_record(r, r->data + from, end - from, out, e);
        return rc ? rc : 1;
    }
    return 0;
}

int ch_record_next(ch_record_reader *r, ch_record *out, ch_error *e) {
    drop_record(r);
    *out = (ch_record){.line = r->line};
    r->n_part = 0;
    int rc = r->jsonl ? next_json(r, out, e) : next_plain(r, out, e);
    if (rc < 0)
        ch_error_prefix(e, "%s: line %zu", r->path, out->line);
    out->part = r->part;
    out->n_part = r->n_part;
    return rc;
}
