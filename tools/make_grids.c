// make_grids: writes src/quant/grids.c, the codebooks of the grid tensor types, by probing a reference library.
//   cc -std=c11 -O1 tools/make_grids.c -ldl -o make_grids && ./make_grids path/to/libggml-base.so > src/quant/grids.c
//
// The codebooks are facts of the file format: index i stands for a fixed vector of 8 (or 4) small numbers. The library's
// dequantize_row_<type> (C linkage) turns blocks into floats, so blocks whose scale is 1, whose signs are plus and whose
// indices count upwards return the codebook itself:
//   IQ2_XXS, IQ2_XS, IQ2_S: value = d * 0.5 * 0.25 * grid at scale code 0, hence d = 8
//   IQ3_XXS: value = d * 0.5 * 0.5 * grid, hence d = 4;  IQ3_S: value = d * grid, d = 1
//   IQ1_S: value = d * (grid + 0.125), d = 1
// Every value found must be one of the known levels and no entry may occur twice, otherwise nothing is written.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*decode_fn)(const void *blocks, float *y, int64_t n);

typedef struct grid {
    const char *name;     // of the C table
    const char *symbol;   // decoder in the library
    const char *comment;
    size_t n_entries, n_dim, n_bits; // n_bits: per value in the packed word
    size_t n_bytes;                  // of a block
    uint16_t scale;                  // f16 bits of d
    float shift;                     // added by the type to every value
    float level[8];
    size_t n_levels;
} grid;

// Puts entry numbers first .. into a block of 256 values; the rest of the block stays 0 (scale code 0, no sign set).
typedef void (*craft_fn)(uint8_t *block, size_t first);

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void craft_iq2_xxs(uint8_t *b, size_t first)
{
    for (size_t i = 0; i < 32; i++) b[2 + 8 * (i / 4) + i % 4] = (uint8_t)(first + i);
}

static void craft_iq2_xs(uint8_t *b, size_t first)
{
    for (size_t i = 0; i < 32; i++) put16(b + 2 + 2 * i, (unsigned)(first + i));
}

static void craft_iq2_s(uint8_t *b, size_t first)
{
    for (size_t i = 0; i < 32; i++) {
        b[2 + i] = (uint8_t)(first + i);
        b[66 + i / 4] |= (uint8_t)(((first + i) >> 8) << (2 * (i % 4)));
    }
}

static void craft_iq3_xxs(uint8_t *b, size_t first)
{
    for (size_t i = 0; i < 64; i++) b[2 + i] = (uint8_t)(first + i);
}

static void craft_iq3_s(uint8_t *b, size_t first)
{
    for (size_t i = 0; i < 64; i++) {
        b[2 + i] = (uint8_t)(first + i);
        b[66 + i / 8] |= (uint8_t)(((first + i) >> 8) << (i % 8));
    }
}

static void craft_iq1_s(uint8_t *b, size_t first)
{
    for (size_t ib = 0; ib < 8; ib++) {
        unsigned high = 0;
        for (size_t l = 0; l < 4; l++) {
            size_t entry = first + 4 * ib + l;
            b[2 + 4 * ib + l] = (uint8_t)entry;
            high |= (unsigned)(entry >> 8) << (3 * l);
        }
        put16(b + 34 + 2 * ib, high);
    }
}

static const grid grids[] = {
    {"ch_quant_grid_iq2_xxs", "dequantize_row_iq2_xxs", "8 x 2 bits, codes of ch_quant_levels_iq2", 256, 8, 2, 66, 0x4800, 0,
     {8, 25, 43}, 3},
    {"ch_quant_grid_iq2_xs", "dequantize_row_iq2_xs", "8 x 2 bits, codes of ch_quant_levels_iq2", 512, 8, 2, 74, 0x4800, 0,
     {8, 25, 43}, 3},
    {"ch_quant_grid_iq2_s", "dequantize_row_iq2_s", "8 x 2 bits, codes of ch_quant_levels_iq2", 1024, 8, 2, 82, 0x4800, 0,
     {8, 25, 43}, 3},
    {"ch_quant_grid_iq3_xxs", "dequantize_row_iq3_xxs", "4 x 3 bits, codes of ch_quant_levels_iq3_xxs", 256, 4, 3, 98, 0x4400, 0,
     {4, 12, 20, 28, 36, 44, 52, 62}, 8},
    {"ch_quant_grid_iq3_s", "dequantize_row_iq3_s", "4 x 3 bits, code c stands for 2c + 1", 512, 4, 3, 110, 0x3c00, 0,
     {1, 3, 5, 7, 9, 11, 13, 15}, 8},
    {"ch_quant_grid_iq1", "dequantize_row_iq1_s", "8 x 2 bits, code c stands for c - 1", 2048, 8, 2, 50, 0x3c00, 0.125f,
     {-1, 0, 1}, 3},
};
static const craft_fn crafts[] = {craft_iq2_xxs, craft_iq2_xs, craft_iq2_s, craft_iq3_xxs, craft_iq3_s, craft_iq1_s};

// Packs the n_dim values of one entry, first value in the lowest bits; false when a value is none of the levels.
static int pack_entry(const grid *g, const float *y, unsigned *out)
{
    *out = 0;
    for (size_t j = 0; j < g->n_dim; j++) {
        size_t c = 0;
        while (c < g->n_levels && y[j] - g->shift != g->level[c]) c++;
        if (c == g->n_levels) {
            fprintf(stderr, "%s: %g is not a known level\n", g->symbol, (double)y[j]);
            return 0;
        }
        *out |= (unsigned)c << (g->n_bits * j);
    }
    return 1;
}

static int print_grid(const grid *g, craft_fn craft, void *lib)
{
    static unsigned words[2048];
    static uint8_t seen[65536];
    decode_fn decode;
    *(void **)&decode = dlsym(lib, g->symbol);
    if (!decode) {
        fprintf(stderr, "no %s in the library\n", g->symbol);
        return 0;
    }
    size_t per_block = 256 / g->n_dim;
    memset(seen, 0, sizeof seen);
    for (size_t first = 0; first < g->n_entries; first += per_block) {
        uint8_t block[128] = {0};
        float y[256];
        put16(block, g->scale);
        craft(block, first);
        decode(block, y, 256);
        for (size_t i = 0; i < per_block; i++) {
            if (!pack_entry(g, y + i * g->n_dim, &words[first + i])) return 0;
            if (seen[words[first + i]]++) {
                fprintf(stderr, "%s: entry %zu occurs twice\n", g->symbol, first + i);
                return 0;
            }
        }
    }
    printf("\n// %s\nconst uint16_t %s[%zu] = {", g->comment, g->name, g->n_entries);
    for (size_t i = 0; i < g->n_entries; i++)
        printf("%s0x%04x%s", i % 14 ? " " : "\n    ", words[i], i + 1 < g->n_entries ? "," : "");
    printf("\n};\n");
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_grids libggml-base.so > src/quant/grids.c\n");
        return 2;
    }
    void *lib = dlopen(argv[1], RTLD_NOW);
    if (!lib) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    printf("// Codebooks of the grid tensor types, packed. Generated by tools/make_grids.c, which says how; do not edit.\n"
           "// The first value of an entry is in the lowest bits.\n"
           "#include \"quant/quant.h\"\n");
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        if (!print_grid(&grids[i], crafts[i], lib)) return 1;
    return 0;
}
