// Taking file blocks apart into codes and scales, type by type, and the table of panel types. Layouts: quantization notes
// of GGUF types; the values must multiply back to what ch_type_info.decode gives (tests/checkkern compares).
#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/panel.h"

static uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

CH_FORCE_INLINE __m256i load32(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

CH_FORCE_INLINE void store32(uint8_t *p, __m256i x) {
    _mm256_storeu_si256((__m256i *)p, x);
}

// Bits [at, at + width) of every byte.
CH_FORCE_INLINE __m256i field(__m256i x, int at, int width) {
    return _mm256_and_si256(_mm256_srli_epi16(x, at), _mm256_set1_epi8((char)((1 << width) - 1)));
}

// 32 bits to 32 bytes: `value` where the bit is set, else 0; lowest bit first.
CH_FORCE_INLINE __m256i spread32(uint32_t bits, int value) {
    const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)UINT64_C(0x8040201008040201));
    const __m256i x = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), place), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(x, bit), _mm256_set1_epi8((char)value));
}

// 16 bytes to 32 codes: low nibbles first, then high nibbles.
CH_FORCE_INLINE __m256i nibbles32(const uint8_t *q) {
    const __m128i x = _mm_loadu_si128((const __m128i *)q);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(x, 4), x), _mm256_set1_epi8(15));
}

// 32 bytes to 128 codes of 2 bits: each plane of bits gives 32 consecutive values.
CH_FORCE_INLINE void pairs128(const uint8_t *q, uint8_t *c) {
    const __m256i x = load32(q);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) store32(c + 32 * k, field(x, 2 * k, 2));
}

static void split_q4_0(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b);
    store32(c->q, nibbles32(b + 2));
}

static void split_q4_1(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    store32(c->q, nibbles32(b + 4));
}

static void split_q5_0(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b);
    store32(c->q, _mm256_or_si256(nibbles32(b + 6), spread32(get32(b + 2), 16)));
}

static void split_q5_1(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    store32(c->q, _mm256_or_si256(nibbles32(b + 8), spread32(get32(b + 4), 16)));
}

static void split_q8_0(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b);
    store32(c->q, _mm256_xor_si256(load32(b + 2), _mm256_set1_epi8((char)0x80)));
}

static void split_mxfp4(const uint8_t *b, ch_codes *c) {
    // 2^(e-128) as bf16; the two smallest are subnormal.
    c->d[0] = (uint16_t)(b[0] >= 2 ? (b[0] - 1) << 7 : 0x20 << b[0]);
    store32(c->q, nibbles32(b + 1));
}

// Unsigned E4M3, halved, as f16: every value is normal there. 0x7f, a NaN, counts as 0.
static uint16_t f16_of_ue4m3_half(uint8_t x) {
    static const uint16_t subnormal[8] = {0, 0x1400, 0x1800, 0x1a00, 0x1c00, 0x1d00, 0x1e00, 0x1f00}; // m 2^-10
    const int e = x >> 3 & 15, m = x & 7;
    if (x == 0x7f) return 0;
    return e ? (uint16_t)((e + 7) << 10 | m << 7) : subnormal[m];
}

static void split_nvfp4(const uint8_t *b, ch_codes *c) {
    for (int s = 0; s < 4; s++) c->d[s] = f16_of_ue4m3_half(b[s]);
    const __m256i x = load32(b + 4), lo = field(x, 0, 4), hi = field(x, 4, 4);
    const __m256i even = _mm256_unpacklo_epi64(lo, hi), odd = _mm256_unpackhi_epi64(lo, hi); // 16 codes of parts 0, 2; 1, 3
    store32(c->q, _mm256_permute2x128_si256(even, odd, 0x20));
    store32(c->q + 32, _mm256_permute2x128_si256(even, odd, 0x31));
}

static void split_q1_0(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b);
    for (int i = 0; i < 4; i++) store32(c->q + 32 * i, spread32(get32(b + 2 + 4 * i), 2));
}

