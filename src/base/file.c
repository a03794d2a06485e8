// Mapped files, whole-file reads, atomic writes.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static int open_for_read(const char *path, ch_error *e) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ch_error_set(e, CH_EIO, "%s: cannot open: %s", path, strerror(errno));
    return fd;
}

// ---- map ------------------------------------------------------------------------------------------------------------
int ch_map_open(ch_map *m, const char *path, ch_error *e) {
    static const uint8_t empty[1];
    *m = (ch_map){0};
    // Non-blocking, so that a named pipe is refused below rather than waited for.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ch_error_set(e, CH_EIO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) != 0) {
        rc = ch_error_set(e, CH_EIO, "%s: cannot stat: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        rc = ch_error_set(e, CH_EIO, "%s: expected a regular file, found a %s", path,
                          S_ISDIR(st.st_mode) ? "folder" : "device, pipe or socket");
    } else if (st.st_size == 0) {
        m->data = empty;
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            rc = ch_error_set(e, CH_EIO, "%s: cannot map %lld bytes: %s", path, (long long)st.st_size, strerror(errno));
        } else {
            m->data = p;
            m->size = (size_t)st.st_size;
        }
    }
    close(fd);
    return rc;
}

void ch_map_close(ch_map *m) {
    if (m->size) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (ch_map){0};
}

void ch_map_drop(const void *p, size_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), b = ((uintptr_t)p + page - 1) / page * page, end = ((uintptr_t)p + n) / page * page;
    if (b < end) madvise((void *)b, end - b, MADV_DONTNEED);
}

bool ch_map_resident(const void *p, size_t n) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p / page * page, end = (uintptr_t)p + n;
    unsigned char here[1024];
    while (at < end) {
        size_t n_page = (end - at + page - 1) / page;
        if (n_page > sizeof here) n_page = sizeof here;
        if (mincore((void *)at, n_page * page, here) != 0) return false;
        for (size_t i = 0; i < n_page; i++)
            if (!(here[i] & 1)) return false;
        at += n_page * page;
    }
    return true;
}

int ch_read_file(ch_buf *b, const char *path, ch_error *e) {
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open_for_read(path, e);
    if (fd < 0) return fd;
    char *chunk = ch_alloc(1 << 16);
    int rc = chunk ? 0 : ch_error_set(e, CH_ENOMEM, "%s: no memory to read it", path);
    while (rc == 0) {
        ssize_t n = read(fd, chunk, 1 << 16);
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            rc = ch_error_set(e, CH_EIO, "%s: cannot read: %s", path, strerror(errno));
        } else if (!ch_buf_append(b, chunk, (size_t)n)) {
            if (b->limit && b->len + (size_t)n > b->limit)
                rc = ch_error_set(e, CH_ELIMIT, "%s: larger than the limit of %zu bytes", path, b->limit);
            else rc = ch_error_set(e, CH_ENOMEM, "%s: no memory to read it", path);
        }
    }
    if (rc == 0 && !b->data && !ch_buf_append(b, "", 0)) rc = ch_error_set(e, CH_ENOMEM, "%s: no memory", path);
    ch_free(chunk);
    if (!is_stdin) close(fd);
    return rc;
}

// ---- atomic writing -------------------------------------------------------------------------------------------------
#define OUT_BUFFER ((size_t)1 << 20)

struct ch_outfile {
    int fd;
    char *path; // where it will appear, symbolic links resolved
    char *temp; // NULL when path is a device or pipe, which is written straight
    uint8_t *buf;
    size_t n_buf;
    uint64_t written; // handed in so far
};

static void outfile_free(ch_outfile **o) {
    if ((*o)->fd >= 0) close((*o)->fd);
    ch_free((*o)->path);
    ch_free((*o)->temp);
    ch_free((*o)->buf);
    ch_free(*o);
    *o = NULL;
}

// Creates a temporary file beside o->path; the user's umask applies, as for any new file.
static int open_temp(ch_outfile *o, ch_error *e) {
    size_t cap = strlen(o->path) + 32;
    o->temp = ch_alloc(cap);
    if (!o->temp) return ch_error_set(e, CH_ENOMEM, "%s: no memory", o->path);
    ch_rng r;
    ch_rng_seed(&r, ch_clock_ns() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)o);
    for (int tries = 0; tries < 100; tries++) {
        snprintf(o->temp, cap, "%s.tmp%08x", o->path, (unsigned)ch_rng_u64(&r));
        o->fd = open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd >= 0) return 0;
        if (errno != EEXIST) break;
    }
    return ch_error_set(e, CH_EIO, "%s: cannot create: %s", o->temp, strerror(errno));
}

