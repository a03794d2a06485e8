// The cache of packed weights: one file per model, tier and layout in a folder. A start finds its file by key, maps it, and no
// weight is packed. All sums are checked when a file is mapped for the first time or after anything wrote to it: then its
// time of change, noted in the file's last bytes, differs.
//
// A file appears by rename and is never changed afterwards (but for that note), so any number of processes may write and map
// the same one. Nothing here stops a model from opening: without a cache the weights are packed in memory.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "model/panels.h"

#define SUFFIX ".panels"
enum { SAMPLE = 4096, STALE_SECONDS = 86400 };

typedef struct cache {
    ch_model *m;
    const ch_model_params *p;
    size_t *entry_of; // [m->n_weight] entry of the weight; SIZE_MAX: it is read as it lies
    ch_panels_header header; // what a good file begins with
    ch_panels_entry *entry;  // [header.n_entry]
    size_t n_entry, buffer_bytes; // the largest matrix
    ch_pool *pool; // for checksums
    char path[PATH_MAX];
} cache;

// ---- what a good file must say ----------------------------------------------------------------------------------------------
// Name, shape and three samples: a model file whose values were changed is told apart.
static uint64_t weight_id(const ch_weight *w) {
    uint64_t shape[5] = {w->type->id, w->n_in, w->n_out, w->n_mat, w->raw_bytes};
    uint64_t h = ch_hash64(shape, sizeof shape, ch_hash64(w->name, strlen(w->name), 0));
    if (w->raw_bytes <= 3 * SAMPLE) return ch_hash64(w->raw, w->raw_bytes, h);
    h = ch_hash64(w->raw, SAMPLE, h);
    h = ch_hash64(w->raw + (w->raw_bytes - SAMPLE) / 2, SAMPLE, h);
    return ch_hash64(w->raw + w->raw_bytes - SAMPLE, SAMPLE, h);
}

// Key of everything that decides over the panels' bytes. Times of change are in it for values that no sample saw.
static uint64_t make_key(const cache *c) {
    const ch_gguf *g = c->m->gguf;
    uint64_t h = ch_hash64(c->header.tier, sizeof c->header.tier, ch_gguf_fingerprint(g) ^ c->header.layout);
    for (int i = 0; i < ch_gguf_n_shards(g); i++) {
        struct stat st;
        if (stat(ch_gguf_shard_path(g, i), &st) != 0) st = (struct stat){0};
        int64_t id[3] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec};
        h = ch_hash64(id, sizeof id, h);
    }
    for (size_t i = 0; i < c->n_entry; i++) h = ch_hash64(&c->entry[i].id, sizeof c->entry[i].id, h);
    return h;
}

static int describe(cache *c, ch_error *e) {
    ch_model *m = c->m;
    c->entry = ch_alloc_array(m->n_weight, sizeof *c->entry);
    c->entry_of = ch_alloc_array(m->n_weight, sizeof *c->entry_of);
    if (!c->entry || !c->entry_of) return ch_error_set(e, CH_ENOMEM, "no memory");
    for (size_t i = 0; i < m->n_weight; i++) {
        const ch_weight *w = m->weight[i];
        size_t bytes;
        int rc = ch_op_weight_size(m->op, w, false, &bytes, e);
        if (rc) return rc;
        c->entry_of[i] = bytes ? c->n_entry : SIZE_MAX;
        if (!bytes) continue;
        ch_panels_entry *x = &c->entry[c->n_entry++];
        *x = (ch_panels_entry){.id = weight_id(w), .bytes = bytes, .n_in = w->n_in, .n_out = w->n_out, .n_mat = w->n_mat, .type = (uint32_t)w->type->id};
        snprintf(x->name, sizeof x->name, "%s", w->name);
        if (bytes > c->buffer_bytes) c->buffer_bytes = bytes;
    }
    if (!c->n_entry) return CH_OK;
    snprintf(c->header.tier, sizeof c->header.tier, "%s", ch_op_tier(m->op));
    c->header.layout = ch_op_packed_layout(m->op);
    c->header.key = make_key(c);
    return ch_panels_layout(&c->header, c->entry, c->n_entry, e);
}

