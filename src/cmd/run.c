// chimere run: completes a raw prompt. Text on stdout, everything else on stderr.
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "cmd/engine.h"

static const int options[] = {CH_OPT_PROMPT, CH_OPT_PROMPT_FILE, CH_CMD_SAMPLING_OPTIONS, CH_CMD_ENGINE_OPTIONS,
                              CH_OPT_SHOW_SPECIAL, CH_OPT_JSON};

static const ch_cmd_spec spec = {
    .name = "run",
    .usage = "[-m FILE] -p TEXT [-n N] [--temp 0] ...",
    .about = "Completes a prompt. The answer goes to stdout as it is made; timings go to stderr. The prompt is taken as it is:\n"
             "no chat template (chimere chat has it), but special tokens such as <|im_start|> are recognised.",
    .examples = "  chimere run -p \"Once upon a time\" -n 100\n"
                "  chimere run -m model.gguf -p \"The capital of France is\" --temp 0 -n 8\n"
                "  chimere run -m model.gguf -f prompt.txt --json | jq -r .text",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
};

// The prompt into b; false after explaining.
static bool read_prompt(ch_buf *b, const ch_cmd_options *o, int *code) {
    const char *text = ch_opt_text(o, CH_OPT_PROMPT), *file = ch_opt_text(o, CH_OPT_PROMPT_FILE);
    ch_error e = {0};
    *code = CH_EXIT_USAGE;
    if (text && file) {
        ch_cmd_fail("run", CH_EXIT_USAGE, "give -p or -f, not both");
        return false;
    }
    if (!text && !file && !isatty(STDIN_FILENO))
        file = "-";
    if (!text && !file) {
        ch_cmd_fail("run", CH_EXIT_USAGE, "no prompt: give one with -p TEXT or -f FILE");
        return false;
    }
    b->limit = (size_t)1 << 30;
    if (file ? ch_read_file(b, file, &e) != 0 : !ch_buf_puts(b, text)) {
        *code = file ? ch_cmd_fail_error("run", &e) : ch_cmd_fail("run", CH_EXIT_FAILED, "out of memory");
        return false;
    }
    return true;
}

static const char *reason_word(chimere_reason r) {
    switch (r) {
    case CHIMERE_REASON_STOP: return "stop";
    case CHIMERE_REASON_LENGTH: return "length";
    case CHIMERE_REASON_CANCELLED: return "cancelled";
    default: return "error";
    }
}

// ids: JSON array under construction; taken.
static void print_json(const ch_buf *text, json_t *ids, const chimere_event *ev) {
    json_t *o = json_pack("{s:o, s:o, s:s, s:i, s:i, s:I, s:f, s:f, s:f}", "text",
                          json_stringn(text->data ? text->data : "", text->len), "tokens", ids, "reason", reason_word(ev->reason),
                          "prompt_tokens", (int)ev->usage.prompt_tokens, "completion_tokens", (int)ev->usage.completion_tokens,
                          "seed", (json_int_t)ev->seed, "queue_ms", ev->timings.queue_ms, "prompt_ms", ev->timings.prompt_ms,
                          "answer_ms", ev->timings.answer_ms);
    json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
}

static void print_timings(const chimere_event *ev) {
    const chimere_usage *u = &ev->usage;
    double pre = ev->timings.prompt_ms, dec = ev->timings.answer_ms;
    fprintf(stderr, "\n[%d prompt tokens, %.1f/s; %d generated, %.1f/s; ended by %s; seed %lld]\n", u->prompt_tokens,
            pre > 0 ? u->prompt_tokens * 1000.0 / pre : 0.0, u->completion_tokens,
            dec > 0 && u->completion_tokens > 1 ? (u->completion_tokens - 1) * 1000.0 / dec : 0.0, reason_word(ev->reason),
            (long long)ev->seed);
}

// Reads events to the end; Ctrl-C cancels. Returns the exit code.
static int read_events(chimere_request *request, const ch_cmd_options *o, const sigset_t *signals) {
    bool json = ch_opt_bool(o, CH_OPT_JSON), quiet = ch_opt_bool(o, CH_OPT_QUIET);
    ch_cmd_progress bar = {.quiet = quiet};
    ch_buf text = {0};
    json_t *ids = json_array();
    chimere_event ev = {0};
    int code = CH_EXIT_OK, rc = 0;
    while (rc >= 0) {
        rc = chimere_request_next(request, 100, &ev);
        if (ch_cmd_signal_pending(signals))
            chimere_request_cancel(request);
        if (rc != 1)
            continue;
        if (ev.kind == CHIMERE_EVENT_DONE)
            break;
        if (ev.kind == CHIMERE_EVENT_PROGRESS)
            ch_cmd_show_progress(&bar, "prompt", (uint64_t)ev.prompt_done, (uint64_t)ev.usage.prompt_tokens);
        else
            ch_cmd_end_progress(&bar);
        for (size_t i = 0; json && i < ev.n_tokens; i++)
            json_array_append_new(ids, json_integer(ev.tokens[i].id));
        if (json) {
            ch_buf_append(&text, ev.answer, ev.n_answer);
        } else if (ev.n_answer && !ch_cmd_print_text(stdout, ev.answer, ev.n_answer)) {
            chimere_request_cancel(request); // the reader of our output went away
            code = CH_EXIT_FAILED;
        }
    }
    ch_cmd_end_progress(&bar);
    if (rc < 0 || ev.reason == CHIMERE_REASON_ERROR) {
        code = ch_cmd_fail("run", CH_EXIT_FAILED, "%s", rc < 0 ? "the request ended early" : ev.error.msg);
    } else if (json) {
        print_json(&text, json_incref(ids), &ev);
    } else {
        fputc('\n', stdout);
        fflush(stdout);
    }
    if (rc == 1 && !quiet && code == CH_EXIT_OK)
        print_timings(&ev);
    if (rc == 1 && ev.reason == CHIMERE_REASON_CANCELLED)
        code = CH_EXIT_FAILED;
    ch_buf_free(&text);
    json_decref(ids);
    return code;
}

int ch_cmd_run(int argc, char **argv) {
    ch_cmd_options o;
    ch_buf prompt = {0};
    const char *stop[CHIMERE_STOP_MAX];
    chimere_engine *engine = NULL;
    chimere_request *request = NULL;
    chimere_request_params q;
    chimere_error e = {0};
    sigset_t signals;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    if (!read_prompt(&prompt, &o, &code))
        goto done;
    ch_cmd_block_signals(&signals);
    engine = ch_cmd_open_engine(&o, 1, &code);
    if (!engine)
        goto done;
    chimere_request_params_init(&q, engine);
    code = CH_EXIT_USAGE;
    if (!ch_cmd_fill_sampling(&q, stop, &o))
        goto done;
    q.prompt = prompt.data ? prompt.data : "";
    q.n_prompt = prompt.len;
    q.prompt_special = true;
    q.raw_text = true;
    q.show_special = ch_opt_bool(&o, CH_OPT_SHOW_SPECIAL);
    q.progress = true;
    code = CH_EXIT_FAILED;
    if (chimere_request_submit(engine, &request, &q, &e) != 0)
        code = ch_cmd_fail_engine("run", &e);
    else
        code = read_events(request, &o, &signals);
done:
    chimere_request_close(&request);
    chimere_engine_close(&engine);
    ch_buf_free(&prompt);
    ch_cmd_options_free(&o);
    return code;
}
