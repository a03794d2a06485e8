// A small HTTP client for black-box tests: raw sockets, so that it can also misbehave.
#ifndef TESTS_SERVE_HTTP_H
#define TESTS_SERVE_HTTP_H

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"

static int http_connect(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// False: the other side closed.
static bool http_send(int fd, const char *data, size_t n) {
    while (n > 0) {
        ssize_t k = send(fd, data, n, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        data += k;
        n -= (size_t)k;
    }
    return true;
}

// Reads until the other side closes, text is found in what came (NULL: none looked for), or ms pass. Returns false at the
// time limit.
static bool http_read(int fd, ch_buf *b, const char *text, int ms) {
    uint64_t end = ch_clock_ns() + (uint64_t)ms * 1000000;
    for (;;) {
        char part[65536];
        if (text && b->data && strstr(b->data, text))
            return true;
        uint64_t now = ch_clock_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now >= end || poll(&p, 1, (int)((end - now) / 1000000) + 1) == 0)
            return false;
        ssize_t n = recv(fd, part, sizeof part, 0);
        if (n <= 0)
            return true;
        ch_buf_append(b, part, (size_t)n);
    }
}

typedef struct http_reply {
    int status;
    ch_buf head, body; // body: chunks joined
} http_reply;

static void http_free(http_reply *r) {
    ch_buf_free(&r->head);
    ch_buf_free(&r->body);
    r->status = 0;
}

// Splits what came into status, head and body; a chunked body is joined. False: no whole head.
static bool http_parse(http_reply *r, const ch_buf *raw) {
    const char *split = raw->data ? strstr(raw->data, "\r\n\r\n") : NULL;
    memset(r, 0, sizeof *r);
    if (!split || sscanf(raw->data, "HTTP/1.1 %d", &r->status) != 1)
        return false;
    ch_buf_append(&r->head, raw->data, (size_t)(split - raw->data) + 2);
    const char *p = split + 4, *end = raw->data + raw->len;
    if (!strcasestr(r->head.data, "transfer-encoding: chunked")) {
        ch_buf_append(&r->body, p, (size_t)(end - p));
        return true;
    }
    while (p < end) {
        char *after;
        size_t n = strtoul(p, &after, 16);
        if (after == p || n == 0 || strncmp(after, "\r\n", 2) != 0)
            break;
        after += 2;
        if (n > (size_t)(end - after))
            n = (size_t)(end - after);
        ch_buf_append(&r->body, after, n);
        p = after + n + 2;
    }
    return true;
}

// One request on its own connection. headers: lines with \r\n, or "". body NULL: none.
static bool http_ask(http_reply *r, int port, const char *method, const char *path, const char *headers, const char *body) {
    ch_buf b = {0}, raw = {0};
    int fd = http_connect(port);
    memset(r, 0, sizeof *r);
    if (fd < 0)
        return false;
    ch_buf_printf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s", method, path, headers);
    if (body)
        ch_buf_printf(&b, "%sContent-Length: %zu\r\n\r\n%s", strstr(headers, "Content-Type") ? "" : "Content-Type: application/json\r\n",
                      strlen(body), body);
    else
        ch_buf_puts(&b, "\r\n");
    http_send(fd, b.data, b.len); // a refusal may come, and the socket close, before all of it went
    bool ok = http_read(fd, &raw, NULL, 60000) && http_parse(r, &raw);
    close(fd);
    ch_buf_free(&b);
    ch_buf_free(&raw);
    return ok;
}

// Sends a request and returns the open socket, to read from or to drop. -1: failed.
static int http_begin(int port, const char *path, const char *body) {
    ch_buf b = {0};
    int fd = http_connect(port);
    ch_buf_printf(&b, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", path,
                  strlen(body), body);
    if (fd >= 0 && !http_send(fd, b.data, b.len)) {
        close(fd);
        fd = -1;
    }
    ch_buf_free(&b);
    return fd;
}

#endif
