// The server: listening socket, the HTTP library's callbacks, routing, key, origin and size checks, start and stop.
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "serve/server.h"

static const ch_endpoint endpoints[] = {
#define CH_ENDPOINT(method, path, fn, flags) {method, path, fn, flags},
#include "serve/list.h"
#undef CH_ENDPOINT
};
enum {
    N_ENDPOINTS = sizeof endpoints / sizeof endpoints[0],
    DEFAULT_CONNECTIONS = 256,
    DEFAULT_PING_MS = 10000,
    IDLE_SECONDS = 120,      // no byte moved either way
    SWALLOW = 64 << 20,      // bytes of a refused body that are read and dropped, since many clients miss an answer
                             // that comes while they send (the connection is then reset); longer ones get it at once
    BODIES_AT_ONCE = 4       // full-size bodies held at the same time, all connections together
};

// ---- one exchange ---------------------------------------------------------------------------------------------------------
static const ch_endpoint *find_endpoint(const char *method, const char *path, const char **rest, ch_serve_fault *f,
                                        const char **allow) {
    *rest = "";
    for (int i = 0; i < N_ENDPOINTS; i++) {
        const ch_endpoint *ep = &endpoints[i];
        size_t n = strlen(ep->path);
        bool prefix = n > 1 && ep->path[n - 1] == '/' && strncmp(path, ep->path, n) == 0 && path[n];
        if (!prefix && strcmp(path, ep->path) != 0)
            continue;
        bool get = strcmp(ep->method, "GET") == 0;
        if (strcmp(method, ep->method) == 0 || (get && strcmp(method, "HEAD") == 0)) {
            *rest = prefix ? path + n : "";
            return ep;
        }
        *allow = get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
        ch_serve_refuse(f, 405, "method_not_allowed", NULL, "%.100s takes %s, not %.20s", path, ep->method, method);
        return NULL;
    }
    ch_serve_refuse(f, 404, "not_found", NULL, "there is no %.100s here; the API is at /v1/chat/completions and /v1/models", path);
    return NULL;
}

// Takes the same time wherever the first difference is.
static bool same_key(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b);
    unsigned diff = na != nb;
    for (size_t i = 0; i < na; i++)
        diff |= (unsigned char)a[i] ^ (unsigned char)(nb ? b[i % nb] : 0);
    return diff == 0;
}

static const char *header(const ch_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->conn, MHD_HEADER_KIND, name);
}

static bool check_origin(ch_exchange *x, ch_serve_fault *f) {
    const char *origin = header(x, "Origin");
    if (!origin)
        return true;
    if (strlen(origin) < sizeof x->origin && !strpbrk(origin, "\r\n") && ch_serve_origin_allowed(x->s, origin)) {
        snprintf(x->origin, sizeof x->origin, "%s", origin);
        return true;
    }
    // Also keeps a page that re-binds its own name to this machine from using the server.
    return ch_serve_refuse(f, 403, "origin_not_allowed", NULL,
                           "pages of %.100s may not use this server; start it with --cors-origin to let them", origin);
}

static bool check_key(const ch_exchange *x, ch_serve_fault *f) {
    const char *auth = header(x, "Authorization");
    if (!x->s->api_key)
        return true;
    if (auth && strncasecmp(auth, "Bearer ", 7) == 0 && same_key(x->s->api_key, auth + 7))
        return true;
    return ch_serve_refuse(f, 401, "invalid_api_key", NULL, "%s", auth ? "the API key is not the one of this server"
                                                                        : "expected the header Authorization: Bearer KEY");
}

static bool check_body_headers(const ch_exchange *x, ch_serve_fault *f) {
    const char *type = header(x, "Content-Type"), *length = header(x, "Content-Length");
    if (type && strncasecmp(type, "application/json", 16) != 0)
        return ch_serve_refuse(f, 415, "unsupported_media_type", NULL,
                               "expected Content-Type: application/json, found \"%.60s\"", type);
    if (length && strtoull(length, NULL, 10) > x->s->p.max_body)
        return ch_serve_refuse(f, 413, "payload_too_large", NULL, "the body has %.20s bytes; at most %zu are allowed", length,
                               x->s->p.max_body);
    return true;
}

static bool check_engine(const ch_exchange *x, ch_serve_fault *f) {
    if (atomic_load(&x->s->draining))
        return ch_serve_refuse(f, 503, "shutting_down", NULL, "the server is stopping");
    if (!atomic_load(&x->s->engine))
        return ch_serve_refuse(f, 503, "model_loading", NULL, "the model is still loading (%.0f %%)",
                               100 * atomic_load(&x->s->progress));
    return true;
}

