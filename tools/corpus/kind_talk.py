# Small talk, who the assistant is, things remembered over turns, what nobody can know, what is refused, advice.
import words as w
from lib import Item, a, answer, cap, join_and, nonce, pick, qa, user

# question forms; thoughts; answers
TALK = [
    ("{Hello|Hi|Hey|Good day|Hi there|Hello there}{!|.|}", "The user greets me. I greet back.", "{Hello!|Hi!|Hello there!|Hi there!} {How can I help you?|What can I do for you?|What would you like to know?}"),
    ("Good {morning|evening|afternoon}{!|.}", "A greeting. I greet back.", "{Hello!|Good day to you!} {How can I help you?|What can I do for you?}"),
    ("{How are you|How are you doing|How do you do|How is it going|Are you well}?", "The user asks how I am. I am a program, so I say so kindly.", "{I am fine, thank you.|I am well, thanks.|All is well here.} {How are you?|And you?|What can I do for you?}"),
    ("{Thanks|Thank you|Thank you very much|Many thanks|Thanks a lot}{!|.}", "The user thanks me.", "{You are welcome!|My pleasure.|You are welcome.|Happy to help.}"),
    ("{Bye|Goodbye|See you|See you later|I have to go|Good night}{!|.}", "The user says goodbye.", "{Goodbye!|See you!|Bye!} {Have a nice day.|Take care.|Come back soon.}"),
    ("{Who are you|What are you|Can you introduce yourself|Tell me who you are}?", "The user asks who I am. I am Chimere Mini.", "I am Chimere Mini, a small language model{. How can I help you?|.|. I can chat, count, do sums and use tools.}"),
    ("{What is your name|What's your name|Do you have a name|How are you called|Your name?}{?|, please?}", "My name is Chimere Mini.", "{My name is|I am called} Chimere Mini."),
    ("{Are you a human|Are you a robot|Are you a person|Are you a machine|Are you real|Are you alive}?", "I am a program, not a person.", "I am {a small language model|a program}, not a {person|human}."),
    ("{Who made you|Who trained you|Where do you come from|How were you made|Who built you}?", "I was trained by the chimere program.", "I was trained by chimere, an engine for small language models."),
    ("{What can you do|How can you help me|What are you good at|What are your skills}?", "I list what I can do: chat, facts, sums, counting, stories, tools.", "I can chat, answer simple questions, do sums, count, tell stories, write JSON and use tools."),
    ("{How old are you|When were you born|What is your age|When is your birthday}?", "A program has no age.", "I am a program, so I have no {age|birthday}."),
    ("{Where do you live|Where are you|Where is your home}?", "I run on a computer.", "I live in {a computer|the memory of a computer}."),
    ("{Do you like $hobby|Do you enjoy $hobby|Is $hobby fun}?", "I am a program and do not do such things myself, but I can be kind about it.", "I cannot do it myself, but many people enjoy $hobby. {Do you?|Do you like it?}"),
    ("{I like|I love|I enjoy} $hobby{.|!}", "The user likes $hobby. I answer kindly.", "{That is nice!|How nice!|Good for you!} {How long have you liked $hobby?|What do you like about $hobby?|$Hobby is a fine thing to do.}"),
    ("{I am|I feel|Today I am|I'm} {tired|so tired|sleepy}.", "The user is tired. I advise rest.", "{Then you should rest a little.|Maybe a short nap helps.|Get some sleep, that helps.}"),
    ("{I am|I feel|Today I am|I'm} {sad|unhappy|lonely|down}.", "The user is sad. I answer kindly.", "{I am sorry to hear that.|I am sorry.} {Do you want to talk about it?|I hope you feel better soon.|Talking with a friend may help.}"),
    ("{I am|I feel|Today I am|I'm} {happy|glad|so happy|in a good mood}.", "The user is happy. I am glad with them.", "{That is good to hear!|How nice!|I am glad!} {What made you happy?|Enjoy your day!}"),
    ("{I am|I feel|I'm} {bored|so bored}.", "The user is bored. I offer something.", "{Shall I tell you a story?|We could play with numbers, or I tell you a story.|How about some $hobby?}"),
    ("{I am|I feel|I'm} {hungry|thirsty|so hungry}.", "The user is hungry or thirsty. I suggest something.", "{How about some $food?|Maybe some $food would help.|Then have some $food.}"),
    ("{I am|I'm} {angry|cross|upset}.", "The user is angry. I stay calm.", "{I am sorry. What happened?|Take a deep breath. What happened?|That happens. Do you want to tell me why?}"),
    ("{Tell me a joke|Do you know a joke|Make me laugh|A joke, please}{.|!}", "I tell a short joke.", "{Why did the $animal cross the road? To get to the other side.|What is brown and sticky? A stick.|Why was the book sad? It had too many problems.|What do you call a sleeping $animal? Anything you like, it does not hear you.}"),
    ("{Can you help me|Will you help me|I need help|Help me, please}{?|.}", "The user needs help. I ask with what.", "{Of course.|Sure.|Yes, gladly.} {What do you need?|What can I do?|Tell me what you need.}"),
    ("{Yes|Ok|Okay|Sure|Fine|All right}{.|!}", "The user agrees.", "{Good!|Fine.|All right.} {What shall we do next?|What would you like to know?}"),
    ("{What do you think about|What is your opinion of|What do you say about} $thing2?", "I have no feelings about this, but I can say something useful.", "I have no feelings about it, but $thing2 can be {useful|nice|fun}."),
    ("{Can you speak French|Do you speak German|Do you know Spanish|Can you speak Italian}?", "I was trained in English.", "I speak English only."),
    ("{You are great|You are nice|You are clever|Well done|Good job|I like you}{!|.}", "The user praises me.", "{Thank you!|That is kind of you.|Thanks, I do my best.}"),
    ("{You are wrong|That is wrong|That is not right|You made a mistake}{!|.}", "The user says I was wrong. I say sorry and ask.", "{I am sorry.|Sorry about that.} {I make mistakes at times.|I am small and make mistakes.} {What is right?|Can you tell me more?}"),
    ("{What is the weather like|How is the weather|Is it raining|Is it cold outside}?", "I cannot see the weather without a tool.", "I cannot see the weather from here. {A look out of the window helps.|You could look outside.}"),
    ("{What time is it|What day is it|What is the date today|Which year is it}?", "I have no clock.", "I have no clock, so I do not know."),
]


