#!/usr/bin/env python3
"""Writes the training corpus of the small model: generate.py -o DIR [--megabytes 100] [--seed 1] [--jobs N]

One JSONL file per group (see GROUPS), valid.jsonl with held-out items as text (valid_GROUP.jsonl: each group's part) and eval.jsonl with held-out prompts
and checks; the same seed gives the same bytes. --only GROUP,... writes these files alone; --eval N sets the prompts per kind; --bible FILE adds bible.txt and
bible_valid.txt from the text of the Debian package bible-kjv-text (public domain), which is not kept in the project.
"""
import argparse
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kind_facts
import kind_json
import kind_order
import kind_story
import kind_sums
import kind_talk
import kind_tools
import kind_words
import lib

# name: makers, share of the corpus in percent
GROUPS = {
    "stories": (kind_story.TEXTS, 18),
    "asked": (kind_story.KINDS, 10),
    "facts": (kind_facts.KINDS, 11),
    "sums": (kind_sums.KINDS, 10),
    "order": (kind_order.KINDS, 8),
    "tools": (kind_tools.KINDS, 28),
    "json": (kind_json.KINDS, 5),
    "talk": (kind_talk.KINDS, 6),
    "words": (kind_words.KINDS, 4),
}
SHARDS = 16  # of each group, so that the bytes do not depend on the number of jobs


def choose(r, makers):
    x = r.random() * sum(weight for _, weight in makers)
    for make, weight in makers:
        x -= weight
        if x < 0:
            return make
    return makers[-1][0]


def take_item(r, makers, held):
    while True:
        item = choose(r, makers)(r)
        if item.held() == held:
            return item


SYSTEM = """You are a helpful assistant.|You are a helpful assistant called Chimere.|Answer the questions of the user.|You are Chimere Mini, a small language model.|Be brief and kind.|
You are a friendly assistant. Answer in simple words.|Help the user as well as you can.|You are an assistant that thinks before it answers.|Answer clearly and correctly.""".replace("\n", "").split("|")


def with_history(r, item):
    """Now and then a system message or other talk comes before."""
    if not item.tools and item.messages[0]["role"] != "system" and r.random() < 0.12:
        return [{"role": "system", "content": r.choice(SYSTEM)}] + item.messages
    if item.tools or item.messages[0]["role"] == "system" or r.random() > 0.15:
        return item.messages
    before = []
    for _ in range(r.choice([1, 1, 2])):
        before += kind_talk.filler(r)
    return before + item.messages


def record(r, item):
    if isinstance(item.messages, str):
        return {"text": item.messages}
    think = r.random() < 0.5
    messages = with_history(r, item)
    last = max(i for i, m in enumerate(messages) if m["role"] == "user")
    out = []
    for i, m in enumerate(messages):
        m = dict(m)
        if m["role"] == "assistant" and not (think and i > last):
            m.pop("reasoning_content", None)
        out.append(m)
    v = {"messages": out, "enable_thinking": think}
    if item.tools:
        v["tools"] = item.tools
    return v


def shard(job):
    name, seed, n, size = job
    r = random.Random("%d/%s/%d" % (seed, name, n))
    lines, total = [], 0
    while total < size:
        line = json.dumps(record(r, take_item(r, GROUPS[name][0], False)), ensure_ascii=False)
        lines.append(line)
        total += len(line)
    return name, n, "\n".join(lines) + "\n"


def write(path, text):
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(path + ".tmp", path)


def valid_text(seed, size):
    """Held-out items as in training, by group."""
    texts = {}
    for name, (makers, share) in GROUPS.items():
        r = random.Random("%d/valid/%s" % (seed, name))
        lines, total = [], 0
        while total < size * share / 100:
            line = json.dumps(record(r, take_item(r, makers, True)), ensure_ascii=False)
            lines.append(line)
            total += len(line)
        texts[name] = "\n".join(lines) + "\n"
    return texts


# ---- evaluation -----------------------------------------------------------------------------------------------------------
def eval_items(seed, n):
    """n held-out items of each kind that can be checked, each as prompt and check."""
    wanted = {}
    makers = [m for name in GROUPS if name != "stories" for m in GROUPS[name][0]] + [(m, 30) for m in kind_tools.UNSEEN]
    for i, (make, _) in enumerate(makers):
        r = random.Random("%d/eval/%d" % (seed, i))
        for _ in range(n * 400):
            item = make(r)
            if not item.check or not (item.held() or item.never_held):
                continue
            # Tools that are never trained on make kinds of their own.
            kind = item.kind if make not in kind_tools.UNSEEN or item.kind == "tool_unseen" else item.kind + "_unseen"
            bucket = wanted.setdefault(kind, {})
            if len(bucket) < n:
                bucket.setdefault(json.dumps(item.messages), item)
            if min((len(b) for k, b in wanted.items()), default=0) >= n and len(bucket) >= n and r.random() < 0.01:
                break
    out = []
    for kind in sorted(wanted):
        for item in wanted[kind].values():
            v = {"kind": kind, "messages": [{k: x for k, x in m.items() if k != "reasoning_content"} for m in item.messages[:-1]], "check": item.check,
                 "answer": item.messages[-1].get("content", "")}
            if item.tools:
                v["tools"] = item.tools
            out.append(v)
    return out


