// Strings of the interpreter: bytes with their origin, built, cut, searched and changed in case.
#include <string.h>

#include <utf8proc.h>

#include "text/jinja.h"

static const jj_run uniform[2] = {{0, false}, {0, true}};

// ---- building -------------------------------------------------------------------------------------------------------------

static void buf_reserve(jj_ctx *x, jj_buf *b, size_t more) {
    if (more > x->max_output - b->n)
        ch_jj_fail(x, CH_ELIMIT, "text of the template passes the limit of %zu bytes", x->max_output);
    if (b->n + more <= b->cap)
        return;
    // The first reservation is exact (most strings never grow), later ones double.
    size_t cap = b->cap ? 2 * (b->n + more) : b->n + more;
    char *p = ch_jj_alloc(x, cap, 1);
    if (b->n)
        memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
}

static void buf_add_run(jj_ctx *x, jj_buf *b, bool literal) {
    if (b->n_run && b->run[b->n_run - 1].literal == literal)
        return;
    if (b->n_run == b->cap_run) {
        size_t cap = b->cap_run ? 2 * b->cap_run : 4;
        jj_run *run = ch_jj_alloc(x, cap, sizeof *run);
        if (b->n_run)
            memcpy(run, b->run, b->n_run * sizeof *run);
        b->run = run;
        b->cap_run = cap;
    }
    b->run[b->n_run++] = (jj_run){b->n, literal};
}

