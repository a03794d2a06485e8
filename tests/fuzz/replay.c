// Runs a fuzz target over files: every argument is a file or a folder of files (one level). Used by every config but fuzz,
// so that the corpus is a regression test with any compiler.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
static int n_run;

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), 1;
    uint8_t *data = NULL;
    size_t n = 0, cap = 0, got = 0;
    do {
        n += got;
        if (n == cap) {
            cap = cap ? cap * 2 : 4096;
            uint8_t *more = realloc(data, cap);
            if (!more) return free(data), fclose(f), fprintf(stderr, "%s: no memory\n", path), 1;
            data = more;
        }
        got = fread(data + n, 1, cap - n, f);
    } while (got > 0);
    fclose(f);
    // An exact-size copy, so that a sanitizer sees the first byte past the end.
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) return free(data), 1;
    memcpy(exact, data, n);
    free(data);
    fprintf(stderr, "%s\n", path); // on a crash the last line names the input
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    n_run++;
    return 0;
}

static int replay_folder(const char *path) {
    DIR *d = opendir(path);
    if (!d) return perror(path), 1;
    int rc = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char file[4096];
        struct stat st;
        int len = snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || len < 0 || (size_t)len >= sizeof file) continue;
        if (stat(file, &st) == 0 && S_ISREG(st.st_mode)) rc |= replay_file(file);
    }
    closedir(d);
    return rc;
}

int main(int argc, char **argv) {
    int rc = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) != 0) {
            perror(argv[i]);
            rc = 1;
        } else {
            rc |= S_ISDIR(st.st_mode) ? replay_folder(argv[i]) : replay_file(argv[i]);
        }
    }
    printf("%d inputs\n", n_run);
    return rc || n_run == 0;
}
