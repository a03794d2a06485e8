// Statements: output, branches, loops, assignments and macro definitions.
#include <string.h>

#include "text/jinja.h"

static void print_value(jj_ctx *x, jj_buf *out, jj_val v) {
    ch_jj_buf_add_str(x, out, ch_jj_to_str(x, v));
}

static int exec_if(jj_ctx *x, const jj_node *n, jj_scope *s, jj_buf *out) {
    for (size_t i = 0; i < n->list.n; i++)
        if (ch_jj_truth(x, ch_jj_eval(x, n->list.at[i], s)))
            return ch_jj_exec(x, &n->bodies[i], s, out);
    if (n->n_bodies > n->list.n)
        return ch_jj_exec(x, &n->bodies[n->list.n], s, out);
    return JJ_GO;
}

// ---- loops ----------------------------------------------------------------------------------------------------------------

// Next element that passes the loop's filter.
static bool take(jj_ctx *x, jj_loop *l, jj_val *v) {
    while (l->pos < l->src->n) {
        *v = l->src->item[l->pos++];
        ch_jj_charge(x, 1);
        if (!l->filter)
            return true;
        jj_scope s = {.up = l->outer};
        ch_jj_assign_target(x, &s, l->target, *v);
        if (ch_jj_truth(x, ch_jj_eval(x, l->filter, &s)))
            return true;
    }
    return false;
}

static bool peek(jj_ctx *x, jj_loop *l) {
    if (!l->peeked) {
        l->has_next = take(x, l, &l->next);
        l->peeked = true;
    }
    return l->has_next;
}

// Elements in all; a filtered loop is looked through to its end for this.
static int64_t loop_length(jj_ctx *x, jj_loop *l) {
    if (l->filter) {
        bool next = peek(x, l);
        size_t taken = l->index0 + 1 + next;
        jj_seq *rest = ch_jj_seq(x, JJ_LIST, 0);
        for (size_t i = 0; i < taken; i++)
            ch_jj_seq_add(x, rest, ch_jj_none());
        jj_val v;
        while (next && take(x, l, &v))
            ch_jj_seq_add(x, rest, v);
        l->src = rest;
        l->pos = taken;
        l->filter = NULL;
    }
    return (int64_t)l->src->n;
}

jj_val ch_jj_loop_attr(jj_ctx *x, jj_loop *l, const jj_str *name) {
    int64_t i = (int64_t)l->index0;
    if (ch_jj_str_is(name, "index0"))
        return ch_jj_int(i);
    if (ch_jj_str_is(name, "index"))
        return ch_jj_int(i + 1);
    if (ch_jj_str_is(name, "first"))
        return ch_jj_bool(i == 0);
    if (ch_jj_str_is(name, "last"))
        return ch_jj_bool(!peek(x, l));
    if (ch_jj_str_is(name, "length"))
        return ch_jj_int(loop_length(x, l));
    if (ch_jj_str_is(name, "revindex"))
        return ch_jj_int(loop_length(x, l) - i);
    if (ch_jj_str_is(name, "revindex0"))
        return ch_jj_int(loop_length(x, l) - i - 1);
    if (ch_jj_str_is(name, "depth"))
        return ch_jj_int(l->depth0 + 1);
    if (ch_jj_str_is(name, "depth0"))
        return ch_jj_int(l->depth0);
    if (ch_jj_str_is(name, "previtem"))
        return i ? l->prev : ch_jj_undef_hint(x, "there is no previous item");
    if (ch_jj_str_is(name, "nextitem"))
        return peek(x, l) ? l->next : ch_jj_undef_hint(x, "there is no next item");
    return ch_jj_undef_attr(x, (jj_val){.type = JJ_LOOP, .u.l = l}, name);
}

// Fresh variables of a block; old: of the loop's last iteration, used again unless a macro refers to it.
static jj_scope *block_scope(jj_ctx *x, jj_scope *old, jj_scope *up) {
    if (old && !old->captured) {
        old->n = 0;
        return old;
    }
    jj_scope *s = ch_jj_alloc(x, 1, sizeof *s);
    s->up = up;
    return s;
}

