"""`Vocabulary`: the tokens of a GGUF, as grammars and parsers need them."""

import http.client
import json
from collections.abc import Sequence
from typing import Final

import msgspec

from ...infer.gguf import BYTE, CONTROL, DEFINED, Gguf
from ...tokens import BYTES
from ..base import EngineError
from .process import Address

_SPACE: Final = "\u2581"
_BYTE_LEVEL: Final = "gpt2"  # llama.cpp's name for byte-level BPE
_SECONDS: Final = 30.0


class _Added(msgspec.Struct, frozen=True):
    """An added token, as transformers describes it."""

    content: str
    special: bool


class Vocabulary:
    """The tokens of a model, as bytes. Text is encoded by llama.cpp itself, at this address.

    Only tokens that llama.cpp never reads as text are added ones: its grammars know them by id, all others by text.
    """

    def __init__(self, gguf: Gguf, address: Address) -> None:
        byte_level = gguf.text("tokenizer.ggml.model") == _BYTE_LEVEL
        special, single = set(gguf.of_type(*CONTROL)), set(gguf.of_type(BYTE))
        plain = {*special, *gguf.of_type(DEFINED)}
        self.pieces = [
            token.encode() if i in plain else _bytes(token, byte_level, i in single)
            for i, token in enumerate(gguf.tokens)
        ]
        self.added_tokens_decoder = {i: _Added(gguf.tokens[i], True) for i in special if gguf.tokens[i]}
        ends = {gguf.values.get(f"tokenizer.ggml.{role}_token_id") for role in ("eos", "eot", "eom")}
        self._ends = sorted(i for i in ends if isinstance(i, int) and 0 <= i < len(self.pieces)) or [0]
        self._tokens = gguf.tokens
        self._address = address

    def id_to_token(self, token: int) -> str | None:
        """A token as the file writes it; ``None`` if the vocabulary lacks it."""
        return self._tokens[token] if 0 <= token < len(self._tokens) else None

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of tokens; ids that the vocabulary lacks have none."""
        known = (i for i in ids if 0 <= i < len(self.pieces))
        kept = (i for i in known if not (skip_special_tokens and i in self.added_tokens_decoder))
        return b"".join(self.pieces[i] for i in kept).decode(errors="replace")

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """The tokens of a text, by llama.cpp. It blocks, so the event loop must not call it."""
        asked = json.dumps({"content": text, "add_special": add_special_tokens})
        try:
            answer = json.loads(self._address.ask("POST", "/tokenize", _SECONDS, asked))
        except (OSError, http.client.HTTPException, ValueError):
            answer = None
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list):
            raise EngineError("the model is not loaded, so no tokens can be counted", 503)
        return tokens

    @property
    def described(self) -> str:
        """The bytes of all tokens as JSON; see `unspool.engines.local.judge`."""
        pieces = [piece.decode("latin-1") for piece in self.pieces]
        special = sorted(self.added_tokens_decoder)
        return json.dumps({"pieces": pieces, "special": special, "eos": self._ends})


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
