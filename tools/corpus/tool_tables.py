# What tools are made of: kinds of arguments, and things that tools do. kind_tools.py composes schemas and requests from them.
import words as w

# key: names; type; descriptions; values; how a request says it. Values are lists, or "int LOW HIGH", or a word that kind_tools.py knows.
ARGS = {
    "city": ("city|town|location|place|city_name", "string", "Name of the city|The city|Which city", w.CITIES, "in $v|for $v"),
    "from_city": ("from|origin|start|departure_city|from_city", "string", "Where the trip begins|Start of the trip|City to leave from", w.CITIES, "from $v"),
    "to_city": ("to|destination|target|arrival_city|to_city", "string", "Where the trip ends|Destination|City to go to", w.CITIES, "to $v"),
    "date": ("date|day|on_date|when", "string", "The day|Date of it|Day or date", "date", "on $v"),
    "time": ("time|at|start_time|clock_time", "string", "Time of day, HH:MM|Clock time|When, as HH:MM", "clock", "at $v"),
    "until": ("until|end_time|end|to_time", "string", "End, HH:MM|When it ends", "clock", "until $v"),
    "minutes": ("minutes|duration|duration_minutes|length_minutes", "integer", "How many minutes|Length in minutes|Duration in minutes", "int 1 90", "for $v minutes"),
    "seconds": ("seconds|delay|wait_seconds", "integer", "How many seconds|Delay in seconds", "int 2 120", "after $v seconds"),
    "days": ("days|n_days|day_count", "integer", "How many days|Number of days", "int 2 14", "for $v days"),
    "nights": ("nights|stay|night_count", "integer", "How many nights|Nights to stay", "int 1 14", "for $v nights"),
    "people": ("people|guests|seats|party_size|persons", "integer", "How many people|Number of guests", "int 1 12", "for $v people"),
    "label": ("label|title|name", "string", "A name for it|Title|Label to show", "label", "called $v|named $v|with the name $v"),
    "person": ("person|name|contact|who", "string", "The person|Name of the person|Who it is", "name", "for $v"),
    "recipient": ("recipient|to|receiver|contact", "string", "Who gets it|Name of the receiver|Person to send it to", "name", "to $v"),
    "partner": ("with|partner|attendee|guest", "string", "Who takes part|The other person", "name", "with $v"),
    "text": ("text|message|content|body", "string", "What it says|The text|Words to send", "sentence", 'saying "$v"|with the text "$v"|that says "$v"'),
    "topic": ("topic|subject|theme|about", "string", "What it is about|The topic|Subject", w.HOBBIES + w.COMMON[:60], "about $v|on the topic of $v"),
    "query": ("query|search|term|keywords|q", "string", "What to look for|Search words|The query", "query", 'for "$v"|about "$v"'),
    "room": ("room|where|area|zone", "string", "Which room|The room", "kitchen,bedroom,bathroom,hall,office,garage,living room,attic,cellar,nursery".split(","), "in the $v"),
    "degrees": ("degrees|temperature|target|value", "integer", "Degrees Celsius|Wanted temperature", "int 15 28", "to $v degrees"),
    "percent": ("percent|level|brightness|amount", "integer", "From 0 to 100|Percent|Level in percent", "int 1 100", "to $v percent"),
    "colour": ("colour|color|shade|paint", "string", "The colour|Which colour", w.COLOURS, "in $v|in the colour $v"),
    "size": ("size|format|scale", "enum small,medium,large", "How large|The size", None, "in size $v|in the size $v"),
    "priority": ("priority|importance|level", "enum low,normal,high", "How important it is|Priority", None, "with $v priority"),
    "unit": ("unit|units|scale", "enum celsius,fahrenheit", "Unit of the temperature|Which scale", None, "in $v"),
    "language": ("language|target_language|lang|to_language", "string", "The language|Language to use", "French German Spanish Italian Polish Dutch Greek Turkish Swedish Danish Czech".split(), "into $v|in $v"),
    "euros": ("euros|amount|price|sum|max_price", "number", "Amount in euros|How much money|Sum in euros", "int 2 900", "for $v euros"),
    "quantity": ("quantity|count|number|pieces", "integer", "How many|Number of pieces", "int 1 40", "with a quantity of $v"),
    "product": ("product|item|article|goods", "string", "What to buy|The product|Which article", w.THINGS, "of the $v"),
    "items": ("items|things|entries|list", "array", "All items|List of things|What to put on it", w.FRUIT + w.FOOD, "with $v"),
    "currency_from": ("from_currency|source|base|from", "string", "Currency code to convert from|Code of the first currency", "EUR USD GBP JPY CHF SEK PLN".split(), "from $v"),
    "currency_to": ("to_currency|target|quote|to", "string", "Currency code to convert to|Code of the second currency", "NOK DKK CAD AUD INR CZK HUF".split(), "to $v"),
    "song": ("song|track|title|tune", "string", "Title of the song|Which song", "title", 'the song "$v"'),
    "artist": ("artist|band|by|singer", "string", "Who plays it|Name of the artist", "band", "by $v"),
    "genre": ("genre|style|type|category", "string", "Kind of music or film|Genre", "jazz rock pop folk classical comedy drama western opera blues".split(), "of the genre $v"),
    "file": ("file|path|filename|document", "string", "Name of the file|The file", "file", "named $v"),
    "folder": ("folder|directory|target_folder|dir", "string", "Name of the folder|Where to put it", "photos music letters bills work school travel backup old drafts".split(), "to the folder $v|in the folder $v"),
    "email": ("email|address|mail|email_address", "string", "Email address|Where to mail it", "email", "to $v"),
    "phone": ("phone|phone_number|number|tel", "string", "Phone number|The number", "phone", "to the number $v"),
    "url": ("url|link|site|address", "string", "Address of the page|Link", "url", "at $v"),
    "id": ("id|number|order_id|reference|code", "integer", "The number of it|Reference number", "int 100 99999", "with the number $v"),
    "food": ("dish|food|meal|recipe", "string", "The dish|What to cook|Name of the meal", w.FOOD, "for $v"),
    "stars": ("stars|rating|score|points", "integer", "Stars from 1 to 5|Rating", "int 1 5", "with $v stars"),
    "urgent": ("urgent|is_urgent|now|express", "boolean", "True when it is urgent|Whether it is in a hurry", None, "urgently"),
    "repeat": ("repeat|daily|every_day|recurring", "boolean", "True to repeat it every day|Whether it repeats", None, "every day"),
    "width": ("width|w|width_px", "integer", "Width in pixels|How wide", "int 10 2000", "with a width of $v"),
    "height": ("height|h|height_px", "integer", "Height in pixels|How high", "int 10 2000", "with a height of $v"),
    "weight": ("weight|kg|weight_kg|mass", "number", "Weight in kilograms|How heavy it is", "decimal 1 90", "weighing $v kilograms"),
    "first_number": ("a|x|first|left", "integer", "First number|The first value", "int 1 500", "of $v"),
    "second_number": ("b|y|second|right", "integer", "Second number|The second value", "int 1 500", "and $v"),
    "station": ("station|stop|from_station|platform", "string", "The station|Name of the stop", "station", "at $v"),
    "team": ("team|club|side", "string", "Name of the team|Which club", "team", "of $v"),
    "plant": ("plant|flower|crop", "string", "Which plant|Name of the plant", "rose tulip fern cactus basil tomato orchid ivy mint lemon".split(), "for the $v"),
    "animal": ("animal|pet|species", "string", "Which animal|Kind of pet", w.ANIMALS[:30], "for the $v"),
    # met only in tools that are held out
    "floor": ("floor|level|storey", "integer", "Which floor|Number of the floor", "int 1 30", "to floor $v"),
    "lane": ("lane|track|row", "integer", "Number of the lane|Which lane", "int 1 9", "on lane $v"),
    "depth": ("depth|metres_down|depth_m", "integer", "Depth in metres|How deep", "int 1 80", "to a depth of $v metres"),
    "flavour": ("flavour|taste|syrup", "string", "Which flavour|The taste", "vanilla mint lemon cherry caramel coconut ginger banana".split(), "with the flavour $v"),
    "planet": ("planet|body|world", "string", "Which planet|Name of the planet", "Mars Venus Jupiter Saturn Neptune Mercury Uranus".split(), "on $v"),
}

