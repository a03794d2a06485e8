// Values of the interpreter: sequences, dicts, truth, equality and order as in Python, and their making from JSON.
#include <math.h>
#include <string.h>

#include "text/jinja.h"

enum { SMALL_DICT = 8, NO_SLOT = 0 };

jj_val ch_jj_none(void) {
    return (jj_val){.type = JJ_NONE};
}

jj_val ch_jj_absent(void) {
    return (jj_val){.type = JJ_ABSENT};
}

jj_val ch_jj_bool(bool b) {
    return (jj_val){.type = JJ_BOOL, .u.b = b};
}

jj_val ch_jj_int(int64_t i) {
    return (jj_val){.type = JJ_INT, .u.i = i};
}

jj_val ch_jj_float(double f) {
    return (jj_val){.type = JJ_FLOAT, .u.f = f};
}

jj_val ch_jj_of_str(const jj_str *s) {
    return (jj_val){.type = JJ_STR, .u.s = s};
}

jj_val ch_jj_of_seq(jj_seq *q) {
    return (jj_val){.type = JJ_SEQ, .u.q = q};
}

static jj_val undefined(jj_ctx *x, jj_undef u) {
    jj_undef *own = ch_jj_alloc(x, 1, sizeof *own);
    *own = u;
    return (jj_val){.type = JJ_UNDEF, .u.u = own};
}

jj_val ch_jj_undef_hint(jj_ctx *x, const char *hint) {
    return undefined(x, (jj_undef){.hint = hint});
}

jj_val ch_jj_undef_name(jj_ctx *x, const jj_str *name) {
    return undefined(x, (jj_undef){.name = name});
}

jj_val ch_jj_undef_attr(jj_ctx *x, jj_val obj, const jj_str *name) {
    return undefined(x, (jj_undef){.type = ch_jj_type_name(obj), .name = name});
}

jj_val ch_jj_undef_item(jj_ctx *x, jj_val obj, jj_val key) {
    if (key.type == JJ_STR)
        return ch_jj_undef_attr(x, obj, key.u.s);
    bool is_int = key.type == JJ_INT || key.type == JJ_BOOL;
    return undefined(x, (jj_undef){.type = ch_jj_type_name(obj), .element = true,
                                   .name = is_int ? NULL : ch_jj_to_str(x, key),
                                   .index = key.type == JJ_INT ? key.u.i : is_int ? key.u.b : 0});
}

void ch_jj_fail_undef(jj_ctx *x, jj_val v) {
    const jj_undef *u = v.u.u;
    int n = u->name ? (int)(u->name->n < 80 ? u->name->n : 80) : 0;
    const char *p = u->name ? u->name->p : "";
    const char *object = u->type && !strcmp(u->type, "NoneType") ? "None" : u->type;
    const char *suffix = object == u->type ? " object" : "";
    if (u->hint)
        ch_jj_fail(x, CH_EFORMAT, "%s", u->hint);
    if (!u->type)
        ch_jj_fail(x, CH_EFORMAT, "'%.*s' is undefined", n, p);
    if (!u->element)
        ch_jj_fail(x, CH_EFORMAT, "'%s%s' has no attribute '%.*s'", object, suffix, n, p);
    if (u->name)
        ch_jj_fail(x, CH_EFORMAT, "%s%s has no element %.*s", object, suffix, n, p);
    ch_jj_fail(x, CH_EFORMAT, "%s%s has no element %lld", object, suffix, (long long)u->index);
}

const char *ch_jj_type_name(jj_val v) {
    static const char *const names[] = {"absent", "Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict",
                                        "jinja2.utils.Namespace", "builtin_function_or_method", "Macro", "LoopContext"};
    static const char *const seqs[] = {"list", "tuple", "generator", "range", "dict_keys", "dict_values", "dict_items",
                                       "_GroupTuple"};
    return v.type == JJ_SEQ ? seqs[v.u.q->kind] : names[v.type];
}

bool ch_jj_is_str(jj_val v) {
    return v.type == JJ_STR;
}

bool ch_jj_is_num(jj_val v) {
    return v.type == JJ_INT || v.type == JJ_FLOAT || v.type == JJ_BOOL;
}

// ---- sequences ------------------------------------------------------------------------------------------------------------

