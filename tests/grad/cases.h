// Cases for gradients: a block or a whole model as a function of its parameters and inputs. cases.c is built twice, with float
// as in the library and with double (names with 64).
#ifndef GRAD_CASES_H
#define GRAD_CASES_H

#include "base/base.h"

typedef struct grad_sizes {
    const char *name;
    size_t n_param, n_in; // values the loss depends on; n_in 0: tokens only
} grad_sizes;
int grad_n_cases(void);
void grad_get(int id, grad_sizes *s);
void grad_start(int id, double *w, double *x); // random values to start from
// The loss; gw and gx (NULL: not wanted) are set.
double grad_run(int id, const double *w, const double *x, double *gw, double *gx);
double grad_run64(int id, const double *w, const double *x, double *gw, double *gx);

// Losses of the next n steps of a trainer, computed in double from its present state, which it leaves alone; batches are taken
// from its feed, which is set back.
struct ch_trainer;
void grad_curve64(const struct ch_trainer *t, int n, double *loss);

#endif
