// Checkpoints: all that a run needs to go on bit for bit. Little-endian:
//   char magic[8] "CHTRAIN1"; u64 hash of the tensors' names and sizes (and of what is frozen beside adapters); u64 step, tokens; u64 data state [4]; u64 n_param (trained);
//   u64 number of arrays (3, or 4 with the running average; 1 with MeZO); the arrays, f32 [n_param]; u64 XXH3 of all before
#include "train/trainer.h"

static const char magic[8] = {'C', 'H', 'T', 'R', 'A', 'I', 'N', '1'};

typedef struct header {
    char magic[8];
    uint64_t hash, step, n_tokens;
    ch_train_data_state data;
    uint64_t n_param, n_array;
} header;

static uint64_t hash_of(const ch_trainer *t) {
    uint64_t h = 0;
    for (size_t i = 0; i < t->model.n_tensor; i++)
        h = ch_hash64(t->model.tensor[i].name, strlen(t->model.tensor[i].name), h ^ t->model.tensor[i].n);
    return t->model.lora.n ? ch_hash64(&t->model.lora.scale, sizeof t->model.lora.scale, h ^ t->base_hash) : h;
}

static size_t arrays_of(const ch_trainer *t, float *a[4]) {
    a[0] = t->w + t->model.n_frozen, a[1] = t->moment, a[2] = t->square, a[3] = t->mean;
    return t->cfg->mezo ? 1 : t->mean ? 4 : 3;
}

int ch_trainer_save(const ch_trainer *t, const char *path, ch_error *e) {
    header h = {.hash = hash_of(t), .step = t->step, .n_tokens = t->n_tokens, .n_param = t->n_trained};
    float *a[4];
    memcpy(h.magic, magic, sizeof magic);
    h.n_array = arrays_of(t, a);
    if (t->feed.get_state) t->feed.get_state(t->feed.user, &h.data);
    ch_outfile *o;
    int rc = ch_outfile_open(&o, path, e);
    if (rc) return rc;
    uint64_t sum = ch_hash64(&h, sizeof h, 0);
    rc = ch_outfile_write(o, &h, sizeof h, e);
    for (size_t i = 0; rc == 0 && i < h.n_array; i++) {
        sum = ch_hash64(a[i], t->n_trained * sizeof(float), sum);
        rc = ch_outfile_write(o, a[i], t->n_trained * sizeof(float), e);
    }
    if (rc == 0) rc = ch_outfile_write(o, &sum, sizeof sum, e);
    if (rc == 0) return ch_outfile_commit(&o, e);
    ch_outfile_abort(&o);
    return rc;
}

int ch_trainer_restore(ch_trainer *t, const uint8_t *data, size_t size, const char *name, ch_error *e) {
    header h;
    float *a[4];
    const size_t n_array = arrays_of(t, a), bytes = t->n_trained * sizeof(float);
    if (size < sizeof h) return ch_error_set(e, CH_EFORMAT, "%s: no checkpoint: %zu bytes", name, size);
    memcpy(&h, data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0) return ch_error_set(e, CH_EFORMAT, "%s: no checkpoint", name);
    if (h.hash != hash_of(t) || h.n_param != t->n_trained || h.n_array != n_array)
        return ch_error_set(e, CH_ESTATE, "%s: made with another model or other adapters, by another method, or with and without a running average", name);
    if (size != sizeof h + n_array * bytes + sizeof(uint64_t))
        return ch_error_set(e, CH_EFORMAT, "%s: %zu bytes, expected %zu", name, size, sizeof h + n_array * bytes + sizeof(uint64_t));
    uint64_t sum = ch_hash64(&h, sizeof h, 0), stored;
    for (size_t i = 0; i < n_array; i++) sum = ch_hash64(data + sizeof h + i * bytes, bytes, sum);
    memcpy(&stored, data + size - sizeof stored, sizeof stored);
    if (sum != stored) return ch_error_set(e, CH_EFORMAT, "%s: damaged (checksum)", name);
    if (t->feed.set_state) {
        int rc = t->feed.set_state(t->feed.user, &h.data, e);
        if (rc) return rc;
    }
    for (size_t i = 0; i < n_array; i++) memcpy(a[i], data + sizeof h + i * bytes, bytes);
    t->step = h.step, t->n_tokens = h.n_tokens;
    return 0;
}

int ch_trainer_load(ch_trainer *t, const char *path, ch_error *e) {
    ch_map m;
    int rc = ch_map_open(&m, path, e);
    if (rc) return rc;
    rc = ch_trainer_restore(t, m.data, m.size, path, e);
    ch_map_close(&m);
    return rc;
}
