"""The commands on dialects: ``dialects``, ``check``, ``detect``, ``demo``, ``new``."""

import argparse
import contextlib
import re
import sys
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from ..check import check_dialect, read_file
from ..dialect.examples import example_tools
from ..dialect.file import Dialect, Example
from ..dialect.patterns import worded
from ..dialect.registry import find_base, list_dialects
from ..dialect.template import Field, Template, pieces
from ..errors import DialectError
from ..events import Event
from ..parser import Parser
from ..policy import CHOICES
from ..regex import Regex
from .common import Misuse, blaming, candidates, colors, named_dialect, read_text, table, write
from .pretty import Pretty

_DEMO_PIECE = 4  # characters per chunk, about a token
_DEMO_DELAY = 0.008  # seconds between chunks, on a terminal


def dialects_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("name", metavar="NAME|FILE.toml", nargs="?", help="show this one with its templates and examples")


def run_dialects(options: argparse.Namespace) -> int:
    if options.name is not None:
        write(describe(named_dialect("NAME", options.name)))
        return 0
    # The last columns may be long, and a terminal may cut them off.
    header = ("NAME", "FAMILIES AND VERSIONS", "MODELS SUCH AS", "STARTS WITH", "ALIASES")
    write(table([header, *map(_listed, list_dialects())]) + _WHICH)
    return 0


_WHICH = """
Which to take:
  unspool detect MODEL                 by the model's name: any row's MODELS SUCH AS, with its organization or without
  unspool detect --chat-template FILE  by its template, if the name says nothing, as a fine-tune's may
  unspool detect --output FILE         by what it wrote
Of two versions, take the model's own. Rows of "Any model" are for models that have learned no format of their own.
If none fits: `unspool infer`.
`unspool dialects NAME` shows one with its templates and examples.
"""
_SHOWN = 3  # examples of models


def _listed(dialect: Dialect) -> tuple[str, str, str, str, str]:
    models = list(dict.fromkeys(map(_named_by, dialect.models)))
    more = ["…"] if len(models) > _SHOWN else []
    marker = start_marker(dialect).replace("\n", "\\n")
    family = dialect.description.partition("\n")[0].partition(": ")[0]
    return dialect.name, family, ", ".join(models[:_SHOWN] + more), marker, ", ".join(dialect.aliases)


def _named_by(glob: str) -> str:
    """A model's name that a glob means."""
    name = re.sub(r"\[(\w)(?!-)[^]]*\]", r"\1", glob)  # the first of some characters
    return re.sub(r"-*(\[[^]]*\]|\*)+-*", "-", name).strip("-")


def start_marker(dialect: Dialect) -> str:
    """The beginning of a dialect's calls, or of its reasoning if it has no calls."""
    marker = _opening(dialect.calls[0]) if dialect.calls else ""
    if dialect.call and not worded(marker):
        marker += _opening(dialect.call[0])
    if not marker and dialect.reasoning:
        marker = _opening(dialect.reasoning[0])
    return marker.strip()


def _opening(template: Template) -> str:
    """A template's literal text up to its first field."""
    first = pieces(template.text)[0]
    return "" if isinstance(first, Field) else first


def describe(dialect: Dialect) -> str:
    """A dialect as readable text: its names, its templates, its examples."""
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
        "arguments": (dialect.codec.name, "json"),
        "quote": (dialect.codec.quote, '"'),
        "id": (dialect.id, Dialect("").id),
        "anywhere": (", ".join(dialect.anywhere), ""),
        "separator.calls": (dialect.separator.calls, ""),
        "separator.arguments": (dialect.separator.arguments, ""),
    }
    lines = [dialect.description, ""] if dialect.description else []
    lines += [f"{key:<10} {value}" for key, value in about.items() if value]
    lines += [f"{key:<10} {value!r}" for key, (value, default) in written.items() if value != default]
    lines += ["", "Templates (the first of a kind is written, all are read):"]
    for key in ("start", "end"):
        lines += [f"  {key:<10} {text!r}" for text in getattr(dialect, key)]
    for key in ("reasoning", "content", "preamble", "calls", "call", "argument", "item"):
        lines += [f"  {key:<10} {template.text!r}" for template in getattr(dialect, key) if template.spelled is None]
    lines += [f"  {text!r} is also read as {', '.join(map(repr, others))}" for text, others in dialect.spellings]
    for i, example in enumerate(dialect.examples):
        lines += ["", f"Example {i}:", *_described_example(dialect, example)]
    return "\n".join(lines) + "\n"


def _described_example(dialect: Dialect, example: Example) -> list[str]:
    written: list[str] = []
    pretty = Pretty(written.append, color=colors())
    for event in _example_events(dialect, example, len(example.raw[0])):
        pretty.add(event)
    return [*_quoted(example), *"".join(written).splitlines()]


def _quoted(example: Example) -> list[str]:
    return [f"  | {line}" for line in example.raw[0].split("\n")]


