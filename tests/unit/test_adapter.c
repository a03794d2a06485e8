// Low-rank adapters beside the weights of a model, for every architecture: as if they had been added to the matrices; the same bits
// for every batch, number of threads and tier's own order; what a file may not say. time limit: 240 s
#include <dirent.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf/gguf.h"
#include "model/model.h"
#include "synth/synth.h"

enum { N_TOK = 9, RANK = 3 };
static const float alpha = 6;

typedef struct files {
    char base[64], adapter[64], other[64], merged[64], cache[64];
    ch_gguf *g;
} files;

static void open_files(files *f, const char *arch, const char *preset, ch_type type) {
    ch_error e = {0};
    ch_synth_shape s;
    char dir[] = "/tmp/test_adapter_XXXXXX";
    assert_non_null(mkdtemp(dir));
    snprintf(f->base, sizeof f->base, "%s/base", dir), snprintf(f->adapter, sizeof f->adapter, "%s/adapter", dir);
    snprintf(f->other, sizeof f->other, "%s/other", dir), snprintf(f->merged, sizeof f->merged, "%s/merged", dir);
    snprintf(f->cache, sizeof f->cache, "%s/cache", dir);
    if (ch_synth_preset(&s, arch, preset, &e)) fail_msg("%s", e.msg);
    s.n_vocab = s.n_vocab > 400 ? 400 : s.n_vocab;
    if (ch_synth_write(f->base, &s, type, 3, NULL, NULL, &e) || ch_gguf_open(&f->g, f->base, &e)) fail_msg("%s: %s", arch, e.msg);
}

static void close_files(files *f) {
    char dir[64];
    snprintf(dir, sizeof dir, "%s", f->base);
    *strrchr(dir, '/') = 0;
    ch_gguf_close(&f->g);
    DIR *d = opendir(f->cache);
    for (struct dirent *x; d && (x = readdir(d));) unlinkat(dirfd(d), x->d_name, 0);
    if (d) closedir(d);
    rmdir(f->cache);
    unlink(f->base), unlink(f->adapter), unlink(f->other), unlink(f->merged), rmdir(dir);
}

static ch_model *open_model(const files *f, const char *path, const ch_model_params *p) {
    ch_error e = {0};
    ch_model *m = NULL;
    ch_model_params q = *p;
    q.n_batch = N_TOK, q.n_seq = 2;
    if (ch_model_open(&m, path ? path : f->base, &q, &e)) fail_msg("%s", e.msg);
    return m;
}

// ---- made-up adapters ---------------------------------------------------------------------------------------------------------
static bool is_adaptable(const char *name) {
    return strcmp(name, "token_embd.weight") != 0 && !strstr(name, ".attn_k_b.") && !strstr(name, ".attn_v_b.");
}

// Values of one half of the adapter of a tensor, in the order of the file; deviations give a product of the size of the matrix.
static void fill_half(const ch_gguf_tensor *t, char half, uint64_t seed, float *v, size_t n) {
    ch_rng r;
    ch_rng_seed(&r, ch_hash64(t->name, strlen(t->name), seed * 2 + (uint64_t)(half == 'b')));
    const float std = half == 'a' ? 1 / sqrtf((float)t->ne[0]) : 0.3f / sqrtf(RANK) * RANK / alpha;
    for (size_t i = 0; i < n; i++) v[i] = std * ch_rng_normal(&r);
}

static const ch_gguf_tensor *adapted_at(const files *f, const ch_model *m, size_t i) { // NULL: not this one
    const ch_gguf_tensor *t = ch_gguf_tensor_at(f->g, i);
    if (!is_adaptable(t->name) || (strstr("qwen3next plamo2", ch_model_get_info(m)->arch) && strstr(t->name, ".ssm_in."))) return NULL; // rearranged when bound
    for (size_t k = 0; ch_model_weight_at(m, k); k++)
        if (strcmp(ch_model_weight_at(m, k)->name, t->name) == 0) return t;
    return NULL;
}

