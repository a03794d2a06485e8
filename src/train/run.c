// A run from its configuration: data, trainer, log, plot, checkpoints, the exported model.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/trainer.h"

enum { SPEED_STEPS = 16 };

typedef struct history {
    double *x, *y;
    size_t n, cap;
} history;

typedef struct run {
    ch_train_config cfg;
    const char *out;
    ch_gguf *base;      // model.from, or NULL
    ch_gguf *tokenizer; // may be base
    ch_vocab *vocab;
    ch_buf tpl;     // chat template
    bool own_tpl;   // from a file of its own
    ch_train_data *data, *eval;
    ch_trainer *t;
    ch_train_ranks ranks; // the first one writes the files
    int log;        // file descriptor, appended to
    history loss, mtp, eval_loss;
    uint64_t time[SPEED_STEPS]; // ends of the last steps
    ch_error *e;
} run;

// ---- data -------------------------------------------------------------------------------------------------------------------------
static int next_batch(void *user, ch_train_batch *b, ch_error *e) { return ch_train_data_next(user, b, e); }
static void get_state(void *user, ch_train_data_state *s) { ch_train_data_get_state(user, s); }
static int set_state(void *user, const ch_train_data_state *s, ch_error *e) { return ch_train_data_set_state(user, s, e); }
static ch_train_feed feed_of(const run *r, ch_train_data *d) { return (ch_train_feed){d, next_batch, get_state, set_state, r->ranks}; }

static int open_tokenizer(run *r) {
    int rc = r->cfg.from ? ch_gguf_open(&r->base, r->cfg.from, r->e) : 0;
    if (rc == 0 && r->base) rc = ch_train_read_shape(&r->cfg.model, r->base, r->e);
    if (rc) return rc;
    if (r->cfg.tokenizer) rc = ch_gguf_open(&r->tokenizer, r->cfg.tokenizer, r->e);
    else r->tokenizer = r->base;
    if (rc == 0) rc = ch_vocab_open(&r->vocab, r->tokenizer, r->e);
    if (rc) return rc;
    r->tpl.limit = 1u << 24;
    if (r->cfg.chat_template) {
        r->own_tpl = true;
        return ch_read_file(&r->tpl, r->cfg.chat_template, r->e);
    }
    ch_gguf_str s;
    rc = ch_gguf_get_str(r->tokenizer, "tokenizer.chat_template", &s, r->e);
    if (rc < 0) return rc;
    return rc && !ch_buf_append(&r->tpl, s.p, s.n) ? ch_error_set(r->e, CH_ENOMEM, "no memory") : 0;
}

static int n_ranks(const run *r) { return r->ranks.n > 1 ? r->ranks.n : 1; }

static int open_source(run *r, const ch_train_source *source, size_t n, const char *cache, ch_progress_fn progress, void *user, ch_train_data **d) {
    const ch_train_data_params p = {.source = source, .n_source = n, .vocab = r->vocab, .template_text = r->tpl.len ? r->tpl.data : NULL,
                                    .n_template = r->tpl.len, .weights = r->cfg.weights,
                                    .n_row = (size_t)(r->cfg.n_row / n_ranks(r)), .n_ctx = (size_t)r->cfg.n_ctx,
                                    .rank = r->ranks.rank, .n_ranks = n_ranks(r), .seed = (uint64_t)r->cfg.seed, .cache = cache,
                                    .progress = progress, .progress_user = user};
    return ch_train_data_open(d, &p, r->e);
}

// Where tokens are kept in a file, the first rank writes it before the others look for it.
static int open_data(run *r, ch_progress_fn progress, void *user) {
    const ch_train_config *c = &r->cfg;
    int rc = c->n_row % n_ranks(r) == 0 ? 0 : ch_error_set(r->e, CH_ERANGE, "data.n_row: %d processes cannot share %d rows evenly", n_ranks(r), c->n_row);
    for (int turn = 0; turn < 2; turn++) {
        if (rc == 0 && turn == (c->cache && r->ranks.rank > 0)) {
            rc = open_source(r, c->source, c->n_source, c->cache, progress, user, &r->data);
            if (rc == 0 && c->eval_every) rc = open_source(r, c->eval_source, c->n_eval_source, NULL, progress, user, &r->eval);
        }
        rc = ch_ranks_agree(&r->ranks, rc, r->e);
    }
    return rc;
}

// ---- files ------------------------------------------------------------------------------------------------------------------------
static int path_in(const run *r, const char *name, char *path, size_t size) {
    const int n = snprintf(path, size, "%s/%s", r->out, name);
    return n > 0 && (size_t)n < size ? 0 : ch_error_set(r->e, CH_ELIMIT, "%.100s: path too long", r->out);
}

