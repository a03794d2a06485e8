// text: what turns words into token ids and back: tokenizers, incremental detokenizer, chat templates (Jinja) and the
// splitter of thinking from answer. It knows GGUF keys of the tokenizer; nothing of tensors or of HTTP.
//
// Threading: a ch_vocab and a ch_template are read-only once made and may be shared; detokenizers belong to one thread.
#ifndef CH_TEXT_H
#define CH_TEXT_H

#include <jansson.h>

#include "base/base.h"
#include "gguf/gguf.h"

// ---- vocabulary and tokenizer -------------------------------------------------------------------------------------------
typedef struct ch_vocab ch_vocab;

// tokenizer.ggml.token_type
enum {
    CH_TOKEN_NORMAL = 1, CH_TOKEN_UNKNOWN = 2, CH_TOKEN_CONTROL = 3, CH_TOKEN_USER = 4, CH_TOKEN_UNUSED = 5,
    CH_TOKEN_BYTE = 6
};

// Reads tokenizer.ggml.*; tokenizer models "gpt2" (byte-level BPE; an unknown tokenizer.ggml.pre is an error naming it),
// and "llama" (SentencePiece-style BPE with byte fall-back). Everything is copied: g may be closed afterwards.
int ch_vocab_open(ch_vocab **v, const ch_gguf *g, ch_error *e);
void ch_vocab_free(ch_vocab **v);
int32_t ch_vocab_n(const ch_vocab *v);
const char *ch_vocab_text(const ch_vocab *v, int32_t id, size_t *n); // as stored in the file; NULL: no such id
int ch_vocab_type(const ch_vocab *v, int32_t id);                    // CH_TOKEN_*
int32_t ch_vocab_find(const ch_vocab *v, const char *text, size_t n); // token whose stored text is exactly this; -1: none
// -1 where the file has none.
int32_t ch_vocab_bos(const ch_vocab *v);
int32_t ch_vocab_eos(const ch_vocab *v);
int32_t ch_vocab_pad(const ch_vocab *v);
bool ch_vocab_add_bos(const ch_vocab *v);
bool ch_vocab_add_eos(const ch_vocab *v);
bool ch_vocab_is_eog(const ch_vocab *v, int32_t id); // ends a generation (architectures.md 4.8)

typedef struct ch_tokens {
    int32_t *id;
    size_t n, cap;
} ch_tokens; // start from {0}
bool ch_tokens_push(ch_tokens *t, int32_t id);
void ch_tokens_free(ch_tokens *t);

enum {
    CH_TOK_SPECIAL = 1, // spellings of control tokens in the text become those tokens (templates); off: plain text (messages)
    CH_TOK_BOS_EOS = 2  // add bos/eos as the file asks (never a second bos)
};
// Appends the ids of text[0..n), at most 64 MiB, to out. User-defined tokens (type 4, and tags that are typed as normal but that
// no merge makes) are matched with or without CH_TOK_SPECIAL, as in the reference. Where the model's maker normalises (qwen2:
// NFC), so do we. On an error out is as it was. Invalid UTF-8 is kept byte for byte where the vocabulary can express it.
// Time is near-linear in n for any input. Errors: CH_ENOMEM, CH_ELIMIT.
int ch_tokenize(const ch_vocab *v, const char *text, size_t n, unsigned flags, ch_tokens *out, ch_error *e);

// Text split in pieces of two kinds, so that template literals are parsed for special tokens and message text is not.
typedef struct ch_span {
    size_t begin, end;
    bool literal; // true: written by the template; false: came from a message or tool (never parsed for control tokens)
} ch_span;
// Tokenises text with its spans (in order, covering it, else CH_ERANGE). Control spellings count only where they lie wholly in
// literal text (spans side by side are one). So do user-defined tokens shaped like markers (<think>, [INST], |||X|||), which
// templates and models use as structure: message text never becomes one. Other user-defined tokens (runs of spaces, words)
// match anywhere. The pre-tokenizer still sees across the borders of spans, as if the text were one string.
int ch_tokenize_spans(const ch_vocab *v, const char *text, size_t n, const ch_span *span, size_t n_span, unsigned flags,
                      ch_tokens *out, ch_error *e);

// Bytes of one token when printed; special: control tokens print their spelling, else nothing. Returns its byte count,
// *p points into the vocabulary or (byte tokens, mapped pieces) to memory that lives as long as v.
size_t ch_vocab_piece(const ch_vocab *v, int32_t id, bool special, const char **p);

