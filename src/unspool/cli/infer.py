"""The command ``infer``: a dialect file from a checkpoint's chat template, and its proof."""

import argparse
import sys
from pathlib import Path

from ..infer import TemplateError, infer_dialect
from .common import blaming, needing, write, write_json
from .prove import proof_table, read_template, read_tokenizer_file


def infer_arguments(p: argparse.ArgumentParser) -> None:
    text = "a checkpoint's folder, its tokenizer_config.json, a chat template, or a GGUF"
    p.add_argument("path", metavar="PATH", help=text)
    text = "the name of the template, if there are several; default: tool_use, else default"
    p.add_argument("--template", metavar="NAME", help=text)
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
    if options.output is not None and found.toml:
        with blaming("--output", options.output):
            Path(options.output).write_text(found.toml, encoding="utf-8")
    if options.json:
        proven = found.dialect is not None
        write_json({"proven": proven, "proof": found.proof, "toml": found.toml, "seen": found.seen})
    else:
        if options.output is None:
            write(found.toml)
        said = "proven" if found.dialect is not None else "not proven"
        print("\n".join([proof_table(found.proof), *found.seen, said]), file=sys.stderr)
    return 0 if found.dialect is not None else 1


def _name(path: Path) -> str:
    """A dialect's name, from the name of a folder or file."""
    named = path.resolve()
    if named.name.startswith(("tokenizer", "chat_template")) and not named.is_dir():
        named = named.parent
    stem = named.name if named.is_dir() else named.stem
    return stem.lower() or "inferred"
