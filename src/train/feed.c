// Feed-forward: dense, and mixture of experts with a shared expert.
//
// Experts: tokens are sorted by expert into slots (counting sort), so that every expert is one product over its slots. With
// prob the router's values and w = prob / sum of the chosen prob:  y_t = scale sum_j w_j FFN_j(h_t) + gate FFN_shared(h_t).
// The factor w goes onto the hidden values, before the last product: its gradient is then hid . (dy down), and no expert's
// output need be kept.
// Balance: balance n_expert sum_e f_e m_e, with f_e the share of slots that expert e got (a constant to the gradient) and m_e the
// mean over tokens of prob_e / sum prob; its least value is balance, when slots are even.
#include "train/part.h"

void ch_train_ffn_forward(ch_train_ctx *c, const ch_train_ffn *b, const real *h, real *y, ch_train_ffn_saves *s) {
    const size_t n = c->n_tok, n_in = b->in.n_out;
    s->in = ch_train_take(c, n * n_in), s->hid = ch_train_take(c, n * b->n_ff);
    ch_train_linear(c, &b->in, h, n, s->in, n_in, false);
    for (size_t t = 0; t < n && !c->dry; t++)
        ch_train_glu(s->in + t * n_in, b->gated ? s->in + t * n_in + b->n_ff : NULL, b->n_ff, s->hid + t * b->n_ff);
    ch_train_linear(c, &b->out, s->hid, n, y, b->out.n_out, false);
}

void ch_train_ffn_backward(ch_train_ctx *c, const ch_train_ffn *b, const real *h, const real *dy, real *dh, const ch_train_ffn_saves *s) {
    const size_t n = c->n_tok, n_in = b->in.n_out, mark = c->used;
    real *dhid = ch_train_take(c, n * b->n_ff), *din = ch_train_take(c, n * n_in);
    ch_train_linear_back(c, &b->out, s->hid, dy, b->out.n_out, n, dhid, false);
    for (size_t t = 0; t < n && !c->dry; t++) {
        const real *in = s->in + t * n_in;
        ch_train_glu_back(in, b->gated ? in + b->n_ff : NULL, dhid + t * b->n_ff, b->n_ff, din + t * n_in, b->gated ? din + t * n_in + b->n_ff : NULL);
    }
    ch_train_linear_back(c, &b->in, h, din, n_in, n, dh, false);
    c->used = mark;
}

// ---- experts ------------------------------------------------------------------------------------------------------------------------
enum { MAX_EXPERTS = 1024 };

static void route_token(const ch_train_ctx *c, const ch_train_moe *b, const real *z, real *p, int32_t *choice) {
    const size_t n = b->n_expert;
    real max = z[0], sum = 0;
    for (size_t e = 1; e < n; e++) max = z[e] > max ? z[e] : max;
    for (size_t e = 0; e < n; e++) sum += p[e] = b->sigmoid ? real_sigmoid(z[e]) : real_exp(z[e] - max);
    for (size_t e = 0; e < n && !b->sigmoid; e++) p[e] /= sum;
    for (size_t j = 0; j < b->n_used; j++) {
        size_t best = n;
        real top = 0;
        for (size_t e = 0; e < n; e++) {
            bool taken = false;
            for (size_t i = 0; i < j; i++) taken = taken || choice[i] == (int32_t)e;
            const real v = p[e] + (b->bias == CH_TRAIN_NONE ? 0 : c->w[b->bias + e]);
            if (!taken && (best == n || v > top)) best = e, top = v;
        }
        choice[j] = (int32_t)best;
    }
}

static real chosen_sum(const ch_train_moe *b, const real *p, const int32_t *choice) {
    real sum = 0;
    for (size_t j = 0; j < b->n_used; j++) sum += p[choice[j]];
    return sum > (real)6.103515625e-5 ? sum : (real)6.103515625e-5;
}

static void route(ch_train_ctx *c, const ch_train_moe *b, ch_train_moe_saves *s) {
    const size_t n = c->n_tok, k = b->n_used, n_e = b->n_expert;
    int32_t at[MAX_EXPERTS];
    double mean[MAX_EXPERTS] = {0};
    memset(s->first, 0, (n_e + 1) * sizeof *s->first);
    for (size_t t = 0; t < n; t++) {
        real *p = s->prob + t * n_e;
        route_token(c, b, s->in + t * b->in.n_out, p, s->choice + t * k);
        for (size_t j = 0; j < k; j++) s->first[s->choice[t * k + j] + 1]++;
        real sum = 0;
        for (size_t e = 0; e < n_e; e++) sum += p[e];
        for (size_t e = 0; e < n_e; e++) mean[e] += p[e] / sum;
    }
    for (size_t e = 0; e < n_e; e++) {
        c->aux += c->balance * (double)n_e * s->first[e + 1] / (double)(n * k) * mean[e] / (double)n;
        if (c->load) c->load[e] += s->first[e + 1];
        s->first[e + 1] += s->first[e];
        at[e] = s->first[e];
    }
    for (size_t t = 0; t < n; t++) {
        const int32_t *choice = s->choice + t * k;
        const real f = (real)b->scale / chosen_sum(b, s->prob + t * n_e, choice);
        for (size_t j = 0; j < k; j++) {
            const int32_t slot = at[choice[j]]++;
            s->slot_tok[slot] = (int32_t)t, s->slot_of[t * k + j] = slot;
            s->weight[slot] = s->prob[t * n_e + (size_t)choice[j]] * f;
        }
    }
}

