#!/bin/bash
# chimere train in several processes under mpirun: 2 and 4 against 1, killed and gone on with, signals, refusals.
# time limit: 180 s
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
case $chimere in */tsan/*) echo 'the threads of MPI libraries cannot be followed' && exit 77 ;; esac
command -v mpirun >/dev/null || { echo 'openmpi-bin is not installed' && exit 77; }
[ "$(mpirun -n 1 true 2>&1)" = '' ] || { echo "mpirun cannot start a process here: $(mpirun -n 1 true 2>&1 | head -n 3 | tr '\n' ' ')" && exit 77; }
export TMPDIR=$(mktemp -d /tmp/mpi.XXXXXX) # short: sockets lie in it
trap 'rm -rf "$TMPDIR"' EXIT
export ASAN_OPTIONS=detect_leaks=0 # those of the MPI library

# Processes of one machine. last_wish: seconds between the end of one and the end of all.
last_wish=1
ranks() { # N command...
    local n=$1
    shift
    exec mpirun --oversubscribe --bind-to none --mca btl self,vader --mca btl_vader_single_copy_mechanism none \
        --mca odls_base_sigkill_timeout $last_wish -n "$n" "$@"
}

"$chimere" synth qwen35 "$tmp/vocab.gguf" --seed 3 2>/dev/null
for i in $(seq 1 300); do
    printf '{"text": "the %s sees the %s and the number is %d"}\n' "$([ $((i % 3)) = 0 ] && echo dog || echo cat)" bird $((i % 10))
done >"$tmp/data.jsonl"
# eps: no update may rest on the rounding of a gradient near 0.
config() { # NAME STEPS
    cat >"$tmp/$1.json" <<END
{"model": {"arch": "qwen35moe", "n_layer": 2, "n_embd": 32, "n_head": 2, "n_head_kv": 1, "d_head": 16, "n_rot": 8, "attn_interval": 2,
           "ssm_heads_k": 1, "ssm_heads_v": 2, "ssm_d_state": 16, "n_expert": 4, "n_expert_used": 2, "n_ff_exp": 32, "n_ff_shexp": 32, "n_mtp": 1},
 "data": {"tokenizer": "$tmp/vocab.gguf", "sources": [{"path": "$tmp/data.jsonl"}], "n_row": 4, "n_ctx": 96, "cache": "$tmp/$1.tokens"},
 "eval": {"sources": [{"path": "$tmp/data.jsonl"}], "every": 10, "batches": 1},
 "train": {"steps": $2, "rate": 5e-3, "warmup": 5, "average": 0.9, "eps": 1e-3},
 "run": {"out": "$tmp/$1", "save_every": 7, "threads": 1, "export": "f32"}}
END
}

config one 20
ok 'one process' "$chimere" train "$tmp/one.json" -q
if "$chimere" train "$tmp/one.json" --mpi 2>&1 | grep -q 'built without MPI: install libopenmpi-dev'; then
    echo 'built without MPI, and says so'
    exit 77
fi

# Every number of every line, but for the speed, which is the last before an evaluation. 1e-4: the bound of training curves (docs/TRAINING.md).
same_logs() {
    paste -d ' ' "$1" "$2" | tr -c '0-9.e\n-' ' ' | awk '{ n = NF / 2; for (i = 1; i <= n; i++) { if ($i == "e") continue
        d = $i - $(i + n); m = $i > 1 ? $i : 1; if ((d > 0 ? d : -d) > 1e-4 * m) { print NR ": " $i " " $(i + n); bad = 1 } } } END { exit bad || NR == 0 }'
}
without_speed() { sed 's/"tokens_per_s":[0-9]*//' "$1"; }
for n in 2 4; do
    config ranks$n 20
    ok "$n processes" ranks $n "$chimere" train "$tmp/ranks$n.json" --mpi -q
    without_speed "$tmp/one/log.jsonl" >"$tmp/a" && without_speed "$tmp/ranks$n/log.jsonl" >"$tmp/b"
    ok "$n processes: one log of all steps" test "$(wc -l <"$tmp/ranks$n/log.jsonl")" = 20
    ok "$n processes: losses as with one" same_logs "$tmp/a" "$tmp/b"
    # Weights have moved by up to 20 steps of at most 5e-3 each; what rounding adds must be far below one.
    ok "$n processes: weights as with one" python3 -B - "$tmp/one/checkpoint" "$tmp/ranks$n/checkpoint" <<'END'
