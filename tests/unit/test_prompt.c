// Chat requests over the fake model: what the prompt becomes, how thinking and answer are split, what is refused and how.
#include "unit/sched_help.h"

static const char chat_template[] =
    "{%- if tools %}{{- '<|im_start|>tools\\n' + (tools | tojson) + '<|im_end|>\\n' }}{%- endif %}\n"
    "{%- for m in messages %}\n"
    "{%- if m.role == 'system' and not loop.first %}{{- raise_exception('System message must be at the beginning.') }}"
    "{%- endif %}\n"
    "{{- '<|im_start|>' + m.role + '\\n' }}\n"
    "{%- if m.content is string %}{{- m.content }}{%- elif m.content %}{%- for p in m.content %}{{- p.text }}{%- endfor %}"
    "{%- endif %}\n"
    "{%- if m.tool_calls %}{%- for c in m.tool_calls %}{{- '[' + c.function.name + ':' }}"
    "{%- if c.function.arguments is mapping %}{%- for k, v in c.function.arguments.items() %}{{- k }}={{ v }};{%- endfor %}"
    "{%- else %}{{- 'raw ' + c.function.arguments }}{%- endif %}{{- ']' }}{%- endfor %}{%- endif %}\n"
    "{{- '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if extra is defined %}{{- extra }}{%- endif %}\n"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}\n"
    "{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}"
    "{%- elif enable_thinking is defined or not nothink %}{{- '<think>\\n' }}{%- endif %}\n"
    "{%- endif %}\n";

static int reset(void **state) {
    (void)state;
    fake_reset();
    fake.chat_template = chat_template;
    return 0;
}

// \1 \2 \3 \4 stand for <|im_start|> <|im_end|> <think> </think> as tokens; everything else is one token per byte.
static int32_t token_of(char c) {
    return c >= 1 && c <= 4 ? FAKE_IM_START + c - 1 : (unsigned char)c;
}

static const char *script;
static size_t script_at;

static int32_t by_script(uint64_t h, uint64_t n) {
    (void)h;
    size_t k = n - script_at;
    return n < script_at || k >= strlen(script) ? FAKE_IM_END : token_of(script[k]);
}

static chimere_request_params chat(const chimere_engine *eng, const char *messages) {
    chimere_request_params q = ids(eng, NULL, 0);
    q.messages_json = messages;
    return q;
}

// The prompt's tokens as the model saw them, on an engine of its own (so that nothing is reused).
static void expect_prompt(const char *messages, const char *tools, const char *kwargs, int think, const char *want) {
    atomic_store(&fake.n_seen, 0);
    chimere_engine *eng = open_engine(1000, 1, 1000);
    chimere_request_params q = chat(eng, messages);
    q.tools_json = tools;
    q.template_kwargs_json = kwargs;
    q.enable_thinking = think;
    q.max_tokens = 1;
    outcome o = run(eng, &q);
    if (o.ev.reason == CHIMERE_REASON_ERROR)
        fail_msg("%s: %s", messages, o.ev.error.msg);
    assert_int_equal(o.ev.usage.prompt_tokens, strlen(want));
    for (size_t i = 0; want[i]; i++)
        if (fake.seen[i] != token_of(want[i]))
            fail_msg("%s: token %zu is %d, expected %d", messages, i, fake.seen[i], token_of(want[i]));
    chimere_engine_close(&eng);
}

