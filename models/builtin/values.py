"""Values of the parameters in ``phrases/demos.toml``: how requests write them, and how calls do."""

import random
from typing import Final, NamedTuple

from .lists import listed, words_of
from .phrases import PHRASES
from .words import COMMON, QUALITIES, VERBS, made_up, number, person, phrase, pick, place, word


class Value(NamedTuple):
    """A value.

    Attributes:
        said: its text in the request.
        held: its text in the call, as in `Ask.slots`: the items of a list are separated by bars.
    """

    said: str
    held: str


_COUNTED: Final = words_of("zero one two three four five six seven eight nine ten eleven twelve")
NUMBERS: Final = dict(enumerate(_COUNTED)) | {15: "fifteen", 20: "twenty", 30: "thirty", 60: "sixty"}
_FIRST: Final = words_of(
    """
    Anna Ben Carla David Eva Frank Greta Hugo Ines Jack Kim Leo Mia Nora Omar Paul Rosa Sam Tina Yuki
    """
)
_LAST: Final = words_of(
    """
    Smith Miller Garcia Chen Novak Rossi Silva Kim Brown Weber Khan Olsen Dubois Tanaka Patel Moreau
    """
)
_GROCERIES: Final = words_of(
    """
    apples bananas tomatoes cheese rice pasta onions coffee tea sugar salt flour yogurt chicken fish potatoes carrots
    soap batteries napkins juice honey cereal lettuce garlic ham beans wine beer water lemons olive_oil dog_food
    toilet_paper peanut_butter oat_milk dish_soap milk bread butter eggs
    """
)
_COUNTRIES: Final = words_of(
    """
    France Spain Italy Germany Japan China India Brazil Canada Mexico Egypt Kenya Norway Sweden Poland Portugal Greece
    Turkey Argentina Chile Peru Iceland Ireland Scotland Vietnam Thailand Nigeria Morocco Australia
    """
)
_DAYS: Final = words_of(
    """
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday
    """
)
_MONTHS: Final = words_of(
    """
    January February March April May June July August September October November December
    """
)
_TOPICS: Final = listed(
    """
    Marie Curie;Alan Turing;Napoleon;the Roman Empire;photosynthesis;Mount Everest;the Eiffel Tower;jazz;dinosaurs;
    the French Revolution;DNA;Isaac Newton;Cleopatra;machine learning;volcanoes;the moon landing;penguins;
    Leonardo da Vinci;quantum computing;the Great Wall;Beethoven;black tea;relativity;gravity;Antarctica;
    the Beatles;bees
    """
)
_QUESTIONS: Final = listed(
    """
    who invented the telephone;how tall is Mount Everest;what is the capital of Australia;
    who is the president of Brazil;how old is the universe;when was the Berlin wall built;best laptops 2025;
    python list comprehension;cheap flights to Bali;rust vs go;vegan recipes;how to tie a tie;election results;
    football scores;the new iPhone;remote jobs;climate change;how to learn guitar;electric cars;best movies of 2024;
    node.js tutorial;docker compose example;the stock market crash of 1929;what is an LLM;tax rules for freelancers;
    museums in Vienna;openai news;the latest Mars mission;who painted the Mona Lisa;how many planets are there;
    how do vaccines work;why is the sky blue;who wrote Hamlet;what is the tallest building;who won the super bowl;
    the speed of light;javascript promises;the meaning of life;hiking trails near Denver;used cars;
    kubernetes ingress
    """
)
_DOCS: Final = listed(
    """
    password reset;the vacation policy;API keys;error codes;billing;invoices;shipping times;single sign on;webhooks;
    the on-call schedule;installation;data retention;access rights;opening hours;the dress code;expense reports;
    pagination;authentication;backups;returns;the privacy policy;release notes;parental leave;two factor login
    """
)


def value(rng: random.Random, kind: str) -> Value:
    """A value of a kind that a parameter of a demo names."""
    made = _made(rng, kind)
    return made if isinstance(made, Value) else Value(made, made)


