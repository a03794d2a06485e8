// The AVX-512 and AMX intrinsics that kern/x86 uses, out of 256-bit vectors: forced into the *_avx512.c and *_amx.c files by the Makefile
// for the kernel tests, so that an AVX2 machine checks their arithmetic. Entry points get names of their own.
#ifndef CHECKKERN_EMULATED_AVX512_H
#define CHECKKERN_EMULATED_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ch_kern_set_mat_avx512 ch_kern_set_mat_emulated
#define ch_kern_set_mat_amx ch_kern_set_mat_amx_emulated
#define ch_kern_matmul_avx512 ch_kern_matmul_emulated
#define ch_kern_panel_avx512 ch_kern_panel_emulated
#define ch_kern_many_avx512 ch_kern_many_emulated
#define ch_kern_set_gemm_avx512 ch_kern_set_gemm_emulated
#define ch_kern_set_gemm_amx ch_kern_set_gemm_amx_emulated
#define ch_kern_matmul_float_avx512 ch_kern_matmul_float_emulated
#define ch_kern_panel_simple_avx512 ch_kern_panel_simple_emulated
#define ch_kern_panel_k_avx512 ch_kern_panel_k_emulated
#define ch_kern_panel_grid_avx512 ch_kern_panel_grid_emulated
#define ch_kern_set_attn_avx512 ch_kern_set_attn_emulated

typedef struct e512i {
    __m256i lo, hi;
} e512i;
typedef struct e512 {
    __m256 lo, hi;
} e512;
#define EMULATED static inline __attribute__((always_inline, unused))

