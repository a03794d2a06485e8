// cmd: the `chimere` program: main, the one table of options, one file per sub-command. Only this folder prints, exits and
// reads the environment; everything it can do is in the library.
//
// A command is a function `int ch_cmd_NAME(int argc, char **argv)` in cmd/NAME.c with a row in cmd/list.h; argv[0] is the
// command's name, argv[argc] is NULL. It returns the exit code: 0 done, 1 failed, 2 wrong usage. It describes itself with
// a ch_cmd_spec and calls ch_cmd_parse, which answers --help, takes options from the command line, CHIMERE_* variables and
// the config file (in that order of strength), refuses unknown names with a suggestion and wrong values with the range.
//
// Threading: options are read-only once parsed. Ownership: ch_cmd_options_free; texts point into argv, the environment or
// the options' own arena.
#ifndef CH_CMD_CMD_H
#define CH_CMD_CMD_H

#include <stdio.h>

#include "base/base.h"

enum { CH_EXIT_OK = 0, CH_EXIT_FAILED = 1, CH_EXIT_USAGE = 2 };

// Handlers and their one-line summaries.
typedef struct ch_cmd_row {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} ch_cmd_row;
#define CH_COMMAND(name, summary) int ch_cmd_##name(int argc, char **argv);
#include "cmd/list.h"
#undef CH_COMMAND

// ---- options ------------------------------------------------------------------------------------------------------------
enum {
    CH_OPT_TYPE_BOOL, // --name, --no-name, --name=yes|no
    CH_OPT_TYPE_INT,  // whole number, with k, m, g for 2^10, 2^20, 2^30
    CH_OPT_TYPE_NUM,
    CH_OPT_TYPE_TEXT, // may be given several times; ch_opt_nth reads them all
    CH_OPT_TYPE_CHOICE // one of "a|b|c"
};
// A setting is also a config-file key and a CHIMERE_* variable; an input (a prompt, an output file) only a flag.
enum { CH_OPT_SETTING, CH_OPT_INPUT };

enum {
#define CH_OPTION(id, name, letter, type, scope, min, max, def, arg, help) CH_OPT_##id,
#include "cmd/option_list.h"
#undef CH_OPTION
    CH_OPT_COUNT
};

typedef struct ch_opt_row {
    const char *name; // "top-k": --top-k, top-k = ..., CHIMERE_TOP_K
    char letter;      // 'k' for -k; 0: none
    int type, scope;
    double min, max;     // INT, NUM
    const char *def;     // as typed; NULL: none
    const char *arg;     // what the help calls the value; CHOICE: the choices, "a|b|c"
    const char *help;
} ch_opt_row;
const ch_opt_row *ch_opt_get_row(int id);

typedef struct ch_cmd_spec {
    const char *name;
    const char *usage;    // after "chimere NAME ": "[-m FILE] -p TEXT"
    const char *about;    // a few lines: what it does
    const char *examples; // lines, each "  chimere ..."; NULL: none
    const int *option;    // [n_option] CH_OPT_*; --help, --config, -v and -q are always there
    int n_option;
    int min_args, max_args; // positional arguments
} ch_cmd_spec;

enum { CH_OPT_MAX_TEXTS = 64 };
typedef struct ch_cmd_options {
    const ch_cmd_spec *spec;
    struct {
        bool given; // by flag, variable or file (not the default)
        int64_t i;
        double f;
        bool b;
        const char *s;
    } v[CH_OPT_COUNT];
    struct {
        int id;
        const char *s;
    } text[CH_OPT_MAX_TEXTS]; // every TEXT value from the command line, in order
    int n_text;
    const char **args; // positional
    int n_args;
    ch_arena *arena;
} ch_cmd_options;

// True: go on. False: return *exit_code at once (help was printed, or the usage was wrong and has been explained).
// Also sets the log sink from -v and -q.
bool ch_cmd_parse(ch_cmd_options *o, const ch_cmd_spec *spec, int argc, char **argv, int *exit_code);
void ch_cmd_options_free(ch_cmd_options *o);
bool ch_opt_given(const ch_cmd_options *o, int id);
bool ch_opt_bool(const ch_cmd_options *o, int id);
int64_t ch_opt_int(const ch_cmd_options *o, int id);
double ch_opt_num(const ch_cmd_options *o, int id);
const char *ch_opt_text(const ch_cmd_options *o, int id); // NULL: not given and no default
// Adapters of --lora and --lora-scale. False after explaining; not for options that ch_cmd_parse has taken.
enum { CH_CMD_MAX_LORAS = 16 };
typedef struct ch_cmd_loras {
    int n;
    const char *path[CH_CMD_MAX_LORAS];
    float scale[CH_CMD_MAX_LORAS];
} ch_cmd_loras;
bool ch_opt_read_loras(const ch_cmd_options *o, ch_cmd_loras *l);
const char *ch_opt_nth(const ch_cmd_options *o, int id, int k); // k-th text given (of a setting: the one value, where no flag gives it); NULL: no more
// "1,4,8" -> numbers, each within the row's range. Returns how many, or -1 after explaining on stderr.
int ch_opt_int_list(const ch_cmd_options *o, int id, int64_t *out, int max_out);

// "chimere NAME: text" on stderr; returns code.
int ch_cmd_fail(const char *cmd, int code, const char *fmt, ...) CH_PRINTF(3, 4);
// Same for a library error.
int ch_cmd_fail_error(const char *cmd, const ch_error *e);
// Nearest of names to what was typed, NULL when none is near. For "did you mean".
const char *ch_cmd_suggest(const char *typed, const char *const *names, int n);
const ch_cmd_row *ch_cmd_rows(int *n);

// The model to use: -m, CHIMERE_MODEL or the config file, else the shipped one (models/chimere-mini.gguf beside the binary or in
// a folder above, or share/chimere/models/). NULL after explaining on stderr. *shipped (NULL allowed): none was named.
const char *ch_cmd_model_path(const ch_cmd_options *o, bool *shipped);
#define CH_CMD_VERSION "0.1.0"

// ---- progress -----------------------------------------------------------------------------------------------------------
// A ch_progress_fn over stderr: a bar on a terminal, a plain line every quarter or ten seconds elsewhere; work that ends
// within 0.3 s shows nothing. Start from {0}; quiet shows nothing at all.
typedef struct ch_cmd_progress {
    bool quiet;
    bool started, drawn; // private from here
    uint64_t t_start, t_last;
    int quarter;
    char what[64];
} ch_cmd_progress;
bool ch_cmd_show_progress(void *user, const char *what, uint64_t done, uint64_t total);
void ch_cmd_end_progress(ch_cmd_progress *p); // clears the bar

#endif
