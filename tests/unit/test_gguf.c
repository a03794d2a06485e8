// Tests of gguf: hostile files, typed reads, round trips, shards.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf/gguf.h"

// ---- building files by hand -------------------------------------------------------------------------------------------
static void u8(ch_buf *b, uint8_t v) { ch_buf_append(b, &v, 1); }
static void u32(ch_buf *b, uint32_t v) { ch_buf_append(b, &v, 4); }
static void u64(ch_buf *b, uint64_t v) { ch_buf_append(b, &v, 8); }
static void str(ch_buf *b, const char *s) {
    u64(b, strlen(s));
    ch_buf_puts(b, s);
}
static void header(ch_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
    ch_buf_reset(b);
    ch_buf_puts(b, "GGUF");
    u32(b, version);
    u64(b, n_tensors);
    u64(b, n_kv);
}
static void pad(ch_buf *b, size_t align, size_t data) {
    while (b->len % align != 0) u8(b, 0);
    for (size_t i = 0; i < data; i++) u8(b, (uint8_t)i);
}
// One f32 tensor of the given dimensions at offset.
static void tensor(ch_buf *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset) {
    str(b, name);
    u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims && i < 16; i++) u64(b, ne[i]);
    u32(b, type);
    u64(b, offset);
}

static int open_buf(const ch_buf *b, ch_gguf **g, ch_error *e) {
    // An exact copy, so that the sanitizer sees a read past the end.
    uint8_t *copy = malloc(b->len ? b->len : 1);
    if (b->len) memcpy(copy, b->data, b->len);
    *e = (ch_error){0};
    int rc = ch_gguf_open_memory(g, copy, b->len, "test", e);
    if (rc != 0) {
        assert_null(*g);
        assert_int_equal(e->code, rc);
        assert_true(strncmp(e->msg, "test: ", 6) == 0);
    } else {
        ch_gguf_close(g);
        assert_null(*g);
    }
    free(copy);
    return rc;
}

// Opening b must fail with code and a message that holds `word`.
static void must_fail(const ch_buf *b, int code, const char *word) {
    ch_gguf *g;
    ch_error e;
    int rc = open_buf(b, &g, &e);
    if (rc != code || !strstr(e.msg, word)) fail_msg("expected %d and \"%s\", got %d: %s", code, word, rc, e.msg);
}
static void must_open(const ch_buf *b) {
    ch_gguf *g;
    ch_error e;
    if (open_buf(b, &g, &e) != 0) fail_msg("expected it to open: %s", e.msg);
}

// ---- hostile files ----------------------------------------------------------------------------------------------------
static void test_header(void **state) {
    (void)state;
    ch_buf b = {0};
    must_fail(&b, CH_EFORMAT, "not a GGUF");
    ch_buf_puts(&b, "GGU");
    must_fail(&b, CH_EFORMAT, "not a GGUF");
    ch_buf_puts(&b, "G");
    must_fail(&b, CH_EFORMAT, "expected");
    header(&b, 1, 0, 0);
    must_fail(&b, CH_EUNSUPPORTED, "version 1");
    header(&b, 4, 0, 0);
    must_fail(&b, CH_EUNSUPPORTED, "version 4");
    header(&b, 0x03000000, 0, 0);
    must_fail(&b, CH_EUNSUPPORTED, "big-endian");
    header(&b, 3, 0, 0);
    must_open(&b);
    for (size_t cut = 4; cut < 24; cut++) {
        ch_buf part = {0};
        ch_buf_append(&part, b.data, cut);
        must_fail(&part, CH_EFORMAT, "ends inside");
        ch_buf_free(&part);
    }
    uint64_t counts[] = {1, 65536, 65537, 1ull << 32, 1ull << 61, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        header(&b, 3, 0, counts[i]);
        must_fail(&b, CH_EFORMAT, "keys");
        header(&b, 3, counts[i], 0);
        must_fail(&b, CH_EFORMAT, "tensors");
    }
    ch_buf_free(&b);
}