// 4 numbers of 8 x 2 bits to 32 bytes, lowest bits first.
CH_FORCE_INLINE __m256i widen_2bits(const uint16_t entry[4]) {
    __m256i x = _mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)entry));
    x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi64(x, 24)), _mm256_set1_epi64x(0x000000ff000000ff));
    x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi64(x, 12)), _mm256_set1_epi64x(0x000f000f000f000f));
    return _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi64(x, 6)), _mm256_set1_epi8(3));
}

// 8 numbers of 4 x 3 bits to 32 bytes, lowest bits first.
CH_FORCE_INLINE __m256i widen_3bits(const uint16_t entry[8]) {
    __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)entry));
    x = _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi32(x, 10)), _mm256_set1_epi32(0x003f003f));
    return _mm256_and_si256(_mm256_or_si256(x, _mm256_slli_epi32(x, 5)), _mm256_set1_epi8(7));
}

static void split_q2_0(const uint8_t *b, ch_codes *c) {
    uint16_t all[8];
    c->d[0] = get16(b);
    memcpy(all, b + 2, sizeof all);
    for (int i = 0; i < 2; i++) store32(c->q + 32 * i, widen_2bits(all + 4 * i));
}

static void split_tq2_0(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b + 64);
    pairs128(b, c->q);
    pairs128(b + 32, c->q + 128);
}

static void split_q2_k(const uint8_t *b, ch_codes *c) {
    const __m128i s = _mm_loadu_si128((const __m128i *)b), low = _mm_set1_epi8(15);
    c->d[0] = get16(b + 80);
    c->m = get16(b + 82);
    _mm_storeu_si128((__m128i *)c->sub, _mm_and_si128(s, low));
    _mm_storeu_si128((__m128i *)c->min, _mm_and_si128(_mm_srli_epi16(s, 4), low));
    pairs128(b + 16, c->q);
    pairs128(b + 48, c->q + 128);
}

static void split_q3_k(const uint8_t *b, ch_codes *c) {
    const uint8_t *s = b + 96;
    const __m256i high = load32(b);
    c->d[0] = get16(b + 108);
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        const __m256i low = field(load32(b + 32 + 32 * (k / 4)), 2 * (k % 4), 2);
        store32(c->q + 32 * k, _mm256_or_si256(low, _mm256_slli_epi16(field(high, k, 1), 2)));
    }
    for (int j = 0; j < 16; j++) {
        const int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
        c->sub[j] = (int8_t)((low | (s[8 + j % 4] >> 2 * (j / 4) & 3) << 4) - 32);
    }
}

// Eight 6-bit scales and mins from 12 bytes, as Q4_K and Q5_K have them.
static void scales_k(const uint8_t *s, ch_codes *c) {
    for (int j = 0; j < 4; j++) {
        c->sub[j] = (int8_t)(s[j] & 63);
        c->min[j] = s[j + 4] & 63;
        c->sub[j + 4] = (int8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        c->min[j + 4] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

static void split_q4_k(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    scales_k(b + 4, c);
    for (int k = 0; k < 8; k++) store32(c->q + 32 * k, field(load32(b + 16 + 32 * (k / 2)), 4 * (k % 2), 4));
}

static void split_q5_k(const uint8_t *b, ch_codes *c) {
    const __m256i high = load32(b + 16);
    c->d[0] = get16(b);
    c->m = get16(b + 2);
    scales_k(b + 4, c);
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        const __m256i low = field(load32(b + 48 + 32 * (k / 2)), 4 * (k % 2), 4);
        store32(c->q + 32 * k, _mm256_or_si256(low, _mm256_slli_epi16(field(high, k, 1), 4)));
    }
}

static void split_q6_k(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b + 208);
    memcpy(c->sub, b + 192, 16);
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        const __m256i low = field(load32(b + 64 * (k / 4) + 32 * (k % 2)), k % 4 < 2 ? 0 : 4, 4);
        const __m256i high = field(load32(b + 128 + 32 * (k / 4)), 2 * (k % 4), 2);
        store32(c->q + 32 * k, _mm256_or_si256(low, _mm256_slli_epi16(high, 4)));
    }
}

