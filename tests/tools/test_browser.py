"""The browser on pages of the loopback interface."""

import asyncio
import contextlib
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from yarl import URL

from tests.loopback import answering, sends
from unspool.tools import ServerTool, ToolLimits, ToolResult
from unspool.tools.addresses import AddressRefused, is_public
from unspool.tools.demo import DemoToolServer
from unspool.tools.fetch import Fetched, Fetcher
from unspool.tools.page import WIDTH, read_page

HTML = "text/html; charset=utf-8"
BOMB = gzip.compress(bytes(50_000_000))
LIMITS = ToolLimits(time=5, output=4_000, message=200_000)
PAGE = """<!doctype html><html><head><title>Ships &amp; harbours</title><script>alert("no")</script></head><body>
<nav><a href="/other">The other page</a> <a href="https://elsewhere.example/x">Elsewhere</a></nav>
<h1>Ships</h1><p>The <b>Aurora</b> is 61.7 metres long.<br>She has three masts.</p>
<ul><li>one</li><li>two</li></ul><table><tr><td>a</td><td>b</td></tr></table>
<pre>x  =  1
y  =  2</pre><p>A page may write 【0†L1】 itself.</p><a href="javascript:alert(1)">Script</a>
<a href="http://[bad/">Bad</a></body></html>"""


def page(handler: BaseHTTPRequestHandler) -> None:
    """The pages of the tests."""
    path = urlsplit(handler.path)
    about = {"url": f"http://{handler.headers['Host']}/", "title": "Ships"}
    about["content"] = f"About {parse_qs(path.query).get('q', [''])[0]}"
    pages: dict[str, tuple[bytes, str]] = {
        "/": (PAGE.encode(), HTML),
        "/other": (b"plain\n" + "\n".join(f"line {i}" for i in range(500)).encode(), "text/plain"),
        "/big": (b"x" * 300_000, HTML),
        "/bomb": (BOMB, HTML),
        "/packed": (gzip.compress(PAGE.encode()), HTML),
        "/deep": (b"<body>" + b"<div>" * 30_000 + b"deep", HTML),
        "/image": (b"\x89PNG", "image/png"),
        "/slow": (b"", HTML),
        "/search": (json.dumps({"results": [about]}).encode(), "application/json"),
    }
    if path.path == "/slow":
        time.sleep(3)
    if path.path.startswith("/to/"):
        to = path.path[4:]
        answer = sends(b"", 302, Location={"home": "/", "loop": "/to/loop"}.get(to, to))
    elif path.path in pages:
        data, kind = pages[path.path]
        packed = {"Content_Encoding": "gzip"} if data[:2] == b"\x1f\x8b" else {}
        answer = sends(data, Content_Type=kind, **packed)
    else:
        answer = sends(b"", 404)
    answer(handler)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with answering(page) as url:
        yield url.replace("http://127.0.0.1", "localhost")


Call = Callable[..., Awaitable[ToolResult]]


@contextlib.asynccontextmanager
async def browsing(
    hosts: list[str], *, search: str | None = None, private: bool = True, time: float = 20
) -> AsyncIterator[Call]:
    """A browser that may read these hosts."""
    fetcher = Fetcher(hosts, private=private, time=time, size=LIMITS.message)
    server = DemoToolServer(fetcher, search=search, limits=LIMITS)
    tools: dict[str, ServerTool] = {tool.name: tool for tool in await server.list_tools()}

    async def call(name: str, **arguments: object) -> ToolResult:
        return await session.call(tools[f"browser.{name}"], json.dumps(arguments))

    async with contextlib.aclosing(server), contextlib.aclosing(server.session()) as session:
        yield call


async def test_a_page_is_shown_in_numbered_lines_with_numbered_links(site: str) -> None:
    async with browsing([site]) as call:
        result = await call("open", id=f"http://{site}/")
        assert not result.error
        lines = result.text.split("\n")
        assert lines[0] == f"[0] Ships & harbours (http://{site}/)"
        assert lines[1].startswith("**viewing lines [0 - ")
        assert lines[3] == "L0: 【0†The other page】 【1†Elsewhere†elsewhere.example】"
        assert ": # Ships" in result.text
        assert ": The Aurora is 61.7 metres long." in result.text
        assert ": She has three masts." in result.text
        assert ": * two" in result.text
        assert ": x  =  1" in result.text
        assert "〖0†L1〗" in result.text  # what a page writes is not a citation
        assert "alert" not in result.text
        assert [(source.cursor, source.title) for source in result.sources] == [(0, "Ships & harbours")]
        for path in ("packed", "to/home"):  # a redirect within the list is followed
            assert (await call("open", id=f"http://{site}/{path}")).text.split("\n")[4:] == lines[4:]


