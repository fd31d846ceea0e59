"""AG-UI's own client in a page of a headless Chromium, whose origin is not the server's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unspool.engines.capture import Asked, write_recording

from ..chromium import chromium
from ..loopback import serving
from ..server.processes import Process
from ..server.support import PATIENCE, live, until
from ..server.workshop import Workshop, call, model
from .test_agui_loop import activities, user
from .test_agui_node import FOLDER, HERE

pytestmark = pytest.mark.agui_browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page with the client, bundled as an application bundles it."""
    folder = tmp_path_factory.mktemp("page")
    bundler = FOLDER / "node_modules" / ".bin" / "esbuild"
    assert bundler.exists(), "run `make agui-browser`"
    command = [str(bundler), str(HERE / "browser.mjs"), "--bundle", "--log-level=error", f"--outfile={folder}/page.js"]
    subprocess.run(command, check=True, env={**os.environ, "NODE_PATH": str(FOLDER / "node_modules")})
    (folder / "index.html").write_text('<!doctype html><meta charset="utf-8"><script src="page.js"></script>')
    with serving(folder) as url:
        yield f"{url}/"


class Client:
    """The client in its page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.runs = 0

    def open(self, url: str) -> None:
        self.page.evaluate("open", {"url": f"{url}/ag-ui", "threadId": "thread-1", "messages": []})

    def begin(self, text: str = "", **run: Any) -> None:
        """Run the agent, with another user message if there is a text."""
        self.runs += 1
        append = [user(text, f"u{self.runs}")] if text else []
        self.page.evaluate("begin", {"runId": f"run-{self.runs}", "append": append, "context": [], "tools": [], **run})

    def run(self, text: str = "", **run: Any) -> list[dict[str, Any]]:
        """Run the agent to its end, and return the new messages."""
        self.begin(text, **run)
        self.page.wait_for_function("told.newMessages || told.failed")
        assert self.page.evaluate("told.failed") is None
        found: list[dict[str, Any]] = self.page.evaluate("told.newMessages")
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate("told.events")
        return found

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate("messages()")
        return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def client(browser: Any, address: str) -> Iterator[Client]:
    """A page with the client, which must log no errors."""
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(address)
    yield Client(page)
    page.close()
    assert [fault for fault in faults if "favicon" not in fault and "404" not in fault] == []


def test_the_page_shows_a_running_tool_and_the_tool_ends_when_the_page_leaves(client: Client) -> None:
    workshop = Workshop()
    with live(model(**{"wait please": call("hang")}), "hermes", servers=[workshop]) as server:
        client.open(server.url)
        client.begin("wait please")
        client.page.wait_for_function("messages().some((m) => m.role === 'activity')")
        assert activities(client.messages) == [("hang", "in_progress")]
        until(lambda: workshop.running == 1)
        client.page.evaluate("abort()")
        until(lambda: (workshop.running, workshop.cancelled) == (0, 1))


def test_the_command_serves_pages_of_other_origins_on_this_machine(client: Client, tmp_path: Path) -> None:
    asked, product = "What is 1234 * 5678?", "7006652"
    answers = {asked: call("python", code="print(1234 * 5678)"), product: f"It is {product}."}
    for words, raw in answers.items():
        write_recording(tmp_path / f"{len(words)}.jsonl", Asked(match=words, dialect="hermes"), [raw])
    tools = ("--tool-server", "demo", "--tool-approval", "python")
    with Process(*tools, "--engine", f"replay:{tmp_path}") as server:
        assert server.url, server.lines
        client.open(server.url)
        assert activities(client.run(asked)) == [("python", "awaiting_approval")]
        (asked,) = client.events[-1]["outcome"]["interrupts"]
        entry = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
        shown = [m for m in client.run(resume=[entry]) if m["role"] in ("tool", "assistant")]
        assert [(m["role"], product in m["content"]) for m in shown] == [("tool", True), ("assistant", True)]
