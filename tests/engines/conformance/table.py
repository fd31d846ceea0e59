"""The engines that the tests of this folder are about: how each is made, and what the tests need to know of it.

A new engine is one more function in `ENGINES`.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from unspool.engines import Capture, Delta, Engine, Recording, Replay, Request, Sampling
from unspool.engines.capture import Asked
from unspool.wire import Usage

from ..generation import byte_tokenizer
from ..upstream.support import threaded
from .completions import Completions

LIMIT: Final = 200


def request(prompt: str, **more: Any) -> Request:
    """A request that every engine can take: a prompt, and the message that it was made from. Greedy by default."""
    asked = {"max_tokens": LIMIT, "sampling": Sampling(temperature=0), **more}
    return Request(prompt=prompt, messages=[{"role": "user", "content": prompt}], **asked)


class Made(NamedTuple):
    """A running engine and what a test asks of it. A prompt is a text; see `request`.

    Attributes:
        prompts: prompts of outputs that differ, have three pieces or more, end by themselves or at `LIMIT`, and are the
            same each time at temperature 0. The last piece has the usage.
        endless: the prompt of an output of 10,000 tokens or more, whose text does not repeat its beginning.
        failing: returns, for a number of pieces, the prompt of a request that fails with status `fault` after them. The
            next request does not fail. Nothing else may be generated meanwhile.
        generated: how many pieces or tokens the engine has generated so far, for all outputs together.
        running: how many outputs are being generated.
        ahead: how many pieces an output may be ahead of its consumer.
        fault: the status of a failure; it differs if another server fails.
    """

    engine: Engine
    prompts: Sequence[str]
    endless: str
    failing: Callable[[int], str]
    generated: Callable[[], int]
    running: Callable[[], int]
    ahead: int
    fault: int = 500


class Played(tuple[tuple[float, Delta], ...]):
    """The pieces of a recording, which count how they are played."""

    watch: "Watch"

    def __iter__(self) -> Iterator[tuple[float, Delta]]:
        self.watch.running += 1
        try:
            for piece in super().__iter__():
                self.watch.generated += 1
                yield piece
        finally:
            self.watch.running -= 1


class Watch:
    """Counts over all outputs."""

    generated = 0
    running = 0


@contextlib.contextmanager
def replay(folder: Path) -> Iterator[Made]:
    """Recordings, one for each prompt."""
    watch = Watch()

    def recording(match: str, texts: Sequence[str], *, error: tuple[float, str, int] | None = None) -> Recording:
        deltas = [Delta(text=t) for t in texts]
        if error is None:
            usage = Usage(prompt_tokens=1, completion_tokens=len(texts))
            deltas.append(Delta(finish_reason="stop", usage=usage))
        pieces = Played((0.0, delta) for delta in deltas)
        pieces.watch = watch
        return Recording(Asked(match=match), pieces, error)

    prompts = ("first", "second", "third")
    found = [recording(p, [f"{p} ", "says ", *(f"{p[0]}{i} " for i in range(60)), "end"]) for p in prompts]
    found.append(recording("endless", [f"{i} " for i in range(20_000)]))
    found += [recording(f"fail{n}", ["piece "] * n, error=(0.0, "the device is lost", 500)) for n in (0, 2)]
    yield Made(
        engine=Replay(found, speed=0),
        prompts=prompts,
        endless="endless",
        failing=lambda count: f"fail{count}",
        generated=lambda: watch.generated,
        running=lambda: watch.running,
        ahead=1,
    )


@contextlib.contextmanager
def capture(folder: Path) -> Iterator[Made]:
    """A capture around a replay."""
    with replay(folder) as made:
        yield made._replace(engine=Capture(made.engine, folder / "captures", dialect="hermes"))


@contextlib.contextmanager
def upstream(folder: Path) -> Iterator[Made]:
    """A scripted server in another event loop, over HTTP."""
    from unspool.engines.upstream import Upstream

    prompts = ("Hello", "Good morning", "!and so on")
    with threaded(Completions()) as server:

        def failing(count: int) -> str:
            server.fail_after = count
            return prompts[0]

        yield Made(
            engine=Upstream(server.url, tokenizer=byte_tokenizer()),
            prompts=prompts,
            endless="!endless",
            failing=failing,
            generated=lambda: server.tokens,
            running=lambda: server.answering,
            # The most events of a stream, of more than 4 kB each, that sockets and aiohttp hold: a megabyte on Linux.
            ahead=500,
            fault=502,
        )


ENGINES: Final = (replay, capture, upstream)
every = pytest.mark.parametrize("made", [pytest.param(make, id=make.__name__) for make in ENGINES], indirect=True)
"""Run a test with every engine."""
with_prompts = pytest.mark.parametrize("made", [pytest.param(upstream, id="upstream")], indirect=True)
"""Run a test with the engines that need a prompt, tell ids, and refuse requests once they are closed."""
