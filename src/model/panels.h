// Private to model: the file of packed weights (docs/FORMATS.md, "Panel files") and its place among a model's files.
#ifndef CH_MODEL_PANELS_H
#define CH_MODEL_PANELS_H

#include "model/internal.h"

enum { CH_PANELS_ALIGN = 4096, CH_PANELS_MAX_ENTRIES = 1 << 18, CH_PANELS_NAME = 72 };

// Both as in the file.
typedef struct ch_panels_header {
    char magic[8];
    uint32_t version, n_entry;
    uint64_t key; // what the panels were made from: model file, tier, layout
    uint64_t data_off, trailer_off, file_bytes;
    uint32_t layout, zero;
    char tier[16];
    uint8_t unused[48];
    uint64_t sum; // of the bytes before it and of the table
} ch_panels_header;
typedef struct ch_panels_entry {
    uint64_t id; // of the matrix: name, shape, samples of its values
    uint64_t offset, bytes, n_in, n_out, n_mat;
    uint32_t type, zero;
    char name[CH_PANELS_NAME];
} ch_panels_entry;

// A parsed file; borrows its bytes.
typedef struct ch_panels {
    const uint8_t *data;
    const ch_panels_header *header;
    const ch_panels_entry *entry; // [header->n_entry]
    const uint64_t *sum;          // [n_entry], of each entry's bytes
    uint64_t checked;             // ch_panels_seal when all sums were found right
} ch_panels;

// Lays the entries out (their offsets) and fills in the header; entries' other fields are set. CH_ELIMIT: sizes overflow.
int ch_panels_layout(ch_panels_header *h, ch_panels_entry *entry, size_t n_entry, ch_error *e);
// Everything but the sums of the entries' bytes. data: 8-byte aligned.
int ch_panels_parse(ch_panels *p, const uint8_t *data, size_t size, ch_error *e);
int ch_panels_sum(ch_pool *pool, const uint8_t *data, uint64_t n, uint64_t *sum, ch_error *e);
int ch_panels_check_sums(const ch_panels *p, ch_pool *pool, ch_progress_fn progress, void *user, ch_error *e);
uint64_t ch_panels_trailer_sum(const uint64_t *sum, size_t n_entry);

// Makes every weight of m read panels from a file of the cache, written first when there is no good one. 0: done. 1: not
// possible (the reason was logged), weights are as before. CH_ECANCELLED.
int ch_model_map_panels(ch_model *m, const ch_model_params *p, ch_error *e);

#endif
