# Tasks on the words of the question itself: repeat, spell, count, sort, change, find.
import words as w
from lib import Item, answer, cap, join_and, nonce, pick, qa, user


def sentence(r, n=None):
    n = n or r.choice([1, 1, 2, 3, 4, 5, 6, 8])
    if n == 1:
        return r.choice(w.COMMON + w.THINGS + w.ANIMALS)
    if r.random() < 0.5:
        return " ".join(r.choice(w.COMMON + w.THINGS + w.ANIMALS + w.COLOURS) for _ in range(n))
    x = pick(r, "The %s %s {is|was|looks|sees|finds|loves} {in|near|behind|under|at} the %s" % (r.choice(w.COLOURS), r.choice(w.ANIMALS), r.choice(w.PLACES)))
    return x if r.random() < 0.7 else x.replace("The ", r.choice(w.GIRLS + w.BOYS) + " and the ")


def repeat(r):
    x = sentence(r)
    if r.random() < 0.1:
        x = " ".join(nonce(r) for _ in range(r.randrange(1, 5)))
    q = r.choice(["Repeat after me: %s", "Say this again: %s", "Repeat: %s", "Please repeat these words: %s", 'Say "%s".', "Copy this: %s", "Write the same: %s", "Echo: %s"]) % x
    return qa("repeat", q, x, "I repeat the words.", q, {"type": "exact", "text": x})


def repeat_times(r):
    x, n = r.choice(w.COMMON + w.ANIMALS), r.randrange(2, 7)
    q = r.choice(['Say "%s" %s times.', "Write the word %s %s times.", "Repeat %s %s times."]) % (x, w.spell_number(n))
    return qa("repeat_times", q, ", ".join([x] * n) + ".", " ".join("%d: %s." % (i + 1, x) for i in range(n)), q, {"type": "exact", "text": ", ".join([x] * n) + "."})


def letters_of(x):
    return "-".join(x.upper())


def spell(r):
    x = r.choice(w.COMMON + w.ANIMALS + w.THINGS)
    mode = r.choice(["spell", "spell", "count", "first", "last", "reverse"])
    said = letters_of(x)
    if mode == "spell":
        q = r.choice(["Spell the word %s.", "How do you spell %s?", "Spell %s.", "Which letters are in %s?"]) % x
        return qa("spell", q, said + ".", "%s letter by letter." % cap(x), q, {"type": "exact", "text": said + "."})
    if mode == "count":
        q = r.choice(["How many letters does %s have?", "How many letters are in the word %s?", "Count the letters of %s."]) % x
        return qa("letters", q, "The word %s has %d letters." % (x, len(x)), " ".join("%d %s" % (i + 1, c.upper()) for i, c in enumerate(x)) + ".", q, {"type": "number", "value": len(x)})
    if mode == "reverse":
        x = x if len(x) <= 5 else x[:4]
        q = r.choice(["Spell %s backwards.", "Write %s from back to front.", "Reverse the word %s."]) % x
        return qa("reverse", q, letters_of(x[::-1]) + ".", letters_of(x) + ". Backwards: " + letters_of(x[::-1]) + ".", q, {"type": "exact", "text": letters_of(x[::-1]) + "."})
    c = (x[0] if mode == "first" else x[-1]).upper()
    q = r.choice(["What is the %s letter of %s?", "Which is the %s letter of the word %s?", "Tell me the %s letter in %s."]) % (mode, x)
    return qa("letter", q, "The %s letter of %s is %s." % (mode, x, c), said + ".", q, {"type": "contains", "text": "is " + c})


def word_list(r):
    xs = r.sample(w.COMMON + w.ANIMALS + w.THINGS, r.randrange(3, 6))
    listed = ", ".join(xs)
    mode = r.choice(["count", "first", "last", "second", "third", "sort", "reverse", "has", "longest"])
    if mode == "count":
        q = r.choice(["How many words are in this list: %s?", "Count these words: %s.", "How many things are these: %s?"]) % listed
        return qa("count_words", q, "There are %d." % len(xs), ", ".join("%d %s" % (i + 1, x) for i, x in enumerate(xs)) + ".", q, {"type": "number", "value": len(xs)})
    if mode in ("first", "last", "second", "third"):
        i = {"first": 0, "last": len(xs) - 1, "second": 1, "third": 2}[mode]
        q = r.choice(["Which word is the %s: %s?", "What is the %s word of this list: %s?", "Tell me the %s of these words: %s."]) % (mode, listed)
        return qa("pick_word", q, "The %s word is %s." % (mode, xs[i]), ", ".join("%d %s" % (k + 1, x) for k, x in enumerate(xs)) + ".", q, {"type": "contains", "text": xs[i]})
    if mode == "sort":
        q = r.choice(["Sort these words by the alphabet: %s.", "Put these words in alphabetical order: %s.", "Sort from A to Z: %s."]) % listed
        ys = sorted(xs)
        return qa("sort_words", q, ", ".join(ys) + ".", "First letters: " + ", ".join("%s %s" % (x[0].upper(), x) for x in ys) + ".", q, {"type": "exact", "text": ", ".join(ys) + "."})
    if mode == "reverse":
        q = r.choice(["Say this list backwards: %s.", "Reverse the list: %s.", "Turn this list around: %s."]) % listed
        return qa("reverse_list", q, ", ".join(reversed(xs)) + ".", "The last is %s, the first is %s." % (xs[-1], xs[0]), q, {"type": "exact", "text": ", ".join(reversed(xs)) + "."})
    if mode == "longest":
        best = max(xs, key=len)
        if sum(len(x) == len(best) for x in xs) > 1:
            return word_list(r)
        q = r.choice(["Which word is the longest: %s?", "Find the longest word: %s."]) % listed
        return qa("longest", q, "The longest word is %s." % best, ", ".join("%s %d" % (x, len(x)) for x in xs) + ".", q, {"type": "contains", "text": best})
    yes = r.random() < 0.5
    x = r.choice(xs) if yes else r.choice([y for y in w.COMMON if y not in xs])
    q = r.choice(["Is %s in this list: %s?", "Does %s appear here: %s?", "Look for %s: %s. Is it there?"]) % (x, listed)
    return qa("in_list", q, "Yes, %s is in the list." % x if yes else "No, %s is not in the list." % x, cap(listed) + ". %s is %sthere." % (cap(x), "" if yes else "not "), q, {"type": "starts", "text": "Yes" if yes else "No"})


