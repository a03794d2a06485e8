// Vocabularies that are wrong, odd or hostile: a clear error or defined behaviour, never a crash.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vocab_builder.h"

static const char *const abc[] = {"a", "b", "ab", "<s>"};
static const int32_t abc_type[] = {1, 1, 1, 3};
static const float abc_score[] = {-1, -2, -3, 0};

// Expects the code, and each of the words in the message.
static void expect_error(vocab_builder *b, int code, const char *word1, const char *word2) {
    ch_vocab *v = NULL;
    ch_error e = {0};
    int rc = vb_open(b, &v, &e);
    if (rc != code || !strstr(e.msg, word1) || !strstr(e.msg, word2)) fail_msg("expected %d with %s and %s, got %d: %s", code, word1, word2, rc, e.msg);
    assert_null(v);
}

static ch_vocab *expect_open(vocab_builder *b) {
    ch_vocab *v = NULL;
    ch_error e = {0};
    if (vb_open(b, &v, &e) != 0) fail_msg("%s", e.msg);
    return v;
}

static void begin_bpe(vocab_builder *b) {
    *b = (vocab_builder){0};
    vb_put_str(b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(b, "tokenizer.ggml.pre", "gpt-2");
    vb_put_strs(b, "tokenizer.ggml.tokens", abc, 4);
}

static void keys_that_are_missing_or_wrong(void **state) {
    (void)state;
    vocab_builder b = {0};
    expect_error(&b, CH_EFORMAT, "tokenizer.ggml.model", "no such key");
    vb_put_str(&b, "tokenizer.ggml.model", "bert");
    expect_error(&b, CH_EUNSUPPORTED, "tokenizer.ggml.model", "\"bert\"");
    vb_put_u32(&b, "tokenizer.ggml.model", 3);
    expect_error(&b, CH_EFORMAT, "tokenizer.ggml.model", "string");
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    expect_error(&b, CH_EFORMAT, "tokenizer.ggml.tokens", "string");
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_strs(&b, "tokenizer.ggml.tokens", abc, 0);
    expect_error(&b, CH_EFORMAT, "tokenizer.ggml.tokens", "at least one");
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_i32s(&b, "tokenizer.ggml.tokens", abc_type, 4);
    expect_error(&b, CH_EFORMAT, "tokenizer.ggml.tokens", "string");
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", "no-such-pre");
    vb_put_strs(&b, "tokenizer.ggml.tokens", abc, 4);
    expect_error(&b, CH_EUNSUPPORTED, "tokenizer.ggml.pre", "\"no-such-pre\"");
    for (size_t n = 3; n <= 5; n += 2) { // one per token: 4
        static const int32_t types[5] = {1, 1, 1, 1, 1};
        begin_bpe(&b);
        vb_put_i32s(&b, "tokenizer.ggml.token_type", types, n);
        expect_error(&b, CH_EFORMAT, "tokenizer.ggml.token_type", "4");
    }
    begin_bpe(&b);
    vb_put_i32s(&b, "tokenizer.ggml.token_type", (const int32_t[]){1, 7, 1, 1}, 4);
    expect_error(&b, CH_ERANGE, "token_type[1]", "found 7");
    begin_bpe(&b);
    vb_put_i32s(&b, "tokenizer.ggml.token_type", (const int32_t[]){1, -1, 1, 1}, 4);
    expect_error(&b, CH_ERANGE, "token_type[1]", "found -1");
    begin_bpe(&b);
    vb_put_str(&b, "tokenizer.ggml.bos_token_id", "a");
    expect_error(&b, CH_EFORMAT, "bos_token_id", "token id");
    begin_bpe(&b);
    vb_put_str(&b, "tokenizer.ggml.merges", "a b");
    expect_error(&b, CH_EFORMAT, "tokenizer.ggml.merges", "array");
}

static void merges_that_are_no_pairs(void **state) {
    (void)state;
    static const char *const bad[] = {"", " ", "ab", "a ", " a", "  "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        vocab_builder b;
        begin_bpe(&b);
        const char *const merge[] = {"a b", bad[i]};
        vb_put_strs(&b, "tokenizer.ggml.merges", merge, 2);
        expect_error(&b, CH_EFORMAT, "merges[1]", "space");
    }
}

static void sentencepiece_needs_scores(void **state) {
    (void)state;
    static const float five[5] = {0};
    for (size_t n = 2; n <= 5; n++) {
        vocab_builder b = {0};
        vb_put_str(&b, "tokenizer.ggml.model", "llama");
        vb_put_strs(&b, "tokenizer.ggml.tokens", abc, 4);
        if (n == 4) vb_put_f32s(&b, "tokenizer.ggml.scores", abc_score, 4);
        else if (n > 2) vb_put_f32s(&b, "tokenizer.ggml.scores", five, n);
        if (n != 4) expect_error(&b, CH_EFORMAT, "tokenizer.ggml.scores", "4");
        else {
            ch_vocab *v = expect_open(&b);
            assert_int_equal(ch_vocab_eos(v), 2);
            ch_vocab_free(&v);
        }
    }
}

static void odd_values_are_borne(void **state) {
    (void)state;
    vocab_builder b = {0};
    // Empty and equal spellings, ids out of range, scores that are no numbers.
    static const char *const tokens[] = {"", "a", "a", "", "b", "aa", "\xFF\xFE", "<0xZZ>"};
    static const float score[] = {NAN, INFINITY, -INFINITY, NAN, 0, NAN, 1, 2};
    static const int32_t type[] = {1, 1, 1, 3, 1, 1, 1, 6};
    for (int spm = 0; spm < 2; spm++) {
        vb_put_str(&b, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
        if (!spm) vb_put_str(&b, "tokenizer.ggml.pre", "gpt-2");
        vb_put_strs(&b, "tokenizer.ggml.tokens", tokens, 8);
        vb_put_f32s(&b, "tokenizer.ggml.scores", score, 8);
        vb_put_i32s(&b, "tokenizer.ggml.token_type", type, 8);
        vb_put_u32(&b, "tokenizer.ggml.bos_token_id", 8);
        vb_put_u32(&b, "tokenizer.ggml.eos_token_id", 7);
        vb_put_u32(&b, "tokenizer.ggml.padding_token_id", UINT32_MAX);
        ch_vocab *v = expect_open(&b);
        size_t n = 99;
        assert_int_equal(ch_vocab_bos(v), -1);
        assert_int_equal(ch_vocab_eos(v), 7);
        assert_int_equal(ch_vocab_pad(v), -1);
        assert_true(ch_vocab_is_eog(v, 7));
        assert_int_equal(ch_vocab_find(v, "a", 1), 2); // the last of equal spellings
        assert_int_equal(ch_vocab_find(v, "", 0), -1);
        assert_non_null(ch_vocab_text(v, 0, &n));
        assert_int_equal(n, 0);
        assert_null(ch_vocab_text(v, 8, &n));
        assert_null(ch_vocab_text(v, -1, &n));
        assert_int_equal(ch_vocab_type(v, -1), 0);
        assert_false(ch_vocab_is_eog(v, 8));
        const char *p;
        assert_int_equal(ch_vocab_piece(v, INT32_MAX, true, &p), 0);
        assert_int_equal(ch_vocab_piece(v, INT32_MIN, true, &p), 0);
        ch_tokens t = {0};
        assert_int_equal(ch_tokenize(v, "aab a\xFF", 6, 3, &t, NULL), 0);
        for (size_t i = 0; i < t.n; i++) assert_in_range(t.id[i], 0, 7);
        ch_tokens_free(&t);
        ch_vocab_free(&v);
    }
}

// Text must not become a control token by merging, by its bytes, or as a whole piece.
static void control_tokens_never_come_from_text(void **state) {
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "x", "abx", "<", "c>", "<c>"};
    static const int32_t type[] = {1, 1, 3, 3, 1, 1, 1, 4};
    static const char *const merge[] = {"a b", "ab x", "< c>"};
    static const char *const pre[] = {"gpt-2", "llama-bpe"};
    for (int i = 0; i < 2; i++) {
        vocab_builder b = {0};
        vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
        vb_put_str(&b, "tokenizer.ggml.pre", pre[i]);
        vb_put_strs(&b, "tokenizer.ggml.tokens", tokens, 8);
        vb_put_i32s(&b, "tokenizer.ggml.token_type", type, 8);
        vb_put_strs(&b, "tokenizer.ggml.merges", merge, 3);
        ch_vocab *v = expect_open(&b);
        static const char text[] = "ab x <c> abx";
        ch_span span = {0, sizeof text - 1, false};
        ch_tokens t = {0};
        assert_int_equal(ch_tokenize_spans(v, text, sizeof text - 1, &span, 1, CH_TOK_SPECIAL, &t, NULL), 0);
        assert_true(t.n > 0);
        for (size_t k = 0; k < t.n; k++) assert_true(t.id[k] != 2 && t.id[k] != 3 && t.id[k] != 7);
        ch_tokens_free(&t);
        ch_vocab_free(&v);
    }
    // SentencePiece builds words from spellings, so control tokens have to be left out there.
    vocab_builder b = {0};
    static const float score[8] = {0};
    vb_put_str(&b, "tokenizer.ggml.model", "llama");
    vb_put_strs(&b, "tokenizer.ggml.tokens", tokens, 8);
    vb_put_i32s(&b, "tokenizer.ggml.token_type", type, 8);
    vb_put_f32s(&b, "tokenizer.ggml.scores", score, 8);
    ch_vocab *v = expect_open(&b);
    ch_tokens t = {0};
    assert_int_equal(ch_tokenize(v, "ababab", 6, 0, &t, NULL), 0);
    for (size_t k = 0; k < t.n; k++) assert_int_not_equal(t.id[k], 2);
    ch_tokens_free(&t);
    ch_vocab_free(&v);
}

static void end_of_generation(void **state) {
    (void)state;
    static const char *const tokens[] = {"a", "<|end|>", "<|return|>", "<|im_end|>", "<|endoftext|>", "</s>", "<|call|>"};
    for (size_t n = 6; n <= 7; n++) { // with both <|return|> and <|call|>, <|end|> only closes a channel
        vocab_builder b = {0};
        vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
        vb_put_str(&b, "tokenizer.ggml.pre", "gpt-2");
        vb_put_strs(&b, "tokenizer.ggml.tokens", tokens, n);
        vb_put_u32(&b, "tokenizer.ggml.eos_token_id", 0);
        ch_vocab *v = expect_open(&b);
        for (int32_t i = 0; i < (int32_t)n; i++) assert_int_equal(ch_vocab_is_eog(v, i), i != 1 || n == 6);
        assert_int_equal(ch_vocab_type(v, 3), CH_TOKEN_CONTROL);
        ch_vocab_free(&v);
    }
}

// A file cannot make loading slow: many long tokens, each of which could be cut in many ways, or matched everywhere.
static void loading_takes_linear_time(void **state) {
    (void)state;
    enum { N = 2000, LEN = 1000 };
    char *text = ch_alloc(LEN + 1);
    memset(text, 'a', LEN);
    for (int spm = 0; spm < 2; spm++) {
        vocab_builder b = {0};
        vb_put_str(&b, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
        if (!spm) vb_put_str(&b, "tokenizer.ggml.pre", "gpt-2");
        vb_put_arr(&b, "tokenizer.ggml.tokens", CH_GGUF_STR, N);
        for (size_t i = 0; i < N; i++) vb_string(&b.kv, text, 1 + i % LEN);
        vb_put_arr(&b, "tokenizer.ggml.scores", CH_GGUF_F32, N);
        for (int i = 0; i < N; i++) ch_buf_append(&b.kv, &(float){(float)i}, 4);
        vb_put_arr(&b, "tokenizer.ggml.token_type", CH_GGUF_I32, N);
        for (int i = 0; i < N; i++) vb_u32(&b.kv, i < LEN ? CH_TOKEN_USER : CH_TOKEN_NORMAL);
        uint64_t begin = ch_clock_ns();
        ch_vocab *v = expect_open(&b);
        ch_tokens t = {0};
        char *long_text = ch_alloc(1 << 18);
        memset(long_text, 'a', 1 << 18);
        assert_int_equal(ch_tokenize(v, long_text, 1 << 18, 0, &t, NULL), 0);
        double s = (double)(ch_clock_ns() - begin) * 1e-9;
        if (s > 20) fail_msg("%.1f s", s);
        ch_free(long_text);
        ch_tokens_free(&t);
        ch_vocab_free(&v);
    }
    ch_free(text);
}

static void allocation_failures(void **state) {
    (void)state;
    int failures = 0;
    for (int spm = 0; spm < 2; spm++)
        for (int64_t k = 0;; k++) {
            vocab_builder b = {0};
            vb_put_str(&b, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
            vb_put_str(&b, "tokenizer.ggml.pre", "gpt-2");
            vb_put_strs(&b, "tokenizer.ggml.tokens", abc, 4);
            vb_put_i32s(&b, "tokenizer.ggml.token_type", abc_type, 4);
            vb_put_f32s(&b, "tokenizer.ggml.scores", abc_score, 4);
            if (!spm) vb_put_strs(&b, "tokenizer.ggml.merges", (const char *const[]){"a b"}, 1);
            ch_buf_append(&b.file, "", 1); // so that building the file allocates before the count begins
            char room[8192];
            memset(room, 0, sizeof room);
            ch_buf_append(&b.file, room, sizeof room);
            ch_vocab *v = NULL;
            ch_error e = {0};
            ch_alloc_fail_at(k);
            int rc = vb_open(&b, &v, &e);
            ch_alloc_fail_at(-1);
            if (!rc) {
                ch_vocab_free(&v);
                if (k > 60) break;
                continue; // an optional allocation failed, or the last one has been passed
            }
            if (rc != CH_ENOMEM) fail_msg("allocation %d: code %d, %s", (int)k, rc, e.msg);
            assert_null(v);
            failures++;
        }
    assert_true(failures > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_are_missing_or_wrong), cmocka_unit_test(merges_that_are_no_pairs),
        cmocka_unit_test(sentencepiece_needs_scores),     cmocka_unit_test(odd_values_are_borne),
        cmocka_unit_test(control_tokens_never_come_from_text), cmocka_unit_test(end_of_generation),
        cmocka_unit_test(loading_takes_linear_time),      cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