# name; i: asks for something, d: does something; verbs; what it is about; nouns for the function's name; arguments (! required); fields
# of the result; the answer.
OBJECTS = """
weather|i|get,check,fetch,show|the current weather|weather,current_weather|city! unit|temperature:int -5 35,sky:weather|It is $temperature degrees and $sky in $city.
forecast|i|get,fetch,read|the weather forecast|forecast,weather_forecast|city! date days|low:int -5 12,high:int 13 33|Between $low and $high degrees are expected in $city.
clock|i|get,show,read|the local time|time,local_time,world_clock|city!|time:clock|It is $time in $city.
exchange|i|get,convert,find|the exchange rate|exchange_rate,currency,rate|currency_from! currency_to! date|rate:decimal 1 12|The rate from $currency_from to $currency_to is $rate.
stock|i|get,find,look_up|the stock price|stock_price,share_price|team! date|price:int 5 900|The price is $price euros.
news|i|get,find,read,fetch|the latest news|news,headlines|topic! language|headline:sentence|The news: $headline
contact|i|find,look_up,get|the phone number|contact,phone_number,contact_details|person!|phone:phone|The number of $person is $phone.
address|i|find,get,look_up|the postal address|address,postal_address|person! city|street:street|$person lives at $street.
route|i|find,plan,get|the best route|route,directions,way|from_city! to_city! time|km:int 20 900,hours:int 1 9|From $from_city to $to_city it is $km kilometres and takes about $hours hours.
train|i|find,search,get|the next train|train,connection,next_train|from_city! to_city! date time|time:clock,platform:int 1 20|The train to $to_city leaves at $time from platform $platform.
flight|i|find,search,look_up|the cheapest flight|flight,flights,air_fare|from_city! to_city! date people|price:int 40 700,time:clock|The flight from $from_city to $to_city costs $price euros and leaves at $time.
price|i|get,check,find|the price|price,product_price|product!|price:int 2 300|It costs $price euros.
stock_level|i|check,get,count|the stock|stock_level,inventory,warehouse|product! city|pieces:int 0 80|There are $pieces pieces left.
parcel_status|i|track,get,check|the state of the parcel|parcel,delivery_status,shipment|id!|state:parcel|The parcel $id is $state.
recipe|i|find,get,search|a recipe|recipe,cooking_steps|food! people|minutes:int 10 90|Here is a recipe for $food that takes $minutes minutes.
calories|i|get,count,look_up|the calories|calories,nutrition|food! quantity|calories:int 50 900|That has $calories calories.
definition|i|find,get,look_up|an article|article,encyclopedia_entry,page|topic! language|text:sentence|The article says: $text
wiki|i|search,query,find|information|web,search_engine,pages|query! language|result:sentence|I found this: $result
calendar|i|get,show,list|the appointments|calendar,appointments,agenda|date! partner|event:label,time:clock|There is $event at $time.
mailbox|i|read,get,check|the newest email|mail,inbox,newest_email|person! date|text:sentence|The newest email says: $text
bus|i|find,get,check|the next bus|bus,next_bus,departure|station! time|line:int 1 99,time:clock|Bus $line leaves at $time.
score|i|get,fetch,check|the result of the match|score,match_result|team! date|goals:int 0 5,against:int 0 5|It ended $goals to $against.
sunrise|i|get,find|the time of sunrise|sunrise,sun_times|city! date|time:clock|The sun rises at $time in $city.
population|i|get,look_up|the number of inhabitants|population,inhabitants|city!|people:int 2000 900000|$city has $people inhabitants.
account|i|check,get,show|the account balance|balance,account|person! date|euros:int 10 9000|The balance is $euros euros.
sum|i|compute,calculate,get|the sum|sum,addition,total|first_number! second_number!|result:int 2 1000|The sum is $result.
product_of|i|compute,calculate,multiply|the product|product,multiplication|first_number! second_number!|result:int 2 9000|The product is $result.
room_temperature|i|get,read,measure|the temperature|room_temperature,thermometer,climate|room! unit|degrees:int 14 29|It is $degrees degrees in the $room.
plant_care|i|get,find|the watering plan|plant_care,watering_plan|plant!|days:int 1 14|Water the $plant every $days days.
vet_hours|i|find,get|the opening hours of the vet|vet_hours,vet|animal! city date|time:clock|The vet opens at $time.
movie|i|find,search,suggest|a film|film,movie|genre! language stars|title:title|I suggest "$title".
alarm|d|set,create,add|an alarm|alarm,wake_up_call|time! label repeat|id:int 1 99|The alarm is set for $time.
timer|d|set,start,create|a timer|timer,countdown|minutes! label|id:int 1 99|The timer runs for $minutes minutes.
reminder|d|create,add,set|a reminder|reminder,memo|text! date time|id:int 1 99|I will remind you.
meeting|d|create,schedule,plan|a meeting|meeting,appointment,event|date! time! partner label|id:int 100 999|The meeting is planned for $date at $time.
note|d|write,save,create|a note|note,memo_text|text! folder|id:int 1 999|The note is saved.
list|d|create,make,write|a shopping list|shopping_list,list|items! label|count:int 1 9|The list is ready.
task|d|add,create,insert|a task|task,todo,job|label! priority date|id:int 1 999|The task $label is added.
email|d|send,write,mail|an email|email,mail,letter|email! text! topic|state:sent|The email is sent to $email.
sms|d|send,write|a text message|sms,text_message,message|recipient! text! urgent|state:sent|The message to $recipient is sent.
call|d|start,make,place|a call|call,phone_call|phone! time|state:called|The call is placed.
payment|d|make,send,transfer|a payment|payment,transfer,money|recipient! euros! topic|id:int 1000 9999|$euros euros are sent to $recipient.
table|d|book,reserve,order|a table|table,restaurant|people! time! date city|id:int 100 999|The table for $people is booked at $time.
hotel|d|book,reserve,find|a hotel room|hotel,room,stay|city! nights! people date|price:int 50 900|The room in $city is booked for $nights nights and costs $price euros.
ticket|d|buy,book,order|a train ticket|ticket,train_ticket,seat|from_city! to_city! date people|price:int 9 200|The ticket to $to_city costs $price euros.
taxi|d|call,order,book|a taxi|taxi,cab,ride|from_city to_city! time|minutes:int 2 25|The taxi to $to_city comes in $minutes minutes.
pizza|d|order,buy|a pizza|pizza,delivery|size! people urgent|minutes:int 15 60|The pizza comes in $minutes minutes.
order|d|place,create,make|an order|order,purchase|product! quantity! colour|id:int 1000 9999|The order has the number $id.
cancel|d|cancel,delete,remove|the booking|booking,reservation|id! urgent|state:cancelled|The booking $id is cancelled.
light|d|dim,set,change|the light|light,lamp,brightness|percent! room! colour|state:done|The light in the $room is at $percent percent.
heating|d|set,change,turn|the heating|heating,thermostat|degrees! room|state:done|The heating is set to $degrees degrees.
blinds|d|move,set,lower|the blinds|blinds,shades|percent! room|state:done|The blinds are at $percent percent.
music|d|play,start|some music|music,player|genre! minutes room|title:title|Now playing "$title".
play_song|d|play,start,queue|on the speaker|song,track|song! artist room|state:done|I play "$song".
volume|d|set,change|the volume|volume,loudness|percent! room|state:done|The volume is at $percent percent.
photo|d|resize,crop,scale|the picture|picture,image,photo|width! height! file|state:done|The picture is now $width by $height.
translate|d|translate,convert|a sentence|translation,text|text! language!|text:sentence|In $language: $text
summary|d|write,make,create|a summary|summary,digest|topic! language size|text:sentence|Here it is: $text
file_move|d|move,copy,put|the file|file,document|file! folder!|state:done|$file is in the folder $folder.
file_delete|d|delete,remove,erase|the file|file,document|file! urgent|state:done|$file is deleted.
backup|d|start,make,create|a backup|backup,copy_of_data|folder! time repeat|id:int 1 999|The backup of $folder has the number $id.
download|d|download,fetch,get|a page|page,website|url! folder|kb:int 2 900|The page has $kb kilobytes.
review|d|write,post,submit|a review|review,rating|stars! text product|state:sent|The review with $stars stars is posted.
robot|d|start,send,run|the vacuum robot|vacuum,robot,cleaner|room! minutes time|state:done|The robot cleans the $room.
coffee|d|make,brew,start|a coffee|coffee,coffee_machine|size! time|minutes:int 1 5|The coffee is ready in $minutes minutes.
feed|d|feed,serve,give|some food|feeder,pet_food|animal! weight time|state:done|The $animal has food.
watering|d|start,plan,turn_on|the watering|watering,sprinkler|plant! minutes time|state:done|The $plant gets water.
poll|d|create,start,open|a poll|poll,vote,survey|topic! days items|id:int 1 999|The poll has the number $id.
gift|d|send,order,wrap|a gift|gift,present|recipient! product! euros|state:sent|The gift for $recipient is on its way.
"""

