// State-space mixers (Mamba-1, Mamba-2) and the depthwise convolution on its own.
#include <string.h>

#include "op/cpu/cpu.h"

static size_t round64(size_t n) { return (n + 63) / 64 * 64; }

// ---- convolution ----------------------------------------------------------------------------------------------------------
typedef struct conv_job {
    const ch_op *op;
    ch_conv_run run;
} conv_job;

size_t ch_op_conv_state_bytes(size_t n_channel, size_t n_tap) { return round64((n_tap - 1) * n_channel * sizeof(float)); }

// Copies columns [c0, c1) of n rows.
static void copy_columns(const float *x, size_t ld_x, size_t n, size_t c0, size_t c1, float *y, size_t ld_y) {
    for (size_t i = 0; i < n; i++) memcpy(y + i * ld_y + c0, x + i * ld_x + c0, (c1 - c0) * sizeof *y);
}

void ch_op_conv_share(const ch_op *op, const ch_conv_run *r, int worker, int n_workers) {
    const ch_op_conv_args *a = r->a;
    size_t b, e, n = a->n_channel;
    ch_pool_split(n, 16, worker, n_workers, &b, &e);
    for (size_t i = 0; i < a->n_seg && b < e; i++) {
        const ch_op_seg *s = &a->seg[i];
        ch_conv_args args = {.n_tok = s->n_row, .n_tap = a->n_tap, .c0 = b, .c1 = e, .x = a->x + s->row0 * n, .ld_x = n, .w = a->w,
                             .bias = a->bias, .n_channel = n, .state = (float *)(s->slab + a->slab_off),
                             .y = a->y + s->row0 * r->ld_y, .ld_y = r->ld_y, .silu = a->silu};
        if (r->commit) {
            args.x = ch_op_seg_journal(s, a->journal_off), args.ld_x = r->journal_row;
        } else if (s->journal) {
            copy_columns(args.x, n, s->n_row, b, e, ch_op_seg_journal(s, a->journal_off), r->journal_row);
            copy_columns(args.state, n, a->n_tap - 1, b, e, r->window, n);
            args.state = r->window;
        }
        op->kern.conv(&args);
    }
}

static void conv_worker(void *arg, int worker, int n_workers) {
    const conv_job *j = arg;
    ch_op_conv_share(j->op, &j->run, worker, n_workers);
}

void ch_op_conv(ch_op *op, const ch_op_conv_args *a) {
    ch_op_need(op, BUF_WINDOW, ch_op_conv_state_bytes(a->n_channel, a->n_tap));
    if (op->dry) return;
    conv_job j = {op, {a, a->n_channel, a->n_channel, false, (float *)op->buf[BUF_WINDOW]}};
    ch_op_run(op, conv_worker, &j, a->n_row * a->n_channel);
}

void ch_op_commit_conv(ch_op *op, const ch_op_conv_args *a) {
    ch_op_need(op, BUF_WINDOW, ch_op_conv_state_bytes(a->n_channel, 2)); // one row of outputs that nobody reads
    if (op->dry) return;
    ch_op_conv_args c = *a;
    c.y = (float *)op->buf[BUF_WINDOW];
    conv_job j = {op, {&c, a->n_channel, 0, true, NULL}};
    ch_op_run(op, conv_worker, &j, a->n_row * a->n_channel);
}

// ---- Mamba-1 --------------------------------------------------------------------------------------------------------------
typedef struct ssm1_job {
    const ch_op *op;
    const ch_op_ssm1_args *a;
    bool commit;
    float *trial; // [d_state][n_channel] states of tentative rows or of a bf16 slab, then a row of outputs that nobody reads
    uint16_t *half; // [d_state][n_channel]: what a bf16 slab would hold behind tentative rows
} ssm1_job;

size_t ch_op_ssm1_state_bytes(size_t n_channel, size_t d_state, bool bf16) { return ch_op_state_size(n_channel * d_state, bf16); }

size_t ch_op_ssm1_journal_row(size_t n_channel, size_t d_state) { return 2 * n_channel + d_state; }

