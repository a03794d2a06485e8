// Engine: open, close, estimate, information, counters, tokens.
#include <string.h>
#include <time.h>

#include "sched/engine.h"

#define SAME(name) _Static_assert((int)CHIMERE_##name == (int)CH_##name, "error numbers are the same inside and outside")
SAME(ENOMEM);
SAME(EIO);
SAME(EFORMAT);
SAME(EUNSUPPORTED);
SAME(ERANGE);
SAME(ELIMIT);
SAME(EBUSY);
SAME(ECANCELLED);
SAME(ESTATE);
SAME(EINTERNAL);

#define CTX_MAX (1 << 24)
#define MARKS_PER_SLOT 4

int ch_sched_give_error(chimere_error *to, const ch_error *from, int code) {
    if (to) {
        to->code = code;
        memcpy(to->msg, from->msg, sizeof to->msg);
    }
    return code;
}

const char *chimere_version(void) {
    return "0.1.0";
}

void chimere_set_log(chimere_log_fn fn, void *user) {
    ch_log_set_sink(fn, user);
}

// ---- parameters ---------------------------------------------------------------------------------------------------------

void chimere_engine_params_init(chimere_engine_params *p) {
    *p = (chimere_engine_params){0};
}

static int check_range(const char *name, int64_t v, int64_t min, int64_t max, ch_error *e) {
    if (v == 0 || (v >= min && v <= max))
        return CH_OK;
    return ch_error_set(e, CH_ERANGE, "%s: expected %lld to %lld, or 0 for the default, found %lld", name, (long long)min,
                        (long long)max, (long long)v);
}

// Checks p and writes it with defaults filled in (all but n_ctx, n_threads, which the model decides) to *out.
static int settle_params(const chimere_engine_params *p, chimere_engine_params *out, ch_error *e) {
    *out = *p;
    if (!p->model_path || !*p->model_path)
        return ch_error_set(e, CH_ERANGE, "model_path: expected the path of a GGUF file, found none");
    int rc = check_range("n_ctx", p->n_ctx, 8, CTX_MAX, e);
    rc = rc ? rc : check_range("n_slots", p->n_slots, 1, 64, e);
    rc = rc ? rc : check_range("n_threads", p->n_threads, 1, 256, e);
    rc = rc ? rc : check_range("n_batch", p->n_batch, 1, 65536, e);
    rc = rc ? rc : check_range("n_queue", p->n_queue, 1, 4096, e);
    rc = rc ? rc : check_range("n_marks", p->n_marks, 1, 4096, e);
    rc = rc ? rc : check_range("n_lora", p->n_lora, 1, CHIMERE_LORA_MAX, e);
    if (rc)
        return rc;
    out->n_slots = p->n_slots ? p->n_slots : 4;
    out->n_batch = p->n_batch ? p->n_batch : 512;
    out->n_batch = out->n_batch < out->n_slots ? out->n_slots : out->n_batch; // every slot can decode in one step
    out->n_queue = p->n_queue ? p->n_queue : 64;
    out->n_marks = p->n_marks ? p->n_marks : MARKS_PER_SLOT * out->n_slots;
    return CH_OK;
}

static int open_model(ch_model **m, const chimere_engine_params *p, bool meta_only, ch_error *e) {
    ch_model_params mp = {.tier = p->tier, .n_threads = p->n_threads, .n_batch = p->n_batch, .n_seq = p->n_slots,
                          .meta_only = meta_only, .k_type = p->kv_type_k, .v_type = p->kv_type_v, .no_kv_hadamard = p->no_kv_hadamard,
                          .state_type = p->state_type, .chunk_form = p->chunk_form, .no_repack = p->no_repack, .panel_cache = p->panel_cache,
                          .panel_cache_bytes = p->panel_cache_bytes, .progress = p->progress,
                          .progress_user = p->progress_user, .n_lora = (size_t)p->n_lora};
    for (int32_t i = 0; i < p->n_lora; i++) mp.lora[i] = (ch_model_lora){p->lora[i].path, p->lora[i].scale};
    return ch_model_open(m, p->model_path, &mp, e);
}

static int32_t choose_ctx(const chimere_engine_params *p, const ch_model_info *mi) {
    int32_t trained = mi->n_ctx_train > 0 ? mi->n_ctx_train : 4096;
    return p->n_ctx ? p->n_ctx : trained < 4096 ? trained : 4096;
}

