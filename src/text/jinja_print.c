// Text of values: str() and repr() as Python writes them, and JSON in both directions.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "text/jinja.h"

enum { MAX_JSON_IN = 4 << 20 }; // bytes from_json reads

static void put_int(jj_ctx *x, jj_buf *b, int64_t i) {
    char s[24];
    ch_jj_buf_add(x, b, s, (size_t)snprintf(s, sizeof s, "%lld", (long long)i), false);
}

// Shortest decimal digits that read back as f, laid out as Python does: exponent below 1e-4 and from 1e16.
size_t ch_jj_float_repr(double f, char out[40]) {
    if (isnan(f) || isinf(f))
        return (size_t)snprintf(out, 40, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
    char e[40];
    for (int p = 0; p < 17; p++) {
        snprintf(e, sizeof e, "%.*e", p, f);
        if (strtod(e, NULL) == f)
            break;
    }
    int exp = atoi(strchr(e, 'e') + 1);
    char digits[24];
    int n = 0;
    for (const char *c = e; *c != 'e'; c++)
        if (*c >= '0' && *c <= '9')
            digits[n++] = *c;
    char *o = out;
    if (signbit(f))
        *o++ = '-';
    if (exp < -4 || exp >= 16) {
        *o++ = digits[0];
        if (n > 1)
            *o++ = '.';
        memcpy(o, digits + 1, (size_t)n - 1);
        o += n - 1;
        return (size_t)(o - out) + (size_t)snprintf(o, 8, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
    }
    if (exp < 0)
        *o++ = '0';
    for (int i = 0; exp < 0 && i < -exp; i++)
        *o++ = i == 0 ? '.' : '0';
    for (int i = 0; i < n || i <= exp; i++) {
        if (exp >= 0 && i == exp + 1)
            *o++ = '.';
        *o++ = i < n ? digits[i] : '0';
    }
    if (exp >= 0 && n <= exp + 1) {
        *o++ = '.';
        *o++ = '0';
    }
    *o = 0;
    return (size_t)(o - out);
}

static void put_float(jj_ctx *x, jj_buf *b, double f) {
    char s[40];
    ch_jj_buf_add(x, b, s, ch_jj_float_repr(f, s), false);
}

static bool printable(uint32_t cp) {
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return cp == ' ';
    default: return true;
    }
}

static void repr_str(jj_ctx *x, jj_buf *b, const jj_str *s) {
    char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    ch_jj_charge(x, s->n / 16);
    ch_jj_buf_add(x, b, &quote, 1, false);
    size_t from = 0;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        char esc[16];
        int n = 0;
        size_t k = ch_utf8_decode(s->p + i, s->n - i, &cp);
        if (cp == (uint32_t)quote || cp == '\\')
            n = snprintf(esc, sizeof esc, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            n = snprintf(esc, sizeof esc, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else if (!printable(cp))
            n = snprintf(esc, sizeof esc, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        if (n) {
            ch_jj_buf_add(x, b, s->p + from, i - from, false);
            ch_jj_buf_add(x, b, esc, (size_t)n, false);
            from = i + k;
        }
        i += k;
    }
    ch_jj_buf_add(x, b, s->p + from, s->n - from, false);
    ch_jj_buf_add(x, b, &quote, 1, false);
}

static void repr_value(jj_ctx *x, jj_buf *b, jj_val v);

static void repr_seq(jj_ctx *x, jj_buf *b, const jj_seq *q) {
    static const char *const open[] = {"[", "(", "<generator object", "range(", "dict_keys([", "dict_values([",
                                       "dict_items([", "("};
    static const char *const close[] = {"]", ")", ">", ")", "])", "])", "])", ")"};
    ch_jj_buf_puts(x, b, open[q->kind]);
    if (q->kind == JJ_RANGE) {
        for (int i = 0; i < 2 + (q->range[2] != 1); i++) {
            if (i)
                ch_jj_buf_puts(x, b, ", ");
            put_int(x, b, q->range[i]);
        }
    } else if (q->kind != JJ_ITER) {
        for (size_t i = 0; i < q->n; i++) {
            if (i)
                ch_jj_buf_puts(x, b, ", ");
            repr_value(x, b, q->item[i]);
        }
        if (q->n == 1 && (q->kind == JJ_TUPLE || q->kind == JJ_GROUP))
            ch_jj_buf_puts(x, b, ",");
    }
    ch_jj_buf_puts(x, b, close[q->kind]);
}

static void repr_dict(jj_ctx *x, jj_buf *b, const jj_dict *d) {
    ch_jj_buf_puts(x, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            ch_jj_buf_puts(x, b, ", ");
        repr_value(x, b, d->entry[i].key);
        ch_jj_buf_puts(x, b, ": ");
        repr_value(x, b, d->entry[i].val);
    }
    ch_jj_buf_puts(x, b, "}");
}

static void repr_value(jj_ctx *x, jj_buf *b, jj_val v) {
    ch_jj_charge(x, 1);
    ch_jj_enter(x);
    switch (v.type) {
    case JJ_UNDEF: ch_jj_buf_puts(x, b, "Undefined"); break;
    case JJ_NONE: ch_jj_buf_puts(x, b, "None"); break;
    case JJ_BOOL: ch_jj_buf_puts(x, b, v.u.b ? "True" : "False"); break;
    case JJ_INT: put_int(x, b, v.u.i); break;
    case JJ_FLOAT: put_float(x, b, v.u.f); break;
    case JJ_STR:
        if (v.u.s->markup)
            ch_jj_buf_puts(x, b, "Markup(");
        repr_str(x, b, v.u.s);
        if (v.u.s->markup)
            ch_jj_buf_puts(x, b, ")");
        break;
    case JJ_SEQ: repr_seq(x, b, v.u.q); break;
    case JJ_DICT: repr_dict(x, b, v.u.d); break;
    case JJ_NS:
        ch_jj_buf_puts(x, b, "<Namespace ");
        repr_dict(x, b, v.u.d);
        ch_jj_buf_puts(x, b, ">");
        break;
    case JJ_FUNC:
        ch_jj_buf_puts(x, b, "<built-in method ");
        ch_jj_buf_puts(x, b, v.u.fn->def->name);
        ch_jj_buf_puts(x, b, ">");
        break;
    case JJ_MACRO:
        ch_jj_buf_puts(x, b, "<Macro ");
        repr_str(x, b, v.u.m->node->val.u.s);
        ch_jj_buf_puts(x, b, ">");
        break;
    case JJ_LOOP: {
        char s[64];
        snprintf(s, sizeof s, "<LoopContext %zu/%lld>", v.u.l->index0 + 1, (long long)ch_jj_length(x, v));
        ch_jj_buf_puts(x, b, s);
        break;
    }
    default: break;
    }
    x->depth--;
}

const jj_str *ch_jj_repr(jj_ctx *x, jj_val v) {
    jj_buf b = {0};
    repr_value(x, &b, v);
    return ch_jj_buf_str(x, &b);
}

const jj_str *ch_jj_to_str(jj_ctx *x, jj_val v) {
    if (v.type == JJ_STR)
        return v.u.s;
    if (v.type == JJ_UNDEF)
        return ch_jj_str(x, "", 0, false);
    return ch_jj_repr(x, v);
}

// ---- JSON -----------------------------------------------------------------------------------------------------------------

typedef struct json_style {
    bool ascii, sort, pretty;
    const jj_str *indent; // of one level
    const jj_str *item, *key; // separators
} json_style;

static void json_str(jj_ctx *x, jj_buf *b, const jj_str *s, bool ascii) {
    ch_jj_charge(x, s->n / 16);
    ch_jj_buf_puts(x, b, "\"");
    size_t from = 0;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        char esc[16];
        int n = 0;
        static const char plain[] = "\"\\\n\r\t\b\f", letter[] = "\"\\nrtbf";
        size_t k = ch_utf8_decode(s->p + i, s->n - i, &cp);
        const char *c = cp && cp < 0x80 ? strchr(plain, (int)cp) : NULL;
        if (c)
            n = snprintf(esc, sizeof esc, "\\%c", letter[c - plain]);
        else if (cp < 0x20 || (ascii && cp >= 0x7f && cp < 0x10000))
            n = snprintf(esc, sizeof esc, "\\u%04x", cp);
        else if (ascii && cp >= 0x10000)
            n = snprintf(esc, sizeof esc, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10), 0xdc00 + (cp & 0x3ff));
        if (n) {
            ch_jj_buf_add(x, b, s->p + from, i - from, false);
            ch_jj_buf_add(x, b, esc, (size_t)n, false);
            from = i + k;
        }
        i += k;
    }
    ch_jj_buf_add(x, b, s->p + from, s->n - from, false);
    ch_jj_buf_puts(x, b, "\"");
}

static void json_float(jj_ctx *x, jj_buf *b, double f) {
    if (isnan(f) || isinf(f))
        ch_jj_buf_puts(x, b, isnan(f) ? "NaN" : f < 0 ? "-Infinity" : "Infinity");
    else
        put_float(x, b, f);
}

static void json_key(jj_ctx *x, jj_buf *b, jj_val k, bool ascii) {
    if (k.type == JJ_STR) {
        json_str(x, b, k.u.s, ascii);
        return;
    }
    ch_jj_buf_puts(x, b, "\"");
    if (k.type == JJ_BOOL)
        ch_jj_buf_puts(x, b, k.u.b ? "true" : "false");
    else if (k.type == JJ_NONE)
        ch_jj_buf_puts(x, b, "null");
    else if (k.type == JJ_INT)
        put_int(x, b, k.u.i);
    else if (k.type == JJ_FLOAT)
        json_float(x, b, k.u.f);
    else
        ch_jj_fail(x, CH_EFORMAT, "keys must be str, int, float, bool or None, not %s", ch_jj_type_name(k));
    ch_jj_buf_puts(x, b, "\"");
}

static void json_break(jj_ctx *x, jj_buf *b, const json_style *st, int level) {
    if (!st->pretty)
        return;
    ch_jj_buf_puts(x, b, "\n");
    for (int i = 0; i < level; i++)
        ch_jj_buf_add(x, b, st->indent->p, st->indent->n, false);
}

static void json_value(jj_ctx *x, jj_buf *b, jj_val v, const json_style *st, int level);

static void json_dict(jj_ctx *x, jj_buf *b, const jj_dict *d, const json_style *st, int level) {
    jj_seq *keys = ch_jj_dict_view(x, d, JJ_KEYS), *vals = ch_jj_dict_view(x, d, JJ_VALUES);
    if (st->sort)
        ch_jj_sort(x, keys->item, vals->item, keys->n, false);
    ch_jj_buf_puts(x, b, "{");
    for (size_t i = 0; i < keys->n; i++) {
        if (i)
            ch_jj_buf_add(x, b, st->item->p, st->item->n, false);
        json_break(x, b, st, level + 1);
        json_key(x, b, keys->item[i], st->ascii);
        ch_jj_buf_add(x, b, st->key->p, st->key->n, false);
        json_value(x, b, vals->item[i], st, level + 1);
    }
    if (keys->n)
        json_break(x, b, st, level);
    ch_jj_buf_puts(x, b, "}");
}

static void json_value(jj_ctx *x, jj_buf *b, jj_val v, const json_style *st, int level) {
    ch_jj_charge(x, 1);
    ch_jj_enter(x);
    if (v.type == JJ_STR) {
        json_str(x, b, v.u.s, st->ascii);
    } else if (v.type == JJ_NONE) {
        ch_jj_buf_puts(x, b, "null");
    } else if (v.type == JJ_BOOL) {
        ch_jj_buf_puts(x, b, v.u.b ? "true" : "false");
    } else if (v.type == JJ_INT) {
        put_int(x, b, v.u.i);
    } else if (v.type == JJ_FLOAT) {
        json_float(x, b, v.u.f);
    } else if (v.type == JJ_DICT) {
        json_dict(x, b, v.u.d, st, level);
    } else if (v.type == JJ_SEQ && (v.u.q->kind == JJ_LIST || v.u.q->kind == JJ_TUPLE || v.u.q->kind == JJ_GROUP)) {
        ch_jj_buf_puts(x, b, "[");
        for (size_t i = 0; i < v.u.q->n; i++) {
            if (i)
                ch_jj_buf_add(x, b, st->item->p, st->item->n, false);
            json_break(x, b, st, level + 1);
            json_value(x, b, v.u.q->item[i], st, level + 1);
        }
        if (v.u.q->n)
            json_break(x, b, st, level);
        ch_jj_buf_puts(x, b, "]");
    } else {
        ch_jj_fail(x, CH_EFORMAT, "Object of type %s is not JSON serializable", ch_jj_type_name(v));
    }
    x->depth--;
}

// ensure_ascii indent separators sort_keys, as the model makers' renderer defines it (no HTML escapes).
jj_val ch_jj_filter_tojson(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_val *arg = in->arg;
    json_style st = {.ascii = ch_jj_arg_bool(x, arg[0], false), .sort = ch_jj_arg_bool(x, arg[3], false)};
    st.pretty = ch_jj_given(arg[1]);
    if (st.pretty && arg[1].type == JJ_STR) {
        st.indent = arg[1].u.s;
    } else if (st.pretty) {
        int64_t n = ch_jj_arg_int(x, arg[1], "indent", 0);
        static const char blanks[] = "                                ";
        if (n > (int64_t)sizeof blanks - 1)
            ch_jj_fail(x, CH_ELIMIT, "tojson: expected an indent of at most %zu, found %lld", sizeof blanks - 1, (long long)n);
        st.indent = ch_jj_str(x, blanks, n > 0 ? (size_t)n : 0, false);
    }
    st.item = st.pretty ? ch_jj_str(x, ",", 1, false) : ch_jj_str(x, ", ", 2, false);
    st.key = ch_jj_str(x, ": ", 2, false);
    if (ch_jj_given(arg[2])) {
        jj_seq *q = ch_jj_iterate(x, arg[2]);
        if (q->n != 2 || q->item[0].type != JJ_STR || q->item[1].type != JJ_STR)
            ch_jj_fail(x, CH_EFORMAT, "tojson: expected two strings as separators");
        st.item = q->item[0].u.s;
        st.key = q->item[1].u.s;
    }
    jj_buf b = {0};
    json_value(x, &b, in->self, &st, 0);
    return ch_jj_of_str(ch_jj_buf_str(x, &b));
}

jj_val ch_jj_filter_from_json(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *s = ch_jj_arg_str(x, in->self, "from_json: value");
    json_error_t e;
    if (s->n > MAX_JSON_IN)
        ch_jj_fail(x, CH_ELIMIT, "from_json: expected at most %d bytes, found %zu", MAX_JSON_IN, s->n);
    ch_jj_charge(x, s->n / 8);
    x->held = json_loadb(s->p, s->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (!x->held)
        ch_jj_fail(x, CH_EFORMAT, "from_json: %s", e.text);
    jj_val v = ch_jj_from_json(x, x->held, true);
    json_decref(x->held);
    x->held = NULL;
    return v;
}
