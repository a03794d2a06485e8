// Blocks and small models as functions, see cases.h. Every shape has odd sizes that differ from each other.
#include "grad/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/trainer.h"

#ifdef CH_TRAIN_DOUBLE
#define grad_run grad_run64
#endif

enum { MODEL = -1, MODEL_AGAIN = -2, NORM = -3 }; // instead of a sub-layer: the whole model, the same recomputed, a norm

typedef struct grad_case {
    const char *name, *arch;
    int sub, n_tok;
    const char *starts; // first tokens of documents
    const char *lora;   // targets of adapters; "": the usual ones; NULL: none
} grad_case;

// Documents that begin inside a chunk of 32, on its border, and last over several.
static const grad_case cases[] = {
    {"norm", "qwen35moe", NORM, 9, "0"},
    {"delta net, one document", "qwen35moe", 0, 75, "0"},
    {"delta net, documents", "qwen35moe", 0, 101, "0 3 20 64 65"},
    {"experts", "qwen35moe", 1, 21, "0 9"},
    {"gated attention", "qwen35moe", 2, 70, "0 5 66"},
    {"dense", "qwen35", 1, 13, "0"},
    {"state space, one document", "mamba2", 0, 75, "0"},
    {"state space, documents", "mamba2", 0, 101, "0 3 20 64 65"},
    {"plain attention", "nemotron_h_moe", 1, 40, "0 30"},
    {"sigmoid experts", "nemotron_h_moe", 2, 21, "0"},
    {"model with MTP", "qwen35moe", MODEL, 70, "0 40"},
    {"model, recomputed", "qwen35moe", MODEL_AGAIN, 41, "0 9"},
    {"model of state spaces", "mamba2", MODEL, 40, "0 33"},
    {"model of three kinds", "nemotron_h_moe", MODEL, 40, "0 12"},
    {"dense model, two matrices at the ends", "qwen35", MODEL, 40, "0 12"},
    {"delta net with adapters", "qwen35moe", 0, 41, "0 9", ""},
    {"experts with adapters", "qwen35moe", 1, 21, "0 9", "ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps ffn_up_shexp ffn_down_shexp"},
    {"attention, adapters of a part", "qwen35moe", 2, 40, "0 5", "attn_k attn_output"},
    {"adapters, MTP", "qwen35moe", MODEL, 40, "0 12", ""},
    {"adapters, state space", "mamba2", MODEL_AGAIN, 40, "0 33", ""},
    {"adapters, three kinds", "nemotron_h_moe", MODEL, 40, "0 12", "ssm_out attn_v ffn_down_exps ffn_up_shexp"},
    {"adapters, head", "qwen35", MODEL, 40, "0 12", "output ffn_down"},
};

typedef struct set {
    ch_train_model m;
    int32_t start[128], token[129];
    float weight[128];
    size_t n_tok, n_in;
} set;

static void shape_of(const grad_case *k, ch_train_shape *s) {
    *s = (ch_train_shape){.n_vocab = 37, .n_ctx = 128, .n_layer = 2, .n_embd = 20, .tied = true, .eps = 1e-6, .n_head = 4, .n_head_kv = 2,
                          .d_head = 10, .n_rot = 6, .attn_interval = 2, .rope_base = 1000, .ssm_heads_k = 2, .ssm_heads_v = 6,
                          .ssm_d_state = 9, .ssm_d_head = 7, .ssm_conv = 4, .n_ff = 11, .n_expert = 5, .n_expert_used = 2, .n_ff_exp = 6,
                          .n_ff_shexp = 13, .expert_scale = 1, .n_mtp = 1};
    strcpy(s->arch, k->arch);
    if (strcmp(k->arch, "qwen35moe") != 0) s->n_mtp = 0;
    if (strcmp(k->arch, "qwen35") == 0) s->tied = false;
    if (strcmp(k->arch, "nemotron_h_moe") == 0) s->n_rot = 0, s->n_layer = 3, s->expert_scale = 2.5, strcpy(s->pattern, "M*E");
}

static int adapt(ch_train_model *m, const char *targets) {
    ch_train_adapters a = {.rank = 3, .alpha = 1.8};
    static char name[8][32];
    for (int n; sscanf(targets, "%31s%n", name[a.n_target], &n) == 1; targets += n) a.target[a.n_target] = name[a.n_target], a.n_target++;
    return ch_train_adapt(m, &a, true, NULL);
}

