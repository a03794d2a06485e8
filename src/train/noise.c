// Noise that is never kept: z of a parameter out of a key and its place, the same whenever it is asked for.
#include "train/adam.h"

// Spreads every bit of x over the word (two rounds of multiply and shift).
CH_FORCE_INLINE uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

CH_FORCE_INLINE uint32_t word_of(uint64_t key, uint32_t i) { return mix(i * 0x9e3779b9u + (uint32_t)key); }

// log x for x in (0, 1], and sin(2 pi x) for |x| <= 1/4: series without branches, within 2^-22 of the value.
CH_FORCE_INLINE float log_unit(float x) {
    int32_t bits, e;
    float m;
    memcpy(&bits, &x, sizeof bits);
    e = (bits >> 23) - 127;
    bits = (bits & 0x7fffff) | 0x3f800000;
    memcpy(&m, &bits, sizeof m);
    const bool high = m > 1.41421356f;
    m = high ? 0.5f * m : m;
    e += high;
    const float s = (m - 1) / (m + 1), q = s * s; // log m = 2 artanh s
    return 0.69314718f * (float)e + 2 * s * (1 + q * (1.0f / 3 + q * (0.2f + q * (1.0f / 7 + q * (1.0f / 9)))));
}
CH_FORCE_INLINE float sine(float x) {
    const float y = 6.28318531f * x, q = y * y;
    return y * (1 + q * (-1.0f / 6 + q * (1.0f / 120 + q * (-1.0f / 5040 + q * (1.0f / 362880 - q * (1.0f / 39916800))))));
}

CH_FORCE_INLINE float sign_of(uint64_t key, uint32_t i) { return (word_of(key, i) & 1) ? 1.0f : -1.0f; }

// The transform of Box and Muller; |z| < 5.9.
CH_FORCE_INLINE float normal_of(uint64_t key, uint32_t i) {
    const uint32_t a = word_of(key, i), b = mix(a + (uint32_t)(key >> 32));
    const float u = ((float)(int32_t)(a >> 8) + 0.5f) * 0x1p-24f, v = (float)(int32_t)(b >> 8) * 0x1p-24f - 0.5f;
    return sqrtf(-2 * log_unit(u)) * sine(0.25f - (v < 0 ? -v : v));
}

// Two loops for one choice, so that each becomes vectors.
CH_TIERS void ch_train_move(const ch_train_move_args *a, uint64_t key, size_t n, const uint8_t *decay, real *restrict w) {
    for (size_t i = 0; i < n; i += CH_TRAIN_GRAIN) {
        const real keep = decay[i / CH_TRAIN_GRAIN] ? (real)(1 - a->decay) : 1, f = (real)a->along * keep - (real)a->down;
        if (a->signs)
            for (size_t j = i; j < i + CH_TRAIN_GRAIN; j++) w[j] = w[j] * keep + f * (real)sign_of(key, (uint32_t)j);
        else
            for (size_t j = i; j < i + CH_TRAIN_GRAIN; j++) w[j] = w[j] * keep + f * (real)normal_of(key, (uint32_t)j);
    }
}
