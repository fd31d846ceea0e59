"""The command line: ``unspool parse | serve | constrain | dialects | check | render | detect | demo``.

Exit codes: 0; 1 where ``parse --strict`` met a failed call; 2 for misuse, with one line on standard error that names
the argument. A reader that closes the pipe early ends the command quietly.
"""

import argparse
import codecs
import contextlib
import difflib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from .check import check_dialect, load_dialect, read_file
from .detect import Candidate, detect_dialect
from .dialect import Dialect, Example, example_tools
from .errors import ConstraintError, DialectError, UnknownDialect
from .events import Event, Stage
from .grammar import ToolStrictLevel, constrain
from .message import Message
from .parser import Parser
from .policy import CHOICES, Policy
from .pretty import Pretty
from .registry import get_dialect, list_dialects
from .renderer import render
from .schema import tool_name
from .server.settings import LIMITS, PROFILES, Limits, Settings
from .template import Field, Template, pieces
from .wire.chat import REASONING_FIELDS

FORMATS = ("message", "openai", "events", "pretty")
CONSTRAINTS = ("structural_tag", "lark", "json_schema")
FAILED_NOTICES = ("bad_arguments", "call_without_name", "undeclared_tool")
"""Notices of calls that failed, whatever a policy made of them: `parse --strict` minds these too."""

_CHUNK = 65_536  # bytes per read
_DEMO_PIECE = 4  # characters per chunk, about a token
_DEMO_DELAY = 0.008  # seconds between them, on a terminal
_TOOL_CHOICES = ("auto", "none", "required")


