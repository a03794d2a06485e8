// Mixture of experts in one parallel region: route, sort rows by expert, gather, gate+up with the activation, down, combine.
//
//   slot p of the sorted list = one (row, choice) pair; the slots of an expert follow each other:
//     expert   0 0 0 2 2 5 ...
//     row      0 3 7 0 4 3 ...
//
// A row's result is summed in the order of its choices, so it does not depend on what else is in the batch.
#include <math.h>
#include <string.h>

#include "op/cpu/cpu.h"

typedef struct moe_job {
    ch_op *op;
    const ch_op_moe_args *a;
    size_t n_embd, n_ff, n_expert, n_slot;
    bool want[CH_ACT_N];    // kinds of activations that gate or up asks for
    size_t ld_in[CH_ACT_N]; // bytes per input row of that kind
    int kind_hid;           // of the input of down
    size_t ld_hid;
    int32_t *choice;      // [n_row][n_used] expert
    float *weight;        // [n_row][n_used]
    float *prob;          // [n_row][2][n_expert] probabilities and scores
    int32_t *first;       // [n_expert + 1] first slot of each expert
    int32_t *slot_row;    // [n_slot]
    int32_t *slot_of;     // [n_row][n_used] slot
    int32_t *active;      // [n_expert] experts with rows
    size_t n_active;
    uint8_t *act_row[CH_ACT_N];  // [n_row] packed inputs, of each kind but CH_ACT_F32
    uint8_t *act_slot[CH_ACT_N]; // [n_slot] gathered inputs of each kind
    float *gate, *up;     // [n_slot][n_ff]
    uint8_t *act_hid;     // [n_slot] packed hidden rows, unless their kind is CH_ACT_F32
    float *out;           // [n_slot][n_embd]
    float *low_in, *low_hid; // rows between the matrices of adapters: [n_slot][rank of gate, then of up], [n_slot][rank of down]
    size_t rank_gate, rank_in;
} moe_job;

static float gate_of(int gating, float z) {
    if (gating == CH_GATE_SIGMOID) return 1.0f / (1.0f + expf(-z));
    return gating == CH_GATE_SQRT_SOFTPLUS ? sqrtf(z > 20.0f ? z : log1pf(expf(z))) : z;
}

// Takes the groups out whose two best scores sum lowest (M4).
static void mask_groups(const moe_job *j, float *score) {
    const ch_op_moe_args *a = j->a;
    size_t per = j->n_expert / a->n_group;
    for (size_t out = a->n_group_used; out < a->n_group; out++) { // one group less each time; groups are few
        float worst = INFINITY;
        size_t at = 0;
        for (size_t g = 0; g < a->n_group; g++) {
            float best[2] = {-INFINITY, -INFINITY};
            for (size_t i = g * per; i < (g + 1) * per; i++) {
                if (score[i] > best[0]) best[1] = best[0], best[0] = score[i];
                else if (score[i] > best[1]) best[1] = score[i];
            }
            float sum = per > 1 ? best[0] + best[1] : best[0];
            if (best[0] > -INFINITY && sum <= worst) worst = sum, at = g; // equal: the later group goes
        }
        for (size_t i = at * per; i < (at + 1) * per; i++) score[i] = -INFINITY;
    }
}

// Probabilities, choice and weights of one row (M1-M8).
static void route_row(const moe_job *j, size_t row) {
    const ch_op_moe_args *a = j->a;
    const float *z = a->router + row * j->n_expert;
    float *p = j->prob + row * 2 * j->n_expert, *score = p + j->n_expert, *w = j->weight + row * a->n_used, sum = 0;
    int32_t *c = j->choice + row * a->n_used;
    for (size_t x = 0; x < j->n_expert; x++) p[x] = gate_of(a->gating, z[x]);
    if (a->gating == CH_GATE_SOFTMAX) j->op->kern.softmax(p, j->n_expert);
    for (size_t x = 0; x < j->n_expert; x++) score[x] = a->bias ? p[x] + a->bias[x] : p[x];
    if (a->n_group > 1) mask_groups(j, score);
    size_t n = 0; // kept choices, best first; w holds their scores
    for (size_t x = 0; x < j->n_expert; x++) {
        if (n == a->n_used && !(score[x] > w[n - 1])) continue;
        size_t at = n < a->n_used ? n++ : n - 1;
        while (at > 0 && score[x] > w[at - 1]) w[at] = w[at - 1], c[at] = c[at - 1], at--;
        w[at] = score[x], c[at] = (int32_t)x;
    }
    for (size_t i = 0; i < n; i++) w[i] = p[c[i]];
    if (a->gating == CH_GATE_SOFTMAX_AFTER) j->op->kern.softmax(w, n);
    for (size_t i = 0; i < n; i++) sum += w[i];
    float f = a->renormalise ? 1.0f / fmaxf(sum, 6.103515625e-5f) : 1.0f;
    if (a->scale != 0.0f) f *= a->scale;
    for (size_t i = 0; i < n; i++) w[i] *= f;
}

