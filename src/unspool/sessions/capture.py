"""`OutputCapture`: collects the tokens of one output as they were sampled."""

import math
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ..engines import Delta
from ..tokens import backend_of, token_bytes
from ..wire.encoding import clean

_LEAST: Final = -9999.0  # what servers write for a token that has no probability
_MOST: Final = 1e-3  # how far above 0 rounding may put a log-probability
_MOST_HIDDEN: Final = 8  # how many tokens may be hidden in one place: a character has at most four bytes


class SampledOutput(NamedTuple):
    """An output as it was sampled."""

    text: str  # the raw text
    ids: list[int]  # its tokens; empty if some of them are not known
    logprobs: "array[float]"  # the log-probability of each; NaN where none was reported
    prompt_ids: tuple[int, ...] | None  # the prompt as the engine read it, if it reports it
    # versions, experts: see `Sampled`.
    versions: tuple[tuple[str, int, int], ...]
    experts: str
    problems: list[str]  # what was not reported


class _Hidden(NamedTuple):
    """Tokens that an engine left out before a place in the output: how many, and the text that they begin."""

    at: int
    many: int
    text: str


class OutputCapture:
    """Collects the pieces of one output. Only lists of texts and numbers grow with it: the garbage collector would look
    through anything else again and again."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._ids: list[int] = []
        self._known: list[float | None] = []
        self._count = 0  # by the engine's own count
        self._hidden: list[_Hidden] = []
        self._prompt: tuple[int, ...] | None = None
        self._versions: tuple[tuple[str, int, int], ...] = ()
        self._experts = ""
        self._missing = False

    def take(self, delta: Delta) -> None:
        self._texts.append(delta.text)
        sampled = delta.sampled
        if sampled is None:
            self._take_parsed(delta)
            return
        if sampled.count is not None:
            hidden, self._count = sampled.count - self._count - len(sampled.ids), sampled.count
            if hidden > 0:
                self._hidden.append(_Hidden(len(self._ids), hidden, delta.text))
        elif delta.text and not sampled.ids:
            self._missing = True
        self._ids += sampled.ids
        self._known += sampled.logprobs
        if self._prompt is None:
            self._prompt = sampled.prompt_ids or delta.prompt_ids or None
        self._versions = sampled.versions or self._versions
        self._experts = sampled.experts or self._experts

    def _take_parsed(self, delta: Delta) -> None:
        """Take a piece of an engine that knows nothing of `Sampled`."""
        known = [entry.get("logprob") for entry in delta.logprobs]
        ids = delta.token_ids
        self._missing = self._missing or bool(delta.text and not ids)
        self._ids += ids
        self._known += known if len(known) == len(ids) else [None] * len(ids)

    def output(self, tokenizer: Any) -> SampledOutput:
        """Everything that was taken. The tokenizer finds tokens that an engine left out, if there is only one
        reading."""
        problems = []
        ids = self._ids
        logprobs = array("d", [p if p is not None and _LEAST < p < _MOST else math.nan for p in self._known])
        wrong = sum(map(math.isnan, logprobs)) - self._known.count(None)
        if self._missing:
            ids, logprobs = [], array("d")
            problems.append("the engine did not report the tokens")
        elif self._hidden:
            ids, logprobs, problems = self._revealed(tokenizer, logprobs)
        if wrong:
            problems.append(f"{wrong} log-probabilities are none")
        if ids and any(map(math.isnan, logprobs)):
            count = sum(map(math.isnan, logprobs))
            problems.append(f"{count} of {len(ids)} tokens have no log-probability")
        return SampledOutput(
            clean("".join(self._texts)),
            ids,
            logprobs,
            self._prompt,
            self._versions,
            self._experts,
            problems,
        )

    def _revealed(self, tokenizer: Any, known: "array[float]") -> "tuple[list[int], array[float], list[str]]":
        """The tokens with those that were left out before the last token of a character."""
        ids: list[int] = []
        logprobs = array("d")
        places = [hidden.at for hidden in self._hidden]
        for hidden, (start, end) in zip(self._hidden, pairwise([0, *places]), strict=True):
            ids += self._ids[start:end]
            logprobs += known[start:end]
            if hidden.at == len(self._ids):  # the output was cut inside a character
                problem = f"the last {hidden.many} tokens are not reported"
                return ids, logprobs, [problem]
            found = _split(tokenizer, hidden, self._ids[hidden.at])
            if found is None:
                return [], array("d"), ["the engine did not report all tokens of a character"]
            ids += found
            logprobs += array("d", [math.nan]) * len(found)
        ids += self._ids[places[-1] :]
        logprobs += known[places[-1] :]
        return ids, logprobs, []


# -- tokens that were left out -----------------------------------------------------------------------------------------


def _split(tokenizer: Any, hidden: _Hidden, last: int) -> list[int] | None:
    """The tokens before the last one of a character, if only these can have been sampled; else ``None``."""
    if tokenizer is None or hidden.many > _MOST_HIDDEN:
        return None
    ending = _spelled(tokenizer, last)
    spelled = hidden.text.encode()
    if not ending or not spelled.endswith(ending):
        return None
    return _only(spelled[: -len(ending)], hidden.many, _by_bytes(tokenizer))


def _only(spelled: bytes, count: int, known: Mapping[bytes, list[int]]) -> list[int] | None:
    """The only way to spell some bytes with this many tokens; ``None`` if there is none, or another one."""
    found: list[list[int]] = []
    waiting: list[tuple[int, list[int]]] = [(0, [])]
    while waiting and len(found) < 2:
        at, ids = waiting.pop()
        if len(ids) == count:
            if at == len(spelled):
                found.append(ids)
            continue
        for end in range(at + 1, len(spelled) + 1):
            waiting += [(end, [*ids, id]) for id in known.get(spelled[at:end], ())]
    return found[0] if len(found) == 1 else None


def _spelled(tokenizer: Any, token: int) -> bytes | None:
    pieces: Sequence[bytes] | None = getattr(tokenizer, "pieces", None)
    if pieces is None:
        return token_bytes(tokenizer, token)
    return pieces[token] if 0 <= token < len(pieces) else None


_KNOWN: dict[int, tuple[Any, dict[bytes, list[int]]]] = {}


def _by_bytes(tokenizer: Any) -> dict[bytes, list[int]]:
    """All tokens by what they spell, as far as that is known."""
    known = _KNOWN.get(id(tokenizer))
    if known is not None and known[0] is tokenizer:
        return known[1]
    found: dict[bytes, list[int]] = {}
    backend = backend_of(tokenizer)
    size = backend.get_vocab_size() if hasattr(backend, "get_vocab_size") else len(getattr(tokenizer, "pieces", ()))
    for token in range(size):
        if spelled := _spelled(tokenizer, token):
            found.setdefault(spelled, []).append(token)
    _KNOWN.clear()
    _KNOWN[id(tokenizer)] = tokenizer, found
    return found
