// train, private: what the blocks of a model share. A block is a struct of sizes and of places in the parameter vector, a
// forward and a backward function. Both run on one thread, over the tokens of one row of a batch; rows are what threads share.
//
// forward(ctx, block, h, y, saves)            y = block(h); what backward needs is kept in saves
// backward(ctx, block, h, dy, dh, saves)      dh = (d loss / d y) (d y / d h); parameters' gradients are added to ctx->grad
//
// Documents: token t sees only tokens from ctx->start[t] on; attention, convolutions and recurrent states begin anew there.
// Memory: a stack in ctx, sized by a dry run in which blocks take and return; saves stay on it until the block's backward.
#ifndef CH_TRAIN_PART_H
#define CH_TRAIN_PART_H

#include "train/real.h"

enum { CH_TRAIN_MAX_TAP = 16 };
#define CH_TRAIN_NONE SIZE_MAX // no such parameter

typedef struct ch_train_mat {
    size_t off, n_out, n_in; // [n_out][n_in] at off
} ch_train_mat;

// Low-rank adapters: beside a matrix W [n_out][n_in] at off, y = W x + scale B A x with A: [rank][n_in], B: [n_out][rank].
typedef struct ch_train_lora_part {
    size_t off, n_out, n_in;
    ch_train_mat a, b;
} ch_train_lora_part;
typedef struct ch_train_lora {
    ch_train_lora_part *part; // [n], by off; a matrix of a stack (experts) is a part of its own
    size_t n, cap, rank;
    double scale;
} ch_train_lora;

typedef struct ch_train_ctx {
    const ch_kern *kern; // float products
    bool half;           // large products may round their factors
    const real *w, *wt;  // parameters; every matrix [n_out][n_in] again as [n_in][n_out] at the same place; wt NULL: forward
    real *turn;          //   only, with ch_train_turn_reals of the widest matrix as room
    size_t frozen;       // parameters before this place are not trained
    real *grad;          // of the others, added to (ch_train_grad); NULL: forward only
    real *sink;          // where frozen vectors add theirs: nobody reads it. NULL allowed when nothing is frozen
    const ch_train_lora *lora; // NULL: none
    real *low;                 // lora only: [2][n_tok][rank] of scratch
    const real *rope;    // [n_ctx][n_rot / 2] pairs (cos, sin), by position in the document
    size_t n_tok;
    const int32_t *start; // [n_tok]
    double balance;       // factor of the experts' balance loss in this row
    double aux;           // balance loss so far
    double *load;         // [n_expert] slots per expert, added to; NULL: not wanted
    // stack
    bool dry;
    uint8_t *base; // NULL in a dry run
    size_t used, peak;
} ch_train_ctx;

// n reals, 64-byte aligned, not cleared. In a dry run an address that must not be read.
real *ch_train_take(ch_train_ctx *c, size_t n);
int32_t *ch_train_take_int(ch_train_ctx *c, size_t n);

// Where the gradient of the vector at off is added to (not of matrices: those that are frozen get none).
static inline real *ch_train_grad(const ch_train_ctx *c, size_t off) { return off >= c->frozen ? c->grad + (off - c->frozen) : c->sink; }

// ---- products ---------------------------------------------------------------------------------------------------------------
void ch_train_gemm(const ch_train_ctx *c, ch_train_mul m);
void ch_train_gemm_half(const ch_train_ctx *c, ch_train_mul m); // factors may be rounded to bf16, where ctx->half says so
void ch_train_transpose(const ch_train_ctx *c, const real *x, size_t n_row, size_t n_col, size_t ld_x, real *y, size_t ld_y);
// y [n][n_out] = x [n][n_in] W^T, rows of y ld_y apart; turned: where there are no transposed copies, without the adapters of w (turn.c)
enum { CH_TRAIN_TURN = 96 };
size_t ch_train_turn_reals(size_t n_in);
void ch_train_turned(const ch_train_ctx *c, const ch_train_mat *w, const real *x, size_t n, real *y, size_t ld_y, bool add);
void ch_train_linear(const ch_train_ctx *c, const ch_train_mat *w, const real *x, size_t n, real *y, size_t ld_y, bool add);
// dx = dy W (dx NULL: not wanted; add: added to it), grad W += dy^T x
void ch_train_linear_back(const ch_train_ctx *c, const ch_train_mat *w, const real *x, const real *dy, size_t ld_dy, size_t n,
                          real *dx, bool add);
