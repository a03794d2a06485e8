// Tests (`x is defined`), the table look-ups, and the reading of arguments.
#include <math.h>
#include <string.h>

#include <utf8proc.h>

#include "text/jinja.h"

// ---- arguments ------------------------------------------------------------------------------------------------------------

bool ch_jj_given(jj_val v) {
    return v.type != JJ_ABSENT && v.type != JJ_NONE;
}

const jj_str *ch_jj_arg_str(jj_ctx *x, jj_val v, const char *what) {
    if (v.type == JJ_UNDEF)
        ch_jj_fail_undef(x, v);
    if (v.type != JJ_STR)
        ch_jj_fail(x, CH_EFORMAT, "%s: expected a string, found %s", what, ch_jj_type_name(v));
    return v.u.s;
}

int64_t ch_jj_arg_int(jj_ctx *x, jj_val v, const char *what, int64_t absent) {
    if (v.type == JJ_ABSENT)
        return absent;
    if (v.type == JJ_UNDEF)
        ch_jj_fail_undef(x, v);
    if (v.type != JJ_INT && v.type != JJ_BOOL)
        ch_jj_fail(x, CH_EFORMAT, "%s: expected an integer, found %s", what, ch_jj_type_name(v));
    return v.type == JJ_INT ? v.u.i : v.u.b;
}

bool ch_jj_arg_bool(jj_ctx *x, jj_val v, bool absent) {
    return v.type == JJ_ABSENT ? absent : ch_jj_truth(x, v);
}

const jj_def *ch_jj_find_def(const jj_def *table, const char *name, size_t n) {
    for (; table->name; table++)
        if (strlen(table->name) == n && !memcmp(table->name, name, n))
            return table;
    return NULL;
}

const jj_def *ch_jj_find_filter(const char *name, size_t n) {
    const jj_def *d = ch_jj_find_def(ch_jj_filters_text, name, n);
    return d ? d : ch_jj_find_def(ch_jj_filters_seq, name, n);
}

// ---- tests ----------------------------------------------------------------------------------------------------------------

static jj_val is_defined(const jj_in *in) {
    return ch_jj_bool(in->self.type != JJ_UNDEF);
}

static jj_val is_undefined(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_UNDEF);
}

static jj_val is_none(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_NONE);
}

static jj_val is_boolean(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_BOOL);
}

static jj_val is_true(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_BOOL && in->self.u.b);
}

static jj_val is_false(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_BOOL && !in->self.u.b);
}

static jj_val is_integer(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_INT);
}

static jj_val is_float(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_FLOAT);
}

static jj_val is_number(const jj_in *in) {
    return ch_jj_bool(ch_jj_is_num(in->self));
}

static jj_val is_string(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_STR);
}

static jj_val is_mapping(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_DICT);
}

// Has a length and subscripts; so does the reference's Undefined.
static jj_val is_sequence(const jj_in *in) {
    if (in->self.type == JJ_SEQ)
        return ch_jj_bool(in->self.u.q->kind <= JJ_TUPLE || in->self.u.q->kind == JJ_RANGE || in->self.u.q->kind == JJ_GROUP);
    return ch_jj_bool(in->self.type == JJ_STR || in->self.type == JJ_DICT || in->self.type == JJ_UNDEF);
}

static jj_val is_iterable(const jj_in *in) {
    return ch_jj_bool(ch_jj_iterable(in->self));
}

static jj_val is_callable(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_FUNC || in->self.type == JJ_MACRO || in->self.type == JJ_UNDEF || in->self.type == JJ_LOOP);
}

static jj_val is_escaped(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_STR && in->self.u.s->markup);
}

static jj_val is_sameas(const jj_in *in) {
    if (in->self.type != in->arg[0].type || in->self.type == JJ_FLOAT)
        return ch_jj_bool(false);
    bool heavy = in->self.type == JJ_SEQ || in->self.type == JJ_DICT || in->self.type == JJ_STR;
    return ch_jj_bool(heavy ? (const void *)in->self.u.s == (const void *)in->arg[0].u.s || (in->self.type == JJ_STR && ch_jj_str_eq(in->self.u.s, in->arg[0].u.s))
                            : ch_jj_equal(in->x, in->self, in->arg[0]));
}

static bool remainder_is(jj_ctx *x, jj_val v, jj_val by, int64_t want) {
    return ch_jj_equal(x, ch_jj_math(x, JJ_OP_MOD, v, by), ch_jj_int(want));
}

static jj_val is_odd(const jj_in *in) {
    return ch_jj_bool(remainder_is(in->x, in->self, ch_jj_int(2), 1));
}

static jj_val is_even(const jj_in *in) {
    return ch_jj_bool(remainder_is(in->x, in->self, ch_jj_int(2), 0));
}

