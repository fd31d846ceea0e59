"""The model of ``serve`` and ``generate``: its engine, its chat template and its dialect."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..dialect.file import Dialect
from ..dialect.registry import get_dialect
from ..grammar import ToolStrictLevel
from ..infer import Case
from ..infer.choosing import thinks
from ..policy import Policy
from .common import Container, Misuse, missing, named_dialect, one_of, read_policy
from .engines import ENGINES, REPLAY, UPSTREAM, EngineKind, EngineSettings, find_engine, open_engine
from .local import is_local, local_arguments
from .prove import AUTO, WITH_TOOLS, choose, prove, report, with_tools
from .recordings import open_recordings, read_in_common
from .upstream import discovered, read_template, template_of

if TYPE_CHECKING:
    from ..engines import Engine, Recording
    from ..engines.upstream.discovery import Discovered
    from ..request.prompts import Prompts, Tokenizer
    from ..request.settings import Settings


@dataclass(frozen=True)
class Model:
    """A model and its engine.

    Attributes:
        name: the served name.
        dialect, policy: how its output is read.
        engine: generates the outputs.
        prompts: its chat template, if there is one.
        strict_level: see `unspool.grammar.constrain`.
        thinks: see `Settings`.
        tools, tool_choice: the recordings' own, for requests that declare none; see `Settings`.
    """

    name: str
    dialect: Dialect
    policy: Policy
    engine: "Engine"
    prompts: "Prompts | None"
    strict_level: ToolStrictLevel
    thinks: bool = True
    tools: Sequence[Any] | None = ()
    tool_choice: Any = "auto"

    def settings(self, **others: Any) -> "Settings":
        """The settings for serving the model.

        Args:
            others: the fields of `Settings` that do not belong to the model.
        """
        from ..request.settings import Settings

        return Settings(
            model=self.name,
            dialect=self.dialect,
            policy=self.policy,
            strict_level=self.strict_level,
            thinks=self.thinks,
            tools=self.tools,
            tool_choice=self.tool_choice,
            **others,
        )


def model_arguments(p: Container) -> None:
    p.add_argument(
        "--model", metavar="NAME", help="the served name; also chooses the dialect if no other argument does"
    )
    p.add_argument(
        "--engine", metavar="ENGINE", action="append", help=f"{ENGINES} (repeatable); default: a small model"
    )
    text = "the kind of server at the URL, if it cannot be detected: vllm, sglang, llama.cpp, …"
    p.add_argument("--engine-kind", metavar="KIND", help=text)
    p.add_argument(
        "--engine-model", metavar="NAME", help="the name of the model at the URL; default: the first it lists"
    )
    p.add_argument("--engine-key", metavar="KEY|@FILE", help="the API key for the server at the URL")
    text = "keep the token that ends the output, if the URL can send it: for dialects in which it ends calls"
    p.add_argument("--engine-keep-end", action="store_true", help=text)
    text = (
        "pass budgets of reasoning on to a URL that is set up for them: vLLM's --reasoning-config, SGLang's processor"
    )
    p.add_argument("--engine-budgets", action="store_true", help=text)
    local_arguments(p)
    text = "speed relative to the recording; default: 1; 0 is as fast as possible"
    p.add_argument("--replay-speed", type=float, metavar="FACTOR", default=1.0, help=text)
    p.add_argument("--capture", metavar="DIR", help="record every raw output in this folder, for replay")
    text = (
        "the dialect of reasoning and calls; auto (the default with a chat template): the one that the template proves"
    )
    p.add_argument("--dialect", metavar="NAME|FILE.toml|auto", help=text)
    p.add_argument("--proof", action="store_true", help="print how the chat template proves the dialect, case by case")
    p.add_argument(
        "--reasoning-parser", metavar="NAME|FILE.toml", help="the dialect of reasoning; on its own, of calls too"
    )
    p.add_argument(
        "--tool-call-parser", metavar="NAME|FILE.toml", help="the dialect of calls; on its own, of reasoning too"
    )
    text = "the model's folder, a GGUF, or a chat template; default: what the engine sends or names"
    p.add_argument("--tokenizer", metavar="DIR|FILE", help=text)
    text = "start even if the dialect cannot read the calls that the chat template writes"
    p.add_argument("--no-self-check", action="store_true", help=text)
    p.add_argument(
        "--policy", metavar="FIELD=VALUE", action="append", default=[], help="set a field of the policy (repeatable)"
    )
    levels = tuple(level.name.lower() for level in ToolStrictLevel)
    text = f"{', '.join(levels)}: constrains tool_choice auto if no tool is strict; default for local models: parameter"
    p.add_argument("--strict-level", type=one_of(levels), metavar="LEVEL", help=text)


def name_engine(options: argparse.Namespace, model: str | None) -> None:
    """Take a model that is named without ``--engine``.

    Raises:
        Misuse: it is no GGUF, or ``--engine`` is given too.
    """
    if model is None:
        return
    if options.engine:
        raise Misuse("--engine: cannot be combined with MODEL.gguf")
    if not is_local(model):
        raise Misuse(f"MODEL.gguf: {model!r} is none; --engine names other engines")
    options.engine = [model]


def open_model(options: argparse.Namespace) -> Model:
    """The model that the arguments of `model_arguments` describe.

    Raises:
        Misuse: one of them is wrong, or a package is missing.
    """
    kind, argument = find_engine(options.engine or [])
    source = _template_source(options, kind, argument)
    template, trained = source.template, True
    if template is not None and _names_dialect(options) in (None, WITH_TOOLS):
        whole = with_tools(_source(options), template.tool_template, template.special)
        trained = whole == template.tool_template
        if not trained:
            template = msgspec.structs.replace(template, template=whole, tool_template=whole)
    reading = _reading(options, kind, argument, template, source.served)
    dialect, proof = reading.dialect, reading.proof
    if template is not None and _names_dialect(options) is not None:
        proof = prove(dialect, template.tool_template, template.special)
        report(dialect, proof, table=options.proof)
    prompts = None if template is None else _prompts(options, source.folder or argument, template, dialect)
    settings = EngineSettings(options, argument, options.engine or (), source.folder, dialect, reading.recordings)
    engine = open_engine(kind, settings)
    if kind.needs_template and template is None:
        raise Misuse("--tokenizer: is required for this engine, because the model's chat template renders the prompt")
    if options.capture is not None:
        engine = _captured(options, engine, dialect, reading.policy)
    name = options.model or source.served or dialect.name
    # A local engine has the grammar at hand, so calls follow their schemas by default.
    level = ToolStrictLevel[(options.strict_level or ("parameter" if kind.local else "off")).upper()]
    thinking = trained and thinks(list(proof))
    return Model(name, dialect, reading.policy, engine, prompts, level, thinking, reading.tools, reading.choice)


class _Source(NamedTuple):
    """The chat template, the folder or file that it comes from, and the name of the model; empty if it is not known."""

    template: "Tokenizer | None"
    folder: str | Path | None
    served: str


def _template_source(options: argparse.Namespace, kind: EngineKind, argument: str) -> _Source:
    """The chat template that is named, or else that of the engine."""
    folder = options.tokenizer if options.tokenizer is not None else _folder(kind, argument)
    told = discovered(options) if kind is UPSTREAM else None
    template: Tokenizer | None
    if folder is not None:
        template = _template(folder)
    else:
        template = _own_template(kind, argument) if told is None else _sent_template(options, told)
        folder = None if told is None else told.path
    return _Source(template, folder, kind.served(argument) if told is None else told.model or "")


class _Reading(NamedTuple):
    """How outputs are read: by the arguments, or as the recordings of the engine say."""

    dialect: Dialect
    policy: Policy
    proof: Sequence[Case] = ()
    tools: Sequence[Any] | None = ()
    choice: Any = "auto"
    recordings: "Sequence[Recording]" = ()


def _reading(
    options: argparse.Namespace, kind: EngineKind, argument: str, template: "Tokenizer | None", served: str
) -> _Reading:
    policy = read_policy(options.policy)
    if kind is not REPLAY:
        dialect, proof = _dialect(options, template, served)
        return _Reading(dialect, policy, proof)
    recordings = open_recordings("--engine", argument)
    asked = None if _names_dialect(options) is None else _dialect(options, template, served)[0]
    found = read_in_common("--engine", recordings, asked)
    dialect = found.dialect or _dialect(options, template, served)[0]
    staged = [recording.staged(dialect) for recording in recordings]
    return _Reading(dialect, policy.over(found.policy), (), found.tools, found.tool_choice, staged)


def _sent_template(options: argparse.Namespace, told: "Discovered") -> "Tokenizer":
    """The chat template of an engine at a URL."""
    from ..errors import TemplateError

    try:
        return template_of(options, told)
    except ImportError as error:
        raise missing(error, "server") from None
    except (OSError, TemplateError) as error:
        raise Misuse(f"--engine: {options.engine[0]}: {error}; --tokenizer names other files") from None


def _own_template(kind: EngineKind, argument: str) -> "Tokenizer | None":
    """The chat template of an engine's own model, if it has one."""
    try:
        return kind.template(argument)
    except ImportError as error:
        raise missing(error, "server") from None


