// Sessions: one slot under a caller's control. Each call becomes jobs that the driver runs between steps, one batch at a
// time, so that a long prompt here does not stop the requests beside it.
#include <string.h>

#include "sched/engine.h"

struct chimere_session {
    chimere_engine *eng;
    ch_slot *slot;
    float *logits; // [n_vocab] after the last token
    bool has_logits;
    ch_rng rng;
    bool has_seed;
    int64_t seed;
};

#define MARK_EVERY 16 // appends shorter than this set no mark before them

typedef struct session_job {
    chimere_session *s;
    const int32_t *tok;
    size_t n, result;
    float *logits; // all rows; NULL: the last one, to the session
    bool mark;
    const chimere_sampling *sampling;
    int32_t *id;
    ch_buf *buf;
    int rc;
    ch_error *e;
} session_job;

// ---- open, close --------------------------------------------------------------------------------------------------------

static void open_job(void *arg) {
    session_job *j = arg;
    chimere_engine *eng = j->s->eng;
    ch_slot *slot = ch_sched_choose_slot(eng, NULL, 0);
    if (!slot) {
        j->rc = ch_error_set(j->e, CH_EBUSY, "no slot is free: %d of %d busy", (int)eng->info.n_slots,
                             (int)eng->info.n_slots);
        return;
    }
    ch_sched_reset_slot(slot);
    slot->phase = CH_SLOT_SESSION;
    j->s->slot = slot;
    atomic_fetch_add(&eng->count.slots_busy, 1);
    atomic_fetch_add(&eng->count.sessions, 1);
}

static void close_job(void *arg) {
    session_job *j = arg;
    j->s->slot->phase = CH_SLOT_FREE;
    atomic_fetch_sub(&j->s->eng->count.slots_busy, 1);
    atomic_fetch_sub(&j->s->eng->count.sessions, 1);
}

int chimere_session_open(chimere_engine *engine, chimere_session **session, chimere_error *e) {
    ch_error why = {0};
    *session = NULL;
    chimere_session *s = ch_alloc(sizeof *s);
    float *logits = ch_alloc_array((size_t)engine->info.n_vocab, sizeof *logits);
    int rc = s && logits ? CH_OK : ch_error_set(&why, CH_ENOMEM, "no memory for a session");
    if (!rc) {
        s->eng = engine;
        s->logits = logits;
        session_job j = {.s = s, .e = &why};
        ch_sched_run_job(engine, open_job, &j);
        rc = j.rc;
    }
    if (rc) {
        ch_free(logits);
        ch_free(s);
    } else
        *session = s;
    return ch_sched_give_error(e, &why, rc);
}

void chimere_session_close(chimere_session **session) {
    chimere_session *s = *session;
    if (!s)
        return;
    session_job j = {.s = s};
    ch_sched_run_job(s->eng, close_job, &j);
    ch_free(s->logits);
    ch_free(s);
    *session = NULL;
}

const int32_t *chimere_session_tokens(const chimere_session *s, size_t *n) {
    *n = s->slot->n_tok;
    return s->slot->tok;
}

const float *chimere_session_logits(const chimere_session *s) {
    return s->has_logits ? s->logits : NULL;
}

// ---- append, sync, rewind -----------------------------------------------------------------------------------------------

static void run_job(void *arg) {
    session_job *j = arg;
    chimere_session *s = j->s;
    if (j->mark)
        ch_sched_add_mark(s->eng, s->slot, 0);
    j->rc = ch_sched_run_slot(s->eng, s->slot, j->tok, j->n, j->logits ? j->n : 1, j->logits ? j->logits : s->logits, j->e);
    if (!j->rc && j->logits)
        memcpy(s->logits, j->logits + (j->n - 1) * (size_t)s->eng->info.n_vocab,
               (size_t)s->eng->info.n_vocab * sizeof(float));
    if (j->rc == CH_EINTERNAL) // the state is undefined now
        ch_sched_reset_slot(s->slot);
    s->has_logits = j->rc == CH_OK;
}

static void restart_job(void *arg) {
    session_job *j = arg;
    j->result = ch_sched_restart_slot(j->s->eng, j->s->slot, j->tok, j->n, j->result);
    j->s->has_logits = false;
}

static int check_tokens(const chimere_session *s, const int32_t *tok, size_t n, size_t held, ch_error *e) {
    const chimere_engine_info *info = &s->eng->info;
    if (n > (size_t)info->n_ctx || held > (size_t)info->n_ctx - n)
        return ch_error_set(e, CH_ELIMIT, "session: expected at most %d tokens, found %zu and %zu more", (int)info->n_ctx, held,
                            n);
    for (size_t i = 0; i < n; i++)
        if (tok[i] < 0 || tok[i] >= info->n_vocab)
            return ch_error_set(e, CH_ERANGE, "token %zu: expected an id from 0 to %d, found %d", i, (int)info->n_vocab - 1,
                                (int)tok[i]);
    return CH_OK;
}

