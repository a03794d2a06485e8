// The server as clients see it, over loopback: routes, errors, streams, cancelling, limits, malformed HTTP, start and stop.
// A model with random weights makes long answers; the trained one (CHIMERE_TESTDATA) readable ones.
// time limit: 240 s
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "chimere.h"
#include "serve/serve.h"
#include "synth/synth.h"

#include "serve/http.h"

static const char CHAT[] = "/v1/chat/completions";
static const char HI[] = "\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of France?\"}]";

typedef struct fixture {
    ch_serve *s;
    chimere_engine *engine;
    int port;
} fixture;

static char model_path[4096];

static void sleep_ms(int ms) {
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static void open_engine(fixture *f, const char *path, int n_slots, int n_queue) {
    chimere_engine_params p;
    chimere_error e = {0};
    chimere_engine_params_init(&p);
    p.model_path = path;
    p.n_slots = n_slots;
    p.n_queue = n_queue;
    p.n_threads = 1;
    p.n_ctx = 2048;
    if (chimere_engine_open(&f->engine, &p, &e) != 0)
        fail_msg("%s", e.msg);
}

static void start_with(fixture *f, const ch_serve_params *p, const char *path, int n_slots, int n_queue) {
    ch_error e = {0};
    memset(f, 0, sizeof *f);
    if (ch_serve_start(&f->s, p, &e) != 0)
        fail_msg("%s", e.msg);
    f->port = ch_serve_port(f->s);
    if (path) {
        open_engine(f, path, n_slots, n_queue);
        assert_int_equal(ch_serve_set_engine(f->s, f->engine), 0);
    }
}

static void start(fixture *f) {
    ch_serve_params p = {.name = "test"};
    start_with(f, &p, model_path, 2, 8);
}

static void stop(fixture *f) {
    ch_serve_stop(&f->s);
    chimere_engine_close(&f->engine);
}

static int busy_slots(const fixture *f) {
    chimere_metrics m;
    chimere_engine_get_metrics(f->engine, &m);
    return m.slots_busy + m.queue_length;
}

// Milliseconds until nothing runs or waits any more; fails after 20 s.
static int wait_idle(const fixture *f) {
    uint64_t t0 = ch_clock_ns();
    while (busy_slots(f) > 0) {
        if (ch_clock_ns() - t0 > (uint64_t)20 * 1000000000)
            fail_msg("still %d busy", busy_slots(f));
        sleep_ms(2);
    }
    return (int)((ch_clock_ns() - t0) / 1000000);
}

static void wait_busy(const fixture *f, int n) {
    for (int i = 0; i < 5000 && busy_slots(f) < n; i++)
        sleep_ms(2);
    assert_true(busy_slots(f) >= n);
}

static json_t *parse(const ch_buf *b) {
    json_error_t e;
    json_t *v = json_loadb(b->data ? b->data : "", b->len, JSON_ALLOW_NUL, &e);
    if (!v)
        fail_msg("not JSON: %s in %.200s", e.text, b->data ? b->data : "(nothing)");
    return v;
}

static void expect_error(const fixture *f, const char *method, const char *path, const char *headers, const char *body, int status,
                         const char *code) {
    http_reply r;
    if (!http_ask(&r, f->port, method, path, headers, body))
        fail_msg("no answer to %s %s %.60s", method, path, body ? body : "");
    if (r.status != status)
        fail_msg("%s %s %.60s: status %d, expected %d: %s", method, path, body ? body : "", r.status, status, r.body.data);
    json_t *v = parse(&r.body), *e = json_object_get(v, "error");
    assert_string_equal(json_string_value(json_object_get(e, "code")), code);
    assert_true(json_string_length(json_object_get(e, "message")) > 0);
    assert_non_null(json_string_value(json_object_get(e, "type")));
    assert_non_null(json_object_get(e, "param"));
    json_decref(v);
    http_free(&r);
}

// ---- routes and refusals ----------------------------------------------------------------------------------------------------
static void test_routes(void **state) {
    fixture f;
    http_reply r;
    (void)state;
    start(&f);
    assert_true(http_ask(&r, f.port, "GET", "/health", "", NULL));
    assert_int_equal(r.status, 200);
    json_t *v = parse(&r.body);
    assert_string_equal(json_string_value(json_object_get(v, "status")), "ok");
    assert_int_equal(json_integer_value(json_object_get(v, "slots_total")), 2);
    json_decref(v);
    http_free(&r);
    assert_true(http_ask(&r, f.port, "GET", "/v1/models", "", NULL));
    v = parse(&r.body);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(v, "data"), 0), "id")), "test");
    json_decref(v);
    http_free(&r);
    assert_true(http_ask(&r, f.port, "GET", "/v1/models/test", "", NULL));
    assert_int_equal(r.status, 200);
    http_free(&r);
    assert_true(http_ask(&r, f.port, "GET", "/", "", NULL));
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body.data, "/v1/chat/completions"));
    http_free(&r);
    assert_true(http_ask(&r, f.port, "HEAD", "/health", "", NULL));
    assert_int_equal(r.status, 200);
    assert_int_equal(r.body.len, 0);
    http_free(&r);
    assert_true(http_ask(&r, f.port, "GET", "/metrics", "", NULL));
    assert_non_null(strstr(r.body.data, "chimere_slots_busy 0"));
    assert_non_null(strstr(r.body.data, "\nchimere_memory_read_bytes_per_second 0\n"));
    assert_non_null(strstr(r.body.data, "\nchimere_decode_read_bytes_per_second 0\n"));
    http_free(&r);
    expect_error(&f, "GET", "/v1/models/other", "", NULL, 404, "model_not_found");
    expect_error(&f, "GET", "/nothing", "", NULL, 404, "not_found");
    expect_error(&f, "GET", CHAT, "", NULL, 405, "method_not_allowed");
    expect_error(&f, "DELETE", "/v1/models", "", NULL, 405, "method_not_allowed");
    expect_error(&f, "POST", CHAT, "", "{\"model\":\"other\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", 404, "model_not_found");
    expect_error(&f, "POST", CHAT, "", "{", 400, "invalid_json");
    expect_error(&f, "POST", CHAT, "", "", 400, "invalid_json");
    expect_error(&f, "POST", CHAT, "", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logprobs\":true}", 400, "unsupported");
    expect_error(&f, "POST", CHAT, "Content-Type: text/plain\r\n", "{}", 415, "unsupported_media_type");
    stop(&f);
}

