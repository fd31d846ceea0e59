"""What real processes of `unspool serve` store: it survives their kill, and workers share it."""

import contextlib
import itertools
import json
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from unspool.store import Store

from .processes import Process
from .support import PATIENCE, until, write_lines
from .test_operating import recording

pytestmark = pytest.mark.processes
__all__ = ["recording"]
SDK_SERVER = Path(__file__).parents[1] / "tools" / "sdk_server.py"


def client_of(server: Process) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="EMPTY", max_retries=0, timeout=PATIENCE)


def test_acknowledged_turns_survive_kill_9(recording: list[str], tmp_path: Path) -> None:
    options = [*recording, "--replay-speed", "0", "--store", str(tmp_path / "store.db")]
    known: list[Any] = []

    def talk(client: openai.OpenAI) -> None:
        previous: str | None = None
        try:
            for i in itertools.count():
                response = client.responses.create(model="m", input=f"Question {i}", previous_response_id=previous)
                known.append((response.id, previous))
                previous = response.id
        except openai.APIConnectionError:
            return

    with Process(*options) as server, client_of(server) as client:
        talking = [threading.Thread(target=talk, args=(client,)) for _ in range(8)]
        for one in talking:
            one.start()
        until(lambda: len(known) > 100)
        server.process.kill()
        for one in talking:
            one.join(PATIENCE)
    with Process(*options) as server, client_of(server) as client:
        found = [client.responses.retrieve(id) for id, _ in known]
        assert [(one.id, one.previous_response_id) for one in found] == known
        assert {one.output_text for one in found} == {"hi there"}
        last = client.responses.create(model="m", input="Still there?", previous_response_id=known[-1][0])
        texts = [getattr(i, "content", [])[0].text for i in client.responses.input_items.list(last.id, order="asc")]
        assert texts[::2] == [f"Question {i}" for i in range(len(texts[::2]) - 1)] + ["Still there?"]


@pytest.mark.parametrize("file", [True, False])
def test_workers_share_what_they_store(recording: list[str], tmp_path: Path, file: bool) -> None:
    store = ["--store", str(tmp_path / "store.db")] if file else []
    with Process(
        *recording, "--replay-speed", "0", "--workers", "2", "--log-format", "json", "--access-log", *store
    ) as server:

        def workers() -> set[int]:
            return {line["process"] for line in server.logged() if line.get("path", "").startswith("/v1/responses")}

        previous: str | None = None
        for i in range(400):
            with client_of(server) as client:  # another connection, which any worker may take
                created = client.responses.create(model="m", input=f"Question {i}", previous_response_id=previous)
                previous = created.id
                assert client.responses.retrieve(previous).previous_response_id == created.previous_response_id
            if i > 5 and len(workers()) == 2:
                break
        assert len(workers()) == 2
        with client_of(server) as client:
            queued = client.responses.create(model="m", input="Later", background=True, previous_response_id=previous)
        for _ in range(20):
            with client_of(server) as client:
                until(lambda: client.responses.retrieve(queued.id).status == "completed")
                assert client.responses.retrieve(queued.id).output_text == "hi there"


def test_an_approval_is_good_after_a_restart_of_all_workers(tmp_path: Path) -> None:
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'
    lines: list[Any] = [{"type": "request"}, {"type": "chunk", "text": call, "finish_reason": "stop"}]
    lines += [{"type": "request"}, {"type": "chunk", "text": "It is 5.", "finish_reason": "stop"}]
    write_lines(tmp_path / "r.jsonl", *lines)
    command = {"command": sys.executable, "args": [str(SDK_SERVER), "stdio"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"calculator": command}}), encoding="utf-8")
    options = ["--engine", f"replay:{tmp_path / 'r.jsonl'}", "--dialect", "hermes", "--workers", "2"]
    options += ["--store", str(tmp_path / "store.db"), "--mcp-config", str(tmp_path / "mcp.json")]
    tools: Any = [{"type": "mcp", "server_label": "calculator", "require_approval": "always"}]
    with Process(*options) as server, client_of(server) as client:
        first = client.responses.create(model="m", input="2 + 3?", tools=tools)
        asked = next(item.id for item in first.output if item.type == "mcp_approval_request")
    answer: Any = [{"type": "mcp_approval_response", "approval_request_id": asked, "approve": True}]
    with Process(*options) as server, client_of(server) as client:
        second = client.responses.create(model="m", input=answer, previous_response_id=first.id)
        assert [getattr(item, "output", None) for item in second.output][:1] == ["5"]


def _text(path: Path) -> None:
    path.write_text("no database")


def _without_secret(path: Path) -> None:
    Store(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM state")


@pytest.mark.parametrize(
    ("damage", "said"), [(_text, "file is not a database"), (_without_secret, "it is damaged: its secret is lost")]
)
def test_a_store_that_cannot_be_opened_is_one_line(
    recording: list[str], tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(tmp_path / "store")
    with Process(*recording, "--store", str(tmp_path / "store")) as server:
        assert server.process.wait(PATIENCE) == 2
        assert f"--store: {tmp_path / 'store'}: " in server.lines[-1]
        assert said in server.lines[-1]
