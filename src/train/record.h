// Records: documents read one by one from text and JSONL files, chats rendered through a template, every byte with its loss
// weight. Private to src/train.
//
// Threading, ownership: a reader belongs to one thread; a document points into it and holds until the next call.
#ifndef CH_TRAIN_RECORD_H
#define CH_TRAIN_RECORD_H

#include "train/data.h"

#define CH_RECORD_MAX_LINE (16u << 20)   // bytes of a record, and of a document of a plain text file
#define CH_RECORD_MAX_MESSAGES 4096      // of a chat
#define CH_RECORD_MAX_SPANS 65536        // of a text record
#define CH_RECORD_MAX_WEIGHT 100

// A stretch of a document with one loss weight; parts follow each other and cover the text.
typedef struct ch_record_part {
    size_t end;
    float weight;
} ch_record_part;

typedef struct ch_record {
    const char *text;
    size_t n;
    const ch_span *span; // [n_span] which bytes are the template's own (chats), cover the text
    size_t n_span;       // 0: plain text, no byte is
    const ch_record_part *part;
    size_t n_part;
    bool chat;
    size_t line; // where it begins in the file
} ch_record;

typedef struct ch_record_reader ch_record_reader;
typedef struct ch_record_params {
    const char *template_text; // [n_template] NULL: chats are refused
    size_t n_template;
    const ch_vocab *vocab; // NULL: weights of chats do not matter (all 1)
    ch_train_weights weights;
} ch_record_params;
// One reader reads file after file.
int ch_record_reader_open(ch_record_reader **r, const ch_record_params *p, ch_error *e);
void ch_record_reader_free(ch_record_reader **r);
int ch_record_read_file(ch_record_reader *r, const char *path, ch_error *e); // begins a file; the one before is closed
// As a file of that name with these bytes, which must outlive its reading (tests, fuzzing).
int ch_record_read_memory(ch_record_reader *r, const char *path, const void *data, size_t n, ch_error *e);
// 1: *out is the next document; 0: end of the file; negative: e names file and line.
int ch_record_next(ch_record_reader *r, ch_record *out, ch_error *e);
size_t ch_record_offset(const ch_record_reader *r); // bytes read of the file
size_t ch_record_size(const ch_record_reader *r);   // bytes of the file
uint64_t ch_record_hash(const ch_record_reader *r); // of its content

#endif
