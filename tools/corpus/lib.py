# What all generators share: choices written into text, items, and which of them are held out.
import hashlib
import re

HELD_ONE_IN = 12  # of the items of a kind, by hash of their key


class Item:
    """One conversation that ends with an answer of the assistant, and how to tell whether another answer is right.

    messages: as in a chat request; assistant turns carry reasoning_content when there is something to think.
    key: what must not be seen in training when it is held out; a string.
    check: see check.py; None for items that are only trained on.
    """

    def __init__(self, kind, messages, key, check=None, tools=None, never_held=False):
        self.kind = kind
        self.messages = messages
        self.key = key
        self.check = check
        self.tools = tools
        self.never_held = never_held

    def held(self):
        return not self.never_held and is_held(self.kind, self.key)


def is_held(kind, key, one_in=HELD_ONE_IN):
    h = hashlib.blake2b(("%s\0%s" % (kind, key)).encode(), digest_size=8).digest()
    return int.from_bytes(h, "little") % one_in == 0


_choice = re.compile(r"\{([^{}]*)\}")


def pick(r, text):
    """Replaces each {a|b|c} by one of its parts, innermost first."""
    while "{" in text:
        text = _choice.sub(lambda m: r.choice(m.group(1).split("|")), text)
    return text


def cap(s):
    return s[:1].upper() + s[1:]


def a(noun):
    """a or an"""
    return ("an " if noun[:1].lower() in "aeio" or noun[:2].lower() in ("un", "ug", "um", "ur") and noun[:3].lower() != "uni" else "a ") + noun


def user(text):
    return {"role": "user", "content": text}


def answer(text, thought=None):
    m = {"role": "assistant", "content": text}
    if thought:
        m["reasoning_content"] = thought
    return m


def qa(kind, question, text, thought, key, check=None):
    return Item(kind, [user(question), answer(text, thought)], key, check)


def join_and(parts, word="and"):
    parts = list(parts)
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " " + word + " " + parts[-1]


_consonants = "b c d f g h k l m n p r s t v z br dr fl gr kl pl sk st tr".split()
_vowels = "a e i o u".split()


def nonce(r, parts=2):
    """A word that does not exist."""
    w = "".join(r.choice(_consonants) + r.choice(_vowels) for _ in range(parts))
    return w + r.choice(["", "", "n", "x", "l", "m", "r", "t"])
