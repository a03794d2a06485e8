// kern/x86, private: the packed form of quantised matrices and the packed forms of activations, shared by the x86 tiers.
//
// A panel is 16 output rows side by side. It has three runs, each rounded up to 64 bytes:
//   codes  per block of 32 inputs: bit planes. A step is 4 inputs of 16 rows: byte 4 * row + input % 4 of 64 bytes.
//          4-bit plane: 4 x 64 bytes, step 2k in the low nibbles of vector k, 2k+1 in the high ones; 2-bit plane: 2 x 64
//          bytes, step 4k+j in bits 2j; 1-bit plane: 64 bytes, step s in bit s; 8 bits: 8 x 64 bytes.
//   subs   scales of 8 bits, where the type has them: per block [sub-blocks][16 rows] i8, then as many u8 mins if affine
//   ds     [16 rows] f16 (or bf16) per 2^d_shift blocks (or per sub-block), then as many for the mins if affine
// A weight is  factor * d * sub * (table[code] - zero),  or  factor * d * sub * code - min_factor * dm * min  if affine.
// No weight value changes: codes and scales are those of the file.
#ifndef CH_KERN_X86_PANEL_H
#define CH_KERN_X86_PANEL_H

#include "kern/kern.h"

enum { CH_PANEL_ROWS = 16, CH_PANEL_BLOCK = 32 };
// Width of codes in bits; also the planes: 3 = 2+1, 5 = 4+1, 6 = 4+2.
enum { CH_P2 = 2, CH_P3, CH_P4, CH_P5, CH_P6, CH_P8 = 8 };
// Scales: f16 or bf16 alone, or 8-bit sub-scales times f16.
enum { CH_SC_F16, CH_SC_BF16, CH_SC_I8 };

// One file block of one row, taken apart.
typedef struct ch_codes {
    uint8_t q[256];
    int8_t sub[16];
    uint8_t min[16];
    uint16_t d[4], m; // d: one per block, or per 16 inputs where ds are per sub-block
} ch_codes;

typedef struct ch_panel_spec {
    int16_t type;     // CH_TYPE_*
    uint8_t planes;   // CH_P*
    uint8_t max_code; // largest value after the table; decides how many steps fit 16-bit sums
    uint8_t scale;    // CH_SC_*
    uint8_t sub;      // inputs per sub-scale: 16 or 32
    uint8_t d_shift;  // log2 of blocks per d
    bool affine;
    const uint8_t *table; // [16] bytes or NULL
    float zero, factor, min_factor;
    void (*split)(const uint8_t *block, ch_codes *c);
} ch_panel_spec;

// NULL: no panel for this type, or rows of n_in values cannot be cut into its blocks.
const ch_panel_spec *ch_kern_panel_spec(const ch_type_info *t, size_t n_in);

typedef struct ch_panel_size {
    size_t codes, subs, ds; // bytes of each run
    size_t code_block, sub_block, d_block;
} ch_panel_size;

static inline ch_panel_size ch_panel_sizes(const ch_panel_spec *s, size_t n_in) {
    const size_t n_blk = n_in / CH_PANEL_BLOCK, two = s->affine ? 2 : 1, n_sub = CH_PANEL_BLOCK / s->sub;
    ch_panel_size z;
    z.code_block = 64u * s->planes;
    z.sub_block = s->scale == CH_SC_I8 ? CH_PANEL_ROWS * n_sub * two : 0;
    z.d_block = CH_PANEL_ROWS * 2 * two * (s->scale == CH_SC_I8 ? 1 : n_sub);
    z.codes = n_blk * z.code_block;
    z.subs = (n_blk * z.sub_block + 63) & ~(size_t)63;
    z.ds = ((((n_blk - 1) >> s->d_shift) + 1) * z.d_block + 63) & ~(size_t)63;
    return z;
}

static inline size_t ch_panel_bytes(const ch_panel_spec *s, size_t n_in) {
    const ch_panel_size z = ch_panel_sizes(s, n_in);
    return z.codes + z.subs + z.ds;
}

