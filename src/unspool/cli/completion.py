"""The command ``completion``: a script with which a shell completes commands, arguments and their values."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..dialect.registry import list_dialects
from .common import OneOf, one_of, write

_FILES = frozenset({"FILE", "DIR", "PATH"})


class _Option(NamedTuple):
    """An argument of a command.

    Attributes:
        flags: its spellings.
        help: its help text.
        takes: whether a value follows.
        words: the known values.
        files: whether the value may be a file.
    """

    flags: tuple[str, ...]
    help: str
    takes: bool
    words: tuple[str, ...]
    files: bool


class _Command(NamedTuple):
    name: str
    help: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]  # the known values of positional arguments
    files: bool


def completion_arguments(p: argparse.ArgumentParser) -> None:
    text = f"{', '.join(_SHELLS)}; bash: unspool completion bash >> ~/.bash_completion"
    p.add_argument("shell", metavar="SHELL", type=one_of(tuple(_SHELLS)), help=text)


def run_completion(options: argparse.Namespace) -> int:
    write(_SHELLS[options.shell](list(_commands(options.commands))))
    return 0


def _commands(parsers: Mapping[str, argparse.ArgumentParser]) -> Iterator[_Command]:
    for name, parser in parsers.items():
        actions = parser._actions  # argparse has no public way to list them
        options = tuple(_option(action) for action in actions if action.option_strings)
        given = [_option(action) for action in actions if not action.option_strings]
        words = tuple(word for option in given for word in option.words)
        yield _Command(name, parser.description or "", options, words, any(option.files for option in given))


def _option(action: argparse.Action) -> _Option:
    metavar = str(action.metavar or "")
    words = action.type.allowed if isinstance(action.type, OneOf) else ()
    if "|FILE.toml" in metavar:
        words = tuple(sorted(dialect.name for dialect in list_dialects()))
    takes = action.nargs != 0
    files = takes and "@" not in metavar and not _FILES.isdisjoint(re.split(r"\W+", metavar))
    return _Option(tuple(action.option_strings), (action.help or "").replace("%%", "%"), takes, words, files)


def _bash(commands: Iterable[_Command]) -> str:
    commands = list(commands)
    lines = [
        "_unspool() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" words="" files=""',
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f"        words={_quoted(' '.join(c.name for c in commands) + ' --help --version')}",
        "    else",
        '        case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}" in',
        *_cases(commands, lambda words: f"words={_quoted(' '.join(words))}"),
        "        *)",
        '            case "${COMP_WORDS[1]}" in',
    ]
    for command in commands:
        flags = [flag for option in command.options for flag in option.flags]
        files = " files=1" if command.files else ""
        lines.append(f"            {command.name}) words={_quoted(' '.join((*command.words, *flags)))}{files} ;;")
    lines += [
        "            esac ;;",
        "        esac",
        "    fi",
        "    COMPREPLY=()",
        "    local word",
        '    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(',
        '        compgen -W "$words" -- "$current"',
        '        if [ -n "$files" ]; then compgen -f -- "$current"; fi',
        "    )",
        "}",
        "complete -o filenames -F _unspool unspool",
    ]
    return "\n".join(lines) + "\n"


def _zsh(commands: Iterable[_Command]) -> str:
    commands = list(commands)
    listed = " ".join(_quoted(f"{c.name}:{c.help}") for c in commands)
    lines = [
        "#compdef unspool",
        "_unspool() {",
        '    local files=""',
        "    local -a words_found",
        "    if (( CURRENT == 2 )); then",
        f"        words_found=({listed})",
        "        _describe command words_found",
        "        return",
        "    fi",
        '    case "$words[2] $words[CURRENT-1]" in',
        *_cases(commands, lambda words: f"words_found=({' '.join(map(_quoted, words))})"),
        "        *)",
        '            case "$words[2]" in',
    ]
    for command in commands:
        completions = [_quoted(f"{flag}:{option.help}") for option in command.options for flag in option.flags]
        completions = [*map(_quoted, command.words), *completions]
        files = " files=1" if command.files else ""
        lines.append(f"            {command.name}) words_found=({' '.join(completions)}){files} ;;")
    lines += [
        "            esac ;;",
        "    esac",
        "    (( $#words_found )) && _describe value words_found",
        '    [[ -n "$files" ]] && _files',
        "}",
        'if [ "$funcstack[1]" = "_unspool" ]; then _unspool "$@"; else compdef _unspool unspool; fi',
    ]
    return "\n".join(lines) + "\n"


def _cases(commands: Iterable[_Command], assign: Callable[[tuple[str, ...]], str]) -> Iterator[str]:
    """The branches for values: what may follow a flag of a command."""
    for command in commands:
        for option in command.options:
            if option.takes:
                patterns = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
                parts = ([assign(option.words)] if option.words else []) + (["files=1"] if option.files else [])
                yield f"        {patterns}) {' '.join(parts) or ':'} ;;"


def _fish(commands: Iterable[_Command]) -> str:
    lines = ["complete -c unspool -f", "complete -c unspool -n __fish_use_subcommand -l version -d 'the version'"]
    for command in commands:
        lines.append(f"complete -c unspool -n __fish_use_subcommand -a {command.name} -d {_fished(command.help)}")
        within = f"complete -c unspool -n '__fish_seen_subcommand_from {command.name}'"
        if command.files:
            lines.append(f"{within} -F")
        if command.words:
            lines.append(f"{within} -a {_fished(' '.join(command.words))}")
        for option in command.options:
            names = [f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags]
            value = [] if not option.takes else ["-r -F"] if option.files else ["-x"]
            words = [f"-a {_fished(' '.join(option.words))}"] if option.words else []
            lines.append(" ".join((within, *names, *value, *words, "-d", _fished(option.help))))
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A word of bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fished(text: str) -> str:
    """A word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SHELLS: dict[str, Callable[[Iterable[_Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
