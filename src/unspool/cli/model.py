"""The model of ``serve`` and ``generate``: its engine, its chat template and its dialect."""

import argparse
import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..dialect.file import Dialect
from ..dialect.registry import get_dialect
from ..errors import TemplateError
from ..grammar.calls import LEVELS
from ..infer import Case
from ..infer.choosing import ProbedTemplate, thinks
from ..policy import Policy
from ..request.settings import Settings
from .common import (
    Container,
    Misuse,
    OneOf,
    blaming,
    candidates,
    named_dialect,
    policy_argument,
    read_policy,
    say,
    with_reasoning,
)
from .engines import ENGINES, LOCAL, REPLAY, UPSTREAM, EngineKind, EngineSettings, find_engine, open_engine
from .local import is_local, local_arguments, start_local
from .proof import AUTO, WITH_TOOLS, ask, choose, prove, report, with_tools
from .recordings import OutputSettings, open_recordings, read_in_common
from .templates import find_template, source_argument

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..engines import Engine
    from ..request.prompts import Prompts, Tokenizer


class OpenedModel(NamedTuple):
    """The settings for serving a model, its engine, and its chat template."""

    settings: Settings
    engine: "Engine"
    prompts: "Prompts | None"


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
    for name, seconds, what in (("first", 600.0, "up to the first piece"), ("next", 60.0, "between two pieces")):
        text = f"seconds {what} of an output of the URL; keep-alives do not count; default: {seconds:g}"
        p.add_argument(f"--engine-{name}", type=float, metavar="SECONDS", default=seconds, help=text)
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
    policy_argument(p)
    text = f"{', '.join(LEVELS)}: constrains tool_choice auto if no tool is strict; default for local models: parameter"
    p.add_argument("--strict-level", type=OneOf(LEVELS), metavar="LEVEL", help=text)


_ONLY = {
    LOCAL: [
        "--context", "--threads", "--gpu-layers", "--batch-size", "--mmproj", "--adapter", "--llama", "--engine-log",
    ],
    UPSTREAM: ["--engine-kind", "--engine-model", "--engine-key", "--engine-keep-end", "--engine-budgets"],
}  # fmt: skip
"""The arguments that only one kind of engine has."""


def name_engine(options: argparse.Namespace, model: str | None) -> None:
    """Take a model that is named without ``--engine``."""
    if model is None:
        return
    if options.engine:
        raise Misuse("--engine: cannot be combined with MODEL.gguf")
    if not is_local(model):
        raise Misuse(f"MODEL.gguf: {model!r} is none; --engine names other engines")
    options.engine = [model]


def open_model(options: argparse.Namespace, **others: Any) -> OpenedModel:
    """The model that the arguments of `model_arguments` describe; ``others`` are further fields of `Settings`."""
    kind, argument = find_engine(options.engine or [])
    with contextlib.ExitStack() as failed:
        if kind is LOCAL and not hasattr(options, "address"):
            # It loads the model while the chat template is read and proves the dialect.
            failed.callback(start_local(options, argument).close)
        with contextlib.ExitStack() as within:
            model = _opened(options, kind, argument, within, others)
        failed.pop_all()
    return model


def _opened(
    options: argparse.Namespace, kind: EngineKind, argument: str, within: contextlib.ExitStack, others: dict[str, Any]
) -> OpenedModel:
    """The model. The processes that prove its dialect live within a context."""
    _report_unused(options, kind)
    for flag in ("first", "next"):
        seconds = getattr(options, f"engine_{flag}")
        if not 0 < seconds < math.inf:
            raise Misuse(f"--engine-{flag}: {seconds:g} is not a positive number of seconds")
    template, folder, served = find_template(options, kind, argument)
    named, trained, asked, making = _named(options), True, None, None
    if template is not None:
        from concurrent.futures import ThreadPoolExecutor

        from ..request.prompts import Prompts

        given = template.tool_template, template.special, within
        if named in (None, WITH_TOOLS):
            with blaming(source_argument(options), None, TemplateError):
                asked, role = with_tools(*given)
        else:
            asked, role = ask(*given), ""
        trained = not role
        if not trained:
            say(
                f"unspool: {source_argument(options)}: this model was not trained for tools: its chat template writes "
                f"none; they are put into the {role} message, and calls are in the form of {WITH_TOOLS}"
            )
            template = msgspec.structs.replace(template, template=asked.template, tool_template=asked.template)
        # Meanwhile, the process that will render prompts starts.
        making = within.enter_context(ThreadPoolExecutor(1)).submit(Prompts, template)
    reading = _reading(options, kind, argument, template, asked, served)
    dialect, proof = reading.dialect, reading.proof
    if asked is not None and named is not None:
        proof = prove(dialect, asked)
        report(dialect, proof, asked.template, table=options.proof)
    prompts = None if making is None else _prompts(options, folder or argument, making, dialect)
    engine = open_engine(kind, EngineSettings(options, argument, folder, dialect, reading.recordings))
    if kind is UPSTREAM and template is None:
        raise Misuse("--tokenizer: is required for this engine, because the model's chat template renders the prompt")
    if options.capture is not None:
        engine = _captured(options, engine, dialect, reading.policy)
    # llama.cpp applies grammars at once, so calls follow their schemas by default; small models invent arguments.
    level = LEVELS[options.strict_level or ("parameter" if kind is LOCAL else "off")]
    settings = Settings(
        model=options.model or served or dialect.name,
        dialect=dialect,
        policy=reading.policy,
        strict_level=level,
        closed=kind is LOCAL,
        thinks=trained and thinks(list(proof)),
        tools=reading.tools,
        tool_choice=reading.tool_choice,
        **others,
    )
    return OpenedModel(settings, engine, prompts)


