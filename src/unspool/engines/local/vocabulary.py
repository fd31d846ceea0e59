"""`Vocabulary`: the tokens of a GGUF, as grammars and parsers need them."""

import http.client
import json
from typing import Final

from ...checkpoints.gguf import Gguf
from ...checkpoints.pieces import Pieces
from ..base import EngineError
from .process import Address

_SECONDS: Final = 30.0


class Vocabulary(Pieces):
    """The tokens of a model, as bytes. Text is encoded by llama.cpp itself, at this address."""

    def __init__(self, gguf: Gguf, address: Address) -> None:
        super().__init__(gguf)
        ends = {gguf.values.get(f"tokenizer.ggml.{role}_token_id") for role in ("eos", "eot", "eom")}
        self._ends = sorted(i for i in ends if isinstance(i, int) and 0 <= i < len(self.pieces)) or [0]
        self._address = address

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