static ch_seq_limits pool_limits(const chimere_engine_params *p, int32_t n_ctx, const ch_seq_plan *plan) {
    size_t per_seq = plan->page_tokens ? ((size_t)n_ctx + plan->page_tokens - 1) / plan->page_tokens : 0;
    // Full length for every slot, one page more for each mark: the one it shares in part and a slot then copies.
    return (ch_seq_limits){(size_t)p->n_slots, (size_t)p->n_marks,
                           (size_t)p->n_slots * (per_seq + 1) + (size_t)p->n_marks, (size_t)n_ctx};
}

static int count_memory(const chimere_engine_params *p, const ch_model *m, int32_t n_ctx, chimere_memory *out, ch_error *e) {
    const ch_model_info *mi = ch_model_get_info(m);
    const ch_seq_plan *plan = ch_model_plan(m);
    ch_seq_limits lim = pool_limits(p, n_ctx, plan);
    size_t pool = ch_seq_pool_bytes(plan, &lim), tok = sizeof(int32_t) * (size_t)n_ctx * (size_t)(p->n_marks + p->n_slots);
    size_t n_vocab = (size_t)mi->n_vocab, step, state, marks, pages;
    if (pool == SIZE_MAX || !ch_mul_size(n_vocab, (size_t)p->n_slots * sizeof(float) + sizeof(ch_candidate) + 1, &step) ||
        !ch_mul_size(plan->slab_bytes, (size_t)p->n_slots, &state) ||
        !ch_mul_size(plan->slab_bytes, (size_t)p->n_marks, &marks) || !ch_mul_size(plan->page_bytes, lim.n_page, &pages))
        return ch_error_set(e, CH_ELIMIT, "context of %d tokens in %d slots: more memory than can be addressed", (int)n_ctx,
                            (int)p->n_slots);
    *out = (chimere_memory){mi->weight_bytes, mi->packed_bytes, pages, state, marks, step + tok, 0};
    if (!out->packed && !p->no_repack)
        out->packed = out->weights; // not loaded: about the same as in the file
    size_t total = out->packed ? out->packed : out->weights;
    if (!ch_add_size(total, pool, &total) || !ch_add_size(total, out->step, &total))
        return ch_error_set(e, CH_ELIMIT, "context of %d tokens in %d slots: more memory than can be addressed", (int)n_ctx,
                            (int)p->n_slots);
    out->total = total;
    return CH_OK;
}

int chimere_estimate(const chimere_engine_params *p, chimere_memory *out, chimere_error *e) {
    chimere_engine_params s;
    ch_error why = {0};
    ch_model *m = NULL;
    int rc = settle_params(p, &s, &why);
    if (!rc)
        rc = open_model(&m, &s, true, &why);
    if (!rc)
        rc = count_memory(&s, m, choose_ctx(&s, ch_model_get_info(m)), out, &why);
    ch_model_close(&m);
    return ch_sched_give_error(e, &why, rc);
}

// ---- open ---------------------------------------------------------------------------------------------------------------

static char *copy_gguf_str(const ch_gguf *g, const char *key) {
    ch_gguf_str s;
    return ch_gguf_get_str(g, key, &s, NULL) == 1 && s.n ? ch_strndup(s.p, s.n) : NULL;
}

// The chat template is optional: without a usable one only messages are refused, with the reason.
static void read_template(chimere_engine *eng, const ch_gguf *g) {
    eng->chat_source = copy_gguf_str(g, "tokenizer.chat_template");
    if (!eng->chat_source) {
        ch_error_set(&eng->chat_error, CH_EUNSUPPORTED,
                     "messages: the model file has no chat template (tokenizer.chat_template); send a text prompt");
        return;
    }
    if (ch_template_parse(&eng->chat, eng->chat_source, strlen(eng->chat_source), &eng->chat_error) != CH_OK) {
        ch_error_prefix(&eng->chat_error, "chat template of the model file");
        ch_log(CH_LOG_WARN, "%s", eng->chat_error.msg);
    }
}

