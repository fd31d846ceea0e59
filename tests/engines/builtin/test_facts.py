"""Questions for facts and figures: music, units, routes, recipes, museums, laws."""

import json
from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, described, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

SWITCH = {"type": "boolean"}
UNITS = {"enum": ["cup", "tablespoon", "teaspoon", "ml"]}
TOOLS = {
    "scale": described(
        tool("scale_notes", ["key", "mode"], key=TEXT, mode={"enum": ["major", "minor"]}), "Notes of a scale"
    ),
    "chord": tool("transpose_chord", ["chord", "semitones"], chord=TEXT, semitones=WHOLE),
    "measure": described(
        tool("convert_measure", ["amount", "from", "to"], amount=NUMBER, **{"from": UNITS, "to": UNITS}),
        "Convert a kitchen measure",
    ),
    "route": described(
        tool("get_route", ["start", "end"], start=TEXT, end=TEXT, avoid_tolls=SWITCH, avoid_ferries=SWITCH),
        "Route between two places",
    ),
    "dishes": described(tool("search_recipes", ["query"], query=TEXT, exclude_meat=SWITCH), "Search recipes"),
    "pantry": described(
        tool("recipes_with", ["ingredients"], ingredients={"type": "array", "items": TEXT}),
        "Recipes that use the ingredients",
    ),
    "recipe": described(tool("recipe_search", ["dish"], dish=TEXT), "Find recipes"),
    "museum": described(tool("museum_hours", ["museum", "day"], museum=TEXT, day=TEXT), "Opening hours of a museum"),
    "movie": described(tool("movie_times", ["movie", "city"], movie=TEXT, city=TEXT), "Showtimes of a movie"),
    "game": described(tool("next_game", ["team"], team=TEXT), "When a team plays next"),
    "family": described(tool("classify_animal", ["animal"], animal=TEXT), "Get the taxonomic family of an animal"),
    "law": described(tool("law_search", ["topic", "state"], topic=TEXT, state=TEXT), "Search laws about a topic"),
    "case": described(tool("case_lookup", ["docket"], docket=TEXT, court=TEXT), "Look up a case by its docket number"),
    "lawyer": described(
        tool("find_lawyer", ["city"], city=TEXT, max_fee=WHOLE | {"description": "highest fee in dollars"}),
        "Find a lawyer in a city",
    ),
    "hypotenuse": described(
        tool("math_hypot", ["x", "y"], x=NUMBER, y=NUMBER), "Calculate the length of the hypotenuse from the two legs"
    ),
    "area": described(tool("triangle_area", ["base", "height"], base=NUMBER, height=NUMBER), "Area of a triangle"),
    "zones": described(tool("time_difference", ["city1", "city2"], city1=TEXT, city2=TEXT), "Time difference"),
    "hotels": described(tool("hotel_search", ["city"], city=TEXT), "Search hotels"),
    "events": described(tool("find_concerts", ["city"], city=TEXT, genre=TEXT), "Find concerts near a city"),
    "songs": described(
        tool("create_playlist", ["name", "genre"], name=TEXT, genre={"enum": ["rock", "jazz"]}), "Create a playlist"
    ),
    "player": described(tool("player_stats", ["player"], player=TEXT, season=WHOLE), "Statistics of a player"),
}


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("scale", "what are the notes of C# minor", [{"key": "C#", "mode": "minor"}]),
        ("scale", "list the notes of the F# major scale", [{"key": "F#", "mode": "major"}]),
        ("chord", "transpose F#m7 up by 3 semitones", [{"chord": "F#m7", "semitones": 3}]),
        ("measure", "how many tablespoons are 2.5 cups", [{"amount": 2.5, "from": "cup", "to": "tablespoon"}]),
        ("measure", "3 tbsp is how many teaspoons", [{"amount": 3, "from": "tablespoon", "to": "teaspoon"}]),
        ("route", "route from Kiel to Ulm without tolls", [{"start": "Kiel", "end": "Ulm", "avoid_tolls": True}]),
        ("route", "route from Kiel to Ulm, no ferries", [{"start": "Kiel", "end": "Ulm", "avoid_ferries": True}]),
        ("route", "route from Kiel to Ulm avoiding ferries", [{"start": "Kiel", "end": "Ulm", "avoid_ferries": True}]),
        ("route", "route from Kiel to Ulm, tolls are fine", [{"start": "Kiel", "end": "Ulm", "avoid_tolls": False}]),
        ("dishes", "soup recipes without meat", [{"query": "soup", "exclude_meat": True}]),
        ("pantry recipe", "what can I cook with rice, peas and eggs?", [{"ingredients": ["rice", "peas", "eggs"]}]),
        ("pantry recipe", "I have oats, figs and milk, what can I make?", [{"ingredients": ["oats", "figs", "milk"]}]),
        ("pantry recipe", "find me a recipe for lasagna", [{"dish": "lasagna"}]),
        ("museum", "when does the Louvre open on Sunday", [{"museum": "Louvre", "day": "Sunday"}]),
        ("museum", "is the Prado open on Tuesday?", [{"museum": "Prado", "day": "Tuesday"}]),
        ("movie", "where can I watch Dune in Denver", [{"movie": "Dune", "city": "Denver"}]),
        ("game", "when does Real Madrid play again?", [{"team": "Real Madrid"}]),
        ("family", "what family does the red fox belong to?", [{"animal": "red fox"}]),
        ("family", "which family does a walrus belong to, and an otter?", [{"animal": "walrus"}, {"animal": "otter"}]),
        ("game", "when does Arsenal play next, and Chelsea?", [{"team": "Arsenal"}, {"team": "Chelsea"}]),
        ("law", "laws about noise in California", [{"topic": "noise", "state": "California"}]),
        ("law", "laws on parking in Texas", [{"topic": "parking", "state": "Texas"}]),
        ("case", "look up the case with docket number 19-1392", [{"docket": "19-1392"}]),
        ("lawyer", "find a lawyer in Miami charging at most 300 dollars", [{"city": "Miami", "max_fee": 300}]),
        (
            "hypotenuse area",
            "I have a right triangle with legs 6 and 8, how long is the hypotenuse?",
            [{"x": 6, "y": 8}],
        ),
        ("zones hotels", "time difference between Tokyo and London", [{"city1": "Tokyo", "city2": "London"}]),
    ],
)
def test_questions_for_facts_are_calls_with_the_facts_that_they_name(
    names: str, text: str, expected: list[dict[str, Any]]
) -> None:
    answer = read(prompt([TOOLS[name] for name in names.split()], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [given for _, given in answer.calls] == expected


@pytest.mark.parametrize(
    ("names", "given", "text", "expected"),
    [
        (
            "events songs",
            {"city": "Nashville"},
            "what about jazz ones in Oslo",
            ("find_concerts", {"city": "Oslo", "genre": "jazz"}),
        ),
        (
            "player game",
            {"player": "Luka Doncic"},
            "and for 2019?",
            ("player_stats", {"player": "Luka Doncic", "season": 2019}),
        ),
    ],
)
def test_a_follow_up_stays_with_the_tool_and_what_its_values_are(
    names: str, given: dict[str, Any], text: str, expected: tuple[str, dict[str, Any]]
) -> None:
    tools = [TOOLS[name] for name in names.split()]
    name = tools[0]["function"]["name"]
    call = {"id": "a", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    answer = read(
        prompt(
            tools,
            [
                {"role": "user", "content": " ".join(given.values())},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "a", "content": "[]"},
                {"role": "assistant", "content": "Nothing found."},
                {"role": "user", "content": text},
            ],
        )
    )
    assert answer is not None
    assert answer.calls == [expected]


@pytest.mark.parametrize("text", ["ugh, I'm so tired today", "hello house :)", "good morning assistant", "hi helper!"])
def test_a_sigh_or_a_greeting_asks_for_nothing(text: str) -> None:
    answer = read(prompt([TOOLS["museum"]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.calls == []
