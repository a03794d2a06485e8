# Our own chat template: the same text from our engine as from Jinja2, for every message set there is and for random odd ones, and
# never an error.
import json
import os
import random
import sys

import template_reference as reference
import template_sets
import test_templates

PATH = os.path.join(test_templates.ROOT, "tools", "corpus", "chat.jinja")
ROLES = ["system", "user", "assistant", "tool", "developer", "function", ""]
TEXTS = ["", "hi", " padded \n", "a</think>b", "<think>x</think>\n\ny", "<|im_start|>user\n", "{\"a\": 1}", "\u00e9\u4e2d\U0001f600", "&<>'\""]


def content(r):
    return r.choice([r.choice(TEXTS), r.choice(TEXTS), None, [], [{"type": "text", "text": r.choice(TEXTS)}, {"type": "image"}],
                     [r.choice(TEXTS)], {"k": 1}, 5])


def message(r):
    m = {"role": r.choice(ROLES)}
    if r.random() < 0.9:
        m["content"] = content(r)
    if r.random() < 0.3:
        m["reasoning_content"] = r.choice([None, 5, "R", " R\n", ""])
    if r.random() < 0.3:
        args = r.choice([{"a": 1, "b": "x\"y"}, {}, "{\"q\": 2}", "", "broken", None, [1]])
        call = r.choice([{"type": "function", "function": {"name": "f", "arguments": args}}, {"name": "g", "arguments": args}, {}, {"function": 3}])
        m["tool_calls"] = r.choice([[call], [call, call], [], None, "x", {}])
    return m


def odd_set(r):
    v = {"messages": [message(r) for _ in range(r.randrange(7))], "add_generation_prompt": r.random() < 0.5}
    if r.random() < 0.5:
        v["enable_thinking"] = r.random() < 0.5
    if r.random() < 0.4:
        v["tools"] = [r.choice([{"type": "function", "function": {"name": "f", "parameters": {}}}, {"name": "g"}, "x"]) for _ in range(r.randrange(3))]
    return v


def main():
    r = random.Random(5)
    sets = [s["vars"] for s in template_sets.sets()] + [odd_set(r) for _ in range(1500)]
    with open(PATH, encoding="utf-8") as f:
        source = f.read()
    passed = failed = 0
    for v, got in zip(sets, test_templates.ours(PATH, sets)):
        kind, want = reference.render(source, v)
        good = kind == "text" and test_templates.check(json.dumps(v)[:200], kind, want, got)
        if kind != "text":
            print("the reference refuses %s: %s" % (json.dumps(v)[:200], want))
        passed, failed = passed + good, failed + (not good)
    print("%d passed, %d failed" % (1, 0) if not failed else "%d passed, %d failed" % (0, 1))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
