// Private to serve: the server, one exchange (a request and its answer), and what endpoints may call.
#ifndef CH_SERVE_SERVER_H
#define CH_SERVE_SERVER_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "serve/serve.h"

// A refusal, as the error object shows it.
typedef struct ch_serve_fault {
    int status;       // HTTP
    const char *type; // "invalid_request_error"
    const char *code; // "invalid_value"
    char param[96];   // "messages[2].content"; "": null in JSON
    char msg[320];
} ch_serve_fault;
// Fills f and returns false, so that `return ch_serve_refuse(f, ...)` reads naturally.
bool ch_serve_refuse(ch_serve_fault *f, int status, const char *code, const char *param, const char *fmt, ...)
    CH_PRINTF(5, 6);
// From an engine error. started: the answer had begun (a limit is then the time limit).
void ch_serve_fault_from_engine(ch_serve_fault *f, int code, const char *msg, bool started);

enum { CH_EP_ENGINE = 1, CH_EP_KEY = 2 };

typedef struct ch_exchange ch_exchange;
// Called when the whole body is there, and again whenever the exchange is woken, until it has replied.
typedef enum MHD_Result (*ch_endpoint_fn)(ch_exchange *x);
typedef struct ch_endpoint {
    const char *method, *path;
    ch_endpoint_fn answer;
    unsigned flags;
} ch_endpoint;
#define CH_ENDPOINT(method, path, fn, flags) enum MHD_Result fn(ch_exchange *x);
#include "serve/list.h"
#undef CH_ENDPOINT

struct ch_exchange {
    ch_serve *s;
    struct MHD_Connection *conn;
    const ch_endpoint *endpoint;
    char rest[256];     // of the path, after an endpoint that ends in /
    const char *allow;  // methods, for 405; else NULL
    ch_serve_fault refusal; // decided before the body came
    bool refused, preflight;
    char origin[256];   // allowed origin to name in the answer; "": none
    ch_buf body;
    size_t reserved;    // bytes of s->body_bytes taken by this body
    size_t n_dropped;   // bytes of a refused body that were read and not kept
    bool started, replied;
    int status; // of the reply
    // Answers that take time (api_chat.c):
    void *state;                // of the endpoint
    void (*free_state)(void *); // called on any end of the exchange, after it is no longer watched
    chimere_request *request;   // closed after free_state's time
    // Under s->lock:
    bool watched;
    ch_exchange *prev, *next;
    uint64_t id;
    int fd;
    // Under wake_lock. A wake that comes first cancels the next sleep, so none is lost.
    pthread_mutex_t wake_lock;
    bool asleep, woken;
    // Set by the watcher, read by the HTTP thread:
    atomic_bool gone; // the client closed its side
    atomic_bool ping; // nothing was written for a while
    _Atomic uint64_t t_write;
};

// An open connection, so that one that never completes a request can be closed.
typedef struct ch_connection {
    struct ch_connection *prev, *next; // under s->lock
    int fd;
    bool busy;       // an exchange's body is complete
    uint64_t t_idle; // since when it is not
} ch_connection;

struct ch_serve {
    ch_serve_params p;
    char *host, *api_key, *name, *cors_origin; // own copies
    char *shown_name;                          // set with the engine
    char fingerprint[24];
    int64_t t_created;                         // seconds since 1970
    int listen_fd, port;
    struct MHD_Daemon *daemon;
    chimere_engine *_Atomic engine;
    _Atomic double progress;
    atomic_bool draining, stopping;
    size_t body_bytes; // reserved by all exchanges; HTTP thread only
    _Atomic uint64_t n_requests, n_client_errors, n_server_errors, n_gone;
    // Watcher
    pthread_t watcher;
    bool watcher_runs;
    int epoll_fd, event_fd;
    pthread_mutex_t lock;
    ch_exchange *live; // watched exchanges
    ch_connection *connections;
    uint64_t next_id;
    int n_live;
};

// ---- replies (reply.c): each queues the whole answer; MHD_NO closes the connection ----------------------------------------
enum MHD_Result ch_serve_reply_text(ch_exchange *x, int status, const char *type, const char *data, size_t n);
enum MHD_Result ch_serve_reply_json(ch_exchange *x, int status, json_t *value); // takes value; NULL: 500
enum MHD_Result ch_serve_reply_fault(ch_exchange *x, const ch_serve_fault *f);
enum MHD_Result ch_serve_queue(ch_exchange *x, int status, struct MHD_Response *r); // adds common headers, takes r
bool ch_serve_put_string(ch_buf *b, const char *s, size_t n); // as a JSON string; broken UTF-8 becomes U+FFFD
void ch_serve_put_fault(ch_buf *b, const ch_serve_fault *f);  // {"error":{...}}
// The name of an origin that may read answers, or NULL.
bool ch_serve_origin_allowed(const ch_serve *s, const char *origin);

// ---- watcher (watch.c) ----------------------------------------------------------------------------------------------------
int ch_serve_watch_start(ch_serve *s, ch_error *e);
void ch_serve_watch_stop(ch_serve *s);  // ends the thread
void ch_serve_watch_close(ch_serve *s); // once no exchange is left that could be unwatched
// From now on x->request is cancelled and x woken when the client goes away; x->ping is set when nothing was written for
// p.ping_ms. The request must have been submitted.
void ch_serve_watch(ch_exchange *x);
void ch_serve_unwatch(ch_exchange *x);
void ch_serve_wake(void *exchange); // a chimere_ready_fn
// True: the connection is suspended until woken, return MHD_YES (or 0 bytes) at once. False: look again, something came.
bool ch_serve_sleep(ch_exchange *x);

// ---- JSON (json_read.c) ---------------------------------------------------------------------------------------------------
enum { CH_SERVE_JSON_DEPTH = 128, CH_SERVE_JSON_VALUES = 262144 };
// Text to value with depth, size and duplicate checks; NULL with *f filled. what: "request body".
json_t *ch_serve_read_json(const char *text, size_t n, const char *what, const char *param, ch_serve_fault *f);

#endif
