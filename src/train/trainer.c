// Training steps: rows of the batch over the workers, each with a gradient of its own; then the sum, its length, AdamW.
//
// A worker takes rows worker, worker + n_worker, ...; the gradients are added up in the order of the workers. So a step gives the
// same bits every time with the same number of threads. Ranks are processes that do the same with their part of the rows, add up
// their sums, and then all take the same step.
#include "train/trainer.h"

#include <stdio.h>

enum { BLOCK = 4096 }; // values per stretch; a multiple of CH_TRAIN_GRAIN

void ch_train_init_weights(const ch_train_model *m, uint64_t seed, float *w) {
    for (size_t i = 0; i < m->n_tensor; i++) {
        const ch_train_tensor *t = &m->tensor[i];
        ch_rng r;
        ch_rng_seed(&r, ch_hash64(t->name, strlen(t->name), seed));
        for (size_t j = 0; j < t->n; j++) {
            float v = 0;
            switch (t->init) {
            case CH_TRAIN_NORMAL: v = t->std * ch_rng_normal(&r); break;
            case CH_TRAIN_ONES: v = 1; break;
            case CH_TRAIN_ZEROS: break;
            case CH_TRAIN_CONV: v = (float)((2 * ch_rng_f64(&r) - 1) / sqrt((double)t->ne[0])); break;
            case CH_TRAIN_DECAY: v = (float)log(0.5 + 5.5 * ch_rng_f64(&r)); break;
            case CH_TRAIN_DT_BIAS: v = (float)log(expm1(0.005 * exp(ch_rng_f64(&r) * log(20.0)))); break; // step 0.005 to 0.1
            }
            w[t->off + j] = v;
        }
    }
}

static void set_decay(ch_trainer *t) {
    for (size_t i = 0; i < t->model.n_tensor; i++) {
        const ch_train_tensor *x = &t->model.tensor[i];
        if (x->off < t->model.n_frozen || !x->decay) continue;
        const size_t at = x->off - t->model.n_frozen;
        memset(t->decay + at / CH_TRAIN_GRAIN, 1, (at + x->n - 1) / CH_TRAIN_GRAIN - at / CH_TRAIN_GRAIN + 1);
    }
}

// ---- opening ----------------------------------------------------------------------------------------------------------------------
static void set_ctx(const ch_trainer *t, ch_train_worker *w, bool dry) {
    w->ctx = (ch_train_ctx){.kern = &t->kern, .half = t->cfg->half, .w = t->w, .wt = t->wt, .grad = w->grad, .rope = t->rope, .n_tok = (size_t)t->cfg->n_ctx,
                            .turn = w->turn, .dry = dry, .base = dry ? NULL : w->stack};
    if (t->model.lora.n)
        w->ctx.frozen = t->model.n_frozen, w->ctx.sink = w->sink, w->ctx.lora = &t->model.lora, w->ctx.low = w->low;
}

static ch_train_row_args row_args(const ch_trainer *t) {
    return (ch_train_row_args){.mtp_weight = t->cfg->mtp_weight, .recompute = t->cfg->recompute};
}

// Room for the gradients that nobody reads, and for rows between an adapter's matrices.
static bool open_adapters(const ch_trainer *t, ch_train_worker *w) {
    size_t n = 0;
    for (size_t i = 0; i < t->model.n_frozen_tensor; i++)
        if (!t->model.tensor[i].decay && t->model.tensor[i].n > n) n = t->model.tensor[i].n;
    w->sink = ch_alloc_array(n, sizeof *w->sink);
    w->low = ch_alloc_aligned(2 * (size_t)t->cfg->n_ctx * t->model.lora.rank * sizeof *w->low, 64);
    return w->sink && w->low;
}

static bool open_turn(const ch_trainer *t, ch_train_worker *w) {
    size_t n_in = 0;
    for (size_t i = 0; i < t->model.n_mat; i++) n_in = t->model.mat[i].n_in > n_in ? t->model.mat[i].n_in : n_in;
    w->turn = ch_alloc_aligned(ch_train_turn_reals(n_in) * sizeof *w->turn, 64);
    return w->turn;
}

