// Adding a model family takes one new file and one line of a list: toy.c and the line below. The library is linked as it is;
// this program's registry stands in for src/arch/registry.c, whose object is then not taken from the archive.
#include "toy.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const ch_arch *const table[] = {
#define CH_ARCH_ROW(symbol) &symbol,
#include "arch/list.h"
    CH_ARCH_ROW(ch_arch_toy) // the one line
#undef CH_ARCH_ROW
};
enum { N_ARCH = sizeof table / sizeof *table };
const ch_arch *ch_arch_at(size_t i) { return i < N_ARCH ? table[i] : NULL; }

enum { D = 40, FF = 56, N_LAYER = 2, N_TAP = 3, N_VOCAB = 50, N_TOK = 23 };

static const struct spec {
    const char *name; // %d: layer
    uint64_t n0, n1;  // n1 0: a vector
    float scale, offset;
} specs[] = {
    {"token_embd.weight", D, N_VOCAB, 1, 0}, {"output_norm.weight", D, 0, 0.2f, 1},
    {"blk.%d.norm.weight", D, 0, 0.2f, 1},   {"blk.%d.conv_b.weight", D, D, 0.2f, 0},   {"blk.%d.conv_c.weight", D, D, 0.2f, 0},
    {"blk.%d.conv_u.weight", D, D, 0.2f, 0}, {"blk.%d.conv_out.weight", D, D, 0.2f, 0}, {"blk.%d.conv.weight", N_TAP, D, 0.6f, 0},
    {"blk.%d.ffn_norm.weight", D, 0, 0.2f, 1}, {"blk.%d.ffn_gate.weight", D, FF, 0.2f, 0}, {"blk.%d.ffn_up.weight", D, FF, 0.2f, 0},
    {"blk.%d.ffn_down.weight", FF, D, 0.2f, 0},
};
enum { N_SPEC = sizeof specs / sizeof *specs, N_GLOBAL = 2 };

static float weight[N_LAYER][N_SPEC][FF * N_VOCAB]; // globals in layer 0
static char path[64];

// Calls fn for every tensor; returns the first failure.
static int each_tensor(ch_gguf_writer *w, bool data) {
    ch_error e = {0};
    for (int l = 0; l < N_LAYER; l++)
        for (size_t i = l ? N_GLOBAL : 0; i < N_SPEC; i++) {
            const struct spec *s = &specs[i];
            uint64_t ne[2] = {s->n0, s->n1};
            size_t n = (size_t)(s->n0 * (s->n1 ? s->n1 : 1));
            char name[64];
            int at = snprintf(name, sizeof name, "%.4s", i < N_GLOBAL ? "" : "blk.");
            if (i < N_GLOBAL) snprintf(name, sizeof name, "%s", s->name);
            else snprintf(name + at, sizeof name - (size_t)at, "%d%s", l, s->name + 6);
            int rc = data ? ch_gguf_write_data(w, weight[l][i], n * sizeof(float), &e) : ch_gguf_put_tensor(w, name, CH_TYPE_F32, s->n1 ? 2 : 1, ne);
            if (rc) return rc;
        }
    return 0;
}

static int write_model(void **state) {
    (void)state;
    ch_rng r;
    ch_rng_seed(&r, 3);
    for (int l = 0; l < N_LAYER; l++)
        for (size_t i = 0; i < N_SPEC; i++)
            for (size_t k = 0; k < FF * N_VOCAB; k++) weight[l][i][k] = specs[i].offset + specs[i].scale * ch_rng_normal(&r);
    snprintf(path, sizeof path, "/tmp/chimere_toy_%d.gguf", (int)getpid());
    ch_error e = {0};
    ch_gguf_writer *w = NULL;
    if (ch_gguf_writer_open(&w, path, &e) || ch_gguf_put_str(w, "general.architecture", "toy", 3) ||
        ch_gguf_put_u32(w, "toy.context_length", 64) || ch_gguf_put_u32(w, "toy.embedding_length", D) ||
        ch_gguf_put_u32(w, "toy.block_count", N_LAYER) || ch_gguf_put_u32(w, "toy.feed_forward_length", FF) ||
        ch_gguf_put_u32(w, "toy.conv_kernel", N_TAP) || ch_gguf_put_f32(w, "toy.attention.layer_norm_rms_epsilon", 1e-5f) ||
        each_tensor(w, false) || each_tensor(w, true) || ch_gguf_writer_commit(&w, &e)) {
        ch_gguf_writer_abort(&w);
        fprintf(stderr, "%s\n", e.msg);
        return -1;
    }
    return 0;
}

static int remove_model(void **state) {
    (void)state;
    return unlink(path);
}

// ---- the same in plain double precision -----------------------------------------------------------------------------------
static void multiply(const float *w, int n_in, int n_out, const double *x, double *y) {
    for (int r = 0; r < n_out; r++) {
        y[r] = 0;
        for (int i = 0; i < n_in; i++) y[r] += (double)w[r * n_in + i] * x[i];
    }
}

static void norm(const double *x, const float *w, double *y) {
    double sum = 0;
    for (int i = 0; i < D; i++) sum += x[i] * x[i];
    for (int i = 0; i < D; i++) y[i] = x[i] / sqrt(sum / D + 1e-5) * (double)w[i];
}

