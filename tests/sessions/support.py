"""An engine that samples byte by byte, and keeps a record of its own, against which rollouts are checked."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import httpx2

from unspool.engines import Delta, Request, Sampled
from unspool.wire import Usage

from ..server.writing import TOKENIZER
from .proxy import Sampling

if TYPE_CHECKING:
    from ..server.support import Live

END = "<|im_end|>"


class Model:
    """Samples texts that a function writes, in tokens that the tokenizer would not choose, each with a
    log-probability of its own.

    Args:
        write: writes an answer to a request.
        pause: seconds between two tokens.
    """

    tokenizer: Any = TOKENIZER

    def __init__(self, write: Callable[[Request], str], *, pause: float = 0.0) -> None:
        self.write = write
        self.pause = pause
        self.ending = 0.0  # seconds that the end of a cancelled answer takes
        self.record: list[Sampling] = []
        self.requests: list[Request] = []
        self.running = 0
        self._random = random.Random(7)

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        if request.id == "examination":
            async for delta in self._examined(request):
                yield delta
            return
        if not request.capture:
            yield Delta(text="Not recorded.")
            yield Delta(finish_reason="stop")
            return
        self.requests.append(request)
        sampled = Sampling([i for i in request.prompt_ids or request.prompt or () if isinstance(i, int)], [], [])
        self.record.append(sampled)
        pieces = [*self.write(request), END]
        if request.max_tokens is not None:
            pieces = pieces[: request.max_tokens]
        self.running += 1
        try:
            for piece in pieces:
                ids = TOKENIZER.encode(piece, add_special_tokens=False).ids
                logprobs = [-round(self._random.random(), 6) for _ in ids]
                sampled.ids += ids
                sampled.logprobs += logprobs
                taken = Sampled(ids=tuple(ids), logprobs=tuple(logprobs))
                if piece == END:
                    yield Delta(sampled=taken)
                else:
                    yield Delta(text=piece, token_ids=tuple(ids), sampled=taken)
                await asyncio.sleep(self.pause)
            usage = Usage(prompt_tokens=len(sampled.prompt), completion_tokens=len(sampled.ids))
            yield Delta(finish_reason="stop" if pieces[-1] == END else "length", usage=usage)
        finally:
            await asyncio.sleep(self.ending)
            self.running -= 1

    async def _examined(self, request: Request) -> AsyncGenerator[Delta, None]:
        assert request.prompt_ids is not None
        top = [{"token": "a", "logprob": -0.5, "bytes": [97]}]
        entry = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": top}
        sampled = Sampled(ids=(1,), logprobs=(-0.5,), prompt_ids=tuple(request.prompt_ids))
        usage = Usage(prompt_tokens=len(request.prompt_ids), completion_tokens=1)
        yield Delta(text="a", token_ids=(1,), logprobs=(entry,), sampled=sampled, usage=usage)
        yield Delta(finish_reason="length")

    async def health(self) -> None:
        pass

    async def close(self) -> None:
        pass


def made(server: "Live", **fields: Any) -> dict[str, Any]:
    """A new session."""
    answer = server.post("/sessions", **fields)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def trajectory(server: "Live", session: dict[str, Any], **query: str) -> Any:
    """Everything that a session recorded."""
    answer = server.http.get(f"/sessions/{session['id']}/trajectory", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ask(session: dict[str, Any], server: "Live", path: str, **body: Any) -> httpx2.Response:
    """A request of a session, by its key."""
    return server.http.post(
        path, content=json.dumps(body).encode(), headers={"Authorization": f"Bearer {session['key']}"}
    )


def tree(found: Any) -> list[tuple[int | None, str | None]]:
    """The calls of a rollout, each as the place of its parent and the reason of its fork."""
    places = {call["id"]: at for at, call in enumerate(found["calls"])}
    return [(places.get(call["parent"]), call["fork"]) for call in found["calls"]]


def check(found: Any, record: Sequence[Sampling], *, exact: bool = True) -> None:
    """Check that a rollout is what the engine was sent and sampled, and its rows learn each token once."""
    known = {(tuple(s.prompt), tuple(s.ids), tuple(s.logprobs)) for s in record if s.ids}
    calls = [c for c in found["calls"] if c["output_ids"]]
    assert {(tuple(c["prompt_ids"]), tuple(c["output_ids"]), tuple(c["logprobs"])) for c in calls} == known
    assert not exact or found["exact"], found["problems"]
    by_id = {c["id"]: c for c in found["calls"]}
    learnt: dict[str, list[int]] = {c["id"]: [0] * len(c["output_ids"]) for c in calls}
    for row in found["rows"]:
        lengths = {len(row[name]) for name in ("input_ids", "loss_mask", "logprobs", "kinds")}
        assert lengths == {len(row["input_ids"])}
        sampled = [False] * len(row["input_ids"])
        for id in row["calls"]:
            call = by_id[id]
            start, end = len(call["prompt_ids"]), len(call["prompt_ids"]) + len(call["output_ids"])
            assert row["input_ids"][:start] == call["prompt_ids"]
            assert row["input_ids"][start:end] == call["output_ids"]
            assert row["logprobs"][start:end] == call["logprobs"]
            for at in range(start, end):
                sampled[at] = True
                learnt[id][at - start] += row["loss_mask"][at]
        for at, is_sampled in enumerate(sampled):
            assert is_sampled or not row["loss_mask"][at]
            assert (row["kinds"][at] in ("prompt", "results")) != is_sampled
            assert is_sampled or row["logprobs"][at] is None
        last = by_id[row["calls"][-1]]
        assert len(row["input_ids"]) == len(last["prompt_ids"]) + len(last["output_ids"])
        assert sampled[row["prompt_length"]]
        assert not any(sampled[: row["prompt_length"]])
    assert all(times == 1 for counts in learnt.values() for times in counts)