static enum MHD_Result reply_preflight(ch_exchange *x) {
    struct MHD_Response *r = MHD_create_response_from_buffer(0, (void *)(uintptr_t)"", MHD_RESPMEM_PERSISTENT);
    if (r) {
        const char *wanted = header(x, "Access-Control-Request-Headers");
        MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        if (wanted && strlen(wanted) < 1000)
            MHD_add_response_header(r, "Access-Control-Allow-Headers", wanted);
        MHD_add_response_header(r, "Access-Control-Max-Age", "600");
        MHD_add_response_header(r, "Allow", "GET, POST, OPTIONS");
    }
    return ch_serve_queue(x, 204, r);
}

static enum MHD_Result reply_refusal(ch_exchange *x) {
    if (!x->allow)
        return ch_serve_reply_fault(x, &x->refusal);
    ch_buf b = {0};
    ch_serve_put_fault(&b, &x->refusal);
    struct MHD_Response *r = MHD_create_response_from_buffer(b.len, b.data, MHD_RESPMEM_MUST_COPY);
    ch_buf_free(&b);
    if (r) {
        MHD_add_response_header(r, "Content-Type", "application/json");
        MHD_add_response_header(r, "Allow", x->allow);
    }
    return ch_serve_queue(x, x->refusal.status, r);
}

static ch_exchange *begin_exchange(ch_serve *s, struct MHD_Connection *conn, const char *path, const char *method) {
    ch_exchange *x = ch_alloc(sizeof *x);
    if (!x)
        return NULL;
    x->s = s;
    x->conn = conn;
    x->fd = -1;
    x->body.limit = s->p.max_body;
    pthread_mutex_init(&x->wake_lock, NULL);
    s->n_requests++;
    bool ok = check_origin(x, &x->refusal);
    x->preflight = ok && strcmp(method, "OPTIONS") == 0;
    if (!ok || x->preflight) {
        x->refused = !ok;
        return x;
    }
    const char *rest;
    x->endpoint = find_endpoint(method, path, &rest, &x->refusal, &x->allow);
    snprintf(x->rest, sizeof x->rest, "%s", rest);
    ok = x->endpoint && (!(x->endpoint->flags & CH_EP_KEY) || check_key(x, &x->refusal)) &&
         (strcmp(method, "POST") != 0 || check_body_headers(x, &x->refusal)) &&
         (!(x->endpoint->flags & CH_EP_ENGINE) || check_engine(x, &x->refusal));
    x->refused = !ok;
    return x;
}

// True: go on reading. A refused body is read and dropped up to SWALLOW bytes; past that the connection is closed, which
// is all the library allows in the middle of a body.
static bool take_body(ch_exchange *x, const char *data, size_t n) {
    ch_serve *s = x->s;
    if (!x->refused && x->body.len + n > s->p.max_body) {
        x->refused = true;
        ch_serve_refuse(&x->refusal, 413, "payload_too_large", NULL, "the body is larger than the %zu bytes allowed",
                        s->p.max_body);
    } else if (!x->refused && s->body_bytes + n > s->p.max_body * BODIES_AT_ONCE) {
        x->refused = true;
        ch_serve_refuse(&x->refusal, 503, "out_of_memory", NULL, "too many large requests are being received at once");
    } else if (!x->refused && !ch_buf_append(&x->body, data, n)) {
        x->refused = true;
        ch_serve_refuse(&x->refusal, 503, "out_of_memory", NULL, "out of memory");
    }
    if (!x->refused) {
        s->body_bytes += n;
        x->reserved += n;
        return true;
    }
    s->body_bytes -= x->reserved;
    x->reserved = 0;
    ch_buf_free(&x->body);
    x->n_dropped += n;
    return x->n_dropped <= SWALLOW;
}