int ch_outfile_open(ch_outfile **out, const char *path, ch_error *e) {
    *out = NULL;
    ch_outfile *o = ch_alloc(sizeof *o);
    if (!o) return ch_error_set(e, CH_ENOMEM, "%s: no memory", path);
    o->fd = -1;
    char resolved[PATH_MAX];
    const char *real = realpath(path, resolved); // NULL when it does not exist yet
    o->path = ch_strndup(real ? real : path, strlen(real ? real : path));
    o->buf = ch_alloc(OUT_BUFFER);
    int rc = 0;
    struct stat st;
    if (!o->path || !o->buf) rc = ch_error_set(e, CH_ENOMEM, "%s: no memory", path);
    else if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) rc = open_temp(o, e);
    else if (S_ISDIR(st.st_mode)) rc = ch_error_set(e, CH_EIO, "%s: expected a file, found a folder", path);
    else if ((o->fd = open(path, O_WRONLY | O_CLOEXEC)) < 0)
        rc = ch_error_set(e, CH_EIO, "%s: cannot open for writing: %s", path, strerror(errno));
    if (rc != 0) {
        if (o->fd < 0 && o->temp) {
            ch_free(o->temp);
            o->temp = NULL;
        }
        outfile_free(&o);
        return rc;
    }
    *out = o;
    return 0;
}

static int write_all(ch_outfile *o, const uint8_t *p, size_t n, ch_error *e) {
    while (n > 0) {
        ssize_t done = write(o->fd, p, n > (1u << 30) ? (1u << 30) : n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return ch_error_set(e, CH_EIO, "%s: cannot write: %s", o->path, strerror(errno));
        p += done;
        n -= (size_t)done;
    }
    return 0;
}

static int flush(ch_outfile *o, ch_error *e) {
    int rc = write_all(o, o->buf, o->n_buf, e);
    o->n_buf = 0;
    return rc;
}

int ch_outfile_write(ch_outfile *o, const void *data, size_t n, ch_error *e) {
    o->written += n;
    if (n > OUT_BUFFER - o->n_buf) {
        int rc = flush(o, e);
        if (rc != 0) return rc;
    }
    if (n >= OUT_BUFFER) return write_all(o, data, n, e);
    if (n) memcpy(o->buf + o->n_buf, data, n);
    o->n_buf += n;
    return 0;
}

int ch_outfile_reserve(ch_outfile *o, uint64_t n, ch_error *e) {
    if (!o->temp || n > INT64_MAX || fallocate(o->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)n) == 0) return 0;
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return 0;
    return ch_error_set(e, CH_EIO, "%s: cannot set %llu MiB of disk aside: %s", o->path, (unsigned long long)(n >> 20), strerror(errno));
}

uint64_t ch_outfile_tell(const ch_outfile *o) { return o->written; }

// After a rename the folder itself must reach the disk too; a failure here is not worth losing the file for.
static void sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *dir = slash ? ch_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : ch_strndup(".", 1);
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    ch_free(dir);
}

int ch_outfile_commit(ch_outfile **out, ch_error *e) {
    ch_outfile *o = *out;
    int rc = flush(o, e);
    if (rc == 0 && o->temp && fsync(o->fd) != 0)
        rc = ch_error_set(e, CH_EIO, "%s: cannot flush to disk: %s", o->path, strerror(errno));
    if (rc == 0) {
        int closed = close(o->fd);
        o->fd = -1;
        if (closed != 0) rc = ch_error_set(e, CH_EIO, "%s: cannot close: %s", o->path, strerror(errno));
    }
    if (rc == 0 && o->temp && rename(o->temp, o->path) != 0)
        rc = ch_error_set(e, CH_EIO, "%s: cannot put in place: %s", o->path, strerror(errno));
    if (rc != 0) {
        ch_outfile_abort(out);
        return rc;
    }
    if (o->temp) sync_folder(o->path);
    outfile_free(out);
    return 0;
}

void ch_outfile_abort(ch_outfile **o) {
    if (!*o) return;
    if ((*o)->temp) unlink((*o)->temp);
    outfile_free(o);
}
