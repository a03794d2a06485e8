// The public interface over the trained test model (CHIMERE_TESTDATA; skipped without it): greedy answers are the
// reference engine's, requests beside each other and reused prefixes change nothing, chats read as sentences.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include <chimere.h>

#define WAIT_MS 120000
#define N_SLOTS 4

static chimere_engine *engine;
static json_t *eval;

static int open_all(void **state) {
    (void)state;
    const char *data = getenv("CHIMERE_TESTDATA");
    char path[1024];
    if (!data)
        return 0;
    snprintf(path, sizeof path, "%s/models/mini-eval.json", data);
    eval = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/models/mini-qwen35moe-f16.gguf", data);
    chimere_engine_params p;
    chimere_engine_params_init(&p);
    p.model_path = path;
    p.n_ctx = 512;
    p.n_slots = N_SLOTS;
    p.n_queue = 400;
    chimere_error e = {0};
    if (!eval || chimere_engine_open(&engine, &p, &e) != CHIMERE_OK) {
        fprintf(stderr, "test model: %s\n", e.msg);
        return -1;
    }
    return 0;
}

static int close_all(void **state) {
    (void)state;
    chimere_engine_close(&engine);
    json_decref(eval);
    return 0;
}

static void need_model(void) {
    if (!engine)
        skip();
}

static chimere_request_params greedy(const char *prompt) {
    chimere_request_params q;
    chimere_request_params_init(&q, engine);
    q.prompt = prompt;
    q.n_prompt = prompt ? strlen(prompt) : 0;
    q.prompt_special = true;
    chimere_sampling_set(&q.sampling, "temperature", 0, NULL);
    return q;
}

static chimere_request *submit(const chimere_request_params *q) {
    chimere_request *r = NULL;
    chimere_error e = {0};
    if (chimere_request_submit(engine, &r, q, &e) != CHIMERE_OK)
        fail_msg("submit: %s", e.msg);
    return r;
}

static void finish(chimere_request *r, chimere_event *ev) {
    assert_int_equal(chimere_request_wait(r, WAIT_MS, ev), 1);
    if (ev->reason == CHIMERE_REASON_ERROR)
        fail_msg("request: %s", ev->error.msg);
}

// Every eighth prompt of the list, all submitted at once: the same tokens as the reference engine's, but for near-ties: at
// the first difference the two best are closer than 0.02 (the float rounding of two engines; see the model's notes).
static void test_reference(void **state) {
    (void)state;
    need_model();
    enum { STEP = 8 };
    size_t n = json_array_size(eval), same = 0, all = 0, ties = 0;
    chimere_request **r = calloc(n, sizeof *r);
    for (size_t i = 0; i < n; i += STEP) {
        json_t *o = json_array_get(eval, i);
        chimere_request_params q = greedy(json_string_value(json_object_get(o, "prompt")));
        q.max_tokens = json_integer_value(json_object_get(o, "max_tokens"));
        q.n_logprobs = 2;
        r[i] = submit(&q);
    }
    for (size_t i = 0; i < n; i += STEP) {
        json_t *o = json_array_get(eval, i), *want = json_object_get(o, "tokens"), *ids = json_object_get(o, "prompt_tokens");
        chimere_event ev;
        finish(r[i], &ev);
        assert_int_equal(ev.usage.prompt_tokens, json_array_size(ids));
        size_t k = 0;
        while (k < ev.n_tokens && k < json_array_size(want) && ev.tokens[k].id == json_integer_value(json_array_get(want, k)))
            k++;
        bool equal = k == ev.n_tokens && k == json_array_size(want);
        if (!equal && k < ev.n_tokens && ev.tokens[k].top[0].logprob - ev.tokens[k].top[1].logprob < 0.02f)
            ties++;
        else if (!equal)
            print_message("%s\n  token %zu of %zu: %d\n", json_string_value(json_object_get(o, "prompt")), k, ev.n_tokens,
                          k < ev.n_tokens ? ev.tokens[k].id : -1);
        same += equal;
        all++;
        chimere_request_close(&r[i]);
    }
    free(r);
    print_message("%zu of %zu answers equal the reference engine's, %zu near-ties\n", same, all, ties);
    assert_int_equal(same + ties, all);
    assert_true(same * 100 >= all * 97);
}

typedef struct text {
    int32_t tok[256];
    size_t n;
    int32_t cached;
    char answer[1024], reasoning[1024];
} text;

static void keep(chimere_request *r, text *t) {
    chimere_event ev;
    finish(r, &ev);
    assert_true(ev.n_tokens <= 256 && ev.n_answer < 1024 && ev.n_reasoning < 1024);
    *t = (text){.n = ev.n_tokens, .cached = ev.usage.cached_tokens};
    for (size_t i = 0; i < ev.n_tokens; i++)
        t->tok[i] = ev.tokens[i].id;
    memcpy(t->answer, ev.answer, ev.n_answer);
    memcpy(t->reasoning, ev.reasoning, ev.n_reasoning);
    chimere_request_close(&r);
}