// Counting sort of all choices by expert; rows of an expert keep their order.
static void sort_slots(moe_job *j) {
    size_t n_used = j->a->n_used;
    memset(j->first, 0, (j->n_expert + 1) * sizeof *j->first);
    for (size_t i = 0; i < j->n_slot; i++) j->first[j->choice[i] + 1]++;
    j->n_active = 0;
    for (size_t x = 0; x < j->n_expert; x++) {
        if (j->first[x + 1]) j->active[j->n_active++] = (int32_t)x;
        j->first[x + 1] += j->first[x];
    }
    for (size_t i = 0; i < j->n_slot; i++) {
        int32_t p = j->first[j->choice[i]]++;
        j->slot_row[p] = (int32_t)(i / n_used), j->slot_of[i] = p;
    }
    for (size_t x = j->n_expert; x > 0; x--) j->first[x] = j->first[x - 1]; // the sort moved each to its end
    j->first[0] = 0;
}

// Calls one(...) for this worker's share of (expert, row grain) pairs. The share is cut by cost: a grain of an expert costs
// its weights once (as much as about 4 rows of arithmetic) and its rows.
typedef void (*expert_fn)(const moe_job *j, size_t expert, size_t r0, size_t r1, void *work);
static void each_expert(const moe_job *j, size_t n_out, int worker, int n_workers, expert_fn one) {
    size_t grains = (n_out + CH_MAT_GRAIN - 1) / CH_MAT_GRAIN, total = 0, seen = 0;
    void *work = j->op->buf[BUF_WORK] + (size_t)worker * j->op->work_part;
    for (size_t i = 0; i < j->n_active; i++) total += grains * (size_t)(j->first[j->active[i] + 1] - j->first[j->active[i]] + 4);
    size_t b = total * (size_t)worker / (size_t)n_workers, e = total * ((size_t)worker + 1) / (size_t)n_workers;
    for (size_t i = 0; i < j->n_active; i++) {
        size_t x = (size_t)j->active[i], cost = (size_t)(j->first[x + 1] - j->first[x] + 4);
        // Grain g starts at cost seen + g * cost; it is ours when that start lies in [b, e).
        size_t g0 = b > seen ? (b - seen + cost - 1) / cost : 0, g1 = e > seen ? (e - seen + cost - 1) / cost : 0;
        if (g1 > grains) g1 = grains;
        if (g0 < g1) one(j, x, g0 * CH_MAT_GRAIN, g1 * CH_MAT_GRAIN < n_out ? g1 * CH_MAT_GRAIN : n_out, work);
        seen += grains * cost;
    }
}

// Of slots [b, e): the adapters' inner values of w. x: [n_slot] rows, or rows of the step (by_slot false).
static void project(const moe_job *j, const ch_weight *w, const float *x, bool by_slot, size_t b, size_t e, float *low, size_t ld_low) {
    if (!w->lora) return;
    for (size_t p = b, expert = 0; p < e; p++) {
        while ((size_t)j->first[expert + 1] <= p) expert++;
        ch_op_lora_project(j->op, w, expert, 0, w->lora->rank, x + (by_slot ? p : (size_t)j->slot_row[p]) * w->n_in, low + p * ld_low);
    }
}

static void product(const moe_job *j, const ch_weight *w, size_t x, size_t r0, size_t r1, const uint8_t *act, size_t ld,
                    float *y, size_t ld_y, void *work) {
    size_t p0 = (size_t)j->first[x], n = (size_t)j->first[x + 1] - p0;
    y += p0 * ld_y;
    j->op->kern.matmul(&w->mat[x], r0, r1, act + p0 * ld, ld, n, y, ld_y, work);
    for (size_t t = 0; t < n && (w->bias || w->factor); t++)
        for (size_t r = r0; r < r1; r++)
            y[t * ld_y + r] = y[t * ld_y + r] * (w->factor ? w->factor[x] : 1.0f) + (w->bias ? w->bias[x * w->n_out + r] : 0.0f);
    if (!w->lora) return;
    bool down = w == j->a->down;
    size_t ld_low = down ? w->lora->rank : j->rank_in;
    const float *low = down ? j->low_hid : w == j->a->gate ? j->low_in : j->low_in + j->rank_gate;
    ch_op_lora_add(j->op, w, &(ch_op_lora_rows){x, r0, r1, n, low + p0 * ld_low, ld_low, y, ld_y});
}

