"""The commands on one output: ``parse``, ``render``, ``constrain``."""

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ..errors import ConstraintError, DialectError
from ..events import Event
from ..grammar import ToolStrictLevel, constrain
from ..message import Message
from ..parser import Parser
from ..pretty import Pretty
from ..renderer import render
from .common import (
    Misuse,
    chosen_dialect,
    colors,
    dialect_arguments,
    one_of,
    read_given,
    read_json,
    read_pieces,
    read_policy,
    read_text,
    read_tool_choice,
    read_tools,
    write,
    write_json,
)

FORMATS = ("message", "openai", "events", "pretty")
CONSTRAINTS = ("structural_tag", "lark", "json_schema")
FAILED_NOTICES = ("bad_arguments", "call_without_name", "undeclared_tool")
"""Notices of calls that failed, whatever a policy made of them: `parse --strict` minds these too."""


def parse_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE", nargs="?", default="-", help="the output; standard input by default")
    dialect_arguments(p)
    p.add_argument("--tool-choice", metavar="CHOICE", default="auto", help="auto, none, required, or a tool's name")
    p.add_argument("--prompt", metavar="TEXT|@FILE", help="the rendered prompt; its end tells how the output begins")
    p.add_argument("--policy", metavar="FIELD=VALUE", action="append", default=[], help="repeatable")
    p.add_argument("--finish-reason", metavar="REASON", default="stop", help="the engine's; stop by default")
    text = f"{', '.join(FORMATS)}; pretty on a terminal, else message"
    p.add_argument("--format", type=one_of(FORMATS), metavar="FORMAT", help=text)
    p.add_argument("--follow", action="store_true", help="show the output as it comes")
    p.add_argument("--strict", action="store_true", help="exit with 1 if a call is not ok, or not of a declared tool")


def run_parse(options: argparse.Namespace) -> int:
    tools = read_tools(options.tools)
    parser = Parser(
        chosen_dialect(options),
        tools=tools,
        tool_choice=read_tool_choice(options.tool_choice, tools),
        stage=options.stage,
        prompt=read_given("--prompt", options.prompt),
        policy=read_policy(options.policy),
    )
    form = options.format or ("pretty" if sys.stdout.isatty() else "message")
    show = shower(form)
    chunks: Iterable[str] = read_pieces("FILE", options.file)
    for chunk in chunks if options.follow else ["".join(chunks)]:
        show(parser.feed(chunk))
    show(parser.close(options.finish_reason))
    message = parser.message
    if form == "message":
        write_json(message)
    elif form == "openai":
        write_json(message.to_openai())
    failures = _failures(message) if options.strict else []
    for failure in failures:
        print(f"unspool parse: --strict: {failure}", file=sys.stderr)
    return 1 if failures else 0


def shower(form: str) -> Callable[[list[Event]], None]:
    """What shows events as they come."""
    if form == "events":
        return lambda events: write("".join(msgspec.json.encode(e).decode() + "\n" for e in events))
    if form == "pretty":
        pretty = Pretty(write, color=colors())

        def show(events: list[Event]) -> None:
            for event in events:
                pretty.add(event)

        return show
    return lambda events: None


def _failures(message: Message) -> list[str]:
    """What `--strict` does not let pass, a line each."""
    found = [f"call {c.index} ({c.name}): {c.status}" for c in message.tool_calls if c.status != "ok"]
    found += [f"call {c.index} ({c.name}): is not declared" for c in message.tool_calls if c.known is False]
    return found or [f"{n.kind}: {n.detail}" for n in message.notices if n.kind in FAILED_NOTICES]


def render_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="the message as JSON; standard input by default"
    )
    dialect_arguments(p)


def run_render(options: argparse.Namespace) -> int:
    dialect = chosen_dialect(options)
    message = read_json("FILE", options.file)
    if not isinstance(message, dict):
        raise Misuse(f"FILE: {options.file}: must be a JSON object, the message")
    try:
        raw = render(_message(message), dialect, tools=read_tools(options.tools), stage=options.stage)
    except (DialectError, ValueError, TypeError) as error:
        raise Misuse(f"FILE: {options.file}: {error}") from None
    write(raw)
    if sys.stdout.isatty() and not raw.endswith("\n"):
        write("\n")
    return 0


def _message(data: dict[str, Any]) -> Message | dict[str, Any]:
    """What `parse --format message` wrote is a `Message` again; anything else is left for `render` to understand."""
    return msgspec.convert(data, Message) if "segments" in data else data


def constrain_arguments(p: argparse.ArgumentParser) -> None:
    dialect_arguments(p)
    text = f"{', '.join(CONSTRAINTS)}; structural_tag by default"
    p.add_argument("--format", type=one_of(CONSTRAINTS), metavar="FORMAT", default=CONSTRAINTS[0], help=text)
    text = "auto, none, required, or a tool's name; required by default"
    p.add_argument("--tool-choice", metavar="CHOICE", default="required", help=text)
    p.add_argument("--no-parallel", action="store_true", help="one call at most")
    levels = tuple(level.name.lower() for level in ToolStrictLevel)
    text = f"{', '.join(levels)}: constrains --tool-choice auto where no tool is strict"
    p.add_argument("--strict-level", type=one_of(levels), metavar="LEVEL", default=levels[0], help=text)
    p.add_argument("--response-format", metavar="FILE", help="JSON schema of the content, or OpenAI's response_format")
    p.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json, which tells the special tokens (lark)")


def run_constrain(options: argparse.Namespace) -> int:
    dialect = chosen_dialect(options)
    tools = read_tools(options.tools)
    answer = None if options.response_format is None else read_json("--response-format", options.response_format)
    tokenizer = None
    if options.tokenizer is not None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise Misuse("--tokenizer: needs the package tokenizers") from None
        tokenizer = Tokenizer.from_str(read_text("--tokenizer", options.tokenizer))
    try:
        constraint = constrain(
            dialect,
            tools,
            read_tool_choice(options.tool_choice, tools),
            not options.no_parallel,
            stage=options.stage,
            response_format=answer,
            strict_level=ToolStrictLevel[options.strict_level.upper()],
            tokenizer=tokenizer,
        )
        if constraint is None:
            raise Misuse("--tool-choice: nothing is constrained; make a tool strict, or raise --strict-level")
        if options.format == "lark":
            write(constraint.lark)
        else:
            write_json(getattr(constraint, options.format))
    except ConstraintError as error:
        raise Misuse(f"--tools: {error}") from None
    return 0
