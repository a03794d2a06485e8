# Public facts, in our own words: tables that kind_facts.py asks about.

# country: capital, continent
CAPITALS = """Afghanistan: Kabul, Asia; Albania: Tirana, Europe; Algeria: Algiers, Africa; Andorra: Andorra la Vella, Europe; Angola: Luanda, Africa;
Argentina: Buenos Aires, South America; Armenia: Yerevan, Asia; Australia: Canberra, Oceania; Austria: Vienna, Europe; Azerbaijan: Baku, Asia;
Bahrain: Manama, Asia; Bangladesh: Dhaka, Asia; Barbados: Bridgetown, North America; Belarus: Minsk, Europe; Belgium: Brussels, Europe;
Belize: Belmopan, North America; Benin: Porto-Novo, Africa; Bhutan: Thimphu, Asia; Bosnia: Sarajevo, Europe; Botswana: Gaborone, Africa;
Brazil: Brasilia, South America; Bulgaria: Sofia, Europe; Cambodia: Phnom Penh, Asia; Cameroon: Yaounde, Africa; Canada: Ottawa, North America;
Chad: N'Djamena, Africa; Chile: Santiago, South America; China: Beijing, Asia; Colombia: Bogota, South America; Costa Rica: San Jose, North America;
Croatia: Zagreb, Europe; Cuba: Havana, North America; Cyprus: Nicosia, Europe; Denmark: Copenhagen, Europe; Djibouti: Djibouti City, Africa;
Ecuador: Quito, South America; Egypt: Cairo, Africa; Eritrea: Asmara, Africa; Estonia: Tallinn, Europe; Ethiopia: Addis Ababa, Africa;
Fiji: Suva, Oceania; Finland: Helsinki, Europe; France: Paris, Europe; Gabon: Libreville, Africa; Gambia: Banjul, Africa; Georgia: Tbilisi, Asia;
Germany: Berlin, Europe; Ghana: Accra, Africa; Greece: Athens, Europe; Guyana: Georgetown, South America; Haiti: Port-au-Prince, North America;
Honduras: Tegucigalpa, North America; Hungary: Budapest, Europe; Iceland: Reykjavik, Europe; India: New Delhi, Asia; Indonesia: Jakarta, Asia;
Iran: Tehran, Asia; Iraq: Baghdad, Asia; Ireland: Dublin, Europe; Italy: Rome, Europe; Jamaica: Kingston, North America; Japan: Tokyo, Asia;
Jordan: Amman, Asia; Kazakhstan: Astana, Asia; Kenya: Nairobi, Africa; Kosovo: Pristina, Europe; Kuwait: Kuwait City, Asia; Kyrgyzstan: Bishkek, Asia;
Laos: Vientiane, Asia; Latvia: Riga, Europe; Lebanon: Beirut, Asia; Lesotho: Maseru, Africa; Liberia: Monrovia, Africa; Libya: Tripoli, Africa;
Lithuania: Vilnius, Europe; Luxembourg: Luxembourg City, Europe; Madagascar: Antananarivo, Africa; Malawi: Lilongwe, Africa; Malaysia: Kuala Lumpur, Asia;
Maldives: Male, Asia; Mali: Bamako, Africa; Malta: Valletta, Europe; Mauritania: Nouakchott, Africa; Mexico: Mexico City, North America;
Moldova: Chisinau, Europe; Mongolia: Ulaanbaatar, Asia; Montenegro: Podgorica, Europe; Morocco: Rabat, Africa; Mozambique: Maputo, Africa;
Myanmar: Naypyidaw, Asia; Namibia: Windhoek, Africa; Nepal: Kathmandu, Asia; New Zealand: Wellington, Oceania; Nicaragua: Managua, North America;
Niger: Niamey, Africa; Nigeria: Abuja, Africa; North Korea: Pyongyang, Asia; North Macedonia: Skopje, Europe; Norway: Oslo, Europe; Oman: Muscat, Asia;
Pakistan: Islamabad, Asia; Panama: Panama City, North America; Paraguay: Asuncion, South America; Peru: Lima, South America; Poland: Warsaw, Europe;
Portugal: Lisbon, Europe; Qatar: Doha, Asia; Romania: Bucharest, Europe; Russia: Moscow, Europe; Rwanda: Kigali, Africa; Samoa: Apia, Oceania;
Saudi Arabia: Riyadh, Asia; Senegal: Dakar, Africa; Serbia: Belgrade, Europe; Sierra Leone: Freetown, Africa; Slovakia: Bratislava, Europe;
Slovenia: Ljubljana, Europe; Somalia: Mogadishu, Africa; South Korea: Seoul, Asia; South Sudan: Juba, Africa; Spain: Madrid, Europe; Sudan: Khartoum, Africa;
Suriname: Paramaribo, South America; Sweden: Stockholm, Europe; Switzerland: Bern, Europe; Syria: Damascus, Asia; Taiwan: Taipei, Asia;
Tajikistan: Dushanbe, Asia; Tanzania: Dodoma, Africa; Thailand: Bangkok, Asia; Togo: Lome, Africa; Tonga: Nuku'alofa, Oceania; Tunisia: Tunis, Africa;
Turkey: Ankara, Asia; Turkmenistan: Ashgabat, Asia; Uganda: Kampala, Africa; Ukraine: Kyiv, Europe; Uruguay: Montevideo, South America;
Uzbekistan: Tashkent, Asia; Vanuatu: Port Vila, Oceania; Venezuela: Caracas, South America; Vietnam: Hanoi, Asia; Yemen: Sanaa, Asia; Zambia: Lusaka, Africa;
Zimbabwe: Harare, Africa"""