static void test_key_and_origin(void **state) {
    fixture f;
    http_reply r;
    (void)state;
    ch_serve_params p = {.name = "test", .api_key = "sesame"};
    start_with(&f, &p, model_path, 1, 1);
    expect_error(&f, "GET", "/v1/models", "", NULL, 401, "invalid_api_key");
    expect_error(&f, "GET", "/v1/models", "Authorization: Bearer sesam\r\n", NULL, 401, "invalid_api_key");
    expect_error(&f, "GET", "/v1/models", "Authorization: Bearer sesame1\r\n", NULL, 401, "invalid_api_key");
    expect_error(&f, "GET", "/v1/models", "Authorization: sesame\r\n", NULL, 401, "invalid_api_key");
    assert_true(http_ask(&r, f.port, "GET", "/v1/models", "Authorization: Bearer sesame\r\n", NULL));
    assert_int_equal(r.status, 200);
    http_free(&r);
    assert_true(http_ask(&r, f.port, "GET", "/health", "", NULL)); // needs none
    assert_int_equal(r.status, 200);
    http_free(&r);
    expect_error(&f, "GET", "/health", "Origin: https://evil.example\r\n", NULL, 403, "origin_not_allowed");
    expect_error(&f, "GET", "/health", "Origin: http://localhost.evil.example\r\n", NULL, 403, "origin_not_allowed");
    assert_true(http_ask(&r, f.port, "GET", "/health", "Origin: http://localhost:3000\r\n", NULL));
    assert_non_null(strstr(r.head.data, "Access-Control-Allow-Origin: http://localhost:3000"));
    http_free(&r);
    assert_true(http_ask(&r, f.port, "OPTIONS", CHAT, "Origin: http://127.0.0.1:5000\r\nAccess-Control-Request-Headers: "
                         "authorization, content-type\r\n", NULL));
    assert_int_equal(r.status, 204);
    assert_non_null(strstr(r.head.data, "Access-Control-Allow-Headers: authorization, content-type"));
    http_free(&r);
    stop(&f);
}

