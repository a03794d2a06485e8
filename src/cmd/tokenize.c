// chimere tokenize: token ids of a text on standard input.
#include <jansson.h>
#include <string.h>

#include "cmd/cmd.h"
#include "text/text.h"

static const int option[] = {CH_OPT_MODEL, CH_OPT_PARSE_SPECIAL, CH_OPT_ADD_BOS, CH_OPT_JSON, CH_OPT_TEXT_LINES};
static const ch_cmd_spec spec = {
    .name = "tokenize",
    .usage = "-m FILE [--special] [--bos] [--json | --batch] < TEXT",
    .about = "Prints the token ids of the text on standard input, to the last byte (a line end at its end counts too).\n"
             "Only the tokenizer of the model file is read.",
    .examples = "  printf 'Hello world' | chimere tokenize -m FILE.gguf\n"
                "  printf '%s\\n' '\"one text\"' '\"another\"' | chimere tokenize -m FILE.gguf --batch\n",
    .option = option,
    .n_option = sizeof option / sizeof option[0],
};

static void print_ids(const ch_tokens *t, const char *gap) {
    for (size_t i = 0; i < t->n; i++) printf("%s%d", i ? gap : "", t->id[i]);
}

static int tokenize_one(const ch_vocab *v, const ch_buf *in, unsigned flags, bool json, ch_error *e) {
    ch_tokens t = {0};
    int rc = ch_tokenize(v, in->len ? in->data : "", in->len, flags, &t, e);
    if (!rc && json) {
        printf("{\"n_tokens\": %zu, \"tokens\": [", t.n);
        print_ids(&t, ", ");
        printf("]}\n");
    } else if (!rc) {
        print_ids(&t, " ");
        printf("\n");
    }
    ch_tokens_free(&t);
    return rc;
}

// Every line of the input is a text as a JSON string; every line of the output its ids as a JSON array.
static int tokenize_lines(const ch_vocab *v, const ch_buf *in, unsigned flags, ch_error *e) {
    const char *p = in->data, *end = p + in->len;
    int rc = 0;
    for (size_t line = 1; !rc && p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        json_error_t je;
        json_t *text = json_loadb(p, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
        ch_tokens t = {0};
        if (!json_is_string(text)) rc = ch_error_set(e, CH_EFORMAT, "line %zu: expected a JSON string", line);
        else rc = ch_tokenize(v, json_string_value(text), json_string_length(text), flags, &t, e);
        if (!rc) {
            putchar('[');
            print_ids(&t, ",");
            printf("]\n");
        }
        ch_tokens_free(&t);
        json_decref(text);
        p = stop ? stop + 1 : end;
    }
    return rc;
}

int ch_cmd_tokenize(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code)) return code;
    ch_error e = {0};
    ch_gguf *g = NULL;
    ch_vocab *v = NULL;
    ch_buf in = {.limit = 1u << 30};
    unsigned flags = ch_opt_bool(&o, CH_OPT_PARSE_SPECIAL) ? CH_TOK_SPECIAL : 0;
    if (ch_opt_bool(&o, CH_OPT_ADD_BOS)) flags |= CH_TOK_BOS_EOS;
    const char *path = ch_cmd_model_path(&o, NULL);
    code = CH_EXIT_FAILED;
    if (!path) goto done;
    int rc = ch_gguf_open(&g, path, &e);
    if (!rc) rc = ch_vocab_open(&v, g, &e);
    if (!rc) rc = ch_read_file(&in, "-", &e);
    if (!rc && ch_opt_bool(&o, CH_OPT_TEXT_LINES)) rc = tokenize_lines(v, &in, flags, &e);
    else if (!rc) rc = tokenize_one(v, &in, flags, ch_opt_bool(&o, CH_OPT_JSON), &e);
    code = rc ? ch_cmd_fail_error(spec.name, &e) : CH_EXIT_OK;
done:
    ch_buf_free(&in);
    ch_vocab_free(&v);
    ch_gguf_close(&g);
    ch_cmd_options_free(&o);
    return code;
}
