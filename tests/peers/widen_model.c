// Copies a model file with every weight widened to F32, so that an engine which rounds activations for narrow weights can be
// asked what the very same weights give without that: widen_model IN.gguf OUT.gguf
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

static int put_infos(const ch_gguf *g, ch_gguf_writer *w) {
    int rc = 0;
    for (size_t i = 0; i < ch_gguf_n_kv(g) && rc == 0; i++) rc = ch_gguf_put_kv(w, g, ch_gguf_kv_at(g, i));
    for (size_t i = 0; i < ch_gguf_n_tensors(g) && rc == 0; i++) {
        const ch_gguf_tensor *t = ch_gguf_tensor_at(g, i);
        rc = ch_gguf_put_tensor(w, t->name, t->type->decode ? CH_TYPE_F32 : t->type->id, t->n_dims, t->ne);
    }
    return rc;
}

static int put_data(const ch_gguf_tensor *t, ch_gguf_writer *w, ch_error *e) {
    if (!t->type->decode) return ch_gguf_write_data(w, t->data, t->size, e);
    size_t row_bytes, n_row = t->size;
    if (!ch_quant_row_bytes(t->type, t->ne[0], &row_bytes) || row_bytes == 0) return ch_error_set(e, CH_EFORMAT, "%s", t->name);
    n_row /= row_bytes;
    float *row = ch_alloc_array((size_t)t->ne[0], sizeof *row);
    if (!row) return ch_error_set(e, CH_ENOMEM, "%s: a row of %llu values", t->name, (unsigned long long)t->ne[0]);
    int rc = 0;
    for (size_t r = 0; r < n_row && rc == 0; r++) {
        t->type->decode((const uint8_t *)t->data + r * row_bytes, row, (size_t)t->ne[0]);
        rc = ch_gguf_write_data(w, row, (size_t)t->ne[0] * sizeof *row, e);
    }
    ch_free(row);
    return rc;
}

int main(int argc, char **argv) {
    ch_error e = {0};
    ch_gguf *g = NULL;
    ch_gguf_writer *w = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: widen_model IN.gguf OUT.gguf\n");
        return 2;
    }
    int rc = ch_gguf_open(&g, argv[1], &e);
    if (rc == 0) rc = ch_gguf_writer_open(&w, argv[2], &e);
    if (rc == 0) rc = put_infos(g, w);
    for (size_t i = 0; rc == 0 && i < ch_gguf_n_tensors(g); i++) rc = put_data(ch_gguf_tensor_at(g, i), w, &e);
    if (rc == 0) rc = ch_gguf_writer_commit(&w, &e);
    if (rc != 0) fprintf(stderr, "widen_model: %s: %s\n", ch_error_name(rc), e.msg);
    ch_gguf_writer_abort(&w);
    ch_gguf_close(&g);
    return rc != 0;
}
