"""Sessions over HTTP: which one a request belongs to, who may do what, retries, limits, the end."""

import asyncio
import concurrent.futures
import json
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import openai
import pyarrow as pa
import pytest

from unspool import get_dialect
from unspool.engines import Delta, EngineError, Request
from unspool.rl.exports import ENCODINGS, FORMATS
from unspool.server import Settings
from unspool.server.models import Served
from unspool.server.retries import Retries, _nowhere, _RetriedAnswer
from unspool.sessions import Session, SessionLimits, Sessions
from unspool.store import Store

from ..media import png
from ..server.support import CHAT, PATIENCE, Live, live, until
from ..server.test_loop import MCP
from ..server.test_protocols import claude
from ..server.workshop import Workshop, call
from ..server.writing import TOKENIZER, template
from .support import Model, ask, check, made, trajectory, tree

HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def model() -> Model:
    return Model(lambda request: "Hello.")


@pytest.fixture
def server(model: Model) -> Iterator[Live]:
    with live(model, "hermes", prompts=template(), sessions=True) as running:
        yield running


@pytest.fixture
def locked(model: Model) -> Iterator[Live]:
    with live(model, "hermes", prompts=template(), sessions=True, api_key="the server's") as running:
        running.http.headers["Authorization"] = "Bearer the server's"
        yield running


def calls(server: Live, session: dict[str, Any]) -> int:
    found: int = server.http.get(f"/sessions/{session['id']}").json()["calls"]
    return found


