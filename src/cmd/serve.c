// chimere serve: the engine over HTTP.
#include <string.h>
#include <time.h>

#include "cmd/engine.h"
#include "serve/serve.h"

static const int options[] = {
    CH_OPT_HOST, CH_OPT_PORT, CH_OPT_API_KEY, CH_OPT_NAME, CH_OPT_ANY_MODEL, CH_OPT_CORS, CH_OPT_SLOTS, CH_OPT_QUEUE,
    CH_OPT_MAX_BODY, CH_OPT_REQUEST_TIMEOUT, CH_CMD_ENGINE_OPTIONS};

static const ch_cmd_spec spec = {
    .name = "serve",
    .usage = "[-m FILE] [--port 8081] ...",
    .about = "Answers OpenAI clients: POST /v1/chat/completions (streamed or not), GET /v1/models, /health, /metrics.\n"
             "Listens on this machine only unless --host says otherwise. Ctrl-C ends it: running answers are finished first,\n"
             "a second Ctrl-C cuts them.",
    .examples = "  chimere serve -m model.gguf\n"
                "  chimere serve -m model.gguf --host 0.0.0.0 --port 80 --api-key secret --slots 8 --ctx 8k\n"
                "  curl http://127.0.0.1:8081/v1/chat/completions -H 'Content-Type: application/json' \\\n"
                "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]}'",
    .option = options,
    .n_option = sizeof options / sizeof options[0],
};

enum { DRAIN_SECONDS = 10 };

typedef struct loading {
    ch_cmd_progress bar;
    ch_serve *server;
    sigset_t *signals;
    bool stopped;
} loading;

static bool show_loading(void *user, const char *what, uint64_t done, uint64_t total) {
    loading *l = user;
    if (total)
        ch_serve_set_progress(l->server, (double)done / (double)total);
    ch_cmd_show_progress(&l->bar, what, done, total);
    l->stopped = l->stopped || ch_cmd_signal_pending(l->signals);
    return !l->stopped;
}

static void fill_server(ch_serve_params *p, const ch_cmd_options *o) {
    *p = (ch_serve_params){
        .host = ch_opt_text(o, CH_OPT_HOST),
        .port = (int)ch_opt_int(o, CH_OPT_PORT),
        .api_key = ch_opt_text(o, CH_OPT_API_KEY),
        .name = ch_opt_text(o, CH_OPT_NAME),
        .cors_origin = ch_opt_text(o, CH_OPT_CORS),
        .any_model = ch_opt_bool(o, CH_OPT_ANY_MODEL),
        .max_body = (size_t)ch_opt_int(o, CH_OPT_MAX_BODY),
        .timeout_ms = ch_opt_int(o, CH_OPT_REQUEST_TIMEOUT) * 1000,
    };
}

static void say_ready(const ch_serve *s, const ch_cmd_options *o, const chimere_engine_info *i) {
    const char *host = ch_opt_text(o, CH_OPT_HOST), *key = ch_opt_text(o, CH_OPT_API_KEY) ? " -H 'Authorization: Bearer KEY'" : "";
    const char *open = strchr(host, ':') ? "[" : "", *close = open[0] ? "]" : ""; // IPv6
    int port = ch_serve_port(s);
    if (ch_opt_bool(o, CH_OPT_QUIET))
        return;
    fprintf(stderr, "chimere: %s (%s, %.1f M parameters, %d slots of %d tokens, %s) is ready on http://%s%s%s:%d/v1\n",
            ch_serve_model_name(s), i->arch, (double)i->n_params * 1e-6, i->n_slots, i->n_ctx, i->tier, open, host, close, port);
    fprintf(stderr, "Try: curl http://%s%s%s:%d/v1/chat/completions -H 'Content-Type: application/json'%s -d "
                    "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]}'\n", open, host, close, port, key);
}

// Until a signal; then lets running answers end, for DRAIN_SECONDS or until a second signal.
static void serve_until_signal(ch_serve *s, const sigset_t *signals) {
    while (sigwaitinfo(signals, NULL) < 0)
        ;
    ch_serve_drain(s);
    int n = ch_serve_n_active(s);
    if (n > 0)
        fprintf(stderr, "chimere: finishing %d answer%s; Ctrl-C again to stop at once\n", n, n == 1 ? "" : "s");
    struct timespec tick = {.tv_nsec = 50000000};
    for (int i = 0; i < DRAIN_SECONDS * 20 && ch_serve_n_active(s) > 0; i++)
        if (sigtimedwait(signals, NULL, &tick) > 0)
            break;
}

int ch_cmd_serve(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    sigset_t signals;
    ch_cmd_block_signals(&signals);
    loading load = {.signals = &signals};
    ch_serve_params sp;
    chimere_engine_params ep;
    chimere_engine *engine = NULL;
    ch_error e = {0};
    chimere_error ce = {0};
    code = CH_EXIT_FAILED;
    if (!ch_cmd_fill_engine(&ep, &o, &load.bar))
        goto done;
    ep.n_slots = (int32_t)ch_opt_int(&o, CH_OPT_SLOTS);
    ep.n_queue = (int32_t)ch_opt_int(&o, CH_OPT_QUEUE);
    ep.progress = show_loading;
    ep.progress_user = &load;
    fill_server(&sp, &o);
    if (ch_serve_start(&load.server, &sp, &e) != 0) {
        ch_cmd_fail_error("serve", &e);
        goto done;
    }
    int rc = chimere_engine_open(&engine, &ep, &ce);
    ch_cmd_end_progress(&load.bar);
    if (rc == CHIMERE_ECANCELLED && load.stopped) {
        code = CH_EXIT_OK;
        goto done;
    }
    if (rc != 0) {
        ch_cmd_fail_engine("serve", &ce);
        goto done;
    }
    if (ch_serve_set_engine(load.server, engine) != 0) {
        ch_cmd_fail("serve", CH_EXIT_FAILED, "out of memory");
        goto done;
    }
    say_ready(load.server, &o, chimere_engine_get_info(engine));
    serve_until_signal(load.server, &signals);
    code = CH_EXIT_OK;
done:
    ch_serve_stop(&load.server);
    chimere_engine_close(&engine);
    ch_cmd_options_free(&o);
    return code;
}