static void split_iq4_xs(const uint8_t *b, ch_codes *c) {
    const unsigned high = get16(b + 2);
    c->d[0] = get16(b);
    for (int j = 0; j < 8; j++) {
        const unsigned low = b[4 + j / 2] >> 4 * (j % 2) & 15;
        c->sub[j] = (int8_t)((int)(low | (high >> 2 * j & 3) << 4) - 32);
        store32(c->q + 32 * j, nibbles32(b + 8 + 16 * j));
    }
}

// ---- grid types: an entry of the grid holds the codes of 8 (or 4) magnitudes. All entries of a block are looked up first, so
// that the vectors made of them do not wait for the stores.

// Seven sign bits a byte are stored for 8 values; the eighth makes the number of negative ones even.
CH_FORCE_INLINE __m256i eighth_signs(__m256i x) {
    const __m256i top = _mm256_set1_epi8((char)0x80), low = _mm256_set1_epi8(15);
    const __m256i odd = _mm256_setr_epi64x(0x0080800080000080, (long long)0x8000008000808000, 0x0080800080000080, (long long)0x8000008000808000);
    const __m256i a = _mm256_shuffle_epi8(odd, _mm256_and_si256(x, low));
    const __m256i b = _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(x, 4), low));
    return _mm256_or_si256(x, _mm256_and_si256(_mm256_xor_si256(a, b), top));
}

// Eight words of four times 7 sign bits, and on top s of a scale of 2s + 1: signs of 256 values, and the scales.
CH_FORCE_INLINE void signs_and_scales(__m256i word, uint32_t signs[8], int8_t *sub) {
    __m256i x = _mm256_and_si256(word, _mm256_set1_epi32(0x7f));
#pragma GCC unroll 3
    for (int i = 1; i < 4; i++) x = _mm256_or_si256(x, _mm256_and_si256(_mm256_slli_epi32(word, i), _mm256_set1_epi32(0x7f << 8 * i)));
    _mm256_storeu_si256((__m256i *)signs, eighth_signs(x));
    const __m256i code = _mm256_srli_epi32(word, 28), scale = _mm256_or_si256(_mm256_add_epi32(code, code), _mm256_set1_epi32(1));
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(scale), _mm256_extracti128_si256(scale, 1));
    _mm_storel_epi64((__m128i *)sub, _mm_packs_epi16(half, half));
}

// 256 codes of the places of magnitudes, plus `negative` (xor) where a sign is set.
CH_FORCE_INLINE void codes_2bits(const uint16_t entry[32], const uint32_t signs[8], int negative, uint8_t *q) {
    for (int k = 0; k < 8; k++) store32(q + 32 * k, _mm256_xor_si256(widen_2bits(entry + 4 * k), spread32(signs[k], negative)));
}

CH_FORCE_INLINE void codes_3bits(const uint16_t entry[64], const uint32_t signs[8], int positive, int negative, uint8_t *q) {
    const __m256i plus = _mm256_set1_epi8((char)positive);
    for (int k = 0; k < 8; k++) {
        const __m256i x = _mm256_or_si256(widen_3bits(entry + 8 * k), plus);
        store32(q + 32 * k, _mm256_xor_si256(x, spread32(signs[k], negative)));
    }
}

// code = place of the magnitude (8, 25, 43), plus 4 when negative
static void split_iq2_xxs(const uint8_t *b, ch_codes *c) {
    uint16_t entry[32];
    uint32_t signs[8];
    c->d[0] = get16(b);
#pragma GCC unroll 32
    for (int i = 0; i < 32; i++) entry[i] = ch_quant_grid_iq2_xxs[b[2 + i / 4 * 8 + i % 4]];
    const __m256 x = _mm256_castsi256_ps(load32(b + 2)), y = _mm256_castsi256_ps(load32(b + 34)); // every other word: signs
    const __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xdd));
    signs_and_scales(_mm256_permute4x64_epi64(odd, 0xd8), signs, c->sub);
    codes_2bits(entry, signs, 4, c->q);
}