static void test_loading(void **state) {
    fixture f;
    http_reply r;
    ch_serve_params p = {0};
    (void)state;
    start_with(&f, &p, NULL, 0, 0);
    ch_serve_set_progress(f.s, 0.25);
    assert_true(http_ask(&r, f.port, "GET", "/health", "", NULL));
    assert_int_equal(r.status, 503);
    json_t *v = parse(&r.body);
    assert_string_equal(json_string_value(json_object_get(v, "status")), "loading");
    assert_true(json_real_value(json_object_get(v, "progress")) == 0.25);
    json_decref(v);
    http_free(&r);
    expect_error(&f, "GET", "/v1/models", "", NULL, 503, "model_loading");
    expect_error(&f, "POST", CHAT, "", "{}", 503, "model_loading");
    stop(&f);
}

static void test_port_taken(void **state) {
    fixture f;
    ch_serve *second = NULL;
    ch_error e = {0};
    (void)state;
    ch_serve_params p = {0};
    start_with(&f, &p, NULL, 0, 0);
    p.port = f.port;
    assert_int_equal(ch_serve_start(&second, &p, &e), CH_EIO);
    assert_null(second);
    assert_non_null(strstr(e.msg, "port"));
    stop(&f);
}

static void test_json_depth(void **state) {
    static const int depth[] = {60, 300, 10000, 1000000};
    fixture f;
    (void)state;
    start(&f);
    for (size_t k = 0; k < sizeof depth / sizeof depth[0]; k++) {
        ch_buf b = {0};
        http_reply r;
        ch_buf_printf(&b, "{%s,\"max_tokens\":1,\"unknown\":", HI);
        for (int i = 0; i < depth[k]; i++)
            ch_buf_puts(&b, "[");
        for (int i = 0; i < depth[k]; i++)
            ch_buf_puts(&b, "]");
        ch_buf_puts(&b, "}");
        assert_true(http_ask(&r, f.port, "POST", CHAT, "", b.data));
        assert_int_equal(r.status, depth[k] < 100 ? 200 : 400);
        http_free(&r);
        ch_buf_free(&b);
    }
    stop(&f);
}

static void test_max_tokens(void **state) {
    static const char *const bad[] = {"0", "-1", "1.5", "\"100\"", "-9223372036854775808"};
    fixture f;
    char body[256];
    http_reply r;
    (void)state;
    start(&f);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(body, sizeof body, "{%s,\"max_tokens\":%s}", HI, bad[i]);
        assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
        assert_int_equal(r.status, 400);
        assert_non_null(strstr(r.body.data, "\"param\":\"max_tokens\""));
        http_free(&r);
    }
    for (int n = 1; n <= 3; n++) { // exactly as many as asked, unless the model ends before
        snprintf(body, sizeof body, "{%s,\"max_tokens\":%d}", HI, n);
        assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
        assert_int_equal(r.status, 200);
        json_t *v = parse(&r.body), *choice = json_array_get(json_object_get(v, "choices"), 0);
        json_int_t made = json_integer_value(json_object_get(json_object_get(v, "usage"), "completion_tokens"));
        const char *why = json_string_value(json_object_get(choice, "finish_reason"));
        assert_true(made == n || (made < n && strcmp(why, "stop") == 0));
        json_decref(v);
        http_free(&r);
    }
    // 2^63 is cut to the context, and others keep moving meanwhile.
    snprintf(body, sizeof body, "{%s,\"max_tokens\":9223372036854775808,\"stream\":true}", HI);
    int fd = http_begin(f.port, CHAT, body);
    wait_busy(&f, 1);
    snprintf(body, sizeof body, "{%s,\"max_tokens\":2}", HI);
    assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
    assert_int_equal(r.status, 200);
    http_free(&r);
    close(fd);
    stop(&f);
}

