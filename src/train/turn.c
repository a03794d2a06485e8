// Products of rows with matrices that have no transposed copies. The rows are turned instead, a few at a time: Y^T = W X^T. An
// element's sum has the same order both ways, so the bits are the same; turning moves each value twice, beside n_in products per
// value of y.
#include "train/part.h"

enum { OUT = 512 }; // rows of a matrix at a time

size_t ch_train_turn_reals(size_t n_in) { return CH_TRAIN_TURN * (n_in + OUT); }

void ch_train_turned(const ch_train_ctx *c, const ch_train_mat *w, const real *x, size_t n, real *y, size_t ld_y, bool add) {
    real *xt = c->turn, *yt = xt + CH_TRAIN_TURN * w->n_in; // [n_in][CH_TRAIN_TURN], [OUT][CH_TRAIN_TURN]
    for (size_t t = 0; t < n; t += CH_TRAIN_TURN) {
        const size_t n_tok = n - t < CH_TRAIN_TURN ? n - t : CH_TRAIN_TURN;
        ch_train_transpose(c, x + t * w->n_in, n_tok, w->n_in, w->n_in, xt, CH_TRAIN_TURN);
        for (size_t i = 0; i < w->n_out; i += OUT) {
            const size_t n_out = w->n_out - i < OUT ? w->n_out - i : OUT;
            real *to = y + t * ld_y + i;
            if (add) ch_train_transpose(c, to, n_tok, n_out, ld_y, yt, CH_TRAIN_TURN);
            ch_train_gemm(c, (ch_train_mul){.m = n_out, .n = n_tok, .k = w->n_in, .a = c->w + w->off + i * w->n_in, .ra = w->n_in, .ca = 1, .b = xt,
                                            .ld_b = CH_TRAIN_TURN, .c = yt, .ld_c = CH_TRAIN_TURN, .add = add});
            ch_train_transpose(c, yt, n_out, n_tok, CH_TRAIN_TURN, to, ld_y);
        }
    }
}
