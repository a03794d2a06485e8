// train: everything that learns from data: the tokenizer's merges, models' weights. Beside the engine: it never serves.
//
// Threading: calls belong to one thread each. Ownership: as said per function.
#ifndef CH_TRAIN_H
#define CH_TRAIN_H

#include "text/text.h"

// ---- tokenizer ----------------------------------------------------------------------------------------------------------
// Byte-level BPE over the words that a pre-tokenizer cuts. Deterministic: of pairs equally frequent the one whose spelling is
// smaller in bytes (left part, then right part) merges first.
typedef struct ch_train_bpe_params {
    int32_t n_vocab;             // tokens in all, special ones included; at least 256 + n_special, at most 2^20
    const char *pre;             // tokenizer.ggml.pre
    const char *const *path;     // [n_path] text files; of *.jsonl the strings "text", "content", "reasoning_content" and names,
    size_t n_path;               //          arguments and descriptions in tools and calls
    const char *const *special;  // [n_special] spellings, the first ones control tokens, see n_control
    size_t n_special, n_control; // special[0..n_control) control, the rest user-defined; placed after the merges, in this order
    const char *eos, *pad;       // spellings among special; NULL: none
    const char *template_text;   // [n_template] chat template to store; NULL: none
    size_t n_template;
    ch_progress_fn progress;
    void *progress_user;
} ch_train_bpe_params;
typedef struct ch_train_bpe_info {
    uint64_t n_bytes, n_words, n_tokens; // text read, distinct words, tokens of the text after all merges
    int32_t n_merges;
} ch_train_bpe_info;
// Writes a GGUF file that holds the vocabulary alone. info: NULL allowed.
int ch_train_bpe(const char *out, const ch_train_bpe_params *p, ch_train_bpe_info *info, ch_error *e);

#endif
