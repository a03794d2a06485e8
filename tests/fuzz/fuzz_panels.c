// Fuzz target of files of packed weights. Input: a byte (bit 0: leave checksums as they are), then the file. Unless told not to,
// its size and the two checksums of header and table are made to fit, so that what lies behind them is reached. A file that is
// accepted must be refused once a byte of a matrix differs, or when it is cut.
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER = 128, ENTRY = 128, MAX_BYTES = 1 << 17 };

static uint64_t get64(const uint8_t *b) {
    uint64_t v;
    memcpy(&v, b, 8);
    return v;
}

static void put64(uint8_t *b, uint64_t v) { memcpy(b, &v, 8); }

static void fix(uint8_t *b, size_t n) {
    uint32_t n_entry;
    if (n < HEADER) return;
    memcpy(&n_entry, b + 12, 4);
    put64(b + 40, n);
    size_t table = n_entry * (size_t)ENTRY, sums = n_entry * (size_t)8;
    if (table <= n - HEADER) put64(b + 120, ch_hash64(b + HEADER, table, ch_hash64(b, 120, 0)));
    uint64_t off = get64(b + 32);
    if (off <= n && off % 8 == 0 && sums + 16 <= n - off) put64(b + off + sums, ch_hash64(b + off, sums, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > MAX_BYTES) return 0;
    size_t n = size - 1;
    uint8_t *b = malloc(n ? n : 1); // exact, for the address sanitizer
    ch_error e = {0};
    if (!b) return 0;
    memcpy(b, data + 1, n);
    if (!(data[0] & 1)) fix(b, n);
    int rc = ch_panels_verify(b, n, 1, NULL, NULL, &e);
    if (rc > 0 || (rc && !e.msg[0])) abort();
    if (rc == 0) {
        uint64_t at = get64(b + HEADER + 8), bytes = get64(b + HEADER + 16);
        if (at >= n || bytes > n - at || at % 4096) abort();
        b[at + bytes / 2] ^= 1;
        if (ch_panels_verify(b, n, 1, NULL, NULL, &e) != CH_EFORMAT) abort();
        b[at + bytes / 2] ^= 1;
        if (!ch_panels_verify(b, n - 1, 1, NULL, NULL, &e)) abort();
    }
    free(b);
    return 0;
}