def _example_events(dialect: Dialect, example: Example, size: int, delay: float = 0) -> Iterator[Event]:
    """The events of an example whose first raw text arrives ``size`` characters at a time."""
    parser = Parser(dialect, tools=example_tools(dialect), stage=example.stage)
    raw = example.raw[0]
    for at in range(0, len(raw), max(size, 1)):
        time.sleep(delay)
        yield from parser.feed(raw[at : at + size])
    yield from parser.close()


def check_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("files", metavar="FILE.toml|NAME", nargs="+", help="dialect files, or names of dialects")


def run_check(options: argparse.Namespace) -> int:
    failed = False
    for file in options.files:
        dialect = named_dialect("", file, read_file)
        problems = check_dialect(dialect)
        for problem in problems:
            print(f"unspool check: {file}: {problem}", file=sys.stderr)
            for line in problem.why:
                print(f"    {line}", file=sys.stderr)
        if not problems:
            raws = [raw for example in dialect.examples for raw in example.raw]
            cuts = sum(max(len(raw) - 1, 0) for raw in raws)
            write(f"{file}: ok ({len(dialect.examples)} examples, {len(raws)} raw texts, {cuts} cuts)\n")
        failed = failed or bool(problems)
    return 2 if failed else 0


def detect_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("name", metavar="NAME", nargs="?", help="a model's name, with or without its organization")
    p.add_argument("--model", metavar="NAME", help="the same as NAME")
    p.add_argument("--chat-template", metavar="FILE", help="a chat template (jinja)")
    p.add_argument(
        "--output", metavar="FILE", action="append", help="what a model wrote (repeatable); - is standard input"
    )


def run_detect(options: argparse.Namespace) -> int:
    if options.name is not None and options.model is not None:
        raise Misuse("--model: cannot be combined with NAME")
    model = options.name or options.model
    if model is None and options.chat_template is None and not options.output:
        raise Misuse("a model's name, --chat-template or --output is required")
    template = None if options.chat_template is None else read_text("--chat-template", options.chat_template)
    rows = [("DIALECT", "SCORE", "REASON")]
    outputs = [read_text("--output", path) for path in options.output] if options.output else None
    rows += [
        (c.dialect, f"{c.score:g}", c.reason)
        for c in candidates(model, template, "NAME" if options.name else "--model", outputs)
    ]
    write(table(rows))
    return 0


def demo_arguments(p: argparse.ArgumentParser) -> None:
    text = "seconds between two pieces; default: a little on a terminal, else none"
    p.add_argument("--delay", type=float, metavar="SECONDS", help=text)


def run_demo(options: argparse.Namespace) -> int:
    delay = options.delay if options.delay is not None else _DEMO_DELAY if sys.stdout.isatty() else 0
    if not 0 <= delay <= 1:
        raise Misuse("--delay: must be between 0 and 1")
    for dialect, example in _showcase():
        pretty = Pretty(write, color=colors())
        write("\n".join([f"{dialect.name}:", *_quoted(example), ""]))
        for event in _example_events(dialect, example, _DEMO_PIECE, delay):
            pretty.add(event)
        write("\n")
    return 0


def _showcase() -> list[tuple[Dialect, Example]]:
    """The richest example of each way to write a turn, each from a different dialect."""
    best: dict[tuple[str, bool], tuple[int, Dialect, Example]] = {}
    for dialect in list_dialects():
        for example in dialect.examples:
            richness = 2 * len(example.tool_calls) + bool(example.content) + bool(example.reasoning)
            kind = dialect.argument_format, dialect.framed
            if kind not in best or best[kind][0] < richness:
                best[kind] = richness, dialect, example
    return [(dialect, example) for _, dialect, example in best.values()]


_NAME = Regex(r"[A-Za-z0-9][\w.-]*")


def new_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("name", metavar="NAME", help="the dialect's name; the file is NAME.toml")
    p.add_argument("-o", "--output", metavar="FILE", help="another file; - for standard output")


def run_new(options: argparse.Namespace) -> int:
    name: str = options.name
    if not _NAME.fullmatch(name):
        raise Misuse(
            f"NAME: {name!r} is not a name; allowed are letters, digits and _ . -, with a letter or digit first"
        )
    with contextlib.suppress(DialectError):
        known = find_base(name)
        raise Misuse(f"NAME: {name!r} is a dialect already, {known.name!r}; `unspool dialects {known.name}` shows it")
    text = (resources.files("unspool.dialect") / "new.toml").read_text(encoding="utf-8").replace("NAME", name)
    if options.output == "-":
        write(text)
        return 0
    path, argument = Path(options.output or f"{name}.toml"), "--output" if options.output else "NAME"
    with blaming(argument, path):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise Misuse(f"{argument}: {path} exists already") from None
    write(f"{path}: a dialect to start from; change it, and test it with `unspool check {path}`\n")
    return 0
