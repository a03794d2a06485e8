#!/bin/bash
# The command line: exit codes, suggestions, ranges, variables, config files, help of every command, and the outputs of run,
# chat, logits, trace and bench on a small model with random weights.
# time limit: 180 s
. "$(dirname "$0")/common.sh"
model=$tmp/model.gguf

# expect EXIT_CODE PATTERN command...: the code, and an extended pattern in stdout and stderr together.
expect() {
    local want=$1 pattern=$2 out rc
    shift 2
    out=$("$@" 2>&1 </dev/null | tr -d '\0'; exit "${PIPESTATUS[0]}")
    rc=$?
    if [ $rc = "$want" ] && grep -qE -- "$pattern" <<<"$out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $* (exit $rc, expected $want and \"$pattern\"): ${out:0:400}"
    fi
}

expect 0 '^chimere [0-9]' "$chimere" --version
expect 0 'First steps' "$chimere" --help
expect 2 'First steps' "$chimere"
expect 2 'did you mean serve' "$chimere" srve
expect 2 'unknown command "zzzzzz"$' "$chimere" zzzzzz
for command in $("$chimere" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v chimere); do
    expect 0 '^chimere '"$command" "$chimere" "$command" --help
    expect 0 '^chimere '"$command" "$chimere" help "$command"
    expect 2 'unknown option --no-such-thing' "$chimere" "$command" --no-such-thing
done

expect 0 'wrote' "$chimere" synth qwen35 "$model" --seed 3
expect 2 'did you mean --temp\?' "$chimere" run -m "$model" -p x --tmep 1
expect 2 '\-\-temp: expected a number from 0 to 2, found "9"' "$chimere" run -m "$model" -p x --temp 9
expect 2 'whole number from .* found "x"' "$chimere" run -m "$model" -p x -n x
expect 2 'one of ref.avx2.avx512.amx.neon, found "sse"' "$chimere" run -m "$model" -p x --tier sse
expect 2 'needs a value' "$chimere" run -m "$model" -p
expect 2 'unexpected "stray"' "$chimere" run -m "$model" -p x stray
expect 1 'nothing.gguf' "$chimere" run -m "$tmp/nothing.gguf" -p x
expect 1 'GGUF|gguf' "$chimere" run -m "$0" -p x
expect 2 'CHIMERE_TOP_K: expected a whole number' env CHIMERE_TOP_K=many "$chimere" run -m "$model" -p x
expect 0 'unknown variable CHIMERE_TOPK.*top-k' env CHIMERE_TOPK=3 "$chimere" run -m "$model" -p x -n 2
printf '# settings\ntop-k = 3\ntempo = 1\nmodel = %s\n' "$model" >"$tmp/good.conf"
printf 'temp = hot\n' >"$tmp/bad.conf"
printf 'temp\n' >"$tmp/odd.conf"
expect 0 'good.conf:3: unknown setting "tempo" .*temp' "$chimere" run --config "$tmp/good.conf" -p x -n 2
expect 2 'bad.conf:1: temp: expected a number' "$chimere" run --config "$tmp/bad.conf" -p x
expect 2 'odd.conf:1: expected "name = value"' "$chimere" run --config "$tmp/odd.conf" -p x
expect 2 'none.conf' "$chimere" run --config "$tmp/none.conf" -p x

# A flag is stronger than a variable, a variable than the file; the seed shows which one counted.
printf 'seed = 3\n' >"$tmp/seed.conf"
expect 0 'seed 1\]' env CHIMERE_SEED=2 "$chimere" run -m "$model" -p x -n 2 --config "$tmp/seed.conf" --seed 1
expect 0 'seed 2\]' env CHIMERE_SEED=2 "$chimere" run -m "$model" -p x -n 2 --config "$tmp/seed.conf"
expect 0 'seed 3\]' "$chimere" run -m "$model" -p x -n 2 --config "$tmp/seed.conf"

