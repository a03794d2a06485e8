// Tokens of a template. The rules for white space around tags are those of the reference with trim_blocks and
// lstrip_blocks: the first line end after a block tag goes, and so do blanks between a line's beginning and a block tag.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_parse.h"

enum { IN_TEXT, IN_VAR, IN_BLOCK };

void ch_jj_lex_init(jj_lexer *l, jj_ctx *x, const char *src, size_t n) {
    memset(l, 0, sizeof *l);
    l->x = x;
    l->line = 1;
    l->at_begin = true;
    // "\r\n" and "\r" count as "\n"; one line end at the end of the template is dropped.
    char *own = ch_jj_alloc(x, n + 1, 1);
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (src[i] == '\r') {
            own[m++] = '\n';
            if (i + 1 < n && src[i + 1] == '\n')
                i++;
        } else {
            own[m++] = src[i];
        }
    }
    if (m && own[m - 1] == '\n')
        m--;
    l->src = own;
    l->n = m;
}

_Noreturn static void lex_fail(jj_lexer *l, const char *what) {
    ch_jj_fail(l->x, CH_EFORMAT, "template line %d: %s", l->line, what);
}

static bool at(const jj_lexer *l, size_t pos, const char *z) {
    size_t n = strlen(z);
    return pos <= l->n && n <= l->n - pos && !memcmp(l->src + pos, z, n);
}

static size_t skip_space(const jj_lexer *l, size_t pos) {
    while (pos < l->n) {
        uint32_t cp;
        size_t k = ch_utf8_decode(l->src + pos, l->n - pos, &cp);
        if (!ch_jj_is_space(cp))
            break;
        pos += k;
    }
    return pos;
}

// End of src[begin..end) without its trailing white space.
static size_t rstrip(const jj_lexer *l, size_t begin, size_t end) {
    while (end > begin) {
        size_t k = end - 1;
        while (k > begin && ((unsigned char)l->src[k] & 0xc0) == 0x80)
            k--;
        uint32_t cp;
        if (ch_utf8_decode(l->src + k, end - k, &cp) != end - k || !ch_jj_is_space(cp))
            break;
        end = k;
    }
    return end;
}

static void move_to(jj_lexer *l, size_t pos) {
    for (size_t i = l->pos; i < pos; i++)
        l->line += l->src[i] == '\n';
    l->pos = pos;
}

// End of the text [begin..end) before a tag, after its white-space rule. sign: what follows the tag's opening ('-', '+',
// other). A tag that stands alone on its line loses the blanks before it unless it prints.
static size_t text_end(const jj_lexer *l, size_t begin, size_t end, char sign, bool prints) {
    if (sign == '-')
        return rstrip(l, begin, end);
    if (sign == '+' || prints)
        return end;
    size_t line = end;
    while (line > begin && l->src[line - 1] != '\n')
        line--;
    bool starts_line = line > begin || begin == 0 || l->src[begin - 1] == '\n';
    return starts_line && skip_space(l, line) >= end ? line : end;
}

// Position after the end of a block tag at pos ("%}", "-%}", "+%}"), 0: none there.
static size_t block_end(const jj_lexer *l, size_t pos) {
    if (at(l, pos, "+%}"))
        return pos + 3;
    if (at(l, pos, "-%}"))
        return skip_space(l, pos + 3);
    if (at(l, pos, "%}"))
        return pos + 2 + at(l, pos + 2, "\n");
    return 0;
}

// Where the body of a raw block begins if the tag at pos opens one, else 0.
static size_t raw_begin(const jj_lexer *l, size_t pos) {
    pos += 2;
    if (at(l, pos, "-") || at(l, pos, "+"))
        pos++;
    pos = skip_space(l, pos);
    if (!at(l, pos, "raw"))
        return 0;
    pos = skip_space(l, pos + 3);
    if (at(l, pos, "-%}"))
        return skip_space(l, pos + 3);
    return at(l, pos, "%}") ? pos + 2 : 0;
}