# Never in training, with their kinds of arguments above.
HELD_OBJECTS = """
elevator|d|send,move,call|the elevator|elevator,lift|floor! urgent|state:done|The elevator goes to floor $floor.
bowling|d|reserve,book|a bowling lane|bowling_lane,bowling|lane! people! time|id:int 100 999|Lane $lane is booked.
diving|d|plan,log|a dive|dive,dive_trip|depth! minutes! partner|id:int 1 99|The dive to $depth metres is planned.
ice_cream|d|order,mix,make|an ice cream|ice_cream,sundae|flavour! size quantity|minutes:int 1 9|The ice cream with $flavour is ready in $minutes minutes.
day_length|i|get,compute|the length of a day|day_length,rotation|planet!|hours:int 9 6000|A day on $planet has $hours hours.
ferry|i|find,look_up|the next ferry|ferry,ship_connection|from_city! to_city! date|time:clock|The ferry to $to_city leaves at $time.
haircut|d|book,arrange|a haircut|haircut,hairdresser|date! time! person|id:int 1 999|The haircut is on $date at $time.
library_loan|d|extend,renew|the loan|loan,library_loan|id! days|date:date|The loan runs until $date.
pollen|i|check,read|the pollen level|pollen,pollen_level|city! plant|level:int 1 9|The pollen level in $city is $level.
tide|i|get,look_up|the next high tide|tide,high_tide|city! date|time:clock|High tide in $city is at $time.
invoice|d|write,create,issue|an invoice|invoice,bill|recipient! euros! days|id:int 1000 9999|The invoice for $recipient has the number $id.
parking|d|find,reserve|a parking space|parking,parking_space|city! minutes! weight|place:int 1 300|Space $place in $city is yours.
telescope|d|point,turn|the telescope|telescope,observatory|planet! time minutes|state:done|The telescope looks at $planet.
greenhouse|d|open,set|the greenhouse roof|greenhouse,roof|percent! time|state:done|The roof is open to $percent percent.
choir|i|find,list|the rehearsal|rehearsal,choir|team! date|time:clock|The rehearsal begins at $time.
postcard|d|print,send|a postcard|postcard,card|recipient! text! colour|state:sent|The postcard to $recipient is on its way.
"""


