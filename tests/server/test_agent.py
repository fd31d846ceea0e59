"""The tools of `make agent`, at a server as it starts it: Python computes and the browser reads a page. The model is a
recording, so the tools are what is tested."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from unspool.engines.capture import Asked, write_recording

from ..loopback import serving
from .processes import Process
from .workshop import call

pytestmark = pytest.mark.agent
WORDS = ("harbour", "copper", "lantern", "meadow", "ribbon", "glacier", "orchard", "pebble")
RNG = random.Random()
A, B, C = (RNG.randrange(100, 10_000) for _ in range(3))
SUMS = {f"What is {A} * {B}?": (f"{A} * {B}", A * B), f"Compute {A} + {B} * {C}.": (f"{A} + {B} * {C}", A + B * C)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a page on the loopback interface, and a sentence on it."""
    folder = tmp_path_factory.mktemp("pages")
    number = RNG.randrange(1000, 9999)
    said = f"The {RNG.choice(WORDS)} of the {RNG.choice(WORDS)} is {number} metres wide."
    (folder / "a.html").write_text(f"<html><head><title>A page</title></head><body><p>{said}</p></body></html>")
    with serving(folder) as url:
        yield f"{url}/a.html", said


def recordings(folder: Path, page: tuple[str, str]) -> str:
    """An engine that calls a tool for each question, and repeats its result."""
    address, said = page
    refused = "http://127.0.0.1:1/secret.html"
    answers = {said: said, **{str(value): f"It is {value}." for _, value in SUMS.values()}}
    answers |= {words: call("python", code=f"print({code})") for words, (code, _) in SUMS.items()}
    answers |= {f"Read {url}": call("browser.open", id=url) for url in (address, refused)}
    for i, (words, raw) in enumerate([*answers.items(), (None, "It cannot be read.")]):
        write_recording(folder / f"{i:02}.jsonl", Asked(match=words, dialect="hermes", tools=None), [raw])
    return f"replay:{folder}"


@pytest.fixture(scope="module")
def agent(page: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """The command of `make agent`, on another port, with the page's host and with recordings."""
    makefile = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^agent:.*\n\t\$\(BIN\)/unspool serve (.*) \$\(ARGS\)$", makefile, re.MULTILINE)
    assert found
    host = page[0].split("/")[2]
    engine = recordings(tmp_path_factory.mktemp("engine"), page)
    with Process(*found[1].split(), "--browser-host", host, "--engine", engine) as process:
        assert process.url, process.lines
        with httpx2.Client(base_url=process.url, timeout=120, verify=False) as client:
            yield client
    assert "Traceback" not in "".join(process.lines)


def ask(agent: httpx2.Client, text: str, **more: Any) -> Any:
    answer = agent.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": text}], **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]


def test_python_computes(agent: httpx2.Client) -> None:
    for text, (code, value) in SUMS.items():
        message = ask(agent, text)
        (result,) = message["tool_results"]
        assert (result["name"], json.loads(result["arguments"])["code"]) == ("python", f"print({code})")
        assert result["content"].strip() == str(value)
        assert message["content"] == f"It is {value}."


def test_the_browser_reads_a_page_of_an_allowed_host(agent: httpx2.Client, page: tuple[str, str]) -> None:
    address, said = page
    message = ask(agent, f"Read {address}, please.")
    (result,) = message["tool_results"]
    assert (result["name"], result["is_error"]) == ("browser.open", False)
    assert said in result["content"]
    refused = ask(agent, "Read http://127.0.0.1:1/secret.html")
    assert refused["tool_results"][0]["is_error"]
