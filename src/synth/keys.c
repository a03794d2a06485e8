// Keys of an architecture, and the ranges of a shape.
#include <stdio.h>
#include <string.h>

#include "synth/part.h"

bool ch_synth_is_arch(const ch_synth_shape *s, const char *arch) { return strcmp(s->arch, arch) == 0; }
char ch_synth_layer_letter(const ch_synth_shape *s, int layer) { return s->pattern[(size_t)layer % strlen(s->pattern)]; }

static const char *full(const ch_synth_keys *k, const char *name, char key[96]) {
    snprintf(key, 96, "%s.%s", k->s->arch, name);
    return key;
}

void ch_synth_key_u32(ch_synth_keys *k, const char *name, int32_t v) {
    char key[96];
    if (!k->rc) k->rc = ch_gguf_put_u32(k->w, full(k, name, key), (uint32_t)v);
}

void ch_synth_key_f32(ch_synth_keys *k, const char *name, float v) {
    char key[96];
    if (!k->rc && v != 0) k->rc = ch_gguf_put_f32(k->w, full(k, name, key), v);
}

void ch_synth_key_bool(ch_synth_keys *k, const char *name, bool v) {
    char key[96];
    if (!k->rc) k->rc = ch_gguf_put_bool(k->w, full(k, name, key), v);
}

void ch_synth_key_per_layer(ch_synth_keys *k, const char *name, const char *letters, int32_t v) {
    char key[96];
    int32_t value[512]; // most layers of a shape
    for (int i = 0; i < k->s->n_layer; i++) value[i] = strchr(letters, ch_synth_layer_letter(k->s, i)) ? v : 0;
    if (!k->rc) k->rc = ch_gguf_put_arr(k->w, full(k, name, key), CH_GGUF_I32, value, (uint64_t)k->s->n_layer);
}

int ch_synth_check_limits(const ch_synth_limit *row, size_t n, ch_error *e) {
    for (size_t i = 0; i < n; i++)
        if (row[i].value < row[i].min || row[i].value > row[i].max)
            return ch_error_set(e, CH_ERANGE, "%s: expected %d to %d, found %d", row[i].name, row[i].min, row[i].max, row[i].value);
    return CH_OK;
}
