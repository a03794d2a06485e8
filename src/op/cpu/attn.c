// Attention between its projections: QK norm, rotary embedding, append to the pages, causal softmax, output gate.
#include <string.h>

#include "op/cpu/cpu.h"

static size_t row_bytes(const ch_type_info *t, size_t n) {
    size_t bytes;
    return ch_quant_row_bytes(t, n, &bytes) ? bytes : 0;
}

size_t ch_op_attn_kv_bytes(size_t n_head_kv, size_t d_head, const ch_type_info *k_type, const ch_type_info *v_type) {
    size_t k = row_bytes(k_type, d_head), v = row_bytes(v_type, d_head);
    return k && v ? n_head_kv * (k + v) : 0;
}

static float *worker_part(const ch_op *op, int worker) {
    return (float *)(op->buf[BUF_ATTN_WORK] + (size_t)worker * op->attn_part);
}

typedef struct attn_job {
    const ch_op_attn_args *a;
    ch_op_attend attend;
} attn_job;

static void norm_rope(const ch_op *op, const ch_op_attn_args *a, size_t row, const float *norm, size_t h, float *x) {
    if (norm) op->kern.rmsnorm(x, a->head_norms ? norm + h * a->d_head : norm, a->d_head, a->eps, x);
    if (a->rope) op->kern.rope(x, a->n_rot, a->rope + row * a->n_rot, a->neox);
    if (a->k_rot) op->kern.rotate(x, a->d_head, a->k_rot, false);
}

// One query head of a row to BUF_ATTN_Q.
static void prepare_query(const ch_op *op, const ch_op_attn_args *a, size_t row, size_t h) {
    const size_t d = a->d_head, at = row * a->n_head + h;
    float *q = (float *)op->buf[BUF_ATTN_Q] + at * d;
    memcpy(q, a->q + at * (a->gated ? 2 * d : d), d * sizeof *q);
    norm_rope(op, a, row, a->q_norm, h, q);
}

// One key and value of a row to the page of its position. x: d_head floats of room.
static void append(const ch_op *op, const ch_op_attn_args *a, const ch_op_seg *s, size_t i, size_t h, float *x) {
    const size_t d = a->d_head, pos = s->pos0 + i, at = (s->row0 + i) * a->n_head_kv + h;
    const size_t kb = row_bytes(a->k_type, d), vb = row_bytes(a->v_type, d);
    uint8_t *page = s->page[pos / CH_KV_PAGE] + a->page_off;
    memcpy(x, a->k + at * d, d * sizeof *x);
    norm_rope(op, a, s->row0 + i, a->k_norm, h, x);
    a->k_type->encode(x, page + (h * CH_KV_PAGE + pos % CH_KV_PAGE) * kb, d);
    memcpy(x, a->v + at * d, d * sizeof *x);
    if (a->v_rot) op->kern.rotate(x, d, a->v_rot, false);
    a->v_type->encode(x, page + a->n_head_kv * CH_KV_PAGE * kb + (h * CH_KV_PAGE + pos % CH_KV_PAGE) * vb, d);
}

static void attn_worker(void *arg, int worker, int n_workers) {
    const attn_job *j = arg;
    const ch_op_attn_args *a = j->a;
    const ch_op *op = j->attend.op;
    const size_t n_q = a->q ? a->n_head : 0, n = n_q + a->n_head_kv; // items of a row: query heads, then key/value heads
    float *work = worker_part(op, worker);
    for (size_t s = 0; s < a->n_seg; s++) {
        size_t b, e;
        ch_pool_split(a->seg[s].n_row * n, 1, worker, n_workers, &b, &e);
        for (size_t i = b; i < e; i++) {
            if (i % n < n_q) prepare_query(op, a, a->seg[s].row0 + i / n, i % n);
            else append(op, a, &a->seg[s], i / n, i % n - n_q, work);
        }
    }
    if (!a->q) return;
    ch_pool_barrier(op->pool);
    ch_op_attend_share(&j->attend, worker, n_workers, work);
}

