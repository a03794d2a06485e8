// Fuzz target: parses and renders a template. Input: the source, then optionally a NUL and the variables as JSON.
#include <stdlib.h>
#include <string.h>

#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char fallback[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"<|x|> é\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1,\"b\":[1.5,true,{}]}}}]}],\"tools\":[],\"n\":3,\"s\":\" a,b \","
    "\"add_generation_prompt\":true,\"bos_token\":\"<s>\"}";

static void check_error(int rc, const ch_error *e) {
    if (rc >= 0 || rc != e->code || !ch_utf8_valid(e->msg, strlen(e->msg)))
        abort();
}

static void check_spans(const ch_buf *out, const ch_span *span, size_t n) {
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (span[i].begin != end || span[i].end <= end)
            abort();
        end = span[i].end;
    }
    if (end != out->len || (out->len && !ch_utf8_valid(out->data, out->len)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size, n_span = 0;
    ch_template *t;
    ch_error e = {0};
    int rc = ch_template_parse(&t, (const char *)data, n, &e);
    if (rc) {
        check_error(rc, &e);
        if (t)
            abort();
        return 0;
    }
    json_t *vars = nul ? json_loadb((const char *)nul + 1, size - n - 1, JSON_ALLOW_NUL, NULL) : NULL;
    if (!json_is_object(vars)) {
        json_decref(vars);
        vars = json_loads(fallback, 0, NULL);
    }
    ch_template_limits lim = {.max_output = 1 << 20, .max_steps = 300000, .max_memory = 48 << 20, .now = 1764547200};
    ch_buf out = {0};
    ch_span *span = NULL;
    rc = ch_template_render(t, vars, &lim, &out, &span, &n_span, &e);
    if (rc)
        check_error(rc, &e);
    else
        check_spans(&out, span, n_span);
    if (out.len > lim.max_output)
        abort();
    ch_free(span);
    ch_buf_free(&out);
    ch_template_free(&t);
    json_decref(vars);
    return 0;
}