// Notes channels [b, e) of tentative rows.
static void ssm1_note_rows(const ssm1_job *j, const ch_op_seg *s, size_t b, size_t e) {
    const ch_op_ssm1_args *a = j->a;
    size_t ld = a->n_channel, row = ch_op_ssm1_journal_row(ld, a->d_state);
    float *x = ch_op_seg_journal(s, a->journal_off);
    copy_columns(a->x + s->row0 * ld, ld, s->n_row, b, e, x, row);
    copy_columns(a->dt + s->row0 * ld, ld, s->n_row, b, e, x + ld, row);
    if (!b) copy_columns(a->b + s->row0 * a->d_state, a->d_state, s->n_row, 0, a->d_state, x + 2 * ld, row);
}

// Channels [k.c0, k.c1) of the segment's state through its rows; k.state unset. A lane is a channel here, so a share of the
// state is columns of all its rows, not one run of floats as in ch_op_run_state; the rules are the same.
static void ssm1_run_state(const ssm1_job *j, const ch_op_seg *s, ch_ssm1_args k) {
    const ch_kern *kern = &j->op->kern;
    const bool trial = s->journal && !j->commit;
    uint8_t *home = s->slab + j->a->slab_off;
    size_t n = k.c1 - k.c0;
    k.n_tok = s->n_row;
    if (!j->a->form.bf16) {
        k.state = (float *)home;
        if (trial) copy_columns(k.state, k.n_channel, k.d_state, k.c0, k.c1, j->trial, k.n_channel), k.state = j->trial;
        kern->ssm1(&k);
        return;
    }
    uint16_t *half = (uint16_t *)home;
    k.state = j->trial, k.n_tok = 1;
    for (size_t t = 0; t < s->n_row; t++) {
        for (size_t i = k.c0; i < k.d_state * k.n_channel; i += k.n_channel) kern->bf16_load(half + i, n, k.state + i);
        if (trial) half = j->half;
        kern->ssm1(&k);
        for (size_t i = k.c0; i < k.d_state * k.n_channel; i += k.n_channel) kern->bf16_store(k.state + i, n, half + i);
        k.x += k.ld_x, k.dt += k.ld_dt, k.b += k.ld_bc, k.c += k.ld_bc, k.y += k.ld_y;
    }
}

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
        ch_ssm1_args args = {.d_state = a->d_state, .n_channel = ld, .c0 = b, .c1 = e, .a = a->a, .skip = a->skip};
        if (j->commit) {
            args.x = ch_op_seg_journal(s, a->journal_off), args.dt = args.x + ld, args.b = args.c = args.x + 2 * ld;
            args.ld_x = args.ld_dt = args.ld_bc = ch_op_ssm1_journal_row(ld, a->d_state);
            args.y = j->trial + a->d_state * ld, args.ld_y = 0;
            ssm1_run_state(j, s, args);
            continue;
        }
        for (size_t t = row; t < row + s->n_row; t++) k->softplus(a->dt + t * ld + b, NULL, e - b, a->dt + t * ld + b);
        if (s->journal) ssm1_note_rows(j, s, b, e);
        args.x = a->x + row * ld, args.dt = a->dt + row * ld, args.b = a->b + row * a->d_state, args.c = a->c + row * a->d_state;
        args.ld_x = args.ld_dt = args.ld_y = ld, args.ld_bc = a->d_state, args.y = a->y_raw + row * ld;
        ssm1_run_state(j, s, args);
        for (size_t t = row; t < row + s->n_row; t++)
            k->silu_mul(a->y_raw + t * ld + b, a->z + t * ld + b, e - b, a->y + t * ld + b);
    }
}

static void ssm1_run(ch_op *op, const ch_op_ssm1_args *a, bool commit) {
    size_t n_trial = ((a->d_state + 1) * a->n_channel + 15) / 16 * 16;
    ch_op_need(op, BUF_TRIAL, n_trial * sizeof(float) + a->d_state * a->n_channel * sizeof(uint16_t));
    if (op->dry) return;
    float *trial = (float *)op->buf[BUF_TRIAL];
    ch_op_run(op, ssm1_worker, &(ssm1_job){op, a, commit, trial, (uint16_t *)(trial + n_trial)}, a->n_row * a->n_channel * a->d_state);
}

void ch_op_ssm1(ch_op *op, const ch_op_ssm1_args *a) { ssm1_run(op, a, false); }
void ch_op_commit_ssm1(ch_op *op, const ch_op_ssm1_args *a) { ssm1_run(op, a, true); }

