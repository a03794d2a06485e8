// Private to bench.c and bench_limits.c.
#ifndef CH_CMD_BENCH_H
#define CH_CMD_BENCH_H

#include "base/base.h"

typedef struct ch_bench_limits {
    double read_gbps; // memory read by all threads, 1e9 bytes per second
    double int8_gops; // u8 x s8 multiply and add counted as two, 1e9 per second
    double f32_gops;
} ch_bench_limits;
int ch_bench_measure_limits(ch_bench_limits *out, int n_threads, ch_error *e);

#endif