static void read_sampling(chimere_engine *eng, const ch_gguf *g) {
    chimere_sampling_init(&eng->sampling, NULL);
    for (size_t i = 0; i < CH_SAMPLE_N_PARAM; i++) {
        const ch_sample_param *p = ch_sample_param_at(i);
        ch_error why = {0};
        float f = 0;
        uint32_t u = 0;
        int got = 0;
        if (p->gguf_key)
            got = p->is_int ? ch_gguf_get_u32(g, p->gguf_key, &u, &why) : ch_gguf_get_f32(g, p->gguf_key, &f, &why);
        double v = p->is_int ? (double)u : (double)f;
        if (got == 1 && ch_sample_check_param(i, v, &why) == CH_OK)
            eng->sampling.value[i] = v;
        else if (got != 0)
            ch_log(CH_LOG_WARN, "model file: %s is not used: %s", p->gguf_key, why.msg);
    }
}

static int open_buffers(chimere_engine *eng, const chimere_engine_params *p, ch_error *e) {
    size_t n_slots = (size_t)p->n_slots, n_ctx = (size_t)eng->info.n_ctx, n_batch = (size_t)p->n_batch, row;
    const ch_seq_plan *plan = ch_model_plan(eng->model);
    ch_seq_limits lim = pool_limits(p, eng->info.n_ctx, plan);
    int rc = ch_seq_pool_create(&eng->pool, plan, &lim, e);
    if (rc)
        return rc;
    eng->slab_bytes = plan->slab_bytes;
    eng->mark_interval = n_ctx / 8 > 1024 ? n_ctx / 8 : 1024;
    eng->slot = ch_alloc_array(n_slots, sizeof *eng->slot);
    eng->mark = ch_alloc_array((size_t)p->n_marks, sizeof *eng->mark);
    eng->n_mark = eng->mark ? p->n_marks : 0;
    eng->row_tok = ch_alloc_array(n_batch, sizeof *eng->row_tok);
    eng->out_row = ch_alloc_array(n_batch, sizeof *eng->out_row);
    eng->seg = ch_alloc_array(n_slots, sizeof *eng->seg);
    eng->part = ch_alloc_array(n_slots, sizeof *eng->part);
    if (ch_mul_size((size_t)eng->info.n_vocab, sizeof(float), &row))
        eng->logits = ch_alloc_array(n_slots, row);
    bool ok = eng->slot && eng->mark && eng->row_tok && eng->out_row && eng->seg && eng->part && eng->logits;
    for (size_t i = 0; ok && i < n_slots; i++) {
        eng->slot[i].tok = ch_alloc_array(n_ctx, sizeof(int32_t));
        ok = eng->slot[i].tok != NULL;
        if (ok && (rc = ch_seq_create(&eng->slot[i].seq, eng->pool, e)) != CH_OK)
            return rc;
    }
    for (int32_t i = 0; ok && i < eng->n_mark; i++) {
        eng->mark[i].tok = ch_alloc_array(n_ctx, sizeof(int32_t));
        ok = eng->mark[i].tok != NULL;
    }
    if (!ok)
        return ch_error_set(e, CH_ENOMEM, "no memory for %zu slots of %zu tokens", n_slots, n_ctx);
    rc = ch_sample_work_create(&eng->work, eng->info.n_vocab, e);
    return rc ? rc : ch_sample_mask_init(&eng->mask, eng->vocab, eng->info.n_vocab, e);
}

static int fill_info(chimere_engine *eng, const chimere_engine_params *p, ch_error *e) {
    const ch_model_info *mi = ch_model_get_info(eng->model);
    const ch_gguf *g = ch_model_gguf(eng->model);
    eng->path = ch_strndup(p->model_path, strlen(p->model_path));
    eng->name = copy_gguf_str(g, "general.name");
    if (!eng->name) {
        const char *slash = strrchr(p->model_path, '/'), *base = slash ? slash + 1 : p->model_path;
        eng->name = ch_strndup(base, strlen(base));
    }
    if (!eng->path || !eng->name)
        return ch_error_set(e, CH_ENOMEM, "no memory for the model's name");
    eng->info = (chimere_engine_info){
        .name = eng->name, .path = eng->path, .arch = mi->arch, .tier = mi->tier,
        .chat_template = eng->chat ? eng->chat_source : NULL,
        .template_has_thinking = eng->chat && ch_template_mentions(eng->chat, "enable_thinking"),
        .template_has_tools = eng->chat && ch_template_mentions(eng->chat, "tools"),
        .n_vocab = mi->n_vocab, .n_layer = mi->n_layer, .n_embd = mi->n_embd, .n_ctx_train = mi->n_ctx_train,
        .n_ctx = choose_ctx(p, mi), .n_slots = p->n_slots, .n_threads = mi->n_threads, .n_batch = p->n_batch,
        .n_queue = p->n_queue, .bos = ch_vocab_bos(eng->vocab), .eos = ch_vocab_eos(eng->vocab), .n_params = mi->n_params,
        .fingerprint = ch_model_plan(eng->model)->fingerprint};
    if (mi->n_ctx_train > 0 && eng->info.n_ctx > mi->n_ctx_train)
        ch_log(CH_LOG_WARN, "context of %d tokens: the model was trained for %d", (int)eng->info.n_ctx,
               (int)mi->n_ctx_train);
    return count_memory(p, eng->model, eng->info.n_ctx, &eng->info.memory, e);
}

