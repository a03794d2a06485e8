// The cache file of tokens: every count and value at its limit, one below, one above.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "train/store.h"
#include "vocab_builder.h"

enum { HEAD = 40, N_VOCAB = 3 };
static ch_vocab *vocab;

static int start(void **state) {
    (void)state;
    static const char *const token[N_VOCAB] = {"a", "b", "<|im_end|>"};
    static const int32_t type[N_VOCAB] = {CH_TOKEN_NORMAL, CH_TOKEN_NORMAL, CH_TOKEN_CONTROL};
    vocab_builder b = {0};
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", "qwen35");
    vb_put_strs(&b, "tokenizer.ggml.tokens", token, N_VOCAB);
    vb_put_i32s(&b, "tokenizer.ggml.token_type", type, N_VOCAB);
    vb_put_strs(&b, "tokenizer.ggml.merges", NULL, 0);
    vb_put_u32(&b, "tokenizer.ggml.eos_token_id", 2);
    return vb_open(&b, &vocab, NULL);
}

static int stop(void **state) {
    (void)state;
    ch_vocab_free(&vocab);
    return 0;
}

// Two documents, of two and three tokens.
typedef struct content {
    uint64_t key, n_doc, n_token;
    uint64_t begin[3];
    int32_t token[5];
    uint16_t weight[5];
    uint8_t source[2];
} content;
static const content good = {.key = 9, .n_doc = 2, .n_token = 5, .begin = {0, 2, 5}, .token = {0, 1, 2, 0, 1}, .weight = {0, 0x3c00, 1, 2, 0x7bff}, .source = {0, 1}};

// more: bytes behind, or fewer; flip: byte of the file to change after the hash was taken, or -1.
static bool accepted(const content *c, int more, int flip) {
    uint8_t file[HEAD + 3 * 8 + 5 * 4 + 5 * 2 + 2 + 8];
    size_t n = HEAD;
    memset(file, 0, sizeof file);
    memcpy(file, "CHTOKEN1", 8);
    const struct {
        const void *p;
        size_t n;
    } part[4] = {{c->begin, sizeof c->begin}, {c->token, sizeof c->token}, {c->weight, sizeof c->weight}, {c->source, sizeof c->source}};
    uint64_t h = c->key;
    for (int i = 0; i < 4; i++) {
        memcpy(file + n, part[i].p, part[i].n);
        h = ch_hash64(part[i].p, part[i].n, h);
        n += part[i].n;
    }
    const uint64_t head[4] = {c->key, c->n_doc, c->n_token, h};
    memcpy(file + 8, head, sizeof head);
    if (flip >= 0) file[flip] ^= 1;
    const size_t size = (size_t)((int)n + more);
    uint8_t *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, file, size);
    ch_store s;
    const bool ok = ch_store_read(&s, &(ch_train_data_params){.vocab = vocab, .n_source = 2}, good.key, exact, size);
    if (ok) assert_int_equal(s.n_doc, 2);
    else assert_null(s.begin);
    free(exact);
    return ok;
}

#define WITH(change) accepted(&(content){.key = good.key, .n_doc = 2, .n_token = 5, .begin = {0, 2, 5}, .token = {0, 1, 2, 0, 1}, \
                                         .weight = {0, 0x3c00, 1, 2, 0x7bff}, .source = {0, 1}, change}, 0, -1)

static void sizes(void **state) {
    (void)state;
    const int whole = HEAD + 24 + 20 + 10 + 2;
    assert_true(accepted(&good, 0, -1));
    assert_false(accepted(&good, -1, -1));
    assert_false(accepted(&good, 1, -1));
    for (int cut = 1; cut <= whole; cut++) assert_false(accepted(&good, -cut, -1));
    for (int i = 0; i < whole; i++) assert_false(accepted(&good, 0, i)); // magic, key, counts, hash, content
}

// Designated initializers may name a member twice; the last one holds.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static void counts(void **state) {
    (void)state;
    const uint64_t most = UINT64_MAX;
    assert_true(WITH(.n_doc = 2));
    assert_false(WITH(.n_doc = 1));
    assert_false(WITH(.n_doc = 3));
    assert_false(WITH(.n_doc = 0));
    assert_false(WITH(.n_doc = most));
    assert_false(WITH(.n_doc = most / 9)); // 9 n wraps to a little less than 2^64
    assert_false(WITH(.n_token = 4));
    assert_false(WITH(.n_token = 6));
    assert_false(WITH(.n_token = most / 6 + 6)); // 6 n wraps to the size that fits
    assert_false(WITH(.key = 8));
}

static void values(void **state) {
    (void)state;
    assert_true(WITH(.token[0] = N_VOCAB - 1));
    assert_false(WITH(.token[0] = N_VOCAB));
    assert_false(WITH(.token[0] = -1));
    assert_true(WITH(.weight[0] = 0x7bff));  // the largest number
    assert_false(WITH(.weight[0] = 0x7c00)); // infinite
    assert_false(WITH(.weight[0] = 0x8001)); // negative
    assert_true(WITH(.source[0] = 1));
    assert_false(WITH(.source[0] = 2));
    assert_true(WITH(.begin[1] = 3)); // documents of three and two tokens
    assert_false(WITH(.begin[1] = 4)); // a document of one token
    assert_false(WITH(.begin[1] = 1));
    assert_false(WITH(.begin[1] = UINT64_MAX));
    assert_false(WITH(.begin[0] = 1));
    assert_false(WITH(.begin[2] = 4));
}
#pragma GCC diagnostic pop

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(counts), cmocka_unit_test(values)};
    return cmocka_run_group_tests(tests, start, stop);
}
