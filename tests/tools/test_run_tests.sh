#!/bin/bash
# The test runner itself, on a small tree of its own: counts, skips, failures, crashes, limits, empty runs. time limit: 120 s
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/tools" "$tmp/tests/a" "$tmp/tests/unit" "$tmp/build/x/tests/unit"
cp "$root/tools/run_tests" "$tmp/tools/"
passed=0 failed=0

# program NAME BODY: a script that stands for a cmocka program
program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$tmp/build/x/tests/unit/test_$1"
    chmod +x "$tmp/build/x/tests/unit/test_$1"
    echo "// time limit: 3 s" >"$tmp/tests/unit/test_$1.c"
}
script() { printf '# time limit: 3 s\n%s\n' "$2" >"$tmp/tests/a/test_$1.sh"; }

# expect NAME CLOSING_LINE STATUS [PART...]
expect() {
    local name=$1 line=$2 status=$3 out rc
    shift 3
    out=$("$tmp/tools/run_tests" build/x "$@" 2>&1)
    rc=$?
    if [ "$(tail -n 1 <<<"$out")" = "$line" ] && [ $rc = "$status" ] && [ "$(grep -cE '^[0-9]+ passed, ' <<<"$out")" = 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s: expected "%s" and status %s, found status %s and:\n%s\n' "$name" "$line" "$status" $rc "$out"
    fi
}

expect nothing "0 passed, 0 failed, 0 skipped" 1
script good 'exit 0'
expect script "1 passed, 0 failed, 0 skipped" 0
script away 'echo "no such tool"; exit 77'
expect skip "1 passed, 0 failed, 1 skipped" 0
expect only-skips "0 passed, 0 failed, 1 skipped" 0 away
script counts 'echo "7 passed, 0 failed, 2 skipped"'
expect own-counts "8 passed, 0 failed, 3 skipped" 0
program cases 'echo "[  PASSED  ] 3 test(s)."; echo "[  SKIPPED ] 1 test(s), listed below:"'
expect program "11 passed, 0 failed, 4 skipped" 0
program silent 'exit 0'
expect no-test-in-it "0 passed, 1 failed, 0 skipped" 1 silent
program broken 'echo "[  PASSED  ] 2 test(s)."; echo "[  FAILED  ] 1 test(s), listed below:"; exit 1'
expect failing-case "2 passed, 1 failed, 0 skipped" 1 broken
program crash 'echo "[  PASSED  ] 2 test(s)."; kill -SEGV $$'
expect crash-after-passes "2 passed, 1 failed, 0 skipped" 1 crash
script bad 'echo "9 passed, 0 failed"; exit 1'
expect lying-counts "9 passed, 1 failed, 0 skipped" 1 _bad
script hang 'sleep 60'
expect time-limit "0 passed, 1 failed, 0 skipped" 1 hang
expect everything "24 passed, 5 failed, 4 skipped" 1
echo "$passed passed, $failed failed"
[ $failed = 0 ]
