// chimere detokenize: the text of token ids.
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "text/text.h"

static const int option[] = {CH_OPT_MODEL, CH_OPT_SHOW_SPECIAL, CH_OPT_TEXT_LINES};
static const ch_cmd_spec spec = {
    .name = "detokenize",
    .usage = "-m FILE [--special] [--batch] [ID...]",
    .about = "Prints the text of token ids, byte for byte and without a line end of its own. The ids are the arguments, or stand on\n"
             "standard input, separated by spaces, commas or brackets.",
    .examples = "  chimere detokenize -m FILE.gguf 9707 1879\n"
                "  chimere tokenize -m FILE.gguf < a.txt | chimere detokenize -m FILE.gguf\n",
    .option = option,
    .n_option = sizeof option / sizeof option[0],
    .max_args = 1 << 20,
};

// Ids of s[0..n) (a NUL stands behind it), separated by anything in gaps.
static int read_ids(const ch_vocab *v, const char *s, size_t n, ch_tokens *t, ch_error *e) {
    static const char gaps[] = " \t\r\n,[]";
    for (size_t i = 0; i < n;) {
        if (s[i] && strchr(gaps, s[i])) {
            i++;
            continue;
        }
        char *end;
        errno = 0;
        long id = strtol(s + i, &end, 10);
        bool whole = end != s + i && (*end == 0 ? end == s + n : strchr(gaps, *end) != NULL);
        if (!whole || errno || id < 0 || id >= ch_vocab_n(v))
            return ch_error_set(e, CH_ERANGE, "expected token ids from 0 to %d, found \"%.20s\"", ch_vocab_n(v) - 1, s + i);
        if (!ch_tokens_push(t, (int32_t)id)) return ch_error_set(e, CH_ENOMEM, "no memory for the ids");
        i = (size_t)(end - s);
    }
    return 0;
}

static int print_text(const ch_vocab *v, const ch_tokens *t, bool special, ch_error *e) {
    ch_buf out = {0};
    int rc = ch_detokenize(v, t->id, t->n, special, &out);
    if (rc) ch_error_set(e, rc, "no memory for the text");
    else fwrite(out.data ? out.data : "", 1, out.len, stdout);
    ch_buf_free(&out);
    return rc;
}

// One JSON string; bytes that are no character are U+FFFD.
static int print_json_text(const ch_vocab *v, const ch_tokens *t, bool special, ch_error *e) {
    ch_buf out = {0};
    ch_detok d;
    ch_detok_init(&d, v, special);
    bool ok = ch_buf_append(&out, "", 0);
    for (size_t i = 0; ok && i < t->n; i++) ok = ch_detok_push(&d, t->id[i], &out);
    ok = ok && ch_detok_finish(&d, &out);
    json_t *text = ok ? json_stringn(out.data, out.len) : NULL;
    ok = text && json_dumpf(text, stdout, JSON_ENCODE_ANY) == 0;
    putchar('\n');
    json_decref(text);
    ch_buf_free(&out);
    return ok ? 0 : ch_error_set(e, CH_ENOMEM, "no memory for the text");
}

// Every line of the input is a list of ids; every line of the output the text as a JSON string.
static int detokenize_lines(const ch_vocab *v, ch_buf *in, bool special, ch_error *e) {
    char *p = in->data, *end = p + in->len;
    ch_tokens t = {0};
    int rc = 0;
    for (size_t line = 1; !rc && p < end; line++) {
        char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        *stop = 0; // for strtol; the buffer has a NUL at its end already
        t.n = 0;
        rc = read_ids(v, p, (size_t)(stop - p), &t, e);
        if (rc) ch_error_prefix(e, "line %zu", line);
        else rc = print_json_text(v, &t, special, e);
        p = stop == end ? end : stop + 1;
    }
    ch_tokens_free(&t);
    return rc;
}

static int detokenize(const ch_cmd_options *o, const ch_vocab *v, ch_error *e) {
    bool special = ch_opt_bool(o, CH_OPT_SHOW_SPECIAL), lines = ch_opt_bool(o, CH_OPT_TEXT_LINES);
    ch_buf in = {.limit = 1u << 30};
    ch_tokens t = {0};
    int rc = 0;
    for (int i = 0; !rc && i < o->n_args; i++) rc = read_ids(v, o->args[i], strlen(o->args[i]), &t, e);
    if (!rc && (!o->n_args || lines)) rc = ch_read_file(&in, "-", e);
    if (!rc && lines) rc = in.len ? detokenize_lines(v, &in, special, e) : 0;
    else {
        if (!rc && in.len) rc = read_ids(v, in.data, in.len, &t, e);
        if (!rc) rc = print_text(v, &t, special, e);
    }
    ch_tokens_free(&t);
    ch_buf_free(&in);
    return rc;
}

int ch_cmd_detokenize(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code)) return code;
    ch_error e = {0};
    ch_gguf *g = NULL;
    ch_vocab *v = NULL;
    const char *path = ch_cmd_model_path(&o, NULL);
    code = CH_EXIT_FAILED;
    if (path) {
        int rc = ch_gguf_open(&g, path, &e);
        if (!rc) rc = ch_vocab_open(&v, g, &e);
        if (!rc) rc = detokenize(&o, v, &e);
        code = rc ? ch_cmd_fail_error(spec.name, &e) : CH_EXIT_OK;
    }
    ch_vocab_free(&v);
    ch_gguf_close(&g);
    ch_cmd_options_free(&o);
    return code;
}
