#!/usr/bin/env python3
"""Scores a model on held-out items: evaluate.py -m MODEL.gguf EVAL.jsonl [--compare OTHER.gguf]

Starts `chimere serve` on the loopback interface and asks every item greedily, once with thinking and once without. Prints right of total per
kind; for tool calls also how many were well-formed (a tool that is there, its required arguments, none unknown, of the right types), for JSON
answers how many were valid. --json FILE keeps the figures, --answers FILE every answer. Exit code 1 when --require KIND=PERCENT is missed.
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
        return j["choices"][0]["message"], j["usage"]["completion_tokens"]


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
    if a.json:
        with open(a.json + ".tmp", "w") as f:
            json.dump([{"model": os.path.basename(m), "kinds": {k: {"think" if x else "direct": v for x, v in row.items()} for k, row in t.items()}} for m, t in zip(models, tables)], f, indent=1)
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
        if got < float(percent):
            print("missed: %s %.1f %% of %s %%" % (kind, got, percent))
            missed = 1
    return missed


if __name__ == "__main__":
    sys.exit(main())
