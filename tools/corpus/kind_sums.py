# Arithmetic with the written method in the think block: column by column, every carry and borrow said aloud.
from lib import is_held, qa

COLUMNS = ["Ones", "Tens", "Hundreds", "Thousands"]


def digits(n, width):
    return [n // 10 ** i % 10 for i in range(width)]


def add_steps(a, b):
    width = max(len(str(a)), len(str(b)))
    lines, carry = ["%d + %d" % (a, b)], 0
    for name, x, y in zip(COLUMNS, digits(a, width), digits(b, width)):
        total = x + y + carry
        sum_text = "%d + %d" % (x, y) + (" + 1" if carry else "")
        carry = total // 10
        lines.append("%s: %s = %d. Write %d%s." % (name, sum_text, total, total % 10, ", carry 1" if carry else ""))
    if carry:
        lines.append("%s: carry 1. Write 1." % COLUMNS[width])
    lines.append("Answer: %d" % (a + b))
    return "\n".join(lines)


def sub_steps(a, b):
    """a - b; when a is smaller, b - a with a minus sign."""
    lines = ["%d - %d" % (a, b)]
    swap = a < b
    if swap:
        lines.append("%d is less than %d, so the answer is minus %d - %d." % (a, b, b, a))
        a, b = b, a
    width, borrow = len(str(a)), 0
    for name, x, y in zip(COLUMNS, digits(a, width), digits(b, width)):
        line = "%s: " % name
        if borrow:
            line += "%d - 1 = %d. " % (x, x - 1) if x else "0 - 1 is too little. "
            x -= 1
        borrow = x < y
        if borrow:
            line += "%s is less than %d, borrow: %d - %d = %d. Write %d, borrow 1." % (x if x >= 0 else "It", y, x + 10, y, x + 10 - y, x + 10 - y)
        else:
            line += "%d - %d = %d. Write %d." % (x, y, x - y, x - y)
        lines.append(line)
    lines.append("Answer: %d" % (b - a if swap else a - b))
    return "\n".join(lines)


def number_check(n):
    return {"type": "number", "value": n}


ADD_FORMS = ["What is %d + %d?", "%d + %d = ?", "How much is %d plus %d?", "Add %d and %d.", "Please work out %d + %d.", "%d plus %d?", "Can you add %d and %d?",
             "What is the sum of %d and %d?", "Compute %d + %d.", "Calculate %d + %d.", "%d + %d", "Tell me what %d plus %d makes."]
SUB_FORMS = ["What is %d - %d?", "%d - %d = ?", "How much is %d minus %d?", "Please work out %d - %d.", "%d minus %d?", "Compute %d - %d.", "Calculate %d - %d.", "%d - %d",
             "Can you tell me %d minus %d?", "What is left of %d minus %d?", "Tell me what %d minus %d is."]


def story_sum(r, a, b, plus):
    import words
    name, he, _, his = words.person(r)
    thing = r.choice(words.FRUIT)
    if plus:
        return r.choice(["%s has %d %s and gets %d more. How many %s does %s have now?" % (name, a, thing, b, thing, he),
                         "There are %d %s in one box and %d in another. How many are there in all?" % (a, thing, b),
                         "%s picks %d %s today and picked %d yesterday. How many is that together?" % (name, a, thing, b)])
    return r.choice(["%s has %d %s and gives %d away. How many %s are left?" % (name, a, thing, b, thing),
                     "There were %d %s in the basket. %s ate %d. How many are left?" % (a, thing, name, b),
                     "%s wants %d %s and has %d. How many are missing?" % (name, a, thing, b)])


def add(r):
    a, b = r.randrange(100), r.randrange(100)
    plain = r.random() < 0.85
    q = r.choice(ADD_FORMS) % (a, b) if plain else story_sum(r, a, b, True)
    text = r.choice(["%d + %d = %d." % (a, b, a + b)] * 3 + ["%d + %d is %d." % (a, b, a + b), "The answer is %d." % (a + b)]) if plain else "There are %d." % (a + b) if q.startswith("There") else "That makes %d." % (a + b)
    return qa("add", q, text, add_steps(a, b), "%d+%d" % (a, b), number_check(a + b))


def sub(r):
    a, b = r.randrange(100), r.randrange(100)
    if a < b and r.random() < 0.85:
        a, b = b, a
    plain = a < b or r.random() < 0.85
    q = r.choice(SUB_FORMS) % (a, b) if plain else story_sum(r, a, b, False)
    text = r.choice(["%d - %d = %d." % (a, b, a - b)] * 3 + ["%d minus %d is %d." % (a, b, a - b), "The answer is %d." % (a - b)]) if plain else "That leaves %d." % (a - b) if "left" in q else "The answer is %d." % (a - b)
    return qa("sub", q, text, sub_steps(a, b), "%d-%d" % (a, b), number_check(a - b))


def add_large(r):
    a, b = r.randrange(100, 1000), r.randrange(10, 1000)
    return qa("add_large", r.choice(ADD_FORMS) % (a, b), "%d + %d = %d." % (a, b, a + b), add_steps(a, b), "%d+%d" % (a, b), number_check(a + b))


def sub_large(r):
    a, b = sorted((r.randrange(10, 1000), r.randrange(10, 1000)), reverse=True)
    return qa("sub_large", r.choice(SUB_FORMS) % (a, b), "%d - %d = %d." % (a, b, a - b), sub_steps(a, b), "%d-%d" % (a, b), number_check(a - b))


def times(r):
    a, b = r.randrange(0, 13), r.randrange(0, 11)
    q = r.choice(["What is %d times %d?", "%d x %d = ?", "How much is %d times %d?", "Multiply %d by %d.", "What is %d * %d?"]) % (a, b)
    steps = "%d times %d.\n" % (a, b) + ("Nothing times a number is 0." if 0 in (a, b) else " + ".join([str(a)] * b) + ":\n" + ", ".join(str(a * i) for i in range(1, b + 1)) + ".")
    return qa("times", q, "%d times %d is %d." % (a, b, a * b), steps + "\nAnswer: %d" % (a * b), q, number_check(a * b))


def bigger(r):
    top = r.choice([20, 100, 100, 1000])
    a, b = r.sample(range(top), 2)
    big = r.random() < 0.5
    want = max(a, b) if big else min(a, b)
    q = r.choice(["Which is {w}, %d or %d?", "Which number is {w}: %d or %d?", "%d or %d: which is {w}?", "Tell me which is {w}, %d or %d."]).format(
        w=r.choice(["bigger", "larger", "greater"]) if big else "smaller") % (a, b)
    if len(str(a)) != len(str(b)):
        thought = "%d has %d digits, %d has %d digits." % (a, len(str(a)), b, len(str(b)))
    else:
        i = next(i for i in range(len(str(a))) if str(a)[i] != str(b)[i])
        thought = " ".join("%s: %s and %s, %s." % (COLUMNS[len(str(a)) - 1 - k], str(a)[k], str(b)[k], "equal" if k < i else "%s is more" % max(str(a)[k], str(b)[k])) for k in range(i + 1))
    thought += " So %d is bigger%s." % (max(a, b), "" if big else " and %d is smaller" % min(a, b))
    word = "bigger" if big else "smaller"
    return qa("bigger", q, "%d is %s." % (want, word), thought, "%d,%d" % tuple(sorted((a, b))), number_check(want))


def largest(r):
    """Largest or smallest of a list, and sorting."""
    top = r.choice([20, 100])
    xs = r.sample(range(top), r.randrange(3, 6))
    listed = ", ".join(map(str, xs))
    mode = r.choice(["largest", "smallest", "sort", "total"])
    if mode == "sort":
        q = r.choice(["Sort these numbers: %s.", "Put these numbers in order, smallest first: %s.", "Arrange from small to large: %s."]) % listed
        left, lines = list(xs), []
        for _ in xs:
            m = min(left)
            left.remove(m)
            lines.append("Smallest is %d. Left: %s." % (m, ", ".join(map(str, left)) if left else "nothing"))
        text = ", ".join(map(str, sorted(xs)))
        return qa("sort", q, text + ".", "\n".join(lines), listed, {"type": "exact", "text": text + "."})
    if mode == "total":
        xs = [x % 30 for x in xs[:3]]
        q = r.choice(["What is %s?", "Add up %s.", "Work out %s."]) % (" + ".join(map(str, xs)) if r.random() < 0.7 else ", ".join(map(str, xs[:-1])) + " and " + str(xs[-1]))
        total, lines = xs[0], []
        if any(is_held("add", "%d+%d" % (sum(xs[:i]), xs[i])) for i in range(1, len(xs))):
            return largest(r)
        for x in xs[1:]:
            lines.append(add_steps(total, x))
            total += x
        return qa("total", q, "The sum is %d." % total, "\n".join(lines), q, number_check(total))
    want = max(xs) if mode == "largest" else min(xs)
    q = r.choice(["Which is the %s of these numbers: %s?", "What is the %s number here: %s?", "Find the %s: %s."]) % (mode, listed)
    best, lines = xs[0], ["Begin with %d." % xs[0]]
    for x in xs[1:]:
        hit = x > best if mode == "largest" else x < best
        lines.append("%d is %s than %d: %s %d." % (x, "more" if x > best else "less", best, "take" if hit else "keep", x if hit else best))
        best = x if hit else best
    return qa("largest", q, "The %s is %d." % (mode, want), " ".join(lines), q, number_check(want))


def half(r):
    n = r.randrange(1, 50)
    if r.random() < 0.5 and not is_held("add", "%d+%d" % (n, n)):
        q = r.choice(["What is double %d?", "Double %d.", "What is twice %d?"]) % n
        return qa("double", q, "Twice %d is %d." % (n, 2 * n), add_steps(n, n), q, number_check(2 * n))
    q = r.choice(["What is half of %d?", "Halve %d.", "How much is half of %d?"]) % (2 * n)
    return qa("half", q, "Half of %d is %d." % (2 * n, n), "%d + %d = %d, so half of %d is %d." % (n, n, 2 * n, 2 * n, n), q, number_check(n))


def even(r):
    n = r.randrange(200)
    last = n % 10
    q = r.choice(["Is %d even or odd?", "Is the number %d odd or even?", "%d: even or odd?"]) % n
    w = "odd" if n % 2 else "even"
    return qa("even", q, "%d is %s." % (n, w), "The last digit is %d. %d is %s, so %d is %s." % (last, last, w, n, w), q, {"type": "contains", "text": "is %s" % w})


KINDS = [(add, 30), (sub, 40), (add_large, 8), (sub_large, 8), (times, 6), (bigger, 8), (largest, 10), (half, 3), (even, 2)]
