#!/bin/bash
# Fine-tuning from outside: adapters for a model file trained, stopped and gone on with, exported, merged; the commands that take --lora,
# the server among them; training all weights of a file; what is refused. time limit: 180 s
. "$(dirname "$0")/common.sh"

fails() { # CODE PATTERN command...
    local code=$1 pattern=$2 out
    shift 2
    out=$("$@" 2>&1)
    [ $? = "$code" ] && grep -qE -- "$pattern" <<<"$out"
}
# Largest difference of two files of floats, and the largest value of the second.
apart() { paste <(od -An -v -w4 -tf4 "$1") <(od -An -v -w4 -tf4 "$2") | awk '{ d = $1 - $2; d = d < 0 ? -d : d; if (d > m) m = d; v = $2 < 0 ? -$2 : $2; if (v > s) s = v } END { print m + 0, s + 0 }'; }
near() { apart "$1" "$2" | awk -v most="$3" '{ exit !($1 <= most * $2) }'; }
logits() { local out=$1; shift; "$chimere" logits "$@" --tokens 1,5,9,2,7 --all -o "$out" -q; }

"$chimere" synth qwen35moe "$tmp/base.gguf" --type f32 --seed 3 --nextn 1 2>/dev/null
"$chimere" synth qwen35 "$tmp/dense.gguf" --seed 3 2>/dev/null
for i in $(seq 1 60); do
    printf '{"messages": [{"role": "user", "content": "what is %d"}, {"role": "assistant", "content": "it is the %s bird"}]}\n' $((i % 10)) "$([ $((i % 3)) = 0 ] && echo red || echo blue)"
done >"$tmp/data.jsonl"
config() { # NAME STEPS LORA
    cat >"$tmp/$1.json" <<END
{"model": {"from": "$tmp/base.gguf"}, $3
 "data": {"sources": [{"path": "$tmp/data.jsonl"}], "n_row": 4, "n_ctx": 96},
 "train": {"steps": $2, "rate": 1e-2, "warmup": 2},
 "run": {"out": "$tmp/$1", "save_every": 5, "threads": 2, "export": "f32"}}
END
}

config whole 12 '"lora": {"rank": 4, "alpha": 8},'
config cut 12 '"lora": {"rank": 4, "alpha": 8},'
ok 'adapters are trained' "$chimere" train "$tmp/whole.json" -q
ok 'the loss falls' awk -F'"loss":' '{ split($2, a, ","); if (NR == 1) f = a[1]; l = a[1] } END { exit !(NR == 12 && l < 0.9 * f) }' "$tmp/whole/log.jsonl"
ok 'a run that was stopped' "$chimere" train "$tmp/cut.json" --steps 6 -q
ok 'goes on' "$chimere" train "$tmp/cut.json" -q
ok 'to the same adapter' cmp "$tmp/whole/adapter.gguf" "$tmp/cut/adapter.gguf"
ok 'the checkpoint holds adapters alone' test "$(stat -c %s "$tmp/whole/checkpoint")" -lt $((4 * $(stat -c %s "$tmp/whole/adapter.gguf")))
ok 'merged on export' "$chimere" train "$tmp/whole.json" --export "$tmp/merged.gguf" --merge --type f32
ok 'adapter on export' "$chimere" train "$tmp/whole.json" --export "$tmp/again.gguf"
ok 'the same one' cmp "$tmp/whole/adapter.gguf" "$tmp/again.gguf"

logits "$tmp/base.bin" -m "$tmp/base.gguf"
ok 'logits with the adapter' logits "$tmp/lora.bin" -m "$tmp/base.gguf" --lora "$tmp/whole/adapter.gguf"
ok 'and of the merged model' logits "$tmp/merged.bin" -m "$tmp/merged.gguf"
# The widest tier rounds nothing of f32 matrices; sums of some hundred terms in four layers.
ok 'are the same' near "$tmp/lora.bin" "$tmp/merged.bin" 1e-4
ok 'and not those of the model' bash -c "$(declare -f apart near); ! near '$tmp/base.bin' '$tmp/merged.bin' 1e-2"
ok 'half twice' logits "$tmp/half.bin" -m "$tmp/base.gguf" --lora "$tmp/whole/adapter.gguf" --lora "$tmp/again.gguf" --lora-scale 0.5 --lora-scale 0.5
ok 'is whole' near "$tmp/half.bin" "$tmp/lora.bin" 1e-4
ok 'none' logits "$tmp/none.bin" -m "$tmp/base.gguf" --lora "$tmp/whole/adapter.gguf" --lora-scale 0
ok 'is nothing' near "$tmp/none.bin" "$tmp/base.bin" 0
text=$("$chimere" run -m "$tmp/merged.gguf" -p 'what is 3' -n 12 --temp 0 -q)
ok 'run' test "$("$chimere" run -m "$tmp/base.gguf" --lora "$tmp/whole/adapter.gguf" -p 'what is 3' -n 12 --temp 0 -q)" = "$text"
ok 'run, by variable' test "$(CHIMERE_LORA="$tmp/whole/adapter.gguf" "$chimere" run -m "$tmp/base.gguf" -p 'what is 3' -n 12 --temp 0 -q)" = "$text"
ok 'bench' "$chimere" bench -m "$tmp/base.gguf" --lora "$tmp/whole/adapter.gguf" -p 8 -n 2 -r 1 -q

