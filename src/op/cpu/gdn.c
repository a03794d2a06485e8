// Gated delta net between its projections, in one parallel region: convolution over channels, then heads.
#include <math.h>
#include <string.h>

#include "op/cpu/cpu.h"

// Floor inside the root of the L2 norm of q and k (architectures.md 1.1).
static const float l2_eps = 1e-6f;

typedef struct gdn_job {
    ch_op *op;
    const ch_op_gdn_args *a;
    size_t n_channel;
    ch_op_conv_args conv_args;
    ch_conv_run conv_run;
    float *conv; // [n_row][n_channel]
    float *beta, *g; // [n_row][n_head_v]; kda: g is [n_row][n_head_k * d_k]
    float *q, *k; // [n_row][n_head_k * d_k], normalised
    bool commit;
    size_t journal_row; // floats: [n_channel] inputs of the convolution, [n_head_v] beta, g
    float *trial;       // per worker: room for ch_op_run_state, an output row [d_v] that nobody reads, scratch of the chunk form
    size_t trial_part, n_work; // floats per worker, of them for ch_op_run_state
} gdn_job;

static size_t channels(size_t n_head_k, size_t n_head_v, size_t d_k, size_t d_v) {
    return 2 * n_head_k * d_k + n_head_v * d_v;
}

static size_t conv_bytes(size_t n_channel, size_t n_tap) {
    return ((n_tap - 1) * n_channel * sizeof(float) + 63) / 64 * 64;
}

size_t ch_op_gdn_state_bytes(size_t n_head_k, size_t n_head_v, size_t d_k, size_t d_v, size_t n_tap, bool bf16) {
    return conv_bytes(channels(n_head_k, n_head_v, d_k, d_v), n_tap) + ch_op_state_size(n_head_v * d_v * d_k, bf16);
}

size_t ch_op_gdn_journal_row(size_t n_head_k, size_t n_head_v, size_t d_k, size_t d_v, bool kda) {
    return channels(n_head_k, n_head_v, d_k, d_v) + n_head_v + (kda ? n_head_k * d_k : n_head_v);
}

// Neither overflows nor loses small values.
static float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// Decay and step of every value head of one row (Q6, D3).
static void gates_of_row(const gdn_job *j, size_t row) {
    const ch_op_gdn_args *a = j->a;
    size_t r = a->n_head_v / a->n_head_k, kd = a->n_head_k * a->d_k;
    if (a->kda) {
        for (size_t h = 0; h < a->n_head_v; h++) j->beta[row * a->n_head_v + h] = 1.0f / (1.0f + expf(-a->beta[row * a->n_head_v + h]));
        for (size_t i = 0; i < kd; i++) j->g[row * kd + i] = a->a[i / a->d_k] * softplus(a->alpha[row * kd + i] + a->dt_bias[i]);
        return;
    }
    for (size_t h = 0; h < a->n_head_v; h++) {
        float b, al;
        if (a->interleaved) {
            const float *group = a->beta + row * 2 * a->n_head_v + h / r * 2 * r;
            b = group[h % r], al = group[r + h % r];
        } else {
            b = a->beta[row * a->n_head_v + h], al = a->alpha[row * a->n_head_v + h];
        }
        j->beta[row * a->n_head_v + h] = 1.0f / (1.0f + expf(-b));
        j->g[row * a->n_head_v + h] = a->a[h] * softplus(al + a->dt_bias[h]);
    }
}

// L2-normalised q (scaled by 1/sqrt(d_k)) and k of one row.
static void norms_of_row(const gdn_job *j, size_t row) {
    const ch_op_gdn_args *a = j->a;
    size_t kd = a->n_head_k * a->d_k;
    const float *c = j->conv + row * j->n_channel;
    for (size_t h = 0; h < a->n_head_k; h++) {
        size_t off = h * a->d_k;
        j->op->kern.l2norm(c + off, a->d_k, l2_eps, 1.0f / sqrtf((float)a->d_k), j->q + row * kd + off);
        j->op->kern.l2norm(c + kd + off, a->d_k, l2_eps, 1.0f, j->k + row * kd + off);
    }
}

// Notes beta and decay of a head's tentative rows.
static void note_rows(const gdn_job *j, const ch_op_seg *s, size_t h, size_t kh) {
    const ch_op_gdn_args *a = j->a;
    float *row = ch_op_seg_journal(s, a->journal_off) + j->n_channel;
    for (size_t i = s->row0; i < s->row0 + s->n_row; i++, row += j->journal_row) {
        row[h] = j->beta[i * a->n_head_v + h];
        if (a->kda)
            memcpy(row + a->n_head_v + kh * a->d_k, j->g + (i * a->n_head_k + kh) * a->d_k, a->d_k * sizeof *row);
        else
            row[a->n_head_v + h] = j->g[i * a->n_head_v + h];
    }
}

typedef struct gdn_head {
    const ch_kern *kern;
    ch_gdn_args args; // of the whole segment, state unset
    bool kda;
} gdn_head;

static void head_rows(void *ctx, float *state, size_t from, size_t n, bool chunk) {
    const gdn_head *h = ctx;
    ch_gdn_args a = h->args;
    a.state = state, a.n_tok = n;
    a.q += from * a.ld_qk, a.k += from * a.ld_qk, a.v += from * a.ld_v, a.out += from * a.ld_out;
    a.beta += from * a.ld_bg, a.g += from * (h->kda ? a.ld_g : a.ld_bg);
    if (h->kda)
        (chunk ? h->kern->kda_chunk : h->kern->kda)(&a);
    else
        (chunk ? h->kern->gdn_chunk : h->kern->gdn)(&a);
}

