// Chat requests: limits at n-1, n and n+1, types, refusals by name, and what is made of messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/request.h"

// Parses members put before a plain user message; 0: accepted, else the status of the refusal, with code and param in *f.
static int try_fields(const char *members, ch_serve_chat *c, ch_serve_fault *f) {
    ch_buf b = {0};
    ch_buf_printf(&b, "{%s%s\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", members, members[0] ? "," : "");
    memset(f, 0, sizeof *f);
    bool ok = ch_serve_parse_chat(c, NULL, b.data, b.len, f);
    ch_buf_free(&b);
    return ok ? 0 : f->status;
}

static void accept_fields(const char *members) {
    ch_serve_chat c;
    ch_serve_fault f;
    if (try_fields(members, &c, &f) != 0)
        fail_msg("%s: refused: %s", members, f.msg);
    ch_serve_free_chat(&c);
}

static void refuse_fields(const char *members, const char *code, const char *param) {
    ch_serve_chat c;
    ch_serve_fault f;
    if (try_fields(members, &c, &f) == 0)
        fail_msg("%s: accepted", members);
    assert_int_equal(f.status, 400);
    assert_string_equal(f.code, code);
    assert_string_equal(f.param, param);
    assert_string_equal(f.type, "invalid_request_error");
}

static void test_max_tokens(void **state) {
    static const struct {
        const char *text;
        int64_t want;
    } good[] = {{"1", 1}, {"2", 2}, {"100.0", 100}, {"1e3", 1000}, {"9223372036854775807", INT64_MAX},
                {"9223372036854775808", INT64_MAX}, {"1e300", INT64_MAX}};
    static const char *const bad[] = {"0", "-1", "1.5", "-9223372036854775808", "-1e300"};
    static const char *const wrong[] = {"\"100\"", "true", "[]", "{}"};
    static const char *const field[] = {"max_tokens", "max_completion_tokens"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        char m[96];
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
            ch_serve_chat c;
            ch_serve_fault f;
            snprintf(m, sizeof m, "\"%s\":%s", field[k], good[i].text);
            assert_int_equal(try_fields(m, &c, &f), 0);
            assert_true(c.max_tokens == good[i].want);
            ch_serve_free_chat(&c);
        }
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            snprintf(m, sizeof m, "\"%s\":%s", field[k], bad[i]);
            refuse_fields(m, "invalid_value", field[k]);
        }
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            snprintf(m, sizeof m, "\"%s\":%s", field[k], wrong[i]);
            refuse_fields(m, "invalid_type", field[k]);
        }
        snprintf(m, sizeof m, "\"%s\":null", field[k]);
        accept_fields(m);
    }
    accept_fields("\"max_tokens\":5,\"max_completion_tokens\":5");
    refuse_fields("\"max_tokens\":5,\"max_completion_tokens\":6", "invalid_value", "max_tokens");
}

static void test_sampling(void **state) {
    ch_serve_chat c;
    ch_serve_fault f;
    (void)state;
    assert_int_equal(try_fields("\"temperature\":0,\"top_k\":40,\"top_p\":0.5,\"min_p\":0.25,\"seed\":77", &c, &f), 0);
    assert_true(chimere_sampling_get(&c.sampling, "temperature") == 0);
    assert_true(chimere_sampling_get(&c.sampling, "top_k") == 40);
    assert_true(chimere_sampling_get(&c.sampling, "top_p") == 0.5);
    assert_true(chimere_sampling_get(&c.sampling, "min_p") == 0.25);
    assert_true(c.sampling.seed == 77);
    ch_serve_free_chat(&c);
    chimere_param row;
    for (size_t i = 0; chimere_sampling_param(i, &row); i++) {
        char m[96];
        snprintf(m, sizeof m, "\"%s\":%.17g", row.name, row.min);
        accept_fields(m);
        snprintf(m, sizeof m, "\"%s\":%.17g", row.name, row.max);
        accept_fields(m);
        snprintf(m, sizeof m, "\"%s\":%.17g", row.name, row.min - 1);
        refuse_fields(m, "invalid_value", row.name);
        snprintf(m, sizeof m, "\"%s\":%.17g", row.name, row.max + 1);
        refuse_fields(m, "invalid_value", row.name);
        snprintf(m, sizeof m, "\"%s\":\"1\"", row.name);
        refuse_fields(m, "invalid_type", row.name);
    }
    refuse_fields("\"seed\":-2", "invalid_value", "seed");
    accept_fields("\"seed\":-1");
    refuse_fields("\"seed\":0.5", "invalid_value", "seed");
}

