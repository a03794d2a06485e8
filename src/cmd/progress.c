// Progress of long work on stderr: a bar on a terminal, plain lines elsewhere, nothing for work that is over at once.
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

enum { BAR_WIDTH = 30 };
static const uint64_t SHOW_AFTER_NS = 300000000, BAR_EVERY_NS = 100000000, LINE_EVERY_NS = 10000000000;

static void draw_bar(ch_cmd_progress *p, double part, double seconds) {
    char bar[BAR_WIDTH + 1];
    int full = (int)(part * BAR_WIDTH);
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)full);
    bar[BAR_WIDTH] = 0;
    fprintf(stderr, "\r%-24.24s [%s] %3.0f %%", p->what, bar, part * 100);
    if (part > 0.02 && seconds > 1)
        fprintf(stderr, "  %.0f s left  ", seconds * (1 - part) / part);
    fputs("\033[K", stderr);
    fflush(stderr);
    p->drawn = true;
}

bool ch_cmd_show_progress(void *user, const char *what, uint64_t done, uint64_t total) {
    ch_cmd_progress *p = user;
    if (p->quiet || total == 0)
        return true;
    uint64_t now = ch_clock_ns();
    if (!p->started || strncmp(p->what, what, sizeof p->what - 1) != 0) {
        ch_cmd_end_progress(p);
        snprintf(p->what, sizeof p->what, "%s", what);
        p->started = true;
        p->t_start = p->t_last = now;
        p->quarter = 0;
    }
    double part = done >= total ? 1 : (double)done / (double)total;
    if (now - p->t_start < SHOW_AFTER_NS)
        return true;
    if (isatty(STDERR_FILENO)) {
        if (!p->drawn || now - p->t_last >= BAR_EVERY_NS || part >= 1) {
            draw_bar(p, part, (double)(now - p->t_start) * 1e-9);
            p->t_last = now;
        }
    } else {
        int quarter = (int)(part * 4);
        if (quarter > p->quarter || now - p->t_last >= LINE_EVERY_NS) {
            fprintf(stderr, "%s: %.0f %%\n", p->what, part * 100);
            p->quarter = quarter;
            p->t_last = now;
        }
    }
    if (part >= 1)
        ch_cmd_end_progress(p);
    return true;
}

void ch_cmd_end_progress(ch_cmd_progress *p) {
    if (p->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->drawn = false;
}