void ch_jj_buf_add(jj_ctx *x, jj_buf *b, const char *p, size_t n, bool literal) {
    if (!n)
        return;
    ch_jj_charge(x, 1 + n / 64);
    buf_reserve(x, b, n);
    buf_add_run(x, b, literal);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void ch_jj_buf_add_str(jj_ctx *x, jj_buf *b, const jj_str *s) {
    buf_reserve(x, b, s->n);
    for (size_t i = 0; i < s->n_run; i++) {
        size_t begin = s->run[i].begin, end = i + 1 < s->n_run ? s->run[i + 1].begin : s->n;
        ch_jj_buf_add(x, b, s->p + begin, end - begin, s->run[i].literal);
    }
}

void ch_jj_buf_puts(jj_ctx *x, jj_buf *b, const char *s) {
    ch_jj_buf_add(x, b, s, strlen(s), false);
}

// The string takes over the buffer's bytes: b must not grow any more.
const jj_str *ch_jj_buf_str(jj_ctx *x, const jj_buf *b) {
    jj_str *s = ch_jj_str(x, b->p, b->n, false);
    if (!b->n)
        return s;
    jj_buf *own = ch_jj_alloc(x, 1, sizeof *own);
    *own = *b;
    s->run = b->run;
    s->n_run = b->n_run;
    s->own = own;
    return s;
}

jj_str *ch_jj_str(jj_ctx *x, const char *p, size_t n, bool literal) {
    jj_str *s = ch_jj_alloc(x, 1, sizeof *s);
    s->p = n ? p : "";
    s->n = n;
    s->n_chars = SIZE_MAX;
    s->run = &uniform[literal];
    s->n_run = n ? 1 : 0;
    return s;
}

const jj_str *ch_jj_str_copy(jj_ctx *x, const char *p, size_t n) {
    char *own = ch_jj_alloc(x, n + 1, 1);
    memcpy(own, p, n);
    return ch_jj_str(x, own, n, false);
}

const jj_str *ch_jj_concat(jj_ctx *x, const jj_str *a, const jj_str *b) {
    if (!b->n)
        return a;
    if (!a->n)
        return b;
    jj_buf *own = a->own;
    if (!own || own->n != a->n) { // not the latest string of its buffer: start another one
        own = ch_jj_alloc(x, 1, sizeof *own);
        buf_reserve(x, own, a->n);
        if (b->n <= x->max_output - a->n)
            buf_reserve(x, own, a->n + b->n);
        ch_jj_buf_add_str(x, own, a);
    }
    ch_jj_buf_add_str(x, own, b);
    jj_str *s = ch_jj_str(x, own->p, own->n, false);
    s->run = own->run;
    s->n_run = own->n_run;
    s->own = own;
    return s;
}

// Run that holds byte at; runs are in order.
static size_t run_at(const jj_str *s, size_t at) {
    size_t lo = 0, hi = s->n_run;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->run[mid].begin <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

const jj_str *ch_jj_sub(jj_ctx *x, const jj_str *s, size_t begin, size_t end) {
    if (begin == 0 && end == s->n)
        return s;
    jj_str *r = ch_jj_str(x, s->p + begin, end - begin, false);
    r->markup = s->markup;
    if (s->n_chars == s->n)
        r->n_chars = r->n;
    if (!r->n)
        return r;
    size_t first = run_at(s, begin), last = run_at(s, end - 1);
    if (first == last) {
        r->run = &uniform[s->run[first].literal];
        return r;
    }
    ch_jj_charge(x, (last - first) / 8);
    jj_run *run = ch_jj_alloc(x, last - first + 1, sizeof *run);
    for (size_t i = first; i <= last; i++)
        run[i - first] = (jj_run){i == first ? 0 : s->run[i].begin - begin, s->run[i].literal};
    r->run = run;
    r->n_run = last - first + 1;
    return r;
}

// ---- characters -----------------------------------------------------------------------------------------------------------

size_t ch_jj_n_chars(jj_ctx *x, const jj_str *s) {
    if (s->n_chars == SIZE_MAX) {
        size_t n = 0;
        for (size_t i = 0; i < s->n; i++)
            n += ((unsigned char)s->p[i] & 0xc0) != 0x80;
        ch_jj_charge(x, s->n / 64);
        // A cache: the value is the same whoever computes it, and strings of the template itself are counted at parse time.
        ((jj_str *)(uintptr_t)s)->n_chars = n;
    }
    return s->n_chars;
}

size_t ch_jj_byte_of_char(jj_ctx *x, const jj_str *s, size_t k) {
    if (ch_jj_n_chars(x, s) == s->n)
        return k;
    size_t i = 0;
    for (; i < s->n; i++)
        if (((unsigned char)s->p[i] & 0xc0) != 0x80 && k-- == 0)
            break;
    ch_jj_charge(x, i / 64);
    return i;
}

bool ch_jj_is_space(uint32_t cp) {
    if (cp < 0x80)
        return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool ch_jj_str_is(const jj_str *s, const char *z) {
    return s->n == strlen(z) && !memcmp(s->p, z, s->n);
}

bool ch_jj_str_eq(const jj_str *a, const jj_str *b) {
    return a->n == b->n && !memcmp(a->p, b->p, a->n);
}

// ---- search ---------------------------------------------------------------------------------------------------------------

size_t ch_jj_find(jj_ctx *x, const jj_str *s, const jj_str *what, size_t from, size_t to) {
    if (from > to || what->n > to - from)
        return SIZE_MAX;
    if (!what->n)
        return from;
    const char *p = memmem(s->p + from, to - from, what->p, what->n);
    ch_jj_charge(x, 1 + ((p ? (size_t)(p - s->p) : to) - from) / 64);
    return p ? (size_t)(p - s->p) : SIZE_MAX;
}

size_t ch_jj_rfind(jj_ctx *x, const jj_str *s, const jj_str *what, size_t from, size_t to) {
    if (from > to || what->n > to - from)
        return SIZE_MAX;
    if (!what->n)
        return to;
    for (size_t i = to - what->n + 1; i > from; i--) {
        const char *p = s->p + i - 1;
        if (*p != what->p[0])
            continue;
        ch_jj_charge(x, 1 + what->n / 64);
        if (!memcmp(p, what->p, what->n)) {
            ch_jj_charge(x, (to - i) / 16);
            return i - 1;
        }
    }
    ch_jj_charge(x, (to - from) / 16);
    return SIZE_MAX;
}

const jj_str *ch_jj_replace(jj_ctx *x, const jj_str *s, const jj_str *old, const jj_str *new_, int64_t count) {
    jj_buf b = {0};
    size_t pos = 0;
    for (int64_t k = 0; count < 0 || k < count; k++) {
        // An empty needle matches before every character and at the end.
        size_t at = old->n ? ch_jj_find(x, s, old, pos, s->n) : pos;
        if (!old->n && k > 0) {
            if (pos >= s->n)
                break;
            uint32_t cp;
            at = pos + ch_utf8_decode(s->p + pos, s->n - pos, &cp);
        }
        if (at == SIZE_MAX)
            break;
        if (k == 0)
            buf_reserve(x, &b, s->n + 1 <= x->max_output ? s->n : 0);
        ch_jj_charge(x, 1);
        ch_jj_buf_add_str(x, &b, ch_jj_sub(x, s, pos, at));
        ch_jj_buf_add_str(x, &b, new_);
        pos = at + old->n;
    }
    if (!b.p)
        return s;
    ch_jj_buf_add_str(x, &b, ch_jj_sub(x, s, pos, s->n));
    return ch_jj_buf_str(x, &b);
}

static bool in_set(const jj_str *chars, const char *p, size_t n, uint32_t cp) {
    return chars ? memmem(chars->p, chars->n, p, n) != NULL : ch_jj_is_space(cp);
}

const jj_str *ch_jj_strip(jj_ctx *x, const jj_str *s, const jj_str *chars, int sides) {
    size_t begin = 0, end = s->n;
    uint32_t cp;
    uint64_t cost = 1 + (chars ? chars->n / 64 : 0);
    while ((sides & JJ_LEFT) && begin < end) {
        size_t k = ch_utf8_decode(s->p + begin, end - begin, &cp);
        if (!in_set(chars, s->p + begin, k, cp))
            break;
        begin += k;
        ch_jj_charge(x, cost);
    }
    while ((sides & JJ_RIGHT) && end > begin) {
        size_t k = end - 1;
        while (k > begin && ((unsigned char)s->p[k] & 0xc0) == 0x80)
            k--;
        ch_utf8_decode(s->p + k, end - k, &cp);
        if (!in_set(chars, s->p + k, end - k, cp))
            break;
        end = k;
        ch_jj_charge(x, cost);
    }
    return ch_jj_sub(x, s, begin, end);
}

// End of the line that starts at i; *next: where the following one starts. Line ends as in Python's splitlines.
size_t ch_jj_line_end(const jj_str *s, size_t i, size_t *next) {
    while (i < s->n) {
        uint32_t cp;
        size_t k = ch_utf8_decode(s->p + i, s->n - i, &cp);
        if ((cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 || cp == 0x2029) {
            *next = i + k + (cp == '\r' && i + 1 < s->n && s->p[i + 1] == '\n');
            return i;
        }
        i += k;
    }
    *next = s->n;
    return s->n;
}

const jj_str *ch_jj_pad(jj_ctx *x, const jj_str *s, int64_t left, int64_t right, const jj_str *fill) {
    if (!fill)
        fill = ch_jj_str(x, " ", 1, true);
    uint64_t room = x->max_output / fill->n;
    if ((left > 0 && (uint64_t)left > room) || (right > 0 && (uint64_t)right > room))
        ch_jj_fail(x, CH_ELIMIT, "padding passes the limit of %zu bytes", x->max_output);
    jj_buf b = {0};
    for (int64_t i = 0; i < left; i++)
        ch_jj_buf_add_str(x, &b, fill);
    ch_jj_buf_add_str(x, &b, s);
    for (int64_t i = 0; i < right; i++)
        ch_jj_buf_add_str(x, &b, fill);
    return ch_jj_buf_str(x, &b);
}

// ---- case -----------------------------------------------------------------------------------------------------------------

// Characters whose upper case is more than one character (Unicode SpecialCasing, the unconditional rows used by European
// scripts; the polytonic Greek rows are not here). title: only the first one is upper case.
static const struct {
    uint32_t cp;
    const char *upper, *title;
} special[] = {
    {0xdf, "SS", "Ss"},           {0x149, "\312\274N", "\312\274N"}, {0x1f0, "J\314\214", "J\314\214"},
    {0x587, "\324\265\325\222", "\324\265\326\202"}, {0x1e96, "H\314\261", "H\314\261"}, {0x1e97, "T\314\210", "T\314\210"},
    {0x1e98, "W\314\212", "W\314\212"}, {0x1e99, "Y\314\212", "Y\314\212"}, {0x1e9a, "A\312\276", "A\312\276"},
    {0x390, "\316\231\314\210\314\201", "\316\231\314\210\314\201"}, {0x3b0, "\316\245\314\210\314\201", "\316\245\314\210\314\201"},
    {0xfb00, "FF", "Ff"},         {0xfb01, "FI", "Fi"},       {0xfb02, "FL", "Fl"},      {0xfb03, "FFI", "Ffi"},
    {0xfb04, "FFL", "Ffl"},       {0xfb05, "ST", "St"},       {0xfb06, "ST", "St"},
};

static bool is_cased(uint32_t cp) {
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

static bool is_case_ignorable(uint32_t cp) {
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_LM ||
           c == UTF8PROC_CATEGORY_SK || cp == '\'' || cp == '.' || cp == ':' || cp == 0xb7 || cp == 0x2018 || cp == 0x2019;
}

// Whether the capital sigma at [i, end) of s closes a word: a cased letter before it and none after it.
static bool final_sigma(const jj_str *s, size_t i, size_t end) {
    uint32_t cp;
    bool before = false;
    for (size_t k = i; k > 0 && !before;) {
        size_t e = k--;
        while (k > 0 && ((unsigned char)s->p[k] & 0xc0) == 0x80)
            k--;
        ch_utf8_decode(s->p + k, e - k, &cp);
        if (is_cased(cp))
            before = true;
        else if (!is_case_ignorable(cp))
            return false;
        if (i - k > 64)
            return before;
    }
    for (size_t k = end; before && k < s->n && k - end < 64;) {
        k += ch_utf8_decode(s->p + k, s->n - k, &cp);
        if (is_cased(cp))
            return false;
        if (!is_case_ignorable(cp))
            break;
    }
    return before;
}

static size_t change_case(const jj_str *s, size_t i, size_t k, uint32_t cp, int mode, char out[16]) {
    if (mode != JJ_LOWER) {
        for (size_t j = 0; cp >= 0xdf && j < sizeof special / sizeof *special; j++) {
            if (special[j].cp != cp)
                continue;
            const char *z = mode == JJ_UPPER ? special[j].upper : special[j].title;
            memcpy(out, z, strlen(z));
            return strlen(z);
        }
        utf8proc_int32_t c = (utf8proc_int32_t)cp;
        return ch_utf8_encode((uint32_t)(mode == JJ_UPPER ? utf8proc_toupper(c) : utf8proc_totitle(c)), out);
    }
    if (cp == 0x130) { // I with a dot: keeps the dot as a mark of its own
        memcpy(out, "i\314\207", 3);
        return 3;
    }
    if (cp == 0x3a3)
        return ch_utf8_encode(final_sigma(s, i, i + k) ? 0x3c2 : 0x3c3, out);
    return ch_utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), out);
}

const jj_str *ch_jj_case(jj_ctx *x, const jj_str *s, int mode) {
    jj_buf b = {0};
    bool in_word = false;
    ch_jj_charge(x, s->n / 8);
    buf_reserve(x, &b, s->n);
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        char out[16];
        size_t k = ch_utf8_decode(s->p + i, s->n - i, &cp);
        int to = mode;
        if (mode == JJ_CAPITALIZE)
            to = i == 0 ? JJ_TITLE : JJ_LOWER;
        else if (mode == JJ_TITLE)
            to = in_word ? JJ_LOWER : JJ_TITLE;
        else if (mode == JJ_SWAPCASE)
            to = utf8proc_tolower((utf8proc_int32_t)cp) != (utf8proc_int32_t)cp ? JJ_LOWER : JJ_UPPER;
        in_word = is_cased(cp);
        size_t n = change_case(s, i, k, cp, to, out);
        ch_jj_buf_add(x, &b, out, n, s->run[run_at(s, i)].literal);
        i += k;
    }
    jj_str *r = (jj_str *)(uintptr_t)ch_jj_buf_str(x, &b);
    r->markup = s->markup;
    return r;
}

const jj_str *ch_jj_escape(jj_ctx *x, const jj_str *s) {
    if (s->markup)
        return s;
    jj_buf b = {0};
    size_t from = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *z = s->p[i] == '&'    ? "&amp;"
                        : s->p[i] == '<'  ? "&lt;"
                        : s->p[i] == '>'  ? "&gt;"
                        : s->p[i] == '"'  ? "&#34;"
                        : s->p[i] == '\'' ? "&#39;"
                                          : NULL;
        if (!z)
            continue;
        ch_jj_buf_add_str(x, &b, ch_jj_sub(x, s, from, i));
        ch_jj_buf_puts(x, &b, z);
        from = i + 1;
    }
    ch_jj_charge(x, s->n / 16);
    ch_jj_buf_add_str(x, &b, ch_jj_sub(x, s, from, s->n));
    jj_str *r = (jj_str *)(uintptr_t)ch_jj_buf_str(x, &b);
    r->markup = true;
    return r;
}
