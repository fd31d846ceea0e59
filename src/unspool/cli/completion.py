"""The command ``completion``: a script with which a shell completes commands, arguments and their values."""

import argparse
import re

from ..dialect.registry import list_dialects
from .common import OneOf, needing, write

_SHELLS = ("bash", "fish", "tcsh", "zsh")
_FILES = frozenset({"FILE", "DIR", "PATH"})


def completion_arguments(p: argparse.ArgumentParser) -> None:
    text = f"{', '.join(_SHELLS)}; bash: unspool completion bash >> ~/.bash_completion"
    p.add_argument("shell", metavar="SHELL", type=OneOf(_SHELLS), help=text)


def run_completion(options: argparse.Namespace) -> int:
    with needing("completion"):
        import shtab
    dialects = sorted(dialect.name for dialect in list_dialects())
    for parser in options.commands.values():
        for action in parser._actions:  # argparse has no public way to list them
            metavar = str(action.metavar or "")
            if isinstance(action.type, OneOf):
                action.choices = action.type.allowed
            elif "|FILE.toml" in metavar:
                action.choices = dialects
            elif "@" not in metavar and not _FILES.isdisjoint(re.split(r"\W+", metavar)):
                action.complete = shtab.FILE  # where shtab looks
    write(shtab.complete(options.parser, options.shell) + "\n")
    return 0
