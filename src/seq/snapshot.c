// Snapshot of one sequence (docs/FORMATS.md): a header, the token ids that led here, the slab, the pages in use, a checksum
// of all that. Little-endian, no padding. Restoring checks every field before touching the sequence.
#include <string.h>

#include "seq/pool.h"

enum { SNAPSHOT_VERSION = 1 };
static const char magic[8] = {'C', 'H', 'S', 'N', 'A', 'P', '\r', '\n'};

typedef struct header {
    char magic[8];
    uint32_t version, page_tokens;
    uint64_t fingerprint, len, page_bytes, slab_bytes;
} header; // 48 bytes, naturally aligned: no holes

_Static_assert(sizeof(header) == 48, "snapshot header has no padding");

static size_t pages_of(const ch_seq_plan *plan, size_t len) {
    return plan->page_bytes ? (len + plan->page_tokens - 1) / plan->page_tokens : 0;
}

int ch_seq_snapshot(const ch_seq *s, const int32_t *token, size_t n_token, ch_buf *out, ch_error *e) {
    const ch_seq_plan *plan = &s->pool->plan;
    int rc = ch_seq_check_settled(s, "save", e);
    if (rc) return rc;
    if (n_token != s->len)
        return ch_error_set(e, CH_ERANGE, "snapshot: %zu token ids for %zu positions", n_token, s->len);
    header h = {.version = SNAPSHOT_VERSION, .page_tokens = (uint32_t)plan->page_tokens, .fingerprint = plan->fingerprint,
                .len = s->len, .page_bytes = plan->page_bytes, .slab_bytes = plan->slab_bytes};
    memcpy(h.magic, magic, sizeof magic);
    size_t begin = out->len;
    ch_buf_append(out, &h, sizeof h);
    ch_buf_append(out, token, n_token * sizeof *token);
    ch_buf_append(out, s->slab, plan->slab_bytes);
    for (size_t i = 0; i < pages_of(plan, s->len); i++) ch_buf_append(out, s->page[i], plan->page_bytes);
    if (out->failed) return ch_error_set(e, CH_ENOMEM, "snapshot: no memory for %zu positions", s->len);
    uint64_t sum = ch_hash64(out->data + begin, out->len - begin, 0);
    ch_buf_append(out, &sum, sizeof sum);
    return out->failed ? ch_error_set(e, CH_ENOMEM, "snapshot: no memory for %zu positions", s->len) : CH_OK;
}

int ch_seq_restore(ch_seq *s, const void *data, size_t size, int32_t *token, size_t max_token, size_t *n_token,
                   ch_error *e) {
    const ch_seq_plan *plan = &s->pool->plan;
    const uint8_t *p = data;
    header h;
    if (size < sizeof h + 8) return ch_error_set(e, CH_EFORMAT, "snapshot: %zu bytes are too few", size);
    memcpy(&h, p, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic)) return ch_error_set(e, CH_EFORMAT, "snapshot: not a chimere snapshot");
    if (h.version != SNAPSHOT_VERSION)
        return ch_error_set(e, CH_EUNSUPPORTED, "snapshot: version %u, expected %d", h.version, SNAPSHOT_VERSION);
    if (h.fingerprint != plan->fingerprint || h.page_tokens != plan->page_tokens || h.page_bytes != plan->page_bytes ||
        h.slab_bytes != plan->slab_bytes)
        return ch_error_set(e, CH_EFORMAT, "snapshot: made with another model or other state types");
    if (h.len > s->pool->lim.max_tokens || h.len > max_token)
        return ch_error_set(e, CH_ELIMIT, "snapshot: %llu positions, room for %zu", (unsigned long long)h.len,
                            max_token < s->pool->lim.max_tokens ? max_token : s->pool->lim.max_tokens);
    size_t n = (size_t)h.len, n_page = pages_of(plan, n), page_bytes, want = sizeof h + 8;
    if (!ch_mul_size(n_page, plan->page_bytes, &page_bytes) || !ch_add_size(want, page_bytes, &want) ||
        !ch_add_size(want, plan->slab_bytes + n * sizeof *token, &want) || want != size)
        return ch_error_set(e, CH_EFORMAT, "snapshot: %zu bytes, expected %zu for %zu positions", size, want, n);
    uint64_t sum;
    memcpy(&sum, p + size - 8, 8);
    if (sum != ch_hash64(p, size - 8, 0)) return ch_error_set(e, CH_EFORMAT, "snapshot: checksum does not match");

    ch_seq_reset(s);
    int rc = ch_seq_extend(s, n, e);
    if (rc) return rc;
    p += sizeof h;
    memcpy(token, p, n * sizeof *token), p += n * sizeof *token;
    memcpy(s->slab, p, plan->slab_bytes), p += plan->slab_bytes;
    for (size_t i = 0; i < n_page; i++) memcpy(s->page[i], p, plan->page_bytes), p += plan->page_bytes;
    ch_seq_commit(s, n);
    *n_token = n;
    return CH_OK;
}
