// Shared by the commands that drive a model step by step (logits, trace, perplexity, bench).
#ifndef CH_CMD_OPEN_MODEL_H
#define CH_CMD_OPEN_MODEL_H

#include "cmd/cmd.h"
#include "model/model.h"
#include "text/text.h"

#define CH_CMD_MODEL_OPTIONS CH_OPT_MODEL, CH_OPT_THREADS, CH_OPT_TIER, CH_OPT_BATCH, CH_OPT_KV_TYPE_K, CH_OPT_KV_TYPE_V, CH_OPT_KV_HADAMARD, \
    CH_OPT_STATE_TYPE, CH_OPT_PREFILL_FORM, CH_OPT_REPACK, CH_OPT_LORA, CH_OPT_LORA_SCALE, CH_OPT_PANEL_CACHE, CH_OPT_PANEL_CACHE_SIZE

// Opens the model named by the options, with a progress bar. n_seq: most sequences of one step. NULL after explaining.
ch_model *ch_cmd_open_model(const ch_cmd_options *o, int n_seq);
// The ids of --tokens, or of --prompt (special tokens recognised, bos as the file asks). False after explaining.
bool ch_cmd_read_tokens(const ch_cmd_options *o, const ch_model *m, ch_tokens *out, int *exit_code);

#endif
