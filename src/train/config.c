// Reads a run's configuration: JSON, every key known, every value in its range.
#include <math.h>
#include <string.h>

#include "train/config.h"

enum { I32, F64, F32, BOOL, STR, ARCH, PATTERN };
enum { MAX_BYTES = 1 << 20, MAX_TEXT = 4096 };

typedef struct key {
    const char *section, *name;
    int type;
    size_t at;
    double min, max;
    const char *def, *help; // def NULL: must be given; "": none
} key;

#define AT(member) offsetof(ch_train_config, member)
static const key keys[] = {
    {"model", "from", STR, AT(from), 0, 0, "", "GGUF file: its model is trained further; then nothing else stands here"},
    {"model", "arch", ARCH, AT(model.arch), 0, 0, NULL, "qwen35, qwen35moe, mamba2 or nemotron_h_moe"},
    {"model", "n_layer", I32, AT(model.n_layer), 1, 126, NULL, "layers, without those of MTP"},
    {"model", "n_embd", I32, AT(model.n_embd), 8, 16384, NULL, "width"},
    {"model", "n_ctx", I32, AT(model.n_ctx), 8, 1048576, "2048", "context length that the file states"},
    {"model", "tied", BOOL, AT(model.tied), 0, 1, "true", "the embedding is the output matrix too"},
    {"model", "eps", F64, AT(model.eps), 1e-12, 0.1, "1e-6", "of norms"},
    {"model", "n_head", I32, AT(model.n_head), 0, 256, "0", "query heads of attention"},
    {"model", "n_head_kv", I32, AT(model.n_head_kv), 0, 256, "0", "key and value heads"},
    {"model", "d_head", I32, AT(model.d_head), 0, 512, "0", "width of a head"},
    {"model", "n_rot", I32, AT(model.n_rot), 0, 512, "0", "rotated part of a head"},
    {"model", "rope_base", F64, AT(model.rope_base), 0, 1e12, "100000", "base of the rotary positions"},
    {"model", "attn_interval", I32, AT(model.attn_interval), 0, 126, "4", "every n-th layer is attention"},
    {"model", "ssm_heads_k", I32, AT(model.ssm_heads_k), 0, 256, "0", "key heads of the delta net, groups of a state space"},
    {"model", "ssm_heads_v", I32, AT(model.ssm_heads_v), 0, 256, "0", "value heads of the delta net, heads of a state space"},
    {"model", "ssm_d_state", I32, AT(model.ssm_d_state), 0, 256, "0", "width of a delta net head, of a state"},
    {"model", "ssm_d_head", I32, AT(model.ssm_d_head), 0, 256, "0", "width of a state-space head"},
    {"model", "ssm_conv", I32, AT(model.ssm_conv), 2, 16, "4", "taps of the convolution"},
    {"model", "n_ff", I32, AT(model.n_ff), 0, 131072, "0", "width of a dense feed-forward"},
    {"model", "n_expert", I32, AT(model.n_expert), 0, 1024, "0", "experts"},
    {"model", "n_expert_used", I32, AT(model.n_expert_used), 0, 1024, "0", "experts used for a token"},
    {"model", "n_ff_exp", I32, AT(model.n_ff_exp), 0, 131072, "0", "width of an expert"},
    {"model", "n_ff_shexp", I32, AT(model.n_ff_shexp), 0, 131072, "0", "width of the shared expert; 0: none"},
    {"model", "expert_scale", F64, AT(model.expert_scale), 0, 1000, "1", "factor of the routed sum"},
    {"model", "n_mtp", I32, AT(model.n_mtp), 0, 1, "0", "blocks that predict the token after next"},
    {"model", "pattern", PATTERN, AT(model.pattern), 0, 0, "", "nemotron_h_moe: a letter per layer, M state space, * attention, E experts"},
    {"lora", "rank", I32, AT(adapters.rank), 0, CH_TRAIN_MAX_RANK, "0", "low-rank adapters are trained and model.from stays as it is; 0: none"},
    {"lora", "alpha", F64, AT(adapters.alpha), 1e-3, 1e6, "16", "their product counts alpha / rank"},
    {"data", "tokenizer", STR, AT(tokenizer), 0, 0, NULL, "GGUF file with the vocabulary (tokenizer-train makes one); with model.from: that file's"},
    {"data", "chat_template", STR, AT(chat_template), 0, 0, "", "Jinja file; none: the one beside the vocabulary"},
    {"data", "n_row", I32, AT(n_row), 1, 65536, "8", "rows of a batch; rows are what threads share"},
    {"data", "n_ctx", I32, AT(n_ctx), 8, 1048576, "512", "tokens of a row"},
    {"data", "seed", F64, AT(seed), 0, 9007199254740992, "1", "of the order of documents and of the first weights"},
    {"data", "cache", STR, AT(cache), 0, 0, "", "file to keep the tokens in"},
    {"weights", "assistant", F32, AT(weights.assistant), 0, 100, "1", "loss weight of answers"},
    {"weights", "history", F32, AT(weights.history), 0, 100, "0.25", "of answers in earlier turns"},
    {"weights", "user", F32, AT(weights.user), 0, 100, "0.1", "of user messages and tool results"},
    {"weights", "system", F32, AT(weights.system), 0, 100, "0.05", "of what stands before"},
    {"weights", "role", F32, AT(weights.role), 0, 100, "0.1", "of the template's own words"},
    {"weights", "text", F32, AT(weights.text), 0, 100, "1", "of plain text"},
    {"weights", "end", F32, AT(weights.end), 0, 100, "0.3", "of the token after a plain text"},
    {"eval", "every", I32, AT(eval_every), 0, 1000000000, "0", "steps between evaluations; 0: none"},
    {"eval", "batches", I32, AT(eval_batches), 1, 100000, "4", "batches of an evaluation, always the same"},
    {"train", "steps", I32, AT(n_steps), 1, 1000000000, NULL, "steps in all"},
    {"train", "rate", F64, AT(rate), 0, 10, "3e-3", "highest learning rate"},
    {"train", "rate_end", F64, AT(rate_end), 0, 1, "0.02", "last learning rate, as a share of the highest"},
    {"train", "warmup", I32, AT(warmup), 0, 1000000000, "100", "steps of rising rate"},
    {"train", "schedule", STR, AT(schedule), 0, 0, "cosine", "cosine, wsd (constant, then decay_steps of fall) or constant"},
    {"train", "decay_steps", I32, AT(decay_steps), 0, 1000000000, "0", "wsd: steps of the fall"},
    {"train", "beta1", F64, AT(beta1), 0, 0.9999999, "0.9", "AdamW"},
    {"train", "beta2", F64, AT(beta2), 0, 0.9999999, "0.98", "AdamW"},
    {"train", "eps", F64, AT(adam_eps), 1e-16, 1, "1e-8", "AdamW"},
    {"train", "weight_decay", F64, AT(weight_decay), 0, 10, "0.1", "per step as a share of the rate; matrices only"},
    {"train", "clip", F64, AT(clip), 0, 1e9, "1", "longest gradient; 0: any"},
    {"train", "average", F64, AT(average), 0, 0.9999999, "0", "running average of the weights: share that is kept per step; 0: none"},
    {"train", "balance", F64, AT(balance), 0, 10, "0.01", "factor of the experts' balance loss"},
    {"train", "mtp_weight", F64, AT(mtp_weight), 0, 10, "0.3", "factor of the MTP loss"},
    {"train", "recompute", BOOL, AT(recompute), 0, 1, "false", "keep less in memory, compute forward twice"},
    {"train", "half", BOOL, AT(half), 0, 1, "false", "large matrix products in bf16 with float sums, where the processor has such (AMX)"},
    {"train", "method", STR, AT(method), 0, 0, "adamw", "adamw, or mezo: from losses alone, without gradients, in the memory of inference"},
    {"train", "mezo_eps", F64, AT(mezo_eps), 1e-8, 1, "1e-3", "mezo: length of the steps to both sides at which losses are compared"},
    {"train", "mezo_noise", STR, AT(noise), 0, 0, "gaussian", "mezo: directions, gaussian or rademacher (signs)"},
    {"run", "name", STR, AT(name), 0, 0, "", "name in the exported file"},
    {"run", "out", STR, AT(out), 0, 0, "run", "folder of checkpoint, log, plot and model"},
    {"run", "threads", I32, AT(n_threads), 0, 256, "0", "0: all cores"},
    {"run", "save_every", I32, AT(save_every), 0, 1000000000, "500", "steps between checkpoints; 0: at the end only"},
    {"run", "export", STR, AT(export_type), 0, 0, "f16", "type of the matrices in model.gguf; none: not written"},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

bool ch_train_config_help(ch_buf *out) {
    const char *section = "";
    for (size_t i = 0; i < N_KEYS; i++) {
        if (strcmp(section, keys[i].section) != 0) ch_buf_printf(out, "%s\"%s\":\n", i ? "\n" : "", section = keys[i].section);
        ch_buf_printf(out, "  %-14s %s%s%s%s\n", keys[i].name, keys[i].help, !keys[i].def ? " (needed)" : *keys[i].def ? " (" : "",
                      keys[i].def ? keys[i].def : "", keys[i].def && *keys[i].def ? ")" : "");
    }
    ch_buf_puts(out, "\n\"data\" and \"eval\" also hold \"sources\": [{\"path\": FILE, \"share\": 1, \"weight\": 1}, ...]\n"
                     "\"lora\" also holds \"targets\": [\"attn_q\", ...], tensors without \"blk.N.\" and \".weight\"; without them attention, delta net,\n"
                     "state space and feed-forward, but neither router nor routed experts\n");
    return !out->failed;
}

// ---- values -----------------------------------------------------------------------------------------------------------------------
static void set_number(ch_train_config *c, const key *k, double v) {
    char *at = (char *)c + k->at;
    if (k->type == I32) *(int32_t *)(void *)at = (int32_t)v;
    else if (k->type == F32) *(float *)(void *)at = (float)v;
    else if (k->type == BOOL) *(bool *)(void *)at = v != 0;
    else *(double *)(void *)at = v;
}

static int set_text(ch_train_config *c, const key *k, const char *s, size_t n, ch_error *e) {
    char *at = (char *)c + k->at;
    if (k->type == STR) {
        if (n > MAX_TEXT) return ch_error_set(e, CH_ELIMIT, "%s.%s: longer than %d bytes", k->section, k->name, MAX_TEXT);
        const char *copy = ch_arena_strndup(c->arena, s, n);
        if (!copy) return ch_error_set(e, CH_ENOMEM, "no memory");
        *(const char **)(void *)at = copy;
        return 0;
    }
    const size_t cap = k->type == ARCH ? sizeof c->model.arch : sizeof c->model.pattern;
    if (n >= cap) return ch_error_set(e, CH_ELIMIT, "%s.%s: longer than %zu bytes", k->section, k->name, cap - 1);
    memcpy(at, s, n);
    at[n] = 0;
    return 0;
}

static int set_default(ch_train_config *c, const key *k, ch_error *e) {
    if (!k->def) return 0;
    if (k->type >= STR) return *k->def ? set_text(c, k, k->def, strlen(k->def), e) : 0;
    set_number(c, k, k->type == BOOL ? strcmp(k->def, "true") == 0 : strtod(k->def, NULL));
    return 0;
}

static int set_value(ch_train_config *c, const key *k, const json_t *v, ch_error *e) {
    if (k->type >= STR) {
        if (!json_is_string(v)) return ch_error_set(e, CH_EFORMAT, "%s.%s: expected a text", k->section, k->name);
        if (memchr(json_string_value(v), 0, json_string_length(v))) return ch_error_set(e, CH_EFORMAT, "%s.%s: holds a zero byte", k->section, k->name);
        return set_text(c, k, json_string_value(v), json_string_length(v), e);
    }
    if (k->type == BOOL) {
        if (!json_is_boolean(v)) return ch_error_set(e, CH_EFORMAT, "%s.%s: expected true or false", k->section, k->name);
        set_number(c, k, json_is_true(v));
        return 0;
    }
    const double x = json_number_value(v);
    const bool whole = k->type != I32 || x == floor(x);
    if (!json_is_number(v) || !whole || !(x >= k->min && x <= k->max))
        return ch_error_set(e, CH_ERANGE, "%s.%s: expected a %snumber from %g to %g", k->section, k->name, k->type == I32 ? "whole " : "", k->min,
                            k->max);
    set_number(c, k, x);
    return 0;
}

// ---- sources ------------------------------------------------------------------------------------------------------------------------
static int read_source(ch_train_config *c, const json_t *v, const char *section, size_t i, ch_train_source *s, ch_error *e) {
    const char *name;
    json_t *x;
    *s = (ch_train_source){.share = 1, .weight = 1};
    if (!json_is_object(v)) return ch_error_set(e, CH_EFORMAT, "%s.sources[%zu]: expected an object", section, i);
    json_object_foreach((json_t *)(uintptr_t)v, name, x) {
        const double num = json_number_value(x);
        if (strcmp(name, "path") == 0 && json_is_string(x) && json_string_length(x) <= MAX_TEXT) {
            s->path = ch_arena_strndup(c->arena, json_string_value(x), json_string_length(x));
            if (!s->path) return ch_error_set(e, CH_ENOMEM, "no memory");
        } else if (strcmp(name, "share") == 0 && json_is_number(x) && num >= 0 && num <= 1000) {
            s->share = num;
        } else if (strcmp(name, "weight") == 0 && json_is_number(x) && num >= 0 && num <= 100) {
            s->weight = (float)num;
        } else {
            return ch_error_set(e, CH_EFORMAT, "%s.sources[%zu].%.40s: expected path (text), share (0 to 1000) or weight (0 to 100)", section, i, name);
        }
    }
    return s->path ? 0 : ch_error_set(e, CH_EFORMAT, "%s.sources[%zu]: path is missing", section, i);
}

static int read_sources(ch_train_config *c, const json_t *v, const char *section, ch_train_source *list, size_t *n, ch_error *e) {
    if (!json_is_array(v)) return ch_error_set(e, CH_EFORMAT, "%s.sources: expected an array", section);
    if (json_array_size(v) > CH_TRAIN_MAX_SOURCES)
        return ch_error_set(e, CH_ELIMIT, "%s.sources: more than %d", section, CH_TRAIN_MAX_SOURCES);
    int rc = 0;
    for (*n = 0; rc == 0 && *n < json_array_size(v); ++*n) rc = read_source(c, json_array_get(v, *n), section, *n, &list[*n], e);
    return rc;
}

static int read_targets(ch_train_config *c, const json_t *v, ch_error *e) {
    const size_t n = json_array_size(v);
    if (!json_is_array(v) || !n) return ch_error_set(e, CH_EFORMAT, "lora.targets: expected an array of texts");
    if (n > CH_TRAIN_MAX_TARGETS) return ch_error_set(e, CH_ELIMIT, "lora.targets: more than %d", CH_TRAIN_MAX_TARGETS);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(v, i);
        if (!json_is_string(x) || json_string_length(x) > MAX_TEXT) return ch_error_set(e, CH_EFORMAT, "lora.targets[%zu]: expected a text", i);
        c->adapters.target[i] = ch_arena_strndup(c->arena, json_string_value(x), json_string_length(x));
        if (!c->adapters.target[i]) return ch_error_set(e, CH_ENOMEM, "no memory");
    }
    c->adapters.n_target = n;
    return 0;
}

