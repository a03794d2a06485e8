// XXH3, 64 bits: hash tables, fingerprints, checksums of our own files.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/base.h"

uint64_t ch_hash64(const void *data, size_t n, uint64_t seed) { return XXH3_64bits_withSeed(data, n, seed); }
