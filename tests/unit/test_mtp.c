// The multi-token prediction layer against plain double precision written from its equations (N1-N5), on the hidden rows that
// the trunk gives: after prefill in odd chunks, after a rollback, after a verification step, for two sequences at once, chained. And a model opened
// without it must not know that it is there.
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

#include "gguf/gguf.h"
#include "model/model.h"
#include "synth/synth.h"

enum { N_TOK = 45, N_AHEAD = 4, N_VOCAB = 320, MAX_POS = N_TOK + N_AHEAD };

// Largest difference of a logit. Input, attention, experts, norms and head are about ten sums of up to 288 products one after the
// other, each product wrong by up to u = 6e-8 of its size; with signs at random and logits near 5 that is
// sqrt(10 * 288) * 6e-8 * 5 = 1.6e-5. Measured: 4e-6. Three times that; a chained step adds the error of the hidden row it gets.
#define BOUND(ahead) (5e-5 * (1 + (ahead)))

typedef struct oracle {
    ch_gguf *g;
    ch_synth_shape s;
    size_t d, n_q, n_kv; // widths
    int layer;
    double k[MAX_POS][64], v[MAX_POS][64]; // [n_head_kv * d_head] per position
    double hidden[MAX_POS][128];           // of the trunk, or of the draft past it
} oracle;

// ---- plain mathematics ----------------------------------------------------------------------------------------------------
static const float *tensor(const oracle *o, const char *name, size_t n) {
    char full[96];
    snprintf(full, sizeof full, "blk.%d.%s", o->layer, name);
    const ch_gguf_tensor *t = ch_gguf_find_tensor(o->g, full);
    if (!t) t = ch_gguf_find_tensor(o->g, name);
    if (!t) fail_msg("no tensor %s", name);
    assert_int_equal(t->type->id, CH_TYPE_F32);
    if (n) assert_int_equal(t->size, n * sizeof(float));
    return t->data;
}

static void multiply(const float *w, size_t n_in, size_t n_out, const double *x, double *y) {
    for (size_t r = 0; r < n_out; r++) {
        y[r] = 0;
        for (size_t i = 0; i < n_in; i++) y[r] += (double)w[r * n_in + i] * x[i];
    }
}

static void norm(const double *x, const float *w, size_t n, double eps, double *y) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    double scale = 1 / sqrt(sum / (double)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = x[i] * scale * (double)w[i];
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void rotate(const oracle *o, double *head, int pos) {
    int half = o->s.n_rot / 2;
    for (int i = 0; i < half; i++) {
        double angle = pos * pow((double)o->s.rope_base, -2.0 * i / o->s.n_rot), a = head[i], b = head[i + half];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + half] = a * sin(angle) + b * cos(angle);
    }
}

static void swiglu(const oracle *o, const char *suffix, size_t expert, size_t ff, const double *x, double *y) {
    char name[64];
    double gate[512], up[512];
    assert_true(ff <= 512);
    snprintf(name, sizeof name, "ffn_gate%s.weight", suffix);
    multiply(tensor(o, name, 0) + expert * o->d * ff, o->d, ff, x, gate);
    snprintf(name, sizeof name, "ffn_up%s.weight", suffix);
    multiply(tensor(o, name, 0) + expert * o->d * ff, o->d, ff, x, up);
    for (size_t i = 0; i < ff; i++) gate[i] *= sigmoid(gate[i]) * up[i];
    snprintf(name, sizeof name, "ffn_down%s.weight", suffix);
    multiply(tensor(o, name, 0) + expert * o->d * ff, ff, o->d, gate, y);
}