// ---- Mamba-2 --------------------------------------------------------------------------------------------------------------
typedef struct ssm2_job {
    const ch_op *op;
    const ch_op_ssm2_args *a;
    ch_op_conv_args conv; // n_channel 0: none
    ch_conv_run conv_run;
    const float *x, *b, *c;
    size_t ld_x, ld_bc, state_off;
    float *dt; // [n_row][n_head] after softplus
    bool commit;
    size_t journal_row, journal_dt; // floats of a journal row, and in it before dt
    float *trial;      // per worker: room for ch_op_run_state, an output row [d_head] that nobody reads, scratch of the chunk form
    size_t trial_part, n_work; // floats per worker, of them for ch_op_run_state
} ssm2_job;

size_t ch_op_ssm2_state_bytes(size_t n_head, size_t d_head, size_t d_state, bool bf16) {
    return ch_op_state_size(n_head * d_head * d_state, bf16);
}

size_t ch_op_ssm2_journal_row(size_t n_head, size_t d_head, size_t n_group, size_t d_state, bool conv) {
    return n_head * d_head + (conv ? 2 : 1) * n_group * d_state + n_head;
}

// Notes a head's tentative rows where the convolution has not done so. The first head of a group notes B for all.
static void ssm2_note_rows(const ssm2_job *j, const ch_op_seg *s, size_t h) {
    const ch_op_ssm2_args *a = j->a;
    size_t di = a->n_head * a->d_head, group = h * a->n_group / a->n_head, bc = a->n_group * a->d_state, off = h * a->d_head;
    float *row = ch_op_seg_journal(s, a->journal_off);
    for (size_t i = 0; i < s->n_row; i++) row[i * j->journal_row + j->journal_dt + h] = j->dt[(s->row0 + i) * a->n_head + h];
    if (a->conv_w) return;
    copy_columns(a->x + s->row0 * di, di, s->n_row, off, off + a->d_head, row, j->journal_row);
    if (!h || (h - 1) * a->n_group / a->n_head != group)
        copy_columns(a->b + s->row0 * bc, bc, s->n_row, group * a->d_state, (group + 1) * a->d_state, row + di, j->journal_row);
}

typedef struct ssm2_head_run {
    const ch_kern *kern;
    ch_ssm2_args args; // of the whole segment, state unset
} ssm2_head_run;

static void ssm2_rows(void *ctx, float *state, size_t from, size_t n, bool chunk) {
    const ssm2_head_run *h = ctx;
    ch_ssm2_args a = h->args;
    a.state = state, a.n_tok = n;
    a.x += from * a.ld_x, a.dt += from * a.ld_dt, a.b += from * a.ld_bc, a.c += from * a.ld_bc, a.y += from * a.ld_y;
    (chunk ? h->kern->ssm2_chunk : h->kern->ssm2)(&a);
}

static void ssm2_head(const ssm2_job *j, const ch_op_seg *s, size_t h, int worker) {
    const ch_op_ssm2_args *a = j->a;
    const ch_kern *k = &j->op->kern;
    size_t di = a->n_head * a->d_head, row = s->row0, group = h * a->n_group / a->n_head, off = h * a->d_head;
    size_t n_state = a->d_head * a->d_state;
    float *work = j->trial + (size_t)worker * j->trial_part, *unread = work + j->n_work;
    ssm2_head_run head = {k, {
        .d_head = a->d_head, .d_state = a->d_state, .x = j->x + row * j->ld_x + off, .dt = j->dt + row * a->n_head + h,
        .b = j->b + row * j->ld_bc + group * a->d_state, .c = j->c + row * j->ld_bc + group * a->d_state, .ld_x = j->ld_x,
        .ld_dt = a->n_head, .ld_bc = j->ld_bc, .a = a->a[h], .skip = a->skip[h], .y = a->y_raw + row * di + off, .ld_y = di,
        .scratch = unread + a->d_head}};
    if (j->commit) {
        const float *noted = ch_op_seg_journal(s, a->journal_off);
        head.args.dt = noted + j->journal_dt + h, head.args.ld_dt = j->journal_row;
        head.args.y = unread, head.args.ld_y = 0;
        if (!a->conv_w) {
            head.args.x = noted + off, head.args.b = head.args.c = noted + di + group * a->d_state;
            head.args.ld_x = head.args.ld_bc = j->journal_row;
        }
    } else if (s->journal) {
        ssm2_note_rows(j, s, h);
    }
    ch_op_run_state(&(ch_state_run){k, s, a->form, j->commit,
                                    s->slab + j->state_off + h * n_state * (a->form.bf16 ? sizeof(uint16_t) : sizeof(float)), n_state, work},
                    ssm2_rows, &head);
    if (j->commit) return;
    for (size_t i = row; i < row + s->n_row; i++)
        k->silu_mul(a->y_raw + i * di + off, a->z + i * di + off, a->d_head, a->y + i * di + off);
}

