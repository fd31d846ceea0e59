"""Reads the metadata of GGUF files: the model's name and size, its chat templates and its vocabulary.

The format is https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A file is untrusted: every length is checked
against what is left of the file, and the number of items is bounded. Weights are never read.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from ..errors import GgufError

MOST_ITEMS: Final = 8_000_000  # the most keys, tensors and items of arrays, all together
MOST_TEXT: Final = 16 << 20  # the longest text, in bytes
MOST_TEXTS: Final = 256 << 20  # the most bytes of all texts that are read
_MOST_KEPT: Final = 4096  # the longest array whose items are kept, apart from the vocabulary

_FORMS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT: Final = 8
_ARRAY: Final = 9
_TOKENS: Final = "tokenizer.ggml.tokens"
_TYPES: Final = "tokenizer.ggml.token_type"
_TEMPLATE: Final = "tokenizer.chat_template"
CONTROL: Final = (2, 3)  # the types of tokens that are never text: unknown and control
DEFINED: Final = 4  # the type of tokens that were added to the vocabulary, but are text
BYTE: Final = 6  # the type of tokens that spell one byte, as ``<0x0A>``
_FIRST, _LAST = 2, 3  # the versions of the format that are read

_BLOCKS: Final = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""The number of weights in a block, and its size in bytes, by the type of a tensor (``ggml_type``)."""


