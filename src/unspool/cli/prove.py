"""The commands on chat templates: ``prove``, ``infer``, ``convert``; and how ``serve`` reports the same proof."""

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from ..dialect.file import Dialect
from ..errors import DialectError
from ..infer import Case, Limits, TemplateError, infer_dialect
from ..infer.choosing import Asked, Choice, choose_dialect, holds, prove_dialect, summary
from ..infer.describing import agree, agreed, to_response_template
from ..infer.exchange import from_response_template
from ..infer.sources import Checkpoint, read_checkpoint
from ..wire.encoding import CONTROLS
from .common import Misuse, OneOf, blaming, load_tokenizer, named_dialect, needing, read_json, say, write, write_json

_SOURCE = "a checkpoint's folder, its tokenizer_config.json, a chat template, or a GGUF"
_WHICH = "the name of the template, if there are several; default: tool_use, else default"


def prove_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("dialect", metavar="DIALECT|FILE.toml", help="see `unspool dialects`; auto: the one that proves")
    p.add_argument("--template", metavar="PATH", required=True, help=_SOURCE)
    p.add_argument("--template-name", metavar="NAME", help=_WHICH)
    p.add_argument("--json", action="store_true", help="print the proof as JSON")


def run_prove(options: argparse.Namespace) -> int:
    checkpoint, template = read_template("--template", options.template, "--template-name", options.template_name)
    tokenizer = read_tokenizer_file("--template", checkpoint)
    special = checkpoint.special_tokens
    try:
        with needing("server"), blaming(f"--template: {options.template}", None, TemplateError):
            if options.dialect == AUTO:
                choice = choose_dialect(
                    template,
                    response_template=checkpoint.response_template,
                    tokenizer=tokenizer,
                    special_tokens=special,
                )
                dialect, proof = choice.dialect, choice.proof
            else:
                dialect = named_dialect("DIALECT", options.dialect)
                proof = prove_dialect(dialect, template, tokenizer, special_tokens=special)
    except ValueError as error:  # no dialect is proven
        say(f"unspool prove: {error}")
        return 1
    if options.json:
        write_json({"dialect": dialect.name, "proven": holds(proof), "proof": proof})
    else:
        write(proof_table(proof) + "\n")
        say(f"{dialect.name}: {summary(proof)}")
    return 0 if holds(proof) else 1


AUTO = "auto"  # instead of a dialect's name: the dialect that the chat template proves


def read_template(argument: str, path: str, named: str, name: str | None) -> tuple[Checkpoint, str]:
    """A checkpoint, and its template of this name."""
    with blaming(argument, path), blaming(argument if name is None else named, None, TemplateError):
        checkpoint = read_checkpoint(path)
        return checkpoint, checkpoint.template(name)


def read_tokenizer_file(argument: str, checkpoint: Checkpoint) -> Any:
    """The checkpoint's tokenizer; ``None`` if it has none, or if the package ``tokenizers`` is not installed."""
    if checkpoint.tokenizer is None:
        return None
    try:
        return load_tokenizer(argument, str(checkpoint.tokenizer))
    except ImportError:
        say("unspool: tokenizers is not installed: nothing is parsed by token ids")
        return None


def proof_table(proof: list[Case]) -> str:
    wide = max((len(c.case) for c in proof), default=0)
    lines = (f"{c.case:{wide}}  {c.result:11}  {' '.join(c.reason.splitlines())}" for c in proof)
    return "\n".join(line.rstrip().translate(CONTROLS) for line in lines)


# --- infer ------------------------------------------------------------------------------------------------------------
def infer_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("path", metavar="PATH", help=_SOURCE)
    p.add_argument("--template", metavar="NAME", help=_WHICH)
    p.add_argument("--name", metavar="NAME", help="the dialect's name; default: the name of the folder or file")
    p.add_argument("--output", metavar="FILE.toml", help="write the dialect file here, not to standard output")
    p.add_argument("--json", action="store_true", help="print dialect file and proof as JSON")


def run_infer(options: argparse.Namespace) -> int:
    checkpoint, template = read_template("PATH", options.path, "--template", options.template)
    with needing("server"), blaming(f"PATH: {options.path}", None, TemplateError):
        found = infer_dialect(
            template,
            read_tokenizer_file("PATH", checkpoint),
            name=options.name or _name(Path(options.path)),
            special_tokens=checkpoint.special_tokens,
        )
    proven = found.dialect is not None
    result = {"proven": proven, "proof": found.proof, "toml": found.toml, "seen": found.seen}
    said = [proof_table(found.proof), *found.seen, "proven" if proven else "not proven"]
    return _written(options, found.toml, result, said)


def _written(options: argparse.Namespace, text: str, result: dict[str, Any], said: list[str]) -> int:
    """Write a text or the JSON of a result as the arguments say, and return the exit code."""
    if options.output is not None and text:
        with blaming("--output", options.output):
            Path(options.output).write_text(text, encoding="utf-8")
    if options.json:
        write_json(result)
    else:
        if options.output is None:
            write(text)
        say("\n".join(said))
    return 0 if result["proven"] else 1


