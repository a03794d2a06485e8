// synth: model files with random weights and true shapes, for tests and measurements: every architecture this build
// computes, any tensor type, a working tokenizer and chat template. Outputs are neither constant nor wild: deviations follow
// 1/sqrt(inputs), decays and time steps lie in the range of trained models, so that the recurrent state matters.
// It refuses shapes that no loader would take. The same arguments give the same bytes.
//
// Threading: calls are independent. Memory: a few megabytes plus the vocabulary, whatever the size of the model.
#ifndef CH_SYNTH_H
#define CH_SYNTH_H

#include "base/base.h"
#include "quant/quant.h"

typedef struct ch_synth_shape {
    const char *arch;                         // static text
    int32_t n_layer, n_embd, n_vocab, n_ctx;
    int32_t n_head, n_head_kv, d_head, n_rot; // attention; the first n_rot of d_head are rotated
    int32_t n_ff;                             // dense feed-forward width; unused with experts
    int32_t n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
    int32_t ssm_heads_k, ssm_heads_v, ssm_d_state, ssm_conv, attn_interval; // delta net; interval 0: attention only
    // A letter per layer, repeated to n_layer: m Mamba, a attention, p both side by side, f feed-forward alone, e experts
    // alone, c short convolution, k Kimi delta attention, l compressed attention. NULL: llama and the qwen35 families.
    const char *pattern;
    int32_t ssm_inner, ssm_heads, ssm_groups, ssm_rank; // heads: Mamba-2; rank of the steps: Mamba-1
    int32_t n_latent;                                   // width the experts see; 0: n_embd
    float embd_scale, residual_scale, logit_scale, attn_scale, expert_scale; // 0: not written
    bool rotate;     // granite families: attention is rotated
    bool bare_norms; // mamba: step, B and C are normed
    bool head_arrays; // attention.head_count per layer, 0 where there is no attention, as converters of plamo2 write it
    bool gate_only;  // Mamba-2 without the norm behind the gate
    float rope_base, rms_eps;
    int32_t n_nextn;                      // qwen35 families: blocks of multi-token prediction behind the n_layer of the trunk
    bool nextn_ends;                      // with an embedding and an output matrix of its own
    int32_t n_dense;                      // lfm2moe, kimi-linear: leading layers without experts
    int32_t n_shared;                     // kimi-linear: shared experts, each n_ff_exp wide
    int32_t d_latent, d_value;            // kimi-linear: compressed keys and values; d_head - n_rot and n_rot are the parts of a query
    bool head_bias;  // biases of q, k and v
    bool tied; // no output matrix of its own
} ch_synth_shape;

// Fills *s from a preset: "tiny", "bench" or a released size of the architecture. Errors list what there is.
int ch_synth_preset(ch_synth_shape *s, const char *arch, const char *preset, ch_error *e);
const char *ch_synth_arch_at(size_t i);                       // NULL past the end
const char *ch_synth_preset_at(const char *arch, size_t i);   // presets of arch, NULL past the end
// Names the first value that is out of range or does not fit the others.
int ch_synth_check(const ch_synth_shape *s, ch_error *e);
// Writes the file; matrices get `type` where their width allows, else the usual fall-back type.
int ch_synth_write(const char *path, const ch_synth_shape *s, ch_type type, uint64_t seed, ch_progress_fn progress, void *user,
                   ch_error *e);

#endif
