// Attention of a step's rows, spread over the workers. A tile is a few rows of one sequence with the query heads that share a
// key/value head. Its positions come in ranges that depend on the rows' positions alone (kern.h); folding their parts in order
// gives the same bits whoever computes them. So a tile is one worker's, who folds as he goes, or, where tiles are few and long,
// its ranges are shared out and folded after a barrier.
#include <string.h>

#include "op/cpu/cpu.h"

enum { TILE_ROWS = 64 }; // query heads times tokens of a tile

typedef struct tile {
    size_t seg, row, n_tok; // tokens [row, row + n_tok) of the segment
    size_t head, n_q;
    size_t range, n_range; // positions per range, ranges
} tile;

static size_t most_rows(size_t n_q) { return n_q > TILE_ROWS ? n_q : TILE_ROWS; }

// The tile after x (begin with all zero); false past the last one. Tokens of a tile have ranges of the same size.
static bool next_tile(const ch_op_attend *a, tile *x) {
    if (x->n_tok && (x->head += a->n_q) >= a->n_head) x->head = 0, x->row += x->n_tok;
    while (x->seg < a->n_seg && x->row >= a->seg[x->seg].n_row) x->seg++, x->row = 0;
    if (x->seg >= a->n_seg) return false;
    const ch_op_seg *s = &a->seg[x->seg];
    const size_t first = s->pos0 + x->row + 1; // positions that the first token sees
    x->n_q = a->n_head - x->head < a->n_q ? a->n_head - x->head : a->n_q;
    x->range = ch_attn_range_size(first);
    x->n_tok = a->n_q < TILE_ROWS ? TILE_ROWS / a->n_q : 1;
    if (x->n_tok > s->n_row - x->row) x->n_tok = s->n_row - x->row;
    const size_t room = x->range * CH_ATTN_RANGES - first + 1;
    if (x->n_tok > room) x->n_tok = room;
    x->n_range = (first + x->n_tok - 1 + x->range - 1) / x->range;
    return true;
}

static size_t range_cost(const ch_op_attend *a, const tile *x, size_t range) {
    const size_t seen = a->seg[x->seg].pos0 + x->row + x->n_tok, begin = range * x->range;
    const size_t n = seen - begin < x->range ? seen - begin : x->range;
    return x->n_tok * x->n_q * ((n + CH_KV_PAGE - 1) / CH_KV_PAGE);
}

static size_t tile_cost(const ch_op_attend *a, const tile *x) {
    size_t sum = 0;
    for (size_t r = 0; r < x->n_range; r++) sum += range_cost(a, x, r);
    return sum;
}

static void run_range(const ch_op_attend *a, const tile *x, size_t range, float *part, float *scratch) {
    const ch_op_seg *s = &a->seg[x->seg];
    const size_t row = s->row0 + x->row, unit = x->head / a->n_q;
    a->op->kern.attn(&(ch_attn_args){
        .n_tok = x->n_tok, .n_q = x->n_q, .d_k = a->d_k, .d_v = a->d_v, .pos0 = s->pos0 + x->row, .begin = range * x->range,
        .end = (range + 1) * x->range, .q = a->q + (row * a->n_head + x->head) * a->d_k, .ld_q = a->n_head * a->d_k,
        .page = (const uint8_t *const *)s->page, .k_off = a->k_off + unit * a->k_unit, .v_off = a->v_off + unit * a->v_unit,
        .k_ld = a->k_ld, .v_ld = a->v_ld, .k_type = a->k_type, .v_type = a->v_type, .scale = a->scale, .part = part,
        .scratch = scratch});
}

static void finish_row(const ch_op_attend *a, const tile *x, size_t r, const float *total) {
    const size_t row = a->seg[x->seg].row0 + x->row + r / x->n_q, at = row * a->n_head + x->head + r % x->n_q;
    float *y = a->y + at * a->d_v;
    ch_kern_attn_finish(total, a->d_v, y);
    if (a->v_rot) a->op->kern.rotate(y, a->d_v, a->v_rot, true);
    if (a->gate) a->op->kern.sigmoid_mul(y, a->gate + at * a->ld_gate, a->d_v, y);
}

