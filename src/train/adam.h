// train, private: the optimizer's arithmetic.
#ifndef CH_TRAIN_ADAM_H
#define CH_TRAIN_ADAM_H

#include "train/real.h"

enum { CH_TRAIN_GRAIN = 16 }; // values that share a decay flag; n is a multiple of it

typedef struct ch_train_adam_args {
    double rate, beta1, beta2, eps, decay;
    double scale;  // of the gradient: clipping
    uint64_t step; // counted from 1
} ch_train_adam_args;
void ch_train_adam(const ch_train_adam_args *a, size_t n, const uint8_t *decay, const real *g, real *w, real *m, real *v);
void ch_train_average(real keep, size_t n, const real *w, real *mean); // mean = keep mean + (1 - keep) w
// MeZO: w = (w + along z) (1 - decay) - down z, decay where the flag is set; z, of mean 0 and deviation 1, follows from key and place
// in the stretch (n < 2^32). signs: z is 1 or -1; else it is normal.
typedef struct ch_train_move_args {
    double along, down, decay;
    bool signs;
} ch_train_move_args;
void ch_train_move(const ch_train_move_args *a, uint64_t key, size_t n, const uint8_t *decay, real *w);
double ch_train_sum_squares(const real *x, size_t n);

#endif
