// op: the operations a model's layers are written in, run by a backend: today the CPU (kernels over a worker pool). It knows
// weights and rows; nothing of layers, sequences or files.
//
// All rows are f32. An op takes every row of the step at once and splits independent outputs statically over the workers,
// so results do not depend on the number of threads. Nothing here allocates during a step: op buffers are sized by a dry run
// (ch_op_dry_begin ... ch_op_dry_end) in which ops only note what they will need and touch no data.
//
// Threading: one driver thread calls ops. Ownership: the backend owns its workers and buffers; weights belong to the model.
#ifndef CH_OP_H
#define CH_OP_H

#include "base/base.h"
#include "quant/quant.h"

typedef struct ch_op ch_op;
typedef struct ch_mat ch_mat; // the kernels' view of one matrix (private to op and kern)

// tier: "ref", "avx2", "avx512", "amx", "neon" or NULL for the best one; n_threads 1..256.
int ch_op_create(ch_op **op, const char *tier, int n_threads, ch_error *e);
void ch_op_free(ch_op **op);
const char *ch_op_tier(const ch_op *op);
int ch_op_n_threads(const ch_op *op);
size_t ch_op_page_tokens(const ch_op *op); // positions per key/value page

// Dry run: between begin and end every op records the buffers it will need for these shapes and returns at once.
// end allocates them (CH_ENOMEM). CH_EUNSUPPORTED: a weight with adapters is used by an op that has none.
void ch_op_dry_begin(ch_op *op);
int ch_op_dry_end(ch_op *op, ch_error *e);
bool ch_op_is_dry(const ch_op *op);

// Scratch rows of the step: taken in stack order, given back by resetting to a mark. 64-byte aligned, not zeroed.
float *ch_op_scratch(ch_op *op, size_t n_row, size_t n_col); // in a dry run: a pointer that must not be read
size_t ch_op_scratch_mark(const ch_op *op);
void ch_op_scratch_reset(ch_op *op, size_t mark);

// ---- weights --------------------------------------------------------------------------------------------------------------
// Low-rank adapters of a weight: y += B (A x). The factor is inside B.
typedef struct ch_lora {
    size_t rank;
    const float *a; // [n_mat][rank][n_in]
    const float *b; // [n_mat][rank][n_out]: transposed
} ch_lora;

// A matrix [n_out][n_in], or a stack of n_mat such matrices (experts). Optional bias [n_mat][n_out] and one factor per matrix
// ([n_mat], NVFP4 side-car) apply to every product.
typedef struct ch_weight {
    const char *name;
    const ch_type_info *type;
    size_t n_in, n_out, n_mat;
    const uint8_t *raw;  // as in the file: n_mat * n_out rows
    size_t raw_bytes;    // of all
    const float *bias;   // or NULL
    const float *factor; // or NULL
    const ch_lora *lora; // or NULL. Only products of whole rows add it: ch_op_matmul, ch_op_moe
    bool mapped;         // raw lies in a mapped file: pages that were packed are given back
    ch_mat *mat;         // [n_mat], made by ch_op_weight_attach
    const uint8_t *packed; // the tier's own form, or NULL when it reads raw
    size_t packed_bytes;
    uint8_t *own;        // memory of packed, where it is the weight's
} ch_weight;
// Bytes of the tier's own form of w; 0: the tier reads raw, as keep_raw asks it to wherever it can.
int ch_op_weight_size(const ch_op *op, const ch_weight *w, bool keep_raw, size_t *bytes, ch_error *e);
uint32_t ch_op_packed_layout(const ch_op *op); // rises when the tier writes these bytes in another way
// Makes mat over that many bytes, 64-byte aligned, which are packed already or will be. They stay the caller's. NULL: raw is read.
int ch_op_weight_attach(ch_op *op, ch_weight *w, const uint8_t *packed, size_t bytes, ch_error *e);
// On all workers, into the attached bytes. After a dry run each worker packs the rows that it will multiply.
void ch_op_weight_pack(ch_op *op, const ch_weight *w, uint8_t *packed);
// All of these with memory of its own.
int ch_op_weight_prepare(ch_op *op, ch_weight *w, bool keep_raw, ch_error *e);
void ch_op_weight_release(ch_weight *w);