def _made(rng: random.Random, kind: str) -> str | Value:
    roll = rng.random()
    match kind:
        case "email":
            first, last = rng.choice(_FIRST).lower(), rng.choice(_LAST).lower()
            user = pick(rng, first, _ascii(made_up(rng, 2)), f"{first}.{last}", rng.choice(COMMON))
            hosts = ("example.com", "mail.com", "acme.io", "gmail.com", rng.choice(COMMON) + ".org", "test.net")
            return f"{user}@{rng.choice(hosts)}"
        case "first":
            return (
                rng.choice(_FIRST)
                if roll < 0.5
                else made_up(rng).capitalize()
                if roll < 0.8
                else rng.choice(("mom", "dad", "my boss", "my sister", "the team", "grandma"))
            )
        case "fullname":
            return (
                f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"
                if roll < 0.5
                else f"{made_up(rng).capitalize()} {made_up(rng).capitalize()}"
            )
        case "firsts":
            return _listed(
                rng,
                [
                    rng.choice(_FIRST) if rng.random() < 0.6 else made_up(rng).capitalize()
                    for _ in range(rng.choice((1, 2, 2, 3)))
                ],
            )
        case "groceries":
            return _listed(
                rng,
                [
                    rng.choice(_GROCERIES).replace("_", " ") if rng.random() < 0.75 else word(rng)
                    for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))
                ],
            )
        case "dishes":
            return _listed(rng, [rng.choice(PHRASES["pools"]["b_dish"]) for _ in range(rng.choice((1, 2, 2, 3)))])
        case "words":
            return _listed(rng, [word(rng) for _ in range(rng.choice((1, 2, 3)))])
        case "numbers":
            sizes = rng.choice((10, 100, 1000))
            return _listed(
                rng,
                [
                    str(rng.randint(0, sizes)) if rng.random() < 0.85 else f"{rng.randint(0, 99)}.{rng.randint(1, 9)}"
                    for _ in range(rng.choice((2, 3, 3, 4, 5)))
                ],
                spaced=True,
            )
        case "title":
            return _free(
                rng,
                "d_title",
                f"{rng.choice(QUALITIES).capitalize()} {rng.choice(COMMON)}",
                f"Project {made_up(rng).capitalize()}",
                rng.choice(COMMON).capitalize(),
            )
        case "said":
            return _free(
                rng,
                "d_said",
                f"the {rng.choice(COMMON)} is {rng.choice(QUALITIES)}",
                f"I {rng.choice(VERBS)} the {rng.choice(COMMON)}",
                f"please {rng.choice(VERBS)} the {word(rng)}",
                f"meet me in {place(rng)}",
            )
        case "task":
            return _free(
                rng,
                "d_task",
                f"{rng.choice(VERBS)} the {word(rng)}",
                f"{rng.choice(VERBS)} {person(rng)}",
                f"{rng.choice(VERBS)} my {rng.choice(COMMON)}",
            )
        case "when":
            return pick(
                rng,
                f"at {_time(rng)}",
                f"tomorrow at {_time(rng)}",
                "tomorrow",
                "tonight",
                f"on {rng.choice(_DAYS)}",
                f"in {rng.randint(2, 50)} minutes",
                "in an hour",
                "next week",
                f"at {_time(rng)}",
                f"on {rng.choice(_DAYS)} at {_time(rng)}",
                "this evening",
            )
        case "time":
            return _time(rng)
        case "date":
            return pick(
                rng,
                "tomorrow",
                "today",
                rng.choice(_DAYS),
                rng.choice(_DAYS),
                f"next {rng.choice(_DAYS)}",
                f"{rng.choice(_MONTHS)} {rng.randint(1, 30)}",
                f"{rng.randint(1, 30)} {rng.choice(_MONTHS)}",
                _iso(rng),
                _iso(rng),
                f"{rng.randint(1, 28)}/{rng.randint(1, 12)}/2025",
            )
        case "iso":
            return _iso(rng) if roll < 0.6 else f"{rng.choice(_MONTHS)} {rng.randint(1, 30)}"
        case "small":
            return _whole(rng, rng.randint(1, 12))
        case "minutes":
            return _whole(
                rng,
                rng.choice(
                    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 35, 40, 45, 60, 90, rng.randint(1, 200))
                ),
            )
        case "percent":
            return str(rng.choice((0, 5, 10, 15, 20, 25, 30, 50, 60, 75, 80, 100, rng.randint(0, 100))))
        case "id":
            return str(rng.randint(2, 10 ** rng.randint(1, 6)))
        case "year":
            return str(rng.randint(1920, 2025))
        case "age":
            return str(rng.randint(18, 90))
        case "whole":
            return str(rng.randint(0, 10 ** rng.randint(1, 4)))
        case "plain" | "number":
            return number(rng).lstrip("0") or "0" if roll < 0.3 else str(rng.randint(1, 10 ** rng.randint(1, 4)))
        case "temp":
            return pick(rng, str(rng.randint(10, 30)), f"{rng.randint(15, 26)}.5", str(rng.randint(55, 80)))
        case "weight":
            return str(rng.randint(40, 130))
        case "height":
            return str(rng.randint(140, 210))
        case "rate":
            return pick(rng, str(rng.randint(1, 9)), f"{rng.randint(1, 9)}.{rng.randint(1, 9)}")
        case "sides":
            return str(rng.choice((4, 6, 8, 10, 12, 20, 100)))
        case "path":
            return _path(rng, file=True)
        case "dir":
            return _path(rng, file=False)
        case "url":
            scheme = pick(rng, "https://", "https://", "http://", "www.", "")
            path = pick(rng, "", "", f"/{rng.choice(COMMON)}", f"/{rng.choice(COMMON)}.html")
            return f"{scheme}{_ascii(made_up(rng, 2))}.{pick(rng, 'com', 'org', 'net', 'io')}{path}"
        case "sql":
            table, column = rng.choice(PHRASES["pools"]["d_table"]), rng.choice(PHRASES["pools"]["d_column"])
            return pick(
                rng,
                f"SELECT * FROM {table}",
                f"SELECT {column} FROM {table}",
                f"SELECT COUNT(*) FROM {table}",
                f"SELECT * FROM {table} LIMIT {rng.randint(1, 50)}",
                f"SELECT {column} FROM {table} WHERE id = {rng.randint(1, 99)}",
                f"select * from {table}",
                f"select {column} from {table} order by {column}",
                f"SELECT * FROM {table};",
            )
        case "cmd":
            return pick(
                rng,
                "ls -la",
                "pwd",
                "df -h",
                f"cat {_path(rng, file=True)}",
                "git status",
                f"mkdir {rng.choice(COMMON)}",
                "whoami",
                "uname -a",
                f"grep {rng.choice(COMMON)} {_path(rng, file=True)}",
                "ps aux",
                f"echo {rng.choice(COMMON)}",
                "python --version",
                "git log",
                "uptime",
            )
        case "music":
            return _free(
                rng,
                "d_artist",
                f"{made_up(rng).capitalize()} {made_up(rng).capitalize()}",
                f"{rng.choice(QUALITIES)} {rng.choice(COMMON)}",
            )
        case "topic":
            return rng.choice(_TOPICS) if roll < 0.5 else phrase(rng)
        case "question":
            return rng.choice(_QUESTIONS) if roll < 0.45 else phrase(rng)
        case "doc":
            return rng.choice(_DOCS) if roll < 0.6 else phrase(rng)
        case "product":
            return _free(rng, "d_brand", f"{rng.choice(QUALITIES)} {rng.choice(COMMON)}s", rng.choice(COMMON))
        case "scene":
            return pick(
                rng,
                f"a {rng.choice(QUALITIES)} {word(rng)}",
                f"a {word(rng)} in {place(rng)}",
                f"a {rng.choice(COMMON)} on a {rng.choice(COMMON)}",
                f"the {rng.choice(COMMON)} at night",
            )
        case "country":
            return rng.choice(_COUNTRIES)
        case "spot_or_country":
            return rng.choice(_COUNTRIES) if roll < 0.6 else place(rng)
        case "spot" | "b_place":
            return place(rng, 0.4) if roll < 0.7 else rng.choice(PHRASES["pools"]["b_station"])
        case "place":
            return place(rng, 0.4)
        case "word":
            return word(rng)
        case "phrase":
            return phrase(rng)
    pool = PHRASES["pools"][kind]
    return rng.choice(pool) if roll < 0.8 else made_up(rng).capitalize() if roll < 0.9 else word(rng)