static void open_set(const grad_case *k, set *s) {
    ch_error e;
    memset(s, 0, sizeof *s);
    shape_of(k, &s->m.shape);
    if (ch_train_build(&s->m, &e) || (k->lora && adapt(&s->m, k->lora))) abort();
    s->n_tok = (size_t)k->n_tok;
    s->n_in = k->sub >= 0 || k->sub == NORM ? s->n_tok * (size_t)s->m.shape.n_embd : 0;
    int32_t at = 0;
    const char *p = k->starts;
    char *end;
    long next = strtol(p, &end, 10);
    for (size_t t = 0; t < s->n_tok; t++) {
        while (end != p && (size_t)next == t) at = (int32_t)t, p = end, next = strtol(p, &end, 10);
        s->start[t] = at;
        s->token[t] = (int32_t)(t * t * 7 + t * 3) % 37;
        s->weight[t] = t % 5 == 4 ? 0 : 0.25f * (float)(t % 3 + 1);
    }
    s->token[s->n_tok] = 5;
}

static void close_set(set *s) { ch_train_model_free(&s->m); }

static real coefficient(size_t i) { return (real)((double)((i * 2654435761u + 12345u) % 1000u) / 500 - 1); }

static double sub_loss(ch_train_ctx *c, const set *s, const ch_train_sub *b, const real *x, real *dx) {
    union {
        ch_train_attn_saves attn;
        ch_train_gdn_saves gdn;
        ch_train_ssd_saves ssd;
        ch_train_ffn_saves ffn;
        ch_train_moe_saves moe;
    } v;
    real *y = ch_train_take(c, s->n_in), *dy = ch_train_take(c, s->n_in);
    double loss = 0;
    switch (b->kind) {
    case CH_TRAIN_ATTN: ch_train_attn_forward(c, &b->u.attn, x, y, &v.attn); break;
    case CH_TRAIN_GDN: ch_train_gdn_forward(c, &b->u.gdn, x, y, &v.gdn); break;
    case CH_TRAIN_SSD: ch_train_ssd_forward(c, &b->u.ssd, x, y, &v.ssd); break;
    case CH_TRAIN_FFN: ch_train_ffn_forward(c, &b->u.ffn, x, y, &v.ffn); break;
    case CH_TRAIN_MOE: ch_train_moe_forward(c, &b->u.moe, x, y, &v.moe); break;
    }
    for (size_t i = 0; i < s->n_in && !c->dry; i++) {
        dy[i] = coefficient(i);
        loss += dy[i] * y[i];
    }
    if (!dx) return loss;
    switch (b->kind) {
    case CH_TRAIN_ATTN: ch_train_attn_backward(c, &b->u.attn, x, dy, dx, &v.attn); break;
    case CH_TRAIN_GDN: ch_train_gdn_backward(c, &b->u.gdn, x, dy, dx, &v.gdn); break;
    case CH_TRAIN_SSD: ch_train_ssd_backward(c, &b->u.ssd, x, dy, dx, &v.ssd); break;
    case CH_TRAIN_FFN: ch_train_ffn_backward(c, &b->u.ffn, x, dy, dx, &v.ffn); break;
    case CH_TRAIN_MOE: ch_train_moe_backward(c, &b->u.moe, x, dy, dx, &v.moe); break;
    }
    return loss;
}

static double norm_loss(ch_train_ctx *c, const set *s, const real *x, real *dx) {
    const size_t d = s->m.norm.d;
    real *y = ch_train_take(c, s->n_in), *dy = ch_train_take(c, s->n_in);
    double loss = 0;
    ch_train_rmsnorm(c, &s->m.norm, x, d, s->n_tok, y, d);
    for (size_t i = 0; i < s->n_in && !c->dry; i++) {
        dy[i] = coefficient(i);
        loss += dy[i] * y[i];
    }
    if (dx) ch_train_rmsnorm_back(c, &s->m.norm, x, d, s->n_tok, dy, dx, d, false);
    return loss;
}

