// Rows of training tokens: shuffles the documents of an epoch, packs them whole into rows, and gives the rows out in batches.
#include <string.h>

#include "train/data.h"
#include "train/store.h"

enum { OPEN_ROWS = 64, MAX_EMPTY_EPOCHS = 10000 };

// A document, or as much of a long one as fits a row.
typedef struct piece {
    uint64_t begin; // token
    uint32_t n;     // tokens in the row, at most n_ctx + 1
    uint32_t row;
    bool more;      // one further token follows in the document (second target of the row's last place)
} piece;

struct ch_train_data {
    ch_train_data_params p;
    ch_train_source *source;
    ch_store store;
    uint64_t fingerprint;
    ch_train_data_state at;
    // Plan of the present epoch.
    piece *piece;
    size_t n_piece, cap_piece;
    uint32_t *order; // [n_piece] pieces by row, in order within it
    size_t *row;     // [n_row + 1] first of each row in order, rows in the order they are given out
    size_t n_row, cap_row, cap_order;
    uint64_t planned; // epoch that the plan is of; UINT64_MAX: none
    int32_t *token, *doc;
    float *weight;
    int32_t pad;
};

void ch_train_weights_init(ch_train_weights *w) {
    *w = (ch_train_weights){.assistant = 1, .history = 0.25f, .user = 0.1f, .system = 0.05f, .role = 0.1f, .text = 1, .end = 0.3f};
}

// ---- the plan of an epoch ---------------------------------------------------------------------------------------------------
static bool add_piece(ch_train_data *d, uint64_t begin, uint64_t n, bool more) {
    if (d->n_piece == d->cap_piece) {
        size_t cap = d->cap_piece ? 2 * d->cap_piece : 4096;
        piece *grown = cap <= UINT32_MAX ? ch_realloc(d->piece, cap * sizeof *grown) : NULL;
        if (!grown)
            return false;
        d->piece = grown;
        d->cap_piece = cap;
    }
    d->piece[d->n_piece++] = (piece){.begin = begin, .n = (uint32_t)n, .more = more};
    return true;
}

static bool add_document(ch_train_data *d, size_t doc) {
    uint64_t begin = d->store.begin[doc], end = d->store.begin[doc + 1], room = d->p.n_ctx + 1;
    for (; end - begin > room; begin += room - 1)
        if (!add_piece(d, begin, room, true))
            return false;
    return add_piece(d, begin, end - begin, false);
}

// Copies of a document in this epoch. Of a share below 1 each epoch takes the next part of the documents, so that after 1 / share
// epochs every one has been there as often as any other.
static uint64_t copies_of(const ch_train_data *d, size_t doc, uint64_t epoch) {
    double share = d->source[d->store.source[doc]].share;
    uint64_t whole = (uint64_t)share, h = ch_hash64(&doc, sizeof doc, d->at.seed ^ 0x5851f42d4c957f2du);
    double part = share - (double)whole, place = (double)(h >> 11) * 0x1p-53;
    double from = place + part * (double)epoch;
    from -= (double)(uint64_t)from;
    return whole + (from + part >= 1 && part > 0);
}

static void shuffle(void *base, size_t n, size_t size, ch_rng *r) {
    char *b = base, t[sizeof(piece)];
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(((unsigned __int128)ch_rng_u64(r) * i) >> 64);
        memcpy(t, b + (i - 1) * size, size);
        memcpy(b + (i - 1) * size, b + k * size, size);
        memcpy(b + k * size, t, size);
    }
}

// Every piece goes into the fullest of the open rows that has room for it; when there is none, a new row is opened and of too
// many the fullest closed. Returns the number of rows.
static size_t choose_rows(ch_train_data *d) {
    struct {
        uint32_t row, room;
    } open[OPEN_ROWS];
    size_t n_open = 0, n_row = 0, capacity = d->p.n_ctx + 1;
    for (size_t i = 0; i < d->n_piece; i++) {
        piece *p = &d->piece[i];
        size_t best = OPEN_ROWS, fullest = 0;
        for (size_t k = 0; k < n_open; k++) {
            if (open[k].room >= p->n && (best == OPEN_ROWS || open[k].room < open[best].room))
                best = k;
            if (open[k].room < open[fullest].room)
                fullest = k;
        }
        if (best == OPEN_ROWS) {
            best = n_open < OPEN_ROWS ? n_open++ : fullest;
            open[best].row = (uint32_t)n_row++;
            open[best].room = (uint32_t)capacity;
        }
        p->row = open[best].row;
        open[best].room -= p->n;
        if (open[best].room < 2) // no document fits
            open[best] = open[--n_open];
    }
    return n_row;
}

static bool make_room(ch_train_data *d, size_t n_row) {
    if (n_row > d->cap_row || !d->row) {
        size_t *row = ch_realloc(d->row, 2 * (n_row + 1) * sizeof *row); // the rows' order behind the counts
        if (!row)
            return false;
        d->row = row;
        d->cap_row = n_row;
    }
    if (d->n_piece > d->cap_order || !d->order) {
        uint32_t *order = ch_realloc(d->order, (d->n_piece + 1) * sizeof *order);
        if (!order)
            return false;
        d->order = order;
        d->cap_order = d->n_piece;
    }
    return true;
}

