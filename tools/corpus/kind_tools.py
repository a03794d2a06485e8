# Tool use with schemas composed at random, so that the schema has to be read: names, arguments and descriptions differ each time.
import json

import tool_tables as t
import words as w
from lib import Item, answer, cap, join_and, nonce, pick, user

STREETS = "Mill Station Church Garden River King School Forest Market Park Hill Lake".split()


def value(r, kind):
    if isinstance(kind, list):
        return r.choice(kind)
    head = kind.split()
    if head[0] == "int":
        return r.randrange(int(head[1]), int(head[2]) + 1)
    if head[0] == "decimal":
        return r.randrange(int(head[1]) * 10, int(head[2]) * 10) / 10
    return {"date": lambda: r.choice(w.DAYS) if r.random() < 0.6 else "2025-%02d-%02d" % (r.randrange(1, 13), r.randrange(1, 29)),
            "clock": lambda: "%02d:%02d" % (r.randrange(24), r.choice([0, 5, 10, 15, 20, 30, 40, 45, 50])),
            "name": lambda: r.choice(w.GIRLS + w.BOYS), "label": lambda: r.choice(w.HOBBIES + w.FOOD + w.THINGS),
            "sentence": lambda: pick(r, "{The|My|Our|A} {%s} is {%s|%s|%s}." % ("|".join(r.sample(w.COMMON, 8)), r.choice(w.COLOURS), "late", "ready")) if r.random() < 0.5 else
            pick(r, "{See you|Come|I will be there|Call me|Wait for me} {%s}." % "|".join(["on " + r.choice(w.DAYS), "at the " + r.choice(w.PLACES), "tomorrow", "soon"])),
            "query": lambda: "%s %s" % (r.choice(w.COLOURS + w.HOBBIES), r.choice(w.COMMON)), "title": lambda: cap("%s %s" % (r.choice(w.COLOURS), r.choice(w.COMMON))),
            "band": lambda: "The %s %s" % (cap(r.choice(w.COLOURS)), cap(r.choice(w.ANIMALS)) + "s"), "file": lambda: "%s%s.%s" % (r.choice(w.COMMON), r.choice(["", str(r.randrange(1, 30))]), r.choice("txt pdf png csv doc".split())),
            "email": lambda: "%s@%s.%s" % (r.choice(w.GIRLS + w.BOYS).lower(), nonce(r), r.choice(["com", "org", "net"])), "phone": lambda: "0%d" % r.randrange(10 ** 5, 10 ** 7),
            "url": lambda: "%s.%s" % (nonce(r), r.choice(["com", "org"])), "station": lambda: "%s %s" % (r.choice(STREETS), r.choice(["Street", "Square", "Road"])), "team": lambda: "%s %s" % (r.choice(w.CITIES), r.choice(["United", "City", "Rovers", "Stars"])),
            "weather": lambda: r.choice(w.WEATHER), "parcel": lambda: r.choice(["on its way", "delivered", "at the post office", "packed", "lost"]), "street": lambda: "%d %s Street" % (r.randrange(1, 99), r.choice(STREETS)),
            "sent": lambda: "sent", "done": lambda: "ok", "called": lambda: "ringing", "cancelled": lambda: "cancelled"}[head[0]]()


def name_style(r, verb, noun):
    style = r.random()
    parts = verb.split("_") + noun.split("_")
    if style < 0.6:
        return "_".join(parts)
    if style < 0.75:
        return parts[0] + "".join(cap(x) for x in parts[1:])
    if style < 0.87:
        return "%s_%s" % (noun, verb)
    return noun if style < 0.95 else "%s_tool" % noun


