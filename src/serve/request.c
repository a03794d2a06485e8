// Fields of a chat request. A field that asks for something this server cannot do is refused by name, never ignored; a
// neutral value of such a field (0, false, null, "text") is accepted, since clients send it without meaning anything.
#include <math.h>
#include <string.h>

#include "serve/request.h"

const char *ch_serve_json_kind(const json_t *v) {
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "a boolean";
    }
}

static bool wrong_type(ch_serve_fault *f, const char *field, const char *want, const json_t *v) {
    return ch_serve_refuse(f, 400, "invalid_type", field, "%s: expected %s, found %s", field, want, ch_serve_json_kind(v));
}

// NULL when absent or null.
static const json_t *get(const json_t *o, const char *field) {
    const json_t *v = json_object_get(o, field);
    return json_is_null(v) ? NULL : v;
}

static bool read_bool(const json_t *o, const char *field, bool *out, ch_serve_fault *f) {
    const json_t *v = get(o, field);
    if (v && !json_is_boolean(v))
        return wrong_type(f, field, "true or false", v);
    if (v)
        *out = json_is_true(v);
    return true;
}

// Whole numbers, also written as 3.0 or 1e3. Values beyond int64 are cut to its ends.
static bool read_whole(const json_t *v, const char *field, int64_t *out, ch_serve_fault *f) {
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return true;
    }
    double d = json_is_real(v) ? json_real_value(v) : 0.5;
    if (!json_is_number(v))
        return wrong_type(f, field, "a whole number", v);
    if (d != floor(d))
        return ch_serve_refuse(f, 400, "invalid_value", field, "%s: expected a whole number, found %g", field, d);
    *out = d >= 9.2e18 ? INT64_MAX : d <= -9.2e18 ? INT64_MIN : (int64_t)d;
    return true;
}

static bool read_max_tokens(const json_t *o, ch_serve_chat *c, ch_serve_fault *f) {
    static const char *const name[] = {"max_completion_tokens", "max_tokens"};
    for (int i = 0; i < 2; i++) {
        const json_t *v = get(o, name[i]);
        int64_t n = 0;
        if (!v)
            continue;
        if (!read_whole(v, name[i], &n, f))
            return false;
        if (n < 1)
            return ch_serve_refuse(f, 400, "invalid_value", name[i], "%s: expected at least 1, found %lld", name[i],
                                   (long long)n);
        if (c->max_tokens >= 0 && c->max_tokens != n)
            return ch_serve_refuse(f, 400, "invalid_value", name[i], "max_tokens and max_completion_tokens differ: give one");
        c->max_tokens = n; // the engine cuts it to what the context leaves
    }
    return true;
}

static bool read_sampling(const json_t *o, ch_serve_chat *c, ch_serve_fault *f) {
    chimere_param row;
    for (size_t i = 0; chimere_sampling_param(i, &row); i++) {
        const json_t *v = get(o, row.name);
        chimere_error e = {0};
        if (v && !json_is_number(v))
            return wrong_type(f, row.name, row.is_int ? "a whole number" : "a number", v);
        if (v && chimere_sampling_set(&c->sampling, row.name, json_number_value(v), &e) != 0)
            return ch_serve_refuse(f, 400, "invalid_value", row.name, "%s", e.msg);
    }
    const json_t *v = get(o, "seed");
    if (!v)
        return true;
    if (!read_whole(v, "seed", &c->sampling.seed, f))
        return false;
    if (c->sampling.seed < -1)
        return ch_serve_refuse(f, 400, "invalid_value", "seed", "seed: expected 0 or more, or -1 for a new one, found %lld",
                               (long long)c->sampling.seed);
    return true;
}

static bool add_stop(ch_serve_chat *c, const json_t *v, const char *field, ch_serve_fault *f) {
    if (!json_is_string(v))
        return wrong_type(f, field, "a string", v);
    size_t n = json_string_length(v);
    if (n == 0 || n > CHIMERE_STOP_BYTES_MAX)
        return ch_serve_refuse(f, 400, "invalid_value", field, "%s: expected 1 to %d bytes, found %zu", field,
                               CHIMERE_STOP_BYTES_MAX, n);
    c->stop[c->n_stop] = ch_strndup(json_string_value(v), n);
    if (!c->stop[c->n_stop])
        return ch_serve_refuse(f, 503, "out_of_memory", NULL, "out of memory");
    c->n_stop++;
    return true;
}

static bool read_stop(const json_t *o, ch_serve_chat *c, ch_serve_fault *f) {
    const json_t *v = get(o, "stop");
    if (!v)
        return true;
    if (json_is_string(v))
        return json_string_length(v) == 0 || add_stop(c, v, "stop", f);
    if (!json_is_array(v))
        return wrong_type(f, "stop", "a string or an array of strings", v);
    if (json_array_size(v) > CHIMERE_STOP_MAX)
        return ch_serve_refuse(f, 400, "invalid_value", "stop", "stop: expected at most %d strings, found %zu",
                               CHIMERE_STOP_MAX, json_array_size(v));
    for (size_t i = 0; i < json_array_size(v); i++) {
        char field[32];
        snprintf(field, sizeof field, "stop[%zu]", i);
        if (!add_stop(c, json_array_get(v, i), field, f))
            return false;
    }
    return true;
}

