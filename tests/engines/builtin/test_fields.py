"""Values after their parameters' names and a colon, and other values that are taken whole."""

from typing import Any

import pytest

from tests.engines.builtin.test_assign import NUMBER, TEXT, WHOLE, tool
from tests.engines.builtin.test_reader import prompt
from unspool.engines.builtin.reader import Answer, read

LIST = {"type": "array", "items": TEXT}
TOOLS = {
    "memo": tool("create_memo", ["title", "content"], title=TEXT, content=TEXT, tags=LIST),
    "case": tool(
        "create_case",
        ["subject", "description"],
        subject=TEXT,
        description=TEXT,
        priority={"enum": ["low", "high"]},
        assignee=TEXT,
    ),
    "mail": tool("send_email", ["to", "subject", "body"], to=TEXT, subject=TEXT, body=TEXT),
    "event": tool("create_event", ["title", "start"], title=TEXT, start=TEXT, end=TEXT),
    "sql": tool("run_query", ["sql"], sql=TEXT, limit=WHOLE),
    "flag": tool("toggle_flag", ["flag", "enabled"], flag=TEXT, enabled={"type": "boolean"}),
    "heat": tool("set_heating", ["room"], room=TEXT, degrees=NUMBER),
}


def asked(text: str, name: str) -> Answer | None:
    return read(prompt([TOOLS[name]], [{"role": "user", "content": text}]))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "memo",
            "New memo. Title: Alarm. Content: the code is moon77",
            {"title": "Alarm", "content": "the code is moon77"},
        ),
        (
            "memo",
            "add memo - title: Plans, tags: home, garden, content: ask about oak, ash and elm",
            {"title": "Plans", "content": "ask about oak, ash and elm", "tags": ["home", "garden"]},
        ),
        (
            "case",
            "create case: subject: No sound, description: the left speaker is silent, priority: high, assignee: kim",
            {
                "subject": "No sound",
                "description": "the left speaker is silent",
                "priority": "high",
                "assignee": "kim",
            },
        ),
        (
            "case",
            "open a case. Subject: jam\nDescription: tray 2 is stuck\nPriority: low",
            {"subject": "jam", "description": "tray 2 is stuck", "priority": "low"},
        ),
        (
            "mail",
            "send email to: kim@x.org subject: tea body: will you come?",
            {"to": "kim@x.org", "subject": "tea", "body": "will you come?"},
        ),
        (
            "event",
            "create event Review from 2026-04-02T10:00Z to 2026-04-02T10:30Z",
            {"title": "Review", "start": "2026-04-02T10:00Z", "end": "2026-04-02T10:30Z"},
        ),
        ("sql", "SELECT name FROM pets LIMIT 7", {"sql": "SELECT name FROM pets LIMIT 7"}),
        ("flag", "deactivate quick_search", {"flag": "quick_search", "enabled": False}),
    ],
)
def test_a_value_is_read_whole(name: str, text: str, expected: dict[str, Any]) -> None:
    answer = asked(text, name)
    assert answer is not None, "the words are not clear"
    assert [given for _, given in answer.calls] == [expected]


@pytest.mark.parametrize("text", ["How many moons does Mars have?", "how deep is lake Baikal", "ugh, I hate mondays"])
def test_a_message_that_shares_no_word_with_a_tool_makes_no_call(text: str) -> None:
    answer = asked(text, "heat")
    assert answer is not None
    assert answer.calls == []
    assert answer.words