def _name(path: Path) -> str:
    """A dialect's name, from the name of a folder or file."""
    named = path.resolve()
    if named.name.startswith(("tokenizer", "chat_template")) and not named.is_dir():
        named = named.parent
    stem = named.name if named.is_dir() else named.stem
    return stem.lower() or "inferred"


# --- convert ----------------------------------------------------------------------------------------------------------
FORMAT = "response_template"


def convert_arguments(p: argparse.ArgumentParser) -> None:
    text = "with --from: a checkpoint's folder, its tokenizer_config.json, or the template's JSON; with --to: a dialect"
    p.add_argument("path", metavar="PATH|DIALECT|FILE.toml", help=text)
    way = p.add_mutually_exclusive_group(required=True)
    way.add_argument("--from", dest="source", type=OneOf((FORMAT,)), metavar="FORMAT", help=FORMAT)
    way.add_argument("--to", dest="target", type=OneOf((FORMAT,)), metavar="FORMAT", help=FORMAT)
    p.add_argument(
        "--name", metavar="NAME", default="converted", help="the dialect's name, with --from; default: converted"
    )
    p.add_argument("--output", metavar="FILE", help="write there, not to standard output")
    p.add_argument("--json", action="store_true", help="write what was converted, the proof and the losses as JSON")


def run_convert(options: argparse.Namespace) -> int:
    with blaming(f"{'PATH' if options.source is not None else 'DIALECT'}: {options.path}", None, DialectError):
        if options.source is not None:
            template = _response_template(options.path)
            converted = from_response_template(template, options.name)
            dialect, text, lossy = converted.dialect, converted.toml, converted.lossy
        else:
            dialect = named_dialect("DIALECT", options.path)
            described = to_response_template(dialect)
            template, lossy = described.template, described.lossy
            text = msgspec.json.format(json.dumps(template, ensure_ascii=False).encode(), indent=2).decode() + "\n"
    proof = _agreed(dialect, template)
    proven = bool(proof) and agreed(proof, dialect)
    result: dict[str, Any] = {"proven": proven, "proof": proof, "lossy": list(lossy)}
    result |= {"toml": text} if options.source is not None else {FORMAT: template}
    said = [f"lossy: {line}" for line in lossy]
    said += [proof_table(proof), "proven" if proven else "not proven"] if proof else []
    return _written(options, text, result, said)


def _response_template(path: str) -> dict[str, Any]:
    """The ``response_template`` of a checkpoint, or from its own file."""
    file = Path(path) / "tokenizer_config.json" if Path(path).is_dir() else Path(path)
    value = read_json("PATH", str(file))
    template = value.get(FORMAT, value) if isinstance(value, dict) else value
    if not isinstance(template, dict) or "fields" not in template:
        raise Misuse(f"PATH: {file}: contains no {FORMAT}")
    return template


def _agreed(dialect: Dialect, template: dict[str, Any]) -> list[Case]:
    try:
        return agree(dialect, template)
    except ImportError as error:
        say(f"unspool convert: nothing is proven: {error}")
        return []


# --- what serve does --------------------------------------------------------------------------------------------------

LIMITS = Limits(total=30.0)
"""Limits that let a server start soon; ``unspool prove`` proves a template that takes longer."""


(TOOLS,) = (Path(__file__).parents[1] / "models" / "tools").glob("*.jinja")
"""What is put before a chat template that writes no tools."""
WITH_TOOLS: Final = TOOLS.stem  # the dialect that it writes


def ask(template: str, special: dict[str, str], within: contextlib.ExitStack) -> Asked:
    """A chat template within a server's limits, and within a context."""
    return within.enter_context(Asked(template, special, LIMITS))


def with_tools(argument: str, template: str, special: dict[str, str], within: contextlib.ExitStack) -> Asked:
    """The template, with tools in its first message if it writes none itself; this is said on standard error."""
    with blaming(argument, None, TemplateError):
        whole = ask(template, special, within)
        if whole.writes_tools():
            return whole
        role, whole = "system", ask(wrapped(template), special, within)
        if not whole.writes_tools(declared=True):
            role, whole = "user", ask(wrapped(template, "user"), special, within)
    say(
        f"unspool: {argument}: this model was not trained for tools: its chat template writes none; they are put into "
        f"the {role} message, and calls are read as {WITH_TOOLS}"
    )
    return whole


_TOLD: Final = "{%- set told = "  # with which a template begins that `wrapped` has made


def wrapped(template: str, role: Literal["system", "user"] = "system") -> str:
    """A chat template behind the one that adds tools to the message of a role: some refuse or drop the system's."""
    return f"{_TOLD}'{role}' -%}}" + TOOLS.read_text(encoding="utf-8").removesuffix("\n") + template


def choose(argument: str, asked: Asked, model: str | None, given: Any) -> Choice:
    """The dialect that the chat template proves, for a server."""
    try:
        return asked.choose(model, given)
    except TemplateError as error:
        raise Misuse(f"{argument}: {error}; name the dialect with --dialect") from None
    except ValueError as error:
        raise Misuse(f"{argument}: {error}; --dialect NAME|FILE.toml uses one anyway") from None


def prove(dialect: Dialect, asked: Asked) -> list[Case]:
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