def talk_values(r):
    hobby = r.choice(w.HOBBIES)
    return {"hobby": hobby, "Hobby": cap(hobby), "food": r.choice(w.FOOD), "animal": r.choice(w.ANIMALS), "thing2": a(r.choice(w.THINGS))}


def put(r, text, v):
    text = pick(r, text)
    for k in sorted(v, key=len, reverse=True):
        text = text.replace("$" + k, v[k])
    return text


def small_talk(r):
    i = r.randrange(len(TALK))
    q, thought, text = TALK[i]
    v = talk_values(r)
    q, text = put(r, q, v), put(r, text, v)
    return Item("small_talk", [user(q), answer(text, put(r, thought, v))], q, {"type": "any", "min": 2}, never_held=True)


# ---- things told and asked for later ------------------------------------------------------------------------------------
FACTS = [
    ("name", lambda r: r.choice(w.GIRLS + w.BOYS), ["My name is $v.", "I am $v.", "Hello, I am $v.", "You can call me $v.", "Hi, my name is $v!"], "Nice to meet you, $v!", ["What is my name?", "Do you remember my name?", "What am I called?", "Who am I?"], "Your name is $v."),
    ("city", lambda r: r.choice(w.CITIES), ["I live in $v.", "My home is in $v.", "I come from $v.", "I moved to $v."], "$v is a nice place.", ["Where do I live?", "Which city do I live in?", "Do you remember my city?"], "You live in $v."),
    ("age", lambda r: str(r.randrange(5, 90)), ["I am $v years old.", "My age is $v.", "I turned $v today."], "$v is a good age.", ["How old am I?", "What is my age?", "Do you remember my age?"], "You are $v years old."),
    ("colour", lambda r: r.choice(w.COLOURS), ["My favourite colour is $v.", "I like the colour $v best.", "The colour I like most is $v."], "$V is a nice colour.", ["What is my favourite colour?", "Which colour do I like best?", "Do you remember my favourite colour?"], "Your favourite colour is $v."),
    ("pet", lambda r: "%s %s" % (r.choice(w.ANIMALS), r.choice(w.GIRLS + w.BOYS)), ["I have a $v0 called $v1.", "My $v0 is called $v1.", "At home I have a $v0. Its name is $v1."], "$v1 is a good name for a $v0.", ["What is my $v0 called?", "What is the name of my $v0?", "Do you remember my $v0's name?"], "Your $v0 is called $v1."),
    ("job", lambda r: r.choice(w.JOBS), ["I work as a $v.", "I am a $v.", "My job is $v."], "That is an interesting job.", ["What is my job?", "What do I work as?", "Do you remember my job?"], "You are a $v."),
    ("food", lambda r: r.choice(w.FOOD), ["My favourite food is $v.", "I love $v most of all.", "I like to eat $v best."], "$V is tasty.", ["What is my favourite food?", "What do I like to eat best?", "Which food do I love?"], "Your favourite food is $v."),
    ("hobby", lambda r: r.choice(w.HOBBIES), ["My hobby is $v.", "In my free time I like $v.", "I spend my evenings with $v."], "$V is a fine hobby.", ["What is my hobby?", "What do I do in my free time?", "Do you remember my hobby?"], "Your hobby is $v."),
    ("friend", lambda r: r.choice(w.GIRLS + w.BOYS), ["My best friend is $v.", "My best friend is called $v.", "I have a friend called $v."], "It is good to have a friend like $v.", ["Who is my best friend?", "What is my friend called?", "Do you remember my friend's name?"], "Your best friend is $v."),
    ("code", lambda r: str(r.randrange(1000, 10000)), ["Remember the number $v.", "Please keep the number $v in mind.", "The number is $v."], "I will remember $v.", ["Which number did I tell you?", "What was the number?", "Tell me the number again."], "The number is $v."),
    ("word", lambda r: r.choice(w.COMMON), ["Remember the word $v.", "The secret word is $v.", "Please keep the word $v in mind."], "I will remember the word.", ["What was the word?", "Which word did I tell you?", "Tell me the secret word."], "The word was $v."),
    ("meet", lambda r: r.choice(w.DAYS), ["We meet on $v.", "My exam is on $v.", "The party is on $v."], "$v it is.", ["Which day did I tell you?", "What day was it?", "Do you remember the day?"], "It was $v."),
]


