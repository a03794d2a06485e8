// Operators, subscripts and attributes with Python's rules.
#include <math.h>
#include <string.h>

#include "text/jinja.h"

static const char *const op_names[] = {"+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">=",
                                       "in", "not in"};

_Noreturn static void bad_operands(jj_ctx *x, int op, jj_val a, jj_val b) {
    if (a.type == JJ_UNDEF)
        ch_jj_fail_undef(x, a);
    if (b.type == JJ_UNDEF)
        ch_jj_fail_undef(x, b);
    if (op == JJ_OP_ADD && (a.type == JJ_STR || (a.type == JJ_SEQ && a.u.q->kind <= JJ_TUPLE)))
        ch_jj_fail(x, CH_EFORMAT, "can only concatenate %s (not \"%s\") to %s", ch_jj_type_name(a), ch_jj_type_name(b),
                   ch_jj_type_name(a));
    ch_jj_fail(x, CH_EFORMAT, "unsupported operand type(s) for %s: '%s' and '%s'", op_names[op], ch_jj_type_name(a),
               ch_jj_type_name(b));
}

_Noreturn static void overflow(jj_ctx *x, int op) {
    ch_jj_fail(x, CH_ERANGE, "result of %s is outside 64 bits", op_names[op]);
}

static jj_val power_int(jj_ctx *x, int64_t base, int64_t exp) {
    int64_t r = 1;
    while (exp > 0) {
        if ((exp & 1) && __builtin_mul_overflow(r, base, &r))
            overflow(x, JJ_OP_POW);
        exp >>= 1;
        if (exp && __builtin_mul_overflow(base, base, &base))
            overflow(x, JJ_OP_POW);
    }
    return ch_jj_int(r);
}

static jj_val math_int(jj_ctx *x, int op, int64_t a, int64_t b) {
    int64_t r = 0;
    bool bad = false;
    switch (op) {
    case JJ_OP_ADD: bad = __builtin_add_overflow(a, b, &r); break;
    case JJ_OP_SUB: bad = __builtin_sub_overflow(a, b, &r); break;
    case JJ_OP_MUL: bad = __builtin_mul_overflow(a, b, &r); break;
    case JJ_OP_DIV:
        if (!b)
            ch_jj_fail(x, CH_EFORMAT, "division by zero");
        return ch_jj_float((double)a / (double)b);
    case JJ_OP_FLOORDIV:
    case JJ_OP_MOD:
        if (!b)
            ch_jj_fail(x, CH_EFORMAT, "integer division or modulo by zero");
        if (b == -1) { // also the one quotient that overflows
            bad = op == JJ_OP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &r);
            break;
        }
        r = op == JJ_OP_MOD ? a % b : a / b;
        if (a % b && (a < 0) != (b < 0)) // towards minus infinity
            r += op == JJ_OP_MOD ? b : -1;
        break;
    default:
        if (b >= 0)
            return power_int(x, a, b);
        if (!a)
            ch_jj_fail(x, CH_EFORMAT, "0.0 cannot be raised to a negative power");
        return ch_jj_float(pow((double)a, (double)b));
    }
    if (bad)
        overflow(x, op);
    return ch_jj_int(r);
}

static double number(jj_val v) {
    return v.type == JJ_FLOAT ? v.u.f : v.type == JJ_INT ? (double)v.u.i : v.u.b;
}

static jj_val math_float(jj_ctx *x, int op, double a, double b) {
    double r;
    switch (op) {
    case JJ_OP_ADD: return ch_jj_float(a + b);
    case JJ_OP_SUB: return ch_jj_float(a - b);
    case JJ_OP_MUL: return ch_jj_float(a * b);
    case JJ_OP_DIV:
        if (b == 0)
            ch_jj_fail(x, CH_EFORMAT, "float division by zero");
        return ch_jj_float(a / b);
    case JJ_OP_FLOORDIV:
    case JJ_OP_MOD:
        if (b == 0)
            ch_jj_fail(x, CH_EFORMAT, "float floor division by zero");
        r = fmod(a, b);
        if (r != 0 && (r < 0) != (b < 0))
            r += b;
        if (r == 0)
            r = copysign(0, b);
        if (op == JJ_OP_MOD)
            return ch_jj_float(r);
        a = (a - r) / b;
        r = floor(a);
        return ch_jj_float(a - r > 0.5 ? r + 1 : r);
    default:
        if (a == 0 && b < 0)
            ch_jj_fail(x, CH_EFORMAT, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b) && !isinf(b))
            ch_jj_fail(x, CH_EUNSUPPORTED, "complex numbers are not supported");
        return ch_jj_float(pow(a, b));
    }
}