// Stack of a worker, sized by a dry run.
static int open_worker(const ch_trainer *t, ch_train_worker *w, ch_error *e) {
    if (!t->cfg->mezo) w->grad = ch_alloc_aligned(t->n_trained * sizeof *w->grad, 64);
    if ((t->cfg->mezo ? !open_turn(t, w) : !w->grad) || (t->model.lora.n && !open_adapters(t, w))) return ch_error_set(e, CH_ENOMEM, "no memory for a gradient of %zu values", t->n_trained);
    set_ctx(t, w, true);
    static const int32_t no_token[2];
    ch_train_row_args a = row_args(t);
    ch_train_row_result r;
    a.token = no_token;
    ch_train_row(&w->ctx, &t->model, &a, &r);
    w->n_stack = w->ctx.peak;
    w->stack = ch_alloc_aligned(w->n_stack, 64);
    return w->stack ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for the %zu MiB that a row needs", w->n_stack >> 20);
}

static int open_arrays(ch_trainer *t, ch_error *e) {
    const size_t n = t->n_trained, bytes = n * sizeof *t->w, all = t->model.n_param * sizeof *t->w, places = t->n_row * (size_t)t->cfg->n_ctx;
    const size_t half = (size_t)t->model.shape.n_rot / 2;
    t->n_block = (n + BLOCK - 1) / BLOCK;
    const bool grads = !t->cfg->mezo;
    t->w = ch_alloc_aligned(all, 64), t->wt = grads ? ch_alloc_aligned(all, 64) : NULL;
    t->moment = grads ? ch_alloc_aligned(bytes, 64) : NULL, t->square = grads ? ch_alloc_aligned(bytes, 64) : NULL;
    t->mean = t->cfg->average > 0 ? ch_alloc_aligned(bytes, 64) : NULL;
    t->decay = ch_alloc(n / CH_TRAIN_GRAIN + 1);
    t->block_sum = ch_alloc_array(t->n_block, sizeof *t->block_sum);
    t->rope = ch_alloc_array((size_t)t->cfg->n_ctx * half * 2, sizeof *t->rope);
    t->start = ch_alloc_array(places, sizeof *t->start), t->weight = ch_alloc_array(places, sizeof *t->weight);
    t->result = ch_alloc_array(t->n_row, sizeof *t->result), t->aux = ch_alloc_array(t->n_row, sizeof *t->aux);
    t->worker = ch_alloc_array((size_t)t->n_worker, sizeof *t->worker);
    if (!t->w || (grads && (!t->wt || !t->moment || !t->square)) || (t->cfg->average > 0 && !t->mean) || !t->decay || !t->block_sum || !t->rope || !t->start ||
        !t->weight || !t->result || !t->aux || !t->worker)
        return ch_error_set(e, CH_ENOMEM, "no memory for %zu parameters", t->model.n_param);
    ch_train_rope_table(&t->model.shape, (size_t)t->cfg->n_ctx, t->rope);
    set_decay(t);
    return 0;
}

// What follows from weights to begin with.
static void settle_weights(ch_trainer *t) {
    const size_t n = t->model.n_frozen;
    const ch_train_ctx c = {.kern = &t->kern};
    if (t->mean) memcpy(t->mean, t->w + n, t->n_trained * sizeof *t->w);
    if (n) t->base_hash = ch_hash64(t->w, n * sizeof *t->w, 1);
    if (t->wt) ch_train_transpose_all(&c, &t->model, t->w, t->wt, 0, t->model.n_frozen_mat);
}

int ch_trainer_open(ch_trainer **out, const ch_train_config *cfg, int32_t n_vocab, const ch_train_feed *feed, int n_threads, ch_error *e) {
    *out = NULL;
    ch_trainer *t = ch_alloc(sizeof *t);
    if (!t) return ch_error_set(e, CH_ENOMEM, "no memory");
    t->cfg = cfg, t->model.shape = cfg->model, t->model.shape.n_vocab = n_vocab;
    if (feed) t->feed = *feed;
    const int n_row = cfg->n_row / (t->feed.ranks.n > 1 ? t->feed.ranks.n : 1);
    t->n_row = (size_t)n_row;
    t->n_worker = n_threads < n_row ? n_threads : n_row; // more could not be given a row
    ch_cpu cpu;
    ch_cpu_detect(&cpu);
    int rc = ch_kern_init(&t->kern, &cpu, NULL, e);
    if (rc == 0) rc = ch_train_build(&t->model, e);
    if (rc == 0 && cfg->adapters.rank) rc = ch_train_adapt(&t->model, &cfg->adapters, cfg->mtp_weight > 0, e);
    t->n_trained = t->model.n_param - t->model.n_frozen;
    if (rc == 0) rc = open_arrays(t, e);
    if (rc == 0) rc = ch_pool_create(&t->pool, t->n_worker, e);
    for (int i = 0; rc == 0 && feed && i < t->n_worker; i++) rc = open_worker(t, &t->worker[i], e);
    if (rc) {
        ch_trainer_close(&t);
        return rc;
    }
    ch_train_init_weights(&t->model, (uint64_t)cfg->seed, t->w);
    settle_weights(t);
    *out = t;
    return 0;
}

