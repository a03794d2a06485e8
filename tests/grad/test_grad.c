// Backward passes. In double, against central differences of the forward pass; in float, against double. time limit: 300 s
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grad/cases.h"

typedef struct point {
    grad_sizes s;
    double *w, *x, *gw, *gx, *fw, *fx;
} point;

static void open_point(int id, point *p) {
    grad_get(id, &p->s);
    p->w = ch_alloc_array(3 * (p->s.n_param + p->s.n_in), sizeof(double));
    assert_non_null(p->w);
    p->x = p->w + p->s.n_param, p->gw = p->x + p->s.n_in, p->gx = p->gw + p->s.n_param;
    p->fw = p->gx + p->s.n_in, p->fx = p->fw + p->s.n_param;
    grad_start(id, p->w, p->x);
}

// Truncation h^2 f''' / 6 and rounding 1e-16 |f| / h are both near 1e-9 of a gradient of order 1 at this step; ten times that is
// allowed, relative to the value or, for small ones, to the typical size.
static const double step = 1e-5, allowed = 1e-6;

static int check_value(int id, const point *p, double *at, double analytic, double typical, const char *what, size_t i) {
    const double keep = *at;
    *at = keep + step;
    const double up = grad_run64(id, p->w, p->x, NULL, NULL);
    *at = keep - step;
    const double down = grad_run64(id, p->w, p->x, NULL, NULL);
    *at = keep;
    const double numeric = (up - down) / (2 * step);
    if (fabs(numeric - analytic) <= allowed * (fabs(analytic) + typical)) return 0;
    print_error("%s: d loss / d %s[%zu] = %.9g, by differences %.9g\n", p->s.name, what, i, analytic, numeric);
    return 1;
}

static double size_of(const double *g, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += g[i] * g[i];
    return sqrt(s);
}

static double distance(const double *a, const double *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(s);
}

// Values with a gradient, about `want` of them spread over the vector, and both ends of every stretch.
static int check_vector(int id, const point *p, double *v, const double *g, size_t n, size_t want, const char *what) {
    size_t live = 0, seen = 0;
    int bad = 0;
    for (size_t i = 0; i < n; i++) live += g[i] != 0;
    const double typical = live ? size_of(g, n) / sqrt((double)live) : 0;
    const size_t every = live / want + 1;
    for (size_t i = 0; i < n && bad < 10; i++) {
        if (g[i] == 0) continue;
        const bool edge = !i || g[i - 1] == 0 || i + 1 == n || g[i + 1] == 0;
        if (seen++ % every == 0 || edge) bad += check_value(id, p, &v[i], g[i], typical, what, i);
    }
    return bad;
}

static void test_differences(void **state) {
    const int id = (int)(intptr_t)*state;
    point p;
    open_point(id, &p);
    const double loss = grad_run64(id, p.w, p.x, p.gw, p.gx);
    assert_true(isfinite(loss));
    assert_true(size_of(p.gw, p.s.n_param) > 1e-3);
    int bad = check_vector(id, &p, p.w, p.gw, p.s.n_param, 150, "parameter");
    bad += check_vector(id, &p, p.x, p.gx, p.s.n_in, 150, "input");
    assert_int_equal(bad, 0);
    ch_free(p.w);
}

static void test_float(void **state) {
    const int id = (int)(intptr_t)*state;
    point p;
    open_point(id, &p);
    const double exact = grad_run64(id, p.w, p.x, p.gw, p.gx), loss = grad_run(id, p.w, p.x, p.fw, p.fx);
    const double nw = size_of(p.gw, p.s.n_param), nx = size_of(p.gx, p.s.n_in);
    const double off_w = distance(p.gw, p.fw, p.s.n_param) / nw, off_x = nx > 0 ? distance(p.gx, p.fx, p.s.n_in) / nx : 0;
    if (!(fabs(loss - exact) <= 1e-5 * (fabs(exact) + 1) && off_w < 1e-4 && off_x < 1e-4))
        fail_msg("%s: loss %.9g, in double %.9g; gradients off by %.2g (parameters) and %.2g (inputs) of their size", p.s.name, loss, exact,
                 off_w, off_x);
    ch_free(p.w);
}

int main(void) {
    const int n = grad_n_cases();
    struct CMUnitTest *test = calloc((size_t)(2 * n), sizeof *test);
    char (*name)[96] = calloc((size_t)(2 * n), sizeof *name);
    if (!test || !name) return 1;
    for (int i = 0; i < n; i++) {
        grad_sizes s;
        grad_get(i, &s);
        snprintf(name[2 * i], sizeof *name, "differences: %s", s.name);
        snprintf(name[2 * i + 1], sizeof *name, "float: %s", s.name);
        test[2 * i] = (struct CMUnitTest){.name = name[2 * i], .test_func = test_differences, .initial_state = (void *)(intptr_t)i};
        test[2 * i + 1] = (struct CMUnitTest){.name = name[2 * i + 1], .test_func = test_float, .initial_state = (void *)(intptr_t)i};
    }
    const int rc = _cmocka_run_group_tests("grad", test, (size_t)(2 * n), NULL, NULL);
    free(test), free(name);
    return rc;
}
