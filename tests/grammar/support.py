"""Helpers for the tests of grammars: a byte-level tokenizer for llguidance, and matchers with it."""

import json
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema
import llguidance
from llguidance.gbnf_to_lark import gbnf_to_lark

import unspool
from unspool import Constraint, Dialect, list_dialects
from unspool.grammar.matchers import Matcher, _LlguidanceMatcher, from_lark

from ..support import present, random_split, run

WITH_CALLS = [d for d in list_dialects() if d.call]


@cache
def byte_tokenizer() -> Any:
    """A tokenizer in which every byte is a token, and the token after them ends the sequence."""
    return llguidance.LLTokenizer("byte")


def eos() -> int:
    return int(byte_tokenizer().eos_token)


def constrained(*request: Any, **options: Any) -> Constraint:
    """The constraint of a request that has one; see `unspool.constrain`."""
    return present(unspool.constrain(*request, **options))


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
    return run(dialect, random_split(text, rng), finish_reason="stop", **request)[0]


def matcher(text: str) -> Any:
    """A matcher of a GBNF grammar, read with llguidance's own converter."""
    grammar = llguidance.LLMatcher.grammar_from_lark(gbnf_to_lark(text))
    found = llguidance.LLMatcher(byte_tokenizer(), grammar, log_level=0)
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


def tool_choice(name: str) -> dict[str, Any]:
    """A choice of one tool."""
    return {"type": "function", "function": {"name": name}}
