// time limit: 200 s
// Tokenizers against recorded ids of the reference, against a plain implementation, on hard input, and spans.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/pre.h"
#include "text/text.h"
#include "vocab_builder.h"

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

static ch_vocab *open_test_vocab(const char *name) {
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


// ---- a vocabulary built here: all bytes, a few merges, markers --------------------------------------------------------------
typedef struct extra_token {
    const char *text;
    int32_t type;
} extra_token;

// Byte-level BPE: ids 0..255 are the bytes in order, then the results of the merges, then the extra tokens.
static ch_vocab *build_bpe(const char *pre, const char *const *merge, size_t n_merge, const extra_token *extra, size_t n_extra) {
    vocab_builder b = {0};
    size_t n = 256 + n_merge + n_extra;
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", pre);
    vb_put_arr(&b, "tokenizer.ggml.tokens", CH_GGUF_STR, n);
    for (int i = 0; i < 256; i++) {
        int k = i <= 32 ? i : i >= 127 && i <= 160 ? i - 94 : i == 173 ? 67 : -1;
        char c[4];
        size_t len = ch_utf8_encode((uint32_t)(k < 0 ? i : 256 + k), c);
        vb_string(&b.kv, c, len);
    }
    for (size_t i = 0; i < n_merge; i++) {
        const char *space = strchr(merge[i], ' ');
        vb_u64(&b.kv, strlen(merge[i]) - 1);
        ch_buf_append(&b.kv, merge[i], (size_t)(space - merge[i]));
        ch_buf_puts(&b.kv, space + 1);
    }
    for (size_t i = 0; i < n_extra; i++) vb_string(&b.kv, extra[i].text, strlen(extra[i].text));
    vb_put_arr(&b, "tokenizer.ggml.token_type", CH_GGUF_I32, n);
    for (size_t i = 0; i < n; i++) vb_u32(&b.kv, i < 256 + n_merge ? CH_TOKEN_NORMAL : (uint32_t)extra[i - 256 - n_merge].type);
    vb_put_strs(&b, "tokenizer.ggml.merges", merge, n_merge);
    ch_vocab *v = NULL;
    ch_error e = {0};
    if (vb_open(&b, &v, &e) != 0) fail_msg("%s", e.msg);
    return v;
}

static const char *const some_merges[] = {"h e", "l l", "he ll", "hell o", "\xC4\xA0 w", "o r", "\xC4\xA0w or", "a a", "aa aa", "\xC4\xA0 \xC4\xA0"};
enum { N_MERGE = 10, HELLO = 256 + 3, SP_WOR = 256 + 6, AA = 256 + 7, AAAA = 256 + 8, FIRST_EXTRA = 256 + N_MERGE };
static const extra_token some_extra[] = {
    {"<|im_start|>", CH_TOKEN_CONTROL}, {"<|im_end|>", CH_TOKEN_NORMAL}, {"<think>", CH_TOKEN_USER}, {"</think>", CH_TOKEN_NORMAL},
    {"    ", CH_TOKEN_USER},            {"[INST]", CH_TOKEN_USER},       {"hello hello", CH_TOKEN_USER}};
enum { IM_START = FIRST_EXTRA, IM_END, THINK, THINK_END, FOUR_SPACES, INST, HELLO_HELLO };
static ch_vocab *build_some(const char *pre) { return build_bpe(pre, some_merges, N_MERGE, some_extra, 7); }

static void markers_in_plain_text(void **state) {
    (void)state;
    ch_vocab *v = build_some("qwen2");
    EXPECT_IDS(v, "hello wor", 0, HELLO, SP_WOR);
    EXPECT_IDS(v, "aaaaa", 0, AAAA, 'a');
    // Without CH_TOK_SPECIAL only control tokens are text.
    EXPECT_IDS(v, "<think>hello</think>", 0, THINK, HELLO, THINK_END);
    EXPECT_IDS(v, "hello hello", 0, HELLO_HELLO);
    EXPECT_IDS(v, "<|im_start|>", CH_TOK_SPECIAL, IM_START);
    EXPECT_IDS(v, "x<|im_end|>[INST]", CH_TOK_SPECIAL, 'x', IM_END, INST);
    EXPECT_IDS(v, "<|im_end|>", 0, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    EXPECT_IDS(v, "<|im_end|", CH_TOK_SPECIAL, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|');
    // End markers are control tokens and end a generation even where the file types them as normal ones.
    assert_int_equal(ch_vocab_type(v, IM_END), CH_TOKEN_CONTROL);
    assert_true(ch_vocab_is_eog(v, IM_END));
    assert_false(ch_vocab_is_eog(v, IM_START));
    assert_int_equal(ch_vocab_type(v, THINK_END), CH_TOKEN_USER); // added, though not marked so
    assert_int_equal(ch_vocab_find(v, "</think>", 8), THINK_END);
    assert_int_equal(ch_vocab_bos(v), -1);
    ch_vocab_free(&v);
    assert_null(v);
}

// parts: text, literal text, text, ... joined; ids compared with want.
static void expect_spans(const ch_vocab *v, const ch_span *span, size_t n_span, const char *text, const int32_t *want, size_t n_want) {
    ch_tokens t = {0};
    ch_error e = {0};
    if (ch_tokenize_spans(v, text, strlen(text), span, n_span, CH_TOK_SPECIAL, &t, &e) != 0) fail_msg("%s", e.msg);
    assert_int_equal(t.n, n_want);
    for (size_t i = 0; i < n_want; i++) assert_int_equal(t.id[i], want[i]);
    ch_tokens_free(&t);
}
#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4

static void markers_in_spans(void **state) {
    (void)state;
    ch_vocab *v = build_some("qwen2");
    // 0         12        22
    // <|im_end|>hello<think>
    const char *text = "<|im_end|>hello<think>";
    const ch_span all[] = {{0, 22, true}};
    expect_spans(v, all, 1, text, IDS(IM_END, HELLO, THINK));
    const ch_span none[] = {{0, 22, false}};
    expect_spans(v, none, 1, text, IDS('<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', HELLO, '<', 't', 'h', 'i', 'n', 'k', '>'));
    const ch_span first[] = {{0, 10, true}, {10, 22, false}};
    expect_spans(v, first, 2, text, IDS(IM_END, HELLO, '<', 't', 'h', 'i', 'n', 'k', '>'));
    // A marker must lie wholly in template text; two template spans side by side are one.
    const ch_span half[] = {{0, 9, true}, {9, 22, false}};
    expect_spans(v, half, 2, text, IDS('<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', HELLO, '<', 't', 'h', 'i', 'n', 'k', '>'));
    const ch_span other[] = {{0, 1, false}, {1, 22, true}};
    expect_spans(v, other, 2, text, IDS('<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>', HELLO, THINK));
    const ch_span split[] = {{0, 5, true}, {5, 5, true}, {5, 12, true}, {12, 15, false}, {15, 22, true}};
    expect_spans(v, split, 5, text, IDS(IM_END, HELLO, THINK));
    // The pre-tokenizer and merges see across borders; tokens that are no markers match anywhere.
    const ch_span inside[] = {{0, 2, true}, {2, 9, false}};
    expect_spans(v, inside, 2, "hello wor", IDS(HELLO, SP_WOR));
    const ch_span message[] = {{0, 11, false}};
    expect_spans(v, message, 1, "[INST]    x", IDS('[', 'I', 'N', 'S', 'T', ']', FOUR_SPACES, 'x'));
    const ch_span apart[] = {{0, 7, true}, {7, 11, false}};
    expect_spans(v, apart, 2, "hello hello", IDS(HELLO_HELLO));
    ch_vocab_free(&v);
}

static void spans_that_do_not_fit(void **state) {
    (void)state;
    ch_vocab *v = build_some("qwen2");
    static const ch_span bad[][2] = {
        {{0, 3, true}, {4, 5, true}}, {{0, 3, true}, {2, 5, true}}, {{0, 3, true}, {3, 6, true}}, {{0, 3, true}, {3, 4, true}}, {{1, 3, true}, {3, 5, true}},
        {{0, 3, true}, {3, 2, true}}};
    ch_tokens t = {0};
    ch_error e = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ch_tokenize_spans(v, "abcde", 5, bad[i], 2, 0, &t, &e), CH_ERANGE);
    assert_int_equal(ch_tokenize_spans(v, "abcde", 5, NULL, 0, 0, &t, &e), CH_ERANGE);
    assert_int_equal(ch_tokenize_spans(v, "", 0, NULL, 0, 0, &t, &e), 0);
    assert_int_equal(t.n, 0);
    ch_vocab_free(&v);
}

static void bos_is_never_doubled(void **state) {
    (void)state;
    ch_vocab *v = open_test_vocab("vocab/ggml-vocab-llama-spm.gguf");
    EXPECT_IDS(v, "Hello", CH_TOK_BOS_EOS, 1, 15043);
    EXPECT_IDS(v, "<s>Hello", CH_TOK_BOS_EOS | CH_TOK_SPECIAL, 1, 15043);
    EXPECT_IDS(v, "", CH_TOK_BOS_EOS, 1);
    EXPECT_IDS(v, "Hello</s>x", CH_TOK_SPECIAL, 15043, 2, 921);
    assert_true(ch_vocab_is_eog(v, 2));
    ch_vocab_free(&v);
}

// ---- pieces -----------------------------------------------------------------------------------------------------------------
typedef struct cut_log {
    size_t at;
    size_t end[8192];
    size_t n;
} cut_log;

static int log_cut(void *user, size_t begin, size_t end) {
    cut_log *c = user;
    assert_int_equal(begin, c->at);
    assert_true(end > begin);
    c->at = end;
    c->end[c->n++] = end;
    return 0;
}

// Text of characters that matter to pre-tokenizers; broken UTF-8 now and then.
static size_t random_text(ch_rng *r, char *out, size_t cap) {
    static const uint32_t cp[] = {'a',   'Z',    's',    'T',    'l',    'e',    '\'',   '\'',   '1',    '7',     ' ',     ' ',     '\t',   '\n',
                                  '\r',  '.',    '<',    '|',    '$',    '`',    '/',    0xE9,   0xDF,   0x17F,   0x301,   0x94D,   0x663,  0x2167,
                                  0xB2,  0xA0,   0x3000, 0x2028, 0x85,   0x180E, 0x200D, 0xFE0F, 0x4E2D, 0x3042,  0xAC00,  0x1F600, 0x1D400, 0x903,
                                  0x2581, 0xAD,  0xFEFF, 0x378,  0x1C5,  0x2B0,  0xAA,   0x10FFFF};
    size_t n = 0, want = ch_rng_u64(r) % (cap - 8);
    while (n < want) {
        uint64_t x = ch_rng_u64(r);
        if (x % 40 == 0) out[n++] = (char)(x >> 32);
        else n += ch_utf8_encode(cp[(x >> 8) % (sizeof cp / sizeof *cp)], out + n);
    }
    return n;
}

// The library's \s is not used in the patterns and the scanner has its own classes: both must agree everywhere.
static void scanner_equals_patterns(void **state) {
    (void)state;
    static const char *const names[] = {"llama-bpe", "dbrx", "qwen2", "qwen35"};
    static cut_log a, b;
    char text[200];
    for (size_t k = 0; k < 4; k++) {
        ch_text_pre *fast = NULL, *plain = NULL;
        assert_int_equal(ch_text_pre_open_as(&fast, names[k], strlen(names[k]), true, NULL), 0);
        assert_int_equal(ch_text_pre_open_as(&plain, names[k], strlen(names[k]), false, NULL), 0);
        ch_rng r;
        ch_rng_seed(&r, 11 + k);
        for (int i = 0; i < 20000; i++) {
            size_t n = random_text(&r, text, sizeof text);
            a.at = b.at = a.n = b.n = 0;
            assert_int_equal(ch_text_pre_split(fast, text, n, log_cut, &a, NULL), 0);
            assert_int_equal(ch_text_pre_split(plain, text, n, log_cut, &b, NULL), 0);
            if (a.n != b.n || memcmp(a.end, b.end, a.n * sizeof *a.end) != 0) fail_msg("%s: text %d differs: \"%.*s\"", names[k], i, (int)n, text);
        }
        ch_text_pre_free(&fast);
        ch_text_pre_free(&plain);
    }
}

// Every character of the first planes, alone and between letters, spaces and marks.
static void scanner_knows_every_character(void **state) {
    (void)state;
    static cut_log a, b;
    ch_text_pre *fast = NULL, *plain = NULL;
    assert_int_equal(ch_text_pre_open_as(&fast, "qwen35", 6, true, NULL), 0);
    assert_int_equal(ch_text_pre_open_as(&plain, "qwen35", 6, false, NULL), 0);
    int bad = 0;
    for (uint32_t cp = 1; cp < 0x31350; cp++) {
        char text[32] = "a";
        size_t n = 1 + ch_utf8_encode(cp, text + 1);
        text[n++] = ' ';
        n += ch_utf8_encode(cp, text + n);
        text[n++] = '!';
        a.at = b.at = a.n = b.n = 0;
        assert_int_equal(ch_text_pre_split(fast, text, n, log_cut, &a, NULL), 0);
        assert_int_equal(ch_text_pre_split(plain, text, n, log_cut, &b, NULL), 0);
        if (a.n != b.n || memcmp(a.end, b.end, a.n * sizeof *a.end) != 0) {
            if (bad++ < 2) print_message("U+%04X: the libraries' versions of Unicode differ\n", cp);
        }
    }
    // Characters that one library's Unicode knows and the other's does not; none for the versions of Debian 12.
    assert_true(bad <= 500);
    ch_text_pre_free(&fast);
    ch_text_pre_free(&plain);
}

static void every_pre_covers_every_text(void **state) {
    (void)state;
    static cut_log a;
    char text[300];
    ch_error e = {0};
    const char *name;
    for (size_t i = 0; (name = ch_text_pre_name_at(i)) != NULL; i++) {
        ch_text_pre *p = NULL;
        if (ch_text_pre_open_as(&p, name, strlen(name), i % 2, &e) != 0) fail_msg("%s: %s", name, e.msg);
        ch_rng r;
        ch_rng_seed(&r, i);
        for (int k = 0; k < 300; k++) {
            size_t n = random_text(&r, text, sizeof text);
            a.at = a.n = 0;
            assert_int_equal(ch_text_pre_split(p, text, n, log_cut, &a, &e), 0);
            assert_int_equal(a.at, n);
        }
        ch_text_pre_free(&p);
    }
    ch_text_pre *p = NULL;
    assert_int_equal(ch_text_pre_open_as(&p, "qwen3", 5, true, &e), CH_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "tokenizer.ggml.pre"));
    assert_non_null(strstr(e.msg, "\"qwen3\""));
    assert_null(p);
}

typedef struct piece_case {
    const char *pre, *text, *want; // pieces joined by '~'
} piece_case;

static int join_piece(void *user, size_t begin, size_t end) {
    void **u = user;
    ch_buf *b = u[0];
    if (begin) ch_buf_puts(b, "~");
    ch_buf_append(b, (const char *)u[1] + begin, end - begin);
    return 0;
}

static void pieces_of_each_group(void **state) {
    (void)state;
    static const piece_case cases[] = {
        {"llama-bpe", "I'LL go 12345 a\tb  c\n\n d..\n", "I~'LL~ go~ ~123~45~ a~\tb~ ~ c~\n\n~ d~..\n"},
        {"qwen2", "x12 e\xCC\x81t", "x~1~2~ e~\xCC\x81t"},
        {"qwen35", "x12 e\xCC\x81t", "x~1~2~ e\xCC\x81t"},
        {"tekken", "HelloWORLDfoo 12 a/\n/b", "Hello~WORLDfoo~ ~1~2~ a~/\n/~b"},
        {"gpt-4o", "JSONParser don't 1234", "JSONParser~ don't~ ~123~4"},
        {"gpt-2", "It's  a_b 12\n\n x", "It~'s~ ~ a~_~b~ 12~\n\n~ x"},
        {"starcoder", "a12 b", "a~1~2~ b"},
        {"falcon", "a+b 12345 c", "a~+~b~ ~123~45~ c"},
        {"default", "a-b 12345", "a~-~b~ ~123~45"},
        {"kimi-k2", "\xE4\xBD\xA0\xE5\xA5\xBD" "abc don't X\xE4\xBD\xA0", "\xE4\xBD\xA0\xE5\xA5\xBD~abc~ don't~ X~\xE4\xBD\xA0"},
        {"deepseek-v3", "12345 a.b \xE4\xBD\xA0x", "123~45~ a~.b~ ~\xE4\xBD\xA0~x"},
        {"deepseek-llm", "ab 12\n  c!", "ab~ ~12~\n~ ~ c~!"},
        {"deepseek-coder", "ab 12\n c!", "ab~ ~1~2~\n~ c~!"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ch_text_pre *p = NULL;
        assert_int_equal(ch_text_pre_open_as(&p, cases[i].pre, strlen(cases[i].pre), true, NULL), 0);
        ch_buf got = {0};
        void *user[2] = {&got, (void *)cases[i].text};
        assert_int_equal(ch_text_pre_split(p, cases[i].text, strlen(cases[i].text), join_piece, user, NULL), 0);
        if (strcmp(got.data, cases[i].want) != 0) fail_msg("%s: \"%s\" is cut as \"%s\"", cases[i].pre, cases[i].text, got.data);
        ch_buf_free(&got);
        ch_text_pre_free(&p);
    }
}

// ---- merging ----------------------------------------------------------------------------------------------------------------
// The definition, by strings: again and again the leftmost pair of lowest rank.
static size_t merge_plainly(const char *const *merge, size_t n_merge, const char *text, size_t n, char out[][64]) {
    size_t count = n;
    for (size_t i = 0; i < n; i++) out[i][0] = text[i], out[i][1] = 0;
    for (;;) {
        size_t best = n_merge, at = 0;
        for (size_t i = 0; i + 1 < count; i++)
            for (size_t m = 0; m < best; m++) {
                size_t len = strlen(out[i]);
                if (strncmp(merge[m], out[i], len) == 0 && merge[m][len] == ' ' && strcmp(merge[m] + len + 1, out[i + 1]) == 0) best = m, at = i;
            }
        if (best == n_merge) return count;
        size_t len = strlen(out[at]);
        snprintf(out[at] + len, 64 - len, "%s", merge[best] + len + 1);
        for (size_t i = at + 1; i + 1 < count; i++) memcpy(out[i], out[i + 1], 64);
        count--;
    }
}

static void merges_follow_the_definition(void **state) {
    (void)state;
    // "ab" and "bc" overlap, runs, a merge that needs a string that is no token on the way is not possible here
    static const char *const merge[] = {"b c", "a b", "a a", "aa b", "bc bc", "c a", "ab ab", "aab bcbc", "c c", "aa aa"};
    ch_vocab *v = build_bpe("gpt-2", merge, 10, NULL, 0);
    static char want[400][64];
    ch_rng r;
    ch_rng_seed(&r, 3);
    for (int k = 0; k < 3000; k++) {
        char text[400];
        size_t n = k < 200 ? (size_t)k % 90 : ch_rng_u64(&r) % 300; // short pieces, the border at 40 and 41, long ones
        for (size_t i = 0; i < n; i++) text[i] = "abc"[ch_rng_u64(&r) % 3];
        size_t n_want = merge_plainly(merge, 10, text, n, want);
        ch_tokens t = encode(v, text, n, 0);
        assert_int_equal(t.n, n_want);
        for (size_t i = 0; i < n_want; i++) assert_int_equal(t.id[i], ch_vocab_find(v, want[i], strlen(want[i])));
        ch_tokens_free(&t);
    }
    ch_vocab_free(&v);
}

static void merges_through_strings_that_are_no_tokens(void **state) {
    (void)state;
    // "xy" is no token of its own: alone it falls apart, with a z it becomes a token.
    vocab_builder b = {0};
    static const char *const tokens[] = {"x", "y", "z", "xyz"};
    static const char *const merge[] = {"x y", "xy z"};
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", "gpt-2");
    vb_put_strs(&b, "tokenizer.ggml.tokens", tokens, 4);
    vb_put_strs(&b, "tokenizer.ggml.merges", merge, 2);
    vb_put_u32(&b, "tokenizer.ggml.unknown_token_id", 2);
    ch_vocab *v = NULL;
    assert_int_equal(vb_open(&b, &v, NULL), 0);
    EXPECT_IDS(v, "xyxyz", 0, 0, 1, 3);
    EXPECT_IDS(v, "xq", 0, 0, 2); // no token for the byte: unknown
    ch_vocab_free(&v);
}

static void ranks_without_a_merge_list(void **state) {
    (void)state;
    vocab_builder b = {0};
    static const char *const tokens[] = {"a", "b", "c", "bc", "ab", "abc"};
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", "gpt-2");
    vb_put_strs(&b, "tokenizer.ggml.tokens", tokens, 6);
    ch_vocab *v = NULL;
    assert_int_equal(vb_open(&b, &v, NULL), 0);
    EXPECT_IDS(v, "abc", 0, 5);
    EXPECT_IDS(v, "abab", 0, 4, 4);
    EXPECT_IDS(v, "abbc", 0, 4, 3);
    ch_vocab_free(&v);
}

static void sentencepiece_in_small(void **state) {
    (void)state;
    vocab_builder b = {0};
    static const char *const tokens[] = {"<unk>", "<s>", "</s>", "<0x41>", "<0xC3>", "<0xA9>", "\xE2\x96\x81", "a", "b", "ab", "\xE2\x96\x81" "a", "ba",
                                         "<t>", "\xC3\xA9" "a"};
    static const float score[] = {0, 0, 0, 0, 0, 0, -9, -8, -7, -2, -1, -2, 9, -3};
    static const int32_t type[] = {2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 1, 4, 1};
    vb_put_str(&b, "tokenizer.ggml.model", "llama");
    vb_put_strs(&b, "tokenizer.ggml.tokens", tokens, 14);
    vb_put_f32s(&b, "tokenizer.ggml.scores", score, 14);
    vb_put_i32s(&b, "tokenizer.ggml.token_type", type, 14);
    ch_vocab *v = NULL;
    ch_error e = {0};
    if (vb_open(&b, &v, &e) != 0) fail_msg("%s", e.msg);
    EXPECT_IDS(v, "ab", 0, 10, 8);      // _a first
    EXPECT_IDS(v, "bab", 0, 6, 11, 8);  // equal scores: leftmost
    EXPECT_IDS(v, "  ab", 0, 6, 6, 10, 8);
    EXPECT_IDS(v, "b\xC3\xA9", 0, 6, 8, 4, 5); // by bytes
    EXPECT_IDS(v, "b\xC3\xA9" "a", 0, 6, 8, 13); // a character that is no token of its own merges
    EXPECT_IDS(v, "A\xFF", 0, 6, 3, 0);          // a byte without a token: unknown
    EXPECT_IDS(v, "ab<t>ab", 0, 10, 8, 12, 10, 8); // a space again after a token
    EXPECT_IDS(v, "<s>b", CH_TOK_SPECIAL, 1, 6, 8);
    EXPECT_IDS(v, "<s>b", 0, 6, 0, 0, 0, 8);
    expect_text(v, IDS(10, 8), "ab", 2);
    expect_text(v, IDS(6, 6, 10), "  a", 3);
    expect_text(v, IDS(1, 10, 10), "<s>a a", 6);
    expect_text(v, IDS(12, 10), "<t> a", 5);
    ch_vocab_free(&v);
}

static void long_texts_take_linear_time(void **state) {
    (void)state;
    static const char *const unit[] = {"a", "ab", "\n", " ", " a", "'", "1", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80", "e\xCC\x81", "\xCC\x81", "A", "aB1 ", "\xFF",
                                       "<", "<think>", "\xE1\x84\x80", "\t\r", "\xCC\x81\xCC\xA3", " \xC2\xA0"};
    static const char *const pre[] = {"qwen2", "gpt-2", "tekken", "kimi-k2", "deepseek-v3", "falcon", "deepseek-llm"};
    char *text = ch_alloc(1u << 20);
    for (size_t p = 0; p < sizeof pre / sizeof *pre; p++) {
        ch_vocab *v = build_some(pre[p]);
        for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
            size_t n = u ? 1u << 18 : 1u << 20;
            for (size_t i = 0, len = strlen(unit[u]); i < n; i++) text[i] = unit[u][i % len];
            uint64_t begin = ch_clock_ns();
            ch_tokens t = encode(v, text, n, 0);
            double s = (double)(ch_clock_ns() - begin) * 1e-9;
            if (s > 20) fail_msg("%s: %zu bytes of \"%s\" took %.1f s", pre[p], n, unit[u], s);
            ch_tokens_free(&t);
        }
        ch_vocab_free(&v);
    }
    ch_free(text);
}

static void limits_of_length(void **state) {
    (void)state;
    // Tokens of up to 256 bytes are matched as a whole; longer ones stay text.
    char name[3][260] = {{0}};
    extra_token extra[3];
    for (size_t i = 0; i < 3; i++) {
        memset(name[i], 'a' + (int)i, 255 + i);
        extra[i] = (extra_token){name[i], CH_TOKEN_USER};
    }
    ch_vocab *v = build_bpe("qwen2", some_merges, N_MERGE, extra, 3);
    EXPECT_IDS(v, name[0], 0, FIRST_EXTRA);
    EXPECT_IDS(v, name[1], 0, FIRST_EXTRA + 1);
    ch_tokens t = encode(v, name[2], 257, 0);
    assert_int_equal(t.n, 257);
    ch_tokens_free(&t);
    ch_error e = {0};
    ch_tokens none = {0};
    assert_int_equal(ch_tokenize(v, name[0], ((size_t)64 << 20) + 1, 0, &none, &e), CH_ELIMIT); // refused before it is read
    assert_int_equal(none.n, 0);
    ch_vocab_free(&v);
}

// Every allocation fails once; nothing leaks, nothing crashes, the output is as it was.
static void allocation_failures(void **state) {
    (void)state;
    ch_vocab *v = build_some("gpt-2");
    char text[600];
    memset(text, 'a', sizeof text);
    memcpy(text + 100, "hello wor <think> \xE9", 19);
    int failures = 0;
    for (int64_t k = 0; k < 40; k++) {
        ch_tokens t = {0};
        ch_tokens_push(&t, 7);
        ch_alloc_fail_at(k);
        int rc = ch_tokenize(v, text, sizeof text, CH_TOK_SPECIAL, &t, NULL);
        ch_alloc_fail_at(-1);
        assert_true(rc == 0 || rc == CH_ENOMEM);
        if (rc) {
            assert_int_equal(t.n, 1);
            failures++;
        }
        assert_int_equal(t.id[0], 7);
        ch_tokens_free(&t);
    }
    assert_true(failures >= 5);
    ch_vocab_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_deepseek_coder),
        cmocka_unit_test(pairs_deepseek_llm),
        cmocka_unit_test(pairs_falcon),
        cmocka_unit_test(pairs_gpt_2),
        cmocka_unit_test(pairs_llama_spm),
        cmocka_unit_test(pairs_mpt),
        cmocka_unit_test(pairs_phi_3),
        cmocka_unit_test(pairs_refact),
        cmocka_unit_test(pairs_starcoder),
        cmocka_unit_test(markers_in_plain_text),
        cmocka_unit_test(markers_in_spans),
        cmocka_unit_test(spans_that_do_not_fit),
        cmocka_unit_test(bos_is_never_doubled),
        cmocka_unit_test(scanner_equals_patterns),
        cmocka_unit_test(scanner_knows_every_character),
        cmocka_unit_test(every_pre_covers_every_text),
        cmocka_unit_test(pieces_of_each_group),
        cmocka_unit_test(merges_follow_the_definition),
        cmocka_unit_test(merges_through_strings_that_are_no_tokens),
        cmocka_unit_test(ranks_without_a_merge_list),
        cmocka_unit_test(sentencepiece_in_small),
        cmocka_unit_test(long_texts_take_linear_time),
        cmocka_unit_test(limits_of_length),
        cmocka_unit_test(allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