// Eight bytes of two scale codes s each, for 16 values: 2s + 1.
static void scales_iq2(const uint8_t *s, int8_t *sub) {
    const __m128i x = _mm_loadl_epi64((const __m128i *)s), both = _mm_unpacklo_epi8(x, _mm_srli_epi16(x, 4));
    const __m128i code = _mm_and_si128(both, _mm_set1_epi8(15));
    _mm_storeu_si128((__m128i *)sub, _mm_or_si128(_mm_add_epi8(code, code), _mm_set1_epi8(1)));
}

static void split_iq2_xs(const uint8_t *b, ch_codes *c) {
    uint16_t entry[32];
    uint32_t signs[8];
    c->d[0] = get16(b);
    scales_iq2(b + 66, c->sub);
#pragma GCC unroll 32
    for (int i = 0; i < 32; i++) entry[i] = ch_quant_grid_iq2_xs[get16(b + 2 + 2 * i) & 511];
    const __m256i x = _mm256_srli_epi16(load32(b + 2), 9), y = _mm256_srli_epi16(load32(b + 34), 9);
    _mm256_storeu_si256((__m256i *)signs, eighth_signs(_mm256_permute4x64_epi64(_mm256_packus_epi16(x, y), 0xd8)));
    codes_2bits(entry, signs, 4, c->q);
}

static void split_iq2_s(const uint8_t *b, ch_codes *c) {
    uint16_t entry[32];
    uint32_t signs[8];
    c->d[0] = get16(b);
    scales_iq2(b + 74, c->sub);
    for (int k = 0; k < 8; k++) {
        const unsigned high = (unsigned)b[66 + k] << 8;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) entry[4 * k + i] = ch_quant_grid_iq2_s[b[2 + 4 * k + i] | (high >> 2 * i & 0x300)];
    }
    memcpy(signs, b + 34, sizeof signs);
    codes_2bits(entry, signs, 4, c->q);
}

// code = place of the magnitude (4, 12, .. 52, 62), plus 8 when negative
static void split_iq3_xxs(const uint8_t *b, ch_codes *c) {
    uint16_t entry[64];
    uint32_t signs[8];
    c->d[0] = get16(b);
#pragma GCC unroll 8
    for (int i = 0; i < 64; i++) entry[i] = ch_quant_grid_iq3_xxs[b[2 + i]];
    signs_and_scales(load32(b + 66), signs, c->sub);
    codes_3bits(entry, signs, 0, 8, c->q);
}

// code = (value + 15) / 2 with values -15, -13, .. 15: magnitude 2m + 1 is code 8 + m, and 7 - m when negative
static void split_iq3_s(const uint8_t *b, ch_codes *c) {
    uint16_t entry[64];
    uint32_t signs[8];
    c->d[0] = get16(b);
    for (int k = 0; k < 8; k++) {
        const unsigned high = (unsigned)b[66 + k] << 8;
        c->sub[k] = (int8_t)(2 * (b[106 + k / 2] >> 4 * (k % 2) & 15) + 1);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) entry[8 * k + i] = ch_quant_grid_iq3_s[b[2 + 8 * k + i] | (high >> i & 0x100)];
    }
    memcpy(signs, b + 74, sizeof signs);
    codes_3bits(entry, signs, 8, 15, c->q);
}

// code = value + 1 of -1, 0, 1. The shift of +-1/8 is a min: sub * (8 -+ 1) eighths.
static void split_iq1_s(const uint8_t *b, ch_codes *c) {
    uint16_t entry[32];
    c->d[0] = c->m = get16(b);
    for (int k = 0; k < 8; k++) {
        const unsigned h = get16(b + 34 + 2 * k);
        c->sub[k] = (int8_t)(2 * (h >> 12 & 7) + 1);
        c->min[k] = (uint8_t)(c->sub[k] * (h & 0x8000 ? 9 : 7));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) entry[4 * k + i] = ch_quant_grid_iq1[b[2 + 4 * k + i] | (h << 8 >> 3 * i & 0x700)];
    }
    for (int k = 0; k < 8; k++) store32(c->q + 32 * k, widen_2bits(entry + 4 * k));
}

