// AVX2 chunk forms.
#include "kern/x86/lanes_avx2.h"

CH_FORCE_INLINE __m128 vec_sums4(vec a, vec b, vec c, vec d) { return sums4(a, b, c, d); }

#include "kern/x86/chunk_body.h"

void ch_kern_set_chunk_avx2(ch_kern *k) { set_chunk(k); }
