// What every tier's attention shares: joining the parts of a row, and the constants of the rotation.
#include <math.h>

#include "kern/tier.h"

void ch_kern_attn_fold(float *total, const float *part, size_t d_v) {
    const size_t m = ch_attn_part_max(d_v);
    const float max = total[m] > part[m] ? total[m] : part[m];
    const float a = expf(total[m] - max), b = expf(part[m] - max);
    for (size_t i = 0; i < d_v; i++) total[i] = total[i] * a + part[i] * b;
    total[m + 1] = total[m + 1] * a + part[m + 1] * b;
    total[m] = max;
}

void ch_kern_attn_finish(const float *total, size_t d_v, float *out) {
    const float inverse = 1.0f / total[ch_attn_part_max(d_v) + 1];
    for (size_t i = 0; i < d_v; i++) out[i] = total[i] * inverse;
}

// The first 256 bits of the fraction of the square root of 3.
const uint32_t ch_kern_rotate_signs[8] = {0xbb67ae85, 0x84caa73b, 0x25742d70, 0x78b83b89, 0x25d834cc, 0x53da4798, 0xc720a648, 0x6e45a6e2};

float ch_kern_rotate_scale(size_t block) { return (float)(1.0 / sqrt((double)block)); }
