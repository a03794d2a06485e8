# Answers in JSON: the keys or a schema in the question, valid JSON in the answer.
import json

import words as w
from lib import Item, answer, cap, is_held, join_and, nonce, user

# key names; type; value; how a text says it of a subject
FIELDS = {
    "person": [("name|person|first_name", "string", lambda r: r.choice(w.GIRLS + w.BOYS), None), ("age|years", "integer", lambda r: r.randrange(3, 95), ["is $v years old", "is $v"]), ("city|home|town", "string", lambda r: r.choice(w.CITIES), ["lives in $v", "comes from $v"]),
               ("job|work|profession", "string", lambda r: r.choice(w.JOBS), ["works as a $v", "is a $v"]), ("hobby|likes", "string", lambda r: r.choice(w.HOBBIES), ["likes $v", "enjoys $v"]), ("married|is_married", "boolean", lambda r: r.random() < 0.5, ["is married|is not married"]),
               ("children|kids", "integer", lambda r: r.randrange(0, 6), ["has $v children"]), ("height|height_cm", "integer", lambda r: r.randrange(90, 205), ["is $v centimetres tall"]), ("pets|animals", "array", lambda r: r.sample(w.ANIMALS, r.randrange(1, 4)), ["has these pets: $v"]),
               ("languages", "array", lambda r: r.sample("English French German Spanish Italian Polish Dutch".split(), r.randrange(1, 4)), ["speaks $v"])],
    "product": [("product|item|name", "string", lambda r: r.choice(w.THINGS), None), ("price|euros|cost", "number", lambda r: r.randrange(1, 400) if r.random() < 0.7 else r.randrange(10, 4000) / 10, ["costs $v euros"]), ("colour|color", "string", lambda r: r.choice(w.COLOURS), ["is $v"]),
                ("quantity|pieces|stock", "integer", lambda r: r.randrange(0, 200), ["is there $v times", "is in stock with $v pieces"]), ("new|is_new", "boolean", lambda r: r.random() < 0.5, ["is new|is not new"]), ("shop|store|seller", "string", lambda r: "%s shop" % r.choice(w.CITIES), ["is sold by the $v"]),
                ("weight|grams", "integer", lambda r: r.randrange(5, 3000), ["weighs $v grams"]), ("tags|words", "array", lambda r: r.sample(w.COMMON, r.randrange(2, 4)), ["has the tags $v"])],
    "animal": [("animal|species|kind", "string", lambda r: r.choice(w.ANIMALS), None), ("name|called", "string", lambda r: r.choice(w.GIRLS + w.BOYS), ["is called $v"]), ("age|years", "integer", lambda r: r.randrange(1, 30), ["is $v years old"]), ("colour|fur", "string", lambda r: r.choice(w.COLOURS), ["is $v"]),
               ("food|eats", "string", lambda r: r.choice(w.FRUIT), ["eats $v"]), ("wild|is_wild", "boolean", lambda r: r.random() < 0.5, ["is wild|is not wild"]), ("place|lives_in", "string", lambda r: r.choice(w.PLACES), ["lives in the $v"])],
    "trip": [("to|destination|city", "string", lambda r: r.choice(w.CITIES), None), ("from|start", "string", lambda r: r.choice(w.CITIES), ["begins in $v"]), ("day|date", "string", lambda r: r.choice(w.DAYS), ["is on $v"]), ("people|travellers", "integer", lambda r: r.randrange(1, 9), ["is for $v people"]),
             ("nights", "integer", lambda r: r.randrange(1, 14), ["takes $v nights"]), ("by_train|train", "boolean", lambda r: r.random() < 0.5, ["goes by train|does not go by train"]), ("stops|via", "array", lambda r: r.sample(w.CITIES, r.randrange(1, 4)), ["has the stops $v"])],
    "book": [("title|book", "string", lambda r: cap("%s %s" % (r.choice(w.COLOURS), r.choice(w.COMMON))), None), ("author|writer", "string", lambda r: r.choice(w.GIRLS + w.BOYS), ["was written by $v"]), ("pages", "integer", lambda r: r.randrange(30, 900), ["has $v pages"]), ("year", "integer", lambda r: r.randrange(1900, 2026), ["is from $v"]),
             ("topic|subject", "string", lambda r: r.choice(w.HOBBIES + w.COMMON), ["is about $v"]), ("stars|rating", "integer", lambda r: r.randrange(1, 6), ["got $v stars"]), ("read|done", "boolean", lambda r: r.random() < 0.5, ["has been read|has not been read"])],
    "event": [("event|name|title", "string", lambda r: "%s evening" % r.choice(w.HOBBIES), None), ("day|weekday", "string", lambda r: r.choice(w.DAYS), ["is on $v"]), ("time|start", "string", lambda r: "%02d:%02d" % (r.randrange(24), r.choice([0, 15, 30, 45])), ["begins at $v"]), ("place|where|room", "string", lambda r: r.choice(w.PLACES), ["is in the $v"]),
              ("guests|people", "integer", lambda r: r.randrange(2, 200), ["has $v guests"]), ("free|no_cost", "boolean", lambda r: r.random() < 0.5, ["is free|is not free"]), ("bring|items", "array", lambda r: r.sample(w.FOOD, r.randrange(1, 4)), ["needs $v"])],
}