# Same seed, same text; JSON says what was done.
one=$("$chimere" run -m "$model" -p "a b c" -n 12 --seed 5 --json 2>/dev/null | sed 's/,"queue_ms.*//')
two=$("$chimere" run -m "$model" -p "a b c" -n 12 --seed 5 --json 2>/dev/null | sed 's/,"queue_ms.*//')
[ -n "$one" ] && [ "$one" = "$two" ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: same seed: $one / $two"; }
expect 0 '"reason":"(length|stop)".*"completion_tokens":' "$chimere" run -m "$model" -p "a b c" -n 4 --json
expect 0 '"n_positions":3,"n_vocab":' "$chimere" logits -m "$model" --tokens 1,2,3 -o "$tmp/all" --all --json
"$chimere" logits -m "$model" --tokens 1,2,3 -o "$tmp/last" 2>/dev/null
size=$(stat -c %s "$tmp/last")
if [ "$size" -gt 0 ] && [ "$(stat -c %s "$tmp/all")" = $((3 * size)) ] && cmp -s "$tmp/last" <(tail -c "$size" "$tmp/all"); then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAILED: the last row of --all is not the row without it"
fi
expect 2 'expected ids from 0' "$chimere" logits -m "$model" --tokens 1,99999999 -o "$tmp/x"
expect 2 'no output' "$chimere" logits -m "$model" --tokens 1
expect 0 'layer_out' "$chimere" trace -m "$model" --tokens 1,2,3
expect 0 '"name":"logits"' "$chimere" trace -m "$model" --tokens 1,2,3 --json
bench=$("$chimere" bench -m "$model" -p 8,16 -n 4 -r 1 --slots 1,2 --json -q 2>&1)
for field in prefill_tps decode_tps read_gbps decode_gbps int8_peak_gops prefill_gops logits_hash rows; do
    grep -q "\"$field\":" <<<"$bench" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: bench has no $field: $bench"; }
done
# A sequence gives the same scores alone and beside another one: rows 8x1 and 8x2 have one hash, 16x1 and 16x2 another.
hashes=$(grep -o '"logits_hash": "[0-9a-f]*"' <<<"$bench" | sort | uniq -c | awk '{ print $1 }' | sort | tr '\n' ' ')
[ "$hashes" = "2 3 " ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: hashes of bench: $hashes"; }
# CSV: a header, and a line of as many fields for each row; no folder names.
csv=$("$chimere" bench -m "$model" -p 8 -n 4 -r 1 --depth 0,5 --slots 1,2 --csv -q 2>&1)
shape=$(awk -F, '{ print NF }' <<<"$csv" | sort | uniq -c | tr -s ' ')
[ "$shape" = " 5 19" ] && ! grep -q / <<<"$csv" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: CSV of bench: $csv"; }
expect 0 '^6 pairs of 4 slots: ' "$chimere" bench -m "$model" -p 4 -n 2 -r 1 --slots 4 --subsets
expect 0 '^4 triples of 4 slots: ' "$chimere" bench -m "$model" -p 4 -n 2 -r 1 --slots 4 --subsets
for command in run chat serve bench logits; do # each takes what the engine can be told about its cache
    expect 0 'no-kv-hadamard' "$chimere" "$command" --help
done
expect 0 '"reason":"length"' "$chimere" run -m "$model" -p "a b c" -n 2 --json --kv-type-k q4_0 --kv-type-v tq4 --no-kv-hadamard
expect 2 'not both' "$chimere" bench -m "$model" --json --csv

printf 'hello\n/info\n/think off\n/save %s/c.json\n/reset\n/nothing\n/quit\nnever\n' "$tmp" |
    "$chimere" chat -m "$model" -n 4 >"$tmp/out" 2>"$tmp/err" && grep -q '"role": "user"' "$tmp/c.json" &&
    grep -q 'no /nothing' "$tmp/err" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: chat: $(cat "$tmp/err")"; }

finish
