// A byte-level BPE vocabulary: 256 bytes, merges that build common words, special tokens, filler up to the wanted size; and
// a chat template.
#include <stdio.h>
#include <string.h>

#include "synth/part.h"

// Merged left to right behind a space, so every prefix is a token too.
static const char *const words[] = {
    "the",     "and",    "that",   "this",    "with",   "from",    "have",   "they",   "will",    "what",   "when",   "where",
    "there",   "their",  "which",  "would",   "could",  "about",   "after",  "before", "again",   "other",  "people", "water",
    "little",  "house",  "morning", "evening", "answer", "question", "number", "letter", "river",   "mountain", "garden", "window",
    "because", "between", "through", "without", "another", "something", "nothing", "everything", "always", "never", "often",  "small",
    "large",   "green",  "yellow", "purple",  "orange", "winter",  "summer", "spring", "friend",  "mother", "father", "sister",
    "brother", "school", "teacher", "story",  "music",  "paper",   "table",  "chair",  "bread",   "apple",  "horse",  "bird",
    "listen",  "speak",  "write",  "read",    "learn",  "travel",  "carry",  "bring",  "build",   "open",   "close",  "begin",
    "second",  "minute", "hour",   "week",    "month",  "year",    "north",  "south",  "east",    "west",   "light",  "dark",
    "user",    "system", "assistant", "tool", "model",  "weight",  "memory", "vector", "token",   "state",  "layer",  "chimera",
};
static const char *const doubles[] = {"\n\n", "  ", "''", "--", "==", "..", "00", "10", "20"};

static const struct {
    const char *text;
    int32_t type; // 3 control, 4 user-defined
} specials[] = {
    {"<|endoftext|>", 3}, {"<|im_start|>", 3}, {"<|im_end|>", 3},      {"<think>", 4},         {"</think>", 4},
    {"<tool_call>", 4},   {"</tool_call>", 4}, {"<tool_response>", 4}, {"</tool_response>", 4},
};
#define N_SPECIALS (sizeof specials / sizeof *specials)
#define MAX_MERGES 1024

static const char chat_template[] =
    "{%- for message in messages %}\n"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "{{- '<|im_start|>assistant\\n' }}\n"
    "{%- if enable_thinking is defined and not enable_thinking %}\n"
    "{{- '<think>\\n\\n</think>\\n\\n' }}\n"
    "{%- endif %}\n"
    "{%- endif %}\n";

// ---- byte-level text --------------------------------------------------------------------------------------------------
static bool prints_as_itself(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174; }

// The printable character that stands for a byte: itself, or the n-th of the others as U+0100 + n.
static uint32_t char_of_byte(int byte) {
    if (prints_as_itself(byte)) return (uint32_t)byte;
    uint32_t n = 0;
    for (int b = 0; b < byte; b++) n += !prints_as_itself(b);
    return 256 + n;
}

typedef struct vocab {
    ch_arena *arena;
    ch_gguf_str *token; // [cap]
    int32_t *type;      // [cap]
    size_t n, cap;
    ch_gguf_str *merge; // [MAX_MERGES]
    size_t n_merges, max_merges;
    bool failed;
} vocab;

static void add_token(vocab *v, const char *s, size_t n, int32_t type) {
    char *copy = v->n < v->cap ? ch_arena_strndup(v->arena, s, n) : NULL;
    if (!copy) {
        v->failed = true;
        return;
    }
    v->token[v->n] = (ch_gguf_str){copy, n};
    v->type[v->n++] = type;
}

static bool have_token(const vocab *v, const char *s, size_t n) {
    for (size_t i = 0; i < v->n; i++)
        if (v->token[i].n == n && memcmp(v->token[i].p, s, n) == 0) return true;
    return false;
}

// Adds the merges that join the bytes of text from left to right.
static void add_word(vocab *v, const char *text) {
    char joined[128], merge[160];
    size_t n = ch_utf8_encode(char_of_byte((uint8_t)text[0]), joined);
    for (const char *p = text + 1; *p; p++) {
        char next[4];
        size_t k = ch_utf8_encode(char_of_byte((uint8_t)*p), next);
        if (n + k > sizeof joined) return;
        memcpy(joined + n, next, k);
        if (!have_token(v, joined, n + k)) {
            if (v->n_merges >= v->max_merges) return;
            int len = snprintf(merge, sizeof merge, "%.*s %.*s", (int)n, joined, (int)k, next);
            char *copy = ch_arena_strndup(v->arena, merge, (size_t)len);
            if (!copy) {
                v->failed = true;
                return;
            }
            v->merge[v->n_merges++] = (ch_gguf_str){copy, (size_t)len};
            add_token(v, joined, n + k, 1);
        }
        n += k;
    }
}

static void fill_vocab(vocab *v) {
    char text[64];
    for (int b = 0; b < 256; b++) add_token(v, text, ch_utf8_encode(char_of_byte(b), text), 1);
    v->max_merges = v->cap - 256 - N_SPECIALS;
    if (v->max_merges > MAX_MERGES) v->max_merges = MAX_MERGES;
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) add_word(v, doubles[i]);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(text, sizeof text, " %s", words[i]);
        add_word(v, text);
    }
    for (size_t i = 0; i < N_SPECIALS; i++) add_token(v, specials[i].text, strlen(specials[i].text), specials[i].type);
    while (v->n < v->cap && !v->failed) {
        int n = snprintf(text, sizeof text, "[PAD%zu]", v->n);
        add_token(v, text, (size_t)n, 5);
    }
}

int ch_synth_put_vocab(ch_gguf_writer *w, const ch_synth_shape *s, ch_error *e) {
    vocab v = {.arena = ch_arena_create(0), .cap = (size_t)s->n_vocab};
    int rc = CH_ENOMEM;
    if (!v.arena) return ch_error_set(e, rc, "no memory for the vocabulary");
    v.token = ch_arena_alloc(v.arena, v.cap * sizeof *v.token);
    v.type = ch_arena_alloc(v.arena, v.cap * sizeof *v.type);
    v.merge = ch_arena_alloc(v.arena, MAX_MERGES * sizeof *v.merge);
    if (v.token && v.type && v.merge) {
        fill_vocab(&v);
        size_t first_special = 256 + v.n_merges;
        bool marks = s->attn_interval > 0 && strcmp(s->arch, "qwen3next") != 0;
        const char *pre = marks ? "qwen35" : "qwen2";
        rc = v.failed ? CH_ENOMEM : 0;
        if (rc == 0) rc = ch_gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
        if (rc == 0) rc = ch_gguf_put_str(w, "tokenizer.ggml.pre", pre, strlen(pre));
        if (rc == 0) rc = ch_gguf_put_arr_str(w, "tokenizer.ggml.tokens", v.token, v.n);
        if (rc == 0) rc = ch_gguf_put_arr(w, "tokenizer.ggml.token_type", CH_GGUF_I32, v.type, v.n);
        if (rc == 0) rc = ch_gguf_put_arr_str(w, "tokenizer.ggml.merges", v.merge, v.n_merges);
        if (rc == 0) rc = ch_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)first_special + 2);
        if (rc == 0) rc = ch_gguf_put_u32(w, "tokenizer.ggml.padding_token_id", (uint32_t)first_special);
        if (rc == 0) rc = ch_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
        if (rc == 0) rc = ch_gguf_put_str(w, "tokenizer.chat_template", chat_template, sizeof chat_template - 1);
    }
    ch_arena_free(&v.arena);
    return rc == 0 ? 0 : ch_error_set(e, rc, "vocabulary of %d tokens: %s", s->n_vocab, ch_error_name(rc));
}
