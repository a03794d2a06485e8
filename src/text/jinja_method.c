// Methods of strings. Those of lists, dicts and loops, and the globals, are in jinja_global.c.
#include <string.h>

#include <utf8proc.h>

#include "text/jinja.h"

static const jj_str *self_str(const jj_in *in) {
    return in->self.u.s;
}

static jj_val cased(const jj_in *in, int mode) {
    return ch_jj_of_str(ch_jj_case(in->x, self_str(in), mode));
}

static jj_val m_upper(const jj_in *in) {
    return cased(in, JJ_UPPER);
}

static jj_val m_lower(const jj_in *in) {
    return cased(in, JJ_LOWER);
}

static jj_val m_title(const jj_in *in) {
    return cased(in, JJ_TITLE);
}

static jj_val m_capitalize(const jj_in *in) {
    return cased(in, JJ_CAPITALIZE);
}

static jj_val m_swapcase(const jj_in *in) {
    return cased(in, JJ_SWAPCASE);
}

static jj_val stripped(const jj_in *in, int sides) {
    const jj_str *chars = ch_jj_given(in->arg[0]) ? ch_jj_arg_str(in->x, in->arg[0], "strip: chars") : NULL;
    return ch_jj_of_str(ch_jj_strip(in->x, self_str(in), chars, sides));
}

static jj_val m_strip(const jj_in *in) {
    return stripped(in, JJ_LEFT | JJ_RIGHT);
}

static jj_val m_lstrip(const jj_in *in) {
    return stripped(in, JJ_LEFT);
}

static jj_val m_rstrip(const jj_in *in) {
    return stripped(in, JJ_RIGHT);
}

// ---- splitting ------------------------------------------------------------------------------------------------------------

static void add_part(jj_ctx *x, jj_seq *q, const jj_str *s, size_t begin, size_t end) {
    ch_jj_seq_add(x, q, ch_jj_of_str(ch_jj_sub(x, s, begin, end)));
}

// Words between white space, the rest whole after max words.
static void split_words(jj_ctx *x, const jj_str *s, int64_t max, jj_seq *q) {
    size_t i = 0;
    for (;;) {
        uint32_t cp;
        size_t k = 0;
        while (i < s->n && (k = ch_utf8_decode(s->p + i, s->n - i, &cp), ch_jj_is_space(cp)))
            i += k;
        if (i >= s->n)
            return;
        if (max >= 0 && (int64_t)q->n >= max) {
            add_part(x, q, s, i, s->n);
            return;
        }
        size_t begin = i;
        while (i < s->n && (k = ch_utf8_decode(s->p + i, s->n - i, &cp), !ch_jj_is_space(cp)))
            i += k;
        ch_jj_charge(x, (i - begin) / 16);
        add_part(x, q, s, begin, i);
    }
}

static void reverse_items(jj_seq *q) {
    for (size_t i = 0; i < q->n / 2; i++) {
        jj_val v = q->item[i];
        q->item[i] = q->item[q->n - 1 - i];
        q->item[q->n - 1 - i] = v;
    }
}

// As split_words from the right; the words come out last first.
static void rsplit_words(jj_ctx *x, const jj_str *s, int64_t max, jj_seq *q) {
    for (;;) {
        s = ch_jj_strip(x, s, NULL, JJ_RIGHT);
        if (!s->n)
            return;
        if (max >= 0 && (int64_t)q->n >= max) {
            ch_jj_seq_add(x, q, ch_jj_of_str(s));
            return;
        }
        size_t i = s->n;
        while (i > 0) {
            size_t k = i - 1;
            uint32_t cp;
            while (k > 0 && ((unsigned char)s->p[k] & 0xc0) == 0x80)
                k--;
            ch_utf8_decode(s->p + k, i - k, &cp);
            if (ch_jj_is_space(cp))
                break;
            i = k;
        }
        ch_jj_charge(x, (s->n - i) / 16);
        add_part(x, q, s, i, s->n);
        s = ch_jj_sub(x, s, 0, i);
    }
}