jj_seq *ch_jj_seq(jj_ctx *x, int kind, size_t cap) {
    jj_seq *q = ch_jj_alloc(x, 1, sizeof *q);
    q->kind = kind;
    q->cap = cap;
    if (cap)
        q->item = ch_jj_alloc(x, cap, sizeof *q->item);
    return q;
}

void ch_jj_seq_add(jj_ctx *x, jj_seq *q, jj_val v) {
    ch_jj_charge(x, 1);
    if (q->n == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 4;
        jj_val *item = ch_jj_alloc(x, cap, sizeof *item);
        if (q->n)
            memcpy(item, q->item, q->n * sizeof *item);
        q->item = item;
        q->cap = cap;
    }
    q->item[q->n++] = v;
}

bool ch_jj_iterable(jj_val v) {
    return v.type == JJ_STR || v.type == JJ_SEQ || v.type == JJ_DICT || v.type == JJ_UNDEF || v.type == JJ_LOOP;
}

static jj_seq *characters(jj_ctx *x, const jj_str *s) {
    jj_seq *q = ch_jj_seq(x, JJ_LIST, ch_jj_n_chars(x, s));
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        size_t k = ch_utf8_decode(s->p + i, s->n - i, &cp);
        ch_jj_seq_add(x, q, ch_jj_of_str(ch_jj_sub(x, s, i, i + k)));
        i += k;
    }
    return q;
}

jj_seq *ch_jj_iterate(jj_ctx *x, jj_val v) {
    if (v.type == JJ_SEQ && v.u.q->kind == JJ_ITER) { // what is left of it, which is then used up
        jj_seq *q = ch_jj_seq(x, JJ_LIST, 0);
        if (v.u.q->item)
            q->item = v.u.q->item + v.u.q->pos;
        q->n = q->cap = v.u.q->n - v.u.q->pos;
        v.u.q->pos = v.u.q->n;
        ch_jj_charge(x, q->n);
        return q;
    }
    if (v.type == JJ_SEQ) {
        ch_jj_charge(x, v.u.q->n);
        return v.u.q;
    }
    if (v.type == JJ_DICT)
        return ch_jj_dict_view(x, v.u.d, JJ_KEYS);
    if (v.type == JJ_STR)
        return characters(x, v.u.s);
    if (v.type == JJ_UNDEF)
        return ch_jj_seq(x, JJ_LIST, 0);
    ch_jj_fail(x, CH_EFORMAT, "'%s' object is not iterable", ch_jj_type_name(v));
}

int64_t ch_jj_length(jj_ctx *x, jj_val v) {
    switch (v.type) {
    case JJ_STR: return (int64_t)ch_jj_n_chars(x, v.u.s);
    case JJ_SEQ: return v.u.q->kind == JJ_ITER ? -1 : (int64_t)v.u.q->n;
    case JJ_DICT: return (int64_t)v.u.d->n;
    case JJ_UNDEF: return 0;
    case JJ_LOOP: return ch_jj_loop_attr(x, v.u.l, ch_jj_str(x, "length", 6, false)).u.i;
    default: return -1;
    }
}

// ---- dicts ----------------------------------------------------------------------------------------------------------------

static uint64_t hash_value(jj_ctx *x, jj_val v) {
    uint64_t h = 0;
    double f;
    switch (v.type) {
    case JJ_STR: return ch_hash64(v.u.s->p, v.u.s->n, 0);
    case JJ_BOOL:
    case JJ_INT:
    case JJ_FLOAT: // equal numbers hash alike whatever their type
        f = v.type == JJ_FLOAT ? v.u.f : v.type == JJ_INT ? (double)v.u.i : v.u.b;
        f += 0.0; // -0.0 becomes 0.0
        return ch_hash64(&f, sizeof f, 1);
    case JJ_SEQ:
        if (v.u.q->kind != JJ_TUPLE && v.u.q->kind != JJ_GROUP)
            break;
        ch_jj_enter(x);
        for (size_t i = 0; i < v.u.q->n; i++) {
            ch_jj_charge(x, 1);
            h = h * 31 + hash_value(x, v.u.q->item[i]);
        }
        x->depth--;
        return h;
    case JJ_DICT: break;
    default: return (uint64_t)v.type * 1000003u;
    }
    ch_jj_fail(x, CH_EFORMAT, "unhashable type: '%s'", ch_jj_type_name(v));
}

