// kern/x86, private: products with many tokens. A chunk is a few blocks of one panel with every code a byte and every scale a
// float, small enough for the first-level cache: unpacked once, used for all tokens. Activations are laid out in groups of 16
// tokens side by side. What a chunk kernel computes does not depend on the type of the weights.
//
// The order of the sums is that of the few-token kernels (tile_avx512.h): bits do not depend on which of them ran.
#ifndef CH_KERN_X86_MANY_H
#define CH_KERN_X86_MANY_H

#include "base/attr.h"
#include "kern/x86/panel.h"
#include "kern/x86/x86.h"

enum { CH_MANY_BLOCKS = 32, CH_GROUP_TOKENS = 16 };

// Codes are in steps as in a panel of 8 bits (see panel.h); [2]: sub-blocks of 16 inputs, else only the first is used.
struct ch_many_chunk {
    CH_ALIGNED(64) uint8_t codes[CH_MANY_BLOCKS][CH_PANEL_BLOCK * CH_PANEL_ROWS];
    float w[CH_MANY_BLOCKS][2][CH_PANEL_ROWS], min[CH_MANY_BLOCKS][2][CH_PANEL_ROWS];
};

// A group's block: q [16 tokens][32], d [16] f32, then for each sub-block [16] values that the kernel asks for: f32 d * sum of
// q (affine types), or i32 -zero * sum of q.
enum { CH_GROUP_D = CH_GROUP_TOKENS * CH_PANEL_BLOCK, CH_GROUP_SUMS = CH_GROUP_D + 4 * CH_GROUP_TOKENS };

// One chunk times one group. y: n_row results of each of n_tok tokens, set if first, else added to.
typedef struct ch_many_args {
    const ch_many_chunk *chunk;
    size_t n_blk;
    const uint8_t *group; // its block that meets the chunk's first
    size_t ld_group;      // bytes between a group's blocks
    float *y;
    size_t ld_y, n_tok, n_row;
    bool first;
} ch_many_args;
typedef void (*ch_many_fn)(const ch_many_args *a);

typedef struct ch_many_kernel {
    bool is_signed;  // codes less their zero, as signed bytes; else as they are, and -zero * sum of q goes with the group
    size_t n_blk;    // blocks of a chunk
    size_t min_rest; // fewer tokens than this past the last whole group go to the few-token kernel
    ch_many_fn fn[2][2]; // by [sub-blocks of 16][affine]
} ch_many_kernel;

const ch_many_kernel *ch_kern_many_avx512(void);

// mat_many.c
size_t ch_kern_many_work_bytes(size_t n_in);
// Packed matrices only.
void ch_kern_matmul_many(const ch_mat_call *c, const ch_panel_spec *s, const ch_panel_kernel *p, const ch_many_kernel *k);

#endif
