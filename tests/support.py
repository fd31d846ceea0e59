"""Helpers for the tests of the machine: the cases, and parts of `unspool.check.promises` and `unspool.check.trials`,
which `unspool check` uses too."""

import json
import random
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

import msgspec

import unspool
from unspool import Dialect, Message, Stage
from unspool.check import trials
from unspool.check.promises import TOOLS, closings, literals
from unspool.check.promises import check_truncated as assert_cut
from unspool.check.trials import Trial, at_content, chunkings, empty, notices, number, random_split, run, same, splits
from unspool.check.trials import check_events as check
from unspool.check.trials import read as parse_case
from unspool.dialect.compiling import compile_plan, marked
from unspool.dialect.examples import example_tools
from unspool.dialect.file import Example
from unspool.dialect.loader import parse_dialect
from unspool.dialect.registry import find_base

__all__ = [
    "TOOLS", "Trial", "assert_cut", "at_content", "check", "chunkings", "closings", "empty", "literals", "notices",
    "number", "parse_case", "random_split", "run", "same", "splits",
]  # fmt: skip

T = TypeVar("T")


def as_presumed(dialect: Dialect) -> Dialect:
    """A dialect with the library's policies for broken, undeclared and cut-off calls, which most tests presume.

    `tests.test_policy` tests the other policies, for every dialect. The effect of a file's own policies on its examples
    is tested with `cases`.
    """
    own = dialect.policy
    bad = own.bad_arguments if own.bad_arguments == "repair" else None
    policy = msgspec.structs.replace(
        own, bad_arguments=bad, unknown_tool=None, unclosed_reasoning=None, bare_calls=None, text_markers=None
    )
    if policy == own:
        return dialect
    return trials.altered(dialect, dialect.examples, policy=policy)


AS_WRITTEN: list[Dialect] = [at_content(d) for d in unspool.list_dialects()]
"""Every dialect with its own policies."""
DIALECTS: list[Dialect] = [as_presumed(d) for d in AS_WRITTEN]
"""Every dialect. New files are included without further work."""
CALLING = [d for d in DIALECTS if d.call]
THINKING = [d for d in DIALECTS if d.reasoning]
VERBATIM = [d for d in CALLING if d.argument_format == "json"]
"""Dialects whose arguments are JSON that is passed on unchanged."""
JSON_LIKE = [d for d in CALLING if not d.argument]
PYTHON = [d for d in CALLING if d.codec.name == "python" and d.call[0].object is None]
QUOTED = [d for d in CALLING if d.codec.quote != '"']
XML = [d for d in CALLING if d.argument]
UNTYPED = [d for d in XML if "{string}" not in d.argument[0].text and "{type}" not in d.argument[0].text]


def presumed(name: str) -> Dialect:
    """The dialect of a name, with the policies that most tests presume."""
    return next(d for d in DIALECTS if d.name == name)


def named(dialects: Iterable[Dialect]) -> dict[str, Any]:
    """Arguments of `pytest.mark.parametrize` for a test's ``dialect``."""
    found = list(dialects)
    return {"argnames": "dialect", "argvalues": found, "ids": [d.name for d in found]}


RFC_NAMES = ["deepseek", "deepseek-r1", "deepseek-v3.1", "deepseek-v3-0324"]
"""The names that the RFC for DeepSeek's parsers registers."""


# -- cases -------------------------------------------------------------------------------------------------------------


@cache
def _tools(name: str) -> str:
    return json.dumps(example_tools(next(d for d in DIALECTS if d.name == name)))


def tools_of(dialect: Dialect) -> list[dict[str, Any]]:
    """The tools that a dialect's examples call."""
    found: list[dict[str, Any]] = json.loads(_tools(dialect.name))
    return found


def cases(dialects: Iterable[Dialect] = tuple(AS_WRITTEN)) -> list[Trial]:
    """Every raw text of every example."""
    return trials.cases(dialects)


def examples(dialects: Iterable[Dialect] = tuple(AS_WRITTEN)) -> list[Trial]:
    """Every example once, with its first raw text, for tests that do not depend on how a message was written."""
    return [case for case in cases(dialects) if case.raw == case.example.raw[0]]


def tool(name: str, /, **properties: Any) -> dict[str, Any]:
    """A tool with properties; a property is a JSON type or a whole schema."""
    schemas = {k: {"type": v} if isinstance(v, str) else v for k, v in properties.items()}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": schemas}}}


