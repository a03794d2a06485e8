#!/usr/bin/env python3
"""chimere perplexity: its figures against sums over `chimere logits`, cuts at the context, what counts in a chat, drafts of a block that
learned and of one that did not, wrong input. Closes with "N passed, N failed". time limit: 200 s"""
import array
import json
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXE = os.environ.get("CHIMERE_BIN", os.path.join(ROOT, "chimere"))
TMP = os.environ.get("CHIMERE_TMP", "/tmp")
passed = failed = 0


def expect(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed: %s: %s" % (name, str(detail)[:800]))


def run(*args, stdin=None):
    p = subprocess.run([EXE, *[str(a) for a in args]], input=stdin, capture_output=True, text=True, timeout=100)
    return p.returncode, p.stdout, p.stderr


def path(name, text=None):
    p = os.path.join(TMP, name)
    if text is not None:
        with open(p, "w", encoding="utf-8") as f:
            f.write(text)
    return p


def figures(model, *files, more=()):
    code, out, err = run("perplexity", "-m", model, "--json", *files, *more)
    return json.loads(out) if code == 0 else {"failed": err}


def tokens(model, text):
    return [int(x) for x in run("tokenize", "-m", model, stdin=text)[1].split()]


def own_sum(model, ids, counted):
    """Nats of the tokens at the counted places, and how often the likeliest was right; choices of the model at every place."""
    out = path("scores.f32")
    code, _, err = run("logits", "-m", model, "--tokens", ",".join(map(str, ids)), "--all", "-o", out, "-q")
    assert code == 0, err
    a = array.array("f")
    with open(out, "rb") as f:
        a.frombytes(f.read())
    n, nats, right, choice = len(a) // len(ids), 0, 0, []
    for t in range(len(ids)):
        row = a[t * n:(t + 1) * n]
        top = max(row)
        choice.append(row.index(top))
        if t + 1 < len(ids) and t + 1 in counted:
            nats += math.log(sum(math.exp(x - top) for x in row)) + top - row[ids[t + 1]]
            right += choice[t] == ids[t + 1]
    return nats, right, choice


# ---- plain text, random weights ---------------------------------------------------------------------------------------------
model = path("synth.gguf")
expect("synth", run("synth", "qwen35", model, "--nextn", 1, "--type", "f32", "--seed", 5)[0] == 0)
docs = ["The quick brown fox jumps over the lazy dog. It was 1984, and 42 dogs slept.", "A second text, short.", "Third: one, two, three and so on for a while, until it ends."]
plain = path("plain.txt", "\n\n\n".join(docs) + "\n")
whole = nats = right = 0
ids = [tokens(model, d) for d in docs]
for x in ids:
    n, r, _ = own_sum(model, x, range(1, len(x)))
    nats, right, whole = nats + n, right + r, whole + len(x) - 1
f = figures(model, plain)
expect("texts and tokens", (f.get("texts"), f.get("tokens")) == (3, whole), f)
expect("nats", abs(f["nats_per_token"] - nats / whole) < 1e-5, (f, nats / whole))
expect("perplexity", abs(f["perplexity"] / math.exp(nats / whole) - 1) < 1e-5, f)
first = sum(len(run("detokenize", "-m", model, stdin=str(x[0]))[1].rstrip("\n").encode()) for x in ids)
expect("bytes but for each text's first token", f["bytes"] == sum(map(len, docs)) - first, (f, first))
expect("bits per byte", abs(f["bits_per_byte"] - nats / math.log(2) / f["bytes"]) < 1e-5, f)
expect("top 1", abs(f["top1"] - right / whole) < 1e-9, (f, right))
expect("a random block guesses nothing", f["drafts"] >= f["drafts_held"] and f["drafts"] <= right, f)
again = figures(model, plain, more=("--no-drafts", "--slots", 1))
expect("the same without drafts", (again["nats_per_token"], "drafts" in again) == (f["nats_per_token"], False) or abs(again["nats_per_token"] - f["nats_per_token"]) < 1e-9, again)
cut = figures(model, plain, more=("--ctx", 8))
nats = sum(own_sum(model, x[i:i + 9], range(1, 9))[0] for x in ids for i in range(0, len(x) - 1, 8))
expect("long texts are cut at the context", cut["tokens"] == whole and abs(cut["nats_per_token"] - nats / whole) < 1e-5, (cut, nats / whole))
one = figures(model, plain, more=("--limit", 1, "--slots", 1))
expect("a limit", (one["texts"], one["tokens"]) == (1, len(ids[0]) - 1), one)
both = figures(model, plain, path("other.txt", docs[1]))
expect("two files and their sum", len(both["files"]) == 2 and both["tokens"] == whole + len(ids[1]) - 1 and both["files"][0]["nats_per_token"] == f["nats_per_token"], both)

# ---- chats: what the model writes counts ------------------------------------------------------------------------------------
chat = [{"role": "user", "content": "Say it."}, {"role": "assistant", "content": "Here it is, said."}]
written = tokens(model, chat[1]["content"])
jsonl = path("chat.jsonl", json.dumps({"messages": chat}) + "\n")
f = figures(model, jsonl)
expect("an answer's tokens and its end token", f.get("tokens") == len(written) + 1 and f["bytes"] == len(chat[1]["content"]), (f, len(written)))
twice = figures(model, path("two.jsonl", json.dumps({"messages": chat + chat}) + "\n"))
expect("earlier answers count too", twice["tokens"] == 2 * f["tokens"], twice)
code, out, err = run("perplexity", "-m", model, path("user.jsonl", json.dumps({"messages": chat[:1]}) + "\n"))
expect("nothing counts", code == 1 and "nothing in it counts" in err, (code, err))

# ---- a block that learned ---------------------------------------------------------------------------------------------------
lines = "".join(json.dumps({"text": "the %s sees the bird and the number is %d and then it sleeps" % ("dog" if i % 3 else "cat", i % 10)}) + "\n" for i in range(300))
data = path("data.jsonl", lines)
config = path("train.json", json.dumps({
    "model": {"arch": "qwen35", "n_layer": 2, "n_embd": 32, "n_head": 2, "n_head_kv": 1, "d_head": 16, "n_rot": 8, "attn_interval": 2, "ssm_heads_k": 1, "ssm_heads_v": 2, "ssm_d_state": 16, "n_ff": 64, "n_mtp": 1},
    "data": {"tokenizer": model, "sources": [{"path": data}], "n_row": 6, "n_ctx": 160},
    "train": {"steps": 80, "rate": 1e-2, "warmup": 5, "mtp_weight": 0.5}, "run": {"out": path("run"), "export": "f32", "threads": 2}}))
code, _, err = run("train", config, "-q")
expect("a small training", code == 0, err)
trained = os.path.join(TMP, "run", "model.gguf")
f = figures(trained, path("held.txt", "the cat sees the bird and the number is 7 and then it sleeps"))
ids = tokens(trained, "the cat sees the bird and the number is 7 and then it sleeps")
_, right, choice = own_sum(trained, ids, range(1, len(ids)))
due = sum(choice[t] == ids[t + 1] for t in range(len(ids) - 2))
expect("a draft wherever the text takes the model's own choice", f.get("drafts") == due and due > len(ids) / 2, (f, due, len(ids)))
expect("a trained block's drafts hold", f["draft_acceptance"] >= 0.7, f)
table = run("perplexity", "-m", trained, data)
expect("the table", table[0] == 0 and "drafts held" in table[1] and "% of" in table[1] and "data.jsonl" in table[1], table)

# ---- wrong input ------------------------------------------------------------------------------------------------------------
expect("no file: usage", run("perplexity", "-m", model)[0] == 2)
code, _, err = run("perplexity", "-m", model, path("none.txt"))
expect("a missing file is named", code == 1 and "none.txt" in err, (code, err))
code, _, err = run("perplexity", "-m", model, path("bad.jsonl", "{\n"))
expect("a wrong record is named", code == 1 and "bad.jsonl" in err, (code, err))
odd = os.fsencode(path("odd")) + b"\xff.txt"
with open(odd, "w", encoding="utf-8") as f:
    f.write("The little fox went home.\n")
for more, want in (([], 0), (["--json"], 1)):
    p = subprocess.run([EXE, "perplexity", "-m", model, *more, odd], capture_output=True, timeout=100)
    expect("a name that JSON cannot hold %s" % more, p.returncode == want and (want == 0 or b"not UTF-8" in p.stderr and not p.stdout), p)
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