static void test_lengths(void **state) {
    (void)state;
    ch_buf b = {0};
    uint64_t bad[] = {1000, 1ull << 30, 1ull << 32, 1ull << 61, (1ull << 61) + 1, 1ull << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        header(&b, 3, 0, 1); // length of a key
        u64(&b, bad[i]);
        ch_buf_puts(&b, "key.padding.padding");
        must_fail(&b, CH_EFORMAT, "key 0");
        header(&b, 3, 0, 1); // length of a string
        str(&b, "k");
        u32(&b, CH_GGUF_STR);
        u64(&b, bad[i]);
        ch_buf_puts(&b, "abc");
        must_fail(&b, CH_EFORMAT, "runs past the end");
        for (uint32_t elem = 0; elem <= CH_GGUF_F64; elem++) { // count of an array, each element type
            header(&b, 3, 0, 1);
            str(&b, "k");
            u32(&b, CH_GGUF_ARR);
            u32(&b, elem);
            u64(&b, bad[i]);
            ch_buf_puts(&b, "0123456789abcdef");
            must_fail(&b, CH_EFORMAT, "key k");
        }
        header(&b, 3, 0, 1); // length of a string inside an array
        str(&b, "k");
        u32(&b, CH_GGUF_ARR);
        u32(&b, CH_GGUF_STR);
        u64(&b, 2);
        str(&b, "ok");
        u64(&b, bad[i]);
        must_fail(&b, CH_EFORMAT, "string 1 of 2");
        header(&b, 3, 1, 0); // length of a tensor's name
        u64(&b, bad[i]);
        ch_buf_puts(&b, "name.padding.padding.padding.padding");
        must_fail(&b, CH_EFORMAT, "tensor 0");
    }
    header(&b, 3, 0, 1); // value types
    str(&b, "k");
    u32(&b, 13);
    u64(&b, 0);
    must_fail(&b, CH_EFORMAT, "unknown value type 13");
    header(&b, 3, 0, 1);
    str(&b, "k");
    u32(&b, CH_GGUF_ARR);
    u32(&b, CH_GGUF_ARR);
    u64(&b, 0);
    must_fail(&b, CH_EFORMAT, "array of element type 9");
    header(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        str(&b, "same");
        u32(&b, CH_GGUF_U32);
        u32(&b, 1);
    }
    must_fail(&b, CH_EFORMAT, "same occurs twice");
    const char *names[] = {"", "a\nb", "a\x1b[31m", "\xff\xfe", "\xe2\x82"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        header(&b, 3, 0, 1);
        str(&b, names[i]);
        u32(&b, CH_GGUF_U64);
        u64(&b, 1);
        must_fail(&b, CH_EFORMAT, "name of key 0");
    }
    // A key of 65535 bytes is the longest.
    for (size_t n = 65534; n <= 65536; n++) {
        char *key = malloc(n + 1);
        memset(key, 'k', n);
        key[n] = 0;
        header(&b, 3, 0, 1);
        str(&b, key);
        u32(&b, CH_GGUF_U32);
        u32(&b, 1);
        if (n <= 65535) must_open(&b);
        else must_fail(&b, CH_EFORMAT, "65536 bytes");
        free(key);
    }
    ch_buf_free(&b);
}

static void one_tensor(ch_buf *b, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset, size_t data) {
    header(b, 3, 1, 0);
    tensor(b, "t", n_dims, ne, type, offset);
    pad(b, 32, data);
}

