// Private to model: what a ch_model is.
#ifndef CH_MODEL_INTERNAL_H
#define CH_MODEL_INTERNAL_H

#include "model/model.h"

struct ch_model {
    ch_gguf *gguf;
    ch_map panels; // of packed weights from the cache; empty: they are in memory
    ch_arena *arena;
    ch_op *op;           // NULL with meta_only
    const ch_arch *arch;
    void *arch_data;
    ch_layout layout;
    ch_seq_plan plan;
    ch_model_info info;
    ch_layer_info *layer; // [info.n_layer]
    uint8_t *used;        // [n_tensors] bound, or left out on purpose (2)
    ch_weight **weight;   // every bound matrix
    size_t n_weight, cap_weight;
    ch_op_seg *seg;       // [n_seq] of the running step
    int32_t *draft_row;   // [n_seq] 0, 1, 2 ...
    bool want_mtp;
    ch_trace_fn trace;
    void *trace_user;
    uint64_t lora_hash; // of all adapters; 0: none
};

// Adapters beside bound weights (lora.c). hash: of all that was added.
int ch_model_add_loras(ch_model *m, const ch_model_lora *file, size_t n, uint64_t *hash, ch_error *e);

#endif