OPPOSITES = """big small; hot cold; up down; left right; fast slow; high low; old young; new old; long short; day night; black white; open closed; full empty;
happy sad; rich poor; strong weak; hard soft; heavy light; wet dry; clean dirty; early late; near far; thick thin; wide narrow; deep shallow; loud quiet; sweet sour;
good bad; right wrong; true false; first last; begin end; push pull; give take; buy sell; win lose; love hate; laugh cry; ask answer; come go; in out; on off;
above below; inside outside; before after; always never; more less; many few; all none; alive dead; asleep awake; brave cowardly; bright dark; calm stormy; cheap expensive;
clever stupid; cruel kind; easy difficult; fat thin; front back; guilty innocent; healthy sick; honest dishonest; inner outer; kind cruel; legal illegal; lucky unlucky;
maximum minimum; noisy quiet; odd even; past future; peace war; polite rude; possible impossible; public private; rough smooth; safe dangerous; sharp blunt; simple complicated;
straight crooked; sunrise sunset; tall short; tidy messy; top bottom; useful useless; visible invisible; warm cool; winter summer; friend enemy; arrive leave; accept refuse;
attack defend; remember forget; build destroy; catch drop; float sink; freeze melt; increase decrease; lend borrow; lock unlock; praise blame; raise lower; save spend; shout whisper;
stand sit; start stop; succeed fail; teach learn; throw catch; wake sleep; whole broken"""

PLURALS = """cat cats; dog dogs; box boxes; bus buses; fox foxes; dish dishes; church churches; baby babies; city cities; lady ladies; story stories; party parties; berry berries;
key keys; boy boys; toy toys; day days; leaf leaves; wolf wolves; knife knives; wife wives; life lives; shelf shelves; half halves; loaf loaves; thief thieves; calf calves; roof roofs;
man men; woman women; child children; foot feet; tooth teeth; goose geese; mouse mice; ox oxen; sheep sheep; deer deer; fish fish; person people; hero heroes; potato potatoes;
tomato tomatoes; echo echoes; photo photos; piano pianos; radio radios; zoo zoos; glass glasses; dress dresses; class classes; kiss kisses; watch watches; match matches; bench benches;
branch branches; peach peaches; brush brushes; wish wishes; tax taxes; quiz quizzes; house houses; horse horses; nose noses; rose roses; bridge bridges; orange oranges; page pages;
tree trees; book books; car cars; ship ships; table tables; chair chairs; star stars; river rivers; bird birds; apple apples; friend friends; window windows; door doors; road roads;
family families; country countries; cherry cherries; puppy puppies; fly flies; spy spies; penny pennies; butterfly butterflies; monkey monkeys; donkey donkeys; turkey turkeys;
valley valleys; elf elves; scarf scarves; crisis crises; cactus cacti; nurse nurses; lamp lamps; clock clocks; spoon spoons; cloud clouds; school schools; teacher teachers"""

