// Fuzz target of training files: the input is a file, read once as JSONL and once as plain text, chats rendered and weighed. Whatever
// it is, parts cover each document in order, spans cover each chat, weights are in range, and an error says where.
#include <stdlib.h>
#include <string.h>

#include "train/record.h"
#include "vocab_builder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char chat_template[] =
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}{%- if m.role == 'assistant' %}{{- '<think>\\n' }}"
    "{{- m.reasoning_content }}{{- '\\n</think>\\n\\n' }}{%- endif %}{{- m.content }}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- if enable_thinking is false %}"
    "{{- '\\n</think>\\n\\n' }}{%- endif %}{%- endif %}";

static ch_vocab *open_vocab(void) {
    static const char *const token[] = {"a", "<|im_start|>", "<|im_end|>"};
    static const int32_t type[] = {CH_TOKEN_NORMAL, CH_TOKEN_CONTROL, CH_TOKEN_CONTROL};
    vocab_builder b = {0};
    ch_vocab *v = NULL;
    vb_put_str(&b, "tokenizer.ggml.model", "gpt2");
    vb_put_str(&b, "tokenizer.ggml.pre", "qwen35");
    vb_put_strs(&b, "tokenizer.ggml.tokens", token, 3);
    vb_put_i32s(&b, "tokenizer.ggml.token_type", type, 3);
    vb_put_strs(&b, "tokenizer.ggml.merges", NULL, 0);
    vb_put_u32(&b, "tokenizer.ggml.eos_token_id", 2);
    if (vb_open(&b, &v, NULL))
        abort();
    return v;
}

static void check(const ch_record *d) {
    size_t at = 0;
    for (size_t i = 0; i < d->n_part; i++) {
        if (d->part[i].end <= at || !(d->part[i].weight >= 0 && d->part[i].weight <= CH_RECORD_MAX_WEIGHT * CH_RECORD_MAX_WEIGHT))
            abort();
        at = d->part[i].end;
    }
    if (at != d->n || (d->n && !d->text) || !d->line)
        abort();
    at = 0;
    for (size_t i = 0; i < d->n_span; i++) {
        if (d->span[i].begin != at || d->span[i].end < at)
            abort();
        at = d->span[i].end;
    }
    if (d->chat && at != d->n)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ch_vocab *v;
    if (!v)
        v = open_vocab();
    static const char *const name[] = {"f.jsonl", "f.txt"};
    ch_record_params p = {.template_text = chat_template, .n_template = sizeof chat_template - 1, .vocab = v};
    ch_train_weights_init(&p.weights);
    ch_record_reader *r = NULL;
    if (ch_record_reader_open(&r, &p, NULL))
        abort();
    for (int i = 0; i < 2; i++) {
        ch_error e = {0};
        ch_record d;
        int rc = ch_record_read_memory(r, name[i], data, size, &e);
        while (!rc && (rc = ch_record_next(r, &d, &e)) == 1) {
            check(&d);
            rc = 0;
        }
        if (rc < 0 && (e.code != rc || strncmp(e.msg, name[i], strlen(name[i])) != 0 || !strstr(e.msg, ": line ")))
            abort();
    }
    ch_record_reader_free(&r);
    return 0;
}
