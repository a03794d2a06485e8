// Chunk kernels with AMX: a tile of 16 tokens times one of 16 rows gives all sums of a block (or of half of one) at once; they
// go through memory to where AVX-512 scales them.
//
// Tiles: 0, 1 sums of 16 tokens, 2, 3 sums of 8; 4, 5 activations of 16 and of 8; 6, 7 codes.
#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/many.h"
#include "kern/x86/tiles_amx.h"

// Sums are scaled this many blocks after they were asked for.
enum { LAG = 2, RING = 4 };
typedef int32_t tile_sums[CH_GROUP_TOKENS][CH_PANEL_ROWS];

// The compiler does not know what tiles read and write.
#define FENCE() __asm__ volatile("" ::: "memory")

CH_FORCE_INLINE void multiply(int n_sub, int n, const uint8_t *q, const uint8_t *codes, tile_sums *out) {
    if (n == 16) {
        _tile_zero(0);
        _tile_loadd(4, q, CH_PANEL_BLOCK);
        _tile_loadd(6, codes, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_stored(0, out[0], 64);
        if (n_sub == 1) return;
        _tile_zero(1);
        _tile_loadd(4, q + 16, CH_PANEL_BLOCK);
        _tile_loadd(7, codes + 256, 64);
        _tile_dpbssd(1, 4, 7);
        _tile_stored(1, out[1], 64);
    } else {
        _tile_zero(2);
        _tile_loadd(5, q, CH_PANEL_BLOCK);
        _tile_loadd(6, codes, 64);
        _tile_dpbssd(2, 5, 6);
        _tile_stored(2, out[0], 64);
        if (n_sub == 1) return;
        _tile_zero(3);
        _tile_loadd(5, q + 16, CH_PANEL_BLOCK);
        _tile_loadd(7, codes + 256, 64);
        _tile_dpbssd(3, 5, 7);
        _tile_stored(3, out[1], 64);
    }
}

CH_FORCE_INLINE __m512 sums_of(const tile_sums *s, int t) {
    return _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(*s)[t]));
}

// The first n tokens of the group; those past n_tok are computed and not stored.
CH_FORCE_INLINE void tokens(int n_sub, bool affine, int n, const ch_many_args *a) {
    CH_ALIGNED(64) tile_sums sums[RING][2];
    const __mmask16 rows = (__mmask16)((1u << a->n_row) - 1);
    __m512 acc[16];
#pragma GCC unroll 16
    for (int t = 0; t < n; t++) {
        acc[t] = _mm512_setzero_ps();
        if (!a->first && (size_t)t < a->n_tok) acc[t] = _mm512_maskz_loadu_ps(rows, a->y + (size_t)t * a->ld_y);
    }
    for (size_t i = 0; i < a->n_blk + LAG; i++) {
        FENCE();
        if (i < a->n_blk) multiply(n_sub, n, a->group + i * a->ld_group, a->chunk->codes[i], sums[i % RING]);
        FENCE();
        if (i < LAG) continue;
        const size_t b = i - LAG;
        const uint8_t *g = a->group + b * a->ld_group;
        const float *d = (const float *)(g + CH_GROUP_D), *dsum = (const float *)(g + CH_GROUP_SUMS);
        const tile_sums *s = sums[b % RING];
        const __m512 w0 = _mm512_load_ps(a->chunk->w[b][0]), w1 = _mm512_load_ps(a->chunk->w[b][1]);
#pragma GCC unroll 16
        for (int t = 0; t < n; t++) {
            __m512 part = _mm512_mul_ps(sums_of(&s[0], t), w0);
            if (n_sub == 2) part = _mm512_fmadd_ps(sums_of(&s[1], t), w1, part);
            acc[t] = _mm512_fmadd_ps(part, _mm512_set1_ps(d[t]), acc[t]);
        }
        if (!affine) continue;
#pragma GCC unroll 2
        for (int j = 0; j < n_sub; j++) {
            const __m512 min = _mm512_load_ps(a->chunk->min[b][j]);
#pragma GCC unroll 16
            for (int t = 0; t < n; t++) acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(dsum[CH_GROUP_TOKENS * j + t]), acc[t]);
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < n; t++)
        if ((size_t)t < a->n_tok) _mm512_mask_storeu_ps(a->y + (size_t)t * a->ld_y, rows, acc[t]);
}

CH_FORCE_INLINE void group(int n_sub, bool affine, const ch_many_args *a) {
    if (a->n_tok > 8)
        tokens(n_sub, affine, 16, a);
    else
        tokens(n_sub, affine, 8, a);
}

static void sub32(const ch_many_args *a) {
    group(1, false, a);
}

static void sub32_affine(const ch_many_args *a) {
    group(1, true, a);
}

static void sub16(const ch_many_args *a) {
    group(2, false, a);
}

static void sub16_affine(const ch_many_args *a) {
    group(2, true, a);
}

static void matmul(const ch_mat *m, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_tok, float *y,
                   size_t ld_y, void *work) {
    static const ch_many_kernel k = {.is_signed = true,
                                      .n_blk = CH_MANY_BLOCKS,
                                      .min_rest = 5,
                                      .fn = {{sub32, sub32_affine}, {sub16, sub16_affine}}};
    const ch_panel_spec *s = ch_kern_panel_spec(m->type, m->n_in);
    const ch_mat_call c = {m, r0, r1, act, ld_act, n_tok, y, ld_y, work};
    if (!s || !m->packed || n_tok < k.min_rest) {
        ch_kern_matmul_avx512(&c);
        return;
    }
    ch_tile_config config = ch_tiles_whole();
    for (int i = 0; i < CH_TILES; i++) {
        config.n_row[i] = i >= 6 ? s->sub / 4 : i == 2 || i == 3 || i == 5 ? 8 : 16;
        config.n_bytes[i] = i == 4 || i == 5 ? s->sub : 64;
    }
    ch_tiles_begin(&config);
    ch_kern_matmul_many(&c, s, ch_kern_panel_avx512(s->type), &k);
    _tile_release();
}

void ch_kern_set_mat_amx(ch_kern *k) {
    k->matmul = matmul;
}
