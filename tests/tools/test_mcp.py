"""MCP servers in other processes: the SDK's over each transport, and one that misbehaves."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.loopback import answering, free_port, listens, sends
from tests.server.support import until
from unspool.tools import ToolLimits, ToolResult, Tools, ToolServerError
from unspool.tools.config import read_list
from unspool.tools.targets import Target

pytestmark = pytest.mark.tools

HERE = Path(__file__).parent
LIMITS = ToolLimits(time=3, listing=10, output=1_000, message=1_000_000)


def program(script: str, *args: str, **more: object) -> dict[str, object]:
    return {"command": sys.executable, "args": [str(HERE / script), *args], **more}


def tools_of(tmp_path: Path, limits: ToolLimits = LIMITS, **servers: object) -> Tools:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return Tools.from_flags(mcp_config=path, limits=limits)


@contextmanager
def running(transport: str) -> Iterator[str]:
    """The SDK's server over HTTP, as ``host:port``."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(HERE / "sdk_server.py"), transport, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: listens(port) or process.poll() is not None, 30)
        assert process.poll() is None
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def call(tools: Tools, name: str, **arguments: object) -> ToolResult:
    """A call in a session of its own."""
    listing = await tools.list_tools()
    tool = next(tool for tool in listing.tools if tool.name == name)
    session = tools.session()
    try:
        return await session.call(tool, json.dumps(arguments))
    finally:
        await session.aclose()


async def check_calculator(tools: Tools) -> None:
    listing = await tools.list_tools()
    assert listing.failures == {}
    add = next(tool for tool in listing.tools if tool.name == "add")
    assert add.kind == "mcp"
    function = add.definition["function"]
    assert function["description"] == "Add two numbers."
    assert function["parameters"]["required"] == ["a", "b"]
    assert (await call(tools, "add", a=2, b=40)).text == "42"
    failed = await call(tools, "fail", why="no luck")
    assert failed.error
    assert "no luck" in failed.text
    wrong = await call(tools, "add", a="two", b=40)
    assert wrong.error
    big = await call(tools, "big", characters=5_000)
    assert len(big.text) == LIMITS.output
    assert "5,000" in big.text
    session = tools.session()
    for arguments in ("{", "[1]", '{"a": 1, "b": 2'):
        refused = await session.call(add, arguments)
        assert refused.error
    found = await asyncio.gather(*(session.call(add, f'{{"a": {i}, "b": 1}}') for i in range(20)))
    assert [int(result.text) for result in found] == [i + 1 for i in range(20)]
    wait = next(tool for tool in listing.tools if tool.name == "wait")
    started = time.monotonic()
    late = await session.call(wait, '{"seconds": 60}')
    assert late.error
    assert "3 seconds" in late.text
    assert time.monotonic() - started < 50
    assert (await session.call(add, '{"a": 1, "b": 1}')).text == "2"
    await session.aclose()


@pytest.mark.parametrize("url", ["calc={}", "http://{}/sse"], ids=["host and port", "url"])
@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
async def test_a_server_over_http_is_found_by_host_and_port_alone_or_by_its_url(transport: str, url: str) -> None:
    with running(transport) as address:
        if transport == "sse" or "sse" not in url:
            async with aclosing(Tools(read_list(url.format(address), LIMITS))) as tools:
                await check_calculator(tools)


async def test_a_server_over_standard_streams_is_started_from_a_file(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, calc=program("sdk_server.py", "stdio"))) as tools:
        await check_calculator(tools)


async def test_a_session_over_http_outlives_nothing_and_servers_that_come_back_are_found() -> None:
    with running("streamable-http") as address:
        async with aclosing(Tools(read_list(f"calc={address}", ToolLimits(time=3, listing=3, cache=0.01)))) as tools:
            assert (await call(tools, "add", a=1, b=1)).text == "2"
    async with aclosing(Tools(read_list(f"calc={address}", LIMITS))) as tools:
        listing = await tools.list_tools()
        assert listing.tools == ()
        assert [*listing.failures] == ["calc"]


async def test_a_child_has_no_more_of_the_environment_than_its_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "sk-1")
    monkeypatch.setenv("PASSED_ON", "yes")
    entry = program("sdk_server.py", "stdio", env={"OWN": "${PASSED_ON}", "OTHER": "${NOT_SET:-default}"})
    async with aclosing(tools_of(tmp_path, calc=entry)) as tools:
        names = (await call(tools, "environment")).text.split("\n")
        assert {"OWN", "OTHER", "PATH"} <= set(names)
        assert not {"A_SECRET_KEY", "PASSED_ON"} & set(names)


