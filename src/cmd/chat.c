// chimere chat: a conversation in the terminal, through the model's own template. The answer goes to stdout, thinking and
// everything else to stderr, so that a piped conversation leaves only answers.
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "cmd/engine.h"
#include "cmd/line.h"

static const int options[] = {CH_OPT_SYSTEM, CH_OPT_THINK, CH_CMD_SAMPLING_OPTIONS, CH_CMD_ENGINE_OPTIONS};

static const ch_cmd_spec spec = {
    .name = "chat",
    .usage = "[-m FILE] [--system TEXT] [--no-think] ...",
    .about = "Talks with the model. Type a message and Enter (a backslash at the end goes on in the next line); /help lists the\n"
             "commands. Ctrl-C stops the answer or drops the line, Ctrl-D leaves. Messages may also come from a pipe, one a line.",
    .examples = "  chimere chat\n"
                "  chimere chat -m model.gguf --system \"Answer in one sentence.\" --temp 0.2\n"
                "  echo \"What is the capital of France?\" | chimere chat -m model.gguf --no-think -q",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
};

typedef struct chat {
    const ch_cmd_options *o;
    chimere_engine *engine;
    const chimere_engine_info *info;
    ch_cmd_line *line;
    sigset_t signals;
    json_t *messages; // what was said, the system message first
    char *system;     // NULL: none
    bool think, quiet, color, failed;
    const char *stop[CHIMERE_STOP_MAX];
} chat;

static const char DIM[] = "\033[2m", PLAIN[] = "\033[0m", BOLD_PROMPT[] = "> ";

