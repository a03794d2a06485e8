// tq4 and tq3, for cached keys and values only: a block is one rotated vector, stored as a factor and, per coordinate, the index
// of a level. A random rotation makes the coordinates of a unit vector of n dimensions follow the density
// (1 - x^2)^((n-3)/2), whatever the vector was; the levels are the Lloyd-Max quantiser of that density. They lie inside the
// values they stand for, so that with the vector's length as the factor all products would come out too small; instead the
// factor makes the product of a vector with its decoded form its squared length (docs/SPEED.md: a third of the divergence).
// Block: f16 factor, then indices, low bits first (two per byte, or eight in three bytes), low index = lowest level.
#include <math.h>
#include <strings.h>

#include "quant/codecs.h"

enum { MIN_BLOCK = 32, N_SIZES = 4, MAX_LEVELS = 8 }; // blocks of 32, 64, 128, 256; levels above zero

// Levels above zero, lowest first; those below mirror them. A level is the mean of its cell, a border the middle of two
// levels (tests/unit/test_turbo.c makes them again).
static const float levels4[N_SIZES][8] = {
    {0.0223292943f, 0.0674242035f, 0.1138960164f, 0.1629194755f, 0.2161900036f, 0.2765643587f, 0.3499245152f, 0.4534281914f},
    {0.0159190236f, 0.0480897808f, 0.0813117668f, 0.1164867508f, 0.1549255210f, 0.1988561290f, 0.2529137130f, 0.3307962975f},
    {0.0113024974f, 0.0341515670f, 0.0577722966f, 0.0828284524f, 0.1102883623f, 0.1418051876f, 0.1808359534f, 0.2376638191f},
    {0.0080083748f, 0.0242008751f, 0.0409491954f, 0.0587321039f, 0.0782493080f, 0.1006980017f, 0.1285881935f, 0.1694104317f}};
static const float levels3[N_SIZES][4] = {{0.0428515156f, 0.1317560952f, 0.2324605632f, 0.3662682376f},
                                          {0.0304691796f, 0.0938322646f, 0.1661678607f, 0.2639139298f},
                                          {0.0216043110f, 0.0665856061f, 0.1181397644f, 0.1883971834f},
                                          {0.0152974879f, 0.0471667087f, 0.0837654543f, 0.1338542874f}};

// size: place of the block in the tables above.
static const float *positive(int bits, int size) {
    return bits == 4 ? levels4[size] : levels3[size];
}

static void decode(const uint8_t *b, float *dst, size_t n, int bits, int size) {
    const size_t block = (size_t)MIN_BLOCK << size;
    float level[2 * MAX_LEVELS];
    ch_quant_turbo_levels(bits == 4 ? CH_TYPE_TQ4 : CH_TYPE_TQ3, block, level);
    for (; n; n -= block, dst += block) {
        const float factor = load_f16(b);
        b += 2;
        for (size_t i = 0; i < block; i += 8, b += bits) {
            uint32_t code = (uint32_t)(b[0] | b[1] << 8 | b[2] << 16);
            if (bits == 4) code |= (uint32_t)b[3] << 24;
            for (int k = 0; k < 8; k++) dst[i + (size_t)k] = factor * level[code >> bits * k & ((1u << bits) - 1)];
        }
    }
}

static void encode(const float *src, uint8_t *b, size_t n, int bits, int size) {
    const size_t block = (size_t)MIN_BLOCK << size;
    const int n_level = 1 << (bits - 1);
    const float *level = positive(bits, size);
    for (; n; n -= block, src += block) {
        double sum = 0, dot = 0; // of squares; of magnitudes and their levels
        for (size_t i = 0; i < block; i++) sum += (double)src[i] * src[i];
        float border[MAX_LEVELS]; // magnitudes at which the next level begins, for vectors of this length
        for (int k = 0; k + 1 < n_level; k++) border[k] = (float)(sqrt(sum) * 0.5 * ((double)level[k] + level[k + 1]));
        uint8_t *head = b;
        b += 2;
        for (size_t i = 0; i < block; i += 8, b += bits) {
            uint32_t code = 0;
            for (int j = 0; j < 8; j++) {
                const float x = src[i + (size_t)j], size_x = fabsf(x);
                int above = 0, negative = x < 0;
                for (int k = 0; k + 1 < n_level; k++) above += negative ? size_x > border[k] : size_x >= border[k];
                dot += (double)size_x * level[above];
                code |= (uint32_t)(negative ? n_level - 1 - above : n_level + above) << bits * j;
            }
            for (int k = 0; k < bits; k++) b[k] = (uint8_t)(code >> 8 * k);
        }
        const double factor = dot > 0 ? sum / dot : sum; // of nothing: 0; a NaN stays one
        store_u16(head, ch_f32_to_f16((float)(factor > 65504 ? 65504 : factor)));
    }
}