static void put_keys(ch_gguf_writer *w, const char *arch, float a) {
    assert_int_equal(ch_gguf_put_str(w, "general.type", "adapter", 7), 0);
    assert_int_equal(ch_gguf_put_str(w, "general.architecture", arch, strlen(arch)), 0);
    assert_int_equal(ch_gguf_put_str(w, "adapter.type", "lora", 4), 0);
    if (a != 0) assert_int_equal(ch_gguf_put_f32(w, "adapter.lora.alpha", a), 0);
}

// Adapters for all matrices of the model. only: for tensors with this in their name.
static size_t write_adapter(const files *f, const ch_model *m, const char *path, uint64_t seed, float a, const char *only) {
    ch_error e = {0};
    ch_gguf_writer *w;
    size_t n = 0;
    assert_int_equal(ch_gguf_writer_open(&w, path, &e), 0);
    put_keys(w, ch_model_get_info(m)->arch, a);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < ch_gguf_n_tensors(f->g); i++) {
            const ch_gguf_tensor *t = adapted_at(f, m, i);
            if (!t || (only && !strstr(t->name, only))) continue;
            const uint64_t ne[2][3] = {{t->ne[0], RANK, t->ne[2]}, {RANK, t->ne[1], t->ne[2]}};
            for (int half = 0; half < 2; half++) {
                char name[96];
                snprintf(name, sizeof name, "%s.lora_%c", t->name, 'a' + half);
                const size_t count = (size_t)(ne[half][0] * ne[half][1] * ne[half][2]);
                if (!pass) {
                    assert_int_equal(ch_gguf_put_tensor(w, name, CH_TYPE_F32, t->ne[2] > 1 ? 3 : 2, ne[half]), 0);
                    continue;
                }
                float *v = ch_alloc_array(count, sizeof *v);
                fill_half(t, (char)('a' + half), seed, v, count);
                assert_int_equal(ch_gguf_write_data(w, v, count * sizeof *v, &e), 0);
                ch_free(v);
            }
            n += !pass;
        }
    if (ch_gguf_writer_commit(&w, &e)) fail_msg("%s", e.msg);
    return n;
}

