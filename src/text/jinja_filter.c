// Filters on text and numbers. Those on sequences are in jinja_filter_seq.c.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja.h"

static jj_val text_of(const jj_in *in, int mode) {
    return ch_jj_of_str(ch_jj_case(in->x, ch_jj_to_str(in->x, in->self), mode));
}

static jj_val f_upper(const jj_in *in) {
    return text_of(in, JJ_UPPER);
}

static jj_val f_lower(const jj_in *in) {
    return text_of(in, JJ_LOWER);
}

static jj_val f_capitalize(const jj_in *in) {
    return text_of(in, JJ_CAPITALIZE);
}

// Upper case after white space, '-' and opening brackets only: not the rule of the method title().
static jj_val f_title(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *s = ch_jj_to_str(x, in->self);
    jj_buf b = {0};
    size_t from = 0;
    bool starts = true;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        size_t k = ch_utf8_decode(s->p + i, s->n - i, &cp);
        bool gap = ch_jj_is_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
        if (starts && !gap) {
            ch_jj_buf_add_str(x, &b, ch_jj_case(x, ch_jj_sub(x, s, from, i), JJ_LOWER));
            ch_jj_buf_add_str(x, &b, ch_jj_case(x, ch_jj_sub(x, s, i, i + k), JJ_UPPER));
            from = i + k;
        }
        starts = gap;
        i += k;
    }
    ch_jj_buf_add_str(x, &b, ch_jj_case(x, ch_jj_sub(x, s, from, s->n), JJ_LOWER));
    return ch_jj_of_str(ch_jj_buf_str(x, &b));
}

static jj_val f_trim(const jj_in *in) {
    const jj_str *chars = ch_jj_given(in->arg[0]) ? ch_jj_arg_str(in->x, in->arg[0], "trim: chars") : NULL;
    return ch_jj_of_str(ch_jj_strip(in->x, ch_jj_to_str(in->x, in->self), chars, JJ_LEFT | JJ_RIGHT));
}

static jj_val f_string(const jj_in *in) {
    return ch_jj_of_str(ch_jj_to_str(in->x, in->self));
}

static jj_val f_safe(const jj_in *in) {
    jj_str *r = ch_jj_alloc(in->x, 1, sizeof *r);
    *r = *ch_jj_to_str(in->x, in->self);
    r->markup = true;
    return ch_jj_of_str(r);
}

static jj_val f_escape(const jj_in *in) {
    return ch_jj_of_str(ch_jj_escape(in->x, ch_jj_to_str(in->x, in->self)));
}

static jj_val f_forceescape(const jj_in *in) {
    jj_str plain = *ch_jj_to_str(in->x, in->self);
    plain.markup = false;
    return ch_jj_of_str(ch_jj_escape(in->x, &plain));
}

static jj_val f_replace(const jj_in *in) {
    jj_ctx *x = in->x;
    jj_str *r = ch_jj_alloc(x, 1, sizeof *r);
    int64_t count = ch_jj_given(in->arg[2]) ? ch_jj_arg_int(x, in->arg[2], "replace: count", -1) : -1;
    *r = *ch_jj_replace(x, ch_jj_to_str(x, in->self), ch_jj_to_str(x, in->arg[0]), ch_jj_to_str(x, in->arg[1]), count);
    r->markup = false;
    return ch_jj_of_str(r);
}

static jj_val f_default(const jj_in *in) {
    bool use = in->self.type == JJ_UNDEF || (ch_jj_arg_bool(in->x, in->arg[1], false) && !ch_jj_truth(in->x, in->self));
    if (!use)
        return in->self;
    return in->arg[0].type == JJ_ABSENT ? ch_jj_of_str(ch_jj_str(in->x, "", 0, true)) : in->arg[0];
}

static jj_val f_indent(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *s = ch_jj_arg_str(x, in->self, "indent: value");
    const jj_str *by = in->arg[0].type == JJ_STR ? in->arg[0].u.s
                       : ch_jj_pad(x, ch_jj_str(x, "", 0, true), ch_jj_arg_int(x, in->arg[0], "indent: width", 4), 0, NULL);
    bool first = ch_jj_arg_bool(x, in->arg[1], false), blank = ch_jj_arg_bool(x, in->arg[2], false);
    jj_buf b = {0};
    if (first)
        ch_jj_buf_add_str(x, &b, by);
    for (size_t i = 0, next = 0, k = 0;; i = next, k++) { // text after the last line end is a line, even if empty
        size_t e = ch_jj_line_end(s, i, &next);
        if (k) {
            ch_jj_buf_add(x, &b, "\n", 1, true);
            if (blank || e > i)
                ch_jj_buf_add_str(x, &b, by);
        }
        ch_jj_buf_add_str(x, &b, ch_jj_sub(x, s, i, e));
        if (e == s->n)
            break;
    }
    return ch_jj_of_str(ch_jj_buf_str(x, &b));
}

