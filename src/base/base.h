// base: what every other folder stands on: errors, log sink, checked memory, arena, byte buffer, hash, random numbers,
// clock, mapped files, atomic file writing, worker pool, CPU flags.
// It knows nothing about models, files' formats or the network. It never prints, exits or reads the environment.
//
// Threading: everything here may be called from any thread; one object (arena, buffer, rng) is used by one thread at a
// time. Ownership: whoever creates frees; close/free functions take the address of the handle and set it to NULL.
#ifndef CH_BASE_H
#define CH_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

// ---- errors -----------------------------------------------------------------------------------------------------------
// Fallible functions return 0 or one of these (never renumbered; include/chimere.h repeats them for users).
enum {
    CH_OK = 0,
    CH_ENOMEM = -1,       // memory could not be had
    CH_EIO = -2,          // the system refused a read, write, map or socket call
    CH_EFORMAT = -3,      // a file or request is malformed
    CH_EUNSUPPORTED = -4, // well-formed, but of a kind this build does not handle
    CH_ERANGE = -5,       // a value is outside its allowed range
    CH_ELIMIT = -6,       // a stated limit (size, depth, steps) would be passed
    CH_EBUSY = -7,        // no free slot, page or queue place now
    CH_ECANCELLED = -8,   // the caller went away or asked to stop
    CH_ESTATE = -9,       // call not allowed in the present state
    CH_EINTERNAL = -10    // broken invariant inside chimere
};

// What a human must fix: names the file, key, tensor or field, what was expected and what was found.
typedef struct ch_error {
    int code;
    char msg[240]; // NUL-terminated; cut with "..." when too long
} ch_error;

// Fills e (NULL allowed) and returns code, so that `return ch_error_set(e, CH_EFORMAT, ...)` reads naturally.
int ch_error_set(ch_error *e, int code, const char *fmt, ...) CH_PRINTF(3, 4);
// Puts "context: " before the message already in e; returns e's code (CH_EINTERNAL when e is NULL).
int ch_error_prefix(ch_error *e, const char *fmt, ...) CH_PRINTF(2, 3);
const char *ch_error_name(int code); // "format", "limit", ...

// Broken invariant: aborts in debug, asan, tsan and fuzz builds, nothing in release (callers then return CH_EINTERNAL).
void ch_assert_fail(const char *expr, const char *file, int line);
#ifdef CH_DEBUG
#define CH_ASSERT(x) ((x) ? (void)0 : ch_assert_fail(#x, __FILE__, __LINE__))
#else
#define CH_ASSERT(x) ((void)sizeof(x))
#endif

// ---- log sink (the one process-wide setting; set once at start, before threads) -----------------------------------------
enum { CH_LOG_DEBUG, CH_LOG_INFO, CH_LOG_WARN, CH_LOG_ERROR };
typedef void (*ch_log_fn)(void *user, int level, const char *line); // line without a line end
void ch_log_set_sink(ch_log_fn fn, void *user);                     // NULL: discard (the default)
void ch_log(int level, const char *fmt, ...) CH_PRINTF(2, 3);

