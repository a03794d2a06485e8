// Tensor types: bit-equality with a reference library (stored hashes; live when CHIMERE_REF_LIB names a libggml-base.so),
// encoding, and the table's look-ups and limits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "quant/quant.h"
#include "unit/quant_golden.h"
#include "unit/quant_vectors.h"

enum { N_GOLDEN = sizeof golden / sizeof golden[0] };

static void *new_bytes(size_t n) {
    void *p = malloc(n ? n : 1); // exact size, so that a byte too far is seen by the address sanitizer
    assert_non_null(p);
    return p;
}

static float *decode_stream(const ch_type_info *t, size_t *n) {
    uint8_t *blocks = new_bytes(VEC_BLOCKS * (size_t)t->n_bytes);
    vec_blocks(t->name, t->n_bytes, VEC_BLOCKS, blocks);
    *n = VEC_BLOCKS * (size_t)t->n_block;
    float *y = new_bytes(*n * sizeof *y);
    t->decode(blocks, y, *n);
    free(blocks);
    return y;
}

static void test_decode_golden(void **state) {
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const ch_type_info *t = ch_quant_type_by_name(golden[i].name);
        assert_non_null(t);
        size_t n;
        float *y = decode_stream(t, &n);
        uint64_t hash = ch_hash64(y, n * sizeof *y, 0);
        free(y);
        if (hash != golden[i].decoded) fail_msg("%s: decoded stream differs from the reference library's", t->name);
    }
}

static void test_decode_covers_all(void **state) {
    (void)state;
    size_t n_decoders = 0;
    for (size_t i = 0; ch_quant_type_at(i); i++) n_decoders += ch_quant_type_at(i)->decode != NULL;
    assert_int_equal(n_decoders, N_GOLDEN);
}

// Blocks at odd addresses, one at a time, give what a whole row gives.
static void test_decode_unaligned(void **state) {
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const ch_type_info *t = ch_quant_type_by_name(golden[i].name);
        uint8_t *blocks = new_bytes(3 * (size_t)t->n_bytes), *odd = new_bytes(t->n_bytes + 1u);
        float *whole = new_bytes(3 * t->n_block * sizeof *whole), *one = new_bytes(t->n_block * sizeof *one);
        vec_blocks(t->name, t->n_bytes, 3, blocks);
        t->decode(blocks, whole, 3 * (size_t)t->n_block);
        for (size_t k = 0; k < 3; k++) {
            memcpy(odd + 1, blocks + k * t->n_bytes, t->n_bytes);
            t->decode(odd + 1, one, t->n_block);
            assert_memory_equal(one, whole + k * t->n_block, t->n_block * sizeof *one);
        }
        free(blocks), free(odd), free(whole), free(one);
    }
}

// Any bytes, infinite and NaN scales included, decode without harm.
static void test_decode_any_bytes(void **state) {
    (void)state;
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const ch_type_info *t = ch_quant_type_by_name(golden[i].name);
        uint8_t *block = new_bytes(t->n_bytes);
        float *y = new_bytes(t->n_block * sizeof *y);
        for (int fill = 0; fill < 256; fill++) {
            memset(block, fill, t->n_bytes);
            t->decode(block, y, t->n_block);
        }
        free(block), free(y);
    }
}

static void test_encode_golden(void **state) {
    (void)state;
    float *x = new_bytes(VEC_FLOATS * sizeof *x);
    for (size_t i = 0; i < N_GOLDEN; i++) {
        if (!golden[i].encoded) continue;
        const ch_type_info *t = ch_quant_type_by_name(golden[i].name);
        size_t size;
        assert_true(ch_quant_row_bytes(t, VEC_FLOATS, &size));
        uint8_t *blocks = new_bytes(size);
        vec_floats(t->name, t->n_block == 1, VEC_FLOATS, x);
        assert_non_null(t->encode);
        t->encode(x, blocks, VEC_FLOATS);
        uint64_t hash = ch_hash64(blocks, size, 0);
        free(blocks);
        if (hash != golden[i].encoded) fail_msg("%s: encoded stream differs from the reference library's", t->name);
    }
    free(x);
}

