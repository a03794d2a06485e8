// chimere info: what is in a model file and what it needs to run.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "gguf/gguf.h"
#include "model/model.h"

#define SHOWN_ELEMENTS 8   // of an array, in text
#define JSON_ELEMENTS 4096 // of an array, in JSON; longer ones give type and count

static const int options[] = {CH_OPT_MODEL, CH_OPT_JSON, CH_OPT_KV_TYPE_K, CH_OPT_KV_TYPE_V};
static const ch_cmd_spec spec = {
    .name = "info",
    .usage = "[FILE] [--json] [--kv-type-k q8_0] [--kv-type-v q8_0]",
    .about = "Shows metadata, layers, tensors and memory of a GGUF file (any part of a split one).\n"
             "Files of architectures that cannot be run are shown too.",
    .examples = "  chimere info model.gguf\n  chimere info model-00001-of-00003.gguf --json\n",
    .option = options,
    .n_option = sizeof options / sizeof *options,
    .max_args = 1,
};

typedef struct report {
    ch_gguf *g;
    ch_model *m;               // NULL: this build cannot run it
    const ch_model_info *info; // of m
    ch_error why;              // without m
    char arch[64];
    uint64_t n_params, tensor_bytes;
} report;

// ---- values -----------------------------------------------------------------------------------------------------------
// Text from a file, for a terminal: one line, control characters and broken UTF-8 shown as \xNN, cut after `most` bytes.
static void print_text(const char *p, size_t n, size_t most) {
    putchar('"');
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t k = ch_utf8_decode(p + i, n - i, &cp);
        if (i + k > most) {
            printf("\"... (%zu bytes)", n);
            return;
        }
        if (cp == '\n') fputs("\\n", stdout);
        else if (cp == '"' || cp == '\\') printf("\\%c", (int)cp);
        else if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0xFFFFFFFFu) printf("\\x%02x", (uint8_t)p[i]);
        else fwrite(p + i, 1, k, stdout);
        i += k;
    }
    putchar('"');
}

static void print_element(const ch_gguf *g, const ch_gguf_kv *kv, uint64_t i) {
    ch_gguf_str s;
    switch (kv->elem) {
    case CH_GGUF_STR:
        s = ch_gguf_arr_str(g, kv, i);
        print_text(s.p, s.n, kv->type == CH_GGUF_ARR ? 24 : 96);
        break;
    case CH_GGUF_F32:
    case CH_GGUF_F64: printf("%g", ch_gguf_arr_num(kv, i)); break;
    case CH_GGUF_BOOL: fputs(ch_gguf_arr_int(kv, i) ? "true" : "false", stdout); break;
    default: printf("%" PRId64, ch_gguf_arr_int(kv, i));
    }
}

static void print_metadata(const ch_gguf *g) {
    printf("\nMetadata (%zu keys)\n", ch_gguf_n_kv(g));
    for (size_t i = 0; i < ch_gguf_n_kv(g); i++) {
        const ch_gguf_kv *kv = ch_gguf_kv_at(g, i);
        printf("  %-46s ", kv->key);
        if (kv->type != CH_GGUF_ARR) {
            print_element(g, kv, 0);
        } else {
            putchar('[');
            for (uint64_t k = 0; k < kv->n && k < SHOWN_ELEMENTS; k++) {
                if (k) fputs(", ", stdout);
                print_element(g, kv, k);
            }
            if (kv->n > SHOWN_ELEMENTS) printf(", ... (%" PRIu64 ")", kv->n);
            putchar(']');
        }
        putchar('\n');
    }
}

static void format_bytes(char *out, size_t cap, double n) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (n >= 1024 && u < 4) n /= 1024, u++;
    snprintf(out, cap, u ? "%.2f %s" : "%.0f %s", n, unit[u]);
}

static void print_size(const char *what, double n) {
    char text[32];
    format_bytes(text, sizeof text, n);
    printf("  %-46s %s\n", what, text);
}

// ---- tensors ----------------------------------------------------------------------------------------------------------
static uint64_t count_values(const ch_gguf_tensor *t) { return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]; } // checked at open

