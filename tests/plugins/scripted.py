"""Makes vLLM's engine write what a prompt asks for. The tests of the engine pass it to ``--logits-processors``.

A prompt names token ids, as in ``say:72,73,74;``. The output begins with them, each after the milliseconds of
``say 5:72,73,74;``, so that a client may leave before the end. After them, or without them, the model
writes anything that the request's grammar allows. In these tests, every tokenizer has one token for each byte; letters,
digits and signs come first.
"""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

_SAY = re.compile(r"say(?: (\d+))?:([\d,]+);")
_FIRST = 33
"""The code of the character whose token is 0."""
_SIGNS = 94


def order(ids: Sequence[int], pause: int = 0) -> str:
    """The text in a prompt that makes an output begin with these ids, each after a pause in milliseconds."""
    return f"say{f' {pause}' if pause else ''}:{','.join(map(str, ids))};"


def script(prompt: Sequence[int]) -> tuple[list[int], int]:
    """The ids that a prompt asks for, and the pause before each, in milliseconds."""
    found = _SAY.search("".join(chr(i + _FIRST) if i < _SIGNS else " " for i in prompt))
    return ([int(i) for i in found[2].split(",")], int(found[1] or 0)) if found else ([], 0)


class Scripted(AdapterLogitsProcessor):  # type: ignore[misc,unused-ignore]
    """Leaves only one token possible if the prompt names it."""

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], list[int], Any], Any]:
        known: list[tuple[list[int], int]] = []

        def only(prompt: list[int], said: list[int], logits: Any) -> Any:
            if not known:
                known.append(script(prompt))
            ids, pause = known[0]
            if len(said) < len(ids):
                token = ids[len(said)]
                time.sleep(pause / 1000)
                value = logits[token].item()  # -inf if a grammar forbids it: then no token is possible
                logits.fill_(float("-inf"))
                logits[token] = value
            return logits

        return only
