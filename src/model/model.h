// model: from a GGUF file to something that can step: picks the architecture, binds tensors strictly, packs weights for the
// kernel tier, lays out sequence state, and runs batches. It knows no token's text and no architecture by name (the
// registry lives in arch/).
//
// Threading: one driver thread at a time calls ch_model_forward; the workers are the model's own. Ownership: the model owns
// the mapped file, packed weights, scratch and workers.
#ifndef CH_MODEL_H
#define CH_MODEL_H

#include "base/base.h"
#include "block/block.h"
#include "gguf/gguf.h"
#include "seq/seq.h"

typedef struct ch_model ch_model;

// A low-rank adapter for the matrices of a model; its product counts scale times what the file says.
enum { CH_LORA_MAX_FILES = 16, CH_LORA_MAX_RANK = 1024 };
typedef struct ch_model_lora {
    const char *path;
    float scale;
} ch_model_lora;

typedef struct ch_model_params {
    const char *tier; // "ref", "avx2", "avx512", "amx"; NULL: the best this processor has
    int n_threads;    // 0: ch_cpu_default_threads()
    int n_batch;      // most rows (tokens) of one step; 0: 512
    int n_seq;        // most segments of one step; 0: 8
    bool meta_only;   // read metadata and check tensors, no weights: ch_model_info and the plan work, forward does not
    bool mtp;         // keep the multi-token prediction layer (nextn) of files that have one, for ch_model_draft
    const char *k_type, *v_type; // key/value cache: "f32", "f16", "bf16", "q8_0", "q4_0", "tq4", "tq3"; NULL: f32
    bool no_kv_hadamard; // store quantised keys and values as they are, not rotated
    const char *state_type; // recurrent states: "f32", "bf16" (rounded behind every token); NULL: f32
    bool chunk_form;  // whole chunks of a prompt in the chunk form (ch_op_state_form)
    bool no_repack;   // leave weights in the mapped file where the tier can read them so
    const char *panel_cache;    // folder that keeps packed weights for the next start; NULL: none
    uint64_t panel_cache_bytes; // most bytes of its files; those used longest ago are removed. 0: no limit
    ch_model_lora lora[CH_LORA_MAX_FILES]; // the first n_lora are added; the matrices stay as they are in the file
    size_t n_lora;
    ch_progress_fn progress; // NULL: silent
    void *progress_user;
} ch_model_params;

// Errors name key or tensor, expected and found. Unknown architectures name themselves.
int ch_model_open(ch_model **m, const char *path, const ch_model_params *p, ch_error *e);
void ch_model_close(ch_model **m);
const ch_gguf *ch_model_gguf(const ch_model *m);

typedef struct ch_layer_info {
    const char *mixer; // "attention", "gated delta net"
    const char *ffn;   // "dense", "moe", "moe + shared"
    size_t kv_bytes_per_token;
    size_t state_bytes; // per sequence
} ch_layer_info;

typedef struct ch_model_info {
    const char *arch; // "qwen35moe"
    bool mtp; // ch_model_draft works
    int32_t n_vocab, n_layer, n_embd, n_ctx_train, n_head, n_head_kv, n_expert, n_expert_used;
    uint64_t n_params;
    size_t weight_bytes;       // in the file
    size_t packed_bytes;       // of the tier's own copies (0 with meta_only)
    bool packed_mapped;        // these lie in a file of the panel cache, shared with other processes
    size_t active_bytes;       // weights read for one token
    size_t kv_bytes_per_token; // over all layers
    size_t state_bytes;        // per sequence, over all layers
    const ch_layer_info *layer; // [n_layer]
    const char *tier, *best_tier; // kernel tier in use; the best this processor has
    int n_threads, n_batch, n_seq;
} ch_model_info;
const ch_model_info *ch_model_get_info(const ch_model *m);
const ch_seq_plan *ch_model_plan(const ch_model *m);
const ch_weight *ch_model_weight_at(const ch_model *m, size_t i); // every bound matrix; NULL past the end
ch_op_counts ch_model_counts(const ch_model *m);                  // work of all steps so far (not with meta_only)

double ch_model_measure_read(ch_model *m); // ch_op_measure_read of its weights; between steps

