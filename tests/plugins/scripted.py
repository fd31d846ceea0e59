"""Makes vLLM's engine write what a prompt asks for. The tests of the engine pass it to ``--logits-processors``.

A prompt names token ids, as in ``say:72,73,74;``. The output begins with them. After them, or without them, the model
writes anything that the request's grammar allows. In these tests, every tokenizer has one token for each byte; letters,
digits and signs come first.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

_SAY = re.compile(r"say:([\d,]+);")
_FIRST = 33
"""The code of the character whose token is 0."""
_SIGNS = 94


def order(ids: Sequence[int]) -> str:
    """The text in a prompt that makes an output begin with these ids."""
    return f"say:{','.join(map(str, ids))};"


def script(prompt: Sequence[int]) -> list[int]:
    """The ids that a prompt asks for."""
    found = _SAY.search("".join(chr(i + _FIRST) if i < _SIGNS else " " for i in prompt))
    return [int(i) for i in found[1].split(",")] if found else []


class Scripted(AdapterLogitsProcessor):  # type: ignore[misc,unused-ignore]
    """Leaves only one token possible if the prompt names it."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], list[int], Any], Any]:
        known: list[list[int]] = []

        def only(prompt: list[int], said: list[int], logits: Any) -> Any:
            if not known:
                known.append(script(prompt))
            if len(said) < len(known[0]):
                token = known[0][len(said)]
                value = logits[token].item()  # -inf if a grammar forbids it: then no token is possible
                logits.fill_(float("-inf"))
                logits[token] = value
            return logits

        return only
