// Attention between its projections: QK norm, rotation, append to the pages, causal softmax, output gate.
#include <string.h>

#include "op/cpu/cpu.h"

// Query rows handled together: they share the loads of keys and values.
enum { ROW_TILE = 16 };

typedef struct attn_job {
    ch_op *op;
    const ch_op_attn_args *a;
    size_t group; // query heads per key/value head
} attn_job;

static size_t row_bytes(const ch_type_info *t, size_t n) {
    size_t bytes;
    return ch_quant_row_bytes(t, n, &bytes) ? bytes : 0;
}

size_t ch_op_attn_kv_bytes(size_t n_head_kv, size_t d_head, const ch_type_info *k_type, const ch_type_info *v_type) {
    size_t k = row_bytes(k_type, d_head), v = row_bytes(v_type, d_head);
    return k && v ? n_head_kv * (k + v) : 0;
}

static void norm_rope(const ch_op *op, const ch_op_attn_args *a, size_t row, const float *norm, float *x) {
    if (norm) op->kern.rmsnorm(x, norm, a->d_head, a->eps, x);
    if (a->rope) op->kern.rope(x, a->n_rot, a->rope + row * a->n_rot, a->neox);
}

static const float *head_norm(const ch_op_attn_args *a, const float *norm, size_t h) {
    return norm && a->head_norms ? norm + h * a->d_head : norm;
}

// One row: queries to BUF_ATTN_Q, key and value to the page of its position.
static void prepare_row(const ch_op *op, const ch_op_attn_args *a, const ch_op_seg *s, size_t i) {
    size_t d = a->d_head, row = s->row0 + i, pos = s->pos0 + i, step = a->gated ? 2 * d : d;
    float *q = (float *)op->buf[BUF_ATTN_Q] + row * a->n_head * d;
    for (size_t h = 0; h < a->n_head && a->q; h++) {
        memcpy(q + h * d, a->q + row * a->n_head * step + h * step, d * sizeof *q);
        norm_rope(op, a, row, head_norm(a, a->q_norm, h), q + h * d);
    }
    size_t kb = row_bytes(a->k_type, d), vb = row_bytes(a->v_type, d);
    uint8_t *key = s->page[pos / CH_KV_PAGE] + a->page_off + (pos % CH_KV_PAGE) * kb;
    uint8_t *value = s->page[pos / CH_KV_PAGE] + a->page_off + a->n_head_kv * CH_KV_PAGE * kb + (pos % CH_KV_PAGE) * vb;
    float *k = (float *)op->buf[BUF_ATTN_K] + row * d;
    for (size_t h = 0; h < a->n_head_kv; h++) {
        memcpy(k, a->k + (row * a->n_head_kv + h) * d, d * sizeof *k);
        norm_rope(op, a, row, head_norm(a, a->k_norm, h), k);
        a->k_type->encode(k, key + h * CH_KV_PAGE * kb, d);
        a->v_type->encode(a->v + (row * a->n_head_kv + h) * d, value + h * CH_KV_PAGE * vb, d);
    }
}

// Rows [i0, i0 + n) of a segment for one key/value head.
static void attend(const attn_job *j, const ch_op_seg *s, size_t i0, size_t n, size_t h, float *work) {
    const ch_op_attn_args *a = j->a;
    const ch_op *op = j->op;
    size_t d = a->d_head, row0 = s->row0 + i0, kb = row_bytes(a->k_type, d), vb = row_bytes(a->v_type, d);
    ch_attn_args k = {
        .n_tok = n, .n_q = j->group, .d_k = d, .d_v = d, .pos0 = s->pos0 + i0,
        .q = (const float *)op->buf[BUF_ATTN_Q] + (row0 * a->n_head + h * j->group) * d, .ld_q = a->n_head * d,
        .page = (const uint8_t *const *)s->page, .k_off = a->page_off + h * CH_KV_PAGE * kb,
        .v_off = a->page_off + (a->n_head_kv * kb + h * vb) * CH_KV_PAGE, .k_ld = kb, .v_ld = vb, .k_type = a->k_type,
        .v_type = a->v_type, .scale = a->scale, .out = a->y + (row0 * a->n_head + h * j->group) * d, .ld_out = a->n_head * d, .scratch = work};
    op->kern.attn(&k);
    if (!a->gated) return;
    for (size_t i = 0; i < n; i++)
        for (size_t g = 0; g < j->group; g++) {
            size_t head = h * j->group + g;
            float *o = a->y + ((row0 + i) * a->n_head + head) * d;
            op->kern.sigmoid_mul(o, a->q + ((row0 + i) * a->n_head + head) * 2 * d + d, d, o);
        }
}