static void note(const chat *c, const char *fmt, ...) CH_PRINTF(2, 3);
static void note(const chat *c, const char *fmt, ...) {
    va_list ap;
    if (c->color)
        fputs(DIM, stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s\n", c->color ? PLAIN : "");
}

static bool add_message(chat *c, const char *role, const char *text, size_t n) {
    json_t *m = json_pack("{s:s, s:o}", "role", role, "content", json_stringn(text, n));
    if (!m)
        return false;
    return json_array_append_new(c->messages, m) == 0;
}

static void reset(chat *c) {
    json_array_clear(c->messages);
    if (c->system)
        add_message(c, "system", c->system, strlen(c->system));
}

static void drop_last(chat *c) {
    size_t n = json_array_size(c->messages);
    if (n)
        json_array_remove(c->messages, n - 1);
}

// ---- one answer -----------------------------------------------------------------------------------------------------------
typedef struct answer {
    ch_buf text, reasoning;
    bool thinking; // the last thing printed was thought
} answer;

static void print_event(const chat *c, answer *a, const chimere_event *ev) {
    if (ev->n_reasoning) {
        ch_buf_append(&a->reasoning, ev->reasoning, ev->n_reasoning);
        if (!c->quiet) {
            if (!a->thinking && c->color)
                fputs(DIM, stderr);
            ch_cmd_print_text(stderr, ev->reasoning, ev->n_reasoning);
            a->thinking = true;
        }
    }
    if (ev->n_answer) {
        ch_buf_append(&a->text, ev->answer, ev->n_answer);
        if (a->thinking)
            fputs(c->color ? "\033[0m\n\n" : "\n\n", stderr);
        a->thinking = false;
        fflush(stderr);
        ch_cmd_print_text(stdout, ev->answer, ev->n_answer);
    }
}

static bool submit(chat *c, chimere_request **request, chimere_error *e) {
    chimere_request_params q;
    chimere_request_params_init(&q, c->engine);
    if (!ch_cmd_fill_sampling(&q, c->stop, c->o))
        return false;
    char *messages = json_dumps(c->messages, JSON_COMPACT);
    q.messages_json = messages;
    q.enable_thinking = c->info->template_has_thinking ? c->think : -1;
    q.progress = true;
    int rc = messages ? chimere_request_submit(c->engine, request, &q, e) : CHIMERE_ENOMEM;
    free(messages);
    if (rc != 0)
        ch_cmd_fail_engine("chat", e);
    return rc == 0;
}

static void end_answer(chat *c, answer *a, const chimere_event *ev) {
    if (a->thinking)
        fputs(c->color ? "\033[0m\n" : "\n", stderr);
    if (a->text.len)
        putchar('\n');
    fflush(stdout);
    if (ev->reason == CHIMERE_REASON_ERROR) {
        ch_cmd_fail("chat", CH_EXIT_FAILED, "%s", ev->error.msg);
        if (ev->error.code == CHIMERE_ELIMIT)
            note(c, "The conversation no longer fits: /reset starts a new one, --ctx makes room.");
        c->failed = true;
        drop_last(c); // the question, so that the conversation stays as it was
        return;
    }
    if (ev->reason == CHIMERE_REASON_CANCELLED)
        note(c, "[stopped]");
    else if (ev->reason == CHIMERE_REASON_LENGTH)
        note(c, "[cut: the answer reached its limit]");
    if (!a->text.len && !a->reasoning.len) {
        drop_last(c);
        return;
    }
    add_message(c, "assistant", a->text.data ? a->text.data : "", a->text.len);
    if (a->reasoning.len)
        json_object_set_new(json_array_get(c->messages, json_array_size(c->messages) - 1), "reasoning_content",
                            json_stringn(a->reasoning.data, a->reasoning.len));
    if (c->color && !c->quiet) {
        double ms = ev->timings.answer_ms;
        note(c, "[%d tokens, %.1f/s; prompt %d, %d of them known]", ev->usage.completion_tokens,
             ms > 0 ? (ev->usage.completion_tokens - 1) * 1000.0 / ms : 0.0, ev->usage.prompt_tokens, ev->usage.cached_tokens);
    }
}

static void ask(chat *c) {
    chimere_request *request = NULL;
    chimere_error e = {0};
    chimere_event ev = {0};
    answer a = {0};
    ch_cmd_progress bar = {.quiet = c->quiet};
    while (ch_cmd_signal_pending(&c->signals)) // pressed before there was anything to stop
        ;
    if (!submit(c, &request, &e)) {
        c->failed = true;
        drop_last(c);
        return;
    }
    int rc = 0;
    while (rc >= 0) {
        rc = chimere_request_next(request, 50, &ev);
        if (ch_cmd_signal_pending(&c->signals))
            chimere_request_cancel(request);
        if (rc != 1)
            continue;
        if (ev.kind == CHIMERE_EVENT_PROGRESS)
            ch_cmd_show_progress(&bar, "reading", (uint64_t)ev.prompt_done, (uint64_t)ev.usage.prompt_tokens);
        else
            ch_cmd_end_progress(&bar);
        if (ev.kind == CHIMERE_EVENT_DONE)
            break;
        print_event(c, &a, &ev);
    }
    end_answer(c, &a, &ev);
    chimere_request_close(&request);
    ch_buf_free(&a.text);
    ch_buf_free(&a.reasoning);
}

// ---- commands -------------------------------------------------------------------------------------------------------------
static void do_help(chat *c, const char *arg) {
    (void)arg;
    note(c, "/reset            forget the conversation\n"
            "/retry            answer the last message again\n"
            "/undo             forget the last message and its answer\n"
            "/system TEXT      set the system message (empty: none) and start anew\n"
            "/think on|off     let the model think before it answers\n"
            "/save FILE        write the conversation as JSON\n"
            "/load FILE        go on with a saved conversation\n"
            "/info             model and conversation\n"
            "/quit             leave (also Ctrl-D)\n"
            "Ctrl-C stops an answer. A line that begins with // is sent with one slash.");
}

static void do_reset(chat *c, const char *arg) {
    (void)arg;
    reset(c);
    note(c, "A new conversation.");
}

static const char *role_at(const chat *c, size_t i) {
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, i), "role"));
    return role ? role : "";
}