async def test_links_are_opened_pages_are_scrolled_and_places_are_found(site: str) -> None:
    async with browsing([site]) as call:
        await call("open", id=f"http://{site}/")
        other = await call("open", id=0)
        assert other.text.startswith(f"[1] http://{site}/other\n")
        assert len(other.text) <= LIMITS.output
        later = await call("open", loc=400, num_lines=2)
        lines = ["**viewing lines [400 - 401] of 500**", "", "L400: line 399", "L401: line 400"]
        assert later.text.split("\n")[1:] == lines
        found = await call("find", pattern="LINE 49", cursor=1)
        assert "L0: # L50" in found.text
        assert "L1: line 49" in found.text
        again = await call("open", cursor=0, id="0")
        assert again.text.startswith("[3] ")
        far = {"loc": 9_999, "cursor": 1}
        for wrong in ({"id": 99, "cursor": 0}, {"cursor": 7}, far, {"id": {"a": 1}}, {"loc": "x"}):
            assert (await call("open", **wrong)).error, wrong
        assert (await call("find", pattern="")).error


async def test_without_a_page_or_a_provider_the_browser_reports_it() -> None:
    async with browsing(["example.com"]) as call:
        assert "no page is open" in (await call("open")).text
        assert "no page is open" in (await call("find", pattern="x")).text
        assert "no search provider" in (await call("search", query="ships")).text


async def test_a_provider_is_asked_and_its_results_are_opened_by_number(site: str) -> None:
    async with browsing([site], search=f"http://{site}/search") as call:
        found = await call("search", query="old ships & more")
        assert f"L0: 【0†Ships†{site}】" in found.text
        assert "L1: About old ships & more" in found.text
        opened = await call("open", id=0)
        assert "Aurora" in opened.text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/big", "more than 200,000 bytes"),
        ("/bomb", "more than 200,000 bytes"),
        ("/image", "image/png, which is not text"),
        ("/slow", "does not answer within 2 seconds"),
        ("/nothing", "answers 404"),
        ("/to/loop", "more than 5 redirects"),
        ("/to/https://elsewhere.example/", "not among the hosts"),
        ("/to/file:///etc/passwd", "not a URL of http"),
        ("/to/http://127.0.0.1:1/", "not among the hosts"),
    ],
)
async def test_unreadable_pages_are_refused(site: str, path: str, message: str) -> None:
    async with browsing([site], time=2 if path == "/slow" else 20) as call:
        result = await call("open", id=f"http://{site}{path}")
        assert result.error
        assert message in result.text


@pytest.mark.tools
async def test_a_page_that_is_made_to_keep_the_parser_busy_is_given_up(site: str) -> None:
    async with browsing([site]) as call:
        begun = time.monotonic()
        result = await call("open", id=f"http://{site}/deep")
        assert result.error or "deep" in result.text
        assert time.monotonic() - begun < 10


SPELT = (
    *("localhost", "127.0.0.1", "[::1]", "0x7f.1", "2130706433", "0.0.0.0", "[::ffff:127.0.0.1]", "0177.0.0.1"),
    *("LOCALHOST.", "127.1", "0", "[::]", "[::ffff:7f00:1]", "127.0.0.1."),
    *("127\u30020\u30020\u30021", "127\uff0e0\uff0e0\uff0e1", "\u2460\u2461\u2466.0.0.1", "\u24dbocalhost"),
)
"""Spellings of this machine, which URL parsers treat alike."""


async def test_private_addresses_are_not_connected_to_even_where_the_name_is_allowed(site: str) -> None:
    port = site.rpartition(":")[2]
    async with browsing(["*", f"*:{port}"], private=False) as call:
        for host in SPELT:
            result = await call("open", id=f"http://{host}:{port}/")
            assert result.error, host
            assert "not a public address" in result.text or "cannot be" in result.text, result.text