static void attn_worker(void *arg, int worker, int n_workers) {
    attn_job *j = arg;
    const ch_op_attn_args *a = j->a;
    for (size_t s = 0; s < a->n_seg; s++) {
        size_t b, e;
        ch_pool_split(a->seg[s].n_row, 1, worker, n_workers, &b, &e);
        for (size_t i = b; i < e; i++) prepare_row(j->op, a, &a->seg[s], i);
    }
    if (!a->q) return;
    ch_pool_barrier(j->op->pool);
    float *work = (float *)(j->op->buf[BUF_ATTN_WORK] + (size_t)worker * j->op->attn_part);
    size_t item = 0; // dealt out in turn: late tiles of a long prompt cost more than early ones
    for (size_t s = 0; s < a->n_seg; s++)
        for (size_t i = 0; i < a->seg[s].n_row; i += ROW_TILE) {
            size_t n = a->seg[s].n_row - i < ROW_TILE ? a->seg[s].n_row - i : ROW_TILE;
            for (size_t h = 0; h < a->n_head_kv; h++, item++)
                if (item % (size_t)n_workers == (size_t)worker) attend(j, &a->seg[s], i, n, h, work);
        }
}

void ch_op_attn(ch_op *op, const ch_op_attn_args *a) {
    attn_job j = {op, a, a->n_head / a->n_head_kv};
    size_t part = op->kern.attn_scratch(ROW_TILE, j.group, a->d_head, a->d_head) * sizeof(float);
    if (op->dry && part > op->attn_part) op->attn_part = part;
    ch_op_need(op, BUF_ATTN_K, a->n_row * a->d_head * sizeof(float));
    if (!ch_op_need(op, BUF_ATTN_Q, a->n_row * a->n_head * a->d_head * sizeof(float))) return;
    ch_pool_run(op->pool, attn_worker, &j);
}

// ---- compressed cache -----------------------------------------------------------------------------------------------------
// Heads handled together: all share one key row, so a few at a time keep every worker busy on a single token too.
enum { HEAD_TILE = 4 };

typedef struct mla_job {
    ch_op *op;
    const ch_op_mla_args *a;
} mla_job;

size_t ch_op_mla_kv_bytes(size_t d_latent, size_t d_pe, const ch_type_info *type) { return row_bytes(type, d_latent + d_pe); }

static void mla_worker(void *arg, int worker, int n_workers) {
    mla_job *j = arg;
    const ch_op_mla_args *a = j->a;
    size_t d = a->d_latent + a->d_pe, kb = row_bytes(a->type, d);
    for (size_t s = 0; s < a->n_seg; s++) {
        const ch_op_seg *seg = &a->seg[s];
        size_t b, e;
        ch_pool_split(seg->n_row, 1, worker, n_workers, &b, &e);
        for (size_t i = b; i < e; i++) {
            size_t pos = seg->pos0 + i;
            float *row = (float *)j->op->buf[BUF_ATTN_K] + (seg->row0 + i) * d;
            const float *kv = a->kv + (seg->row0 + i) * d;
            j->op->kern.rmsnorm(kv, a->norm, a->d_latent, a->eps, row);
            memcpy(row + a->d_latent, kv + a->d_latent, a->d_pe * sizeof *row);
            a->type->encode(row, seg->page[pos / CH_KV_PAGE] + a->page_off + pos % CH_KV_PAGE * kb, d);
        }
    }
    ch_pool_barrier(j->op->pool);
    float *work = (float *)(j->op->buf[BUF_ATTN_WORK] + (size_t)worker * j->op->attn_part);
    size_t item = 0;
    for (size_t s = 0; s < a->n_seg; s++)
        for (size_t i = 0; i < a->seg[s].n_row; i += ROW_TILE) {
            const ch_op_seg *seg = &a->seg[s];
            size_t n = seg->n_row - i < ROW_TILE ? seg->n_row - i : ROW_TILE, row = seg->row0 + i;
            for (size_t h = 0; h < a->n_head; h += HEAD_TILE, item++) {
                if (item % (size_t)n_workers != (size_t)worker) continue;
                j->op->kern.attn(&(ch_attn_args){
                    .n_tok = n, .n_q = a->n_head - h < HEAD_TILE ? a->n_head - h : HEAD_TILE, .d_k = d, .d_v = a->d_latent,
                    .pos0 = seg->pos0 + i, .q = a->q + (row * a->n_head + h) * d, .ld_q = a->n_head * d,
                    .page = (const uint8_t *const *)seg->page, .k_off = a->page_off, .v_off = a->page_off, .k_ld = kb, .v_ld = kb,
                    .k_type = a->type, .v_type = a->type,
                    .scale = a->scale, .out = a->y + (row * a->n_head + h) * a->d_latent, .ld_out = a->n_head * a->d_latent,
                    .scratch = work});
            }
        }
}

void ch_op_mla(ch_op *op, const ch_op_mla_args *a) {
    size_t part = op->kern.attn_scratch(ROW_TILE, HEAD_TILE, a->d_latent + a->d_pe, a->d_latent) * sizeof(float);
    if (op->dry && part > op->attn_part) op->attn_part = part;
    if (ch_op_need(op, BUF_ATTN_K, a->n_row * (a->d_latent + a->d_pe) * sizeof(float))) ch_pool_run(op->pool, mla_worker, &(mla_job){op, a});
}
