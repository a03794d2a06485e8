// Private to sched: the engine, its slots, requests and sessions, and who may touch what.
//
//   caller threads        prep thread              driver thread
//   submit --> [prep] --> template, tokens --> [ready] --> slot --> step, sample --> request's delta --> next
//   session calls --> [jobs] ------------------------------------> run between two steps
//
// Owners: everything in ch_slot, ch_marks, the sequences, the sampler's work and the model belong to the driver thread. The
// three queues, n_live and the flags beside them are under engine->lock. What a reader sees of a request is under
// request->lock. Lock order: request, then engine; the driver holds at most one of them.
#ifndef CH_SCHED_ENGINE_H
#define CH_SCHED_ENGINE_H

#include <chimere.h>
#include <pthread.h>
#include <stdatomic.h>

#include "model/model.h"
#include "sample/sample.h"
#include "text/text.h"

// ---- stop strings (stop.c) ----------------------------------------------------------------------------------------------
typedef struct ch_stop {
    size_t n;
    size_t len[CHIMERE_STOP_MAX];
    size_t at[CHIMERE_STOP_MAX];     // bytes of each string matched by the end of the text so far
    char *text[CHIMERE_STOP_MAX];    // owned
    uint16_t *fall[CHIMERE_STOP_MAX]; // owned; [len] longest proper border of the first i + 1 bytes
    char held[CHIMERE_STOP_BYTES_MAX]; // text not given out since it may begin a stop string
    size_t n_held;
    int32_t found; // index; -1: none yet
} ch_stop;
int ch_sched_open_stop(ch_stop *s, const char *const *text, size_t n, ch_error *e);
void ch_sched_close_stop(ch_stop *s);
// Text in, text that is certainly no part of a stop string out. After a match (s->found) nothing more comes out. false:
// out failed.
bool ch_sched_push_stop(ch_stop *s, const char *text, size_t n, ch_buf *out);
bool ch_sched_finish_stop(ch_stop *s, ch_buf *out); // held text is given out unless a string was found

// ---- output: token to text (output.c) -----------------------------------------------------------------------------------
typedef struct ch_delta {
    ch_buf reasoning, answer;
    chimere_token *token;
    size_t n_token, cap_token;
    chimere_logprob *top; // of all tokens, one after the other
    size_t n_top, cap_top;
} ch_delta;
void ch_sched_reset_delta(ch_delta *d);
void ch_sched_free_delta(ch_delta *d);
bool ch_sched_push_token(ch_delta *d, const chimere_token *t); // copies t->top
bool ch_sched_append_delta(ch_delta *to, const ch_delta *from);

typedef struct ch_output {
    const ch_vocab *vocab;
    ch_detok detok;
    ch_stop stop;
    ch_think think;
    bool raw, show_special, in_reasoning;
    ch_buf text, plain; // after detokenizing, after stop strings
} ch_output;
// open: the prompt's end has opened a think block.
void ch_sched_start_output(ch_output *o, const ch_vocab *v, bool raw, bool show_special, bool open);
void ch_sched_close_output(ch_output *o);
// id is no end token, or is to be shown. false: no memory.
bool ch_sched_push_output(ch_output *o, int32_t id, ch_delta *d);
bool ch_sched_finish_output(ch_output *o, ch_delta *d);

// ---- request (request.c) ------------------------------------------------------------------------------------------------
#define CH_DELTA_BYTES 65536 // a reader this far behind pauses its slot
#define CH_DELTA_TOKENS 256

