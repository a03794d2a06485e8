// Whole replies: JSON, text, error objects, and the headers every reply carries.
#include <stdio.h>
#include <string.h>

#include "serve/server.h"

static const char *type_of_status(int status) {
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 408: return "timeout";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

bool ch_serve_refuse(ch_serve_fault *f, int status, const char *code, const char *param, const char *fmt, ...) {
    va_list ap;
    f->status = status;
    f->type = type_of_status(status);
    f->code = code;
    snprintf(f->param, sizeof f->param, "%s", param ? param : "");
    va_start(ap, fmt);
    vsnprintf(f->msg, sizeof f->msg, fmt, ap);
    va_end(ap);
    return false;
}

void ch_serve_fault_from_engine(ch_serve_fault *f, int code, const char *msg, bool started) {
    switch (code) {
    case CHIMERE_EFORMAT: ch_serve_refuse(f, 400, "template_error", "messages", "%s", msg); break;
    case CHIMERE_EUNSUPPORTED: ch_serve_refuse(f, 400, "unsupported", NULL, "%s", msg); break;
    case CHIMERE_ERANGE: ch_serve_refuse(f, 400, "invalid_value", NULL, "%s", msg); break;
    case CHIMERE_ELIMIT:
        if (started)
            ch_serve_refuse(f, 408, "request_timeout", NULL, "%s", msg);
        else
            ch_serve_refuse(f, 400, "context_length_exceeded", "messages", "%s", msg);
        break;
    case CHIMERE_EBUSY: ch_serve_refuse(f, 429, "queue_full", NULL, "%s", msg); break;
    case CHIMERE_ECANCELLED: ch_serve_refuse(f, 503, "shutting_down", NULL, "the answer was stopped: %s", msg); break;
    case CHIMERE_ENOMEM: ch_serve_refuse(f, 503, "out_of_memory", NULL, "%s", msg); break;
    default: ch_serve_refuse(f, 500, "internal_error", NULL, "%s", msg); break;
    }
}

bool ch_serve_put_string(ch_buf *b, const char *s, size_t n) {
    static const char hex[] = "0123456789abcdef";
    ch_buf_append(b, "\"", 1);
    size_t from = 0, i = 0;
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        uint32_t cp = c;
        size_t len = c < 0x80 ? 1 : ch_utf8_decode(s + i, n - i, &cp);
        char esc[8];
        const char *put = NULL;
        if (cp == UINT32_MAX) {
            put = "\xef\xbf\xbd";
        } else if (c == '"' || c == '\\') {
            esc[0] = '\\';
            esc[1] = (char)c;
            esc[2] = 0;
            put = esc;
        } else if (c < 0x20 || c == 0x7f) {
            memcpy(esc, "\\u00", 4);
            esc[4] = hex[c >> 4];
            esc[5] = hex[c & 15];
            esc[6] = 0;
            put = c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : esc;
        }
        if (put) {
            ch_buf_append(b, s + from, i - from);
            ch_buf_puts(b, put);
            from = i + len;
        }
        i += len;
    }
    ch_buf_append(b, s + from, n - from);
    ch_buf_append(b, "\"", 1);
    return !b->failed;
}

void ch_serve_put_fault(ch_buf *b, const ch_serve_fault *f) {
    ch_buf_puts(b, "{\"error\":{\"message\":");
    ch_serve_put_string(b, f->msg, strlen(f->msg));
    ch_buf_printf(b, ",\"type\":\"%s\",\"param\":", f->type);
    if (f->param[0])
        ch_serve_put_string(b, f->param, strlen(f->param));
    else
        ch_buf_puts(b, "null");
    ch_buf_printf(b, ",\"code\":\"%s\"}}", f->code);
}

// Pages served from this machine may use the server; others only when they were named with cors_origin.
static bool is_local_origin(const char *origin) {
    static const char *const host[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *h = strncmp(origin, "http://", 7) == 0 ? origin + 7 : strncmp(origin, "https://", 8) == 0 ? origin + 8 : NULL;
    for (size_t i = 0; h && i < sizeof host / sizeof host[0]; i++) {
        size_t n = strlen(host[i]);
        if (strncmp(h, host[i], n) == 0 && (h[n] == 0 || h[n] == ':') && strlen(h + n) <= 6)
            return true;
    }
    return false;
}

bool ch_serve_origin_allowed(const ch_serve *s, const char *origin) {
    if (is_local_origin(origin))
        return true;
    return s->cors_origin && (strcmp(s->cors_origin, "*") == 0 || strcmp(s->cors_origin, origin) == 0);
}

enum MHD_Result ch_serve_queue(ch_exchange *x, int status, struct MHD_Response *r) {
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (x->origin[0]) {
        MHD_add_response_header(r, "Access-Control-Allow-Origin", x->origin);
        MHD_add_response_header(r, "Vary", "Origin");
    }
    if (status == 401)
        MHD_add_response_header(r, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503)
        MHD_add_response_header(r, "Retry-After", "1");
    if (status >= 500)
        x->s->n_server_errors++;
    else if (status >= 400)
        x->s->n_client_errors++;
    x->replied = true;
    x->status = status;
    enum MHD_Result ok = MHD_queue_response(x->conn, (unsigned)status, r);
    MHD_destroy_response(r);
    return ok;
}

enum MHD_Result ch_serve_reply_text(ch_exchange *x, int status, const char *type, const char *data, size_t n) {
    struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)(uintptr_t)data, MHD_RESPMEM_MUST_COPY);
    if (r)
        MHD_add_response_header(r, "Content-Type", type);
    return ch_serve_queue(x, status, r);
}

enum MHD_Result ch_serve_reply_json(ch_exchange *x, int status, json_t *value) {
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text) {
        ch_serve_fault f;
        ch_serve_refuse(&f, 500, "internal_error", NULL, "the answer could not be written as JSON");
        return ch_serve_reply_fault(x, &f);
    }
    enum MHD_Result ok = ch_serve_reply_text(x, status, "application/json", text, strlen(text));
    free(text);
    return ok;
}

enum MHD_Result ch_serve_reply_fault(ch_exchange *x, const ch_serve_fault *f) {
    ch_buf b = {0};
    ch_serve_put_fault(&b, f);
    enum MHD_Result ok = MHD_NO;
    if (!b.failed)
        ok = ch_serve_reply_text(x, f->status, "application/json", b.data, b.len);
    ch_buf_free(&b);
    return ok;
}
