// block: the layers' building blocks, each written once over ops and batched over all sequences of a step: rotation table,
// attention, gated delta net, Mamba-1 and Mamba-2, dense FFN, mixture of experts, embedding and head. A block owns its hyper-parameters, its
// weights and its place in the pages or the slab; it knows no GGUF key, no architecture and no sampling.
//
// Every block reads rows h: [n_row][n_embd] (already normed) and writes rows y: [n_row][n_embd]; scratch is taken from the
// backend and given back. Nothing here can fail: shapes were checked when the model was bound.
#ifndef CH_BLOCK_H
#define CH_BLOCK_H

#include "base/base.h"
#include "op/op.h"

// Called with named intermediate rows (for `chimere trace` and for tests of block outputs).
typedef void (*ch_trace_fn)(void *user, const char *name, int layer, const float *x, size_t n_row, size_t n_col);

// What all blocks of one step share.
typedef struct ch_step {
    ch_op *op;
    size_t n_row, n_seg, n_out;
    const int32_t *token;   // [n_row]
    const ch_op_seg *seg;   // [n_seg]
    const int32_t *out_row; // [n_out]
    float *hidden;          // [n_out][n_embd] takes the wanted rows after the final norm, or NULL
    ch_trace_fn trace;      // or NULL
    void *trace_user;
} ch_step;
void ch_step_trace(const ch_step *st, const char *name, int layer, const float *x, size_t n_col);

// A block with a recurrent state. Tentative rows (ch_op_seg.journal) leave its slab alone; commit advances the slab by the
// first n_row of them, for every segment of the step, from the journal alone: no weights but those of the recurrence.
typedef struct ch_recurrent {
    void (*commit)(const void *block, ch_step *st);
    const void *block;
    struct ch_recurrent *next;
} ch_recurrent;

// Where the layers of a model live in a page, in the slab and in a journal row. Grows as layers are placed; a placed block must
// stay where it is in memory.
typedef struct ch_layout {
    const ch_type_info *k_type, *v_type; // of the key/value cache (ch_quant_cache_type)
    bool rotate;           // quantised keys and values
    ch_op_state_form form; // of recurrent states
    size_t kv_token_bytes; // of all attention layers so far, per position
    size_t slab_bytes;
    size_t journal_row;    // floats
    ch_recurrent *recurrent; // all placed, last one first
} ch_layout;
// st: only op, n_row, n_seg and seg are set. Rows counted from 0 over the segments.
void ch_block_commit(const ch_layout *l, ch_step *st);

// ---- rotation -------------------------------------------------------------------------------------------------------------
// Angle of pair i at position p: p * base^(-2i/n_rot) * scale_i / factor_i (architectures.md 1.3, YaRN included in scale_i).
typedef struct ch_rope {
    size_t n_rot; // rotated dimensions, even; 0: no rotation
    bool neox;    // pairs (i, i + n_rot/2), else (2i, 2i+1)
    double *freq; // [n_rot/2] radians per position
    float mscale; // multiplies cos and sin (YaRN), else 1
} ch_rope;
const float *ch_block_rope_table(const ch_rope *r, ch_step *st); // [n_row][n_rot/2][2] in scratch; NULL when n_rot is 0

// ---- attention ------------------------------------------------------------------------------------------------------------
typedef struct ch_attn {
    size_t n_head, n_head_kv, d_head, n_rot;
    bool gated, neox;
    float eps, scale;
    ch_weight q, k, v, o;         // q: [n_head * d_head * (gated ? 2 : 1)][n_embd], per head query rows then gate rows
    const float *q_norm, *k_norm; // [d_head] or NULL
    bool head_norms;              // one norm per head instead: [n_head][d_head], [n_head_kv][d_head]
    const ch_type_info *k_type, *v_type; // of the cache, set when placed, with the blocks of the rotation
    size_t k_rot, v_rot;
    size_t kv_off;                // bytes per position of the layers before this one
} ch_attn;
// Places return the bytes that the layer takes (per position, or of state); 0: heads do not fill blocks of the cache's types.
size_t ch_block_attn_place(ch_attn *b, ch_layout *l);
void ch_block_attn(const ch_attn *b, ch_step *st, int layer, const float *rope, const float *h, float *y);
void ch_block_attn_append(const ch_attn *b, ch_step *st, const float *rope, const float *h); // keys and values only

