// Chat templates: stored results of the reference, origin of bytes, limits at their borders, hostile templates.
// time limit: 300 s
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/text.h"

static json_t *read_json(const char *path) {
    json_error_t e;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (!j)
        fail_msg("%s: %s", path, e.text);
    return j;
}

static int render(const char *source, size_t n, const json_t *vars, const ch_template_limits *lim, ch_buf *out, ch_error *e) {
    ch_template *t = NULL;
    memset(e, 0, sizeof *e);
    int rc = ch_template_parse(&t, source, n, e);
    if (!rc)
        rc = ch_template_render(t, vars, lim, out, NULL, NULL, e);
    ch_template_free(&t);
    assert_int_equal(rc, rc ? e->code : 0);
    return rc;
}

static int render_z(const char *source, const char *vars, const ch_template_limits *lim, ch_buf *out, ch_error *e) {
    json_t *j = json_loads(vars, 0, NULL);
    assert_non_null(j);
    ch_buf_reset(out);
    int rc = render(source, strlen(source), j, lim, out, e);
    json_decref(j);
    return rc;
}

static void expect_text(const char *source, const char *vars, const char *want) {
    ch_buf out = {0};
    ch_error e;
    if (render_z(source, vars, NULL, &out, &e))
        fail_msg("%s: %s", source, e.msg);
    assert_string_equal(out.data ? out.data : "", want);
    ch_buf_free(&out);
}

static void expect_error(const char *source, const char *vars, const ch_template_limits *lim, int code, const char *part) {
    ch_buf out = {0};
    ch_error e;
    int rc = render_z(source, vars, lim, &out, &e);
    if (rc != code || !strstr(e.msg, part))
        fail_msg("%s: expected %s with \"%s\", found %s: \"%s\"", source, ch_error_name(code), part, rc ? ch_error_name(rc) : "a text",
                 rc ? e.msg : "");
    assert_int_equal(out.len, 0);
    ch_buf_free(&out);
}

// ---- against the reference ------------------------------------------------------------------------------------------------

static void snippets_equal_the_reference(void **state) {
    (void)state;
    json_t *all = read_json("tests/golden/template_snippets.json"), *head = json_array_get(all, 0), *c;
    ch_template_limits lim = {.now = json_integer_value(json_object_get(head, "now"))};
    size_t i, bad = 0;
    assert_true(json_array_size(all) > 200);
    json_array_foreach(all, i, c) {
        const json_t *source = json_object_get(c, "source"), *text = json_object_get(c, "text");
        const json_t *raised = json_object_get(c, "raised");
        ch_buf out = {0};
        ch_error e;
        if (!source)
            continue;
        int rc = render(json_string_value(source), json_string_length(source), json_object_get(head, "vars"), &lim, &out, &e);
        bool same = text ? !rc && out.len == json_string_length(text) && !memcmp(out.len ? out.data : "", json_string_value(text), out.len)
                         : rc != 0;
        if (raised && rc)
            same = !strcmp(e.msg, json_string_value(raised));
        if (!same) {
            bad++;
            print_error("%s\n  expected %s\n  found    %s\n", json_string_value(source), text ? json_string_value(text) : "an error",
                        rc ? e.msg : out.data);
        }
        ch_buf_free(&out);
    }
    json_decref(all);
    assert_int_equal(bad, 0);
}

static void fnv64(const char *s, size_t n, char out[17]) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    snprintf(out, 17, "%016llx", (unsigned long long)h);
}

// True: as stored (a hash, "error", or "!" and the message of raise_exception).
static bool as_stored(const char *want, int rc, const ch_buf *out, const ch_error *e) {
    char h[17];
    if (*want == '!') // messages longer than an error holds are cut
        return rc == CH_EFORMAT && !strncmp(e->msg, want + 1, strlen(want + 1) < 230 ? sizeof e->msg : 230);
    if (!strcmp(want, "error"))
        return rc != 0;
    fnv64(out->len ? out->data : "", out->len, h);
    return !rc && !strcmp(h, want);
}

