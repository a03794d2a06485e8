// Qwen3.5 / Qwen3.6 (qwen35, qwen35moe) and Qwen3-Next (qwen3next): gated delta nets and gated attention, 3 to 1.
//
//   x = embed(token)
//   per layer:  x += mixer(rms(x, attn_norm));  x += ffn(rms(x, post_attention_norm))
//   logits = output * rms(x, output_norm)
//   mixer: attention where (layer + 1) mod interval == 0 (or as attention.recurrent_layers says), else delta net
//
// The two families differ in how value heads meet key heads: qwen35 files store value heads tiled (head h uses key head
// h mod n_head_k), qwen3next grouped (h / r), with beta and alpha interleaved per key head in one matrix (ssm_ba); older
// qwen3next files hold q, k, v and z interleaved per key head in one matrix (ssm_in).
//
// MTP (nextn): one more attention layer behind the trunk that predicts the token after next, for drafting. Its keys and values
// cover every position, so each step appends them for its rows:
//   at position p:  c = eh_proj [rms(embed(token p), enorm) ; rms(hidden p-1, hnorm)],  hidden = after the trunk's final norm
//   draft:          s = c + attn(rms(c, attn_norm));  s += ffn(rms(s, post_attention_norm));  logits = head * rms(s, head norm)
#include "arch/arch.h"

typedef struct layer {
    const float *attn_norm, *post_norm; // [n_embd]
    bool recurrent;
    ch_attn attn; // where not recurrent
    ch_gdn gdn;   // where recurrent
    ch_ffn ffn;   // dense
    ch_moe moe;   // moe.router.type NULL: dense
} layer;

typedef struct mtp {
    bool on;
    layer block; // attention
    ch_weight eh_proj; // [n_embd][2 * n_embd]
    ch_weight embd, head; // own ones; type NULL: the trunk's
    const float *enorm, *hnorm, *head_norm; // [n_embd]
    ch_lastrow last; // hidden row of the sequence, [n_embd]
} mtp;

typedef struct qwen35 {
    ch_hparams hp;
    ch_rope rope;
    uint32_t n_head_k, n_head_v, d_state, n_tap; // delta net
    bool tiled;
    ch_weight embd, head;
    const float *output_norm; // [n_embd]
    layer *layers;            // [n_layer]
    mtp mtp;
} qwen35;

// ---- keys -----------------------------------------------------------------------------------------------------------------
static int read_delta_keys(ch_model *m, qwen35 *a, ch_error *e) {
    uint32_t inner = 0;
    int rc;
    if ((rc = ch_model_hp_u32(m, "ssm.conv_kernel", true, 2, 16, &a->n_tap, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.state_size", true, 1, 1024, &a->d_state, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.group_count", true, 1, 1024, &a->n_head_k, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.time_step_rank", true, 1, 4096, &a->n_head_v, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.inner_size", true, 1, 1 << 20, &inner, e)))
        return rc;
    if (a->n_head_v % a->n_head_k)
        return ch_error_set(e, CH_ERANGE, "ssm.time_step_rank %u (value heads) is no multiple of ssm.group_count %u (key heads)",
                            a->n_head_v, a->n_head_k);
    if (inner != a->n_head_v * a->d_state)
        return ch_error_set(e, CH_ERANGE, "ssm.inner_size %u, expected ssm.time_step_rank * ssm.state_size = %u", inner,
                            a->n_head_v * a->d_state);
    return CH_OK;
}

// recurrent[i]: from attention.recurrent_layers, else every layer but each interval-th.
static int read_layer_kinds(ch_model *m, uint32_t n_layer, uint32_t *recurrent, ch_error *e) {
    uint32_t interval = 4;
    int rc = ch_model_hp_u32_n(m, "attention.recurrent_layers", recurrent, n_layer, e);
    if (rc) return rc < 0 ? rc : CH_OK;
    if ((rc = ch_model_hp_u32(m, "full_attention_interval", false, 1, 1024, &interval, e))) return rc;
    for (uint32_t i = 0; i < n_layer; i++) recurrent[i] = (i + 1) % interval != 0;
    return CH_OK;
}

