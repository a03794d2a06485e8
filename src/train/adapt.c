// Which tensors of a model get low-rank adapters, and the adapters' own tensors.
//
// For a tensor NAME of the file, [n_out][n_in] or a stack of such: NAME.lora_a [rank][n_in], NAME.lora_b [n_out][rank], or stacks of
// them. A begins with random values, B with zeros, so that training begins with the model as it is.
#include <stdio.h>

#include "train/model.h"

// Gates of single heads and experts have few rows: an adapter would be as large as they are. The router stays, so that experts
// keep their tokens; routed experts see few tokens each in a short run.
static const char *const left_out[] = {"ffn_gate_inp", "ssm_alpha", "ssm_beta", "nextn.eh_proj", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};

// "blk.3.attn_q.weight": "attn_q" and layer 3; "output.weight": "output". False: no matrix that products alone read.
static bool parse_name(const ch_train_model *m, const ch_train_tensor *t, char *kind, size_t size, uint32_t *layer) {
    int begin = 0;
    *layer = 0;
    if (t->init != CH_TRAIN_NORMAL || t->n_dims < 2 || t->off == m->embd.off) return false;
    if (sscanf(t->name, "blk.%u.%n", layer, &begin) != 1) begin = 0;
    const size_t n = strlen(t->name + begin);
    if (n < 8 || n - 7 >= size || strcmp(t->name + begin + n - 7, ".weight") != 0) return false;
    memcpy(kind, t->name + begin, n - 7);
    kind[n - 7] = 0;
    return true;
}

static bool is_wanted(const ch_train_adapters *a, const char *kind, bool *used) {
    if (!a->n_target) {
        for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
            if (strcmp(kind, left_out[i]) == 0) return false;
        return strcmp(kind, "output") != 0;
    }
    for (size_t i = 0; i < a->n_target; i++)
        if (strcmp(kind, a->target[i]) == 0) return used[i] = true;
    return false;
}

static int no_memory(ch_error *e) { return ch_error_set(e, CH_ENOMEM, "no memory for adapters"); }

static bool keep_part(ch_train_lora *l, const ch_train_lora_part *p) {
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 64;
        ch_train_lora_part *more = ch_realloc(l->part, cap * sizeof *more);
        if (!more) return false;
        l->part = more, l->cap = cap;
    }
    size_t at = l->n++; // by place; tensors come nearly in that order
    for (; at > 0 && l->part[at - 1].off > p->off; at--) l->part[at] = l->part[at - 1];
    l->part[at] = *p;
    return true;
}

static void align(ch_train_model *m) { m->n_param = (m->n_param + 15) & ~(size_t)15; }

static int adapt_tensor(ch_train_model *m, size_t i, size_t rank, ch_error *e) {
    const ch_train_tensor t = m->tensor[i]; // a copy: the list grows
    const size_t n_in = (size_t)t.ne[0], n_out = (size_t)t.ne[1], n_mat = (size_t)t.ne[2];
    ch_train_tensor a = {.n_dims = t.n_dims, .ne = {n_in, rank, n_mat, 1}, .init = CH_TRAIN_NORMAL, .std = 1 / sqrtf((float)n_in), .decay = true, .keep_f32 = true};
    ch_train_tensor b = {.n_dims = t.n_dims, .ne = {rank, n_out, n_mat, 1}, .init = CH_TRAIN_ZEROS, .decay = true, .keep_f32 = true};
    if ((size_t)snprintf(a.name, sizeof a.name, "%s.lora_a", t.name) >= sizeof a.name || (size_t)snprintf(b.name, sizeof b.name, "%s.lora_b", t.name) >= sizeof b.name)
        return ch_error_set(e, CH_ELIMIT, "tensor %s: name too long for an adapter", t.name);
    const size_t at = ch_train_add_tensor(m, &a);
    ch_train_add_mats(m, at, rank, n_in, n_mat);
    const size_t bt = ch_train_add_tensor(m, &b);
    ch_train_add_mats(m, bt, n_out, rank, n_mat);
    align(m);
    if (m->failed) return no_memory(e);
    for (size_t k = 0; k < n_mat; k++)
        if (!keep_part(&m->lora, &(ch_train_lora_part){t.off + k * n_out * n_in, n_out, n_in, {at + k * rank * n_in, rank, n_in}, {bt + k * n_out * rank, n_out, rank}}))
            return no_memory(e);
    return 0;
}

int ch_train_adapt(ch_train_model *m, const ch_train_adapters *a, bool mtp, ch_error *e) {
    bool used[CH_TRAIN_MAX_TARGETS] = {false};
    char kind[64];
    uint32_t layer;
    align(m);
    m->n_frozen = m->n_param, m->n_frozen_tensor = m->n_tensor, m->n_frozen_mat = m->n_mat;
    m->lora.rank = (size_t)a->rank, m->lora.scale = a->alpha / a->rank;
    for (size_t i = 0; i < m->n_frozen_tensor; i++) {
        if (!parse_name(m, &m->tensor[i], kind, sizeof kind, &layer) || !is_wanted(a, kind, used) || (!mtp && (int32_t)layer >= m->shape.n_layer)) continue;
        int rc = adapt_tensor(m, i, (size_t)a->rank, e);
        if (rc) return rc;
    }
    for (size_t i = 0; i < a->n_target; i++)
        if (!used[i]) return ch_error_set(e, CH_ERANGE, "lora.targets \"%.40s\": no matrix of this model, or none that can be adapted", a->target[i]);
    return m->lora.n ? 0 : ch_error_set(e, CH_ESTATE, "lora: nothing to adapt");
}
