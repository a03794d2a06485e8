# What comes next and before, counting with the place to stop written out, number words, dates.
from lib import qa
from words import DAYS, LETTERS, MONTHS, spell_number


def count(r):
    step = r.choice([1] * 12 + [2, 2, 5, 10])
    n = r.randrange(3, 21) if step == 1 else r.randrange(3, 11)
    up = r.random() < 0.5
    low = r.randrange(0, 100 - n) if step == 1 and r.random() < 0.6 else r.randrange(0, 12)
    if step in (5, 10) and r.random() < 0.7:
        low = 0 if r.random() < 0.5 else step
    xs = [low + step * i for i in range(n)]
    if not up:
        xs.reverse()
    first, last = xs[0], xs[-1]
    by = "" if step == 1 else r.choice([" by %d" % step, " in steps of %d" % step, " in %ds" % step])
    forms = ["Count {d}from %d to %d%s.", "Please count {d}from %d to %d%s.", "Can you count {d}from %d to %d%s?", "Count {d}from %d until %d%s.",
             "Write the numbers from %d to %d%s.", "List the numbers from %d {d}to %d%s.", "Count {d}starting at %d and stop at %d%s.", "I want to hear you count {d}from %d to %d%s."]
    way = r.choice(["up ", ""] if up else ["down ", "down ", "backwards ", ""])
    q = r.choice(forms).format(d=way) % (first, last, by)
    lines = ["Start at %d, %s %d each time, stop at %d." % (first, "add" if up else "take away", step, last)]
    lines += ["%d on" % x for x in xs[:-1]] + ["%d stop" % last]
    text = ", ".join(map(str, xs)) + "."
    return qa("count", q, text, "\n".join(lines), "%d,%d,%d" % (first, last, step), {"type": "exact", "text": text})


def number_line(r):
    n = r.randrange(1, 120)
    after = r.random() < 0.5
    return ["%d" % (n - 1), "%d" % n, "%d" % (n + 1)], after, "number"


def ring(names, what):
    def make(r):
        i = r.randrange(len(names))
        return [names[i - 1], names[i], names[(i + 1) % len(names)]], r.random() < 0.5, what
    return make


def alphabet(r):
    i = r.randrange(1, 25)
    return LETTERS[i - 1:i + 2], r.random() < 0.5, "letter"


NEXT_FORMS = ["Which {what} comes after {x}?", "What comes after {x}?", "What {what} follows {x}?", "Tell me the {what} after {x}.", "What is the next {what} after {x}?", "After {x} comes what?",
              "Name the {what} that comes right after {x}.", "{x} is followed by which {what}?"]
PREV_FORMS = ["Which {what} comes before {x}?", "What comes before {x}?", "What {what} is before {x}?", "Tell me the {what} before {x}.", "What is the {what} just before {x}?", "Before {x} comes what?",
              "Name the {what} that comes right before {x}.", "{x} comes after which {what}?"]


def neighbour(r):
    three, after, what = r.choice([number_line, number_line, ring(DAYS, "day"), ring(MONTHS, "month"), alphabet, alphabet])(r)
    before, x, behind = three
    q = r.choice(NEXT_FORMS if after else PREV_FORMS).format(what=what, x=x)
    want = behind if after else before
    thought = r.choice(["The order is %s, %s, %s.", "In order: %s, %s, %s."]) % (before, x, behind) + (" After %s comes %s." % (x, want) if after else " Before %s comes %s." % (x, want))
    text = r.choice(["%s comes %s %s." % (want, "after" if after else "before", x)] * 2 + ["It is %s." % want, "%s %s comes %s." % ("After" if after else "Before", x, want)])
    return qa("next" if after else "prev", q, text, thought, q, {"type": "answer", "text": want, "not": [before if after else behind]})


def two_away(r):
    names, what = r.choice([(DAYS, "day"), (MONTHS, "month")])
    i, n, after = r.randrange(len(names)), r.randrange(2, 4), r.random() < 0.5
    q = r.choice(["Which %s is %d %ss %s %s?", "What %s comes %d %ss %s %s?"]) % (what, n, what, "after" if after else "before", names[i])
    walk = [names[(i + (k if after else -k)) % len(names)] for k in range(n + 1)]
    return qa("steps", q, "%d %ss %s %s is %s." % (n, what, "after" if after else "before", names[i], walk[-1]),
              "Start at %s. " % walk[0] + ", ".join("%d: %s" % (k, w) for k, w in enumerate(walk) if k) + ".", q, {"type": "contains", "text": "is " + walk[-1]})