static bool keep_point(history *h, double x, double y) {
    if (h->n == h->cap) {
        const size_t cap = h->cap ? 2 * h->cap : 1024;
        double *px = ch_realloc(h->x, cap * sizeof *px);
        if (px) h->x = px;
        double *py = px ? ch_realloc(h->y, cap * sizeof *py) : NULL;
        if (!py) return false;
        h->y = py, h->cap = cap;
    }
    h->x[h->n] = x, h->y[h->n++] = y;
    return true;
}

// What the log holds up to a step: the curves go on; later lines, of a run that was cut short, are dropped.
static int read_log(run *r, const char *path, uint64_t step) {
    ch_buf b = {0};
    struct stat st;
    if (stat(path, &st) != 0) return 0;
    int rc = ch_read_file(&b, path, r->e);
    size_t keep = 0;
    for (size_t at = 0; rc == 0 && at < b.len;) {
        const char *end = memchr(b.data + at, '\n', b.len - at);
        if (!end) break;
        const size_t next = (size_t)(end - b.data) + 1;
        json_t *v = json_loadb(b.data + at, next - at, 0, NULL);
        const double s = json_number_value(json_object_get(v, "step"));
        const bool ours = v && s <= (double)step;
        if (ours) {
            const char *const name[] = {"loss", "mtp_loss", "eval_loss"};
            history *const to[] = {&r->loss, &r->mtp, &r->eval_loss};
            for (int i = 0; i < 3; i++) {
                const json_t *y = json_object_get(v, name[i]);
                if (json_is_number(y) && !keep_point(to[i], s, json_number_value(y))) rc = ch_error_set(r->e, CH_ENOMEM, "no memory");
            }
            keep = next;
        }
        json_decref(v);
        at = next;
        if (!ours) break;
    }
    ch_buf_free(&b);
    if (rc == 0 && truncate(path, (off_t)keep) != 0) rc = ch_error_set(r->e, CH_EIO, "%s: cannot shorten: %s", path, strerror(errno));
    return rc;
}

static int write_log(run *r, const ch_train_report *p) {
    ch_buf b = {0};
    ch_buf_printf(&b, "{\"step\":%llu,\"tokens\":%llu,\"loss\":%.6f", (unsigned long long)p->step, (unsigned long long)p->n_tokens, p->loss);
    if (isfinite(p->mtp_loss)) ch_buf_printf(&b, ",\"mtp_loss\":%.6f", p->mtp_loss);
    if (p->balance > 0) ch_buf_printf(&b, ",\"balance\":%.4f", p->balance);
    ch_buf_printf(&b, ",\"rate\":%.4g,\"norm\":%.4g,\"tokens_per_s\":%.0f", p->rate, p->norm, p->tokens_per_s);
    if (isfinite(p->eval_loss)) ch_buf_printf(&b, ",\"eval_loss\":%.6f", p->eval_loss);
    if (isfinite(p->eval_mtp_loss)) ch_buf_printf(&b, ",\"eval_mtp_loss\":%.6f", p->eval_mtp_loss);
    ch_buf_puts(&b, "}\n");
    int rc = b.failed ? ch_error_set(r->e, CH_ENOMEM, "no memory") : 0;
    if (rc == 0 && write(r->log, b.data, b.len) != (ssize_t)b.len)
        rc = ch_error_set(r->e, CH_EIO, "%s/log.jsonl: cannot write: %s", r->out, strerror(errno));
    ch_buf_free(&b);
    return rc;
}

static bool same_weights(const run *r) {
    return n_ranks(r) == 1 || ch_ranks_same(&r->ranks, ch_hash64(r->t->w, r->t->model.n_param * sizeof *r->t->w, r->t->step));
}

static int write_checkpoint(run *r) {
    char path[4200];
    int rc = path_in(r, "checkpoint", path, sizeof path);
    if (rc == 0) rc = ch_trainer_save(r->t, path, r->e);
    if (rc == 0) rc = path_in(r, "loss.svg", path, sizeof path);
    const ch_train_curve c[3] = {{"loss", r->loss.x, r->loss.y, r->loss.n}, {"evaluation", r->eval_loss.x, r->eval_loss.y, r->eval_loss.n},
                                 {"token after next", r->mtp.x, r->mtp.y, r->mtp.n}};
    return rc ? rc : ch_train_plot(path, r->cfg.name ? r->cfg.name : r->cfg.model.arch, c, 3, r->e);
}

static int save(run *r) {
    if (!same_weights(r)) return ch_error_set(r->e, CH_ESTATE, "step %llu: the processes have different weights", (unsigned long long)r->t->step);
    return r->ranks.rank == 0 ? write_checkpoint(r) : 0;
}

