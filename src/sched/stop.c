// Stop strings on the byte stream: Knuth-Morris-Pratt for each string side by side. The first byte at which any string is
// complete decides (the longest of those complete there), so the result does not depend on how the text was cut.
#include <string.h>

#include "sched/engine.h"

int ch_sched_open_stop(ch_stop *s, const char *const *text, size_t n, ch_error *e) {
    *s = (ch_stop){.found = -1};
    if (n > CHIMERE_STOP_MAX)
        return ch_error_set(e, CH_ELIMIT, "stop: expected at most %d strings, found %zu", CHIMERE_STOP_MAX, n);
    for (size_t i = 0; i < n; i++) {
        size_t len = text[i] ? strlen(text[i]) : 0;
        int rc = CH_OK;
        if (len < 1 || len > CHIMERE_STOP_BYTES_MAX)
            rc = ch_error_set(e, len ? CH_ELIMIT : CH_ERANGE, "stop: expected strings of 1 to %d bytes, found %zu",
                              CHIMERE_STOP_BYTES_MAX, len);
        else if (!ch_utf8_valid(text[i], len))
            rc = ch_error_set(e, CH_EFORMAT, "stop: string %zu is not valid UTF-8", i);
        if (rc) {
            ch_sched_close_stop(s);
            return rc;
        }
        s->n = i + 1;
        s->len[i] = len;
        s->text[i] = ch_strndup(text[i], len);
        s->fall[i] = ch_alloc_array(len, sizeof *s->fall[i]);
        if (!s->text[i] || !s->fall[i]) {
            ch_sched_close_stop(s);
            return ch_error_set(e, CH_ENOMEM, "stop: no memory for %zu bytes", len);
        }
        uint16_t k = 0;
        for (size_t j = 1; j < len; j++) {
            while (k && text[i][j] != text[i][k])
                k = s->fall[i][k - 1];
            k = (uint16_t)(k + (text[i][j] == text[i][k]));
            s->fall[i][j] = k;
        }
    }
    return CH_OK;
}

void ch_sched_close_stop(ch_stop *s) {
    for (size_t i = 0; i < s->n; i++) {
        ch_free(s->text[i]);
        ch_free(s->fall[i]);
    }
    *s = (ch_stop){.found = -1};
}

// Advances every string by one byte; returns the longest prefix of a stop string that now ends the text.
static size_t advance(ch_stop *s, char c) {
    size_t longest = 0, found_len = 0;
    for (size_t i = 0; i < s->n; i++) {
        size_t k = s->at[i];
        while (k && (k == s->len[i] || s->text[i][k] != c))
            k = s->fall[i][k - 1];
        k += s->text[i][k] == c;
        s->at[i] = k;
        longest = k > longest ? k : longest;
        if (k == s->len[i] && k > found_len) {
            found_len = k;
            s->found = (int32_t)i;
        }
    }
    return s->found >= 0 ? found_len : longest;
}

bool ch_sched_push_stop(ch_stop *s, const char *text, size_t n, ch_buf *out) {
    if (!s->n)
        return ch_buf_append(out, text, n);
    for (size_t i = 0; i < n && s->found < 0; i++) {
        size_t keep = advance(s, text[i]); // of held and this byte
        size_t give = s->n_held + 1 - keep;
        if (give > s->n_held) { // everything held is free, and this byte too
            if (!ch_buf_append(out, s->held, s->n_held) || !ch_buf_append(out, &text[i], 1))
                return false;
            s->n_held = 0;
            continue;
        }
        if (give && !ch_buf_append(out, s->held, give))
            return false;
        memmove(s->held, s->held + give, s->n_held - give);
        s->n_held -= give;
        if (s->found < 0) // a complete string is never held: it is dropped
            s->held[s->n_held++] = text[i];
    }
    if (s->found >= 0)
        s->n_held = 0;
    return true;
}

bool ch_sched_finish_stop(ch_stop *s, ch_buf *out) {
    size_t n = s->n_held;
    s->n_held = 0;
    return s->found >= 0 || !n || ch_buf_append(out, s->held, n);
}