// Gradient of the router's scores out of those of the slots' weights (dw), and of the balance loss.
static void route_back(const ch_train_ctx *c, const ch_train_moe *b, const ch_train_moe_saves *s, const real *dw, real *din) {
    const size_t n = c->n_tok, k = b->n_used, n_e = b->n_expert;
    real share[MAX_EXPERTS], dp[MAX_EXPERTS];
    for (size_t e = 0; e < n_e; e++)
        share[e] = (real)(c->balance * (double)n_e * (s->first[e + 1] - s->first[e]) / (double)(n * k) / (double)n);
    for (size_t t = 0; t < n; t++) {
        const real *p = s->prob + t * n_e;
        const int32_t *choice = s->choice + t * k;
        real *dz = din + t * b->in.n_out, sum = 0, mean = 0, dot = 0;
        for (size_t e = 0; e < n_e; e++) sum += p[e], mean += p[e] * share[e];
        for (size_t e = 0; e < n_e; e++) dp[e] = (share[e] - mean / sum) / sum;
        const real chosen = chosen_sum(b, p, choice);
        for (size_t j = 0; j < k; j++) dot += dw[s->slot_of[t * k + j]] * s->weight[s->slot_of[t * k + j]];
        for (size_t j = 0; j < k; j++) dp[choice[j]] += ((real)b->scale * dw[s->slot_of[t * k + j]] - dot) / chosen;
        dot = 0;
        for (size_t e = 0; e < n_e; e++) dot += dp[e] * p[e];
        for (size_t e = 0; e < n_e; e++) dz[e] = b->sigmoid ? dp[e] * p[e] * (1 - p[e]) : p[e] * (dp[e] - dot);
    }
}

static size_t d_of(const ch_train_moe *b) { return b->in.n_in; }
static size_t shared_at(const ch_train_moe *b) { return b->n_expert + (b->shared_gated ? 1 : 0); }

// Slots of one expert times one of its matrices, [n_out][n_in] in the file.
static void expert(const ch_train_ctx *c, size_t off, size_t n_out, size_t n_in, const real *x, size_t n, real *y) {
    ch_train_linear(c, &(ch_train_mat){off, n_out, n_in}, x, n, y, n_out, false);
}

void ch_train_moe_forward(ch_train_ctx *c, const ch_train_moe *b, const real *h, real *y, ch_train_moe_saves *s) {
    const size_t n = c->n_tok, k = b->n_used, d = d_of(b), ff = b->n_ff, slots = n * k, n_in = b->in.n_out, ffs = b->n_shared;
    s->in = ch_train_take(c, n * n_in), s->prob = ch_train_take(c, n * b->n_expert);
    s->slot_tok = ch_train_take_int(c, slots), s->slot_of = ch_train_take_int(c, slots), s->choice = ch_train_take_int(c, slots);
    s->first = ch_train_take_int(c, b->n_expert + 1);
    s->weight = ch_train_take(c, slots), s->x = ch_train_take(c, slots * d);
    s->up = ch_train_take(c, slots * ff), s->gate = b->gated ? ch_train_take(c, slots * ff) : s->up;
    s->hid = ch_train_take(c, slots * ff), s->shared = ch_train_take(c, n * ffs);
    const size_t mark = c->used;
    real *out = ch_train_take(c, slots * d);
    c->used = mark;
    if (c->dry) return;
    ch_train_linear(c, &b->in, h, n, s->in, n_in, false);
    route(c, b, s);
    for (size_t i = 0; i < slots; i++) memcpy(s->x + i * d, h + (size_t)s->slot_tok[i] * d, d * sizeof *s->x);
    for (size_t e = 0; e < b->n_expert; e++) {
        const size_t i = (size_t)s->first[e], m = (size_t)s->first[e + 1] - i;
        if (!m) continue;
        expert(c, b->up + e * ff * d, ff, d, s->x + i * d, m, s->up + i * ff);
        if (b->gated) expert(c, b->gate + e * ff * d, ff, d, s->x + i * d, m, s->gate + i * ff);
        ch_train_glu(s->gate + i * ff, b->gated ? s->up + i * ff : NULL, m * ff, s->hid + i * ff);
        for (size_t r = i; r < i + m; r++)
            for (size_t f = 0; f < ff; f++) s->hid[r * ff + f] *= s->weight[r];
        expert(c, b->down + e * ff * d, d, ff, s->hid + i * ff, m, out + i * d);
    }
    for (size_t t = 0; t < n; t++) {
        memcpy(y + t * d, out + (size_t)s->slot_of[t * k] * d, d * sizeof *y);
        for (size_t j = 1; j < k; j++) ch_train_add(out + (size_t)s->slot_of[t * k + j] * d, d, y + t * d);
    }
    if (!ffs) return;
    for (size_t t = 0; t < n; t++) {
        const real *in = s->in + t * n_in + shared_at(b), g = b->shared_gated ? real_sigmoid(in[-1]) : 1;
        ch_train_glu(in, b->gated ? in + ffs : NULL, ffs, s->shared + t * ffs);
        for (size_t f = 0; f < ffs && b->shared_gated; f++) s->shared[t * ffs + f] *= g;
    }
    ch_train_linear(c, &b->shared_down, s->shared, n, y, d, true);
}

