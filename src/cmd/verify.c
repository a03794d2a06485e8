// chimere verify: is a model file whole, does it fit its architecture, are its weights numbers of a sane size.
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "gguf/gguf.h"
#include "model/model.h"

#define ABSURD 1e6f      // no weight of a trained model comes near
#define CHUNK 4096       // values decoded at a time; a multiple of every block
#define MAX_FINDINGS 100 // lines; all are counted

static const int options[] = {CH_OPT_MODEL, CH_OPT_THREADS, CH_OPT_JSON};
static const ch_cmd_spec spec = {
    .name = "verify",
    .usage = "[FILE] [--json]",
    .about = "Checks a model file: its structure and all its parts, that the tensors fit the architecture, and every weight\n"
             "for NaN, infinity and absurd size. Of a file of packed weights (--panel-cache), every checksum. Exit code 1 when\n"
             "something is wrong.",
    .examples = "  chimere verify model.gguf\n  chimere verify cache/model-0123456789abcdef.panels\n",
    .option = options,
    .n_option = sizeof options / sizeof *options,
    .max_args = 1,
};

typedef struct verifier {
    bool json;
    int n_findings;
    json_t *list; // of findings and notes, NULL without --json
    json_t *notes;
} verifier;

static void report(verifier *v, bool is_finding, const char *fmt, ...) CH_PRINTF(3, 4);
static void report(verifier *v, bool is_finding, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (is_finding && v->n_findings++ >= MAX_FINDINGS) return;
    if (!v->json) printf("%s: %s\n", is_finding ? "wrong" : "note", text);
    else json_array_append_new(is_finding ? v->list : v->notes, json_string(text));
}

// ---- values -----------------------------------------------------------------------------------------------------------
typedef struct part_result {
    uint64_t n_bad, first_bad; // NaN, infinite or absurd; index in the tensor
    float first_value;
    bool any_nonzero;
    char pad[32]; // workers write side by side
} part_result;

typedef struct scan {
    const ch_gguf_tensor *t;
    uint64_t begin, end; // values of this piece
    part_result *result; // [n_workers]
    float *buffer;       // [n_workers][CHUNK]
} scan;

static void scan_part(void *arg, int worker, int n_workers) {
    const scan *s = arg;
    const ch_type_info *type = s->t->type;
    part_result *r = &s->result[worker];
    float *x = s->buffer + (size_t)worker * CHUNK;
    size_t from, to;
    ch_pool_split((size_t)(s->end - s->begin), CHUNK, worker, n_workers, &from, &to);
    for (size_t i = from; i < to; i += CHUNK) {
        size_t n = to - i < CHUNK ? to - i : CHUNK;
        uint64_t at = s->begin + i;
        type->decode((const uint8_t *)s->t->data + at / type->n_block * type->n_bytes, x, n);
        for (size_t k = 0; k < n; k++) {
            r->any_nonzero |= x[k] != 0;
            if (CH_LIKELY(fabsf(x[k]) <= ABSURD)) continue; // false for NaN
            if (r->n_bad++ == 0) {
                r->first_bad = at + k;
                r->first_value = x[k];
            }
        }
    }
}

typedef struct workers {
    ch_pool *pool;
    part_result *result;
    float *buffer;
    ch_cmd_progress bar;
    uint64_t done, total; // bytes
} workers;