// code = place of 8 * value +- 1 among -9, -7, -1, 1, 7, 9: the upper of two when shifted up
static void split_iq1_m(const uint8_t *b, ch_codes *c) {
    uint16_t entry[32];
    c->d[0] = (uint16_t)(b[49] >> 4 | (b[51] & 0xf0) | (b[53] & 0xf0) << 4 | (b[55] & 0xf0) << 8);
    for (int k = 0; k < 8; k++) {
        const unsigned h = get16(b + 32 + 2 * k), s = get16(b + 48 + 2 * (k / 2)) >> 6 * (k % 2);
        c->sub[2 * k] = (int8_t)(2 * (s & 7) + 1);
        c->sub[2 * k + 1] = (int8_t)(2 * (s >> 3 & 7) + 1);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) entry[4 * k + i] = ch_quant_grid_iq1[b[4 * k + i] | (h << 8 >> 4 * i & 0x700)];
    }
    for (int k = 0; k < 8; k++) {
        const __m256i x = widen_2bits(entry + 4 * k), h = _mm256_set1_epi64x(get16(b + 32 + 2 * k));
        // The highest bit of each of 4 nibbles, for 8 values: set is down.
        const __m256i down = _mm256_and_si256(_mm256_srlv_epi64(h, _mm256_setr_epi64x(3, 7, 11, 15)), _mm256_set1_epi64x(1));
        const __m256i up = _mm256_cmpeq_epi64(down, _mm256_setzero_si256()); // -1 in every byte
        store32(c->q + 32 * k, _mm256_sub_epi8(_mm256_add_epi8(x, x), up));
    }
}

// The base-3 digits of bytes, first one first: a byte holds a fraction, whose next digit is the carry of a multiplication by 3.
CH_FORCE_INLINE __m256i next_digit(__m256i *fraction) {
    const __m256i low = _mm256_set1_epi16(255), even = _mm256_and_si256(*fraction, low), odd = _mm256_srli_epi16(*fraction, 8);
    const __m256i e = _mm256_add_epi16(even, _mm256_add_epi16(even, even)), o = _mm256_add_epi16(odd, _mm256_add_epi16(odd, odd));
    *fraction = _mm256_or_si256(_mm256_and_si256(e, low), _mm256_slli_epi16(o, 8));
    return _mm256_or_si256(_mm256_srli_epi16(e, 8), _mm256_andnot_si256(low, o));
}

static void split_tq1_0(const uint8_t *b, ch_codes *c) {
    c->d[0] = get16(b + 52);
    __m256i x = load32(b), y = _mm256_set_m128i(_mm_set1_epi32((int)get32(b + 48)), _mm_loadu_si128((const __m128i *)(b + 32)));
    for (int n = 0; n < 5; n++) {
        store32(c->q + 32 * n, next_digit(&x));
        const __m256i digits = next_digit(&y);
        _mm_storeu_si128((__m128i *)(c->q + 160 + 16 * n), _mm256_castsi256_si128(digits));
        const int last = _mm256_extract_epi32(digits, 4);
        if (n < 4) memcpy(c->q + 240 + 4 * n, &last, 4);
    }
}

