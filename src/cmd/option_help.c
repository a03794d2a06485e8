// What the user reads about options: help pages, "did you mean", failures; and where the default model is.
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/option.h"

// Edit distance (insert, delete, replace, swap of neighbours counted as two), for names of at most 47 bytes.
static int edit_distance(const char *a, const char *b) {
    enum { MAX = 48 };
    int row[MAX];
    size_t na = strlen(a), nb = strlen(b);
    if (na >= MAX || nb >= MAX)
        return MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diag = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int keep = diag + (a[i - 1] != b[j - 1]);
            int best = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diag = row[j];
            row[j] = keep < best ? keep : best;
        }
    }
    return row[nb];
}

const char *ch_cmd_suggest(const char *typed, const char *const *names, int n) {
    const char *best = NULL;
    int best_d = (int)strlen(typed) / 3 + 2;
    for (int i = 0; i < n; i++) {
        int d = edit_distance(typed, names[i]);
        // The beginning of a longer name ("top" for "top-k") is near too.
        if (strlen(typed) >= 3 && strncmp(typed, names[i], strlen(typed)) == 0 && d > 1)
            d = 1;
        if (d < best_d) {
            best_d = d;
            best = names[i];
        }
    }
    return best;
}

static int vfail(const char *cmd, int code, const char *fmt, va_list ap) {
    fprintf(stderr, "chimere%s%s: ", cmd ? " " : "", cmd ? cmd : "");
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    return code;
}

int ch_cmd_fail(const char *cmd, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vfail(cmd, code, fmt, ap);
    va_end(ap);
    return code;
}

int ch_cmd_fail_error(const char *cmd, const ch_error *e) {
    return ch_cmd_fail(cmd, CH_EXIT_FAILED, "%s", e->msg[0] ? e->msg : ch_error_name(e->code));
}

static void print_option(const ch_opt_row *r, FILE *to) {
    char flag[64];
    int n = r->letter ? snprintf(flag, sizeof flag, "  -%c, --%s", r->letter, r->name)
                      : snprintf(flag, sizeof flag, "      --%s", r->name);
    if (r->arg && n > 0 && (size_t)n < sizeof flag)
        snprintf(flag + n, sizeof flag - (size_t)n, " %s", r->arg);
    fprintf(to, "%-30s %s", flag, r->help);
    if (r->def && r->type != CH_OPT_TYPE_BOOL)
        fprintf(to, " [%s]", r->def);
    if (r->type == CH_OPT_TYPE_INT || r->type == CH_OPT_TYPE_NUM)
        fprintf(to, " (%g to %.8g)", r->min, r->max);
    fputc('\n', to);
}

void ch_cmd_print_help(const ch_cmd_spec *spec, FILE *to) {
    int id[CH_OPT_COUNT + 4];
    int n = ch_opt_list_ids(spec, id);
    bool setting = false;
    fprintf(to, "chimere %s %s\n\n%s\n\nOptions:\n", spec->name, spec->usage, spec->about);
    for (int i = 0; i < n; i++) {
        print_option(ch_opt_get_row(id[i]), to);
        setting = setting || ch_opt_get_row(id[i])->scope == CH_OPT_SETTING;
    }
    if (setting) {
        fprintf(to, "\nThese may also be set by variable (--top-k: CHIMERE_TOP_K) or in a --config file (top-k = 20):\n ");
        int col = 1;
        for (int i = 0; i < n; i++) {
            const ch_opt_row *r = ch_opt_get_row(id[i]);
            if (r->scope != CH_OPT_SETTING)
                continue;
            if (col + (int)strlen(r->name) > 98) {
                fprintf(to, "\n ");
                col = 1;
            }
            col += fprintf(to, " %s", r->name);
        }
        fputc('\n', to);
    }
    if (spec->examples)
        fprintf(to, "\nExamples:\n%s\n", spec->examples);
}

const char *ch_cmd_model_path(const ch_cmd_options *o, bool *shipped) {
    static const char *const places[] = {"models", "../models", "../../models", "../share/chimere/models"};
    static const char name[] = "chimere-mini.gguf";
    const char *given = ch_opt_text(o, CH_OPT_MODEL);
    if (shipped) *shipped = !given;
    if (given) return given;
    char exe[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) exe[n] = 0;
    const char *slash = n > 0 ? strrchr(exe, '/') : NULL;
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        const size_t size = (size_t)(slash - exe) + strlen(places[i]) + sizeof name + 2;
        char *path = ch_arena_alloc(o->arena, size);
        if (!path) break;
        snprintf(path, size, "%.*s/%s/%s", (int)(slash - exe), exe, places[i], name);
        if (access(path, R_OK) == 0) return path;
    }
    ch_cmd_fail(o->spec->name, CH_EXIT_FAILED,
                "no model: give one with -m FILE.gguf or CHIMERE_MODEL (the shipped one, models/%s, is not beside the program)", name);
    return NULL;
}