// ---- malformed HTTP and sizes -----------------------------------------------------------------------------------------------
static void test_body_limit(void **state) {
    fixture f;
    (void)state;
    ch_serve_params p = {.name = "test", .max_body = 4096};
    start_with(&f, &p, model_path, 1, 4);
    for (int extra = -1; extra <= 1; extra++) {
        ch_buf b = {0};
        http_reply r;
        ch_buf_printf(&b, "{%s,\"max_tokens\":1,\"user\":\"", HI);
        while (b.len < (size_t)(4096 + extra - 2))
            ch_buf_puts(&b, "x");
        ch_buf_puts(&b, "\"}");
        assert_int_equal(b.len, 4096 + extra);
        assert_true(http_ask(&r, f.port, "POST", CHAT, "", b.data));
        assert_int_equal(r.status, extra <= 0 ? 200 : 413);
        http_free(&r);
        // The same without a length.
        ch_buf c = {0}, raw = {0};
        int fd = http_connect(f.port);
        ch_buf_printf(&c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n%zx\r\n%s\r\n0\r\n\r\n", CHAT, b.len, b.data);
        assert_true(http_send(fd, c.data, c.len));
        assert_true(http_read(fd, &raw, NULL, 20000));
        assert_true(http_parse(&r, &raw));
        assert_int_equal(r.status, extra <= 0 ? 200 : 413);
        http_free(&r);
        close(fd);
        ch_buf_free(&raw);
        ch_buf_free(&c);
        ch_buf_free(&b);
    }
    // A huge declared length is refused before any of the body is sent.
    ch_buf raw = {0};
    http_reply r;
    int fd = http_connect(f.port);
    const char *head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       "Content-Length: 2147483648\r\n\r\n";
    assert_true(http_send(fd, head, strlen(head)));
    assert_true(http_read(fd, &raw, "payload_too_large", 5000));
    assert_true(http_parse(&r, &raw));
    assert_int_equal(r.status, 413);
    http_free(&r);
    close(fd);
    ch_buf_free(&raw);
    stop(&f);
}

static void test_malformed_http(void **state) {
    static const char *const bytes[] = {
        "\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n{}",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"mess",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"mes",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    };
    fixture f;
    http_reply r;
    (void)state;
    start(&f);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
            ch_buf raw = {0};
            int fd = http_connect(f.port);
            assert_true(fd >= 0);
            http_send(fd, bytes[i], strlen(bytes[i]));
            http_read(fd, &raw, "\r\n\r\n", 20);
            if (raw.len) // an answer to any of these is a refusal
                assert_true(strncmp(raw.data, "HTTP/1.1 2", 10) != 0);
            close(fd);
            ch_buf_free(&raw);
        }
    assert_true(http_ask(&r, f.port, "GET", "/health", "", NULL));
    assert_int_equal(r.status, 200);
    http_free(&r);
    assert_int_equal(busy_slots(&f), 0);
    stop(&f);
}

static void test_keep_alive(void **state) {
    fixture f;
    (void)state;
    start(&f);
    int fd = http_connect(f.port);
    for (int i = 0; i < 3; i++) {
        ch_buf raw = {0}, b = {0};
        char body[256];
        snprintf(body, sizeof body, "{%s,\"max_tokens\":%d}", i == 1 ? "\"nothing\":1" : HI, 2);
        ch_buf_printf(&b, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", CHAT,
                      strlen(body), body);
        assert_true(http_send(fd, b.data, b.len));
        assert_true(http_read(fd, &raw, i == 1 ? "\"code\":" : "\"timings\":", 20000));
        assert_non_null(strstr(raw.data, i == 1 ? "HTTP/1.1 400" : "HTTP/1.1 200"));
        ch_buf_free(&raw);
        ch_buf_free(&b);
    }
    close(fd);
    stop(&f);
}