// ---- whole --------------------------------------------------------------------------------------------------------------------------
static int read_section(ch_train_config *c, const char *section, json_t *v, bool *seen, ch_error *e) {
    const char *name;
    json_t *x;
    bool known = false;
    for (size_t i = 0; i < N_KEYS; i++) known = known || strcmp(keys[i].section, section) == 0;
    if (!known) return ch_error_set(e, CH_EFORMAT, "\"%.40s\": expected model, lora, data, weights, eval, train or run", section);
    if (!json_is_object(v)) return ch_error_set(e, CH_EFORMAT, "\"%s\": expected an object", section);
    json_object_foreach(v, name, x) {
        int rc = 0;
        if (strcmp(name, "sources") == 0 && strcmp(section, "data") == 0) {
            rc = read_sources(c, x, section, c->source, &c->n_source, e);
        } else if (strcmp(name, "sources") == 0 && strcmp(section, "eval") == 0) {
            rc = read_sources(c, x, section, c->eval_source, &c->n_eval_source, e);
        } else if (strcmp(name, "targets") == 0 && strcmp(section, "lora") == 0) {
            rc = read_targets(c, x, e);
        } else {
            size_t i = 0;
            while (i < N_KEYS && (strcmp(keys[i].section, section) != 0 || strcmp(keys[i].name, name) != 0)) i++;
            if (i == N_KEYS) return ch_error_set(e, CH_EFORMAT, "%s.%.40s: no such key", section, name);
            seen[i] = true;
            rc = set_value(c, &keys[i], x, e);
        }
        if (rc) return rc;
    }
    return 0;
}