def _folder(kind: EngineKind, argument: str) -> str | Path | None:
    """The model's folder, according to the engine."""
    try:
        return kind.folder(argument)
    except ImportError as error:
        raise missing(error, "server") from None


def _names_dialect(options: argparse.Namespace) -> str | None:
    """The argument that names a dialect, if one does."""
    named: str | None = options.dialect or options.tool_call_parser or options.reasoning_parser
    return None if named == AUTO else named


# -- the template and the dialect --------------------------------------------------------------------------------------


def _template(folder: str | Path) -> "Tokenizer":
    """The chat template and the special tokens of a model's folder."""
    try:
        from ..errors import TemplateError

        return read_template(folder)
    except ImportError as error:
        raise missing(error, "server") from None
    except OSError as error:
        raise Misuse(f"--tokenizer: {folder}: {error.strerror}") from None
    except TemplateError as error:
        raise Misuse(f"--tokenizer: {error}") from None


def _prompts(options: argparse.Namespace, folder: str | Path, template: "Tokenizer", dialect: Dialect) -> "Prompts":
    """The chat template, after its self-check."""
    from ..errors import TemplateError
    from ..request.prompts import Prompts

    try:
        prompts = Prompts(template)
    except TemplateError as error:
        raise Misuse(f"{_source(options)}: {error}") from None
    try:
        if not prompts.check(dialect):
            print(f"unspool: {_source(options)}: {folder}: the chat template writes no calls", file=sys.stderr)
    except TemplateError as error:
        if not options.no_self_check:
            raise Misuse(f"{_source(options)}: {error} (--no-self-check starts anyway)") from None
    return prompts


