// Text to token ids. A text is first cut at the tokens that are matched as whole strings (control tokens where the text may
// hold them, user-defined tokens); what lies between goes through normalisation, pre-tokenizer and merging, piece by piece.
#include <string.h>

#include "text/vocab.h"

bool ch_tokens_push(ch_tokens *t, int32_t id) {
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64, bytes;
        int32_t *grown = ch_mul_size(cap, sizeof *grown, &bytes) ? ch_realloc(t->id, bytes) : NULL;
        if (!grown) return false;
        t->id = grown;
        t->cap = cap;
    }
    t->id[t->n++] = id;
    return true;
}

void ch_tokens_free(ch_tokens *t) {
    ch_free(t->id);
    *t = (ch_tokens){0};
}

// Pieces seen in this call: bytes in the caller's text or in arena, ids in the output.
typedef struct piece_entry {
    const char *p;
    uint32_t len;
    uint32_t n_id;
    size_t first_id;
} piece_entry;

typedef struct tok_run {
    const ch_vocab *v;
    ch_tokens *out;
    ch_error *e;
    const char *text; // of the fragment that is being cut in pieces
    piece_entry *cache; // NULL: the text is too short for one
    size_t cache_mask;
    ch_text_merger merger;
    ch_buf form;     // normalised fragment
    ch_arena *arena; // such fragments, to the end of the call
} tok_run;

static int no_memory(tok_run *r) { return ch_error_set(r->e, CH_ENOMEM, "no memory to tokenise text"); }

// Bytes that the vocabulary cannot spell: as the unknown token, if there is one.
static bool emit_unknown(tok_run *r) { return r->v->unk < 0 || ch_tokens_push(r->out, r->v->unk); }

static bool emit_byte(tok_run *r, uint8_t b) {
    int32_t id = r->v->byte_sym[b];
    bool known = id >= 0 && id < r->v->n && (r->v->spm || !(r->v->flag[id] & CH_VOCAB_NO_TEXT));
    return known ? ch_tokens_push(r->out, id) : emit_unknown(r);
}

// A symbol after merging; p[0..n): bytes of the piece, in which an unmergeable symbol is a character at offset ~sym.
static bool emit_symbol(tok_run *r, int32_t sym, const char *p, size_t n) {
    const ch_vocab *v = r->v;
    if (sym >= 0 && sym < v->n && !(v->flag[sym] & CH_VOCAB_NO_TEXT)) return ch_tokens_push(r->out, sym);
    bool ok = true;
    if (sym < 0) { // spm
        size_t at = (size_t)~sym;
        uint32_t cp;
        size_t len = ch_utf8_decode(p + at, n - at, &cp);
        for (size_t i = 0; ok && i < len; i++) ok = emit_byte(r, (uint8_t)p[at + i]);
        return ok;
    }
    // A string that only merges pass through, or that text may not become: its characters one by one.
    const char *s = v->pool + v->off[sym];
    size_t len = v->off[sym + 1] - v->off[sym], step;
    for (size_t i = 0; ok && i < len; i += step) {
        uint32_t cp;
        step = ch_utf8_decode(s + i, len - i, &cp);
        int b = v->spm ? -1 : ch_vocab_char_byte(cp);
        if (b >= 0) ok = emit_byte(r, (uint8_t)b);
        else if (v->spm && cp == 0x2581) ok = emit_byte(r, ' ');
        else
            for (size_t k = 0; ok && k < step; k++) ok = emit_byte(r, (uint8_t)s[i + k]);
    }
    return ok;
}

// Symbols of a piece of SentencePiece text. Characters without a symbol are ~offset.
static size_t spm_symbols(const ch_vocab *v, const char *p, size_t n, bool prefix, int32_t *sym) {
    size_t k = 0;
    if (prefix) sym[k++] = v->ascii_sym[' '] >= 0 ? v->ascii_sym[' '] : INT32_MIN;
    for (size_t i = 0, len; i < n; i += len) {
        uint8_t b = (uint8_t)p[i];
        uint32_t cp;
        int32_t s;
        if (b < 0x80) {
            len = 1;
            s = v->ascii_sym[b];
        } else {
            len = ch_utf8_decode(p + i, n - i, &cp);
            s = cp > 0x10FFFF ? -1 : ch_vocab_symbol(v, p + i, len);
        }
        sym[k++] = s >= 0 ? s : ~(int32_t)i;
    }
    return k;
}

static int emit_merged(tok_run *r, const char *p, size_t n, size_t n_sym) {
    n_sym = ch_text_merge(r->v, &r->merger, n_sym);
    if (n_sym == SIZE_MAX) return no_memory(r);
    for (size_t i = 0; i < n_sym; i++) {
        int32_t sym = r->merger.sym[i];
        bool ok = sym == INT32_MIN ? emit_byte(r, ' ') : emit_symbol(r, sym, p, n);
        if (!ok) return no_memory(r);
    }
    return 0;
}

