// Opening of a vocabulary from a file's tokenizer.ggml.* keys, and look-ups in it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/vocab.h"

// ---- byte-level BPE: bytes and their printable characters ---------------------------------------------------------------
static bool byte_is_itself(unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

// The bytes that are not printable, in increasing order, are U+0100 and up: 0..32, 127..160, 173.
static uint32_t byte_to_char(unsigned b) {
    if (byte_is_itself(b)) return b;
    return 256 + (b <= 32 ? b : b <= 160 ? b - 127 + 33 : 67);
}

size_t ch_text_byte_char(uint8_t byte, char out[4]) { return ch_utf8_encode(byte_to_char(byte), out); }

int ch_vocab_char_byte(uint32_t cp) {
    if (cp < 256) return byte_is_itself(cp) ? (int)cp : -1;
    cp -= 256;
    return cp <= 32 ? (int)cp : cp <= 66 ? (int)(cp - 33 + 127) : cp == 67 ? 173 : -1;
}

// ---- shape of markers -----------------------------------------------------------------------------------------------------
static bool is_word_char(uint32_t cp) {
    return (cp >= '0' && cp <= '9') || ((cp | 32) >= 'a' && (cp | 32) <= 'z') || (cp >= 0xC0 && cp != 0x2581 && cp < 0x2000) ||
           (cp >= 0x3040 && cp < 0xFB00);
}

// Begins and ends with a character that is neither word nor space, with word characters in between: <think>, [INST],
// <|im_end|>, |||NAME|||; not "  ", "...", "word".
bool ch_vocab_is_tag(const char *text, size_t n) {
    bool word = false, first_word = false, last_word = false;
    size_t count = 0;
    for (size_t p = 0; p < n; count++) {
        uint32_t cp;
        p += ch_utf8_decode(text + p, n - p, &cp);
        last_word = is_word_char(cp) || cp <= ' ' || cp == 0x2581;
        if (!count) first_word = last_word;
        word = word || is_word_char(cp);
    }
    return count >= 3 && word && !first_word && !last_word;
}

// Narrower: the shape in which makers add tags without saying that they are special.
static bool is_angle_tag(const char *text, size_t n) {
    if (n < 3 || text[0] != '<' || text[n - 1] != '>' || !ch_vocab_is_tag(text, n)) return false;
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)text[i] <= ' ') return false;
    return true;
}

// ---- end of generation ----------------------------------------------------------------------------------------------------
static const char *const eog_text[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>",
    "<turn|>",
    // fill-in-the-middle: padding, next repository, next file
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>",
    "<|file_sep|>"};
// Fill-in-the-middle markers, which files often type as ordinary added tokens.
static const char *const fim_text[] = {
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<|code_prefix|>", "<PRE>", "\xE2\x96\x81<PRE>",
    "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<|code_suffix|>", "<SUF>", "\xE2\x96\x81<SUF>",
    "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<|code_middle|>", "<MID>", "\xE2\x96\x81<MID>",
    "<\xEF\xBD\x9C" "fim\xE2\x96\x81" "begin\xEF\xBD\x9C>", "<\xEF\xBD\x9C" "fim\xE2\x96\x81" "hole\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C" "fim\xE2\x96\x81" "end\xEF\xBD\x9C>"};
static const char *const eot_text[] = {"<|eot_id|>",       "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
                                       "<|end_of_text|>", "<EOT>",      "[EOT]"};

static int32_t find_z(const ch_vocab *v, const char *text) { return ch_vocab_find(v, text, strlen(text)); }

static void mark_eog(ch_vocab *v) {
    for (size_t i = 0; i < sizeof eog_text / sizeof *eog_text; i++) {
        int32_t id = find_z(v, eog_text[i]);
        if (id < 0) continue;
        v->flag[id] |= CH_VOCAB_EOG;
        v->type[id] = CH_TOKEN_CONTROL;
    }
    for (size_t i = 0; i < sizeof fim_text / sizeof *fim_text; i++) {
        int32_t id = find_z(v, fim_text[i]);
        if (id >= 0) v->type[id] = CH_TOKEN_CONTROL;
    }
    for (size_t i = 0; v->eot < 0 && i < sizeof eot_text / sizeof *eot_text; i++) v->eot = find_z(v, eot_text[i]);
    if (v->eos >= 0) v->flag[v->eos] |= CH_VOCAB_EOG;
    if (v->eot >= 0) v->flag[v->eot] |= CH_VOCAB_EOG;
    if (v->eom >= 0) v->flag[v->eom] |= CH_VOCAB_EOG;
    // Where answers have channels, "end" only closes a channel.
    int32_t end = find_z(v, "<|end|>");
    if (end >= 0 && find_z(v, "<|return|>") >= 0 && find_z(v, "<|call|>") >= 0) v->flag[end] &= (uint8_t)~CH_VOCAB_EOG;
}

