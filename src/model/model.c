// Opening a model and running steps.
#include "model/model.h"

#include <string.h>

#include "model/panels.h"

enum { MAX_BATCH = 65536, MAX_SEQ = 4096 };

static int pick_arch(ch_model *m, ch_error *e) {
    ch_gguf_str name = {0};
    if (ch_gguf_get_str(m->gguf, "general.type", &name, NULL) > 0 && name.n == 7 && memcmp(name.p, "adapter", 7) == 0)
        return ch_error_set(e, CH_EUNSUPPORTED, "%s is an adapter, no model: give the model that it belongs to, and this file with --lora", ch_gguf_path(m->gguf));
    int rc = ch_gguf_get_str(m->gguf, "general.architecture", &name, e);
    if (rc < 0) return rc;
    if (rc == 0) return ch_error_set(e, CH_EFORMAT, "%s: no general.architecture", ch_gguf_path(m->gguf));
    size_t n = 0;
    for (; (m->arch = ch_arch_at(n)); n++)
        if (strlen(m->arch->name) == name.n && !memcmp(m->arch->name, name.p, name.n)) return CH_OK;
    return ch_error_set(e, CH_EUNSUPPORTED, "%s: architecture \"%.*s\" is not one of the %zu supported ones (docs/MODELS.md lists them)",
                        ch_gguf_path(m->gguf), (int)(name.n < 40 ? name.n : 40), name.p, n);
}

static int check_all_used(const ch_model *m, ch_error *e) {
    for (size_t i = 0; i < ch_gguf_n_tensors(m->gguf); i++)
        if (!m->used[i])
            return ch_error_set(e, CH_EFORMAT, "%s: tensor %s is not part of architecture %s as its keys describe it",
                                ch_gguf_path(m->gguf), ch_gguf_tensor_at(m->gguf, i)->name, m->arch->name);
    return CH_OK;
}

// Parameters and bytes. A stack of experts counts only the used ones as active; an embedding only one row.
static void fill_info(ch_model *m) {
    ch_model_info *f = &m->info;
    f->arch = m->arch->name, f->layer = m->layer;
    for (size_t i = 0; i < ch_gguf_n_tensors(m->gguf); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(m->gguf, i);
        if (m->used[i] == 1) f->n_params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3], f->weight_bytes += t->size;
    }
    bool own_head = false;
    for (size_t i = 0; i < m->n_weight; i++) own_head |= !strcmp(m->weight[i]->name, "output.weight");
    for (size_t i = 0; i < m->n_weight; i++) {
        const ch_weight *w = m->weight[i];
        f->packed_bytes += w->packed_bytes;
        if (own_head && !strcmp(w->name, "token_embd.weight")) continue;
        f->active_bytes += w->n_mat > 1 && f->n_expert_used ? w->raw_bytes / w->n_mat * (size_t)f->n_expert_used : w->raw_bytes;
    }
    for (int i = 0; i < f->n_layer; i++)
        f->kv_bytes_per_token += m->layer[i].kv_bytes_per_token, f->state_bytes += m->layer[i].state_bytes;
}

static int prepare_weights(ch_model *m, const ch_model_params *p, ch_error *e) {
    uint64_t total = 0, done = 0, t0 = ch_clock_ns();
    if (p->panel_cache && !p->no_repack) {
        int rc = ch_model_map_panels(m, p, e);
        m->info.packed_mapped = rc == 0;
        if (rc <= 0) return rc;
    }
    for (size_t i = 0; i < m->n_weight; i++) total += m->weight[i]->raw_bytes;
    for (size_t i = 0; i < m->n_weight; i++) {
        ch_weight *w = m->weight[i];
        int rc = ch_op_weight_prepare(m->op, w, p->no_repack, e);
        if (rc) return rc;
        done += w->raw_bytes;
        if (p->progress && !p->progress(p->progress_user, "loading", done, total))
            return ch_error_set(e, CH_ECANCELLED, "%s: loading was stopped", ch_gguf_path(m->gguf));
    }
    if (!p->no_repack) ch_log(CH_LOG_INFO, "weights: %llu MiB packed in %.2f s", (unsigned long long)(total >> 20), (double)(ch_clock_ns() - t0) * 1e-9);
    return CH_OK;
}