static jj_val split(const jj_in *in, bool right) {
    jj_ctx *x = in->x;
    const jj_str *s = self_str(in);
    int64_t max = ch_jj_arg_int(x, in->arg[1], "split: maxsplit", -1);
    jj_seq *q = ch_jj_seq(x, JJ_LIST, 0);
    if (!ch_jj_given(in->arg[0])) {
        if (right) {
            rsplit_words(x, s, max, q);
            reverse_items(q);
        } else {
            split_words(x, s, max, q);
        }
        return ch_jj_of_seq(q);
    }
    const jj_str *sep = ch_jj_arg_str(x, in->arg[0], "split: separator");
    if (!sep->n)
        ch_jj_fail(x, CH_EFORMAT, "empty separator");
    size_t begin = 0, end = s->n;
    while (max < 0 || (int64_t)q->n < max) {
        size_t at = right ? ch_jj_rfind(x, s, sep, 0, end) : ch_jj_find(x, s, sep, begin, s->n);
        if (at == SIZE_MAX)
            break;
        if (right) {
            add_part(x, q, s, at + sep->n, end);
            end = at;
        } else {
            add_part(x, q, s, begin, at);
            begin = at + sep->n;
        }
    }
    add_part(x, q, s, begin, end);
    if (right)
        reverse_items(q);
    return ch_jj_of_seq(q);
}

static jj_val m_split(const jj_in *in) {
    return split(in, false);
}

static jj_val m_rsplit(const jj_in *in) {
    return split(in, true);
}

static jj_val m_splitlines(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *s = self_str(in);
    bool keep = ch_jj_arg_bool(x, in->arg[0], false);
    jj_seq *q = ch_jj_seq(x, JJ_LIST, 0);
    for (size_t i = 0, next; i < s->n; i = next) {
        size_t e = ch_jj_line_end(s, i, &next);
        ch_jj_charge(x, (next - i) / 16);
        add_part(x, q, s, i, keep ? next : e);
    }
    return ch_jj_of_seq(q);
}

static jj_val partition(const jj_in *in, bool right) {
    jj_ctx *x = in->x;
    const jj_str *s = self_str(in), *sep = ch_jj_arg_str(x, in->arg[0], "partition: separator");
    if (!sep->n)
        ch_jj_fail(x, CH_EFORMAT, "empty separator");
    size_t at = right ? ch_jj_rfind(x, s, sep, 0, s->n) : ch_jj_find(x, s, sep, 0, s->n);
    size_t a = at != SIZE_MAX ? at : right ? 0 : s->n, b = at != SIZE_MAX ? at + sep->n : a;
    jj_seq *q = ch_jj_seq(x, JJ_TUPLE, 3);
    add_part(x, q, s, 0, a);
    add_part(x, q, s, a, b);
    add_part(x, q, s, b, s->n);
    return ch_jj_of_seq(q);
}

static jj_val m_partition(const jj_in *in) {
    return partition(in, false);
}

static jj_val m_rpartition(const jj_in *in) {
    return partition(in, true);
}

// ---- searching ------------------------------------------------------------------------------------------------------------

// Bytes of the part between the optional arguments start and end, counted as slices do; false: an empty part past the end.
static bool part(const jj_in *in, int first_arg, size_t *begin, size_t *end) {
    jj_ctx *x = in->x;
    int64_t n = (int64_t)ch_jj_n_chars(x, self_str(in)), b = 0, e = n;
    if (ch_jj_given(in->arg[first_arg]))
        b = ch_jj_arg_int(x, in->arg[first_arg], "start", 0);
    if (ch_jj_given(in->arg[first_arg + 1]))
        e = ch_jj_arg_int(x, in->arg[first_arg + 1], "end", n);
    b = b < -n ? 0 : b < 0 ? b + n : b;
    e = e < -n ? 0 : e < 0 ? e + n : e > n ? n : e;
    *begin = *end = 0;
    if (b > n || b > e)
        return false;
    *begin = ch_jj_byte_of_char(x, self_str(in), (size_t)b);
    *end = ch_jj_byte_of_char(x, self_str(in), (size_t)e);
    return true;
}

