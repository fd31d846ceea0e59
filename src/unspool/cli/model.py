"""The model of ``serve`` and ``generate``: its engine, its chat template and its dialect."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..detect import detect_dialect
from ..dialect.file import Dialect
from ..dialect.registry import get_dialect
from ..grammar import ToolStrictLevel
from ..policy import Policy
from .common import Container, Misuse, missing, named_dialect, one_of, read_policy
from .engines import ENGINES, REPLAY, EngineKind, EngineSettings, find_engine, open_engine
from .prove import AUTO, choose, prove, report
from .recordings import open_recordings, read_in_common

if TYPE_CHECKING:
    from ..engines import Engine, Recording
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
        tools, tool_choice: the recordings' own, for requests that declare none; see `Settings`.
    """

    name: str
    dialect: Dialect
    policy: Policy
    engine: "Engine"
    prompts: "Prompts | None"
    strict_level: ToolStrictLevel
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
            tools=self.tools,
            tool_choice=self.tool_choice,
            **others,
        )


def model_arguments(p: Container) -> None:
    p.add_argument(
        "--model", metavar="NAME", help="the served name; also chooses the dialect if no other argument does"
    )
    p.add_argument("--engine", metavar="ENGINE", action="append", help=f"{ENGINES} (repeatable)")
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
    p.add_argument(
        "--slots", type=int, metavar="N", default=8, help="outputs that a local engine generates at once; default: 8"
    )
    text = "maximum length of a sequence in tokens, for a local model"
    p.add_argument("--context", type=int, metavar="N", help=text)
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
    text = "the model's folder, with its chat template; without it the engine gets messages instead of a prompt"
    p.add_argument("--tokenizer", metavar="DIR", help=text)
    text = "start even if the dialect cannot read the calls that the chat template writes"
    p.add_argument("--no-self-check", action="store_true", help=text)
    p.add_argument(
        "--policy", metavar="FIELD=VALUE", action="append", default=[], help="set a field of the policy (repeatable)"
    )
    levels = tuple(level.name.lower() for level in ToolStrictLevel)
    text = f"{', '.join(levels)}: constrains tool_choice auto if no tool is strict; default for local models: parameter"
    p.add_argument("--strict-level", type=one_of(levels), metavar="LEVEL", help=text)


def open_model(options: argparse.Namespace) -> Model:
    """The model that the arguments of `model_arguments` describe.

    Raises:
        Misuse: one of them is wrong, or a package is missing.
    """
    if not options.engine:
        raise Misuse("--engine: is required: the URL of a server, or replay:PATH")
    kind, argument = find_engine(options.engine)
    folder = options.tokenizer if options.tokenizer is not None else _folder(kind, argument)
    template = None if folder is None else _template(folder)
    policy = read_policy(options.policy)
    tools: Sequence[Any] | None = ()
    choice: Any = "auto"
    recordings: list[Recording] = []
    if kind is REPLAY:
        recordings = open_recordings("--engine", argument)
        asked = None if _names_dialect(options) is None else _dialect(options, template)
        found = read_in_common("--engine", recordings, asked)
        dialect = found.dialect or _dialect(options, template)
        policy, tools, choice = policy.over(found.policy), found.tools, found.tool_choice
        recordings = [recording.staged(dialect) for recording in recordings]
    else:
        dialect = _dialect(options, template)
    if template is not None and _names_dialect(options) is not None:
        proof = prove(dialect, template.tool_template, template.special)
        report(dialect, proof, table=options.proof)
    prompts = None if folder is None or template is None else _prompts(options, folder, template, dialect)
    engine = open_engine(kind, EngineSettings(options, argument, options.engine, folder, dialect, recordings))
    if kind.needs_template and folder is None:
        raise Misuse("--tokenizer: is required for this engine, because the model's chat template renders the prompt")
    if options.capture is not None:
        engine = _captured(options, engine, dialect, policy)
    name = options.model or dialect.name
    # A local engine has the grammar at hand, so calls follow their schemas by default.
    level = ToolStrictLevel[(options.strict_level or ("parameter" if kind.local else "off")).upper()]
    return Model(name, dialect, policy, engine, prompts, level, tools, choice)


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
        from ..request.prompts import read_tokenizer
    except ImportError as error:
        raise missing(error, "server") from None
    try:
        return read_tokenizer(folder)
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
    return "--engine"


def _dialect(options: argparse.Namespace, template: "Tokenizer | None") -> Dialect:
    reasoning, calls = options.reasoning_parser, options.tool_call_parser
    if options.dialect is not None and (reasoning is not None or calls is not None):
        raise Misuse("--dialect: cannot be combined with --reasoning-parser and --tool-call-parser")
    if options.dialect not in (None, AUTO):
        return named_dialect("--dialect", options.dialect)
    if calls is not None:
        dialect = named_dialect("--tool-call-parser", calls)
        if reasoning is None:
            return dialect
        other = named_dialect("--reasoning-parser", reasoning)
        if not other.reasoning:
            raise Misuse(f"--reasoning-parser: dialect {other.name!r} has no reasoning markers")
        return dialect if other is dialect else dialect.with_reasoning(other)
    if reasoning is not None:
        return named_dialect("--reasoning-parser", reasoning)
    if template is not None:
        choice = choose(
            _source(options), template.tool_template, template.special, options.model, template.response_template
        )
        report(choice.dialect, choice.proof, table=options.proof, origin=choice.origin)
        return choice.dialect
    if options.dialect == AUTO:
        raise Misuse("--dialect: auto needs the model's chat template; pass --tokenizer")
    if options.model is None:
        raise Misuse("--dialect: is required; name the dialect, or the model with --model")
    found = detect_dialect(model=options.model)
    if not found:
        raise Misuse("--model: no dialect found for it; pass --dialect, see `unspool dialects`")
    return get_dialect(found[0].dialect)


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