static void test_tensors(void **state) {
    (void)state;
    ch_buf b = {0};
    uint64_t ne[16] = {4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    one_tensor(&b, 2, ne, CH_TYPE_F32, 0, 32);
    must_open(&b);
    one_tensor(&b, 4, ne, CH_TYPE_F32, 0, 32);
    must_open(&b);
    uint32_t dims[] = {0, 5, 9, 16, 0x7fffffff, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        one_tensor(&b, dims[i], ne, CH_TYPE_F32, 0, 32);
        must_fail(&b, CH_EFORMAT, "1 to 4 dimensions");
    }
    // Data one byte short, exact, one more.
    one_tensor(&b, 2, ne, CH_TYPE_F32, 0, 31);
    must_fail(&b, CH_EFORMAT, "cut off");
    one_tensor(&b, 2, ne, CH_TYPE_F32, 0, 33);
    must_open(&b);
    // Offsets: aligned or not, last that fits, first that does not, wrapping.
    one_tensor(&b, 2, ne, CH_TYPE_F32, 32, 64);
    must_open(&b);
    one_tensor(&b, 2, ne, CH_TYPE_F32, 32, 63);
    must_fail(&b, CH_EFORMAT, "cut off");
    one_tensor(&b, 2, ne, CH_TYPE_F32, 64, 64);
    must_fail(&b, CH_EFORMAT, "cut off");
    uint64_t odd[] = {1, 31, 33, UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        one_tensor(&b, 2, ne, CH_TYPE_F32, odd[i], 128);
        must_fail(&b, CH_EFORMAT, "multiple of the alignment");
    }
    one_tensor(&b, 2, ne, CH_TYPE_F32, UINT64_MAX - 31, 128);
    must_fail(&b, CH_EFORMAT, "overflows");
    one_tensor(&b, 2, ne, CH_TYPE_F32, UINT64_MAX - 63, 128);
    must_fail(&b, CH_EFORMAT, "overflows");
    // Shapes whose product wraps, zero, or does not fill blocks.
    const uint64_t shapes[][4] = {
        {0, 1, 1, 1},
        {4, 0, 1, 1},
        {1ull << 62, 4, 1, 1},
        {(1ull << 42) + 1, 1ull << 42, 1, 1},
        {1ull << 32, 1ull << 32, 1, 1},
        {1ull << 21, 1ull << 21, 1ull << 21, 2},
        {UINT64_MAX, 1, 1, 1},
        {1ull << 63, 2, 1, 1},
        {4, UINT64_MAX, 1, 1},
        {4, 1ull << 62, 1, 1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        one_tensor(&b, 4, shapes[i], CH_TYPE_F32, 0, 64);
        must_fail(&b, CH_EFORMAT, "tensor t [");
        one_tensor(&b, 4, shapes[i], CH_TYPE_Q8_0, 0, 64);
        must_fail(&b, CH_EFORMAT, "tensor t [");
    }
    uint64_t row[1] = {(1ull << 42) + 1};
    one_tensor(&b, 1, row, CH_TYPE_Q4_K, 0, 64);
    must_fail(&b, CH_EFORMAT, "block");
    for (uint64_t n = 31; n <= 33; n++) {
        row[0] = n;
        one_tensor(&b, 1, row, CH_TYPE_Q8_0, 0, 34);
        if (n == 32) must_open(&b);
        else must_fail(&b, CH_EFORMAT, "block");
    }
    // Types: retired, unknown, huge.
    uint32_t types[] = {4, 5, 31, 36, 43, 97, 137, 999, 0xffffffff};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char word[64];
        snprintf(word, sizeof word, "unsupported tensor type %u of tensor t", types[i]);
        one_tensor(&b, 1, ne, types[i], 0, 64);
        must_fail(&b, CH_EUNSUPPORTED, word);
    }
    header(&b, 3, 2, 0);
    tensor(&b, "twice", 1, ne, CH_TYPE_F32, 0);
    tensor(&b, "twice", 1, ne, CH_TYPE_F32, 32);
    pad(&b, 32, 64);
    must_fail(&b, CH_EFORMAT, "twice occurs twice");
    for (size_t n = 62; n <= 64; n++) {
        char name[80] = "";
        memset(name, 'n', n);
        name[n] = 0;
        header(&b, 3, 1, 0);
        tensor(&b, name, 1, ne, CH_TYPE_F32, 0);
        pad(&b, 32, 16);
        if (n <= 63) must_open(&b);
        else must_fail(&b, CH_EFORMAT, "name of tensor 0 (64 bytes)");
    }
    ch_buf_free(&b);
}

static void test_alignment(void **state) {
    (void)state;
    ch_buf b = {0};
    uint64_t ne[1] = {8};
    uint32_t align[] = {0, 1, 2, 3, 4, 8, 12, 16, 33, 64, 4096, 1 << 20, 1 << 21, 1 << 30, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < sizeof align / sizeof *align; i++) {
        uint32_t a = align[i];
        bool good = a >= 8 && a <= 1 << 20 && (a & (a - 1)) == 0;
        header(&b, 3, 1, 1);
        str(&b, "general.alignment");
        u32(&b, CH_GGUF_U32);
        u32(&b, a);
        tensor(&b, "t", 1, ne, CH_TYPE_F32, 0);
        pad(&b, good ? a : 32, 32);
        if (good) must_open(&b);
        else must_fail(&b, CH_EFORMAT, "general.alignment");
    }
    header(&b, 3, 0, 1);
    str(&b, "general.alignment");
    u32(&b, CH_GGUF_STR);
    str(&b, "32");
    must_fail(&b, CH_EFORMAT, "general.alignment has the wrong type");
    ch_buf_free(&b);
}

// Every truncation and many single-byte changes of a valid file: an error or a file that can be walked, never a crash.
static void test_mutations(void **state) {
    (void)state;
    ch_buf b = {0};
    uint64_t ne[2] = {32, 2};
    header(&b, 3, 2, 4);
    str(&b, "general.architecture");
    u32(&b, CH_GGUF_STR);
    str(&b, "llama");
    str(&b, "a.u32");
    u32(&b, CH_GGUF_U32);
    u32(&b, 7);
    str(&b, "a.names");
    u32(&b, CH_GGUF_ARR);
    u32(&b, CH_GGUF_STR);
    u64(&b, 3);
    str(&b, "x");
    str(&b, "");
    str(&b, "yz");
    str(&b, "a.floats");
    u32(&b, CH_GGUF_ARR);
    u32(&b, CH_GGUF_F32);
    u64(&b, 2);
    u32(&b, 0x3f800000);
    u32(&b, 0x40000000);
    tensor(&b, "one", 2, ne, CH_TYPE_Q8_0, 0);
    tensor(&b, "two", 1, ne, CH_TYPE_F32, 96);
    size_t header_end = b.len;
    pad(&b, 32, 96 + 128);
    must_open(&b);
    ch_gguf *g;
    ch_error e;
    for (size_t n = 0; n < b.len; n++) {
        ch_buf part = {0};
        ch_buf_append(&part, b.data, n);
        assert_int_not_equal(open_buf(&part, &g, &e), 0);
        ch_buf_free(&part);
    }
    const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < header_end; i++) {
        char old = b.data[i];
        for (size_t k = 0; k < sizeof values; k++) {
            b.data[i] = (char)values[k];
            open_buf(&b, &g, &e);
        }
        b.data[i] = old;
    }
    must_open(&b);
    // Failing allocations leave nothing behind (the leak check sees it) and give a clean code.
    for (int nth = 0; nth < 20; nth++) {
        ch_alloc_fail_at(nth);
        int rc = ch_gguf_open_memory(&g, b.data, b.len, "test", &e);
        ch_alloc_fail_at(-1);
        assert_true(rc == 0 || rc == CH_ENOMEM);
        ch_gguf_close(&g);
    }
    ch_buf_free(&b);
}

