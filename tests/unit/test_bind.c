// Strict binding: a synthetic model is copied with one key or tensor changed, and the
// loader must take it or name what is wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/gguf.h"
#include "model/model.h"
#include "synth/synth.h"

typedef enum edit {
    KEEP,
    SET_U32,  // key = value (added when absent)
    SET_F32,  // key = value
    DROP_KEY,
    SHORTEN,  // array key loses its last element
    DROP,     // tensor
    RENAME,   // tensor to `other`
    NEGATE,   // tensor's values change sign
    RESHAPE,  // tensor's shape becomes ne
    SWAP,     // first two dimensions change places
    ADD       // an extra tensor of that name
} edit;

typedef struct bind_case {
    const char *arch, *preset; // "tiny+mtp": with the multi-token prediction block, opened for use
    edit edit;
    const char *name, *other;
    uint32_t value;
    uint64_t ne[4];
    int rc;
    const char *expect; // part of the message
} bind_case;

// ssm_a and the scan's groups; shapes of the tiny presets: 96 wide, inner 192 or 120, 6 heads, 2 groups, 24 states, 4 taps.
static const bind_case cases[] = {
    {"mamba", "tiny", KEEP, "", NULL, 0, {0}, CH_OK, ""},
    {"mamba", "tiny", SET_U32, "mamba.ssm.inner_size", NULL, 100, {0}, CH_ERANGE, "ssm.inner_size is 100, expected 2 * embedding_length"},
    {"mamba", "tiny", DROP_KEY, "mamba.ssm.conv_kernel", NULL, 0, {0}, CH_EFORMAT, "mamba.ssm.conv_kernel is missing"},
    {"mamba", "tiny", SET_U32, "mamba.ssm.conv_kernel", NULL, 1, {0}, CH_ERANGE, "expected 2..16"},
    {"mamba", "tiny", SET_U32, "mamba.ssm.conv_kernel", NULL, 17, {0}, CH_ERANGE, "expected 2..16"},
    {"mamba", "tiny", SET_U32, "mamba.ssm.state_size", NULL, 1025, {0}, CH_ERANGE, "expected 1..1024"},
    {"mamba", "tiny", SET_U32, "mamba.ssm.time_step_rank", NULL, 8, {0}, CH_EFORMAT, "blk.0.ssm_x.weight has shape"},
    {"mamba", "tiny", DROP, "blk.0.ssm_dt.bias", NULL, 0, {0}, CH_EFORMAT, "blk.0.ssm_dt.bias is missing"},
    {"mamba", "tiny", NEGATE, "blk.2.ssm_a", NULL, 0, {0}, CH_EFORMAT, "blk.2.ssm_a: value 0 is"},
    {"mamba", "tiny", RESHAPE, "blk.1.ssm_conv1d.weight", NULL, 0, {4, 1, 192, 1}, CH_OK, ""},
    {"mamba", "tiny", SWAP, "blk.1.ssm_a", NULL, 0, {0}, CH_EFORMAT, "blk.1.ssm_a has shape [192, 24], expected [24, 192]"},
    {"mamba", "tiny", ADD, "blk.0.ssm_norm.weight", NULL, 0, {0}, CH_EFORMAT, "blk.0.ssm_norm.weight is not part of"},
    {"mamba", "tiny", SET_U32, "mamba.attention.head_count", NULL, 5000, {0}, CH_ERANGE, "head_count is 5000"},
    {"mamba2", "tiny", SET_U32, "mamba2.ssm.group_count", NULL, 4, {0}, CH_ERANGE, "no multiple of ssm.group_count 4"},
    {"mamba2", "tiny", SET_U32, "mamba2.ssm.group_count", NULL, 3, {0}, CH_EFORMAT, "blk.0.ssm_in.weight has shape"},
    {"mamba2", "tiny", SET_U32, "mamba2.ssm.time_step_rank", NULL, 7, {0}, CH_ERANGE, "ssm.inner_size 192 is no multiple of ssm.time_step_rank 7"},
    {"mamba2", "tiny", NEGATE, "blk.0.ssm_a", NULL, 0, {0}, CH_EFORMAT, "expected -exp(A_log) <= 0"},
    {"mamba2", "tiny", DROP, "blk.1.ssm_d", NULL, 0, {0}, CH_EFORMAT, "blk.1.ssm_d is missing"},
    {"mamba2", "tiny", DROP, "blk.1.ssm_norm.weight", NULL, 0, {0}, CH_OK, ""},
    {"mamba2", "tiny", DROP, "blk.1.ssm_conv1d.bias", NULL, 0, {0}, CH_OK, ""},
    {"mamba2", "tiny", SWAP, "blk.1.ssm_norm.weight", NULL, 0, {0}, CH_EFORMAT, "blk.1.ssm_norm.weight has shape [2, 96], expected [96, 2]"},
    {"mamba2", "tiny", RESHAPE, "blk.1.ssm_a", NULL, 0, {6, 1, 1, 1}, CH_OK, ""},
    {"mamba2", "tiny", RESHAPE, "blk.0.ssm_conv1d.weight", NULL, 0, {4, 1, 288, 1}, CH_OK, ""},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.expert_count", NULL, 0, {0}, CH_OK, ""},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.context_length", NULL, 1 << 20, {0}, CH_OK, ""},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.ssm.group_count", NULL, 0, {0}, CH_EFORMAT, "blk.0.ssm_in.weight has shape"},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.ssm.group_count", NULL, 5, {0}, CH_ERANGE, "ssm.group_count 5"},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.expert_count", NULL, 3, {0}, CH_EFORMAT, "expert_used_count is missing"},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.expert_count", NULL, 0, {0}, CH_OK, ""},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.context_length", NULL, 1 << 20, {0}, CH_OK, ""},
    {"nemotron_h_moe", "tiny", SET_U32, "nemotron_h_moe.context_length", NULL, 1 << 20, {0}, CH_OK, ""},
    {"nemotron_h", "tiny", SHORTEN, "nemotron_h.attention.head_count_kv", NULL, 0, {0}, CH_EFORMAT, "head_count_kv"},
    {"nemotron_h", "tiny", SET_U32, "nemotron_h.attention.head_count", NULL, 5, {0}, CH_ERANGE, "no multiple"},
    {"nemotron_h_moe", "tiny", SET_U32, "nemotron_h_moe.expert_count", NULL, 0, {0}, CH_ERANGE, "nemotron_h_moe.expert_count is missing or 0"},
    {"nemotron_h_moe", "tiny", SET_U32, "nemotron_h_moe.expert_used_count", NULL, 0, {0}, CH_ERANGE, "expert_used_count is 0, expected 1..5"},
    {"nemotron_h_moe", "tiny", SET_U32, "nemotron_h_moe.expert_used_count", NULL, 6, {0}, CH_ERANGE, "expected 1..5"},
    {"nemotron_h_moe", "tiny", SET_U32, "nemotron_h_moe.expert_group_count", NULL, 2, {0}, CH_ERANGE, "do not fit 5 experts"},
    {"nemotron_h_moe", "tiny", DROP, "blk.1.exp_probs_b.bias", NULL, 0, {0}, CH_OK, ""},
    {"nemotron_h_moe", "tiny-latent", DROP_KEY, "nemotron_h_moe.moe_latent_size", NULL, 0, {0}, CH_EFORMAT, "ffn_up_exps.weight has shape"},
    {"nemotron_h_moe", "tiny-latent", DROP, "blk.1.ffn_latent_up.weight", NULL, 0, {0}, CH_EFORMAT, "blk.1.ffn_latent_up.weight is missing"},
    {"granitehybrid", "tiny", SET_U32, "granitehybrid.ssm.inner_size", NULL, 120, {0}, CH_ERANGE, "expected 2 * embedding_length = 192"},
    {"granitehybrid", "tiny", SET_F32, "granitehybrid.residual_scale", NULL, 0, {0}, CH_OK, ""},
    {"granitehybrid", "tiny", DROP_KEY, "granitehybrid.logit_scale", NULL, 0, {0}, CH_OK, ""},
    {"falcon-h1", "tiny", SET_F32, "falcon-h1.mlp_gate_multiplier", NULL, 1, {0}, CH_EUNSUPPORTED, "falcon-h1.mlp_gate_multiplier"},
    {"falcon-h1", "tiny", RENAME, "blk.0.ffn_norm", "blk.0.ffn_norm.weight", 0, {0}, CH_OK, ""},
    {"falcon-h1", "tiny", DROP, "blk.0.ffn_norm", NULL, 0, {0}, CH_EFORMAT, "blk.0.ffn_norm"},
    {"jamba", "tiny", SET_U32, "jamba.expert_count", NULL, 0, {0}, CH_ERANGE, "expert_count is missing or 0"},
    {"jamba", "tiny", DROP, "blk.0.ssm_dt_norm.weight", NULL, 0, {0}, CH_EFORMAT, "blk.0.ssm_dt_norm.weight is missing"},
    {"plamo2", "tiny", SET_U32, "plamo2.ssm.group_count", NULL, 2, {0}, CH_ERANGE, "plamo2.ssm.group_count is 2, expected 0 or 1"},
    {"plamo2", "tiny", SET_U32, "plamo2.ssm.group_count", NULL, 1, {0}, CH_OK, ""},
    {"plamo2", "tiny", DROP, "blk.0.ssm_dt.bias", NULL, 0, {0}, CH_EFORMAT, "blk.0.ssm_dt.bias is missing"},
    {"plamo2", "tiny", RENAME, "blk.0.ssm_b_norm", "blk.0.ssm_b_norm.weight", 0, {0}, CH_OK, ""},
    {"qwen2", "tiny", SET_U32, "qwen2.attention.head_count", NULL, 5, {0}, CH_ERANGE, "no multiple"},
    {"qwen2", "tiny", DROP, "blk.1.attn_q.bias", NULL, 0, {0}, CH_OK, ""},
    {"qwen2moe", "tiny", SET_U32, "qwen2moe.expert_count", NULL, 0, {0}, CH_ERANGE, "expert_count is 0, expected at least 1"},
    {"qwen2moe", "tiny", DROP_KEY, "qwen2moe.expert_feed_forward_length", NULL, 0, {0}, CH_EFORMAT, "ffn_gate_exps.weight has shape"},
    {"qwen2moe", "tiny", DROP, "blk.0.ffn_gate_inp_shexp.weight", NULL, 0, {0}, CH_EFORMAT, "blk.0.ffn_gate_inp_shexp.weight is missing"},
    {"qwen3", "tiny", DROP, "blk.0.attn_q_norm.weight", NULL, 0, {0}, CH_EFORMAT, "blk.0.attn_q_norm.weight is missing"},
    {"qwen3", "tiny", DROP_KEY, "qwen3.attention.key_length", NULL, 0, {0}, CH_ERANGE, "qwen3.attention.value_length is 24"},
    {"qwen3moe", "tiny", SET_U32, "qwen3moe.expert_used_count", NULL, 6, {0}, CH_ERANGE, "expected 1..5"},
    {"qwen3moe", "tiny", ADD, "blk.0.ffn_up_shexp.weight", NULL, 0, {0}, CH_EFORMAT, "blk.0.ffn_up_shexp.weight is not part of"},
    {"granite", "tiny", SET_F32, "granite.logit_scale", NULL, 0, {0}, CH_OK, ""},
    {"granitemoe", "tiny", SET_U32, "granitemoe.expert_count", NULL, 0, {0}, CH_ERANGE, "expert_count is 0"},
    {"granitemoe", "tiny-shared", DROP, "blk.0.ffn_up_shexp.weight", NULL, 0, {0}, CH_EFORMAT, "blk.0.ffn_up_shexp.weight is missing"},
    {"lfm2", "tiny", SET_U32, "lfm2.shortconv.l_cache", NULL, 1, {0}, CH_ERANGE, "expected 2..16"},
    {"lfm2", "tiny", SET_U32, "lfm2.shortconv.l_cache", NULL, 4, {0}, CH_EFORMAT, "blk.0.shortconv.conv.weight"},
    {"lfm2", "tiny", SET_U32, "lfm2.attention.sliding_window", NULL, 2047, {0}, CH_EUNSUPPORTED, "attention.sliding_window is 2047"},
    {"lfm2", "tiny", SET_U32, "lfm2.attention.sliding_window", NULL, 2048, {0}, CH_OK, ""},
    {"lfm2", "tiny", RENAME, "token_embd_norm.weight", "output_norm.weight", 0, {0}, CH_OK, ""},
    {"lfm2", "tiny", RESHAPE, "blk.0.shortconv.conv.weight", NULL, 0, {3, 1, 96, 1}, CH_OK, ""},
    {"lfm2", "tiny", SHORTEN, "lfm2.attention.head_count_kv", NULL, 0, {0}, CH_EFORMAT, "head_count_kv"},
    {"lfm2moe", "tiny", DROP_KEY, "lfm2moe.expert_gating_func", NULL, 0, {0}, CH_EFORMAT, "expert_gating_func is missing"},
    {"lfm2moe", "tiny", SET_U32, "lfm2moe.expert_gating_func", NULL, 1, {0}, CH_ERANGE, "expert_gating_func is 1"},
    {"lfm2moe", "tiny", SET_U32, "lfm2moe.leading_dense_block_count", NULL, 5, {0}, CH_ERANGE, "expected 0..4"},
    {"lfm2moe", "tiny", SET_U32, "lfm2moe.leading_dense_block_count", NULL, 0, {0}, CH_EFORMAT, "blk.0.ffn_gate_inp.weight is missing"},
    {"kimi-linear", "tiny", DROP_KEY, "kimi-linear.attention.head_count_kv", NULL, 0, {0}, CH_EFORMAT, "head_count_kv is missing"},
    {"kimi-linear", "tiny", SET_U32, "kimi-linear.attention.key_length_mla", NULL, 8, {0}, CH_ERANGE, "expected 9.."},
    {"kimi-linear", "tiny", DROP, "blk.0.ssm_f_b.weight", NULL, 0, {0}, CH_EFORMAT, "blk.0.ssm_f_b.weight is missing"},
    {"kimi-linear", "tiny", NEGATE, "blk.0.ssm_a", NULL, 0, {0}, CH_EFORMAT, "blk.0.ssm_a: value 0 is"},
    {"kimi-linear", "tiny", RESHAPE, "blk.0.ssm_conv1d_q.weight", NULL, 0, {4, 144, 1, 1}, CH_OK, ""},
    {"kimi-linear", "tiny", RENAME, "blk.2.attn_k_b.weight", "blk.2.attn_kv_b.weight", 0, {0}, CH_EUNSUPPORTED, "expected attn_k_b and attn_v_b"},
    {"kimi-linear", "tiny", SET_U32, "kimi-linear.expert_shared_count", NULL, 2, {0}, CH_EFORMAT, "ffn_gate_shexp.weight has shape"},
    {"kimi-linear", "tiny", SET_U32, "kimi-linear.expert_group_count", NULL, 2, {0}, CH_ERANGE, "expert_group_count is 2, expected 0..1"},
    {"kimi-linear", "tiny", SET_U32, "kimi-linear.expert_group_count", NULL, 1, {0}, CH_OK, ""},
    {"kimi-linear", "tiny", DROP, "blk.1.exp_probs_b.bias", NULL, 0, {0}, CH_OK, ""},
    {"qwen35", "tiny+mtp", DROP, "blk.4.nextn.enorm.weight", NULL, 0, {0}, CH_EFORMAT, "blk.4.nextn.enorm.weight is missing"},
    {"qwen35", "tiny+mtp", DROP, "blk.4.attn_k.weight", NULL, 0, {0}, CH_EFORMAT, "blk.4.attn_k.weight is missing"},
    {"qwen35", "tiny+mtp", DROP, "blk.4.nextn.shared_head_norm.weight", NULL, 0, {0}, CH_OK, ""},
    {"qwen35", "tiny+mtp", SWAP, "blk.4.nextn.eh_proj.weight", NULL, 0, {0}, CH_EFORMAT, "blk.4.nextn.eh_proj.weight has shape [256, 512], expected [512, 256]"},
    {"qwen35", "tiny+mtp", SET_U32, "qwen35.nextn_predict_layers", NULL, 5, {0}, CH_ERANGE, "nextn_predict_layers is 5, expected 0..4"},
    {"qwen35", "tiny+mtp", SET_U32, "qwen35.nextn_predict_layers", NULL, 0, {0}, CH_EFORMAT, "blk.4."},
};

