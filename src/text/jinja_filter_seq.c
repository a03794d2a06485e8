// Filters on sequences and mappings.
#include <string.h>

#include "text/jinja.h"

// ---- look-up by path ------------------------------------------------------------------------------------------------------

static bool all_digits(const char *p, size_t n, int64_t *i) {
    *i = 0;
    if (n == 0 || n > 15)
        return false;
    for (size_t k = 0; k < n; k++) {
        if (p[k] < '0' || p[k] > '9')
            return false;
        *i = *i * 10 + (p[k] - '0');
    }
    return true;
}

jj_val ch_jj_path(jj_ctx *x, jj_val v, jj_val attribute, jj_val def) {
    if (!ch_jj_given(attribute))
        return v;
    if (attribute.type != JJ_STR) {
        v = ch_jj_item(x, v, attribute);
        return v.type == JJ_UNDEF && ch_jj_given(def) ? def : v;
    }
    const jj_str *s = attribute.u.s;
    for (size_t i = 0; i <= s->n;) {
        const char *dot = memchr(s->p + i, '.', s->n - i);
        size_t n = dot ? (size_t)(dot - s->p) - i : s->n - i;
        int64_t index;
        jj_val key = all_digits(s->p + i, n, &index) ? ch_jj_int(index) : ch_jj_of_str(ch_jj_sub(x, s, i, i + n));
        v = ch_jj_item(x, v, key);
        if (v.type == JJ_UNDEF && ch_jj_given(def))
            v = def;
        i += n + 1;
    }
    return v;
}

static jj_val fold_case(jj_ctx *x, jj_val v, bool sensitive) {
    return !sensitive && v.type == JJ_STR ? ch_jj_of_str(ch_jj_case(x, v.u.s, JJ_LOWER)) : v;
}

static jj_seq *copy_items(jj_ctx *x, jj_val v, int kind) {
    const jj_seq *from = ch_jj_iterate(x, v);
    jj_seq *q = ch_jj_seq(x, kind, from->n);
    for (size_t i = 0; i < from->n; i++)
        ch_jj_seq_add(x, q, from->item[i]);
    return q;
}

// ---- one value of many ----------------------------------------------------------------------------------------------------

static jj_val f_length(const jj_in *in) {
    int64_t n = ch_jj_length(in->x, in->self);
    if (n < 0)
        ch_jj_fail(in->x, CH_EFORMAT, "object of type '%s' has no len()", ch_jj_type_name(in->self));
    return ch_jj_int(n);
}

static jj_val f_first(const jj_in *in) {
    const jj_seq *q = ch_jj_iterate(in->x, in->self);
    return q->n ? q->item[0] : ch_jj_undef_hint(in->x, "No first item, sequence was empty.");
}

static jj_val f_last(const jj_in *in) {
    const jj_seq *q = ch_jj_iterate(in->x, in->self);
    return q->n ? q->item[q->n - 1] : ch_jj_undef_hint(in->x, "No last item, sequence was empty.");
}

static jj_val extreme(const jj_in *in, bool max) {
    jj_ctx *x = in->x;
    const jj_seq *q = ch_jj_iterate(x, in->self);
    bool sensitive = ch_jj_arg_bool(x, in->arg[0], false);
    if (!q->n)
        return ch_jj_undef_hint(x, "No aggregated item, sequence was empty.");
    jj_val best = q->item[0], best_key = fold_case(x, ch_jj_path(x, best, in->arg[1], ch_jj_none()), sensitive);
    for (size_t i = 1; i < q->n; i++) {
        jj_val key = fold_case(x, ch_jj_path(x, q->item[i], in->arg[1], ch_jj_none()), sensitive);
        if (max ? ch_jj_order(x, key, best_key, ">") == 1 : ch_jj_order(x, key, best_key, "<") == -1) {
            best = q->item[i];
            best_key = key;
        }
    }
    return best;
}

static jj_val f_min(const jj_in *in) {
    return extreme(in, false);
}

static jj_val f_max(const jj_in *in) {
    return extreme(in, true);
}

static jj_val f_sum(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_seq *q = ch_jj_iterate(x, in->self);
    jj_val sum = in->arg[1].type == JJ_ABSENT ? ch_jj_int(0) : in->arg[1];
    if (sum.type == JJ_STR)
        ch_jj_fail(x, CH_EFORMAT, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < q->n; i++)
        sum = ch_jj_math(x, JJ_OP_ADD, sum, ch_jj_path(x, q->item[i], in->arg[0], ch_jj_none()));
    return sum;
}

