#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "text/pre.h"
#include "text/pre_list.h"

enum { MAX_PASS = 6, MATCH_LIMIT = 2000000000 };

enum {
#define CH_PRE_GROUP(group, ...) GROUP_##group,
    CH_PRE_GROUP_LIST
#undef CH_PRE_GROUP
};

static const char *const group_pattern[][MAX_PASS] = {
#define CH_PRE_GROUP(group, ...) {__VA_ARGS__},
    CH_PRE_GROUP_LIST
#undef CH_PRE_GROUP
};

static const struct {
    const char *name;
    int group;
    unsigned flags;
} pre_row[] = {
#define CH_PRE(name, group, flags) {name, GROUP_##group, flags},
    CH_PRE_LIST
#undef CH_PRE
};

struct ch_text_pre {
    unsigned flags;
    bool scanned;
    ch_text_scan scan;
    int n_pass;
    pcre2_code *code[MAX_PASS];
    bool jit[MAX_PASS];
    pcre2_match_context *context;
};

// Library memory goes through the project's allocator, so that failing it is tested too.
static void *library_alloc(size_t n, void *user) {
    (void)user;
    return ch_alloc(n);
}
static void library_free(void *p, void *user) {
    (void)user;
    ch_free(p);
}

const char *ch_text_pre_name_at(size_t i) { return i < sizeof pre_row / sizeof *pre_row ? pre_row[i].name : NULL; }
unsigned ch_text_pre_flags(const ch_text_pre *p) { return p->flags; }

void ch_text_pre_free(ch_text_pre **p) {
    if (!*p) return;
    for (int i = 0; i < MAX_PASS; i++) pcre2_code_free((*p)->code[i]);
    pcre2_match_context_free((*p)->context);
    ch_free(*p);
    *p = NULL;
}

static int compile_passes(ch_text_pre *p, int group, ch_error *e) {
    pcre2_general_context *general = pcre2_general_context_create(library_alloc, library_free, NULL);
    pcre2_compile_context *compile = general ? pcre2_compile_context_create(general) : NULL;
    p->context = general ? pcre2_match_context_create(general) : NULL;
    int rc = compile && p->context ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for the pre-tokenizer");
    if (!rc) {
        pcre2_set_match_limit(p->context, MATCH_LIMIT);
        for (int i = 0; !rc && i < MAX_PASS && group_pattern[group][i]; i++) {
            const char *pattern = group_pattern[group][i];
            int code;
            PCRE2_SIZE at;
            p->code[i] = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &at, compile);
            if (!p->code[i])
                rc = code == PCRE2_ERROR_HEAP_FAILED || code == 121 // 121: the compiler's own "failed to get memory"
                         ? ch_error_set(e, CH_ENOMEM, "no memory for the pre-tokenizer")
                         : ch_error_set(e, CH_EINTERNAL, "pre-tokenizer pattern %d: error %d at %zu", i, code, (size_t)at);
            else p->jit[i] = pcre2_jit_compile(p->code[i], PCRE2_JIT_COMPLETE) == 0; // without it: slower, same result
            p->n_pass = i + 1;
        }
    }
    pcre2_compile_context_free(compile);
    pcre2_general_context_free(general);
    return rc;
}

int ch_text_pre_open_as(ch_text_pre **out, const char *name, size_t n, bool use_scanner, ch_error *e) {
    size_t i = 0, n_row = sizeof pre_row / sizeof *pre_row;
    while (i < n_row && !(strlen(pre_row[i].name) == n && memcmp(pre_row[i].name, name, n) == 0)) i++;
    if (i == n_row) {
        int shown = n > 60 ? 60 : (int)n;
        return ch_error_set(e, CH_EUNSUPPORTED, "tokenizer.ggml.pre: no pre-tokenizer is known by the name \"%.*s\"%s", shown,
                            name, n > 60 ? "..." : "");
    }
    ch_text_pre *p = ch_alloc(sizeof *p);
    if (!p) return ch_error_set(e, CH_ENOMEM, "no memory for the pre-tokenizer");
    int group = pre_row[i].group;
    p->flags = pre_row[i].flags;
    if (use_scanner && (group == GROUP_LLAMA3 || group == GROUP_QWEN2 || group == GROUP_QWEN35)) {
        p->scanned = true;
        p->scan.max_digits = group == GROUP_LLAMA3 ? 3 : 1;
        p->scan.marks = group == GROUP_QWEN35;
    } else {
        int rc = compile_passes(p, group, e);
        if (rc) {
            ch_text_pre_free(&p);
            return rc;
        }
    }
    *out = p;
    return 0;
}

int ch_text_pre_open(ch_text_pre **out, const char *name, size_t n, ch_error *e) {
    return ch_text_pre_open_as(out, name, n, true, e);
}

// ---- splitting by regular expressions ---------------------------------------------------------------------------------
typedef struct split_run {
    const ch_text_pre *pre;
    const char *text;
    pcre2_match_data *match;
    ch_error *e;
} split_run;

