// train, private: the configuration of a run.
#ifndef CH_TRAIN_CONFIG_H
#define CH_TRAIN_CONFIG_H

#include "train/data.h"
#include "train/train.h"

enum { CH_TRAIN_MAX_SOURCES = 64 };
enum { CH_TRAIN_COSINE, CH_TRAIN_WSD, CH_TRAIN_CONSTANT };

typedef struct ch_train_config {
    ch_train_shape model;
    const char *from; // GGUF file to begin with, which has the shape too; NULL: model and random weights
    ch_train_adapters adapters;
    const char *tokenizer, *chat_template; // files; tokenizer NULL: from; chat_template NULL: the tokenizer's
    const char *name;                      // general.name of the exported file
    ch_train_source source[CH_TRAIN_MAX_SOURCES], eval_source[CH_TRAIN_MAX_SOURCES];
    size_t n_source, n_eval_source;
    ch_train_weights weights;
    int32_t n_row, n_ctx;
    double seed; // of data and first weights; whole, below 2^53
    const char *cache;
    int32_t eval_every, eval_batches;
    int32_t n_steps, warmup, decay_steps;
    const char *schedule;
    int schedule_kind; // CH_TRAIN_COSINE ...
    double rate, rate_end; // rate_end: share of rate at the end
    double beta1, beta2, adam_eps, weight_decay, clip, average;
    double balance, mtp_weight;
    bool recompute, half;
    const char *method, *noise;
    bool mezo, noise_signs; // by method and noise
    double mezo_eps;
    const char *out, *export_type;
    int32_t n_threads, save_every;
    ch_arena *arena;
} ch_train_config;

int ch_train_config_read(ch_train_config *c, const char *path, ch_error *e);
int ch_train_config_parse(ch_train_config *c, const char *text, size_t n, const char *name, ch_error *e); // name: for errors
void ch_train_config_free(ch_train_config *c);
// Learning rate of a step, counted from 0.
double ch_train_rate(const ch_train_config *c, uint64_t step);

#endif