// A piece that is a token as it stands, for vocabularies that ask for it; -1: it is not.
static int32_t whole_piece(const ch_vocab *v, const char *p, size_t n) {
    char mapped[2 * CH_VOCAB_MAX_MERGED];
    size_t len = 0;
    if (n > CH_VOCAB_MAX_MERGED) return -1;
    for (size_t i = 0; i < n; i++) {
        char c[4];
        size_t k = ch_text_byte_char((uint8_t)p[i], c);
        memcpy(mapped + len, c, k);
        len += k;
    }
    int32_t id = ch_vocab_find(v, mapped, len);
    return id >= 0 && !(v->flag[id] & CH_VOCAB_NO_TEXT) ? id : -1;
}

static int merge_piece(tok_run *r, const char *p, size_t n, bool prefix) {
    const ch_vocab *v = r->v;
    if (!ch_text_merger_reserve(&r->merger, n + 1)) return no_memory(r);
    if (v->spm) return emit_merged(r, p, n, spm_symbols(v, p, n, prefix, r->merger.sym));
    if (v->ignore_merges) {
        int32_t id = whole_piece(v, p, n);
        if (id >= 0) return ch_tokens_push(r->out, id) ? 0 : no_memory(r);
    }
    for (size_t i = 0; i < n; i++) r->merger.sym[i] = v->byte_sym[(uint8_t)p[i]];
    return emit_merged(r, p, n, n);
}

static int take_piece(void *user, size_t begin, size_t end) {
    tok_run *r = user;
    const char *p = r->text + begin;
    size_t n = end - begin;
    if (!r->cache || n > 256) return merge_piece(r, p, n, false);
    piece_entry *c = &r->cache[ch_hash64(p, n, r->v->seed) & r->cache_mask];
    size_t first = r->out->n;
    if (c->p && c->len == n && memcmp(c->p, p, n) == 0) {
        for (uint32_t i = 0; i < c->n_id; i++)
            if (!ch_tokens_push(r->out, r->out->id[c->first_id + i])) return no_memory(r);
        return 0;
    }
    int rc = merge_piece(r, p, n, false);
    if (!rc) *c = (piece_entry){p, (uint32_t)n, (uint32_t)(r->out->n - first), first};
    return rc;
}

// ---- fragments ------------------------------------------------------------------------------------------------------------
// Whether p[0..n) begins with the space of SentencePiece, plain or as U+2581; its length.
static size_t space_at(const char *p, size_t n) {
    if (p[0] == ' ') return 1;
    return n >= 3 && (uint8_t)p[0] == 0xE2 && (uint8_t)p[1] == 0x96 && (uint8_t)p[2] == 0x81 ? 3 : 0;
}

// SentencePiece: words (with the spaces before them), or the whole fragment where merges may join words.
static int spm_fragment(tok_run *r, const char *p, size_t n, bool prefix) {
    r->text = p;
    if (!r->v->word_split) return merge_piece(r, p, n, prefix);
    size_t begin = 0;
    while (begin < n) {
        size_t end = begin, k;
        while (end < n && (k = space_at(p + end, n - end)) > 0) end += k;
        while (end < n && !space_at(p + end, n - end)) end++;
        int rc = prefix && !begin ? merge_piece(r, p, end, true) : take_piece(r, begin, end);
        if (rc) return rc;
        begin = end;
    }
    return 0;
}

static int plain_fragment(tok_run *r, const char *p, size_t n, bool prefix) {
    const ch_vocab *v = r->v;
    if (!n) return 0;
    if (v->spm) return spm_fragment(r, p, n, prefix && v->add_space_prefix);
    if (v->nfc) {
        ch_buf_reset(&r->form);
        int rc = ch_text_nfc(p, n, &r->form);
        if (rc < 0) return no_memory(r);
        n = rc ? r->form.len : n;
        if (rc && (p = ch_arena_strndup(r->arena, r->form.data, n)) == NULL) return no_memory(r);
    }
    r->text = p;
    return ch_text_pre_split(v->pre, p, n, take_piece, r, r->e);
}

// Where markers may be matched.
typedef struct marker_scope {
    const ch_span *span; // NULL: everywhere
    size_t n_span, at;   // span[at] holds the present position or ends before it
    bool control;        // control tokens are matched at all
    size_t n;
} marker_scope;

// End of the template text that holds p; p when p lies in message text. p never decreases from call to call.
static size_t literal_end(marker_scope *m, size_t p) {
    if (!m->span) return m->n;
    while (m->at < m->n_span && m->span[m->at].end <= p) m->at++;
    size_t end = p;
    for (size_t i = m->at; i < m->n_span && m->span[i].literal && m->span[i].begin <= end && end - p <= CH_TRIE_MAX_TEXT; i++)
        if (m->span[i].end > end) end = m->span[i].end;
    return end;
}