// Next match of pass k in text[at..end), whose fragment begins at begin. 1: found, 0: none, negative: error.
static int next_match(split_run *r, int k, size_t begin, size_t at, size_t end, size_t *from, size_t *to) {
    const ch_text_pre *p = r->pre;
    PCRE2_SPTR subject = (PCRE2_SPTR)r->text + begin;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (p->jit[k])
        rc = pcre2_jit_match(p->code[k], subject, end - begin, at - begin, PCRE2_NO_UTF_CHECK, r->match, p->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code[k], subject, end - begin, at - begin, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->match, p->context);
    if (rc == PCRE2_ERROR_NOMATCH) return 0;
    if (rc == PCRE2_ERROR_NOMEMORY) return ch_error_set(r->e, CH_ENOMEM, "no memory to split text of %zu bytes", end - begin);
    if (rc < 0) return ch_error_set(r->e, CH_ELIMIT, "splitting text of %zu bytes: matcher error %d", end - begin, rc);
    PCRE2_SIZE *o = pcre2_get_ovector_pointer(r->match);
    *from = begin + o[0];
    *to = begin + o[1];
    return *to > *from; // no pattern matches nothing; if one did, the rest would be one piece
}

typedef struct cut_list {
    uint32_t *end; // end of every fragment, ascending
    size_t n, cap;
} cut_list;

static bool cut_push(cut_list *c, size_t end) {
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64, bytes;
        uint32_t *grown = ch_mul_size(cap, sizeof *grown, &bytes) ? ch_realloc(c->end, bytes) : NULL;
        if (!grown) return false;
        c->end = grown;
        c->cap = cap;
    }
    c->end[c->n++] = (uint32_t)end;
    return true;
}

// One pass over the fragments in: the pieces, and the stretches between them, are the new fragments.
static int split_pass(split_run *r, int k, const cut_list *in, cut_list *out) {
    size_t begin = 0;
    for (size_t i = 0; i < in->n; i++) {
        size_t end = in->end[i], at = begin, from, to;
        while (at < end) {
            int rc = next_match(r, k, begin, at, end, &from, &to);
            if (rc < 0) return rc;
            if (!rc) from = to = end;
            if ((from > at && !cut_push(out, from)) || (to > from && !cut_push(out, to)))
                return ch_error_set(r->e, CH_ENOMEM, "no memory for the pieces of a text");
            at = to;
        }
        begin = end;
    }
    return 0;
}

static int split_single(split_run *r, size_t n, ch_text_piece_fn fn, void *user) {
    for (size_t at = 0, from, to; at < n; at = to) {
        int rc = next_match(r, 0, 0, at, n, &from, &to);
        if (rc < 0) return rc;
        if (!rc) from = to = n;
        if (from > at && (rc = fn(user, at, from)) != 0) return rc;
        if (to > from && (rc = fn(user, from, to)) != 0) return rc;
    }
    return 0;
}

static int split_passes(split_run *r, size_t n, ch_text_piece_fn fn, void *user) {
    cut_list a = {0}, b = {0};
    int rc = cut_push(&a, n) ? 0 : ch_error_set(r->e, CH_ENOMEM, "no memory for the pieces of a text");
    for (int k = 0; !rc && k < r->pre->n_pass; k++) {
        b.n = 0;
        rc = split_pass(r, k, &a, &b);
        cut_list t = a;
        a = b;
        b = t;
    }
    size_t begin = 0;
    for (size_t i = 0; !rc && i < a.n; i++) {
        rc = fn(user, begin, a.end[i]);
        begin = a.end[i];
    }
    ch_free(a.end);
    ch_free(b.end);
    return rc;
}

// Copy in which every byte that is not part of a character is a control character, so that offsets stay the same.
static char *sane_copy(const char *text, size_t n) {
    char *copy = ch_alloc(n);
    if (!copy) return NULL;
    for (size_t p = 0, len; p < n; p += len) {
        uint32_t cp;
        len = ch_utf8_decode(text + p, n - p, &cp);
        if (cp > 0x10FFFF) copy[p] = 1;
        else memcpy(copy + p, text + p, len);
    }
    return copy;
}

int ch_text_pre_split(const ch_text_pre *p, const char *text, size_t n, ch_text_piece_fn fn, void *user, ch_error *e) {
    if (n > UINT32_MAX) return ch_error_set(e, CH_ELIMIT, "text of %zu bytes is too long to split", n);
    if (p->scanned) {
        for (size_t at = 0, to; at < n; at = to) {
            to = ch_text_scan_piece(&p->scan, text, n, at);
            int rc = fn(user, at, to);
            if (rc) return rc;
        }
        return 0;
    }
    if (!n) return 0;
    char *copy = NULL;
    if (!ch_utf8_valid(text, n) && !(copy = sane_copy(text, n))) return ch_error_set(e, CH_ENOMEM, "no memory to split text");
    split_run r = {p, copy ? copy : text, pcre2_match_data_create(1, NULL), e};
    int rc;
    if (!r.match) rc = ch_error_set(e, CH_ENOMEM, "no memory to split text");
    else if (p->n_pass == 1) rc = split_single(&r, n, fn, user);
    else rc = split_passes(&r, n, fn, user);
    pcre2_match_data_free(r.match);
    ch_free(copy);
    return rc;
}
