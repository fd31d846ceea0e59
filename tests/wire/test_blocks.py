"""Messages as blocks, and helpers that the wires share."""

import unspool
from unspool import Message, ToolCall
from unspool.wire.blocks import replay
from unspool.wire.encoding import clean, encode, quoted

from ..support import cases, parse_case, same


def test_replayed_events_give_the_message() -> None:
    for case in cases():
        message, _ = parse_case(case)
        assert same(unspool.fold(replay(message))) == same(message), case


def test_a_message_made_by_hand_has_its_blocks_in_the_usual_order() -> None:
    call = ToolCall(0, "c", "f", "")
    made = Message(reasoning="r", content="c", tool_calls=[call], finish_reason="tool_calls")
    read = unspool.fold(replay(made))
    assert [(s.kind, s.text) for s in read.segments] == [("reasoning", "r"), ("content", "c"), ("tool_call", "")]
    assert read.tool_calls[0].arguments == ""


def test_strings_are_json_on_one_line_that_utf_8_can_carry() -> None:
    assert quoted('a"\n\x00é你😀') == '"a\\"\\n\\u0000é你😀"'.encode()
    assert quoted("\x85\u2028\u2029") == b'"\\u0085\\u2028\\u2029"'
    assert quoted("\ud83d") + quoted("\ude00") == '"\ufffd""\ufffd"'.encode()
    assert clean("a\ud83d\ude00é") == "a\ufffd\ufffdé"


def test_a_value_with_lone_surrogates_anywhere_is_encoded() -> None:
    encoded = encode({"k\ud800": ["\ud800", ("x",), 1, None], "m": Message(content="\udc00")})
    assert '"k\ufffd":["\ufffd",["x"],1,null]'.encode() in encoded
    assert '"content":"\ufffd"'.encode() in encoded
