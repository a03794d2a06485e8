#!/usr/bin/env python3
"""chimere info, verify and synth from outside: sound files, damaged files, wrong usage. Closes with "N passed, N failed"."""
import json
import os
import struct
import subprocess
import sys

exe = os.environ.get("CHIMERE_BIN", "./chimere")
tmp = os.environ.get("CHIMERE_TMP", "/tmp")
passed = failed = 0


def run(*args):
    p = subprocess.run([exe, *args], capture_output=True, text=True, timeout=100)
    return p.returncode, p.stdout, p.stderr


def check(name, ok, detail=""):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"failed: {name}: {detail}")


def expect(name, args, code, *words):
    rc, out, err = run(*args)
    text = out + err
    check(name, rc == code and all(w in text for w in words), f"code {rc}, expected {code} and {words}; said: {text[:400]}")
    return out


def path(name):
    return os.path.join(tmp, name)


def write(name, data):
    with open(path(name), "wb") as f:
        f.write(data)
    return path(name)


# ---- sound files
for arch in ("llama", "qwen35", "qwen35moe", "qwen3next"):
    f = path(arch + ".gguf")
    expect(f"synth {arch}", ["synth", arch, f, "--type", "f32", "-q"], 0)
    expect(f"verify {arch}", ["verify", f, "-q"], 0, "ok: ")
    o = json.loads(expect(f"info {arch}", ["info", f, "--json"], 0))
    check(f"info fields {arch}", o["architecture"] == arch and o["n_vocab"] == 512 and o["n_embd"] == 256 and o["n_layer"] == 4 and o["can_run"], o)
    values = 0
    for t in o["tensors"]:
        n = 1
        for k in t["shape"]:
            n *= k
        values += n
    check(f"n_params {arch}", values == o["n_params"], (values, o["n_params"]))
    kv = sum(x["kv_bytes_per_token"] for x in o["layers"])
    state = sum(x["state_bytes"] for x in o["layers"])
    check(f"sums {arch}", kv == o["kv_bytes_per_token"] > 0 and state == o["state_bytes"] and (state > 0) == (arch != "llama"), o["layers"])
    rc, out, _ = run("info", f)
    check(f"info text {arch}", rc == 0 and "Layers (4)" in out and "blk.*." in out and "Memory" in out, out[:300])

# Deterministic; the seed matters.
a, b, c = (path(n) for n in ("a.gguf", "b.gguf", "c.gguf"))
for f, seed in ((a, "5"), (b, "5"), (c, "6")):
    run("synth", "qwen35moe", f, "--type", "q4_k", "--seed", seed, "-q")
read = lambda f: open(f, "rb").read()
check("same seed, same bytes", read(a) == read(b))
check("another seed, other bytes", read(a) != read(c) and len(read(a)) == len(read(c)))

# ---- damaged files
good = read(path("llama.gguf"))
last = b"blk.3.ffn_down.weight"
at = good.index(last) + len(last)  # u32 n_dims, 2 x u64, u32 type, u64 offset
offset_at = at + 4 + 16 + 4
offset = struct.unpack_from("<Q", good, offset_at)[0]
for value, word in ((float("nan"), "NaN"), (float("inf"), "infinity"), (2e6, "absurd")):
    bad = write("bad.gguf", good[:-4] + struct.pack("<f", value))
    expect(f"verify {word}", ["verify", bad, "-q"], 1, "blk.3.ffn_down.weight", word, f"index {256 * 512 - 1}", "1 such value")
    o = json.loads(expect(f"verify --json {word}", ["verify", bad, "-q", "--json"], 1))
    check("finding in JSON", not o["ok"] and o["n_findings"] == 1 and word in o["findings"][0], o)
bad = write("bad.gguf", good[:-4] + struct.pack("<f", 9e5))
expect("largest value that passes", ["verify", bad, "-q"], 0)
for t in ("1", "3"):
    bad = write("bad.gguf", good[:-9 * 4] + struct.pack("<9f", *[float("nan")] * 9))
    expect(f"first index with {t} threads", ["verify", bad, "-q", "-t", t], 1, f"index {256 * 512 - 9},", "9 such values")
bad = write("bad.gguf", good[:-1])
expect("verify cut file", ["verify", bad, "-q"], 1, "expected at least", "cut off")
expect("info cut file", ["info", bad], 1, "cut off")
bad = write("bad.gguf", good[:offset_at] + struct.pack("<Q", offset - 64) + good[offset_at + 8:])
expect("verify overlap", ["verify", bad, "-q"], 1, "share bytes")
bad = write("bad.gguf", good.replace(b"blk.3.ffn_down.weight", b"blk.3.ffn_dawn.weight"))
expect("verify missing tensor", ["verify", bad, "-q"], 1, "blk.3.ffn_down.weight")
bad = write("bad.gguf", good.replace(b"llama", b"llemo"))
expect("verify unknown architecture", ["verify", bad, "-q"], 0, "llemo", "ok: ")
o = json.loads(expect("info of an unknown architecture", ["info", bad, "--json"], 0))
check("unknown architecture in JSON", o["architecture"] == "llemo" and not o["can_run"] and o["n_embd"] == 256 and o["n_vocab"] == 512, o)
bad = write("bad.gguf", b"<html>not here</html>")
expect("no GGUF", ["verify", bad], 1, "not a GGUF file")
expect("no file", ["info", path("absent.gguf")], 1, "cannot open")

# ---- usage
expect("unknown arch", ["synth", "gpt9", path("x.gguf")], 2, "llama, qwen35")
expect("unknown preset", ["synth", "llama", path("x.gguf"), "--preset", "huge"], 2, "there are: tiny")
expect("unknown type", ["synth", "llama", path("x.gguf"), "--type", "q9"], 2, "q9")
expect("integer type", ["synth", "llama", path("x.gguf"), "--type", "i32"], 1, "i32")
expect("odd heads", ["synth", "qwen35", path("x.gguf"), "--ssm-heads-v", "3"], 2, "multiple of ssm-heads-k (2)")
expect("experts for llama", ["synth", "llama", path("x.gguf"), "--n-expert", "4"], 2, "no experts")
expect("vocabulary too small", ["synth", "llama", path("x.gguf"), "--n-vocab", "264"], 2, "265")
expect("smallest vocabulary", ["synth", "llama", path("x.gguf"), "--n-vocab", "265", "-q"], 0)
check("no file left behind", not [n for n in os.listdir(tmp) if ".tmp" in n], os.listdir(tmp))
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
