// The watcher: the HTTP library does not look at a connection that waits for the engine, so this thread does. It cancels
// the work of clients that went away (a half-closed connection counts as gone), asks for keep-alive comments, and closes
// connections on which no request is completed in time.
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/server.h"

// A client has this long from connecting, or from its last answer, to send a whole request.
static const uint64_t REQUEST_NS = (uint64_t)120 * 1000000000;
enum { TICK_MS = 500 }; // or half of ping_ms

// Lock order: s->lock, x->wake_lock, then the library's own.
void ch_serve_wake(void *exchange) {
    ch_exchange *x = exchange;
    pthread_mutex_lock(&x->wake_lock);
    if (x->asleep)
        MHD_resume_connection(x->conn);
    else
        x->woken = true;
    x->asleep = false;
    pthread_mutex_unlock(&x->wake_lock);
}

bool ch_serve_sleep(ch_exchange *x) {
    bool sleeps = false;
    pthread_mutex_lock(&x->wake_lock);
    if (!x->woken && !atomic_load(&x->s->stopping)) {
        x->asleep = sleeps = true;
        MHD_suspend_connection(x->conn);
    }
    x->woken = false;
    pthread_mutex_unlock(&x->wake_lock);
    return sleeps;
}

void ch_serve_watch(ch_exchange *x) {
    ch_serve *s = x->s;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->fd = info ? info->connect_fd : -1;
    atomic_store(&x->t_write, ch_clock_ns());
    pthread_mutex_lock(&s->lock);
    x->id = ++s->next_id;
    x->watched = true;
    x->prev = NULL;
    x->next = s->live;
    if (s->live)
        s->live->prev = x;
    s->live = x;
    s->n_live++;
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET, .data.u64 = x->id};
    if (x->fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, x->fd, &ev) != 0)
        ch_log(CH_LOG_WARN, "serve: cannot watch a connection: %s", strerror(errno));
    pthread_mutex_unlock(&s->lock);
}

void ch_serve_unwatch(ch_exchange *x) {
    ch_serve *s = x->s;
    pthread_mutex_lock(&s->lock);
    if (x->watched) {
        epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, x->fd, NULL);
        if (x->prev)
            x->prev->next = x->next;
        else
            s->live = x->next;
        if (x->next)
            x->next->prev = x->prev;
        s->n_live--;
        x->watched = false;
    }
    pthread_mutex_unlock(&s->lock);
}

// s->lock is held.
static void client_gone(ch_exchange *x) {
    if (atomic_exchange(&x->gone, true))
        return;
    x->s->n_gone++;
    chimere_request_cancel(x->request);
    ch_serve_wake(x);
}

static void handle_event(ch_serve *s, uint64_t id) {
    pthread_mutex_lock(&s->lock);
    for (ch_exchange *x = s->live; x; x = x->next)
        if (x->id == id) {
            client_gone(x);
            break;
        }
    pthread_mutex_unlock(&s->lock);
}

static void tick(ch_serve *s) {
    uint64_t now = ch_clock_ns(), ping_ns = (uint64_t)s->p.ping_ms * 1000000;
    pthread_mutex_lock(&s->lock);
    for (ch_exchange *x = s->live; x; x = x->next)
        if (now - atomic_load(&x->t_write) >= ping_ns && !atomic_exchange(&x->ping, true))
            ch_serve_wake(x);
    for (ch_connection *c = s->connections; c; c = c->next)
        if (!c->busy && now - c->t_idle >= REQUEST_NS)
            shutdown(c->fd, SHUT_RDWR); // the library sees it and closes; it alone may close
    pthread_mutex_unlock(&s->lock);
}

static void *watch(void *arg) {
    ch_serve *s = arg;
    struct epoll_event ev[32];
    uint64_t last = ch_clock_ns();
    int tick_ms = s->p.ping_ms / 2 < TICK_MS ? (int)(s->p.ping_ms / 2) + 1 : TICK_MS;
    while (!atomic_load(&s->stopping)) {
        int n = epoll_wait(s->epoll_fd, ev, 32, tick_ms);
        for (int i = 0; i < n; i++)
            if (ev[i].data.u64 != 0)
                handle_event(s, ev[i].data.u64);
        if (ch_clock_ns() - last >= (uint64_t)tick_ms * 1000000) {
            tick(s);
            last = ch_clock_ns();
        }
    }
    return NULL;
}

int ch_serve_watch_start(ch_serve *s, ch_error *e) {
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = 0};
    if (s->epoll_fd < 0 || s->event_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->event_fd, &ev) != 0 ||
        pthread_create(&s->watcher, NULL, watch, s) != 0)
        return ch_error_set(e, CH_EIO, "cannot start the connection watcher: %s", strerror(errno));
    s->watcher_runs = true;
    return 0;
}

void ch_serve_watch_stop(ch_serve *s) {
    if (s->watcher_runs) {
        uint64_t one = 1;
        ssize_t done = write(s->event_fd, &one, sizeof one);
        (void)done; // the watcher looks at s->stopping twice a second anyway
        pthread_join(s->watcher, NULL);
        s->watcher_runs = false;
    }
}

void ch_serve_watch_close(ch_serve *s) {
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    if (s->event_fd >= 0)
        close(s->event_fd);
    s->epoll_fd = s->event_fd = -1;
}
