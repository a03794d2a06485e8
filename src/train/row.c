// One row of a batch through the model: forward, loss, backward.
#include "train/model.h"

typedef struct saves {
    real *x, *h; // input of the sub-layer, and normalised; [n_tok][d]
    union {
        ch_train_attn_saves attn;
        ch_train_gdn_saves gdn;
        ch_train_ssd_saves ssd;
        ch_train_ffn_saves ffn;
        ch_train_moe_saves moe;
    } u;
} saves;

static void sub_forward(ch_train_ctx *c, const ch_train_sub *b, saves *s, real *y) {
    const size_t d = b->norm.d;
    s->h = ch_train_take(c, c->n_tok * d);
    ch_train_rmsnorm(c, &b->norm, s->x, d, c->n_tok, s->h, d);
    switch (b->kind) {
    case CH_TRAIN_ATTN: ch_train_attn_forward(c, &b->u.attn, s->h, y, &s->u.attn); break;
    case CH_TRAIN_GDN: ch_train_gdn_forward(c, &b->u.gdn, s->h, y, &s->u.gdn); break;
    case CH_TRAIN_SSD: ch_train_ssd_forward(c, &b->u.ssd, s->h, y, &s->u.ssd); break;
    case CH_TRAIN_FFN: ch_train_ffn_forward(c, &b->u.ffn, s->h, y, &s->u.ffn); break;
    case CH_TRAIN_MOE: ch_train_moe_forward(c, &b->u.moe, s->h, y, &s->u.moe); break;
    }
    if (!c->dry) ch_train_add(s->x, c->n_tok * d, y);
}

// dx: gradient of the sub-layer's output, then of its input.
static void sub_backward(ch_train_ctx *c, const ch_train_sub *b, const saves *s, real *dx) {
    const size_t d = b->norm.d, mark = c->used;
    real *dh = ch_train_take(c, c->n_tok * d);
    switch (b->kind) {
    case CH_TRAIN_ATTN: ch_train_attn_backward(c, &b->u.attn, s->h, dx, dh, &s->u.attn); break;
    case CH_TRAIN_GDN: ch_train_gdn_backward(c, &b->u.gdn, s->h, dx, dh, &s->u.gdn); break;
    case CH_TRAIN_SSD: ch_train_ssd_backward(c, &b->u.ssd, s->h, dx, dh, &s->u.ssd); break;
    case CH_TRAIN_FFN: ch_train_ffn_backward(c, &b->u.ffn, s->h, dx, dh, &s->u.ffn); break;
    case CH_TRAIN_MOE: ch_train_moe_backward(c, &b->u.moe, s->h, dx, dh, &s->u.moe); break;
    }
    ch_train_rmsnorm_back(c, &b->norm, s->x, d, c->n_tok, dh, dx, d, true);
    c->used = mark;
}

