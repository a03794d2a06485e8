// The one table of options and its reader: flags, then CHIMERE_* variables, then the config file, each checked against the
// row's type and range. The first wrong value ends the parse with a message that names the source and the range.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/option.h"

extern char **environ;

static const ch_opt_row rows[CH_OPT_COUNT] = {
#define CH_OPTION(id, name, letter, type, scope, min, max, def, arg, help) \
    [CH_OPT_##id] = {name, letter, CH_OPT_TYPE_##type, CH_OPT_##scope, min, max, def, arg, help},
#include "cmd/option_list.h"
#undef CH_OPTION
};

static const int always[] = {CH_OPT_HELP, CH_OPT_CONFIG, CH_OPT_VERBOSE, CH_OPT_QUIET};
enum { N_ALWAYS = sizeof always / sizeof always[0], MAX_NAMES = CH_OPT_COUNT + N_ALWAYS };

const ch_opt_row *ch_opt_get_row(int id) {
    return &rows[id];
}

int ch_opt_list_ids(const ch_cmd_spec *spec, int *id) {
    int n = 0;
    for (int i = 0; i < spec->n_option; i++)
        id[n++] = spec->option[i];
    for (int i = 0; i < N_ALWAYS; i++)
        id[n++] = always[i];
    return n;
}

static int find_name(const ch_cmd_spec *spec, const char *name, size_t n) {
    int id[MAX_NAMES];
    int n_id = ch_opt_list_ids(spec, id);
    for (int i = 0; i < n_id; i++)
        if (strlen(rows[id[i]].name) == n && memcmp(rows[id[i]].name, name, n) == 0)
            return id[i];
    return -1;
}

static int find_letter(const ch_cmd_spec *spec, char c) {
    int id[MAX_NAMES];
    int n_id = ch_opt_list_ids(spec, id);
    for (int i = 0; i < n_id; i++)
        if (rows[id[i]].letter == c)
            return id[i];
    return -1;
}

// "--name" of the nearest option of this command, NULL when none is near.
static const char *near_name(const ch_cmd_spec *spec, const char *typed) {
    int id[MAX_NAMES];
    const char *name[MAX_NAMES];
    int n = ch_opt_list_ids(spec, id);
    for (int i = 0; i < n; i++)
        name[i] = rows[id[i]].name;
    return ch_cmd_suggest(typed, name, n);
}

// ---- values -------------------------------------------------------------------------------------------------------------
static bool read_int(const char *s, int64_t *out) {
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || errno == ERANGE || isspace((unsigned char)s[0]))
        return false;
    int shift = 0;
    switch (*end) {
    case 'k': case 'K': shift = 10; break;
    case 'm': case 'M': shift = 20; break;
    case 'g': case 'G': shift = 30; break;
    default: break;
    }
    if (shift) {
        end++;
        if (v > (INT64_MAX >> shift) || v < (INT64_MIN >> shift))
            return false;
        v *= (int64_t)1 << shift;
    }
    if (*end)
        return false;
    *out = v;
    return true;
}

static bool read_bool(const char *s, bool *out) {
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(s, yes[i]) == 0) {
            *out = true;
            return true;
        }
        if (strcmp(s, no[i]) == 0) {
            *out = false;
            return true;
        }
    }
    return false;
}

static bool is_choice(const char *choices, const char *s) {
    size_t n = strlen(s);
    for (const char *p = choices; n > 0;) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, s, n) == 0)
            return true;
        if (!p[len])
            break;
        p += len + 1;
    }
    return false;
}

// What a row accepts, for messages and help: "a whole number from 0 to 256".
void ch_opt_describe_range(const ch_opt_row *r, char *out, size_t size) {
    switch (r->type) {
    case CH_OPT_TYPE_BOOL: snprintf(out, size, "yes or no"); break;
    case CH_OPT_TYPE_INT: snprintf(out, size, "a whole number from %.0f to %.0f", r->min, r->max); break;
    case CH_OPT_TYPE_NUM: snprintf(out, size, "a number from %g to %g", r->min, r->max); break;
    case CH_OPT_TYPE_CHOICE: snprintf(out, size, "one of %s", r->arg); break;
    default: snprintf(out, size, "a text"); break;
    }
}