// ---- gated delta net ------------------------------------------------------------------------------------------------------
typedef struct ch_gdn {
    size_t n_head_k, n_head_v, d_k, d_v, n_tap;
    bool tiled;
    float eps;
    ch_weight qkv, z, beta, alpha, out; // alpha.type NULL: beta holds both, interleaved per key head (ssm_ba)
    const float *conv_w;                // [n_tap][n_channel], transposed when bound
    const float *a, *dt_bias, *norm;    // [n_head_v], [n_head_v], [d_v]
    size_t slab_off, journal_off;
    ch_op_state_form form; // set when placed
    ch_recurrent rec;
} ch_gdn;
void ch_block_gdn_place(ch_gdn *b, ch_layout *l);
void ch_block_gdn(const ch_gdn *b, ch_step *st, int layer, const float *h, float *y);

// ---- state-space mixers (architectures.md 2.4, 2.5) ------------------------------------------------------------------------
typedef struct ch_ssm1 {
    size_t n_channel, d_state, n_tap;
    float eps;
    bool norms;                            // RMS norm of the low-rank step, B and C; without weights where the vectors are NULL
    ch_weight x, z;                        // [n_channel][n_embd]
    ch_weight dt_low, b, c;                // [dt_rank], [d_state] twice, all of n_channel
    ch_weight dt;                          // [n_channel][dt_rank], with bias
    ch_weight out;                         // [n_embd][n_channel]
    const float *dt_norm, *b_norm, *c_norm; // [dt_rank], [d_state] twice, or NULL
    const float *conv_w, *conv_b;          // [n_tap][n_channel] transposed when bound, [n_channel] or NULL
    const float *a, *skip;                 // [d_state][n_channel] transposed when bound, [n_channel]
    size_t slab_off, journal_off;
    ch_op_state_form form; // set when placed
    ch_recurrent rec;
} ch_ssm1;
size_t ch_block_ssm1_state_bytes(const ch_ssm1 *b);
void ch_block_ssm1_place(ch_ssm1 *b, ch_layout *l);
void ch_block_ssm1(const ch_ssm1 *b, ch_step *st, int layer, const float *h, float *y);

typedef struct ch_ssm2 {
    size_t n_head, d_head, n_group, d_state, n_tap;
    float eps;
    ch_weight z, xbc, dt;         // [n_head * d_head], [n_channel], [n_head], all of n_embd; n_channel as in ch_op_ssm2_args
    const float *dt_bias;         // [n_head]
    // Where steps, B and C are made from x behind the convolution (PLaMo-2): xbc holds the rows of x alone, dt is
    // [n_head][dt_rank] with bias, and these are set.
    ch_weight dt_low, b, c;                 // [dt_rank], [d_state] twice, all of n_head * d_head; type NULL: the plain form
    const float *dt_norm, *b_norm, *c_norm; // [dt_rank], [d_state] twice
    const float *conv_w, *conv_b; // [n_tap][rows of xbc] transposed when bound, [rows of xbc] or NULL
    const float *a, *skip;        // [n_head]
    const float *norm;            // [n_head * d_head] or NULL
    ch_weight out;                // [n_embd][n_head * d_head]
    size_t slab_off, journal_off;
    ch_op_state_form form; // set when placed
    ch_recurrent rec;
} ch_ssm2;
size_t ch_block_ssm2_state_bytes(const ch_ssm2 *b);
void ch_block_ssm2_place(ch_ssm2 *b, ch_layout *l);
void ch_block_ssm2(const ch_ssm2 *b, ch_step *st, int layer, const float *h, float *y);

// ---- Kimi delta attention and its compressed attention (architectures.md 2.11) ----------------------------------------------
typedef struct ch_kda {
    size_t n_head, d_head, n_tap;
    float eps;
    ch_weight q, k, v;                // [n_head * d_head][n_embd] each, one convolution over all three
    ch_weight f_a, f_b, g_a, g_b;     // decay and gate through a narrow middle
    ch_weight beta, out;              // [n_head][n_embd], [n_embd][n_head * d_head]
    const float *conv_w;              // [n_tap][3 * n_head * d_head]
    const float *a, *dt_bias, *norm;  // [n_head], [n_head * d_head], [d_head]
    size_t slab_off, journal_off;
    ch_op_state_form form; // set when placed
    ch_recurrent rec;
} ch_kda;
void ch_block_kda_place(ch_kda *b, ch_layout *l);
void ch_block_kda(const ch_kda *b, ch_step *st, int layer, const float *h, float *y);