// ---- answers ----------------------------------------------------------------------------------------------------------------
typedef struct streamed {
    ch_buf content, reasoning;
    char finish[16];
    int n_chunks, completion_tokens;
    bool done, error;
} streamed;

static void read_frames(streamed *s, const ch_buf *body) {
    memset(s, 0, sizeof *s);
    s->completion_tokens = -1;
    for (const char *p = body->data; p && *p;) {
        const char *end = strstr(p, "\n\n");
        if (!end)
            fail_msg("cut frame: %s", p);
        if (strncmp(p, "data: [DONE]", 12) == 0) {
            s->done = true;
        } else if (strncmp(p, "data: ", 6) == 0) {
            json_error_t e;
            assert_false(s->done);
            json_t *v = json_loadb(p + 6, (size_t)(end - p) - 6, JSON_ALLOW_NUL, &e);
            if (!v)
                fail_msg("frame is not JSON: %.*s", (int)(end - p), p);
            json_t *choice = json_array_get(json_object_get(v, "choices"), 0), *d = json_object_get(choice, "delta");
            const json_t *t = json_object_get(d, "content"), *r = json_object_get(d, "reasoning_content");
            const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
            if (finish) { // carries no text (D3)
                snprintf(s->finish, sizeof s->finish, "%s", finish);
                assert_int_equal(json_object_size(d), 0);
            }
            ch_buf_append(&s->content, json_string_value(t), json_string_length(t)); // a model may well write a NUL
            ch_buf_append(&s->reasoning, json_string_value(r), json_string_length(r));
            if (json_object_get(v, "usage"))
                s->completion_tokens = (int)json_integer_value(json_object_get(json_object_get(v, "usage"), "completion_tokens"));
            s->error = s->error || json_object_get(v, "error");
            s->n_chunks++;
            json_decref(v);
        } else {
            assert_int_equal(p[0], ':'); // a comment
        }
        p = end + 2;
    }
}

static void free_streamed(streamed *s) {
    ch_buf_free(&s->content);
    ch_buf_free(&s->reasoning);
}

static void expect_text(const ch_buf *b, const json_t *v) {
    assert_int_equal(b->len, json_string_length(v));
    if (b->len)
        assert_memory_equal(b->data, json_string_value(v), b->len);
}

static void compare_modes(const fixture *f, const char *members) {
    char body[1024];
    http_reply whole, stream;
    streamed s;
    snprintf(body, sizeof body, "{%s}", members);
    assert_true(http_ask(&whole, f->port, "POST", CHAT, "", body));
    assert_int_equal(whole.status, 200);
    snprintf(body, sizeof body, "{%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}}", members);
    assert_true(http_ask(&stream, f->port, "POST", CHAT, "", body));
    assert_int_equal(stream.status, 200);
    assert_non_null(strstr(stream.head.data, "text/event-stream"));
    read_frames(&s, &stream.body);
    json_t *v = parse(&whole.body), *choice = json_array_get(json_object_get(v, "choices"), 0), *m = json_object_get(choice, "message");
    assert_true(s.done && !s.error);
    expect_text(&s.content, json_object_get(m, "content"));
    expect_text(&s.reasoning, json_object_get(m, "reasoning_content"));
    assert_string_equal(s.finish, json_string_value(json_object_get(choice, "finish_reason")));
    assert_int_equal(s.completion_tokens, json_integer_value(json_object_get(json_object_get(v, "usage"), "completion_tokens")));
    json_decref(v);
    free_streamed(&s);
    http_free(&whole);
    http_free(&stream);
}

