// AVX-512 attention and rotation.
#include "kern/x86/vec_avx512.h"
#include "kern/x86/attn_tiles.h"

void ch_kern_set_attn_avx512(ch_kern *k) {
    k->attn = attn_tiles;
    k->attn_scratch = tiles_scratch;
    k->rotate = rotate_tiles;
}