// ---- ops ------------------------------------------------------------------------------------------------------------------
void ch_op_get_rows(ch_op *op, const ch_weight *w, const int32_t *id, size_t n_row, float *y); // y: [n_row][n_in]
void ch_op_pick_rows(ch_op *op, const float *x, const int32_t *row, size_t n_row, size_t n, float *y); // y[i] = x[row[i]]
void ch_op_rmsnorm(ch_op *op, const float *x, const float *w, size_t n_row, size_t n, float eps, float *y);
// x += m, then y = rmsnorm(x): the residual and the next norm in one pass. y NULL: only the sum.
void ch_op_add_rmsnorm(ch_op *op, const float *m, const float *w, size_t n_row, size_t n, float eps, float *x, float *y);
void ch_op_swiglu(ch_op *op, const float *gate, const float *up, size_t n_row, size_t n, float *y);

void ch_op_multiply(ch_op *op, const float *x, size_t n_row, size_t n, float *y); // y *= x
void ch_op_relu2(ch_op *op, size_t n_row, size_t n, float *x); // x = max(x, 0)^2
void ch_op_scale(ch_op *op, float f, size_t n_row, size_t n, float *x); // x *= f; does nothing when f is 1

// Products of the same rows with several matrices in one call: the rows are converted once, the outputs split as one.
typedef struct ch_op_mul {
    const ch_weight *w; // n_mat 1
    float *y;           // [n_row][n_out], rows ld_y apart
    size_t ld_y;        // 0: n_out
} ch_op_mul;
void ch_op_matmul(ch_op *op, const ch_op_mul *mul, size_t n_mul, const float *x, size_t n_row);
// One matrix per head: y[row][h] = W[h] x[row][h], x rows ld_x and heads head_x floats apart, y likewise.
typedef struct ch_op_heads {
    const ch_weight *w; // n_mat heads
    const float *x;
    size_t ld_x, head_x;
    float *y;
    size_t ld_y, head_y;
} ch_op_heads;
void ch_op_matmul_heads(ch_op *op, const ch_op_heads *a, size_t n_row);

// Copies n strips of n_col floats, strip i from x + i * ld_x to y + i * ld_y.
void ch_op_copy_heads(ch_op *op, const float *x, size_t ld_x, size_t n, size_t n_col, size_t ld_y, float *y);

// Rows row0 .. row0 + n_row - 1 of the step continue one sequence.
typedef struct ch_op_seg {
    size_t row0, n_row;
    size_t pos0;          // position of row0
    uint8_t *const *page; // key/value pages of the sequence
    uint8_t *slab;        // its recurrent slab
    // Tentative rows: the slab stays as it is, and what ch_op_commit_* needs to advance it by some of these rows is written
    // here. A layer's part begins at journal + n_journal * journal_off of its op. NULL: plain rows.
    float *journal;
    size_t n_journal; // rows there is room for, >= n_row
} ch_op_seg;

// Rows one position back: y[row] = x[row - 1] inside a segment; the first row takes what the last call left in the slab (zeros at
// position 0), and the last row of x is left there for the next. x, y: [n_row][n]. Journal row: the row of x.
typedef struct ch_op_shift_args {
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n, slab_off, journal_off;
    const float *x;
    float *y;
} ch_op_shift_args;
void ch_op_shift_rows(ch_op *op, const ch_op_shift_args *a);
void ch_op_commit_shift(ch_op *op, const ch_op_shift_args *a); // as ch_op_commit_gdn
void ch_op_slab_rows(ch_op *op, const ch_op_seg *seg, size_t n_seg, size_t slab_off, size_t n, float *y); // y[segment]: row in the slab

