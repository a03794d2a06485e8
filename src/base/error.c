// Error values, their text, and the broken-invariant handler.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

// Marks a text that did not fit: it ends in "...", and not inside a UTF-8 character.
static void mark_cut(char *msg, size_t cap) {
    size_t at = cap - 4;
    while (at > 0 && ((unsigned char)msg[at] & 0xc0) == 0x80) at--;
    memcpy(msg + at, "...", 4);
}

static void format_msg(char *msg, size_t cap, const char *fmt, va_list ap) {
    int n = vsnprintf(msg, cap, fmt, ap);
    if (n < 0) msg[0] = 0;
    else if ((size_t)n >= cap) mark_cut(msg, cap);
}

int ch_error_set(ch_error *e, int code, const char *fmt, ...) {
    if (!e) return code;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    format_msg(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    return code;
}

int ch_error_prefix(ch_error *e, const char *fmt, ...) {
    if (!e) return CH_EINTERNAL;
    char old[sizeof e->msg];
    memcpy(old, e->msg, sizeof old);
    old[sizeof old - 1] = 0;
    va_list ap;
    va_start(ap, fmt);
    format_msg(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    size_t at = strlen(e->msg), room = sizeof e->msg - at;
    int n = snprintf(e->msg + at, room, ": %s", old);
    if (n < 0 || (size_t)n >= room) mark_cut(e->msg, sizeof e->msg);
    return e->code;
}

const char *ch_error_name(int code) {
    switch (code) {
    case CH_OK: return "ok";
    case CH_ENOMEM: return "no memory";
    case CH_EIO: return "input/output";
    case CH_EFORMAT: return "format";
    case CH_EUNSUPPORTED: return "unsupported";
    case CH_ERANGE: return "range";
    case CH_ELIMIT: return "limit";
    case CH_EBUSY: return "busy";
    case CH_ECANCELLED: return "cancelled";
    case CH_ESTATE: return "state";
    case CH_EINTERNAL: return "internal";
    default: return "unknown";
    }
}

void ch_assert_fail(const char *expr, const char *file, int line) {
    ch_log(CH_LOG_ERROR, "%s:%d: broken invariant: %s", file, line, expr);
    abort();
}