// Each operation on both halves.
EMULATED void e_store_si512(void *p, e512i x) {
    _mm256_store_si256(p, x.lo);
    _mm256_store_si256((__m256i *)p + 1, x.hi);
}
EMULATED e512i e_load_si512(const void *p) {
    return (e512i){_mm256_load_si256((const __m256i *)p), _mm256_load_si256((const __m256i *)p + 1)};
}
EMULATED e512i e_set1_epi32(int x) {
    return (e512i){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
EMULATED e512i e_set1_epi8(char x) {
    return (e512i){_mm256_set1_epi8(x), _mm256_set1_epi8(x)};
}
EMULATED e512i e_setzero_si512(void) {
    return e_set1_epi32(0);
}
EMULATED e512i e_slli_epi16(e512i x, int n) {
    return (e512i){_mm256_slli_epi16(x.lo, n), _mm256_slli_epi16(x.hi, n)};
}
EMULATED e512i e_srli_epi16(e512i x, int n) {
    return (e512i){_mm256_srli_epi16(x.lo, n), _mm256_srli_epi16(x.hi, n)};
}
EMULATED e512i e_slli_epi32(e512i x, int n) {
    return (e512i){_mm256_slli_epi32(x.lo, n), _mm256_slli_epi32(x.hi, n)};
}
EMULATED e512i e_and_si512(e512i a, e512i b) {
    return (e512i){_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
EMULATED e512i e_or_si512(e512i a, e512i b) {
    return (e512i){_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
EMULATED e512i e_sub_epi32(e512i a, e512i b) {
    return (e512i){_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
EMULATED e512i e_sub_epi8(e512i a, e512i b) {
    return (e512i){_mm256_sub_epi8(a.lo, b.lo), _mm256_sub_epi8(a.hi, b.hi)};
}
EMULATED e512i e_shuffle_epi8(e512i a, e512i b) {
    return (e512i){_mm256_shuffle_epi8(a.lo, b.lo), _mm256_shuffle_epi8(a.hi, b.hi)};
}
EMULATED e512i e_broadcast_i32x4(__m128i x) {
    return (e512i){_mm256_broadcastsi128_si256(x), _mm256_broadcastsi128_si256(x)};
}
// Bytes widened to 16 bits, so that no pair saturates.
EMULATED __m256i e_dot4(__m256i sum, __m256i u, __m256i s) {
    const __m256i low = _mm256_set1_epi16(255);
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(u, low), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
EMULATED e512i e_dpbusd_epi32(e512i sum, e512i u, e512i s) {
    return (e512i){e_dot4(sum.lo, u.lo, s.lo), e_dot4(sum.hi, u.hi, s.hi)};
}
EMULATED e512i e_dpwssd_epi32(e512i sum, e512i a, e512i b) {
    return (e512i){_mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.lo, b.lo)),
                   _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.hi, b.hi))};
}
EMULATED e512i e_cvtepu16_epi32(__m256i x) {
    return (e512i){_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1))};
}
EMULATED e512i e_cvtepi8_epi32(__m128i x) {
    return (e512i){_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
}
EMULATED e512i e_cvtepu8_epi32(__m128i x) {
    return (e512i){_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
}
EMULATED e512 e_cvtepi32_ps(e512i x) {
    return (e512){_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)};
}
EMULATED e512 e_cvtph_ps(__m256i x) {
    return (e512){_mm256_cvtph_ps(_mm256_castsi256_si128(x)), _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))};
}
EMULATED e512 e_castsi512_ps(e512i x) {
    return (e512){_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)};
}
EMULATED e512 e_set1_ps(float x) {
    return (e512){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
EMULATED e512 e_setzero_ps(void) {
    return e_set1_ps(0);
}
EMULATED e512 e_mul_ps(e512 a, e512 b) {
    return (e512){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
EMULATED e512 e_fmadd_ps(e512 a, e512 b, e512 c) {
    return (e512){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
EMULATED e512 e_loadu_ps(const float *p) {
    return (e512){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
EMULATED void e_storeu_ps(float *p, e512 x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
}
EMULATED e512 e_maskz_loadu_ps(__mmask16 mask, const float *p) {
    float x[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) x[i] = p[i];
    return e_loadu_ps(x);
}
EMULATED void e_mask_storeu_ps(float *p, __mmask16 mask, e512 v) {
    float x[16];
    e_storeu_ps(x, v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) p[i] = x[i];
}
EMULATED __m256 e_castps512_ps256(e512 x) {
    return x.lo;
}
EMULATED __m256 e_extractf32x8_ps(e512 x, int half) {
    return half ? x.hi : x.lo;
}

EMULATED e512 e_add_ps(e512 a, e512 b) {
    return (e512){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
EMULATED e512 e_sub_ps(e512 a, e512 b) {
    return (e512){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
EMULATED e512 e_max_ps(e512 a, e512 b) {
    return (e512){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
EMULATED e512 e_min_ps(e512 a, e512 b) {
    return (e512){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
EMULATED e512i e_cvtps_epi32(e512 x) {
    return (e512i){_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)};
}
EMULATED e512i e_add_epi32(e512i a, e512i b) {
    return (e512i){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
EMULATED e512i e_srai_epi32(e512i x, int n) {
    return (e512i){_mm256_srai_epi32(x.lo, n), _mm256_srai_epi32(x.hi, n)};
}
EMULATED e512i e_srli_epi32(e512i x, int n) {
    return (e512i){_mm256_srli_epi32(x.lo, n), _mm256_srli_epi32(x.hi, n)};
}
EMULATED e512i e_srlv_epi32(e512i x, e512i n) {
    return (e512i){_mm256_srlv_epi32(x.lo, n.lo), _mm256_srlv_epi32(x.hi, n.hi)};
}
// Lane by lane.
typedef struct e_lanes {
    float f[16];
    int32_t i[16];
} e_lanes;
EMULATED e_lanes e_lanes_of(e512 x) {
    e_lanes l;
    memcpy(l.f, &x, sizeof l.f);
    memcpy(l.i, &x, sizeof l.i);
    return l;
}
EMULATED e512 e_mask_blend_ps(unsigned mask, e512 a, e512 b) {
    e_lanes x = e_lanes_of(a), y = e_lanes_of(b);
    for (int i = 0; i < 16; i++) x.f[i] = mask >> i & 1 ? y.f[i] : x.f[i];
    return e_loadu_ps(x.f);
}
EMULATED e512i e_mask_blend_epi32(unsigned mask, e512i a, e512i b) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i lo = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)mask), bit), bit);
    const __m256i hi = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)mask >> 8), bit), bit);
    return (e512i){_mm256_blendv_epi8(a.lo, b.lo, lo), _mm256_blendv_epi8(a.hi, b.hi, hi)};
}
EMULATED e512 e_permutexvar_ps(e512i place, e512 x) {
    const e_lanes p = e_lanes_of(e_castsi512_ps(place)), from = e_lanes_of(x);
    float y[16];
    for (int i = 0; i < 16; i++) y[i] = from.f[p.i[i] & 15];
    return e_loadu_ps(y);
}
// Two quarters of a, then two of b; inside quarters, two lanes of a, then two of b.
EMULATED e512 e_shuffle_f32x4(e512 a, e512 b, int places) {
    const e_lanes x = e_lanes_of(a), z = e_lanes_of(b);
    float y[16];
    for (int i = 0; i < 16; i++) y[i] = (i < 8 ? x.f : z.f)[4 * (places >> 2 * (i / 4) & 3) + i % 4];
    return e_loadu_ps(y);
}
EMULATED e512 e_shuffle_ps(e512 a, e512 b, int places) {
    const e_lanes x = e_lanes_of(a), z = e_lanes_of(b);
    float y[16];
    for (int i = 0; i < 16; i++) y[i] = (i % 4 < 2 ? x.f : z.f)[i / 4 * 4 + (places >> 2 * (i % 4) & 3)];
    return e_loadu_ps(y);
}
EMULATED e512i e_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n,
                            int o, int p) {
    return (e512i){_mm256_setr_epi32(a, b, c, d, e, f, g, h), _mm256_setr_epi32(i, j, k, l, m, n, o, p)};
}
EMULATED float e_cvtss_f32(e512 x) {
    return _mm256_cvtss_f32(x.lo);
}
// Tiles, one set for each file and thread.
typedef struct e_tiles {
    uint8_t config[64];
    uint8_t row[8][16][64];
} e_tiles;
static _Thread_local e_tiles e_tile __attribute__((unused));
EMULATED int e_tile_rows(int i) {
    return e_tile.config[48 + i];
}
EMULATED int e_tile_bytes(int i) {
    return e_tile.config[16 + 2 * i] | e_tile.config[17 + 2 * i] << 8;
}
EMULATED void e_tile_loadconfig(const void *p) {
    memset(&e_tile, 0, sizeof e_tile);
    memcpy(e_tile.config, p, 64);
}
EMULATED void e_tile_release(void) {
    memset(&e_tile, 0xff, sizeof e_tile);
}
EMULATED void e_tile_zero(int i) {
    memset(e_tile.row[i], 0, sizeof e_tile.row[i]);
}
EMULATED void e_tile_loadd(int i, const void *p, long stride) {
    e_tile_zero(i);
    for (int r = 0; r < e_tile_rows(i); r++)
        memcpy(e_tile.row[i][r], (const uint8_t *)p + r * stride, (size_t)e_tile_bytes(i));
}
EMULATED void e_tile_stored(int i, void *p, long stride) {
    for (int r = 0; r < e_tile_rows(i); r++)
        memcpy((uint8_t *)p + r * stride, e_tile.row[i][r], (size_t)e_tile_bytes(i));
}
EMULATED void e_tile_dpbssd(int c, int a, int b) {
    for (int m = 0; m < e_tile_rows(c); m++)
        for (int n = 0; n < e_tile_bytes(c) / 4; n++) {
            int32_t sum;
            memcpy(&sum, e_tile.row[c][m] + 4 * n, 4);
            for (int k = 0; k < e_tile_bytes(a); k++)
                sum += (int8_t)e_tile.row[a][m][k] * (int8_t)e_tile.row[b][k / 4][4 * n + k % 4];
            memcpy(e_tile.row[c][m] + 4 * n, &sum, 4);
        }
}
EMULATED float e_from_bf16(const uint8_t *p) {
    const uint32_t bits = (uint32_t)(p[0] | p[1] << 8) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
EMULATED void e_tile_dpbf16ps(int c, int a, int b) {
    for (int m = 0; m < e_tile_rows(c); m++)
        for (int n = 0; n < e_tile_bytes(c) / 4; n++) {
            float sum;
            memcpy(&sum, e_tile.row[c][m] + 4 * n, 4);
            for (int k = 0; k < e_tile_bytes(a); k += 2)
                sum += e_from_bf16(e_tile.row[a][m] + k) * e_from_bf16(e_tile.row[b][k / 4] + 4 * n + k % 4);
            memcpy(e_tile.row[c][m] + 4 * n, &sum, 4);
        }
}
EMULATED e512i e_cvtne2ps_pbh(e512 hi, e512 lo) {
    const e_lanes x[2] = {e_lanes_of(lo), e_lanes_of(hi)};
    uint16_t y[32];
    for (int i = 0; i < 32; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i / 16].f[i % 16], sizeof bits);
        y[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    e512i r;
    memcpy(&r, y, sizeof r);
    return r;
}
EMULATED e512i e_permutexvar_epi16(e512i place, e512i x) {
    uint16_t p[32], from[32], to[32];
    memcpy(p, &place, sizeof p), memcpy(from, &x, sizeof from);
    for (int i = 0; i < 32; i++) to[i] = from[p[i] & 31];
    e512i r;
    memcpy(&r, to, sizeof r);
    return r;
}

#define __m512i e512i
#define __m512 e512
#define _mm512_load_si512 e_load_si512
#define _mm512_store_si512 e_store_si512
#define _mm512_sub_epi8 e_sub_epi8
#define _mm512_dpwssd_epi32 e_dpwssd_epi32
#define _mm512_load_ps e_loadu_ps
#define _mm512_store_ps e_storeu_ps
#define _mm512_maskz_loadu_ps e_maskz_loadu_ps
#define _mm512_mask_storeu_ps e_mask_storeu_ps
#define _tile_loadconfig e_tile_loadconfig
#define _tile_release e_tile_release
#undef _tile_zero
#define _tile_zero e_tile_zero
#undef _tile_loadd
#define _tile_loadd e_tile_loadd
#undef _tile_stored
#define _tile_stored e_tile_stored
#undef _tile_dpbssd
#define _tile_dpbssd e_tile_dpbssd
#undef _tile_dpbf16ps
#define _tile_dpbf16ps e_tile_dpbf16ps
#define __m512bh e512i
#define _mm512_cvtne2ps_pbh e_cvtne2ps_pbh
#define _mm512_permutexvar_epi16 e_permutexvar_epi16
#define _mm512_set1_epi32 e_set1_epi32
#define _mm512_set1_epi8 e_set1_epi8
#define _mm512_setzero_si512 e_setzero_si512
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 e_slli_epi16
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 e_srli_epi16
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 e_slli_epi32
#define _mm512_and_si512 e_and_si512
#define _mm512_or_si512 e_or_si512
#define _mm512_sub_epi32 e_sub_epi32
#define _mm512_shuffle_epi8 e_shuffle_epi8
#define _mm512_broadcast_i32x4 e_broadcast_i32x4
#define _mm512_dpbusd_epi32 e_dpbusd_epi32
#define _mm512_cvtepu16_epi32 e_cvtepu16_epi32
#define _mm512_cvtepi8_epi32 e_cvtepi8_epi32
#define _mm512_cvtepu8_epi32 e_cvtepu8_epi32
#define _mm512_cvtepi32_ps e_cvtepi32_ps
#define _mm512_cvtph_ps e_cvtph_ps
#define _mm512_castsi512_ps e_castsi512_ps
#define _mm512_set1_ps e_set1_ps
#define _mm512_setzero_ps e_setzero_ps
#define _mm512_mul_ps e_mul_ps
#define _mm512_fmadd_ps e_fmadd_ps
#define _mm512_loadu_ps e_loadu_ps
#define _mm512_storeu_ps e_storeu_ps
#define _mm512_castps512_ps256 e_castps512_ps256
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps e_extractf32x8_ps
#undef _mm512_add_ps
#define _mm512_add_ps e_add_ps
#undef _mm512_sub_ps
#define _mm512_sub_ps e_sub_ps
#undef _mm512_max_ps
#define _mm512_max_ps e_max_ps
#undef _mm512_min_ps
#define _mm512_min_ps e_min_ps
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 e_cvtps_epi32
#undef _mm512_add_epi32
#define _mm512_add_epi32 e_add_epi32
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 e_srai_epi32
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 e_srli_epi32
#undef _mm512_srlv_epi32
#define _mm512_srlv_epi32 e_srlv_epi32
#undef _mm512_mask_blend_epi32
#define _mm512_mask_blend_epi32 e_mask_blend_epi32
#undef _mm512_mask_blend_ps
#define _mm512_mask_blend_ps e_mask_blend_ps
#undef _mm512_permutexvar_ps
#define _mm512_permutexvar_ps e_permutexvar_ps
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 e_shuffle_f32x4
#undef _mm512_shuffle_ps
#define _mm512_shuffle_ps e_shuffle_ps
#undef _mm512_setr_epi32
#define _mm512_setr_epi32 e_setr_epi32
#undef _mm512_cvtss_f32
#define _mm512_cvtss_f32 e_cvtss_f32

#endif