// Stores s into row id; source says where it came from ("--port", "CHIMERE_PORT", "file:12: port").
static bool set_value(ch_cmd_options *o, int id, const char *s, const char *source) {
    const ch_opt_row *r = &rows[id];
    bool ok = true;
    int64_t i = 0;
    double f = 0;
    bool b = false;
    char *end;
    switch (r->type) {
    case CH_OPT_TYPE_BOOL: ok = read_bool(s, &b); break;
    case CH_OPT_TYPE_INT:
        ok = read_int(s, &i) && (double)i >= r->min && (double)i <= r->max;
        f = (double)i;
        break;
    case CH_OPT_TYPE_NUM:
        f = strtod(s, &end);
        ok = end != s && !*end && isfinite(f) && f >= r->min && f <= r->max;
        break;
    case CH_OPT_TYPE_CHOICE: ok = is_choice(r->arg, s); break;
    default: break;
    }
    if (!ok) {
        char range[160];
        ch_opt_describe_range(r, range, sizeof range);
        ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "%s: expected %s, found \"%s\"", source, range, s);
        return false;
    }
    o->v[id].given = true;
    o->v[id].i = i;
    o->v[id].f = f;
    o->v[id].b = b;
    o->v[id].s = s;
    return true;
}

static bool add_text(ch_cmd_options *o, int id, const char *s) {
    if (rows[id].type != CH_OPT_TYPE_TEXT)
        return true;
    if (o->n_text == CH_OPT_MAX_TEXTS) {
        ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "too many options: at most %d", CH_OPT_MAX_TEXTS);
        return false;
    }
    o->text[o->n_text].id = id;
    o->text[o->n_text++].s = s;
    return true;
}

// ---- command line -------------------------------------------------------------------------------------------------------
static bool unknown_option(const ch_cmd_options *o, const char *typed, size_t n) {
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)(n < 64 ? n : 64), typed);
    const char *near = near_name(o->spec, name);
    ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "unknown option --%s%s%s%s", name, near ? " (did you mean --" : "",
                near ? near : "", near ? "?)" : "");
    return false;
}

static bool take_long(ch_cmd_options *o, const char *arg, char **argv, int *at) {
    const char *eq = strchr(arg, '=');
    size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
    char source[80];
    int id = find_name(o->spec, arg, n);
    if (id < 0 && !eq && n > 3 && strncmp(arg, "no-", 3) == 0) {
        id = find_name(o->spec, arg + 3, n - 3);
        if (id >= 0 && rows[id].type == CH_OPT_TYPE_BOOL)
            return set_value(o, id, "no", arg);
        id = -1;
    }
    if (id < 0)
        return unknown_option(o, arg, n);
    snprintf(source, sizeof source, "--%s", rows[id].name);
    const char *value = eq ? eq + 1 : NULL;
    if (!value && rows[id].type == CH_OPT_TYPE_BOOL)
        value = "yes";
    if (!value)
        value = argv[*at + 1] ? argv[++*at] : NULL;
    if (!value) {
        char range[160];
        ch_opt_describe_range(&rows[id], range, sizeof range);
        ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "%s needs a value: %s", source, range);
        return false;
    }
    return set_value(o, id, value, source) && add_text(o, id, value);
}

static bool take_short(ch_cmd_options *o, const char *arg, char **argv, int *at) {
    for (const char *p = arg; *p; p++) {
        int id = find_letter(o->spec, *p);
        char source[96];
        if (id < 0) {
            ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "unknown option -%c", *p);
            return false;
        }
        snprintf(source, sizeof source, "-%c (--%s)", *p, rows[id].name);
        if (rows[id].type == CH_OPT_TYPE_BOOL) {
            if (!set_value(o, id, "yes", source))
                return false;
            continue;
        }
        const char *value = p[1] ? p + 1 : argv[*at + 1] ? argv[++*at] : NULL;
        if (!value) {
            char range[160];
            ch_opt_describe_range(&rows[id], range, sizeof range);
            ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "%s needs a value: %s", source, range);
            return false;
        }
        return set_value(o, id, value, source) && add_text(o, id, value);
    }
    return true;
}

static bool parse_line(ch_cmd_options *o, int argc, char **argv) {
    bool only_args = false;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!only_args && strcmp(a, "--") == 0) {
            only_args = true;
        } else if (!only_args && a[0] == '-' && a[1] == '-') {
            if (!take_long(o, a + 2, argv, &i))
                return false;
        } else if (!only_args && a[0] == '-' && a[1]) {
            if (!take_short(o, a + 1, argv, &i))
                return false;
        } else {
            o->args[o->n_args++] = a;
        }
    }
    return true;
}

// ---- environment and config file ----------------------------------------------------------------------------------------
// "top-k" <-> CHIMERE_TOP_K: compares a variable's name (after CHIMERE_, n bytes) with a row's.
static bool is_variable(const char *var, size_t n, const char *name) {
    if (strlen(name) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
        if (c != var[i])
            return false;
    }
    return true;
}

// A setting of any command by its name; -1: none.
static int find_setting(const char *s, size_t n, bool variable) {
    for (int id = 0; id < CH_OPT_COUNT; id++)
        if (rows[id].scope == CH_OPT_SETTING &&
            (variable ? is_variable(s, n, rows[id].name) : strlen(rows[id].name) == n && memcmp(s, rows[id].name, n) == 0))
            return id;
    return -1;
}

