"""Shared by the commands: errors, common arguments, input and output."""

import argparse
import codecs
import contextlib
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import msgspec

from ..check import load_dialect
from ..dialect.file import Dialect
from ..dialect.registry import get_dialect
from ..errors import DialectError, GgufError, ToolsError, UnknownDialect
from ..events import Stage
from ..infer.detect import Candidate, detect_dialect
from ..policy import CHOICES as POLICIES
from ..policy import Policy
from ..toolset import CHOICES, choice_of, read_toolset
from ..toolset import read_tools as check_tools
from ..validation import near
from ..wire.encoding import CONTROLS

_CHUNK = 65_536  # bytes per read


class Misuse(Exception):
    """The command was called wrongly; the message names the argument."""


_said = threading.Event()


def hush() -> None:
    """Say nothing from now on, as another process of the command has said the same."""
    _said.set()


def say(text: str) -> None:
    """Write lines to standard error. Much of a text comes from files and engines, which must not steer the terminal."""
    if not _said.is_set():
        print(text.translate(CONTROLS), file=sys.stderr)


@contextlib.contextmanager
def blaming(argument: str, path: Any, *faults: type[Exception]) -> Iterator[None]:
    """A context that reports errors as misuse of the argument: those of the file at ``path`` and its text, and those of
    the types ``faults``."""
    where = argument if path is None else f"{argument}: {path}"
    try:
        yield
    except OSError as error:
        if path is None:
            raise
        raise Misuse(f"{where}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise Misuse(f"{where}: not UTF-8: {error.reason}") from None
    except faults as error:
        raise Misuse(f"{argument}: {error}") from None


@contextlib.contextmanager
def needing(extra: str) -> Iterator[None]:
    """A context that reports a missing package as one of this extra of unspool."""
    try:
        yield
    except ImportError as error:
        raise Misuse(f"needs {error.name}; in a clone of unspool: pip install '.[{extra}]'") from None


Container = argparse._ActionsContainer  # argparse has no public name for it
"""A parser, or a group of its arguments."""


_MANY = 20  # arguments


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose usage is short."""

    def format_help(self) -> str:
        if len(self._actions) > _MANY and self.usage is None:
            given = [f"[{a.metavar}]" if a.nargs == "?" else str(a.metavar) for a in self._get_positional_actions()]
            self.usage = " ".join(["%(prog)s [--ARGUMENT ...]", *given])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise Misuse(_INVALID.sub(lambda m: f"must be {_NUMBERS[m[1]]}, not", message.removeprefix("argument ")))


_NUMBERS: Final = {"int": "an integer", "float": "a number"}
_INVALID: Final = re.compile("invalid (int|float) value:")  # argparse's words


class OneOf:
    """An argument type that accepts only certain words."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(map(str, allowed))

    def __call__(self, value: str) -> str:
        if value not in self.allowed:
            near_by = near(value, self.allowed)
            raise argparse.ArgumentTypeError(f"{value!r} is not one of {', '.join(self.allowed)}{near_by}")
        return value


def dialect_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("-d", "--dialect", metavar="NAME|FILE.toml", help="see `unspool dialects`")
    p.add_argument("--model", metavar="NAME", help="detect the dialect from a model's name")
    p.add_argument("--reasoning", metavar="NAME", help="take the reasoning markers from another dialect")
    p.add_argument("--tools", metavar="FILE", help="the request's tools, a JSON list in OpenAI's format")
    text = f"how the output begins: {', '.join(Stage)}"
    p.add_argument("--stage", type=OneOf(Stage), metavar="STAGE", help=text)


def policy_argument(p: Container) -> None:
    text = "set a field of the policy (repeatable)"
    p.add_argument("--policy", metavar="FIELD=VALUE", action="append", default=[], help=text)


def named_dialect(argument: str, name: str, load: Callable[[str], Dialect] = load_dialect) -> Dialect:
    """A dialect, by its name or its file; errors begin with the argument, unless it is empty."""
    argument = argument and f"{argument}: "
    try:
        return load(name) if name.endswith(".toml") else get_dialect(name)
    except (UnknownDialect, DialectError) as error:
        # Suggest a subcommand, where a program would call a function.
        text = str(error).replace("list_dialects()", "`unspool dialects`")
        text = text.replace(f"detect_dialect(model={name!r})", f"`unspool detect {name}`")
        raise Misuse(f"{argument}{text}") from None


def chosen_dialect(options: argparse.Namespace, default: Dialect | None = None) -> Dialect:
    """The dialect that the arguments of `dialect_arguments` name, or else the default, if there is one."""
    if options.dialect is not None:
        dialect = named_dialect("--dialect", options.dialect)
    elif options.model is not None:
        dialect = get_dialect(candidates(options.model, None)[0].dialect)
    elif default is not None:
        dialect = default
    else:
        hint = "or find it by an output, with `unspool detect --output FILE`"
        raise Misuse(f"--dialect: is required; name the dialect, or the model with --model, {hint}")
    return dialect if options.reasoning is None else with_reasoning(dialect, "--reasoning", options.reasoning)


def with_reasoning(dialect: Dialect, argument: str, name: str) -> Dialect:
    """A dialect with the reasoning markers of the one that an argument names."""
    other = named_dialect(argument, name)
    if not other.reasoning:
        raise Misuse(f"{argument}: dialect {other.name!r} has no reasoning markers")
    return dialect if other is dialect else dialect.with_reasoning(other)


def candidates(
    model: str | None, chat_template: str | None, argument: str = "--model", outputs: list[str] | None = None
) -> list[Candidate]:
    """The dialects of a model; ``argument`` is the argument that named it."""
    found = detect_dialect(model=model, chat_template=chat_template, output=outputs)
    if not found:
        argument = "--output" if outputs else "--chat-template" if model is None else f"{argument}: {model}"
        raise Misuse(f"{argument}: no dialect found for it; see `unspool dialects`")
    return found


def read_tools(path: str | None) -> list[Any] | None:
    """The tools in a file, in the form that parsers accept."""
    if path is None:
        return None
    tools = read_json("--tools", path)
    with blaming(f"--tools: {path}", path, ToolsError):
        check_tools(tools)
    return tools if tools is None else list(tools)


def read_tool_choice(choice: str, tools: list[Any] | None) -> Any:
    """A tool choice: one of `CHOICES`, or the name of a function."""
    found: Any = choice if choice in CHOICES else choice_of(choice)
    try:
        return read_toolset(tools, found).choice
    except ToolsError as error:
        names = check_tools(tools) or ()
        raise Misuse(f"--tool-choice: {error.message}{near(choice, (*names, *CHOICES))}") from None


def read_policy(settings: Sequence[str]) -> Policy:
    values: dict[str, Any] = {}
    for setting in settings:
        field, equals, value = setting.partition("=")
        if field not in POLICIES:
            raise Misuse(f"--policy: unknown field {field!r}; allowed are {', '.join(POLICIES)}{near(field, POLICIES)}")
        allowed = {str(choice).lower(): choice for choice in POLICIES[field]}
        if not equals or value.lower() not in allowed:
            raise Misuse(f"--policy: {field}: {value!r} is not one of {', '.join(allowed)}{near(value, allowed)}")
        values[field] = allowed[value.lower()]
    return Policy(**values)


def read_pieces(argument: str, path: str) -> Iterator[str]:
    """Read a file, or standard input for ``-``, in pieces as they arrive."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with blaming(argument, path):
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
            while data := cast(io.BufferedIOBase, file).read1(_CHUNK):  # returns the available bytes, without waiting
                yield decoder.decode(data)
        decoder.decode(b"", final=True)


def read_text(argument: str, path: str) -> str:
    return "".join(read_pieces(argument, path))


def read_given(argument: str, value: str | None) -> str | None:
    """The value of an argument, or the text of the file that it names after an ``@``."""
    return read_text(argument, value[1:]) if value is not None and value.startswith("@") else value


def read_key(argument: str, value: str | None) -> str | None:
    """A key, given directly or in a file, without white space around it."""
    key = read_given(argument, value)
    return key if key is value else (key or "").strip()


def read_json(argument: str, path: str) -> Any:
    with blaming(f"{argument}: {path}: not JSON", path, msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(read_text(argument, path))


def load_tokenizer(argument: str, path: str) -> Any:
    """The tokenizer of a ``tokenizer.json``, or the tokens of a GGUF; `ImportError` if the former needs a package."""
    if path.endswith(".gguf"):
        from ..checkpoints.gguf import read_gguf
        from ..checkpoints.pieces import Pieces

        with blaming(argument, path, GgufError):
            return Pieces(read_gguf(path, vocabulary=True))
    from tokenizers import Tokenizer

    text = read_text(argument, path)
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the package raises nothing more specific for a malformed file
        raise Misuse(f"{argument}: {path}: {error}") from None


def write(text: str) -> None:
    """Write to standard output at once, in UTF-8 regardless of the locale."""
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def table(rows: Sequence[Sequence[str]]) -> str:
    rows = [[cell.translate(CONTROLS) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def write_json(value: Any) -> None:
    write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def forget_output() -> None:
    """Keep the interpreter from complaining at exit about output that a closed pipe did not accept."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def colors() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