// work: kernel scratch, then parts and totals of a tile's rows.
static void run_whole(const ch_op_attend *a, const tile *x, float *work) {
    const size_t n = x->n_tok * x->n_q, ld = ch_attn_part_floats(a->d_v);
    float *part = work + a->scratch, *total = part + most_rows(a->n_q) * ld;
    for (size_t range = 0; range < x->n_range; range++) {
        run_range(a, x, range, range ? part : total, work);
        for (size_t r = 0; r < n && range; r++) ch_kern_attn_fold(total + r * ld, part + r * ld, a->d_v);
    }
    for (size_t r = 0; r < n; r++) finish_row(a, x, r, total + r * ld);
}

// Whose work the part [done, done + cost) of total is: shares in order, cut by cost.
static bool is_mine(size_t done, size_t cost, size_t total, int worker, int n_workers) {
    return (2 * done + cost) * (size_t)n_workers / (2 * total) == (size_t)worker;
}

// Tiles up to `small` stay whole, and so do those whose parts find no room any more.
static bool is_split(const ch_op_attend *a, const tile *x, size_t small, size_t used) {
    return x->n_range > 1 && tile_cost(a, x) > small && used + x->n_tok * x->n_q * x->n_range <= most_rows(a->n_q) * CH_ATTN_RANGES;
}

void ch_op_attend_share(const ch_op_attend *a, int worker, int n_workers, float *work) {
    const size_t ld = ch_attn_part_floats(a->d_v);
    float *parts = (float *)a->op->buf[BUF_ATTN_PART];
    size_t total = 0, done = 0, used = 0;
    for (tile x = {0}; next_tile(a, &x);) total += tile_cost(a, &x);
    const size_t small = n_workers > 1 ? total / ((size_t)n_workers * 4) : total;
    for (tile x = {0}; next_tile(a, &x);) {
        const size_t n = x.n_tok * x.n_q;
        if (!is_split(a, &x, small, used)) {
            const size_t cost = tile_cost(a, &x);
            if (is_mine(done, cost, total, worker, n_workers)) run_whole(a, &x, work);
            done += cost;
            continue;
        }
        for (size_t range = 0; range < x.n_range; range++, used += n) {
            const size_t part = range_cost(a, &x, range);
            if (is_mine(done, part, total, worker, n_workers)) run_range(a, &x, range, parts + used * ld, work);
            done += part;
        }
    }
    if (!used) return;
    ch_pool_barrier(a->op->pool);
    size_t row = 0;
    used = 0;
    for (tile x = {0}; next_tile(a, &x);) {
        const size_t n = x.n_tok * x.n_q;
        if (!is_split(a, &x, small, used)) continue;
        for (size_t r = 0; r < n; r++, row++) {
            if (row % (size_t)n_workers != (size_t)worker) continue;
            float *sum = parts + (used + r) * ld;
            for (size_t range = 1; range < x.n_range; range++) ch_kern_attn_fold(sum, parts + (used + range * n + r) * ld, a->d_v);
            finish_row(a, &x, r, sum);
        }
        used += n * x.n_range;
    }
}

bool ch_op_attend_need(ch_op *op, ch_op_attend *a) {
    const size_t rows = most_rows(a->n_q), ld = ch_attn_part_floats(a->d_v);
    a->op = op;
    a->scratch = (op->kern.attn_scratch(rows, 1, a->d_k, a->d_v) + 15) & ~(size_t)15;
    const size_t part = (a->scratch + 2 * rows * ld) * sizeof(float);
    if (op->dry && part > op->attn_part) op->attn_part = part;
    return ch_op_need(op, BUF_ATTN_PART, rows * CH_ATTN_RANGES * ld * sizeof(float));
}
