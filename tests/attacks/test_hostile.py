"""Attacks of further kinds: odd HTTP, and dialect files."""

import itertools
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .clients import exchange
from .victim import QUICK, Victim, attacks, recordings, victim

PARSE = "/parse"
EXAMPLE = "\n[[examples]]\nraw = 'hello'\ncontent = 'hello'\n"
THOUGHTS = "name = 'a'\nreasoning = '<t>{reasoning}</t>'\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with victim(
        recordings(tmp_path_factory.mktemp("r")), "--dialect", "hermes", "--max-head", "1", "--max-receive", "1"
    ) as found:
        yield found


# -- odd HTTP ----------------------------------------------------------------------------------------------------------

BODY = json.dumps({"messages": [{"role": "user", "content": QUICK}]}).encode()
JSON = b"Content-Type: application/json\r\n"
SIZED = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


def post(*headers: bytes, body: bytes = BODY, line: bytes = b"POST /v1/chat/completions HTTP/1.1") -> bytes:
    return line + b"\r\nHost: localhost\r\n" + b"".join(headers) + b"\r\n" + body


ODD: dict[str, tuple[bytes, tuple[bytes, ...]]] = {
    "two hosts": (post(b"Host: evil.example\r\n", JSON, SIZED), (b"400",)),
    "two hosts that are equal": (post(b"Host: localhost\r\n", JSON, SIZED), (b"400",)),
    "two origins": (post(b"Origin: http://localhost\r\nOrigin: http://evil.example\r\n", JSON, SIZED), (b"400",)),
    "two types": (post(JSON, b"Content-Type: text/plain\r\n", SIZED), (b"400",)),
    "two lengths": (post(JSON, SIZED, b"Content-Length: 1\r\n"), (b"400",)),
    "a length and chunks": (post(JSON, SIZED, CHUNKED, body=CHUNKS), (b"400",)),
    "chunks that are not last": (post(JSON, b"Transfer-Encoding: chunked, gzip\r\n", body=CHUNKS), (b"400", b"501")),
    "a length below zero": (post(JSON, b"Content-Length: -1\r\n"), (b"400",)),
    "a length beyond all bounds": (post(JSON, b"Content-Length: 99999999999999999999999\r\n"), (b"400",)),
    "a chunk beyond all bounds": (post(JSON, CHUNKED, body=b"f" * 30 + b"\r\n" + BODY), (b"400",)),
    "extensions of chunks": (post(JSON, CHUNKED, body=b"1;" + b"x" * 3_000_000 + b"\r\n"), (b"431", b"400", b"")),
    "a folded header": (post(b"X: a\r\n b\r\n", JSON, SIZED), (b"400", b"200")),
    "a header with a null": (post(b"X: a\0b\r\n", JSON, SIZED), (b"400",)),
    "a name with a space": (post(b"Host : evil.example\r\n", JSON, SIZED), (b"400",)),
    "an absolute target": (post(JSON, SIZED, line=b"POST http://evil.example/x HTTP/1.1"), (b"200", b"400", b"404")),
    "bytes that are no text": (post(JSON, SIZED, line=b"POST /\xff\xfe%ff%00/../x HTTP/1.1"), (b"400", b"404", b"405")),
    "another version": (post(JSON, SIZED, line=b"POST /v1/chat/completions HTTP/9.9"), (b"400", b"505")),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (b"400", b"505", b"404", b"405")),
    "a greeting of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500, (b"400",)),
    "an endless line": (b"GET /" + b"a" * 3_000_000, (b"431", b"400", b"")),
    "a body that nobody announced": (post(JSON, body=BODY * 100), (b"400",)),
    "a body in very many chunks": (post(JSON, CHUNKED, body=b"1\r\n \r\n" * 100_000), (b"413",)),
    "a body that is compressed": (post(JSON, b"Content-Encoding: gzip\r\n", SIZED), (b"415",)),
}


def test_odd_http_is_answered_in_good_order(server: Victim) -> None:
    for _ in attacks(server):
        for name, (sent, allowed) in ODD.items():
            for _ in range(3):
                status = exchange(server.port, sent)[9:12]
                assert status in allowed, (name, status)


def test_a_thousand_requests_in_one_piece_are_answered_in_turn(server: Victim) -> None:
    for _ in attacks(server):
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as one:
            one.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            got = b""
            while got.count(b"HTTP/1.1 200") < 1000:
                data = one.recv(65_536)
                assert data, got[-500:]
                got += data


