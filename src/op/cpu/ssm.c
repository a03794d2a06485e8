// State-space mixers (Mamba-1, Mamba-2) and the depthwise convolution on its own.
#include "op/cpu/cpu.h"

static size_t round64(size_t n) { return (n + 63) / 64 * 64; }

// ---- convolution ----------------------------------------------------------------------------------------------------------
typedef struct conv_job {
    const ch_op *op;
    const ch_op_conv_args *a;
} conv_job;

size_t ch_op_conv_state_bytes(size_t n_channel, size_t n_tap) { return round64((n_tap - 1) * n_channel * sizeof(float)); }

// This worker's channels of every segment.
static void conv_share(const ch_op *op, const ch_op_conv_args *a, int worker, int n_workers) {
    size_t b, e;
    ch_pool_split(a->n_channel, 16, worker, n_workers, &b, &e);
    for (size_t i = 0; i < a->n_seg && b < e; i++) {
        const ch_op_seg *s = &a->seg[i];
        op->kern.conv(&(ch_conv_args){
            .n_tok = s->n_row, .n_tap = a->n_tap, .c0 = b, .c1 = e, .x = a->x + s->row0 * a->n_channel, .ld_x = a->n_channel,
            .w = a->w, .bias = a->bias, .n_channel = a->n_channel, .state = (float *)(s->slab + a->slab_off),
            .y = a->y + s->row0 * a->n_channel, .ld_y = a->n_channel, .silu = a->silu});
    }
}

static void conv_worker(void *arg, int worker, int n_workers) {
    const conv_job *j = arg;
    conv_share(j->op, j->a, worker, n_workers);
}

void ch_op_conv(ch_op *op, const ch_op_conv_args *a) {
    if (op->dry) return;
    ch_op_run(op, conv_worker, &(conv_job){op, a}, a->n_row * a->n_channel);
}

// ---- Mamba-1 --------------------------------------------------------------------------------------------------------------
typedef struct ssm1_job {
    const ch_op *op;
    const ch_op_ssm1_args *a;
} ssm1_job;

size_t ch_op_ssm1_state_bytes(size_t n_channel, size_t d_state) { return round64(n_channel * d_state * sizeof(float)); }

// Channels are independent of each other from the steps to the gate, so no worker waits for another.
static void ssm1_worker(void *arg, int worker, int n_workers) {
    const ssm1_job *j = arg;
    const ch_op_ssm1_args *a = j->a;
    const ch_kern *k = &j->op->kern;
    size_t b, e, ld = a->n_channel;
    ch_pool_split(ld, 16, worker, n_workers, &b, &e);
    if (b >= e) return;
    for (size_t i = 0; i < a->n_seg; i++) {
        const ch_op_seg *s = &a->seg[i];
        size_t row = s->row0;
        for (size_t t = row; t < row + s->n_row; t++) k->softplus(a->dt + t * ld + b, NULL, e - b, a->dt + t * ld + b);
        k->ssm1(&(ch_ssm1_args){
            .n_tok = s->n_row, .d_state = a->d_state, .n_channel = ld, .c0 = b, .c1 = e, .x = a->x + row * ld,
            .dt = a->dt + row * ld, .ld_x = ld, .ld_dt = ld, .b = a->b + row * a->d_state, .c = a->c + row * a->d_state,
            .ld_bc = a->d_state, .a = a->a, .skip = a->skip, .state = (float *)(s->slab + a->slab_off),
            .y = a->y_raw + row * ld, .ld_y = ld});
        for (size_t t = row; t < row + s->n_row; t++)
            k->silu_mul(a->y_raw + t * ld + b, a->z + t * ld + b, e - b, a->y + t * ld + b);
    }
}

void ch_op_ssm1(ch_op *op, const ch_op_ssm1_args *a) {
    if (op->dry) return;
    ch_op_run(op, ssm1_worker, &(ssm1_job){op, a}, a->n_row * a->n_channel * a->d_state);
}

