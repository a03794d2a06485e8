// Private to synth: the pieces of a synthetic model.
#ifndef CH_SYNTH_PART_H
#define CH_SYNTH_PART_H

#include "gguf/gguf.h"
#include "synth/synth.h"

// ---- tensors.c: which tensors there are
typedef enum ch_synth_kind {
    CH_SYNTH_NORMAL,  // mean 0, deviation `scale`
    CH_SYNTH_NEAR,    // around `scale` with a tenth of it as deviation (norm weights)
    CH_SYNTH_DECAY,   // -0.5 .. -6 (ssm_a)
    CH_SYNTH_DT_BIAS  // softplus of it is 0.005 .. 0.1
} ch_synth_kind;
typedef struct ch_synth_tensor {
    char name[64];
    ch_type type;
    uint32_t n_dims;
    uint64_t ne[4];
    ch_synth_kind kind;
    float scale;
} ch_synth_tensor;
typedef struct ch_synth_list {
    ch_synth_tensor *tensor;
    size_t n, cap;
    bool failed; // no memory
} ch_synth_list;
// What adds tensors of one layer.
typedef struct ch_synth_builder {
    ch_synth_list *l;
    const ch_synth_shape *s;
    ch_type type; // of matrices
    int layer;    // -1: global
} ch_synth_builder;
#define CH_SYNTH_ROUTER_GAIN 2.0f // spreads the experts' scores, so that near-ties are rare
ch_synth_tensor *ch_synth_add(ch_synth_builder *b, const char *name); // NULL: no memory (the list knows)
// Vector of n values, always f32.
void ch_synth_add_vector(ch_synth_builder *b, const char *name, int32_t n, ch_synth_kind kind, float scale);
// Matrix of n_out rows of n_in weights, `n` of them when n > 0; deviation gain / sqrt(n_in).
void ch_synth_add_matrix_as(ch_synth_builder *b, const char *name, ch_type type, int32_t n_in, int32_t n_out, int32_t n, float gain);
void ch_synth_add_matrix(ch_synth_builder *b, const char *name, int32_t n_in, int32_t n_out);
void ch_synth_add_norm(ch_synth_builder *b, const char *name, int32_t n);
void ch_synth_add_plane(ch_synth_builder *b, const char *name, int32_t n0, int32_t n1, ch_synth_kind kind, float scale); // f32, value by value
void ch_synth_add_swiglu(ch_synth_builder *b, const char *suffix, int32_t n_ff, bool gate); // ffn_gate<suffix> (if gate), ffn_up..., ffn_down...
void ch_synth_list_tensors(ch_synth_list *l, const ch_synth_shape *s, ch_type type);
// What the usual quantisers write when rows of n values do not fill blocks of `type`.
ch_type ch_synth_fallback_type(ch_type type, uint64_t n);

// ---- shape.c: architectures and presets
typedef struct ch_synth_preset_row {
    const char *name;
    ch_synth_shape s;
} ch_synth_preset_row;
// What a group of families does its own way; its shapes have a pattern.
typedef struct ch_synth_maker {
    void (*add_layer)(ch_synth_builder *b);
    int (*put_keys)(ch_gguf_writer *w, const ch_synth_shape *s); // all "<arch>." keys
    int (*check)(const ch_synth_shape *s, ch_error *e);
} ch_synth_maker;
typedef struct ch_synth_arch_row {
    const char *name;
    const ch_synth_preset_row *presets; // ends with name NULL
    const ch_synth_maker *maker;        // NULL: the common way
} ch_synth_arch_row;
const ch_synth_maker *ch_synth_find_maker(const ch_synth_shape *s);
bool ch_synth_is_arch(const ch_synth_shape *s, const char *arch);
char ch_synth_layer_letter(const ch_synth_shape *s, int layer); // of the pattern

// ---- ssm.c: families with state-space mixers; families.c: transformers, LFM2, Kimi
#define CH_SYNTH_N_SSM 8
#define CH_SYNTH_N_FAMILIES 9
extern const ch_synth_arch_row ch_synth_ssm_archs[CH_SYNTH_N_SSM], ch_synth_family_archs[CH_SYNTH_N_FAMILIES];
extern const ch_synth_maker ch_synth_ssm_maker, ch_synth_family_maker;

// ---- keys.c: "<arch>.<name>" keys
typedef struct ch_synth_keys {
    ch_gguf_writer *w;
    const ch_synth_shape *s;
    int rc; // first failure
} ch_synth_keys;
void ch_synth_key_u32(ch_synth_keys *k, const char *name, int32_t v);
void ch_synth_key_f32(ch_synth_keys *k, const char *name, float v); // 0: not written
void ch_synth_key_bool(ch_synth_keys *k, const char *name, bool v);
// An array, one value per layer: v where the layer's letter is one of `letters`, else 0.
void ch_synth_key_per_layer(ch_synth_keys *k, const char *name, const char *letters, int32_t v);
// A value that must lie in [min, max]. Names the first of n that does not.
typedef struct ch_synth_limit {
    const char *name;
    int32_t value, min, max;
} ch_synth_limit;
int ch_synth_check_limits(const ch_synth_limit *row, size_t n, ch_error *e);

// ---- blocks.c: random blocks of one type
#define CH_SYNTH_TILE_UNITS ((size_t)8192)
typedef struct ch_synth_tile {
    const ch_type_info *type;
    uint8_t *bytes;              // [n_units][unit_bytes]
    size_t n_units, unit_values; // a unit is a block, or 32 values of the unblocked types
    size_t unit_bytes;
} ch_synth_tile;
int ch_synth_fill_tile(ch_synth_tile *t, ch_type type, size_t n_units, float deviation, ch_rng *r); // bytes: reused if set
bool ch_synth_can_fill(ch_type type);
float ch_synth_quick_normal(ch_rng *r); // mean 0, deviation 1, within +-3.5: sum of four uniform values

// ---- vocab.c: tokenizer and template
int ch_synth_put_vocab(ch_gguf_writer *w, const ch_synth_shape *s, ch_error *e);
#define CH_SYNTH_MIN_VOCAB 265 // bytes and special tokens

#endif