static void feed_forward(const oracle *o, const double *x, double *y) {
    const ch_synth_shape *s = &o->s;
    if (!s->n_expert) {
        swiglu(o, "", 0, (size_t)s->n_ff, x, y);
        return;
    }
    double p[64], part[128], top = -INFINITY, sum = 0, gate;
    bool taken[64] = {false};
    multiply(tensor(o, "ffn_gate_inp.weight", 0), o->d, (size_t)s->n_expert, x, p);
    for (int i = 0; i < s->n_expert; i++) top = fmax(top, p[i]);
    for (int i = 0; i < s->n_expert; i++) p[i] = exp(p[i] - top);
    for (int n = 0; n < s->n_expert_used; n++) {
        int best = -1;
        for (int i = 0; i < s->n_expert; i++)
            if (!taken[i] && (best < 0 || p[i] > p[best])) best = i;
        taken[best] = true, sum += p[best];
    }
    multiply(tensor(o, "ffn_gate_inp_shexp.weight", o->d), o->d, 1, x, &gate);
    swiglu(o, "_shexp", 0, (size_t)s->n_ff_shexp, x, y);
    for (size_t i = 0; i < o->d; i++) y[i] *= sigmoid(gate);
    for (int n = 0; n < s->n_expert; n++) {
        if (!taken[n]) continue;
        swiglu(o, "_exps", (size_t)n, (size_t)s->n_ff_exp, x, part);
        for (size_t i = 0; i < o->d; i++) y[i] += p[n] / sum * part[i];
    }
}

// c = eh_proj [rms(embed(token)) ; rms(hidden before it)]; keys and values of position pos go into the cache (N2, N3).
static void enter(oracle *o, int32_t token, const double *before, int pos, double *c) {
    const float *embd = tensor(o, o->s.nextn_ends ? "nextn.embed_tokens.weight" : "token_embd.weight", 0) + (size_t)token * o->d;
    double e[128], both[256], h[128], eps = (double)o->s.rms_eps;
    for (size_t i = 0; i < o->d; i++) e[i] = (double)embd[i];
    norm(e, tensor(o, "nextn.enorm.weight", o->d), o->d, eps, both);
    norm(before, tensor(o, "nextn.hnorm.weight", o->d), o->d, eps, both + o->d);
    multiply(tensor(o, "nextn.eh_proj.weight", 2 * o->d * o->d), 2 * o->d, o->d, both, c);
    norm(c, tensor(o, "attn_norm.weight", o->d), o->d, eps, h);
    multiply(tensor(o, "attn_k.weight", 0), o->d, o->n_kv, h, o->k[pos]);
    multiply(tensor(o, "attn_v.weight", 0), o->d, o->n_kv, h, o->v[pos]);
    for (size_t i = 0; i < o->n_kv; i += (size_t)o->s.d_head) {
        norm(o->k[pos] + i, tensor(o, "attn_k_norm.weight", 0), (size_t)o->s.d_head, eps, o->k[pos] + i);
        rotate(o, o->k[pos] + i, pos);
    }
}

static void attend(const oracle *o, const double *h, int pos, double *y) {
    size_t dh = (size_t)o->s.d_head;
    double qg[1024], out[512], eps = (double)o->s.rms_eps;
    assert_true(2 * o->n_q <= 1024);
    multiply(tensor(o, "attn_q.weight", 0), o->d, 2 * o->n_q, h, qg); // per head: query rows, then gate rows
    for (int n = 0; n < o->s.n_head; n++) {
        double *q = qg + (size_t)n * 2 * dh, *gate = q + dh, p[MAX_POS], top = -INFINITY, sum = 0;
        size_t at = (size_t)(n / (o->s.n_head / o->s.n_head_kv)) * dh;
        norm(q, tensor(o, "attn_q_norm.weight", dh), dh, eps, q);
        rotate(o, q, pos);
        for (int j = 0; j <= pos; j++) {
            p[j] = 0;
            for (size_t i = 0; i < dh; i++) p[j] += q[i] * o->k[j][at + i];
            p[j] /= sqrt((double)dh);
            top = fmax(top, p[j]);
        }
        for (int j = 0; j <= pos; j++) sum += p[j] = exp(p[j] - top);
        for (size_t i = 0; i < dh; i++) {
            double *to = &out[(size_t)n * dh + i];
            *to = 0;
            for (int j = 0; j <= pos; j++) *to += p[j] / sum * o->v[j][at + i];
            *to *= sigmoid(gate[i]);
        }
    }
    multiply(tensor(o, "attn_output.weight", 0), o->n_q, o->d, out, y);
}

