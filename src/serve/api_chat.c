// POST /v1/chat/completions: one engine request per exchange; its events become one JSON object or a stream of chunks.
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "serve/request.h"

typedef struct chat_state {
    ch_serve_chat chat;
    char id[48];
    int64_t created;
    uint64_t t_submit;
    // not streamed
    ch_buf answer, reasoning;
    // streamed
    ch_buf out;    // rendered, not yet taken by the library
    size_t taken;
    bool role_sent, ended; // ended: nothing follows what is in out
} chat_state;

static void free_chat_state(void *state) {
    chat_state *c = state;
    ch_serve_free_chat(&c->chat);
    ch_buf_free(&c->answer);
    ch_buf_free(&c->reasoning);
    ch_buf_free(&c->out);
    ch_free(c);
}

static bool make_id(char *id, size_t size) {
    unsigned char r[16];
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
        return false;
    int n = snprintf(id, size, "chatcmpl-");
    for (size_t i = 0; i < sizeof r; i++)
        n += snprintf(id + n, size - (size_t)n, "%02x", r[i]);
    return true;
}

static const char *reason_word(chimere_reason r) {
    return r == CHIMERE_REASON_LENGTH ? "length" : "stop";
}

// ---- rendering --------------------------------------------------------------------------------------------------------------
static void put_head(ch_buf *b, const ch_exchange *x, const chat_state *c, const char *object) {
    ch_buf_printf(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object, (long long)c->created);
    ch_serve_put_string(b, x->s->shown_name, strlen(x->s->shown_name));
    ch_buf_printf(b, ",\"system_fingerprint\":\"%s\",\"choices\":[", x->s->fingerprint);
}

static void put_usage(ch_buf *b, const chimere_event *ev) {
    const chimere_usage *u = &ev->usage;
    const chimere_timings *t = &ev->timings;
    int computed = u->prompt_tokens - u->cached_tokens;
    ch_buf_printf(b,
                  "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%d},\"completion_tokens_details\":{\"reasoning_tokens\":%d}},",
                  u->prompt_tokens, u->completion_tokens, u->prompt_tokens + u->completion_tokens, u->cached_tokens,
                  u->reasoning_tokens);
    ch_buf_printf(b,
                  "\"timings\":{\"queue_ms\":%.3f,\"prompt_n\":%d,\"prompt_ms\":%.3f,\"predicted_n\":%d,\"predicted_ms\":%.3f,"
                  "\"prompt_per_second\":%.3f,\"predicted_per_second\":%.3f}",
                  t->queue_ms, computed, t->prompt_ms, u->completion_tokens, t->answer_ms,
                  t->prompt_ms > 0 ? computed * 1000.0 / t->prompt_ms : 0.0,
                  t->answer_ms > 0 && u->completion_tokens > 1 ? (u->completion_tokens - 1) * 1000.0 / t->answer_ms : 0.0);
}

static void put_delta(chat_state *c, const ch_exchange *x, const char *member, const char *text, size_t n) {
    ch_buf_puts(&c->out, "data: ");
    put_head(&c->out, x, c, "chat.completion.chunk");
    ch_buf_printf(&c->out, "{\"index\":0,\"delta\":{\"%s\":", member);
    ch_serve_put_string(&c->out, text, n);
    ch_buf_puts(&c->out, "},\"finish_reason\":null}]}\n\n");
}

static void put_role(chat_state *c, const ch_exchange *x) {
    if (c->role_sent)
        return;
    c->role_sent = true;
    ch_buf_puts(&c->out, "data: ");
    put_head(&c->out, x, c, "chat.completion.chunk");
    ch_buf_puts(&c->out, "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n");
}

static void fault_of(ch_serve_fault *f, const chat_state *c, const ch_exchange *x, const chimere_event *ev) {
    int code = ev->reason == CHIMERE_REASON_CANCELLED ? CHIMERE_ECANCELLED : ev->error.code;
    int64_t ms = (int64_t)((ch_clock_ns() - c->t_submit) / 1000000);
    bool late = ev->usage.completion_tokens > 0 || (x->s->p.timeout_ms > 0 && ms >= x->s->p.timeout_ms);
    ch_serve_fault_from_engine(f, code, ev->error.msg[0] ? ev->error.msg : "no reason was given", late);
}

static bool failed(const chimere_event *ev) {
    return ev->kind == CHIMERE_EVENT_DONE && (ev->reason == CHIMERE_REASON_ERROR || ev->reason == CHIMERE_REASON_CANCELLED);
}

