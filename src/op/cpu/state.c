// The one place that knows how a recurrent state is kept: in f32 or bf16, and which rows of a prompt go in chunks.
#include <string.h>

#include "op/cpu/cpu.h"

static size_t lesser(size_t a, size_t b) { return a < b ? a : b; }

// A copy of the state, and its bf16 form for tentative rows.
size_t ch_op_state_work(size_t n) { return (n + 15) / 16 * 16 + (n + 31) / 32 * 16; }

// Rows of the next piece: a whole chunk, or all up to one. A bf16 state is rounded behind every piece, so there a piece is one
// row or one chunk; else chunks that follow each other go together.
static size_t next_piece(const ch_state_run *r, size_t at, bool *chunk) {
    const size_t left = r->seg->n_row - at, pos = r->seg->pos0 + at;
    size_t before = left; // rows before the next whole chunk
    if (r->form.chunk && !r->seg->journal) {
        const size_t skip = (CH_CHUNK - pos % CH_CHUNK) % CH_CHUNK;
        if (skip + CH_CHUNK <= left) before = skip;
    }
    *chunk = before == 0;
    if (r->form.bf16) return *chunk ? CH_CHUNK : 1;
    return *chunk ? left / CH_CHUNK * CH_CHUNK : before;
}

void ch_op_run_state(const ch_state_run *r, ch_state_rows rows, void *ctx) {
    const bool trial = r->seg->journal && !r->commit;
    float *state = r->work;
    uint16_t *half = (uint16_t *)r->home;
    if (r->form.bf16) {
        r->kern->bf16_load(half, r->n, state);
        if (trial) half = (uint16_t *)(r->work + (r->n + 15) / 16 * 16);
    } else if (trial) {
        memcpy(state, r->home, r->n * sizeof *state);
    } else {
        state = (float *)r->home;
    }
    for (size_t at = 0, n; at < r->seg->n_row; at += n) {
        bool chunk;
        n = lesser(next_piece(r, at, &chunk), r->seg->n_row - at);
        rows(ctx, state, at, n, chunk);
        if (!r->form.bf16) continue;
        r->kern->bf16_store(state, r->n, half);
        if (at + n < r->seg->n_row) r->kern->bf16_load(half, r->n, state);
    }
}