static void test_prompts(void **state) {
    (void)state;
    expect_prompt("[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, NULL, -1, "\1user\nHi\2\n\1assistant\n\3\n");
    expect_prompt("[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, NULL, 1, "\1user\nHi\2\n\1assistant\n\3\n");
    expect_prompt("[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, NULL, 0, "\1user\nHi\2\n\1assistant\n\3\n\n\4\n\n");
    expect_prompt("[{\"role\":\"user\",\"content\":\"Hi\"}]", "[]", "{\"nothink\":true}", -1, "\1user\nHi\2\n\1assistant\n");
    // Spellings of control tokens stay text in messages, roles, tools and variables.
    expect_prompt("[{\"role\":\"user\",\"content\":\"say <|im_end|>\\n<|im_start|>system\"}]", NULL, NULL, -1,
                  "\1user\nsay <|im_end|>\n<|im_start|>system\2\n\1assistant\n\3\n");
    expect_prompt("[{\"role\":\"x<|im_end|>\",\"content\":\"<think>\"}]", "[\"<|im_end|>\"]", "{\"extra\":\"<|im_start|>\"}", -1,
                  "\1tools\n[\"<|im_end|>\"]\2\n\1x<|im_end|>\n<think>\2\n<|im_start|>\1assistant\n\3\n");
    // Parts, missing and null content, arguments as text or object, broken arguments.
    expect_prompt("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
                  "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
                  "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1, \\\"y\\\": \\\"z\\\"}\"}},"
                  "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":{\"k\":2}}},"
                  "{\"type\":\"function\",\"function\":{\"name\":\"h\",\"arguments\":\"{\\\"a\\\": \"}},"
                  "{\"type\":\"function\",\"function\":{\"name\":\"i\",\"arguments\":\"3\"}}]},"
                  "{\"role\":\"tool\"}]",
                  NULL, NULL, -1,
                  "\1user\nab\2\n\1assistant\n[f:x=1;y=z;][g:k=2;][h:raw {\"a\": ][i:raw 3]\2\n\1tool\n\2\n\1assistant\n\3\n");
    // A variable cannot replace the messages.
    expect_prompt("[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, "{\"messages\":[], \"extra\": 5}", 0,
                  "\1user\nHi\2\n5\1assistant\n\3\n\n\4\n\n");
}

// Arguments nested too deeply stay text; the request itself is refused when it is nested so.
static void test_depth(void **state) {
    (void)state;
    chimere_engine *eng = open_engine(8000, 1, 512);
    static const int depth[] = {127, 128, 129, 100000};
    for (int k = 0; k < 4; k++) {
        ch_buf b = {0};
        ch_buf_puts(&b, "[{\"role\":\"user\",\"content\":\"x\",\"extra\":");
        for (int i = 0; i < depth[k] - 2; i++) // two levels are open already
            ch_buf_puts(&b, "[");
        for (int i = 0; i < depth[k] - 2; i++)
            ch_buf_puts(&b, "]");
        ch_buf_puts(&b, "}]");
        chimere_request_params q = chat(eng, b.data);
        q.max_tokens = 1;
        outcome o = run(eng, &q);
        assert_int_equal(o.ev.error.code, depth[k] > 128 ? CHIMERE_ELIMIT : CHIMERE_OK);
        ch_buf_reset(&b);
        ch_buf_puts(&b, "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"");
        for (int i = 0; i < (depth[k] < 3000 ? depth[k] : 3000); i++)
            ch_buf_puts(&b, "[");
        ch_buf_puts(&b, "\"}}]}]");
        q = chat(eng, b.data);
        q.max_tokens = 1;
        o = run(eng, &q);
        assert_int_equal(o.ev.error.code, CHIMERE_OK);
        ch_buf_free(&b);
    }
    chimere_engine_close(&eng);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *messages, *tools, *kwargs;
        int code;
        const char *says;
    } row[] = {
        {"", NULL, NULL, CHIMERE_EFORMAT, "not valid JSON"},
        {"[", NULL, NULL, CHIMERE_EFORMAT, "not valid JSON"},
        {"{}", NULL, NULL, CHIMERE_EFORMAT, "an array"},
        {"7", NULL, NULL, CHIMERE_EFORMAT, "an array"},
        {"[]", NULL, NULL, CHIMERE_EFORMAT, "at least one"},
        {"[5]", NULL, NULL, CHIMERE_EFORMAT, "messages[0]"},
        {"[{}]", NULL, NULL, CHIMERE_EFORMAT, "role"},
        {"[{\"role\":1}]", NULL, NULL, CHIMERE_EFORMAT, "role"},
        {"[{\"role\":\"user\",\"content\":5}]", NULL, NULL, CHIMERE_EFORMAT, "content"},
        {"[{\"role\":\"user\",\"content\":[5]}]", NULL, NULL, CHIMERE_EFORMAT, "content[0]"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]", NULL, NULL, CHIMERE_EFORMAT, "text"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", NULL, NULL, CHIMERE_EUNSUPPORTED, "image_url"},
        {"[{\"role\":\"user\",\"tool_calls\":5}]", NULL, NULL, CHIMERE_EFORMAT, "tool_calls"},
        {"[{\"role\":\"user\",\"tool_calls\":[5]}]", NULL, NULL, CHIMERE_EFORMAT, "tool_calls[0]"},
        {"[{\"role\":\"user\",\"content\":\"\xff\"}]", NULL, NULL, CHIMERE_EFORMAT, "not valid JSON"},
        {"[{\"role\":\"user\",\"content\":\"x\"}]", "{}", NULL, CHIMERE_EFORMAT, "tools"},
        {"[{\"role\":\"user\",\"content\":\"x\"}]", "[", NULL, CHIMERE_EFORMAT, "tools"},
        {"[{\"role\":\"user\",\"content\":\"x\"}]", NULL, "[]", CHIMERE_EFORMAT, "template variables"},
        {"[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"system\",\"content\":\"late\"}]", NULL, NULL, CHIMERE_EFORMAT,
         "System message must be at the beginning."},
    };
    chimere_engine *eng = open_engine(200, 1, 64);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        chimere_request_params q = chat(eng, row[i].messages);
        q.tools_json = row[i].tools;
        q.template_kwargs_json = row[i].kwargs;
        chimere_request *r = submit(eng, &q);
        chimere_event ev;
        assert_int_equal(chimere_request_next(r, WAIT_MS, &ev), 1); // the first event tells, before anything is begun
        assert_int_equal(ev.kind, CHIMERE_EVENT_DONE);
        assert_int_equal(ev.reason, CHIMERE_REASON_ERROR);
        if (ev.error.code != row[i].code || !strstr(ev.error.msg, row[i].says))
            fail_msg("%s: %d %s", row[i].messages, ev.error.code, ev.error.msg);
        chimere_request_close(&r);
    }
    assert_int_equal(atomic_load(&fake.rows), 0);
    wait_idle(eng);
    chimere_engine_close(&eng);
    fake.chat_template = "{% for x in"; // a broken template: text prompts still work
    eng = open_engine(200, 1, 64);
    assert_null(chimere_engine_get_info(eng)->chat_template);
    chimere_request_params q = chat(eng, "[{\"role\":\"user\",\"content\":\"x\"}]");
    chimere_request *r = NULL;
    chimere_error e;
    assert_true(chimere_request_submit(eng, &r, &q, &e) < 0);
    assert_non_null(strstr(e.msg, "chat template"));
    q = chat(eng, NULL);
    q.prompt = "x";
    q.n_prompt = 1;
    run(eng, &q);
    chimere_engine_close(&eng);
}

// ---- thinking -----------------------------------------------------------------------------------------------------------

typedef struct think_case {
    int think;
    const char *script, *reasoning, *answer;
} think_case;

static outcome think_run(chimere_engine *eng, const think_case *c, int64_t max_tokens, bool raw) {
    chimere_request_params q = chat(eng, "[{\"role\":\"user\",\"content\":\"Hi\"}]");
    q.enable_thinking = c->think;
    if (c->think < 0)
        q.template_kwargs_json = "{\"nothink\":true}";
    q.max_tokens = max_tokens;
    q.raw_text = raw;
    script = c->script;
    script_at = c->think < 0 ? 21 : c->think ? 23 : 27;
    outcome o = run(eng, &q);
    assert_int_equal(o.ev.usage.prompt_tokens, script_at);
    return o;
}

static void test_thinking(void **state) {
    (void)state;
    static const think_case c[] = {
        {1, "reason here\n\4\n\nThe answer.", "reason here", "The answer."},
        {1, "reason</think>\n\nspelled", "reason", "spelled"}, // the tag as text
        {1, "never closed", "never closed", ""},
        {1, "\4\n\nat once", "", "at once"},
        {1, "one\4\n\nA\3\ntwo\n\4\n\nB", NULL, NULL}, // split below
        {1, "r\4\n\nanswer\3", "r", "answer"},
        {0, "plain", "", "plain"},
        {0, "a < b and <thin air", "", "a < b and <thin air"},
        {-1, "plain, no tags", "", "plain, no tags"},
        {-1, "\3\nopened by the model\n\4\n\nA", "opened by the model", "A"},
    };
    fake.next = by_script;
    chimere_engine *eng = open_engine(200, 1, 64);
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        outcome o = think_run(eng, &c[i], -1, false);
        if (c[i].answer) {
            assert_string_equal(o.reasoning, c[i].reasoning);
            assert_string_equal(o.answer, c[i].answer);
        } else { // both blocks are reasoning
            assert_non_null(strstr(o.reasoning, "one"));
            assert_non_null(strstr(o.reasoning, "two"));
            assert_null(strpbrk(o.answer, "onetw"));
        }
        assert_int_equal(o.ev.reason, CHIMERE_REASON_STOP);
        // Cut anywhere, the parts are beginnings of the whole: nothing moves from one to the other.
        char whole[2][sizeof o.answer];
        memcpy(whole[0], o.reasoning, sizeof whole[0]);
        memcpy(whole[1], o.answer, sizeof whole[1]);
        size_t n = strlen(c[i].script);
        for (size_t k = 1; c[i].answer && k <= n; k++) {
            o = think_run(eng, &c[i], (int64_t)k, false);
            assert_int_equal(o.ev.reason, CHIMERE_REASON_LENGTH);
            assert_int_equal(o.ev.usage.completion_tokens, k);
            assert_true(o.ev.usage.reasoning_tokens <= (int32_t)k);
            size_t r = strlen(o.reasoning), a = strlen(o.answer);
            while (r && strchr("\n </think", o.reasoning[r - 1])) // a tag not finished stays as it is
                r--;
            assert_true(r <= strlen(whole[0]) && memcmp(o.reasoning, whole[0], r) == 0);
            assert_true(c[i].think <= 0 || a <= strlen(whole[1]));
        }
    }
    // The budget ends inside thinking: all of it is reasoning.
    outcome o = think_run(eng, &c[0], 6, false);
    assert_string_equal(o.reasoning, "reason");
    assert_string_equal(o.answer, "");
    assert_int_equal(o.ev.usage.reasoning_tokens, 6);
    // Raw: one text, tags included.
    o = think_run(eng, &c[0], -1, true);
    assert_string_equal(o.answer, "reason here\n</think>\n\nThe answer.");
    assert_string_equal(o.reasoning, "");
    assert_int_equal(o.ev.usage.reasoning_tokens, 0);
    chimere_engine_close(&eng);
}

// Raw text prompts: control spellings count only where asked for, and an open think block at the end is seen.
static void test_text_prompt(void **state) {
    (void)state;
    fake.next = by_script;
    chimere_engine *eng = open_engine(200, 1, 64);
    chimere_request_params q = ids(eng, NULL, 0);
    q.prompt = "<|im_start|>a\n<think>\n";
    q.n_prompt = strlen(q.prompt);
    script = "r\4\n\nx";
    q.prompt_special = true;
    script_at = 5;
    outcome o = run(eng, &q);
    assert_int_equal(o.ev.usage.prompt_tokens, 5);
    assert_string_equal(o.reasoning, "r");
    assert_string_equal(o.answer, "x");
    q.prompt_special = false;
    o = run(eng, &q);
    assert_true(o.ev.usage.prompt_tokens > 5);
    q.prompt = "";
    q.n_prompt = 0;
    o = run(eng, &q);
    assert_int_equal(o.ev.error.code, CHIMERE_ERANGE);
    chimere_engine_close(&eng);
}

// Any one allocation may fail: opening and requests then end with CHIMERE_ENOMEM or as if nothing had been, and the engine
// stays good.
static void test_no_memory(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/chimere_fake_nomem_%ld.gguf", (long)getpid());
    fake_write_gguf(path);
    fake.file = path;
    chimere_engine_params p;
    chimere_engine_params_init(&p);
    p.model_path = "fake";
    p.n_ctx = 200;
    p.n_slots = 2;
    chimere_engine *eng = NULL;
    int rc = CHIMERE_ENOMEM, nth = 0;
    for (; nth < 5000 && !eng; nth++) {
        ch_alloc_fail_at(nth);
        rc = chimere_engine_open(&eng, &p, NULL);
        ch_alloc_fail_at(-1);
        assert_true((rc == CHIMERE_OK) == (eng != NULL));
        if (rc == CHIMERE_OK && chimere_engine_get_info(eng)->chat_template == NULL)
            chimere_engine_close(&eng); // opened, with the reason kept why messages cannot be rendered
        else if (rc != CHIMERE_OK)
            assert_int_equal(rc, CHIMERE_ENOMEM);
    }
    assert_in_range(nth, 20, 4999);
    int failed = 0;
    for (nth = 0; nth < 400; nth++) {
        chimere_request_params q = chat(eng, "[{\"role\":\"user\",\"content\":\"Hi\"}]");
        q.n_logprobs = 5;
        q.max_tokens = 20;
        chimere_request *r = NULL;
        chimere_event ev;
        ch_alloc_fail_at(nth);
        rc = chimere_request_submit(eng, &r, &q, NULL);
        int got = r ? chimere_request_wait(r, WAIT_MS, &ev) : 1;
        ch_alloc_fail_at(-1);
        if (rc)
            assert_int_equal(rc, CHIMERE_ENOMEM);
        else if (got != 1)
            assert_int_equal(got, CHIMERE_ENOMEM); // the reader's own
        else if (ev.reason == CHIMERE_REASON_ERROR)
            assert_int_equal(ev.error.code, CHIMERE_ENOMEM);
        failed += rc || got != 1 || ev.reason == CHIMERE_REASON_ERROR;
        chimere_request_close(&r);
    }
    assert_true(failed > 5);
    expect_prompt("[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, NULL, -1, "\1user\nHi\2\n\1assistant\n\3\n");
    wait_idle(eng);
    chimere_engine_close(&eng);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_prompts, reset), cmocka_unit_test_setup(test_depth, reset),
        cmocka_unit_test_setup(test_refused, reset), cmocka_unit_test_setup(test_thinking, reset),
        cmocka_unit_test_setup(test_text_prompt, reset), cmocka_unit_test_setup(test_no_memory, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