class Tool:
    """A schema for one thing, and calls of it."""

    def __init__(self, r, obj, odd=0):
        self.obj = obj
        verb = r.choice(obj["verbs"])
        self.verb = verb.replace("_", " ")
        self.name = name_style(r, verb, r.choice(obj["nouns"]))
        if odd > 0.5:  # a name that says nothing: the description has to be read
            self.name = nonce(r, 3)
        phrase = obj["phrase"]
        if obj["kind"] == "i":
            self.about = r.choice(["Gets", "Returns", "Finds", "Looks up", "Tells"]) + " " + phrase
        else:
            self.about = r.choice([cap(self.verb) + " " + phrase, "Use this to %s %s" % (self.verb, phrase)])
        self.about += r.choice(["", ".", "."])
        self.args = []  # [key, name, required]
        used = set()
        for key, required in obj["args"]:
            if not required and r.random() < 0.4:
                continue
            names = [n for n in t.ARGS[key][0].split("|") if n not in used]
            arg = nonce(r) if odd and r.random() < odd else r.choice(names[:2] if r.random() < 0.6 else names)
            used.add(arg)
            self.args.append((key, arg, required))
        self.describe = odd > 0 or r.random() < 0.75

    def schema(self, r):
        props = {}
        for key, arg, _ in self.args:
            kind = t.ARGS[key][1]
            if kind.startswith("enum"):
                p = {"type": "string", "enum": kind.split(" ")[1].split(",")}
            elif kind == "array":
                p = {"type": "array", "items": {"type": "string"}}
            else:
                p = {"type": kind}
            if self.describe:
                p["description"] = r.choice(t.ARGS[key][2].split("|"))
            props[arg] = p
        return {"type": "function", "function": {"name": self.name, "description": self.about,
                "parameters": {"type": "object", "properties": props, "required": [arg for _, arg, req in self.args if req]}}}

    def call(self, r, given=None, share=0.5):
        """Arguments for one call: {name: value}, and how a request says them: [phrase]."""
        args, said, by_key = {}, [], {}
        for key, arg, required in self.args:
            if not required and r.random() > share and not (given and key in given):
                continue
            kind, values, phrases = t.ARGS[key][1], t.ARGS[key][3], r.choice(t.ARGS[key][4].split("|"))
            if given and key in given:
                v = given[key]
            elif kind.startswith("enum"):
                v = r.choice(kind.split(" ")[1].split(","))
            elif kind == "boolean":
                v = True
            elif kind == "array":
                v = r.sample(values, r.randrange(2, 5))
            else:
                v = value(r, values)
            args[arg] = v
            by_key[key] = v
            said.append(phrases.replace("$v", join_and(v) if isinstance(v, list) else str(v)))
        return args, said, by_key

    def result(self, r):
        return {f: value(r, kind) for f, kind in self.obj["fields"]}

    def request(self, r, said):
        """An imperative without end, in lower case."""
        what = self.obj["phrase"]
        tail = (" " + " ".join(said)) if said else ""
        if self.obj["kind"] == "i":
            return r.choice(["tell me", "show me", "find out", "look up", "check", "get me", "find"]) + " " + what + tail
        if self.obj["name"] == "play_song":
            return self.verb + tail
        return self.verb + " " + what + tail

    def question(self, r, said):
        tail = (" " + " ".join(said)) if said else ""
        if self.obj["kind"] == "i" and r.random() < 0.5:
            return r.choice(["What is %s%s?", "Do you know %s%s?", "I need %s%s.", "%s%s, please."]) % (self.obj["phrase"], tail) if r.random() < 0.85 else cap(self.obj["phrase"] + tail) + "?"
        return wrap(r, self.request(r, said))


def wrap(r, request):
    return cap(r.choice(["%s.", "%s.", "please %s.", "can you %s?", "could you %s?", "%s, please.", "I want you to %s.", "I would like you to %s."]) % request)


def say_value(v):
    return json.dumps(v, ensure_ascii=False) if not isinstance(v, str) else v


def call_message(calls, thought):
    m = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in calls]}
    if thought:
        m["reasoning_content"] = thought
    return m


def think_call(r, tool, args):
    fits = r.choice(["%s fits.", "I use %s.", "%s can do that.", "The tool is %s."]) % tool.name
    return fits + (" " + ", ".join("%s = %s" % (k, say_value(v)) for k, v in args.items()) + "." if args else "")


def result_message(result):
    return {"role": "tool", "content": json.dumps(result, ensure_ascii=False)}