// The same added to the matrices.
static void write_merged(const files *f, const ch_model *m, uint64_t seed) {
    ch_error e = {0};
    ch_gguf_writer *w;
    assert_int_equal(ch_gguf_writer_open(&w, f->merged, &e), 0);
    for (size_t i = 0; i < ch_gguf_n_kv(f->g); i++) assert_int_equal(ch_gguf_put_kv(w, f->g, ch_gguf_kv_at(f->g, i)), 0);
    for (size_t i = 0; i < ch_gguf_n_tensors(f->g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(f->g, i);
        assert_int_equal(ch_gguf_put_tensor(w, t->name, CH_TYPE_F32, t->n_dims, t->ne), 0);
    }
    for (size_t i = 0; i < ch_gguf_n_tensors(f->g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(f->g, i);
        const size_t n_in = (size_t)t->ne[0], n_out = (size_t)t->ne[1], n_mat = (size_t)t->ne[2], n = t->size / sizeof(float);
        float *v = malloc(t->size), *a = ch_alloc_array(n_mat * RANK * n_in, sizeof *a), *b = ch_alloc_array(n_mat * n_out * RANK, sizeof *b);
        assert_true(v && a && b && t->type->id == CH_TYPE_F32);
        memcpy(v, t->data, t->size);
        if (adapted_at(f, m, i)) {
            fill_half(t, 'a', seed, a, n_mat * RANK * n_in), fill_half(t, 'b', seed, b, n_mat * n_out * RANK);
            for (size_t k = 0; k < n; k++) {
                double s = 0;
                const size_t row = k / n_in, mat = row / n_out;
                for (size_t q = 0; q < RANK; q++) s += (double)b[row * RANK + q] * (double)a[(mat * RANK + q) * n_in + k % n_in];
                v[k] = (float)((double)v[k] + (double)alpha / RANK * s);
            }
        }
        assert_int_equal(ch_gguf_write_data(w, v, t->size, &e), 0);
        free(v), ch_free(a), ch_free(b);
    }
    if (ch_gguf_writer_commit(&w, &e)) fail_msg("%s", e.msg);
}

// ---- scores -------------------------------------------------------------------------------------------------------------------
// Logits of N_TOK tokens, `step` of them at a time; the model is closed. The caller frees them.
static float *scores(ch_model *m, int32_t step, size_t *n) {
    ch_error e = {0};
    ch_seq_pool *pool;
    ch_seq *s;
    const size_t v = (size_t)ch_model_get_info(m)->n_vocab;
    float *out = ch_alloc_array(N_TOK * v, sizeof *out);
    assert_non_null(out);
    if (ch_seq_pool_create(&pool, ch_model_plan(m), &(ch_seq_limits){.n_seq = 1, .n_page = 4, .max_tokens = 128}, &e) || ch_seq_create(&s, pool, &e))
        fail_msg("%s", e.msg);
    int32_t token[N_TOK], row[N_TOK];
    for (int32_t i = 0; i < N_TOK; i++) token[i] = (int32_t)((i * i * 7 + i * 3 + 1) % (int32_t)v), row[i] = i;
    for (int32_t at = 0; at < N_TOK; at += step) {
        const int32_t k = N_TOK - at < step ? N_TOK - at : step;
        if (ch_model_forward(m, &(ch_batch){token + at, k, &(ch_segment){.seq = s, .n_tok = k}, 1, row, k}, out + (size_t)at * v, &e)) fail_msg("%s", e.msg);
    }
    ch_seq_free(&s);
    ch_seq_pool_free(&pool);
    ch_model_close(&m);
    *n = N_TOK * v;
    return out;
}

static double distance(const float *a, const float *b, size_t n, double *size) {
    double most = 0;
    *size = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - (double)b[i])), *size = fmax(*size, fabs((double)b[i]));
    return most;
}

// ---- as if merged ---------------------------------------------------------------------------------------------------------------
static void check_arch(const char *arch, const char *preset) {
    files f;
    size_t n;
    ch_synth_shape shape;
    if (ch_synth_preset(&shape, arch, preset, NULL) || shape.n_embd > 256 || shape.n_layer > 8) return; // a large one
    open_files(&f, arch, preset, CH_TYPE_F32);
    const ch_model_params ref = {.tier = "ref", .n_threads = 2};
    ch_model *m = open_model(&f, NULL, &ref);
    const int n_layer = ch_model_get_info(m)->n_layer;
    assert_true(write_adapter(&f, m, f.adapter, 1, alpha, NULL) >= (size_t)n_layer * 2);
    write_merged(&f, m, 1);
    ch_model_params with = ref;
    with.lora[0] = (ch_model_lora){f.adapter, 1}, with.n_lora = 1;
    float *base = scores(m, N_TOK, &n), *got = scores(open_model(&f, NULL, &with), N_TOK, &n), *want = scores(open_model(&f, f.merged, &ref), N_TOK, &n);
    double size, off = distance(got, want, n, &size);
    const double moved = distance(base, want, n, &size);
    // Both round every product's rows of a few hundred sums, and the merged matrices once more: eps sqrt(300) on values of the size
    // of the logits, in about six products a layer, twice.
    const double most = 12 * FLT_EPSILON * sqrt(300) * (n_layer + 1) * size;
    if (!(off <= most && moved > 50 * most)) fail_msg("%s %s: off by %.3g, allowed %.3g; the adapter moves by %.3g", arch, preset, off, most, moved);
    ch_free(base), ch_free(got), ch_free(want);
    close_files(&f);
}

