"""The command ``new``: a dialect file to start from."""

import argparse
import contextlib
from importlib import resources
from pathlib import Path

from ..dialect.registry import find_base
from ..errors import DialectError
from ..regex import Regex
from .common import Misuse, blaming, write

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
