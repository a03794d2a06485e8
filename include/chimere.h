// chimere: the public interface of the engine. This header is the manual.
//
// Three objects:
//   engine   one model file, its sequences ("slots") and one driver thread that runs the model
//   request  one completion: a prompt in (chat messages, text or token ids), a stream of events out. Many at a time.
//   session  one sequence under the caller's own control: feed tokens, read logits, rewind, save, load
//
//   chimere_engine_params p;
//   chimere_engine_params_init(&p);
//   p.model_path = "model.gguf";
//   chimere_engine *engine = NULL;
//   chimere_error err;
//   if (chimere_engine_open(&engine, &p, &err) != CHIMERE_OK) { fprintf(stderr, "%s\n", err.msg); return 1; }
//   chimere_request_params q;
//   chimere_request_params_init(&q, engine);
//   q.messages_json = "[{\"role\":\"user\",\"content\":\"Hello!\"}]";
//   chimere_request *request = NULL;
//   if (chimere_request_submit(engine, &request, &q, &err) == CHIMERE_OK) {
//       chimere_event ev;
//       while (chimere_request_next(request, -1, &ev) == 1 && ev.kind != CHIMERE_EVENT_DONE)
//           fwrite(ev.answer, 1, ev.n_answer, stdout);
//   }
//   chimere_request_close(&request);
//   chimere_engine_close(&engine);
//
// Errors: functions return CHIMERE_OK (0) or a negative CHIMERE_E*; a chimere_error (NULL allowed) then says what was
// expected and what was found. Strings are UTF-8; texts in params are copied, so the caller may free them after the call.
// Threading: every function may be called from any thread, but one request or session is used by one thread at a time,
// except chimere_request_cancel, which any thread may call at any time before chimere_request_close.
// Ownership: whoever opens closes; close functions take the address of the handle and set it to NULL; NULL inside is
// allowed. Requests and sessions are closed before their engine.
// The library never prints, exits or reads the environment.
#ifndef CHIMERE_H
#define CHIMERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- errors, log, progress ----------------------------------------------------------------------------------------------
enum {
    CHIMERE_OK = 0,
    CHIMERE_ENOMEM = -1,       // memory could not be had
    CHIMERE_EIO = -2,          // the system refused a read, write or map
    CHIMERE_EFORMAT = -3,      // a file, a JSON text or a conversation is malformed (also: refused by the chat template)
    CHIMERE_EUNSUPPORTED = -4, // well-formed, but of a kind this build or model does not handle
    CHIMERE_ERANGE = -5,       // a value is outside its allowed range
    CHIMERE_ELIMIT = -6,       // a stated limit (context, size, time) would be passed
    CHIMERE_EBUSY = -7,        // queue full or no slot free: try again later
    CHIMERE_ECANCELLED = -8,   // stopped by the caller
    CHIMERE_ESTATE = -9,       // call not allowed in the present state
    CHIMERE_EINTERNAL = -10    // a fault inside chimere, or a model that gives non-finite scores
};

typedef struct chimere_error {
    int code;
    char msg[240];
} chimere_error;

// level: 0 debug, 1 info, 2 warning, 3 error. Set once, before the first engine is opened; NULL: discard (the default).
typedef void (*chimere_log_fn)(void *user, int level, const char *line);
void chimere_set_log(chimere_log_fn fn, void *user);

