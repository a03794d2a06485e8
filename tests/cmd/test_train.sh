#!/bin/bash
# chimere train from outside: a run, the same run killed and gone on with, Ctrl-C, exports that the engine runs, wrong configurations.
# time limit: 180 s
. "$(dirname "$0")/common.sh"

"$chimere" synth qwen35 "$tmp/vocab.gguf" --seed 3 2>/dev/null
for i in $(seq 1 300); do
    printf '{"text": "the %s sees the %s and the number is %d"}\n' "$([ $((i % 3)) = 0 ] && echo dog || echo cat)" bird $((i % 10))
done >"$tmp/data.jsonl"
config() { # NAME STEPS MORE
    cat >"$tmp/$1.json" <<END
{"model": {"arch": "qwen35moe", "n_layer": 2, "n_embd": 32, "n_head": 2, "n_head_kv": 1, "d_head": 16, "n_rot": 8, "attn_interval": 2,
           "ssm_heads_k": 1, "ssm_heads_v": 2, "ssm_d_state": 16, "n_expert": 4, "n_expert_used": 2, "n_ff_exp": 32, "n_ff_shexp": 32, "n_mtp": 1},
 "data": {"tokenizer": "$tmp/vocab.gguf", "sources": [{"path": "$tmp/data.jsonl"}], "n_row": 6, "n_ctx": 160},
 "eval": {"sources": [{"path": "$tmp/data.jsonl"}], "every": 20, "batches": 1},
 "train": {"steps": $2, "rate": 5e-3, "warmup": 5, "average": 0.9},
 "run": {"out": "$tmp/$1", "save_every": 7, "threads": 2}$3}
END
}

config whole 60 ''
ok 'a run' "$chimere" train "$tmp/whole.json" -q
ok 'its log has every step' test "$(wc -l <"$tmp/whole/log.jsonl")" = 60
ok 'and evaluations' has '"step":40,.*"eval_loss":[0-9.]+,"eval_mtp_loss":' "$tmp/whole/log.jsonl"
ok 'a plot' has '<polyline' "$tmp/whole/loss.svg"
ok 'a model' "$chimere" verify "$tmp/whole/model.gguf"
ok 'that runs' "$chimere" run -m "$tmp/whole/model.gguf" -p 'the cat' -n 4
first=$(sed -n '1s/.*"loss":\([0-9.]*\).*/\1/p' "$tmp/whole/log.jsonl")
last=$(sed -n '60s/.*"loss":\([0-9.]*\).*/\1/p' "$tmp/whole/log.jsonl")
ok "the loss falls ($first, $last)" awk "BEGIN { exit !($last < $first / 2) }"

# The same run, killed twice between checkpoints.
config cut 60 ''
killed=0
for lines in 10 38; do
    "$chimere" train "$tmp/cut.json" -q &
    pid=$!
    until [ "$(cat "$tmp/cut/log.jsonl" 2>/dev/null | wc -l)" -ge $lines ] || ! kill -0 $pid 2>/dev/null; do :; done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ $? = 137 ] && killed=$((killed + 1))
done
ok 'it was killed twice' test $killed = 2
ok 'a killed run goes on' "$chimere" train "$tmp/cut.json" -q
ok 'to the same checkpoint, bit for bit' cmp "$tmp/whole/checkpoint" "$tmp/cut/checkpoint"
ok 'and the same log' diff <(sed 's/"tokens_per_s":[0-9]*//' "$tmp/whole/log.jsonl") <(sed 's/"tokens_per_s":[0-9]*//' "$tmp/cut/log.jsonl")

# MeZO: seed and step are all that it needs beside the weights.
for name in mezo mezo_cut; do
    config $name 40 ''
    sed -i 's/"average": 0.9/"method": "mezo", "mezo_noise": "rademacher"/' "$tmp/$name.json"
done
ok 'a run without gradients' "$chimere" train "$tmp/mezo.json" -q
"$chimere" train "$tmp/mezo_cut.json" -q &
pid=$!
until [ "$(cat "$tmp/mezo_cut/log.jsonl" 2>/dev/null | wc -l)" -ge 18 ] || ! kill -0 $pid 2>/dev/null; do :; done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
ok 'killed too' test $? = 137
ok 'goes on' "$chimere" train "$tmp/mezo_cut.json" -q
ok 'to the same checkpoint, bit for bit' cmp "$tmp/mezo/checkpoint" "$tmp/mezo_cut/checkpoint"
ok 'of a third of the size' test "$(($(wc -c <"$tmp/mezo/checkpoint") * 4))" -lt "$(($(wc -c <"$tmp/whole/checkpoint") + 1000))"

# Ctrl-C in a long run.
config long 100000 ''
"$chimere" train "$tmp/long.json" >"$tmp/long.out" 2>&1 &
pid=$!
for i in $(seq 100); do [ -s "$tmp/long/log.jsonl" ] && break; sleep 0.1; done
kill -INT $pid
wait $pid
code=$?
ok 'an interrupted run says so' has 'stopped after step [0-9]+ of 100000' "$tmp/long.out"
ok 'with exit code 1' test $code = 1
ok 'its last step is in the checkpoint' test "$(tail -n 1 "$tmp/long/log.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/')" = \
    "$(od -A n -t u8 -j 16 -N 8 "$tmp/long/checkpoint" | tr -d ' ')"
for type in f32 f16 q8_0; do
    ok "export as $type" "$chimere" train "$tmp/long.json" --export "$tmp/$type.gguf" --type $type --average
    ok "which runs" "$chimere" run -m "$tmp/$type.gguf" -p 'the cat' -n 4
done
ok 'another model is refused' bash -c "sed 's/\"n_layer\": 2/\"n_layer\": 4/' '$tmp/long.json' >'$tmp/other.json'
    ! '$chimere' train '$tmp/other.json' 2>'$tmp/err' && grep -q 'made with another model' '$tmp/err'"
ok 'unless begun anew' "$chimere" train "$tmp/other.json" --restart --steps 2 -q
ok 'keys are listed' bash -c "'$chimere' train --keys | grep -q mtp_weight"
ok 'no configuration: usage' bash -c "'$chimere' train; test \$? = 2"
echo '{"model": {"arch": "llama"}}' >"$tmp/bad.json"
ok 'a missing key is named' bash -c "! '$chimere' train '$tmp/bad.json' 2>'$tmp/err' && grep -q 'model.n_layer is missing' '$tmp/err'"

finish