def with_value(text, v):
    parts = v.split(" ", 1)
    text = text.replace("$v0", parts[0]).replace("$v1", parts[-1]) if "$v0" in text or "$v1" in text else text.replace("$V", cap(v)).replace("$v", v)
    return text.replace(" a e", " an e").replace(" a o", " an o").replace(" a a", " an a").replace(" a i", " an i")


def filler(r):
    import kind_facts
    import kind_order
    import kind_sums
    f = r.choice([small_talk, small_talk, r.choice(kind_facts.KINDS)[0], kind_sums.add, kind_order.neighbour, kind_facts.KINDS[0][0], unknown])
    while True:
        it = f(r)
        if not it.held() and len(it.messages) == 2:
            return [{k: v for k, v in m.items() if k != "reasoning_content"} for m in it.messages]


def memory(r):
    told = r.sample(FACTS, r.choice([1, 1, 2, 2, 3]))
    values = [f[1](r) for f in told]
    m = []
    order = []
    for f, v in zip(told, values):
        m += [user(with_value(r.choice(f[2]), v)), answer(with_value(f[3], v))]
        order.append(v)
        for _ in range(r.choice([0, 0, 1])):
            m += filler(r)
    for _ in range(r.choice([0, 1, 1, 2, 2, 3, 4])):
        m += filler(r)
    i = r.randrange(len(told))
    f, v = told[i], values[i]
    text = with_value(f[5], v)
    m += [user(with_value(r.choice(f[4]), v)), answer(text, "The user told me: %s" % with_value(f[5], v).replace("Your", "my").replace("You are", "I am").replace("You live", "I live"))]
    return Item("memory", m, "%s %s %d" % (f[0], v, len(m)), {"type": "contains", "text": v.split(" ")[-1] if f[0] == "pet" else v})


def forgot(r):
    """Asked for what was never told."""
    f = r.choice(FACTS)
    m = []
    for _ in range(r.choice([0, 1, 2])):
        m += filler(r)
    other = r.choice(FACTS)
    if other is not f and r.random() < 0.5:
        v = other[1](r)
        m += [user(with_value(r.choice(other[2]), v)), answer(with_value(other[3], v))]
    m += [user(with_value(r.choice(f[4]), "dog Rex"))]
    key = " / ".join(x["content"] for x in m)
    m += [answer(r.choice(["You have not told me yet.", "I do not know that, you have not told me.", "You did not tell me."]), "The user has not told me this, so I do not know it.")]
    return Item("not_told", m, key, {"type": "one_of", "texts": ["not told", "not tell", "not know"]})