// Decode of encode stays within half a step (q4_0: a whole step at the end that has no code); encoding that again
// changes nothing for f16, bf16 and f32.
static void test_encode_round_trip(void **state) {
    (void)state;
    static const struct {
        const char *name;
        float relative; // of the largest magnitude in a run of 32
    } bounds[] = {{"f32", 0}, {"f16", 0x1p-11f}, {"bf16", 0x1p-8f}, {"q8_0", 0.5f / 127 + 1e-3f}, {"q4_0", 1.0f / 8 + 1e-3f}};
    enum { N = 32 * 200 };
    float *x = new_bytes(N * sizeof *x), *y = new_bytes(N * sizeof *y);
    uint8_t *blocks = new_bytes(N * sizeof *x), *again = new_bytes(N * sizeof *x);
    uint64_t rng = 7;
    for (size_t i = 0; i < N; i++) x[i] = (float)((double)(vec_next(&rng) >> 11) * 0x1p-52 - 1) * ldexpf(1, (int)(i / 32 % 12));
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++) {
        const ch_type_info *t = ch_quant_type_by_name(bounds[b].name);
        size_t size;
        assert_true(ch_quant_row_bytes(t, N, &size));
        t->encode(x, blocks, N);
        t->decode(blocks, y, N);
        for (size_t i = 0; i < N; i += 32) {
            float amax = 0;
            for (size_t j = 0; j < 32; j++) amax = fmaxf(amax, fabsf(x[i + j]));
            for (size_t j = 0; j < 32; j++)
                if (!(fabsf(x[i + j] - y[i + j]) <= amax * bounds[b].relative))
                    fail_msg("%s: %g became %g in a block of largest %g", t->name, (double)x[i + j], (double)y[i + j], (double)amax);
        }
        if (t->n_block == 1) {
            t->encode(y, again, N);
            assert_memory_equal(blocks, again, size);
        }
    }
    free(x), free(y), free(blocks), free(again);
}

// NaN, infinities and subnormals: no undefined conversion, and finite neighbours of a NaN survive.
static void test_encode_odd_values(void **state) {
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e-45f, -1e-45f, 3e-39f, 3.4e38f, -3.4e38f};
    for (size_t i = 0; ch_quant_type_at(i); i++) {
        const ch_type_info *t = ch_quant_type_at(i);
        if (!t->encode) continue;
        for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
            float x[32], y[32];
            uint8_t blocks[128];
            for (size_t j = 0; j < 32; j++) x[j] = j == 3 ? odd[k] : j % 2 ? 0.5f : -1.0f;
            t->encode(x, blocks, 32);
            t->decode(blocks, y, 32);
            if (isnan(odd[k]))
                for (size_t j = 0; j < 32; j++)
                    if (j != 3) assert_true(fabsf(x[j] - y[j]) < 0.1f);
            for (size_t j = 0; j < 32; j++) x[j] = odd[k];
            t->encode(x, blocks, 32);
            t->decode(blocks, y, 32);
            if (isnan(odd[k])) assert_true(t->n_block == 1 ? isnan(y[3]) : y[3] == 0);
        }
    }
}

static void test_lookup_ids(void **state) {
    (void)state;
    static const uint32_t refused[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 44, 1000, UINT32_MAX, 0x80000000u};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) assert_null(ch_quant_type(refused[i]));
    size_t n = 0;
    for (; ch_quant_type_at(n); n++) {
        const ch_type_info *t = ch_quant_type_at(n);
        assert_ptr_equal(ch_quant_type((uint32_t)t->id), t);
        assert_ptr_equal(ch_quant_type_by_name(t->name), t);
        assert_true(t->n_block > 0 && t->n_bytes > 0 && t->n_bytes <= VEC_MAX_BLOCK);
    }
    assert_int_equal(n, 35);
    assert_null(ch_quant_type_at(n));
    assert_null(ch_quant_type_at(SIZE_MAX));
    assert_int_equal(ch_quant_type(CH_TYPE_IQ4_XS)->n_bytes, 136);
    assert_null(ch_quant_type(CH_TYPE_I32)->decode);
    assert_null(ch_quant_type(CH_TYPE_F64)->decode);
}

