// Pre-tokenizers: cut text into the pieces that byte-level BPE merges inside. Chosen by tokenizer.ggml.pre.
// Private to src/text (and its tests). A ch_text_pre is read-only once open and may be shared.
#ifndef CH_TEXT_PRE_H
#define CH_TEXT_PRE_H

#include "text/text.h"

enum {
    CH_PRE_IGNORE_MERGES = 1, // a piece that is a token is emitted as it is
    CH_PRE_ADD_BOS = 2,       // default of add_bos
    CH_PRE_NFC = 4            // the model's maker normalises text to NFC first
};

// As ch_text_pre_open; use_scanner false: regular expressions only, also where a hand-written scanner exists (tests compare the two).
int ch_text_pre_open_as(ch_text_pre **p, const char *name, size_t n, bool use_scanner, ch_error *e);
unsigned ch_text_pre_flags(const ch_text_pre *p);
const char *ch_text_pre_name_at(size_t i); // all known names; NULL past the end

// The hand-written scanner for three groups: end of the piece that begins at p < n.
typedef struct ch_text_scan {
    int max_digits; // numbers are cut after so many
    bool marks;     // combining marks count as letters
} ch_text_scan;
size_t ch_text_scan_piece(const ch_text_scan *k, const char *s, size_t n, size_t p);

#endif
