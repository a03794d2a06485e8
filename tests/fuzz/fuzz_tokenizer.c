// Tokenizer: a vocabulary file from hostile bytes, and hostile text with a small good vocabulary for every pre-tokenizer.
// First byte: 0: the rest is a GGUF file, whose own bytes are then tokenised; else it picks the pre-tokenizer, the second
// byte holds flags and the third the cut of message and template text.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/pre.h"
#include "vocab_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_PRE = 64, CONTROL = 261, TAG = 262 };

static void require(bool ok) {
    if (!ok) abort();
}

// All bytes, a few merges, a control token, a tag, a run of spaces.
static ch_vocab *build(const char *pre) {
    static const char *const merge[] = {"a a", "aa aa", "\xC4\xA0 a", "b c", "\xC4\x8A \xC4\x8A"};
    static const char *const more[] = {"aa", "aaaa", ("\xC4\xA0" "a"), "bc", "\xC4\x8A\xC4\x8A", "<|x|>", "<t>", "   "};
    static const uint32_t type[] = {1, 1, 1, 1, 1, CH_TOKEN_CONTROL, CH_TOKEN_USER, CH_TOKEN_USER};
    vocab_builder b = {0};
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", pre);
    vb_put_arr(&b, "tokenizer.ggml.tokens", CH_GGUF_STR, 264);
    for (int i = 0; i < 256; i++) {
        int k = i <= 32 ? i : i >= 127 && i <= 160 ? i - 94 : i == 173 ? 67 : -1;
        char c[4];
        size_t len = ch_utf8_encode((uint32_t)(k < 0 ? i : 256 + k), c);
        vb_string(&b.kv, c, len);
    }
    for (int i = 0; i < 8; i++) vb_string(&b.kv, more[i], strlen(more[i]));
    vb_put_arr(&b, "tokenizer.ggml.token_type", CH_GGUF_I32, 264);
    for (int i = 0; i < 264; i++) vb_u32(&b.kv, i < 256 ? 1 : type[i - 256]);
    vb_put_strs(&b, "tokenizer.ggml.merges", merge, 5);
    ch_vocab *v = NULL;
    require(vb_open(&b, &v, NULL) == 0);
    return v;
}

static void check_ids(const ch_vocab *v, const ch_tokens *t, bool special) {
    ch_buf all = {0}, stream = {0};
    ch_detok d;
    require(ch_detokenize(v, t->id, t->n, special, &all) == 0);
    ch_detok_init(&d, v, special);
    for (size_t i = 0; i < t->n; i++) {
        require(t->id[i] >= 0 && t->id[i] < ch_vocab_n(v));
        require(ch_detok_push(&d, t->id[i], &stream));
    }
    require(ch_detok_finish(&d, &stream));
    require(ch_utf8_valid(stream.data ? stream.data : "", stream.len));
    if (ch_utf8_valid(all.data ? all.data : "", all.len)) require(all.len == stream.len && (!all.len || memcmp(all.data, stream.data, all.len) == 0));
    ch_buf_free(&all);
    ch_buf_free(&stream);
}

static void run_file(const uint8_t *data, size_t size) {
    ch_gguf *g = NULL;
    ch_vocab *v = NULL;
    ch_error e;
    if (ch_gguf_open_memory(&g, data, size, "fuzz", &e) == 0 && ch_vocab_open(&v, g, &e) == 0) {
        ch_gguf_close(&g); // the vocabulary keeps nothing of it
        ch_tokens t = {0};
        if (ch_tokenize(v, (const char *)data, size > 4096 ? 4096 : size, CH_TOK_SPECIAL | CH_TOK_BOS_EOS, &t, &e) == 0) check_ids(v, &t, true);
        ch_tokens_free(&t);
        for (int32_t i = 0; i < ch_vocab_n(v); i++) {
            const char *p;
            size_t n;
            ch_vocab_piece(v, i, true, &p);
            const char *s = ch_vocab_text(v, i, &n);
            require(s != NULL);
            (void)ch_vocab_find(v, s, n);
        }
        ch_vocab_free(&v);
    }
    ch_gguf_close(&g);
}

static void run_text(const ch_vocab *v, const char *pre, unsigned flags, size_t cut, const char *text, size_t n) {
    ch_tokens t = {0}, u = {0};
    ch_error e;
    require(ch_tokenize(v, text, n, flags, &t, &e) == 0);
    check_ids(v, &t, true);
    if (strcmp(pre, "qwen2") != 0) { // the one that normalises
        ch_buf back = {0};
        require(ch_detokenize(v, t.id, t.n, true, &back) == 0);
        require(back.len == n && (!n || memcmp(back.data, text, n) == 0));
        ch_buf_free(&back);
    }
    // The same through spans: template text up to the cut, message text after it.
    if (cut > n) cut = n;
    ch_span span[2] = {{0, cut, true}, {cut, n, false}};
    require(ch_tokenize_spans(v, text, n, span, 2, flags, &u, &e) == 0);
    size_t at = 0;
    for (size_t i = 0; i < u.n; i++) {
        const char *p;
        at += ch_vocab_piece(v, u.id[i], true, &p);
        if (u.id[i] == CONTROL || u.id[i] == TAG) require(strcmp(pre, "qwen2") == 0 || at <= cut);
    }
    ch_tokens_free(&t);
    ch_tokens_free(&u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ch_vocab *vocab[MAX_PRE]; // kept from input to input
    if (size < 1) return 0;
    if (data[0] == 0) {
        run_file(data + 1, size - 1);
        return 0;
    }
    if (size < 3) return 0;
    size_t n_pre = 0;
    while (n_pre < MAX_PRE && ch_text_pre_name_at(n_pre)) n_pre++;
    size_t i = data[0] % n_pre;
    const char *pre = ch_text_pre_name_at(i);
    if (!vocab[i]) vocab[i] = build(pre);
    run_text(vocab[i], pre, data[1] & 1 ? CH_TOK_SPECIAL : 0, data[2], (const char *)data + 3, size - 3);
    return 0;
}
