// Loss weights of a rendered chat: finds the turns of the assistant in what a template wrote, and weighs every byte by who
// wrote it. Private to src/train.
//
// What the template puts before an answer is asked of the template itself, by rendering a question with and without the
// beginning of an answer; an answer ends with the first end token (ch_vocab_is_eog) that the template wrote.
#ifndef CH_TRAIN_MARK_H
#define CH_TRAIN_MARK_H

#include "train/record.h"

typedef struct ch_mark ch_mark;
typedef struct ch_mark_result {
    const ch_record_part *part; // [n] in the marker, until the next call
    size_t n;
} ch_mark_result;
int ch_mark_open(ch_mark **m, const ch_template *t, const ch_vocab *v, const ch_train_weights *w, ch_error *e);
void ch_mark_free(ch_mark **m);
// chat: the record that was rendered to text[0..n) with its spans. An error when not every answer is found again.
int ch_mark_chat(ch_mark *m, const json_t *chat, const char *text, size_t n, const ch_span *span, size_t n_span,
                 ch_mark_result *out, ch_error *e);
// bos_token and eos_token of the template, as at generation.
int ch_mark_set_tokens(json_t *vars, const ch_vocab *v, ch_error *e);

#endif
