# Plots. A line is a sentence; {a|b} is a choice, $name a value (kind_story.py); a line with ? in front is told half of the time; "Q:" lines
# are questions about the plot with their answers. $h hero, $f friend, $g grown-up.

OPENINGS = """
{Once there was|There once was|There was once|Long ago there lived} $kind {named|called|whose name was} $h.|$h {lived|had always lived} in $home {near|by|behind|not far from} the $place.|{Every|Almost every} {morning|evening|day} $he {went to|walked to|played in} the $place.
$h was $kind who {loved|liked} $hobby {more than anything|very much|above all}.|$His {best friend|dearest friend} was $f, {who lived next door|who lived down the road|who lived on the other side of the $place}.|{The two|They} {did everything together|met almost every day|had known each other for years}.
In $home {near|by} the $place lived $kind. {The name was|Everybody called $him} $h.|$h had a friend {named|called} $f, and the two {were rarely apart|shared everything|met every day}.|{People|The neighbours} {liked them|knew them both well|smiled when they came by}.
{It was a $weather morning when|One $weather day|One $weather morning} $h {woke up early|looked out of the window|came out of $home}.|$He was $kind, {small but brave|clever and kind|curious and quick|quiet and careful|cheerful and loud}.|{"What a day,"|"Today something will happen,"} $he {said|thought}.
$h and $f were {friends|good friends|the best of friends}.|$h was {brave|careful|quick|clever|shy} and $f was {funny|strong|patient|wise|loud}, so they {made a good team|helped each other well|needed each other}.|They {often met|liked to meet} {at|near} the $place.
{Far away|Not far from here|In a land of hills|At the edge of a forest}, {near|by} the $place, stood $home.|In it lived $h, $kind {with a good heart|with many questions|who was never bored}.|$His {neighbour|friend} $f {visited $him every day|often came for tea|lived close by}.
"""