static void raw_text(jj_lexer *l, jj_token *t) {
    size_t begin = l->pos;
    for (size_t i = begin;; i++) {
        const char *p = i < l->n ? memmem(l->src + i, l->n - i, "{%", 2) : NULL;
        if (!p)
            lex_fail(l, "expected {% endraw %}, found the end of the template");
        i = (size_t)(p - l->src);
        size_t k = i + 2;
        char sign = k < l->n ? l->src[k] : 0;
        if (sign == '-' || sign == '+')
            k++;
        k = skip_space(l, k);
        if (!at(l, k, "endraw"))
            continue;
        k = block_end(l, skip_space(l, k + 6));
        if (!k)
            continue;
        t->type = JJ_T_DATA;
        t->line = l->line;
        t->p = l->src + begin;
        t->n = text_end(l, begin, i, sign, false) - begin;
        move_to(l, k);
        return;
    }
}

static void skip_comment(jj_lexer *l) {
    size_t pos = l->pos + 2;
    if (at(l, pos, "-") || at(l, pos, "+"))
        pos++;
    const char *p = pos < l->n ? memmem(l->src + pos, l->n - pos, "#}", 2) : NULL;
    if (!p)
        lex_fail(l, "expected the end of a comment \"#}\", found the end of the template");
    size_t end = (size_t)(p - l->src);
    char before = end > pos ? l->src[end - 1] : 0;
    end += 2;
    if (before == '-')
        end = skip_space(l, end);
    else if (before != '+' && at(l, end, "\n"))
        end++;
    move_to(l, end);
}

// Text up to the next tag. True: t holds some; false: nothing before the tag, which was entered.
static bool next_text(jj_lexer *l, jj_token *t) {
    size_t begin = l->pos, i = begin;
    while (i < l->n) {
        const char *p = memchr(l->src + i, '{', l->n - i);
        i = p ? (size_t)(p - l->src) : l->n;
        if (i + 1 < l->n && (l->src[i + 1] == '{' || l->src[i + 1] == '%' || l->src[i + 1] == '#'))
            break;
        i += i < l->n;
    }
    t->type = JJ_T_DATA;
    t->line = l->line;
    t->p = l->src + begin;
    if (i >= l->n) {
        t->n = l->n - begin;
        move_to(l, l->n);
        return true;
    }
    char kind = l->src[i + 1], sign = i + 2 < l->n ? l->src[i + 2] : 0;
    t->n = text_end(l, begin, i, sign, kind == '{') - begin;
    move_to(l, i);
    if (kind == '#') {
        skip_comment(l);
        return t->n > 0;
    }
    size_t raw = kind == '%' ? raw_begin(l, i) : 0;
    if (raw) {
        move_to(l, raw);
        jj_token body;
        raw_text(l, &body);
        if (t->n) {
            // the text before the raw block and its body make one token
            char *both = ch_jj_alloc(l->x, t->n + body.n + 1, 1);
            memcpy(both, t->p, t->n);
            memcpy(both + t->n, body.p, body.n);
            t->p = both;
            t->n += body.n;
        } else {
            *t = body;
        }
        return t->n > 0;
    }
    l->state = kind == '{' ? IN_VAR : IN_BLOCK;
    l->at_begin = true;
    return t->n > 0;
}

