// chimere train: trains a model as a configuration says.
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "train/train.h"

static const int options[] = {CH_OPT_TRAIN_OUT, CH_OPT_THREADS, CH_OPT_TRAIN_STEPS, CH_OPT_TRAIN_RESTART, CH_OPT_TRAIN_MPI, CH_OPT_TRAIN_EXPORT,
                              CH_OPT_TRAIN_TYPE, CH_OPT_TRAIN_AVERAGE, CH_OPT_TRAIN_MERGE, CH_OPT_TRAIN_KEYS};
static const ch_cmd_spec spec = {
    .name = "train",
    .usage = "CONFIG.json [--run DIR] [--export FILE.gguf [--type q8_0]]",
    .about = "Trains a model on this machine's cores. CONFIG is a JSON file; --keys lists what it may hold. The run's folder gets a\n"
             "checkpoint, log.jsonl, loss.svg and at the end model.gguf. Ctrl-C saves and stops; the same command goes on from the\n"
             "checkpoint, bit for bit. --export writes the model of the checkpoint, also while the run goes on. With --mpi several\n"
             "processes, also on several machines, share the rows of each batch.\n"
             "With model.from the model of a GGUF file is trained further: all weights, or with lora.rank low-rank adapters beside them,\n"
             "which end up in adapter.gguf (for --lora of the other commands) and with --merge in a whole model.",
    .examples = "  chimere train configs/mini.json\n"
                "  mpirun -n 4 chimere train configs/mini.json --mpi -t 2\n"
                "  chimere train configs/mini.json --export now.gguf --type q8_0\n"
                "  chimere train configs/lora-facts.json && chimere chat --lora build/lora-facts/adapter.gguf\n",
    .option = options,
    .n_option = sizeof options / sizeof *options,
    .min_args = 0,
    .max_args = 1,
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig) {
    (void)sig;
    if (interrupted) _exit(130); // the second one does not wait for the checkpoint
    interrupted = 1;
}

typedef struct screen {
    ch_cmd_progress bar; // while data is read
    bool quiet, terminal;
    uint64_t t_last;
    double smooth; // running loss
} screen;

static bool show_progress(void *user, const char *what, uint64_t done, uint64_t total) {
    screen *s = user;
    return ch_cmd_show_progress(&s->bar, what, done, total) && !interrupted;
}

static void put_time(char *out, size_t size, double s) {
    if (s < 90) snprintf(out, size, "%.0f s", s);
    else if (s < 5400) snprintf(out, size, "%.0f min", s / 60);
    else snprintf(out, size, "%.1f h", s / 3600);
}

static bool report(void *user, const ch_train_report *r) {
    screen *s = user;
    const bool first = s->smooth == 0, tell = !s->terminal && (isfinite(r->eval_loss) || r->saved || r->step == r->n_steps);
    s->smooth = first ? r->loss : 0.95 * s->smooth + 0.05 * r->loss;
    const uint64_t now = ch_clock_ns(), every = s->terminal ? 200000000u : 10000000000u;
    if (s->quiet || r->rank > 0 || (!tell && !first && now - s->t_last < every && r->step != r->n_steps)) return !interrupted;
    s->t_last = now;
    char left[32], bar[25], eval[64] = "";
    put_time(left, sizeof left, r->seconds_left);
    if (isfinite(r->eval_loss)) snprintf(eval, sizeof eval, "  eval %.4f", r->eval_loss);
    if (!s->terminal) {
        fprintf(stderr, "step %llu/%llu  loss %.4f%s  %.0f tokens/s  %s left%s\n", (unsigned long long)r->step, (unsigned long long)r->n_steps,
                s->smooth, eval, r->tokens_per_s, left, r->saved ? "  saved" : "");
        return !interrupted;
    }
    const int full = (int)(24 * r->step / r->n_steps);
    memset(bar, '.', 24), memset(bar, '#', (size_t)full), bar[24] = 0;
    if (*eval) fprintf(stderr, "\r\033[Kstep %llu%s\n", (unsigned long long)r->step, eval);
    fprintf(stderr, "\r[%s] %llu/%llu  loss %.4f  rate %.2e  %.0f tokens/s  %s left\033[K", bar, (unsigned long long)r->step,
            (unsigned long long)r->n_steps, s->smooth, r->rate, r->tokens_per_s, left);
    fflush(stderr);
    return !interrupted;
}