COLOURS = """grass: green; the sky on a clear day: blue; snow: white; coal: black; a ripe banana: yellow; a lemon: yellow; a ripe tomato: red; blood: red; a carrot: orange; a pumpkin: orange;
milk: white; chocolate: brown; the sun in drawings: yellow; a fire engine: red; a flamingo: pink; an elephant: grey; a frog: green; a crow: black; a swan: white; a polar bear: white; a canary: yellow;
an emerald: green; a ruby: red; a sapphire: blue; gold: golden; silver: silver; charcoal: black; salt: white; sugar: white; rust: brown; a plum: purple; an aubergine: purple; lavender: purple;
a cucumber: green; broccoli: green; spinach: green; a strawberry: red; a cherry: red; a lime: green; the sea: blue; a leaf in summer: green; a leaf in autumn: brown; sand: yellow; a panda: black and white;
a zebra: black and white; a penguin: black and white; soil: brown; a lobster after cooking: red; cream: white; ink: black; a stop sign: red; a dandelion: yellow; a sunflower: yellow; a peach: orange;
a pig: pink; an egg yolk: yellow; a mouse: grey; a blueberry: blue; a raven: black; a cloud before rain: grey; a ladybird: red"""

# animal: sound (verb), young, legs, home, group
ANIMALS = """dog: barks, puppy, 4, kennel, mammal; cat: meows, kitten, 4, house, mammal; cow: moos, calf, 4, barn, mammal; horse: neighs, foal, 4, stable, mammal; sheep: bleats, lamb, 4, meadow, mammal;
pig: oinks, piglet, 4, sty, mammal; duck: quacks, duckling, 2, pond, bird; hen: clucks, chick, 2, coop, bird; lion: roars, cub, 4, savanna, mammal; bee: buzzes, larva, 6, hive, insect;
frog: croaks, tadpole, 4, pond, amphibian; owl: hoots, owlet, 2, hollow tree, bird; wolf: howls, pup, 4, den, mammal; goat: bleats, kid, 4, mountain, mammal; bear: growls, cub, 4, cave, mammal;
mouse: squeaks, pup, 4, hole, mammal; snake: hisses, hatchling, 0, burrow, reptile; bird: sings, chick, 2, nest, bird; spider: is silent, spiderling, 8, web, arachnid; ant: is silent, larva, 6, anthill, insect;
rabbit: squeaks, bunny, 4, burrow, mammal; fox: barks, cub, 4, den, mammal; beaver: whines, kit, 4, lodge, mammal; swan: hisses, cygnet, 2, lake, bird; goose: honks, gosling, 2, farm, bird;
elephant: trumpets, calf, 4, savanna, mammal; monkey: chatters, infant, 4, tree, mammal; donkey: brays, foal, 4, stable, mammal; crow: caws, chick, 2, nest, bird; squirrel: chatters, kit, 4, tree, mammal;
whale: sings, calf, 0, ocean, mammal; shark: is silent, pup, 0, ocean, fish; eagle: screams, eaglet, 2, nest, bird; turtle: is silent, hatchling, 4, sea, reptile; deer: bellows, fawn, 4, forest, mammal;
kangaroo: is quiet, joey, 2, grassland, mammal; tiger: roars, cub, 4, jungle, mammal; penguin: honks, chick, 2, ice, bird; camel: grunts, calf, 4, desert, mammal; hedgehog: snuffles, hoglet, 4, hedge, mammal;
butterfly: is silent, caterpillar, 6, meadow, insect; crab: is silent, larva, 10, beach, crustacean; bat: squeaks, pup, 2, cave, mammal; seal: barks, pup, 0, sea, mammal; parrot: squawks, chick, 2, jungle, bird;
turkey: gobbles, poult, 2, farm, bird; zebra: brays, foal, 4, savanna, mammal; giraffe: hums, calf, 4, savanna, mammal; dolphin: clicks, calf, 0, ocean, mammal; crocodile: growls, hatchling, 4, river, reptile"""

