"""A small, fast model that continues each history differently, and a wrapper that watches a model."""

import asyncio
import json
import threading
import zlib
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from unspool.engines import Delta, Engine, Request, Sampling
from unspool.engines.batching import Model

SPECIAL = ("<eos>", "<|call|>", "<tool_call>", "</tool_call>")
EOS, CALL = 256, 257
GREEDY = Sampling(temperature=0)


@cache
def byte_tokenizer() -> Tokenizer:
    """A tokenizer in which each byte is the token with the same number. The special tokens come after the bytes."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [b for b in range(256) if b not in plain]
    letters = {chr(b) if b in plain else chr(256 + others.index(b)): b for b in range(256)}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


class Babble:
    """Chooses the next logits by the whole history, mostly printable ASCII.

    It ends after a full stop, unless its prompt begins with an exclamation mark.
    """

    def __init__(self, context: int = 1_000_000) -> None:
        self.tokenizer: Any = byte_tokenizer()
        self.vocab_size = 300  # padded, like those of real models
        self.context = context
        self.eos = frozenset({EOS, CALL})

    def prefill(self, tokens: Sequence[int]) -> tuple[list[int], NDArray[np.float32]]:
        state = [zlib.crc32(bytes(json.dumps(list(tokens)), "ascii")), tokens[0] == ord("!")]
        return state, self._logits(state, tokens[-1])

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        for state, token in zip(states, tokens, strict=True):
            state[0] = zlib.crc32(token.to_bytes(4, "little"), state[0])
        return np.stack([self._logits(s, t) for s, t in zip(states, tokens, strict=True)])

    def _logits(self, state: list[int], token: int) -> NDArray[np.float32]:
        logits = np.random.default_rng(state[0]).normal(size=self.vocab_size).astype(np.float32)
        logits[:32] -= 20
        logits[127:] -= 20
        if token == ord(".") and not state[1]:
            logits[EOS] = 40
        return logits


class Spelled(Babble):
    """Writes the same tokens for every prompt, then ends."""

    def __init__(self, *tokens: int | str, **options: Any) -> None:
        super().__init__(**options)
        self.tokens = [i for t in tokens for i in ([t] if isinstance(t, int) else t.encode())]

    def prefill(self, tokens: Sequence[int]) -> tuple[list[int], NDArray[np.float32]]:
        return [0], self._at(0)

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        for state in states:
            state[0] += 1
        return np.stack([self._at(state[0]) for state in states])

    def _at(self, at: int) -> NDArray[np.float32]:
        logits = np.zeros(self.vocab_size, np.float32)
        logits[self.tokens[at] if at < len(self.tokens) else EOS] = 10
        return logits


class Watched:
    """A model that counts its tokens, can fail once, and can be paused.

    Attributes:
        computed: the number of logits so far.
        fail_after: after how many more logits it fails, once.
        sizes: the number of outputs in each step.
        gate: while it is not set, nothing is computed.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.tokenizer = model.tokenizer
        self.vocab_size = model.vocab_size
        self.context = model.context
        self.eos = model.eos
        self.computed = 0
        self.fail_after: int | None = None
        self.sizes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def prefill(self, tokens: Sequence[int]) -> tuple[Any, NDArray[np.float32]]:
        self._count(1)
        return self.model.prefill(tokens)

    def step(self, states: Sequence[Any], tokens: Sequence[int]) -> NDArray[np.float32]:
        self.sizes.append(len(states))
        self._count(len(states))
        return self.model.step(states, tokens)

    def _count(self, size: int) -> None:
        assert self.gate.wait(20)
        if self.fail_after is not None:
            self.fail_after -= size
            if self.fail_after < 0:
                self.fail_after = None
                raise RuntimeError("the device is lost")
        self.computed += size


def ask(prompt: Any = "Hello", **more: Any) -> Request:
    """A request, which is greedy by default."""
    return Request(prompt=prompt, **{"sampling": GREEDY, **more})


async def collect(engine: Engine, request: Request) -> list[Delta]:
    """All pieces of an output."""
    return [delta async for delta in engine.generate(request)]


def text_of(pieces: Sequence[Delta]) -> str:
    return "".join(p.text for p in pieces)


async def until(condition: Callable[[], Any], patience: float = 20.0) -> None:
    """Wait for something to become true."""
    deadline = asyncio.get_running_loop().time() + patience
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.005)


async def settled(value: Callable[[], int]) -> int:
    """The value of a number once it no longer changes."""
    last = -1
    while last != value():
        last = value()
        await asyncio.sleep(0.2)
    return last


async def begun(engine: Engine, request: Request, count: int = 1) -> AsyncGenerator[Delta, None]:
    """An output of which some pieces have been pulled."""
    stream = engine.generate(request)
    for _ in range(count):
        await anext(stream)
    return stream
