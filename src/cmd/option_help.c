// What the user reads about options: help pages, "did you mean", failures; and where the default model is.
#include <dirent.h>
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

static const char RANDOM_MODEL[] = "random-weights.gguf"; // what `make run` writes

// First *.gguf of dir in byte order, so that the choice does not depend on the file system; random weights come last.
static char *first_gguf(const ch_cmd_options *o, const char *dir) {
    char best[256] = "";
    DIR *d = opendir(dir);
    if (!d)
        return NULL;
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        size_t n = strlen(e->d_name);
        bool file = n > 5 && n < sizeof best && strcmp(e->d_name + n - 5, ".gguf") == 0;
        bool better = !best[0] || strcmp(best, RANDOM_MODEL) == 0 || strcmp(e->d_name, best) < 0;
        if (file && better && (!best[0] || strcmp(e->d_name, RANDOM_MODEL) != 0))
            memcpy(best, e->d_name, n + 1);
    }
    closedir(d);
    if (!best[0])
        return NULL;
    size_t size = strlen(dir) + strlen(best) + 2;
    char *path = ch_arena_alloc(o->arena, size);
    if (path)
        snprintf(path, size, "%s/%s", dir, best);
    return path;
}

const char *ch_cmd_model_path(const ch_cmd_options *o, bool *shipped) {
    static const char *const places[] = {"models", "../models", "../../models", "../share/chimere/models"};
    if (shipped)
        *shipped = false;
    if (ch_opt_text(o, CH_OPT_MODEL))
        return ch_opt_text(o, CH_OPT_MODEL);
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash = NULL;
    if (n > 0) {
        exe[n] = 0;
        slash = strrchr(exe, '/');
    }
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        char dir[PATH_MAX + 32];
        snprintf(dir, sizeof dir, "%.*s/%s", (int)(slash - exe), exe, places[i]);
        char *path = first_gguf(o, dir);
        if (path) {
            if (shipped)
                *shipped = true;
            size_t len = strlen(path), random = sizeof RANDOM_MODEL - 1;
            if (len >= random && strcmp(path + len - random, RANDOM_MODEL) == 0)
                ch_log(CH_LOG_WARN, "%s has random weights: what it says is noise; give a model with -m FILE", path);
            return path;
        }
    }
    ch_cmd_fail(o->spec->name, CH_EXIT_FAILED,
                "no model: give one with -m FILE.gguf or CHIMERE_MODEL (no models/*.gguf beside the program; "
                "`make run` makes one with random weights)");
    return NULL;
}
