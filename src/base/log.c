// The log sink: the one process-wide setting of the library.
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static ch_log_fn log_fn;
static void *log_user;

void ch_log_set_sink(ch_log_fn fn, void *user) {
    log_fn = fn;
    log_user = user;
}

void ch_log(int level, const char *fmt, ...) {
    if (!log_fn) return;
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    if ((size_t)n >= sizeof line) memcpy(line + sizeof line - 4, "...", 4);
    log_fn(log_user, level, line);
}