// Feeds tok[0..n) batch by batch.
static int feed(chimere_session *s, const int32_t *tok, size_t n, float *all_logits, ch_error *e) {
    size_t n_batch = (size_t)s->eng->info.n_batch, n_vocab = (size_t)s->eng->info.n_vocab;
    for (size_t at = 0; at < n;) {
        size_t k = n - at < n_batch ? n - at : n_batch;
        session_job j = {.s = s, .tok = tok + at, .n = k, .logits = all_logits ? all_logits + at * n_vocab : NULL,
                         .mark = at == 0 ? n >= MARK_EVERY : true, .e = e};
        ch_sched_run_job(s->eng, run_job, &j);
        if (j.rc)
            return j.rc;
        at += k;
    }
    return CH_OK;
}

// Brings the session to tok[0..n), which must not be its own token array.
static int go_to(chimere_session *s, const int32_t *tok, size_t n, size_t *n_reused, ch_error *e) {
    ch_slot *slot = s->slot;
    if (n == slot->n_tok && (n == 0 || s->has_logits) && memcmp(tok, slot->tok, n * sizeof *tok) == 0) {
        *n_reused = n;
        return CH_OK;
    }
    session_job j = {.s = s, .tok = tok, .n = n, .result = n ? n - 1 : 0}; // one token at least gives the scores
    ch_sched_run_job(s->eng, restart_job, &j);
    *n_reused = j.result;
    return feed(s, tok + j.result, n - j.result, NULL, e);
}

static int32_t *copy_tokens(const int32_t *tok, size_t n) {
    int32_t *c = ch_alloc_array(n ? n : 1, sizeof *c);
    if (c && n)
        memcpy(c, tok, n * sizeof *c);
    return c;
}

int chimere_session_append(chimere_session *s, const int32_t *tokens, size_t n, float *all_logits, chimere_error *e) {
    ch_error why = {0}, lost = {0};
    size_t held = s->slot->n_tok, reused = 0;
    int rc = check_tokens(s, tokens, n, held, &why);
    if (rc || n == 0)
        return ch_sched_give_error(e, &why, rc);
    int32_t *before = copy_tokens(s->slot->tok, held);
    rc = before ? feed(s, tokens, n, all_logits, &why) : ch_error_set(&why, CH_ENOMEM, "no memory for %zu tokens", held);
    if (rc && before && s->slot->n_tok != held && go_to(s, before, held, &reused, &lost) != CH_OK)
        ch_error_prefix(&why, "session lost (%s)", lost.msg);
    ch_free(before);
    return ch_sched_give_error(e, &why, rc);
}

int chimere_session_sync(chimere_session *s, const int32_t *tokens, size_t n, size_t *n_reused, chimere_error *e) {
    ch_error why = {0};
    size_t reused = 0;
    int rc = check_tokens(s, tokens, n, 0, &why);
    int32_t *mine = rc ? NULL : copy_tokens(tokens, n); // the caller may pass what chimere_session_tokens gave
    if (!rc && !mine)
        rc = ch_error_set(&why, CH_ENOMEM, "no memory for %zu tokens", n);
    if (!rc)
        rc = go_to(s, mine, n, &reused, &why);
    ch_free(mine);
    if (n_reused)
        *n_reused = rc ? 0 : reused;
    return ch_sched_give_error(e, &why, rc);
}

int chimere_session_rewind(chimere_session *s, size_t n, chimere_error *e) {
    ch_error why = {0};
    if (n > s->slot->n_tok)
        return ch_sched_give_error(
            e, &why, ch_error_set(&why, CH_ERANGE, "rewind: expected at most %zu tokens, found %zu", s->slot->n_tok, n));
    return chimere_session_sync(s, s->slot->tok, n, NULL, e);
}

// ---- sample -------------------------------------------------------------------------------------------------------------

static void sample_job(void *arg) {
    session_job *j = arg;
    ch_sample_params p;
    memcpy(p.v, j->sampling->value, sizeof p.v);
    j->rc = ch_sample_pick(j->s->eng->work, &p, &j->s->eng->mask, &j->s->rng, j->s->logits, j->id, j->e);
}

int chimere_session_sample(chimere_session *s, const chimere_sampling *sampling, int32_t *id, chimere_error *e) {
    ch_error why = {0};
    int rc = s->has_logits ? CH_OK : ch_error_set(&why, CH_ESTATE, "sample: the session holds no scores yet");
    for (size_t i = 0; !rc && i < CH_SAMPLE_N_PARAM; i++)
        rc = ch_sample_check_param(i, sampling->value[i], &why);
    if (!rc && (!s->has_seed || s->seed != sampling->seed)) {
        s->has_seed = true;
        s->seed = sampling->seed;
        ch_rng_seed(&s->rng, s->seed < 0 ? ch_clock_ns() : (uint64_t)s->seed);
    }
    if (!rc) {
        session_job j = {.s = s, .sampling = sampling, .id = id, .e = &why};
        ch_sched_run_job(s->eng, sample_job, &j);
        rc = j.rc;
    }
    return ch_sched_give_error(e, &why, rc);
}

