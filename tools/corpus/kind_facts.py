# Facts asked in many ways. Held out: for each fact some wordings, by hash; every fact itself is in the training text.
import fact_tables as t
from lib import a, cap, qa

CAPITAL = """What is the capital of $x?|Capital of $x?|Which city is the capital of $x?|Name the capital of $x.|Tell me the capital of $x.|Do you know the capital city of $x?|$x: what is its capital?|
What city is the capital of $x?|The capital of $x is what?|What's the capital of $x?|I forgot the capital of $x. What is it?|Which is the capital city of $x?|Can you name the capital of $x?|Please give me the capital of $x.|
Quiz: the capital of $x?|Where is the government of $x, in which capital?|Say the capital of $x.|For a quiz I need the capital of $x."""
COUNTRY = """Which country has the capital $y?|$y is the capital of which country?|Of which country is $y the capital?|What country is $y the capital of?|Name the country whose capital is $y.|
The capital $y belongs to which country?|$y is a capital. Of what country?|Tell me the country with the capital $y.|Which country is governed from $y?|Do you know which country $y is the capital of?|Capital $y: which country?|
Whose capital is $y?"""
CONTINENT = """On which continent is $x?|Which continent is $x in?|What continent does $x belong to?|$x lies on which continent?|Tell me the continent of $x.|Where in the world is $x, which continent?|Name the continent of $x.|Is $x in Africa, Asia, Europe, America or Oceania?"""
LANGUAGE = """Which language do people speak in $x?|What language is spoken in $x?|What is the main language of $x?|In $x people speak what language?|Name the language of $x.|Tell me the main language in $x.|Which language would I need in $x?"""
OPPOSITE = """What is the opposite of $x?|Opposite of $x?|Name the opposite of $x.|Tell me the opposite of the word $x.|What word means the opposite of $x?|The opposite of $x is what?|Give me the opposite of "$x".|$x: what is the opposite?|
Which word is the opposite of $x?|What's the opposite of $x?|Can you tell me the opposite of $x?|I need a word that is the opposite of $x."""
PLURAL = """What is the plural of $x?|Plural of $x?|One $x, two what?|Tell me the plural of $x.|What do you call more than one $x?|Give the plural form of $x.|How do you write the plural of $x?|The plural of $x is what?|
Which is the plural of the word $x?|Make $x plural.|What's the plural of $x?|I have one $x and you have three. Three what?"""
COLOUR = """What colour is $x?|Which colour does $x have?|What is the colour of $x?|Tell me the colour of $x.|$X is what colour?|Name the colour of $x.|What colour would I paint $x?|Do you know what colour $x is?|Which colour is $x?"""
SOUND = """What sound does $x make?|How does $x sound?|What does $x do when it makes a noise?|Which noise does $x make?|Tell me what sound $x makes."""
YOUNG = """What is a young $x called?|What do you call a baby $x?|What is the name for the young of $x?|The baby of $x is called what?|Name the young of $x.|How do you call a young $x?|What is a baby $x called?"""
LEGS = """How many legs does $x have?|How many legs has $x?|Tell me how many legs $x has.|What number of legs does $x have?|$X has how many legs?|Count the legs of $x."""
HOME = """Where does $x live?|What is the home of $x?|Where would I find $x?|In what place does $x live?|Tell me where $x lives."""
GROUP = """What kind of animal is $x?|Is $x a mammal, a bird, a reptile or something else?|To which group of animals does $x belong?|What group of animals is $x in?"""
UNIT = """How many $x are in $y?|How many $x does $y have?|$Y has how many $x?|Tell me how many $x there are in $y.|What number of $x makes $y?|How many $x make up $y?|How many $x are there in $y?"""
SYMBOL = """What is the chemical symbol of $x?|Which symbol has the element $x?|Symbol of $x?|Tell me the symbol for $x.|How is $x written in chemistry?|What letters stand for $x in chemistry?"""
ELEMENT = """Which element has the symbol $y?|What element is $y?|The symbol $y stands for which element?|Name the element with the symbol $y."""
PAST = """What is the past tense of $x?|Past tense of $x?|Today I $x, yesterday I what?|Tell me the past form of $x.|What is the simple past of "$x"?|Put $x into the past.|How do you say $x in the past?"""
DEFINE = """What is $x?|What does $w mean?|Define $w.|Explain what $x is.|Tell me what $x is.|Can you explain the word $w?|What is meant by $w?|In simple words, what is $x?|Give me a short definition of $w.|How would you explain $x?|Please define $w."""
GUESS = """Which word means: $y?|What do you call $y?|I am thinking of $y. What is it?|Guess the word: $y.|What is the word for $y?"""


def forms(text):
    return [" ".join(x.split()) for x in text.split("|")]


def put(form, **v):
    for k, x in v.items():
        form = form.replace("$" + k, x).replace("$" + k.upper(), cap(x))
    return cap(form)


