// Trains a byte-level BPE tokenizer and writes its vocabulary.
#include <string.h>

#include "train/bpe.h"

static int check_params(const ch_train_bpe_params *p, ch_error *e) {
    if (p->n_special > 4096 || p->n_control > p->n_special)
        return ch_error_set(e, CH_ERANGE, "special tokens: expected at most 4096, found %zu", p->n_special);
    int32_t least = 256 + (int32_t)p->n_special;
    if (p->n_vocab < least || p->n_vocab > 1 << 20)
        return ch_error_set(e, CH_ERANGE, "vocabulary: expected %d (256 bytes and the special tokens) to %d, found %d", least, 1 << 20,
                            p->n_vocab);
    if (!p->n_path)
        return ch_error_set(e, CH_ERANGE, "training text: expected at least one file");
    for (size_t i = 0; i < p->n_special; i++) {
        size_t n = strlen(p->special[i]);
        if (n < 2 || n > 256 || !ch_utf8_valid(p->special[i], n))
            return ch_error_set(e, CH_ERANGE, "special token %zu: expected 2 to 256 bytes of UTF-8", i);
        for (size_t k = 0; k < i; k++)
            if (strcmp(p->special[i], p->special[k]) == 0)
                return ch_error_set(e, CH_EFORMAT, "special token \"%.60s\" is given twice", p->special[i]);
    }
    return 0;
}

// Printable spelling of raw bytes.
static bool put_spelling(ch_buf *out, const char *raw, size_t n) {
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        char c[4];
        size_t len = ch_text_byte_char((uint8_t)raw[i], c);
        ok = ch_buf_append(out, c, len);
    }
    return ok;
}

typedef struct vocab_lists {
    ch_buf text;        // spellings of tokens, then of merges
    size_t *end;        // [n_token + n_merge]
    ch_gguf_str *str;   // the same as strings
    int32_t *type;
} vocab_lists;

static int put_special(ch_gguf_writer *w, const char *key, const char *name, const ch_train_bpe_params *p, uint32_t first, ch_error *e) {
    for (size_t i = 0; name && i < p->n_special; i++)
        if (strcmp(p->special[i], name) == 0)
            return ch_gguf_put_u32(w, key, first + (uint32_t)i);
    return name ? ch_error_set(e, CH_EFORMAT, "\"%.60s\" is not among the special tokens", name) : 0;
}

static bool fill_lists(vocab_lists *l, const ch_bpe_merges *m, const ch_train_bpe_params *p) {
    size_t n_symbol = (size_t)m->n, n_token = n_symbol + p->n_special, k = 0;
    l->end = ch_alloc_array(n_token + n_symbol, sizeof *l->end);
    l->str = ch_alloc_array(n_token + n_symbol, sizeof *l->str);
    l->type = ch_alloc_array(n_token, sizeof *l->type);
    bool ok = l->end && l->str && l->type;
    for (size_t i = 0; ok && i < n_symbol; i++) {
        ok = put_spelling(&l->text, m->spelling.data + m->symbol[i].at, m->symbol[i].n);
        l->type[k] = CH_TOKEN_NORMAL;
        l->end[k++] = l->text.len;
    }
    for (size_t i = 0; ok && i < p->n_special; i++) {
        ok = ch_buf_puts(&l->text, p->special[i]);
        l->type[k] = i < p->n_control ? CH_TOKEN_CONTROL : CH_TOKEN_USER;
        l->end[k++] = l->text.len;
    }
    for (size_t i = 256; ok && i < n_symbol; i++) {
        const ch_bpe_symbol *a = &m->symbol[m->symbol[i].left], *b = &m->symbol[m->symbol[i].right];
        ok = put_spelling(&l->text, m->spelling.data + a->at, a->n) && ch_buf_puts(&l->text, " ") &&
             put_spelling(&l->text, m->spelling.data + b->at, b->n);
        l->end[k++] = l->text.len;
    }
    for (size_t i = 0, at = 0; ok && i < k; at = l->end[i++])
        l->str[i] = (ch_gguf_str){l->text.data + at, l->end[i] - at};
    return ok;
}

static int write_keys(ch_gguf_writer *w, const vocab_lists *l, const ch_bpe_merges *m, const ch_train_bpe_params *p, ch_error *e) {
    size_t n_token = (size_t)m->n + p->n_special;
    int rc = ch_gguf_put_str(w, "general.type", "vocab", 5);
    if (!rc)
        rc = ch_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    if (!rc)
        rc = ch_gguf_put_str(w, "tokenizer.ggml.pre", p->pre, strlen(p->pre));
    if (!rc)
        rc = ch_gguf_put_arr_str(w, "tokenizer.ggml.tokens", l->str, n_token);
    if (!rc)
        rc = ch_gguf_put_arr(w, "tokenizer.ggml.token_type", CH_GGUF_I32, l->type, n_token);
    if (!rc)
        rc = ch_gguf_put_arr_str(w, "tokenizer.ggml.merges", l->str + n_token, (uint64_t)m->n - 256);
    if (!rc)
        rc = put_special(w, "tokenizer.ggml.eos_token_id", p->eos, p, (uint32_t)m->n, e);
    if (!rc)
        rc = put_special(w, "tokenizer.ggml.padding_token_id", p->pad, p, (uint32_t)m->n, e);
    if (!rc)
        rc = ch_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    if (!rc && p->template_text)
        rc = ch_gguf_put_str(w, "tokenizer.chat_template", p->template_text, p->n_template);
    return rc;
}

static int write_vocab(const char *path, const ch_bpe_merges *m, const ch_train_bpe_params *p, ch_error *e) {
    vocab_lists l = {0};
    ch_gguf_writer *w = NULL;
    int rc = fill_lists(&l, m, p) ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for the vocabulary");
    if (!rc)
        rc = ch_gguf_writer_open(&w, path, e);
    if (!rc) {
        *(e ? e : &(ch_error){0}) = (ch_error){0};
        rc = write_keys(w, &l, m, p, e);
        if (rc && e && !e->code)
            ch_error_set(e, rc, "%s: the vocabulary cannot be written", path);
        if (!rc)
            rc = ch_gguf_writer_commit(&w, e);
        ch_gguf_writer_abort(&w);
    }
    ch_buf_free(&l.text);
    ch_free(l.end);
    ch_free(l.str);
    ch_free(l.type);
    return rc;
}

int ch_train_bpe(const char *out, const ch_train_bpe_params *p, ch_train_bpe_info *info, ch_error *e) {
    ch_bpe_words words = {0};
    ch_bpe_merges merges = {0};
    int rc = check_params(p, e);
    if (!rc)
        rc = ch_bpe_count_words(&words, p, e);
    if (!rc)
        rc = ch_bpe_merge(&merges, &words, p->n_vocab - (int32_t)p->n_special, p, e);
    if (!rc)
        rc = write_vocab(out, &merges, p, e);
    if (!rc && info)
        *info = (ch_train_bpe_info){words.n_bytes, words.n, merges.n_tokens, merges.n - 256};
    ch_bpe_words_free(&words);
    ch_bpe_merges_free(&merges);
    return rc;
}