static void test_stop(void **state) {
    ch_buf b = {0};
    (void)state;
    accept_fields("\"stop\":\"x\"");
    accept_fields("\"stop\":[]");
    accept_fields("\"stop\":null");
    refuse_fields("\"stop\":7", "invalid_type", "stop");
    refuse_fields("\"stop\":[\"a\",7]", "invalid_type", "stop[1]");
    refuse_fields("\"stop\":[\"\"]", "invalid_value", "stop[0]");
    for (int n = CHIMERE_STOP_MAX - 1; n <= CHIMERE_STOP_MAX + 1; n++) {
        ch_buf_reset(&b);
        ch_buf_puts(&b, "\"stop\":[");
        for (int i = 0; i < n; i++)
            ch_buf_printf(&b, "%s\"s%d\"", i ? "," : "", i);
        ch_buf_puts(&b, "]");
        if (n <= CHIMERE_STOP_MAX)
            accept_fields(b.data);
        else
            refuse_fields(b.data, "invalid_value", "stop");
    }
    for (int n = CHIMERE_STOP_BYTES_MAX - 1; n <= CHIMERE_STOP_BYTES_MAX + 1; n++) {
        ch_buf_reset(&b);
        ch_buf_printf(&b, "\"stop\":\"%0*d\"", n, 0);
        if (n <= CHIMERE_STOP_BYTES_MAX)
            accept_fields(b.data);
        else
            refuse_fields(b.data, "invalid_value", "stop");
    }
    ch_buf_free(&b);
}

