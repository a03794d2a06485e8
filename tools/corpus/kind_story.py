# Stories from plots, names and things: told as texts, asked for in chat, and asked about.
import story_tables as t
import words as w
from lib import Item, a, answer, cap, join_and, pick, qa, user

PLOTS = {}
for block in t.PLOTS.strip().split("\n\n"):
    name, *lines = block.split("\n")
    PLOTS[name] = ([x for x in lines if not x.startswith("Q:")], [tuple(x[2:].split("|")) for x in lines if x.startswith("Q:")])
OPENINGS = t.OPENINGS.strip().split("\n")
ENDINGS = t.ENDINGS.split("\n")


def cast(r, hero=None, kind=None):
    """Names and words of one story."""
    h, he, him, his = w.person(r)
    if hero:
        h, (he, him, his) = hero, (("she", "her", "her") if hero in w.GIRLS else ("he", "him", "his"))
    f = r.choice([x for x in w.GIRLS + w.BOYS if x != h])
    f2 = r.choice([x for x in w.GIRLS + w.BOYS if x not in (h, f)])
    animal = kind or (r.choice(w.ANIMALS) if r.random() < 0.35 else None)
    what = a(r.choice(["little ", "young ", "clever ", "brave ", "curious ", ""]) + animal) if animal else r.choice(["a girl", "a little girl", "a young woman"] if he == "she" else ["a boy", "a little boy", "a young man"])
    colour = r.choice(w.COLOURS)
    return {"h": h, "he": he, "him": him, "his": his, "He": cap(he), "Him": cap(him), "His": cap(his), "f": f, "f2": f2, "kind": what, "himself": "herself" if he == "she" else "himself",
            "g": r.choice(t.GROWNUPS), "home": r.choice(t.HOMES).replace("$colour", colour), "place": r.choice(w.PLACES), "weather": r.choice(["sunny", "windy", "rainy", "cold", "warm", "foggy", "clear", "grey"]),
            "hobby": r.choice(w.HOBBIES), "hobby2": r.choice(w.HOBBIES), "colour": colour}


def things(r):
    """What changes from plot to plot within a story."""
    return {"thing": r.choice(w.THINGS), "dish": r.choice("cake pie soup bread pizza stew pudding omelette salad".split()), "fruit": r.choice(w.FRUIT), "animal": r.choice("dog kitten bird lamb duck fox hedgehog rabbit deer squirrel".split()),
            "water": r.choice(["lake", "river", "sea", "pond"]), "t": r.choice(t.BETWEEN)}


def tell(r, line, v):
    line = pick(r, line)
    for k in sorted(v, key=len, reverse=True):
        line = line.replace("$" + k, v[k])
    line = line.replace(" a a", " an a").replace(" a e", " an e").replace(" a o", " an o").replace(" a i", " an i").replace(" a u", " an u") if " a " in line else line
    return cap(line) if line[0] != '"' else line[0] + cap(line[1:])


def sentences(line):
    """The parts of a line between the bars that stand outside of braces."""
    out, depth, cur = [], 0, ""
    for c in line:
        depth += (c == "{") - (c == "}")
        if c == "|" and depth == 0:
            out.append(cur)
            cur = ""
        else:
            cur += c
    out.append(cur)
    return out


def episode(r, name, v):
    lines, questions = PLOTS[name]
    v = dict(v, **things(r))
    out = []
    for x in lines:
        if x.startswith("?"):
            if r.random() < 0.5:
                continue
            x = x[1:]
        out.append(tell(r, x, v))
    return out, [(tell(r, q, v), tell(r, x, v)) for q, x in questions]


def story(r, n=1, v=None):
    """Paragraphs, questions, the cast."""
    v = v or cast(r)
    paragraphs, questions = [], []
    first = [tell(r, x, v) for x in sentences(r.choice(OPENINGS))]
    names = r.sample(sorted(PLOTS), n)
    for i, name in enumerate(names):
        lines, qs = episode(r, name, v)
        if i:
            between = tell(r, r.choice(t.BETWEEN_LINES), dict(v, **things(r)))
            lines = [between] + lines
        else:
            lines = first + lines if r.random() < 0.7 else first + [""] + lines
        paragraphs.append(lines)
        questions += qs
    if r.random() < 0.7:
        paragraphs[-1].append(tell(r, r.choice(ENDINGS), v))
    text = []
    for lines in paragraphs:
        cut = r.randrange(4, 8)
        p, k = [], 0
        for x in lines:
            if x == "" or (k >= cut and len(lines) - k > 2 and r.random() < 0.25):
                text.append(" ".join(p))
                p = []
            if x:
                p.append(x)
                k += 1
        if p:
            text.append(" ".join(p))
    return "\n\n".join(x for x in text if x), questions, v, names


def plain(r):
    n = r.choice([1] * 10 + [2] * 5 + [3] * 3 + [4] * 2 + [6, 8])
    text, _, v, names = story(r, n)
    if r.random() < 0.2:
        text = cap(r.choice(["The story of %s", "%s", "%s and the %s" % ("%s", v["place"]), "A day with %s", "How %s learned something"]) % v["h"]) + "\n\n" + text
    return Item("story", text, v["h"] + v["f"] + v["place"] + names[0])


ASK = ["Tell me a story about $k.", "Write a story about $k.", "Can you tell me a story about $k?", "I would like to hear a story about $k.", "A story about $k, please.", "Please tell a story about $k.", "Make up a story about $k."]


