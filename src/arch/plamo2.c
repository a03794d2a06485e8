// PLaMo 2 (plamo2): Mamba-2 scans whose steps, B and C come from low-rank projections, attention in every second layer, and a
// norm behind each half as well as before it.
//
//   x = embed(token)
//   per layer:  x += rms(mixer(rms(x, attn_norm)), post_attention_norm);  x += rms(swiglu(rms(x, ffn_norm)), post_ffw_norm)
//   logits = output * rms(x, output_norm)
//   mixer: Mamba where head_count_kv is 0, else attention with a norm per head on q and k, rotated (pairs i, i + n_rot/2)
//
// ssm_in holds, per head, d_head rows of z and d_head rows of x; ffn_up the gate rows and then the up rows.
#include "arch/arch.h"
#include "arch/mixers.h"

typedef struct layer {
    const float *attn_norm, *post_norm, *ffn_norm, *post_ffn_norm; // [n_embd]
    ch_ssm2 ssm;                                                   // where attn.n_head is 0
    ch_attn attn;
    ch_ffn ffn;
} layer;

typedef struct plamo {
    ch_hparams hp;
    ch_ends ends;
    ch_ssm_keys ssm;
    ch_rope rope;
    layer *layers; // [n_layer]
} plamo;

// Files name norms with and without the suffix.
static int bind_norm(ch_model *m, const float **v, size_t n, const char *name, uint32_t i, ch_error *e) {
    int rc = ch_model_bind_vec(m, v, n, CH_BIND_OPTIONAL, e, "blk.%u.%s.weight", i, name);
    return rc || *v ? rc : ch_model_bind_vec(m, v, n, 0, e, "blk.%u.%s", i, name);
}

// z and x of each head, apart.
static int bind_in(ch_model *m, const ch_hparams *hp, ch_ssm2 *b, uint32_t i, ch_error *e) {
    size_t di = b->n_head * b->d_head;
    const ch_gguf_tensor *t = ch_model_find(m, "blk.%u.ssm_in.weight", i);
    if (!t) return ch_error_set(e, CH_EFORMAT, "%s: tensor blk.%u.ssm_in.weight is missing", ch_gguf_path(ch_model_gguf(m)), i);
    if (t->ne[0] != hp->n_embd || t->ne[1] != 2 * di || t->ne[2] != 1 || t->ne[3] != 1)
        return ch_error_set(e, CH_EFORMAT, "tensor %s has shape [%llu, %llu], expected [%u, %zu]", t->name,
                            (unsigned long long)t->ne[0], (unsigned long long)t->ne[1], hp->n_embd, 2 * di);
    uint32_t *z = ch_model_alloc(m, 2 * di, sizeof *z);
    if (!z) return ch_error_set(e, CH_ENOMEM, "no memory");
    uint32_t *x = z + di;
    for (size_t h = 0; h < b->n_head; h++)
        for (size_t p = 0; p < b->d_head; p++) {
            z[h * b->d_head + p] = (uint32_t)(h * 2 * b->d_head + p);
            x[h * b->d_head + p] = (uint32_t)((h * 2 + 1) * b->d_head + p);
        }
    int rc = ch_model_bind_rows(m, &b->z, t, z, di, e);
    return rc ? rc : ch_model_bind_rows(m, &b->xbc, t, x, di, e);
}

