"""Chat templates run in processes with limits: what exceeds them fails alone, and is cancelled with its request."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from unspool.chat_templates.pool import Pool
from unspool.chat_templates.worker import Late, Limits, Worker
from unspool.engines.threads import Abandoned, Awaited
from unspool.errors import TemplateError
from unspool.request.fields import BadRequest
from unspool.request.prompts import Prompts, Tokenizer

from ..templates.hostile import asked, said

LIMITS = Limits(seconds=0.5, total=20, memory=256 << 20, output=100_000)
ENDLESS = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "powers": "{% if (m.content | length + 7) ** (9 ** 9) % 3 %}{% endif %}",
    "macros": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "memory": "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "output": "{% for i in range(99999) %}xxxxxxxxxx{% endfor %}",
}
HUNG = (
    "{% for m in messages %}{{ m.content }}{% if m.content == 'hang' %}" + ENDLESS["loops"] + "{% endif %}{% endfor %}"
)


def processes(pool: Pool) -> list[int]:
    return [worker._process.pid for worker in pool._idle]


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_rendering_that_meets_a_limit_fails_alone(kind: str) -> None:
    text = (
        "{% for m in messages %}{{ m.content }}{% if m.content == 'go' %}" + ENDLESS[kind] + "{% endif %}{% endfor %}"
    )
    pool = Pool(text, {}, LIMITS)
    fine, bad = ({"messages": [said("user", word)]} for word in ("a", "go"))
    assert pool.render([fine])[0].text == "a"
    began = time.monotonic()
    if kind == "macros":  # a recursion is an error as any other
        assert "recurses" in pool.render([bad])[0].error
    else:
        with pytest.raises(TemplateError, match="template: "):
            pool.render([bad])
    assert time.monotonic() - began < 15
    assert pool.render([fine])[0].text == "a"
    pool.close()


def test_a_rendering_is_cancelled_with_its_request_and_holds_up_nobody() -> None:
    pool = Pool(HUNG, {}, Limits(seconds=600, total=600))
    left, done = [Awaited() for _ in range(6)], []

    def hang(awaited: Awaited) -> None:
        with pytest.raises(Abandoned):
            pool.render([{"messages": [said("user", "hang")]}], awaited)
        done.append(awaited)

    with ThreadPoolExecutor(6) as threads:
        running = [threads.submit(hang, awaited) for awaited in left]
        time.sleep(0.5)
        began = time.monotonic()
        assert pool.render([{"messages": [said("user", "a")]}])[0].text == "a"
        for awaited in left:
            awaited.leave()
        for one in running:
            one.result(60)
    assert len(done) == 6
    assert time.monotonic() - began < 100
    pool.close()


def test_a_client_that_leaves_late_does_not_end_another_ones_rendering() -> None:
    pool = Pool(HUNG, {}, LIMITS)
    fine = [{"messages": [said("user", "a")]}]
    for _ in range(20):
        awaited = Awaited()
        assert pool.render(fine, awaited)[0].text == "a"
        awaited.leave()
        assert pool.render(fine)[0].text == "a"
    with pytest.raises(Abandoned):
        pool.render(fine, awaited)
    pool.close()


def test_a_client_that_leaves_when_its_rendering_is_done_does_not_fail_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, fine = Pool(HUNG, {}, LIMITS), [{"messages": [said("user", "a")]}]
    render = Worker.render
    for _ in range(20):
        awaited = Awaited()

        def done(worker: Worker, *given: Any, awaited: Awaited = awaited) -> Any:
            found = render(worker, *given)
            awaited.leave()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Worker, "render", done)
            assert pool.render(fine, awaited)[0].text == "a"
        assert pool.render(fine)[0].text == "a"
    pool.close()


def test_a_process_that_was_killed_is_replaced() -> None:
    pool = Pool(HUNG, {}, LIMITS)
    (before,) = processes(pool)
    os.kill(before, signal.SIGKILL)
    os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)
    assert pool.render([{"messages": [said("user", "a")]}])[0].text == "a"
    (before,) = processes(pool)
    with ThreadPoolExecutor(1) as threads:
        hanging = threads.submit(pool.render, [{"messages": [said("user", "hang")]}])
        time.sleep(0.1)
        os.kill(before, signal.SIGKILL)
        with pytest.raises(Late, match="was killed"):
            hanging.result(60)
    assert pool.render([{"messages": [said("user", "a")]}])[0].text == "a"
    assert before not in processes(pool)
    pool.close()


def test_the_same_process_serves_one_request_after_another_and_threads_get_their_own() -> None:
    pool = Pool(HUNG, {}, LIMITS)
    before = processes(pool)
    for _ in range(5):
        pool.render([{"messages": [said("user", "a")]}])
    assert processes(pool) == before
    barrier = threading.Barrier(3)

    def render(word: str) -> str:
        barrier.wait()
        return pool.render([{"messages": [said("user", word)]}] * 50)[-1].text

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(render, "abc")) == ["a", "b", "c"]
    ended = processes(pool)
    pool.close()
    for pid in ended:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_template_that_never_ends_is_refused_at_the_start_or_fails_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unspool.request.examined._LIMITS", Limits(seconds=1.5, total=60.0))
    with pytest.raises(TemplateError, match=r"cannot be compiled|takes longer"):
        Prompts(Tokenizer("{{ 9 ** (9 ** 9) }}", "", {}, ()))
    made = Prompts(Tokenizer(HUNG, HUNG, {}, ()))
    assert made.render(asked([said("user", "a")], [])) == "a"
    with pytest.raises(BadRequest, match=r"takes longer than 1\.5"):
        made.render(asked([said("user", "hang")], []))
    assert made.render(asked([said("user", "b")], [])) == "b"


def test_a_process_that_gets_no_processor_time_makes_the_server_overloaded_not_the_request_bad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unspool.request.examined._LIMITS", Limits(seconds=0.5, total=60.0))
    made = Prompts(Tokenizer(HUNG, HUNG, {}, ()))
    assert made.render(asked([said("user", "a")], [])) == "a"
    (pid,) = processes(made._pools[0])
    made._pools[0]._idle[0]._limits = Limits(total=1.0)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(BadRequest, match="overloaded") as starved:
        made.render(asked([said("user", "a")], []))
    assert starved.value.status == 503
    assert made.render(asked([said("user", "b")], [])) == "b"
    with pytest.raises(BadRequest, match=r"takes longer than 0\.5") as expensive:
        made.render(asked([said("user", "hang")], []))
    assert expensive.value.status is None
