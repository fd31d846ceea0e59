"""Data that only the evaluation uses: places, tools and phrases that the training examples cannot contain.

`words.made_up` refuses the words of these names, and a test compares the rest with the sources of the examples.
"""

from typing import Any, Final

from .lists import declared, listed

PLACES: Final = listed(
    """
    Reykjavik;Ljubljana;Antananarivo;Ouagadougou;Tegucigalpa;Albuquerque;Vladivostok;Kuala Lumpur;Addis Ababa;
    Salt Lake City;Thessaloniki;Gothenburg;Winnipeg;Saskatoon;Marrakesh;Casablanca;Johannesburg;Mogadishu;
    Samarkand;Tashkent;Ulaanbaatar;Phnom Penh;Hyderabad;Chittagong;Kathmandu;Yokohama;Nagasaki;Guadalajara;
    Montevideo;Valparaíso;Cochabamba;Paramaribo;Bridgetown;Honolulu;Anchorage;Minneapolis;Philadelphia;Pittsburgh;
    Cincinnati;Jacksonville;Baton Rouge;Des Moines;Edinburgh;Aberystwyth;Llandudno;Düsseldorf;Göttingen;Kraków;
    Bratislava;Timișoara;Plovdiv;Podgorica;Sarajevo;Dubrovnik;Palermo;Bologna;Marseille;Clermont-Ferrand;Zaragoza;
    Coimbra;Tromsø;Jyväskylä;Novosibirsk;Tbilisi;Yerevan
    """
)

TOPICS: Final = listed(
    """
    sourdough starters;the aurora borealis;quantum entanglement;vintage typewriters;how to prune tomatoes;
    Roman aqueducts;the Antikythera mechanism;tardigrades;best hiking boots;solar eclipse 2027;origami cranes;
    electric cargo bikes;the rules of cricket;Ada Lovelace;Icelandic sagas;cheap flights to Honolulu;
    migrating storks;how volcanoes erupt;medieval castles in Wales;unspool python library;glass blowing;
    the Mariana Trench;beginner ukulele chords;noise cancelling headphones;permaculture;jobs in Edinburgh;
    the Silk Road;how to whistle;deep sea squid;urban beekeeping
    """
)

WEATHER: Final = listed(
    """
    I wonder what the weather does in {};Would I get wet in {} today?;Weather update for {}, if you can.;
    Give me a quick weather briefing about {};Any snow expected in {}?;Kindly report the temperature at {};
    My flight lands in {} soon. What weather should I expect?;So tell me, is it chilly in {}?;
    Heading to {} - should I pack an umbrella?;How's the sky over {} looking?;Is {} having rain at present?;
    Let's hear the forecast for {}!;Temperature in {}, quickly;Weather conditions in {} right this minute?;
    I'd love to hear how warm it is in {}
    """
)

TIME: Final = listed(
    """
    I wonder what time people in {} have;Time check for {}, if you can.;
    My colleague sits in {}. What's the time over there?;Kindly report the time at {};Clock time for {}?;
    What would my watch show in {}?;Is it too late to ring someone in {}?;So tell me, what hour is it over in {}?;
    The present time in {} is what?;Let's hear the local time of {}!;Before I phone {}, tell me the time there;
    Time of day in {}, quickly;Has the clock struck noon in {}?;I'd love to hear what time it is in {};
    Current hour in {}?
    """
)

SEARCH: Final = listed(
    """
    Please investigate {};I'd love information about {};Go on the internet and search for {};
    Let's search {} on the internet;Fetch me web pages about {};Is there anything online about {}?;
    Do some research on {};Hunt the web for {};Bring up search results about {};Kindly search for {};
    Query the web about {};Let's look up {};I am after facts about {};Search engine, please: {};
    Would you google {}?
    """
)

CALCULATION: Final = listed(
    """
    I wonder what {} comes to;Let's calculate {};Kindly compute {};My homework says {}, what is the result?;
    {} makes what?;Would you work out {} for me?;Quick maths: {};So how much would {} be?;Figure out {};
    The answer to {}, quickly;I'd love to know what {} is;Do this sum: {};Crunch {} for me
    """
)

