// Measuring loop of byte products with AMX: four tiles of sums, operands that stay in tiles.
#include <immintrin.h>
#include <string.h>

#include "kern/peak.h"

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t n_bytes[16]; // of a row
    uint8_t n_row[16];
} tile_config;

enum { ROWS = 16, BYTES = 64, TILES = 8 };

static uint64_t int8_amx(uint64_t rounds, uint32_t *sink) {
    tile_config config = {.palette = 1};
    uint8_t codes[ROWS * BYTES];
    uint32_t sums[ROWS * BYTES / 4];
    for (int i = 0; i < TILES; i++) config.n_bytes[i] = BYTES, config.n_row[i] = ROWS;
    memset(codes, (int)(*sink & 15), sizeof codes);
    // The intrinsic names only some of the bytes it reads.
    __asm__ volatile("" ::"r"(&config), "r"(codes) : "memory");
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, codes, BYTES);
    _tile_loadd(5, codes, BYTES);
    _tile_loadd(6, codes, BYTES);
    _tile_loadd(7, codes, BYTES);
    const uint64_t n = rounds / 16; // a product is as long as sixteen of those that the other loops are made of
    for (uint64_t r = 0; r < n; r++) {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 4, 7);
        _tile_dpbssd(2, 5, 6);
        _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(0, sums, BYTES);
    *sink += sums[0];
    _tile_stored(1, sums, BYTES);
    *sink += sums[0];
    _tile_stored(2, sums, BYTES);
    *sink += sums[0];
    _tile_stored(3, sums, BYTES);
    __asm__ volatile("" ::: "memory");
    *sink += sums[0];
    _tile_release();
    return n * 4 * 2 * ROWS * ROWS * BYTES;
}

void ch_kern_peak_set_amx(ch_kern_peak *k) {
    k->int8 = int8_amx;
}
