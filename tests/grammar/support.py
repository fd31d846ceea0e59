"""Helpers for the tests of grammars: a byte-level tokenizer for llguidance, and matchers with it."""

import json
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jsonschema
import llguidance
from llguidance.gbnf_to_lark import gbnf_to_lark

import unspool
from unspool import Constraint, Dialect, Parser, list_dialects
from unspool.grammar.matchers import Matcher, _LlguidanceMatcher, from_lark

WITH_CALLS = [d for d in list_dialects() if d.call]


@cache
def byte_tokenizer() -> Any:
    """A tokenizer in which every byte is a token, and the token after them ends the sequence."""
    return llguidance.LLTokenizer("byte")


def eos() -> int:
    return int(byte_tokenizer().eos_token)


def constrained(*request: Any, **options: Any) -> Constraint:
    """The constraint of a request that has one; see `unspool.constrain`."""
    found = unspool.constrain(*request, **options)
    assert found is not None
    return found


class Grammars:
    """Matchers of one constraint, which is compiled once."""

    def __init__(self, constraint: Constraint) -> None:
        self._matcher = from_lark(byte_tokenizer(), constraint.lark)
        assert not self._matcher.is_error(), self._matcher.get_error()

    def matcher(self) -> Matcher:
        return _LlguidanceMatcher(self._matcher.deep_copy(), byte_tokenizer().vocab_size)

    def refuses(self, text: str) -> str:
        """Why the text cannot be generated; ``""`` if it can."""
        matcher = self._matcher.deep_copy()
        data = text.encode()
        taken = matcher.try_consume_tokens(list(data))
        if taken < len(data):
            return f"stuck behind {data[:taken].decode(errors='replace')!r}"
        return "" if matcher.is_accepting() else "is not the end"


def read(text: str, dialect: Dialect, rng: random.Random, **request: Any) -> unspool.Message:
    """The message of a text that is fed in random chunks."""
    parser = Parser(dialect, **request)
    i = 0
    while i < len(text):
        size = rng.choice((1, 2, 5, 30))
        parser.feed(text[i : i + size])
        i += size
    parser.close("stop")
    return parser.message


def matcher(text: str) -> Any:
    """A matcher of a GBNF grammar, read with llguidance's own converter."""
    found = llguidance.LLMatcher(
        byte_tokenizer(), llguidance.LLMatcher.grammar_from_lark(gbnf_to_lark(text)), log_level=0
    )
    assert not found.is_error(), found.get_error()
    return found


def validate(arguments: Any, schema: Mapping[str, Any]) -> None:
    """Like `jsonschema.validate`, but without checking the schema itself each time.

    Raises:
        jsonschema.ValidationError: the schema does not allow the arguments.
    """
    _validator(json.dumps(schema)).validate(arguments)


@cache
def _validator(schema: str) -> Any:
    found = json.loads(schema)
    kind = jsonschema.validators.validator_for(found)
    kind.check_schema(found)
    return kind(found)


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def calls_of(message: unspool.Message) -> Sequence[tuple[str, str, str]]:
    return [(c.name, c.arguments, c.status) for c in message.tool_calls]