struct chimere_request {
    // fixed after submit
    chimere_engine *engine; // only while engine_owned
    chimere_request_params p; // texts in it are copies in the arena, released once the prompt is built
    ch_arena *arena;
    ch_sample_params sampling;
    int64_t seed;
    uint64_t serial;
    uint64_t t_submit, t_deadline; // ns; deadline 0: none
    atomic_bool cancel, paused;
    // prep thread, then driver thread
    chimere_request *next; // in a queue
    ch_tokens prompt;
    bool think_open;
    int32_t max_tokens; // of the answer, after clamping
    ch_output out;
    ch_rng rng;
    uint64_t t_slot, t_first;
    // under lock
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool user_owned, engine_owned;
    bool closing; // chimere_request_close waits for callbacks to return: no new ones
    int in_ready; // calls of ready now running
    bool start, progress, done, done_given;
    int32_t prompt_done;
    chimere_usage usage;
    chimere_timings timings;
    chimere_reason reason;
    ch_error error;
    ch_delta pend;
    // reader
    ch_delta cur, all;
};
void ch_sched_start_request(chimere_request *r, int32_t cached);        // START
void ch_sched_note_progress(chimere_request *r, int32_t done);
// A sampled token: its text goes to the reader (show: also when it is an end token).
int ch_sched_deliver_token(chimere_request *r, const chimere_token *t, bool show);
// DONE. The engine gives the request up: it may be gone afterwards.
void ch_sched_finish_request(chimere_request *r, chimere_reason reason, const ch_error *error);
bool ch_sched_expired(const chimere_request *r, uint64_t now);

// ---- prompt (prompt.c) --------------------------------------------------------------------------------------------------
int ch_sched_build_prompt(chimere_engine *eng, chimere_request *r, ch_error *e);

// ---- slots and restart points (cache.c) ---------------------------------------------------------------------------------
typedef enum ch_slot_phase { CH_SLOT_FREE, CH_SLOT_PREFILL, CH_SLOT_DECODE, CH_SLOT_SESSION } ch_slot_phase;

#define CH_SLOT_STOPS 12
typedef struct ch_slot {
    ch_seq *seq;
    int32_t *tok; // [n_ctx] what seq holds
    size_t n_tok;
    uint64_t used; // stamp of last use
    ch_slot_phase phase;
    chimere_request *req;
    int32_t next;                 // DECODE: sampled, not yet fed
    size_t stop[CH_SLOT_STOPS];   // PREFILL: positions to mark, ascending
    size_t n_stop;
} ch_slot;

typedef struct ch_mark_row {
    ch_seq_mark *mark; // NULL: free
    int32_t *tok;      // [n_ctx]
    size_t n_tok;
    uint64_t used;
    uint64_t run; // serial of the request that made it; 0: a session
} ch_mark_row;

// Leaves slot holding the longest prefix of tok[0..n) that can be had without computing, at most limit tokens; returns
// its length. Slot and marks are otherwise as they were.
size_t ch_sched_restart_slot(chimere_engine *eng, ch_slot *slot, const int32_t *tok, size_t n, size_t limit);
// The free slot to give to this prompt; NULL: none.
ch_slot *ch_sched_choose_slot(chimere_engine *eng, const int32_t *tok, size_t n);
void ch_sched_plan_marks(chimere_engine *eng, ch_slot *slot, const int32_t *tok, size_t n, size_t start);
size_t ch_sched_next_stop(const chimere_engine *eng, const ch_slot *slot, size_t n_prompt);
void ch_sched_add_mark(chimere_engine *eng, const ch_slot *slot, uint64_t run);
void ch_sched_drop_run(chimere_engine *eng, uint64_t run); // marks made by a failed request
bool ch_sched_evict(chimere_engine *eng);                  // one mark or idle sequence; false: nothing left
void ch_sched_reset_slot(ch_slot *slot);

// ---- step (step.c) ------------------------------------------------------------------------------------------------------
typedef struct ch_step_part {
    ch_slot *slot;
    int32_t first, n_tok; // rows of the step
    int32_t out;          // row of logits; -1: none
} ch_step_part;
bool ch_sched_step(chimere_engine *eng); // false: no slot can run now
void ch_sched_release_slot(chimere_engine *eng, ch_slot *s, chimere_reason reason, const ch_error *error);
// Runs n tokens of one slot, at most n_batch; logits rows for the last n_out of them. Driver thread.
int ch_sched_run_slot(chimere_engine *eng, ch_slot *slot, const int32_t *tok, size_t n, size_t n_out, float *logits,
                      ch_error *e);

