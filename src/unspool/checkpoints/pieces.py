"""`Pieces`: the tokens of a GGUF as texts and bytes. They are decoded here; only llama.cpp encodes."""

from collections.abc import Sequence
from typing import Final

import msgspec

from ..tokens import BYTES
from .gguf import BYTE, CONTROL, DEFINED, Gguf

_SPACE: Final = "\u2581"
_BYTE_LEVEL: Final = "gpt2"  # llama.cpp's name for byte-level BPE


class _Added(msgspec.Struct, frozen=True):
    """An added token, as transformers describes it."""

    content: str
    special: bool


class Pieces:
    """The tokens of a file that was read with its vocabulary.

    Only tokens that llama.cpp never reads as text are added ones: its grammars know them by id, all others by text.
    """

    def __init__(self, gguf: Gguf) -> None:
        byte_level = gguf.text("tokenizer.ggml.model") == _BYTE_LEVEL
        special, single = set(gguf.of_type(*CONTROL)), set(gguf.of_type(BYTE))
        plain = {*special, *gguf.of_type(DEFINED)}
        self.pieces = [
            token.encode() if i in plain else _bytes(token, byte_level, i in single)
            for i, token in enumerate(gguf.tokens)
        ]
        self.added_tokens_decoder = {i: _Added(gguf.tokens[i], True) for i in special if gguf.tokens[i]}
        self._tokens = gguf.tokens

    def id_to_token(self, token: int) -> str | None:
        """A token as the file writes it; ``None`` if the vocabulary lacks it."""
        return self._tokens[token] if 0 <= token < len(self._tokens) else None

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of tokens; ids that the vocabulary lacks have none."""
        known = (i for i in ids if 0 <= i < len(self.pieces))
        kept = (i for i in known if not (skip_special_tokens and i in self.added_tokens_decoder))
        return b"".join(self.pieces[i] for i in kept).decode(errors="replace")


def _bytes(token: str, byte_level: bool, single: bool) -> bytes:
    """The bytes of a token as its text is written in the file."""
    if byte_level:
        return bytes(BYTES[c] for c in token) if all(c in BYTES for c in token) else token.encode()
    if single and len(token) == 6:
        try:
            return bytes.fromhex(token[3:5])
        except ValueError:
            return token.encode()
    return token.replace(_SPACE, " ").encode()