// ---- loading --------------------------------------------------------------------------------------------------------------
static int no_memory(const ch_vocab *v, ch_error *e) {
    return ch_error_set(e, CH_ENOMEM, "no memory for a vocabulary of %d tokens", v->n);
}

// A token id by key; ids outside the vocabulary are ignored, as writers use them for "none".
static int get_id(const ch_vocab *v, const ch_gguf *g, const char *key, int32_t *id, ch_error *e) {
    const ch_gguf_kv *kv = ch_gguf_find(g, key);
    if (!kv) return 0;
    bool whole = kv->type != CH_GGUF_STR && kv->type != CH_GGUF_ARR && kv->type != CH_GGUF_F32 && kv->type != CH_GGUF_F64;
    if (!whole) return ch_error_set(e, CH_EFORMAT, "%s: expected a token id", key);
    int64_t value = ch_gguf_arr_int(kv, 0);
    *id = value >= 0 && value < v->n ? (int32_t)value : -1;
    return 0;
}

static int load_ids(ch_vocab *v, const ch_gguf *g, ch_error *e) {
    const struct {
        const char *key;
        int32_t *id;
    } row[] = {{"tokenizer.ggml.bos_token_id", &v->bos},     {"tokenizer.ggml.eos_token_id", &v->eos},
               {"tokenizer.ggml.padding_token_id", &v->pad}, {"tokenizer.ggml.unknown_token_id", &v->unk},
               {"tokenizer.ggml.eot_token_id", &v->eot},     {"tokenizer.ggml.eom_token_id", &v->eom}};
    v->bos = v->eos = v->pad = v->unk = v->eot = v->eom = -1;
    if (v->spm) {
        v->bos = v->n > 1 ? 1 : -1;
        v->eos = v->n > 2 ? 2 : -1;
        v->unk = 0;
    }
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof row / sizeof *row; i++) rc = get_id(v, g, row[i].key, row[i].id, e);
    return rc;
}

static int load_flags(ch_vocab *v, const ch_gguf *g, ch_error *e) {
    v->add_bos = v->spm || (v->pre && ch_text_pre_flags(v->pre) & CH_PRE_ADD_BOS);
    v->add_space_prefix = v->spm;
    v->ignore_merges = v->pre && ch_text_pre_flags(v->pre) & CH_PRE_IGNORE_MERGES;
    v->nfc = v->pre && ch_text_pre_flags(v->pre) & CH_PRE_NFC;
    int rc = ch_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &v->add_bos, e);
    if (rc >= 0) rc = ch_gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &v->add_eos, e);
    if (rc >= 0 && v->spm) rc = ch_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix, e);
    return rc < 0 ? rc : 0;
}

static int load_types(ch_vocab *v, const ch_gguf *g, ch_error *e) {
    const ch_gguf_kv *kv = ch_gguf_find(g, "tokenizer.ggml.token_type");
    if (!kv) {
        memset(v->type, CH_TOKEN_NORMAL, (size_t)v->n);
        return 0;
    }
    if (kv->type != CH_GGUF_ARR || (kv->elem != CH_GGUF_I32 && kv->elem != CH_GGUF_U32) || kv->n != (uint64_t)v->n)
        return ch_error_set(e, CH_EFORMAT, "tokenizer.ggml.token_type: expected %d integers, one per token", v->n);
    for (int32_t i = 0; i < v->n; i++) {
        int64_t type = ch_gguf_arr_int(kv, (uint64_t)i);
        if (type < 0 || type > CH_TOKEN_BYTE)
            return ch_error_set(e, CH_ERANGE, "tokenizer.ggml.token_type[%d]: expected 0 to 6, found %lld", i, (long long)type);
        v->type[i] = type ? (uint8_t)type : CH_TOKEN_NORMAL; // 0: undefined
    }
    return 0;
}

