#!/bin/bash
# The lint itself: every rule reports a violation planted for it, and a clean tree passes.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

fresh() {
    rm -rf "$tmp/t"
    mkdir -p "$tmp/t/tools" "$tmp/t/src/base" "$tmp/t/src/gguf" "$tmp/t/src/serve" "$tmp/t/src/sched" "$tmp/t/include" "$tmp/t/tests"
    cp "$root/tools/lint_layers" "$tmp/t/tools/"
    echo '#include <stddef.h>' >"$tmp/t/src/base/base.h"
    echo '#include "base/base.h"' >"$tmp/t/src/gguf/gguf.h"
    echo '#include "gguf/gguf.h"' >"$tmp/t/src/gguf/open.c"
}
# expect NAME PATTERN: the report names it; an empty pattern: clean
expect() {
    local out rc
    out=$("$tmp/t/tools/lint_layers" 2>&1)
    rc=$?
    if { [ -z "$2" ] && [ $rc = 0 ]; } || { [ -n "$2" ] && [ $rc = 1 ] && grep -qE "$2" <<<"$out"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s: wanted "%s", status %d:\n%s\n' "$1" "$2" $rc "$out"
    fi
    fresh
}

fresh
expect clean ''
echo '#include "gguf/gguf.h"' >"$tmp/t/src/base/up.c"
expect upward 'src/base/up.c:1: base may not include gguf/gguf.h'
echo '#include "gguf/part.h"' >"$tmp/t/src/sched/a.c"
expect not-named 'sched may not include gguf/part.h'
mkdir -p "$tmp/t/src/seq"
echo '#include "base/hidden.h"' >"$tmp/t/src/seq/a.c"
expect private 'base/hidden.h is private to base'
echo '#include "../base/base.h"' >"$tmp/t/src/gguf/a.c"
expect relative 'write "../base/base.h" from src/'
echo '#include <microhttpd.h>' >"$tmp/t/src/sched/a.c"
expect library 'sched may not use microhttpd.h'
mkdir -p "$tmp/t/src/utils"
echo '#include <stddef.h>' >"$tmp/t/src/utils/a.c"
expect folder 'src/utils is not in the folder table'
seq -f 'int ch_a%g;' 1001 >"$tmp/t/src/gguf/a.c"
expect long-file 'src/gguf/a.c: 1001 lines'
seq -f 'int ch_a%g;' 401 >"$tmp/t/src/gguf/a.h"
expect long-header 'src/gguf/a.h: 401 lines'
{ echo 'void ch_f(void)'; echo '{'; seq -f '    ch_g(%g);' 148; echo '}'; } >"$tmp/t/src/gguf/a.c"
expect long-function 'function of 151 lines'
{ echo 'void ch_f(void)'; echo '{'; seq -f '    ch_g(%g);' 147; echo '}'; } >"$tmp/t/src/gguf/a.c"
expect function-at-limit ''
{ echo 'void ch_f(int a,'; echo '          int b) {'; seq -f '    ch_g(%g);' 148; echo '}'; } >"$tmp/t/src/gguf/a.c"
expect long-function-same-line 'src/gguf/a.c:1: function of 151 lines'
expect clean-again ''
mkdir -p "$tmp/t/tests/peers/node_modules/a"
seq -f 'int x%g;' 500 >"$tmp/t/tests/peers/node_modules/a/a.h"
expect packages-of-others ''
echo '// TO''DO: later' >"$tmp/t/src/gguf/a.c"
expect word 'word: .*src/gguf/a.c:1'
echo 'const char *ch_x = "qwen35";' >"$tmp/t/src/gguf/a.c"
expect architecture 'arch-name: src/gguf/a.c:1'
echo 'const char *ch_x = "/v1/models";' >"$tmp/t/src/sched/a.c"
expect endpoint 'endpoint: src/sched/a.c:1'
echo 'void ch_f(void) { printf("x"); }' >"$tmp/t/src/gguf/a.c"
expect print 'library: src/gguf/a.c:1'
echo 'void ch_f(char *a) { strcpy(a, "x"); }' >"$tmp/t/src/gguf/a.c"
expect unsafe 'unsafe: src/gguf/a.c:1'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
