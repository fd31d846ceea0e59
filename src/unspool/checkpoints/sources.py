"""Reads chat templates from their sources: a checkpoint's folder, one of its files, or a GGUF."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import TemplateError
from .gguf import read_gguf

SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_DEFAULT: Final = "default"
_MOST: Final = 16 << 20  # the most bytes of a text file that are read


class Checkpoint(msgspec.Struct, frozen=True):
    """What a checkpoint says about its prompts: its chat templates by name (a single one is called ``default``), named
    special tokens such as ``bos_token``, the path of its ``tokenizer.json``, and its ``response_template``."""

    templates: dict[str, str]
    special_tokens: dict[str, str] = {}
    tokenizer: Path | None = None
    response_template: dict[str, Any] | None = None

    def template(self, name: str | None = None) -> str:
        """The template of this name; by default that for tools, else the default. `TemplateError` if there is none."""
        for key in (name,) if name is not None else ("tool_use", _DEFAULT, *self.templates):
            if key in self.templates:
                return self.templates[key]
        raise TemplateError(f"there is no template {name!r}; allowed are {', '.join(self.templates)}")


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a folder, a ``tokenizer_config.json``, a file with nothing but a template, or a GGUF. `OSError` if a file
    cannot be read; `TemplateError` if there is no template, or a file is malformed."""
    path = Path(path)
    if path.is_dir():
        found = read_folder(path)
    elif path.suffix == ".json":
        found = _config(path)
    elif path.suffix == ".gguf":
        found = Checkpoint(read_gguf(path).templates)
    else:
        found = Checkpoint({_DEFAULT: _text(path)})
    if not found.templates:
        raise TemplateError(f"{path}: contains no chat template")
    return found


def read_folder(path: Path) -> Checkpoint:
    """Read the folder of a checkpoint, which may have no template; the errors are those of `read_checkpoint`."""
    config, tokenizer = path / "tokenizer_config.json", path / "tokenizer.json"
    found = _config(config) if config.is_file() else Checkpoint({})
    templates = found.templates
    if (path / "chat_template.jinja").is_file():  # replaces those of the configuration, as in transformers
        templates = {_DEFAULT: _text(path / "chat_template.jinja")}
    for file in sorted((path / "additional_chat_templates").glob("*.jinja")):
        templates[file.stem] = _text(file)
    tokenizer_file = tokenizer if tokenizer.is_file() else None
    return Checkpoint(templates, found.special_tokens, tokenizer_file, found.response_template)


def _text(path: Path, most: int = _MOST) -> str:
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TemplateError(f"{path}: is longer than {most:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path}: not UTF-8: {error.reason}") from None


def read_object(path: Path, most: int = _MOST) -> dict[str, Any]:
    """Read the JSON object in a file of at most this many bytes. `OSError` if it cannot be read, `TemplateError` if it
    is too long, or contains anything else."""
    text = _text(path, most)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise TemplateError(f"{path}: must be a JSON object")
    return value


def _config(path: Path) -> Checkpoint:
    value = read_object(path)
    named = templates_by_name(value.get("chat_template"))
    if not all(isinstance(text, str) for item in named.items() for text in item):
        raise TemplateError(f"{path}: chat_template must be a string, or a list of objects with name and template")
    special = {name: text_of(value[name]) for name in SPECIAL if value.get(name)}
    answers = value.get("response_template")
    return Checkpoint(named, special, None, answers if isinstance(answers, dict) else None)


def templates_by_name(given: Any) -> dict[str, Any]:
    """The templates of a tokenizer's ``chat_template``: one, a list of objects with names, or an object."""
    if isinstance(given, list):
        named = [t for t in given if isinstance(t, dict) and isinstance(t.get("name"), str) and "template" in t]
        return {t["name"]: t["template"] for t in named}
    return {_DEFAULT: given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}


def text_of(value: Any) -> str:
    """The text of a special token, which may be an object."""
    return str(value.get("content", "") if isinstance(value, dict) else value)