class Misuse(Exception):
    """The command was called wrongly; the text names the argument."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Args:
        argv: the arguments without the program's name; ``None`` takes the process's own.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    command = ""
    try:
        parser, commands = _parsers()
        if words and words[0] in commands:
            command = f" {words[0]}"
        elif words and not words[0].startswith("-"):
            raise Misuse(f"COMMAND: there is no command {words[0]!r}{_near(words[0], commands)}")
        options, unknown = parser.parse_known_args(words)
        if unknown:
            known = re.findall(r"--[a-z-]+", commands.get(words[0], parser).format_help())
            raise Misuse(f"{unknown[0]}: unknown argument{_near(unknown[0], known)}")
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except Misuse as error:
        print(f"unspool{command}:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except BrokenPipeError:
        _forget_output()
        return 0
    except KeyboardInterrupt:
        return 130


# -- arguments ---------------------------------------------------------------------------------------------------------


class _Arguments(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(message.removeprefix("argument "))


def _parsers() -> tuple[_Arguments, dict[str, argparse.ArgumentParser]]:
    """The whole parser, and those of the commands."""
    whole = _Arguments(prog="unspool", description="Unspool a model's output into reasoning, content and tool calls.")
    commands = whole.add_subparsers(metavar="COMMAND", required=True, title="commands")
    found: dict[str, argparse.ArgumentParser] = {}
    for name, (add, run, text) in _COMMANDS.items():
        found[name] = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        found[name].set_defaults(run=run)
        add(found[name])
    return whole, found


def _parse_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="FILE", nargs="?", default="-", help="the output; standard input by default")
    _dialect_arguments(p)
    p.add_argument("--tool-choice", metavar="CHOICE", default="auto", help="auto, none, required, or a tool's name")
    p.add_argument("--prompt", metavar="TEXT|@FILE", help="the rendered prompt; its end tells how the output begins")
    p.add_argument("--policy", metavar="FIELD=VALUE", action="append", default=[], help="repeatable")
    p.add_argument("--finish-reason", metavar="REASON", default="stop", help="the engine's; stop by default")
    text = f"{', '.join(FORMATS)}; pretty on a terminal, else message"
    p.add_argument("--format", type=_one_of(FORMATS), metavar="FORMAT", help=text)
    p.add_argument("--follow", action="store_true", help="show the output as it comes")
    p.add_argument("--strict", action="store_true", help="exit with 1 if a call is not ok, or not of a declared tool")


def _render_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="the message as JSON; standard input by default"
    )
    _dialect_arguments(p)


def _constrain_arguments(p: argparse.ArgumentParser) -> None:
    _dialect_arguments(p)
    text = f"{', '.join(CONSTRAINTS)}; structural_tag by default"
    p.add_argument("--format", type=_one_of(CONSTRAINTS), metavar="FORMAT", default=CONSTRAINTS[0], help=text)
    text = "auto, none, required, or a tool's name; required by default"
    p.add_argument("--tool-choice", metavar="CHOICE", default="required", help=text)
    p.add_argument("--no-parallel", action="store_true", help="one call at most")
    levels = tuple(level.name.lower() for level in ToolStrictLevel)
    text = f"{', '.join(levels)}: constrains --tool-choice auto where no tool is strict"
    p.add_argument("--strict-level", type=_one_of(levels), metavar="LEVEL", default=levels[0], help=text)
    p.add_argument("--response-format", metavar="FILE", help="JSON schema of the content, or OpenAI's response_format")
    p.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json, which tells the special tokens (lark)")


def _serve_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--model", metavar="NAME", help="the served name; tells the dialect where no other argument does")
    p.add_argument("--host", default="127.0.0.1", help="where to listen; 127.0.0.1 by default")
    p.add_argument("--port", type=int, default=8192, help="8192 by default; 0 takes any that is free")
    p.add_argument("--engine", metavar="KIND:…", required=True, help="replay:PATH, a recording or a folder of them")
    text = "how much faster than recorded; 1 by default, 0 is as fast as it goes"
    p.add_argument("--replay-speed", type=float, metavar="FACTOR", default=1.0, help=text)
    p.add_argument("--capture", metavar="DIR", help="record every raw output there, for replay")
    p.add_argument("--dialect", metavar="NAME|FILE.toml", help="reads reasoning and calls")
    p.add_argument("--reasoning-parser", metavar="NAME|FILE.toml", help="reads reasoning; alone, calls too")
    p.add_argument("--tool-call-parser", metavar="NAME|FILE.toml", help="reads calls; alone, reasoning too")
    text = "the model's folder, with its chat template; without it the engine gets the messages alone"
    p.add_argument("--tokenizer", metavar="DIR", help=text)
    text = "serve although the dialect does not read what the chat template writes"
    p.add_argument("--no-self-check", action="store_true", help=text)
    p.add_argument("--policy", metavar="FIELD=VALUE", action="append", default=[], help="repeatable")
    p.add_argument(
        "--profile", type=_one_of(PROFILES), metavar="PROFILE", default=PROFILES[0], help=", ".join(PROFILES)
    )
    p.add_argument("--full-text", action="store_true", help="profile mindie: content is cumulative")
    p.add_argument(
        "--timing", type=_one_of(("usage", "top")), metavar="PLACE", default="usage", help="mindie: usage, top"
    )
    p.add_argument("--content-chunks", action="store_true", help="profile candle: extensions tell the content too")
    fields = tuple(REASONING_FIELDS)
    p.add_argument(
        "--reasoning-field", type=_one_of(fields), metavar="FIELD", default=fields[0], help=", ".join(fields)
    )
    reasons = ("stop", "tool_calls")
    text = "finish reason of an answer to a named tool_choice: stop (default), tool_calls"
    p.add_argument("--named-reason", type=_one_of(reasons), metavar="REASON", default=reasons[0], help=text)
    levels = tuple(level.name.lower() for level in ToolStrictLevel)
    text = f"{', '.join(levels)}: constrains tool_choice auto where no tool is strict"
    p.add_argument("--strict-level", type=_one_of(levels), metavar="LEVEL", default=levels[0], help=text)
    p.add_argument("--api-key", metavar="KEY|@FILE", help="what clients have to present")
    for field, text in LIMITS.items():
        default = getattr(Limits(), field)
        p.add_argument(f"--max-{field}", type=type(default), metavar="N", default=default, help=f"{text}; {default:,}")


def _dialect_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("-d", "--dialect", metavar="NAME|FILE.toml", help="see `unspool dialects`")
    p.add_argument("--model", metavar="NAME", help="a model's name, to find the dialect by")
    p.add_argument("--reasoning", metavar="NAME", help="another dialect, whose reasoning markers to use")
    p.add_argument("--tools", metavar="FILE", help="JSON list of the request's tools, as OpenAI writes them")
    stages = tuple(s.value for s in Stage)
    p.add_argument("--stage", type=_one_of(stages), metavar="STAGE", help=f"how the output begins: {', '.join(stages)}")


def _dialects_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("name", metavar="NAME|FILE.toml", nargs="?", help="show this one with its templates and examples")


def _check_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("files", metavar="FILE.toml|NAME", nargs="+", help="dialect files, or names of dialects")


def _detect_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--model", metavar="NAME", help="a model's name, with or without its organisation")
    p.add_argument("--chat-template", metavar="FILE", help="a chat template (jinja)")


def _demo_arguments(p: argparse.ArgumentParser) -> None:
    text = "seconds between two pieces; by default a little on a terminal, else none"
    p.add_argument("--delay", type=float, metavar="SECONDS", help=text)


def _one_of(allowed: Sequence[str]) -> Callable[[str], str]:
    """A type of arguments: one of these words."""

    def check(value: str) -> str:
        if value not in allowed:
            raise argparse.ArgumentTypeError(f"{value!r} is not one of {', '.join(allowed)}{_near(value, allowed)}")
        return value

    return check


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _named_dialect(argument: str, name: str, load: Callable[[str], Dialect] = load_dialect) -> Dialect:
    """A dialect by its name, or by its file."""
    try:
        return load(name) if name.endswith(".toml") else get_dialect(name)
    except (UnknownDialect, DialectError) as error:
        raise Misuse(f"{argument}: {error}") from None


def _chosen_dialect(options: argparse.Namespace) -> Dialect:
    if options.dialect is not None:
        dialect = _named_dialect("--dialect", options.dialect)
    elif options.model is not None:
        dialect = get_dialect(_candidates(options.model, None)[0].dialect)
    else:
        raise Misuse("--dialect: is missing; name the dialect, or the model with --model")
    if options.reasoning is None:
        return dialect
    other = _named_dialect("--reasoning", options.reasoning)
    if not other.reasoning:
        raise Misuse(f"--reasoning: dialect {other.name!r} has no reasoning markers")
    return dialect.with_reasoning(other)


def _candidates(model: str | None, chat_template: str | None) -> list[Candidate]:
    found = detect_dialect(model=model, chat_template=chat_template)
    if not found:
        argument = "--chat-template" if model is None else "--model"
        raise Misuse(f"{argument}: no dialect is known for it; see `unspool dialects`")
    return found


def _tools(path: str | None) -> list[Any] | None:
    if path is None:
        return None
    tools = _json("--tools", path)
    if not isinstance(tools, list):
        raise Misuse(f"--tools: {path}: must be a JSON list of tools")
    nameless = [i for i, tool in enumerate(tools) if tool_name(tool) is None]
    if nameless:
        raise Misuse(f"--tools: {path}: tools[{nameless[0]}]: misses function.name")
    return tools


def _tool_choice(choice: str, tools: list[Any] | None) -> Any:
    if choice in _TOOL_CHOICES:
        return choice
    names = [tool_name(t) or "" for t in tools or []]
    if tools is not None and choice not in names:
        raise Misuse(f"--tool-choice: no tool is called {choice!r}{_near(choice, (*names, *_TOOL_CHOICES))}")
    return {"type": "function", "function": {"name": choice}}


def _policy(settings: Sequence[str]) -> Policy:
    values: dict[str, Any] = {}
    for setting in settings:
        field, equals, value = setting.partition("=")
        if field not in CHOICES:
            raise Misuse(f"--policy: unknown field {field!r}; allowed are {', '.join(CHOICES)}{_near(field, CHOICES)}")
        allowed = {str(choice).lower(): choice for choice in CHOICES[field]}
        if not equals or value.lower() not in allowed:
            raise Misuse(f"--policy: {field}: {value!r} is not one of {', '.join(allowed)}{_near(value, allowed)}")
        values[field] = allowed[value.lower()]
    return Policy(**values)


# -- input and output --------------------------------------------------------------------------------------------------


def _pieces(argument: str, path: str) -> Iterator[str]:
    """The text of a file, or of standard input for ``-``, in pieces, each as soon as it is there."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
            while data := file.read1(_CHUNK):  # type: ignore[union-attr]  # what is there, without waiting for more
                yield decoder.decode(data)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Misuse(f"{argument}: {path}: not UTF-8: {error.reason}") from None
    except OSError as error:
        raise Misuse(f"{argument}: {path}: {error.strerror}") from None


