// Shared by the commands that talk to the engine through the public interface (run, chat, serve, bench).
#ifndef CH_CMD_ENGINE_H
#define CH_CMD_ENGINE_H

#include <signal.h>

#include "chimere.h"
#include "cmd/cmd.h"

// Options that ch_cmd_open_engine and ch_cmd_fill_sampling read; a command lists them among its own.
#define CH_CMD_ENGINE_OPTIONS CH_OPT_MODEL, CH_OPT_THREADS, CH_OPT_TIER, CH_OPT_CTX, CH_OPT_BATCH, CH_OPT_KV_TYPE_K, CH_OPT_KV_TYPE_V, CH_OPT_KV_HADAMARD, \
    CH_OPT_STATE_TYPE, CH_OPT_PREFILL_FORM, CH_OPT_REPACK, CH_OPT_LORA, CH_OPT_LORA_SCALE, CH_OPT_PANEL_CACHE, CH_OPT_PANEL_CACHE_SIZE
#define CH_CMD_SAMPLING_OPTIONS CH_OPT_N, CH_OPT_TEMP, CH_OPT_TOP_K, CH_OPT_TOP_P, CH_OPT_MIN_P, CH_OPT_SEED, CH_OPT_STOP

// Engine parameters from the options; false after explaining.
bool ch_cmd_fill_engine(chimere_engine_params *p, const ch_cmd_options *o, ch_cmd_progress *progress);
// Opens with a progress bar; NULL after explaining, *exit_code set.
chimere_engine *ch_cmd_open_engine(const ch_cmd_options *o, int n_slots, int *exit_code);
// Sampling of q, max_tokens and stop strings from the options; stop: room for CHIMERE_STOP_MAX pointers that outlives q.
bool ch_cmd_fill_sampling(chimere_request_params *q, const char **stop, const ch_cmd_options *o);
int ch_cmd_fail_engine(const char *cmd, const chimere_error *e);

// Writes and flushes what a model said; false: it could not be written. It may hold bytes that drive a terminal: only line
// breaks and tabs get through to one.
bool ch_cmd_print_text(FILE *to, const char *s, size_t n);

// Ctrl-C without global state: the signals are blocked (before any thread starts) and polled.
void ch_cmd_block_signals(sigset_t *set);
bool ch_cmd_signal_pending(const sigset_t *set); // takes one if there

#endif
