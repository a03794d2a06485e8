// printf-style formatting (`"%d" % x`) and str.format, both over one formatter of numbers and strings.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja.h"

enum { MAX_PRECISION = 500 };

typedef struct fmt_spec {
    const jj_str *fill; // NULL: blank
    char align;         // '<', '>', '^', '=', 0: by type
    char sign;          // '+', ' ', 0
    char type;          // 0: by value
    char group;         // ',' or '_' between thousands, 0
    bool alt;
    int64_t width, precision; // -1: none
} fmt_spec;

static double as_float(jj_ctx *x, jj_val v) {
    if (!ch_jj_is_num(v))
        ch_jj_fail(x, CH_EFORMAT, "must be real number, not %s", ch_jj_type_name(v));
    return v.type == JJ_FLOAT ? v.u.f : v.type == JJ_INT ? (double)v.u.i : v.u.b;
}

// Digits of |i| in the base, most significant first.
static size_t int_digits(int64_t i, unsigned base, bool upper, char out[72]) {
    char rev[72];
    size_t n = 0;
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    do
        rev[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
    while ((u /= base) > 0);
    for (size_t k = 0; k < n; k++)
        out[k] = rev[n - 1 - k];
    out[n] = 0;
    return n;
}

static size_t float_digits(jj_ctx *x, const fmt_spec *f, double d, char *out, size_t cap) {
    int64_t p = f->precision;
    if (p > MAX_PRECISION)
        ch_jj_fail(x, CH_ELIMIT, "precision %lld passes the limit of %d", (long long)p, MAX_PRECISION);
    if (isnan(d) || isinf(d))
        return (size_t)snprintf(out, cap, "%s", isnan(d) ? "nan" : "inf");
    d = fabs(d);
    int k = p < 0 ? 6 : (int)p;
    switch (f->type) {
    case 'f':
    case 'F': return (size_t)snprintf(out, cap, f->alt ? "%#.*f" : "%.*f", k, d);
    case 'e': return (size_t)snprintf(out, cap, f->alt ? "%#.*e" : "%.*e", k, d);
    case 'E': return (size_t)snprintf(out, cap, f->alt ? "%#.*E" : "%.*E", k, d);
    case 'g': return (size_t)snprintf(out, cap, f->alt ? "%#.*g" : "%.*g", k, d);
    case 'G': return (size_t)snprintf(out, cap, f->alt ? "%#.*G" : "%.*G", k, d);
    case '%': return (size_t)snprintf(out, cap, "%.*f%%", k, d * 100);
    default:
        if (p >= 0)
            return (size_t)snprintf(out, cap, "%.*g", k, d);
        char r[40];
        return (size_t)snprintf(out, cap, "%.*s", (int)ch_jj_float_repr(d, r), r);
    }
}

// sign + prefix + digits, padded; '=' pads between prefix and digits.
static void put_number(jj_ctx *x, jj_buf *b, const fmt_spec *f, const char *lead, const char *digits) {
    char grouped[1200];
    size_t whole = strspn(digits, "0123456789"), n = 0, n_digits = strlen(digits);
    if (f->group && whole > 3) {
        for (size_t i = 0; i < n_digits && n + 2 < sizeof grouped; i++) {
            if (i && i < whole && (whole - i) % 3 == 0)
                grouped[n++] = f->group;
            grouped[n++] = digits[i];
        }
        digits = grouped;
        n_digits = n;
    }
    int64_t pad = f->width - (int64_t)strlen(lead) - (int64_t)n_digits;
    char align = f->align ? f->align : '>';
    int64_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    const jj_str *num = ch_jj_str_copy(x, digits, n_digits);
    if (align == '=')
        num = ch_jj_pad(x, num, pad, 0, f->fill);
    num = ch_jj_concat(x, ch_jj_str_copy(x, lead, strlen(lead)), num);
    if (align != '=')
        num = ch_jj_pad(x, num, left, pad - left, f->fill);
    ch_jj_buf_add_str(x, b, num);
}

static void put_str(jj_ctx *x, jj_buf *b, const fmt_spec *f, const jj_str *s) {
    int64_t n = (int64_t)ch_jj_n_chars(x, s);
    if (f->precision >= 0 && f->precision < n) {
        n = f->precision;
        s = ch_jj_sub(x, s, 0, ch_jj_byte_of_char(x, s, (size_t)n));
    }
    int64_t pad = f->width > n ? f->width - n : 0;
    int64_t left = f->align == '>' ? pad : f->align == '^' ? pad / 2 : 0;
    ch_jj_buf_add_str(x, b, pad ? ch_jj_pad(x, s, left, pad - left, f->fill) : s);
}

static void put_value(jj_ctx *x, jj_buf *b, const fmt_spec *f, jj_val v) {
    char lead[8] = "", digits[1000];
    bool integer = v.type == JJ_INT || v.type == JJ_BOOL;
    unsigned base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
    bool want_int = base != 10 || f->type == 'd' || f->type == 'n' || (!f->type && integer);
    if (v.type == JJ_UNDEF && f->type && f->type != 's')
        ch_jj_fail_undef(x, v);
    if (f->type == 'c') {
        char u[4];
        int64_t cp = ch_jj_arg_int(x, v, "%c", 0);
        size_t n = cp >= 0 && cp <= 0x10ffff ? ch_utf8_encode((uint32_t)cp, u) : 0;
        if (!n)
            ch_jj_fail(x, CH_ERANGE, "%%c arg not in range(0x110000)");
        put_str(x, b, f, ch_jj_str_copy(x, u, n));
    } else if (want_int) {
        int64_t i = ch_jj_arg_int(x, v, "format", 0);
        const char *prefix = !f->alt || base == 10 ? "" : base == 16 ? (f->type == 'X' ? "0X" : "0x") : base == 8 ? "0o" : "0b";
        size_t n = int_digits(i, base, f->type == 'X', digits);
        if (f->precision > (int64_t)n && f->precision <= MAX_PRECISION) { // "%.3d": at least three digits
            memmove(digits + f->precision - n, digits, n + 1);
            memset(digits, '0', (size_t)f->precision - n);
        }
        snprintf(lead, sizeof lead, "%s%s", i < 0 ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "", prefix);
        put_number(x, b, f, lead, digits);
    } else if (f->type ? f->type != 's' : v.type == JJ_FLOAT) {
        double d = as_float(x, v);
        float_digits(x, f, d, digits, sizeof digits);
        snprintf(lead, sizeof lead, "%s", signbit(d) && !isnan(d) ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "");
        put_number(x, b, f, lead, digits);
    } else {
        put_str(x, b, f, ch_jj_to_str(x, v));
    }
}

// Decimal number of f at *i, bounded; -1: none there.
static int64_t read_number(jj_ctx *x, const jj_str *f, size_t *i) {
    int64_t n = -1;
    for (; *i < f->n && f->p[*i] >= '0' && f->p[*i] <= '9'; (*i)++) {
        n = (n < 0 ? 0 : n) * 10 + (f->p[*i] - '0');
        if (n > (int64_t)x->max_output)
            ch_jj_fail(x, CH_ELIMIT, "width of a format passes the limit of %zu", x->max_output);
    }
    return n;
}

// ---- "%d" % value ---------------------------------------------------------------------------------------------------------

typedef struct percent_args {
    jj_val args;
    size_t next;
    bool tuple;
} percent_args;

static jj_val next_arg(jj_ctx *x, percent_args *a) {
    if (a->tuple ? a->next >= a->args.u.q->n : a->next > 0)
        ch_jj_fail(x, CH_EFORMAT, "not enough arguments for format string");
    return a->tuple ? a->args.u.q->item[a->next++] : (a->next++, a->args);
}

static jj_val named_arg(jj_ctx *x, const jj_str *f, size_t *i, jj_val args) {
    const char *end = memchr(f->p + *i, ')', f->n - *i);
    if (!end)
        ch_jj_fail(x, CH_EFORMAT, "incomplete format key");
    if (args.type != JJ_DICT)
        ch_jj_fail(x, CH_EFORMAT, "format requires a mapping");
    const jj_str *key = ch_jj_sub(x, f, *i + 1, (size_t)(end - f->p));
    const jj_val *v = ch_jj_dict_find_str(x, args.u.d, key);
    if (!v)
        ch_jj_fail(x, CH_EFORMAT, "format: key '%.*s' is missing", (int)(key->n < 60 ? key->n : 60), key->p);
    *i = (size_t)(end - f->p) + 1;
    return *v;
}

static void percent_one(jj_ctx *x, jj_buf *b, const jj_str *f, size_t *i, percent_args *a) {
    fmt_spec s = {.width = -1, .precision = -1, .align = '>'};
    bool named = *i < f->n && f->p[*i] == '(', left = false, zero = false;
    jj_val v = ch_jj_none();
    if (named)
        v = named_arg(x, f, i, a->args);
    for (; *i < f->n && f->p[*i] && strchr("-+ 0#", f->p[*i]); (*i)++) {
        char c = f->p[*i];
        left |= c == '-';
        zero |= c == '0';
        s.alt |= c == '#';
        s.sign = c == '+' ? '+' : c == ' ' && s.sign != '+' ? ' ' : s.sign;
    }
    if (*i < f->n && f->p[*i] == '*') {
        (*i)++;
        s.width = ch_jj_arg_int(x, next_arg(x, a), "format: width", 0);
        left |= s.width < 0;
        s.width = s.width < 0 && s.width > INT64_MIN ? -s.width : s.width;
    } else {
        s.width = read_number(x, f, i);
    }
    if (*i < f->n && f->p[*i] == '.') {
        (*i)++;
        s.precision = read_number(x, f, i);
        s.precision = s.precision < 0 ? 0 : s.precision;
    }
    if (*i >= f->n)
        ch_jj_fail(x, CH_EFORMAT, "incomplete format");
    char c = f->p[(*i)++];
    s.type = c == 'i' || c == 'u' ? 'd' : c;
    if (!c || !strchr("sradxXofFeEgGc", s.type))
        ch_jj_fail(x, CH_EFORMAT, "unsupported format character 0x%02x", (unsigned char)c);
    if (!named)
        v = next_arg(x, a);
    bool number = !strchr("srac", s.type);
    if (left) {
        s.align = '<';
    } else if (zero && number) {
        s.align = '=';
        s.fill = ch_jj_str(x, "0", 1, false);
    }
    if (s.type == 'd' && v.type == JJ_FLOAT) {
        if (!(fabs(v.u.f) < 9.2e18))
            ch_jj_fail(x, CH_ERANGE, "%%d: the value is outside 64 bits");
        v = ch_jj_int((int64_t)v.u.f);
    } else if (number && !ch_jj_is_num(v) && v.type != JJ_UNDEF) {
        ch_jj_fail(x, CH_EFORMAT, "%%%c format: a number is required, not %s", c, ch_jj_type_name(v));
    }
    if (s.type == 'c' && v.type == JJ_STR && ch_jj_n_chars(x, v.u.s) == 1)
        s.type = 's';
    if (s.type == 'r' || s.type == 'a') {
        v = ch_jj_of_str(ch_jj_repr(x, v));
        s.type = 's';
    }
    put_value(x, b, &s, v);
}

const jj_str *ch_jj_percent(jj_ctx *x, const jj_str *f, jj_val args) {
    jj_buf b = {0};
    percent_args a = {.args = args, .tuple = args.type == JJ_SEQ && (args.u.q->kind == JJ_TUPLE || args.u.q->kind == JJ_GROUP)};
    bool named = false;
    for (size_t i = 0; i < f->n;) {
        const char *p = memchr(f->p + i, '%', f->n - i);
        size_t at = p ? (size_t)(p - f->p) : f->n;
        ch_jj_buf_add_str(x, &b, ch_jj_sub(x, f, i, at));
        i = at + 1;
        if (!p)
            break;
        ch_jj_charge(x, 1);
        if (i < f->n && f->p[i] == '%') {
            ch_jj_buf_add_str(x, &b, ch_jj_sub(x, f, i, i + 1));
            i++;
            continue;
        }
        named |= i < f->n && f->p[i] == '(';
        percent_one(x, &b, f, &i, &a);
    }
    if (a.tuple ? a.next < args.u.q->n : a.next == 0 && args.type != JJ_DICT && args.type != JJ_SEQ && !named)
        ch_jj_fail(x, CH_EFORMAT, "not all arguments converted during string formatting");
    return ch_jj_buf_str(x, &b);
}

// ---- "{}".format(value) ---------------------------------------------------------------------------------------------------

static void read_spec(jj_ctx *x, const jj_str *f, fmt_spec *s) {
    size_t i = 0;
    *s = (fmt_spec){.width = -1, .precision = -1};
    uint32_t cp;
    size_t k = f->n ? ch_utf8_decode(f->p, f->n, &cp) : 0;
    if (k && k < f->n && f->p[k] && strchr("<>^=", f->p[k])) {
        s->fill = ch_jj_sub(x, f, 0, k);
        s->align = f->p[k];
        i = k + 1;
    } else if (f->n && f->p[0] && strchr("<>^=", f->p[0])) {
        s->align = f->p[i++];
    }
    if (i < f->n && (f->p[i] == '+' || f->p[i] == '-' || f->p[i] == ' '))
        s->sign = f->p[i] == '-' ? 0 : f->p[i], i++;
    if (i < f->n && f->p[i] == '#')
        s->alt = true, i++;
    if (i < f->n && f->p[i] == '0') {
        if (!s->align) {
            s->align = '=';
            s->fill = ch_jj_str(x, "0", 1, false);
        }
        i++;
    }
    s->width = read_number(x, f, &i);
    if (i < f->n && (f->p[i] == ',' || f->p[i] == '_'))
        s->group = f->p[i++];
    if (i < f->n && f->p[i] == '.') {
        i++;
        s->precision = read_number(x, f, &i);
        if (s->precision < 0)
            ch_jj_fail(x, CH_EFORMAT, "Format specifier missing precision");
    }
    if (i < f->n && f->p[i] && strchr("sdfFeEgGxXobcn%", f->p[i]))
        s->type = f->p[i++];
    if (i < f->n)
        ch_jj_fail(x, CH_EFORMAT, "Invalid format specifier '%.*s'", (int)(f->n < 60 ? f->n : 60), f->p);
}

// Value of the field "name.attr[key]"; an empty name takes the next positional argument.
static jj_val field_value(jj_ctx *x, const jj_str *name, const jj_args *a, size_t *next) {
    size_t n = 0;
    while (n < name->n && name->p[n] != '.' && name->p[n] != '[')
        n++;
    const jj_str *first = ch_jj_sub(x, name, 0, n);
    size_t i = 0, index = 0;
    for (; i < n && name->p[i] >= '0' && name->p[i] <= '9' && index < 1000000; i++)
        index = index * 10 + (size_t)(name->p[i] - '0');
    jj_val v = ch_jj_absent();
    if (i == n) {
        index = n ? index : (*next)++;
        if (index >= a->n)
            ch_jj_fail(x, CH_EFORMAT, "Replacement index %zu out of range for positional args tuple", index);
        v = a->pos[index];
    }
    for (size_t k = 0; v.type == JJ_ABSENT && k < a->n_kw; k++)
        if (ch_jj_str_eq(a->kw[k].name, first))
            v = a->kw[k].val;
    if (v.type == JJ_ABSENT)
        ch_jj_fail(x, CH_EFORMAT, "format: key '%.*s' is missing", (int)(n < 60 ? n : 60), name->p);
    while (n < name->n) {
        bool item = name->p[n++] == '[';
        size_t end = n;
        while (end < name->n && (item ? name->p[end] != ']' : name->p[end] != '.' && name->p[end] != '['))
            end++;
        jj_val key = ch_jj_of_str(ch_jj_sub(x, name, n, end));
        v = item ? ch_jj_path(x, v, key, ch_jj_none()) : ch_jj_attr(x, v, key.u.s);
        n = end + item;
    }
    return v;
}

static void format_field(jj_ctx *x, jj_buf *b, const jj_str *field, const jj_args *a, size_t *next) {
    const char *colon = memchr(field->p, ':', field->n);
    size_t n = colon ? (size_t)(colon - field->p) : field->n;
    const jj_str *spec = ch_jj_sub(x, field, colon ? n + 1 : n, field->n);
    char conv = 0;
    if (n >= 2 && field->p[n - 2] == '!') {
        conv = field->p[n - 1];
        n -= 2;
        if (conv != 'r' && conv != 's' && conv != 'a')
            ch_jj_fail(x, CH_EFORMAT, "Unknown conversion specifier after '!'");
    }
    jj_val v = field_value(x, ch_jj_sub(x, field, 0, n), a, next);
    if (conv)
        v = ch_jj_of_str(conv == 's' ? ch_jj_to_str(x, v) : ch_jj_repr(x, v));
    fmt_spec s;
    read_spec(x, spec, &s);
    if (spec->n && v.type != JJ_STR && !ch_jj_is_num(v))
        ch_jj_fail(x, CH_EFORMAT, "unsupported format string passed to %s.__format__", ch_jj_type_name(v));
    if (v.type == JJ_BOOL && !spec->n)
        v = ch_jj_of_str(ch_jj_to_str(x, v));
    if (v.type == JJ_STR && s.type && s.type != 's')
        ch_jj_fail(x, CH_EFORMAT, "Unknown format code '%c' for object of type 'str'", s.type);
    put_value(x, b, &s, v);
}

const jj_str *ch_jj_format(jj_ctx *x, const jj_str *f, const jj_args *a) {
    jj_buf b = {0};
    size_t next = 0;
    for (size_t i = 0; i < f->n;) {
        size_t at = i;
        while (at < f->n && f->p[at] != '{' && f->p[at] != '}')
            at++;
        ch_jj_buf_add_str(x, &b, ch_jj_sub(x, f, i, at));
        if (at == f->n)
            break;
        ch_jj_charge(x, 1);
        if (at + 1 < f->n && f->p[at + 1] == f->p[at]) {
            ch_jj_buf_add_str(x, &b, ch_jj_sub(x, f, at, at + 1));
            i = at + 2;
            continue;
        }
        const char *end = f->p[at] == '{' ? memchr(f->p + at, '}', f->n - at) : NULL;
        const char *nested = end ? memchr(f->p + at + 1, '{', (size_t)(end - f->p) - at - 1) : NULL;
        if (!end)
            ch_jj_fail(x, CH_EFORMAT, "Single '%c' encountered in format string", f->p[at]);
        if (nested)
            ch_jj_fail(x, CH_EUNSUPPORTED, "format: fields inside a field are not supported");
        format_field(x, &b, ch_jj_sub(x, f, at + 1, (size_t)(end - f->p)), a, &next);
        i = (size_t)(end - f->p) + 1;
    }
    return ch_jj_buf_str(x, &b);
}
