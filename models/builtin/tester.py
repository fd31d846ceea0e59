"""Cases by a tester, who had seen neither the training examples nor the other cases of the evaluation.

They include ordinary requests and tools, which the training examples contain too; those of `heldout` do not.
"""

from typing import Any, Final

from .lists import declared, listed

PLACES: Final = listed(
    """
    Lisbon;Nairobi;São Paulo;Reykjavík;Kuala Lumpur;Stratford-upon-Avon;Ulaanbaatar;Boise;Aix-en-Provence;
    New Orleans;Tbilisi;Zürich;Ho Chi Minh City;Tromsø;Kansas City;Bogotá;Winston-Salem;Hyderabad;Perth;Málaga;
    Salt Lake City;Gdańsk;Windhoek;Christchurch;Baden-Baden;Fukuoka;Santa Fe;Asunción;Leeds;Port Moresby;Göteborg;
    Marrakesh;San Luis Obispo;Vilnius;Saint-Étienne;Des Moines;Cluj-Napoca;Accra;Halifax;Ljubljana;Mexico City;Kyiv;
    Ouagadougou;Galway;Rio de Janeiro;Yellowknife;Düsseldorf;Chiang Mai;Punta Arenas;Truro
    """
)

TOPICS: Final = listed(
    """
    sourdough starter recipes;used electric bikes;history of the Silk Road;quantum computing basics;
    best hiking boots;symptoms of iron deficiency;cheap flights to Athens;how vaccines work;
    Champions League results;noise cancelling headphones;beginner piano lessons;the Voyager probes;
    vegan chocolate cake;Python list comprehensions;mortgage interest rates;Roman aqueducts;
    indoor plants for low light;Nobel Prize winners 2023;black holes;replacing a bicycle chain;
    monarch butterfly migration;dog-friendly cafés;solar panel grants;the Treaty of Westphalia;
    knitting patterns for socks;learning Portuguese;Marie Curie;home insulation costs;deep sea fish;
    jazz festivals in Europe
    """
)

WEATHER: Final = listed(
    """
    What's the weather like in {}?;How is the weather in {} today?;Tell me the current weather in {}.;
    Is it raining in {} right now?;What is the temperature in {}?;Weather for {}, please.;
    Can you check the weather in {} for me?;Give me the forecast for {}.;How hot is it in {}?;
    Is it sunny in {} today?;How cold is it in {} at the moment?;I'd like to know the weather in {}.;
    Do I need an umbrella in {}?;I'm flying to {} this afternoon. Should I pack a warm coat?;{} weather;
    My sister lives in {} and says it's pouring. Is that so?;Would shorts be a bad idea in {} today?;
    We're planning a picnic in {}. Will the sky cooperate?;any snow in {} yet?;
    What conditions can I expect outdoors in {}?;I want to hang my laundry outside here in {}. Good idea?;
    How windy does it get in {} this evening?;{}: sunglasses or raincoat?;
    Just landed in {}. What's it like outside?;Could you look up how many degrees they have over in {}?
    """
)

TIME: Final = listed(
    """
    What time is it in {}?;What's the current time in {}?;Tell me the time in {}, please.;
    What is the local time in {} right now?;Can you tell me what time it is in {}?;Current time in {}?;
    I need to know the time in {}.;Do you know what time it is in {} now?;Please check the time in {}.;
    Show me the local time for {}.;What time do they have in {}?;Could you give me the time in {}?;
    Is it too late to call someone in {}?;time {};What does the clock say in {}?;
    My boss is in {} this week. Is she still asleep, do you think?;How late is it over in {}?;
    I have to ring a client in {}. Have their offices opened yet?;Is it morning or evening in {} at the moment?;
    I just arrived in {} and have to set my watch. What should I set it to?;{} time now?;
    If I looked at a wall clock in {} this second, what would it show?;Has midnight passed in {} already?;
    What hour is it for people living in {}?;Hey, quick one: the time over in {}?
    """
)

SEARCH: Final = listed(
    """
    Search the web for {}.;Search for {}.;Look up {} online.;Can you find information about {}?;Google {} for me.;
    Please search the internet for {}.;Find me some articles on {}.;Do a web search for {}.;
    I'd like you to look up {}.;Could you search for {} please?;Find websites about {}.;
    Show me search results for {}.;What does the internet have to say about {}?;See what you can dig up on {}.;
    I'm writing a short piece and need sources on {}.;Have a look online for {}, would you?;search: {};
    My daughter keeps asking me about {}. Can you find something on the web?;Let's do some research on {}.;
    Pull up a few pages about {}.;Is there anything on the web about {}?;
    I want to read more about {}. Find me a good link.;Any recent news on {}?;
    Hunt down something useful on {} for me.;Run a quick query for {} and tell me what comes up.
    """
)

