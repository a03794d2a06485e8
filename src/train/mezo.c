// MeZO (Malladi et al. 2023): steps along random directions, from the losses alone. The direction is made anew from step and seed
// whenever it is needed, so that a step holds the weights, once, and what one sub-layer needs to run forward.
#include "train/trainer.h"

enum { BLOCK = 4096 }; // parameters per key; a multiple of CH_TRAIN_GRAIN

typedef struct move_job {
    ch_trainer *t;
    ch_train_move_args args;
    uint64_t seed;
} move_job;

static void move_worker(void *arg, int worker, int n_workers) {
    const move_job *j = arg;
    ch_trainer *t = j->t;
    size_t begin, end;
    ch_pool_split((t->n_trained + BLOCK - 1) / BLOCK, 1, worker, n_workers, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        const uint64_t place = i;
        const size_t at = i * BLOCK, n = t->n_trained - at < BLOCK ? t->n_trained - at : BLOCK;
        ch_train_move(&j->args, ch_hash64(&place, sizeof place, j->seed), n, t->decay + at / CH_TRAIN_GRAIN, t->w + t->model.n_frozen + at);
    }
}

// w += along z; with decay and down: w = (w + along z) (1 - decay) - down z.
static void move(ch_trainer *t, double along, double down, double decay) {
    const uint64_t what[2] = {(uint64_t)t->cfg->seed, t->step};
    move_job j = {.t = t, .args = {along, down, decay, t->cfg->noise_signs}, .seed = ch_hash64(what, sizeof what, 0x6d657a6f)};
    ch_pool_run(t->pool, move_worker, &j);
}

// What a gradient would be of: the mean loss over the batch's targets, that of MTP by its factor, and the experts' balance.
static double objective(const ch_trainer *t, const ch_train_totals *s) {
    return s->weight > 0 ? (s->loss + t->cfg->mtp_weight * s->mtp_loss) / s->weight + t->cfg->balance * s->aux : 0;
}

int ch_trainer_step_mezo(ch_trainer *t, const ch_train_load *l, double rate, ch_train_totals *sum, double *slope, ch_error *e) {
    const double eps = t->cfg->mezo_eps, clip = t->cfg->clip;
    ch_train_totals plus = {0}, minus = {0};
    move(t, eps, 0, 0);
    int rc = ch_trainer_losses(t, l, &plus, e);
    if (rc) return rc;
    move(t, -2 * eps, 0, 0);
    rc = ch_trainer_losses(t, l, &minus, e);
    if (rc) return rc;
    *slope = (objective(t, &plus) - objective(t, &minus)) / (2 * eps);
    const double g = clip > 0 && fabs(*slope) > clip ? copysign(clip, *slope) : *slope;
    move(t, eps, rate * g, rate * t->cfg->weight_decay);
    *sum = (ch_train_totals){.loss = (plus.loss + minus.loss) / 2, .mtp_loss = (plus.mtp_loss + minus.mtp_loss) / 2,
                             .mtp_weight = plus.mtp_weight, .aux = (plus.aux + minus.aux) / 2, .weight = plus.weight};
    return 0;
}