static void test_lookup_names(void **state) {
    (void)state;
    assert_int_equal(ch_quant_type_by_name("Q4_K")->id, CH_TYPE_Q4_K);
    assert_int_equal(ch_quant_type_by_name("iQ3_xXs")->id, CH_TYPE_IQ3_XXS);
    assert_int_equal(ch_quant_type_by_name("BF16")->id, CH_TYPE_BF16);
    static const char *const refused[] = {"", "q4", "q4_k_m", " q4_k", "q4_k ", "q4_2", "f128", "\xff"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) assert_null(ch_quant_type_by_name(refused[i]));
    assert_null(ch_quant_type_by_name(NULL));
}

static void test_row_bytes(void **state) {
    (void)state;
    size_t size = 77;
    const ch_type_info *q4 = ch_quant_type(CH_TYPE_Q4_K), *f64 = ch_quant_type(CH_TYPE_F64);
    assert_true(ch_quant_row_bytes(q4, 0, &size));
    assert_int_equal(size, 0);
    assert_true(ch_quant_row_bytes(q4, 512, &size));
    assert_int_equal(size, 288);
    assert_false(ch_quant_row_bytes(q4, 255, &size));
    assert_false(ch_quant_row_bytes(q4, 257, &size));
    uint64_t most = SIZE_MAX / 8; // values of 8 bytes that fit
    assert_true(ch_quant_row_bytes(f64, most - 1, &size));
    assert_true(ch_quant_row_bytes(f64, most, &size));
    assert_true(size == most * 8);
    size = 77;
    assert_false(ch_quant_row_bytes(f64, most + 1, &size));
    assert_false(ch_quant_row_bytes(f64, UINT64_MAX, &size));
    assert_int_equal(size, 77);
}

// ---- live comparison --------------------------------------------------------------------------------------------------

static void *ref_lib(void) {
    const char *path = getenv("CHIMERE_REF_LIB");
    if (!path || !*path) return NULL;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) fail_msg("CHIMERE_REF_LIB: %s", dlerror());
    return lib;
}

// The library's name of a type: q4_K for q4_k.
static void *ref_symbol(void *lib, const char *format, const char *name) {
    char type[16], full[64];
    snprintf(type, sizeof type, "%s", name);
    size_t n = strlen(type);
    if (n > 2 && type[n - 2] == '_' && type[n - 1] == 'k') type[n - 1] = 'K';
    snprintf(full, sizeof full, format, type);
    return dlsym(lib, full);
}

static void test_decode_live(void **state) {
    (void)state;
    void *lib = ref_lib();
    if (!lib) skip();
    size_t n_compared = 0;
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const ch_type_info *t = ch_quant_type_by_name(golden[i].name);
        void (*decode)(const void *, float *, int64_t);
        *(void **)&decode = ref_symbol(lib, "dequantize_row_%s", t->name);
        if (!decode) continue; // f32, f16, bf16 and q8_1
        size_t n;
        float *y = decode_stream(t, &n), *want = new_bytes(n * sizeof *want);
        uint8_t *blocks = new_bytes(VEC_BLOCKS * (size_t)t->n_bytes);
        vec_blocks(t->name, t->n_bytes, VEC_BLOCKS, blocks);
        decode(blocks, want, (int64_t)n);
        for (size_t k = 0; k < n; k++)
            if (memcmp(&y[k], &want[k], sizeof *y))
                fail_msg("%s: value %zu of block %zu is %a, the reference has %a", t->name, k % t->n_block, k / t->n_block,
                         (double)y[k], (double)want[k]);
        free(blocks), free(y), free(want);
        n_compared++;
    }
    assert_int_equal(n_compared, 26);
    dlclose(lib);
}

