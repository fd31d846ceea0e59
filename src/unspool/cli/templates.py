"""Where the chat template of ``serve`` and ``generate`` comes from: ``--tokenizer``, a GGUF, or a server."""

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ..errors import TemplateError
from .common import Misuse, blaming, needing, read_key, say
from .engines import LOCAL, UPSTREAM, EngineKind
from .local import find_local

if TYPE_CHECKING:
    from ..engines.upstream.discovery import Discovered
    from ..request.prompts import Tokenizer


class TemplateSource(NamedTuple):
    """The chat template, the folder or file that it comes from, and the name of the model; empty if it is not known."""

    template: "Tokenizer | None"
    folder: str | Path | None
    served: str


def source_argument(options: argparse.Namespace) -> str:
    """The argument that a chat template comes from."""
    if options.tokenizer is not None:
        return "--tokenizer"
    return "--engine" if options.engine else "--engine: is not given, so the default model is served"


def find_template(options: argparse.Namespace, kind: EngineKind, argument: str) -> TemplateSource:
    """The chat template that ``--tokenizer`` names, or else that of the engine."""
    known = _discovered(options) if kind is UPSTREAM else None
    served = find_local(argument).name if kind is LOCAL else "" if known is None else known.model or ""
    if options.tokenizer is not None:
        with needing("server"), blaming("--tokenizer", options.tokenizer, TemplateError):
            return TemplateSource(_given(Path(options.tokenizer), kind, argument, known), options.tokenizer, served)
    with needing("server"):
        if known is not None:
            return TemplateSource(_sent(options, known), known.path, served)
        return TemplateSource(_own(argument) if kind is LOCAL else None, None, served)


def _own(argument: str, template: str | None = None) -> "Tokenizer":
    from ..request.tokenizer import gguf_tokenizer

    model = find_local(argument)
    with blaming("--engine", None, TemplateError):
        return gguf_tokenizer(model.gguf, template or model.template)


def _given(path: Path, kind: EngineKind, argument: str, known: "Discovered | None") -> "Tokenizer":
    """What ``--tokenizer`` names. The special tokens of a file that is nothing but a template are the engine's."""
    found = _read(path)
    if path.is_dir() or _is_gguf(path):
        return found
    if kind is LOCAL:
        return _own(argument, found.template)
    if known is not None:
        with contextlib.suppress(OSError, TemplateError):  # what the server names may be another's
            if known.path is not None:
                return _read(known.path, found.template)
        added = tuple(sorted({*found.added, *known.added, *known.special.values()}))
        found = msgspec.structs.replace(found, special=dict(known.special), added=added)
    empty = [name for name in ("bos_token", "eos_token") if name in found.template and name not in found.special]
    if empty and kind is UPSTREAM:
        text = f"writes {' and '.join(empty)}, which the engine does not say; the model's folder or its GGUF does"
        say(f"unspool: --tokenizer: {path}: {text}")
    return found


def _discovered(options: argparse.Namespace) -> "Discovered | None":
    """What the first engine says about itself. With ``--tokenizer``, one that is down is only reported."""
    from ..engines import EngineError
    from ..engines.upstream.discovery import OLLAMA, discover

    url = options.engine[0]
    try:
        found = discover(
            options.engine,
            key=read_key("--engine-key", options.engine_key),
            kind=options.engine_kind,
            model=options.engine_model,
        )
    except ValueError as error:
        raise Misuse(f"--engine: {error}") from None
    except EngineError as error:
        if options.tokenizer is None:
            serves = hasattr(options, "port") and error.status != 401
            hint = "; with --tokenizer, the server starts without it" if serves else ""
            raise Misuse(f"--engine: {url}: {error}{hint}") from None
        say(f"unspool: --engine: {url}: {error}; it is tried again")
        return None
    if found.kind is None:
        why = f"its kind cannot be detected{found.fault and f' ({found.fault})'}"
        say(f"unspool: --engine: {url}: {why}; name it with --engine-kind")
    if found.looks is not None:
        say(f"unspool: --engine-kind: {url} looks like {found.looks}, not {found.kind}")
    if found.kind == OLLAMA:  # it does not always say so in the list of its models
        options.engine_kind = OLLAMA
    return found


def _sent(options: argparse.Namespace, found: "Discovered") -> "Tokenizer":
    """The chat template that an engine sends, or whose file it names."""
    from ..request.prompts import Tokenizer
    from ..request.tokenizer import special_marks

    url = options.engine[0]
    try:
        if found.template:
            added = {*found.added, *found.special.values()}
            if found.path is not None and found.path.suffix == ".gguf":
                added |= set(_read(found.path, found.template).added)
            marks = special_marks(added, found.template)
            return Tokenizer(found.template, found.tool_template or found.template, dict(found.special), marks)
        if found.path is not None:
            return _read(found.path)
    except (OSError, TemplateError) as error:
        raise Misuse(f"--engine: {url}: {error}; --tokenizer names other files") from None
    raise Misuse(
        f"--tokenizer: is required for this engine: {url} ({found.kind or 'of an unknown kind'}) sends no chat "
        "template, which renders the prompt, and names no file on this machine"
    )


def _read(path: Path, template: str | None = None) -> "Tokenizer":
    """The chat template, unless another one is given, and the special tokens of a folder or a GGUF; or a file that is
    nothing but a template. `OSError` if it cannot be read, `TemplateError` if there is no template, or a file is
    malformed."""
    from ..checkpoints.gguf import read_gguf
    from ..checkpoints.sources import read_checkpoint
    from ..engines.upstream.discovery import possible_tokens
    from ..request.prompts import Tokenizer, read_tokenizer
    from ..request.tokenizer import gguf_tokenizer

    if path.is_dir():
        return read_tokenizer(path, template)
    if _is_gguf(path):
        return gguf_tokenizer(read_gguf(path, vocabulary=True), template)
    if path.suffix == ".json":
        raise TemplateError(f"{path}: name its folder, a .gguf or a .jinja file")
    template = read_checkpoint(path).template()
    return Tokenizer(template, template, {}, possible_tokens(template))


def _is_gguf(path: Path) -> bool:
    """Whether a file is a GGUF, whatever its name: Ollama's have none."""
    if path.suffix == ".gguf":
        return True
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"
