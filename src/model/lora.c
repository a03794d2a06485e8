// Low-rank adapters (LoRA) from GGUF files, beside the weights of a model: y = W x + scale * alpha / rank * B A x. The matrices stay
// as they are, in any type, and so do their panels.
//
// A file holds for a tensor NAME of the model NAME.lora_a [rank][n_in] and NAME.lora_b [n_out][rank], or stacks of them. Adapters
// add up: several of one matrix are kept as one, their ranks side by side.
#include "model/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 160 };

typedef struct adapter {
    ch_model *m;
    const ch_gguf *g;
    float scale, alpha; // alpha 0: the file gives none, and the product counts scale alone
    uint64_t hash;
    size_t n_weight, rank; // matrices adapted so far; the largest rank
    ch_error *e;
} adapter;

// An error of this file.
static int fail(const adapter *a, int code, const char *fmt, ...) CH_PRINTF(3, 4);
static int fail(const adapter *a, int code, const char *fmt, ...) {
    char text[240];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ch_error_set(a->e, code, "%s: %s", ch_gguf_path(a->g), text);
}

static bool is_text(const ch_gguf_str *s, const char *t) { return s->n == strlen(t) && memcmp(s->p, t, s->n) == 0; }

// An absent key reads as "".
static int get_text(const adapter *a, const char *key, ch_gguf_str *s) {
    *s = (ch_gguf_str){"", 0};
    int rc = ch_gguf_get_str(a->g, key, s, a->e);
    return rc < 0 ? rc : CH_OK;
}

static int check_keys(adapter *a) {
    ch_gguf_str type, arch, kind;
    int rc = get_text(a, "general.type", &type);
    if (rc || (rc = get_text(a, "general.architecture", &arch)) || (rc = get_text(a, "adapter.type", &kind))) return rc;
    if (!is_text(&type, "adapter"))
        return fail(a, CH_EFORMAT, "no adapter: general.type is \"%.*s\", expected \"adapter\"", (int)(type.n < 40 ? type.n : 40), type.p);
    if (!is_text(&kind, "lora"))
        return fail(a, CH_EUNSUPPORTED, "adapter.type is \"%.*s\", expected \"lora\"", (int)(kind.n < 40 ? kind.n : 40), kind.p);
    if (!is_text(&arch, ch_model_arch(a->m)))
        return fail(a, CH_EFORMAT, "made for architecture \"%.*s\", and the model is %s", (int)(arch.n < 40 ? arch.n : 40), arch.p,
                            ch_model_arch(a->m));
    if (ch_gguf_find(a->g, "adapter.alora.invocation_tokens"))
        return fail(a, CH_EUNSUPPORTED, "key adapter.alora.invocation_tokens: adapters that a word switches on are not supported");
    rc = ch_gguf_get_f32(a->g, "adapter.lora.alpha", &a->alpha, a->e); // finite
    return rc < 0 ? rc : CH_OK;
}

// ---- tensors --------------------------------------------------------------------------------------------------------------
static int check_pair(const adapter *a, const ch_gguf_tensor *t, const ch_gguf_tensor *x, const ch_gguf_tensor *y) {
    const uint64_t rank = x->ne[1];
    if (rank > CH_LORA_MAX_RANK) return fail(a, CH_ELIMIT, "tensor %s: rank %llu, at most %d", x->name, (unsigned long long)rank, CH_LORA_MAX_RANK);
    const ch_gguf_tensor *list[2] = {x, y};
    const uint64_t want[2][4] = {{t->ne[0], rank, t->ne[2], t->ne[3]}, {rank, t->ne[1], t->ne[2], t->ne[3]}};
    for (int i = 0; i < 2; i++) {
        const uint64_t *ne = list[i]->ne;
        if (memcmp(ne, want[i], sizeof want[i]) != 0)
            return fail(a, CH_EFORMAT, "tensor %s has shape [%llu, %llu, %llu, %llu], expected [%llu, %llu, %llu, %llu]", list[i]->name,
                                (unsigned long long)ne[0], (unsigned long long)ne[1], (unsigned long long)ne[2], (unsigned long long)ne[3],
                                (unsigned long long)want[i][0], (unsigned long long)want[i][1], (unsigned long long)want[i][2],
                                (unsigned long long)want[i][3]);
        if (!list[i]->type->decode) return fail(a, CH_EUNSUPPORTED, "tensor %s has type %s, which holds no weights", list[i]->name, list[i]->type->name);
    }
    return CH_OK;
}