static void in_product(const moe_job *j, const ch_weight *w, size_t x, size_t r0, size_t r1, float *y, size_t ld_y, void *work) {
    int kind = j->op->kern.act_kind(w->type, w->n_in);
    product(j, w, x, r0, r1, j->act_slot[kind], j->ld_in[kind], y, ld_y, work);
}

static void gate_up_of(const moe_job *j, size_t x, size_t r0, size_t r1, void *work) {
    const ch_op_moe_args *a = j->a;
    in_product(j, a->gate, x, r0, r1, j->gate, j->n_ff, work);
    in_product(j, a->up, x, r0, r1, j->up, j->n_ff, work);
    for (int32_t p = j->first[x]; p < j->first[x + 1]; p++) {
        size_t at = (size_t)p * j->n_ff + r0;
        j->op->kern.swiglu(j->gate + at, j->up + at, r1 - r0, j->gate + at);
    }
}

// Merged gate and up: rows 0..n_ff-1 are gate, n_ff..2 n_ff-1 up; the halves are joined after the barrier.
static void merged_of(const moe_job *j, size_t x, size_t r0, size_t r1, void *work) {
    in_product(j, j->a->gate, x, r0, r1, j->up, 2 * j->n_ff, work);
}

static void gateless_of(const moe_job *j, size_t x, size_t r0, size_t r1, void *work) {
    in_product(j, j->a->up, x, r0, r1, j->gate, j->n_ff, work);
    for (int32_t p = j->first[x]; p < j->first[x + 1]; p++)
        for (size_t r = r0; r < r1; r++) {
            float *h = &j->gate[(size_t)p * j->n_ff + r];
            *h = *h > 0 ? *h * *h : 0.0f;
        }
}

static void down_of(const moe_job *j, size_t x, size_t r0, size_t r1, void *work) {
    product(j, j->a->down, x, r0, r1, j->kind_hid ? j->act_hid : (const uint8_t *)j->gate, j->ld_hid, j->out, j->n_embd, work);
}

static void gather_slots(const moe_job *j, size_t b, size_t e) {
    for (int kind = 0; kind < CH_ACT_N; kind++) {
        if (!j->want[kind]) continue;
        const uint8_t *src = kind ? j->act_row[kind] : (const uint8_t *)j->a->x;
        size_t ld = j->ld_in[kind];
        for (size_t p = b; p < e; p++) memcpy(j->act_slot[kind] + p * ld, src + (size_t)j->slot_row[p] * ld, ld);
    }
}

static void combine_row(const moe_job *j, size_t row) {
    const ch_op_moe_args *a = j->a;
    float *y = a->y + row * j->n_embd;
    memset(y, 0, j->n_embd * sizeof *y);
    for (size_t i = 0; i < a->n_used; i++)
        j->op->kern.axpy(j->weight[row * a->n_used + i], j->out + (size_t)j->slot_of[row * a->n_used + i] * j->n_embd,
                         j->n_embd, y);
    if (!a->shared) return;
    float f = a->shared_gate ? 1.0f / (1.0f + expf(-a->shared_gate[row])) : 1.0f;
    j->op->kern.axpy(f, a->shared + row * j->n_embd, j->n_embd, y);
}

static void moe_worker(void *arg, int worker, int n_workers) {
    moe_job *j = arg;
    const ch_op_moe_args *a = j->a;
    const ch_kern *k = &j->op->kern;
    ch_pool *pool = j->op->pool;
    size_t b, e, sb, se;
    ch_pool_split(a->n_row, 1, worker, n_workers, &b, &e);
    ch_pool_split(j->n_slot, 1, worker, n_workers, &sb, &se);
    for (size_t i = b; i < e; i++) route_row(j, i);
    for (int kind = 1; kind < CH_ACT_N; kind++)
        for (size_t i = b; i < e && j->want[kind]; i++)
            k->act_pack(kind, a->x + i * j->n_embd, j->n_embd, j->act_row[kind] + i * j->ld_in[kind]);
    ch_pool_barrier(pool);
    if (worker == 0) sort_slots(j);
    ch_pool_barrier(pool);
    gather_slots(j, sb, se);
    if (a->gate) project(j, a->gate, a->x, false, sb, se, j->low_in, j->rank_in);
    if (a->up) project(j, a->up, a->x, false, sb, se, j->low_in + j->rank_gate, j->rank_in);
    ch_pool_barrier(pool);
    each_expert(j, a->up ? j->n_ff : 2 * j->n_ff, worker, n_workers, !a->gate ? gateless_of : a->up ? gate_up_of : merged_of);
    ch_pool_barrier(pool);
    for (size_t p = sb; p < se; p++) {
        float *hid = j->gate + p * j->n_ff;
        if (!a->up) k->swiglu(j->up + p * 2 * j->n_ff, j->up + p * 2 * j->n_ff + j->n_ff, j->n_ff, hid);
        if (j->kind_hid) k->act_pack(j->kind_hid, hid, j->n_ff, j->act_hid + p * j->ld_hid);
    }
    project(j, a->down, j->gate, true, sb, se, j->low_hid, ch_op_lora_rank(a->down));
    ch_pool_barrier(pool);
    each_expert(j, j->n_embd, worker, n_workers, down_of);
    ch_pool_barrier(pool);
    for (size_t i = b; i < e; i++) combine_row(j, i);
}

