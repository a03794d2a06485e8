// Private to serve, and to its fuzz target: the body of POST /v1/chat/completions, checked and turned into what the engine
// takes.
#ifndef CH_SERVE_REQUEST_H
#define CH_SERVE_REQUEST_H

#include "serve/server.h"

enum { CH_SERVE_MAX_MESSAGES = 16384, CH_SERVE_MAX_TOOLS = 1024 };

typedef struct ch_serve_chat {
    char *model;         // NULL: not named
    char *messages_json; // for the template
    char *tools_json;    // NULL: none
    char *kwargs_json;   // NULL: none
    int enable_thinking; // -1: not said
    bool stream, include_usage;
    int64_t max_tokens;  // -1: not said
    chimere_sampling sampling;
    char *stop[CHIMERE_STOP_MAX];
    int n_stop;
} ch_serve_chat;

// engine: where the sampling defaults come from (NULL: the table's own). False with *f filled; c is then empty.
bool ch_serve_parse_chat(ch_serve_chat *c, const chimere_engine *engine, const char *body, size_t n, ch_serve_fault *f);
void ch_serve_free_chat(ch_serve_chat *c);

// One message array, rebuilt with the members templates know; NULL with *f filled (request_messages.c).
json_t *ch_serve_read_messages(const json_t *messages, ch_serve_fault *f);
// "an array", "a number", ... for messages
const char *ch_serve_json_kind(const json_t *v);

#endif