// Name with its layer number replaced by *; the same for all layers.
static void generic_name(const char *name, char *out, size_t cap) {
    if (strncmp(name, "blk.", 4) == 0) {
        size_t digits = strspn(name + 4, "0123456789");
        if (digits > 0 && name[4 + digits] == '.') {
            snprintf(out, cap, "blk.*%s", name + 4 + digits);
            return;
        }
    }
    snprintf(out, cap, "%s", name);
}

typedef struct group {
    char name[64];
    const ch_gguf_tensor *t; // the first
    size_t n, bytes;
} group;

static bool same_group(const group *x, const char *name, const ch_gguf_tensor *t) {
    return x->t->type == t->type && memcmp(x->t->ne, t->ne, sizeof t->ne) == 0 && strcmp(x->name, name) == 0;
}

// Tensors that differ in their layer only share a line. The number of groups stays small in real files; past a thousand
// further tensors get lines of their own, so that a hostile file costs no quadratic time.
static void print_tensors(const ch_gguf *g) {
    size_t n = ch_gguf_n_tensors(g), n_groups = 0;
    group *list = ch_alloc_array(n, sizeof *list);
    printf("\nTensors (%zu)\n", n);
    if (!list) return;
    for (size_t i = 0; i < n; i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        char name[64];
        generic_name(t->name, name, sizeof name);
        size_t k = n_groups > 1000 ? n_groups : 0;
        while (k < n_groups && !same_group(&list[k], name, t)) k++;
        if (k == n_groups) {
            list[n_groups++].t = t;
            memcpy(list[k].name, name, sizeof name);
        }
        list[k].n++;
        list[k].bytes += t->size;
    }
    for (size_t k = 0; k < n_groups; k++) {
        const group *x = &list[k];
        char shape[100], size[32];
        int at = snprintf(shape, sizeof shape, "%" PRIu64, x->t->ne[0]);
        for (uint32_t d = 1; d < x->t->n_dims; d++) at += snprintf(shape + at, sizeof shape - (size_t)at, " x %" PRIu64, x->t->ne[d]);
        format_bytes(size, sizeof size, (double)x->bytes);
        printf("  %-40s %4zu  %-8s %-24s %12s\n", x->name, x->n, x->t->type->name, shape, size);
    }
    ch_free(list);
}

// ---- layers and memory ------------------------------------------------------------------------------------------------
static bool same_layer(const ch_layer_info *a, const ch_layer_info *b) {
    return strcmp(a->mixer, b->mixer) == 0 && strcmp(a->ffn, b->ffn) == 0 && a->kv_bytes_per_token == b->kv_bytes_per_token &&
           a->state_bytes == b->state_bytes;
}

static void print_layers(const ch_model_info *m) {
    printf("\nLayers (%d)\n  %-10s %-18s %-14s %14s %14s\n", m->n_layer, "", "mixer", "feed-forward", "KV B/token", "state B");
    for (int i = 0; i < m->n_layer;) {
        int end = i + 1;
        while (end < m->n_layer && same_layer(&m->layer[i], &m->layer[end])) end++;
        char range[32];
        if (end - i > 1) snprintf(range, sizeof range, "%d-%d", i, end - 1);
        else snprintf(range, sizeof range, "%d", i);
        printf("  %-10s %-18s %-14s %14zu %14zu\n", range, m->layer[i].mixer, m->layer[i].ffn, m->layer[i].kv_bytes_per_token,
               m->layer[i].state_bytes);
        i = end;
    }
}

static void print_memory(const ch_model_info *m) {
    printf("\nMemory\n");
    print_size("weights in the file", (double)m->weight_bytes);
    print_size("weights read for one token", (double)m->active_bytes);
    print_size("KV for one position", (double)m->kv_bytes_per_token);
    print_size("recurrent state of a sequence", (double)m->state_bytes);
    int32_t contexts[3] = {4096, 32768, m->n_ctx_train};
    for (int i = 0; i < 3; i++) {
        char what[64];
        if (contexts[i] > m->n_ctx_train || (i == 2 && (contexts[2] == contexts[0] || contexts[2] == contexts[1]))) continue;
        snprintf(what, sizeof what, "a sequence of %d positions", contexts[i]);
        print_size(what, (double)m->kv_bytes_per_token * contexts[i] + (double)m->state_bytes);
    }
}

