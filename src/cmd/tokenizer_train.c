// chimere tokenizer-train: byte-level BPE from text.
#include <string.h>

#include "cmd/cmd.h"
#include "train/train.h"

static const int option[] = {CH_OPT_OUT,     CH_OPT_BPE_VOCAB, CH_OPT_BPE_PRE, CH_OPT_BPE_CONTROL,
                             CH_OPT_BPE_TAG, CH_OPT_BPE_EOS,   CH_OPT_BPE_PAD, CH_OPT_BPE_TEMPLATE};
static const ch_cmd_spec spec = {
    .name = "tokenizer-train",
    .usage = "-o OUT.gguf [--vocab 4096] [--pre qwen35] [--template FILE] FILE...",
    .about = "Learns the merges of a byte-level BPE tokenizer from text and writes a GGUF file that holds the vocabulary alone.\n"
             "FILE.jsonl holds a record per line, {\"messages\": [...]} or {\"text\": \"...\"}; any other file is plain text. Chats are\n"
             "rendered through the template. Without --control and --tag the special tokens are those of ChatML with thinking\n"
             "and tools: <|endoftext|>, <|im_start|>, <|im_end|>; <think>, <tool_call>, <tool_response> and their closing tags.",
    .examples = "  chimere tokenizer-train -o vocab.gguf --vocab 4096 --template chat.jinja corpus.jsonl stories.txt\n",
    .option = option,
    .n_option = sizeof option / sizeof *option,
    .min_args = 1,
    .max_args = 64,
};

static const char *const usual[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>",      "<think>",          "</think>",
                                    "<tool_call>",   "</tool_call>", "<tool_response>", "</tool_response>"};
enum { USUAL_CONTROL = 3, N_USUAL = sizeof usual / sizeof *usual };

// Special tokens as given, control tokens first; the usual ones when none are given.
static void read_special(const ch_cmd_options *o, const char **list, ch_train_bpe_params *p) {
    for (int k = 0; ch_opt_nth(o, CH_OPT_BPE_CONTROL, k); k++)
        list[p->n_special++] = ch_opt_nth(o, CH_OPT_BPE_CONTROL, k);
    p->n_control = p->n_special;
    for (int k = 0; ch_opt_nth(o, CH_OPT_BPE_TAG, k); k++)
        list[p->n_special++] = ch_opt_nth(o, CH_OPT_BPE_TAG, k);
    p->special = list;
    if (!p->n_special) {
        p->special = usual;
        p->n_special = N_USUAL;
        p->n_control = USUAL_CONTROL;
    }
    p->pad = ch_opt_text(o, CH_OPT_BPE_PAD);
    p->eos = ch_opt_text(o, CH_OPT_BPE_EOS);
    if (!p->pad && p->n_control)
        p->pad = p->special[0];
    if (!p->eos && p->n_control)
        p->eos = p->special[p->n_control - 1];
}

int ch_cmd_tokenizer_train(int argc, char **argv) {
    ch_cmd_options o;
    int code;
    if (!ch_cmd_parse(&o, &spec, argc, argv, &code))
        return code;
    ch_error e = {0};
    ch_buf source = {.limit = 1u << 24};
    const char *list[CH_OPT_MAX_TEXTS], *out = ch_opt_text(&o, CH_OPT_OUT), *tpl = ch_opt_text(&o, CH_OPT_BPE_TEMPLATE);
    ch_cmd_progress bar = {.quiet = ch_opt_bool(&o, CH_OPT_QUIET)};
    ch_train_bpe_params p = {.n_vocab = (int32_t)ch_opt_int(&o, CH_OPT_BPE_VOCAB),
                             .pre = ch_opt_text(&o, CH_OPT_BPE_PRE),
                             .path = o.args,
                             .n_path = (size_t)o.n_args,
                             .progress = ch_cmd_show_progress,
                             .progress_user = &bar};
    ch_train_bpe_info info = {0};
    if (!out) {
        ch_cmd_options_free(&o);
        return ch_cmd_fail(spec.name, CH_EXIT_USAGE, "name the file to write: -o OUT.gguf");
    }
    read_special(&o, list, &p);
    int rc = tpl ? ch_read_file(&source, tpl, &e) : 0;
    if (!rc && tpl) {
        p.template_text = source.data ? source.data : "";
        p.n_template = source.len;
    }
    if (!rc)
        rc = ch_train_bpe(out, &p, &info, &e);
    ch_cmd_end_progress(&bar);
    if (rc)
        code = ch_cmd_fail_error(spec.name, &e);
    else
        code = CH_EXIT_OK;
    int32_t n_token = 256 + info.n_merges + (int32_t)p.n_special;
    if (!rc && !bar.quiet)
        fprintf(stderr, "wrote %s: %d tokens, %.2f bytes per token on %.1f MB of text\n", out, n_token,
                info.n_tokens ? (double)info.n_bytes / (double)info.n_tokens : 0, (double)info.n_bytes * 1e-6);
    if (!rc && !bar.quiet && n_token < p.n_vocab)
        fprintf(stderr, "fewer than the %d asked for: no further pair occurs twice in the text\n", p.n_vocab);
    ch_buf_free(&source);
    ch_cmd_options_free(&o);
    return code;
}