// Attention with optional per-head QK norm, rotation, output gate. q rows: per head d_head query values and, when gated,
// d_head gate values behind them. Appends K and V of the rows to the pages, then attends causally.
typedef struct ch_op_attn_args {
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n_row, n_head, n_head_kv, d_head, n_rot;
    bool gated, neox;
    float eps, scale;
    const float *q;               // [n_row][n_head * d_head * (gated ? 2 : 1)]; NULL: only append
    const float *k, *v;           // [n_row][n_head_kv * d_head]
    const float *q_norm, *k_norm; // [d_head] or NULL
    bool head_norms;              // q_norm: [n_head][d_head], k_norm: [n_head_kv][d_head]: one per head
    const float *rope;            // [n_row][n_rot/2][2] cos, sin; NULL: no rotation
    const ch_type_info *k_type, *v_type; // of the cache: from ch_quant_cache_fit for d_head
    size_t k_rot, v_rot;          // keys and queries, values are rotated in blocks of this before they are stored; 0: not
    size_t page_off;              // bytes from a page's start to this layer's keys; its values follow the keys
    float *y;                     // [n_row][n_head * d_head]
} ch_op_attn_args;
// Bytes per position of one layer's keys and values; 0: d_head does not fill blocks of the types.
size_t ch_op_attn_kv_bytes(size_t n_head_kv, size_t d_head, const ch_type_info *k_type, const ch_type_info *v_type);
void ch_op_attn(ch_op *op, const ch_op_attn_args *a);

// How the recurrent states of a model are kept, and how prompts go through them. The convolution windows stay f32.
typedef struct ch_op_state_form {
    bool bf16;  // states are rounded to bf16 behind every token (every chunk of the chunk form), so cuts do not matter; else f32
    bool chunk; // chunks of CH_KV_PAGE positions, counted from 0, that lie whole in a step are computed in the kernels' chunk form
                // (not where rows are tentative): a row then depends on how a prompt was cut, within rounding. Mamba-1 has none.
} ch_op_state_form;

// Gated delta net between its projections: conv + SiLU, L2 norms, gates, delta rule, gated norm (architectures.md Q4-Q8).
// Slab of the layer: conv window [n_tap-1][n_channel], then per value head a state [d_v][d_k].
typedef struct ch_op_gdn_args {
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n_row, n_head_k, n_head_v, d_k, d_v, n_tap;
    bool tiled;                // key head of value head h: h mod n_head_k, else h / (n_head_v / n_head_k)
    bool kda;                  // a decay per key channel (KDA, 2.11 D1-D5): alpha and dt_bias are [n_head_k * d_k], n_head_v is
                               // n_head_k, and the gate is a sigmoid
    bool interleaved;          // alpha and beta come from one matrix: per key head r betas, then r alphas (ssm_ba)
    float eps;
    const float *qkv;          // [n_row][2 * n_head_k * d_k + n_head_v * d_v]
    const float *z;            // [n_row][n_head_v * d_v]
    const float *beta, *alpha; // [n_row][n_head_v] each; interleaved: beta is [n_row][2 * n_head_v], alpha NULL
    const float *conv_w;       // [n_tap][n_channel]
    const float *a, *dt_bias;  // [n_head_v]; a = -exp(A_log)
    const float *norm;         // [d_v]
    size_t slab_off;           // bytes from the slab's start to this layer
    size_t journal_off;        // floats of a journal row before this layer
    float *o_raw;              // [n_row][n_head_v * d_v] before the gated norm (kept apart so that tests and traces see it)
    float *y;                  // [n_row][n_head_v * d_v]
    ch_op_state_form form;
} ch_op_gdn_args;
size_t ch_op_gdn_state_bytes(size_t n_head_k, size_t n_head_v, size_t d_k, size_t d_v, size_t n_tap, bool bf16);
void ch_op_gdn(ch_op *op, const ch_op_gdn_args *a);
// Floats of one journal row: the inputs of the convolution, then beta and decay.
size_t ch_op_gdn_journal_row(size_t n_head_k, size_t n_head_v, size_t d_k, size_t d_v, bool kda);
// Advances the slabs by the first n_row journal rows of every segment: the state is that of a plain run of these rows, bit for
// bit. Only sizes, weights and offsets of a are read; a->n_row is the sum over segments, row0 their running sum.
void ch_op_commit_gdn(ch_op *op, const ch_op_gdn_args *a);