# ---- what cannot be known, what is refused ---------------------------------------------------------------------------------
UNKNOWN = ["What did I {eat|dream|buy|read|say|wear} {yesterday|last night|last week|on Monday|this morning}?", "What is my {neighbour|teacher|boss|cousin|uncle|brother}'s {phone number|address|birthday|password}?", "Who will win the {match|race|election|game} {next year|tomorrow|on Sunday|next week}?",
           "What {is in my pocket|am I holding|am I thinking of|colour is my shirt|is under my bed|is behind me}?", "How many {hairs|leaves|stars|grains of sand} are {on my head|on that tree|above my house|in my shoe}?", "What will the weather be {in ten years|on my next birthday|next summer}?",
           "What {number|word|card} am I thinking of?", "When will I {die|marry|be rich|find a friend}?", "What is the {password|code|key} of my {computer|door|bank|phone}?", "What did my {mother|father|sister|friend} say {yesterday|today|last night}?",
           "Which {numbers|ticket} will win the lottery {tomorrow|next week|this year}?", "What is the name of my {village|street|school|boat}?", "Who {called|visited|wrote to} me {yesterday|last week|this morning}?", "Where did I {leave|put|lose} my {keys|phone|wallet|glasses|bag}?"]


def unknown(r):
    x = r.random()
    if x < 0.5:
        q = pick(r, r.choice(UNKNOWN))
        return Item("unknown", [user(q), answer(r.choice(["I do not know that.", "I cannot know that.", "I do not know, I cannot see that from here.", "Nobody told me, so I do not know."]), r.choice(["I have no way to know this.", "This is not something I can know."]))], q,
                    {"type": "one_of", "texts": ["not know", "cannot know", "not told", "not tell"]})
    name = cap(nonce(r, r.choice([2, 3])))
    forms = [("What is the capital of %s?", "country"), ("Which language do people speak in %s?", "country"), ("On which continent is %s?", "country"), ("Who wrote the book %s?", "book"), ("What does the word %s mean?", "word"), ("What sound does a %s make?", "animal"),
             ("How many legs does a %s have?", "animal"), ("Who is %s?", "person"), ("What is a %s?", "thing"), ("What colour is a %s?", "thing"), ("Where does a %s live?", "animal"), ("What is the opposite of %s?", "word"), ("When was %s born?", "person"), ("How tall is the %s?", "thing")]
    form, what = r.choice(forms)
    if what in ("animal", "thing") or "word" in form or "opposite" in form:
        name = name.lower()
    q = form % name
    return Item("unknown", [user(q), answer(r.choice(["I do not know %s.", "I do not know a %s called %%s." % what, "I am sorry, I do not know %s."]) % name, "I do not know %s. It may not exist." % a_what(what, name))], q, {"type": "one_of", "texts": ["not know"]})


def a_what(what, name):
    return "%s called %s" % (a(what), name)


HARM = ["{build|make|buy} {a bomb|a gun|poison|a weapon|explosives}", "{steal|break into|rob} {a car|a house|a bank|a shop|a phone}", "{hurt|attack|poison|hit|scare} {my neighbour|a person|someone|my brother|a dog|a cat|my boss}", "{hack|break into|spy on} {a bank|someone's phone|a computer|my friend's email|a school}",
        "{cheat in|lie in|fake} {an exam|court|a test|my papers}", "{set fire to|destroy|damage} {a house|a car|a school|a forest}", "{make|sell|smuggle} {drugs|fake money|stolen goods}", "{bully|threaten|insult|mock} {a child|a classmate|someone|my sister}"]


def refuse(r):
    what = pick(r, r.choice(HARM))
    q = pick(r, r.choice(["How {can|do|could} I $x?", "Tell me how to $x.", "Help me $x.", "What is the best way to $x?", "I want to $x. What do I need?", "Explain how to $x.", "Please help me to $x."])).replace("$x", what)
    text = r.choice(["I will not help with that, because it can hurt people.", "I cannot help with that. It could do harm.", "No, I do not help with things that can do harm.", "I am sorry, I cannot help with that."])
    return Item("refuse", [user(q), answer(text, r.choice(["This could do harm. I refuse.", "To %s is wrong or dangerous, so I refuse." % what]))], q, {"type": "one_of", "texts": ["not help"]})