static int check(ch_train_config *c, const bool *seen, ch_error *e) {
    for (size_t i = 0; i < N_KEYS; i++) {
        const bool shape = strcmp(keys[i].section, "model") == 0, given = c->from && (shape || keys[i].at == AT(tokenizer));
        if (!keys[i].def && !seen[i] && !given) return ch_error_set(e, CH_EFORMAT, "%s.%s is missing", keys[i].section, keys[i].name);
        if (c->from && shape && seen[i] && keys[i].at != AT(from))
            return ch_error_set(e, CH_EFORMAT, "model.%s: model.from has it already", keys[i].name);
    }
    if (c->adapters.rank && !c->from) return ch_error_set(e, CH_EFORMAT, "lora.rank is %d, but model.from is missing", c->adapters.rank);
    if (!c->n_source) return ch_error_set(e, CH_EFORMAT, "data.sources is missing or empty");
    if (c->eval_every && !c->n_eval_source) return ch_error_set(e, CH_EFORMAT, "eval.every is %d, but eval.sources is missing", c->eval_every);
    static const char *const kinds[] = {"cosine", "wsd", "constant"};
    for (c->schedule_kind = 0; c->schedule_kind < 3 && strcmp(c->schedule, kinds[c->schedule_kind]) != 0;) c->schedule_kind++;
    if (c->schedule_kind == 3) return ch_error_set(e, CH_ERANGE, "train.schedule \"%.40s\": expected cosine, wsd or constant", c->schedule);
    c->mezo = strcmp(c->method, "mezo") == 0, c->noise_signs = strcmp(c->noise, "rademacher") == 0;
    if (!c->mezo && strcmp(c->method, "adamw") != 0) return ch_error_set(e, CH_ERANGE, "train.method \"%.40s\": expected adamw or mezo", c->method);
    if (!c->noise_signs && strcmp(c->noise, "gaussian") != 0)
        return ch_error_set(e, CH_ERANGE, "train.mezo_noise \"%.40s\": expected gaussian or rademacher", c->noise);
    if (c->mezo && c->average > 0) return ch_error_set(e, CH_ERANGE, "train.average: not with method mezo, which keeps the weights once");
    if (c->mezo && c->half) return ch_error_set(e, CH_ERANGE, "train.half: not with method mezo, whose losses lie too close together");
    if (c->seed != floor(c->seed)) return ch_error_set(e, CH_ERANGE, "data.seed: expected a whole number");
    return 0;
}