static void do_undo(chat *c, const char *arg) {
    (void)arg;
    size_t n = json_array_size(c->messages);
    while (n > 0 && strcmp(role_at(c, n - 1), "user") != 0 && strcmp(role_at(c, n - 1), "system") != 0) {
        drop_last(c);
        n--;
    }
    if (n > 0 && strcmp(role_at(c, n - 1), "user") == 0)
        drop_last(c);
    note(c, "%zu messages left.", json_array_size(c->messages));
}

static void do_retry(chat *c, const char *arg) {
    (void)arg;
    size_t n = json_array_size(c->messages);
    while (n > 0 && strcmp(role_at(c, n - 1), "assistant") == 0) {
        drop_last(c);
        n--;
    }
    if (n > 0 && strcmp(role_at(c, n - 1), "user") == 0)
        ask(c);
    else
        note(c, "There is no message to answer.");
}

static void do_system(chat *c, const char *arg) {
    ch_free(c->system);
    c->system = arg[0] ? ch_strndup(arg, strlen(arg)) : NULL;
    reset(c);
    note(c, "A new conversation, %s.", c->system ? "with this system message" : "without a system message");
}

static void do_think(chat *c, const char *arg) {
    if (strcmp(arg, "on") == 0 || strcmp(arg, "off") == 0)
        c->think = strcmp(arg, "on") == 0;
    else if (arg[0])
        note(c, "/think on or /think off");
    if (!c->info->template_has_thinking)
        note(c, "This model's template has no switch for thinking.");
    else
        note(c, "Thinking is %s.", c->think ? "on" : "off");
}

static void do_save(chat *c, const char *arg) {
    ch_outfile *f = NULL;
    ch_error e = {0};
    char *text = json_dumps(c->messages, JSON_INDENT(1));
    int rc = !arg[0] ? ch_error_set(&e, CH_ERANGE, "/save needs a file name") : !text ? ch_error_set(&e, CH_ENOMEM, "out of memory") : 0;
    if (rc == 0)
        rc = ch_outfile_open(&f, arg, &e);
    if (rc == 0)
        rc = ch_outfile_write(f, text, strlen(text), &e);
    if (rc == 0)
        rc = ch_outfile_write(f, "\n", 1, &e);
    if (rc == 0)
        rc = ch_outfile_commit(&f, &e);
    ch_outfile_abort(&f);
    free(text);
    if (rc == 0)
        note(c, "Saved %zu messages to %s.", json_array_size(c->messages), arg);
    else
        note(c, "%s", e.msg);
}

static void do_load(chat *c, const char *arg) {
    ch_buf b = {.limit = 64 << 20};
    ch_error e = {0};
    json_error_t je = {0};
    json_t *v = NULL;
    if (arg[0] && ch_read_file(&b, arg, &e) == 0)
        v = json_loadb(b.data ? b.data : "", b.len, 0, &je);
    bool ok = json_is_array(v);
    for (size_t i = 0; ok && i < json_array_size(v); i++)
        ok = json_is_string(json_object_get(json_array_get(v, i), "role"));
    if (ok) {
        json_decref(c->messages);
        c->messages = json_incref(v);
        note(c, "%zu messages.", json_array_size(v));
    } else {
        note(c, "%s", !arg[0] ? "/load needs a file name" : e.msg[0] ? e.msg : "expected a JSON array of messages, as /save writes it");
    }
    json_decref(v);
    ch_buf_free(&b);
}

static void do_info(chat *c, const char *arg) {
    (void)arg;
    note(c, "%s: %s, %.1f M parameters, tier %s, %d threads, context %d; %zu messages; thinking %s", c->info->path, c->info->arch,
         (double)c->info->n_params * 1e-6, c->info->tier, c->info->n_threads, c->info->n_ctx, json_array_size(c->messages),
         c->think ? "on" : "off");
}

static const struct {
    const char *name;
    void (*run)(chat *c, const char *arg);
} commands[] = {{"help", do_help},   {"reset", do_reset}, {"retry", do_retry}, {"undo", do_undo}, {"system", do_system},
                {"think", do_think}, {"save", do_save},   {"load", do_load},   {"info", do_info}, {"quit", NULL},
                {"exit", NULL}};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

