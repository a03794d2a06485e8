// Training data: records and their weights, packing, order, resuming, ranks, the cache, malformed files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "train/data.h"
#include "train/record.h"
#include "train/train.h"

static char folder[256];
static ch_vocab *vocab;
static ch_buf chat_template;

// The same name gives the same pointer, which stays valid.
static const char *file_path(const char *name) {
    static char path[64][320];
    char want[320];
    int k = 0;
    snprintf(want, sizeof want, "%s/%s", folder, name);
    while (path[k][0] && strcmp(path[k], want) != 0)
        k++;
    assert_true(k < 63);
    memcpy(path[k], want, sizeof want);
    return path[k];
}

static void write_file(const char *name, const char *text, size_t n) {
    FILE *f = fopen(file_path(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int start(void **state) {
    (void)state;
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>",  "<|im_end|>",      "<think>",         "</think>",
                                          "<tool_call>",   "</tool_call>", "<tool_response>", "</tool_response>"};
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/test_data.XXXXXX", tmp ? tmp : "/tmp");
    ch_error e = {0};
    if (!mkdtemp(folder) || ch_read_file(&chat_template, "tools/corpus/chat.jinja", &e))
        return 1;
    write_file("seed.txt", "the cat sat on the mat and the dog sat on the cat", 49);
    const char *path[] = {file_path("seed.txt")};
    ch_train_bpe_params p = {.n_vocab = 280, .pre = "qwen35", .path = path, .n_path = 1, .special = special, .n_special = 9,
                             .n_control = 3, .eos = "<|im_end|>", .pad = "<|endoftext|>"};
    ch_gguf *g = NULL;
    int rc = ch_train_bpe(file_path("vocab.gguf"), &p, NULL, &e);
    if (!rc)
        rc = ch_gguf_open(&g, file_path("vocab.gguf"), &e);
    if (!rc)
        rc = ch_vocab_open(&vocab, g, &e);
    ch_gguf_close(&g);
    if (rc)
        fprintf(stderr, "%s\n", e.msg);
    return rc;
}

static int finish(void **state) {
    (void)state;
    char cmd[300];
    ch_vocab_free(&vocab);
    ch_buf_free(&chat_template);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
    return system(cmd);
}

static ch_train_data_params params_for(const ch_train_source *source, size_t n, size_t n_row, size_t n_ctx) {
    ch_train_data_params p = {.source = source, .n_source = n, .vocab = vocab, .template_text = chat_template.data,
                              .n_template = chat_template.len, .n_row = n_row, .n_ctx = n_ctx, .n_ranks = 1, .seed = 7};
    ch_train_weights_init(&p.weights);
    return p;
}

static ch_train_data *open_data(const ch_train_data_params *p) {
    ch_train_data *d = NULL;
    ch_error e = {0};
    if (ch_train_data_open(&d, p, &e))
        fail_msg("%s", e.msg);
    return d;
}

static void next_batch(ch_train_data *d, ch_train_batch *b) {
    ch_error e = {0};
    if (ch_train_data_next(d, b, &e))
        fail_msg("%s", e.msg);
}

// n numbered documents of different lengths, each beginning with its number, as JSONL.
static void write_numbers(const char *name, int n, int longest, uint64_t seed) {
    ch_buf b = {0};
    ch_rng r;
    ch_rng_seed(&r, seed);
    for (int i = 0; i < n; i++) {
        ch_buf_printf(&b, "{\"text\":\"#%05d", i);
        for (int k = (int)(ch_rng_u64(&r) % (uint64_t)longest); k > 0; k--)
            ch_buf_puts(&b, "x");
        ch_buf_puts(&b, "\"}\n");
    }
    assert_false(b.failed);
    write_file(name, b.data, b.len);
    ch_buf_free(&b);
}

// ---- weights ----------------------------------------------------------------------------------------------------------------
static void read_one(const char *name, const char *text, ch_record *out, ch_record_reader **r) {
    const ch_train_weights w = {.assistant = 8, .history = 4, .user = 2, .system = 1, .role = 0.5f, .text = 16, .end = 32};
    const ch_record_params p = {chat_template.data, chat_template.len, vocab, w};
    ch_error e = {0};
    if (ch_record_reader_open(r, &p, &e) || ch_record_read_memory(*r, name, text, strlen(text), &e) || ch_record_next(*r, out, &e) != 1)
        fail_msg("%s", e.msg);
}

// The text with {w} before each part, compared with what is expected.
static void expect_parts(const ch_record *d, const char *want) {
    ch_buf b = {0};
    size_t at = 0;
    for (size_t i = 0; i < d->n_part; i++) {
        assert_true(d->part[i].end > at);
        ch_buf_printf(&b, "{%g}", (double)d->part[i].weight);
        ch_buf_append(&b, d->text + at, d->part[i].end - at);
        at = d->part[i].end;
    }
    assert_int_equal(at, d->n);
    assert_string_equal(b.data, want);
    ch_buf_free(&b);
}

static void weights_of_chats(void **state) {
    (void)state;
    ch_record_reader *r = NULL;
    ch_record d;
    read_one("a.jsonl",
             "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U1\"},"
             "{\"role\":\"assistant\",\"content\":\"A1\"},{\"role\":\"user\",\"content\":\"<|im_start|>assistant\\n<|im_end|>\"},"
             "{\"role\":\"assistant\",\"reasoning_content\":\"R\",\"content\":\"A2\",\"weight\":0.5}]}",
             &d, &r);
    expect_parts(&d, "{1}<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n"
                     "{2}U1{0.5}<|im_end|>\n<|im_start|>assistant\n{4}A1<|im_end|>{0.5}\n<|im_start|>user\n"
                     "{2}<|im_start|>assistant\n<|im_end|>{0.5}<|im_end|>\n<|im_start|>assistant\n<think>\n"
                     "{4}R\n</think>\n\nA2<|im_end|>{0.5}\n"); // 8 times its own 0.5
    ch_record_reader_free(&r);

    // Calls and results; thinking off: the empty block is given, not learned.
    read_one("a.jsonl",
             "{\"enable_thinking\":false,\"messages\":[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"assistant\",\"tool_calls\":"
             "[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]},{\"role\":\"tool\",\"content\":\"T\"},"
             "{\"role\":\"assistant\",\"content\":\"A\"}]}",
             &d, &r);
    expect_parts(&d, "{1}<|im_start|>user\n{2}U{0.5}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
                     "{8}<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>{0.5}\n<|im_start|>user\n"
                     "<tool_response>\n{2}T{0.5}\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
                     "{8}A<|im_end|>{0.5}\n");
    ch_record_reader_free(&r);

    // Thinking on and nothing thought: closing the block has to be learned.
    read_one("a.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"},{\"role\":\"assistant\",\"content\":\"A\"}]}", &d, &r);
    expect_parts(&d, "{1}<|im_start|>user\n{2}U{0.5}<|im_end|>\n<|im_start|>assistant\n<think>\n{8}\n</think>\n\nA<|im_end|>{0.5}\n");
    ch_record_reader_free(&r);
}

static void weights_of_texts(void **state) {
    (void)state;
    ch_record_reader *r = NULL;
    ch_record d;
    read_one("a.jsonl", "\n{\"text\":\"abcdef\",\"spans\":[[1,2,3],[2,2,9],[4,6,0]],\"weight\":0.5}", &d, &r);
    assert_int_equal(d.line, 2);
    expect_parts(&d, "{8}a{1.5}b{8}cd{0}ef");
    ch_record_reader_free(&r);
    read_one("a.txt", "\n\n one\n\ntwo \n \n\n\nthree", &d, &r);
    expect_parts(&d, "{16} one\n\ntwo ");
    assert_int_equal(d.line, 3);
    assert_int_equal(ch_record_next(r, &d, NULL), 1);
    expect_parts(&d, "{16}three");
    assert_int_equal(ch_record_next(r, &d, NULL), 0);
    assert_int_equal(ch_record_next(r, &d, NULL), 0);
    ch_record_reader_free(&r);
}

// Weights of tokens, as they come in a batch.
static void weights_of_tokens(void **state) {
    (void)state;
    static const char record[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"the cat\"},{\"role\":\"assistant\",\"content\":\"the dog\"}]}\n";
    write_file("w.jsonl", record, sizeof record - 1);
    const ch_train_source s[] = {{file_path("w.jsonl"), 1, 0.5f}};
    ch_train_data_params p = params_for(s, 1, 1, 64);
    ch_train_data *d = open_data(&p);
    ch_train_batch b;
    next_batch(d, &b);
    ch_tokens t = {0};
    static const char text[] = "<|im_start|>user\nthe cat<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nthe dog<|im_end|>\n";
    assert_int_equal(ch_tokenize(vocab, text, sizeof text - 1, CH_TOK_SPECIAL, &t, NULL), 0);
    size_t at = 0;
    for (size_t i = 0; i < t.n; i++) {
        const char *piece;
        size_t n = ch_vocab_piece(vocab, t.id[i], true, &piece);
        float want = at < 17 ? 0.05f : at < 65 ? 0.1f : at < sizeof text - 2 ? 1 : 0.1f; // bytes of the text above
        assert_int_equal(b.token[i], t.id[i]);
        assert_int_equal(b.doc[i], 0);
        if (i > 0)
            assert_true(b.weight[i - 1] == ch_f16_to_f32(ch_f32_to_f16(want * 0.5f)));
        at += n;
    }
    for (size_t i = t.n; i < 66; i++) {
        assert_int_equal(b.doc[i], -1);
        assert_int_equal(b.token[i], ch_vocab_pad(vocab));
        if (i <= 64)
            assert_true(b.weight[i - 1] == 0);
    }
    ch_tokens_free(&t);
    ch_train_data_close(&d);
}

// ---- packing ----------------------------------------------------------------------------------------------------------------
// Number of the document that begins at t, from its text "#01234".
static int document_at(const int32_t *t) {
    char text[16] = {0};
    for (int i = 0, k = 0; k < 6; i++) {
        const char *s;
        size_t n = ch_vocab_piece(vocab, t[i], true, &s);
        assert_int_equal(n, 1);
        text[k++] = *s;
    }
    assert_int_equal(text[0], '#');
    return atoi(text + 1);
}

static void every_document_once_and_whole(void **state) {
    (void)state;
    enum { N = 3000, CTX = 64 };
    write_numbers("n.jsonl", N, 40, 1); // 6 to 45 bytes and the end token
    const ch_train_source s[] = {{file_path("n.jsonl"), 1, 1}};
    ch_train_data_params p = params_for(s, 1, 1, CTX);
    ch_train_data *d = open_data(&p);
    ch_train_data_info info;
    ch_train_data_get_info(d, &info);
    assert_int_equal(info.n_docs, N);
    assert_true(info.fill > 0.97);
    static int seen[N], order[2][N];
    for (int epoch = 0; epoch < 2; epoch++) {
        int n = 0;
        memset(seen, 0, sizeof seen);
        info.n_rows = 1;
        for (uint64_t row = 0; row < info.n_rows; row++) {
            ch_train_batch b;
            next_batch(d, &b);
            ch_train_data_get_info(d, &info); // of the epoch that this row is of
            for (int i = 0; i < CTX + 2; i++) {
                bool first = b.doc[i] >= 0 && (i == 0 || b.doc[i] != b.doc[i - 1]);
                if (first) {
                    int doc = document_at(b.token + i);
                    order[epoch][n++] = doc;
                    seen[doc]++;
                    if (i > 0)
                        assert_int_equal(b.token[i - 1], ch_vocab_pad(vocab)); // the one before ended with its end token
                }
                if (i > 0 && i <= CTX) {
                    bool inside = b.doc[i] >= 0 && b.doc[i] == b.doc[i - 1];
                    bool end = inside && b.token[i] == ch_vocab_pad(vocab);
                    float want = !inside ? 0 : end ? ch_f16_to_f32(ch_f32_to_f16(0.3f)) : 1;
                    assert_true(b.weight[i - 1] == want);
                }
            }
        }
        for (int i = 0; i < N; i++)
            assert_int_equal(seen[i], 1);
        assert_int_equal(n, N);
    }
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    ch_train_data_state st;
    ch_train_data_get_state(d, &st);
    assert_int_equal(st.epoch, 1);
    ch_train_data_close(&d);
}

// A long document is cut so that every target appears exactly once, second targets included.
static void long_documents(void **state) {
    (void)state;
    for (int n = 9; n <= 60; n++) {
        ch_buf text = {0};
        for (int i = 0; i < n - 1; i++)
            ch_buf_printf(&text, "%c", 'A' + i % 26);
        write_file("long.txt", text.data, text.len);
        const ch_train_source s[] = {{file_path("long.txt"), 1, 1}};
        ch_train_data_params p = params_for(s, 1, 1, 8);
        ch_train_data *d = open_data(&p);
        ch_train_data_info info;
        ch_train_data_get_info(d, &info);
        assert_int_equal(info.n_tokens, n);
        assert_int_equal(info.n_rows, n <= 9 ? 1 : (n - 2) / 8 + 1);
        int targets = 0, second = 0;
        for (uint64_t row = 0; row < info.n_rows; row++) {
            ch_train_batch b;
            next_batch(d, &b);
            for (int i = 0; i < 8; i++) {
                targets += b.weight[i] > 0;
                second += b.weight[i] > 0 && b.doc[i + 2] == b.doc[i];
                if (b.weight[i] > 0 && b.token[i + 1] != ch_vocab_pad(vocab))
                    assert_int_equal((b.token[i + 1] - b.token[i] + 26) % 26, 1);
            }
        }
        assert_int_equal(targets, n - 1);
        assert_int_equal(second, n - 2);
        ch_train_data_close(&d);
        ch_buf_free(&text);
    }
}

static void shares(void **state) {
    (void)state;
    write_numbers("a.jsonl", 400, 5, 2);
    write_numbers("b.jsonl", 100, 5, 3);
    const ch_train_source s[] = {{file_path("a.jsonl"), 0.25, 1}, {file_path("b.jsonl"), 2, 0.5f}};
    ch_train_data_params p = params_for(s, 2, 1, 32);
    ch_train_data *d = open_data(&p);
    static int seen[2][400];
    for (int epoch = 0; epoch < 4; epoch++) {
        ch_train_data_state st;
        do {
            ch_train_batch b;
            next_batch(d, &b);
            ch_train_data_get_state(d, &st);
            for (int i = 0; i < 32; i++)
                if (b.doc[i] >= 0 && (i == 0 || b.doc[i] != b.doc[i - 1]))
                    seen[b.weight[i] == 0.5f][document_at(b.token + i)]++;
            ch_train_data_info info;
            ch_train_data_get_info(d, &info);
            if (st.index == info.n_rows)
                break;
        } while (true);
    }
    for (int i = 0; i < 400; i++)
        assert_int_equal(seen[0][i], 1); // a quarter each epoch, another one each time
    for (int i = 0; i < 100; i++)
        assert_int_equal(seen[1][i], 8);
    ch_train_data_close(&d);

    const ch_train_source none[] = {{file_path("a.jsonl"), 0, 1}};
    p = params_for(none, 1, 1, 32);
    ch_error e;
    assert_int_equal(ch_train_data_open(&d, &p, &e), CH_ERANGE);
}

// ---- resuming, ranks, cache ---------------------------------------------------------------------------------------------------
static void copy_batch(const ch_train_batch *b, ch_buf *out) {
    size_t places = b->n_row * (b->n_ctx + 2);
    ch_buf_append(out, b->token, places * sizeof *b->token);
    ch_buf_append(out, b->doc, places * sizeof *b->doc);
    ch_buf_append(out, b->weight, b->n_row * b->n_ctx * sizeof *b->weight);
}

static void resume_is_exact(void **state) {
    (void)state;
    write_numbers("r.jsonl", 500, 60, 4);
    const ch_train_source s[] = {{file_path("r.jsonl"), 0.7, 1}};
    ch_train_data_params p = params_for(s, 1, 3, 64);
    ch_train_data *d = open_data(&p);
    enum { N = 200 }; // several epochs
    static ch_buf want[N];
    static ch_train_data_state st[N];
    ch_train_batch b;
    for (int i = 0; i < N; i++) {
        ch_train_data_get_state(d, &st[i]);
        next_batch(d, &b);
        copy_batch(&b, &want[i]);
    }
    assert_true(st[N - 1].epoch >= 2);
    ch_train_data *again = open_data(&p);
    for (int i = N - 1; i >= 0; i -= 7) { // anew from any place, backwards too
        ch_error e = {0};
        if (ch_train_data_set_state(again, &st[i], &e))
            fail_msg("%s", e.msg);
        for (int k = i; k < N && k < i + 3; k++) {
            ch_buf got = {0};
            next_batch(again, &b);
            copy_batch(&b, &got);
            assert_int_equal(got.len, want[k].len);
            assert_memory_equal(got.data, want[k].data, got.len);
            ch_buf_free(&got);
        }
    }
    // Another place than there is, other data.
    ch_error e;
    ch_train_data_info info;
    ch_train_data_state bad = st[0];
    assert_int_equal(ch_train_data_set_state(again, &bad, &e), 0);
    ch_train_data_get_info(again, &info);
    bad.index = info.n_rows;
    assert_int_equal(ch_train_data_set_state(again, &bad, &e), 0);
    bad.index = info.n_rows + 1;
    assert_int_equal(ch_train_data_set_state(again, &bad, &e), CH_ERANGE);
    next_batch(again, &b); // still usable
    ch_train_data_close(&again);
    p.n_ctx = 63;
    again = open_data(&p);
    assert_int_equal(ch_train_data_set_state(again, &st[0], &e), CH_ESTATE);
    ch_train_data_close(&again);
    for (int i = 0; i < N; i++)
        ch_buf_free(&want[i]);
    ch_train_data_close(&d);
}

static void ranks_share_the_rows(void **state) {
    (void)state;
    write_numbers("r.jsonl", 300, 60, 5);
    const ch_train_source s[] = {{file_path("r.jsonl"), 1, 1}};
    ch_train_data_params one = params_for(s, 1, 4, 48), two = params_for(s, 1, 2, 48), last = two;
    two.n_ranks = last.n_ranks = 2;
    last.rank = 1;
    ch_train_data *d = open_data(&one), *d0 = open_data(&two), *d1 = open_data(&last);
    for (int i = 0; i < 150; i++) {
        ch_train_batch b, b0, b1;
        next_batch(d, &b);
        next_batch(d0, &b0);
        next_batch(d1, &b1);
        assert_memory_equal(b.token, b0.token, 2 * 50 * sizeof *b.token);
        assert_memory_equal(b.token + 100, b1.token, 2 * 50 * sizeof *b.token);
        assert_memory_equal(b.weight + 96, b1.weight, 2 * 48 * sizeof *b.weight);
        ch_train_data_state x, y;
        ch_train_data_get_state(d, &x);
        ch_train_data_get_state(d1, &y);
        assert_memory_equal(&x, &y, sizeof x);
    }
    ch_train_data_close(&d);
    ch_train_data_close(&d0);
    ch_train_data_close(&d1);
}

static void cache_holds_the_same(void **state) {
    (void)state;
    write_numbers("c.jsonl", 50, 60, 6);
    const ch_train_source s[] = {{file_path("c.jsonl"), 1, 1}};
    ch_train_data_params p = params_for(s, 1, 2, 64);
    const char *path = file_path("cache");
    p.cache = path;
    ch_train_data_info a, b;
    ch_train_data *d = open_data(&p);
    ch_train_data_get_info(d, &a);
    ch_buf want = {0}, got = {0}, file = {0};
    ch_train_batch x;
    next_batch(d, &x);
    copy_batch(&x, &want);
    ch_train_data_close(&d);
    assert_false(a.from_cache);
    d = open_data(&p);
    ch_train_data_get_info(d, &b);
    assert_true(b.from_cache && a.n_tokens == b.n_tokens && a.fingerprint == b.fingerprint);
    next_batch(d, &x);
    copy_batch(&x, &got);
    assert_memory_equal(got.data, want.data, want.len);
    ch_train_data_close(&d);

    // Damaged at any place, or cut: made anew, with the same content.
    assert_int_equal(ch_read_file(&file, path, NULL), 0);
    for (size_t i = 0; i < file.len; i += 1 + file.len / 97) {
        file.data[i] ^= 1;
        write_file("cache", file.data, file.len);
        file.data[i] ^= 1;
        d = open_data(&p);
        ch_train_data_get_info(d, &b);
        assert_false(b.from_cache);
        assert_int_equal(b.n_tokens, a.n_tokens);
        ch_train_data_close(&d);
    }
    for (size_t n = 0; n < file.len; n += 1 + file.len / 31) {
        write_file("cache", file.data, n);
        d = open_data(&p);
        ch_train_data_get_info(d, &b);
        assert_false(b.from_cache);
        ch_train_data_close(&d);
    }
    // Other weights, other files.
    p.weights.text = 0.5f;
    d = open_data(&p);
    ch_train_data_get_info(d, &b);
    assert_false(b.from_cache);
    ch_train_data_close(&d);
    write_numbers("c.jsonl", 51, 60, 6);
    d = open_data(&p);
    ch_train_data_get_info(d, &b);
    assert_false(b.from_cache);
    assert_int_equal(b.n_docs, 51);
    ch_train_data_close(&d);
    ch_buf_free(&want);
    ch_buf_free(&got);
    ch_buf_free(&file);
}

// ---- what is refused --------------------------------------------------------------------------------------------------------
static void malformed_lines(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *says;
    } bad[] = {
        {"{\"text\":\"a\"", CH_EFORMAT, "not valid JSON"},
        {"[1]", CH_EFORMAT, "expected an object with"},
        {"7", CH_EFORMAT, "not valid JSON"},
        {"{\"txt\":\"a\"}", CH_EFORMAT, "expected an object with"},
        {"{\"text\":5}", CH_EFORMAT, "text: expected a string"},
        {"{\"text\":\"abc\",\"weight\":-1}", CH_ERANGE, "weight"},
        {"{\"text\":\"abc\",\"weight\":100.5}", CH_ERANGE, "weight"},
        {"{\"text\":\"abc\",\"weight\":\"1\"}", CH_EFORMAT, "weight"},
        {"{\"text\":\"abc\",\"spans\":3}", CH_EFORMAT, "spans"},
        {"{\"text\":\"abc\",\"spans\":[3]}", CH_EFORMAT, "spans[0]"},
        {"{\"text\":\"abc\",\"spans\":[[0,1]]}", CH_EFORMAT, "spans[0]"},
        {"{\"text\":\"abc\",\"spans\":[[0,4,1]]}", CH_ERANGE, "spans[0]"},
        {"{\"text\":\"abc\",\"spans\":[[2,1,1]]}", CH_ERANGE, "spans[0]"},
        {"{\"text\":\"abc\",\"spans\":[[0,2,1],[1,3,1]]}", CH_ERANGE, "spans[1]"},
        {"{\"text\":\"abc\",\"spans\":[[0,3,101]]}", CH_ERANGE, "spans"},
        {"{\"messages\":[]}", CH_EFORMAT, "at least one"},
        {"{\"messages\":{}}", CH_EFORMAT, "an array"},
        {"{\"messages\":[1]}", CH_EFORMAT, "messages[0]"},
        {"{\"messages\":[{\"content\":\"a\"}]}", CH_EFORMAT, "messages[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"weight\":true}]}", CH_EFORMAT, "weight of a message"},
        {"{\"text\":\"\xff\"}", CH_EFORMAT, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ch_buf b = {0};
        ch_buf_printf(&b, "{\"text\":\"right\"}\n\n%s\n{\"text\":\"right\"}\n", bad[i].line);
        write_file("bad.jsonl", b.data, b.len);
        const ch_train_source s[] = {{file_path("bad.jsonl"), 1, 1}};
        ch_train_data_params p = params_for(s, 1, 1, 32);
        ch_train_data *d = NULL;
        ch_error e = {0};
        int rc = ch_train_data_open(&d, &p, &e);
        if (rc != bad[i].code || !strstr(e.msg, "bad.jsonl: line 3: ") || !strstr(e.msg, bad[i].says))
            fail_msg("%s: code %d, \"%s\"", bad[i].line, rc, e.msg);
        ch_buf_free(&b);
    }
}

static int read_line(const char *text, size_t n) {
    ch_record_reader *r = NULL;
    ch_record d;
    ch_record_params p = {chat_template.data, chat_template.len, NULL, {0}};
    assert_int_equal(ch_record_reader_open(&r, &p, NULL), 0);
    assert_int_equal(ch_record_read_memory(r, "x.jsonl", text, n, NULL), 0);
    int rc = ch_record_next(r, &d, NULL);
    ch_record_reader_free(&r);
    return rc;
}

static void limits(void **state) {
    (void)state;
    // Bytes of a line.
    size_t most = CH_RECORD_MAX_LINE;
    char *line = malloc(most + 2);
    for (int k = -1; k <= 1; k++) {
        size_t n = k < 0 ? most - 1 : k ? most + 1 : most;
        memset(line, 'a', n);
        memcpy(line, "{\"text\":\"", 9);
        memcpy(line + n - 2, "\"}", 2);
        assert_int_equal(read_line(line, n), k > 0 ? CH_ELIMIT : 1);
    }
    // Bytes of a document of a plain file.
    for (int k = -1; k <= 1; k++) {
        size_t n = k < 0 ? most - 1 : k ? most + 1 : most;
        ch_record_reader *r = NULL;
        ch_record d;
        ch_record_params p = {0};
        memset(line, 'a', n);
        assert_int_equal(ch_record_reader_open(&r, &p, NULL), 0);
        assert_int_equal(ch_record_read_memory(r, "x.txt", line, n, NULL), 0);
        assert_int_equal(ch_record_next(r, &d, NULL), k > 0 ? CH_ELIMIT : 1);
        ch_record_reader_free(&r);
    }
    free(line);
    // Messages, spans, nesting.
    for (int k = -1; k <= 1; k++) {
        ch_buf b = {0};
        ch_buf_puts(&b, "{\"messages\":[");
        for (int i = 0; i < CH_RECORD_MAX_MESSAGES + k; i++)
            ch_buf_printf(&b, "%s{\"role\":\"user\",\"content\":\"a\"}", i ? "," : "");
        ch_buf_puts(&b, "]}");
        assert_int_equal(read_line(b.data, b.len), k > 0 ? CH_ELIMIT : 1);
        ch_buf_reset(&b);
        ch_buf_puts(&b, "{\"text\":\"a\",\"spans\":[");
        for (unsigned i = 0; i < CH_RECORD_MAX_SPANS + (unsigned)k; i++)
            ch_buf_printf(&b, "%s[0,0,1]", i ? "," : "");
        ch_buf_puts(&b, "]}");
        assert_int_equal(read_line(b.data, b.len), k > 0 ? CH_ELIMIT : 1);
        ch_buf_reset(&b);
        ch_buf_puts(&b, "{\"text\":\"a\",\"more\":");
        for (int i = 0; i < 127 + k; i++)
            ch_buf_puts(&b, "[");
        for (int i = 0; i < 127 + k; i++)
            ch_buf_puts(&b, "]");
        ch_buf_puts(&b, "}");
        assert_int_equal(read_line(b.data, b.len), k > 0 ? CH_ELIMIT : 1);
        ch_buf_free(&b);
    }
}

static void wrong_parameters(void **state) {
    (void)state;
    write_numbers("p.jsonl", 5, 5, 8);
    write_file("empty.jsonl", "\n\n", 2);
    const ch_train_source s[] = {{file_path("p.jsonl"), 1, 1}}, empty[] = {{file_path("empty.jsonl"), 1, 1}},
                          none[] = {{file_path("no such.jsonl"), 1, 1}};
    ch_train_source src = s[0];
    const ch_train_data_params ok = params_for(&src, 1, 1, 32);
    ch_train_data_params p;
    ch_train_data *d = NULL;
    ch_error e;
#define REFUSED(change, code) \
    src = s[0], p = ok, (change), assert_int_equal(ch_train_data_open(&d, &p, &e), code), assert_null(d)
#define TAKEN(change) src = s[0], p = ok, (change), assert_int_equal(ch_train_data_open(&d, &p, &e), 0), ch_train_data_close(&d)
    TAKEN(p.n_ctx = 8);
    REFUSED(p.n_ctx = 7, CH_ERANGE);
    TAKEN(p.n_ctx = 1 << 20);
    REFUSED(p.n_ctx = (1 << 20) + 1, CH_ERANGE);
    REFUSED(p.n_row = 0, CH_ERANGE);
    TAKEN((p.n_row = 65536, p.n_ctx = 8));
    REFUSED((p.n_row = 65537, p.n_ctx = 8), CH_ERANGE);
    REFUSED((p.n_row = 65, p.n_ctx = 1 << 20), CH_ERANGE);
    REFUSED(p.rank = 1, CH_ERANGE);
    REFUSED(p.rank = -1, CH_ERANGE);
    REFUSED(p.n_ranks = 0, CH_ERANGE);
    REFUSED(p.n_source = 0, CH_ERANGE);
    REFUSED(p.n_source = 65, CH_ERANGE);
    REFUSED(src.share = -0.1, CH_ERANGE);
    TAKEN(src.share = 1000);
    REFUSED(src.share = 1000.5, CH_ERANGE);
    TAKEN(src.weight = 100);
    REFUSED(src.weight = 100.5f, CH_ERANGE);
    REFUSED(p.weights.user = -1, CH_ERANGE);
    REFUSED(p.weights.end = 101, CH_ERANGE);
    REFUSED(p.source = empty, CH_EFORMAT);
    REFUSED(p.source = none, CH_EIO);
    REFUSED(p.cache = "/no such folder/cache", CH_EIO);
    REFUSED((p.template_text = "{%", p.n_template = 2), CH_EFORMAT);
    REFUSED((p.template_text = "{{ 1 }}", p.n_template = 7), CH_EUNSUPPORTED); // begins no answer
}

static void failing_memory(void **state) {
    (void)state;
    static const char records[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"the cat\"},{\"role\":\"assistant\",\"content\":\"the dog\"}]}\n{\"text\":\"cat\"}\n";
    write_file("m.jsonl", records, sizeof records - 1);
    const ch_train_source s[] = {{file_path("m.jsonl"), 1, 1}};
    const char *path = file_path("m.cache");
    ch_train_data_params p = params_for(s, 1, 1, 32);
    p.cache = path;
    for (int64_t nth = 0;; nth++) {
        ch_train_data *d = NULL;
        ch_error e = {0};
        unlink(path);
        ch_alloc_fail_at(nth);
        int rc = ch_train_data_open(&d, &p, &e);
        ch_alloc_fail_at(-1);
        if (!rc) {
            ch_train_data_close(&d);
            break;
        }
        assert_int_equal(rc, CH_ENOMEM);
        assert_null(d);
        assert_true(nth < 100000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_chats),  cmocka_unit_test(weights_of_texts),     cmocka_unit_test(weights_of_tokens),
        cmocka_unit_test(every_document_once_and_whole), cmocka_unit_test(long_documents), cmocka_unit_test(shares),
        cmocka_unit_test(resume_is_exact),   cmocka_unit_test(ranks_share_the_rows), cmocka_unit_test(cache_holds_the_same),
        cmocka_unit_test(malformed_lines),   cmocka_unit_test(limits),               cmocka_unit_test(wrong_parameters),
        cmocka_unit_test(failing_memory),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