def record(r):
    """A description, its value as an object, and the JSON schema."""
    kind = r.choice(sorted(FIELDS))
    head, *rest = FIELDS[kind]
    chosen = [head] + r.sample(rest, r.randrange(1, min(5, len(rest)) + 1))
    obj, said, props, subject = {}, [], {}, None
    for names, type_, make, forms in chosen:
        key = r.choice(names.split("|")) if r.random() < 0.9 else nonce(r)
        if key in obj:
            return record(r)
        v = make(r)
        obj[key] = v
        props[key] = {"type": type_} if type_ != "array" else {"type": "array", "items": {"type": "string"}}
        if forms is None:
            subject = str(v)
        elif type_ == "boolean":
            said.append(forms[0].split("|")[0 if v else 1])
        else:
            said.append(r.choice(forms).replace("$v", join_and(v) if isinstance(v, list) else str(v)))
        if key not in names.split("|"):
            props[key]["description"] = names.split("|")[0].replace("_", " ")
    order = list(said)
    r.shuffle(order)
    subject = subject if kind == "person" else "the %s %s" % ({"product": "", "animal": "", "trip": "trip to", "book": "book", "event": ""}[kind], subject)
    subject = " ".join(subject.split())
    text = cap(subject) + " " + join_and(order) + "." if r.random() < 0.6 or len(order) == 1 else cap(subject) + " " + order[0] + ". It " + join_and(order[1:]) + "." if kind != "person" else cap(subject) + " " + join_and(order) + "."
    schema = {"type": "object", "properties": props, "required": list(props)}
    return text.replace(" a a", " an a").replace(" a e", " an e").replace(" a o", " an o"), obj, schema


def dump(r, v):
    return json.dumps(v, ensure_ascii=False)


def extract(r):
    text, obj, schema = record(r)
    keys = ", ".join("%s (%s)" % (k, "list of strings" if p["type"] == "array" else p["type"]) + (": the %s" % p["description"] if "description" in p else "") for k, p in schema["properties"].items())
    mode = r.random()
    m = []
    if mode < 0.4:
        q = r.choice(["Answer with a JSON object with the keys %s. Text: %s", "Write this as JSON with the keys %s: %s", "Make a JSON object with %s from this text: %s", "Keys: %s. Give me JSON only. %s"]) % (keys, text)
    elif mode < 0.7:
        m.append({"role": "system", "content": r.choice(["Answer with JSON that fits this schema:\n%s", "Reply only in JSON. Schema: %s", "Use this JSON schema for every answer:\n%s"]) % json.dumps(schema)})
        q = text if r.random() < 0.6 else r.choice(["Write this down: %s", "Please convert: %s"]) % text
    else:
        q = r.choice(["Turn this text into JSON that fits the schema %s: %s", "Schema: %s\nText: %s\nAnswer in JSON.", "Fill in this JSON schema: %s\n%s"]) % (json.dumps(schema), text)
    thought = "Keys: " + ", ".join("%s is %s" % (k, json.dumps(v, ensure_ascii=False)) for k, v in obj.items()) + "."
    return Item("json", m + [user(q), answer(dump(r, obj), thought)], q, {"type": "json", "value": obj})


