// Writes a synthetic model: keys, tensor list, then random data in pieces.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "synth/part.h"

#define STAGE_BYTES ((size_t)1 << 20)

typedef struct job {
    ch_gguf_writer *w;
    const ch_synth_shape *s;
    ch_synth_list list;
    ch_synth_tile tile;
    uint8_t *stage; // [STAGE_BYTES]
    uint64_t seed, done, total;
    ch_progress_fn progress;
    void *user;
    ch_error *e;
} job;

// ---- keys -------------------------------------------------------------------------------------------------------------
static int put_u32(job *j, const char *name, int32_t v) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", j->s->arch, name);
    return ch_gguf_put_u32(j->w, key, (uint32_t)v);
}

static int put_f32(job *j, const char *name, float v) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", j->s->arch, name);
    return ch_gguf_put_f32(j->w, key, v);
}

static int put_sections(job *j) {
    // Three interleaved position streams over the rotated pairs, as even as can be.
    int32_t pairs = j->s->n_rot / 2, sections[4] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    char key[96];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", j->s->arch);
    return ch_gguf_put_arr(j->w, key, CH_GGUF_I32, sections, 4);
}

static int put_keys(job *j, const ch_type_info *type) {
    const ch_synth_shape *s = j->s;
    char name[96];
    const char *about = "Random weights, for tests and measurements: what it writes means nothing";
    int n = snprintf(name, sizeof name, "synthetic %s %dx%d %s", s->arch, s->n_layer, s->n_embd, type->name);
    int rc = ch_gguf_put_str(j->w, "general.architecture", s->arch, strlen(s->arch));
    if (rc == 0) rc = ch_gguf_put_str(j->w, "general.name", name, (size_t)n);
    if (rc == 0) rc = ch_gguf_put_str(j->w, "general.description", about, strlen(about));
    if (rc == 0) rc = ch_gguf_put_u32(j->w, "general.quantization_version", 2);
    const struct {
        const char *name;
        int32_t value; // 0: not written
    } row[] = {
        {"context_length", s->n_ctx},
        {"embedding_length", s->n_embd},
        {"block_count", s->n_layer + s->n_nextn},
        {"nextn_predict_layers", s->n_nextn},
        {"feed_forward_length", s->n_expert && s->attn_interval ? 0 : s->n_ff},
        {"attention.head_count", s->n_head},
        {"attention.head_count_kv", s->n_head_kv},
        {"attention.key_length", s->d_head},
        {"attention.value_length", s->d_head},
        {"rope.dimension_count", s->n_rot},
        {"expert_count", s->n_expert},
        {"expert_used_count", s->n_expert ? s->n_expert_used : 0},
        {"expert_feed_forward_length", s->n_expert ? s->n_ff_exp : 0},
        {"expert_shared_feed_forward_length", s->n_expert ? s->n_ff_shexp : 0},
        {"ssm.conv_kernel", s->attn_interval ? s->ssm_conv : 0},
        {"ssm.state_size", s->attn_interval ? s->ssm_d_state : 0},
        {"ssm.group_count", s->attn_interval ? s->ssm_heads_k : 0},
        {"ssm.time_step_rank", s->attn_interval ? s->ssm_heads_v : 0},
        {"ssm.inner_size", s->attn_interval ? s->ssm_heads_v * s->ssm_d_state : 0},
        {"full_attention_interval", s->attn_interval},
        {"vocab_size", s->n_vocab},
    };
    const ch_synth_maker *maker = ch_synth_find_maker(s);
    if (rc == 0 && maker) {
        rc = maker->put_keys(j->w, s);
        if (rc != 0) return ch_error_set(j->e, rc, "metadata: %s", ch_error_name(rc));
        return ch_synth_put_vocab(j->w, s, j->e);
    }
    for (size_t i = 0; rc == 0 && i < sizeof row / sizeof *row; i++)
        if (row[i].value > 0) rc = put_u32(j, row[i].name, row[i].value);
    if (rc == 0) rc = put_f32(j, "attention.layer_norm_rms_epsilon", s->rms_eps);
    if (rc == 0) rc = put_f32(j, "rope.freq_base", s->rope_base);
    if (rc == 0 && s->attn_interval && strcmp(s->arch, "qwen3next") != 0) rc = put_sections(j);
    if (rc != 0) return ch_error_set(j->e, rc, "metadata: %s", ch_error_name(rc));
    return ch_synth_put_vocab(j->w, s, j->e);
}

// ---- data -------------------------------------------------------------------------------------------------------------
static int write_piece(job *j, const void *data, size_t n) {
    int rc = ch_gguf_write_data(j->w, data, n, j->e);
    j->done += n;
    if (rc == 0 && j->progress && !j->progress(j->user, "writing random weights", j->done, j->total))
        rc = ch_error_set(j->e, CH_ECANCELLED, "stopped");
    return rc;
}

static float draw_value(const ch_synth_tensor *t, ch_rng *r) {
    switch (t->kind) {
    case CH_SYNTH_NEAR: return t->scale * (1 + 0.1f * ch_rng_normal(r));
    case CH_SYNTH_DECAY: return -0.5f - 5.5f * (float)ch_rng_f64(r);
    case CH_SYNTH_DT_BIAS: return (float)log(expm1(0.005 * exp(ch_rng_f64(r) * log(20.0)))); // step log-uniform
    default: return t->scale * ch_rng_normal(r);
    }
}

