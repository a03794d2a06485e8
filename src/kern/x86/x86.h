// kern/x86, private: entry points of the ISA files, called by init.c after the processor was checked.
#ifndef CH_KERN_X86_X86_H
#define CH_KERN_X86_X86_H

#include "kern/tier.h"

void ch_kern_set_mat_avx2(ch_kern *k);
void ch_kern_set_rows_avx2(ch_kern *k);
void ch_kern_set_mixers_avx2(ch_kern *k);
void ch_kern_set_attn_avx2(ch_kern *k); // called by set_mixers
void ch_kern_set_mat_avx512(ch_kern *k);
void ch_kern_set_rows_avx512(ch_kern *k);
void ch_kern_set_mixers_avx512(ch_kern *k);

struct ch_panel_spec;
// One panel of up to 16 rows (file form, row_bytes apart) to dst (ch_panel_bytes, 64-byte aligned). Missing rows are zero.
void ch_kern_pack_panel_avx2(const struct ch_panel_spec *s, const ch_type_info *t, const uint8_t *rows, size_t row_bytes,
                             size_t n_rows, size_t n_in, uint8_t *dst);

// y[t][r] for the float types and, row by decoded row, for types without a panel. act: f32 rows.
void ch_kern_matmul_float_avx2(const ch_mat *m, size_t r0, size_t r1, const void *act, size_t ld_act, size_t n_tok,
                               float *y, size_t ld_y, void *work);
size_t ch_kern_float_work_bytes_avx2(size_t n_in);

#endif