static void test_hostile_cost(void **state) {
    (void)state;
    // As much metadata as 8 MiB can claim: keys, tensors or empty strings. Time and memory stay small.
    ch_buf b = {0};
    uint64_t start = ch_clock_ns();
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    header(&b, 3, 0, 1);
    str(&b, "k");
    u32(&b, CH_GGUF_ARR);
    u32(&b, CH_GGUF_STR);
    u64(&b, 1 << 20);
    for (int i = 0; i < 1 << 20; i++) u64(&b, 0);
    must_open(&b);
    header(&b, 3, 200000, 0);
    for (int i = 0; i < 200000; i++) {
        char name[16];
        uint64_t ne[1] = {1};
        snprintf(name, sizeof name, "t%d", i);
        tensor(&b, name, 1, ne, CH_TYPE_F32, 0);
    }
    pad(&b, 32, 4);
    must_open(&b);
    ch_buf_free(&b);
    getrusage(RUSAGE_SELF, &after);
    double seconds = (double)(ch_clock_ns() - start) * 1e-9;
#ifndef CH_DEBUG // sanitizers take more of both
    assert_true(seconds < 1);
    assert_true(after.ru_maxrss - before.ru_maxrss < 80 * 1024); // kB; 2 x 17 MiB of it are the test's own file
#endif
    print_message("hostile metadata: %.3f s, %ld MiB\n", seconds, (after.ru_maxrss - before.ru_maxrss) / 1024);
}

// ---- typed reads ------------------------------------------------------------------------------------------------------
// A key of each type, scalar and array.
static void all_types(ch_buf *b) {
    header(b, 2, 0, 2 * 12);
    for (uint32_t t = 0; t <= CH_GGUF_F64; t++) {
        static const size_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        char key[16];
        if (t == CH_GGUF_ARR) continue;
        for (int array = 0; array < 2; array++) {
            snprintf(key, sizeof key, "%c%u", array ? 'a' : 's', t);
            str(b, key);
            if (array) u32(b, CH_GGUF_ARR);
            u32(b, t);
            if (array) u64(b, 2);
            for (int i = 0; i <= array; i++) {
                if (t == CH_GGUF_STR) str(b, "text");
                else if (t == CH_GGUF_F32) u32(b, 0x3fc00000);
                else if (t == CH_GGUF_F64) u64(b, 0x3ff8000000000000u);
                else {
                    uint64_t v = 1;
                    ch_buf_append(b, &v, size[t]);
                }
            }
        }
    }
}

