// kern: row and tile kernels, in tiers (ref, avx2, avx512, amx), behind one struct of functions chosen once at start.
// It knows blocks of weights and rows of floats; nothing of threads, memory lifetime, layers or sequences. Every function
// is pure over its arguments and may run on many threads at once. None allocates.
//
// Numeric promise of every tier: an output element is computed in an order fixed by (type, tier, shape): it does not depend
// on how many tokens share the call (batch invariance), nor on how rows are split among workers. `ref` is the oracle: plain
// C, sums in double, weights decoded exactly, activations kept f32. A faster tier stays within the bound that
// tests/checkkern derives for it (activations of quantised matrices are rounded to 8 or 16 bits per block of 32 there).
#ifndef CH_KERN_H
#define CH_KERN_H

#include "base/base.h"
#include "quant/quant.h"

// Positions per page of the key/value cache; attention sums in tiles of whole pages, so results do not depend on batching.
enum { CH_KV_PAGE = 64 };
// Row split of matrices among workers: a multiple of this, for every tier.
enum { CH_MAT_GRAIN = 16 };
// Version of what mat_pack writes, over all tiers. Packed weights are kept in files, so raise it with any change of those bytes
// (tests/checkkern/test_layout.c notices).
enum { CH_MAT_LAYOUT = 1 };
// Tokens of a chunk (gdn_chunk and the like).
enum { CH_CHUNK = 64 };

// A weight matrix y = W x, W: [n_out][n_in], rows as in the file, and optionally in the tier's own packed form.
typedef struct ch_mat {
    const ch_type_info *type;
    size_t n_in, n_out;
    const uint8_t *raw; // n_out rows of ch_quant_row_bytes(type, n_in); NULL allowed once packed
    uint8_t *packed;    // tier's form, 64-byte aligned, mat_packed_bytes long; NULL: the tier reads raw
} ch_mat;

// Forms of activations a matmul can ask for. CH_ACT_F32 rows are read as they are (no packing call).
enum { CH_ACT_F32 = 0, CH_ACT_Q8 = 1, CH_ACT_Q16 = 2, CH_ACT_N };

// Gated delta rule for one value head over n_tok consecutive tokens of one sequence (architectures.md 1.9, G1-G4).
typedef struct ch_gdn_args {
    size_t n_tok, d_k, d_v;
    const float *q, *k;    // [n_tok] rows of d_k, already L2-normalised, q already scaled; stride ld_qk floats
    const float *v;        // [n_tok] rows of d_v, stride ld_v
    const float *beta, *g; // [n_tok], stride ld_bg; g = log decay <= 0
    size_t ld_qk, ld_v, ld_bg;
    float *state; // [d_v][d_k], read and written
    float *out;   // [n_tok] rows of d_v, stride ld_out
    size_t ld_out;
    size_t ld_g; // kda only: g is [n_tok] rows of d_k, a decay for every key channel (1.10), stride ld_g
    float *scratch; // chunk form only: chunk_scratch(d_k, d_v) floats
} ch_gdn_args;

// Depthwise causal convolution with SiLU over channels [c0, c1) for n_tok consecutive tokens of one sequence (1.6).
typedef struct ch_conv_args {
    size_t n_tok, n_tap, c0, c1;
    const float *x;    // [n_tok][ld_x], pre-convolution inputs
    size_t ld_x;
    const float *w;    // [n_tap][n_channel]: tap-major (transposed from the file), last tap multiplies the current token
    const float *bias; // [n_channel] or NULL
    size_t n_channel;
    float *state; // [n_tap-1][n_channel], oldest first: the inputs before x; updated to the last n_tap-1 inputs
    float *y;     // [n_tok][ld_y], may not overlap x
    size_t ld_y;
    bool silu;
} ch_conv_args;

// Mamba-1 selective scan over channels [c0, c1) for n_tok consecutive tokens of one sequence (1.7):
//   h[n][c] = exp(dt[c] * a[n][c]) * h[n][c] + dt[c] * x[c] * b[n];  y[c] = sum_n c[n] * h[n][c] + skip[c] * x[c]
typedef struct ch_ssm1_args {
    size_t n_tok, d_state, n_channel, c0, c1;
    const float *x;     // [n_tok] rows of n_channel, after convolution and activation
    const float *dt;    // [n_tok] rows of n_channel, > 0: after softplus
    size_t ld_x, ld_dt;
    const float *b, *c; // [n_tok] rows of d_state, shared by all channels
    size_t ld_bc;
    const float *a;     // [d_state][n_channel] < 0: transposed from the file
    const float *skip;  // [n_channel]
    float *state;       // [d_state][n_channel], read and written
    float *y;           // [n_tok] rows of n_channel; may not overlap x
    size_t ld_y;
} ch_ssm1_args;

