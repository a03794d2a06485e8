// Fuzz target of training checkpoints. Input: a byte (bit 0: leave the hash and the counts as they are, bit 1: leave the checksum, bit 2: a
// run with a running average), then a file. One that is accepted has become the trainer's weights, moments and step; one that is refused
// has changed nothing, and the error names the file.
#include <stdlib.h>
#include <string.h>

#include "train/trainer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 80, N_VOCAB = 4, MAX_BYTES = 1 << 16, MAX_INDEX = 1000 };

static int next(void *user, ch_train_batch *b, ch_error *e) {
    (void)user, (void)b;
    return ch_error_set(e, CH_ESTATE, "never asked for");
}
static int set_state(void *user, const ch_train_data_state *s, ch_error *e) { // as of the data: it may refuse
    ch_train_data_state *at = user;
    if (s->index > MAX_INDEX) return ch_error_set(e, CH_ERANGE, "file: no such row");
    *at = *s;
    return 0;
}

static ch_trainer *open_trainer(ch_train_config *c, ch_train_data_state *at, bool average) {
    static const char text[] = "{\"model\": {\"arch\": \"mamba2\", \"n_layer\": 1, \"n_embd\": 8, \"ssm_heads_k\": 1, \"ssm_heads_v\": 1, \"ssm_d_state\": 8,"
                               "\"ssm_d_head\": 8}, \"data\": {\"tokenizer\": \"x\", \"sources\": [{\"path\": \"x\"}], \"n_row\": 1, \"n_ctx\": 8},"
                               "\"train\": {\"steps\": 1, \"average\": 0.5}}";
    ch_trainer *t = NULL;
    if (ch_train_config_parse(c, text, sizeof text - 1, "text", NULL)) abort();
    if (!average) c->average = 0;
    const ch_train_feed f = {.user = at, .next = next, .set_state = set_state};
    if (ch_trainer_open(&t, c, N_VOCAB, &f, 1, NULL)) abort();
    return t;
}

static void put64(uint8_t *b, uint64_t v) { memcpy(b, &v, 8); }
static uint64_t get64(const uint8_t *b) {
    uint64_t v;
    memcpy(&v, b, 8);
    return v;
}

// The hash of the tensors is what the trainer itself writes.
static uint64_t own_hash(const ch_trainer *t) {
    const char *dir = getenv("TMPDIR");
    char path[512];
    ch_buf b = {0};
    snprintf(path, sizeof path, "%s/fuzz_checkpoint.%p", dir ? dir : "/tmp", (const void *)t);
    if (ch_trainer_save(t, path, NULL) || ch_read_file(&b, path, NULL) || b.len < HEAD) abort();
    remove(path);
    const uint64_t h = get64((const uint8_t *)b.data + 8);
    ch_buf_free(&b);
    return h;
}

static uint64_t sum_of(const ch_trainer *t, const ch_train_data_state *at) {
    const size_t bytes = t->n_trained * sizeof(float);
    uint64_t h = ch_hash64(t->w, bytes, t->step);
    h = ch_hash64(t->moment, bytes, h), h = ch_hash64(t->square, bytes, h);
    if (t->mean) h = ch_hash64(t->mean, bytes, h);
    return ch_hash64(at, sizeof *at, h ^ t->n_tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ch_train_config cfg[2];
    static ch_trainer *trainer[2];
    static ch_train_data_state at[2];
    static uint64_t hash[2];
    if (size == 0 || size > MAX_BYTES) return 0;
    const int k = data[0] >> 2 & 1;
    if (!trainer[k]) trainer[k] = open_trainer(&cfg[k], &at[k], k), hash[k] = own_hash(trainer[k]);
    ch_trainer *t = trainer[k];
    const size_t n = size - 1, bytes = t->n_trained * sizeof(float);
    uint8_t *b = malloc(n ? n : 1); // exact, for the address sanitizer
    if (!b) return 0;
    memcpy(b, data + 1, n);
    if (!(data[0] & 1) && n >= HEAD) memcpy(b, "CHTRAIN1", 8), put64(b + 8, hash[k]), put64(b + 64, t->n_trained), put64(b + 72, k ? 4 : 3);
    if (!(data[0] & 2) && n >= HEAD + 8) { // as the writer chains it: header, then each array
        uint64_t sum = ch_hash64(b, HEAD, 0);
        for (size_t i = HEAD; i + bytes + 8 <= n; i += bytes) sum = ch_hash64(b + i, bytes, sum);
        put64(b + n - 8, sum);
    }
    ch_error e = {0};
    const uint64_t before = sum_of(t, &at[k]);
    const int rc = ch_trainer_restore(t, b, n, "file", &e);
    if (rc == 0) {
        if (n != HEAD + (k ? 4 : 3) * bytes + 8 || memcmp(b, "CHTRAIN1", 8) != 0 || t->step != get64(b + 16) || t->n_tokens != get64(b + 24)) abort();
        const float *const a[4] = {t->w, t->moment, t->square, t->mean};
        for (size_t i = 0; i < (k ? 4u : 3u); i++)
            if (memcmp(a[i], b + HEAD + i * bytes, bytes) != 0) abort();
        if (memcmp(&at[k], b + 32, sizeof at[k]) != 0 || at[k].index > MAX_INDEX) abort();
    } else if (rc > 0 || e.code != rc || strncmp(e.msg, "file: ", 6) != 0 || sum_of(t, &at[k]) != before) {
        abort();
    }
    free(b);
    return 0;
}