static void test_typed_reads(void **state) {
    (void)state;
    ch_buf b = {0};
    ch_gguf *g;
    ch_error e;
    all_types(&b);
    assert_int_equal(ch_gguf_open_memory(&g, b.data, b.len, "test", &e), 0);
    assert_int_equal(ch_gguf_version(g), 2);
    assert_int_equal(ch_gguf_n_kv(g), 24);
    for (uint32_t t = 0; t <= CH_GGUF_F64; t++) {
        if (t == CH_GGUF_ARR) continue;
        bool is_float = t == CH_GGUF_F32 || t == CH_GGUF_F64, is_str = t == CH_GGUF_STR, is_int = !is_float && !is_str;
        char key[16];
        for (int array = 0; array < 2; array++) {
            snprintf(key, sizeof key, "%c%u", array ? 'a' : 's', t);
            uint32_t u = 77, many[2] = {77, 77};
            uint64_t w = 77;
            float f = 77;
            bool flag = false;
            ch_gguf_str s = {0};
            e.msg[0] = 0;
            int rc = ch_gguf_get_u32(g, key, &u, &e);
            assert_int_equal(rc, is_int && !array ? 1 : CH_EFORMAT);
            assert_int_equal(u, rc == 1 ? 1 : 77);
            if (rc < 0) assert_non_null(strstr(e.msg, "wrong type: expected an integer, found"));
            assert_int_equal(ch_gguf_get_u64(g, key, &w, &e), rc);
            assert_int_equal(ch_gguf_get_bool(g, key, &flag, &e), rc);
            rc = ch_gguf_get_f32(g, key, &f, &e);
            assert_int_equal(rc, is_float && !array ? 1 : CH_EFORMAT);
            assert_true(f == (rc == 1 ? 1.5f : 77.0f));
            rc = ch_gguf_get_str(g, key, &s, &e);
            assert_int_equal(rc, is_str && !array ? 1 : CH_EFORMAT);
            if (rc == 1) assert_memory_equal(s.p, "text", 4);
            rc = ch_gguf_get_u32_n(g, key, many, 2, &e);
            assert_int_equal(rc, is_int ? 1 : CH_EFORMAT);
            assert_int_equal(many[1], is_int ? 1 : 77);
            uint32_t three[3];
            assert_int_equal(ch_gguf_get_u32_n(g, key, three, 3, &e), is_int && !array ? 1 : CH_EFORMAT);
            const ch_gguf_kv *kv = ch_gguf_find(g, key);
            assert_int_equal(kv->n, array ? 2 : 1);
            for (uint64_t i = 0; i < kv->n; i++) {
                double wanted = is_float ? 1.5 : is_str ? 0 : 1;
                assert_true(ch_gguf_arr_num(kv, i) == wanted);
                assert_int_equal(ch_gguf_arr_int(kv, i), (int)wanted);
                ch_gguf_str el = ch_gguf_arr_str(g, kv, i);
                assert_int_equal(el.n, is_str ? 4 : 0);
            }
        }
    }
    uint32_t u = 5;
    assert_int_equal(ch_gguf_get_u32(g, "absent", &u, &e), 0);
    assert_int_equal(u, 5);
    assert_null(ch_gguf_find(g, "absent"));
    assert_null(ch_gguf_kv_at(g, 24));
    assert_null(ch_gguf_tensor_at(g, 0));
    ch_gguf_close(&g);

    // Values that do not fit.
    header(&b, 3, 0, 7);
    str(&b, "neg"), u32(&b, CH_GGUF_I32), u32(&b, (uint32_t)-5);
    str(&b, "max"), u32(&b, CH_GGUF_U64), u64(&b, UINT32_MAX);
    str(&b, "over"), u32(&b, CH_GGUF_U64), u64(&b, (uint64_t)UINT32_MAX + 1);
    str(&b, "i64"), u32(&b, CH_GGUF_I64), u64(&b, INT64_MAX);
    str(&b, "nan"), u32(&b, CH_GGUF_F32), u32(&b, 0x7fc00000);
    str(&b, "big"), u32(&b, CH_GGUF_F64), u64(&b, 0x7e37e43c8800759cu); // 1e300
    str(&b, "two"), u32(&b, CH_GGUF_U8), u8(&b, 2);
    assert_int_equal(ch_gguf_open_memory(&g, b.data, b.len, "test", &e), 0);
    float f;
    uint64_t w;
    bool flag;
    assert_int_equal(ch_gguf_get_u32(g, "neg", &u, &e), CH_ERANGE);
    assert_non_null(strstr(e.msg, "found -5"));
    assert_int_equal(ch_gguf_get_u32(g, "max", &u, &e), 1);
    assert_true(u == UINT32_MAX);
    assert_int_equal(ch_gguf_get_u32(g, "over", &u, &e), CH_ERANGE);
    assert_non_null(strstr(e.msg, "expected 0 to 4294967295, found 4294967296"));
    assert_int_equal(ch_gguf_get_u64(g, "i64", &w, &e), 1);
    assert_true(w == INT64_MAX);
    assert_int_equal(ch_gguf_get_f32(g, "nan", &f, &e), CH_ERANGE);
    assert_int_equal(ch_gguf_get_f32(g, "big", &f, &e), CH_ERANGE);
    assert_int_equal(ch_gguf_get_bool(g, "two", &flag, &e), CH_ERANGE);
    assert_int_equal(ch_gguf_arr_int(ch_gguf_find(g, "neg"), 0), -5);
    ch_gguf_close(&g);
    ch_buf_free(&b);
}

// ---- files ------------------------------------------------------------------------------------------------------------
static int make_folder(void **state) {
    char dir[] = "/tmp/test_gguf_XXXXXX";
    *state = mkdtemp(dir) ? strdup(dir) : NULL;
    return *state ? 0 : -1;
}

static int remove_folder(void **state) {
    DIR *d = opendir(*state);
    struct dirent *f;
    char path[400];
    while (d && (f = readdir(d)))
        if (f->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", (char *)*state, f->d_name);
            unlink(path);
        }
    if (d) closedir(d);
    int rc = rmdir(*state);
    free(*state);
    return rc;
}

