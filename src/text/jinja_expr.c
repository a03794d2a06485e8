// Expressions of a template, by precedence from `x if y else z` down to names, literals, calls, filters and tests.
// Operators of one level make one node with all its operands, so that long sums do not nest.
#include <string.h>

#include "text/jinja_parse.h"

static jj_node *parse_or(jj_parser *p);
static jj_node *parse_unary(jj_parser *p, bool with_filter);

jj_node *ch_jj_parse_expr(jj_parser *p, bool with_cond) {
    ch_jj_enter(p->x);
    jj_node *e = parse_or(p);
    jj_node *first = e, **hole = &first;
    while (with_cond && ch_jj_at_name(p, "if")) {
        // `a if b else c if d else e` groups to the right: the next condition goes into the hole of this one
        jj_node *n = ch_jj_node(p, JJ_E_COND);
        ch_jj_advance(p);
        n->b = *hole;
        n->a = parse_or(p);
        *hole = n;
        if (ch_jj_skip_name(p, "else")) {
            n->c = parse_or(p);
            hole = &n->c;
        }
    }
    p->x->depth--;
    return first;
}

static jj_node *parse_not(jj_parser *p);

// Operands of `or` / `and`, joined in one node.
static jj_node *parse_logic(jj_parser *p, const char *word, int kind, jj_node *(*operand)(jj_parser *)) {
    jj_node *left = operand(p);
    if (!ch_jj_at_name(p, word))
        return left;
    jj_node *n = ch_jj_node(p, kind);
    ch_jj_list_add(p->x, &n->list, left);
    while (ch_jj_skip_name(p, word))
        ch_jj_list_add(p->x, &n->list, operand(p));
    return n;
}

static jj_node *parse_and(jj_parser *p) {
    return parse_logic(p, "and", JJ_E_AND, parse_not);
}

static jj_node *parse_or(jj_parser *p) {
    return parse_logic(p, "or", JJ_E_OR, parse_and);
}

static void add_operand(jj_parser *p, jj_node **left, int kind, int op, jj_node *right) {
    jj_node *n = *left;
    if (n->kind != kind || n->c != n) { // c == itself marks a chain that is still being read
        n = ch_jj_node(p, kind);
        n->c = n;
        ch_jj_list_add(p->x, &n->list, *left);
        *left = n;
    }
    size_t k = n->list.n - 1;
    if ((k & (k - 1)) == 0) {
        uint8_t *ops = ch_jj_alloc(p->x, k ? 2 * k : 1, 1);
        if (k)
            memcpy(ops, n->ops, k);
        n->ops = ops;
    }
    n->ops[k] = (uint8_t)op;
    ch_jj_list_add(p->x, &n->list, right);
}

static jj_node *close_chain(jj_node *n) {
    if (n->c == n)
        n->c = NULL;
    return n;
}

static jj_node *parse_pow(jj_parser *p) {
    jj_node *left = parse_unary(p, true);
    while (ch_jj_skip_op(p, "**"))
        add_operand(p, &left, JJ_E_MATH, JJ_OP_POW, parse_unary(p, true));
    return close_chain(left);
}

static jj_node *parse_product(jj_parser *p) {
    static const struct {
        const char *z;
        int op;
    } ops[] = {{"*", JJ_OP_MUL}, {"/", JJ_OP_DIV}, {"//", JJ_OP_FLOORDIV}, {"%", JJ_OP_MOD}};
    jj_node *left = parse_pow(p);
    for (size_t i = 0; i < sizeof ops / sizeof *ops;) {
        if (ch_jj_skip_op(p, ops[i].z)) {
            add_operand(p, &left, JJ_E_MATH, ops[i].op, parse_pow(p));
            i = 0;
        } else {
            i++;
        }
    }
    return close_chain(left);
}

static jj_node *parse_concat(jj_parser *p) {
    jj_node *left = parse_product(p);
    if (!ch_jj_at_op(p, "~"))
        return left;
    jj_node *n = ch_jj_node(p, JJ_E_CONCAT);
    ch_jj_list_add(p->x, &n->list, left);
    while (ch_jj_skip_op(p, "~"))
        ch_jj_list_add(p->x, &n->list, parse_product(p));
    return n;
}

static jj_node *parse_sum(jj_parser *p) {
    jj_node *left = parse_concat(p);
    for (;;) {
        if (ch_jj_skip_op(p, "+"))
            add_operand(p, &left, JJ_E_MATH, JJ_OP_ADD, parse_concat(p));
        else if (ch_jj_skip_op(p, "-"))
            add_operand(p, &left, JJ_E_MATH, JJ_OP_SUB, parse_concat(p));
        else
            return close_chain(left);
    }
}

