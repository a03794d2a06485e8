// Methods of lists, dicts and loops, and the functions every template can call.
#include <string.h>
#include <time.h>

#include "text/jinja.h"

// ---- dicts ----------------------------------------------------------------------------------------------------------------

static jj_val d_get(const jj_in *in) {
    const jj_val *v = ch_jj_dict_find(in->x, in->self.u.d, in->arg[0]);
    return v ? *v : in->arg[1].type == JJ_ABSENT ? ch_jj_none() : in->arg[1];
}

static jj_val d_keys(const jj_in *in) {
    return ch_jj_of_seq(ch_jj_dict_view(in->x, in->self.u.d, JJ_KEYS));
}

static jj_val d_values(const jj_in *in) {
    return ch_jj_of_seq(ch_jj_dict_view(in->x, in->self.u.d, JJ_VALUES));
}

static jj_val d_items(const jj_in *in) {
    return ch_jj_of_seq(ch_jj_dict_view(in->x, in->self.u.d, JJ_ITEMS));
}

static jj_val d_pop(const jj_in *in) {
    jj_val v;
    if (ch_jj_dict_remove(in->x, in->self.u.d, in->arg[0], &v))
        return v;
    if (in->arg[1].type == JJ_ABSENT)
        ch_jj_fail(in->x, CH_EFORMAT, "pop(): no such key");
    return in->arg[1];
}

static jj_val d_popitem(const jj_in *in) {
    jj_dict *d = in->self.u.d;
    if (!d->n)
        ch_jj_fail(in->x, CH_EFORMAT, "popitem(): dictionary is empty");
    jj_val v, key = d->entry[d->n - 1].key;
    ch_jj_dict_remove(in->x, d, key, &v);
    jj_seq *q = ch_jj_seq(in->x, JJ_TUPLE, 2);
    ch_jj_seq_add(in->x, q, key);
    ch_jj_seq_add(in->x, q, v);
    return ch_jj_of_seq(q);
}

static jj_val d_setdefault(const jj_in *in) {
    const jj_val *v = ch_jj_dict_find(in->x, in->self.u.d, in->arg[0]);
    if (v)
        return *v;
    jj_val def = in->arg[1].type == JJ_ABSENT ? ch_jj_none() : in->arg[1];
    ch_jj_dict_set(in->x, in->self.u.d, in->arg[0], def);
    return def;
}

// Adds a mapping or pairs, then the named arguments.
static void update(jj_ctx *x, jj_dict *d, const jj_args *a) {
    if (a->n > 1)
        ch_jj_fail(x, CH_EFORMAT, "expected at most 1 argument, got %zu", a->n);
    if (a->n && (a->pos[0].type == JJ_DICT || a->pos[0].type == JJ_NS)) {
        const jj_dict *from = a->pos[0].u.d;
        for (size_t i = 0; i < from->n; i++)
            ch_jj_dict_set(x, d, from->entry[i].key, from->entry[i].val);
    } else if (a->n) {
        const jj_seq *q = ch_jj_iterate(x, a->pos[0]);
        for (size_t i = 0; i < q->n; i++) {
            const jj_seq *pair = ch_jj_iterate(x, q->item[i]);
            if (pair->n != 2)
                ch_jj_fail(x, CH_EFORMAT, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair->n);
            ch_jj_dict_set(x, d, pair->item[0], pair->item[1]);
        }
    }
    for (size_t i = 0; i < a->n_kw; i++)
        ch_jj_dict_set(x, d, ch_jj_of_str(a->kw[i].name), a->kw[i].val);
}

static jj_val d_update(const jj_in *in) {
    update(in->x, in->self.u.d, in->raw);
    return ch_jj_none();
}

static jj_val d_copy(const jj_in *in) {
    jj_val v = {.type = JJ_DICT, .u.d = ch_jj_dict(in->x)};
    update(in->x, v.u.d, &(jj_args){.pos = &in->self, .n = 1});
    return v;
}

static jj_val d_clear(const jj_in *in) {
    memset(in->self.u.d, 0, sizeof *in->self.u.d);
    return ch_jj_none();
}

// ---- lists ----------------------------------------------------------------------------------------------------------------

static jj_val l_append(const jj_in *in) {
    ch_jj_seq_add(in->x, in->self.u.q, in->arg[0]);
    return ch_jj_none();
}

static jj_val l_extend(const jj_in *in) {
    const jj_seq *from = ch_jj_iterate(in->x, in->arg[0]);
    for (size_t i = 0, n = from->n; i < n; i++)
        ch_jj_seq_add(in->x, in->self.u.q, from->item[i]);
    return ch_jj_none();
}

static jj_val l_insert(const jj_in *in) {
    jj_seq *q = in->self.u.q;
    int64_t n = (int64_t)q->n, i = ch_jj_arg_int(in->x, in->arg[0], "insert: index", 0);
    i = i < -n ? 0 : i < 0 ? i + n : i > n ? n : i;
    ch_jj_seq_add(in->x, q, in->arg[1]);
    memmove(q->item + i + 1, q->item + i, (size_t)(n - i) * sizeof *q->item);
    q->item[i] = in->arg[1];
    ch_jj_charge(in->x, (uint64_t)(n - i) / 16);
    return ch_jj_none();
}

