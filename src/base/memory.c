// Checked sizes, allocation with test hooks, arena, growable bytes.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include "base/base.h"

#define HUGE_PAGE ((size_t)2 << 20)

bool ch_add_size(size_t a, size_t b, size_t *out) {
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

bool ch_mul_size(size_t a, size_t b, size_t *out) {
    if (b && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

bool ch_round_up_size(size_t n, size_t align, size_t *out) {
    if (n > SIZE_MAX - (align - 1)) return false;
    *out = (n + align - 1) & ~(align - 1);
    return true;
}

// ---- allocation -----------------------------------------------------------------------------------------------------
// Test hooks. Negative: off, which is the only state outside tests.
static _Atomic int64_t fail_countdown = -1;
static _Thread_local bool alloc_forbidden;

void ch_alloc_fail_at(int64_t nth) { atomic_store(&fail_countdown, nth); }
void ch_alloc_forbid(bool forbidden) { alloc_forbidden = forbidden; }

// Whether this allocation may go on.
static bool alloc_allowed(void) {
    if (CH_UNLIKELY(alloc_forbidden)) ch_assert_fail("no allocation inside a step", __FILE__, __LINE__);
    if (CH_LIKELY(atomic_load_explicit(&fail_countdown, memory_order_relaxed) < 0)) return true;
    return atomic_fetch_sub(&fail_countdown, 1) != 0;
}

void *ch_alloc(size_t size) { return alloc_allowed() ? calloc(1, size ? size : 1) : NULL; }

void *ch_alloc_array(size_t n, size_t size) {
    size_t total;
    return ch_mul_size(n, size, &total) ? ch_alloc(total) : NULL;
}

void *ch_alloc_untouched(size_t size, size_t align) {
    if (!alloc_allowed()) return NULL;
    if (align < sizeof(void *)) align = sizeof(void *);
    // Weights, states and caches are streamed: with pages of 2 MiB the processor walks fewer page tables. Asked for before the
    // first touch; where the system says no, nothing is lost.
    const bool huge = size >= HUGE_PAGE;
    if (huge && align < HUGE_PAGE) align = HUGE_PAGE;
    void *p = NULL;
    if (posix_memalign(&p, align, size ? size : 1) != 0) return NULL;
    if (huge) (void)madvise(p, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
    return p;
}

void *ch_alloc_aligned(size_t size, size_t align) {
    void *p = ch_alloc_untouched(size, align);
    if (p) memset(p, 0, size);
    return p;
}

void *ch_realloc(void *p, size_t size) { return alloc_allowed() ? realloc(p, size ? size : 1) : NULL; }

char *ch_strndup(const char *s, size_t n) {
    size_t size;
    if (!ch_add_size(n, 1, &size)) return NULL;
    char *p = ch_alloc(size);
    if (p && n) memcpy(p, s, n);
    return p;
}

void ch_free(void *p) { free(p); }

// ---- arena ----------------------------------------------------------------------------------------------------------
#define ARENA_ALIGN 16
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_EXACT 1 // one system block per request, so that the sanitizer sees every overrun
#else
#define ARENA_EXACT 0
#endif
#define ARENA_MIN_CHUNK ((size_t)4096)
#define ARENA_MAX_CHUNK ((size_t)1 << 20)

typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t pad; // keeps what follows 16-byte aligned
} arena_chunk;

struct ch_arena {
    arena_chunk *chunks; // newest first
    uint8_t *at;         // free part of the newest chunk
    size_t left;
    size_t next_chunk;
    size_t bytes, limit;
};

ch_arena *ch_arena_create(size_t limit) {
    ch_arena *a = ch_alloc(sizeof *a);
    if (!a) return NULL;
    a->limit = limit;
    a->next_chunk = ARENA_MIN_CHUNK;
    return a;
}

// A chunk with room for size bytes, linked in; NULL when memory cannot be had.
static uint8_t *arena_add_chunk(ch_arena *a, size_t size) {
    size_t total;
    if (!ch_add_size(size, sizeof(arena_chunk), &total)) return NULL;
    arena_chunk *c = ch_alloc(total);
    if (!c) return NULL;
    c->next = a->chunks;
    a->chunks = c;
    return (uint8_t *)(c + 1);
}

void *ch_arena_alloc(ch_arena *a, size_t size) {
    size_t need, total;
    if (!ch_round_up_size(size ? size : 1, ARENA_ALIGN, &need)) return NULL;
    if (!ch_add_size(a->bytes, need, &total) || (a->limit && total > a->limit)) return NULL;
    uint8_t *p;
    if (ARENA_EXACT) {
        p = arena_add_chunk(a, size);
    } else if (need <= a->left) {
        p = a->at;
        a->at += need;
        a->left -= need;
    } else if (need > a->next_chunk / 2) {
        p = arena_add_chunk(a, need); // big: own chunk, the present one stays in use
    } else {
        p = arena_add_chunk(a, a->next_chunk);
        if (p) {
            a->at = p + need;
            a->left = a->next_chunk - need;
            if (a->next_chunk < ARENA_MAX_CHUNK) a->next_chunk *= 2;
        }
    }
    if (p) a->bytes = total;
    return p;
}

char *ch_arena_strndup(ch_arena *a, const char *s, size_t n) {
    size_t size;
    if (!ch_add_size(n, 1, &size)) return NULL;
    char *p = ch_arena_alloc(a, size);
    if (p && n) memcpy(p, s, n);
    return p;
}

size_t ch_arena_bytes(const ch_arena *a) { return a->bytes; }

void ch_arena_free(ch_arena **a) {
    if (!*a) return;
    for (arena_chunk *c = (*a)->chunks; c;) {
        arena_chunk *next = c->next;
        ch_free(c);
        c = next;
    }
    ch_free(*a);
    *a = NULL;
}

// ---- growable bytes -------------------------------------------------------------------------------------------------
// Room for n more bytes and the NUL.
static bool buf_reserve(ch_buf *b, size_t n) {
    size_t need;
    if (!ch_add_size(b->len, n, &need) || (b->limit && need > b->limit) || !ch_add_size(need, 1, &need)) goto fail;
    if (need <= b->cap) return true;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    char *p = ch_realloc(b->data, cap);
    if (!p) goto fail;
    b->data = p;
    b->cap = cap;
    return true;
fail:
    b->failed = true;
    return false;
}

bool ch_buf_append(ch_buf *b, const void *data, size_t n) {
    if (!buf_reserve(b, n)) return false;
    if (n) memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = 0;
    return true;
}

bool ch_buf_puts(ch_buf *b, const char *s) { return ch_buf_append(b, s, strlen(s)); }

bool ch_buf_printf(ch_buf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    size_t room = b->cap - b->len;
    // Without memory yet vsnprintf only counts.
    int n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
    va_end(ap);
    bool fits_limit = n >= 0 && (!b->limit || (size_t)n <= b->limit - b->len);
    bool ok = fits_limit && (size_t)n < room;
    if (!ok && fits_limit && buf_reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        ok = true;
    }
    va_end(again);
    if (ok) {
        b->len += (size_t)n;
    } else {
        b->failed = true;
        if (b->cap) b->data[b->len] = 0; // take back the partial text
    }
    return ok;
}

void ch_buf_reset(ch_buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

void ch_buf_free(ch_buf *b) {
    ch_free(b->data);
    *b = (ch_buf){.limit = b->limit};
}