static jj_node *parse_compare(jj_parser *p) {
    static const struct {
        const char *z;
        int op;
    } ops[] = {{"==", JJ_OP_EQ}, {"!=", JJ_OP_NE}, {"<", JJ_OP_LT}, {"<=", JJ_OP_LE}, {">", JJ_OP_GT}, {">=", JJ_OP_GE}};
    jj_node *left = parse_sum(p);
    for (;;) {
        int op = -1;
        for (size_t i = 0; i < sizeof ops / sizeof *ops && op < 0; i++)
            if (ch_jj_skip_op(p, ops[i].z))
                op = ops[i].op;
        if (op < 0 && ch_jj_skip_name(p, "in"))
            op = JJ_OP_IN;
        if (op < 0 && ch_jj_at_name(p, "not")) {
            const jj_token *t = ch_jj_ahead(p);
            if (t->type == JJ_T_NAME && t->n == 2 && !memcmp(t->p, "in", 2)) {
                ch_jj_advance(p);
                ch_jj_advance(p);
                op = JJ_OP_NOTIN;
            }
        }
        if (op < 0)
            return close_chain(left);
        add_operand(p, &left, JJ_E_COMPARE, op, parse_sum(p));
    }
}

static jj_node *parse_not(jj_parser *p) {
    bool odd = false, any = false;
    jj_node *n = ch_jj_node(p, JJ_E_NOT);
    while (ch_jj_skip_name(p, "not")) {
        odd = !odd;
        any = true;
    }
    jj_node *e = parse_compare(p);
    if (!any)
        return e;
    n->a = e;
    if (odd)
        return n;
    jj_node *twice = ch_jj_node(p, JJ_E_NOT); // `not not x` is the truth of x
    twice->a = n;
    return twice;
}

// ---- primaries ------------------------------------------------------------------------------------------------------------

static bool at_tuple_end(jj_parser *p, const char *end_name) {
    return p->tok.type == JJ_T_VAR_END || p->tok.type == JJ_T_BLOCK_END || p->tok.type == JJ_T_EOF || ch_jj_at_op(p, ")") ||
           (end_name && ch_jj_at_name(p, end_name));
}

static jj_node *parse_primary(jj_parser *p);

jj_node *ch_jj_parse_tuple(jj_parser *p, int mode, const char *end_name) {
    jj_node *t = ch_jj_node(p, JJ_E_TUPLE);
    bool comma = false;
    ch_jj_enter(p->x);
    while (!at_tuple_end(p, end_name)) {
        ch_jj_list_add(p->x, &t->list,
                       mode == JJ_TUPLE_TARGET ? parse_primary(p) : ch_jj_parse_expr(p, mode != JJ_TUPLE_NO_COND));
        if (!ch_jj_at_op(p, ","))
            break;
        comma = true;
        ch_jj_advance(p);
    }
    p->x->depth--;
    if (comma)
        return t;
    if (t->list.n)
        return t->list.at[0];
    if (mode != JJ_TUPLE_PARENS)
        ch_jj_unexpected(p, "an expression");
    return t;
}

static jj_node *parse_name(jj_parser *p) {
    static const struct {
        const char *z;
        int type;
        bool b;
    } words[] = {{"true", JJ_BOOL, true}, {"True", JJ_BOOL, true}, {"false", JJ_BOOL, false}, {"False", JJ_BOOL, false},
                 {"none", JJ_NONE, false}, {"None", JJ_NONE, false}};
    jj_node *n = ch_jj_node(p, JJ_E_CONST);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (ch_jj_skip_name(p, words[i].z)) {
            n->val = words[i].type == JJ_BOOL ? ch_jj_bool(words[i].b) : ch_jj_none();
            return n;
        }
    }
    n->kind = JJ_E_NAME;
    n->sym = ch_jj_symbol(p, p->tok.p, p->tok.n);
    n->val = ch_jj_of_str(ch_jj_token_str(p));
    p->uses |= n->sym == JJ_SYM_CALLER ? JJ_USES_CALLER : n->sym == JJ_SYM_VARARGS ? JJ_USES_VARARGS
               : n->sym == JJ_SYM_KWARGS ? JJ_USES_KWARGS : 0;
    ch_jj_advance(p);
    return n;
}

static jj_node *parse_strings(jj_parser *p) {
    jj_node *n = ch_jj_node(p, JJ_E_CONST);
    const jj_str *s = ch_jj_token_str(p);
    ch_jj_advance(p);
    while (p->tok.type == JJ_T_STRING) { // neighbours are one string
        s = ch_jj_concat(p->x, s, ch_jj_token_str(p));
        ch_jj_advance(p);
    }
    jj_str *own = ch_jj_alloc(p->x, 1, sizeof *own); // renders may not append to it in place
    *own = *s;
    own->own = NULL;
    ch_jj_n_chars(p->x, own);
    n->val = ch_jj_of_str(own);
    return n;
}

