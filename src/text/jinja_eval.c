// Expressions and calls: names, operators, arguments, macros, filters and tests.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja.h"

// ---- failing, memory, budget ----------------------------------------------------------------------------------------------

void ch_jj_fail(jj_ctx *x, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char msg[sizeof x->err.msg];
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    for (size_t i = 0, k; msg[i]; i += k) { // names may have been cut within a character
        uint32_t cp;
        k = ch_utf8_decode(msg + i, strlen(msg + i), &cp);
        if (cp == UINT32_MAX)
            msg[i] = '?';
    }
    if (x->line)
        ch_error_set(&x->err, code, "template line %d: %s", x->line, msg);
    else
        ch_error_set(&x->err, code, "%s", msg);
    longjmp(x->fail, 1);
}

void ch_jj_raise(jj_ctx *x, const jj_str *msg) {
    size_t n = msg->n < 2 * sizeof x->err.msg ? msg->n : 2 * sizeof x->err.msg; // more than fits: the end shows the cut
    ch_error_set(&x->err, CH_EFORMAT, "%.*s", (int)n, msg->p);
    longjmp(x->fail, 1);
}

void *ch_jj_alloc(jj_ctx *x, size_t n, size_t size) {
    size_t bytes;
    if (!ch_mul_size(n, size, &bytes) || bytes > x->max_memory - ch_arena_bytes(x->arena))
        ch_jj_fail(x, CH_ELIMIT, "template needs more than %zu bytes of memory", x->max_memory);
    void *p = ch_arena_alloc(x->arena, bytes);
    if (!p)
        ch_jj_fail(x, CH_ENOMEM, "no memory for the template");
    return p;
}

void ch_jj_charge(jj_ctx *x, uint64_t steps) {
    if (steps > x->steps)
        ch_jj_fail(x, CH_ELIMIT, "it takes more steps than the limit");
    x->steps -= steps;
}

void ch_jj_enter(jj_ctx *x) {
    if (x->depth >= x->max_depth)
        ch_jj_fail(x, CH_ELIMIT, "nested deeper than %d levels", x->max_depth);
    x->depth++;
}

// ---- variables ------------------------------------------------------------------------------------------------------------

jj_val ch_jj_lookup(jj_ctx *x, jj_scope *s, int32_t sym) {
    for (; s; s = s->up)
        for (size_t i = 0; i < s->n; i++)
            if (s->var[i].sym == sym)
                return s->var[i].val;
    if (x->root[sym].type == JJ_ABSENT)
        return ch_jj_undef_name(x, x->t->sym[sym]);
    return x->root[sym];
}

void ch_jj_assign(jj_ctx *x, jj_scope *s, int32_t sym, jj_val v) {
    if (!s) {
        x->root[sym] = v;
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        if (s->var[i].sym == sym) {
            s->var[i].val = v;
            return;
        }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 4;
        jj_bind *var = ch_jj_alloc(x, cap, sizeof *var);
        if (s->n)
            memcpy(var, s->var, s->n * sizeof *var);
        s->var = var;
        s->cap = cap;
    }
    s->var[s->n++] = (jj_bind){sym, v};
}

void ch_jj_assign_target(jj_ctx *x, jj_scope *s, const jj_node *target, jj_val v) {
    if (target->kind == JJ_E_NAME) {
        ch_jj_assign(x, s, target->sym, v);
        return;
    }
    if (target->kind == JJ_E_NSREF) {
        jj_val ns = ch_jj_lookup(x, s, target->sym);
        if (ns.type != JJ_NS)
            ch_jj_fail(x, CH_EFORMAT, "cannot assign attribute on non-namespace object");
        ch_jj_dict_set(x, ns.u.d, target->val, v);
        return;
    }
    const jj_seq *q = ch_jj_iterate(x, v);
    if (q->n != target->list.n)
        ch_jj_fail(x, CH_EFORMAT, "expected %zu values to unpack, found %zu", target->list.n, q->n);
    for (size_t i = 0; i < q->n; i++)
        ch_jj_assign_target(x, s, target->list.at[i], q->item[i]); // as deep as the source's brackets
}

// ---- arguments ------------------------------------------------------------------------------------------------------------

