// Adapters: a byte (which small model), then the bytes of a GGUF file that is said to hold one. Whatever it holds, the loader takes it
// or names what is wrong; what it takes must also run.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/model.h"
#include "synth/synth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void step(ch_model *m) {
    ch_error e;
    ch_seq_pool *pool = NULL;
    ch_seq *s = NULL;
    float *logits = calloc((size_t)ch_model_get_info(m)->n_vocab, sizeof *logits);
    const int32_t token[3] = {0, 1, 2}, row = 2;
    if (logits && !ch_seq_pool_create(&pool, ch_model_plan(m), &(ch_seq_limits){.n_seq = 1, .n_page = 2, .max_tokens = 8}, &e) && !ch_seq_create(&s, pool, &e))
        ch_model_forward(m, &(ch_batch){.token = token, .n_row = 3, .seg = &(ch_segment){.seq = s, .n_tok = 3}, .n_seg = 1, .out_row = &row, .n_out = 1}, logits, &e);
    ch_seq_free(&s);
    if (pool) ch_seq_pool_free(&pool);
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1 || size > 1 << 16) return 0;
    char base[64], path[64];
    snprintf(base, sizeof base, "/tmp/fuzz_adapter_%d_a", (int)getpid());
    snprintf(path, sizeof path, "/tmp/fuzz_adapter_%d_b", (int)getpid());
    ch_synth_shape s;
    ch_error e = {0};
    ch_model *m = NULL;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) return 0;
    const bool written = write(fd, data + 1, size - 1) == (ssize_t)size - 1;
    close(fd);
    if (written && !ch_synth_preset(&s, data[0] & 1 ? "nemotron_h_moe" : "mamba2", "tiny", &e)) {
        s.n_vocab = 272;
        if (!ch_synth_write(base, &s, CH_TYPE_F32, 1, NULL, NULL, &e)) {
            e = (ch_error){0};
            const ch_model_params p = {.tier = "ref", .n_threads = 1, .n_batch = 4, .n_seq = 1, .lora = {{path, 1}, {path, -1}}, .n_lora = 1 + (data[0] >> 1 & 1)};
            if (ch_model_open(&m, base, &p, &e) == 0) step(m);
            else if (!e.msg[0]) abort();
        }
    }
    ch_model_close(&m);
    unlink(base), unlink(path);
    return 0;
}