def _free(rng: random.Random, pool: str, *more: str) -> str:
    text: str = rng.choice(PHRASES["pools"][pool]) if rng.random() < 0.5 else rng.choice(more)
    return text


def _listed(rng: random.Random, items: list[str], *, spaced: bool = False) -> Value:
    items = list(dict.fromkeys(items))
    last = (
        pick(rng, " and ", " and ", ", ", ", and ", " & ") if not spaced else pick(rng, " and ", ", ", ", ", " ", "; ")
    )
    between = last if spaced and last in (" ", "; ") else ", "
    said = last.join(filter(None, (between.join(items[:-1]), items[-1])))
    return Value(said, "|".join(items))


def _whole(rng: random.Random, n: int) -> Value:
    spoken = n in NUMBERS and rng.random() < 0.15
    return Value(NUMBERS[n] if spoken else str(n), str(n))


def _time(rng: random.Random) -> str:
    hour = rng.randint(1, 12)
    return pick(
        rng,
        f"{hour}{pick(rng, 'am', 'pm')}",
        f"{hour} {pick(rng, 'am', 'pm')}",
        f"{rng.randint(0, 23)}:{rng.choice((0, 15, 30, 45)):02d}",
        f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}",
        f"{hour}:30 {pick(rng, 'am', 'pm')}",
        "noon",
        f"{hour} o'clock",
    )


def _iso(rng: random.Random) -> str:
    return f"20{rng.randint(24, 29)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def _path(rng: random.Random, *, file: bool) -> str:
    parts = [
        pick(
            rng,
            "src",
            "docs",
            "data",
            "tmp",
            "home",
            "etc",
            "var",
            "lib",
            "notes",
            "images",
            made_up(rng, 2),
            rng.choice(COMMON),
        )
        for _ in range(rng.choice((0, 0, 1, 2) if file else (1, 1, 2)))
    ]
    if file:
        stem = pick(
            rng,
            rng.choice(COMMON),
            f"{rng.choice(COMMON)}_{rng.choice(COMMON)}",
            "main",
            "notes",
            "report",
            "index",
            made_up(rng, 2),
            rng.choice(COMMON).upper(),
        )
        parts.append(f"{stem}.{pick(rng, 'txt', 'md', 'py', 'csv', 'json', 'pdf', 'log', 'yaml', 'toml', 'html')}")
    text = "/".join(parts)
    return text if rng.random() < 0.65 else "/" + text if rng.random() < 0.8 else "./" + text


def _ascii(text: str) -> str:
    return text.encode("ascii", "ignore").decode() or "site"
