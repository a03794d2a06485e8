// Training data: text and JSONL files in, rows of tokens with loss weights out. Private to src/train.
//
// Source files, by name: *.jsonl holds one record per line, everything else is plain text whose documents are separated by
// empty lines doubled ("\n\n\n"). Records:
//   {"messages": [...], "tools": [...]?, "enable_thinking": bool?, ...}  a chat, rendered through the template; any further
//       key is a variable of the template. An assistant message may carry "weight": W (times the weight of its kind).
//   {"text": "...", "spans": [[begin, end, weight], ...]?, "weight": W?}  text; spans are byte ranges with their own weight.
// A wrong record is an error that names the file and the line.
//
// Rows: whole documents are packed into rows of n_ctx + 1 tokens; only a document longer than that is cut, its next piece
// beginning with the last token of the one before. Nothing crosses a border of documents: weight is 0 there.
// One stream of rows for everybody: the order depends on files, vocabulary, template, n_ctx and seed alone. Of every n_ranks *
// n_row rows, rank r gets rows [r * n_row, (r + 1) * n_row).
//
// Threading: one ch_train_data belongs to one thread. Ownership: batches point into it and hold until the next call.
#ifndef CH_TRAIN_DATA_H
#define CH_TRAIN_DATA_H

#include "text/text.h"

typedef struct ch_train_batch {
    size_t n_row, n_ctx;
    const int32_t *token; // [n_row][n_ctx + 2] inputs t = 0 .. n_ctx - 1, targets t + 1, second targets t + 2 (MTP); never negative
    const float *weight;  // [n_row][n_ctx] loss weight of target t + 1; 0 across documents and in padding
    const int32_t *doc;   // [n_row][n_ctx + 2] number of the document in its row, -1: padding
} ch_train_batch;

typedef struct ch_train_source {
    const char *path;
    double share; // copies of each document per epoch: 1 all, 2 twice, 0.25 another quarter each epoch; 0..1000
    float weight; // factor of all its loss weights, 0..100
} ch_train_source;

// Loss weights by kind of text, each 0..100.
typedef struct ch_train_weights {
    float assistant; // what the model has to write: answer, thinking and calls of turns after the last user message, to the end token
    float history;   // the same of earlier turns
    float user;      // user messages and tool results
    float system;    // everything before the first user message: system text, tool definitions
    float role;      // what the template writes between them, and the beginning of an answer that generation is given
    float text;      // records of plain text
    float end;       // the token after a plain text (end of text)
} ch_train_weights;
void ch_train_weights_init(ch_train_weights *w); // 1, 0.25, 0.1, 0.05, 0.1, 1, 0.3

typedef struct ch_train_data_params {
    const ch_train_source *source; // [n_source] copied
    size_t n_source;               // 1..64
    const ch_vocab *vocab;         // must outlive the reader
    const char *template_text;     // [n_template] Jinja source; NULL: chats are refused
    size_t n_template;
    ch_train_weights weights;
    size_t n_row, n_ctx; // of one rank's batch; 1..65536, 8..1048576, product at most 2^26
    int rank, n_ranks;   // 0, 1 for a single process
    uint64_t seed;
    const char *cache; // file with everything tokenised: used when it fits, else written (atomically); NULL: none
    ch_progress_fn progress; // NULL: none
    void *progress_user;
} ch_train_data_params;

typedef struct ch_train_data ch_train_data;
int ch_train_data_open(ch_train_data **d, const ch_train_data_params *p, ch_error *e);
void ch_train_data_close(ch_train_data **d);
int ch_train_data_next(ch_train_data *d, ch_train_batch *b, ch_error *e); // endless: epochs follow each other

typedef struct ch_train_data_info {
    uint64_t n_docs, n_tokens; // of all sources, once each
    uint64_t n_rows;           // of the present epoch
    double fill;               // share of the present epoch's places that hold tokens
    bool from_cache;
    uint64_t fingerprint;      // of documents, tokens, weights, n_ctx
} ch_train_data_info;
void ch_train_data_get_info(const ch_train_data *d, ch_train_data_info *info);

// Place in the stream of rows. Setting it makes the next batch exactly the one that followed when it was taken; another
// fingerprint is refused (CH_ESTATE). n_row and n_ranks may differ: the stream is the same.
typedef struct ch_train_data_state {
    uint64_t seed, epoch, index; // index: rows of the epoch already given out, over all ranks
    uint64_t fingerprint;
} ch_train_data_state;
void ch_train_data_get_state(const ch_train_data *d, ch_train_data_state *s);
int ch_train_data_set_state(ch_train_data *d, const ch_train_data_state *s, ch_error *e);

#endif
