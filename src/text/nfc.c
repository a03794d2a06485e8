// Unicode normalisation form C of a text, for tokenizers whose makers apply it first. Only stretches that may change are
// looked at closely: from the ASCII character before a suspicious one to the next ASCII character, since nothing composes
// across the beginning of an ASCII character.
#include <string.h>

#include <utf8proc.h>

#include "text/vocab.h"

enum { MAX_MARK_RUN = 128 };

// Whether cp may be changed or may change its neighbour.
static bool is_suspicious(uint32_t cp) {
    const utf8proc_property_t *q = utf8proc_get_property((utf8proc_int32_t)cp);
    bool mark = q->category == UTF8PROC_CATEGORY_MN || q->category == UTF8PROC_CATEGORY_MC;
    bool splits = q->decomp_type == 0 && q->decomp_seqindex != UINT16_MAX;
    return mark || splits || q->combining_class || (cp >= 0x1100 && cp < 0x1200); // and conjoining Hangul
}

// Putting marks in order costs quadratic time in a row of them, so stretches with absurdly long rows are left as they are.
static bool has_long_mark_run(const char *p, size_t n) {
    size_t run = 0;
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = ch_utf8_decode(p + i, n - i, &cp);
        run = cp <= 0x10FFFF && utf8proc_get_property((utf8proc_int32_t)cp)->combining_class ? run + 1 : 0;
        if (run > MAX_MARK_RUN) return true;
    }
    return false;
}

typedef struct nfc_work {
    utf8proc_int32_t *cp; // [cap]
    size_t cap;
} nfc_work;

// The form of p[0..n) into w->cp, as bytes. Returns its length, 0 when it is to stay as it is, negative: error.
static utf8proc_ssize_t normalise(nfc_work *w, const char *p, size_t n) {
    const utf8proc_option_t how = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    utf8proc_ssize_t count = utf8proc_decompose((const uint8_t *)p, (utf8proc_ssize_t)n, NULL, 0, how);
    if (count <= 0) return 0;
    if ((size_t)count + 1 > w->cap) { // one more for the NUL of reencode
        size_t cap = 2 * (size_t)count + 64;
        utf8proc_int32_t *grown = ch_realloc(w->cp, cap * sizeof *grown);
        if (!grown) return CH_ENOMEM;
        w->cp = grown;
        w->cap = cap;
    }
    count = utf8proc_decompose((const uint8_t *)p, (utf8proc_ssize_t)n, w->cp, count, how);
    if (count <= 0) return 0;
    utf8proc_ssize_t bytes = utf8proc_reencode(w->cp, count, how);
    bool same = bytes == (utf8proc_ssize_t)n && memcmp(w->cp, p, n) == 0;
    return bytes < 0 || same ? 0 : bytes;
}

int ch_text_nfc(const char *p, size_t n, ch_buf *out) {
    nfc_work w = {0};
    size_t start = 0, copied = 0, i = 0;
    int rc = 0;
    while (i < n && rc >= 0) {
        uint8_t b = (uint8_t)p[i];
        if (b < 0xCC) { // below U+0300 nothing changes
            if (b < 0x80) start = i;
            i++;
            continue;
        }
        uint32_t cp;
        size_t len = ch_utf8_decode(p + i, n - i, &cp);
        if (cp > 0x10FFFF || !is_suspicious(cp)) {
            i += len;
            continue;
        }
        size_t end = i + len;
        while (end < n && (uint8_t)p[end] >= 0x80) end++;
        bool sane = ch_utf8_valid(p + start, end - start) && !has_long_mark_run(p + start, end - start);
        utf8proc_ssize_t bytes = sane ? normalise(&w, p + start, end - start) : 0;
        if (bytes < 0) rc = CH_ENOMEM;
        else if (bytes > 0) {
            bool ok = ch_buf_append(out, p + copied, start - copied) && ch_buf_append(out, w.cp, (size_t)bytes);
            rc = ok ? 1 : CH_ENOMEM;
            copied = end;
        }
        start = i = end;
    }
    if (rc > 0 && !ch_buf_append(out, p + copied, n - copied)) rc = CH_ENOMEM;
    ch_free(w.cp);
    return rc;
}
