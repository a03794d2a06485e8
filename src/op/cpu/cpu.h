// Private to the CPU backend: what a ch_op is.
#ifndef CH_OP_CPU_H
#define CH_OP_CPU_H

#include "kern/kern.h"
#include "op/op.h"

// A named buffer that grows during a dry run and is allocated once at its end.
enum {
    BUF_SCRATCH,  // step scratch (stack)
    BUF_ACT,      // packed activations of matmul inputs: one buffer for each kind CH_ACT_Q8, CH_ACT_Q16
    BUF_ACT_LAST = BUF_ACT + CH_ACT_N - 2,
    BUF_WORK,     // kernel scratch, one part per worker
    BUF_ATTN_Q,   // queries as the keys are: normed, rotated
    BUF_ATTN_PART, // parts of rows whose ranges are spread over the workers
    BUF_ATTN_WORK, // attention scratch, one part per worker
    BUF_CONV,     // convolution output
    BUF_GATES,    // beta and decay per row and value head
    BUF_DT,       // steps of state-space heads
    BUF_QK,       // normalised q and k per row and key head
    BUF_WINDOW,   // convolution windows of tentative rows, and an output row that nobody reads
    BUF_TRIAL,    // states of tentative rows, one head per worker
    BUF_MOE,      // everything of a MoE call
    BUF_LORA,     // rows between the matrices of adapters
    BUF_N
};

// Products that run as one split their rows over the workers as one: where a matrix's grains lie among theirs.
typedef struct ch_op_share {
    const ch_weight *w;
    size_t first, total; // grains
} ch_op_share;

struct ch_op {
    ch_kern kern;
    ch_kern_peak peak;
    const char *best_tier;
    ch_pool *pool;
    bool dry;
    size_t need[BUF_N]; // bytes, maximum over the dry run
    uint8_t *buf[BUF_N];
    size_t scratch_used; // bytes of BUF_SCRATCH in use
    size_t work_part, attn_part; // bytes per worker in BUF_WORK, BUF_ATTN_WORK
    ch_op_counts counts;
    ch_op_share *share; // [n_share], noted in the dry run
    size_t n_share, cap_share;
    const ch_weight *refused; // has adapters where they cannot be added
};

// Rows smaller than this (floats in all) are done by the caller alone: waking workers costs more than the work.
enum { SMALL_OP = 16384 };

void ch_op_note_share(ch_op *op, const ch_weight *w, size_t first, size_t total); // dry run

// In a dry run notes the size and returns false. In a real run returns true (the buffer is there).
bool ch_op_need(ch_op *op, int buf, size_t bytes);
// This layer's journal rows of a segment.
static inline float *ch_op_seg_journal(const ch_op_seg *s, size_t journal_off) { return s->journal + s->n_journal * journal_off; }

// One worker's channels of the convolution of all segments. Tentative rows run on a copy of the window and are noted in the
// first n_channel floats of their journal rows. commit: the rows come from there, and the window advances.
typedef struct ch_conv_run {
    const ch_op_conv_args *a;
    size_t journal_row; // floats between journal rows of this layer
    size_t ld_y;        // 0: nobody reads y
    bool commit;
    float *window;      // [n_tap-1][n_channel]
} ch_conv_run;
void ch_op_conv_share(const ch_op *op, const ch_conv_run *r, int worker, int n_workers);
void ch_op_count(ch_op *op, const ch_weight *w, size_t n_mat, size_t n_row); // n_mat of its matrices with n_row rows in all
void ch_op_run(ch_op *op, ch_pool_fn fn, void *arg, size_t n_float); // pool, or the caller alone when small

// ---- lora.c
static inline size_t ch_op_lora_rank(const ch_weight *w) { return w->lora ? w->lora->rank : 0; }
void ch_op_lora_refuse(ch_op *op, const ch_weight *w); // dry run: this op adds none
// low[i] = (A x)[i] for i in [k0, k1), of matrix mat of the weight.
void ch_op_lora_project(const ch_op *op, const ch_weight *w, size_t mat, size_t k0, size_t k1, const float *x, float *low);
// y[t][r] += (B low[t])[r] for r in [r0, r1)
typedef struct ch_op_lora_rows {
    size_t mat, r0, r1, n_row;
    const float *low; // rows ld_low apart
    size_t ld_low;
    float *y; // rows ld_y apart
    size_t ld_y;
} ch_op_lora_rows;
void ch_op_lora_add(const ch_op *op, const ch_weight *w, const ch_op_lora_rows *a);

// Softmax attention of prepared queries over pages that hold the step's own rows already (attend.c).
typedef struct ch_op_attend {
    const ch_op *op;
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n_head, n_q;  // query heads; heads [i * n_q, (i + 1) * n_q) share keys and values number i
    size_t d_k, d_v;
    const float *q;      // [row][n_head][d_k]
    const ch_type_info *k_type, *v_type;
    size_t k_off, v_off;   // bytes from a page's start to number 0
    size_t k_unit, v_unit; // bytes between numbers, 0: all share one
    size_t k_ld, v_ld;     // bytes between positions
    float scale;
    size_t v_rot;        // values are rotated in blocks of this (0: not), and outputs are turned back
    const float *gate;   // output gate of head h of a row at (row * n_head + h) * ld_gate, or NULL
    size_t ld_gate;
    float *y;            // [row][n_head][d_v]
    size_t scratch;      // floats of kernel scratch, set by need
} ch_op_attend;
// Notes op and buffers; as ch_op_need. The worker's scratch (BUF_ATTN_WORK) has room for a key or a value too.
bool ch_op_attend_need(ch_op *op, ch_op_attend *a);
void ch_op_attend_share(const ch_op_attend *a, int worker, int n_workers, float *work); // on every worker
// ---- state.c: one head's state through the rows of a segment
typedef struct ch_state_run {
    const ch_kern *kern;
    const ch_op_seg *seg;
    ch_op_state_form form;
    bool commit;   // the rows come from the journal and advance the slab
    uint8_t *home; // in the slab: n floats, or n bf16
    size_t n;
    float *work;   // ch_op_state_work(n) floats of this worker
} ch_state_run;
size_t ch_op_state_work(size_t n);
// Rows [from, from + n) of the segment on state.
typedef void (*ch_state_rows)(void *ctx, float *state, size_t from, size_t n, bool chunk);
void ch_op_run_state(const ch_state_run *r, ch_state_rows rows, void *ctx);
static inline size_t ch_op_state_size(size_t n, bool bf16) { return (n * (bf16 ? sizeof(uint16_t) : sizeof(float)) + 63) / 64 * 64; }

#endif