static void decode_4_32(const void *s, float *d, size_t n) { decode(s, d, n, 4, 0); }
static void decode_4_64(const void *s, float *d, size_t n) { decode(s, d, n, 4, 1); }
static void decode_4_128(const void *s, float *d, size_t n) { decode(s, d, n, 4, 2); }
static void decode_4_256(const void *s, float *d, size_t n) { decode(s, d, n, 4, 3); }
static void decode_3_32(const void *s, float *d, size_t n) { decode(s, d, n, 3, 0); }
static void decode_3_64(const void *s, float *d, size_t n) { decode(s, d, n, 3, 1); }
static void decode_3_128(const void *s, float *d, size_t n) { decode(s, d, n, 3, 2); }
static void decode_3_256(const void *s, float *d, size_t n) { decode(s, d, n, 3, 3); }
static void encode_4_32(const float *s, void *d, size_t n) { encode(s, d, n, 4, 0); }
static void encode_4_64(const float *s, void *d, size_t n) { encode(s, d, n, 4, 1); }
static void encode_4_128(const float *s, void *d, size_t n) { encode(s, d, n, 4, 2); }
static void encode_4_256(const float *s, void *d, size_t n) { encode(s, d, n, 4, 3); }
static void encode_3_32(const float *s, void *d, size_t n) { encode(s, d, n, 3, 0); }
static void encode_3_64(const float *s, void *d, size_t n) { encode(s, d, n, 3, 1); }
static void encode_3_128(const float *s, void *d, size_t n) { encode(s, d, n, 3, 2); }
static void encode_3_256(const float *s, void *d, size_t n) { encode(s, d, n, 3, 3); }

static const ch_type_info forms[2][N_SIZES] = {
    {{CH_TYPE_TQ4, "tq4", 32, 18, decode_4_32, encode_4_32},
     {CH_TYPE_TQ4, "tq4", 64, 34, decode_4_64, encode_4_64},
     {CH_TYPE_TQ4, "tq4", 128, 66, decode_4_128, encode_4_128},
     {CH_TYPE_TQ4, "tq4", 256, 130, decode_4_256, encode_4_256}},
    {{CH_TYPE_TQ3, "tq3", 32, 14, decode_3_32, encode_3_32},
     {CH_TYPE_TQ3, "tq3", 64, 26, decode_3_64, encode_3_64},
     {CH_TYPE_TQ3, "tq3", 128, 50, decode_3_128, encode_3_128},
     {CH_TYPE_TQ3, "tq3", 256, 98, decode_3_256, encode_3_256}}};

static int size_of(size_t block) {
    int size = 0;
    while (size + 1 < N_SIZES && ((size_t)MIN_BLOCK << size) < block) size++;
    return size;
}

void ch_quant_turbo_levels(ch_type id, size_t block, float *level) {
    const int n = id == CH_TYPE_TQ4 ? 8 : 4;
    const float *up = positive(id == CH_TYPE_TQ4 ? 4 : 3, size_of(block));
    for (int k = 0; k < n; k++) level[n + k] = up[k], level[n - 1 - k] = -up[k];
}

size_t ch_quant_rotation(size_t n) {
    size_t block = MIN_BLOCK << (N_SIZES - 1);
    while (block >= MIN_BLOCK && n % block) block /= 2;
    return n && block >= MIN_BLOCK ? block : 0;
}

const ch_type_info *ch_quant_cache_type(const char *name) {
    static const ch_type others[] = {CH_TYPE_F32, CH_TYPE_F16, CH_TYPE_BF16, CH_TYPE_Q8_0, CH_TYPE_Q4_0};
    const ch_type_info *t = ch_quant_type_by_name(name);
    for (size_t i = 0; t && i < sizeof others / sizeof *others; i++)
        if (t->id == others[i]) return t;
    for (int k = 0; name && k < 2; k++)
        if (!strcasecmp(name, forms[k][N_SIZES - 1].name)) return &forms[k][N_SIZES - 1];
    return NULL;
}

const ch_type_info *ch_quant_cache_fit(const ch_type_info *t, size_t n) {
    if (t->id != CH_TYPE_TQ4 && t->id != CH_TYPE_TQ3) return n % t->n_block ? NULL : t;
    const size_t block = ch_quant_rotation(n);
    return block ? &forms[t->id == CH_TYPE_TQ3][size_of(block)] : NULL;
}