class Fact:
    def __init__(self, kind, weight, wordings, rows, thought, answers, check):
        self.kind, self.weight, self.wordings, self.rows = kind, weight, forms(wordings), rows
        self.thought, self.answers, self.check = thought, answers, check

    def __call__(self, r):
        v = r.choice(self.rows)
        form = r.choice(self.wordings)
        q = put(form, **v)
        return qa(self.kind, q, put(r.choice(self.answers), **v), put(r.choice(self.thought), **v), q,
                  {"type": "answer", "text": put(self.check, **v) if self.check[0] != "=" else v[self.check[1:]], "not": []})


def xy(rows):
    return [{"x": x, "y": y} for x, y in rows]


capital_rows = [{"x": c, "y": v[0]} for c, v in t.capitals]
animal_rows = [{"x": a(n), "w": n, "s": v[0], "b": a(v[1]), "l": v[2], "h": v[3], "g": a(v[4])} for n, v in t.animals]
KINDS = []


def fact(*args):
    f = Fact(*args)
    KINDS.append((f, f.weight))


fact("capital", 40, CAPITAL, capital_rows, ["$x has the capital $y.", "The capital of $x: $y.", "$x, capital $y."], ["The capital of $x is $y."] * 3 + ["It is $y.", "$y is the capital of $x."], "=y")
fact("country", 20, COUNTRY, [v for v in capital_rows], ["$y is the capital of $x.", "Capital $y: the country is $x."], ["$y is the capital of $x."] * 2 + ["It is $x.", "The country is $x."], "=x")
fact("continent", 8, CONTINENT, [{"x": c, "y": v[1]} for c, v in t.capitals], ["$x is a country in $y.", "$x lies in $y."], ["$x is in $y.", "$x lies in $y."], "=y")
fact("language", 4, LANGUAGE, xy(t.languages), ["In $x people speak $y.", "$x: $y."], ["People in $x speak $y.", "The main language of $x is $y."], "=y")
fact("opposite", 14, OPPOSITE, xy(t.opposites), ["The opposite of $x is $y.", "$x and $y are opposites."], ["The opposite of $x is $y."] * 2 + ["It is $y."], "=y")
fact("plural", 12, PLURAL, xy(t.plurals), ["One $x, two $y.", "$x becomes $y."], ["The plural of $x is $y.", "One $x, two $y."], "=y")
fact("colour", 8, COLOUR, xy(t.colours), ["$x has the colour $y.", "I think of $x: $y."], ["$X is $y.", "The colour of $x is $y."], "=y")
fact("sound", 5, SOUND, [v for v in animal_rows if not v["s"].startswith("is")], ["$x $s.", "The sound: $x $s."], ["$X $s.", "It $s."], "=s")
fact("young", 5, YOUNG, [dict(v, x=v["w"]) for v in animal_rows], ["A young $x is $b.", "The young of $x: $b."], ["A young $x is called $b.", "It is called $b."], "=b")
fact("legs", 5, LEGS, animal_rows, ["$x has $l legs.", "Legs of $x: $l."], ["$X has $l legs.", "It has $l legs."], "=l")
fact("home", 5, HOME, [dict(v, y=a(v["h"]) if v["h"] not in ("ice", "savanna", "ocean", "sea", "desert", "jungle") else ("the " + v["h"])) for v in animal_rows],
     ["$x lives in $y.", "The home of $x is $y."], ["$X lives in $y.", "It lives in $y."], "=h")
fact("group", 4, GROUP, animal_rows, ["$x is $g.", "I think of $x: $g."], ["$X is $g.", "It is $g."], "=g")
fact("unit", 8, UNIT, [{"x": u[0], "y": u[1], "z": u[2]} for u in t.units], ["$y has $z $x.", "$y: $z $x."], ["There are $z $x in $y.", "$Y has $z $x."], "=z")
fact("symbol", 4, SYMBOL, xy(t.elements), ["$x has the symbol $y.", "$x: $y."], ["The symbol of $x is $y.", "It is $y."], "=y")
fact("element", 2, ELEMENT, xy(t.elements), ["$y is $x.", "The symbol $y is $x."], ["$y stands for $x.", "It is $x."], "=x")
fact("past", 6, PAST, xy(t.past), ["$x, in the past $y.", "Today I $x, yesterday I $y."], ["The past tense of $x is $y.", "Yesterday I $y."], "=y")
define_rows = [{"x": x, "w": x.split(" ", 1)[1] if x.split()[0] in ("a", "an", "the") else x, "y": y} for x, y in t.definitions]
fact("define", 22, DEFINE, define_rows, ["$w: $y.", "I explain $w.", "The word is $w. It means $y."], ["$X is $y."], "=y")
fact("guess", 6, GUESS, define_rows, ["$y: that is $x.", "It must be $x."], ["That is $x.", "The word is $w."], "=w")