static jj_val repeat(jj_ctx *x, jj_val v, jj_val times) {
    int64_t n = times.type == JJ_BOOL ? times.u.b : times.u.i;
    if (n < 0)
        n = 0;
    if (v.type == JJ_STR) {
        const jj_str *s = v.u.s;
        if (s->n && (uint64_t)n > x->max_output / s->n)
            ch_jj_fail(x, CH_ELIMIT, "repeated text passes the limit of %zu bytes", x->max_output);
        jj_buf b = {0};
        for (int64_t i = 0; s->n && i < n; i++)
            ch_jj_buf_add_str(x, &b, s);
        jj_str *r = ch_jj_alloc(x, 1, sizeof *r);
        *r = *ch_jj_buf_str(x, &b);
        r->markup = s->markup;
        r->own = NULL;
        return ch_jj_of_str(r);
    }
    const jj_seq *q = v.u.q;
    if (q->n && (uint64_t)n > x->steps / q->n)
        ch_jj_fail(x, CH_ELIMIT, "repeated list passes the limit of steps");
    jj_seq *r = ch_jj_seq(x, q->kind, 0);
    for (int64_t i = 0; q->n && i < n; i++)
        for (size_t k = 0; k < q->n; k++)
            ch_jj_seq_add(x, r, q->item[k]);
    return ch_jj_of_seq(r);
}

static bool is_list(jj_val v) {
    return v.type == JJ_SEQ && v.u.q->kind <= JJ_TUPLE;
}

static bool is_int(jj_val v) {
    return v.type == JJ_INT || v.type == JJ_BOOL;
}

jj_val ch_jj_math(jj_ctx *x, int op, jj_val a, jj_val b) {
    if (is_int(a) && is_int(b))
        return math_int(x, op, a.type == JJ_BOOL ? a.u.b : a.u.i, b.type == JJ_BOOL ? b.u.b : b.u.i);
    if (ch_jj_is_num(a) && ch_jj_is_num(b))
        return math_float(x, op, number(a), number(b));
    if (op == JJ_OP_ADD && a.type == JJ_STR && b.type == JJ_STR) {
        if (!a.u.s->markup && !b.u.s->markup)
            return ch_jj_of_str(ch_jj_concat(x, a.u.s, b.u.s));
        jj_str *r = ch_jj_alloc(x, 1, sizeof *r);
        *r = *ch_jj_concat(x, ch_jj_escape(x, a.u.s), ch_jj_escape(x, b.u.s));
        r->markup = true;
        return ch_jj_of_str(r);
    }
    if (op == JJ_OP_ADD && is_list(a) && is_list(b) && a.u.q->kind == b.u.q->kind) {
        jj_seq *r = ch_jj_seq(x, a.u.q->kind, a.u.q->n + b.u.q->n);
        for (size_t i = 0; i < a.u.q->n; i++)
            ch_jj_seq_add(x, r, a.u.q->item[i]);
        for (size_t i = 0; i < b.u.q->n; i++)
            ch_jj_seq_add(x, r, b.u.q->item[i]);
        return ch_jj_of_seq(r);
    }
    if (op == JJ_OP_MUL && (a.type == JJ_STR || is_list(a)) && is_int(b))
        return repeat(x, a, b);
    if (op == JJ_OP_MUL && (b.type == JJ_STR || is_list(b)) && is_int(a))
        return repeat(x, b, a);
    if (op == JJ_OP_MOD && a.type == JJ_STR)
        return ch_jj_of_str(ch_jj_percent(x, a.u.s, b));
    bad_operands(x, op, a, b);
}