static void test_modes_agree(void **state) {
    fixture f;
    char members[512];
    (void)state;
    start(&f);
    for (int seed = 1; seed <= 4; seed++) {
        snprintf(members, sizeof members, "%s,\"max_tokens\":40,\"seed\":%d,\"temperature\":1", HI, seed);
        compare_modes(&f, members);
    }
    snprintf(members, sizeof members, "%s,\"max_tokens\":10,\"temperature\":0", HI); // ends inside thinking (D2)
    compare_modes(&f, members);
    snprintf(members, sizeof members, "%s,\"max_tokens\":30,\"temperature\":0,\"chat_template_kwargs\":{\"enable_thinking\":false}", HI);
    compare_modes(&f, members);
    assert_int_equal(busy_slots(&f), 0);
    stop(&f);
}

static void test_trained_answer(void **state) {
    const char *data = getenv("CHIMERE_TESTDATA");
    char path[4096], body[512];
    fixture f;
    http_reply r;
    (void)state;
    if (!data)
        skip();
    snprintf(path, sizeof path, "%s/models/mini-qwen35moe-f16.gguf", data);
    ch_serve_params p = {0};
    start_with(&f, &p, path, 1, 4);
    assert_string_equal(ch_serve_model_name(f.s), "mini-qwen35moe-f16");
    snprintf(body, sizeof body, "{%s,\"temperature\":0}", HI);
    assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
    json_t *v = parse(&r.body), *m = json_object_get(json_array_get(json_object_get(v, "choices"), 0), "message");
    assert_string_equal(json_string_value(json_object_get(m, "content")), "The capital of France is Paris.");
    assert_string_equal(json_string_value(json_object_get(m, "reasoning_content")), "Capital of France: Paris.");
    json_decref(v);
    http_free(&r);
    snprintf(body, sizeof body, "{%s,\"temperature\":0,\"enable_thinking\":false,\"stop\":[\" of Fr\",\"zzz\"]}", HI);
    assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
    v = parse(&r.body);
    m = json_object_get(json_array_get(json_object_get(v, "choices"), 0), "message");
    assert_string_equal(json_string_value(json_object_get(m, "content")), "The capital");
    assert_null(json_object_get(m, "reasoning_content"));
    json_decref(v);
    http_free(&r);
    snprintf(body, sizeof body, "%s,\"temperature\":0,\"stop\":\" Paris\"", HI);
    compare_modes(&f, body);
    // A prompt that does not fit is the client's fault.
    ch_buf b = {0};
    ch_buf_puts(&b, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 5000; i++)
        ch_buf_puts(&b, "word ");
    ch_buf_puts(&b, "\"}]}");
    expect_error(&f, "POST", CHAT, "", b.data, 400, "context_length_exceeded");
    ch_buf_free(&b);
    stop(&f);
}

// ---- clients that leave, wait or crowd --------------------------------------------------------------------------------------
// Until n events of a stream have come.
static void read_events(int fd, ch_buf *raw, int n) {
    for (int i = 0; i < 4000; i++) {
        int have = 0;
        for (const char *p = raw->data; p && (p = strstr(p, "data: ")) != NULL; p++)
            have++;
        if (have >= n)
            return;
        http_read(fd, raw, NULL, 5);
    }
    fail_msg("fewer than %d events: %s", n, raw->data ? raw->data : "");
}

static void test_abort(void **state) {
    fixture f;
    char body[256];
    (void)state;
    start(&f);
    for (int k = 0; k < 8; k++) {
        bool stream = k % 2;
        ch_buf raw = {0};
        snprintf(body, sizeof body, "{%s,\"temperature\":1.5,\"stream\":%s}", HI, stream ? "true" : "false");
        int fd = http_begin(f.port, CHAT, body);
        assert_true(fd >= 0);
        wait_busy(&f, 1);
        if (stream && k % 4 == 1)
            read_events(fd, &raw, 5); // well inside the answer
        if (k >= 4)
            shutdown(fd, SHUT_WR); // half-closed counts as gone
        else
            close(fd);
        int ms = wait_idle(&f);
        if (ms > 1000)
            fail_msg("%s: the slot was free only after %d ms", body, ms);
        if (k >= 4)
            close(fd);
        ch_buf_free(&raw);
    }
    stop(&f);
}

