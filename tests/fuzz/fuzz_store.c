// Fuzz target of the cache file of tokens. Input: a byte (bit 0: leave the key, bit 1: leave the hash), then a file. What is accepted has
// documents of two tokens or more that lie side by side, tokens of the vocabulary, weights that are numbers.
#include <stdlib.h>
#include <string.h>

#include "train/store.h"
#include "vocab_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 40, N_VOCAB = 3, N_SOURCE = 2, MAX_BYTES = 1 << 16 };
static const uint64_t key = 77;

static ch_vocab *open_vocab(void) {
    static const char *const token[N_VOCAB] = {"a", "b", "<|im_end|>"};
    static const int32_t type[N_VOCAB] = {CH_TOKEN_NORMAL, CH_TOKEN_NORMAL, CH_TOKEN_CONTROL};
    vocab_builder b = {0};
    ch_vocab *v = NULL;
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", "qwen35");
    vb_put_strs(&b, "tokenizer.ggml.tokens", token, N_VOCAB);
    vb_put_i32s(&b, "tokenizer.ggml.token_type", type, N_VOCAB);
    vb_put_strs(&b, "tokenizer.ggml.merges", NULL, 0);
    vb_put_u32(&b, "tokenizer.ggml.eos_token_id", 2);
    if (vb_open(&b, &v, NULL)) abort();
    return v;
}

static uint64_t get64(const uint8_t *b) {
    uint64_t v;
    memcpy(&v, b, 8);
    return v;
}

// The writer's hash, where the counts fit the size.
static void fix_hash(uint8_t *b, size_t n) {
    const uint64_t doc = get64(b + 16), token = get64(b + 24);
    if (doc > n || token > n || n != HEAD + 8 * (doc + 1) + 6 * token + doc) return;
    const uint8_t *at = b + HEAD;
    const size_t part[4] = {8 * (doc + 1), 4 * token, 2 * token, doc};
    uint64_t h = get64(b + 8);
    for (int i = 0; i < 4; at += part[i++]) h = ch_hash64(at, part[i], h);
    memcpy(b + 32, &h, 8);
}

static void check(const ch_store *s, const uint8_t *b, size_t n) {
    if (s->n_doc < 1 || s->begin[0] != 0 || s->begin[s->n_doc] != s->n_token || (const uint8_t *)s->begin != b + HEAD ||
        s->source + s->n_doc != b + n)
        abort();
    for (size_t i = 0; i < s->n_doc; i++)
        if (s->begin[i + 1] > s->n_token || s->begin[i] + 2 > s->begin[i + 1] || s->source[i] >= N_SOURCE) abort();
    for (size_t i = 0; i < s->n_token; i++) {
        const float w = ch_f16_to_f32(s->weight[i]);
        if (s->token[i] < 0 || s->token[i] >= N_VOCAB || !(w >= 0 && w < 65536)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ch_vocab *vocab;
    if (!vocab) vocab = open_vocab();
    if (size == 0 || size > MAX_BYTES) return 0;
    const size_t n = size - 1;
    uint8_t *b = malloc(n ? n : 1); // exact, for the address sanitizer
    if (!b) return 0;
    memcpy(b, data + 1, n);
    if (!(data[0] & 1) && n >= HEAD) memcpy(b, "CHTOKEN1", 8), memcpy(b + 8, &key, 8);
    if (!(data[0] & 2) && n >= HEAD) fix_hash(b, n);
    const ch_train_data_params p = {.vocab = vocab, .n_source = N_SOURCE};
    ch_store s;
    if (ch_store_read(&s, &p, key, b, n)) check(&s, b, n);
    else if (s.n_doc || s.begin || s.from_cache) abort();
    free(b);
    return 0;
}
