// The configuration of a training run: any bytes are refused or read, and what is read can be built or is refused.
#include <stddef.h>
#include <stdint.h>

#include "train/config.h"
#include "train/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ch_train_config c;
    ch_error e;
    if (ch_train_config_parse(&c, (const char *)data, size, "input", &e)) return 0;
    ch_train_model m = {.shape = c.model};
    m.shape.n_vocab = 64;
    if (ch_train_build(&m, &e) == 0)
        for (uint64_t s = 0; s < 4; s++) (void)ch_train_rate(&c, s * 50);
    ch_free(m.tensor), ch_free(m.mat), ch_free(m.sub);
    ch_train_config_free(&c);
    return 0;
}