static void test_archs(void **state) {
    (void)state;
    for (size_t i = 0; ch_synth_arch_at(i); i++)
        for (size_t k = 0; ch_synth_preset_at(ch_synth_arch_at(i), k); k++)
            check_arch(ch_synth_arch_at(i), ch_synth_preset_at(ch_synth_arch_at(i), k));
}

// ---- equal bits -----------------------------------------------------------------------------------------------------------------
static void check_bits(const char *arch, ch_type type, const char *tier) {
    files f;
    size_t n;
    open_files(&f, arch, "tiny", type);
    ch_model_params p = {.tier = tier, .n_threads = 1};
    ch_model *m = open_model(&f, NULL, &p);
    write_adapter(&f, m, f.adapter, 1, alpha, NULL);
    ch_model_close(&m);
    p.lora[0] = (ch_model_lora){f.adapter, 0.5f}, p.n_lora = 1;
    float *want = scores(open_model(&f, NULL, &p), N_TOK, &n);
    p.n_threads = 3;
    float *got = scores(open_model(&f, NULL, &p), N_TOK, &n);
    assert_memory_equal(got, want, n * sizeof *want);
    ch_free(got);
    got = scores(open_model(&f, NULL, &p), 1, &n);
    assert_memory_equal(got, want, n * sizeof *want);
    ch_free(got);
    ch_free(want);
    close_files(&f);
}

static void test_bits(void **state) {
    (void)state;
    check_bits("qwen35moe", CH_TYPE_Q8_0, NULL);
    check_bits("qwen35moe", CH_TYPE_Q4_K, NULL);
    check_bits("nemotron_h_moe", CH_TYPE_BF16, NULL);
    check_bits("mamba2", CH_TYPE_IQ4_XS, NULL);
    check_bits("qwen35", CH_TYPE_Q4_0, "ref");
    check_bits("qwen35", CH_TYPE_Q4_0, NULL);
}

// ---- several; scales ------------------------------------------------------------------------------------------------------------
static void test_several(void **state) {
    (void)state;
    files f;
    size_t n;
    double size;
    open_files(&f, "qwen35moe", "tiny", CH_TYPE_F32);
    ch_model_params p = {.tier = "ref", .n_threads = 2};
    ch_model *m = open_model(&f, NULL, &p);
    const uint64_t plain = ch_model_plan(m)->fingerprint;
    write_adapter(&f, m, f.adapter, 1, alpha, NULL);
    write_adapter(&f, m, f.other, 2, alpha, "attn_");
    float *base = scores(m, N_TOK, &n);
    p.lora[0] = (ch_model_lora){f.adapter, 1}, p.n_lora = 1;
    m = open_model(&f, NULL, &p);
    const uint64_t one = ch_model_plan(m)->fingerprint;
    float *single = scores(m, N_TOK, &n);
    // Twice with half the weight is once; with weight 0, nothing.
    p.lora[0] = (ch_model_lora){f.adapter, 0.75f}, p.lora[1] = (ch_model_lora){f.adapter, 0.25f}, p.n_lora = 2;
    m = open_model(&f, NULL, &p);
    const uint64_t halves = ch_model_plan(m)->fingerprint;
    float *twice = scores(m, N_TOK, &n);
    const double most = 12 * FLT_EPSILON * sqrt(300) * 5;
    double off = distance(twice, single, n, &size);
    assert_true(off <= most * size);
    p.lora[0].scale = 0, p.n_lora = 1;
    m = open_model(&f, NULL, &p);
    const uint64_t nothing = ch_model_plan(m)->fingerprint;
    float *zero = scores(m, N_TOK, &n);
    assert_true(distance(zero, base, n, &size) == 0);
    // A second one for some matrices only; the order does not matter.
    p.lora[0] = (ch_model_lora){f.adapter, 1}, p.lora[1] = (ch_model_lora){f.other, -2}, p.n_lora = 2;
    float *ab = scores(open_model(&f, NULL, &p), N_TOK, &n);
    p.lora[0] = (ch_model_lora){f.other, -2}, p.lora[1] = (ch_model_lora){f.adapter, 1};
    float *ba = scores(open_model(&f, NULL, &p), N_TOK, &n);
    off = distance(ab, ba, n, &size);
    assert_true(off <= most * size);
    assert_true(distance(ab, single, n, &size) > 0.01 * size);
    // No snapshot of one fits another.
    const uint64_t id[4] = {plain, one, halves, nothing};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_true(id[i] != id[k]);
    float *const all[] = {base, single, twice, zero, ab, ba};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ch_free(all[i]);
    close_files(&f);
}

