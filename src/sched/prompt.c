// From a request to token ids: messages through the model's own chat template, or text, or ids as they are.
//
// Message text never becomes control tokens: the template's literals and what it copied from the variables are told apart
// by spans. The prompt begins with the file's leading token (bos) at most once.
#include <string.h>

#include "sched/engine.h"

#define JSON_DEPTH_MAX 128

// ---- JSON in ------------------------------------------------------------------------------------------------------------

// Nesting is checked before parsing: the parser recurses.
static int check_depth(const char *what, const char *text, size_t n, ch_error *e) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"')
            in_string = true;
        else if (c == '[' || c == '{') {
            if (++depth > JSON_DEPTH_MAX)
                return ch_error_set(e, CH_ELIMIT, "%s: expected at most %d levels of nesting, found more at byte %zu", what,
                                    JSON_DEPTH_MAX, i);
        } else if (c == ']' || c == '}')
            depth--;
    }
    return CH_OK;
}

static int load_json(const char *what, const char *text, json_type type, json_t **out, ch_error *e) {
    static const char *const name[] = {"an object", "an array"};
    size_t n = strlen(text);
    int rc = check_depth(what, text, n, e);
    if (rc)
        return rc;
    json_error_t je;
    *out = json_loadb(text, n, JSON_DECODE_ANY, &je);
    if (!*out)
        return ch_error_set(e, CH_EFORMAT, "%s: not valid JSON: %s (line %d, column %d)", what, je.text, je.line, je.column);
    if (json_typeof(*out) != type) {
        json_decref(*out);
        *out = NULL;
        return ch_error_set(e, CH_EFORMAT, "%s: expected %s", what, name[type == JSON_ARRAY]);
    }
    return CH_OK;
}

static int check_content(size_t i, const json_t *content, ch_error *e) {
    if (!content || json_is_null(content) || json_is_string(content))
        return CH_OK;
    if (!json_is_array(content))
        return ch_error_set(e, CH_EFORMAT, "messages[%zu].content: expected a string, null or an array of parts", i);
    for (size_t k = 0; k < json_array_size(content); k++) {
        const json_t *part = json_array_get(content, k);
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!json_is_object(part) || !type)
            return ch_error_set(e, CH_EFORMAT, "messages[%zu].content[%zu]: expected an object with a type", i, k);
        if (strcmp(type, "text") != 0)
            return ch_error_set(e, CH_EUNSUPPORTED, "messages[%zu].content[%zu]: expected type \"text\", found \"%.40s\"", i,
                                k, type);
        if (!json_is_string(json_object_get(part, "text")))
            return ch_error_set(e, CH_EFORMAT, "messages[%zu].content[%zu].text: expected a string", i, k);
    }
    return CH_OK;
}

// Clients send the arguments of earlier calls as JSON text; templates expect a mapping. Text that is no JSON object stays
// as it is (a broken call must not end the conversation).
static int open_arguments(size_t i, json_t *message, ch_error *e) {
    json_t *calls = json_object_get(message, "tool_calls");
    if (!calls || json_is_null(calls))
        return CH_OK;
    if (!json_is_array(calls))
        return ch_error_set(e, CH_EFORMAT, "messages[%zu].tool_calls: expected an array", i);
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *call = json_array_get(calls, k);
        if (!json_is_object(call))
            return ch_error_set(e, CH_EFORMAT, "messages[%zu].tool_calls[%zu]: expected an object", i, k);
        json_t *fn = json_object_get(call, "function");
        json_t *holder = json_is_object(fn) ? fn : call;
        json_t *arg = json_object_get(holder, "arguments");
        if (!json_is_string(arg) || check_depth("arguments", json_string_value(arg), json_string_length(arg), NULL) != CH_OK)
            continue;
        json_t *value = json_loadb(json_string_value(arg), json_string_length(arg), 0, NULL);
        if (value && json_is_object(value) && json_object_set(holder, "arguments", value) != 0) {
            json_decref(value);
            return ch_error_set(e, CH_ENOMEM, "messages[%zu].tool_calls[%zu]: no memory", i, k);
        }
        json_decref(value);
    }
    return CH_OK;
}