def asked(r):
    v = cast(r)
    long = r.random() < 0.3
    n = r.choice([3, 4, 5, 6, 7]) if long else r.choice([1, 1, 1, 2])
    x = r.random()
    about = v["kind"] + " named " + v["h"] if x < 0.4 else v["h"] if x < 0.6 else "%s and %s" % (v["h"], v["f"]) if x < 0.8 else v["h"] + " in the " + v["place"]
    q = r.choice(ASK).replace("$k", about)
    if long:
        q = q.replace("a story", "a long story").replace("A story", "A long story")
    elif r.random() < 0.15:
        q, n = q.replace("a story", "a short story").replace("A story", "A short story"), 1
    text, _, _, names = story(r, n, v)
    while " in the " in about and v["place"] not in text:
        text, _, _, names = story(r, n, v)
    thought = "A story about %s. The friend is %s%s, the place is the %s." % (v["h"], v["f"], "" if n == 1 else ", there are %s adventures" % w.spell_number(n), v["place"])
    must = [v["h"]] + ([v["f"]] if "and " + v["f"] in about else []) + ([v["place"]] if " in the " in about else [])
    return Item("story_long" if n > 2 else "story_asked", [user(q), answer(text, thought)], v["h"] + v["kind"], {"type": "story", "names": must, "min_words": 220 if n > 2 else 60})


def read(r):
    """A story in the question, and what happened in it."""
    text, questions, v, _ = story(r, r.choice([1, 1, 1, 2]))
    questions = questions + [("What is the friend of %s called?" % v["h"], "The friend is called %s." % v["f"])]
    q, x = r.choice(questions)
    form = r.choice(["%s\n\n%s", "Read this: %s\n\n%s", "Here is a story. %s\n\nQuestion: %s"])
    return Item("read", [user(form % (text, q)), answer(x, "In the story: %s" % x)], q + v["h"] + v["f"] + v["place"], {"type": "exact", "text": x})


def go_on(r):
    """Continues a story that the user began."""
    text, _, v, names = story(r, 1)
    parts = text.replace("\n\n", " ").split(". ")
    k = r.randrange(2, max(3, len(parts) // 2))
    first, rest = ". ".join(parts[:k]) + ".", ". ".join(parts[k:])
    q = r.choice(["Continue this story: %s", "How does it go on? %s", "Go on: %s", "Finish the story. %s"]) % first
    return Item("story_go_on", [user(q), answer(rest, "The story is about %s. I go on." % v["h"])], v["h"] + v["f"] + v["place"], {"type": "story", "names": [v["h"]], "min_words": 30})


# ---- letters, diaries, talks ----------------------------------------------------------------------------------------------
def letter(r):
    v = dict(cast(r), **things(r))
    name = r.choice(sorted(PLOTS))
    lines, _ = episode(r, name, v)
    body = ["Dear %s," % v["g"].replace("the ", ""), tell(r, "{I hope you are well|How are you|Thank you for your last letter}. {Here it is $weather|We have $weather weather|I have much to tell}.", v), " ".join(lines[:r.randrange(5, len(lines))]),
            tell(r, "{I hope to see you soon|Please write back|Come and visit us}. {We all miss you|Give my love to everybody}.", v), tell(r, "{Yours|Best wishes|With love},", v) + "\n" + v["f2"]]
    return Item("letter", "\n\n".join(body), v["h"] + v["f"] + v["place"] + v["f2"])


def talk(r):
    """A conversation in a story, line by line."""
    v = dict(cast(r), **things(r))
    x, y = v["h"], v["f"]
    swap = [("Where are you going?", "To the %s. Do you want to come?" % v["place"]), ("What is that in your hand?", "A %s %s. I found it near the %s." % (v["colour"], v["thing"], v["place"])), ("Are you hungry?", "Yes. Is there any %s left?" % v["dish"]),
            ("Did you see %s today?" % v["f2"], "Yes, %s was at the %s." % (v["f2"], v["place"])), ("What shall we do now?", "Let us try %s." % v["hobby"]), ("It looks like rain.", "Then we should go home soon."), ("I forgot my %s." % v["thing"], "You can have mine."),
            ("Can you help me?", "Of course. What is it?"), ("I am tired.", "Let us sit down for a while."), ("Do you remember last summer?", "Yes, we went to the %s every day." % r.choice(w.PLACES)), ("Who gave you the %s?" % v["thing"], "%s did." % cap(v["g"]))]
    r.shuffle(swap)
    out = [tell(r, "$h and $f met {at|near} the $place on a $weather {day|morning}.", v)]
    for p, q in swap[:r.randrange(2, 6)]:
        out.append('"%s" %s %s.' % (p[:-1] + ("," if p[-1] == "." else "?"), "asked" if p[-1] == "?" else "said", x))
        out.append('"%s" %s %s.' % (q[:-1] + ("," if q[-1] == "." else "?"), "asked" if q[-1] == "?" else "answered", y))
        x, y = (x, y) if r.random() < 0.6 else (y, x)
    out.append(tell(r, r.choice(ENDINGS), v))
    return Item("talk_text", "\n".join(out), v["h"] + v["f"] + v["place"])


TEXTS = [(plain, 80), (letter, 10), (talk, 10)]
KINDS = [(asked, 45), (read, 40), (go_on, 15)]
