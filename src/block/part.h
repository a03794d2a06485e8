// Private to block: placing a recurrent state.
#ifndef CH_BLOCK_PART_H
#define CH_BLOCK_PART_H

#include "block/block.h"

// Appends slab_bytes to the slab and journal_row floats to a journal row.
typedef struct ch_block_place {
    size_t slab_bytes, journal_row;
    void (*commit)(const void *block, ch_step *st);
    const void *block;
} ch_block_place;

static inline void ch_block_place_state(ch_layout *l, const ch_block_place *p, size_t *slab_off, size_t *journal_off, ch_recurrent *rec) {
    *slab_off = l->slab_bytes, *journal_off = l->journal_row;
    l->slab_bytes += p->slab_bytes, l->journal_row += p->journal_row;
    *rec = (ch_recurrent){p->commit, p->block, l->recurrent};
    l->recurrent = rec;
}

size_t ch_block_kv_rotation(const ch_layout *l, const ch_type_info *t, size_t n); // of rows of n values; 0: none

#endif