static jj_val f_join(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_seq *q = ch_jj_iterate(x, in->self);
    const jj_str *sep = in->arg[0].type == JJ_ABSENT ? NULL : ch_jj_to_str(x, in->arg[0]);
    jj_buf b = {0};
    for (size_t i = 0; i < q->n; i++) {
        if (i && sep)
            ch_jj_buf_add_str(x, &b, sep);
        ch_jj_buf_add_str(x, &b, ch_jj_to_str(x, ch_jj_path(x, q->item[i], in->arg[1], ch_jj_none())));
    }
    return ch_jj_of_str(ch_jj_buf_str(x, &b));
}

// ---- sequences made of sequences ------------------------------------------------------------------------------------------

static jj_val f_list(const jj_in *in) {
    return ch_jj_of_seq(copy_items(in->x, in->self, JJ_LIST));
}

static jj_val f_reverse(const jj_in *in) {
    jj_ctx *x = in->x;
    jj_buf b = {0};
    const jj_seq *q = ch_jj_iterate(x, in->self);
    jj_seq *r = ch_jj_seq(x, JJ_ITER, q->n);
    for (size_t i = q->n; i-- > 0;) {
        if (in->self.type == JJ_STR)
            ch_jj_buf_add_str(x, &b, q->item[i].u.s);
        else
            ch_jj_seq_add(x, r, q->item[i]);
    }
    return in->self.type == JJ_STR ? ch_jj_of_str(ch_jj_buf_str(x, &b)) : ch_jj_of_seq(r);
}

static jj_val f_items(const jj_in *in) {
    if (in->self.type == JJ_UNDEF)
        return ch_jj_of_seq(ch_jj_seq(in->x, JJ_ITER, 0));
    if (in->self.type != JJ_DICT)
        ch_jj_fail(in->x, CH_EFORMAT, "Can only get item pairs from a mapping.");
    return ch_jj_of_seq(copy_items(in->x, ch_jj_of_seq(ch_jj_dict_view(in->x, in->self.u.d, JJ_ITEMS)), JJ_ITER));
}

// Sorts q by the value at a path.
static void sort_by(jj_ctx *x, jj_seq *q, jj_val attribute, jj_val def, bool sensitive, bool reverse) {
    jj_val *key = ch_jj_alloc(x, q->n, sizeof *key);
    for (size_t i = 0; i < q->n; i++)
        key[i] = fold_case(x, ch_jj_path(x, q->item[i], attribute, def), sensitive);
    ch_jj_sort(x, key, q->item, q->n, reverse);
}

// List of the values at the paths of attribute: "a,b" sorts by a, then by b. A list even of one, as in the reference, so
// that equal values that have no order (two undefined ones) are no error.
static jj_val sort_keys(jj_ctx *x, jj_val v, jj_val attribute, bool sensitive) {
    jj_seq *keys = ch_jj_seq(x, JJ_LIST, 1);
    if (attribute.type != JJ_STR) {
        ch_jj_seq_add(x, keys, fold_case(x, ch_jj_path(x, v, attribute, ch_jj_none()), sensitive));
        return ch_jj_of_seq(keys);
    }
    const jj_str *s = attribute.u.s;
    for (size_t k = 0; k <= s->n;) {
        const char *comma = memchr(s->p + k, ',', s->n - k);
        size_t n = comma ? (size_t)(comma - s->p) - k : s->n - k;
        jj_val path = ch_jj_of_str(ch_jj_sub(x, s, k, k + n));
        ch_jj_seq_add(x, keys, fold_case(x, ch_jj_path(x, v, path, ch_jj_none()), sensitive));
        k += n + 1;
    }
    return ch_jj_of_seq(keys);
}

static jj_val f_sort(const jj_in *in) {
    jj_ctx *x = in->x;
    jj_seq *q = copy_items(x, in->self, JJ_LIST);
    jj_val *key = ch_jj_alloc(x, q->n, sizeof *key);
    for (size_t i = 0; i < q->n; i++)
        key[i] = sort_keys(x, q->item[i], in->arg[2], ch_jj_arg_bool(x, in->arg[1], false));
    ch_jj_sort(x, key, q->item, q->n, ch_jj_arg_bool(x, in->arg[0], false));
    return ch_jj_of_seq(q);
}

