// Distinct words of the training text, with their counts.
#include <string.h>

#include "train/bpe.h"
#include "train/record.h"

typedef struct count_run {
    ch_bpe_words *w;
    const ch_train_bpe_params *p;
    ch_text_pre *pre;
    const char *text; // of the stretch that is being split
    bool first[256];  // bytes that a special token begins with
    ch_error *e;
} count_run;

static int no_memory(ch_error *e) { return ch_error_set(e, CH_ENOMEM, "no memory for the words of the text"); }

static bool grow_map(ch_bpe_words *w) {
    size_t mask = w->mask ? 2 * w->mask + 1 : 4095;
    uint32_t *map = ch_alloc_array(mask + 1, sizeof *map);
    if (!map)
        return false;
    for (size_t i = 0; i < w->n; i++) {
        size_t at = ch_hash64(w->byte.data + w->word[i].at, w->word[i].n, 0) & mask;
        while (map[at])
            at = (at + 1) & mask;
        map[at] = (uint32_t)i + 1;
    }
    ch_free(w->map);
    w->map = map;
    w->mask = mask;
    return true;
}

static bool add_word(ch_bpe_words *w, const char *s, size_t n) {
    if ((w->n + 1) * 2 > w->mask && !grow_map(w))
        return false;
    size_t at = ch_hash64(s, n, 0) & w->mask;
    for (; w->map[at]; at = (at + 1) & w->mask) {
        ch_bpe_word *known = &w->word[w->map[at] - 1];
        if (known->n == n && memcmp(w->byte.data + known->at, s, n) == 0) {
            known->count++;
            return true;
        }
    }
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 4096;
        ch_bpe_word *more = cap < UINT32_MAX ? ch_realloc(w->word, cap * sizeof *more) : NULL;
        if (!more)
            return false;
        w->word = more;
        w->cap = cap;
    }
    size_t place = w->byte.len;
    if (!ch_buf_append(&w->byte, s, n))
        return false;
    w->word[w->n++] = (ch_bpe_word){1, place, (uint32_t)n};
    w->map[at] = (uint32_t)w->n;
    return true;
}

static int take_piece(void *user, size_t begin, size_t end) {
    count_run *r = user;
    for (size_t n; begin < end; begin += n) {
        n = end - begin < CH_BPE_MAX_WORD ? end - begin : CH_BPE_MAX_WORD;
        if (!add_word(r->w, r->text + begin, n))
            return no_memory(r->e);
    }
    return 0;
}

// Bytes of the longest special token that begins here; 0: none does.
static size_t special_at(const count_run *r, const char *s, size_t n) {
    size_t best = 0;
    for (size_t i = 0; r->first[(uint8_t)*s] && i < r->p->n_special; i++) {
        size_t len = strlen(r->p->special[i]);
        if (len > best && len <= n && memcmp(s, r->p->special[i], len) == 0)
            best = len;
    }
    return best;
}

static int count_text(count_run *r, const char *s, size_t n) {
    size_t begin = 0;
    r->w->n_bytes += n;
    for (size_t i = 0; i <= n;) {
        size_t len = i < n ? special_at(r, s + i, n - i) : 0;
        if (i < n && !len) {
            i++;
            continue;
        }
        r->text = s + begin;
        int rc = ch_text_pre_split(r->pre, r->text, i - begin, take_piece, r, r->e);
        if (rc)
            return rc;
        if (i == n)
            break;
        begin = i += len;
    }
    return 0;
}

static int count_file(count_run *r, ch_record_reader *reader, const char *path) {
    ch_record d;
    int rc = ch_record_read_file(reader, path, r->e);
    for (uint64_t i = 0; !rc; i++) {
        rc = ch_record_next(reader, &d, r->e);
        if (rc <= 0)
            return rc;
        rc = count_text(r, d.text, d.n);
        if (!rc && r->p->progress && i % 1024 == 0 &&
            !r->p->progress(r->p->progress_user, "counting words", ch_record_offset(reader), ch_record_size(reader)))
            rc = ch_error_set(r->e, CH_ECANCELLED, "stopped while counting words");
    }
    return rc;
}

int ch_bpe_count_words(ch_bpe_words *w, const ch_train_bpe_params *p, ch_error *e) {
    *w = (ch_bpe_words){0};
    count_run r = {.w = w, .p = p, .e = e};
    for (size_t i = 0; i < p->n_special; i++)
        r.first[(uint8_t)p->special[i][0]] = true;
    ch_record_reader *reader = NULL;
    const ch_record_params rp = {.template_text = p->template_text, .n_template = p->n_template};
    int rc = grow_map(w) ? 0 : no_memory(e);
    if (!rc)
        rc = ch_text_pre_open(&r.pre, p->pre, strlen(p->pre), e);
    if (!rc)
        rc = ch_record_reader_open(&reader, &rp, e);
    for (size_t i = 0; !rc && i < p->n_path; i++)
        rc = count_file(&r, reader, p->path[i]);
    ch_record_reader_free(&reader);
    ch_text_pre_free(&r.pre);
    if (rc)
        ch_bpe_words_free(w);
    return rc;
}

void ch_bpe_words_free(ch_bpe_words *w) {
    ch_free(w->word);
    ch_free(w->map);
    ch_buf_free(&w->byte);
    *w = (ch_bpe_words){0};
}