static void test_queue_full(void **state) {
    fixture f;
    char body[256];
    (void)state;
    ch_serve_params p = {.name = "test"};
    start_with(&f, &p, model_path, 1, 1);
    snprintf(body, sizeof body, "{%s,\"temperature\":1.5,\"stream\":true}", HI);
    int running = http_begin(f.port, CHAT, body);
    wait_busy(&f, 1);
    int waiting = http_begin(f.port, CHAT, body);
    wait_busy(&f, 2);
    http_reply r;
    assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
    assert_int_equal(r.status, 429);
    assert_non_null(strstr(r.head.data, "Retry-After"));
    assert_non_null(strstr(r.body.data, "rate_limit_error"));
    http_free(&r);
    close(waiting); // leaves the queue before it ever starts
    close(running);
    assert_true(wait_idle(&f) < 1500);
    stop(&f);
}

// A stream that waits for a slot is told that it is alive; one that has waited too long is ended with a reason.
static void test_ping_and_time_limit(void **state) {
    fixture f;
    char body[256];
    http_reply r;
    ch_buf raw = {0};
    (void)state;
    ch_serve_params p = {.name = "test", .ping_ms = 100, .timeout_ms = 1500};
    start_with(&f, &p, model_path, 1, 8);
    int holder[3]; // enough to keep the slot busy while the last one waits
    snprintf(body, sizeof body, "{%s,\"temperature\":1.5,\"stream\":true}", HI);
    for (int i = 0; i < 3; i++)
        holder[i] = http_begin(f.port, CHAT, body);
    wait_busy(&f, 2);
    int fd = http_begin(f.port, CHAT, body);
    assert_true(http_read(fd, &raw, "\r\n: still working\n\n", 10000));
    assert_true(http_read(fd, &raw, "\"error\"", 10000));
    assert_non_null(strstr(raw.data, "HTTP/1.1 200"));
    assert_non_null(strstr(raw.data, "request_timeout"));
    assert_null(strstr(raw.data, "[DONE]"));
    for (int i = 0; i < 3; i++)
        close(holder[i]);
    close(fd);
    ch_buf_free(&raw);
    wait_idle(&f);
    snprintf(body, sizeof body, "{%s,\"temperature\":1.5,\"seed\":1}", HI);
    assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
    if (r.status != 200) // 2,000 tokens within the limit only on a fast machine
        assert_int_equal(r.status, 408);
    http_free(&r);
    stop(&f);
}

static void test_slow_reader(void **state) {
    fixture f;
    char body[256];
    http_reply r;
    ch_buf raw = {0};
    streamed s;
    (void)state;
    start(&f);
    snprintf(body, sizeof body, "{%s,\"temperature\":1,\"seed\":3,\"max_tokens\":400,\"stream\":true}", HI);
    int fd = http_connect(f.port), small = 2048;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    ch_buf b = {0};
    ch_buf_printf(&b, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                  CHAT, strlen(body), body);
    assert_true(http_send(fd, b.data, b.len));
    ch_buf_free(&b);
    // Nobody reads; another client is served all the same.
    snprintf(body, sizeof body, "{%s,\"max_tokens\":20}", HI);
    assert_true(http_ask(&r, f.port, "POST", CHAT, "", body));
    assert_int_equal(r.status, 200);
    http_free(&r);
    sleep_ms(300);
    assert_true(http_read(fd, &raw, NULL, 60000));
    assert_true(http_parse(&r, &raw));
    read_frames(&s, &r.body);
    assert_true(s.done); // and nothing was lost
    assert_true(s.finish[0] != 0);
    free_streamed(&s);
    http_free(&r);
    close(fd);
    ch_buf_free(&raw);
    stop(&f);
}

