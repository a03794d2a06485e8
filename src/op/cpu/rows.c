// Ops on rows and plain products.
#include <string.h>

#include "op/cpu/cpu.h"

// ---- embedding ------------------------------------------------------------------------------------------------------------
typedef struct rows_job {
    const ch_op *op;
    const ch_weight *w;
    const int32_t *id;
    const float *x, *weight;
    float *xs, *y;
    size_t n_row, n;
    float eps; // or the factor of a scaling
} rows_job;

static void get_rows_worker(void *arg, int worker, int n_workers) {
    const rows_job *j = arg;
    size_t b, e, row = j->w->raw_bytes / (j->w->n_out * j->w->n_mat);
    ch_pool_split(j->n_row, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) j->w->type->decode(j->w->raw + (size_t)j->id[i] * row, j->y + i * j->w->n_in, j->w->n_in);
}

void ch_op_get_rows(ch_op *op, const ch_weight *w, const int32_t *id, size_t n_row, float *y) {
    ch_op_lora_refuse(op, w);
    if (op->dry) return;
    ch_op_run(op, get_rows_worker, &(rows_job){.op = op, .w = w, .id = id, .n_row = n_row, .y = y}, n_row * w->n_in);
}

void ch_op_pick_rows(ch_op *op, const float *x, const int32_t *row, size_t n_row, size_t n, float *y) {
    if (op->dry) return;
    for (size_t i = 0; i < n_row; i++) memcpy(y + i * n, x + (size_t)row[i] * n, n * sizeof *y);
}

// ---- norms ----------------------------------------------------------------------------------------------------------------
static void rmsnorm_worker(void *arg, int worker, int n_workers) {
    const rows_job *j = arg;
    size_t b, e;
    ch_pool_split(j->n_row, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) j->op->kern.rmsnorm(j->x + i * j->n, j->weight, j->n, j->eps, j->y + i * j->n);
}

void ch_op_rmsnorm(ch_op *op, const float *x, const float *w, size_t n_row, size_t n, float eps, float *y) {
    if (op->dry) return;
    ch_op_run(op, rmsnorm_worker, &(rows_job){.op = op, .x = x, .weight = w, .n_row = n_row, .n = n, .eps = eps, .y = y},
              n_row * n);
}

static void add_rmsnorm_worker(void *arg, int worker, int n_workers) {
    const rows_job *j = arg;
    size_t b, e;
    ch_pool_split(j->n_row, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) {
        j->op->kern.add(j->x + i * j->n, j->n, j->xs + i * j->n);
        if (j->y) j->op->kern.rmsnorm(j->xs + i * j->n, j->weight, j->n, j->eps, j->y + i * j->n);
    }
}

void ch_op_add_rmsnorm(ch_op *op, const float *m, const float *w, size_t n_row, size_t n, float eps, float *x, float *y) {
    if (op->dry) return;
    ch_op_run(op, add_rmsnorm_worker,
              &(rows_job){.op = op, .x = m, .weight = w, .n_row = n_row, .n = n, .eps = eps, .xs = x, .y = y}, n_row * n);
}

static void swiglu_worker(void *arg, int worker, int n_workers) {
    const rows_job *j = arg;
    size_t b, e;
    ch_pool_split(j->n_row * j->n, 64, worker, n_workers, &b, &e);
    if (b < e) j->op->kern.swiglu(j->x + b, j->weight + b, e - b, j->y + b);
}

void ch_op_swiglu(ch_op *op, const float *gate, const float *up, size_t n_row, size_t n, float *y) {
    if (op->dry) return;
    ch_op_run(op, swiglu_worker, &(rows_job){.op = op, .x = gate, .weight = up, .n_row = n_row, .n = n, .y = y}, n_row * n);
}

static void multiply_worker(void *arg, int worker, int n_workers) {
    const rows_job *j = arg;
    size_t b, e;
    ch_pool_split(j->n_row * j->n, 64, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) j->y[i] *= j->x[i];
}