// Draft at position pos >= 1: logits of the token after it; o->hidden[pos] becomes the hidden row for the next step (N4, N5).
static void draft(oracle *o, int32_t token, int pos, double *logits) {
    double x[128], h[128], y[128], eps = (double)o->s.rms_eps;
    enter(o, token, o->hidden[pos - 1], pos, x);
    norm(x, tensor(o, "attn_norm.weight", o->d), o->d, eps, h);
    attend(o, h, pos, y);
    for (size_t i = 0; i < o->d; i++) x[i] += y[i];
    norm(x, tensor(o, "post_attention_norm.weight", o->d), o->d, eps, h);
    feed_forward(o, h, y);
    for (size_t i = 0; i < o->d; i++) x[i] += y[i];
    norm(x, tensor(o, "nextn.shared_head_norm.weight", o->d), o->d, eps, o->hidden[pos]);
    const char *head = o->s.nextn_ends ? "nextn.shared_head_head.weight" : o->s.tied ? "token_embd.weight" : "output.weight";
    multiply(tensor(o, head, o->d * N_VOCAB), o->d, N_VOCAB, o->hidden[pos], logits);
}

// ---- the model's side -----------------------------------------------------------------------------------------------------
typedef struct fixture {
    char path[64];
    oracle *o;
    ch_model *m;
    ch_seq_pool *pool;
    double worst;
} fixture;

static void make_file(const char *path, ch_synth_shape *s, const char *arch, int n_nextn, int interval) {
    ch_error e = {0};
    if (ch_synth_preset(s, arch, "tiny", &e)) fail_msg("%s", e.msg);
    s->n_vocab = N_VOCAB, s->n_embd = 96, s->n_head = 6, s->n_head_kv = 2, s->d_head = 24, s->n_rot = 8;
    s->n_layer = 3, s->attn_interval = interval, s->ssm_heads_k = 2, s->ssm_heads_v = 6, s->ssm_d_state = 16;
    if (s->n_ff) s->n_ff = 160;
    if (s->n_expert) s->n_expert = 5, s->n_ff_exp = 48, s->n_ff_shexp = 80;
    s->n_nextn = n_nextn, s->nextn_ends = !strcmp(arch, "qwen3next"); // one of the three has ends of its own
    if (ch_synth_write(path, s, CH_TYPE_F32, 5, NULL, NULL, &e)) fail_msg("%s", e.msg);
}

static ch_model *open_model(const char *path, bool mtp, int n_seq) {
    ch_error e = {0};
    ch_model *m = NULL;
    if (ch_model_open(&m, path, &(ch_model_params){.n_threads = 2, .n_batch = N_TOK, .n_seq = n_seq, .mtp = mtp}, &e)) fail_msg("%s", e.msg);
    return m;
}

static ch_seq_pool *open_pool(const ch_model *m) {
    ch_error e = {0};
    ch_seq_pool *p = NULL;
    if (ch_seq_pool_create(&p, ch_model_plan(m), &(ch_seq_limits){.n_seq = 4, .n_mark = 2, .n_page = 16, .max_tokens = 128, .n_draft = 8}, &e)) fail_msg("%s", e.msg);
    return p;
}

static ch_seq *open_seq(ch_seq_pool *p) {
    ch_error e = {0};
    ch_seq *s = NULL;
    if (ch_seq_create(&s, p, &e)) fail_msg("%s", e.msg);
    return s;
}

static void setup(fixture *f, const char *arch) {
    *f = (fixture){.o = calloc(1, sizeof *f->o)};
    ch_error e = {0};
    snprintf(f->path, sizeof f->path, "/tmp/chimere_mtp_%d_%s.gguf", (int)getpid(), arch);
    make_file(f->path, &f->o->s, arch, 1, 3);
    if (ch_gguf_open(&f->o->g, f->path, &e)) fail_msg("%s", e.msg);
    oracle *o = f->o;
    o->d = (size_t)o->s.n_embd, o->n_q = (size_t)(o->s.n_head * o->s.d_head), o->n_kv = (size_t)(o->s.n_head_kv * o->s.d_head);
    o->layer = o->s.n_layer;
    f->m = open_model(f->path, true, 2);
    assert_true(ch_model_get_info(f->m)->mtp);
    f->pool = open_pool(f->m);
}

