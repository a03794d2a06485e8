// Statements of a template: blocks, their bodies and assignment targets. Expressions are in jinja_expr.c.
#include <stdio.h>
#include <string.h>

#include "text/jinja_parse.h"

// ---- what both halves of the parser use -----------------------------------------------------------------------------------

jj_node *ch_jj_node(jj_parser *p, int kind) {
    jj_node *n = ch_jj_alloc(p->x, 1, sizeof *n);
    n->kind = (uint8_t)kind;
    n->line = p->tok.line;
    return n;
}

void ch_jj_list_add(jj_ctx *x, jj_list *l, jj_node *n) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 4;
        jj_node **at = ch_jj_alloc(x, cap, sizeof *at);
        if (l->n)
            memcpy(at, l->at, l->n * sizeof *at);
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = n;
}

static void grow_symbols(jj_parser *p) {
    ch_template *t = p->t;
    size_t cap = p->cap_sym ? 2 * p->cap_sym : 64;
    const jj_str **sym = ch_jj_alloc(p->x, cap, sizeof *sym);
    if (t->n_sym)
        memcpy(sym, t->sym, t->n_sym * sizeof *sym);
    t->sym = sym;
    p->cap_sym = cap;
    p->n_sym_slot = 2 * cap;
    p->sym_slot = ch_jj_alloc(p->x, p->n_sym_slot, sizeof *p->sym_slot);
    for (size_t k = 0; k < t->n_sym; k++) {
        size_t i = ch_hash64(sym[k]->p, sym[k]->n, 0) & (p->n_sym_slot - 1);
        while (p->sym_slot[i])
            i = (i + 1) & (p->n_sym_slot - 1);
        p->sym_slot[i] = (uint32_t)k + 1;
    }
}

// Number of the variable of that name, the same for the same name.
int32_t ch_jj_symbol(jj_parser *p, const char *name, size_t n) {
    ch_template *t = p->t;
    if (t->n_sym == p->cap_sym)
        grow_symbols(p);
    size_t i = ch_hash64(name, n, 0) & (p->n_sym_slot - 1);
    for (; p->sym_slot[i]; i = (i + 1) & (p->n_sym_slot - 1)) {
        const jj_str *s = t->sym[p->sym_slot[i] - 1];
        if (s->n == n && !memcmp(s->p, name, n))
            return (int32_t)p->sym_slot[i] - 1;
    }
    t->sym[t->n_sym++] = ch_jj_str(p->x, name, n, true);
    p->sym_slot[i] = (uint32_t)t->n_sym;
    return (int32_t)t->n_sym - 1;
}

void ch_jj_advance(jj_parser *p) {
    if (p->has_ahead) {
        p->tok = p->ahead;
        p->has_ahead = false;
    } else {
        ch_jj_lex_next(&p->lex, &p->tok);
    }
}

const jj_token *ch_jj_ahead(jj_parser *p) {
    if (!p->has_ahead) {
        ch_jj_lex_next(&p->lex, &p->ahead);
        p->has_ahead = true;
    }
    return &p->ahead;
}

static bool spelled(const jj_token *t, int type, const char *z) {
    return t->type == type && t->n == strlen(z) && !memcmp(t->p, z, t->n);
}

bool ch_jj_at_op(const jj_parser *p, const char *op) {
    return spelled(&p->tok, JJ_T_OP, op);
}

bool ch_jj_at_name(const jj_parser *p, const char *name) {
    return spelled(&p->tok, JJ_T_NAME, name);
}

bool ch_jj_skip_op(jj_parser *p, const char *op) {
    bool there = ch_jj_at_op(p, op);
    if (there)
        ch_jj_advance(p);
    return there;
}

bool ch_jj_skip_name(jj_parser *p, const char *name) {
    bool there = ch_jj_at_name(p, name);
    if (there)
        ch_jj_advance(p);
    return there;
}

void ch_jj_unexpected(jj_parser *p, const char *expected) {
    static const char *const names[] = {"the end of the template", "text", "\"{{\"", "\"}}\"", "\"{%\"", "\"%}\"", NULL,
                                        "a string", "an integer", "a float", NULL};
    const jj_token *t = &p->tok;
    if (names[t->type])
        ch_jj_fail(p->x, CH_EFORMAT, "template line %d: expected %s, found %s", t->line, expected, names[t->type]);
    ch_jj_fail(p->x, CH_EFORMAT, "template line %d: expected %s, found '%.*s'", t->line, expected,
               (int)(t->n < 40 ? t->n : 40), t->p);
}