static void templates_equal_the_reference(void **state) {
    (void)state;
    const char *data = getenv("CHIMERE_TESTDATA");
    if (!data)
        skip();
    json_t *sets = read_json("tests/golden/template_sets.json"), *hashes = read_json("tests/golden/template_hashes.json");
    ch_template_limits lim = {.now = 1764547200};
    const char *name;
    json_t *row, *set;
    size_t i, n = 0;
    json_object_foreach(hashes, name, row) {
        char path[4096];
        ch_buf source = {0};
        ch_error e;
        ch_template *t = NULL;
        snprintf(path, sizeof path, "%s/templates/%s", data, name);
        if (ch_read_file(&source, path, &e) || ch_template_parse(&t, source.data, source.len, &e))
            fail_msg("%s", e.msg);
        json_array_foreach(sets, i, set) {
            ch_buf out = {0};
            const char *label = json_string_value(json_object_get(set, "name"));
            const char *want = json_string_value(json_object_get(row, label));
            int rc = ch_template_render(t, json_object_get(set, "vars"), &lim, &out, NULL, NULL, &e);
            assert_non_null(want);
            if (!as_stored(want, rc, &out, &e))
                fail_msg("%s, %s: expected %s, found %s", name, label, want, rc ? e.msg : out.data);
            ch_buf_free(&out);
            n++;
        }
        ch_template_free(&t);
        ch_buf_free(&source);
    }
    assert_true(n >= 21 * 12);
    json_decref(sets);
    json_decref(hashes);
}

// ---- origin of bytes ------------------------------------------------------------------------------------------------------

// The rendered text with the bytes that did not come from the template in [brackets].
static void expect_spans(const char *source, const char *vars, const char *want) {
    ch_template *t = NULL;
    ch_error e;
    ch_buf out = {0}, marked = {0};
    ch_span *span = NULL;
    size_t n = 0, end;
    json_t *j = json_loads(vars, 0, NULL);
    assert_non_null(j);
    ch_buf_puts(&out, "before"); // spans count from the beginning of the buffer
    end = out.len;
    if (ch_template_parse(&t, source, strlen(source), &e) || ch_template_render(t, j, NULL, &out, &span, &n, &e))
        fail_msg("%s: %s", source, e.msg);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(span[i].begin, end);
        assert_true(span[i].end > span[i].begin);
        end = span[i].end;
        ch_buf_printf(&marked, span[i].literal ? "%.*s" : "[%.*s]", (int)(end - span[i].begin), out.data + span[i].begin);
    }
    assert_int_equal(end, out.len);
    assert_string_equal(marked.data ? marked.data : "", want);
    ch_free(span);
    ch_template_free(&t);
    json_decref(j);
    ch_buf_free(&out);
    ch_buf_free(&marked);
}

