"""Token ids as llama.cpp makes them."""

import json
import urllib.request
from functools import lru_cache
from pathlib import Path
from typing import Any

import xllamacpp


class Tokens:
    """Encodes and decodes with a model's own tokenizer, special tokens included.

    Args:
        model: the GGUF.
    """

    def __init__(self, model: Path) -> None:
        settings = xllamacpp.CommonParams()
        settings.model.path = str(model)
        settings.n_ctx = 512
        self._server = xllamacpp.Server(settings)
        self.encode = lru_cache(1 << 16)(self._encode)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._ask("/tokenize", content=text, parse_special=True, add_special=False)["tokens"])

    def decode(self, ids: list[int]) -> str:
        """The text of token ids."""
        text: str = self._ask("/detokenize", tokens=ids)["content"]
        return text

    def _ask(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            self._server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
