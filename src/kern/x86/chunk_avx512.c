// AVX-512 chunk forms.
#include "kern/x86/lanes_avx512.h"

CH_FORCE_INLINE __m256 halves(vec x) { return _mm256_add_ps(vec_low(x), vec_high(x)); }
CH_FORCE_INLINE __m128 vec_sums4(vec a, vec b, vec c, vec d) { return sums4(halves(a), halves(b), halves(c), halves(d)); }

#include "kern/x86/chunk_body.h"

void ch_kern_set_chunk_avx512(ch_kern *k) { set_chunk(k); }
