// Prefix reuse. A recurrent state cannot be cut at any position, so the engine keeps marks: copies of the recurrent slab at
// chosen positions, sharing key/value pages, each with the token ids that led to it. Any slot may start from any mark. Free
// slots also keep their last sequence, which serves a prompt that continues it.
//
// Positions marked while a prompt is computed: where turns open (the prompt's own first control token), where this prompt
// left what was already known (so that the third prompt of a family starts there), at intervals, and for a prompt without
// turns one token before its end. Marks are dropped least recently used first, when their number or the pages run out.
#include <string.h>

#include "sched/engine.h"

static size_t common_prefix(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b) {
    size_t n = n_a < n_b ? n_a : n_b, i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

void ch_sched_reset_slot(ch_slot *slot) {
    ch_seq_reset(slot->seq);
    slot->n_tok = 0;
}

// The deepest mark that is a prefix of tok[0..limit). All marks on the way count as used: they are what other prompts of
// this family will need.
static ch_mark_row *find_mark(chimere_engine *eng, const int32_t *tok, size_t limit) {
    ch_mark_row *best = NULL;
    for (int32_t i = 0; i < eng->n_mark; i++) {
        ch_mark_row *m = &eng->mark[i];
        if (!m->mark || m->n_tok > limit || memcmp(m->tok, tok, m->n_tok * sizeof *tok) != 0)
            continue;
        m->used = ++eng->stamp;
        if (!best || m->n_tok > best->n_tok)
            best = m;
    }
    return best;
}

// What the slot's own sequence gives for tok[0..n) without computing.
static size_t own_prefix(const chimere_engine *eng, const ch_slot *slot, const int32_t *tok, size_t n, size_t limit) {
    size_t common = common_prefix(slot->tok, slot->n_tok, tok, n);
    if (common == slot->n_tok && common <= limit)
        return common;
    return eng->slab_bytes ? 0 : least(common, limit); // pages alone can be cut anywhere
}

size_t ch_sched_restart_slot(chimere_engine *eng, ch_slot *slot, const int32_t *tok, size_t n, size_t limit) {
    limit = least(limit, n);
    slot->used = ++eng->stamp;
    size_t own = own_prefix(eng, slot, tok, n, limit);
    ch_mark_row *m = find_mark(eng, tok, limit);
    if (m && m->n_tok > own && ch_seq_rollback(slot->seq, m->mark, NULL) == CH_OK) {
        memcpy(slot->tok, m->tok, m->n_tok * sizeof *tok);
        slot->n_tok = m->n_tok;
        return slot->n_tok;
    }
    if (own == 0 || ch_seq_truncate(slot->seq, own, NULL) != CH_OK)
        ch_sched_reset_slot(slot);
    else
        slot->n_tok = own;
    return slot->n_tok;
}

ch_slot *ch_sched_choose_slot(chimere_engine *eng, const int32_t *tok, size_t n) {
    size_t limit = n ? n - 1 : 0, best_own = 0;
    ch_slot *own = NULL, *same = NULL, *idle = NULL;
    for (int32_t i = 0; i < eng->info.n_slots; i++) {
        ch_slot *s = &eng->slot[i];
        if (s->phase != CH_SLOT_FREE)
            continue;
        size_t got = own_prefix(eng, s, tok, n, limit), common = common_prefix(s->tok, s->n_tok, tok, n);
        if (got > best_own)
            own = s, best_own = got;
        if (common && common >= s->n_tok / 2 && (!same || s->used > same->used))
            same = s; // an earlier state of the same conversation: its end is of no more use
        bool empty = s->n_tok == 0, idle_empty = idle && idle->n_tok == 0;
        if (!idle || (empty && !idle_empty) || (empty == idle_empty && s->used < idle->used))
            idle = s;
    }
    const ch_mark_row *m = find_mark(eng, tok, limit);
    if (own && (!m || best_own >= m->n_tok))
        return own;
    if (same)
        return same;
    // Another conversation gives way: its end is kept as a mark where there is a free one.
    if (idle && idle->n_tok)
        for (int32_t i = 0; i < eng->n_mark; i++)
            if (!eng->mark[i].mark) {
                ch_sched_add_mark(eng, idle, 0);
                break;
            }
    return idle;
}

// ---- marks --------------------------------------------------------------------------------------------------------------

static void drop_mark(ch_mark_row *m) {
    ch_seq_mark_free(&m->mark);
    m->n_tok = 0;
}

static ch_mark_row *oldest_mark(chimere_engine *eng) {
    ch_mark_row *old = NULL;
    for (int32_t i = 0; i < eng->n_mark; i++)
        if (eng->mark[i].mark && (!old || eng->mark[i].used < old->used))
            old = &eng->mark[i];
    return old;
}

void ch_sched_add_mark(chimere_engine *eng, const ch_slot *slot, uint64_t run) {
    ch_mark_row *place = NULL;
    if (slot->n_tok == 0)
        return;
    for (int32_t i = 0; i < eng->n_mark; i++) {
        ch_mark_row *m = &eng->mark[i];
        if (!m->mark) {
            place = place ? place : m;
        } else if (m->n_tok == slot->n_tok && memcmp(m->tok, slot->tok, m->n_tok * sizeof *m->tok) == 0) {
            m->used = ++eng->stamp;
            return;
        }
    }
    if (!place) {
        place = oldest_mark(eng);
        if (!place)
            return; // engine without marks
        drop_mark(place);
    }
    if (ch_seq_mark_create(&place->mark, slot->seq, NULL) != CH_OK)
        return; // a mark is a convenience: without it more is computed, nothing else
    memcpy(place->tok, slot->tok, slot->n_tok * sizeof *place->tok);
    place->n_tok = slot->n_tok;
    place->used = ++eng->stamp;
    place->run = run;
}

void ch_sched_drop_run(chimere_engine *eng, uint64_t run) {
    for (int32_t i = 0; i < eng->n_mark; i++)
        if (eng->mark[i].mark && eng->mark[i].run == run)
            drop_mark(&eng->mark[i]);
}

bool ch_sched_evict(chimere_engine *eng) {
    ch_mark_row *m = oldest_mark(eng);
    if (m) {
        drop_mark(m);
        return true;
    }
    ch_slot *old = NULL;
    for (int32_t i = 0; i < eng->info.n_slots; i++) {
        ch_slot *s = &eng->slot[i];
        if (s->phase == CH_SLOT_FREE && s->n_tok && (!old || s->used < old->used))
            old = s;
    }
    if (old)
        ch_sched_reset_slot(old);
    return old != NULL;
}

// ---- where to mark ------------------------------------------------------------------------------------------------------

static void add_stop(ch_slot *slot, size_t at) {
    size_t i = slot->n_stop;
    for (size_t j = 0; j < slot->n_stop; j++)
        if (slot->stop[j] == at)
            return;
    if (i == CH_SLOT_STOPS)
        return;
    while (i > 0 && slot->stop[i - 1] > at) {
        slot->stop[i] = slot->stop[i - 1];
        i--;
    }
    slot->stop[i] = at;
    slot->n_stop++;
}

void ch_sched_plan_marks(chimere_engine *eng, ch_slot *slot, const int32_t *tok, size_t n, size_t start) {
    slot->n_stop = 0;
    // The branch point: the longest prefix any other sequence or mark shares with this prompt.
    size_t branch = 0;
    for (int32_t i = 0; i < eng->info.n_slots; i++)
        if (&eng->slot[i] != slot) {
            size_t c = common_prefix(eng->slot[i].tok, eng->slot[i].n_tok, tok, n);
            branch = c > branch ? c : branch;
        }
    for (int32_t i = 0; i < eng->n_mark; i++)
        if (eng->mark[i].mark) {
            size_t c = common_prefix(eng->mark[i].tok, eng->mark[i].n_tok, tok, n);
            branch = c > branch ? c : branch;
        }
    if (branch > start && branch < n)
        add_stop(slot, branch);
    size_t first = n && tok[0] == eng->info.bos ? 1 : 0, last = n, n_turn = 0;
    if (first < n && ch_vocab_type(eng->vocab, tok[first]) == CH_TOKEN_CONTROL)
        for (size_t i = first + 1; i < n && n_turn < 2; i++) // ends of the system text and of the first turn
            if (tok[i] == tok[first]) {
                n_turn++;
                if (i > start)
                    add_stop(slot, i);
            }
    if (n_turn == 0) { // text without turns
        if (n > 1 && n - 1 > start)
            add_stop(slot, n - 1);
        return;
    }
    for (int k = 0; k < 3; k++) { // the last turns: the opening of the answer, the user's text before it
        do
            last--;
        while (last > first && tok[last] != tok[first]);
        if (last <= start || last <= first)
            break;
        add_stop(slot, last);
    }
}

size_t ch_sched_next_stop(const chimere_engine *eng, const ch_slot *slot, size_t n_prompt) {
    size_t next = least(n_prompt, (slot->n_tok / eng->mark_interval + 1) * eng->mark_interval);
    for (size_t i = 0; i < slot->n_stop; i++)
        if (slot->stop[i] > slot->n_tok)
            return least(next, slot->stop[i]);
    return next;
}
