"""Tables of the reference that are generated from the code: commands, events, and an example of every dialect."""

import argparse
import contextlib
import html
import inspect
import re
import string
from collections.abc import Sequence
from pathlib import Path
from typing import get_args, get_type_hints

import unspool
from unspool.cli import parsers
from unspool.dialect.lint import Rules
from unspool.events import Event

from .support import tool

_HIDDEN = {"start", "end", "token_start", "token_end"}
"""The fields of every event, which the page describes only once."""


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def events() -> str:
    """Every event with its own fields, and the first sentence of its docstring."""
    rows = []
    for kind in get_args(Event):
        own = {name: hint for name, hint in get_type_hints(kind).items() if name not in _HIDDEN}
        fields = ", ".join(f"`{name}: {_type(hint)}`" for name, hint in own.items())
        rows.append((f"`{kind.__name__}`", fields, _sentence(inspect.getdoc(kind) or "")))
    return table(("event", "fields of its own", "meaning"), rows)


def _type(hint: object) -> str:
    name = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    return name.replace("|", "\\|")


def _sentence(text: str) -> str:
    """A docstring's first paragraph, as Markdown for a cell."""
    first = " ".join(text.split("\n\n", 1)[0].split())
    return re.sub(r"``([^`]+)``", r"`\1`", first).replace("|", "\\|")


def rules(listed: Rules) -> str:
    """Rules about dialect files, with the keys that they look at."""
    rows = [
        (
            rule.name.replace("-", " "),
            rule.looks_at if "`" in rule.looks_at else ", ".join(f"`{key}`" for key in rule.looks_at.split(", ")),
            _capital(_unfilled(rule.what + rule.why)),
            _capital(_unfilled(rule.instead)),
        )
        for rule in listed
    ]
    return table(("rule", "keys", "what is wrong", "instead"), rows)


_ITALICS = {None: "", "more": "", "also": ""}
"""Fields that are not shown: there are none, or they are clauses that do not always apply."""


def _unfilled(text: str) -> str:
    """A text with places to fill, which are in italics, as Markdown for a cell."""
    parts = string.Formatter().parse(text)
    shown = "".join(html.escape(part, quote=False) + _ITALICS.get(field, f"*{field}*") for part, field, *_ in parts)
    shown = re.sub(r"\*\w+\*", lambda field: field[0].replace("_", " "), shown)
    return re.sub(r"`(\*[\w ]+\*)`", r"\1", shown).replace("|", "\\|").strip(" ,:")


def commands() -> str:
    """Every command, with its usage in one line and its arguments, in their groups."""
    parts = []
    for name, parser in parsers()[1].items():
        parts.append(f"### unspool {name}\n\n{_capital(parser.description or '')}.\n\n{_arguments(parser)}")
    return "\n".join(parts)


def _arguments(parser: argparse.ArgumentParser) -> str:
    """One table of the arguments that are in no group of their own, and one for each group."""
    plain, *groups = parser._action_groups[1:]
    own = [action for action in parser._positionals._group_actions if action.metavar] + list(plain._group_actions)
    tables = [("", own), *((f"{_capital(group.title or '')}:\n\n", group._group_actions) for group in groups)]
    shown: list[str] = []
    for title, actions in tables:
        rows = [(_names(a), _cell(a.help or "")) for a in actions if not isinstance(a, argparse._HelpAction)]
        if rows or not shown:
            shown.append(title + table(("argument", ""), rows))
    return "\n".join(shown)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _names(action: argparse.Action) -> str:
    meta = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return f"`{meta}`".replace("|", "\\|")
    names = ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {meta}")
    return f"`{names}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return " ".join(text.replace("%%", "%").split()).replace("|", "\\|").replace("<", "&lt;")


_PARTS = [(True, True, True), (False, True, True), (True, False, True), (False, False, True), (True, True, False)]
"""Whether a message has reasoning, content and a call: all of them first, then fewer, for formats that lack a part."""
_TOOLS = [tool("get_weather", city="string", days="integer")]


def gallery() -> str:
    """Every dialect: its file's description, its models, and one message as its renderer writes it."""
    return "\n".join(_exhibit(dialect) for dialect in unspool.list_dialects())


def _exhibit(dialect: unspool.Dialect) -> str:
    raw = _rendered(dialect)
    models = ", ".join(f"`{glob}`" for glob in dialect.models)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", raw)), default=0))
    lines = [f"### {dialect.name}", "", _about(dialect), *(["", f"Models: {models}."] if models else [])]
    return "\n".join([*lines, "", f"{fence}text", raw, fence, ""])


def _rendered(dialect: unspool.Dialect) -> str:
    # An id in the dialect's form that is always the same; the renderer would draw a random one.
    form = dialect.id.replace("{index}", "0").replace("{number}", "1").replace("{name}", "get_weather")
    call = unspool.ToolCall(0, form.replace("?", "a"), "get_weather", '{"city": "Paris", "days": 3}')
    for reasoning, content, calls in _PARTS:
        message = unspool.Message(
            reasoning="They want a forecast." * reasoning,
            content="I will look it up." * content,
            tool_calls=[call] * calls,
        )
        with contextlib.suppress(unspool.DialectError):
            return unspool.render(message, dialect, tools=_TOOLS).rstrip("\n")
    raise AssertionError(f"{dialect.name} writes none of the messages")


def _about(dialect: unspool.Dialect) -> str:
    """The comment at the beginning of a dialect's file."""
    folder = Path(unspool.__file__).parent / "dialects"
    lines = (folder / f"{dialect.name}.toml").read_text(encoding="utf-8").splitlines()
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# ").rstrip())
    return " ".join(comment).replace("<", "&lt;")
