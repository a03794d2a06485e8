// The plain transformers: llama, qwen2, qwen3, granite and their mixture-of-experts variants. One loop, one table of what
// differs.
//
//   x = embed(token) * embedding_scale
//   per layer:  x += residual_scale * attn(rms(x, attn_norm));  x += residual_scale * ffn(rms(x, ffn_norm))
//   logits = output * rms(x, output_norm) / logit_scale                        (absent scales are 1)
//
// Rotation: llama and granite files pair (2i, 2i+1), the conversion has permuted the rows of q and k for it; qwen files pair
// (i, i + n_rot/2). Biases of the projections are added where the file has them.
#include <string.h>

#include "arch/arch.h"

enum {
    NEOX = 1,         // rotation pairs (i, i + n_rot/2)
    MOE = 2,          // experts are required
    RENORMALISE = 4,  // weights of the chosen experts sum to 1
    SHARED_GATED = 8, // shared expert behind a sigmoid gate
    SCALES = 16,      // embedding, residual and logit scales apply; rope.scaling.finetuned = false: no rotation
    QK_NORM = 32      // per-head norms of q and k are required
};

static const struct family {
    const char *name;
    unsigned flags;
} families[] = {
    {"llama", RENORMALISE}, // with experts: Mixtral
    {"qwen2", NEOX},
    {"qwen2moe", NEOX | MOE | SHARED_GATED},
    {"qwen3", NEOX | QK_NORM},
    {"qwen3moe", NEOX | QK_NORM | MOE | RENORMALISE},
    {"granite", SCALES},
    {"granitemoe", SCALES | MOE | RENORMALISE},
};

typedef struct layer {
    const float *attn_norm, *ffn_norm; // [n_embd]
    ch_attn attn;
    ch_ffn ffn;
    ch_moe moe; // moe.router.type NULL: dense
} layer;

typedef struct transformer {
    ch_hparams hp;
    unsigned flags;
    float embedding_scale, residual_scale, logit_scale;
    ch_rope rope;
    ch_weight embd, head;
    const float *output_norm; // [n_embd]
    layer *layers;            // [n_layer]
} transformer;

static int bind_ffn(ch_model *m, ch_ffn *b, size_t d, size_t ff, unsigned flags, const char *suffix, uint32_t i, ch_error *e) {
    int rc = ch_model_bind_mat(m, &b->gate, d, ff, 1, flags, e, "blk.%u.ffn_gate%s", i, suffix);
    if (rc || !b->gate.type) return rc;
    rc = ch_model_bind_mat(m, &b->up, d, ff, 1, 0, e, "blk.%u.ffn_up%s", i, suffix);
    return rc ? rc : ch_model_bind_mat(m, &b->down, ff, d, 1, 0, e, "blk.%u.ffn_down%s", i, suffix);
}

static int bind_moe(ch_model *m, const transformer *a, ch_moe *b, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    size_t d = hp->n_embd, ff = hp->n_ff_exp, ff_shared = hp->n_ff_shexp;
    if (!ff) ff = a->flags & SHARED_GATED ? hp->n_ff / hp->n_expert_used : hp->n_ff; // older files give the dense width only
    if (!ff_shared && a->flags & SHARED_GATED) ff_shared = hp->n_ff;
    if (!ff) return ch_error_set(e, CH_EFORMAT, "key expert_feed_forward_length is missing, and expert_count is %u", hp->n_expert);
    *b = (ch_moe){.n_used = hp->n_expert_used, .gating = CH_GATE_SOFTMAX, .renormalise = a->flags & RENORMALISE};
    int rc;
    if ((rc = ch_model_bind_mat(m, &b->router, d, hp->n_expert, 1, 0, e, "blk.%u.ffn_gate_inp", i)) ||
        (rc = ch_model_bind_mat(m, &b->gate, d, ff, hp->n_expert, 0, e, "blk.%u.ffn_gate_exps", i)) ||
        (rc = ch_model_bind_mat(m, &b->up, d, ff, hp->n_expert, 0, e, "blk.%u.ffn_up_exps", i)) ||
        (rc = ch_model_bind_mat(m, &b->down, ff, d, hp->n_expert, 0, e, "blk.%u.ffn_down_exps", i)))
        return rc;
    if (!ff_shared) return CH_OK;
    if ((rc = bind_ffn(m, &b->shared, d, ff_shared, a->flags & SHARED_GATED ? 0 : CH_BIND_OPTIONAL, "_shexp", i, e))) return rc;
    if (!(a->flags & SHARED_GATED)) return CH_OK;
    return ch_model_bind_mat(m, &b->shared_gate, d, 1, 1, 0, e, "blk.%u.ffn_gate_inp_shexp", i);
}

