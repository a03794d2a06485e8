# Whether an answer is right. A check is a small object beside the prompt in the evaluation file:
#   {"type": "answer", "text": T, "not": [...]}   T stands in the answer as words of its own, none of "not" does in its place
#   {"type": "contains" | "starts" | "exact", "text": T}, {"type": "one_of" | "all", "texts": [...]}, {"type": "any", "min": WORDS}
#   {"type": "number", "value": N}                 the last number of the answer
#   {"type": "json", "value": V}                   valid JSON, equal to V
#   {"type": "calls", "calls": [[NAME, ARGUMENTS], ...]}, {"type": "no_call", "then": CHECK or null}
#   {"type": "list", "n": N, "from": GROUP}, {"type": "story", "names": [...], "min_words": N}
import json
import re


def parse_call(text):
    """The inside of <tool_call>: JSON, or <function=NAME><parameter=KEY>."""
    m = re.match(r"\s*<function=([^>]+)>(.*?)(</function>)?\s*$", text, re.S)
    if m:
        args = {}
        for k, v in re.findall(r"<parameter=([^>]+)>\n?(.*?)\n?</parameter>", m.group(2), re.S):
            try:
                args[k] = json.loads(v)
            except ValueError:
                args[k] = v
        return [m.group(1), args]
    try:
        j = json.loads(text)
        args = j.get("arguments", {})
        return [j["name"], json.loads(args) if isinstance(args, str) else args]
    except (ValueError, KeyError, AttributeError):
        return None


def split_calls(message):
    """The answer's text without calls, and the calls; a call that cannot be parsed is None."""
    text = message.get("content") or ""
    calls = []
    for c in message.get("tool_calls") or []:
        f = c.get("function", c)
        try:
            args = json.loads(f["arguments"]) if isinstance(f.get("arguments"), str) else f.get("arguments")
            calls.append([f["name"], args])
        except (ValueError, KeyError):
            calls.append(None)
    for part in re.findall(r"<tool_call>(.*?)(?:</tool_call>|$)", text, re.S):
        calls.append(parse_call(part))
    return re.sub(r"<tool_call>.*?(</tool_call>|$)", "", text, flags=re.S).strip(), calls


TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def fits_schema(call, tools):
    """Well-formed: a function that is there, its required arguments, none unknown, each of its type."""
    if call is None or not isinstance(call[1], dict):
        return False
    for t in tools or []:
        f = t.get("function", t)
        if f["name"] != call[0]:
            continue
        props = f["parameters"]["properties"]
        if any(k not in call[1] for k in f["parameters"].get("required", [])):
            return False
        for k, v in call[1].items():
            p = props.get(k)
            if p is None or not isinstance(v, TYPES[p["type"]]) or (isinstance(v, bool) and p["type"] != "boolean") or ("enum" in p and v not in p["enum"]):
                return False
        return True
    return False


def has_words(text, words):
    return re.search(r"(?<![\w])%s(?![\w])" % re.escape(words), text, re.I) is not None


def check(c, message, tools=None):
    """True or False."""
    text, calls = split_calls(message)
    kind = c["type"]
    if kind == "calls":
        return calls == [list(x) for x in c["calls"]] and all(fits_schema(x, tools) for x in calls)
    if calls:
        return False
    if kind == "no_call":
        return len(text) > 0 and (not c.get("then") or check(c["then"], message))
    if kind == "answer":
        return has_words(text, c["text"])
    if kind == "contains":
        return c["text"].lower() in text.lower()
    if kind == "starts":
        return text.startswith(c["text"])
    if kind == "exact":
        return text == c["text"].strip()
    if kind == "one_of":
        return any(x.lower() in text.lower() for x in c["texts"])
    if kind == "all":
        return len(text.split()) >= 2 and all(x.lower() in text.lower() for x in c["texts"])
    if kind == "any":
        return len(text.split()) >= c["min"]
    if kind == "number":
        # "56 is smaller." begins with it, "3 + 4 = 7." ends with it.
        found = re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"(\d) - (?=\d)", r"\1 ", text))
        return bool(found) and float(found[0 if re.search(r" is (bigger|smaller)", text) else -1]) == c["value"]
    if kind == "json":
        try:
            return json.loads(text) == c["value"]
        except ValueError:
            return False
    if kind == "list":
        import kind_talk
        xs = [x.strip(" -.").lower() for x in re.split(r"\n|, | and ", text)]
        group = {x.lower() for x in kind_talk.GROUPS[c["from"]]}
        return len(xs) == c["n"] == len(set(xs)) and all(x in group for x in xs)
    if kind == "story":
        return len(text.split()) >= c["min_words"] and all(has_words(text, n) for n in c["names"])
    raise ValueError("unknown check %r" % kind)


def valid_json(message):
    try:
        json.loads(split_calls(message)[0])
        return True
    except ValueError:
        return False
