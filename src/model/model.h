// model: from a GGUF file to something that can step: picks the architecture, binds tensors strictly, packs weights for the
// kernel tier, lays out sequence state, and runs batches. It knows no token's text and no architecture by name (the
// registry lives in arch/).
//
// Threading: one driver thread at a time calls ch_model_forward; the workers are the model's own. Ownership: the model owns
// the mapped file, packed weights, scratch and workers.
#ifndef CH_MODEL_H
#define CH_MODEL_H

#include "base/base.h"
#include "gguf/gguf.h"
#include "seq/seq.h"

typedef struct ch_model ch_model;

typedef struct ch_model_params {
    const char *tier; // "ref", "avx2", "avx512"; NULL: the best this processor has
    int n_threads;    // 0: ch_cpu_default_threads()
    int n_batch;      // most rows (tokens) of one step; 0: 512
    int n_seq;        // most segments of one step; 0: 8
    bool meta_only;   // read metadata and check tensors, no weights: ch_model_info and the plan work, forward does not
    bool no_repack;   // leave weights in the mapped file where the tier can read them so
    ch_progress_fn progress; // NULL: silent
    void *progress_user;
} ch_model_params;

// Errors name key or tensor, expected and found. Unknown architectures name themselves and list the known ones.
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
    int32_t n_vocab, n_layer, n_embd, n_ctx_train, n_head, n_head_kv, n_expert, n_expert_used;
    uint64_t n_params;
    size_t weight_bytes;       // in the file
    size_t packed_bytes;       // of the tier's own copies (0 with meta_only)
    size_t active_bytes;       // weights read for one token
    size_t kv_bytes_per_token; // over all layers
    size_t state_bytes;        // per sequence, over all layers
    const ch_layer_info *layer; // [n_layer]
    const char *tier;           // kernel tier in use
    int n_threads, n_batch, n_seq;
} ch_model_info;
const ch_model_info *ch_model_get_info(const ch_model *m);
const ch_seq_plan *ch_model_plan(const ch_model *m);

// One step. Rows are tokens; the rows of a segment follow each other and continue its sequence from its length. A sequence
// appears in one segment only. Prefill and decode of many sequences may mix.
typedef struct ch_segment {
    ch_seq *seq;
    int32_t n_tok; // >= 1
} ch_segment;
typedef struct ch_batch {
    const int32_t *token; // [n_row], n_row = sum of n_tok <= n_batch; ids in [0, n_vocab)
    int32_t n_row;
    const ch_segment *seg;
    int32_t n_seg;
    const int32_t *out_row; // [n_out] rows whose logits are wanted, ascending
    int32_t n_out;
} ch_batch;
// logits: [n_out][n_vocab]. On success every sequence has advanced; on failure none has (its recurrent slab is undefined
// only after CH_EINTERNAL). Errors: CH_ERANGE (bad id or shape of the batch), CH_EBUSY / CH_ELIMIT (pages, context).
int ch_model_forward(ch_model *m, const ch_batch *b, float *logits, ch_error *e);

// Called with named intermediate rows of each step (for `chimere trace`); NULL turns it off.
typedef void (*ch_trace_fn)(void *user, const char *name, int layer, const float *x, size_t n_row, size_t n_col);
void ch_model_set_trace(ch_model *m, ch_trace_fn fn, void *user);

#endif