static void mark_types(ch_vocab *v) {
    for (int32_t i = 0; i < v->n; i++) {
        int type = v->type[i];
        const char *text = v->pool + v->off[i];
        size_t n = v->off[i + 1] - v->off[i];
        if (type == CH_TOKEN_USER && ch_vocab_is_tag(text, n)) v->flag[i] |= CH_VOCAB_TAG | CH_VOCAB_NO_TEXT;
        if (type == CH_TOKEN_CONTROL || type == CH_TOKEN_UNKNOWN || type == CH_TOKEN_BYTE) v->flag[i] |= CH_VOCAB_NO_TEXT;
    }
}

static int load_pre(ch_vocab *v, const ch_gguf *g, ch_error *e) {
    ch_gguf_str name = {"default", 7};
    int rc = ch_gguf_get_str(g, "tokenizer.ggml.pre", &name, e);
    if (rc < 0) return rc;
    if (rc == 0)
        ch_log(CH_LOG_WARN, "%s: no tokenizer.ggml.pre; using \"default\", which may not be the model's", ch_gguf_path(g));
    return ch_text_pre_open(&v->pre, name.p, name.n, e);
}

// Tags that were added to the vocabulary but are typed as normal: no merge makes them, so text could never become them.
static void promote_tags(ch_vocab *v, const uint8_t *produced) {
    for (int32_t i = 0; i < v->n; i++) {
        if (v->type[i] != CH_TOKEN_NORMAL || produced[i]) continue;
        if (!is_angle_tag(v->pool + v->off[i], v->off[i + 1] - v->off[i])) continue;
        v->type[i] = CH_TOKEN_USER;
        v->flag[i] |= CH_VOCAB_TAG | CH_VOCAB_NO_TEXT;
    }
}

static int load_bpe(ch_vocab *v, const ch_gguf *g, ch_error *e) {
    for (unsigned b = 0; b < 256; b++) {
        char text[4];
        v->byte_sym[b] = ch_vocab_intern(v, text, ch_text_byte_char((uint8_t)b, text));
        if (v->byte_sym[b] < 0) return no_memory(v, e);
    }
    int rc;
    if (ch_gguf_find(g, "tokenizer.ggml.merges")) {
        uint8_t *produced = ch_alloc((size_t)v->n);
        if (!produced) return no_memory(v, e);
        rc = ch_vocab_load_merges(v, g, produced, e);
        if (!rc && !v->ignore_merges) promote_tags(v, produced);
        ch_free(produced);
        return rc;
    }
    uint32_t *rank = ch_alloc_array((size_t)v->n, sizeof *rank);
    if (!rank) return no_memory(v, e);
    for (int32_t i = 0; i < v->n; i++) rank[i] = (uint32_t)i;
    rc = ch_vocab_build_merges(v, rank, e);
    ch_free(rank);
    return rc;
}

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b) {
    const scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Ranks from scores: the highest score is 0, equal scores share a rank.
static int score_ranks(const ch_vocab *v, const ch_gguf *g, uint32_t *rank, ch_error *e) {
    const ch_gguf_kv *kv = ch_gguf_find(g, "tokenizer.ggml.scores");
    if (!kv || kv->type != CH_GGUF_ARR || (kv->elem != CH_GGUF_F32 && kv->elem != CH_GGUF_F64) || kv->n != (uint64_t)v->n)
        return ch_error_set(e, CH_EFORMAT, "tokenizer.ggml.scores: expected %d numbers, one per token", v->n);
    scored *s = ch_alloc_array((size_t)v->n, sizeof *s);
    if (!s) return no_memory(v, e);
    for (int32_t i = 0; i < v->n; i++) {
        double x = ch_gguf_arr_num(kv, (uint64_t)i);
        s[i] = (scored){isnan(x) ? -INFINITY : (float)x, i};
    }
    qsort(s, (size_t)v->n, sizeof *s, by_score);
    uint32_t r = 0;
    for (int32_t i = 0; i < v->n; i++) {
        if (i && s[i].score != s[i - 1].score) r++;
        rank[s[i].id] = r;
    }
    ch_free(s);
    return 0;
}

// U+2581 stands for the space. Whether words can be merged one by one: no token has it after another character.
static bool words_are_apart(const ch_vocab *v) {
    for (int32_t i = 0; i < v->n; i++) {
        if (v->flag[i] & CH_VOCAB_NO_TEXT) continue;
        const char *p = v->pool + v->off[i], *end = v->pool + v->off[i + 1];
        bool other = false;
        while (p < end) {
            uint32_t cp;
            p += ch_utf8_decode(p, (size_t)(end - p), &cp);
            if (cp == 0x2581 && other) return false;
            other = other || cp != 0x2581;
        }
    }
    return true;
}

static int load_spm(ch_vocab *v, const ch_gguf *g, ch_error *e) {
    uint32_t *rank = ch_alloc_array((size_t)v->n, sizeof *rank);
    if (!rank) return no_memory(v, e);
    int rc = score_ranks(v, g, rank, e);
    if (!rc) rc = ch_vocab_build_merges(v, rank, e);
    ch_free(rank);
    for (unsigned b = 0; !rc && b < 256; b++) {
        static const char hex[] = "0123456789ABCDEF";
        char text[6] = {'<', '0', 'x', hex[b >> 4], hex[b & 15], '>'};
        int32_t id = ch_vocab_find(v, text, 6);
        v->byte_sym[b] = id >= 0 && v->type[id] == CH_TOKEN_BYTE ? id : -1;
        if (b < 128) {
            char c = (char)b;
            v->ascii_sym[b] = b == ' ' ? ch_vocab_symbol(v, "\xE2\x96\x81", 3) : ch_vocab_symbol(v, &c, 1);
        }
    }
    v->word_split = words_are_apart(v);
    return rc;
}

// ---- printed bytes ----------------------------------------------------------------------------------------------------------
static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 32);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// What token id prints, appended to out (never longer than its spelling).
static bool append_piece(const ch_vocab *v, int32_t id, ch_buf *out) {
    const char *text = v->pool + v->off[id];
    size_t n = v->off[id + 1] - v->off[id];
    int type = v->type[id];
    if (type == CH_TOKEN_CONTROL || type == CH_TOKEN_UNKNOWN || type == CH_TOKEN_USER) return ch_buf_append(out, text, n);
    if (type == CH_TOKEN_BYTE && n == 6 && hex_digit(text[3]) >= 0 && hex_digit(text[4]) >= 0) {
        char byte = (char)(hex_digit(text[3]) * 16 + hex_digit(text[4]));
        return ch_buf_append(out, &byte, 1);
    }
    for (size_t p = 0, len; p < n; p += len) {
        uint32_t cp;
        len = ch_utf8_decode(text + p, n - p, &cp);
        int b = v->spm ? (cp == 0x2581 ? ' ' : -1) : ch_vocab_char_byte(cp);
        char byte = (char)b;
        if (!(b >= 0 ? ch_buf_append(out, &byte, 1) : ch_buf_append(out, text + p, len))) return false;
    }
    return true;
}