def tool(description: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "description": description}}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_request_belongs_to_a_session_by_its_key_its_path_or_a_header(locked: Live) -> None:
    session = made(locked, id="a.run-1")
    assert session["url"] == f"{locked.url}/sessions/a.run-1/v1"
    body = {"messages": HI}
    for url in (f"{locked.url}/v1", session["url"]):
        client = locked.openai.with_options(base_url=url, api_key=session["key"])
        client.chat.completions.create(model="m", messages=HI)
    with claude(session["url"].removesuffix("/v1"), "the server's") as anthropics:
        anthropics.messages.create(model="m", max_tokens=64, messages=HI)
    agui = {"threadId": "t", "runId": "r", "state": {}, "messages": [{"id": "1", **HI[0]}], "tools": [], "context": []}
    for path in ("/sessions/a.run-1/ag-ui", "/sessions/a.run-1/v1/ag-ui"):
        assert locked.http.post(path, json={**agui, "forwardedProps": {}}).status_code == 200
    assert locked.http.post(CHAT, json=body, headers={"X-Session-ID": "a.run-1"}).status_code == 200
    assert locked.http.post("/sessions/a.run-1/v1/responses", json={"input": "Hi"}).status_code == 200
    assert locked.http.post(CHAT, json=body).status_code == 200
    assert calls(locked, session) == 7
    assert locked.http.get("/sessions/a.run-1/v1/models", headers=bearer(session["key"])).status_code == 200
    for path in ("/sessions", "/sessions/a.run-1/finish", "/sessions/a.run-1/v1/chat/completions"):
        assert locked.http.post(path, content="{}", headers={"Content-Type": "text/plain"}).status_code == 415


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (CHAT, bearer("unspool-session-unknown"), 401),
        ("/sessions/unknown/v1/chat/completions", {}, 404),
        (CHAT, {"X-Session-ID": "unknown"}, 404),
        (CHAT, {"X-Session-ID": ""}, 404),
        ("/sessions/known/v1/chat/completions", bearer("wrong"), 401),
        ("/sessions/unknown/v1/chat/completions", bearer("wrong"), 401),
        (CHAT, {"X-Session-ID": "known", **bearer("wrong")}, 401),
    ],
)
def test_unknown_sessions_and_wrong_keys_are_refused(
    locked: Live, model: Model, path: str, headers: dict[str, str], status: int
) -> None:
    made(locked, id="known")
    answer = locked.http.post(path, json={"messages": HI}, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert not model.requests


def test_each_key_is_good_for_its_own_session_and_the_servers_for_all(locked: Live) -> None:
    one, other = made(locked), made(locked)
    about = f"/sessions/{one['id']}"
    for path in (about, f"{about}/trajectory"):
        assert locked.http.get(path).status_code == 200
        assert locked.http.get(path, headers=bearer(one["key"])).status_code == 200
        assert locked.http.get(path, headers=bearer(other["key"])).status_code == 401
        assert httpx2.get(locked.url + path).status_code == 401
    for method, path in (("GET", "/sessions"), ("POST", "/sessions")):
        assert locked.http.request(method, path).status_code in (200, 201)
        assert locked.http.request(method, path, headers=bearer(one["key"])).status_code == 401
    assert locked.http.delete(about, headers=bearer(other["key"])).status_code == 401
    assert locked.http.delete(about, headers=bearer(one["key"])).json() == {"id": one["id"], "deleted": True}
    assert locked.http.get(about).status_code == 404
    assert ask(one, locked, CHAT, messages=HI).status_code == 401
    listed = locked.http.get("/sessions")
    assert other["id"] in [session["id"] for session in listed.json()["data"]]
    assert other["key"] not in listed.text


def test_without_a_key_of_the_server_sessions_are_for_the_loopback_alone(server: Live) -> None:
    session = made(server)
    app: Any = server.server.config.loaded_app

    async def status(host: str) -> int:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
            return (await client.get(f"http://{host}/sessions/{session['id']}")).status_code

    assert [asyncio.run(status(host)) for host in ("127.0.0.1", "[::1]", "10.0.0.1")] == [200, 200, 401]


def test_the_end_waits_for_requests_in_flight_and_then_refuses_more(server: Live, model: Model) -> None:
    session = made(server)
    model.pause = 0.02
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(ask, session, server, CHAT, messages=HI)
        until(lambda: model.running)
        late = server.post(f"/sessions/{session['id']}/finish", timeout=0)
        assert late.status_code == 504
        told = server.http.get(f"/sessions/{session['id']}").json()
        assert (told["status"], told["in_flight"]) == ("finishing", 1)
        closed = ask(session, server, CHAT, messages=HI)
        assert (closed.status_code, closed.json()["error"]["message"]) == (
            409,
            f"the session {session['id']} is finishing",
        )
        done = server.post(f"/sessions/{session['id']}/finish", reward=0.5)
        assert answer.result().status_code == 200
    assert (done.json()["status"], done.json()["reward"]) == ("finished", 0.5)
    refused = ask(session, server, CHAT, messages=HI)
    assert refused.status_code == 409
    found = trajectory(server, session)
    assert (found["status"], found["reward"], len(found["calls"])) == ("finished", 0.5, 1)
    assert server.post(f"/sessions/{session['id']}/reward", reward=None).json()["reward"] is None


def test_what_is_said_of_a_run_while_its_end_waits_is_kept(server: Live, model: Model) -> None:
    path = f"/sessions/{made(server, id='run')['id']}"
    model.pause = 0.1
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(server.http.post, f"{path}/v1/chat/completions", json={"messages": HI})
        until(lambda: model.running)
        done = pool.submit(server.post, f"{path}/finish", reward=0.1, metadata={"a": 1})
        time.sleep(0.2)
        server.post(f"{path}/reward", reward=0.5, metadata={"b": 2})
        assert model.running
        assert {s["status"] for s in server.http.get("/sessions").json()["data"]} == {"finishing"}
    assert (done.result().json()["reward"], done.result().json()["metadata"]) == (0.5, {"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("limits", "field"), [({"calls": 2}, "calls"), ({"tokens": 3}, "tokens"), ({"seconds": 1e-3}, "seconds")]
)
def test_limits_are_kept_and_told(server: Live, limits: dict[str, Any], field: str) -> None:
    session = made(server, limits=limits)
    answers = [ask(session, server, CHAT, messages=HI) for _ in range(4)]
    refused = [a for a in answers if a.status_code == 403]
    assert len(refused) == {"calls": 2, "tokens": 3, "seconds": 4}[field]
    assert refused[0].json()["error"]["message"].startswith(f"limits.{field}: ")
    if field == "tokens":
        assert answers[0].json()["choices"][0]["finish_reason"] == "length"
        assert len(trajectory(server, session)["calls"][0]["output_ids"]) == 3


def test_requests_at_once_and_choices_do_not_exceed_the_limit_of_calls(server: Live) -> None:
    session = made(server, limits={"calls": 2})
    with concurrent.futures.ThreadPoolExecutor() as threads:
        answers = list(threads.map(lambda _: ask(session, server, CHAT, messages=HI), range(8)))
    assert 1 <= [a.status_code for a in answers].count(200) <= 2
    another = made(server, limits={"calls": 2})
    assert ask(another, server, CHAT, messages=HI, n=3).status_code == 403
    assert ask(another, server, CHAT, messages=HI, n=2).status_code == 200


def test_requests_at_once_do_not_exceed_the_limit_of_tokens(model: Model, server: Live) -> None:
    model.pause = 0.01
    session = made(server, limits={"tokens": 20})
    with concurrent.futures.ThreadPoolExecutor() as threads:
        answers = list(threads.map(lambda n: ask(session, server, CHAT, messages=HI, max_tokens=n), [6] * 8))
    assert [len(call["output_ids"]) for call in trajectory(server, session)["calls"]] == [6, 6, 6, 2]
    assert sorted(a.status_code for a in answers) == [200] * 4 + [403] * 4
    two = made(server, limits={"tokens": 20})
    assert ask(two, server, CHAT, messages=HI, n=2).status_code == 200
    assert [len(call["output_ids"]) for call in trajectory(server, two)["calls"]] == [7, 7], (
        "what is not used goes back"
    )


def test_rounds_of_the_servers_tools_do_not_exceed_the_limit_of_calls() -> None:
    model = Model(lambda request: call("add", a=1, b=2))
    with live(model, "hermes", prompts=template(), sessions=True, servers=[Workshop()]) as server:
        session = made(server, limits={"calls": 3})
        answer = ask(session, server, "/v1/responses", input="Go", tools=[{**MCP, "require_approval": "never"}])
        assert (answer.status_code, "limits.calls" in answer.text) == (403, True)
        assert len(trajectory(server, session)["calls"]) == 3


def test_an_engine_that_does_not_stop_is_not_examined_for_ever() -> None:
    class Endless(Model):
        async def _examined(self, request: Request) -> AsyncGenerator[Delta, None]:
            while True:
                yield Delta(text="a")
                await asyncio.sleep(0)

    with live(Endless(lambda request: "Hi"), "hermes", prompts=template(), sessions=True) as server:
        session = made(server)
        (problem,) = session["problems"]
        assert "could not be examined: the engine does not stop" in problem
        ask(session, server, CHAT, messages=HI)
        found = trajectory(server, session)
        assert (found["calls"][0]["problems"], found["exact"]) == ([problem], False)


def test_only_calls_before_the_engine_could_be_examined_are_not_exact() -> None:
    class Late(Model):
        ready = False

        async def _examined(self, request: Request) -> AsyncGenerator[Delta, None]:
            if not self.ready:
                raise EngineError("it is busy", 503)
            async for delta in super()._examined(request):
                yield delta

    model = Late(lambda request: "Hi")
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        session = made(server)
        assert not session["exact"]
        ask(session, server, CHAT, messages=HI)
        model.ready = True
        ask(session, server, CHAT, messages=[{"role": "user", "content": "Ho"}])
        found = trajectory(server, session)
    assert [row["exact"] for row in found["rows"]] == [False, True]
    assert "the engine could not be examined: it is busy" in str(found["rows"][0]["problems"])
    assert (found["problems"], found["exact"]) == ([], False)


class Adding(Model):
    """A model whose engine adds a token to prompts."""

    async def _examined(self, request: Request) -> AsyncGenerator[Delta, None]:
        async for delta in super()._examined(request):
            usage = delta.usage and msgspec.structs.replace(delta.usage, prompt_tokens=100)
            yield msgspec.structs.replace(delta, usage=usage)


@pytest.mark.parametrize("kinds", [(Adding, Model), (Model, Adding)])
def test_a_run_is_as_exact_as_the_engine_that_it_used_whichever_comes_after_it(
    kinds: tuple[type[Model], type[Model]], tmp_path: Path
) -> None:
    first, then = kinds
    options: Any = {"prompts": template(), "sessions": True}
    with live(first(lambda _: "Hi"), "hermes", **options, store=Store(tmp_path / "store.db")) as server:
        session = made(server)
        ask(session, server, CHAT, messages=HI)
        before = trajectory(server, session)
    with live(then(lambda _: "Hi"), "hermes", **options, store=Store(tmp_path / "store.db")) as server:
        other = made(server)
        assert other["exact"] == (then is Model)
        assert trajectory(server, session) == before
        assert before["exact"] == (first is Model)


class Plain(Model):
    """A model whose engine shows no special tokens."""

    shows_special = False


def test_a_run_on_an_engine_that_hides_special_tokens_is_not_exact() -> None:
    with live(Plain(lambda _: "Hi"), "hermes", prompts=template(), sessions=True) as server:
        session = made(server)
        assert session["problems"] == ["the engine hides special tokens, among them those of calls"]
        ask(session, server, CHAT, messages=HI)
        assert not trajectory(server, session)["exact"]


class Loading:
    """A tokenizer that is its engine's, which is not there yet."""

    def __getattr__(self, name: str) -> Any:
        return getattr(TOKENIZER, name)

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        raise EngineError("the model is not loaded", 503)


@pytest.mark.parametrize(
    ("path", "body"), [(CHAT, {"messages": HI}), ("/v1/completions", {"prompt": "Hi"}), ("/tokenize", {"prompt": "Hi"})]
)
def test_a_tokenizer_that_is_not_there_yet_is_a_503(
    server: Live, model: Model, monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    session = made(server)
    monkeypatch.setattr(model, "tokenizer", Loading())
    answer = ask(session, server, path, **body)
    assert (answer.status_code, "the model is not loaded" in answer.text) == (503, True)


def test_metadata_of_any_kind_and_size_fails_no_later_request(server: Live) -> None:
    session = made(server, metadata={"\ud800": "\ud800"})
    path = f"/sessions/{session['id']}"
    refused = server.post(f"{path}/reward", reward=1, metadata={"a": 2**70})
    assert (refused.status_code, "metadata: has an integer" in refused.text) == (400, True)
    codes = [server.post(f"{path}/reward", reward=i, metadata={str(i): "x" * 300_000}).status_code for i in range(6)]
    assert codes == [200, 200, 200, 400, 400, 400]
    assert ask(session, server, CHAT, messages=HI, tools=[tool("\ud800")]).status_code == 200
    body = {"messages": HI, "max_tokens": 9, "max_output_tokens": 2**80, "max_completion_tokens": "\ud800"}
    assert ask(session, server, "/v1/messages", **body).status_code == 200
    found = trajectory(server, session)
    assert (found["reward"], found["metadata"]["\ufffd"], len(found["calls"])) == (2, "\ufffd", 2)
    assert found["problems"] == []


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_session_that_is_empty_or_broken_off_has_a_trajectory(server: Live, form: str, encoding: str) -> None:
    session = made(server)
    path = f"/sessions/{session['id']}/trajectory?format={form}&encoding={encoding}"
    assert server.http.get(path).status_code == 200
    ask(session, server, CHAT, messages=HI)
    answer = server.http.get(path)
    assert answer.status_code == (409 if form == "prime-rl" else 200), answer.text
    assert form != "prime-rl" or "the temperature of call" in answer.text


class Hiding(Model):
    """A model whose engine reports less."""

    def __init__(self, hidden: str) -> None:
        super().__init__(lambda request: "Hello.")
        self.hidden = hidden

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        async for delta in super().generate(request):
            if self.hidden == "tokens":
                yield msgspec.structs.replace(delta, token_ids=(), sampled=None)
            elif delta.sampled is None:
                yield delta
            else:
                none = (None,) * len(delta.sampled.ids)
                yield msgspec.structs.replace(delta, sampled=msgspec.structs.replace(delta.sampled, logprobs=none))


@pytest.mark.parametrize("hidden", ["tokens", "log-probabilities"])
def test_what_an_engine_does_not_report_is_named_and_no_shape_of_a_trainer_is_empty_instead(hidden: str) -> None:
    with live(Hiding(hidden), "hermes", prompts=template(), sessions=True) as server:
        session = made(server, sampling={"temperature": 1.0})
        assert not session["exact"]
        ask(session, server, CHAT, messages=HI)
        found = trajectory(server, session)
        (call,) = found["calls"]
        problem = {"tokens": "did not report the tokens", "log-probabilities": "7 of 7 tokens have no log-probability"}
        assert problem[hidden] in call["problems"][0]
        assert [row["problems"] for row in found["rows"]] == [call["problems"]] * (hidden != "tokens")
        assert not any(any(row["loss_mask"]) for row in found["rows"])
        for form in FORMATS[1:]:
            refused = server.http.get(f"/sessions/{session['id']}/trajectory", params={"format": form})
            assert (refused.status_code, hidden in refused.text.replace("probability", "probabilities")) == (409, True)


def test_a_sessions_sampling_replaces_that_of_requests(server: Live, model: Model) -> None:
    session = made(server, sampling={"temperature": 1.0, "top_p": 1, "max_tokens": 5})
    ask(session, server, CHAT, messages=HI, temperature=0.1, max_tokens=50, top_k=3)
    asked = model.requests[0]
    assert (asked.sampling.temperature, asked.sampling.top_p, asked.sampling.top_k) == (1.0, 1, 3)
    assert asked.max_tokens == 5
    (call,) = trajectory(server, session)["calls"]
    assert call["sampling"] == {"temperature": 1.0, "top_p": 1, "top_k": 3, "max_tokens": 5}
    assert call["requested"] == {"temperature": 0.1, "max_tokens": 50, "top_k": 3}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"id": "../x"}, "id"),
        ({"id": 7}, "id"),
        ({"sampling": {"temprature": 1}}, "sampling.temprature"),
        ({"sampling": {"top_k": 1.5}}, "sampling.top_k"),
        ({"limits": {"calls": 0}}, "limits.calls"),
        ({"limits": {"turns": 3}}, "limits"),
        ({"metadata": []}, "metadata"),
        ({"name": "x"}, "name"),
    ],
)
def test_what_is_wrong_in_a_request_is_named(server: Live, fields: dict[str, Any], named: str) -> None:
    answer = server.post("/sessions", **fields)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]


