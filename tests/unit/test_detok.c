// The incremental detokenizer and the splitter of thinking: the same output for every way of cutting the input.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vocab_builder.h"

// A SentencePiece vocabulary: ids 0..255 are the bytes, then words and a control token.
enum { WORD = 256, SPACE_WORD, EURO, CONTROL, USER };
static ch_vocab *build_bytes(void) {
    vocab_builder b = {0};
    static const char *const more[] = {"word", "\xE2\x96\x81word", "\xE2\x82\xAC", "<|im_end|>", "<t\xE2\x96\x81>"};
    static const uint32_t type[] = {CH_TOKEN_NORMAL, CH_TOKEN_NORMAL, CH_TOKEN_NORMAL, CH_TOKEN_CONTROL, CH_TOKEN_USER};
    vb_put_str(&b, "tokenizer.ggml.model", "llama");
    vb_put_arr(&b, "tokenizer.ggml.tokens", CH_GGUF_STR, 261);
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        vb_string(&b.kv, name, 6);
    }
    for (int i = 0; i < 5; i++) vb_string(&b.kv, more[i], strlen(more[i]));
    vb_put_arr(&b, "tokenizer.ggml.scores", CH_GGUF_F32, 261);
    for (int i = 0; i < 261; i++) vb_u32(&b.kv, 0);
    vb_put_arr(&b, "tokenizer.ggml.token_type", CH_GGUF_I32, 261);
    for (int i = 0; i < 261; i++) vb_u32(&b.kv, i < 256 ? CH_TOKEN_BYTE : type[i - 256]);
    ch_vocab *v = NULL;
    ch_error e = {0};
    if (vb_open(&b, &v, &e) != 0) fail_msg("%s", e.msg);
    return v;
}

// What the bytes should read as: every byte that is part of no character is U+FFFD.
static void sane_text(const char *s, size_t n, ch_buf *out) {
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = ch_utf8_decode(s + i, n - i, &cp);
        if (cp > 0x10FFFF) ch_buf_append(out, "\xEF\xBF\xBD", 3);
        else ch_buf_append(out, s + i, len);
    }
}

static void stream_equals_batch(void **state) {
    (void)state;
    ch_vocab *v = build_bytes();
    // Bytes at which sequences begin, go on and end, and at the borders of what is allowed.
    static const int32_t pool[] = {'a', 0x80, 0xBF, 0x9F, 0xA0, 0x8F, 0x90, 0xC1, 0xC2, 0xDF, 0xE0, 0xE2, 0x82, 0xAC, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF, WORD, SPACE_WORD, EURO, CONTROL};
    ch_rng r;
    ch_rng_seed(&r, 5);
    ch_buf stream = {0}, raw = {0}, want = {0};
    for (int k = 0; k < 50000; k++) {
        int32_t id[12];
        size_t n = ch_rng_u64(&r) % 12;
        ch_detok d;
        ch_detok_init(&d, v, false);
        ch_buf_reset(&stream);
        ch_buf_reset(&raw);
        ch_buf_reset(&want);
        for (size_t i = 0; i < n; i++) {
            id[i] = pool[ch_rng_u64(&r) % (sizeof pool / sizeof *pool)];
            assert_true(ch_detok_push(&d, id[i], &stream));
            assert_true(ch_utf8_valid(stream.data ? stream.data : "", stream.len)); // never half a character
        }
        assert_true(ch_detok_finish(&d, &stream));
        assert_int_equal(ch_detokenize(v, id, n, false, &raw), 0);
        sane_text(raw.data, raw.len, &want);
        if (stream.len != want.len || (want.len && memcmp(stream.data, want.data, want.len) != 0)) fail_msg("case %d: \"%s\", expected \"%s\"", k, stream.data, want.data);
    }
    ch_buf_free(&stream);
    ch_buf_free(&raw);
    ch_buf_free(&want);
    ch_vocab_free(&v);
}

static void expect_stream(const ch_vocab *v, bool special, const int32_t *id, size_t n, const char *want) {
    ch_detok d;
    ch_buf out = {0};
    ch_detok_init(&d, v, special);
    ch_buf_append(&out, "", 0);
    for (size_t i = 0; i < n; i++) assert_true(ch_detok_push(&d, id[i], &out));
    ch_detok_finish(&d, &out);
    assert_string_equal(out.data, want);
    ch_buf_free(&out);
}
#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4