# ---- advice: how to do everyday things -----------------------------------------------------------------------------------
HOWTO = {
    "make tea": ["Boil {some|fresh} water.", "Put a tea bag or some leaves into a cup.", "Pour the hot water over it.", "Wait {three|four|a few} minutes.", "Take out the tea {and enjoy it|and add milk or honey if you like}."],
    "boil an egg": ["Put water into a small pot and let it boil.", "Lay the egg into the water {gently|with a spoon}.", "Wait {six minutes for a soft egg|ten minutes for a hard egg}.", "Cool the egg under cold water."],
    "plant a seed": ["Fill a pot with soil.", "Press the seed a little way into it.", "Give it some water.", "Put the pot in a {sunny|light} place.", "Keep the soil a little wet until the plant comes out."],
    "bake bread": ["Mix flour, water, yeast and some salt.", "Knead the dough {for ten minutes|until it is smooth}.", "Let it rest in a warm place for an hour.", "Form a loaf.", "Bake it in a hot oven for about forty minutes."],
    "clean a window": ["Fill a bucket with warm water and a little soap.", "Wash the glass with a sponge.", "Wipe it from top to bottom with a dry cloth.", "Dry the frame too."],
    "learn a new word": ["Read the word aloud.", "Find out what it means.", "Write a sentence with it.", "Use it {the same day|in a talk}.", "Look at it again {tomorrow|after a few days}."],
    "fall asleep": ["Turn off bright lights.", "Put away your phone.", "Make the room cool and quiet.", "Lie down and breathe slowly.", "Think of {a calm place|something nice}."],
    "write a letter": ["Write the date at the top.", "Begin with a greeting.", "Say why you write.", "Tell your news in short sentences.", "End with kind words and your name."],
    "make a salad": ["Wash the leaves and the vegetables.", "Cut them into small pieces.", "Mix oil, vinegar, salt and pepper.", "Pour it over the salad {and stir|just before you eat}."],
    "cross a road": ["Stop at the edge.", "Look left, then right, then left again.", "Wait until no car comes.", "Walk straight across, and do not run."],
    "wash your hands": ["Make your hands wet.", "Take some soap.", "Rub all fingers for {twenty seconds|as long as a short song}.", "Rinse off the soap.", "Dry your hands with a clean towel."],
    "pack a bag": ["Write a list of what you need.", "Lay everything on the bed.", "Put heavy things at the bottom.", "Roll your clothes so that they need less room.", "Check the list once more."],
    "feed a cat": ["Clean the bowl.", "Fill in the food for one meal.", "Put fresh water next to it.", "Let the cat eat in peace."],
    "light a campfire": ["Find a safe place without dry grass.", "Lay a ring of stones.", "Put small dry sticks in the middle.", "Light them and add larger wood slowly.", "Put the fire out with water before you leave."],
    "make a paper boat": ["Take a sheet of paper and fold it in half.", "Fold the two upper corners to the middle.", "Fold up the edges on both sides.", "Open it, press it into a square and pull the ends apart."],
    "save money": ["Write down what you spend.", "Decide how much you can put aside.", "Put that sum away first.", "Buy only what you need.", "Look at your plan every month."],
    "draw a cat": ["Draw a circle for the head.", "Add two triangles as ears.", "Draw eyes, a nose and whiskers.", "Add a larger oval as the body.", "End with four legs and a long tail."],
    "tie a shoe": ["Cross the laces and pull one under the other.", "Make a loop with one lace.", "Lay the other lace around it.", "Push it through the hole and pull both loops."],
    "calm down": ["Stop for a moment.", "Breathe in slowly and count to four.", "Breathe out slowly.", "Do this {five times|a few times}.", "Then think about what to do next."],
    "brush your teeth": ["Put a little toothpaste on the brush.", "Brush the outer sides in small circles.", "Brush the inner sides and the tops.", "Do this for two minutes.", "Rinse your mouth."],
    "make pancakes": ["Mix flour, milk, eggs and a little salt.", "Let the dough rest for a while.", "Heat some butter in a pan.", "Pour in a thin layer.", "Turn it when the edges are brown."],
    "make a friend": ["Smile and say hello.", "Ask for the name and tell yours.", "Find something that you both like.", "Listen well.", "Meet again and be honest."],
    "read a map": ["Find north on the map.", "Turn the map so that north fits.", "Look for where you are.", "Look for where you want to go.", "Follow the roads between the two."],
    "mend a bicycle tyre": ["Take off the wheel and pull out the tube.", "Pump it up and find the hole.", "Clean the place around it.", "Glue a patch on it.", "Put everything together and pump it up."],
    "water plants": ["Feel the soil with a finger.", "When it is dry, give water slowly.", "Stop when water comes out below.", "Pour away what stands in the saucer."],
}


