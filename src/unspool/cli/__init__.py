"""The command line: ``unspool parse | batch | serve | show | generate | constrain | dialects | new | check | infer …``.

Exit codes: 0 for success; 1 if ``--strict`` met a failed call or row, an engine failed, or ``infer`` or ``prove``
proved nothing; 2 for misuse, with one line on standard error that names the argument. If a reader closes the pipe
early, the command ends quietly.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from .. import __version__
from ..validation import near
from ..wire.encoding import CONTROLS
from .batch import batch_arguments, run_batch
from .chat import chat_arguments, run_chat
from .common import CommandParser, Misuse, forget_output
from .completion import completion_arguments, run_completion
from .dialects import (
    check_arguments,
    demo_arguments,
    detect_arguments,
    dialects_arguments,
    new_arguments,
    run_check,
    run_demo,
    run_detect,
    run_dialects,
    run_new,
)
from .generate import generate_arguments, run_generate
from .models import models_arguments, run_models
from .parse import constrain_arguments, parse_arguments, render_arguments, run_constrain, run_parse, run_render
from .prove import convert_arguments, infer_arguments, prove_arguments, run_convert, run_infer, run_prove
from .serve import run_serve, serve_arguments
from .sessions import run_sessions, sessions_arguments
from .show import run_show, show_arguments

_VARIABLE = re.compile(r"\A[A-Z]+: ")  # a positional argument's name in the usage, at a message's beginning


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    Args:
        argv: the arguments without the program's name; by default those of the process.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    command = ""
    try:
        parser, commands = parsers()
        if not words:
            parser.print_help()
            return 0
        if words[0] in commands:
            command = f" {words[0]}"
        elif not words[0].startswith("-"):
            raise Misuse(f"there is no command {words[0]!r}{near(words[0], commands)}")
        options, unknown = parser.parse_known_args(words)
        if unknown and hasattr(options, "texts") and not any(word.startswith("-") for word in unknown):
            options.texts += unknown  # argparse takes positional arguments in one place only
        elif unknown:
            known = re.findall(r"--[a-z-]+", commands.get(words[0], parser).format_help())
            raise Misuse(f"{unknown[0]}: unknown argument{near(unknown[0], known)}")
        options.words, options.parser, options.commands = words[1:], parser, commands
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except Misuse as error:
        # The value says more than the name that the usage gives it (FILE).
        text = _VARIABLE.sub("", " ".join(str(error).splitlines())).translate(CONTROLS)
        print(f"unspool{command}: {text}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        forget_output()
        return 0


class _MainParser(CommandParser):
    """The main parser, whose help lists the commands."""

    def format_help(self) -> str:
        """The commands that most people need, and then the others."""
        width = max(map(len, COMMANDS))
        lines = {name: f"  {name:<{width}}  {text}" for name, (_, _, text) in COMMANDS.items()}
        others = [line for name, line in lines.items() if name not in FIRST]
        shown = [str(self.description), "", "usage: unspool COMMAND [argument ...]", ""]
        shown += ["first commands:", *(lines[name] for name in FIRST), "", "other commands:", *others, ""]
        shown += ["`unspool COMMAND --help` shows a command's arguments, `unspool --version` the version."]
        return "\n".join(shown) + "\n"


def parsers() -> tuple[CommandParser, dict[str, argparse.ArgumentParser]]:
    """The main parser, and the parsers of the commands by name."""
    whole = _MainParser(prog="unspool", description="Unspool a model's output into reasoning, content and tool calls.")
    whole.add_argument("--version", action="version", version=f"unspool {__version__}")
    commands = whole.add_subparsers(metavar="COMMAND", required=True, title="commands", parser_class=CommandParser)
    found: dict[str, argparse.ArgumentParser] = {}
    for name, (add, run, text) in COMMANDS.items():
        found[name] = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        found[name].set_defaults(run=run)
        add(found[name])
    return whole, found


FIRST = ("serve", "chat", "parse", "batch", "detect")  # the commands that the help shows first
COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int], str]] = {
    "parse": (parse_arguments, run_parse, "parse a model's output"),
    "batch": (batch_arguments, run_batch, "parse many outputs, from files into files"),
    "serve": (serve_arguments, run_serve, "serve an engine over OpenAI's, Anthropic's and AG-UI's protocols"),
    "show": (show_arguments, run_show, "open a recording in a page that explains it"),
    "chat": (chat_arguments, run_chat, "talk with a model, turn by turn"),
    "generate": (generate_arguments, run_generate, "send a prompt to an engine and stream its answer"),
    "sessions": (sessions_arguments, run_sessions, "list, show or export the sessions of a server"),
    "models": (models_arguments, run_models, "list the GGUF files on this machine"),
    "constrain": (constrain_arguments, run_constrain, "print the grammar for constrained decoding"),
    "dialects": (dialects_arguments, run_dialects, "list the dialects, or show one"),
    "new": (new_arguments, run_new, "write a dialect file to start from"),
    "check": (check_arguments, run_check, "test a dialect file against its own examples"),
    "render": (render_arguments, run_render, "write a message as the model would"),
    "detect": (detect_arguments, run_detect, "find the dialect of a model"),
    "infer": (infer_arguments, run_infer, "infer a dialect file from a chat template, and prove it"),
    "prove": (prove_arguments, run_prove, "prove a dialect against a chat template"),
    "convert": (convert_arguments, run_convert, "convert a dialect from or to transformers' response_template"),
    "demo": (demo_arguments, run_demo, "stream a few examples"),
    "completion": (completion_arguments, run_completion, "print a script that completes commands in a shell"),
}