// "<folder>/<model's name>-<key>.panels"
static int name_file(cache *c, ch_error *e) {
    const char *path = ch_gguf_path(c->m->gguf), *slash = strrchr(path, '/');
    char stem[80];
    snprintf(stem, sizeof stem, "%s", slash ? slash + 1 : path);
    size_t n = strlen(stem);
    if (n > 5 && !strcmp(stem + n - 5, ".gguf")) stem[n - 5] = 0;
    for (char *s = stem; *s; s++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *s)) *s = '_';
    int len = snprintf(c->path, sizeof c->path, "%s/%s-%016llx" SUFFIX, c->p->panel_cache, stem, (unsigned long long)c->header.key);
    return len > 0 && (size_t)len < sizeof c->path - 32 ? CH_OK : ch_error_set(e, CH_ELIMIT, "%s: path is too long", c->p->panel_cache);
}

// ---- room -------------------------------------------------------------------------------------------------------------------
static int make_folder(const char *dir, ch_error *e) {
    char part[PATH_MAX];
    if (!*dir || snprintf(part, sizeof part, "%s", dir) >= (int)sizeof part) return ch_error_set(e, CH_ERANGE, "bad folder name");
    for (char *s = part + 1;; s++) {
        if (*s && *s != '/') continue;
        char end = *s;
        *s = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) return ch_error_set(e, CH_EIO, "%s: cannot create: %s", part, strerror(errno));
        if (!end) return CH_OK;
        *s = end;
    }
}