static bool belongs(const ch_cmd_spec *spec, int id) {
    return find_name(spec, rows[id].name, strlen(rows[id].name)) == id;
}

static const char *near_setting(const char *typed, const char **name) {
    int n = 0;
    for (int id = 0; id < CH_OPT_COUNT; id++)
        if (rows[id].scope == CH_OPT_SETTING)
            name[n++] = rows[id].name;
    return ch_cmd_suggest(typed, name, n);
}

// Variables of the project's own tests and scripts.
static bool is_for_tests(const char *var) {
    static const char *const name[] = {"TEST", "PEERS=", "REF_LIB=", "BIN=", "TMP="};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        if (strncmp(var, name[i], strlen(name[i])) == 0)
            return true;
    return false;
}

static bool read_environment(ch_cmd_options *o) {
    static const char prefix[] = "CHIMERE_";
    for (char **e = environ; *e; e++) {
        if (strncmp(*e, prefix, sizeof prefix - 1) != 0 || is_for_tests(*e + sizeof prefix - 1))
            continue;
        const char *var = *e + sizeof prefix - 1, *eq = strchr(var, '=');
        if (!eq)
            continue;
        int id = find_setting(var, (size_t)(eq - var), true);
        if (id < 0) {
            char typed[64];
            const char *name[CH_OPT_COUNT];
            size_t n = 0;
            for (; var + n < eq && n < sizeof typed - 1; n++)
                typed[n] = var[n] == '_' ? '-' : (char)tolower((unsigned char)var[n]);
            typed[n] = 0;
            const char *near = near_setting(typed, name);
            ch_log(CH_LOG_WARN, "unknown variable CHIMERE_%.*s%s%s%s", (int)(eq - var), var,
                   near ? " (did you mean the one of --" : "", near ? near : "", near ? "?)" : "");
            continue;
        }
        if (o->v[id].given || !belongs(o->spec, id) || !eq[1])
            continue;
        char source[80];
        snprintf(source, sizeof source, "CHIMERE_%.*s", (int)(eq - var < 60 ? eq - var : 60), var);
        if (!set_value(o, id, eq + 1, source))
            return false;
    }
    return true;
}

// One line of the config file, already without its line end: "name = value", "# comment" or empty.
static bool read_config_line(ch_cmd_options *o, const char *path, int line, char *s) {
    while (isspace((unsigned char)*s))
        s++;
    if (!*s || *s == '#')
        return true;
    char *eq = strchr(s, '=');
    if (!eq) {
        ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "%s:%d: expected \"name = value\", found \"%.60s\"", path, line, s);
        return false;
    }
    char *end = eq, *value = eq + 1;
    while (end > s && isspace((unsigned char)end[-1]))
        end--;
    *end = 0;
    while (isspace((unsigned char)*value))
        value++;
    for (char *t = value + strlen(value); t > value && isspace((unsigned char)t[-1]);)
        *--t = 0;
    int id = find_setting(s, (size_t)(end - s), false);
    if (id < 0) {
        const char *name[CH_OPT_COUNT];
        const char *near = near_setting(s, name);
        ch_log(CH_LOG_WARN, "%s:%d: unknown setting \"%.60s\"%s%s%s", path, line, s, near ? " (did you mean " : "",
               near ? near : "", near ? "?)" : "");
        return true;
    }
    if (o->v[id].given || !belongs(o->spec, id) || id == CH_OPT_CONFIG)
        return true;
    size_t size = strlen(path) + 96;
    char *source = ch_arena_alloc(o->arena, size);
    if (!source)
        return true;
    snprintf(source, size, "%s:%d: %s", path, line, rows[id].name);
    return set_value(o, id, value, source);
}

static bool read_config(ch_cmd_options *o) {
    const char *path = ch_opt_text(o, CH_OPT_CONFIG);
    if (!path)
        return true;
    ch_error e = {0};
    ch_buf text = {.limit = 1 << 20};
    if (ch_read_file(&text, path, &e) != 0) {
        ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--config: %s", e.msg);
        ch_buf_free(&text);
        return false;
    }
    char *s = ch_arena_strndup(o->arena, text.data ? text.data : "", text.len);
    ch_buf_free(&text);
    bool ok = s != NULL;
    for (int line = 1; ok && s && *s; line++) {
        char *nl = strchr(s, '\n');
        if (nl)
            *nl = 0;
        ok = read_config_line(o, path, line, s);
        s = nl ? nl + 1 : NULL;
    }
    return ok;
}

static void apply_defaults(ch_cmd_options *o) {
    int id[MAX_NAMES];
    int n = ch_opt_list_ids(o->spec, id);
    for (int i = 0; i < n; i++)
        if (!o->v[id[i]].given && rows[id[i]].def) {
            set_value(o, id[i], rows[id[i]].def, rows[id[i]].name);
            o->v[id[i]].given = false;
        }
}