// Carves one buffer; in a dry run only counts.
static void *carve(uint8_t *base, size_t *used, size_t n, size_t size) {
    size_t at = *used, bytes;
    if (*used == SIZE_MAX || !ch_mul_size(n, size, &bytes) || !ch_round_up_size(bytes, 64, &bytes) ||
        !ch_add_size(at, bytes, used)) {
        *used = SIZE_MAX;
        return NULL;
    }
    return base ? base + at : NULL;
}

void ch_op_moe(ch_op *op, const ch_op_moe_args *a) {
    const ch_kern *k = &op->kern;
    const ch_weight *first = a->gate ? a->gate : a->up;
    moe_job j = {.op = op, .a = a, .n_embd = a->down->n_out, .n_ff = a->down->n_in, .n_expert = first->n_mat,
                 .n_slot = a->n_row * a->n_used};
    j.want[k->act_kind(first->type, j.n_embd)] = true;
    if (a->up) j.want[k->act_kind(a->up->type, j.n_embd)] = true;
    for (int kind = 0; kind < CH_ACT_N; kind++) j.ld_in[kind] = kind ? k->act_bytes(kind, j.n_embd) : j.n_embd * sizeof(float);
    j.kind_hid = k->act_kind(a->down->type, j.n_ff);
    j.ld_hid = j.kind_hid ? k->act_bytes(j.kind_hid, j.n_ff) : j.n_ff * sizeof(float);
    if (op->dry) {
        const ch_weight *all[3] = {first, a->up ? a->up : first, a->down};
        for (int i = 0; i < 3; i++) {
            size_t work = k->mat_work_bytes(all[i]->type, all[i]->n_in);
            if (work > op->work_part) op->work_part = work;
        }
    }
    uint8_t *base = op->dry ? NULL : op->buf[BUF_MOE];
    size_t used = 0;
    j.choice = carve(base, &used, j.n_slot, sizeof *j.choice);
    j.weight = carve(base, &used, j.n_slot, sizeof *j.weight);
    j.prob = carve(base, &used, a->n_row * j.n_expert * 2, sizeof *j.prob);
    j.first = carve(base, &used, j.n_expert + 1, sizeof *j.first);
    j.slot_row = carve(base, &used, j.n_slot, sizeof *j.slot_row);
    j.slot_of = carve(base, &used, j.n_slot, sizeof *j.slot_of);
    j.active = carve(base, &used, j.n_expert, sizeof *j.active);
    for (int kind = 0; kind < CH_ACT_N; kind++) {
        if (!j.want[kind]) continue;
        if (kind) j.act_row[kind] = carve(base, &used, a->n_row, j.ld_in[kind]);
        j.act_slot[kind] = carve(base, &used, j.n_slot, j.ld_in[kind]);
    }
    j.gate = carve(base, &used, j.n_slot * j.n_ff, sizeof *j.gate);
    j.up = carve(base, &used, j.n_slot * j.n_ff * (a->up ? 1 : 2), sizeof *j.up);
    j.act_hid = carve(base, &used, j.n_slot, j.ld_hid);
    j.out = carve(base, &used, j.n_slot * j.n_embd, sizeof *j.out);
    j.rank_gate = a->gate ? ch_op_lora_rank(a->gate) : 0, j.rank_in = j.rank_gate + (a->up ? ch_op_lora_rank(a->up) : 0);
    j.low_in = carve(base, &used, j.n_slot * j.rank_in, sizeof *j.low_in);
    j.low_hid = carve(base, &used, j.n_slot * ch_op_lora_rank(a->down), sizeof *j.low_hid);
    if (!ch_op_need(op, BUF_MOE, used)) return;
    ch_pool_run(op->pool, moe_worker, &j);
    op->counts.moe_calls++, op->counts.experts += j.n_active;
    if (a->gate) ch_op_count(op, a->gate, j.n_active, j.n_slot);
    if (a->up) ch_op_count(op, a->up, j.n_active, j.n_slot);
    ch_op_count(op, a->down, j.n_active, j.n_slot);
}