def change(r):
    x = sentence(r, r.choice([2, 3, 4, 5, 6]))
    mode = r.choice(["upper", "lower", "replace", "question", "quote"])
    if mode == "upper":
        q = r.choice(["Write in capital letters: %s", "Make this upper case: %s", "Capital letters, please: %s"]) % x
        return qa("upper", q, x.upper(), "The same words in capital letters.", q, {"type": "exact", "text": x.upper()})
    if mode == "lower":
        q = r.choice(["Write in small letters: %s", "Make this lower case: %s"]) % x.upper()
        return qa("lower", q, x.lower(), "The same words in small letters.", q, {"type": "exact", "text": x.lower()})
    if mode == "replace":
        parts = x.split(" ")
        old, new = r.choice(parts), r.choice(w.COMMON)
        y = " ".join(new if p == old else p for p in parts)
        q = r.choice(["Replace %s by %s: %s", "Put %s out and %s in: %s", "Change the word %s into %s: %s"]) % (old, new, x)
        return qa("replace", q, y, "%s becomes %s." % (cap(old), new), q, {"type": "exact", "text": y})
    if mode == "quote":
        q = r.choice(["Put this in quotation marks: %s", "Write with quotation marks: %s"]) % x
        return qa("quote", q, '"%s"' % x, "Quotation marks around the words.", q, {"type": "exact", "text": '"%s"' % x})
    n = len(x.split(" "))
    q = r.choice(["How many words are in: %s", "Count the words: %s"]) % x
    return qa("count_words", q, "There are %d." % n, ", ".join("%d %s" % (i + 1, p) for i, p in enumerate(x.split(" "))) + ".", q, {"type": "number", "value": n})


def lookup(r):
    """A small table in the question."""
    names = r.sample(w.GIRLS + w.BOYS, r.randrange(2, 6))
    what, values = r.choice([("lives in", r.sample(w.CITIES, len(names))), ("likes", r.sample(w.FOOD, len(names))), ("has a", r.sample(w.ANIMALS, len(names))), ("is", [str(x) for x in r.sample(range(5, 90), len(names))]),
                             ("carries the", r.sample(w.THINGS, len(names))), ("works as a", r.sample(w.JOBS, len(names)))])
    facts = ["%s %s %s%s" % (n, what, v, " years old" if what == "is" else "") for n, v in zip(names, values)]
    i = r.randrange(len(names))
    base = ". ".join(facts) + ". "
    if r.random() < 0.5:
        q = base + {"lives in": "Where does %s live?", "likes": "What does %s like?", "has a": "Which animal does %s have?", "is": "How old is %s?", "carries the": "What does %s carry?", "works as a": "What does %s work as?"}[what] % names[i]
        return qa("lookup", q, facts[i] + ".", "It says: %s." % facts[i], q, {"type": "contains", "text": values[i]})
    q = base + {"lives in": "Who lives in %s?", "likes": "Who likes %s?", "has a": "Who has a %s?", "is": "Who is %s years old?", "carries the": "Who carries the %s?", "works as a": "Who works as a %s?"}[what] % values[i]
    return qa("lookup", q, "%s %s." % (names[i], facts[i][len(names[i]) + 1:]), "It says: %s." % facts[i], q, {"type": "contains", "text": names[i]})


def follow(r):
    """A rule from a system message or the turn before."""
    x = r.choice(w.COMMON + w.ANIMALS)
    rules = [("Always answer with one word.", "Yes", None), ("End every answer with the word %s." % x, None, x), ("Begin every answer with the word %s." % x, x, None), ("Call the user %s." % r.choice(w.GIRLS + w.BOYS), None, None)]
    i = r.randrange(1, 4)
    rule = rules[i][0]
    import kind_talk
    base = kind_talk.filler(r)
    text = base[1]["content"]
    if "\n" in text:
        return follow(r)
    if i == 1:
        text = text.rstrip(".!") + ", %s." % x
        check = {"type": "contains", "text": x}
    elif i == 2:
        text = cap(x) + ": " + text
        check = {"type": "starts", "text": cap(x)}
    else:
        name = rule.split(" ")[-1].rstrip(".")
        text = name + ", " + (text[0].lower() + text[1:] if text.split(" ")[0] in ("The", "It", "That", "You", "There") else text)
        check = {"type": "contains", "text": name}
    return Item("follow", [{"role": "system", "content": rule}, base[0], answer(text, "The rule: %s" % rule)], rule + base[0]["content"], check)


KINDS = [(repeat, 24), (repeat_times, 5), (spell, 14), (word_list, 16), (change, 12), (lookup, 18), (follow, 6)]
