// Measuring loop of byte products with AMX: four tiles of sums, operands that stay in tiles.
#include <immintrin.h>
#include <string.h>

#include "kern/peak.h"
#include "kern/x86/tiles_amx.h"

static uint64_t int8_amx(uint64_t rounds, uint32_t *sink) {
    const ch_tile_config config = ch_tiles_whole();
    uint8_t codes[CH_TILE_ROWS * CH_TILE_BYTES];
    uint32_t sums[CH_TILE_ROWS * CH_TILE_BYTES / 4];
    memset(codes, (int)(*sink & 15), sizeof codes);
    __asm__ volatile("" ::"r"(codes) : "memory");
    ch_tiles_begin(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, codes, CH_TILE_BYTES);
    _tile_loadd(5, codes, CH_TILE_BYTES);
    _tile_loadd(6, codes, CH_TILE_BYTES);
    _tile_loadd(7, codes, CH_TILE_BYTES);
    const uint64_t n = rounds / 16; // a product is as long as sixteen of those that the other loops are made of
    for (uint64_t r = 0; r < n; r++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(0, sums, CH_TILE_BYTES);
    *sink += sums[0];
    _tile_stored(1, sums, CH_TILE_BYTES);
    *sink += sums[0];
    _tile_stored(2, sums, CH_TILE_BYTES);
    *sink += sums[0];
    _tile_stored(3, sums, CH_TILE_BYTES);
    __asm__ volatile("" ::: "memory");
    *sink += sums[0];
    _tile_release();
    return n * 4 * 2 * CH_TILE_ROWS * CH_TILE_ROWS * CH_TILE_BYTES;
}

void ch_kern_peak_set_amx(ch_kern_peak *k) {
    k->int8 = int8_amx;
}
