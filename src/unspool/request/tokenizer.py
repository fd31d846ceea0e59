"""Reads the prompt settings in a model's files: its chat template and its special tokens."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from ..checkpoints.gguf import CONTROL, DEFINED, Gguf
from ..checkpoints.sources import read_folder, read_object, text_of
from ..errors import TemplateError

_MOST: Final = 1 << 30  # the most bytes of a tokenizer's file
_BAR: Final = re.compile(r"[|｜]/?\w")
"""A bar with a word after it, as in ``<|fim_prefix|>`` and ``<|/tool_call|>``."""


class Tokenizer(msgspec.Struct, frozen=True):
    """The prompt settings in a model's files: its chat template, and the one for requests with tools."""

    template: str
    tool_template: str
    special: dict[str, str]  # named special tokens, such as ``bos_token``
    # See `special_marks`. Only these can be mistaken for structure.
    added: tuple[str, ...]
    # Its description of how to read answers; see `unspool.infer.choosing`.
    response_template: dict[str, Any] | None = None


def read_tokenizer(path: str | Path, template: str | None = None) -> Tokenizer:
    """Read a model's folder: ``tokenizer_config.json``, ``tokenizer.json`` and ``chat_template.jinja``, the last unless
    another chat template is given. `OSError` if a file cannot be read, `TemplateError` if there is no template, or a
    file is malformed."""
    folder = Path(path)
    found = read_folder(folder)
    templates = found.templates if template is None else {"default": template}
    template = templates.get("default")
    if not template:
        raise TemplateError(f"{folder}: contains no chat template (tokenizer_config.json or chat_template.jinja)")
    tool_template = templates.get("tool_use") or template
    config, tokenizer = map(_object, (folder / "tokenizer_config.json", folder / "tokenizer.json"))
    decoded, listed = config.get("added_tokens_decoder"), tokenizer.get("added_tokens")
    added = [*(decoded.values() if isinstance(decoded, dict) else ()), *(listed if isinstance(listed, list) else ())]
    marks = special_marks([*added, *found.special_tokens.values()], template + tool_template)
    return Tokenizer(template, tool_template, found.special_tokens, marks, found.response_template)


def special_marks(added: Iterable[Any], written: str) -> tuple[str, ...]:
    """Those of a tokenizer's added tokens that texts must not spell: the special ones, and others that the template has
    ``written``, or that are written with a bar, such as ``<|fim_prefix|>``. The rest, such as tags of HTML, is ordinary
    text."""
    texts = ((one, text_of(one)) for one in added)
    marks = {t for one, t in texts if _is_special(one) or _BAR.search(t) or t in written}
    return tuple(sorted(t for t in marks if len(t) > 2 and not t.isspace() and not t.isalnum()))


def _is_special(token: Any) -> bool:
    return not isinstance(token, dict) or bool(token.get("special", True))


def _object(file: Path) -> dict[str, Any]:
    return read_object(file, _MOST) if file.is_file() else {}


_ROLES: Final = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "pad_token": "padding",
    "sep_token": "seperator",  # as the format spells it
    "cls_token": "cls",
    "mask_token": "mask",
}


def gguf_tokenizer(gguf: Gguf, template: str | None = None) -> Tokenizer:
    """The chat template, the file's own or another one, and the special tokens of a file that was read with its
    vocabulary; a `TemplateError` if there is no template."""
    templates = gguf.templates if template is None else {"default": template}
    if not templates:
        raise TemplateError(f"{gguf.path}: contains no chat template; --tokenizer names a file or folder with one")
    default = templates.get("default") or next(iter(templates.values()))
    tools = templates.get("tool_use") or default
    special = {name: token for name, role in _ROLES.items() if (token := gguf.token(role))}
    others = [{"content": gguf.tokens[i], "special": False} for i in gguf.of_type(DEFINED)]
    added = [*(gguf.tokens[i] for i in gguf.of_type(*CONTROL)), *special.values(), *others]
    return Tokenizer(default, tools, special, special_marks(added, default + tools))