int ch_trainer_set_base(ch_trainer *t, const ch_gguf *g, ch_error *e) {
    int rc = ch_train_read_weights(&t->model, g, t->w, e);
    if (rc == 0) settle_weights(t);
    return rc;
}

void ch_trainer_close(ch_trainer **out) {
    ch_trainer *t = *out;
    if (!t) return;
    ch_pool_free(&t->pool);
    for (int i = 0; t->worker && i < t->n_worker; i++) ch_free(t->worker[i].grad), ch_free(t->worker[i].stack), ch_free(t->worker[i].sink), ch_free(t->worker[i].low), ch_free(t->worker[i].turn);
    ch_train_model_free(&t->model);
    void *const all[] = {t->w, t->wt, t->moment, t->square, t->mean, t->decay, t->block_sum, t->rope, t->start, t->weight, t->result, t->aux,
                         t->worker, t};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ch_free(all[i]);
    *out = NULL;
}

size_t ch_trainer_bytes(const ch_trainer *t) {
    const size_t n_grad = t->cfg->mezo ? 0 : t->model.n_param + t->n_trained * (2 + (size_t)t->n_worker);
    size_t n = sizeof(float) * (t->model.n_param + n_grad + (t->mean ? t->n_trained : 0));
    for (int i = 0; i < t->n_worker; i++) n += t->worker[i].n_stack;
    return n;
}

// ---- a step -----------------------------------------------------------------------------------------------------------------------
typedef struct job {
    ch_trainer *t;
    const ch_train_batch *b;
    bool back;
    double scale;
    ch_train_adam_args adam;
} job;

// Starts of documents, and weights without the targets that lie in another document. Returns the sum of the weights.
static double prepare(ch_trainer *t, const ch_train_batch *b) {
    double sum = 0;
    for (size_t r = 0; r < b->n_row; r++) {
        const int32_t *doc = b->doc + r * (b->n_ctx + 2);
        for (size_t i = 0; i < b->n_ctx; i++) {
            const size_t at = r * b->n_ctx + i;
            t->start[at] = i && doc[i] == doc[i - 1] ? t->start[at - 1] : (int32_t)i;
            t->weight[at] = doc[i] == doc[i + 1] ? b->weight[at] : 0;
            sum += (double)t->weight[at];
        }
    }
    return sum;
}

static void run_rows(const job *j, int worker, int n_workers) {
    ch_trainer *t = j->t;
    ch_train_worker *w = &t->worker[worker];
    const size_t n_ctx = j->b->n_ctx;
    set_ctx(t, w, false);
    if (j->back) memset(w->grad, 0, t->n_trained * sizeof *w->grad);
    else w->ctx.grad = NULL;
    w->ctx.balance = j->back ? t->cfg->balance / t->cfg->n_row : 1.0 / t->cfg->n_row;
    for (size_t r = (size_t)worker; r < j->b->n_row; r += (size_t)n_workers) {
        ch_train_row_args a = row_args(t);
        a.token = j->b->token + r * (n_ctx + 2), a.weight = t->weight + r * n_ctx, a.scale = j->scale;
        w->ctx.start = t->start + r * n_ctx, w->ctx.aux = 0;
        ch_train_row(&w->ctx, &t->model, &a, &t->result[r]);
        t->aux[r] = w->ctx.aux;
        CH_ASSERT(w->ctx.peak <= w->n_stack);
    }
}

static void block_range(const ch_trainer *t, size_t i, size_t *at, size_t *n) {
    *at = i * BLOCK;
    *n = t->n_trained - *at < BLOCK ? t->n_trained - *at : BLOCK;
}

