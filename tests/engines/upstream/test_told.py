"""What a server gets besides the prompt of a request, and what it later reports about itself."""

import asyncio
import logging

import pytest

from ..generation import until
from .support import DONE, STREAM, Asked, Connection, Fake, chunk, collect, connected, request, said, says, tells

HI = says(said("Hi", "stop"), DONE)


async def test_a_server_gets_the_clients_or_the_responses_id_and_never_one_in_use() -> None:
    go = asyncio.Event()

    async def answer(connection: Connection, asked: Asked) -> None:
        await connection.send(STREAM)
        await go.wait()
        await connection.send(chunk(said("Hi", "stop") + DONE), b"0\r\n\r\n")

    fake = Fake("vllm", answer)
    async with connected(fake) as engine:
        ids = ("mine", "mine", "")
        asked = [request(id="chatcmpl-1", client_id=id) for id in ids]
        tasks = [asyncio.ensure_future(collect(engine, one)) for one in asked]
        await until(lambda: len(fake.generated) == 3)
        go.set()
        await asyncio.gather(*tasks)
        await collect(engine, asked[0])
        sent_ids = sorted(a.headers["x-request-id"] for a in fake.generated)
        assert sent_ids[:3] == ["chatcmpl-1", "mine", "mine"]
        assert sent_ids[3].startswith("mine-")


async def test_details_of_a_server_are_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "unspool.engines")
    fake = Fake("vllm", HI)
    async with connected(fake, check_interval=0.05) as engine:
        before = engine.context
        await engine.health()
        assert (before, engine.context) == (None, 4096)
        card = {"id": "another", "owned_by": "vllm", "max_model_len": 8192}
        fake.routes["/v1/models"] = tells({"data": [card]})
        await until(lambda: engine.context == 8192)
        await collect(engine)
    assert "now serves another, context: 8192" in caplog.text
    assert [a.body["model"] for a in fake.generated] == ["another"]
