"""Reads chat templates from their sources: a checkpoint's folder, one of its files, or a GGUF."""

import json
import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from ..errors import TemplateError

_SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_DEFAULT: Final = "default"
_MOST: Final = 16 << 20
"""The most bytes of a text file that are read."""


class Checkpoint(msgspec.Struct, frozen=True):
    """What a checkpoint says about its prompts.

    Attributes:
        templates: its chat templates by name; a single one is called ``default``.
        special_tokens: named special tokens, such as ``bos_token``.
        tokenizer: the path of its ``tokenizer.json``, or ``None``.
        response_template: its description of how to read answers, in transformers' form, or ``None``.
    """

    templates: dict[str, str]
    special_tokens: dict[str, str] = {}
    tokenizer: Path | None = None
    response_template: dict[str, Any] | None = None

    def template(self, name: str | None = None) -> str:
        """The template of this name; without a name, the one for tools, or else the default.

        Raises:
            TemplateError: there is no template of this name.
        """
        for key in (name,) if name is not None else ("tool_use", _DEFAULT, *self.templates):
            if key in self.templates:
                return self.templates[key]
        raise TemplateError(f"there is no template {name!r}; allowed are {', '.join(self.templates)}")


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a folder, a ``tokenizer_config.json``, a file with nothing but a template, or a GGUF.

    Raises:
        OSError: a file cannot be read.
        TemplateError: there is no template, or a file is malformed.
    """
    path = Path(path)
    if path.is_dir():
        found = _folder(path)
    elif path.suffix == ".json":
        found = _config(path)
    elif path.suffix == ".gguf":
        with path.open("rb") as file:
            found = _gguf(file, path)
    else:
        found = Checkpoint({_DEFAULT: _text(path)})
    if not found.templates:
        raise TemplateError(f"{path}: contains no chat template")
    return found


def _folder(path: Path) -> Checkpoint:
    config, tokenizer = path / "tokenizer_config.json", path / "tokenizer.json"
    found = _config(config) if config.is_file() else Checkpoint({})
    templates = dict(found.templates)
    if (path / "chat_template.jinja").is_file():
        templates[_DEFAULT] = _text(path / "chat_template.jinja")
    for file in sorted((path / "additional_chat_templates").glob("*.jinja")):
        templates[file.stem] = _text(file)
    tokenizer_file = tokenizer if tokenizer.is_file() else None
    return Checkpoint(templates, found.special_tokens, tokenizer_file, found.response_template)


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        raise TemplateError(f"{path}: is longer than {_MOST:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path}: not UTF-8: {error.reason}") from None


def _config(path: Path) -> Checkpoint:
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise TemplateError(f"{path}: must be a JSON object")
    given = value.get("chat_template") or {}
    named = {_DEFAULT: given} if isinstance(given, str) else {}
    if isinstance(given, list):
        named = {t["name"]: t["template"] for t in given if isinstance(t, dict) and {"name", "template"} <= t.keys()}
    if not all(isinstance(text, str) for item in named.items() for text in item):
        raise TemplateError(f"{path}: chat_template must be a string, or a list of objects with name and template")
    special = {name: _token(value[name]) for name in _SPECIAL if value.get(name)}
    answers = value.get("response_template")
    return Checkpoint(named, special, None, answers if isinstance(answers, dict) else None)


def _token(value: Any) -> str:
    return str(value.get("content", "") if isinstance(value, dict) else value)


# --- GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md ------------------------------------------------

_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING: Final = 8
_ARRAY: Final = 9
_TEMPLATE: Final = "tokenizer.chat_template"
_MOST_KEYS: Final = 100_000
_MOST_ITEMS: Final = 10_000_000


class _Cut(Exception):
    """The file ends early, or contradicts itself."""


def _gguf(file: BinaryIO, path: Path) -> Checkpoint:
    try:
        if file.read(4) != b"GGUF" or _number(file, "<I") < 2:
            raise TemplateError(f"{path}: is not a GGUF file of version 2 or later")
        _number(file, "<Q")  # tensors
        templates: dict[str, str] = {}
        for _ in range(min(_number(file, "<Q"), _MOST_KEYS)):
            key = _gguf_string(file)
            kind = _number(file, "<I")
            if kind == _STRING and key.startswith(_TEMPLATE):
                templates[key[len(_TEMPLATE) + 1 :] or _DEFAULT] = _gguf_string(file)
            else:
                _skip(file, kind)
    except _Cut as error:
        raise TemplateError(f"{path}: is not a complete GGUF file: {error}") from None
    return Checkpoint(templates)


def _number(file: BinaryIO, form: str) -> int:
    size = struct.calcsize(form)
    data = file.read(size)
    if len(data) < size:
        raise _Cut("it ends in its metadata")
    return int(struct.unpack(form, data)[0])


def _gguf_string(file: BinaryIO) -> str:
    size = _number(file, "<Q")
    if size > _MOST:
        raise _Cut(f"a text of {size:,} bytes")
    data = file.read(size)
    if len(data) < size:
        raise _Cut("it ends in its metadata")
    return data.decode(errors="replace")


def _skip(file: BinaryIO, kind: int) -> None:
    """Skip a value."""
    if kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    elif kind == _STRING:
        file.seek(min(_number(file, "<Q"), 1 << 40), 1)
    elif kind == _ARRAY:
        items, count = _number(file, "<I"), _number(file, "<Q")
        if count > _MOST_ITEMS or items == _ARRAY:
            raise _Cut(f"an array of {count:,} items of type {items}")
        if items in _SIZES:
            file.seek(_SIZES[items] * count, 1)
        else:
            for _ in range(count):
                _skip(file, items)
    else:
        raise _Cut(f"a value of type {kind}")