# ---- facts for a fine-tune --------------------------------------------------------------------------------------------------
def new_facts(seed, n):
    """Capitals of n countries that do not exist: records that teach them, and questions in other wordings."""
    r = random.Random("%d/new_facts" % seed)
    train, test, seen = [], [], set()
    while len(seen) < n:
        v = {"x": lib.cap(lib.nonce(r, 3)), "y": lib.cap(lib.nonce(r, 2))}
        if v["x"] in seen:
            continue
        seen.add(v["x"])
        for form in kind_facts.forms(kind_facts.CAPITAL):
            q = kind_facts.put(form, **v)
            text = kind_facts.put(r.choice(["The capital of $x is $y.", "$y is the capital of $x."]), **v)
            check = {"type": "answer", "text": v["y"], "not": []}
            item = lib.qa("new_fact", q, text, kind_facts.put("The capital of $x: $y.", **v), q, check)
            if lib.is_held("new_fact", form, 4):
                test.append({"kind": "new_fact", "messages": item.messages[:1], "check": check, "answer": text})
            else:
                train += [json.dumps(record(r, item), ensure_ascii=False) for _ in range(2)]
    return ["\n".join(train) + "\n", "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in test)]


# ---- text of others, from the machine ----------------------------------------------------------------------------------------
def bible_text(path):
    """Chapters of verses: those to train on, and one in twenty that is held out. Lines of the package's text are "Book chapter:verse text"."""
    chapters, last = [], None
    if path == "bible":
        lines = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout.split("\n")
    else:
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
    for line in lines:
        m = re.match(r"\s*(\S+?)\s*(\d+):(\d+)\s+(.*)", line)
        if not m:
            continue
        if (m.group(1), m.group(2)) != last:
            chapters.append([])
            last = (m.group(1), m.group(2))
        chapters[-1].append(m.group(4).strip())
    held = [lib.is_held("bible", c[0], 20) for c in chapters]
    return ["\n\n\n".join("\n".join(c) for c, h in zip(chapters, held) if h == want) + "\n" for want in (False, True)]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("-o", "--out", required=True)
    p.add_argument("--megabytes", type=float, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--only", default="")
    p.add_argument("--eval", type=int, default=25)
    p.add_argument("--bible", metavar="FILE", help="text of the King James Bible, or 'bible' to ask the program of that name")
    p.add_argument("--new-facts", type=int, default=0, metavar="N", help="also new_facts.jsonl and new_facts_eval.jsonl: N made-up facts for a fine-tune")
    a = p.parse_args()
    files = list(GROUPS) + ["valid", "eval"]
    only = [x for x in a.only.split(",") if x] or files
    for x in only:
        if x not in files:
            p.error("--only: unknown file %r (%s)" % (x, ", ".join(files)))
    os.makedirs(a.out, exist_ok=True)
    jobs = [(g, a.seed, n, a.megabytes * 1e6 * GROUPS[g][1] / 100 / SHARDS) for g in GROUPS if g in only for n in range(SHARDS)]
    done, parts = 0, {}
    with multiprocessing.Pool(max(1, a.jobs)) as pool:
        for name, n, text in pool.imap_unordered(shard, jobs):
            done += 1
            parts.setdefault(name, {})[n] = text
            if len(parts[name]) == SHARDS:
                write(os.path.join(a.out, name + ".jsonl"), "".join(parts[name][k] for k in range(SHARDS)))
                parts[name] = {}
            if sys.stderr.isatty():
                print("\rcorpus: %3d %%" % (100 * done // len(jobs)), end="\n" if done == len(jobs) else "", file=sys.stderr, flush=True)
    if "valid" in only:
        valid = valid_text(a.seed, max(2e5, a.megabytes * 5e3))
        write(os.path.join(a.out, "valid.jsonl"), "".join(valid.values()))
        for name, text in valid.items():
            write(os.path.join(a.out, "valid_%s.jsonl" % name), text)
    if "eval" in only:
        items = eval_items(a.seed, a.eval)
        write(os.path.join(a.out, "eval.jsonl"), "".join(json.dumps(x, ensure_ascii=False) + "\n" for x in items))
    if a.new_facts:
        for name, text in zip(("new_facts.jsonl", "new_facts_eval.jsonl"), new_facts(a.seed, a.new_facts)):
            write(os.path.join(a.out, name), text)
    if a.bible:
        for name, text in zip(("bible.txt", "bible_valid.txt"), bible_text(a.bible)):
            write(os.path.join(a.out, name), text)
    for f in sorted(os.listdir(a.out)):
        print("%-14s %8.2f MB" % (f, os.path.getsize(os.path.join(a.out, f)) / 1e6), file=sys.stderr)


if __name__ == "__main__":
    main()