// ---- Mamba-2 --------------------------------------------------------------------------------------------------------------
typedef struct ssm2_job {
    const ch_op *op;
    const ch_op_ssm2_args *a;
    ch_op_conv_args conv; // n_channel 0: none
    const float *x, *b, *c;
    size_t ld_x, ld_bc, state_off;
    float *dt; // [n_row][n_head] after softplus
} ssm2_job;

size_t ch_op_ssm2_state_bytes(size_t n_head, size_t d_head, size_t d_state) {
    return round64(n_head * d_head * d_state * sizeof(float));
}

static void ssm2_head(const ssm2_job *j, const ch_op_seg *s, size_t h) {
    const ch_op_ssm2_args *a = j->a;
    const ch_kern *k = &j->op->kern;
    size_t di = a->n_head * a->d_head, row = s->row0, group = h * a->n_group / a->n_head, off = h * a->d_head;
    k->ssm2(&(ch_ssm2_args){
        .n_tok = s->n_row, .d_head = a->d_head, .d_state = a->d_state, .x = j->x + row * j->ld_x + off,
        .dt = j->dt + row * a->n_head + h, .b = j->b + row * j->ld_bc + group * a->d_state,
        .c = j->c + row * j->ld_bc + group * a->d_state, .ld_x = j->ld_x, .ld_dt = a->n_head, .ld_bc = j->ld_bc, .a = a->a[h],
        .skip = a->skip[h], .state = (float *)(s->slab + j->state_off) + off * a->d_state, .y = a->y_raw + row * di + off,
        .ld_y = di});
    for (size_t i = row; i < row + s->n_row; i++)
        k->silu_mul(a->y_raw + i * di + off, a->z + i * di + off, a->d_head, a->y + i * di + off);
}

static void ssm2_worker(void *arg, int worker, int n_workers) {
    const ssm2_job *j = arg;
    const ch_op_ssm2_args *a = j->a;
    const ch_kern *k = &j->op->kern;
    size_t b, e;
    if (a->conv_w) conv_share(j->op, &j->conv, worker, n_workers);
    ch_pool_split(a->n_row, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) k->softplus(a->dt + i * a->n_head, a->dt_bias, a->n_head, j->dt + i * a->n_head);
    ch_pool_barrier(j->op->pool);
    // Segments by heads, one list: short segments beside a long one still fill all workers.
    ch_pool_split(a->n_seg * a->n_head, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) ssm2_head(j, &a->seg[i / a->n_head], i % a->n_head);
    if (!a->norm) return;
    ch_pool_barrier(j->op->pool);
    size_t n = a->n_head * a->d_head / a->n_group; // values of one norm
    ch_pool_split(a->n_row * a->n_group, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) k->rmsnorm(a->y + i * n, a->norm + i % a->n_group * n, n, a->eps, a->y + i * n);
}

void ch_op_ssm2(ch_op *op, const ch_op_ssm2_args *a) {
    size_t di = a->n_head * a->d_head, bc = a->n_group * a->d_state, n_channel = di + 2 * bc;
    ssm2_job j = {.op = op, .a = a, .x = a->x, .b = a->b, .c = a->c, .ld_x = di, .ld_bc = bc, .state_off = a->slab_off};
    if (a->conv_w) ch_op_need(op, BUF_CONV, a->n_row * n_channel * sizeof(float));
    ch_op_need(op, BUF_DT, a->n_row * a->n_head * sizeof(float));
    if (op->dry) return;
    j.dt = (float *)op->buf[BUF_DT];
    if (a->conv_w) {
        float *y = (float *)op->buf[BUF_CONV];
        j.conv = (ch_op_conv_args){.n_seg = a->n_seg, .seg = a->seg, .n_row = a->n_row, .n_channel = n_channel, .n_tap = a->n_tap,
                                   .silu = true, .x = a->xbc, .w = a->conv_w, .bias = a->conv_b, .slab_off = a->slab_off, .y = y};
        j.x = y, j.b = y + di, j.c = y + di + bc, j.ld_x = j.ld_bc = n_channel;
        j.state_off += ch_op_conv_state_bytes(n_channel, a->n_tap);
    }
    ch_pool_run(op->pool, ssm2_worker, &j);
}