// Longest token spelled at p that may be matched there; -1: none.
static int32_t match_whole(const ch_vocab *v, marker_scope *m, const char *text, size_t p, size_t *end) {
    const ch_text_trie *t = &v->trie;
    size_t marker_end = 0;
    int32_t best = -1;
    uint32_t node = 0;
    for (size_t q = p; q < m->n && (node = ch_text_trie_step(t, node, (uint8_t)text[q])) != 0; q++) {
        int32_t id = t->token[node];
        if (id < 0) continue;
        bool control = v->type[id] != CH_TOKEN_USER;
        if (control && !m->control) continue;
        if (control || v->flag[id] & CH_VOCAB_TAG) {
            if (!marker_end) marker_end = literal_end(m, p);
            if (q >= marker_end) continue;
        }
        best = id;
        *end = q + 1;
    }
    return best;
}

static int tokenize_parts(tok_run *r, const char *text, size_t n, marker_scope *m) {
    const ch_vocab *v = r->v;
    size_t begin = 0, p = 0;
    bool prefix = true;
    while (p < n) {
        size_t end = 0;
        int32_t id = v->trie.first[(uint8_t)text[p]] ? match_whole(v, m, text, p, &end) : -1;
        if (id < 0) {
            p++;
            continue;
        }
        int rc = plain_fragment(r, text + begin, p - begin, prefix);
        if (rc) return rc;
        if (!ch_tokens_push(r->out, id)) return no_memory(r);
        prefix = true;
        begin = p = end;
    }
    return plain_fragment(r, text + begin, n - begin, prefix);
}

static int check_spans(const ch_span *span, size_t n_span, size_t n, ch_error *e) {
    size_t at = 0;
    for (size_t i = 0; i < n_span; i++) {
        if (span[i].begin != at || span[i].end < at || span[i].end > n)
            return ch_error_set(e, CH_ERANGE, "span %zu: expected to begin at %zu within %zu bytes, found %zu to %zu", i, at, n,
                                span[i].begin, span[i].end);
        at = span[i].end;
    }
    return at == n ? 0 : ch_error_set(e, CH_ERANGE, "spans end at %zu, the text at %zu", at, n);
}

static int tokenize(const ch_vocab *v, const char *text, marker_scope *m, unsigned flags, ch_tokens *out, ch_error *e) {
    size_t first = out->n, n = m->n;
    tok_run r = {.v = v, .out = out, .e = e};
    if (n >= 64) { // about one entry per 16 bytes
        size_t slots = 64;
        while (slots < n / 16 && slots < 16384) slots *= 2;
        r.cache = ch_alloc_array(slots, sizeof *r.cache);
        r.cache_mask = slots - 1;
    }
    if (v->nfc) r.arena = ch_arena_create(0);
    int rc = v->nfc && !r.arena ? no_memory(&r) : 0;
    bool bos = flags & CH_TOK_BOS_EOS && v->add_bos && v->bos >= 0, eos = flags & CH_TOK_BOS_EOS && v->add_eos && v->eos >= 0;
    if (!rc && bos && !ch_tokens_push(out, v->bos)) rc = no_memory(&r);
    if (!rc) rc = tokenize_parts(&r, text, n, m);
    if (!rc && bos && out->n > first + 1 && out->id[first + 1] == v->bos) { // the text had its own
        memmove(out->id + first, out->id + first + 1, (out->n - first - 1) * sizeof *out->id);
        out->n--;
    }
    if (!rc && eos && (out->n == first || out->id[out->n - 1] != v->eos) && !ch_tokens_push(out, v->eos)) rc = no_memory(&r);
    if (rc) out->n = first;
    ch_free(r.cache);
    ch_text_merger_free(&r.merger);
    ch_buf_free(&r.form);
    ch_arena_free(&r.arena);
    return rc;
}

static int check_length(size_t n, ch_error *e) {
    if (n <= CH_TEXT_MAX) return 0;
    return ch_error_set(e, CH_ELIMIT, "text to tokenise: expected at most %u bytes, found %zu", CH_TEXT_MAX, n);
}

int ch_tokenize(const ch_vocab *v, const char *text, size_t n, unsigned flags, ch_tokens *out, ch_error *e) {
    int rc = check_length(n, e);
    marker_scope m = {.control = flags & CH_TOK_SPECIAL, .n = n};
    return rc ? rc : tokenize(v, text, &m, flags, out, e);
}

int ch_tokenize_spans(const ch_vocab *v, const char *text, size_t n, const ch_span *span, size_t n_span, unsigned flags,
                      ch_tokens *out, ch_error *e) {
    int rc = check_length(n, e);
    if (!rc) rc = check_spans(span, n_span, n, e);
    static const ch_span none = {0}; // a text without spans is all message
    marker_scope m = {.span = n_span ? span : &none, .n_span = n_span, .control = flags & CH_TOK_SPECIAL, .n = n};
    return rc ? rc : tokenize(v, text, &m, flags, out, e);
}
