# What the tests of commands share: sourced, not run.
set -u
chimere=${CHIMERE_BIN:-$(dirname "$0")/../../chimere}
tmp=${CHIMERE_TMP:-$(mktemp -d)}
passed=0 failed=0

ok() { # NAME command...
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name: ${out:0:400}"
    fi
}
has() { grep -qE -- "$1" "$2"; }
finish() {
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
}