def objects(text):
    out = []
    for line in text.strip().split("\n"):
        name, kind, verbs, phrase, nouns, args, fields, done = line.split("|")
        out.append({"name": name, "kind": kind, "verbs": verbs.split(","), "phrase": phrase, "nouns": nouns.split(","),
                    "args": [(x.rstrip("!"), x.endswith("!")) for x in args.split()],
                    "fields": [tuple(x.split(":")) for x in fields.split(",")], "answer": done})
    return out


OBJECTS = objects(OBJECTS)
HELD_OBJECTS = objects(HELD_OBJECTS)

# first tool, field of its result, second tool, argument that takes it, the request
CHAINS = [("contact", "phone", "call", "phone", "find the phone number of {person} and call it"),
          ("contact", "phone", "call", "phone", "call {person}; the number is in the contacts"),
          ("price", "price", "payment", "euros", "find the price of the {product} and send that sum to {recipient}"),
          ("sunrise", "time", "alarm", "time", "set an alarm for sunrise in {city}"),
          ("movie", "title", "task", "label", "find a film of the genre {genre} and add a task with its title"),
          ("calendar", "time", "alarm", "time", "look up my appointment on {date} and set an alarm for that time"),
          ("bus", "time", "alarm", "time", "find the next bus at {station} and wake me when it leaves"),
          ("recipe", "minutes", "timer", "minutes", "find a recipe for {food} and start a timer for as long as it takes"),
          ("train", "time", "taxi", "time", "find the next train from {from_city} to {to_city} and order a taxi to {to_city} at that time"),
          ("plant_care", "days", "poll", "days", "look up how often the {plant} needs water and open a poll about {topic} for that many days"),
          ("account", "euros", "payment", "euros", "check the balance of {person} and transfer all of it to {recipient}"),
          ("room_temperature", "degrees", "heating", "degrees", "measure the temperature in the {room} and set the heating to the same")]