void ch_op_attn(ch_op *op, const ch_op_attn_args *a) {
    const size_t d = a->d_head, kb = row_bytes(a->k_type, d), vb = row_bytes(a->v_type, d);
    attn_job j = {a, {.n_seg = a->n_seg, .seg = a->seg, .n_head = a->n_head, .n_q = a->n_head / a->n_head_kv, .d_k = d, .d_v = d,
                      .k_type = a->k_type, .v_type = a->v_type, .k_off = a->page_off, .k_unit = CH_KV_PAGE * kb, .k_ld = kb,
                      .v_off = a->page_off + a->n_head_kv * CH_KV_PAGE * kb, .v_unit = CH_KV_PAGE * vb, .v_ld = vb,
                      .scale = a->scale, .v_rot = a->v_rot, .gate = a->gated && a->q ? a->q + d : NULL, .ld_gate = 2 * d, .y = a->y}};
    ch_op_need(op, BUF_ATTN_Q, a->n_row * a->n_head * d * sizeof(float));
    if (!ch_op_attend_need(op, &j.attend)) return;
    j.attend.q = (const float *)op->buf[BUF_ATTN_Q];
    ch_pool_run(op->pool, attn_worker, &j);
}

// ---- compressed cache -----------------------------------------------------------------------------------------------------
enum { HEAD_TILE = 16 }; // heads handled together: all share one key row

typedef struct mla_job {
    const ch_op_mla_args *a;
    ch_op_attend attend;
} mla_job;

size_t ch_op_mla_kv_bytes(size_t d_latent, size_t d_pe, const ch_type_info *type) { return row_bytes(type, d_latent + d_pe); }

// x: d_latent + d_pe floats of room.
static void mla_append(const ch_op *op, const ch_op_mla_args *a, const ch_op_seg *s, size_t i, float *x) {
    const size_t pos = s->pos0 + i, d = a->d_latent + a->d_pe;
    const float *kv = a->kv + (s->row0 + i) * d;
    op->kern.rmsnorm(kv, a->norm, a->d_latent, a->eps, x);
    memcpy(x + a->d_latent, kv + a->d_latent, a->d_pe * sizeof *x);
    if (a->rot) op->kern.rotate(x, d, a->rot, false);
    a->type->encode(x, s->page[pos / CH_KV_PAGE] + a->page_off + pos % CH_KV_PAGE * row_bytes(a->type, d), d);
}

static void mla_worker(void *arg, int worker, int n_workers) {
    const mla_job *j = arg;
    const ch_op_mla_args *a = j->a;
    const ch_op *op = j->attend.op;
    const size_t d = a->d_latent + a->d_pe;
    float *work = worker_part(op, worker), *q = (float *)op->buf[BUF_ATTN_Q];
    size_t b, e;
    for (size_t s = 0; s < a->n_seg; s++) {
        ch_pool_split(a->seg[s].n_row, 1, worker, n_workers, &b, &e);
        for (size_t i = b; i < e; i++) mla_append(op, a, &a->seg[s], i, work);
    }
    if (a->rot) {
        ch_pool_split(a->n_row * a->n_head, 1, worker, n_workers, &b, &e);
        for (size_t i = b; i < e; i++) {
            memcpy(q + i * d, a->q + i * d, d * sizeof *q);
            op->kern.rotate(q + i * d, d, a->rot, false);
        }
    }
    ch_pool_barrier(op->pool);
    ch_op_attend_share(&j->attend, worker, n_workers, work);
}

void ch_op_mla(ch_op *op, const ch_op_mla_args *a) {
    const size_t d = a->d_latent + a->d_pe, kb = row_bytes(a->type, d);
    mla_job j = {a, {.n_seg = a->n_seg, .seg = a->seg, .n_head = a->n_head, .n_q = a->n_head < HEAD_TILE ? a->n_head : HEAD_TILE,
                     .d_k = d, .d_v = a->d_latent, .q = a->q, .k_type = a->type, .v_type = a->type, .k_off = a->page_off, .k_ld = kb,
                     .v_off = a->page_off, .v_ld = kb, .scale = a->scale, .v_rot = a->rot, .y = a->y}};
    if (a->rot) ch_op_need(op, BUF_ATTN_Q, a->n_row * a->n_head * d * sizeof(float));
    if (!ch_op_attend_need(op, &j.attend)) return;
    if (a->rot) j.attend.q = (const float *)op->buf[BUF_ATTN_Q];
    ch_pool_run(op->pool, mla_worker, &j);
}
