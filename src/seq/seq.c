// Pages, slabs, forks and marks. Free pages and slabs are kept on stacks; a page carries a count of the sequences and marks
// that hold it. Released slabs and pages are poisoned in debug builds: reading one without writing first shows up as NaN.
#include "seq/seq.h"

#include <string.h>

#include "seq/pool.h"

#ifdef CH_DEBUG
static void poison(uint8_t *p, size_t n) { memset(p, 0xFF, n); } // every f32 in it is a NaN
#else
static void poison(uint8_t *p, size_t n) { (void)p, (void)n; }
#endif

static size_t n_slab_of(const ch_seq_limits *lim) { return lim->n_seq + lim->n_mark; }

typedef struct pool_size {
    size_t slab, journal; // of one sequence
    size_t pages, slabs, journals;
} pool_size;

static bool pool_sizes(const ch_seq_plan *plan, const ch_seq_limits *lim, pool_size *z) {
    return ch_round_up_size(plan->slab_bytes, 64, &z->slab) && ch_mul_size(plan->page_bytes, lim->n_page, &z->pages) &&
           ch_mul_size(z->slab, n_slab_of(lim), &z->slabs) && ch_mul_size(plan->journal_bytes, lim->n_draft, &z->journal) &&
           ch_round_up_size(z->journal, 64, &z->journal) && ch_mul_size(z->journal, lim->n_seq, &z->journals);
}

size_t ch_seq_pool_bytes(const ch_seq_plan *plan, const ch_seq_limits *lim) {
    pool_size z;
    size_t sum;
    if (!pool_sizes(plan, lim, &z) || !ch_add_size(z.pages, z.slabs, &sum) || !ch_add_size(sum, z.journals, &sum)) return SIZE_MAX;
    return sum;
}

int ch_seq_pool_create(ch_seq_pool **out, const ch_seq_plan *plan, const ch_seq_limits *lim, ch_error *e) {
    *out = NULL;
    pool_size z;
    if (!plan->page_tokens || !lim->n_seq || !lim->max_tokens || lim->n_seq > 65536 || lim->n_mark > 65536 ||
        lim->max_tokens > INT32_MAX || lim->n_page > INT32_MAX)
        return ch_error_set(e, CH_ERANGE, "sequence pool: sequences, marks, pages or tokens out of range");
    if (lim->n_draft > CH_SEQ_MAX_DRAFT)
        return ch_error_set(e, CH_ERANGE, "sequence pool: n_draft is %zu, expected 0..%d", lim->n_draft, CH_SEQ_MAX_DRAFT);
    if (!pool_sizes(plan, lim, &z))
        return ch_error_set(e, CH_ELIMIT, "sequence pool: size overflows");
    ch_seq_pool *p = ch_alloc(sizeof *p);
    if (!p) goto nomem;
    p->plan = *plan, p->lim = *lim, p->slab_stride = z.slab;
    p->max_pages = (lim->max_tokens + plan->page_tokens - 1) / plan->page_tokens;
    if (!plan->page_bytes) p->lim.n_page = 0;
    size_t n_page = p->lim.n_page, n_slab = n_slab_of(lim);
    p->page_mem = ch_alloc_aligned(z.pages ? z.pages : 64, 64);
    p->slab_mem = ch_alloc_aligned(z.slabs ? z.slabs : 64, 64);
    p->journal_mem = ch_alloc_aligned(z.journals ? z.journals : 64, 64);
    p->page_refs = ch_alloc_array(n_page + 1, sizeof *p->page_refs);
    p->page_stack = ch_alloc_array(n_page + 1, sizeof *p->page_stack);
    p->slab_stack = ch_alloc_array(n_slab, sizeof *p->slab_stack);
    p->seqs = ch_alloc_array(lim->n_seq, sizeof *p->seqs);
    p->marks = ch_alloc_array(lim->n_mark + 1, sizeof *p->marks);
    p->tables = ch_alloc_array((lim->n_seq + lim->n_mark) * p->max_pages + 1, sizeof *p->tables);
    if (!p->page_mem || !p->slab_mem || !p->journal_mem || !p->page_refs || !p->page_stack || !p->slab_stack || !p->seqs || !p->marks ||
        !p->tables)
        goto nomem;
    for (size_t i = 0; i < n_page; i++) p->page_stack[p->n_free_page++] = (int32_t)(n_page - 1 - i);
    for (size_t i = 0; i < n_slab; i++) p->slab_stack[p->n_free_slab++] = (int32_t)(n_slab - 1 - i);
    for (size_t i = 0; i < lim->n_seq; i++) {
        p->seqs[i].page = p->tables + i * p->max_pages;
        p->seqs[i].journal = z.journal ? p->journal_mem + i * z.journal : NULL;
    }
    for (size_t i = 0; i < lim->n_mark; i++) p->marks[i].page = p->tables + (lim->n_seq + i) * p->max_pages;
    *out = p;
    return CH_OK;
nomem:
    ch_seq_pool_free(&p);
    return ch_error_set(e, CH_ENOMEM, "sequence pool: %zu MiB of state cannot be had",
                        ch_seq_pool_bytes(plan, lim) >> 20);
}

