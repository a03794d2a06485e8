// serve: the engine over HTTP, as OpenAI clients speak it. It turns requests into engine requests and events into JSON or
// server-sent events; it knows nothing of tensors, models or slots.
//
// Refused with a typed error object: bodies over the limit, JSON deeper than 128 levels or of more than 262,144 values,
// fields that ask for something the server cannot do. Docs: docs/API.md.
//
// Threading: one thread of the HTTP library owns the sockets, one watcher thread notices clients that went away. Every
// function here may be called from the thread that started the server. Ownership: the engine is borrowed; stop the server
// before closing it.
#ifndef CH_SERVE_SERVE_H
#define CH_SERVE_SERVE_H

#include "base/base.h"
#include "chimere.h"

typedef struct ch_serve ch_serve;

typedef struct ch_serve_params {
    const char *host;        // address to listen on; NULL: 127.0.0.1
    int port;                // 0: any free one
    const char *api_key;     // NULL: none asked for
    const char *name;        // model name for clients; NULL: from the model file
    const char *cors_origin; // web pages that may use the server besides local ones; "*": any; NULL: local ones only
    bool any_model;          // answer whatever model name a request asks for
    size_t max_body;         // bytes of a request body; 0: 16 MiB
    int64_t timeout_ms;      // of one answer; 0: none
    int64_t ping_ms;         // a comment is sent on a stream after this long without an event; 0: 10 s
    int n_connections;       // at a time; 0: 256
} ch_serve_params;

// Listens at once; until ch_serve_set_engine every API call is answered 503 model_loading.
int ch_serve_start(ch_serve **s, const ch_serve_params *p, ch_error *e);
int ch_serve_port(const ch_serve *s);
void ch_serve_set_progress(ch_serve *s, double part); // of loading, 0..1, shown by /health
int ch_serve_set_engine(ch_serve *s, chimere_engine *engine); // CH_ENOMEM: not set
const char *ch_serve_model_name(const ch_serve *s); // NULL before the engine is set
void ch_serve_drain(ch_serve *s);  // new API calls are answered 503 shutting_down; running answers go on
int ch_serve_n_active(ch_serve *s); // answers being made
void ch_serve_stop(ch_serve **s);  // cancels what still runs and closes every connection

#endif
