// The file of packed weights: layout, strict parser, checksums.
#include "model/panels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char MAGIC[8] = "CHPANEL";
enum { VERSION = 1, CHUNK = 1 << 20, TRAILER_EXTRA = 16 };
_Static_assert(sizeof(ch_panels_header) == 128 && sizeof(ch_panels_entry) == 128, "as in the file");

bool ch_panels_is_file(const void *data, size_t size) { return size >= sizeof MAGIC && !memcmp(data, MAGIC, sizeof MAGIC); }

static uint64_t header_sum(const ch_panels_header *h, const ch_panels_entry *entry) {
    return ch_hash64(entry, h->n_entry * sizeof *entry, ch_hash64(h, offsetof(ch_panels_header, sum), 0));
}

uint64_t ch_panels_trailer_sum(const uint64_t *sum, size_t n_entry) { return ch_hash64(sum, n_entry * sizeof *sum, 1); }

static bool place(size_t *at, uint64_t bytes) {
    size_t end;
    if (bytes > SIZE_MAX || !ch_add_size(*at, (size_t)bytes, &end)) return false;
    return ch_round_up_size(end, CH_PANELS_ALIGN, at);
}

int ch_panels_layout(ch_panels_header *h, ch_panels_entry *entry, size_t n_entry, ch_error *e) {
    size_t at = 0, end;
    if (n_entry < 1 || n_entry > CH_PANELS_MAX_ENTRIES)
        return ch_error_set(e, CH_ELIMIT, "panel file of %zu matrices, expected 1 to %d", n_entry, CH_PANELS_MAX_ENTRIES);
    if (!place(&at, sizeof *h + n_entry * sizeof *entry)) goto overflow;
    h->data_off = at;
    for (size_t i = 0; i < n_entry; i++) {
        entry[i].offset = at;
        if (!place(&at, entry[i].bytes)) goto overflow;
    }
    if (!ch_add_size(at, n_entry * sizeof(uint64_t) + TRAILER_EXTRA, &end)) goto overflow;
    memcpy(h->magic, MAGIC, sizeof MAGIC);
    h->version = VERSION, h->n_entry = (uint32_t)n_entry, h->trailer_off = at, h->file_bytes = end;
    h->sum = header_sum(h, entry);
    return CH_OK;
overflow:
    return ch_error_set(e, CH_ELIMIT, "panel file: sizes overflow");
}

// Where each entry must lie follows from the sizes before it.
static int check_table(const ch_panels_header *h, const ch_panels_entry *entry, ch_error *e) {
    size_t at = (size_t)h->data_off;
    for (uint32_t i = 0; i < h->n_entry; i++) {
        const ch_panels_entry *x = &entry[i];
        if (!memchr(x->name, 0, sizeof x->name)) return ch_error_set(e, CH_EFORMAT, "panel file: name of matrix %u does not end", i);
        if (!x->bytes || x->bytes > h->trailer_off || x->offset != at || !place(&at, x->bytes) || at > h->trailer_off)
            return ch_error_set(e, CH_EFORMAT, "panel file: matrix %u: %" PRIu64 " bytes at %" PRIu64 " do not fit the file", i, x->bytes,
                                x->offset);
    }
    return at == h->trailer_off ? CH_OK : ch_error_set(e, CH_EFORMAT, "panel file: its checksums should follow at %zu, found %" PRIu64, at, h->trailer_off);
}