static int build_pieces(ch_vocab *v, ch_error *e) {
    ch_buf out = {0};
    v->piece_off = ch_alloc_array((size_t)v->n + 1, sizeof *v->piece_off);
    bool ok = v->piece_off != NULL && ch_buf_append(&out, "", 0);
    for (int32_t i = 0; ok && i < v->n; i++) {
        ok = append_piece(v, i, &out);
        v->piece_off[i + 1] = (uint32_t)out.len;
    }
    v->piece = out.data;
    return ok ? 0 : no_memory(v, e);
}

static int build_trie(ch_vocab *v, ch_error *e) {
    size_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass && !ch_text_trie_init(&v->trie, total, v->seed)) return no_memory(v, e);
        for (int32_t i = 0; i < v->n; i++) {
            bool whole = v->type[i] == CH_TOKEN_CONTROL || v->type[i] == CH_TOKEN_UNKNOWN || v->type[i] == CH_TOKEN_USER;
            size_t n = v->off[i + 1] - v->off[i];
            if (!whole || !n || n > CH_TRIE_MAX_TEXT) continue;
            if (pass) ch_text_trie_add(&v->trie, v->pool + v->off[i], n, i);
            else total += n;
        }
    }
    return 0;
}

static int load_model(ch_vocab *v, const ch_gguf *g, ch_error *e) {
    ch_gguf_str model = {0};
    int rc = ch_gguf_get_str(g, "tokenizer.ggml.model", &model, e);
    if (rc < 0) return rc;
    if (rc == 0) return ch_error_set(e, CH_EFORMAT, "tokenizer.ggml.model: expected \"gpt2\" or \"llama\", found no such key");
    v->spm = model.n == 5 && memcmp(model.p, "llama", 5) == 0;
    if (!v->spm && !(model.n == 4 && memcmp(model.p, "gpt2", 4) == 0))
        return ch_error_set(e, CH_EUNSUPPORTED, "tokenizer.ggml.model: expected \"gpt2\" or \"llama\", found \"%.*s\"",
                            model.n > 60 ? 60 : (int)model.n, model.p);
    const ch_gguf_kv *tokens = ch_gguf_find(g, "tokenizer.ggml.tokens");
    if (!tokens || tokens->type != CH_GGUF_ARR || tokens->elem != CH_GGUF_STR || tokens->n < 1)
        return ch_error_set(e, CH_EFORMAT, "tokenizer.ggml.tokens: expected an array of at least one string");
    if (tokens->n > CH_VOCAB_MAX_TOKENS)
        return ch_error_set(e, CH_ELIMIT, "tokenizer.ggml.tokens: expected at most %u, found %llu", CH_VOCAB_MAX_TOKENS,
                            (unsigned long long)tokens->n);
    if (!v->spm && (rc = load_pre(v, g, e)) != 0) return rc;
    if ((rc = ch_vocab_load_tokens(v, g, tokens, e)) != 0) return rc;
    v->type = ch_alloc((size_t)v->n);
    v->flag = ch_alloc((size_t)v->n);
    if (!v->type || !v->flag) return no_memory(v, e);
    if ((rc = load_types(v, g, e)) != 0 || (rc = load_ids(v, g, e)) != 0 || (rc = load_flags(v, g, e)) != 0) return rc;
    mark_eog(v);
    mark_types(v);
    // An empty table of pairs, so that look-ups need no check.
    if (!ch_vocab_pair_add(v, INT32_MAX, INT32_MAX, 0, 0)) return no_memory(v, e);
    if ((rc = v->spm ? load_spm(v, g, e) : load_bpe(v, g, e)) != 0) return rc;
    if ((rc = build_pieces(v, e)) != 0) return rc;
    return build_trie(v, e);
}

