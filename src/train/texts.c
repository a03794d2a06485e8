// Texts to measure a model with: files read as training reads them, without the token that training puts behind a plain text.
#include "train/store.h"
#include "train/train.h"

struct ch_train_texts {
    ch_store store;
};

int ch_train_texts_open(ch_train_texts **out, const char *path, const ch_vocab *vocab, const char *template_text, size_t n_template,
                        ch_progress_fn progress, void *user, ch_error *e) {
    const ch_train_source source = {.path = path, .share = 1, .weight = 1};
    const ch_train_data_params p = {
        .source = &source, .n_source = 1, .vocab = vocab, .template_text = template_text, .n_template = n_template,
        .weights = {.assistant = 1, .history = 1, .text = 1}, .progress = progress, .progress_user = user,
    };
    ch_train_texts *t = ch_alloc(sizeof *t);
    *out = NULL;
    if (!t) return ch_error_set(e, CH_ENOMEM, "no memory");
    const int rc = ch_store_open(&t->store, &p, e);
    if (rc) {
        ch_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void ch_train_texts_close(ch_train_texts **t) {
    if (*t) ch_store_close(&(*t)->store);
    ch_free(*t);
    *t = NULL;
}

size_t ch_train_texts_n(const ch_train_texts *t) { return t->store.n_doc; }

ch_train_text ch_train_texts_get(const ch_train_texts *t, size_t i) {
    const uint64_t begin = t->store.begin[i], end = t->store.begin[i + 1];
    return (ch_train_text){.token = t->store.token + begin, .weight = t->store.weight + begin, .n = (size_t)(end - begin)};
}