def test_an_unknown_field_of_a_query_is_named(server: Live) -> None:
    own = f"/sessions/{made(server)['id']}"
    for path in ("/sessions?before=3", "/sessions?limit=2&x=", f"{own}?x=1", f"{own}/trajectory?formats=trl"):
        answer = server.http.get(path)
        assert answer.status_code == 400
        assert "is unknown; allowed are" in answer.json()["error"]["message"]


def test_a_medium_that_the_template_does_not_write_is_refused_in_a_session_as_elsewhere(server: Live) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + b64encode(png()).decode()}}
    body = {"messages": [{"role": "user", "content": [part]}]}
    answer = ask(made(server), server, CHAT, **body)
    assert answer.json() == server.post(CHAT, **body).json()
    assert "the engine (model)" in answer.json()["error"]["message"]


def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(server: Live) -> None:
    session = f"/sessions/{made(server)['id']}"
    paths = {
        "/sessions": "GET, POST", session: "DELETE, GET", f"{session}/trajectory": "GET", f"{session}/finish": "POST",
    }  # fmt: skip
    for path, allowed in paths.items():
        for method in {"PUT", "PATCH", "GET", "POST", "DELETE"} - set(allowed.split(", ")):
            answer = server.http.request(method, path)
            assert (answer.status_code, answer.headers.get("allow")) == (405, allowed), (method, path)
    assert server.http.put(f"{session}/other").status_code == 404