static void test_unsupported(void **state) {
    static const struct {
        const char *field, *asks, *neutral;
    } row[] = {
        {"logprobs", "true", "false"}, {"top_logprobs", "3", "0"}, {"logit_bias", "{\"5\":1}", "{}"}, {"n", "2", "1"},
        {"frequency_penalty", "0.5", "0"}, {"presence_penalty", "-1", "0.0"}, {"function_call", "\"auto\"", "null"},
        {"response_format", "{\"type\":\"json_object\"}", "{\"type\":\"text\"}"}, {"parallel_tool_calls", "false", "true"},
        {"tool_choice", "\"required\"", "\"auto\""}, {"modalities", "[\"text\",\"audio\"]", "[\"text\"]"},
        {"audio", "{}", "null"}, {"reasoning_effort", "\"low\"", "null"}, {"tool_choice", "{\"type\":\"function\"}", "\"none\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char m[128];
        snprintf(m, sizeof m, "\"%s\":%s", row[i].field, row[i].asks);
        refuse_fields(m, "unsupported", row[i].field);
        snprintf(m, sizeof m, "\"%s\":%s", row[i].field, row[i].neutral);
        accept_fields(m);
    }
    accept_fields("\"user\":\"u\",\"metadata\":{\"a\":1},\"store\":true,\"service_tier\":\"auto\",\"something_new\":[1]");
    refuse_fields("\"stream_options\":{\"include_usage\":true}", "invalid_value", "stream_options");
    accept_fields("\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    refuse_fields("\"stream\":\"yes\"", "invalid_type", "stream");
    refuse_fields("\"model\":7", "invalid_type", "model");
}

static void test_template_options(void **state) {
    ch_serve_chat c;
    ch_serve_fault f;
    (void)state;
    assert_int_equal(try_fields("", &c, &f), 0);
    assert_int_equal(c.enable_thinking, -1);
    assert_null(c.kwargs_json);
    ch_serve_free_chat(&c);
    assert_int_equal(try_fields("\"chat_template_kwargs\":{\"enable_thinking\":false,\"level\":3}", &c, &f), 0);
    assert_int_equal(c.enable_thinking, 0);
    assert_string_equal(c.kwargs_json, "{\"level\":3}");
    ch_serve_free_chat(&c);
    refuse_fields("\"chat_template_kwargs\":{\"enable_thinking\":1}", "invalid_type", "chat_template_kwargs.enable_thinking");
    refuse_fields("\"chat_template_kwargs\":{\"messages\":[]}", "invalid_value", "chat_template_kwargs");
    refuse_fields("\"chat_template_kwargs\":[]", "invalid_type", "chat_template_kwargs");
    accept_fields("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a.b-c_1\"}}]");
    refuse_fields("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]", "invalid_value", "tools[0].function.name");
    refuse_fields("\"tools\":[{\"type\":\"retrieval\"}]", "invalid_value", "tools[0].type");
    assert_int_equal(try_fields("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"none\"", &c, &f), 0);
    assert_null(c.tools_json);
    ch_serve_free_chat(&c);
}

static int try_messages(const char *messages, char *made, size_t size, ch_serve_fault *f) {
    ch_serve_chat c;
    ch_buf b = {0};
    ch_buf_printf(&b, "{\"messages\":%s}", messages);
    memset(f, 0, sizeof *f);
    bool ok = ch_serve_parse_chat(&c, NULL, b.data, b.len, f);
    ch_buf_free(&b);
    if (ok) {
        snprintf(made, size, "%s", c.messages_json);
        ch_serve_free_chat(&c);
    }
    return ok ? 0 : f->status;
}

static void test_messages(void **state) {
    static const struct {
        const char *in, *out;
    } good[] = {
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]",
         "[{\"role\":\"user\",\"content\":\"ab\"}]"},
        {"[{\"role\":\"developer\",\"content\":\"d\"}]", "[{\"role\":\"system\",\"content\":\"d\"}]"},
        {"[{\"role\":\"assistant\",\"content\":null,\"refusal\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":"
         "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"}]",
         "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
         "{\"a\":1}},\"id\":\"c\"}]},{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"c\"}]"},
        {"[{\"role\":\"assistant\",\"reasoning_content\":\"r\",\"content\":\"c\"}]",
         "[{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"r\"}]"},
    };
    static const struct {
        const char *in, *code, *param;
    } bad[] = {
        {"null", "missing_required_parameter", "messages"},
        {"[]", "invalid_value", "messages"},
        {"{}", "invalid_type", "messages"},
        {"[7]", "invalid_type", "messages[0]"},
        {"[{\"content\":\"x\"}]", "missing_required_parameter", "messages[0].role"},
        {"[{\"role\":\"robot\",\"content\":\"x\"}]", "invalid_value", "messages[0].role"},
        {"[{\"role\":\"user\"}]", "missing_required_parameter", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":7}]", "invalid_type", "messages[0].content"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "unsupported_content", "messages[0].content[0]"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", "invalid_type", "messages[0].content[0]"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"[1]\"}}]}]", "invalid_type",
         "messages[0].tool_calls[0].function.arguments"},
        {"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}]", "invalid_json",
         "messages[0].tool_calls[0].function.arguments"},
    };
    char made[1024];
    ch_serve_fault f;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (try_messages(good[i].in, made, sizeof made, &f) != 0)
            fail_msg("%s: %s", good[i].in, f.msg);
        assert_string_equal(made, good[i].out);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (try_messages(bad[i].in, made, sizeof made, &f) != 400)
            fail_msg("%s: not refused", bad[i].in);
        assert_string_equal(f.code, bad[i].code);
        assert_string_equal(f.param, bad[i].param);
    }
}

