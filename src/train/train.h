// train: everything that learns from data: the tokenizer's merges, models' weights. Beside the engine: it never serves.
//
// Threading: calls belong to one thread each. Ownership: as said per function.
#ifndef CH_TRAIN_H
#define CH_TRAIN_H

#include "text/text.h"

// ---- tokenizer ----------------------------------------------------------------------------------------------------------
// Byte-level BPE over the words that a pre-tokenizer cuts. Deterministic: of pairs equally frequent the one whose spelling is
// smaller in bytes (left part, then right part) merges first. Merging ends early when no pair occurs twice.
typedef struct ch_train_bpe_params {
    int32_t n_vocab;             // tokens in all, special ones included; at least 256 + n_special, at most 2^20
    const char *pre;             // tokenizer.ggml.pre
    const char *const *path;     // [n_path] training files, as for models (data.h); chats as the template renders them
    size_t n_path;
    const char *const *special;  // [n_special] spellings; placed after the merges, in this order; text is cut at them
    size_t n_special, n_control; // special[0..n_control) are control tokens, the rest user-defined
    const char *eos, *pad;       // spellings among special; NULL: none
    const char *template_text;   // [n_template] chat template, stored too; NULL: none, and chats are refused
    size_t n_template;
    ch_progress_fn progress; // NULL: none
    void *progress_user;
} ch_train_bpe_params;
typedef struct ch_train_bpe_info {
    uint64_t n_bytes, n_words, n_tokens; // text read, distinct words, tokens of all words after all merges
    int32_t n_merges;
} ch_train_bpe_info;
// Writes a GGUF file that holds the vocabulary alone. info: NULL allowed.
int ch_train_bpe(const char *out, const ch_train_bpe_params *p, ch_train_bpe_info *info, ch_error *e);

// ---- texts to measure with ------------------------------------------------------------------------------------------------
// The texts of a file, tokenised whole, as training reads them (docs/DATA.md: JSONL or plain). Counted are a plain text's tokens, and
// of a chat what the model writes itself: thinking, answers and calls of all turns, with their end tokens.
typedef struct ch_train_texts ch_train_texts;
typedef struct ch_train_text {
    const int32_t *token;   // [n]
    const uint16_t *weight; // [n] 0: this token does not count
    size_t n;               // at least 2
} ch_train_text;
// template_text: for chats; NULL: chats are refused. vocab is not needed afterwards.
int ch_train_texts_open(ch_train_texts **t, const char *path, const ch_vocab *vocab, const char *template_text, size_t n_template,
                        ch_progress_fn progress, void *user, ch_error *e);
void ch_train_texts_close(ch_train_texts **t);
size_t ch_train_texts_n(const ch_train_texts *t);
ch_train_text ch_train_texts_get(const ch_train_texts *t, size_t i); // points into t

// ---- models -------------------------------------------------------------------------------------------------------------
// Shape of a model to be trained; 0 where a family has no such part.
typedef struct ch_train_shape {
    char arch[32];          // as in files: general.architecture
    int32_t n_vocab, n_ctx; // n_ctx: context length that the file states
    int32_t n_layer, n_embd;
    bool tied;              // the embedding is the output matrix too
    double eps;
    int32_t n_head, n_head_kv, d_head, n_rot, attn_interval;
    double rope_base;
    int32_t ssm_heads_k, ssm_heads_v; // delta net: key and value heads; state space: groups and heads
    int32_t ssm_d_state, ssm_d_head, ssm_conv; // d_head: state space only
    int32_t n_ff, n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
    double expert_scale;
    int32_t n_mtp;          // blocks that predict the token after next: 0 or 1
    char pattern[128];      // one letter per layer, where a family mixes kinds freely: M state space, * attention, E experts, - dense
} ch_train_shape;

// Low-rank adapters (LoRA) beside the matrices of a model that stays as it is: y = W x + alpha / rank B A x.
enum { CH_TRAIN_MAX_TARGETS = 64, CH_TRAIN_MAX_RANK = 1024 };
typedef struct ch_train_adapters {
    int32_t rank; // 0: none
    double alpha;
    const char *target[CH_TRAIN_MAX_TARGETS]; // tensors, without "blk.N." and ".weight"; none: a choice per family
    size_t n_target;
} ch_train_adapters;

typedef struct ch_train_model ch_train_model;

// ---- runs ---------------------------------------------------------------------------------------------------------------
// A run is a configuration (a JSON file, docs/TRAINING.md) and a folder: checkpoint, log.jsonl, loss.svg, model.gguf (or
// adapter.gguf) at the end. Where the folder holds a checkpoint, the run goes on from it, and ends with the same bits as if it had never stopped.
typedef struct ch_train_options {
    const char *config;
    const char *out;   // folder, instead of the configuration's; NULL: that one
    int n_threads;     // 0: as the configuration says
    int64_t n_steps;   // stop there, instead of the configuration's; 0: that one. The schedule stays as it is
    bool restart;      // a checkpoint that is there is not used (and overwritten)
    bool mpi;          // one of the processes that an MPI launcher started, which share the rows of each batch. All are called
                       // alike and end alike; of an error one has the message, the others an empty one
} ch_train_options;

typedef struct ch_train_report {
    int rank;               // of this process; 0 alone
    uint64_t step, n_steps; // steps done
    uint64_t n_tokens;      // places of rows seen so far, padding included
    double loss, mtp_loss;  // nats per weighted token of this step; mtp_loss NAN: no such block
    double balance;         // 1 when all experts of all layers get equal shares; 0: no experts
    double rate, norm;      // learning rate, length of the gradient before clipping
    double eval_loss, eval_mtp_loss; // of this step; NAN: not evaluated
    double seconds, tokens_per_s, seconds_left; // of this process; speed over the last steps
    bool saved;             // a checkpoint was written
} ch_train_report;
// After every step, from the calling thread. False, in any process: write a checkpoint and stop (CH_ECANCELLED).
typedef bool (*ch_train_report_fn)(void *user, const ch_train_report *r);
// progress: of reading the data; NULL allowed. A loss or gradient that is no number stops the run: e names step and block.
int ch_train_run(const ch_train_options *o, ch_progress_fn progress, ch_train_report_fn report, void *user, ch_error *e);
// Writes the model of the run's checkpoint, matrices as `type` (f32, f16, bf16, q8_0). average: the running average of the
// weights instead of the last ones, where the run keeps one. A run with adapters writes these alone (as f32), or with merge the
// model with them added to its matrices. The run may be going on meanwhile.
int ch_train_export(const ch_train_options *o, const char *path, ch_type type, bool average, bool merge, ch_error *e);
// Keys of the configuration, with defaults, for people.
bool ch_train_config_help(ch_buf *out);

#endif