// ---- mixers ---------------------------------------------------------------------------------------------------------------
static int bind_attention(ch_model *m, const qwen35 *a, ch_attn *b, uint32_t i, uint32_t n_head_kv, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    *b = (ch_attn){.n_head = hp->n_head, .n_head_kv = n_head_kv, .d_head = hp->d_head, .n_rot = a->rope.n_rot, .gated = true,
                   .neox = a->rope.neox, .eps = hp->eps, .scale = hp->attn_scale};
    int rc = ch_model_bind_attn(m, b, hp->n_embd, i, e);
    if (rc || (rc = ch_model_bind_vec(m, &b->q_norm, hp->d_head, 0, e, "blk.%u.attn_q_norm.weight", i))) return rc;
    return ch_model_bind_vec(m, &b->k_norm, hp->d_head, 0, e, "blk.%u.attn_k_norm.weight", i);
}

// Legacy ssm_in: per key head d q rows, d k rows, r*d v rows, r*d z rows. Taken apart into qkv and z by rows.
static int bind_legacy_in(ch_model *m, const qwen35 *a, ch_gdn *b, const ch_gguf_tensor *t, ch_error *e) {
    size_t d = a->d_state, r = a->n_head_v / a->n_head_k, kd = a->n_head_k * d, vd = a->n_head_v * d, per = 2 * d + 2 * r * d;
    if (t->ne[0] != a->hp.n_embd || t->ne[1] != 2 * kd + 2 * vd || t->ne[2] != 1 || t->ne[3] != 1)
        return ch_error_set(e, CH_EFORMAT, "tensor %s has shape [%llu, %llu], expected [%u, %zu]", t->name,
                            (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], a->hp.n_embd, 2 * kd + 2 * vd);
    uint32_t *qkv = ch_model_alloc(m, 2 * kd + 2 * vd, sizeof *qkv);
    if (!qkv) return ch_error_set(e, CH_ENOMEM, "no memory");
    uint32_t *z = qkv + 2 * kd + vd;
    for (size_t h = 0; h < a->n_head_k; h++) {
        for (size_t i = 0; i < d; i++) {
            qkv[h * d + i] = (uint32_t)(h * per + i);
            qkv[kd + h * d + i] = (uint32_t)(h * per + d + i);
        }
        for (size_t i = 0; i < r * d; i++) {
            qkv[2 * kd + h * r * d + i] = (uint32_t)(h * per + 2 * d + i);
            z[h * r * d + i] = (uint32_t)(h * per + 2 * d + r * d + i);
        }
    }
    int rc = ch_model_bind_rows(m, &b->qkv, t, qkv, 2 * kd + vd, e);
    return rc ? rc : ch_model_bind_rows(m, &b->z, t, z, vd, e);
}

static int bind_delta(ch_model *m, const qwen35 *a, ch_gdn *b, uint32_t i, ch_error *e) {
    size_t d = a->hp.n_embd, kd = (size_t)a->n_head_k * a->d_state, vd = (size_t)a->n_head_v * a->d_state;
    int rc;
    *b = (ch_gdn){.n_head_k = a->n_head_k, .n_head_v = a->n_head_v, .d_k = a->d_state, .d_v = a->d_state, .n_tap = a->n_tap,
                  .tiled = a->tiled, .eps = a->hp.eps};
    const ch_gguf_tensor *legacy = a->tiled ? NULL : ch_model_find(m, "blk.%u.ssm_in.weight", i);
    if (legacy) {
        if ((rc = bind_legacy_in(m, a, b, legacy, e))) return rc;
    } else if ((rc = ch_model_bind_mat(m, &b->qkv, d, 2 * kd + vd, 1, 0, e, "blk.%u.attn_qkv", i)) ||
               (rc = ch_model_bind_mat(m, &b->z, d, vd, 1, 0, e, "blk.%u.attn_gate", i))) {
        return rc;
    }
    if ((rc = ch_model_bind_mat(m, &b->beta, d, 2 * a->n_head_v, 1, CH_BIND_OPTIONAL, e, "blk.%u.ssm_ba", i))) return rc;
    if (!b->beta.type && ((rc = ch_model_bind_mat(m, &b->beta, d, a->n_head_v, 1, 0, e, "blk.%u.ssm_beta", i)) ||
                          (rc = ch_model_bind_mat(m, &b->alpha, d, a->n_head_v, 1, 0, e, "blk.%u.ssm_alpha", i))))
        return rc;
    if ((rc = ch_model_bind_vec(m, &b->a, a->n_head_v, 0, e, "blk.%u.ssm_a", i)) ||
        (rc = ch_model_bind_vec(m, &b->dt_bias, a->n_head_v, 0, e, "blk.%u.ssm_dt.bias", i)) ||
        (rc = ch_model_bind_vec(m, &b->norm, a->d_state, 0, e, "blk.%u.ssm_norm.weight", i)) ||
        (rc = ch_model_bind_mat(m, &b->out, vd, d, 1, 0, e, "blk.%u.ssm_out", i)) ||
        (rc = ch_model_bind_conv(m, &b->conv_w, a->n_tap, 2 * kd + vd, e, "blk.%u.ssm_conv1d.weight", i)))
        return rc;
    for (uint32_t h = 0; h < a->n_head_v; h++)
        if (!(b->a[h] <= 0))
            return ch_error_set(e, CH_EFORMAT, "tensor blk.%u.ssm_a: value %u is %g, expected -exp(A_log) <= 0", i, h, (double)b->a[h]);
    ch_block_gdn_place(b, ch_model_layout(m));
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "gated delta net";
    info->state_bytes = ch_op_gdn_state_bytes(b->n_head_k, b->n_head_v, b->d_k, b->d_v, b->n_tap, b->form.bf16);
    return CH_OK;
}