async def test_a_child_that_dies_is_started_again_and_its_call_is_an_error(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, calc=program("sdk_server.py", "stdio"))) as tools:
        assert (await call(tools, "count")).text == "1"
        assert (await call(tools, "count")).text == "2"  # one child for all responses
        assert (await call(tools, "die")).error
        assert (await call(tools, "count")).text == "1"


async def test_a_changed_list_is_listed_anew(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, calc=program("sdk_server.py", "stdio"))) as tools:
        assert "newcomer" not in [tool.name for tool in (await tools.list_tools()).tools]
        assert (await call(tools, "change")).text == "changed"
        async with asyncio.timeout(60):
            while "newcomer" not in [tool.name for tool in (await tools.list_tools()).tools]:
                await asyncio.sleep(0.05)
        assert (await call(tools, "newcomer")).text == "new"


def children() -> set[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(pid) for pid in path.read_text().split()} if path.exists() else set()


@pytest.mark.parametrize("fault", ["deep", "result", "late-id"])
async def test_an_answer_that_cannot_be_read_is_an_error_at_once(tmp_path: Path, fault: str) -> None:
    async with aclosing(tools_of(tmp_path, bad=program("bad_server.py", fault))) as tools:
        for _ in range(2):
            assert (await call(tools, "good")).text.startswith("The call failed: its answer cannot be read: ")


@pytest.mark.parametrize("form", ["application/json", "text/event-stream"])
async def test_an_answer_over_http_that_cannot_be_read_is_an_error_at_once(tmp_path: Path, form: str) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.command != "POST":
            return sends(b"", 405)(handler)
        asked = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        told = answered(asked["method"], asked.get("params", {}))
        reply = f'{{"jsonrpc": "2.0", "id": {json.dumps(asked.get("id"))}, {told}}}'
        reply = f"event: message\ndata: {reply}\n\n" if form == "text/event-stream" else reply
        if "id" not in asked:
            return sends(b"", 202)(handler)
        return sends(reply.encode(), 200, **{"Content-Type": form})(handler)

    def answered(method: str, params: Any) -> str:
        if method == "initialize":
            found = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
            return f'"result": {json.dumps({**found, "serverInfo": {"name": "b", "version": "1"}})}'
        if method == "tools/list":
            return '"result": {"tools": [{"name": "good", "inputSchema": {"type": "object"}}]}'
        deep = "[" * 10_000 + "]" * 10_000
        called = f'"result": {{"content": [], "structuredContent": {{"a": {deep}}}}}'
        return called if method == "tools/call" else '"error": {"code": -32601, "message": "none"}'

    with answering(answer) as url:
        async with aclosing(tools_of(tmp_path, bad={"url": f"{url}/mcp"})) as tools:
            assert (await call(tools, "good")).text.startswith("The call failed: its answer cannot be read: ")


@pytest.mark.parametrize("fault", ["hang", "line", "flood", "parts", "no-result"])
async def test_a_call_that_a_server_does_not_answer_rightly_is_an_error_and_the_next_works(
    tmp_path: Path, fault: str
) -> None:
    before = children()
    async with aclosing(tools_of(tmp_path, bad=program("bad_server.py", fault))) as tools:
        started = time.monotonic()
        result = await call(tools, "good")
        assert result.error
        assert time.monotonic() - started < 50
        (await tools.list_tools())
        assert (await call(tools, "good")).error  # by a new child, or by the same one
        assert len(children() - before) <= 1
    assert children() == before


async def test_nonsense_between_messages_is_skipped(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, bad=program("bad_server.py", "nonsense"))) as tools:
        assert (await call(tools, "good")).text == "done"


async def test_texts_may_have_as_many_brackets_as_they_like(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, bad=program("bad_server.py", "brackets"))) as tools:
        result = await call(tools, "good")
        assert (result.error, result.text[:4]) == (False, "[{[{")


async def test_texts_that_were_cut_inside_of_a_character_are_read(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, bad=program("bad_server.py", "cut-texts"))) as tools:
        result = await call(tools, "good")
        assert (result.error, result.text) == (False, "\ufffd\n\U0001f600\n\ufffd\\ud83d\n\ufffd")