// The adapters of w, beside these two (lora.c): y += scale B A x; dx += scale A^T B^T dy, and the gradients of A and B.
void ch_train_lora_add(const ch_train_ctx *c, const ch_train_mat *w, const real *x, size_t n, real *y, size_t ld_y);
void ch_train_lora_back(const ch_train_ctx *c, const ch_train_mat *w, const real *x, const real *dy, size_t ld_dy, size_t n, real *dx);

// ---- rows -------------------------------------------------------------------------------------------------------------------
real ch_train_dot(const real *x, const real *y, size_t n);
void ch_train_add(const real *x, size_t n, real *y);           // y += x
void ch_train_axpy(real a, const real *x, size_t n, real *y);  // y += a x
// y = x w / rms(x), n rows of d, rows ld apart in x and y; w at off
typedef struct ch_train_norm {
    size_t off, d;
    double eps;
} ch_train_norm;
void ch_train_rmsnorm(const ch_train_ctx *c, const ch_train_norm *b, const real *x, size_t ld_x, size_t n, real *y, size_t ld_y);
// dx += or =, by add; rows of dy and dx ld_d apart
void ch_train_rmsnorm_back(const ch_train_ctx *c, const ch_train_norm *b, const real *x, size_t ld_x, size_t n, const real *dy,
                           real *dx, size_t ld_d, bool add);
// y = silu(gate) up, and back; relu2: y = max(gate, 0)^2 with up and dup NULL
void ch_train_glu(const real *gate, const real *up, size_t n, real *y);
void ch_train_glu_back(const real *gate, const real *up, const real *dy, size_t n, real *dgate, real *dup);
// y = x silu(z), and back
void ch_train_silu_gate(const real *x, const real *z, size_t n, real *y);
void ch_train_silu_gate_back(const real *x, const real *z, const real *dy, size_t n, real *dx, real *dz);
// y = scale x / sqrt(sum x^2 + eps), n rows of d
void ch_train_l2norm(const real *x, size_t d, real eps, real scale, real *y);
void ch_train_l2norm_back(const real *x, const real *dy, size_t d, real eps, real scale, real *dx);

// Depthwise causal convolution and SiLU over n_channel columns of x (rows ld_x apart); w: [n_channel][n_tap], last tap now.
typedef struct ch_train_conv {
    size_t w, bias; // bias: CH_TRAIN_NONE allowed
    size_t n_channel, n_tap;
} ch_train_conv;
void ch_train_conv_silu(ch_train_ctx *c, const ch_train_conv *b, const real *x, size_t ld_x, real *pre, real *u);
// dx (rows ld_x apart) is set. du: [n_tok][n_channel], destroyed.
void ch_train_conv_silu_back(ch_train_ctx *c, const ch_train_conv *b, const real *x, size_t ld_x, const real *pre, real *du, real *dx);

// Tokens of a chunk in the terms that recurrences with a decay per head need (delta.c): G sums of log decays; e, f, all factors
// on the state that enters, of what each token leaves behind, of the state that leaves; 0 across documents.
enum { CH_TRAIN_CHUNK = 32 };
typedef struct ch_train_chunk {
    size_t t0, n;
    bool enters, leaves; // the state before reaches into the chunk; and through it
    real g[CH_TRAIN_CHUNK], e[CH_TRAIN_CHUNK], f[CH_TRAIN_CHUNK], all;
    size_t first[CH_TRAIN_CHUNK]; // of the token's document, within the chunk
    size_t last_first;            // of the last token's
} ch_train_chunk;
void ch_train_set_chunk(const ch_train_ctx *c, ch_train_chunk *w, size_t t0, const real *g); // g: [n_tok] log decays
// D[t][s] = exp(g_t - g_s) for s in [lo, t], 0 elsewhere in the row of n
void ch_train_decay_row(const real *g, size_t t, size_t lo, size_t n, real *d);
void ch_train_weigh(const real *x, const real *d, real f, size_t n, real *y); // y = f x d
void ch_train_scale(real f, const real *x, size_t n, real *y);                // y = f x