static void make_plan(ch_model *m) {
    size_t page_tokens = ch_op_page_tokens(m->op);
    m->plan = (ch_seq_plan){.page_tokens = page_tokens, .page_bytes = m->layout.kv_token_bytes * page_tokens,
                            .slab_bytes = m->layout.slab_bytes, .journal_bytes = m->layout.journal_row * sizeof(float)};
    uint64_t id[8] = {ch_gguf_fingerprint(m->gguf), m->plan.page_tokens, m->plan.page_bytes, m->plan.slab_bytes,
                      m->layout.k_type->id, m->layout.v_type->id, m->layout.rotate, m->layout.form.bf16};
    m->plan.fingerprint = ch_hash64(id, sizeof id, 1);
    if (m->lora_hash) m->plan.fingerprint = ch_hash64(&m->lora_hash, sizeof m->lora_hash, m->plan.fingerprint);
}

// Sizes the backend's buffers by running the layers once without data, with the largest step allowed.
static int dry_run(ch_model *m, ch_error *e) {
    ch_step st = {.op = m->op, .n_row = (size_t)m->info.n_batch, .n_seg = (size_t)m->info.n_seq, .seg = m->seg,
                  .n_out = (size_t)m->info.n_batch};
    ch_op_dry_begin(m->op);
    m->arch->forward(m->arch_data, &st, NULL);
    ch_block_commit(&m->layout, &st);
    if (m->info.mtp) {
        st.n_row = st.n_out = st.n_seg;
        m->arch->draft(m->arch_data, &st, NULL, NULL);
    }
    return ch_op_dry_end(m->op, e);
}

static int pick_kv_type(const ch_type_info **t, const char *name, ch_error *e) {
    *t = ch_quant_cache_type(name ? name : "f32");
    if (*t) return CH_OK;
    return ch_error_set(e, CH_ERANGE, "key/value type \"%.32s\", expected f32, f16, bf16, q8_0, q4_0, tq4 or tq3", name);
}

static int pick_state_form(ch_op_state_form *f, const ch_model_params *p, ch_error *e) {
    const char *type = p->state_type ? p->state_type : "f32";
    f->chunk = p->chunk_form, f->bf16 = strcmp(type, "bf16") == 0;
    if (f->bf16 || strcmp(type, "f32") == 0) return CH_OK;
    return ch_error_set(e, CH_ERANGE, "state type \"%.32s\", expected f32 or bf16", type);
}

int ch_model_open(ch_model **out, const char *path, const ch_model_params *p, ch_error *e) {
    *out = NULL;
    int n_batch = p->n_batch ? p->n_batch : 512, n_seq = p->n_seq ? p->n_seq : 8;
    if (n_batch < 1 || n_batch > MAX_BATCH) return ch_error_set(e, CH_ERANGE, "n_batch %d, expected 1..%d", n_batch, MAX_BATCH);
    if (n_seq < 1 || n_seq > MAX_SEQ) return ch_error_set(e, CH_ERANGE, "n_seq %d, expected 1..%d", n_seq, MAX_SEQ);
    ch_model *m = ch_alloc(sizeof *m);
    if (!m) return ch_error_set(e, CH_ENOMEM, "no memory");
    int rc = pick_kv_type(&m->layout.k_type, p->k_type, e);
    if (rc || (rc = pick_kv_type(&m->layout.v_type, p->v_type, e)) || (rc = pick_state_form(&m->layout.form, p, e)) ||
        (rc = ch_gguf_open(&m->gguf, path, e))) goto fail;
    m->arena = ch_arena_create(0);
    m->used = ch_alloc(ch_gguf_n_tensors(m->gguf));
    m->seg = ch_alloc_array((size_t)n_seq, sizeof *m->seg);
    m->draft_row = ch_alloc_array((size_t)n_seq, sizeof *m->draft_row);
    if (!m->arena || !m->used || !m->seg || !m->draft_row) {
        rc = ch_error_set(e, CH_ENOMEM, "no memory");
        goto fail;
    }
    m->want_mtp = p->mtp, m->layout.rotate = !p->no_kv_hadamard;
    int n_threads = p->meta_only ? 1 : p->n_threads ? p->n_threads : ch_cpu_default_threads();
    if ((rc = ch_op_create(&m->op, p->tier, n_threads, e))) goto fail;
    m->info.n_batch = n_batch, m->info.n_seq = n_seq, m->info.n_threads = n_threads, m->info.tier = ch_op_tier(m->op), m->info.best_tier = ch_op_best_tier(m->op);
    if ((rc = pick_arch(m, e)) || (rc = m->arch->bind(m, &m->arch_data, e)) || (rc = check_all_used(m, e)) ||
        (rc = ch_model_add_loras(m, p->lora, p->n_lora, &m->lora_hash, e))) goto fail;
    make_plan(m);
    if (!p->meta_only && ((rc = dry_run(m, e)) || (rc = prepare_weights(m, p, e)))) goto fail;
    fill_info(m);
    if (p->meta_only) ch_op_free(&m->op);
    *out = m;
    return CH_OK;
fail:
    ch_model_close(&m);
    return rc;
}