static void write_rich(const char *path, uint32_t alignment) {
    ch_gguf_writer *w;
    ch_error e = {0};
    assert_int_equal(ch_gguf_writer_open(&w, path, &e), 0);
    if (alignment) assert_int_equal(ch_gguf_put_u32(w, "general.alignment", alignment), 0);
    assert_int_equal(ch_gguf_put_u32(w, "u", 7), 0);
    assert_int_equal(ch_gguf_put_u64(w, "w", 1ull << 40), 0);
    assert_int_equal(ch_gguf_put_f32(w, "f", 0.25f), 0);
    assert_int_equal(ch_gguf_put_bool(w, "b", true), 0);
    assert_int_equal(ch_gguf_put_str(w, "s", "text", 4), 0);
    int32_t ints[3] = {-1, 0, 5};
    assert_int_equal(ch_gguf_put_arr(w, "ints", CH_GGUF_I32, ints, 3), 0);
    ch_gguf_str names[3] = {{"x", 1}, {"", 0}, {"long name", 9}};
    assert_int_equal(ch_gguf_put_arr_str(w, "names", names, 3), 0);
    assert_int_equal(ch_gguf_put_u32(w, "u", 8), CH_ESTATE); // twice
    assert_int_equal(ch_gguf_put_u32(w, "", 8), CH_EFORMAT);
    uint64_t ne[2] = {3, 5}, q[1] = {64};
    assert_int_equal(ch_gguf_put_tensor(w, "m", CH_TYPE_F32, 2, ne), 0);
    assert_int_equal(ch_gguf_put_tensor(w, "q", CH_TYPE_Q8_0, 1, q), 0);
    assert_int_equal(ch_gguf_put_tensor(w, "m", CH_TYPE_F32, 2, ne), CH_ESTATE);
    assert_int_equal(ch_gguf_put_tensor(w, "bad", CH_TYPE_Q8_0, 2, ne), CH_ERANGE);
    uint8_t data[60 + 68];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
    for (size_t at = 0; at < sizeof data; at += 10) // pieces that cross the border of the tensors
        assert_int_equal(ch_gguf_write_data(w, data + at, sizeof data - at < 10 ? sizeof data - at : 10, &e), 0);
    assert_int_equal(ch_gguf_put_u32(w, "late", 1), CH_ESTATE);
    assert_int_equal(ch_gguf_write_data(w, data, 1, &e), CH_ESTATE);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(ch_gguf_writer_commit(&w, &e), 0);
    assert_null(w);
}

static void check_rich(const ch_gguf *g, size_t alignment) {
    uint32_t u;
    uint64_t w;
    float f;
    bool b;
    ch_gguf_str s;
    assert_int_equal(ch_gguf_version(g), 3);
    assert_int_equal(ch_gguf_get_u32(g, "u", &u, NULL), 1);
    assert_int_equal(u, 7);
    assert_int_equal(ch_gguf_get_u64(g, "w", &w, NULL), 1);
    assert_true(w == 1ull << 40);
    assert_int_equal(ch_gguf_get_f32(g, "f", &f, NULL), 1);
    assert_true(f == 0.25f);
    assert_int_equal(ch_gguf_get_bool(g, "b", &b, NULL), 1);
    assert_true(b);
    assert_int_equal(ch_gguf_get_str(g, "s", &s, NULL), 1);
    assert_int_equal(s.n, 4);
    const ch_gguf_kv *kv = ch_gguf_find(g, "ints");
    assert_int_equal(ch_gguf_arr_int(kv, 0), -1);
    assert_int_equal(ch_gguf_arr_int(kv, 2), 5);
    kv = ch_gguf_find(g, "names");
    assert_int_equal(kv->n, 3);
    s = ch_gguf_arr_str(g, kv, 2);
    assert_memory_equal(s.p, "long name", 9);
    assert_int_equal(ch_gguf_arr_str(g, kv, 1).n, 0);
    const ch_gguf_tensor *m = ch_gguf_find_tensor(g, "m"), *q = ch_gguf_find_tensor(g, "q");
    assert_int_equal(m->size, 60);
    assert_int_equal(m->ne[1], 5);
    assert_int_equal(m->ne[2], 1);
    assert_int_equal(q->size, 68);
    assert_int_equal((uintptr_t)m->data % alignment, 0);
    assert_int_equal((uintptr_t)q->data % alignment, 0);
    for (size_t i = 0; i < 60; i++) assert_int_equal(((const uint8_t *)m->data)[i], (uint8_t)(i * 7));
    for (size_t i = 0; i < 68; i++) assert_int_equal(((const uint8_t *)q->data)[i], (uint8_t)((i + 60) * 7));
}