static ch_connection *connection_of(struct MHD_Connection *conn) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void mark_connection(ch_serve *s, struct MHD_Connection *conn, bool busy) {
    ch_connection *c = connection_of(conn);
    pthread_mutex_lock(&s->lock);
    if (c) {
        c->busy = busy;
        c->t_idle = ch_clock_ns();
    }
    pthread_mutex_unlock(&s->lock);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *conn, const char *path, const char *method,
                                  const char *version, const char *data, size_t *n, void **own) {
    ch_serve *s = cls;
    ch_exchange *x = *own;
    (void)version;
    if (!x) {
        x = *own = begin_exchange(s, conn, path, method);
        if (!x)
            return MHD_NO;
        const char *length = header(x, "Content-Length");
        bool huge = length && strtoull(length, NULL, 10) > SWALLOW;
        if (x->refused && (huge || header(x, "Expect"))) // a client that waits for "100 Continue" has sent nothing yet
            return reply_refusal(x);
        return MHD_YES;
    }
    if (*n) {
        bool ok = take_body(x, data, *n);
        *n = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (x->replied)
        return MHD_YES;
    if (!x->started) {
        x->started = true;
        mark_connection(s, conn, true);
    }
    if (x->preflight)
        return reply_preflight(x);
    if (x->refused)
        return reply_refusal(x);
    return x->endpoint->answer(x);
}

static void on_completed(void *cls, struct MHD_Connection *conn, void **own, enum MHD_RequestTerminationCode code) {
    ch_serve *s = cls;
    ch_exchange *x = *own;
    (void)code;
    if (!x)
        return;
    *own = NULL;
    ch_log(CH_LOG_DEBUG, "http: %s %s: %d%s", x->endpoint ? x->endpoint->method : "", x->endpoint ? x->endpoint->path : "(refused)",
           x->status, atomic_load(&x->gone) ? ", the client left" : "");
    ch_serve_unwatch(x);
    chimere_request_close(&x->request);
    if (x->free_state)
        x->free_state(x->state);
    s->body_bytes -= x->reserved;
    ch_buf_free(&x->body);
    pthread_mutex_destroy(&x->wake_lock);
    ch_free(x);
    mark_connection(s, conn, false);
}

static void on_connection(void *cls, struct MHD_Connection *conn, void **own, enum MHD_ConnectionNotificationCode code) {
    ch_serve *s = cls;
    ch_connection *c = *own;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
        c = *own = info ? ch_alloc(sizeof *c) : NULL;
        if (!c)
            return;
        c->fd = info->connect_fd;
        c->t_idle = ch_clock_ns();
        pthread_mutex_lock(&s->lock);
        c->next = s->connections;
        if (c->next)
            c->next->prev = c;
        s->connections = c;
        pthread_mutex_unlock(&s->lock);
    } else if (c) {
        pthread_mutex_lock(&s->lock);
        if (c->prev)
            c->prev->next = c->next;
        else
            s->connections = c->next;
        if (c->next)
            c->next->prev = c->prev;
        pthread_mutex_unlock(&s->lock);
        *own = NULL;
        ch_free(c);
    }
}

static void on_log(void *cls, const char *fmt, va_list ap) CH_PRINTF(2, 0);
static void on_log(void *cls, const char *fmt, va_list ap) {
    char line[300];
    (void)cls;
    vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = 0;
    ch_log(CH_LOG_DEBUG, "http: %s", line);
}

// ---- start and stop -------------------------------------------------------------------------------------------------------
static int listen_on(ch_serve *s, ch_error *e) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", s->p.port);
    int rc = getaddrinfo(s->host, port, &hints, &list);
    if (rc != 0)
        return ch_error_set(e, CH_EIO, "cannot listen on \"%s\": %s", s->host, gai_strerror(rc));
    const char *why = "no address";
    for (struct addrinfo *a = list; a && s->listen_fd < 0; a = a->ai_next) {
        int on = 1;
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 128) == 0) {
            s->listen_fd = fd;
            break;
        }
        why = strerror(errno);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    if (s->listen_fd < 0)
        return ch_error_set(e, CH_EIO, "cannot listen on %s port %d: %s", s->host, s->p.port, why);
    struct sockaddr_storage got;
    socklen_t n = sizeof got;
    char text[16] = "0";
    if (getsockname(s->listen_fd, (struct sockaddr *)&got, &n) == 0)
        getnameinfo((struct sockaddr *)&got, n, NULL, 0, text, sizeof text, NI_NUMERICSERV);
    s->port = (int)strtol(text, NULL, 10);
    return 0;
}

static int start_daemon(ch_serve *s, ch_error *e) {
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, s,
        MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, s->listen_fd, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)s->p.n_connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536, MHD_OPTION_END);
    if (!s->daemon)
        return ch_error_set(e, CH_EIO, "the HTTP library could not start");
    return 0;
}

static char *copy(const char *s) {
    return s ? ch_strndup(s, strlen(s)) : NULL;
}