static int bind_mamba(ch_model *m, const plamo *a, ch_ssm2 *b, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    const ch_ssm_keys *k = &a->ssm;
    size_t di = k->d_inner, ds = k->d_state, nh = k->n_rank, r = hp->n_embd / 16 > 64 ? hp->n_embd / 16 : 64, all = 2 * ds + r;
    int rc;
    *b = (ch_ssm2){.n_head = nh, .d_head = di / nh, .n_group = 1, .d_state = ds, .n_tap = k->n_tap, .eps = hp->eps};
    if ((rc = bind_in(m, hp, b, i, e)) || (rc = ch_model_bind_conv(m, &b->conv_w, k->n_tap, di, e, "blk.%u.ssm_conv1d.weight", i)) ||
        (rc = ch_model_bind_vec(m, &b->conv_b, di, CH_BIND_OPTIONAL, e, "blk.%u.ssm_conv1d.bias", i)) ||
        (rc = ch_model_bind_part(m, &b->b, &(ch_bind_part){di, all, 0, ds, 0}, e, "blk.%u.ssm_x", i)) ||
        (rc = ch_model_bind_part(m, &b->c, &(ch_bind_part){di, all, ds, ds, 0}, e, "blk.%u.ssm_x", i)) ||
        (rc = ch_model_bind_part(m, &b->dt_low, &(ch_bind_part){di, all, 2 * ds, r, 0}, e, "blk.%u.ssm_x", i)) ||
        (rc = ch_model_bind_mat(m, &b->dt, r, nh, 1, 0, e, "blk.%u.ssm_dt", i)) ||
        (rc = bind_norm(m, &b->dt_norm, r, "ssm_dt_norm", i, e)) || (rc = bind_norm(m, &b->b_norm, ds, "ssm_b_norm", i, e)) ||
        (rc = bind_norm(m, &b->c_norm, ds, "ssm_c_norm", i, e)) ||
        (rc = ch_model_bind_vec(m, &b->a, nh, 0, e, "blk.%u.ssm_a", i)) || (rc = ch_arch_check_decay(m, b->a, nh, i, e)) ||
        (rc = ch_model_bind_vec(m, &b->skip, nh, 0, e, "blk.%u.ssm_d", i)) ||
        (rc = ch_model_bind_mat(m, &b->out, di, hp->n_embd, 1, 0, e, "blk.%u.ssm_out", i)))
        return rc;
    if (!b->dt.bias)
        return ch_error_set(e, CH_EFORMAT, "%s: tensor blk.%u.ssm_dt.bias is missing", ch_gguf_path(ch_model_gguf(m)), i);
    ch_block_ssm2_place(b, ch_model_layout(m));
    ch_layer_info *info = ch_model_layer(m, i);
    info->mixer = "mamba2", info->state_bytes = ch_block_ssm2_state_bytes(b);
    return CH_OK;
}

static int bind_attention(ch_model *m, const plamo *a, ch_attn *b, uint32_t i, ch_error *e) {
    size_t d = a->hp.d_head;
    int rc = ch_model_bind_attn(m, b, a->hp.n_embd, i, e);
    b->head_norms = true;
    if (rc) return rc;
    // One vector per head: [d_head, n_head].
    rc = ch_model_bind_table(m, &b->q_norm, d, b->n_head, e, "blk.%u.attn_q_norm.weight", i);
    return rc ? rc : ch_model_bind_table(m, &b->k_norm, d, b->n_head_kv, e, "blk.%u.attn_k_norm.weight", i);
}

static int bind_layer(ch_model *m, plamo *a, const ch_head_counts *heads, uint32_t i, ch_error *e) {
    const ch_hparams *hp = &a->hp;
    layer *l = &a->layers[i];
    size_t d = hp->n_embd, ff = hp->n_ff;
    int rc;
    if (heads->n_kv[i]) l->attn = ch_arch_attn(hp, heads, i, &a->rope);
    if ((rc = bind_norm(m, &l->attn_norm, d, "attn_norm", i, e)) ||
        (rc = bind_norm(m, &l->post_norm, d, "post_attention_norm", i, e)) ||
        (rc = bind_norm(m, &l->ffn_norm, d, "ffn_norm", i, e)) || (rc = bind_norm(m, &l->post_ffn_norm, d, "post_ffw_norm", i, e)) ||
        (rc = l->attn.n_head ? bind_attention(m, a, &l->attn, i, e) : bind_mamba(m, a, &l->ssm, i, e)) ||
        (rc = ch_model_bind_part(m, &l->ffn.gate, &(ch_bind_part){d, 2 * ff, 0, ff, 0}, e, "blk.%u.ffn_up", i)) ||
        (rc = ch_model_bind_part(m, &l->ffn.up, &(ch_bind_part){d, 2 * ff, ff, ff, 0}, e, "blk.%u.ffn_up", i)))
        return rc;
    ch_model_layer(m, i)->ffn = "dense";
    return ch_model_bind_mat(m, &l->ffn.down, ff, d, 1, 0, e, "blk.%u.ffn_down", i);
}