static double any_loss(ch_train_ctx *c, const grad_case *k, const set *s, const real *x, real *dx) {
    if (k->sub == NORM) return norm_loss(c, s, x, dx);
    if (k->sub >= 0) return sub_loss(c, s, &s->m.sub[k->sub], x, dx);
    ch_train_row_result r;
    const ch_train_row_args a = {.token = s->token, .weight = s->weight, .scale = 1, .mtp_weight = 0.3, .recompute = k->sub == MODEL_AGAIN};
    ch_train_row(c, &s->m, &a, &r);
    return r.loss + 0.3 * r.mtp_loss;
}

double grad_run(int id, const double *w, const double *x, double *gw, double *gx) {
    const grad_case *k = &cases[id];
    set s;
    ch_cpu cpu;
    ch_kern kern;
    open_set(k, &s);
    ch_cpu_detect(&cpu);
    if (ch_kern_init(&kern, &cpu, NULL, NULL)) abort();
    const size_t n = s.m.n_param, half = (size_t)s.m.shape.n_rot / 2;
    real *rw = ch_alloc_array(n, sizeof *rw), *rt = ch_alloc_array(n, sizeof *rt), *rg = ch_alloc_array(n, sizeof *rg);
    real *rx = ch_alloc_array(s.n_in, sizeof *rx), *rdx = ch_alloc_array(s.n_in, sizeof *rdx);
    real *rope = ch_alloc_array(128 * half * 2, sizeof *rope), *low = ch_alloc_array(2 * s.n_tok * s.m.lora.rank, sizeof *low);
    real *sink = ch_alloc_array(n, sizeof *sink);
    for (size_t i = 0; i < n; i++) rw[i] = (real)w[i];
    for (size_t i = 0; i < s.n_in; i++) rx[i] = (real)x[i];
    ch_train_rope_table(&s.m.shape, 128, rope);
    ch_train_ctx c = {.kern = &kern, .w = rw, .wt = rt, .grad = gw ? rg : NULL, .rope = rope, .n_tok = s.n_tok, .start = s.start, .balance = 0.5,
                      .frozen = s.m.n_frozen, .sink = sink, .lora = s.m.lora.n ? &s.m.lora : NULL, .low = low, .dry = true};
    any_loss(&c, k, &s, rx, gw ? rdx : NULL);
    uint8_t *stack = ch_alloc_aligned(c.peak, 64);
    if (!stack) abort();
    memset(stack, 0xff, c.peak); // not a number, whoever reads before writing
    c.dry = false, c.base = stack, c.used = 0;
    ch_train_transpose_all(&c, &s.m, rw, rt, 0, s.m.n_mat);
    const double loss = any_loss(&c, k, &s, rx, gw ? rdx : NULL) + c.aux;
    for (size_t i = 0; i < n && gw; i++) gw[i] = i < s.m.n_frozen ? 0 : rg[i - s.m.n_frozen];
    for (size_t i = 0; i < s.n_in && gx; i++) gx[i] = rdx[i];
    ch_free(stack), ch_free(rw), ch_free(rt), ch_free(rg), ch_free(rx), ch_free(rdx), ch_free(rope), ch_free(low), ch_free(sink);
    close_set(&s);
    return loss;
}

#ifdef CH_TRAIN_DOUBLE
typedef struct curve {
    const ch_trainer *t;
    real *w, *wt, *m, *v, *g, *rope, *low, *sink;
    ch_train_ctx c;
} curve;