static void compare_encode(const ch_type_info *t, void *symbol) {
    void (*encode)(const float *, void *, int64_t);
    *(void **)&encode = symbol;
    assert_non_null(symbol);
    size_t size, n_block = t->n_block;
    assert_true(ch_quant_row_bytes(t, VEC_FLOATS, &size));
    float *x = new_bytes(VEC_FLOATS * sizeof *x);
    uint8_t *got = new_bytes(size), *want = new_bytes(size);
    vec_floats(t->name, n_block == 1, VEC_FLOATS, x);
    t->encode(x, got, VEC_FLOATS);
    encode(x, want, VEC_FLOATS);
    for (size_t k = 0; k < size; k++)
        if (got[k] != want[k])
            fail_msg("%s: byte %zu of block %zu is %02x, the reference has %02x; first value %a", t->name, k % t->n_bytes,
                     k / t->n_bytes, got[k], want[k], (double)x[k / t->n_bytes * n_block]);
    free(x), free(got), free(want);
}

static void test_encode_live(void **state) {
    (void)state;
    void *lib = ref_lib();
    if (!lib) skip();
    compare_encode(ch_quant_type(CH_TYPE_Q8_0), dlsym(lib, "quantize_row_q8_0_ref"));
    compare_encode(ch_quant_type(CH_TYPE_Q4_0), dlsym(lib, "quantize_row_q4_0_ref"));
    compare_encode(ch_quant_type(CH_TYPE_F16), dlsym(lib, "ggml_fp32_to_fp16_row"));
    compare_encode(ch_quant_type(CH_TYPE_BF16), dlsym(lib, "ggml_fp32_to_bf16_row_ref"));
    dlclose(lib);
}

// Every f16 and bf16 number (NaNs aside), and every scale byte of the FP4 types.
static void test_scales_live(void **state) {
    (void)state;
    void *lib = ref_lib();
    if (!lib) skip();
    float (*from_f16)(uint16_t), (*from_bf16)(uint16_t);
    *(void **)&from_f16 = dlsym(lib, "ggml_fp16_to_fp32");
    *(void **)&from_bf16 = dlsym(lib, "ggml_bf16_to_fp32");
    for (uint32_t h = 0; h < 65536; h++) {
        float a = ch_f16_to_f32((uint16_t)h), b = from_f16((uint16_t)h);
        if (isnan(a) ? !isnan(b) : memcmp(&a, &b, 4) != 0) fail_msg("f16 %04x: %a, the reference has %a", h, (double)a, (double)b);
        a = ch_bf16_to_f32((uint16_t)h), b = from_bf16((uint16_t)h);
        if (isnan(a) ? !isnan(b) : memcmp(&a, &b, 4) != 0) fail_msg("bf16 %04x: %a, the reference has %a", h, (double)a, (double)b);
    }
    static const struct {
        const char *name;
        size_t n_scales; // bytes at the start of a block
    } fp4[] = {{"mxfp4", 1}, {"nvfp4", 4}};
    for (size_t i = 0; i < 2; i++) {
        const ch_type_info *t = ch_quant_type_by_name(fp4[i].name);
        void (*decode)(const void *, float *, int64_t);
        *(void **)&decode = ref_symbol(lib, "dequantize_row_%s", t->name);
        for (int e = 0; e < 256; e++) {
            uint8_t block[36];
            float y[64], want[64];
            for (size_t k = 0; k < sizeof block; k++) block[k] = (uint8_t)(k < fp4[i].n_scales ? e : 17 * (int)k + e);
            t->decode(block, y, t->n_block);
            decode(block, want, t->n_block);
            if (memcmp(y, want, t->n_block * sizeof *y)) fail_msg("%s: scale byte %02x differs", t->name, e);
        }
    }
    dlclose(lib);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_golden),     cmocka_unit_test(test_decode_covers_all),
        cmocka_unit_test(test_decode_unaligned),  cmocka_unit_test(test_decode_any_bytes),
        cmocka_unit_test(test_encode_golden),     cmocka_unit_test(test_encode_round_trip),
        cmocka_unit_test(test_encode_odd_values), cmocka_unit_test(test_lookup_ids),
        cmocka_unit_test(test_lookup_names),      cmocka_unit_test(test_row_bytes),
        cmocka_unit_test(test_decode_live),       cmocka_unit_test(test_encode_live),
        cmocka_unit_test(test_scales_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