// Depthwise causal convolution of all segments, with SiLU. Slab: window [n_tap-1][n_channel].
typedef struct ch_op_conv_args {
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n_row, n_channel, n_tap;
    bool silu;
    const float *x;    // [n_row][n_channel]
    const float *w;    // [n_tap][n_channel]
    const float *bias; // [n_channel] or NULL
    size_t slab_off;   // bytes from the slab's start to the window
    size_t journal_off; // floats of a journal row before this layer; the row: the n_channel inputs
    float *y;          // [n_row][n_channel], may not overlap x
} ch_op_conv_args;
size_t ch_op_conv_state_bytes(size_t n_channel, size_t n_tap); // the window, a multiple of 64
void ch_op_conv(ch_op *op, const ch_op_conv_args *a);
void ch_op_commit_conv(ch_op *op, const ch_op_conv_args *a); // as ch_op_commit_gdn

// Mamba-1 behind its inner projections: softplus of the steps, selective scan, skip, gate (architectures.md F4).
// Slab: state [d_state][n_channel].
typedef struct ch_op_ssm1_args {
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n_row, n_channel, d_state;
    const float *x;     // [n_row][n_channel] after the convolution
    const float *z;     // [n_row][n_channel] gate
    float *dt;          // [n_row][n_channel] steps before softplus, bias added; overwritten
    const float *b, *c; // [n_row][d_state]
    const float *a;     // [d_state][n_channel], transposed when bound; -exp(A_log)
    const float *skip;  // [n_channel]
    size_t slab_off;    // bytes from the slab's start to the state
    size_t journal_off; // floats of a journal row before this layer; the row: x, dt, b
    float *y_raw;       // [n_row][n_channel] before the gate
    float *y;           // [n_row][n_channel]; may be x
    ch_op_state_form form;
} ch_op_ssm1_args;
size_t ch_op_ssm1_state_bytes(size_t n_channel, size_t d_state, bool bf16);
size_t ch_op_ssm1_journal_row(size_t n_channel, size_t d_state);
void ch_op_ssm1(ch_op *op, const ch_op_ssm1_args *a);
void ch_op_commit_ssm1(ch_op *op, const ch_op_ssm1_args *a); // as ch_op_commit_gdn

// Mamba-2 between its projections: convolution + SiLU, softplus of the steps, scan, skip, gate, grouped norm (A2-A6).
// Slab: conv window [n_tap-1][n_channel] when conv_w is set, then per head a state [d_head][d_state].
typedef struct ch_op_ssm2_args {
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n_row, n_head, d_head, n_group, d_state, n_tap; // head h reads B and C of group h * n_group / n_head
    float eps;
    const float *xbc;      // [n_row][n_channel], n_channel = n_head * d_head + 2 * n_group * d_state: x, B, C
    const float *conv_w;   // [n_tap][n_channel]; NULL: no convolution here, x, b and c are given instead of xbc
    const float *conv_b;   // [n_channel] or NULL
    const float *x, *b, *c; // without conv_w: [n_row][n_head * d_head], [n_row][n_group * d_state] twice
    const float *z;        // [n_row][n_head * d_head]
    const float *dt;       // [n_row][n_head] before bias and softplus
    const float *dt_bias;  // [n_head] or NULL
    const float *a, *skip; // [n_head]; a = -exp(A_log)
    const float *norm;     // [n_head * d_head] or NULL: gate only
    size_t slab_off;       // bytes from the slab's start to this layer
    size_t journal_off;    // floats of a journal row before this layer; the row: xbc (without conv_w: x, b), dt
    float *y_raw;          // [n_row][n_head * d_head] before gate and norm
    float *y;              // [n_row][n_head * d_head]
    ch_op_state_form form;
} ch_op_ssm2_args;
size_t ch_op_ssm2_state_bytes(size_t n_head, size_t d_head, size_t d_state, bool bf16);
size_t ch_op_ssm2_journal_row(size_t n_head, size_t d_head, size_t n_group, size_t d_state, bool conv);
void ch_op_ssm2(ch_op *op, const ch_op_ssm2_args *a);
void ch_op_commit_ssm2(ch_op *op, const ch_op_ssm2_args *a); // as ch_op_commit_gdn

