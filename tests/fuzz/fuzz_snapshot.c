// Fuzz target of sequence snapshots. Input: a byte (bits 0-1: which plan, bit 7: leave the checksum as it is), then a snapshot.
// Unless told not to, the checksum is made to fit, so that what lies behind it is reached. A snapshot that is accepted must
// come out again byte for byte; one that is refused must leave a usable sequence.
#include <stdlib.h>
#include <string.h>

#include "seq/seq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TOKENS = 20, MAX_BYTES = 4096 };

static void try_restore(ch_seq *s, const uint8_t *data, size_t size) {
    int32_t *token = malloc(MAX_TOKENS * sizeof *token); // exact, for the address sanitizer
    size_t n_token = SIZE_MAX;
    ch_error e = {0};
    if (!token) return;
    int rc = ch_seq_restore(s, data, size, token, MAX_TOKENS, &n_token, &e);
    if (rc == 0) {
        ch_buf out = {0};
        if (n_token != ch_seq_len(s) || n_token > MAX_TOKENS) abort();
        if (ch_seq_snapshot(s, token, n_token, &out, &e)) abort();
        if (out.len != size || memcmp(out.data, data, size)) abort();
        ch_buf_free(&out);
    } else if (rc > 0 || !e.msg[0]) {
        abort();
    }
    ch_seq_reset(s);
    if (ch_seq_extend(s, MAX_TOKENS, &e)) abort();
    free(token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ch_seq_plan plans[4] = {
        {.page_tokens = 4, .page_bytes = 24, .slab_bytes = 40, .fingerprint = 7},
        {.page_tokens = 4, .page_bytes = 24, .slab_bytes = 0, .fingerprint = 7},
        {.page_tokens = 4, .page_bytes = 0, .slab_bytes = 40, .fingerprint = 7},
        {.page_tokens = 64, .page_bytes = 8, .slab_bytes = 8, .fingerprint = 0},
    };
    static const ch_seq_limits limits = {.n_seq = 1, .n_mark = 1, .n_page = 5, .max_tokens = MAX_TOKENS};
    if (size == 0 || size > MAX_BYTES) return 0;
    uint8_t *copy = malloc(size);
    if (!copy) return 0;
    memcpy(copy, data + 1, --size);
    if (!(data[0] & 128) && size >= 8) {
        uint64_t sum = ch_hash64(copy, size - 8, 0);
        memcpy(copy + size - 8, &sum, sizeof sum);
    }
    uint8_t *exact = malloc(size ? size : 1);
    if (exact) memcpy(exact, copy, size);
    free(copy);
    ch_seq_pool *pool;
    ch_seq *s;
    if (!exact || ch_seq_pool_create(&pool, &plans[data[0] & 3], &limits, NULL)) return free(exact), 0;
    if (ch_seq_create(&s, pool, NULL)) abort();
    try_restore(s, exact, size);
    ch_seq_free(&s);
    ch_seq_pool_free(&pool);
    free(exact);
    return 0;
}