static int check_messages(json_t *messages, ch_error *e) {
    size_t n = json_array_size(messages);
    if (n == 0)
        return ch_error_set(e, CH_EFORMAT, "messages: expected at least one, found none");
    for (size_t i = 0; i < n; i++) {
        json_t *m = json_array_get(messages, i);
        if (!json_is_object(m))
            return ch_error_set(e, CH_EFORMAT, "messages[%zu]: expected an object", i);
        if (!json_is_string(json_object_get(m, "role")))
            return ch_error_set(e, CH_EFORMAT, "messages[%zu].role: expected a string", i);
        int rc = check_content(i, json_object_get(m, "content"), e);
        if (!rc)
            rc = open_arguments(i, m, e);
        if (rc)
            return rc;
    }
    return CH_OK;
}

// ---- variables of the template ------------------------------------------------------------------------------------------

static bool set_token(const ch_vocab *v, json_t *vars, const char *name, int32_t id) {
    size_t n = 0;
    const char *text = id >= 0 ? ch_vocab_text(v, id, &n) : NULL;
    if (!text || !ch_utf8_valid(text, n))
        return true; // undefined in the template
    return json_object_set_new(vars, name, json_stringn(text, n)) == 0;
}

static int make_vars(const chimere_engine *eng, const chimere_request_params *p, json_t **out, ch_error *e) {
    json_t *vars = json_object(), *messages = NULL, *tools = NULL, *kwargs = NULL;
    int rc = load_json("messages", p->messages_json, JSON_ARRAY, &messages, e);
    if (!rc)
        rc = check_messages(messages, e);
    if (!rc && p->tools_json)
        rc = load_json("tools", p->tools_json, JSON_ARRAY, &tools, e);
    if (!rc && p->template_kwargs_json)
        rc = load_json("template variables", p->template_kwargs_json, JSON_OBJECT, &kwargs, e);
    bool ok = vars != NULL;
    if (!rc) {
        ok = ok && set_token(eng->vocab, vars, "bos_token", ch_vocab_bos(eng->vocab)) &&
             set_token(eng->vocab, vars, "eos_token", ch_vocab_eos(eng->vocab)) &&
             json_object_set_new(vars, "add_generation_prompt", json_boolean(!p->no_generation_prompt)) == 0 &&
             (p->enable_thinking < 0 ||
              json_object_set_new(vars, "enable_thinking", json_boolean(p->enable_thinking)) == 0) &&
             (!kwargs || json_object_update(vars, kwargs) == 0) &&
             (!tools || json_array_size(tools) == 0 || json_object_set(vars, "tools", tools) == 0) &&
             json_object_set(vars, "messages", messages) == 0;
        if (!ok)
            rc = ch_error_set(e, CH_ENOMEM, "no memory for the variables of the chat template");
    }
    json_decref(messages);
    json_decref(tools);
    json_decref(kwargs);
    if (rc) {
        json_decref(vars);
        return rc;
    }
    *out = vars;
    return CH_OK;
}

// ---- text to ids --------------------------------------------------------------------------------------------------------

// Puts bos in front where the file asks for it; one that the template or the text already wrote is not doubled.
static int finish_tokens(const ch_vocab *v, ch_tokens *t, ch_error *e) {
    int32_t bos = ch_vocab_bos(v);
    if (bos >= 0 && ch_vocab_add_bos(v) && (t->n == 0 || t->id[0] != bos)) {
        if (!ch_tokens_push(t, bos))
            return ch_error_set(e, CH_ENOMEM, "no memory for the tokens of the prompt");
        memmove(t->id + 1, t->id, (t->n - 1) * sizeof *t->id);
        t->id[0] = bos;
    }
    if (t->n == 0)
        return ch_error_set(e, CH_ERANGE, "prompt: expected at least one token, found none");
    return CH_OK;
}

