// A model without weights behind the contract of model.h, for tests of the scheduler: linked instead of src/model.
//
// Its state is a hash of every token fed so far, kept in the recurrent slab, and once more per position in the pages; each
// step checks that both still agree, so a wrong rollback, a stale slab or a page written by another sequence ends the test.
// The next token is what fake.next says from (hash, position); the other scores are noise derived from the hash.
#ifndef CH_TEST_FAKE_MODEL_H
#define CH_TEST_FAKE_MODEL_H

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "text/text.h"

enum {
    FAKE_IM_START = 256, FAKE_IM_END, FAKE_THINK, FAKE_THINK_END, FAKE_NAN, FAKE_BAD, FAKE_BROKEN, FAKE_UNUSED,
    FAKE_N_KNOWN, FAKE_N_VOCAB = FAKE_N_KNOWN + 16
};

typedef struct fake_state {
    uint64_t hash, n;
} fake_state;

// Knobs, set while no engine works; counters, read when it is idle.
static struct {
    int32_t (*next)(uint64_t hash, uint64_t n); // NULL: letters by hash, end of turn once in 32
    bool no_slab;
    const char *chat_template;
    double read_gbps;     // what memory is said to give; 0: not measured
    uint64_t step_bytes;  // that each step is said to read
    const char *file;     // already written, used as it is; NULL: each opening writes its own
    atomic_int hold;      // > 0: each step waits until it is 0
    atomic_int delay_us;  // of each step
    atomic_int waiting;   // a step is waiting at hold
    atomic_long rows, steps, max_segments;
    _Atomic uint64_t prompt_hash; // of the last row with scores
    int32_t seen[4096];   // tokens of rows, as they came
    atomic_long n_seen;
} fake;

struct ch_model {
    ch_gguf *gguf;
    ch_model_info info;
    ch_seq_plan plan;
    ch_model_params p;
    char path[64];
};

#define FAKE_PAGE 8

static uint64_t fake_mix(uint64_t h, int32_t token)
{
    h ^= (uint64_t)(uint32_t)token + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdull;
    return h ^ (h >> 32);
}

static int32_t fake_letters(uint64_t h, uint64_t n)
{
    (void)n;
    uint64_t r = h % 992;
    return r < 31 ? FAKE_IM_END : (int32_t)(r % 27 == 26 ? ' ' : 'a' + r % 27);
}

static void fake_scores(const fake_state *s, int32_t last, float *x)
{
    uint64_t h = s->hash;
    for (int i = 0; i < FAKE_N_VOCAB; i++) {
        h = h * 6364136223846793005ull + 1442695040888963407ull;
        x[i] = (float)(h >> 40) / (float)(1 << 24) * 4.0f;
    }
    for (int i = FAKE_THINK; i < FAKE_N_VOCAB; i++)
        x[i] = i < FAKE_N_KNOWN - 1 ? -30.0f : 50.0f; // padding and unused ids have the best scores: never to be chosen
    int32_t best = (fake.next ? fake.next : fake_letters)(s->hash, s->n);
    x[best] = 6.0f;
    if (last == FAKE_NAN)
        x[3] = NAN;
}

static ch_gguf_str fake_str(const char *s)
{
    return (ch_gguf_str){s, strlen(s)};
}

