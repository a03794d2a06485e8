// Building panels: 16 rows of file blocks are taken apart (split_avx2.c), transposed in 4-byte lanes and folded into bit planes.
#include <immintrin.h>
#include <string.h>

#include "base/attr.h"
#include "kern/x86/panel.h"
#include "kern/x86/x86.h"

enum { AHEAD = 512 }; // bytes of a row fetched before they are needed; past the end of the last one does no harm

// in: 8 rows of 32 bytes; out[s]: bytes 4s..4s+3 of all rows.
CH_FORCE_INLINE void transpose8(const __m256i in[8], __m256i out[8]) {
    __m256i a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        out[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        out[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

// Bits [low, low + width) of the codes of one half (8 rows) as a plane; vectors are 64 bytes apart.
CH_FORCE_INLINE void write_plane(const __m256i step[8], int low, int width, uint8_t *dst) {
    const __m256i mask = _mm256_set1_epi8((char)((1 << width) - 1));
    const int per = 8 / width;
#pragma GCC unroll 8
    for (int v = 0; v < width; v++) {
        __m256i x = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int j = 0; j < per; j++) {
            const __m256i bits = _mm256_and_si256(_mm256_srli_epi16(step[v * per + j], low), mask);
            x = _mm256_or_si256(x, _mm256_slli_epi16(bits, j * width));
        }
        _mm256_store_si256((__m256i *)(dst + 64 * v), x);
    }
}

// Codes of inputs [at, at + 32) of 16 rows.
CH_FORCE_INLINE void write_codes(int planes, const ch_codes *rows, size_t at, uint8_t *dst) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m256i in[8], step[8];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++) in[r] = _mm256_loadu_si256((const __m256i *)(rows[8 * half + r].q + at));
        transpose8(in, step);
        uint8_t *d = dst + 32 * half;
        write_plane(step, 0, planes <= CH_P3 ? 2 : planes == CH_P8 ? 8 : 4, d);
        if (planes == CH_P3) write_plane(step, 2, 1, d + 128);
        if (planes == CH_P5) write_plane(step, 4, 1, d + 256);
        if (planes == CH_P6) write_plane(step, 4, 2, d + 256);
    }
}

static void write_all_codes(int planes, const ch_codes *rows, size_t n_blk, uint8_t *dst) {
    for (size_t j = 0; j < n_blk; j++, dst += 64 * planes) switch (planes) {
        case CH_P2: write_codes(CH_P2, rows, j * CH_PANEL_BLOCK, dst); break;
        case CH_P3: write_codes(CH_P3, rows, j * CH_PANEL_BLOCK, dst); break;
        case CH_P4: write_codes(CH_P4, rows, j * CH_PANEL_BLOCK, dst); break;
        case CH_P5: write_codes(CH_P5, rows, j * CH_PANEL_BLOCK, dst); break;
        case CH_P6: write_codes(CH_P6, rows, j * CH_PANEL_BLOCK, dst); break;
        default: write_codes(CH_P8, rows, j * CH_PANEL_BLOCK, dst); break;
        }
}

// All sub-scales (or mins) of a file block at once: out[j][r] = byte j of row r, 16 x 16.
CH_FORCE_INLINE void transpose16(const uint8_t *rows, size_t stride, __m128i out[16]) {
    __m128i a[16], b[16];
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) a[r] = _mm_loadu_si128((const __m128i *)(rows + (size_t)r * stride));
    // Four rounds of interleaving rows r and r + 8 put byte j of all rows into vector j.
#pragma GCC unroll 4
    for (int round = 0; round < 4; round++) {
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++) {
            b[2 * r] = _mm_unpacklo_epi8(a[r], a[r + 8]);
            b[2 * r + 1] = _mm_unpackhi_epi8(a[r], a[r + 8]);
        }
        memcpy(a, b, sizeof a);
    }
    memcpy(out, a, sizeof a);
}

// Sub-scales, then mins, of the n_blk blocks of a file block.
static void write_subs(const ch_panel_spec *s, const ch_codes *rows, size_t n_blk, uint8_t *dst) {
    const size_t n_sub = CH_PANEL_BLOCK / s->sub;
    __m128i sub[16], min[16];
    transpose16((const uint8_t *)rows[0].sub, sizeof *rows, sub);
    if (s->affine) transpose16(rows[0].min, sizeof *rows, min);
    for (size_t b = 0; b < n_blk; b++) {
        for (size_t j = 0; j < n_sub; j++) {
            _mm_storeu_si128((__m128i *)dst, sub[b * n_sub + j]);
            dst += CH_PANEL_ROWS;
        }
        for (size_t j = 0; s->affine && j < n_sub; j++) {
            _mm_storeu_si128((__m128i *)dst, min[b * n_sub + j]);
            dst += CH_PANEL_ROWS;
        }
    }
}

static void write_ds(const ch_panel_spec *s, const ch_codes *rows, size_t first, size_t n, uint8_t *dst) {
    uint16_t d[CH_PANEL_ROWS];
    for (size_t j = first; j < first + n; j++) {
        for (size_t r = 0; r < CH_PANEL_ROWS; r++) d[r] = rows[r].d[j];
        memcpy(dst, d, sizeof d);
        dst += sizeof d;
    }
    if (!s->affine) return;
    for (size_t r = 0; r < CH_PANEL_ROWS; r++) d[r] = rows[r].m;
    memcpy(dst, d, sizeof d);
}

void ch_kern_pack_panel_avx2(const ch_panel_spec *s, const ch_type_info *t, const uint8_t *rows, size_t row_bytes,
                             size_t n_rows, size_t n_in, uint8_t *dst) {
    ch_codes c[CH_PANEL_ROWS];
    const ch_panel_size z = ch_panel_sizes(s, n_in);
    const size_t per = t->n_block / CH_PANEL_BLOCK, n_sub = CH_PANEL_BLOCK / s->sub;
    uint8_t *codes = dst, *subs = dst + z.codes, *ds = subs + z.subs;
    memset(c, 0, sizeof c);
    // The runs' round-up is zeroed, so that packing twice gives the same bytes.
    if (z.subs) memset(subs + z.subs - 64, 0, 64);
    memset(ds + z.ds - 64, 0, 64);
    for (size_t b = 0; b < n_in / t->n_block; b++) {
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *block = rows + r * row_bytes + b * t->n_bytes;
            _mm_prefetch((const char *)block + AHEAD, _MM_HINT_T0); // sixteen streams are many for the processor to follow
            s->split(block, &c[r]);
        }
        write_all_codes(s->planes, c, per, codes);
        codes += per * z.code_block;
        for (size_t j = 0; j < per && s->scale != CH_SC_I8 && s->sub < CH_PANEL_BLOCK; j++) {
            write_ds(s, c, j * n_sub, n_sub, ds);
            ds += z.d_block;
        }
        if (s->scale == CH_SC_I8) {
            write_subs(s, c, per, subs);
            subs += per * z.sub_block;
        }
        if (s->scale == CH_SC_I8 || s->sub == CH_PANEL_BLOCK) {
            write_ds(s, c, 0, 1, ds);
            ds += z.d_block;
        }
    }
}