// False: leave.
static bool run_command(chat *c, const char *line) {
    const char *name[N_COMMANDS];
    char typed[32];
    size_t n = strcspn(line, " \t");
    const char *arg = line + n + strspn(line + n, " \t");
    snprintf(typed, sizeof typed, "%.*s", (int)(n < 31 ? n : 31), line);
    for (int i = 0; i < N_COMMANDS; i++) {
        name[i] = commands[i].name;
        if (strcmp(typed, name[i]) != 0)
            continue;
        if (!commands[i].run)
            return false;
        commands[i].run(c, arg);
        return true;
    }
    const char *near = ch_cmd_suggest(typed, name, N_COMMANDS);
    note(c, "There is no /%s%s%s%s; /help lists the commands.", typed, near ? " (did you mean /" : "", near ? near : "", near ? "?)" : "");
    return true;
}

static void talk(chat *c) {
    ch_buf text = {.limit = 16 << 20};
    bool dropped = false;
    for (;;) {
        int rc = ch_cmd_line_read(c->line, BOLD_PROMPT, &text);
        if (rc == 0 || (rc == 2 && dropped)) // Ctrl-C twice leaves too
            break;
        dropped = rc == 2;
        if (dropped)
            note(c, "(Ctrl-C again or Ctrl-D leaves)");
        if (rc != 1 || text.len == 0)
            continue;
        const char *s = text.data;
        size_t n = text.len;
        if (s[0] == '/' && s[1] != '/') {
            if (!run_command(c, s + 1))
                break;
            continue;
        }
        if (s[0] == '/')
            s++, n--;
        if (!add_message(c, "user", s, n)) {
            note(c, "The message is not valid UTF-8.");
            continue;
        }
        ask(c);
    }
    if (ch_cmd_line_is_terminal(c->line) && !dropped)
        putchar('\n');
    ch_buf_free(&text);
}

int ch_cmd_chat(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    chat c = {.o = &o, .messages = json_array(), .think = ch_opt_bool(&o, CH_OPT_THINK), .quiet = ch_opt_bool(&o, CH_OPT_QUIET),
              .color = isatty(STDERR_FILENO)};
    chimere_request_params q; // wrong sampling options are reported before the model is loaded
    const char *system = ch_opt_text(&o, CH_OPT_SYSTEM);
    ch_cmd_block_signals(&c.signals);
    chimere_request_params_init(&q, NULL);
    code = CH_EXIT_USAGE;
    if (!ch_cmd_fill_sampling(&q, c.stop, &o))
        goto done;
    c.engine = ch_cmd_open_engine(&o, 1, &code);
    if (!c.engine)
        goto done;
    c.info = chimere_engine_get_info(c.engine);
    code = CH_EXIT_FAILED;
    if (!c.info->chat_template) {
        ch_cmd_fail("chat", CH_EXIT_FAILED, "%s has no chat template; chimere run completes raw text", c.info->path);
        goto done;
    }
    c.line = ch_cmd_line_open();
    c.system = system ? ch_strndup(system, strlen(system)) : NULL;
    if (!c.line || !c.messages || (system && !c.system)) {
        ch_cmd_fail("chat", CH_EXIT_FAILED, "out of memory");
        goto done;
    }
    reset(&c);
    if (ch_cmd_line_is_terminal(c.line) && !c.quiet)
        note(&c, "%s (%s, %.1f M parameters). /help lists the commands, Ctrl-D leaves.", c.info->name, c.info->arch,
             (double)c.info->n_params * 1e-6);
    talk(&c);
    // From a pipe nobody has seen a message about a failure: the exit code tells.
    code = c.failed && !ch_cmd_line_is_terminal(c.line) ? CH_EXIT_FAILED : CH_EXIT_OK;
done:
    ch_cmd_line_close(&c.line);
    chimere_engine_close(&c.engine);
    json_decref(c.messages);
    ch_free(c.system);
    ch_cmd_options_free(&o);
    return code;
}
