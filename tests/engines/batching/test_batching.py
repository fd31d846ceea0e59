"""Continuous batching: requests that join, leave, wait and fail, and what is reported."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import numpy as np
import pytest

from tests.engines.conformance.tools import TOOLS, check_calls
from unspool import constrain, parse
from unspool.engines import EngineError, Sampling
from unspool.engines.batching import Batching, Model
from unspool.grammar import Constraint
from unspool.tokens import Detokenizer
from unspool.wire import Usage

from .support import CALL, EOS, Babble, Spelled, Watched, ask, begun, byte_tokenizer, collect, settled, text_of, until


def run(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that is a coroutine."""

    @wraps(test)
    def sync(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return sync


def required(dialect: str, model: Model) -> Constraint:
    constraint = constrain(dialect, TOOLS, "required", stage="content", tokenizer=model.tokenizer)
    assert constraint is not None
    return constraint


# -- joining and leaving -----------------------------------------------------------------------------------------------


class InParts(Babble):
    """Reads prompts in parts of one token; each waits for ``go``."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Semaphore(0)
        self.read = 0

    def prefill_parts(self, tokens: Any) -> Any:
        for _ in tokens[1:]:
            self.go.acquire()
            self.read += 1
            yield None
        yield self.prefill(tokens)


@run
async def test_other_outputs_go_on_between_the_parts_of_a_long_prompt() -> None:
    model = InParts()
    engine = Batching(model)
    model.go.release(3)
    first = await begun(engine, ask("!one"))
    second = asyncio.ensure_future(anext(engine.generate(ask("!two words"))))
    for part in range(1, 9):
        model.go.release()
        await until(lambda: model.read == 3 + part)  # noqa: B023
        await anext(first)
        assert not second.done()
    model.go.release()
    assert await second
    assert model.read == 3 + 9
    await first.aclose()
    await engine.close()


@run
async def test_an_abandoned_prompt_is_not_read_to_its_end() -> None:
    model = InParts()
    engine = Batching(model)
    left = asyncio.ensure_future(anext(engine.generate(ask("!" + "long " * 100))))
    model.go.release(2)
    await until(lambda: model.read == 2)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    model.go.release(10)
    small = await begun(engine, ask("!now"))
    assert model.read <= 3 + 3, "one part was under way"
    await small.aclose()
    await engine.close()


@run
async def test_requests_join_while_others_run() -> None:
    model = Watched(Babble())
    engine = Batching(model)
    first = await begun(engine, ask("!one"))
    second = await begun(engine, ask("!two"))
    for _ in range(50):
        await anext(first)
        await anext(second)
    assert 2 in model.sizes
    await first.aclose()
    await second.aclose()
    await engine.close()


@run
async def test_a_request_joins_at_once_and_running_ones_go_on_between_two_that_join() -> None:
    model = Watched(Babble())
    engine = Batching(model, slots=8)
    model.gate.clear()
    streams = [asyncio.ensure_future(collect(engine, ask(f"!{i}", max_tokens=20))) for i in range(6)]
    await until(lambda: engine.running + engine.waiting == 6)
    model.gate.set()
    await asyncio.gather(*streams)
    assert model.sizes[:6] == [1, 2, 3, 4, 5, 6]
    await engine.close()


@run
async def test_requests_without_a_slot_wait_in_order() -> None:
    engine = Batching(Watched(Babble()), slots=2)
    streams = [await begun(engine, ask(f"!{i}")) for i in range(2)]
    order: list[int] = []

    async def next_one(i: int) -> None:
        stream = engine.generate(ask(f"!{i}", max_tokens=5))
        await anext(stream)
        order.append(i)
        async for _ in stream:
            pass

    waiting = []
    for i in range(4):
        waiting.append(asyncio.ensure_future(next_one(i)))
        await until(lambda i=i: engine.waiting == i + 1)  # type: ignore[misc]
    assert engine.running == 2
    await streams[0].aclose()
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3]
    await streams[1].aclose()
    await engine.close()


@run
async def test_a_request_that_leaves_the_queue_is_never_computed() -> None:
    model = Watched(Babble())
    engine = Batching(model, slots=1)
    stream = await begun(engine, ask("!"))
    waiting = asyncio.ensure_future(collect(engine, ask("never")))
    await until(lambda: engine.waiting == 1)
    waiting.cancel()
    await until(lambda: engine.waiting == 0)
    await stream.aclose()
    await until(lambda: engine.running == 0)
    assert engine.waiting == 0
    assert set(model.sizes) <= {1}
    await engine.close()


@run
async def test_slots_are_freed_at_the_next_token_though_every_consumer_sleeps() -> None:
    model = Watched(Babble())
    engine = Batching(model, slots=2, ahead=3)
    streams = [await begun(engine, ask(f"!{i}")) for i in range(2)]
    assert await settled(lambda: model.computed) <= 2 * 4  # both outputs have paused, and the thread sleeps
    await streams[0].aclose()
    pieces = await asyncio.wait_for(collect(engine, ask("third", max_tokens=5)), 10)
    assert len(pieces) == 5
    await streams[1].aclose()
    await until(lambda: engine.running == 0)
    await engine.close()


@run
async def test_a_stalled_consumer_has_a_bounded_number_of_pieces() -> None:
    for ahead in (1, 4, 16):
        model = Watched(Babble())
        engine = Batching(model, ahead=ahead)
        stream = await begun(engine, ask("!"))
        computed = await settled(lambda: model.computed)  # noqa: B023
        assert ahead <= computed <= ahead + 1
        for _ in range(100):
            await anext(stream)
        assert await settled(lambda: model.computed) <= 101 + ahead  # noqa: B023
        await stream.aclose()
        await engine.close()


@run
async def test_the_event_loop_is_free_while_the_model_computes() -> None:
    model = Watched(Babble())
    engine = Batching(model)
    model.gate.clear()
    task = asyncio.ensure_future(collect(engine, ask("!", max_tokens=3)))
    await until(lambda: engine.running == 1)
    began = time.monotonic()
    for _ in range(100):
        await asyncio.sleep(0)
    assert time.monotonic() - began < 5
    assert not task.done()
    model.gate.set()
    assert len(await task) == 3
    await engine.close()


def test_an_engine_serves_several_event_loops_one_after_another_and_at_once() -> None:
    engine = Batching(Babble())
    want = text_of(asyncio.run(collect(engine, ask("x"))))
    got: list[str] = []
    threads = [
        threading.Thread(target=lambda: got.append(text_of(asyncio.run(collect(engine, ask("x")))))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert got == [want] * 4
    asyncio.run(engine.close())


def test_a_closed_event_loop_frees_its_slots() -> None:
    model = Watched(Babble())
    engine = Batching(model, slots=1)
    loop = asyncio.new_event_loop()
    model.gate.clear()
    stream = engine.generate(ask("!"))
    waiting = loop.create_task(anext(stream))
    loop.run_until_complete(until(lambda: engine.running == 1))
    loop.close()  # nobody closes the generator
    model.gate.set()
    assert len(asyncio.run(asyncio.wait_for(collect(engine, ask("x", max_tokens=3)), 20))) == 3
    assert not waiting.done()
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    asyncio.run(engine.close())


# -- pieces ------------------------------------------------------------------------------------------------------------


@run
async def test_every_token_is_a_piece_and_the_last_has_the_counts() -> None:
    engine = Batching(Babble())
    pieces = await collect(engine, ask("Hello"))
    ids = [t for p in pieces for t in p.token_ids]
    detokenizer = Detokenizer(engine.tokenizer)
    assert text_of(pieces) == "".join("".join(detokenizer.push(t)) for t in ids)
    assert text_of(pieces).endswith(".")
    assert [p.finish_reason for p in pieces] == [None] * (len(pieces) - 1) + ["stop"]
    assert pieces[0].usage == Usage(prompt_tokens=5, completion_tokens=1), "for whoever stops early"
    assert [p.usage for p in pieces[1:-1]] == [None] * (len(pieces) - 2)
    usage = pieces[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (5, len(ids) + 1)  # with the token that ends it
    await engine.close()


@run
async def test_only_whole_characters_are_emitted() -> None:
    engine = Batching(Spelled("aé中😀b"))
    pieces = await collect(engine, ask())
    assert [p.text for p in pieces] == ["a", "", "é", "", "", "中", "", "", "", "😀", "b", ""]
    assert all(len(p.token_ids) == 1 for p in pieces[:-1])
    assert (pieces[-1].text, pieces[-1].token_ids) == ("", ())
    await engine.close()


@run
async def test_a_cut_character_is_emitted_with_the_last_piece() -> None:
    engine = Batching(Spelled("a", 0xE4, 0xB8))
    assert [p.text for p in await collect(engine, ask())] == ["a", "", "", "�"]
    assert [p.text for p in await collect(engine, ask(max_tokens=2))] == ["a", "�"]
    await engine.close()


@run
async def test_special_tokens_are_kept_in_the_text() -> None:
    engine = Batching(Spelled(258, "x", 259))
    assert text_of(await collect(engine, ask())) == "<tool_call>x</tool_call>"
    await engine.close()


class Own:
    """A tokenizer that says which token ends its sequences."""

    def __init__(self, eos: int) -> None:
        self.eos_token_id = eos
        self.tokenizer = byte_tokenizer()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)


@pytest.mark.parametrize(
    ("own", "ending", "text", "ids"),
    [
        (None, EOS, "hi", (104, 105)),
        (None, CALL, "hi", (104, 105)),
        (EOS, EOS, "hi", (104, 105)),
        (EOS, CALL, "hi<|call|>", (104, 105, CALL)),
        (CALL, EOS, "hi<eos>", (104, 105, EOS)),
    ],
)
@run
async def test_the_tokenizers_own_end_is_left_out_and_other_ends_are_reported(
    own: int | None, ending: int, text: str, ids: tuple[int, ...]
) -> None:
    model = Spelled("hi", ending, "never")
    if own is not None:
        model.tokenizer = Own(own)
    engine = Batching(model)
    pieces = await collect(engine, ask())
    assert text_of(pieces) == text
    assert tuple(t for p in pieces for t in p.token_ids) == ids
    assert pieces[-1].finish_reason == "stop"
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.completion_tokens == 3
    await engine.close()


@pytest.mark.parametrize("limit", [1, 2, 7])
@run
async def test_the_limit_and_the_context_end_an_output(limit: int) -> None:
    engine = Batching(Babble(context=5 + limit))
    for max_tokens in (limit, None, 100):
        pieces = await collect(engine, ask("!abcd", max_tokens=max_tokens))
        assert len(pieces) == limit
        assert pieces[-1].finish_reason == "length"
        assert pieces[-1].usage is not None
        assert pieces[-1].usage.completion_tokens == limit
    await engine.close()


@run
async def test_an_output_that_ends_with_its_last_token_has_stopped() -> None:
    engine = Batching(Spelled("hi"))
    assert (await collect(engine, ask(max_tokens=3)))[-1].finish_reason == "stop"
    await engine.close()


@run
async def test_a_prompt_may_be_text_or_ids() -> None:
    engine = Batching(Babble())
    text = text_of(await collect(engine, ask("<tool_call>Hé")))
    assert text == text_of(await collect(engine, ask([258, *"Hé".encode()])))
    assert text != text_of(await collect(engine, ask("Hé")))
    await engine.close()


# -- invalid requests --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "more", "error"),
    [
        (None, {}, "prompt: the engine needs one"),
        ("", {}, "prompt: has no tokens"),
        ([1, 300], {}, "prompt: 300 is not a token; allowed are 0 to 299"),
        ([-1], {}, "prompt: -1 is not a token"),
        ("abcdefgh", {}, "prompt: 8 tokens leave no room in a context of 8"),
        ("a", {"max_tokens": 0}, "max_tokens: must be at least 1, not 0"),
        ("a", {"sampling": Sampling(temperature=-1)}, "temperature: -1 is not between 0 and"),
        ("a", {"sampling": Sampling(repetition_penalty=0)}, "repetition_penalty: 0 is not between"),
    ],
)
@run
async def test_an_impossible_request_is_a_client_error(prompt: Any, more: dict[str, Any], error: str) -> None:
    engine = Batching(Babble(context=8))
    with pytest.raises(EngineError, match=error) as caught:
        await collect(engine, ask(prompt, **more))
    assert caught.value.status == 400
    assert engine.running == engine.waiting == 0
    await engine.close()


@run
async def test_an_impossible_constraint_is_a_client_error() -> None:
    engine = Batching(Babble())
    wrong = required("hermes", engine._model)
    wrong.lark = "%llguidance {}\nstart: nothing"
    with pytest.raises(EngineError, match="grammar engine does not support") as caught:
        await collect(engine, ask(constraint=wrong))
    assert caught.value.status == 400
    assert len(await collect(engine, ask("!", max_tokens=3))) == 3
    await engine.close()


def test_a_constraint_without_llguidance_is_refused_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        engine = Batching(Babble())
        with pytest.raises(EngineError, match="need llguidance: install the extra `constrain`") as caught:
            await collect(engine, ask(constraint=required("hermes", Babble())))
        assert caught.value.status == 400
        await engine.close()

    monkeypatch.setitem(sys.modules, "llguidance", None)
    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "error"),
    [({"slots": 0}, "slots: must be at least 1, not 0"), ({"ahead": -1}, "ahead: must be at least 1, not -1")],
)
def test_slots_and_ahead_must_be_at_least_1(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Batching(Babble(), **options)


# -- failures ----------------------------------------------------------------------------------------------------------


@run
async def test_a_failed_step_ends_running_requests_and_no_later_ones() -> None:
    model = Watched(Babble())
    engine = Batching(model, slots=2, ahead=1_000_000)  # no output pauses
    running = [asyncio.ensure_future(collect(engine, ask(f"!{i}"))) for i in range(2)]
    await until(lambda: model.sizes[-1:] == [2])
    later = asyncio.ensure_future(collect(engine, ask("!later", max_tokens=4)))
    await until(lambda: engine.waiting == 1)
    model.fail_after = 0
    for output in running:
        with pytest.raises(EngineError, match="the model failed") as caught:
            await output
        assert caught.value.status == 500
    assert len(await later) == 4
    await engine.health()
    await engine.close()


@run
async def test_a_failed_prompt_ends_only_its_own_request() -> None:
    model = Watched(Babble())
    engine = Batching(model, ahead=2)
    stream = await begun(engine, ask("!"))
    await settled(lambda: model.computed)
    model.fail_after = 0
    with pytest.raises(EngineError, match="the model failed"):
        await collect(engine, ask("other"))
    for _ in range(20):
        await anext(stream)
    await stream.aclose()
    await engine.close()


@run
async def test_logits_that_are_not_numbers_fail_only_their_own_output() -> None:
    class Sick(Babble):
        def step(self, states: Any, tokens: Any) -> Any:
            logits = super().step(states, tokens)
            logits[[not state[1] for state in states]] = np.nan
            return logits

    engine = Batching(Sick(), ahead=2)
    stream = await begun(engine, ask("!well"))
    with pytest.raises(EngineError, match="no token could be chosen") as caught:
        await collect(engine, ask("sick"))
    assert caught.value.status == 500
    for _ in range(20):
        await anext(stream)
    await stream.aclose()
    await engine.close()


@run
async def test_logits_of_a_wrong_shape_end_the_engine_without_a_hang() -> None:
    class Narrow(Babble):
        def step(self, states: Any, tokens: Any) -> Any:
            return super().step(states, tokens)[:0]

    engine = Batching(Narrow(), slots=1)
    streams = [collect(engine, ask(f"!{i}")) for i in range(3)]
    ended = await asyncio.wait_for(asyncio.gather(*streams, return_exceptions=True), 10)
    assert [str(e) for e in ended] == ["the engine has failed"] * 3
    with pytest.raises(EngineError, match="the engine has failed") as caught:
        await engine.health()
    assert caught.value.status == 503
    await engine.close()


@run
async def test_a_closed_engine_fails_running_waiting_and_new_requests() -> None:
    engine = Batching(Babble(), slots=1)
    running = await begun(engine, ask("!"))
    waiting = asyncio.ensure_future(collect(engine, ask("!")))
    await until(lambda: engine.waiting == 1)
    await engine.close()
    with pytest.raises(EngineError, match="closed"):
        async for _ in running:
            pass
    with pytest.raises(EngineError, match="closed"):
        await waiting
    for again in (collect(engine, ask()), engine.health()):
        with pytest.raises(EngineError, match="closed") as caught:
            await again
        assert caught.value.status == 503
    assert not any(t.name == "unspool-model" and t is engine._thread for t in threading.enumerate())


# -- constraints and probabilities -------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("dialect", ["hermes", "deepseekv31", "qwen3-coder", "pythonic", "harmony"])
@run
async def test_a_required_request_ends_in_valid_calls(dialect: str, temperature: float) -> None:
    model = Babble()
    engine = Batching(model)
    constraint = required(dialect, model)
    asks = [
        ask(f"!{i}", constraint=constraint, max_tokens=3000, sampling=Sampling(temperature=temperature, seed=i))
        for i in range(3)
    ]
    free = asyncio.ensure_future(collect(engine, ask("!free", max_tokens=200)))
    for pieces in await asyncio.gather(*(collect(engine, a) for a in asks)):
        text = text_of(pieces)
        assert pieces[-1].finish_reason == "stop", text
        check_calls(parse(text, dialect, tools=TOOLS, tool_choice="required", stage="content"), text)
    alone = Batching(Babble())
    assert await free == await collect(
        alone, ask("!free", max_tokens=200)
    )  # outputs without a constraint do not change
    await alone.close()
    await engine.close()


@run
async def test_a_call_may_end_with_the_token_that_ends_the_output() -> None:
    model = Babble()
    model.tokenizer = Own(EOS)
    engine = Batching(model)
    for seed in range(5):
        sampling = Sampling(temperature=1.0, seed=seed)
        pieces = await collect(engine, ask(constraint=required("harmony", model), sampling=sampling, max_tokens=3000))
        text = text_of(pieces)
        assert text.endswith("<|call|>")
        assert pieces[-1].token_ids == (CALL,)
        assert pieces[-1].finish_reason == "stop"
        message = parse(text, "harmony", tools=TOOLS, tool_choice="required", stage="content")
        check_calls(message, text)
        assert not message.notices
    await engine.close()


@run
async def test_log_probabilities_equal_the_models() -> None:
    model = Babble()
    engine = Batching(model)
    sampling = Sampling(temperature=0.5, top_k=5, presence_penalty=1, seed=1, logprobs=3)
    pieces = await collect(engine, ask("!Hello", sampling=sampling, max_tokens=20))
    state, logits = model.prefill(list(b"!Hello"))
    for piece in pieces:
        (entry,) = piece.logprobs
        (token,) = piece.token_ids
        exact = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum())
        order = np.argsort(-exact)[:3].tolist()
        assert entry["logprob"] == pytest.approx(exact[token], abs=1e-5)
        assert (entry["token"], entry["bytes"]) == (chr(token), [token])
        assert [t["bytes"] for t in entry["top_logprobs"]] == [[t] for t in order]
        assert [t["logprob"] for t in entry["top_logprobs"]] == pytest.approx(exact[order].tolist(), abs=1e-5)
        json.dumps(entry, allow_nan=False)
        logits = model.step([state], [token])[0]
    await engine.close()


@run
async def test_tokens_of_partial_characters_report_their_bytes() -> None:
    engine = Batching(Spelled("é", 258))
    sampling = Sampling(temperature=0, logprobs=0)
    entries = [e for p in await collect(engine, ask(sampling=sampling)) for e in p.logprobs]
    assert [(e["token"], e["bytes"]) for e in entries] == [
        ("�", [0xC3]),
        ("�", [0xA9]),
        ("<tool_call>", list(b"<tool_call>")),
    ]
    assert [e["top_logprobs"] for e in entries] == [[], [], []]
    await engine.close()


@run
async def test_a_seed_gives_the_same_output_in_every_batch() -> None:
    engine = Batching(Babble(), slots=4)
    seeded = ask("!x", sampling=Sampling(temperature=1, top_p=0.9, seed=2**64 - 1), max_tokens=60)
    alone = await collect(engine, seeded)
    others = [collect(engine, ask(f"!{i}", sampling=Sampling(seed=i), max_tokens=10 * i + 1)) for i in range(9)]
    crowd = await asyncio.gather(*others[:5], collect(engine, seeded), *others[5:])
    assert crowd[5] == alone
    await engine.close()


@run
async def test_the_engine_decides_what_a_request_leaves_open() -> None:
    engine = Batching(Babble(), sampling=Sampling(temperature=0))
    first, second = [await collect(engine, ask("!", sampling=Sampling(), max_tokens=30)) for _ in range(2)]
    assert first == second
    hot = ask("!", sampling=Sampling(temperature=1), max_tokens=30)
    assert await collect(engine, hot) != first
    await engine.close()