bool ch_jj_contains(jj_ctx *x, jj_val box, jj_val v) {
    if (box.type == JJ_STR) {
        if (v.type != JJ_STR)
            ch_jj_fail(x, CH_EFORMAT, "'in <string>' requires string as left operand, not %s", ch_jj_type_name(v));
        return ch_jj_find(x, box.u.s, v.u.s, 0, box.u.s->n) != SIZE_MAX;
    }
    if (box.type == JJ_DICT)
        return ch_jj_dict_find(x, box.u.d, v) != NULL;
    if (!ch_jj_iterable(box))
        ch_jj_fail(x, CH_EFORMAT, "argument of type '%s' is not iterable", ch_jj_type_name(box));
    const jj_seq *q = ch_jj_iterate(x, box);
    for (size_t i = 0; i < q->n; i++)
        if (ch_jj_equal(x, q->item[i], v))
            return true;
    return false;
}

bool ch_jj_compare(jj_ctx *x, int op, jj_val a, jj_val b) {
    if (op == JJ_OP_EQ || op == JJ_OP_NE)
        return ch_jj_equal(x, a, b) == (op == JJ_OP_EQ);
    if (op == JJ_OP_IN || op == JJ_OP_NOTIN)
        return ch_jj_contains(x, b, a) == (op == JJ_OP_IN);
    int o = ch_jj_order(x, a, b, op_names[op]);
    if (o == 2)
        return false;
    return op == JJ_OP_LT ? o < 0 : op == JJ_OP_LE ? o <= 0 : op == JJ_OP_GT ? o > 0 : o >= 0;
}

// ---- subscripts -----------------------------------------------------------------------------------------------------------

static int64_t slice_bound(jj_ctx *x, jj_val v, int64_t n, int64_t step, int64_t absent) {
    if (!ch_jj_given(v))
        return absent;
    if (!is_int(v))
        ch_jj_fail(x, CH_EFORMAT, "slice indices must be integers or None, found %s", ch_jj_type_name(v));
    int64_t i = v.type == JJ_BOOL ? v.u.b : v.u.i;
    if (i < 0)
        i = i < -n ? -1 : i + n;
    if (step < 0)
        return i >= n ? n - 1 : i;
    return i < 0 ? 0 : i > n ? n : i;
}

jj_val ch_jj_slice(jj_ctx *x, jj_val v, jj_val start, jj_val stop, jj_val step) {
    if (v.type == JJ_UNDEF)
        ch_jj_fail_undef(x, v);
    bool str = v.type == JJ_STR;
    if (!str && !(v.type == JJ_SEQ && (v.u.q->kind <= JJ_TUPLE || v.u.q->kind == JJ_RANGE || v.u.q->kind == JJ_GROUP)))
        return ch_jj_undef_hint(x, "slice of a value that is no sequence");
    int64_t n = ch_jj_length(x, v), by = 1;
    if (ch_jj_given(step)) {
        if (!is_int(step))
            ch_jj_fail(x, CH_EFORMAT, "slice step must be an integer or None, found %s", ch_jj_type_name(step));
        by = step.type == JJ_BOOL ? step.u.b : step.u.i;
    }
    if (by == 0)
        ch_jj_fail(x, CH_EFORMAT, "slice step cannot be zero");
    if (by > n)
        by = n + 1; // the same elements, and sums cannot overflow
    if (by < -n)
        by = -n - 1;
    int64_t b = slice_bound(x, start, n, by, by < 0 ? n - 1 : 0), e = slice_bound(x, stop, n, by, by < 0 ? -1 : n);
    if (str && by == 1) {
        if (b >= e)
            return ch_jj_of_str(ch_jj_sub(x, v.u.s, 0, 0));
        size_t first = ch_jj_byte_of_char(x, v.u.s, (size_t)b);
        return ch_jj_of_str(ch_jj_sub(x, v.u.s, first, ch_jj_byte_of_char(x, v.u.s, (size_t)e)));
    }
    const jj_seq *q = str ? ch_jj_iterate(x, v) : v.u.q;
    jj_seq *r = ch_jj_seq(x, str || q->kind == JJ_LIST || q->kind == JJ_RANGE ? JJ_LIST : JJ_TUPLE, 0);
    jj_buf text = {0};
    for (int64_t i = b; by > 0 ? i < e : i > e; i += by) {
        if (str)
            ch_jj_buf_add_str(x, &text, q->item[i].u.s);
        else
            ch_jj_seq_add(x, r, q->item[i]);
    }
    if (!str && q->kind == JJ_RANGE && q->n) { // a part of a range is a range
        r->kind = JJ_RANGE;
        r->range[0] = q->item[0].u.i + b * q->range[2];
        r->range[1] = q->item[0].u.i + e * q->range[2];
        r->range[2] = q->range[2] * by;
    }
    return str ? ch_jj_of_str(ch_jj_buf_str(x, &text)) : ch_jj_of_seq(r);
}