jj_dict *ch_jj_dict(jj_ctx *x) {
    return ch_jj_alloc(x, 1, sizeof(jj_dict));
}

static jj_entry *find_entry(jj_ctx *x, const jj_dict *d, jj_val key, uint64_t hash) {
    if (!d->slot) {
        for (size_t i = 0; i < d->n; i++)
            if (d->entry[i].hash == hash && ch_jj_equal(x, d->entry[i].key, key))
                return &d->entry[i];
        return NULL;
    }
    for (size_t i = hash & (d->n_slot - 1); d->slot[i] != NO_SLOT; i = (i + 1) & (d->n_slot - 1)) {
        jj_entry *e = &d->entry[d->slot[i] - 1];
        if (e->hash == hash && ch_jj_equal(x, e->key, key))
            return e;
    }
    return NULL;
}

static void rebuild_slots(jj_ctx *x, jj_dict *d) {
    size_t want = 2 * d->cap;
    if (want != d->n_slot) {
        d->n_slot = want;
        d->slot = ch_jj_alloc(x, want, sizeof *d->slot);
    } else {
        memset(d->slot, 0, want * sizeof *d->slot);
    }
    ch_jj_charge(x, d->n);
    for (size_t k = 0; k < d->n; k++) {
        size_t i = d->entry[k].hash & (d->n_slot - 1);
        while (d->slot[i] != NO_SLOT)
            i = (i + 1) & (d->n_slot - 1);
        d->slot[i] = (uint32_t)k + 1;
    }
}

jj_val *ch_jj_dict_find(jj_ctx *x, const jj_dict *d, jj_val key) {
    jj_entry *e = find_entry(x, d, key, hash_value(x, key));
    return e ? &e->val : NULL;
}

jj_val *ch_jj_dict_find_str(jj_ctx *x, const jj_dict *d, const jj_str *key) {
    return ch_jj_dict_find(x, d, ch_jj_of_str(key));
}

void ch_jj_dict_set(jj_ctx *x, jj_dict *d, jj_val key, jj_val val) {
    uint64_t hash = hash_value(x, key);
    jj_entry *e = find_entry(x, d, key, hash);
    ch_jj_charge(x, 1);
    if (e) {
        e->val = val;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : SMALL_DICT; // a power of two, so that twice as many slots are one too
        jj_entry *entry = ch_jj_alloc(x, cap, sizeof *entry);
        if (d->n)
            memcpy(entry, d->entry, d->n * sizeof *entry);
        d->entry = entry;
        d->cap = cap;
        if (cap > SMALL_DICT)
            rebuild_slots(x, d);
    }
    d->entry[d->n++] = (jj_entry){key, val, hash};
    if (d->slot) {
        size_t i = hash & (d->n_slot - 1);
        while (d->slot[i] != NO_SLOT)
            i = (i + 1) & (d->n_slot - 1);
        d->slot[i] = (uint32_t)d->n;
    }
}

bool ch_jj_dict_remove(jj_ctx *x, jj_dict *d, jj_val key, jj_val *old) {
    jj_entry *e = find_entry(x, d, key, hash_value(x, key));
    if (!e)
        return false;
    *old = e->val;
    size_t k = (size_t)(e - d->entry);
    memmove(e, e + 1, (d->n - k - 1) * sizeof *e);
    d->n--;
    ch_jj_charge(x, d->n / 8);
    if (d->slot)
        rebuild_slots(x, d);
    return true;
}

jj_seq *ch_jj_dict_view(jj_ctx *x, const jj_dict *d, int kind) {
    jj_seq *q = ch_jj_seq(x, kind, d->n);
    for (size_t i = 0; i < d->n; i++) {
        const jj_entry *e = &d->entry[i];
        jj_val v = kind == JJ_KEYS ? e->key : e->val;
        if (kind == JJ_ITEMS) {
            jj_seq *pair = ch_jj_seq(x, JJ_TUPLE, 2);
            ch_jj_seq_add(x, pair, e->key);
            ch_jj_seq_add(x, pair, e->val);
            v = ch_jj_of_seq(pair);
        }
        ch_jj_seq_add(x, q, v);
    }
    return q;
}