def json_list(r):
    name, values = r.choice([("animals", w.ANIMALS), ("colours", w.COLOURS), ("cities", w.CITIES), ("names", w.GIRLS + w.BOYS), ("fruits", w.FRUIT), ("things", w.THINGS)])
    xs = r.sample(values, r.randrange(2, 6))
    mode = r.choice(["array", "array", "count", "numbers", "objects"])
    if mode == "array":
        q = r.choice(["Write these %s as a JSON array: %s.", "Make a JSON list of these %s: %s.", "JSON array of the %s %s, please."]) % (name, join_and(xs))
        v = xs
    elif mode == "numbers":
        first, n = r.randrange(1, 50), r.randrange(2, 8)
        q = r.choice(["Give me the numbers from %d to %d as a JSON array.", "JSON array with %d to %d."]) % (first, first + n)
        v = list(range(first, first + n + 1))
    elif mode == "count":
        q = r.choice(["Write a JSON object with the keys %s (the list) and count (how many): %s.", "JSON with %s and count, please: %s."]) % (name, join_and(xs))
        v = {name: xs, "count": len(xs)}
    else:
        ys = [r.randrange(1, 60) for _ in xs]
        q = r.choice(["Write a JSON array of objects with name and number: %s.", "JSON list of objects (name, number): %s."]) % join_and("%s %d" % p for p in zip(xs, ys))
        v = [{"name": x, "number": y} for x, y in zip(xs, ys)]
    return Item("json_list", [user(q), answer(dump(r, v), "The JSON value has %d entries." % len(v))], q, {"type": "json", "value": v})


def read_json(r):
    _, obj, _ = record(r)
    k = r.choice(list(obj))
    v = obj[k]
    q = r.choice(["%s\nWhat is the value of %s?", "In this JSON, what is %s? %s", "Read %s and tell me %s."])
    q = q % ((json.dumps(obj), k) if q.startswith(("%s\n", "Read")) else (k, json.dumps(obj)))
    said = v if isinstance(v, str) else join_and(v) if isinstance(v, list) else json.dumps(v)
    return Item("json_read", [user(q), answer("%s is %s." % (k, said), "I look for the key %s." % k)], q, {"type": "contains", "text": said})


def sum_json(r):
    import kind_facts
    import kind_sums
    if r.random() < 0.5:
        a, b = r.randrange(50), r.randrange(50)
        if is_held("add", "%d+%d" % (a, b)):
            return sum_json(r)
        q = r.choice(["What is %d + %d? Answer as JSON with the key result.", "Compute %d + %d and answer in JSON: {\"result\": ...}"]) % (a, b)
        return Item("json_answer", [user(q), answer(json.dumps({"result": a + b}), kind_sums.add_steps(a, b))], q, {"type": "json", "value": {"result": a + b}})
    v = r.choice(kind_facts.capital_rows)
    q = r.choice(["What is the capital of %s? Answer as JSON with the keys country and capital.", "Give me country and capital of %s in JSON."]) % v["x"]
    obj = {"country": v["x"], "capital": v["y"]}
    return Item("json_answer", [user(q), answer(json.dumps(obj), "The capital of %s is %s." % (v["x"], v["y"]))], q, {"type": "json", "value": obj})


KINDS = [(extract, 60), (json_list, 16), (read_json, 12), (sum_json, 12)]