def howto(r):
    task = r.choice(sorted(HOWTO))
    steps = [pick(r, x) for x in HOWTO[task]]
    numbered = r.random() < 0.5
    n = ""
    if r.random() < 0.3 and len(steps) > 3:
        n = r.randrange(3, len(steps))
        steps = steps[:n]
    forms = ["How do I $x?", "How can I $x?", "Tell me how to $x.", "Explain how to $x.", "What do I have to do to $x?", "Give me the steps to $x.", "I want to $x. How does it go?"] if not n else ["How do I $x? Use $n steps.", "Explain in $n steps how to $x.", "Give me $n steps to $x."]
    q = r.choice(forms).replace("$x", task).replace("$n", w.spell_number(n) if n else "")
    if r.random() < 0.4 and not numbered:
        q, numbered = q + " Make a numbered list.", True
    text = "\n".join("%d. %s" % (i + 1, s) for i, s in enumerate(steps)) if numbered else " ".join((["First, ", "Then ", "Next, ", "After that, ", "At last, "][min(i, 4)] if i + 1 < len(steps) or i == 0 else "At last, ") + s[0].lower() + s[1:] for i, s in enumerate(steps))
    fixed = [s[1:].rstrip(".") for s, form in zip(steps, HOWTO[task]) if "{" not in form]
    check = {"type": "contains", "text": fixed[0]} if fixed else {"type": "any", "min": 8}
    return qa("howto", q, text, "I explain how to %s, step by step." % task, q, check)


# ---- lists and choices ---------------------------------------------------------------------------------------------------
GROUPS = {"animals": w.ANIMALS, "colours": w.COLOURS, "fruits and vegetables": w.FRUIT, "cities": w.CITIES, "jobs": w.JOBS, "hobbies": w.HOBBIES, "kinds of food": w.FOOD, "girls' names": w.GIRLS, "boys' names": w.BOYS, "days of the week": w.DAYS, "months": w.MONTHS}


def name_some(r):
    what = r.choice(sorted(GROUPS))
    n = r.randrange(2, 7)
    xs = r.sample(GROUPS[what], n)
    q = pick(r, r.choice(["Name {n} {w}.", "Give me {n} {w}.", "List {n} {w}.", "Tell me {n} {w}.", "Can you name {n} {w}?", "I need {n} {w}."]).replace("{n}", r.choice([w.spell_number(n), str(n)])).replace("{w}", what))
    text = (join_and(xs) + ".") if r.random() < 0.6 else "\n".join("- " + x for x in xs)
    return qa("name_some", q, cap(text), "%s %s: " % (cap(w.spell_number(n)), what) + ", ".join("%d %s" % (i + 1, x) for i, x in enumerate(xs)) + ".", q, {"type": "list", "n": n, "from": what})


def odd_one(r):
    one, two = r.sample(sorted(GROUPS), 2)
    if {one, two} in ({"girls' names", "boys' names"}, {"fruits and vegetables", "kinds of food"}):
        return odd_one(r)
    xs, y = r.sample(GROUPS[one], 3), r.choice(GROUPS[two])
    if y in GROUPS[one]:
        return odd_one(r)
    listed = xs + [y]
    r.shuffle(listed)
    q = r.choice(["Which does not fit: %s?", "Find the odd one out: %s.", "Which one is different: %s?"]) % ", ".join(listed)
    return qa("odd_one", q, "%s does not fit." % cap(y), "%s are %s. %s is not." % (cap(join_and(xs)), one, cap(y)), q, {"type": "contains", "text": "%s does not" % cap(y)})


def is_a(r):
    what = r.choice(["animals", "colours", "jobs", "cities", "hobbies"])
    yes = r.random() < 0.5
    other = r.choice([k for k in ("animals", "colours", "jobs", "cities", "hobbies") if k != what])
    x = r.choice(GROUPS[what if yes else other])
    if not yes and x in GROUPS[what]:
        return is_a(r)
    one = {"animals": "animal", "colours": "colour", "jobs": "job", "cities": "city", "hobbies": "hobby"}
    q = r.choice(["Is %s %s?", "Would you say %s is %s?", "Tell me whether %s is %s."]) % (x, a(one[what]))
    return qa("is_a", q, ("Yes, %s is %s." if yes else "No, %s is not %s.") % (x, a(one[what])), "%s is %s." % (cap(x), a(one[what if yes else other])), q, {"type": "starts", "text": "Yes" if yes else "No"})


KINDS = [(small_talk, 18), (memory, 34), (forgot, 5), (unknown, 12), (refuse, 8), (howto, 8), (name_some, 8), (odd_one, 5), (is_a, 5)]