// Without adapter.lora.alpha the product counts the scale alone.
static void test_no_alpha(void **state) {
    (void)state;
    files f;
    size_t n;
    double size;
    open_files(&f, "qwen35", "tiny", CH_TYPE_F32);
    ch_model_params p = {.tier = "ref", .n_threads = 1};
    ch_model *m = open_model(&f, NULL, &p);
    write_adapter(&f, m, f.adapter, 1, alpha, NULL), write_adapter(&f, m, f.other, 1, 0, NULL);
    ch_model_close(&m);
    p.lora[0] = (ch_model_lora){f.adapter, 1}, p.n_lora = 1;
    float *want = scores(open_model(&f, NULL, &p), N_TOK, &n);
    p.lora[0] = (ch_model_lora){f.other, alpha / RANK};
    float *got = scores(open_model(&f, NULL, &p), N_TOK, &n);
    assert_true(distance(got, want, n, &size) == 0);
    ch_free(want), ch_free(got);
    close_files(&f);
}

// Panels are those of the matrices alone: both models share a file of the cache.
static void test_panels(void **state) {
    (void)state;
    files f;
    size_t n;
    open_files(&f, "qwen35moe", "tiny", CH_TYPE_Q8_0);
    ch_model_params p = {.n_threads = 2};
    ch_model *m = open_model(&f, NULL, &p);
    write_adapter(&f, m, f.adapter, 1, alpha, NULL);
    ch_model_close(&m);
    p.lora[0] = (ch_model_lora){f.adapter, 1}, p.n_lora = 1;
    float *want = scores(open_model(&f, NULL, &p), N_TOK, &n);
    p.panel_cache = f.cache;
    for (int round = 0; round < 3; round++) {
        p.n_lora = round != 1;
        float *got = scores(open_model(&f, NULL, &p), N_TOK, &n);
        assert_true((memcmp(got, want, n * sizeof *want) == 0) == (round != 1));
        ch_free(got);
    }
    size_t n_file = 0;
    DIR *d = opendir(f.cache);
    for (struct dirent *x; d && (x = readdir(d));) n_file += x->d_name[0] != '.';
    if (d) closedir(d);
    assert_true(n_file <= 1); // none where the tier reads matrices as they lie
    ch_free(want);
    close_files(&f);
}