class Gguf(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a file."""

    path: str
    # size, needed: its bytes, and those that it must have to hold its tensors, as far as their types are known.
    size: int
    values: dict[str, Any]  # the values by key, without the long arrays
    parameters: int  # the number of weights
    needed: int
    tokens: tuple[str, ...] = ()  # the vocabulary as the file spells it; empty unless it was asked for
    types: tuple[int, ...] = ()  # the type of each token; see `of_type`

    @property
    def architecture(self) -> str:
        """The family of the network, such as ``llama``; empty if the file does not say."""
        return self.text("general.architecture")

    @property
    def context(self) -> int | None:
        """The length in tokens of the context that the model was trained with."""
        return self.number("context_length")

    @property
    def templates(self) -> dict[str, str]:
        """The chat templates by name; a single one is called ``default``."""
        found = {k: v for k, v in self.values.items() if k == _TEMPLATE or k.startswith(_TEMPLATE + ".")}
        return {k[len(_TEMPLATE) + 1 :] or "default": v for k, v in found.items() if isinstance(v, str) and v}

    def of_type(self, *types: int) -> tuple[int, ...]:
        """The ids of the tokens of these types, such as `CONTROL`."""
        return tuple(i for i, kind in enumerate(self.types) if kind in types)

    def token(self, role: str) -> str:
        """The token with a role, such as ``bos`` or ``eos``; empty if there is none."""
        found = self.values.get(f"tokenizer.ggml.{role}_token_id")
        return self.tokens[found] if isinstance(found, int) and 0 <= found < len(self.tokens) else ""

    def text(self, key: str) -> str:
        """A text; empty if there is none."""
        found = self.values.get(key)
        return found if isinstance(found, str) else ""

    def number(self, key: str) -> int | None:
        """A positive number of the architecture, such as ``context_length``; the largest if each layer has its own."""
        found = self.values.get(f"{self.architecture}.{key}")
        numbers = [n for n in (found if isinstance(found, list) else [found]) if type(n) is int and n > 0]
        return max(numbers, default=None)


def read_gguf(path: str | Path, *, vocabulary: bool = False) -> Gguf:
    """Read the metadata of a file, with its tokens if ``vocabulary`` is true. `OSError` if it cannot be read; the
    message of a `GgufError` begins with the path."""
    try:
        if Path(path).is_fifo():  # to open it would wait for its writer
            raise GgufError("is not a GGUF file")
        with Path(path).open("rb") as file:
            return _read(file, str(path), {_TOKENS, _TYPES} if vocabulary else set())
    except GgufError as error:
        raise GgufError(f"{path}: {error}") from None


def _read(file: BinaryIO, path: str, wanted: set[str]) -> Gguf:
    reader = _FileReader(file)
    if file.read(4) != b"GGUF":
        raise GgufError("is not a GGUF file")
    version = reader.number("I")
    if not _FIRST <= version <= _LAST:
        swapped = _FIRST <= int.from_bytes(version.to_bytes(4, "little"), "big") <= _LAST
        found = "is big-endian" if swapped else f"has version {version} of the format"
        raise GgufError(f"{found}; versions {_FIRST} and {_LAST} in little-endian order are read")
    tensors, keys = reader.number("Q"), reader.number("Q")
    reader.count(tensors + keys)
    values: dict[str, Any] = {}
    for _ in range(keys):
        key = reader.text()
        value = reader.value(reader.number("I"), keep=key in wanted)
        if value is not None:
            values[key] = value
    tokens, types = (values.pop(key, []) for key in (_TOKENS, _TYPES))
    if not (_only(str, tokens) and _only(int, types)) or (tokens and len(types) > len(tokens)):
        raise GgufError("its vocabulary is malformed")
    parameters, end = 0, 0
    for weights, size, offset in reader.tensors(tensors):
        parameters += weights
        end = max(end, offset + size)
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 1 << 20:
        raise GgufError("general.alignment is malformed")
    start = -(-file.tell() // alignment) * alignment
    return Gguf(
        path=path,
        size=reader.size,
        values=values,
        parameters=parameters,
        needed=start + end if tensors else file.tell(),
        tokens=tuple(tokens) if wanted else (),
        types=tuple(types) if wanted else (),
    )


def _only(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


class _FileReader:
    """Reads values of a file of this size in bytes, each with its length checked."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._items = 0
        self._texts = 0
        self.size = file.seek(0, 2)
        file.seek(0)

    def count(self, items: int) -> None:
        """Count items; `GgufError` if there are too many."""
        self._items += items
        if self._items > MOST_ITEMS:
            raise GgufError(f"has more than {MOST_ITEMS:,} keys, tensors and items")

    def number(self, form: str) -> int:
        found: int = struct.unpack("<" + form, self._bytes(struct.calcsize(form)))[0]
        return found

    def text(self) -> str:
        size = self.number("Q")
        self._texts += size
        if size > MOST_TEXT or self._texts > MOST_TEXTS:
            raise GgufError(f"has more than {MOST_TEXT:,} bytes in a text, or {MOST_TEXTS:,} in all of them")
        return self._bytes(size).decode(errors="replace")

    def value(self, kind: int, *, keep: bool) -> Any:
        """A value; ``None`` for a long array that is not to be kept."""
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY:
            return self.number(self._form(kind))
        kind, count = self.number("I"), self.number("Q")
        if kind == _ARRAY:
            raise GgufError("has an array of arrays")
        self.count(count)
        keep = keep or count <= _MOST_KEPT
        if kind == _TEXT:
            if keep:
                return [self.text() for _ in range(count)]
            for _ in range(count):
                self._skip(self.number("Q"))
            return None
        form = self._form(kind)
        size = struct.calcsize(form) * count
        if keep:
            return list(struct.unpack(f"<{count}{form}", self._bytes(size)))
        self._skip(size)
        return None

    def tensors(self, count: int) -> Iterator[tuple[int, int, int]]:
        """The number of weights of each tensor, its size in bytes (0 for an unknown type), and its offset."""
        for _ in range(count):
            self.text()
            dimensions = self.number("I")
            if dimensions > 8:
                raise GgufError(f"has a tensor of {dimensions} dimensions")
            weights = math.prod(self.number("Q") for _ in range(dimensions))
            block, size = _BLOCKS.get(self.number("I"), (1, 0))
            yield weights, weights // block * size, self.number("Q")

    def _form(self, kind: int) -> str:
        if kind not in _FORMS:
            raise GgufError(f"has a value of type {kind}")
        return _FORMS[kind]

    def _bytes(self, size: int) -> bytes:
        data = self._file.read(size) if size <= self.size else b""
        if len(data) < size:
            raise GgufError("ends in its metadata: the file is not complete")
        return data

    def _skip(self, size: int) -> None:
        if self._file.seek(min(size, self.size + 1), 1) > self.size:
            raise GgufError("ends in its metadata: the file is not complete")