int ch_panels_parse(ch_panels *p, const uint8_t *data, size_t size, ch_error *e) {
    const ch_panels_header *h = (const void *)data;
    size_t table;
    *p = (ch_panels){0};
    if (!ch_panels_is_file(data, size)) return ch_error_set(e, CH_EFORMAT, "no panel file: it does not begin with %s", MAGIC);
    if (size < sizeof *h) return ch_error_set(e, CH_EFORMAT, "panel file: %zu bytes, the header alone has %zu", size, sizeof *h);
    if (h->version != VERSION) return ch_error_set(e, CH_EUNSUPPORTED, "panel file: expected version %d, found %u", VERSION, h->version);
    if (h->file_bytes != size) return ch_error_set(e, CH_EFORMAT, "panel file: expected %" PRIu64 " bytes, found %zu", h->file_bytes, size);
    if (h->n_entry < 1 || h->n_entry > CH_PANELS_MAX_ENTRIES)
        return ch_error_set(e, CH_ELIMIT, "panel file of %u matrices, expected 1 to %d", h->n_entry, CH_PANELS_MAX_ENTRIES);
    table = (sizeof *h + h->n_entry * sizeof *p->entry + CH_PANELS_ALIGN - 1) / CH_PANELS_ALIGN * CH_PANELS_ALIGN;
    if (h->data_off != table || table > size || h->trailer_off > size || size - h->trailer_off != h->n_entry * sizeof(uint64_t) + TRAILER_EXTRA)
        return ch_error_set(e, CH_EFORMAT, "panel file: its parts do not fit %zu bytes", size);
    const ch_panels_entry *entry = (const void *)(data + sizeof *h);
    int rc = check_table(h, entry, e); // trailer_off is a multiple of 4096 then
    if (rc) return rc;
    if (header_sum(h, entry) != h->sum) return ch_error_set(e, CH_EFORMAT, "panel file: the header's checksum is wrong");
    const uint64_t *sum = (const void *)(data + h->trailer_off);
    if (ch_panels_trailer_sum(sum, h->n_entry) != sum[h->n_entry])
        return ch_error_set(e, CH_EFORMAT, "panel file: the checksum of its checksums is wrong");
    *p = (ch_panels){.data = data, .header = h, .entry = entry, .sum = sum, .checked = sum[h->n_entry + 1]};
    return CH_OK;
}

// ---- checksums of the matrices ----------------------------------------------------------------------------------------------
typedef struct sum_job {
    const uint8_t *data;
    size_t n;
    uint64_t *chunk; // [n / CHUNK rounded up]
} sum_job;

static void sum_worker(void *arg, int worker, int n_workers) {
    const sum_job *j = arg;
    size_t b, e;
    ch_pool_split((j->n + CHUNK - 1) / CHUNK, 1, worker, n_workers, &b, &e);
    for (; b < e; b++) j->chunk[b] = ch_hash64(j->data + b * CHUNK, j->n - b * CHUNK < CHUNK ? j->n - b * CHUNK : CHUNK, 0);
}

int ch_panels_sum(ch_pool *pool, const uint8_t *data, uint64_t n, uint64_t *sum, ch_error *e) {
    size_t n_chunk = ((size_t)n + CHUNK - 1) / CHUNK;
    sum_job j = {data, (size_t)n, ch_alloc_array(n_chunk, sizeof *j.chunk)};
    if (!j.chunk) return ch_error_set(e, CH_ENOMEM, "no memory for checksums");
    ch_pool_run(pool, sum_worker, &j);
    *sum = ch_hash64(j.chunk, n_chunk * sizeof *j.chunk, n);
    ch_free(j.chunk);
    return CH_OK;
}

int ch_panels_check_sums(const ch_panels *p, ch_pool *pool, ch_progress_fn progress, void *user, ch_error *e) {
    for (uint32_t i = 0; i < p->header->n_entry; i++) {
        const ch_panels_entry *x = &p->entry[i];
        uint64_t sum;
        int rc = ch_panels_sum(pool, p->data + x->offset, x->bytes, &sum, e);
        if (rc) return rc;
        if (sum != p->sum[i]) return ch_error_set(e, CH_EFORMAT, "panel file: the checksum of %s is wrong", x->name);
        if (progress && !progress(user, "checking panels", x->offset + x->bytes, p->header->file_bytes))
            return ch_error_set(e, CH_ECANCELLED, "the check was stopped");
    }
    return CH_OK;
}

int ch_panels_verify(const void *data, size_t size, int n_threads, ch_progress_fn progress, void *user, ch_error *e) {
    ch_panels p;
    ch_pool *pool = NULL;
    int rc = ch_panels_parse(&p, data, size, e);
    if (rc || (rc = ch_pool_create(&pool, n_threads, e))) return rc;
    rc = ch_panels_check_sums(&p, pool, progress, user, e);
    ch_pool_free(&pool);
    return rc;
}
