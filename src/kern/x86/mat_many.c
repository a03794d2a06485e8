// The walk of products with many tokens: activations into groups, panels into chunks. Plain C.
#include "kern/x86/many.h"

#include <string.h>

// Groups of one pass should stay in the second-level cache; every pass unpacks the panels again.
enum { GROUPS_CACHE = 768 * 1024 };

static size_t group_bytes(size_t n_blk, size_t ld_group) {
    return n_blk * ld_group;
}

// Groups of a pass, at least one.
static size_t pass_groups(size_t n_blk, size_t ld_group) {
    const size_t n = GROUPS_CACHE / group_bytes(n_blk, ld_group);
    return n ? n : 1;
}

size_t ch_kern_many_work_bytes(size_t n_in) {
    const size_t n_blk = n_in / CH_PANEL_BLOCK, most = group_bytes(n_blk, CH_GROUP_SUMS + 2 * 4 * CH_GROUP_TOKENS);
    return sizeof(ch_many_chunk) + (most > GROUPS_CACHE ? most : GROUPS_CACHE);
}

typedef struct shape {
    size_t n_blk, ld_group, n_sub;
    bool affine, sums; // sums: -zero * sum of q
    int zero;
} shape;

// Tokens [t0, t0 + n) of the call to groups; the last group's missing tokens are zero.
static void gather(const ch_mat_call *c, const shape *h, size_t t0, size_t n, uint8_t *dst) {
    static const ch_act8 none;
    for (size_t g = 0; g < n; g += CH_GROUP_TOKENS) {
        const uint8_t *row = (const uint8_t *)c->act + (t0 + g) * c->ld_act;
        for (size_t b = 0; b < h->n_blk; b++, dst += h->ld_group) {
            float *d = (float *)(dst + CH_GROUP_D), *f = (float *)(dst + CH_GROUP_SUMS);
            int32_t *i = (int32_t *)(dst + CH_GROUP_SUMS);
            for (size_t t = 0; t < CH_GROUP_TOKENS; t++) {
                const ch_act8 *a = g + t < n ? (const ch_act8 *)(row + t * c->ld_act) + b : &none;
                memcpy(dst + t * CH_PANEL_BLOCK, a->q, CH_PANEL_BLOCK);
                d[t] = a->d;
                if (h->affine && h->n_sub == 1) f[t] = a->dsum;
                if (h->affine && h->n_sub == 2) f[t] = a->dsum16[0], f[CH_GROUP_TOKENS + t] = a->dsum16[1];
                if (h->sums && h->n_sub == 1) i[t] = -h->zero * a->sum;
                if (h->sums && h->n_sub == 2)
                    i[t] = -h->zero * a->sum16[0], i[CH_GROUP_TOKENS + t] = -h->zero * a->sum16[1];
            }
        }
    }
}

void ch_kern_matmul_many(const ch_mat_call *c, const ch_panel_spec *s, const ch_panel_kernel *p, const ch_many_kernel *k) {
    const ch_mat *m = c->m;
    const size_t bytes = ch_panel_bytes(s, m->n_in), rest = c->n_tok % CH_GROUP_TOKENS;
    const size_t n_tok = rest < k->min_rest ? c->n_tok - rest : c->n_tok;
    shape h = {.n_blk = m->n_in / CH_PANEL_BLOCK, .n_sub = CH_PANEL_BLOCK / s->sub, .affine = s->affine};
    h.zero = ch_panel_zero(s);
    h.sums = h.zero && !k->is_signed;
    h.ld_group = CH_GROUP_SUMS + (h.affine || h.sums ? h.n_sub : 0) * 4 * CH_GROUP_TOKENS;
    const size_t step = pass_groups(h.n_blk, h.ld_group) * CH_GROUP_TOKENS;
    const ch_many_fn fn = k->fn[h.n_sub == 2][h.affine];
    ch_many_chunk *chunk = c->work;
    uint8_t *groups = (uint8_t *)c->work + sizeof *chunk;
    for (size_t t = 0; t < n_tok; t += step) {
        const size_t n = n_tok - t < step ? n_tok - t : step;
        gather(c, &h, t, n, groups);
        for (size_t r = c->r0; r < c->r1; r += CH_PANEL_ROWS) {
            const ch_panel_view view = ch_panel_view_of(s, m->packed + r / CH_PANEL_ROWS * bytes, m->n_in);
            for (size_t b = 0; b < h.n_blk; b += k->n_blk) {
                ch_many_args a = {.chunk = chunk,
                                   .n_blk = h.n_blk - b < k->n_blk ? h.n_blk - b : k->n_blk,
                                   .ld_group = h.ld_group,
                                   .ld_y = c->ld_y,
                                   .n_row = c->r1 - r < CH_PANEL_ROWS ? c->r1 - r : CH_PANEL_ROWS,
                                   .first = b == 0};
                p->unpack(&view, b, a.n_blk, k->is_signed ? h.zero : 0, chunk);
                for (size_t g = 0; g < n; g += CH_GROUP_TOKENS) {
                    a.group = groups + (g / CH_GROUP_TOKENS * h.n_blk + b) * h.ld_group;
                    a.y = c->y + (t + g) * c->ld_y + r;
                    a.n_tok = n - g < CH_GROUP_TOKENS ? n - g : CH_GROUP_TOKENS;
                    fn(&a);
                }
            }
        }
    }
    if (n_tok < c->n_tok) {
        ch_mat_call few = *c;
        few.act = (const uint8_t *)c->act + n_tok * c->ld_act;
        few.y = c->y + n_tok * c->ld_y;
        few.n_tok = rest;
        ch_kern_matmul_panels(&few, s, p->few);
    }
}
