// Tokenizers against recorded ids of the reference (data/vocab), hostile vocabularies, spans, speed on hard input.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/pre.h"
#include "text/text.h"

// ---- recorded pairs -------------------------------------------------------------------------------------------------------
static bool read_text(ch_buf *b, const char *path) {
    ch_error e;
    ch_buf_reset(b);
    return ch_read_file(b, path, &e) == 0;
}

static ch_vocab *open_vocab(const char *path) {
    ch_gguf *g = NULL;
    ch_vocab *v = NULL;
    ch_error e = {0};
    if (ch_gguf_open(&g, path, &e) != 0) fail_msg("%s", e.msg);
    if (ch_vocab_open(&v, g, &e) != 0) fail_msg("%s", e.msg);
    ch_gguf_close(&g);
    return v;
}

CH_UNUSED static ch_vocab *open_test_vocab(const char *name) {
    const char *data = getenv("CHIMERE_TESTDATA");
    char path[4096];
    if (!data) skip();
    snprintf(path, sizeof path, "%s/%s", data, name);
    return open_vocab(path);
}

static ch_tokens encode(const ch_vocab *v, const char *text, size_t n, unsigned flags) {
    ch_tokens t = {0};
    ch_error e = {0};
    if (ch_tokenize(v, text, n, flags, &t, &e) != 0) fail_msg("%s", e.msg);
    return t;
}

static void expect_ids(const ch_vocab *v, const char *text, size_t n, unsigned flags, const int32_t *want, size_t n_want) {
    ch_tokens t = encode(v, text, n, flags);
    bool same = t.n == n_want;
    for (size_t i = 0; same && i < n_want; i++) same = t.id[i] == want[i];
    if (!same) {
        ch_buf got = {0};
        for (size_t i = 0; i < t.n; i++) ch_buf_printf(&got, " %d", t.id[i]);
        ch_buf_puts(&got, "; expected");
        for (size_t i = 0; i < n_want; i++) ch_buf_printf(&got, " %d", want[i]);
        fail_msg("\"%.*s\" gave%s", (int)n, text, got.data);
    }
    ch_tokens_free(&t);
}
#define EXPECT_IDS(v, text, flags, ...) \
    expect_ids(v, text, strlen(text), flags, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4)

static void expect_text(const ch_vocab *v, const int32_t *id, size_t n_id, const char *want, size_t n) {
    ch_buf out = {0};
    assert_int_equal(ch_detokenize(v, id, n_id, true, &out), 0);
    if (out.len != n || (n && memcmp(out.data, want, n) != 0)) fail_msg("\"%.*s\" came back as \"%s\"", (int)n, want, out.data);
    ch_buf_free(&out);
}

// Texts are separated by a marker line, ids stand one line per text. Every text must encode to its ids and come back.
static int check_pairs(const ch_vocab *v, const char *inp, const char *out) {
    static const char mark[] = "\n__ggml_vocab_test__\n";
    int count = 0;
    while (*inp && *out) {
        const char *end = strstr(inp, mark);
        size_t n = end ? (size_t)(end - inp) : strlen(inp);
        int32_t want[4096];
        size_t n_want = 0;
        for (char *next; *out && *out != '\n'; out = next) {
            want[n_want++] = (int32_t)strtol(out, &next, 10);
            while (*next == ' ') next++;
        }
        if (*out) out++;
        expect_ids(v, inp, n, 0, want, n_want);
        expect_text(v, want, n_want, inp, n);
        count++;
        if (!end) break;
        inp = end + sizeof mark - 1;
    }
    return count;
}

static void run_pairs(const char *name) {
    const char *data = getenv("CHIMERE_TESTDATA");
    char path[4096];
    ch_buf inp = {0}, out = {0};
    if (!data) skip();
    snprintf(path, sizeof path, "%s/vocab/%s.gguf.inp", data, name);
    assert_true(read_text(&inp, path));
    snprintf(path, sizeof path, "%s/vocab/%s.gguf.out", data, name);
    assert_true(read_text(&out, path));
    snprintf(path, sizeof path, "%s/vocab/%s.gguf", data, name);
    ch_vocab *v = open_vocab(path);
    assert_true(check_pairs(v, inp.data, out.data) >= 46);
    ch_vocab_free(&v);
    ch_buf_free(&inp);
    ch_buf_free(&out);
}

#define PAIR_TEST(id, name) \
    static void pairs_##id(void **state) { \
        (void)state; \
        run_pairs("ggml-vocab-" name); \
    }
PAIR_TEST(deepseek_coder, "deepseek-coder")
PAIR_TEST(deepseek_llm, "deepseek-llm")
PAIR_TEST(falcon, "falcon")
PAIR_TEST(gpt_2, "gpt-2")
PAIR_TEST(llama_spm, "llama-spm")
PAIR_TEST(mpt, "mpt")
PAIR_TEST(phi_3, "phi-3")
PAIR_TEST(refact, "refact")
PAIR_TEST(starcoder, "starcoder")

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_deepseek_coder), cmocka_unit_test(pairs_deepseek_llm), cmocka_unit_test(pairs_falcon),
        cmocka_unit_test(pairs_gpt_2),          cmocka_unit_test(pairs_llama_spm),    cmocka_unit_test(pairs_mpt),
        cmocka_unit_test(pairs_phi_3),          cmocka_unit_test(pairs_refact),       cmocka_unit_test(pairs_starcoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