typedef struct arg_room {
    jj_val pos[JJ_MAX_ARGS];
    jj_kw kw[JJ_MAX_ARGS];
} arg_room;

static const jj_str *kw_name(jj_ctx *x, jj_val v) {
    if (v.type != JJ_STR)
        ch_jj_fail(x, CH_EFORMAT, "keywords must be strings, found %s", ch_jj_type_name(v));
    return v.u.s;
}

// Values of a call's arguments; *a points into room or, when there are many, into the arena.
static void eval_args(jj_ctx *x, const jj_call *c, jj_scope *s, const jj_kw *extra, arg_room *room, jj_args *a) {
    memset(a, 0, sizeof *a);
    if (!c && !extra)
        return;
    static const jj_call none;
    if (!c)
        c = &none;
    const jj_seq *star = c->star ? ch_jj_iterate(x, ch_jj_eval(x, c->star, s)) : NULL;
    jj_val dstar = c->dstar ? ch_jj_eval(x, c->dstar, s) : ch_jj_none();
    if (c->dstar && dstar.type != JJ_DICT)
        ch_jj_fail(x, CH_EFORMAT, "argument after ** must be a mapping, not %s", ch_jj_type_name(dstar));
    size_t n = c->pos.n + (star ? star->n : 0);
    size_t n_kw = c->kw.n / 2 + (c->dstar ? dstar.u.d->n : 0) + (extra ? 1 : 0);
    jj_val *pos = n <= JJ_MAX_ARGS ? room->pos : ch_jj_alloc(x, n, sizeof *pos);
    jj_kw *kw = n_kw <= JJ_MAX_ARGS ? room->kw : ch_jj_alloc(x, n_kw, sizeof *kw);
    for (size_t i = 0; i < c->pos.n; i++)
        pos[i] = ch_jj_eval(x, c->pos.at[i], s);
    for (size_t i = c->pos.n; i < n; i++)
        pos[i] = star->item[i - c->pos.n];
    size_t k = 0;
    for (size_t i = 0; i < c->kw.n; i += 2, k++)
        kw[k] = (jj_kw){c->kw.at[i]->val.u.s, ch_jj_eval(x, c->kw.at[i + 1], s)};
    for (size_t i = 0; c->dstar && i < dstar.u.d->n; i++, k++)
        kw[k] = (jj_kw){kw_name(x, dstar.u.d->entry[i].key), dstar.u.d->entry[i].val};
    if (extra)
        kw[k] = *extra;
    *a = (jj_args){pos, n, kw, n_kw};
}

// Position of name in a list of words, -1: not there.
static int param_index(const char *params, const jj_str *name) {
    int k = 0;
    for (const char *p = params; *p; k++) {
        size_t n = strcspn(p, " ");
        if (n == name->n && !memcmp(p, name->p, n))
            return k;
        p += n + (p[n] == ' ');
    }
    return -1;
}

