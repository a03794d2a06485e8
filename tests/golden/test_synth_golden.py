# Forward passes against stored log-probabilities of an independent engine (made by tests/peers/make_golden.mjs), in every
# tier this processor has and for prefill in chunks. time limit: 300 s
import array
import glob
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile

BOUND = 5e-4
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHIMERE = os.environ.get("CHIMERE_BIN", os.path.join(ROOT, "chimere"))


def run(*args):
    r = subprocess.run([CHIMERE, *args], capture_output=True, text=True)
    if r.returncode != 0:
        raise RuntimeError("chimere %s: exit %d: %s" % (" ".join(args)[:200], r.returncode, r.stderr.strip()))
    return r.stdout


def log_probs(scores, row, n_vocab, picks):
    part = scores[row * n_vocab : (row + 1) * n_vocab]
    top = max(part)
    norm = top + math.log(math.fsum(math.exp(x - top) for x in part))
    return [part[t] - norm for t in picks]


def check(golden, model, out, extra):
    run("logits", "-m", model, "--tokens", ",".join(map(str, golden["tokens"])), "--all", "-o", out, *extra)
    scores = array.array("f")
    with open(out, "rb") as f:
        scores.frombytes(f.read())
    n_vocab = golden["n_vocab"]
    if len(scores) != len(golden["tokens"]) * n_vocab:
        raise RuntimeError("%d scores, expected %d" % (len(scores), len(golden["tokens"]) * n_vocab))
    worst = 0.0
    for i, row in enumerate(golden["rows"]):
        for ours, ref in zip(log_probs(scores, i, n_vocab, row[0::2]), row[1::2]):
            diff = abs(ours - ref)
            if not diff <= worst:
                worst = diff
    return worst


def main():
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as tmp:
        model, out = os.path.join(tmp, "m.gguf"), os.path.join(tmp, "o.f32")
        for path in sorted(glob.glob(os.path.join(ROOT, "tests/golden/logits/*.json"))):
            with open(path) as f:
                golden = json.load(f)
            if "synth" not in golden:  # golden values of something else
                continue
            try:
                run("synth", *[model if a == "MODEL" else a for a in golden["synth"]])
                with open(model, "rb") as f:
                    if hashlib.sha256(f.read()).hexdigest() != golden["sha256"]:
                        raise RuntimeError("synth writes another file than the stored values were made from: "
                                           "run tests/peers/make_golden.mjs and say why in the commit")
                # One pass is enough for a sanitizer, which is slow.
                sanitized = "/build/asan/" in CHIMERE or "/build/tsan/" in CHIMERE
                for extra in ([["--batch", "7"]] if sanitized else [[], ["--tier", "ref"], ["--batch", "7"]]):
                    worst = check(golden, model, out, extra)
                    good = worst <= BOUND
                    print("%s %s %s: max difference %.1e" % ("ok  " if good else "FAIL", golden["name"], " ".join(extra), worst))
                    passed, failed = passed + good, failed + (not good)
            except RuntimeError as e:
                print("FAIL %s: %s" % (golden["name"], e))
                failed += 1
    if passed + failed == 0:
        print("no stored values")
        failed = 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


sys.exit(main())