static int plan_epoch(ch_train_data *d, uint64_t epoch, ch_error *e) {
    ch_rng rng;
    const uint64_t seed[2] = {d->at.seed, epoch};
    ch_rng_seed(&rng, ch_hash64(seed, sizeof seed, 0));
    d->n_piece = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < d->store.n_doc; i++)
        for (uint64_t c = copies_of(d, i, epoch); ok && c > 0; c--)
            ok = add_document(d, i);
    if (ok) {
        shuffle(d->piece, d->n_piece, sizeof *d->piece, &rng);
        d->n_row = choose_rows(d);
        ok = make_room(d, d->n_row);
    }
    if (!ok)
        return ch_error_set(e, CH_ENOMEM, "no memory for the plan of an epoch of %zu pieces", d->n_piece);
    // Rows are given out in random order: the last ones opened are emptier than others.
    size_t *first = d->row, *place = d->row + d->n_row + 1;
    for (size_t i = 0; i < d->n_row; i++)
        place[i] = i;
    shuffle(place, d->n_row, sizeof *place, &rng);
    memset(first, 0, (d->n_row + 1) * sizeof *first);
    for (size_t i = 0; i < d->n_piece; i++) {
        d->piece[i].row = (uint32_t)place[d->piece[i].row];
        first[d->piece[i].row + 1]++;
    }
    for (size_t i = 0; i < d->n_row; i++) {
        first[i + 1] += first[i];
        place[i] = first[i];
    }
    for (size_t i = 0; i < d->n_piece; i++)
        d->order[place[d->piece[i].row]++] = (uint32_t)i;
    d->planned = epoch;
    return 0;
}

// Moves on to an epoch that has rows.
static int need_plan(ch_train_data *d, ch_error *e) {
    for (int tries = 0; tries < MAX_EMPTY_EPOCHS; tries++) {
        int rc = d->planned == d->at.epoch ? 0 : plan_epoch(d, d->at.epoch, e);
        if (rc)
            return rc;
        if (d->at.index < d->n_row)
            return 0;
        d->at.epoch++;
        d->at.index = 0;
    }
    return ch_error_set(e, CH_ERANGE, "share: no document is left in %d epochs", MAX_EMPTY_EPOCHS);
}

// ---- batches ----------------------------------------------------------------------------------------------------------------
static void fill_row(ch_train_data *d, size_t row, size_t out) {
    size_t n_ctx = d->p.n_ctx, width = n_ctx + 2, at = 0;
    int32_t *token = d->token + out * width, *doc = d->doc + out * width;
    float *weight = d->weight + out * n_ctx;
    for (size_t k = d->row[row]; k < d->row[row + 1]; k++) {
        const piece *p = &d->piece[d->order[k]];
        size_t n = p->n + (p->more ? 1u : 0u);
        for (size_t i = 0; i < n; i++) {
            token[at + i] = d->store.token[p->begin + i];
            doc[at + i] = (int32_t)(k - d->row[row]);
            if (at + i >= 1 && at + i <= n_ctx)
                weight[at + i - 1] = i ? ch_f16_to_f32(d->store.weight[p->begin + i]) : 0;
        }
        at += n;
    }
    for (; at < width; at++) {
        token[at] = d->pad;
        doc[at] = -1;
        if (at >= 1 && at <= n_ctx)
            weight[at - 1] = 0;
    }
}

int ch_train_data_next(ch_train_data *d, ch_train_batch *b, ch_error *e) {
    size_t n_all = d->p.n_row * (size_t)d->p.n_ranks, mine = d->p.n_row * (size_t)d->p.rank;
    ch_train_data_state before = d->at;
    for (size_t i = 0; i < n_all; i++) {
        int rc = need_plan(d, e);
        if (rc) {
            d->at = before;
            return rc;
        }
        if (i >= mine && i - mine < d->p.n_row)
            fill_row(d, (size_t)d->at.index, i - mine);
        d->at.index++;
    }
    *b = (ch_train_batch){d->p.n_row, d->p.n_ctx, d->token, d->weight, d->doc};
    return 0;
}