// done counts up to total in any unit; returning false stops the work with CHIMERE_ECANCELLED.
typedef bool (*chimere_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

const char *chimere_version(void);

// ---- engine -------------------------------------------------------------------------------------------------------------
typedef struct chimere_engine chimere_engine;

// A low-rank adapter (LoRA, GGUF file) beside the matrices of the model; its product counts scale times what the file says.
enum { CHIMERE_LORA_MAX = 16 };
typedef struct chimere_lora {
    const char *path;
    float scale; // 1: as it was trained
} chimere_lora;

typedef struct chimere_engine_params {
    const char *model_path; // GGUF file (first shard of a split one)
    int32_t n_ctx;          // tokens of ONE request, prompt and answer; 0: what the model was trained for, at most 4096
    int32_t n_slots;        // sequences computed together, 1..64; 0: 4
    int32_t n_threads;      // 0: physical cores available
    int32_t n_batch;        // most tokens of one step; 0: 512
    int32_t n_queue;        // requests that may wait for a slot, 1..4096; 0: 64
    int32_t n_marks;        // restart points kept for prefix reuse, all slots together; 0: 4 per slot
    const char *tier;       // "ref", "avx2", "avx512", "amx", "neon"; NULL: the best this processor has
    const char *kv_type_k, *kv_type_v; // key/value cache: "f32", "f16", "bf16", "q8_0", "q4_0", "tq4", "tq3"; NULL: f32
    bool no_kv_hadamard;    // store quantised keys and values as they are, not rotated (less exact)
    const char *state_type; // recurrent states: "f32", "bf16" (half the memory, rounded behind every token); NULL: f32
    bool chunk_form;        // recurrent layers take whole chunks of 64 positions at once: faster prompts, results that depend on
                            // how a prompt was cut (within rounding)
    bool no_repack;         // leave weights in the mapped file (less memory, slower)
    const char *panel_cache; // folder that keeps packed weights, so that the next start maps them; NULL: none
    uint64_t panel_cache_bytes; // most bytes of its files (those used longest ago are removed); 0: no limit
    chimere_lora lora[CHIMERE_LORA_MAX]; // the first n_lora of these
    int32_t n_lora;
    chimere_progress_fn progress; // of loading; NULL: silent
    void *progress_user;
} chimere_engine_params;
void chimere_engine_params_init(chimere_engine_params *p);

int chimere_engine_open(chimere_engine **engine, const chimere_engine_params *p, chimere_error *e);
void chimere_engine_close(chimere_engine **engine); // running requests end as cancelled

// Memory in bytes. Read from metadata only: nothing of the weights is loaded.
typedef struct chimere_memory {
    size_t weights; // the file's tensors (mapped)
    size_t packed;  // own copies in the tier's layout
    size_t context; // key/value pages of all slots at full context
    size_t state;   // recurrent state of all slots
    size_t marks;   // recurrent state kept in restart points
    size_t step;    // logits and buffers of one step (without the model's own scratch)
    size_t total;   // all of these; weights only where they are not packed
} chimere_memory;
int chimere_estimate(const chimere_engine_params *p, chimere_memory *out, chimere_error *e);

typedef struct chimere_engine_info {
    const char *name;        // general.name of the file, or the file's own name
    const char *path;        // as given
    const char *arch;        // "qwen35moe"
    const char *tier;        // kernel tier in use
    const char *chat_template; // source text; NULL: the file has none, so messages_json is refused
    bool template_has_thinking; // the template knows enable_thinking
    bool template_has_tools;
    int32_t n_vocab, n_layer, n_embd, n_ctx_train;
    int32_t n_ctx;           // per request
    int32_t n_slots, n_threads, n_batch, n_queue;
    int32_t bos, eos;        // token ids; -1: none
    uint64_t n_params;
    uint64_t fingerprint;    // of model, adapters and the form of the cache: snapshots fit where it is equal
    chimere_memory memory;   // of this engine
} chimere_engine_info;
// Valid as long as the engine.
const chimere_engine_info *chimere_engine_get_info(const chimere_engine *engine);

// Counters since opening, and the present load. Never waits for the model.
typedef struct chimere_metrics {
    uint64_t requests, requests_stopped, requests_length, requests_cancelled, requests_failed, requests_refused;
    uint64_t tokens_prompt;    // of admitted requests
    uint64_t tokens_reused;    // of those, not computed again thanks to prefix reuse
    uint64_t tokens_generated;
    uint64_t steps;
    uint64_t step_ns;          // time inside the model
    uint64_t read_rate;        // bytes a second that memory gave; 0: not measured (small model, not in memory yet)
    uint64_t decode_rate;      // bytes a second read by steps of one token, over the last second of them; 0: none yet
    int32_t slots_busy, queue_length, sessions;
    uint64_t last_step_age_ms; // since the last step ended, while work is there; 0 when idle. Large: the engine is stuck.
} chimere_metrics;
void chimere_engine_get_metrics(const chimere_engine *engine, chimere_metrics *out);

// ---- tokens and templates -----------------------------------------------------------------------------------------------
// Writes at most cap ids to out (NULL with cap 0: count only); *n is the number of ids of the whole text, CHIMERE_ELIMIT
// when they do not fit. special: spellings of control tokens become those tokens. bos: add the file's leading token.
int chimere_tokenize(const chimere_engine *engine, const char *text, size_t n_text, bool special, bool bos, int32_t *out,
                     size_t cap, size_t *n, chimere_error *e);
// Bytes of one token (not always whole characters); control tokens give nothing unless special. *piece lives as long as
// the engine; returns its length, 0 for unknown ids.
size_t chimere_token_piece(const chimere_engine *engine, int32_t id, bool special, const char **piece);
bool chimere_token_ends(const chimere_engine *engine, int32_t id); // ends a generation

// ---- sampling -----------------------------------------------------------------------------------------------------------
#define CHIMERE_SAMPLING_MAX 32
typedef struct chimere_sampling {
    double value[CHIMERE_SAMPLING_MAX]; // by row of the table below; read and set by name
    int64_t seed; // same seed, same prompt, same text, whatever else runs; negative: drawn from the system
} chimere_sampling;

// The table of parameters, for command lines, JSON fields, help and documents. At present:
//   temperature  0: always the best token          top_k  keep the k best; 0: all
//   top_p        keep the smallest set of best tokens with this share of probability; 1: all
//   min_p        keep tokens with at least this share of the best one's probability; 0: all
typedef struct chimere_param {
    const char *name; // "temperature"
    bool is_int;
    double min, max, def;
    const char *help;
} chimere_param;
bool chimere_sampling_param(size_t i, chimere_param *out); // row i; false: past the last
// Table defaults, then general.sampling.* of the engine's file (engine NULL: table defaults only). seed: -1.
void chimere_sampling_init(chimere_sampling *s, const chimere_engine *engine);
// CHIMERE_EUNSUPPORTED: no such name; CHIMERE_ERANGE: outside the range, or not a whole number where is_int.
int chimere_sampling_set(chimere_sampling *s, const char *name, double value, chimere_error *e);
double chimere_sampling_get(const chimere_sampling *s, const char *name); // NaN: no such name

// ---- request ------------------------------------------------------------------------------------------------------------
typedef struct chimere_request chimere_request;

#define CHIMERE_STOP_MAX 16        // stop strings of a request
#define CHIMERE_STOP_BYTES_MAX 256 // bytes of one stop string
#define CHIMERE_LOGPROBS_MAX 20

// Called when something can be read with chimere_request_next, from an engine thread or from inside submit. It must return
// quickly and call no chimere function. After chimere_request_close has returned it is not called any more.
typedef void (*chimere_ready_fn)(void *user);

typedef struct chimere_request_params {
    // Exactly one kind of prompt:
    const char *messages_json; // chat: JSON array of {role, content, reasoning_content?, tool_calls?, ...}, through the
                               // model's own template. Message text never becomes control tokens.
    const char *prompt;        // raw text, n_prompt bytes; prompt_special: control spellings in it become control tokens
    size_t n_prompt;
    bool prompt_special;
    const int32_t *tokens;     // ids, n_tokens of them, used as they are
    size_t n_tokens;

    // Chat only:
    const char *tools_json;           // JSON array of tool definitions for the template; NULL: none
    const char *template_kwargs_json; // JSON object of further template variables; NULL: none
    int enable_thinking;              // -1: the template's default; 0 or 1
    bool no_generation_prompt;        // render without the opening of an assistant turn

    chimere_sampling sampling;
    int64_t max_tokens;        // of the answer, at least 1; -1: what the context leaves (larger values are cut to that)
    const char *const *stop;   // strings that end the generation, in thinking too, and are not part of the text
    size_t n_stop;
    int n_logprobs;            // -1: none; 0: of the chosen token; 1..20: of the best tokens too
    bool raw_text;             // no split: thinking stays in the answer with its tags
    bool show_special;         // control tokens are printed too
    bool ignore_eos;           // go on to max_tokens (benchmarks)
    bool progress;             // PROGRESS events while the prompt is computed
    int64_t timeout_ms;        // whole life of the request; 0: none. Ends with CHIMERE_ELIMIT.
    chimere_ready_fn ready;    // NULL: none
    void *ready_user;
} chimere_request_params;
void chimere_request_params_init(chimere_request_params *q, const chimere_engine *engine);

// Checks the parameters and queues the request. CHIMERE_EBUSY: queue full (or the engine is closing). Faults of the
// conversation itself (template, too long) come as the first event: DONE with reason ERROR.
int chimere_request_submit(chimere_engine *engine, chimere_request **request, const chimere_request_params *q,
                           chimere_error *e);

typedef struct chimere_logprob {
    int32_t id;
    float logprob; // natural logarithm, of the model's own distribution (temperature 1, nothing filtered)
} chimere_logprob;

typedef struct chimere_token {
    int32_t id;
    bool reasoning;  // generated inside a think block
    float logprob;   // 0 unless n_logprobs >= 0
    int32_t n_top;
    const chimere_logprob *top; // best first
} chimere_token;

typedef enum chimere_event_kind {
    CHIMERE_EVENT_START,    // once: the prompt was accepted and computing begins; usage.prompt_tokens and cached_tokens set
    CHIMERE_EVENT_PROGRESS, // only with params.progress: prompt_done of usage.prompt_tokens
    CHIMERE_EVENT_DELTA,    // text and tokens since the last event (several steps together when the reader is slow)
    CHIMERE_EVENT_DONE      // once, the last: reason, usage, timings; carries no text
} chimere_event_kind;

typedef enum chimere_reason {
    CHIMERE_REASON_NONE,
    CHIMERE_REASON_STOP,      // the model ended its turn, or a stop string came (stop_index)
    CHIMERE_REASON_LENGTH,    // max_tokens or the context reached
    CHIMERE_REASON_CANCELLED,
    CHIMERE_REASON_ERROR      // error says why
} chimere_reason;

typedef struct chimere_usage {
    int32_t prompt_tokens, cached_tokens; // cached: of the prompt, reused and not computed
    int32_t completion_tokens;            // every sampled token, the end token included
    int32_t reasoning_tokens;             // of those
} chimere_usage;

typedef struct chimere_timings {
    double queue_ms;  // submit to slot, building the prompt included
    double prompt_ms; // slot to first token
    double answer_ms; // first to last token
} chimere_timings;

typedef struct chimere_event {
    chimere_event_kind kind;
    const char *reasoning; // whole characters; never NULL; not NUL-terminated
    size_t n_reasoning;
    const char *answer;
    size_t n_answer;
    const chimere_token *tokens; // sampled since the last event; their text may come later (held-back stop strings)
    size_t n_tokens;
    int32_t prompt_done;
    chimere_usage usage;
    chimere_timings timings;
    chimere_reason reason;
    int32_t stop_index; // of the stop string that ended the answer; -1: none
    int64_t seed;       // in use
    chimere_error error;
} chimere_event;

// Waits for the next event: timeout_ms < 0 for ever, 0 not at all. Returns 1 with *ev filled, 0 at the timeout, and
// CHIMERE_ESTATE after DONE was given. What *ev points to lives until the next call on this request.
int chimere_request_next(chimere_request *request, int64_t timeout_ms, chimere_event *ev);
// Reads to the end. *ev (kind DONE) then has all texts and tokens that were not read before. Returns as
// chimere_request_next; CHIMERE_ENOMEM when there is no room to gather the text (the request itself goes on).
int chimere_request_wait(chimere_request *request, int64_t timeout_ms, chimere_event *ev);
// Asks for a stop: queued requests end at once, running ones within one step. DONE still comes.
void chimere_request_cancel(chimere_request *request);
void chimere_request_close(chimere_request **request); // cancels where needed; does not wait for a running step

// ---- session ------------------------------------------------------------------------------------------------------------
// A session occupies one slot until closed. Its calls run between the steps of other work.
typedef struct chimere_session chimere_session;
int chimere_session_open(chimere_engine *engine, chimere_session **session, chimere_error *e); // CHIMERE_EBUSY: no slot
void chimere_session_close(chimere_session **session);

const int32_t *chimere_session_tokens(const chimere_session *session, size_t *n); // what it holds
// Appends tokens. all_logits (NULL allowed): [n][n_vocab], scores after each of them. On failure nothing is appended.
int chimere_session_append(chimere_session *session, const int32_t *tokens, size_t n, float *all_logits, chimere_error *e);
// Makes the session hold exactly these tokens: what it has in common is kept, the rest dropped or computed. *n_reused
// (NULL allowed): tokens that were not computed again.
int chimere_session_sync(chimere_session *session, const int32_t *tokens, size_t n, size_t *n_reused, chimere_error *e);
int chimere_session_rewind(chimere_session *session, size_t n, chimere_error *e); // keep the first n tokens
// Scores after the last token [n_vocab]; NULL when it holds none. Valid until the next call on this session.
const float *chimere_session_logits(const chimere_session *session);
// One token by these parameters, from the present scores (not appended). The random numbers start from s->seed at the
// first call and whenever s->seed is another one than at the last call.
int chimere_session_sample(chimere_session *session, const chimere_sampling *s, int32_t *id, chimere_error *e);
int chimere_session_save(chimere_session *session, const char *path, chimere_error *e);
int chimere_session_load(chimere_session *session, const char *path, chimere_error *e); // same model only

#ifdef __cplusplus
}
#endif

#endif