static int start_threads(chimere_engine *eng, ch_error *e) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&eng->lock, NULL);
    pthread_cond_init(&eng->driver_cond, &attr);
    pthread_cond_init(&eng->prep_cond, &attr);
    pthread_cond_init(&eng->job_cond, &attr);
    pthread_condattr_destroy(&attr);
    eng->has_lock = true;
    eng->has_driver = pthread_create(&eng->driver, NULL, ch_sched_driver_main, eng) == 0;
    eng->has_prep = eng->has_driver && pthread_create(&eng->prep, NULL, ch_sched_prep_main, eng) == 0;
    return eng->has_prep ? CH_OK : ch_error_set(e, CH_EIO, "the system refused a thread");
}

int chimere_engine_open(chimere_engine **engine, const chimere_engine_params *p, chimere_error *e) {
    ch_error why = {0};
    chimere_engine_params s;
    *engine = NULL;
    int rc = settle_params(p, &s, &why);
    chimere_engine *eng = NULL;
    if (!rc && !(eng = ch_alloc(sizeof *eng)))
        rc = ch_error_set(&why, CH_ENOMEM, "no memory for an engine");
    if (!rc)
        rc = open_model(&eng->model, &s, false, &why);
    if (!rc)
        rc = ch_vocab_open(&eng->vocab, ch_model_gguf(eng->model), &why);
    if (!rc) {
        read_template(eng, ch_model_gguf(eng->model));
        read_sampling(eng, ch_model_gguf(eng->model));
        rc = fill_info(eng, &s, &why);
    }
    if (!rc)
        rc = open_buffers(eng, &s, &why);
    if (!rc) {
        ch_sched_open_speed(eng, s.no_repack);
        rc = start_threads(eng, &why);
    }
    if (rc) {
        chimere_engine_close(&eng);
        return ch_sched_give_error(e, &why, rc);
    }
    *engine = eng;
    return CHIMERE_OK;
}

// ---- close --------------------------------------------------------------------------------------------------------------

static void stop_threads(chimere_engine *eng) {
    pthread_mutex_lock(&eng->lock);
    eng->quit = true;
    pthread_cond_broadcast(&eng->driver_cond);
    pthread_cond_broadcast(&eng->prep_cond);
    pthread_mutex_unlock(&eng->lock);
    if (eng->has_prep)
        pthread_join(eng->prep, NULL);
    if (eng->has_driver)
        pthread_join(eng->driver, NULL);
    ch_error why = {0};
    ch_error_set(&why, CH_ECANCELLED, "the engine is closing");
    for (int32_t i = 0; eng->slot && i < eng->info.n_slots; i++)
        if (eng->slot[i].req)
            ch_sched_release_slot(eng, &eng->slot[i], CHIMERE_REASON_CANCELLED, &why);
    ch_queue *both[] = {&eng->prep_q, &eng->ready_q};
    for (int k = 0; k < 2; k++)
        for (;;) {
            pthread_mutex_lock(&eng->lock);
            chimere_request *r = ch_sched_pop_queue(both[k]);
            pthread_mutex_unlock(&eng->lock);
            if (!r)
                break;
            ch_sched_finish_request(r, CHIMERE_REASON_CANCELLED, &why);
        }
}