static bool read_stream(const json_t *o, ch_serve_chat *c, ch_serve_fault *f) {
    if (!read_bool(o, "stream", &c->stream, f))
        return false;
    const json_t *v = get(o, "stream_options");
    if (!v)
        return true;
    if (!json_is_object(v))
        return wrong_type(f, "stream_options", "an object", v);
    if (!c->stream)
        return ch_serve_refuse(f, 400, "invalid_value", "stream_options", "stream_options: only allowed with \"stream\": true");
    v = get(v, "include_usage");
    if (v && !json_is_boolean(v))
        return wrong_type(f, "stream_options.include_usage", "true or false", v);
    c->include_usage = v && json_is_true(v);
    return true;
}

static bool valid_tool_name(const char *s) {
    size_t n = strlen(s);
    return n >= 1 && n <= 64 &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == n;
}

static bool check_tool(const json_t *tool, size_t i, ch_serve_fault *f) {
    char field[48];
    snprintf(field, sizeof field, "tools[%zu]", i);
    if (!json_is_object(tool))
        return wrong_type(f, field, "an object", tool);
    const char *type = json_string_value(json_object_get(tool, "type"));
    snprintf(field, sizeof field, "tools[%zu].type", i);
    if (!type || strcmp(type, "function") != 0)
        return ch_serve_refuse(f, 400, "invalid_value", field, "%s: expected \"function\", found %s%.40s%s", field,
                               type ? "\"" : "", type ? type : ch_serve_json_kind(json_object_get(tool, "type")),
                               type ? "\"" : "");
    const json_t *fn = json_object_get(tool, "function");
    snprintf(field, sizeof field, "tools[%zu].function", i);
    if (!json_is_object(fn))
        return wrong_type(f, field, "an object", fn);
    const char *name = json_string_value(json_object_get(fn, "name"));
    snprintf(field, sizeof field, "tools[%zu].function.name", i);
    if (!name || !valid_tool_name(name))
        return ch_serve_refuse(f, 400, "invalid_value", field, "%s: expected 1 to 64 letters, digits, \"_\", \".\" or \"-\"",
                               field);
    return true;
}

static bool read_tools(const json_t *o, ch_serve_chat *c, ch_serve_fault *f) {
    const json_t *v = get(o, "tools"), *choice = get(o, "tool_choice");
    const char *how = json_string_value(choice);
    if (v && !json_is_array(v))
        return wrong_type(f, "tools", "an array", v);
    if (json_array_size(v) > CH_SERVE_MAX_TOOLS)
        return ch_serve_refuse(f, 400, "invalid_value", "tools", "tools: expected at most %d, found %zu", CH_SERVE_MAX_TOOLS,
                               json_array_size(v));
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!check_tool(json_array_get(v, i), i, f))
            return false;
    if (choice && !json_is_string(choice) && !json_is_object(choice))
        return wrong_type(f, "tool_choice", "a string or an object", choice);
    if (choice && (!how || (strcmp(how, "auto") != 0 && strcmp(how, "none") != 0)))
        return ch_serve_refuse(f, 400, "unsupported", "tool_choice", "tool_choice: only \"auto\" and \"none\" are supported");
    if (json_array_size(v) == 0 || (how && strcmp(how, "none") == 0))
        return true;
    c->tools_json = json_dumps(v, JSON_COMPACT);
    return c->tools_json || ch_serve_refuse(f, 503, "out_of_memory", NULL, "out of memory");
}

static bool read_template_options(const json_t *o, ch_serve_chat *c, ch_serve_fault *f) {
    bool think = false;
    const json_t *v = get(o, "enable_thinking");
    if (!read_bool(o, "enable_thinking", &think, f))
        return false;
    if (v)
        c->enable_thinking = think;
    v = get(o, "chat_template_kwargs");
    if (!v)
        return true;
    if (!json_is_object(v))
        return wrong_type(f, "chat_template_kwargs", "an object", v);
    const json_t *t = get(v, "enable_thinking");
    if (t && !json_is_boolean(t))
        return wrong_type(f, "chat_template_kwargs.enable_thinking", "true or false", t);
    if (t)
        c->enable_thinking = json_is_true(t);
    json_t *rest = json_copy((json_t *)(uintptr_t)v); // shallow
    json_object_del(rest, "enable_thinking");
    // Names the engine itself gives to the template.
    static const char *const own[] = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (json_object_get(rest, own[i])) {
            json_decref(rest);
            return ch_serve_refuse(f, 400, "invalid_value", "chat_template_kwargs", "chat_template_kwargs: \"%s\" cannot be set",
                                   own[i]);
        }
    if (json_object_size(rest) > 0)
        c->kwargs_json = json_dumps(rest, JSON_COMPACT);
    bool ok = json_object_size(rest) == 0 || c->kwargs_json;
    json_decref(rest);
    return ok || ch_serve_refuse(f, 503, "out_of_memory", NULL, "out of memory");
}