void ch_seq_pool_free(ch_seq_pool **pp) {
    ch_seq_pool *p = *pp;
    if (!p) return;
    ch_free(p->page_mem), ch_free(p->slab_mem), ch_free(p->journal_mem), ch_free(p->page_refs), ch_free(p->page_stack), ch_free(p->slab_stack);
    ch_free(p->seqs), ch_free(p->marks), ch_free(p->tables), ch_free(p);
    *pp = NULL;
}

size_t ch_seq_pool_free_pages(const ch_seq_pool *p) { return p->n_free_page; }

// ---- pages ----------------------------------------------------------------------------------------------------------------
static size_t page_index(const ch_seq_pool *p, const uint8_t *page) {
    return (size_t)(page - p->page_mem) / p->plan.page_bytes;
}

static uint8_t *page_take(ch_seq_pool *p) {
    if (!p->n_free_page) return NULL;
    size_t i = (size_t)p->page_stack[--p->n_free_page];
    p->page_refs[i] = 1;
    return p->page_mem + i * p->plan.page_bytes;
}

static void page_drop(ch_seq_pool *p, uint8_t *page) {
    size_t i = page_index(p, page);
    CH_ASSERT(p->page_refs[i] > 0);
    if (--p->page_refs[i]) return;
    poison(page, p->plan.page_bytes);
    p->page_stack[p->n_free_page++] = (int32_t)i;
}

static void pages_share(ch_seq_pool *p, uint8_t **dst, uint8_t *const *src, size_t n) {
    for (size_t i = 0; i < n; i++) p->page_refs[page_index(p, dst[i] = src[i])]++;
}

static void pages_drop(ch_seq_pool *p, uint8_t **page, size_t from, size_t n) {
    for (size_t i = from; i < n; i++) page_drop(p, page[i]), page[i] = NULL;
}

static size_t pages_for(const ch_seq_pool *p, size_t n_tok) {
    return p->plan.page_bytes ? (n_tok + p->plan.page_tokens - 1) / p->plan.page_tokens : 0;
}

// ---- slabs ----------------------------------------------------------------------------------------------------------------
static uint8_t *slab_take(ch_seq_pool *p) {
    if (!p->n_free_slab) return NULL;
    return p->slab_mem + (size_t)p->slab_stack[--p->n_free_slab] * p->slab_stride;
}

static void slab_drop(ch_seq_pool *p, uint8_t *slab) {
    poison(slab, p->plan.slab_bytes);
    p->slab_stack[p->n_free_slab++] = p->slab_stride ? (int32_t)((size_t)(slab - p->slab_mem) / p->slab_stride) : 0;
}