// One step. Rows are tokens; the rows of a segment follow each other and continue its sequence from its length. A sequence
// appears in one segment only. Prefill and decode of many sequences may mix.
typedef struct ch_segment {
    ch_seq *seq;
    int32_t n_tok; // >= 1
    bool tentative; // compute the rows, but leave the sequence where it is until ch_model_commit (n_tok <= its pool's n_draft)
} ch_segment;
typedef struct ch_batch {
    const int32_t *token; // [n_row], n_row = sum of n_tok <= n_batch; ids in [0, n_vocab)
    int32_t n_row;
    const ch_segment *seg;
    int32_t n_seg;
    const int32_t *out_row; // [n_out] rows whose logits are wanted, ascending
    int32_t n_out;
    float *hidden; // [n_out][n_embd] takes those rows after the final norm (for embeddings), or NULL
} ch_batch;
// logits: [n_out][n_vocab]; NULL: only hidden is wanted. On success every sequence has advanced; on failure none has (its recurrent slab is undefined
// only after CH_EINTERNAL). Errors: CH_ERANGE (bad id or shape of the batch), CH_EBUSY / CH_ELIMIT (pages, context).
int ch_model_forward(ch_model *m, const ch_batch *b, float *logits, ch_error *e);

// Pooling of hidden rows (ch_batch.hidden) to one vector of unit length; rows may come in pieces.
typedef enum ch_pooling_kind { CH_POOLING_MEAN, CH_POOLING_LAST, CH_POOLING_CLS } ch_pooling_kind;
typedef struct ch_pooling {
    ch_pooling_kind kind;
    size_t n_embd, n_row;
    float *sum; // [n_embd], the caller's; holds the vector after finish
} ch_pooling;
void ch_pooling_begin(ch_pooling *p, ch_pooling_kind kind, float *sum, size_t n_embd);
void ch_pooling_push(ch_pooling *p, const float *hidden, size_t n_row);
int ch_pooling_finish(ch_pooling *p, ch_error *e); // CH_ERANGE: no rows; CH_EINTERNAL: zero or not finite

// One draft step of the multi-token prediction layer (architectures.md N1-N5) for n_seq sequences: token[i] is the token at
// position length + ahead of seq[i], hidden[i] the final hidden row before it (ahead 0: NULL, the sequence's own). Gives the
// logits of the token after it and the hidden row for the next step. No length changes; what it writes to the pages past the
// length is overwritten by the next real step. CH_ESTATE: no such layer, or opened without mtp.
typedef struct ch_draft {
    ch_seq *const *seq;   // [n_seq], all different
    const int32_t *token; // [n_seq]
    int32_t n_seq, ahead;
    const float *hidden;  // [n_seq][n_embd] or NULL
    float *logits;        // [n_seq][n_vocab]
    float *hidden_out;    // [n_seq][n_embd]
} ch_draft;
int ch_model_draft(ch_model *m, const ch_draft *d, ch_error *e);

// Deferred commit. The rows of tentative segments give the logits of a plain step, yet neither length nor state of their
// sequences changes. Then each such sequence keeps the first n_tok (0: none) of them; it equals a plain run of these tokens, bit
// for bit. Costs the recurrences alone: no matrix is read. Until then the sequence takes no other step and cannot be forked,
// marked or saved (CH_ESTATE); ch_seq_settle(seq, 0) drops all rows without a model. tentative is not read. Errors: CH_ESTATE
// (no tentative rows), CH_ERANGE (more than there are, n_seq segments or n_batch rows); then nothing has changed.
int ch_model_commit(ch_model *m, const ch_segment *keep, int32_t n_seg, ch_error *e);

// Called with named intermediate rows of each step (for `chimere trace`); NULL turns it off.
void ch_model_set_trace(ch_model *m, ch_trace_fn fn, void *user);

// Files of packed weights, as the panel cache keeps them (docs/FORMATS.md). verify checks all of one, data 8-byte aligned.
bool ch_panels_is_file(const void *data, size_t size);
int ch_panels_verify(const void *data, size_t size, int n_threads, ch_progress_fn progress, void *user, ch_error *e);

// ---- for architectures (arch/<family>.c) ------------------------------------------------------------------------------------
// One row per architecture name; the table is defined in arch/registry.c.
typedef struct ch_arch {
    const char *name; // general.architecture
    // Reads hyper-parameters, binds every tensor, places state; fills ch_model_layer rows. Its data comes from ch_model_alloc.
    int (*bind)(ch_model *m, void **data, ch_error *e);
    // Runs the layers of one step; in a dry run too, so it must touch rows through ops only.
    void (*forward)(const void *data, ch_step *st, float *logits);
    // Draft step, one row per segment (positions past the length); hidden: [n_row][n_embd] or NULL for the slab's. NULL: no MTP.
    void (*draft)(const void *data, ch_step *st, const float *hidden, float *logits);
} ch_arch;
const ch_arch *ch_arch_at(size_t i); // NULL past the end
const char *ch_model_arch(const ch_model *m); // general.architecture
bool ch_model_wants_mtp(const ch_model *m);    // params.mtp
void ch_model_has_mtp(ch_model *m);            // bind has found the layer: ch_model_draft may be called