static void run_head(const gdn_job *j, const ch_op_seg *s, size_t h, int worker) {
    const ch_op_gdn_args *a = j->a;
    size_t kd = a->n_head_k * a->d_k, vd = a->n_head_v * a->d_v, row = s->row0, n_state = a->d_v * a->d_k;
    size_t kh = a->tiled ? h % a->n_head_k : h / (a->n_head_v / a->n_head_k);
    float *work = j->trial + (size_t)worker * j->trial_part, *unread = work + j->n_work;
    gdn_head head = {.kern = &j->op->kern, .kda = a->kda, .args = {
        .d_k = a->d_k, .d_v = a->d_v, .q = j->q + row * kd + kh * a->d_k, .k = j->k + row * kd + kh * a->d_k,
        .v = j->conv + row * j->n_channel + 2 * kd + h * a->d_v, .beta = j->beta + row * a->n_head_v + h,
        .g = a->kda ? j->g + row * kd + kh * a->d_k : j->g + row * a->n_head_v + h, .ld_qk = kd, .ld_v = j->n_channel,
        .ld_bg = a->n_head_v, .out = a->o_raw + row * vd + h * a->d_v, .ld_out = vd, .ld_g = kd, .scratch = unread + a->d_v}};
    if (j->commit) {
        const float *noted = ch_op_seg_journal(s, a->journal_off) + j->n_channel;
        head.args.beta = noted + h, head.args.g = noted + a->n_head_v + (a->kda ? kh * a->d_k : h);
        head.args.ld_bg = head.args.ld_g = j->journal_row;
        head.args.out = unread, head.args.ld_out = 0;
    } else if (s->journal) {
        note_rows(j, s, h, kh);
    }
    uint8_t *states = s->slab + a->slab_off + conv_bytes(j->n_channel, a->n_tap);
    ch_op_run_state(&(ch_state_run){&j->op->kern, s, a->form, j->commit,
                                    states + h * n_state * (a->form.bf16 ? sizeof(uint16_t) : sizeof(float)), n_state, work},
                    head_rows, &head);
    if (j->commit) return;
    for (size_t i = 0; i < s->n_row; i++) {
        size_t off = (row + i) * vd + h * a->d_v;
        j->op->kern.rmsnorm(a->o_raw + off, a->norm, a->d_v, a->eps, a->y + off);
        (a->kda ? j->op->kern.sigmoid_mul : j->op->kern.silu_mul)(a->y + off, a->z + off, a->d_v, a->y + off);
    }
}

static void gdn_worker(void *arg, int worker, int n_workers) {
    gdn_job *j = arg;
    const ch_op_gdn_args *a = j->a;
    size_t b, e;
    ch_op_conv_share(j->op, &j->conv_run, worker, n_workers);
    ch_pool_split(a->n_row, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e && !j->commit; i++) gates_of_row(j, i);
    ch_pool_barrier(j->op->pool);
    for (size_t i = b; i < e; i++) norms_of_row(j, i);
    ch_pool_barrier(j->op->pool);
    // Segments by heads, one list: short segments beside a long one still fill all workers.
    ch_pool_split(a->n_seg * a->n_head_v, 1, worker, n_workers, &b, &e);
    for (size_t i = b; i < e; i++) run_head(j, &a->seg[i / a->n_head_v], i % a->n_head_v, worker);
}

static void run(ch_op *op, const ch_op_gdn_args *a, bool commit) {
    gdn_job j = {.op = op, .a = a, .n_channel = channels(a->n_head_k, a->n_head_v, a->d_k, a->d_v), .commit = commit,
                 .journal_row = ch_op_gdn_journal_row(a->n_head_k, a->n_head_v, a->d_k, a->d_v, a->kda),
                 .n_work = ch_op_state_work(a->d_v * a->d_k)};
    j.trial_part = (j.n_work + a->d_v + (a->form.chunk ? op->kern.chunk_scratch(a->d_k, a->d_v) : 0) + 15) / 16 * 16;
    size_t kd = a->n_head_k * a->d_k;
    ch_op_need(op, BUF_WINDOW, conv_bytes(j.n_channel, a->n_tap));
    ch_op_need(op, BUF_TRIAL, (size_t)ch_pool_size(op->pool) * j.trial_part * sizeof(float));
    ch_op_need(op, BUF_CONV, a->n_row * j.n_channel * sizeof(float));
    ch_op_need(op, BUF_GATES, a->n_row * (a->n_head_v + (a->kda ? kd : a->n_head_v)) * sizeof(float));
    ch_op_need(op, BUF_QK, a->n_row * kd * 2 * sizeof(float));
    if (op->dry) return;
    j.conv = (float *)op->buf[BUF_CONV];
    j.beta = (float *)op->buf[BUF_GATES], j.g = j.beta + a->n_row * a->n_head_v;
    j.q = (float *)op->buf[BUF_QK], j.k = j.q + a->n_row * kd;
    j.trial = (float *)op->buf[BUF_TRIAL];
    j.conv_args = (ch_op_conv_args){.n_seg = a->n_seg, .seg = a->seg, .n_row = a->n_row, .n_channel = j.n_channel, .n_tap = a->n_tap,
                                    .silu = true, .x = a->qkv, .w = a->conv_w, .slab_off = a->slab_off,
                                    .journal_off = a->journal_off, .y = j.conv};
    j.conv_run = (ch_conv_run){&j.conv_args, j.journal_row, j.n_channel, commit, (float *)op->buf[BUF_WINDOW]};
    ch_pool_run(op->pool, gdn_worker, &j);
}

void ch_op_gdn(ch_op *op, const ch_op_gdn_args *a) { run(op, a, false); }
void ch_op_commit_gdn(ch_op *op, const ch_op_gdn_args *a) { run(op, a, true); }
