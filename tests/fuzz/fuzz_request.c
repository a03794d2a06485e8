// Fuzz target of chat requests: any bytes either give a request whose texts the engine's own JSON reader accepts again, or a
// refusal that says why.
#include <stdlib.h>
#include <string.h>

#include "serve/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const char *text, bool array) {
    if (!text)
        return;
    json_t *v = json_loads(text, 0, NULL);
    if (!v || (array ? !json_is_array(v) : !json_is_object(v)))
        abort();
    json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ch_serve_chat c;
    ch_serve_fault f = {0};
    char *exact = malloc(size ? size : 1); // for the address sanitizer
    if (!exact)
        return 0;
    memcpy(exact, data, size);
    if (ch_serve_parse_chat(&c, NULL, exact, size, &f)) {
        if (!c.messages_json || c.n_stop > CHIMERE_STOP_MAX || c.max_tokens == 0 || c.max_tokens < -1 || c.sampling.seed < -1)
            abort();
        check_again(c.messages_json, true);
        check_again(c.tools_json, true);
        check_again(c.kwargs_json, false);
        ch_serve_free_chat(&c);
    } else {
        ch_buf b = {0};
        if (f.status < 400 || !f.msg[0] || !f.type || !f.code)
            abort();
        ch_serve_put_fault(&b, &f);
        json_t *v = json_loadb(b.data, b.len, 0, NULL);
        if (!v)
            abort();
        json_decref(v);
        ch_buf_free(&b);
    }
    free(exact);
    return 0;
}
