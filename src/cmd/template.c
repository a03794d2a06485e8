// chimere template: what a model's chat template makes of messages.
#include <jansson.h>
#include <string.h>

#include "cmd/cmd.h"
#include "text/text.h"

enum { MAX_JSON_DEPTH = 150, MAX_JSON_BYTES = 1 << 28 };

static const int option[] = {CH_OPT_MODEL, CH_OPT_TEMPLATE, CH_OPT_TEMPLATE_JSON, CH_OPT_GENERATION_PROMPT, CH_OPT_THINK,
                             CH_OPT_NOW, CH_OPT_SPANS, CH_OPT_TEMPLATE_LINES};
static const ch_cmd_spec spec = {
    .name = "template",
    .usage = "[-m FILE | --template FILE] [--json FILE]",
    .about = "Prints the prompt that a chat template makes of messages, byte for byte. The JSON is an array of messages or an\n"
             "object of the template's variables (messages, tools, ...); without it a short example is used.",
    .examples = "  chimere template -m FILE.gguf --json messages.json\n"
                "  chimere template --template chat.jinja --json vars.json --no-think\n",
    .option = option,
    .n_option = sizeof option / sizeof option[0],
};

typedef struct renderer {
    const ch_cmd_options *o;
    const ch_vocab *v; // NULL: only a template was given
    const ch_template *t;
} renderer;

// Depth of nesting, counted without building anything.
static bool too_deep(const char *s, size_t n) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (s[i] == '\\')
                i++;
            else if (s[i] == '"')
                in_string = false;
        } else if (s[i] == '"') {
            in_string = true;
        } else if (s[i] == '[' || s[i] == '{') {
            if (++depth > MAX_JSON_DEPTH)
                return true;
        } else if (s[i] == ']' || s[i] == '}') {
            depth--;
        }
    }
    return false;
}

static int set_token(json_t *vars, const char *name, const ch_vocab *v, int32_t id) {
    size_t n;
    const char *text = id < 0 ? NULL : ch_vocab_text(v, id, &n);
    if (!text || json_object_get(vars, name))
        return 0;
    return json_object_set_new(vars, name, json_stringn(text, n));
}

// Variables of one render, from an array of messages or an object; NULL with e set.
static json_t *read_vars(const renderer *r, const char *s, size_t n, ch_error *e) {
    if (too_deep(s, n)) {
        ch_error_set(e, CH_ELIMIT, "JSON: expected at most %d levels of nesting", MAX_JSON_DEPTH);
        return NULL;
    }
    json_error_t je;
    json_t *j = json_loadb(s, n, JSON_ALLOW_NUL, &je);
    if (!j) {
        ch_error_set(e, CH_EFORMAT, "JSON line %d: %s", je.line, je.text);
        return NULL;
    }
    json_t *vars = json_is_array(j) ? json_pack("{s:O}", "messages", j) : json_incref(j);
    json_decref(j);
    int bad = !vars;
    if (vars && !json_object_get(vars, "add_generation_prompt"))
        bad |= json_object_set_new(vars, "add_generation_prompt", json_boolean(ch_opt_bool(r->o, CH_OPT_GENERATION_PROMPT)));
    if (vars && ch_opt_given(r->o, CH_OPT_THINK))
        bad |= json_object_set_new(vars, "enable_thinking", json_boolean(ch_opt_bool(r->o, CH_OPT_THINK)));
    if (vars && r->v) {
        bad |= set_token(vars, "bos_token", r->v, ch_vocab_bos(r->v));
        bad |= set_token(vars, "eos_token", r->v, ch_vocab_eos(r->v));
    }
    if (bad) {
        ch_error_set(e, CH_ENOMEM, "no memory for the variables");
        json_decref(vars);
        return NULL;
    }
    return vars;
}

