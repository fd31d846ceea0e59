"""Parts at URLs come from hosts that the operator names, through the checks of the browser's fetcher, in limits."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.loopback import Answer, answering, sends
from tests.media import part, png
from tests.request.parts.test_places import SEEING, prompts
from tests.request.parts.test_reading import PROTOCOLS, linked
from tests.tools.test_browser import SPELT
from unspool.engines.media import MEDIA
from unspool.tools import addresses, fetch

from ..wire.readers import PATHS
from .support import Live, Scripted, live
from .test_parts import body


class Host:
    """A host on the loopback that remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.port = 0


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], Host]]:
    """Starts hosts at 127.0.0.1, which is a public address for the test, unlike all others on the loopback."""
    real = addresses.is_public
    for module in (addresses, fetch):
        monkeypatch.setattr(module, "is_public", lambda address: address == "127.0.0.1" or real(address))
    with contextlib.ExitStack() as running:

        def make(answer: Answer) -> Host:
            made = Host()

            def remembered(handler: BaseHTTPRequestHandler) -> None:
                made.asked.append(handler.path)
                answer(handler)

            made.port = int(running.enter_context(answering(remembered)).rpartition(":")[2])
            return made

        yield make


class Seeing(Scripted):
    media = MEDIA


def moves(to: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        (sends(png()) if handler.path == "/b.png" else sends(b"", 302, Location=to))(handler)

    return answer


@contextlib.contextmanager
def fetching(*hosts: str, **limits: Any) -> Iterator[Live]:
    """A server that reads from these hosts."""
    with live(Seeing(["ok"]), "hermes", prompts=prompts(SEEING), media_hosts=hosts, **limits) as server:
        yield server


def ask(server: Live, *urls: str) -> Any:
    return server.post(**body("chat", *(linked("chat", url) for url in urls)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_engine_gets_the_bytes_and_never_the_url(host: Any, protocol: str) -> None:
    there = host(sends(png(), Content_Type="text/html"))
    at = f"http://127.0.0.1:{there.port}/a.png"
    with fetching(f"127.0.0.1:{there.port}") as server:
        parts = [linked(protocol, at), linked(protocol, at)]
        answer = server.post(PATHS[protocol], **body(protocol, *parts))
    assert answer.status_code == 200, answer.text
    assert there.asked == ["/a.png"]
    (request,) = server.engine.requests
    assert [m.data for m in request.media] == [png(), png()]
    assert request.messages[-1]["content"] == [part(png())] * 2
    assert at not in str(request)


@pytest.mark.parametrize("hosts", [(), ("example.com",), ("127.0.0.1",), ("127.0.0.1:1",)])
def test_a_host_that_is_not_named_is_not_asked(host: Any, hosts: tuple[str, ...]) -> None:
    there = host(sends(png()))
    with fetching(*hosts) as server:
        answer = ask(server, f"http://127.0.0.1:{there.port}/a.png")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[0].content[0].image_url.url"
    assert "does not read from this host" in answer.text
    assert there.asked == []


@pytest.mark.parametrize("name", ["exa mple.com", "a^b.com", "a\x7fb", ".", ""])
def test_what_is_no_name_of_a_host_is_refused_although_any_host_is_allowed(name: str) -> None:
    with fetching("*") as server:
        answer = ask(server, f"http://{name}/a.png")
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == "messages[0].content[0].image_url.url"


@pytest.mark.parametrize(
    ("to", "status"),
    [
        ("/b.png", 200),
        ("http://127.0.0.2:{port}/b.png", 400),
        ("http://[::1]:{port}/b.png", 400),
        ("http://localhost:{port}/b.png", 400),
        ("http://169.254.169.254/latest", 400),
        ("file:///etc/passwd", 400),
        ("ftp://127.0.0.1/b.png", 400),
        ("/a.png", 400),
    ],
)
def test_a_redirect_is_checked_as_the_url_itself(host: Any, to: str, status: int) -> None:
    ports: list[int] = []
    there = host(lambda handler: moves(to.format(port=ports[0]))(handler))
    ports.append(there.port)
    hosts = (f"127.0.0.1:{there.port}", f"127.0.0.2:{there.port}", "169.254.169.254")
    with fetching(*hosts) as server:
        answer = ask(server, f"http://127.0.0.1:{there.port}/a.png")
    assert answer.status_code == status, answer.text
    assert len(there.asked) <= 6


def test_bytes_are_bounded_while_they_are_read(host: Any) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(png() + bytes(1 << 16))
        except OSError:
            pass  # the client has had enough

    there = host(endless)
    with fetching(f"127.0.0.1:{there.port}", media=1_000_000, fetch=10.0) as server:
        answer = ask(server, *(f"http://127.0.0.1:{there.port}/{i}" for i in range(9)))
    assert answer.status_code == 400
    assert "cannot be fetched" in answer.text


def test_time_is_bounded_for_all_parts_together(host: Any) -> None:
    over = threading.Event()
    there = host(lambda handler: over.wait(20))
    with fetching(f"127.0.0.1:{there.port}", fetch=1.0) as server:
        answer = ask(server, *(f"http://127.0.0.1:{there.port}/{i}" for i in range(9)))
    over.set()
    assert answer.status_code == 400
    assert "within 1 seconds" in answer.text or "cannot be fetched" in answer.text


def test_parts_together_are_bounded_too(host: Any) -> None:
    there = host(sends(png() + bytes(400)))
    with fetching(f"127.0.0.1:{there.port}", media=1000) as server:
        assert ask(server, f"http://127.0.0.1:{there.port}/1").status_code == 200
        answer = ask(server, *(f"http://127.0.0.1:{there.port}/{i}" for i in range(5)))
    assert answer.status_code == 400
    assert "the parts have more than 1,000 bytes" in answer.text


def test_no_url_reaches_the_servers_own_machine_or_learns_its_addresses() -> None:
    visits: list[str] = []
    with answering(lambda handler: visits.append(handler.path)) as at:
        port = at.rpartition(":")[2]
        with fetching("*", f"*:{port}", fetch=2.0) as server:
            refused = {name: ask(server, f"http://{name}:{port}/a.png") for name in (*SPELT, socket.gethostname())}
    assert {answer.status_code for answer in refused.values()} == {400}
    assert visits == []
    assert not any(one[4][0] in refused[socket.gethostname()].text for one in socket.getaddrinfo("localhost", 80))
