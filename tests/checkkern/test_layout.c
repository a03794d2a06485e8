// What mat_pack writes is kept in files (--panel-cache), so its bytes may change only together with CH_MAT_LAYOUT. A hash over all
// types stands here for each tier and layout.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "checkkern/checkkern.h"
#include "checkkern/weights.h"

static const struct {
    const char *tier;
    uint32_t layout;
    uint64_t hash;
} known[] = {
    {"avx2", 1, 0x77e292699d4e2329},
    {"avx512", 1, 0x77e292699d4e2329},
    {"amx", 1, 0x77e292699d4e2329},
    {"neon", 1, 0x77e292699d4e2329},
};

// 40 rows (a panel is cut) of 512 inputs, of every type that the tier packs. 0: none.
static uint64_t hash_layout(const ch_kern *k) {
    enum { N_IN = 512, N_OUT = 40 };
    uint64_t h = 0;
    for (size_t i = 0; ch_quant_type_at(i); i++) {
        const ch_type_info *t = ch_quant_type_at(i);
        size_t row, bytes = t->decode && ch_quant_row_bytes(t, N_IN, &row) ? k->mat_packed_bytes(t, N_IN, N_OUT) : 0;
        if (!bytes) continue;
        ch_rng g;
        ch_rng_seed(&g, t->id);
        uint8_t *raw = ch_alloc(row * N_OUT), *packed = ch_alloc_aligned(bytes, 64);
        assert_true(raw && packed);
        for (size_t b = 0; b < row * N_OUT; b += t->n_bytes) random_block(t, &g, SCALE_NORMAL, raw + b);
        ch_mat m = {.type = t, .n_in = N_IN, .n_out = N_OUT, .raw = raw, .packed = packed};
        k->mat_pack(&m, 0, N_OUT);
        h = ch_hash64(packed, bytes, h ^ t->id);
        ch_free(raw), ch_free(packed);
    }
    return h;
}

static void test_layout(void **state) {
    checkkern_tiers tiers;
    (void)state;
    checkkern_init(&tiers);
    for (int i = 0; i < tiers.n; i++) {
        uint64_t h = hash_layout(&tiers.k[i]);
        const char *name = tiers.k[i].name;
        bool found = false;
        for (size_t j = 0; j < sizeof known / sizeof *known && h; j++) {
            if (strncmp(name, known[j].tier, strcspn(name, " ")) != 0 || strlen(known[j].tier) != strcspn(name, " ")) continue;
            found |= known[j].layout == CH_MAT_LAYOUT && known[j].hash == h;
        }
        if (h && !found)
            fail_msg("tier %s packs other bytes than layout %d had (hash 0x%016llx): raise CH_MAT_LAYOUT in kern.h and note the hash here", name,
                     CH_MAT_LAYOUT, (unsigned long long)h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
