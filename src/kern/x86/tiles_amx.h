// kern/x86, private: shapes of the AMX tiles.
#ifndef CH_KERN_X86_TILES_AMX_H
#define CH_KERN_X86_TILES_AMX_H

#include <immintrin.h>
#include <stdint.h>

#include "base/attr.h"

enum { CH_TILE_ROWS = 16, CH_TILE_BYTES = 64, CH_TILES = 8 };

typedef struct ch_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t n_bytes[16]; // of a row
    uint8_t n_row[16];
} ch_tile_config;

// All tiles of the largest shape.
CH_FORCE_INLINE ch_tile_config ch_tiles_whole(void) {
    ch_tile_config c = {.palette = 1};
    for (int i = 0; i < CH_TILES; i++) c.n_row[i] = CH_TILE_ROWS, c.n_bytes[i] = CH_TILE_BYTES;
    return c;
}

// _tile_release ends their use.
CH_FORCE_INLINE void ch_tiles_begin(const ch_tile_config *c) {
    __asm__ volatile("" ::"r"(c) : "memory"); // the intrinsic names only some of the bytes it reads
    _tile_loadconfig(c);
}

#endif
