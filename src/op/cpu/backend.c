// The backend object: tier, workers, buffers sized by a dry run, packed weights.
#include <string.h>

#include "op/cpu/cpu.h"

int ch_op_create(ch_op **out, const char *tier, int n_threads, ch_error *e) {
    *out = NULL;
    ch_op *op = ch_alloc(sizeof *op);
    if (!op) return ch_error_set(e, CH_ENOMEM, "no memory for the backend");
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    int rc = ch_kern_init(&op->kern, &cpu, NULL, e);
    op->best_tier = op->kern.name;
    if (!rc && tier) rc = ch_kern_init(&op->kern, &cpu, tier, e);
    if (!rc) ch_kern_peak_init(&op->peak, &cpu, op->kern.name);
    if (!rc) rc = ch_pool_create(&op->pool, n_threads, e);
    if (rc) return ch_op_free(&op), rc;
    *out = op;
    return CH_OK;
}

void ch_op_free(ch_op **pop) {
    ch_op *op = *pop;
    if (!op) return;
    if (op->pool) ch_pool_free(&op->pool);
    for (int i = 0; i < BUF_N; i++) ch_free(op->buf[i]);
    ch_free(op->share);
    ch_free(op);
    *pop = NULL;
}

const char *ch_op_tier(const ch_op *op) { return op->kern.name; }
const char *ch_op_best_tier(const ch_op *op) { return op->best_tier; }
int ch_op_n_threads(const ch_op *op) { return ch_pool_size(op->pool); }
size_t ch_op_page_tokens(const ch_op *op) { return (void)op, CH_KV_PAGE; }
bool ch_op_is_dry(const ch_op *op) { return op->dry; }

void ch_op_dry_begin(ch_op *op) {
    op->dry = true;
    op->scratch_used = 0;
}

int ch_op_dry_end(ch_op *op, ch_error *e) {
    op->dry = false;
    op->scratch_used = 0;
    if (op->refused)
        return ch_error_set(e, CH_EUNSUPPORTED, "%s: an adapter cannot be added to a matrix that is read row by row or head by head", op->refused->name);
    size_t n = (size_t)ch_pool_size(op->pool), total;
    if (!ch_round_up_size(op->work_part, 64, &op->work_part) || !ch_round_up_size(op->attn_part, 64, &op->attn_part) ||
        !ch_mul_size(op->work_part, n, &op->need[BUF_WORK]) || !ch_mul_size(op->attn_part, n, &op->need[BUF_ATTN_WORK]))
        return ch_error_set(e, CH_ELIMIT, "step buffers: size overflows");
    for (int i = 0; i < BUF_N; i++) {
        ch_free(op->buf[i]);
        op->buf[i] = NULL;
        if (!op->need[i]) continue;
        if (op->need[i] == SIZE_MAX || !ch_round_up_size(op->need[i], 64, &total))
            return ch_error_set(e, CH_ELIMIT, "step buffers: size overflows");
        op->buf[i] = ch_alloc_aligned(total, 64);
        if (!op->buf[i]) return ch_error_set(e, CH_ENOMEM, "step buffers: %zu MiB cannot be had", total >> 20);
    }
    return CH_OK;
}

bool ch_op_need(ch_op *op, int buf, size_t bytes) {
    if (op->dry) {
        if (bytes > op->need[buf]) op->need[buf] = bytes;
        return false;
    }
    CH_ASSERT(bytes <= op->need[buf]);
    return true;
}

float *ch_op_scratch(ch_op *op, size_t n_row, size_t n_col) {
    size_t bytes, end;
    static const float none = 0; // what a dry run hands out: never read or written
    if (!ch_mul_size(n_row, n_col, &bytes) || !ch_mul_size(bytes, sizeof(float), &bytes) ||
        !ch_round_up_size(bytes, 64, &bytes) || !ch_add_size(op->scratch_used, bytes, &end))
        end = SIZE_MAX;
    size_t begin = op->scratch_used;
    op->scratch_used = end;
    if (!ch_op_need(op, BUF_SCRATCH, end)) return (float *)(uintptr_t)&none;
    return (float *)(op->buf[BUF_SCRATCH] + begin);
}

size_t ch_op_scratch_mark(const ch_op *op) { return op->scratch_used; }
void ch_op_scratch_reset(ch_op *op, size_t mark) { op->scratch_used = mark; }

void ch_op_run(ch_op *op, ch_pool_fn fn, void *arg, size_t n_float) {
    if (n_float < SMALL_OP)
        fn(arg, 0, 1);
    else
        ch_pool_run(op->pool, fn, arg);
}

void ch_op_count(ch_op *op, const ch_weight *w, size_t n_mat, size_t n_row) {
    op->counts.weight_bytes += (w->packed ? w->packed_bytes : w->raw_bytes) / w->n_mat * n_mat;
    op->counts.mul_adds += (uint64_t)w->n_in * w->n_out * n_row;
    if (!w->lora) return;
    op->counts.weight_bytes += w->lora->rank * (w->n_in + w->n_out) * sizeof(float) * n_mat;
    op->counts.mul_adds += (uint64_t)w->lora->rank * (w->n_in + w->n_out) * n_row;
}

ch_op_counts ch_op_get_counts(const ch_op *op) { return op->counts; }

// ---- weights --------------------------------------------------------------------------------------------------------------
enum { DROP_BYTES = 16 << 20 }; // of the file, packed by one worker, before it gives their pages back

