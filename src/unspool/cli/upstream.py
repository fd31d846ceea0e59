"""Engines at a URL: what they say about themselves, so that no flag has to."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TemplateError
from .common import Misuse, read_key

if TYPE_CHECKING:
    from ..engines.upstream.discovery import Discovered
    from ..request.prompts import Tokenizer


def discovered(options: argparse.Namespace) -> "Discovered | None":
    """What the first engine says. With ``--tokenizer``, one that is down is only reported.

    Raises:
        Misuse: it is down, or of an unknown kind, and nothing else says what to do.
    """
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
            raise Misuse(f"--engine: {url}: {error}; --tokenizer starts without it") from None
        print(f"unspool: --engine: {url}: {error}; it is tried again", file=sys.stderr)
        return None
    if found.kind is None:
        print(f"unspool: --engine: {url}: its kind cannot be detected; name it with --engine-kind", file=sys.stderr)
    if found.kind == OLLAMA:  # it does not always say so in the list of its models
        options.engine_kind = OLLAMA
    return found


def template_of(options: argparse.Namespace, found: "Discovered") -> "Tokenizer":
    """The chat template that an engine sends, or whose file it names.

    Raises:
        Misuse: there is none.
    """
    from ..request.prompts import Tokenizer

    if found.template:
        added = {*found.added, *found.special.values()}
        if found.path is not None and found.path.suffix == ".gguf":
            added |= set(read_template(found.path).added)
        marks = tuple(sorted(t for t in added if len(t) > 2 and not t.isspace() and not t.isalnum()))
        return Tokenizer(found.template, found.tool_template or found.template, dict(found.special), marks)
    if found.path is not None:
        return read_template(found.path)
    raise Misuse(
        f"--tokenizer: is required for this engine: {options.engine[0]} ({found.kind or 'of an unknown kind'}) sends "
        "no chat template, which renders the prompt, and names no file on this machine"
    )


def read_template(path: str | Path) -> "Tokenizer":
    """The chat template and the special tokens of a folder, a GGUF, or a file that is nothing but a template.

    Raises:
        OSError: a file cannot be read.
        TemplateError: there is no template, or a file is malformed.
    """
    from ..engines.upstream.discovery import possible_tokens
    from ..infer.gguf import read_gguf
    from ..infer.sources import read_checkpoint
    from ..request.gguf import gguf_tokenizer
    from ..request.prompts import Tokenizer, read_tokenizer

    path = Path(path)
    if path.is_dir():
        return read_tokenizer(path)
    if _is_gguf(path):
        return gguf_tokenizer(read_gguf(path, vocabulary=True))
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