static jj_val f_center(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *s = ch_jj_to_str(x, in->self);
    int64_t width = ch_jj_arg_int(x, in->arg[0], "center: width", 80), n = (int64_t)ch_jj_n_chars(x, s);
    if (width <= n)
        return ch_jj_of_str(s);
    int64_t pad = width - n, left = pad / 2 + (pad & width & 1);
    return ch_jj_of_str(ch_jj_pad(x, s, left, pad - left, NULL));
}

static jj_val f_truncate(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *s = ch_jj_arg_str(x, in->self, "truncate: value");
    int64_t length = ch_jj_arg_int(x, in->arg[0], "truncate: length", 255);
    const jj_str *end = in->arg[2].type == JJ_ABSENT ? ch_jj_str(x, "...", 3, true)
                                                     : ch_jj_arg_str(x, in->arg[2], "truncate: end");
    int64_t leeway = ch_jj_given(in->arg[3]) ? ch_jj_arg_int(x, in->arg[3], "truncate: leeway", 5) : 5;
    int64_t n_end = (int64_t)ch_jj_n_chars(x, end), n = (int64_t)ch_jj_n_chars(x, s);
    if (length < n_end || leeway < 0)
        ch_jj_fail(x, CH_EFORMAT, "truncate: expected a length of at least %lld and a leeway of at least 0", (long long)n_end);
    if (n - leeway <= length)
        return ch_jj_of_str(s);
    const jj_str *r = ch_jj_sub(x, s, 0, ch_jj_byte_of_char(x, s, (size_t)(length - n_end)));
    if (!ch_jj_arg_bool(x, in->arg[1], false)) {
        size_t at = ch_jj_rfind(x, r, ch_jj_str(x, " ", 1, false), 0, r->n);
        if (at != SIZE_MAX)
            r = ch_jj_sub(x, r, 0, at);
    }
    return ch_jj_of_str(ch_jj_concat(x, r, end));
}

static jj_val f_wordcount(const jj_in *in) {
    const jj_str *s = ch_jj_to_str(in->x, in->self);
    int64_t n = 0;
    bool inside = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += ch_utf8_decode(s->p + i, s->n - i, &cp);
        bool word = cp >= 0x80 ? !ch_jj_is_space(cp) && (cp < 0x2010 || cp > 0x206f) && (cp < 0x3000 || cp > 0x303f)
                               : (cp >= '0' && cp <= '9') || ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z') || cp == '_';
        n += word && !inside;
        inside = word;
    }
    ch_jj_charge(in->x, s->n / 16);
    return ch_jj_int(n);
}

static void quote_url(jj_ctx *x, jj_buf *b, jj_val v, bool query) {
    const jj_str *s = ch_jj_to_str(x, v);
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->p[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr("_.-~", c)) ||
                     (c == '/' && !query);
        char hex[4];
        if (plain)
            ch_jj_buf_add(x, b, s->p + i, 1, false);
        else if (c == ' ' && query)
            ch_jj_buf_puts(x, b, "+");
        else
            ch_jj_buf_add(x, b, hex, (size_t)snprintf(hex, sizeof hex, "%%%02X", c), false);
    }
}

static jj_val f_urlencode(const jj_in *in) {
    jj_ctx *x = in->x;
    jj_buf b = {0};
    if (in->self.type != JJ_DICT && in->self.type != JJ_SEQ) {
        quote_url(x, &b, in->self, false);
        return ch_jj_of_str(ch_jj_buf_str(x, &b));
    }
    jj_seq *q = in->self.type == JJ_DICT ? ch_jj_dict_view(x, in->self.u.d, JJ_ITEMS) : ch_jj_iterate(x, in->self);
    for (size_t i = 0; i < q->n; i++) {
        const jj_seq *pair = ch_jj_iterate(x, q->item[i]);
        if (pair->n != 2)
            ch_jj_fail(x, CH_EFORMAT, "urlencode: expected pairs, found %zu values", pair->n);
        if (i)
            ch_jj_buf_puts(x, &b, "&");
        quote_url(x, &b, pair->item[0], true);
        ch_jj_buf_puts(x, &b, "=");
        quote_url(x, &b, pair->item[1], true);
    }
    return ch_jj_of_str(ch_jj_buf_str(x, &b));
}

