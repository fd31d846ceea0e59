"""A parser in the middle of an output can be copied and pickled."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from unspool import Dialect, Parser, list_dialects
from unspool.check.trials import cases, run

from .. import support


@pytest.mark.parametrize(**support.named(list_dialects()))
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_in_mid_stream_goes_on_by_itself(dialect: Dialect, copied: Callable[[Parser], Parser]) -> None:
    for case in cases([dialect])[:3]:
        text = case.raw
        options: dict[str, Any] = {"tools": case.tools, "stage": case.example.stage, "ids": named}
        parser = Parser(dialect, **options)
        for at in range(0, len(text), 7):
            other = copied(parser)
            parser.feed(text[at : at + 7])
            other.feed("\n<x>")
            other.close()
        parser.close()
        alone, _ = run(dialect, [text], **options)
        assert parser.message == alone
        middle = Parser(dialect, **options)
        middle.feed(text[: len(text) // 2])
        other = copied(middle)
        other.feed(text[len(text) // 2 :])
        other.close()
        assert other.message == alone


def named(index: int, name: str) -> str:
    """The id of a call."""
    return f"{name}-{index}"


def test_a_parser_that_is_pickled_again_and_again_stays_as_large_as_it_was() -> None:
    parser, sizes = Parser("minimax-m3"), []
    parser.feed(']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="f">')
    for _ in range(20):
        for character in "]<]minimax[>[<a>x]<]minimax[>[</a>":
            parser.feed(character)
        parser = pickle.loads(pickle.dumps(parser))
        sizes.append(len(pickle.dumps(parser._machine.look.plan)))
    assert len({*sizes[1:]}) == 1
