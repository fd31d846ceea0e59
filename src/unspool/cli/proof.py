"""The proof of a dialect by a chat template: how ``serve`` and ``generate`` get it, and how it is shown."""

import contextlib
from pathlib import Path
from typing import Any, Final, Literal

from ..dialect.file import Dialect
from ..errors import TemplateError
from ..infer import Case, Limits
from ..infer.choosing import Choice, ProbedTemplate, summary
from ..wire.encoding import CONTROLS
from .common import Misuse, say

AUTO: Final = "auto"  # instead of a dialect's name: the dialect that the chat template proves
LIMITS = Limits(total=30.0)
"""Limits that let a server start soon; ``unspool prove`` proves a template that takes longer."""


(TOOLS,) = (Path(__file__).parents[1] / "models" / "tools").glob("*.jinja")
"""What is put before a chat template that writes no tools."""
WITH_TOOLS: Final = TOOLS.stem  # the dialect that it writes


def ask(template: str, special: dict[str, str], within: contextlib.ExitStack) -> ProbedTemplate:
    """A chat template with the limits of a server, whose processes end with a context."""
    return within.enter_context(ProbedTemplate(template, special, LIMITS))


def with_tools(template: str, special: dict[str, str], within: contextlib.ExitStack) -> tuple[ProbedTemplate, str]:
    """The template, with tools in its first message if it writes none itself, and that message's role, or empty."""
    whole = ask(template, special, within)
    if whole.writes_tools():
        return whole, ""
    whole = ask(wrapped(template), special, within)
    if whole.writes_tools(declared=True):
        return whole, "system"
    return ask(wrapped(template, "user"), special, within), "user"


_TOLD: Final = "{%- set told = "  # with which a template begins that `wrapped` has made


def wrapped(template: str, role: Literal["system", "user"] = "system") -> str:
    """A chat template that first adds the tools to the message of a role: some refuse or drop the system's."""
    return f"{_TOLD}'{role}' -%}}" + TOOLS.read_text(encoding="utf-8").removesuffix("\n") + template


def choose(argument: str, asked: ProbedTemplate, model: str | None, given: Any) -> Choice:
    """The dialect that the chat template proves, for a server."""
    try:
        return asked.choose(model, given)
    except TemplateError as error:
        raise Misuse(f"{argument}: {error}; name the dialect with --dialect") from None
    except ValueError as error:
        raise Misuse(f"{argument}: {error}; --dialect NAME|FILE.toml uses one anyway") from None


def prove(dialect: Dialect, asked: ProbedTemplate) -> list[Case]:
    """The proof of a named dialect, for a server; empty if the template cannot be run within the limits."""
    try:
        return asked.prove(dialect)
    except TemplateError as error:
        say(f"unspool: nothing is proven: {error}")
        return []


def report(dialect: Dialect, proof: list[Case], template: str, *, table: bool, origin: str = "") -> None:
    """Report on standard error what a chat template proves: in one line, or with ``table`` case by case."""
    if table and proof:
        say(proof_table(proof))
    if proof:
        strict = dialect.policy.text_before_tools == "content"
        policy = "; by its policy, calls after text are content" if strict else ""
        added = "; what it writes of tools is unspool's" if template.startswith(_TOLD) else ""
        say(f"unspool: dialect {dialect.name}{origin and f' ({origin})'}: {summary(proof)}{added}{policy}")


def proof_table(proof: list[Case]) -> str:
    wide = max((len(c.case) for c in proof), default=0)
    lines = (f"{c.case:{wide}}  {c.result:11}  {' '.join(c.reason.splitlines())}" for c in proof)
    return "\n".join(line.rstrip().translate(CONTROLS) for line in lines)