// Mamba-2 scan of one head over n_tok consecutive tokens of one sequence (1.8, S1-S3 after the softplus):
//   S[p][n] = exp(dt * a) * S[p][n] + dt * x[p] * b[n];  y[p] = sum_n c[n] * S[p][n] + skip * x[p]
typedef struct ch_ssm2_args {
    size_t n_tok, d_head, d_state;
    const float *x;     // [n_tok] rows of d_head
    const float *dt;    // [n_tok], stride ld_dt, > 0: after softplus
    const float *b, *c; // [n_tok] rows of d_state
    size_t ld_x, ld_dt, ld_bc;
    float a, skip;      // of this head; a < 0
    float *state;       // [d_head][d_state], read and written
    float *y;           // [n_tok] rows of d_head, stride ld_y; may not overlap x
    size_t ld_y;
    float *scratch;     // chunk form only: chunk_scratch(d_state, d_head) floats
} ch_ssm2_args;

// Causal softmax attention of n_tok consecutive query positions of one sequence, for n_q query heads that share a key/value
// head, over one range of positions [begin, end): query row t sees those of them up to pos0 + t. begin is a multiple of
// CH_KV_PAGE, and so is end unless it lies past the last row's position. Keys and values lie in pages of CH_KV_PAGE positions:
// key of position p = page[p / CH_KV_PAGE] + k_off + (p % CH_KV_PAGE) * k_ld, a row of k_type; values likewise.
// The result is a part per query row (below); which ranges there are is ch_attn_range_size's decision alone.
typedef struct ch_attn_args {
    size_t n_tok, n_q, d_k, d_v;
    size_t pos0, begin, end;
    const float *q; // [n_tok] rows of [n_q][d_k], row stride ld_q
    size_t ld_q;
    const uint8_t *const *page;
    size_t k_off, v_off; // bytes from the page's start to this layer's and head's first key / value
    size_t k_ld, v_ld;   // bytes between positions
    const ch_type_info *k_type, *v_type; // of ch_quant_cache_type, in the form that fits d_k / d_v
    float scale;
    float *part;    // [n_tok * n_q][ch_attn_part_floats(d_v)], 64-byte aligned
    float *scratch; // attn_scratch(n_tok, n_q, d_k, d_v) floats, 64-byte aligned
} ch_attn_args;

// Part of a row: sums of weight * value [d_v], then (at ch_attn_part_max) the largest score, which weights are relative to, and
// the sum of weights. A row that sees no position of the range: all zero, largest score -FLT_MAX.
static inline size_t ch_attn_part_max(size_t d_v) { return (d_v + 15) & ~(size_t)15; }
static inline size_t ch_attn_part_floats(size_t d_v) { return ch_attn_part_max(d_v) + 16; }
// Ranges of a row that sees n_pos positions: [0, size), [size, 2 * size), ... They depend on n_pos alone and there are at most
// CH_ATTN_RANGES, so that threads can share a long context and results do not depend on how they do.
enum { CH_ATTN_RANGES = 64, CH_ATTN_RANGE_MIN = 8 * CH_KV_PAGE };
static inline size_t ch_attn_range_size(size_t n_pos) {
    size_t size = CH_ATTN_RANGE_MIN;
    while (n_pos > size * CH_ATTN_RANGES) size *= 2;
    return size;
}
// Adds the next range's part to the total of those before it: always in order of position, one range at a time.
void ch_kern_attn_fold(float *total, const float *part, size_t d_v);
void ch_kern_attn_finish(const float *total, size_t d_v, float *out); // out: [d_v] = sums / sum of weights

// Product of float matrices, for training: C (+)= A B, C: [m][n]. The order of an element's sum depends on k alone. A is read by
// strides, so that it may lie transposed.
typedef struct ch_gemm_args {
    size_t m, n, k;
    const float *a; // A[i][p] = a[i * ra + p * ca]
    size_t ra, ca;
    const float *b; // [k] rows of n, stride ld_b
    size_t ld_b;
    float *c;       // [m] rows of n, stride ld_c; overlaps neither a nor b
    size_t ld_c;
    bool add;       // add to C instead of setting it
} ch_gemm_args;

