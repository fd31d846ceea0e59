"""Engines whose llama.cpp is a stand-in."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.engines import Delta, EngineError, Request
from unspool.engines.local import Launch, LlamaProcess, Local
from unspool.grammar import Constraint
from unspool.grammar.nodes import Const, Grammar
from unspool.infer.gguf import read_gguf
from unspool.tokens import BYTES

from ...writing_gguf import MODEL, gguf

STAND_IN = Path(__file__).with_name("stand_in.py")


@contextlib.contextmanager
def process(monkeypatch: pytest.MonkeyPatch, model: str = "m.gguf", **options: Any) -> Iterator[LlamaProcess]:
    """A process that is being started."""
    monkeypatch.setattr("unspool.engines.local.process._CHILD", STAND_IN)
    found = LlamaProcess(Launch(model=model), **options)
    found.start()
    try:
        yield found
    finally:
        found.close()


@contextlib.asynccontextmanager
async def local(process: LlamaProcess, folder: Path) -> AsyncIterator[Local]:
    """Its engine."""
    file = folder / "m.gguf"
    tokens = ["<|im_end|>", *BYTES]
    types = [3, *(1 for _ in BYTES)]
    file.write_bytes(gguf({**MODEL, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}))
    engine = Local(process.address, read_gguf(file, vocabulary=True))
    try:
        yield engine
    finally:
        await engine.close()


def constraint(text: str) -> Constraint:
    """A grammar of one text."""
    return Constraint(Grammar(Const(text), {}), None, {})


async def output(engine: Local, prompt: str = "Hi", begun: asyncio.Event | None = None, **fields: Any) -> str:
    """A whole output, or the status and message of its error. The event is set as soon as it has begun."""
    found: list[Delta] = []
    try:
        async for delta in engine.generate(Request(prompt=prompt, **fields)):
            found.append(delta)
            if begun is not None:
                begun.set()
    except EngineError as error:
        return f"{error.status}: {error}"
    assert found[-1].finish_reason == "stop"
    return "".join(delta.text for delta in found)
