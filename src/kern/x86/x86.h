// kern/x86, private: entry points of the ISA files, called by init.c after the processor was checked, and what they share.
#ifndef CH_KERN_X86_X86_H
#define CH_KERN_X86_X86_H

#include "kern/tier.h"
#include "kern/x86/panel.h"

void ch_kern_set_act_avx2(ch_kern *k); // packing
void ch_kern_set_mat_avx2(ch_kern *k); // the product; after set_act
void ch_kern_set_rows_avx2(ch_kern *k);
void ch_kern_set_conv_avx2(ch_kern *k);
void ch_kern_set_delta_avx2(ch_kern *k);
void ch_kern_set_scan_avx2(ch_kern *k);
void ch_kern_set_gemm_avx2(ch_kern *k);
void ch_kern_set_attn_avx2(ch_kern *k);
void ch_kern_set_chunk_avx2(ch_kern *k);
void ch_kern_set_bf16_avx2(ch_kern *k);
void ch_kern_set_rows_avx512(ch_kern *k);
void ch_kern_set_conv_avx512(ch_kern *k);
void ch_kern_set_delta_avx512(ch_kern *k);
void ch_kern_set_scan_avx512(ch_kern *k);
void ch_kern_set_mat_avx512(ch_kern *k);  // needs VNNI
void ch_kern_set_gemm_avx512(ch_kern *k);
void ch_kern_set_attn_avx512(ch_kern *k);
void ch_kern_set_chunk_avx512(ch_kern *k);
void ch_kern_set_mat_amx(ch_kern *k);     // above AVX-512, where the process may use tiles
void ch_kern_set_gemm_amx(ch_kern *k);    // likewise, with tiles of bf16
void ch_kern_set_mat_emulated(ch_kern *k); // tests/checkkern: the same out of AVX2 instructions
void ch_kern_set_mat_amx_emulated(ch_kern *k);
void ch_kern_set_attn_emulated(ch_kern *k);
void ch_kern_set_gemm_emulated(ch_kern *k);
void ch_kern_set_gemm_amx_emulated(ch_kern *k);

// A matmul entry's arguments.
typedef struct ch_mat_call {
    const ch_mat *m;
    size_t r0, r1;
    const void *act;
    size_t ld_act, n_tok;
    float *y;
    size_t ld_y;
    void *work;
} ch_mat_call;

// One panel of up to 16 rows (file form, row_bytes apart) to dst (ch_panel_bytes, 64-byte aligned). Missing rows are zero.
void ch_kern_pack_panel_avx2(const ch_panel_spec *s, const ch_type_info *t, const uint8_t *rows, size_t row_bytes,
                             size_t n_rows, size_t n_in, uint8_t *dst);

// mat_panels.c: entries of the table, and the product with one type's kernel.
size_t ch_kern_panels_bytes(const ch_type_info *t, size_t n_in, size_t n_out);
void ch_kern_panels_pack(const ch_mat *m, size_t r0, size_t r1);
size_t ch_kern_panels_work_bytes(const ch_type_info *t, size_t n_in);
void ch_kern_matmul_panels(const ch_mat_call *c, const ch_panel_spec *s, ch_panel_fn fn);

// mat_avx512.c: what the AMX tier leaves to it.
const ch_panel_kernel *ch_kern_panel_avx512(int type);
void ch_kern_matmul_avx512(const ch_mat_call *c);

// The float types as they lie and, row by decoded row, types without a panel. Activations: f32 rows.
enum { CH_FLOAT_ROWS = 4 }; // rows decoded at a time
void ch_kern_matmul_float_avx2(const ch_mat_call *c);
void ch_kern_matmul_float_avx512(const ch_mat_call *c);

// Floats of a decoded row in work.
static inline size_t ch_kern_float_row(size_t n_in) {
    return (n_in + 15) & ~(size_t)15;
}

static inline size_t ch_kern_float_work_bytes(size_t n_in) {
    return CH_FLOAT_ROWS * ch_kern_float_row(n_in) * sizeof(float);
}

// Tokens per pass over the rows: as many as the second-level cache holds, but not so few that decoding rows again for each
// pass shows. Types other than f32, f16, bf16 decode slowly and are walked once.
static inline size_t ch_kern_float_step(const ch_mat_call *c) {
    enum { CACHE = 192 * 1024 };
    const ch_type t = c->m->type->id;
    if (c->ld_act * c->n_tok <= CACHE || (t != CH_TYPE_F32 && t != CH_TYPE_F16 && t != CH_TYPE_BF16)) return c->n_tok;
    const size_t n = CACHE / c->ld_act / 6 * 6;
    return n < 12 ? 12 : n;
}

#endif