static void copy_keys(ch_gguf_writer *w, const ch_gguf *g, const bind_case *c) {
    for (size_t i = 0; i < ch_gguf_n_kv(g); i++) {
        const ch_gguf_kv *kv = ch_gguf_kv_at(g, i);
        bool hit = !strcmp(kv->key, c->name);
        if (hit && (c->edit == SET_U32 || c->edit == SET_F32 || c->edit == DROP_KEY)) continue;
        if (hit && c->edit == SHORTEN) assert_int_equal(ch_gguf_put_arr(w, kv->key, kv->elem, kv->raw, kv->n - 1), 0);
        else assert_int_equal(ch_gguf_put_kv(w, g, kv), 0);
    }
    if (c->edit == SET_U32) assert_int_equal(ch_gguf_put_u32(w, c->name, c->value), 0);
    if (c->edit == SET_F32) assert_int_equal(ch_gguf_put_f32(w, c->name, (float)c->value), 0);
}

static void put_info(ch_gguf_writer *w, const ch_gguf_tensor *t, const bind_case *c, bool hit) {
    uint64_t ne[4] = {t->ne[0], t->ne[1], t->ne[2], t->ne[3]};
    uint32_t n_dims = t->n_dims;
    if (hit && c->edit == SWAP) ne[0] = t->ne[1], ne[1] = t->ne[0];
    if (hit && c->edit == RESHAPE) memcpy(ne, c->ne, sizeof ne), n_dims = 3;
    assert_int_equal(ch_gguf_put_tensor(w, hit && c->edit == RENAME ? c->other : t->name, t->type->id, n_dims, ne), 0);
}