// Elements up to the closing bracket; dict: key, value, key, value.
static jj_node *parse_items(jj_parser *p, int kind, const char *close) {
    jj_node *n = ch_jj_node(p, kind);
    ch_jj_advance(p);
    while (!ch_jj_at_op(p, close)) {
        if (n->list.n)
            ch_jj_expect_op(p, ",");
        if (ch_jj_at_op(p, close))
            break;
        ch_jj_list_add(p->x, &n->list, ch_jj_parse_expr(p, true));
        if (kind == JJ_E_DICT) {
            ch_jj_expect_op(p, ":");
            ch_jj_list_add(p->x, &n->list, ch_jj_parse_expr(p, true));
        }
    }
    ch_jj_advance(p);
    return n;
}

static jj_node *parse_primary(jj_parser *p) {
    jj_node *n;
    ch_jj_enter(p->x);
    if (p->tok.type == JJ_T_NAME) {
        n = parse_name(p);
    } else if (p->tok.type == JJ_T_STRING) {
        n = parse_strings(p);
    } else if (p->tok.type == JJ_T_INT || p->tok.type == JJ_T_FLOAT) {
        n = ch_jj_node(p, JJ_E_CONST);
        n->val = p->tok.type == JJ_T_INT ? ch_jj_int(p->tok.i) : ch_jj_float(p->tok.f);
        ch_jj_advance(p);
    } else if (ch_jj_skip_op(p, "(")) {
        n = ch_jj_parse_tuple(p, JJ_TUPLE_PARENS, NULL);
        ch_jj_expect_op(p, ")");
    } else if (ch_jj_at_op(p, "[")) {
        n = parse_items(p, JJ_E_LIST, "]");
    } else if (ch_jj_at_op(p, "{")) {
        n = parse_items(p, JJ_E_DICT, "}");
    } else {
        ch_jj_unexpected(p, "an expression");
    }
    p->x->depth--;
    return n;
}

// One element between the brackets of a subscript: an expression or a slice.
static jj_node *parse_subscript(jj_parser *p) {
    jj_node *s = ch_jj_node(p, JJ_E_SLICE);
    if (!ch_jj_at_op(p, ":")) {
        s->a = ch_jj_parse_expr(p, true);
        if (!ch_jj_at_op(p, ":"))
            return s->a;
    }
    ch_jj_advance(p);
    if (!ch_jj_at_op(p, ":") && !ch_jj_at_op(p, "]") && !ch_jj_at_op(p, ","))
        s->b = ch_jj_parse_expr(p, true);
    if (ch_jj_skip_op(p, ":") && !ch_jj_at_op(p, "]") && !ch_jj_at_op(p, ","))
        s->c = ch_jj_parse_expr(p, true);
    return s;
}

static jj_node *parse_member(jj_parser *p, jj_node *of) {
    jj_node *n = ch_jj_node(p, JJ_E_ITEM);
    n->a = of;
    if (ch_jj_skip_op(p, ".")) {
        if (p->tok.type == JJ_T_NAME) {
            n->kind = JJ_E_ATTR;
            n->val = ch_jj_of_str(ch_jj_token_str(p));
        } else if (p->tok.type == JJ_T_INT) {
            n->b = ch_jj_node(p, JJ_E_CONST);
            n->b->val = ch_jj_int(p->tok.i);
        } else {
            ch_jj_unexpected(p, "a name or a number after '.'");
        }
        ch_jj_advance(p);
        return n;
    }
    ch_jj_advance(p); // "["
    jj_node *t = ch_jj_node(p, JJ_E_TUPLE);
    while (!ch_jj_at_op(p, "]")) {
        if (t->list.n)
            ch_jj_expect_op(p, ",");
        ch_jj_list_add(p->x, &t->list, parse_subscript(p));
    }
    if (!t->list.n)
        ch_jj_unexpected(p, "a subscript");
    ch_jj_advance(p);
    n->b = t->list.n == 1 ? t->list.at[0] : t;
    return n;
}