// Values plus 128.
static const uint8_t table_iq4[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
// Doubled E2M1 plus 12.
static const uint8_t table_fp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
// Half of the magnitudes plus 31.
static const uint8_t table_iq3_xxs[16] = {33, 37, 41, 45, 49, 53, 57, 62, 29, 25, 21, 17, 13, 9, 5, 0};
// Plus 43.
static const uint8_t table_iq2[16] = {51, 68, 86, 43, 35, 18, 0, 43};
// Plus 9.
static const uint8_t table_iq1_m[16] = {0, 2, 8, 10, 16, 18};

static const ch_panel_spec specs[] = {
    // type, planes, max, scale, sub, d_shift, affine, table, zero, factor, min_factor, split
    {CH_TYPE_Q4_0, CH_P4, 15, CH_SC_F16, 32, 0, false, NULL, 8, 1, 0, split_q4_0},
    {CH_TYPE_Q4_1, CH_P4, 15, CH_SC_F16, 32, 0, true, NULL, 0, 1, -1, split_q4_1},
    {CH_TYPE_Q5_0, CH_P5, 31, CH_SC_F16, 32, 0, false, NULL, 16, 1, 0, split_q5_0},
    {CH_TYPE_Q5_1, CH_P5, 31, CH_SC_F16, 32, 0, true, NULL, 0, 1, -1, split_q5_1},
    {CH_TYPE_Q8_0, CH_P8, 255, CH_SC_F16, 32, 0, false, NULL, 128, 1, 0, split_q8_0},
    {CH_TYPE_Q2_K, CH_P2, 3, CH_SC_I8, 16, 3, true, NULL, 0, 1, 1, split_q2_k},
    {CH_TYPE_Q3_K, CH_P3, 7, CH_SC_I8, 16, 3, false, NULL, 4, 1, 0, split_q3_k},
    {CH_TYPE_Q4_K, CH_P4, 15, CH_SC_I8, 32, 3, true, NULL, 0, 1, 1, split_q4_k},
    {CH_TYPE_Q5_K, CH_P5, 31, CH_SC_I8, 32, 3, true, NULL, 0, 1, 1, split_q5_k},
    {CH_TYPE_Q6_K, CH_P6, 63, CH_SC_I8, 16, 3, false, NULL, 32, 1, 0, split_q6_k},
    {CH_TYPE_IQ4_NL, CH_P4, 241, CH_SC_F16, 32, 0, false, table_iq4, 128, 1, 0, split_q4_0},
    {CH_TYPE_IQ4_XS, CH_P4, 241, CH_SC_I8, 32, 3, false, table_iq4, 128, 1, 0, split_iq4_xs},
    {CH_TYPE_MXFP4, CH_P4, 24, CH_SC_BF16, 32, 0, false, table_fp4, 12, 1, 0, split_mxfp4},
    {CH_TYPE_NVFP4, CH_P4, 24, CH_SC_F16, 16, 0, false, table_fp4, 12, 1, 0, split_nvfp4},
    {CH_TYPE_IQ3_S, CH_P4, 15, CH_SC_I8, 32, 3, false, NULL, 7.5f, 2, 0, split_iq3_s},
    {CH_TYPE_IQ3_XXS, CH_P4, 62, CH_SC_I8, 32, 3, false, table_iq3_xxs, 31, 0.5f, 0, split_iq3_xxs},
    {CH_TYPE_IQ2_XXS, CH_P3, 86, CH_SC_I8, 32, 3, false, table_iq2, 43, 0.125f, 0, split_iq2_xxs},
    {CH_TYPE_IQ2_XS, CH_P3, 86, CH_SC_I8, 16, 3, false, table_iq2, 43, 0.125f, 0, split_iq2_xs},
    {CH_TYPE_IQ2_S, CH_P3, 86, CH_SC_I8, 16, 3, false, table_iq2, 43, 0.125f, 0, split_iq2_s},
    {CH_TYPE_IQ1_S, CH_P2, 3, CH_SC_I8, 32, 3, true, NULL, 0, 1, 0.125f, split_iq1_s},
    {CH_TYPE_IQ1_M, CH_P3, 18, CH_SC_I8, 16, 3, false, table_iq1_m, 9, 0.125f, 0, split_iq1_m},
    {CH_TYPE_TQ1_0, CH_P2, 3, CH_SC_F16, 32, 3, false, NULL, 1, 1, 0, split_tq1_0},
    {CH_TYPE_TQ2_0, CH_P2, 3, CH_SC_F16, 32, 3, false, NULL, 1, 1, 0, split_tq2_0},
    {CH_TYPE_Q1_0, CH_P2, 3, CH_SC_F16, 32, 2, false, NULL, 1, 1, 0, split_q1_0},
    {CH_TYPE_Q2_0, CH_P2, 3, CH_SC_F16, 32, 1, false, NULL, 1, 1, 0, split_q2_0},
};

const ch_panel_spec *ch_kern_panel_spec(const ch_type_info *t, size_t n_in) {
    if (!n_in || n_in % t->n_block) return NULL;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if (specs[i].type == (int)t->id) return &specs[i];
    return NULL;
}
