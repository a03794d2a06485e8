// make_quant_golden: writes tests/unit/quant_golden.h: what a reference library makes of the streams of
// tests/unit/quant_vectors.h, as hashes of the output bytes.
//   cc -std=gnu11 -O1 -Itests tools/make_quant_golden.c -ldl -lxxhash -lm -o make_quant_golden
//   ./make_quant_golden path/to/libggml-base.so > tests/unit/quant_golden.h
// f32 and q8_1 have no decoder there; theirs is written out here (q8_1: code times scale).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "unit/quant_vectors.h"

static const struct {
    const char *name, *decode, *encode;
    size_t n_block, n_bytes;
} types[] = {
    {"f32", NULL, NULL, 1, 4},
    {"f16", "ggml_fp16_to_fp32_row", "ggml_fp32_to_fp16_row", 1, 2},
    {"bf16", "ggml_bf16_to_fp32_row", "ggml_fp32_to_bf16_row_ref", 1, 2},
    {"q4_0", "dequantize_row_q4_0", "quantize_row_q4_0_ref", 32, 18},
    {"q4_1", "dequantize_row_q4_1", NULL, 32, 20},
    {"q5_0", "dequantize_row_q5_0", NULL, 32, 22},
    {"q5_1", "dequantize_row_q5_1", NULL, 32, 24},
    {"q8_0", "dequantize_row_q8_0", "quantize_row_q8_0_ref", 32, 34},
    {"q8_1", NULL, NULL, 32, 36},
    {"q2_k", "dequantize_row_q2_K", NULL, 256, 84},
    {"q3_k", "dequantize_row_q3_K", NULL, 256, 110},
    {"q4_k", "dequantize_row_q4_K", NULL, 256, 144},
    {"q5_k", "dequantize_row_q5_K", NULL, 256, 176},
    {"q6_k", "dequantize_row_q6_K", NULL, 256, 210},
    {"q8_k", "dequantize_row_q8_K", NULL, 256, 292},
    {"iq2_xxs", "dequantize_row_iq2_xxs", NULL, 256, 66},
    {"iq2_xs", "dequantize_row_iq2_xs", NULL, 256, 74},
    {"iq3_xxs", "dequantize_row_iq3_xxs", NULL, 256, 98},
    {"iq1_s", "dequantize_row_iq1_s", NULL, 256, 50},
    {"iq4_nl", "dequantize_row_iq4_nl", NULL, 32, 18},
    {"iq3_s", "dequantize_row_iq3_s", NULL, 256, 110},
    {"iq2_s", "dequantize_row_iq2_s", NULL, 256, 82},
    {"iq4_xs", "dequantize_row_iq4_xs", NULL, 256, 136},
    {"iq1_m", "dequantize_row_iq1_m", NULL, 256, 56},
    {"tq1_0", "dequantize_row_tq1_0", NULL, 256, 54},
    {"tq2_0", "dequantize_row_tq2_0", NULL, 256, 66},
    {"mxfp4", "dequantize_row_mxfp4", NULL, 32, 17},
    {"nvfp4", "dequantize_row_nvfp4", NULL, 64, 36},
    {"q1_0", "dequantize_row_q1_0", NULL, 128, 18},
    {"q2_0", "dequantize_row_q2_0", NULL, 64, 18},
};
static void *lib;

static void *symbol(const char *name)
{
    void *p = dlsym(lib, name);
    if (!p) {
        fprintf(stderr, "no %s in the library\n", name);
        exit(1);
    }
    return p;
}

static uint64_t hash_decoded(size_t i)
{
    static uint8_t blocks[VEC_BLOCKS * VEC_MAX_BLOCK];
    static float y[VEC_BLOCKS * 256];
    size_t n = VEC_BLOCKS * types[i].n_block;
    vec_blocks(types[i].name, types[i].n_bytes, VEC_BLOCKS, blocks);
    if (types[i].decode) {
        void (*decode)(const void *, float *, int64_t);
        *(void **)&decode = symbol(types[i].decode);
        decode(blocks, y, (int64_t)n);
    } else if (types[i].n_block == 1) {
        memcpy(y, blocks, n * sizeof *y);
    } else {
        float (*from_f16)(uint16_t);
        *(void **)&from_f16 = symbol("ggml_fp16_to_fp32");
        for (size_t k = 0; k < n; k++) {
            uint16_t d;
            memcpy(&d, blocks + k / 32 * 36, 2);
            y[k] = (float)(int8_t)blocks[k / 32 * 36 + 4 + k % 32] * from_f16(d);
        }
    }
    return XXH3_64bits(y, n * sizeof *y);
}

static uint64_t hash_encoded(size_t i)
{
    static float x[VEC_FLOATS];
    static uint8_t blocks[VEC_FLOATS * 4];
    vec_floats(types[i].name, types[i].n_block == 1, VEC_FLOATS, x);
    void (*encode)(const float *, void *, int64_t);
    *(void **)&encode = symbol(types[i].encode);
    encode(x, blocks, VEC_FLOATS);
    return XXH3_64bits(blocks, VEC_FLOATS / types[i].n_block * types[i].n_bytes);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !(lib = dlopen(argv[1], RTLD_NOW))) {
        fprintf(stderr, "usage: make_quant_golden libggml-base.so > tests/unit/quant_golden.h\n");
        return 2;
    }
    printf("// XXH3 of decoded and encoded streams of a reference library, by tools/make_quant_golden.c; do not edit.\n"
           "// 0: no encoder.\n"
           "static const struct {\n    const char *name;\n    uint64_t decoded, encoded;\n} golden[] = {\n");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        unsigned long long decoded = hash_decoded(i), encoded = types[i].encode ? hash_encoded(i) : 0;
        printf("    {\"%s\", 0x%016llx, 0x%016llx},\n", types[i].name, decoded, encoded);
    }
    printf("};\n");
    return 0;
}
