// Test data of tensor types, the same in tests/unit/test_quant.c and in tools/make_quant_golden.c: a fixed stream of
// blocks and of floats per type. Changing anything here means running the tool again.
#ifndef CH_TEST_QUANT_VECTORS_H
#define CH_TEST_QUANT_VECTORS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { VEC_BLOCKS = 1000, VEC_FLOATS = 32 * 4000, VEC_MAX_BLOCK = 292 };

// splitmix64 (Steele, Lea, Flood 2014)
static uint64_t vec_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t vec_seed(const char *name)
{
    uint64_t seed = 1;
    for (; *name; name++) seed = seed * 131 + (unsigned char)*name;
    return seed;
}

// Where a block keeps its f16 scales; everything not listed here has none.
typedef struct vec_scales {
    const char *name;
    int n, at[2];
} vec_scales;

static const vec_scales vec_f16[] = {
    {"f16", 1, {0}},     {"q4_0", 1, {0}},    {"q4_1", 2, {0, 2}},   {"q5_0", 1, {0}},    {"q5_1", 2, {0, 2}},
    {"q8_0", 1, {0}},    {"q8_1", 2, {0, 2}}, {"q2_k", 2, {80, 82}}, {"q3_k", 1, {108}},  {"q4_k", 2, {0, 2}},
    {"q5_k", 2, {0, 2}}, {"q6_k", 1, {208}},  {"iq2_xxs", 1, {0}},   {"iq2_xs", 1, {0}},  {"iq2_s", 1, {0}},
    {"iq3_xxs", 1, {0}}, {"iq3_s", 1, {0}},   {"iq1_s", 1, {0}},     {"iq4_nl", 1, {0}},  {"iq4_xs", 1, {0}},
    {"tq1_0", 1, {52}},  {"tq2_0", 1, {64}},  {"q1_0", 1, {0}},      {"q2_0", 1, {0}},    {"bf16", 1, {0}},
};

// Zero, the smallest and largest subnormal, the largest number, one; both signs.
static const uint16_t vec_extreme[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x7bff, 0xfbff, 0x3c00, 0xbc00};

// Random bytes with finite scales; in every eighth block the scales are extreme. The exponent of an infinity or NaN loses
// its top bit; in bf16 (not an f16) that bit has the same place.
static void vec_blocks(const char *name, size_t n_bytes, size_t n_blocks, uint8_t *out)
{
    uint64_t state = vec_seed(name);
    const vec_scales *s = NULL;
    for (size_t i = 0; i < sizeof vec_f16 / sizeof vec_f16[0]; i++)
        if (!strcmp(vec_f16[i].name, name)) s = &vec_f16[i];
    for (size_t i = 0; i < n_blocks; i++, out += n_bytes) {
        for (size_t j = 0; j < n_bytes; j++) out[j] = (uint8_t)(vec_next(&state) >> 56);
        uint16_t mask = !strcmp(name, "bf16") ? 0x7f80 : 0x7c00;
        for (int k = 0; s && k < s->n; k++) {
            uint16_t v;
            memcpy(&v, out + s->at[k], 2);
            if (i % 8 == 7) v = vec_extreme[(i / 8 + (size_t)k * (i / 64)) % 8];
            if ((v & mask) == mask) v &= 0xbfff;
            memcpy(out + s->at[k], &v, 2);
        }
        if (!strcmp(name, "iq1_m")) { // the scale is spread over the top nibbles of four words
            for (int k = 0; i % 8 == 7 && k < 4; k++) {
                unsigned nibble = vec_extreme[i / 8 % 8] >> (4 * k) & 15u;
                out[49 + 2 * k] = (uint8_t)((out[49 + 2 * k] & 15) | nibble << 4);
            }
            if ((out[55] & 0x70) == 0x70 && (out[53] & 0xc0) == 0xc0) out[55] &= 0xbf;
        }
        if (!strcmp(name, "q8_k") || !strcmp(name, "f32")) // f32 scale
            if ((out[3] & 0x7f) == 0x7f && (out[2] & 0x80)) out[3] &= 0xbf;
    }
}

// Runs of 32 values of several kinds; raw adds runs of random bit patterns without NaN, for the plain types.
static void vec_floats(const char *name, int raw, size_t n, float *out)
{
    uint64_t state = vec_seed(name) + 1;
    for (size_t i = 0; i < n; i += 32, out += 32) {
        size_t kind = i / 32 % (raw ? 10 : 9);
        int shift = (int)(vec_next(&state) % 41) - 20;
        for (size_t j = 0; j < 32; j++) {
            uint64_t r = vec_next(&state);
            float u = (float)((double)(r >> 11) * 0x1p-52 - 1); // [-1, 1)
            uint32_t bits = (uint32_t)r;
            switch (kind) {
            case 0: out[j] = 0; break;
            case 1: out[j] = r & 1 ? 0.0f : -0.0f; break;
            case 2: out[j] = ldexpf(1.5f, shift); break; // one value throughout
            case 3: out[j] = j ? (float)((int)(r % 508) - 254) * 0.5f : 127.0f; break; // ties of q8_0 at scale 1
            case 4: out[j] = j ? (float)((int)(r % 32) - 16) * 0.5f : -8.0f; break;    // ties of q4_0 at scale 1
            case 5: out[j] = r % 32 == j ? 1000 * u : u * 1e-3f; break;                // outliers
            case 6: out[j] = u * 1e30f; break; // scale past f16
            case 7: out[j] = u * 1e-30f; break; // scale below f16
            case 8: out[j] = ldexpf(u, shift); break;
            default:
                if ((bits & 0x7f800000) == 0x7f800000) bits &= 0xff800000;
                memcpy(&out[j], &bits, 4);
            }
        }
    }
}

#endif
