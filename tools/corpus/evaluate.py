#!/usr/bin/env python3
"""Scores a model on held-out items: evaluate.py -m MODEL.gguf EVAL.jsonl [--compare OTHER.gguf]

Starts `chimere serve` on the loopback interface and asks every item greedily, once with thinking and once without. Prints right of total per
kind; for tool calls also how many were well-formed (a tool that is there, its required arguments, none unknown, of the right types), for JSON
answers how many were valid; for long texts how many stay coherent (class Long). --texts FILE... also measures these held-out texts: perplexity, bits
per byte, drafts that hold (`chimere perplexity`). --json FILE keeps the figures, --answers FILE every answer. Exit code 1 when --require KIND=PERCENT
is missed; KIND may also be long (coherent long texts) or drafts (drafts that hold over all texts).
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import check

ROOT = os.path.dirname(os.path.dirname(HERE))
# Kinds that the project's goals name, summed up in one line each.
GOALS = [("capitals and other facts", 98, "capital country continent language opposite plural colour sound young legs home group unit symbol element past define guess".split()),
         ("two-digit sums", 95, ["add", "sub"]), ("counting", 90, ["count"]), ("next and before", 95, ["next", "prev"]),
         ("tool calls", 97, "tool_call tool_nonce tool_filled tool_chain".split()), ("tool calls, unseen schemas", 80, ["tool_unseen", "tool_two_unseen"]), ("two calls", 97, ["tool_two"]),
         ("declining", 97, "tool_decline tool_not_needed tool_missing tool_decline_unseen".split()), ("tool answers", 97, ["tool_answer", "tool_answer_unseen"]), ("JSON answers", 98, "json json_list json_answer".split()),
         ("remembering", 95, ["memory"]), ("not knowing, refusing", 95, "unknown not_told refuse".split())]


class Server:
    def __init__(self, binary, model, slots, ctx, threads):
        args = [binary, "serve", "-m", model, "--port", "0", "--slots", str(slots), "--ctx", str(ctx), "--queue", "4096", "--any-model"]
        if threads:
            args += ["--threads", str(threads)]
        self.process = subprocess.Popen(args, stderr=subprocess.PIPE, text=True)
        self.port, said = None, []
        for line in self.process.stderr:
            said.append(line)
            m = re.search(r"ready on http://[^ ]*:(\d+)/v1", line)
            if m:
                self.port = int(m.group(1))
                break
        if not self.port:
            raise SystemExit("evaluate: the server did not start:\n" + "".join(said))
        # What it says from now on must not fill the pipe.
        self.drain = concurrent.futures.ThreadPoolExecutor(1)
        self.drain.submit(lambda: [None for _ in self.process.stderr])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.drain.shutdown()

    def ask(self, item, think, max_tokens):
        body = {"messages": item["messages"], "temperature": 0, "max_tokens": max_tokens, "chat_template_kwargs": {"enable_thinking": think}, "model": "x"}
        if item.get("tools"):
            body["tools"] = item["tools"]
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        j = json.loads(r.read())
        c.close()
        if r.status != 200:
            return {"content": "", "error": str(j.get("error"))}, 0
        return dict(j["choices"][0]["message"], finish_reason=j["choices"][0]["finish_reason"]), j["usage"]["completion_tokens"]


def budget(item, think):
    kind = item["check"]["type"]
    return 1600 if kind == "story" and item["check"]["min_words"] > 200 else 700 if kind == "story" else 500 if think else 260


def evaluate(binary, model, items, modes, args):
    s = Server(binary, model, args.slots, args.ctx, args.threads)
    jobs = [(i, think) for i in range(len(items)) for think in modes]
    out, t = {}, time.time()
    try:
        with concurrent.futures.ThreadPoolExecutor(args.slots * 2) as pool:
            for (i, think), (message, n) in zip(jobs, pool.map(lambda job: s.ask(items[job[0]], job[1], budget(items[job[0]], job[1])), jobs)):
                out[i, think] = (message, n, check.check(items[i]["check"], message, items[i].get("tools")))
                if sys.stderr.isatty():
                    print("\r%s: %d of %d" % (os.path.basename(model), len(out), len(jobs)), end="", file=sys.stderr, flush=True)
    finally:
        s.stop()
    seconds = time.time() - t
    print("%s%s: %d answers, %d tokens, %.0f s" % ("\r" if sys.stderr.isatty() else "", os.path.basename(model), len(out), sum(x[1] for x in out.values()), seconds), file=sys.stderr)
    return out


def score(items, out, modes):
    """kind -> mode -> [right, total, well-formed]"""
    table = {}
    for (i, think), (message, _, right) in out.items():
        item = items[i]
        row = table.setdefault(item["kind"], {m: [0, 0, 0] for m in modes})[think]
        row[0] += right
        row[1] += 1
        calls = check.split_calls(message)[1]
        if item["check"]["type"] == "calls":
            row[2] += bool(calls) and all(check.fits_schema(x, item.get("tools")) for x in calls)
        elif item["check"]["type"] == "json":
            row[2] += check.valid_json(message)
        else:
            row[2] += not any(x is None for x in calls)
    return table


class Long:
    """Whether long texts hold together, by what can be counted: each ends by itself, repeats at most a tenth of its sequences of eight words, and
    names its hero in every quarter. Names that occur once only hint at a hero who changed names. The corpus's own texts are measured too."""
    MIN_TOKENS = 400

    def __init__(self):
        self.rows = []

    def add(self, text, names, ended, tokens):
        words = text.split()
        grams = [tuple(words[i:i + 8]) for i in range(len(words) - 7)]
        quarter = len(text) // 4 + 1
        found = re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", text)
        self.rows.append({"tokens": tokens, "words": len(words), "ended": ended, "repeated": 1 - len(set(grams)) / max(1, len(grams)),
                          "kept": all(check.has_words(text[i:i + quarter], names[0]) for i in range(0, len(text), quarter)),
                          "once": sum(found.count(x) == 1 for x in set(found)) / max(1, len(set(found)))})

    @staticmethod
    def coherent(row):
        return row["ended"] and row["repeated"] <= 0.1 and row["kept"]

    def figures(self):
        n = len(self.rows)
        mean = lambda key: sum(x[key] for x in self.rows) / n
        return {"texts": n, "coherent": sum(map(self.coherent, self.rows)), "ended": sum(x["ended"] for x in self.rows), "kept": sum(x["kept"] for x in self.rows),
                "looping": sum(x["repeated"] > 0.1 for x in self.rows), "repeated": mean("repeated"), "once": mean("once"), "words": mean("words"), "tokens": mean("tokens"),
                "most_tokens": max(x["tokens"] for x in self.rows)} if n else {"texts": 0}