static void check_tensor(verifier *v, workers *w, const ch_gguf_tensor *t) {
    const uint64_t piece = (uint64_t)CHUNK * 4096; // so that progress moves inside large tensors
    uint64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3], n_bad = 0, first = UINT64_MAX;
    float value = 0;
    bool any_nonzero = false;
    int n_workers = ch_pool_size(w->pool);
    for (uint64_t at = 0; at < n; at += piece) {
        scan s = {.t = t, .begin = at, .end = n - at < piece ? n : at + piece, .result = w->result, .buffer = w->buffer};
        memset(w->result, 0, (size_t)n_workers * sizeof *w->result);
        ch_pool_run(w->pool, scan_part, &s);
        for (int i = 0; i < n_workers; i++) {
            const part_result *r = &w->result[i];
            any_nonzero |= r->any_nonzero;
            n_bad += r->n_bad;
            if (r->n_bad && r->first_bad < first) first = r->first_bad, value = r->first_value;
        }
        w->done += (s.end - s.begin) / t->type->n_block * t->type->n_bytes;
        ch_cmd_show_progress(&w->bar, "checking weights", w->done, w->total);
    }
    if (n_bad) {
        const char *kind = isnan(value) ? "NaN" : isinf(value) ? "infinity" : "absurd value";
        report(v, true, "tensor %s: %s (%g) at index %" PRIu64 ", row %" PRIu64 " column %" PRIu64 "; %" PRIu64 " such values of %" PRIu64, t->name,
               kind, (double)value, first, first / t->ne[0], first % t->ne[0], n_bad, n);
    } else if (!any_nonzero) {
        report(v, false, "tensor %s: every value is zero", t->name);
    }
}