static jj_val l_pop(const jj_in *in) {
    jj_seq *q = in->self.u.q;
    int64_t n = (int64_t)q->n, i = ch_jj_arg_int(in->x, in->arg[0], "pop: index", -1);
    i = i < 0 ? i + n : i;
    if (i < 0 || i >= n)
        ch_jj_fail(in->x, CH_EFORMAT, n ? "pop index out of range" : "pop from empty list");
    jj_val v = q->item[i];
    memmove(q->item + i, q->item + i + 1, (size_t)(n - i - 1) * sizeof *q->item);
    q->n--;
    ch_jj_charge(in->x, (uint64_t)(n - i) / 16);
    return v;
}

// Index of the first element equal to v, -1: none.
static int64_t index_of(jj_ctx *x, const jj_seq *q, jj_val v) {
    for (size_t i = 0; i < q->n; i++) {
        ch_jj_charge(x, 1);
        if (ch_jj_equal(x, q->item[i], v))
            return (int64_t)i;
    }
    return -1;
}

static jj_val l_index(const jj_in *in) {
    int64_t i = index_of(in->x, in->self.u.q, in->arg[0]);
    if (i < 0)
        ch_jj_fail(in->x, CH_EFORMAT, "value is not in list");
    return ch_jj_int(i);
}

static jj_val l_remove(const jj_in *in) {
    int64_t i = index_of(in->x, in->self.u.q, in->arg[0]);
    if (i < 0)
        ch_jj_fail(in->x, CH_EFORMAT, "list.remove(x): x not in list");
    jj_val at = ch_jj_int(i);
    l_pop(&(jj_in){in->x, in->self, &at, NULL});
    return ch_jj_none();
}

static jj_val l_count(const jj_in *in) {
    const jj_seq *q = in->self.u.q;
    int64_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        ch_jj_charge(in->x, 1);
        n += ch_jj_equal(in->x, q->item[i], in->arg[0]);
    }
    return ch_jj_int(n);
}

static jj_val l_copy(const jj_in *in) {
    const jj_seq *from = in->self.u.q;
    jj_seq *q = ch_jj_seq(in->x, JJ_LIST, from->n);
    for (size_t i = 0; i < from->n; i++)
        ch_jj_seq_add(in->x, q, from->item[i]);
    return ch_jj_of_seq(q);
}

static jj_val l_clear(const jj_in *in) {
    in->self.u.q->n = 0;
    return ch_jj_none();
}

static jj_val l_reverse(const jj_in *in) {
    jj_seq *q = in->self.u.q;
    ch_jj_charge(in->x, q->n);
    for (size_t i = 0; i < q->n / 2; i++) {
        jj_val v = q->item[i];
        q->item[i] = q->item[q->n - 1 - i];
        q->item[q->n - 1 - i] = v;
    }
    return ch_jj_none();
}

static jj_val l_sort(const jj_in *in) {
    jj_seq *q = in->self.u.q;
    jj_val *key = ch_jj_alloc(in->x, q->n, sizeof *key);
    if (q->n)
        memcpy(key, q->item, q->n * sizeof *key);
    ch_jj_sort(in->x, key, q->item, q->n, ch_jj_arg_bool(in->x, in->arg[0], false));
    return ch_jj_none();
}

// ---- loops ----------------------------------------------------------------------------------------------------------------

static jj_val loop_cycle(const jj_in *in) {
    if (!in->raw->n)
        ch_jj_fail(in->x, CH_EFORMAT, "no items for cycling given");
    return in->raw->pos[in->self.u.l->index0 % in->raw->n];
}

static jj_val loop_changed(const jj_in *in) {
    jj_loop *l = in->self.u.l;
    jj_seq *q = ch_jj_seq(in->x, JJ_TUPLE, in->raw->n);
    for (size_t i = 0; i < in->raw->n; i++)
        ch_jj_seq_add(in->x, q, in->raw->pos[i]);
    jj_val now = ch_jj_of_seq(q);
    bool same = l->changed.type == JJ_SEQ && ch_jj_equal(in->x, l->changed, now);
    l->changed = now;
    return ch_jj_bool(!same);
}

