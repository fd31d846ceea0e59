"""The commands on one output: ``parse``, ``render``, ``constrain``."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from ..errors import ConstraintError, DialectError, ToolsError
from ..events import Event
from ..grammar import constrain
from ..grammar.calls import LEVELS
from ..infer.detect import detect_dialect
from ..message import Message
from ..parser import Parser, parse
from ..renderer import render
from .common import (
    Misuse,
    OneOf,
    blaming,
    chosen_dialect,
    colors,
    dialect_arguments,
    load_json,
    load_tokenizer,
    load_tools,
    policy_argument,
    read_given,
    read_pieces,
    read_policy,
    read_text,
    read_tool_choice,
    write,
    write_json,
)
from .pretty import Pretty
from .recordings import find_recordings, recorded_dialect, recordings_in

if TYPE_CHECKING:
    from ..engines import Recording

FORMATS = ("message", "openai", "events", "pretty")
CONSTRAINTS = ("structural_tag", "lark", "gbnf", "json_schema")
FAILED_NOTICES = ("bad_arguments", "call_without_name", "undeclared_tool")
"""Notices of failed calls. `parse --strict` counts them, whatever the policy makes of the calls."""


def parse_arguments(p: argparse.ArgumentParser) -> None:
    text = "an output, or a recording (which includes dialect and tools); default: standard input"
    p.add_argument("file", metavar="FILE", nargs="?", default="-", help=text)
    dialect_arguments(p)
    p.add_argument("--tool-choice", metavar="CHOICE", help="auto (the default), none, required, or a tool's name")
    p.add_argument("--prompt", metavar="TEXT|@FILE", help="the rendered prompt; its end decides how the output begins")
    policy_argument(p)
    p.add_argument("--finish-reason", metavar="REASON", help="the engine's finish reason; default: stop")
    text = f"{', '.join(FORMATS)}; default: pretty on a terminal, else message"
    p.add_argument("--format", type=OneOf(FORMATS), metavar="FORMAT", help=text)
    p.add_argument("--follow", action="store_true", help="show the output as it arrives")
    p.add_argument("--strict", action="store_true", help="exit with 1 if a call is not ok, or names an undeclared tool")


def run_parse(options: argparse.Namespace) -> int:
    form = options.format or ("pretty" if sys.stdout.isatty() else "message")
    tools, choice = load_tools(options.tools), "auto" if options.tool_choice is None else options.tool_choice
    if tools is not None:  # report their errors before waiting for input
        read_tool_choice(choice, tools)
    recordings, given = None, None
    if options.file != "-":
        recordings = find_recordings("FILE", options.file)
    elif not options.follow:
        given = read_text("FILE", options.file)
        recordings = recordings_in("FILE", given)
    failures: list[str] = []
    if recordings is None:
        parser = Parser(
            chosen_dialect(options),
            tools=tools,
            tool_choice=read_tool_choice(choice, tools),
            stage=options.stage,
            prompt=read_given("--prompt", options.prompt),
            policy=read_policy(options.policy),
        )
        failures += _show(parser, _fed(parser, given, options), form, options)
        if form == "pretty" and tools != [] and options.tool_choice != "none":
            _suggest(parser, tools)
    else:
        for recording in recordings:
            if len(recordings) > 1 and form == "pretty":
                write(f"{recording.where}:\n")
            parser = _recorded_parser(recording, options)
            failures += _show(parser, recording.play(parser, options.finish_reason), form, options)
    for failure in failures:
        print(f"unspool parse: --strict: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _suggest(parser: Parser, tools: list[dict[str, Any]] | None) -> None:
    """Name another dialect, if this one reads nothing but content and that one reads more in it."""
    name, message, content = parser.dialect.name, parser.message, parser.message.content
    found = [] if message.tool_calls or message.reasoning else detect_dialect(output=[content])
    readings = ((c, parse(content, c.dialect, tools=tools)) for c in found if c.dialect != name)
    better = next((c for c, reading in readings if reading.tool_calls or reading.reasoning), None)
    if better is not None:
        text = f"{name} reads no call and no thought in it; {better.dialect} {better.reason}"
        print(f"unspool parse: {text}", file=sys.stderr)


def _fed(parser: Parser, given: str | None, options: argparse.Namespace) -> Iterator[list[Event]]:
    """The events of an output, which may have been read before."""
    chunks: Iterable[str] = read_pieces("FILE", options.file) if given is None else [given]
    for chunk in chunks if options.follow else ["".join(chunks)]:
        yield parser.feed(chunk)
    yield parser.close(options.finish_reason or "stop")


def _recorded_parser(recording: "Recording", options: argparse.Namespace) -> Parser:
    """Make a parser for a recording; the command line overrides the recorded settings."""
    asked = recording.asked
    named = options.dialect is not None or options.model is not None
    dialect = chosen_dialect(options, None if named else recorded_dialect("FILE", recording))
    tools = asked.tools if options.tools is None else load_tools(options.tools)
    choice = asked.tool_choice if options.tool_choice is None else read_tool_choice(options.tool_choice, tools)
    prompt = asked.prompt if options.prompt is None else read_given("--prompt", options.prompt)
    stage = options.stage if options.stage is not None or options.prompt is not None else asked.stage
    policy = read_policy(options.policy).over(asked.policy)
    changed = structs.replace(asked, tools=tools, tool_choice=choice, stage=stage, prompt=prompt, policy=policy)
    with blaming(f"FILE: {recording.where}", None, ToolsError):
        return structs.replace(recording, asked=changed).parser(dialect)


def _show(parser: Parser, steps: Iterable[list[Event]], form: str, options: argparse.Namespace) -> list[str]:
    """Show one output. Returns the failures that `--strict` reports."""
    show = shower(form)
    for events in steps:
        show(events)
    message = parser.message
    if form == "message":
        write_json(message)
    elif form == "openai":
        write_json(message.to_openai())
    return _failures(message) if options.strict else []


def shower(form: str) -> Callable[[list[Event]], None]:
    """A function that shows events as they arrive."""
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
    """The failures that `--strict` reports, one per line."""
    found = [f"call {c.index} ({c.name}): {c.status}" for c in message.tool_calls if c.status != "ok"]
    found += [f"call {c.index} ({c.name}): is not declared" for c in message.tool_calls if c.known is False]
    return found or [f"{n.kind}: {n.detail}" for n in message.notices if n.kind in FAILED_NOTICES]


def render_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE", nargs="?", default="-", help="the message as JSON; default: standard input")
    dialect_arguments(p)


def run_render(options: argparse.Namespace) -> int:
    dialect = chosen_dialect(options)
    message = load_json("FILE", options.file)
    if not isinstance(message, dict):
        raise Misuse(f"FILE: {options.file}: must be a JSON object, the message")
    with blaming(f"FILE: {options.file}", None, DialectError, ValueError, TypeError):
        if "segments" in message:  # the output of `parse --format message`
            message = msgspec.convert(message, Message)
        raw = render(message, dialect, tools=load_tools(options.tools), stage=options.stage)
    write(raw)
    if sys.stdout.isatty() and not raw.endswith("\n"):
        write("\n")
    return 0


def constrain_arguments(p: argparse.ArgumentParser) -> None:
    dialect_arguments(p)
    text = f"{', '.join(CONSTRAINTS)}; default: structural_tag"
    p.add_argument("--format", type=OneOf(CONSTRAINTS), metavar="FORMAT", default=CONSTRAINTS[0], help=text)
    text = "auto, none, required, or a tool's name; default: required"
    p.add_argument("--tool-choice", metavar="CHOICE", default="required", help=text)
    p.add_argument("--no-parallel", action="store_true", help="at most one call")
    text = f"{', '.join(LEVELS)}: constrains --tool-choice auto if no tool is strict"
    p.add_argument("--strict-level", type=OneOf(LEVELS), metavar="LEVEL", default="off", help=text)
    p.add_argument("--response-format", metavar="FILE", help="JSON schema of the content, or OpenAI's response_format")
    p.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json or a GGUF, for the ids of special tokens (lark)")


def run_constrain(options: argparse.Namespace) -> int:
    dialect = chosen_dialect(options)
    tools = load_tools(options.tools)
    answer = None if options.response_format is None else load_json("--response-format", options.response_format)
    tokenizer = None
    if options.tokenizer is not None:
        try:
            tokenizer = load_tokenizer("--tokenizer", options.tokenizer)
        except ImportError:
            raise Misuse("--tokenizer: needs the package tokenizers") from None
    with blaming("--tools", None, ConstraintError):
        constraint = constrain(
            dialect,
            tools,
            read_tool_choice(options.tool_choice, tools),
            not options.no_parallel,
            stage=options.stage,
            response_format=answer,
            strict_level=LEVELS[options.strict_level],
            tokenizer=tokenizer,
        )
        if constraint is None:
            raise Misuse("--tool-choice: nothing is constrained; make a tool strict, or raise --strict-level")
        if options.format in ("lark", "gbnf"):
            write(getattr(constraint, options.format))
        else:
            write_json(getattr(constraint, options.format))
    return 0
