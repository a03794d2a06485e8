// Random blocks of any tensor type with a wanted deviation. Types that have an encoder here get encoded normal values;
// the others random codes, whose deviation is measured by decoding them with a scale of one and then set by the scale.
#include <math.h>
#include <string.h>

#include "synth/part.h"

float ch_synth_quick_normal(ch_rng *r) {
    uint64_t u = ch_rng_u64(r);
    int32_t sum = (int32_t)((u & 0xffff) + (u >> 16 & 0xffff) + (u >> 32 & 0xffff) + (u >> 48)) - 131070;
    return (float)sum * (1.7320508f / 65536.0f); // four uniform values of variance 1/12 each
}

typedef enum scale_style {
    SCALE_F16,    // f16 at `at`, for types with a minimum a second one at `min_at`
    SCALE_SPREAD, // iq1_m: the nibbles of an f16 on top of four u16
    SCALE_E8M0,   // mxfp4: power of two
    SCALE_UE4M3   // nvfp4: four small floats
} scale_style;

static const struct code_row {
    ch_type type;
    scale_style style;
    int at, min_at; // byte offsets in the block; -1: none
} code_rows[] = {
    {CH_TYPE_Q4_1, SCALE_F16, 0, 2},      {CH_TYPE_Q5_0, SCALE_F16, 0, -1},    {CH_TYPE_Q5_1, SCALE_F16, 0, 2},
    {CH_TYPE_Q2_K, SCALE_F16, 80, 82},    {CH_TYPE_Q3_K, SCALE_F16, 108, -1},  {CH_TYPE_Q4_K, SCALE_F16, 0, 2},
    {CH_TYPE_Q5_K, SCALE_F16, 0, 2},      {CH_TYPE_Q6_K, SCALE_F16, 208, -1},  {CH_TYPE_IQ2_XXS, SCALE_F16, 0, -1},
    {CH_TYPE_IQ2_XS, SCALE_F16, 0, -1},   {CH_TYPE_IQ2_S, SCALE_F16, 0, -1},   {CH_TYPE_IQ3_XXS, SCALE_F16, 0, -1},
    {CH_TYPE_IQ3_S, SCALE_F16, 0, -1},    {CH_TYPE_IQ1_S, SCALE_F16, 0, -1},   {CH_TYPE_IQ1_M, SCALE_SPREAD, 48, -1},
    {CH_TYPE_IQ4_NL, SCALE_F16, 0, -1},   {CH_TYPE_IQ4_XS, SCALE_F16, 0, -1},  {CH_TYPE_TQ1_0, SCALE_F16, 52, -1},
    {CH_TYPE_TQ2_0, SCALE_F16, 64, -1},   {CH_TYPE_MXFP4, SCALE_E8M0, 0, -1},  {CH_TYPE_NVFP4, SCALE_UE4M3, 0, -1},
    {CH_TYPE_Q1_0, SCALE_F16, 0, -1},     {CH_TYPE_Q2_0, SCALE_F16, 0, -1},
};

static const struct code_row *find_row(ch_type type) {
    for (size_t i = 0; i < sizeof code_rows / sizeof *code_rows; i++)
        if (code_rows[i].type == type) return &code_rows[i];
    return NULL;
}

static bool has_quick_encoder(ch_type type) {
    return type == CH_TYPE_F32 || type == CH_TYPE_F16 || type == CH_TYPE_BF16 || type == CH_TYPE_Q8_0 || type == CH_TYPE_Q4_0;
}

bool ch_synth_can_fill(ch_type type) { return has_quick_encoder(type) || find_row(type) != NULL; }

