// Chat templates: the public face of the interpreter. A parse and a render each set up one context with its arena; every
// failure inside lands back here.
#include <string.h>
#include <time.h>

#include "text/jinja.h"

enum { DEFAULT_OUTPUT = 64 << 20, DEFAULT_STEPS = 50000000, DEFAULT_DEPTH = 200, PARSE_DEPTH = 4 * JJ_MAX_NEST };

// ---- parse ----------------------------------------------------------------------------------------------------------------

static int parse(jj_ctx *x, ch_template *t, const char *source, size_t n) {
    if (setjmp(x->fail))
        return x->err.code;
    ch_jj_parse(x, t, source, n);
    return 0;
}

int ch_template_parse(ch_template **t, const char *source, size_t n, ch_error *e) {
    *t = NULL;
    if (n > JJ_MAX_SOURCE)
        return ch_error_set(e, CH_ELIMIT, "template: expected at most %d bytes, found %zu", JJ_MAX_SOURCE, n);
    if (!ch_utf8_valid(source, n))
        return ch_error_set(e, CH_EFORMAT, "template: expected UTF-8, found other bytes");
    ch_template *own = ch_alloc(sizeof *own);
    jj_ctx *x = ch_alloc(sizeof *x);
    if (own)
        own->arena = ch_arena_create(0);
    if (!own || !x || !own->arena) {
        ch_free(x);
        ch_template_free(&own);
        return ch_error_set(e, CH_ENOMEM, "no memory for a template");
    }
    x->arena = own->arena;
    x->t = own;
    x->max_memory = JJ_MAX_TREE;
    x->max_output = JJ_MAX_SOURCE;
    x->max_depth = PARSE_DEPTH;
    x->steps = UINT64_MAX;
    int rc = parse(x, own, source, n);
    if (rc) {
        ch_error_set(e, rc, "%s", x->err.msg);
        ch_template_free(&own);
    }
    ch_free(x);
    *t = own;
    return rc;
}

void ch_template_free(ch_template **t) {
    if (!*t)
        return;
    ch_arena_free(&(*t)->arena);
    ch_free(*t);
    *t = NULL;
}

bool ch_template_mentions(const ch_template *t, const char *name) {
    for (size_t i = JJ_N_FIXED_SYM; i < t->n_sym; i++)
        if (ch_jj_str_is(t->sym[i], name))
            return true;
    return false;
}

// ---- render ---------------------------------------------------------------------------------------------------------------

// These are spelled in the model's file, not by a user: they count as the template's own words.
static bool is_token_name(const jj_str *name) {
    return ch_jj_str_is(name, "bos_token") || ch_jj_str_is(name, "eos_token");
}

static void set_variables(jj_ctx *x, const json_t *vars) {
    const ch_template *t = x->t;
    x->root = ch_jj_alloc(x, t->n_sym, sizeof *x->root);
    for (size_t i = 0; i < t->n_sym; i++) {
        const jj_str *name = t->sym[i];
        json_t *val = i < JJ_N_FIXED_SYM ? NULL : json_object_getn(vars, name->p, name->n);
        const jj_def *d = val ? NULL : ch_jj_find_global(name->p, name->n);
        if (json_is_string(val) && is_token_name(name)) {
            x->root[i] = ch_jj_of_str(ch_jj_str(x, json_string_value(val), json_string_length(val), true));
        } else if (val) {
            x->root[i] = ch_jj_from_json(x, val, false);
        } else if (d) {
            jj_func *f = ch_jj_alloc(x, 1, sizeof *f);
            f->def = d;
            x->root[i] = (jj_val){.type = JJ_FUNC, .u.fn = f};
        }
    }
}

static int render(jj_ctx *x, const json_t *vars, jj_buf *text) {
    if (setjmp(x->fail))
        return x->err.code;
    set_variables(x, vars);
    ch_jj_exec(x, &x->t->body, NULL, text);
    return 0;
}

static int copy_spans(const jj_buf *b, ch_span **spans, size_t *n_spans, size_t offset) {
    ch_span *s = ch_alloc_array(b->n_run, sizeof *s);
    if (!s)
        return CH_ENOMEM;
    for (size_t i = 0; i < b->n_run; i++)
        s[i] = (ch_span){offset + b->run[i].begin, offset + (i + 1 < b->n_run ? b->run[i + 1].begin : b->n),
                         b->run[i].literal};
    *spans = s;
    *n_spans = b->n_run;
    return 0;
}

int ch_template_render(const ch_template *t, const json_t *vars, const ch_template_limits *lim, ch_buf *out,
                       ch_span **spans, size_t *n_spans, ch_error *e) {
    static const ch_template_limits none;
    if (spans)
        *spans = NULL;
    if (n_spans)
        *n_spans = 0;
    if (!json_is_object(vars))
        return ch_error_set(e, CH_EFORMAT, "template variables: expected a JSON object");
    if (!lim)
        lim = &none;
    jj_ctx *x = ch_alloc(sizeof *x);
    if (!x)
        return ch_error_set(e, CH_ENOMEM, "no memory for a template");
    x->t = t;
    x->arena = ch_arena_create(0);
    x->max_output = lim->max_output ? lim->max_output : DEFAULT_OUTPUT;
    // Values are never freed during a render, so the room for them is a multiple of what may come out.
    x->max_memory = lim->max_memory ? lim->max_memory : (size_t)256 << 20;
    x->steps = lim->max_steps ? lim->max_steps : DEFAULT_STEPS;
    x->max_depth = lim->max_depth ? lim->max_depth : DEFAULT_DEPTH;
    x->now = lim->now ? lim->now : (int64_t)time(NULL);
    jj_buf *text = x->arena ? ch_arena_alloc(x->arena, sizeof *text) : NULL;
    int rc = text ? render(x, vars, text) : ch_error_set(&x->err, CH_ENOMEM, "no memory for a template");
    if (!rc && text->n) {
        size_t offset = out->len;
        if (!ch_buf_append(out, text->p, text->n) || (spans && copy_spans(text, spans, n_spans, offset)))
            rc = ch_error_set(&x->err, CH_ENOMEM, "no memory for the rendered template of %zu bytes", text->n);
    }
    if (rc)
        ch_error_set(e, rc, "%s", x->err.msg);
    json_decref(x->held);
    ch_arena_free(&x->arena);
    ch_free(x);
    return rc;
}