static int check_values(verifier *v, const ch_cmd_options *o, const ch_gguf *g, ch_error *e) {
    workers w = {.bar = {.quiet = ch_opt_bool(o, CH_OPT_QUIET)}};
    int n = (int)ch_opt_int(o, CH_OPT_THREADS);
    int rc = ch_pool_create(&w.pool, n > 0 ? n : ch_cpu_default_threads(), e);
    if (rc != 0) return rc;
    size_t n_workers = (size_t)ch_pool_size(w.pool);
    w.result = ch_alloc_array(n_workers, sizeof *w.result);
    w.buffer = ch_alloc_array(n_workers, CHUNK * sizeof(float));
    if (!w.result || !w.buffer) rc = ch_error_set(e, CH_ENOMEM, "no memory to decode weights");
    for (size_t i = 0; rc == 0 && i < ch_gguf_n_tensors(g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        if (t->type->decode) w.total += t->size;
    }
    for (size_t i = 0; rc == 0 && i < ch_gguf_n_tensors(g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        if (t->type->decode) check_tensor(v, &w, t);
    }
    ch_cmd_end_progress(&w.bar);
    ch_free(w.result);
    ch_free(w.buffer);
    ch_pool_free(&w.pool);
    return rc;
}

// ---- structure --------------------------------------------------------------------------------------------------------
static int by_place(const void *a, const void *b) {
    const ch_gguf_tensor *x = *(const ch_gguf_tensor *const *)a, *y = *(const ch_gguf_tensor *const *)b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    return p < q ? -1 : p > q;
}

// Tensors that share bytes: no writer makes such files, so something patched or damaged the table.
static void check_overlap(verifier *v, const ch_gguf *g) {
    size_t n = ch_gguf_n_tensors(g);
    const ch_gguf_tensor **order = ch_alloc_array(n, sizeof *order);
    if (!order) return;
    for (size_t i = 0; i < n; i++) order[i] = ch_gguf_tensor_at(g, i);
    qsort(order, n, sizeof *order, by_place);
    for (size_t i = 1; i < n; i++) {
        const ch_gguf_tensor *x = order[i - 1], *y = order[i];
        if (x->shard == y->shard && (const uint8_t *)x->data + x->size > (const uint8_t *)y->data)
            report(v, true, "tensors %s and %s share bytes of the file", x->name, y->name);
    }
    ch_free(order);
}

// Whether the architecture takes these tensors. An unknown architecture is no fault of the file.
static void check_architecture(verifier *v, const char *path) {
    ch_model *m = NULL;
    ch_error e = {0};
    ch_model_params p = {.meta_only = true};
    int rc = ch_model_open(&m, path, &p, &e);
    ch_model_close(&m);
    if (rc != 0) report(v, rc != CH_EUNSUPPORTED, "%s", e.msg);
}

static int print_result(verifier *v, const ch_gguf *g) {
    size_t n = ch_gguf_n_tensors(g);
    if (v->json) {
        json_t *o = json_pack("{s:b, s:i, s:O, s:O, s:I, s:I, s:i}", "ok", v->n_findings == 0, "n_findings", v->n_findings, "findings", v->list,
                              "notes", v->notes, "n_tensors", (json_int_t)n, "file_bytes", (json_int_t)ch_gguf_file_bytes(g), "n_shards",
                              ch_gguf_n_shards(g));
        json_dumpf(o, stdout, JSON_INDENT(1));
        json_decref(o);
        putchar('\n');
    } else if (v->n_findings) {
        if (v->n_findings > MAX_FINDINGS) printf("... and %d more\n", v->n_findings - MAX_FINDINGS);
        printf("%d finding%s in %zu tensors\n", v->n_findings, v->n_findings == 1 ? "" : "s", n);
    } else {
        printf("ok: %zu tensors in %d file%s, %" PRIu64 " bytes\n", n, ch_gguf_n_shards(g), ch_gguf_n_shards(g) == 1 ? "" : "s",
               ch_gguf_file_bytes(g));
    }
    return v->n_findings ? CH_EXIT_FAILED : CH_EXIT_OK;
}

// A panel file: ok, or its one finding.
static int verify_panels(const ch_cmd_options *o, const ch_map *map) {
    ch_cmd_progress bar = {.quiet = ch_opt_bool(o, CH_OPT_QUIET)};
    ch_error e = {0};
    int n = (int)ch_opt_int(o, CH_OPT_THREADS);
    int rc = ch_panels_verify(map->data, map->size, n ? n : ch_cpu_default_threads(), ch_cmd_show_progress, &bar, &e);
    ch_cmd_end_progress(&bar);
    if (ch_opt_bool(o, CH_OPT_JSON)) {
        json_t *out = json_pack("{s:b, s:i, s:[], s:I}", "ok", rc == 0, "n_findings", rc != 0, "findings", "file_bytes", (json_int_t)map->size);
        if (rc) json_array_append_new(json_object_get(out, "findings"), json_string(e.msg));
        json_dumpf(out, stdout, JSON_INDENT(1));
        json_decref(out);
        putchar('\n');
    } else if (rc) {
        printf("wrong: %s\n", e.msg);
    } else {
        printf("ok: packed weights, %zu bytes\n", map->size);
    }
    return rc ? CH_EXIT_FAILED : CH_EXIT_OK;
}

int ch_cmd_verify(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code)) return code;
    ch_error e = {0};
    ch_gguf *g = NULL;
    verifier v = {.json = ch_opt_bool(&o, CH_OPT_JSON)};
    const char *path = o.n_args ? o.args[0] : ch_cmd_model_path(&o, NULL);
    int rc = CH_EIO;
    ch_map map = {0};
    code = CH_EXIT_FAILED;
    if (!path) goto done;
    if (ch_map_open(&map, path, &e) == 0 && ch_panels_is_file(map.data, map.size)) {
        code = verify_panels(&o, &map);
        goto done;
    }
    if (v.json) {
        v.list = json_array();
        v.notes = json_array();
    }
    rc = ch_gguf_open(&g, path, &e);
    if (rc == 0) {
        if (ch_gguf_n_tensors(g) == 0) report(&v, false, "the file holds no tensors");
        else check_architecture(&v, path);
        check_overlap(&v, g);
        rc = check_values(&v, &o, g, &e);
    }
    if (rc == 0) {
        code = print_result(&v, g);
    } else if (v.json) { // a file that cannot even be opened is a finding too
        json_t *out = json_pack("{s:b, s:i, s:[s]}", "ok", 0, "n_findings", 1, "findings", e.msg);
        if (out) json_dumpf(out, stdout, JSON_INDENT(1));
        json_decref(out);
        putchar('\n');
    } else {
        ch_cmd_fail_error("verify", &e);
    }
done:
    json_decref(v.list);
    json_decref(v.notes);
    ch_gguf_close(&g);
    ch_map_close(&map);
    ch_cmd_options_free(&o);
    return code;
}
