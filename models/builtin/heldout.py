"""What only the evaluation uses: places, tools and ways to ask that the training examples cannot hold.

`words.made_up` refuses the words of the names here, and a test compares the rest with what the examples are made of.
"""

from typing import Any, Final

from .lists import listed

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


def _tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": [next(iter(properties))]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


_TEXT: Final = {"type": "string"}

TOOLS: Final[dict[str, list[dict[str, Any]]]] = {
    "weather": [
        _tool("skywatch", "Weather of a place of your choice.", whereabouts=_TEXT),
        _tool("weatherman", "Reports the present weather for one town", town_label=_TEXT),
        _tool(
            "current_conditions_by_town",
            "Temperature, wind and rain in a town.",
            municipality={**_TEXT, "description": "Town whose weather is wanted"},
        ),
        _tool(
            "outdoor_temperature",
            "Says how many degrees there are outside.",
            settlement=_TEXT,
            scale={"type": "string", "enum": ["celsius", "fahrenheit"]},
        ),
        _tool("is_it_raining", "Whether there is rain or snow somewhere.", borough=_TEXT),
        _tool("getWeatherByCityName", "", cityLabel=_TEXT),
        _tool("MeteoStation", "Local weather forecast by city name", destination={**_TEXT, "description": "A city"}),
    ],
    "time": [
        _tool("clock_of", "The hour in some town right now.", town_label=_TEXT),
        _tool("timekeeper", "Gives the time of day anywhere.", whereabouts=_TEXT),
        _tool("world_clock", "World clock.", settlement={**_TEXT, "description": "City of the clock"}),
        _tool("what_time_is_it", "", municipality=_TEXT),
        _tool("now_in", "Current local time of a settlement.", settlement=_TEXT),
        _tool("ZuluTime", "Current time for travellers", destination=_TEXT),
    ],
    "search": [
        _tool("websurfer", "Searches the web.", subject=_TEXT),
        _tool("look_it_up", "Finds information on the internet.", words=_TEXT),
        _tool("encyclopedia_search", "Search for an article", entry=_TEXT),
        _tool("spider", "Web search with the best pages first.", wanted={**_TEXT, "description": "What to search for"}),
        _tool("ask_the_internet", "", prompt=_TEXT),
    ],
    "calculation": [
        _tool("abacus", "Calculates what you write.", sum=_TEXT),
        _tool("crunch_numbers", "Evaluates a formula.", formula_text=_TEXT),
        _tool("arith", "Computes arithmetic expressions", sum_text={**_TEXT, "description": "Expression to compute"}),
        _tool("solve_math", "Math solver.", exercise=_TEXT),
        _tool("PocketCalculator", "", keystrokes=_TEXT),
    ],
}

# Tools beyond the four intents, each with a request and the arguments it asks for.
OTHERS: Final[list[tuple[dict[str, Any], str, dict[str, Any]]]] = [
    (_tool("water_plants", "Waters a plant.", plant=_TEXT), "Water the ficus, please", {"plant": "ficus"}),
    (
        _tool("start_vacuum", "Start the vacuum in a room.", chamber=_TEXT),
        "Start the vacuum in the attic",
        {"chamber": "attic"},
    ),
    (_tool("shorten_link", "Shorten a link.", link=_TEXT), "Shorten the link sesamo.net", {"link": "sesamo.net"}),
    (_tool("mute_channel", "Mute a channel.", channel=_TEXT), "Can you mute the channel gossip", {"channel": "gossip"}),
    (
        _tool("open_garage", "Open the garage with a code", code={"type": "integer"}),
        "Open the garage with code 4711",
        {"code": 4711},
    ),
    (_tool("play_podcast", "Play a podcast.", title=_TEXT), "Play the podcast Radiolab", {"title": "Radiolab"}),
    (_tool("feed_pet", "Feed a pet.", pet=_TEXT), "Please feed Whiskers", {"pet": "Whiskers"}),
    (_tool("lock_door", "Lock a door.", door=_TEXT), "Lock the cellar door", {"door": "cellar"}),
    (_tool("set_volume", "Set the volume.", percent={"type": "integer"}), "Set the volume to 35", {"percent": 35}),
    (
        _tool("archive_ticket", "Archive a ticket", ticket_id={"type": "integer"}),
        "Archive ticket 90817",
        {"ticket_id": 90817},
    ),
    (
        _tool("call_person", "Call a person on the phone.", callee=_TEXT),
        "Call Ingeborg on the phone",
        {"callee": "Ingeborg"},
    ),
    (
        _tool("wash_laundry", "Wash the laundry.", minutes={"type": "integer"}),
        "Wash the laundry for 45 minutes",
        {"minutes": 45},
    ),
    (
        _tool("translate_word", "Translate a word into Spanish.", vocable=_TEXT),
        "Translate the word butterfly into Spanish",
        {"vocable": "butterfly"},
    ),
    (
        _tool("rent_scooter", "Rent a scooter in a city.", town_label=_TEXT),
        "Rent a scooter in Palermo",
        {"town_label": "Palermo"},
    ),
    (
        _tool("email_boss", "Email the boss about a subject", subject=_TEXT),
        "Email the boss about vacation",
        {"subject": "vacation"},
    ),
    (_tool("remove_tag", "Remove a tag from the page.", tag=_TEXT), "Remove the tag obsolete", {"tag": "obsolete"}),
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

# What tools return, and what an answer has to tell of it.
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
"""What `words.made_up` may not make, in lower case."""