static void put_end(chat_state *c, const ch_exchange *x, const chimere_event *ev) {
    c->ended = true;
    if (failed(ev)) {
        ch_serve_fault f;
        fault_of(&f, c, x, ev);
        ch_buf_puts(&c->out, "data: ");
        ch_serve_put_fault(&c->out, &f);
        ch_buf_puts(&c->out, "\n\n");
        return;
    }
    put_role(c, x);
    ch_buf_puts(&c->out, "data: ");
    put_head(&c->out, x, c, "chat.completion.chunk");
    ch_buf_printf(&c->out, "{\"index\":0,\"delta\":{},\"finish_reason\":\"%s\"}]}\n\n", reason_word(ev->reason));
    if (c->chat.include_usage) {
        ch_buf_puts(&c->out, "data: ");
        put_head(&c->out, x, c, "chat.completion.chunk");
        ch_buf_puts(&c->out, "],");
        put_usage(&c->out, ev);
        ch_buf_puts(&c->out, "}\n\n");
    }
    ch_buf_puts(&c->out, "data: [DONE]\n\n");
}

static void put_event(chat_state *c, const ch_exchange *x, const chimere_event *ev) {
    if (ev->kind == CHIMERE_EVENT_DONE) {
        put_end(c, x, ev);
        return;
    }
    put_role(c, x);
    if (ev->n_reasoning)
        put_delta(c, x, "reasoning_content", ev->reasoning, ev->n_reasoning);
    if (ev->n_answer)
        put_delta(c, x, "content", ev->answer, ev->n_answer);
}

// ---- streamed ---------------------------------------------------------------------------------------------------------------
static ssize_t on_read(void *cls, uint64_t pos, char *buf, size_t max) {
    ch_exchange *x = cls;
    chat_state *c = x->state;
    chimere_event ev;
    (void)pos;
    for (;;) {
        if (atomic_load(&x->gone) || c->out.failed)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (c->taken < c->out.len) {
            size_t n = c->out.len - c->taken < max ? c->out.len - c->taken : max;
            memcpy(buf, c->out.data + c->taken, n);
            c->taken += n;
            atomic_store(&x->t_write, ch_clock_ns());
            atomic_store(&x->ping, false);
            return (ssize_t)n;
        }
        if (c->ended)
            return MHD_CONTENT_READER_END_OF_STREAM;
        ch_buf_reset(&c->out);
        c->taken = 0;
        int rc = chimere_request_next(x->request, 0, &ev);
        if (rc == 1)
            put_event(c, x, &ev);
        else if (rc < 0)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        else if (atomic_exchange(&x->ping, false))
            ch_buf_puts(&c->out, ": still working\n\n");
        else if (ch_serve_sleep(x))
            return 0;
        else if (atomic_load(&x->s->stopping)) {
            ev = (chimere_event){.kind = CHIMERE_EVENT_DONE, .reason = CHIMERE_REASON_CANCELLED,
                                 .error.msg = "the server is stopping"};
            put_end(c, x, &ev);
        }
    }
}

static enum MHD_Result start_stream(ch_exchange *x) {
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, on_read, x, NULL);
    if (r) {
        MHD_add_response_header(r, "Content-Type", "text/event-stream; charset=utf-8");
        MHD_add_response_header(r, "X-Accel-Buffering", "no");
    }
    return ch_serve_queue(x, 200, r);
}

// The status line waits for the first event, so that a refused prompt has its own status; when the queue is long it is
// sent after a while all the same, so that the client knows that it is being served.
static enum MHD_Result begin_stream(ch_exchange *x) {
    chat_state *c = x->state;
    chimere_event ev;
    for (;;) {
        if (atomic_load(&x->gone))
            return MHD_NO;
        int rc = chimere_request_next(x->request, 0, &ev);
        if (rc < 0)
            return MHD_NO;
        if (rc == 1 && failed(&ev)) {
            ch_serve_fault f;
            fault_of(&f, c, x, &ev);
            return ch_serve_reply_fault(x, &f);
        }
        if (rc == 1) {
            put_event(c, x, &ev);
            return start_stream(x);
        }
        if (atomic_load(&x->ping) || atomic_load(&x->s->stopping))
            return start_stream(x);
        if (ch_serve_sleep(x))
            return MHD_YES;
    }
}