def place(r):
    names, what, of = r.choice([(DAYS, "day", "week"), (MONTHS, "month", "year"), (LETTERS, "letter", "alphabet")])
    i = r.randrange(min(len(names), 12))
    nth = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
    listed = ", ".join("%d %s" % (k + 1, w) for k, w in enumerate(names[:i + 1]))
    if r.random() < 0.5:
        q = r.choice(["What is the %s %s of the %s?", "Name the %s %s of the %s.", "Which is the %s %s of the %s?"]) % (nth[i], what, of)
        return qa("place", q, "The %s %s of the %s is %s." % (nth[i], what, of, names[i]), listed + ".", q, {"type": "answer", "text": names[i], "not": []})
    q = r.choice(["Which place has %s in the %s?", "What number is %s in the %s?", "Where does %s stand in the %s?"]) % (names[i], of)
    return qa("place", q, "%s is the %s %s of the %s." % (names[i], nth[i], what, of), listed + ".", q, {"type": "contains", "text": nth[i]})


def sequence(r):
    step, start = r.choice([1, 1, 2, 2, 3, 5, 10, -1, -2]), r.randrange(10, 60)
    xs = [start + step * i for i in range(5)]
    q = r.choice(["What comes next: %s?", "Continue: %s, ...", "Which number follows: %s?"]) % ", ".join(map(str, xs[:4]))
    return qa("sequence", q, "The next number is %d." % xs[4], "%d to %d: %s %d. So %d %s %d = %d." % (xs[0], xs[1], "add" if step > 0 else "take away", abs(step), xs[3], "+" if step > 0 else "-", abs(step), xs[4]),
              q, {"type": "number", "value": xs[4]})


def number_word(r):
    n = r.randrange(0, 100) if r.random() < 0.8 else r.randrange(100, 1000)
    w = spell_number(n)
    if r.random() < 0.5:
        q = r.choice(["Write %d in words.", "How do you write %d in words?", "Spell out the number %d.", "%d in words?"]) % n
        return qa("number_word", q, "%d is %s." % (n, w), "%d in words is %s." % (n, w), q, {"type": "contains", "text": w})
    q = r.choice(["Write %s as a number.", "Which number is %s?", "Write %s in digits.", "%s in digits?"]) % w
    return qa("number_word", q[:1].upper() + q[1:], "%s is %d." % (w[:1].upper() + w[1:], n), "%s is %d." % (w[:1].upper() + w[1:], n), q, {"type": "number", "value": n})


LENGTHS = dict(zip(MONTHS, [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]))


def month_days(r):
    m = r.choice(MONTHS)
    q = r.choice(["How many days does %s have?", "How many days are in %s?", "How long is %s?", "Tell me the number of days in %s."]) % m
    extra = " In a leap year it has 29." if m == "February" else ""
    return qa("month_days", q, "%s has %d days.%s" % (m, LENGTHS[m], extra), "%s: %d days." % (m, LENGTHS[m]), q, {"type": "contains", "text": str(LENGTHS[m])})


def list_all(r):
    names, what = r.choice([(DAYS, "days of the week"), (MONTHS, "months of the year"), (LETTERS, "letters of the alphabet")])
    q = r.choice(["Name the %s.", "List the %s.", "Which are the %s?", "Tell me all %s.", "What are the %s?"]) % what
    if r.random() < 0.3:
        q, text = q[:-1] + r.choice([" backwards", " in reverse order"]) + q[-1], ", ".join(reversed(names)) + "."
    else:
        text = ", ".join(names) + "."
    return qa("list_all", q, text, "I list the %s from %s to %s." % (what, text.split(",")[0], text[:-1].split(", ")[-1]), q, {"type": "exact", "text": text})


KINDS = [(count, 40), (neighbour, 40), (two_away, 8), (place, 6), (sequence, 6), (number_word, 8), (month_days, 3), (list_all, 2)]