static jj_val is_divisibleby(const jj_in *in) {
    return ch_jj_bool(remainder_is(in->x, in->self, in->arg[0], 0));
}

// Any cased character, and none of the other case.
static bool all_case(jj_ctx *x, jj_val v, bool upper) {
    const jj_str *s = ch_jj_to_str(x, v);
    bool any = false;
    ch_jj_charge(x, s->n / 16);
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += ch_utf8_decode(s->p + i, s->n - i, &cp);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        if (c == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU) || c == UTF8PROC_CATEGORY_LT)
            return false;
        any |= c == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
    }
    return any;
}

static jj_val is_upper(const jj_in *in) {
    return ch_jj_bool(all_case(in->x, in->self, true));
}

static jj_val is_lower(const jj_in *in) {
    return ch_jj_bool(all_case(in->x, in->self, false));
}

static jj_val is_filter(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_STR && ch_jj_find_filter(in->self.u.s->p, in->self.u.s->n));
}

static jj_val is_test(const jj_in *in) {
    return ch_jj_bool(in->self.type == JJ_STR && ch_jj_find_test(in->self.u.s->p, in->self.u.s->n));
}

static jj_val is_in(const jj_in *in) {
    return ch_jj_bool(ch_jj_contains(in->x, in->arg[0], in->self));
}

static jj_val is_eq(const jj_in *in) {
    return ch_jj_bool(ch_jj_compare(in->x, JJ_OP_EQ, in->self, in->arg[0]));
}

static jj_val is_ne(const jj_in *in) {
    return ch_jj_bool(ch_jj_compare(in->x, JJ_OP_NE, in->self, in->arg[0]));
}

static jj_val is_lt(const jj_in *in) {
    return ch_jj_bool(ch_jj_compare(in->x, JJ_OP_LT, in->self, in->arg[0]));
}

static jj_val is_le(const jj_in *in) {
    return ch_jj_bool(ch_jj_compare(in->x, JJ_OP_LE, in->self, in->arg[0]));
}

static jj_val is_gt(const jj_in *in) {
    return ch_jj_bool(ch_jj_compare(in->x, JJ_OP_GT, in->self, in->arg[0]));
}

static jj_val is_ge(const jj_in *in) {
    return ch_jj_bool(ch_jj_compare(in->x, JJ_OP_GE, in->self, in->arg[0]));
}

const jj_def *ch_jj_find_test(const char *name, size_t n) {
    static const jj_def table[] = {
        {"defined", is_defined, "", 0}, {"undefined", is_undefined, "", 0}, {"none", is_none, "", 0},
        {"boolean", is_boolean, "", 0}, {"true", is_true, "", 0}, {"false", is_false, "", 0},
        {"integer", is_integer, "", 0}, {"float", is_float, "", 0}, {"number", is_number, "", 0},
        {"string", is_string, "", 0}, {"mapping", is_mapping, "", 0}, {"sequence", is_sequence, "", 0},
        {"iterable", is_iterable, "", 0}, {"callable", is_callable, "", 0}, {"escaped", is_escaped, "", 0},
        {"sameas", is_sameas, "other", 1}, {"odd", is_odd, "", 0}, {"even", is_even, "", 0},
        {"divisibleby", is_divisibleby, "num", 1}, {"upper", is_upper, "", 0}, {"lower", is_lower, "", 0},
        {"filter", is_filter, "", 0}, {"test", is_test, "", 0}, {"in", is_in, "seq", 1},
        {"==", is_eq, "other", 1}, {"eq", is_eq, "other", 1}, {"equalto", is_eq, "other", 1},
        {"!=", is_ne, "other", 1}, {"ne", is_ne, "other", 1},
        {"<", is_lt, "other", 1}, {"lt", is_lt, "other", 1}, {"lessthan", is_lt, "other", 1},
        {"<=", is_le, "other", 1}, {"le", is_le, "other", 1},
        {">", is_gt, "other", 1}, {"gt", is_gt, "other", 1}, {"greaterthan", is_gt, "other", 1},
        {">=", is_ge, "other", 1}, {"ge", is_ge, "other", 1},
        {NULL, NULL, NULL, 0},
    };
    return ch_jj_find_def(table, name, n);
}

bool ch_jj_run_test(jj_ctx *x, const jj_str *name, jj_val v, const jj_args *a) {
    const jj_def *d = ch_jj_find_test(name->p, name->n);
    if (!d)
        ch_jj_fail(x, CH_EUNSUPPORTED, "No test named '%.*s'.", (int)(name->n < 60 ? name->n : 60), name->p);
    return ch_jj_truth(x, ch_jj_call_def(x, d, v, a));
}