typedef struct pack_job {
    const ch_kern *kern;
    const ch_weight *w;
    uint8_t *packed;
    size_t row_bytes, mat_bytes; // of the file's rows; of one packed matrix
    ch_op_share share;
} pack_job;

static size_t grains_of(const ch_weight *w) { return (w->n_out + CH_MAT_GRAIN - 1) / CH_MAT_GRAIN * w->n_mat; }

// Without memory for the list a matrix is split by itself.
void ch_op_note_share(ch_op *op, const ch_weight *w, size_t first, size_t total) {
    for (size_t i = 0; i < op->n_share; i++)
        if (op->share[i].w == w) return;
    if (op->n_share == op->cap_share) {
        size_t cap = op->cap_share ? 2 * op->cap_share : 64;
        ch_op_share *more = ch_realloc(op->share, cap * sizeof *more);
        if (!more) return;
        op->share = more, op->cap_share = cap;
    }
    op->share[op->n_share++] = (ch_op_share){w, first, total};
}

static ch_op_share share_of(const ch_op *op, const ch_weight *w) {
    for (size_t i = 0; i < op->n_share; i++)
        if (op->share[i].w == w) return op->share[i];
    return (ch_op_share){w, 0, grains_of(w)};
}

// A worker packs the rows that it will multiply, so that their pages lie on its own memory node.
static void pack_worker(void *arg, int worker, int n_workers) {
    const pack_job *j = arg;
    const ch_weight *w = j->w;
    size_t all = grains_of(w), grains = all / w->n_mat, first = j->share.first, b, e;
    const uint8_t *kept = NULL; // first byte of the file whose page may still be here
    ch_pool_split(j->share.total, 1, worker, n_workers, &b, &e);
    b = b > first ? b - first : 0, e = e > first ? e - first : 0;
    if (e > all) e = all;
    for (; b < e; b++) {
        size_t i = b / grains, r0 = b % grains * CH_MAT_GRAIN, r1 = r0 + CH_MAT_GRAIN < w->n_out ? r0 + CH_MAT_GRAIN : w->n_out;
        ch_mat m = w->mat[i];
        m.packed = j->packed + i * j->mat_bytes;
        j->kern->mat_pack(&m, r0, r1);
        const uint8_t *end = m.raw + r1 * j->row_bytes;
        if (!kept) kept = m.raw + r0 * j->row_bytes;
        if (w->mapped && (end - kept >= DROP_BYTES || b + 1 == e)) ch_map_drop(kept, (size_t)(end - kept)), kept = end;
    }
}

uint32_t ch_op_packed_layout(const ch_op *op) { return (void)op, CH_MAT_LAYOUT; }

int ch_op_weight_size(const ch_op *op, const ch_weight *w, bool keep_raw, size_t *bytes, ch_error *e) {
    *bytes = keep_raw ? 0 : op->kern.mat_packed_bytes(w->type, w->n_in, w->n_out);
    if (!ch_round_up_size(*bytes, 64, bytes) || !ch_mul_size(*bytes, w->n_mat, bytes))
        return ch_error_set(e, CH_ELIMIT, "%s: packed size overflows", w->name);
    return CH_OK;
}

int ch_op_weight_attach(ch_op *op, ch_weight *w, const uint8_t *packed, size_t bytes, ch_error *e) {
    size_t row;
    (void)op;
    if (!ch_quant_row_bytes(w->type, w->n_in, &row))
        return ch_error_set(e, CH_EFORMAT, "%s: rows of %zu values do not fit blocks of %s", w->name, w->n_in, w->type->name);
    if (!w->mat) w->mat = ch_alloc_array(w->n_mat, sizeof *w->mat);
    if (!w->mat) return ch_error_set(e, CH_ENOMEM, "%s: no memory", w->name);
    w->packed = packed, w->packed_bytes = packed ? bytes : 0;
    for (size_t i = 0; i < w->n_mat; i++)
        w->mat[i] = (ch_mat){.type = w->type, .n_in = w->n_in, .n_out = w->n_out, .raw = w->raw + i * w->n_out * row,
                             .packed = packed ? (uint8_t *)(uintptr_t)packed + i * (bytes / w->n_mat) : NULL};
    return CH_OK;
}

void ch_op_weight_pack(ch_op *op, const ch_weight *w, uint8_t *packed) {
    pack_job j = {&op->kern, w, packed, w->raw_bytes / (w->n_out * w->n_mat), w->packed_bytes / w->n_mat, share_of(op, w)};
    ch_pool_run(op->pool, pack_worker, &j);
}

int ch_op_weight_prepare(ch_op *op, ch_weight *w, bool keep_raw, ch_error *e) {
    size_t bytes;
    int rc = ch_op_weight_size(op, w, keep_raw, &bytes, e);
    if (rc) return rc;
    if (bytes && !(w->own = ch_alloc_untouched(bytes, 64)))
        return ch_error_set(e, CH_ENOMEM, "%s: %zu MiB of packed weights cannot be had", w->name, bytes >> 20);
    rc = ch_op_weight_attach(op, w, w->own, bytes, e);
    if (!rc && bytes) ch_op_weight_pack(op, w, w->own);
    return rc;
}

void ch_op_weight_release(ch_weight *w) {
    ch_free(w->mat), ch_free(w->own);
    w->mat = NULL, w->packed = w->own = NULL, w->packed_bytes = 0;
}
