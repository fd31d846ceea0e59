"""The prompt settings of a GGUF."""

from typing import Final

from ..errors import TemplateError
from ..infer.gguf import CONTROL, DEFINED, Gguf
from .prompts import Tokenizer

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