def long_texts(items, out):
    """Figures of the model's long stories, and of the corpus's own for the same prompts. A text that never ends counts too."""
    ours, own = Long(), Long()
    for (i, think), (message, n, _) in out.items():
        c = items[i]["check"]
        if c["type"] != "story" or c["min_words"] < 200:
            continue
        if n >= Long.MIN_TOKENS:
            ours.add(message.get("content") or "", c["names"], message.get("finish_reason") == "stop", n)
        own.add(items[i]["answer"], c["names"], True, 0)
    return {"model": ours.figures(), "corpus": own.figures()}


def show_long(name, f):
    for who, x in ((name, f["model"]), ("the corpus", f["corpus"])):
        if x["texts"]:
            print("long texts, %-24s coherent %d/%d: ended %d, name kept %d, looping %d; repeated 8 words %.1f %%, names said once %.0f %%, %.0f words%s" % (
                who + ":", x["coherent"], x["texts"], x["ended"], x["kept"], x["looping"], 100 * x["repeated"], 100 * x["once"], x["words"],
                ", %.0f tokens (most %d)" % (x["tokens"], x["most_tokens"]) if x["tokens"] else ""))


def measure_texts(binary, models, args):
    """Per model the JSON of chimere perplexity."""
    figures = []
    for m in models:
        p = subprocess.run([binary, "perplexity", "-m", m, "--json", "--slots", str(args.slots), "--ctx", str(args.ctx), *args.texts] + (["--threads", str(args.threads)] if args.threads else []),
                           stdout=subprocess.PIPE, text=True)
        if p.returncode:
            raise SystemExit("evaluate: the texts could not be measured")
        figures.append(json.loads(p.stdout))
    print()
    print("%-28s%8s" % ("text", "tokens") + "".join("%12s%12s%14s" % ("perplexity", "bits/byte", "drafts held") for _ in figures))
    for k in range(len(args.texts) + (len(args.texts) > 1)):
        rows = [f["files"][k] if k < len(args.texts) else f for f in figures]
        print("%-28s%8d" % (os.path.basename(rows[0]["file"]) if k < len(args.texts) else "all", rows[0]["tokens"]) +
              "".join("%12.3f%12.4f%14s" % (r["perplexity"], r["bits_per_byte"], "%.1f %%" % (100 * r["draft_acceptance"]) if r.get("drafts") else "-") for r in rows))
    return figures


def rate(rows):
    right, total = sum(x[0] for x in rows), sum(x[1] for x in rows)
    return "%d/%d" % (right, total) if total else "-"