// depth levels of arrays around nothing, in an ignored field; the request object itself is one more level.
static int try_depth(int depth, bool in_arguments) {
    ch_buf b = {0};
    ch_serve_chat c;
    ch_serve_fault f = {0};
    ch_buf_puts(&b, in_arguments ? "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
                                   "\"arguments\":\"{\\\"x\\\":" : "{\"x\":");
    for (int i = 0; i < depth; i++)
        ch_buf_puts(&b, "[");
    for (int i = 0; i < depth; i++)
        ch_buf_puts(&b, "]");
    ch_buf_puts(&b, in_arguments ? "}\"}}]}]}" : ",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    bool ok = ch_serve_parse_chat(&c, NULL, b.data, b.len, &f);
    if (ok)
        ch_serve_free_chat(&c);
    else
        assert_string_equal(f.code, "invalid_json");
    ch_buf_free(&b);
    return ok ? 0 : f.status;
}

static void test_depth(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(try_depth(60, k), 0);
        assert_int_equal(try_depth(CH_SERVE_JSON_DEPTH - 2, k), 0);
        assert_int_equal(try_depth(CH_SERVE_JSON_DEPTH - 1, k), 0);
        assert_int_equal(try_depth(CH_SERVE_JSON_DEPTH, k), 400);
        assert_int_equal(try_depth(300, k), 400);
        assert_int_equal(try_depth(10000, k), 400);
        assert_int_equal(try_depth(1000000, k), 400);
    }
}

static void test_size(void **state) {
    (void)state;
    for (int extra = -1; extra <= 1; extra++) { // around the limit on values: [0,0,...] counts its brackets and commas
        ch_buf b = {0};
        ch_serve_fault f = {0};
        ch_buf_puts(&b, "[0");
        for (int i = 0; i < CH_SERVE_JSON_VALUES - 2 + extra; i++)
            ch_buf_puts(&b, ",0");
        ch_buf_puts(&b, "]");
        json_t *v = ch_serve_read_json(b.data, b.len, "body", NULL, &f);
        assert_int_equal(v != NULL, extra <= 0);
        json_decref(v);
        ch_buf_free(&b);
    }
}

static void test_bytes(void **state) {
    static const char *const bad[] = {"", "{", "nul", "[1,]", "{\"messages\":\"\xff\"}", "{\"a\":1,\"a\":2}", "{\"a\":1} x",
                                      "{\"a\":\"\\u0000\"}", "{\"a\":\"\\ud800\"}", "{\"a\":1e999}", "\"x\"", "7"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ch_serve_chat c;
        ch_serve_fault f = {0};
        assert_false(ch_serve_parse_chat(&c, NULL, bad[i], strlen(bad[i]), &f));
        assert_int_equal(f.status, 400);
        assert_true(f.msg[0] != 0);
    }
}

static void test_put_string(void **state) {
    static const struct {
        const char *in, *out;
    } row[] = {{"", "\"\""}, {"a\"b\\c", "\"a\\\"b\\\\c\""}, {"\n\t\r\x01\x7f", "\"\\n\\t\\r\\u0001\\u007f\""},
               {"h\xc3\xa9\xf0\x9f\x99\x82", "\"h\xc3\xa9\xf0\x9f\x99\x82\""}, {"\xff" "a\xc3", "\"\xef\xbf\xbd" "a\xef\xbf\xbd\""}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        ch_buf b = {0};
        assert_true(ch_serve_put_string(&b, row[i].in, strlen(row[i].in)));
        assert_string_equal(b.data, row[i].out);
        ch_buf_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_max_tokens), cmocka_unit_test(test_sampling),   cmocka_unit_test(test_stop),
        cmocka_unit_test(test_unsupported), cmocka_unit_test(test_template_options), cmocka_unit_test(test_messages),
        cmocka_unit_test(test_depth),      cmocka_unit_test(test_size),       cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_put_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