import array, struct, sys
def read(path):
    b = open(path, "rb").read()
    n, = struct.unpack_from("<Q", b, 64)
    return b[16:64], array.array("f", b[80:80 + 4 * n]) # step, tokens, place in the data; weights
(a, x), (b, y) = read(sys.argv[1]), read(sys.argv[2])
far = max(abs(p - q) for p, q in zip(x, y))
print(f"{len(x)} weights, apart by {far:.3g}; heads {a == b}")
sys.exit(not (a == b and len(x) == len(y) > 1000 and far < 1e-4))
END
    ok "$n processes: a model that runs" "$chimere" run -m "$tmp/ranks$n/model.gguf" -p 'the cat' -n 4
done

# MeZO: losses alone go round.
for n in 1 2; do
    config mezo$n 12
    sed -i 's/"average": 0.9/"method": "mezo"/' "$tmp/mezo$n.json"
    ok "MeZO, $n processes" ranks $n "$chimere" train "$tmp/mezo$n.json" --mpi -q
done
ok 'MeZO: losses and slopes as with one' same_logs <(without_speed "$tmp/mezo1/log.jsonl") <(without_speed "$tmp/mezo2/log.jsonl")

# Killed and gone on with: by as many to the same bits, by more to the same numbers.
config cut 20
killed=0
for lines in 9 16; do
    ranks 2 "$chimere" train "$tmp/cut.json" --mpi -q >/dev/null 2>&1 &
    pid=$!
    until [ "$(cat "$tmp/cut/log.jsonl" 2>/dev/null | wc -l)" -ge $lines ] || ! kill -0 $pid 2>/dev/null; do :; done
    for p in $(pgrep -P $pid); do kill -9 "$p" 2>/dev/null && break; done
    wait $pid && echo "ended before it could be killed" || killed=$((killed + 1))
    [ $lines = 9 ] && cp -r "$tmp/cut" "$tmp/more"
done
ok 'killed twice' test $killed = 2
ok 'a killed run goes on' ranks 2 "$chimere" train "$tmp/cut.json" --mpi -q
ok 'to the same checkpoint, bit for bit' cmp "$tmp/ranks2/checkpoint" "$tmp/cut/checkpoint"
ok 'and the same log' diff <(without_speed "$tmp/ranks2/log.jsonl") <(without_speed "$tmp/cut/log.jsonl")
ok 'with twice as many' ranks 4 "$chimere" train "$tmp/cut.json" --run "$tmp/more" --mpi -q
ok 'to the same losses' same_logs <(without_speed "$tmp/ranks2/log.jsonl") <(without_speed "$tmp/more/log.jsonl")

# A signal to one of them, and one to mpirun, which passes it on and gives them last_wish to end.
config long 100000
last_wish=5
for to in process mpirun; do
    ranks 2 "$chimere" train "$tmp/long.json" --mpi >"$tmp/long.out" 2>&1 &
    pid=$!
    before=$(cat "$tmp/long/log.jsonl" 2>/dev/null | wc -l)
    for i in $(seq 100); do [ "$(cat "$tmp/long/log.jsonl" 2>/dev/null | wc -l)" -gt "$before" ] && break; sleep 0.1; done
    if [ $to = process ]; then kill -TERM "$(pgrep -P $pid | tail -n 1)"; else kill -INT $pid; fi
    wait $pid
    ok "a signal to $to stops all" test $? != 0
    ok "$to: one says so" test "$(grep -c 'stopped after step [0-9]* of 100000' "$tmp/long.out")" = 1
    ok "$to: the last step is in the checkpoint" test "$(tail -n 1 "$tmp/long/log.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/')" = \
        "$(od -A n -t u8 -j 16 -N 8 "$tmp/long/checkpoint" | tr -d ' ')"
done
last_wish=1

refused() { # TIMES TEXT command...
    local times=$1 text=$2
    shift 2
    ! ("$@") >"$tmp/err" 2>&1 && [ "$(grep -c -- "$text" "$tmp/err")" = "$times" ] || { cat "$tmp/err"; return 1; }
}
ok 'rows that do not go round' refused 1 'data.n_row: 3 processes cannot share 4 rows evenly' ranks 3 "$chimere" train "$tmp/one.json" --mpi
ok 'a file that is missing is said once' refused 1 'cannot open' ranks 2 "$chimere" train "$tmp/none.json" --mpi
ok 'without --mpi: refused' refused 2 'without --mpi each would train for itself' ranks 2 "$chimere" train "$tmp/one.json"
ok 'alone with --mpi' "$chimere" train "$tmp/one.json" --mpi --restart --steps 2 -q

finish