static int decode(const adapter *a, const ch_gguf_tensor *t, size_t n, float *v) {
    t->type->decode(t->data, v, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i])) return fail(a, CH_EFORMAT, "tensor %s: value %zu is %g", t->name, i, (double)v[i]);
    return CH_OK;
}

// Rows [row0, row0 + w->n_out) of t's adapter beside w, behind those that it has already. down: [n_mat][rank][n_in]; up: all rows.
static int add_to_weight(adapter *a, ch_weight *w, const ch_gguf_tensor *t, size_t row0, size_t rank, const float *down, const float *up) {
    const size_t old = w->lora ? w->lora->rank : 0, all = old + rank, n_rows = (size_t)t->ne[1];
    ch_lora *l = ch_model_alloc(a->m, 1, sizeof *l);
    size_t n_a = 0, n_b = 0;
    const bool fits = ch_mul_size(w->n_mat * all, w->n_in, &n_a) && ch_mul_size(w->n_mat * all, w->n_out, &n_b);
    float *x = fits ? ch_model_alloc(a->m, n_a, sizeof *x) : NULL, *y = fits ? ch_model_alloc(a->m, n_b, sizeof *y) : NULL;
    if (!l || !x || !y) return fail(a, CH_ENOMEM, "no memory for an adapter of %s", t->name);
    const float f = a->alpha != 0 ? a->scale * a->alpha / (float)rank : a->scale;
    for (size_t i = 0; i < w->n_mat; i++) {
        float *to_a = x + i * all * w->n_in, *to_b = y + i * all * w->n_out;
        if (old) {
            memcpy(to_a, w->lora->a + i * old * w->n_in, old * w->n_in * sizeof *x);
            memcpy(to_b, w->lora->b + i * old * w->n_out, old * w->n_out * sizeof *y);
        }
        memcpy(to_a + old * w->n_in, down + i * rank * w->n_in, rank * w->n_in * sizeof *x);
        for (size_t k = 0; k < rank; k++)
            for (size_t r = 0; r < w->n_out; r++) to_b[(old + k) * w->n_out + r] = f * up[(i * n_rows + row0 + r) * rank + k];
    }
    *l = (ch_lora){all, x, y};
    w->lora = l;
    a->hash = ch_hash64(y, n_b * sizeof *y, ch_hash64(x, n_a * sizeof *x, ch_hash64(w->name, strlen(w->name), a->hash)));
    a->n_weight++;
    if (rank > a->rank) a->rank = rank;
    return CH_OK;
}

// To every weight that reads rows of t.
static int add_to_model(adapter *a, const ch_gguf_tensor *t, size_t rank, const float *down, const float *up) {
    const size_t row_bytes = t->size / (size_t)(t->ne[1] * t->ne[2] * t->ne[3]), n_before = a->n_weight;
    for (size_t i = 0; i < a->m->n_weight; i++) {
        ch_weight *w = a->m->weight[i];
        if (strcmp(w->name, t->name) != 0) continue;
        const uintptr_t at = (uintptr_t)w->raw - (uintptr_t)t->data;
        if (at >= t->size || w->n_in != t->ne[0] || w->n_mat != t->ne[2] * t->ne[3])
            return fail(a, CH_EUNSUPPORTED, "tensor %s is rearranged when it is loaded, and no adapter can follow", t->name);
        int rc = add_to_weight(a, w, t, at / row_bytes, rank, down, up);
        if (rc) return rc;
    }
    return a->n_weight > n_before ? CH_OK : fail(a, CH_EUNSUPPORTED, "tensor %s is no matrix, and no adapter can be added to it", t->name);
}

