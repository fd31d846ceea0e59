"""Finds and reads the recordings that the command line names, with the settings that they contain."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dialect.file import Dialect
from ..errors import DialectError, UnknownDialect
from ..infer import Case
from ..policy import Policy
from ..schema import tool_name
from ..validation import json_object
from .common import Misuse, blaming

if TYPE_CHECKING:
    from ..engines import Recording

_HEAD = 256  # characters that show whether a line is JSON
_MOST = 64 * 1024 * 1024  # the most characters of a recording's first line, which contains the prompt


def find_recordings(argument: str, path: str) -> "list[Recording] | None":
    """The recordings of a file or a folder; ``None`` if the file contains an output instead."""
    file = Path(path)
    with blaming(argument, path):
        if file.is_dir():
            if not any(file.glob("*.jsonl")):
                return None
        elif file.suffix != ".jsonl":
            with file.open(encoding="utf-8", errors="replace") as stream:
                line = next(filter(str.strip, iter(partial(stream.readline, _HEAD), "")), "")
                if line.lstrip().startswith("{") and not line.endswith("\n"):
                    line += stream.readline(_MOST)
                if not begins_recording(line):
                    return None
    return open_recordings(argument, path)


def begins_recording(line: str) -> bool:
    """Whether a line is the first one of a recording."""
    return line.lstrip().startswith("{") and (json_object(line) or {}).get("type") == "request"


def recordings_in(argument: str, text: str) -> "list[Recording] | None":
    """The recordings in a text; ``None`` if it is an output instead."""
    if not begins_recording(text.lstrip()[:_MOST].partition("\n")[0]):
        return None
    from ..engines.capture import read_lines  # what engines need is slow to import

    with blaming(argument, None, ValueError):
        return list(read_lines("standard input", text.split("\n")))


def open_recordings(argument: str, path: str) -> "list[Recording]":
    from ..engines import read_recordings  # what engines need is slow to import

    with blaming(argument, path, ValueError):
        return read_recordings(path)


def recorded_dialect(argument: str, recording: "Recording") -> Dialect | None:
    try:
        return recording.dialect
    except (UnknownDialect, DialectError) as error:
        raise Misuse(f"{argument}: {recording.where}: {error}; give --dialect") from None


class OutputSettings(NamedTuple):
    """How outputs are read: as the command line says, or as the recordings of the engine do."""

    dialect: Dialect
    policy: Policy
    proof: Sequence[Case] = ()  # of the dialect by the chat template
    tools: Sequence[Any] | None = ()  # all tools that recordings declare; ``None`` if one does not record its tools
    tool_choice: Any = "auto"  # of the recordings; ``auto`` if they differ
    recordings: "Sequence[Recording]" = ()  # to replay


def read_in_common(
    argument: str, recordings: "Sequence[Recording]", dialect: Dialect | None, other: Callable[[], Dialect]
) -> OutputSettings:
    """The settings with which all recordings can be read; ``dialect`` overrides theirs, others get ``other``."""
    first = recordings[0].asked
    if dialect is None:
        named = {(r.asked.dialect, r.asked.reasoning, r.asked.toml) for r in recordings}
        if len(named) > 1:
            names = ", ".join(sorted(name or "none" for name, *_ in named))
            raise Misuse(f"{argument}: the recordings have several dialects ({names}); pass --dialect")
        dialect = recorded_dialect(argument, recordings[0]) or other()
    policies = {r.asked.policy for r in recordings}
    if len(policies) > 1:
        raise Misuse(f"{argument}: the recordings have several policies; replay them one at a time")
    choices = [r.asked.tool_choice for r in recordings]
    choice = first.tool_choice if all(c == choices[0] for c in choices) else "auto"
    tools: dict[str | None, Any] = {}
    for recording in recordings:
        tools = {tool_name(tool): tool for tool in recording.asked.tools or ()} | tools  # of two with a name, the first
    declared = None if any(r.asked.tools is None for r in recordings) else list(tools.values())
    staged = [recording.staged(dialect) for recording in recordings]
    return OutputSettings(dialect, first.policy, (), declared, choice, staged)
