# Writes what the reference makes of every template and message set (tests/golden/template_*.json), for the tests that run
# without Python. CHIMERE_TESTDATA names the folder with templates/. Node, if the other renderer is there, adds its agreement.
import glob
import json
import os
import subprocess
import sys

import template_reference as reference
import template_sets
import template_snippets

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")


def fnv64(text):
    h = 0xCBF29CE484222325
    for b in text.encode("utf-8"):
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return "%016x" % h


def templates(data):
    return sorted(glob.glob(os.path.join(data, "templates", "*.jinja")))


def stored(kind, value):
    """A text by its hash, a raised message whole, any other error as such."""
    return fnv64(value) if kind == "text" else "!" + value if kind == "raised" else "error"


def write(name, value):
    with open(os.path.join(GOLDEN, name), "w", encoding="utf-8") as f:
        if isinstance(value, list):
            f.write("[\n" + ",\n".join(json.dumps(x, ensure_ascii=False) for x in value) + "\n]\n")
        else:
            f.write("{\n" + ",\n".join("%s: %s" % (json.dumps(k), json.dumps(v, ensure_ascii=False)) for k, v in value.items()) + "\n}\n")


def main():
    data = os.environ.get("CHIMERE_TESTDATA")
    if not data:
        sys.exit("CHIMERE_TESTDATA is not set")
    sets = template_sets.sets()
    write("template_sets.json", sets)
    hashes = {}
    for path in templates(data):
        with open(path, encoding="utf-8") as f:
            source = f.read()
        hashes[os.path.basename(path)] = {s["name"]: stored(*reference.render(source, s["vars"])) for s in sets}
    write("template_hashes.json", hashes)
    cases = []
    for source in template_snippets.snippets():
        kind, value = reference.render(source, template_snippets.VARS)
        cases.append({"source": source, "text": value} if kind == "text" else {"source": source, "raised" if kind == "raised" else "error": value})
    write("template_snippets.json", [{"vars": template_snippets.VARS, "now": reference.NOW}] + cases)
    subprocess.run(["node", os.path.join(HERE, "test_templates_hf.mjs"), "--record"], check=False)


if __name__ == "__main__":
    main()