// ---- open, close, state -----------------------------------------------------------------------------------------------------
static int check_params(const ch_train_data_params *p, ch_error *e) {
    const ch_train_weights *w = &p->weights;
    const struct {
        const char *name;
        double value;
    } weight[] = {{"assistant", w->assistant}, {"history", w->history}, {"user", w->user}, {"system", w->system},
                  {"role", w->role},           {"text", w->text},       {"end", w->end}};
    if (p->n_source < 1 || p->n_source > 64)
        return ch_error_set(e, CH_ERANGE, "training files: expected 1 to 64, found %zu", p->n_source);
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++)
        if (!(weight[i].value >= 0 && weight[i].value <= 100))
            return ch_error_set(e, CH_ERANGE, "loss weight %s: expected 0 to 100, found %g", weight[i].name, weight[i].value);
    for (size_t i = 0; i < p->n_source; i++) {
        if (!(p->source[i].share >= 0 && p->source[i].share <= 1000))
            return ch_error_set(e, CH_ERANGE, "%s: share: expected 0 to 1000, found %g", p->source[i].path, p->source[i].share);
        if (!(p->source[i].weight >= 0 && p->source[i].weight <= 100))
            return ch_error_set(e, CH_ERANGE, "%s: weight: expected 0 to 100, found %g", p->source[i].path, p->source[i].weight);
    }
    if (p->n_ctx < 8 || p->n_ctx > 1u << 20)
        return ch_error_set(e, CH_ERANGE, "context: expected 8 to %u, found %zu", 1u << 20, p->n_ctx);
    if (p->n_row < 1 || p->n_row > 65536 || p->n_row * p->n_ctx > 1u << 26)
        return ch_error_set(e, CH_ERANGE, "rows: expected 1 to 65536 and at most %u tokens in a batch, found %zu rows of %zu", 1u << 26,
                            p->n_row, p->n_ctx);
    if (p->n_ranks < 1 || p->n_ranks > 65536 || p->rank < 0 || p->rank >= p->n_ranks)
        return ch_error_set(e, CH_ERANGE, "rank: expected 0 to one less than the number of ranks, found %d of %d", p->rank, p->n_ranks);
    return 0;
}

int ch_train_data_open(ch_train_data **out, const ch_train_data_params *p, ch_error *e) {
    int rc = check_params(p, e);
    if (rc)
        return rc;
    ch_train_data *d = ch_alloc(sizeof *d);
    if (!d)
        return ch_error_set(e, CH_ENOMEM, "no memory for training data");
    d->p = *p;
    d->at.seed = p->seed;
    d->planned = UINT64_MAX;
    size_t places = p->n_row * (p->n_ctx + 2);
    d->source = ch_alloc_array(p->n_source, sizeof *d->source);
    d->token = ch_alloc_array(places, sizeof *d->token);
    d->doc = ch_alloc_array(places, sizeof *d->doc);
    d->weight = ch_alloc_array(p->n_row * p->n_ctx, sizeof *d->weight);
    if (!d->source || !d->token || !d->doc || !d->weight)
        rc = ch_error_set(e, CH_ENOMEM, "no memory for batches of %zu rows of %zu tokens", p->n_row, p->n_ctx);
    if (!rc)
        rc = ch_store_open(&d->store, p, e);
    if (!rc) {
        memcpy(d->source, p->source, p->n_source * sizeof *d->source);
        d->pad = ch_vocab_pad(p->vocab) < 0 ? 0 : ch_vocab_pad(p->vocab);
        d->fingerprint = ch_hash64(&d->p.n_ctx, sizeof d->p.n_ctx, d->store.key);
        for (size_t i = 0; i < p->n_source; i++) {
            d->source[i].path = NULL; // the caller's text may go
            d->fingerprint = ch_hash64(&d->source[i].share, sizeof(double), d->fingerprint);
        }
        d->at.fingerprint = d->fingerprint;
        rc = need_plan(d, e);
    }
    d->p.source = NULL;
    d->p.template_text = d->p.cache = NULL;
    d->p.progress = NULL;
    if (rc) {
        ch_train_data_close(&d);
        return rc;
    }
    *out = d;
    return 0;
}

void ch_train_data_close(ch_train_data **p) {
    ch_train_data *d = *p;
    if (!d)
        return;
    ch_store_close(&d->store);
    ch_free(d->source);
    ch_free(d->piece);
    ch_free(d->order);
    ch_free(d->row);
    ch_free(d->token);
    ch_free(d->doc);
    ch_free(d->weight);
    ch_free(d);
    *p = NULL;
}

void ch_train_data_get_info(const ch_train_data *d, ch_train_data_info *info) {
    uint64_t used = 0;
    for (size_t i = 0; i < d->n_piece; i++)
        used += d->piece[i].n;
    *info = (ch_train_data_info){.n_docs = d->store.n_doc, .n_tokens = d->store.n_token, .n_rows = d->n_row,
                                 .from_cache = d->store.from_cache, .fingerprint = d->fingerprint};
    info->fill = d->n_row ? (double)used / ((double)d->n_row * (double)(d->p.n_ctx + 1)) : 0;
}

void ch_train_data_get_state(const ch_train_data *d, ch_train_data_state *s) { *s = d->at; }

int ch_train_data_set_state(ch_train_data *d, const ch_train_data_state *s, ch_error *e) {
    if (s->fingerprint != d->fingerprint)
        return ch_error_set(e, CH_ESTATE, "the training data is not what it was (files, vocabulary, template, weights, shares or context)");
    ch_train_data_state before = d->at;
    if (s->seed != d->at.seed)
        d->planned = UINT64_MAX;
    d->at = *s;
    int rc = d->planned == s->epoch ? 0 : plan_epoch(d, s->epoch, e);
    if (!rc && s->index > d->n_row)
        rc = ch_error_set(e, CH_ERANGE, "row %llu of epoch %llu: it has %zu", (unsigned long long)s->index,
                          (unsigned long long)s->epoch, d->n_row);
    if (rc) {
        d->at = before;
        d->planned = UINT64_MAX;
    }
    return rc;
}