typedef struct ch_mla {
    size_t n_head, d_nope, d_pe, d_latent, d_v;
    float eps, scale;
    ch_weight q;        // [n_head * (d_nope + d_pe)][n_embd]
    ch_weight kv;       // [d_latent + d_pe][n_embd]
    ch_weight k_b, v_b; // per head [d_latent][d_nope] and [d_v][d_latent]
    ch_weight o;        // [n_embd][n_head * d_v]
    const float *norm;  // [d_latent]
    const ch_type_info *type; // of the cache: the layout's k_type
    size_t rot;
    size_t kv_off;
} ch_mla;
size_t ch_block_mla_place(ch_mla *b, ch_layout *l);
void ch_block_mla(const ch_mla *b, ch_step *st, int layer, const float *h, float *y);

// ---- short gated convolution (architectures.md 2.10, L2) ---------------------------------------------------------------------
typedef struct ch_shortconv {
    size_t n_channel, n_tap;
    ch_weight b, c, u, out; // [n_channel][n_embd] thrice, [n_embd][n_channel]
    const float *conv_w;    // [n_tap][n_channel]
    size_t slab_off, journal_off;
    ch_recurrent rec;
} ch_shortconv;
void ch_block_shortconv_place(ch_shortconv *b, ch_layout *l);
void ch_block_shortconv(const ch_shortconv *b, ch_step *st, int layer, const float *h, float *y);

// ---- the row before -------------------------------------------------------------------------------------------------------
// Remembers a sequence's last row of n values (MTP: the hidden row that the next position's draft begins with).
typedef struct ch_lastrow {
    size_t n;
    size_t slab_off, journal_off;
    ch_recurrent rec;
} ch_lastrow;
size_t ch_block_lastrow_state_bytes(const ch_lastrow *b);
void ch_block_lastrow_place(ch_lastrow *b, ch_layout *l);
void ch_block_lastrow_shift(const ch_lastrow *b, ch_step *st, const float *x, float *y); // ch_op_shift_rows
void ch_block_lastrow_get(const ch_lastrow *b, ch_step *st, float *y); // y: [n_seg][n], one row per segment

// ---- feed-forward ---------------------------------------------------------------------------------------------------------
typedef struct ch_ffn {
    ch_weight gate, up, down; // y = down(silu(gate h) * (up h)); gate.type NULL: down(relu(up h)^2)
} ch_ffn;
void ch_block_ffn(const ch_ffn *b, ch_step *st, const float *h, float *y);

typedef struct ch_moe {
    size_t n_used;
    int gating; // CH_GATE_*
    bool renormalise;
    float scale; // 0: none
    size_t n_group, n_group_used;
    const float *bias;        // [n_expert] for the choice only, or NULL
    ch_weight router;         // [n_expert][n_embd]
    ch_weight gate, up, down; // n_mat experts; up.type NULL: gate is merged (gate rows then up rows); gate.type NULL: relu^2
    // Experts of a narrower latent vector: the router and the shared expert see h, the experts down(h), and their sum goes
    // through up. type NULL: none.
    ch_weight latent_down, latent_up; // [n_latent][n_embd], [n_embd][n_latent]
    ch_ffn shared;            // shared.up.type NULL: no shared expert
    ch_weight shared_gate;    // [1][n_embd]; type NULL: ungated (so with latent experts)
} ch_moe;
void ch_block_moe(const ch_moe *b, ch_step *st, int layer, const float *h, float *y);

// ---- head -----------------------------------------------------------------------------------------------------------------
// logits[n_out][n_vocab] of the wanted rows of h (after the final norm); logits NULL: only st->hidden is filled.
void ch_block_head(const ch_weight *w, ch_step *st, const float *h, float *logits);

#endif
