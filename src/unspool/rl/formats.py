"""The formats of conversations. A template is examined once for each dialect, tokenizer and set of variables."""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from ..arguments import wrong_type
from ..dialect.compiling import compile_plan
from ..dialect.file import Dialect
from ..errors import TemplateError
from .bridge import Format
from .encoding import Encoder, load_tokenizer
from .templates import ChatTemplate

__all__ = ["format_of"]

_KEPT: Final = 16
_formats: OrderedDict[tuple[Any, ...], tuple[Format, tuple[Any, ...]]] = OrderedDict()
_lock: Final = threading.Lock()


def format_of(
    dialect: Dialect,
    tokenizer: Any,
    template: str | None,
    tools: bool,
    variables: Mapping[str, Any],
    special: Mapping[str, str],
) -> Format:
    """The format of a conversation, from the cache if possible. The cache keeps the objects of its key alive.

    Raises:
        TemplateError: there is no template, or it allows no messages after answers.
        TypeError: the template is not a text.
    """
    loaded = load_tokenizer(tokenizer)
    if template is None:
        named = ("tool_use", "default") if tools else ("default",)
        template = next((loaded.templates[n] for n in named if n in loaded.templates), None)
        if template is None:
            raise TemplateError("template: the tokenizer has none; give its text")
    elif not isinstance(template, str):
        raise wrong_type("template", template, "a Jinja text or None")
    named_tokens = {**loaded.special, **special}
    settings = json.dumps([named_tokens, dict(variables)], sort_keys=True, default=repr)
    key = (id(dialect), id(loaded.tokenizer), template, settings)
    with _lock:
        kept = _formats.get(key)
        if kept is not None:
            _formats.move_to_end(key)
            return kept[0]
    markers = compile_plan(dialect).literals
    encoder = Encoder(loaded.tokenizer, [template, *dialect.start, *dialect.end, *markers])
    eos = [named_tokens["eos_token"]] if named_tokens.get("eos_token") else []
    found = Format(dialect, ChatTemplate(template, {**named_tokens, **variables}), encoder, eos)
    with _lock:
        _formats[key] = found, (dialect, loaded.tokenizer)
        while len(_formats) > _KEPT:
            _formats.popitem(last=False)
    return found