void ch_model_close(ch_model **pm) {
    ch_model *m = *pm;
    if (!m) return;
    for (size_t i = 0; i < m->n_weight; i++) ch_op_weight_release(m->weight[i]);
    ch_free(m->weight), ch_free(m->used), ch_free(m->seg), ch_free(m->draft_row);
    if (m->op) ch_op_free(&m->op);
    if (m->arena) ch_arena_free(&m->arena);
    ch_map_close(&m->panels);
    if (m->gguf) ch_gguf_close(&m->gguf);
    ch_free(m);
    *pm = NULL;
}

const ch_gguf *ch_model_gguf(const ch_model *m) { return m->gguf; }
const ch_model_info *ch_model_get_info(const ch_model *m) { return &m->info; }
const ch_seq_plan *ch_model_plan(const ch_model *m) { return &m->plan; }
const ch_weight *ch_model_weight_at(const ch_model *m, size_t i) { return i < m->n_weight ? m->weight[i] : NULL; }
ch_op_counts ch_model_counts(const ch_model *m) { return ch_op_get_counts(m->op); }

double ch_model_measure_read(ch_model *m) {
    return m->op ? ch_op_measure_read(m->op, (const ch_weight *const *)m->weight, m->n_weight) : 0;
}

void ch_model_set_trace(ch_model *m, ch_trace_fn fn, void *user) { m->trace = fn, m->trace_user = user; }

static int check_batch(const ch_model *m, const ch_batch *b, ch_error *e) {
    if (!m->op) return ch_error_set(e, CH_ESTATE, "the model was opened without weights");
    if (b->n_row < 1 || b->n_row > m->info.n_batch)
        return ch_error_set(e, CH_ERANGE, "batch of %d rows, expected 1..%d", b->n_row, m->info.n_batch);
    if (b->n_seg < 1 || b->n_seg > m->info.n_seq)
        return ch_error_set(e, CH_ERANGE, "batch of %d segments, expected 1..%d", b->n_seg, m->info.n_seq);
    for (int i = 0; i < b->n_row; i++)
        if (b->token[i] < 0 || b->token[i] >= m->info.n_vocab)
            return ch_error_set(e, CH_ERANGE, "token id %d, expected 0..%d", b->token[i], m->info.n_vocab - 1);
    int64_t sum = 0;
    for (int i = 0; i < b->n_seg; i++) {
        if (b->seg[i].n_tok < 1) return ch_error_set(e, CH_ERANGE, "segment %d has %d tokens", i, b->seg[i].n_tok);
        sum += b->seg[i].n_tok;
        for (int k = 0; k < i; k++)
            if (b->seg[k].seq == b->seg[i].seq) return ch_error_set(e, CH_ERANGE, "segments %d and %d share a sequence", k, i);
    }
    if (sum != b->n_row) return ch_error_set(e, CH_ERANGE, "segments hold %lld tokens, the batch %d", (long long)sum, b->n_row);
    for (int i = 0; i < b->n_out; i++)
        if (b->out_row[i] < (i ? b->out_row[i - 1] + 1 : 0) || b->out_row[i] >= b->n_row)
            return ch_error_set(e, CH_ERANGE, "output row %d is out of range or out of order", b->out_row[i]);
    return CH_OK;
}

static ch_op_seg op_segment(const ch_seq *s, size_t row0, size_t n_row, bool tentative) {
    return (ch_op_seg){.row0 = row0, .n_row = n_row, .pos0 = ch_seq_len(s), .page = ch_seq_pages(s), .slab = ch_seq_slab(s),
                       .journal = tentative ? (float *)ch_seq_journal(s) : NULL, .n_journal = ch_seq_journal_rows(s)};
}

int ch_model_forward(ch_model *m, const ch_batch *b, float *logits, ch_error *e) {
    int rc = check_batch(m, b, e);
    if (rc) return rc;
    for (int i = 0; i < b->n_seg; i++)
        if (b->seg[i].tentative && (rc = ch_seq_check_hold(b->seg[i].seq, (size_t)b->seg[i].n_tok, e))) return rc;
    for (int i = 0; i < b->n_seg; i++) // pages may be reserved for some and not for others: no length has changed yet
        if ((rc = ch_seq_extend(b->seg[i].seq, (size_t)b->seg[i].n_tok, e))) return rc;
    size_t row = 0;
    for (int i = 0; i < b->n_seg; i++) {
        ch_seq *s = b->seg[i].seq;
        m->seg[i] = op_segment(s, row, (size_t)b->seg[i].n_tok, b->seg[i].tentative);
        row += m->seg[i].n_row;
    }
    ch_step st = {.op = m->op, .n_row = row, .n_seg = (size_t)b->n_seg, .n_out = (size_t)b->n_out, .token = b->token,
                  .seg = m->seg, .out_row = b->out_row, .hidden = b->hidden, .trace = m->trace, .trace_user = m->trace_user};
    m->arch->forward(m->arch_data, &st, logits);
    CH_ASSERT(ch_op_scratch_mark(m->op) == 0);
    for (int i = 0; i < b->n_seg; i++)
        (b->seg[i].tentative ? ch_seq_hold : ch_seq_commit)(b->seg[i].seq, (size_t)b->seg[i].n_tok);
    return CH_OK;
}