// ---- save, load ---------------------------------------------------------------------------------------------------------
// File: "CHSESS01", u32 n_vocab (0: no scores), u32 zero, u64 hash of the scores, the scores (f32), then the snapshot as
// seq writes it. Little-endian.

#define HEAD_BYTES 24

static void snapshot_job(void *arg) {
    session_job *j = arg;
    j->rc = ch_seq_snapshot(j->s->slot->seq, j->s->slot->tok, j->s->slot->n_tok, j->buf, j->e);
}

int chimere_session_save(chimere_session *s, const char *path, chimere_error *e) {
    ch_error why = {0};
    ch_buf b = {0};
    uint32_t n_vocab = s->has_logits ? (uint32_t)s->eng->info.n_vocab : 0, zero = 0;
    size_t n_score = (size_t)n_vocab * sizeof(float);
    uint64_t hash = ch_hash64(s->logits, n_score, 0);
    ch_outfile *f = NULL;
    int rc = CH_OK;
    if (!ch_buf_append(&b, "CHSESS01", 8) || !ch_buf_append(&b, &n_vocab, 4) || !ch_buf_append(&b, &zero, 4) ||
        !ch_buf_append(&b, &hash, 8) || !ch_buf_append(&b, s->logits, n_score))
        rc = ch_error_set(&why, CH_ENOMEM, "no memory to save a session");
    if (!rc) {
        session_job j = {.s = s, .buf = &b, .e = &why};
        ch_sched_run_job(s->eng, snapshot_job, &j);
        rc = j.rc;
    }
    if (!rc)
        rc = ch_outfile_open(&f, path, &why);
    if (!rc)
        rc = ch_outfile_write(f, b.data, b.len, &why);
    if (!rc)
        rc = ch_outfile_commit(&f, &why);
    if (f)
        ch_outfile_abort(&f);
    ch_buf_free(&b);
    return ch_sched_give_error(e, &why, rc);
}

static void restore_job(void *arg) {
    session_job *j = arg;
    ch_slot *slot = j->s->slot;
    j->rc = ch_seq_restore(slot->seq, j->tok, j->n, slot->tok, (size_t)j->s->eng->info.n_ctx, &slot->n_tok, j->e);
    for (size_t i = 0; !j->rc && i < slot->n_tok; i++)
        if (slot->tok[i] < 0 || slot->tok[i] >= j->s->eng->info.n_vocab)
            j->rc = ch_error_set(j->e, CH_EFORMAT, "session file: position %zu: expected a token from 0 to %d, found %d", i,
                                 (int)j->s->eng->info.n_vocab - 1, (int)slot->tok[i]);
    if (j->rc)
        ch_sched_reset_slot(slot);
    j->s->has_logits = false;
}

int chimere_session_load(chimere_session *s, const char *path, chimere_error *e) {
    ch_error why = {0};
    ch_map m = {0};
    int rc = ch_map_open(&m, path, &why);
    if (rc)
        return ch_sched_give_error(e, &why, rc);
    uint32_t n_vocab = 0;
    uint64_t hash = 0;
    size_t n_score = 0;
    if (m.size < HEAD_BYTES || memcmp(m.data, "CHSESS01", 8) != 0)
        rc = ch_error_set(&why, CH_EFORMAT, "%s: expected a session file (CHSESS01), found another kind", path);
    else {
        memcpy(&n_vocab, m.data + 8, 4);
        memcpy(&hash, m.data + 16, 8);
        n_score = (size_t)n_vocab * sizeof(float);
        if (n_vocab && n_vocab != (uint32_t)s->eng->info.n_vocab)
            rc = ch_error_set(&why, CH_EFORMAT, "%s: expected scores of %d tokens, found %u", path,
                              (int)s->eng->info.n_vocab, n_vocab);
        else if (n_score > m.size - HEAD_BYTES || ch_hash64(m.data + HEAD_BYTES, n_score, 0) != hash)
            rc = ch_error_set(&why, CH_EFORMAT, "%s: the file is damaged or cut", path);
    }
    if (!rc) {
        session_job j = {.s = s, .tok = (const void *)(m.data + HEAD_BYTES + n_score), .n = m.size - HEAD_BYTES - n_score,
                         .e = &why};
        ch_sched_run_job(s->eng, restore_job, &j);
        rc = j.rc;
        if (!rc && n_vocab) {
            memcpy(s->logits, m.data + HEAD_BYTES, n_score);
            s->has_logits = true;
        }
    }
    ch_map_close(&m);
    return ch_sched_give_error(e, &why, rc);
}