// With adapters: these alone, unless the whole model is wanted.
static int export_model(run *r, const char *path, ch_type type, bool average, bool merge) {
    if (merge && !r->cfg.adapters.rank) return ch_error_set(r->e, CH_ESTATE, "merge: this run trains no adapters");
    if (r->cfg.adapters.rank && !merge) return ch_trainer_export_adapter(r->t, path, average, r->e);
    return ch_trainer_export(r->t, path, type, average, r->tokenizer, r->own_tpl ? r->tpl.data : NULL, r->tpl.len, r->e);
}

// ---- steps ------------------------------------------------------------------------------------------------------------------------
static int evaluate(run *r, ch_train_report *p) {
    const ch_train_feed feed = feed_of(r, r->eval);
    ch_train_data_state first;
    ch_train_data_get_state(r->eval, &first);
    first.epoch = first.index = 0;
    const int rc = ch_ranks_agree(&r->ranks, ch_train_data_set_state(r->eval, &first, r->e), r->e);
    return rc ? rc : ch_trainer_eval(r->t, &feed, r->cfg.eval_batches, &p->eval_loss, &p->eval_mtp_loss, r->e);
}

static void set_speed(run *r, ch_train_report *p, uint64_t done, uint64_t begin) {
    const uint64_t now = ch_clock_ns(), n = done < SPEED_STEPS ? done : SPEED_STEPS;
    const uint64_t from = done <= SPEED_STEPS ? begin : r->time[done % SPEED_STEPS]; // end of the step before the last n
    r->time[done % SPEED_STEPS] = now;
    const double s = (double)(now - from) * 1e-9;
    p->seconds = (double)(now - begin) * 1e-9;
    p->tokens_per_s = s > 0 ? (double)n * r->cfg.n_row * r->cfg.n_ctx / s : 0;
    p->seconds_left = (double)(p->n_steps - p->step) * s / (double)n;
}

static int one_step(run *r, uint64_t n_steps, uint64_t done, uint64_t begin, ch_train_report *p) {
    ch_train_step s;
    int rc = ch_trainer_step(r->t, &s, r->e);
    if (rc) return rc;
    const uint64_t step = r->t->step;
    *p = (ch_train_report){.rank = r->ranks.rank, .step = step, .n_steps = n_steps, .n_tokens = r->t->n_tokens, .loss = s.loss, .mtp_loss = s.mtp_loss,
                           .balance = s.balance, .rate = s.rate, .norm = s.norm, .eval_loss = NAN, .eval_mtp_loss = NAN};
    if (r->eval && r->cfg.eval_every && (step % (uint64_t)r->cfg.eval_every == 0 || step == n_steps)) rc = evaluate(r, p);
    if (rc) return rc;
    set_speed(r, p, done, begin);
    if (!keep_point(&r->loss, (double)step, p->loss) || (isfinite(p->mtp_loss) && !keep_point(&r->mtp, (double)step, p->mtp_loss)) ||
        (isfinite(p->eval_loss) && !keep_point(&r->eval_loss, (double)step, p->eval_loss)))
        return ch_error_set(r->e, CH_ENOMEM, "no memory");
    return r->ranks.rank == 0 ? write_log(r, p) : 0;
}

static int loop(run *r, uint64_t n_steps, ch_train_report_fn report, void *user) {
    const uint64_t begin = ch_clock_ns();
    for (uint64_t done = 1; r->t->step < n_steps; done++) {
        ch_train_report p;
        int rc = ch_ranks_agree(&r->ranks, one_step(r, n_steps, done, begin, &p), r->e);
        if (rc) return rc;
        p.saved = p.step == n_steps || (r->cfg.save_every && p.step % (uint64_t)r->cfg.save_every == 0);
        if (p.saved && (rc = ch_ranks_agree(&r->ranks, save(r), r->e))) return rc;
        if (ch_ranks_any(&r->ranks, report && !report(user, &p))) {
            rc = p.saved ? 0 : save(r);
            return rc ? rc : ch_error_set(r->e, CH_ECANCELLED, "stopped after step %llu of %llu; the same command goes on from there",
                                          (unsigned long long)p.step, (unsigned long long)n_steps);
        }
    }
    return 0;
}