// Attention over a compressed cache (MLA, architectures.md D6-D8): one row of d_latent + d_pe values per position, shared by all
// heads; its first d_latent values, RMS-normed, serve as the value too. No rotation. Appends the rows to the pages, then attends.
typedef struct ch_op_mla_args {
    size_t n_seg;
    const ch_op_seg *seg;
    size_t n_row, n_head, d_latent, d_pe;
    float eps, scale;
    const float *q;    // [n_row][n_head][d_latent + d_pe], absorbed
    const float *kv;   // [n_row][d_latent + d_pe]
    const float *norm; // [d_latent]
    const ch_type_info *type; // of the cache
    size_t rot;        // rows are rotated in blocks of this (dividing d_latent and d_pe) before they are stored; 0: not
    size_t page_off;   // bytes from a page's start to this layer
    float *y;          // [n_row][n_head][d_latent]
} ch_op_mla_args;
size_t ch_op_mla_kv_bytes(size_t d_latent, size_t d_pe, const ch_type_info *type); // per position; 0: does not fill blocks
void ch_op_mla(ch_op *op, const ch_op_mla_args *a);

// Mixture of experts (architectures.md 1.5). How router logits z become probabilities p:
enum {
    CH_GATE_SOFTMAX,       // p = softmax over all experts
    CH_GATE_SIGMOID,       // p = sigmoid(z)
    CH_GATE_SOFTMAX_AFTER, // choice by z, weights = softmax over the chosen z
    CH_GATE_SQRT_SOFTPLUS  // p = sqrt(softplus(z))
};
// The n_used experts with the largest p + bias are chosen (ties: lower index; with groups, inside the n_group_used groups whose
// two best sum highest), weighted by p, renormalised and scaled as asked.
// y = sum of weight * expert(x) (+ sigmoid(shared_gate) * shared when shared is given).
typedef struct ch_op_moe_args {
    size_t n_row, n_used;
    int gating;                        // CH_GATE_*
    bool renormalise;
    float scale;                       // 0 or 1: none
    size_t n_group, n_group_used;      // 0 or 1: no groups
    const float *bias;                 // [n_mat] added for the choice only, or NULL
    const ch_weight *gate, *up, *down; // n_mat experts, down(silu(gate x) * up x); up NULL: gate holds gate rows then up rows;
                                       // gate NULL: no gate, down(relu(up x)^2)
    const float *x;                    // [n_row][down->n_out] expert input
    const float *router;               // [n_row][n_mat] logits
    const float *shared;               // [n_row][n_embd] or NULL
    const float *shared_gate;          // [n_row] logits of its sigmoid gate, or NULL: factor 1
    float *y;                          // [n_row][n_embd]
} ch_op_moe_args;
void ch_op_moe(ch_op *op, const ch_op_moe_args *a);

// Work of all products since the backend was made: a step's share is the difference of two readings.
typedef struct ch_op_counts {
    uint64_t weight_bytes;       // of the matrices, in the form that is read; experts: the touched ones
    uint64_t mul_adds;
    uint64_t moe_calls, experts; // calls of ch_op_moe, and the experts that they touched
} ch_op_counts;
ch_op_counts ch_op_get_counts(const ch_op *op);
// 1e9 bytes a second that all workers together read from these weights, a few milliseconds' worth. 0: they are too small to tell
// (64 MiB), or not in memory.
double ch_op_measure_read(ch_op *op, const ch_weight *const *w, size_t n_w);
const char *ch_op_best_tier(const ch_op *op); // that this processor has

#endif
