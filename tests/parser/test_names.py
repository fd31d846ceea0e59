"""Names and ids of calls have no characters that could steer a client's terminal or its logs, in every dialect."""

import json
from typing import Any

import pytest

from unspool import DialectError, Message, Policy, list_dialects, parse, render

from ..support import calling, function_call, tool

ODD = ["a\nb", "\x1b]0;x\x07a", "a\0", "a\x9b31m", "\u202ea", "a\u200bb", "a\u2028b"]
ID = "call_Q12345"


def turn(name: str = "get_weather") -> dict[str, Any]:
    return calling(function_call(name, {"city": "x"}, ID))


WRITTEN = {d.name: render(turn(), d) for d in list_dialects() if d.call}


def read(dialect: str, word: str, odd: str, **more: Any) -> list[Message]:
    """The turn with other text in place of a word, as it is and as JSON writes it; by characters too."""
    texts = [WRITTEN[dialect].replace(word, text) for text in (odd, json.dumps(odd)[1:-1])]
    return [parse(text, dialect, **more) for text in texts]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
@pytest.mark.parametrize("dialect", WRITTEN)
def test_a_call_whose_name_has_unseen_characters_is_text(dialect: str, odd: str) -> None:
    for tools in (None, [tool("other")]):
        for policy in ("forward", "text", "drop"):
            for message in read(dialect, "get_weather", odd, tools=tools, policy=Policy(unknown_tool=policy)):
                assert all(call.name.isprintable() for call in message.tool_calls)
    with pytest.raises(DialectError, match="name"):
        render(turn(odd), dialect)


def test_a_name_that_the_client_declared_stays_whatever_it_is() -> None:
    [message, escaped] = read("hermes", "get_weather", "a\u200bb", tools=[tool("a\u200bb")])
    assert [c.name for m in (message, escaped) for c in m.tool_calls] == ["a\u200bb"] * 2


def test_a_call_with_an_odd_name_loses_nothing_of_its_text() -> None:
    text = '<tool_call>\n{"name": "a\\u001b", "arguments": {"city": "x"}}\n</tool_call>'
    message = parse(text, "hermes")
    assert message.content == text
    assert [n.kind for n in message.notices] == ["call_without_name"]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_an_id_with_unseen_characters_is_replaced(odd: str) -> None:
    having = [name for name, text in WRITTEN.items() if ID in text]
    assert len(having) > 2
    for dialect in having:
        for message in read(dialect, ID, odd):
            assert all(call.id and call.id.isprintable() for call in message.tool_calls)