static void stream_details(void **state) {
    (void)state;
    ch_vocab *v = build_bytes();
    expect_stream(v, false, IDS(SPACE_WORD, SPACE_WORD), "word word"); // one leading space goes
    expect_stream(v, false, IDS(WORD, SPACE_WORD), "word word");
    expect_stream(v, false, IDS(CONTROL, SPACE_WORD, CONTROL), "word");
    expect_stream(v, true, IDS(CONTROL, SPACE_WORD, CONTROL), "<|im_end|>word<|im_end|>");
    expect_stream(v, false, IDS(USER, SPACE_WORD), "<t\xE2\x96\x81> word"); // spelled as it stands
    expect_stream(v, false, IDS(0xE2, 0x82, 0xAC), "\xE2\x82\xAC");
    expect_stream(v, false, IDS(0xE2, 0x82), "\xEF\xBF\xBD\xEF\xBF\xBD");
    expect_stream(v, false, IDS(0xE2, CONTROL, 0x82, 0xAC), "\xE2\x82\xAC");
    expect_stream(v, false, IDS(-1, 261, INT32_MAX, 'a'), "a"); // no such tokens
    // Nothing is held longer than needed: after a byte that ends a character all is out.
    ch_detok d;
    ch_buf out = {0};
    ch_detok_init(&d, v, false);
    ch_detok_push(&d, 0xF0, &out);
    ch_detok_push(&d, 0x9F, &out);
    ch_detok_push(&d, 0x98, &out);
    assert_int_equal(out.len, 0);
    ch_detok_push(&d, 0x80, &out);
    assert_int_equal(out.len, 4);
    ch_detok_push(&d, 0xED, &out);
    ch_detok_push(&d, 0xA0, &out); // a surrogate: can no longer become a character
    assert_int_equal(out.len, 10);
    ch_buf_free(&out);
    // A full buffer is reported, also when it fails in the middle.
    ch_buf small = {.limit = 2};
    ch_detok_init(&d, v, false);
    assert_false(ch_detok_push(&d, WORD, &small));
    assert_int_equal(ch_detokenize(v, IDS(WORD), false, &small), CH_ELIMIT);
    ch_buf_free(&small);
    ch_vocab_free(&v);
}

// ---- thinking ---------------------------------------------------------------------------------------------------------------
typedef struct think_case {
    bool inside;
    const char *text, *reasoning, *answer;
} think_case;

static const think_case think_cases[] = {
    {false, "Hi", "", "Hi"},
    {false, "\nHi\n", "", "\nHi\n"},
    {false, "<think>\nlet me\nsee\n</think>\n\nHi\n", "let me\nsee", "Hi\n"},
    {true, "let me see\n</think>\n\nHi", "let me see", "Hi"},
    {true, "<think>\nlet me</think>Hi", "let me", "Hi"},    // the model repeats the tag of the prompt
    {true, "\n<think>\nlet me</think>Hi", "let me", "Hi"},
    {true, "cut off\n", "cut off\n", ""},                   // the budget ended: all of it is reasoning
    {true, "cut off</thin", "cut off</thin", ""},
    {true, "", "", ""},
    {true, "</think>\n\n", "", ""},
    {true, "\n\n</think>\n\nx", "", "x"},
    {false, "<think>a</think>b<think>c</think>d", "a\nc", "b\nd"},
    {false, "<think>a\n</think>\n<think>\nc</think>\nd", "a\nc", "d"},
    {false, "answer<think>", "", "answer"},                 // a tail that opens a block
    {false, "answer\n<think>\nmore", "more", "answer"},
    {false, "a < b <thin> </think> <<think>x</think>", "x", "a < b <thin> </think> <"},
    {true, "a < b </thin> <think> <</think>x", "a < b </thin> <think> <", "x"},
    {true, "a</</think>b", "a</", "b"},
    {false, "<THINK>x", "", "<THINK>x"},
    {true, "a\n\nb\n\n</think>\n\nc\n\nd", "a\n\nb", "c\n\nd"},
};

static void think_in_every_cut(void **state) {
    (void)state;
    ch_buf reasoning = {0}, answer = {0};
    for (size_t k = 0; k < sizeof think_cases / sizeof *think_cases; k++) {
        const think_case *c = &think_cases[k];
        size_t n = strlen(c->text);
        ch_rng r;
        ch_rng_seed(&r, k);
        for (int cut = 0; cut < 200; cut++) {
            ch_think t;
            ch_think_init(&t, c->inside);
            ch_buf_reset(&reasoning);
            ch_buf_reset(&answer);
            ch_buf_append(&reasoning, "", 0);
            ch_buf_append(&answer, "", 0);
            for (size_t i = 0; i < n;) { // whole, by byte, by random pieces
                size_t step = cut == 0 ? n : cut == 1 ? 1 : 1 + ch_rng_u64(&r) % 9;
                if (step > n - i) step = n - i;
                assert_true(ch_think_push(&t, c->text + i, step, &reasoning, &answer));
                i += step;
            }
            assert_true(ch_think_finish(&t, &reasoning, &answer));
            if (strcmp(reasoning.data, c->reasoning) != 0 || strcmp(answer.data, c->answer) != 0)
                fail_msg("\"%s\" was split in \"%s\" and \"%s\"", c->text, reasoning.data, answer.data);
        }
    }
    ch_buf_free(&reasoning);
    ch_buf_free(&answer);
}

static void think_holds_back_little(void **state) {
    (void)state;
    ch_buf reasoning = {0}, answer = {0};
    ch_think t;
    ch_think_init(&t, false);
    ch_think_push(&t, "ab<", 3, &reasoning, &answer);
    assert_int_equal(answer.len, 2);
    ch_think_push(&t, "x", 1, &reasoning, &answer);
    assert_int_equal(answer.len, 4);
    ch_think_push(&t, "\n", 1, &reasoning, &answer);
    assert_int_equal(answer.len, 4);
    ch_think_push(&t, "y", 1, &reasoning, &answer);
    assert_string_equal(answer.data, "ab<x\ny");
    ch_buf_free(&reasoning);
    ch_buf_free(&answer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_equals_batch), cmocka_unit_test(stream_details),
        cmocka_unit_test(think_in_every_cut),  cmocka_unit_test(think_holds_back_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