// One step as trainer.c does it, on one thread and without its files.
static double curve_step(curve *k, uint64_t step) {
    const ch_train_config *cfg = k->t->cfg;
    const ch_train_model *m = &k->t->model;
    ch_train_batch b;
    ch_error e;
    if (k->t->feed.next(k->t->feed.user, &b, &e)) abort();
    int32_t start[1024];
    float weight[1024];
    double sum = 0, loss = 0;
    for (int pass = 0; pass < 2; pass++) { // the sum of the weights first
        const double scale = 1 / sum;
        for (size_t r = 0; r < b.n_row; r++) {
            const int32_t *doc = b.doc + r * (b.n_ctx + 2);
            for (size_t i = 0; i < b.n_ctx; i++) {
                start[i] = i && doc[i] == doc[i - 1] ? start[i - 1] : (int32_t)i;
                weight[i] = doc[i] == doc[i + 1] ? b.weight[r * b.n_ctx + i] : 0;
                if (!pass) sum += (double)weight[i];
            }
            if (!pass) continue;
            ch_train_row_result res;
            k->c.start = start, k->c.balance = cfg->balance / (double)b.n_row, k->c.used = 0;
            ch_train_row(&k->c, m, &(ch_train_row_args){.token = b.token + r * (b.n_ctx + 2), .weight = weight, .scale = scale, .mtp_weight = cfg->mtp_weight}, &res);
            loss += res.loss * scale;
        }
        if (!pass) {
            memset(k->g, 0, k->t->n_trained * sizeof *k->g);
            ch_train_transpose_all(&k->c, m, k->w, k->wt, 0, m->n_mat);
        }
    }
    const double norm = sqrt(ch_train_sum_squares(k->g, k->t->n_trained));
    ch_train_adam(&(ch_train_adam_args){.rate = ch_train_rate(cfg, step), .beta1 = cfg->beta1, .beta2 = cfg->beta2, .eps = cfg->adam_eps,
                                        .decay = cfg->weight_decay, .scale = cfg->clip > 0 && norm > cfg->clip ? cfg->clip / norm : 1, .step = step + 1},
                  k->t->n_trained, k->t->decay, k->g, k->w + m->n_frozen, k->m, k->v);
    return loss;
}

void grad_curve64(const ch_trainer *t, int n, double *loss) {
    const size_t size = t->model.n_param, half = (size_t)t->model.shape.n_rot / 2, n_ctx = (size_t)t->cfg->n_ctx;
    curve k = {.t = t, .w = ch_alloc_array(5 * size, sizeof(real)), .rope = ch_alloc_array(n_ctx * half * 2, sizeof(real)),
               .low = ch_alloc_array(2 * n_ctx * t->model.lora.rank, sizeof(real)), .sink = ch_alloc_array(size, sizeof(real))};
    k.wt = k.w + size, k.m = k.wt + size, k.v = k.m + size, k.g = k.v + size;
    for (size_t i = 0; i < size; i++) k.w[i] = t->w[i];
    for (size_t i = 0; i < t->n_trained; i++) k.m[i] = t->moment[i], k.v[i] = t->square[i];
    ch_train_rope_table(&t->model.shape, n_ctx, k.rope);
    k.c = (ch_train_ctx){.w = k.w, .wt = k.wt, .grad = k.g, .rope = k.rope, .n_tok = n_ctx, .frozen = t->model.n_frozen, .sink = k.sink,
                         .lora = t->model.lora.n ? &t->model.lora : NULL, .low = k.low, .dry = true};
    static const int32_t none[2];
    ch_train_row_result r;
    ch_train_row(&k.c, &t->model, &(ch_train_row_args){.token = none, .mtp_weight = 1}, &r);
    uint8_t *stack = ch_alloc_aligned(k.c.peak, 64);
    if (!stack) abort();
    k.c.dry = false, k.c.base = stack;
    ch_train_data_state at;
    t->feed.get_state(t->feed.user, &at);
    for (int i = 0; i < n; i++) loss[i] = curve_step(&k, t->step + (uint64_t)i);
    if (t->feed.set_state(t->feed.user, &at, NULL)) abort();
    ch_free(stack), ch_free(k.w), ch_free(k.rope), ch_free(k.low), ch_free(k.sink);
}
#else
int grad_n_cases(void) { return sizeof cases / sizeof *cases; }

void grad_get(int id, grad_sizes *g) {
    set s;
    open_set(&cases[id], &s);
    *g = (grad_sizes){cases[id].name, s.m.n_param, s.n_in};
    close_set(&s);
}

void grad_start(int id, double *w, double *x) {
    set s;
    ch_rng r;
    open_set(&cases[id], &s);
    ch_rng_seed(&r, 7 + (uint64_t)id);
    for (size_t i = 0; i < s.m.n_tensor; i++) {
        const ch_train_tensor *t = &s.m.tensor[i];
        for (size_t j = 0; j < t->n; j++) {
            const double z = (double)ch_rng_normal(&r);
            w[t->off + j] = (float)(t->init == CH_TRAIN_NORMAL ? 0.3 * z : t->init == CH_TRAIN_ONES ? 1 + 0.3 * z : 0.5 * z);
        }
    }
    for (size_t i = 0; i < s.n_in; i++) x[i] = ch_rng_normal(&r);
    close_set(&s);
}
#endif