void ch_jj_expect_op(jj_parser *p, const char *op) {
    char what[8] = {'\'', op[0], op[1] ? op[1] : '\'', op[1] ? '\'' : 0};
    if (!ch_jj_skip_op(p, op))
        ch_jj_unexpected(p, what);
}

const jj_str *ch_jj_token_str(jj_parser *p) {
    const jj_str *s = ch_jj_str(p->x, p->tok.p, p->tok.n, true);
    ch_jj_n_chars(p->x, s); // counted now: renders in several threads only read it
    return s;
}

// ---- statements -----------------------------------------------------------------------------------------------------------

static void parse_body(jj_parser *p, jj_list *out, const char *const *end);

static void expect_block_end(jj_parser *p) {
    if (p->tok.type != JJ_T_BLOCK_END)
        ch_jj_unexpected(p, "\"%}\"");
    ch_jj_advance(p);
}

// Bodies grow one by one; there are as many as a statement has branches.
static jj_list *add_body(jj_parser *p, jj_node *n) {
    if ((n->n_bodies & (n->n_bodies - 1)) == 0) {
        jj_list *b = ch_jj_alloc(p->x, n->n_bodies ? 2 * n->n_bodies : 1, sizeof *b);
        if (n->n_bodies)
            memcpy(b, n->bodies, n->n_bodies * sizeof *b);
        n->bodies = b;
    }
    return &n->bodies[n->n_bodies++];
}

// "%}" body "{% end": afterwards the current token is the word that ended it.
static void parse_block(jj_parser *p, jj_node *n, const char *const *end) {
    ch_jj_skip_op(p, ":");
    expect_block_end(p);
    jj_list *body = add_body(p, n);
    jj_list out = {0};
    parse_body(p, &out, end);
    *body = out;
}

static void parse_whole_block(jj_parser *p, jj_node *n, const char *end) {
    const char *const ends[] = {end, NULL};
    parse_block(p, n, ends);
    ch_jj_advance(p);
}

static jj_node *target_name(jj_parser *p) {
    if (p->tok.type != JJ_T_NAME)
        ch_jj_unexpected(p, "a name");
    jj_node *n = ch_jj_node(p, JJ_E_NAME);
    n->sym = ch_jj_symbol(p, p->tok.p, p->tok.n);
    n->val = ch_jj_of_str(ch_jj_token_str(p));
    ch_jj_advance(p);
    return n;
}

static void check_target(jj_parser *p, const jj_node *n) {
    if (n->kind == JJ_E_TUPLE || n->kind == JJ_E_LIST) {
        ch_jj_enter(p->x);
        for (size_t i = 0; i < n->list.n; i++)
            check_target(p, n->list.at[i]);
        p->x->depth--;
    } else if (n->kind != JJ_E_NAME && n->kind != JJ_E_NSREF) {
        ch_jj_unexpected(p, "a name to assign to before this");
    }
}

static jj_node *parse_target(jj_parser *p, bool with_ns, const char *end_name) {
    if (with_ns && p->tok.type == JJ_T_NAME && spelled(ch_jj_ahead(p), JJ_T_OP, ".")) {
        jj_node *n = target_name(p);
        n->kind = JJ_E_NSREF;
        ch_jj_advance(p);
        if (p->tok.type != JJ_T_NAME)
            ch_jj_unexpected(p, "the name of an attribute");
        n->val = ch_jj_of_str(ch_jj_token_str(p));
        ch_jj_advance(p);
        return n;
    }
    jj_node *n = ch_jj_parse_tuple(p, JJ_TUPLE_TARGET, end_name);
    check_target(p, n);
    return n;
}

static jj_node *parse_if(jj_parser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jj_node *n = ch_jj_node(p, JJ_S_IF);
    do {
        ch_jj_advance(p); // "if" or "elif"
        ch_jj_list_add(p->x, &n->list, ch_jj_parse_tuple(p, JJ_TUPLE_NO_COND, NULL));
        parse_block(p, n, ends);
    } while (ch_jj_at_name(p, "elif"));
    if (ch_jj_skip_name(p, "else"))
        parse_whole_block(p, n, "endif");
    else
        ch_jj_advance(p);
    return n;
}