static void shared_back(ch_train_ctx *c, const ch_train_moe *b, const ch_train_moe_saves *s, const real *dy, real *dhid, real *row, real *din) {
    const size_t n = c->n_tok, n_in = b->in.n_out, ffs = b->n_shared, at = shared_at(b);
    ch_train_linear_back(c, &b->shared_down, s->shared, dy, d_of(b), n, dhid, false);
    for (size_t t = 0; t < n; t++) {
        const real *in = s->in + t * n_in + at;
        real *d = dhid + t * ffs, *to = din + t * n_in + at;
        if (b->shared_gated) {
            const real g = real_sigmoid(in[-1]);
            ch_train_glu(in, b->gated ? in + ffs : NULL, ffs, row);
            to[-1] = ch_train_dot(d, row, ffs) * g * (1 - g);
            for (size_t f = 0; f < ffs; f++) d[f] *= g;
        }
        ch_train_glu_back(in, b->gated ? in + ffs : NULL, d, ffs, to, b->gated ? to + ffs : NULL);
    }
}

void ch_train_moe_backward(ch_train_ctx *c, const ch_train_moe *b, const real *h, const real *dy, real *dh, const ch_train_moe_saves *s) {
    const size_t n = c->n_tok, k = b->n_used, d = d_of(b), ff = b->n_ff, slots = n * k, ffs = b->n_shared, mark = c->used;
    real *din = ch_train_take(c, n * b->in.n_out), *dyg = ch_train_take(c, slots * d), *dw = ch_train_take(c, slots);
    real *dhid = ch_train_take(c, slots * ff), *dgate = ch_train_take(c, slots * ff), *dup = ch_train_take(c, slots * ff);
    real *dx = ch_train_take(c, slots * d), *dshared = ch_train_take(c, n * ffs), *row = ch_train_take(c, ffs + ff);
    if (!c->dry) {
        for (size_t i = 0; i < slots; i++) memcpy(dyg + i * d, dy + (size_t)s->slot_tok[i] * d, d * sizeof *dyg);
        for (size_t e = 0; e < b->n_expert; e++) {
            const size_t i = (size_t)s->first[e], m = (size_t)s->first[e + 1] - i, at = e * ff * d;
            if (!m) continue;
            ch_train_linear_back(c, &(ch_train_mat){b->down + at, d, ff}, s->hid + i * ff, dyg + i * d, d, m, dhid + i * ff, false);
            for (size_t r = i; r < i + m; r++) {
                ch_train_glu(s->gate + r * ff, b->gated ? s->up + r * ff : NULL, ff, row);
                dw[r] = ch_train_dot(row, dhid + r * ff, ff);
                for (size_t f = 0; f < ff; f++) dhid[r * ff + f] *= s->weight[r];
            }
            ch_train_glu_back(s->gate + i * ff, b->gated ? s->up + i * ff : NULL, dhid + i * ff, m * ff, dgate + i * ff, b->gated ? dup + i * ff : NULL);
            ch_train_linear_back(c, &(ch_train_mat){(b->gated ? b->gate : b->up) + at, ff, d}, s->x + i * d, dgate + i * ff, ff, m, dx + i * d, false);
            if (b->gated) ch_train_linear_back(c, &(ch_train_mat){b->up + at, ff, d}, s->x + i * d, dup + i * ff, ff, m, dx + i * d, true);
        }
        route_back(c, b, s, dw, din);
        if (ffs) shared_back(c, b, s, dy, dshared, row, din);
        ch_train_linear_back(c, &b->in, h, din, b->in.n_out, n, dh, false);
        for (size_t t = 0; t < n; t++)
            for (size_t j = 0; j < k; j++) ch_train_add(dx + (size_t)s->slot_of[t * k + j] * d, d, dh + t * d);
    }
    c->used = mark;
}