serve() { # OUT ARGUMENTS: the answer to one chat
    local out=$1 port= pid
    shift
    "$chimere" serve --port 0 --ctx 128 "$@" 2>"$tmp/serve.err" &
    pid=$!
    for i in $(seq 200); do
        port=$(sed -n 's|.*ready on http://[^ ]*:\([0-9]*\)/v1.*|\1|p' "$tmp/serve.err")
        [ -n "$port" ] && break
        sleep 0.1
    done
    python3 - "$port" >"$out" <<'END'
import http.client, json, sys
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
body = {"model": "x", "messages": [{"role": "user", "content": "what is 4"}], "temperature": 0, "max_tokens": 12}
c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
print(c.getresponse().read().decode())
END
    kill $pid
    wait $pid
    return 0
}
part() { python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(json.dumps(a["choices"][0]["message"]) if sys.argv[2] == "text" else a["system_fingerprint"])' "$1" "$2"; }
serve "$tmp/with.json" -m "$tmp/base.gguf" --lora "$tmp/whole/adapter.gguf" --name x
serve "$tmp/merged.json" -m "$tmp/merged.gguf" --name x
serve "$tmp/without.json" -m "$tmp/base.gguf" --name x
ok 'the server answers as the merged model' test "$(part "$tmp/with.json" text)" = "$(part "$tmp/merged.json" text)"
ok 'its fingerprint is that of the pair' test "$(part "$tmp/with.json" id)" != "$(part "$tmp/without.json" id)"

config all 4 ''
ok 'all weights are trained' "$chimere" train "$tmp/all.json" -q
ok 'to a model' "$chimere" verify "$tmp/all/model.gguf"
ok 'with the keys of the file' bash -c "'$chimere' info '$tmp/all/model.gguf' --json | grep -q '\"n_layer\": *5\|\"n_layer\": *4'"
ok 'which learnt' bash -c "! cmp -s '$tmp/all/model.gguf' '$tmp/base.gguf'"

ok 'an adapter is no model' fails 1 'is an adapter, no model' "$chimere" run -m "$tmp/again.gguf" -p x
ok 'a model is no adapter' fails 1 'no adapter: general.type' "$chimere" run -m "$tmp/base.gguf" --lora "$tmp/dense.gguf" -p x
ok 'of another family' fails 1 'made for architecture "qwen35moe", and the model is qwen35' "$chimere" run -m "$tmp/dense.gguf" --lora "$tmp/again.gguf" -p x
ok 'no such file' fails 1 'missing.gguf' "$chimere" run -m "$tmp/base.gguf" --lora "$tmp/missing.gguf" -p x
ok 'a wrong scale' fails 2 'lora-scale: expected a number from -1000 to 1000, found "much"' "$chimere" run -m "$tmp/base.gguf" --lora "$tmp/again.gguf" --lora-scale much -p x
ok 'scales without adapters' fails 2 'more of them than of --lora' "$chimere" run -m "$tmp/base.gguf" --lora-scale 1 -p x
ok 'nothing to merge' fails 1 'merge: this run trains no adapters' "$chimere" train "$tmp/all.json" --export "$tmp/x.gguf" --merge
sed 's/"rank": 4/"rank": 5/' "$tmp/whole.json" >"$tmp/other.json"
ok 'a checkpoint of other adapters' fails 1 'other adapters' "$chimere" train "$tmp/other.json" -q
sed "s|\"from\": \"[^\"]*\"|\"from\": \"$tmp/base.gguf\", \"n_embd\": 64|" "$tmp/whole.json" >"$tmp/two.json"
ok 'a shape beside a file' fails 1 'model.n_embd: model.from has it already' "$chimere" train "$tmp/two.json" -q
sed "s|$tmp/base.gguf|$tmp/again.gguf|" "$tmp/whole.json" >"$tmp/adapter.json"
ok 'an adapter to begin with' fails 1 'token_embd.weight is missing' "$chimere" train "$tmp/adapter.json" -q

finish