// ---- engine -------------------------------------------------------------------------------------------------------------
typedef struct ch_job {
    void (*run)(void *arg);
    void *arg;
    bool done;
    struct ch_job *next;
} ch_job;
void ch_sched_run_job(chimere_engine *eng, void (*run)(void *arg), void *arg); // on the driver thread; waits

typedef struct ch_queue {
    chimere_request *head, *tail;
    int32_t n;
} ch_queue;
void ch_sched_push_queue(ch_queue *q, chimere_request *r);
chimere_request *ch_sched_pop_queue(ch_queue *q);
void ch_sched_wake(chimere_engine *eng); // takes engine->lock
void *ch_sched_driver_main(void *engine);
void *ch_sched_prep_main(void *engine);

// ---- speed (speed.c) ----------------------------------------------------------------------------------------------------
typedef struct ch_speed_facts {
    double read_gbps, read_now_gbps; // of memory, at the start and now (0: not known)
    double decode_gbps;              // read by steps of one token
    const char *tier, *best_tier;
    bool no_repack;
    int n_window; // seconds of decoding before this one
    int n_threads, n_core, n_cpu; // n_core: that this process may use; n_cpu: of the machine
    double quota, others;         // processors' worth of time: granted (0: no bound); that others took meanwhile
    uint64_t swap_bytes, disk_reads, weight_bytes, memory_bytes;
} ch_speed_facts;
// Whether decoding is far slower than memory allows; then out has a line that names the likely cause.
bool ch_sched_judge_speed(const ch_speed_facts *f, char *out, size_t size);

// Driver thread's. A window is a row of one-token steps.
typedef struct ch_speed {
    double read_gbps; // 0: not measured yet
    bool slow, warned, no_repack; // slow: the last window was
    int n_window;
    uint64_t n, bytes, ns;
    uint64_t t0, disk0;
    double own0, busy0, all0;
} ch_speed;
void ch_sched_open_speed(chimere_engine *eng, bool no_repack);
void ch_sched_note_speed(chimere_engine *eng, uint64_t bytes, uint64_t ns);

typedef struct ch_counters {
    atomic_uint_fast64_t requests, stopped, length, cancelled, failed, refused;
    atomic_uint_fast64_t tokens_prompt, tokens_reused, tokens_generated, steps, step_ns;
    atomic_uint_fast64_t last_step_ns; // clock; 0: idle
    atomic_uint_fast64_t read_rate, decode_rate; // bytes a second: of memory, and of one-token steps lately
    atomic_int slots_busy, sessions;
} ch_counters;

struct chimere_engine {
    // fixed after open
    ch_model *model;
    ch_vocab *vocab;
    ch_template *chat;   // NULL: none, or chat_error says why
    ch_error chat_error;
    char *chat_source, *name, *path;
    chimere_engine_info info;
    chimere_sampling sampling; // defaults of this file
    ch_sample_mask mask;
    size_t slab_bytes, mark_interval;
    // driver
    ch_seq_pool *pool;
    ch_slot *slot;     // [n_slots]
    ch_mark_row *mark; // [n_mark]
    int32_t n_mark;
    ch_sample_work *work;
    uint64_t stamp;
    int32_t turn;      // round robin
    float *logits;     // [n_slots][n_vocab]
    int32_t *row_tok;  // [n_batch]
    int32_t *out_row;  // [n_batch]; n_batch >= n_slots
    ch_segment *seg;   // [n_slots]
    ch_step_part *part; // [n_slots]
    int32_t n_part;
    // shared
    pthread_mutex_t lock;
    pthread_cond_t driver_cond, prep_cond, job_cond;
    bool has_lock, has_driver, has_prep;
    pthread_t driver, prep;
    bool quit, wake;
    ch_queue prep_q, ready_q;
    ch_job *jobs;
    int32_t n_live; // requests submitted and not finished
    uint64_t serial;
    ch_counters count;
    ch_speed speed; // driver
};

// chimere_error and ch_error are the same thing for two audiences.
int ch_sched_give_error(chimere_error *to, const ch_error *from, int code);

#endif
