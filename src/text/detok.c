// Token ids to text. Bytes of an unfinished character are held back until the next token completes it.
#include <string.h>

#include "text/vocab.h"

void ch_detok_init(ch_detok *d, const ch_vocab *v, bool special) { *d = (ch_detok){.v = v, .special = special, .start = true}; }

// What token id prints at this place of the text: SentencePiece put a space before the first word.
static size_t next_piece(ch_detok *d, int32_t id, const char **p) {
    size_t n = ch_vocab_piece(d->v, id, d->special, p);
    int type = ch_vocab_type(d->v, id);
    if (!d->start || type == CH_TOKEN_CONTROL || type == 0) return n;
    d->start = false;
    if (d->v->spm && d->v->add_space_prefix && type == CH_TOKEN_NORMAL && n && **p == ' ') {
        ++*p;
        n--;
    }
    return n;
}

// Whether s[0..n), n < 4, can still become a character by adding bytes.
static bool is_unfinished(const char *s, size_t n) {
    uint8_t a = (uint8_t)s[0], b = n > 1 ? (uint8_t)s[1] : 0x80;
    size_t need = a >= 0xF0 && a <= 0xF4 ? 4 : a >= 0xE0 && a <= 0xEF ? 3 : a >= 0xC2 && a <= 0xDF ? 2 : 1;
    if (n >= need) return false;
    for (size_t i = 1; i < n; i++)
        if (((uint8_t)s[i] & 0xC0) != 0x80) return false;
    if (n < 2) return true;
    return !(a == 0xE0 && b < 0xA0) && !(a == 0xED && b > 0x9F) && !(a == 0xF0 && b < 0x90) && !(a == 0xF4 && b > 0x8F);
}

// Moves what is decided from s[0..n) to out; returns the count of undecided bytes at its end (0..3).
static size_t emit_decided(const char *s, size_t n, ch_buf *out) {
    size_t from = 0, p = 0;
    while (p < n) {
        uint32_t cp;
        size_t len = ch_utf8_decode(s + p, n - p, &cp);
        if (cp > 0x10FFFF) {
            ch_buf_append(out, s + from, p - from);
            if (n - p < 4 && is_unfinished(s + p, n - p)) return n - p;
            ch_buf_append(out, "\xEF\xBF\xBD", 3);
            from = p + 1;
        }
        p += len;
    }
    ch_buf_append(out, s + from, n - from);
    return 0;
}

bool ch_detok_push(ch_detok *d, int32_t id, ch_buf *out) {
    const char *p;
    size_t n = next_piece(d, id, &p);
    // The held bytes and the first of the new ones, until nothing old is undecided.
    while (d->n_held > 0 && n > 0) {
        d->held[d->n_held++] = *p++;
        n--;
        size_t left = emit_decided(d->held, (size_t)d->n_held, out);
        memmove(d->held, d->held + d->n_held - left, left);
        d->n_held = (int)left;
    }
    if (n > 0) {
        size_t left = emit_decided(p, n, out);
        memcpy(d->held, p + n - left, left);
        d->n_held = (int)left;
    }
    return !out->failed;
}

bool ch_detok_finish(ch_detok *d, ch_buf *out) {
    for (int i = 0; i < d->n_held; i++) ch_buf_append(out, "\xEF\xBF\xBD", 3);
    d->n_held = 0;
    return !out->failed;
}

int ch_detokenize(const ch_vocab *v, const int32_t *id, size_t n, bool special, ch_buf *out) {
    ch_detok d;
    ch_detok_init(&d, v, special);
    for (size_t i = 0; i < n; i++) {
        const char *p;
        size_t len = next_piece(&d, id[i], &p);
        if (!ch_buf_append(out, p, len)) return out->limit && out->len + len > out->limit ? CH_ELIMIT : CH_ENOMEM;
    }
    return 0;
}