def final(r, tool, by_key, result):
    values = dict(by_key, **result)
    text = tool.obj["answer"]
    for k in sorted(values, key=len, reverse=True):
        text = text.replace("$" + k, say_value(values[k]))
    # A field may be named like the argument it repeats.
    return cap(text), "The result: " + ", ".join("%s = %s" % (k, say_value(v)) for k, v in result.items()) + "."


def says(text, result):
    """Every value of the result that the answer tells; the words around it are free."""
    return {"type": "all", "texts": [say_value(v) for v in result.values() if say_value(v) in text]}


def make_tools(r, unseen, n, odd):
    objs = r.sample(t.HELD_OBJECTS if unseen else t.OBJECTS, n)
    tools, names = [], set()
    for o in objs:
        for _ in range(5):
            x = Tool(r, o, odd)
            if x.name not in names:
                names.add(x.name)
                tools.append(x)
                break
    return tools


def system(r, messages):
    if r.random() < 0.2:
        messages.insert(0, {"role": "system", "content": r.choice(["You are a helpful assistant.", "Use the tools when they help.", "You are Chimere, an assistant with tools.", "Answer briefly."])})
    return messages


def shuffled(r, tools):
    out = [x.schema(r) for x in tools]
    r.shuffle(out)
    return out


def odd_share(r):
    x = r.random()
    return 0 if x < 0.75 else 0.4 if x < 0.87 else 0.9


def one_call(r, unseen=False):
    tools = make_tools(r, unseen, r.choice([1, 2, 2, 3, 3, 4, 5]), odd_share(r))
    tool = tools[0]
    args, said, _ = tool.call(r)
    q = tool.question(r, said)
    m = system(r, [user(q), call_message([(tool.name, args)], think_call(r, tool, args))])
    return Item("tool_unseen" if unseen else "tool_call", m, tool.obj["name"] + q, {"type": "calls", "calls": [[tool.name, args]]}, shuffled(r, tools), unseen)


def full_round(r, unseen=False):
    """Call, result, answer."""
    tools = make_tools(r, unseen, r.choice([1, 2, 2, 3, 4]), odd_share(r))
    tool = tools[0]
    args, said, by_key = tool.call(r)
    q = tool.question(r, said)
    m = [user(q), call_message([(tool.name, args)], think_call(r, tool, args))]
    if r.random() < 0.1:
        error = r.choice(["not found", "no connection", "not allowed", "timeout", "wrong value", "service is down"])
        m += [result_message({"error": error}), answer("That did not work: %s." % error, "The result is an error: %s. I tell the user." % error)]
        check = {"type": "contains", "text": error}
    else:
        result = tool.result(r)
        text, thought = final(r, tool, by_key, result)
        m += [result_message(result), answer(text, thought)]
        check = says(text, result)
    return Item("tool_answer", system(r, m), q, check, shuffled(r, tools), unseen)


def two_calls(r, unseen=False):
    tools = make_tools(r, unseen, r.choice([2, 2, 3, 4]), odd_share(r))
    one = tools[0]
    if r.random() < 0.5:
        # The same tool twice: all but the first argument stay.
        args, said, by_key = one.call(r, share=0.2)
        again, said2, _ = one.call(r, {k: v for k, v in list(by_key.items())[1:]}, share=0)
        key = list(args)[0]
        if list(again)[0] != key or again[key] == args[key]:
            return two_calls(r, unseen)
        again = dict(args, **{key: again[key]})
        q = wrap(r, one.request(r, said[:1] + ["and " + said2[0]] + said[1:]))
        calls, thought = [(one.name, args), (one.name, again)], r.choice(["Two calls of %s: %s and %s.", "%s twice, with %s and %s."]) % (one.name, say_value(args[key]), say_value(again[key]))
        others = tools
    else:
        two = tools[1]
        a1, s1, _ = one.call(r, share=0.3)
        a2, s2, _ = two.call(r, share=0.3)
        q = wrap(r, one.request(r, s1) + r.choice([" and ", " and then ", ", and also ", " and "]) + two.request(r, s2))
        calls, thought, others = [(one.name, a1), (two.name, a2)], "Two tasks. " + think_call(r, one, a1) + " " + think_call(r, two, a2), tools
    return Item("tool_two", system(r, [user(q), call_message(calls, thought)]), q, {"type": "calls", "calls": [[n, x] for n, x in calls]}, shuffled(r, others), unseen)