static jj_val f_format(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_args *a = in->raw;
    if (a->n && a->n_kw)
        ch_jj_fail(x, CH_EFORMAT, "can't handle positional and keyword arguments at the same time");
    jj_val v;
    if (a->n_kw) {
        v = (jj_val){.type = JJ_DICT, .u.d = ch_jj_dict(x)};
        for (size_t i = 0; i < a->n_kw; i++)
            ch_jj_dict_set(x, v.u.d, ch_jj_of_str(a->kw[i].name), a->kw[i].val);
    } else {
        v = ch_jj_of_seq(ch_jj_seq(x, JJ_TUPLE, a->n));
        for (size_t i = 0; i < a->n; i++)
            ch_jj_seq_add(x, v.u.q, a->pos[i]);
    }
    return ch_jj_of_str(ch_jj_percent(x, ch_jj_to_str(x, in->self), v));
}

// ---- numbers --------------------------------------------------------------------------------------------------------------

// Text without surrounding white space and single underscores between digits, in out; false: too long for a number.
static bool number_text(jj_ctx *x, const jj_str *s, char *out, size_t cap) {
    s = ch_jj_strip(x, s, NULL, JJ_LEFT | JJ_RIGHT);
    size_t n = 0;
    if (s->n >= cap || memchr(s->p, 0, s->n))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        bool between = i > 0 && i + 1 < s->n && s->p[i - 1] != '_' && s->p[i + 1] != '_';
        if (s->p[i] == '_' && between)
            continue;
        out[n++] = s->p[i];
    }
    out[n] = 0;
    return n > 0;
}

