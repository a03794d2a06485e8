// A long context without the hour of computing it: what is measured behind it takes as long, whatever the keys say.
#include <string.h>

#include "cmd/bench.h"

int ch_bench_fill(ch_seq *s, const ch_seq_plan *plan, size_t n, ch_error *e) {
    const size_t n_page = ch_seq_len(s) / plan->page_tokens; // whole ones; the first of the others is filled anew
    if (!plan->page_bytes || !n_page)
        return ch_error_set(e, CH_ERANGE, "--fill: no whole page of %zu positions to copy", plan->page_tokens);
    int rc = ch_seq_extend(s, n, e);
    if (rc != 0)
        return rc;
    const size_t end = (ch_seq_len(s) + n + plan->page_tokens - 1) / plan->page_tokens;
    uint8_t *const *page = ch_seq_pages(s);
    for (size_t i = n_page; i < end; i++)
        memcpy(page[i], page[i % n_page], plan->page_bytes);
    ch_seq_commit(s, n);
    return CH_OK;
}