def closed_tool(name: str, /, *optional: str, **properties: Any) -> dict[str, Any]:
    """A tool that takes no other properties, and needs all but the optional ones."""
    made = tool(name, **properties)
    required = [key for key in properties if key not in optional]
    made["function"]["parameters"] |= {"required": required, "additionalProperties": False}
    return made


def function_call(name: str, arguments: Any = "{}", id: str = "") -> dict[str, Any]:
    """A call in OpenAI's form; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    call = {"type": "function", "function": {"name": name, "arguments": text}}
    return {"id": id, **call} if id else call


def calling(*calls: dict[str, Any], content: Any = "", **more: Any) -> dict[str, Any]:
    """An assistant's message with calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **more}


def present(value: T | None) -> T:
    """A value that must be there."""
    assert value is not None
    return value


# -- running -----------------------------------------------------------------------------------------------------------


def pieces(text: str, size: int) -> list[str]:
    """A text cut into pieces of a size."""
    return [text[i : i + size] for i in range(0, len(text), size)]


def readings(dialect: Dialect | str, text: str, **options: Any) -> Iterator[Message]:
    """The message of a text, read whole and one character at a time."""
    for chunks in ([text], list(text)):
        yield run(dialect, chunks, **options)[0]


def alike(dialect: Dialect | str, raw: str, cuts: Iterable[list[str]], **options: Any) -> Message:
    """The message of a text, which must be the same, with its notices, for the whole text and in pieces."""
    options = {"ids": number, **options}
    whole, _ = run(dialect, [raw], **options)
    for chunks in cuts:
        message, _ = run(dialect, chunks, **options)
        assert same(message) == same(whole), chunks
        assert sorted(notices(message)) == sorted(notices(whole)), chunks
    return whole


def many_cuts(raw: str) -> list[list[str]]:
    """A text in single characters, in two, and in random pieces."""
    rng = random.Random(raw)
    cuts = [list(raw), *(random_split(raw, rng, n) for n in (2, 5, 30))]
    return [*cuts, *rng.sample(list(splits(raw)), min(4, len(raw) - 1))]


Calls = list[tuple[str, Any]]
"""The names and argument values of calls."""


def ways(raw: str) -> list[list[str]]:
    """The chunks of a text: whole, and one character at a time."""
    return [[raw], list(raw)] if raw else [[]]


def assert_calls(dialect: Dialect, raw: str, calls: Calls, content: str = "", **options: Any) -> None:
    """Assert that a raw text means calls and content in both ways, and that the calls are ok."""
    for message in readings(dialect, raw, **{"tools": TOOLS, **options}):
        assert values(message) == calls, raw
        assert message.content == content, raw
        assert {c.status for c in message.tool_calls} <= {"ok"}, raw


def statuses(message: Message) -> list[tuple[str, str]]:
    """Names and statuses of the calls."""
    return [(c.name, c.status) for c in message.tool_calls]


def said(message: Message) -> tuple[Any, ...]:
    """What a message says; ids may be random."""
    calls = [(c.name, c.arguments, c.status) for c in message.tool_calls]
    return message.reasoning, message.content, calls, message.finish_reason


def values(message: Message) -> list[tuple[str, Any]]:
    """Names and argument values of the calls."""
    return [(c.name, json.loads(c.arguments)) for c in message.tool_calls]


def expected(example: Example) -> list[tuple[str, Any]]:
    """The names and argument values of an example's calls."""
    return [(c.name, c.arguments) for c in example.tool_calls]


STAGES = [None, *Stage]


def dialect_of(keys: str) -> Dialect:
    """A dialect with these keys of a file."""
    text = f'name = "mine"\n{keys}\n[[examples]]\nraw = "x"\ncontent = "x"\n'
    return parse_dialect(text, "mine.toml", find_base)


def block_is_marked(dialect: Dialect) -> bool:
    """Whether the written block of calls counts anywhere in text, because its opening has a letter or digit."""
    return compile_plan(dialect).calls.blocks[0].marked


def is_marked(dialect: Dialect) -> bool:
    """Whether written calls count anywhere in text, by their block's opening or by their own."""
    block = compile_plan(dialect).calls.blocks[0]
    return block.marked or (not block.opening and marked(dialect.call[0].before, dialect.anywhere))