void ch_op_multiply(ch_op *op, const float *x, size_t n_row, size_t n, float *y) {
    if (op->dry) return;
    ch_op_run(op, multiply_worker, &(rows_job){.op = op, .x = x, .n_row = n_row, .n = n, .y = y}, n_row * n);
}

static void relu2_worker(void *arg, int worker, int n_workers) {
    const rows_job *j = arg;
    size_t b, e;
    ch_pool_split(j->n_row * j->n, 64, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) j->y[i] = j->y[i] > 0 ? j->y[i] * j->y[i] : 0.0f;
}

void ch_op_relu2(ch_op *op, size_t n_row, size_t n, float *x) {
    if (op->dry) return;
    ch_op_run(op, relu2_worker, &(rows_job){.op = op, .n_row = n_row, .n = n, .y = x}, n_row * n);
}

static void scale_worker(void *arg, int worker, int n_workers) {
    const rows_job *j = arg;
    size_t b, e;
    ch_pool_split(j->n_row * j->n, 64, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) j->y[i] *= j->eps;
}

void ch_op_scale(ch_op *op, float f, size_t n_row, size_t n, float *x) {
    if (op->dry || f == 1.0f) return;
    ch_op_run(op, scale_worker, &(rows_job){.op = op, .n_row = n_row, .n = n, .eps = f, .y = x}, n_row * n);
}

// ---- products -------------------------------------------------------------------------------------------------------------
typedef struct mul_job {
    ch_op *op;
    const ch_op_mul *mul;
    size_t n_mul, n_row;
    const float *x;
    bool want[CH_ACT_N]; // kinds of activations that some matrix asks for
    size_t ld[CH_ACT_N]; // bytes of a row
    size_t rank;         // of all adapters; [n_row][rank] in BUF_LORA
} mul_job;

static uint8_t *act_buf(const ch_op *op, int kind) { return op->buf[BUF_ACT + kind - 1]; }

// This worker's share of the adapters' inner values.
static void project(const mul_job *j, int worker, int n_workers) {
    const size_t n_in = j->mul[0].w->n_in;
    float *low = (float *)j->op->buf[BUF_LORA];
    size_t b, e;
    ch_pool_split(j->n_row * j->rank, 1, worker, n_workers, &b, &e);
    while (b < e) {
        size_t row = b / j->rank, k = b % j->rank, i = 0;
        while (k >= ch_op_lora_rank(j->mul[i].w)) k -= ch_op_lora_rank(j->mul[i++].w);
        const size_t rank = ch_op_lora_rank(j->mul[i].w), n = rank - k < e - b ? rank - k : e - b;
        ch_op_lora_project(j->op, j->mul[i].w, 0, k, k + n, j->x + row * n_in, low + b - k);
        b += n;
    }
}

// Outputs r0..r1 of one matrix for all rows, with bias and factor.
static void mul_rows(ch_op *op, const ch_op_mul *mul, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_row,
                     void *work) {
    const ch_weight *w = mul->w;
    size_t ld = mul->ld_y ? mul->ld_y : w->n_out;
    op->kern.matmul(&w->mat[0], r0, r1, act, ld_act, n_row, mul->y, ld, work);
    if (!w->bias && !w->factor) return;
    float f = w->factor ? w->factor[0] : 1.0f;
    for (size_t t = 0; t < n_row; t++)
        for (size_t r = r0; r < r1; r++) {
            float *y = &mul->y[t * ld + r];
            *y = *y * f + (w->bias ? w->bias[r] : 0.0f);
        }
}