def test_an_id_is_used_once(server: Live) -> None:
    made(server, id="mine")
    again = server.post("/sessions", id="mine")
    assert (again.status_code, again.json()["error"]["param"]) == (409, "id")


# -- retries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("named", [{"x-stainless-retry-count": "1"}, {"Idempotency-Key": "k"}])
def test_a_retry_of_an_answered_request_gets_the_same_answer(
    server: Live, model: Model, named: dict[str, str], streamed: bool
) -> None:
    session = made(server)
    first = {"x-stainless-retry-count": "0"} if "x-stainless-retry-count" in named else named
    body = {"messages": HI, "stream": streamed}
    texts = [
        server.http.post(CHAT, json=body, headers={**bearer(session["key"]), **headers}).text
        for headers in (first, named, named)
    ]
    assert len(set(texts)) == 1
    assert len(model.requests) == 1
    again = server.http.post(CHAT, json=body, headers={**bearer(session["key"]), "x-stainless-retry-count": "0"})
    assert again.status_code == 200
    assert calls(server, session) == 2


class Breaking(Model):
    """Fails in the middle of its first answer."""

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        count = 0
        async for delta in super().generate(request):
            yield delta
            count += 1
            if len(self.requests) == 1 and count == 3:
                raise EngineError("device lost", 500)


