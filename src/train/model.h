// train, private: a model as a list of residual sub-layers over one parameter vector, and one row of a batch through it.
//
//   x = embed(token);  per sub-layer: x += block(rms(x));  loss = cross entropy of head(rms(x))
//
// The structs hold sizes and places only, so that the float and the double build share them.
#ifndef CH_TRAIN_MODEL_H
#define CH_TRAIN_MODEL_H

#include "train/part.h"
#include "train/train.h"

typedef enum ch_train_kind { CH_TRAIN_ATTN, CH_TRAIN_GDN, CH_TRAIN_SSD, CH_TRAIN_FFN, CH_TRAIN_MOE } ch_train_kind;

typedef struct ch_train_sub {
    ch_train_kind kind;
    uint32_t layer; // as in the tensors' names
    ch_train_norm norm;
    union {
        ch_train_attn attn;
        ch_train_gdn gdn;
        ch_train_ssd ssd;
        ch_train_ffn ffn;
        ch_train_moe moe;
    } u;
} ch_train_sub;
const char *ch_train_kind_name(ch_train_kind k);

// What a tensor starts from, and how its values stand in the file.
typedef enum ch_train_init { CH_TRAIN_NORMAL, CH_TRAIN_ONES, CH_TRAIN_ZEROS, CH_TRAIN_CONV, CH_TRAIN_DECAY, CH_TRAIN_DT_BIAS } ch_train_init;

typedef struct ch_train_tensor {
    char name[64];
    size_t off, n; // values
    uint32_t n_dims;
    uint64_t ne[4]; // as in the file: ne[0] contiguous
    ch_train_init init; // CH_TRAIN_DECAY: log of the value here, minus the value in the file
    float std;      // of CH_TRAIN_NORMAL
    bool decay;     // weight decay applies: matrices
    bool keep_f32;  // never stored in a smaller type
} ch_train_tensor;

typedef struct ch_train_mtp {
    bool on;
    ch_train_norm enorm, hnorm, head_norm;
    ch_train_mat eh_proj; // [d][2 d]
    size_t first;         // sub-layers [first, n_sub) are its own
} ch_train_mtp;

struct ch_train_model {
    ch_train_shape shape;
    ch_train_tensor *tensor;
    size_t n_tensor, cap_tensor;
    ch_train_mat *mat; // every matrix that products read, for the transposed copies
    size_t n_mat, cap_mat;
    ch_train_sub *sub;
    size_t n_sub, n_trunk; // trunk first
    size_t n_param;
    ch_train_mat embd, head; // the same when tied
    ch_train_norm norm;
    ch_train_mtp mtp;
    // Low-rank adapters (ch_train_adapt): their tensors lie behind those of the model, and they alone are trained.
    ch_train_lora lora;
    size_t n_frozen, n_frozen_tensor, n_frozen_mat; // all 0 without adapters
    bool failed; // out of memory while building
};

// Fills tensors, matrices and sub-layers for the shape (families.c). The model is zeroed but for shape.
int ch_train_build(ch_train_model *m, ch_error *e);
int ch_train_put_keys(const ch_train_model *m, ch_gguf_writer *w);
void ch_train_model_free(ch_train_model *m);
// A tensor behind the others; its place and count are set here. Returns the place.
size_t ch_train_add_tensor(ch_train_model *m, const ch_train_tensor *t);
void ch_train_add_mats(ch_train_model *m, size_t off, size_t n_out, size_t n_in, size_t n_mat); // that products read

// Adapters for all tensors that the targets name; the rest of the model is frozen from now on (adapt.c). mtp: in the MTP block too.
int ch_train_adapt(ch_train_model *m, const ch_train_adapters *a, bool mtp, ch_error *e);

// The shape of the model in a file, and its weights (load.c). Whatever the trainer has no place for is an error.
int ch_train_read_shape(ch_train_shape *s, const ch_gguf *g, ch_error *e);
// g lies in a mapped file.
int ch_train_read_weights(const ch_train_model *m, const ch_gguf *g, float *w, ch_error *e);

typedef struct ch_train_row_args {
    const int32_t *token; // [n_tok + 1]
    const float *weight;  // [n_tok]
    double scale;         // of the loss's gradient: 1 / sum of the weights of the batch
    double mtp_weight;    // of the MTP loss beside the main one
    bool recompute;       // keep only the sub-layers' inputs, run forward again on the way back
    real *logits;         // [n_tok][n_vocab] wanted, or NULL; then mtp_logits may be wanted too
    real *mtp_logits;
} ch_train_row_args;
typedef struct ch_train_row_result {
    double loss, mtp_loss; // sums of weight * nats
    double mtp_total;      // sum of the weights that count for MTP
    int bad_sub;           // sub-layer with the first value that is no number, -1: none, n_sub: the head
} ch_train_row_result;
// One row forward and, where ctx->grad is set, backward. In a dry run only c->peak is filled.
void ch_train_row(ch_train_ctx *c, const ch_train_model *m, const ch_train_row_args *a, ch_train_row_result *r);
void ch_train_rope_table(const ch_train_shape *s, size_t n_ctx, real *cs); // [n_ctx][n_rot / 2] pairs
// Matrices [begin, end) of m->mat from w to wt.
void ch_train_transpose_all(const ch_train_ctx *c, const ch_train_model *m, const real *w, real *wt, size_t begin, size_t end);

#endif