static bool has_affix(const jj_in *in, const jj_str *a, bool suffix) {
    size_t b, e;
    if (!part(in, 1, &b, &e) || a->n > e - b)
        return false;
    ch_jj_charge(in->x, a->n / 64);
    return !memcmp(self_str(in)->p + (suffix ? e - a->n : b), a->p, a->n);
}

static jj_val affix(const jj_in *in, bool suffix) {
    jj_val a = in->arg[0];
    if (a.type != JJ_SEQ || a.u.q->kind != JJ_TUPLE)
        return ch_jj_bool(has_affix(in, ch_jj_arg_str(in->x, a, suffix ? "endswith" : "startswith"), suffix));
    bool any = false;
    for (size_t i = 0; i < a.u.q->n && !any; i++)
        any = has_affix(in, ch_jj_arg_str(in->x, a.u.q->item[i], suffix ? "endswith" : "startswith"), suffix);
    return ch_jj_bool(any);
}

static jj_val m_startswith(const jj_in *in) {
    return affix(in, false);
}

static jj_val m_endswith(const jj_in *in) {
    return affix(in, true);
}

static jj_val find(const jj_in *in, bool right, bool must) {
    jj_ctx *x = in->x;
    size_t b, e, at = SIZE_MAX;
    const jj_str *what = ch_jj_arg_str(x, in->arg[0], "find");
    if (part(in, 1, &b, &e))
        at = right ? ch_jj_rfind(x, self_str(in), what, b, e) : ch_jj_find(x, self_str(in), what, b, e);
    if (at != SIZE_MAX)
        return ch_jj_int((int64_t)ch_jj_n_chars(x, ch_jj_sub(x, self_str(in), 0, at)));
    if (must)
        ch_jj_fail(x, CH_EFORMAT, "substring not found");
    return ch_jj_int(-1);
}

static jj_val m_find(const jj_in *in) {
    return find(in, false, false);
}

static jj_val m_rfind(const jj_in *in) {
    return find(in, true, false);
}

static jj_val m_index(const jj_in *in) {
    return find(in, false, true);
}

static jj_val m_rindex(const jj_in *in) {
    return find(in, true, true);
}

static jj_val m_count(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *what = ch_jj_arg_str(x, in->arg[0], "count");
    size_t b, e;
    int64_t n = 0;
    if (!part(in, 1, &b, &e))
        return ch_jj_int(0);
    if (!what->n)
        return ch_jj_int((int64_t)ch_jj_n_chars(x, ch_jj_sub(x, self_str(in), b, e)) + 1);
    for (size_t at; (at = ch_jj_find(x, self_str(in), what, b, e)) != SIZE_MAX; b = at + what->n)
        n++;
    return ch_jj_int(n);
}

// ---- building -------------------------------------------------------------------------------------------------------------

static jj_val m_replace(const jj_in *in) {
    jj_ctx *x = in->x;
    int64_t count = ch_jj_arg_int(x, in->arg[2], "replace: count", -1);
    return ch_jj_of_str(ch_jj_replace(x, self_str(in), ch_jj_arg_str(x, in->arg[0], "replace: old"),
                                      ch_jj_arg_str(x, in->arg[1], "replace: new"), count));
}

static jj_val m_join(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_seq *q = ch_jj_iterate(x, in->arg[0]);
    jj_buf b = {0};
    for (size_t i = 0; i < q->n; i++) {
        if (q->item[i].type != JJ_STR)
            ch_jj_fail(x, CH_EFORMAT, "sequence item %zu: expected str instance, %s found", i, ch_jj_type_name(q->item[i]));
        if (i)
            ch_jj_buf_add_str(x, &b, self_str(in));
        ch_jj_buf_add_str(x, &b, q->item[i].u.s);
    }
    return ch_jj_of_str(ch_jj_buf_str(x, &b));
}