def test_a_retry_of_a_stream_that_failed_is_answered_anew() -> None:
    with live(Breaking(lambda request: "Hello."), "hermes", prompts=template(), sessions=True) as server:
        session = made(server)
        headers = {**bearer(session["key"]), "Idempotency-Key": "k"}
        body = {"messages": HI, "stream": True}
        failed, whole, again = (server.http.post(CHAT, json=body, headers=headers).text for _ in range(3))
    assert "error" in failed
    assert whole.endswith("data: [DONE]\n\n")
    assert again == whole


async def nothing(session: Session, scope: Any, body: bytes, send: Any) -> bool:
    return True


async def test_an_answer_that_is_too_large_for_retries_is_not_kept_while_it_is_written() -> None:
    async def done(send: Any) -> bool:
        return True

    answer = _RetriedAnswer(done, _nowhere, Retries(nothing))
    await answer.work
    await answer.send({"type": "http.response.start", "status": 200})
    for _ in range(100):
        await answer.send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        assert answer.size <= 8 << 20
    assert not answer.good


async def test_answers_that_are_being_written_are_bounded_together_with_those_that_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unspool.server.retries._ALL", most := 1 << 20)
    worked: list[bytes] = []

    async def work(session: Session, scope: Any, body: bytes, send: Any) -> bool:
        worked.append(body)
        await send({"type": "http.response.start", "status": 200})
        for _ in range(40 if body == b"large" else 1):
            await send({"type": "http.response.body", "body": bytes(10_000), "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})
        return True

    session = await Sessions(Store()).create(None, {}, SessionLimits(), {})
    retries = Retries(work)

    async def ask(name: bytes, body: bytes) -> int:
        client = Reading()
        scope = {"path": CHAT, "headers": [(b"idempotency-key", name)]}
        await retries.answer(session, scope, body, client.send)
        return sum(map(len, client.parts))

    def held() -> int:
        return sum(answer.size for kept in (retries._running, retries._kept) for answer in kept.values())

    for _ in range(2):
        asked = asyncio.gather(*(ask(b"%d" % n, b"large") for n in range(12)))
        highest = 0
        while not asked.done():
            highest = max(highest, held())
            await asyncio.sleep(0)
        assert await asked == [400_000] * 12
        assert most // 2 < highest <= most
        assert retries._kept
    worked.clear()
    assert [await ask(b"small", b"small") for _ in range(2)] == [10_000] * 2
    assert worked == [b"small"]
    assert held() <= retries._size <= most


@pytest.mark.parametrize("limit", [("_ALL", 36_000), ("_AGE", 0.5)])
def test_the_answers_of_all_sessions_that_are_kept_for_retries_are_bounded_in_bytes_and_time(
    server: Live, model: Model, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, Any]
) -> None:
    monkeypatch.setattr(f"unspool.server.retries.{limit[0]}", limit[1])
    keys = [made(server)["key"] for _ in range(8)]

    def asked(key: str, attempt: str) -> int:
        before = len(model.requests)
        headers = {**bearer(key), "x-stainless-retry-count": attempt}
        assert server.http.post(CHAT, json={"messages": HI}, headers=headers).status_code == 200
        return len(model.requests) - before

    assert [asked(key, "0") for key in keys[:4]] == [1] * 4
    assert [asked(key, "1") for key in keys[:4]] == [0] * 4
    time.sleep(0.6 if limit[0] == "_AGE" else 0)
    assert [asked(key, "0") for key in keys[4:]] == [1] * 4
    assert [asked(key, "1") for key in keys[4:]] == [0] * 4
    assert asked(keys[0], "1") == 1


def test_an_answer_that_is_too_large_for_retries_is_generated_again_and_replaced(
    server: Live, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.server.retries._SIZE", 100)
    session = made(server)
    for attempt in "0012":
        headers = {**bearer(session["key"]), "x-stainless-retry-count": attempt}
        server.http.post(CHAT, json={"messages": HI, "n": 2}, headers=headers)
    assert len(model.requests) == 8
    found = trajectory(server, session)
    check(found, model.record)
    ids = [call["id"] for call in found["calls"]]
    pairs = [ids[at : at + 2] for at in range(0, 8, 2)]
    assert [{id for _, id in call["edges"]} for call in found["calls"]] == [
        *[set()] * 4, *[set(pairs[1])] * 2, *[set(pairs[2])] * 2,
    ]  # fmt: skip
    roles = {row["calls"][0]: row["role"] for row in found["rows"]}
    assert [roles[id] for id in ids] == [*["agent"] * 2, *["discarded"] * 4, *["agent"] * 2]
    assert len(trajectory(server, session, format="trl")["prompt_ids"]) == 4


def test_a_retry_that_is_broken_off_replaces_nothing(
    server: Live, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.server.retries._SIZE", 100)
    session = made(server)
    headers = {**bearer(session["key"]), "Idempotency-Key": "k"}
    sent = {"messages": HI, "stream": True}
    assert server.http.post(CHAT, json=sent, headers=headers).text.endswith("[DONE]\n\n")
    model.pause = 0.05
    with server.http.stream("POST", CHAT, json=sent, headers=headers) as answer:
        next(answer.iter_lines())
    until(lambda: calls(server, session) == 2)
    found = trajectory(server, session)
    assert [call["finish_reason"] for call in found["calls"]] == ["stop", "abort"]
    assert found["rows"][0]["role"] == "agent"
    assert found["rows"][0]["calls"] == [found["calls"][0]["id"]]


def test_a_retry_does_not_join_an_answer_that_is_being_broken_off(server: Live, model: Model) -> None:
    session = made(server)
    headers = {**bearer(session["key"]), "Idempotency-Key": "k"}
    sent = {"messages": HI, "stream": True}
    model.pause, model.ending = 0.02, 0.5
    with server.http.stream("POST", CHAT, json=sent, headers=headers) as answer:
        next(answer.iter_lines())
    time.sleep(0.1)
    assert model.running
    model.ending = 0.0
    assert server.http.post(CHAT, json=sent, headers=headers).text.endswith("[DONE]\n\n")


class Hanging(Model):
    """Hangs in the second choice of its first answers, so many of them."""

    def __init__(self, hanging: int) -> None:
        super().__init__(lambda request: "Hello.")
        self.hanging = 2 * hanging

    async def generate(self, request: Request) -> AsyncGenerator[Delta, None]:
        hangs = request.choice == 1 and len(self.requests) < self.hanging
        async for delta in super().generate(request):
            yield delta
            if hangs:
                await asyncio.sleep(PATIENCE)


@pytest.mark.parametrize("hanging", [1, 2])
def test_a_retry_replaces_the_choices_that_its_broken_attempts_had_finished(hanging: int) -> None:
    model = Hanging(hanging)
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        session = made(server)
        headers = {**bearer(session["key"]), "Idempotency-Key": "k"}
        sent = {"messages": HI, "stream": True, "n": 2}
        for attempts in range(1, hanging + 1):
            with server.http.stream("POST", CHAT, json=sent, headers=headers) as answer:
                next(line for line in answer.iter_lines() if '"finish_reason":"stop"' in line)
            until(partial(lambda wanted: calls(server, session) == wanted, 2 * attempts))
        assert server.http.post(CHAT, json=sent, headers=headers).text.endswith("[DONE]\n\n")
        found = trajectory(server, session)
        trained = trajectory(server, session, format="trl")["prompt_ids"]
    check(found, model.record)
    ids = [call["id"] for call in found["calls"]]
    edges = [[id for _, id in call["edges"]] for call in found["calls"]]
    assert [sorted(named) for named in edges] == [[]] * (2 * hanging) + [sorted(ids[:-2])] * 2
    assert [row["calls"][0] for row in found["rows"] if row["role"] == "agent"] == ids[-2:]
    assert len(trained) == 2


class Reading:
    """A client that reads as many parts as it is allowed to."""

    def __init__(self, allowed: int | None = None) -> None:
        self.parts: list[bytes] = []
        self.allowed = allowed
        self.allows = asyncio.Event()

    async def send(self, message: Any) -> None:
        while self.allowed is not None and len(self.parts) >= self.allowed:
            self.allows.clear()
            await self.allows.wait()
        await asyncio.sleep(0)
        if message["type"] == "http.response.body":
            self.parts.append(message["body"])

    def allow(self, allowed: int | None) -> None:
        self.allowed = allowed
        self.allows.set()


PARTS = [b"%d " % n * 20_000 for n in range(1000, 1400)]


async def write(send: Any) -> bool:
    await send({"type": "http.response.start", "status": 200})
    for part in PARTS:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return True


async def test_a_client_that_does_not_read_delays_no_retry_and_gets_everything_once_it_reads() -> None:
    slow, fast = Reading(3), Reading()
    answer = _RetriedAnswer(write, slow.send, Retries(nothing))
    first = asyncio.ensure_future(answer.first())
    while len(slow.parts) < 3:
        await asyncio.sleep(0)
    retry = asyncio.ensure_future(answer.again(fast.send))
    while len(fast.parts) < 100:
        await asyncio.sleep(0)
    slow.allow(None)
    await asyncio.gather(first, retry)
    assert fast.parts == slow.parts == [*PARTS, b""]
    assert answer.size == 0
    assert not answer.good


@pytest.mark.parametrize("slow_first", [False, True])
async def test_a_client_that_is_far_behind_another_is_disconnected_and_what_is_kept_is_bounded(
    slow_first: bool,
) -> None:
    slow, fast = Reading(3), Reading()
    one, two = (slow, fast) if slow_first else (fast, slow)
    answer = _RetriedAnswer(write, one.send, Retries(nothing))
    first = asyncio.ensure_future(answer.first())
    await asyncio.sleep(0)
    retry = asyncio.ensure_future(answer.again(two.send))
    for reading in (first, retry):
        reading.add_done_callback(lambda _: slow.allow(None))
    while not (first.done() and retry.done()):
        assert answer.size < 17 << 20
        await asyncio.sleep(0)
    assert fast.parts == [*PARTS, b""]
    assert slow.parts == PARTS[:4]


async def test_an_answer_waits_for_the_fastest_of_its_clients() -> None:
    clients = [Reading(9), Reading(7)]
    answer = _RetriedAnswer(write, clients[0].send, Retries(nothing))
    reading = [asyncio.ensure_future(answer.first()), asyncio.ensure_future(answer.again(clients[1].send))]
    for _ in range(2000):
        await asyncio.sleep(0)
    assert answer.size < 3 << 20
    for one in reading:
        one.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    await asyncio.sleep(0)
    assert answer.work.cancelled()
    assert answer.size < 3 << 20


def test_a_retry_of_a_stream_that_its_first_client_does_not_read_is_answered_whole(server: Live, model: Model) -> None:
    session = made(server)
    model.write = lambda request: "Hello. " * 4000
    body = {"messages": HI, "stream": True}
    key = f"Authorization: Bearer {session['key']}\r\nx-stainless-retry-count: "
    connection = server.request(CHAT, f"{key}0\r\n", **body)
    until(lambda: model.running)
    sampled = -1
    while sampled != (sampled := len(model.record[0].ids)):
        time.sleep(0.5)
    assert model.running
    headers = {**bearer(session["key"]), "x-stainless-retry-count": "1"}
    again = server.http.post(CHAT, content=json.dumps(body), headers=headers)
    connection.close()
    assert again.text.endswith("data: [DONE]\n\n")
    assert len(model.requests) == 1


def test_a_client_that_gives_up_and_tries_again_joins_its_first_attempt(server: Live, model: Model) -> None:
    session = made(server)
    model.pause = 0.2
    headers, sent = bearer(session["key"]), {"messages": HI}
    for attempt in "01":
        with pytest.raises(httpx2.TimeoutException):
            server.http.post(CHAT, json=sent, headers={**headers, "x-stainless-retry-count": attempt}, timeout=0.4)
    answer = server.http.post(CHAT, json=sent, headers={**headers, "x-stainless-retry-count": "2"})
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert len(model.requests) == 1
    assert calls(server, session) == 1


def test_an_agent_that_leaves_in_the_middle_of_an_answer_ends_it_and_keeps_its_tokens(
    server: Live, model: Model
) -> None:
    session = made(server)
    model.pause = 0.02
    model.write = lambda request: "Hello." * 500
    with server.http.stream(
        "POST", CHAT, json={"messages": HI, "stream": True}, headers=bearer(session["key"])
    ) as answer:
        for line in answer.iter_lines():
            if '"H"' in line:
                break
    until(lambda: not model.running)
    until(lambda: calls(server, session))
    found = trajectory(server, session)
    check(found, model.record)
    assert found["calls"][0]["finish_reason"] == "abort"
    assert [row["role"] for row in found["rows"]] == ["discarded"]


# -- shapes ------------------------------------------------------------------------------------------------------------


def test_trajectories_come_in_the_shapes_of_trainers(server: Live, model: Model) -> None:
    session = made(server, sampling={"temperature": 1.0})
    ask(session, server, CHAT, messages=HI)
    server.post(f"/sessions/{session['id']}/finish", reward=1)
    (row,) = trajectory(server, session)["rows"]
    at = row["prompt_length"]
    trl = trajectory(server, session, format="trl")
    assert trl["prompt_ids"] == [row["input_ids"][:at]]
    assert trl["completion_ids"] == [row["input_ids"][at:]]
    assert trl["env_mask"] == [row["loss_mask"][at:]]
    assert trl["reward"] == [1.0]
    (verl,) = trajectory(server, session, format="verl")
    assert (verl["response_mask"], verl["reward_score"]) == (row["loss_mask"][at:], 1.0)
    (prime,) = trajectory(server, session, format="prime-rl")
    assert len({len(prime[name]) for name in ("token_ids", "mask", "logprobs", "temperatures")}) == 1
    (nemo,) = trajectory(server, session, format="nemo-rl")
    assert [i for m in nemo["message_log"] for i in m["token_ids"]] == row["input_ids"]
    assert [m["role"] for m in nemo["message_log"]] == ["user", "assistant"]
    skyrl = trajectory(server, session, format="skyrl")
    assert skyrl["response_ids"] == [row["input_ids"][at:]]
    path = f"/sessions/{session['id']}/trajectory"
    for form in FORMATS:
        lines = server.http.get(path, params={"format": form, "encoding": "jsonl"}).text.splitlines()
        assert [isinstance(json.loads(line), dict) for line in lines] == [True]
        data = server.http.get(path, params={"format": form, "encoding": "arrow"}).content
        assert pa.ipc.open_stream(data).read_all().num_rows == 1
    assert server.http.get(path, params={"format": "x"}).status_code == 400
    assert tree(trajectory(server, session)) == [(None, None)]


def test_rows_say_of_which_model_they_are_and_no_trainer_gets_those_of_several(model: Model) -> None:
    another = Model(lambda request: "Hello, too.")
    served = Served(Settings(model="other", dialect=get_dialect("hermes"), sessions=True), another, template())
    with live(model, "hermes", prompts=template(), sessions=True, others=[served]) as server:
        session = made(server)
        first = ask(session, server, CHAT, messages=HI).json()["choices"][0]["message"]
        ask(session, server, CHAT, model="other", messages=HI)
        ask(session, server, CHAT, messages=[*HI, first, *HI])
        found = trajectory(server, session)
        check(found, [*model.record, *another.record])
        assert [call["model"] for call in found["calls"]] == ["served", "other", "served"]
        roles = {row["model"]: (row["role"], len(row["calls"])) for row in found["rows"]}
        assert roles == {"served": ("agent", 2), "other": ("agent", 1)}, (
            "another model's answer is passed over for none"
        )
        path = f"/sessions/{session['id']}/trajectory"
        for form in FORMATS[1:]:
            refused = server.http.get(path, params={"format": form})
            assert refused.status_code == 409
            assert "several models; choose one: other, served" in refused.text
        assert len(trajectory(server, session, format="trl", model="other")["prompt_ids"]) == 1
        refused = server.http.get(path, params={"model": "x"})
        assert (refused.status_code, "'x' is not one of served, other" in refused.text) == (400, True)


def test_stored_responses_belong_to_their_session_and_go_on_in_it(locked: Live) -> None:
    one, other = made(locked), made(locked)
    client, stranger = (locked.openai.with_options(api_key=its["key"]) for its in (one, other))
    first = client.responses.create(model="m", input="Hi")
    second = client.responses.create(model="m", input="And?", previous_response_id=first.id)
    by_path = locked.openai.with_options(base_url=one["url"])
    assert by_path.responses.retrieve(second.id).previous_response_id == first.id
    for not_theirs in (stranger, locked.openai):
        with pytest.raises(openai.NotFoundError):
            not_theirs.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError):
            not_theirs.responses.create(model="m", input="And?", previous_response_id=first.id)
    told = trajectory(locked, one)
    assert tree(told) == [(None, None), (0, None)]
    assert len(told["rows"]) == 1


async def test_a_run_that_is_deleted_while_it_is_finished_stays_deleted() -> None:
    sessions = Sessions(Store())
    session = await sessions.create("s", {}, SessionLimits(), {})
    await asyncio.gather(sessions.delete("s"), session.finish(1.0), return_exceptions=True)
    assert await sessions.all() == []
