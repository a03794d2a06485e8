// What the products of all panel tiers share: packed weights, and activations of 8 (or 16) bits.
#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/panel.h"
#include "kern/x86/x86.h"

static size_t act_bytes(int kind, size_t n_in) {
    const size_t n_blk = (n_in + CH_PANEL_BLOCK - 1) / CH_PANEL_BLOCK;
    const size_t n = kind == CH_ACT_Q8    ? n_blk * sizeof(ch_act8)
                     : kind == CH_ACT_Q16 ? n_blk * sizeof(ch_act16)
                                          : n_in * sizeof(float);
    return (n + 63) & ~(size_t)63;
}

CH_FORCE_INLINE int32_t sum_i32(__m256i x) {
    __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1));
    return _mm_cvtsi128_si32(y);
}

// Codes round(x / d) with d = max |x| / limit. Magnitudes are compared as integers, so that a NaN or infinity ends up in d
// and from there in the result of this row alone. Below 2^-100 the block counts as zero.
CH_FORCE_INLINE float block_codes(const float *x, float limit, __m256i code[4]) {
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256 v[4];
    __m256i top = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        top = _mm256_max_epi32(top, _mm256_castps_si256(_mm256_and_ps(v[i], no_sign)));
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    const float most = _mm_cvtss_f32(_mm_castsi128_ps(m));
    const float inverse = most < 0x1p-100f ? 0.0f : limit / most;
    const __m256i lo = _mm256_set1_epi32(-(int)limit), hi = _mm256_set1_epi32((int)limit);
    for (int i = 0; i < 4; i++) {
        code[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
        code[i] = _mm256_min_epi32(_mm256_max_epi32(code[i], lo), hi);
    }
    return most < 0x1p-100f ? 0.0f : most / limit;
}

static void pack_q8(const float *x, size_t n_in, ch_act8 *a) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (size_t b = 0; b < n_in / CH_PANEL_BLOCK; b++) {
        __m256i c[4];
        const float d = block_codes(x + b * CH_PANEL_BLOCK, 127.0f, c);
        const int32_t s0 = sum_i32(_mm256_add_epi32(c[0], c[1])), s1 = sum_i32(_mm256_add_epi32(c[2], c[3]));
        const __m256i q = _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
        memset(&a[b], 0, sizeof a[b]);
        _mm256_storeu_si256((__m256i *)a[b].q, _mm256_permutevar8x32_epi32(q, order));
        a[b].d = d;
        a[b].dsum = d * (float)(s0 + s1);
        a[b].dsum16[0] = d * (float)s0;
        a[b].dsum16[1] = d * (float)s1;
        a[b].sum16[0] = (int16_t)s0;
        a[b].sum16[1] = (int16_t)s1;
        a[b].sum = s0 + s1;
    }
}

static void pack_q16(const float *x, size_t n_in, ch_act16 *a) {
    // Of each 4: places 0, 2, 1, 3; packing left the groups of 4 in the order 0 2 1 3.
    const __m256i swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    for (size_t b = 0; b < n_in / CH_PANEL_BLOCK; b++) {
        __m256i c[4];
        memset(&a[b], 0, sizeof a[b]);
        a[b].d = block_codes(x + b * CH_PANEL_BLOCK, 32767.0f, c);
        a[b].sum = sum_i32(_mm256_add_epi32(_mm256_add_epi32(c[0], c[1]), _mm256_add_epi32(c[2], c[3])));
        for (int i = 0; i < 2; i++) {
            const __m256i q = _mm256_permute4x64_epi64(_mm256_packs_epi32(c[2 * i], c[2 * i + 1]), 0xd8);
            _mm256_storeu_si256((__m256i *)(a[b].q + 16 * i), _mm256_shuffle_epi8(q, swap));
        }
    }
}

static void act_pack(int kind, const float *x, size_t n_in, void *act) {
    if (kind == CH_ACT_Q8)
        pack_q8(x, n_in, act);
    else if (kind == CH_ACT_Q16)
        pack_q16(x, n_in, act);
    else
        memcpy(act, x, n_in * sizeof *x);
}

void ch_kern_set_act_avx2(ch_kern *k) {
    k->mat_packed_bytes = ch_kern_panels_bytes;
    k->mat_pack = ch_kern_panels_pack;
    k->act_bytes = act_bytes;
    k->act_pack = act_pack;
    k->mat_work_bytes = ch_kern_panels_work_bytes;
}
