// The tokenizer's trainer against a plain implementation that counts everything anew for each merge, and the vocabulary it
// writes against the tokenizer that reads it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/train.h"

static char folder[256];
static const char *const special[] = {"<|end|>", "<|turn|>", "<think>"};

static const char *file_path(const char *name) {
    static char path[4][400];
    static int k;
    k = (k + 1) % 4;
    snprintf(path[k], sizeof path[k], "%s/%s", folder, name);
    return path[k];
}

static void write_file(const char *name, const char *text, size_t n) {
    FILE *f = fopen(file_path(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state) {
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/test_bpe.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int drop_folder(void **state) {
    (void)state;
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static ch_train_bpe_params params_for(const char *const *path, size_t n_path, int32_t n_vocab) {
    return (ch_train_bpe_params){.n_vocab = n_vocab, .pre = "qwen35", .path = path, .n_path = n_path, .special = special,
                                 .n_special = 3, .n_control = 2, .eos = "<|turn|>", .pad = "<|end|>"};
}

// ---- the plain implementation -----------------------------------------------------------------------------------------------
enum { MAX_WORDS = 20000, MAX_SYMBOLS = 2000 };
typedef struct plain {
    struct {
        int32_t sym[64];
        int n;
    } word[MAX_WORDS]; // every occurrence for itself
    int n_word;
    char spelling[MAX_SYMBOLS][64];
    int len[MAX_SYMBOLS], left[MAX_SYMBOLS], right[MAX_SYMBOLS];
    int n_symbol;
    const char *text;
} plain;

static int plain_piece(void *user, size_t begin, size_t end) {
    plain *p = user;
    assert_true(end - begin <= 64 && p->n_word < MAX_WORDS);
    for (size_t i = begin; i < end; i++)
        p->word[p->n_word].sym[i - begin] = (uint8_t)p->text[i];
    p->word[p->n_word++].n = (int)(end - begin);
    return 0;
}

static int spelling_order(const plain *p, int a, int b) {
    int n = p->len[a] < p->len[b] ? p->len[a] : p->len[b], c = memcmp(p->spelling[a], p->spelling[b], (size_t)n);
    return c ? c : p->len[a] - p->len[b];
}

static void plain_apply(plain *p, int left, int right, int merged) {
    for (int i = 0; i < p->n_word; i++) {
        int k = 0, n = p->word[i].n;
        int32_t *s = p->word[i].sym;
        for (int j = 0; j < n; k++) {
            bool hit = j + 1 < n && s[j] == left && s[j + 1] == right;
            s[k] = hit ? merged : s[j];
            j += hit ? 2 : 1;
        }
        p->word[i].n = k;
    }
}

static bool plain_merge(plain *p) {
    static int count[MAX_SYMBOLS][MAX_SYMBOLS];
    int best = 1, a = -1, b = -1;
    for (int i = 0; i < p->n_symbol; i++)
        memset(count[i], 0, (size_t)p->n_symbol * sizeof count[i][0]);
    for (int i = 0; i < p->n_word; i++)
        for (int j = 0; j + 1 < p->word[i].n; j++)
            count[p->word[i].sym[j]][p->word[i].sym[j + 1]]++;
    for (int i = 0; i < p->n_symbol; i++)
        for (int j = 0; j < p->n_symbol; j++) {
            int order = a < 0 ? 0 : spelling_order(p, i, a);
            if (count[i][j] > best || (count[i][j] == best && a >= 0 && (order < 0 || (order == 0 && spelling_order(p, j, b) < 0)))) {
                best = count[i][j];
                a = i;
                b = j;
            }
        }
    if (a < 0)
        return false;
    int m = p->n_symbol++;
    p->left[m] = a;
    p->right[m] = b;
    p->len[m] = p->len[a] + p->len[b];
    assert_true(p->len[m] <= 64);
    memcpy(p->spelling[m], p->spelling[a], (size_t)p->len[a]);
    memcpy(p->spelling[m] + p->len[a], p->spelling[b], (size_t)p->len[b]);
    plain_apply(p, a, b, m);
    return true;
}

static void plain_start(plain *p, const char *text, size_t n) {
    ch_text_pre *pre = NULL;
    memset(p, 0, sizeof *p);
    p->text = text;
    for (p->n_symbol = 0; p->n_symbol < 256; p->n_symbol++) {
        p->spelling[p->n_symbol][0] = (char)p->n_symbol;
        p->len[p->n_symbol] = 1;
    }
    assert_int_equal(ch_text_pre_open(&pre, "qwen35", 6, NULL), 0);
    assert_int_equal(ch_text_pre_split(pre, text, n, plain_piece, p, NULL), 0);
    ch_text_pre_free(&pre);
}

static void spell(const char *raw, int n, ch_buf *out) {
    for (int i = 0; i < n; i++) {
        char c[4];
        size_t len = ch_text_byte_char((uint8_t)raw[i], c);
        assert_true(ch_buf_append(out, c, len));
    }
}

// Text of few letters, so that pairs overlap and counts tie; with numbers, breaks and bytes that are not ASCII.
static size_t make_text(char *out, size_t n, uint64_t seed) {
    ch_rng r;
    ch_rng_seed(&r, seed);
    static const char *const syllable[] = {"aa", "a", "b", "ba", "aba", "c", " ", " ", "1", "\n", "\xc3\xa9", "'s", ".", " the", "ing"};
    size_t len = 0;
    for (int run = 0; len + 8 < n;) {
        const char *s = syllable[ch_rng_u64(&r) % 15];
        run = *s == ' ' || *s == '\n' || *s == '1' || *s == '.' ? 0 : run + 1;
        if (run > 12) // the plain implementation holds short words
            s = " ", run = 0;
        memcpy(out + len, s, strlen(s));
        len += strlen(s);
    }
    return len;
}

static void open_vocab(const char *path, ch_gguf **g, ch_vocab **v) {
    ch_error e = {0};
    if (ch_gguf_open(g, path, &e) || ch_vocab_open(v, *g, &e))
        fail_msg("%s", e.msg);
}

static void compare_merges(const ch_gguf *g, const plain *p) {
    const ch_gguf_kv *kv = ch_gguf_find(g, "tokenizer.ggml.merges");
    assert_non_null(kv);
    assert_int_equal(kv->n, p->n_symbol - 256);
    for (int i = 256; i < p->n_symbol; i++) {
        ch_buf want = {0};
        spell(p->spelling[p->left[i]], p->len[p->left[i]], &want);
        ch_buf_puts(&want, " ");
        spell(p->spelling[p->right[i]], p->len[p->right[i]], &want);
        ch_gguf_str got = ch_gguf_arr_str(g, kv, (uint64_t)i - 256);
        if (got.n != want.len || memcmp(got.p, want.data, got.n) != 0)
            fail_msg("merge %d: expected %s, found %.*s", i - 256, want.data, (int)got.n, got.p);
        ch_buf_free(&want);
    }
}

static void merges_equal_plain_counting(void **state) {
    (void)state;
    static plain p;
    static char text[24000], fresh[6000];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        size_t n = make_text(text, sizeof text, seed);
        write_file("corpus.txt", text, n);
        const char *path[] = {file_path("corpus.txt")};
        ch_train_bpe_params bp = params_for(path, 1, 256 + 150 + 3);
        ch_train_bpe_info info;
        ch_error e = {0};
        char out[400];
        snprintf(out, sizeof out, "%s", file_path("v.gguf"));
        if (ch_train_bpe(out, &bp, &info, &e))
            fail_msg("%s", e.msg);
        plain_start(&p, text, n);
        assert_true(info.n_bytes <= n && info.n_merges == 150);
        ch_gguf *g = NULL;
        ch_vocab *v = NULL;
        open_vocab(out, &g, &v);
        // Exactly what the trainer read: the documents, joined by nothing, word by word.
        p.n_word = 0;
        const char *at = text;
        ch_text_pre *pre = NULL;
        assert_int_equal(ch_text_pre_open(&pre, "qwen35", 6, NULL), 0);
        size_t total = 0;
        while (*at && at < text + n) { // documents as data.h defines them: two empty lines or more end one
            const char *from = at, *stop = at, *line = at;
            int empty = 0;
            bool any = false;
            while (line < text + n && !(any && empty >= 2)) {
                const char *eol = memchr(line, '\n', (size_t)(text + n - line));
                if (!eol)
                    eol = text + n;
                if (strspn(line, " \t\r") >= (size_t)(eol - line)) {
                    empty++;
                } else {
                    from = any ? from : line;
                    any = true;
                    empty = 0;
                    stop = eol;
                }
                line = eol < text + n ? eol + 1 : eol;
            }
            p.text = from;
            if (any)
                assert_int_equal(ch_text_pre_split(pre, from, (size_t)(stop - from), plain_piece, &p, NULL), 0);
            total += any ? (size_t)(stop - from) : 0;
            at = line;
        }
        assert_int_equal(total, info.n_bytes);
        while (p.n_symbol < 256 + 150 && plain_merge(&p))
            ;
        compare_merges(g, &p);

        // New text: the tokenizer merges as the plain implementation does, rank by rank, and gives the text back.
        uint64_t n_token = 0;
        for (int i = 0; i < p.n_word; i++)
            n_token += (uint64_t)p.word[i].n;
        assert_int_equal(n_token, info.n_tokens);
        size_t n_fresh = make_text(fresh, sizeof fresh, seed + 100);
        p.n_word = 0;
        p.text = fresh;
        assert_int_equal(ch_text_pre_split(pre, fresh, n_fresh, plain_piece, &p, NULL), 0);
        for (int m = 256; m < p.n_symbol; m++)
            plain_apply(&p, p.left[m], p.right[m], m);
        ch_tokens t = {0};
        assert_int_equal(ch_tokenize(v, fresh, n_fresh, 0, &t, NULL), 0);
        size_t k = 0;
        for (int i = 0; i < p.n_word; i++)
            for (int j = 0; j < p.word[i].n; j++, k++) {
                assert_true(k < t.n);
                assert_int_equal(t.id[k], p.word[i].sym[j]);
            }
        assert_int_equal(k, t.n);
        ch_buf back = {0};
        assert_int_equal(ch_detokenize(v, t.id, t.n, true, &back), 0);
        assert_int_equal(back.len, n_fresh);
        assert_memory_equal(back.data, fresh, n_fresh);
        ch_buf_free(&back);
        ch_tokens_free(&t);
        ch_text_pre_free(&pre);
        ch_vocab_free(&v);
        ch_gguf_close(&g);
    }
}

static void special_tokens_and_chats(void **state) {
    (void)state;
    static const char tpl[] = "{%- for m in messages -%}{{- '<|turn|>' + m.content + '<|end|>' -}}{%- endfor -%}";
    static const char records[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"hello hello\"},{\"role\":\"assistant\",\"content\":\"hello\"}]}\n"
                                  "\n{\"text\":\"<think>hello<|turn|>hello\"}\n";
    write_file("chat.jsonl", records, sizeof records - 1);
    const char *path[] = {file_path("chat.jsonl")};
    ch_train_bpe_params bp = params_for(path, 1, 256 + 4 + 3);
    bp.template_text = tpl;
    bp.n_template = sizeof tpl - 1;
    char out[400];
    snprintf(out, sizeof out, "%s", file_path("c.gguf"));
    ch_train_bpe_info info;
    ch_error e = {0};
    if (ch_train_bpe(out, &bp, &info, &e))
        fail_msg("%s", e.msg);
    assert_int_equal(info.n_words, 2); // "hello", " hello": nothing of the special tokens
    assert_int_equal(info.n_merges, 4);
    ch_gguf *g = NULL;
    ch_vocab *v = NULL;
    open_vocab(out, &g, &v);
    assert_int_equal(ch_vocab_n(v), 263);
    assert_int_equal(ch_vocab_find(v, "hello", 5), 259);
    assert_int_equal(ch_vocab_pad(v), 260);
    assert_int_equal(ch_vocab_eos(v), 261);
    assert_int_equal(ch_vocab_type(v, 261), CH_TOKEN_CONTROL);
    assert_int_equal(ch_vocab_type(v, 262), CH_TOKEN_USER);
    ch_gguf_str s;
    assert_int_equal(ch_gguf_get_str(g, "tokenizer.chat_template", &s, NULL), 1);
    assert_int_equal(s.n, sizeof tpl - 1);
    ch_vocab_free(&v);
    ch_gguf_close(&g);

    // Without a template a chat is refused, by file and line.
    bp.template_text = NULL;
    assert_int_equal(ch_train_bpe(out, &bp, &info, &e), CH_EFORMAT);
    assert_non_null(strstr(e.msg, "chat.jsonl: line 1"));
}

static void wrong_parameters(void **state) {
    (void)state;
    write_file("a.txt", "ab ab ab", 8);
    const char *path[] = {file_path("a.txt")}, *missing[] = {file_path("none.txt")};
    char out[400];
    snprintf(out, sizeof out, "%s", file_path("w.gguf"));
    ch_error e = {0};
    ch_train_bpe_info info;
    ch_train_bpe_params ok = params_for(path, 1, 259), bp;
    assert_int_equal(ch_train_bpe(out, &ok, &info, &e), 0); // no merge at all
    assert_int_equal(info.n_merges, 0);
    bp = ok, bp.n_vocab = 258;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_ERANGE);
    bp = ok, bp.n_vocab = 260;
    assert_int_equal(ch_train_bpe(out, &bp, &info, &e), 0);
    assert_int_equal(info.n_merges, 1);
    bp = ok, bp.n_vocab = (1 << 20) + 1;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_ERANGE);
    bp = ok, bp.n_vocab = 1 << 20; // as many as the text gives: "ab", " ab"
    assert_int_equal(ch_train_bpe(out, &bp, &info, &e), 0);
    assert_int_equal(info.n_merges, 2);
    bp = ok, bp.eos = "nothing";
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_EFORMAT);
    assert_non_null(strstr(e.msg, "nothing"));
    bp = ok, bp.pre = "qwen";
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_EUNSUPPORTED);
    bp = ok, bp.path = missing;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_EIO);
    bp = ok, bp.n_path = 0;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_ERANGE);
    const char *twice[] = {"<a>", "<a>"};
    bp = ok, bp.special = twice, bp.n_special = bp.n_control = 2, bp.eos = bp.pad = NULL;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_EFORMAT);
    char s256[257], s257[258];
    memset(s256, 'x', 256), memset(s257, 'x', 257);
    s256[256] = s257[257] = 0;
    const char *longest[] = {s256}, *too_long[] = {s257}, *too_short[] = {"x"};
    bp.n_special = bp.n_control = 1, bp.n_vocab = 257;
    bp.special = longest;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), 0);
    bp.special = too_long;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_ERANGE);
    bp.special = too_short;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_ERANGE);
}

