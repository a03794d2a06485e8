// The measuring loops of a tier; plain C where the processor has no wide instructions.
#include <string.h>

#include "kern/kern.h"
#include "kern/peak.h"

static uint64_t int8_ref(uint64_t rounds, uint32_t *sink) {
    uint32_t acc[8] = {0};
    for (uint64_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < 8; i++)
            acc[i] += (uint32_t)(uint8_t)(r + i) * 3u;
    for (int i = 0; i < 8; i++)
        *sink += acc[i];
    return rounds * 16;
}

static uint64_t f32_ref(uint64_t rounds, uint32_t *sink) {
    float acc[8] = {0};
    for (uint64_t r = 0; r < rounds; r++)
        for (int i = 0; i < 8; i++)
            acc[i] = acc[i] * 0.5f + 1.0f;
    for (int i = 0; i < 8; i++)
        *sink += (uint32_t)acc[i];
    return rounds * 16;
}

static void read_ref(const void *p, size_t n, uint32_t *sink) {
    const uint8_t *b = p;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v;
        memcpy(&v, b + i, 8);
        sum += v;
    }
    *sink += (uint32_t)sum;
}

void ch_kern_peak_init(ch_kern_peak *k, const ch_cpu *cpu, const char *tier) {
    *k = (ch_kern_peak){int8_ref, f32_ref, {read_ref, read_ref}};
#if defined(__x86_64__)
    const bool amx = !tier || !strcmp(tier, "amx"), avx512 = amx || !strcmp(tier, "avx512"), avx2 = avx512 || !strcmp(tier, "avx2");
    if (!cpu->avx2_fma_f16c) return;
    ch_kern_peak_set_avx2(k);
    if (!avx2) k->int8 = int8_ref, k->f32 = f32_ref; // memory is read as fast as the processor can in any tier
    if (!avx512 || !cpu->avx512 || !cpu->avx512_vnni) return;
    ch_kern_peak_set_avx512(k);
    if (amx && cpu->amx_int8 && ch_cpu_enable_amx()) ch_kern_peak_set_amx(k);
#else
    (void)cpu, (void)tier;
#endif
}