UNITS = """seconds, a minute, 60; minutes, an hour, 60; hours, a day, 24; days, a week, 7; months, a year, 12; weeks, a year, 52; days, a year, 365; days, a leap year, 366; years, a decade, 10; years, a century, 100;
years, a millennium, 1000; centimetres, a metre, 100; metres, a kilometre, 1000; millimetres, a centimetre, 10; grams, a kilogram, 1000; kilograms, a tonne, 1000; millilitres, a litre, 1000; inches, a foot, 12;
feet, a yard, 3; items, a dozen, 12; items, a score, 20; sides, a triangle, 3; sides, a square, 4; sides, a pentagon, 5; sides, a hexagon, 6; sides, an octagon, 8; cents, a euro, 100; pence, a pound, 100;
players, a football team, 11; players, a basketball team, 5; strings, a violin, 4; strings, a guitar, 6; keys, a piano, 88; fingers, a hand, 5; letters, the English alphabet, 26; colours, a rainbow, 7;
planets, the solar system, 8; continents, the world, 7; wheels, a bicycle, 2; wheels, a car, 4; wheels, a tricycle, 3; degrees, a circle, 360; degrees, a right angle, 90; bits, a byte, 8; squares, a chessboard, 64;
seasons, a year, 4; cards, a full deck, 52; months, a quarter of a year, 3; days, a fortnight, 14; pounds, a stone, 14; ounces, a pound, 16; faces, a cube, 6; corners, a cube, 8; letters, the Greek alphabet, 24"""

ELEMENTS = """hydrogen H; helium He; lithium Li; carbon C; nitrogen N; oxygen O; fluorine F; neon Ne; sodium Na; magnesium Mg; aluminium Al; silicon Si; phosphorus P; sulphur S; chlorine Cl; argon Ar; potassium K;
calcium Ca; titanium Ti; chromium Cr; manganese Mn; iron Fe; cobalt Co; nickel Ni; copper Cu; zinc Zn; silver Ag; tin Sn; iodine I; gold Au; mercury Hg; lead Pb; uranium U; platinum Pt; tungsten W"""

PAST = """go went; see saw; eat ate; drink drank; run ran; come came; take took; give gave; make made; find found; know knew; think thought; buy bought; bring brought; catch caught; teach taught; write wrote; read read;
speak spoke; break broke; choose chose; drive drove; ride rode; rise rose; fly flew; grow grew; throw threw; blow blew; draw drew; sing sang; swim swam; begin began; ring rang; sit sat; stand stood; sleep slept; keep kept;
feel felt; leave left; lose lost; meet met; pay paid; say said; sell sold; tell told; send sent; spend spent; build built; win won; hold held; hear heard; fall fell; forget forgot; get got; wear wore; wake woke; hide hid;
bite bit; cut cut; put put; shut shut; hit hit; walk walked; play played; look looked; help helped; jump jumped; cook cooked; stop stopped; carry carried; try tried; cry cried; dance danced; love loved; ask asked; call called"""

LANGUAGES = """France French; Germany German; Spain Spanish; Italy Italian; Portugal Portuguese; Brazil Portuguese; Japan Japanese; China Chinese; Russia Russian; Poland Polish; Greece Greek; Turkey Turkish; Sweden Swedish;
Norway Norwegian; Denmark Danish; Finland Finnish; Hungary Hungarian; Iceland Icelandic; Mexico Spanish; Argentina Spanish; Austria German; Egypt Arabic; Morocco Arabic; Thailand Thai; Vietnam Vietnamese; Ukraine Ukrainian;
Romania Romanian; Bulgaria Bulgarian; Croatia Croatian; Albania Albanian; Australia English; Jamaica English; Chile Spanish; Peru Spanish; Cuba Spanish; Angola Portuguese; Iran Persian; Israel Hebrew; Nepal Nepali; Mongolia Mongolian"""