// ---- what a file may not say --------------------------------------------------------------------------------------------------
typedef struct wrong {
    const char *general, *arch, *kind; // NULL: not there
    float alpha;
    const char *key; // one more
    const char *name[2]; // tensors; NULL: none
    uint64_t ne[2][3];
    float value; // of the first tensor's last element
    ch_type type;
    int rc;
    const char *expect;
} wrong;
#define Q "blk.3.attn_q.weight"
#define GOOD "adapter", "qwen35moe", "lora"
static const wrong wrongs[] = {
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, 0, ""},
    {GOOD, 8, NULL, {Q ".lora_b", Q ".lora_a"}, {{2, 256, 1}, {256, 2, 1}}, 0, CH_TYPE_F32, 0, ""},
    {GOOD, -8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 32, 1}, {32, 256, 1}}, 0, CH_TYPE_Q8_0, 0, ""},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 1023, 1}, {1023, 256, 1}}, 0, CH_TYPE_F16, 0, ""},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 1024, 1}, {1024, 256, 1}}, 0, CH_TYPE_F16, 0, ""},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 1025, 1}, {1025, 256, 1}}, 0, CH_TYPE_F16, CH_ELIMIT, Q ".lora_a: rank 1025, at most 1024"},
    {NULL, "qwen35moe", "lora", 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, "no adapter: general.type is \"\""},
    {"model", "qwen35moe", "lora", 8, NULL, {NULL}, {{0}}, 0, CH_TYPE_F32, CH_EFORMAT, "no adapter: general.type is \"model\""},
    {"adapter", "llama", "lora", 8, NULL, {NULL}, {{0}}, 0, CH_TYPE_F32, CH_EFORMAT, "made for architecture \"llama\", and the model is qwen35moe"},
    {"adapter", NULL, "lora", 8, NULL, {NULL}, {{0}}, 0, CH_TYPE_F32, CH_EFORMAT, "made for architecture \"\""},
    {"adapter", "qwen35moe", "control_vector", 8, NULL, {NULL}, {{0}}, 0, CH_TYPE_F32, CH_EUNSUPPORTED, "adapter.type is \"control_vector\", expected \"lora\""},
    {GOOD, 8, "adapter.alora.invocation_tokens", {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_EUNSUPPORTED, "invocation_tokens"},
    {GOOD, NAN, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_ERANGE, "adapter.lora.alpha: expected a finite 32-bit float, found nan"},
    {GOOD, INFINITY, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_ERANGE, "adapter.lora.alpha: expected a finite 32-bit float, found inf"},
    {GOOD, 8, NULL, {NULL}, {{0}}, 0, CH_TYPE_F32, CH_EFORMAT, "an adapter without tensors"},
    {GOOD, 8, NULL, {Q ".lora_a"}, {{256, 2, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, "tensor " Q ".lora_b is missing"},
    {GOOD, 8, NULL, {Q ".lora_b"}, {{2, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, "tensor " Q ".lora_a is missing"},
    {GOOD, 8, NULL, {Q}, {{2, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, "tensor " Q " is neither a .lora_a nor a .lora_b"},
    {GOOD, 8, NULL, {".lora_a", ".lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, "tensor .lora_a is neither"},
    {GOOD, 8, NULL, {"blk.9.attn_q.weight.lora_a", "blk.9.attn_q.weight.lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, "the model has no blk.9.attn_q.weight"},
    {GOOD, 8, NULL, {"blk.3.attn_q.lora_a", "blk.3.attn_q.lora_b"}, {{256, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, "the model has no blk.3.attn_q"},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{255, 2, 1}, {2, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, Q ".lora_a has shape [255, 2, 1, 1], expected [256, 2, 1, 1]"},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {3, 256, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, Q ".lora_b has shape [3, 256, 1, 1], expected [2, 256, 1, 1]"},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {2, 255, 1}}, 0, CH_TYPE_F32, CH_EFORMAT, Q ".lora_b has shape [2, 255, 1, 1]"},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 2}, {2, 256, 2}}, 0, CH_TYPE_F32, CH_EFORMAT, Q ".lora_a has shape [256, 2, 2, 1]"},
    {GOOD, 8, NULL, {Q ".lora_a", Q ".lora_b"}, {{256, 2, 1}, {2, 256, 1}}, NAN, CH_TYPE_F32, CH_EFORMAT, Q ".lora_a: value 511 is nan"},
    {GOOD, 8, NULL, {Q ".lora_b", Q ".lora_a"}, {{2, 256, 1}, {256, 2, 1}}, INFINITY, CH_TYPE_F32, CH_EFORMAT, Q ".lora_b: value "},
    {GOOD, 8, NULL, {"token_embd.weight.lora_a", "token_embd.weight.lora_b"}, {{256, 2, 1}, {2, 400, 1}}, 0, CH_TYPE_F32, CH_EUNSUPPORTED,
     "token_embd.weight: an adapter cannot be added to a matrix that is read row by row"},
    {GOOD, 8, NULL, {"blk.0.attn_norm.weight.lora_a", "blk.0.attn_norm.weight.lora_b"}, {{256, 2, 1}, {2, 1, 1}}, 0, CH_TYPE_F32, CH_EUNSUPPORTED,
     "tensor blk.0.attn_norm.weight is no matrix"},
    {GOOD, 8, NULL, {"blk.0.ssm_conv1d.weight.lora_a", "blk.0.ssm_conv1d.weight.lora_b"}, {{4, 2, 1}, {2, 0, 1}}, 0, CH_TYPE_F32, CH_EUNSUPPORTED, "ssm_conv1d.weight is no matrix"},
};

static void test_wrong(void **state) {
    (void)state;
    files f;
    open_files(&f, "qwen35moe", "tiny", CH_TYPE_F32);
    const ch_gguf_tensor *q = ch_gguf_find_tensor(f.g, Q), *conv = ch_gguf_find_tensor(f.g, "blk.0.ssm_conv1d.weight");
    assert_true(q && q->ne[0] == 256 && conv && conv->ne[0] == 4);
    const uint64_t n_q = q->ne[1], n_vocab = ch_gguf_find_tensor(f.g, "token_embd.weight")->ne[1];
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const wrong *c = &wrongs[i];
        ch_error e = {0};
        ch_gguf_writer *w;
        uint64_t ne[2][3];
        memcpy(ne, c->ne, sizeof ne);
        for (int k = 0; k < 2; k++) { // the file's own sizes
            if (ne[k][1] == 256) ne[k][1] = n_q;
            if (ne[k][1] == 255) ne[k][1] = n_q - 1;
            if (ne[k][1] == 400) ne[k][1] = n_vocab;
            if (ne[k][1] == 0) ne[k][1] = conv->ne[1];
        }
        char expect[160];
        snprintf(expect, sizeof expect, "%s", c->expect);
        assert_int_equal(ch_gguf_writer_open(&w, f.adapter, &e), 0);
        if (c->general) ch_gguf_put_str(w, "general.type", c->general, strlen(c->general));
        if (c->arch) ch_gguf_put_str(w, "general.architecture", c->arch, strlen(c->arch));
        if (c->kind) ch_gguf_put_str(w, "adapter.type", c->kind, strlen(c->kind));
        ch_gguf_put_f32(w, "adapter.lora.alpha", c->alpha);
        if (c->key) ch_gguf_put_u32(w, c->key, 1);
        const ch_type_info *t = ch_quant_type((uint32_t)c->type);
        for (int k = 0; k < 2 && c->name[k]; k++) assert_int_equal(ch_gguf_put_tensor(w, c->name[k], c->type, 3, ne[k]), 0);
        for (int k = 0; k < 2 && c->name[k]; k++) {
            const size_t n = (size_t)(ne[k][0] * ne[k][1] * ne[k][2]);
            size_t row;
            assert_true(ch_quant_row_bytes(t, (size_t)ne[k][0], &row));
            float *v = ch_alloc_array(n, sizeof *v);
            uint8_t *raw = ch_alloc(row);
            if (!k) v[n - 1] = c->value;
            for (size_t r = 0; r < n / ne[k][0]; r++) {
                t->encode(v + r * ne[k][0], raw, (size_t)ne[k][0]);
                if (ch_gguf_write_data(w, raw, row, &e)) fail_msg("%s", e.msg);
            }
            ch_free(v), ch_free(raw);
        }
        if (ch_gguf_writer_commit(&w, &e)) fail_msg("%s", e.msg);
        ch_model *m = NULL;
        e = (ch_error){0};
        const int rc = ch_model_open(&m, f.base, &(ch_model_params){.n_threads = 1, .n_batch = 4, .lora = {{f.adapter, 1}}, .n_lora = 1}, &e);
        ch_model_close(&m);
        if (rc != c->rc || !strstr(e.msg, n_q == 256 || !strstr(expect, ", 25") ? expect : "has shape")) fail_msg("case %zu: %d \"%s\", expected %d \"%s\"", i, rc, e.msg, c->rc, expect);
    }
    close_files(&f);
}

static void test_limits(void **state) {
    (void)state;
    files f;
    open_files(&f, "qwen35moe", "tiny", CH_TYPE_F32);
    ch_model_params p = {.n_threads = 1, .n_batch = 4};
    ch_model *m = open_model(&f, NULL, &p);
    write_adapter(&f, m, f.adapter, 1, alpha, "attn_output");
    ch_model_close(&m);
    for (size_t i = 0; i < CH_LORA_MAX_FILES; i++) p.lora[i] = (ch_model_lora){f.adapter, 1};
    for (p.n_lora = CH_LORA_MAX_FILES - 1; p.n_lora <= CH_LORA_MAX_FILES + 1; p.n_lora++) {
        ch_error e = {0};
        assert_int_equal(ch_model_open(&m, f.base, &p, &e), p.n_lora > CH_LORA_MAX_FILES ? CH_ELIMIT : 0);
        ch_model_close(&m);
    }
    ch_error e = {0};
    p.n_lora = 1, p.lora[0].scale = NAN;
    assert_int_equal(ch_model_open(&m, f.base, &p, &e), CH_ERANGE);
    p.lora[0] = (ch_model_lora){f.other, 1};
    assert_int_equal(ch_model_open(&m, f.base, &p, &e), CH_EIO);
    assert_non_null(strstr(e.msg, f.other));
    p.n_lora = 0;
    assert_int_equal(ch_model_open(&m, f.adapter, &p, &e), CH_EUNSUPPORTED); // as if it were a model
    assert_non_null(strstr(e.msg, "is an adapter, no model"));
    close_files(&f);
}

// Matrices read head by head take none.
static void test_heads(void **state) {
    (void)state;
    files f;
    ch_error e = {0};
    ch_gguf_writer *w;
    open_files(&f, "kimi-linear", "tiny", CH_TYPE_F32);
    const ch_gguf_tensor *t = NULL;
    for (size_t i = 0; i < ch_gguf_n_tensors(f.g) && !t; i++)
        if (strstr(ch_gguf_tensor_at(f.g, i)->name, ".attn_k_b.")) t = ch_gguf_tensor_at(f.g, i);
    assert_non_null(t);
    char a[96], b[96];
    snprintf(a, sizeof a, "%s.lora_a", t->name), snprintf(b, sizeof b, "%s.lora_b", t->name);
    assert_int_equal(ch_gguf_writer_open(&w, f.adapter, &e), 0);
    put_keys(w, "kimi-linear", 1);
    ch_gguf_put_tensor(w, a, CH_TYPE_F32, 3, (uint64_t[]){t->ne[0], 1, t->ne[2]}), ch_gguf_put_tensor(w, b, CH_TYPE_F32, 3, (uint64_t[]){1, t->ne[1], t->ne[2]});
    float *zero = ch_alloc_array((size_t)((t->ne[0] + t->ne[1]) * t->ne[2]), sizeof *zero);
    if (ch_gguf_write_data(w, zero, (size_t)((t->ne[0] + t->ne[1]) * t->ne[2]) * sizeof *zero, &e) || ch_gguf_writer_commit(&w, &e)) fail_msg("%s", e.msg);
    ch_free(zero);
    ch_model *m = NULL;
    assert_int_equal(ch_model_open(&m, f.base, &(ch_model_params){.n_threads = 1, .n_batch = 4, .lora = {{f.adapter, 1}}, .n_lora = 1}, &e), CH_EUNSUPPORTED);
    assert_non_null(strstr(e.msg, "head by head"));
    close_files(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archs), cmocka_unit_test(test_bits),  cmocka_unit_test(test_several), cmocka_unit_test(test_no_alpha),
        cmocka_unit_test(test_panels), cmocka_unit_test(test_wrong), cmocka_unit_test(test_limits),  cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