static void print_report(const report *r) {
    char size[32];
    format_bytes(size, sizeof size, (double)ch_gguf_file_bytes(r->g));
    printf("%s\n  GGUF version %u, %d file%s, %s\n", ch_gguf_path(r->g), ch_gguf_version(r->g), ch_gguf_n_shards(r->g),
           ch_gguf_n_shards(r->g) == 1 ? "" : "s", size);
    printf("  architecture %s, %.3f G weights", r->arch[0] ? r->arch : "not given", (double)r->n_params * 1e-9);
    if (r->n_params) printf(", %.2f bits each", (double)r->tensor_bytes * 8 / (double)r->n_params);
    putchar('\n');
    if (!r->m) printf("  cannot be run: %s\n", r->why.msg);
    print_metadata(r->g);
    print_tensors(r->g);
    if (r->m) {
        print_layers(r->info);
        print_memory(r->info);
    }
}

// ---- JSON -------------------------------------------------------------------------------------------------------------
static json_t *text_json(const char *p, size_t n) {
    json_t *s = json_stringn(p, n); // NULL: not UTF-8
    return s ? s : json_sprintf("(%zu bytes that are no UTF-8)", n);
}

static json_t *element_json(const ch_gguf *g, const ch_gguf_kv *kv, uint64_t i) {
    ch_gguf_str s;
    double f;
    switch (kv->elem) {
    case CH_GGUF_STR: s = ch_gguf_arr_str(g, kv, i); return text_json(s.p, s.n);
    case CH_GGUF_F32:
    case CH_GGUF_F64:
        f = ch_gguf_arr_num(kv, i);
        if (f - f != 0) return json_null(); // JSON knows neither NaN nor infinity
        if (kv->elem == CH_GGUF_F32) {
            char text[32]; // 1e-06, not 9.99999997e-07, where the short form is the same f32
            snprintf(text, sizeof text, "%.7g", f);
            double brief = strtod(text, NULL);
            if ((float)brief == (float)f) f = brief;
        }
        return json_real(f);
    case CH_GGUF_BOOL: return json_boolean(ch_gguf_arr_int(kv, i) != 0);
    default: return json_integer(ch_gguf_arr_int(kv, i));
    }
}

static json_t *metadata_json(const ch_gguf *g) {
    json_t *o = json_object();
    for (size_t i = 0; i < ch_gguf_n_kv(g); i++) {
        const ch_gguf_kv *kv = ch_gguf_kv_at(g, i);
        json_t *v;
        if (kv->type != CH_GGUF_ARR) {
            v = element_json(g, kv, 0);
        } else if (kv->n > JSON_ELEMENTS) {
            v = json_pack("{s:I}", "n_elements", (json_int_t)kv->n);
        } else {
            v = json_array();
            for (uint64_t k = 0; k < kv->n; k++) json_array_append_new(v, element_json(g, kv, k));
        }
        json_object_set_new(o, kv->key, v);
    }
    return o;
}

static json_t *tensors_json(const ch_gguf *g) {
    json_t *list = json_array();
    for (size_t i = 0; i < ch_gguf_n_tensors(g); i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer((json_int_t)t->ne[d]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:I, s:i}", "name", t->name, "type", t->type->name, "shape", shape,
                                              "bytes", (json_int_t)t->size, "shard", t->shard));
    }
    return list;
}

static json_t *layers_json(const ch_model_info *m) {
    json_t *list = json_array();
    for (int i = 0; i < m->n_layer; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "mixer", m->layer[i].mixer, "ffn", m->layer[i].ffn,
                                              "kv_bytes_per_token", (json_int_t)m->layer[i].kv_bytes_per_token, "state_bytes",
                                              (json_int_t)m->layer[i].state_bytes));
    return list;
}

// A number of the file for architectures this build cannot run; JSON null when it is not there.
static json_t *key_json(const report *r, const char *name) {
    char key[160];
    uint32_t v;
    snprintf(key, sizeof key, "%s.%s", r->arch, name);
    return ch_gguf_get_u32(r->g, key, &v, NULL) == 1 ? json_integer((json_int_t)v) : json_null();
}

