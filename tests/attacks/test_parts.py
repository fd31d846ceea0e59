"""Attacks by parts of messages: bombs, wrong types, a thousand of them, and URLs into the server's network."""

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.loopback import answering, sends
from tests.media import gif, png, url, webp
from tests.tools.test_browser import SPELT

from .victim import CHAT, QUICK, Victim, attacks, quick, victim


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    options = ("--dialect", "hermes", "--media-host", "*", "--max-fetch", "2", "--max-media", "1000000")
    with victim(quick(tmp_path_factory.mktemp("q")), *options) as found:
        yield found


visits: list[str] = []
"""The paths that somebody asked the trap for."""


@pytest.fixture(scope="module")
def trap() -> Iterator[str]:
    """The port of a server on the loopback that nobody may reach."""

    def caught(handler: BaseHTTPRequestHandler) -> None:
        visits.append(handler.path)
        sends(png())(handler)

    with answering(caught) as at:
        yield at.rpartition(":")[2]


def image(at: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": at}}


def asked(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": QUICK}, *parts]}]}


def refused(server: Victim, *requests: tuple[list[dict[str, Any]], str]) -> None:
    """The parts of each request are refused with their field and a reason, and their bytes are not in the log."""

    for _ in attacks(server):
        for parts, reason in requests:
            status, text = server.ask(CHAT, asked(*parts))
            assert status == 400, text[:500]
            error = json.loads(text)["error"]
            assert reason in error["message"], error
            assert error["param"].startswith("messages[0].content[")
            assert len(text) < 1000
    assert max(map(len, server.lines)) < 1000


def test_an_image_is_answered(server: Victim) -> None:
    status, text = server.ask(CHAT, asked(image(url(png()))))
    assert (status, "content" in text) == (200, True), text


def test_a_bomb_or_another_type_is_refused(server: Victim) -> None:
    bombs = [
        (png(65_535, 65_535), "pixels; allowed are"),
        (png(2**31 - 1, 2**31 - 1), "pixels; allowed are"),
        (gif(frames=5_000, frame=(1000, 1000)), "pixels; allowed are"),
        (webp(16_000_000, 16_000_000), "pixels; allowed are"),
        (png()[:19], "the header of the PNG is cut"),
        (b"\xff\xd8" + b"\xff\xe0\x00\x02" * 200_000, "the image consists of too many pieces"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "the bytes are text/plain"),
        (b"%PDF-1.7\n", "the bytes are application/pdf"),
        (b"PK\x03\x04" + bytes(999), "of no type that is known"),
        (bytes(900_000), "of no type that is known"),
        (png() + bytes(1_000_000), "the parts have more than 1,000,000 bytes"),
    ]
    refused(server, *(([image(url(data))], reason) for data, reason in bombs))


def test_a_thousand_parts_are_refused(server: Victim) -> None:
    sent = [image(url(png(color=i % 256))) for i in range(1000)]
    linked = [image(f"https://example.com/{i}.png") for i in range(1000)]
    refused(server, (sent, "1,000 parts; allowed are 100"), (linked, "1,000 parts"))


def test_no_url_reaches_the_servers_own_machine(server: Victim, trap: str) -> None:
    for host in SPELT:
        status, text = server.ask(CHAT, asked(image(f"http://{host}:{trap}/a.png")))
        assert status == 400, (host, text)
    assert visits == []


def test_addresses_of_the_network_are_not_told(server: Victim) -> None:
    status, text = server.ask(CHAT, asked(image(f"http://{socket.gethostname()}/a.png")))
    assert status == 400
    assert not any(str(one[4][0]) in text for one in socket.getaddrinfo("localhost", 80))