// Sum of the workers' gradients into the first one's.
static void add_gradients(const job *j, int worker, int n_workers) {
    ch_trainer *t = j->t;
    size_t begin, end, at, n;
    ch_pool_split(t->n_block, 1, worker, n_workers, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        block_range(t, i, &at, &n);
        for (int k = 1; k < t->n_worker; k++) ch_train_add(t->worker[k].grad + at, n, t->worker[0].grad + at);
    }
}

static void square_worker(void *arg, int worker, int n_workers) {
    ch_trainer *t = ((job *)arg)->t;
    size_t begin, end, at, n;
    ch_pool_split(t->n_block, 1, worker, n_workers, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        block_range(t, i, &at, &n);
        t->block_sum[i] = ch_train_sum_squares(t->worker[0].grad + at, n);
    }
}

static void update(const job *j, int worker, int n_workers) {
    ch_trainer *t = j->t;
    size_t begin, end, at, n;
    float *w = t->w + t->model.n_frozen;
    ch_pool_split(t->n_block, 1, worker, n_workers, &begin, &end);
    const double keep = fmin(t->cfg->average, (double)(1 + j->adam.step) / (double)(10 + j->adam.step)); // forgets the first weights soon
    for (size_t i = begin; i < end; i++) {
        block_range(t, i, &at, &n);
        ch_train_adam(&j->adam, n, t->decay + at / CH_TRAIN_GRAIN, t->worker[0].grad + at, w + at, t->moment + at, t->square + at);
        if (t->mean) ch_train_average((float)keep, n, w + at, t->mean + at);
    }
}

static void rows_worker(void *arg, int worker, int n_workers) {
    job *j = arg;
    ch_trainer *t = j->t;
    size_t begin, end;
    const size_t frozen = t->model.n_frozen_mat;
    ch_pool_split(t->model.n_mat - frozen, 1, worker, n_workers, &begin, &end);
    set_ctx(t, &t->worker[worker], false);
    if (t->wt) {
        ch_train_transpose_all(&t->worker[worker].ctx, &t->model, t->w, t->wt, frozen + begin, frozen + end);
        ch_pool_barrier(t->pool);
    }
    run_rows(j, worker, n_workers);
    if (!j->back) return;
    ch_pool_barrier(t->pool);
    add_gradients(j, worker, n_workers);
}

static void update_worker(void *arg, int worker, int n_workers) { update(arg, worker, n_workers); }

static int name_bad_block(const ch_trainer *t, int sub, ch_error *e) {
    if (sub >= (int)t->model.n_sub || sub < 0) return ch_error_set(e, CH_ESTATE, "step %llu: the loss is no number", (unsigned long long)t->step + 1);
    const ch_train_sub *b = &t->model.sub[sub];
    return ch_error_set(e, CH_ESTATE, "step %llu: layer %u, %s: a value that is no number", (unsigned long long)t->step + 1, b->layer,
                        ch_train_kind_name(b->kind));
}

static int name_bad_gradient(const ch_trainer *t, ch_error *e) {
    for (size_t i = t->model.n_tensor; i-- > t->model.n_frozen_tensor;) { // backward begins with the last
        const ch_train_tensor *x = &t->model.tensor[i];
        for (size_t k = 0; k < x->n; k++)
            if (!isfinite(t->worker[0].grad[x->off - t->model.n_frozen + k]))
                return ch_error_set(e, CH_ESTATE, "step %llu: the gradient of %s holds a value that is no number", (unsigned long long)t->step + 1, x->name);
    }
    return ch_error_set(e, CH_ESTATE, "step %llu: the gradient is too long for a number", (unsigned long long)t->step + 1);
}

static void reduce(const ch_trainer *t, int op, void *x, size_t n) {
    if (t->feed.ranks.n > 1) t->feed.ranks.reduce(t->feed.ranks.user, op, x, n);
}

static int next_batch(ch_trainer *t, const ch_train_feed *feed, ch_train_load *l, ch_error *e) {
    int rc = feed->next(feed->user, &l->b, e);
    if (rc == 0 && (l->b.n_row != t->n_row || l->b.n_ctx != (size_t)t->cfg->n_ctx)) rc = ch_error_set(e, CH_EINTERNAL, "a batch of another shape");
    rc = ch_ranks_agree(&t->feed.ranks, rc, e);
    if (rc) return rc;
    l->weight = prepare(t, &l->b);
    reduce(t, CH_RANKS_SUM_F64, &l->weight, 1);
    return 0;
}