CALCULATION: Final = listed(
    """
    What is {}?;Calculate {}.;How much is {}?;Can you work out {} for me?;Please compute {}.;
    What's the result of {}?;Solve {}.;Tell me what {} is.;{} = ?;I need the answer to {}.;
    What do I get if I do {}?;Evaluate this for me: {};My kid's homework says {}. What's the right answer?;
    Quick maths: {};I can't find my calculator. What does {} come to?;Help me with a sum, it's {}.;
    {} makes how much?;Could you double-check {} for my invoice?;Punch {} into the calculator, please.;
    I never manage {} in my head. Would you?
    """
)

# As written, and as calculated.
EXPRESSIONS: Final = (
    ("12 times 7", "12 * 7"),
    ("3.5+2", "3.5+2"),
    ("(1 + 2) * 9", "(1 + 2) * 9"),
    ("48 divided by 6", "48 / 6"),
    ("1024 - 377", "1024 - 377"),
    ("19 plus 64", "19 + 64"),
    ("250 minus 88", "250 - 88"),
    ("81/9", "81/9"),
    ("17 * 23", "17 * 23"),
    ("6 plus 7 plus 8", "6 + 7 + 8"),
    ("99.95 * 4", "99.95 * 4"),
    ("(45 - 9) / 4", "(45 - 9) / 4"),
    ("2.5 times 16", "2.5 * 16"),
    ("1500 divided by 12", "1500 / 12"),
    ("7 * (8 + 5)", "7 * (8 + 5)"),
    ("36000/365", "36000/365"),
    ("5003 minus 47", "5003 - 47"),
    ("8*8-3", "8*8-3"),
    ("0.75 plus 1.6", "0.75 + 1.6"),
    ("100 - 20 * 3", "100 - 20 * 3"),
)

_TEXT: Final = {"type": "string"}

TOOLS: Final[dict[str, list[dict[str, Any]]]] = {
    "weather": [
        declared(
            "get_weather", "Get the current weather for a location.", location={**_TEXT, "description": "City name"}
        ),
        declared("weather", "", city=_TEXT),
        declared(
            "getCurrentWeather",
            "Returns the current weather conditions in a given city.",
            city={**_TEXT, "description": "The city, e.g. Boston"},
        ),
        declared(
            "fetch_forecast",
            "Fetch the weather forecast.",
            place={**_TEXT, "description": "The place to fetch the forecast for"},
        ),
        declared("meteo_lookup", "Temperature, wind and rain for any town on Earth.", town=_TEXT),
        declared(
            "SkyReport",
            "Tells you what it is like outside.",
            where={**_TEXT, "description": "Where to look at the sky"},
        ),
        declared(
            "wx_now",
            "Live weather observations from the nearest station.",
            q={**_TEXT, "description": "Name of the place"},
        ),
        declared(
            "climate.conditions",
            "Reads out the present weather at a named spot.",
            spot_name={**_TEXT, "description": "Town or city"},
        ),
    ],
    "time": [
        declared("get_time", "Get the current time in a location.", location={**_TEXT, "description": "City name"}),
        declared("current_time", "", city=_TEXT),
        declared(
            "getLocalTime",
            "Returns the local time of a given city.",
            cityName={**_TEXT, "description": "The name of the city"},
        ),
        declared(
            "time_in_place",
            "Current local time for a place.",
            place={**_TEXT, "description": "Place to get the time for"},
        ),
        declared("world_clock", "A clock for every city in the world.", town=_TEXT),
        declared(
            "WhatHourIsIt",
            "Tells the hour and minute where somebody is.",
            whereabouts={**_TEXT, "description": "The town in question"},
        ),
        declared(
            "tz_now",
            "Look up the time zone of a place and return its wall-clock time.",
            q={**_TEXT, "description": "Place name"},
        ),
        declared(
            "clock.read",
            "Reads the clock in a distant city.",
            target={**_TEXT, "description": "City whose clock is read"},
        ),
    ],
    "search": [
        declared("web_search", "Search the web.", query={**_TEXT, "description": "The search query"}),
        declared("search", "", query=_TEXT),
        declared(
            "searchInternet",
            "Searches the internet and returns the top results.",
            q={**_TEXT, "description": "Search terms"},
        ),
        declared("google_search", "Run a Google search.", search_term={**_TEXT, "description": "What to search for"}),
        declared("find_online", "Finds pages about a subject.", subject=_TEXT),
        declared(
            "AskTheWeb",
            "Sends your keywords to a search engine and lists the links.",
            keywords={**_TEXT, "description": "Words to look for"},
        ),
        declared("ddg", "DuckDuckGo web search.", text={**_TEXT, "description": "The text of the search"}),
        declared(
            "browse.lookup",
            "Look something up on the internet.",
            topic={**_TEXT, "description": "The topic to look up"},
        ),
    ],
    "calculation": [
        declared(
            "calculator",
            "Evaluate an arithmetic expression.",
            expression={**_TEXT, "description": "The expression to evaluate"},
        ),
        declared("calculate", "", expression=_TEXT),
        declared(
            "evalExpression",
            "Evaluates a mathematical expression and returns the result.",
            expr={**_TEXT, "description": "E.g. 2 + 2"},
        ),
        declared("do_math", "Does basic arithmetic.", input={**_TEXT, "description": "The arithmetic to do"}),
        declared("abacus", "Adds, subtracts, multiplies and divides numbers.", sum=_TEXT),
        declared(
            "NumberCruncher",
            "Crunches a formula down to one number.",
            formula={**_TEXT, "description": "Formula with + - * /"},
        ),
        declared("bc", "Pocket calculator.", line={**_TEXT, "description": "One line of arithmetic"}),
        declared(
            "math.solve",
            "Works out the value of a numeric expression.",
            problem={**_TEXT, "description": "Expression such as (3 + 4) * 5"},
        ),
    ],
}