int ch_serve_start(ch_serve **out, const ch_serve_params *p, ch_error *e) {
    *out = NULL;
    if (p->name && (!p->name[0] || !ch_utf8_valid(p->name, strlen(p->name))))
        return ch_error_set(e, CH_ERANGE, "the model's name must be UTF-8 text");
    ch_serve *s = ch_alloc(sizeof *s);
    if (!s)
        return ch_error_set(e, CH_ENOMEM, "no memory for the server");
    s->p = *p;
    s->listen_fd = s->epoll_fd = s->event_fd = -1;
    s->t_created = (int64_t)time(NULL);
    if (!s->p.max_body)
        s->p.max_body = 16 << 20;
    if (s->p.ping_ms <= 0)
        s->p.ping_ms = DEFAULT_PING_MS;
    if (s->p.n_connections <= 0)
        s->p.n_connections = DEFAULT_CONNECTIONS;
    s->host = copy(p->host ? p->host : "127.0.0.1");
    s->api_key = copy(p->api_key);
    s->name = copy(p->name);
    s->cors_origin = copy(p->cors_origin);
    pthread_mutex_init(&s->lock, NULL);
    if (!s->host || (p->api_key && !s->api_key) || (p->name && !s->name) || (p->cors_origin && !s->cors_origin)) {
        ch_serve_stop(&s);
        return ch_error_set(e, CH_ENOMEM, "no memory for the server");
    }
    int rc = listen_on(s, e);
    if (rc == 0)
        rc = ch_serve_watch_start(s, e);
    if (rc == 0)
        rc = start_daemon(s, e);
    if (rc != 0) {
        ch_serve_stop(&s);
        return rc;
    }
    *out = s;
    return 0;
}

int ch_serve_port(const ch_serve *s) {
    return s->port;
}

void ch_serve_set_progress(ch_serve *s, double part) {
    atomic_store(&s->progress, part);
}

int ch_serve_set_engine(ch_serve *s, chimere_engine *engine) {
    const chimere_engine_info *info = chimere_engine_get_info(engine);
    const char *file = strrchr(info->path, '/');
    file = file ? file + 1 : info->path;
    size_t n = strlen(file);
    if (n > 5 && strcmp(file + n - 5, ".gguf") == 0)
        n -= 5;
    if (s->name)
        s->shown_name = copy(s->name);
    else // any bytes may stand in a file's name, only UTF-8 in JSON
        s->shown_name = ch_utf8_valid(file, n) ? ch_strndup(file, n) : copy("model");
    if (!s->shown_name)
        return CH_ENOMEM;
    uint64_t h = ch_hash64(chimere_version(), strlen(chimere_version()), info->n_params ^ info->fingerprint);
    h = ch_hash64(file, strlen(file), h);
    snprintf(s->fingerprint, sizeof s->fingerprint, "fp_%012llx", (unsigned long long)(h & 0xffffffffffffULL));
    atomic_store(&s->engine, engine); // everything above is read only after this
    return 0;
}

const char *ch_serve_model_name(const ch_serve *s) {
    return s->shown_name;
}

void ch_serve_drain(ch_serve *s) {
    atomic_store(&s->draining, true);
}

int ch_serve_n_active(ch_serve *s) {
    pthread_mutex_lock(&s->lock);
    int n = s->n_live;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void ch_serve_stop(ch_serve **p) {
    ch_serve *s = *p;
    if (!s)
        return;
    atomic_store(&s->draining, true);
    atomic_store(&s->stopping, true);
    ch_serve_watch_stop(s);
    if (s->daemon) {
        MHD_quiesce_daemon(s->daemon);
        pthread_mutex_lock(&s->lock);
        for (ch_exchange *x = s->live; x; x = x->next) {
            chimere_request_cancel(x->request);
            ch_serve_wake(x); // nothing sleeps again from here on
        }
        pthread_mutex_unlock(&s->lock);
        // Let clients read the end of their answers.
        struct timespec wait = {.tv_nsec = 10000000};
        for (int i = 0; i < 100 && ch_serve_n_active(s) > 0; i++)
            nanosleep(&wait, NULL);
        MHD_stop_daemon(s->daemon);
    }
    ch_serve_watch_close(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    pthread_mutex_destroy(&s->lock);
    ch_free(s->host);
    ch_free(s->api_key);
    ch_free(s->name);
    ch_free(s->cors_origin);
    ch_free(s->shown_name);
    ch_free(s);
    *p = NULL;
}