static void fake_write_gguf(const char *path)
{
    static char text[FAKE_N_KNOWN][24];
    static const char *const special[] = {"<|im_start|>", "<|im_end|>", "<think>",       "</think>",
                                          "[NAN]",        "[BAD]",      "[BROKEN]", "[UNUSED]"};
    ch_gguf_str tok[FAKE_N_KNOWN];
    int32_t type[FAKE_N_KNOWN], extra = 256;
    for (int b = 0; b < 256; b++) { // bytes as printable characters, as byte-level vocabularies write them
        bool plain = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        size_t n = ch_utf8_encode((uint32_t)(plain ? b : extra++), text[b]);
        text[b][n] = 0;
        tok[b] = fake_str(text[b]);
        type[b] = CH_TOKEN_NORMAL;
    }
    for (int i = 0; i < FAKE_N_KNOWN - 256; i++) {
        tok[256 + i] = fake_str(special[i]);
        type[256 + i] = i < 2 ? CH_TOKEN_CONTROL : i == FAKE_UNUSED - 256 ? CH_TOKEN_UNUSED : CH_TOKEN_USER;
    }
    ch_gguf_writer *w = NULL;
    ch_error e = {0};
    if (ch_gguf_writer_open(&w, path, &e) != CH_OK)
        fprintf(stderr, "fake model: %s\n", e.msg), abort();
    ch_gguf_put_str(w, "general.architecture", "fake", 4);
    ch_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    ch_gguf_put_str(w, "tokenizer.ggml.pre", "qwen2", 5);
    ch_gguf_put_arr_str(w, "tokenizer.ggml.tokens", tok, FAKE_N_KNOWN);
    ch_gguf_put_arr(w, "tokenizer.ggml.token_type", CH_GGUF_I32, type, FAKE_N_KNOWN);
    ch_gguf_put_arr_str(w, "tokenizer.ggml.merges", NULL, 0);
    ch_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", FAKE_IM_END);
    ch_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
    if (fake.chat_template)
        ch_gguf_put_str(w, "tokenizer.chat_template", fake.chat_template, strlen(fake.chat_template));
    if (ch_gguf_writer_commit(&w, &e) != CH_OK)
        fprintf(stderr, "fake model: %s\n", e.msg), abort();
}

int ch_model_open(ch_model **out, const char *path, const ch_model_params *p, ch_error *e)
{
    if (strcmp(path, "fake") != 0)
        return ch_error_set(e, CH_EIO, "%s: no such file", path);
    ch_model *m = ch_alloc(sizeof *m);
    if (!m)
        return ch_error_set(e, CH_ENOMEM, "no memory");
    snprintf(m->path, sizeof m->path, "/tmp/chimere_fake_%ld.gguf", (long)getpid());
    if (!fake.file)
        fake_write_gguf(m->path);
    int rc = ch_gguf_open(&m->gguf, fake.file ? fake.file : m->path, e);
    if (!fake.file)
        unlink(m->path);
    if (rc) {
        ch_free(m);
        return rc;
    }
    m->p = *p;
    m->plan = (ch_seq_plan){FAKE_PAGE, FAKE_PAGE * sizeof(uint64_t), fake.no_slab ? 0 : sizeof(fake_state), 42};
    m->info = (ch_model_info){.arch = "fake", .tier = "avx2", .best_tier = "avx2", .packed_bytes = 1000, .n_vocab = FAKE_N_VOCAB, .n_ctx_train = 256, .n_threads = 1,
                              .n_batch = p->n_batch, .n_seq = p->n_seq, .weight_bytes = 1000};
    *out = m;
    return CH_OK;
}

void ch_model_close(ch_model **m)
{
    if (!*m)
        return;
    ch_gguf_close(&(*m)->gguf);
    ch_free(*m);
    *m = NULL;
}

const ch_gguf *ch_model_gguf(const ch_model *m) { return m->gguf; }
const ch_model_info *ch_model_get_info(const ch_model *m) { return &m->info; }
double ch_model_measure_read(ch_model *m) { return (void)m, fake.read_gbps; }
ch_op_counts ch_model_counts(const ch_model *m)
{
    (void)m;
    return (ch_op_counts){.weight_bytes = (uint64_t)atomic_load(&fake.steps) * fake.step_bytes};
}
const ch_seq_plan *ch_model_plan(const ch_model *m) { return &m->plan; }

void ch_model_set_trace(ch_model *m, ch_trace_fn fn, void *user)
{
    (void)m, (void)fn, (void)user;
}

static uint64_t *fake_cell(ch_seq *s, size_t pos)
{
    return (uint64_t *)(void *)ch_seq_pages(s)[pos / FAKE_PAGE] + pos % FAKE_PAGE;
}

static void fake_die(const char *why)
{
    fprintf(stderr, "fake model: %s\n", why);
    abort();
}

static fake_state fake_load(const ch_model *m, ch_seq *s)
{
    size_t n = ch_seq_len(s);
    uint64_t seen = n ? *fake_cell(s, n - 1) : 0;
    if (!m->plan.slab_bytes)
        return (fake_state){seen, n};
    fake_state st;
    memcpy(&st, ch_seq_slab(s), sizeof st);
    if (st.n != n || st.hash != seen)
        fake_die("slab and pages of a sequence disagree");
    return st;
}

