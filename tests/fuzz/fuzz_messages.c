// Fuzz target of chat prompts: the input is the text of messages_json, sent through a small template and the tokenizer to
// an engine over the fake model. Whatever it is, the request ends with DONE; a refusal says why.
#include "unit/fake_model.h"

#include <chimere.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char chat_template[] =
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.content is string %}{{- m.content }}{%- elif m.content %}{%- for p in m.content %}{{- p.text }}{%- endfor %}"
    "{%- endif %}"
    "{%- if m.tool_calls %}{%- for c in m.tool_calls %}{{- c.function.name }}{{- c.function.arguments | tojson }}{%- endfor %}"
    "{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}{{- '<|im_start|>assistant\\n<think>\\n' }}";

static chimere_engine *open_once(void) {
    static chimere_engine *eng;
    if (!eng) {
        fake.chat_template = chat_template;
        chimere_engine_params p;
        chimere_engine_params_init(&p);
        p.model_path = "fake";
        p.n_ctx = 256;
        p.n_slots = 2;
        if (chimere_engine_open(&eng, &p, NULL) != CHIMERE_OK)
            abort();
    }
    return eng;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    chimere_engine *eng = open_once();
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    chimere_request_params q;
    chimere_request_params_init(&q, eng);
    q.messages_json = text;
    q.max_tokens = 4;
    chimere_request *r = NULL;
    chimere_event ev;
    if (chimere_request_submit(eng, &r, &q, NULL) != CHIMERE_OK || chimere_request_wait(r, -1, &ev) != 1)
        abort();
    if (ev.reason == CHIMERE_REASON_ERROR && (ev.error.code >= 0 || !ev.error.msg[0]))
        abort();
    if (ev.reason == CHIMERE_REASON_ERROR && ev.error.code == CHIMERE_EINTERNAL)
        abort();
    chimere_request_close(&r);
    free(text);
    return 0;
}
