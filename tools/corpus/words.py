# Names, places and things that the generators share.
GIRLS = """Anna Mia Lena Sara Ella Nora Ruby Lucy Clara Eva Rosa Ida Julia Maya Lily Zoe Hana Amy Tess Vera Nina Olga Ivy Jane Kate Lola
Emma Alice Greta Helen Iris Judy Kira Laura Marta Nelly Paula Rita Sofia Tina Wanda Yara Dora Edith Fay Gina Heidi Ines Jade Karin
Luna Mona Naomi Petra Robin Selma Thea Uma Viola Wilma Xenia Yvonne Zelda Ada Bella Carla Daisy Esther Flora Gwen Holly Irma Joan""".split()
BOYS = """Leo Tom Max Ben Sam Paul Noah Jack Finn Adam Omar Hugo Otto Oscar Felix Ivan Luis Karl Peter Simon Theo Victor Will Abe Carl
David Erik Frank Georg Hans Igor Jonas Kurt Lars Mark Nils Pablo Rolf Stan Timo Urs Viktor Walter Yuri Albert Boris Caleb Dan Emil
Fred Gus Henry Isaac Jim Ken Louis Martin Nick Oliver Pete Ralf Steve Todd Vince Wade Axel Bruno Conrad Dirk Edgar Floyd Glen Ross""".split()
ANIMALS = """fox rabbit bear mouse cat dog owl frog duck hen goat pig horse cow sheep wolf deer hedgehog squirrel badger otter beaver turtle
crow robin swan goose donkey mole hamster lizard crab seal penguin lion tiger monkey elephant camel panda koala parrot snail bee ant""".split()
COLOURS = "red blue green yellow white black brown grey orange purple pink golden silver".split()
THINGS = """key ball kite book lamp hat coat cup box map coin ring shell stone drum flute whistle rope basket blanket bell clock candle
mirror spoon bucket boat wagon puzzle button scarf feather pencil brush umbrella lantern ladder jar bottle pillow doll marble
kettle broom needle ribbon glove boot bag purse letter card ticket flag mask crown trumpet guitar violin compass telescope""".split()
FRUIT = "apples pears plums cherries grapes berries lemons oranges peaches figs nuts melons bananas carrots beans onions peas tomatoes potatoes".split()
FOOD = """bread soup cake rice pasta salad cheese pancakes porridge pie stew noodles sandwiches cookies pudding omelette pizza dumplings
waffles muffins curry toast jam honey butter yoghurt""".split()
JOBS = """teacher doctor nurse baker farmer pilot driver painter writer singer cook gardener carpenter sailor tailor dentist lawyer engineer
plumber librarian actor dancer waiter builder fisherman judge vet clerk photographer mechanic""".split()
PLACES = """garden forest park kitchen school library market beach river lake hill village town farm barn yard field meadow bridge harbour
station museum cave valley island castle mill bakery attic cellar playground pond orchard workshop""".split()
WEATHER = "sunny rainy cloudy windy foggy snowy stormy clear".split()
HOBBIES = """chess painting swimming reading cooking dancing singing running fishing hiking cycling gardening knitting drawing climbing
skating sailing surfing baking juggling yoga photography pottery""".split()
CITIES = """Paris London Rome Berlin Madrid Lisbon Vienna Prague Athens Oslo Dublin Warsaw Cairo Delhi Tokyo Seoul Lima Quito Bern Riga
Hamburg Munich Milan Naples Turin Porto Seville Lyon Nice Bordeaux Ghent Basel Zurich Geneva Graz Krakow Gdansk Boston Chicago Denver
Dallas Seattle Toronto Montreal Sydney Perth Mumbai Osaka Kyoto Busan Shanghai Lagos Nairobi Dakar Rabat Tunis Havana Bogota Santiago
Stockholm Malmo Bergen Turku Tampere Leeds York Bristol Cardiff Glasgow Belfast Cork Malaga Valencia Florence Venice Pisa Bologna""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LETTERS = "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z".split()
ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen""".split()
TENS = "x x twenty thirty forty fifty sixty seventy eighty ninety".split()
COMMON = """house tree water light hand table chair window door street road flower river mountain cloud star moon sun wind rain snow fire
paper glass metal wood grass leaf root seed bird fish stone sand sugar salt milk tea coffee juice music song story game toy paint
clock week year morning evening night summer winter spring autumn king queen friend child baby man woman doctor ship train plane
wheel engine bridge tower wall roof floor garden field forest island ocean beach shirt shoe sock coat hat ring coin bread cheese egg""".split()


def spell_number(n):
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")
    if n < 1000:
        return ONES[n // 100] + " hundred" + (" and " + spell_number(n % 100) if n % 100 else "")
    return spell_number(n // 1000) + " thousand" + (" " + spell_number(n % 1000) if n % 1000 else "")


def person(r):
    """(name, he, him, his)"""
    return (r.choice(GIRLS), "she", "her", "her") if r.random() < 0.5 else (r.choice(BOYS), "he", "him", "his")