static void test_round_trip(void **state) {
    char a[100], c[100];
    ch_error e = {0};
    snprintf(a, sizeof a, "%s/a.gguf", (char *)*state);
    snprintf(c, sizeof c, "%s/c.gguf", (char *)*state);
    for (int k = 0; k < 2; k++) {
        unlink(a);
        write_rich(a, k ? 4096 : 0);
        ch_gguf *g, *copy;
        assert_int_equal(ch_gguf_open(&g, a, &e), 0);
        check_rich(g, k ? 4096 : 32);
        assert_string_equal(ch_gguf_path(g), a);
        assert_int_equal(ch_gguf_n_shards(g), 1);
        // Copy key by key and tensor by tensor: the same bytes.
        ch_gguf_writer *w;
        assert_int_equal(ch_gguf_writer_open(&w, c, &e), 0);
        for (size_t i = 0; i < ch_gguf_n_kv(g); i++) assert_int_equal(ch_gguf_put_kv(w, g, ch_gguf_kv_at(g, i)), 0);
        for (size_t i = 0; i < ch_gguf_n_tensors(g); i++) {
            const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
            assert_int_equal(ch_gguf_put_tensor(w, t->name, t->type->id, t->n_dims, t->ne), 0);
        }
        for (size_t i = 0; i < ch_gguf_n_tensors(g); i++) {
            const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
            assert_int_equal(ch_gguf_write_data(w, t->data, t->size, &e), 0);
        }
        assert_int_equal(ch_gguf_writer_commit(&w, &e), 0);
        assert_int_equal(ch_gguf_open(&copy, c, &e), 0);
        assert_true(ch_gguf_fingerprint(g) == ch_gguf_fingerprint(copy));
        assert_true(ch_gguf_file_bytes(g) == ch_gguf_file_bytes(copy));
        ch_buf x = {0}, y = {0};
        assert_int_equal(ch_read_file(&x, a, &e), 0);
        assert_int_equal(ch_read_file(&y, c, &e), 0);
        assert_int_equal(x.len, y.len);
        assert_memory_equal(x.data, y.data, x.len);
        ch_buf_free(&x);
        ch_buf_free(&y);
        ch_gguf_close(&g);
        ch_gguf_close(&copy);
    }
    // Missing data: no file.
    unlink(c);
    ch_gguf_writer *w;
    uint64_t ne[1] = {4};
    assert_int_equal(ch_gguf_writer_open(&w, c, &e), 0);
    assert_int_equal(ch_gguf_put_tensor(w, "t", CH_TYPE_F32, 1, ne), 0);
    assert_int_equal(ch_gguf_write_data(w, "123456789012345", 15, &e), 0);
    assert_int_equal(ch_gguf_writer_commit(&w, &e), CH_ESTATE);
    assert_non_null(strstr(e.msg, "expected 16 bytes of data, 15 were written"));
    assert_int_equal(access(c, F_OK), -1);
}

// ---- shards -----------------------------------------------------------------------------------------------------------
static void shard_path(char *out, size_t cap, const char *dir, int no, int count) {
    snprintf(out, cap, "%s/toy-%05d-of-%05d.gguf", dir, no + 1, count);
}

// A model of three shards; `claim` is what split.tensors.count says, no_of_2 what the last shard says it is.
static void write_shards(const char *dir, uint32_t claim, uint32_t no_of_2, const char *name_of_2) {
    for (int i = 0; i < 3; i++) {
        char path[200];
        ch_error e;
        ch_gguf_writer *w;
        shard_path(path, sizeof path, dir, i, 3);
        assert_int_equal(ch_gguf_writer_open(&w, path, &e), 0);
        if (i == 0) ch_gguf_put_str(w, "general.architecture", "toy", 3);
        ch_gguf_put_u32(w, "split.no", i == 2 ? no_of_2 : (uint32_t)i);
        ch_gguf_put_u32(w, "split.count", 3);
        ch_gguf_put_u32(w, "split.tensors.count", claim);
        uint64_t ne[1] = {8};
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        ch_gguf_put_tensor(w, i == 2 ? name_of_2 : name, CH_TYPE_F32, 1, ne);
        float x[8] = {(float)i, 1, 2, 3, 4, 5, 6, 7};
        assert_int_equal(ch_gguf_write_data(w, x, sizeof x, &e), 0);
        assert_int_equal(ch_gguf_writer_commit(&w, &e), 0);
    }
}

static void must_not_open(const char *path, const char *w1, const char *w2) {
    ch_gguf *g;
    ch_error e = {0};
    int rc = ch_gguf_open(&g, path, &e);
    if (rc == 0 || !strstr(e.msg, w1) || !strstr(e.msg, w2)) fail_msg("expected \"%s\" and \"%s\", got %d: %s", w1, w2, rc, e.msg);
    assert_null(g);
}

