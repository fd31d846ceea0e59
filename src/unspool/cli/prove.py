"""The commands on chat templates: ``prove``, ``infer``, ``convert``."""

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec

from ..checkpoints.sources import Checkpoint, read_checkpoint
from ..dialect.file import Dialect
from ..errors import DialectError
from ..infer import Case, TemplateError, infer_dialect
from ..infer.choosing import choose_dialect, holds, prove_dialect, summary
from ..infer.describing import agree, agreed, to_response_template
from ..infer.exchange import from_response_template
from .common import Misuse, OneOf, blaming, load_tokenizer, named_dialect, needing, read_json, say, write, write_json
from .proof import AUTO, proof_table

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
