"""Helpers for tests that read an engine's pieces."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import cache
from typing import Any

from tokenizers import Tokenizer

from tests.tokenizer import byte_level
from unspool.engines import Delta, Engine, Request

EOS = 256


@cache
def byte_tokenizer() -> Tokenizer:
    """A tokenizer in which each byte is the token with the same number. The end of a sequence comes after the bytes."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [b for b in range(256) if b not in plain]
    letters = [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]
    return byte_level(letters, special=["<eos>"])


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
