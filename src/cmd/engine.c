// Engine set-up shared by run, chat, serve and bench.
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/engine.h"

int ch_cmd_fail_engine(const char *cmd, const chimere_error *e) {
    return ch_cmd_fail(cmd, CH_EXIT_FAILED, "%s", e->msg[0] ? e->msg : ch_error_name(e->code));
}

bool ch_cmd_fill_engine(chimere_engine_params *p, const ch_cmd_options *o, ch_cmd_progress *progress) {
    chimere_engine_params_init(p);
    p->model_path = ch_cmd_model_path(o, NULL);
    p->n_ctx = (int32_t)ch_opt_int(o, CH_OPT_CTX);
    p->n_threads = (int32_t)ch_opt_int(o, CH_OPT_THREADS);
    p->n_batch = (int32_t)ch_opt_int(o, CH_OPT_BATCH);
    p->tier = ch_opt_text(o, CH_OPT_TIER);
    p->kv_type_k = ch_opt_text(o, CH_OPT_KV_TYPE_K);
    p->kv_type_v = ch_opt_text(o, CH_OPT_KV_TYPE_V);
    p->no_kv_hadamard = !ch_opt_bool(o, CH_OPT_KV_HADAMARD);
    p->state_type = ch_opt_text(o, CH_OPT_STATE_TYPE);
    p->chunk_form = strcmp(ch_opt_text(o, CH_OPT_PREFILL_FORM), "chunk") == 0;
    p->no_repack = !ch_opt_bool(o, CH_OPT_REPACK);
    p->panel_cache = ch_opt_text(o, CH_OPT_PANEL_CACHE);
    p->panel_cache_bytes = (uint64_t)ch_opt_int(o, CH_OPT_PANEL_CACHE_SIZE);
    p->progress = ch_cmd_show_progress;
    p->progress_user = progress;
    progress->quiet = ch_opt_bool(o, CH_OPT_QUIET);
    ch_cmd_loras l;
    if (!ch_opt_read_loras(o, &l))
        return false;
    for (p->n_lora = 0; p->n_lora < l.n; p->n_lora++)
        p->lora[p->n_lora] = (chimere_lora){l.path[p->n_lora], l.scale[p->n_lora]};
    return p->model_path != NULL;
}

chimere_engine *ch_cmd_open_engine(const ch_cmd_options *o, int n_slots, int *exit_code) {
    ch_cmd_progress progress = {0};
    chimere_engine_params p;
    chimere_engine *engine = NULL;
    chimere_error e = {0};
    *exit_code = CH_EXIT_FAILED;
    if (!ch_cmd_fill_engine(&p, o, &progress))
        return NULL;
    p.n_slots = n_slots;
    int rc = chimere_engine_open(&engine, &p, &e);
    ch_cmd_end_progress(&progress);
    if (rc != 0) {
        *exit_code = ch_cmd_fail_engine(o->spec->name, &e);
        return NULL;
    }
    const chimere_engine_info *i = chimere_engine_get_info(engine);
    ch_log(CH_LOG_INFO, "%s: %s, %.1f M parameters, tier %s, %d threads, context %d", i->path, i->arch, (double)i->n_params * 1e-6,
           i->tier, i->n_threads, i->n_ctx);
    return engine;
}

bool ch_cmd_fill_sampling(chimere_request_params *q, const char **stop, const ch_cmd_options *o) {
    static const struct {
        int option;
        const char *name;
    } row[] = {{CH_OPT_TEMP, "temperature"}, {CH_OPT_TOP_K, "top_k"}, {CH_OPT_TOP_P, "top_p"}, {CH_OPT_MIN_P, "min_p"}};
    chimere_error e = {0};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if (ch_opt_given(o, row[i].option) &&
            chimere_sampling_set(&q->sampling, row[i].name, ch_opt_num(o, row[i].option), &e) != 0) {
            ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--%s: %s", ch_opt_get_row(row[i].option)->name, e.msg);
            return false;
        }
    if (ch_opt_given(o, CH_OPT_SEED))
        q->sampling.seed = ch_opt_int(o, CH_OPT_SEED);
    int64_t n = ch_opt_int(o, CH_OPT_N);
    if (n == 0) {
        ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--max-tokens: expected at least 1, or -1");
        return false;
    }
    q->max_tokens = n;
    for (q->n_stop = 0; q->n_stop < CHIMERE_STOP_MAX && ch_opt_nth(o, CH_OPT_STOP, (int)q->n_stop); q->n_stop++)
        stop[q->n_stop] = ch_opt_nth(o, CH_OPT_STOP, (int)q->n_stop);
    if (ch_opt_nth(o, CH_OPT_STOP, CHIMERE_STOP_MAX)) {
        ch_cmd_fail(o->spec->name, CH_EXIT_USAGE, "--stop: at most %d", CHIMERE_STOP_MAX);
        return false;
    }
    q->stop = stop;
    return true;
}

void ch_cmd_block_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigprocmask(SIG_BLOCK, set, NULL);
}

bool ch_cmd_signal_pending(const sigset_t *set) {
    struct timespec now = {0, 0};
    return sigtimedwait(set, NULL, &now) > 0;
}

bool ch_cmd_print_text(FILE *to, const char *s, size_t n) {
    if (!isatty(fileno(to))) {
        fwrite(s, 1, n, to);
    } else {
        for (size_t i = 0; i < n; i++) {
            unsigned char b = (unsigned char)s[i], next = i + 1 < n ? (unsigned char)s[i + 1] : 0;
            if (b == 0xc2 && next >= 0x80 && next < 0xa0)
                i++; // C1 controls
            else if ((b >= 0x20 && b != 0x7f) || b == '\n' || b == '\t')
                putc(b, to);
        }
    }
    return fflush(to) == 0;
}