int ch_vocab_open(ch_vocab **out, const ch_gguf *g, ch_error *e) {
    ch_vocab *v = ch_alloc(sizeof *v);
    if (!v) return ch_error_set(e, CH_ENOMEM, "no memory for a vocabulary");
    v->seed = ch_vocab_mix(ch_clock_ns(), (uint64_t)(uintptr_t)v);
    int rc = load_model(v, g, e);
    if (rc) {
        ch_error_prefix(e, "%s", ch_gguf_path(g));
        ch_vocab_free(&v);
        return rc;
    }
    *out = v;
    return 0;
}

void ch_vocab_free(ch_vocab **p) {
    ch_vocab *v = *p;
    if (!v) return;
    ch_free(v->pool);
    ch_free(v->off);
    ch_free(v->map);
    ch_free(v->type);
    ch_free(v->flag);
    ch_free(v->pair);
    ch_free(v->piece);
    ch_free(v->piece_off);
    ch_text_trie_free(&v->trie);
    ch_text_pre_free(&v->pre);
    ch_free(v);
    *p = NULL;
}

// ---- look-ups ---------------------------------------------------------------------------------------------------------------
static bool has_id(const ch_vocab *v, int32_t id) { return id >= 0 && id < v->n; }

int32_t ch_vocab_n(const ch_vocab *v) { return v->n; }
int32_t ch_vocab_bos(const ch_vocab *v) { return v->bos; }
int32_t ch_vocab_eos(const ch_vocab *v) { return v->eos; }
int32_t ch_vocab_pad(const ch_vocab *v) { return v->pad; }
bool ch_vocab_add_bos(const ch_vocab *v) { return v->add_bos; }
bool ch_vocab_add_eos(const ch_vocab *v) { return v->add_eos; }
bool ch_vocab_is_eog(const ch_vocab *v, int32_t id) { return has_id(v, id) && v->flag[id] & CH_VOCAB_EOG; }
int ch_vocab_type(const ch_vocab *v, int32_t id) { return has_id(v, id) ? v->type[id] : 0; }

const char *ch_vocab_text(const ch_vocab *v, int32_t id, size_t *n) {
    if (!has_id(v, id)) return NULL;
    *n = v->off[id + 1] - v->off[id];
    return v->pool + v->off[id];
}

int32_t ch_vocab_find(const ch_vocab *v, const char *text, size_t n) {
    int32_t s = ch_vocab_symbol(v, text, n);
    return s < v->n ? s : -1;
}

size_t ch_vocab_piece(const ch_vocab *v, int32_t id, bool special, const char **p) {
    *p = "";
    if (!has_id(v, id)) return 0;
    if (!special && (v->type[id] == CH_TOKEN_CONTROL || v->type[id] == CH_TOKEN_UNKNOWN)) return 0;
    *p = v->piece + v->piece_off[id];
    return v->piece_off[id + 1] - v->piece_off[id];
}