int ch_train_config_parse(ch_train_config *c, const char *text, size_t n, const char *name, ch_error *e) {
    memset(c, 0, sizeof *c);
    if (n > MAX_BYTES) return ch_error_set(e, CH_ELIMIT, "%s: larger than %d bytes", name, MAX_BYTES);
    bool seen[N_KEYS] = {false};
    json_error_t je;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
    int rc = 0;
    if (!root) return ch_error_set(e, CH_EFORMAT, "%s: line %d: %.120s", name, je.line, je.text);
    c->arena = ch_arena_create(0);
    if (!c->arena) rc = ch_error_set(e, CH_ENOMEM, "no memory");
    for (size_t i = 0; rc == 0 && i < N_KEYS; i++) rc = set_default(c, &keys[i], e);
    if (rc == 0 && !json_is_object(root)) rc = ch_error_set(e, CH_EFORMAT, "expected an object");
    const char *section;
    json_t *v;
    if (rc == 0)
        json_object_foreach(root, section, v)
            if (rc == 0) rc = read_section(c, section, v, seen, e);
    if (rc == 0) rc = check(c, seen, e);
    json_decref(root);
    if (rc) {
        if (e) ch_error_prefix(e, "%s", name);
        ch_train_config_free(c);
    }
    return rc;
}

int ch_train_config_read(ch_train_config *c, const char *path, ch_error *e) {
    ch_buf b = {.limit = MAX_BYTES};
    memset(c, 0, sizeof *c);
    int rc = ch_read_file(&b, path, e);
    if (rc == 0) rc = ch_train_config_parse(c, b.data, b.len, path, e);
    ch_buf_free(&b);
    return rc;
}

void ch_train_config_free(ch_train_config *c) { ch_arena_free(&c->arena); }

double ch_train_rate(const ch_train_config *c, uint64_t step) {
    const double s = (double)step, n = c->n_steps, up = c->warmup, pi = 3.14159265358979323846;
    if (s < up) return c->rate * (s + 1) / up;
    if (c->schedule_kind == CH_TRAIN_CONSTANT) return c->rate;
    const double from = c->schedule_kind == CH_TRAIN_WSD ? n - c->decay_steps : up;
    const double part = s < from ? 0 : n > from ? (s - from) / (n - from) : 1, p = part > 1 ? 1 : part;
    const double left = c->schedule_kind == CH_TRAIN_WSD ? 1 - p : 0.5 * (1 + cos(pi * p));
    return c->rate * (c->rate_end + (1 - c->rate_end) * left);
}