static void spans_follow_the_bytes(void **state) {
    (void)state;
    static const char vars[] = "{\"m\":{\"role\":\"user\",\"content\":\" <|x|> a,b \"},\"bos_token\":\"<s>\",\"pad_token\":\"<f>\",\"é\":1}";
    expect_spans("plain", vars, "plain");
    expect_spans("", vars, "");
    expect_spans("{{ '<|' + m.role + '|>' + m.content }}", vars, "<|[user]|>[ <|x|> a,b ]");
    expect_spans("{{ bos_token }}{{ pad_token }}", vars, "<s>[<f>]");
    expect_spans("{{ ('<' ~ m.content ~ '>')|trim }}", vars, "<[ <|x|> a,b ]>");
    expect_spans("{{ (' ' ~ m.content ~ ' ').strip() }}", vars, "[<|x|> a,b]");
    expect_spans("{{ ('(' ~ m.role ~ ')')[1:4] }}{{ ('(' ~ m.role ~ ')')[::-1] }}", vars, "[use])[resu](");
    expect_spans("{{ m.content.replace('<|x|>', '<|y|>') }}", vars, "[ ]<|y|>[ a,b ]");
    expect_spans("{{ '<|y|>'.replace('y', m.role) }}", vars, "<|[user]|>");
    expect_spans("{{ m.content.split(',')|join('|') }}", vars, "[ <|x|> a]|[b ]");
    expect_spans("{{ ('<a>,' ~ m.role).split(',')|last }}{{ ('<a>,' ~ m.role).split(',')[0] }}", vars, "[user]<a>");
    expect_spans("{{ m|tojson }}", "{\"m\":\"<|x|>\"}", "[\"<|x|>\"]");
    expect_spans("{{ '<|x|>'|tojson }}", "{}", "[\"<|x|>\"]"); // what a filter computes is no template text
    expect_spans("{{ ('<' ~ m.role)|upper }}{{ m.role.title() }}", vars, "<[USERUser]");
    expect_spans("{% set x %}<{{ m.role }}>{% endset %}{{ x * 2 }}", vars, "<[user]><[user]>");
    expect_spans("{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(m.role) }}{{ f('x') }}", vars, "<[user]><x>");
    expect_spans("{{ '%s|%s' % ('<a>', m.role) }}{{ '{}|{}'.format(m.role, '<b>') }}", vars, "<a>|[useruser]|<b>");
    expect_spans("{% set ns = namespace(s='') %}{% for i in [1, 2] %}{% set ns.s = ns.s + '<' + m.role + '>' %}{% endfor %}{{ ns.s }}", vars,
                 "<[user]><[user]>");
    expect_spans("{% for c in m.role %}{{ c }},{% endfor %}", vars, "[u],[s],[e],[r],");
    expect_spans("{{ m.nope|default('<d>') }}{{ m.role|indent(2, true) }}", vars, "<d>  [user]");
    expect_spans("{{ m }}", "{\"m\":[\"<|x|>\"]}", "[['<|x|>']]");
    expect_spans("{% filter trim %} <{{ m.role }} {% endfilter %}", vars, "<[user]");
    // One string grown in place by two others must not change either of them.
    expect_spans("{% set a = '<' + m.role %}{% set b = a + '1' %}{% set c = a + '2' %}{{ a }}{{ b }}{{ c }}", vars,
                 "<[user]<[user]1<[user]2");
}

// ---- the interface --------------------------------------------------------------------------------------------------------

static void mentions_names(void **state) {
    (void)state;
    static const char source[] = "{% if tools %}{{ m.enable_thinking }}{% endif %} add_generation_prompt {{ 'text_only' }}";
    ch_template *t = NULL;
    ch_error e;
    assert_int_equal(ch_template_parse(&t, source, sizeof source - 1, &e), 0);
    assert_true(ch_template_mentions(t, "tools"));
    assert_true(ch_template_mentions(t, "m"));
    assert_false(ch_template_mentions(t, "enable_thinking"));
    assert_false(ch_template_mentions(t, "add_generation_prompt"));
    assert_false(ch_template_mentions(t, "loop"));
    ch_template_free(&t);
    assert_null(t);
    ch_template_free(&t);
}

static void bad_input_is_refused(void **state) {
    (void)state;
    ch_template *t = NULL;
    ch_error e;
    ch_buf out = {0};
    assert_int_equal(ch_template_parse(&t, "\xff", 1, &e), CH_EFORMAT);
    assert_null(t);
    assert_int_equal(ch_template_parse(&t, "a", 1, &e), 0);
    json_t *array = json_array();
    assert_int_equal(ch_template_render(t, array, NULL, &out, NULL, NULL, &e), CH_EFORMAT);
    json_decref(array);
    ch_template_free(&t);
    expect_error("a\nb{{ 1 +* }}", "{}", NULL, CH_EFORMAT, "line 2: expected an expression, found '*'");
    expect_error("{% if x %}\n\n", "{}", NULL, CH_EFORMAT, "expected {% elif or else or endif %}, found the end of the template");
    expect_error("{% block x %}", "{}", NULL, CH_EUNSUPPORTED, "tag 'block'");
    expect_error("\n{{ m.a.b }}", "{\"m\":{}}", NULL, CH_EFORMAT, "line 2: 'dict object' has no attribute 'a'");
    expect_error("{{ raise_exception('as it is') }}", "{}", NULL, CH_EFORMAT, "as it is");
    expect_error("{{ 1|nope }}", "{}", NULL, CH_EUNSUPPORTED, "No filter named 'nope'.");
    expect_error("{{ 9223372036854775807 + 1 }}", "{}", NULL, CH_ERANGE, "64 bits");
    expect_error("{{ -9223372036854775807 - 2 }}", "{}", NULL, CH_ERANGE, "64 bits");
    expect_error("{{ 2 ** 63 }}", "{}", NULL, CH_ERANGE, "64 bits");
    expect_error("{{ (-9223372036854775807 - 1) // -1 }}", "{}", NULL, CH_ERANGE, "64 bits");
    expect_error("{{ 9223372036854775808 }}", "{}", NULL, CH_EFORMAT, "64 bits");
    expect_text("{{ 2 ** 62 }} {{ (-9223372036854775807 - 1) % -1 }} {{ 9223372036854775807 }}", "{}",
                "4611686018427387904 0 9223372036854775807");
    ch_buf_free(&out);
}

