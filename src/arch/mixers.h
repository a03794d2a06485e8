// arch, private: binding of the parts that several families name alike: state-space mixers, SwiGLU, experts, ends.
// The functions bind one layer's tensors strictly, place its state and fill the layer's info; errors name key or tensor.
#ifndef CH_ARCH_MIXERS_H
#define CH_ARCH_MIXERS_H

#include "model/model.h"

// Embedding, head (type NULL: the embedding serves as head) and final norm.
typedef struct ch_ends {
    ch_weight embd, head;
    const float *output_norm; // [n_embd]
} ch_ends;
int ch_arch_bind_ends(ch_model *m, const ch_hparams *hp, ch_ends *b, ch_error *e);
static inline const ch_weight *ch_arch_head(const ch_ends *b) { return b->head.type ? &b->head : &b->embd; }

// Keys ssm.*; n_rank: heads of Mamba-2, rank of the steps of Mamba-1.
typedef struct ch_ssm_keys {
    uint32_t n_tap, d_inner, d_state, n_rank, n_group;
} ch_ssm_keys;
// scan2: Mamba-2, where heads must divide the inner size and groups the heads (an absent or zero group count means one).
int ch_arch_read_ssm_keys(ch_model *m, bool scan2, ch_ssm_keys *k, ch_error *e);
int ch_arch_need_double_inner(ch_model *m, const ch_hparams *hp, const ch_ssm_keys *k, ch_error *e); // d_inner = 2 n_embd

// norms: how the low-rank step, B and C are normed.
enum { CH_SSM_NORM_NONE, CH_SSM_NORM_BARE, CH_SSM_NORM_WEIGHTS };
int ch_arch_bind_ssm1(ch_model *m, const ch_hparams *hp, const ch_ssm_keys *k, int norms, ch_ssm1 *b, uint32_t i, ch_error *e);
int ch_arch_bind_ssm2(ch_model *m, const ch_hparams *hp, const ch_ssm_keys *k, ch_ssm2 *b, uint32_t i, ch_error *e);

// Values of ssm_a are -exp(A_log): anything above 0 is a file of another convention.
int ch_arch_check_decay(ch_model *m, const float *a, size_t n, uint32_t i, ch_error *e);

// Head counts per layer; n_kv 0: a layer without attention (if absent: as many as heads). At most 1024 layers.
typedef struct ch_head_counts {
    uint32_t n_q[1024], n_kv[1024], max_kv;
} ch_head_counts;
int ch_arch_read_head_counts(ch_model *m, const ch_hparams *hp, ch_head_counts *c, ch_error *e);
// Plain attention of a layer with these counts; rope NULL: no rotation.
static inline ch_attn ch_arch_attn(const ch_hparams *hp, const ch_head_counts *c, uint32_t layer, const ch_rope *rope) {
    return (ch_attn){.n_head = c->n_q[layer], .n_head_kv = c->n_kv[layer], .d_head = hp->d_head, .n_rot = rope ? rope->n_rot : 0,
                     .neox = rope && rope->neox, .eps = hp->eps, .scale = hp->attn_scale};
}
// suffix: "" or "_shexp". Refuses ff 0.
int ch_arch_bind_swiglu(ch_model *m, ch_ffn *b, size_t d, size_t ff, const char *suffix, uint32_t i, ch_error *e);
// Router and the three matrices of gated experts.
int ch_arch_bind_experts(ch_model *m, const ch_hparams *hp, ch_moe *b, size_t ff, uint32_t i, ch_error *e);

#endif
