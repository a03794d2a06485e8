// chimere: picks the sub-command.
#include <string.h>

#include "cmd/cmd.h"

static const ch_cmd_row commands[] = {
#define CH_COMMAND(name, summary) {#name, ch_cmd_##name, summary},
#include "cmd/list.h"
#undef CH_COMMAND
    {NULL, NULL, NULL}
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] - 1 };

const ch_cmd_row *ch_cmd_rows(int *n) {
    *n = N_COMMANDS;
    return commands;
}

// A command of two words is typed with a hyphen, which no C name can hold.
static const char *typed_name(const char *name, char out[32]) {
    size_t i = 0;
    for (; name[i] && i < 31; i++)
        out[i] = name[i] == '_' ? '-' : name[i];
    out[i] = 0;
    return out;
}

static void print_help(FILE *to) {
    fprintf(to, "chimere %s: runs, serves and measures hybrid language models (GGUF files)\n\n"
                "chimere COMMAND [options]      chimere COMMAND --help tells more\n\n", CH_CMD_VERSION);
    char name[32];
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-15s %s\n", typed_name(commands[i].name, name), commands[i].summary);
    fprintf(to, "\nFirst steps:\n"
                "  chimere chat                        talk to the small model that comes along\n"
                "  chimere run -m FILE.gguf -p \"Once upon a time\"\n"
                "  chimere serve -m FILE.gguf          OpenAI API on http://127.0.0.1:8081/v1\n");
}

static int unknown_command(const char *typed) {
    const char *name[N_COMMANDS + 1] = {NULL};
    char text[N_COMMANDS][32];
    for (int i = 0; i < N_COMMANDS; i++)
        name[i] = typed_name(commands[i].name, text[i]);
    const char *near = ch_cmd_suggest(typed, name, N_COMMANDS);
    ch_cmd_fail(NULL, CH_EXIT_USAGE, "unknown command \"%s\"%s%s%s", typed, near ? " (did you mean " : "", near ? near : "",
                near ? "?)" : "");
    fprintf(stderr, "Try: chimere --help\n");
    return CH_EXIT_USAGE;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CH_EXIT_USAGE;
    }
    const char *a = argv[1];
    if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0 || (strcmp(a, "help") == 0 && argc == 2)) {
        print_help(stdout);
        return CH_EXIT_OK;
    }
    if (strcmp(a, "--version") == 0 || strcmp(a, "-V") == 0) {
        printf("chimere %s\n", CH_CMD_VERSION);
        return CH_EXIT_OK;
    }
    if (strcmp(a, "help") == 0) { // chimere help run
        argv[1] = argv[2];
        argv[2] = (char *)"--help";
        a = argv[1];
    }
    char name[32];
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(a, typed_name(commands[i].name, name)) == 0) {
            int code = commands[i].run(argc - 1, argv + 1);
            if (fflush(stdout) != 0 && code == CH_EXIT_OK)
                code = ch_cmd_fail(a, CH_EXIT_FAILED, "could not write to standard output");
            return code;
        }
    return unknown_command(a);
}