static int add_pair(adapter *a, const ch_gguf_tensor *t, const ch_gguf_tensor *x, const ch_gguf_tensor *y) {
    int rc = check_pair(a, t, x, y);
    if (rc) return rc;
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        const uint64_t *ne = i ? y->ne : x->ne;
        if (!ch_mul_size((size_t)ne[0], (size_t)ne[1], &n[i]) || !ch_mul_size(n[i], (size_t)ne[2], &n[i]) || !ch_mul_size(n[i], (size_t)ne[3], &n[i]))
            return fail(a, CH_ELIMIT, "tensor %s: size overflows", i ? y->name : x->name);
    }
    float *down = ch_alloc_array(n[0], sizeof *down), *up = ch_alloc_array(n[1], sizeof *up);
    rc = down && up ? CH_OK : fail(a, CH_ENOMEM, "no memory for an adapter of %s", t->name);
    if (!rc) rc = decode(a, x, n[0], down);
    if (!rc) rc = decode(a, y, n[1], up);
    if (!rc) rc = add_to_model(a, t, (size_t)x->ne[1], down, up);
    ch_free(down), ch_free(up);
    return rc;
}

// A tensor of the file: its name tells where it belongs. Pairs are added at their first half.
static int add_tensor(adapter *a, const ch_gguf_tensor *x) {
    char name[MAX_NAME];
    const size_t n = strlen(x->name);
    const bool is_a = n > 7 && strcmp(x->name + n - 7, ".lora_a") == 0, is_b = n > 7 && strcmp(x->name + n - 7, ".lora_b") == 0;
    if ((!is_a && !is_b) || n >= sizeof name) return fail(a, CH_EFORMAT, "tensor %.80s is neither a .lora_a nor a .lora_b", x->name);
    memcpy(name, x->name, n + 1);
    name[n - 1] = is_a ? 'b' : 'a';
    const ch_gguf_tensor *y = ch_gguf_find_tensor(a->g, name);
    if (!y) return fail(a, CH_EFORMAT, "tensor %s is missing", name);
    if (is_b) return CH_OK;
    name[n - 7] = 0;
    const ch_gguf_tensor *t = ch_gguf_find_tensor(a->m->gguf, name);
    if (!t) return fail(a, CH_EFORMAT, "tensor %s: the model has no %s", x->name, name);
    if (a->m->used[t - ch_gguf_tensor_at(a->m->gguf, 0)] == 2) return check_pair(a, t, x, y); // of a part that is left out
    return add_pair(a, t, x, y);
}

static int add_file(ch_model *m, const ch_model_lora *file, uint64_t *hash, ch_error *e) {
    ch_gguf *g = NULL;
    if (!isfinite(file->scale)) return ch_error_set(e, CH_ERANGE, "%s: scale %g", file->path, (double)file->scale);
    int rc = ch_gguf_open(&g, file->path, e);
    if (rc) return rc;
    adapter a = {.m = m, .g = g, .scale = file->scale, .hash = *hash ? *hash : 1, .e = e};
    rc = check_keys(&a);
    for (size_t i = 0; !rc && i < ch_gguf_n_tensors(g); i++) rc = add_tensor(&a, ch_gguf_tensor_at(g, i));
    if (!rc && !ch_gguf_n_tensors(g)) rc = fail(&a, CH_EFORMAT, "an adapter without tensors");
    if (!rc)
        ch_log(CH_LOG_INFO, "adapter %s: %zu matrices, rank %zu, scale %g, alpha %g", file->path, a.n_weight, a.rank, (double)a.scale, (double)a.alpha);
    *hash = a.hash;
    ch_gguf_close(&g);
    return rc;
}

int ch_model_add_loras(ch_model *m, const ch_model_lora *file, size_t n, uint64_t *hash, ch_error *e) {
    *hash = 0;
    if (n > CH_LORA_MAX_FILES) return ch_error_set(e, CH_ELIMIT, "%zu adapters, at most %d", n, CH_LORA_MAX_FILES);
    int rc = CH_OK;
    for (size_t i = 0; !rc && i < n; i++) rc = add_file(m, &file[i], hash, e);
    return rc;
}
