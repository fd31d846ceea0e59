"""Hugging Face's ``tojson``.

It imports nothing from unspool, because a process that renders untrusted templates loads it by its path.
"""

import json
from collections.abc import Callable
from typing import Any


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """Hugging Face's ``tojson``, which escapes no character for ASCII or HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=default
    )