// Rows of a batch, of all ranks: losses, and with `back` the gradient in the first worker's.
static int run_batch(ch_trainer *t, const ch_train_load *l, bool back, ch_train_totals *sum, ch_error *e) {
    job j = {.t = t, .b = &l->b, .back = back, .scale = l->weight > 0 ? 1 / l->weight : 0};
    ch_pool_run(t->pool, rows_worker, &j);
    double part[4] = {0}, bad = 0; // bad: the first sub-layer with a value that is no number, counted from behind
    for (size_t r = 0; r < l->b.n_row; r++) {
        const ch_train_row_result *x = &t->result[r];
        if (x->bad_sub >= 0) bad = fmax(bad, (double)t->model.n_sub + 1 - x->bad_sub);
        part[0] += x->loss, part[1] += x->mtp_loss, part[2] += x->mtp_total, part[3] += t->aux[r];
    }
    reduce(t, CH_RANKS_MAX_F64, &bad, 1);
    if (bad > 0) return name_bad_block(t, (int)t->model.n_sub + 1 - (int)bad, e);
    reduce(t, CH_RANKS_SUM_F64, part, 4);
    sum->loss += part[0], sum->mtp_loss += part[1], sum->mtp_weight += part[2], sum->aux += part[3], sum->weight += l->weight;
    if (back) reduce(t, CH_RANKS_SUM_F32, t->worker[0].grad, t->n_trained);
    return 0;
}

int ch_trainer_losses(ch_trainer *t, const ch_train_load *l, ch_train_totals *sum, ch_error *e) { return run_batch(t, l, false, sum, e); }

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static size_t n_moe(const ch_train_model *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_sub; i++) n += m->sub[i].kind == CH_TRAIN_MOE;
    return n;
}

// The gradient of the batch, and AdamW along it. norm: its length.
static int step_adam(ch_trainer *t, const ch_train_load *l, double rate, ch_train_totals *sum, double *norm, ch_error *e) {
    const int rc = run_batch(t, l, true, sum, e);
    if (rc) return rc;
    ch_pool_run(t->pool, square_worker, &(job){.t = t});
    double squares = 0;
    for (size_t i = 0; i < t->n_block; i++) squares += t->block_sum[i];
    const double clip = t->cfg->clip;
    *norm = sqrt(squares);
    if (!isfinite(*norm)) return name_bad_gradient(t, e);
    job j = {.t = t, .adam = {.rate = rate, .beta1 = t->cfg->beta1, .beta2 = t->cfg->beta2, .eps = t->cfg->adam_eps,
                              .decay = t->cfg->weight_decay, .scale = clip > 0 && *norm > clip ? clip / *norm : 1, .step = t->step + 1}};
    ch_pool_run(t->pool, update_worker, &j);
    return 0;
}

int ch_trainer_step(ch_trainer *t, ch_train_step *s, ch_error *e) {
    ch_train_load l;
    ch_train_totals sum = {0};
    const double rate = ch_train_rate(t->cfg, t->step);
    double norm = 0;
    int rc = next_batch(t, &t->feed, &l, e);
    if (rc == 0) rc = t->cfg->mezo ? ch_trainer_step_mezo(t, &l, rate, &sum, &norm, e) : step_adam(t, &l, rate, &sum, &norm, e);
    if (rc) return rc;
    t->step++;
    t->n_tokens += (uint64_t)t->cfg->n_row * (uint64_t)t->cfg->n_ctx;
    // The balance holds its factor where it leads to a gradient.
    const double experts = (double)n_moe(&t->model) * (t->cfg->mezo ? 1 : t->cfg->balance);
    *s = (ch_train_step){ratio(sum.loss, sum.weight), t->model.mtp.on ? ratio(sum.mtp_loss, sum.mtp_weight) : NAN, ratio(sum.aux, experts), rate, fabs(norm)};
    return 0;
}

int ch_trainer_eval(ch_trainer *t, const ch_train_feed *feed, int n, double *loss, double *mtp_loss, ch_error *e) {
    ch_train_load l;
    ch_train_totals sum = {0};
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        rc = next_batch(t, feed, &l, e);
        if (rc == 0) rc = run_batch(t, &l, false, &sum, e);
    }
    *loss = ratio(sum.loss, sum.weight);
    *mtp_loss = t->model.mtp.on ? ratio(sum.mtp_loss, sum.mtp_weight) : NAN;
    return rc;
}
