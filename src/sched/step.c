// One step: which rows of which slots run together, and what becomes of their results.
//
// Every slot that decodes gets its row first, so that a long prompt never stops the others; what is left of the batch is
// shared evenly among the prompts being computed. A failure ends only the requests it belongs to.
#include <string.h>

#include "sched/engine.h"

// ---- the model ----------------------------------------------------------------------------------------------------------

static int forward(chimere_engine *eng, const ch_batch *b, float *logits, ch_error *e) {
    int rc;
    const ch_model_info *mi = ch_model_get_info(eng->model);
    uint64_t own = mi->state_bytes + mi->kv_bytes_per_token * ch_seq_len(b->seg[0].seq);
    do {
        uint64_t read = ch_model_counts(eng->model).weight_bytes;
        uint64_t t0 = ch_clock_ns();
#ifdef CH_DEBUG
        ch_alloc_forbid(true);
#endif
        rc = ch_model_forward(eng->model, b, logits, e);
#ifdef CH_DEBUG
        ch_alloc_forbid(false);
#endif
        uint64_t t1 = ch_clock_ns();
        atomic_fetch_add(&eng->count.steps, 1);
        atomic_fetch_add(&eng->count.step_ns, t1 - t0);
        atomic_store(&eng->count.last_step_ns, t1);
        if (rc == CH_OK && b->n_row == 1)
            ch_sched_note_speed(eng, ch_model_counts(eng->model).weight_bytes - read + own, t1 - t0);
    } while (rc == CH_EBUSY && ch_sched_evict(eng)); // out of pages: what was kept for reuse gives way
    return rc;
}

int ch_sched_run_slot(chimere_engine *eng, ch_slot *slot, const int32_t *tok, size_t n, size_t n_out, float *logits,
                      ch_error *e) {
    ch_segment seg = {slot->seq, (int32_t)n};
    for (size_t i = 0; i < n_out; i++)
        eng->out_row[i] = (int32_t)(n - n_out + i);
    ch_batch b = {tok, (int32_t)n, &seg, 1, eng->out_row, (int32_t)n_out};
    int rc = forward(eng, &b, logits, e);
    if (rc)
        return rc;
    memcpy(slot->tok + slot->n_tok, tok, n * sizeof *tok);
    slot->n_tok += n;
    CH_ASSERT(ch_seq_len(slot->seq) == slot->n_tok);
    return CH_OK;
}

// ---- building -----------------------------------------------------------------------------------------------------------

static bool runs(const ch_slot *s, ch_slot_phase phase) {
    return s->phase == phase && !atomic_load(&s->req->paused);
}

// Fills row_tok, seg, out_row and part; returns the number of rows.
static int32_t build(chimere_engine *eng, int32_t *n_out) {
    int32_t n_slots = eng->info.n_slots, n_row = 0, n_prefill = 0;
    eng->n_part = *n_out = 0;
    for (int32_t k = 0; k < n_slots; k++) {
        ch_slot *s = &eng->slot[(eng->turn + k) % n_slots];
        n_prefill += s->phase == CH_SLOT_PREFILL;
        if (!runs(s, CH_SLOT_DECODE))
            continue;
        eng->row_tok[n_row] = s->next;
        eng->out_row[*n_out] = n_row;
        eng->seg[eng->n_part] = (ch_segment){s->seq, 1};
        eng->part[eng->n_part++] = (ch_step_part){s, n_row++, 1, (*n_out)++};
    }
    for (int32_t k = 0; k < n_slots; k++) {
        ch_slot *s = &eng->slot[(eng->turn + k) % n_slots];
        if (s->phase != CH_SLOT_PREFILL)
            continue;
        int32_t share = (eng->info.n_batch - n_row) / n_prefill--;
        size_t stop = ch_sched_next_stop(eng, s, s->req->prompt.n), need = stop - s->n_tok;
        int32_t n = need < (size_t)share ? (int32_t)need : share;
        if (n < 1)
            continue;
        bool ends = s->n_tok + (size_t)n == s->req->prompt.n;
        memcpy(eng->row_tok + n_row, s->req->prompt.id + s->n_tok, (size_t)n * sizeof *eng->row_tok);
        eng->seg[eng->n_part] = (ch_segment){s->seq, n};
        eng->part[eng->n_part++] = (ch_step_part){s, n_row, n, ends ? *n_out : -1};
        n_row += n;
        if (ends)
            eng->out_row[(*n_out)++] = n_row - 1;
    }
    eng->turn = (eng->turn + 1) % n_slots;
    return n_row;
}

// ---- results ------------------------------------------------------------------------------------------------------------

