"""Reads the prompt settings in a model's files: its chat template and its special tokens."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import TemplateError

SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
"""The names of special tokens that templates know."""


class Tokenizer(msgspec.Struct, frozen=True):
    """The prompt settings in a model's files.

    Attributes:
        template: its chat template, and the one for requests with tools if that is different.
        special: named special tokens, such as ``bos_token``.
        added: every special token, and every other added token that the template writes. Only these can be mistaken
            for the structure of a prompt.
        response_template: its description of how to read answers; see `unspool.infer.choosing`.
    """

    template: str
    tool_template: str
    special: dict[str, str]
    added: tuple[str, ...]
    response_template: dict[str, Any] | None = None


def read_tokenizer(path: str | Path) -> Tokenizer:
    """Read a model's folder: ``tokenizer_config.json``, ``tokenizer.json`` and ``chat_template.jinja``.

    Raises:
        OSError: a file cannot be read.
        TemplateError: there is no template, or a file is malformed.
    """
    folder = Path(path)
    config = _json(folder / "tokenizer_config.json")
    templates = config.get("chat_template")
    if isinstance(templates, list):  # several, by name
        named = {t["name"]: t["template"] for t in templates}
        template, tool_template = named.get("default", ""), named.get("tool_use", "")
    else:
        template, tool_template = templates or "", ""
    if (folder / "chat_template.jinja").is_file():
        template, tool_template = (folder / "chat_template.jinja").read_text(encoding="utf-8"), ""
    if not template:
        raise TemplateError(f"{folder}: contains no chat template (tokenizer_config.json or chat_template.jinja)")
    special = {name: _token(config[name]) for name in SPECIAL if config.get(name)}
    added = list(config.get("added_tokens_decoder", {}).values())
    added += _json(folder / "tokenizer.json").get("added_tokens", ())
    written = template + tool_template
    marks = {_token(t) for t in added if _is_special(t) or _token(t) in written} | set(special.values())
    marks = {t for t in marks if len(t) > 2 and not t.isspace() and not t.isalnum()}
    answers = config.get("response_template")
    response_template = answers if isinstance(answers, dict) else None
    return Tokenizer(template, tool_template or template, special, tuple(sorted(marks)), response_template)


def _json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TemplateError(f"{file}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise TemplateError(f"{file}: must be a JSON object")
    return value


def _token(value: Any) -> str:
    return str(value["content"] if isinstance(value, dict) else value)


def _is_special(token: Any) -> bool:
    return bool(token.get("special", True)) if isinstance(token, dict) else True
