// Private to the bench*.c files: rows to measure, what was found, and the limits of the machine.
#ifndef CH_CMD_BENCH_H
#define CH_CMD_BENCH_H

#include "cmd/open_model.h"

// ---- limits of the machine (bench_limits.c) -----------------------------------------------------------------------------
typedef struct ch_bench_rates { // of all threads together; 0: not measured yet
    double read_gbps; // memory read, 1e9 bytes per second
    double int8_gops; // u8 x s8 multiply and add counted as two, 1e9 per second
    double f32_gops;
} ch_bench_rates;

// Measures on the model's own weights: the same pages, as much of them as a step reads, at most 1 GB a time. A machine's speed
// changes with what its neighbours do, so samples are taken between the repeats of a row.
typedef struct ch_bench_limits ch_bench_limits;
int ch_bench_limits_open(ch_bench_limits **l, const ch_model *m, ch_error *e); // the model stays open longer than l
void ch_bench_limits_sample(ch_bench_limits *l, ch_bench_rates *best);       // raises best where this time was faster
void ch_bench_limits_close(ch_bench_limits **l);

// ---- rows (bench_measure.c) ---------------------------------------------------------------------------------------------
enum { CH_BENCH_MAX_ROWS = 256, CH_BENCH_MAX_REPEATS = 1000, CH_BENCH_MAX_SLOTS = 64 };

// Slowest and fastest choice of n of the slots, tokens per second of all n.
typedef struct ch_bench_spread {
    double slowest, fastest;
    int n_choices; // 0: not asked for
} ch_bench_spread;

typedef struct ch_bench_row {
    int32_t prefill, depth, decode, slots;
    double prefill_tps, decode_tps; // all slots together
    double prefill_macs;            // multiply-adds of one prompt token
    double decode_bytes;            // read by one decode step: weights, states, keys and values at mid-answer
    double experts;                 // touched by one mixture layer of a decode step; 0: none
    ch_bench_rates limit;           // best samples around this row
    ch_bench_spread pairs, triples;
    uint64_t hash;                  // of the scores of slot 0
} ch_bench_row;

typedef struct ch_bench {
    const ch_cmd_options *o;
    ch_model *m;
    const ch_model_info *info;
    ch_bench_limits *limits;
    ch_cmd_progress bar;
    int64_t repeats;
    bool subsets;         // measure pairs and triples of slots too
    size_t context_bytes; // of the last row's sequences
    uint64_t peak_bytes;  // resident
    ch_bench_row rows[CH_BENCH_MAX_ROWS];
    int n_rows;
} ch_bench;

int ch_bench_measure(ch_bench *b, ch_bench_row *r, ch_error *e);

// Lengthens s by n positions with copies of its first whole pages (bench_fill.c). The recurrent state stays as it is.
int ch_bench_fill(ch_seq *s, const ch_seq_plan *plan, size_t n, ch_error *e);

// ---- report (bench_report.c) --------------------------------------------------------------------------------------------
void ch_bench_print_text(const ch_bench *b);
void ch_bench_print_json(const ch_bench *b);
void ch_bench_print_csv(const ch_bench *b);

#endif
