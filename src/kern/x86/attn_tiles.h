// kern/x86, private: attention over a range of positions, for the vectors of vec_avx2.h or vec_avx512.h (included before this).
//
// A row is one query head of one token. Blocks of up to BLOCK rows go through the pages together; of a page, STRIP keys at a
// time are decoded to f32, where they stay in the first-level cache for all rows, then the weights of the page are made, then
// STRIP values at a time likewise. Products are tiles of 4, 2 or 1 rows: as many sums at once as a vector has lanes.
// A row's arithmetic depends on its query and on positions only: one accumulator of LANES lanes along d_k, folded in fixed
// order; pages in order; values added one position after the other.
#ifndef CH_KERN_X86_ATTN_TILES_H
#define CH_KERN_X86_ATTN_TILES_H

#include <float.h>
#include <math.h>

#include "kern/x86/x86.h"

enum { BLOCK = 64, STRIP = 16, PAGE = CH_KV_PAGE, AHEAD = 2 * STRIP };

CH_FORCE_INLINE size_t whole_lanes(size_t n) { return (n + 15) & ~(size_t)15; } // of any tier

// Queries of a block, scaled; a strip of keys or values; scores of a page; factors for the sums so far.
static size_t tiles_scratch(size_t n_tok, size_t n_q, size_t d_k, size_t d_v) {
    const size_t n = n_tok * n_q < BLOCK ? n_tok * n_q : BLOCK, dk = whole_lanes(d_k), dv = whole_lanes(d_v);
    return n * dk + STRIP * (dk > dv ? dk : dv) + n * PAGE + BLOCK;
}

// ---- strips of keys and values as f32 rows, padded with zeros to whole lanes

typedef struct strip {
    const float *x;
    size_t ld; // floats
} strip;

// One quantised row; d is a multiple of the block, so of 32.
CH_FORCE_INLINE void decode_row(const ch_type_info *t, vec_levels levels, const uint8_t *p, size_t d, float *y) {
    switch ((int)t->id) {
    case CH_TYPE_Q8_0:
        for (size_t i = 0; i < d; i += 32, p += 34) {
            const vec scale = vec_set1(f16_at(p));
#pragma GCC unroll 4
            for (size_t k = 0; k < 32; k += LANES) vec_store(y + i + k, vec_mul(vec_i8(p + 2 + k), scale));
        }
        return;
    case CH_TYPE_Q4_0:
        for (size_t i = 0; i < d; i += 32, p += 18) {
            const vec scale = vec_set1(f16_at(p));
#pragma GCC unroll 4
            for (size_t k = 0; k < 32; k += LANES)
                vec_store(y + i + k, vec_mul(vec_nibbles(p + 2 + k % 16, k >= 16), scale));
        }
        return;
    case CH_TYPE_TQ4:
        for (size_t i = 0; i < d; i += t->n_block, p += t->n_bytes) {
            const vec factor = vec_set1(f16_at(p));
            for (size_t k = 0; k < t->n_block; k += LANES)
                vec_store(y + i + k, vec_mul(factor, vec_tq4(p + 2 + k / 2, levels)));
        }
        return;
    case CH_TYPE_TQ3:
        for (size_t i = 0; i < d; i += t->n_block, p += t->n_bytes) {
            const vec factor = vec_set1(f16_at(p));
            for (size_t k = 0; k < t->n_block; k += LANES)
                vec_store(y + i + k, vec_mul(factor, vec_tq3(p + 2 + k * 3 / 8, levels)));
        }
        return;
    case CH_TYPE_F16:
        for (size_t i = 0; i < d; i += LANES) vec_store(y + i, vec_f16(p + 2 * i));
        return;
    case CH_TYPE_BF16:
        for (size_t i = 0; i < d; i += LANES) vec_store(y + i, vec_bf16(p + 2 * i));
        return;
    default:
        t->decode(p, y, d);
    }
}

// Asks for the n rows that come AHEAD of row p of a page: of the same rows, or of those that are read after them.
CH_FORCE_INLINE void fetch_ahead(const uint8_t *rows, size_t ld, const uint8_t *after, size_t ld_after, size_t p, size_t n) {
    const bool same = p + AHEAD < PAGE;
    const uint8_t *from = same ? rows + (p + AHEAD) * ld : after + (p + AHEAD - PAGE) * ld_after;
    const size_t bytes = n * (same ? ld : ld_after);
    if (!same && !after) return;
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch((const char *)from + i, _MM_HINT_T0);
}