static void copy_tensors(ch_gguf_writer *w, const ch_gguf *g, const bind_case *c) {
    ch_error e = {0};
    bool found = c->edit < DROP || c->edit == ADD;
    for (size_t i = 0; i < ch_gguf_n_tensors(g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        bool hit = c->edit >= DROP && !strcmp(t->name, c->name);
        found |= hit;
        if (!hit || c->edit != DROP) put_info(w, t, c, hit);
    }
    assert_true(found);
    if (c->edit == ADD) assert_int_equal(ch_gguf_put_tensor(w, c->name, CH_TYPE_F32, 1, &(uint64_t){8}), 0);
    for (size_t i = 0; i < ch_gguf_n_tensors(g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        bool hit = c->edit >= DROP && !strcmp(t->name, c->name);
        if (hit && c->edit == DROP) continue;
        float *x = malloc(t->size);
        assert_non_null(x);
        memcpy(x, t->data, t->size);
        if (hit && c->edit == NEGATE)
            for (size_t k = 0; k < t->size / sizeof *x; k++) x[k] = -x[k];
        assert_int_equal(ch_gguf_write_data(w, x, t->size, &e), 0);
        free(x);
    }
    if (c->edit == ADD) assert_int_equal(ch_gguf_write_data(w, (float[8]){0}, 32, &e), 0);
}

static void run_case(const bind_case *c, const char *from, const char *to) {
    ch_error e = {0};
    ch_synth_shape s;
    ch_gguf *g;
    ch_gguf_writer *w;
    char preset[32];
    const char *plus = strchr(c->preset, '+');
    snprintf(preset, sizeof preset, "%.*s", (int)(plus ? plus - c->preset : 31), c->preset);
    if (ch_synth_preset(&s, c->arch, preset, &e)) fail_msg("%s", e.msg);
    s.n_nextn = plus != NULL;
    if (ch_synth_write(from, &s, CH_TYPE_F32, 5, NULL, NULL, &e) || ch_gguf_open(&g, from, &e) ||
        ch_gguf_writer_open(&w, to, &e))
        fail_msg("%s", e.msg);
    copy_keys(w, g, c);
    copy_tensors(w, g, c);
    assert_int_equal(ch_gguf_writer_commit(&w, &e), 0);
    ch_gguf_close(&g);
    ch_model *m = NULL;
    e = (ch_error){0};
    int rc = ch_model_open(&m, to, &(ch_model_params){.meta_only = true, .mtp = true}, &e);
    ch_model_close(&m);
    if (rc != c->rc || !strstr(e.msg, c->expect))
        fail_msg("%s %s, change %d of %s: %d \"%s\", expected %d \"%s\"", c->arch, c->preset, (int)c->edit, c->name, rc, e.msg, c->rc, c->expect);
}

static void test_cases(void **state) {
    (void)state;
    char from[] = "/tmp/test_bind_a_XXXXXX", to[] = "/tmp/test_bind_b_XXXXXX";
    int a = mkstemp(from), b = mkstemp(to);
    assert_true(a >= 0 && b >= 0);
    close(a), close(b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(&cases[i], from, to);
    unlink(from), unlink(to);
}

// State and cache of the released sizes, from their shapes alone (architectures.md 5.1; keys and values are f32 here: 4 bytes).
static void test_state_bytes(void **state) {
    (void)state;
    static const struct {
        const char *arch, *preset;
        size_t state, kv;
    } row[] = {
        {"mamba2", "130m", 24 * (3 * (1536 + 256) + 1536 * 128) * 4, 0},
        {"granitehybrid", "350m", 22622208, 2 * 4096},
        {"falcon-h1", "0.5b", 29085696, 2 * 18432},
        {"lfm2", "1.2b", 10 * 2 * 2048 * 4, 6 * 2 * 8 * 64 * 4},
    };
    char path[] = "/tmp/test_bind_c_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        ch_error e = {0};
        ch_synth_shape s;
        ch_model *m = NULL;
        if (ch_synth_preset(&s, row[i].arch, row[i].preset, &e)) fail_msg("%s", e.msg);
        s.n_vocab = 512; // neither depends on it
        if (ch_synth_write(path, &s, CH_TYPE_Q4_0, 1, NULL, NULL, &e) || ch_model_open(&m, path, &(ch_model_params){.meta_only = true}, &e))
            fail_msg("%s", e.msg);
        assert_int_equal(ch_model_get_info(m)->state_bytes, row[i].state);
        assert_int_equal(ch_model_get_info(m)->kv_bytes_per_token, row[i].kv);
        ch_model_close(&m);
    }
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_state_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