async def test_an_address_that_changes_after_the_check_is_not_connected_to(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.tools.fetch.Fetcher._checked", lambda self, url, trusted: URL(url))
    port = site.rpartition(":")[2]
    async with browsing(["*"], private=False) as call:
        assert "127.0.0.1 is not a public address" in (await call("open", id=f"http://127.0.0.1:{port}/")).text


BASE = b"<base href='http://h/" + b"x" * 150_000 + b"/'>"
HOSTILE = {
    "a base that all links share": (BASE + b"<a href=y>t</a>" * 3_000, "text/html"),
    "one word": (b"<" * 200_000, "text/plain"),
    "a slow codec": (b"a" * 200_000, "text/plain; charset=punycode"),
    "a codec that refuses": (b"a", "text/plain; charset=undefined"),
    "control characters": (b"a\x1b[31m\x07\x00b\x7f", "text/plain"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_page_is_read_in_time_and_in_little_memory(what: str) -> None:
    body, kind = HOSTILE[what]
    begun = time.process_time()
    kind, _, charset = kind.partition("; charset=")
    page = asyncio.run(read_page(Fetched("http://h.example/", kind, charset, body), 10))
    assert time.process_time() - begun < 1
    assert sum(map(len, page.links)) < len(body)
    assert all(len(line) <= WIDTH and not set(line) & {"\x1b", "\x07", "\x00", "\x7f"} for line in page.lines)


def test_a_pages_own_mark_says_its_encoding() -> None:
    for codec in ("utf-16", "utf-8-sig"):
        for kind in ("text/html", "text/plain"):
            page = asyncio.run(read_page(Fetched("http://h.example/", kind, "latin-1", "Zürich".encode(codec)), 10))
            assert page.lines[0] == "Zürich"


async def test_the_address_that_was_checked_is_the_one_connected_to(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose address is public when it is checked and private afterwards is resolved only once."""
    port = int(site.rpartition(":")[2])
    asked: list[str] = []

    async def resolved(host: str, port: int, **more: object) -> list[Any]:
        asked.append(host)
        address = "192.0.2.1" if len(asked) > 1 else "127.0.0.1"
        return [(2, 1, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    fetcher = Fetcher([f"rebound.example:{port}"], private=True, time=2, size=100_000)
    fetched = await fetcher.fetch(f"http://rebound.example:{port}/")
    assert b"Aurora" in fetched.body
    await fetcher.aclose()
    assert asked == ["rebound.example"]


FORGED = "http://example.com@evil.example/"


@pytest.mark.parametrize(
    ("rules", "allowed", "refused"),
    [
        (["example.com"], ["http://example.com/", "https://EXAMPLE.com./x"], ["http://a.example.com/", FORGED]),
        (["example.com"], [], ["http://example.com:8080/", "http://evil.example/example.com", "data:text/html,x"]),
        (["*.example.com"], ["http://a.example.com/"], ["http://example.com/", "http://aexample.com/"]),
        (["localhost:8000"], ["http://localhost:8000/"], ["http://localhost/", "http://localhost:80000/"]),
        (["*"], ["http://anything.example/"], ["http://anything.example:22/", "ftp://anything.example/", "http:///"]),
        ([], [], ["http://example.com/"]),
    ],
)
def test_only_listed_hosts_may_be_read(rules: list[str], allowed: list[str], refused: list[str]) -> None:
    fetcher = Fetcher(rules, private=True, time=1, size=1)
    for url in allowed:
        fetcher._checked(url, False)
    for url in refused:
        with pytest.raises(AddressRefused):
            fetcher._checked(url, False)


PRIVATE = """
127.0.0.1 10.1.2.3 192.168.0.1 169.254.169.254 168.63.129.16 192.0.0.192 161.26.0.10 166.9.1.1 100.64.0.1 0.0.0.0
224.0.0.1 ::1 fe80::1 fe80::1%eth0 fd00::1 fec0::1 5f00::1 ::127.0.0.1 ::ffff:10.0.0.1 ::ffff:168.63.129.16
172.16.0.1 100.100.100.200 255.255.255.255 ff02::1 fc00::1 fd00:ec2::254
::ffff:0:127.0.0.1 64:ff9b::a83f:8110 64:ff9b::a00:1 64:ff9b:1::1 2002:7f00:1:: no-address
"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_private_addresses_are_recognized(address: str) -> None:
    assert not is_public(address)


def test_public_addresses_are_recognized() -> None:
    assert is_public("93.184.216.34")
    assert is_public("2606:2800:220:1:248:1893:25c8:1946")