# Tools beyond the four intents, each with a request and the arguments it asks for.
OTHERS: Final[list[tuple[dict[str, Any], str, dict[str, Any]]]] = [
    (
        declared("play_song", "Play a song.", title={"type": "string"}),
        "Play Bohemian Rhapsody, please.",
        {"title": "Bohemian Rhapsody"},
    ),
    (
        declared("set_volume", "Set the speaker volume in percent.", level={"type": "integer"}),
        "Set the volume to 35.",
        {"level": 35},
    ),
    (
        declared("turn_on_light", "Turn on the light in a room.", room={"type": "string"}),
        "It's dark in the hallway, switch the light on.",
        {"room": "hallway"},
    ),
    (
        declared(
            "set_thermostat", "Set the target temperature of the heating in degrees.", degrees={"type": "integer"}
        ),
        "I'd like the heating at 21 degrees.",
        {"degrees": 21},
    ),
    (
        declared("add_to_shopping_list", "Add an item to the shopping list.", item={"type": "string"}),
        "We're out of olive oil. Put olive oil on the shopping list.",
        {"item": "olive oil"},
    ),
    (
        declared("start_timer", "Start a countdown timer.", minutes={"type": "integer"}),
        "Start a timer for 12 minutes.",
        {"minutes": 12},
    ),
    (
        declared("call_contact", "Place a phone call to a contact.", name={"type": "string"}),
        "Call Margaret for me.",
        {"name": "Margaret"},
    ),
    (
        declared("track_order", "Show the delivery status of an order.", order_number={"type": "integer"}),
        "Where is my order 58213?",
        {"order_number": 58213},
    ),
    (
        declared("open_app", "Open an application on the device.", app_name={"type": "string"}),
        "Open Spotify.",
        {"app_name": "Spotify"},
    ),
    (
        declared("lock_door", "Lock one of the doors of the house.", door={"type": "string"}),
        "Could you lock the garage door?",
        {"door": "garage"},
    ),
    (
        declared("translate_word", "Translate an English word into French.", word={"type": "string"}),
        "How do you say butterfly in French?",
        {"word": "butterfly"},
    ),
    (
        declared("book_meeting_room", "Reserve a meeting room by its number.", room_number={"type": "integer"}),
        "Reserve meeting room 304 for my team.",
        {"room_number": 304},
    ),
    (
        declared("define_word", "Give the dictionary definition of a word.", word={"type": "string"}),
        "What does serendipity mean?",
        {"word": "serendipity"},
    ),
    (
        declared("print_copies", "Print copies of the open document.", copies={"type": "integer"}),
        "Print 8 copies of this document.",
        {"copies": 8},
    ),
    (
        declared("stock_quote", "Get the latest share price of a company.", company={"type": "string"}),
        "How are shares of Siemens doing?",
        {"company": "Siemens"},
    ),
    (
        declared("water_plants", "Run the garden sprinkler.", minutes={"type": "integer"}),
        "The garden looks dry, run the sprinkler for 15 minutes.",
        {"minutes": 15},
    ),
    (
        declared("find_recipe", "Find a recipe for a dish.", dish={"type": "string"}),
        "I want to cook mushroom risotto tonight. Got a recipe?",
        {"dish": "mushroom risotto"},
    ),
    (
        declared("roll_die", "Roll a die with the given number of sides.", sides={"type": "integer"}),
        "Roll a die with 20 sides.",
        {"sides": 20},
    ),
    (
        declared("play_playlist", "Start a playlist of the user.", playlist={"type": "string"}),
        "Put on my Sunday Morning playlist.",
        {"playlist": "Sunday Morning"},
    ),
    (
        declared("dim_lights", "Dim the living room lights to a percentage.", percent={"type": "integer"}),
        "Make the living room cosy, lights down to 40 percent.",
        {"percent": 40},
    ),
    (
        declared("delete_file", "Delete a file.", filename={"type": "string"}),
        "Please delete report_old.pdf.",
        {"filename": "report_old.pdf"},
    ),
    (
        declared("tv_channel", "Switch the television to a channel.", channel={"type": "integer"}),
        "Switch the TV to channel 7.",
        {"channel": 7},
    ),
    (
        declared("lookup_customer", "Fetch a customer record by e-mail address.", email={"type": "string"}),
        "Bring up the customer with the e-mail anna.berg@example.com.",
        {"email": "anna.berg@example.com"},
    ),
    (
        declared("check_stock", "Check whether a product is in stock in the shop.", product={"type": "string"}),
        "Do we still have blue ceramic mugs in stock?",
        {"product": "blue ceramic mugs"},
    ),
]

