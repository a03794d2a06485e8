// Reading JSON that strangers sent: depth and number of values are bounded before any of it is built, since a value costs
// up to 300 bytes of memory for 3 bytes of text.
#include <string.h>

#include "serve/server.h"

// Deepest nesting and number of values (an upper bound: brackets, commas and colons) outside strings. Malformed text is
// left to the parser.
static void measure(const char *s, size_t n, size_t *depth, size_t *values) {
    size_t level = 0, deepest = 0, count = 1;
    for (size_t i = 0; i < n; i++) {
        switch (s[i]) {
        case '"':
            for (i++; i < n && s[i] != '"'; i++)
                if (s[i] == '\\')
                    i++;
            break;
        case '[': case '{':
            count++;
            if (++level > deepest)
                deepest = level;
            break;
        case ']': case '}':
            if (level > 0)
                level--;
            break;
        case ',': case ':': count++; break;
        default: break;
        }
    }
    *depth = deepest;
    *values = count;
}

json_t *ch_serve_read_json(const char *text, size_t n, const char *what, const char *param, ch_serve_fault *f) {
    size_t depth, values;
    measure(text, n, &depth, &values);
    if (depth > CH_SERVE_JSON_DEPTH) {
        ch_serve_refuse(f, 400, "invalid_json", param, "the %s is nested %zu levels deep; at most %d are allowed", what, depth,
                        CH_SERVE_JSON_DEPTH);
        return NULL;
    }
    if (values > CH_SERVE_JSON_VALUES) {
        ch_serve_refuse(f, 400, "invalid_json", param, "the %s has more than %d values", what, CH_SERVE_JSON_VALUES);
        return NULL;
    }
    json_error_t e;
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
    if (!v && json_error_code(&e) == json_error_numeric_overflow) // 2^63 and more: as a real number, judged by its field
        v = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &e);
    if (!v)
        ch_serve_refuse(f, 400, "invalid_json", param, "the %s is not valid JSON (line %d, column %d): %s", what, e.line,
                        e.column, n == 0 ? "it is empty" : e.text);
    return v;
}