static void put_u16(uint8_t *p, uint16_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

// ---- scales -----------------------------------------------------------------------------------------------------------
// Half of an unsigned E4M3 value, as the decoder of nvfp4 uses it.
static double ue4m3_half(int code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    return exponent == 0 ? ldexp(mantissa, -10) : ldexp(8 + mantissa, exponent - 11);
}

static uint8_t nearest_ue4m3(double wanted) {
    int best = 1;
    for (int code = 2; code < 0x7f; code++)
        if (fabs(ue4m3_half(code) - wanted) < fabs(ue4m3_half(best) - wanted)) best = code;
    return (uint8_t)best;
}

// Writes the scale (and minimum) of one block; r != NULL: with the style's own random variation.
static void set_scale(const struct code_row *row, uint8_t *block, double scale, double min, ch_rng *r) {
    if (r && (row->style == SCALE_F16 || row->style == SCALE_SPREAD)) {
        // Sizes differ by up to a quarter (1.0104 keeps the mean square); signs cancel the mean of the codes.
        double vary = (0.75 + 0.5 * ch_rng_f64(r)) / 1.0104;
        if (ch_rng_u64(r) >> 63) vary = -vary;
        scale *= vary;
        min *= vary;
    }
    switch (row->style) {
    case SCALE_F16:
        put_u16(block + row->at, ch_f32_to_f16((float)scale));
        if (row->min_at >= 0) put_u16(block + row->min_at, ch_f32_to_f16((float)min));
        break;
    case SCALE_SPREAD: {
        uint16_t h = ch_f32_to_f16((float)scale);
        for (int k = 0; k < 4; k++) {
            uint8_t *top = block + row->at + 2 * k + 1;
            *top = (uint8_t)((*top & 15) | (h >> (4 * k) & 15) << 4);
        }
        break;
    }
    case SCALE_E8M0: {
        // Powers of two: mixing two neighbours gives the wanted mean square.
        int k;
        double m = frexp(scale, &k) * 2; // scale = m * 2^(k-1), m in [1, 2)
        k -= 1;
        if (r && ch_rng_f64(r) < (m * m - 1) / 3) k++;
        int code = 128 + k;
        block[row->at] = (uint8_t)(code < 0 ? 0 : code > 254 ? 254 : code);
        break;
    }
    case SCALE_UE4M3: memset(block + row->at, nearest_ue4m3(scale), 4); break;
    }
}

// Mean and deviation of the first units, decoded with the given scale and minimum.
static void measure(const ch_synth_tile *t, const struct code_row *row, double scale, double min, double *mean, double *deviation) {
    float x[256];
    size_t n_units = 16384 / t->unit_values < t->n_units ? 16384 / t->unit_values : t->n_units;
    double sum = 0, squares = 0, n = (double)(n_units * t->unit_values);
    for (size_t i = 0; i < n_units; i++) {
        uint8_t *block = t->bytes + i * t->unit_bytes;
        set_scale(row, block, scale, min, NULL);
        t->type->decode(block, x, t->unit_values);
        for (size_t k = 0; k < t->unit_values; k++) {
            sum += (double)x[k];
            squares += (double)x[k] * (double)x[k];
        }
    }
    *mean = sum / n;
    *deviation = sqrt(squares / n); // about zero: the sign of the scale takes the mean away
}

// Random codes that trained weights would not have: values that are not centred within a block add up to a few large
// directions that drown the rest. So minimums follow the scales, but for the last bit, and codes are centred.
static void shape_codes(ch_type type, uint8_t *block, ch_rng *r) {
    switch (type) {
    case CH_TYPE_Q4_K:
    case CH_TYPE_Q5_K:
        for (int i = 4; i < 8; i++) { // 6-bit scales and minimums: low ones, then nibbles of the high ones
            uint8_t flip = (uint8_t)(ch_rng_u64(r) >> 60);
            block[4 + i] = block[i] ^ (flip & 1);
            block[8 + i] = (uint8_t)(((block[8 + i] & 15) * 17) ^ (flip & 2) << 3);
        }
        break;
    case CH_TYPE_Q2_K:
        for (int i = 0; i < 16; i++) block[i] = (uint8_t)((block[i] & 15) * 17);
        break;
    case CH_TYPE_TQ2_0: // code 3 does not occur in ternary weights
        for (int i = 0; i < 64; i++) block[i] &= (uint8_t)~((block[i] & block[i] >> 1 & 0x55) << 1);
        break;
    case CH_TYPE_Q2_0: // -1, 0, 1, 2 with chances 4, 3, 2, 1
        for (int i = 0; i < 16; i++) {
            uint64_t u = ch_rng_u64(r);
            unsigned byte = 0;
            for (int k = 0; k < 4; k++, u >>= 16) {
                unsigned tenth = (unsigned)(u & 0xffff) * 10 >> 16;
                byte |= (tenth < 4 ? 0u : tenth < 7 ? 1u : tenth < 9 ? 2u : 3u) << (2 * k);
            }
            block[2 + i] = (uint8_t)byte;
        }
        break;
    default: break;
    }
}

static void fill_codes(ch_synth_tile *t, const struct code_row *row, float deviation, ch_rng *r) {
    size_t n = t->n_units * t->unit_bytes;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t u = ch_rng_u64(r);
        memcpy(t->bytes + i, &u, n - i < 8 ? n - i : 8);
    }
    for (size_t i = 0; i < t->n_units; i++) shape_codes(row->type, t->bytes + i * t->unit_bytes, r);
    double mean, unit, min = 0;
    if (row->min_at >= 0) {
        // The minimum that centres the values.
        double base, of_min, ignored;
        measure(t, row, 1, 0, &base, &ignored);
        measure(t, row, 0, 1, &of_min, &ignored);
        min = of_min != 0 ? -base / of_min : 0;
    }
    measure(t, row, 1, min, &mean, &unit);
    double scale = unit > 0 ? (double)deviation / unit : 1;
    for (size_t i = 0; i < t->n_units; i++) set_scale(row, t->bytes + i * t->unit_bytes, scale, min * scale, r);
}

static void fill_encoded(ch_synth_tile *t, float deviation, ch_rng *r) {
    float x[256];
    for (size_t i = 0; i < t->n_units; i++) {
        for (size_t k = 0; k < t->unit_values; k++) x[k] = ch_synth_quick_normal(r) * deviation;
        t->type->encode(x, t->bytes + i * t->unit_bytes, t->unit_values);
    }
}

int ch_synth_fill_tile(ch_synth_tile *t, ch_type type, size_t n_units, float deviation, ch_rng *r) {
    const ch_type_info *info = ch_quant_type((uint32_t)type);
    const struct code_row *row = find_row(type);
    if (!info || !ch_synth_can_fill(type)) return CH_EUNSUPPORTED;
    if (!t->bytes) {
        // Room for the widest: 32 f32, or a block of 256 in at most 292 bytes.
        t->bytes = ch_alloc(CH_SYNTH_TILE_UNITS * 292);
        if (!t->bytes) return CH_ENOMEM;
    }
    t->type = info;
    t->n_units = n_units < CH_SYNTH_TILE_UNITS ? n_units : CH_SYNTH_TILE_UNITS;
    t->unit_values = info->n_block >= 32 ? info->n_block : 32;
    t->unit_bytes = t->unit_values / info->n_block * info->n_bytes;
    if (row) fill_codes(t, row, deviation, r);
    else fill_encoded(t, deviation, r);
    return 0;
}
