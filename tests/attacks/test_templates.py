"""A stranger's chat template that hangs: its requests fail alone, end with their clients, and hold up none."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.server.support import until

from .clients import burst
from .victim import CHAT, Victim, recordings, victim

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.content == 'loop' %}" + LOOPS + "{% endif %}"
    "{% if m.content == 'power' %}{{ (m.content | length) ** (9 ** 9) }}{% endif %}"
    "{% if m.content == 'memory' %}{{ (m.content * 299999999) | length }}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def templated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A server with a template that passes the check at the start and hangs later."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    options = ("--dialect", "hermes", "--tokenizer", str(folder), "--no-self-check")
    with victim(recordings(folder), *options) as server:
        yield server


def hostile(word: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": word}]}


def rendered(server: Victim, word: str) -> tuple[int, str]:
    """The answer to a word. If there was no processor time for it, it is sent again, as clients do."""
    status, text = 503, ""
    while status == 503:
        status, text = server.ask(CHAT, hostile(word), 60)
    return status, text


@pytest.mark.sampled(0)
@pytest.mark.parametrize("word", ["loop", "power", "memory"])
def test_a_rendering_without_an_end_fails_its_request_alone(templated: Victim, word: str) -> None:
    before = templated.rss()
    with ThreadPoolExecutor(1) as clients:
        hanging = clients.submit(rendered, templated, word)
        time.sleep(0.3)
        templated.small()
        assert word == "memory" or not hanging.done(), "others are answered meanwhile"
        status, text = hanging.result()
    assert status == 400
    assert "the chat template" in text
    assert templated.rss() - before < 300 * 1024


@pytest.mark.attacks
@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        (CHAT, hostile("a"), "overloaded"),
        ("/v1/messages", {**hostile("a"), "max_tokens": 4}, "overloaded_error"),
        ("/v1/responses", {"input": "a"}, "server_error"),
    ],
)
def test_renderings_without_processor_time_are_not_the_requests_fault(
    templated: Victim, path: str, body: object, word: str
) -> None:
    templated.small()  # now a process is warm
    threads = Path(f"/proc/{templated.process.pid}/task").iterdir()
    own = [pid for thread in threads for pid in (thread / "children").read_text().split()]
    warm = [int(pid) for pid in own if b"chat_templates" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert warm
    for pid in warm:
        os.kill(pid, signal.SIGSTOP)
    status, text = templated.ask(path, body, 60)
    assert (status, word in text) == (503, True), text
    for pid in warm[1:]:
        os.kill(pid, signal.SIGCONT)
    templated.small()


@pytest.mark.sampled(0)
def test_hanging_renderings_end_with_their_clients(templated: Victim) -> None:
    for _ in range(2):
        burst(templated.port, 12, "at once", bodies=[hostile("loop"), hostile("power")], after=1.0)
        assert templated.small() < 5.0, "all twelve together would compute for half a minute"
        until(lambda: not any(templated.gauges().values()))
    assert not [line for line in templated.lines if "Traceback" in line or line.startswith("ERROR")], templated.lines


@pytest.mark.sampled(0)
def test_the_server_answers_health_while_templates_hang(templated: Victim) -> None:
    with ThreadPoolExecutor(4) as clients:
        hanging = [clients.submit(templated.ask, CHAT, hostile("loop"), 120) for _ in range(4)]
        for _ in range(20):
            taken = templated.stopwatch()
            assert templated.ask("/health")[0] == 200
            assert taken() < 1.0
            time.sleep(0.1)
        assert {one.result()[0] for one in hanging} <= {400, 503}  # 503: it had no processor time
    templated.small()


@pytest.mark.sampled(0)
def test_slow_renderings_of_clients_that_stay_delay_others_little(templated: Victim) -> None:
    alone = templated.small()
    with ThreadPoolExecutor(12) as clients:
        hanging = [clients.submit(templated.ask, CHAT, hostile("loop"), 120) for _ in range(12)]
        time.sleep(0.5)
        for _ in range(2):
            assert templated.small() < alone + 8.0, "all twelve together compute for half a minute"
        assert not all(one.done() for one in hanging)
        assert {one.result()[0] for one in hanging} <= {400, 503}
    templated.small()