async def test_of_thousands_of_tools_only_the_first_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with aclosing(tools_of(tmp_path, bad=program("bad_server.py", "unreadable"))) as tools:
        listing = await tools.list_tools()
        assert (listing.tools, listing.failures) == ((), {})
    assert 1024 <= len(caplog.messages) <= 1030
    assert "lists 2001 tools; only 1024 are read" in caplog.text


async def test_pages_are_listed_to_the_end(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, bad=program("bad_server.py", "pages"))) as tools:
        assert [tool.name for tool in (await tools.list_tools()).tools] == ["tool0", "tool1", "tool2", "tool3"]


async def test_tools_whose_definitions_cannot_be_used_are_left_out(tmp_path: Path) -> None:
    for limits, fault in ((ToolLimits(time=3, schema=2_000), "lies"), (ToolLimits(time=3), "odd")):
        async with aclosing(tools_of(tmp_path, limits, bad=program("bad_server.py", fault))) as tools:
            listing = await tools.list_tools()
            assert [tool.name for tool in listing.tools] == ["good"]
            assert (await call(tools, "good")).text == "done"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("endless-pages", "pages without an end"),
        ("many", "more than 256 tools"),
        ("heavy", "Connection closed"),
        ("no-list", "ListToolsResult"),
        ("silent", "does not answer within 3 s"),
        ("complains", "the file of settings is missing"),
    ],
)
async def test_a_server_that_cannot_be_listed_is_reported_and_the_others_work(
    tmp_path: Path, fault: str, message: str
) -> None:
    before = children()
    bad, good = program("bad_server.py", fault), program("bad_server.py", "none")
    async with aclosing(tools_of(tmp_path, ToolLimits(time=3, listing=3), bad=bad, good=good)) as tools:
        listing = await tools.list_tools()
        assert [tool.name for tool in listing.tools] == ["good"]
        assert [*listing.failures] == ["bad"]
        assert message in listing.failures["bad"]
        assert (await call(tools, "good")).text == "done"
        with pytest.raises(ToolServerError):
            await tools.servers["bad"].list_tools()
    assert children() == before


async def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, bad={"command": "no-such-program"})) as tools:
        assert (await tools.list_tools()).failures["bad"] == "no-such-program: No such file or directory"


async def test_a_cancelled_call_ends_and_leaves_the_child_to_others(tmp_path: Path) -> None:
    before = children()
    async with aclosing(tools_of(tmp_path, ToolLimits(time=60), calc=program("sdk_server.py", "stdio"))) as tools:
        slow = asyncio.ensure_future(call(tools, "wait", seconds=60))
        await asyncio.sleep(2.5)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await call(tools, "count")).text == "1"
    assert children() == before


async def test_a_listing_that_is_cancelled_leaves_no_child(tmp_path: Path) -> None:
    before = children()
    limits = ToolLimits(listing=3)
    async with aclosing(tools_of(tmp_path, limits, bad=program("bad_server.py", "silent"))) as tools:
        # All callers share one listing of all servers, which continues when one of them leaves, until its time is over.
        for shared in (False, True):
            listed: Coroutine[None, None, object] = tools.list_tools() if shared else tools.servers["bad"].list_tools()
            listing = asyncio.ensure_future(listed)
            while len(children() - before) != 1:
                await asyncio.sleep(0.05)
            listing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listing
            assert len(children() - before) == shared
        for _ in range(200):
            await asyncio.sleep(0.05)
            if children() == before:
                return
        raise AssertionError("the child is still there")


async def test_a_hundred_sessions_at_once_share_one_child_and_each_has_its_answer(tmp_path: Path) -> None:
    async with aclosing(tools_of(tmp_path, ToolLimits(time=30), calc=program("sdk_server.py", "stdio"))) as tools:
        found = await asyncio.gather(*(call(tools, "add", a=i, b=1) for i in range(100)))
        assert [int(result.text) for result in found] == [i + 1 for i in range(100)]


@pytest.mark.parametrize(
    "url", ["https://localhost:1/mcp", "https://127.0.0.1/mcp", "https://[::1]/mcp", "https://169.254.169.254/"]
)
async def test_a_server_that_a_request_names_is_not_looked_for_at_private_addresses(url: str) -> None:
    from unspool.tools.mcp import MCPToolServer

    asked = MCPToolServer("asked", Target((("http", url), ("sse", url)), public=True), limits=LIMITS)
    async with aclosing(Tools([asked])) as tools:
        assert "is not a public address" in (await tools.list_tools()).failures["asked"]