typedef struct old_file {
    char name[NAME_MAX + 1];
    uint64_t bytes;
    struct timespec used;
} old_file;

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const old_file *)a)->used, *y = &((const old_file *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static bool begins_right(int folder, const char *name) {
    uint8_t head[8];
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool ok = fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head && ch_panels_is_file(head, sizeof head);
    if (fd >= 0) close(fd);
    return ok;
}

// Lists the folder's panel files; removes what writers that were killed left behind. NULL: none, or no memory.
static old_file *list_files(DIR *d, time_t now, size_t *n) {
    old_file *list = NULL;
    size_t cap = *n = 0;
    for (struct dirent *x; (x = readdir(d)) != NULL;) {
        struct stat st;
        const char *end = strstr(x->d_name, SUFFIX);
        if (!end || fstatat(dirfd(d), x->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) continue;
        if (!strncmp(end, SUFFIX ".tmp", sizeof SUFFIX + 3)) {
            if (st.st_mtim.tv_sec + STALE_SECONDS < now) unlinkat(dirfd(d), x->d_name, 0);
            continue;
        }
        if (strcmp(end, SUFFIX) != 0 || !begins_right(dirfd(d), x->d_name)) continue;
        if (*n == cap) {
            old_file *more = ch_realloc(list, (cap += 64) * sizeof *list);
            if (!more) break;
            list = more;
        }
        snprintf(list[*n].name, sizeof list[*n].name, "%s", x->d_name);
        list[*n].bytes = (uint64_t)st.st_size, list[*n].used = st.st_atim;
        ++*n;
    }
    return list;
}

// Removes the files used longest ago until this one fits the limit too. Who has one mapped keeps it.
static int make_room(const cache *c, bool bad, ch_error *e) {
    uint64_t limit = c->p->panel_cache_bytes, total = c->header.file_bytes;
    if (limit && total > limit)
        return ch_error_set(e, CH_ELIMIT, "%llu MiB of panels are more than its limit of %llu MiB", (unsigned long long)(total >> 20),
                            (unsigned long long)(limit >> 20));
    if (bad) unlink(c->path); // else it may be there by now, from another process that is about to map it
    DIR *d = opendir(c->p->panel_cache);
    if (!d) return ch_error_set(e, CH_EIO, "%s: cannot list: %s", c->p->panel_cache, strerror(errno));
    size_t n;
    old_file *list = list_files(d, time(NULL), &n);
    for (size_t i = 0; i < n; i++) total += list[i].bytes;
    if (n) qsort(list, n, sizeof *list, by_use);
    for (size_t i = 0; i < n && limit && total > limit; i++) {
        if (unlinkat(dirfd(d), list[i].name, 0) != 0) continue;
        total -= list[i].bytes;
        ch_log(CH_LOG_INFO, "panel cache: removed %s", list[i].name);
    }
    ch_free(list);
    closedir(d);
    return CH_OK;
}

// ---- writing ----------------------------------------------------------------------------------------------------------------
static int pad_to(ch_outfile *out, uint64_t at, ch_error *e) {
    static const uint8_t zero[CH_PANELS_ALIGN];
    uint64_t n = at - ch_outfile_tell(out);
    return n ? ch_outfile_write(out, zero, (size_t)n, e) : CH_OK;
}

// Packs one matrix after the other through the same buffer.
static int write_matrices(cache *c, ch_outfile *out, uint8_t *buffer, uint64_t *sum, ch_error *e) {
    uint64_t total = c->header.file_bytes;
    for (size_t i = 0; i < c->m->n_weight; i++) {
        if (c->entry_of[i] == SIZE_MAX) continue;
        const ch_panels_entry *x = &c->entry[c->entry_of[i]];
        int rc = ch_op_weight_attach(c->m->op, c->m->weight[i], buffer, (size_t)x->bytes, e);
        if (rc) return rc;
        ch_op_weight_pack(c->m->op, c->m->weight[i], buffer);
        if ((rc = ch_panels_sum(c->pool, buffer, x->bytes, &sum[c->entry_of[i]], e)) || (rc = pad_to(out, x->offset, e)) ||
            (rc = ch_outfile_write(out, buffer, (size_t)x->bytes, e)))
            return rc;
        if (c->p->progress && !c->p->progress(c->p->progress_user, "saving panels", x->offset + x->bytes, total))
            return ch_error_set(e, CH_ECANCELLED, "%s: loading was stopped", ch_gguf_path(c->m->gguf));
    }
    return CH_OK;
}

// bad: there is a file in its place that is no good.
static int write_file(cache *c, bool bad, ch_error *e) {
    ch_outfile *out = NULL;
    uint8_t *buffer = NULL;
    uint64_t *sum = ch_alloc_array(c->n_entry + 2, sizeof *sum);
    int rc = make_folder(c->p->panel_cache, e);
    if (!rc) rc = make_room(c, bad, e);
    if (!rc) rc = ch_outfile_open(&out, c->path, e);
    if (!rc) rc = ch_outfile_reserve(out, c->header.file_bytes, e);
    if (!rc && (!sum || !(buffer = ch_alloc_untouched(c->buffer_bytes, 64)))) rc = ch_error_set(e, CH_ENOMEM, "no memory to pack weights in");
    if (!rc) rc = ch_outfile_write(out, &c->header, sizeof c->header, e);
    if (!rc) rc = ch_outfile_write(out, c->entry, c->n_entry * sizeof *c->entry, e);
    if (!rc) rc = write_matrices(c, out, buffer, sum, e);
    if (!rc) rc = pad_to(out, c->header.trailer_off, e);
    if (!rc) {
        sum[c->n_entry] = ch_panels_trailer_sum(sum, c->n_entry);
        rc = ch_outfile_write(out, sum, (c->n_entry + 2) * sizeof *sum, e); // the last one, 0: not checked yet
    }
    if (!rc) rc = ch_outfile_commit(&out, e);
    ch_outfile_abort(&out);
    ch_free(sum), ch_free(buffer);
    return rc;
}

// ---- mapping ----------------------------------------------------------------------------------------------------------------
// What the file's last bytes hold while nothing has written to it since its sums were found right.
static uint64_t seal(const cache *c, const struct stat *st) {
    int64_t v[3] = {(int64_t)st->st_mtim.tv_sec, (int64_t)st->st_mtim.tv_nsec, (int64_t)st->st_size};
    return ch_hash64(v, sizeof v, c->header.key) | 1;
}

// Notes that the sums are right. A folder that cannot be written to stays without: its files are checked at each start.
static void note_checked(const cache *c) {
    struct stat st;
    int fd = open(c->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0) {
        uint64_t v = seal(c, &st);
        ssize_t n = pwrite(fd, &v, sizeof v, (off_t)(c->header.file_bytes - sizeof v));
        if (n == (ssize_t)sizeof v) (void)futimens(fd, (struct timespec[2]){{.tv_nsec = UTIME_NOW}, st.st_mtim}); // the write changed it
    }
    close(fd);
}

// 0: mapped and good; else why not.
static int map_file(cache *c, ch_map *map, ch_error *e) {
    struct stat st;
    ch_panels view;
    int rc = ch_map_open(map, c->path, e);
    if (rc) return rc;
    if (stat(c->path, &st) != 0) rc = ch_error_set(e, CH_EIO, "%s", strerror(errno));
    if (!rc) rc = ch_panels_parse(&view, map->data, map->size, e);
    if (!rc && (memcmp(view.header, &c->header, sizeof c->header) != 0 || memcmp(view.entry, c->entry, c->n_entry * sizeof *c->entry) != 0))
        rc = ch_error_set(e, CH_EFORMAT, "panel file: it is not of this model");
    if (!rc && view.checked != seal(c, &st)) {
        rc = ch_panels_check_sums(&view, c->pool, c->p->progress, c->p->progress_user, e);
        if (!rc) note_checked(c);
    }
    if (rc) ch_map_close(map);
    // Its last use, for the choice of what to remove; file systems seldom keep it by themselves.
    else (void)utimensat(AT_FDCWD, c->path, (struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}}, 0);
    return rc;
}

static int attach_all(cache *c, const ch_map *map, ch_error *e) {
    for (size_t i = 0; i < c->m->n_weight; i++) {
        const ch_panels_entry *x = c->entry_of[i] == SIZE_MAX ? NULL : &c->entry[c->entry_of[i]];
        int rc = ch_op_weight_attach(c->m->op, c->m->weight[i], x ? map->data + x->offset : NULL, x ? (size_t)x->bytes : 0, e);
        if (rc) return rc;
    }
    return CH_OK;
}

static int find_or_write(cache *c, ch_map *map, ch_error *e) {
    uint64_t t0 = ch_clock_ns();
    const char *how = "found in";
    int rc = name_file(c, e);
    if (rc || (rc = ch_pool_create(&c->pool, ch_op_n_threads(c->m->op), e))) return rc;
    if (access(c->path, F_OK) != 0 || (rc = map_file(c, map, e)) != 0) {
        if (rc == CH_ECANCELLED) return rc;
        if (rc) ch_log(CH_LOG_WARN, "panel cache: %s is made anew: %s", c->path, e->msg);
        how = "written to";
        if ((rc = write_file(c, rc != 0, e)) || (rc = map_file(c, map, e))) return rc;
    }
    if ((rc = attach_all(c, map, e)) == CH_OK)
        ch_log(CH_LOG_INFO, "panel cache: %llu MiB %s %s in %.2f s", (unsigned long long)(c->header.file_bytes >> 20), how, c->path,
               (double)(ch_clock_ns() - t0) * 1e-9);
    return rc;
}

int ch_model_map_panels(ch_model *m, const ch_model_params *p, ch_error *e) {
    cache *c = ch_alloc(sizeof *c);
    ch_error why = {0};
    int rc = c ? CH_OK : ch_error_set(&why, CH_ENOMEM, "no memory");
    bool none = false; // the tier reads every weight as it lies
    if (!rc) {
        c->m = m, c->p = p;
        rc = describe(c, &why);
        none = !rc && !c->n_entry;
        if (!rc && !none) rc = find_or_write(c, &m->panels, &why);
        if (c->pool) ch_pool_free(&c->pool);
        ch_free(c->entry), ch_free(c->entry_of), ch_free(c);
    }
    if (!rc && !none) return CH_OK;
    for (size_t i = 0; i < m->n_weight; i++) ch_op_weight_release(m->weight[i]);
    ch_map_close(&m->panels);
    if (rc == CH_ECANCELLED) return ch_error_set(e, rc, "%s", why.msg);
    if (rc) ch_log(CH_LOG_WARN, "panel cache: not used: %s", why.msg);
    return 1;
}