static void teardown(fixture *f) {
    ch_seq_pool_free(&f->pool);
    ch_model_close(&f->m);
    ch_gguf_close(&f->o->g);
    free(f->o);
    unlink(f->path);
}

// Token i of list k.
static int32_t token_at(int k, int i) { return (int32_t)(ch_hash64(&(int[2]){k, i}, 2 * sizeof(int), 3) % 256); }

// One step of n tokens of list k from position `at`; of its rows the sequence keeps the first `keep`, and so does the oracle.
static void step(fixture *f, ch_seq *s, int k, int at, int n, int keep) {
    oracle *o = f->o;
    ch_error e = {0};
    float hidden[N_TOK * 128];
    int32_t token[N_TOK], rows[N_TOK];
    for (int i = 0; i < n; i++) token[i] = token_at(k, at + i), rows[i] = i;
    ch_segment seg = {s, n, keep < n}, kept = {s, keep, false};
    if (ch_model_forward(f->m, &(ch_batch){token, n, &seg, 1, rows, n, hidden}, NULL, &e)) fail_msg("%s", e.msg);
    if (keep < n) {
        int32_t t = 0;
        float logits[N_VOCAB], h[128];
        assert_int_equal(ch_model_draft(f->m, &(ch_draft){&s, &t, 1, 0, NULL, logits, h}, &e), CH_ESTATE);
        if (ch_model_commit(f->m, &kept, 1, &e)) fail_msg("%s", e.msg);
    }
    static const double none[128];
    double c[128];
    for (int i = 0; i < keep; i++) {
        for (size_t x = 0; x < o->d; x++) o->hidden[at + i][x] = (double)hidden[(size_t)i * o->d + x];
        enter(o, token_at(k, at + i), at + i ? o->hidden[at + i - 1] : none, at + i, c);
    }
}

// Positions [from, to) of list k in steps of at most chunk rows.
static void feed(fixture *f, ch_seq *s, int k, int from, int to, int chunk) {
    for (int at = from; at < to; at += chunk) {
        int n = to - at < chunk ? to - at : chunk;
        step(f, s, k, at, n, n);
    }
}

static void compare(fixture *f, const char *what, int ahead, const float *got, const double *want) {
    for (int i = 0; i < N_VOCAB; i++) {
        double diff = fabs((double)got[i] - want[i]);
        if (!(diff <= BOUND(ahead)))
            fail_msg("%s, %s, %d ahead: token %d: %g, expected %g", f->o->s.arch, what, ahead, i, (double)got[i], want[i]);
        f->worst = fmax(f->worst, diff);
    }
}

// Drafts four tokens (of list 9) behind s, twice: drafts must leave no trace.
static void check_drafts(fixture *f, const char *what, ch_seq *s) {
    oracle *o = f->o;
    ch_error e = {0};
    int len = (int)ch_seq_len(s);
    for (int again = 0; again < 2; again++) {
        float hidden[128], logits[N_VOCAB];
        for (int a = 0; a < N_AHEAD; a++) {
            int32_t token = token_at(9, len + a);
            double want[N_VOCAB];
            draft(o, token, len + a, want);
            if (ch_model_draft(f->m, &(ch_draft){&s, &token, 1, a, a ? hidden : NULL, logits, hidden}, &e)) fail_msg("%s", e.msg);
            compare(f, what, a, logits, want);
            assert_int_equal(ch_seq_len(s), len);
            for (size_t c = 0; c < o->d; c++) assert_true(fabs((double)hidden[c] - o->hidden[len + a][c]) <= BOUND(a));
        }
    }
}