static bool parse_int(jj_ctx *x, const jj_str *s, int64_t base, int64_t *out) {
    char z[256], *end;
    if (!number_text(x, s, z, sizeof z))
        return false;
    const char *p = z + (*z == '-' || *z == '+');
    char prefix = p[0] == '0' && p[1] ? (char)(p[1] | 0x20) : 0;
    if ((prefix == 'x' && base == 16) || (prefix == 'o' && base == 8) || (prefix == 'b' && base == 2)) {
        memmove(z + (p - z), p + 2, strlen(p + 2) + 1);
    } else if (base == 0) {
        base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
        if (base != 10)
            memmove(z + (p - z), p + 2, strlen(p + 2) + 1);
    }
    if (!((*p >= '0' && *p <= '9') || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z')) || base < 2 || base > 36)
        return false;
    if (base == 16 && p[0] == '0' && (p[1] | 0x20) == 'x')
        return false; // a second prefix, which strtoll would accept
    long long v = strtoll(z, &end, (int)base);
    if (*end)
        return false;
    if (v == INT64_MAX || v == INT64_MIN)
        ch_jj_fail(x, CH_ERANGE, "int: '%.40s' is outside 64 bits", z);
    *out = v;
    return true;
}

static bool parse_float(jj_ctx *x, const jj_str *s, double *out) {
    char z[512], *end;
    if (!number_text(x, s, z, sizeof z) || strpbrk(z, "xXpP(_"))
        return false; // what strtod takes and Python does not
    *out = strtod(z, &end);
    return *end == 0;
}

static bool to_float(jj_ctx *x, jj_val v, double *f) {
    if (v.type == JJ_UNDEF)
        ch_jj_fail_undef(x, v);
    if (v.type == JJ_STR)
        return parse_float(x, v.u.s, f);
    if (!ch_jj_is_num(v))
        return false;
    *f = v.type == JJ_FLOAT ? v.u.f : v.type == JJ_INT ? (double)v.u.i : v.u.b;
    return true;
}

static jj_val f_float(const jj_in *in) {
    double f;
    if (to_float(in->x, in->self, &f))
        return ch_jj_float(f);
    return in->arg[0].type == JJ_ABSENT ? ch_jj_float(0) : in->arg[0];
}

static jj_val f_int(const jj_in *in) {
    jj_ctx *x = in->x;
    int64_t i, base = ch_jj_arg_int(x, in->arg[1], "int: base", 10);
    double f;
    if (in->self.type == JJ_INT || in->self.type == JJ_BOOL)
        return ch_jj_int(in->self.type == JJ_INT ? in->self.u.i : in->self.u.b);
    if (in->self.type == JJ_STR && parse_int(x, in->self.u.s, base, &i))
        return ch_jj_int(i);
    if (to_float(x, in->self, &f) && !isnan(f)) {
        if (!(f > -9.2e18 && f < 9.2e18))
            ch_jj_fail(x, CH_ERANGE, "int: the value is outside 64 bits");
        return ch_jj_int((int64_t)f);
    }
    return in->arg[0].type == JJ_ABSENT ? ch_jj_int(0) : in->arg[0];
}

static jj_val f_abs(const jj_in *in) {
    jj_val v = in->self;
    if (v.type == JJ_UNDEF)
        ch_jj_fail_undef(in->x, v);
    if (!ch_jj_is_num(v))
        ch_jj_fail(in->x, CH_EFORMAT, "bad operand type for abs(): '%s'", ch_jj_type_name(v));
    if (v.type == JJ_FLOAT)
        return ch_jj_float(fabs(v.u.f));
    int64_t i = v.type == JJ_BOOL ? v.u.b : v.u.i;
    return i < 0 ? ch_jj_math(in->x, JJ_OP_SUB, ch_jj_int(0), v) : ch_jj_int(i);
}

// Half to even on the decimal value, as Python rounds floats: through the exact decimal text.
static double round_to(double f, int64_t digits) {
    char z[400];
    if (!isfinite(f) || digits > 300)
        return f;
    if (digits >= 0) {
        snprintf(z, sizeof z, "%.*f", (int)(digits > 60 ? 60 : digits), f);
        return strtod(z, NULL);
    }
    double p = pow(10, (double)-digits);
    return isinf(p) ? copysign(0, f) : nearbyint(f / p) * p;
}

static jj_val f_round(const jj_in *in) {
    jj_ctx *x = in->x;
    int64_t digits = ch_jj_arg_int(x, in->arg[0], "round: precision", 0);
    const jj_str *how = in->arg[1].type == JJ_ABSENT ? ch_jj_str(x, "common", 6, false)
                                                     : ch_jj_arg_str(x, in->arg[1], "round: method");
    double f;
    if (in->self.type == JJ_STR || !to_float(x, in->self, &f))
        ch_jj_fail(x, CH_EFORMAT, "type %s doesn't define __round__ method", ch_jj_type_name(in->self));
    if (ch_jj_str_is(how, "common")) {
        if (in->self.type == JJ_FLOAT)
            return ch_jj_float(round_to(f, digits));
        if (digits >= 0)
            return ch_jj_int(in->self.type == JJ_INT ? in->self.u.i : in->self.u.b);
        return ch_jj_int((int64_t)round_to(f, digits < -18 ? -18 : digits));
    }
    bool up = ch_jj_str_is(how, "ceil");
    if (!up && !ch_jj_str_is(how, "floor"))
        ch_jj_fail(x, CH_EFORMAT, "method must be common, ceil or floor");
    if (digits > 300 || digits < -300)
        return ch_jj_float(f);
    double p = pow(10, (double)digits);
    return ch_jj_float((up ? ceil(f * p) : floor(f * p)) / p);
}

static jj_val f_attr(const jj_in *in) {
    return ch_jj_attr(in->x, in->self, ch_jj_arg_str(in->x, in->arg[0], "attr: name"));
}

const jj_def ch_jj_filters_text[] = {
    {"upper", f_upper, "", 0},
    {"lower", f_lower, "", 0},
    {"capitalize", f_capitalize, "", 0},
    {"title", f_title, "", 0},
    {"trim", f_trim, "chars", 0},
    {"string", f_string, "", 0},
    {"safe", f_safe, "", 0},
    {"escape", f_escape, "", 0},
    {"e", f_escape, "", 0},
    {"forceescape", f_forceescape, "", 0},
    {"replace", f_replace, "old new count", 2},
    {"default", f_default, "default_value boolean", 0},
    {"d", f_default, "default_value boolean", 0},
    {"indent", f_indent, "width first blank", 0},
    {"center", f_center, "width", 0},
    {"truncate", f_truncate, "length killwords end leeway", 0},
    {"wordcount", f_wordcount, "", 0},
    {"urlencode", f_urlencode, "", 0},
    {"format", f_format, NULL, 0},
    {"float", f_float, "default", 0},
    {"int", f_int, "default base", 0},
    {"abs", f_abs, "", 0},
    {"round", f_round, "precision method", 0},
    {"attr", f_attr, "name", 1},
    {"tojson", ch_jj_filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"from_json", ch_jj_filter_from_json, "", 0},
    {NULL, NULL, NULL, 0},
};