static void mul_worker(void *arg, int worker, int n_workers) {
    mul_job *j = arg;
    ch_op *op = j->op;
    size_t n_in = j->mul[0].w->n_in, b, e;
    ch_pool_split(j->n_row, 1, worker, n_workers, &b, &e);
    bool packed = j->rank > 0;
    if (packed) project(j, worker, n_workers);
    for (int kind = 1; kind < CH_ACT_N; kind++) {
        if (!j->want[kind]) continue;
        packed = true;
        for (size_t i = b; i < e; i++) op->kern.act_pack(kind, j->x + i * n_in, n_in, act_buf(op, kind) + i * j->ld[kind]);
    }
    if (packed) ch_pool_barrier(op->pool);
    size_t total = 0, seen = 0, rank = 0;
    for (size_t i = 0; i < j->n_mul; i++) total += (j->mul[i].w->n_out + CH_MAT_GRAIN - 1) / CH_MAT_GRAIN;
    ch_pool_split(total, 1, worker, n_workers, &b, &e);
    void *work = op->buf[BUF_WORK] + (size_t)worker * op->work_part;
    for (size_t i = 0; i < j->n_mul && seen < e; i++) {
        const ch_weight *w = j->mul[i].w;
        size_t grains = (w->n_out + CH_MAT_GRAIN - 1) / CH_MAT_GRAIN, g0 = b > seen ? b - seen : 0;
        size_t g1 = e - seen < grains ? e - seen : grains;
        int kind = op->kern.act_kind(w->type, w->n_in);
        size_t r0 = g0 * CH_MAT_GRAIN, r1 = g1 * CH_MAT_GRAIN < w->n_out ? g1 * CH_MAT_GRAIN : w->n_out;
        if (g0 < g1)
            mul_rows(op, &j->mul[i], r0, r1, kind ? (const void *)act_buf(op, kind) : j->x, kind ? j->ld[kind] : n_in * sizeof(float), j->n_row,
                     work);
        if (g0 < g1 && w->lora)
            ch_op_lora_add(op, w, &(ch_op_lora_rows){.r0 = r0, .r1 = r1, .n_row = j->n_row, .low = (float *)op->buf[BUF_LORA] + rank,
                                                     .ld_low = j->rank, .y = j->mul[i].y, .ld_y = j->mul[i].ld_y ? j->mul[i].ld_y : w->n_out});
        seen += grains, rank += ch_op_lora_rank(w);
    }
}

void ch_op_matmul(ch_op *op, const ch_op_mul *mul, size_t n_mul, const float *x, size_t n_row) {
    mul_job j = {.op = op, .mul = mul, .n_mul = n_mul, .n_row = n_row, .x = x};
    for (size_t i = 0; i < n_mul; i++) {
        CH_ASSERT(mul[i].w->n_in == mul[0].w->n_in);
        size_t work = op->kern.mat_work_bytes(mul[i].w->type, mul[i].w->n_in);
        if (op->dry && work > op->work_part) op->work_part = work;
        j.want[op->kern.act_kind(mul[i].w->type, mul[i].w->n_in)] = true;
        j.rank += ch_op_lora_rank(mul[i].w);
    }
    ch_op_need(op, BUF_LORA, n_row * j.rank * sizeof(float));
    for (int kind = 1; kind < CH_ACT_N; kind++) {
        if (!j.want[kind]) continue;
        j.ld[kind] = op->kern.act_bytes(kind, mul[0].w->n_in);
        ch_op_need(op, BUF_ACT + kind - 1, n_row * j.ld[kind]);
    }
    if (op->dry) {
        size_t total = 0, first = 0;
        for (size_t i = 0; i < n_mul; i++) total += (mul[i].w->n_out + CH_MAT_GRAIN - 1) / CH_MAT_GRAIN;
        for (size_t i = 0; i < n_mul; i++) {
            ch_op_note_share(op, mul[i].w, first, total);
            first += (mul[i].w->n_out + CH_MAT_GRAIN - 1) / CH_MAT_GRAIN;
        }
        return;
    }
    for (size_t i = 0; i < n_mul; i++) ch_op_count(op, mul[i].w, 1, n_row);
    ch_pool_run(op->pool, mul_worker, &j);
}

// ---- one matrix per head --------------------------------------------------------------------------------------------------
typedef struct heads_job {
    ch_op *op;
    const ch_op_heads *a;
    size_t n_row, ld_act;
    int kind; // CH_ACT_*
} heads_job;