// Rows [0, n) of d values, ld bytes apart: where they lie, or decoded to room.
CH_FORCE_INLINE strip strip_of(const ch_type_info *t, const float *level, const uint8_t *p, size_t ld, size_t n, size_t d,
                               float *room) {
    if (t->id == CH_TYPE_F32 && d == whole_lanes(d)) return (strip){(const float *)p, ld / sizeof(float)};
    const size_t n_pad = whole_lanes(d);
    const vec_levels levels = vec_levels_of(level, t->id == CH_TYPE_TQ4 ? 4 : 3);
    for (size_t i = 0; i < n; i++, p += ld, room += n_pad) {
        if (d == n_pad) {
            decode_row(t, levels, p, d, room);
            continue;
        }
        t->decode(p, room, d);
        memset(room + d, 0, (n_pad - d) * sizeof *room);
    }
    return (strip){room - n * n_pad, n_pad};
}

// ---- products

// Scores of the n <= STRIP keys of a strip for n_row queries, ld_q apart, to s (rows PAGE apart). Where the keys end inside a
// tile, the last one stands in for those that are missing.
CH_FORCE_INLINE void score_tile(const float *q, size_t ld_q, int n_row, strip k, size_t n, size_t d, float *s) {
    const int n_key = LANES / n_row;
    for (size_t p = 0; p < n; p += (size_t)n_key) {
        const float *key[LANES];
        vec acc[LANES];
#pragma GCC unroll 16
        for (int j = 0; j < n_key; j++) key[j] = k.x + (p + (size_t)j < n ? p + (size_t)j : n - 1) * k.ld;
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) acc[i] = vec_zero();
        for (size_t i = 0; i < d; i += LANES) {
            vec x[LANES];
#pragma GCC unroll 16
            for (int r = 0; r < n_row; r++) x[r] = vec_load(q + (size_t)r * ld_q + i);
#pragma GCC unroll 16
            for (int j = 0; j < n_key; j++) {
                const vec y = vec_load(key[j] + i);
#pragma GCC unroll 16
                for (int r = 0; r < n_row; r++) acc[r * n_key + j] = vec_fma(y, x[r], acc[r * n_key + j]);
            }
        }
        float sum[LANES];
        vec_store(sum, vec_sums(acc));
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++) memcpy(s + (size_t)r * PAGE + p, sum + r * n_key, (size_t)n_key * sizeof *s);
    }
}

// Weights of one row's page in place (0 past n_vis, up to PAGE), and the row's largest score and sum of weights. Returns what
// the sums so far must be multiplied by.
CH_FORCE_INLINE float weights(float *s, size_t n_vis, float *max, float *sum) {
    const vec low = vec_set1(-FLT_MAX);
    vec top = low, total = vec_zero();
    if (!n_vis) {
        memset(s, 0, PAGE * sizeof *s);
        return 1.0f;
    }
    for (size_t i = 0; i < n_vis; i += LANES)
        top = vec_max(top, vec_first(n_vis - i < LANES ? n_vis - i : LANES, vec_load(s + i), low));
    const float page_max = vec_largest(top), now = page_max > *max ? page_max : *max;
    for (size_t i = 0; i < PAGE; i += LANES) {
        vec e = vec_zero();
        if (i < n_vis) e = vec_first(n_vis - i < LANES ? n_vis - i : LANES, vec_exp(vec_sub(vec_load(s + i), vec_set1(now))), e);
        vec_store(s + i, e);
        total = vec_add(total, e);
    }
    const float shrink = *max == now ? 1.0f : expf(*max - now);
    *sum = *sum * shrink + vec_sum(total);
    *max = now;
    return shrink;
}

