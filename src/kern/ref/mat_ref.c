// Reference matrix product: the oracle of every other tier. Weights are decoded exactly, one row at a time, and used for
// all tokens; activations stay f32; sums run in double from the first input to the last.
#include "kern/tier.h"

static size_t round64(size_t n) {
    return (n + 63) & ~(size_t)63;
}

// Nothing is packed: rows are read as the file has them.
static size_t packed_bytes(const ch_type_info *t, size_t n_in, size_t n_out) {
    (void)t, (void)n_in, (void)n_out;
    return 0;
}

static void pack(const ch_mat *m, size_t r0, size_t r1) {
    (void)m, (void)r0, (void)r1;
}

static int act_kind(const ch_type_info *t, size_t n_in) {
    (void)t, (void)n_in;
    return CH_ACT_F32;
}

static size_t act_bytes(int kind, size_t n_in) {
    (void)kind;
    return round64(n_in * sizeof(float));
}

static void act_pack(int kind, const float *x, size_t n_in, void *act) {
    (void)kind;
    float *a = act;
    for (size_t i = 0; i < n_in; i++) a[i] = x[i];
}

static size_t work_bytes(const ch_type_info *t, size_t n_in) {
    (void)t;
    return round64(n_in * sizeof(float));
}

static void matmul(const ch_mat *m, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_tok, float *y,
                   size_t ld_y, void *work) {
    const size_t n = m->n_in, row = n / m->type->n_block * m->type->n_bytes;
    float *w = work; // [n_in]
    for (size_t r = r0; r < r1; r++) {
        m->type->decode(m->raw + r * row, w, n);
        for (size_t t = 0; t < n_tok; t++) {
            const float *x = (const float *)((const uint8_t *)act + t * ld_act);
            double s = 0;
            for (size_t i = 0; i < n; i++) s += (double)w[i] * x[i];
            y[t * ld_y + r] = (float)s;
        }
    }
}

void ch_kern_set_mat_ref(ch_kern *k) {
    k->mat_packed_bytes = packed_bytes;
    k->mat_pack = pack;
    k->act_kind = act_kind;
    k->act_bytes = act_bytes;
    k->act_pack = act_pack;
    k->matmul = matmul;
    k->mat_work_bytes = work_bytes;
}