static void check_one(fixture *f) {
    static const int chunk[] = {1, 7, 13, N_TOK};
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; i++) {
        ch_seq *s = open_seq(f->pool);
        feed(f, s, 0, 0, N_TOK - 3, chunk[i]);
        check_drafts(f, "after prefill", s);
        feed(f, s, 0, N_TOK - 3, N_TOK, 2); // over what the drafts wrote
        check_drafts(f, "after more tokens", s);
        ch_seq_free(&s);
    }
}

static void check_rollback(fixture *f) {
    enum { CUT = 30 };
    ch_error e = {0};
    ch_seq *s = open_seq(f->pool);
    ch_seq_mark *mark = NULL;
    feed(f, s, 0, 0, CUT, 11);
    assert_int_equal(ch_seq_mark_create(&mark, s, &e), 0);
    feed(f, s, 0, CUT, N_TOK, 5);
    check_drafts(f, "before a rollback", s);
    assert_int_equal(ch_seq_rollback(s, mark, &e), 0);
    check_drafts(f, "at a mark", s); // the oracle's hidden rows up to CUT are still those
    feed(f, s, 2, CUT, CUT + 4, 3);
    check_drafts(f, "after a rollback", s);
    ch_seq_mark_free(&mark), ch_seq_free(&s);
}

// A verification step of six tokens of which some are kept.
static void check_deferred(fixture *f) {
    enum { START = 20, M = 6 };
    ch_seq *s = open_seq(f->pool);
    feed(f, s, 0, 0, START, 9);
    for (int at = START, keep = 0; keep < M; at += keep++) {
        step(f, s, 2, at, M, keep);
        check_drafts(f, "after a verification step", s);
    }
    ch_seq_free(&s);
}

// Two sequences of different lengths in one call give what each gives alone, bit for bit.
static void check_two(fixture *f) {
    ch_error e = {0};
    ch_seq *s[2] = {open_seq(f->pool), open_seq(f->pool)};
    float alone[2][N_AHEAD][N_VOCAB], hidden[2 * 128], kept[2][128], logits[2 * N_VOCAB];
    size_t d = f->o->d;
    feed(f, s[0], 3, 0, 21, 8);
    feed(f, s[1], 4, 0, 40, 40); // the oracle follows the second
    for (int k = 0; k < 2; k++)
        for (int a = 0; a < N_AHEAD; a++) {
            int32_t token = token_at(9 + k, a);
            if (ch_model_draft(f->m, &(ch_draft){&s[k], &token, 1, a, a ? kept[k] : NULL, alone[k][a], kept[k]}, &e)) fail_msg("%s", e.msg);
        }
    for (int a = 0; a < N_AHEAD; a++) {
        int32_t token[2] = {token_at(9, a), token_at(10, a)};
        double want[N_VOCAB];
        if (ch_model_draft(f->m, &(ch_draft){s, token, 2, a, a ? hidden : NULL, logits, hidden}, &e)) fail_msg("%s", e.msg);
        for (int k = 0; k < 2; k++) assert_memory_equal(logits + k * N_VOCAB, alone[k][a], sizeof alone[k][a]);
        draft(f->o, token[1], 40 + a, want);
        compare(f, "two sequences", a, logits + N_VOCAB, want);
    }
    for (int k = 0; k < 2; k++) assert_memory_equal(hidden + (size_t)k * d, kept[k], d * sizeof(float));
    ch_seq_free(&s[0]), ch_seq_free(&s[1]);
}

