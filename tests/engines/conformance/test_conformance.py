"""What holds for every engine: order, cancelling, back-pressure, seeds, limits and errors."""

import asyncio

import msgspec
import pytest

from tests.engines.generation import begun, collect, settled, text_of, until
from unspool.engines import Delta, EngineError, Sampling
from unspool.tokens import Detokenizer

from .table import LIMIT, Made, every, request, with_prompts

# -- pieces ------------------------------------------------------------------------------------------------------------


@every
async def test_only_the_last_piece_of_an_output_has_a_finish_reason(made: Made) -> None:
    for prompt in made.prompts:
        pieces = await collect(made.engine, request(prompt))
        assert len(pieces) > 2
        assert [p.finish_reason for p in pieces[:-1]] == [None] * (len(pieces) - 1)
        assert pieces[-1].finish_reason in ("stop", "length")
        assert text_of(pieces)
        usage = pieces[-1].usage
        assert usage is not None
        assert usage.prompt_tokens > 0
        assert usage.completion_tokens > 0


@every
async def test_outputs_that_are_generated_together_do_not_mix(made: Made) -> None:
    alone = [text_of(await collect(made.engine, request(p))) for p in made.prompts]
    assert len(set(alone)) == len(made.prompts)
    order = [0, 1, 2, 0, 2, 1, 1, 0]
    together = await asyncio.gather(*(collect(made.engine, request(made.prompts[i])) for i in order))
    assert [text_of(pieces) for pieces in together] == [alone[i] for i in order]


@with_prompts
async def test_the_text_is_what_the_ids_decode_to(made: Made) -> None:
    engine = made.engine
    for prompt in made.prompts:
        pieces = await collect(engine, request(prompt, sampling=Sampling(temperature=1, seed=3)))
        detokenizer = Detokenizer(engine.tokenizer)
        streamed = text = ""
        for piece in pieces:
            streamed += piece.text
            text += "".join(t for token in piece.token_ids for t in detokenizer.push(token))
            assert piece is pieces[-1] or text.startswith(streamed), "text comes before its ids"
        assert streamed == text + detokenizer.flush()[0]
        assert sum(len(p.token_ids) for p in pieces) > 2


# -- cancelling, and slow consumers -------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["close", "cancel"])
@every
async def test_a_cancelled_request_generates_no_more(made: Made, way: str) -> None:
    if way == "close":
        stream = await begun(made.engine, request(made.endless, max_tokens=None), 5)
        await stream.aclose()
    else:
        pulled: list[Delta] = []

        async def pull() -> None:
            async for piece in made.engine.generate(request(made.endless, max_tokens=None)):
                pulled.append(piece)
                await asyncio.sleep(0)

        task = asyncio.ensure_future(pull())
        await until(lambda: len(pulled) > 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until(lambda: made.running() == 0)
    generated = made.generated()
    assert generated < 10_000
    await asyncio.sleep(0.3)
    assert made.generated() == generated


@every
async def test_a_request_cancelled_before_its_first_piece_leaves_nothing_behind(made: Made) -> None:
    for _ in range(20):
        task = asyncio.ensure_future(collect(made.engine, request(made.endless, max_tokens=None)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await made.engine.generate(request(made.endless)).aclose()  # an output that never began
    await until(lambda: made.running() == 0)
    assert text_of(await collect(made.engine, request(made.prompts[0])))


@every
async def test_a_slow_consumer_stalls_only_its_own_output_and_loses_nothing(made: Made) -> None:
    long = request(made.prompts[-1], max_tokens=LIMIT + 2 * made.ahead)
    exact = await collect(made.engine, long)
    before = made.generated()
    slow = made.engine.generate(long)
    pulled = [await anext(slow)]
    assert await settled(lambda: made.generated()) - before <= 1 + made.ahead < len(exact)
    for prompt in made.prompts:
        assert text_of(await asyncio.wait_for(collect(made.engine, request(prompt)), 20))
    pulled += [piece async for piece in slow]
    assert pulled == exact


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 2])
@every
async def test_a_failure_comes_after_earlier_pieces_and_does_not_affect_later_requests(made: Made, after: int) -> None:
    stream = made.engine.generate(request(made.failing(after)))
    pulled = [await anext(stream) for _ in range(after)]
    with pytest.raises(EngineError) as caught:
        await anext(stream)
    assert caught.value.status == made.fault
    assert str(caught.value)
    assert not any(p.finish_reason for p in pulled)
    await until(lambda: made.running() == 0)
    assert (await collect(made.engine, request(made.prompts[0])))[-1].finish_reason in ("stop", "length")
    await made.engine.health()


@with_prompts
async def test_a_request_without_a_prompt_or_without_room_is_a_client_error(made: Made) -> None:
    asked = request(made.prompts[0])
    for prompt in (None, "", "word " * 30_000):
        with pytest.raises(EngineError, match="prompt") as caught:
            await collect(made.engine, msgspec.structs.replace(asked, prompt=prompt))
        assert caught.value.status == 400
    assert made.running() == 0
    assert text_of(await collect(made.engine, asked))
