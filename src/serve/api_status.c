// GET endpoints that tell about the server: models, health, metrics, a page for people. None of them waits for the engine.
#include <string.h>

#include "serve/server.h"

// The engine has work and has not ended a step for this long: something is stuck. Far above any honest step.
static const uint64_t STALL_MS = 300000;

static json_t *describe_model(const ch_serve *s, const chimere_engine_info *i) {
    return json_pack("{s:s, s:s, s:I, s:s, s:{s:s, s:i, s:i, s:i, s:I, s:I, s:b, s:b}}", "id", s->shown_name, "object", "model",
                     "created", (json_int_t)s->t_created, "owned_by", "local", "meta", "arch", i->arch, "n_ctx", (int)i->n_ctx,
                     "n_ctx_train", (int)i->n_ctx_train, "n_vocab", (int)i->n_vocab, "n_params", (json_int_t)i->n_params,
                     "size", (json_int_t)i->memory.weights, "thinking", (int)i->template_has_thinking, "tools",
                     (int)i->template_has_tools);
}

enum MHD_Result ch_serve_answer_models(ch_exchange *x) {
    const chimere_engine_info *i = chimere_engine_get_info(atomic_load(&x->s->engine));
    return ch_serve_reply_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", describe_model(x->s, i)));
}

enum MHD_Result ch_serve_answer_model(ch_exchange *x) {
    if (strcmp(x->rest, x->s->shown_name) != 0) {
        ch_serve_fault f;
        ch_serve_refuse(&f, 404, "model_not_found", "model", "there is no model \"%.80s\" here, only \"%.80s\"", x->rest,
                        x->s->shown_name);
        return ch_serve_reply_fault(x, &f);
    }
    return ch_serve_reply_json(x, 200, describe_model(x->s, chimere_engine_get_info(atomic_load(&x->s->engine))));
}

enum MHD_Result ch_serve_answer_health(ch_exchange *x) {
    ch_serve *s = x->s;
    chimere_engine *engine = atomic_load(&s->engine);
    if (!engine)
        return ch_serve_reply_json(x, 503, json_pack("{s:s, s:s, s:b, s:f, s:{s:s, s:s, s:n, s:s}}", "status", "loading", "engine",
                                                     "chimere", "model_loaded", 0, "progress", atomic_load(&s->progress),
                                                     "error", "message", "the model is still loading", "type", "server_error",
                                                     "param", "code", "model_loading"));
    chimere_metrics m;
    chimere_engine_get_metrics(engine, &m);
    const chimere_engine_info *i = chimere_engine_get_info(engine);
    bool stalled = m.last_step_age_ms > STALL_MS, draining = atomic_load(&s->draining);
    return ch_serve_reply_json(
        x, stalled || draining ? 503 : 200,
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:I}", "status",
                  stalled ? "stalled" : draining ? "shutting_down" : "ok", "engine", "chimere", "version", chimere_version(),
                  "model", s->shown_name, "model_loaded", 1, "slots_total", (int)i->n_slots, "slots_busy", (int)m.slots_busy,
                  "slots_idle", (int)(i->n_slots - m.slots_busy), "queue_length", (int)m.queue_length, "last_step_age_ms",
                  (json_int_t)m.last_step_age_ms));
}

static void put_metric(ch_buf *b, const char *name, const char *type, const char *help, double v) {
    ch_buf_printf(b, "# HELP chimere_%s %s\n# TYPE chimere_%s %s\nchimere_%s %.17g\n", name, help, name, type, name, v);
}

enum MHD_Result ch_serve_answer_metrics(ch_exchange *x) {
    ch_serve *s = x->s;
    chimere_metrics m;
    ch_buf b = {0};
    chimere_engine_get_metrics(atomic_load(&s->engine), &m);
    const struct {
        const char *name, *type, *help;
        double v;
    } row[] = {
        {"requests_total", "counter", "Requests given to the engine.", (double)m.requests},
        {"requests_stopped_total", "counter", "Answers the model ended.", (double)m.requests_stopped},
        {"requests_length_total", "counter", "Answers cut by max_tokens or the context.", (double)m.requests_length},
        {"requests_cancelled_total", "counter", "Answers cancelled.", (double)m.requests_cancelled},
        {"requests_failed_total", "counter", "Requests that failed.", (double)m.requests_failed},
        {"requests_refused_total", "counter", "Requests refused because the queue was full.", (double)m.requests_refused},
        {"prompt_tokens_total", "counter", "Prompt tokens of admitted requests.", (double)m.tokens_prompt},
        {"prompt_tokens_reused_total", "counter", "Prompt tokens not computed again.", (double)m.tokens_reused},
        {"generated_tokens_total", "counter", "Tokens generated.", (double)m.tokens_generated},
        {"steps_total", "counter", "Model steps.", (double)m.steps},
        {"step_seconds_total", "counter", "Time inside the model.", (double)m.step_ns * 1e-9},
        {"memory_read_bytes_per_second", "gauge", "Read bandwidth of memory, measured when the model was ready.", (double)m.read_rate},
        {"decode_read_bytes_per_second", "gauge", "Read by steps of one token lately.", (double)m.decode_rate},
        {"slots_busy", "gauge", "Sequences being computed.", m.slots_busy},
        {"queue_length", "gauge", "Requests waiting for a slot.", m.queue_length},
        {"last_step_age_seconds", "gauge", "Since the last step ended, while there is work.", (double)m.last_step_age_ms * 1e-3},
        {"http_requests_total", "counter", "HTTP requests.", (double)s->n_requests},
        {"http_client_errors_total", "counter", "Answers with a status of 400 to 499.", (double)s->n_client_errors},
        {"http_server_errors_total", "counter", "Answers with a status of 500 and more.", (double)s->n_server_errors},
        {"http_clients_gone_total", "counter", "Clients that left before their answer was complete.", (double)s->n_gone},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        put_metric(&b, row[i].name, row[i].type, row[i].help, row[i].v);
    enum MHD_Result ok = MHD_NO;
    if (!b.failed)
        ok = ch_serve_reply_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
    ch_buf_free(&b);
    return ok;
}

enum MHD_Result ch_serve_answer_root(ch_exchange *x) {
    ch_serve *s = x->s;
    bool loaded = atomic_load(&s->engine) != NULL;
    ch_buf b = {0};
    ch_buf_printf(&b, "chimere %s\n\nmodel:   %s\nAPI:     /v1/chat/completions, /v1/models (as OpenAI clients speak it)\n"
                      "state:   /health, /metrics\n\nTry:\n  curl http://127.0.0.1:%d/v1/chat/completions -H 'Content-Type: "
                      "application/json' \\\n    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]}'\n",
                  chimere_version(), loaded ? s->shown_name : "(still loading)", s->port);
    enum MHD_Result ok = MHD_NO;
    if (!b.failed)
        ok = ch_serve_reply_text(x, 200, "text/plain; charset=utf-8", b.data, b.len);
    ch_buf_free(&b);
    return ok;
}
