#!/usr/bin/env python3
"""The evaluation script against a trained model: kinds that it knows are right, what it has never seen is wrong, and the figures, answers and
exit codes are as said. Needs CHIMERE_TESTDATA. Closes with "N passed, N failed"."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(os.environ.get("CHIMERE_TESTDATA", "/none"), "models", "mini-qwen35moe-f16.gguf")
EXE = os.environ.get("CHIMERE_BIN", os.path.join(ROOT, "chimere"))
TMP = os.environ.get("CHIMERE_TMP", "/tmp")
if not os.path.exists(MODEL):
    print("CHIMERE_TESTDATA has no trained model")
    sys.exit(77)
passed = failed = 0


def expect(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed: %s: %s" % (name, str(detail)[:800]))


def ask(q, kind, check, **more):
    return dict({"kind": kind, "messages": [{"role": "user", "content": q}], "check": check}, **more)


WEATHER = [{"type": "function", "function": {"name": "get_weather", "description": "Get the weather in a city.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
items = [ask("Capital of %s?" % c, "capital", {"type": "answer", "text": x, "not": []}) for c, x in [("India", "New Delhi"), ("France", "Paris"), ("Japan", "Tokyo")]]
items += [ask("Capital of France?", "wrong", {"type": "answer", "text": "London", "not": []}), ask("What is the weather in Paris?", "tool_call", {"type": "calls", "calls": [["get_weather", {"city": "Paris"}]]}, tools=WEATHER),
          ask("Give me JSON.", "json", {"type": "json", "value": {}})]
path = os.path.join(TMP, "items.jsonl")
with open(path, "w") as f:
    f.write("".join(json.dumps(x) + "\n" for x in items))


def run(*args):
    p = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tools", "corpus", "evaluate.py"), path, "--binary", EXE, *args], capture_output=True, text=True, timeout=110)
    return p.returncode, p.stdout, p.stderr


figures, answers = os.path.join(TMP, "figures.json"), os.path.join(TMP, "answers.jsonl")
code, out, err = run("-m", MODEL, "--json", figures, "--answers", answers, "--require", "capital=100")
expect("exit code", code == 0, (code, out, err))
kinds = json.load(open(figures))[0]["kinds"]
expect("capitals are known", kinds["capital"] == {"think": [3, 3, 3], "direct": [3, 3, 3]}, kinds)
expect("a wrong answer is wrong", kinds["wrong"]["direct"][:2] == [0, 1], kinds)
expect("a known tool is called", kinds["tool_call"]["direct"] == [1, 1, 1], open(answers).read())
expect("text is no JSON", kinds["json"]["direct"] == [0, 1, 0], kinds)
expect("the table", "capital" in out and "3/3" in out and "capitals and other facts" in out, out)
expect("every answer is kept", len(open(answers).read().strip().split("\n")) == 2 * len(items))
code, out, err = run("-m", MODEL, "--require", "wrong=50", "--kinds", "wrong", "--mode", "direct")
expect("a missed goal", code == 1 and "missed: wrong" in out, (code, out))
code, out, err = run("-m", MODEL, "--compare", MODEL, "--kinds", "capital", "--limit", "1", "--mode", "direct")
expect("two models", code == 0 and out.count("1/1") >= 4, out)
code, out, err = run("-m", MODEL, "--kinds", "none")
expect("no item", code == 2, err)
code, out, err = run("-m", path, "--kinds", "capital")
expect("no model", code == 1 and "did not start" in err, (code, err))
plain = os.path.join(TMP, "plain.txt")
with open(plain, "w") as f:
    f.write("Once there was a quiet boy named Jack. Jack was afraid of the dark. Every night he saw a strange shape near the door, and he hid under the blanket.\n")
code, out, err = run("-m", MODEL, "--compare", MODEL, "--kinds", "capital", "--limit", "1", "--mode", "direct", "--texts", plain, "--json", figures)
texts = [x["texts"] for x in json.load(open(figures))]
expect("texts are measured", code == 0 and "plain.txt" in out and 1 < texts[0]["perplexity"] < 4 and texts[0] == texts[1], (code, out, err))
code, out, err = run("-m", MODEL, "--kinds", "capital", "--limit", "1", "--texts", plain, "--require", "drafts=1", "--require", "long=1")
expect("goals of drafts and long texts, missed without any", code == 1 and "missed: drafts" in out and "missed: long" in out, (code, out, err))

# Long texts, by what is counted.
sys.path.insert(0, os.path.join(ROOT, "tools", "corpus"))
import evaluate

lines = ["Tim saw %s in the %s, %d of them, and told Anna %d times." % (x, y, 7 * k + j, 3 * k + 5 * j) for k, x in enumerate("bees birds boats bells bread books".split()) for j, y in enumerate("garden forest harbour valley".split())]
held = " ".join(lines)
for name, text, ended, want in [("coherent", held, True, True), ("without an end", held, False, False), ("in a loop", " ".join(lines[:12] + lines[:4] * 3), True, False),
                                ("with its name lost", " ".join(lines[:12] + [x.replace("Tim", "Tom") for x in lines[12:]]), True, False)]:
    long = evaluate.Long()
    long.add(text, ["Tim"], ended, 500)
    expect("a text " + name, long.figures()["coherent"] == want, long.figures())
long = {"kind": "s", "check": {"type": "story", "names": ["Tim"], "min_words": 220}, "answer": held}
got = evaluate.long_texts([long, dict(long)], {(0, True): ({"content": held, "finish_reason": "stop"}, 900, True), (1, True): ({"content": held, "finish_reason": "stop"}, 300, True)})
expect("short answers are not among the long ones", (got["model"]["texts"], got["corpus"]["texts"], got["model"]["most_tokens"]) == (1, 2, 900), got)
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