static jj_val m_format(const jj_in *in) {
    return ch_jj_of_str(ch_jj_format(in->x, self_str(in), in->raw));
}

static jj_val m_removeprefix(const jj_in *in) {
    const jj_str *s = self_str(in), *a = ch_jj_arg_str(in->x, in->arg[0], "removeprefix");
    bool has = a->n <= s->n && !memcmp(s->p, a->p, a->n);
    return ch_jj_of_str(has ? ch_jj_sub(in->x, s, a->n, s->n) : s);
}

static jj_val m_removesuffix(const jj_in *in) {
    const jj_str *s = self_str(in), *a = ch_jj_arg_str(in->x, in->arg[0], "removesuffix");
    bool has = a->n <= s->n && !memcmp(s->p + s->n - a->n, a->p, a->n);
    return ch_jj_of_str(has ? ch_jj_sub(in->x, s, 0, s->n - a->n) : s);
}

static jj_val justified(const jj_in *in, int side) {
    jj_ctx *x = in->x;
    const jj_str *s = self_str(in), *fill = NULL;
    if (in->arg[1].type != JJ_ABSENT) {
        fill = ch_jj_arg_str(x, in->arg[1], "fill character");
        if (ch_jj_n_chars(x, fill) != 1)
            ch_jj_fail(x, CH_EFORMAT, "The fill character must be exactly one character long");
    }
    int64_t width = ch_jj_arg_int(x, in->arg[0], "width", 0), n = (int64_t)ch_jj_n_chars(x, s), pad = width - n;
    if (width <= n)
        return ch_jj_of_str(s);
    int64_t left = side == JJ_LEFT ? 0 : side == JJ_RIGHT ? pad : pad / 2 + (pad & width & 1);
    return ch_jj_of_str(ch_jj_pad(x, s, left, pad - left, fill));
}

static jj_val m_ljust(const jj_in *in) {
    return justified(in, JJ_LEFT);
}

static jj_val m_rjust(const jj_in *in) {
    return justified(in, JJ_RIGHT);
}

static jj_val m_center(const jj_in *in) {
    return justified(in, JJ_LEFT | JJ_RIGHT);
}

static jj_val m_zfill(const jj_in *in) {
    jj_ctx *x = in->x;
    const jj_str *s = self_str(in);
    int64_t pad = ch_jj_arg_int(x, in->arg[0], "width", 0);
    pad = pad > (int64_t)ch_jj_n_chars(x, s) ? pad - (int64_t)ch_jj_n_chars(x, s) : 0;
    size_t sign = s->n && (*s->p == '-' || *s->p == '+');
    const jj_str *digits = ch_jj_pad(x, ch_jj_sub(x, s, sign, s->n), pad, 0, ch_jj_str(x, "0", 1, false));
    return ch_jj_of_str(ch_jj_concat(x, ch_jj_sub(x, s, 0, sign), digits));
}

// ---- what the characters are ----------------------------------------------------------------------------------------------

enum { IS_DIGIT = 1, IS_DECIMAL = 2, IS_NUMERIC = 4, IS_ALPHA = 8, IS_SPACE = 16 };

static unsigned classes(uint32_t cp) {
    unsigned c = ch_jj_is_space(cp) ? IS_SPACE : 0;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return c | IS_ALPHA;
    case UTF8PROC_CATEGORY_ND: return c | IS_DIGIT | IS_DECIMAL | IS_NUMERIC;
    case UTF8PROC_CATEGORY_NL: return c | IS_NUMERIC;
    case UTF8PROC_CATEGORY_NO: { // super- and subscript and circled digits are digits, fractions are not
        bool digit = cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
                     (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468);
        return c | IS_NUMERIC | (digit ? IS_DIGIT : 0);
    }
    default: return c;
    }
}

static jj_val all_in(const jj_in *in, unsigned wanted) {
    const jj_str *s = self_str(in);
    bool all = s->n > 0;
    ch_jj_charge(in->x, s->n / 16);
    for (size_t i = 0; i < s->n && all;) {
        uint32_t cp;
        i += ch_utf8_decode(s->p + i, s->n - i, &cp);
        all = (classes(cp) & wanted) != 0;
    }
    return ch_jj_bool(all);
}

