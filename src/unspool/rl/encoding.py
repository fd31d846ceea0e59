"""Loads a tokenizer for conversations, and encodes text that may spell special tokens."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checkpoints.sources import SPECIAL, read_folder, templates_by_name
from ..tokens import added_tokens, backend_of, marked_special
from ..validation import wrong_type
from ..wire.encoding import clean

Ids = NDArray[np.int64]

_TAG: Final = re.compile(r"<[|｜].+[|｜]>")
_BREAKS: Final = range(0x13000, 0x13400)
"""Letters of a script that is no longer in use. They are printable, so that no encoding of text escapes them."""


class Loaded(NamedTuple):
    """A tokenizer, its chat templates by name (a single one is called ``default``), and named special tokens."""

    tokenizer: Any
    templates: dict[str, str]
    special: dict[str, str]


def load_tokenizer(tokenizer: Any) -> Loaded:
    """Load a tokenizer from a ``tokenizers.Tokenizer``, a fast tokenizer of transformers, or the folder of either (a
    `TypeError` if it is none). `OSError` if a file cannot be read, `TemplateError` if it is malformed."""
    if isinstance(tokenizer, str | os.PathLike):
        path = Path(tokenizer).resolve()
        return _load_folder(path, (path / "tokenizer.json").stat().st_mtime_ns)
    backend = backend_of(tokenizer)
    if not callable(getattr(backend, "token_to_id", None)) or not callable(getattr(backend, "encode_batch", None)):
        allowed = "a tokenizers.Tokenizer, a fast tokenizer of transformers, or a folder with tokenizer.json"
        raise wrong_type("tokenizer", tokenizer, allowed)
    if getattr(backend, "truncation", None) is not None or getattr(backend, "padding", None) is not None:
        backend = type(backend).from_str(backend.to_str())
        backend.no_truncation()
        backend.no_padding()
    special = {name: str(value) for name in SPECIAL if (value := getattr(tokenizer, name, None)) is not None}
    return Loaded(backend, templates_by_name(getattr(tokenizer, "chat_template", None)), special)


@lru_cache(maxsize=8)
def _load_folder(path: Path, _changed: int) -> Loaded:
    from tokenizers import Tokenizer

    found = read_folder(path)
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Loaded(tokenizer, found.templates, found.special_tokens)


class Encoder:
    """Encodes rendered text.

    A message's text that spells a special token must be encoded as plain text. `broken` inserts a character that no
    text of the conversation contains into each such spelling, and `encode` encodes the text on both sides separately.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``.
        structure: texts that structure prompts. An added token is special if it is marked so, occurs in these texts,
            or looks like ``<|…|>``; others, such as ``<td>``, may be ordinary text.
    """

    def __init__(self, tokenizer: Any, structure: Iterable[str]) -> None:
        self.tokenizer = tokenizer
        self.added = added_tokens(tokenizer)
        self._literals = {token: text for text, token in self.added.items()}
        marked = marked_special(tokenizer)
        written = "\n".join(structure)
        special = (t for t in self.added if t in marked or t in written or _TAG.fullmatch(t))
        marks = (t for t in special if len(t) > 1 and not t.isspace())
        self._marks = sorted(t for t in marks if not t.isalnum())
        # After this token, text is encoded as in the middle of a conversation.
        self._anchor = next((t for t in self._marks if self._alone(t)), "")

    def _alone(self, token: str) -> bool:
        """Whether a special token leaves the space after it unchanged."""
        ids = self.tokenizer.encode(token + " ", add_special_tokens=False).ids
        return len(ids) > 1 and ids[0] == self.added[token]

    def unused(self, values: Any) -> str:
        """A character for `broken` that occurs in none of these texts."""
        text = json.dumps(values, ensure_ascii=False, default=str)
        return next(chr(c) for c in _BREAKS if chr(c) not in text)

    def broken(self, value: Any, by: str) -> Any:
        """A value without special tokens in its strings and keys. Each is broken up after its first character.

        Lone surrogates become U+FFFD, because tokenizers refuse them.
        """
        if isinstance(value, str):
            value = clean(value)
            for mark in self._marks:
                while mark in value:
                    value = value.replace(mark, mark[0] + by + mark[1:])
            return value
        if isinstance(value, Mapping):
            return {self.broken(k, by): self.broken(v, by) for k, v in value.items()}
        if not isinstance(value, list | tuple):
            return value
        values = [self.broken(v, by) for v in value]
        parts = [v for v in values if isinstance(v, dict) and isinstance(v.get("text"), str)]
        whole = "".join(part["text"] for part in parts)
        if any(mark in whole for mark in self._marks):  # templates write parts one after the other
            for part in parts[1:]:
                part["text"] = by + part["text"]
        return values

    def encode(self, text: str, by: str) -> Ids:
        """The ids of rendered text; ``by``: that of `broken`."""
        return self.encode_spans(text, by)[0]

    def encode_spans(self, text: str, by: str, behind: str = "") -> tuple[Ids, NDArray[np.int64]]:
        """The ids of rendered text after a special token (``""``: at the beginning), and the offset of each token."""
        ids: list[Ids] = []
        starts: list[NDArray[np.int64]] = []
        at = 0
        for piece in text.split(by) if by else [text]:
            encoding = self.tokenizer.encode(behind + piece, add_special_tokens=False)
            if behind and encoding.ids[:1] != [self.added.get(behind)]:
                behind = ""  # the tokenizer does not recognise the token here
                encoding = self.tokenizer.encode(piece, add_special_tokens=False)
            skip = 1 if behind else 0
            ids.append(np.array(encoding.ids[skip:], np.int64))
            offsets = np.array(encoding.offsets[skip:], np.int64).reshape(-1, 2)
            starts.append(offsets[:, 0] - len(behind) + at)
            at += len(piece) + len(by)
            behind = self._anchor
        return np.concatenate(ids), np.concatenate(starts)

    def literal(self, token: int) -> str:
        """The text of an added token; ``""`` for any other."""
        return self._literals.get(token, "")