void ch_sched_release_slot(chimere_engine *eng, ch_slot *s, chimere_reason reason, const ch_error *error) {
    chimere_request *r = s->req;
    // Nothing computed by a failed run is used again. Cancelled runs and those that met a limit (time) left sound state.
    if (reason == CHIMERE_REASON_ERROR && error->code != CH_ELIMIT) {
        ch_sched_drop_run(eng, r->serial);
        ch_sched_reset_slot(s);
    }
    s->req = NULL;
    s->phase = CH_SLOT_FREE;
    s->used = ++eng->stamp;
    atomic_fetch_sub(&eng->count.slots_busy, 1);
    ch_sched_finish_request(r, reason, error);
}

static void sample(chimere_engine *eng, ch_slot *s, const float *logits) {
    chimere_request *r = s->req;
    ch_error why = {0};
    chimere_token t = {.id = -1};
    chimere_logprob top[CHIMERE_LOGPROBS_MAX];
    int rc = ch_sample_pick(eng->work, &r->sampling, &eng->mask, &r->rng, logits, &t.id, &why);
    if (rc) {
        ch_sched_release_slot(eng, s, CHIMERE_REASON_ERROR, &why);
        return;
    }
    if (r->p.n_logprobs >= 0) {
        ch_candidate c[CHIMERE_LOGPROBS_MAX];
        t.n_top = ch_sample_logprobs(eng->work, logits, t.id, &t.logprob, c, r->p.n_logprobs);
        for (int32_t i = 0; i < t.n_top; i++)
            top[i] = (chimere_logprob){c[i].id, c[i].logit};
        t.top = top;
    }
    bool end = ch_vocab_is_eog(eng->vocab, t.id) && !r->p.ignore_eos;
    rc = ch_sched_deliver_token(r, &t, !end);
    atomic_fetch_add(&eng->count.tokens_generated, 1);
    if (rc) {
        ch_error_set(&why, rc, "no memory for the text of the answer");
        ch_sched_release_slot(eng, s, CHIMERE_REASON_ERROR, &why);
    } else if (end || r->out.stop.found >= 0) {
        ch_sched_release_slot(eng, s, CHIMERE_REASON_STOP, NULL);
    } else if (--r->max_tokens == 0) {
        ch_sched_release_slot(eng, s, CHIMERE_REASON_LENGTH, NULL);
    } else {
        s->next = t.id;
        s->phase = CH_SLOT_DECODE;
    }
}

// The step has run: part's rows are in its sequence now.
static void take_results(chimere_engine *eng, const ch_step_part *part, const float *logits) {
    ch_slot *s = part->slot;
    chimere_request *r = s->req;
    memcpy(s->tok + s->n_tok, eng->row_tok + part->first, (size_t)part->n_tok * sizeof *s->tok);
    size_t stop = s->phase == CH_SLOT_PREFILL ? ch_sched_next_stop(eng, s, r->prompt.n) : 0;
    s->n_tok += (size_t)part->n_tok;
    CH_ASSERT(ch_seq_len(s->seq) == s->n_tok);
    if (s->phase == CH_SLOT_PREFILL) {
        if (s->n_tok == stop && stop < r->prompt.n)
            ch_sched_add_mark(eng, s, r->serial);
        ch_sched_note_progress(r, (int32_t)s->n_tok);
    }
    if (part->out >= 0)
        sample(eng, s, logits + (size_t)part->out * (size_t)eng->info.n_vocab);
}

// The shared step failed and no sequence has advanced: each part alone shows whose failure it was.
static void run_alone(chimere_engine *eng) {
    for (int32_t i = 0; i < eng->n_part; i++) {
        ch_step_part part = eng->part[i];
        int32_t out = part.n_tok - 1;
        ch_segment seg = {part.slot->seq, part.n_tok};
        ch_batch b = {eng->row_tok + part.first, part.n_tok, &seg, 1, &out, part.out >= 0};
        ch_error why = {0};
        if (forward(eng, &b, eng->logits, &why) != CH_OK) {
            ch_sched_release_slot(eng, part.slot, CHIMERE_REASON_ERROR, &why);
            continue;
        }
        part.out = part.out >= 0 ? 0 : -1;
        take_results(eng, &part, eng->logits);
    }
}

bool ch_sched_step(chimere_engine *eng) {
    int32_t n_out = 0, n_row = build(eng, &n_out);
    if (n_row == 0)
        return false;
    ch_batch b = {eng->row_tok, n_row, eng->seg, eng->n_part, eng->out_row, n_out};
    ch_error why = {0};
    int rc = forward(eng, &b, eng->logits, &why);
    if (rc == CH_OK) {
        for (int32_t i = 0; i < eng->n_part; i++)
            take_results(eng, &eng->part[i], eng->logits);
    } else if (rc == CH_EINTERNAL || eng->n_part == 1) { // after EINTERNAL every state of the step is undefined
        for (int32_t i = 0; i < eng->n_part; i++)
            ch_sched_release_slot(eng, eng->part[i].slot, CHIMERE_REASON_ERROR, &why);
    } else
        run_alone(eng);
    return true;
}