static int train(const ch_train_options *o, bool quiet, ch_error *e) {
    screen s = {.bar = {.quiet = quiet}, .quiet = quiet, .terminal = isatty(STDERR_FILENO)};
    struct sigaction act = {.sa_handler = on_signal}, old_int, old_term;
    sigaction(SIGINT, &act, &old_int);
    sigaction(SIGTERM, &act, &old_term);
    int rc = ch_train_run(o, show_progress, report, &s, e);
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    ch_cmd_end_progress(&s.bar);
    if (s.terminal && !quiet) fputc('\n', stderr);
    return rc;
}

static int print_keys(void) {
    ch_buf b = {0};
    if (ch_train_config_help(&b)) fputs(b.data, stdout);
    ch_buf_free(&b);
    return CH_EXIT_OK;
}

int ch_cmd_train(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code)) return code;
    ch_error e = {0};
    const char *to = ch_opt_text(&o, CH_OPT_TRAIN_EXPORT), *type_name = ch_opt_text(&o, CH_OPT_TRAIN_TYPE);
    const ch_type_info *type = ch_quant_type_by_name(type_name);
    const char *const world = getenv("OMPI_COMM_WORLD_SIZE"); // set by mpirun
    const int launched = world ? atoi(world) : 1;
    int rc = 0;
    code = CH_EXIT_USAGE;
    if (ch_opt_bool(&o, CH_OPT_TRAIN_KEYS)) {
        code = print_keys();
    } else if (o.n_args == 0) {
        ch_cmd_fail("train", code, "which configuration? (chimere train CONFIG.json; --keys tells what it may hold)");
    } else if (!to && !ch_opt_bool(&o, CH_OPT_TRAIN_MPI) && launched > 1) {
        ch_cmd_fail("train", code, "mpirun started %d processes; without --mpi each would train for itself, in the same folder", launched);
    } else if (!type) {
        ch_cmd_fail("train", code, "type: \"%.40s\" is no tensor type (f32, f16, bf16, q8_0)", type_name);
    } else {
        ch_train_options t = {.config = o.args[0], .out = ch_opt_text(&o, CH_OPT_TRAIN_OUT), .n_threads = (int)ch_opt_int(&o, CH_OPT_THREADS),
                              .n_steps = ch_opt_given(&o, CH_OPT_TRAIN_STEPS) ? ch_opt_int(&o, CH_OPT_TRAIN_STEPS) : 0,
                              .restart = ch_opt_bool(&o, CH_OPT_TRAIN_RESTART), .mpi = ch_opt_bool(&o, CH_OPT_TRAIN_MPI)};
        const bool quiet = ch_opt_bool(&o, CH_OPT_QUIET);
        rc = to ? ch_train_export(&t, to, type->id, ch_opt_bool(&o, CH_OPT_TRAIN_AVERAGE), ch_opt_bool(&o, CH_OPT_TRAIN_MERGE), &e) : train(&t, quiet, &e);
        // Of several processes one speaks. The launcher ends all as soon as one fails: that has to be the one which has spoken.
        code = rc && (e.msg[0] || !t.mpi) ? CH_EXIT_FAILED : CH_EXIT_OK;
        if (rc == CH_ECANCELLED && e.msg[0]) fprintf(stderr, "%s\n", e.msg);
        else if (rc && e.msg[0]) ch_cmd_fail_error("train", &e);
    }
    ch_cmd_options_free(&o);
    return code;
}