// Pieces longer than a word may be take part in stretches; merging such a run must end and stay exact.
static void long_words(void **state) {
    (void)state;
    static char text[5000];
    for (size_t n = 1023; n <= 1025; n++) {
        memset(text, 'a', n);
        write_file("long.txt", text, n);
        const char *path[] = {file_path("long.txt")};
        ch_train_bpe_params bp = params_for(path, 1, 259 + 20);
        ch_train_bpe_info info;
        ch_error e = {0};
        char out[400];
        snprintf(out, sizeof out, "%s", file_path("l.gguf"));
        if (ch_train_bpe(out, &bp, &info, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(info.n_words, n > 1024 ? 2 : 1);
        assert_int_equal(info.n_bytes, n);
    }
}

static bool stop_early(void *user, const char *what, uint64_t done, uint64_t total) {
    (void)what, (void)done, (void)total;
    return --*(int *)user > 0;
}

static void stops_and_failing_memory(void **state) {
    (void)state;
    static char text[3000];
    size_t n = make_text(text, sizeof text, 9);
    write_file("m.txt", text, n);
    const char *path[] = {file_path("m.txt")};
    char out[400];
    snprintf(out, sizeof out, "%s", file_path("m.gguf"));
    ch_error e = {0};
    int left = 1;
    ch_train_bpe_params bp = params_for(path, 1, 256 + 80 + 3);
    bp.progress = stop_early;
    bp.progress_user = &left;
    assert_int_equal(ch_train_bpe(out, &bp, NULL, &e), CH_ECANCELLED);
    assert_int_equal(access(out, F_OK), -1);
    bp.progress = NULL;
    int n_failed = 0;
    for (int64_t nth = 0;; nth++) {
        ch_alloc_fail_at(nth);
        int rc = ch_train_bpe(out, &bp, NULL, &e);
        ch_alloc_fail_at(-1);
        if (!rc)
            break;
        assert_int_equal(rc, CH_ENOMEM);
        n_failed++;
        assert_int_equal(access(out, F_OK), -1);
        assert_true(nth < 5000);
    }
    assert_true(n_failed > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_equal_plain_counting), cmocka_unit_test(special_tokens_and_chats),
        cmocka_unit_test(wrong_parameters),            cmocka_unit_test(long_words),
        cmocka_unit_test(stops_and_failing_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
