"""The command ``convert``: dialects from and to the ``response_template`` of transformers."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from ..dialect.file import Dialect
from ..errors import DialectError
from ..infer import Case
from ..infer.describing import agree, agreed, to_response_template
from ..infer.exchange import from_response_template
from .common import Misuse, OneOf, blaming, named_dialect, read_json, write, write_json
from .prove import proof_table

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
            template = _read(options.path)
            converted = from_response_template(template, options.name)
            dialect, text, lossy = converted.dialect, converted.toml, converted.lossy
        else:
            dialect = named_dialect("DIALECT", options.path)
            described = to_response_template(dialect)
            template, lossy = described.template, described.lossy
            text = msgspec.json.format(json.dumps(template, ensure_ascii=False).encode(), indent=2).decode() + "\n"
    proof = _prove(dialect, template)
    holds = bool(proof) and agreed(proof, dialect)
    if options.output is not None:
        with blaming("--output", options.output):
            Path(options.output).write_text(text, encoding="utf-8")
    if options.json:
        result: dict[str, Any] = {"proven": holds, "proof": proof, "lossy": list(lossy)}
        write_json({**result, "toml": text} if options.source is not None else {**result, FORMAT: template})
        return 0 if holds else 1
    if options.output is None:
        write(text)
    lines = [f"lossy: {line}" for line in lossy]
    lines += [proof_table(proof), "proven" if holds else "not proven"] if proof else []
    print("\n".join(lines), file=sys.stderr)
    return 0 if holds else 1


def _read(path: str) -> dict[str, Any]:
    """The ``response_template`` of a checkpoint, or from its own file."""
    file = Path(path) / "tokenizer_config.json" if Path(path).is_dir() else Path(path)
    value = read_json("PATH", str(file))
    template = value.get(FORMAT, value) if isinstance(value, dict) else value
    if not isinstance(template, dict) or "fields" not in template:
        raise Misuse(f"PATH: {file}: contains no {FORMAT}")
    return template


def _prove(dialect: Dialect, template: dict[str, Any]) -> list[Case]:
    try:
        return agree(dialect, template)
    except ImportError as error:
        print(f"unspool convert: nothing is proven: {error}", file=sys.stderr)
        return []