static void number_token(jj_lexer *l, jj_token *t) {
    char digits[64];
    size_t n = 0, pos = l->pos;
    int base = 10;
    bool real = false;
    if (l->src[pos] == '0' && pos + 1 < l->n && strchr("xXoObB", l->src[pos + 1])) {
        char b = (char)(l->src[pos + 1] | 0x20);
        base = b == 'x' ? 16 : b == 'o' ? 8 : 2;
        pos += 2;
    }
    for (; pos < l->n; pos++) {
        char c = l->src[pos];
        bool digit = c >= '0' && c <= '9';
        bool hex = base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'));
        if (c == '_')
            continue;
        if (base == 10 && !real && c == '.' && pos + 1 < l->n && l->src[pos + 1] >= '0' && l->src[pos + 1] <= '9' &&
            (l->pos == 0 || l->src[l->pos - 1] != '.')) {
            real = true;
        } else if (base == 10 && (c == 'e' || c == 'E') && pos + 1 < l->n && (l->pos == 0 || l->src[l->pos - 1] != '.')) {
            size_t k = pos + 1 + (l->src[pos + 1] == '+' || l->src[pos + 1] == '-');
            if (k >= l->n || l->src[k] < '0' || l->src[k] > '9')
                break;
            real = true;
            if (n + 3 > sizeof digits)
                lex_fail(l, "number with too many digits");
            digits[n++] = 'e';
            if (k == pos + 2)
                digits[n++] = l->src[pos + 1];
            for (pos = k; pos < l->n && ((l->src[pos] >= '0' && l->src[pos] <= '9') || l->src[pos] == '_'); pos++) {
                if (n + 2 > sizeof digits)
                    lex_fail(l, "number with too many digits");
                if (l->src[pos] != '_')
                    digits[n++] = l->src[pos];
            }
            break;
        } else if (!digit && !hex) {
            break;
        }
        if (n + 2 > sizeof digits)
            lex_fail(l, "number with too many digits");
        digits[n++] = c;
    }
    digits[n] = 0;
    if (!n)
        lex_fail(l, "expected digits after the number's prefix");
    t->type = real ? JJ_T_FLOAT : JJ_T_INT;
    if (real) {
        t->f = strtod(digits, NULL);
    } else {
        errno = 0;
        t->i = strtoll(digits, NULL, base);
        if (errno)
            lex_fail(l, "integer outside 64 bits");
    }
    move_to(l, pos);
}

static unsigned hex_value(jj_lexer *l, size_t pos, size_t n, size_t end) {
    unsigned v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = pos + i < end ? l->src[pos + i] : 0;
        int d = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
        if (d < 0)
            lex_fail(l, "string with a cut \\x, \\u or \\U escape");
        v = v * 16 + (unsigned)d;
    }
    return v;
}

// Decodes the escapes of src[begin..end) as Python does.
static void string_text(jj_lexer *l, jj_token *t, size_t begin, size_t end) {
    char *out = ch_jj_alloc(l->x, 2 * (end - begin) + 1, 1);
    size_t n = 0;
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    for (size_t i = begin; i < end; i++) {
        char c = l->src[i];
        if (c != '\\' || i + 1 >= end) {
            out[n++] = c;
            continue;
        }
        c = l->src[++i];
        const char *simple = c ? strchr(from, c) : NULL;
        uint32_t cp = 0;
        if (simple) {
            out[n++] = to[simple - from];
            continue;
        } else if (c == '\n') {
            continue;
        } else if (c == 'x' || c == 'u' || c == 'U') {
            size_t k = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            cp = hex_value(l, i + 1, k, end);
            i += k;
        } else if (c >= '0' && c <= '7') {
            size_t k = 0;
            for (; k < 3 && i + k < end && l->src[i + k] >= '0' && l->src[i + k] <= '7'; k++)
                cp = cp * 8 + (uint32_t)(l->src[i + k] - '0');
            i += k - 1;
        } else if (c == 'N') {
            lex_fail(l, "string with a \\N{name} escape, which is not supported");
        } else {
            out[n++] = '\\';
            i--;
            continue;
        }
        char u[4];
        size_t k = ch_utf8_encode(cp, u);
        if (!k)
            lex_fail(l, "string escape that names no character (a surrogate or above U+10FFFF)");
        memcpy(out + n, u, k);
        n += k;
    }
    t->p = out;
    t->n = n;
}

static bool name_char(const jj_lexer *l, size_t pos, size_t *len) {
    unsigned char c = (unsigned char)l->src[pos];
    *len = 1;
    if (c < 0x80)
        return (c | 0x20) >= 'a' ? (c | 0x20) <= 'z' || c == '_' : (c >= '0' && c <= '9') || c == '_';
    uint32_t cp;
    *len = ch_utf8_decode(l->src + pos, l->n - pos, &cp);
    return cp >= 0xaa && !ch_jj_is_space(cp);
}