// ---- attention ----------------------------------------------------------------------------------------------------------------
typedef struct ch_train_attn {
    ch_train_mat in, out;   // in: q (or per head q and gate) | k | v
    size_t q_norm, k_norm;  // [d_head] or CH_TRAIN_NONE
    size_t n_head, n_head_kv, d_head, n_rot; // n_rot 0: no rotation
    bool gated;
    double eps, scale;
} ch_train_attn;
typedef struct ch_train_attn_saves {
    real *in;   // [n_tok][in.n_out]
    real *q, *k; // [n_tok][n_head * d_head], [n_tok][n_head_kv * d_head]: normalised, rotated
    real *o, *y; // [n_tok][n_head * d_head] before and after the gate
    real *lse;  // [n_head][n_tok]
} ch_train_attn_saves;
void ch_train_attn_forward(ch_train_ctx *c, const ch_train_attn *b, const real *h, real *y, ch_train_attn_saves *s);
void ch_train_attn_backward(ch_train_ctx *c, const ch_train_attn *b, const real *h, const real *dy, real *dh,
                            const ch_train_attn_saves *s);

// ---- gated delta net ------------------------------------------------------------------------------------------------------------
typedef struct ch_train_gdn {
    ch_train_mat in, out; // in: q | k | v | z | beta | alpha; value head h meets key head h mod n_head_k
    ch_train_conv conv;
    size_t a_log, dt_bias; // [n_head_v]
    ch_train_norm norm;
    size_t n_head_k, n_head_v, d_k, d_v;
} ch_train_gdn;
typedef struct ch_train_gdn_saves {
    real *in;          // [n_tok][in.n_out]
    real *pre, *u;     // [n_tok][n_channel] around the SiLU
    real *q, *k;       // [n_tok][n_head_k * d_k] normalised
    real *beta, *g;    // [n_head_v][n_tok]
    real *vn;          // [n_tok][n_head_v * d_v] corrected values
    real *state;       // [n_chunk][n_head_v][d_k][d_v] before each chunk
    real *o, *y;       // [n_tok][n_head_v * d_v] out of the rule, and normalised and gated
} ch_train_gdn_saves;
void ch_train_gdn_forward(ch_train_ctx *c, const ch_train_gdn *b, const real *h, real *y, ch_train_gdn_saves *s);
void ch_train_gdn_backward(ch_train_ctx *c, const ch_train_gdn *b, const real *h, const real *dy, real *dh,
                           const ch_train_gdn_saves *s);
// The rule alone (delta.c): o [n_tok][n_head_v * d_v], v in u behind q and k.
void ch_train_delta(ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s);
// dq, dk: [n_tok][n_head_k * d_k] set; dv: rows of ld_v, set; dbeta, dg: [n_head_v][n_tok] set
typedef struct ch_train_delta_grads {
    const real *d_o;
    real *dq, *dk, *dv, *dbeta, *dg;
    size_t ld_v;
} ch_train_delta_grads;
void ch_train_delta_back(ch_train_ctx *c, const ch_train_gdn *b, const ch_train_gdn_saves *s, const ch_train_delta_grads *g);