static int check_keep(const ch_model *m, const ch_segment *keep, int32_t n_seg, ch_error *e) {
    if (!m->op) return ch_error_set(e, CH_ESTATE, "the model was opened without weights");
    if (n_seg < 1 || n_seg > m->info.n_seq)
        return ch_error_set(e, CH_ERANGE, "commit of %d sequences, expected 1..%d", n_seg, m->info.n_seq);
    int64_t sum = 0;
    for (int i = 0; i < n_seg; i++) {
        size_t have = ch_seq_pending(keep[i].seq);
        if (!have) return ch_error_set(e, CH_ESTATE, "commit: sequence %d has no tentative rows", i);
        if (keep[i].n_tok < 0 || (size_t)keep[i].n_tok > have)
            return ch_error_set(e, CH_ERANGE, "commit: %d rows of sequence %d, expected 0..%zu", keep[i].n_tok, i, have);
        sum += keep[i].n_tok;
        for (int k = 0; k < i; k++)
            if (keep[k].seq == keep[i].seq) return ch_error_set(e, CH_ERANGE, "commit: sequences %d and %d are the same", k, i);
    }
    if (sum > m->info.n_batch) return ch_error_set(e, CH_ERANGE, "commit of %lld rows, expected at most %d", (long long)sum, m->info.n_batch);
    return CH_OK;
}

int ch_model_commit(ch_model *m, const ch_segment *keep, int32_t n_seg, ch_error *e) {
    int rc = check_keep(m, keep, n_seg, e);
    if (rc) return rc;
    size_t row = 0, n = 0;
    for (int i = 0; i < n_seg; i++) {
        if (!keep[i].n_tok) continue;
        m->seg[n] = op_segment(keep[i].seq, row, (size_t)keep[i].n_tok, true);
        row += m->seg[n++].n_row;
    }
    if (n) ch_block_commit(&m->layout, &(ch_step){.op = m->op, .n_row = row, .n_seg = n, .seg = m->seg});
    for (int i = 0; i < n_seg; i++) ch_seq_settle(keep[i].seq, (size_t)keep[i].n_tok);
    return CH_OK;
}

int ch_model_draft(ch_model *m, const ch_draft *d, ch_error *e) {
    if (!m->op || !m->info.mtp) return ch_error_set(e, CH_ESTATE, "the model has no multi-token prediction layer, or was opened without it");
    if (d->n_seq < 1 || d->n_seq > m->info.n_seq || d->ahead < 0 || d->ahead > 4096)
        return ch_error_set(e, CH_ERANGE, "draft of %d sequences, %d ahead: expected 1..%d and 0..4096", d->n_seq, d->ahead, m->info.n_seq);
    if (d->ahead && !d->hidden) return ch_error_set(e, CH_ERANGE, "a chained draft needs the hidden rows of the step before");
    for (int i = 0; i < d->n_seq; i++) {
        ch_seq *s = d->seq[i];
        if (d->token[i] < 0 || d->token[i] >= m->info.n_vocab)
            return ch_error_set(e, CH_ERANGE, "token id %d, expected 0..%d", d->token[i], m->info.n_vocab - 1);
        for (int k = 0; k < i; k++)
            if (d->seq[k] == s) return ch_error_set(e, CH_ERANGE, "draft: sequences %d and %d are the same", k, i);
        int rc = ch_seq_extend(s, (size_t)d->ahead + 1, e);
        if (rc) return rc;
        m->seg[i] = op_segment(s, (size_t)i, 1, false);
        m->seg[i].pos0 += (size_t)d->ahead;
        m->draft_row[i] = i;
    }
    ch_step st = {.op = m->op, .n_row = (size_t)d->n_seq, .n_seg = (size_t)d->n_seq, .n_out = (size_t)d->n_seq, .token = d->token,
                  .seg = m->seg, .out_row = m->draft_row, .hidden = d->hidden_out, .trace = m->trace, .trace_user = m->trace_user};
    m->arch->draft(m->arch_data, &st, d->hidden, d->logits);
    return CH_OK;
}