static int run_loop(jj_ctx *x, const jj_node *n, jj_val over, int depth0, jj_scope *outer, jj_buf *out) {
    jj_loop *l = ch_jj_alloc(x, 1, sizeof *l);
    l->src = ch_jj_iterate(x, over);
    l->node = n;
    l->depth0 = depth0;
    l->filter = n->c;
    l->target = n->a;
    l->outer = outer;
    bool done_one = false;
    jj_scope *s = NULL;
    for (size_t k = 0;; k++) {
        jj_val v;
        if (l->peeked ? !l->has_next : !take(x, l, &v))
            break;
        if (l->peeked)
            v = l->next;
        l->peeked = false;
        l->index0 = k;
        l->prev = l->cur;
        l->cur = v;
        s = block_scope(x, s, outer);
        ch_jj_assign_target(x, s, n->a, v);
        ch_jj_assign(x, s, JJ_SYM_LOOP, (jj_val){.type = JJ_LOOP, .u.l = l});
        int r = ch_jj_exec(x, &n->bodies[0], s, out);
        if (r == JJ_BREAK)
            break;
        done_one |= r == JJ_GO; // as the reference: an iteration that was cut short does not count against `else`
    }
    if (!done_one && n->n_bodies > 1) {
        jj_scope *inner = block_scope(x, NULL, outer);
        return ch_jj_exec(x, &n->bodies[1], inner, out);
    }
    return JJ_GO;
}

const jj_str *ch_jj_loop_again(jj_ctx *x, const jj_loop *l, jj_val over) {
    jj_buf b = {0};
    if (!l->node->uses)
        ch_jj_fail(x, CH_EFORMAT, "The loop must have the 'recursive' marker to be called recursively.");
    run_loop(x, l->node, over, l->depth0 + 1, l->outer, &b);
    return ch_jj_buf_str(x, &b);
}

// ---- other statements -----------------------------------------------------------------------------------------------------

static jj_val make_macro(jj_ctx *x, const jj_node *n, jj_scope *s) {
    jj_macro *m = ch_jj_alloc(x, 1, sizeof *m);
    m->node = n;
    m->scope = s;
    for (; s; s = s->up)
        s->captured = true;
    return (jj_val){.type = JJ_MACRO, .u.m = m};
}

// Text of a body with variables of its own.
static const jj_str *body_text(jj_ctx *x, const jj_list *body, jj_scope *up) {
    jj_scope *s = block_scope(x, NULL, up);
    jj_buf b = {0};
    ch_jj_exec(x, body, s, &b);
    return ch_jj_buf_str(x, &b);
}

static int exec_node(jj_ctx *x, const jj_node *n, jj_scope *s, jj_buf *out) {
    jj_val v;
    switch (n->kind) {
    case JJ_S_DATA: ch_jj_buf_add(x, out, n->val.u.s->p, n->val.u.s->n, true); return JJ_GO;
    case JJ_S_PRINT: print_value(x, out, ch_jj_eval(x, n->a, s)); return JJ_GO;
    case JJ_S_IF: return exec_if(x, n, s, out);
    case JJ_S_FOR: return run_loop(x, n, ch_jj_eval(x, n->b, s), 0, s, out);
    case JJ_S_SET: ch_jj_assign_target(x, s, n->a, ch_jj_eval(x, n->b, s)); return JJ_GO;
    case JJ_S_SETBLOCK:
        v = ch_jj_of_str(body_text(x, &n->bodies[0], s));
        ch_jj_assign_target(x, s, n->a, n->b ? ch_jj_eval_filter(x, n->b, v, s) : v);
        return JJ_GO;
    case JJ_S_MACRO: ch_jj_assign(x, s, n->sym, make_macro(x, n, s)); return JJ_GO;
    case JJ_S_CALL: {
        jj_kw caller = {n->val.u.s, make_macro(x, n, s)};
        print_value(x, out, ch_jj_call_node(x, n->a, s, &caller));
        return JJ_GO;
    }
    case JJ_S_FILTER:
        v = ch_jj_of_str(body_text(x, &n->bodies[0], s));
        print_value(x, out, ch_jj_eval_filter(x, n->b, v, s));
        return JJ_GO;
    case JJ_S_WITH:
    case JJ_S_SCOPE: {
        jj_scope *inner = block_scope(x, NULL, s);
        for (size_t i = 0; i < n->list.n; i++)
            ch_jj_assign_target(x, inner, n->list.at[i], ch_jj_eval(x, n->list2.at[i], s));
        return ch_jj_exec(x, &n->bodies[0], inner, out);
    }
    case JJ_S_BREAK: return JJ_BREAK;
    default: return JJ_CONTINUE;
    }
}

int ch_jj_exec(jj_ctx *x, const jj_list *body, jj_scope *s, jj_buf *out) {
    int r = JJ_GO;
    ch_jj_enter(x);
    for (size_t i = 0; r == JJ_GO && i < body->n; i++) {
        ch_jj_charge(x, 1);
        x->line = body->at[i]->line;
        r = exec_node(x, body->at[i], s, out);
    }
    x->depth--;
    return r;
}