static void test_shards(void **state) {
    const char *dir = *state;
    char path[3][200], whole[200], name[200];
    ch_error e = {0};
    ch_gguf *g;
    for (int i = 0; i < 3; i++) shard_path(path[i], sizeof path[i], dir, i, 3);
    write_shards(dir, 3, 2, "t2");
    uint64_t fingerprint = 0;
    for (int given = 0; given < 3; given++) { // any part opens the whole
        if (ch_gguf_open(&g, path[given], &e) != 0) fail_msg("%s", e.msg);
        assert_int_equal(ch_gguf_n_shards(g), 3);
        assert_int_equal(ch_gguf_n_tensors(g), 3);
        assert_string_equal(ch_gguf_path(g), path[0]);
        assert_non_null(ch_gguf_find(g, "general.architecture"));
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "t%d", i);
            const ch_gguf_tensor *t = ch_gguf_find_tensor(g, name);
            assert_int_equal(t->shard, i);
            assert_true(((const float *)t->data)[0] == (float)i);
            assert_string_equal(ch_gguf_shard_path(g, i), path[i]);
        }
        assert_null(ch_gguf_shard_path(g, 3));
        if (given) assert_true(ch_gguf_fingerprint(g) == fingerprint);
        fingerprint = ch_gguf_fingerprint(g);
        ch_gguf_close(&g);
    }
    // Joined with cat, under a name of its own and under the first shard's.
    ch_buf all = {0}, first = {0};
    for (int i = 0; i < 3; i++) assert_int_equal(ch_read_file(&all, path[i], &e), 0);
    assert_int_equal(ch_read_file(&first, path[0], &e), 0);
    const char *joined[2] = {whole, path[0]};
    snprintf(whole, sizeof whole, "%s/whole.gguf", dir);
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(joined[i], "w");
        fwrite(all.data, 1, all.len, f);
        fclose(f);
        snprintf(name, sizeof name, "expected %zu bytes, found %zu", first.len, all.len);
        must_not_open(joined[i], name, "joined");
    }
    // One shard alone under another name.
    FILE *f = fopen(whole, "w");
    fwrite(first.data, 1, first.len, f);
    fclose(f);
    must_not_open(whole, "shard 1 of 3", "-00001-of-00003.gguf");
    write_shards(dir, 3, 2, "t2");
    // Cut off, in the data and in the metadata.
    struct stat st;
    assert_int_equal(stat(path[1], &st), 0);
    assert_int_equal(truncate(path[1], st.st_size - 1), 0);
    must_not_open(path[0], "shard 2 of 3", "cut off");
    must_not_open(path[1], "expected at least", "cut off");
    assert_int_equal(truncate(path[1], 40), 0);
    must_not_open(path[2], "shard 2 of 3", "40 bytes");
    unlink(path[1]);
    must_not_open(path[0], "toy-00002-of-00003.gguf", "shard 2 of 3 is missing");
    must_not_open(path[2], "toy-00002-of-00003.gguf", "shard 2 of 3 is missing");
    // Copied over each other, wrong totals, the same tensor twice.
    write_shards(dir, 3, 1, "t2");
    must_not_open(path[0], "shard 3 of 3", "expected split.no 2, found 1");
    write_shards(dir, 4, 2, "t2");
    must_not_open(path[0], "expected 4 tensors", "hold 3");
    write_shards(dir, 3, 2, "t1");
    must_not_open(path[0], "toy-00003-of-00003.gguf", "tensor t1 occurs twice");
    ch_buf_free(&all);
    ch_buf_free(&first);
}

static void test_real_files(void **state) {
    (void)state;
    const char *data = getenv("CHIMERE_TESTDATA");
    if (!data) skip();
    char path[400];
    ch_gguf *g;
    ch_error e = {0};
    snprintf(path, sizeof path, "%s/models/mini-qwen35moe-f16.gguf", data);
    if (ch_gguf_open(&g, path, &e) != 0) fail_msg("%s", e.msg);
    uint32_t n = 0;
    assert_int_equal(ch_gguf_get_u32(g, "qwen35moe.block_count", &n, &e), 1);
    assert_int_equal(n, 8);
    const ch_gguf_tensor *t = ch_gguf_find_tensor(g, "token_embd.weight");
    assert_non_null(t);
    assert_int_equal(t->ne[0], 256);
    assert_int_equal(t->ne[1], 2048);
    assert_string_equal(t->type->name, "f16");
    const ch_gguf_kv *kv = ch_gguf_find(g, "tokenizer.ggml.tokens");
    assert_int_equal(kv->n, 2048);
    ch_gguf_str s = ch_gguf_arr_str(g, kv, 2040);
    assert_memory_equal(s.p, "<|im_start|>", 12);
    ch_gguf_close(&g);
    snprintf(path, sizeof path, "%s/vocab/ggml-vocab-gpt-2.gguf", data); // no tensors
    if (ch_gguf_open(&g, path, &e) != 0) fail_msg("%s", e.msg);
    assert_int_equal(ch_gguf_n_tensors(g), 0);
    assert_int_equal(ch_gguf_find(g, "tokenizer.ggml.tokens")->n, 50257);
    ch_gguf_close(&g);
    assert_int_equal(ch_gguf_open(&g, "/nonexistent/x.gguf", &e), CH_EIO);
    assert_int_equal(ch_gguf_open(&g, "/dev/null", &e), CH_EIO);
    assert_int_equal(ch_gguf_open(&g, "/", &e), CH_EIO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_hostile_cost),
        cmocka_unit_test(test_typed_reads),
        cmocka_unit_test_setup_teardown(test_round_trip, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_shards, make_folder, remove_folder),
        cmocka_unit_test(test_real_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