// ---- whole ------------------------------------------------------------------------------------------------------------------------
static int open_run(run *r, const ch_train_options *o, bool with_data, ch_progress_fn progress, void *user) {
    int rc = ch_train_config_read(&r->cfg, o->config, r->e);
    if (rc == 0) rc = open_tokenizer(r);
    rc = ch_ranks_agree(&r->ranks, rc, r->e);
    if (rc == 0 && with_data) rc = open_data(r, progress, user);
    if (rc) return rc;
    r->out = o->out ? o->out : r->cfg.out;
    int n_threads = o->n_threads ? o->n_threads : r->cfg.n_threads;
    if (!n_threads) n_threads = ch_cpu_default_threads();
    const ch_train_feed feed = feed_of(r, r->data);
    const int32_t n_vocab = r->base ? r->cfg.model.n_vocab : ch_vocab_n(r->vocab); // a file may have more rows than tokens
    if (ch_vocab_n(r->vocab) > n_vocab)
        return ch_error_set(r->e, CH_EFORMAT, "%s: %d tokens, but the model has %d", ch_gguf_path(r->tokenizer), ch_vocab_n(r->vocab), n_vocab);
    rc = ch_trainer_open(&r->t, &r->cfg, n_vocab, with_data ? &feed : NULL, n_threads, r->e);
    return rc || !r->base ? rc : ch_trainer_set_base(r->t, r->base, r->e);
}

static void close_run(run *r) {
    if (r->log >= 0) close(r->log);
    ch_trainer_close(&r->t);
    ch_train_data_close(&r->data);
    ch_train_data_close(&r->eval);
    ch_vocab_free(&r->vocab);
    if (r->tokenizer != r->base) ch_gguf_close(&r->tokenizer);
    ch_gguf_close(&r->base);
    ch_buf_free(&r->tpl);
    history *const h[] = {&r->loss, &r->mtp, &r->eval_loss};
    for (int i = 0; i < 3; i++) ch_free(h[i]->x), ch_free(h[i]->y);
    ch_train_config_free(&r->cfg);
}

static int make_folder(const run *r) {
    if (mkdir(r->out, 0777) == 0 || errno == EEXIST) return 0;
    return ch_error_set(r->e, CH_EIO, "%s: cannot make the folder: %s", r->out, strerror(errno));
}

static int begin_files(run *r, bool restart) {
    char path[4200];
    struct stat st;
    int rc = path_in(r, "checkpoint", path, sizeof path);
    if (rc == 0 && !restart && stat(path, &st) == 0) rc = ch_trainer_load(r->t, path, r->e);
    if (rc || r->ranks.rank > 0) return rc;
    rc = make_folder(r);
    if (rc == 0) rc = path_in(r, "log.jsonl", path, sizeof path);
    if (rc == 0) rc = read_log(r, path, r->t->step);
    if (rc) return rc;
    r->log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    return r->log >= 0 ? 0 : ch_error_set(r->e, CH_EIO, "%s: cannot open: %s", path, strerror(errno));
}

int ch_train_run(const ch_train_options *o, ch_progress_fn progress, ch_train_report_fn report, void *user, ch_error *e) {
    run r = {.log = -1, .e = e};
    int rc = o->mpi ? ch_ranks_open(&r.ranks, e) : 0;
    if (rc == 0) rc = open_run(&r, o, true, r.ranks.rank ? NULL : progress, user);
    const ch_type_info *type = NULL;
    if (rc == 0 && strcmp(r.cfg.export_type, "none") != 0 && (!(type = ch_quant_type_by_name(r.cfg.export_type)) || !type->encode))
        rc = ch_error_set(e, CH_ERANGE, "run.export \"%.40s\": expected f32, f16, bf16, q8_0 or none", r.cfg.export_type);
    if (rc == 0) rc = begin_files(&r, o->restart);
    rc = ch_ranks_agree(&r.ranks, rc, e);
    if (rc == 0 && !same_weights(&r)) rc = ch_error_set(e, CH_ESTATE, "%s: the processes do not begin alike: do all see the same folder?", r.out);
    if (rc == 0) rc = loop(&r, o->n_steps ? (uint64_t)o->n_steps : (uint64_t)r.cfg.n_steps, report, user);
    char path[4200];
    if (rc == 0 && type && r.ranks.rank == 0) {
        rc = path_in(&r, r.cfg.adapters.rank ? "adapter.gguf" : "model.gguf", path, sizeof path);
        if (rc == 0) rc = export_model(&r, path, type->id, r.cfg.average > 0, false);
    }
    rc = ch_ranks_agree(&r.ranks, rc, e);
    close_run(&r);
    ch_ranks_close(&r.ranks);
    return rc;
}

int ch_train_export(const ch_train_options *o, const char *path, ch_type type, bool average, bool merge, ch_error *e) {
    run r = {.log = -1, .e = e};
    char from[4200];
    const ch_type_info *info = ch_quant_type((uint32_t)type);
    if (!info || !info->encode) return ch_error_set(e, CH_EUNSUPPORTED, "type: cannot be written");
    int rc = open_run(&r, o, false, NULL, NULL);
    if (rc == 0) rc = path_in(&r, "checkpoint", from, sizeof from);
    if (rc == 0) rc = ch_trainer_load(r.t, from, e);
    if (rc == 0) rc = export_model(&r, path, type, average, merge);
    close_run(&r);
    return rc;
}