// ---- truth, equality, order -----------------------------------------------------------------------------------------------

bool ch_jj_truth(jj_ctx *x, jj_val v) {
    switch (v.type) {
    case JJ_ABSENT:
    case JJ_UNDEF:
    case JJ_NONE: return false;
    case JJ_BOOL: return v.u.b;
    case JJ_INT: return v.u.i != 0;
    case JJ_FLOAT: return v.u.f != 0;
    case JJ_STR: return v.u.s->n > 0;
    case JJ_SEQ: return v.u.q->kind == JJ_ITER || v.u.q->n > 0;
    case JJ_DICT: return v.u.d->n > 0;
    case JJ_LOOP: return ch_jj_length(x, v) > 0;
    default: return true;
    }
}

// Exact order of an int against a float; 2: unordered.
static int order_int_float(int64_t i, double f) {
    if (isnan(f))
        return 2;
    if (f >= 9223372036854775808.0)
        return -1;
    if (f < -9223372036854775808.0)
        return 1;
    int64_t whole = (int64_t)f;
    if (i != whole)
        return i < whole ? -1 : 1;
    double rest = f - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int order_numbers(jj_val a, jj_val b) {
    int64_t i = a.type == JJ_BOOL ? a.u.b : a.u.i, j = b.type == JJ_BOOL ? b.u.b : b.u.i;
    if (a.type == JJ_FLOAT && b.type == JJ_FLOAT)
        return isnan(a.u.f) || isnan(b.u.f) ? 2 : a.u.f < b.u.f ? -1 : a.u.f > b.u.f;
    if (a.type == JJ_FLOAT) {
        int o = order_int_float(j, a.u.f);
        return o == 2 ? 2 : -o;
    }
    if (b.type == JJ_FLOAT)
        return order_int_float(i, b.u.f);
    return i < j ? -1 : i > j;
}

static bool equal_dicts(jj_ctx *x, const jj_dict *a, const jj_dict *b) {
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        jj_entry *e = find_entry(x, b, a->entry[i].key, a->entry[i].hash);
        ch_jj_charge(x, 1);
        if (!e || !ch_jj_equal(x, a->entry[i].val, e->val))
            return false;
    }
    return true;
}

static int list_like(const jj_seq *q) {
    return q->kind == JJ_GROUP ? JJ_TUPLE : q->kind;
}

bool ch_jj_equal(jj_ctx *x, jj_val a, jj_val b) {
    if (ch_jj_is_num(a) && ch_jj_is_num(b))
        return order_numbers(a, b) == 0;
    if (a.type != b.type)
        return false;
    bool same = true;
    switch (a.type) {
    case JJ_NONE:
    case JJ_UNDEF: return true;
    case JJ_STR:
        ch_jj_charge(x, a.u.s->n == b.u.s->n ? a.u.s->n / 64 : 0);
        return ch_jj_str_eq(a.u.s, b.u.s);
    case JJ_SEQ:
        if (a.u.q == b.u.q)
            return true;
        if (list_like(a.u.q) != list_like(b.u.q) || a.u.q->n != b.u.q->n || a.u.q->kind == JJ_ITER ||
            a.u.q->kind == JJ_VALUES)
            return false;
        ch_jj_enter(x);
        for (size_t i = 0; same && i < a.u.q->n; i++) {
            ch_jj_charge(x, 1);
            same = ch_jj_equal(x, a.u.q->item[i], b.u.q->item[i]);
        }
        x->depth--;
        return same;
    case JJ_DICT:
        ch_jj_enter(x);
        same = a.u.d == b.u.d || equal_dicts(x, a.u.d, b.u.d);
        x->depth--;
        return same;
    case JJ_NS: return a.u.d == b.u.d;
    case JJ_FUNC: return a.u.fn == b.u.fn;
    case JJ_MACRO: return a.u.m == b.u.m;
    default: return a.u.l == b.u.l;
    }
}

