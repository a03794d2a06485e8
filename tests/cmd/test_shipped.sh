#!/bin/bash
# The models that ship: every command uses models/chimere-mini.gguf when none is named, from any folder; it answers, adds, counts.
# time limit: 120 s
. "$(dirname "$0")/common.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
chimere=$(cd "$(dirname "$chimere")" && pwd)/$(basename "$chimere")
unset CHIMERE_MODEL

# expect PATTERN command...: success, and an extended pattern in stdout.
expect() {
    local pattern=$1 out rc
    shift
    out=$("$@" 2>"$tmp/err" </dev/null | tr '\0\n' '  '; exit "${PIPESTATUS[0]}")
    rc=$?
    if [ $rc = 0 ] && grep -qE -- "$pattern" <<<"$out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $* (exit $rc, expected \"$pattern\"): ${out:0:400} $(tail -n 3 "$tmp/err")"
    fi
}
# A greedy answer after the model's own template.
ask() { # pattern question
    local prompt
    printf '[{"role":"user","content":"%s"}]' "$2" >"$tmp/messages.json"
    prompt=$("$chimere" template --json "$tmp/messages.json" 2>/dev/null; printf x) # the template's last line break stays
    expect "$1" "$chimere" run --temp 0 -n 300 -q -p "${prompt%x}"
}

cd "$tmp" || exit 1
expect 'qwen35moe' "$chimere" info
expect '^ok: 184 tensors' "$chimere" verify
expect 'Hello there' bash -c "echo 'Hello there.' | '$chimere' tokenize | '$chimere' detokenize"
expect 'im_start' "$chimere" template
expect '"n_positions":3' "$chimere" logits --all --tokens 1,2,3 -o "$tmp/logits" --json
expect 'layer_out' "$chimere" trace --tokens 1,2,3
expect '"decode_tps"' "$chimere" bench -p 8 -n 4 -r 1 --json -q
printf 'The little fox went home.\n' >"$tmp/text.txt"
expect 'text.txt' "$chimere" perplexity "$tmp/text.txt"
ask 'Paris' 'What is the capital of France?'
ask '85' 'What is 47 + 38?'
ask '25' 'What is 82 - 57?'
ask '7, 8, 9, 10, 11, 12' 'Count from 7 to 12.'
ask 'February' 'What comes before March?'
printf 'What is the capital of Japan?\n/quit\n' | "$chimere" chat --temp 0 >"$tmp/out" 2>"$tmp/err" && grep -q Tokyo "$tmp/out" &&
    passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: chat: $(cat "$tmp/out" "$tmp/err")"; }

# Sizes; and the siblings, of other families, speak too.
while read -r name most; do
    size=$(wc -c <"$root/models/$name.gguf")
    [ "$size" -le "$most" ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: $name: $size bytes, at most $most"; }
    export CHIMERE_MODEL=$root/models/$name.gguf
    ask 'Paris' 'What is the capital of France?'
done <<END
chimere-mini 16777216
chimere-tiny-mamba2 2097152
chimere-tiny-nemotron 2097152
END

finish