// ---- feed-forward ---------------------------------------------------------------------------------------------------------
static int bind_ffn(ch_model *m, ch_ffn *b, size_t d, size_t ff, unsigned flags, const char *suffix, uint32_t i, ch_error *e) {
    int rc = ch_model_bind_mat(m, &b->gate, d, ff, 1, flags, e, "blk.%u.ffn_gate%s", i, suffix);
    if (rc || !b->gate.type) return rc;
    rc = ch_model_bind_mat(m, &b->up, d, ff, 1, 0, e, "blk.%u.ffn_up%s", i, suffix);
    return rc ? rc : ch_model_bind_mat(m, &b->down, ff, d, 1, 0, e, "blk.%u.ffn_down%s", i, suffix);
}

static int bind_moe(ch_model *m, const ch_hparams *hp, ch_moe *b, uint32_t i, ch_error *e) {
    size_t d = hp->n_embd, ff = hp->n_ff_exp;
    int rc;
    b->n_used = hp->n_expert_used, b->renormalise = true;
    if (!ff) return ch_error_set(e, CH_EFORMAT, "key expert_feed_forward_length is missing or 0, and expert_count is %u", hp->n_expert);
    if ((rc = ch_model_bind_mat(m, &b->router, d, hp->n_expert, 1, 0, e, "blk.%u.ffn_gate_inp", i)) ||
        (rc = ch_model_bind_mat(m, &b->gate, d, 2 * ff, hp->n_expert, CH_BIND_OPTIONAL, e, "blk.%u.ffn_gate_up_exps", i)))
        return rc;
    if (!b->gate.type && ((rc = ch_model_bind_mat(m, &b->gate, d, ff, hp->n_expert, 0, e, "blk.%u.ffn_gate_exps", i)) ||
                          (rc = ch_model_bind_mat(m, &b->up, d, ff, hp->n_expert, 0, e, "blk.%u.ffn_up_exps", i))))
        return rc;
    if ((rc = ch_model_bind_mat(m, &b->down, ff, d, hp->n_expert, 0, e, "blk.%u.ffn_down_exps", i))) return rc;
    if (!hp->n_ff_shexp) return CH_OK;
    if ((rc = bind_ffn(m, &b->shared, d, hp->n_ff_shexp, 0, "_shexp", i, e))) return rc;
    return ch_model_bind_mat(m, &b->shared_gate, d, 1, 1, 0, e, "blk.%u.ffn_gate_inp_shexp", i);
}

static int bind_layer(ch_model *m, qwen35 *a, layer *l, uint32_t i, uint32_t n_head_kv, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    int rc;
    if ((rc = ch_model_bind_vec(m, &l->attn_norm, hp->n_embd, 0, e, "blk.%u.attn_norm.weight", i)) ||
        (rc = ch_model_bind_vec(m, &l->post_norm, hp->n_embd, 0, e, "blk.%u.post_attention_norm.weight", i)) ||
        (rc = l->recurrent ? bind_delta(m, a, &l->gdn, i, e) : bind_attention(m, a, &l->attn, i, n_head_kv, e)))
        return rc;
    ch_model_layer(m, i)->ffn = !hp->n_expert ? "dense" : hp->n_ff_shexp ? "moe + shared" : "moe";
    return hp->n_expert ? bind_moe(m, hp, &l->moe, i, e) : bind_ffn(m, &l->ffn, hp->n_embd, hp->n_ff, 0, "", i, e);
}