// A template is shared between renders; none may leave a trace in it.
static void renders_do_not_disturb_each_other(void **state) {
    (void)state;
    static const char source[] = "{% set a = 'x' 'y' %}{% set a = a + v %}{{ a }}{{ 'é'|length }}{% set l = [1] %}{% set _ = l.append(v) %}{{ l }}";
    ch_template *t = NULL;
    ch_error e;
    assert_int_equal(ch_template_parse(&t, source, sizeof source - 1, &e), 0);
    for (int i = 0; i < 3; i++) {
        char want[64], v[8];
        ch_buf out = {0};
        snprintf(v, sizeof v, "%d", i);
        snprintf(want, sizeof want, "xy%d1[1, '%d']", i, i);
        json_t *vars = json_pack("{s:s}", "v", v);
        assert_int_equal(ch_template_render(t, vars, NULL, &out, NULL, NULL, &e), 0);
        assert_string_equal(out.data, want);
        json_decref(vars);
        ch_buf_free(&out);
    }
    ch_template_free(&t);
}

// ---- limits ---------------------------------------------------------------------------------------------------------------

static void output_is_bounded(void **state) {
    (void)state;
    ch_template_limits lim = {.max_output = 100};
    ch_buf out = {0};
    ch_error e;
    assert_int_equal(render_z("{{ 'x' * 99 }}", "{}", &lim, &out, &e), 0);
    assert_int_equal(render_z("{{ 'x' * 100 }}", "{}", &lim, &out, &e), 0);
    assert_int_equal(out.len, 100);
    expect_error("{{ 'x' * 101 }}", "{}", &lim, CH_ELIMIT, "100 bytes");
    assert_int_equal(render_z("{% for i in range(50) %}ab{% endfor %}", "{}", &lim, &out, &e), 0);
    expect_error("{% for i in range(50) %}ab{% endfor %}c", "{}", &lim, CH_ELIMIT, "100 bytes");
    expect_error("{{ 'x'.center(101) }}", "{}", &lim, CH_ELIMIT, "100 bytes");
    expect_error("{{ 'x'|indent(101, true) }}", "{}", &lim, CH_ELIMIT, "100 bytes");
    expect_error("{{ '%101d' % 1 }}", "{}", &lim, CH_ELIMIT, "100");
    expect_error("{{ '{:101}'.format(1) }}", "{}", &lim, CH_ELIMIT, "100");
    expect_error("{{ ('x' * 60)|replace('x', 'yy') }}", "{}", &lim, CH_ELIMIT, "100 bytes");
    expect_error("{{ ('x' * 60) ~ ('x' * 60) }}", "{}", &lim, CH_ELIMIT, "100 bytes");
    expect_error("{{ ','.join(['x' * 60, 'x' * 60]) }}", "{}", &lim, CH_ELIMIT, "100 bytes");
    ch_buf_free(&out);
}