// Vectors and the convolution: f32, value by value.
static int write_values(job *j, const ch_synth_tensor *t, size_t n, ch_rng *r) {
    float *x = (float *)(void *)j->stage;
    while (n > 0) {
        size_t k = n < STAGE_BYTES / sizeof *x ? n : STAGE_BYTES / sizeof *x;
        for (size_t i = 0; i < k; i++) x[i] = draw_value(t, r);
        int rc = write_piece(j, x, k * sizeof *x);
        if (rc != 0) return rc;
        n -= k;
    }
    return 0;
}

// Matrices: units drawn from a tile of random ones, each with a byte of its own, so that a large file costs little more than
// its bytes and yet hardly two rows are equal. A tensor no larger than the tile is the tile.
static int write_units(job *j, const ch_synth_tensor *t, size_t n_values, ch_rng *r) {
    const ch_type_info *info = ch_quant_type((uint32_t)t->type);
    size_t unit_values = info->n_block >= 32 ? info->n_block : 32;
    size_t n_units = (n_values + unit_values - 1) / unit_values;
    int rc = ch_synth_fill_tile(&j->tile, t->type, n_units, t->scale, r);
    if (rc != 0) return ch_error_set(j->e, rc, "tensor %s: %s", t->name, ch_error_name(rc));
    const ch_synth_tile *tile = &j->tile;
    size_t left = n_values / info->n_block * info->n_bytes; // the last unit may be cut
    bool whole = n_units <= tile->n_units;
    size_t at = 0, per_stage = STAGE_BYTES / tile->unit_bytes;
    while (left > 0) {
        size_t n = 0;
        for (size_t i = 0; i < per_stage && n < left; i++, n += tile->unit_bytes) {
            uint64_t u = whole ? 0 : ch_rng_u64(r);
            size_t pick = whole ? at++ : (size_t)((u >> 32) * tile->n_units >> 32);
            memcpy(j->stage + n, tile->bytes + pick * tile->unit_bytes, tile->unit_bytes);
            // The middle of a block is codes in every type, the middle of 32 plain values the low byte of one. Ternary codes
            // have a value that does not occur.
            if (t->type != CH_TYPE_TQ2_0) j->stage[n + tile->unit_bytes / 2] ^= (uint8_t)u;
        }
        if (n > left) n = left;
        rc = write_piece(j, j->stage, n);
        if (rc != 0) return rc;
        left -= n;
    }
    return 0;
}

static int write_tensor(job *j, const ch_synth_tensor *t) {
    size_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) n *= (size_t)t->ne[i]; // checked when the tensor was put
    ch_rng r; // its own, so that a change elsewhere in the file leaves its values
    ch_rng_seed(&r, ch_hash64(t->name, strlen(t->name), j->seed));
    bool matrix = t->kind == CH_SYNTH_NORMAL && t->ne[0] >= 32 && t->n_dims > 1;
    return matrix || t->type != CH_TYPE_F32 ? write_units(j, t, n, &r) : write_values(j, t, n, &r);
}

static int put_tensors(job *j) {
    for (size_t i = 0; i < j->list.n; i++) {
        const ch_synth_tensor *t = &j->list.tensor[i];
        int rc = ch_gguf_put_tensor(j->w, t->name, t->type, t->n_dims, t->ne);
        if (rc != 0) return ch_error_set(j->e, rc, "tensor %s: %s", t->name, ch_error_name(rc));
        const ch_type_info *info = ch_quant_type((uint32_t)t->type);
        uint64_t bytes = t->ne[0] / info->n_block * info->n_bytes;
        for (uint32_t k = 1; k < t->n_dims; k++) bytes *= t->ne[k];
        j->total += bytes;
    }
    return 0;
}

int ch_synth_write(const char *path, const ch_synth_shape *s, ch_type type, uint64_t seed, ch_progress_fn progress, void *user,
                   ch_error *e) {
    int rc = ch_synth_check(s, e);
    if (rc != 0) return rc;
    const ch_type_info *info = ch_quant_type((uint32_t)type);
    if (!info || !ch_synth_can_fill(type))
        return ch_error_set(e, CH_EUNSUPPORTED, "type %s: no random weights of it can be made", info ? info->name : "?");
    job j = {.s = s, .seed = seed, .progress = progress, .user = user, .e = e, .stage = ch_alloc(STAGE_BYTES)};
    ch_synth_list_tensors(&j.list, s, type);
    if (!j.stage || j.list.failed) rc = ch_error_set(e, CH_ENOMEM, "no memory");
    if (rc == 0) rc = ch_gguf_writer_open(&j.w, path, e);
    if (rc == 0) rc = put_keys(&j, info);
    if (rc == 0) rc = put_tensors(&j);
    for (size_t i = 0; rc == 0 && i < j.list.n; i++) rc = write_tensor(&j, &j.list.tensor[i]);
    if (rc == 0) rc = ch_gguf_writer_commit(&j.w, e);
    ch_gguf_writer_abort(&j.w);
    ch_free(j.tile.bytes);
    ch_free(j.stage);
    ch_free(j.list.tensor);
    return rc;
}