def show(tables, names, modes, items):
    word = {True: "think", False: "direct"}
    kinds = sorted(set().union(*tables))
    formed = {x["kind"] for x in items if x["check"]["type"] in ("calls", "json")}
    head = "%-22s" % "kind" + "".join("%16s" % ("%s %s" % (n[:8], word[m]) if len(names) > 1 else word[m]) for n in names for m in modes) + "%18s" % "well-formed"
    print(head)
    for k in kinds:
        cells = "".join("%16s" % rate([t[k][m]] if k in t else []) for t in tables for m in modes)
        if k in formed:
            cells += "%18s" % " ".join("%d/%d" % (sum(t[k][m][2] for m in modes), sum(t[k][m][1] for m in modes)) for t in tables if k in t)
        print("%-22s%s" % (k, cells))
    print("%-22s%s" % ("all", "".join("%16s" % rate([t[k][m] for k in t]) for t in tables for m in modes)))
    print()
    for name, goal, group in GOALS:
        cells = []
        for t in tables:
            for m in modes:
                rows = [t[k][m] for k in group if k in t]
                total = sum(x[1] for x in rows)
                cells.append("%15.1f%%" % (100 * sum(x[0] for x in rows) / total) if total else "%16s" % "-")
        print("%-32s goal %3d %%%s" % (name, goal, "".join(cells)))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("items", help="evaluation file (generate.py writes it)")
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--compare", help="another model, beside the first")
    p.add_argument("--binary", default=os.environ.get("CHIMERE_BIN", os.path.join(ROOT, "chimere")))
    p.add_argument("--slots", type=int, default=8)
    p.add_argument("--ctx", type=int, default=2048)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--kinds", default="", help="only these, by commas")
    p.add_argument("--limit", type=int, default=0, help="items of each kind")
    p.add_argument("--mode", choices=["both", "think", "direct"], default="both")
    p.add_argument("--texts", nargs="+", default=[], metavar="FILE", help="held-out texts to measure too (JSONL or plain)")
    p.add_argument("--json", help="file for the figures")
    p.add_argument("--answers", help="file for every answer, a JSON object per line")
    p.add_argument("--require", action="append", default=[], metavar="KIND=PERCENT")
    a = p.parse_args()
    seen, items = {}, []
    with open(a.items, encoding="utf-8") as f:
        for line in f:
            x = json.loads(line)
            seen[x["kind"]] = seen.get(x["kind"], 0) + 1
            if (not a.kinds or x["kind"] in a.kinds.split(",")) and (not a.limit or seen[x["kind"]] <= a.limit):
                items.append(x)
    if not items:
        p.error("no item of these kinds in %s" % a.items)
    modes = {"both": [True, False], "think": [True], "direct": [False]}[a.mode]
    models = [a.model] + ([a.compare] if a.compare else [])
    outs = [evaluate(a.binary, m, items, modes, a) for m in models]
    tables = [score(items, o, modes) for o in outs]
    show(tables, [os.path.basename(m) for m in models], modes, items)
    long = [long_texts(items, o) for o in outs]
    for m, f in zip(models, long):
        show_long(os.path.basename(m), f)
    texts = measure_texts(a.binary, models, a) if a.texts else [None] * len(models)
    if a.json:
        with open(a.json + ".tmp", "w") as f:
            json.dump([{"model": os.path.basename(m), "kinds": {k: {"think" if x else "direct": v for x, v in row.items()} for k, row in t.items()}, "long": l, "texts": x}
                       for m, t, l, x in zip(models, tables, long, texts)], f, indent=1)
        os.replace(a.json + ".tmp", a.json)
    if a.answers:
        with open(a.answers, "w", encoding="utf-8") as f:
            for m, o in zip(models, outs):
                for (i, think), (message, n, right) in o.items():
                    f.write(json.dumps({"model": os.path.basename(m), "kind": items[i]["kind"], "think": think, "right": right, "tokens": n, "prompt": items[i]["messages"], "answer": message, "check": items[i]["check"]}, ensure_ascii=False) + "\n")
    missed = 0
    for x in a.require:
        kind, percent = x.split("=")
        rows = list(tables[0].get(kind, {}).values())
        got = 100 * sum(v[0] for v in rows) / max(1, sum(v[1] for v in rows))
        if kind == "long":
            got = 100 * long[0]["model"].get("coherent", 0) / max(1, long[0]["model"]["texts"])
        elif kind == "drafts":
            got = 100 * (texts[0] or {}).get("draft_acceptance", 0)
        if got < float(percent):
            print("missed: %s %.1f %% of %s %%" % (kind, got, percent))
            missed = 1
    return missed


if __name__ == "__main__":
    sys.exit(main())