static jj_val m_isdigit(const jj_in *in) {
    return all_in(in, IS_DIGIT);
}

static jj_val m_isdecimal(const jj_in *in) {
    return all_in(in, IS_DECIMAL);
}

static jj_val m_isnumeric(const jj_in *in) {
    return all_in(in, IS_NUMERIC);
}

static jj_val m_isalpha(const jj_in *in) {
    return all_in(in, IS_ALPHA);
}

static jj_val m_isalnum(const jj_in *in) {
    return all_in(in, IS_ALPHA | IS_DIGIT | IS_DECIMAL | IS_NUMERIC);
}

static jj_val m_isspace(const jj_in *in) {
    return all_in(in, IS_SPACE);
}

static jj_val m_isupper(const jj_in *in) {
    return ch_jj_bool(ch_jj_run_test(in->x, ch_jj_str(in->x, "upper", 5, false), in->self, NULL));
}

static jj_val m_islower(const jj_in *in) {
    return ch_jj_bool(ch_jj_run_test(in->x, ch_jj_str(in->x, "lower", 5, false), in->self, NULL));
}

static jj_val m_istitle(const jj_in *in) {
    const jj_str *s = self_str(in);
    bool any = false, in_word = false;
    ch_jj_charge(in->x, s->n / 16);
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += ch_utf8_decode(s->p + i, s->n - i, &cp);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        bool up = c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LT, low = c == UTF8PROC_CATEGORY_LL;
        if ((up && in_word) || (low && !in_word))
            return ch_jj_bool(false);
        in_word = up || low;
        any |= in_word;
    }
    return ch_jj_bool(any);
}

const jj_def ch_jj_methods_str[] = {
    {"upper", m_upper, "", 0},
    {"lower", m_lower, "", 0},
    {"casefold", m_lower, "", 0},
    {"title", m_title, "", 0},
    {"capitalize", m_capitalize, "", 0},
    {"swapcase", m_swapcase, "", 0},
    {"strip", m_strip, "chars", 0},
    {"lstrip", m_lstrip, "chars", 0},
    {"rstrip", m_rstrip, "chars", 0},
    {"split", m_split, "sep maxsplit", 0},
    {"rsplit", m_rsplit, "sep maxsplit", 0},
    {"splitlines", m_splitlines, "keepends", 0},
    {"partition", m_partition, "sep", 1},
    {"rpartition", m_rpartition, "sep", 1},
    {"startswith", m_startswith, "prefix start end", 1},
    {"endswith", m_endswith, "suffix start end", 1},
    {"find", m_find, "sub start end", 1},
    {"rfind", m_rfind, "sub start end", 1},
    {"index", m_index, "sub start end", 1},
    {"rindex", m_rindex, "sub start end", 1},
    {"count", m_count, "sub start end", 1},
    {"replace", m_replace, "old new count", 2},
    {"join", m_join, "iterable", 1},
    {"format", m_format, NULL, 0},
    {"removeprefix", m_removeprefix, "prefix", 1},
    {"removesuffix", m_removesuffix, "suffix", 1},
    {"ljust", m_ljust, "width fillchar", 1},
    {"rjust", m_rjust, "width fillchar", 1},
    {"center", m_center, "width fillchar", 1},
    {"zfill", m_zfill, "width", 1},
    {"isdigit", m_isdigit, "", 0},
    {"isdecimal", m_isdecimal, "", 0},
    {"isnumeric", m_isnumeric, "", 0},
    {"isalpha", m_isalpha, "", 0},
    {"isalnum", m_isalnum, "", 0},
    {"isspace", m_isspace, "", 0},
    {"isupper", m_isupper, "", 0},
    {"islower", m_islower, "", 0},
    {"istitle", m_istitle, "", 0},
    {NULL, NULL, NULL, 0},
};