static jj_node *parse_for(jj_parser *p) {
    static const char *const ends[] = {"endfor", "else", NULL};
    jj_node *n = ch_jj_node(p, JJ_S_FOR);
    ch_jj_advance(p);
    n->a = parse_target(p, false, "in");
    if (!ch_jj_skip_name(p, "in"))
        ch_jj_unexpected(p, "'in'");
    n->b = ch_jj_parse_tuple(p, JJ_TUPLE_NO_COND, "recursive");
    if (ch_jj_skip_name(p, "if"))
        n->c = ch_jj_parse_expr(p, true);
    n->uses = ch_jj_skip_name(p, "recursive");
    p->loops++;
    parse_block(p, n, ends);
    p->loops--;
    if (ch_jj_skip_name(p, "else"))
        parse_whole_block(p, n, "endfor");
    else
        ch_jj_advance(p);
    return n;
}

static jj_node *parse_set(jj_parser *p) {
    jj_node *n = ch_jj_node(p, JJ_S_SET);
    ch_jj_advance(p);
    n->a = parse_target(p, true, NULL);
    if (ch_jj_skip_op(p, "=")) {
        n->b = ch_jj_parse_tuple(p, JJ_TUPLE_PLAIN, NULL);
        return n;
    }
    n->kind = JJ_S_SETBLOCK;
    n->b = ch_jj_parse_filters(p, NULL, false);
    parse_whole_block(p, n, "endset");
    return n;
}

static void parse_signature(jj_parser *p, jj_node *n) {
    ch_jj_expect_op(p, "(");
    while (!ch_jj_at_op(p, ")")) {
        if (n->list.n)
            ch_jj_expect_op(p, ",");
        ch_jj_list_add(p->x, &n->list, target_name(p));
        if (ch_jj_skip_op(p, "="))
            ch_jj_list_add(p->x, &n->list2, ch_jj_parse_expr(p, true));
        else if (n->list2.n)
            ch_jj_unexpected(p, "a default value, as the parameter before has one");
    }
    ch_jj_advance(p);
}

// Body of a macro: loops outside it do not count, and the names it uses specially are noted.
static void macro_body(jj_parser *p, jj_node *n, const char *end) {
    uint8_t outer = p->uses;
    int loops = p->loops;
    p->uses = 0;
    p->loops = 0;
    parse_whole_block(p, n, end);
    n->uses = p->uses;
    p->uses = outer;
    p->loops = loops;
}

static jj_node *parse_macro(jj_parser *p) {
    jj_node *n = ch_jj_node(p, JJ_S_MACRO);
    ch_jj_advance(p);
    jj_node *name = target_name(p);
    n->sym = name->sym;
    n->val = name->val;
    parse_signature(p, n);
    macro_body(p, n, "endmacro");
    return n;
}

static jj_node *parse_call_block(jj_parser *p) {
    jj_node *n = ch_jj_node(p, JJ_S_CALL);
    ch_jj_advance(p);
    if (ch_jj_at_op(p, "("))
        parse_signature(p, n);
    n->val = ch_jj_of_str(ch_jj_str(p->x, "caller", 6, true));
    n->sym = JJ_SYM_CALLER;
    n->a = ch_jj_parse_expr(p, true);
    if (n->a->kind != JJ_E_CALL)
        ch_jj_unexpected(p, "a call before this");
    macro_body(p, n, "endcall");
    return n;
}

static jj_node *parse_with(jj_parser *p) {
    jj_node *n = ch_jj_node(p, JJ_S_WITH);
    ch_jj_advance(p);
    while (p->tok.type != JJ_T_BLOCK_END && !ch_jj_at_op(p, ":")) {
        if (n->list.n)
            ch_jj_expect_op(p, ",");
        ch_jj_list_add(p->x, &n->list, target_name(p));
        ch_jj_expect_op(p, "=");
        ch_jj_list_add(p->x, &n->list2, ch_jj_parse_expr(p, true));
    }
    parse_whole_block(p, n, "endwith");
    return n;
}