static int tokenize_chat(chimere_engine *eng, chimere_request *r, ch_error *e) {
    json_t *vars = NULL;
    ch_buf text = {0};
    ch_span *span = NULL;
    size_t n_span = 0;
    int rc = make_vars(eng, &r->p, &vars, e);
    if (!rc) {
        rc = ch_template_render(eng->chat, vars, NULL, &text, &span, &n_span, e);
        if (rc)
            ch_error_prefix(e, "chat template");
    }
    if (!rc)
        rc = ch_tokenize_spans(eng->vocab, text.data ? text.data : "", text.len, span, n_span, CH_TOK_SPECIAL, &r->prompt, e);
    json_decref(vars);
    ch_free(span);
    ch_buf_free(&text);
    return rc ? rc : finish_tokens(eng->vocab, &r->prompt, e);
}

// Whether the last of the prompt opens a think block: "<think>" and nothing but white space after it. Looked for in the
// last tokens, where a tag may be one token or several.
static bool opens_thinking(const ch_vocab *v, const ch_tokens *t) {
    static const char tag[] = "<think>";
    size_t n_tag = sizeof tag - 1, first = t->n > 16 ? t->n - 16 : 0;
    ch_buf b = {0};
    bool open = false;
    if (ch_detokenize(v, t->id + first, t->n - first, true, &b) == CH_OK) {
        size_t n = b.len;
        while (n && (b.data[n - 1] == '\n' || b.data[n - 1] == ' ' || b.data[n - 1] == '\r' || b.data[n - 1] == '\t'))
            n--;
        open = n >= n_tag && memcmp(b.data + n - n_tag, tag, n_tag) == 0;
    }
    ch_buf_free(&b);
    return open;
}

int ch_sched_build_prompt(chimere_engine *eng, chimere_request *r, ch_error *e) {
    int rc = CH_OK;
    if (r->p.messages_json)
        rc = tokenize_chat(eng, r, e);
    else if (r->p.prompt) {
        rc = ch_tokenize(eng->vocab, r->p.prompt, r->p.n_prompt, r->p.prompt_special ? CH_TOK_SPECIAL : 0, &r->prompt, e);
        rc = rc ? rc : finish_tokens(eng->vocab, &r->prompt, e);
    }
    // A user's own text that ends in the tag (no_generation_prompt, text without special tokens) opens nothing.
    bool by_template = r->p.messages_json ? !r->p.no_generation_prompt : !r->p.prompt || r->p.prompt_special;
    ch_arena_free(&r->arena);
    r->p.messages_json = r->p.prompt = r->p.tools_json = r->p.template_kwargs_json = NULL;
    if (rc)
        return rc;
    size_t n_ctx = (size_t)eng->info.n_ctx;
    if (r->prompt.n >= n_ctx)
        return ch_error_set(e, CH_ELIMIT, "prompt: expected at most %zu tokens (the context holds %zu), found %zu", n_ctx - 1,
                            n_ctx, r->prompt.n);
    for (size_t i = 0; i < r->prompt.n; i++)
        if (r->prompt.id[i] < 0 || r->prompt.id[i] >= eng->info.n_vocab)
            return ch_error_set(e, CH_EFORMAT, "prompt: token %d is not in the model, which has %d", (int)r->prompt.id[i],
                                (int)eng->info.n_vocab);
    int64_t room = (int64_t)(n_ctx - r->prompt.n);
    r->max_tokens = (int32_t)(r->p.max_tokens < 0 || r->p.max_tokens > room ? room : r->p.max_tokens);
    r->think_open = by_template && opens_thinking(eng->vocab, &r->prompt);
    ch_sched_start_output(&r->out, eng->vocab, r->p.raw_text, r->p.show_special, r->think_open);
    return CH_OK;
}
