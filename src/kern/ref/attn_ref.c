// Reference attention and rotation: the formulas as written; attention sums in double.
#include <float.h>
#include <math.h>

#include "kern/tier.h"

// d_v doubles, one key and one value in f32.
static size_t attn_scratch(size_t n_tok, size_t n_q, size_t d_k, size_t d_v) {
    (void)n_tok, (void)n_q;
    return 2 * d_v + d_k + d_v;
}

static void row_at(const ch_attn_args *a, const ch_type_info *t, size_t off, size_t ld, size_t pos, size_t d, float *row) {
    t->decode(a->page[pos / CH_KV_PAGE] + off + pos % CH_KV_PAGE * ld, row, d);
}

// One query row: online softmax, position by position.
static void attn_row(const ch_attn_args *a, const float *q, size_t end, float *part) {
    double max = -INFINITY, sum = 0, *acc = (double *)a->scratch;
    float *k = (float *)(acc + a->d_v), *v = k + a->d_k;
    for (size_t i = 0; i < a->d_v; i++) acc[i] = 0;
    for (size_t p = a->begin; p < end; p++) {
        row_at(a, a->k_type, a->k_off, a->k_ld, p, a->d_k, k);
        row_at(a, a->v_type, a->v_off, a->v_ld, p, a->d_v, v);
        double s = 0;
        for (size_t i = 0; i < a->d_k; i++) s += (double)q[i] * k[i];
        s *= a->scale;
        if (s > max) {
            const double shrink = exp(max - s);
            for (size_t i = 0; i < a->d_v; i++) acc[i] *= shrink;
            sum *= shrink;
            max = s;
        }
        const double e = exp(s - max);
        sum += e;
        for (size_t i = 0; i < a->d_v; i++) acc[i] += e * v[i];
    }
    // Weights are relative to the maximum as the part holds it, rounded to f32.
    const float top = end > a->begin ? (float)max : -FLT_MAX;
    const double shift = end > a->begin ? exp(max - top) : 0;
    for (size_t i = 0; i < a->d_v; i++) part[i] = (float)(acc[i] * shift);
    part[ch_attn_part_max(a->d_v)] = top;
    part[ch_attn_part_max(a->d_v) + 1] = (float)(sum * shift);
}

static void attn(const ch_attn_args *a) {
    for (size_t t = 0; t < a->n_tok; t++)
        for (size_t h = 0; h < a->n_q; h++) {
            const size_t seen = a->pos0 + t + 1;
            attn_row(a, a->q + t * a->ld_q + h * a->d_k, seen < a->end ? seen : a->end,
                     a->part + (t * a->n_q + h) * ch_attn_part_floats(a->d_v));
        }
}

static void signs(float *x, size_t block) {
    for (size_t i = 0; i < block; i++)
        if (ch_kern_rotate_signs[i / 32] >> i % 32 & 1) x[i] = -x[i];
}

// Butterflies of distance 1, 2, 4 ...: each value of a stage is one sum or difference, hence the equal bits everywhere.
static void rotate(float *x, size_t n, size_t block, bool back) {
    const float scale = ch_kern_rotate_scale(block);
    for (; n; n -= block, x += block) {
        if (!back) signs(x, block);
        for (size_t h = 1; h < block; h *= 2)
            for (size_t i = 0; i < block; i++) {
                if (i & h) continue;
                const float u = x[i], v = x[i + h];
                x[i] = u + v, x[i + h] = u - v;
            }
        for (size_t i = 0; i < block; i++) x[i] *= scale;
        if (back) signs(x, block);
    }
}

void ch_kern_set_attn_ref(ch_kern *k) {
    k->attn = attn;
    k->attn_scratch = attn_scratch;
    k->rotate = rotate;
}