// ---- sequences ------------------------------------------------------------------------------------------------------------
int ch_seq_create(ch_seq **out, ch_seq_pool *p, ch_error *e) {
    *out = NULL;
    ch_seq *s = NULL;
    for (size_t i = 0; i < p->lim.n_seq && !s; i++)
        if (!p->seqs[i].pool) s = &p->seqs[i];
    uint8_t *slab = s ? slab_take(p) : NULL;
    if (!slab) return ch_error_set(e, CH_EBUSY, "all %zu sequences are in use", p->lim.n_seq);
    s->pool = p, s->slab = slab, s->len = 0, s->n_page = 0, s->n_pending = 0;
    memset(slab, 0, p->plan.slab_bytes);
    *out = s;
    return CH_OK;
}

void ch_seq_free(ch_seq **ps) {
    ch_seq *s = *ps;
    if (!s) return;
    pages_drop(s->pool, s->page, 0, s->n_page);
    slab_drop(s->pool, s->slab);
    s->pool = NULL, s->slab = NULL, s->n_page = 0, s->len = 0, s->n_pending = 0;
    *ps = NULL;
}

size_t ch_seq_len(const ch_seq *s) { return s->len; }
uint8_t *const *ch_seq_pages(const ch_seq *s) { return s->page; }
uint8_t *ch_seq_slab(const ch_seq *s) { return s->pool->plan.slab_bytes ? s->slab : NULL; }

void ch_seq_reset(ch_seq *s) {
    pages_drop(s->pool, s->page, 0, s->n_page);
    s->n_page = 0, s->len = 0, s->n_pending = 0;
    memset(s->slab, 0, s->pool->plan.slab_bytes);
}

int ch_seq_extend(ch_seq *s, size_t n, ch_error *e) {
    ch_seq_pool *p = s->pool;
    int rc = ch_seq_check_settled(s, "extend", e);
    if (rc) return rc;
    if (n > p->lim.max_tokens - s->len)
        return ch_error_set(e, CH_ELIMIT, "context is full: %zu positions used, %zu more asked, limit %zu", s->len, n,
                            p->lim.max_tokens);
    if (!p->plan.page_bytes || !n) return CH_OK;
    size_t want = pages_for(p, s->len + n);
    size_t first = s->len / p->plan.page_tokens; // the page that the next position is written to
    bool copy = first < s->n_page && p->page_refs[page_index(p, s->page[first])] > 1;
    size_t need = (want > s->n_page ? want - s->n_page : 0) + (copy ? 1 : 0);
    if (need > p->n_free_page)
        return ch_error_set(e, CH_EBUSY, "key/value pages: %zu needed, %zu free of %zu", need, p->n_free_page,
                            p->lim.n_page);
    if (copy) {
        uint8_t *mine = page_take(p);
        memcpy(mine, s->page[first], p->plan.page_bytes);
        page_drop(p, s->page[first]);
        s->page[first] = mine;
    }
    while (s->n_page < want) s->page[s->n_page++] = page_take(p);
    return CH_OK;
}

void ch_seq_commit(ch_seq *s, size_t n) {
    CH_ASSERT(s->len + n <= s->pool->lim.max_tokens && pages_for(s->pool, s->len + n) <= s->n_page);
    s->len += n;
}

// ---- tentative rows -------------------------------------------------------------------------------------------------------
int ch_seq_check_settled(const ch_seq *s, const char *what, ch_error *e) {
    if (!s->n_pending) return CH_OK;
    return ch_error_set(e, CH_ESTATE, "cannot %s a sequence with %zu tentative rows: commit or drop them first", what, s->n_pending);
}

int ch_seq_check_hold(const ch_seq *s, size_t n, ch_error *e) {
    if (n <= s->pool->lim.n_draft) return CH_OK;
    return ch_error_set(e, CH_ELIMIT, "%zu tentative rows, the pool was made for %zu", n, s->pool->lim.n_draft);
}

void ch_seq_hold(ch_seq *s, size_t n) {
    CH_ASSERT(!s->n_pending && n <= s->pool->lim.n_draft && pages_for(s->pool, s->len + n) <= s->n_page);
    s->n_pending = n;
}

size_t ch_seq_pending(const ch_seq *s) { return s->n_pending; }

