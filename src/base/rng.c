// xoshiro256** random numbers and the monotonic clock.
#include <math.h>
#include <time.h>

#include "base/base.h"

static uint64_t rotate_left(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

// splitmix64: turns any seed, zero included, into four unrelated words.
void ch_rng_seed(ch_rng *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        r->s[i] = z ^ (z >> 31);
    }
}

uint64_t ch_rng_u64(ch_rng *r) {
    uint64_t *s = r->s;
    uint64_t out = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return out;
}

double ch_rng_f64(ch_rng *r) { return (double)(ch_rng_u64(r) >> 11) * 0x1p-53; }

// Box-Muller; the second value is dropped so that the state stays the four words alone.
float ch_rng_normal(ch_rng *r) {
    double u = 1.0 - ch_rng_f64(r); // (0, 1]
    double v = ch_rng_f64(r);
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

uint64_t ch_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
