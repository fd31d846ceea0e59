"""The command ``serve``."""

import argparse
import sys
from typing import Any

from ..detect import detect_dialect
from ..dialect import Dialect
from ..grammar import ToolStrictLevel
from ..registry import get_dialect
from ..server.settings import LIMITS, PROFILES, Limits, Settings
from ..wire.chat import REASONING_FIELDS
from .common import Misuse, named_dialect, one_of, read_policy, read_text


def serve_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--model", metavar="NAME", help="the served name; tells the dialect where no other argument does")
    p.add_argument("--host", default="127.0.0.1", help="where to listen; 127.0.0.1 by default")
    p.add_argument("--port", type=int, default=8192, help="8192 by default; 0 takes any that is free")
    p.add_argument("--engine", metavar="KIND:…", required=True, help="replay:PATH, a recording or a folder of them")
    text = "how much faster than recorded; 1 by default, 0 is as fast as it goes"
    p.add_argument("--replay-speed", type=float, metavar="FACTOR", default=1.0, help=text)
    p.add_argument("--capture", metavar="DIR", help="record every raw output there, for replay")
    p.add_argument("--dialect", metavar="NAME|FILE.toml", help="reads reasoning and calls")
    p.add_argument("--reasoning-parser", metavar="NAME|FILE.toml", help="reads reasoning; alone, calls too")
    p.add_argument("--tool-call-parser", metavar="NAME|FILE.toml", help="reads calls; alone, reasoning too")
    text = "the model's folder, with its chat template; without it the engine gets the messages alone"
    p.add_argument("--tokenizer", metavar="DIR", help=text)
    text = "serve although the dialect does not read what the chat template writes"
    p.add_argument("--no-self-check", action="store_true", help=text)
    p.add_argument("--policy", metavar="FIELD=VALUE", action="append", default=[], help="repeatable")
    p.add_argument("--profile", type=one_of(PROFILES), metavar="PROFILE", default=PROFILES[0], help=", ".join(PROFILES))
    p.add_argument("--full-text", action="store_true", help="profile mindie: content is cumulative")
    p.add_argument(
        "--timing", type=one_of(("usage", "top")), metavar="PLACE", default="usage", help="mindie: usage, top"
    )
    p.add_argument("--coalesce-reasoning", action="store_true", help="streams tell reasoning by sentence")
    p.add_argument("--coalesce-arguments", action="store_true", help="streams cut arguments at boundaries of JSON")
    text = "a delta is held back so long at most; alone, every delta is"
    p.add_argument("--coalesce-delay", type=float, metavar="SECONDS", help=text)
    p.add_argument("--content-chunks", action="store_true", help="profile candle: extensions tell the content too")
    fields = tuple(REASONING_FIELDS)
    p.add_argument("--reasoning-field", type=one_of(fields), metavar="FIELD", default=fields[0], help=", ".join(fields))
    reasons = ("stop", "tool_calls")
    text = "finish reason of an answer to a named tool_choice: stop (default), tool_calls"
    p.add_argument("--named-reason", type=one_of(reasons), metavar="REASON", default=reasons[0], help=text)
    levels = tuple(level.name.lower() for level in ToolStrictLevel)
    text = f"{', '.join(levels)}: constrains tool_choice auto where no tool is strict"
    p.add_argument("--strict-level", type=one_of(levels), metavar="LEVEL", default=levels[0], help=text)
    p.add_argument("--api-key", metavar="KEY|@FILE", help="what clients have to present")
    for field, text in LIMITS.items():
        default = getattr(Limits(), field)
        p.add_argument(f"--max-{field}", type=type(default), metavar="N", default=default, help=f"{text}; {default:,}")