static void ssm2_worker(void *arg, int worker, int n_workers) {
    const ssm2_job *j = arg;
    const ch_op_ssm2_args *a = j->a;
    const ch_kern *k = &j->op->kern;
    size_t b, e;
    if (a->conv_w) ch_op_conv_share(j->op, &j->conv_run, worker, n_workers);
    ch_pool_split(a->n_row, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e && !j->commit; i++) k->softplus(a->dt + i * a->n_head, a->dt_bias, a->n_head, j->dt + i * a->n_head);
    ch_pool_barrier(j->op->pool);
    // Segments by heads, one list: short segments beside a long one still fill all workers.
    ch_pool_split(a->n_seg * a->n_head, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) ssm2_head(j, &a->seg[i / a->n_head], i % a->n_head, worker);
    if (!a->norm || j->commit) return;
    ch_pool_barrier(j->op->pool);
    size_t n = a->n_head * a->d_head / a->n_group; // values of one norm
    ch_pool_split(a->n_row * a->n_group, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) k->rmsnorm(a->y + i * n, a->norm + i % a->n_group * n, n, a->eps, a->y + i * n);
}

static void ssm2_run(ch_op *op, const ch_op_ssm2_args *a, bool commit) {
    size_t di = a->n_head * a->d_head, bc = a->n_group * a->d_state, n_channel = di + 2 * bc;
    ssm2_job j = {.op = op, .a = a, .x = a->x, .b = a->b, .c = a->c, .ld_x = di, .ld_bc = bc, .state_off = a->slab_off,
                  .commit = commit, .n_work = ch_op_state_work(a->d_head * a->d_state),
                  .journal_row = ch_op_ssm2_journal_row(a->n_head, a->d_head, a->n_group, a->d_state, a->conv_w)};
    j.journal_dt = j.journal_row - a->n_head;
    j.trial_part = (j.n_work + a->d_head + (a->form.chunk ? op->kern.chunk_scratch(a->d_state, a->d_head) : 0) + 15) / 16 * 16;
    ch_op_need(op, BUF_TRIAL, (size_t)ch_pool_size(op->pool) * j.trial_part * sizeof(float));
    if (a->conv_w) {
        ch_op_need(op, BUF_CONV, a->n_row * n_channel * sizeof(float));
        ch_op_need(op, BUF_WINDOW, ch_op_conv_state_bytes(n_channel, a->n_tap));
    }
    ch_op_need(op, BUF_DT, a->n_row * a->n_head * sizeof(float));
    if (op->dry) return;
    j.dt = (float *)op->buf[BUF_DT], j.trial = (float *)op->buf[BUF_TRIAL];
    if (a->conv_w) {
        float *y = (float *)op->buf[BUF_CONV];
        j.conv = (ch_op_conv_args){.n_seg = a->n_seg, .seg = a->seg, .n_row = a->n_row, .n_channel = n_channel, .n_tap = a->n_tap,
                                   .silu = true, .x = a->xbc, .w = a->conv_w, .bias = a->conv_b, .slab_off = a->slab_off,
                                   .journal_off = a->journal_off, .y = y};
        j.conv_run = (ch_conv_run){&j.conv, j.journal_row, n_channel, commit, (float *)op->buf[BUF_WINDOW]};
        j.x = y, j.b = y + di, j.c = y + di + bc, j.ld_x = j.ld_bc = n_channel;
        j.state_off += ch_op_conv_state_bytes(n_channel, a->n_tap);
    }
    ch_pool_run(op->pool, ssm2_worker, &j);
}

void ch_op_ssm2(ch_op *op, const ch_op_ssm2_args *a) { ssm2_run(op, a, false); }
void ch_op_commit_ssm2(ch_op *op, const ch_op_ssm2_args *a) { ssm2_run(op, a, true); }