# As written, and as calculated.
EXPRESSIONS: Final = (
    ("48 * 391", "48 * 391"),
    ("7.25 + 13.5", "7.25 + 13.5"),
    ("1024/16", "1024/16"),
    ("90210 - 1848", "90210 - 1848"),
    ("(14 + 6) * 3", "(14 + 6) * 3"),
    ("12 times 144", "12 * 144"),
    ("365 divided by 7", "365 / 7"),
    ("19 plus 84", "19 + 84"),
    ("3000 minus 451", "3000 - 451"),
    ("2^10", "2^10"),
    ("17 x 23", "17 * 23"),
    ("5 * (8 - 3)", "5 * (8 - 3)"),
    ("99.99 times 3", "99.99 * 3"),
    ("4 + 4 * 4", "4 + 4 * 4"),
    ("86400 / 24", "86400 / 24"),
    ("15% of 260", "15 / 100 * 260"),
)


_TEXT: Final = {"type": "string"}

TOOLS: Final[dict[str, list[dict[str, Any]]]] = {
    "weather": [
        declared("skywatch", "Weather of a place of your choice.", whereabouts=_TEXT),
        declared("weatherman", "Reports the present weather for one town", town_label=_TEXT),
        declared(
            "current_conditions_by_town",
            "Temperature, wind and rain in a town.",
            municipality={**_TEXT, "description": "Town whose weather is wanted"},
        ),
        declared(
            "outdoor_temperature",
            "Says how many degrees there are outside.",
            settlement=_TEXT,
            scale={"type": "string", "enum": ["celsius", "fahrenheit"]},
        ),
        declared("is_it_raining", "Whether there is rain or snow somewhere.", borough=_TEXT),
        declared("getWeatherByCityName", "", cityLabel=_TEXT),
        declared("MeteoStation", "Local weather forecast by city name", destination={**_TEXT, "description": "A city"}),
    ],
    "time": [
        declared("clock_of", "The hour in some town right now.", town_label=_TEXT),
        declared("timekeeper", "Gives the time of day anywhere.", whereabouts=_TEXT),
        declared("world_clock", "World clock.", settlement={**_TEXT, "description": "City of the clock"}),
        declared("what_time_is_it", "", municipality=_TEXT),
        declared("now_in", "Current local time of a settlement.", settlement=_TEXT),
        declared("ZuluTime", "Current time for travellers", destination=_TEXT),
    ],
    "search": [
        declared("websurfer", "Searches the web.", subject=_TEXT),
        declared("look_it_up", "Finds information on the internet.", words=_TEXT),
        declared("encyclopedia_search", "Search for an article", entry=_TEXT),
        declared(
            "spider", "Web search with the best pages first.", wanted={**_TEXT, "description": "What to search for"}
        ),
        declared("ask_the_internet", "", prompt=_TEXT),
    ],
    "calculation": [
        declared("abacus", "Calculates what you write.", sum=_TEXT),
        declared("crunch_numbers", "Evaluates a formula.", formula_text=_TEXT),
        declared(
            "arith", "Computes arithmetic expressions", sum_text={**_TEXT, "description": "Expression to compute"}
        ),
        declared("solve_math", "Math solver.", exercise=_TEXT),
        declared("PocketCalculator", "", keystrokes=_TEXT),
    ],
}

