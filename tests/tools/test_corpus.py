#!/usr/bin/env python3
"""The corpus generator: same bytes for a seed, its own answers are right by its own checks, sums and counting steps are right by other
arithmetic, nothing held out is in the training text, the project reads every record. Closes with "N passed, N failed"."""
import json
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORPUS = os.path.join(ROOT, "tools", "corpus")
sys.path.insert(0, CORPUS)
import check
import generate
import kind_sums
import kind_tools
import lib
import tool_tables

EXE = os.environ.get("CHIMERE_BIN", os.path.join(ROOT, "chimere"))
TMP = os.environ.get("CHIMERE_TMP", "/tmp")
passed = failed = 0


def expect(name, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("failed: %s: %s" % (name, str(detail)[:600]))


def write(name, megabytes, jobs, *more):
    out = os.path.join(TMP, name)
    subprocess.run([sys.executable, "-B", os.path.join(CORPUS, "generate.py"), "-o", out, "--megabytes", str(megabytes), "--jobs", str(jobs), *more], check=True, stderr=subprocess.DEVNULL, timeout=100)
    return {f: open(os.path.join(out, f), encoding="utf-8").read() for f in sorted(os.listdir(out))}


def own_answers():
    """Every maker's answer passes its check, and a spoilt one does not."""
    r = random.Random(7)
    makers = [m for g in generate.GROUPS.values() for m, _ in g[0]] + kind_tools.UNSEEN
    bad, spoilt_right, n = [], 0, 0
    for make in makers:
        for _ in range(60):
            item = make(r)
            if not item.check:
                continue
            n += 1
            if not check.check(item.check, item.messages[-1], item.tools):
                bad.append((item.kind, item.messages[-1], item.check))
            wrong = dict(item.messages[-1], content="Perhaps", tool_calls=[])
            spoilt_right += check.check(item.check, wrong, item.tools) and "any" not in (item.check["type"], (item.check.get("then") or {}).get("type"))
    expect("answers pass their own checks", n > 3000 and not bad, bad[:2])
    expect("a wrong answer passes no check", spoilt_right == 0, spoilt_right)


def calls():
    tools = [{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "enum": ["x", "y"]}}, "required": ["a"]}}}]
    c = {"type": "calls", "calls": [["f", {"a": 1, "b": "x"}]]}
    good = ['<tool_call>\n{"name": "f", "arguments": {"a": 1, "b": "x"}}\n</tool_call>', '<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</parameter>\n</function>\n</tool_call>']
    for text in good:
        expect("call in text", check.check(c, {"content": text}, tools), text)
    expect("call in the reply", check.check(c, {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1, "b": "x"}'}}]}, tools))
    for text in ["", good[0] + good[0], good[0].replace("1", "2"), good[0].replace('"x"', '"z"'), good[0].replace('"f"', '"g"'), good[0][:-30]]:
        expect("wrong call", not check.check(c, {"content": text}, tools), text)
    for args in [{}, {"a": "1"}, {"a": True}, {"a": 1, "c": 2}, {"a": 1, "b": "z"}, None, []]:
        expect("call that does not fit the schema", not check.fits_schema(["f", args], tools), args)
    expect("call that fits", check.fits_schema(["f", {"a": 1}], tools) and not check.fits_schema(None, tools))


def written_sums():
    """Each written step is true, and the digits written give the answer."""
    r = random.Random(3)
    bad = []
    for k in range(6000):
        a, b = r.randrange(10 ** r.randrange(1, 4)), r.randrange(10 ** r.randrange(1, 4))
        plus = k % 2
        text = kind_sums.add_steps(a, b) if plus else kind_sums.sub_steps(a, b)
        for left, right in re.findall(r"((?:\d+ [+-] )+\d+) = (\d+)", text):
            if eval(left) != int(right):
                bad.append(text)
        want = a + b if plus else a - b
        digits = "".join(reversed(re.findall(r"Write (\d)", text)))
        if int(digits) != abs(want) or not text.endswith("Answer: %d" % want):
            bad.append(text)
    expect("written sums", not bad, bad[:1])


def counting():
    import kind_order
    r = random.Random(4)
    bad = 0
    for _ in range(500):
        item = kind_order.count(r)
        xs = [int(x) for x in item.messages[1]["content"].rstrip(".").split(", ")]
        steps = [int(x) for x in re.findall(r"^(\d+) (?:on|stop)", item.messages[1]["reasoning_content"], re.M)]
        first, last = [int(x) for x in re.findall(r"\d+", item.messages[0]["content"])][:2]
        bad += xs != steps or (xs[0], xs[-1]) != (first, last) or len({b - a for a, b in zip(xs, xs[1:])}) != 1
    expect("counting", bad == 0, bad)


def held_out(files):
    items = [json.loads(line) for line in files["eval.jsonl"].split("\n") if line]
    # Small talk is not held out. A question beside tools is another prompt than the same question alone, and what was (not) told before
    # belongs to the question about it.
    items = [x for x in items if "any" not in (x["check"]["type"], (x["check"].get("then") or {}).get("type"))]
    prompts = {json.dumps([x["messages"], x.get("tools")]) for x in items}
    alone = {json.dumps([x["messages"], x.get("tools")]) for x in items if x["kind"] not in ("memory", "not_told")}
    seen, unseen_names, thoughts, n = [], 0, 0, 0
    held = {o["name"]: o for o in tool_tables.HELD_OBJECTS}
    phrases = [o["phrase"] for o in held.values()]
    for name, text in files.items():
        if name == "eval.jsonl" or name.startswith("valid"):
            continue
        for line in text.split("\n"):
            if not line:
                continue
            v = json.loads(line)
            n += 1
            if "text" in v:
                continue
            last = max(i for i, m in enumerate(v["messages"]) if m["role"] == "user")
            for m in v["messages"][last + 1:]:
                thoughts += m["role"] == "assistant" and v["enable_thinking"] != bool(m.get("reasoning_content"))
            # With other turns in front, too.
            for k in range(last + 1):
                m = json.dumps([v["messages"][k:last + 1], v.get("tools")])
                if m in (prompts if k == 0 else alone):
                    seen.append(m)
            for tool in v.get("tools", []):
                unseen_names += any(tool["function"]["description"].endswith((p, p + ".")) for p in phrases)
    expect("training records", n > 3000, n)
    expect("no held-out prompt in training", not seen, seen[:5])
    expect("no held-out tool in training", unseen_names == 0, unseen_names)
    expect("thinking where it is on, none where it is off", thoughts == 0, thoughts)
    schemas = set()
    for line in files["eval.jsonl"].split("\n"):
        if line and json.loads(line)["kind"].startswith("tool_") and "unseen" in json.loads(line)["kind"]:
            schemas |= {json.dumps(t) for t in json.loads(line)["tools"]}
    expect("unseen schemas in the evaluation", len(schemas) >= 20, len(schemas))


def read_by_the_program(out):
    files = [os.path.join(TMP, out, f) for f in sorted(os.listdir(os.path.join(TMP, out))) if f != "eval.jsonl" and not f.startswith("valid")]
    vocab = os.path.join(TMP, "vocab.gguf")
    p = subprocess.run([EXE, "tokenizer-train", "-o", vocab, "--vocab", "1024", "--template", os.path.join(CORPUS, "chat.jinja"), *files], capture_output=True, text=True, timeout=100)
    expect("the project reads every record", p.returncode == 0 and "1024 tokens" in p.stderr, p.stderr)
    lines = []
    for f in files[:4]:
        with open(f, encoding="utf-8") as h:
            lines += [json.loads(x) for x in h.read().split("\n")[:20] if x]
    texts = [json.dumps(x.get("text") or x["messages"][-1]["content"]) for x in lines] + [json.dumps("\u00e9\u4e2d \U0001f600  \n\t 12345 <think>")]
    ids = subprocess.run([EXE, "tokenize", "-m", vocab, "--batch"], input="\n".join(texts) + "\n", capture_output=True, text=True, timeout=60)
    back = subprocess.run([EXE, "detokenize", "-m", vocab, "--batch", "--special"], input=ids.stdout, capture_output=True, text=True, timeout=60)
    expect("round trip", [json.loads(x) for x in back.stdout.split("\n") if x] == [json.loads(x) for x in texts], back.stdout[-300:] + back.stderr)
    for args, code in [(["--vocab", "264", files[0], "-o", vocab], 1), (["-o", vocab], 2), ([files[0]], 2), (["-o", vocab, "--pre", "none", files[0]], 1), (["-o", vocab, files[0]], 1)]:
        p = subprocess.run([EXE, "tokenizer-train", *args], capture_output=True, text=True, timeout=60)
        expect("refused: %s" % " ".join(args)[-60:], p.returncode == code and p.stderr, (p.returncode, p.stderr))


def main():
    own_answers()
    calls()
    written_sums()
    counting()
    one, two = write("a", 2, 1, "--eval", "6"), write("b", 2, 2, "--eval", "6")
    expect("same bytes for a seed", one == two)
    expect("other bytes for another seed", write("c", 0.2, 1, "--seed", "2", "--only", "sums")["sums.jsonl"] != write("d", 0.2, 1, "--only", "sums")["sums.jsonl"])
    held_out(one)
    facts = write("e", 0.1, 1, "--only", "talk", "--new-facts", "20")
    asked = [json.loads(x)["messages"][0]["content"] for x in facts["new_facts_eval.jsonl"].split("\n") if x]
    taught = {json.loads(x)["messages"][-2]["content"] for x in facts["new_facts.jsonl"].split("\n") if x}
    expect("new facts", len(asked) >= 40 and len(taught) >= 200 and not taught & set(asked), (len(asked), len(taught)))
    read_by_the_program("a")
    expect("held-out share", abs(sum(lib.is_held("k", str(i)) for i in range(12000)) - 1000) < 150)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
