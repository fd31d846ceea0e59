"""Where values begin and end, other words for choices and switches, and lists for parameters that take one value."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import read

SWITCH = {"type": "boolean"}
LIST = {"type": "array", "items": TEXT}
TOOLS = {
    "match": tool("get_result", ["team"], team=TEXT),
    "lamp": tool("paint_lamp", ["lamp", "color"], lamp=TEXT, color=TEXT),
    "room": tool("air_room", ["room"], room=TEXT, minutes=WHOLE),
    "gate": tool("move_gate", ["action"], action={"enum": ["open", "close"]}),
    "card": tool("freeze_account", ["account_id", "frozen"], account_id=TEXT, frozen=SWITCH),
    "travel": tool("travel", ["to", "mode"], to=TEXT, mode={"enum": ["driving", "walking"]}),
    "release": tool("ship_release", ["app", "version"], app=TEXT, version=TEXT),
    "chat": tool("chat_with", ["user", "text"], user=TEXT, text=TEXT),
    "antonyms": tool("get_antonyms", ["word"], word=TEXT),
    "todo": tool("add_todo", ["task"], task=TEXT),
    "mails": tool("search_mail", [], query=TEXT, unread=SWITCH) | {},
    "reply": tool("reply_mail", ["message_id", "body"], message_id=TEXT, body=TEXT),
    "say": tool("translate", ["text", "to"], text=TEXT, to=TEXT | {"description": "ISO 639-1 code"}),
    "alarm": tool("set_alarm", ["hour", "minute"], hour=WHOLE, minute=WHOLE),
    "timer": tool("start_timer", ["minutes"], minutes=NUMBER),
    "remind": tool("remind_me", ["text", "when"], text=TEXT, when=TEXT),
    "refund": tool("refund_order", ["order_id"], order_id=TEXT, reason=TEXT),
    "jobs": tool("search_jobs", ["title"], title=TEXT, remote=SWITCH),
    "off": tool("turn_off", ["name"], name=TEXT, area=TEXT),
    "join": tool("merge_pdfs", ["files"], files=LIST, output=TEXT),
    "news": tool("get_news", ["category"], category={"enum": ["business", "technology", "health"]}),
    "glob": tool("find_files", ["pattern"], pattern=TEXT, folder=TEXT),
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("match", "Did Everton win?", [{"team": "Everton"}]),
        ("lamp", "paint the bedside lamp green", [{"lamp": "bedside lamp", "color": "green"}]),
        ("room", "air the dining room for a quarter, say 15 minutes", [{"room": "dining room", "minutes": 15}]),
        ("room", "Air the study and the attic", [{"room": "study"}, {"room": "attic"}]),
        ("gate", "Open the gate please", [{"action": "open"}]),
        ("gate", "The gate is still open, could you shut it?", [{"action": "close"}]),
        ("card", "Freeze account AC-91", [{"account_id": "AC-91", "frozen": True}]),
        ("card", "you can unfreeze account AC-91 again", [{"account_id": "AC-91", "frozen": False}]),
        ("travel", "travel to Graz on foot", [{"to": "Graz", "mode": "walking"}]),
        ("release", "ship mailer 3.1.0", [{"app": "mailer", "version": "3.1.0"}]),
        ("chat", "chat with kim.b: are you in today?", [{"user": "kim.b", "text": "are you in today?"}]),
        ("antonyms", "antonyms of warm, tall and brave", [{"word": w} for w in ("warm", "tall", "brave")]),
        ("todo", "add 'sweep the yard' and 'feed Rex' to my todos", [{"task": "sweep the yard"}, {"task": "feed Rex"}]),
        ("say", "translate 'good night' to Italian", [{"text": "good night", "to": "it"}]),
        ("alarm", "set an alarm for 6:05 pm", [{"hour": 18, "minute": 5}]),
        ("timer", "start a timer for an hour and a half", [{"minutes": 90}]),
        ("remind", "remind me in 10 minutes to stir the soup", [{"text": "stir the soup", "when": "in 10 minutes"}]),
        ("refund", "refund order 77 because it came late", [{"order_id": "77", "reason": "it came late"}]),
        ("jobs", "remote gardener jobs", [{"title": "gardener", "remote": True}]),
        ("off", "turn off the tv and the fan", [{"name": "tv"}, {"name": "fan"}]),
        ("off", "turn the radio, the lamp and the heater off", [{"name": w} for w in ("radio", "lamp", "heater")]),
        ("join", "merge cover.pdf and report.pdf", [{"files": ["cover.pdf", "report.pdf"]}]),
        ("join", "merge a.pdf, b.pdf and c.pdf", [{"files": ["a.pdf", "b.pdf", "c.pdf"]}]),
        ("news", "give me the latest technolgy headlines", [{"category": "technology"}]),
        ("news", "any busines news?", [{"category": "business"}]),
        ("glob", "find all *.toml files", [{"pattern": "*.toml"}]),
    ],
)
def test_values_end_before_the_words_that_follow_them(name: str, text: str, expected: list[dict[str, Any]]) -> None:
    answer = read(prompt([TOOLS[name]], [{"role": "user", "content": text}]))
    assert answer is not None
    assert [given for _, given in answer.calls] == expected


def test_a_word_without_a_digit_is_not_read_as_an_id() -> None:
    answer = read(prompt([TOOLS["mails"], TOOLS["reply"]], [{"role": "user", "content": "search unread mail"}]))
    assert answer is not None
    assert answer.calls == [("search_mail", {"unread": True})]


def test_a_complete_call_is_preferred_to_one_with_missing_values() -> None:
    accounts = tool("transfer_money", ["source", "target", "amount"], source=TEXT, target=TEXT, amount=NUMBER)
    bill = tool("pay_bill", ["payee", "amount"], payee=TEXT, amount=NUMBER)
    answer = read(prompt([accounts, bill], [{"role": "user", "content": "pay 80 dollars to Orange"}]))
    assert answer is not None
    assert answer.calls == [("pay_bill", {"payee": "Orange", "amount": 80})]
