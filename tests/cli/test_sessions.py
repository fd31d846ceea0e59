"""`unspool sessions` lists what a server has recorded, shows it, and writes it for trainers."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.cli import main
from unspool.store import Store

from ..server.support import CHAT, HELLO, WEATHER, Live, live
from ..server.writing import template
from ..sessions.support import Model, ask, made
from ..sessions.test_sessions import CALL


@pytest.fixture
def recorded() -> Iterator[tuple[Live, dict[str, Any]]]:
    model = Model(lambda request: CALL if len(model.requests) == 1 else "20 degrees.")
    with live(model, "hermes", prompts=template(), sessions=True) as server:
        session = made(server, id="run-1")
        first = ask(session, server, CHAT, messages=HELLO, tools=[WEATHER]).json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "20 C"}
        ask(session, server, CHAT, messages=[*HELLO, first, result], tools=[WEATHER])
        yield server, session


def test_sessions_are_listed_shown_and_exported(
    recorded: tuple[Live, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, session = recorded
    url = ["--url", server.url]
    assert main(["sessions", *url]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["run-1", "open"]
    assert main(["sessions", *url, "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["run-1"]
    assert main(["sessions", "run-1", *url, "--key", session["key"]]) == 0
    shown = capsys.readouterr().out
    assert "get_weather (ok)" in shown
    assert "agent, 2 calls" in shown
    assert "[results]20 C" in shown
    assert "[content]20 degrees." in shown
    assert main(["sessions", "run-1", *url, "--format", "trl"]) == 0
    assert len(json.loads(capsys.readouterr().out)["prompt_ids"]) == 1
    assert main(["sessions", "run-1", *url, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["calls"]) == 2
    assert main(["sessions", "run-1", *url, "--encoding", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["rollout"] == "run-1"
    assert main(["sessions", "run-1", *url, "--model", "served"]) == 0
    assert "20 degrees." in capsys.readouterr().out
    rows = tmp_path / "rows.jsonl"
    assert main(["sessions", "run-1", *url, "--format", "verl", "--encoding", "jsonl", "-o", str(rows)]) == 0
    assert json.loads(rows.read_text())["response_ids"]


@pytest.mark.parametrize(
    ("kind", "field", "status"),
    [("session", "id", "damaged"), ("session_call", "id", "open"), ("session_call", "parent", "open")],
)
def test_a_damaged_session_is_listed_with_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, field: str, status: str
) -> None:
    for damaged in (False, True):
        model, store = Model(lambda request: "Yes."), Store(tmp_path / "store.db")
        with live(model, "hermes", prompts=template(), sessions=True, store=store) as server:
            if damaged:
                assert server.http.get("/sessions/s/trajectory").status_code == 503
                assert main(["sessions", "--url", server.url]) == 0
                lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
                assert (lines[0], lines[1][:2]) == (["s", status], ["other", "open"])
                continue
            session, _ = made(server, id="s"), made(server, id="other")
            first = ask(session, server, CHAT, messages=HELLO).json()["choices"][0]["message"]
            ask(session, server, CHAT, messages=[*HELLO, first, *HELLO])
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as db:
            where = "WHERE kind = ? AND id <> CAST('other' AS BLOB) ORDER BY at DESC"
            at, data = db.execute(f"SELECT at, data FROM records {where}", [kind]).fetchone()
            found = msgspec.msgpack.decode(data)
            found.get("call", found)[field] = 0 if kind == "session" else "unknown"
            db.execute("UPDATE records SET data = ? WHERE at = ?", (msgspec.msgpack.encode(found), at))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["unknown"], "there is no session 'unknown'"),
        (["--format", "trl"], "--format: needs the ID of a session"),
        (["--encoding", "jsonl"], "--encoding: needs the ID of a session"),
        (["-o", "rows.json"], "--output: needs the ID of a session"),
        (["run-1", "--json", "--format", "trl"], "--json: has no effect beside --format"),
        (["run-1", "--model", "x"], "model: 'x' is not one of served"),
        (["--key", "unspool-session-x"], "the key of the session, or of the server, is missing or wrong"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    recorded: tuple[Live, dict[str, Any]], capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["sessions", *words, "--url", recorded[0].url]) == 2
    assert message in capsys.readouterr().err


def test_a_server_that_is_down_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "--url", "http://127.0.0.1:9"]) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err


def test_a_server_that_records_no_sessions_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with live(Model(lambda request: "ok"), "hermes") as server:
        assert main(["sessions", "--url", server.url]) == 2
    assert "it records no sessions; start it with --sessions" in capsys.readouterr().err