static jj_val f_dictsort(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *by = in->arg[1].type == JJ_ABSENT ? ch_jj_str(x, "key", 3, false)
                                                    : ch_jj_arg_str(x, in->arg[1], "dictsort: by");
    if (!ch_jj_str_is(by, "key") && !ch_jj_str_is(by, "value"))
        ch_jj_fail(x, CH_EFORMAT, "You can only sort by either \"key\" or \"value\"");
    if (in->self.type == JJ_UNDEF)
        ch_jj_fail_undef(x, in->self);
    if (in->self.type != JJ_DICT)
        ch_jj_fail(x, CH_EFORMAT, "dictsort: expected a mapping, found %s", ch_jj_type_name(in->self));
    jj_seq *q = ch_jj_dict_view(x, in->self.u.d, JJ_ITEMS);
    q->kind = JJ_LIST;
    sort_by(x, q, ch_jj_int(ch_jj_str_is(by, "value")), ch_jj_none(), ch_jj_arg_bool(x, in->arg[0], false),
            ch_jj_arg_bool(x, in->arg[2], false));
    return ch_jj_of_seq(q);
}

static jj_val f_unique(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_seq *q = ch_jj_iterate(x, in->self);
    bool sensitive = ch_jj_arg_bool(x, in->arg[0], false);
    jj_dict *seen = ch_jj_dict(x);
    jj_seq *r = ch_jj_seq(x, JJ_ITER, 0);
    for (size_t i = 0; i < q->n; i++) {
        jj_val key = fold_case(x, ch_jj_path(x, q->item[i], in->arg[1], ch_jj_none()), sensitive);
        if (ch_jj_dict_find(x, seen, key))
            continue;
        ch_jj_dict_set(x, seen, key, ch_jj_none());
        ch_jj_seq_add(x, r, q->item[i]);
    }
    return ch_jj_of_seq(r);
}

static jj_val f_groupby(const jj_in *in) {
    jj_ctx *x = in->x;
    jj_seq *q = copy_items(x, in->self, JJ_LIST), *r = ch_jj_seq(x, JJ_LIST, 0), *members = NULL;
    bool sensitive = ch_jj_arg_bool(x, in->arg[2], false);
    sort_by(x, q, in->arg[0], in->arg[1], sensitive, false);
    jj_val last = ch_jj_none();
    for (size_t i = 0; i < q->n; i++) {
        jj_val real = ch_jj_path(x, q->item[i], in->arg[0], in->arg[1]), key = fold_case(x, real, sensitive);
        if (!members || !ch_jj_equal(x, key, last)) {
            members = ch_jj_seq(x, JJ_LIST, 0);
            jj_seq *g = ch_jj_seq(x, JJ_GROUP, 2);
            ch_jj_seq_add(x, g, real);
            ch_jj_seq_add(x, g, ch_jj_of_seq(members));
            ch_jj_seq_add(x, r, ch_jj_of_seq(g));
            last = key;
        }
        ch_jj_seq_add(x, members, q->item[i]);
    }
    return ch_jj_of_seq(r);
}

static jj_val f_batch(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_seq *q = ch_jj_iterate(x, in->self);
    int64_t n = ch_jj_arg_int(x, in->arg[0], "batch: linecount", 1);
    jj_seq *r = ch_jj_seq(x, JJ_ITER, 0), *row = NULL;
    if (n < 1)
        ch_jj_fail(x, CH_ERANGE, "batch: expected a linecount of at least 1, found %lld", (long long)n);
    for (size_t i = 0; i < q->n; i++) {
        if (i % (uint64_t)n == 0) {
            row = ch_jj_seq(x, JJ_LIST, 0);
            ch_jj_seq_add(x, r, ch_jj_of_seq(row));
        }
        ch_jj_seq_add(x, row, q->item[i]);
    }
    while (row && ch_jj_given(in->arg[1]) && row->n < (uint64_t)n)
        ch_jj_seq_add(x, row, in->arg[1]);
    return ch_jj_of_seq(r);
}

static jj_val f_slice(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_seq *q = ch_jj_iterate(x, in->self);
    int64_t n = ch_jj_arg_int(x, in->arg[0], "slice: slices", 1);
    if (n < 1 || n > JJ_MAX_RANGE)
        ch_jj_fail(x, CH_ERANGE, "slice: expected between 1 and %d slices, found %lld", JJ_MAX_RANGE, (long long)n);
    size_t each = q->n / (size_t)n, extra = q->n % (size_t)n, at = 0;
    jj_seq *r = ch_jj_seq(x, JJ_ITER, 0);
    for (size_t k = 0; k < (size_t)n; k++) {
        jj_seq *part = ch_jj_seq(x, JJ_LIST, 0);
        for (size_t end = at + each + (k < extra); at < end; at++)
            ch_jj_seq_add(x, part, q->item[at]);
        if (ch_jj_given(in->arg[1]) && k >= extra)
            ch_jj_seq_add(x, part, in->arg[1]);
        ch_jj_seq_add(x, r, ch_jj_of_seq(part));
    }
    return ch_jj_of_seq(r);
}

