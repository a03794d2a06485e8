// Binding of parts that several families share.
#include "arch/mixers.h"

#include <string.h>

int ch_arch_bind_ends(ch_model *m, const ch_hparams *hp, ch_ends *b, ch_error *e) {
    int rc;
    if ((rc = ch_model_bind_mat(m, &b->embd, hp->n_embd, hp->n_vocab, 1, 0, e, "token_embd")) ||
        (rc = ch_model_bind_mat(m, &b->head, hp->n_embd, hp->n_vocab, 1, CH_BIND_OPTIONAL, e, "output")))
        return rc;
    return ch_model_bind_vec(m, &b->output_norm, hp->n_embd, 0, e, "output_norm.weight");
}

// ---- state-space mixers ---------------------------------------------------------------------------------------------------
int ch_arch_read_ssm_keys(ch_model *m, bool scan2, ch_ssm_keys *k, ch_error *e) {
    *k = (ch_ssm_keys){0};
    int rc;
    if ((rc = ch_model_hp_u32(m, "ssm.conv_kernel", true, 2, 16, &k->n_tap, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.inner_size", true, 1, 1 << 20, &k->d_inner, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.state_size", true, 1, 1024, &k->d_state, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.time_step_rank", true, 1, 1 << 16, &k->n_rank, e)) ||
        (rc = ch_model_hp_u32(m, "ssm.group_count", false, 0, 1 << 16, &k->n_group, e)))
        return rc;
    if (!k->n_group) k->n_group = 1;
    if (!scan2) return CH_OK;
    if (k->d_inner % k->n_rank)
        return ch_error_set(e, CH_ERANGE, "ssm.inner_size %u is no multiple of ssm.time_step_rank %u (heads)", k->d_inner, k->n_rank);
    if (k->n_rank % k->n_group)
        return ch_error_set(e, CH_ERANGE, "ssm.time_step_rank %u (heads) is no multiple of ssm.group_count %u", k->n_rank, k->n_group);
    return CH_OK;
}

int ch_arch_need_double_inner(ch_model *m, const ch_hparams *hp, const ch_ssm_keys *k, ch_error *e) {
    (void)m;
    if (k->d_inner == 2 * hp->n_embd) return CH_OK;
    return ch_error_set(e, CH_ERANGE, "ssm.inner_size is %u, expected 2 * embedding_length = %u", k->d_inner, 2 * hp->n_embd);
}

int ch_arch_check_decay(ch_model *m, const float *a, size_t n, uint32_t i, ch_error *e) {
    for (size_t c = 0; c < n; c++)
        if (!(a[c] <= 0))
            return ch_error_set(e, CH_EFORMAT, "%s: tensor blk.%u.ssm_a: value %zu is %g, expected -exp(A_log) <= 0",
                                ch_gguf_path(ch_model_gguf(m)), i, c, (double)a[c]);
    return CH_OK;
}

// Convolution weights and their bias if there is one.
static int bind_conv(ch_model *m, const float **w, const float **bias, size_t n_tap, size_t n_channel, uint32_t i, ch_error *e) {
    int rc = ch_model_bind_conv(m, w, n_tap, n_channel, e, "blk.%u.ssm_conv1d.weight", i);
    return rc ? rc : ch_model_bind_vec(m, bias, n_channel, CH_BIND_OPTIONAL, e, "blk.%u.ssm_conv1d.bias", i);
}

int ch_arch_bind_ssm1(ch_model *m, const ch_hparams *hp, const ch_ssm_keys *k, int norms, ch_ssm1 *b, uint32_t i, ch_error *e) {
    size_t d = hp->n_embd, di = k->d_inner, ds = k->d_state, r = k->n_rank, low = r + 2 * ds;
    int rc;
    *b = (ch_ssm1){.n_channel = di, .d_state = ds, .n_tap = k->n_tap, .eps = hp->eps, .norms = norms != CH_SSM_NORM_NONE};
    if ((rc = ch_model_bind_part(m, &b->x, &(ch_bind_part){d, 2 * di, 0, di, 0}, e, "blk.%u.ssm_in", i)) ||
        (rc = ch_model_bind_part(m, &b->z, &(ch_bind_part){d, 2 * di, di, di, 0}, e, "blk.%u.ssm_in", i)) ||
        (rc = bind_conv(m, &b->conv_w, &b->conv_b, k->n_tap, di, i, e)) ||
        (rc = ch_model_bind_part(m, &b->dt_low, &(ch_bind_part){di, low, 0, r, 0}, e, "blk.%u.ssm_x", i)) ||
        (rc = ch_model_bind_part(m, &b->b, &(ch_bind_part){di, low, r, ds, 0}, e, "blk.%u.ssm_x", i)) ||
        (rc = ch_model_bind_part(m, &b->c, &(ch_bind_part){di, low, r + ds, ds, 0}, e, "blk.%u.ssm_x", i)) ||
        (rc = ch_model_bind_mat(m, &b->dt, r, di, 1, 0, e, "blk.%u.ssm_dt", i)) ||
        (rc = ch_model_bind_conv(m, &b->a, ds, di, e, "blk.%u.ssm_a", i)) || // by state, as a convolution by tap
        (rc = ch_arch_check_decay(m, b->a, di * ds, i, e)) ||
        (rc = ch_model_bind_vec(m, &b->skip, di, 0, e, "blk.%u.ssm_d", i)) ||
        (rc = ch_model_bind_mat(m, &b->out, di, d, 1, 0, e, "blk.%u.ssm_out", i)))
        return rc;
    if (!b->dt.bias)
        return ch_error_set(e, CH_EFORMAT, "%s: tensor blk.%u.ssm_dt.bias is missing", ch_gguf_path(ch_model_gguf(m)), i);
    if (norms == CH_SSM_NORM_WEIGHTS &&
        ((rc = ch_model_bind_vec(m, &b->dt_norm, r, 0, e, "blk.%u.ssm_dt_norm.weight", i)) ||
         (rc = ch_model_bind_vec(m, &b->b_norm, ds, 0, e, "blk.%u.ssm_b_norm.weight", i)) ||
         (rc = ch_model_bind_vec(m, &b->c_norm, ds, 0, e, "blk.%u.ssm_c_norm.weight", i))))
        return rc;
    ch_block_ssm1_place(b, ch_model_layout(m));
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "mamba", info->state_bytes += ch_block_ssm1_state_bytes(b);
    return CH_OK;
}

int ch_arch_bind_ssm2(ch_model *m, const ch_hparams *hp, const ch_ssm_keys *k, ch_ssm2 *b, uint32_t i, ch_error *e) {
    size_t d = hp->n_embd, di = k->d_inner, nh = k->n_rank, ng = k->n_group, xbc = di + 2 * ng * k->d_state, all = di + xbc + nh;
    int rc;
    *b = (ch_ssm2){.n_head = nh, .d_head = di / nh, .n_group = ng, .d_state = k->d_state, .n_tap = k->n_tap, .eps = hp->eps};
    if ((rc = ch_model_bind_part(m, &b->z, &(ch_bind_part){d, all, 0, di, 0}, e, "blk.%u.ssm_in", i)) ||
        (rc = ch_model_bind_part(m, &b->xbc, &(ch_bind_part){d, all, di, xbc, 0}, e, "blk.%u.ssm_in", i)) ||
        (rc = ch_model_bind_part(m, &b->dt, &(ch_bind_part){d, all, di + xbc, nh, 0}, e, "blk.%u.ssm_in", i)) ||
        (rc = bind_conv(m, &b->conv_w, &b->conv_b, k->n_tap, xbc, i, e)) ||
        (rc = ch_model_bind_vec(m, &b->dt_bias, nh, 0, e, "blk.%u.ssm_dt.bias", i)) ||
        (rc = ch_model_bind_vec(m, &b->a, nh, 0, e, "blk.%u.ssm_a", i)) || (rc = ch_arch_check_decay(m, b->a, nh, i, e)) ||
        (rc = ch_model_bind_vec(m, &b->skip, nh, 0, e, "blk.%u.ssm_d", i)) ||
        (rc = ch_model_bind_mat(m, &b->out, di, d, 1, 0, e, "blk.%u.ssm_out", i)))
        return rc;
    if (ch_model_find(m, "blk.%u.ssm_norm.weight", i) && // one norm per group: [d_inner / n_group, n_group]
        (rc = ch_model_bind_table(m, &b->norm, di / ng, ng, e, "blk.%u.ssm_norm.weight", i)))
        return rc;
    ch_block_ssm2_place(b, ch_model_layout(m));
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "mamba2", info->state_bytes += ch_block_ssm2_state_bytes(b);
    return CH_OK;
}

// ---- attention and feed-forward -------------------------------------------------------------------------------------------
int ch_arch_read_head_counts(ch_model *m, const ch_hparams *hp, ch_head_counts *c, ch_error *e) {
    uint32_t n = hp->n_layer;
    for (uint32_t i = 0; i < n; i++) c->n_q[i] = hp->n_head;
    int rc = ch_model_hp_u32_n(m, "attention.head_count", c->n_q, n, e);
    if (rc < 0) return rc;
    memcpy(c->n_kv, c->n_q, n * sizeof *c->n_kv);
    if ((rc = ch_model_hp_u32_n(m, "attention.head_count_kv", c->n_kv, n, e)) < 0) return rc;
    c->max_kv = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (c->n_kv[i] && (!c->n_q[i] || c->n_q[i] % c->n_kv[i]))
            return ch_error_set(e, CH_ERANGE, "layer %u: attention.head_count %u is no multiple of attention.head_count_kv %u", i,
                                c->n_q[i], c->n_kv[i]);
        if (c->n_kv[i] > c->max_kv) c->max_kv = c->n_kv[i];
    }
    return CH_OK;
}

int ch_arch_bind_swiglu(ch_model *m, ch_ffn *b, size_t d, size_t ff, const char *suffix, uint32_t i, ch_error *e) {
    if (!ff) return ch_error_set(e, CH_EFORMAT, "key feed_forward_length is missing or 0 for layer %u", i);
    int rc = ch_model_bind_mat(m, &b->gate, d, ff, 1, 0, e, "blk.%u.ffn_gate%s", i, suffix);
    if (rc || (rc = ch_model_bind_mat(m, &b->up, d, ff, 1, 0, e, "blk.%u.ffn_up%s", i, suffix))) return rc;
    return ch_model_bind_mat(m, &b->down, ff, d, 1, 0, e, "blk.%u.ffn_down%s", i, suffix);
}

int ch_arch_bind_experts(ch_model *m, const ch_hparams *hp, ch_moe *b, size_t ff, uint32_t i, ch_error *e) {
    size_t d = hp->n_embd, n = hp->n_expert;
    if (!n) return ch_error_set(e, CH_ERANGE, "key expert_count is missing or 0, and layer %u has a router", i);
    if (!ff) return ch_error_set(e, CH_EFORMAT, "key expert_feed_forward_length is missing or 0, and expert_count is %zu", n);
    b->n_used = hp->n_expert_used;
    int rc;
    if ((rc = ch_model_bind_mat(m, &b->router, d, n, 1, 0, e, "blk.%u.ffn_gate_inp", i)) ||
        (rc = ch_model_bind_mat(m, &b->gate, d, ff, n, 0, e, "blk.%u.ffn_gate_exps", i)) ||
        (rc = ch_model_bind_mat(m, &b->up, d, ff, n, 0, e, "blk.%u.ffn_up_exps", i)))
        return rc;
    return ch_model_bind_mat(m, &b->down, ff, d, n, 0, e, "blk.%u.ffn_down_exps", i);
}