const jj_def *ch_jj_find_method(jj_val obj, const jj_str *name) {
    static const jj_def dict[] = {
        {"get", d_get, "key default", 1}, {"keys", d_keys, "", 0}, {"values", d_values, "", 0}, {"items", d_items, "", 0},
        {"pop", d_pop, "key default", 1}, {"popitem", d_popitem, "", 0}, {"setdefault", d_setdefault, "key default", 1},
        {"update", d_update, NULL, 0}, {"copy", d_copy, "", 0}, {"clear", d_clear, "", 0}, {NULL, NULL, NULL, 0},
    };
    static const jj_def tuple[] = {{"index", l_index, "value", 1}, {"count", l_count, "value", 1}, {NULL, NULL, NULL, 0}};
    static const jj_def list[] = {
        {"append", l_append, "object", 1}, {"extend", l_extend, "iterable", 1}, {"insert", l_insert, "index object", 2},
        {"pop", l_pop, "index", 0}, {"index", l_index, "value", 1}, {"count", l_count, "value", 1},
        {"remove", l_remove, "value", 1}, {"copy", l_copy, "", 0}, {"clear", l_clear, "", 0},
        {"reverse", l_reverse, "", 0}, {"sort", l_sort, "reverse", 0}, {NULL, NULL, NULL, 0},
    };
    static const jj_def loop[] = {{"cycle", loop_cycle, NULL, 0}, {"changed", loop_changed, NULL, 0}, {NULL, NULL, NULL, 0}};
    switch (obj.type) {
    case JJ_STR: return ch_jj_find_def(ch_jj_methods_str, name->p, name->n);
    case JJ_DICT: return ch_jj_find_def(dict, name->p, name->n);
    case JJ_LOOP: return ch_jj_find_def(loop, name->p, name->n);
    case JJ_SEQ:
        if (obj.u.q->kind == JJ_LIST)
            return ch_jj_find_def(list, name->p, name->n);
        return obj.u.q->kind == JJ_TUPLE ? ch_jj_find_def(tuple, name->p, name->n) : NULL;
    default: return NULL;
    }
}

// ---- globals --------------------------------------------------------------------------------------------------------------

static jj_val g_range(const jj_in *in) {
    jj_ctx *x = in->x;
    int64_t a = ch_jj_arg_int(x, in->arg[0], "range", 0), start = 0, stop = a, step = 1;
    if (in->arg[1].type != JJ_ABSENT) {
        start = a;
        stop = ch_jj_arg_int(x, in->arg[1], "range", 0);
        step = ch_jj_arg_int(x, in->arg[2], "range", 1);
    }
    if (!step)
        ch_jj_fail(x, CH_EFORMAT, "range() arg 3 must not be zero");
    uint64_t span = step > 0 ? (stop > start ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = span / by + (span % by != 0);
    if (n > JJ_MAX_RANGE)
        ch_jj_fail(x, CH_ELIMIT, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", JJ_MAX_RANGE);
    jj_seq *q = ch_jj_seq(x, JJ_RANGE, n);
    q->range[0] = start;
    q->range[1] = stop;
    q->range[2] = step;
    for (uint64_t i = 0; i < n; i++)
        ch_jj_seq_add(x, q, ch_jj_int((int64_t)((uint64_t)start + i * (uint64_t)step)));
    return ch_jj_of_seq(q);
}

static jj_val g_dict(const jj_in *in) {
    jj_val v = {.type = JJ_DICT, .u.d = ch_jj_dict(in->x)};
    update(in->x, v.u.d, in->raw);
    return v;
}

static jj_val g_namespace(const jj_in *in) {
    jj_val v = g_dict(in);
    v.type = JJ_NS;
    return v;
}

static jj_val g_raise_exception(const jj_in *in) {
    ch_jj_raise(in->x, ch_jj_to_str(in->x, in->arg[0]));
}

// One directive at a time, so that no format needs more than a small buffer.
static jj_val g_strftime_now(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *f = ch_jj_arg_str(x, in->arg[0], "strftime_now: format");
    time_t t = (time_t)x->now;
    struct tm tm;
    if (!gmtime_r(&t, &tm))
        ch_jj_fail(x, CH_ERANGE, "strftime_now: the time %lld is out of range", (long long)x->now);
    jj_buf b = {0};
    for (size_t i = 0; i < f->n;) {
        const char *p = memchr(f->p + i, '%', f->n - i);
        size_t at = p ? (size_t)(p - f->p) : f->n;
        ch_jj_buf_add_str(x, &b, ch_jj_sub(x, f, i, at));
        if (!p)
            break;
        i = at + 1;
        bool flag = i < f->n && (f->p[i] == '-' || f->p[i] == '_' || f->p[i] == '#');
        char z[4] = {'%', 0, 0, 0}, out[128];
        size_t n = 1;
        for (size_t k = 0; k < 1u + flag && i < f->n; k++)
            z[n++] = f->p[i++];
        char c = z[n - 1];
        if (!strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%", c) || n < 2)
            ch_jj_buf_add(x, &b, c == 'f' ? "000000" : z, c == 'f' ? 6 : n, false); // seconds have no fraction here
        else if ((c == 'z' || c == 'Z') && n == 2)
            ; // the reference's time has no zone: nothing is printed
        else
            ch_jj_buf_add(x, &b, out, strftime(out, sizeof out, z, &tm), false);
    }
    return ch_jj_of_str(ch_jj_buf_str(x, &b));
}

const jj_def *ch_jj_find_global(const char *name, size_t n) {
    static const jj_def table[] = {
        {"range", g_range, "start stop step", 1},
        {"dict", g_dict, NULL, 0},
        {"namespace", g_namespace, NULL, 0},
        {"raise_exception", g_raise_exception, "message", 1},
        {"strftime_now", g_strftime_now, "format", 1},
        {NULL, NULL, NULL, 0},
    };
    return ch_jj_find_def(table, name, n);
}
