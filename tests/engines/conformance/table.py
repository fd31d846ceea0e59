"""The engines that the suite tests: how each is made, and what it can do.

A new engine is one more `Entry` in `ENTRIES`. The suite tests what an entry claims and, as far as possible, that the
engine lacks what the entry does not claim.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.engines.generation import byte_tokenizer
from unspool.engines import Capture, Delta, Engine, Recording, Replay, Request, Sampling
from unspool.engines.capture import Asked
from unspool.wire import Usage

ABILITIES: Final = {
    "ids": "tells the token ids of its text, and has a tokenizer",
    "limits": "keeps to `Request.max_tokens`",
    "prompts": "needs a prompt, and refuses one that leaves no room",
    "closes": "refuses requests once it is closed",
}


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
        stop: ends whatever runs beside the engine, which is already closed.
    """

    engine: Engine
    prompts: Sequence[str]
    endless: str
    failing: Callable[[int], str]
    generated: Callable[[], int]
    running: Callable[[], int]
    ahead: int
    fault: int = 500
    stop: Callable[[], None] = lambda: None


class Entry(NamedTuple):
    """An engine of the table.

    Attributes:
        name: the name in the tests' ids.
        make: makes the engine in the event loop in which it is used, given a folder of its own. The engine's `close`
            releases everything, and may be called again. Tests of the server use the engine in the server's own loop.
        can: the keys of its `ABILITIES`.
    """

    name: str
    make: Callable[[Path], Made]
    can: frozenset[str]


LIMIT: Final = 200


def request(prompt: str, **more: Any) -> Request:
    """A request that every engine can take: a prompt, and the message that it was made from. Greedy by default."""
    asked = {"max_tokens": LIMIT, "sampling": Sampling(temperature=0), **more}
    return Request(prompt=prompt, messages=[{"role": "user", "content": prompt}], **asked)


# -- replay ------------------------------------------------------------------------------------------------------------


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


def make_replay(folder: Path) -> Made:
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
    engine = Replay(found, speed=0)
    return Made(
        engine=engine,
        prompts=prompts,
        endless="endless",
        failing=lambda count: f"fail{count}",
        generated=lambda: watch.generated,
        running=lambda: watch.running,
        ahead=1,
    )


def make_capture(folder: Path) -> Made:
    """A capture around a replay."""
    made = make_replay(folder)
    return made._replace(engine=Capture(made.engine, folder / "captures", dialect="hermes"))


# -- a server at a URL -------------------------------------------------------------------------------------------------


BUFFERED: Final = 500
"""The most events of a stream, of more than 4 kB each, that sockets and aiohttp hold: a megabyte on Linux."""


def make_upstream(folder: Path) -> Made:
    """A scripted server in another event loop, over HTTP."""
    from unspool.engines.upstream import Upstream

    from .completions import Completions

    server = Completions()
    prompts = ("Hello", "Good morning", "!and so on")

    def failing(count: int) -> str:
        server.fail_after = count
        return prompts[0]

    return Made(
        engine=Upstream(server.url, tokenizer=byte_tokenizer()),
        prompts=prompts,
        endless="!endless",
        failing=failing,
        generated=lambda: server.generated,
        running=lambda: server.running,
        ahead=BUFFERED,
        fault=502,
        stop=server.stop,
    )


ENTRIES: Final = (
    Entry("replay", make_replay, frozenset()),
    Entry("capture", make_capture, frozenset()),
    Entry("upstream", make_upstream, frozenset(ABILITIES)),
)


def entries(*can: str, cannot: str = "") -> pytest.MarkDecorator:
    """Run a test with the engines that have certain abilities, and lack another.

    Raises:
        ValueError: an ability is unknown, or no engine matches, so that the test would never run.
    """
    unknown = {*can, *([cannot] if cannot else [])} - ABILITIES.keys()
    if unknown:
        raise ValueError(f"{unknown}: allowed are {json.dumps(list(ABILITIES))}")
    fit = [e for e in ENTRIES if e.can.issuperset(can) and (not cannot or cannot not in e.can)]
    if not fit:
        raise ValueError(f"no engine has {can} without {cannot!r}")
    return pytest.mark.parametrize("made", [pytest.param(e, id=e.name) for e in fit], indirect=True)
