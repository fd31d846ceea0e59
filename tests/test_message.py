"""Arguments of a message as a dict, its segments with their tokens, and a parser's report about itself."""

import pytest

import unspool
from unspool import Parser, ToolCall

from .support import DIALECTS, named, tools_of

TOOLS = [{"type": "function", "function": {"name": "f"}}]
RAW = '<think>\nplan\n</think>\n\nSure.\n<tool_call>\n{"name": "f", "arguments": {"a": [1, "x"]}}\n</tool_call>'


class Letters:
    def decode(self, ids: list[int], **options: object) -> str:
        return "".join(map(chr, ids))


def test_arguments_that_are_an_object_are_a_dict() -> None:
    assert unspool.parse(RAW, "hermes", tools=TOOLS).tool_calls[0].arguments_dict() == {"a": [1, "x"]}
    assert ToolCall(0, "", "f", '{"n": 12345678901234567890}').arguments_dict() == {"n": 12345678901234567890}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"a": 1', "not JSON: Expecting ',' delimiter"),
        ("", "not JSON: Expecting value"),
        ('{"a": NaN}', "not JSON: NaN is not a JSON number"),
        ("[1]", "a list, not an object"),
        ("[" * 100_000, "not JSON: "),
    ],
)
def test_arguments_that_are_no_object_are_an_error_that_names_the_call(arguments: str, message: str) -> None:
    with pytest.raises(ValueError, match="arguments of call 2") as caught:
        ToolCall(2, "id", "look_up", arguments, "invalid").arguments_dict()
    assert str(caught.value).startswith(f"arguments of call 2 (look_up, invalid): {message}")


@pytest.mark.parametrize(**named(DIALECTS))
def test_segments_carry_the_spans_of_their_tokens(dialect: unspool.Dialect) -> None:
    for example in dialect.examples:
        raw = example.raw[0]
        parser = Parser(dialect, tools=tools_of(dialect), stage=example.stage, tokenizer=Letters())
        parser.feed_tokens(map(ord, raw))
        parser.close()
        for segment in parser.message.segments:  # a letter is a token
            assert (segment.token_start, segment.token_end) == (segment.start, segment.end), segment
        for segment in unspool.parse(raw, dialect, tools=tools_of(dialect), stage=example.stage).segments:
            assert (segment.token_start, segment.token_end) == (-1, -1)


def test_a_parser_says_what_it_reads_where_it_stands_and_what_it_has_read() -> None:
    parser = Parser("hermes", tools=TOOLS)
    assert repr(parser) == "<Parser hermes: in content; 0 characters read>"
    parser.feed(RAW[:11])
    assert repr(parser) == "<Parser hermes: in reasoning; 11 characters read, 3 of reasoning>"
    parser.feed(RAW[11:32])
    assert repr(parser) == (
        "<Parser hermes: in content; 32 characters read, 4 held back, 4 of reasoning, 5 of content>"
    )
    parser.feed(RAW[32:])
    parser.close()
    assert repr(parser) == (
        f"<Parser hermes: closed (tool_calls); {len(RAW)} characters read, 4 of reasoning, 5 of content, calls of f>"
    )


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    assert unspool.__version__ == version("unspool")