# -- dialect files and policies ----------------------------------------------------------------------------------------


def parsed(server: Victim, toml: str, text: str = "hello") -> tuple[int, str]:
    return server.ask(PARSE, {"text": text, "toml": toml})


@pytest.mark.attacks
def test_dialect_files_that_are_as_large_as_allowed_leave_nothing_behind(server: Victim) -> None:
    count = itertools.count()

    for _ in attacks(server):
        for _ in range(250):
            mark = f"{next(count)}" + "x" * 470
            lists = [("reasoning", "{reasoning}</t>"), ("calls", "{calls}</c>"), ("call", "{name} {arguments}</d>")]
            toml = "name = 'a'\n"
            for key, rest in (*lists, ("end", "")):
                listed = ",".join(f"'<{key}{mark}{i}>{rest}'" for i in range(15))
                toml += f"{key} = [{listed}]\n"
            status, text = parsed(server, toml + EXAMPLE)
            assert status == 200, text[:300]


SKIPPED = "{any}x" * 60 + "{name}{arguments}"
BAD_FILES = {
    "a long number": THOUGHTS + "id = " + "9" * 30_000,
    "a long number in an example": THOUGHTS + "[[examples]]\nraw = 'x'\ncontent = " + "9" * 30_000,
    "a number beyond all bounds": THOUGHTS + "stage = 1e999999999\n",
    "a date": THOUGHTS + "stage = 9999-99-99\n",
    "a surrogate": THOUGHTS + "end = '\ud800'\n" + EXAMPLE,
    "an escaped surrogate": THOUGHTS + 'end = "\\ud800"\n' + EXAMPLE,
    "a null": THOUGHTS + 'end = "\\u0000"\n' + EXAMPLE,
    "tables in tables": THOUGHTS + "policy = " + "{a = " * 800 + "1" + "}" * 800,
    "many keys": THOUGHTS + "".join(f"k{i} = 1\n" for i in range(3000)),
    "a long key": THOUGHTS + "k" * 20_000 + " = 1\n",
    "many tools": THOUGHTS + "tools = {" + ",".join(f"t{i} = 'x'" for i in range(2000)) + "}\n",
    "many examples": THOUGHTS + "[[examples]]\nraw = '<t>'\n" * 1000,
    "itself as a base": "name = 'a'\nbase = 'a'\n" + EXAMPLE,
    "a path as a base": "name = 'a'\nbase = '../../../../etc/passwd'\n" + EXAMPLE,
    "only braces": "name = 'a'\ncall = '" + "{" * 500 + "'\n" + EXAMPLE,
    "many fields": "name = 'a'\ncall = '" + "{name}" * 80 + "{arguments}'\n" + EXAMPLE,
    "only white space": "name = 'a'\nreasoning = '" + " " * 500 + "{reasoning}" + "'\n" + EXAMPLE,
    "many skipped texts": f"name = 'a'\ncall = ['<c>{{name}} {{arguments}}</c>', '{SKIPPED}']\n{EXAMPLE}",
}


@pytest.mark.parametrize("path", [PARSE, "/ui/check", "/ui/grammar", "/ui/protocol"])
def test_odd_dialect_files_are_read_or_refused_at_once(server: Victim, path: str) -> None:
    more: dict[str, dict[str, Any]] = {
        PARSE: {"text": "<t>x</t>" * 200},
        "/ui/grammar": {"tools": [{"type": "function", "function": {"name": "f"}}]},
        "/ui/protocol": {"text": "<t>x</t>" * 200, "protocol": "responses"},
    }

    for _ in attacks(server):
        for name, toml in BAD_FILES.items():
            taken = server.stopwatch()
            status, text = server.ask(path, {"toml": toml, **more.get(path, {})})
            assert (status in (200, 400), taken() < 5) == (True, True), (name, text[:300])
            assert len(text) < 2_000_000


CALLED = '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": '


@pytest.mark.parametrize("arguments", ['"', "@@ ", '"x" @ '])
def test_fences_that_close_no_call_take_about_as_long_as_letters(server: Victim, arguments: str) -> None:
    def taken(unit: str) -> float:
        began = time.monotonic()
        status, text = server.ask(PARSE, {"text": CALLED + arguments + unit * 200_000, "dialect": "deepseek"})
        assert status == 200, text[:300]
        return time.monotonic() - began

    for _ in attacks(server):
        ratio = min(taken("`") / taken("x") for _ in range(3))
        assert ratio < 20, f"{ratio:.0f} times as long"