void chimere_engine_close(chimere_engine **engine) {
    chimere_engine *eng = *engine;
    if (!eng)
        return;
    if (eng->has_lock)
        stop_threads(eng);
    for (int32_t i = 0; i < eng->n_mark; i++) {
        ch_seq_mark_free(&eng->mark[i].mark);
        ch_free(eng->mark[i].tok);
    }
    for (int32_t i = 0; eng->slot && i < eng->info.n_slots; i++) {
        if (eng->slot[i].seq)
            ch_seq_free(&eng->slot[i].seq);
        ch_free(eng->slot[i].tok);
    }
    if (eng->pool)
        ch_seq_pool_free(&eng->pool);
    ch_sample_work_free(&eng->work);
    ch_sample_mask_free(&eng->mask);
    ch_free(eng->slot);
    ch_free(eng->mark);
    ch_free(eng->logits);
    ch_free(eng->row_tok);
    ch_free(eng->out_row);
    ch_free(eng->seg);
    ch_free(eng->part);
    if (eng->chat)
        ch_template_free(&eng->chat);
    if (eng->vocab)
        ch_vocab_free(&eng->vocab);
    ch_free(eng->chat_source);
    ch_free(eng->name);
    ch_free(eng->path);
    if (eng->model)
        ch_model_close(&eng->model);
    if (eng->has_lock) {
        pthread_cond_destroy(&eng->driver_cond);
        pthread_cond_destroy(&eng->prep_cond);
        pthread_cond_destroy(&eng->job_cond);
        pthread_mutex_destroy(&eng->lock);
    }
    ch_free(eng);
    *engine = NULL;
}

// ---- information --------------------------------------------------------------------------------------------------------

const chimere_engine_info *chimere_engine_get_info(const chimere_engine *engine) {
    return &engine->info;
}

void chimere_engine_get_metrics(const chimere_engine *engine, chimere_metrics *out) {
    const ch_counters *c = &engine->count;
    chimere_engine *eng = (chimere_engine *)engine; // only its lock is touched
    uint64_t last = atomic_load(&c->last_step_ns), now = ch_clock_ns();
    *out = (chimere_metrics){
        .requests = atomic_load(&c->requests), .requests_stopped = atomic_load(&c->stopped),
        .requests_length = atomic_load(&c->length), .requests_cancelled = atomic_load(&c->cancelled),
        .requests_failed = atomic_load(&c->failed), .requests_refused = atomic_load(&c->refused),
        .tokens_prompt = atomic_load(&c->tokens_prompt), .tokens_reused = atomic_load(&c->tokens_reused),
        .tokens_generated = atomic_load(&c->tokens_generated), .steps = atomic_load(&c->steps),
        .step_ns = atomic_load(&c->step_ns), .slots_busy = atomic_load(&c->slots_busy),
        .sessions = atomic_load(&c->sessions), .read_rate = atomic_load(&c->read_rate),
        .decode_rate = atomic_load(&c->decode_rate), .last_step_age_ms = last && now > last ? (now - last) / 1000000 : 0};
    pthread_mutex_lock(&eng->lock); // held by others for a few list operations only
    out->queue_length = eng->prep_q.n + eng->ready_q.n;
    pthread_mutex_unlock(&eng->lock);
}

// ---- tokens -------------------------------------------------------------------------------------------------------------

int chimere_tokenize(const chimere_engine *engine, const char *text, size_t n_text, bool special, bool bos, int32_t *out,
                     size_t cap, size_t *n, chimere_error *e) {
    ch_error why = {0};
    ch_tokens t = {0};
    int32_t first = ch_vocab_bos(engine->vocab);
    int rc = ch_tokenize(engine->vocab, text, n_text, special ? CH_TOK_SPECIAL : 0, &t, &why);
    bool add = bos && first >= 0 && ch_vocab_add_bos(engine->vocab) && (t.n == 0 || t.id[0] != first);
    *n = rc ? 0 : t.n + add;
    if (!rc && *n > cap && (out || cap))
        rc = ch_error_set(&why, CH_ELIMIT, "tokens: expected at most %zu, found %zu", cap, *n);
    if (!rc && out) {
        if (add)
            out[0] = first;
        if (t.n)
            memcpy(out + add, t.id, t.n * sizeof *out);
    }
    ch_tokens_free(&t);
    return ch_sched_give_error(e, &why, rc);
}

size_t chimere_token_piece(const chimere_engine *engine, int32_t id, bool special, const char **piece) {
    *piece = "";
    return id >= 0 && id < ch_vocab_n(engine->vocab) ? ch_vocab_piece(engine->vocab, id, special, piece) : 0;
}

bool chimere_token_ends(const chimere_engine *engine, int32_t id) {
    return id >= 0 && id < ch_vocab_n(engine->vocab) && ch_vocab_is_eog(engine->vocab, id);
}