// Fields we know but cannot do, with the values that ask for nothing.
static bool refuse_unsupported(const json_t *o, ch_serve_fault *f) {
    enum { FALSE_OK, ZERO_OK, ONE_OK, TRUE_OK, EMPTY_OK, NEVER };
    static const struct {
        const char *name;
        int neutral;
    } row[] = {
        {"logprobs", FALSE_OK}, {"top_logprobs", ZERO_OK}, {"logit_bias", EMPTY_OK}, {"frequency_penalty", ZERO_OK},
        {"presence_penalty", ZERO_OK}, {"repetition_penalty", ONE_OK}, {"repeat_penalty", ONE_OK}, {"typical_p", ONE_OK},
        {"dry_multiplier", ZERO_OK}, {"xtc_probability", ZERO_OK}, {"functions", EMPTY_OK}, {"function_call", NEVER},
        {"parallel_tool_calls", TRUE_OK}, {"audio", NEVER}, {"prediction", NEVER}, {"web_search_options", NEVER},
        {"grammar", EMPTY_OK}, {"json_schema", NEVER}, {"guided_json", NEVER}, {"guided_regex", NEVER},
        {"reasoning_effort", NEVER}, {"echo", FALSE_OK}, {"best_of", ONE_OK}, {"ignore_eos", FALSE_OK}, {"n", ONE_OK},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        const json_t *v = get(o, row[i].name);
        if (!v)
            continue;
        double d = json_is_number(v) ? json_number_value(v) : NAN;
        bool empty = (json_is_string(v) && json_string_length(v) == 0) || (json_is_array(v) && json_array_size(v) == 0) ||
                     (json_is_object(v) && json_object_size(v) == 0);
        bool neutral = row[i].neutral == FALSE_OK   ? json_is_false(v)
                       : row[i].neutral == TRUE_OK  ? json_is_true(v)
                       : row[i].neutral == ZERO_OK  ? d == 0
                       : row[i].neutral == ONE_OK   ? d == 1
                       : row[i].neutral == EMPTY_OK ? empty
                                                    : false;
        if (!neutral)
            return ch_serve_refuse(f, 400, "unsupported", row[i].name, "%s: this server does not support this field%s",
                                   row[i].name, row[i].neutral == ONE_OK ? " other than 1" : "");
    }
    const json_t *v = get(o, "response_format");
    const char *type = json_string_value(json_object_get(v, "type"));
    if (v && (!type || strcmp(type, "text") != 0))
        return ch_serve_refuse(f, 400, "unsupported", "response_format", "response_format: only {\"type\":\"text\"} is supported");
    v = get(o, "modalities");
    type = json_string_value(json_array_get(v, 0));
    if (v && (json_array_size(v) != 1 || !type || strcmp(type, "text") != 0))
        return ch_serve_refuse(f, 400, "unsupported", "modalities", "modalities: only [\"text\"] is supported");
    return true;
}

static bool read_body(const json_t *o, ch_serve_chat *c, ch_serve_fault *f) {
    if (!json_is_object(o))
        return ch_serve_refuse(f, 400, "invalid_type", NULL, "the request body: expected a JSON object, found %s",
                               ch_serve_json_kind(o));
    const json_t *v = get(o, "model");
    if (v && !json_is_string(v))
        return wrong_type(f, "model", "a string", v);
    if (v && !(c->model = ch_strndup(json_string_value(v), json_string_length(v))))
        return ch_serve_refuse(f, 503, "out_of_memory", NULL, "out of memory");
    if (!refuse_unsupported(o, f) || !read_max_tokens(o, c, f) || !read_sampling(o, c, f) || !read_stop(o, c, f) ||
        !read_stream(o, c, f) || !read_tools(o, c, f) || !read_template_options(o, c, f))
        return false;
    json_t *messages = ch_serve_read_messages(get(o, "messages"), f);
    if (!messages)
        return false;
    c->messages_json = json_dumps(messages, JSON_COMPACT);
    json_decref(messages);
    return c->messages_json || ch_serve_refuse(f, 503, "out_of_memory", NULL, "out of memory");
}

bool ch_serve_parse_chat(ch_serve_chat *c, const chimere_engine *engine, const char *body, size_t n, ch_serve_fault *f) {
    memset(c, 0, sizeof *c);
    c->max_tokens = -1;
    c->enable_thinking = -1;
    chimere_sampling_init(&c->sampling, engine);
    json_t *o = ch_serve_read_json(body, n, "request body", NULL, f);
    bool ok = o && read_body(o, c, f);
    json_decref(o);
    if (!ok)
        ch_serve_free_chat(c);
    return ok;
}

void ch_serve_free_chat(ch_serve_chat *c) {
    ch_free(c->model);
    free(c->messages_json); // jansson's
    free(c->tools_json);
    free(c->kwargs_json);
    for (int i = 0; i < c->n_stop; i++)
        ch_free(c->stop[i]);
    memset(c, 0, sizeof *c);
}