static void operator_token(jj_lexer *l, jj_token *t) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    t->type = JJ_T_OP;
    t->p = l->src + l->pos;
    t->n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (at(l, l->pos, two[i]))
            t->n = 2;
    char c = *t->p;
    if (t->n == 1 && !strchr("+-/*%~[](){}><=.:|,;", c ? c : 'x')) {
        char msg[64];
        snprintf(msg, sizeof msg, "unexpected character 0x%02x", (unsigned char)c);
        if (c >= 0x20 && c < 0x7f)
            snprintf(msg, sizeof msg, "unexpected character '%c'", c);
        lex_fail(l, msg);
    }
    if (c == '(' || c == '[' || c == '{') {
        if (l->n_open == sizeof l->open)
            ch_jj_fail(l->x, CH_ELIMIT, "template line %d: brackets nested deeper than %d", l->line, JJ_MAX_NEST);
        l->open[l->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        char want = l->n_open ? l->open[--l->n_open] : 0;
        char msg[64];
        snprintf(msg, sizeof msg, "unexpected '%c'", c);
        if (want)
            snprintf(msg, sizeof msg, "expected '%c', found '%c'", want, c);
        if (c != want)
            lex_fail(l, msg);
    }
    l->pos += t->n;
}

// Tag ends count only outside brackets, so that "}}" may close two dicts.
static bool tag_end(jj_lexer *l, jj_token *t) {
    if (l->n_open)
        return false;
    size_t end = 0;
    if (l->state == IN_BLOCK)
        end = block_end(l, l->pos);
    else if (at(l, l->pos, "-}}"))
        end = skip_space(l, l->pos + 3);
    else if (at(l, l->pos, "}}"))
        end = l->pos + 2;
    if (!end)
        return false;
    t->type = l->state == IN_BLOCK ? JJ_T_BLOCK_END : JJ_T_VAR_END;
    l->state = IN_TEXT;
    move_to(l, end);
    return true;
}

static void tag_token(jj_lexer *l, jj_token *t) {
    size_t start = l->pos, k;
    if (tag_end(l, t))
        return;
    move_to(l, skip_space(l, l->pos));
    t->line = l->line;
    if (tag_end(l, t))
        return;
    start = l->pos;
    if (start >= l->n) {
        t->type = JJ_T_EOF;
        return;
    }
    char c = l->src[start];
    if (c >= '0' && c <= '9') {
        number_token(l, t);
    } else if (name_char(l, start, &k)) {
        size_t pos = start;
        while (pos < l->n && name_char(l, pos, &k))
            pos += k;
        t->type = JJ_T_NAME;
        t->p = l->src + start;
        t->n = pos - start;
        l->pos = pos;
    } else if (c == '\'' || c == '"') {
        size_t pos = start + 1;
        while (pos < l->n && l->src[pos] != c)
            pos += l->src[pos] == '\\' ? 2 : 1;
        if (pos >= l->n)
            lex_fail(l, "string without its closing quote");
        t->type = JJ_T_STRING;
        string_text(l, t, start + 1, pos);
        move_to(l, pos + 1);
    } else {
        operator_token(l, t);
    }
}

void ch_jj_lex_next(jj_lexer *l, jj_token *t) {
    memset(t, 0, sizeof *t);
    t->line = l->line;
    while (l->state == IN_TEXT) {
        if (l->pos >= l->n)
            return; // JJ_T_EOF
        if (next_text(l, t))
            return;
    }
    if (l->at_begin) { // at "{{" or "{%"
        l->at_begin = false;
        t->type = l->state == IN_VAR ? JJ_T_VAR_BEGIN : JJ_T_BLOCK_BEGIN;
        t->line = l->line;
        l->pos += 2;
        if (at(l, l->pos, "-") || at(l, l->pos, "+"))
            l->pos++;
        return;
    }
    tag_token(l, t);
}