// Incremental detokenizer: never emits half a character; a byte that can no longer become valid UTF-8 is emitted as U+FFFD.
typedef struct ch_detok {
    const ch_vocab *v;
    bool special;
    bool start;  // no token seen yet (SentencePiece strips one leading space)
    char held[4];
    int n_held;
} ch_detok;
void ch_detok_init(ch_detok *d, const ch_vocab *v, bool special);
bool ch_detok_push(ch_detok *d, int32_t id, ch_buf *out); // false: out failed
bool ch_detok_finish(ch_detok *d, ch_buf *out);           // held bytes become U+FFFD
int ch_detokenize(const ch_vocab *v, const int32_t *id, size_t n, bool special, ch_buf *out); // raw bytes, whole text

// ---- what a tokenizer is trained with -----------------------------------------------------------------------------------
// Pre-tokenizer by its name in files (tokenizer.ggml.pre): cuts text into the pieces that merging stays inside.
typedef struct ch_text_pre ch_text_pre;
typedef int (*ch_text_piece_fn)(void *user, size_t begin, size_t end); // not 0: stop and return it
int ch_text_pre_open(ch_text_pre **p, const char *name, size_t n, ch_error *e);
void ch_text_pre_free(ch_text_pre **p);
// Calls fn for the pieces of text[0..n) in order; they cover it. Bytes that are not UTF-8 count as neither letter, number
// nor space.
int ch_text_pre_split(const ch_text_pre *p, const char *text, size_t n, ch_text_piece_fn fn, void *user, ch_error *e);
size_t ch_text_byte_char(uint8_t byte, char out[4]); // byte-level BPE: printable character of a byte, its length

// ---- chat templates -----------------------------------------------------------------------------------------------------
// A Jinja template, parsed once. Same output as Jinja2 with trim_blocks, lstrip_blocks and the globals of the model
// makers' renderer: raise_exception(message), strftime_now(format), and `tojson` without HTML escapes.
typedef struct ch_template ch_template;
int ch_template_parse(ch_template **t, const char *source, size_t n, ch_error *e); // e: line, what was expected and found
void ch_template_free(ch_template **t);

typedef struct ch_template_limits {
    size_t max_output; // bytes; 0: 64 MiB
    uint64_t max_steps; // evaluated nodes and produced elements; 0: 50 million
    int max_depth;      // nested calls, expressions and values; 0: 200
    int64_t now;        // seconds since 1970 for strftime_now (UTC); 0: the clock
    size_t max_memory;  // bytes for values; 0: 256 MiB
} ch_template_limits;
// vars: JSON object of the template's variables (messages, tools, add_generation_prompt, bos_token, ...).
// out: rendered text. spans (NULL allowed): which bytes come from template literals and which from vars; *spans is a new
// array (ch_free), n_spans set. The variables bos_token and eos_token count as the template's own words (callers must not
// let clients set them), no other bytes of variables do. A raise_exception gives CH_EFORMAT with its message.
int ch_template_render(const ch_template *t, const json_t *vars, const ch_template_limits *lim, ch_buf *out,
                       ch_span **spans, size_t *n_spans, ch_error *e);
// Whether the source mentions a variable name (to know if a template handles "enable_thinking", "tools", ...).
bool ch_template_mentions(const ch_template *t, const char *name);

// ---- thinking -----------------------------------------------------------------------------------------------------------
// Splits generated text into reasoning and answer at <think> ... </think>, incrementally and the same for every way of
// cutting the input. Line breaks (LF) next to a tag are dropped; line breaks at the end of the text are kept. Nothing else is
// lost: a second block is reasoning too (further blocks of one kind are joined by a line break), an unclosed one is all
// reasoning, a closing tag outside and an opening tag inside are text; only at the very start of a block that the prompt
// opened is a repeated opening tag dropped.
typedef struct ch_think { // all private
    int state;
    char held[16]; // possible beginning of a tag
    int n_held;
    uint64_t n_breaks; // line breaks that may still stand before a tag
    bool trim;         // just after a tag: line breaks are dropped
    bool joined;       // the next text follows an earlier block of its kind, if there was one
    bool reopen;       // nothing seen yet in a block that the prompt opened
    bool any_reasoning, any_answer;
} ch_think;
void ch_think_init(ch_think *t, bool inside); // inside: the prompt already opened the think block
bool ch_think_push(ch_think *t, const char *text, size_t n, ch_buf *reasoning, ch_buf *answer);
bool ch_think_finish(ch_think *t, ch_buf *reasoning, ch_buf *answer);

#endif