jj_val ch_jj_call_def(jj_ctx *x, const jj_def *d, jj_val self, const jj_args *a) {
    static const jj_args none;
    if (!a)
        a = &none;
    ch_jj_charge(x, 1);
    if (!d->params)
        return d->fn(&(jj_in){x, self, NULL, a});
    jj_val arg[JJ_MAX_ARGS];
    memset(arg, 0, sizeof arg);
    int n_params = 0;
    for (const char *p = d->params; *p; n_params++) {
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    if (a->n > (size_t)n_params)
        ch_jj_fail(x, CH_EFORMAT, "%s() takes at most %d arguments, found %zu", d->name, n_params, a->n);
    for (size_t i = 0; i < a->n; i++)
        arg[i] = a->pos[i];
    for (size_t i = 0; i < a->n_kw; i++) {
        int k = param_index(d->params, a->kw[i].name);
        if (k < 0 || arg[k].type != JJ_ABSENT)
            ch_jj_fail(x, CH_EFORMAT, "%s() got %s argument '%.*s'", d->name, k < 0 ? "an unexpected" : "twice the",
                       (int)(a->kw[i].name->n < 60 ? a->kw[i].name->n : 60), a->kw[i].name->p);
        arg[k] = a->kw[i].val;
    }
    for (int i = 0; i < d->n_needed; i++)
        if (arg[i].type == JJ_ABSENT)
            ch_jj_fail(x, CH_EFORMAT, "%s() needs %d argument%s, found %zu", d->name, d->n_needed,
                       d->n_needed == 1 ? "" : "s", a->n + a->n_kw);
    return d->fn(&(jj_in){x, self, arg, a});
}

// ---- macros ---------------------------------------------------------------------------------------------------------------

static bool is_param(const jj_node *n, const jj_str *name) {
    for (size_t i = 0; i < n->list.n; i++)
        if (ch_jj_str_eq(n->list.at[i]->val.u.s, name))
            return true;
    return false;
}

static const jj_kw *find_kw(const jj_args *a, const jj_str *name) {
    for (size_t i = 0; i < a->n_kw; i++)
        if (ch_jj_str_eq(a->kw[i].name, name))
            return &a->kw[i];
    return NULL;
}

// Arguments beyond the parameters go to varargs, kwargs and caller where the macro names these; else they are errors.
static void bind_rest(jj_ctx *x, const jj_node *n, const jj_args *a, jj_scope *s) {
    int name_n = (int)(n->val.u.s->n < 60 ? n->val.u.s->n : 60);
    const char *name = n->val.u.s->p;
    if (n->uses & JJ_USES_VARARGS) {
        jj_seq *rest = ch_jj_seq(x, JJ_TUPLE, 0);
        for (size_t i = n->list.n; i < a->n; i++)
            ch_jj_seq_add(x, rest, a->pos[i]);
        ch_jj_assign(x, s, JJ_SYM_VARARGS, ch_jj_of_seq(rest));
    } else if (a->n > n->list.n) {
        ch_jj_fail(x, CH_EFORMAT, "macro '%.*s' takes not more than %zu argument(s)", name_n, name, n->list.n);
    }
    jj_dict *rest = n->uses & JJ_USES_KWARGS ? ch_jj_dict(x) : NULL;
    jj_val caller = ch_jj_undef_hint(x, "No caller defined");
    for (size_t i = 0; i < a->n_kw; i++) {
        const jj_kw *k = &a->kw[i];
        if (is_param(n, k->name))
            continue;
        if (ch_jj_str_is(k->name, "caller") && (n->uses & JJ_USES_CALLER))
            caller = k->val;
        else if (rest)
            ch_jj_dict_set(x, rest, ch_jj_of_str(k->name), k->val);
        else
            ch_jj_fail(x, CH_EFORMAT, "macro '%.*s' takes no keyword argument '%.*s'", name_n, name,
                       (int)(k->name->n < 60 ? k->name->n : 60), k->name->p);
    }
    if (n->uses & JJ_USES_CALLER)
        ch_jj_assign(x, s, JJ_SYM_CALLER, caller);
    if (rest)
        ch_jj_assign(x, s, JJ_SYM_KWARGS, (jj_val){.type = JJ_DICT, .u.d = rest});
}

jj_val ch_jj_call_macro(jj_ctx *x, const jj_macro *m, const jj_args *a) {
    const jj_node *n = m->node;
    jj_scope *s = ch_jj_alloc(x, 1, sizeof *s);
    s->up = m->scope;
    ch_jj_enter(x);
    for (size_t i = 0; i < n->list.n; i++) {
        const jj_node *param = n->list.at[i];
        const jj_kw *k = find_kw(a, param->val.u.s);
        size_t first_default = n->list.n - n->list2.n;
        jj_val v;
        if (i < a->n && k)
            ch_jj_fail(x, CH_EFORMAT, "macro '%.*s' got twice the argument '%.*s'", (int)n->val.u.s->n, n->val.u.s->p,
                       (int)param->val.u.s->n, param->val.u.s->p);
        if (i < a->n)
            v = a->pos[i];
        else if (k)
            v = k->val;
        else if (i >= first_default)
            v = ch_jj_eval(x, n->list2.at[i - first_default], s);
        else
            v = ch_jj_undef_name(x, param->val.u.s);
        ch_jj_assign(x, s, param->sym, v);
    }
    bind_rest(x, n, a, s);
    jj_buf out = {0};
    ch_jj_exec(x, &n->bodies[0], s, &out);
    x->depth--;
    return ch_jj_of_str(ch_jj_buf_str(x, &out));
}

jj_val ch_jj_call(jj_ctx *x, jj_val f, const jj_args *a) {
    if (f.type == JJ_MACRO)
        return ch_jj_call_macro(x, f.u.m, a);
    if (f.type == JJ_FUNC)
        return ch_jj_call_def(x, f.u.fn->def, f.u.fn->self, a);
    if (f.type == JJ_UNDEF)
        ch_jj_fail_undef(x, f);
    if (f.type == JJ_LOOP && a->n == 1)
        return ch_jj_of_str(ch_jj_loop_again(x, f.u.l, a->pos[0]));
    ch_jj_fail(x, CH_EFORMAT, "'%s' object is not callable", ch_jj_type_name(f));
}

jj_val ch_jj_call_node(jj_ctx *x, const jj_node *n, jj_scope *s, const jj_kw *extra) {
    arg_room room;
    jj_args a;
    jj_val f = ch_jj_eval(x, n->a, s);
    eval_args(x, n->call, s, extra, &room, &a);
    x->line = n->line;
    return ch_jj_call(x, f, &a);
}

// ---- expressions ----------------------------------------------------------------------------------------------------------

// self: the value filtered by the innermost filter of a block's chain, ABSENT elsewhere.
jj_val ch_jj_eval_filter(jj_ctx *x, const jj_node *n, jj_val self, jj_scope *s) {
    arg_room room;
    jj_args a;
    ch_jj_enter(x);
    jj_val v = self;
    if (n->a)
        v = n->a->kind == JJ_E_FILTER ? ch_jj_eval_filter(x, n->a, self, s) : ch_jj_eval(x, n->a, s);
    x->line = n->line;
    if (!n->def)
        ch_jj_fail(x, CH_EUNSUPPORTED, "No filter named '%.*s'.", (int)n->val.u.s->n, n->val.u.s->p);
    eval_args(x, n->call, s, NULL, &room, &a);
    v = ch_jj_call_def(x, n->def, v, &a);
    x->depth--;
    return v;
}

static jj_val eval_test(jj_ctx *x, const jj_node *n, jj_scope *s) {
    arg_room room;
    jj_args a;
    jj_val v = ch_jj_eval(x, n->a, s);
    if (!n->def)
        ch_jj_fail(x, CH_EUNSUPPORTED, "No test named '%.*s'.", (int)n->val.u.s->n, n->val.u.s->p);
    eval_args(x, n->call, s, NULL, &room, &a);
    return ch_jj_call_def(x, n->def, v, &a);
}

static jj_val eval_items(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_seq *q = ch_jj_seq(x, n->kind == JJ_E_LIST ? JJ_LIST : JJ_TUPLE, n->list.n);
    for (size_t i = 0; i < n->list.n; i++)
        ch_jj_seq_add(x, q, ch_jj_eval(x, n->list.at[i], s));
    return ch_jj_of_seq(q);
}

static jj_val eval_dict(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_dict *d = ch_jj_dict(x);
    for (size_t i = 0; i < n->list.n; i += 2) {
        jj_val k = ch_jj_eval(x, n->list.at[i], s);
        ch_jj_dict_set(x, d, k, ch_jj_eval(x, n->list.at[i + 1], s));
    }
    return (jj_val){.type = JJ_DICT, .u.d = d};
}

static jj_val eval_item(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_val obj = ch_jj_eval(x, n->a, s);
    const jj_node *k = n->b;
    if (k->kind != JJ_E_SLICE)
        return ch_jj_item(x, obj, ch_jj_eval(x, k, s));
    jj_val start = k->a ? ch_jj_eval(x, k->a, s) : ch_jj_none(), stop = k->b ? ch_jj_eval(x, k->b, s) : ch_jj_none();
    return ch_jj_slice(x, obj, start, stop, k->c ? ch_jj_eval(x, k->c, s) : ch_jj_none());
}

static jj_val eval_logic(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_val v = ch_jj_none();
    for (size_t i = 0; i < n->list.n; i++) {
        v = ch_jj_eval(x, n->list.at[i], s);
        if (ch_jj_truth(x, v) == (n->kind == JJ_E_OR))
            break;
    }
    return v;
}

static jj_val eval_compare(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_val left = ch_jj_eval(x, n->list.at[0], s);
    for (size_t i = 1; i < n->list.n; i++) {
        jj_val right = ch_jj_eval(x, n->list.at[i], s);
        x->line = n->line;
        if (!ch_jj_compare(x, n->ops[i - 1], left, right))
            return ch_jj_bool(false);
        left = right;
    }
    return ch_jj_bool(true);
}

static jj_val eval_math(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_val v = ch_jj_eval(x, n->list.at[0], s);
    for (size_t i = 1; i < n->list.n; i++) {
        jj_val right = ch_jj_eval(x, n->list.at[i], s);
        x->line = n->line;
        ch_jj_charge(x, 1);
        v = ch_jj_math(x, n->ops[i - 1], v, right);
    }
    return v;
}

static jj_val eval_concat(jj_ctx *x, const jj_node *n, jj_scope *s) {
    const jj_str *r = ch_jj_str(x, "", 0, false);
    for (size_t i = 0; i < n->list.n; i++)
        r = ch_jj_concat(x, r, ch_jj_to_str(x, ch_jj_eval(x, n->list.at[i], s)));
    if (!r->markup)
        return ch_jj_of_str(r);
    jj_str *plain = ch_jj_alloc(x, 1, sizeof *plain);
    *plain = *r;
    plain->markup = false;
    return ch_jj_of_str(plain);
}

static jj_val eval_sign(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_val v = ch_jj_eval(x, n->a, s);
    if (v.type == JJ_UNDEF)
        ch_jj_fail_undef(x, v);
    if (!ch_jj_is_num(v))
        ch_jj_fail(x, CH_EFORMAT, "bad operand type for unary %s: '%s'", n->kind == JJ_E_NEG ? "-" : "+", ch_jj_type_name(v));
    if (n->kind == JJ_E_POS)
        return v.type == JJ_BOOL ? ch_jj_int(v.u.b) : v;
    return v.type == JJ_FLOAT ? ch_jj_float(-v.u.f) : ch_jj_math(x, JJ_OP_SUB, ch_jj_int(0), v);
}

static jj_val eval_node(jj_ctx *x, const jj_node *n, jj_scope *s) {
    switch (n->kind) {
    case JJ_E_CONST: return n->val;
    case JJ_E_NAME: return ch_jj_lookup(x, s, n->sym);
    case JJ_E_LIST:
    case JJ_E_TUPLE: return eval_items(x, n, s);
    case JJ_E_DICT: return eval_dict(x, n, s);
    case JJ_E_ATTR: {
        jj_val obj = ch_jj_eval(x, n->a, s);
        x->line = n->line;
        return ch_jj_attr(x, obj, n->val.u.s);
    }
    case JJ_E_ITEM: return eval_item(x, n, s);
    case JJ_E_CALL: return ch_jj_call_node(x, n, s, NULL);
    case JJ_E_FILTER: return ch_jj_eval_filter(x, n, ch_jj_absent(), s);
    case JJ_E_TEST: return eval_test(x, n, s);
    case JJ_E_OR:
    case JJ_E_AND: return eval_logic(x, n, s);
    case JJ_E_NOT: return ch_jj_bool(!ch_jj_truth(x, ch_jj_eval(x, n->a, s)));
    case JJ_E_NEG:
    case JJ_E_POS: return eval_sign(x, n, s);
    case JJ_E_COMPARE: return eval_compare(x, n, s);
    case JJ_E_MATH: return eval_math(x, n, s);
    case JJ_E_CONCAT: return eval_concat(x, n, s);
    default: // a slice among several subscripts
        ch_jj_fail(x, CH_EUNSUPPORTED, "slices in several dimensions are not supported");
    }
}

jj_val ch_jj_eval(jj_ctx *x, const jj_node *n, jj_scope *s) {
    ch_jj_charge(x, 1);
    while (n->kind == JJ_E_COND) { // a long `a if b else c if d else ...` does not nest
        if (ch_jj_truth(x, ch_jj_eval(x, n->a, s))) {
            n = n->b;
        } else if (n->c) {
            n = n->c;
        } else {
            return ch_jj_undef_hint(x, "the inline if-expression evaluated to false and no else section was defined.");
        }
        ch_jj_charge(x, 1);
    }
    if (n->kind == JJ_E_CONST)
        return n->val;
    ch_jj_enter(x);
    jj_val v = eval_node(x, n, s);
    x->depth--;
    return v;
}