// Seeded and greedy answers beside three others are bit for bit those of the request alone.
static void test_beside(void **state) {
    (void)state;
    need_model();
    static const size_t which[] = {0, 30, 100, 200, 253, 308};
    static text alone[6], beside;
    chimere_request_params q[6];
    for (int i = 0; i < 6; i++) {
        q[i] = greedy(json_string_value(json_object_get(json_array_get(eval, which[i]), "prompt")));
        q[i].max_tokens = 40;
        q[i].sampling.seed = i;
        if (i % 2) {
            chimere_sampling_set(&q[i].sampling, "temperature", 1.0, NULL);
            chimere_sampling_set(&q[i].sampling, "top_k", 0, NULL);
            chimere_sampling_set(&q[i].sampling, "top_p", 1, NULL);
        }
        keep(submit(&q[i]), &alone[i]);
    }
    for (int round = 0; round < 2; round++) {
        chimere_request *r[6];
        for (int i = 0; i < 6; i++)
            r[i] = submit(&q[(i + round) % 6]);
        for (int i = 0; i < 6; i++) {
            keep(r[i], &beside);
            const text *a = &alone[(i + round) % 6];
            assert_int_equal(beside.n, a->n);
            assert_memory_equal(beside.tok, a->tok, a->n * sizeof a->tok[0]);
        }
    }
}

// Two turns through the model's own template: thinking apart, sentences, the second turn computes only what is new and
// says what a cold engine says.
static void test_chat(void **state) {
    (void)state;
    need_model();
    static const char first[] = "[{\"role\":\"user\",\"content\":\"Capital of India?\"}]";
    static const char second[] = "[{\"role\":\"user\",\"content\":\"Capital of India?\"},{\"role\":\"assistant\",\"content\":"
                                 "\"The capital of India is New Delhi.\"},{\"role\":\"user\",\"content\":\"Capital of Japan?\"}]";
    static text a, b;
    chimere_request_params q = greedy(NULL);
    q.messages_json = first;
    keep(submit(&q), &a);
    assert_string_equal(a.answer, "The capital of India is New Delhi.");
    assert_string_equal(a.reasoning, "Capital of India: New Delhi.");
    q.messages_json = second;
    keep(submit(&q), &a);
    assert_true(a.cached >= 10); // up to where the first answer began
    assert_non_null(strstr(a.answer, "Tokyo"));
    q.enable_thinking = 0;
    keep(submit(&q), &b);
    assert_string_equal(b.reasoning, "");
    assert_non_null(strstr(b.answer, "Tokyo"));
    q.enable_thinking = -1;
    chimere_session *s = NULL; // the same prompt without reuse: token by token from nothing
    chimere_error e = {0};
    int32_t tok[128];
    size_t n = 0;
    static const char prompt[] = "<|im_start|>user\nCapital of India?<|im_end|>\n<|im_start|>assistant\nThe capital of India is "
                                 "New Delhi.<|im_end|>\n<|im_start|>user\nCapital of Japan?<|im_end|>\n<|im_start|>assistant\n"
                                 "<think>\n";
    assert_int_equal(chimere_tokenize(engine, prompt, strlen(prompt), true, true, tok, 128, &n, &e), CHIMERE_OK);
    assert_int_equal(chimere_session_open(engine, &s, &e), CHIMERE_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(chimere_session_append(s, &tok[i], 1, NULL, &e), CHIMERE_OK);
    for (size_t i = 0; i < a.n; i++) {
        int32_t id = -1;
        assert_int_equal(chimere_session_sample(s, &q.sampling, &id, &e), CHIMERE_OK);
        assert_int_equal(id, a.tok[i]);
        assert_int_equal(chimere_session_append(s, &id, 1, NULL, &e), CHIMERE_OK);
    }
    chimere_session_close(&s);
}

static void test_cancel(void **state) {
    (void)state;
    need_model();
    chimere_metrics m, after;
    for (int i = 0; i < 20; i++) {
        chimere_request_params q = greedy("<|im_start|>user\nTell me a story about a cat.<|im_end|>\n<|im_start|>assistant\n");
        q.ignore_eos = true;
        chimere_request *r = submit(&q);
        chimere_event ev = {.kind = CHIMERE_EVENT_START};
        while (i % 2 && ev.kind != CHIMERE_EVENT_DELTA)
            assert_int_equal(chimere_request_next(r, WAIT_MS, &ev), 1);
        chimere_request_cancel(r);
        chimere_engine_get_metrics(engine, &m);
        finish(r, &ev);
        chimere_engine_get_metrics(engine, &after);
        assert_int_equal(ev.reason, CHIMERE_REASON_CANCELLED);
        assert_int_equal(after.slots_busy, 0);
        assert_true(after.steps <= m.steps + 2); // the one under way, and one that began while we looked
        chimere_request_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chat), cmocka_unit_test(test_beside), cmocka_unit_test(test_cancel),
                                       cmocka_unit_test(test_reference)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