static jj_val method_value(jj_ctx *x, jj_val obj, const jj_def *d) {
    jj_func *f = ch_jj_alloc(x, 1, sizeof *f);
    f->def = d;
    f->self = obj;
    return (jj_val){.type = JJ_FUNC, .u.fn = f};
}

static bool element(jj_ctx *x, jj_val obj, jj_val key, jj_val *out) {
    if (obj.type == JJ_DICT || obj.type == JJ_NS) {
        if (key.type == JJ_DICT || (key.type == JJ_SEQ && key.u.q->kind != JJ_TUPLE))
            return false; // unhashable: the reference looks for an attribute then
        const jj_val *v = ch_jj_dict_find(x, obj.u.d, key);
        if (v)
            *out = *v;
        return v != NULL;
    }
    if (!is_int(key))
        return false;
    int64_t n = ch_jj_length(x, obj), i = key.type == JJ_BOOL ? key.u.b : key.u.i;
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return false;
    if (obj.type == JJ_STR) {
        size_t b = ch_jj_byte_of_char(x, obj.u.s, (size_t)i);
        uint32_t cp;
        *out = ch_jj_of_str(ch_jj_sub(x, obj.u.s, b, b + ch_utf8_decode(obj.u.s->p + b, obj.u.s->n - b, &cp)));
    } else {
        *out = obj.u.q->item[i];
    }
    return true;
}

static bool subscriptable(jj_val v) {
    return v.type == JJ_STR || v.type == JJ_DICT || v.type == JJ_NS ||
           (v.type == JJ_SEQ && (v.u.q->kind <= JJ_TUPLE || v.u.q->kind == JJ_RANGE || v.u.q->kind == JJ_GROUP));
}

static bool attribute(jj_ctx *x, jj_val obj, const jj_str *name, jj_val *out) {
    if (obj.type == JJ_NS) {
        const jj_val *v = ch_jj_dict_find_str(x, obj.u.d, name);
        if (v)
            *out = *v;
        return v != NULL;
    }
    if (obj.type == JJ_LOOP && !ch_jj_find_method(obj, name)) {
        *out = ch_jj_loop_attr(x, obj.u.l, name);
        return true;
    }
    if (obj.type == JJ_SEQ && obj.u.q->kind == JJ_GROUP && (ch_jj_str_is(name, "grouper") || ch_jj_str_is(name, "list"))) {
        *out = obj.u.q->item[ch_jj_str_is(name, "list")];
        return true;
    }
    if (obj.type == JJ_MACRO && ch_jj_str_is(name, "name")) {
        *out = obj.u.m->node->val;
        return true;
    }
    const jj_def *d = ch_jj_find_method(obj, name);
    if (d)
        *out = method_value(x, obj, d);
    return d != NULL;
}

jj_val ch_jj_item(jj_ctx *x, jj_val obj, jj_val key) {
    jj_val v;
    if (obj.type == JJ_UNDEF)
        ch_jj_fail_undef(x, obj);
    if (subscriptable(obj) && obj.type != JJ_NS && element(x, obj, key, &v))
        return v;
    if (key.type == JJ_STR && attribute(x, obj, key.u.s, &v))
        return v;
    return ch_jj_undef_item(x, obj, key);
}

jj_val ch_jj_attr(jj_ctx *x, jj_val obj, const jj_str *name) {
    jj_val v;
    if (obj.type == JJ_UNDEF)
        ch_jj_fail_undef(x, obj);
    if (attribute(x, obj, name, &v))
        return v;
    if (obj.type == JJ_DICT && element(x, obj, ch_jj_of_str(name), &v))
        return v;
    return ch_jj_undef_attr(x, obj, name);
}