// ---- Mamba-2 --------------------------------------------------------------------------------------------------------------------
typedef struct ch_train_ssd {
    ch_train_mat in, out;  // in: z | x | B | C | dt
    ch_train_conv conv;    // over x | B | C
    size_t a_log, dt_bias, skip; // [n_head]
    size_t norm;           // [n_head * d_head], each group on its own
    size_t n_head, d_head, n_group, d_state;
    double eps;
} ch_train_ssd;
typedef struct ch_train_ssd_saves {
    real *in, *pre, *u; // [n_tok][..]
    real *dt, *g;       // [n_head][n_tok] step and log decay
    real *state;        // [n_chunk][n_head][d_state][d_head]
    real *o, *m, *y;    // [n_tok][n_head * d_head]: scan with skip, gated, normalised
} ch_train_ssd_saves;
void ch_train_ssd_forward(ch_train_ctx *c, const ch_train_ssd *b, const real *h, real *y, ch_train_ssd_saves *s);
void ch_train_ssd_backward(ch_train_ctx *c, const ch_train_ssd *b, const real *h, const real *dy, real *dh,
                           const ch_train_ssd_saves *s);

// ---- feed-forward ---------------------------------------------------------------------------------------------------------------
typedef struct ch_train_ffn {
    ch_train_mat in, out; // in: gate | up, or up alone
    size_t n_ff;
    bool gated;           // SwiGLU; else relu^2
} ch_train_ffn;
typedef struct ch_train_ffn_saves {
    real *in, *hid; // [n_tok][in.n_out], [n_tok][n_ff]
} ch_train_ffn_saves;
void ch_train_ffn_forward(ch_train_ctx *c, const ch_train_ffn *b, const real *h, real *y, ch_train_ffn_saves *s);
void ch_train_ffn_backward(ch_train_ctx *c, const ch_train_ffn *b, const real *h, const real *dy, real *dh,
                           const ch_train_ffn_saves *s);

typedef struct ch_train_moe {
    ch_train_mat in;     // router | gate of the shared expert (1, with shared_gated) | its gate (gated) | its up
    size_t gate, up;     // [n_expert][n_ff][d]; gate: gated only
    size_t down;         // [n_expert][d][n_ff]
    ch_train_mat shared_down; // n_in 0: no shared expert
    size_t bias;         // [n_expert] added to the router's values for the choice alone, or CH_TRAIN_NONE
    size_t n_expert, n_used, n_ff, n_shared;
    bool gated;          // SwiGLU, else relu^2
    bool sigmoid;        // router: sigmoid, else softmax
    bool shared_gated;
    double scale;        // of the routed sum
} ch_train_moe;
typedef struct ch_train_moe_saves {
    real *in, *prob;     // [n_tok][in.n_out], [n_tok][n_expert]
    int32_t *slot_tok;   // [n_tok * n_used] token of each slot; slots lie by expert
    int32_t *slot_of;    // [n_tok][n_used]
    int32_t *choice;     // [n_tok][n_used]
    int32_t *first;      // [n_expert + 1]
    real *weight;        // [n_tok * n_used] of each slot
    real *x;             // [slots][d]
    real *gate, *up;     // [slots][n_ff] before the activation
    real *hid;           // [slots][n_ff] times weight
    real *shared;        // [n_tok][n_shared] hidden, times its gate
} ch_train_moe_saves;
void ch_train_moe_forward(ch_train_ctx *c, const ch_train_moe *b, const real *h, real *y, ch_train_moe_saves *s);
void ch_train_moe_backward(ch_train_ctx *c, const ch_train_moe *b, const real *h, const real *dy, real *dh,
                           const ch_train_moe_saves *s);

// ---- ends -----------------------------------------------------------------------------------------------------------------------
void ch_train_embed(const ch_train_ctx *c, size_t off, size_t d, const int32_t *token, real *x);
void ch_train_embed_back(const ch_train_ctx *c, size_t off, size_t d, const int32_t *token, const real *dx);
// Sum over tokens of weight * -log p(target), and at once (dh not NULL) dh = its gradient times scale, head's added to
// ctx->grad. Logits live for a few rows only. Rows of weight 0 cost nothing but their product.
double ch_train_head(ch_train_ctx *c, const ch_train_mat *head, const real *h, const int32_t *target, const float *weight, double scale,
                     real *dh);
// Scores of all tokens, [n_tok][n_vocab].
void ch_train_logits(ch_train_ctx *c, const ch_train_mat *head, const real *h, real *logits);

#endif