static void log_to_stderr(void *user, int level, const char *line) {
    const int *least = user;
    static const char *const word[] = {"debug: ", "", "warning: ", "error: "};
    if (level >= *least)
        fprintf(stderr, "%s%s\n", level >= CH_LOG_DEBUG && level <= CH_LOG_ERROR ? word[level] : "", line);
}

bool ch_cmd_parse(ch_cmd_options *o, const ch_cmd_spec *spec, int argc, char **argv, int *exit_code) {
    static const int levels[] = {CH_LOG_DEBUG, CH_LOG_INFO, CH_LOG_WARN, CH_LOG_ERROR}; // the sink outlives o
    memset(o, 0, sizeof *o);
    o->spec = spec;
    o->arena = ch_arena_create(0);
    o->args = o->arena ? ch_arena_alloc(o->arena, sizeof *o->args * (size_t)(argc + 1)) : NULL;
    if (!o->args) {
        *exit_code = ch_cmd_fail(spec->name, CH_EXIT_FAILED, "out of memory");
        ch_cmd_options_free(o);
        return false;
    }
    ch_log_set_sink(log_to_stderr, (void *)(uintptr_t)&levels[CH_LOG_WARN]);
    bool ok = parse_line(o, argc, argv);
    if (ok && o->v[CH_OPT_HELP].given && o->v[CH_OPT_HELP].b) {
        ch_cmd_print_help(spec, stdout);
        *exit_code = CH_EXIT_OK;
        ch_cmd_options_free(o);
        return false;
    }
    ok = ok && read_environment(o) && read_config(o);
    if (ok && (o->n_args < spec->min_args || o->n_args > spec->max_args)) {
        if (o->n_args > spec->max_args && spec->max_args == 0)
            ch_cmd_fail(spec->name, CH_EXIT_USAGE, "unexpected \"%s\"", o->args[0]);
        else
            ch_cmd_fail(spec->name, CH_EXIT_USAGE, "expected: chimere %s %s", spec->name, spec->usage);
        ok = false;
    }
    ok = ok && ch_opt_read_loras(o, &(ch_cmd_loras){0});
    if (!ok) {
        fprintf(stderr, "Try: chimere %s --help\n", spec->name);
        *exit_code = CH_EXIT_USAGE;
        ch_cmd_options_free(o);
        return false;
    }
    apply_defaults(o);
    int level = ch_opt_bool(o, CH_OPT_QUIET) ? CH_LOG_ERROR : ch_opt_bool(o, CH_OPT_VERBOSE) ? CH_LOG_DEBUG : CH_LOG_WARN;
    ch_log_set_sink(log_to_stderr, (void *)(uintptr_t)&levels[level]);
    return true;
}

void ch_cmd_options_free(ch_cmd_options *o) {
    ch_arena_free(&o->arena);
    o->args = NULL;
    o->n_args = 0;
}

bool ch_opt_given(const ch_cmd_options *o, int id) {
    return o->v[id].given;
}

bool ch_opt_bool(const ch_cmd_options *o, int id) {
    return o->v[id].b;
}

int64_t ch_opt_int(const ch_cmd_options *o, int id) {
    return o->v[id].i;
}

double ch_opt_num(const ch_cmd_options *o, int id) {
    return o->v[id].f;
}

const char *ch_opt_text(const ch_cmd_options *o, int id) {
    return o->v[id].s;
}

const char *ch_opt_nth(const ch_cmd_options *o, int id, int k) {
    bool typed = false;
    int n = k;
    for (int i = 0; i < o->n_text; i++) {
        typed = typed || o->text[i].id == id;
        if (o->text[i].id == id && n-- == 0)
            return o->text[i].s;
    }
    return !typed && k == 0 && o->v[id].given ? o->v[id].s : NULL; // one from a variable or the config file
}

int ch_opt_int_list(const ch_cmd_options *o, int id, int64_t *out, int max_out) {
    const ch_opt_row *r = &rows[id];
    const char *s = o->v[id].s;
    int n = 0;
    while (s && *s) {
        char item[32];
        size_t len = strcspn(s, ",");
        int64_t v = 0;
        snprintf(item, sizeof item, "%.*s", (int)(len < 31 ? len : 31), s);
        if (!read_int(item, &v) || (double)v < r->min || (double)v > r->max || n == max_out) {
            if (n == max_out)
                ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--%s: at most %d numbers", r->name, max_out);
            else
                ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--%s: expected whole numbers from %.0f to %.0f with commas, "
                            "found \"%s\"", r->name, r->min, r->max, item);
            return -1;
        }
        out[n++] = v;
        s += len;
        if (*s == ',')
            s++;
    }
    return n;
}
