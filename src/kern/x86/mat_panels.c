// What the x86 tiers' matrix products share: sizes, packing, and the walk over panels and tokens. Plain C.
#include "kern/x86/panel.h"
#include "kern/x86/x86.h"

// Activations of one pass over the panels: they should stay in the second-level cache.
enum { ACT_CACHE = 192 * 1024 };
// Calls of so few tokens wait for memory.
enum { FETCH_TOKENS = 8 };

size_t ch_kern_panels_bytes(const ch_type_info *t, size_t n_in, size_t n_out) {
    const ch_panel_spec *s = ch_kern_panel_spec(t, n_in);
    return s ? (n_out + CH_PANEL_ROWS - 1) / CH_PANEL_ROWS * ch_panel_bytes(s, n_in) : 0;
}

void ch_kern_panels_pack(const ch_mat *m, size_t r0, size_t r1) {
    const ch_panel_spec *s = ch_kern_panel_spec(m->type, m->n_in);
    if (!s) return;
    const size_t row = m->n_in / m->type->n_block * m->type->n_bytes, panel = ch_panel_bytes(s, m->n_in);
    for (size_t r = r0; r < r1; r += CH_PANEL_ROWS) {
        const size_t n = r1 - r < CH_PANEL_ROWS ? r1 - r : CH_PANEL_ROWS;
        ch_kern_pack_panel_avx2(s, m->type, m->raw + r * row, row, n, m->n_in, m->packed + r / CH_PANEL_ROWS * panel);
    }
}

size_t ch_kern_panels_work_bytes(const ch_type_info *t, size_t n_in) {
    const ch_panel_spec *s = ch_kern_panel_spec(t, n_in);
    return s ? ch_panel_bytes(s, n_in) : ch_kern_float_work_bytes(n_in);
}

// Rows still in the file's form are packed into work panel by panel: the same result, and the cost of packing is spread over
// the tokens of the call.
void ch_kern_matmul_panels(const ch_mat_call *c, const ch_panel_spec *s, ch_panel_fn fn) {
    const ch_mat *m = c->m;
    const size_t row = m->n_in / m->type->n_block * m->type->n_bytes, bytes = ch_panel_bytes(s, m->n_in);
    const size_t per_panel = (m->n_in / CH_PANEL_BLOCK + CH_FETCH_PANELS - 1) / CH_FETCH_PANELS;
    size_t step = c->n_tok;
    const bool fetch = m->packed && c->n_tok <= FETCH_TOKENS;
    if (m->packed && c->ld_act * c->n_tok > ACT_CACHE) step = (ACT_CACHE / c->ld_act & ~(size_t)7) + 8;
    for (size_t t = 0; t < c->n_tok; t += step)
        for (size_t r = c->r0; r < c->r1; r += CH_PANEL_ROWS) {
            const size_t n_row = c->r1 - r < CH_PANEL_ROWS ? c->r1 - r : CH_PANEL_ROWS;
            const uint8_t *panel = c->work;
            const size_t nth = r / CH_PANEL_ROWS % CH_FETCH_PANELS;
            if (m->packed)
                panel = m->packed + r / CH_PANEL_ROWS * bytes;
            else
                ch_kern_pack_panel_avx2(s, m->type, m->raw + r * row, row, n_row, m->n_in, c->work);
            ch_panel_view view = ch_panel_view_of(s, panel, m->n_in);
            if (fetch) view.fetch = panel + (CH_FETCH_PANELS - nth) * bytes;
            view.fetch_stride = bytes;
            view.fetch_block = nth * per_panel;
            const ch_panel_rows rows = {.act = (const uint8_t *)c->act + t * c->ld_act,
                                        .ld_act = c->ld_act,
                                        .n_tok = c->n_tok - t < step ? c->n_tok - t : step,
                                        .y = c->y + t * c->ld_y + r,
                                        .ld_y = c->ld_y,
                                        .n_row = n_row};
            fn(&view, &rows);
        }
}