# name; uses; lines
PLOTS = """
lost
One {morning|day|afternoon} $h could not find $his $thing.
It was a $colour $thing, {a gift from|which $he had got from} $his {grandmother|grandfather|aunt|uncle}.
$He looked under the {bed|table|chair|stairs}, but there was only {dust|an old sock|a sleeping cat}.
?$He looked in the {garden|cellar|attic} too, and {found nothing|came back with empty hands}.
"Have you seen my $thing?" $he asked $f.
"No," said $f, "but I will help you {look|search}."
Together they {searched|went over} the whole $place, {step by step|from one end to the other|stone by stone}.
{At last|After an hour|Just before dark} $f {called out|gave a shout}: "Here it is!"
The $thing lay {under a bush|behind a stone|in the tall grass|beside the path}, {wet|dusty|muddy} but whole.
"Thank you, $f," said $h. "{Without you I would never have found it|You have sharp eyes|You are a true friend}."
?From then on $h {always put the $thing back in its place|kept the $thing in a safe box|tied a ribbon to the $thing}.
Q:What did $h lose?|$h lost $his $thing.
Q:Who found the $thing?|$f found it.
Q:What colour was the $thing?|It was $colour.

share
$h had {baked|bought|been given} a {large|big|fine} $dish and {wanted to eat it alone|looked forward to it all day}.
$He sat down {under a tree|on a bench|on a stone} in the $place.
Then $f came by and {looked at the $dish|stopped|sat down next to $him}.
"I have not eaten {since yesterday|all day|since breakfast}," said $f {quietly|with a small voice|and looked at the ground}.
$h {looked at the $dish|thought for a moment|held the $dish tight}. It was {not very big|just enough for one}.
"{If I share, I have less|There is not much}," $he thought, "but {$f is my friend|nobody should be hungry}."
So $he cut the $dish into two {equal|even} parts and gave one to $f.
"{This is the best $dish I ever had|How good of you}," said $f{, and both laughed|}.
?The next week $f brought {a basket of $fruit|a bowl of $fruit} and shared it with $h.
{Shared food tastes better|They found that half a $dish with a friend is more than a whole one alone}.
Q:What did $h share?|$h shared a $dish.
Q:With whom did $h share?|$h shared with $f.

rain
{On the way to|On the way back from|While they were walking through} the $place, {dark clouds came up|the sky grew dark|it began to rain}.
"{We will get wet|We need a roof}," said $h. "{Let us run|Come quickly}!"
They ran {past the old mill|across the field|along the river} and {found|came to} {a small hut|an empty barn|a cave|a large oak tree}.
There they sat, {wet to the skin|dripping and cold}, while the {rain drummed|wind howled|thunder rolled} outside.
$f was {afraid|scared} of the thunder and {held $h's hand|moved closer|closed both eyes}.
"{Count with me|Let us count}," said $h. "{One, two, three|When you see the light, count until the thunder comes}. {The longer you can count, the farther it is|See, it goes away}."
They counted to {three, then to five, then to nine|four, then to seven, then to twelve}, and {the storm moved away|the thunder grew soft}.
{At last|Soon} the sun came out, and {a rainbow stood over|everything shone in} the $place.
"{I am not afraid any more|That was not so bad}," said $f.
?They {jumped into every puddle|walked home slowly|sang} on the way home.
Q:Who was afraid of the thunder?|$f was afraid.
Q:What did they do to be less afraid?|They counted.

rescue
{One day|That afternoon|Early one morning} $h {heard a small cry|heard something|saw something move} near the $place.
A {little|young|tiny} $animal {had fallen into a hole|was caught in a net|sat on a thin branch and could not get down|was stuck between two stones}.
"{Do not be afraid|Hold on|Wait}," {called|said} $h, "I will {help you|get you out}."
But $he {could not reach it|was not strong enough|needed help}, so $he ran to {fetch|get} $f.
$f brought a {rope|ladder|long stick|basket}, and {together they pulled|together they lifted|one held and the other pulled}.
It {took a long time|was hard work|nearly went wrong}, but {in the end|at last} the $animal was free.
It {looked at them|shook itself|licked $h's hand} and {did not want to leave|stayed close to them|followed them home}.
?They gave it {some milk|water and bread|a few $fruit} and {a warm place to sleep|a name}.
{The next day|In the evening} its mother came {out of the forest|over the hill} and {called|looked for it}, and the little $animal {ran to her|went home}.
"{I will miss it|It was nice to have it}," said $h, "but {it belongs to its mother|this is how it should be}."
Q:Which animal needed help?|It was a $animal.
Q:Whom did $h fetch?|$h fetched $f.

baking
$h wanted to bake a {cake|pie|loaf of bread} for $f, {because $f was ill|who had a birthday|as a surprise}.
$He took {flour, butter and eggs|flour, milk and honey|everything $he needed} and began.
But {when $he opened the oven|after a while} {it smelled of smoke|everything was black|the dough had run over the edge}.
"{Oh no|Now it is ruined}," said $h and {sat down|nearly cried}.
$g {came in|looked through the door} and {smiled|saw what had happened}. "{The first one seldom works|Everybody burns a cake once}. {Try again|Let us try once more}, and {look at the clock|not so hot this time}."
So $h began again, {more slowly|step by step}, and {looked into the oven every few minutes|did not leave the kitchen}.
This time it was {golden|brown and soft|just right}.
{Proudly|With both hands} $he carried it to $f, who {took a bite|smelled it} and {smiled from ear to ear|asked for more}.
"{Did you make this yourself|Who made this}?" asked $f. "{Yes|I did}," said $h, "{on the second try|with a little help}."
Q:Who helped $h?|$g helped $him.
Q:For whom did $h bake?|$h baked for $f.

dark
{That night|In the night|One evening} $h lay awake, because {something scratched at the window|there was a noise in the hall|a shadow moved on the wall}.
$He {pulled up the blanket|held the breath|did not dare to move}. "{Who is there|What is that}?" $he whispered.
{Nobody answered|There was no answer}, {only the noise came again|but the noise did not stop}.
{In the end|At last} $h took the {lamp|lantern|candle} and {went to look|opened the door|looked behind the curtain}.
It was only {a branch in the wind|the cat, who wanted to come in|$f, who had forgotten the $thing|an owl on the roof}.
$h {laughed|had to laugh} {at $himself|out loud}.
"{Things are large in the dark|Most fears get small in the light}," said $g {the next morning|at breakfast}.
?Since then $h {looks first and is afraid later|sleeps well|keeps a small lamp by the bed}.
Q:When did $h lie awake?|$h lay awake at night.
Q:What did $h take along to look?|$h took a light.

seed
$g gave $h a {small|brown|tiny} seed. "{Put it into the ground|Plant it}," said $g, "and {be patient|wait}."
$h planted it {behind the house|near the fence|in a pot} and {watered it every day|looked at it every morning}.
{A week went by|Days went by}, and nothing {happened|came up}.
"{It is a bad seed|Maybe it is dead}," said $f. "{Throw it away|Forget it}."
But $h {shook the head|did not give up} and {went on|gave it water again}.
On the {tenth|twelfth|twentieth} day {a green tip|a small leaf} {looked out of|came out of} the soil.
{It grew|Every day it grew} {a little|by the width of a finger}, until it was {as high as the fence|taller than $f}.
In {summer|autumn} it bore {yellow|red|white} flowers, and {bees came from everywhere|everybody stopped to look}.
"{I was wrong|You were right to wait}," said $f.
"{Good things need time|Waiting is work too}," said $h.
Q:Who gave $h the seed?|$g gave it to $him.
Q:Who wanted to throw the seed away?|$f wanted to.

race
{Every summer|Once a year} there was a race {around the $place|from the bridge to the $place}.
$h wanted to win {this time|more than anything}, and so did $f.
They {ran side by side|were both fast}, {past the mill|over the hill}, and {nobody was ahead|left all others behind}.
Then $f {stumbled over a root|slipped in the mud|fell} and {held the knee|could not get up}.
$h {saw the finish|was almost there}, {looked back|stopped}, and {turned around|ran back}.
"{Go on|You can win}!" {called|said} $f. "{Not without you|A race is only a race}," said $h.
$He {put an arm around $f|helped $f up}, and {slowly|step by step} they went {to the end|over the line} together.
They were {the last|not the first}, but {the people clapped|everybody cheered} {louder than ever|for a long time}.
?$g gave them {one medal for both|a $dish to share}.
Q:Who fell?|$f fell.
Q:What did $h do when $f fell?|$h turned around and helped.

broken
$h {played ball|was jumping around|was running} in the {house|kitchen|living room}, though {it was not allowed|$g had said not to}.
{Suddenly|Then} {there was a crash|something fell}: the $colour {vase|bowl|jug|lamp} of $g {lay in pieces|was broken}.
$h's heart {beat fast|sank}. "{I could say it was the cat|Nobody saw me}," $he thought.
{But|All day} {the thought gave $him no rest|it felt like a stone in the stomach}.
In the evening $he {went to|stood before} $g. "{It was me|I broke it}," $he said. "I am {sorry|very sorry}."
$g {was silent for a moment|looked at the pieces}. "{I am sad about it|I liked it very much}," said $g, "but {I am glad that you told me|the truth is worth more}."
Together they {glued the pieces|swept up the pieces}, {and the cracks looked like a pattern|and bought a new one at the market}.
{That night $h slept well|$h felt light again}.
Q:Who broke something of $g?|$h broke it.
Q:Did $h tell the truth?|Yes, $h told $g the truth.

newcomer
A {new|quiet} {neighbour|child|family} had come to the {village|street}: the name was $f2.
Nobody {spoke to $f2|knew $f2}, and $f2 {sat alone|stood at the fence} {every day|and looked at the others}.
"{Let us say hello|We could ask $f2 to play}," said $h. "{What if $f2 is not nice|We do not know $f2}?" asked $f.
"{Then we will know|We only find out by asking}," said $h and {walked over|went to the fence}.
"{Do you like $hobby|Do you want to come with us}?" asked $h. $f2 {looked up|smiled} and {nodded|said yes}.
It turned out that $f2 {knew the best games|could whistle like a bird|told wonderful stories|was very good at $hobby2}.
{Soon the three were friends|From that day on they were three}.
"{And I was afraid to ask|I am glad you asked}," said $f.
Q:Who was new in the place?|$f2 was new.
Q:Who spoke to $f2 first?|$h did.

map
{In an old book|Behind a picture|In a bottle on the beach} $h found {a map|an old map} with a {red cross|small star} on it.
"{It shows the $place|This is near the $place}," said $f. "{Maybe there is a treasure|Let us look}!"
They {took a spade and a lamp|packed bread and water} and {set out at dawn|started at once}.
The map said: {ten steps from the old tree|twenty steps from the well}, {then left to the stone|then towards the hill}.
They {counted the steps|walked slowly}, {dug|began to dig}, and {hit something hard|soon found a box}.
In it lay {no gold|neither gold nor silver}, but {a letter|a note}: "{Whoever finds this has sharp eyes and a good friend|The way was the treasure}."
?Under it was a $colour $thing{, which they share to this day|}.
"{I had hoped for gold|No gold}," said $f. $h {laughed|smiled}. "{It was the best day of the summer|We had the best day}."
Q:What did $h find first?|$h found a map.
Q:What lay in the box?|A letter lay in it.

market
$g sent $h to the market to buy {$fruit and bread|bread and $fruit|cheese and $fruit}.
"{Here are ten coins|I give you ten coins}," said $g. "{Bring back what is left|Do not lose them}."
At the market {a man|a woman|a trader} {called|shouted}: "{Magic beans|A wonderful $thing}, only ten coins!"
$h {stopped|looked at it for a long time}. {It shone in the sun|It was so beautiful}.
"{What would $g say|And what will we eat tonight}?" $he thought, and {walked on|shook the head}.
$He bought {the $fruit and the bread|everything} for {six|seven|eight} coins and {counted the rest|put the rest in the pocket}.
On the way home $he met $f, who {had bought the $thing|had spent everything}. {It had broken at once|It was already broken}.
"{You were wiser than I|I should have asked you}," said $f.
$g {was pleased|counted the coins} and gave $h one {for $himself|as a thank you}.
Q:Who sent $h to the market?|$g did.
Q:Who had spent everything?|$f had.

lie
$h {told everybody|said one day} that {a wolf|a bear|a giant} {was in the $place|stood behind the house}.
{People|The neighbours} came running {with sticks|with ropes}, but there was nothing. $h {laughed|thought it was funny}.
{The next day|A week later} $he did it again, and again they came{, and again there was nothing|}.
$f said: "{One day it will be true, and nobody will come|That is not funny}."
And so it was: {one evening|one cold morning} {a real one stood there|something really came out of the $place}.
$h {cried for help|shouted as loud as $he could}, but {nobody moved|people only shook their heads}.
Only $f {came|believed $him}, {with a torch|with a drum}, and {the noise drove the animal away|the fire scared it away}.
"{Why did you come|You believed me}?" asked $h. "{I heard that your voice was different|A friend listens}," said $f.
$h {never lied again|told the truth from then on}.
Q:Who came to help $h?|$f came.
Q:What did $h do wrong at first?|$h lied.

bridge
{A storm had broken|The flood had carried away} the {bridge|small bridge} {over the river|to the other side}.
Now {nobody could get to|it was a long way round to} the {market|school|mill}.
"{We will build a new one|We could build one}," said $h. {People laughed|Some laughed}: "{You two|A child and a friend}?"
$h and $f {carried stones|cut branches|drew a plan} {all day|from morning to evening}.
{On the second day|The next day} $g came with {a saw|a hammer and nails}, and {on the third|a day later} {five others came|half the village came}.
{After a week|On Sunday} the new bridge stood{, stronger than the old one|}.
?They painted it $colour.
"{Many hands make light work|Someone has to begin}," said $g.
Everybody {walked over it once|danced on it}, and $h {walked first|was allowed to go first}.
Q:What did they build?|They built a bridge.
Q:Who came with tools?|$g came.

sick
$f {had not come|was missing} {for three days|since Monday}. "{$f is ill|$f lies in bed}," said $g.
$h {was worried|missed $f} and wanted to {help|do something}.
$He {cooked a soup|picked flowers|drew a picture}, {took the $thing|put on the coat}, and {went over|knocked at the door}.
$f {lay in bed|looked pale} and {had no wish to eat|was bored}.
"{I will read to you|I will tell you a story}," said $h and {sat down|pulled up a chair}.
{The story was about a dragon who was afraid of mice|It was a story about a fish who wanted to fly}, and $f {laughed so much that it hurt|laughed for the first time in days}.
{Every day|Each afternoon} $h came again, {and each day $f ate a little more|and told how the story went on}.
After {a week|five days} $f {was well|could go out again}.
"{Your stories helped more than the medicine|You made me well}," said $f.
Q:Who was ill?|$f was ill.
Q:Who visited every day?|$h did.

contest
In the {village|town} there was a contest: {who could make the best $dish|who could build the highest tower|who had the best idea}.
$h {wanted to take part|signed up}, but $he {had no idea what to do|was afraid to lose}.
"{Do what you like best|Make it your own way}," said $f.
So $h {worked all night|tried many things}, {threw much away|began three times}, and {was ready just in time|had something new in the morning}.
{The judges|Three judges} {looked at everything|went from table to table}. They {stopped for a long time at $h's table|nodded}.
{First prize went to somebody else|$h came second}, {but people wanted to know how $he had made it|but everybody talked about $his idea}.
"{Are you sad|Did you want to win}?" asked $f. "{A little|Yes}," said $h, "but {now I know that I can do it|next year I know more}."
Q:Which place did $h reach?|$h did not win the first prize.
Q:Who gave $h advice?|$f did.

winter
{Winter came early|It was the coldest winter for years}. {Snow lay on|Ice covered} the $place.
$h {had gathered wood all summer|had a full cellar}, but $f {had only played|had thought there was time}.
One {icy night|evening} $f {knocked at the door|stood before the door}, {shaking with cold|with snow in the hair}.
"{My wood is gone|I have nothing left to burn}," said $f. "{May I warm myself|Can I come in}?"
$h {could have said: I told you so|remembered the warnings}, but {opened the door|said only: come in}.
They sat by the fire, {drank hot milk|ate $dish}, and {told stories|mended old socks} {until spring|the whole winter}.
{When spring came|In spring} $f {was the first to gather wood|worked from morning to night}.
"{I have learned it|Next winter you will come to me}," said $f.
Q:Who had no wood?|$f had none.
Q:Who opened the door?|$h did.

music
$h had {an old|a $colour} {flute|drum|violin|guitar} and {practised every day|played it all the time}.
At first it {sounded like a cat in a sack|sounded terrible}, and {the neighbours closed their windows|even the dog left the room}.
"{Give it up|Maybe try painting}," said {people|some}. Only $f {listened|said: it is already better than yesterday}.
$h {went on|played in the $place}, {where nobody could hear|where only birds listened}.
{Months went by|After a year} {there was a feast|the village had a feast}, and the musicians {did not come|were ill}.
"{I could play|Shall I try}," said $h {shyly|with a red face}.
{It grew quiet|Everybody listened}, then {somebody began to dance|feet began to tap}, and soon {the whole place danced|nobody sat any more}.
"{Was that the same instrument|Is that you}?" {people asked|asked $g}. "{Yes|It is}," said $h, "{only a year later|it just needed time}."
Q:Who listened from the beginning?|$f did.
Q:Where did $h practise?|$h practised in the $place.

kite
$h and $f {built|made} a {kite|large kite} out of {paper|old cloth} and {thin sticks|string}.
It was $colour with a {long|bright} tail, and it {flew higher than the trees|climbed into the sky}.
Then {the wind grew strong|a gust came}, the string {broke|slipped away}, and the kite {flew off|was gone}.
They {ran after it|followed it} {over fields and fences|through the $place}.
It hung {on the roof of the church|in the top of a tall tree|on the old mill}, {far too high|where nobody could reach it}.
"{I can climb up|I will get it}," said $f. "{No, that is dangerous|Wait}," said $h. "{Let us ask $g|We need a ladder}."
$g {came with a ladder|held the ladder}, and {soon they had it back|with a long stick they got it down}.
{The kite had a hole|One wing was torn}, {but they mended it|but glue and paper helped}.
"{Next time we take a stronger string|Now it flies even better}," said $h.
Q:What colour was the kite?|It was $colour.
Q:Who came with a ladder?|$g came.

secret
$f {told $h a secret|whispered something into $h's ear}: {$f was afraid of water|$f could not swim|$f still slept with an old bear}.
"{Do not tell anyone|Promise me}," said $f. "{I promise|Never}," said $h.
{At the $place|The next day} the others {asked|wanted to know}: "{Why does $f never come along|What is it with $f}?"
{It was on the tip of $h's tongue|$h nearly said it}, but $he {closed the mouth|said}: "{Ask $f yourself|That is not mine to tell}."
{They were angry|They called $him boring}, but $h {did not say a word|kept the promise}.
In the evening $f {had heard about it|came by}. "{You kept it|You said nothing}," said $f. "{Now I know whom I can trust|Thank you}."
{A week later|Some time later} $f {told the others|learned to do it}, with $h {at the side|close by}.
Q:Who told a secret?|$f did.
Q:Did $h keep the secret?|Yes, $h kept it.

swim
$h {could not swim|was afraid of deep water}, and {all others could|the others jumped into the $water every day}.
"{I have no time|I have a cold}," $he said {each time|whenever they asked}.
$f {noticed it|understood}. "{Let us go early, when nobody is there|I will show you}," said $f.
{In the first week|On the first day} $h {only put the feet in|stood in the water up to the knees}, {then up to the chest|then $he lay on the back while $f held $him}.
"{Breathe|Slowly}," said $f. "{The water carries you|Do not fight the water}."
{And one morning|After two weeks} $f {let go|took the hands away}, and $h {did not notice|swam on}.
"{I am swimming|Look}!" {called|cried} $h, {swallowed some water and laughed|and turned around}.
{In summer|A month later} $he {jumped in first|swam to the other side}.
Q:Who could not swim?|$h could not.
Q:Who taught $him?|$f did.

letter
A letter {came for|lay before the door of} $h, {without a name on it|with a strange stamp}.
"{I need your help|Come to the $place}," it said, "{on Friday at noon|when the sun goes down}. {Bring the $thing|Come alone}."
"{Who wrote this|What does it mean}?" asked $f. "{I do not know|We will see}," said $h.
{At the right time|On Friday} $h {stood|waited} at the $place, {and $f hid behind a tree|and $f was not far}.
{Steps came near|Somebody came}: it was $g, {laughing|with a cake in both hands}.
"{Happy birthday|Surprise}!" {called|cried} {everybody|a dozen voices}, and {friends jumped out|all the neighbours came} from {behind the bushes|all sides}.
$h {had forgotten the day|did not know what to say}.
"{You knew it|Did you know}?" $he asked $f. $f {grinned|only smiled}.
?They {ate|danced} until {the stars came out|late in the evening}.
Q:Who had written the letter?|$g had written it.
Q:Where did $h have to go?|$h had to go to the $place.

clock
The {big clock|old clock} of the {town|village} {stood still|had stopped}, and {nobody knew what time it was|everybody came late}.
{The clockmaker was away|Nobody could mend it}. "{I will look at it|Let me try}," said $h.
$He {climbed up the tower|went up the many steps} with $f, {who carried the lamp|who carried the tools}.
{Between the wheels|Deep inside} sat {a bird in its nest|a small $animal}, {with three eggs|fast asleep}.
"{If we start the clock, it will be hurt|We cannot turn the wheels now}," said $f.
$h {thought for a while|scratched the head}. "{Then the town has to wait|Then we ring the bell by hand}," $he said.
{For three weeks|Until the young could fly} $h {rang the bell every hour|climbed up every day}, {and $f counted|and $f helped}.
{Then the nest was empty|At last it moved out}, {they oiled the wheels|$h pushed the wheel}, and the clock {went again|began to tick}.
{People say it never was so exact|Since then a bird is painted on the clock}.
Q:Why had the clock stopped?|An animal sat inside.
Q:Who helped $h?|$f helped.

painter
$h {found|got} a box of paints and {wanted to paint|began to paint} {the $place|the house of $g}.
{But the tree looked like a broom|The first picture was a mess}, and the {sun|moon} {had a corner|ran down the paper}.
$He {tore it up|threw the brush away}. $f {picked up the pieces|took the paper}: "{I like it|It is wild}."
"{You only say that|You are joking}," said $h. "{No|Really}," said $f. "{Nobody else would paint it like this|I can see the wind in it}."
So $h painted {one each day|again}, {thirty days long|all through the spring}, and {$f hung them on the fence|$f kept them all}.
{Strangers stopped|People who walked by stopped} and {asked who the painter was|wanted to buy one}.
The first one, {glued together|with all its tears}, {$f never gave away|still hangs over $f's bed}.
Q:Who kept the first picture?|$f kept it.
Q:What did $h paint?|$h painted every day.

night_walk
$h and $f {wanted to see the stars|had heard of a night full of falling stars}.
They {took a blanket|packed $dish} and {climbed the hill behind|walked to} the $place.
{It was so dark|The night was so black}, that {they held hands|they had to feel their way}.
{On top|There} they {lay down|spread the blanket}, and {the sky was full|thousands of stars shone}.
"{There|Look}!" {called|whispered} $f. {A light ran across the sky|A star fell}. "{Make a wish|Wish something}."
$h {closed both eyes|thought of something}. "{What did you wish|Tell me}?" asked $f.
"{If I tell, it does not come true|That we come here again next year}," said $h.
They counted {seventeen|twenty-one|nine} falling stars before {they fell asleep|their eyes closed}.
{In the morning|At sunrise} $g {found them|woke them} {with warm tea|and carried the blanket}.
Q:What did they want to see?|They wanted to see the stars.
Q:Who came in the morning?|$g came.

helper
$g {had hurt a foot|was tired and old} and could not {work in the garden|carry the wood}.
"{I will do it|Leave it to me}," said $h, {though it was a lot of work|though friends were waiting}.
$He {pulled weeds|watered the beds} and {picked $fruit|carried twelve baskets}, {until the back hurt|until the sun was low}.
$f {came by|looked over the fence}: "{Come and play|Are you not finished yet}?" "{Not yet|When this is done}," said $h.
$f {sighed|thought for a moment}, {climbed over the fence|took a second bucket}, and {helped|worked too}.
{With two it went twice as fast|Side by side the work was half as long}, and they {sang|told jokes} {while they worked|all the time}.
{In the evening|When all was done} $g gave each of them {a jar of honey|a big piece of $dish}.
"{I could not have done it without you|You are the best helpers in the world}," said $g.
Q:Who had hurt a foot or was tired?|It was $g.
Q:Who helped $h in the end?|$f did.

train
$h and $f {took the train|went by train} to {the sea|the big city|their aunt} {for the first time alone|all by themselves}.
"{Get off at the fifth stop|Change at the old station}," $g had said. "{Ask if you do not know|And stay together}."
They {looked out of the window|played cards} and {talked|laughed} {so much that they forgot to count|and did not look up}.
"{How many stops was that|Where are we}?" asked $f {suddenly|with wide eyes}. Outside {they saw only fields|everything looked strange}.
$h {felt the heart beat|swallowed}, but {took a deep breath|stayed calm}. "{We ask|Let us ask the lady there}," $he said.
{The lady|A woman with a $colour hat} {smiled|put down the book}: "{You went two stops too far|One stop too far}. {Take the train back from the other side|I will show you}."
{Half an hour later|A little later} they {arrived|stood on the right platform}, {and the sea lay before them|where someone waved}.
"{That was a real adventure|We will count better on the way back}," said $f.
Q:Whom did they ask?|They asked a lady.
Q:How did they travel?|They went by train.

dragon
In {the mountains|a cave} {behind|above} the $place lived a dragon, {people said|so it was told}, and nobody {dared to go there|went near it}.
{Smoke came out of the cave|At night one saw a light}. "{I want to know whether it is true|Somebody has to look}," said $h.
$f {did not want to let $him go alone|came along, though with shaking knees}.
{The cave was warm|It smelled of ash}, and {in the corner|at the end} lay {a small dragon|a dragon, not larger than a horse}.
It {was crying|looked sad}. "{Everybody runs away|Nobody visits me}," it said. "{I only wanted to warm people|I have never hurt anyone}."
$h {sat down next to it|held out a hand}. "{Can you light an oven|In winter we are always cold}," $he said.
{So it came|And so it was} that the dragon {moved into the village|came down the mountain} and {heated the bakery|lit the lamps every evening}.
{The bread was never better|Nobody was cold any more}, and the dragon {was never alone again|learned to laugh}.
Q:Who went along with $h?|$f went along.
Q:Why was the dragon sad?|Nobody visited it.

well
The {summer was hot|sun had burned for weeks}, and {the well was dry|there was no water left in the well}.
{People quarrelled over every bucket|Everyone kept the last water for themselves}.
$h {remembered|had heard from $g} that {there was an old well in the $place|water ran deep under the $place}.
With $f $he {dug|began to dig}, {one day, two days|deeper and deeper}, and {others laughed|nobody helped}.
{On the third day|At last} {the ground was wet|the spade hit a wet stone}, and {cold water came up|a thin stream sprang out}.
"{It is ours|We could sell it}," said $f. $h {shook the head|looked at the thirsty village}. "{Water belongs to all|Call the others}," $he said.
{They came with jugs and buckets|Everybody drank}, {and those who had laughed were ashamed|and the quarrel was over}.
?The well is still called {the well of $h|after $h and $f}.
Q:What did they dig for?|They dug for water.
Q:Who wanted to sell the water?|$f thought of it.

twins
{Two strangers|Two brothers} came to the {village|inn}, and {nobody could tell them apart|they looked exactly alike}.
One {always told the truth|was honest}, the other {always lied|never said a true word}.
"{Which way leads to the city|Which of you took my $thing}?" asked $h. {Each pointed another way|One pointed left, the other right}.
$f {had an idea|thought for a long time}. "{Ask one of them what the other would say|We must ask what the other one would say}," whispered $f.
$h {did so|asked}. "{He would say left|My brother would point to the left}," was the answer. "{Then it is right|So we take the right way}," said $f.
{And so it was|They went right and arrived}.
"{How did you know|Explain it to me}," said $h. "{Both would give the wrong answer|The lie is in it once, whoever you ask}," said $f, "{so you take the other one|so the opposite is true}."
Q:Who had the idea?|$f had it.
Q:What should one ask?|What the other one would say.
"""