static json_t *span_list(const ch_span *span, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        json_t *one = json_pack("[I,I,b]", (json_int_t)span[i].begin, (json_int_t)span[i].end, span[i].literal);
        if (!one || json_array_append_new(list, one)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

// One render: as text, or as a JSON object with the text, the spans or the error.
static int render_one(const renderer *r, const char *s, size_t n, bool as_json, ch_error *e) {
    ch_buf out = {0};
    ch_span *span = NULL;
    size_t n_span = 0;
    ch_template_limits lim = {.now = ch_opt_int(r->o, CH_OPT_NOW)};
    json_t *vars = read_vars(r, s, n, e);
    int rc = vars ? ch_template_render(r->t, vars, &lim, &out, &span, &n_span, e) : e->code;
    json_decref(vars);
    if (!as_json && !rc)
        fwrite(out.data ? out.data : "", 1, out.len, stdout);
    if (as_json) {
        json_t *j = rc ? json_pack("{s:s}", "error", e->msg)
                       : json_pack("{s:s%}", "text", out.data ? out.data : "", out.len);
        bool ok = j != NULL;
        if (ok && !rc && ch_opt_bool(r->o, CH_OPT_SPANS))
            ok = json_object_set_new(j, "spans", span_list(span, n_span)) == 0;
        ok = ok && json_dumpf(j, stdout, 0) == 0;
        putchar('\n');
        json_decref(j);
        rc = ok ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for the output");
    }
    ch_free(span);
    ch_buf_free(&out);
    return rc;
}

static int render_input(const renderer *r, ch_error *e) {
    static const char example[] = "[{\"role\":\"system\",\"content\":\"You are helpful.\"},{\"role\":\"user\",\"content\":\"Hello\"}]";
    const char *path = ch_opt_text(r->o, CH_OPT_TEMPLATE_JSON);
    bool lines = ch_opt_bool(r->o, CH_OPT_TEMPLATE_LINES);
    ch_buf in = {.limit = MAX_JSON_BYTES};
    int rc = path || lines ? ch_read_file(&in, path ? path : "-", e) : 0;
    if (!rc && !lines) {
        const char *s = path ? in.data : example;
        rc = render_one(r, s ? s : "", path ? in.len : sizeof example - 1, ch_opt_bool(r->o, CH_OPT_SPANS), e);
    }
    for (size_t i = 0; !rc && lines && i < in.len;) {
        const char *stop = memchr(in.data + i, '\n', in.len - i);
        size_t end = stop ? (size_t)(stop - in.data) : in.len;
        rc = render_one(r, in.data + i, end - i, true, e);
        i = end + 1;
    }
    ch_buf_free(&in);
    return rc;
}

// The template of --template, else the model's own.
static int read_source(const ch_cmd_options *o, const ch_gguf *g, ch_buf *source, ch_error *e) {
    const char *path = ch_opt_text(o, CH_OPT_TEMPLATE);
    ch_gguf_str s;
    if (path)
        return ch_read_file(source, path, e);
    int got = ch_gguf_get_str(g, "tokenizer.chat_template", &s, e);
    if (got == 0)
        return ch_error_set(e, CH_EFORMAT, "the model file has no chat template (tokenizer.chat_template)");
    if (got < 0)
        return e->code;
    return ch_buf_append(source, s.p, s.n) ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for the template");
}

int ch_cmd_template(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    ch_error e = {0};
    ch_gguf *g = NULL;
    ch_vocab *v = NULL;
    ch_template *t = NULL;
    ch_buf source = {0};
    int rc = 0;
    bool from_file = ch_opt_text(&o, CH_OPT_TEMPLATE) != NULL;
    if (!from_file || ch_opt_given(&o, CH_OPT_MODEL)) {
        const char *path = ch_cmd_model_path(&o, NULL);
        if (!path) {
            ch_cmd_options_free(&o);
            return CH_EXIT_FAILED;
        }
        rc = ch_gguf_open(&g, path, &e);
        if (!rc)
            rc = ch_vocab_open(&v, g, &e);
    }
    if (!rc)
        rc = read_source(&o, g, &source, &e);
    if (!rc)
        rc = ch_template_parse(&t, source.data ? source.data : "", source.len, &e);
    if (!rc)
        rc = render_input(&(renderer){&o, v, t}, &e);
    code = rc ? ch_cmd_fail_error(spec.name, &e) : CH_EXIT_OK;
    ch_template_free(&t);
    ch_vocab_free(&v);
    ch_gguf_close(&g);
    ch_buf_free(&source);
    ch_cmd_options_free(&o);
    return code;
}