void ch_seq_settle(ch_seq *s, size_t n) {
    CH_ASSERT(n <= s->n_pending);
    s->n_pending = 0;
    ch_seq_commit(s, n);
    if (s->journal) poison(s->journal, s->pool->lim.n_draft * s->pool->plan.journal_bytes);
}

uint8_t *ch_seq_journal(const ch_seq *s) { return s->journal; }
size_t ch_seq_journal_rows(const ch_seq *s) { return s->pool->lim.n_draft; }

int ch_seq_fork(ch_seq **copy, ch_seq *s, ch_error *e) {
    *copy = NULL;
    int rc = ch_seq_check_settled(s, "fork", e);
    if (rc || (rc = ch_seq_create(copy, s->pool, e))) return rc;
    size_t n = pages_for(s->pool, s->len); // pages reserved past the length stay the original's
    pages_share(s->pool, (*copy)->page, s->page, n);
    (*copy)->n_page = n, (*copy)->len = s->len;
    memcpy((*copy)->slab, s->slab, s->pool->plan.slab_bytes);
    return CH_OK;
}

int ch_seq_truncate(ch_seq *s, size_t n, ch_error *e) {
    int rc = ch_seq_check_settled(s, "truncate", e);
    if (rc) return rc;
    if (n == s->len) return CH_OK;
    if (n == 0) return ch_seq_reset(s), CH_OK;
    if (n > s->len) return ch_error_set(e, CH_ERANGE, "cannot truncate %zu positions to %zu", s->len, n);
    if (s->pool->plan.slab_bytes)
        return ch_error_set(e, CH_ESTATE, "a recurrent state rolls back to marks only (length %zu, asked %zu)", s->len, n);
    size_t keep = pages_for(s->pool, n);
    pages_drop(s->pool, s->page, keep, s->n_page);
    s->n_page = keep, s->len = n;
    return CH_OK;
}

// ---- marks ----------------------------------------------------------------------------------------------------------------
int ch_seq_mark_create(ch_seq_mark **out, const ch_seq *s, ch_error *e) {
    *out = NULL;
    int rc = ch_seq_check_settled(s, "mark", e);
    if (rc) return rc;
    ch_seq_pool *p = s->pool;
    ch_seq_mark *m = NULL;
    for (size_t i = 0; i < p->lim.n_mark && !m; i++)
        if (!p->marks[i].pool) m = &p->marks[i];
    uint8_t *slab = m ? slab_take(p) : NULL;
    if (!slab) return ch_error_set(e, CH_EBUSY, "all %zu marks are in use", p->lim.n_mark);
    m->pool = p, m->slab = slab, m->len = s->len, m->n_page = pages_for(p, s->len);
    memcpy(slab, s->slab, p->plan.slab_bytes);
    pages_share(p, m->page, s->page, m->n_page);
    *out = m;
    return CH_OK;
}

size_t ch_seq_mark_len(const ch_seq_mark *m) { return m->len; }

void ch_seq_mark_free(ch_seq_mark **pm) {
    ch_seq_mark *m = *pm;
    if (!m) return;
    pages_drop(m->pool, m->page, 0, m->n_page);
    slab_drop(m->pool, m->slab);
    m->pool = NULL, m->slab = NULL, m->n_page = 0;
    *pm = NULL;
}

int ch_seq_rollback(ch_seq *s, const ch_seq_mark *m, ch_error *e) {
    if (m->pool != s->pool) return ch_error_set(e, CH_ESTATE, "mark and sequence belong to different pools");
    ch_seq_pool *p = s->pool;
    for (size_t i = 0; i < m->n_page; i++) p->page_refs[page_index(p, m->page[i])]++; // first share, then drop: may be equal
    pages_drop(p, s->page, 0, s->n_page);
    memcpy(s->page, m->page, m->n_page * sizeof *s->page);
    s->n_page = m->n_page, s->len = m->len, s->n_pending = 0;
    memcpy(s->slab, m->slab, p->plan.slab_bytes);
    return CH_OK;
}