// The block behind the trunk. Only the first of several is used.
static int bind_mtp(ch_model *m, qwen35 *a, uint32_t n_head_kv, ch_error *e) {
    size_t d = a->hp.n_embd, v = a->hp.n_vocab;
    uint32_t i = a->hp.n_layer;
    mtp *t = &a->mtp;
    int rc;
    if ((rc = bind_layer(m, a, &t->block, i, n_head_kv, e)) ||
        (rc = ch_model_bind_mat(m, &t->eh_proj, 2 * d, d, 1, 0, e, "blk.%u.nextn.eh_proj", i)) ||
        (rc = ch_model_bind_vec(m, &t->enorm, d, 0, e, "blk.%u.nextn.enorm.weight", i)) ||
        (rc = ch_model_bind_vec(m, &t->hnorm, d, 0, e, "blk.%u.nextn.hnorm.weight", i)) ||
        (rc = ch_model_bind_vec(m, &t->head_norm, d, CH_BIND_OPTIONAL, e, "blk.%u.nextn.shared_head_norm.weight", i)) ||
        (rc = ch_model_bind_mat(m, &t->embd, d, v, 1, CH_BIND_OPTIONAL, e, "blk.%u.nextn.embed_tokens", i)) ||
        (rc = ch_model_bind_mat(m, &t->head, d, v, 1, CH_BIND_OPTIONAL, e, "blk.%u.nextn.shared_head_head", i)))
        return rc;
    if (!t->head_norm) t->head_norm = a->output_norm;
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "mtp attention";
    t->last.n = d;
    ch_block_lastrow_place(&t->last, ch_model_layout(m));
    info->state_bytes = ch_block_lastrow_state_bytes(&t->last);
    t->on = true;
    ch_model_has_mtp(m);
    return CH_OK;
}

static int bind_family(ch_model *m, void **data, bool next, ch_error *e) {
    qwen35 *a = ch_model_alloc(m, 1, sizeof *a);
    if (!a) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    uint32_t recurrent[1024], n_head_kv[1024], max_kv = 0;
    a->tiled = !next;
    int rc = ch_model_read_hparams(m, hp, e); // at most 1024 layers
    if (rc || (rc = read_delta_keys(m, a, e)) || (rc = ch_model_read_rope(m, hp, true, &a->rope, e)) ||
        (rc = read_layer_kinds(m, hp->n_layer, recurrent, e)) ||
        (rc = ch_model_hp_bool(m, "ssm.v_head_reordered", &a->tiled, e))) // third-party files that use the qwen35 name for both
        return rc;
    for (uint32_t i = 0; i < hp->n_layer; i++) n_head_kv[i] = hp->n_head;
    if ((rc = ch_model_hp_u32_n(m, "attention.head_count_kv", n_head_kv, hp->n_layer, e)) < 0) return rc;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (n_head_kv[i] > max_kv) max_kv = n_head_kv[i];
    if (!hp->n_expert && !hp->n_ff) return ch_error_set(e, CH_EFORMAT, "key feed_forward_length is missing");
    bool with_mtp = hp->n_nextn && ch_model_wants_mtp(m) && ch_model_find(m, "blk.%u.nextn.eh_proj.weight", hp->n_layer);
    if ((rc = ch_model_set_layers(m, hp->n_layer + with_mtp, max_kv, e)) ||
        (rc = ch_model_bind_mat(m, &a->embd, hp->n_embd, hp->n_vocab, 1, 0, e, "token_embd")) ||
        (rc = ch_model_bind_mat(m, &a->head, hp->n_embd, hp->n_vocab, 1, CH_BIND_OPTIONAL, e, "output")) ||
        (rc = ch_model_bind_vec(m, &a->output_norm, hp->n_embd, 0, e, "output_norm.weight")))
        return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        a->layers[i].recurrent = recurrent[i] != 0;
        if ((rc = bind_layer(m, a, &a->layers[i], i, n_head_kv[i], e))) return rc;
    }
    if (with_mtp && (rc = bind_mtp(m, a, max_kv, e))) return rc;
    for (uint32_t i = 0; i < hp->n_nextn; i++) ch_model_ignore_prefix(m, "blk.%u.", hp->n_layer + i);
    ch_model_ignore_prefix(m, "v."), ch_model_ignore_prefix(m, "mm."); // a vision tower in the same file
    return CH_OK;
}