// ---- progress of long work: shown by the caller (a bar on a terminal, plain lines elsewhere) ----------------------------
// done counts up to total in any unit. Returns false to ask for a stop (the work then ends with CH_ECANCELLED).
typedef bool (*ch_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

// ---- checked arithmetic (false: would overflow; *out untouched) ---------------------------------------------------------
bool ch_add_size(size_t a, size_t b, size_t *out);
bool ch_mul_size(size_t a, size_t b, size_t *out);
bool ch_round_up_size(size_t n, size_t align, size_t *out); // align: power of two

// ---- memory -------------------------------------------------------------------------------------------------------------
// All return NULL when memory cannot be had or the size overflows; size 0 gives a valid pointer. Zero-filled.
// Test builds can make the n-th allocation fail (ch_alloc_fail_at) and forbid allocation (ch_alloc_forbid, per thread):
// a forbidden allocation aborts, which proves that decode steps allocate nothing.
void *ch_alloc(size_t size);
void *ch_alloc_array(size_t n, size_t size);
void *ch_alloc_aligned(size_t size, size_t align); // free with ch_free
// Same, but not zeroed: a large block's pages appear where and when they are first written, so its writers' own memory nodes hold
// them. For blocks whose every byte is written before it is read.
void *ch_alloc_untouched(size_t size, size_t align);
void *ch_realloc(void *p, size_t size);            // new bytes are not zeroed; never for aligned blocks
char *ch_strndup(const char *s, size_t n);
void ch_free(void *p);                // NULL allowed
void ch_alloc_fail_at(int64_t nth);   // 0 fails the next allocation; negative: never. For tests.
void ch_alloc_forbid(bool forbidden); // this thread, until set false again

// Arena: many small blocks freed together. limit bounds the total bytes (0: none); past it ch_arena_alloc gives NULL.
typedef struct ch_arena ch_arena;
ch_arena *ch_arena_create(size_t limit);
void *ch_arena_alloc(ch_arena *a, size_t size); // zero-filled, 16-byte aligned
char *ch_arena_strndup(ch_arena *a, const char *s, size_t n);
size_t ch_arena_bytes(const ch_arena *a); // handed out so far
void ch_arena_free(ch_arena **a);

// Growable bytes, always NUL-terminated past len once anything was appended. A failed append sets failed and leaves the
// content as it was, so callers may append many times and check once.
typedef struct ch_buf {
    char *data;
    size_t len, cap;
    size_t limit; // 0: none
    bool failed;
} ch_buf;
bool ch_buf_append(ch_buf *b, const void *data, size_t n);
bool ch_buf_puts(ch_buf *b, const char *s);
bool ch_buf_printf(ch_buf *b, const char *fmt, ...) CH_PRINTF(2, 3);
void ch_buf_reset(ch_buf *b); // len 0, failed false, memory kept
void ch_buf_free(ch_buf *b);  // memory gone, struct zeroed but for limit

// ---- hash, random numbers, clock ----------------------------------------------------------------------------------------
uint64_t ch_hash64(const void *data, size_t n, uint64_t seed); // XXH3
typedef struct ch_rng {
    uint64_t s[4];
} ch_rng; // xoshiro256** (Blackman, Vigna 2018), seeded through splitmix64
void ch_rng_seed(ch_rng *r, uint64_t seed);
uint64_t ch_rng_u64(ch_rng *r);
double ch_rng_f64(ch_rng *r);    // uniform in [0, 1), 53 bits
float ch_rng_normal(ch_rng *r);  // mean 0, deviation 1
uint64_t ch_clock_ns(void);      // monotonic

// f16 (IEEE half) and bf16 conversions, round to nearest even, exact both ways where representable.
float ch_f16_to_f32(uint16_t h);
uint16_t ch_f32_to_f16(float f);
float ch_bf16_to_f32(uint16_t h);
uint16_t ch_f32_to_bf16(float f);

// UTF-8: decodes one character of s[0..n), n > 0. Returns its byte length and sets *cp; a malformed, overlong, surrogate
// or cut sequence gives 1 and *cp = 0xFFFFFFFF, so that a caller always moves on and keeps the byte.
size_t ch_utf8_decode(const char *s, size_t n, uint32_t *cp);
size_t ch_utf8_encode(uint32_t cp, char out[4]); // 0 for surrogates and > U+10FFFF
bool ch_utf8_valid(const char *s, size_t n);

// ---- files --------------------------------------------------------------------------------------------------------------
// Read-only map of a whole regular file.
typedef struct ch_map {
    const uint8_t *data;
    size_t size;
} ch_map;
int ch_map_open(ch_map *m, const char *path, ch_error *e);
void ch_map_close(ch_map *m);
bool ch_map_resident(const void *p, size_t n); // every page of memory, mapped or not, is in memory now
void ch_map_drop(const void *p, size_t n); // whole pages inside p[0..n) of a map leave memory until they are read again
// Whole file into b (limit of b respected); "-" is standard input.
int ch_read_file(ch_buf *b, const char *path, ch_error *e);

// Atomic writing: bytes go to a temporary file in the same folder; commit does fsync and rename, abort removes it.
typedef struct ch_outfile ch_outfile;
int ch_outfile_open(ch_outfile **o, const char *path, ch_error *e);
int ch_outfile_write(ch_outfile *o, const void *data, size_t n, ch_error *e);
// Sets n bytes of disk aside, so that a full disk shows before the work. Does nothing where the file system cannot.
int ch_outfile_reserve(ch_outfile *o, uint64_t n, ch_error *e);
uint64_t ch_outfile_tell(const ch_outfile *o);
int ch_outfile_commit(ch_outfile **o, ch_error *e); // on failure the old file is untouched
void ch_outfile_abort(ch_outfile **o);              // NULL inside allowed

// ---- worker pool --------------------------------------------------------------------------------------------------------
// The caller is worker 0. ch_pool_run calls fn(arg, worker, n_workers) once on every worker and returns when all are done.
// Workers spin for a moment, then sleep on a futex, so that a busy machine is not slowed by idle threads.
typedef struct ch_pool ch_pool;
typedef void (*ch_pool_fn)(void *arg, int worker, int n_workers);
int ch_pool_create(ch_pool **p, int n_workers, ch_error *e); // 1..256
void ch_pool_free(ch_pool **p);
int ch_pool_size(const ch_pool *p);
void ch_pool_run(ch_pool *p, ch_pool_fn fn, void *arg);
void ch_pool_barrier(ch_pool *p); // inside fn: waits until every worker has come here
// Static split of n items in multiples of grain: worker gets [*begin, *end). Same split every time.
void ch_pool_split(size_t n, size_t grain, int worker, int n_workers, size_t *begin, size_t *end);
int ch_cpu_default_threads(void); // ch_cpu_room.n_threads of now

// Where this process may run.
typedef struct ch_cpu_room {
    int n_cpu;     // processors of its affinity mask
    int n_core;    // physical cores among them: siblings count once
    double quota;  // processors' worth of time that its cgroups grant; 0: no bound
    int n_threads; // what suits: n_core, or the quota where that is less
} ch_cpu_room;
void ch_cpu_room_now(ch_cpu_room *r);
// The same for processors 0..n_cpu-1 of a bit mask, from proc and sys folders under root ("": the system's).
void ch_cpu_room_of(ch_cpu_room *r, const char *root, const uint8_t *mask, size_t n_cpu);

// ---- CPU flags ----------------------------------------------------------------------------------------------------------
typedef struct ch_cpu {
    bool avx2_fma_f16c; // AVX2, FMA and F16C together
    bool avx512;        // F, BW, VL, DQ together, and enabled by the system
    bool avx512_vnni;
    bool avx512_vbmi;
    bool amx_int8;      // tiles of bytes; ch_cpu_enable_amx before the first use
    bool amx_bf16;      // tiles of bf16, and vectors
    bool neon_dotprod;
    char name[64]; // of the processor, "" when unknown
} ch_cpu;
void ch_cpu_detect(ch_cpu *c);
// Asks the system to save tile registers for all threads of this process; false when it will not.
bool ch_cpu_enable_amx(void);

#endif
