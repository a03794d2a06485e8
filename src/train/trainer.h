// train, private: a model in training: parameters, moments, workers. One thread calls it; it runs on a pool of its own.
#ifndef CH_TRAIN_TRAINER_H
#define CH_TRAIN_TRAINER_H

#include "train/adam.h"
#include "train/config.h"
#include "train/model.h"
#include "train/ranks.h"

// Where batches come from: the data reader, or a test.
typedef struct ch_train_feed {
    void *user;
    int (*next)(void *user, ch_train_batch *b, ch_error *e);
    void (*get_state)(void *user, ch_train_data_state *s);
    int (*set_state)(void *user, const ch_train_data_state *s, ch_error *e);
    ch_train_ranks ranks; // several: batches hold this rank's n_row / ranks.n rows
} ch_train_feed;

typedef struct ch_train_worker {
    float *grad; // [n_trained]
    float *sink, *low; // as in ctx; NULL without adapters
    float *turn;       // as in ctx; NULL where there are transposed copies
    uint8_t *stack;
    size_t n_stack; // bytes
    ch_train_ctx ctx;
} ch_train_worker;

typedef struct ch_trainer {
    const ch_train_config *cfg;
    ch_train_model model;
    ch_train_feed feed;
    ch_kern kern;
    ch_pool *pool;
    float *w, *wt;                   // [n_param]: the frozen ones, then those that are trained. With MeZO wt, moments and gradients are NULL
    size_t n_trained;                // n_param - model.n_frozen
    float *moment, *square, *mean;   // [n_trained]; mean: running average, NULL: none is kept
    uint8_t *decay;                  // [n_trained / CH_TRAIN_GRAIN]
    uint64_t base_hash;              // of the frozen parameters
    float *rope;
    ch_train_worker *worker; // [n_worker]
    int n_worker;
    size_t n_row;            // of a batch, here: this rank's
    size_t n_block;          // stretches of the parameters that are trained
    double *block_sum;       // [n_block] squares of the gradient
    uint64_t step, n_tokens; // done
    // of a batch
    int32_t *start;  // [n_row][n_ctx]
    float *weight;   // [n_row][n_ctx]
    ch_train_row_result *result; // [n_row]
    double *aux;                 // [n_row]
} ch_trainer;

typedef struct ch_train_step {
    double loss, mtp_loss, balance, rate, norm;
} ch_train_step;

// A batch, the sum of its weights over all ranks; and sums over batches.
typedef struct ch_train_load {
    ch_train_batch b;
    double weight;
} ch_train_load;
typedef struct ch_train_totals {
    double loss, mtp_loss, mtp_weight, aux; // of the rows
    double weight;
} ch_train_totals;
int ch_trainer_losses(ch_trainer *t, const ch_train_load *l, ch_train_totals *sum, ch_error *e); // forward only; added to sum
// A step of MeZO (mezo.c). sum: in the middle of the two points; slope: of the objective between them.
int ch_trainer_step_mezo(ch_trainer *t, const ch_train_load *l, double rate, ch_train_totals *sum, double *slope, ch_error *e);

// n_vocab: of the tokenizer. The feed may be empty for export. cfg must outlive the trainer. With several ranks, cfg->n_row is a
// multiple of their number, and all of them make the same calls of step and eval; these fail on all alike.
int ch_trainer_open(ch_trainer **t, const ch_train_config *cfg, int32_t n_vocab, const ch_train_feed *feed, int n_threads, ch_error *e);
void ch_trainer_close(ch_trainer **t);
// The weights to begin with, instead of random ones: those of a model file of the same shape.
int ch_trainer_set_base(ch_trainer *t, const ch_gguf *g, ch_error *e);
int ch_trainer_step(ch_trainer *t, ch_train_step *s, ch_error *e); // one batch
// Losses of n batches of another feed, forward only.
int ch_trainer_eval(ch_trainer *t, const ch_train_feed *feed, int n, double *loss, double *mtp_loss, ch_error *e);
size_t ch_trainer_bytes(const ch_trainer *t); // memory held

int ch_trainer_save(const ch_trainer *t, const char *path, ch_error *e);
int ch_trainer_load(ch_trainer *t, const char *path, ch_error *e); // feed set too, when there is one
// A checkpoint's bytes; name: for errors. When they are refused, nothing has changed.
int ch_trainer_restore(ch_trainer *t, const uint8_t *data, size_t size, const char *name, ch_error *e);
// The whole model, adapters merged. tokenizer: file whose tokenizer.* keys are copied; tpl: chat template instead of its own (NULL: that one).
int ch_trainer_export(const ch_trainer *t, const char *path, ch_type type, bool average, const ch_gguf *tokenizer, const char *tpl,
                      size_t n_tpl, ch_error *e);
int ch_trainer_export_adapter(const ch_trainer *t, const char *path, bool average, ch_error *e); // of a trainer with adapters

// First weights of a model: every tensor from a stream of its own, so that a change elsewhere leaves it.
void ch_train_init_weights(const ch_train_model *m, uint64_t seed, float *w);

// Points (x, y) of curves as an SVG drawing with a logarithmic y axis.
typedef struct ch_train_curve {
    const char *name;
    const double *x, *y; // [n]
    size_t n;
} ch_train_curve;
int ch_train_plot(const char *path, const char *title, const ch_train_curve *curve, size_t n_curve, ch_error *e);

#endif