static int bind_layer(ch_model *m, transformer *a, uint32_t i, uint32_t n_head_kv, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    layer *l = &a->layers[i];
    l->attn = (ch_attn){.n_head = hp->n_head, .n_head_kv = n_head_kv, .d_head = hp->d_head, .n_rot = a->rope.n_rot,
                        .neox = a->rope.neox, .eps = hp->eps, .scale = hp->attn_scale};
    int rc;
    if ((rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
        (rc = ch_model_bind_attn(m, &l->attn, hp->n_embd, i, e)) ||
        (rc = ch_model_bind_vec(m, &l->ffn_norm, hp->n_embd, 0, e, "blk.%u.ffn_norm.weight", i)))
        return rc;
    if (a->flags & QK_NORM &&
        ((rc = ch_model_bind_vec(m, &l->attn.q_norm, hp->d_head, 0, e, "blk.%u.attn_q_norm.weight", i)) ||
         (rc = ch_model_bind_vec(m, &l->attn.k_norm, hp->d_head, 0, e, "blk.%u.attn_k_norm.weight", i))))
        return rc;
    if (!hp->n_expert) {
        ch_model_layer(m, i)->ffn = "dense";
        return bind_ffn(m, &l->ffn, hp->n_embd, hp->n_ff, 0, "", i, e);
    }
    if ((rc = bind_moe(m, a, &l->moe, i, e))) return rc;
    ch_model_layer(m, i)->ffn = l->moe.shared.up.type ? "moe + shared" : "moe";
    return CH_OK;
}

static int read_scales(ch_model *m, transformer *a, ch_error *e) {
    a->embedding_scale = a->residual_scale = a->logit_scale = 0;
    if (a->flags & SCALES) {
        int rc;
        bool rotate = true;
        if ((rc = ch_model_hp_bool(m, "rope.scaling.finetuned", &rotate, e))) return rc;
        if (!rotate) a->rope.n_rot = 0;
        if ((rc = ch_model_hp_f32(m, "embedding_scale", 0, 1e6, &a->embedding_scale, e)) ||
            (rc = ch_model_hp_f32(m, "residual_scale", 0, 1e6, &a->residual_scale, e)) ||
            (rc = ch_model_hp_f32(m, "logit_scale", 0, 1e6, &a->logit_scale, e)))
            return rc;
    }
    if (a->embedding_scale == 0) a->embedding_scale = 1;
    if (a->residual_scale == 0) a->residual_scale = 1;
    if (a->logit_scale == 0) a->logit_scale = 1;
    return CH_OK;
}

static int bind(ch_model *m, void **data, ch_error *e) {
    transformer *a = ch_model_alloc(m, 1, sizeof *a);
    if (!a) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].name, ch_model_arch(m))) a->flags = families[i].flags;
    ch_hparams *hp = &a->hp;
    int rc = ch_model_read_hparams(m, hp, e);
    if (rc || (rc = ch_model_read_rope(m, hp, a->flags & NEOX, &a->rope, e)) || (rc = read_scales(m, a, e))) return rc;
    uint32_t n_head_kv[1024], max_kv = 0; // at most 1024 layers
    for (uint32_t i = 0; i < hp->n_layer; i++) n_head_kv[i] = hp->n_head;
    if ((rc = ch_model_hp_u32_n(m, "attention.head_count_kv", n_head_kv, hp->n_layer, e)) < 0) return rc;
    for (uint32_t i = 0; i < hp->n_layer; i++) max_kv = n_head_kv[i] > max_kv ? n_head_kv[i] : max_kv;
    if (a->flags & MOE && !hp->n_expert)
        return ch_error_set(e, CH_ERANGE, "key %s.expert_count is 0, expected at least 1", ch_model_arch(m));
    if (!hp->n_expert && !hp->n_ff) return ch_error_set(e, CH_EFORMAT, "key %s.feed_forward_length is missing", ch_model_arch(m));
    if ((rc = ch_model_set_layers(m, hp->n_layer, max_kv, e)) ||
        (rc = ch_model_bind_mat(m, &a->embd, hp->n_embd, hp->n_vocab, 1, 0, e, "token_embd")) ||
        (rc = ch_model_bind_mat(m, &a->head, hp->n_embd, hp->n_vocab, 1, CH_BIND_OPTIONAL, e, "output")) ||
        (rc = ch_model_bind_vec(m, &a->output_norm, hp->n_embd, 0, e, "output_norm.weight")))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((rc = bind_layer(m, a, i, n_head_kv[i], e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const transformer *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    ch_op_get_rows(op, &a->embd, st->token, st->n_row, x);
    ch_op_scale(op, a->embedding_scale, st->n_row, d, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        ch_block_attn(&l->attn, st, (int)i, rope, h, y);
        ch_op_scale(op, a->residual_scale, st->n_row, d, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        if (l->moe.router.type)
            ch_block_moe(&l->moe, st, (int)i, h, y);
        else
            ch_block_ffn(&l->ffn, st, h, y);
        ch_op_scale(op, a->residual_scale, st->n_row, d, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(a->head.type ? &a->head : &a->embd, st, h, logits);
    if (logits) ch_op_scale(op, 1.0f / a->logit_scale, st->n_out, a->hp.n_vocab, logits); // NULL: only hidden rows are wanted
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_llama = {"llama", bind, forward};
const ch_arch ch_arch_qwen2 = {"qwen2", bind, forward};
const ch_arch ch_arch_qwen2moe = {"qwen2moe", bind, forward};
const ch_arch ch_arch_qwen3 = {"qwen3", bind, forward};
const ch_arch ch_arch_qwen3moe = {"qwen3moe", bind, forward};
const ch_arch ch_arch_granite = {"granite", bind, forward};
const ch_arch ch_arch_granitemoe = {"granitemoe", bind, forward};