# Tools beyond the four intents, each with a request and the arguments it asks for.
OTHERS: Final[list[tuple[dict[str, Any], str, dict[str, Any]]]] = [
    (declared("water_plants", "Waters a plant.", plant=_TEXT), "Water the ficus, please", {"plant": "ficus"}),
    (
        declared("start_vacuum", "Start the vacuum in a room.", chamber=_TEXT),
        "Start the vacuum in the attic",
        {"chamber": "attic"},
    ),
    (declared("shorten_link", "Shorten a link.", link=_TEXT), "Shorten the link sesamo.net", {"link": "sesamo.net"}),
    (
        declared("mute_channel", "Mute a channel.", channel=_TEXT),
        "Can you mute the channel gossip",
        {"channel": "gossip"},
    ),
    (
        declared("open_garage", "Open the garage with a code", code={"type": "integer"}),
        "Open the garage with code 4711",
        {"code": 4711},
    ),
    (declared("play_podcast", "Play a podcast.", title=_TEXT), "Play the podcast Radiolab", {"title": "Radiolab"}),
    (declared("feed_pet", "Feed a pet.", pet=_TEXT), "Please feed Whiskers", {"pet": "Whiskers"}),
    (declared("lock_door", "Lock a door.", door=_TEXT), "Lock the cellar door", {"door": "cellar"}),
    (declared("set_volume", "Set the volume.", percent={"type": "integer"}), "Set the volume to 35", {"percent": 35}),
    (
        declared("archive_ticket", "Archive a ticket", ticket_id={"type": "integer"}),
        "Archive ticket 90817",
        {"ticket_id": 90817},
    ),
    (
        declared("call_person", "Call a person on the phone.", callee=_TEXT),
        "Call Ingeborg on the phone",
        {"callee": "Ingeborg"},
    ),
    (
        declared("wash_laundry", "Wash the laundry.", minutes={"type": "integer"}),
        "Wash the laundry for 45 minutes",
        {"minutes": 45},
    ),
    (
        declared("translate_word", "Translate a word into Spanish.", vocable=_TEXT),
        "Translate the word butterfly into Spanish",
        {"vocable": "butterfly"},
    ),
    (
        declared("rent_scooter", "Rent a scooter in a city.", town_label=_TEXT),
        "Rent a scooter in Palermo",
        {"town_label": "Palermo"},
    ),
    (
        declared("email_boss", "Email the boss about a subject", subject=_TEXT),
        "Email the boss about vacation",
        {"subject": "vacation"},
    ),
    (declared("remove_tag", "Remove a tag from the page.", tag=_TEXT), "Remove the tag obsolete", {"tag": "obsolete"}),
]

CHAT: Final = listed(
    """
    Hello, nice to meet you!;Howdy!;Thanks a million;What sort of program are you?;Good afternoon;
    Have a nice weekend!;Compose a limerick on penguins;Should I quit my job?;Recite the alphabet backwards;
    My dog ate my homework.;Write a haiku;What makes people laugh?;I had pancakes for breakfast;
    Pretend to be a pirate;Who is your best friend?;Cheer me up;Name three colours;Rhyme something with orange;
    I cannot sleep;Describe happiness;Tell me something nice;Are you happy?;You are funny;Sorry, wrong window;
    Never mind;Compose a love letter;Which pizza do you prefer?;Explain recursion to a child;I need a hug;
    Guess my age
    """
)

# Requests for the weather of two places, and for the time of three.
PAIRS: Final = listed(
    """
    Weather in {} and {}?;Tell me how warm it is in {} and in {};Does it rain in {} or in {}?;
    Compare the weather of {} with that of {}
    """
)

TRIPLES: Final = listed(
    """
    What is the time in {}, {} and {}?;Time in {}, in {} and in {}, please
    """
)

# What tools return, and what an answer must say about it.
RESULTS: Final[list[tuple[str, list[str]]]] = [
    ('{"temperature": -7, "condition": "snow showers"}', ["-7", "snow showers"]),
    ('{"temp_f": 68, "sky": "overcast", "gusts": 31}', ["68", "overcast", "31"]),
    ("21 degrees, drizzle", ["21 degrees", "drizzle"]),
    ('{"local": "23:47", "offset": "+03:00"}', ["23:47", "+03:00"]),
    ("04:15", ["04:15"]),
    ('{"clock": "6:05 pm"}', ["6:05 pm"]),
    ('{"result": 18768}', ["18768"]),
    ("52.142857", ["52.142857"]),
    ('{"outcome": 2549, "exact": true}', ["2549", "true"]),
    ('{"error": "quota exceeded"}', ["quota exceeded"]),
    ('["Tardigrade facts", "Water bears in space"]', ["Tardigrade facts", "Water bears in space"]),
    (
        '{"results": [{"title": "Aqueducts explained", "url": "https://aqua.example"}]}',
        ["Aqueducts explained", "aqua.example"],
    ),
    ('{"humidity": 88, "feels_like": 12, "outlook": "hail"}', ["88", "12", "hail"]),
    ("The ferry leaves at nine.", ["The ferry leaves at nine"]),
    ('{"confirmation": "QX-4471", "seats": 2}', ["QX-4471", "2"]),
]

WORDS: Final = frozenset(
    word.lower() for name in (*PLACES, *TOPICS) for word in name.replace("-", " ").split() if len(word) > 3
) | frozenset(
    [
        "skywatch",
        "weatherman",
        "whereabouts",
        "municipality",
        "settlement",
        "borough",
        "abacus",
        "arith",
        "websurfer",
        "spider",
        "ficus",
    ]
)
"""The words that `words.made_up` may not make, in lower case."""