// ---- not streamed -----------------------------------------------------------------------------------------------------------
static enum MHD_Result reply_whole(ch_exchange *x, const chimere_event *ev) {
    chat_state *c = x->state;
    ch_buf b = {0};
    put_head(&b, x, c, "chat.completion");
    ch_buf_puts(&b, "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    ch_serve_put_string(&b, c->answer.data ? c->answer.data : "", c->answer.len);
    if (c->reasoning.len) {
        ch_buf_puts(&b, ",\"reasoning_content\":");
        ch_serve_put_string(&b, c->reasoning.data, c->reasoning.len);
    }
    ch_buf_printf(&b, "},\"logprobs\":null,\"finish_reason\":\"%s\"}],", reason_word(ev->reason));
    put_usage(&b, ev);
    ch_buf_puts(&b, "}");
    enum MHD_Result ok = MHD_NO;
    if (!b.failed && !c->answer.failed && !c->reasoning.failed)
        ok = ch_serve_reply_text(x, 200, "application/json", b.data, b.len);
    ch_buf_free(&b);
    return ok;
}

static enum MHD_Result collect(ch_exchange *x) {
    chat_state *c = x->state;
    chimere_event ev;
    for (;;) {
        if (atomic_load(&x->gone))
            return MHD_NO;
        int rc = chimere_request_next(x->request, 0, &ev);
        if (rc < 0)
            return MHD_NO;
        if (rc == 1) {
            ch_buf_append(&c->reasoning, ev.reasoning, ev.n_reasoning);
            ch_buf_append(&c->answer, ev.answer, ev.n_answer);
        }
        bool stopping = rc == 0 && atomic_load(&x->s->stopping);
        if (stopping)
            ev = (chimere_event){.kind = CHIMERE_EVENT_DONE, .reason = CHIMERE_REASON_CANCELLED,
                                 .error.msg = "the server is stopping"};
        if ((rc == 1 || stopping) && failed(&ev)) {
            ch_serve_fault f;
            fault_of(&f, c, x, &ev);
            return ch_serve_reply_fault(x, &f);
        }
        if (rc == 1 && ev.kind == CHIMERE_EVENT_DONE)
            return reply_whole(x, &ev);
        if (rc == 0 && ch_serve_sleep(x))
            return MHD_YES;
    }
}

// ---- begin ------------------------------------------------------------------------------------------------------------------
static bool check_model(const ch_exchange *x, const char *model, ch_serve_fault *f) {
    if (!model || !model[0] || x->s->p.any_model || strcmp(model, x->s->shown_name) == 0)
        return true;
    return ch_serve_refuse(f, 404, "model_not_found", "model",
                           "there is no model \"%.80s\" here, only \"%.80s\" (--any-model makes the server take any name)", model,
                           x->s->shown_name);
}

static bool submit(ch_exchange *x, chat_state *c, ch_serve_fault *f) {
    chimere_engine *engine = atomic_load(&x->s->engine);
    chimere_request_params q;
    chimere_error e = {0};
    chimere_request_params_init(&q, engine);
    q.messages_json = c->chat.messages_json;
    q.tools_json = c->chat.tools_json;
    q.template_kwargs_json = c->chat.kwargs_json;
    q.enable_thinking = c->chat.enable_thinking;
    q.sampling = c->chat.sampling;
    q.max_tokens = c->chat.max_tokens;
    q.stop = (const char *const *)c->chat.stop;
    q.n_stop = (size_t)c->chat.n_stop;
    q.timeout_ms = x->s->p.timeout_ms;
    q.ready = ch_serve_wake;
    q.ready_user = x;
    c->t_submit = ch_clock_ns();
    c->created = (int64_t)time(NULL);
    int rc = chimere_request_submit(engine, &x->request, &q, &e);
    if (rc != 0) {
        ch_serve_fault_from_engine(f, rc, e.msg, false);
        return false;
    }
    ch_serve_watch(x);
    return true;
}

enum MHD_Result ch_serve_answer_chat(ch_exchange *x) {
    ch_serve_fault f = {0};
    if (!x->state) {
        chat_state *c = ch_alloc(sizeof *c);
        if (!c)
            return MHD_NO;
        x->state = c;
        x->free_state = free_chat_state;
        if (!ch_serve_parse_chat(&c->chat, atomic_load(&x->s->engine), x->body.data ? x->body.data : "", x->body.len, &f) ||
            !check_model(x, c->chat.model, &f))
            return ch_serve_reply_fault(x, &f);
        x->s->body_bytes -= x->reserved;
        x->reserved = 0;
        ch_buf_free(&x->body);
        if (!make_id(c->id, sizeof c->id)) {
            ch_serve_refuse(&f, 500, "internal_error", NULL, "no random numbers from the system");
            return ch_serve_reply_fault(x, &f);
        }
        if (!submit(x, c, &f))
            return ch_serve_reply_fault(x, &f);
    }
    return ((chat_state *)x->state)->chat.stream ? begin_stream(x) : collect(x);
}