// Packed rows lie head by head: [n_head][n_row].
static void heads_worker(void *arg, int worker, int n_workers) {
    const heads_job *j = arg;
    const ch_op_heads *a = j->a;
    const ch_weight *w = a->w;
    size_t b, e, grains = (w->n_out + CH_MAT_GRAIN - 1) / CH_MAT_GRAIN;
    uint8_t *act = j->kind == CH_ACT_F32 ? NULL : act_buf(j->op, j->kind);
    if (act) {
        ch_pool_split(w->n_mat * j->n_row, 1, worker, n_workers, &b, &e);
        for (size_t i = b; i < e; i++)
            j->op->kern.act_pack(j->kind, a->x + i % j->n_row * a->ld_x + i / j->n_row * a->head_x, w->n_in, act + i * j->ld_act);
        ch_pool_barrier(j->op->pool);
    }
    void *work = j->op->buf[BUF_WORK] + (size_t)worker * j->op->work_part;
    ch_pool_split(w->n_mat * grains, 1, worker, n_workers, &b, &e);
    while (b < e) {
        size_t h = b / grains, g0 = b % grains, g1 = g0 + (e - b) < grains ? g0 + (e - b) : grains;
        const void *x = act ? (const void *)(act + h * j->n_row * j->ld_act) : (const void *)(a->x + h * a->head_x);
        j->op->kern.matmul(&w->mat[h], g0 * CH_MAT_GRAIN, g1 * CH_MAT_GRAIN < w->n_out ? g1 * CH_MAT_GRAIN : w->n_out, x,
                           act ? j->ld_act : a->ld_x * sizeof(float), j->n_row, a->y + h * a->head_y, a->ld_y, work);
        b += g1 - g0;
    }
}

void ch_op_matmul_heads(ch_op *op, const ch_op_heads *a, size_t n_row) {
    heads_job j = {.op = op, .a = a, .n_row = n_row, .kind = op->kern.act_kind(a->w->type, a->w->n_in)};
    size_t work = op->kern.mat_work_bytes(a->w->type, a->w->n_in);
    ch_op_lora_refuse(op, a->w);
    if (op->dry && work > op->work_part) op->work_part = work;
    if (j.kind != CH_ACT_F32) {
        j.ld_act = op->kern.act_bytes(j.kind, a->w->n_in);
        ch_op_need(op, BUF_ACT + j.kind - 1, a->w->n_mat * n_row * j.ld_act);
    }
    if (op->dry) return;
    ch_op_count(op, a->w, a->w->n_mat, a->w->n_mat * n_row);
    ch_pool_run(op->pool, heads_worker, &j);
}

void ch_op_copy_heads(ch_op *op, const float *x, size_t ld_x, size_t n, size_t n_col, size_t ld_y, float *y) {
    if (op->dry) return;
    for (size_t i = 0; i < n; i++) memcpy(y + i * ld_y, x + i * ld_x, n_col * sizeof *y);
}

void ch_op_shift_rows(ch_op *op, const ch_op_shift_args *a) {
    if (op->dry) return;
    size_t n = a->n;
    for (const ch_op_seg *s = a->seg; s < a->seg + a->n_seg; s++) {
        float *kept = (float *)(s->slab + a->slab_off), *y = a->y + s->row0 * n;
        const float *x = a->x + s->row0 * n;
        memcpy(y, kept, n * sizeof *y); // a new slab is zero
        memcpy(y + n, x, (s->n_row - 1) * n * sizeof *y);
        if (s->journal)
            memcpy(ch_op_seg_journal(s, a->journal_off), x, s->n_row * n * sizeof *x);
        else
            memcpy(kept, x + (s->n_row - 1) * n, n * sizeof *kept);
    }
}

void ch_op_commit_shift(ch_op *op, const ch_op_shift_args *a) {
    if (op->dry) return;
    for (const ch_op_seg *s = a->seg; s < a->seg + a->n_seg; s++)
        memcpy(s->slab + a->slab_off, ch_op_seg_journal(s, a->journal_off) + (s->n_row - 1) * a->n, a->n * sizeof(float));
}

void ch_op_slab_rows(ch_op *op, const ch_op_seg *seg, size_t n_seg, size_t slab_off, size_t n, float *y) {
    if (op->dry) return;
    for (size_t s = 0; s < n_seg; s++) memcpy(y + seg[s].row0 * n, seg[s].slab + slab_off, n * sizeof *y);
}