static int fake_check(const ch_model *m, const ch_batch *b, ch_error *e)
{
    int32_t row = 0;
    if (b->n_row > m->p.n_batch || b->n_seg > m->p.n_seq || b->n_row < 1)
        fake_die("batch is larger than agreed");
    for (int32_t i = 0; i < b->n_seg; i++) {
        for (int32_t k = 0; k < i; k++)
            if (b->seg[k].seq == b->seg[i].seq)
                fake_die("a sequence appears twice in a batch");
        if (b->seg[i].n_tok < 1)
            fake_die("empty segment");
        row += b->seg[i].n_tok;
    }
    if (row != b->n_row)
        fake_die("segments do not cover the rows");
    for (int32_t i = 0; i < b->n_row; i++) {
        if (b->token[i] < 0 || b->token[i] >= FAKE_N_VOCAB)
            fake_die("token out of range");
        if (b->token[i] == FAKE_BAD)
            return ch_error_set(e, CH_ERANGE, "fake model: bad token in row %d", (int)i);
    }
    for (int32_t i = 0; i < b->n_seg; i++) {
        int rc = ch_seq_extend(b->seg[i].seq, (size_t)b->seg[i].n_tok, e);
        if (rc)
            return rc;
    }
    return CH_OK;
}

int ch_model_forward(ch_model *m, const ch_batch *b, float *logits, ch_error *e)
{
    while (atomic_load(&fake.hold)) {
        atomic_store(&fake.waiting, 1);
        usleep(200);
    }
    atomic_store(&fake.waiting, 0);
    if (atomic_load(&fake.delay_us))
        usleep((useconds_t)atomic_load(&fake.delay_us));
    int rc = fake_check(m, b, e);
    if (rc)
        return rc;
    int32_t row = 0, out = 0;
    for (int32_t i = 0; i < b->n_seg; i++) {
        ch_seq *s = b->seg[i].seq;
        fake_state st = fake_load(m, s);
        for (int32_t k = 0; k < b->seg[i].n_tok; k++, row++) {
            st.hash = fake_mix(st.hash, b->token[row]);
            st.n++;
            *fake_cell(s, ch_seq_len(s) + (size_t)k) = st.hash;
            long at = atomic_fetch_add(&fake.n_seen, 1);
            if (at < 4096)
                fake.seen[at] = b->token[row];
            if (out < b->n_out && b->out_row[out] == row)
                fake_scores(&st, b->token[row], logits + (size_t)FAKE_N_VOCAB * (size_t)out++);
        }
        if (m->plan.slab_bytes)
            memcpy(ch_seq_slab(s), &st, sizeof st);
    }
    if (out != b->n_out)
        fake_die("out rows are not ascending rows of the batch");
    for (int32_t i = 0; i < b->n_row; i++)
        if (b->token[i] == FAKE_BROKEN) { // the state is undefined now: make it so
            for (int32_t k = 0; k < b->n_seg; k++)
                if (m->plan.slab_bytes)
                    memset(ch_seq_slab(b->seg[k].seq), 0xee, m->plan.slab_bytes);
            return ch_error_set(e, CH_EINTERNAL, "fake model: broken");
        }
    for (int32_t i = 0; i < b->n_seg; i++)
        ch_seq_commit(b->seg[i].seq, (size_t)b->seg[i].n_tok);
    atomic_fetch_add(&fake.rows, b->n_row);
    atomic_fetch_add(&fake.steps, 1);
    if (b->n_seg > atomic_load(&fake.max_segments))
        atomic_store(&fake.max_segments, b->n_seg);
    return CH_OK;
}

// What the model would answer greedily after these tokens, at most max ids; the end token included.
static CH_UNUSED size_t fake_answer(const int32_t *tok, size_t n, int32_t *out, size_t max)
{
    uint64_t h = 0;
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        h = fake_mix(h, tok[i]);
    while (k < max) {
        out[k] = (fake.next ? fake.next : fake_letters)(h, n + k);
        if (out[k++] == FAKE_IM_END)
            break;
        h = fake_mix(h, out[k - 1]);
    }
    return k;
}

#endif