static jj_node *parse_statement(jj_parser *p) {
    if (p->tok.type != JJ_T_NAME)
        ch_jj_unexpected(p, "the name of a tag");
    jj_node *n = NULL;
    if (ch_jj_at_name(p, "if"))
        return parse_if(p);
    if (ch_jj_at_name(p, "for"))
        return parse_for(p);
    if (ch_jj_at_name(p, "set"))
        return parse_set(p);
    if (ch_jj_at_name(p, "macro"))
        return parse_macro(p);
    if (ch_jj_at_name(p, "call"))
        return parse_call_block(p);
    if (ch_jj_at_name(p, "with"))
        return parse_with(p);
    if (ch_jj_at_name(p, "filter")) {
        n = ch_jj_node(p, JJ_S_FILTER);
        ch_jj_advance(p);
        n->b = ch_jj_parse_filters(p, NULL, true);
        parse_whole_block(p, n, "endfilter");
    } else if (ch_jj_at_name(p, "generation")) {
        n = ch_jj_node(p, JJ_S_SCOPE); // marks what the model wrote; the text itself is as without the tag
        ch_jj_advance(p);
        parse_whole_block(p, n, "endgeneration");
    } else if (ch_jj_at_name(p, "break") || ch_jj_at_name(p, "continue")) {
        if (!p->loops)
            ch_jj_fail(p->x, CH_EFORMAT, "template line %d: '%.*s' outside a loop", p->tok.line, (int)p->tok.n, p->tok.p);
        n = ch_jj_node(p, ch_jj_at_name(p, "break") ? JJ_S_BREAK : JJ_S_CONTINUE);
        ch_jj_advance(p);
    } else {
        ch_jj_fail(p->x, CH_EUNSUPPORTED, "template line %d: tag '%.*s' is unknown or not supported", p->tok.line,
                   (int)(p->tok.n < 40 ? p->tok.n : 40), p->tok.p);
    }
    return n;
}

// end: words that end the body, NULL at the top. Stops at such a word, or at the end of the template when end is NULL.
static void parse_body(jj_parser *p, jj_list *out, const char *const *end) {
    ch_jj_enter(p->x);
    for (;;) {
        if (p->tok.type == JJ_T_DATA) {
            jj_node *n = ch_jj_node(p, JJ_S_DATA);
            n->val = ch_jj_of_str(ch_jj_token_str(p));
            ch_jj_list_add(p->x, out, n);
            ch_jj_advance(p);
        } else if (p->tok.type == JJ_T_VAR_BEGIN) {
            jj_node *n = ch_jj_node(p, JJ_S_PRINT);
            ch_jj_advance(p);
            n->a = ch_jj_parse_tuple(p, JJ_TUPLE_PLAIN, NULL);
            if (p->tok.type != JJ_T_VAR_END)
                ch_jj_unexpected(p, "\"}}\"");
            ch_jj_list_add(p->x, out, n);
            ch_jj_advance(p);
        } else if (p->tok.type == JJ_T_BLOCK_BEGIN) {
            ch_jj_advance(p);
            for (const char *const *e = end; e && *e; e++)
                if (ch_jj_at_name(p, *e)) {
                    p->x->depth--;
                    return;
                }
            ch_jj_list_add(p->x, out, parse_statement(p));
            expect_block_end(p);
        } else if (p->tok.type == JJ_T_EOF && !end) {
            p->x->depth--;
            return;
        } else {
            char what[64] = "{% ";
            size_t n = 3;
            for (const char *const *e = end; e && *e; e++)
                n += (size_t)snprintf(what + n, sizeof what - n, "%s%s", e == end ? "" : " or ", *e);
            snprintf(what + n, sizeof what - n, " %%}");
            ch_jj_unexpected(p, end ? what : "text or a tag");
        }
    }
}

void ch_jj_parse(jj_ctx *x, ch_template *t, const char *src, size_t n) {
    jj_parser *p = ch_jj_alloc(x, 1, sizeof *p);
    p->x = x;
    p->t = t;
    static const char *const fixed[JJ_N_FIXED_SYM] = {"loop", "caller", "varargs", "kwargs"};
    for (size_t i = 0; i < JJ_N_FIXED_SYM; i++)
        ch_jj_symbol(p, fixed[i], strlen(fixed[i]));
    ch_jj_lex_init(&p->lex, x, src, n);
    ch_jj_advance(p);
    parse_body(p, &t->body, NULL);
}