CHAT: Final = listed(
    """
    Hello!;Hi, how are you doing?;Good morning.;Thanks a lot, that helped.;Who are you?;What's your name?;
    What can you do?;Tell me a joke.;Goodbye, see you later.;Are you a robot?;I'm a bit tired today.;
    You're really helpful.;Nice to meet you.;Can we talk for a minute?;I'm so happy, I passed my exam!;
    Do you have feelings?;My cat knocked over my coffee again.;Sorry, I didn't mean to be rude.;
    Please say something nice to me.;I don't like Mondays.;What's your favourite colour?;Never mind.;Who made you?;
    That was a silly answer.;I feel lonely sometimes.;Write me a two-line poem about friendship.;ok cool;
    Do you ever get bored?;My name is Oscar, by the way.;Have a lovely weekend!
    """
)

# Requests for the weather of two places, and for the time of three.
PAIRS: Final = listed(
    """
    What's the weather in {} and in {}?;Tell me the weather for {} and {}, please.;
    How warm is it in {}, and how warm is it in {}?;Is it raining in {} or in {}?;
    I'm travelling from {} to {} tomorrow. What's the weather like in both?;
    Compare the weather in {} with the weather in {}.;Which is sunnier today, {} or {}?;
    Give me the forecast for {}. Then do the same for {}.
    """
)

TRIPLES: Final = listed(
    """
    What time is it in {}, {} and {}?;Tell me the local time in {}, in {} and in {}.;
    We have a call with people from {}, {} and {}. What time is it for each of them?;
    Current time please: {}, {}, {}.
    """
)

# What tools return, and what an answer must say about it.
RESULTS: Final[list[tuple[str, list[str]]]] = [
    ('{"temperature": 18, "condition": "cloudy"}', ["18", "cloudy"]),
    ('{"city": "Oslo", "temp_c": -4, "sky": "light snow", "wind_kmh": 22}', ["-4", "light snow"]),
    ("Sunny, 31°C, humidity 40%", ["31", "unny"]),
    ('{"time": "14:35"}', ["14:35"]),
    ("It is 06:12 on Thursday.", ["06:12"]),
    ('{"local_time": "23:48", "timezone": "CET"}', ["23:48"]),
    ("437", ["437"]),
    ('{"result": 96.25}', ["96.25"]),
    ('{"status": "ok", "room": "kitchen", "light": "on"}', ["kitchen", "on"]),
    ('{"order": 77120, "state": "shipped", "arrives": "Friday"}', ["shipped", "Friday"]),
    ('{"results": [{"title": "Bees of Britain", "url": "https://example.org/bees"}]}', ["Bees of Britain"]),
    ("Error: city not found", ["not found"]),
]