static int bind_qwen35(ch_model *m, void **data, ch_error *e) { return bind_family(m, data, false, e); }
static int bind_qwen3next(ch_model *m, void **data, ch_error *e) { return bind_family(m, data, true, e); }

// ---- forward --------------------------------------------------------------------------------------------------------------
static void ffn(const layer *l, ch_step *st, int i, const float *h, float *y) {
    if (l->moe.router.type)
        ch_block_moe(&l->moe, st, i, h, y);
    else
        ch_block_ffn(&l->ffn, st, h, y);
}

// c = eh_proj [rms(embed(token), enorm) ; rms(prev, hnorm)]
static void mtp_input(const qwen35 *a, ch_step *st, const float *prev, float *c) {
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, mark = ch_op_scratch_mark(op);
    float *e = ch_op_scratch(op, st->n_row, d), *both = ch_op_scratch(op, st->n_row, 2 * d);
    ch_op_get_rows(op, a->mtp.embd.type ? &a->mtp.embd : &a->embd, st->token, st->n_row, e);
    ch_op_rmsnorm(op, e, a->mtp.enorm, st->n_row, d, a->hp.eps, e);
    ch_op_copy_heads(op, e, d, st->n_row, d, 2 * d, both);
    ch_op_rmsnorm(op, prev, a->mtp.hnorm, st->n_row, d, a->hp.eps, e);
    ch_op_copy_heads(op, e, d, st->n_row, d, 2 * d, both + d);
    ch_op_matmul(op, &(ch_op_mul){&a->mtp.eh_proj, c}, 1, both, st->n_row);
    ch_op_scratch_reset(op, mark);
}

// Keys and values of the rows of a step; h: [n_row][n_embd] after the final norm.
static void mtp_append(const qwen35 *a, ch_step *st, const float *rope, const float *h) {
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, mark = ch_op_scratch_mark(op);
    float *prev = ch_op_scratch(op, st->n_row, d), *c = ch_op_scratch(op, st->n_row, d);
    ch_block_lastrow_shift(&a->mtp.last, st, h, prev);
    mtp_input(a, st, prev, c);
    ch_op_rmsnorm(op, c, a->mtp.block.attn_norm, st->n_row, d, a->hp.eps, c);
    ch_block_attn_append(&a->mtp.block.attn, st, rope, c);
    ch_op_scratch_reset(op, mark);
}

static void draft(const void *data, ch_step *st, const float *hidden, float *logits) {
    const qwen35 *a = data;
    const layer *l = &a->mtp.block;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, mark = ch_op_scratch_mark(op);
    float *prev = ch_op_scratch(op, st->n_row, d), *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d);
    float *y = ch_op_scratch(op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    if (!hidden) {
        ch_block_lastrow_get(&a->mtp.last, st, prev);
        hidden = prev;
    }
    mtp_input(a, st, hidden, x);
    ch_step_trace(st, "mtp_input", (int)a->hp.n_layer, x, d);
    ch_op_rmsnorm(op, x, l->attn_norm, st->n_row, d, a->hp.eps, h);
    ch_block_attn(&l->attn, st, (int)a->hp.n_layer, rope, h, y);
    ch_op_add_rmsnorm(op, y, l->post_norm, st->n_row, d, a->hp.eps, x, h);
    ffn(l, st, (int)a->hp.n_layer, h, y);
    ch_op_add_rmsnorm(op, y, a->mtp.head_norm, st->n_row, d, a->hp.eps, x, h);
    ch_block_head(a->mtp.head.type ? &a->mtp.head : a->head.type ? &a->head : &a->embd, st, h, logits);
    ch_op_scratch_reset(op, mark);
}

static void forward(const void *data, ch_step *st, float *logits) {
    const qwen35 *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    ch_op_get_rows(op, &a->embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        if (l->recurrent)
            ch_block_gdn(&l->gdn, st, (int)i, h, y);
        else
            ch_block_attn(&l->attn, st, (int)i, rope, h, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, l->post_norm, st->n_row, d, a->hp.eps, x, h);
        ffn(l, st, (int)i, h, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    if (a->mtp.on) mtp_append(a, st, rope, h);
    ch_block_head(a->head.type ? &a->head : &a->embd, st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_qwen35 = {"qwen35", bind_qwen35, forward, draft};
const ch_arch ch_arch_qwen35moe = {"qwen35moe", bind_qwen35, forward, draft};
const ch_arch ch_arch_qwen3next = {"qwen3next", bind_qwen3next, forward, draft};