# Short explanations of things, without the word itself in front; "a " or nothing says how the word is used.
DEFINITIONS = """a clock: a thing that shows the time; a bridge: a way built over a river or a road; a ladder: two poles with steps between them, for climbing; a river: a long stream of water that flows to the sea; an island: land with water all
around it; a desert: a dry place where little rain falls; a forest: a large place full of trees; a mountain: land that rises far above the land around it; a valley: low land between hills; a lake: a large body of water with land around it;
an ocean: one of the great bodies of salt water on Earth; a volcano: a mountain that can throw out hot melted rock; an earthquake: a shaking of the ground; a storm: bad weather with strong wind and rain; fog: a cloud that lies on the ground;
ice: water that is frozen; snow: frozen water that falls from clouds as white flakes; steam: water that has become a gas; rain: water that falls from clouds in drops; wind: air that moves; a rainbow: an arc of colours in the sky when sun shines
through rain; a shadow: a dark place where something keeps the light away; fire: the heat and light of something that burns; smoke: the grey cloud that comes from a fire; dust: very small dry bits of dirt; a planet: a large body that moves around
a star; a star: a huge ball of hot gas that gives light; the moon: the body that moves around the Earth; the sun: the star that gives the Earth light and warmth; a comet: a ball of ice and dust that grows a tail near the sun; a doctor: a person
who helps sick people; a teacher: a person who helps others learn; a baker: a person who makes bread and cakes; a farmer: a person who grows food or keeps animals; a pilot: a person who flies a plane; a tailor: a person who makes clothes;
a carpenter: a person who builds things out of wood; a plumber: a person who mends pipes; a judge: a person who decides in a court; a librarian: a person who looks after books for others to read; a nurse: a person who cares for sick people;
a sailor: a person who works on a ship; an author: a person who writes books; a king: a man who rules a country; a queen: a woman who rules a country; a thief: a person who steals; a neighbour: a person who lives next to you; a friend: a person
you like and trust; a guest: a person who visits you; a stranger: a person you do not know; an orphan: a child whose parents are dead; a twin: one of two children born together; an uncle: a brother of your mother or father; an aunt: a sister of
your mother or father; a cousin: a child of your uncle or aunt; a hammer: a tool for hitting nails; a saw: a tool with teeth for cutting wood; a needle: a thin sharp tool for sewing; a spade: a tool for digging; a broom: a brush with a long handle
for sweeping; scissors: a tool with two blades for cutting; a knife: a tool with a blade for cutting; a spoon: a tool for eating soup; a fork: a tool with points for eating; a cup: a small thing to drink from; a kettle: a pot for boiling water;
an oven: a box that gets hot for baking; a fridge: a box that keeps food cold; a lamp: a thing that gives light; a candle: a stick of wax that gives light when it burns; a mirror: a glass in which you see yourself; a pillow: a soft thing to lay
your head on; a blanket: a warm cover for a bed; a chair: a thing to sit on; a table: a flat board on legs; a shelf: a board on a wall that holds things; a door: a board that closes the way into a room; a window: an opening in a wall that lets
light in; a roof: the top that covers a house; a cellar: a room under a house; an attic: a room under the roof; a garden: a place where plants are grown; a fence: a wall of wood or wire around a place; a key: a thing that opens a lock; a lock: a
thing that keeps a door closed; a map: a picture that shows where places are; a compass: a tool that shows where north is; a telescope: a tool that makes far things look near; a microscope: a tool that makes tiny things look big; a thermometer: a
tool that measures how warm it is; a scale: a tool that measures how heavy a thing is; a ruler: a straight stick that measures length; a calendar: a list of the days and months of a year; a diary: a book in which you write what you did each day;
a dictionary: a book that explains words; a poem: a text in verses, often with rhymes; a song: words with a melody; a story: a telling of things that happened or were made up; a letter: a text that you send to someone; a stamp: a small paper that
pays for sending a letter; a ticket: a paper that lets you ride or go in; money: coins and notes used to pay; a bank: a place that keeps money; a shop: a place where things are sold; a market: a place where many people sell things; a school: a
place where children learn; a library: a place where you can borrow books; a hospital: a place where sick people are cared for; a museum: a place that shows old or beautiful things; a theatre: a place where plays are shown; a station: a place where
trains or buses stop; an airport: a place where planes land and take off; a harbour: a place where ships are safe; a lighthouse: a tower with a light that guides ships; a farm: a place where food is grown and animals are kept; a mill: a place where
grain is made into flour; a bakery: a place where bread is made; a pharmacy: a shop that sells medicine; a boat: a small ship; a train: a row of wagons that runs on rails; a bicycle: a thing with two wheels that you ride; a car: a thing with four
wheels and an engine; a plane: a machine with wings that flies; a tractor: a strong machine that works on fields; an engine: a machine that makes things move; a computer: a machine that works with numbers and words; a phone: a thing for talking
with people far away; a camera: a thing that takes pictures; a radio: a thing that plays sounds sent through the air; a drum: an instrument that you hit; a violin: an instrument with four strings and a bow; a flute: an instrument that you blow into;
a piano: an instrument with black and white keys; a guitar: an instrument with six strings; a bird: an animal with feathers and wings; a fish: an animal that lives in water and has fins; an insect: a small animal with six legs; a mammal: an animal
that feeds its young with milk; a reptile: an animal with dry scales; a seed: the small thing from which a plant grows; a root: the part of a plant under the ground; a leaf: a flat green part of a plant; a flower: the colourful part of a plant;
a fruit: the part of a plant that holds the seeds; a tree: a tall plant with a trunk of wood; bread: food baked from flour and water; cheese: food made from milk; honey: sweet food that bees make; butter: food made from cream; flour: powder made
from grain; sugar: something that makes food sweet; salt: white grains that come from the sea or from mines; juice: the liquid from fruit; soup: hot liquid food; a recipe: a list of steps for cooking something; breakfast: the first meal of the day;
dinner: the main meal of the day; a holiday: a time when you do not work; a birthday: the day on which someone was born; a gift: a thing you give to someone; a secret: something that only few people know; a dream: pictures in your mind while you
sleep; a question: words that ask for an answer; a mistake: something done wrong; a promise: words that say you will surely do something; a rule: words that say what must be done; a game: something you do for fun, often with rules; a team: people
who work or play together; courage: doing what is right though you are afraid; patience: being able to wait calmly; anger: the strong feeling when something is unfair; joy: the feeling of being very happy; fear: the feeling that something bad may
happen; hunger: the feeling that you need food; thirst: the feeling that you need to drink; a language: the words that people of a country speak; an alphabet: the letters of a language; a number: a word or sign that says how many; a circle: a round
line whose points are all as far from the middle; a triangle: a shape with three sides; a square: a shape with four equal sides; a cube: a body with six equal square faces; a second: a very short time, one sixtieth of a minute; a century: a hundred
years; gravity: the force that pulls things to the ground; electricity: the power that makes lamps shine and machines run; a magnet: a thing that pulls iron; oxygen: the gas in the air that we need to breathe; a model: a program that has learned
from examples; software: programs that tell a computer what to do; a file: data with a name that a computer keeps; a password: a secret word that opens something"""


def rows(text):
    return [" ".join(x.split()) for x in text.split(";") if x.strip()]


def pairs(text):
    return [tuple(x.split(" ", 1)) for x in rows(text)]


def keyed(text):
    return [(k.strip(), [v.strip() for v in rest.split(",")]) for k, rest in (x.split(":", 1) for x in rows(text))]


capitals = keyed(CAPITALS)
opposites = pairs(OPPOSITES)
plurals = pairs(PLURALS)
colours = [(k, v[0]) for k, v in keyed(COLOURS)]
animals = keyed(ANIMALS)
units = [tuple(y.strip() for y in x.split(",")) for x in rows(UNITS)]
elements = pairs(ELEMENTS)
past = pairs(PAST)
languages = pairs(LANGUAGES)
definitions = [tuple(y.strip() for y in x.split(":", 1)) for x in rows(DEFINITIONS)]