def _text(argument: str, path: str) -> str:
    return "".join(_pieces(argument, path))


def _json(argument: str, path: str) -> Any:
    try:
        return msgspec.json.decode(_text(argument, path))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Misuse(f"{argument}: {path}: not JSON: {error}") from None


def _write(text: str) -> None:
    """Write to standard output at once, in UTF-8 whatever the locale says."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _write_json(value: Any) -> None:
    _write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def _forget_output() -> None:
    """Keep the interpreter from complaining, at its end, about what a closed pipe did not take."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _colors() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# -- parse -------------------------------------------------------------------------------------------------------------


def _run_parse(options: argparse.Namespace) -> int:
    tools = _tools(options.tools)
    prompt = options.prompt
    if prompt is not None and prompt.startswith("@"):
        prompt = _text("--prompt", prompt[1:])
    parser = Parser(
        _chosen_dialect(options),
        tools=tools,
        tool_choice=_tool_choice(options.tool_choice, tools),
        stage=options.stage,
        prompt=prompt,
        policy=_policy(options.policy),
    )
    form = options.format or ("pretty" if sys.stdout.isatty() else "message")
    show = _shower(form)
    chunks: Iterable[str] = _pieces("FILE", options.file)
    for chunk in chunks if options.follow else ["".join(chunks)]:
        show(parser.feed(chunk))
    show(parser.close(options.finish_reason))
    message = parser.message
    if form == "message":
        _write_json(message)
    elif form == "openai":
        _write_json(message.to_openai())
    failures = _failures(message) if options.strict else []
    for failure in failures:
        print(f"unspool parse: --strict: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _shower(form: str) -> Callable[[list[Event]], None]:
    """What shows events as they come."""
    if form == "events":
        return lambda events: _write("".join(msgspec.json.encode(e).decode() + "\n" for e in events))
    if form == "pretty":
        pretty = Pretty(_write, color=_colors())

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


# -- serve -------------------------------------------------------------------------------------------------------------


def _run_serve(options: argparse.Namespace) -> int:
    tokenizer = _tokenizer(options)
    dialect = _served_dialect(options, tokenizer)
    key = options.api_key
    if key is not None and key.startswith("@"):
        key = _text("--api-key", key[1:]).strip()
    if key == "":
        raise Misuse("--api-key: is empty")
    if not 0 <= options.port <= 65_535:
        raise Misuse("--port: must be between 0 and 65535")
    try:
        limits = Limits(**{field: getattr(options, f"max_{field}") for field in LIMITS})
    except ValueError as error:
        raise Misuse(f"--max-{error}") from None
    settings = Settings(
        model=options.model or dialect.name,
        dialect=dialect,
        policy=_policy(options.policy),
        profile=options.profile,
        reasoning_field=options.reasoning_field,
        full_text=options.full_text,
        timing=options.timing,
        content_chunks=options.content_chunks,
        named_reason=options.named_reason,
        strict_level=ToolStrictLevel[options.strict_level.upper()],
        api_key=key,
        limits=limits,
    )
    try:
        from .server import serve
    except ImportError as error:
        raise Misuse(f"COMMAND: the server needs {error.name}; install unspool[server]") from None
    prompts = _prompts(options, tokenizer, dialect)
    return 0 if serve(settings, _engine(options, settings), options.host, options.port, prompts) else 1


def _tokenizer(options: argparse.Namespace) -> Any:
    """What the model's folder tells of its prompts; ``None`` where there is none."""
    if options.tokenizer is None:
        return None
    try:
        from .server.prompts import TemplateError, read_tokenizer
    except ImportError as error:
        raise Misuse(f"--tokenizer: needs {error.name}; install unspool[server]") from None
    try:
        return read_tokenizer(options.tokenizer)
    except OSError as error:
        raise Misuse(f"--tokenizer: {options.tokenizer}: {error.strerror}") from None
    except TemplateError as error:
        raise Misuse(f"--tokenizer: {error}") from None


def _prompts(options: argparse.Namespace, tokenizer: Any, dialect: Dialect) -> Any:
    """The chat template, checked; ``None`` where there is none."""
    if tokenizer is None:
        return None
    from .server.prompts import Prompts, TemplateError

    try:
        prompts = Prompts(tokenizer)
        if not prompts.check(dialect):
            print(f"unspool serve: --tokenizer: {options.tokenizer}: the template writes no calls", file=sys.stderr)
    except TemplateError as error:
        if not options.no_self_check:
            raise Misuse(f"--tokenizer: {error} (--no-self-check serves all the same)") from None
        prompts = Prompts(tokenizer)
    return prompts


def _served_dialect(options: argparse.Namespace, tokenizer: Any) -> Dialect:
    reasoning, calls = options.reasoning_parser, options.tool_call_parser
    if options.dialect is not None:
        if reasoning is not None or calls is not None:
            raise Misuse("--dialect: reads both; give it, or --reasoning-parser and --tool-call-parser")
        return _named_dialect("--dialect", options.dialect)
    if calls is not None:
        dialect = _named_dialect("--tool-call-parser", calls)
        if reasoning is None:
            return dialect
        other = _named_dialect("--reasoning-parser", reasoning)
        if not other.reasoning:
            raise Misuse(f"--reasoning-parser: dialect {other.name!r} has no reasoning markers")
        return dialect if other is dialect else dialect.with_reasoning(other)
    if reasoning is not None:
        return _named_dialect("--reasoning-parser", reasoning)
    if options.model is None and tokenizer is None:
        raise Misuse("--dialect: is missing; name the dialect, or the model with --model")
    template = None if tokenizer is None else tokenizer.tool_template
    found = detect_dialect(model=options.model, chat_template=template)
    if not found:
        argument = "--tokenizer" if options.model is None else "--model"
        raise Misuse(f"{argument}: no dialect is known for it; give --dialect, see `unspool dialects`")
    return get_dialect(found[0].dialect)


def _engine(options: argparse.Namespace, settings: Settings) -> Any:
    from .engines import Capture, Replay, read_recordings

    kind, _, path = options.engine.partition(":")
    if kind != "replay" or not path:
        raise Misuse(f"--engine: {options.engine!r}: allowed is replay:PATH")
    try:
        engine = Replay(read_recordings(path), options.replay_speed)
    except OSError as error:
        raise Misuse(f"--engine: {path}: {error.strerror}") from None
    except ValueError as error:
        raise Misuse(f"--engine: {error}") from None
    if options.capture is None:
        return engine
    name = options.dialect or options.tool_call_parser or options.reasoning_parser or settings.dialect.name
    reasoning = options.reasoning_parser if options.tool_call_parser else None
    try:
        return Capture(engine, options.capture, dialect=name, reasoning=reasoning, policy=settings.policy)
    except OSError as error:
        raise Misuse(f"--capture: {options.capture}: {error.strerror}") from None


# -- dialects ----------------------------------------------------------------------------------------------------------


def _run_dialects(options: argparse.Namespace) -> int:
    if options.name is not None:
        _write(describe(_named_dialect("NAME", options.name)))
        return 0
    header = ("NAME", "ALIASES", "START MARKER", "ARGUMENTS", "PARALLEL")
    rows = [dialect_row(d) for d in list_dialects()]
    # Aliases come last, as they can be many; a terminal may cut them off.
    _write(_table([(r[0], *r[2:], r[1]) for r in (header, *rows)]))
    return 0


def dialect_row(dialect: Dialect) -> tuple[str, str, str, str, str]:
    """A dialect in the tables: name, aliases, start marker, format of arguments, whether calls can be parallel."""
    marker = start_marker(dialect).replace("\n", "\\n")
    parallel = "yes" if dialect.parallel else "-"
    return dialect.name, ", ".join(dialect.aliases), marker, dialect.argument_format, parallel


def start_marker(dialect: Dialect) -> str:
    """What a dialect's calls begin with, as it writes them; of reasoning, where there are no calls."""
    marker = _opening(dialect.calls[0]) if dialect.calls else ""
    if dialect.call and not any(c.isalnum() for c in marker):
        marker += _opening(dialect.call[0])
    if not marker and dialect.reasoning:
        marker = _opening(dialect.reasoning[0])
    return marker.strip()


def _opening(template: Template) -> str:
    """A template's literal text up to its first field."""
    first = pieces(template.text)[0]
    return "" if isinstance(first, Field) else first


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def describe(dialect: Dialect) -> str:
    """A dialect for a person: its names, its templates, its examples."""
    about = {
        "name": dialect.name,
        "aliases": ", ".join(dialect.aliases),
        "models": ", ".join(dialect.models),
        "stage": dialect.stage.value,
        "policy": ", ".join(
            f"{f}={getattr(dialect.policy, f)}" for f in CHOICES if getattr(dialect.policy, f) is not None
        ),
    }
    written = {
        "arguments": (dialect.codec, "json"),
        "quote": (dialect.quote, '"'),
        "id": (dialect.id, Dialect("").id),
        "separator.calls": (dialect.call_separator, ""),
        "separator.arguments": (dialect.argument_separator, ""),
    }
    lines = [dialect.description, ""] if dialect.description else []
    lines += [f"{key:<10} {value}" for key, value in about.items() if value]
    lines += [f"{key:<10} {value!r}" for key, (value, default) in written.items() if value != default]
    lines += ["", "Templates (the first of a kind is written, all are read):"]
    for key in ("start", "end"):
        lines += [f"  {key:<10} {text!r}" for text in getattr(dialect, key)]
    for key in ("reasoning", "content", "preamble", "calls", "call", "argument", "item"):
        lines += [f"  {key:<10} {template.text!r}" for template in getattr(dialect, key)]
    for i, example in enumerate(dialect.examples):
        lines += ["", f"Example {i}:", *_described_example(dialect, example)]
    return "\n".join(lines) + "\n"


def _described_example(dialect: Dialect, example: Example) -> list[str]:
    written: list[str] = []
    pretty = Pretty(written.append, color=_colors())
    for event in _example_events(dialect, example, len(example.raw[0])):
        pretty.add(event)
    return [*_quoted(example), *"".join(written).splitlines()]


def _quoted(example: Example) -> list[str]:
    """What the model wrote, line by line."""
    return [f"  | {line}" for line in example.raw[0].split("\n")]


def _example_events(dialect: Dialect, example: Example, size: int, delay: float = 0) -> Iterator[Event]:
    """An example's events as its first raw text streams by, ``size`` characters at a time."""
    parser = Parser(dialect, tools=example_tools(dialect), stage=example.stage)
    raw = example.raw[0]
    for at in range(0, len(raw), max(size, 1)):
        time.sleep(delay)
        yield from parser.feed(raw[at : at + size])
    yield from parser.close()


# -- check, render, detect, demo ---------------------------------------------------------------------------------------


def _run_check(options: argparse.Namespace) -> int:
    failed = False
    for file in options.files:
        dialect = _named_dialect("FILE", file, read_file)
        problems = check_dialect(dialect)
        for problem in problems:
            print(f"unspool check: FILE: {file}: {problem}", file=sys.stderr)
        if not problems:
            raws = [raw for example in dialect.examples for raw in example.raw]
            cuts = sum(max(len(raw) - 1, 0) for raw in raws)
            _write(f"{file}: ok ({len(dialect.examples)} examples, {len(raws)} raw texts, {cuts} cuts)\n")
        failed = failed or bool(problems)
    return 2 if failed else 0


def _run_render(options: argparse.Namespace) -> int:
    dialect = _chosen_dialect(options)
    message = _json("FILE", options.file)
    if not isinstance(message, dict):
        raise Misuse(f"FILE: {options.file}: must be a JSON object, the message")
    try:
        raw = render(_message(message), dialect, tools=_tools(options.tools), stage=options.stage)
    except (DialectError, ValueError, TypeError) as error:
        raise Misuse(f"FILE: {options.file}: {error}") from None
    _write(raw)
    if sys.stdout.isatty() and not raw.endswith("\n"):
        _write("\n")
    return 0


def _run_constrain(options: argparse.Namespace) -> int:
    dialect = _chosen_dialect(options)
    tools = _tools(options.tools)
    answer = None if options.response_format is None else _json("--response-format", options.response_format)
    tokenizer = None
    if options.tokenizer is not None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise Misuse("--tokenizer: needs the package tokenizers") from None
        tokenizer = Tokenizer.from_str(_text("--tokenizer", options.tokenizer))
    try:
        constraint = constrain(
            dialect,
            tools,
            _tool_choice(options.tool_choice, tools),
            not options.no_parallel,
            stage=options.stage,
            response_format=answer,
            strict_level=ToolStrictLevel[options.strict_level.upper()],
            tokenizer=tokenizer,
        )
        if constraint is None:
            raise Misuse("--tool-choice: nothing is constrained; make a tool strict, or raise --strict-level")
        if options.format == "lark":
            _write(constraint.lark)
        else:
            _write_json(getattr(constraint, options.format))
    except ConstraintError as error:
        raise Misuse(f"--tools: {error}") from None
    return 0


def _message(data: dict[str, Any]) -> Message | dict[str, Any]:
    """What `parse --format message` wrote is a `Message` again; anything else is left for `render` to understand."""
    return msgspec.convert(data, Message) if "segments" in data else data


def _run_detect(options: argparse.Namespace) -> int:
    if options.model is None and options.chat_template is None:
        raise Misuse("--model: is missing; give --model or --chat-template")
    template = None if options.chat_template is None else _text("--chat-template", options.chat_template)
    rows = [("DIALECT", "SCORE", "REASON")]
    rows += [(c.dialect, f"{c.score:g}", c.reason) for c in _candidates(options.model, template)]
    _write(_table(rows))
    return 0


def _run_demo(options: argparse.Namespace) -> int:
    delay = options.delay if options.delay is not None else _DEMO_DELAY if sys.stdout.isatty() else 0
    if not 0 <= delay <= 1:
        raise Misuse("--delay: must be between 0 and 1")
    for dialect, example in _showcase():
        pretty = Pretty(_write, color=_colors())
        _write("\n".join([f"{dialect.name}:", *_quoted(example), ""]))
        for event in _example_events(dialect, example, _DEMO_PIECE, delay):
            pretty.add(event)
        _write("\n")
    return 0


def _showcase() -> list[tuple[Dialect, Example]]:
    """The richest example of each way to write a turn, one dialect for each."""
    best: dict[tuple[str, bool], tuple[int, Dialect, Example]] = {}
    for dialect in list_dialects():
        for example in dialect.examples:
            richness = 2 * len(example.tool_calls) + bool(example.content) + bool(example.reasoning)
            kind = dialect.argument_format, dialect.framed
            if kind not in best or best[kind][0] < richness:
                best[kind] = richness, dialect, example
    return [(dialect, example) for _, dialect, example in best.values()]


_COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int], str]] = {
    "parse": (_parse_arguments, _run_parse, "read a model's output"),
    "serve": (_serve_arguments, _run_serve, "answer the clients of an engine in their protocols"),
    "constrain": (_constrain_arguments, _run_constrain, "print the grammar of what may be generated"),
    "dialects": (_dialects_arguments, _run_dialects, "list the dialects, or show one"),
    "check": (_check_arguments, _run_check, "try a dialect file on its own examples"),
    "render": (_render_arguments, _run_render, "write a message the way a model writes it"),
    "detect": (_detect_arguments, _run_detect, "find the dialect of a model"),
    "demo": (_demo_arguments, _run_demo, "show a few examples as they stream by"),
}