def run_serve(options: argparse.Namespace) -> int:
    tokenizer = _tokenizer(options)
    dialect = _served_dialect(options, tokenizer)
    key = options.api_key
    if key is not None and key.startswith("@"):
        key = read_text("--api-key", key[1:]).strip()
    if key == "":
        raise Misuse("--api-key: is empty")
    if not 0 <= options.port <= 65_535:
        raise Misuse("--port: must be between 0 and 65535")
    if options.coalesce_delay is not None and options.coalesce_delay <= 0:
        raise Misuse("--coalesce-delay: must be more than 0")
    try:
        limits = Limits(**{field: getattr(options, f"max_{field}") for field in LIMITS})
    except ValueError as error:
        raise Misuse(f"--max-{error}") from None
    settings = Settings(
        model=options.model or dialect.name,
        dialect=dialect,
        policy=read_policy(options.policy),
        profile=options.profile,
        reasoning_field=options.reasoning_field,
        full_text=options.full_text,
        timing=options.timing,
        content_chunks=options.content_chunks,
        coalesce_reasoning=options.coalesce_reasoning,
        coalesce_arguments=options.coalesce_arguments,
        coalesce_delay=options.coalesce_delay,
        named_reason=options.named_reason,
        strict_level=ToolStrictLevel[options.strict_level.upper()],
        api_key=key,
        limits=limits,
    )
    try:
        from ..server import serve
    except ImportError as error:
        raise Misuse(f"COMMAND: the server needs {error.name}; install unspool[server]") from None
    prompts = _prompts(options, tokenizer, dialect)
    return 0 if serve(settings, _engine(options, settings), options.host, options.port, prompts) else 1


def _tokenizer(options: argparse.Namespace) -> Any:
    """What the model's folder tells of its prompts; ``None`` where there is none."""
    if options.tokenizer is None:
        return None
    try:
        from ..server.prompts import TemplateError, read_tokenizer
    except ImportError as error:
        raise Misuse(f"--tokenizer: needs {error.name}; install unspool[server]") from None
    try:
        return read_tokenizer(options.tokenizer)
    except OSError as error:
        raise Misuse(f"--tokenizer: {options.tokenizer}: {error.strerror}") from None
    except TemplateError as error:
        raise Misuse(f"--tokenizer: {error}") from None


def _prompts(options: argparse.Namespace, tokenizer: Any, dialect: Dialect) -> Any:
    """The chat template, checked; ``None`` where there is none."""
    if tokenizer is None:
        return None
    from ..server.prompts import Prompts, TemplateError

    try:
        prompts = Prompts(tokenizer)
        if not prompts.check(dialect):
            print(f"unspool serve: --tokenizer: {options.tokenizer}: the template writes no calls", file=sys.stderr)
    except TemplateError as error:
        if not options.no_self_check:
            raise Misuse(f"--tokenizer: {error} (--no-self-check serves all the same)") from None
        prompts = Prompts(tokenizer)
    return prompts


def _served_dialect(options: argparse.Namespace, tokenizer: Any) -> Dialect:
    reasoning, calls = options.reasoning_parser, options.tool_call_parser
    if options.dialect is not None:
        if reasoning is not None or calls is not None:
            raise Misuse("--dialect: reads both; give it, or --reasoning-parser and --tool-call-parser")
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
    if options.model is None and tokenizer is None:
        raise Misuse("--dialect: is missing; name the dialect, or the model with --model")
    template = None if tokenizer is None else tokenizer.tool_template
    found = detect_dialect(model=options.model, chat_template=template)
    if not found:
        argument = "--tokenizer" if options.model is None else "--model"
        raise Misuse(f"{argument}: no dialect is known for it; give --dialect, see `unspool dialects`")
    return get_dialect(found[0].dialect)


def _engine(options: argparse.Namespace, settings: Settings) -> Any:
    from ..engines import Capture, Replay, read_recordings

    kind, _, path = options.engine.partition(":")
    if kind != "replay" or not path:
        raise Misuse(f"--engine: {options.engine!r}: allowed is replay:PATH")
    try:
        engine = Replay(read_recordings(path), options.replay_speed)
    except OSError as error:
        raise Misuse(f"--engine: {path}: {error.strerror}") from None
    except ValueError as error:
        raise Misuse(f"--engine: {error}") from None
    if options.capture is None:
        return engine
    name = options.dialect or options.tool_call_parser or options.reasoning_parser or settings.dialect.name
    reasoning = options.reasoning_parser if options.tool_call_parser else None
    try:
        return Capture(engine, options.capture, dialect=name, reasoning=reasoning, policy=settings.policy)
    except OSError as error:
        raise Misuse(f"--capture: {options.capture}: {error.strerror}") from None
