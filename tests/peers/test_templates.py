# Every chat template with every message set, and the language snippets, against Jinja2 itself: equal bytes, or the same error.
# time limit: 300 s
import json
import os
import subprocess
import sys
import tempfile

import template_golden
import template_reference as reference
import template_sets
import template_snippets

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CHIMERE = os.environ.get("CHIMERE_BIN", os.path.join(ROOT, "chimere"))
shown = 0


def ours(path, variables):
    """One result per variables object: {"text": ...} or {"error": ...}."""
    lines = "".join(json.dumps(v) + "\n" for v in variables)
    r = subprocess.run([CHIMERE, "template", "--template", path, "--batch", "--now", str(reference.NOW)], input=lines, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    if r.returncode not in (0, 1):
        raise RuntimeError("%s: exit code %d: %s" % (path, r.returncode, r.stderr))
    out = [json.loads(x) for x in r.stdout.split("\n") if x]
    return out if len(out) == len(variables) else [{"error": r.stderr}] * len(variables)


def same(kind, want, got):
    if kind == "text":
        return got.get("text") == want
    return "error" in got and (kind == "error" or got["error"] == want or (len(want.encode()) > 230 and got["error"][:200] == want[:200]))


def check(what, kind, want, got):
    global shown
    if same(kind, want, got):
        return True
    shown += 1
    if shown <= 20:
        print("%s\n  reference %s %r\n  ours      %r" % (what, kind, want[-600:], str(got)[-600:]))
    return False


def main():
    passed = failed = 0
    data = os.environ.get("CHIMERE_TESTDATA")
    sets = template_sets.sets()
    variables = [s["vars"] for s in sets]
    with open(os.path.join(ROOT, "tests", "golden", "template_sets.json"), encoding="utf-8") as f:
        if json.load(f) != sets:
            print("tests/golden/template_sets.json is stale: run tests/peers/template_golden.py")
            failed += 1
    for path in template_golden.templates(data) if data else []:
        with open(path, encoding="utf-8") as f:
            source = f.read()
        good = 0
        for s, got in zip(sets, ours(path, variables)):
            kind, want = reference.render(source, s["vars"])
            good += check("%s, %s" % (os.path.basename(path), s["name"]), kind, want, got)
        passed += good
        failed += len(sets) - good
    with tempfile.TemporaryDirectory(dir=os.environ.get("CHIMERE_TMP")) as tmp:
        path = os.path.join(tmp, "t.jinja")
        for source in template_snippets.snippets():
            with open(path, "w", encoding="utf-8", newline="") as f:
                f.write(source)
            kind, want = reference.render(source, template_snippets.VARS)
            ok = check(repr(source), kind, want, ours(path, [template_snippets.VARS])[0])
            passed += ok
            failed += not ok
    if not data:
        print("templates: skipped, CHIMERE_TESTDATA is not set")
    print("%d passed, %d failed, %d skipped" % (passed, failed, 0 if data else 1))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