def decline(r, unseen=False):
    """The tool for it is not there, or none is needed."""
    tools = make_tools(r, unseen, r.choice([2, 3, 4, 5]), 0)
    wanted, rest = tools[0], tools[1:]
    if len(rest) < 1:
        return decline(r, unseen)
    _, said, _ = wanted.call(r)
    if any(x.obj["nouns"][0] in wanted.obj["nouns"] or x.obj["phrase"] == wanted.obj["phrase"] for x in rest):
        return decline(r, unseen)
    names = join_and([x.name for x in rest])
    thought = r.choice(["I have %s. None of them can %s.", "The tools are %s. That does not help to %s.", "With %s I cannot %s."]) % (names, wanted.request(r, []))
    text = r.choice(["I am sorry, I have no tool for that.", "I cannot do that: none of my tools fits.", "Sorry, I have no tool that can do this.", "That is not possible with the tools I have."])
    q = wanted.question(r, said)
    return Item("tool_decline", system(r, [user(q), answer(text, thought)]), q, {"type": "no_call", "then": {"type": "contains", "text": "tool"}}, shuffled(r, rest), unseen)


def not_needed(r, unseen=False):
    """A question that needs no tool, with tools there."""
    import kind_facts
    import kind_sums
    import kind_talk
    base = r.choice([kind_facts.KINDS[0][0], r.choice(kind_facts.KINDS)[0], kind_sums.add, kind_talk.small_talk, kind_talk.small_talk])(r)
    if base.held():
        return not_needed(r, unseen)
    tools = make_tools(r, unseen, r.choice([1, 2, 3]), 0)
    last = dict(base.messages[-1])
    if last.get("reasoning_content"):
        last["reasoning_content"] = r.choice(["No tool is needed. ", "I can answer this myself. ", ""]) + last["reasoning_content"]
    return Item("tool_not_needed", system(r, base.messages[:-1] + [last]), base.kind + base.key, {"type": "no_call", "then": base.check}, shuffled(r, tools), base.never_held)


def missing(r, unseen=False):
    """A required argument is not said: ask for it, get it, call."""
    tools = make_tools(r, unseen, r.choice([1, 2, 3]), 0)
    tool = tools[0]
    args, said, by_key = tool.call(r, share=0)
    if not said or tool.obj["name"] in ("play_song", "sum", "product_of"):
        return missing(r, unseen)
    i = r.randrange(len(args))
    arg = list(args)[i]
    key = list(by_key)[i]
    what = r.choice(t.ARGS[key][2].split("|"))
    q = tool.question(r, said[:i] + said[i + 1:])
    back = r.choice(["Please tell me: %s?", "I need one more thing: %s?", "%s?"]) % arg.replace("_", " ")
    m = [user(q), answer(cap(back), "%s needs %s, which is not given. I ask for it." % (tool.name, arg))]
    if r.random() < 0.5:
        v = args[arg]
        m += [user(r.choice(["%s", "%s.", "%s, please."]) % cap(said[i]) if r.random() < 0.5 else cap(join_and(v) if isinstance(v, list) else str(v)) + "."), call_message([(tool.name, args)], think_call(r, tool, args))]
        return Item("tool_filled", system(r, m), q, {"type": "calls", "calls": [[tool.name, args]]}, shuffled(r, tools), unseen)
    return Item("tool_missing", system(r, m), q, {"type": "no_call", "then": {"type": "contains", "text": arg.replace("_", " ")}}, shuffled(r, tools), unseen)


