"""Remarks only tell something: they hold no value, end no request, and alone they are small talk."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read
from unspool.engines.builtin.reader.remarks import tells
from unspool.engines.builtin.reader.words import TALK

TOOLS = {
    "list": tool("add_to_shopping_list", ["item"], item=TEXT),
    "recipe": tool("find_recipe", ["dish"], dish=TEXT),
    "search": tool("web_search", ["query"], query=TEXT),
    "topic": tool("browse", ["topic"], topic=TEXT),
    "weather": tool("get_weather", ["city"], city=TEXT),
    "clock": tool("what_hour_is_it", ["place"], place=TEXT),
    "playlist": tool("play_playlist", ["playlist"], playlist=TEXT),
    "timer": tool("start_timer", ["minutes"], minutes=WHOLE, label=TEXT),
    "alarm": tool("arm_alarm", ["state"], state={"enum": ["armed", "disarmed"]}),
}


@pytest.mark.parametrize(
    "text",
    [
        "it's too dark in here",
        "my sister is here",
        "i think the vpn is flaky",
        "I spent the weekend in bed",
        "just finished my coffee",
        "our flight was delayed",
        "so I just got back",
        "can't sleep",
        "haha that match was wild",
        "parking in this city is a nightmare",
    ],
)
def test_a_remark_is_recognized(text: str) -> None:
    assert tells(text)


@pytest.mark.parametrize(
    "text",
    [
        "turn it off",
        "shipped orders",
        "I need a taxi",
        "what's the time",
        "you can turn it off",
        "I have eggs and rice",
    ],
)
def test_a_request_is_not_taken_for_a_remark(text: str) -> None:
    assert not tells(text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("list", "We're out of olive oil. Put olive oil on the shopping list.", {"item": "olive oil"}),
        ("list", "The fridge is empty! Add milk to the shopping list", {"item": "milk"}),
        ("list", "I just used the last eggs, put eggs on my list", {"item": "eggs"}),
        ("recipe", "I want to cook mushroom risotto tonight. Got a recipe?", {"dish": "mushroom risotto"}),
        ("recipe", "My parents are here. Find a recipe for lasagna", {"dish": "lasagna"}),
        (
            "search",
            "My son keeps asking about plants for dark rooms. Search the web.",
            {"query": "plants for dark rooms"},
        ),
        ("topic", "browse for articles on the Treaty of Utrecht", {"topic": "the Treaty of Utrecht"}),
        ("playlist", "Put on my Sunday Morning playlist.", {"playlist": "Sunday Morning"}),
        ("weather", "Just landed in Lima. What's it like outside?", {"city": "Lima"}),
        ("alarm", "We're back home, so you can disarm it now", {"state": "disarmed"}),
    ],
)
def test_a_request_takes_no_values_from_a_remark_beside_it(name: str, text: str, expected: dict[str, Any]) -> None:
    answer = read(prompt([TOOLS[name]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [given for _, given in answer.calls] == [expected]


@pytest.mark.parametrize(
    "text", ["Finally fixed my bike!", "I'm back from the gym", "My dog has been sick all week, poor thing"]
)
def test_a_message_of_remarks_is_small_talk(text: str) -> None:
    answer = read(prompt([TOOLS["weather"], TOOLS["timer"]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert not answer.calls


@pytest.mark.parametrize("text", ["oof, what a week!", "such a mess"])
def test_an_exclamation_is_small_talk(text: str) -> None:
    answer = read(prompt([TOOLS["weather"], TOOLS["timer"]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert answer.words == TALK["ok"]


def test_words_that_mean_nothing_do_not_name_a_tool() -> None:
    answer = read(
        prompt([TOOLS["clock"], TOOLS["weather"]], [{"role": "user", "content": "Is it raining in Oslo now?"}])
    )
    assert answer is not None
    assert answer.calls == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("weather", "Weather in Lima. Then do the same for Quito.", [{"city": "Lima"}, {"city": "Quito"}]),
        ("weather", "check the weather in Lima and the same for Quito", [{"city": "Lima"}, {"city": "Quito"}]),
        (
            "timer",
            "start a 9 minute timer with the label eggs, and the same with the label rice",
            [{"minutes": 9, "label": "eggs"}, {"minutes": 9, "label": "rice"}],
        ),
    ],
)
def test_a_request_for_the_same_with_another_value_repeats_the_call(
    name: str, text: str, expected: list[dict[str, Any]]
) -> None:
    answer = read(prompt([TOOLS[name]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [given for _, given in answer.calls] == expected


@pytest.mark.parametrize(
    "text",
    [
        "finally thursday!",
        "is it the weekend yet?",
        "afternoon! ready for another week?",
        "phew, what a busy week at work",
        "you've been a huge help, see you on tuesday",
        "gg, thanks for listening",
        "yummy, looks great",
        "hope you had a nice weekend",
        "catch you later",
        "enjoy your lunch",
        "thanks a bunch, that saved me a lot of time",
        "yo what is new",
        "how's everything?",
        "what a beautiful morning, isn't it?",
    ],
)
def test_the_usual_forms_of_small_talk_need_no_list(text: str) -> None:
    answer = read(prompt(list(TOOLS.values()), [{"role": "user", "content": text}]))
    assert answer is not None
    assert not answer.calls
    assert answer.words


@pytest.mark.parametrize(
    "text",
    ["thanks for your help, set a timer for 5 minutes", "ready for a timer of 5 minutes", "start a 5 minute timer"],
)
def test_a_request_behind_small_talk_is_a_request(text: str) -> None:
    answer = read(prompt([TOOLS["timer"]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [given["minutes"] for _, given in answer.calls] == [5]