// acc[r] = acc[r] * shrink[r] + sum over the strip's n positions of weight * value, for columns from i on in groups of n_vec
// vectors. Returns the first column that is left. d: whole lanes.
CH_FORCE_INLINE size_t value_columns(const float *s, const float *shrink, int n_row, int n_vec, strip v, size_t n, size_t i,
                                     size_t d, float *acc, size_t ld_acc) {
    for (; i + LANES * (size_t)n_vec <= d; i += LANES * (size_t)n_vec) {
        vec x[LANES];
#pragma GCC unroll 16
        for (int r = 0; r < n_row; r++)
#pragma GCC unroll 16
            for (int c = 0; c < n_vec; c++)
                x[r * n_vec + c] = vec_mul(vec_set1(shrink[r]), vec_load(acc + (size_t)r * ld_acc + i + (size_t)c * LANES));
        for (size_t p = 0; p < n; p++) {
            vec w[LANES];
#pragma GCC unroll 16
            for (int r = 0; r < n_row; r++) w[r] = vec_set1(s[(size_t)r * PAGE + p]);
#pragma GCC unroll 16
            for (int c = 0; c < n_vec; c++) {
                const vec y = vec_load(v.x + p * v.ld + i + (size_t)c * LANES);
#pragma GCC unroll 16
                for (int r = 0; r < n_row; r++) x[r * n_vec + c] = vec_fma(w[r], y, x[r * n_vec + c]);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < n_row; r++)
#pragma GCC unroll 16
            for (int c = 0; c < n_vec; c++) vec_store(acc + (size_t)r * ld_acc + i + (size_t)c * LANES, x[r * n_vec + c]);
    }
    return i;
}

CH_FORCE_INLINE void value_tile(const float *s, const float *shrink, int n_row, strip v, size_t n, size_t d, float *acc,
                                size_t ld_acc) {
    size_t i = value_columns(s, shrink, n_row, LANES / n_row, v, n, 0, d, acc, ld_acc);
    if (n_row < LANES / 4) i = value_columns(s, shrink, n_row, 4, v, n, i, d, acc, ld_acc);
    value_columns(s, shrink, n_row, 1, v, n, i, d, acc, ld_acc);
}

// ---- pages

typedef struct row_block {
    const ch_attn_args *a;
    size_t row0, n_row, end; // rows [row0, row0 + n_row) of the call; positions before end
    const float *k_level, *v_level;
    float *q, *room, *score, *shrink, *part;
    size_t ld_q, d_v, ld_part; // whole lanes
} row_block;

static void page_scores(const row_block *b, const uint8_t *page, size_t n_pos) {
    const ch_attn_args *a = b->a;
    for (size_t p = 0; p < n_pos; p += STRIP) {
        const size_t n = n_pos - p < STRIP ? n_pos - p : STRIP;
        fetch_ahead(page + a->k_off, a->k_ld, page + a->v_off, a->v_ld, p, n);
        const strip k = strip_of(a->k_type, b->k_level, page + a->k_off + p * a->k_ld, a->k_ld, n, a->d_k, b->room);
        size_t r = 0;
        for (; r + 4 <= b->n_row; r += 4) score_tile(b->q + r * b->ld_q, b->ld_q, 4, k, n, b->ld_q, b->score + r * PAGE + p);
        if (r + 2 <= b->n_row) {
            score_tile(b->q + r * b->ld_q, b->ld_q, 2, k, n, b->ld_q, b->score + r * PAGE + p);
            r += 2;
        }
        if (r < b->n_row) score_tile(b->q + r * b->ld_q, b->ld_q, 1, k, n, b->ld_q, b->score + r * PAGE + p);
    }
}

// next: the page that comes after this one, or NULL.
static void page_values(const row_block *b, const uint8_t *page, const uint8_t *next, size_t n_pos) {
    const ch_attn_args *a = b->a;
    for (size_t p = 0; p < n_pos; p += STRIP) {
        const size_t n = n_pos - p < STRIP ? n_pos - p : STRIP;
        fetch_ahead(page + a->v_off, a->v_ld, next ? next + a->k_off : NULL, a->k_ld, p, n);
        const strip v = strip_of(a->v_type, b->v_level, page + a->v_off + p * a->v_ld, a->v_ld, n, a->d_v, b->room);
        size_t r = 0;
        for (; r + 4 <= b->n_row; r += 4)
            value_tile(b->score + r * PAGE + p, b->shrink + r, 4, v, n, b->d_v, b->part + r * b->ld_part, b->ld_part);
        if (r + 2 <= b->n_row) {
            value_tile(b->score + r * PAGE + p, b->shrink + r, 2, v, n, b->d_v, b->part + r * b->ld_part, b->ld_part);
            r += 2;
        }
        if (r < b->n_row)
            value_tile(b->score + r * PAGE + p, b->shrink + r, 1, v, n, b->d_v, b->part + r * b->ld_part, b->ld_part);
        for (r = 0; r < b->n_row; r++) b->shrink[r] = 1.0f;
    }
}

static void run_block(const row_block *b) {
    const ch_attn_args *a = b->a;
    for (size_t r = 0; r < b->n_row; r++) {
        const size_t row = b->row0 + r;
        const float *q = a->q + row / a->n_q * a->ld_q + row % a->n_q * a->d_k;
        for (size_t i = 0; i < b->ld_q; i++) b->q[r * b->ld_q + i] = i < a->d_k ? q[i] * a->scale : 0.0f;
        memset(b->part + r * b->ld_part, 0, b->ld_part * sizeof *b->part);
        b->part[r * b->ld_part + b->d_v] = -FLT_MAX;
    }
    for (size_t begin = a->begin; begin < b->end; begin += PAGE) {
        const size_t n_pos = b->end - begin < PAGE ? b->end - begin : PAGE;
        page_scores(b, a->page[begin / PAGE], n_pos);
        for (size_t r = 0; r < b->n_row; r++) {
            const size_t seen = a->pos0 + (b->row0 + r) / a->n_q + 1;
            const size_t n_vis = seen <= begin ? 0 : seen - begin < n_pos ? seen - begin : n_pos;
            float *x = b->part + r * b->ld_part + b->d_v;
            b->shrink[r] = weights(b->score + r * PAGE, n_vis, &x[0], &x[1]);
        }
        page_values(b, a->page[begin / PAGE], begin + PAGE < b->end ? a->page[begin / PAGE + 1] : NULL, n_pos);
    }
}

static void attn_tiles(const ch_attn_args *a) {
    float k_level[16] = {0}, v_level[16] = {0};
    const bool k_turbo = a->k_type->id == CH_TYPE_TQ4 || a->k_type->id == CH_TYPE_TQ3;
    const bool v_turbo = a->v_type->id == CH_TYPE_TQ4 || a->v_type->id == CH_TYPE_TQ3;
    if (k_turbo) ch_quant_turbo_levels(a->k_type->id, a->k_type->n_block, k_level);
    if (v_turbo) ch_quant_turbo_levels(a->v_type->id, a->v_type->n_block, v_level);
    const size_t n_row = a->n_tok * a->n_q, dk = whole_lanes(a->d_k), dv = ch_attn_part_max(a->d_v);
    const size_t n_most = n_row < BLOCK ? n_row : BLOCK;
    row_block b = {.a = a, .k_level = k_level, .v_level = v_level, .ld_q = dk, .d_v = dv, .ld_part = ch_attn_part_floats(a->d_v)};
    b.q = a->scratch, b.room = b.q + n_most * dk, b.score = b.room + STRIP * (dk > dv ? dk : dv);
    b.shrink = b.score + n_most * PAGE;
    for (b.row0 = 0; b.row0 < n_row; b.row0 += BLOCK) {
        b.n_row = n_row - b.row0 < BLOCK ? n_row - b.row0 : BLOCK;
        b.part = a->part + b.row0 * b.ld_part;
        const size_t seen = a->pos0 + (b.row0 + b.n_row - 1) / a->n_q + 1; // by the block's last row
        b.end = seen < a->end ? seen : a->end;
        run_block(&b);
    }
}

// ---- rotation

CH_FORCE_INLINE void rotate_signs(float *x, size_t block) {
    for (size_t i = 0; i < block; i++) {
        uint32_t u;
        memcpy(&u, x + i, sizeof u);
        u ^= ch_kern_rotate_signs[i / 32] >> i % 32 << 31;
        memcpy(x + i, &u, sizeof u);
    }
}

static void rotate_tiles(float *x, size_t n, size_t block, bool back) {
    const vec scale = vec_set1(ch_kern_rotate_scale(block));
    for (; n; n -= block, x += block) {
        if (!back) rotate_signs(x, block);
        for (size_t h = 1; h < LANES; h *= 2)
            for (size_t i = 0; i < block; i += 2 * h)
                for (size_t k = i; k < i + h; k++) {
                    const float u = x[k], v = x[k + h];
                    x[k] = u + v, x[k + h] = u - v;
                }
        for (size_t h = LANES; h < block; h *= 2)
            for (size_t i = 0; i < block; i += 2 * h)
                for (size_t k = i; k < i + h; k += LANES) {
                    const vec u = vec_load(x + k), v = vec_load(x + k + h);
                    vec_store(x + k, vec_add(u, v));
                    vec_store(x + k + h, vec_sub(u, v));
                }
        for (size_t i = 0; i < block; i += LANES) vec_store(x + i, vec_mul(vec_load(x + i), scale));
        if (back) rotate_signs(x, block);
    }
}

#endif