static void steps_are_bounded(void **state) {
    (void)state;
    // Find the least number of steps that is enough; one less must fail, one more must not.
    static const char source[] = "{% for i in range(20) %}{{ i }}{% endfor %}";
    ch_buf out = {0};
    ch_error e;
    uint64_t n = 1;
    for (;; n++) {
        ch_template_limits lim = {.max_steps = n};
        int rc = render_z(source, "{}", &lim, &out, &e);
        if (!rc)
            break;
        assert_int_equal(rc, CH_ELIMIT);
        assert_true(n < 1000);
    }
    assert_true(n > 60);
    ch_template_limits more = {.max_steps = n + 1};
    assert_int_equal(render_z(source, "{}", &more, &out, &e), 0);
    // Loops that would take ages end soon.
    ch_template_limits lim = {.max_steps = 100000};
    expect_error("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "{}", &lim, CH_ELIMIT, "steps");
    expect_error("{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}", "{}", &lim, CH_ELIMIT, "steps");
    expect_error("{{ [0] * 1000000000 }}", "{}", &lim, CH_ELIMIT, "steps");
    expect_error("{% set s = 'ab' * 1000000 %}{% for i in range(10000) %}{{ 'b' * 100 in s }}{% endfor %}", "{}", &lim, CH_ELIMIT, "steps");
    ch_buf_free(&out);
}

static void depth_is_bounded(void **state) {
    (void)state;
    static const char source[] = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(k) }}";
    ch_buf out = {0};
    ch_error e;
    int most = 0;
    for (int k = 0; k < 300 && !most; k++) {
        char vars[32];
        snprintf(vars, sizeof vars, "{\"k\":%d}", k);
        int rc = render_z(source, vars, NULL, &out, &e);
        if (rc) {
            assert_int_equal(rc, CH_ELIMIT);
            assert_non_null(strstr(e.msg, "200 levels"));
            most = k;
        }
    }
    assert_in_range(most, 20, 100);
    // Nesting of the text itself: brackets, blocks, variables.
    for (int n = 149; n <= 151; n++) {
        ch_buf b = {0};
        ch_buf_puts(&b, "{{ ");
        for (int i = 0; i < n; i++)
            ch_buf_puts(&b, "(");
        ch_buf_puts(&b, "1");
        for (int i = 0; i < n; i++)
            ch_buf_puts(&b, ")");
        ch_buf_puts(&b, " }}");
        assert_int_equal(render_z(b.data, "{}", NULL, &out, &e), n <= 150 ? 0 : CH_ELIMIT);
        ch_buf_free(&b);
    }
    static const char *const many[] = {"[", "{1:", "(", "-", "not ", "{% if 1 %}", "{% for x in y %}", "x if y else ", "a.", "a|b(", "1+", "f(", "x["};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        ch_buf b = {0};
        if (many[i][0] != '{' || many[i][1] != '%')
            ch_buf_puts(&b, "{{ ");
        for (int k = 0; k < 20000; k++)
            ch_buf_puts(&b, many[i]);
        assert_int_not_equal(render_z(b.data, "{}", NULL, &out, &e), 0);
        ch_buf_puts(&b, "1 }}");
        render_z(b.data, "{}", NULL, &out, &e); // must come back, whatever it says
        ch_buf_free(&b);
    }
    for (int n = 199; n <= 201; n++) { // values as deep as the limit
        ch_buf b = {0};
        ch_buf_puts(&b, "{\"v\":");
        for (int i = 0; i < n; i++)
            ch_buf_puts(&b, "[");
        for (int i = 0; i < n; i++)
            ch_buf_puts(&b, "]");
        ch_buf_puts(&b, "}");
        assert_int_equal(render_z("{{ v|length }}", b.data, NULL, &out, &e), n <= 200 ? 0 : CH_ELIMIT);
        ch_buf_free(&b);
    }
    static const char *const cyclic[] = {"{{ l }}", "{{ l|tojson }}", "{{ l == [l, 1] }}", "{{ l < [[l]] }}", "{{ {(l,): 1} }}"};
    for (size_t i = 0; i < sizeof cyclic / sizeof *cyclic; i++) {
        ch_buf b = {0};
        ch_buf_printf(&b, "{%% set l = [] %%}{%% set _ = l.append(l) %%}%s", cyclic[i]);
        int rc = render_z(b.data, "{}", NULL, &out, &e);
        assert_true(rc == 0 || rc == CH_ELIMIT || rc == CH_EFORMAT);
        ch_buf_free(&b);
    }
    ch_buf_free(&out);
}

