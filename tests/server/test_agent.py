"""The tools of `make agent`, at a server as it starts it: Python computes and the browser reads a page. The model is a
recording, so the tools are what is tested."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from unspool.engines.capture import Asked, write_recording

from ..loopback import serving
from .processes import Process
from .support import CHAT
from .workshop import call

pytestmark = pytest.mark.agent
MAKEFILE = Path(__file__).parents[2] / "Makefile"
SAID = "The copper lantern of the harbour is 4711 metres wide."
ELSEWHERE = "http://127.0.0.1:1/secret.html"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Any]:
    """Asks the command of `make agent`, on another port, with a page's host and with recordings of calls."""
    found = re.search(r"^agent:.*\n\t\$\(BIN\)/unspool serve (.*) \$\(ARGS\)$", MAKEFILE.read_text(), re.MULTILINE)
    assert found
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.html").write_text(f"<html><body><p>{SAID}</p></body></html>")
    with serving(tmp_path / "pages") as host:
        answers = {"Compute": call("python", code="print(1234 * 56 + 7)"), "69111": "It is 69111.", SAID: SAID}
        answers |= {"Read it": call("browser.open", id=f"{host}/a.html"), "secret": call("browser.open", id=ELSEWHERE)}
        for i, (words, raw) in enumerate([*answers.items(), (None, "It cannot be read.")]):
            write_recording(tmp_path / f"{i:02}.jsonl", Asked(match=words, dialect="hermes"), [raw])
        flags = ["--browser-host", host.partition("://")[2], "--engine", f"replay:{tmp_path}"]
        with Process(*found[1].split(), *flags) as process:

            def ask(text: str) -> Any:
                body = {"messages": [{"role": "user", "content": text}]}
                answer = httpx2.post(process.url + CHAT, json=body, timeout=120)
                return answer.raise_for_status().json()["choices"][0]["message"]

            yield ask
        assert "Traceback" not in "".join(process.lines)


def test_python_computes_and_the_browser_reads_pages_of_allowed_hosts_alone(agent: Any) -> None:
    for text, tool, result in (("Compute it.", "python", "69111"), ("Read it.", "browser.open", SAID)):
        message = agent(text)
        (called,) = message["tool_results"]
        assert (called["name"], called["is_error"]) == (tool, False), called
        assert result in called["content"]
        assert result in message["content"]
    assert agent("Read the secret.")["tool_results"][0]["is_error"]