static bool finite_rows(const real *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

// Forward alone, from x on: nothing is kept, x and one more set of rows take turns. bad: the first sub-layer whose output holds a
// value that is no number, -1 before.
static real *run_once(ch_train_ctx *c, const ch_train_model *m, size_t begin, size_t end, real *x, int *bad) {
    real *y = ch_train_take(c, c->n_tok * m->norm.d);
    const size_t mark = c->used;
    for (size_t i = begin; i < end; i++) {
        saves s = {.x = x};
        sub_forward(c, &m->sub[i], &s, y);
        c->used = mark;
        real *const in = x;
        x = y, y = in;
        if (!c->dry && *bad < 0 && !finite_rows(x, c->n_tok * m->norm.d)) *bad = (int)i;
    }
    return x;
}

// Sub-layers [begin, end) from x on; returns the last output. Without recomputation everything stays on the stack.
static real *run_forward(ch_train_ctx *c, const ch_train_model *m, size_t begin, size_t end, bool recompute, real *x, saves *s) {
    for (size_t i = begin; i < end; i++) {
        real *y = ch_train_take(c, c->n_tok * m->norm.d);
        const size_t mark = c->used;
        s[i].x = x;
        sub_forward(c, &m->sub[i], &s[i], y);
        if (recompute) c->used = mark;
        x = y;
    }
    return x;
}

static void run_backward(ch_train_ctx *c, const ch_train_model *m, size_t begin, size_t end, bool recompute, saves *s, real *dx) {
    const double aux = c->aux;
    double *load = c->load;
    c->load = NULL; // counted on the way there
    for (size_t i = end; i-- > begin;) {
        const size_t mark = c->used;
        if (recompute) {
            saves again = {.x = s[i].x};
            real *y = ch_train_take(c, c->n_tok * m->norm.d);
            sub_forward(c, &m->sub[i], &again, y);
            sub_backward(c, &m->sub[i], &again, dx);
        } else {
            sub_backward(c, &m->sub[i], &s[i], dx);
        }
        c->used = mark;
    }
    c->load = load, c->aux = aux;
}

// First sub-layer whose output holds a value that is no number.
static int find_bad(const ch_train_ctx *c, const ch_train_model *m, size_t end, const saves *s, const real *last) {
    for (size_t i = 0; i < end; i++)
        if (!finite_rows(i + 1 < end ? s[i + 1].x : last, c->n_tok * m->norm.d)) return (int)i;
    return -1;
}

typedef struct mtp_saves {
    real *embd, *prev; // [n_tok][d]
    real *both;        // [n_tok][2 d]
    real *x, *h;       // after its sub-layers, and normalised
    float *weight;     // [n_tok]
} mtp_saves;

// Inputs of position t: its token's embedding, and the trunk's normalised output at t - 1 (zeros where a document begins).
static void mtp_forward(ch_train_ctx *c, const ch_train_model *m, const ch_train_row_args *a, const real *h, saves *s, mtp_saves *p) {
    const size_t n = c->n_tok, d = m->norm.d;
    p->embd = ch_train_take(c, n * d), p->prev = ch_train_take(c, n * d), p->both = ch_train_take(c, n * 2 * d);
    p->weight = (float *)ch_train_take(c, n);
    real *x = ch_train_take(c, n * d);
    ch_train_embed(c, m->embd.off, d, a->token, p->embd);
    for (size_t t = 0; t < n && !c->dry; t++) {
        const bool first = (size_t)c->start[t] == t;
        p->weight[t] = first ? 0 : a->weight[t];
        if (first)
            memset(p->prev + t * d, 0, d * sizeof *p->prev);
        else
            memcpy(p->prev + t * d, h + (t - 1) * d, d * sizeof *p->prev);
    }
    ch_train_rmsnorm(c, &m->mtp.enorm, p->embd, d, n, p->both, 2 * d);
    ch_train_rmsnorm(c, &m->mtp.hnorm, p->prev, d, n, p->both + d, 2 * d);
    ch_train_linear(c, &m->mtp.eh_proj, p->both, n, x, d, false);
    int bad = 0; // the loss tells
    p->x = s ? run_forward(c, m, m->mtp.first, m->n_sub, a->recompute, x, s) : run_once(c, m, m->mtp.first, m->n_sub, x, &bad);
    p->h = ch_train_take(c, n * d);
    ch_train_rmsnorm(c, &m->mtp.head_norm, p->x, d, n, p->h, d);
}

// dh: of the head's input. Adds to dtrunk, the gradient of the trunk's normalised output.
static void mtp_backward(ch_train_ctx *c, const ch_train_model *m, const ch_train_row_args *a, saves *s, const mtp_saves *p, const real *dh,
                         real *dtrunk) {
    const size_t n = c->n_tok, d = m->norm.d, mark = c->used;
    real *dx = ch_train_take(c, n * d), *dboth = ch_train_take(c, n * 2 * d), *both = ch_train_take(c, n * 2 * d);
    ch_train_rmsnorm_back(c, &m->mtp.head_norm, p->x, d, n, dh, dx, d, false);
    run_backward(c, m, m->mtp.first, m->n_sub, a->recompute, s, dx);
    ch_train_linear_back(c, &m->mtp.eh_proj, p->both, dx, d, n, dboth, false);
    for (size_t t = 0; t < n && !c->dry; t++) { // halves apart: gradients of the two norms' inputs
        real *de = both + t * d, *dp = both + (n + t) * d;
        ch_train_rmsnorm_back(c, &m->mtp.enorm, p->embd + t * d, d, 1, dboth + t * 2 * d, de, d, false);
        if ((size_t)c->start[t] == t) continue;
        ch_train_rmsnorm_back(c, &m->mtp.hnorm, p->prev + t * d, d, 1, dboth + t * 2 * d + d, dp, d, false);
        ch_train_add(dp, d, dtrunk + (t - 1) * d);
    }
    ch_train_embed_back(c, m->embd.off, d, a->token, both);
    c->used = mark;
}

void ch_train_row(ch_train_ctx *c, const ch_train_model *m, const ch_train_row_args *a, ch_train_row_result *r) {
    const size_t n = c->n_tok, d = m->norm.d, mark = c->used;
    const bool back = c->grad;
    *r = (ch_train_row_result){.bad_sub = -1};
    saves *keep = NULL; // only what goes back is kept
    if (back) {
        keep = (saves *)(void *)ch_train_take(c, (m->n_sub * sizeof(saves) + sizeof(real) - 1) / sizeof(real));
        if (c->dry) keep = ch_alloc_array(m->n_sub, sizeof *keep); // a dry run has no stack to write to
        if (!keep) return;
    }
    real *x = ch_train_take(c, n * d);
    mtp_saves p = {0};
    int bad = -1;
    ch_train_embed(c, m->embd.off, d, a->token, x);
    real *last = back ? run_forward(c, m, 0, m->n_trunk, a->recompute, x, keep) : run_once(c, m, 0, m->n_trunk, x, &bad);
    real *h = ch_train_take(c, n * d), *dh = back ? ch_train_take(c, n * d) : NULL, *dmtp = back ? ch_train_take(c, n * d) : NULL;
    ch_train_rmsnorm(c, &m->norm, last, d, n, h, d);
    const bool mtp = m->mtp.on && (a->mtp_weight > 0 || a->mtp_logits);
    if (mtp) mtp_forward(c, m, a, h, keep, &p);
    if (a->logits) {
        ch_train_logits(c, &m->head, h, a->logits);
        if (mtp && a->mtp_logits) ch_train_logits(c, &m->head, p.h, a->mtp_logits);
    } else {
        const int32_t *target = a->token + 1;
        r->loss = ch_train_head(c, &m->head, h, target, a->weight, a->scale, dh);
        if (mtp) {
            r->mtp_loss = ch_train_head(c, &m->head, p.h, target, p.weight, a->scale * a->mtp_weight, dmtp);
            for (size_t t = 0; t < n && !c->dry; t++) r->mtp_total += (double)p.weight[t];
        }
        if (!c->dry && !isfinite(r->loss + r->mtp_loss)) {
            r->bad_sub = back ? find_bad(c, m, m->n_trunk, keep, last) : bad;
            if (r->bad_sub < 0) r->bad_sub = (int)m->n_sub;
        } else if (back) {
            real *dx = ch_train_take(c, n * d);
            if (mtp) mtp_backward(c, m, a, keep, &p, dmtp, dh);
            ch_train_rmsnorm_back(c, &m->norm, last, d, n, dh, dx, d, false);
            run_backward(c, m, 0, m->n_trunk, a->recompute, keep, dx);
            ch_train_embed_back(c, m->embd.off, d, a->token, dx);
        }
    }
    if (c->dry && back) ch_free(keep);
    c->used = mark;
}

void ch_train_rope_table(const ch_train_shape *s, size_t n_ctx, real *cs) {
    const size_t half = (size_t)s->n_rot / 2;
    for (size_t p = 0; p < n_ctx; p++)
        for (size_t i = 0; i < half; i++) {
            const double angle = (double)p * pow(s->rope_base, -2.0 * (double)i / s->n_rot);
            cs[(p * half + i) * 2] = (real)cos(angle), cs[(p * half + i) * 2 + 1] = (real)sin(angle);
        }
}

void ch_train_transpose_all(const ch_train_ctx *c, const ch_train_model *m, const real *w, real *wt, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++)
        ch_train_transpose(c, w + m->mat[i].off, m->mat[i].n_out, m->mat[i].n_in, m->mat[i].n_in, wt + m->mat[i].off, m->mat[i].n_out);
}