// ---- map, select ----------------------------------------------------------------------------------------------------------

static const jj_val *keyword(const jj_args *a, const char *name) {
    for (size_t i = 0; i < a->n_kw; i++)
        if (ch_jj_str_is(a->kw[i].name, name))
            return &a->kw[i].val;
    return NULL;
}

static jj_val f_map(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_args *a = in->raw;
    const jj_val *attribute = keyword(a, "attribute"), *def = keyword(a, "default");
    jj_seq *r = ch_jj_seq(x, JJ_ITER, 0);
    const jj_seq *q = ch_jj_truth(x, in->self) ? ch_jj_iterate(x, in->self) : r;
    const jj_def *d = NULL;
    jj_args rest = {.kw = a->kw, .n_kw = a->n_kw};
    if (a->n) {
        const jj_str *name = ch_jj_arg_str(x, a->pos[0], "map: filter");
        d = ch_jj_find_filter(name->p, name->n);
        if (!d)
            ch_jj_fail(x, CH_EUNSUPPORTED, "No filter named '%.*s'.", (int)(name->n < 60 ? name->n : 60), name->p);
        rest.pos = a->pos + 1;
        rest.n = a->n - 1;
    } else if (!attribute) {
        ch_jj_fail(x, CH_EFORMAT, "map requires a filter argument");
    }
    ch_jj_enter(x);
    for (size_t i = 0; i < q->n; i++)
        ch_jj_seq_add(x, r, d ? ch_jj_call_def(x, d, q->item[i], &rest)
                              : ch_jj_path(x, q->item[i], *attribute, def ? *def : ch_jj_none()));
    x->depth--;
    return ch_jj_of_seq(r);
}

static jj_val choose(const jj_in *in, bool by_attribute, bool want) {
    jj_ctx *x = in->x;
    const jj_args *a = in->raw;
    size_t off = by_attribute ? 1 : 0;
    jj_seq *r = ch_jj_seq(x, JJ_ITER, 0);
    const jj_seq *q = ch_jj_truth(x, in->self) ? ch_jj_iterate(x, in->self) : r;
    if (a->n < off)
        ch_jj_fail(x, CH_EFORMAT, "Missing parameter for attribute name");
    jj_args rest = {.kw = a->kw, .n_kw = a->n_kw};
    if (a->n > off) {
        rest.pos = a->pos + off + 1;
        rest.n = a->n - off - 1;
    }
    for (size_t i = 0; i < q->n; i++) {
        jj_val v = by_attribute ? ch_jj_path(x, q->item[i], a->pos[0], ch_jj_none()) : q->item[i];
        bool yes = a->n > off ? ch_jj_run_test(x, ch_jj_arg_str(x, a->pos[off], "select: test"), v, &rest)
                              : ch_jj_truth(x, v);
        if (yes == want)
            ch_jj_seq_add(x, r, q->item[i]);
    }
    return ch_jj_of_seq(r);
}

static jj_val f_select(const jj_in *in) {
    return choose(in, false, true);
}

static jj_val f_reject(const jj_in *in) {
    return choose(in, false, false);
}

static jj_val f_selectattr(const jj_in *in) {
    return choose(in, true, true);
}

static jj_val f_rejectattr(const jj_in *in) {
    return choose(in, true, false);
}

const jj_def ch_jj_filters_seq[] = {
    {"length", f_length, "", 0},
    {"count", f_length, "", 0},
    {"first", f_first, "", 0},
    {"last", f_last, "", 0},
    {"min", f_min, "case_sensitive attribute", 0},
    {"max", f_max, "case_sensitive attribute", 0},
    {"sum", f_sum, "attribute start", 0},
    {"join", f_join, "d attribute", 0},
    {"list", f_list, "", 0},
    {"reverse", f_reverse, "", 0},
    {"items", f_items, "", 0},
    {"sort", f_sort, "reverse case_sensitive attribute", 0},
    {"dictsort", f_dictsort, "case_sensitive by reverse", 0},
    {"unique", f_unique, "case_sensitive attribute", 0},
    {"groupby", f_groupby, "attribute default case_sensitive", 1},
    {"batch", f_batch, "linecount fill_with", 1},
    {"slice", f_slice, "slices fill_with", 1},
    {"map", f_map, NULL, 0},
    {"select", f_select, NULL, 0},
    {"reject", f_reject, NULL, 0},
    {"selectattr", f_selectattr, NULL, 0},
    {"rejectattr", f_rejectattr, NULL, 0},
    {NULL, NULL, NULL, 0},
};