static void memory_is_bounded(void **state) {
    (void)state;
    ch_template_limits lim = {.max_memory = 1 << 20};
    ch_buf out = {0};
    ch_error e;
    assert_int_equal(render_z("{{ ('x' * 100000)|length }}", "{}", &lim, &out, &e), 0);
    expect_error("{{ ('x' * 2000000)|length }}", "{}", &lim, CH_ELIMIT, "bytes of memory");
    expect_error("{% for i in range(100000) %}{% set x = [i, i, i, i] %}{% endfor %}", "{}", &lim, CH_ELIMIT, "bytes of memory");
    expect_error("{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}", "{}", NULL, CH_ELIMIT, "limit");
    expect_error("{% set n = namespace(s=[1]) %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}", "{}", NULL, CH_ELIMIT, "");
    // Appending piece by piece must not copy the whole each time.
    lim.max_memory = 64 << 20;
    assert_int_equal(render_z("{% set n = namespace(s='') %}{% for i in range(100000) %}{% set n.s = n.s + 'abcdefghij' %}{% endfor %}{{ n.s|length }}",
                              "{}", &lim, &out, &e), 0);
    assert_string_equal(out.data, "1000000");
    ch_buf_free(&out);
}

static void ranges_are_bounded(void **state) {
    (void)state;
    expect_text("{{ range(99999)|length }} {{ range(100000)|length }} {{ range(0, 1000000, 10)|length }}", "{}", "99999 100000 100000");
    expect_error("{{ range(100001) }}", "{}", NULL, CH_ELIMIT, "MAX_RANGE");
    expect_error("{{ range(-9223372036854775807, 9223372036854775807) }}", "{}", NULL, CH_ELIMIT, "MAX_RANGE");
    expect_text("{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|list }}", "{}",
                "[-9223372036854775807, 0]");
    expect_error("{{ 'x'|tojson(indent=33) }}", "{}", NULL, CH_ELIMIT, "32");
    expect_text("{{ ('%.500f' % 0.5)|length }}", "{}", "502");
    expect_error("{{ '%.501f' % 0.5 }}", "{}", NULL, CH_ELIMIT, "500");
    expect_error("{{ 1|slice(0)|list }}", "{}", NULL, CH_EFORMAT, "not iterable");
    expect_error("{{ [1]|slice(100001)|list }}", "{}", NULL, CH_ERANGE, "100000");
}

// The n-th allocation fails: an error, never a crash, and nothing leaks (the sanitizer looks).
static void lack_of_memory_is_an_error(void **state) {
    (void)state;
    static const char source[] = "{% for k, v in d|dictsort %}{{ k ~ v|tojson }}{% endfor %}{{ j|from_json }}";
    json_t *vars = json_loads("{\"d\":{\"a\":[1,2],\"b\":\"x\"},\"j\":\"[1,{}]\"}", 0, NULL);
    int failures = 0;
    for (int64_t nth = 0, rc = CH_ENOMEM; rc; nth++) {
        ch_template *t = NULL;
        ch_buf out = {0};
        ch_span *span = NULL;
        size_t n;
        ch_error e;
        ch_alloc_fail_at(nth);
        rc = ch_template_parse(&t, source, sizeof source - 1, &e);
        if (!rc)
            rc = ch_template_render(t, vars, NULL, &out, &span, &n, &e);
        ch_alloc_fail_at(-1);
        assert_true(rc == 0 || rc == CH_ENOMEM);
        failures += rc != 0;
        ch_free(span);
        ch_template_free(&t);
        ch_buf_free(&out);
    }
    assert_in_range(failures, 4, 5000);
    json_decref(vars);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_equal_the_reference),
        cmocka_unit_test(templates_equal_the_reference),
        cmocka_unit_test(spans_follow_the_bytes),
        cmocka_unit_test(mentions_names),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(renders_do_not_disturb_each_other),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(ranges_are_bounded),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
