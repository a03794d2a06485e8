// The messages of a chat request: checked member by member and rebuilt, so that a template sees plain strings and objects
// only: text parts are joined (nothing between them), arguments of tool calls are objects, "developer" is "system".
#include <string.h>

#include "serve/request.h"

typedef struct place {
    size_t i;       // message
    char field[96]; // "messages[3].content"
} place;

static const char *at(place *p, const char *member) {
    snprintf(p->field, sizeof p->field, "messages[%zu]%s%s", p->i, member[0] ? "." : "", member);
    return p->field;
}

static bool wrong_type(ch_serve_fault *f, const char *field, const char *want, const json_t *v) {
    return ch_serve_refuse(f, 400, "invalid_type", field, "%s: expected %s, found %s", field, want, ch_serve_json_kind(v));
}

static bool no_memory(ch_serve_fault *f) {
    return ch_serve_refuse(f, 503, "out_of_memory", NULL, "out of memory");
}

static bool put(json_t *o, const char *key, json_t *v, ch_serve_fault *f) {
    return json_object_set_new(o, key, v) == 0 || no_memory(f);
}

static bool read_parts(const json_t *parts, json_t *out, place *p, ch_serve_fault *f) {
    ch_buf text = {0};
    bool ok = true;
    for (size_t k = 0; ok && k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *t = json_object_get(part, "text");
        char member[64];
        snprintf(member, sizeof member, "content[%zu]", k);
        if (json_is_string(part))
            t = part;
        else if (!json_is_object(part))
            ok = wrong_type(f, at(p, member), "an object", part);
        else if (!type)
            ok = ch_serve_refuse(f, 400, "missing_required_parameter", at(p, member), "%s: \"type\" is missing", at(p, member));
        else if (strcmp(type, "text") != 0)
            ok = ch_serve_refuse(f, 400, "unsupported_content", at(p, member),
                                 "%s: this model reads only parts of type \"text\", found \"%.40s\"", at(p, member), type);
        if (ok && !json_is_string(t))
            ok = wrong_type(f, at(p, member), "a string in \"text\"", t);
        if (ok && !ch_buf_append(&text, json_string_value(t), json_string_length(t)))
            ok = no_memory(f);
    }
    ok = ok && put(out, "content", json_stringn(text.data ? text.data : "", text.len), f);
    ch_buf_free(&text);
    return ok;
}

static bool read_content(const json_t *m, json_t *out, const char *role, place *p, ch_serve_fault *f) {
    const json_t *v = json_object_get(m, "content");
    if (json_is_string(v))
        return put(out, "content", json_stringn(json_string_value(v), json_string_length(v)), f);
    if (json_is_array(v))
        return read_parts(v, out, p, f);
    if (v && !json_is_null(v))
        return wrong_type(f, at(p, "content"), "a string or an array of parts", v);
    if (strcmp(role, "assistant") != 0) // an answer of tool calls only has none
        return ch_serve_refuse(f, 400, "missing_required_parameter", at(p, "content"), "%s is missing", at(p, "content"));
    return put(out, "content", json_string(""), f);
}

// A string that holds a JSON object, or the object itself.
static json_t *read_arguments(const json_t *v, const char *field, ch_serve_fault *f) {
    json_t *args = NULL;
    if (json_is_object(v))
        return json_incref((json_t *)(uintptr_t)v);
    if (!json_is_string(v)) {
        wrong_type(f, field, "a string with a JSON object", v);
        return NULL;
    }
    if (json_string_length(v) == 0)
        return json_object();
    args = ch_serve_read_json(json_string_value(v), json_string_length(v), field, field, f);
    if (args && !json_is_object(args)) {
        wrong_type(f, field, "a JSON object in the string", args);
        json_decref(args);
        args = NULL;
    }
    return args;
}