static int bind(ch_model *m, void **data, ch_error *e) {
    plamo *a = ch_model_alloc(m, 1, sizeof *a);
    ch_head_counts *heads = ch_model_alloc(m, 1, sizeof *heads);
    if (!a || !heads) return ch_error_set(e, CH_ENOMEM, "no memory");
    *data = a;
    ch_hparams *hp = &a->hp;
    int rc = ch_model_read_hparams(m, hp, e);
    if (rc || (rc = ch_arch_read_ssm_keys(m, true, &a->ssm, e)) || (rc = ch_arch_read_head_counts(m, hp, heads, e)) ||
        (rc = ch_model_read_rope(m, hp, true, &a->rope, e)))
        return rc;
    if (a->ssm.n_group != 1) return ch_error_set(e, CH_ERANGE, "key plamo2.ssm.group_count is %u, expected 0 or 1", a->ssm.n_group);
    if (!hp->n_ff) return ch_error_set(e, CH_EFORMAT, "key plamo2.feed_forward_length is missing or 0");
    if ((rc = ch_model_set_layers(m, hp->n_layer, heads->max_kv, e)) || (rc = ch_arch_bind_ends(m, hp, &a->ends, e))) return rc;
    a->layers = ch_model_alloc(m, hp->n_layer, sizeof *a->layers);
    if (!a->layers) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if ((rc = bind_layer(m, a, heads, i, e))) return rc;
    return CH_OK;
}

static void forward(const void *data, ch_step *st, float *logits) {
    const plamo *a = data;
    ch_op *op = st->op;
    size_t d = a->hp.n_embd, n = a->hp.n_layer, mark = ch_op_scratch_mark(op);
    float *x = ch_op_scratch(op, st->n_row, d), *h = ch_op_scratch(op, st->n_row, d), *y = ch_op_scratch(op, st->n_row, d);
    const float *rope = ch_block_rope_table(&a->rope, st);
    ch_op_get_rows(op, &a->ends.embd, st->token, st->n_row, x);
    ch_step_trace(st, "embd", -1, x, d);
    ch_op_rmsnorm(op, x, a->layers[0].attn_norm, st->n_row, d, a->hp.eps, h);
    for (size_t i = 0; i < n; i++) {
        const layer *l = &a->layers[i];
        if (l->attn.n_head)
            ch_block_attn(&l->attn, st, (int)i, rope, h, y);
        else
            ch_block_ssm2(&l->ssm, st, (int)i, h, y);
        ch_step_trace(st, "mixer_out", (int)i, y, d);
        ch_op_rmsnorm(op, y, l->post_norm, st->n_row, d, a->hp.eps, y);
        ch_op_add_rmsnorm(op, y, l->ffn_norm, st->n_row, d, a->hp.eps, x, h);
        ch_block_ffn(&l->ffn, st, h, y);
        ch_step_trace(st, "ffn_out", (int)i, y, d);
        ch_op_rmsnorm(op, y, l->post_ffn_norm, st->n_row, d, a->hp.eps, y);
        ch_op_add_rmsnorm(op, y, i + 1 < n ? a->layers[i + 1].attn_norm : a->ends.output_norm, st->n_row, d, a->hp.eps, x, h);
        ch_step_trace(st, "layer_out", (int)i, x, d);
    }
    ch_block_head(ch_arch_head(&a->ends), st, h, logits);
    ch_op_scratch_reset(op, mark);
}

const ch_arch ch_arch_plamo2 = {"plamo2", bind, forward};