typedef struct ch_kern {
    const char *name; // highest tier in use: "ref", "avx2", "avx512", "amx"

    // ---- matrix times rows
    // Bytes of the packed form; 0: this tier reads raw rows of that type.
    size_t (*mat_packed_bytes)(const ch_type_info *t, size_t n_in, size_t n_out);
    // Packs rows [r0, r1) (r0 multiple of CH_MAT_GRAIN, r1 too or n_out); any split gives the same bytes.
    void (*mat_pack)(const ch_mat *m, size_t r0, size_t r1);
    int (*act_kind)(const ch_type_info *t, size_t n_in);       // CH_ACT_* that matmul wants for this type
    size_t (*act_bytes)(int kind, size_t n_in);                // per row, multiple of 64
    void (*act_pack)(int kind, const float *x, size_t n_in, void *act); // one row
    // y[t * ld_y + r] = sum_i W[r][i] x_t[i] for r in [r0, r1) (as in mat_pack), t in [0, n_tok).
    // act: row t at act + t * ld_act bytes, in the form act_kind asks for. work: mat_work_bytes(m) bytes of scratch per worker,
    // 64-byte aligned.
    void (*matmul)(const ch_mat *m, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_tok, float *y,
                   size_t ld_y, void *work);
    size_t (*mat_work_bytes)(const ch_type_info *t, size_t n_in);

    // ---- rows
    void (*rmsnorm)(const float *x, const float *w, size_t n, float eps, float *y); // w NULL: 1; y may be x
    void (*l2norm)(const float *x, size_t n, float eps, float scale, float *y);     // y = scale * x / sqrt(sum x^2 + eps)
    void (*swiglu)(const float *gate, const float *up, size_t n, float *y);         // silu(gate) * up; y may be either
    void (*silu_mul)(const float *x, const float *z, size_t n, float *y);           // x * silu(z); y may be x
    void (*sigmoid_mul)(const float *x, const float *z, size_t n, float *y);        // x * sigmoid(z); y may be x
    void (*add)(const float *x, size_t n, float *y);                                // y += x
    void (*axpy)(float a, const float *x, size_t n, float *y);                      // y += a * x
    float (*dot)(const float *x, const float *y, size_t n);
    // Rotates the first n_rot values of a head in place; cs: [n_rot/2] pairs (cos, sin). neox: pairs (i, i+n_rot/2), else
    // (2i, 2i+1).
    void (*rope)(float *x, size_t n_rot, const float *cs, bool neox);
    void (*softmax)(float *x, size_t n); // in place
    void (*bf16_load)(const uint16_t *x, size_t n, float *y);  // as ch_bf16_to_f32, bit for bit on every tier
    void (*bf16_store)(const float *x, size_t n, uint16_t *y); // as ch_f32_to_bf16
    void (*softplus)(const float *x, const float *bias, size_t n, float *y); // log(1 + exp(x + bias)); bias NULL: 0; y may be x

    // ---- mixers
    void (*conv)(const ch_conv_args *a);
    void (*gdn)(const ch_gdn_args *a);
    void (*kda)(const ch_gdn_args *a);
    void (*ssm1)(const ch_ssm1_args *a);
    void (*ssm2)(const ch_ssm2_args *a);
    void (*attn)(const ch_attn_args *a);
    // Randomised Walsh-Hadamard transform of every `block` (32..256, a power of two) of x's n values: fixed signs, then H over
    // the square root of block; back: the inverse. Orthonormal; equal bits in every tier.
    void (*rotate)(float *x, size_t n, size_t block, bool back);
    // Chunk forms of gdn, kda and ssm2 (1.9 G5-G11, 1.10, 1.8 S4-S6): products of CH_CHUNK tokens at a time in place of the
    // recurrence. NOT batch invariant: a row depends on where its chunk began. Callers give them whole chunks that begin at
    // multiples of CH_CHUNK counted from position 0; any n_tok is right, within the bound of tests/checkkern.
    void (*gdn_chunk)(const ch_gdn_args *a);
    void (*kda_chunk)(const ch_gdn_args *a);
    void (*ssm2_chunk)(const ch_ssm2_args *a);
    size_t (*chunk_scratch)(size_t d_k, size_t d_v); // floats
    size_t (*attn_scratch)(size_t n_tok, size_t n_q, size_t d_k, size_t d_v); // floats

    // ---- float matrices
    void (*gemm)(const ch_gemm_args *a);
    // The same, but the factors may be rounded to bf16 where the processor multiplies those faster (tier amx); sums stay float.
    void (*gemm_half)(const ch_gemm_args *a);
    void (*transpose)(const float *x, size_t n_row, size_t n_col, size_t ld_x, float *y, size_t ld_y); // y[j][i] = x[i][j]
} ch_kern;

// Fills *k with the best tier that the processor has and max_tier allows ("ref", "avx2", "avx512", "amx"; NULL: best).
int ch_kern_init(ch_kern *k, const ch_cpu *cpu, const char *max_tier, ch_error *e);

// What a tier can do at best, to judge kernels by: loops over registers only (tiles, where it has them), and a plain read of memory.
// Each runs on one thread; *sink takes a result, so that nothing is optimised away.
enum { CH_PEAK_READS = 2, CH_PEAK_GRAIN = 1024 };
typedef struct ch_kern_peak {
    uint64_t (*int8)(uint64_t rounds, uint32_t *sink); // products of bytes, summed in 32 bits; returns operations (multiply and add: 2)
    uint64_t (*f32)(uint64_t rounds, uint32_t *sink);  // fused multiply-adds; returns operations
    // Ways to read memory; which one is fastest depends on the machine. p 64-byte aligned, n a multiple of CH_PEAK_GRAIN.
    void (*read[CH_PEAK_READS])(const void *p, size_t n, uint32_t *sink);
} ch_kern_peak;
void ch_kern_peak_init(ch_kern_peak *k, const ch_cpu *cpu, const char *tier); // as max_tier above, a known name

#endif