def _report_unused(options: argparse.Namespace, kind: EngineKind) -> None:
    """Say which arguments have no effect on this kind of engine. A file may give them to several models."""
    for other, names in _ONLY.items():
        given = [name for name in names if getattr(options, name[2:].replace("-", "_"))]
        if given and kind is not other:
            say(f"unspool: {', '.join(given)}: has no effect on this engine, only on {other.form}")


def _reading(
    options: argparse.Namespace,
    kind: EngineKind,
    argument: str,
    template: "Tokenizer | None",
    asked: ProbedTemplate | None,
    served: str,
) -> OutputSettings:
    policy = read_policy(options.policy)
    if kind is not REPLAY:
        dialect, proof = _dialect(options, template, asked, served)
        return OutputSettings(dialect, policy, proof)

    def alone() -> Dialect:
        return _dialect(options, template, asked, served)[0]

    recordings = open_recordings("--engine", argument)
    found = read_in_common("--engine", recordings, None if _named(options) is None else alone(), alone)
    return found._replace(policy=policy.over(found.policy))


def _named(options: argparse.Namespace) -> str | None:
    """The dialect that an argument names, if one does."""
    named: str | None = options.dialect or options.tool_call_parser or options.reasoning_parser
    return None if named == AUTO else named


def _prompts(options: argparse.Namespace, folder: str | Path, making: "Future[Prompts]", dialect: Dialect) -> "Prompts":
    """The chat template, after its self-check."""
    source = source_argument(options)
    with blaming(source, folder, TemplateError):
        prompts = making.result()
    try:
        if not prompts.check(dialect):
            say(f"unspool: {source}: {folder}: the chat template writes no calls")
    except TemplateError as error:
        if not options.no_self_check:
            raise Misuse(f"{source}: {error} (--no-self-check starts anyway)") from None
    return prompts


def _dialect(
    options: argparse.Namespace, template: "Tokenizer | None", asked: ProbedTemplate | None, served: str
) -> tuple[Dialect, Sequence[Case]]:
    """The dialect that the arguments name, or else the one that the template proves, with that proof."""
    reasoning, calls = options.reasoning_parser, options.tool_call_parser
    if options.dialect is not None and (reasoning is not None or calls is not None):
        raise Misuse("--dialect: cannot be combined with --reasoning-parser and --tool-call-parser")
    if options.dialect not in (None, AUTO):
        return named_dialect("--dialect", options.dialect), ()
    if calls is not None:
        dialect = named_dialect("--tool-call-parser", calls)
        return dialect if reasoning is None else with_reasoning(dialect, "--reasoning-parser", reasoning), ()
    if reasoning is not None:
        return named_dialect("--reasoning-parser", reasoning), ()
    if template is not None and asked is not None:
        name, source = options.model or served or None, source_argument(options)
        choice = choose(source, asked, name, template.response_template)
        if options.proof or source in ("--tokenizer", "--engine"):  # not of the default model
            report(choice.dialect, choice.proof, asked.template, table=options.proof, origin=choice.origin)
        return choice.dialect, choice.proof
    if options.dialect == AUTO:
        raise Misuse("--dialect: auto needs the model's chat template; pass --tokenizer")
    if options.model is None:
        raise Misuse("--dialect: is required; name the dialect, or the model with --model")
    return get_dialect(candidates(options.model, None)[0].dialect), ()


def _captured(options: argparse.Namespace, engine: "Engine", dialect: Dialect, policy: Policy) -> "Engine":
    from ..engines import Capture
    from ..generation.tracing import named

    name, reasoning, toml = named(dialect)
    if (given := _named(options)) is not None:
        name, reasoning = given, options.reasoning_parser if options.tool_call_parser else None
        toml = dialect.file[1] if name.endswith(".toml") else ""
    with blaming("--capture", options.capture):
        return Capture(engine, options.capture, dialect=name, reasoning=reasoning, policy=policy, toml=toml)
