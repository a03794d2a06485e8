// Curves as an SVG drawing: linear x, logarithmic y.
#include <math.h>
#include <stdio.h>

#include "train/trainer.h"

enum { WIDTH = 900, HEIGHT = 480, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50 };

typedef struct range {
    double x0, x1, y0, y1; // y as logarithms
} range;

static range range_of(const ch_train_curve *c, size_t n) {
    range r = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < c[i].n; k++) {
            if (!(c[i].y[k] > 0) || !isfinite(c[i].y[k])) continue;
            r.x0 = fmin(r.x0, c[i].x[k]), r.x1 = fmax(r.x1, c[i].x[k]);
            r.y0 = fmin(r.y0, log(c[i].y[k])), r.y1 = fmax(r.y1, log(c[i].y[k]));
        }
    if (!(r.x1 > r.x0)) r.x0 = isfinite(r.x0) ? r.x0 - 1 : 0, r.x1 = r.x0 + 2;
    if (!(r.y1 > r.y0)) r.y0 = isfinite(r.y0) ? r.y0 - 0.1 : 0, r.y1 = r.y0 + 0.2;
    return r;
}

static double at_x(const range *r, double x) { return LEFT + (x - r->x0) / (r->x1 - r->x0) * (WIDTH - LEFT - RIGHT); }
static double at_y(const range *r, double ln) { return HEIGHT - BOTTOM - (ln - r->y0) / (r->y1 - r->y0) * (HEIGHT - TOP - BOTTOM); }

static void put_axes(ch_buf *b, const range *r) {
    static const double mark[] = {1, 1.5, 2, 3, 5, 7};
    for (int e = -6; e < 6; e++)
        for (size_t i = 0; i < sizeof mark / sizeof *mark; i++) {
            const double v = mark[i] * pow(10, e), y = at_y(r, log(v));
            if (y < TOP - 1 || y > HEIGHT - BOTTOM + 1) continue;
            ch_buf_printf(b, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/><text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT, y,
                          WIDTH - RIGHT, y, LEFT - 6, y + 4, v);
        }
    const double span = r->x1 - r->x0, unit = pow(10, floor(log10(span / 4))), step = span / unit > 25 ? 5 * unit : span / unit > 10 ? 2 * unit : unit;
    for (double x = ceil(r->x0 / step) * step; x <= r->x1; x += step)
        ch_buf_printf(b, "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n", at_x(r, x), HEIGHT - BOTTOM + 20, x);
}

int ch_train_plot(const char *path, const char *title, const ch_train_curve *curve, size_t n_curve, ch_error *e) {
    static const char *const colour[] = {"#1f6fb2", "#d2691e", "#2e8b57", "#8b2e7a"};
    const range r = range_of(curve, n_curve);
    ch_buf b = {0};
    ch_buf_printf(&b, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n"
                      "<rect width='100%%' height='100%%' fill='white'/>\n<text x='%d' y='24' font-size='15'>", WIDTH, HEIGHT, LEFT);
    for (const char *p = title; *p; p++) { // names come from files
        if (*p == '<' || *p == '&') ch_buf_puts(&b, *p == '<' ? "&lt;" : "&amp;");
        else ch_buf_append(&b, p, 1);
    }
    ch_buf_puts(&b, "</text>\n");
    put_axes(&b, &r);
    for (size_t i = 0; i < n_curve; i++) {
        const char *c = colour[i % 4];
        ch_buf_printf(&b, "<text x='%d' y='%zu' fill='%s'>%s</text>\n<polyline fill='none' stroke='%s' stroke-width='1.3' points='", WIDTH - 180,
                      TOP + 16 * (i + 1), c, curve[i].name, c);
        for (size_t k = 0; k < curve[i].n; k++)
            if (curve[i].y[k] > 0 && isfinite(curve[i].y[k]))
                ch_buf_printf(&b, "%.1f,%.1f ", at_x(&r, curve[i].x[k]), at_y(&r, log(curve[i].y[k])));
        ch_buf_puts(&b, "'/>\n");
    }
    ch_buf_puts(&b, "</svg>\n");
    ch_outfile *o = NULL;
    int rc = b.failed ? ch_error_set(e, CH_ENOMEM, "no memory") : ch_outfile_open(&o, path, e);
    if (rc == 0) rc = ch_outfile_write(o, b.data, b.len, e);
    if (rc == 0) rc = ch_outfile_commit(&o, e);
    ch_outfile_abort(&o);
    ch_buf_free(&b);
    return rc;
}