static void test_stop_while_running(void **state) {
    fixture f;
    char body[256];
    (void)state;
    start(&f);
    snprintf(body, sizeof body, "{%s,\"temperature\":1.5,\"stream\":true}", HI);
    int streamed_fd = http_begin(f.port, CHAT, body);
    snprintf(body, sizeof body, "{%s,\"temperature\":1.5}", HI);
    int whole_fd = http_begin(f.port, CHAT, body), idle_fd = http_connect(f.port);
    wait_busy(&f, 2);
    ch_serve_drain(f.s);
    expect_error(&f, "POST", CHAT, "", body, 503, "shutting_down");
    assert_int_equal(ch_serve_n_active(f.s), 2);
    uint64_t t0 = ch_clock_ns();
    stop(&f);
    assert_true(ch_clock_ns() - t0 < (uint64_t)5 * 1000000000);
    ch_buf raw = {0};
    assert_true(http_read(streamed_fd, &raw, NULL, 1000));
    assert_non_null(strstr(raw.data, "shutting_down"));
    assert_null(strstr(raw.data, "[DONE]"));
    ch_buf_reset(&raw);
    assert_true(http_read(whole_fd, &raw, NULL, 1000));
    assert_non_null(strstr(raw.data, "HTTP/1.1 503"));
    close(streamed_fd);
    close(whole_fd);
    close(idle_fd);
    ch_buf_free(&raw);
}

// Random cancels back to back: nothing may hang, and every slot comes back.
static void test_churn(void **state) {
    fixture f;
    ch_rng rng;
    (void)state;
    start(&f);
    ch_rng_seed(&rng, 5);
    int fd[6];
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 6; i++) {
            char body[256];
            snprintf(body, sizeof body, "{%s,\"max_tokens\":%d,\"stream\":%s,\"seed\":%d}", HI, 1 + (int)(ch_rng_u64(&rng) % 12),
                     ch_rng_u64(&rng) % 2 ? "true" : "false", i);
            fd[i] = http_begin(f.port, CHAT, body);
            assert_true(fd[i] >= 0);
        }
        sleep_ms((int)(ch_rng_u64(&rng) % 60));
        for (int i = 0; i < 6; i++) {
            ch_buf raw = {0};
            if (ch_rng_u64(&rng) % 2) {
                assert_true(http_read(fd[i], &raw, "finish_reason\":\"", 60000));
                assert_non_null(strstr(raw.data, "HTTP/1.1 200"));
            }
            close(fd[i]);
            ch_buf_free(&raw);
        }
    }
    wait_idle(&f);
    for (int i = 0; i < 1000 && ch_serve_n_active(f.s) > 0; i++)
        sleep_ms(2);
    assert_int_equal(ch_serve_n_active(f.s), 0);
    stop(&f);
}

static int make_model(void **state) {
    const char *dir = getenv("TMPDIR");
    ch_synth_shape shape;
    ch_error e = {0};
    (void)state;
    snprintf(model_path, sizeof model_path, "%s/chimere-serve-%d.gguf", dir ? dir : "/tmp", (int)getpid());
    if (ch_synth_preset(&shape, "qwen35moe", "tiny", &e) != 0)
        return -1;
    shape.n_ctx = 2048;
    shape.n_vocab = 32768; // an end token is unlikely, so that answers are long
    return ch_synth_write(model_path, &shape, ch_quant_type_by_name("f16")->id, 1, NULL, NULL, &e);
}

static int drop_model(void **state) {
    (void)state;
    return unlink(model_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),         cmocka_unit_test(test_key_and_origin), cmocka_unit_test(test_loading),
        cmocka_unit_test(test_port_taken),     cmocka_unit_test(test_json_depth),     cmocka_unit_test(test_max_tokens),
        cmocka_unit_test(test_body_limit),     cmocka_unit_test(test_malformed_http), cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_modes_agree),    cmocka_unit_test(test_trained_answer), cmocka_unit_test(test_abort),
        cmocka_unit_test(test_queue_full),     cmocka_unit_test(test_slow_reader),    cmocka_unit_test(test_stop_while_running),
        cmocka_unit_test(test_churn),         cmocka_unit_test(test_ping_and_time_limit),
    };
    return cmocka_run_group_tests(tests, make_model, drop_model);
}
