// Line input. While a line is edited Ctrl-C is a key like any other (the terminal sends no signal), so that it drops the
// line and never the program.
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/line.h"

enum { HISTORY_LINES = 1000, MAX_LINE = 16 << 20 };

struct ch_cmd_line {
    EditLine *el; // NULL: not a terminal
    History *history;
    char *history_path;
    const char *prompt;
    bool dropped;
};

static char *show_prompt(EditLine *el) {
    ch_cmd_line *l = NULL;
    el_get(el, EL_CLIENTDATA, &l);
    return (char *)(uintptr_t)(l ? l->prompt : "");
}

static unsigned char drop_line(EditLine *el, int key) {
    ch_cmd_line *l = NULL;
    (void)key;
    el_get(el, EL_CLIENTDATA, &l);
    if (l)
        l->dropped = true;
    fputs("^C\n", stdout);
    return CC_NEWLINE;
}

static char *find_history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    ch_buf b = {0};
    if (state && state[0] == '/')
        ch_buf_printf(&b, "%s", state);
    else if (home && home[0])
        ch_buf_printf(&b, "%s/.local/state", home);
    else
        return NULL;
    // Parents are made as far as needed; an unwritable place only means that no history is kept.
    for (char *p = b.data ? strchr(b.data + 1, '/') : NULL; p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(b.data, 0700);
        *p = '/';
    }
    if (b.data)
        mkdir(b.data, 0700);
    ch_buf_puts(&b, "/chimere");
    if (b.data && !b.failed)
        mkdir(b.data, 0700);
    ch_buf_puts(&b, "/chat_history");
    char *path = b.failed ? NULL : ch_strndup(b.data, b.len);
    ch_buf_free(&b);
    return path;
}

ch_cmd_line *ch_cmd_line_open(void) {
    ch_cmd_line *l = ch_alloc(sizeof *l);
    if (!l || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return l;
    setlocale(LC_CTYPE, "");
    l->prompt = "";
    l->el = el_init("chimere", stdin, stdout, stderr);
    if (!l->el)
        return l;
    HistEvent ev;
    l->history = history_init();
    history(l->history, &ev, H_SETSIZE, HISTORY_LINES);
    l->history_path = find_history_path();
    if (l->history_path)
        history(l->history, &ev, H_LOAD, l->history_path);
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT, show_prompt);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_HIST, history, l->history);
    el_set(l->el, EL_SETTY, "-d", "-isig", NULL);
    el_set(l->el, EL_ADDFN, "chimere-drop-line", "Drop the line", drop_line);
    el_set(l->el, EL_BIND, "^C", "chimere-drop-line", NULL);
    el_set(l->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    return l;
}

void ch_cmd_line_close(ch_cmd_line **p) {
    ch_cmd_line *l = *p;
    if (!l)
        return;
    if (l->history) {
        HistEvent ev;
        if (l->history_path) {
            history(l->history, &ev, H_SAVE, l->history_path);
            chmod(l->history_path, 0600);
        }
        history_end(l->history);
    }
    if (l->el)
        el_end(l->el);
    ch_free(l->history_path);
    ch_free(l);
    *p = NULL;
}

bool ch_cmd_line_is_terminal(const ch_cmd_line *l) {
    return l->el != NULL;
}

// One physical line; 1, 0 at the end, 2 dropped.
static int read_physical(ch_cmd_line *l, const char *prompt, ch_buf *out) {
    if (l->el) {
        int n = 0;
        l->prompt = prompt;
        l->dropped = false;
        const char *s = el_gets(l->el, &n);
        if (l->dropped)
            return 2;
        if (!s || n <= 0)
            return 0;
        return ch_buf_append(out, s, (size_t)n) ? 1 : 0;
    }
    for (int c = getchar(); ; c = getchar()) {
        char byte = (char)c;
        if (c == EOF)
            return out->len > 0;
        if (!ch_buf_append(out, &byte, 1) || byte == '\n')
            return !out->failed;
    }
}

int ch_cmd_line_read(ch_cmd_line *l, const char *prompt, ch_buf *out) {
    ch_buf part = {.limit = MAX_LINE};
    ch_buf_reset(out);
    int rc = 1;
    for (bool more = true; more && rc == 1;) {
        ch_buf_reset(&part);
        rc = read_physical(l, out->len ? "... " : prompt, &part);
        while (part.len && (part.data[part.len - 1] == '\n' || part.data[part.len - 1] == '\r'))
            part.len--;
        more = part.len && part.data[part.len - 1] == '\\';
        if (rc == 1)
            ch_buf_append(out, part.data ? part.data : "", part.len - more);
        if (more)
            ch_buf_append(out, "\n", 1);
    }
    ch_buf_free(&part);
    if (rc == 1 && l->history && out->len) {
        HistEvent ev;
        history(l->history, &ev, H_ENTER, out->data);
    }
    return rc == 0 && out->len ? 1 : rc;
}