static jj_call *parse_args(jj_parser *p) {
    jj_call *c = ch_jj_alloc(p->x, 1, sizeof *c);
    ch_jj_expect_op(p, "(");
    for (bool first = true; !ch_jj_at_op(p, ")"); first = false) {
        if (!first)
            ch_jj_expect_op(p, ",");
        if (ch_jj_at_op(p, ")"))
            break;
        if (!c->star && !c->dstar && ch_jj_skip_op(p, "*")) {
            c->star = ch_jj_parse_expr(p, true);
        } else if (!c->dstar && ch_jj_skip_op(p, "**")) {
            c->dstar = ch_jj_parse_expr(p, true);
        } else if (p->tok.type == JJ_T_NAME && ch_jj_ahead(p)->type == JJ_T_OP && ch_jj_ahead(p)->n == 1 &&
                   *ch_jj_ahead(p)->p == '=') {
            jj_node *name = ch_jj_node(p, JJ_E_CONST);
            name->val = ch_jj_of_str(ch_jj_token_str(p));
            ch_jj_advance(p);
            ch_jj_advance(p);
            ch_jj_list_add(p->x, &c->kw, name);
            ch_jj_list_add(p->x, &c->kw, ch_jj_parse_expr(p, true));
        } else if (c->kw.n || c->star || c->dstar) {
            ch_jj_unexpected(p, "a named argument, as one came before");
        } else {
            ch_jj_list_add(p->x, &c->pos, ch_jj_parse_expr(p, true));
        }
    }
    ch_jj_advance(p);
    return c;
}

static jj_node *parse_call(jj_parser *p, jj_node *of) {
    jj_node *n = ch_jj_node(p, JJ_E_CALL);
    n->a = of;
    n->call = parse_args(p);
    return n;
}

static jj_node *parse_postfix(jj_parser *p, jj_node *n) {
    for (;;) {
        if (ch_jj_at_op(p, ".") || ch_jj_at_op(p, "["))
            n = parse_member(p, n);
        else if (ch_jj_at_op(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

jj_node *ch_jj_parse_filters(jj_parser *p, jj_node *n, bool inline_start) {
    while (inline_start || ch_jj_at_op(p, "|")) {
        if (!inline_start)
            ch_jj_advance(p);
        inline_start = false;
        if (p->tok.type != JJ_T_NAME)
            ch_jj_unexpected(p, "the name of a filter");
        jj_node *f = ch_jj_node(p, JJ_E_FILTER);
        f->a = n;
        f->val = ch_jj_of_str(ch_jj_token_str(p));
        f->def = ch_jj_find_filter(p->tok.p, p->tok.n);
        ch_jj_advance(p);
        if (ch_jj_at_op(p, "("))
            f->call = parse_args(p);
        n = f;
    }
    return n;
}

static jj_node *parse_test(jj_parser *p, jj_node *of) {
    ch_jj_advance(p); // "is"
    bool negated = ch_jj_skip_name(p, "not");
    if (p->tok.type != JJ_T_NAME)
        ch_jj_unexpected(p, "the name of a test");
    jj_node *n = ch_jj_node(p, JJ_E_TEST);
    n->a = of;
    n->val = ch_jj_of_str(ch_jj_token_str(p));
    n->def = ch_jj_find_test(p->tok.p, p->tok.n);
    ch_jj_advance(p);
    bool starts = p->tok.type == JJ_T_NAME || p->tok.type == JJ_T_STRING || p->tok.type == JJ_T_INT ||
                  p->tok.type == JJ_T_FLOAT || ch_jj_at_op(p, "[") || ch_jj_at_op(p, "{");
    if (ch_jj_at_op(p, "(")) {
        n->call = parse_args(p);
    } else if (starts && !ch_jj_at_name(p, "else") && !ch_jj_at_name(p, "or") && !ch_jj_at_name(p, "and")) {
        if (ch_jj_at_name(p, "is"))
            ch_jj_unexpected(p, "no second 'is' after a test");
        n->call = ch_jj_alloc(p->x, 1, sizeof *n->call);
        ch_jj_list_add(p->x, &n->call->pos, parse_postfix(p, parse_primary(p)));
    }
    if (!negated)
        return n;
    jj_node *no = ch_jj_node(p, JJ_E_NOT);
    no->a = n;
    return no;
}

static jj_node *parse_unary(jj_parser *p, bool with_filter) {
    jj_node *n;
    if (ch_jj_at_op(p, "-") || ch_jj_at_op(p, "+")) {
        n = ch_jj_node(p, ch_jj_at_op(p, "-") ? JJ_E_NEG : JJ_E_POS);
        ch_jj_advance(p);
        ch_jj_enter(p->x);
        n->a = parse_unary(p, false);
        p->x->depth--;
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    while (with_filter) {
        if (ch_jj_at_op(p, "|"))
            n = ch_jj_parse_filters(p, n, false);
        else if (ch_jj_at_name(p, "is"))
            n = parse_test(p, n);
        else if (ch_jj_at_op(p, "("))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}