static void plain(const int32_t *token, double logits[N_TOK][N_VOCAB]) {
    static double past[N_LAYER][N_TOK][D]; // b * u
    for (int t = 0; t < N_TOK; t++) {
        double x[D], h[D], b[D], c[D], u[D], y[D], gate[FF], up[FF];
        for (int i = 0; i < D; i++) x[i] = (double)weight[0][0][token[t] * D + i];
        for (int l = 0; l < N_LAYER; l++) {
            float (*w)[FF * N_VOCAB] = weight[l];
            norm(x, w[2], h);
            multiply(w[3], D, D, h, b), multiply(w[4], D, D, h, c), multiply(w[5], D, D, h, u);
            for (int i = 0; i < D; i++) {
                past[l][t][i] = b[i] * u[i], y[i] = 0;
                for (int k = 0; k < N_TAP; k++)
                    if (t - (N_TAP - 1) + k >= 0) y[i] += (double)w[7][i * N_TAP + k] * past[l][t - (N_TAP - 1) + k][i];
                y[i] *= c[i];
            }
            multiply(w[6], D, D, y, h);
            for (int i = 0; i < D; i++) x[i] += h[i];
            norm(x, w[8], h);
            multiply(w[9], D, FF, h, gate), multiply(w[10], D, FF, h, up);
            for (int i = 0; i < FF; i++) gate[i] *= up[i] / (1 + exp(-gate[i]));
            multiply(w[11], FF, D, gate, y);
            for (int i = 0; i < D; i++) x[i] += y[i];
        }
        norm(x, weight[0][1], h);
        multiply(weight[0][0], D, N_VOCAB, h, logits[t]);
    }
}

static void test_forward(void **state) {
    (void)state;
    static double want[N_TOK][N_VOCAB];
    static float got[N_TOK * N_VOCAB];
    int32_t token[N_TOK], row[N_TOK];
    ch_error e = {0};
    ch_model *m = NULL;
    ch_seq_pool *pool = NULL;
    ch_seq *s = NULL;
    for (int i = 0; i < N_TOK; i++) token[i] = (7 * i + i * i) % N_VOCAB, row[i] = i;
    plain(token, want);
    if (ch_model_open(&m, path, &(ch_model_params){.n_threads = 2, .n_batch = N_TOK}, &e)) fail_msg("%s", e.msg);
    assert_string_equal(ch_model_get_info(m)->arch, "toy");
    assert_string_equal(ch_model_get_info(m)->layer[1].mixer, "short convolution");
    assert_int_equal(ch_model_get_info(m)->kv_bytes_per_token, 0);
    assert_int_equal(ch_seq_pool_create(&pool, ch_model_plan(m), &(ch_seq_limits){1, 0, 0, 64}, &e), 0);
    static const int chunk[] = {N_TOK, 1, 4};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(ch_seq_create(&s, pool, &e), 0);
        for (int at = 0; at < N_TOK; at += chunk[k]) {
            int n = N_TOK - at < chunk[k] ? N_TOK - at : chunk[k];
            ch_segment seg = {s, n};
            if (ch_model_forward(m, &(ch_batch){token + at, n, &seg, 1, row, n}, got + at * N_VOCAB, &e)) fail_msg("%s", e.msg);
        }
        ch_seq_free(&s);
        for (int t = 0; t < N_TOK; t++)
            for (int v = 0; v < N_VOCAB; v++) // sums of at most 56 products: 2 layers * 6 sums * 56 * 6e-8 * 10 at worst
                if (!(fabs((double)got[t * N_VOCAB + v] - want[t][v]) < 5e-5 * (1 + fabs(want[t][v]))))
                    fail_msg("chunks of %d: position %d token %d: %g, expected %g", chunk[k], t, v, (double)got[t * N_VOCAB + v], want[t][v]);
    }
    ch_seq_pool_free(&pool);
    ch_model_close(&m);
}

// One row more than the library has, and a source file that asks for nothing but what every architecture may use.
static void test_cost(void **state) {
    (void)state;
    size_t n = 0;
#define CH_ARCH_ROW(symbol) n++;
#include "arch/list.h"
#undef CH_ARCH_ROW
    assert_int_equal(N_ARCH, n + 1);
    char file[256], line[256];
    snprintf(file, sizeof file, "%.*stoy.c", (int)(sizeof __FILE__ - sizeof "test_toy.c"), __FILE__);
    FILE *f = fopen(file, "r"); // not there when the program was moved away from its source
    if (!f) skip();
    int n_line = 0, n_include = 0;
    for (; fgets(line, sizeof line, f); n_line++)
        if (!strncmp(line, "#include", 8)) {
            assert_string_equal(line, "#include \"arch/arch.h\"\n");
            n_include++;
        }
    fclose(f);
    assert_int_equal(n_include, 1);
    assert_in_range(n_line, 50, 100);
    for (size_t i = 0; i < N_ARCH; i++)
        for (size_t k = 0; k < i; k++) assert_string_not_equal(table[i]->name, table[k]->name);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward), cmocka_unit_test(test_cost)};
    return cmocka_run_group_tests(tests, write_model, remove_model);
}