static void check_refusals(fixture *f) {
    ch_error e = {0};
    ch_seq *s = open_seq(f->pool);
    float hidden[128] = {0}, logits[N_VOCAB];
    feed(f, s, 0, 0, 5, 5);
    const struct {
        int32_t token, n_seq, ahead;
        int code;
    } row[] = {{-1, 1, 0, CH_ERANGE},         {0, 1, 0, CH_OK},          {N_VOCAB - 1, 1, 0, CH_OK}, {N_VOCAB, 1, 0, CH_ERANGE},
               {0, 0, 0, CH_ERANGE},          {0, 1, -1, CH_ERANGE},     {0, 1, 122, CH_OK},         {0, 1, 123, CH_ELIMIT},
               {0, 1, 4096, CH_ELIMIT},       {0, 1, 4097, CH_ERANGE},   {0, 3, 0, CH_ERANGE}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        ch_draft d = {&s, &row[i].token, row[i].n_seq, row[i].ahead, row[i].ahead ? hidden : NULL, logits, hidden};
        int rc = ch_model_draft(f->m, &d, &e);
        if (rc != row[i].code) fail_msg("row %zu: %d, expected %d", i, rc, row[i].code);
    }
    assert_int_equal(ch_model_draft(f->m, &(ch_draft){&s, &row[1].token, 1, 1, NULL, logits, hidden}, &e), CH_ERANGE);
    int32_t two[2] = {0, 0};
    float wide[2 * N_VOCAB], rows[2 * 128];
    assert_int_equal(ch_model_draft(f->m, &(ch_draft){(ch_seq *[]){s, s}, two, 2, 0, NULL, wide, rows}, &e), CH_ERANGE);
    ch_seq_free(&s);
}

// All logits of a prompt.
static float *prompt_logits(const char *path, bool mtp, uint64_t *state_bytes) {
    ch_error e = {0};
    ch_model *m = open_model(path, mtp, 1);
    ch_seq_pool *pool = open_pool(m);
    ch_seq *s = open_seq(pool);
    int32_t token[N_TOK], rows[N_TOK];
    float *out = malloc(sizeof(float) * N_TOK * N_VOCAB);
    for (int i = 0; i < N_TOK; i++) token[i] = token_at(0, i), rows[i] = i;
    ch_segment seg = {s, N_TOK};
    if (ch_model_forward(m, &(ch_batch){token, N_TOK, &seg, 1, rows, N_TOK}, out, &e)) fail_msg("%s", e.msg);
    assert_int_equal(ch_model_get_info(m)->mtp, mtp);
    *state_bytes = ch_model_plan(m)->slab_bytes + ch_model_plan(m)->page_bytes;
    if (!mtp) {
        int32_t t = 0;
        float h[128];
        assert_int_equal(ch_model_draft(m, &(ch_draft){&s, &t, 1, 0, NULL, out, h}, &e), CH_ESTATE);
    }
    ch_seq_free(&s), ch_seq_pool_free(&pool), ch_model_close(&m);
    return out;
}

// The trunk's logits with the layer in use, with it left out, and from a file without it: bit for bit the same. Left out, it
// costs no state.
static void check_trunk(fixture *f) {
    char bare[80];
    ch_synth_shape s;
    uint64_t bytes[3];
    snprintf(bare, sizeof bare, "%s.bare", f->path);
    make_file(bare, &s, f->o->s.arch, 0, 3);
    float *with = prompt_logits(f->path, true, &bytes[0]), *without = prompt_logits(f->path, false, &bytes[1]);
    float *never = prompt_logits(bare, false, &bytes[2]);
    size_t n = sizeof(float) * N_TOK * N_VOCAB;
    assert_memory_equal(with, never, n);
    assert_memory_equal(without, never, n);
    assert_int_equal(bytes[1], bytes[2]);
    assert_true(bytes[0] > bytes[1]);
    free(with), free(without), free(never);
    unlink(bare);
}

static void test_arch(void **state) {
    fixture f;
    setup(&f, *state);
    check_one(&f);
    check_rollback(&f);
    check_deferred(&f);
    check_two(&f);
    check_refusals(&f);
    check_trunk(&f);
    print_message("%s: largest difference of a draft logit %.1e\n", (const char *)*state, f.worst);
    teardown(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        {"qwen35", test_arch, NULL, NULL, (void *)(uintptr_t)"qwen35"},
        {"qwen35moe", test_arch, NULL, NULL, (void *)(uintptr_t)"qwen35moe"},
        {"qwen3next", test_arch, NULL, NULL, (void *)(uintptr_t)"qwen3next"},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