// One packed panel and what goes with its type.
typedef struct ch_panel_view {
    const uint8_t *codes, *subs, *ds;
    size_t n_blk;
    size_t sub_block, d_block;        // as in ch_panel_size
    const uint8_t *fetch; // where to fetch ahead from, or NULL; see ch_panel_fetch_ahead
    size_t fetch_stride, fetch_block;
    unsigned d_shift;
    float zero, factor, min_factor;
    int int_zero;                     // ch_panel_zero
    const uint8_t *table;
} ch_panel_view;

// The zero of codes that are read doubled where half a unit is needed (AVX-512).
static inline int ch_panel_zero(const ch_panel_spec *s) {
    return (int)s->zero == s->zero ? (int)s->zero : (int)(2 * s->zero);
}

static inline ch_panel_view ch_panel_view_of(const ch_panel_spec *s, const uint8_t *panel, size_t n_in) {
    const ch_panel_size z = ch_panel_sizes(s, n_in);
    return (ch_panel_view){.codes = panel,
                           .subs = panel + z.codes,
                           .ds = panel + z.codes + z.subs,
                           .n_blk = n_in / CH_PANEL_BLOCK,
                           .sub_block = z.sub_block,
                           .d_block = z.d_block,
                           .d_shift = s->d_shift,
                           .zero = s->zero,
                           .factor = s->factor,
                           .min_factor = s->min_factor,
                           .int_zero = ch_panel_zero(s),
                           .table = s->table};
}

// With few tokens the product waits for memory, and the processor's own prefetching falls short. So while the panels of one
// group are multiplied, the next group is asked for, a block of each of its panels in turn: reading CH_FETCH_PANELS places at once
// keeps more of the memory busy than reading one.
enum { CH_FETCH_PANELS = 4 };
static inline void ch_panel_fetch_ahead(const ch_panel_view *p, size_t b, int planes) {
    const uint8_t *panel = p->fetch + b % CH_FETCH_PANELS * p->fetch_stride;
    const size_t at = p->fetch_block + b / CH_FETCH_PANELS;
    const uint8_t *c = panel + at * 64 * (size_t)planes;
#pragma GCC unroll 8
    for (int i = 0; i < planes; i++) __builtin_prefetch(c + 64 * i, 0, 2);
    __builtin_prefetch(panel + (p->ds - p->codes) + (at >> p->d_shift) * p->d_block, 0, 2);
    if (p->sub_block) __builtin_prefetch(panel + (p->subs - p->codes) + at * p->sub_block, 0, 2);
}

// Rows of activations and of results: n_tok of each. y: 16 results per token, or n_row < 16 of them.
typedef struct ch_panel_rows {
    const uint8_t *act;
    size_t ld_act, n_tok;
    float *y;
    size_t ld_y, n_row;
} ch_panel_rows;

typedef void (*ch_panel_fn)(const ch_panel_view *p, const ch_panel_rows *r);

// AVX-512: the product of a few tokens, and blocks [b0, b0 + n) as a chunk (many.h), offset taken off every code.
typedef struct ch_many_chunk ch_many_chunk;
typedef struct ch_panel_kernel {
    ch_panel_fn few;
    void (*unpack)(const ch_panel_view *p, size_t b0, size_t n, int offset, ch_many_chunk *dst);
} ch_panel_kernel;

// Activations, 32 inputs. A row is n_in / 32 of these.
typedef struct ch_act8 {
    int8_t q[32]; // -127..127
    float d;
    float dsum;      // d * sum of q
    float dsum16[2]; // the same of each half
    int16_t sum16[2];
    int32_t sum;
    float pad[2];
} ch_act8;

// Wide form for 8-bit weights on AVX2, whose byte products do not fit 16-bit pair sums: 16-bit products cost the same there,
// so the activations may as well keep 16 bits. Of each 4 inputs: (0, 2), then (1, 3).
typedef struct ch_act16 {
    int16_t q[32]; // -32767..32767
    float d;
    int32_t sum;
    float pad[6];
} ch_act16;

#endif