// Hyper-parameters every family reads alike (architectures.md 1.11), checked against sane ranges.
typedef struct ch_hparams {
    uint32_t n_vocab, n_ctx_train, n_embd, n_ff, n_head, d_head;
    uint32_t n_layer; // trunk layers: block_count less nextn_predict_layers
    uint32_t n_nextn;
    uint32_t n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
    float eps, attn_scale; // attn_scale: the file's, or 1/sqrt(d_head)
} ch_hparams;
int ch_model_read_hparams(ch_model *m, ch_hparams *hp, ch_error *e);
int ch_model_read_hparams_headless(ch_model *m, ch_hparams *hp, ch_error *e); // attention.head_count may be 0 or absent
int ch_model_read_rope(ch_model *m, const ch_hparams *hp, bool neox, ch_rope *r, ch_error *e);
// Key "<arch>.<key>"; the value must lie in [min, max]. *v holds the default; when required, absence is an error.
int ch_model_hp_u32(ch_model *m, const char *key, bool required, uint32_t min, uint32_t max, uint32_t *v, ch_error *e);
int ch_model_hp_f32(ch_model *m, const char *key, double min, double max, float *v, ch_error *e); // absent: *v untouched
// Per-layer values: scalar or array; absent: v untouched and 0 returned, 1 when found, negative on error.
int ch_model_hp_u32_n(ch_model *m, const char *key, uint32_t *v, size_t n, ch_error *e);
int ch_model_hp_bool(ch_model *m, const char *key, bool *v, ch_error *e); // absent: untouched; CH_OK or negative
void *ch_model_alloc(ch_model *m, size_t n, size_t size); // zeroed, lives as long as the model; NULL: no memory
ch_layout *ch_model_layout(ch_model *m);
ch_layer_info *ch_model_layer(ch_model *m, size_t i); // NULL past the number given to ch_model_set_layers
int ch_model_set_layers(ch_model *m, size_t n_layer, size_t n_head_kv, ch_error *e);

enum { CH_BIND_OPTIONAL = 1 };
// Binds "<name>.weight" (and "<name>.bias", "<name>.scale" when there) as n_mat matrices [n_out][n_in]. An optional absent
// tensor leaves w->type NULL. The weight is prepared for the tier when the model opens, so w must live in ch_model_alloc memory.
int ch_model_bind_mat(ch_model *m, ch_weight *w, size_t n_in, size_t n_out, size_t n_mat, unsigned flags, ch_error *e,
                      const char *fmt, ...) CH_PRINTF(8, 9);
// Same for rows row0 .. row0 + n_row - 1 of a matrix of n_total rows, where a file keeps several under one name. No copy. Bias
// and factor too. flags: CH_BIND_OPTIONAL.
typedef struct ch_bind_part {
    size_t n_in, n_total, row0, n_row;
    unsigned flags;
} ch_bind_part;
int ch_model_bind_part(ch_model *m, ch_weight *w, const ch_bind_part *p, ch_error *e, const char *fmt, ...) CH_PRINTF(5, 6);
// Same for rows gathered from another bound matrix: row i of w is row[i] of the tensor (a copy is made).
int ch_model_bind_rows(ch_model *m, ch_weight *w, const ch_gguf_tensor *t, const uint32_t *row, size_t n_row, ch_error *e);
// Binds a tensor of n values under its full name as f32. Optional and absent: *v NULL.
int ch_model_bind_vec(ch_model *m, const float **v, size_t n, unsigned flags, ch_error *e, const char *fmt, ...)
    CH_PRINTF(6, 7);
// The projections of a layer's attention: attn_q, attn_k, attn_v (or one attn_qkv) and attn_output, from the sizes already set
// in b; places its keys and values and fills the layer's row. Norms of q and k are the caller's.
int ch_model_bind_attn(ch_model *m, ch_attn *b, size_t n_embd, uint32_t layer, ch_error *e);
// n_row rows of n_col values under the full name, as the file has them (norms per head or group).
int ch_model_bind_table(ch_model *m, const float **v, size_t n_col, size_t n_row, ch_error *e, const char *fmt, ...)
    CH_PRINTF(6, 7);
int ch_model_refuse_kv(const ch_model *m, size_t width, ch_error *e); // heads of this width do not fit the cache's types
// Weights of a depthwise convolution: [n_channel][n_tap] values under the full name, unit dimensions anywhere; *v has them
// transposed, [n_tap][n_channel], as the kernels read them.
int ch_model_bind_conv(ch_model *m, const float **v, size_t n_tap, size_t n_channel, ch_error *e, const char *fmt, ...)
    CH_PRINTF(6, 7);
const ch_gguf_tensor *ch_model_find(ch_model *m, const char *fmt, ...) CH_PRINTF(2, 3); // and marks it as used
void ch_model_ignore_prefix(ch_model *m, const char *fmt, ...) CH_PRINTF(2, 3); // tensors that this build leaves out on purpose

#endif
