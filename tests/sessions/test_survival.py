"""What was acknowledged survives the server's end by force, and hundreds of sessions run at once."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest

from unspool.sessions import Session, SessionLimits, Sessions
from unspool.sessions.records import CALL, OWNER, SESSION, Recorded, put_call
from unspool.store import Store

from ..loopback import free_port, listens
from ..server.support import CHAT, HEAD, PATIENCE, Live, live, until
from ..server.writing import template
from .support import Model, ask, check, made, trajectory, tree

HI: Any = [{"role": "user", "content": "Hi"}]
SERVER = """
import sys
from unspool import get_dialect
from unspool.server import Settings
from unspool.server.main import serve
from unspool.store import Store
from tests.server.writing import template
from tests.sessions.support import Model

settings = Settings(model="m", dialect=get_dialect("hermes"), sessions=True)
serve(settings, Model(lambda request: "Hello."), port=int(sys.argv[1]), prompts=template(), store=Store(sys.argv[2]))
"""


def start(port: int, file: Path) -> "subprocess.Popen[bytes]":
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port), str(file)], cwd=root, stderr=subprocess.DEVNULL
    )
    until(lambda: listens(port), 120)
    return process


@pytest.mark.slow
def test_no_acknowledged_call_is_lost_when_the_server_is_killed_and_its_sessions_go_on(tmp_path: Path) -> None:
    port = free_port()
    url, file = f"http://127.0.0.1:{port}", tmp_path / "store.db"
    with httpx2.Client(timeout=PATIENCE, verify=False) as client:
        process = start(port, file)
        session = client.post(f"{url}/sessions", json={"metadata": {"task": 1}}).json()
        headers = {"Authorization": f"Bearer {session['key']}"}
        history = list(HI)
        for _ in range(3):
            answer = client.post(url + CHAT, json={"messages": history}, headers=headers).json()
            history += [answer["choices"][0]["message"], {"role": "user", "content": "And?"}]
        before = client.get(f"{url}/sessions/{session['id']}/trajectory", headers=headers).json()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process = start(port, file)
        try:
            after = client.get(f"{url}/sessions/{session['id']}/trajectory", headers=headers).json()
            assert after == before
            answer = client.post(url + CHAT, json={"messages": history}, headers=headers)
            assert answer.status_code == 200
            found = client.get(f"{url}/sessions/{session['id']}/trajectory", headers=headers).json()
        finally:
            process.kill()
            process.wait()
    assert len(found["calls"]) == 4
    assert found["calls"][3]["parent"] == before["calls"][2]["id"]
    assert found["calls"][3]["fork"] is None
    assert [len(row["calls"]) for row in found["rows"]] == [4]


@pytest.mark.parametrize("grows", [False, True])
def test_a_full_disk_marks_the_run_and_never_the_answer_and_its_calls_are_stored_once_there_is_room(
    grows: bool, tmp_path: Path
) -> None:
    model, file = Model(lambda request: "Hello. " * 200), tmp_path / "store.db"
    store = Store(file)
    history: list[Any] = list(HI)

    def go_on(server: Live) -> None:
        message = ask(session, server, CHAT, messages=history).json()["choices"][0]["message"]
        history.extend((message, {"role": "user", "content": "And?"}))

    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        session = made(server)
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        for _ in range(3):
            go_on(server)
        told = trajectory(server, session)
        check(told, model.record, exact=False)
        assert not told["exact"]
        about = server.http.get(f"/sessions/{session['id']}").json()
        assert [["calls are not in the store yet" in p for p in one["problems"]] for one in (told, about)] == [
            [True]
        ] * 2
        if grows:
            store._db.execute("PRAGMA max_page_count = 1000000")
            server.post(f"/sessions/{session['id']}/finish")
            check(trajectory(server, session), model.record)
    with live(model, "hermes", prompts=template(), sessions=True, store=Store(file)) as server:
        if not grows:
            go_on(server)
        found = trajectory(server, session)
    if grows:
        check(found, model.record)
        assert tree(found) == [(None, None), (0, None), (1, None)]
    else:  # what was lost stays lost, nothing refers to it, and the run says so
        check(found, model.record[-1:], exact=False)
        assert found["problems"] == ["calls may be lost: the server ended while the store could not take them"]


@pytest.mark.parametrize("kept", ["nothing", "another's call", "all", "deleted"])
def test_a_run_says_after_a_restart_that_the_server_ended_while_calls_waited_for_a_full_store(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.sessions.registry._AGAIN", PATIENCE)
    model, file = Model(lambda request: "Hello. " * 200), tmp_path / "store.db"
    store = Store(file)
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        one, other, finished = made(server, id="one"), made(server, id="other"), made(server, id="finished")
        ask(finished, server, CHAT, messages=HI)
        assert server.post("/sessions/finished/finish").status_code == 200
        assert (tmp_path / "store.db-sessions").read_bytes()
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        for session in (one, one, other):
            assert ask(session, server, CHAT, messages=HI).status_code == 200
        assert not (tmp_path / "store.db-sessions").read_bytes()
        store._db.execute("PRAGMA max_page_count = 1000000")
        if kept != "nothing":
            ask(other, server, CHAT, messages=HI)
        if kept == "all":
            ask(one, server, CHAT, messages=HI)
        if kept == "deleted":
            assert server.http.delete("/sessions/one").status_code == 200
        assert bool((tmp_path / "store.db-sessions").read_bytes()) == (kept in ("all", "deleted"))
        store._db.execute("PRAGMA query_only = 1")
    lost = kept in ("nothing", "another's call")
    for _ in range(2):
        with live(model, "hermes", prompts=template(), sessions=True, store=Store(file)) as server:
            found = [trajectory(server, session) for session in (other, finished)]
            assert ["calls may be lost" in str(run["problems"]) for run in found] == [lost, False]
            assert [run["exact"] for run in found] == [not lost, True]
            assert ask(other, server, CHAT, messages=HI).status_code == 200


@pytest.mark.parametrize("looked", [True, False])
def test_a_run_says_so_even_if_the_store_is_still_full_at_the_restart(looked: bool, tmp_path: Path) -> None:
    model, file = Model(lambda request: "Hello. " * 200), tmp_path / "store.db"
    store = Store(file)
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        session, other = made(server), made(server)
        store._db.execute("PRAGMA max_page_count = 1")
        ask(session, server, CHAT, messages=HI)
    for full in (True, False, False):
        store = Store(file)
        store._db.execute(f"PRAGMA query_only = {int(full)}")
        with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
            if full:  # calls that are stored later do not hide what was lost before
                ask(other, server, CHAT, messages=HI)
                store._db.execute("PRAGMA query_only = 0")
                ask(other, server, CHAT, messages=HI)
            if looked or not full:
                (problem,) = trajectory(server, session)["problems"]
                assert "calls may be lost" in problem


def test_a_damaged_session_keeps_no_other_from_being_told_what_may_be_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, file = Model(lambda request: "Hello."), tmp_path / "store.db"
    with live(model, "hermes", prompts=template(), sessions=True, store=Store(file)) as server:
        made(server, id="damaged"), made(server, id="other")
    (tmp_path / "store.db-sessions").write_bytes(b"")  # as if the server had ended while calls waited
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("UPDATE records SET data = X'C0' WHERE kind = ? AND id = ?", [SESSION, b"damaged"])
    with live(model, "hermes", prompts=template(), sessions=True, store=Store(file)) as server:
        headers = {"Authorization": f"Bearer {server.openai.api_key}"}
        found = server.http.get("/sessions/other/trajectory", headers=headers).json()
        assert "calls may be lost" in str(found["problems"])
    assert [r.getMessage().partition(":")[0] for r in caplog.records if r.levelname in ("WARNING", "ERROR")] == [
        "session damaged cannot be read"
    ]
    assert (tmp_path / "store.db-sessions").read_bytes()


def test_a_session_can_be_deleted_where_there_is_no_room_for_a_note(tmp_path: Path) -> None:
    claim = Store(tmp_path / "store.db").claim("sessions")
    claim.begin()
    claim.wait("x", 1)
    size = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, size[1]))
    try:
        claim.stored("x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
    assert not (tmp_path / "store.db-sessions").read_bytes()


@pytest.mark.parametrize("ends", [False, True])
def test_calls_that_wait_for_a_full_store_are_stored_even_if_nothing_more_comes(
    ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.sessions.registry._AGAIN", PATIENCE if ends else 0.1)
    model, file = Model(lambda request: "Hello."), tmp_path / "store.db"
    store = Store(file)
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        session = made(server)
        store._db.execute("PRAGMA query_only = 1")
        for _ in range(2):
            ask(session, server, CHAT, messages=HI)
        assert trajectory(server, session)["problems"]
        store._db.execute("PRAGMA query_only = 0")
        if not ends:
            until(lambda: not trajectory(server, session)["problems"])
            store._db.execute("PRAGMA query_only = 1")
    with live(model, "hermes", prompts=template(), sessions=True, store=Store(file)) as server:
        check(trajectory(server, session), model.record)


def test_calls_beyond_what_may_wait_for_a_full_store_are_lost_and_their_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.sessions.session._WAITING", 20_000)
    monkeypatch.setattr("unspool.sessions.registry._AGAIN", 0.1)
    lost = "calls are lost: the store is full, and no more may wait for it"
    model, store = Model(lambda request: "Hello."), Store(tmp_path / "store.db")
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        one, other, third = made(server), made(server), made(server)
        store._db.execute("PRAGMA query_only = 1")
        assert [ask(one, server, CHAT, messages=HI).status_code for _ in range(20)] == [200] * 20
        kept = len(trajectory(server, one)["calls"])
        assert 3 < kept < 20
        for _ in range(2):  # a session learns by its first call that the store is full
            assert ask(other, server, CHAT, messages=HI).status_code == 200
        assert [len(trajectory(server, other)["calls"]), trajectory(server, other)["problems"][0]] == [1, lost]
        store._db.execute("PRAGMA query_only = 0")
        until(lambda: [trajectory(server, session)["problems"] for session in (one, other)] == [[lost], [lost]])
        for session in (one, other, third):
            assert ask(session, server, CHAT, messages=HI).status_code == 200
    with live(model, "hermes", prompts=template(), sessions=True, store=Store(tmp_path / "store.db")) as server:
        found = [trajectory(server, session) for session in (one, other, third)]
    assert [len(run["calls"]) for run in found] == [kept + 1, 2, 1]
    assert [run["problems"] for run in found] == [[lost], [lost], []]
    assert [run["exact"] for run in found] == [False, False, True]


def test_a_finished_run_that_makes_room_for_others_takes_what_waits_with_it() -> None:
    model, store = Model(lambda request: "Hello. " * 20), Store(size=80_000)
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        finished, other = made(server), made(server)
        while not trajectory(server, finished)["problems"]:
            ask(finished, server, CHAT, messages=HI)
        claim = store.claim("sessions")
        assert claim.waiting
        assert server.post(f"/sessions/{finished['id']}/finish").status_code == 200
        while len(server.http.get("/sessions").json()["data"]) > 1:
            ask(other, server, CHAT, messages=HI)
        assert claim.waiting
        assert trajectory(server, other)["exact"]
        until(lambda: not claim.waiting)
        assert server.post(f"/sessions/{finished['id']}/reward", reward=1).status_code == 404
        assert [one["id"] for one in server.http.get("/sessions").json()["data"]] == [other["id"]]


def test_open_runs_leave_room_for_the_responses_of_others() -> None:
    model, store = Model(lambda request: "Hello. " * 20), Store(size=80_000)
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        session = made(server)
        while not trajectory(server, session)["problems"]:
            ask(session, server, CHAT, messages=HI)
        while (refused := server.post("/sessions")).status_code == 201:
            pass
        assert refused.status_code == 507
        assert "what is open may have 60,000 of its 80,000 bytes" in refused.json()["error"]["message"]
        for _ in range(20):  # those of others go, the oldest first
            answer = server.post("/v1/responses", input="Hi")
            assert server.http.get(f"/v1/responses/{answer.json()['id']}").status_code == 200
        for one in server.http.get("/sessions").json()["data"]:
            assert server.post(f"/sessions/{one['id']}/finish").status_code == 200
        assert server.post("/sessions").status_code == 201


def test_the_key_of_a_run_that_made_room_is_not_good_for_a_later_one_with_its_id() -> None:
    model, store = Model(lambda request: "Hello. " * 20), Store(size=80_000)
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        before = made(server, id="run")
        ask(before, server, CHAT, messages=HI)
        server.post("/sessions/run/finish")
        while server.http.get("/sessions").json()["data"]:
            server.post("/v1/responses", input="Hi")
        now = made(server, id="run")
        assert ask(before, server, CHAT, messages=HI).status_code == 401
        assert ask(now, server, CHAT, messages=HI).status_code == 200


async def test_calls_that_wait_for_a_full_store_are_stored_in_their_order_once_there_is_room(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    session = await Sessions(store).create("s", {}, SessionLimits(), {})
    busy = threading.Event()

    def write(id: str, parent: str = "") -> "asyncio.Future[None]":
        record = Recorded(id=id, parent=parent, prompt_text="x" * 20_000)
        return asyncio.wrap_future(session._write(lambda w: put_call(w, "s", "m", record, {})))

    store._db.execute("PRAGMA max_page_count = 1")
    await write("a")
    second = write("b", "a")
    store.write(lambda w: busy.wait(PATIENCE))
    third = write("c", "b")
    await second
    fourth = write("d", "b")
    busy.set()
    await asyncio.gather(third, fourth)
    assert session.problems
    store._db.execute("PRAGMA max_page_count = 1000000")
    await write("e", "d")
    assert (session.problems, session.idle) == ([], True)
    kept = await store.reading(lambda r: r.children(OWNER, CALL, (SESSION, "s")))
    assert [record.id for record in kept] == ["a", "b", "c", "d", "e"]


def test_a_call_is_stored_whole_although_its_client_leaves_meanwhile(tmp_path: Path) -> None:
    model, store = Model(lambda request: "Hello."), Store(tmp_path / "store.db")
    with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
        session = made(server)
        busy = threading.Event()
        store.write(lambda w: busy.wait(PATIENCE))
        connection = server.request(CHAT, f"Authorization: Bearer {session['key']}\r\n", messages=HI)
        until(lambda: model.requests and not model.running)
        connection.close()
        until(lambda: not server.http.get(f"/sessions/{session['id']}").json()["in_flight"])
        busy.set()
        kept = store.write(lambda w: w.children(OWNER, CALL, (SESSION, session["id"]))).result()
    assert len(kept) == 1


@pytest.mark.slow
def test_hundreds_of_sessions_at_once_keep_apart() -> None:
    model = Model(lambda request: f"I am {request.messages[-1]['content'][:20]}.")
    with live(model, "hermes", prompts=template(), sessions=True, generations=2000, waiting=4000) as server:

        async def agent(client: aiohttp.ClientSession, number: int) -> Any:
            async with client.post("/sessions", json={"id": f"run-{number}"}) as answer:
                session = await answer.json()
            headers = {"Authorization": f"Bearer {session['key']}"}
            history: list[Any] = [{"role": "user", "content": f"agent {number}"}]
            for _ in range(2):
                async with client.post(CHAT, json={"messages": history}, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    message = (await answer.json())["choices"][0]["message"]
                history += [message, {"role": "user", "content": f"agent {number}"}]
            async with client.get(f"/sessions/{session['id']}/trajectory", headers=headers) as answer:
                return await answer.json()

        async def main() -> list[Any]:
            timeout = aiohttp.ClientTimeout(total=300)
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(server.url, timeout=timeout, connector=connector) as client:
                return await asyncio.gather(*(agent(client, number) for number in range(300)))

        found = asyncio.run(main())
    by_prompt = {tuple(s.prompt): s for s in model.record}
    for number, one in enumerate(found):
        assert one["id"] == f"run-{number}"
        own = [by_prompt[tuple(call["prompt_ids"])] for call in one["calls"]]
        check(one, own)
        assert len(one["calls"]) == 2
        text = model.tokenizer.decode(one["rows"][0]["input_ids"], skip_special_tokens=False)
        assert text.count(f"agent {number}<") == 2


def test_idle_sessions_leave_the_memory_and_come_back_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.sessions.registry._MOST", 20_000)
    model = Model(lambda request: "Hello.")
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        sessions = [made(server) for _ in range(8)]
        for _ in range(2):
            for session in sessions:
                headers = {"Authorization": f"Bearer {session['key']}"}
                history = [*HI, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "And?"}]
                for messages in (HI, history):
                    server.http.post(CHAT, json={"messages": messages}, headers=headers)
        for session in sessions:
            found = trajectory(server, session)
            assert len(found["calls"]) == 4
            assert json.dumps(found).count('"fork": null') == 4
            assert sum(call["parent"] is not None for call in found["calls"]) == 2


def test_a_session_that_leaves_the_memory_while_a_request_of_it_arrives_stays_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unspool.sessions.registry._MOST", 1)
    opened: list[str] = []
    keep = Sessions._opened

    def kept(sessions: Sessions, one: Session) -> Session:
        opened.append(one.about.id)
        return keep(sessions, one)

    monkeypatch.setattr(Sessions, "_opened", kept)
    model = Model(lambda request: "Hello.")
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        first, last = made(server), made(server)
        body = json.dumps({"messages": HI}).encode()
        bearer = f"Authorization: Bearer {{}}\r\nContent-Length: {len(body)}\r\n\r\n"
        connections = []
        for session in (first, last):
            connections.append(connection := server.connect())
            connection.sendall(f"POST {CHAT} {HEAD}{bearer.format(session['key'])}".encode() + body[:5])
            until(lambda: opened[-1] == session["id"])  # noqa: B023
            made(server)  # for which the idle ones leave the memory
        assert server.post(f"/sessions/{last['id']}/finish").status_code == 200
        for connection, status in zip(connections, (b"200", b"409"), strict=True):
            connection.sendall(body[5:])
            assert status in connection.recv(1 << 16).split(b"\r\n")[0]
        assert len(trajectory(server, first)["calls"]) == 1
        assert not trajectory(server, last)["calls"]


async def test_sessions_of_a_store_are_listed_page_by_page() -> None:
    store = Store()
    sessions = Sessions(store)
    for number in range(5):
        await sessions.create(f"s{number}", {}, SessionLimits(), {})
    found: list[str] = []
    after = None
    while page := await sessions.all(after, 2):
        found += [about.id for _, about in page]
        after = page[-1][0]
    store.close()
    assert found == [f"s{number}" for number in range(5)]


def test_nothing_that_a_deleted_session_stored_is_left(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with live(Model(lambda request: "Hello."), "hermes", prompts=template(), sessions=True, store=store) as server:
        session, other = made(server), made(server)
        client = server.openai.with_options(api_key=session["key"])
        kept = server.openai.with_options(api_key=other["key"])
        first = client.responses.create(model="m", input="Hi")
        client.responses.create(model="m", input="Hi", previous_response_id=first.id)
        client.responses.create(model="m", input="Hi", conversation=client.conversations.create().id)
        response = kept.responses.create(model="m", input="Hi")
        assert server.http.delete(f"/sessions/{session['id']}").status_code == 200
        assert kept.responses.retrieve(response.id).id == response.id
        assert server.http.delete(f"/sessions/{other['id']}").status_code == 200
    db = sqlite3.connect(tmp_path / "store.db")
    counts = "SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM trees), bytes FROM state"
    assert db.execute(counts).fetchone() == (0, 0, 0)
    db.close()


def test_a_session_that_the_store_could_not_delete_is_still_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with live(Model(lambda request: "Hello."), "hermes", prompts=template(), sessions=True, store=store) as server:
        session = made(server)
        path = f"/sessions/{session['id']}"
        store._db.execute("PRAGMA query_only = 1")
        assert server.http.delete(path).status_code == 503
        store._db.execute("PRAGMA query_only = 0")
        assert ask(session, server, CHAT, messages=HI).status_code == 200
        assert server.http.delete(path).status_code == 200
        assert ask(session, server, CHAT, messages=HI).status_code == 401
        assert server.http.get(path).status_code == 404