def chain(r, unseen=False):
    """The result of one call is an argument of the next."""
    first, field, second, key, form = r.choice(t.CHAINS)
    by_name = {o["name"]: o for o in t.OBJECTS}
    one, two = Tool(r, by_name[first], 0), Tool(r, by_name[second], 0)
    rest = [x for x in make_tools(r, False, r.choice([1, 2, 3]), 0) if x.obj["name"] not in (first, second)]
    if one.name == two.name or {x.name for x in rest} & {one.name, two.name}:
        return chain(r)
    a1, _, k1 = one.call(r, share=0)
    result = one.result(r)
    a2, _, k2 = two.call(r, {key: result[field]}, share=0)
    if "to_city" in k1 and "to_city" in k2:
        a2 = {n: (k1["to_city"] if k == "to_city" else a2[n]) for (k, n, _) in two.args if n in a2}
        k2["to_city"] = k1["to_city"]
    try:
        q = wrap(r, form.format(**dict(k2, **k1)))
    except KeyError:
        return chain(r)
    result2 = two.result(r)
    text, thought = final(r, two, k2, result2)
    m = [user(q), call_message([(one.name, a1)], "First %s, then %s. " % (one.name, two.name) + think_call(r, one, a1)), result_message(result),
         call_message([(two.name, a2)], "%s is %s. Now " % (cap(field), say_value(result[field])) + think_call(r, two, a2)), result_message(result2), answer(text, thought)]
    keep = r.choice([2, 4, 6, 6])
    check = {2: {"type": "calls", "calls": [[one.name, a1]]}, 4: {"type": "calls", "calls": [[two.name, a2]]}, 6: says(text, result2)}[keep]
    return Item("tool_chain", system(r, m[:keep]), q, check, shuffled(r, [one, two] + rest))


def nonce_call(r, unseen=False):
    """Names that mean nothing: everything has to be copied from the schema and the request."""
    tools = []
    for _ in range(r.randrange(1, 5)):
        props, n = {}, r.randrange(1, 4)
        while len(props) < n:
            kind = r.choice(["string", "integer", "boolean", "number"])
            p = {"type": kind}
            if r.random() < 0.3:
                p["description"] = "The %s" % nonce(r)
            props[nonce(r)] = p
        required = [k for k in props if r.random() < 0.7] or [list(props)[0]]
        name = nonce(r, 2) + r.choice(["", "_" + nonce(r, 1)])
        tools.append({"type": "function", "function": {"name": name, "description": r.choice(["Does the %s." % nonce(r), "%s a %s" % (cap(nonce(r)), nonce(r)), "A test tool."]),
                      "parameters": {"type": "object", "properties": props, "required": required}}})
    f = tools[0]["function"]
    args, said = {}, []
    for k, p in f["parameters"]["properties"].items():
        if k not in f["parameters"]["required"] and r.random() < 0.5:
            continue
        v = {"string": lambda: r.choice([nonce(r), r.choice(w.COMMON), r.choice(w.CITIES)]), "integer": lambda: r.randrange(1000), "boolean": lambda: r.random() < 0.5,
             "number": lambda: r.randrange(1, 999) / 10}[p["type"]]()
        args[k] = v
        said.append(r.choice(["%s %s", "%s set to %s", "%s = %s"]) % (k, say_value(v)))
    q = r.choice(["Call %s with %s.", "Run %s with %s.", "Use %s with %s.", "Please use the tool %s with %s.", "I need %s with %s."]) % (f["name"], join_and(said))
    thought = "The tool is %s. " % f["name"] + ", ".join("%s = %s" % (k, say_value(v)) for k, v in args.items()) + "."
    r.shuffle(tools)
    return Item("tool_nonce", system(r, [user(q), call_message([(f["name"], args)], thought)]), q, {"type": "calls", "calls": [[f["name"], args]]}, tools)


KINDS = [(one_call, 30), (full_round, 22), (two_calls, 14), (decline, 9), (not_needed, 6), (missing, 6), (chain, 8), (nonce_call, 10)]
# Only for evaluation: schemas that are never trained on.
UNSEEN = [lambda r: one_call(r, True), lambda r: one_call(r, True), lambda r: one_call(r, True), lambda r: full_round(r, True), lambda r: two_calls(r, True), lambda r: decline(r, True)]