def _source(options: argparse.Namespace) -> str:
    """The argument that a chat template comes from."""
    if options.tokenizer is not None:
        return "--tokenizer"
    return "--engine" if options.engine else "--engine: is not given, so the default model is served"


def _dialect(options: argparse.Namespace, template: "Tokenizer | None", served: str) -> tuple[Dialect, Sequence[Case]]:
    """The dialect that the arguments name, or else the one that the template proves, with that proof.

    Args:
        options: the command line.
        template: the chat template, if there is one.
        served: the model's name; empty if it is not known.
    """
    reasoning, calls = options.reasoning_parser, options.tool_call_parser
    if options.dialect is not None and (reasoning is not None or calls is not None):
        raise Misuse("--dialect: cannot be combined with --reasoning-parser and --tool-call-parser")
    if options.dialect not in (None, AUTO):
        return named_dialect("--dialect", options.dialect), ()
    if calls is not None:
        dialect = named_dialect("--tool-call-parser", calls)
        if reasoning is None:
            return dialect, ()
        other = named_dialect("--reasoning-parser", reasoning)
        if not other.reasoning:
            raise Misuse(f"--reasoning-parser: dialect {other.name!r} has no reasoning markers")
        return dialect if other is dialect else dialect.with_reasoning(other), ()
    if reasoning is not None:
        return named_dialect("--reasoning-parser", reasoning), ()
    if template is not None:
        name = options.model or served or None
        choice = choose(_source(options), template.tool_template, template.special, name, template.response_template)
        if options.proof or _source(options) in ("--tokenizer", "--engine"):  # not of the default model
            report(choice.dialect, choice.proof, table=options.proof, origin=choice.origin)
        return choice.dialect, choice.proof
    if options.dialect == AUTO:
        raise Misuse("--dialect: auto needs the model's chat template; pass --tokenizer")
    if options.model is None:
        raise Misuse("--dialect: is required; name the dialect, or the model with --model")
    from ..infer.detect import detect_dialect

    found = detect_dialect(model=options.model)
    if not found:
        raise Misuse("--model: no dialect found for it; pass --dialect, see `unspool dialects`")
    return get_dialect(found[0].dialect), ()


# -- recording ---------------------------------------------------------------------------------------------------------


def _captured(options: argparse.Namespace, engine: "Engine", dialect: Dialect, policy: Policy) -> "Engine":
    from ..engines import Capture

    name = _names_dialect(options) or dialect.name
    reasoning = options.reasoning_parser if options.tool_call_parser else None
    toml = dialect.file[1] if name.endswith(".toml") else ""
    try:
        return Capture(engine, options.capture, dialect=name, reasoning=reasoning, policy=policy, toml=toml)
    except OSError as error:
        raise Misuse(f"--capture: {options.capture}: {error.strerror}") from None
