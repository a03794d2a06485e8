// UTF-8, strict: no overlong forms, no surrogates, nothing past U+10FFFF.
#include "base/base.h"

size_t ch_utf8_decode(const char *s, size_t n, uint32_t *cp) {
    const uint8_t *p = (const uint8_t *)s;
    uint32_t b = p[0];
    if (b < 0x80) {
        *cp = b;
        return 1;
    }
    *cp = 0xFFFFFFFFu;
    size_t len;
    uint32_t c, least;
    if (b >= 0xc2 && b <= 0xdf) len = 2, c = b & 31, least = 0x80;
    else if (b >= 0xe0 && b <= 0xef) len = 3, c = b & 15, least = 0x800;
    else if (b >= 0xf0 && b <= 0xf4) len = 4, c = b & 7, least = 0x10000;
    else return 1;
    if (len > n) return 1;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 1;
        c = c << 6 | (p[i] & 63);
    }
    if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 1;
    *cp = c;
    return len;
}

size_t ch_utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) return 0;
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 63));
        out[2] = (char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 63));
    out[2] = (char)(0x80 | (cp >> 6 & 63));
    out[3] = (char)(0x80 | (cp & 63));
    return 4;
}

bool ch_utf8_valid(const char *s, size_t n) {
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        i += ch_utf8_decode(s + i, n - i, &cp);
        if (cp == 0xFFFFFFFFu) return false;
    }
    return true;
}