BETWEEN = ["The next day", "A week later", "Some days later", "In the following month", "When spring came", "One day in autumn", "Not long after", "On another day", "Soon after that", "A year later", "The following morning", "On the next Sunday"]
BETWEEN_LINES = ["{$t|$t,} something else happened.", "But that was not all that $h and $f lived through.", "{$t} the two had a new adventure.", "This was not the end.", "{$t} $h was out again with $f.", "Then came a day that neither of them forgot."]
ENDINGS = """{And so|So} they {stayed friends|were friends} {for ever|all their lives|for many years}.
{That evening|In the evening} they {went home|walked home} {happy and tired|hand in hand|under the stars}.
$h {never forgot that day|often thought of that day|still tells about it}.
{And if they have not moved away, they live there still|They still live near the $place today}.
"{Tomorrow is another day|Shall we meet again tomorrow}," said $f. "{Of course|I look forward to it}," said $h.
{That was a good day|It had been a good day}, $h thought, and {fell asleep|closed both eyes}.
{Everybody was happy|All was well again}.
{And that is the end of the story|This is how it was}."""

HOMES = ["a small house", "an old house", "a hut of wood", "a stone cottage", "a house with a $colour door", "a tower", "a wagon", "a narrow house", "a farm house", "a house on stilts"]
GROWNUPS = ["Grandmother", "Grandfather", "Mother", "Father", "Aunt Rosa", "Uncle Ben", "the baker", "the old miller", "the teacher", "the neighbour", "Mrs Hill", "Mr Brook", "the gardener", "the smith"]
