"""Reads the prompt settings in a model's files: its chat template and its special tokens."""

from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import TemplateError
from ..infer.gguf import CONTROL, DEFINED, Gguf
from ..infer.sources import read_folder, read_object, text_of

_MOST: Final = 1 << 30  # the most bytes of a tokenizer's file


class Tokenizer(msgspec.Struct, frozen=True):
    """The prompt settings in a model's files: its chat template, and the one for requests with tools."""

    template: str
    tool_template: str
    special: dict[str, str]  # named special tokens, such as ``bos_token``
    # Special tokens, and other added ones that the template writes. Only these can be mistaken for structure.
    added: tuple[str, ...]
    # Its description of how to read answers; see `unspool.infer.choosing`.
    response_template: dict[str, Any] | None = None


def read_tokenizer(path: str | Path) -> Tokenizer:
    """Read a model's folder: ``tokenizer_config.json``, ``tokenizer.json`` and ``chat_template.jinja``. `OSError` if a
    file cannot be read, `TemplateError` if there is no template, or a file is malformed."""
    folder = Path(path)
    found = read_folder(folder)
    template = found.templates.get("default")
    if not template:
        raise TemplateError(f"{folder}: contains no chat template (tokenizer_config.json or chat_template.jinja)")
    tool_template = found.templates.get("tool_use") or template
    config, tokenizer = map(_object, (folder / "tokenizer_config.json", folder / "tokenizer.json"))
    decoded, listed = config.get("added_tokens_decoder"), tokenizer.get("added_tokens")
    added = [*(decoded.values() if isinstance(decoded, dict) else ()), *(listed if isinstance(listed, list) else ())]
    written = template + tool_template
    special = [t for t in added if not isinstance(t, dict) or t.get("special", True) or text_of(t) in written]
    marks = {*map(text_of, special), *found.special_tokens.values()}
    marks = {t for t in marks if len(t) > 2 and not t.isspace() and not t.isalnum()}
    return Tokenizer(template, tool_template, found.special_tokens, tuple(sorted(marks)), found.response_template)


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
    written = default + tools
    marks = {gguf.tokens[i] for i in gguf.of_type(*CONTROL)} | set(special.values())
    marks |= {token for i in gguf.of_type(DEFINED) if (token := gguf.tokens[i]) in written}
    added = {t for t in marks if len(t) > 2 and not t.isspace() and not t.isalnum()}
    return Tokenizer(default, tools, special, tuple(sorted(added)))