static bool read_tool_call(const json_t *call, size_t k, json_t *calls, place *p, ch_serve_fault *f) {
    char member[64];
    snprintf(member, sizeof member, "tool_calls[%zu].function", k);
    const json_t *fn = json_object_get(call, "function"), *id = json_object_get(call, "id");
    const json_t *name = json_object_get(fn, "name");
    if (!json_is_object(fn))
        return wrong_type(f, at(p, member), "an object", fn);
    if (!json_is_string(name))
        return wrong_type(f, at(p, member), "a string in \"name\"", name);
    snprintf(member, sizeof member, "tool_calls[%zu].function.arguments", k);
    json_t *args = read_arguments(json_object_get(fn, "arguments"), at(p, member), f);
    if (!args)
        return false;
    json_t *made = json_pack("{s:s, s:{s:O, s:o}}", "type", "function", "function", "name", name, "arguments", args);
    if (!made || json_array_append_new(calls, made) != 0)
        return no_memory(f);
    return !json_is_string(id) || put(made, "id", json_incref((json_t *)(uintptr_t)id), f);
}

static bool read_tool_calls(const json_t *m, json_t *out, place *p, ch_serve_fault *f) {
    const json_t *v = json_object_get(m, "tool_calls");
    if (!v || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0))
        return true;
    if (!json_is_array(v))
        return wrong_type(f, at(p, "tool_calls"), "an array", v);
    json_t *calls = json_array();
    if (!put(out, "tool_calls", calls, f))
        return false;
    for (size_t k = 0; k < json_array_size(v); k++)
        if (!read_tool_call(json_array_get(v, k), k, calls, p, f))
            return false;
    return true;
}

static bool read_message(const json_t *m, json_t *out, place *p, ch_serve_fault *f) {
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    static const char *const texts[] = {"reasoning_content", "name", "tool_call_id"};
    if (!json_is_object(m))
        return wrong_type(f, at(p, ""), "an object", m);
    const json_t *v = json_object_get(m, "role");
    const char *role = json_string_value(v), *known = NULL;
    if (!v)
        return ch_serve_refuse(f, 400, "missing_required_parameter", at(p, "role"), "%s is missing", at(p, "role"));
    if (!role)
        return wrong_type(f, at(p, "role"), "a string", v);
    if (strcmp(role, "developer") == 0)
        role = "system";
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(role, roles[i]) == 0)
            known = roles[i];
    if (!known)
        return ch_serve_refuse(f, 400, "invalid_value", at(p, "role"),
                               "%s: expected system, developer, user, assistant or tool, found \"%.40s\"", at(p, "role"), role);
    if (!put(out, "role", json_string(known), f) || !read_content(m, out, known, p, f))
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        v = json_object_get(m, texts[i]);
        if (!v || json_is_null(v))
            continue;
        if (!json_is_string(v))
            return wrong_type(f, at(p, texts[i]), "a string", v);
        if (!put(out, texts[i], json_incref((json_t *)(uintptr_t)v), f))
            return false;
    }
    return strcmp(known, "assistant") != 0 || read_tool_calls(m, out, p, f);
}

json_t *ch_serve_read_messages(const json_t *messages, ch_serve_fault *f) {
    place p = {0};
    size_t n = json_array_size(messages);
    if (!messages) {
        ch_serve_refuse(f, 400, "missing_required_parameter", "messages", "messages is missing");
        return NULL;
    }
    if (!json_is_array(messages)) {
        wrong_type(f, "messages", "an array", messages);
        return NULL;
    }
    if (n == 0 || n > CH_SERVE_MAX_MESSAGES) {
        ch_serve_refuse(f, 400, "invalid_value", "messages", "messages: expected 1 to %d, found %zu", CH_SERVE_MAX_MESSAGES, n);
        return NULL;
    }
    json_t *out = json_array();
    bool ok = out != NULL || no_memory(f);
    for (size_t i = 0; ok && i < n; i++) {
        json_t *m = json_object();
        p.i = i;
        ok = m && json_array_append_new(out, m) == 0 ? read_message(json_array_get(messages, i), m, &p, f) : no_memory(f);
    }
    if (!ok) {
        json_decref(out);
        out = NULL;
    }
    return out;
}