static int print_json(const report *r) {
    const ch_model_info *m = r->info;
    const ch_gguf_kv *tokens = ch_gguf_find(r->g, "tokenizer.ggml.tokens");
    json_t *o = json_object();
    json_object_set_new(o, "file", text_json(ch_gguf_path(r->g), strlen(ch_gguf_path(r->g))));
    json_object_set_new(o, "architecture", text_json(r->arch, strlen(r->arch)));
    json_object_set_new(o, "can_run", json_boolean(m != NULL));
    if (!m) json_object_set_new(o, "reason", text_json(r->why.msg, strlen(r->why.msg)));
    json_object_set_new(o, "n_vocab", m ? json_integer(m->n_vocab) : tokens ? json_integer((json_int_t)tokens->n) : json_null());
    json_object_set_new(o, "n_layer", m ? json_integer(m->n_layer) : key_json(r, "block_count"));
    json_object_set_new(o, "n_embd", m ? json_integer(m->n_embd) : key_json(r, "embedding_length"));
    json_object_set_new(o, "n_ctx_train", m ? json_integer(m->n_ctx_train) : key_json(r, "context_length"));
    json_object_set_new(o, "n_params", json_integer((json_int_t)r->n_params));
    json_object_set_new(o, "kv_bytes_per_token", m ? json_integer((json_int_t)m->kv_bytes_per_token) : json_null());
    json_object_set_new(o, "state_bytes", m ? json_integer((json_int_t)m->state_bytes) : json_null());
    if (m) {
        json_object_set_new(o, "n_head", json_integer(m->n_head));
        json_object_set_new(o, "n_head_kv", json_integer(m->n_head_kv));
        json_object_set_new(o, "n_expert", json_integer(m->n_expert));
        json_object_set_new(o, "n_expert_used", json_integer(m->n_expert_used));
        json_object_set_new(o, "active_bytes", json_integer((json_int_t)m->active_bytes));
        json_object_set_new(o, "layers", layers_json(m));
    }
    json_object_set_new(o, "weight_bytes", json_integer((json_int_t)r->tensor_bytes));
    json_object_set_new(o, "file_bytes", json_integer((json_int_t)ch_gguf_file_bytes(r->g)));
    json_object_set_new(o, "gguf_version", json_integer(ch_gguf_version(r->g)));
    json_object_set_new(o, "n_shards", json_integer(ch_gguf_n_shards(r->g)));
    json_object_set_new(o, "tensors", tensors_json(r->g));
    json_object_set_new(o, "metadata", metadata_json(r->g));
    int rc = json_dumpf(o, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(o);
    putchar('\n');
    return rc == 0 ? CH_EXIT_OK : ch_cmd_fail("info", CH_EXIT_FAILED, "could not write JSON");
}

int ch_cmd_info(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code)) return code;
    ch_error e = {0};
    report r = {0};
    const char *path = o.n_args ? o.args[0] : ch_cmd_model_path(&o, NULL);
    code = CH_EXIT_FAILED;
    if (!path) goto done;
    if (ch_gguf_open(&r.g, path, &e) != 0) {
        ch_cmd_fail_error("info", &e);
        goto done;
    }
    ch_gguf_str arch;
    if (ch_gguf_get_str(r.g, "general.architecture", &arch, NULL) == 1 && ch_utf8_valid(arch.p, arch.n) && arch.n < sizeof r.arch)
        memcpy(r.arch, arch.p, arch.n);
    for (size_t i = 0; i < ch_gguf_n_tensors(r.g); i++) {
        r.n_params += count_values(ch_gguf_tensor_at(r.g, i));
        r.tensor_bytes += ch_gguf_tensor_at(r.g, i)->size;
    }
    ch_model_params p = {.meta_only = true, .k_type = ch_opt_text(&o, CH_OPT_KV_TYPE_K), .v_type = ch_opt_text(&o, CH_OPT_KV_TYPE_V)};
    if (ch_model_open(&r.m, path, &p, &r.why) == 0) r.info = ch_model_get_info(r.m);
    if (ch_opt_bool(&o, CH_OPT_JSON)) {
        code = print_json(&r);
    } else {
        print_report(&r);
        code = CH_EXIT_OK;
    }
done:
    ch_model_close(&r.m);
    ch_gguf_close(&r.g);
    ch_cmd_options_free(&o);
    return code;
}