int ch_jj_order(jj_ctx *x, jj_val a, jj_val b, const char *op) {
    if (a.type == JJ_UNDEF)
        ch_jj_fail_undef(x, a);
    if (b.type == JJ_UNDEF)
        ch_jj_fail_undef(x, b);
    if (ch_jj_is_num(a) && ch_jj_is_num(b))
        return order_numbers(a, b);
    if (a.type == JJ_STR && b.type == JJ_STR) { // bytes of UTF-8 sort as code points do
        size_t n = a.u.s->n < b.u.s->n ? a.u.s->n : b.u.s->n;
        int c = memcmp(a.u.s->p, b.u.s->p, n);
        ch_jj_charge(x, n / 64);
        return c ? (c < 0 ? -1 : 1) : a.u.s->n < b.u.s->n ? -1 : a.u.s->n > b.u.s->n;
    }
    if (a.type == JJ_SEQ && b.type == JJ_SEQ && list_like(a.u.q) == list_like(b.u.q) && list_like(a.u.q) <= JJ_TUPLE) {
        int o = 0;
        ch_jj_enter(x);
        size_t i = 0;
        for (; i < a.u.q->n && i < b.u.q->n; i++) {
            ch_jj_charge(x, 1);
            if (!ch_jj_equal(x, a.u.q->item[i], b.u.q->item[i])) {
                o = ch_jj_order(x, a.u.q->item[i], b.u.q->item[i], op);
                x->depth--;
                return o;
            }
        }
        x->depth--;
        return a.u.q->n < b.u.q->n ? -1 : a.u.q->n > b.u.q->n;
    }
    ch_jj_fail(x, CH_EFORMAT, "'%s' not supported between instances of '%s' and '%s'", op, ch_jj_type_name(a),
               ch_jj_type_name(b));
}

// Merge sort from the bottom up: stable and without recursion.
void ch_jj_sort(jj_ctx *x, jj_val *key, jj_val *item, size_t n, bool reverse) {
    if (n < 2)
        return;
    jj_val *k2 = ch_jj_alloc(x, n, sizeof *k2), *v2 = ch_jj_alloc(x, n, sizeof *v2);
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            size_t a = lo, b = mid;
            for (size_t o = lo; o < hi; o++) {
                bool right = a >= mid;
                if (!right && b < hi) {
                    ch_jj_charge(x, 1);
                    right = reverse ? ch_jj_order(x, key[a], key[b], "<") == -1 : ch_jj_order(x, key[b], key[a], "<") == -1;
                }
                k2[o] = right ? key[b] : key[a];
                v2[o] = right ? item[b++] : item[a++];
            }
        }
        memcpy(key, k2, n * sizeof *key);
        memcpy(item, v2, n * sizeof *item);
    }
}

// ---- from JSON ------------------------------------------------------------------------------------------------------------

static const jj_str *json_text(jj_ctx *x, const char *p, size_t n, bool copy) {
    return copy ? ch_jj_str_copy(x, p, n) : ch_jj_str(x, p, n, false);
}

// copy false: strings point into j, which must outlive the render.
jj_val ch_jj_from_json(jj_ctx *x, const json_t *j, bool copy) {
    ch_jj_charge(x, 1);
    if (json_is_string(j))
        return ch_jj_of_str(json_text(x, json_string_value(j), json_string_length(j), copy));
    if (json_is_integer(j))
        return ch_jj_int(json_integer_value(j));
    if (json_is_real(j))
        return ch_jj_float(json_real_value(j));
    if (json_is_boolean(j))
        return ch_jj_bool(json_is_true(j));
    if (!json_is_array(j) && !json_is_object(j))
        return ch_jj_none();
    ch_jj_enter(x);
    jj_val v;
    if (json_is_array(j)) {
        jj_seq *q = ch_jj_seq(x, JJ_LIST, json_array_size(j));
        for (size_t i = 0; i < json_array_size(j); i++)
            ch_jj_seq_add(x, q, ch_jj_from_json(x, json_array_get(j, i), copy));
        v = ch_jj_of_seq(q);
    } else {
        jj_dict *d = ch_jj_dict(x);
        const char *key;
        json_t *val;
        json_object_foreach((json_t *)(uintptr_t)j, key, val)
            ch_jj_dict_set(x, d, ch_jj_of_str(json_text(x, key, strlen(key), copy)), ch_jj_from_json(x, val, copy));
        v = (jj_val){.type = JJ_DICT, .u.d = d};
    }
    x->depth--;
    return v;
}
